/* The packed forms of small values in RDB files: blocks of bytes that hold strings and integers one behind the other.
 *
 * Each function walks a block with all its bounds, counts and links, and gives every element, an integer as text, to add(), in order. NULL: it is whole; else what
 * is wrong with it. It stops, and returns NULL, when add() returns false, who has said why. Pure.
 */
#ifndef SHARD_RDB_PACKED_H
#define SHARD_RDB_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef bool rdb_element(void *arg, const char *p, size_t size);

const char *rdb_listpack(const uint8_t *p, size_t size, rdb_element *add, void *arg);
const char *rdb_ziplist(const uint8_t *p, size_t size, rdb_element *add, void *arg);
const char *rdb_zipmap(const uint8_t *p, size_t size, rdb_element *add, void *arg);
const char *rdb_intset(const uint8_t *p, size_t size, rdb_element *add, void *arg);

#endif
