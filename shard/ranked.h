/* The order of a large zset: a B+tree (Bayer & McCreight, "Organization and Maintenance of Large Ordered Indices", Acta Informatica 1, 1972) of (score, hash of the
 * member), each inner node with the number of records below each child, so that ranks are found as fast as records (order statistics: Knuth, The Art of Computer
 * Programming, volume 3, 6.2.3).
 *
 *   inner   | n | first record of each child | how many below each | children |        up to INNER_ROOM
 *   leaf    | n | scores | hashes |                                                    up to LEAF_ROOM
 *
 * The members themselves are in the fields beside it, where their hashes find them: they are looked at only to order equal scores. So each record's member must be in
 * there, from before the search for its place on until it was taken out here. Two members whose hashes are the same in all 64 bits are told apart by their scores alone.
 *
 * It belongs to its shard. All nodes have the same size. Every call that inserts or removes ends all paths and pointers into it.
 */
#ifndef SHARD_RANKED_H
#define SHARD_RANKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shard/fields.h"

#define LEAF_ROOM 63u
#define INNER_ROOM 31u
#define RANKED_LEVELS 16u

struct record {
    double score;
    uint64_t hash;
};

struct leaf {
    uint32_t n;
    double scores[LEAF_ROOM];
    uint64_t hashes[LEAF_ROOM];
};

struct inner {
    uint32_t n;
    struct record first[INNER_ROOM]; /* of each child */
    uint64_t counts[INNER_ROOM];     /* of records below it */
    void *children[INNER_ROOM];
};

/* All 0: empty. */
struct ranked {
    void *root;
    uint32_t levels; /* of nodes; 1: the root is a leaf */
    uint64_t n, nodes;
};

/* Where a record is, or would be: from the leaf (0) to the root, the node of each level and the place in it. */
struct ranked_path {
    void *nodes[RANKED_LEVELS];
    uint32_t at[RANKED_LEVELS];
    uint64_t rank;
};

/* What lies before a place: */
struct ranked_bound {
    bool by_score, by_member; /* both: of equal scores those with a lower member */
    bool after;               /* and what equals it */
    double score;
    const char *text;
    uint32_t size;
    uint64_t hash; /* of the member, if it is one that is in there: found without comparing; else 0 */
};

/* Finds the place that has all before it that the bound says, and no more. */
void ranked_find(const struct ranked *t, const struct fields *members, const struct ranked_bound *b, struct ranked_path *p);
/* Of the record of a rank below n. */
void ranked_at(const struct ranked *t, uint64_t rank, struct ranked_path *p);

/* Makes all nodes that an insertion there needs. -ENOMEM: nothing was done. */
struct ranked_spare {
    void *nodes[RANKED_LEVELS + 1];
    uint32_t n;
};
int ranked_reserve(struct memory *m, const struct ranked *t, const struct ranked_path *p, struct ranked_spare *spare);
void ranked_give_back(struct memory *m, struct ranked_spare *spare);
/* Inserts a record there, with what was reserved. */
void ranked_insert(struct ranked *t, const struct ranked_path *p, const struct record *x, struct ranked_spare *spare);
/* Takes out the record that is there. */
void ranked_remove(struct memory *m, struct ranked *t, const struct ranked_path *p);

/* Bytes of all nodes. */
size_t ranked_memory(const struct ranked *t);
/* Frees about so many nodes. False: that was all. It is not used otherwise once this began. */
bool ranked_free_some(struct memory *m, struct ranked *t, uint32_t nodes);

#endif
