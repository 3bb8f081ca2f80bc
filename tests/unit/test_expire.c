#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "shard/expire.h"
#include "shard/keyspace.h"
#include "shard/memory.h"
#include "shard/shard.h"
#include "tests/lib/random.h"

#define START_MS INT64_C(1700000000000)
#define DATABASES 4u
#define BUDGET_NS 100000u
#define LOOK_RECORDS 64u /* between two looks at the clock */

static struct random dice = {88172645463325252u};

/* A clock that goes 10 us further with each look, so that slices are the same in every run. */
static uint64_t looks;
static uint64_t counting_ns(void) { return ++looks * 10000; }
static uint64_t thread_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct hash_secret secret;
static size_t baseline;

static int setup(void **state) {
    uint8_t seed[32] = {7};
    hash_secret_init(&secret, seed);
    struct shard_options o = {.shards = 1, .databases = DATABASES, .secret = &secret, .seed = 1, .now_ms = START_MS};
    struct shard *s = shard_new(&o);
    baseline = memory_used(s->memory);
    *state = s;
    return 0;
}

static int teardown(void **state) {
    struct shard *s = *state;
    for (uint32_t i = 0; i < DATABASES; i++) assert_null(table_check(&s->dbs[i]->keys));
    shard_drop(s);
    return 0;
}

static bool find(struct shard *s, uint32_t db, const char *name, struct key *k) {
    uint32_t size = (uint32_t)strlen(name);
    return key_find(s, s->dbs[db], s->dbs[db]->keys.hash == s->dbs[0]->keys.hash ? hash_key(&secret, name, size) : 0, name, size, k);
}

static void set(struct shard *s, uint32_t db, const char *name, int64_t expire_at_ms) {
    struct key k;
    find(s, db, name, &k);
    assert_int_equal(key_set_bytes(s, &k, "value", 5, FORM_ANY, expire_at_ms, KEY_SET), 0);
}

static void set_expiry(struct shard *s, uint32_t db, const char *name, int64_t at_ms) {
    struct key k;
    assert_true(find(s, db, name, &k));
    assert_int_equal(key_set_expiry(s, &k, at_ms, at_ms == EXPIRY_NONE ? KEY_PERSIST : KEY_EXPIRE), 0);
}

static void del(struct shard *s, uint32_t db, const char *name) {
    struct key k;
    if (find(s, db, name, &k)) key_delete(s, &k, KEY_DEL);
}

/* Whether the key is in the table, seen by a reader or not. */
static bool is_stored(struct shard *s, uint32_t db, const char *name) {
    uint32_t size = (uint32_t)strlen(name);
    return table_find(&s->dbs[db]->keys, hash_key(&secret, name, size), name, size);
}

/* All that is to be done at a time; returns in how many slices. */
static unsigned work(struct shard *s, int64_t now_ms) {
    unsigned slices = 1;
    while (shard_work(s, now_ms, BUDGET_NS, counting_ns)) assert_true(++slices < 1000000);
    assert_true(shard_next_due(s) > now_ms);
    return slices;
}

static void a_key_goes_when_it_is_past_its_time_and_not_before(void **state) {
    struct shard *s = *state;
    enum { N = 5000 };
    static int64_t at[N];
    char name[16];
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "key:%d", i);
        at[i] = START_MS + below(&dice, 3000);
        set(s, (uint32_t)i % DATABASES, name, at[i]);
    }
    for (int64_t now = START_MS; now < START_MS + 3100; now += 1 + below(&dice, 40)) {
        work(s, now);
        for (int i = 0; i < N; i++) {
            snprintf(name, sizeof name, "key:%d", i);
            bool stored = is_stored(s, (uint32_t)i % DATABASES, name);
            if (at[i] >= now) assert_true(stored);
            if (at[i] + WHEEL_TICK_MS < now) assert_false(stored);
        }
    }
    assert_int_equal(s->stats.expired_active, N);
    assert_int_equal(s->stats.expired_lazy, 0);
    assert_int_equal(s->wheel.records, 0);
    for (uint32_t i = 0; i < DATABASES; i++) assert_int_equal(s->dbs[i]->expiring, 0);
}

/* A server with nothing to do sleeps until shard_next_due; each time it wakes there is something. */
static void sleeping_until_next_due_is_enough(void **state) {
    struct shard *s = *state;
    char name[16];
    for (int i = 0; i < 300; i++) {
        snprintf(name, sizeof name, "key:%d", i);
        set(s, 0, name, START_MS + below(&dice, 100000));
    }
    unsigned wakes = 0;
    int64_t now = START_MS;
    for (; s->dbs[0]->keys.count; wakes++) {
        assert_true(shard_next_due(s) > now && shard_next_due(s) < INT64_MAX);
        now = shard_next_due(s);
        work(s, now);
    }
    assert_true(wakes <= 600);
    assert_true(now < START_MS + 100000 + WHEEL_TICK_MS);
    assert_true(shard_next_due(s) == INT64_MAX);
}

static void fill_until(struct shard *s, uint32_t n, int64_t at_ms) {
    char name[16];
    for (uint32_t i = 0; i < n; i++) {
        snprintf(name, sizeof name, "key:%u", i);
        set(s, 0, name, at_ms);
    }
}

static void a_million_keys_of_one_millisecond_go_in_bounded_slices(void **state) {
    struct shard *s = *state;
    enum { N = 1000000 };
    fill_until(s, N, START_MS + 5000);
    assert_int_equal(s->dbs[0]->expiring, N);
    work(s, START_MS + 5000);
    assert_int_equal(s->dbs[0]->keys.count, N);

    int64_t now = START_MS + 5000 + WHEEL_TICK_MS;
    uint64_t slices = 0, longest_ns = 0, total_ns = 0;
    for (bool more = true; more; slices++) {
        uint64_t expired = s->stats.expired_active, start_ns = thread_ns();
        looks = 0;
        more = shard_work(s, now, BUDGET_NS, counting_ns);
        uint64_t took_ns = thread_ns() - start_ns;
        total_ns += took_ns;
        if (took_ns > longest_ns) longest_ns = took_ns;
        assert_true(looks <= 15);
        assert_true(s->stats.expired_active - expired <= 12 * LOOK_RECORDS);
    }
    print_message("a million keys: %.0f ns a key; %lu slices, the longest %lu us\n", (double)total_ns / N, slices, longest_ns / 1000);
    assert_int_equal(s->dbs[0]->keys.count, 0);
    assert_int_equal(s->dbs[0]->expiring, 0);
    assert_int_equal(s->stats.expired_active, N);
    work(s, now);
    assert_in_range(memory_used(s->memory), baseline, baseline + 32768);
}

static void readers_see_nothing_of_what_waits_to_be_deleted(void **state) {
    struct shard *s = *state;
    struct key k;
    fill_until(s, 1000, START_MS + 100);
    s->now_ms = START_MS + 101;
    for (int i = 0; i < 1000; i += 10) {
        char name[16];
        snprintf(name, sizeof name, "key:%d", i);
        assert_false(find(s, 0, name, &k));
    }
    assert_int_equal(s->stats.expired_lazy, 100);
    work(s, START_MS + 200);
    assert_int_equal(s->stats.expired_active, 900);
}

static void a_key_that_was_given_more_time_stays(void **state) {
    struct shard *s = *state;
    set(s, 1, "a", START_MS + 1000);
    set_expiry(s, 1, "a", START_MS + 500000);
    assert_int_equal(s->wheel.records, 1);
    work(s, START_MS + 2000);
    assert_true(is_stored(s, 1, "a"));
    assert_int_equal(s->wheel.records, 1);
    work(s, START_MS + 500000);
    assert_true(is_stored(s, 1, "a"));
    work(s, START_MS + 500000 + WHEEL_TICK_MS);
    assert_false(is_stored(s, 1, "a"));
    assert_int_equal(s->wheel.records, 0);
}

static void a_key_that_was_given_less_time_goes_sooner(void **state) {
    struct shard *s = *state;
    set(s, 1, "a", START_MS + 500000);
    set_expiry(s, 1, "a", START_MS + 1000);
    work(s, START_MS + 1017);
    assert_false(is_stored(s, 1, "a"));
    work(s, START_MS + 600000);
    assert_int_equal(s->stats.expired_active, 1);
    assert_int_equal(s->wheel.records, 0);
}

static void a_persisted_key_stays(void **state) {
    struct shard *s = *state;
    set(s, 0, "a", START_MS + 1000);
    set_expiry(s, 0, "a", EXPIRY_NONE);
    set(s, 0, "b", START_MS + 1000);
    set(s, 0, "b", EXPIRY_NONE);
    work(s, START_MS + 5000);
    assert_true(is_stored(s, 0, "a"));
    assert_true(is_stored(s, 0, "b"));
    assert_true(shard_next_due(s) == INT64_MAX);
}

static void records_follow_a_database_that_is_swapped(void **state) {
    struct shard *s = *state;
    set(s, 0, "a", START_MS + 1000);
    set(s, 1, "a", START_MS + 3000);
    shard_swap(s, 0, 1);
    work(s, START_MS + 2000);
    assert_true(is_stored(s, 0, "a"));
    assert_false(is_stored(s, 1, "a"));
}

static void the_clock_may_jump(void **state) {
    struct shard *s = *state;
    fill_until(s, 1000, START_MS + 1000);
    set(s, 1, "a", START_MS + INT64_C(3600000));
    work(s, START_MS - INT64_C(86400000));
    work(s, START_MS + 500);
    assert_int_equal(s->dbs[0]->keys.count, 1000);
    work(s, START_MS + INT64_C(3600000));
    assert_int_equal(s->dbs[0]->keys.count, 0);
    assert_true(is_stored(s, 1, "a"));
    work(s, START_MS + 900000);
    assert_true(is_stored(s, 1, "a"));
    work(s, START_MS + INT64_C(31536000000));
    assert_false(is_stored(s, 1, "a"));
}

static uint64_t same_hash(const void *arg, const struct entry *e) { return 0; }

/* Keys that a record cannot tell apart go each at its own time. */
static void keys_whose_hashes_agree_go_each_at_its_time(void **state) {
    struct shard *s = *state;
    s->dbs[2]->keys.hash = same_hash;
    char name[16];
    for (int i = 0; i < 40; i++) {
        snprintf(name, sizeof name, "key:%d", i);
        set(s, 2, name, START_MS + 1000 * (1 + i % 20));
    }
    for (int i = 0; i <= 20; i++) {
        work(s, START_MS + 1000 * i + WHEEL_TICK_MS + 1);
        assert_int_equal(s->dbs[2]->keys.count, 40 - 2 * i);
    }
    assert_int_equal(s->wheel.records, 0);
}

static void without_active_expiry_keys_are_only_hidden(void **state) {
    struct shard *s = *state;
    struct key k;
    s->active_expire = false;
    fill_until(s, 100, START_MS + 100);
    assert_true(shard_next_due(s) == INT64_MAX);
    work(s, START_MS + 1000);
    assert_int_equal(s->dbs[0]->keys.count, 100);
    s->now_ms = START_MS + 1000;
    assert_false(find(s, 0, "key:1", &k));
    s->active_expire = true;
    assert_true(shard_next_due(s) <= START_MS + 1000);
    work(s, START_MS + 1000);
    assert_int_equal(s->dbs[0]->keys.count, 0);
    assert_int_equal(s->stats.expired_active, 99);
}

static void a_key_with_an_intent_is_not_deleted_under_it(void **state) {
    struct shard *s = *state;
    set(s, 0, "key", START_MS + 100);
    struct arg argv[2] = {{"get", 3, 0}, {"key", 3, 0}};
    struct hop h = {.argv = argv, .argc = 2, .n_keys = 1, .key_first = 1, .key_step = 1, .hash = hash_key(&secret, "key", 3)};
    struct intent intent;
    struct member member = {.number = 1, .intents = &intent, .n_intents = 1};
    struct key k;
    intent_on_key(&intent, INTENT_DB, h.hash, false);
    assert_true(schedule_add(&s->schedule, &member));
    work(s, START_MS + 1000);
    assert_true(is_stored(s, 0, "key"));
    assert_false(key_read(s, &h, &k)); /* a later reader */
    assert_true(is_stored(s, 0, "key"));
    s->now_ms = START_MS; /* the transaction's own time */
    assert_true(key_read(s, &h, &k));
    schedule_remove(&s->schedule, &member);
    work(s, START_MS + 2000);
    assert_false(is_stored(s, 0, "key"));
}

static uint64_t expiring(const struct shard *s) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < DATABASES; i++) n += s->dbs[i]->expiring;
    return n;
}

/* What the wheel may hold at most, between a look at it and the next. */
static uint64_t bound(const struct shard *s) { return 2 * expiring(s) + s->dbs[0]->keys.count / 8 + 3 * 1024; }

static void garbage_of_one_key_is_bounded(void **state) {
    struct shard *s = *state;
    for (uint32_t i = 0; i < 2000000; i++) {
        set(s, 0, "lock", START_MS + 3600000 + i % 1000);
        del(s, 0, "lock");
        if (i % 100 == 0) {
            work(s, START_MS + i / 1000);
            assert_true(s->wheel.records <= bound(s));
        }
    }
    assert_in_range(memory_used(s->memory), baseline, baseline + 131072);
}

/* Each key is there when the wheel is looked at, so no record seems stale by itself. */
static void garbage_of_keys_that_come_back_is_bounded(void **state) {
    struct shard *s = *state;
    char name[16];
    fill_until(s, 2000, START_MS + 3600000);
    for (uint32_t i = 0; i < 1000000; i++) {
        snprintf(name, sizeof name, "key:%u", i * 7 % 2000);
        del(s, 0, name);
        set(s, 0, name, START_MS + 3600000 + i % 1000);
        if (i % 100 == 0) {
            work(s, START_MS);
            assert_true(s->wheel.records <= bound(s));
        }
    }
    assert_int_equal(s->dbs[0]->expiring, 2000);
    work(s, START_MS + 3602000);
    assert_int_equal(s->dbs[0]->keys.count, 0);
}

static void a_flushed_database_leaves_no_garbage(void **state) {
    struct shard *s = *state;
    fill_until(s, 100000, START_MS + INT64_C(86400000));
    shard_flush(s, 0);
    assert_int_equal(s->dbs[0]->expiring, 0);
    assert_true(work(s, START_MS) > 10);
    assert_int_equal(s->wheel.records, 0);
    assert_in_range(memory_used(s->memory), baseline, baseline + 4096);
}

/* A record that cannot be armed again would leave its key for ever. */
static void a_record_lost_for_want_of_memory_is_found_again(void **state) {
    struct shard *s = *state;
    set(s, 0, "a", START_MS + 1000);
    set_expiry(s, 0, "a", START_MS + 5000);
    memory_fail_after(s->memory, 1);
    work(s, START_MS + 1100);
    memory_fail_after(s->memory, 0);
    assert_int_equal(s->wheel.records, 0);
    assert_true(shard_next_due(s) <= START_MS + 2100);
    work(s, START_MS + 2100);
    assert_int_equal(s->wheel.records, 1);
    assert_null(s->rebuild);
    work(s, START_MS + 5100);
    assert_false(is_stored(s, 0, "a"));
}

static void a_rebuild_that_is_refused_memory_is_tried_again(void **state) {
    struct shard *s = *state;
    char name[16];
    for (int i = 0; i < 4000; i++) {
        snprintf(name, sizeof name, "key:%d", i);
        set(s, 0, name, START_MS + 60000);
        if (i >= 100) del(s, 0, name);
    }
    for (uint64_t nth = 1; nth < 12; nth++) {
        memory_fail_after(s->memory, nth);
        s->wheel_stale = 5000;
        work(s, START_MS + (int64_t)nth * 2000);
        memory_fail_after(s->memory, 0);
        assert_int_equal(s->dbs[0]->keys.count, 100);
    }
    work(s, START_MS + 50000);
    assert_true(s->wheel.records < 2000);
    work(s, START_MS + 60020);
    assert_int_equal(s->dbs[0]->keys.count, 0);
}

/* A rebuild may take seconds: what is due meanwhile goes all the same, whether or not the walk has come to it. */
static void keys_go_in_time_while_the_wheel_is_rebuilt(void **state) {
    struct shard *s = *state;
    char name[16];
    fill_until(s, 200000, START_MS + 3600000);
    for (int i = 0; i < 100; i++) {
        snprintf(name, sizeof name, "soon:%d", i);
        set(s, 0, name, START_MS + 100);
    }
    work(s, START_MS);
    s->rebuild_at_ms = START_MS;
    assert_true(shard_work(s, START_MS, BUDGET_NS, counting_ns));
    assert_non_null(s->rebuild);
    assert_int_equal(s->dbs[0]->keys.count, 200100);
    assert_true(shard_work(s, START_MS + 120, BUDGET_NS, counting_ns));
    assert_non_null(s->rebuild);
    assert_int_equal(s->dbs[0]->keys.count, 200000);
    work(s, START_MS + 120);
    assert_in_range(s->wheel.records, 200000, 200200);
}

/* Everything at once, against an array; rebuilds are provoked, and interrupted by changes. */
static void expires_in_a_random_life_as_the_model_does(void **state) {
    struct shard *s = *state;
    enum { KEYS = 3000, ABSENT = -1 };
    static int64_t at[KEYS][2];
    static const int64_t scales[] = {30, 1000, 10000, 2000000};
    int64_t now = START_MS;
    uint64_t rebuilds = 0;
    char name[16];
    for (int i = 0; i < KEYS; i++) at[i][0] = at[i][1] = ABSENT;
    for (uint32_t step = 0; step < 400000; step++) {
        int i = (int)below(&dice, KEYS);
        uint32_t db = (uint32_t)below(&dice, 2);
        unsigned what = (unsigned)below(&dice, 1000);
        int64_t time = now + below(&dice, scales[below(&dice, 4)]);
        snprintf(name, sizeof name, "key:%d", i);
        s->now_ms = now;
        if (what < 400) {
            set(s, db, name, at[i][db] = what < 100 ? EXPIRY_NONE : time);
        } else if (what < 700) {
            del(s, db, name);
            at[i][db] = ABSENT;
        } else if (what < 900) {
            if (at[i][db] >= now) set_expiry(s, db, name, at[i][db] = what < 720 ? EXPIRY_NONE : time);
        } else if (what == 900 && below(&dice, 20) == 0) {
            shard_flush(s, db);
            for (int k = 0; k < KEYS; k++) at[k][db] = ABSENT;
        } else if (what == 901) {
            shard_swap(s, 0, 1);
            for (int k = 0; k < KEYS; k++) {
                int64_t was = at[k][0];
                at[k][0] = at[k][1];
                at[k][1] = was;
            }
        } else if (what < 910) {
            s->wheel_stale += 1024;
            if (what == 902) s->rebuild_at_ms = 0;
        } else if (what < 950) {
            struct wheel_rebuild *was = s->rebuild;
            now += below(&dice, what == 949 ? 5000 : 20);
            shard_work(s, now, 20000, counting_ns);
            rebuilds += s->rebuild && !was;
        }
        if (step % 5000 == 0) {
            work(s, now);
            for (int k = 0; k < 2 * KEYS; k++) {
                snprintf(name, sizeof name, "key:%d", k / 2);
                int64_t expires = at[k / 2][k % 2];
                bool stored = is_stored(s, (uint32_t)k % 2, name);
                if (expires >= now) assert_true(stored);
                if (expires < now - WHEEL_TICK_MS) assert_false(stored);
            }
            assert_true(s->wheel.records <= bound(s) + s->dbs[1]->keys.count);
        }
    }
    assert_true(rebuilds > 10);
}

int main(void) {
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_key_goes_when_it_is_past_its_time_and_not_before),
        TEST(sleeping_until_next_due_is_enough),
        TEST(a_million_keys_of_one_millisecond_go_in_bounded_slices),
        TEST(readers_see_nothing_of_what_waits_to_be_deleted),
        TEST(a_key_that_was_given_more_time_stays),
        TEST(a_key_that_was_given_less_time_goes_sooner),
        TEST(a_persisted_key_stays),
        TEST(records_follow_a_database_that_is_swapped),
        TEST(the_clock_may_jump),
        TEST(keys_whose_hashes_agree_go_each_at_its_time),
        TEST(without_active_expiry_keys_are_only_hidden),
        TEST(a_key_with_an_intent_is_not_deleted_under_it),
        TEST(garbage_of_one_key_is_bounded),
        TEST(garbage_of_keys_that_come_back_is_bounded),
        TEST(a_flushed_database_leaves_no_garbage),
        TEST(a_record_lost_for_want_of_memory_is_found_again),
        TEST(a_rebuild_that_is_refused_memory_is_tried_again),
        TEST(keys_go_in_time_while_the_wheel_is_rebuilt),
        TEST(expires_in_a_random_life_as_the_model_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
