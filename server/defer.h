/* Plain commands that meet an intent of a transaction (shard/schedule.h): they wait on the shard, and their replies come late.
 *
 * Whoever runs the batch makes a struct deferred for such a hop and hangs it into the batch; the batch itself goes on and back. When the hop has run, on
 * whatever thread holds the shard then, its deferred goes to the sender by a message of its own. The sender keeps the batch (and with its tick what the
 * arguments point into) until none is out, and takes the reply in its place.
 *
 * A plain hop that has much to do (it said HOP_AGAIN) becomes one, too: it holds intents on its keys, and the shard's owner runs it slice by slice.
 */
#ifndef SERVER_DEFER_H
#define SERVER_DEFER_H

#include "io/mailbox.h"
#include "server/client_memory.h"
#include "server/reply.h"
#include "shard/schedule.h"
#include "shard/shard.h"

struct batch;

struct deferred {
    struct message message;
    struct member member;
    struct batch *batch;
    uint32_t index; /* of the hop in the batch */
    bool done;      /* the sender's: its reply is here */
    bool slow;
    bool sliced;           /* goes on in slices */
    uint64_t cycles;       /* it took so far */
    struct deferred *next; /* of its shard's that go on in slices */
    struct aside_count counted;
    struct reply reply;
    struct intent intents[];
};

/* Whether a hop on this shard must wait for a transaction. */
bool hop_must_wait(const struct shard *s, const struct hop *h);
/* Hangs a hop of a batch into the shard's queue. Never fails (without memory the process ends). */
void defer_hop(struct shard *s, struct batch *b, uint32_t index);
/* Makes a hop that conflicts with nothing one that goes on in slices. NULL: with very many keys it has an intent on its database, and waits until nobody else has one that conflicts; then it
 * begins. */
struct deferred *defer_slices(struct shard *s, struct batch *b, uint32_t index);
/* The deferred hop of the batch, or NULL. */
struct deferred *batch_late(const struct batch *b, uint32_t index);
/* Fills in the intents of a hop: on its database, then on its keys. */
uint32_t hop_intents(const struct hop *h, struct intent *to);
static inline uint32_t hop_intents_max(const struct hop *h) { return h->n_keys + 1; }

#endif
