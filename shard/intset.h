/* An intset: integers in ascending order, each in 2, 4 or 8 bytes, as many as the widest takes. A small set whose members all are integers is one.
 *
 *   | n, width, block | integer | integer | ...
 *
 * It belongs to its shard. Every call that adds or removes may move it. NULL is an empty one. Adding and removing cost a move of what lies behind, so it
 * is for thousands at most.
 */
#ifndef SHARD_INTSET_H
#define SHARD_INTSET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INTSET_MAX (1u << 30)

struct memory;

struct intset {
    uint32_t n_width; /* how many; in the two high bits the logarithm of their width */
    uint32_t block;   /* bytes of the block, by 8 */
    uint8_t bytes[];
};

static inline uint32_t intset_count(const struct intset *x) { return x ? x->n_width & ((1u << 30) - 1) : 0; }
/* The integer at a place, in ascending order. */
int64_t intset_at(const struct intset *x, uint32_t index);
/* Whether v is in it; *index: where, or where it would be. */
bool intset_find(const struct intset *x, int64_t v, uint32_t *index);

/* Puts v, which is not in it, at the place that intset_find told. -ENOMEM: nothing changed. */
int intset_add(struct memory *m, struct intset **x, int64_t v, uint32_t index);
/* Takes out the integer at a place. The last one's end is the intset's: *x is NULL then. */
void intset_remove(struct memory *m, struct intset **x, uint32_t index);
void intset_free(struct memory *m, struct intset *x);
/* NULL: no memory. */
struct intset *intset_copy(struct memory *m, const struct intset *x);

/* Bytes of the block. */
size_t intset_memory(const struct intset *x);
/* Bytes that it would have at most if so many integers, of any size, were added. */
size_t intset_memory_with(const struct intset *x, uint32_t more);

#endif
