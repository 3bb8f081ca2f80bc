/* A batch must do the same whatever is prefetched, in groups of whatever size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shard/batch.h"
#include "shard/keyspace.h"
#include "shard/memory.h"
#include "tests/lib/random.h"

#define START_MS INT64_C(1700000000000)
#define DATABASES 3u
#define HOPS_MAX 3000u

static struct hash_secret secret;
static struct random dice;

/* What was run: a digest of every hop's result, in order. */
struct transcript {
    struct shard *s;
    uint64_t digest;
    uint32_t n;
    const struct hop *last;
    bool in_order;
};

static void note(struct transcript *t, const void *p, size_t size) { t->digest = t->digest * 31 + hash_key(&secret, p, size) + ++t->n; }

static enum hop_result run_get(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    char scratch[INT64_TEXT_SIZE];
    size_t size = 0;
    const char *p = key_read(s, h, &k) ? key_string(&k, scratch, &size) : "none";
    note((struct transcript *)r, p, size);
    return HOP_DONE;
}

static enum hop_result run_set(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    key_write(s, h, &k);
    assert_int_equal(key_set_arg(s, &k, &h->argv[2], EXPIRY_NONE, KEY_SET), 0);
    note((struct transcript *)r, "OK", 2);
    return HOP_DONE;
}

static enum hop_result run_del(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    bool there = key_write(s, h, &k);
    if (there) key_delete(s, &k, KEY_DEL);
    note((struct transcript *)r, &there, sizeof there);
    return HOP_DONE;
}

static enum hop_result run_count(struct shard *s, struct hop *h, struct reply *r) {
    uint64_t n = s->dbs[h->db]->keys.count;
    note((struct transcript *)r, &n, sizeof n);
    return HOP_DONE;
}

static inline void exec(void *ctx, struct hop *h) {
    struct transcript *t = ctx;
    t->in_order &= !t->last || h == t->last + 1;
    t->last = h;
    h->run(t->s, h, (struct reply *)t);
}

/* Hops with their arguments. */
struct work {
    struct hop hops[HOPS_MAX];
    struct arg args[HOPS_MAX][3];
    char keys[HOPS_MAX][400];
    char value[70000];
};

static void make_hop(struct work *w, uint32_t i, uint32_t n_keys, unsigned kind) {
    static const uint32_t value_sizes[] = {0, 1, 16, 40, 60, 64, 100, 200, 255, 256, 300, 5000, 66000};
    uint32_t key = below(&dice, n_keys);
    int size = snprintf(w->keys[i], sizeof w->keys[i], "%s%u",
        key % 50 ? "key:" : "key:................................................................", key);
    if (key % 97 == 0) {
        memset(w->keys[i] + size, '.', 300);
        size += 300;
    }
    w->args[i][0] = (struct arg){"X", 1, 0};
    w->args[i][1] = (struct arg){w->keys[i], (uint32_t)size, 0};
    w->args[i][2] = (struct arg){w->value + below(&dice, 100), value_sizes[below(&dice, below(&dice, 20) ? 8 : 13)], 0};
    struct hop *h = &w->hops[i];
    *h = (struct hop){.hash = hash_key(&secret, w->keys[i], (size_t)size),
        .argv = w->args[i],
        .argc = 2,
        .db = (uint16_t)below(&dice, 2),
        .n_keys = 1,
        .key_first = 1,
        .key_step = 1};
    switch (kind) {
    case 0: h->run = run_get, h->flags = HOP_VALUE; break;
    case 1: h->run = run_set, h->flags = HOP_WRITE, h->argc = 3; break;
    case 2: h->run = run_del, h->flags = HOP_WRITE; break;
    default: *h = (struct hop){.run = run_count, .flags = HOP_NO_KEY, .db = h->db}; break;
    }
}

struct setting {
    enum prefetch_level level;
    uint32_t group;
    bool foreign;
};

static void run(struct transcript *t, struct hop *hops, uint32_t n, const struct setting *x) {
    t->last = NULL;
    switch (x->group) {
    case 4: batch_run_in_groups(t->s, hops, n, x->foreign, exec, t, 4); break;
    case 64: batch_run_in_groups(t->s, hops, n, x->foreign, exec, t, 64); break;
    default: batch_run(t->s, hops, n, x->foreign, exec, t); break;
    }
}

static struct shard *new_shard(void) {
    uint8_t seed[32] = {9};
    hash_secret_init(&secret, seed);
    struct shard_options o = {.shards = 1, .databases = DATABASES, .secret = &secret, .seed = 1, .now_ms = START_MS};
    return shard_new(&o);
}

static struct work *new_work(void) {
    struct work *w = malloc(sizeof *w);
    for (size_t i = 0; i < sizeof w->value; i++) w->value[i] = (char)('a' + i % 23);
    return w;
}

/* The same random life under a setting; its transcript. */
static uint64_t live(const struct setting *x, uint32_t n_keys) {
    struct transcript t = {.s = new_shard(), .in_order = true};
    struct work *w = new_work();
    t.s->prefetch = (uint8_t)x->level;
    random_seed(&dice, 1, 0);
    uint32_t total = 0;
    for (unsigned batch = 0; batch < 60; batch++) {
        uint32_t n = batch % 3 ? below(&dice, 100) : below(&dice, HOPS_MAX);
        for (uint32_t i = 0; i < n; i++) {
            uint32_t what = below(&dice, 100);
            make_hop(w, i, n_keys, what < 40 ? 0 : what < 70 ? 1 : what < 98 ? 2 : 3);
        }
        run(&t, w->hops, n, x);
        total += n;
    }
    assert_true(t.in_order);
    assert_int_equal(t.n, total);
    assert_int_equal(t.s->stats.hops, total);
    assert_int_equal(t.s->stats.batches, 60);
    for (uint32_t i = 0; i < DATABASES; i++) assert_null(table_check(&t.s->dbs[i]->keys));
    shard_drop(t.s);
    free(w);
    return t.digest;
}

static void every_level_and_group_gives_the_same_replies(void **state) {
    static const uint32_t groups[] = {4, HOP_GROUP, 64};
    for (unsigned keys = 0; keys < 3; keys++) {
        static const uint32_t n_keys[] = {5, 500, 30000};
        struct setting x = {.level = PREFETCH_NONE};
        uint64_t expected = live(&x, n_keys[keys]);
        for (x.level = PREFETCH_BUCKET; x.level <= PREFETCH_FULL; x.level++) {
            for (unsigned g = 0; g < 3; g++) {
                x.group = groups[g];
                x.foreign = g == 1;
                assert_true(live(&x, n_keys[keys]) == expected);
            }
        }
    }
}

/* From an empty table, in one batch: segments split and the directory grows between prefetch and run. */
static void a_table_may_split_in_the_middle_of_a_batch(void **state) {
    struct transcript t = {.s = new_shard(), .in_order = true};
    struct work *w = new_work();
    random_seed(&dice, 1, 0);
    for (uint32_t i = 0; i < HOPS_MAX; i++) {
        make_hop(w, i, 1, 1);
        int size = snprintf(w->keys[i], sizeof w->keys[i], "new:%u", i);
        w->args[i][1].size = (uint32_t)size;
        w->hops[i].hash = hash_key(&secret, w->keys[i], (size_t)size);
        w->hops[i].db = 0;
    }
    run(&t, w->hops, HOPS_MAX, &(struct setting){.level = PREFETCH_FULL});
    assert_int_equal(t.s->dbs[0]->keys.count, HOPS_MAX);
    assert_true(t.s->dbs[0]->keys.splits > 3);
    assert_null(table_check(&t.s->dbs[0]->keys));
    for (uint32_t i = 0; i < HOPS_MAX; i++) w->hops[i].run = run_get, w->hops[i].flags = HOP_VALUE, w->hops[i].argc = 2;
    run(&t, w->hops, HOPS_MAX, &(struct setting){.level = PREFETCH_FULL});
    assert_int_equal(t.s->stats.hits, HOPS_MAX);
    shard_drop(t.s);
    free(w);
}

static void an_empty_table_may_be_prefetched(void **state) {
    struct transcript t = {.s = new_shard(), .in_order = true};
    struct work *w = new_work();
    for (uint32_t i = 0; i < 100; i++) make_hop(w, i, 100, i % 2 ? 0 : 2);
    run(&t, w->hops, 100, &(struct setting){.level = PREFETCH_FULL});
    run(&t, w->hops, 0, &(struct setting){.level = PREFETCH_FULL});
    assert_int_equal(t.n, 100);
    shard_drop(t.s);
    free(w);
}

static void the_counters_tell_how_far_ahead_was_prefetched(void **state) {
    struct transcript t = {.s = new_shard()};
    struct shard *s = t.s;
    struct work *w = new_work();
    for (uint32_t i = 0; i < 100; i++) make_hop(w, i, 100, 0);
    const struct setting x = {.level = PREFETCH_FULL};
    run(&t, w->hops, BATCH_MIN - 1, &x);
    assert_int_equal(s->stats.groups, 0);
    assert_int_equal(s->stats.prefetched, 0);
    run(&t, w->hops, HOP_GROUP, &x);
    assert_int_equal(s->stats.groups, 1);
    assert_int_equal(s->stats.prefetched, HOP_GROUP);
    assert_int_equal(s->stats.ahead, HOP_GROUP * (HOP_GROUP - 1));
    run(&t, w->hops, HOP_GROUP + 2, &x); /* shared out: no group of two */
    assert_int_equal(s->stats.groups, 3);
    assert_int_equal(s->stats.prefetched, 2 * HOP_GROUP + 2);
    assert_int_equal(s->stats.batches, 3);
    assert_int_equal(s->stats.hops, BATCH_MIN - 1 + 2 * HOP_GROUP + 2);
    s->prefetch = PREFETCH_NONE;
    run(&t, w->hops, 100, &x);
    assert_int_equal(s->stats.groups, 3);
    shard_drop(s);
    free(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_level_and_group_gives_the_same_replies),
        cmocka_unit_test(a_table_may_split_in_the_middle_of_a_batch),
        cmocka_unit_test(an_empty_table_may_be_prefetched),
        cmocka_unit_test(the_counters_tell_how_far_ahead_was_prefetched),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
