/* MIGRATE: keys go to another server, as DUMP and RESTORE have them. server/migrate.c has the states.
 *
 * Nothing of it ever blocks the thread: it connects, writes and reads by the thread's proactor, and each wait has a deadline. The keys are held by the intents of a
 * transaction until the target has answered; while it waits for that, the transaction rests (transact_rest). Who needs all shards, and can't have them while it does, gives it
 * a second: then it is as if the target had let the timeout pass. Who only looks on (CMD_LOOKS_ON) can always have them, unless transactions wait for keys of such a group: then that one ends so.
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
/* thread.hurry_ns is past: each group that waits for its target, and is in the way, ends. */
void migrate_hurry(struct thread *t);
/* The process ends: frees what is left of the thread's, once its proactor is closed. */
void migrate_drop_all(struct thread *t);

#endif
