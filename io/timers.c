/* The heap of timers. Every write of a slot goes through put(), so that a timer's place is always right. */
#include "io/timers.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

enum { CHILDREN = 4 };

void timers_init(struct timers *t) { *t = (struct timers){0}; }

void timers_free(struct timers *t) {
    free(t->heap);
    timers_init(t);
}

int timers_reserve(struct timers *t, uint32_t count) {
    if (count <= t->capacity) return 0;
    uint32_t capacity = t->capacity < UINT32_MAX / 2 && t->capacity * 2 > count ? t->capacity * 2 : count;
    struct timer_slot *heap = realloc(t->heap, (size_t)capacity * sizeof *heap);
    if (!heap) return -ENOMEM;
    t->heap = heap;
    t->capacity = capacity;
    return 0;
}

static void put(struct timers *t, uint32_t i, struct timer_slot slot) {
    t->heap[i] = slot;
    slot.timer->place = i + 1;
}

/* Puts a slot where it belongs, beginning at the hole i. */
static void sift(struct timers *t, uint32_t i, struct timer_slot slot) {
    while (i) {
        uint32_t parent = (i - 1) / CHILDREN;
        if (t->heap[parent].deadline_ns <= slot.deadline_ns) break;
        put(t, i, t->heap[parent]);
        i = parent;
    }
    for (;;) {
        uint64_t first = (uint64_t)i * CHILDREN + 1, least = first;
        if (first >= t->count) break;
        for (uint64_t c = first + 1; c < first + CHILDREN && c < t->count; c++)
            if (t->heap[c].deadline_ns < t->heap[least].deadline_ns) least = c;
        if (t->heap[least].deadline_ns >= slot.deadline_ns) break;
        put(t, i, t->heap[least]);
        i = (uint32_t)least;
    }
    put(t, i, slot);
}

void timers_add(struct timers *t, struct timer *timer, uint64_t deadline_ns) {
    struct timer_slot slot = {.deadline_ns = deadline_ns, .timer = timer};
    if (timer->place) {
        sift(t, timer->place - 1, slot);
        return;
    }
    assert(t->count < t->capacity);
    t->count++;
    sift(t, t->count - 1, slot);
}

void timers_cancel(struct timers *t, struct timer *timer) {
    if (!timer->place) return;
    uint32_t hole = timer->place - 1;
    timer->place = 0;
    struct timer_slot last = t->heap[--t->count];
    if (hole != t->count) sift(t, hole, last);
}

struct timer *timers_pop_due(struct timers *t, uint64_t now_ns) {
    if (timers_next_deadline(t) > now_ns || !t->count) return NULL;
    struct timer *timer = t->heap[0].timer;
    timers_cancel(t, timer);
    return timer;
}
