#include "server/defer.h"

#include <assert.h>
#include <mimalloc.h>
#include <stdlib.h>

#include "server/exec.h"
#include "server/thread.h"

/* One on its database, and one for each key: of more, which would take milliseconds, there is one on the whole database, as of a fan-out over several shards. */
#define INTENTS_MAX (1 + FANOUT_KEYS_MAX)

static bool meets(const struct shard *s, const struct hop *h) {
    bool write = h->flags & HOP_WRITE;
    if (h->flags & HOP_NO_KEY) return false;
    for (uint32_t i = 0; i < h->n_keys; i++)
        if (schedule_conflicts(&s->schedule, INTENT_DB, hop_hash(h, i), write)) return true;
    return false;
}

bool hop_must_wait(const struct shard *s, const struct hop *h) {
    for (const struct watch *w = exec_watched(h); w; w = w->next_of)
        if (schedule_conflicts(&s->schedule, INTENT_DB, w->in.hash, false)) return true;
    for (const struct hop *last = h + exec_together(h); h <= last; h++)
        if (meets(s, h)) return true;
    return false;
}

uint32_t hop_intents(const struct hop *h, struct intent *to) {
    bool write = h->flags & HOP_WRITE;
    intent_on_database(to++, INTENT_DB, write ? INTENT_WRITE_WITHIN : INTENT_READ_WITHIN);
    for (uint32_t i = 0; i < h->n_keys; i++) intent_on_key(to++, INTENT_DB, hop_hash(h, i), write);
    return h->n_keys + 1;
}

static bool writes_together(const struct hop *h) {
    for (const struct hop *last = h + exec_together(h); h <= last; h++)
        if (h->flags & HOP_WRITE) return true;
    return false;
}

/* The same of a hop with those that belong to it. */
static uint32_t intents_together(const struct hop *h, struct intent *to) {
    const struct hop *last = h + exec_together(h);
    struct intent *first = to++;
    bool writes = false;
    for (const struct watch *w = exec_watched(h); w; w = w->next_of) intent_on_key(to++, INTENT_DB, w->in.hash, false);
    for (; h <= last; h++) {
        bool write = h->flags & HOP_WRITE;
        writes |= write;
        for (uint32_t i = 0; i < h->n_keys; i++) intent_on_key(to++, INTENT_DB, hop_hash(h, i), write);
    }
    intent_on_database(first, INTENT_DB, writes ? INTENT_WRITE_WITHIN : INTENT_READ_WITHIN);
    return (uint32_t)(to - first);
}

static uint32_t intents_together_max(const struct hop *h) {
    uint32_t n = 1;
    for (const struct watch *w = exec_watched(h); w; w = w->next_of) n++;
    for (const struct hop *last = h + exec_together(h); h <= last; h++) n += h->n_keys;
    return n;
}

static struct deferred *defer(struct shard *s, struct batch *b, uint32_t index) {
    struct hop *h = &b->hops[index];
    uint32_t n = intents_together_max(h);
    bool whole = n > INTENTS_MAX;
    if (!b->late) b->late = mi_calloc(BATCH_HOPS, sizeof *b->late);
    struct deferred *d = mi_malloc(sizeof *d + (whole ? 1 : n) * sizeof *d->intents);
    if (!b->late || !d) abort(); /* it can neither run now nor wait */
    *d = (struct deferred){.message = {.kind = MESSAGE_LATE, .from = b->message.from}, .batch = b, .index = index};
    if (whole) intent_on_database(d->intents, INTENT_DB, writes_together(h) ? INTENT_WRITE : INTENT_READ);
    d->member = (struct member){.local = true, .intents = d->intents, .n_intents = whole ? 1 : intents_together(h, d->intents), .owner = d};
    b->late[index] = d;
    b->n_late++;
    if (!schedule_add(&s->schedule, &d->member)) abort();
    return d;
}

void defer_hop(struct shard *s, struct batch *b, uint32_t index) { schedule_tell(&s->schedule, &defer(s, b, index)->member); }

struct deferred *defer_slices(struct shard *s, struct batch *b, uint32_t index) {
    struct deferred *d = defer(s, b, index);
    bool begins = schedule_tell(&s->schedule, &d->member);
    assert(begins || d->intents[0].mode >= INTENT_READ); /* its keys did not conflict, or it would not have run */
    b->hops[index].state = HOP_IN_SLICES;
    d->sliced = true;
    return begins ? d : NULL;
}

struct deferred *batch_late(const struct batch *b, uint32_t index) {
    return __builtin_expect(b->late != NULL, 0) ? b->late[index] : NULL;
}
