/* The wheel against a naive model: an array of times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shard/memory.h"
#include "shard/wheel.h"
#include "tests/lib/random.h"

#define START_MS INT64_C(1700000000000)
#define SECOND INT64_C(1000)
#define HOUR (3600 * SECOND)
#define YEAR (8766 * HOUR)
#define NOT_ARMED INT64_MIN
#define MODEL_MAX 40000u

static struct random dice = {88172645463325252u};
/* Times are larger than what below() draws. */
static int64_t draw(int64_t n) { return (int64_t)(random_next(&dice) % (uint64_t)n); }

struct model {
    struct memory *memory;
    struct wheel wheel;
    size_t baseline;
    int64_t now_ms;
    uint32_t n, armed;
    uint64_t early;
    int64_t due_ms[MODEL_MAX];
};

/* The numbers of the model's records avoid the bits that the wheel keeps for itself. */
static uint64_t record_of(uint32_t i) { return wheel_record((i & 0x3fffu) | (uint64_t)(i >> 14) << 22, i % 16); }
static uint32_t number_of(uint64_t record) {
    assert_int_equal(record & WHEEL_OWN_BITS, 0);
    uint32_t i = (uint32_t)(wheel_hash(record) & 0x3fff) | (uint32_t)(wheel_hash(record) >> 22 << 14);
    assert_int_equal(wheel_db(record), i % 16);
    return i;
}

static int setup(void **state) {
    struct model *m = calloc(1, sizeof *m);
    m->memory = memory_new(false);
    m->now_ms = START_MS;
    m->baseline = memory_used(m->memory);
    wheel_init(&m->wheel, m->memory, m->now_ms);
    *state = m;
    return 0;
}

static int teardown(void **state) {
    struct model *m = *state;
    wheel_drop(&m->wheel);
    assert_int_equal(m->wheel.records, 0);
    assert_int_equal(memory_used(m->memory), m->baseline);
    memory_drop(m->memory);
    free(m);
    return 0;
}

static uint32_t add(struct model *m, int64_t due_ms) {
    assert_true(m->n < MODEL_MAX);
    assert_int_equal(wheel_add(&m->wheel, due_ms, record_of(m->n)), 0);
    m->due_ms[m->n] = due_ms;
    m->armed++;
    return m->n++;
}

/* Takes all that is due as a caller does: what comes early is added again. Returns how many were really due. */
static uint32_t fire(struct model *m, size_t slice) {
    uint64_t out[300];
    uint32_t fired = 0, rounds = 0;
    for (;;) {
        size_t n = wheel_take_due(&m->wheel, m->now_ms, out, slice);
        assert_true(n <= slice);
        if (!n && wheel_next_due(&m->wheel) > m->now_ms) break;
        for (size_t i = 0; i < n; i++) {
            uint32_t number = number_of(out[i]);
            assert_true(number < m->n);
            assert_true(m->due_ms[number] != NOT_ARMED);
            if (m->due_ms[number] < m->now_ms) {
                m->due_ms[number] = NOT_ARMED;
                fired++;
                m->armed--;
            } else {
                m->early++;
                assert_int_equal(wheel_add(&m->wheel, m->due_ms[number], out[i]), 0);
            }
        }
        assert_true(++rounds < 4 * MODEL_MAX);
    }
    assert_int_equal(m->wheel.records, m->armed);
    return fired;
}

/* Nothing is late: what is still armed is due within a tick or later, and the wheel would wake for it in time. */
static void check(const struct model *m) {
    int64_t first = INT64_MAX;
    for (uint32_t i = 0; i < m->n; i++) {
        if (m->due_ms[i] == NOT_ARMED) continue;
        assert_true(m->due_ms[i] >= m->now_ms - WHEEL_TICK_MS);
        if (m->due_ms[i] < first) first = m->due_ms[i];
    }
    int64_t next = wheel_next_due(&m->wheel);
    if (!m->armed) assert_true(next == INT64_MAX);
    else assert_true(next > m->now_ms && (first > INT64_MAX - WHEEL_TICK_MS || next <= first + WHEEL_TICK_MS));
}

static int64_t random_delay(void) {
    static const int64_t scales[] = {20, 300, 5 * SECOND, 100 * SECOND, 20 * 60 * SECOND, 10 * HOUR, 200 * HOUR, 8000 * HOUR, 30 * YEAR};
    return draw(scales[draw(sizeof scales / sizeof scales[0])]);
}

static void fires_in_a_random_life_as_the_model_does(void **state) {
    struct model *m = *state;
    for (uint32_t step = 0; step < 30000; step++) {
        unsigned what = (unsigned)draw(100);
        if (what < 60 && m->n < MODEL_MAX) add(m, m->now_ms + random_delay() - (what == 0 ? 10000 : 0));
        else if (what < 90) m->now_ms += draw(what < 75 ? 40 : 3000);
        else if (what < 95) m->now_ms += random_delay() / 8;
        else if (what < 98) m->now_ms -= draw(what == 97 ? 3 * HOUR : 50);
        else m->now_ms = wheel_next_due(&m->wheel) < INT64_MAX / 2 ? wheel_next_due(&m->wheel) : m->now_ms;
        if (what >= 60) {
            fire(m, 1 + (size_t)draw(300));
            if (step % 16 == 0) check(m);
        }
    }
    while (m->armed) {
        m->now_ms = wheel_next_due(&m->wheel);
        fire(m, 64);
    }
    check(m);
    assert_int_equal(memory_used(m->memory), m->baseline);
}

static void sleeping_until_next_due_is_enough_and_never_for_nothing(void **state) {
    struct model *m = *state;
    for (uint32_t i = 0; i < 3000; i++) add(m, m->now_ms + random_delay());
    uint32_t wakes = 0;
    while (m->armed) {
        int64_t next = wheel_next_due(&m->wheel), first = INT64_MAX;
        uint64_t one;
        assert_int_equal(wheel_take_due(&m->wheel, next - 1, &one, 1), 0);
        for (uint32_t i = 0; i < m->n; i++)
            if (m->due_ms[i] != NOT_ARMED && m->due_ms[i] < first) first = m->due_ms[i];
        assert_true(next <= first + WHEEL_TICK_MS);
        m->now_ms = next;
        fire(m, 32);
        assert_true(wheel_next_due(&m->wheel) > next);
        wakes++;
    }
    /* A wake for each tick in which something fires, and at most one for each level on the way there. */
    assert_true(wakes < 3000 * WHEEL_LEVELS);
}

static void a_record_comes_at_its_time_exactly_to_the_tick(void **state) {
    struct model *m = *state;
    for (int64_t offset = 0; offset < 64; offset++) {
        int64_t due = m->now_ms + 1000 + offset;
        add(m, due);
        int64_t at = m->now_ms;
        do at++;
        while (!(m->now_ms = at, fire(m, 8)));
        assert_true(at > due && at <= due + WHEEL_TICK_MS);
    }
    assert_int_equal(m->early, 0);
}

static void what_lives_up_to_seventeen_minutes_comes_once(void **state) {
    struct model *m = *state;
    for (uint32_t i = 0; i < 5000; i++) add(m, m->now_ms + draw(1000 * SECOND));
    while (m->armed) {
        m->now_ms = wheel_next_due(&m->wheel);
        fire(m, 32);
    }
    /* But those within the first tick of a slot of level 1, which are handed out when it begins. */
    assert_true(m->early < 5000 / 100);
}

static void the_past_is_due_at_once(void **state) {
    struct model *m = *state;
    add(m, 0);
    add(m, -5);
    add(m, INT64_MIN + 1);
    add(m, m->now_ms - 1);
    add(m, m->now_ms - 2 * WHEEL_TICK_MS);
    assert_true(wheel_next_due(&m->wheel) <= m->now_ms);
    assert_in_range(fire(m, 2), 4, 5);
    m->now_ms += WHEEL_TICK_MS;
    fire(m, 2);
    assert_int_equal(m->armed, 0);
}

static void the_far_future_neither_fires_nor_overflows(void **state) {
    struct model *m = *state;
    add(m, INT64_MAX);
    add(m, INT64_MAX - 1);
    add(m, INT64_MAX / 2);
    add(m, m->now_ms + 500 * YEAR);
    for (unsigned i = 0; i < 1000; i++) {
        int64_t next = wheel_next_due(&m->wheel);
        assert_true(next > m->now_ms);
        m->now_ms = next;
        if (fire(m, 8)) break;
    }
    assert_int_equal(m->armed, 3);
    assert_true(m->now_ms > START_MS + 500 * YEAR && m->now_ms <= START_MS + 500 * YEAR + WHEEL_TICK_MS);
    m->now_ms = INT64_MAX - 100;
    fire(m, 8);
    assert_int_equal(m->armed, 2);
    m->now_ms = INT64_MIN;
    fire(m, 8);
    assert_int_equal(m->armed, 2);
}

static void the_clock_may_go_back(void **state) {
    struct model *m = *state;
    int64_t base = m->now_ms;
    for (uint32_t i = 0; i < 2000; i++) add(m, base + random_delay());
    for (unsigned i = 0; i < 40; i++) {
        m->now_ms = base + draw(2) * random_delay() - draw(2) * random_delay();
        fire(m, 16);
        check(m);
    }
    for (uint32_t i = 0; i < m->n; i++)
        if (m->due_ms[i] != NOT_ARMED) assert_true(m->due_ms[i] >= m->now_ms);
}

/* A step back and forth by one tick, as the clocks of two cores may be apart: must not look everything up again. */
static void a_jittering_clock_costs_little(void **state) {
    struct model *m = *state;
    for (uint32_t i = 0; i < 10000; i++) add(m, m->now_ms + draw(HOUR));
    for (unsigned i = 0; i < 20000; i++) {
        m->now_ms += i % 2 ? 20 : -15;
        fire(m, 32);
    }
    check(m);
    assert_true(m->early < 1000);
}

static void a_jump_of_years_is_cheap(void **state) {
    struct model *m = *state;
    for (uint32_t i = 0; i < 200000; i++) {
        m->now_ms += YEAR;
        if (i % 1000 == 0) add(m, m->now_ms + YEAR / 2);
        fire(m, 8);
    }
    m->now_ms += YEAR;
    fire(m, 8);
    assert_int_equal(m->armed, 0);
}

static void taking_is_bounded_also_while_a_slot_is_dealt_out(void **state) {
    struct model *m = *state;
    /* All in one slot of level 2 (from the 4th unit of 17.5 min on), then at its beginning. */
    int64_t unit = (int64_t)WHEEL_TICK_MS << 16, begin = (m->now_ms / unit + 4) * unit;
    for (uint32_t i = 0; i < 30000; i++) add(m, begin + draw(unit - 1));
    m->now_ms = begin;
    uint64_t out[8];
    uint32_t calls = 0, taken = 0;
    while (wheel_next_due(&m->wheel) <= m->now_ms) {
        uint64_t before = m->wheel.records;
        size_t n = wheel_take_due(&m->wheel, m->now_ms, out, 8);
        assert_int_equal(before - m->wheel.records, n);
        for (size_t i = 0; i < n; i++) m->due_ms[number_of(out[i])] = NOT_ARMED;
        taken += (uint32_t)n;
        m->armed -= (uint32_t)n;
        calls++;
    }
    assert_true(calls >= 30000 / 1025);
    assert_in_range(taken, 50, 250); /* one in 256 has nothing to say where it goes */
    while (m->armed) {
        m->now_ms = wheel_next_due(&m->wheel);
        fire(m, 32);
        check(m);
    }
}

static void records_cost_sixteen_bytes_at_most_and_eight_in_a_crowd(void **state) {
    struct model *m = *state;
    int64_t due = m->now_ms + 2 * HOUR;
    for (uint32_t i = 1; i <= 2000; i++) {
        add(m, due);
        size_t used = memory_used(m->memory) - m->baseline;
        assert_true(used <= 16 * i);
    }
    for (uint32_t i = 2000; i < 40000; i++) add(m, due);
    assert_true(memory_used(m->memory) - m->baseline < 40000 * 82 / 10);
}

static void refused_memory_changes_nothing(void **state) {
    struct model *m = *state;
    uint32_t refused = 0;
    for (uint32_t i = 0; i < 3000; i++) {
        uint64_t records = m->wheel.records;
        size_t used = memory_used(m->memory);
        int64_t next = wheel_next_due(&m->wheel), due = m->now_ms + draw(HOUR);
        memory_fail_after(m->memory, 1);
        if (wheel_add(&m->wheel, due, record_of(m->n))) {
            refused++;
            assert_int_equal(m->wheel.records, records);
            assert_int_equal(memory_used(m->memory), used);
            assert_true(wheel_next_due(&m->wheel) == next);
        } else {
            m->due_ms[m->n++] = due;
            m->armed++;
        }
        memory_fail_after(m->memory, 0);
        add(m, due);
    }
    assert_true(refused > 100);
    /* Dealing out without memory: the record is handed to the caller, none is lost. */
    uint64_t out[16];
    m->now_ms += HOUR + WHEEL_TICK_MS;
    memory_fail_after(m->memory, 1);
    for (size_t n; (n = wheel_take_due(&m->wheel, m->now_ms, out, 16)) || wheel_next_due(&m->wheel) <= m->now_ms;) {
        for (size_t i = 0; i < n; i++) m->due_ms[number_of(out[i])] = NOT_ARMED;
        m->armed -= (uint32_t)n;
        memory_fail_after(m->memory, 1);
    }
    memory_fail_after(m->memory, 0);
    assert_int_equal(m->armed, 0);
    assert_int_equal(m->wheel.records, 0);
}

static void dropping_in_slices_leaves_a_usable_wheel(void **state) {
    struct model *m = *state;
    for (uint32_t i = 0; i < 20000; i++) add(m, m->now_ms + random_delay() - 100);
    unsigned slices = 1;
    while (wheel_drop_some(&m->wheel, 8)) slices++;
    assert_true(slices > 20000 / 63 / 8);
    assert_int_equal(memory_used(m->memory), m->baseline);
    assert_true(wheel_next_due(&m->wheel) == INT64_MAX);
    m->armed = 0;
    m->n = 0;
    add(m, m->now_ms + 100);
    m->now_ms += 200;
    assert_int_equal(fire(m, 1), 1);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(fires_in_a_random_life_as_the_model_does),
        TEST(sleeping_until_next_due_is_enough_and_never_for_nothing),
        TEST(a_record_comes_at_its_time_exactly_to_the_tick),
        TEST(what_lives_up_to_seventeen_minutes_comes_once),
        TEST(the_past_is_due_at_once),
        TEST(the_far_future_neither_fires_nor_overflows),
        TEST(the_clock_may_go_back),
        TEST(a_jittering_clock_costs_little),
        TEST(a_jump_of_years_is_cheap),
        TEST(taking_is_bounded_also_while_a_slot_is_dealt_out),
        TEST(records_cost_sixteen_bytes_at_most_and_eight_in_a_crowd),
        TEST(refused_memory_changes_nothing),
        TEST(dropping_in_slices_leaves_a_usable_wheel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
