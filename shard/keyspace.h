/* Keys: looking them up, and the one funnel through which they change.
 *
 * Every change of a key, by command, expiry or load, goes through key_before_change and key_after_change; nothing else writes an entry
 * that is in a table. Whoever wants to know of changes (the dirty count today) is called there.
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
#include "shard/shard.h"

struct blob;

struct key {
    struct db *db;
    uint64_t hash;
    const char *name;
    uint32_t size;
    table_slot *slot;       /* NULL: not there */
    struct entry *entry;    /* NULL: not there */
};

/* Looks up argv[at] of the hop (hash: of that key). A key past its time is not there; it is deleted on the way (expired_lazy). key_read
 * counts a hit or a miss and touches the access clock (unless HOP_NO_TOUCH); key_find does neither; key_write touches only. */
bool key_read(struct shard *s, const struct hop *h, struct key *k);
bool key_write(struct shard *s, const struct hop *h, struct key *k);
bool key_find(struct shard *s, struct db *db, uint64_t hash, const char *name, uint32_t size, struct key *k);
/* As key_read and key_write for the nth key of a hop with several. */
bool key_read_nth(struct shard *s, const struct hop *h, uint32_t nth, struct key *k);
bool key_write_nth(struct shard *s, const struct hop *h, uint32_t nth, struct key *k);

/* What a change is, for those who listen. */
enum key_event { KEY_SET, KEY_APPEND, KEY_SETRANGE, KEY_INCR, KEY_EXPIRE, KEY_PERSIST, KEY_DEL, KEY_EXPIRED, KEY_RENAME_FROM, KEY_RENAME_TO,
    KEY_COPY_TO, KEY_MOVE_FROM, KEY_MOVE_TO, KEY_FLUSH, KEY_LOADED };

/* A time for key_set_*: */
#define EXPIRY_NONE INT64_MAX       /* the key has no expiry time afterwards */
#define EXPIRY_KEEP INT64_MIN       /* it keeps what it has */

/* Sets a string value, creating or replacing the key (of whatever type). v as an argument: a blob is taken over. Integers (as Redis
 * recognises them: up to 20 characters, canonical) are stored as integers. 0, or -ENOMEM with nothing changed. */
int key_set_arg(struct shard *s, struct key *k, struct arg *v, int64_t expire_at_ms, enum key_event event);
/* The same for bytes that live elsewhere (not inside an entry). raw: made by APPEND or SETRANGE: never an integer, shown as raw. */
int key_set_bytes(struct shard *s, struct key *k, const char *v, size_t size, bool raw, int64_t expire_at_ms, enum key_event event);
int key_set_int(struct shard *s, struct key *k, int64_t v, int64_t expire_at_ms, enum key_event event);
/* Makes the string exactly size bytes (zero-filled where it grows; created if absent), not shared and not an integer, and gives its bytes to write
 * to: APPEND, SETRANGE. Keeps the expiry time. spare: how much more it may want next time. Fill, then nothing more to call. NULL: no memory, nothing changed. */
char *key_make_writable(struct shard *s, struct key *k, size_t size, bool spare, enum key_event event);

/* Sets or takes away (EXPIRY_NONE) the expiry time. 0 or -ENOMEM. */
int key_set_expiry(struct shard *s, struct key *k, int64_t at_ms, enum key_event event);
/* Deletes a key that is there. Large values are freed bit by bit. */
void key_delete(struct shard *s, struct key *k, enum key_event event);

/* The bytes of a string. Integers are written to scratch (at least 21 bytes). */
const char *key_string(const struct key *k, char *scratch, size_t *size);
const char *entry_string(const struct entry *e, char *scratch, size_t *size);
size_t entry_string_size(const struct entry *e);
/* The integer of an ENC_INT entry. */
int64_t entry_int(const struct entry *e);
/* The blob of a string that has one, else NULL. */
struct blob *entry_blob(const struct entry *e);

/* Puts a copy of src's value (on the same or on another shard) under dst's name, replacing what is there, with this expiry time. RENAME, COPY, MOVE.
 * src_shard may be s. 0 or -ENOMEM, with nothing changed. */
int key_copy_from(struct shard *s, struct key *dst, const struct entry *src, int64_t expire_at_ms, enum key_event event);

/* Seconds since the key was last touched. */
uint32_t key_idle_s(const struct shard *s, const struct entry *e);
/* All bytes that the key costs: entry, value, its share of the table (8 + 1 bytes a slot, rounded up). */
size_t key_memory(const struct entry *e);

/* Parses a decimal integer as Redis does for values (no sign +, no spaces, no leading zeros, "-0" refused). */
bool parse_int64(const char *p, size_t size, int64_t *out);
/* Writes v in decimal; returns the length (at most 20). */
unsigned format_int64(char *out, int64_t v);

#endif
