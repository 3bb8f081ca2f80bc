/* Lists: elements in an order, reached from both ends.
 *
 * A small one is one node (node.h). A large one is a chain: a ring of places, each with a node and the number of its elements, so that an index is found by adding these up.
 *
 *   ring:   | place | place | place |   |   | place | place |
 *                             ^last           ^first              place: node, elements in it, bytes that these have elsewhere
 *
 * How much a node may have is what list-max-listpack-size was when the list was made, its fill: 1 and more are so many elements (in at most 8 KiB), -1 to -5
 * are 4 to 64 KiB. Pushing, popping and what is at the ends is O(1); an index, a trim: O(nodes); a change in the middle moves one node's bytes at most.
 *
 * struct list is a view that is opened from an entry and stored into it again (list_open, list_store): what is behind it moves. It belongs to the
 * shard. A struct list_item dies with the next call that changes the list, but for what says otherwise.
 */
#ifndef SHARD_LIST_H
#define SHARD_LIST_H

#include "shard/keyspace.h"
#include "shard/node.h"

/* The default of list-max-listpack-size. */
#define LIST_FILL (-2)

struct place {
    struct node *node;
    size_t far; /* bytes of blocks that its elements refer to */
    uint32_t n;
};

struct chain {
    struct trash trash;
    struct place *places;
    uint64_t n;                     /* elements */
    uint64_t memory;                /* bytes of all this */
    uint32_t first, n_places, room; /* of the ring: room is a power of two */
    int32_t fill;
};

struct list {
    struct memory *memory;
    struct node *node; /* of the two at most one; none: empty */
    struct chain *chain;
    int32_t fill;
};

/* An empty list of this shard. fill: list-max-listpack-size. */
struct list list_new(struct shard *s, int64_t fill);
/* The list of a key that is one; empty if the key is not there. fill: the same, for a list that is yet to become large. */
struct list list_open(struct shard *s, const struct key *k, int64_t fill);
/* What became of it, once it was changed by this event: it is told, and an empty one deletes its key, which is told too. key_before_change is
 * behind you. -ENOMEM (of a new key only): it is freed. */
int list_store(struct shard *s, struct key *k, struct list *x, enum key_event event);
/* The list becomes the value of a key of whatever kind, which has no expiry time then; an empty one deletes it. -ENOMEM, with the key as it was: it is freed. */
int list_replace(struct shard *s, struct key *k, struct list *x, enum key_event event);
/* Frees it, a large one in slices. */
void list_drop(struct shard *s, struct list *x);
/* The same without a shard; at once. */
void list_free(struct list *x);

static inline bool list_is_empty(const struct list *x) { return !x->node && !x->chain; }
static inline uint64_t list_count(const struct list *x) { return x->chain ? x->chain->n : x->node ? x->node->n : 0; }
/* Bytes of all of it. */
size_t list_memory(const struct list *x);

/* Pushing and popping. 0, or -ENOMEM with nothing changed. The text may not lie in this list. */
int list_push(struct list *x, enum list_end end, const char *text, uint32_t size);
/* Takes out n (or all) elements at an end. What becomes free: a large list's nodes in slices, by *trash (NULL: at once). */
void list_pop(struct list *x, enum list_end end, uint64_t n, struct trash **trash);
/* What list_push may take at most, bytes, for n elements of so many bytes together. */
size_t list_needs(const struct list *x, uint64_t n, uint64_t bytes);

/* An element, and where it is. */
struct list_item {
    const uint8_t *at;
    uint32_t place, nth, offset; /* nth of its node */
};
/* Its text; an integer's is written to scratch. */
static inline const char *list_text(const struct list_item *i, char scratch[INT64_TEXT_SIZE], uint32_t *size) {
    return element_text(i->at, scratch, size);
}
/* What is to be compared with elements. */
static inline bool list_equal(const struct list_item *i, const struct element *x) { return element_equal(x, i->at); }

/* The element with this index (of list_count). */
void list_at(const struct list *x, uint64_t index, struct list_item *out);
/* Walks from an element on, towards the tail or the head:
 *
 *     struct list_walk w = list_walk_from(&x, index, LIST_TAIL);
 *     while (list_next(&x, &w, &item)) ...
 *
 * Nothing is changed in between, except by what takes the walk. An index that is not there ends it at once. */
struct list_walk {
    struct list_item next;
    enum list_end towards;
    bool more;
};
struct list_walk list_walk_from(const struct list *x, uint64_t index, enum list_end towards);
bool list_next(const struct list *x, struct list_walk *w, struct list_item *out);

/* Changes in the middle. -ENOMEM: nothing changed. An element of the list, as list_at or a walk gave it: */
int list_insert(struct list *x, const struct list_item *at, bool behind, const char *text, uint32_t size);
int list_set(struct list *x, const struct list_item *at, const char *text, uint32_t size);
/* Takes it out; w, which just gave it, goes on with what was to come. NULL: there is no walk. */
void list_remove(struct list *x, const struct list_item *at, struct list_walk *w);

/* A copy, in this shard's memory. -ENOMEM: nothing was made. */
int list_copy(struct list *to, const struct list *from);

/* Prefetch, in this order: the ends of what is behind the entry. */
void list_prefetch_ring(const struct list *x, enum list_end end);
void list_prefetch_node(const struct list *x, enum list_end end);
void list_prefetch_end(const struct list *x, enum list_end end);

#endif
