/* Sets: an intset while all members are integers and not too many, else fields without values, for good.
 *
 * struct set is a view that is opened from an entry and stored into it again (set_open, set_store): what is behind it moves. It belongs to the shard.
 * A struct set_item dies with the next call that changes the set.
 */
#ifndef SHARD_SET_H
#define SHARD_SET_H

#include "shard/fields.h"
#include "shard/intset.h"
#include "shard/keyspace.h"

struct set {
    struct fields fields; /* tells memory and secret, even of an intset */
    struct intset *ints;  /* of the two at most one has members; none: the set is empty */
    bool no_prefetch;     /* by the shard's setting */
};

struct set_item {
    struct field field; /* name NULL: of an intset */
    int64_t number;     /* of an intset, */
    uint32_t index;     /* and its place */
};

/* An empty set of this shard. */
struct set set_new(struct shard *s);
/* The set of a key that is one; empty if the key is not there. */
struct set set_open(struct shard *s, const struct key *k);
/* What became of it, once it was changed by this event: it is told, and an empty one deletes its key, which is told too. key_before_change is
 * behind you. -ENOMEM (of a new key only): it is freed. */
int set_store(struct shard *s, struct key *k, struct set *x, enum key_event event);
/* It will be changed on, but may lie elsewhere: nothing is told. It is not empty. -ENOMEM (of a new key only): it is freed. */
int set_keep(struct shard *s, struct key *k, struct set *x, enum key_event event);
/* The set becomes the value of a key of whatever kind, which has no expiry time then; an empty one deletes it. -ENOMEM, with the key as it was: it is freed. */
int set_replace(struct shard *s, struct key *k, struct set *x, enum key_event event);
/* Frees it, a large one in slices. */
void set_drop(struct shard *s, struct set *x);

static inline bool set_is_empty(const struct set *x) { return !x->ints && fields_is_empty(&x->fields); }
static inline uint64_t set_count(const struct set *x) { return x->ints ? intset_count(x->ints) : fields_count(&x->fields); }

/* A name to be looked for, with its hash, from a client's bytes; or from a member of this or another set: scratch is needed as long as the name. */
static inline void set_name(const struct set *x, const char *p, uint32_t size, struct field_name *out) {
    field_name(&x->fields, p, size, out);
}
void set_name_of(const struct set *x, const struct set_item *m, char scratch[INT64_TEXT_SIZE], struct field_name *out);
/* A member's text; an integer's is written to scratch. */
const char *set_text(const struct set_item *m, char scratch[INT64_TEXT_SIZE], uint32_t *size);
/* What tells two members of one set apart, while nothing is changed. */
static inline const void *set_place(const struct set *x, const struct set_item *m) {
    return m->field.name ? (const void *)m->field.name : (const void *)(x->ints->bytes + m->index);
}

bool set_find(const struct set *x, const struct field_name *name, struct set_item *out);
static inline bool set_has(const struct set *x, const struct field_name *name) {
    struct set_item m;
    return set_find(x, name, &m);
}
/* 1: added; 0: it is there; -ENOMEM: nothing changed. ints_max: from more members than that on it is no intset (set-max-intset-entries).
 * A block of the name's own (packed_adopt), of one that is not there, is the set's then, or gone. */
int set_add(struct set *x, const struct field_name *name, int64_t ints_max);
/* No intset any more, for good. -ENOMEM: nothing changed. Of one with members. */
int set_convert(struct set *x);
void set_remove(struct set *x, const struct set_item *m);
/* What set_add may take at most, bytes, of several members together; of each: set_needs_member. */
size_t set_needs(const struct set *x, uint32_t members);
size_t set_needs_member(const struct field_name *name);

/* One of them, drawn uniformly; next: 64 random bits a call. It is not empty. */
void set_random(const struct set *x, uint64_t (*next)(void *), void *arg, struct set_item *out);

/* Walks through all, an intset in ascending order. Begins with a walk of zeros; nothing may be changed in between. */
struct set_walk {
    struct fields_walk fields;
    uint32_t index;
};
bool set_next(const struct set *x, struct set_walk *w, struct set_item *out);

/* The cursor scan: visits some members, and returns the next cursor, 0 at the end. What is there all the time is visited. */
typedef void set_visit(void *arg, const struct set_item *m);
uint64_t set_scan(const struct set *x, uint64_t cursor, set_visit *visit, void *arg);

/* Brings what a look for n names touches on its way from memory. */
void set_prefetch(const struct set *x, const struct field_name *names, uint32_t n);

/* Which of n <= SET_GROUP names are members, as bits; of those whose bits are in `of`. Their cache misses overlap: they are asked for first, unless that was done (set_prefetch_along). */
#define SET_GROUP 16u
uint32_t set_probe(const struct set *x, const struct field_name *names, uint32_t of, bool asked);

/* Both sets' buckets are the same bits of the same hash. So the members of a bucket that a walk comes to are looked for in one page of another set, or a few, and these can be told before the members
 * are known. Whether that is worth it: both are maps, and x is not much larger. */
bool set_walks_along(const struct set *x, const struct set *walked);
/* Of two such sets: brings the pages of x on their way that the walk will need some buckets after each of these, of `walked`. */
void set_prefetch_along(const struct set *x, const struct set *walked, uint64_t from, uint64_t to);

#endif
