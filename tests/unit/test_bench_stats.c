/* What the load tool counts: errors by kind, merging, and the schedule. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/darter-bench/connection.h"
#include "tools/darter-bench/stats.h"

static struct stats s, other;

static void add(struct stats *to, const char *text) { stats_add_error(to, text, strlen(text)); }

static uint64_t count_of(const struct stats *of, const char *word) {
    for (int i = 0; i < ERROR_KINDS; i++)
        if (of->kinds[i].count && !strcmp(of->kinds[i].word, word)) return of->kinds[i].count;
    return 0;
}

static void errors_count_by_their_first_word(void **state) {
    (void)state;
    stats_clear(&s);
    add(&s, "ERR unknown command");
    add(&s, "ERR syntax error");
    add(&s, "WRONGTYPE Operation");
    add(&s, "OOM");
    add(&s, "");
    assert_int_equal(s.errors, 5);
    assert_int_equal(count_of(&s, "ERR"), 2);
    assert_int_equal(count_of(&s, "WRONGTYPE"), 1);
    assert_int_equal(count_of(&s, "OOM"), 1);
    assert_int_equal(count_of(&s, ""), 1);
}

static void more_kinds_than_there_is_room_for_count_together(void **state) {
    (void)state;
    char word[8];
    stats_clear(&s);
    for (int i = 0; i < 30; i++) {
        snprintf(word, sizeof word, "E%d", i);
        add(&s, word);
        add(&s, word);
    }
    assert_int_equal(s.errors, 60);
    assert_int_equal(count_of(&s, "E0"), 2);
    assert_int_equal(count_of(&s, "E14"), 2);
    assert_int_equal(count_of(&s, "others"), 30);
}

static void merging_adds_by_word(void **state) {
    (void)state;
    stats_clear(&s);
    stats_clear(&other);
    add(&s, "ERR a");
    add(&other, "LOADING b");
    add(&other, "ERR c");
    histogram_add(&other.latency[OP_GET], 1000, 3);
    s.hits = 1;
    other.hits = 2;
    other.misses = 4;
    s.pending_max = 7;
    other.pending_max = 5;
    stats_merge(&s, &other);
    assert_int_equal(s.errors, 3);
    assert_int_equal(count_of(&s, "ERR"), 2);
    assert_int_equal(count_of(&s, "LOADING"), 1);
    assert_int_equal(stats_requests(&s), 3);
    assert_true(s.hits == 3 && s.misses == 4 && s.pending_max == 7);
}

/* Request i of connection c is due at i / qps, and the connections of a thread follow each other in between. */
static void the_schedule_is_even_and_does_not_drift(void **state) {
    (void)state;
    static const uint64_t rates[] = {1, 3, 7, 20, 999, 1000000, 10000000000};
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++) {
        struct worker w = {.rate = rates[i], .first_slot_ns = 12345};
        assert_int_equal(worker_slot_ns(&w, 0), 12345);
        uint64_t interval_ns = 1000000000 / rates[i];
        for (uint64_t slot = 0; slot < 1000; slot++) {
            uint64_t step_ns = worker_slot_ns(&w, slot + 1) - worker_slot_ns(&w, slot);
            assert_true(step_ns == interval_ns || step_ns == interval_ns + 1);
        }
        /* After a year it is still exact. */
        uint64_t year_s = 31536000;
        assert_int_equal(worker_slot_ns(&w, rates[i] * year_s), 12345 + year_s * 1000000000);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(errors_count_by_their_first_word),
        cmocka_unit_test(more_kinds_than_there_is_room_for_count_together),
        cmocka_unit_test(merging_adds_by_word),
        cmocka_unit_test(the_schedule_is_even_and_does_not_drift),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
