#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/glob.h"

static bool match(const char *pattern, const char *text) { return glob_match(pattern, strlen(pattern), text, strlen(text), false); }

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
    assert_true(glob_match("*\0", 2, "end\0", 4, false));
    assert_false(glob_match("*\0", 2, "end", 3, false));
    assert_true(glob_match("a?b", 3, "a\0b", 3, false));
    assert_true(glob_match("\xff*", 2, "\xff\xfe", 2, false));
}

static void case_can_be_ignored(void **state) {
    assert_true(glob_match("MaxMem*", 7, "maxmemory", 9, true));
    assert_true(glob_match("[A-C]x", 6, "bX", 2, true));
    assert_false(glob_match("MaxMem*", 7, "maxmemory", 9, false));
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
    assert_false(glob_match(pattern, 2000, text, 100000, false));
    text[99999] = 'b';
    pattern[1999] = '*';
    assert_true(glob_match(pattern, 2000, text, 100000, false));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(patterns_match_as_in_redis),
        cmocka_unit_test(bytes_are_bytes),
        cmocka_unit_test(case_can_be_ignored),
        cmocka_unit_test(stars_agree_with_a_naive_matcher),
        cmocka_unit_test(many_stars_multiply_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
