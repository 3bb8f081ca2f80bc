/* Running batches on a shard that the thread t holds, its own or a borrowed one. What a plain hop costs is decided here. */
#ifndef SERVER_RUN_H
#define SERVER_RUN_H

#include "server/thread.h"

/* Batches of t's own (by next) on the shard of thread `of`. */
void run_own_batches(struct thread *t, struct thread *of, struct batch *first);
/* What came by the mailbox of thread `of`: runs a batch, gives blobs back, or forgets a watcher or waiter, on its shard. */
void run_message(struct thread *t, struct thread *of, struct message *m);
/* Goes on with a piece that was sliced, with a plain hop, and with one who is served in slices. True: there are more. */
bool run_slices(struct thread *t);
/* Runs all that have intents to their end, and no transaction is under way: the shard is to stand still. */
void run_slices_out(struct thread *t);
/* A member leaves the shard's order; what it made ready may be taken from then on. Then who waits is to be served, and what is ready run. */
void run_leave(struct shard *s, struct member *m);
/* After housekeeping: who waited until a snapshot has written a value runs. */
void run_after_snapshot(struct thread *t);
/* Gives every hop of these batches (by next) that has not run yet a place in the order of its connection, so that they need not run in this order. */
void run_record_all(struct batch *first);

/* A piece for a thread whose shard stands still for the task: it runs there at once, to its end; one of t's own before this returns. */
void run_send_held(struct thread *t, struct batch *b);
/* MESSAGE_HELD: of a coordinator that holds this thread's shard. */
void run_held_arrived(struct thread *t, struct batch *b);
/* The same for a piece that touches no shard, whoever has it (struct command: on_beside). MESSAGE_BESIDE. */
void run_send_beside(struct thread *t, struct batch *b);
void run_beside_arrived(struct thread *t, struct batch *b);

#endif
