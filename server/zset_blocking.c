/* Sorted-set commands that wait for a member: BZPOPMIN, BZPOPMAX, BZMPOP. What each asks for; how it is taken. The waiting is waiting.h's. */
#include "server/waiting.h"
#include "server/zsets.h"

static bool find(struct shard *s, const struct hop *h, uint32_t nth, struct key *k) {
    const struct arg *name = hop_key(h, nth);
    return key_find(s, s->dbs[h->db], hop_hash(h, nth), name->p, name->size, k);
}

static enum readiness ready(struct shard *s, const struct hop *h, uint32_t nth) {
    struct key k;
    if (!find(s, h, nth, &k)) return KEY_NOT_READY;
    return entry_type(k.entry) == TYPE_ZSET ? KEY_READY : KEY_WRONG_TYPE;
}

static enum hop_result take(
    struct shard *s, struct hop *h, uint32_t nth, bool highest, uint64_t count, enum pop_shape shape, struct reply *r) {
    struct key k;
    if (find(s, h, nth, &k)) return zset_pop_on(s, h, &k, highest, count, shape, r);
    reply_null_array(r);
    return HOP_DONE;
}

/* ---- BZPOPMIN, BZPOPMAX ---- */

static bool read_one(const struct arg *argv, uint32_t argc, struct waiting_for *x, struct reply *r) {
    x->key_first = 1;
    x->n_keys = argc - 2;
    return waiting_seconds(&argv[argc - 1], &x->timeout_ms, r);
}

static enum hop_result take_lowest(struct shard *s, struct hop *h, uint32_t nth, struct reply *r) {
    return take(s, h, nth, false, 1, POP_NAMED_FLAT, r);
}

static enum hop_result take_highest(struct shard *s, struct hop *h, uint32_t nth, struct reply *r) {
    return take(s, h, nth, true, 1, POP_NAMED_FLAT, r);
}

const struct blocking bzpopmin = {.parse = read_one, .ready = ready, .take = take_lowest, .nothing = reply_null_array};
const struct blocking bzpopmax = {.parse = read_one, .ready = ready, .take = take_highest, .nothing = reply_null_array};

/* ---- BZMPOP ---- */

static bool read_some(const struct arg *argv, uint32_t argc, struct waiting_for *x, struct reply *r) {
    struct zset_pops asked;
    if (!zset_read_pops(argv, argc, 2, &asked, r)) return false;
    x->key_first = 3;
    x->n_keys = asked.n_keys;
    return waiting_seconds(&argv[1], &x->timeout_ms, r);
}

static enum hop_result take_some(struct shard *s, struct hop *h, uint32_t nth, struct reply *r) {
    struct zset_pops asked;
    if (!zset_read_pops(h->argv, h->argc, 2, &asked, r)) return HOP_DONE;
    return take(s, h, nth, asked.highest, asked.count, POP_NAMED_PAIRS, r);
}

const struct blocking bzmpop = {.parse = read_some, .ready = ready, .take = take_some, .nothing = reply_null_array};
