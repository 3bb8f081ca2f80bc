/* Keys passed between loaders: each gets its own, whole and in order; what is under way is bounded, and nobody waits for ever. */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/passing.h"

#define LOADERS 4u
#define CHUNKS 200u
#define KEYS 300u /* of a chunk */
#define LIMIT ((size_t)16 << 20)

static struct passing *p;

static bool put(uint32_t from, uint32_t to, uint32_t n, uint32_t value_size) {
    char name[32];
    static uint8_t zeros[1 << 20];
    int size = snprintf(name, sizeof name, "%u:%u:%u", from, to, n);
    struct passed_key k = {.hash = n,
        .offset = n * UINT64_C(7),
        .expire_at_ms = -(int64_t)n,
        .value_size = value_size,
        .name_size = (uint32_t)size,
        .db = n % 16,
        .type = (uint8_t)(n % 11),
        .name = name,
        .value = zeros};
    return passing_put(p, from, to, &k);
}

/* What a loader has got, by who sent it: so many, as each sends his in order. */
struct got {
    uint32_t next[LOADERS];
    uint64_t bytes;
};

static void take_all(struct got *g, uint32_t to, struct bundle *list) {
    struct passed_key k;
    for (; list; list = bundle_drop(p, list))
        for (size_t at = 0; bundle_next(list, &at, &k);) {
            char name[32];
            uint32_t from = (uint32_t)(k.name[0] - '0'), n = g->next[from]++;
            int size = snprintf(name, sizeof name, "%u:%u:%u", from, to, n);
            assert_true(k.name_size == (uint32_t)size && !memcmp(k.name, name, k.name_size));
            assert_true(k.hash == n && k.offset == n * UINT64_C(7) && k.expire_at_ms == -(int64_t)n && k.db == n % 16 && k.type == n % 11);
            for (size_t i = 0; i < k.value_size; i++) assert_int_equal(k.value[i], 0);
            g->bytes += k.value_size;
        }
}

/* ---- as loaders do it ---- */

static struct got got[LOADERS];
static bool all_to_one;

static void *load(void *arg) {
    uint32_t me = (uint32_t)(uintptr_t)arg, sent[LOADERS] = {0};
    for (uint32_t chunk = 0; chunk < CHUNKS; chunk++) {
        take_all(&got[me], me, passing_take(p, me));
        for (uint32_t i = 0; i < KEYS; i++) {
            uint32_t to = all_to_one ? 0 : (me + i) % LOADERS;
            if (to != me && !put(me, to, sent[to]++, i % 17 ? 100 : 3000)) abort();
        }
    }
    passing_end(p, me);
    for (struct bundle *list; (list = passing_await(p, me));) take_all(&got[me], me, list);
    return NULL;
}

static void run_loaders(void) {
    pthread_t threads[LOADERS];
    memset(got, 0, sizeof got);
    assert_non_null(p = passing_new(LOADERS));
    for (uintptr_t i = 0; i < LOADERS; i++) assert_false(pthread_create(&threads[i], NULL, load, (void *)i));
    for (uint32_t i = 0; i < LOADERS; i++) pthread_join(threads[i], NULL);
    assert_false(passing_failed(p));
    passing_free(p);
}

static void test_each_gets_its_own(void **state) {
    (void)state;
    all_to_one = false;
    run_loaders();
    for (uint32_t to = 0; to < LOADERS; to++)
        for (uint32_t from = 0; from < LOADERS; from++) assert_int_equal(got[to].next[from], from == to ? 0 : CHUNKS * KEYS / LOADERS);
}

/* So most of them wait, most of the time. */
static void test_all_may_be_for_one(void **state) {
    (void)state;
    all_to_one = true;
    run_loaders();
    for (uint32_t to = 0; to < LOADERS; to++)
        for (uint32_t from = 0; from < LOADERS; from++) assert_int_equal(got[to].next[from], from && !to ? CHUNKS * KEYS : 0);
}

/* ---- the bound ---- */

static _Atomic size_t under_way;

static void *send_much(void *arg) {
    uint32_t me = (uint32_t)(uintptr_t)arg;
    for (uint32_t i = 0; i < 64; i++) {
        assert_null(passing_take(p, me));
        if (passing_failed(p)) return NULL;
        atomic_fetch_add(&under_way, 1 << 20);
        if (!put(me, 0, i, 1 << 20)) abort();
    }
    passing_end(p, me);
    assert_null(passing_await(p, me));
    return NULL;
}

static void start_senders(pthread_t *threads) {
    assert_non_null(p = passing_new(LOADERS));
    atomic_store(&under_way, 0);
    for (uintptr_t i = 1; i < LOADERS; i++) assert_false(pthread_create(&threads[i], NULL, send_much, (void *)i));
    while (atomic_load(&under_way) < LIMIT) sched_yield();
    for (unsigned i = 0; i < 2000; i++) sched_yield(); /* they could go on, if they did not wait */
}

static void test_what_is_under_way_is_bounded(void **state) {
    pthread_t threads[LOADERS];
    uint64_t most = 0;
    (void)state;
    start_senders(threads);
    memset(got, 0, sizeof got);
    passing_end(p, 0);
    for (struct bundle *list; (list = passing_await(p, 0));)
        for (; list;) {
            size_t now = atomic_load(&under_way), at = 0;
            struct passed_key k;
            if (now > most) most = now;
            while (bundle_next(list, &at, &k)) atomic_fetch_sub(&under_way, k.value_size), got[0].bytes += k.value_size;
            list = bundle_drop(p, list);
        }
    for (uint32_t i = 1; i < LOADERS; i++) pthread_join(threads[i], NULL);
    assert_int_equal(got[0].bytes, (uint64_t)64 * (LOADERS - 1) << 20);
    /* The limit; for each sender what it is filling, and what it was allowed to put; what was counted and is not put yet. */
    assert_true(most <= LIMIT + ((uint64_t)3 * LOADERS << 20));
    passing_free(p);
}

static void test_a_failure_wakes_all(void **state) {
    pthread_t threads[LOADERS];
    (void)state;
    start_senders(threads);
    passing_fail(p);
    for (uint32_t i = 1; i < LOADERS; i++) pthread_join(threads[i], NULL);
    passing_end(p, 0);
    struct bundle *list;
    while ((list = passing_await(p, 0)))
        while (list) list = bundle_drop(p, list);
    assert_true(passing_failed(p));
    passing_free(p);
}

/* Nobody has taken it. */
static void test_what_is_under_way_at_the_end_is_freed(void **state) {
    (void)state;
    assert_non_null(p = passing_new(2));
    for (uint32_t i = 0; i < 10; i++) assert_true(put(0, 1, i, 60000));
    passing_fail(p);
    passing_free(p);
    passing_free(NULL);
}

static void test_bundles_of_many_loaders_are_small(void **state) {
    (void)state;
    assert_non_null(p = passing_new(128));
    for (uint32_t i = 0; i < 100; i++) assert_true(put(0, 127, i, 100));
    passing_end(p, 0);
    struct bundle *list = passing_take(p, 127);
    unsigned bundles = 0;
    for (; list; list = bundle_drop(p, list)) bundles++;
    assert_true(bundles > 3);
    passing_free(p);
}

/* It would be held without being counted until the same loader has another for the same one. */
static void test_one_that_is_longer_than_a_bundle_does_not_wait(void **state) {
    (void)state;
    assert_non_null(p = passing_new(2));
    assert_true(put(0, 1, 0, 1 << 20));
    struct bundle *list = passing_take(p, 1);
    assert_non_null(list);
    while (list) list = bundle_drop(p, list);
    passing_free(p);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_gets_its_own),
        cmocka_unit_test(test_all_may_be_for_one),
        cmocka_unit_test(test_what_is_under_way_is_bounded),
        cmocka_unit_test(test_a_failure_wakes_all),
        cmocka_unit_test(test_what_is_under_way_at_the_end_is_freed),
        cmocka_unit_test(test_bundles_of_many_loaders_are_small),
        cmocka_unit_test(test_one_that_is_longer_than_a_bundle_does_not_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
