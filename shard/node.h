/* A node: some elements of a list in one block, with room at both ends. All of a small list is one; a large one has many (list.h).
 *
 *   | n, block, first, end | room | element | element | ... | room |
 *                                 ^first                    ^end
 *   element:  | its form | size of the form |
 *
 * The form is that of packed.h, with one more: e1, two bytes of size, and so many bytes: a string of up to NODE_INLINE_MAX. The size behind it
 * lets a node be read from both ends: one byte; or two, and then ff. Both ends are pushed and popped without moving what is between.
 *
 * A node belongs to its shard. Every call that changes it may move it, and ends all pointers into it; offsets from its first element stay. NULL is an
 * empty node.
 */
#ifndef SHARD_NODE_H
#define SHARD_NODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shard/packed.h"

#define NODE_HEADER 8u
#define NODE_BYTES_MAX 65528u
#define NODE_INLINE_MAX 1024u
#define NODE_MIDDLING 0xe1u
#define NODE_WIDE 0xffu /* the last byte of an element whose size takes two more */

struct memory;

enum list_end { LIST_HEAD, LIST_TAIL };

struct node {
    uint16_t n, block;   /* elements; bytes of the block, by 8 */
    uint16_t first, end; /* where the elements begin, and end: bytes from the block's beginning */
};
_Static_assert(sizeof(struct node) == NODE_HEADER, "what follows are bytes");

static inline uint8_t *node_at(const struct node *p, uint32_t at) { return (uint8_t *)(uintptr_t)p + at; }
static inline size_t node_memory(const struct node *p) { return p ? 8u * p->block : 0; }
static inline uint32_t node_used(const struct node *p) { return p ? (uint32_t)p->end - p->first : 0; }

/* ---- elements ---- */

/* A string on its way into a node. Refers to the string's own bytes. */
struct element {
    struct packed packed; /* unless it is middling */
    bool middling;
    uint32_t size; /* of the form and the size behind it */
};
void element_of(struct element *x, const char *text, uint32_t size);
/* Makes a far string's block, which then belongs to what is written; does nothing for others. -ENOMEM. */
int element_make_far(struct memory *m, struct element *x);
/* The two at once, of an argument, whose blob becomes the far string's if it has one. -ENOMEM. */
int element_make(struct memory *m, struct element *x, struct arg *a);
/* Frees it again, if it is not written after all. */
void element_unmake(struct memory *m, struct element *x);
/* Whether it is what is written at `at`. */
bool element_equal(const struct element *x, const uint8_t *at);

/* Of what is written at `at`: bytes of its form; of all of it. */
static inline uint32_t element_form_size(const uint8_t *at) {
    if (__builtin_expect(*at != NODE_MIDDLING, 1)) return packed_size(at);
    return 3u + at[1] + 256u * at[2];
}
static inline uint32_t element_size(const uint8_t *at) {
    uint32_t form = element_form_size(at);
    return form + (form < NODE_WIDE ? 1 : 3);
}
/* And of what ends there. */
static inline uint32_t element_size_before(const uint8_t *end) {
    if (__builtin_expect(end[-1] != NODE_WIDE, 1)) return 1u + end[-1];
    return 3u + end[-3] + 256u * end[-2];
}
/* Its text; an integer's is written to scratch. */
static inline const char *element_text(const uint8_t *at, char scratch[INT64_TEXT_SIZE], uint32_t *size) {
    if (__builtin_expect(*at != NODE_MIDDLING, 1)) return packed_text(at, scratch, size);
    *size = at[1] + 256u * at[2];
    return (const char *)at + 3;
}

/* ---- nodes ---- */

/* Where the nth element is. */
uint32_t node_nth(const struct node *p, uint32_t nth);

/* Adds an element of so many bytes at an end, which the caller writes at once. A block that must be made has `block` bytes, if they are enough (0: as few as are worth
 * it). NULL: no memory, nothing changed. */
uint8_t *node_push(struct memory *m, struct node **p, enum list_end end, uint32_t size, uint32_t block);
/* Inserts one, at `at`; or gives the one that is there, of `old` bytes, another size. NULL: no memory, nothing changed. */
uint8_t *node_replace(struct memory *m, struct node **p, uint32_t at, uint32_t old, uint32_t size);
void node_write(const struct element *x, uint8_t *to);
/* Takes n elements of so many bytes out; what they refer to is the caller's. The block stays. An empty node is freed. Where now is what was behind them. */
uint32_t node_remove(struct memory *m, struct node **p, uint32_t at, uint32_t bytes, uint32_t n);
/* Into a smaller block if that is worth it. Without memory it stays. */
void node_trim(struct memory *m, struct node **p);
/* Moves the elements from `at` on, of which there are n, to a node of their own. Some stay. NULL: no memory, nothing changed. */
struct node *node_split(struct memory *m, struct node *p, uint32_t at, uint32_t n);
/* Appends all of from's elements, and frees it. False: no memory; nothing changed. */
bool node_join(struct memory *m, struct node **p, struct node *from);
/* Bytes of the block that a node with so many bytes of elements would be given. */
size_t node_needs(uint32_t used);

/* Bytes that its elements refer to. */
size_t node_far_memory(const struct node *p);
void node_drop_far(struct memory *m, struct node *p);
/* Frees the block. */
void node_free(struct memory *m, struct node *p);
/* Copies a node into *to, in parts, with what its elements refer to: begins with *to NULL. 1: there is more; 0: all is there; -ENOMEM. */
int node_copy_some(struct memory *m, struct node **to, const struct node *from, struct packed_copying *c);

#endif
