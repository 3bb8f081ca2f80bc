#include "server/defer.h"

#include <mimalloc.h>
#include <stdlib.h>

#include "server/thread.h"

bool hop_must_wait(const struct shard *s, const struct hop *h) {
    bool write = h->flags & HOP_WRITE;
    if (h->flags & HOP_NO_KEY) return false;
    for (uint32_t i = 0; i < h->n_keys; i++)
        if (schedule_conflicts(&s->schedule, INTENT_DB, hop_hash(h, i), write)) return true;
    return false;
}

uint32_t hop_intents(const struct hop *h, struct intent *to) {
    bool write = h->flags & HOP_WRITE;
    intent_on_database(to++, INTENT_DB, write ? INTENT_WRITE_WITHIN : INTENT_READ_WITHIN);
    for (uint32_t i = 0; i < h->n_keys; i++) intent_on_key(to++, INTENT_DB, hop_hash(h, i), write);
    return h->n_keys + 1;
}

static struct deferred *defer(struct shard *s, struct batch *b, uint32_t index) {
    struct hop *h = &b->hops[index];
    if (!b->late) b->late = mi_calloc(BATCH_HOPS, sizeof *b->late);
    struct deferred *d = mi_malloc(sizeof *d + hop_intents_max(h) * sizeof *d->intents);
    if (!b->late || !d) abort(); /* it can neither run now nor wait */
    *d = (struct deferred){.message = {.kind = MESSAGE_LATE, .from = b->message.from}, .batch = b, .index = index};
    d->member = (struct member){.local = true, .intents = d->intents, .n_intents = hop_intents(h, d->intents), .owner = d};
    b->late[index] = d;
    b->n_late++;
    schedule_add(&s->schedule, &d->member);
    return d;
}

void defer_hop(struct shard *s, struct batch *b, uint32_t index) { schedule_tell(&s->schedule, &defer(s, b, index)->member); }

struct deferred *defer_slices(struct shard *s, struct batch *b, uint32_t index) {
    struct deferred *d = defer(s, b, index);
    if (!schedule_tell(&s->schedule, &d->member)) abort(); /* it did not conflict, or it would not have run */
    b->hops[index].state = HOP_IN_SLICES;
    return d;
}

struct deferred *batch_late(const struct batch *b, uint32_t index) {
    return __builtin_expect(b->late != NULL, 0) ? b->late[index] : NULL;
}
