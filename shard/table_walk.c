/* Walking a table for a snapshot: segment by segment, in the order in which the slots lie, those that are not marked yet.
 *
 * What lies ahead is prefetched, so that a walk over a table that is larger than the caches is not bound by their misses: an entry's first line while
 * the bucket before the bucket before its own is visited, and what hangs at it (lines behind the first, a blob, a container) one bucket ahead, when
 * that line has arrived. Across the end of a segment it goes on with the next one.
 */
#include "shard/table_internal.h"

/* The bucket that comes `ahead` buckets behind the kth of this segment; next: the segment behind, or NULL. */
static inline const struct bucket *bucket_ahead(const struct segment *s, const struct segment *next, unsigned k) {
    if (k < BUCKETS) return &s->buckets[k];
    return next ? &next->buckets[k - BUCKETS] : NULL;
}

static inline void prefetch_entries(const struct table *t, const struct bucket *b) {
    for (uint32_t m = b->occupied & OCCUPIED; m; m &= m - 1) {
        table_slot slot = b->slots[__builtin_ctz(m)];
        if (!table_is_marked(t, slot)) __builtin_prefetch(table_entry(slot));
    }
}

static inline void prefetch_values(const struct table *t, const struct bucket *b, table_prefetch_value *prefetch) {
    for (uint32_t m = b->occupied & OCCUPIED; m; m &= m - 1) {
        table_slot slot = b->slots[__builtin_ctz(m)];
        if (!table_is_marked(t, slot)) prefetch(table_entry(slot));
    }
}

/* Before bucket k is visited. */
static inline __attribute__((always_inline)) void prefetch_ahead(
    const struct table *t, const struct segment *s, const struct segment *next, unsigned k, const struct table_walk *w) {
    const struct bucket *third = bucket_ahead(s, next, k + 3), *second = bucket_ahead(s, next, k + 2),
                        *first = bucket_ahead(s, next, k + 1);
    if (third) __builtin_prefetch(third);
    if (second) prefetch_entries(t, second);
    if (first && w->ahead == TABLE_AHEAD_VALUES) prefetch_values(t, first, w->prefetch_value);
}

static inline bool visit_unmarked(const struct table *t, struct bucket *b, uint32_t m, const struct table_walk *w) {
    for (; m; m &= m - 1) {
        table_slot *slot = &b->slots[__builtin_ctz(m)];
        if (!table_is_marked(t, *slot) && !w->visit(w->arg, slot)) return false;
    }
    return true;
}

bool table_walk_segment(const struct table *t, struct table_walk *w) {
    table_word word = word_at(t, w->position);
    struct segment *s = word_segment(word);
    uint64_t end = (w->position & ~(span_of(word_depth(word)) - 1)) + span_of(word_depth(word));
    const struct segment *next = end < SPACE ? word_segment(word_at(t, end)) : NULL;
    for (unsigned k = w->bucket; k < BUCKETS; w->bucket = ++k) {
        if (w->ahead != TABLE_AHEAD_NONE) prefetch_ahead(t, s, next, k, w);
        if (!visit_unmarked(t, &s->buckets[k], s->buckets[k].occupied & OCCUPIED, w)) return true;
    }
    for (struct bucket *b = s->stash.chain; b; b = chain_next(b))
        if (!visit_unmarked(t, b, b->occupied, w)) return true;
    w->position = end;
    w->bucket = 0;
    return end < SPACE;
}
