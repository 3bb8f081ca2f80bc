/* A million random operations on a table against a model, with hashes of several kinds. The seed is printed; DARTER_SEED repeats a run.
 * DARTER_TEST_LIGHT does a tenth, DARTER_SOAK the twentyfold. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shard/memory.h"
#include "shard/table.h"

#define UNIVERSE 60000u
#define KEY_SIZE 8u

enum kind { UNIFORM, EQUAL_IN_GROUPS, ONE_CORNER, ONE_FINGERPRINT, TWO_HOMES, DEEP_CORNER };

struct world {
    struct memory *memory;
    struct table table;
    enum kind kind;
    uint32_t universe; /* ids below this may be in the table */
    struct entry *entries[UNIVERSE];
    uint32_t present[UNIVERSE], at[UNIVERSE], count; /* ids in the table, and where in present each is */
    bool awaited[UNIVERSE];                          /* in the table since the scan began, and not visited yet */
    uint64_t cursor, visits, random;
    uint64_t pretended; /* entries: what the table's count is too high by, so that it allows itself more depth */
    bool growth_allowed;
};

static uint64_t seed;
static uint32_t scale = 10; /* of the number of operations, in tenths */

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static uint64_t draw(void *arg) {
    struct world *w = arg;
    return mix(w->random += 0x9e3779b97f4a7c15ull);
}
static uint32_t below(struct world *w, uint32_t n) { return (uint32_t)((draw(w) >> 32) * n >> 32); }

static uint64_t hash_of(const struct world *w, uint32_t id) {
    uint64_t random = mix(id + 1);
    switch (w->kind) {
    case UNIFORM: return random;
    case EQUAL_IN_GROUPS: return mix(id % 7 + 1);
    case ONE_CORNER: return (random & ~(0xfffffull << 30)) | 0xabcdeull << 30; /* 20 of the 36 directory bits agree */
    case ONE_FINGERPRINT: return random | 0xff;
    case DEEP_CORNER: return id % 8 ? (random & ~(0x7ffull << 39)) | 0x3c3ull << 39 : random;
    case TWO_HOMES: return (random & ~(0x3full << 8)) | (random >> 63) * 63 << 8;
    }
    return 0;
}

static uint32_t id_of(const struct entry *e) {
    uint64_t id;
    memcpy(&id, entry_key(e), sizeof id);
    return (uint32_t)id;
}
static uint64_t hash_entry(const void *arg, const struct entry *e) { return hash_of(arg, id_of(e)); }

static bool may_grow(void *arg, size_t bytes) {
    (void)bytes;
    return ((struct world *)arg)->growth_allowed;
}

static struct entry *key_entry(struct world *w, uint32_t id) {
    struct entry *e = memory_alloc(w->memory, ENTRY_HEADER + KEY_SIZE);
    assert_non_null(e);
    *e = (struct entry){.kind = TYPE_STRING | ENC_EMBEDDED << 3, .key_size = KEY_SIZE};
    memcpy(e->rest, &(uint64_t){id}, KEY_SIZE);
    return e;
}

static table_slot *find(struct world *w, uint32_t id) {
    uint64_t key = id;
    return table_find(&w->table, hash_of(w, id), (const char *)&key, KEY_SIZE);
}

static void insert(struct world *w, uint32_t id) {
    assert_null(find(w, id));
    struct entry *e = key_entry(w, id);
    int rc = table_insert(&w->table, hash_of(w, id), e);
    if (rc) {
        assert_false(w->growth_allowed);
        assert_null(find(w, id));
        memory_free(w->memory, e, entry_size(e));
        return;
    }
    w->entries[id] = e;
    w->at[id] = w->count;
    w->present[w->count++] = id;
}

static void remove_id(struct world *w, uint32_t id) {
    table_slot *slot = find(w, id);
    assert_non_null(slot);
    assert_ptr_equal(table_entry(*slot), w->entries[id]);
    table_remove(&w->table, hash_of(w, id), slot);
    memory_free(w->memory, w->entries[id], ENTRY_HEADER + KEY_SIZE);
    w->entries[id] = NULL;
    w->awaited[id] = false;
    uint32_t last = w->present[--w->count];
    w->present[w->at[id]] = last;
    w->at[last] = w->at[id];
}

static void replace(struct world *w, uint32_t id) {
    table_slot *slot = find(w, id);
    struct entry *e = key_entry(w, id);
    memory_free(w->memory, w->entries[id], ENTRY_HEADER + KEY_SIZE);
    table_replace(slot, e);
    *slot ^= TABLE_VISITED;
    w->entries[id] = e;
    assert_ptr_equal(find(w, id), slot);
}

static void visited(void *arg, uint64_t hash_prefix, table_slot *slot) {
    struct world *w = arg;
    uint32_t id = id_of(table_entry(*slot));
    assert_ptr_equal(table_entry(*slot), w->entries[id]);
    assert_int_equal(hash_prefix & 0x3fff, hash_of(w, id) & 0x3fff);
    w->awaited[id] = false;
    w->visits++;
}

static void scan_step(struct world *w) {
    if (!w->cursor) {
        for (uint32_t i = 0; i < w->count; i++) w->awaited[w->present[i]] = true;
    }
    table_prefetch_scan(&w->table, w->cursor, w->visits & 1);
    w->cursor = table_scan(&w->table, w->cursor, visited, w);
    assert_true(w->cursor < 1ull << TABLE_CURSOR_BITS);
    if (w->cursor) return;
    for (uint32_t i = 0; i < w->count; i++) assert_false(w->awaited[w->present[i]]);
}

struct matches {
    struct world *w;
    uint32_t id, found;
};

static void matched(void *arg, uint64_t hash_prefix, table_slot *slot) {
    struct matches *m = arg;
    uint64_t hash = hash_of(m->w, m->id);
    (void)hash_prefix;
    assert_int_equal(hash & 0x3fff, hash_of(m->w, id_of(table_entry(*slot))) & 0x3fff);
    m->found += id_of(table_entry(*slot)) == m->id;
}

static void look(struct world *w, uint32_t id) {
    uint64_t hash = hash_of(w, id);
    struct matches m = {w, id, 0};
    table_prefetch_directory(&w->table, hash);
    table_prefetch_buckets(&w->table, hash, true, id & 1);
    table_prefetch_entry(&w->table, hash);
    table_slot *slot = find(w, id);
    if (w->entries[id]) assert_ptr_equal(table_entry(*slot), w->entries[id]);
    else assert_null(slot);
    table_match(&w->table, hash & ((1ull << 50) - 1), matched, &m);
    assert_int_equal(m.found, w->entries[id] != NULL);
    if (!w->count) return;
    slot = table_random(&w->table, draw, w);
    assert_non_null(slot);
    assert_ptr_equal(table_entry(*slot), w->entries[id_of(table_entry(*slot))]);
}

static void free_entry(void *arg, uint64_t hash_prefix, table_slot *slot) {
    struct world *w = arg;
    (void)hash_prefix;
    w->count--;
    memory_free(w->memory, table_entry(*slot), ENTRY_HEADER + KEY_SIZE);
}

/* With more than 2^12 words a directory is resized in slices; for that a table must have a million entries, or believe that it has. */
static void pretend(struct world *w, uint64_t entries) {
    w->table.count += entries - w->pretended;
    w->pretended = entries;
}

static void check(const struct world *w, uint32_t operation) {
    struct table honest = w->table;
    honest.count -= w->pretended;
    const char *wrong = table_check(&honest);
    if (wrong) fail_msg("seed %llu, kind %d, operation %u: %s", (unsigned long long)seed, w->kind, operation, wrong);
    assert_int_equal(honest.count, w->count);
}

static void run(enum kind kind, uint32_t universe, uint32_t operations) {
    struct world *w = calloc(1, sizeof *w);
    operations = operations * scale / 10;
    w->kind = kind;
    w->universe = universe;
    w->random = seed + (uint64_t)kind;
    w->memory = memory_new(false);
    w->growth_allowed = true;
    table_init(&w->table, w->memory, hash_entry, w);
    w->table.may_grow = may_grow;
    w->table.owner = w;
    uint32_t inserts = 0, resizing = 0; /* inserts: of 100 changes, in this phase */
    for (uint32_t i = 0; i < operations; i++) {
        if (i % (operations / 8) == 0) inserts = (i / (operations / 8)) % 2 ? 15 + below(w, 20) : 70 + below(w, 30);
        if (i % (operations / 40) == 0) w->growth_allowed = below(w, 4) > 0;
        if (kind == DEEP_CORNER && i % (operations / 80) == 0) pretend(w, below(w, 3) ? 225u << 12 : 0);
        uint32_t what = below(w, 100), id = below(w, universe);
        if (what < 75) {
            bool inserting = below(w, 100) < inserts;
            if (inserting && !w->entries[id]) insert(w, id);
            else if (!inserting && w->count) remove_id(w, w->present[below(w, w->count)]);
        } else if (what < 80) {
            if (w->count) replace(w, w->present[below(w, w->count)]);
        } else if (what < 90) {
            look(w, id);
        } else if (what < 92) {
            table_work(&w->table, kind == DEEP_CORNER ? 1 : below(w, 20));
        } else {
            for (uint32_t n = below(w, 30); n; n--) scan_step(w);
        }
        if (i % (operations / 50) == 0 || (w->table.resized && i % 200 == 0)) check(w, i);
        resizing += w->table.resized != NULL;
    }
    pretend(w, 0);
    if (kind == DEEP_CORNER) assert_true(resizing > 1000);
    do scan_step(w);
    while (w->cursor);
    do scan_step(w);
    while (w->cursor);
    struct table_stats s;
    table_stats(&w->table, &s);
    assert_int_equal(table_stats_walk(&w->table, 0, UINT32_MAX, &s), 0);
    assert_int_equal(s.walked, s.segments);
    assert_int_equal(s.home + s.neighbour + s.stash + s.chain, w->count);
    print_message("kind %d: %u entries, %llu segments, depth %u, %llu splits, %llu merges, %llu chain buckets, %llu withheld\n", kind,
        w->count, (unsigned long long)s.segments, s.depth, (unsigned long long)s.splits, (unsigned long long)s.merges,
        (unsigned long long)s.chain_buckets, (unsigned long long)s.withheld);
    while (table_dismantle(&w->table, free_entry, w)) {}
    assert_int_equal(w->count, 0);
    assert_null(table_check(&w->table));
    assert_int_equal(memory_used(w->memory), 0);
    memory_drop(w->memory);
    free(w);
}

static void agrees_with_the_model_for_uniform_hashes(void **state) {
    (void)state;
    run(UNIFORM, UNIVERSE, 400000);
}
static void agrees_with_the_model_for_few_different_hashes(void **state) {
    (void)state;
    run(EQUAL_IN_GROUPS, 3000, 100000);
}
static void agrees_with_the_model_when_all_lie_in_one_corner(void **state) {
    (void)state;
    run(ONE_CORNER, UNIVERSE / 8, 200000);
}
static void agrees_with_the_model_for_one_fingerprint(void **state) {
    (void)state;
    run(ONE_FINGERPRINT, UNIVERSE, 200000);
}
static void agrees_with_the_model_while_the_directory_is_resized(void **state) {
    (void)state;
    run(DEEP_CORNER, UNIVERSE / 8, 200000);
}
static void agrees_with_the_model_for_two_homes(void **state) {
    (void)state;
    run(TWO_HOMES, UNIVERSE / 8, 100000);
}

int main(void) {
    const char *given = getenv("DARTER_SEED");
    seed = given ? strtoull(given, NULL, 0) : 1;
    if (getenv("DARTER_TEST_LIGHT")) scale = 1;
    if (getenv("DARTER_SOAK")) scale = 200;
    print_message("DARTER_SEED=%llu\n", (unsigned long long)seed);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(agrees_with_the_model_for_uniform_hashes),
        cmocka_unit_test(agrees_with_the_model_for_few_different_hashes),
        cmocka_unit_test(agrees_with_the_model_when_all_lie_in_one_corner),
        cmocka_unit_test(agrees_with_the_model_for_one_fingerprint),
        cmocka_unit_test(agrees_with_the_model_for_two_homes),
        cmocka_unit_test(agrees_with_the_model_while_the_directory_is_resized),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
