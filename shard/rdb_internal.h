/* What the source of bytes, reading values and reading past them have in common, for rdb_source.c, rdb_read.c and rdb_skip.c alone. */
#ifndef SHARD_RDB_INTERNAL_H
#define SHARD_RDB_INTERNAL_H

#include "shard/rdb_read.h"

/* Notes that it was memory, or the budget, that failed. Returns false. */
bool rdb_no_memory(struct rdb_source *x);
/* Of the budget, if there is one to be asked (x->room): what a client has here is no key's yet, but may be much. */
bool rdb_reserve(struct rdb_source *x, uint64_t bytes);
void rdb_unreserve(struct rdb_room *room, uint64_t bytes);
/* t->room takes n bytes, and keeps what it has. */
bool rdb_make_room(struct rdb_source *x, struct rdb_text *t, size_t n);
/* How many elements there are: not more than bytes. */
bool rdb_get_count(struct rdb_source *x, uint64_t *n);
/* A score; text: in the form of old files. */
bool rdb_get_score(struct rdb_source *x, bool text, double *out);
/* What a value of this type becomes. False: nothing, which is noted. */
bool rdb_entry_type(struct rdb_source *x, uint8_t type, enum entry_type *out);

#endif
