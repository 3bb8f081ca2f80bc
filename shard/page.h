/* A page: a few members of a container in one block, found by their fingerprints. All of a small hash or set is one; a large one has many (fieldmap.h).
 *
 *   | n, room, flags, block, used | fingerprint, size | fingerprint, size | ... room pairs | item | item | ...
 *
 * An item is a name in packed form, then perhaps a value in packed form, then perhaps 8 bytes of time: its size tells. Items are in the order in which
 * they were added. A lookup touches the line of the pairs and that of the item: eight pairs are compared at once (page_match.h), and the sizes of those before
 * the match are added up on the way.
 *
 * A page belongs to its shard. Every call that adds, resizes or removes may move it, and ends all pointers into it. NULL is an empty page.
 */
#ifndef SHARD_PAGE_H
#define SHARD_PAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shard/packed.h"

#define PAGE_ITEMS_MAX 240u
#define PAGE_ITEM_MAX 255u
#define PAGE_BYTES_MAX 60000u

struct memory;

struct page {
    uint8_t n, room; /* items; pairs that there is room for, a multiple of 4 */
    uint8_t flags;   /* the owner's */
    uint8_t unused;
    uint16_t block; /* bytes of the block, by 8 */
    uint16_t used;  /* bytes of items */
    uint8_t bytes[];
};

/* A place in a page. */
struct page_at {
    uint32_t index, offset;
};

static inline uint8_t *page_item(struct page *p, uint32_t offset) { return p->bytes + 2u * p->room + offset; }
static inline uint8_t page_fingerprint(const struct page *p, uint32_t index) { return p->bytes[2 * index]; }
static inline uint8_t page_item_size(const struct page *p, uint32_t index) { return p->bytes[2 * index + 1]; }

/* Where the item with this name is. */
bool page_find(const struct page *p, uint8_t fingerprint, const struct packed *name, struct page_at *at);
/* The next item with this fingerprint, from one of index `from` on; *more: there are others behind it. */
bool page_find_fingerprint(const struct page *p, uint8_t fingerprint, uint32_t from, struct page_at *at, bool *more);
/* Of the nth item. */
struct page_at page_nth(const struct page *p, uint32_t index);

/* Makes room for an item at the end, whose bytes the caller writes at once. NULL: no memory (or full), nothing changed. */
uint8_t *page_add(struct memory *m, struct page **p, uint8_t fingerprint, uint32_t size);
/* The same for an item before the one that is there. */
uint8_t *page_insert(struct memory *m, struct page **p, struct page_at at, uint8_t fingerprint, uint32_t size);
/* Gives an item another size. Its bytes are lost; the caller writes them at once. NULL: no memory, nothing changed. */
uint8_t *page_resize(struct memory *m, struct page **p, struct page_at at, uint32_t size);
/* Moves an item to where the one at `to` is: those between make room. Returns its bytes. */
uint8_t *page_move(struct page *p, struct page_at from, struct page_at to);
/* Takes an item out, as bytes: what it refers to is the caller's. An empty page is freed: *p is NULL then. */
void page_remove(struct memory *m, struct page **p, struct page_at at);
/* Frees the block, without what its items refer to. */
void page_free(struct memory *m, struct page *p);
/* Copies a page into *to, in parts, with what its items refer to: begins with *to NULL. 1: there is more; 0: all is there; -ENOMEM. */
int page_copy_some(struct memory *m, struct page **to, const struct page *from, struct packed_copying *c);

/* Moves the items marked in goes (one for each) to a page of their own. NULL: no memory, nothing changed. Some but not all are marked. */
struct page *page_part(struct memory *m, struct page **p, const bool *goes);
/* Appends all of from's items, and frees it. False: no memory, or too many; nothing changed. */
bool page_join(struct memory *m, struct page **p, struct page *from);

/* The earliest time in a page. */
#define PAGE_NEVER INT64_MAX /* it has none */
int64_t page_first_time(const struct page *p);

/* Bytes of the block. */
static inline size_t page_memory(const struct page *p) { return p ? 8u * p->block : 0; }
/* What page_add or page_resize may take more than it gives back, at most. */
size_t page_needs(const struct page *p, uint32_t more);

#endif
