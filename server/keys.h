/* What other families need of the key commands. */
#ifndef SERVER_KEYS_H
#define SERVER_KEYS_H

#include "shard/entry.h"

/* As TYPE says it: string, list, set, zset, hash, stream. */
const char *type_name(enum entry_type type);
/* As OBJECT ENCODING says it. */
const char *encoding_name(const struct entry *e);

#endif
