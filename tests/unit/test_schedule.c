/* The schedule against a naive model that asks of every pair of members who goes first. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shard/schedule.h"
#include "tests/lib/random.h"

#define MEMBERS 40u
#define INTENTS 6u

static struct random dice;

struct actor {
    struct member member;
    struct intent intents[INTENTS], asked[INTENTS]; /* asked: as they were when it came */
    uint64_t arrival;
    bool was_awaited;
};

struct world {
    struct schedule schedule;
    struct actor actors[MEMBERS];
    uint64_t next_number, arrivals, floor;
    uint32_t late, begun, begun_first;
    bool asks;       /* it is not the end */
    bool used[2000]; /* each number once */
};

static bool same_place(const struct intent *a, const struct intent *b) {
    return a->db == b->db && a->whole == b->whole && a->hash == b->hash;
}

static bool modes_conflict(uint8_t a, uint8_t b) {
    static const bool table[INTENT_MODES][INTENT_MODES] = {{0, 0, 0, 1}, {0, 0, 1, 1}, {0, 1, 0, 1}, {1, 1, 1, 1}};
    return table[a][b];
}

static bool conflict(const struct actor *a, const struct actor *b) {
    for (uint32_t i = 0; i < a->member.n_intents; i++)
        for (uint32_t j = 0; j < b->member.n_intents; j++)
            if (same_place(&a->asked[i], &b->asked[j]) && modes_conflict(a->asked[i].mode, b->asked[j].mode)) return true;
    return false;
}

static bool before(const struct actor *a, const struct actor *b) {
    return a->member.number != b->member.number ? a->member.number < b->member.number : a->arrival < b->arrival;
}

static bool must_wait(struct world *w, const struct actor *a) {
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (w->actors[i].member.in && &w->actors[i] != a && before(&w->actors[i], a) && conflict(&w->actors[i], a)) return true;
    return false;
}

static bool is_awaited(struct world *w, const struct actor *a) {
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (w->actors[i].member.in && &w->actors[i] != a && before(a, &w->actors[i]) && conflict(&w->actors[i], a)) return true;
    return false;
}

static void check_awaited(struct world *w, struct actor *a) {
    bool now = is_awaited(w, a);
    a->was_awaited |= now;
    if (now && !a->member.n_waits) assert_true(schedule_is_awaited(&a->member));
    if (schedule_is_awaited(&a->member)) assert_true(a->was_awaited);
}

static void check(struct world *w) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < MEMBERS; i++) {
        struct actor *a = &w->actors[i];
        if (!a->member.in) continue;
        n++;
        check_awaited(w, a);
        assert_int_equal(a->member.n_waits != 0, must_wait(w, a));
        assert_false(a->member.begun && a->member.n_waits);
        assert_false(a->member.told && !a->member.begun && !a->member.n_waits);
    }
    assert_int_equal(n, w->schedule.n_members);
    if (!n) assert_int_equal(w->schedule.n_places, 0);
}

static void has_begun(struct world *w, const struct actor *a) {
    w->begun++;
    assert_true(a->member.begun);
    if (a->member.number > w->floor) w->floor = a->member.number;
}

static void come(struct world *w, struct actor *a, bool local) {
    *a = (struct actor){.member = {.local = local, .intents = a->intents}, .arrival = ++w->arrivals};
    bool whole = !below(&dice, 8);
    uint32_t n = 1 + below(&dice, INTENTS - 1), db = below(&dice, 2);
    if (whole) intent_on_database(&a->intents[0], db, below(&dice, 2) ? INTENT_READ : INTENT_WRITE);
    else {
        bool writes = false;
        for (uint32_t i = 1; i < n; i++) {
            bool write = below(&dice, 2);
            intent_on_key(&a->intents[i], db, below(&dice, 6), write);
            writes |= write;
        }
        intent_on_database(&a->intents[0], db, writes ? INTENT_WRITE_WITHIN : INTENT_READ_WITHIN);
    }
    a->member.n_intents = whole ? 1 : n;
    memcpy(a->asked, a->intents, sizeof a->asked);
    /* Numbers come in a slightly different order than they were drawn. */
    w->next_number += 2;
    a->member.number = local ? 0 : w->next_number - (below(&dice, 3) ? 0 : 1 + 2 * below(&dice, 4));
    if (!local && w->used[a->member.number]) a->member.number = w->next_number;
    if (!local) w->used[a->member.number] = true;
    bool late = !local && a->member.number < w->floor;
    assert_int_equal(schedule_add(&w->schedule, &a->member), !late);
    w->late += late;
    if (local && schedule_tell(&w->schedule, &a->member)) has_begun(w, a);
}

/* One that begins at once, before all that have not begun. It counts as one that came before everybody. */
static void come_begun(struct world *w, struct actor *a) {
    *a = (struct actor){.member = {.local = true, .intents = a->intents, .n_intents = 2}};
    uint32_t db = below(&dice, 2);
    bool write = below(&dice, 2);
    intent_on_database(&a->intents[0], db, write ? INTENT_WRITE_WITHIN : INTENT_READ_WITHIN);
    intent_on_key(&a->intents[1], db, below(&dice, 6), write);
    memcpy(a->asked, a->intents, sizeof a->asked);
    for (uint32_t i = 0; i < MEMBERS; i++)
        if (w->actors[i].member.in && w->actors[i].member.begun && conflict(&w->actors[i], a)) return;
    assert_true(schedule_add_begun(&w->schedule, &a->member));
    has_begun(w, a);
    w->begun_first++;
}

static struct actor *idle(struct world *w) {
    struct actor *a = &w->actors[below(&dice, MEMBERS)];
    return a->member.in ? NULL : a;
}

static void leave(struct world *w, struct actor *a) {
    schedule_remove(&w->schedule, &a->member);
    struct member *m;
    struct actor *next = idle(w); /* those that are ready now, and not given yet, may have to wait again */
    if (next && w->asks && !below(&dice, 3)) come_begun(w, next);
    while ((m = schedule_next(&w->schedule))) has_begun(w, (struct actor *)m);
}

static void who_waits_is_as_in_the_model(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed < 300; seed++) {
        random_seed(&dice, seed, 0);
        struct world w = {.next_number = 100, .asks = true};
        for (uint32_t step = 0; step < 400; step++) {
            struct actor *a = &w.actors[below(&dice, MEMBERS)];
            if (!a->member.in && !below(&dice, 8)) come_begun(&w, a);
            else if (!a->member.in) come(&w, a, !below(&dice, 3));
            else if (!a->member.told && below(&dice, 4)) {
                if (schedule_tell(&w.schedule, &a->member)) has_begun(&w, a);
            } else if (a->member.begun || (!a->member.told && !a->member.local)) leave(&w, a); /* done, or withdrawn */
            check(&w);
        }
        w.asks = false;
        /* Everything ends: the told ones run, the others are withdrawn. */
        for (uint32_t left = MEMBERS; left && w.schedule.n_members; left--)
            for (uint32_t i = 0; i < MEMBERS; i++)
                if (w.actors[i].member.in && (w.actors[i].member.begun || !w.actors[i].member.told)) leave(&w, &w.actors[i]);
        assert_int_equal(w.schedule.n_members, 0);
        assert_int_equal(w.schedule.n_places, 0);
        assert_int_equal(w.schedule.n_whole, 0);
        assert_true(w.begun);
        assert_true(w.begun_first);
        assert_true(w.late || w.schedule.stats.late == 0);
        schedule_drop(&w.schedule);
    }
}

static struct intent key_intent(uint64_t hash, bool write) {
    struct intent i;
    intent_on_key(&i, 0, hash, write);
    return i;
}

static void an_empty_schedule_lets_everything_pass(void **state) {
    (void)state;
    struct schedule s = {0};
    assert_true(schedule_is_empty(&s));
    assert_false(schedule_conflicts(&s, 0, 1, true));
}

static void a_plain_write_meets_intents_to_read_and_a_plain_read_those_to_write(void **state) {
    (void)state;
    struct schedule s = {0};
    struct intent intents[3] = {key_intent(1, false), key_intent(2, true)};
    intent_on_database(&intents[2], 0, INTENT_WRITE_WITHIN);
    struct member m = {.number = 5, .intents = intents, .n_intents = 3};
    assert_true(schedule_add(&s, &m));
    assert_true(schedule_conflicts(&s, 0, 1, true));
    assert_false(schedule_conflicts(&s, 0, 1, false));
    assert_true(schedule_conflicts(&s, 0, 2, false));
    assert_false(schedule_conflicts(&s, 1, 2, true));
    assert_false(schedule_conflicts(&s, 0, 3, true));
    schedule_remove(&s, &m);
    assert_false(schedule_conflicts(&s, 0, 2, true));
    schedule_drop(&s);
}

static void a_database_as_a_whole_meets_each_of_its_keys(void **state) {
    (void)state;
    struct schedule s = {0};
    struct intent all;
    intent_on_database(&all, 3, INTENT_READ);
    struct member m = {.number = 5, .intents = &all, .n_intents = 1};
    assert_true(schedule_add(&s, &m));
    assert_true(schedule_conflicts(&s, 3, 77, true));
    assert_false(schedule_conflicts(&s, 3, 77, false));
    assert_false(schedule_conflicts(&s, 2, 77, true));
    schedule_remove(&s, &m);
    schedule_drop(&s);
}

static void a_place_named_twice_counts_once_and_as_the_stronger(void **state) {
    (void)state;
    struct schedule s = {0};
    struct intent intents[3] = {key_intent(9, false), key_intent(9, true), key_intent(9, false)};
    struct member m = {.number = 5, .intents = intents, .n_intents = 3};
    assert_true(schedule_add(&s, &m));
    assert_int_equal(m.n_waits, 0);
    assert_true(schedule_conflicts(&s, 0, 9, false));
    schedule_remove(&s, &m);
    assert_int_equal(s.n_places, 0);
    schedule_drop(&s);
}

static void a_place_named_twice_counts_as_both(void **state) {
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct schedule s = {0};
        struct intent intents[2];
        intent_on_database(&intents[i], 0, INTENT_READ);
        intent_on_database(&intents[!i], 0, INTENT_WRITE_WITHIN);
        struct member m = {.number = 5, .intents = intents, .n_intents = 2};
        assert_true(schedule_add(&s, &m));
        assert_true(schedule_conflicts(&s, 0, 9, true));
        struct intent other;
        intent_on_database(&other, 0, INTENT_READ);
        struct member reads = {.number = 6, .intents = &other, .n_intents = 1};
        assert_true(schedule_add(&s, &reads));
        assert_int_equal(reads.n_waits, 1);
        schedule_remove(&s, &m);
        assert_int_equal(reads.n_waits, 0);
        schedule_remove(&s, &reads);
        schedule_drop(&s);
    }
}

static void a_number_below_one_that_has_begun_is_late(void **state) {
    (void)state;
    struct schedule s = {0};
    struct intent a = key_intent(1, true), b = key_intent(2, true);
    struct member first = {.number = 9, .intents = &a, .n_intents = 1}, second = {.number = 8, .intents = &b, .n_intents = 1};
    assert_true(schedule_add(&s, &first));
    assert_true(schedule_tell(&s, &first));
    assert_false(schedule_add(&s, &second));
    schedule_remove(&s, &first);
    assert_false(schedule_add(&s, &second));
    second.number = 10;
    assert_true(schedule_add(&s, &second));
    schedule_remove(&s, &second);
    schedule_drop(&s);
}

/* What has not begun is not seen. */
static void a_number_below_one_that_was_told_but_waits_goes_before_it(void **state) {
    (void)state;
    struct schedule s = {0};
    struct intent a = key_intent(1, true), b = key_intent(1, true), c = key_intent(1, true);
    struct member first = {.number = 8, .intents = &a, .n_intents = 1}, second = {.number = 9, .intents = &b, .n_intents = 1},
                  third = {.number = 7, .intents = &c, .n_intents = 1};
    assert_true(schedule_add(&s, &first));
    assert_true(schedule_add(&s, &second));
    assert_false(schedule_tell(&s, &second));
    assert_true(schedule_add(&s, &third));
    schedule_remove(&s, &first);
    assert_null(schedule_next(&s));
    assert_true(schedule_tell(&s, &third));
    schedule_remove(&s, &third);
    assert_ptr_equal(schedule_next(&s), &second);
    schedule_remove(&s, &second);
    schedule_drop(&s);
}

static void one_that_begins_at_once_goes_before_who_was_told_and_was_about_to(void **state) {
    (void)state;
    struct schedule s = {0};
    struct intent a = key_intent(1, true), b = key_intent(1, true), c = key_intent(1, true);
    struct member first = {.number = 8, .intents = &a, .n_intents = 1}, second = {.number = 9, .intents = &b, .n_intents = 1},
                  at_once = {.local = true, .intents = &c, .n_intents = 1};
    assert_true(schedule_add(&s, &first));
    assert_true(schedule_tell(&s, &first));
    assert_true(schedule_add(&s, &second));
    assert_false(schedule_tell(&s, &second));
    assert_true(schedule_holds(&s, 0, 1));
    schedule_remove(&s, &first);
    assert_false(schedule_holds(&s, 0, 1));
    assert_true(schedule_add_begun(&s, &at_once));
    assert_true(schedule_holds(&s, 0, 1));
    assert_null(schedule_next(&s));
    schedule_remove(&s, &at_once);
    assert_ptr_equal(schedule_next(&s), &second);
    assert_null(schedule_next(&s));
    schedule_remove(&s, &second);
    assert_true(schedule_is_empty(&s));
    schedule_drop(&s);
}

/* Members whose numbers come out of order, each with intents on the same key and on one of its own, while one behind them wants all there is. What each costs
 * must not depend on how many stand there: if it does, this test doesn't come to its end. */
static void a_long_queue_costs_no_more_a_member(void **state) {
    (void)state;
    enum { N = 200000 };
    struct {
        struct member member;
        struct intent intents[3];
    } *all = calloc(N, sizeof *all);
    struct schedule s = {0};
    for (uint32_t i = 0; i < N; i++) {
        bool whole = i % 1000 == 999, write = i % 3, at_once = i % 7 == 6;
        struct intent *to = all[i].intents;
        intent_on_database(to++, 0, whole ? write ? INTENT_WRITE : INTENT_READ : write ? INTENT_WRITE_WITHIN : INTENT_READ_WITHIN);
        if (!whole && !at_once) intent_on_key(to++, 0, 1, write); /* what begins at once meets only who has not begun */
        if (!whole) intent_on_key(to++, 0, 100 + i, true);
        all[i].member = (struct member){
            .number = i % 5 ? 10 + (i ^ 1) : 0, .local = !(i % 5), .intents = all[i].intents, .n_intents = (uint32_t)(to - all[i].intents)};
        assert_true(at_once && !whole ? schedule_add_begun(&s, &all[i].member) : schedule_add(&s, &all[i].member));
        schedule_tell(&s, &all[i].member);
    }
    uint32_t left = 0;
    uint64_t last = 0; /* number of one that wrote to the key of them all: they begin in that order */
    for (uint32_t i = 0; i < N; i++) {
        struct member *m = all[i].member.begun && all[i].member.in ? &all[i].member : schedule_next(&s);
        for (; m; m = schedule_next(&s), left++) {
            bool writes = m->n_intents == 3 && m->intents[1].mode == INTENT_WRITE;
            assert_true(!writes || m->number >= last);
            if (writes) last = m->number;
            schedule_remove(&s, m);
        }
    }
    assert_int_equal(left, N);
    assert_true(schedule_is_empty(&s));
    schedule_drop(&s);
    free(all);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_schedule_lets_everything_pass),
        cmocka_unit_test(a_plain_write_meets_intents_to_read_and_a_plain_read_those_to_write),
        cmocka_unit_test(a_database_as_a_whole_meets_each_of_its_keys),
        cmocka_unit_test(a_place_named_twice_counts_once_and_as_the_stronger),
        cmocka_unit_test(a_place_named_twice_counts_as_both),
        cmocka_unit_test(a_number_below_one_that_has_begun_is_late),
        cmocka_unit_test(a_number_below_one_that_was_told_but_waits_goes_before_it),
        cmocka_unit_test(one_that_begins_at_once_goes_before_who_was_told_and_was_about_to),
        cmocka_unit_test(a_long_queue_costs_no_more_a_member),
        cmocka_unit_test(who_waits_is_as_in_the_model),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
