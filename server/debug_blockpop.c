#include "server/debug_blockpop.h"

#include "server/strings.h"

#define FIRST_KEY 3u

static bool parse(const struct arg *argv, uint32_t argc, struct waiting_for *x, struct reply *r) {
    x->key_first = FIRST_KEY;
    x->n_keys = argc - FIRST_KEY;
    return waiting_seconds(&argv[FIRST_KEY - 1], &x->timeout_ms, r);
}

static bool find(struct shard *s, const struct hop *h, uint32_t nth, struct key *k) {
    const struct arg *name = hop_key(h, nth);
    return key_find(s, s->dbs[h->db], hop_hash(h, nth), name->p, name->size, k);
}

static enum readiness ready(struct shard *s, const struct hop *h, uint32_t nth) {
    struct key k;
    if (!find(s, h, nth, &k)) return KEY_NOT_READY;
    return entry_type(k.entry) == TYPE_STRING ? KEY_READY : KEY_WRONG_TYPE;
}

static enum hop_result take(struct shard *s, struct hop *h, uint32_t nth, struct reply *r) {
    struct key k;
    if (!find(s, h, nth, &k)) {
        reply_null_array(r);
        return HOP_DONE;
    }
    reply_array(r, 2);
    reply_bulk(r, k.name, k.size);
    reply_string(r, k.entry);
    key_delete(s, &k, KEY_DEL);
    return HOP_DONE;
}

const struct blocking debug_blockpop = {.parse = parse, .ready = ready, .take = take, .nothing = reply_null_array};
