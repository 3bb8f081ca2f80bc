/* Who waits for keys: the shard's half of blocking commands (BLPOP ...). Pure data: no clock, no message.
 *
 * A waiter is one parked command's half on one shard: the keys it waits for there. Each key has the waiters in the order of their coming. The funnel
 * (keyspace.h) tells of every change: a key with waiters that is there afterwards becomes ready. After the command that made it so, before the next of
 * the shard, whoever holds the shard asks wait_next() for whose turn it is, until there is none:
 *
 *   ready   the keys in the order in which they became ready; each stays until it is gone, or none of its waiters is left to be asked
 *   held    the keys that a transaction made ready which will come here again, or has yet to leave: they are ready once it has left
 *
 * Waiters are served once, though their keys may lie on several shards. That is decided by one word that all halves share, the claim: whoever sets it
 * first decides, a shard with a key for it, or the client's side that ends it (its time is over, its client has left). Nobody waits for the word; whoever comes
 * second knows that it is over. So an element is taken only for who surely gets it, and a key never waits for another shard.
 *
 * A waiter and its records are made by the client's side and lent to the shard from wait_add to wait_forget. Meanwhile only whoever holds the shard
 * touches them.
 */
#ifndef SHARD_WAIT_H
#define SHARD_WAIT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shard/buckets.h"

/* Deliberate faults, one at a time, that the simulator must find (tests/sim). Never set elsewhere. */
#ifndef WAIT_FAULT
#define WAIT_FAULT 0
#endif
enum {
    WAIT_FAULT_WAKE_LOST = 12,
    WAIT_FAULT_LAST_FIRST = 13,
    WAIT_FAULT_HELD_FOR_EVER = 14,
    WAIT_FAULT_NOT_HELD = 15,
    WAIT_FAULT_CLAIM_IGNORED = 16,
    WAIT_FAULT_SWAP_UNSEEN = 17,
    WAIT_FAULT_PASSED_ENDS = 18
};

struct shard;
struct key;
struct member;
struct waiter;
struct wait_key; /* a key that somebody waits for */

/* One key of a waiter. */
struct wait {
    struct wait *next, *previous; /* of the same key, in order */
    struct wait_key *key;         /* NULL: not listed */
    struct waiter *waiter;
    uint32_t nth; /* the user's: which of the command's keys it is */
};

struct waiter {
    _Atomic bool *claim; /* true: it is decided who serves or ends it */
    void *owner;         /* the user's */
    bool busy;           /* it was told that it is its turn, and tries elsewhere: it keeps its place, and nobody behind it is asked */
    uint32_t n;
    struct wait *keys;
};

/* A shard's. All 0: empty. n is asked at every change of a key, so it comes first. */
struct waits {
    uint64_t n; /* records listed */
    struct wait_key *ready, *last_ready, *held, *last_held;
    struct buckets keys;
};

/* Decides. False: somebody else did before. */
static inline bool wait_claim(const struct waiter *who) { return !atomic_exchange_explicit(who->claim, true, memory_order_acq_rel); }

/* Lists a waiter's record as the last of a key, with nth and waiter filled in. False: no memory, it is not listed. */
bool wait_add(struct shard *s, struct wait *w, uint16_t db, uint64_t hash, const char *name, uint32_t size);
/* Takes all records of a waiter out that are listed; it is the client's side's again. If it was busy, who is behind it may be asked. */
void wait_forget(struct shard *s, struct waiter *who);
/* A busy waiter found nothing: it is asked again when its key changes. */
void wait_resume(struct shard *s, struct waiter *who);

/* Whose turn it is, at the shard's time: the first waiter, of those not passed, of the first key that is ready. Those whose claim was set elsewhere are
 * forgotten on the way. NULL: nobody's. */
struct wait *wait_next(struct shard *s);
/* The key has nothing for this one: the next of its waiters is to be asked. */
void wait_pass(struct wait *w);
/* A member has left the shard's schedule: of its keys those that are held are ready, in the order in which they became so. O(its intents + keys held), nothing while
 * none is held. */
void wait_let_go(struct shard *s, const struct member *m);

/* A key changed, as the funnel tells. Only to be called while somebody waits. */
void wait_touch(struct shard *s, const struct key *k);
/* Two databases have changed places. */
void wait_swap(struct shard *s, uint32_t a, uint32_t b);

/* The end of the shard. */
void wait_drop(struct shard *s);

#endif
