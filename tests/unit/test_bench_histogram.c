/* The load tool's histogram: exact where it says so, and within its error elsewhere, beside a sorted array of the same values. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "tools/darter-bench/histogram.h"
#include "tools/darter-bench/random.h"

#define WORST 0.01 /* what is promised */

static struct histogram h, other;

static void assert_near(double found, double right) {
    if (fabs(found - right) > right * WORST) fail_msg("%g instead of %g", found, right);
}

static void bins_join_without_gap(void **state) {
    (void)state;
    assert_int_equal(histogram_bin_start(0), 0);
    for (uint32_t i = 0; i < HISTOGRAM_BINS; i++) {
        uint64_t start = histogram_bin_start(i), end = histogram_bin_end(i);
        assert_true(end > start);
        assert_int_equal(histogram_bin(start), i);
        assert_int_equal(histogram_bin(end - 1), i);
        if (i + 1 < HISTOGRAM_BINS) assert_int_equal(histogram_bin(end), i + 1);
        /* Half of its width is the error. */
        assert_true(start < 64 || (double)(end - start) / 2 <= WORST * (double)start);
    }
    assert_int_equal(histogram_bin(UINT64_MAX), HISTOGRAM_BINS - 1);
}

static void small_values_are_exact(void **state) {
    (void)state;
    histogram_clear(&h);
    for (uint64_t v = 0; v < 64; v++) histogram_add(&h, v, 1);
    assert_int_equal(h.count, 64);
    assert_true(histogram_percentile(&h, 50) == 31);
    assert_true(histogram_percentile(&h, 100) == 63);
    assert_true(histogram_percentile(&h, 0) == 0);
    assert_true(histogram_mean(&h) == 31.5);
}

static int by_size(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* Values of every size, from ns to minutes. */
static void percentiles_are_within_a_hundredth(void **state) {
    (void)state;
    enum { COUNT = 100000 };
    static uint64_t values[COUNT];
    static const double percents[] = {0.1, 1, 10, 25, 50, 75, 90, 99, 99.9, 99.99, 100};
    struct random r;
    for (uint64_t seed = 0; seed < 4; seed++) {
        double sum = 0, squares = 0;
        random_seed(&r, seed);
        histogram_clear(&h);
        for (int i = 0; i < COUNT; i++) {
            values[i] = (uint64_t)exp(random_unit(&r) * 25);
            histogram_add(&h, values[i], 1);
            sum += (double)values[i];
        }
        double mean = sum / COUNT;
        for (int i = 0; i < COUNT; i++) squares += ((double)values[i] - mean) * ((double)values[i] - mean);
        qsort(values, COUNT, sizeof *values, by_size);
        for (size_t i = 0; i < sizeof percents / sizeof *percents; i++)
            assert_near(histogram_percentile(&h, percents[i]), (double)values[(size_t)ceil(percents[i] / 100 * COUNT) - 1]);
        assert_near(histogram_mean(&h), mean);
        assert_near(histogram_deviation(&h), sqrt(squares / COUNT));
        assert_int_equal(h.min, values[0]);
        assert_int_equal(h.max, values[COUNT - 1]);
        assert_true(histogram_percentile(&h, 100) <= (double)h.max);
        assert_true(histogram_percentile(&h, 0) >= (double)h.min);
    }
}

static void one_value_is_all_its_percentiles(void **state) {
    (void)state;
    histogram_clear(&h);
    histogram_add(&h, 123457, 1000);
    assert_true(
        histogram_percentile(&h, 0) == 123457 && histogram_percentile(&h, 50) == 123457 && histogram_percentile(&h, 99.99) == 123457);
    assert_near(histogram_mean(&h), 123457);
    assert_true(histogram_deviation(&h) < 1234);
}

static void nothing_is_zero(void **state) {
    (void)state;
    histogram_clear(&h);
    assert_true(histogram_percentile(&h, 99) == 0 && histogram_mean(&h) == 0 && histogram_deviation(&h) == 0);
}

static void merging_is_as_adding_to_one(void **state) {
    (void)state;
    static struct histogram both, empty;
    struct random r;
    random_seed(&r, 1);
    histogram_clear(&h);
    histogram_clear(&other);
    histogram_clear(&both);
    for (int i = 0; i < 10000; i++) {
        uint64_t value = random_below(&r, 1000000) + 5, n = 1 + random_below(&r, 3);
        histogram_add(i % 3 ? &h : &other, value, n);
        histogram_add(&both, value, n);
    }
    histogram_merge(&h, &empty);
    histogram_merge(&h, &other);
    assert_int_equal(h.count, both.count);
    assert_int_equal(h.min, both.min);
    assert_int_equal(h.max, both.max);
    assert_memory_equal(h.bins, both.bins, sizeof h.bins);
    assert_true(fabs(histogram_mean(&h) - histogram_mean(&both)) < 1e-6);
    histogram_clear(&other);
    histogram_merge(&other, &h);
    assert_int_equal(other.min, both.min);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bins_join_without_gap),
        cmocka_unit_test(small_values_are_exact),
        cmocka_unit_test(percentiles_are_within_a_hundredth),
        cmocka_unit_test(one_value_is_all_its_percentiles),
        cmocka_unit_test(nothing_is_zero),
        cmocka_unit_test(merging_is_as_adding_to_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
