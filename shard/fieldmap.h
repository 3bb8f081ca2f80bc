/* A large container's members: pages (page.h) under linear hashing (Litwin, "Linear Hashing: A New Tool for File and Table Addressing", VLDB 1980).
 *
 *   chunks --> chunk of 512 places --> page: about a dozen items in 240 bytes
 *
 * A name's bucket is the low bits of its hash: of `buckets` = 2^level + split, those before split have level + 1 bits, as have those that they were split
 * into. As items come, the bucket at split is split, one for every dozen; as they go, the last is joined with what it was split from. So there is no rehash,
 * and an insert moves a page of items at most. The array of chunks alone is copied as it grows: 8 bytes for each 6,000 items.
 *
 * Times of fields (there are seldom any) are found by two levels of minima: of each page, and of each chunk. The earliest is found by looking through the chunks and then through one of
 * them; a change costs a look through its page, and one through its chunk if it was the chunk's first. Nothing of it goes stale.
 *
 * A walk goes through the buckets in the order of their reversed numbers, which is an order of hashes: whatever is split or joined between two steps, an
 * item that is there all the time is met (after the cursor of Redis' dictionary, by Pieter Noordhuis).
 */
#ifndef SHARD_FIELDMAP_H
#define SHARD_FIELDMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shard/hash.h"
#include "shard/page.h"

/* What is freed in slices hangs in its shard by this. */
struct trash {
    struct trash *next;
    /* Frees some of it; false: that was all, itself too. */
    bool (*free_some)(struct memory *m, struct trash *x);
};

struct fieldmap {
    struct trash trash;
    struct page ***chunks;
    uint64_t n, buckets, used;      /* items; pages, with those that are empty; bytes of items */
    uint64_t memory;                /* bytes of all this */
    uint32_t n_chunks, chunks_room; /* the last chunk alone may be smaller than the others, if it is the first */
    uint32_t first_room;            /* places in the first chunk */
    uint32_t level;
    int64_t *chunk_times; /* the earliest in each chunk; NULL: no field ever had a time */
    int64_t **page_times; /* by chunk: of each page; NULL: none of its fields ever had one */
    uint32_t most;        /* no page has more items than this */
    uint32_t flags;       /* the owner's */
};

#define FIELDMAP_CHUNK 512u

/* An empty map. NULL: no memory. */
struct fieldmap *fieldmap_new(struct memory *m);
/* A copy of a map, of which only hashes of the same secret know anything, in parts: at first without a page; the rest, page by page, as page_copy_some. It may be freed at any time.
 * NULL: no memory. */
struct fieldmap *fieldmap_copy(struct memory *m, const struct fieldmap *from);
int fieldmap_copy_some(struct memory *m, struct fieldmap *to, const struct fieldmap *from, struct packed_copying *c);
/* Frees about so many pages, and what their items refer to. False: that was all, and itself. The map is not used otherwise once this began. */
bool fieldmap_free_some(struct memory *m, struct fieldmap *x, uint32_t pages);

static inline uint64_t fieldmap_bucket_hash(uint64_t hash) { return hash >> 8; }
static inline uint64_t fieldmap_bucket(const struct fieldmap *x, uint64_t hash) {
    uint64_t mask = ((uint64_t)2 << x->level) - 1, b = fieldmap_bucket_hash(hash) & mask;
    return b < x->buckets ? b : b & mask >> 1;
}
/* The place of a bucket's page. */
static inline struct page **fieldmap_place(const struct fieldmap *x, uint64_t bucket) {
    return &x->chunks[bucket / FIELDMAP_CHUNK][bucket % FIELDMAP_CHUNK];
}
static inline struct page **fieldmap_page(const struct fieldmap *x, uint64_t hash) { return fieldmap_place(x, fieldmap_bucket(x, hash)); }

/* Maps of one secret divide by the same bits of the same hash: items of one's bucket are, in another, in one of a few, by turns the next of which is *step further. The first of these; there may be more
 * below x->buckets. */
static inline uint64_t fieldmap_counterpart(const struct fieldmap *x, const struct fieldmap *of, uint64_t bucket, uint64_t *step) {
    uint64_t half = (uint64_t)1 << of->level;
    *step = bucket < half && bucket + half >= of->buckets ? half : 2 * half; /* one that is not split yet stands for two */
    return bucket < x->buckets ? bucket : fieldmap_bucket(x, bucket << 8);
}

/* Before an item with this hash is added: splits until its bucket's page is not full. Only items that come in the order of their hashes (as a walk or a cursor scan of
 * another container gives them) fill a page while others are empty: they need the places that they will need once all have come. -ENOMEM: there is none. */
int fieldmap_make_room(struct memory *m, struct fieldmap *x, const struct hash_secret *secret, uint64_t hash);
/* Splits and joins as many buckets as are due. After each item added or removed. Without memory it is done later. */
void fieldmap_grow(struct memory *m, struct fieldmap *x, const struct hash_secret *secret);
void fieldmap_shrink(struct memory *m, struct fieldmap *x);

/* Times. Before a field of this bucket gets one: makes room. -ENOMEM: there is none. */
int fieldmap_time_room(struct memory *m, struct fieldmap *x, uint64_t bucket);
/* After a change of this bucket's page. */
void fieldmap_time_changed(struct fieldmap *x, uint64_t bucket);
/* The earliest time, and its bucket. PAGE_NEVER: no field has one. */
int64_t fieldmap_first_time(const struct fieldmap *x, uint64_t *bucket);

/* The bucket at a cursor (0 begins), and the next cursor; 0: it is the last. */
uint64_t fieldmap_walk(const struct fieldmap *x, uint64_t *cursor);

/* The hash of a name in packed form. */
uint64_t fieldmap_hash(const struct hash_secret *secret, const uint8_t *name);
/* What a page's items refer to is freed. */
void fieldmap_drop_items(struct memory *m, struct page *p);

#endif
