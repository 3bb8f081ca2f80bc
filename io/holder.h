/* The holder word: which thread may touch something that one of two may work on, by one word that is only ever tried, never waited for.
 *
 * A thing (a shard with its mailbox's consumer half) has an owner thread. While the owner sleeps, whoever has work for the thing may borrow it, do the
 * work, and give it back, so that nobody needs to be woken. States and legal moves:
 *
 *   OWNED --holder_let_go----> FREE      the owner, before it sleeps (release)
 *   FREE  --holder_take------> OWNED     the owner (acquire)
 *   FREE  --holder_borrow----> LENT      a borrower (acquire)
 *   LENT  --holder_give_back-> FREE      the borrower (release)
 *   LENT  --holder_want------> WANTED    the owner, which goes on without it, and may sleep
 *   WANTED --holder_give_back-> OWNED    the borrower (release); it must then wake the owner if that sleeps
 *
 * The acquire of each move into OWNED or LENT meets the release of the move before, so all that was done to the thing is seen.
 *
 * No work is left lying. Whoever queues work for the thing (mailbox_push, mailbox_arm) executes mailbox_fence() and then looks at the word; whoever lets
 * go or gives back executes mailbox_fence() and then looks at the mailbox again: one of the two sees the other. FREE means: nobody will see to it, do it yourself
 * (borrow, or wake the owner). LENT and WANTED mean: the borrower looks again. OWNED means: the owner is awake, or announces its sleep after it let
 * go, so that mailbox_must_wake sees it.
 */
#ifndef IO_HOLDER_H
#define IO_HOLDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/* Deliberate faults, one at a time, that the stress test must find under the thread sanitizer (tests/unit/test_holder.c). Never set elsewhere. */
#ifndef HOLDER_FAULT
#define HOLDER_FAULT 0
#endif
enum { HOLDER_FAULT_NO_SWAP = 1, HOLDER_FAULT_NO_RELEASE = 2, HOLDER_FAULT_LATE_LOOK = 3 };

enum { HOLDER_OWNED, HOLDER_FREE, HOLDER_LENT, HOLDER_WANTED }; /* zeroed memory is OWNED */

struct holder {
    _Alignas(64) _Atomic uint32_t state;
};

static inline uint32_t holder_state(const struct holder *h) { return atomic_load_explicit(&h->state, memory_order_relaxed); }

static inline bool holder_swap(struct holder *h, uint32_t from, uint32_t to, memory_order order) {
    if (holder_state(h) != from) return false;
    if (HOLDER_FAULT == HOLDER_FAULT_NO_SWAP) {
        atomic_store_explicit(&h->state, to, order == memory_order_acquire ? memory_order_relaxed : order);
        return true;
    }
    if (HOLDER_FAULT == HOLDER_FAULT_NO_RELEASE && order == memory_order_release) order = memory_order_relaxed;
    return atomic_compare_exchange_strong_explicit(&h->state, &from, to, order, memory_order_relaxed);
}

/* The owner: true if the thing is its own now. False: it is lent. */
static inline bool holder_take(struct holder *h) {
    return holder_swap(h, HOLDER_FREE, HOLDER_OWNED, memory_order_acquire) ||
        atomic_load_explicit(&h->state, memory_order_acquire) == HOLDER_OWNED;
}

/* The owner, which has it. */
static inline void holder_let_go(struct holder *h) {
    atomic_store_explicit(&h->state, HOLDER_FREE, HOLDER_FAULT == HOLDER_FAULT_NO_RELEASE ? memory_order_relaxed : memory_order_release);
}

/* The owner, which does not have it: true if the borrower will hand it over; false if it is lent no longer (holder_take it). */
static inline bool holder_want(struct holder *h) {
    return holder_state(h) == HOLDER_WANTED || holder_swap(h, HOLDER_LENT, HOLDER_WANTED, memory_order_relaxed);
}

/* Any other thread: true if the thing is lent to it now. */
static inline bool holder_borrow(struct holder *h) { return holder_swap(h, HOLDER_FREE, HOLDER_LENT, memory_order_acquire); }

/* The borrower: true if it is the owner's now, who must be woken if it sleeps. */
static inline bool holder_give_back(struct holder *h) {
    if (holder_swap(h, HOLDER_LENT, HOLDER_FREE, memory_order_release)) return false;
    atomic_store_explicit(&h->state, HOLDER_OWNED, HOLDER_FAULT == HOLDER_FAULT_NO_RELEASE ? memory_order_relaxed : memory_order_release);
    return true;
}

#endif
