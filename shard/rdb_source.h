/* What RDB is made of, below values: bytes from a file, a payload or a channel, and the lengths, numbers and strings in them. A source belongs to whoever made it, on whatever thread; it
 * costs no copy where what is read lies in one piece.
 *
 * Nothing that is read is believed: each length is compared with the bytes that are left. The first thing that is wrong leaves its message and its offset in the source.
 */
#ifndef SHARD_RDB_SOURCE_H
#define SHARD_RDB_SOURCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shard/entry.h"

struct blob;
struct shard;

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

#endif
