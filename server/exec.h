/* EXEC: running what a connection queued (multi.h), all at one moment.
 *
 *   where all keys lie           what happens
 *   nowhere (PING ...)           it is run at dispatch
 *   on one shard, watched too    one piece there: it looks whether a watched key changed, then runs all, prefetched as a batch is; commands of the
 *                                connection (SELECT) are resolved before, each with the state that those before it left
 *   on several shards            intents on all keys, then one hop a shard (exec_shards.c)
 *   else, or a command that      all shards are held, and each command is run on them in turn (exec_on_held)
 *   works on all shards
 */
#ifndef SERVER_EXEC_H
#define SERVER_EXEC_H

#include "server/multi.h"

/* The connection is in MULTI and drained. The reply comes when it is done. */
void exec_start(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc);

/* Runs one queued command to its end and appends its reply, while all shards that it needs are held: x, by their numbers. Not for PLAN_ALL and PLAN_DISK. */
void exec_on_held(struct thread *t, struct conn *c, const struct queued *q, const struct spread *x, struct reply *r);

hop_fn exec_piece;

#endif
