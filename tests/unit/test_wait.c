/* Waiting keys: cases, and a property test of two shards against a naive model that keeps plain lists. */
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
#include "shard/wait.h"
#include "tests/lib/random.h"

#define START_MS INT64_C(1700000000000)
#define SHARDS 2u
#define WAITERS 24u
#define NAMES 5u
#define DBS 2u
#define KEYS_MAX 3u

static struct hash_secret secret;

static struct shard *new_shard(uint32_t id) {
    struct shard_options o = {.id = id, .shards = 1, .databases = 4, .secret = &secret, .seed = 42, .now_ms = START_MS};
    return shard_new(&o);
}

static int setup(void **state) {
    uint8_t seed[32] = {3};
    hash_secret_init(&secret, seed);
    *state = new_shard(0);
    return !*state;
}

static void is_empty(const struct shard *s) {
    assert_int_equal(s->waits.n, 0);
    assert_int_equal(s->waits.keys.n, 0);
    assert_null(s->waits.ready);
    assert_null(s->waits.held);
    assert_null(s->waits.keys.heads);
}

static int teardown(void **state) {
    struct shard *s = *state;
    is_empty(s);
    shard_drop(s);
    return 0;
}

static uint64_t hash_of(const char *name) { return hash_key(&secret, name, strlen(name)); }

static bool find(struct shard *s, uint32_t db, const char *name, struct key *k) {
    uint32_t size = (uint32_t)strlen(name);
    return key_find(s, s->dbs[db], hash_of(name), name, size, k);
}

static void set(struct shard *s, uint32_t db, const char *name, int64_t expire_at_ms) {
    struct key k;
    find(s, db, name, &k);
    assert_int_equal(key_set_bytes(s, &k, "1", 1, FORM_ANY, expire_at_ms, KEY_SET), 0);
}

static void delete (struct shard *s, uint32_t db, const char *name) {
    struct key k;
    if (find(s, db, name, &k)) key_delete(s, &k, KEY_DEL);
}

/* A waiter with its claim, on one shard. */
struct one {
    struct waiter who;
    struct wait keys[KEYS_MAX];
    _Atomic bool claim;
};

static void listen(struct shard *s, struct one *x, uint16_t db, const char *name) {
    struct wait *w = &x->keys[x->who.n];
    x->who.claim = &x->claim;
    x->who.keys = x->keys;
    *w = (struct wait){.waiter = &x->who, .nth = x->who.n++};
    assert_true(wait_add(s, w, db, hash_of(name), name, (uint32_t)strlen(name)));
}

static void waiters_of_a_key_have_their_turn_in_the_order_of_their_coming(void **state) {
    struct shard *s = *state;
    struct one x[4] = {0};
    for (int i = 0; i < 4; i++) listen(s, &x[i], 0, "key");
    assert_null(wait_next(s));
    set(s, 0, "key", EXPIRY_NONE);
    for (int i = 0; i < 4; i++) {
        struct wait *w = wait_next(s);
        assert_non_null(w);
        assert_ptr_equal(w->waiter, &x[i].who);
        wait_forget(s, w->waiter);
        if (i == 2) delete (s, 0, "key"); /* what the third takes is the last */
        if (i != 2) continue;
        assert_null(wait_next(s));
        set(s, 0, "key", EXPIRY_NONE);
    }
    assert_null(wait_next(s));
}

static void only_its_key_in_its_database_makes_a_waiter_ready(void **state) {
    struct shard *s = *state;
    struct one x = {0};
    listen(s, &x, 1, "key");
    set(s, 0, "key", EXPIRY_NONE);
    set(s, 1, "kez", EXPIRY_NONE);
    assert_null(wait_next(s));
    set(s, 1, "key", EXPIRY_NONE);
    assert_ptr_equal(wait_next(s), &x.keys[0]);
    wait_forget(s, &x.who);
    assert_null(wait_next(s));
}

static void a_key_that_is_gone_again_is_not_ready(void **state) {
    struct shard *s = *state;
    struct one x = {0};
    listen(s, &x, 0, "deleted");
    listen(s, &x, 0, "expired");
    set(s, 0, "deleted", EXPIRY_NONE);
    set(s, 0, "expired", START_MS + 5);
    delete (s, 0, "deleted");
    s->now_ms += 10;
    assert_null(wait_next(s));
    set(s, 0, "expired", START_MS + 50);
    assert_ptr_equal(wait_next(s), &x.keys[1]);
    wait_forget(s, &x.who);
    assert_null(wait_next(s));
}

static void keys_are_ready_in_the_order_in_which_they_became_so(void **state) {
    struct shard *s = *state;
    struct one x = {0}, y = {0};
    listen(s, &x, 0, "a");
    listen(s, &y, 0, "b");
    set(s, 0, "b", EXPIRY_NONE);
    set(s, 0, "a", EXPIRY_NONE);
    assert_ptr_equal(wait_next(s), &y.keys[0]);
    wait_forget(s, &y.who);
    assert_ptr_equal(wait_next(s), &x.keys[0]);
    wait_forget(s, &x.who);
    assert_null(wait_next(s));
}

static void who_is_passed_is_asked_again_when_the_key_changes_again(void **state) {
    struct shard *s = *state;
    struct one x = {0}, y = {0};
    listen(s, &x, 0, "key");
    listen(s, &y, 0, "key");
    set(s, 0, "key", EXPIRY_NONE);
    wait_pass(wait_next(s));
    assert_ptr_equal(wait_next(s), &y.keys[0]);
    wait_pass(wait_next(s));
    assert_null(wait_next(s));
    set(s, 0, "key", EXPIRY_NONE);
    assert_ptr_equal(wait_next(s), &x.keys[0]);
    wait_forget(s, &x.who);
    wait_forget(s, &y.who);
    assert_null(wait_next(s));
}

static void who_is_busy_keeps_its_place_and_lets_nobody_pass(void **state) {
    struct shard *s = *state;
    struct one x[3] = {0};
    for (int i = 0; i < 3; i++) listen(s, &x[i], 0, "key");
    set(s, 0, "key", EXPIRY_NONE);
    assert_ptr_equal(wait_next(s), &x[0].keys[0]);
    assert_true(wait_claim(&x[0].who));
    x[0].who.busy = true;
    assert_null(wait_next(s));
    set(s, 0, "key", EXPIRY_NONE);
    assert_null(wait_next(s));
    x[0].claim = false; /* it found nothing: it is asked first again */
    wait_resume(s, &x[0].who);
    assert_ptr_equal(wait_next(s), &x[0].keys[0]);
    x[0].who.busy = true;
    assert_null(wait_next(s));
    wait_forget(s, &x[0].who); /* it found something: who is behind it is asked */
    assert_ptr_equal(wait_next(s), &x[1].keys[0]);
    x[1].who.busy = true;
    assert_null(wait_next(s));
    delete (s, 0, "key");
    wait_forget(s, &x[1].who); /* nothing is left for who is behind */
    assert_null(wait_next(s));
    wait_forget(s, &x[2].who);
}

static void what_another_shard_claimed_is_forgotten(void **state) {
    struct shard *s = *state;
    struct one x = {0}, y = {0};
    listen(s, &x, 0, "key");
    listen(s, &x, 0, "other");
    listen(s, &y, 0, "key");
    assert_true(wait_claim(&x.who));
    assert_false(wait_claim(&x.who));
    set(s, 0, "key", EXPIRY_NONE);
    assert_ptr_equal(wait_next(s), &y.keys[0]);
    assert_null(x.keys[0].key);
    assert_null(x.keys[1].key);
    wait_forget(s, &y.who);
    assert_null(wait_next(s));
}

static void databases_that_change_places_make_what_is_there_ready(void **state) {
    struct shard *s = *state;
    struct one x = {0}, y = {0};
    listen(s, &x, 0, "key");
    listen(s, &y, 1, "other");
    set(s, 1, "key", EXPIRY_NONE);
    set(s, 2, "other", EXPIRY_NONE);
    assert_null(wait_next(s));
    shard_swap(s, 0, 1);
    assert_ptr_equal(wait_next(s), &x.keys[0]);
    wait_forget(s, &x.who);
    assert_null(wait_next(s));
    shard_swap(s, 1, 2);
    assert_ptr_equal(wait_next(s), &y.keys[0]);
    shard_flush(s, 1);
    assert_null(wait_next(s));
    wait_forget(s, &y.who);
}

static void a_key_is_held_until_the_transaction_that_made_it_ready_has_left(void **state) {
    struct shard *s = *state;
    struct one x = {0};
    struct intent intents[2], later[2];
    intent_on_database(&intents[0], INTENT_DB, INTENT_WRITE_WITHIN);
    intent_on_key(&intents[1], INTENT_DB, hash_of("key"), true);
    memcpy(later, intents, sizeof later);
    struct member m = {.number = 1, .intents = intents, .n_intents = 2}, behind = {.number = 2, .intents = later, .n_intents = 2};
    listen(s, &x, 0, "key");
    assert_true(schedule_add(&s->schedule, &m));
    assert_true(schedule_tell(&s->schedule, &m));
    assert_true(schedule_add(&s->schedule, &behind));
    assert_false(schedule_tell(&s->schedule, &behind));
    set(s, 0, "key", EXPIRY_NONE);
    assert_null(wait_next(s));
    assert_non_null(s->waits.held);
    schedule_remove(&s->schedule, &m);
    wait_let_go(s, &m);
    assert_ptr_equal(wait_next(s), &x.keys[0]); /* before the one that waited for the transaction begins */
    wait_forget(s, &x.who);
    assert_null(wait_next(s));
    assert_ptr_equal(schedule_next(&s->schedule), &behind);
    schedule_remove(&s->schedule, &behind);
}

/* A transaction under way with an intent on a key, or on all. */
struct holder {
    struct member member;
    struct intent intents[2];
};

static void hold(struct shard *s, struct holder *x, uint64_t number, const char *name) {
    intent_on_database(&x->intents[0], INTENT_DB, name ? INTENT_WRITE_WITHIN : INTENT_WRITE);
    if (name) intent_on_key(&x->intents[1], INTENT_DB, hash_of(name), true);
    x->member = (struct member){.number = number, .intents = x->intents, .n_intents = name ? 2 : 1};
    assert_true(schedule_add(&s->schedule, &x->member));
    assert_true(schedule_tell(&s->schedule, &x->member));
}

static void leaves(struct shard *s, struct holder *x) {
    schedule_remove(&s->schedule, &x->member);
    wait_let_go(s, &x->member);
}

static void only_what_the_one_that_leaves_has_held_is_let_go(void **state) {
    struct shard *s = *state;
    struct one x[3] = {0};
    struct holder a, b;
    listen(s, &x[0], 0, "a");
    listen(s, &x[1], 1, "b"); /* names are held in all databases */
    listen(s, &x[2], 0, "b");
    hold(s, &a, 1, "a");
    hold(s, &b, 2, "b");
    set(s, 0, "b", EXPIRY_NONE);
    set(s, 0, "a", EXPIRY_NONE);
    set(s, 1, "b", EXPIRY_NONE);
    assert_null(wait_next(s));
    leaves(s, &a);
    assert_ptr_equal(s->waits.ready, x[0].keys[0].key);
    assert_ptr_equal(wait_next(s), &x[0].keys[0]);
    wait_forget(s, &x[0].who);
    assert_null(wait_next(s));
    leaves(s, &b);
    assert_ptr_equal(wait_next(s), &x[2].keys[0]); /* in the order in which they became ready */
    wait_forget(s, &x[2].who);
    assert_ptr_equal(wait_next(s), &x[1].keys[0]);
    wait_forget(s, &x[1].who);
    assert_null(wait_next(s));
}

static void who_holds_all_lets_all_go(void **state) {
    struct shard *s = *state;
    struct one x[3] = {0};
    struct holder all;
    listen(s, &x[0], 0, "a");
    listen(s, &x[1], 0, "b");
    hold(s, &all, 1, NULL);
    set(s, 0, "b", EXPIRY_NONE);
    set(s, 0, "a", EXPIRY_NONE);
    assert_null(wait_next(s));
    leaves(s, &all);
    for (int i = 1; i >= 0; i--) {
        assert_ptr_equal(wait_next(s), &x[i].keys[0]);
        wait_forget(s, &x[i].who);
    }
    assert_null(wait_next(s));
}

static void without_memory_nothing_is_listed(void **state) {
    struct shard *s = *state;
    struct one x = {0};
    bool listed = false;
    for (uint64_t nth = 1; !listed; nth++) {
        x.who = (struct waiter){.claim = &x.claim, .keys = x.keys, .n = 1};
        x.keys[0] = (struct wait){.waiter = &x.who};
        memory_fail_after(s->memory, nth);
        listed = wait_add(s, &x.keys[0], 0, hash_of("key"), "key", 3);
        memory_fail_after(s->memory, 0);
        if (!listed) is_empty(s);
        assert_true(nth < 10);
    }
    wait_forget(s, &x.who);
}

/* ---- the model ---- */

static struct random dice;

static const char *const names[NAMES] = {"one", "two", "three", "four", "five"};

/* What the model knows of a shard. */
struct place {
    uint32_t db, name;
};
struct model {
    int64_t count[DBS][NAMES]; /* the key's number; 0: not there */
    struct {
        uint32_t who, n;
    } queue[DBS][NAMES][WAITERS * KEYS_MAX];
    uint32_t waiting[DBS][NAMES];
    struct place ready[DBS * NAMES];
    uint32_t n_ready;
};

struct pair {
    struct waiter half[SHARDS];
    struct wait keys[SHARDS][KEYS_MAX];
    _Atomic bool claim;
    bool used;
};

struct world {
    struct shard *shards[SHARDS];
    struct model models[SHARDS];
    struct pair waiters[WAITERS];
    uint32_t served;
};

/* Some have no use for some keys. */
static bool wants(uint32_t who, uint32_t name) { return (who + name) % 4; }

static void model_ready(struct model *m, uint32_t db, uint32_t name) {
    if (!m->waiting[db][name] || !m->count[db][name]) return;
    for (uint32_t i = 0; i < m->n_ready; i++)
        if (m->ready[i].db == db && m->ready[i].name == name) return;
    m->ready[m->n_ready++] = (struct place){db, name};
}

static void put(struct world *w, uint32_t at, uint32_t db, uint32_t name, int64_t count) {
    struct shard *s = w->shards[at];
    struct key k;
    find(s, db, names[name], &k);
    if (count) assert_int_equal(key_set_int(s, &k, count, EXPIRY_NONE, KEY_SET), 0);
    else if (k.entry) key_delete(s, &k, KEY_DEL);
    w->models[at].count[db][name] = count;
    model_ready(&w->models[at], db, name);
}

static void model_forget(struct model *m, uint32_t who) {
    for (uint32_t db = 0; db < DBS; db++)
        for (uint32_t name = 0; name < NAMES; name++) {
            uint32_t kept = 0;
            for (uint32_t i = 0; i < m->waiting[db][name]; i++)
                if (m->queue[db][name][i].who != who) m->queue[db][name][kept++] = m->queue[db][name][i];
            m->waiting[db][name] = kept;
        }
}

/* The shard serves all that it can: each step must be the model's. */
static void serve(struct world *w, uint32_t at) {
    struct shard *s = w->shards[at];
    struct model *m = &w->models[at];
    for (uint32_t r = 0; r < m->n_ready; r++) {
        uint32_t db = m->ready[r].db, name = m->ready[r].name, i = 0;
        while (m->count[db][name] && i < m->waiting[db][name]) {
            uint32_t who = m->queue[db][name][i].who;
            if (w->waiters[who].claim) {
                i++;
                continue;
            }
            struct wait *turn = wait_next(s);
            assert_non_null(turn);
            assert_ptr_equal(turn->waiter, &w->waiters[who].half[at]);
            assert_int_equal(turn->nth, m->queue[db][name][i].n);
            if (!wants(who, name)) {
                wait_pass(turn);
                i++;
                continue;
            }
            assert_true(wait_claim(turn->waiter));
            wait_forget(s, turn->waiter);
            uint32_t before = i;
            for (uint32_t j = 0; j < before; j++) i -= m->queue[db][name][j].who == who; /* it may wait twice for a key */
            model_forget(m, who);
            w->served++;
            int64_t left = m->count[db][name] - 1;
            struct key k;
            assert_true(find(s, db, names[name], &k));
            if (left) assert_int_equal(key_set_int(s, &k, left, EXPIRY_NONE, KEY_SET), 0);
            else key_delete(s, &k, KEY_DEL);
            m->count[db][name] = left;
        }
    }
    m->n_ready = 0;
    assert_null(wait_next(s));
}

static void come(struct world *w, uint32_t who) {
    struct pair *x = &w->waiters[who];
    if (x->used) return;
    *x = (struct pair){.used = true};
    uint32_t n = 1 + below(&dice, KEYS_MAX), db = below(&dice, DBS);
    for (uint32_t at = 0; at < SHARDS; at++) x->half[at] = (struct waiter){.claim = &x->claim, .keys = x->keys[at]};
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = below(&dice, SHARDS), name = below(&dice, NAMES);
        struct wait *record = &x->keys[at][x->half[at].n++];
        struct model *m = &w->models[at];
        *record = (struct wait){.waiter = &x->half[at], .nth = i};
        assert_true(wait_add(w->shards[at], record, (uint16_t)db, hash_of(names[name]), names[name], (uint32_t)strlen(names[name])));
        m->queue[db][name][m->waiting[db][name]].n = i;
        m->queue[db][name][m->waiting[db][name]++].who = who;
    }
}

/* Its half leaves the shards, sooner or later after it was claimed. */
static void leave(struct world *w, uint32_t who) {
    struct pair *x = &w->waiters[who];
    if (!x->used) return;
    x->claim = true;
    if (below(&dice, 2)) return;
    for (uint32_t at = 0; at < SHARDS; at++) {
        wait_forget(w->shards[at], &x->half[at]);
        model_forget(&w->models[at], who);
    }
    x->used = false;
}

static void one_step(struct world *w) {
    uint32_t at = below(&dice, SHARDS), db = below(&dice, DBS), name = below(&dice, NAMES);
    switch (below(&dice, 10)) {
    case 0:
    case 1:
    case 2: come(w, below(&dice, WAITERS)); break;
    case 3:
    case 4: leave(w, below(&dice, WAITERS)); break;
    case 5: put(w, at, db, name, 0); break;
    case 6:
        for (uint32_t i = 0; i < 4; i++) put(w, at, below(&dice, DBS), below(&dice, NAMES), below(&dice, 3)); /* as EXEC does */
        break;
    default: put(w, at, db, name, 1 + below(&dice, 3));
    }
}

static void it_agrees_with_a_naive_model(void **state) {
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        struct world *w = calloc(1, sizeof *w);
        assert_non_null(w);
        random_seed(&dice, seed, 0);
        for (uint32_t i = 0; i < SHARDS; i++) w->shards[i] = new_shard(i);
        for (uint32_t step = 0; step < 5000; step++) {
            one_step(w);
            for (uint32_t at = 0; at < SHARDS; at++) serve(w, at);
        }
        assert_true(w->served > 100);
        for (uint32_t i = 0; i < SHARDS; i++) {
            for (uint32_t who = 0; who < WAITERS; who++) wait_forget(w->shards[i], &w->waiters[who].half[i]);
            is_empty(w->shards[i]);
            shard_drop(w->shards[i]);
        }
        free(w);
    }
}

static void many_keys_are_found_while_the_buckets_grow(void **state) {
    struct shard *s = *state;
    static struct one x[3000];
    char name[16];
    memset(x, 0, sizeof x);
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "key:%d", i);
        listen(s, &x[i], 0, name);
    }
    for (int i = 2999; i >= 0; i -= 2) {
        snprintf(name, sizeof name, "key:%d", i);
        set(s, 0, name, EXPIRY_NONE);
        assert_ptr_equal(wait_next(s), &x[i].keys[0]);
        wait_forget(s, &x[i].who);
        assert_null(wait_next(s));
    }
    for (int i = 0; i < 3000; i++) wait_forget(s, &x[i].who);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(waiters_of_a_key_have_their_turn_in_the_order_of_their_coming, setup, teardown),
        cmocka_unit_test_setup_teardown(only_its_key_in_its_database_makes_a_waiter_ready, setup, teardown),
        cmocka_unit_test_setup_teardown(a_key_that_is_gone_again_is_not_ready, setup, teardown),
        cmocka_unit_test_setup_teardown(keys_are_ready_in_the_order_in_which_they_became_so, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_passed_is_asked_again_when_the_key_changes_again, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_busy_keeps_its_place_and_lets_nobody_pass, setup, teardown),
        cmocka_unit_test_setup_teardown(what_another_shard_claimed_is_forgotten, setup, teardown),
        cmocka_unit_test_setup_teardown(databases_that_change_places_make_what_is_there_ready, setup, teardown),
        cmocka_unit_test_setup_teardown(a_key_is_held_until_the_transaction_that_made_it_ready_has_left, setup, teardown),
        cmocka_unit_test_setup_teardown(only_what_the_one_that_leaves_has_held_is_let_go, setup, teardown),
        cmocka_unit_test_setup_teardown(who_holds_all_lets_all_go, setup, teardown),
        cmocka_unit_test_setup_teardown(without_memory_nothing_is_listed, setup, teardown),
        cmocka_unit_test_setup_teardown(many_keys_are_found_while_the_buckets_grow, setup, teardown),
        cmocka_unit_test_setup_teardown(it_agrees_with_a_naive_model, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
