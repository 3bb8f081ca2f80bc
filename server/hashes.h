/* What the families of hash commands share: a hash as a command works with it. On the shard's holder. */
#ifndef SERVER_HASHES_H
#define SERVER_HASHES_H

#include "server/command.h"
#include "shard/fields.h"

struct hash {
    struct key key;
    struct fields fields;
    int64_t now_ms;
};

/* A field whose time is past is not there: some may be left, as too many are past theirs to be gone already, or as nothing may be taken out now. */
static inline bool hash_is_live(const struct hash *x, const struct field *f) { return f->expires_at_ms >= x->now_ms; }
/* Whether there may be some. */
static inline bool hash_has_dead(const struct hash *x) { return x->key.entry && entry_fields_time(x->key.entry) < x->now_ms; }

/* The hop's key; empty if it is not there. False: it is of another type, and that is replied. */
bool hash_open_read(struct shard *s, const struct hop *h, struct hash *x, struct reply *r);
bool hash_open_write(struct shard *s, const struct hop *h, struct hash *x, struct reply *r);
/* The first of these for a hop that may be a slice. */
bool hash_open_slice(struct shard *s, const struct hop *h, struct hash *x, struct reply *r);
/* A field that is there. */
bool hash_find(const struct hash *x, const struct arg *name, struct field *out);
/* What fields argv[at], argv[at + 2] ... before argv[to] may take, bytes, with what is behind them; and a hash beside its fields. */
uint64_t hash_pairs_need(const struct hop *h, uint32_t at, uint32_t to);
#define HASH_OVERHEAD 640u /* a page's slack, a step of a map */
/* Whether the fields argv[first], argv[first + 2] ... may be set to what is behind them. The error is replied. */
bool hash_may_set(struct shard *s, const struct hop *h, const struct hash *x, uint32_t first, struct reply *r);
/* Sets a field to these bytes, whose blob it takes over if they are in one, and to this time. 1: it is new; 0: it was there; or -ENOMEM. */
int hash_set(struct hash *x, const struct arg *name, struct arg *value, int64_t expires_at_ms);
/* Once fields were set: a field or value longer than the limit, or too many fields, make clients see the large encoding, for good. */
void hash_show_large(struct hash *x, bool long_text);
bool hash_is_long(const struct arg *a);

/* hash_random.c */
hop_fn hrandfield;
hop_drop_fn field_drawing_drop;

/* A string in packed form, as a bulk. */
void reply_packed(struct reply *r, const uint8_t *at);

#endif
