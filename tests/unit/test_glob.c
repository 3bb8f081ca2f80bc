#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/glob.h"

static bool match(const char *pattern, const char *text) { return glob_match(pattern, strlen(pattern), text, strlen(text), false, NULL); }

static void patterns_match_as_in_redis(void **state) {
    static const struct {
        const char *pattern, *text;
        bool matches;
    } cases[] = {{"", "", true}, {"", "a", false}, {"*", "a", true}, {"*", "", false}, {"**", "", false}, {"**", "ab", true},
        {"a", "a", true}, {"a", "b", false}, {"a", "ab", false}, {"a*", "a", true}, {"a**", "a", true}, {"a*", "abc", true},
        {"*c", "abc", true}, {"*b", "abc", false}, {"a*c", "abbc", true}, {"a*b*c", "aXbYc", true}, {"a*b*c", "aXcYb", false},
        {"?", "a", true}, {"?", "", false}, {"??", "a", false}, {"h?llo", "hello", true}, {"h[ae]llo", "hallo", true},
        {"h[ae]llo", "hillo", false}, {"h[^e]llo", "hallo", true}, {"h[^e]llo", "hello", false}, {"h[a-b]llo", "hbllo", true},
        {"h[b-a]llo", "hbllo", true}, {"h[a-b]llo", "hcllo", false}, {"[\\]]", "]", true}, {"[\\]]", "\\", false}, {"[a-]", "^", true},
        {"[a-]", "-", false}, {"[-a]", "-", true}, {"[a", "a", true}, {"[a", "b", false}, {"[^a", "b", true}, {"[", "a", false},
        {"[^", "a", true}, {"[]", "a", false}, {"[]a", "a", false}, {"\\*", "*", true}, {"\\*", "a", false}, {"\\", "\\", true},
        {"\\a", "a", true}, {"a\\", "a\\", true}, {"*\\*", "ab*", true}, {"*[ab]", "xxb", true}, {"*[ab]c", "xbbc", true},
        {"*?", "a", true}, {"?*", "a", true}, {"*a*", "bab", true}, {"key:*:x", "key:1:2:x", true}, {"*ab", "aab", true},
        {"a]", "a]", true}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        if (match(cases[i].pattern, cases[i].text) != cases[i].matches) fail_msg("'%s' on '%s'", cases[i].pattern, cases[i].text);
}

static void bytes_are_bytes(void **state) {
    assert_true(glob_match("*\0", 2, "end\0", 4, false, NULL));
    assert_false(glob_match("*\0", 2, "end", 3, false, NULL));
    assert_true(glob_match("a?b", 3, "a\0b", 3, false, NULL));
    assert_true(glob_match("\xff*", 2, "\xff\xfe", 2, false, NULL));
}

static void case_can_be_ignored(void **state) {
    assert_true(glob_match("MaxMem*", 7, "maxmemory", 9, true, NULL));
    assert_true(glob_match("[A-C]x", 6, "bX", 2, true, NULL));
    assert_false(glob_match("MaxMem*", 7, "maxmemory", 9, false, NULL));
}

/* The obvious way: exponential, so only for small texts. */
static bool naive(const char *p, const char *t) {
    if (*p == 0) return *t == 0;
    if (*p == '*') {
        if (*t && naive(p, t + 1)) return true;
        return naive(p + 1, t);
    }
    return *t && (*p == '?' || *p == *t) && naive(p + 1, t + 1);
}

static void stars_agree_with_a_naive_matcher(void **state) {
    uint64_t random = 88172645463325252u;
    unsigned matched = 0;
    for (int i = 0; i < 200000; i++) {
        char pattern[10], text[12];
        size_t pattern_size = 1 + i % 9, size = 1 + i / 9 % 10;
        for (size_t j = 0; j < pattern_size + size; j++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            if (j < pattern_size) pattern[j] = "ab?**"[random % 5];
            else text[j - pattern_size] = "ab"[random % 2];
        }
        pattern[pattern_size] = 0;
        text[size] = 0;
        bool expected = naive(pattern, text);
        matched += expected;
        if (match(pattern, text) != expected) fail_msg("'%s' on '%s'", pattern, text);
    }
    assert_true(matched > 10000);
}

/* Would take longer than the universe if each star were tried again and again. */
static void many_stars_multiply_nothing(void **state) {
    static char pattern[2001], text[100001];
    for (size_t i = 0; i < 2000; i += 2) memcpy(pattern + i, "a*", 2);
    pattern[1999] = 'b';
    memset(text, 'a', 100000);
    assert_false(glob_match(pattern, 2000, text, 100000, false, NULL));
    text[99999] = 'b';
    pattern[1999] = '*';
    assert_true(glob_match(pattern, 2000, text, 100000, false, NULL));
}

/* A client chooses both pattern and text: neither their product nor a class of a megabyte is gone through. */
static void the_steps_of_a_match_are_bounded(void **state) {
    enum { LONG = 1 << 20 };
    static char pattern[LONG + 2], text[LONG];
    uint64_t steps = 0;
    memset(pattern, 'a', sizeof pattern);
    memset(text, 'a', sizeof text);
    pattern[0] = '*';
    pattern[LONG / 2] = 'b';
    assert_false(glob_match(pattern, LONG / 2 + 1, text, LONG, false, &steps));
    assert_in_range(steps, LONG, 5 * LONG);
    steps = 0;
    pattern[1] = '[';
    pattern[LONG / 2] = 'a';
    assert_false(glob_match(pattern, LONG, "some-name", 9, false, &steps));
    assert_in_range(steps, 4096, 8192);
    steps = 0;
    memset(pattern, '*', sizeof pattern);
    assert_false(glob_match(pattern, LONG, "some-name", 9, false, &steps));
    assert_in_range(steps, 4096, 8192);
}

/* The longest pattern that is always matched, at its slowest. */
static void patterns_of_255_bytes_are_matched_exactly(void **state) {
    char pattern[256] = "*", text[1024];
    memset(pattern + 1, 'a', 253);
    pattern[254] = 'b';
    memset(text, 'a', sizeof text);
    assert_false(glob_match(pattern, 255, text, sizeof text, false, NULL));
    text[sizeof text - 1] = 'b';
    assert_true(glob_match(pattern, 255, text, sizeof text, false, NULL));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_as_in_redis),
        cmocka_unit_test(bytes_are_bytes),
        cmocka_unit_test(case_can_be_ignored),
        cmocka_unit_test(stars_agree_with_a_naive_matcher),
        cmocka_unit_test(many_stars_multiply_nothing),
        cmocka_unit_test(the_steps_of_a_match_are_bounded),
        cmocka_unit_test(patterns_of_255_bytes_are_matched_exactly),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
