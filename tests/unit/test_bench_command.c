/* The load tool's requests: the bytes that go out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/darter-bench/command.h"

struct fixture {
    struct source source;
    struct command command;
    char *bytes;
    size_t size;
};

/* Keys count up from first, values and scores too. */
static void prepare(struct fixture *f, const char *line, uint64_t first, uint64_t size_min, uint64_t size_max, bool random_data) {
    struct keys_options keys = {.distribution = 'S', .minimum = first, .maximum = UINT64_MAX, .slices = 1};
    assert_int_equal(source_init(&f->source, 1, &keys, "key:", size_min, size_max, random_data, true), 0);
    const char *wrong = command_init(&f->command, line, &f->source);
    if (wrong) fail_msg("%s: %s", line, wrong);
    f->bytes = malloc(f->command.size_max + 1);
}

static const char *next(struct fixture *f) {
    char *end = command_write(&f->command, &f->source, f->bytes);
    f->size = (size_t)(end - f->bytes);
    assert_true(f->size <= f->command.size_max);
    *end = 0;
    return f->bytes;
}

static void end(struct fixture *f) {
    free(f->bytes);
    command_finish(&f->command);
    source_finish(&f->source);
}

static void fills_in_a_key(void **state) {
    (void)state;
    struct fixture f;
    prepare(&f, "GET __key__", 8, 16, 16, false);
    assert_string_equal(next(&f), "*2\r\n$3\r\nGET\r\n$5\r\nkey:8\r\n");
    assert_string_equal(next(&f), "*2\r\n$3\r\nGET\r\n$5\r\nkey:9\r\n");
    assert_string_equal(next(&f), "*2\r\n$3\r\nGET\r\n$6\r\nkey:10\r\n");
    end(&f);
    prepare(&f, "GET __key__", 12345678901234567, 16, 16, false);
    assert_string_equal(next(&f), "*2\r\n$3\r\nGET\r\n$21\r\nkey:12345678901234567\r\n");
    end(&f);
    prepare(&f, "GET __key__", UINT64_MAX, 16, 16, false);
    assert_string_equal(next(&f), "*2\r\n$3\r\nGET\r\n$24\r\nkey:18446744073709551615\r\n");
    end(&f);
}

static void fills_in_data_and_scores(void **state) {
    (void)state;
    struct fixture f;
    prepare(&f, "zadd __key__ __score__ m:__data__:end", 1, 4, 4, false);
    assert_string_equal(next(&f), "*4\r\n$4\r\nzadd\r\n$5\r\nkey:1\r\n$1\r\n0\r\n$10\r\nm:0001:end\r\n");
    assert_string_equal(next(&f), "*4\r\n$4\r\nzadd\r\n$5\r\nkey:2\r\n$1\r\n2\r\n$10\r\nm:0003:end\r\n");
    end(&f);
}

static void draws_a_new_key_for_each_place(void **state) {
    (void)state;
    struct fixture f;
    prepare(&f, "MGET {x}__key__-__key__ __key__", 1, 4, 4, false);
    assert_string_equal(next(&f), "*3\r\n$4\r\nMGET\r\n$14\r\n{x}key:1-key:2\r\n$5\r\nkey:3\r\n");
    end(&f);
}

static void sends_words_without_places_as_they_are(void **state) {
    (void)state;
    struct fixture f;
    prepare(&f, "  CONFIG\tGET  _key_ ", 1, 4, 4, false);
    assert_string_equal(next(&f), "*3\r\n$6\r\nCONFIG\r\n$3\r\nGET\r\n$5\r\n_key_\r\n");
    end(&f);
    prepare(&f, "EVAL \"return '\\x41\\n'\" 0 '' 'it\\'s' \"a __key__\"", 1, 4, 4, false);
    assert_string_equal(next(&f), "*6\r\n$4\r\nEVAL\r\n$11\r\nreturn 'A\n'\r\n$1\r\n0\r\n$0\r\n\r\n$4\r\nit's\r\n$7\r\na key:1\r\n");
    end(&f);
}

static void values_have_the_sizes_asked_for(void **state) {
    (void)state;
    static const uint64_t sizes[] = {0, 1, 9, 10, 99, 100, 999, 1000, 100000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int random_data = 0; random_data < 2; random_data++) {
            struct fixture f;
            char frame[64];
            prepare(&f, "set k __data__", 1, sizes[i], sizes[i], random_data);
            next(&f);
            size_t length = (size_t)snprintf(frame, sizeof frame, "*3\r\n$3\r\nset\r\n$1\r\nk\r\n$%lu\r\n", (unsigned long)sizes[i]);
            assert_int_equal(f.size, length + sizes[i] + 2);
            assert_memory_equal(f.bytes, frame, length);
            assert_string_equal(f.bytes + f.size - 2, "\r\n");
            assert_int_equal(strlen(f.bytes), f.size); /* letters and digits */
            end(&f);
        }
}

static void values_of_a_range_have_all_its_sizes(void **state) {
    (void)state;
    struct fixture f;
    unsigned seen[13] = {0};
    prepare(&f, "set k __data__", 1, 8, 12, true);
    for (int i = 0; i < 1000; i++) {
        unsigned long size = strtoul(strrchr(next(&f), '$') + 1, NULL, 10);
        assert_true(size >= 8 && size <= 12);
        seen[size]++;
    }
    for (int size = 8; size <= 12; size++) assert_true(seen[size] > 100);
    end(&f);
}

static void random_values_differ(void **state) {
    (void)state;
    struct fixture f;
    char before[64] = "";
    prepare(&f, "set k __data__", 1, 16, 16, true);
    for (int i = 0; i < 100; i++) {
        assert_string_not_equal(next(&f), before);
        strcpy(before, f.bytes);
    }
    end(&f);
}

static void says_what_is_no_command(void **state) {
    (void)state;
    static const char *const wrong[] = {"", "   ", "get 'x", "get \"x", "get \"x\"y", "get 'a'b"};
    struct source s = {.key_prefix_size = 4, .size_max = 16};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct command c;
        assert_non_null(command_init(&c, wrong[i], &s));
        assert_null(c.parts);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fills_in_a_key),
        cmocka_unit_test(fills_in_data_and_scores),
        cmocka_unit_test(draws_a_new_key_for_each_place),
        cmocka_unit_test(sends_words_without_places_as_they_are),
        cmocka_unit_test(values_have_the_sizes_asked_for),
        cmocka_unit_test(values_of_a_range_have_all_its_sizes),
        cmocka_unit_test(random_values_differ),
        cmocka_unit_test(says_what_is_no_command),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
