/* What other families need of the key commands. */
#ifndef SERVER_KEYS_H
#define SERVER_KEYS_H

#include "server/command.h"
#include "shard/entry.h"

/* As TYPE says it: string, list, set, zset, hash, stream. */
const char *type_name(enum entry_type type);
/* As OBJECT ENCODING says it. */
const char *encoding_name(const struct entry *e);

/* The options of COPY (its hop needs arguments and database). False: an error was replied. */
bool copy_options(const struct shard *s, const struct hop *h, uint32_t *db, bool *replace, struct reply *r);
/* DEL on one shard. */
hop_fn delete_keys;

#endif
