/* Keys: looking them up, and the one funnel through which they change.
 *
 * Every change of a key, by command, expiry or load, goes through key_before_change and key_after_change; nothing else writes an entry
 * that is in a table. Whoever wants to know of changes (the dirty count, watched keys, who waits for a key) is called there.
 *
 * struct key is what a lookup found. It dies with the hop, and with any call here that inserts, replaces or removes
 * another key; calls that change this key keep it up to date.
 */
#ifndef SHARD_KEYSPACE_H
#define SHARD_KEYSPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shard/entry.h"
#include "shard/fields.h"
#include "shard/shard.h"

struct key {
    struct db *db;
    uint64_t hash;
    const char *name;
    uint32_t size;
    table_slot *slot;    /* of the entry; NULL: not there, or not known since it was inserted: key_slot */
    struct entry *entry; /* NULL: not there */
};

/* Looks up the first key of the hop, or its nth if it has several. A key past its time is not there; it is deleted on the way (expired_lazy).
 *
 *   counts a hit or a miss   touches the access clock (unless HOP_NO_TOUCH)
 *   key_read   yes           yes
 *   key_peek   yes           no      TYPE, TTL, EXISTS, OBJECT
 *   key_write  no            yes
 *   key_find   no            no      any key, not only the hop's, by who may write it
 *   key_look   no            no      the same, by who only reads: under CLIENT PAUSE a key past its time is hidden from readers, and not deleted
 */
bool key_read(struct shard *s, const struct hop *h, struct key *k);
bool key_write(struct shard *s, const struct hop *h, struct key *k);
bool key_read_nth(struct shard *s, const struct hop *h, uint32_t nth, struct key *k);
bool key_peek_nth(struct shard *s, const struct hop *h, uint32_t nth, struct key *k);
bool key_write_nth(struct shard *s, const struct hop *h, uint32_t nth, struct key *k);
bool key_find(struct shard *s, struct db *db, uint64_t hash, const char *name, uint32_t size, struct key *k);
bool key_look(struct shard *s, struct db *db, uint64_t hash, const char *name, uint32_t size, struct key *k);
/* The same, and nothing is changed whatever is past its time: a hop that goes on in slices finds what it left. */
bool key_look_again(struct shard *s, struct db *db, uint64_t hash, const char *name, uint32_t size, struct key *k);

static inline struct arg *hop_key(const struct hop *h, uint32_t nth) { return &h->argv[hop_key_at(h->key_first, h->key_step, nth)]; }
static inline uint64_t hop_hash(const struct hop *h, uint32_t nth) { return h->hashes ? h->hashes[nth] : h->hash; }

/* For a loop over the keys of a hop with several: call key_prefetch_ahead before each, so that the cache misses of a group of them overlap. */
void key_prefetch_group(const struct shard *s, const struct hop *h, uint32_t first);
static inline void key_prefetch_ahead(const struct shard *s, const struct hop *h, uint32_t nth) {
    if (nth % HOP_GROUP == 0 && h->hashes) key_prefetch_group(s, h, nth);
}

/* What a change is, for those who listen. */
enum key_event {
    KEY_SET,
    KEY_APPEND,
    KEY_SETRANGE,
    KEY_INCR,
    KEY_SETBIT,
    KEY_PFADD,
    KEY_PFCOUNT, /* what a HyperLogLog keeps of its estimate */
    KEY_EXPIRE,
    KEY_PERSIST,
    KEY_DEL,
    KEY_EXPIRED,
    KEY_RENAME_FROM,
    KEY_RENAME_TO,
    KEY_COPY_TO,
    KEY_RESTORE,
    KEY_MOVE_FROM,
    KEY_MOVE_TO,
    KEY_FLUSH,
    KEY_LOADED,
    KEY_HSET,
    KEY_HDEL,
    KEY_HINCR,
    KEY_HEXPIRE,
    KEY_HPERSIST,
    KEY_HEXPIRED,
    KEY_SADD,
    KEY_SREM,
    KEY_SPOP,
    KEY_STORE, /* the result of SUNIONSTORE and the like */
    KEY_LPUSH,
    KEY_RPUSH,
    KEY_LPOP,
    KEY_RPOP,
    KEY_LSET,
    KEY_LINSERT,
    KEY_LREM,
    KEY_LTRIM,
    KEY_ZADD,
    KEY_ZINCR,
    KEY_ZREM,
    KEY_ZPOP,
};

/* The funnel. Inline, as its listeners are the count of changes, the snapshot that is being written, and the keys that are watched or waited for, of which there are mostly
 * none; what expires or is loaded is no change, and what moves is one. Before a change may be said more than once of it. */
void key_tell(struct shard *s, const struct key *k);
void key_image(struct shard *s, struct key *k);
static inline void key_before_change(struct shard *s, struct key *k, enum key_event event) {
    (void)event;
    if (__builtin_expect(s->snapshot != NULL, 0) && k->entry) key_image(s, k);
}
static inline void key_after_change(struct shard *s, struct key *k, enum key_event event) {
    const uint64_t silent =
        1ull << KEY_EXPIRED | 1ull << KEY_RENAME_FROM | 1ull << KEY_MOVE_FROM | 1ull << KEY_LOADED | 1ull << KEY_HEXPIRED;
    s->stats.dirty += !(silent >> event & 1);
    if (__builtin_expect((s->watches.n | s->waits.n) != 0, 0)) key_tell(s, k);
}

/* A time for key_set_*: */
#define EXPIRY_NONE INT64_MAX /* the key has no expiry time afterwards */
#define EXPIRY_KEEP INT64_MIN /* it keeps what it has */

/* How a string is kept: as an integer if it reads like one (as Redis recognises them: up to 20 characters, canonical); never so (INCRBYFLOAT);
 * never so, and shown as raw whatever its size (APPEND, SETRANGE). */
enum key_form { FORM_ANY, FORM_TEXT, FORM_RAW };

/* What refuses memory: the system; or the budget (shard.h), where a call of these takes more than it gives back: key_set_*, key_make_writable,
 * key_copy_from. */

/* Whether all keys of a hop may be set to the arguments behind them (MSET): so that what is refused is refused before the first is set. */
bool key_may_set_all(struct shard *s, const struct hop *h);
/* Bytes that it takes on this shard, about; and whatever is there already, on all shards together, at most: keys at first, first + step, ... of argv, their values
 * behind them. */
uint64_t key_set_all_needs(struct shard *s, const struct hop *h);
uint64_t keys_set_most(const struct arg *argv, uint32_t first, uint32_t step, uint32_t n);

/* Sets a string value, creating or replacing the key (of whatever type). v as an argument: a blob is taken over. 0, or -ENOMEM with nothing changed. */
int key_set_arg(struct shard *s, struct key *k, struct arg *v, int64_t expire_at_ms, enum key_event event);
/* The same for bytes that live elsewhere (not inside an entry). */
int key_set_bytes(
    struct shard *s, struct key *k, const char *v, size_t size, enum key_form form, int64_t expire_at_ms, enum key_event event);
int key_set_int(struct shard *s, struct key *k, int64_t v, int64_t expire_at_ms, enum key_event event);
/* Makes the string exactly size bytes (zero-filled where it grows; created if absent), not shared and not an integer, and gives its bytes to write
 * to: APPEND, SETRANGE. Keeps the expiry time. spare: it may grow again soon. key_before_change is behind you: fill, then call key_after_change.
 * NULL: no memory, nothing changed. */
char *key_make_writable(struct shard *s, struct key *k, size_t size, bool spare, enum key_event event);

/* Sets or takes away (EXPIRY_NONE) the expiry time of a key that is there. 0, or -ENOMEM with nothing changed. */
int key_set_expiry(struct shard *s, struct key *k, int64_t at_ms, enum key_event event);
/* Before fields of a hash that is there get times of which this is the earliest: that is remembered, and armed. 0, or -ENOMEM with nothing changed. */
int key_time_fields(struct shard *s, struct key *k, int64_t at_ms);
/* Once fields were taken out: when the next one is due (EXPIRY_NONE: never) is remembered, and the key armed anew, whose record is used up. */
void key_retime_fields(struct shard *s, struct key *k, int64_t at_ms);
/* Deletes a key that is there. Its timer record, if it has an expiry time, is counted stale; not so for KEY_EXPIRED, which is said by whoever
 * took that record out of the wheel. */
void key_delete(struct shard *s, struct key *k, enum key_event event);

/* The place of a key that is there. */
table_slot *key_slot(struct key *k);

static inline const char *key_string(const struct key *k, char *scratch, size_t *size) { return entry_string(k->entry, scratch, size); }

/* Puts src's value (of the same or of another shard) under dst's name, replacing what is there, with this expiry time: COPY. A large value of the
 * same shard is shared, not copied. 0, or -ENOMEM with nothing changed. dst must not be src's own key. */
int key_copy_from(struct shard *s, struct key *dst, const struct entry *src, int64_t expire_at_ms, enum key_event event);
/* The same, and deletes src from its shard (which may be s): RENAME, MOVE. A large value changes hands, it is not copied. */
int key_move_from(struct shard *s, struct key *dst, struct shard *src_shard, struct key *src, enum key_event from, enum key_event to);

/* key_copy_from in parts, of a container that stays as it is meanwhile. What is begun is in c; about `cost` bytes are copied at once. asks: the budget is asked. 1: there is more; 0:
 * it is done; -ENOMEM: nothing changed, and nothing is left of it. */
struct container_copying;
#define KEY_COPY_COST (64 << 10) /* some 50 us, and up to 200 where all of its memory is touched for the first time */
int key_copy_some(
    struct shard *s, struct key *dst, const struct entry *src, struct container_copying *c, int64_t cost, bool asks, enum key_event event);

/* RENAME of a string between shards that nobody holds together, in two halves. key_lift: the key goes, and comes back as an entry that belongs to no shard. NULL: no
 * memory, nothing changed. key_land: puts its value under dst's name, and frees it; or -ENOMEM with nothing changed. */
struct entry *key_lift(struct shard *s, struct key *k, enum key_event event);
int key_land(struct shard *s, struct key *dst, struct entry *lifted, enum key_event event);
/* A copy of an entry to be read elsewhere, to be freed with entry_end_loan(); it holds a reference to the entry's blob, which its shard must be given back. A
 * container is read where it lies, as long as somebody has an intent on its key. NULL: no memory. */
struct entry *entry_lend(const struct entry *e);
/* Frees what entry_lend or key_lift gave (or NULL), without its value. Any thread. */
void entry_end_loan(struct entry *e);

/* Containers. A command opens the value, changes it (between key_before_change and key_after_change), and stores it again. */

/* The fields of a hash or a set of fields; empty if the key is not there. */
struct fields key_fields(struct shard *s, const struct key *k);
/* What became of them: under a new key, at the old one, or if they are empty, the key is deleted, and that is told. -ENOMEM (of a new key only): they are freed. */
int key_store_fields(struct shard *s, struct key *k, enum entry_type type, struct fields *f, enum key_event event);
/* The same for any container, whose encoding may have changed. NULL: it is empty. -ENOMEM (of a new key only): it is still the caller's. */
int key_store(struct shard *s, struct key *k, enum entry_type type, enum entry_encoding encoding, void *container, enum key_event event);
/* A container becomes the value of a key of whatever kind, without an expiry time, and that is told. -ENOMEM with nothing changed: it is still the caller's. */
int key_replace(struct shard *s, struct key *k, enum entry_type type, enum entry_encoding encoding, void *container, enum key_event event);
/* The same with a time, and (EXPIRY_NONE: never) when the first of a hash's fields is due. */
int key_replace_timed(struct shard *s, struct key *k, enum entry_type type, enum entry_encoding encoding, void *container,
    int64_t expire_at_ms, int64_t fields_ms, enum key_event event);
/* Whether the key's value, or a new key with one, may take so many bytes more. */
bool key_may_take(struct shard *s, const struct key *k, size_t bytes);
/* What its entry will take: nothing if it is there. */
size_t key_entry_needs(const struct key *k);

/* Seconds since the key was last touched. */
uint32_t key_idle_s(const struct shard *s, const struct entry *e);
/* As if a key that is there was last touched so many seconds ago, or as long ago as can be told. */
void key_set_idle(struct shard *s, struct key *k, uint64_t idle_s);
/* All bytes that the key costs: entry, value, its share of the table (a slot, a fingerprint, rounded up). */
size_t key_memory(const struct entry *e);

#endif
