/* What list.c and list_edit.c share: the ring of a chain, and the limits of nodes. */
#ifndef SHARD_LIST_INTERNAL_H
#define SHARD_LIST_INTERNAL_H

#include "shard/list.h"

static inline struct place *chain_place(const struct chain *c, uint32_t index) { return &c->places[(c->first + index) & (c->room - 1)]; }
/* Notes what became of the node at a place: so many elements and bytes elsewhere more. */
static inline void chain_count(struct chain *c, struct place *p, int64_t n, int64_t far) {
    size_t block = node_memory(p->node);
    c->n += (uint64_t)n;
    c->memory += (uint64_t)far + block - p->block;
    p->n += (uint32_t)n;
    p->far += (size_t)far;
    p->block = (uint32_t)block;
}
/* An empty place before the one with this index, or as the last. NULL: no memory. */
struct place *chain_insert_place(struct memory *m, struct chain *c, uint32_t index);
void chain_remove_place(struct memory *m, struct chain *c, uint32_t index);

/* Most bytes of a node with its header; whether one (or NULL) takes so many elements and bytes more. */
uint32_t list_node_bytes(const struct list *x);
bool list_node_takes(const struct list *x, const struct node *p, uint32_t n, uint32_t bytes);
/* A small list becomes a chain. False: no memory. Of one with elements. */
bool list_make_chain(struct list *x);
/* What has become smaller: a small list's block; a chain of one node that is at most half full becomes a small list, one without elements nothing. */
void list_shrink(struct list *x);
/* Of an element that is to be written: where a far one's block is told. */
static inline const uint8_t *element_head(const struct element *x) { return x->middling ? (const uint8_t *)"" : x->packed.head; }

#endif
