/* What reading values and reading past them have in common, for rdb_read.c and rdb_skip.c alone. */
#ifndef SHARD_RDB_INTERNAL_H
#define SHARD_RDB_INTERNAL_H

#include "shard/rdb_read.h"

/* How many elements there are: not more than bytes. */
bool rdb_get_count(struct rdb_source *x, uint64_t *n);
/* A score; text: in the form of old files. */
bool rdb_get_score(struct rdb_source *x, bool text, double *out);
/* What a value of this type becomes. False: nothing, which is noted. */
bool rdb_entry_type(struct rdb_source *x, uint8_t type, enum entry_type *out);

#endif
