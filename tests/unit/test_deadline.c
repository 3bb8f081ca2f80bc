#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/deadline.h"
#include "tests/lib/random.h"

#define N 300u

static void the_next_is_always_the_earliest(void **state) {
    (void)state;
    static struct deadline d[N];
    struct deadlines x = {0};
    struct random dice;
    random_seed(&dice, 7, 0);
    assert_true(deadlines_next_ns(&x) == UINT64_MAX);
    for (uint32_t step = 0; step < 50000; step++) {
        struct deadline *one = &d[below(&dice, N)];
        if (one->place) deadlines_remove(&x, one);
        else {
            one->at_ns = below(&dice, 1 << 14);
            assert_true(deadlines_add(&x, one));
        }
        uint64_t next = UINT64_MAX;
        uint32_t n = 0;
        for (uint32_t i = 0; i < N; i++) {
            n += d[i].place != 0;
            if (d[i].place && d[i].at_ns < next) next = d[i].at_ns;
        }
        assert_int_equal(x.n, n);
        assert_true(deadlines_next_ns(&x) == next);
    }
    deadlines_drop(&x);
}

static void what_is_not_there_is_removed_without_harm(void **state) {
    (void)state;
    struct deadline d = {.at_ns = 1};
    struct deadlines x = {0};
    deadlines_remove(&x, &d);
    assert_true(deadlines_add(&x, &d));
    deadlines_remove(&x, &d);
    deadlines_remove(&x, &d);
    assert_int_equal(x.n, 0);
    deadlines_drop(&x);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_is_always_the_earliest),
        cmocka_unit_test(what_is_not_there_is_removed_without_harm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
