/* Deadlines of one thread, on the monotonic clock: a binary heap (Williams 1964). Each has its place in it, so that it can be taken out. */
#ifndef SERVER_DEADLINE_H
#define SERVER_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>

struct deadline {
    uint64_t at_ns;
    uint32_t place; /* in the heap, + 1; 0: it is not there */
};

/* All 0: empty. */
struct deadlines {
    struct deadline **heap;
    uint32_t n, capacity;
};

static inline uint64_t deadlines_next_ns(const struct deadlines *x) { return x->n ? x->heap[0]->at_ns : UINT64_MAX; }
/* False: no memory. O(log n), as is removing. */
bool deadlines_add(struct deadlines *x, struct deadline *d);
/* Nothing if it is not there. */
void deadlines_remove(struct deadlines *x, struct deadline *d);
void deadlines_drop(struct deadlines *x);

#endif
