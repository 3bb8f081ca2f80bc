/* Histograms of what commands cost: which bucket, percentiles, large counts, sums. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/thread.h"

struct server server; /* main.c's; measure.c leads to the whole server */

static int set_up(void **state) {
    *state = calloc(2, sizeof(struct histogram));
    return !*state;
}

static int tear_down(void **state) {
    free(*state);
    return 0;
}

static void a_percentile_is_at_most_one_step_above_the_value(void **state) {
    struct histogram *h = *state;
    for (uint64_t v = 0; v < (uint64_t)1 << 36; v = v * 9 / 8 + 1) {
        *h = (struct histogram){0};
        histogram_add(h, v, 1);
        uint64_t shown = histogram_percentile(h, 0.5);
        assert_true(shown >= v && shown <= v + v / 16);
    }
}

static void percentiles_hold_beyond_2_to_the_32(void **state) {
    struct histogram *h = *state;
    for (int i = 0; i < 3; i++) histogram_add(h, 10, UINT32_MAX);
    histogram_add(h, 20, UINT32_MAX);
    assert_int_equal(h->n, 4 * (uint64_t)UINT32_MAX);
    assert_int_equal(histogram_percentile(h, 0.5), 10);
    assert_int_equal(histogram_percentile(h, 0.74), 10);
    assert_int_equal(histogram_percentile(h, 0.99), 20);
}

static void the_sum_of_two_holds_beyond_2_to_the_32(void **state) {
    struct histogram *h = *state;
    histogram_add(&h[0], 10, UINT32_MAX);
    histogram_add(&h[1], 10, UINT32_MAX);
    histogram_add(&h[1], 20, 100);
    histogram_merge(&h[0], &h[1]);
    assert_int_equal(h[0].n, 2 * (uint64_t)UINT32_MAX + 100);
    assert_int_equal(histogram_percentile(h, 0.999), 10);
    assert_int_equal(histogram_percentile(h, 1), 20);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_percentile_is_at_most_one_step_above_the_value, set_up, tear_down),
        cmocka_unit_test_setup_teardown(percentiles_hold_beyond_2_to_the_32, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_sum_of_two_holds_beyond_2_to_the_32, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
