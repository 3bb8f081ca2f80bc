/* How a table changes its shape. Nothing here is needed until a segment is full.
 *
 *   a segment is full    it splits; or, if it may not, an entry goes to its chain:
 *     its depth is the directory's     the directory grows: at once while it is small, else by table_work, and the segment chains meanwhile
 *     its depth is at the limit        its hashes are (nearly) equal: it stays chained
 *   the directory grows  it is copied into a deeper one, in slices; whoever changes a word below resized_to changes the copy too
 *   a sweep              goes once over all segments, in slices: splits those that chained while the directory grew; merges buddies
 *                        when the table became sparse, and in the end halves the directory if nothing needs its depth
 *
 * A split leaves every entry of a regular bucket in its place, in the old segment or at the same place of the new one. So it is a copy of
 * 69 lines and a new occupancy byte for each bucket, and it reads no entry unless the slots' 8 directory bits are used up.
 */
#include "shard/table_internal.h"

#include <assert.h>
#include <errno.h>

#include "shard/memory.h"
#include "shard/power.h"

/* A directory of up to this many words is made at once (a few us). */
#define RESIZE_AT_ONCE 4096u
/* Words copied in a unit of table_work. */
#define RESIZE_UNIT 512u
/* Units of table_work, of 1 us each: looking at a segment and its buddy; splitting; merging; splitting when entries must be read. */
#define COST_LOOK 2u
#define COST_SPLIT 10u
#define COST_MERGE 10u
#define COST_SPLIT_READING 60u

/* Buddies merge if they have this many entries together: a split segment had about 451, so it must fill to the double to split again. A
 * sweep begins when there are fewer than this many a segment, where most buddies can merge. */
#define MERGE_ENTRIES 224u
#define SWEEP_ENTRIES 96u
/* A chained segment with fewer entries than this (its chain not counted) has room for some of the chain's. */
#define SPLIT_ENTRIES 451u

enum { SWEEP_CHAINED = 1, SWEEP_MERGE = 2 };

static inline uint64_t min_u64(uint64_t a, uint64_t b) { return a < b ? a : b; }
static inline unsigned min_depth(uint64_t depth) { return (unsigned)min_u64(depth, HASH_DIRECTORY_BITS); }
static unsigned depth_limit(const struct table *t) { return min_depth(power_log2(t->count / SEGMENT_HALF) + DEPTH_SLACK); }

static bool may_take(const struct table *t, size_t bytes) { return !t->may_grow || t->may_grow(t->owner, bytes); }

static bool granted(struct table *t, size_t bytes) {
    if (may_take(t, bytes)) return true;
    t->withheld++;
    return false;
}

static void growing(const struct table *t, bool ended) {
    if (t->growing) t->growing(t->owner, ended);
}

/* Whose bytes were granted. */
static struct segment *segment_new(struct table *t) {
    struct segment *s = memory_alloc_segment(t->memory, sizeof *s);
    if (!s) t->withheld++;
    return s;
}

int grow_first(struct table *t) {
    struct segment *s = granted(t, sizeof *s) ? segment_new(t) : NULL;
    if (!s) return -ENOMEM;
    table_word *directory = memory_alloc(t->memory, sizeof *directory);
    if (!directory) {
        memory_free_segment(t->memory, s, sizeof *s);
        return -ENOMEM;
    }
    *s = no_segment;
    *directory = make_word(s, 0);
    t->directory = directory;
    t->segments = t->at_depth[0] = 1;
    return 0;
}

/* ---- chains ---- */

static struct bucket *chain_bucket_new(struct table *t) {
    struct bucket *b = may_take(t, sizeof *b) ? memory_alloc(t->memory, sizeof *b) : NULL;
    if (!b) return NULL;
    memset(b, 0, sizeof *b);
    t->chained++;
    return b;
}

static void chain_bucket_free(struct table *t, struct bucket *b) {
    t->chained--;
    memory_free(t->memory, b, sizeof *b);
}

/* Puts the slot into the chain; a bucket for it is taken from *spare if there is no room. False: there was none. */
static bool chain_put(struct segment *s, table_slot slot, uint8_t fingerprint, struct bucket **spare) {
    struct bucket *b = s->stash.chain;
    while (b && b->occupied == (1u << CHAIN_SLOTS) - 1) b = chain_next(b);
    if (!b) {
        b = *spare;
        if (!b) return false;
        *spare = chain_next(b);
        b->occupied = 0;
        set_chain_next(b, s->stash.chain);
        s->stash.chain = b;
    }
    unsigned i = (unsigned)__builtin_ctz(~(unsigned)b->occupied);
    b->fingerprints[i] = fingerprint;
    b->slots[i] = slot;
    b->occupied |= (uint8_t)(1u << i);
    s->buckets[slot_home(slot)].occupied |= ASK_STASH;
    return true;
}

void chain_remove(struct table *t, struct segment *s, struct bucket *b) {
    if (s->stash.chain == b) {
        s->stash.chain = chain_next(b);
    } else {
        struct bucket *before = s->stash.chain;
        while (chain_next(before) != b) before = chain_next(before);
        set_chain_next(before, chain_next(b));
    }
    chain_bucket_free(t, b);
}

/* ---- the directory ---- */

static void set_words(struct table *t, uint64_t position, unsigned depth, table_word w) {
    uint64_t first = position >> (HASH_DIRECTORY_BITS - t->depth), end = first + ((uint64_t)1 << (t->depth - depth));
    for (uint64_t i = first; i < end; i++) t->directory[i] = w;
    if (!t->resized) return;
    end = min_u64(end, t->resized_to);
    if (t->resized_depth > t->depth) {
        unsigned more = t->resized_depth - t->depth;
        for (uint64_t i = first << more; i < end << more; i++) t->resized[i] = w;
    } else {
        unsigned less = t->depth - t->resized_depth;
        for (uint64_t i = first >> less; i < end >> less; i++) t->resized[i] = w;
    }
}

static void directory_free(struct table *t, table_word *directory, unsigned depth) {
    if (directory && directory != no_directory) memory_free(t->memory, directory, sizeof *directory << depth);
}

void resize_cancel(struct table *t) {
    directory_free(t, t->resized, t->resized_depth);
    t->resized = NULL;
    t->grow_due = 0;
}

static bool resize_begin(struct table *t, unsigned depth) {
    size_t bytes = sizeof *t->directory << depth;
    if (depth > t->depth && !granted(t, bytes)) return false;
    t->resized = memory_alloc(t->memory, bytes);
    if (!t->resized) {
        t->withheld++;
        return false;
    }
    t->resized_depth = depth;
    t->resized_to = 0;
    return true;
}

/* Copies up to this many words of the old directory, and changes over when all are copied. True: it has. */
static bool resize_step(struct table *t, uint64_t words) {
    uint64_t size = (uint64_t)1 << t->depth, end = min_u64(size, t->resized_to + words);
    if (t->resized_depth > t->depth) {
        uint64_t copies = (uint64_t)1 << (t->resized_depth - t->depth);
        table_word *to = t->resized + t->resized_to * copies;
        for (uint64_t i = t->resized_to; i < end; i++) {
            for (uint64_t n = copies; n; n--) *to++ = t->directory[i];
        }
    } else {
        unsigned less = t->depth - t->resized_depth;
        end = min_u64(size, (end >> less << less) + ((uint64_t)1 << less));
        for (uint64_t i = t->resized_to; i < end; i += (uint64_t)1 << less) t->resized[i >> less] = t->directory[i];
    }
    t->resized_to = end;
    if (end < size) return false;
    directory_free(t, t->directory, t->depth);
    t->directory = t->resized;
    t->depth = t->resized_depth;
    t->resized = NULL;
    t->grow_due = 0;
    return true;
}

static void sweep_begin(struct table *t, uint32_t what) {
    t->sweep |= what;
    t->swept = 0;
}

/* A word for each segment that the entries fill, but more words than now. */
static unsigned next_depth(const struct table *t) {
    unsigned fitting = power_log2(power_next((t->count + SPLIT_ENTRIES - 1) / SPLIT_ENTRIES));
    return min_depth(fitting > t->depth ? fitting : t->depth + 1);
}

/* A segment of the directory's depth wants to split. True: the directory is deeper now. */
static bool directory_grow(struct table *t) {
    if (t->resized) return false;
    unsigned depth = next_depth(t);
    t->grow_due = 1;
    if ((uint64_t)1 << depth > RESIZE_AT_ONCE || !resize_begin(t, depth)) return false;
    growing(t, false);
    resize_step(t, UINT64_MAX / 2);
    growing(t, true);
    if (t->chained) sweep_begin(t, SWEEP_CHAINED);
    return true;
}

/* Whether a full segment of this depth may split now. */
static bool may_split(struct table *t, unsigned depth) {
    if (depth >= depth_limit(t)) return false;
    if (t->resized && t->resized_depth <= depth) resize_cancel(t); /* a halving: not any more */
    return depth < t->depth || directory_grow(t);
}

/* ---- splitting ---- */

/* Buckets, and so about 3 entries each, between the prefetch of an entry and its reading. */
#define AHEAD 4u

/* Gives all slots the 8 directory bits of this depth, which is a multiple of 8: the one moment at which entries are read. */
static void renew_bits(const struct table *t, struct segment *s, unsigned depth) {
    for (unsigned k = 0; k < BUCKETS; k++) {
        if (k + AHEAD < BUCKETS) {
            const struct bucket *ahead = &s->buckets[k + AHEAD];
            for (uint32_t m = ahead->occupied & OCCUPIED; m; m &= m - 1) __builtin_prefetch(table_entry(ahead->slots[__builtin_ctz(m)]));
        }
        struct bucket *b = &s->buckets[k];
        for (uint32_t m = b->occupied & OCCUPIED; m; m &= m - 1) {
            table_slot *slot = &b->slots[__builtin_ctz(m)];
            *slot = (*slot & ~SLOT_BITS) | slot_bits(t->hash(t->hash_arg, table_entry(*slot)), depth);
        }
    }
}

/* Frees index lines of stash slots that are free, moves stashed entries to regular buckets where there is room again, and asks for the
 * others. Nothing asked before. */
static void settle(struct segment *s) {
    for (unsigned i = 0; i < STASH_SLOTS; i++) {
        struct bucket *b = &s->buckets[REGULAR + i / SLOTS];
        unsigned bit = 1u << i % SLOTS;
        table_slot slot = b->slots[i % SLOTS];
        if (b->occupied & bit) {
            if (!place_regular(s, slot, b->fingerprints[i % SLOTS])) {
                s->buckets[slot_home(slot)].occupied |= ASK_STASH;
                continue;
            }
            b->occupied &= (uint8_t)~bit;
        }
        s->stash.homes[i] = NO_HOME;
    }
}

/* Hands the entries of a chain that was taken off its segment to the segment, or to the two that it was split into at this depth. The
 * chain's own buckets suffice: two segments have 28 more stash slots than one, so before both need chains they have taken in that many. */
static void place_chain(struct table *t, struct bucket *chain, struct segment *side[2], unsigned depth) {
    bool renew = side[0] != side[1] && !((depth + 1) & 7);
    struct bucket *spare = NULL;
    while (chain) {
        struct bucket from = *chain;
        set_chain_next(chain, spare);
        spare = chain;
        chain = chain_next(&from);
        for (uint32_t m = from.occupied; m; m &= m - 1) {
            unsigned i = (unsigned)__builtin_ctz(m);
            table_slot slot = from.slots[i];
            struct segment *s = side[slot_side(slot, depth)];
            if (renew) slot = (slot & ~SLOT_BITS) | slot_bits(t->hash(t->hash_arg, table_entry(slot)), depth + 1);
            if (place(s, slot, from.fingerprints[i])) continue;
            bool chained = chain_put(s, slot, from.fingerprints[i], &spare);
            assert(chained);
            (void)chained;
        }
    }
    while (spare) {
        struct bucket *b = spare;
        spare = chain_next(b);
        chain_bucket_free(t, b);
    }
}

/* Moves chained entries back to where there is room again. */
static void absorb_chain(struct table *t, struct segment *s, unsigned depth) {
    struct bucket *chain = s->stash.chain;
    s->stash.chain = NULL;
    for (unsigned k = 0; k < REGULAR; k++) s->buckets[k].occupied &= OCCUPIED;
    settle(s);
    place_chain(t, chain, (struct segment *[2]){s, s}, depth);
}

/* Splits the segment at a position. 0 or -ENOMEM. Needs depth < t->depth, and that the new one's bytes were granted. */
static int split_granted(struct table *t, uint64_t position) {
    table_word w = word_at(t, position);
    unsigned depth = word_depth(w);
    struct segment *side[2] = {word_segment(w), segment_new(t)};
    if (!side[1]) return -ENOMEM;
    struct bucket *chain = side[0]->stash.chain;
    side[0]->stash.chain = NULL;
    memcpy(side[1], side[0], sizeof *side[1]);
    for (unsigned k = 0; k < BUCKETS; k++) {
        struct bucket *b = &side[0]->buckets[k];
        unsigned ones = 0;
        for (unsigned i = 0; i < SLOTS; i++) ones |= slot_side(b->slots[i], depth) << i;
        side[1]->buckets[k].occupied = (uint8_t)(b->occupied & OCCUPIED & ones);
        b->occupied &= (uint8_t)(OCCUPIED & ~ones);
    }
    for (unsigned i = 0; i < 2; i++) {
        if (!((depth + 1) & 7)) renew_bits(t, side[i], depth + 1);
        settle(side[i]);
    }
    place_chain(t, chain, side, depth);
    position &= ~(span_of(depth) - 1);
    set_words(t, position, depth + 1, make_word(side[0], depth + 1));
    set_words(t, position + span_of(depth + 1), depth + 1, make_word(side[1], depth + 1));
    t->at_depth[depth]--;
    t->at_depth[depth + 1] += 2;
    t->segments++;
    t->splits++;
    if (t->merge_below < t->count - t->count / 8) t->merge_below = t->count - t->count / 8;
    return 0;
}

static int split(struct table *t, uint64_t position) { return granted(t, sizeof(struct segment)) ? split_granted(t, position) : -ENOMEM; }

/* Within an insert. What is refused is no step: it may be asked for with every key. */
static int split_timed(struct table *t, uint64_t position) {
    if (!granted(t, sizeof(struct segment))) return -ENOMEM;
    growing(t, false);
    int rc = split_granted(t, position);
    growing(t, true);
    return rc;
}

int grow_full(struct table *t, uint64_t hash, struct entry *e) {
    table_word w = find_word(t, hash);
    if (may_split(t, word_depth(w))) return split_timed(t, hash_directory(hash, HASH_DIRECTORY_BITS));
    table_slot slot = slot_tag(hash, word_depth(w)) | t->mark | (uintptr_t)e;
    struct bucket *spare = NULL;
    if (chain_put(word_segment(w), slot, hash_fingerprint(hash), &spare)) return 1;
    if (!(spare = chain_bucket_new(t))) return -ENOMEM;
    chain_put(word_segment(w), slot, hash_fingerprint(hash), &spare);
    return 1;
}

/* ---- merging ---- */

static unsigned segment_entries(const struct segment *s) {
    unsigned n = 0;
    for (unsigned k = 0; k < BUCKETS; k++) n += (unsigned)__builtin_popcount(s->buckets[k].occupied & OCCUPIED);
    return n;
}

/* Merges the two halves (of this depth + 1) of a range of directory space. False, and nothing changed: the entries have no room. */
static bool merge(struct table *t, uint64_t position, unsigned depth) {
    struct segment *low = word_segment(word_at(t, position)), *high = word_segment(word_at(t, position + span_of(depth + 1)));
    struct segment before = *low;
    bool renew = !((depth + 1) & 7);
    /* The directory bits of the window before are those that led to the halves. */
    uint64_t bits = (position >> (HASH_DIRECTORY_BITS - depth - 1)) << SLOT_BITS_SHIFT;
    for (unsigned k = 0; renew && k < BUCKETS; k++) {
        for (unsigned i = 0; i < SLOTS; i++) low->buckets[k].slots[i] = (low->buckets[k].slots[i] & ~SLOT_BITS) | bits;
    }
    bits |= 1ull << SLOT_BITS_SHIFT;
    for (unsigned k = 0; k < BUCKETS; k++) {
        const struct bucket *b = &high->buckets[k];
        for (uint32_t m = b->occupied & OCCUPIED; m; m &= m - 1) {
            unsigned i = (unsigned)__builtin_ctz(m);
            table_slot slot = b->slots[i] & ~SLOT_NEIGHBOUR;
            if (renew) slot = (slot & ~SLOT_BITS) | bits;
            if (!place(low, slot, b->fingerprints[i])) {
                *low = before;
                return false;
            }
        }
    }
    memory_free_segment(t->memory, high, sizeof *high);
    set_words(t, position, depth, make_word(low, depth));
    t->at_depth[depth + 1] -= 2;
    t->at_depth[depth]++;
    t->segments--;
    t->merges++;
    return true;
}

/* ---- the table's own work ---- */

/* One segment of the sweep. Returns what it cost. */
static unsigned sweep_step(struct table *t) {
    uint64_t position = t->swept;
    table_word w = word_at(t, position);
    struct segment *s = word_segment(w);
    unsigned depth = word_depth(w);
    if (s->stash.chain && segment_entries(s) < SPLIT_ENTRIES) absorb_chain(t, s, depth);
    if (s->stash.chain && may_split(t, depth)) {
        if (!split(t, position)) return (depth + 1) & 7 ? COST_SPLIT : COST_SPLIT_READING;
    } else if (t->sweep & SWEEP_MERGE && depth) {
        uint64_t parent = position & ~(span_of(depth - 1) - 1);
        table_word buddy = word_at(t, position ^ span_of(depth));
        if (word_depth(buddy) == depth && !s->stash.chain && !word_segment(buddy)->stash.chain &&
            segment_entries(s) + segment_entries(word_segment(buddy)) <= MERGE_ENTRIES && merge(t, parent, depth - 1)) {
            t->swept = parent; /* and look at what they became */
            return COST_MERGE;
        }
    }
    t->swept = position + span_of(depth);
    return COST_LOOK;
}

static void sweep_end(struct table *t) {
    bool merged = t->sweep & SWEEP_MERGE;
    t->sweep = 0;
    if (!merged) return;
    unsigned deepest = t->depth;
    while (!t->at_depth[deepest]) deepest--;
    if (deepest < t->depth && !t->resized && !t->grow_due) resize_begin(t, deepest);
}

bool table_work(struct table *t, unsigned budget) {
    bool refused = false;
    for (unsigned spent = 0; spent < budget;) {
        if (t->resized) {
            bool grows = t->resized_depth > t->depth;
            if (resize_step(t, RESIZE_UNIT) && grows && t->chained) sweep_begin(t, SWEEP_CHAINED);
            spent++;
        } else if (t->grow_due && !t->chained) {
            t->grow_due = 0;
        } else if (t->grow_due && !refused) {
            refused = !resize_begin(t, next_depth(t));
            spent++;
        } else if (t->sweep) {
            if (t->swept >= SPACE) sweep_end(t);
            else spent += sweep_step(t);
        } else if (t->count < t->merge_below && t->count < t->segments * SWEEP_ENTRIES && t->segments > 1) {
            t->merge_below = t->count - t->count / 8; /* of now: what goes while it sweeps may call for another */
            sweep_begin(t, SWEEP_MERGE);
        } else {
            return false;
        }
    }
    return true;
}
