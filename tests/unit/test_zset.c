/* Sorted sets against a naive model: small and large ones, equal scores, refused memory, their accounting to the byte; walks, ranks, bounds, cursors, copies, flat forms. */
#include <errno.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shard/container.h"
#include "shard/memory.h"
#include "shard/zset.h"
#include "tests/lib/random.h"

#define NAMES 3000u
#define NAME_MAX_SIZE 400u

static struct hash_secret secret;
static struct random dice;
static uint64_t draw(void *arg) {
    (void)arg;
    return random_next(&dice);
}

/* What there is; the members in their order once they were sorted. */
static struct {
    char names[NAMES][NAME_MAX_SIZE];
    uint32_t sizes[NAMES];
    double scores[NAMES];
    bool there[NAMES];
    uint32_t order[NAMES], n;
} model;

static int setup(void **state) {
    uint8_t seed[32] = {7};
    random_seed(&dice, 7, 0);
    hash_secret_init(&secret, seed);
    memset(&model, 0, sizeof model);
    for (uint32_t i = 0; i < NAMES; i++) { /* numbers, short and long text */
        static const char *const forms[] = {"%u", "member:%u", "%0150u", "-%u-", "%07u"};
        model.sizes[i] = (uint32_t)snprintf(model.names[i], NAME_MAX_SIZE, forms[i % 37 == 5 ? 2 : i % 2 ? 1 : i % 5], i);
    }
    *state = memory_new(false);
    return 0;
}

static int teardown(void **state) {
    assert_int_equal(memory_used(*state), 0);
    memory_drop(*state);
    return 0;
}

static struct zset new_zset(struct memory *m) { return (struct zset){.memory = m, .secret = &secret}; }

static struct field_name name_of(const struct zset *x, uint32_t i) {
    struct field_name name;
    zset_name(x, model.names[i], model.sizes[i], &name);
    return name;
}

/* Many are equal; some are what integers, floats and doubles have at their ends. */
static double draw_score(void) {
    static const double ends[] = {
        INFINITY, -INFINITY, 0.0, -0.0, 1e300, -1e-300, 9007199254740993.0, 4503599627370496.5, -1e18, 1e19, 3.3, 0.5};
    switch (below(&dice, 8)) {
    case 0: return ends[below(&dice, sizeof ends / sizeof *ends)];
    case 1: return (double)below(&dice, 1000000) / 7;
    case 2: return (double)below(&dice, 100) / 4;
    case 3: return -(double)below(&dice, 70000);
    default: return below(&dice, 40);
    }
}

static int compare_names(uint32_t a, uint32_t b) {
    uint32_t least = model.sizes[a] < model.sizes[b] ? model.sizes[a] : model.sizes[b];
    int order = memcmp(model.names[a], model.names[b], least);
    return order ? order : (model.sizes[a] > model.sizes[b]) - (model.sizes[a] < model.sizes[b]);
}

static int compare(const void *a, const void *b) {
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    if (model.scores[i] != model.scores[j]) return model.scores[i] < model.scores[j] ? -1 : 1;
    return compare_names(i, j);
}

static void sort_model(void) {
    model.n = 0;
    for (uint32_t i = 0; i < NAMES; i++)
        if (model.there[i]) model.order[model.n++] = i;
    qsort(model.order, model.n, sizeof *model.order, compare);
}

static bool is_item(const struct zset_item *m, uint32_t i) {
    char scratch[INT64_TEXT_SIZE];
    uint32_t size;
    const char *text = zset_text(m, scratch, &size);
    return size == model.sizes[i] && !memcmp(text, model.names[i], size) && m->score == model.scores[i] &&
        signbit(m->score) == signbit(model.scores[i]);
}

static uint64_t model_before(const struct zset_bound *b) {
    uint64_t n = 0;
    for (uint32_t k = 0; k < model.n; k++) {
        uint32_t i = model.order[k];
        double score = model.scores[i];
        n += score < b->score || (b->after && score == b->score);
    }
    return n;
}

/* Everything is as in the model, in both directions, from any place; and the bytes are what they should be. */
static void check(const struct zset *x) {
    struct zset_walk w;
    struct zset_item m;
    sort_model();
    assert_int_equal(zset_count(x), model.n);
    assert_int_equal(memory_used(x->memory), zset_memory(x));
    assert_int_equal(zset_is_empty(x), !model.n);
    uint64_t at = 0;
    for (zset_begin(x, &w, 0, UINT64_MAX, false); zset_next(x, &w, &m); at++) assert_true(is_item(&m, model.order[at]));
    assert_int_equal(at, model.n);
    for (zset_begin(x, &w, at - 1, UINT64_MAX, true); model.n && zset_next(x, &w, &m);) assert_true(is_item(&m, model.order[--at]));
    assert_int_equal(at, 0);
    for (unsigned i = 0; i < 20 && model.n; i++) {
        uint32_t rank = below(&dice, model.n), n = below(&dice, 100), seen = 0;
        bool down = below(&dice, 2);
        struct field_name name = name_of(x, model.order[rank]);
        zset_at(x, rank, &m);
        assert_true(is_item(&m, model.order[rank]));
        assert_true(zset_find(x, &name, &m));
        assert_int_equal(zset_rank(x, &name, &m), rank);
        for (zset_begin(x, &w, rank, n, down); zset_next(x, &w, &m); seen++)
            assert_true(is_item(&m, model.order[down ? rank - seen : rank + seen]));
        uint32_t most = down ? rank + 1 : model.n - rank;
        assert_int_equal(seen, n < most ? n : most);
        struct zset_bound b = {.by = ZSET_BY_SCORE, .after = below(&dice, 2), .score = draw_score()};
        assert_int_equal(zset_before(x, &b), model_before(&b));
    }
}

static void put(struct zset *x, uint32_t i, bool may_fail) {
    struct field_name name = name_of(x, i);
    struct zset_item was;
    double score = draw_score();
    bool found = zset_find(x, &name, &was);
    assert_int_equal(found, model.there[i]);
    if (found) assert_true(is_item(&was, i));
    if (may_fail && below(&dice, 4) == 0) memory_fail_after(x->memory, 1 + below(&dice, 3));
    int refused = zset_put(x, &name, found ? &was : NULL, score);
    memory_fail_after(x->memory, 0);
    if (refused) {
        assert_int_equal(refused, -ENOMEM);
        assert_true(may_fail);
        return;
    }
    model.there[i] = true;
    model.scores[i] = score;
}

static void take(struct zset *x, uint32_t i) {
    struct field_name name = name_of(x, i);
    struct zset_item m;
    bool found = zset_find(x, &name, &m);
    assert_int_equal(found, model.there[i]);
    if (found) zset_remove(x, &name, &m);
    model.there[i] = false;
}

static void take_range(struct zset *x) {
    sort_model();
    if (!model.n) return;
    uint32_t from = below(&dice, model.n), most = model.n - from, n = below(&dice, most < 200 ? most : 200);
    zset_remove_range(x, from, n);
    for (uint32_t k = from; k < from + n; k++) model.there[model.order[k]] = false;
}

/* Operations that let it grow to about so many members, and shrink to none. */
static void work(struct zset *x, uint32_t operations, uint32_t names, bool may_fail) {
    for (uint32_t i = 0; i < operations; i++) {
        bool grows = i % 40000 < 25000;
        uint32_t what = below(&dice, 100), name = below(&dice, names);
        if (what < (grows ? 75u : 40u)) put(x, name, may_fail);
        else if (what == 99 && i % 8 == 0) take_range(x);
        else take(x, name);
        if (i % 4001 == 0) check(x);
    }
    check(x);
}

static void a_million_operations_are_as_in_the_model(void **state) {
    struct zset x = new_zset(*state);
    work(&x, 1000000, NAMES, false);
    assert_non_null(x.large);
    zset_free(&x, NULL);
}

static void a_small_one_is_as_in_the_model(void **state) {
    struct zset x = new_zset(*state);
    work(&x, 100000, 60, false);
    assert_null(x.large);
    zset_free(&x, NULL);
}

static void refused_memory_changes_nothing(void **state) {
    struct zset x = new_zset(*state);
    work(&x, 60000, NAMES, true);
    zset_free(&x, NULL);
    memset(model.there, 0, sizeof model.there);
    work(&x, 60000, 100, true);
    zset_free(&x, NULL);
}

static void all_equal_scores_are_ordered_by_member(void **state) {
    struct zset x = new_zset(*state);
    for (uint32_t i = 0; i < NAMES; i++) {
        struct field_name name = name_of(&x, i * 7 % NAMES);
        assert_int_equal(zset_put(&x, &name, NULL, 1), 0);
        model.there[i] = true;
        model.scores[i] = 1;
    }
    check(&x);
    for (uint32_t k = 0; k < model.n; k += 11)
        for (unsigned after = 0; after < 2; after++) {
            uint32_t i = model.order[k];
            struct zset_bound b = {.by = ZSET_BY_MEMBER, .after = after, .text = model.names[i], .size = model.sizes[i]};
            assert_int_equal(zset_before(&x, &b), k + after);
        }
    assert_int_equal(zset_before(&x, &(struct zset_bound){.by = ZSET_FIRST}), 0);
    assert_int_equal(zset_before(&x, &(struct zset_bound){.by = ZSET_LAST}), NAMES);
    zset_free(&x, NULL);
}

/* Rising or falling scores fill their nodes: no more than 1.1 of what the records need. */
static void nodes_that_grow_at_an_end_are_full(void **state) {
    for (int falls = 0; falls < 2; falls++) {
        struct zset x = new_zset(*state);
        char text[32];
        for (uint32_t i = 0; i < 100000; i++) {
            struct field_name name;
            zset_name(&x, text, (uint32_t)snprintf(text, sizeof text, "m%u", i), &name);
            assert_int_equal(zset_put(&x, &name, NULL, falls ? -(double)i : i), 0);
        }
        struct fields f = zset_fields(&x);
        size_t order = zset_memory(&x) - fields_memory(&f);
        assert_in_range(order, 16 * 100000, 16 * 110000);
        zset_free(&x, NULL);
    }
}

#define DEEP 200000u
#define DEEP_PRIME 200003u

static struct field_name numbered(const struct zset *x, uint32_t i, char text[32]) {
    struct field_name name;
    zset_name(x, text, (uint32_t)snprintf(text, 32, "m%u", i), &name);
    return name;
}

/* Members whose scores are those left of 1 ... DEEP, each its own: so a score tells the rank among all. gone: ranks [0, gone) went. */
static void check_deep(const struct zset *x, uint32_t gone) {
    struct zset_item m, found;
    assert_int_equal(zset_count(x), DEEP - gone);
    for (uint32_t rank = below(&dice, 50); rank < DEEP - gone; rank += 1 + below(&dice, 400)) {
        char scratch[INT64_TEXT_SIZE];
        struct field_name name;
        struct zset_bound b = {.by = ZSET_BY_SCORE, .score = rank + gone + 1};
        zset_at(x, rank, &m);
        assert_true(m.score == rank + gone + 1);
        zset_name_of(x, &m, scratch, &name);
        assert_true(zset_find(x, &name, &found));
        assert_true(found.score == m.score);
        assert_int_equal(zset_rank(x, &name, &found), rank);
        assert_int_equal(zset_before(x, &b), rank);
    }
}

static void a_deep_tree_keeps_its_counts(void **state) {
    struct zset x = new_zset(*state);
    char text[32];
    struct zset_item was;
    for (uint32_t i = 1; i < DEEP_PRIME; i++) { /* a score a member, in an order that is none; a few have a wrong one at first */
        uint32_t score = (uint32_t)((uint64_t)i * 7919 % DEEP_PRIME);
        struct field_name name = numbered(&x, i, text);
        if (score > DEEP) continue;
        assert_int_equal(zset_put(&x, &name, NULL, i % 8 ? score : (double)below(&dice, DEEP)), 0);
    }
    for (uint32_t i = 8; i < DEEP_PRIME; i += 8) {
        uint32_t score = (uint32_t)((uint64_t)i * 7919 % DEEP_PRIME);
        struct field_name name = numbered(&x, i, text);
        if (!zset_find(&x, &name, &was)) continue;
        assert_int_equal(zset_put(&x, &name, &was, score), 0);
    }
    check_deep(&x, 0);
    uint32_t gone = 0;
    for (uint32_t n; gone < DEEP - 500; gone += n) {
        n = below(&dice, DEEP - 400 - gone) / (1 + below(&dice, 4)) + 1;
        zset_remove_range(&x, 0, n);
        check_deep(&x, gone + n);
        assert_int_equal(memory_used(x.memory), zset_memory(&x));
    }
    while (!zset_is_empty(&x)) {
        struct field_name name;
        char scratch[INT64_TEXT_SIZE];
        zset_at(&x, below(&dice, (uint32_t)zset_count(&x)), &was);
        zset_name_of(&x, &was, scratch, &name);
        zset_remove(&x, &name, &was);
    }
}

struct scan {
    uint32_t met[NAMES];
};

static void visit(void *arg, const struct zset_item *m) {
    struct scan *s = arg;
    char scratch[INT64_TEXT_SIZE];
    uint32_t size;
    const char *text = zset_text(m, scratch, &size);
    for (uint32_t i = 0; i < NAMES; i++)
        if (size == model.sizes[i] && !memcmp(text, model.names[i], size)) s->met[i]++;
}

static void a_scan_meets_what_stays(void **state) {
    struct zset x = new_zset(*state);
    struct scan s = {{0}};
    uint64_t cursor = 0;
    for (uint32_t i = 0; i < 1000; i++) put(&x, i, false);
    do {
        cursor = zset_scan(&x, cursor, visit, &s);
        put(&x, 1000 + below(&dice, 1000), false);
        take(&x, 1000 + below(&dice, 1000));
    } while (cursor);
    for (uint32_t i = 0; i < 1000; i++) assert_true(s.met[i] >= 1);
    zset_free(&x, NULL);
}

static void a_copy_and_a_drawn_member_are_of_it(void **state) {
    for (uint32_t names = 50; names <= 1000; names += 950) {
        struct zset x = new_zset(*state), copy = new_zset(*state);
        struct zset_item m;
        memset(model.there, 0, sizeof model.there);
        for (uint32_t i = 0; i < names; i++) put(&x, i, false);
        zset_show_large(&x, true);
        struct packed_copying c = {.cost = INT64_MAX};
        assert_int_equal(zset_copy_some(&copy, &x, &c), 0);
        assert_true(zset_is_shown_large(&copy));
        zset_random(&x, draw, NULL, &m);
        zset_free(&x, NULL);
        check(&copy);
        zset_free(&copy, NULL);
    }
}

static void a_large_one_is_freed_in_slices(void **state) {
    struct zset x = new_zset(*state);
    struct trash *trash = NULL;
    unsigned slices = 0;
    for (uint32_t i = 0; i < NAMES; i++) put(&x, i, false);
    zset_free(&x, &trash);
    assert_non_null(trash);
    size_t left = memory_used(*state);
    while (trash->free_some(*state, trash)) {
        assert_true(memory_used(*state) < left);
        left = memory_used(*state);
        slices++;
    }
    assert_true(slices > 3);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_small_one_is_as_in_the_model, setup, teardown),
        cmocka_unit_test_setup_teardown(a_million_operations_are_as_in_the_model, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_memory_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(all_equal_scores_are_ordered_by_member, setup, teardown),
        cmocka_unit_test_setup_teardown(nodes_that_grow_at_an_end_are_full, setup, teardown),
        cmocka_unit_test_setup_teardown(a_deep_tree_keeps_its_counts, setup, teardown),
        cmocka_unit_test_setup_teardown(a_scan_meets_what_stays, setup, teardown),
        cmocka_unit_test_setup_teardown(a_copy_and_a_drawn_member_are_of_it, setup, teardown),
        cmocka_unit_test_setup_teardown(a_large_one_is_freed_in_slices, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
