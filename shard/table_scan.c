/* Walking a table: scan, match, random, dismantle.
 *
 * Why a scan misses nothing. The position of an entry is its home (6 bits) followed by the 36 directory bits of its hash: a fixed function
 * of the hash, which no insert, displacement, split, merge or resizing changes. A call with cursor (h, p) finds the one segment whose
 * range [low, high) of directory space contains p. It visits every entry of that segment with home h, that is, every entry
 * whose position lies between (h, low) and (h, high), and returns (h, high), or (h + 1, 0) if high is the end of the space. So the
 * call has visited everything that is there between its cursor and the one it returns, and the next call goes on from there:
 * the ranges of the calls of a walk cover all positions from 0 to the end without a gap. An entry that is there all the time is
 * there when its position is covered. It is visited twice only if low < p, that is, if its segment was merged between two calls.
 *
 * Had the directory bits come first (one segment after the other, the natural order), a cursor within a segment would mean "homes
 * below h of this segment are done", and merging it with its buddy would make that untrue for the buddy's entries.
 *
 * A walk makes 64 calls for a segment, each O(its bucket): O(entries + segments) in all, and segments are kept in
 * proportion to entries by merging.
 */
#include "shard/table_internal.h"

#include "shard/memory.h"

/* Calls visit for the slots of a bucket that are set in m. */
static inline void visit_slots(struct bucket *b, uint32_t m, uint64_t position, unsigned depth, table_visit *visit, void *arg) {
    for (; m; m &= m - 1) {
        unsigned i = (unsigned)__builtin_ctz(m);
        visit(arg, known_hash(position, depth, b->slots[i], b->fingerprints[i]), &b->slots[i]);
    }
}

/* Those slots of m whose NEIGHBOUR bit is this. */
static inline uint32_t with_membership(const struct bucket *b, uint32_t m, uint64_t neighbour) {
    uint32_t kept = 0;
    for (; m; m &= m - 1) {
        unsigned i = (unsigned)__builtin_ctz(m);
        if ((b->slots[i] & SLOT_NEIGHBOUR) == neighbour) kept |= 1u << i;
    }
    return kept;
}

static uint32_t with_home(const struct bucket *b, uint32_t m, unsigned home) {
    uint32_t kept = 0;
    for (; m; m &= m - 1) {
        unsigned i = (unsigned)__builtin_ctz(m);
        if (slot_home(b->slots[i]) == home) kept |= 1u << i;
    }
    return kept;
}

uint64_t table_scan(const struct table *t, uint64_t cursor, table_visit *visit, void *arg) {
    unsigned home = (unsigned)(cursor >> HASH_DIRECTORY_BITS) & (REGULAR - 1);
    uint64_t position = cursor & (SPACE - 1);
    table_word w = word_at(t, position);
    unsigned depth = word_depth(w);
    struct segment *s = word_segment(w);
    struct bucket *b = &s->buckets[home], *next = &s->buckets[next_home(home)];
    visit_slots(b, with_membership(b, b->occupied & OCCUPIED, 0), position, depth, visit, arg);
    visit_slots(next, with_membership(next, next->occupied & OCCUPIED, SLOT_NEIGHBOUR), position, depth, visit, arg);
    if (unlikely(b->occupied & ASK_STASH)) {
        for (uint32_t m = match_homes(&s->stash, (uint8_t)home); m; m &= m - 1) {
            unsigned i = (unsigned)__builtin_ctz(m);
            visit_slots(&s->buckets[REGULAR + i / SLOTS], 1u << i % SLOTS, position, depth, visit, arg);
        }
        for (struct bucket *c = s->stash.chain; c; c = chain_next(c)) {
            visit_slots(c, with_home(c, c->occupied, home), position, depth, visit, arg);
        }
    }
    uint64_t end = (position & ~(span_of(depth) - 1)) + span_of(depth);
    if (end < SPACE) return (uint64_t)home << HASH_DIRECTORY_BITS | end;
    return home + 1 < REGULAR ? (uint64_t)(home + 1) << HASH_DIRECTORY_BITS : 0;
}

void table_prefetch_scan(const struct table *t, uint64_t cursor, bool entries) {
    unsigned home = (unsigned)(cursor >> HASH_DIRECTORY_BITS) & (REGULAR - 1);
    const struct segment *s = word_segment(word_at(t, cursor & (SPACE - 1)));
    const struct bucket *b = &s->buckets[home], *next = &s->buckets[next_home(home)];
    if (!entries) {
        __builtin_prefetch(b);
        __builtin_prefetch(next);
        return;
    }
    for (uint32_t m = with_membership(b, b->occupied & OCCUPIED, 0); m; m &= m - 1) {
        __builtin_prefetch(table_entry(b->slots[__builtin_ctz(m)]));
    }
    for (uint32_t m = with_membership(next, next->occupied & OCCUPIED, SLOT_NEIGHBOUR); m; m &= m - 1) {
        __builtin_prefetch(table_entry(next->slots[__builtin_ctz(m)]));
    }
    if (b->occupied & ASK_STASH) __builtin_prefetch(&s->stash);
}

void table_match(const struct table *t, uint64_t hash, table_visit *visit, void *arg) {
    table_word w = find_word(t, hash);
    struct segment *s = word_segment(w);
    unsigned depth = word_depth(w), home = hash_home(hash);
    uint64_t position = hash_directory(hash, HASH_DIRECTORY_BITS);
    uint8_t fingerprint = hash_fingerprint(hash);
    for (uint32_t m = match_home(s, hash); m; m &= m - 1) {
        unsigned i = (unsigned)__builtin_ctz(m);
        table_slot *slot = slot_near(s, hash, i);
        if (tag_agrees(*slot, hash, depth, i)) visit(arg, known_hash(position, depth, *slot, fingerprint), slot);
    }
    if (!(s->buckets[home].occupied & ASK_STASH)) return;
    for (uint32_t m = match_stash(&s->stash, fingerprint, home); m; m &= m - 1) {
        unsigned i = (unsigned)__builtin_ctz(m);
        struct bucket *b = &s->buckets[REGULAR + i / SLOTS];
        if (tag_agrees(b->slots[i % SLOTS], hash, depth, 0)) visit_slots(b, 1u << i % SLOTS, position, depth, visit, arg);
    }
    for (struct bucket *b = s->stash.chain; b; b = chain_next(b)) {
        for (uint32_t m = match_bytes(bucket_head(b), 0, fingerprint) & b->occupied; m; m &= m - 1) {
            unsigned i = (unsigned)__builtin_ctz(m);
            if (tag_agrees(b->slots[i], hash, depth, 0)) visit_slots(b, 1u << i, position, depth, visit, arg);
        }
    }
}

/* ---- random ---- */

/* Slot number i of a segment, the chain's behind the others. NULL: not in use. */
static table_slot *slot_number(struct segment *s, uint64_t i) {
    struct bucket *b = &s->buckets[i / SLOTS % BUCKETS];
    unsigned at = (unsigned)(i % SLOTS);
    if (i >= BUCKETS * SLOTS) {
        i -= BUCKETS * SLOTS;
        at = (unsigned)(i % CHAIN_SLOTS);
        b = s->stash.chain;
        for (i /= CHAIN_SLOTS; i; i--) b = chain_next(b);
    }
    return b->occupied & OCCUPIED & 1u << at ? &b->slots[at] : NULL;
}

static uint64_t slot_numbers(const struct segment *s) {
    uint64_t n = BUCKETS * SLOTS;
    for (const struct bucket *b = s->stash.chain; b; b = chain_next(b)) n += CHAIN_SLOTS;
    return n;
}

/* A random slot of a random segment, taken if it is in use. Segments of less depth have more words and count only by the first of them, so
 * that all are equally likely; then all slots are (but those of chained segments, which have more). */
#define RANDOM_TRIES 256u

table_slot *table_random(const struct table *t, uint64_t (*next)(void *), void *arg) {
    if (!t->count) return NULL;
    uint64_t position = 0;
    for (unsigned tries = 0; tries < RANDOM_TRIES; tries++) {
        uint64_t random = next(arg);
        position = random >> (64 - HASH_DIRECTORY_BITS);
        position -= position & (span_of(t->depth) - 1);
        table_word w = word_at(t, position);
        if (position & (span_of(word_depth(w)) - 1)) continue;
        struct segment *s = word_segment(w);
        table_slot *slot = slot_number(s, (random & 0xfffffff) * slot_numbers(s) >> 28);
        if (slot) return slot;
    }
    /* A sparse table: the first entry from there on. */
    for (;; position &= SPACE - 1) {
        table_word w = word_at(t, position);
        struct segment *s = word_segment(w);
        uint64_t n = slot_numbers(s), from = next(arg) % n;
        for (uint64_t i = 0; i < n; i++) {
            table_slot *slot = slot_number(s, (from + i) % n);
            if (slot) return slot;
        }
        position = (position & ~(span_of(word_depth(w)) - 1)) + span_of(word_depth(w));
    }
}

/* ---- dismantling ---- */

bool table_dismantle(struct table *t, table_visit *visit, void *arg) {
    if (!t->segments) return false;
    if (t->resized) resize_cancel(t);
    table_word w = word_at(t, t->dismantled);
    unsigned depth = word_depth(w);
    struct segment *s = word_segment(w);
    for (unsigned k = 0; k < BUCKETS; k++) {
        struct bucket *b = &s->buckets[k];
        uint32_t m = b->occupied & OCCUPIED;
        t->count -= (unsigned)__builtin_popcount(m);
        if (visit) visit_slots(b, m, t->dismantled, depth, visit, arg);
    }
    while (s->stash.chain) {
        struct bucket *b = s->stash.chain;
        t->count -= (unsigned)__builtin_popcount(b->occupied);
        if (visit) visit_slots(b, b->occupied, t->dismantled, depth, visit, arg);
        chain_remove(t, s, b);
    }
    memory_free_segment(t->memory, s, sizeof *s);
    t->dismantled += span_of(depth);
    if (--t->segments) return true;
    memory_free(t->memory, t->directory, sizeof *t->directory << t->depth);
    struct table empty;
    table_init(&empty, t->memory, t->hash, t->hash_arg);
    empty.may_grow = t->may_grow;
    empty.growing = t->growing;
    empty.owner = t->owner;
    empty.mark = t->mark;
    *t = empty;
    return false;
}

void table_drop(struct table *t) {
    while (table_dismantle(t, NULL, NULL)) {}
}
