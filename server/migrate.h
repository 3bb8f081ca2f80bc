/* MIGRATE: keys go to another server, as DUMP and RESTORE have them. server/migrate.c has the states.
 *
 * Nothing of it ever blocks the thread: it connects, writes and reads by the thread's proactor, and each wait has a deadline. The keys are held by the intents of a
 * transaction until the target has answered; while it waits for that, the transaction rests (transact_rest). What needs all shards for more than a look gives it a second
 * more: then it is as if the target had let the timeout pass.
 */
#ifndef SERVER_MIGRATE_H
#define SERVER_MIGRATE_H

#include "server/command.h"

struct event;
struct migrate;

/* An event of a stream of the kind STREAM_MIGRATE. */
void migrate_event(struct thread *t, const struct event *e);
/* Some deadlines of thread.migrate_deadlines have come. */
void migrate_check(struct thread *t);
/* A coordinator wants all shards, for more than a look: sets thread.hurry_ns, by when each group that waits for its target ends. */
void migrate_hurry(struct thread *t);
/* The process ends: frees what is left of the thread's, once its proactor is closed. */
void migrate_drop_all(struct thread *t);

#endif
