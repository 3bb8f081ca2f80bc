#include "server/deadline.h"

#include <mimalloc.h>

static void put(struct deadlines *x, uint32_t at, struct deadline *d) {
    x->heap[at] = d;
    d->place = at + 1;
}

static void rise(struct deadlines *x, uint32_t at, struct deadline *d) {
    for (; at && x->heap[(at - 1) / 2]->at_ns > d->at_ns; at = (at - 1) / 2) put(x, at, x->heap[(at - 1) / 2]);
    put(x, at, d);
}

static void sink(struct deadlines *x, uint32_t at, struct deadline *d) {
    for (uint32_t child; (child = 2 * at + 1) < x->n; at = child) {
        if (child + 1 < x->n && x->heap[child + 1]->at_ns < x->heap[child]->at_ns) child++;
        if (x->heap[child]->at_ns >= d->at_ns) break;
        put(x, at, x->heap[child]);
    }
    put(x, at, d);
}

bool deadlines_add(struct deadlines *x, struct deadline *d) {
    if (x->n == x->capacity) {
        uint32_t capacity = x->capacity ? 2 * x->capacity : 16;
        struct deadline **more = mi_realloc(x->heap, capacity * sizeof *more);
        if (!more) return false;
        x->heap = more;
        x->capacity = capacity;
    }
    rise(x, x->n++, d);
    return true;
}

void deadlines_remove(struct deadlines *x, struct deadline *d) {
    if (!d->place) return;
    uint32_t at = d->place - 1;
    struct deadline *last = x->heap[--x->n];
    d->place = 0;
    if (last == d) return;
    if (at && x->heap[(at - 1) / 2]->at_ns > last->at_ns) rise(x, at, last);
    else sink(x, at, last);
}

void deadlines_drop(struct deadlines *x) { mi_free(x->heap); }
