#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shard/power.h"

static void next_power_around_128(void **state) {
    (void)state;
    assert_int_equal(power_next(126), 128);
    assert_int_equal(power_next(127), 128);
    assert_int_equal(power_next(128), 128);
    assert_int_equal(power_next(129), 256);
}

static void next_power_around_2_61(void **state) {
    (void)state;
    const uint64_t power = (uint64_t)1 << 61;
    assert_true(power_next(power - 1) == power);
    assert_true(power_next(power) == power);
    assert_true(power_next(power + 1) == power << 1);
}

static void next_power_at_the_ends(void **state) {
    (void)state;
    const uint64_t highest = (uint64_t)1 << 63;
    assert_int_equal(power_next(0), 1);
    assert_int_equal(power_next(1), 1);
    assert_int_equal(power_next(2), 2);
    assert_int_equal(power_next(3), 4);
    assert_true(power_next(highest - 1) == highest);
    assert_true(power_next(highest) == highest);
}

static void next_power_and_log2_around_every_power(void **state) {
    (void)state;
    assert_int_equal(power_log2(0), 0);
    for (unsigned i = 2; i < 63; i++) {
        const uint64_t power = (uint64_t)1 << i;
        assert_true(power_next(power - 1) == power);
        assert_true(power_next(power) == power);
        assert_true(power_next(power + 1) == power << 1);
        assert_int_equal(power_log2(power - 1), i - 1);
        assert_int_equal(power_log2(power), i);
        assert_int_equal(power_log2(power + 1), i);
    }
}

static void counting_without_the_builtin_agrees_with_it(void **state) {
    (void)state;
    uint64_t x = 1;
    for (unsigned zeros = 0; zeros < 64; zeros++) {
        const uint64_t highest = (uint64_t)1 << (63 - zeros);
        assert_int_equal(power_leading_zeros_plain(highest), zeros);
        for (int i = 0; i < 100; i++) {
            x = x * 6364136223846793005u + 1442695040888963407u;
            assert_int_equal(power_leading_zeros_plain(highest | x >> zeros), zeros);
            assert_int_equal(power_leading_zeros(highest | x >> zeros), zeros);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(next_power_around_128),
        cmocka_unit_test(next_power_around_2_61),
        cmocka_unit_test(next_power_at_the_ends),
        cmocka_unit_test(next_power_and_log2_around_every_power),
        cmocka_unit_test(counting_without_the_builtin_agrees_with_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
