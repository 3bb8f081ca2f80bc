/* An entry: one key with its value, or with what leads to its value. One block of the shard's memory.
 *
 *   byte 0      bits 0-2 type, bits 3-5 encoding, bit 6 has an expiry time, bit 7 long key
 *   byte 1      access clock (ENTRY_ACCESS_UNIT_S seconds, modulo 256), written only when it changes
 *   byte 2      key size (long key: 0)
 *   byte 3      value size if it is embedded (INT: 1, 2, 4 or 8); 8 if the times of a hash's fields are looked after; else 0
 *   [4 bytes]   key size, if the key is long (> 255 bytes)
 *   [8 bytes]   expiry time, ms of the Unix epoch, if it has one
 *   [8 bytes]   pointer to the value, if it is not embedded
 *   key bytes
 *   [value]     if embedded (at the end, so that it can be overwritten in place within the block's class)
 *   [8 bytes]   of a hash whose fields have times: no field is past its time before this, ms; INT64_MAX: none has one any more
 *
 * Nothing is aligned but the block (8 bytes). An entry belongs to its shard; no pointer to one outlives a hop or a call that may insert,
 * overwrite or move. Only keyspace.c writes entries that are in a table.
 */
#ifndef SHARD_ENTRY_H
#define SHARD_ENTRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum entry_type { TYPE_STRING, TYPE_LIST, TYPE_SET, TYPE_ZSET, TYPE_HASH, TYPE_STREAM };
/* Encodings of strings. ENC_RAW is embedded as well; only OBJECT ENCODING tells it from ENC_EMBEDDED (APPEND and SETRANGE make it). */
enum entry_encoding {
    ENC_INT,
    ENC_EMBEDDED,
    ENC_RAW,
    ENC_BLOB,
    /* Of containers: fields.h; intset.h. */
    ENC_PAGE,
    ENC_MAP,
    ENC_INTSET,
    /* Of lists: node.h, list.h. The numbers are those of encodings that only strings have. */
    ENC_NODE = ENC_INT,
    ENC_CHAIN = ENC_EMBEDDED,
    /* Of a large zset: zset.h. */
    ENC_RANKED = ENC_RAW,
};
#define ENTRY_KIND(type, encoding) ((uint8_t)((type) | (encoding) << 3))

#define ENTRY_ACCESS_UNIT_S 16u
#define ENTRY_HEADER 4u
#define ENTRY_EMBEDDED_MAX 255u
/* What clients know as embstr: up to this size; a longer string is shown as raw (Redis' limit). */
#define ENTRY_EMBSTR_MAX 44u
/* Room for any int64 in decimal. */
#define INT64_TEXT_SIZE 21u

struct memory;
struct blob;
struct trash;

struct entry {
    uint8_t kind, access, key_size, value_size;
    char rest[];
};
_Static_assert(sizeof(struct entry) == ENTRY_HEADER, "the header is 4 bytes");

enum { ENTRY_TYPE = 7, ENTRY_EXPIRES = 1 << 6, ENTRY_LONG_KEY = 1 << 7 };

static inline enum entry_type entry_type(const struct entry *e) { return (enum entry_type)(e->kind & ENTRY_TYPE); }
static inline enum entry_encoding entry_encoding(const struct entry *e) { return (enum entry_encoding)(e->kind >> 3 & 7); }
static inline bool entry_expires(const struct entry *e) { return e->kind & ENTRY_EXPIRES; }
static inline bool entry_is_embedded(const struct entry *e) { return entry_type(e) == TYPE_STRING && entry_encoding(e) != ENC_BLOB; }

static inline uint32_t entry_key_size(const struct entry *e) {
    if (__builtin_expect(!(e->kind & ENTRY_LONG_KEY), 1)) return e->key_size;
    uint32_t n;
    memcpy(&n, e->rest, sizeof n);
    return n;
}

static inline size_t entry_expiry_offset(const struct entry *e) { return e->kind & ENTRY_LONG_KEY ? 4u : 0u; }
static inline size_t entry_pointer_offset(const struct entry *e) { return entry_expiry_offset(e) + (entry_expires(e) ? 8u : 0u); }
static inline const char *entry_key(const struct entry *e) { return e->rest + entry_pointer_offset(e) + (entry_is_embedded(e) ? 0u : 8u); }
/* The embedded value's bytes. */
static inline char *entry_value(const struct entry *e) { return (char *)entry_key(e) + entry_key_size(e); }

/* ms of the Unix epoch; INT64_MAX if it has none. */
static inline int64_t entry_expiry(const struct entry *e) {
    if (!entry_expires(e)) return INT64_MAX;
    int64_t at;
    memcpy(&at, e->rest + entry_expiry_offset(e), sizeof at);
    return at;
}
static inline void entry_write_expiry(struct entry *e, int64_t at_ms) { memcpy(e->rest + entry_expiry_offset(e), &at_ms, sizeof at_ms); }

static inline void *entry_pointer(const struct entry *e) {
    void *p;
    memcpy(&p, e->rest + entry_pointer_offset(e), sizeof p);
    return p;
}
static inline void entry_write_pointer(struct entry *e, void *p) { memcpy(e->rest + entry_pointer_offset(e), &p, sizeof p); }

static inline bool entry_has_key(const struct entry *e, const char *key, uint32_t size) {
    return entry_key_size(e) == size && !memcmp(entry_key(e), key, size);
}

/* Bytes of the block of an entry (the value behind a pointer not counted). */
static inline size_t entry_size(const struct entry *e) {
    return ENTRY_HEADER + entry_pointer_offset(e) + (entry_is_embedded(e) ? 0u : 8u) + entry_key_size(e) + e->value_size;
}

/* Whether the times of its fields are looked after. */
static inline bool entry_is_timed(const struct entry *e) { return entry_type(e) != TYPE_STRING && e->value_size; }
/* No field is past its time before this; INT64_MAX: none has a time. */
static inline int64_t entry_fields_time(const struct entry *e) {
    if (!entry_is_timed(e)) return INT64_MAX;
    int64_t at;
    memcpy(&at, entry_value(e), sizeof at);
    return at;
}
static inline void entry_write_fields_time(struct entry *e, int64_t at_ms) { memcpy(entry_value(e), &at_ms, sizeof at_ms); }
/* When there is something to do about it: its own time, or that of its fields. */
static inline int64_t entry_due(const struct entry *e) {
    int64_t at = entry_expiry(e), fields = entry_fields_time(e);
    return at < fields ? at : fields;
}

/* Past its time? As Redis: not yet in the very millisecond of it. */
static inline bool entry_expired(const struct entry *e, int64_t now_ms) { return entry_expires(e) && now_ms > entry_expiry(e); }

/* The access clock at a time. */
static inline uint8_t entry_access_at(int64_t now_ms) { return (uint8_t)((uint64_t)now_ms / (ENTRY_ACCESS_UNIT_S * 1000u)); }

/* A new entry, in no table: header, key and expiry time (INT64_MAX: none) are written; the value (value_size bytes, 0 if it is behind a pointer) or
 * the pointer is left for the caller. kind: ENTRY_KIND. NULL when memory is refused. */
struct entry *entry_new(struct memory *m, const char *key, uint32_t key_size, uint8_t kind, int64_t expire_at_ms, uint8_t value_size);
/* The same without a time, with its value, into a block that is there. */
static inline void entry_write_short(
    struct entry *e, uint8_t kind, uint8_t access, const char *key, uint32_t key_size, const char *value, size_t value_size) {
    *e = (struct entry){kind, access, (uint8_t)key_size, (uint8_t)value_size};
    memcpy(e->rest, key, key_size);
    memcpy(e->rest + key_size, value, value_size);
}
/* Frees an entry that is in no table (any more), and lets go of the value behind it; a large container is hung in *large, to be freed in slices (NULL: at once). */
void entry_drop(struct memory *m, struct entry *e, struct trash **large);

/* The bytes of a string. Integers are written to scratch (INT64_TEXT_SIZE bytes). */
const char *entry_string(const struct entry *e, char *scratch, size_t *size);
size_t entry_string_size(const struct entry *e);
/* The integer of an ENC_INT entry. */
int64_t entry_int(const struct entry *e);
/* Writes an integer in as few bytes as it takes (1, 2, 4 or 8); returns how many: the embedded form of ENC_INT. */
uint8_t entry_pack_int(int64_t v, char out[8]);
/* The blob of a string that has one, else NULL. */
static inline struct blob *entry_blob(const struct entry *e) {
    return entry_encoding(e) == ENC_BLOB && entry_type(e) == TYPE_STRING ? entry_pointer(e) : NULL;
}

/* Parses a decimal integer as Redis does for values (no sign +, no spaces, no leading zeros, "-0" refused). */
bool parse_int64(const char *p, size_t size, int64_t *out);
/* Writes v in decimal, no NUL; returns the size: at most 20. */
unsigned format_int64(char *out, int64_t v);

#endif
