/* The timing wheel: see wheel.h for its layout.
 *
 * A unit of level l is 256^l ticks. Where position is in unit p of a level, the level's slots hold the units p + 1 to p + 255, each in slot
 * (unit mod 256): the slot of the unit p itself is always empty, so a slot's unit is known from its index. When the clock goes back, a slot
 * may be taken for an earlier unit than it was filled for; its records then come early, which is always allowed.
 *
 *   wheel_add, wheel_take_due, wheel_next_due, wheel_drop_some
 *   rings of chunks: push, pop, splice
 *   the clock: advance, go_back
 *   dealing out the slots of higher levels: deal
 */
#include "shard/wheel.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "shard/memory.h"

#define TICK_SHIFT 4
#define LEVEL_SHIFT 8
#define SLOT_MASK (WHEEL_SLOTS - 1)
#define OWN_SHIFT 14
#define CHUNK_RECORDS 63u
/* Records that one wheel_take_due deals out to lower levels at most: about 10 ns each. */
#define DEAL_MAX 1024u

_Static_assert(WHEEL_TICK_MS == 1 << TICK_SHIFT, "ticks are shifts");
_Static_assert(WHEEL_SLOTS == 1 << LEVEL_SHIFT, "slots are shifts");
_Static_assert(WHEEL_OWN_BITS == (uint64_t)SLOT_MASK << OWN_SHIFT, "one level's digit of the time");

struct wheel_chunk {
    uint64_t next : 48, capacity : 8, count : 8;
    uint64_t records[];
};
_Static_assert(sizeof(struct wheel_chunk) == 8, "a chunk's header is one word");

static struct wheel_chunk *next_of(const struct wheel_chunk *c) { return (struct wheel_chunk *)(uintptr_t)c->next; }
static void link_to(struct wheel_chunk *c, struct wheel_chunk *next) { c->next = (uintptr_t)next & 0xffffffffffffull; }
static size_t chunk_size(unsigned capacity) { return 8u * (capacity + 1u); }
static void chunk_free(struct wheel *w, struct wheel_chunk *c) { memory_free(w->memory, c, chunk_size(c->capacity)); }

/* The unit of a level in which a tick lies. Ticks before 1970 are negative: shifts round down. */
static int64_t unit_of(int64_t tick, unsigned level) { return tick >> (LEVEL_SHIFT * level); }
static unsigned slot_of(int64_t unit) { return (unsigned)unit & SLOT_MASK; }

static void mark_used(struct wheel *w, unsigned level, unsigned slot) { w->used[level][slot / 64] |= 1ull << slot % 64; }
static void mark_free(struct wheel *w, unsigned level, unsigned slot) { w->used[level][slot / 64] &= ~(1ull << slot % 64); }

/* How many slots lie from a slot on (with it, round the ring) before the next one in use; span if the next span slots are free. */
static unsigned free_run(const uint64_t *used, unsigned from, unsigned span) {
    for (unsigned skipped = 0; skipped < span;) {
        unsigned at = (from + skipped) & SLOT_MASK;
        uint64_t word = used[at / 64] >> at % 64;
        if (word) {
            skipped += (unsigned)__builtin_ctzll(word);
            return skipped < span ? skipped : span;
        }
        skipped += 64 - at % 64;
    }
    return span;
}

/* Makes room for a record in a ring whose filling chunk is full: a lone small chunk is replaced, else one is added. */
static int grow(struct wheel *w, struct wheel_chunk **ring) {
    struct wheel_chunk *c = *ring;
    bool replace = c && next_of(c) == c && c->capacity < CHUNK_RECORDS;
    unsigned capacity = !c ? 1 : replace ? c->capacity * 2u + 1u : CHUNK_RECORDS;
    struct wheel_chunk *n = memory_alloc(w->memory, chunk_size(capacity));
    if (!n) return -ENOMEM;
    n->capacity = (uint8_t)capacity;
    n->count = 0;
    if (replace) {
        n->count = c->count;
        memcpy(n->records, c->records, c->count * sizeof n->records[0]);
        link_to(n, n);
        chunk_free(w, c);
    } else {
        link_to(n, c ? next_of(c) : n);
        if (c) link_to(c, n);
    }
    *ring = n;
    return 0;
}

static inline int push(struct wheel *w, struct wheel_chunk **ring, uint64_t record) {
    if (!*ring || (*ring)->count == (*ring)->capacity) {
        int err = grow(w, ring);
        if (err) return err;
    }
    struct wheel_chunk *c = *ring;
    c->records[c->count++] = record;
    return 0;
}

/* Takes a record out of the oldest chunk of a ring, which is not empty. */
static inline uint64_t pop(struct wheel *w, struct wheel_chunk **ring) {
    struct wheel_chunk *oldest = next_of(*ring);
    uint64_t record = oldest->records[--oldest->count];
    if (!oldest->count) {
        if (oldest == *ring) *ring = NULL;
        else link_to(*ring, next_of(oldest));
        chunk_free(w, oldest);
    }
    return record;
}

/* Puts the chunks of one ring behind those of another. */
static void splice(struct wheel_chunk **to, struct wheel_chunk **from) {
    struct wheel_chunk *a = *to, *b = *from;
    *from = NULL;
    if (!b) return;
    if (a) {
        struct wheel_chunk *first = next_of(a);
        link_to(a, next_of(b));
        link_to(b, first);
    }
    *to = b;
}

/* Puts a record into the slot of a tick after position. */
static int put(struct wheel *w, int64_t tick, uint64_t record) {
    unsigned level = 0;
    while (level < WHEEL_LEVELS && unit_of(tick, level) - unit_of(w->position, level) >= WHEEL_SLOTS) level++;
    if (level == WHEEL_LEVELS) {
        level = WHEEL_LEVELS - 1;
        tick = (unit_of(w->position, level) + WHEEL_SLOTS - 1) * ((int64_t)1 << LEVEL_SHIFT * level);
    }
    record &= ~WHEEL_OWN_BITS;
    if (level) record |= (uint64_t)slot_of(unit_of(tick, level - 1)) << OWN_SHIFT;
    unsigned slot = slot_of(unit_of(tick, level));
    int err = push(w, &w->slots[level][slot], record);
    if (!err) mark_used(w, level, slot);
    return err;
}

static void take_slot(struct wheel *w, unsigned level, unsigned slot, struct wheel_chunk **to) {
    splice(to, &w->slots[level][slot]);
    mark_free(w, level, slot);
}

/* The clock went back: what is due may not be any more, which the caller finds out. */
static void go_back(struct wheel *w, int64_t tick) {
    for (unsigned level = 0; level < WHEEL_LEVELS && unit_of(w->position, level) != unit_of(tick, level); level++) {
        splice(&w->due, &w->opened[level]);
        take_slot(w, level, slot_of(unit_of(tick, level)), &w->due);
    }
    w->position = tick;
}

/* The clock went on: the slots that it passed are due as a whole; of the higher levels, the one it is in now is opened. */
static void advance(struct wheel *w, int64_t tick) {
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        int64_t from = unit_of(w->position, level), to = unit_of(tick, level);
        if (from == to) break;
        splice(&w->due, &w->opened[level]);
        unsigned span = to - from < WHEEL_SLOTS ? (unsigned)(to - from) : WHEEL_SLOTS;
        for (unsigned at = 0; (at += free_run(w->used[level], slot_of(from + 1 + at), span - at)) < span; at++) {
            bool inside = level && from + 1 + at == to;
            take_slot(w, level, slot_of(from + 1 + at), inside ? &w->opened[level] : &w->due);
        }
    }
    w->position = tick;
}

/* Moves one record of an opened slot to where its time says. False: it is due, or nobody knows better: it is in *record. */
static bool deal(struct wheel *w, unsigned level, uint64_t *record) {
    *record = pop(w, &w->opened[level]);
    unsigned digit = (unsigned)((*record & WHEEL_OWN_BITS) >> OWN_SHIFT);
    int64_t unit = unit_of(w->position, level - 1);
    unit += (int64_t)digit - slot_of(unit);
    int64_t tick = unit * ((int64_t)1 << LEVEL_SHIFT * (level - 1));
    return digit && tick > w->position && !put(w, tick, *record);
}

void wheel_init(struct wheel *w, struct memory *memory, int64_t now_ms) {
    memset(w, 0, sizeof *w);
    w->memory = memory;
    w->position = now_ms >> TICK_SHIFT;
}

int wheel_add(struct wheel *w, int64_t due_ms, uint64_t record) {
    int64_t tick = (due_ms >> TICK_SHIFT) + 1;
    int err = tick <= w->position ? push(w, &w->due, record) : put(w, tick, record);
    if (!err) w->records++;
    return err;
}

size_t wheel_take_due(struct wheel *w, int64_t now_ms, uint64_t *out, size_t max) {
    int64_t tick = now_ms >> TICK_SHIFT;
    if (tick < w->position) go_back(w, tick);
    else if (tick > w->position) advance(w, tick);

    size_t n = 0;
    for (unsigned dealt = 0; n < max;) {
        if (w->due) {
            out[n++] = pop(w, &w->due) & ~WHEEL_OWN_BITS;
            continue;
        }
        unsigned level = 1;
        while (level < WHEEL_LEVELS && !w->opened[level]) level++;
        if (level == WHEEL_LEVELS || dealt++ == DEAL_MAX) break;
        uint64_t record;
        if (!deal(w, level, &record)) out[n++] = record & ~WHEEL_OWN_BITS;
    }
    assert(n <= w->records);
    w->records -= n;
    return n;
}

int64_t wheel_next_due(const struct wheel *w) {
    if (!w->records) return INT64_MAX;
    int64_t next = INT64_MAX >> TICK_SHIFT;
    if (w->due) next = w->position;
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        if (w->opened[level]) next = w->position;
        int64_t unit = unit_of(w->position, level) + 1;
        unsigned run = free_run(w->used[level], slot_of(unit), WHEEL_SLOTS - 1);
        if (run == WHEEL_SLOTS - 1) continue;
        int64_t tick = (unit + run) * ((int64_t)1 << LEVEL_SHIFT * level);
        if (tick < next) next = tick;
    }
    return next * WHEEL_TICK_MS;
}

/* Frees chunks of a ring while there is a budget. */
static void free_ring(struct wheel *w, struct wheel_chunk **ring, size_t *budget) {
    while (*ring && *budget) {
        struct wheel_chunk *oldest = next_of(*ring);
        w->records -= oldest->count;
        if (oldest == *ring) *ring = NULL;
        else link_to(*ring, next_of(oldest));
        chunk_free(w, oldest);
        --*budget;
    }
}

bool wheel_drop_some(struct wheel *w, size_t max) {
    free_ring(w, &w->due, &max);
    for (unsigned level = 0; level < WHEEL_LEVELS; level++) {
        free_ring(w, &w->opened[level], &max);
        for (unsigned at = 0; max && (at += free_run(w->used[level], at, WHEEL_SLOTS - at)) < WHEEL_SLOTS;) {
            free_ring(w, &w->slots[level][at], &max);
            if (!w->slots[level][at]) mark_free(w, level, at);
        }
    }
    return w->records > 0;
}

void wheel_drop(struct wheel *w) {
    while (wheel_drop_some(w, SIZE_MAX)) {}
}
