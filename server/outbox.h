/* Outboxes: hops on their way to shards, batches on their way back, the order of replies, and what must live until they are out.
 *
 * All on the thread t that it is called for. outbox.c tells how the order of replies is kept.
 */
#ifndef SERVER_OUTBOX_H
#define SERVER_OUTBOX_H

#include "server/thread.h"

/* Appends a hop for a shard; copies argv's structs (or takes them over as they are if there are many). Returns the hop, to be filled further
 * (hash, run, flags ...); its reply takes its place behind the connection's unfinished commands. */
struct hop *outbox_add(struct thread *t, uint32_t shard, struct conn *c, struct arg *argv, uint32_t argc);
/* The hops that follow, so many with so many arguments (BATCH_HOPS, BATCH_ARGS at most), come into one batch: nothing runs between them. */
void outbox_reserve(struct thread *t, uint32_t shard, uint32_t hops, uint32_t args);
/* A hop as it is, with its arguments where they are; for the connection, its database and protocol. */
struct hop *outbox_add_made(struct thread *t, uint32_t shard, struct conn *c, const struct hop *like);
/* The hop that the connection added last, if that is the last in the own batch. */
const struct hop *outbox_own_last(const struct thread *t, const struct conn *c);
/* A batch of its own for a piece of a task. */
struct batch *outbox_piece(struct thread *t, uint32_t shard, struct task *task);
void outbox_send_piece(struct thread *t, struct batch *b);
/* Collect, publish, draw the numbers of transactions, arm, run. */
void outbox_flush(struct thread *t);
/* What came back: replies and tasks. */
void outbox_take_returns(struct thread *t);
void outbox_retire(struct thread *t);
void outbox_release_blob(struct thread *t, struct blob *b);
void outbox_publish_releases(struct thread *t);
/* MESSAGE_RELEASE, on the shard s, held by the caller; frees the message. */
void outbox_release_arrived(struct shard *s, struct message *m);
/* The end of the process: what ticks hold; messages, with the blobs that are given back; batches, wherever they are (that gives blobs back). */
void outbox_end(struct thread *t);
void outbox_drop_batches(struct thread *t);
void outbox_drain(struct thread *t);
/* Moves what is finished at the head of a connection's order to its output. */
void outbox_emit(struct thread *t, struct conn *c);
void batch_recycle(struct thread *t, struct batch *b);
/* Its tick keeps a batch until all its replies are out. A piece is its task's. */
void batch_link_to_tick(struct batch *b);

#endif
