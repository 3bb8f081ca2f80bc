#include "server/many.h"

#include <mimalloc.h>

#include "server/strings.h"

/* Bytes of arguments in one go, and of a slice: copying them is most of what they take. */
#define GO_BYTES (256u << 10)
#define SLICE_BYTES (64u << 10)

static struct many *many_of(const struct hop *h) { return h->state > HOP_IN_SLICES ? (struct many *)(uintptr_t)h->state : NULL; }

__attribute__((cold)) bool many_is_long(const struct hop *h, const struct many_way *way) {
    size_t bytes = 0;
    if (h->state || h->argc > 2 * way->most) return true;
    for (uint32_t i = 0; i < h->argc; i++) bytes += h->argv[i].size;
    return bytes > GO_BYTES;
}

/* Where a slice that begins there ends. */
static uint32_t slice_end(const struct hop *h, const struct many_way *way, uint32_t at) {
    uint32_t end = at;
    for (size_t bytes = 0; end < h->argc && end - at < way->most && bytes <= SLICE_BYTES; end += way->step)
        for (uint32_t i = end; i < h->argc && i < end + way->step; i++) bytes += h->argv[i].size;
    return end < h->argc ? end : h->argc;
}

bool many_reserve(struct shard *s, struct many *m, const struct key *k, uint64_t bytes, struct reply *r) {
    bytes += key_entry_needs(k);
    if (s->leased == BUDGET_NONE || !bytes) return true;
    if (!budget_reserve(s->budget, bytes)) {
        reply_refused(s, r);
        return false;
    }
    m->reserved = bytes;
    return true;
}

/* What was kept is given back as it is used: the shard leases that when it settles. */
static void give_back(struct shard *s, struct many *m, uint64_t bytes) {
    if (bytes > m->reserved) bytes = m->reserved;
    if (!bytes) return;
    budget_give(s->budget, bytes);
    m->reserved -= bytes;
}

static void forget(struct shard *s, struct hop *h, struct many *m) {
    give_back(s, m, m->reserved);
    mi_free(m);
    h->state = 0;
}

static struct many *begin(struct shard *s, struct hop *h, const struct many_way *way, struct reply *r) {
    struct many *m = mi_calloc(1, sizeof *m);
    if (!m) {
        reply_refused(s, r);
        h->state = 0;
        return NULL;
    }
    *m = (struct many){.way = way, .first = way->first, .acts = !way->check, .reply_at = r->size};
    h->state = (uint64_t)(uintptr_t)m;
    if (!way->begin || way->begin(s, h, m, r)) {
        m->at = m->first;
        return m;
    }
    forget(s, h, m);
    return NULL;
}

/* The next part of the arguments. False: all is over. */
static bool go_on(struct shard *s, struct hop *h, struct many *m, struct reply *r) {
    const struct many_way *way = m->way;
    uint32_t to = slice_end(h, way, m->at);
    if (!m->acts) return way->check(s, h, m, to, r);
    uint64_t used = memory_used(s->memory);
    s->never_refused = true; /* what it takes was asked for */
    bool good = way->act(s, h, m, to, r);
    s->never_refused = false;
    if (memory_used(s->memory) > used) give_back(s, m, memory_used(s->memory) - used);
    return good;
}

enum hop_result many_run(struct shard *s, struct hop *h, const struct many_way *way, struct reply *r) {
    struct many *m = many_of(h);
    if (!h->state) return HOP_AGAIN;
    if (!m && !(m = begin(s, h, way, r))) return HOP_DONE;
    bool good = go_on(s, h, m, r);
    if (good && !many_is_last(h, m)) return HOP_AGAIN;
    if (good && !m->acts) {
        m->acts = true;
        m->at = m->first;
        return HOP_AGAIN;
    }
    if (good && way->end) way->end(s, h, m, r);
    forget(s, h, m);
    return HOP_DONE;
}

void many_reply_n(struct shard *s, struct hop *h, struct many *m, struct reply *r) {
    (void)s;
    (void)h;
    reply_int(r, m->n);
}

void many_look(struct shard *s, const struct hop *h, struct key *k) {
    const struct arg *name = hop_key(h, 0);
    key_look_again(s, s->dbs[h->db], h->hash, name->p, name->size, k);
}

void many_drop(struct shard *s, struct hop *h, struct reply *r) {
    struct many *m = many_of(h);
    (void)r;
    if (m) forget(s, h, m);
}
