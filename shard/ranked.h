/* The order of a large zset: a B+tree (Bayer & McCreight, "Organization and Maintenance of Large Ordered Indices", Acta Informatica 1, 1972) of (score, hash of the
 * member), each inner node with the number of records below each child, so that ranks are found as fast as records (order statistics: Knuth, The Art of Computer
 * Programming, volume 3, 6.2.3).
 *
 *   leaf    | n | scores | hashes |                                                                             up to LEAF_ROOM
 *   inner   | n | scores and hashes of each child's first record | how many below each | children |             up to INNER_ROOM
 *
 * The members themselves are in the fields beside it, where their hashes find them: they are looked at only to order equal scores. So each record's member must be in
 * there until the record was taken out. Two members whose hashes are the same in all 64 bits are not told apart.
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
/* Of nodes: enough for more records than there is memory, if each node has three children. */
#define RANKED_LEVELS 24u

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
    double scores[INNER_ROOM];
    uint64_t hashes[INNER_ROOM];
    uint64_t counts[INNER_ROOM];
    void *children[INNER_ROOM];
};

/* All 0: empty. */
struct ranked {
    void *root;
    uint32_t levels; /* of nodes; 1: the root is a leaf */
    uint64_t n, nodes;
};

/* A place: of each level, from the leaf (0) to the root, the node and the place in it. */
struct ranked_path {
    void *nodes[RANKED_LEVELS];
    uint32_t at[RANKED_LEVELS];
    uint64_t rank;
};

/* What lies before a place: by score, by the member's bytes, or by both: of equal scores then those with a lower member. */
struct ranked_bound {
    bool by_score, by_member;
    bool after; /* and what equals it */
    double score;
    const char *text;
    uint32_t size;
};

/* Whether a record of this score and member lies before the bound. */
bool ranked_is_before(const struct ranked_bound *b, double score, const char *text, uint32_t size);
/* Finds the place that has before it what the bound says, and no more. */
void ranked_find(const struct ranked *t, const struct fields *members, const struct ranked_bound *b, struct ranked_path *p);
/* Finds a record that is there; name: its member's. */
void ranked_find_record(
    const struct ranked *t, const struct fields *members, const struct record *x, const struct field_name *name, struct ranked_path *p);
/* Finds the record of a rank below n. */
void ranked_at(const struct ranked *t, uint64_t rank, struct ranked_path *p);

/* Nodes made for an insertion. */
struct ranked_spare {
    void *nodes[RANKED_LEVELS + 1];
    uint32_t n;
};
/* Makes all nodes that an insertion at a place needs. -ENOMEM: nothing was done. */
int ranked_reserve(struct memory *m, const struct ranked *t, const struct ranked_path *p, struct ranked_spare *spare);
void ranked_give_back(struct memory *m, struct ranked_spare *spare);
/* Inserts a record there, with what was reserved. */
void ranked_insert(struct ranked *t, const struct ranked_path *p, const struct record *x, struct ranked_spare *spare);
/* Takes out the record that is there. */
void ranked_remove(struct memory *m, struct ranked *t, const struct ranked_path *p);
/* Whether the record there keeps its place with another score, as far as can be seen in its leaf; and gives it that. */
bool ranked_may_rescore(const struct ranked_path *p, double score);
void ranked_rescore(const struct ranked_path *p, double score);

/* Copies the leaf behind those that were copied, with the nodes above it that begin there; until to->n is from's it is only to be freed. 1: there is more; 0: that was
 * all; -ENOMEM. Of one that is not empty. */
int ranked_copy_leaf(struct memory *m, struct ranked *to, const struct ranked *from);

/* Bytes of all nodes. */
size_t ranked_memory(const struct ranked *t);
/* Frees about so many nodes. False: that was all. It is not used otherwise once this began. */
bool ranked_free_some(struct memory *m, struct ranked *t, uint32_t nodes);

#endif
