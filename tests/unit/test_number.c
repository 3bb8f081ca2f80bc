#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "server/number.h"

static void floats_are_written_without_exponent_or_noise(void **state) {
    static const struct {
        long double value;
        const char *text;
    } cases[] = {{0, "0"}, {-0.0L, "0"}, {1, "1"}, {10, "10"}, {100, "100"}, {0.1L, "0.1"}, {-0.5L, "-0.5"}, {3.0e3L, "3000"},
        {25e-17L, "0.00000000000000025"}, {1e-18L, "0"}, {-1e-18L, "0"}, {200000000000000300000.0L, "200000000000000300000"},
        {0.1L + 0.2L, "0.3"}};
    char text[LONG_DOUBLE_TEXT_SIZE];
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t size = format_long_double(text, cases[i].value);
        assert_int_equal(size, strlen(cases[i].text));
        assert_memory_equal(text, cases[i].text, size);
    }
    size_t size = format_long_double(text, 1e4932L);
    assert_int_equal(size, 4933);
}

static void only_whole_numbers_are_read(void **state) {
    static const char *const bad[] = {"", " ", " 1", "1 ", "1x", "x", "nan", "-nan", "1e5000", "1e-5000", "--1", "1.0.0", "0x"};
    long double v;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(parse_long_double(bad[i], strlen(bad[i]), &v));
    assert_false(parse_long_double("1\0002", 3, &v));
    assert_true(parse_long_double("1.5e3", 5, &v) && v == 1500);
    assert_true(parse_long_double("-.5", 3, &v) && v == -0.5L);
    assert_true(parse_long_double("0x1p4", 5, &v) && v == 16);
    assert_true(parse_long_double("inf", 3, &v) && v > 1e4932L);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(floats_are_written_without_exponent_or_noise),
        cmocka_unit_test(only_whole_numbers_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
