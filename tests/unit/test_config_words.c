#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/config_words.h"

#define MAX 8

/* Splits a line in memory of exactly its size, so that a sanitizer sees every byte too many. wanted ends with NULL; n < 0: that result. */
static void splits(const char *line, int n, ...) {
    size_t size = strlen(line) + 1;
    char *own = malloc(size), *buffer = malloc(size), *words[MAX];
    assert_non_null(own);
    assert_non_null(buffer);
    memcpy(own, line, size);
    int got = words_split(own, buffer, words, MAX);
    if (got != n) fail_msg("%s: %d words instead of %d", line, got, n);
    va_list wanted;
    va_start(wanted, n);
    for (int i = 0; i < n; i++) assert_string_equal(words[i], va_arg(wanted, const char *));
    va_end(wanted);
    free(own);
    free(buffer);
}

static void splits_at_white_space(void **state) {
    splits("", 0);
    splits(" \t ", 0);
    splits("a", 1, "a");
    splits("  port\t6379  \r\n", 2, "port", "6379");
    splits("a b c d e f g h", 8, "a", "b", "c", "d", "e", "f", "g", "h");
    splits("a b c d e f g h i", WORDS_TOO_MANY);
}

static void knows_quotes(void **state) {
    splits("a \"b c\" 'd e'", 3, "a", "b c", "d e");
    splits("a \"\" ''", 3, "a", "", "");
    splits("a\"b c\"", 1, "ab c");
    splits("\"it's\" 'say \"x\"'", 2, "it's", "say \"x\"");
    splits("a\\nb \\x41", 2, "a\\nb", "\\x41");
}

static void knows_escapes(void **state) {
    splits("\"\\n\\r\\t\\a\\b\"", 1, "\n\r\t\a\b");
    splits("\"\\x41\\xFf\\x4g\\q\\\\\\\"\"", 1, "A\xffx4gq\\\"");
    splits("'\\n\\'\\x'", 1, "\\n'\\x");
}

static void refuses_quotes_that_do_not_end(void **state) {
    splits("a \"b", -1);
    splits("a 'b", -1);
    splits("a \"b\"c", -1);
    splits("a 'b'c", -1);
    splits("\"b\\\"", -1);
    splits("\"b\\", -1);
    splits("'b\\'", -1);
    splits("\"", -1);
}

/* Every byte, and random texts, come back as they were. */
static void reads_back_what_it_quotes(void **state) {
    char text[64], quoted[4 * sizeof text + 3], buffer[sizeof quoted], *words[MAX];
    unsigned seed = 1;
    for (int round = 0; round < 20000; round++) {
        size_t size = 0, n = (size_t)(round < 256 ? 1 : rand_r(&seed) % 63);
        for (; size < n; size++)
            text[size] = (char)(round < 256 ? round : rand_r(&seed) % 4 ? rand_r(&seed) % 256 : "\"'\\ xn"[rand_r(&seed) % 6]);
        text[size] = 0;
        words_quote(text, quoted);
        assert_true(strlen(quoted) < sizeof quoted);
        assert_int_equal(words_split(quoted, buffer, words, MAX), 1);
        assert_string_equal(words[0], text);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(splits_at_white_space),
        cmocka_unit_test(knows_quotes),
        cmocka_unit_test(knows_escapes),
        cmocka_unit_test(refuses_quotes_that_do_not_end),
        cmocka_unit_test(reads_back_what_it_quotes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
