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

/* The default of list-max-listpack-size; and that which holds what any small list has in one node. */
#define LIST_FILL (-2)
#define LIST_FILL_WHOLE (-5)

struct place {
    struct node *node;
    size_t far;        /* bytes of blocks that its elements refer to */
    uint32_t n, block; /* elements; bytes of the node's block */
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
/* It is as it was, or will be changed on, but may lie elsewhere: nothing is told. -ENOMEM (of a new key only): it is freed. */
int list_keep(struct shard *s, struct key *k, struct list *x);
/* The list becomes the value of a key of whatever kind, which has no expiry time then; an empty one deletes it. -ENOMEM, with the key as it was: it is freed. */
int list_replace(struct shard *s, struct key *k, struct list *x, enum key_event event);
/* Frees it. A large one is hung in *trash, to be freed in slices; NULL: at once. */
void list_free(struct list *x, struct trash **trash);

static inline bool list_is_empty(const struct list *x) { return !x->node && !x->chain; }
static inline uint64_t list_count(const struct list *x) { return x->chain ? x->chain->n : x->node ? x->node->n : 0; }
/* Bytes of all of it. */
size_t list_memory(const struct list *x);
/* Its nodes. */
static inline uint32_t list_nodes(const struct list *x) { return x->chain ? x->chain->n_places : x->node != NULL; }

/* Adds an element. 0, or -ENOMEM with nothing changed. The text may not lie in this list; if it is in a blob of its own (ARG_BLOB), the list takes that over, refused or not. */
int list_push(struct list *x, enum list_end end, struct arg *text);
/* Takes n elements out at an end, or all. What a large list gives up is freed in slices, by *trash; NULL: at once. */
void list_pop(struct list *x, enum list_end end, uint64_t n, struct trash **trash);

/* What pushing may take at most, bytes: of elements that were added up one by one. All zero: none. */
struct list_load {
    uint64_t n, bytes, far;
};
void list_load_add(struct list_load *load, uint32_t size);
size_t list_needs(const struct list *x, const struct list_load *load);

/* An element, and where it is. */
struct list_item {
    const uint8_t *at;
    uint32_t place, nth; /* of the chain; of its node */
};
/* Its text; an integer's is written to scratch. */
static inline const char *list_text(const struct list_item *i, char scratch[INT64_TEXT_SIZE], uint32_t *size) {
    return element_text(i->at, scratch, size);
}
/* Is it this one? (element_of) */
static inline bool list_equal(const struct list_item *i, const struct element *x) { return element_equal(x, i->at); }

/* The element with this index, which is below list_count; the first or the last. */
void list_at(const struct list *x, uint64_t index, struct list_item *out);
void list_peek(const struct list *x, enum list_end end, struct list_item *out);

/* Walks from an element on, towards the tail or the head; from an index that is not there it gives nothing. Nothing is changed in between.
 *
 *     struct list_walk w = list_walk_from(&x, index, LIST_TAIL);
 *     while (list_next(&x, &w, &item)) ... */
struct list_walk {
    struct list_item next; /* at NULL: that was all */
    const struct node *node;
    enum list_end towards;
};
struct list_walk list_walk_from(const struct list *x, uint64_t index, enum list_end towards);
bool list_next(const struct list *x, struct list_walk *w, struct list_item *out);

/* Inserts an element before or behind one; gives one another text. 0, or -ENOMEM with nothing changed. The text as for list_push. */
int list_insert(struct list *x, const struct list_item *at, bool behind, struct arg *text);
int list_set(struct list *x, const struct list_item *at, struct arg *text);

/* Takes out what equals an element, node by node from an end on; all zero at first, but for what and left. */
struct list_removal {
    enum list_end from;
    uint64_t left;    /* this many at most */
    uint64_t removed; /* so many went */
    uint32_t place;   /* nodes looked at that are still there */
};
/* Goes on, through about so many elements. False: that was all. An empty list has neither node nor chain then. */
bool list_remove_some(struct list *x, const struct element *what, struct list_removal *r, uint32_t elements);

/* Copies one of this or another shard into to's memory, in parts: begins with an empty one, which is only to be freed until it is done. 1: there is more; 0: that was all; -ENOMEM. */
int list_copy_some(struct list *to, const struct list *from, struct packed_copying *c);

/* The view of what an entry of a list points to. */
struct list list_view(struct memory *m, enum entry_encoding encoding, void *container);

/* Prefetch of what is at an end, in so many steps, from 0 on: each needs what the one before brought. */
#define LIST_PREFETCH_STEPS 4u
void list_prefetch(const struct list *x, enum list_end end, uint32_t step);

#endif
