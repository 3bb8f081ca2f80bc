/* Reading RDB: values of every type that Redis, Valkey and KeyDB have written in versions 1 to 12 of the format, into a shard. Pure: from a source of bytes.
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

#define RDB_WHY_MAX 192u

/* What is asked before room is made for texts that were compressed: the budget of a shard. */
struct rdb_room {
    struct shard *s;
    uint64_t reserved; /* bytes of it, for what there is */
};

/* Where bytes come from. */
struct rdb_source {
    const uint8_t *at, *end; /* what is there */
    uint64_t left;           /* bytes behind end, which more() can bring */
    uint64_t offset;         /* of end, from the beginning */
    /* Brings bytes, until n <= end - at + left of them lie at `at`, which may move. False: it can't; it has said why. NULL: there are no more. */
    bool (*more)(struct rdb_source *x, size_t n);
    void *arg;
    struct rdb_room *room; /* NULL: texts take what they need */
    char why[RDB_WHY_MAX]; /* what went wrong; empty: nothing */
    bool no_memory;        /* that was: memory, or the budget */
};

/* Notes what is wrong, with the offset, unless something was noted. Returns false. */
bool rdb_wrong(struct rdb_source *x, const char *what);
/* n bytes lie at x->at. False: there are not so many, which is noted. */
bool rdb_need(struct rdb_source *x, size_t n);

bool rdb_get_byte(struct rdb_source *x, uint8_t *out);
bool rdb_get_little(struct rdb_source *x, unsigned bytes, uint64_t *out);
/* A length; one that is none, but begins a string in another form, is wrong. */
bool rdb_get_length(struct rdb_source *x, uint64_t *out);
bool rdb_skip(struct rdb_source *x, uint64_t n);

/* A string that was read. It lies in the source, until the next call that reads from it, or in `room`, which stays for the next one. All 0 at first. */
struct rdb_text {
    const char *p;
    size_t size;
    char *room;
    size_t capacity;
    struct blob *block; /* of a container that is made in slices: a long one is in a block of its own, which this is */
    char number[INT64_TEXT_SIZE];
};
bool rdb_get_string(struct rdb_source *x, struct rdb_text *out);
/* The same, but it stays when more is read. */
bool rdb_get_string_kept(struct rdb_source *x, struct rdb_text *out);
bool rdb_skip_string(struct rdb_source *x);
/* What stands before a string's bytes, for who reads these himself. */
struct rdb_string_head {
    uint64_t bytes, size; /* in the source; of the text. Of an integer: in the source only */
    bool compressed, is_int;
};
bool rdb_get_string_head(struct rdb_source *x, struct rdb_string_head *out);
void rdb_text_drop(struct rdb_text *t);

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
