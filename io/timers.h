/* The timers of one thread: a heap of deadlines, for time-outs, parked commands, periodic work. Owned by that thread.
 *
 * A timer is embedded in whatever it belongs to and knows its place in the heap, so it is moved or cancelled without a search. Adding
 * needs no memory: room is reserved beforehand, where failure can still be refused (when a connection is accepted, say). Adding,
 * moving, cancelling and popping cost O(log n); the next deadline O(1). Timers due at the same time come in no particular order.
 *
 *   heap[]:  0 | 1 2 3 4 | 5 6 7 8 ...      4 children a node: half the depth of a binary heap, and the children are one line
 */
#ifndef IO_TIMERS_H
#define IO_TIMERS_H

#include <stdbool.h>
#include <stdint.h>

struct timer {
    uint32_t place; /* its index in the heap + 1; 0: not in it. Zero a timer before its first use. */
};

struct timer_slot {
    uint64_t deadline_ns;
    struct timer *timer;
};

struct timers {
    struct timer_slot *heap;
    uint32_t count, capacity;
};

#define TIMERS_NONE UINT64_MAX /* the deadline of an empty heap: proactor_wait() takes it for "none" too */

void timers_init(struct timers *t);
/* Frees the heap, not the timers, which must not be used with it any more. */
void timers_free(struct timers *t);

/* Makes room for count timers at once. Returns 0 or -ENOMEM (and then the room is what it was). */
int timers_reserve(struct timers *t, uint32_t count);
/* Starts a timer, or moves a running one. deadline_ns is CLOCK_MONOTONIC. There must be room: see timers_reserve(). */
void timers_add(struct timers *t, struct timer *timer, uint64_t deadline_ns);
/* Stops it if it runs. */
void timers_cancel(struct timers *t, struct timer *timer);

static inline bool timer_runs(const struct timer *timer) { return timer->place; }

/* When the first one is due; TIMERS_NONE: there is none. */
static inline uint64_t timers_next_deadline(const struct timers *t) { return t->count ? t->heap[0].deadline_ns : TIMERS_NONE; }

/* Stops and returns one timer with deadline <= now_ns, the earliest; NULL: none is due. */
struct timer *timers_pop_due(struct timers *t, uint64_t now_ns);

#endif
