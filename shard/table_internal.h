/* What the files of the table share, and nobody else includes: the layout of a segment and the small steps on it.
 *
 *   table.c        finding, inserting, removing, prefetching
 *   table_grow.c   splitting, chaining, merging; doubling and halving the directory; the table's own work
 *   table_scan.c   walking: scan, match, random, dismantle
 *   table_walk.c   walking for a snapshot
 *   table_check.c  statistics and the check of all invariants
 *
 * A directory word is a segment's address with its depth in the low 6 bits (segments are 64-byte aligned): an insert needs the depth
 * for the slot's directory bits, and would otherwise read one more line of the segment. A segment of depth d has 2^(table's depth - d)
 * adjacent words, all alike.
 *
 *   segment (69 lines):  | 64 regular buckets | 4 stash buckets | stash: 28 fingerprints, 28 homes, the chain |
 *   chain bucket:        | as any bucket, but the seventh slot leads to the next chain bucket                 |
 */
#ifndef SHARD_TABLE_INTERNAL_H
#define SHARD_TABLE_INTERNAL_H

#include <string.h>

#include "shard/table.h"
#include "shard/table_match.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define SLOTS 7u
#define REGULAR 64u
#define STASH 4u
#define BUCKETS (REGULAR + STASH)
#define STASH_SLOTS (STASH * SLOTS)
#define CHAIN_SLOTS 6u
#define OCCUPIED 0x7fu
#define ASK_STASH 0x80u
#define NO_HOME 0xffu

struct bucket {
    uint8_t fingerprints[SLOTS];
    uint8_t occupied; /* bit i: slot i is in use; ASK_STASH: some entry of this home is in the stash or chain */
    table_slot slots[SLOTS];
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct bucket) == 64, "a bucket is one line");

struct stash_index {
    uint8_t fingerprints[STASH_SLOTS];
    uint8_t homes[STASH_SLOTS]; /* NO_HOME: the slot is free */
    struct bucket *chain;
} __attribute__((aligned(64)));
_Static_assert(sizeof(struct stash_index) == 64, "the index is one line");

struct segment {
    struct bucket buckets[BUCKETS];
    struct stash_index stash;
};
_Static_assert(sizeof(struct segment) == TABLE_SEGMENT_BYTES, "a segment is 69 lines");

/* The depth limits itself: a random hash does not fill a segment where 14 entries are expected, so beyond log2(entries / 225) + 4 a full
 * segment is one of equal hashes, and splitting it again would only grow the directory. */
#define SEGMENT_HALF 225u
#define DEPTH_SLACK 4u

/* ---- words and slots ---- */

#define WORD_DEPTH 63u
static inline struct segment *word_segment(table_word w) { return (struct segment *)(w & ~(table_word)WORD_DEPTH); }
static inline unsigned word_depth(table_word w) { return (unsigned)(w & WORD_DEPTH); }
static inline table_word make_word(struct segment *s, unsigned depth) { return (table_word)s | depth; }
static inline table_word find_word(const struct table *t, uint64_t hash) { return t->directory[hash_directory(hash, t->depth)]; }

#define SLOT_POINTER 0xffffffffffffull
#define SLOT_NEIGHBOUR (1ull << 48)
#define SLOT_HOME_SHIFT 49
#define SLOT_HOME ((uint64_t)(REGULAR - 1) << SLOT_HOME_SHIFT)
#define SLOT_BITS_SHIFT 56
#define SLOT_BITS (0xffull << SLOT_BITS_SHIFT)
/* What must agree for a slot to be compared: directory bits, home, membership; not the visited bit, not the pointer. */
#define SLOT_TAG (~(SLOT_POINTER | TABLE_VISITED))

/* The hash's next 8 directory bits at a segment's depth, in the slot's place for them. */
static inline uint64_t slot_bits(uint64_t hash, unsigned depth) { return hash << HASH_SLOT_BITS << (depth & 56) & SLOT_BITS; }
/* The slot of an entry in its home bucket. */
static inline uint64_t slot_tag(uint64_t hash, unsigned depth) {
    return slot_bits(hash, depth) | (hash << (SLOT_HOME_SHIFT - HASH_FINGERPRINT_BITS) & SLOT_HOME);
}
static inline unsigned slot_home(table_slot slot) { return (unsigned)(slot >> SLOT_HOME_SHIFT) & (REGULAR - 1); }
/* The directory bit that decides, when a segment of this depth splits, where the slot goes. */
static inline unsigned slot_side(table_slot slot, unsigned depth) { return (unsigned)(slot >> (63 - (depth & 7))) & 1; }

static inline uint64_t bucket_head(const struct bucket *b) {
    uint64_t head;
    memcpy(&head, b, sizeof head);
    return head;
}
static inline unsigned next_home(unsigned home) { return (home + 1) & (REGULAR - 1); }

/* A lookup's arithmetic, in bytes from the segment's start so that the hash's home bits become an address in two steps. */
#define HOME_MASK ((REGULAR - 1) * sizeof(struct bucket))
static inline size_t home_offset(uint64_t hash) { return hash >> (HASH_FINGERPRINT_BITS - 6) & HOME_MASK; }
static inline struct bucket *bucket_at(const struct segment *s, size_t offset) {
    return (struct bucket *)((uintptr_t)s + (offset & HOME_MASK));
}

/* Slots of the home bucket (bits 0 to 6) and of the one after it (bits 8 to 14) that are in use and have this fingerprint. */
static inline uint32_t match_home(const struct segment *s, uint64_t hash) {
    const struct bucket *b = bucket_at(s, home_offset(hash)), *next = bucket_at(s, home_offset(hash) + sizeof *b);
    uint32_t in_use = (b->occupied | (uint32_t)next->occupied << 8) & 0x7f7f;
    return match_bytes(bucket_head(b), bucket_head(next), hash_fingerprint(hash)) & in_use;
}
/* The slot of such a bit; without a branch, since home or neighbour is anybody's guess. */
static inline table_slot *slot_near(const struct segment *s, uint64_t hash, unsigned i) {
    size_t at = i * sizeof(table_slot); /* bit 6: the neighbour */
    return (table_slot *)((uintptr_t)bucket_at(s, home_offset(hash) + (at & 64)) + (at & 56) + offsetof(struct bucket, slots));
}
/* Whether the slot of such a bit has the hash's home, its membership and its directory bits. */
static inline bool tag_agrees(table_slot slot, uint64_t hash, unsigned depth, unsigned i) {
    return !((slot ^ slot_tag(hash, depth) ^ (uint64_t)(i & 8) * (SLOT_NEIGHBOUR / 8)) & SLOT_TAG);
}

/* Slots of the stash that have this fingerprint and home. The two loads of 16 overlap. */
static inline uint32_t match_stash(const struct stash_index *x, uint8_t fingerprint, unsigned home) {
    uint32_t low = match_16(x->fingerprints, fingerprint) & match_16(x->homes, (uint8_t)home);
    uint32_t high = match_16(x->fingerprints + 12, fingerprint) & match_16(x->homes + 12, (uint8_t)home);
    return low | high << 12;
}
/* Slots of the stash that have this home. */
static inline uint32_t match_homes(const struct stash_index *x, uint8_t home) {
    return match_16(x->homes, home) | match_16(x->homes + 12, home) << 12;
}

static inline struct bucket *chain_next(const struct bucket *b) { return (struct bucket *)(uintptr_t)b->slots[CHAIN_SLOTS]; }
static inline void set_chain_next(struct bucket *b, struct bucket *next) { b->slots[CHAIN_SLOTS] = (uintptr_t)next; }

/* ---- walking segments ---- */

/* Positions in directory space: the 36 directory bits of a hash, whatever the directory's depth is. */
#define SPACE ((uint64_t)1 << HASH_DIRECTORY_BITS)
static inline uint64_t span_of(unsigned depth) { return SPACE >> depth; }
static inline table_word word_at(const struct table *t, uint64_t position) {
    return t->directory[position >> (HASH_DIRECTORY_BITS - t->depth)];
}
/* What a slot and its place tell of its hash: the directory bits down to the segment's depth, home, fingerprint. */
static inline uint64_t known_hash(uint64_t position, unsigned depth, table_slot slot, uint8_t fingerprint) {
    return (position & ~(span_of(depth) - 1)) << (HASH_HOME_BITS + HASH_FINGERPRINT_BITS) |
        (uint64_t)slot_home(slot) << HASH_FINGERPRINT_BITS | fingerprint;
}

/* ---- from table.c ---- */

/* How table_find ends in the rarer cases. Called nowhere else, but not static: gcc would pass them parts of *t, and table_find save registers. */
table_slot *find_stashed(const struct table *t, uint64_t hash, const char *key, uint32_t size) __attribute__((noinline));
table_slot *find_rare(const struct table *t, uint64_t hash, const char *key, uint32_t size) __attribute__((noinline));

/* Puts a slot (as in its home bucket) somewhere in the segment: home, neighbour, by displacement, stash; not the chain. False: full. */
bool place(struct segment *s, table_slot slot, uint8_t fingerprint);
/* The same without the stash. */
bool place_regular(struct segment *s, table_slot slot, uint8_t fingerprint);

/* ---- from table_grow.c ---- */

/* The first segment. 0 or -ENOMEM. */
int grow_first(struct table *t);
/* The hash's segment is full: splits it, or else chains this slot to it. 1: the slot lies in the chain, 0: try again, -ENOMEM. */
int grow_full(struct table *t, uint64_t hash, struct entry *e);
/* Gives up the resizing of the directory. */
void resize_cancel(struct table *t);
/* Takes a chain bucket out of its segment and frees it. */
void chain_remove(struct table *t, struct segment *s, struct bucket *b);
/* Directory and segments of a table that has none: nothing is found there, and nothing is ever written there. */
extern const struct segment no_segment;
extern const table_word no_directory[1];

#endif
