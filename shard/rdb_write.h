/* Writing RDB, the format of Redis' snapshots and of DUMP: opcodes, keys, values. Pure: into a buffer.
 *
 * Values are written in the types that Redis 7.0 reads (version 10 of the format): strings; lists, sets, sorted sets and hashes as counts and elements, a small
 * set of integers as an intset. Only a hash whose fields have times needs version 12 (Redis 7.4's type).
 *
 * A value is written in steps, so that one of any size makes no pause: nothing of its key may change between two of them; other keys may. What returns bool says
 * false when memory is refused; the buffer then ends where it ended before the call, but for the steps of a value.
 */
#ifndef SHARD_RDB_WRITE_H
#define SHARD_RDB_WRITE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shard/entry.h"
#include "shard/list.h"
#include "shard/rdb.h"
#include "shard/set.h"
#include "shard/zset.h"

/* Bytes, allocated with mi_malloc; a capacity of MAPPING_MIN and more is pages of its own (mapping.h). All 0: empty. */
struct rdb_buffer {
    uint8_t *bytes;
    size_t length, capacity;
    uint32_t futile; /* strings in a row that were to be compressed and did not get smaller, or were not tried for that reason */
};
void rdb_buffer_drop(struct rdb_buffer *b);
/* What there is to unmap (memory_unmap), if somebody else shall do that: its capacity; 0: it is no mapping. */
size_t rdb_buffer_mapped(const struct rdb_buffer *b);
/* Room for n more bytes. */
bool rdb_buffer_room(struct rdb_buffer *b, size_t n);

bool rdb_put_bytes(struct rdb_buffer *b, const void *bytes, size_t n);
bool rdb_put_byte(struct rdb_buffer *b, uint8_t byte);
bool rdb_put_length(struct rdb_buffer *b, uint64_t n);
/* A string: as an integer if it reads like one, compressed if that is asked and worth it, else as it is. When many in a row were not worth it, only
 * some are tried, until one is. */
bool rdb_put_string(struct rdb_buffer *b, const char *text, size_t size, bool compress);
bool rdb_put_int(struct rdb_buffer *b, int64_t v);
bool rdb_put_aux(struct rdb_buffer *b, const char *name, const char *value);

/* The head of a file of this version; of the database; of its number of keys; the end, but the checksum. */
bool rdb_put_head(struct rdb_buffer *b, unsigned version);
/* The mark of a chunk (rdb.h): put first, into an empty buffer; and filled in when all of the chunk is behind it, unless that is too long for its digits. */
bool rdb_put_chunk_mark(struct rdb_buffer *b);
void rdb_fill_chunk_mark(struct rdb_buffer *b);
bool rdb_put_select(struct rdb_buffer *b, uint32_t db);
bool rdb_put_resize(struct rdb_buffer *b, uint64_t keys, uint64_t expiring);
bool rdb_put_end(struct rdb_buffer *b);

#define RDB_NO_IDLE (-1)
struct rdb_entry_options {
    bool compress;
    int64_t idle_s; /* RDB_NO_IDLE: is not written */
};

/* A value that is being written. */
struct rdb_value {
    bool compress, begun;
    bool in_one_go; /* this step writes all there is */
    uint8_t type;   /* enum rdb_type */
    size_t at;      /* bytes of a string */
    int64_t first_time_ms;
    /* Of an element that is too long for a step: what is left of its text, and what comes behind that. */
    const char *rest;
    size_t rest_size;
    const uint8_t *then; /* a field's value; NULL: none */
    bool scored;
    double score;
    union {
        struct fields_walk fields;
        struct set_walk set;
        struct list_walk list;
    } walk;
};

/* The type that the value is written as. */
enum rdb_type rdb_type_of(const struct entry *e);
/* The lowest version that can hold it. */
static inline unsigned rdb_version_of(const struct entry *e) { return rdb_type_of(e) == RDB_HASH_TIMES ? 12 : 10; }
/* Whether it should be written in several steps: more than some 100 us. */
bool rdb_is_large(const struct entry *e);

/* Everything before the value: times, type, key. */
bool rdb_put_entry_head(struct rdb_buffer *b, const struct entry *e, const struct rdb_entry_options *o);
void rdb_value_begin(struct rdb_value *v, const struct entry *e, bool compress);
enum rdb_step { RDB_DONE, RDB_MORE, RDB_NO_MEMORY };
/* Writes about so many bytes of it, and 64 KiB more at most; SIZE_MAX: all. e: the entry, which may lie elsewhere than at the step before. */
enum rdb_step rdb_value_step(struct rdb_value *v, struct shard *s, const struct entry *e, struct rdb_buffer *b, size_t bytes);
/* Head and value in one go. */
bool rdb_put_entry(struct rdb_buffer *b, struct shard *s, const struct entry *e, const struct rdb_entry_options *o);

#endif
