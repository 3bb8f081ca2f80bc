/* The mailbox: messages from many threads to one, in one total order.
 *
 * An intrusive multi-producer single-consumer list. Producers push with a compare and swap on the head of a stack; the consumer
 * takes everything that is there with one exchange and turns it round, so the order of the pushes is the order of arrival, the
 * same for everyone. Nothing is allocated and nothing is bounded here: a message brings its own link, so sending never
 * fails and draining never depends on being able to send. What bounds the queue is the sender's own limit on commands in flight.
 *
 * Arming. A sender that has several mailboxes to fill in one tick pushes all its messages first and arms them with one store
 * (mailbox_arm). A consumer runs a message only once it is armed; an unarmed one holds back all behind it. So whoever sees an effect of
 * one message of a tick finds all others of that tick already queued (the causal order of pipelines).
 *
 * Sleeping. The consumer announces that it goes to sleep, then looks again, then sleeps; a producer pushes, arms, then asks
 * whether the consumer had announced it, and only then wakes it. Each side's store is followed by a full fence before its load,
 * so at least one of the two sees the other: no wake-up is lost.
 */
#ifndef IO_MAILBOX_H
#define IO_MAILBOX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The thread sanitizer does not know fences; for it, and only for it, one is an exchange on a word that all share. */
#ifdef __has_feature
#if __has_feature(thread_sanitizer)
#define MAILBOX_NO_FENCES 1
#endif
#endif
#ifdef __SANITIZE_THREAD__
#define MAILBOX_NO_FENCES 1
#endif
#ifndef MAILBOX_NO_FENCES
#define MAILBOX_NO_FENCES 0
#endif

struct message {
    struct message *next;
    const _Atomic uint64_t *armed; /* the sender's arming word; NULL: needs no arming */
    uint64_t sequence;             /* armed once *armed >= sequence */
    uint32_t kind;                 /* the user's */
    uint32_t from;                 /* the sender's thread number */
};

struct mailbox {
    _Alignas(64) _Atomic(struct message *) head; /* what producers write */
    _Alignas(64) struct message *first, *last;   /* what the consumer took and has not run yet */
    _Alignas(64) _Atomic uint32_t asleep;        /* 1: the consumer announced sleep */
};

void mailbox_init(struct mailbox *m);

/* A full fence, between what a side stores and what it then loads of the other. */
static inline void mailbox_fence(void) {
#if MAILBOX_NO_FENCES
    extern _Atomic uint32_t mailbox_fence_word;
    atomic_fetch_add(&mailbox_fence_word, 1);
#else
    atomic_thread_fence(memory_order_seq_cst);
#endif
}

/* Any thread. Queues a message; it is the consumer's until the consumer hands it back. */
static inline void mailbox_push(struct mailbox *m, struct message *msg) {
    struct message *head = atomic_load_explicit(&m->head, memory_order_relaxed);
    do {
        msg->next = head;
    } while (!atomic_compare_exchange_weak_explicit(&m->head, &head, msg, memory_order_release, memory_order_relaxed));
}

/* The consumer: takes what has arrived since the last call into its own list, behind what is there, without running it. */
void mailbox_collect(struct mailbox *m);

/* May it be run? */
static inline bool mailbox_is_armed(const struct message *msg) {
    return !msg->armed || atomic_load_explicit(msg->armed, memory_order_acquire) >= msg->sequence;
}

/* The consumer: the next armed message of what was collected, or NULL. It is the caller's from then on. */
struct message *mailbox_next(struct mailbox *m);

/* Anyone: has something arrived since the last mailbox_collect? */
static inline bool mailbox_has_new(const struct mailbox *m) { return atomic_load_explicit(&m->head, memory_order_relaxed) != NULL; }

/* The consumer: puts a message behind those that it has collected, as if it had arrived then. It must be armed, or be so in this order. */
void mailbox_append(struct mailbox *m, struct message *msg);

/* The consumer: would a turn find something: the first message that was collected is armed now, or none is left and others arrived
 * (armed or not; behind an unarmed one they must wait anyway, and whoever arms that one asks whether to wake). */
bool mailbox_ready(const struct mailbox *m);

/* A sender: arms everything it has pushed with a sequence <= sequence. */
static inline void mailbox_arm(_Atomic uint64_t *armed, uint64_t sequence) { atomic_store_explicit(armed, sequence, memory_order_release); }

/* The consumer: announces sleep. The caller must look at every mailbox of its thread again before it sleeps. */
static inline void mailbox_announce_sleep(_Atomic uint32_t *asleep) {
    atomic_exchange(asleep, 1);
    mailbox_fence();
}

/* The consumer, awake again: spares producers the wake. */
static inline void mailbox_awake(_Atomic uint32_t *asleep) {
    if (atomic_load_explicit(asleep, memory_order_relaxed)) atomic_store_explicit(asleep, 0, memory_order_relaxed);
}

/* A producer, after pushing, arming and one mailbox_fence() (one for all its mailboxes): must the consumer be woken? True for one caller a sleep. */
static inline bool mailbox_must_wake(_Atomic uint32_t *asleep) {
    return atomic_load_explicit(asleep, memory_order_relaxed) && atomic_exchange(asleep, 0);
}

#endif
