#include "shard/buckets.h"

#include <string.h>

#include "shard/memory.h"

#define HEADS_MIN 16u

/* Bits of a hash that neither the shard's choice nor the table's segments depend on much, spread. */
static inline uint32_t mix(uint64_t hash) { return (uint32_t)(hash * 0x9e3779b97f4a7c15u >> 32); }

/* The largest power of two that is not above the number of buckets. */
static inline uint32_t round_of(const struct buckets *t) { return 1u << (31 - __builtin_clz(t->n_heads)); }

static inline struct bucket_record **head_of(const struct buckets *t, uint64_t hash) {
    uint32_t round = round_of(t), i = mix(hash) & (2 * round - 1);
    return &t->heads[i < t->n_heads ? i : i - round];
}

struct bucket_record *buckets_first(const struct buckets *t, uint64_t hash) {
    return t->n ? *head_of(t, hash) : NULL;
}

static void link_in(struct buckets *t, struct bucket_record *r) {
    struct bucket_record **head = head_of(t, r->hash);
    r->previous = NULL;
    r->next = *head;
    if (r->next) r->next->previous = r;
    *head = r;
}

/* Room in the array for one more bucket. */
static bool make_room(struct buckets *t, struct memory *m) {
    if (t->n_heads < t->capacity) return true;
    uint32_t capacity = t->capacity ? 2 * t->capacity : HEADS_MIN;
    struct bucket_record **more = memory_alloc(m, capacity * sizeof *more);
    if (!more) return false;
    if (t->n_heads) memcpy(more, t->heads, t->n_heads * sizeof *more);
    if (t->heads) memory_free(m, t->heads, t->capacity * sizeof *more);
    t->heads = more;
    t->capacity = capacity;
    return true;
}

static bool begin(struct buckets *t, struct memory *m) {
    if (t->n_heads) return true;
    if (!make_room(t, m)) return false;
    memset(t->heads, 0, HEADS_MIN * sizeof *t->heads);
    t->n_heads = HEADS_MIN;
    return true;
}

/* One more bucket, with those records of the one it splits from that belong there. If memory is refused the lists get longer. */
static void split_one(struct buckets *t, struct memory *m) {
    if (!make_room(t, m)) return;
    struct bucket_record **from = &t->heads[t->n_heads - round_of(t)], *r = *from, *next;
    *from = NULL;
    t->heads[t->n_heads++] = NULL;
    for (; r; r = next) {
        next = r->next;
        link_in(t, r);
    }
}

bool buckets_add(struct buckets *t, struct memory *m, struct bucket_record *r) {
    if (!begin(t, m)) return false;
    link_in(t, r);
    if (++t->n > t->n_heads) split_one(t, m);
    return true;
}

void buckets_remove(struct buckets *t, struct memory *m, struct bucket_record *r) {
    if (r->next) r->next->previous = r->previous;
    if (r->previous) r->previous->next = r->next;
    else *head_of(t, r->hash) = r->next;
    if (!--t->n) buckets_drop(t, m);
}

void buckets_drop(struct buckets *t, struct memory *m) {
    if (t->heads) memory_free(m, t->heads, t->capacity * sizeof *t->heads);
    *t = (struct buckets){0};
}
