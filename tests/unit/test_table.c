#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shard/memory.h"
#include "shard/table.h"
#include "shard/table_match.h"

#define SEGMENT_SLOTS 476u
#define RESIZED_AT_ONCE 12u /* depth up to which a directory is made at once */

/* A table over keys that are numbers. The key says what its hash is: keys[i] has hashes[i]. */
struct world {
    struct memory *memory; /* the table's alone */
    struct table table;
    struct memory *entry_memory;
    struct entry **entries;
    uint64_t *hashes;
    uint32_t n;
    uint64_t random;
    size_t refuse_above; /* bytes: may_grow refuses more, */
    size_t but_not;      /* but not this many */
};

static uint64_t mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9ull;
    x = (x ^ x >> 27) * 0x94d049bb133111ebull;
    return x ^ x >> 31;
}

static uint64_t draw(void *arg) {
    struct world *w = arg;
    return mix(w->random += 0x9e3779b97f4a7c15ull);
}

static uint32_t number_of(const struct entry *e) {
    uint32_t i;
    memcpy(&i, entry_key(e), sizeof i);
    return i;
}
static uint64_t hash_entry(const void *arg, const struct entry *e) { return ((const struct world *)arg)->hashes[number_of(e)]; }
static bool may_grow(void *arg, size_t bytes) {
    const struct world *w = arg;
    return bytes <= w->refuse_above || bytes == w->but_not;
}

static void setup(struct world *w, uint32_t n, uint64_t (*hash)(uint32_t i)) {
    *w = (struct world){.n = n, .random = 7, .refuse_above = SIZE_MAX};
    w->memory = memory_new(false);
    w->entry_memory = memory_new(false);
    w->hashes = malloc(n * sizeof *w->hashes);
    w->entries = malloc(n * sizeof *w->entries);
    for (uint32_t i = 0; i < n; i++) {
        w->hashes[i] = hash(i);
        struct entry *e = w->entries[i] = memory_alloc(w->entry_memory, 8);
        *e = (struct entry){.kind = TYPE_STRING | ENC_EMBEDDED << 3, .key_size = 4};
        memcpy(e->rest, &i, 4);
    }
    table_init(&w->table, w->memory, hash_entry, w);
    w->table.may_grow = may_grow;
    w->table.owner = w;
}

static void teardown(struct world *w) {
    table_drop(&w->table);
    assert_int_equal(memory_used(w->memory), 0);
    memory_drop(w->memory);
    memory_drop(w->entry_memory);
    free(w->hashes);
    free(w->entries);
}

static void check(const struct world *w) {
    const char *wrong = table_check(&w->table);
    if (wrong) fail_msg("%s", wrong);
}

static table_slot *find(const struct world *w, uint32_t i) { return table_find(&w->table, w->hashes[i], (const char *)&i, 4); }
static int insert(struct world *w, uint32_t i) { return table_insert(&w->table, w->hashes[i], w->entries[i]); }
static void insert_range(struct world *w, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++) assert_int_equal(insert(w, i), 0);
}
static void remove_range(struct world *w, uint32_t from, uint32_t to) {
    for (uint32_t i = from; i < to; i++) {
        table_slot *slot = find(w, i);
        assert_non_null(slot);
        table_remove(&w->table, w->hashes[i], slot);
    }
}
/* Exactly the numbers in [from, to) are there. */
static void check_range(const struct world *w, uint32_t from, uint32_t to) {
    check(w);
    assert_int_equal(w->table.count, to - from);
    for (uint32_t i = 0; i < w->n; i++) {
        table_slot *slot = find(w, i);
        if (i < from || i >= to) assert_null(slot);
        else assert_ptr_equal(table_entry(*slot), w->entries[i]);
    }
}
static void work(struct world *w) {
    for (int i = 0; i < 1000000; i++) {
        if (!table_work(&w->table, 50)) return;
    }
    fail_msg("the table's work has no end");
}
static struct table_stats stats_of(const struct world *w) {
    struct table_stats s;
    uint64_t position = 0;
    table_stats(&w->table, &s);
    do position = table_stats_walk(&w->table, position, 3, &s);
    while (position);
    return s;
}

static uint64_t uniform(uint32_t i) { return mix(i + 1); }
static uint64_t equal(uint32_t i) {
    (void)i;
    return 0x0123456789abcdefull;
}
static uint64_t one_fingerprint(uint32_t i) { return mix(i + 1) | 0xff; }
/* The same first 4, 7, 11, 15, 19 directory bits. */
static uint64_t corner_4(uint32_t i) { return (mix(i + 1) & ~(0xfull << 46)) | 0xaull << 46; }
static uint64_t corner_7(uint32_t i) { return (mix(i + 1) & ~(0x7full << 43)) | 0x55ull << 43; }
static uint64_t corner_11(uint32_t i) { return (mix(i + 1) & ~(0x7ffull << 39)) | 0x5a5ull << 39; }
static uint64_t corner_15(uint32_t i) { return (mix(i + 1) & ~(0x7fffull << 35)) | 0x5a5aull << 35; }
static uint64_t corner_19(uint32_t i) { return (mix(i + 1) & ~(0x7ffffull << 31)) | 0x2a5a5ull << 31; }
/* Two hashes that differ in the first directory bit. */
static uint64_t one_of_two(uint32_t i) { return equal(i) ^ (uint64_t)(i & 1) << 49; }
static uint64_t uniform_and_equal(uint32_t i) { return i % 3 ? mix(i + 1) : equal(i); }

/* The depth that a table allows itself, and that it chooses for its directory, grow with its count of entries. Adding this makes a small table
 * behave as one of so many that its segments are half full at this depth. */
static uint64_t pretended(unsigned depth) { return 225ull << depth; }

/* ---- lookup ---- */

static void matching_agrees_with_its_plain_version(void **state) {
    (void)state;
    uint64_t random = 1;
    for (int round = 0; round < 20000; round++) {
        uint8_t bytes[16], byte = (uint8_t)mix(random++);
        uint32_t expected = 0;
        for (int i = 0; i < 16; i++) {
            uint64_t r = mix(random++);
            static const uint8_t near[] = {0, 1, 0x7f, 0x80, 0xff};
            bytes[i] = r & 1 ? byte : r & 2 ? (uint8_t)(byte ^ 1u << (r >> 8 & 7)) : r & 4 ? near[(r >> 8) % 5] : (uint8_t)(r >> 16);
            expected |= (uint32_t)(bytes[i] == byte) << i;
        }
        uint64_t low, high;
        memcpy(&low, bytes, 8);
        memcpy(&high, bytes + 8, 8);
        assert_int_equal(match_16(bytes, byte), expected);
        assert_int_equal(match_bytes(low, high, byte), expected);
        assert_int_equal(match_bytes_plain(low, high, byte), expected);
    }
}

static void count_visit(void *arg, uint64_t hash_prefix, table_slot *slot) {
    (void)hash_prefix, (void)slot;
    ++*(uint64_t *)arg;
}

static void an_empty_table_has_nothing(void **state) {
    (void)state;
    struct world w;
    setup(&w, 1, uniform);
    uint64_t visits = 0, calls = 0, cursor = 0;
    assert_null(find(&w, 0));
    assert_null(table_random(&w.table, draw, &w));
    do cursor = table_scan(&w.table, cursor, count_visit, &visits), calls++;
    while (cursor);
    assert_int_equal(calls, 64);
    table_match(&w.table, w.hashes[0], count_visit, &visits);
    table_prefetch_directory(&w.table, w.hashes[0]);
    table_prefetch_buckets(&w.table, w.hashes[0], true, true);
    assert_null(table_prefetch_entry(&w.table, w.hashes[0]));
    assert_false(table_work(&w.table, 10));
    assert_false(table_dismantle(&w.table, count_visit, &visits));
    assert_int_equal(visits, 0);
    assert_int_equal(stats_of(&w).bytes, 0);
    assert_int_equal(memory_used(w.memory), 0);
    check(&w);
    teardown(&w);
}

/* An entry as keyspace.c would make it. */
static struct entry *any_entry(struct memory *m, const char *key, uint32_t size, bool expires, bool embedded, size_t *block) {
    char head[24];
    size_t n = 0;
    if (size > 255) memcpy(head, &size, 4), n = 4;
    if (expires) memcpy(head + n, &(int64_t){123456}, 8), n += 8;
    if (!embedded) memset(head + n, 0, 8), n += 8;
    *block = ENTRY_HEADER + n + size;
    struct entry *e = memory_alloc(m, *block);
    *e = (struct entry){.key_size = size > 255 ? 0 : (uint8_t)size};
    e->kind = (uint8_t)(TYPE_STRING | (embedded ? ENC_EMBEDDED : ENC_BLOB) << 3 | (expires ? ENTRY_EXPIRES : 0) |
        (size > 255 ? ENTRY_LONG_KEY : 0));
    memcpy(e->rest, head, n);
    memcpy(e->rest + n, key, size);
    return e;
}

static void keys_of_every_size_are_found_and_told_apart(void **state) {
    (void)state;
    struct memory *m = memory_new(false);
    struct table t;
    table_init(&t, m, hash_entry, NULL);
    enum { SIZES = 320 };
    struct entry *entries[SIZES];
    size_t blocks[SIZES];
    char key[SIZES];
    for (uint32_t size = 0; size < SIZES; size++) {
        memset(key, 'k', sizeof key);
        entries[size] = any_entry(m, key, size, size % 2, size % 3, &blocks[size]);
        /* Few hashes, so that keys alone tell entries apart. */
        assert_int_equal(table_insert(&t, mix(size % 20), entries[size]), 0);
    }
    for (uint32_t size = 0; size < SIZES; size++) {
        memset(key, 'k', sizeof key);
        table_slot *slot = table_find(&t, mix(size % 20), key, size);
        assert_non_null(slot);
        assert_ptr_equal(table_entry(*slot), entries[size]);
        for (uint32_t at = 0; at < size; at++) { /* any byte matters */
            key[at] = 'x';
            assert_null(table_find(&t, mix(size % 20), key, size));
            key[at] = 'k';
        }
    }
    table_drop(&t);
    memory_drop(m);
}

static void replaced_entries_and_visited_bits_stay_with_their_slots(void **state) {
    (void)state;
    struct world w;
    setup(&w, 20000, uniform);
    for (uint32_t i = 0; i < w.n; i++) {
        insert_range(&w, i, i + 1);
        if (i % 3) continue;
        table_slot *slot = find(&w, i);
        *slot |= TABLE_VISITED;
        struct entry *copy = memory_alloc(w.entry_memory, 8);
        memcpy(copy, w.entries[i], 8);
        table_replace(slot, copy);
        w.entries[i] = copy;
    }
    check_range(&w, 0, w.n);
    for (uint32_t i = 0; i < w.n; i++) assert_int_equal((*find(&w, i) & TABLE_VISITED) != 0, i % 3 == 0);
    remove_range(&w, 0, 19000);
    work(&w);
    assert_true(w.table.merges > 10);
    for (uint32_t i = 19000; i < w.n; i++) assert_int_equal((*find(&w, i) & TABLE_VISITED) != 0, i % 3 == 0);
    teardown(&w);
}

static void match_finds_what_has_these_50_bits(void **state) {
    (void)state;
    struct world w;
    setup(&w, 3000, uniform_and_equal);
    insert_range(&w, 0, w.n);
    for (uint32_t i = 0; i < w.n; i++) {
        uint64_t visits = 0;
        table_match(&w.table, w.hashes[i] & ((1ull << 50) - 1), count_visit, &visits);
        if (i % 3) assert_in_range(visits, 1, 2);
        else assert_in_range(visits, 1000, 1001);
    }
    teardown(&w);
}

/* ---- growing ---- */

static void segments_are_well_filled_when_they_split(void **state) {
    (void)state;
    struct world w;
    uint32_t sum = 0;
    for (int round = 0; round < 50; round++) {
        setup(&w, SEGMENT_SLOTS + 1, uniform);
        for (uint32_t i = 0; i < w.n; i++) w.hashes[i] = mix(w.hashes[i] + (uint64_t)round);
        uint32_t n = 0;
        while (!w.table.splits) insert_range(&w, n, n + 1), n++;
        sum += n - 1;
        check(&w);
        teardown(&w);
    }
    assert_in_range(sum / 50, 440, 465);
}

static void a_key_costs_9_to_20_bytes(void **state) {
    (void)state;
    struct world w;
    setup(&w, 150000, uniform);
    for (uint32_t i = 0; i < w.n; i++) {
        insert_range(&w, i, i + 1);
        if (i < 10000 || i % 1000) continue;
        struct table_stats s = stats_of(&w);
        assert_in_range(s.bytes / (i + 1), 9, 20);
        assert_int_equal(s.home + s.neighbour + s.stash + s.chain, s.entries);
        assert_int_equal(s.bytes, memory_used(w.memory));
    }
    teardown(&w);
}

static void statistics_may_be_walked_while_the_table_changes(void **state) {
    (void)state;
    struct world w;
    setup(&w, 60000, uniform);
    insert_range(&w, 0, 20000);
    for (int round = 0; round < 20; round++) {
        struct table_stats s = {0};
        uint64_t position = 0, steps = 0;
        bool growing = round % 2 == 0;
        for (uint32_t at = 20000; (position = table_stats_walk(&w.table, position, 2, &s)); steps++) {
            assert_true(steps < 1000);
            if (at + 2000 > w.n) continue;
            if (growing) insert_range(&w, at, at + 2000);
            else remove_range(&w, at, at + 2000);
            at += 2000;
            if (!growing) table_work(&w.table, 50);
        }
        assert_true(s.walked > 20 && s.home + s.neighbour + s.stash > 15000);
        if (growing) insert_range(&w, w.table.count, w.n);
        else remove_range(&w, 60000 - (w.table.count - 20000), 60000);
        work(&w);
    }
    teardown(&w);
}

static void statistics_add_up(void **state) {
    (void)state;
    struct world w;
    setup(&w, 30000, uniform_and_equal);
    insert_range(&w, 0, 3000);
    struct table_stats one = stats_of(&w), two = one;
    table_stats_add(&two, &one);
    assert_int_equal(two.entries, 2 * one.entries);
    assert_int_equal(two.bytes, 2 * one.bytes);
    assert_int_equal(two.depth, one.depth);
    assert_true(one.chain > 0 && two.chain == 2 * one.chain && two.walked == 2 * one.segments);
    uint64_t segments = 0, filled = 0;
    for (unsigned i = 0; i <= HASH_DIRECTORY_BITS; i++) segments += two.at_depth[i];
    for (unsigned i = 0; i < 16; i++) filled += two.fill[i];
    assert_int_equal(segments, 2 * one.segments);
    assert_int_equal(filled, 2 * one.segments);
    teardown(&w);
}

static void equal_hashes_chain_and_do_not_split_for_ever(void **state) {
    (void)state;
    struct world w;
    setup(&w, 3000, equal);
    for (uint32_t i = 0; i < w.n; i++) {
        insert_range(&w, i, i + 1);
        assert_in_range(w.table.depth, 0, 8);
    }
    check_range(&w, 0, w.n);
    assert_in_range(stats_of(&w).chain, w.n - 14 - 28, w.n);
    remove_range(&w, 0, 2900);
    check_range(&w, 2900, w.n);
    work(&w);
    check_range(&w, 2900, w.n);
    remove_range(&w, 2900, w.n);
    check_range(&w, 0, 0);
    assert_int_equal(w.table.chained, 0);
    teardown(&w);
}

static void one_fingerprint_is_only_slow(void **state) {
    (void)state;
    struct world w;
    setup(&w, 20000, one_fingerprint);
    insert_range(&w, 0, w.n);
    check_range(&w, 0, w.n);
    remove_range(&w, 0, w.n / 2);
    check_range(&w, w.n / 2, w.n);
    teardown(&w);
}

static void splits_cross_the_windows_of_directory_bits(void **state) {
    (void)state;
    uint64_t (*const corners[])(uint32_t) = {corner_7, corner_15, corner_19};
    const unsigned depths[] = {8, 16, 20};
    for (int k = 0; k < 3; k++) {
        struct world w;
        setup(&w, 4000, corners[k]);
        w.table.count = pretended(depths[k]);
        for (uint32_t i = 0; i < w.n; i++) {
            insert_range(&w, i, i + 1);
            if (w.table.depth > RESIZED_AT_ONCE - 1) work(&w);
        }
        work(&w);
        w.table.count -= pretended(depths[k]);
        assert_true(w.table.depth >= depths[k] + 2);
        check_range(&w, 0, w.n);
        /* And back: the window's bits of merged segments come from where they lay. */
        remove_range(&w, 0, w.n - 100);
        w.table.merge_below = UINT64_MAX;
        work(&w);
        check_range(&w, w.n - 100, w.n);
        assert_int_equal(w.table.depth, 0);
        teardown(&w);
    }
}

static void a_refused_segment_refuses_new_keys(void **state) {
    (void)state;
    struct world w;
    setup(&w, 20000, uniform);
    uint32_t n = 0;
    while (w.table.depth < 4) insert_range(&w, n, n + 1), n++; /* now most segments are less deep than the directory */
    w.refuse_above = 0;
    while (!insert(&w, n)) n++;
    assert_int_equal(insert(&w, n), -ENOMEM);
    assert_true(w.table.withheld > 0);
    check_range(&w, 0, n);
    w.refuse_above = SIZE_MAX;
    insert_range(&w, n, w.n);
    work(&w);
    check_range(&w, 0, w.n);
    teardown(&w);
}

static void a_refused_directory_chains_and_is_made_up_for(void **state) {
    (void)state;
    struct world w;
    setup(&w, 40000, corner_4);
    w.refuse_above = 4416; /* segments are granted, and directories up to depth 9 */
    insert_range(&w, 0, w.n);
    assert_int_equal(w.table.depth, 9);
    assert_true(w.table.withheld > 0 && w.table.chained > 4000);
    check_range(&w, 0, w.n);
    assert_false(table_work(&w.table, 1000)); /* nothing that it could do, so it does not ask to be called again */
    assert_int_equal(w.table.depth, 9);
    w.refuse_above = SIZE_MAX;
    work(&w);
    check_range(&w, 0, w.n);
    assert_true(w.table.depth > 9);
    assert_in_range(w.table.chained, 0, 10);
    teardown(&w);
}

static void a_chain_of_both_sides_is_divided(void **state) {
    (void)state;
    struct world w;
    setup(&w, 1200, one_of_two);
    insert_range(&w, 0, 1);
    w.refuse_above = 0;
    w.but_not = 64; /* chain buckets */
    insert_range(&w, 1, w.n - 1);
    assert_int_equal(w.table.segments, 1);
    check_range(&w, 0, w.n - 1);
    w.refuse_above = SIZE_MAX;
    insert_range(&w, w.n - 1, w.n);
    assert_true(w.table.splits > 0);
    check_range(&w, 0, w.n);
    teardown(&w);
}

static void chained_entries_move_back_when_there_is_room(void **state) {
    (void)state;
    struct world w;
    setup(&w, 1800, uniform);
    insert_range(&w, 0, 1);
    w.refuse_above = 0; /* directories of up to 4 words are refused, */
    w.but_not = 64;     /* chain buckets are not */
    insert_range(&w, 1, w.n);
    assert_true(w.table.segments == 1 && w.table.chained > 200);
    remove_range(&w, 0, w.n - 300);
    assert_true(w.table.chained > 0);
    w.table.merge_below = UINT64_MAX;
    w.table.sweep = 1; /* a sweep over what is chained, as after a directory grew */
    work(&w);
    assert_int_equal(w.table.chained, 0);
    check_range(&w, w.n - 300, w.n);
    teardown(&w);
}

static void inserts_go_on_while_the_directory_doubles(void **state) {
    (void)state;
    struct world w;
    setup(&w, 40000, uniform);
    /* One corner is deep, so the directory is large while most segments are shallow and split during the doubling. */
    for (uint32_t i = 0; i < w.n; i += 10) w.hashes[i] = corner_11(i);
    w.table.count = pretended(11);
    bool doubling = false, doubled = false, split_meanwhile = false, chained_meanwhile = false;
    uint64_t splits = 0;
    for (uint32_t i = 0; i < w.n; i++) {
        insert_range(&w, i, i + 1);
        if (w.table.resized) {
            if (!doubling) splits = w.table.splits;
            doubling = true;
            split_meanwhile |= w.table.splits > splits;
            chained_meanwhile |= w.table.chained > 0;
            if (i % 8 == 0) doubled |= table_work(&w.table, 1) && w.table.depth > RESIZED_AT_ONCE;
        } else {
            doubling = false;
            table_work(&w.table, 1);
        }
        if (i % 2000 == 0 || (w.table.resized && i % 50 == 0)) {
            w.table.count -= pretended(11);
            check(&w);
            w.table.count += pretended(11);
        }
    }
    assert_true(doubled && split_meanwhile && chained_meanwhile);
    work(&w);
    w.table.count -= pretended(11);
    check_range(&w, 0, w.n);
    teardown(&w);
}

/* Inserts all, removes half, works, inserts again; the nth allocation fails, and whatever asked for it must have changed nothing. True: one failed. */
static bool scenario_with_failure(uint64_t nth) {
    struct world w;
    bool failed = false;
    setup(&w, 3000, uniform_and_equal);
    memory_fail_after(w.memory, nth);
    for (int round = 0; round < 2; round++) {
        for (uint32_t i = round ? w.n / 2 : 0; i < w.n; i++) {
            int rc = insert(&w, round ? i - w.n / 2 : i);
            if (!rc) continue;
            assert_int_equal(rc, -ENOMEM);
            assert_false(failed);
            failed = true;
            check(&w);
            assert_null(find(&w, round ? i - w.n / 2 : i));
            assert_int_equal(insert(&w, round ? i - w.n / 2 : i), 0);
        }
        check_range(&w, 0, w.n);
        if (round) break;
        remove_range(&w, 0, w.n / 2);
        w.table.merge_below = UINT64_MAX;
        work(&w);
        check_range(&w, w.n / 2, w.n);
    }
    failed |= w.table.withheld > 0; /* a directory that was refused only chains */
    memory_fail_after(w.memory, 0);
    teardown(&w);
    return failed;
}

static void no_failed_allocation_changes_anything(void **state) {
    (void)state;
    uint64_t nth = 1;
    while (scenario_with_failure(nth)) nth++;
    assert_true(nth > 200);
}

static void a_table_may_be_moved_by_copying_it(void **state) {
    (void)state;
    struct world w;
    setup(&w, 1000, uniform);
    struct table moved = w.table;
    memset(&w.table, 0xaa, sizeof w.table);
    w.table = moved;
    insert_range(&w, 0, w.n);
    moved = w.table;
    memset(&w.table, 0xaa, sizeof w.table);
    w.table = moved;
    check_range(&w, 0, w.n);
    teardown(&w);
}

/* ---- shrinking ---- */

static void buddies_merge_after_many_removals(void **state) {
    (void)state;
    struct world w;
    setup(&w, 100000, uniform);
    insert_range(&w, 0, w.n);
    uint64_t segments = w.table.segments, depth = w.table.depth;
    remove_range(&w, 0, w.n / 10 * 9);
    work(&w);
    check_range(&w, w.n / 10 * 9, w.n);
    assert_true(w.table.segments < segments / 3);
    assert_true(w.table.depth < depth);
    remove_range(&w, w.n / 10 * 9, w.n - 10);
    work(&w);
    check_range(&w, w.n - 10, w.n);
    assert_in_range(w.table.segments, 1, 2);
    /* And grow again. */
    insert_range(&w, 0, w.n - 10);
    check_range(&w, 0, w.n);
    teardown(&w);
}

/* A sweep judges each segment when it comes by, so what goes meanwhile asks for another. */
static void removals_during_a_sweep_are_made_up_for(void **state) {
    (void)state;
    struct world w;
    setup(&w, 60000, uniform);
    insert_range(&w, 0, w.n);
    work(&w);
    uint64_t segments = w.table.segments;
    uint32_t removed = 0;
    while (!w.table.sweep) {
        remove_range(&w, removed, removed + 100);
        removed += 100;
        table_work(&w.table, 1);
    }
    while (w.table.sweep && w.table.count > 6100) { /* the sweep ends about when the removals do */
        uint32_t n = (uint32_t)(w.table.count / 200);
        remove_range(&w, removed, removed + n);
        removed += n;
        table_work(&w.table, 1);
    }
    remove_range(&w, removed, 54000);
    work(&w);
    assert_true(w.table.segments < segments / 3);
    check_range(&w, 54000, w.n);
    teardown(&w);
}

static void merging_and_splitting_do_not_alternate(void **state) {
    (void)state;
    struct world w;
    setup(&w, 100000, uniform);
    insert_range(&w, 0, w.n);
    remove_range(&w, 20000, w.n);
    work(&w);
    uint64_t shaped = w.table.splits + w.table.merges;
    for (int round = 0; round < 50; round++) { /* up and down by a tenth */
        insert_range(&w, 20000, 22000);
        work(&w);
        remove_range(&w, 20000, 22000);
        work(&w);
    }
    assert_in_range(w.table.splits + w.table.merges, shaped, shaped + w.table.segments);
    check_range(&w, 0, 20000);
    teardown(&w);
}

static void a_halving_may_be_interrupted_by_growth(void **state) {
    (void)state;
    struct world w;
    setup(&w, 6000, corner_11);
    w.table.count = pretended(12);
    for (uint32_t i = 0; i < w.n; i++) insert_range(&w, i, i + 1), work(&w);
    w.table.count -= pretended(12);
    uint32_t depth = w.table.depth;
    assert_true(depth > RESIZED_AT_ONCE);
    remove_range(&w, 0, 4500); /* 16 segments become 8 */
    w.table.merge_below = UINT64_MAX;
    while (!(w.table.resized && w.table.resized_to) && table_work(&w.table, 1)) {}
    assert_non_null(w.table.resized);
    assert_int_equal(w.table.resized_depth, depth - 1);
    check_range(&w, 4500, w.n);
    w.table.count += pretended(12);
    uint32_t from = 4500;
    while (w.table.resized && from) { /* until a split needs the depth again */
        from--;
        insert_range(&w, from, from + 1);
        if (from % 200 == 0) table_work(&w.table, 1);
        w.table.count -= pretended(12);
        check(&w);
        w.table.count += pretended(12);
    }
    assert_null(w.table.resized);
    assert_int_equal(w.table.depth, depth);
    insert_range(&w, 0, from);
    w.table.count -= pretended(12);
    work(&w);
    check_range(&w, 0, w.n);
    teardown(&w);
}

/* ---- walking ---- */

struct walk {
    struct world *w;
    uint8_t *seen;
    uint64_t visits;
};

static void mark(void *arg, uint64_t hash_prefix, table_slot *slot) {
    struct walk *k = arg;
    uint32_t i = number_of(table_entry(*slot));
    uint64_t hash = k->w->hashes[i];
    assert_int_equal(hash_fingerprint(hash_prefix), hash_fingerprint(hash));
    assert_int_equal(hash_home(hash_prefix), hash_home(hash));
    assert_int_equal(hash_directory(hash_prefix, k->w->table.depth) & ~((1ull << k->w->table.depth) - 1), 0);
    k->seen[i]++;
    k->visits++;
}

static void a_scan_visits_each_entry_once_and_costs_64_calls_a_segment(void **state) {
    (void)state;
    uint64_t (*const hashes[])(uint32_t) = {uniform, uniform_and_equal};
    for (int k = 0; k < 2; k++) {
        struct world w;
        setup(&w, 30000 / (k ? 10 : 1), hashes[k]);
        insert_range(&w, 0, w.n);
        struct walk walk = {&w, calloc(w.n, 1), 0};
        uint64_t cursor = 0, calls = 0;
        do {
            table_prefetch_scan(&w.table, cursor, false);
            table_prefetch_scan(&w.table, cursor, true);
            uint64_t next = table_scan(&w.table, cursor, mark, &walk);
            assert_true(next > cursor || !next);
            cursor = next;
            calls++;
        } while (cursor);
        assert_int_equal(calls, 64 * w.table.segments);
        assert_int_equal(walk.visits, w.n);
        for (uint32_t i = 0; i < w.n; i++) assert_int_equal(walk.seen[i], 1);
        free(walk.seen);
        teardown(&w);
    }
}

static void any_cursor_is_safe(void **state) {
    (void)state;
    struct world w;
    setup(&w, 5000, uniform);
    for (int round = 0; round < 3; round++) {
        if (round) insert_range(&w, round == 1 ? 0 : 100, round == 1 ? 100 : w.n);
        struct walk walk = {&w, calloc(w.n, 1), 0};
        for (int i = 0; i < 20000; i++) {
            uint64_t cursor = i ? draw(&w) >> (i % 60) : UINT64_MAX;
            table_prefetch_scan(&w.table, cursor, i & 1);
            uint64_t next = table_scan(&w.table, cursor, mark, &walk);
            assert_true(next < 1ull << TABLE_CURSOR_BITS);
            assert_true(!next || next > (cursor & ((1ull << TABLE_CURSOR_BITS) - 1)));
        }
        free(walk.seen);
    }
    teardown(&w);
}

static void collect(void *arg, uint64_t hash_prefix, table_slot *slot) {
    uint64_t *list = arg;
    list[++list[0]] = hash_prefix;
    list[++list[0]] = (uintptr_t)slot;
}

static void what_a_scan_collects_can_be_removed(void **state) {
    (void)state;
    struct world w;
    setup(&w, 6000, uniform_and_equal);
    insert_range(&w, 0, w.n);
    uint64_t *list = calloc(2 * w.n + 1, sizeof *list), cursor = 0;
    do {
        list[0] = 0;
        cursor = table_scan(&w.table, cursor, collect, list);
        for (uint64_t i = 1; i < list[0]; i += 2) table_remove(&w.table, list[i], (table_slot *)(uintptr_t)list[i + 1]);
    } while (cursor);
    free(list);
    check_range(&w, 0, 0);
    teardown(&w);
}

static void a_scan_misses_nothing_while_the_table_changes(void **state) {
    (void)state;
    struct world w;
    enum { STAY = 3000, COME_AND_GO = 60000 };
    setup(&w, STAY + COME_AND_GO, uniform);
    insert_range(&w, 0, STAY);
    uint32_t from = STAY, to = STAY; /* of those that come and go, [from, to) are there */
    uint64_t splits = 0, merges = 0, visits = 0, walks = 0;
    for (int round = 0; round < 12; round++) {
        struct walk walk = {&w, calloc(w.n, 1), 0};
        uint64_t cursor = 0;
        bool growing = round % 2 == 0;
        do {
            cursor = table_scan(&w.table, cursor, mark, &walk);
            uint32_t changes = (uint32_t)(draw(&w) % 64);
            for (; changes; changes--) {
                if (growing && to < w.n) insert_range(&w, to, to + 1), to++;
                else if (!growing && from < to) remove_range(&w, from, from + 1), from++;
            }
            table_work(&w.table, (unsigned)(draw(&w) % 30));
        } while (cursor);
        for (uint32_t i = 0; i < STAY; i++) assert_true(walk.seen[i]);
        for (uint32_t i = 0; i < STAY; i++) visits += walk.seen[i];
        walks++;
        free(walk.seen);
        check(&w);
        if (growing) splits = w.table.splits;
        else merges = w.table.merges;
        if (!growing) remove_range(&w, from, to), from = to = STAY;
    }
    assert_true(splits > 100 && merges > 50);
    assert_in_range(visits, walks * STAY, walks * STAY / 10 * 13); /* few twice */
    teardown(&w);
}

static void random_entries_are_drawn_evenly(void **state) {
    (void)state;
    struct world w;
    setup(&w, 2000, uniform);
    insert_range(&w, 0, w.n);
    uint32_t *drawn = calloc(w.n, sizeof *drawn);
    for (uint32_t i = 0; i < 100 * w.n; i++) drawn[number_of(table_entry(*table_random(&w.table, draw, &w)))]++;
    double chi2 = 0;
    for (uint32_t i = 0; i < w.n; i++) chi2 += ((double)drawn[i] - 100) * ((double)drawn[i] - 100) / 100;
    assert_true(chi2 < w.n + 6 * 64); /* 2 n is the variance */
    /* A table that is nearly empty, before and after it has shrunk; and one that is all chain. */
    remove_range(&w, 0, w.n - 2);
    memset(drawn, 0, w.n * sizeof *drawn);
    for (int i = 0; i < 2000; i++) drawn[number_of(table_entry(*table_random(&w.table, draw, &w)))]++;
    assert_true(drawn[w.n - 1] > 200 && drawn[w.n - 2] > 200);
    work(&w);
    for (int i = 0; i < 100; i++) assert_true(number_of(table_entry(*table_random(&w.table, draw, &w))) >= w.n - 2);
    free(drawn);
    teardown(&w);
    setup(&w, 1000, equal);
    insert_range(&w, 0, w.n);
    uint8_t seen[1000] = {0};
    for (int i = 0; i < 20000; i++) seen[number_of(table_entry(*table_random(&w.table, draw, &w)))] = 1;
    for (int i = 0; i < 1000; i++) assert_true(seen[i]);
    teardown(&w);
}

static void dismantling_hands_every_entry_out_once(void **state) {
    (void)state;
    struct world w;
    setup(&w, 20000, uniform_and_equal);
    for (int round = 0; round < 3; round++) {
        insert_range(&w, 0, w.n);
        struct walk walk = {&w, calloc(w.n, 1), 0};
        uint64_t slices = 0, segments = w.table.segments;
        while (table_dismantle(&w.table, mark, &walk)) {
            slices++;
            if (round == 2 && slices == segments / 2) break; /* and drop the rest */
        }
        if (round == 2) table_drop(&w.table);
        else assert_int_equal(slices, segments - 1);
        for (uint32_t i = 0; i < w.n && round < 2; i++) assert_int_equal(walk.seen[i], 1);
        free(walk.seen);
        assert_int_equal(memory_used(w.memory), 0);
        check_range(&w, 0, 0);
    }
    teardown(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matching_agrees_with_its_plain_version),
        cmocka_unit_test(an_empty_table_has_nothing),
        cmocka_unit_test(keys_of_every_size_are_found_and_told_apart),
        cmocka_unit_test(replaced_entries_and_visited_bits_stay_with_their_slots),
        cmocka_unit_test(match_finds_what_has_these_50_bits),
        cmocka_unit_test(segments_are_well_filled_when_they_split),
        cmocka_unit_test(a_key_costs_9_to_20_bytes),
        cmocka_unit_test(statistics_may_be_walked_while_the_table_changes),
        cmocka_unit_test(statistics_add_up),
        cmocka_unit_test(equal_hashes_chain_and_do_not_split_for_ever),
        cmocka_unit_test(one_fingerprint_is_only_slow),
        cmocka_unit_test(splits_cross_the_windows_of_directory_bits),
        cmocka_unit_test(a_refused_segment_refuses_new_keys),
        cmocka_unit_test(a_refused_directory_chains_and_is_made_up_for),
        cmocka_unit_test(a_chain_of_both_sides_is_divided),
        cmocka_unit_test(chained_entries_move_back_when_there_is_room),
        cmocka_unit_test(inserts_go_on_while_the_directory_doubles),
        cmocka_unit_test(no_failed_allocation_changes_anything),
        cmocka_unit_test(a_table_may_be_moved_by_copying_it),
        cmocka_unit_test(buddies_merge_after_many_removals),
        cmocka_unit_test(removals_during_a_sweep_are_made_up_for),
        cmocka_unit_test(merging_and_splitting_do_not_alternate),
        cmocka_unit_test(a_halving_may_be_interrupted_by_growth),
        cmocka_unit_test(a_scan_visits_each_entry_once_and_costs_64_calls_a_segment),
        cmocka_unit_test(any_cursor_is_safe),
        cmocka_unit_test(what_a_scan_collects_can_be_removed),
        cmocka_unit_test(a_scan_misses_nothing_while_the_table_changes),
        cmocka_unit_test(random_entries_are_drawn_evenly),
        cmocka_unit_test(dismantling_hands_every_entry_out_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
