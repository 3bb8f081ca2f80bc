#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shard/keyspace.h"
#include "shard/memory.h"
#include "shard/shard.h"

#define START_MS INT64_C(1700000000000)
#define DATABASES 16u
#define BUDGET_NS 100000u

static uint64_t looks;
static uint64_t counting_ns(void) { return ++looks * 10000; }

static struct hash_secret secret;

static struct shard *new_shard(void) {
    uint8_t seed[32] = {3};
    hash_secret_init(&secret, seed);
    struct shard_options o = {.id = 2, .shards = 4, .databases = DATABASES, .secret = &secret, .seed = 42, .now_ms = START_MS};
    return shard_new(&o);
}

static int setup(void **state) {
    *state = new_shard();
    return !*state;
}

static int teardown(void **state) {
    struct shard *s = *state;
    for (uint32_t i = 0; i < DATABASES; i++) assert_null(table_check(&s->dbs[i]->keys));
    shard_drop(s);
    return 0;
}

static bool find(struct shard *s, uint32_t db, const char *name, struct key *k) {
    uint32_t size = (uint32_t)strlen(name);
    return key_find(s, s->dbs[db], hash_key(&secret, name, size), name, size, k);
}

static void set(struct shard *s, uint32_t db, const char *name, const char *value, size_t size) {
    struct key k;
    find(s, db, name, &k);
    assert_int_equal(key_set_bytes(s, &k, value, size, FORM_ANY, EXPIRY_NONE, KEY_SET), 0);
}

static void fill(struct shard *s, uint32_t db, uint32_t n) {
    static const char value[4096];
    char name[16];
    for (uint32_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "key:%u", i);
        set(s, db, name, value, i % 100 ? 16 : 3000);
    }
}

static unsigned work(struct shard *s, int64_t now_ms) {
    unsigned slices = 1;
    while (shard_work(s, now_ms, BUDGET_NS, counting_ns)) assert_true(++slices < 1000000);
    assert_true(shard_next_due(s) > now_ms);
    return slices;
}

static void a_new_shard_is_small_and_has_nothing_to_do(void **state) {
    struct shard *s = *state;
    assert_true(memory_used(s->memory) < 20000);
    assert_true(shard_next_due(s) == INT64_MAX);
    looks = 0;
    assert_false(shard_work(s, START_MS, BUDGET_NS, counting_ns));
    assert_int_equal(looks, 0);
    assert_int_equal(s->id, 2);
    assert_int_equal(s->shards, 4);
    for (uint32_t i = 0; i < DATABASES; i++) {
        assert_ptr_equal(s->dbs[i], s->by_id[i]);
        assert_int_equal(s->dbs[i]->id, i);
    }
}

static void random_numbers_follow_the_seed_and_fill_all_bits(void **state) {
    struct shard *s = *state, *twin = new_shard();
    uint64_t all = 0, none = ~0ull;
    for (int i = 0; i < 1000; i++) {
        uint64_t r = shard_random(s);
        assert_true(r == shard_random(twin));
        all |= r;
        none &= r;
    }
    assert_true(all == ~0ull && none == 0);
    shard_drop(twin);
}

static void a_flush_is_seen_at_once_and_its_memory_returns_in_slices(void **state) {
    struct shard *s = *state;
    struct key k;
    size_t before = memory_used(s->memory);
    fill(s, 3, 200000);
    fill(s, 4, 10);
    work(s, START_MS);
    size_t full = memory_used(s->memory);
    shard_flush(s, 3);
    assert_int_equal(s->dbs[3]->keys.count, 0);
    assert_false(find(s, 3, "key:1", &k));
    assert_true(find(s, 4, "key:1", &k));
    assert_true(shard_next_due(s) <= START_MS);
    assert_true(memory_used(s->memory) >= full);

    size_t last = full;
    unsigned slices = 1;
    while (looks = 0, shard_work(s, START_MS, BUDGET_NS, counting_ns)) {
        size_t used = memory_used(s->memory);
        assert_true(used < last);
        /* A segment of large values between two looks at the clock. */
        assert_true(last - used < 12 * (450 * 100 + 10 * 4096));
        assert_true(looks <= 12);
        last = used;
        slices++;
        if (slices == 5) set(s, 3, "key:1", "new", 3); /* the database is in use meanwhile */
    }
    assert_true(slices > 20);
    assert_true(find(s, 3, "key:1", &k));
    key_delete(s, &k, KEY_DEL);
    shard_flush(s, 4);
    shard_flush(s, 3);
    work(s, START_MS);
    assert_in_range(memory_used(s->memory), before, before + 8192);
}

static void several_flushes_may_wait(void **state) {
    struct shard *s = *state;
    size_t before = memory_used(s->memory);
    for (int i = 0; i < 5; i++) {
        fill(s, 0, 5000);
        shard_flush(s, 0);
    }
    work(s, START_MS);
    assert_int_equal(memory_used(s->memory), before);
}

static void a_shard_may_be_dropped_at_any_time(void **state) {
    struct shard *s = new_shard();
    fill(s, 0, 50000);
    fill(s, 1, 50000);
    shard_flush(s, 1);
    shard_work(s, START_MS, BUDGET_NS, counting_ns);
    fill(s, 1, 1000);
    shard_swap(s, 0, 1);
    shard_drop(s); /* leaks are the sanitizer's to find */
}

static void a_flush_without_memory_is_right_all_the_same(void **state) {
    struct shard *s = *state;
    size_t before = memory_used(s->memory);
    fill(s, 0, 5000);
    memory_fail_after(s->memory, 1);
    shard_flush(s, 0);
    memory_fail_after(s->memory, 0);
    assert_int_equal(s->dbs[0]->keys.count, 0);
    assert_int_equal(memory_used(s->memory), before);
}

static void swapping_exchanges_numbers_and_keeps_ids(void **state) {
    struct shard *s = *state;
    struct key k;
    set(s, 2, "a", "1", 1);
    set(s, 5, "b", "2", 1);
    shard_swap(s, 2, 5);
    assert_true(find(s, 5, "a", &k));
    assert_true(find(s, 2, "b", &k));
    assert_false(find(s, 2, "a", &k));
    assert_int_equal(s->dbs[2]->id, 5);
    assert_ptr_equal(s->by_id[5], s->dbs[2]);
    shard_swap(s, 2, 2);
    assert_true(find(s, 2, "b", &k));
}

static bool never(void *arg, size_t bytes) { return false; }

/* Growth that is refused must not keep the thread from sleeping, and is not forgotten. */
static void a_table_that_may_not_grow_is_asked_again_later(void **state) {
    struct shard *s = *state;
    fill(s, 0, 1000000);
    int64_t now = START_MS;
    work(s, now);
    s->dbs[0]->keys.may_grow = never;
    s->dbs[0]->keys.grow_due = 1;
    s->dbs[0]->keys.chained += 1; /* as if a segment had chained */
    work(s, now);
    int64_t next = shard_next_due(s);
    assert_true(next > now && next < now + 1000);
    s->dbs[0]->keys.may_grow = NULL;
    s->dbs[0]->keys.chained -= 1;
    work(s, next);
    assert_true(shard_next_due(s) == INT64_MAX);
}

/* When most keys go, the table gives its segments back, without being asked. */
static void a_table_that_became_sparse_shrinks(void **state) {
    struct shard *s = *state;
    struct key k;
    char name[16];
    fill(s, 0, 400000);
    work(s, START_MS);
    for (uint32_t i = 300000; i < 400000; i++) { /* not enough to shrink: no reason to stay awake */
        snprintf(name, sizeof name, "key:%u", i);
        if (find(s, 0, name, &k)) key_delete(s, &k, KEY_DEL);
    }
    work(s, START_MS);
    assert_true(shard_next_due(s) == INT64_MAX);
    uint64_t segments = s->dbs[0]->keys.segments;
    for (uint32_t i = 0; i < 300000; i++) {
        snprintf(name, sizeof name, "key:%u", i);
        if (i % 32 && find(s, 0, name, &k)) key_delete(s, &k, KEY_DEL);
        if (i % 100 == 0) shard_work(s, START_MS, BUDGET_NS, counting_ns);
    }
    work(s, START_MS);
    assert_true(s->dbs[0]->keys.segments < segments / 4);
    for (uint32_t i = 0; i < 300000; i += 32) {
        snprintf(name, sizeof name, "key:%u", i);
        assert_true(find(s, 0, name, &k));
    }
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_new_shard_is_small_and_has_nothing_to_do),
        TEST(random_numbers_follow_the_seed_and_fill_all_bits),
        TEST(a_flush_is_seen_at_once_and_its_memory_returns_in_slices),
        TEST(several_flushes_may_wait),
        TEST(a_shard_may_be_dropped_at_any_time),
        TEST(a_flush_without_memory_is_right_all_the_same),
        TEST(swapping_exchanges_numbers_and_keeps_ids),
        TEST(a_table_that_may_not_grow_is_asked_again_later),
        TEST(a_table_that_became_sparse_shrinks),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
