/* Outboxes: hops on their way to shards, batches on their way back, the order of replies, and what must live until they are out.
 *
 * All on the thread t that it is called for. outbox.c tells how the order of replies is kept.
 */
#ifndef SERVER_OUTBOX_H
#define SERVER_OUTBOX_H

#include "server/thread.h"

/* Appends a hop for a shard; copies argv's structs (or takes them over as they are if there are many). Returns the hop, to be filled further
 * (hash, run, flags ...); ordered: its reply takes its place behind the connection's unfinished commands. */
struct hop *outbox_add(struct thread *t, uint32_t shard, struct conn *c, struct arg *argv, uint32_t argc, bool ordered);
/* A batch of its own for a piece of a task. */
struct batch *outbox_piece(struct thread *t, uint32_t shard, struct task *task);
void outbox_send_piece(struct thread *t, struct batch *b);
/* A piece for a thread whose shard stands still for the task: it runs there at once, to its end; one of t's own before this returns. */
void outbox_send_held(struct thread *t, struct batch *b);
/* Collect, publish, draw the numbers of transactions, arm, run. */
void outbox_flush(struct thread *t);
/* Shortens r to what it was, and gives references of the shard s back. */
void reply_cut(struct shard *s, struct reply *r, size_t size, uint32_t n_refs);
/* What came back: replies and tasks. */
void outbox_take_returns(struct thread *t);
bool outbox_run_slices(struct thread *t);
void outbox_retire(struct thread *t);
void outbox_release_blob(struct thread *t, struct blob *b);
void outbox_publish_releases(struct thread *t);
/* A command of measure.slow_cycles or more: puts it into the slow log, tells the latency monitor. */
void log_slow(struct thread *t, struct conn *c, const struct command *row, const struct arg *argv, uint32_t argc, uint64_t cycles);
/* The end of the process: what ticks hold; messages, with the blobs that are given back; batches, wherever they are (that gives blobs back). */
void outbox_end(struct thread *t);
void outbox_drop_batches(struct thread *t);
void outbox_drain(struct thread *t);
/* Runs a batch, gives blobs back, or forgets a watcher or waiter, on the shard of thread `of`, which t holds. */
void outbox_run_message(struct thread *t, struct thread *of, struct message *m);
/* Runs batches of t's own (by next) on the shard of thread `of`, which t holds. */
void outbox_run_own(struct thread *t, struct thread *of, struct batch *first);
/* Moves what is finished at the head of a connection's order to its output. */
void outbox_emit(struct thread *t, struct conn *c);
void batch_recycle(struct thread *t, struct batch *b);

#endif
