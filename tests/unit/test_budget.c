/* The budget by itself, from several threads; and shards that live within one. */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shard/blob.h"
#include "shard/keyspace.h"
#include "shard/shard.h"
#include "tests/lib/random.h"

#define START_MS INT64_C(1700000000000)
#define SHARDS 2u

static struct hash_secret secret;
static struct budget budget;

static struct random dice;

/* ---- the budget ---- */

static void what_is_left_is_given_to_the_last_byte(void **state) {
    (void)state;
    budget_init(&budget);
    assert_true(budget_take(&budget, UINT64_MAX / 2));
    assert_false(budget_exceeded(&budget));
    budget_limit(&budget, 1000, 900, 1);
    assert_int_equal(budget_take(&budget, 101), 0);
    assert_int_equal(budget_take(&budget, 100), 100);
    assert_int_equal(budget_take(&budget, 1), 0);
    assert_false(budget_exceeded(&budget));
    budget_take_anyway(&budget, 1);
    assert_true(budget_exceeded(&budget));
    assert_int_equal(budget_take(&budget, 1), 0);
    assert_int_equal(budget_take(&budget, UINT64_MAX), 0);
    budget_give(&budget, 11);
    assert_int_equal(budget_take(&budget, 10), 10);
}

static void who_asks_gets_some_more_but_little_of_the_last(void **state) {
    (void)state;
    budget_limit(&budget, 100u << 20, 0, 4);
    assert_int_equal(budget_take(&budget, 100), 100 + BUDGET_CHUNK_MAX);
    budget_limit(&budget, 100u << 20, (100u << 20) - 1000, 4);
    assert_int_equal(budget_take(&budget, 200), 400);
    uint64_t times = 0;
    while (budget_take(&budget, 1)) times++;
    assert_in_range(times, 10, 40);
    assert_int_equal(atomic_load(&budget.leased), 100u << 20);
}

static void *take_and_give(void *arg) {
    uint64_t *most = arg, held = 0, x = (uint64_t)(uintptr_t)arg;
    for (int i = 0; i < 100000; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        uint64_t bytes = x >> 54;
        if (x & 1) held += budget_take(&budget, bytes);
        else if (held >= bytes) budget_give(&budget, bytes), held -= bytes;
        uint64_t leased = atomic_load(&budget.leased);
        if (leased > *most) *most = leased;
    }
    budget_give(&budget, held);
    return NULL;
}

static void threads_never_lease_more_than_the_limit(void **state) {
    (void)state;
    pthread_t threads[4];
    uint64_t most[4] = {0};
    budget_limit(&budget, 5000, 0, 4);
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&threads[i], NULL, take_and_give, &most[i]), 0);
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++) assert_in_range(most[i], 1, 5000);
    assert_int_equal(atomic_load(&budget.leased), 0);
}

/* ---- shards ---- */

struct world {
    struct shard *shards[SHARDS];
};

static int setup(void **state) {
    struct world *w = calloc(1, sizeof *w);
    uint8_t seed[32] = {7};
    hash_secret_init(&secret, seed);
    random_seed(&dice, 1, 0);
    budget_init(&budget);
    for (uint32_t i = 0; i < SHARDS; i++) {
        struct shard_options o = {
            .id = i, .shards = SHARDS, .databases = 1, .secret = &secret, .seed = i, .now_ms = START_MS, .budget = &budget};
        w->shards[i] = shard_new(&o);
        assert_non_null(w->shards[i]);
    }
    *state = w;
    return 0;
}

static int teardown(void **state) {
    struct world *w = *state;
    for (uint32_t i = 0; i < SHARDS; i++) {
        assert_null(table_check(&w->shards[i]->dbs[0]->keys));
        shard_drop(w->shards[i]);
    }
    free(w);
    return 0;
}

static uint64_t used(const struct world *w) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < SHARDS; i++) sum += memory_used(w->shards[i]->memory);
    return sum;
}
static uint64_t limit(void) { return atomic_load(&budget.limit); }
static void set_limit(struct world *w, uint64_t bytes) { shards_limit(w->shards, SHARDS, bytes); }

static bool find(struct shard *s, uint32_t n, char name[24], struct key *k) {
    uint32_t size = (uint32_t)snprintf(name, 24, "key:%u", n);
    return key_find(s, s->dbs[0], hash_key(&secret, name, size), name, size, k);
}

static int set(struct shard *s, uint32_t n, size_t size) {
    static char bytes[1 << 20] = "text";
    char name[24];
    struct key k;
    find(s, n, name, &k);
    return key_set_bytes(s, &k, bytes, size, FORM_TEXT, EXPIRY_NONE, KEY_SET);
}

static bool delete (struct shard *s, uint32_t n) {
    char name[24];
    struct key k;
    if (!find(s, n, name, &k)) return false;
    key_delete(s, &k, KEY_DEL);
    return true;
}

/* Sets new keys from n on until one is refused. Returns the one. */
static uint32_t fill(struct shard *s, uint32_t n, size_t size) {
    int refused;
    while (!(refused = set(s, n, size))) n++;
    assert_int_equal(refused, -ENOMEM);
    return n;
}

static void new_keys_are_refused_at_the_limit_and_not_above_it(void **state) {
    struct world *w = *state;
    struct shard *s = w->shards[0];
    set_limit(w, used(w) + 300000);
    uint32_t n = fill(s, 0, 100);
    assert_true(n > 1500);
    assert_in_range(used(w), limit() - TABLE_SEGMENT_BYTES - 200, limit());
    assert_int_equal(s->dbs[0]->keys.count, n);
    shard_settle(s);
    assert_false(budget_exceeded(&budget));
    char name[24];
    struct key k;
    assert_false(find(s, n, name, &k));
}

static void overwrites_and_deletes_go_on_at_the_limit(void **state) {
    struct world *w = *state;
    struct shard *s = w->shards[0];
    set_limit(w, used(w) + 300000);
    uint32_t n = fill(s, 0, 100);
    while (!set(s, n, 1)) n++; /* and smaller ones, until nothing fits */
    for (uint32_t i = 0; i < 1000; i++) assert_int_equal(set(s, i, 100), 0);
    for (uint32_t i = 0; i < 1000; i++) assert_int_equal(set(s, i, 60), 0);
    assert_in_range(used(w), 1, limit());
    for (uint32_t i = 0; i < 100; i++) assert_true(delete (s, i));
    for (uint32_t i = 0; i < 20; i++) assert_int_equal(set(s, n + 1 + i, 60), 0);
    assert_in_range(used(w), 1, limit());
}

static void a_longer_value_is_refused_and_the_old_one_stays(void **state) {
    struct world *w = *state;
    struct shard *s = w->shards[0];
    char name[24];
    struct key k;
    set(s, 1, 100);
    set(s, 2, 50000);
    set_limit(w, used(w) + 100);
    assert_int_equal(set(s, 1, 300), -ENOMEM);
    assert_int_equal(set(s, 2, 60000), -ENOMEM);
    assert_int_equal(set(s, 1, 60000), -ENOMEM);
    assert_true(find(s, 1, name, &k));
    assert_null(key_make_writable(s, &k, 250, true, KEY_APPEND));
    assert_null(key_make_writable(s, &k, 100000, true, KEY_APPEND));
    assert_int_equal(entry_string_size(k.entry), 100);
    assert_non_null(key_make_writable(s, &k, 150, true, KEY_APPEND));
    assert_true(find(s, 2, name, &k));
    assert_int_equal(entry_string_size(k.entry), 50000);
    assert_in_range(used(w), 1, limit());
    /* What the value gives back counts. */
    assert_int_equal(set(s, 2, 40000), 0);
    assert_int_equal(set(s, 2, 50000), 0);
}

static void a_value_that_others_refer_to_gives_nothing_back(void **state) {
    struct world *w = *state;
    struct shard *s = w->shards[0];
    char name[24], other[24];
    struct key k, copy;
    set(s, 1, 500000);
    find(s, 1, name, &k);
    const struct entry *e = k.entry;
    find(s, 2, other, &copy);
    assert_int_equal(key_copy_from(s, &copy, e, EXPIRY_NONE, KEY_COPY_TO), 0);
    set_limit(w, used(w) + 100000);
    assert_int_equal(set(s, 1, 510000), -ENOMEM);
    assert_int_equal(set(s, 1, 90000), 0);
    assert_in_range(used(w), 1, limit());
    /* Now each has its own. */
    assert_int_equal(set(s, 2, 400000), 0);
    assert_int_equal(set(s, 2, 500000), 0);
    assert_in_range(used(w), 1, limit());
}

static void what_is_never_refused_exceeds_and_is_settled(void **state) {
    struct world *w = *state;
    struct shard *s = w->shards[0];
    char name[24];
    struct key k;
    set_limit(w, used(w) + 100000);
    uint32_t n = fill(s, 0, 100);
    while (!set(s, n, 1)) n++;
    for (uint32_t i = 0; i < 100; i++) {
        assert_true(find(s, i, name, &k));
        assert_int_equal(key_set_expiry(s, &k, START_MS + 100000 + i * 1000, KEY_EXPIRE), 0);
    }
    assert_true(used(w) > limit());
    shard_settle(s);
    assert_true(budget_exceeded(&budget));
    assert_int_equal(set(s, n + 1, 1), -ENOMEM);
    assert_int_equal(set(s, 0, 100), 0); /* without its time it is shorter */
    for (uint32_t i = 0; used(w) > limit(); i++) assert_true(delete (s, i));
    shard_settle(s);
    assert_false(budget_exceeded(&budget));
}

static void a_limit_may_be_lowered_raised_and_taken_away(void **state) {
    struct world *w = *state;
    struct shard *s = w->shards[0];
    for (uint32_t i = 0; i < 1000; i++) assert_int_equal(set(s, i, 100), 0);
    set_limit(w, used(w) / 2);
    assert_true(budget_exceeded(&budget));
    assert_int_equal(set(s, 1000, 1), -ENOMEM);
    set_limit(w, used(w) + 20000);
    assert_false(budget_exceeded(&budget));
    uint32_t n = fill(s, 1000, 100);
    assert_true(n > 1050);
    set_limit(w, used(w) + 40000);
    assert_true(fill(s, n, 100) > n + 100);
    set_limit(w, 0);
    for (uint32_t i = 0; i < 100000; i++) assert_int_equal(set(s, i, 100), 0);
    shard_settle(s);
    assert_int_equal(s->leased, BUDGET_NONE);
    assert_int_equal(atomic_load(&budget.leased), 0);
}

static void what_a_shard_does_not_need_is_the_others(void **state) {
    struct world *w = *state;
    struct shard *a = w->shards[0], *b = w->shards[1];
    set_limit(w, used(w) + (4u << 20));
    uint32_t n = fill(a, 0, 100);
    shard_settle(a);
    assert_int_equal(set(b, 0, 100), -ENOMEM);
    for (uint32_t i = 0; i < n; i++) assert_true(delete (a, i));
    shard_settle(a);
    while (table_work(&a->dbs[0]->keys, 1000)) {}
    shard_settle(a);
    fill(b, 0, 100);
    /* All but a chunk of a's. */
    assert_in_range(used(w), limit() - budget_chunk(&budget) - TABLE_SEGMENT_BYTES - 200, limit());
    assert_in_range(atomic_load(&budget.leased), 1, limit());
}

static void withheld_growth_is_counted_and_resumes(void **state) {
    struct world *w = *state;
    struct shard *s = w->shards[0];
    struct table *t = &s->dbs[0]->keys;
    set_limit(w, used(w) + 100000);
    uint32_t n = fill(s, 0, 1);
    while (fill(s, n, 1) > n) n++;
    for (uint32_t i = 0; i < 1000 && !t->withheld; i++) {
        set_limit(w, used(w) + 2000); /* less than a segment */
        n = fill(s, n, 1);
    }
    assert_true(t->withheld > 0);
    uint64_t splits = t->splits;
    set_limit(w, used(w) + 1000000);
    n = fill(s, n, 1);
    assert_true(t->splits > splits);
    assert_in_range(used(w), 1, limit());
}

/* All kinds of changes on two shards, with limits that come and go: nothing ever takes more than the limit, and what is leased is what is used, but for
 * a chunk. */
static void no_sequence_of_changes_exceeds_the_limit(void **state) {
    struct world *w = *state;
    uint64_t refused = 0, done = 0;
    set_limit(w, used(w) + 200000);
    for (int round = 0; round < 200000; round++) {
        struct shard *s = w->shards[below(&dice, SHARDS)];
        uint32_t n = (uint32_t)below(&dice, 4000);
        size_t size = below(&dice, 20) ? below(&dice, 200) : below(&dice, 20000);
        char name[24], other[24];
        struct key k, to;
        int result = 0;
        switch (below(&dice, 8)) {
        case 0: delete (s, n); break;
        case 1:
            if (find(s, n, name, &k)) {
                char *p = key_make_writable(s, &k, size, below(&dice, 2), KEY_APPEND);
                result = p ? 0 : -ENOMEM;
            }
            break;
        case 2:
            if (find(s, n, name, &k)) {
                const struct entry *e = k.entry;
                find(s, (uint32_t)below(&dice, 4000), other, &to);
                if (to.entry != e) result = key_copy_from(s, &to, e, EXPIRY_NONE, KEY_COPY_TO);
            }
            break;
        case 3:
            find(s, n, name, &k);
            result = key_set_bytes(s, &k, name, 3, FORM_ANY, START_MS + (int64_t)below(&dice, 100000), KEY_SET);
            break;
        default: result = set(s, n, size);
        }
        assert_true(!result || result == -ENOMEM);
        if (result) refused++;
        else done++;
        assert_in_range(used(w), 1, limit());
        if (below(&dice, 4) == 0) shard_settle(s);
        if (below(&dice, 64) == 0) table_work(&s->dbs[0]->keys, 16);
        if (below(&dice, 5000) == 0) {
            for (uint32_t i = 0; i < SHARDS; i++) shard_settle(w->shards[i]);
            uint64_t leased = atomic_load(&budget.leased);
            assert_in_range(leased, used(w), used(w) + SHARDS * budget_chunk(&budget));
            set_limit(w, used(w) + below(&dice, 100000));
        }
    }
    assert_true(refused > 1000 && done > 50000);
}

#define WITH_SHARDS(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_left_is_given_to_the_last_byte),
        cmocka_unit_test(who_asks_gets_some_more_but_little_of_the_last),
        cmocka_unit_test(threads_never_lease_more_than_the_limit),
        WITH_SHARDS(new_keys_are_refused_at_the_limit_and_not_above_it),
        WITH_SHARDS(overwrites_and_deletes_go_on_at_the_limit),
        WITH_SHARDS(a_longer_value_is_refused_and_the_old_one_stays),
        WITH_SHARDS(a_value_that_others_refer_to_gives_nothing_back),
        WITH_SHARDS(what_is_never_refused_exceeds_and_is_settled),
        WITH_SHARDS(a_limit_may_be_lowered_raised_and_taken_away),
        WITH_SHARDS(what_a_shard_does_not_need_is_the_others),
        WITH_SHARDS(withheld_growth_is_counted_and_resumes),
        WITH_SHARDS(no_sequence_of_changes_exceeds_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
