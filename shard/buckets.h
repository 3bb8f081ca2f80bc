/* A hash table of records that its user makes: buckets of doubly linked lists, whose number grows one at a time (linear hashing: Litwin, "Linear Hashing: a New Tool for
 * File and Table Addressing", VLDB 1980), so that no insertion is slow. The only memory of its own is the array of buckets; that is there while a record is.
 *
 *   heads   0 1 2 ... n_heads - 1     those of the next power of two that do not exist yet are still with the bucket that they will split from
 *             |
 *           record <-> record <-> record      in no order
 *
 * Whoever holds the shard may touch it. Adding, finding and removing are O(1).
 */
#ifndef SHARD_BUCKETS_H
#define SHARD_BUCKETS_H

#include <stdbool.h>
#include <stdint.h>

struct memory;

/* The first thing in a record. The user sets the hash. */
struct bucket_record {
    struct bucket_record *next, *previous; /* in its bucket */
    uint64_t hash;
};

/* All 0: empty. */
struct buckets {
    uint64_t n; /* records */
    struct bucket_record **heads;
    uint32_t n_heads, capacity;
};

/* False: no memory for any bucket, nothing was done. */
bool buckets_add(struct buckets *t, struct memory *m, struct bucket_record *r);
/* The last one takes the array with it. */
void buckets_remove(struct buckets *t, struct memory *m, struct bucket_record *r);
/* The first record of the bucket of this hash, or NULL. */
struct bucket_record *buckets_first(const struct buckets *t, uint64_t hash);
/* Forgets all records, which are their owner's. */
void buckets_drop(struct buckets *t, struct memory *m);

#endif
