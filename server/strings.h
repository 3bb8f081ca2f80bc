/* What other families need of strings. */
#ifndef SERVER_STRINGS_H
#define SERVER_STRINGS_H

#include "server/command.h"

/* A string's bytes as a bulk; a large value is referred to. */
void reply_string(struct reply *r, const struct entry *e);
/* The shard was refused memory in this hop. */
void reply_refused(struct shard *s, struct reply *r);

/* MSET on one shard. */
hop_fn set_keys;

#endif
