/* The packed forms of small values in RDB files: blocks of bytes that hold strings and integers one behind the other.
 *
 * Each function walks a block with all its bounds, counts and links, and gives every element, an integer as text, to add(), in order. NULL: it is whole; else what
 * is wrong with it. It stops, and returns NULL, when add() returns false, who has said why; a listpack or a ziplist can be gone on with, and gives that element again. After `most` elements (of a zipmap: pairs), if there are more, it
 * returns NULL, too, and w->more is true: the next call goes on from there; the block may lie elsewhere then. Pure.
 */
#ifndef SHARD_RDB_PACKED_H
#define SHARD_RDB_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef bool rdb_element(void *arg, const char *p, size_t size);

/* How far it is. All 0 at first. */
struct rdb_packed_walk {
    uint64_t n; /* elements behind it */
    size_t at, before, last;
    bool more;
};

const char *rdb_listpack(const uint8_t *p, size_t size, struct rdb_packed_walk *w, uint64_t most, rdb_element *add, void *arg);
const char *rdb_ziplist(const uint8_t *p, size_t size, struct rdb_packed_walk *w, uint64_t most, rdb_element *add, void *arg);
const char *rdb_zipmap(const uint8_t *p, size_t size, struct rdb_packed_walk *w, uint64_t most, rdb_element *add, void *arg);
const char *rdb_intset(const uint8_t *p, size_t size, struct rdb_packed_walk *w, uint64_t most, rdb_element *add, void *arg);

#endif
