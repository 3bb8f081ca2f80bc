/* Reading RDB: values of every type that Redis, Valkey and KeyDB have written in versions 1 to 12 of the format, into a shard. Pure: from a source of bytes (rdb_source.h).
 *
 * Nothing that is read is believed: each length is compared with the bytes that are left, packed forms are walked with their bounds and links, members
 * may not come twice, scores must be numbers, containers not be empty. What is wrong leaves a message in the source, and nothing in the shard. The shard's budget may
 * refuse a value.
 */
#ifndef SHARD_RDB_READ_H
#define SHARD_RDB_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shard/keyspace.h"
#include "shard/rdb.h"
#include "shard/rdb_source.h"

/* What the configuration says of values. */
struct rdb_limits {
    int64_t hash_entries, hash_value, list_size, set_entries, zset_entries, zset_value; /* *-max-* */
};

/* Reads a value of this type and makes it that of a key that is not there, with this time; it is said as this event. False: something is wrong (or there is no
 * memory), and nothing was made. */
bool rdb_read_value(struct rdb_source *x, uint8_t type, struct shard *s, struct key *k, int64_t expire_at_ms,
    const struct rdb_limits *limits, enum key_event event);
/* The same, and nobody gets the value: whether it could be read. Takes the memory that it would take, and gives it back. */
bool rdb_check_value(struct rdb_source *x, uint8_t type, struct shard *s, const struct rdb_limits *limits);

/* The same in slices, for a container: it is made aside, and then stored, or dropped. The source may be another one each time, at the same place of the same
 * bytes; on whoever holds the shard. */
struct rdb_making;
bool rdb_is_container(uint8_t type);
/* NULL: no memory. limits is copied. */
struct rdb_making *rdb_make_begin(uint8_t type, struct shard *s, const struct rdb_limits *limits);
enum rdb_making_step { RDB_MADE, RDB_MAKING, RDB_MAKING_WRONG };
/* Reads so many elements more (UINT64_MAX: all), whatever they are packed in; or some of what packs them is unpacked, or of a long one moved to its place: all of the source
 * is there then. WRONG: the source says what it is; it is to be dropped. */
enum rdb_making_step rdb_make_step(struct rdb_making *m, struct rdb_source *x, uint64_t most);
/* Once all are read: whether that makes a value. */
bool rdb_make_check(struct rdb_making *m, struct rdb_source *x);
/* It becomes the key's value, and is gone. False: nothing was done, and it is to be dropped. */
bool rdb_make_store(struct rdb_making *m, struct rdb_source *x, struct key *k, int64_t expire_at_ms, enum key_event event);
void rdb_make_drop(struct rdb_making *m); /* or NULL */
/* Bytes that it holds beside the container, which the shard counts: texts, and blocks of long ones. On whoever holds the shard. */
uint64_t rdb_make_aside(const struct rdb_making *m);

/* There is no such type here, but it can be skipped: streams, modules' values. */
bool rdb_is_unknown(uint8_t type);
/* Reads past one, with no look at what is in it. */
bool rdb_skip_value(struct rdb_source *x, uint8_t type);
/* The same for a module's data: what comes behind its name. */
bool rdb_skip_module(struct rdb_source *x);

#endif
