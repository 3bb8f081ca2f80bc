/* Fields: the members of a hash (each with a value) or of a set (without), small or large.
 *
 * Small ones are one page, in the order in which they came; from FIELDS_PAGE_ITEMS or FIELDS_PAGE_BYTES on they are a fieldmap, for good. What clients are
 * told about the encoding is another thing: fields_flags().
 *
 * struct fields is a view that is opened from an entry and stored into it again (keyspace.h: key_fields, key_store_fields): pages move. It belongs to
 * the shard. A struct field dies with the next call that changes the fields.
 */
#ifndef SHARD_FIELDS_H
#define SHARD_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shard/fieldmap.h"

#define FIELDS_PAGE_ITEMS 128u
#define FIELDS_PAGE_BYTES 17408u
/* No time. */
#define FIELD_NEVER INT64_MAX

struct fields {
    struct memory *memory;
    const struct hash_secret *secret;
    struct page *page; /* of the two at most one; none: empty */
    struct fieldmap *map;
};

struct field {
    const uint8_t *name, *value; /* packed; value: NULL if there is none */
    int64_t expires_at_ms;       /* FIELD_NEVER: does not */
    struct page **place;
    struct page_at at;
};

static inline bool fields_is_empty(const struct fields *f) { return !f->page && !f->map; }
static inline uint64_t fields_count(const struct fields *f) { return f->map ? f->map->n : f->page ? f->page->n : 0; }
/* Bytes of all of it. */
size_t fields_memory(const struct fields *f);

/* What is remembered of them; 0 at first. Not for empty ones. */
enum { FIELDS_SHOWN_LARGE = 1 }; /* crossed a limit of the configuration once: clients are shown the large encoding */
static inline uint32_t fields_flags(const struct fields *f) { return f->map ? f->map->flags : f->page ? f->page->flags : 0; }
void fields_set_flags(struct fields *f, uint32_t flags);

/* A name to be looked for, with its hash. */
struct field_name {
    struct packed packed;
    uint64_t hash;
};
void field_name(const struct fields *f, const char *name, uint32_t size, struct field_name *out);

bool fields_find(const struct fields *f, const struct field_name *name, struct field *out);
/* The name of the one with this hash, which is there, and its place in its page. (Of two whose hashes are the same in all bits, any.) */
const uint8_t *fields_place_of(const struct fields *f, uint64_t hash, struct page_at *at);
/* Adds it, or gives the one that is there (was: what fields_find found, NULL: nothing) this value (NULL: none) and time. 0, or -ENOMEM with nothing
 * changed. The value's bytes must not lie in the fields. A block of the name's or the value's own (packed_adopt) is theirs then, or gone. */
int fields_put(struct fields *f, const struct field_name *name, const struct field *was, struct packed *value, int64_t expires_at_ms);
/* Gives one that has a value another time, or none. -ENOMEM: nothing changed. */
int fields_set_time(struct fields *f, const struct field *was, int64_t expires_at_ms);
void fields_remove(struct fields *f, const struct field *x);
/* What fields_put may take at most, bytes; a map's growth not counted, which is done later if memory is refused. */
size_t fields_needs(const struct fields *f, const struct field_name *name, const struct packed *value);

/* The earliest time; FIELD_NEVER: none has one. O(128) of small ones, else about 1 us for 5 million fields. */
int64_t fields_first_time(const struct fields *f);
/* Takes out those whose time is before this: about so many at most, a page of them more. Returns how many. */
uint32_t fields_expire(struct fields *f, int64_t before_ms, uint32_t most);

/* One of them, drawn uniformly; next: 64 random bits a call. They are not empty. */
void fields_random(const struct fields *f, uint64_t (*next)(void *), void *arg, struct field *out);

/* Walks through all, bucket by bucket. Begins with a walk of zeros, or at a bucket; nothing may be changed in between. */
struct fields_walk {
    uint64_t bucket;
    uint32_t index, offset;
};
/* A place in it as a number, below 2^56; and a walk that goes on there. 0: the beginning. */
static inline uint64_t fields_walk_place(const struct fields_walk *w) { return w->bucket << 8 | w->index; }
struct fields_walk fields_walk_at(const struct fields *f, uint64_t place);
static inline uint64_t fields_buckets(const struct fields *f) { return f->map ? f->map->buckets : f->page != NULL; }
bool fields_next(const struct fields *f, struct fields_walk *w, struct field *out);

/* The cursor scan: visits some fields, and returns the next cursor, 0 at the end. What is there all the time is visited. */
typedef void fields_visit(void *arg, const struct field *x);
uint64_t fields_scan(const struct fields *f, uint64_t cursor, fields_visit *visit, void *arg);

/* Prefetch, in this order: the place of the page, the page. */
static inline void fields_prefetch_place(const struct fields *f, uint64_t hash) {
    if (f->map) __builtin_prefetch(fieldmap_page(f->map, hash));
}
void fields_prefetch_page(const struct fields *f, uint64_t hash);

/* Adds a copy of a field of others, which is not there yet. -ENOMEM: nothing changed. */
int fields_put_copy(struct fields *f, const struct field *x);
/* Copies those of this or another shard (of the same secret), in parts: begins with empty ones, which are only to be freed until it is done. 1: there is more; 0: that was all;
 * -ENOMEM. */
int fields_copy_some(struct fields *to, const struct fields *from, struct packed_copying *c);
/* Frees them; at once. */
void fields_free(struct fields *f);

#endif
