/* The table: from a key to its entry. Extendible hashing over segments of 64-byte buckets, after Dash (Lu, Hao, Wang, Lo:
 * "Dash: Scalable Hashing on Persistent Memory", VLDB 2020), without its concurrency and persistence.
 *
 * A table belongs to its shard: whoever holds the shard may call it. It never owns what it does not need to: it allocates segments
 * and its directory from the shard's memory, and points to entries that the caller allocates and frees.
 *
 *   directory[hash's directory bits] --> segment: 64 regular buckets, 4 stash buckets, the stash's index line
 *
 *   bucket (64 bytes):   7 fingerprints | occupancy: 7 bits, 1 bit "ask the stash" (home only) | 7 slots of 8 bytes
 *
 *   slot:  63          56 55  54           49 48       47                                   0
 *          | next 8     | v  | home: 6       | nb      | pointer to the entry: 48           |
 *          | dir. bits  |                                         | the lowest bit of which is the mark     |
 *     nb: the entry lies in the bucket after its home.   v: visited (eviction's).   next 8 directory bits: so that a split
 *     seldom reads entries: bits [window, window + 8) of the hash's directory part, window = depth / 8 * 8 of its segment.
 *     mark: a snapshot has written it (snapshot.h). Entries lie at multiples of 4.
 *
 * A key lies in its home bucket, in the next one, or in a stash bucket (the home bucket then says "ask the stash"). A lookup that misses
 * touches two adjacent lines and no entry. A full segment splits in two; there is never a rehash of the whole, so an insert has no spike. A
 * segment that cannot split (equal hash bits, directory growth due or refused) chains further stash buckets.
 *
 * Growth costs nothing until a segment is full: there is no other check. The directory doubles in slices (table_work), its size
 * taken from a leading-zero count; until it has doubled, full segments chain.
 */
#ifndef SHARD_TABLE_H
#define SHARD_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shard/entry.h"
#include "shard/hash.h"

struct memory;
struct segment;

#define TABLE_SEGMENT_BYTES 4416u

/* Whether the table may take this many more bytes; asked only when growth is due. NULL: always. */
typedef bool table_may_grow(void *arg, size_t bytes);
/* Told before and after each step of growth that an insert waits for (a split, a small directory), so that the owner may take its time. NULL: nobody. */
typedef void table_growing(void *arg, bool ended);
/* The hash of an entry's key (tests put adversarial ones here). */
typedef uint64_t table_hash(const void *arg, const struct entry *e);

/* A segment's address, and its depth in the low 6 bits. */
typedef uintptr_t table_word;

/* May be moved by copying it (no pointer leads into it). */
struct table {
    table_word *directory; /* 2^depth words */
    struct memory *memory;
    uint64_t count; /* entries */
    uint64_t mark;  /* of new slots: 0 or 1 */
    uint32_t depth;
    uint32_t grow_due;                          /* a doubling is wanted or under way */
    table_word *resized;                        /* the next directory while it is being filled, */
    uint64_t resized_to;                        /* old indices below this are copied, */
    uint32_t resized_depth;                     /* and its depth */
    uint32_t sweep;                             /* what the sweep over all segments is for (table_grow.c); 0: none */
    uint64_t swept, dismantled;                 /* how far sweep and table_dismantle are, in directory bits of hashes */
    uint64_t merge_below;                       /* entries: below this another sweep may be worth its while */
    uint64_t segments, chained;                 /* now there; chained: chain buckets */
    uint32_t at_depth[HASH_DIRECTORY_BITS + 1]; /* segments by depth */
    uint64_t splits, merges, withheld;          /* so far; withheld: growth that may_grow or memory refused */
    table_hash *hash;
    const void *hash_arg;
    table_may_grow *may_grow;
    table_growing *growing;
    void *owner; /* their arg */
};

/* A place in the table. Dies with the next call that may insert, remove or move (and with the hop). NULL: not there. */
typedef uint64_t table_slot;

/* An empty table takes one small allocation or none; its first segment comes with the first insert. */
void table_init(struct table *t, struct memory *memory, table_hash *hash, const void *hash_arg);
/* Frees segments and directory, not the entries; for a large table use table_dismantle. */
void table_drop(struct table *t);

#define TABLE_ENTRY 0xfffffffffffcull
static inline struct entry *table_entry(table_slot slot) { return (struct entry *)(uintptr_t)(slot & TABLE_ENTRY); }

/* The slot of the key, or NULL. */
table_slot *table_find(const struct table *t, uint64_t hash, const char *key, uint32_t size);
/* Inserts an entry whose key is not in the table. 0, or -ENOMEM with nothing changed. All slots may move. */
int table_insert(struct table *t, uint64_t hash, struct entry *e);
/* Lets the slot point to another entry with the same key. */
static inline void table_replace(table_slot *slot, struct entry *e) { *slot = (*slot & ~TABLE_ENTRY) | (uintptr_t)e; }
/* Takes a found slot's entry out (does not free it). Other slots stay where they are. */
void table_remove(struct table *t, uint64_t hash, table_slot *slot);

/* The visited bit of a slot. */
#define TABLE_VISITED (1ull << 55)

/* The mark of a slot. An inserted slot has it; a slot keeps it when it moves and when its entry is replaced. Whether a set bit or a clear one is the mark is the
 * table's to say, so all slots, which have it, lose it at once; the next time all must have it again. */
static inline bool table_is_marked(const struct table *t, table_slot slot) { return !((slot ^ t->mark) & 1); }
static inline void table_mark(const struct table *t, table_slot *slot) { *slot = (*slot & ~(table_slot)1) | t->mark; }
static inline void table_unmark_all(struct table *t) { t->mark ^= 1; }

/* Prefetch, in the order in which a batch uses them. Advice only: they never fault and decide nothing. */
static inline void table_prefetch_directory(const struct table *t, uint64_t hash) {
    __builtin_prefetch(&t->directory[hash_directory(hash, t->depth)]);
}
void table_prefetch_buckets(const struct table *t, uint64_t hash, bool probe, bool write);
/* The entry that will most probably be compared. Returns it (to prefetch its second line, or its value), or NULL. */
const struct entry *table_prefetch_entry(const struct table *t, uint64_t hash);

/* Gets a slot and what is known of its hash without reading the entry: directory bits down to the segment's depth, home, fingerprint (the
 * rest is 0). It will do as the hash for table_remove. */
typedef void table_visit(void *arg, uint64_t hash_prefix, table_slot *slot);

/* Walks by home bucket. A cursor is a position in hash space: 6 home bits, then 36 directory bits, 42 in all, most significant first;
 * 0 begins; any value below 2^42 is safe. Calls visit for every entry whose home is the bucket at the cursor (wherever it lies)
 * and returns the next cursor, 0 at the end. An entry that is there during the whole walk is visited at least once, whatever happens
 * in between; more than once only if its segment was merged meanwhile. visit must not change the table. Why home comes
 * first: a position is then a fixed function of the hash, and the walk covers all positions in order (the proof is in table_scan.c). */
uint64_t table_scan(const struct table *t, uint64_t cursor, table_visit *visit, void *arg);
/* Prefetches what table_scan(cursor) will touch: the bucket lines, or (entries) the entries of that bucket. */
void table_prefetch_scan(const struct table *t, uint64_t cursor, bool entries);
#define TABLE_CURSOR_BITS 42

/* A walk over all entries that lack the mark, by segment: in the order of memory, for whoever wants all and soon. position and bucket begin at 0. What changes
 * meanwhile it meets where it is then, if bucket is set to 0 again after any change: an entry is visited until it has the mark. */
enum table_ahead { TABLE_AHEAD_NONE, TABLE_AHEAD_ENTRIES, TABLE_AHEAD_VALUES };
/* Prefetches what hangs at an entry, whose first line has arrived. */
typedef void table_prefetch_value(const struct entry *e);
/* May mark the slot, must change nothing else. False: enough, the walk stops before the next one. */
typedef bool table_walk_visit(void *arg, table_slot *slot);
struct table_walk {
    uint64_t position;
    unsigned bucket; /* of the segment there, with which it goes on */
    enum table_ahead ahead;
    table_prefetch_value *prefetch_value;
    table_walk_visit *visit;
    void *arg;
};
/* Visits one segment, or (visit said so) a part of it, to be gone on with by the next call. False: that was the last. An empty table has one segment
 * that is nobody's. */
bool table_walk_segment(const struct table *t, struct table_walk *w);

/* Calls visit for the entries whose hash agrees with hash in the low 50 bits' directory, home and fingerprint parts (those that table_find would compare). */
void table_match(const struct table *t, uint64_t hash, table_visit *visit, void *arg);

/* An entry drawn nearly uniformly; random: 64 random bits a call of next. NULL if the table is empty. */
table_slot *table_random(const struct table *t, uint64_t (*next)(void *), void *arg);

/* Does up to budget units (about 1 us each) of the table's own pending work (doubling the directory, splitting segments that chained
 * meanwhile, merging). True: there is more. */
bool table_work(struct table *t, unsigned budget);

/* Takes the table apart in slices: hands every entry of one segment to visit (which frees it), frees the segment. True: there is more.
 * The table must not be used otherwise once this began. */
bool table_dismantle(struct table *t, table_visit *visit, void *arg);

/* For DEBUG HTSTATS and tests. What is known at any time: */
struct table_stats {
    uint64_t entries, segments, buckets, slots, directory_size, chain_buckets, withheld, splits, merges, bytes;
    uint64_t at_depth[HASH_DIRECTORY_BITS + 1]; /* segments */
    uint32_t depth;
    bool grow_due; /* a deeper directory is wanted, or being made */
    /* What a walk counts: where entries lie; segments by sixteenths of their slots in use. */
    uint64_t walked, home, neighbour, stash, chain, fill[16];
};
/* All but the walk's. */
void table_stats(const struct table *t, struct table_stats *out);
/* Walks some segments, from a position on (0 at first): adds to the walk's counts. Returns the next position; 0: it is done. A table may change between;
 * a segment costs about 1 us. */
uint64_t table_stats_walk(const struct table *t, uint64_t position, unsigned segments, struct table_stats *out);
/* Adds one table's statistics to another's; the depth is the larger one. */
void table_stats_add(struct table_stats *to, const struct table_stats *s);
/* Checks every invariant; NULL if all hold, else which is broken. Tests. */
const char *table_check(const struct table *t);

#endif
