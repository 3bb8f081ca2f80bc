/* EXEC: running what a connection queued (multi.h), all at one moment.
 *
 *   where all keys lie           what happens
 *   on one shard, watched too;   a group of hops in a batch for that shard, as if they had been sent one by one: first the head, which looks whether a
 *   or nowhere (PING ...)        watched key changed, then a hop for each command. They are run, or wait for a transaction, together; the connection goes on at once.
 *                                Commands of the connection (SELECT) are resolved before, each with the state that those before it left
 *   on several shards            intents on all keys, then one hop a shard (exec_shards.c); so too what is too large for a batch
 *   else, or a command that      all shards are held, and each command is run on them in turn (exec_on_held)
 *   works on all shards
 */
#ifndef SERVER_EXEC_H
#define SERVER_EXEC_H

#include "server/multi.h"

/* The connection is in MULTI. False: EXEC must wait. The reply comes when it is done. */
bool exec_start(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc);

/* Runs one queued command to its end and appends its reply, while all shards that it needs are held: x, by their numbers. Not for PLAN_ALL and PLAN_DISK. */
void exec_on_held(struct thread *t, struct conn *c, struct queued *q, const struct spread *x, struct reply *r);

/* Not allowed inside a transaction, which is only said when it is run. */
bool exec_runs_alone(const struct command *row);

/* The head of a group. */
hop_fn exec_head;
/* How many hops behind this one belong to it: 0 unless it is a head. */
uint32_t exec_together(const struct hop *h);
/* What is watched where its group runs. */
const struct watch *exec_watched(const struct hop *h);
/* The process ends: a head that was not run lets go of what it watches. */
void exec_head_drop(struct shard *s, struct hop *h);

#endif
