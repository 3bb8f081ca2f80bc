/* A node: some elements of a list in one block, with room at both ends. All of a small list is one; a large one has many (list.h).
 *
 *   | n, block, first, end | free | element | element | ... | free |
 *                            ^first                     ^end
 *   element:  | packed form | its size |
 *
 * The packed form is that of packed.h, with one more: e1, two bytes of size, and so many bytes: a string of up to NODE_INLINE_MAX. Behind it stands the size
 * of the form, so that a node is read from both ends: one byte; or ff behind the two bytes of it. Both ends are pushed and popped without moving what is between.
 *
 * A node belongs to its shard. Every call that changes it may move it, and ends all pointers into it. NULL is an empty node.
 */
#ifndef SHARD_NODE_H
#define SHARD_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shard/packed.h"

#define NODE_BYTES_MAX 65528u
#define NODE_INLINE_MAX 1024u

struct memory;

enum list_end { LIST_HEAD, LIST_TAIL };

struct node {
    uint16_t n, block;   /* elements; bytes of the block, by 8 */
    uint16_t first, end; /* where the elements begin, and end: bytes from the block's beginning */
    uint8_t bytes[];
};
#define NODE_HEADER 8u

/* A string on its way into a node. Refers to the string's own bytes. */
struct element {
    struct packed packed; /* not of a middling string: */
    bool middling;
    uint32_t size; /* with the size behind it */
};
void element_of(struct element *x, const char *text, uint32_t size);
/* Whether it is what is written at `at`. */
bool element_equal(const struct element *x, const uint8_t *at);
/* Makes a far string's block. -ENOMEM. */
int element_make_far(struct memory *m, struct element *x);
void element_drop_far(struct memory *m, struct element *x);
/* Of what is written in a node: its text (an integer's is written to scratch). */
const char *element_text(const uint8_t *at, char scratch[INT64_TEXT_SIZE], uint32_t *size);
/* Its bytes there, with the size behind it. */
uint32_t element_size(const uint8_t *at);
/* And of the one before. */
uint32_t element_size_before(const uint8_t *end);

static inline uint8_t *node_at(const struct node *p, uint32_t offset) { return (uint8_t *)(uintptr_t)p + offset; }
static inline size_t node_memory(const struct node *p) { return p ? 8u * p->block : 0; }
static inline uint32_t node_used(const struct node *p) { return p ? (uint32_t)p->end - p->first : 0; }
/* Where the nth element begins. */
uint32_t node_offset(const struct node *p, uint32_t nth);

/* Room for size bytes before or behind all elements, and one element more, which the caller writes at once (node_write). A new node's block, or that of one that must grow, has
 * `block` bytes, if that is enough (0: as few as are worth it). NULL: no memory, nothing changed. */
uint8_t *node_push(struct memory *m, struct node **p, enum list_end end, uint32_t size, uint32_t block);
/* Room for so many bytes at an offset instead of `old` bytes and elements there: 0 to insert. NULL: no memory, nothing changed. */
uint8_t *node_replace(struct memory *m, struct node **p, uint32_t offset, uint32_t old, uint32_t size);
void node_write(const struct element *x, uint8_t *to);
/* Takes n elements of so many bytes out at an offset; what they refer to is the caller's. The block stays as it is: node_trim. An empty node is freed. */
void node_remove(struct memory *m, struct node **p, uint32_t offset, uint32_t bytes, uint32_t n);
/* Into a smaller block if that is worth it. Without memory it stays. */
void node_trim(struct memory *m, struct node **p);
/* Moves what is from an offset on, n elements, to a node of its own. NULL: no memory, nothing changed. */
struct node *node_split(struct memory *m, struct node **p, uint32_t offset, uint32_t n);
/* Appends all of from's elements, and frees it. False: no memory; nothing changed. */
bool node_join(struct memory *m, struct node **p, struct node *from);
/* What node_push or node_replace may take more than it gives back. */
size_t node_needs(const struct node *p, uint32_t more, uint32_t block);

/* Of what its elements refer to: bytes. Frees it. */
size_t node_far_memory(const struct node *p);
void node_drop_far(struct memory *m, struct node *p);
void node_free(struct memory *m, struct node *p);
/* A copy, with what its elements refer to. NULL: no memory. */
struct node *node_copy(struct memory *m, const struct node *p);

#endif
