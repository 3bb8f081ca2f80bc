/* Sorted sets: members, each with a score, in the order of (score, member's bytes).
 *
 * A small one is a page (page.h) whose items lie in that order, each with its score behind its name:
 *
 *   | n ... | fingerprint, size | ... | member, score | member, score | ...
 *
 * From ZSET_PAGE_ITEMS or ZSET_PAGE_BYTES on it is a fieldmap of members with their scores, and an order of their hashes beside it (ranked.h), for good.
 * What clients are told about the encoding is another thing: zset_is_shown_large().
 *
 * struct zset is a view that is opened from an entry and stored into it again (zset_open, zset_store): what is behind it moves. It belongs to the shard.
 * A struct zset_item and a walk die with the next call that changes the zset. What one member costs: O(1) to find; O(log n) to add, to remove, to rank, and to begin
 * a walk anywhere.
 */
#ifndef SHARD_ZSET_H
#define SHARD_ZSET_H

#include "shard/fields.h"
#include "shard/keyspace.h"
#include "shard/ranked.h"

#define ZSET_PAGE_ITEMS FIELDS_PAGE_ITEMS
#define ZSET_PAGE_BYTES FIELDS_PAGE_BYTES

struct zset {
    struct memory *memory;
    const struct hash_secret *secret;
    struct page *page; /* of the two at most one; none: it is empty */
    struct zset_large *large;
};

struct zset_item {
    double score;
    const uint8_t *member; /* packed: zset_text */
    struct page_at at;
    struct page **place; /* of the page, in a fieldmap; else NULL */
};

/* ---- from an entry, and back ---- */

/* An empty one of this shard. */
struct zset zset_new(struct shard *s);
/* That of a key that is one (TYPE_ZSET); empty if the key is not there. */
struct zset zset_open(struct shard *s, const struct key *k);
/* What became of it, once it was changed by this event: it is told, and an empty one deletes its key, which is told too. key_before_change is
 * behind you. -ENOMEM (of a new key only): it is freed. */
int zset_store(struct shard *s, struct key *k, struct zset *x, enum key_event event);
/* It will be changed on, but may lie elsewhere: nothing is told. It is not empty. -ENOMEM (of a new key only): it is freed. */
int zset_keep(struct shard *s, struct key *k, struct zset *x, enum key_event event);
/* It becomes the value of a key of whatever kind, which has no expiry time then; an empty one deletes it. -ENOMEM, with the key as it was: it is freed. */
int zset_replace(struct shard *s, struct key *k, struct zset *x, enum key_event event);
/* Frees it, a large one in slices. */
void zset_drop(struct shard *s, struct zset *x);

/* ---- as a whole ---- */

static inline bool zset_is_empty(const struct zset *x) { return !x->page && !x->large; }
uint64_t zset_count(const struct zset *x);
/* Bytes of all of it. */
size_t zset_memory(const struct zset *x);
/* Whether clients are shown the large encoding (skiplist). Not for empty ones. Whoever adds members says so once they cross a limit of the configuration. */
bool zset_is_shown_large(const struct zset *x);
void zset_show_large(struct zset *x, bool large);
/* What is shown as a small one has no -0 in Redis: those become 0. -ENOMEM: not all did. */
int zset_drop_signs(struct zset *x);

/* ---- members ---- */

/* A member to be looked for, with its hash. */
void zset_name(const struct zset *x, const char *p, uint32_t size, struct field_name *out);
/* A member's text; an integer's is written to scratch. */
static inline const char *zset_text(const struct zset_item *m, char scratch[INT64_TEXT_SIZE], uint32_t *size) {
    return packed_text(m->member, scratch, size);
}
/* The same for a member of this or another zset: scratch is needed as long as the name. */
void zset_name_of(const struct zset *x, const struct zset_item *m, char scratch[INT64_TEXT_SIZE], struct field_name *out);
bool zset_find(const struct zset *x, const struct field_name *name, struct zset_item *out);
/* Brings what a look for n names touches on its way from memory. */
void zset_prefetch(const struct zset *x, const struct field_name *names, uint32_t n);
/* The same for one member, in this order, each after the one before has arrived: the block itself; what is in there; its page's place; its page. */
#define ZSET_STAGES 4u
void zset_prefetch_stage(const struct zset *x, uint64_t hash, unsigned stage);
/* One of them, drawn uniformly; next: 64 random bits a call. It is not empty. */
void zset_random(const struct zset *x, uint64_t (*next)(void *), void *arg, struct zset_item *out);
/* How many lie before one that zset_find found. */
uint64_t zset_rank(const struct zset *x, const struct field_name *name, const struct zset_item *m);
/* Adds it, or gives the one that is there (was: what zset_find found, NULL: nothing) this score, which is not NaN. 0, or -ENOMEM with nothing changed. The
 * name's bytes must not lie in the zset. A block of its own (packed_adopt), of one that is not there, is the zset's then, or gone. */
int zset_put(struct zset *x, const struct field_name *name, const struct zset_item *was, double score);
/* Takes out what zset_find found. The last one leaves it empty. */
void zset_remove(struct zset *x, const struct field_name *name, const struct zset_item *m);
/* What zset_put may take at most, bytes, of several members together; of each: zset_needs_member. */
size_t zset_needs(const struct zset *x, uint32_t members);
size_t zset_needs_member(const struct field_name *name);

/* ---- ranks ---- */

/* A bound lies between two members: before or behind all that equal it. By score; or by the member's bytes, which means something where all scores are equal. A range
 * between two bounds is that between two ranks:
 *
 *   from = zset_before(x, &min), to = zset_before(x, &max): if from < to, the members of ranks [from, to) */
struct zset_bound {
    enum { ZSET_BY_SCORE, ZSET_BY_MEMBER, ZSET_FIRST, ZSET_LAST } by; /* FIRST: before all; LAST: behind all */
    bool after; /* behind what equals it: of a minimum that is excluded, or a maximum that is included */
    double score;
    const char *text;
    uint32_t size;
};
/* How many members lie before the bound. */
uint64_t zset_before(const struct zset *x, const struct zset_bound *b);

/* The member of a rank below zset_count(). */
void zset_at(const struct zset *x, uint64_t rank, struct zset_item *out);
/* Removes the members of ranks [from, from + n), which are there. */
void zset_remove_range(struct zset *x, uint64_t from, uint64_t n);

/* Walks through n members, or as many as there are, from this rank on, up or down. Nothing may be changed in between. */
struct zset_walk {
    uint64_t rank, left;
    bool down;
    const struct leaf *leaf;
    struct page_at at;
};
void zset_begin(const struct zset *x, struct zset_walk *w, uint64_t rank, uint64_t n, bool down);
bool zset_next(const struct zset *x, struct zset_walk *w, struct zset_item *out);

/* The cursor scan: visits some members, and returns the next cursor, 0 at the end. What is there all the time is visited. A small one is visited as a whole, in order. */
typedef void zset_visit(void *arg, const struct zset_item *m);
uint64_t zset_scan(const struct zset *x, uint64_t cursor, zset_visit *visit, void *arg);

/* ---- for container.c ---- */

/* The members with their scores in packed form, in no order; only to look at. */
struct fields zset_fields(const struct zset *x);
/* The score of one of these. */
double zset_field_score(const struct field *x);

/* secret: not needed of a large one; of a small one only to look for members and to add some. */
struct zset zset_of(struct memory *m, const struct hash_secret *secret, enum entry_encoding encoding, void *container);
/* What is to be written into the entry; NULL: it is empty. */
void *zset_container(const struct zset *x, enum entry_encoding *encoding);
/* Frees it at once; or, a large one, hangs it in *large. */
void zset_free(struct zset *x, struct trash **large);
/* Copies one of this or another shard into to's memory, in parts: begins with an empty one, which is only to be freed until it is done. 1: there is more; 0: that was all; -ENOMEM. */
int zset_copy_some(struct zset *to, const struct zset *from, struct packed_copying *c);

#endif
