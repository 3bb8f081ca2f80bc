/* The heap of timers against a plain array that is searched. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "io/timers.h"

enum { TIMERS = 300, STEPS = 200000 };

static uint64_t random_state = 88172645463325252u;

static uint64_t random_below(uint64_t n) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state % n;
}

/* The model: when each timer is due, 0: it does not run. */
static uint64_t due[TIMERS];

static uint64_t model_next(void) {
    uint64_t next = TIMERS_NONE;
    for (unsigned i = 0; i < TIMERS; i++)
        if (due[i] && due[i] < next) next = due[i];
    return next;
}

static void does_what_the_model_does(void **state) {
    (void)state;
    static struct timer timers[TIMERS];
    struct timers t;
    uint64_t now = 1;
    timers_init(&t);
    assert_int_equal(timers_reserve(&t, TIMERS), 0);
    for (unsigned step = 0; step < STEPS; step++) {
        unsigned i = (unsigned)random_below(TIMERS);
        switch (random_below(4)) {
        case 0:
        case 1: /* few different deadlines, so that many are equal; some have passed already */
            due[i] = now + random_below(200) - (now > 50 ? random_below(50) : 0);
            timers_add(&t, &timers[i], due[i]);
            break;
        case 2:
            due[i] = 0;
            timers_cancel(&t, &timers[i]);
            break;
        case 3:
            now += random_below(5);
            for (struct timer *first; (first = timers_pop_due(&t, now));) {
                size_t n = (size_t)(first - timers);
                assert_true(due[n] && due[n] <= now);
                assert_int_equal(due[n], model_next());
                assert_false(timer_runs(first));
                due[n] = 0;
            }
            assert_true(model_next() > now);
            break;
        }
        assert_int_equal(timer_runs(&timers[i]), due[i] != 0);
        assert_int_equal(timers_next_deadline(&t), model_next());
    }
    timers_free(&t);
}

static void an_empty_heap_has_no_deadline(void **state) {
    (void)state;
    struct timers t;
    struct timer one = {0};
    timers_init(&t);
    assert_true(timers_next_deadline(&t) == TIMERS_NONE);
    assert_null(timers_pop_due(&t, UINT64_MAX));
    timers_cancel(&t, &one);
    assert_int_equal(timers_reserve(&t, 1), 0);
    timers_add(&t, &one, TIMERS_NONE); /* runs, but is never due before the end of time */
    assert_true(timer_runs(&one));
    assert_null(timers_pop_due(&t, TIMERS_NONE - 1));
    assert_ptr_equal(timers_pop_due(&t, TIMERS_NONE), &one);
    timers_free(&t);
}

static void keeps_its_timers_when_it_grows(void **state) {
    (void)state;
    static struct timer timers[10000];
    struct timers t;
    timers_init(&t);
    for (unsigned i = 0; i < 10000; i++) {
        assert_int_equal(timers_reserve(&t, i + 1), 0);
        timers_add(&t, &timers[i], 10000 - i);
    }
    for (unsigned i = 10000; i-- > 0;) assert_ptr_equal(timers_pop_due(&t, 10000), &timers[i]);
    assert_null(timers_pop_due(&t, UINT64_MAX));
    timers_free(&t);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(does_what_the_model_does),
        cmocka_unit_test(an_empty_heap_has_no_deadline),
        cmocka_unit_test(keeps_its_timers_when_it_grows),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
