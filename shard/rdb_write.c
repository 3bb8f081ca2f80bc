/* In this file: the buffer; lengths and strings; opcodes; entries; values, type by type. */
#include "shard/rdb_write.h"

#include <liblzf/lzf.h>
#include <mimalloc.h>
#include <string.h>

#include "shard/blob.h"
#include "shard/container.h"
#include "shard/mapping.h"
#include "shard/memory.h"

#define BUFFER_MIN 4096u
/* The head of a string that is not compressed: a length of 64 bits. */
#define LENGTH_MAX 9u
/* Strings that are compressed: shorter ones have nothing to gain; longer ones would take too long in one go. */
#define COMPRESS_MIN 21u
#define COMPRESS_MAX (32u << 10)
/* After so many in a row that did not get smaller, only one of FUTILE_TRY is tried until one does: what can't be compressed is seldom alone, and trying costs
 * several times what writing costs. */
#define FUTILE_MAX 64u
#define FUTILE_TRY 32u
/* What is written in several steps: a value, or an element of one. */
#define LARGE_BYTES (64u << 10)

/* ---- the buffer ---- */

size_t rdb_buffer_mapped(const struct rdb_buffer *b) { return b->capacity >= MAPPING_MIN ? b->capacity : 0; }

void rdb_buffer_drop(struct rdb_buffer *b) {
    size_t mapped = rdb_buffer_mapped(b);
    if (mapped) memory_unmap(b->bytes, mapped);
    else mi_free(b->bytes);
    *b = (struct rdb_buffer){0};
}

static __attribute__((noinline)) bool grow(struct rdb_buffer *b, size_t n) {
    size_t capacity = b->capacity ? b->capacity : BUFFER_MIN;
    while (capacity - b->length < n) {
        if (capacity > SIZE_MAX / 2) return false;
        capacity *= 2;
    }
    uint8_t *bytes = growing_resize(b->bytes, b->capacity, b->length, capacity);
    if (!bytes) return false;
    b->bytes = bytes;
    b->capacity = capacity;
    return true;
}

bool rdb_buffer_room(struct rdb_buffer *b, size_t n) { return __builtin_expect(b->capacity - b->length >= n, 1) || grow(b, n); }

bool rdb_put_bytes(struct rdb_buffer *b, const void *bytes, size_t n) {
    if (!rdb_buffer_room(b, n)) return false;
    if (n) memcpy(b->bytes + b->length, bytes, n);
    b->length += n;
    return true;
}

bool rdb_put_byte(struct rdb_buffer *b, uint8_t byte) { return rdb_put_bytes(b, &byte, 1); }

static bool put_little(struct rdb_buffer *b, uint64_t v, unsigned n) {
    uint8_t bytes[8];
    for (unsigned i = 0; i < n; i++) bytes[i] = (uint8_t)(v >> 8 * i);
    return rdb_put_bytes(b, bytes, n);
}

/* ---- lengths and strings ---- */

static uint8_t *write_big(uint8_t *to, uint64_t v, unsigned n) {
    for (unsigned i = n; i--;) *to++ = (uint8_t)(v >> 8 * i);
    return to;
}

/* Behind the buffer's end there is room. */
static uint8_t *write_length(uint8_t *to, uint64_t n) {
    if (n < 1u << 6) {
        *to++ = (uint8_t)n;
        return to;
    }
    if (n < 1u << 14) {
        *to++ = (uint8_t)(RDB_LENGTH_14 << 6 | n >> 8);
        *to++ = (uint8_t)n;
        return to;
    }
    *to++ = n <= UINT32_MAX ? RDB_LENGTH_32 : RDB_LENGTH_64;
    return write_big(to, n, n <= UINT32_MAX ? 4 : 8);
}

bool rdb_put_length(struct rdb_buffer *b, uint64_t n) {
    if (!rdb_buffer_room(b, LENGTH_MAX)) return false;
    b->length = (size_t)(write_length(b->bytes + b->length, n) - b->bytes);
    return true;
}

bool rdb_put_int(struct rdb_buffer *b, int64_t v) {
    char text[INT64_TEXT_SIZE];
    unsigned bytes = v == (int8_t)v ? 1 : v == (int16_t)v ? 2 : v == (int32_t)v ? 4 : 0;
    if (!bytes) {
        unsigned n = format_int64(text, v);
        return rdb_put_length(b, n) && rdb_put_bytes(b, text, n);
    }
    return rdb_put_byte(b, (uint8_t)(RDB_ENCODED | bytes >> 1)) && put_little(b, (uint64_t)v, bytes);
}

/* Puts it compressed, if that is smaller by more than it costs. False: it is not, or was not tried; nothing was put. There is room. */
static bool compressed(struct rdb_buffer *b, const char *text, size_t size) {
    uint8_t *head = b->bytes + b->length, packed[COMPRESS_MAX];
    if (b->futile++ >= FUTILE_MAX && b->futile % FUTILE_TRY) return false;
    unsigned n = lzf_compress(text, (unsigned)size, packed, (unsigned)size - 4);
    if (!n) return false;
    b->futile = 0;
    *head++ = RDB_ENCODED | RDB_LZF;
    head = write_length(write_length(head, n), size);
    memcpy(head, packed, n);
    b->length = (size_t)(head - b->bytes) + n;
    return true;
}

/* The room that a string needs, however it is put. */
static inline size_t string_room(size_t size) { return size + 1 + 2 * LENGTH_MAX; }

/* One that is known not to read like an integer. There is room. */
static inline void write_text(struct rdb_buffer *b, const char *text, size_t size, bool compress) {
    if (compress && size >= COMPRESS_MIN && size <= COMPRESS_MAX && compressed(b, text, size)) return;
    uint8_t *to = write_length(b->bytes + b->length, size);
    memcpy(to, text, size);
    b->length = (size_t)(to - b->bytes) + size;
}

static bool put_text(struct rdb_buffer *b, const char *text, size_t size, bool compress) {
    if (!rdb_buffer_room(b, string_room(size))) return false;
    write_text(b, text, size, compress);
    return true;
}

/* As Redis: what fits into 32 bits. There is room. */
static inline void write_string(struct rdb_buffer *b, const char *text, size_t size, bool compress) {
    int64_t v;
    if (size <= 11 && size && parse_int64(text, size, &v) && v == (int32_t)v) rdb_put_int(b, v);
    else write_text(b, text, size, compress);
}

bool rdb_put_string(struct rdb_buffer *b, const char *text, size_t size, bool compress) {
    if (!rdb_buffer_room(b, string_room(size))) return false;
    write_string(b, text, size, compress);
    return true;
}

/* ---- opcodes ---- */

bool rdb_put_aux(struct rdb_buffer *b, const char *name, const char *value) {
    return rdb_put_byte(b, RDB_AUX) && rdb_put_string(b, name, strlen(name), false) && rdb_put_string(b, value, strlen(value), false);
}

/* The opcode, and two strings with a byte of length each. */
#define CHUNK_MARK_BYTES (3u + sizeof RDB_CHUNK_MARK - 1 + RDB_CHUNK_DIGITS)

bool rdb_put_chunk_mark(struct rdb_buffer *b) { return rdb_put_aux(b, RDB_CHUNK_MARK, "00000000"); }

void rdb_fill_chunk_mark(struct rdb_buffer *b) {
    size_t n = b->length - CHUNK_MARK_BYTES;
    if (n >= 100000000) return; /* it would not fit */
    for (uint8_t *p = b->bytes + CHUNK_MARK_BYTES; n; n /= 10) *--p = (uint8_t)('0' + n % 10);
}

bool rdb_put_head(struct rdb_buffer *b, unsigned version) {
    char head[] = {'R', 'E', 'D', 'I', 'S', '0', '0', (char)('0' + version / 10), (char)('0' + version % 10)};
    return rdb_put_bytes(b, head, sizeof head);
}

bool rdb_put_select(struct rdb_buffer *b, uint32_t db) { return rdb_put_byte(b, RDB_SELECT) && rdb_put_length(b, db); }

bool rdb_put_resize(struct rdb_buffer *b, uint64_t keys, uint64_t expiring) {
    return rdb_put_byte(b, RDB_RESIZE) && rdb_put_length(b, keys) && rdb_put_length(b, expiring);
}

bool rdb_put_end(struct rdb_buffer *b) { return rdb_put_byte(b, RDB_END); }

/* ---- entries ---- */

enum rdb_type rdb_type_of(const struct entry *e) {
    switch (entry_type(e)) {
    case TYPE_STRING: return RDB_STRING;
    case TYPE_LIST: return RDB_LIST;
    case TYPE_SET: return RDB_SET;
    case TYPE_ZSET: return RDB_ZSET;
    case TYPE_HASH: return entry_fields_time(e) != INT64_MAX ? RDB_HASH_TIMES : RDB_HASH;
    case TYPE_STREAM: break;
    }
    __builtin_unreachable();
}

bool rdb_is_large(const struct entry *e) {
    const struct blob *b = entry_blob(e);
    if (entry_type(e) == TYPE_STRING) return b && b->size > LARGE_BYTES;
    return container_is_large(e) || container_memory(e) > LARGE_BYTES;
}

bool rdb_put_entry_head(struct rdb_buffer *b, const struct entry *e, const struct rdb_entry_options *o) {
    uint8_t type = (uint8_t)rdb_type_of(e);
    if (entry_expires(e) && !(rdb_put_byte(b, RDB_EXPIRES_MS) && put_little(b, (uint64_t)entry_expiry(e), 8))) return false;
    if (o->idle_s != RDB_NO_IDLE && !(rdb_put_byte(b, RDB_IDLE) && rdb_put_length(b, (uint64_t)o->idle_s))) return false;
    return rdb_put_byte(b, type) && rdb_put_string(b, entry_key(e), entry_key_size(e), o->compress);
}

/* The most usual entry: a string that lies within it, and no time. */
static inline bool is_plain(const struct entry *e, const struct rdb_entry_options *o) {
    return entry_type(e) == TYPE_STRING && (entry_encoding(e) == ENC_EMBEDDED || entry_encoding(e) == ENC_RAW) && !entry_expires(e) &&
        o->idle_s == RDB_NO_IDLE;
}

static bool put_plain(struct rdb_buffer *b, const struct entry *e, bool compress) {
    uint32_t key_size = entry_key_size(e);
    if (!rdb_buffer_room(b, 1 + string_room(key_size) + string_room(e->value_size))) return false;
    b->bytes[b->length++] = RDB_STRING;
    write_string(b, entry_key(e), key_size, compress);
    write_string(b, entry_value(e), e->value_size, compress);
    return true;
}

bool rdb_put_entry(struct rdb_buffer *b, struct shard *s, const struct entry *e, const struct rdb_entry_options *o) {
    if (is_plain(e, o)) return put_plain(b, e, o->compress);
    size_t before = b->length;
    struct rdb_value v;
    if (rdb_put_entry_head(b, e, o)) {
        rdb_value_begin(&v, e, o->compress);
        if (rdb_value_step(&v, s, e, b, SIZE_MAX) == RDB_DONE) return true;
    }
    b->length = before;
    return false;
}

/* ---- values ---- */

void rdb_value_begin(struct rdb_value *v, const struct entry *e, bool compress) {
    memset(v, 0, sizeof *v);
    v->type = (uint8_t)rdb_type_of(e);
    v->compress = compress;
}

/* An element's text. False: there is no memory, or its rest is left for the next steps: stopped() tells. */
static bool put_element(struct rdb_value *v, struct rdb_buffer *b, const char *text, size_t size) {
    if (__builtin_expect(size <= LARGE_BYTES || v->in_one_go, 1)) return put_text(b, text, size, v->compress);
    if (!rdb_put_length(b, size)) return false;
    v->rest = text;
    v->rest_size = size;
    return false;
}

static bool put_packed(struct rdb_value *v, struct rdb_buffer *b, const uint8_t *at) {
    char scratch[INT64_TEXT_SIZE];
    uint32_t size;
    if (packed_is_int(at)) return rdb_put_int(b, packed_int(at));
    const char *text = packed_text(at, scratch, &size);
    return put_element(v, b, text, size);
}

static bool put_score(struct rdb_buffer *b, double score) {
    uint64_t bits;
    memcpy(&bits, &score, sizeof bits);
    return put_little(b, bits, 8);
}

static enum rdb_step stopped(const struct rdb_value *v) { return v->rest_size ? RDB_MORE : RDB_NO_MEMORY; }

/* More of the element that was left; DONE: all of it. */
static enum rdb_step rest_step(struct rdb_value *v, struct rdb_buffer *b, size_t bytes) {
    size_t n = v->rest_size < bytes ? v->rest_size : bytes;
    if (!rdb_put_bytes(b, v->rest, n)) return RDB_NO_MEMORY;
    v->rest += n;
    v->rest_size -= n;
    if (v->rest_size) return RDB_MORE;
    const uint8_t *then = v->then;
    v->then = NULL;
    if (then && !put_packed(v, b, then)) return stopped(v);
    bool scored = v->scored;
    v->scored = false;
    return !scored || put_score(b, v->score) ? RDB_DONE : RDB_NO_MEMORY;
}

static enum rdb_step string_step(struct rdb_value *v, const struct entry *e, struct rdb_buffer *b, size_t bytes) {
    if (entry_encoding(e) == ENC_INT) return rdb_put_int(b, entry_int(e)) ? RDB_DONE : RDB_NO_MEMORY;
    size_t size;
    const char *text = entry_string(e, NULL, &size);
    if (size <= LARGE_BYTES) return rdb_put_string(b, text, size, v->compress) ? RDB_DONE : RDB_NO_MEMORY;
    if (!v->begun && !rdb_put_length(b, size)) return RDB_NO_MEMORY;
    v->begun = true;
    size_t n = size - v->at < bytes ? size - v->at : bytes;
    if (!rdb_put_bytes(b, text + v->at, n)) return RDB_NO_MEMORY;
    v->at += n;
    return v->at == size ? RDB_DONE : RDB_MORE;
}

static enum rdb_step list_step(struct rdb_value *v, struct shard *s, const struct entry *e, struct rdb_buffer *b, size_t bytes) {
    struct list x = list_view(s->memory, entry_encoding(e), entry_pointer(e));
    if (!v->begun) {
        if (!rdb_put_length(b, list_count(&x))) return RDB_NO_MEMORY;
        v->walk.list = list_walk_from(&x, 0, LIST_TAIL);
        v->begun = true;
    }
    char scratch[INT64_TEXT_SIZE];
    struct list_item item;
    size_t from = b->length;
    while (list_next(&x, &v->walk.list, &item)) {
        uint32_t size;
        const char *text = list_text(&item, scratch, &size);
        if (size <= LARGE_BYTES ? !rdb_put_string(b, text, size, v->compress) : !put_element(v, b, text, size)) return stopped(v);
        if (b->length - from >= bytes) return RDB_MORE;
    }
    return RDB_DONE;
}

static enum rdb_step ints_step(struct rdb_value *v, const struct intset *x, struct rdb_buffer *b, size_t bytes) {
    uint32_t n = intset_count(x);
    size_t from = b->length;
    if (!v->begun && !rdb_put_length(b, n)) return RDB_NO_MEMORY;
    v->begun = true;
    while (v->at < n) {
        if (!rdb_put_int(b, intset_at(x, (uint32_t)v->at++))) return RDB_NO_MEMORY;
        if (b->length - from >= bytes) return RDB_MORE;
    }
    return RDB_DONE;
}

/* A hash's, with or without times, or a set's. */
static enum rdb_step fields_step(struct rdb_value *v, const struct fields *x, struct rdb_buffer *b, size_t bytes) {
    size_t from = b->length;
    if (!v->begun) {
        if (v->type == RDB_HASH_TIMES) {
            v->first_time_ms = fields_first_time(x);
            if (!put_little(b, (uint64_t)v->first_time_ms, 8)) return RDB_NO_MEMORY;
        }
        if (!rdb_put_length(b, fields_count(x))) return RDB_NO_MEMORY;
        v->begun = true;
    }
    struct field f;
    while (fields_next(x, &v->walk.fields, &f)) {
        if (v->type == RDB_HASH_TIMES) {
            uint64_t distance = f.expires_at_ms == FIELD_NEVER ? 0 : (uint64_t)(f.expires_at_ms - v->first_time_ms) + 1;
            if (!rdb_put_length(b, distance)) return RDB_NO_MEMORY;
        }
        if (!put_packed(v, b, f.name)) {
            v->then = f.value;
            return stopped(v);
        }
        if (f.value && !put_packed(v, b, f.value)) return stopped(v);
        if (b->length - from >= bytes) return RDB_MORE;
    }
    return RDB_DONE;
}

/* By its pages, which touches each line once; as a hash's, in an order in which others of its kind take them in well: bucket by bucket. */
static enum rdb_step zset_step(struct rdb_value *v, struct shard *s, const struct entry *e, struct rdb_buffer *b, size_t bytes) {
    struct zset x = zset_of(s->memory, s->secret, entry_encoding(e), entry_pointer(e));
    struct fields members = zset_fields(&x);
    struct field m;
    size_t from = b->length;
    if (!v->begun && !rdb_put_length(b, zset_count(&x))) return RDB_NO_MEMORY;
    v->begun = true;
    while (fields_next(&members, &v->walk.fields, &m)) {
        if (!put_packed(v, b, m.name)) {
            v->scored = true;
            v->score = zset_field_score(&m);
            return stopped(v);
        }
        if (!put_score(b, zset_field_score(&m))) return RDB_NO_MEMORY;
        if (b->length - from >= bytes) return RDB_MORE;
    }
    return RDB_DONE;
}

enum rdb_step rdb_value_step(struct rdb_value *v, struct shard *s, const struct entry *e, struct rdb_buffer *b, size_t bytes) {
    struct fields fields;
    v->in_one_go = bytes == SIZE_MAX;
    if (__builtin_expect(v->rest_size, 0)) {
        enum rdb_step step = rest_step(v, b, bytes);
        if (step != RDB_DONE || !v->in_one_go) return step == RDB_DONE ? RDB_MORE : step;
    }
    switch (entry_type(e)) {
    case TYPE_STRING: return string_step(v, e, b, bytes);
    case TYPE_LIST: return list_step(v, s, e, b, bytes);
    case TYPE_ZSET: return zset_step(v, s, e, b, bytes);
    case TYPE_SET:
        if (entry_encoding(e) == ENC_INTSET) return ints_step(v, entry_pointer(e), b, bytes);
        __attribute__((fallthrough));
    case TYPE_HASH: fields = container_fields(s, e); return fields_step(v, &fields, b, bytes);
    case TYPE_STREAM: break;
    }
    __builtin_unreachable();
}
