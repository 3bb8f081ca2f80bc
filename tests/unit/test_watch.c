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
#include "shard/watch.h"

#define START_MS INT64_C(1700000000000)

static struct hash_secret secret;

static int setup(void **state) {
    uint8_t seed[32] = {3};
    hash_secret_init(&secret, seed);
    struct shard_options o = {.shards = 1, .databases = 4, .secret = &secret, .seed = 42, .now_ms = START_MS};
    *state = shard_new(&o);
    return !*state;
}

static int teardown(void **state) {
    struct shard *s = *state;
    assert_int_equal(s->watches.n, 0);
    assert_null(s->watches.heads);
    shard_drop(s);
    return 0;
}

static bool find(struct shard *s, uint32_t db, const char *name, struct key *k) {
    uint32_t size = (uint32_t)strlen(name);
    return key_find(s, s->dbs[db], hash_key(&secret, name, size), name, size, k);
}

static void set(struct shard *s, uint32_t db, const char *name, int64_t expire_at_ms) {
    struct key k;
    find(s, db, name, &k);
    assert_int_equal(key_set_bytes(s, &k, "value", 5, FORM_ANY, expire_at_ms, KEY_SET), 0);
}

static void watch(struct shard *s, struct watcher *who, uint16_t db, const char *name) {
    uint32_t size = (uint32_t)strlen(name);
    struct watch *w = calloc(1, sizeof *w + size);
    assert_non_null(w);
    w->watcher = who;
    w->db = db;
    w->size = size;
    w->in.hash = hash_key(&secret, name, size);
    memcpy(w->name, name, size);
    assert_true(watch_add(s, w));
}

/* Forgets, and frees the records; whether nothing was touched. */
static bool end(struct shard *s, struct watcher *who) {
    bool valid = watch_is_valid(s, who);
    watch_forget(s, who);
    for (struct watch *w = who->first, *next; w; w = next) {
        next = w->next_of;
        assert_false(w->listed);
        free(w);
    }
    *who = (struct watcher){0};
    return valid;
}

static void a_change_touches_who_watches_that_key_in_that_database(void **state) {
    struct shard *s = *state;
    struct watcher a = {0}, b = {0}, c = {0}, d = {0};
    watch(s, &a, 0, "key");
    watch(s, &b, 0, "key");
    watch(s, &c, 0, "other");
    watch(s, &d, 1, "key");
    set(s, 0, "key", EXPIRY_NONE);
    assert_true(a.touched && b.touched && !c.touched && !d.touched);
    assert_int_equal(s->watches.n, 2); /* of those that are touched nothing is listed any more */
    assert_false(end(s, &a));
    assert_false(end(s, &b));
    assert_true(end(s, &c));
    assert_true(end(s, &d));
}

static void one_touched_key_takes_out_all_of_its_watcher_and_no_others(void **state) {
    struct shard *s = *state;
    struct watcher a = {0}, b = {0};
    char name[16];
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof name, "key:%d", i);
        watch(s, &a, 0, name);
        if (i % 2) watch(s, &b, 0, name);
    }
    set(s, 0, "key:500", EXPIRY_NONE);
    assert_true(a.touched && !b.touched);
    assert_int_equal(s->watches.n, 500);
    for (int i = 1; i < 1000; i += 2) {
        assert_false(b.touched);
        snprintf(name, sizeof name, "key:%d", i - 1);
        set(s, 0, name, EXPIRY_NONE);
    }
    assert_true(end(s, &b));
    assert_false(end(s, &a));
}

static void keys_are_found_while_the_buckets_grow(void **state) {
    struct shard *s = *state;
    enum { N = 5000 };
    struct watcher *who = calloc(N, sizeof *who);
    char name[16];
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "key:%d", i);
        watch(s, &who[i], 0, name);
        if (i % 3 == 0) continue;
        snprintf(name, sizeof name, "key:%d", i / 2);
        if (who[i / 2].touched) continue;
        set(s, 0, name, EXPIRY_NONE);
        assert_true(who[i / 2].touched);
    }
    for (int i = 0; i < N; i++) {
        snprintf(name, sizeof name, "key:%d", i);
        set(s, 0, name, EXPIRY_NONE);
        assert_true(who[i].touched);
    }
    assert_int_equal(s->watches.n, 0);
    for (int i = 0; i < N; i++) end(s, &who[i]);
    free(who);
}

static void deleting_what_is_there_touches(void **state) {
    struct shard *s = *state;
    struct watcher a = {0};
    struct key k;
    set(s, 0, "key", EXPIRY_NONE);
    watch(s, &a, 0, "key");
    assert_true(find(s, 0, "key", &k));
    key_delete(s, &k, KEY_DEL);
    assert_false(end(s, &a));
}

static void a_key_that_goes_past_its_time_is_touched_met_or_not(void **state) {
    struct shard *s = *state;
    struct watcher a = {0}, b = {0};
    struct key k;
    set(s, 0, "key", START_MS + 100);
    watch(s, &a, 0, "key");
    watch(s, &b, 0, "never");
    assert_true(watch_is_valid(s, &a));
    s->now_ms = START_MS + 200;
    assert_false(a.touched);
    assert_false(watch_is_valid(s, &a));
    assert_false(find(s, 0, "key", &k));
    assert_true(a.touched);
    assert_false(end(s, &a));
    assert_true(end(s, &b));
}

static void a_key_past_its_time_counts_as_not_there(void **state) {
    struct shard *s = *state;
    struct watcher a = {0}, b = {0};
    struct key k;
    set(s, 0, "key", START_MS + 100);
    s->now_ms = START_MS + 200;
    watch(s, &a, 0, "key");
    watch(s, &b, 0, "key");
    assert_true(watch_is_valid(s, &a));
    assert_false(find(s, 0, "key", &k)); /* deletes it */
    assert_true(end(s, &a));
    set(s, 0, "key", EXPIRY_NONE);
    assert_false(end(s, &b));
}

static void flushing_touches_what_is_there(void **state) {
    struct shard *s = *state;
    struct watcher a = {0}, b = {0}, c = {0}, d = {0};
    set(s, 0, "key", EXPIRY_NONE);
    set(s, 1, "key", EXPIRY_NONE);
    set(s, 0, "over", START_MS + 100);
    s->now_ms = START_MS + 200;
    watch(s, &a, 0, "key");
    watch(s, &b, 0, "nothing");
    watch(s, &c, 1, "key");
    watch(s, &d, 0, "over");
    shard_flush(s, 0);
    assert_true(a.touched && !b.touched && !c.touched && !d.touched);
    end(s, &a);
    end(s, &b);
    end(s, &c);
    set(s, 0, "over", EXPIRY_NONE);
    assert_false(end(s, &d));
}

static void swapping_touches_what_either_side_has(void **state) {
    struct shard *s = *state;
    struct watcher both = {0}, none = {0}, here = {0}, there = {0}, elsewhere = {0}, over = {0}, comes_over = {0};
    set(s, 0, "both", EXPIRY_NONE);
    set(s, 1, "both", EXPIRY_NONE);
    set(s, 0, "here", EXPIRY_NONE);
    set(s, 1, "there", EXPIRY_NONE);
    set(s, 2, "both", EXPIRY_NONE);
    set(s, 0, "over", START_MS + 100);
    set(s, 1, "comes", START_MS + 100);
    s->now_ms = START_MS + 200;
    watch(s, &both, 0, "both");
    watch(s, &none, 0, "none");
    watch(s, &here, 0, "here");
    watch(s, &there, 0, "there");
    watch(s, &elsewhere, 2, "both");
    watch(s, &over, 0, "over");
    watch(s, &comes_over, 0, "comes");
    shard_swap(s, 0, 1);
    assert_true(both.touched && here.touched && there.touched);
    assert_false(none.touched || elsewhere.touched || over.touched || comes_over.touched);
    assert_true(watch_is_valid(s, &comes_over));
    set(s, 0, "none", EXPIRY_NONE); /* what lies behind the number now */
    assert_true(none.touched);
    end(s, &both);
    end(s, &none);
    end(s, &here);
    end(s, &there);
    assert_true(end(s, &elsewhere));
    assert_true(end(s, &over));
    assert_true(end(s, &comes_over));
}

static void moving_touches_both_names(void **state) {
    struct shard *s = *state;
    struct watcher from = {0}, to = {0};
    struct key src, dst;
    set(s, 0, "from", EXPIRY_NONE);
    watch(s, &from, 0, "from");
    watch(s, &to, 1, "to");
    assert_true(find(s, 0, "from", &src));
    assert_false(find(s, 1, "to", &dst));
    assert_int_equal(key_move_from(s, &dst, s, &src, KEY_MOVE_FROM, KEY_MOVE_TO), 0);
    assert_false(end(s, &from));
    assert_false(end(s, &to));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_change_touches_who_watches_that_key_in_that_database, setup, teardown),
        cmocka_unit_test_setup_teardown(one_touched_key_takes_out_all_of_its_watcher_and_no_others, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_are_found_while_the_buckets_grow, setup, teardown),
        cmocka_unit_test_setup_teardown(deleting_what_is_there_touches, setup, teardown),
        cmocka_unit_test_setup_teardown(a_key_that_goes_past_its_time_is_touched_met_or_not, setup, teardown),
        cmocka_unit_test_setup_teardown(a_key_past_its_time_counts_as_not_there, setup, teardown),
        cmocka_unit_test_setup_teardown(flushing_touches_what_is_there, setup, teardown),
        cmocka_unit_test_setup_teardown(swapping_touches_what_either_side_has, setup, teardown),
        cmocka_unit_test_setup_teardown(moving_touches_both_names, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
