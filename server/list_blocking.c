/* List commands that wait for an element: BLPOP, BRPOP, BLMPOP, BLMOVE, BRPOPLPUSH. What each asks for; how it is taken. The waiting is waiting.h's. */
#include "server/lists.h"
#include "server/waiting.h"

bool find_list(struct shard *s, const struct hop *h, uint32_t nth, struct key *k) {
    const struct arg *name = hop_key(h, nth);
    return key_find(s, s->dbs[h->db], hop_hash(h, nth), name->p, name->size, k);
}

static enum readiness ready(struct shard *s, const struct hop *h, uint32_t nth) {
    struct key k;
    if (!find_list(s, h, nth, &k)) return KEY_NOT_READY;
    return entry_type(k.entry) == TYPE_LIST ? KEY_READY : KEY_WRONG_TYPE;
}

/* ---- BLPOP, BRPOP ---- */

static bool read_pop_one(const struct arg *argv, uint32_t argc, struct waiting_for *x, struct reply *r) {
    x->key_first = 1;
    x->n_keys = argc - 2;
    return waiting_seconds(&argv[argc - 1], &x->timeout_ms, r);
}

static enum hop_result take_one(struct shard *s, const struct hop *h, uint32_t nth, enum list_end end, struct reply *r) {
    struct key k;
    if (!find_list(s, h, nth, &k)) {
        reply_null_array(r);
        return HOP_DONE;
    }
    struct list x = open_list(s, &k);
    reply_array(r, 2);
    reply_bulk(r, k.name, k.size);
    pop_one(s, &k, &x, end, r);
    return HOP_DONE;
}

static enum hop_result take_first(struct shard *s, struct hop *h, uint32_t nth, struct reply *r) {
    return take_one(s, h, nth, LIST_HEAD, r);
}

static enum hop_result take_last(struct shard *s, struct hop *h, uint32_t nth, struct reply *r) {
    return take_one(s, h, nth, LIST_TAIL, r);
}

const struct blocking blpop = {.parse = read_pop_one, .ready = ready, .take = take_first, .nothing = reply_null_array};
const struct blocking brpop = {.parse = read_pop_one, .ready = ready, .take = take_last, .nothing = reply_null_array};

/* ---- BLMPOP ---- */

static bool read_pop_some(const struct arg *argv, uint32_t argc, struct waiting_for *x, struct reply *r) {
    struct multi_pop asked;
    if (!read_pop(argv, argc, 2, &asked, r)) return false;
    x->key_first = asked.first;
    x->n_keys = asked.n;
    return waiting_seconds(&argv[1], &x->timeout_ms, r);
}

static enum hop_result take_some(struct shard *s, struct hop *h, uint32_t nth, struct reply *r) {
    struct multi_pop asked;
    struct key k;
    if (!read_pop(h->argv, h->argc, 2, &asked, r)) return HOP_DONE;
    if (find_list(s, h, nth, &k)) return pop_of_many_on(s, h, &k, &asked, r);
    reply_null_array(r);
    return HOP_DONE;
}

const struct blocking blmpop = {.parse = read_pop_some, .ready = ready, .take = take_some, .nothing = reply_null_array};

/* ---- BLMOVE, BRPOPLPUSH ---- */

static bool read_move(const struct arg *argv, uint32_t argc, struct waiting_for *x, struct reply *r) {
    struct hop h = {.argv = (struct arg *)(uintptr_t)argv, .argc = argc};
    enum list_end from, to;
    if (!read_ends(&h, &from, &to, r)) return false;
    x->key_first = 1;
    x->n_keys = 2;
    return waiting_seconds(&argv[argc - 1], &x->timeout_ms, r);
}

static enum hop_result take_and_move(struct shard *s, struct hop *h, uint32_t nth, struct reply *r) {
    (void)nth;
    list_moving.all(s, s, h, r);
    return HOP_DONE;
}

const struct blocking blmove = {.parse = read_move,
    .ready = ready,
    .take = take_and_move,
    .nothing = reply_null_array,
    .nothing_at_once = reply_null,
    .moving = &list_moving};
