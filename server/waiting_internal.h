/* What the files of waiting share: waiting.c (a request's steps, from its beginning on), waiting_park.c (making one; parked; its end), waiting_shard.c (what shards do).
 *
 *   state       | what it is                                             | leaves to
 *   TRYING      | one piece on the only shard: it takes, or queues up    | PARKED, SERVING, done
 *   SCHEDULED   | several shards: intents on all keys are on their way   | LOOKING, TOKEN
 *   LOOKING     | each shard tells its first key that is ready           | TAKING, QUEUING, LEAVING
 *   TAKING      | the shard of the first of these takes                  | done
 *   QUEUING     | on each shard it queues up, then its intents go        | PARKED, SERVING, done
 *   LEAVING     | the intents go, an error was replied                   | done
 *   PUTTING     | BLMOVE over two shards: what it will take is put into the target | REMOVING, LEAVING
 *   REMOVING    | and taken from the source                              | done
 *   TOKEN       | it was withdrawn too often: all shards are to stand still, then it does the same there | PARKED, SERVING, done
 *   PARKED      | it stands in the queues                                | SERVING, SCHEDULED, TRYING, done
 *   SERVING     | a shard took before it could be ended                  | done
 *
 * What is much is taken in slices (struct blocking: take): by a piece, which then has a member in the shard's order; or for one who is served by the shard's owner (struct serving),
 * whose member begins at once, before all that stands there and has not begun (schedule_add_begun). Nobody sees a key of which some is taken. The reply is made before
 * anything is taken away. Until then a client that leaves is served no more, and the next in the queue is: he loses nothing. From then on it is as in Redis: what is taken is
 * lost with who it was taken for.
 *
 * No push is missed between looking and queuing up, as the intents stand. A shard may take from the first queue on, before the last is reached:
 * what it took (MESSAGE_SERVED) then waits for the state PARKED.
 *
 * A command that moves what it takes (struct moving) to a key of another shard, or one that a transaction has begun to work on, can't be served where it stands. The shard
 * tells it to try (`tries`), and lets nobody pass it in its queue meanwhile (waiter.busy). It leaves PARKED for a transaction like its first, which moves, or finds that somebody
 * was faster: then it is parked as before, with its place and its deadline. So nothing is ever out of both keys, and what it was told to take may be another's, but not another waiter's.
 */
#ifndef SERVER_WAITING_INTERNAL_H
#define SERVER_WAITING_INTERNAL_H

#include "server/task_internal.h"
#include "server/waiting.h"

enum state {
    WAITING_TRYING,
    WAITING_SCHEDULED,
    WAITING_LOOKING,
    WAITING_TAKING,
    WAITING_QUEUING,
    WAITING_LEAVING,
    WAITING_PUTTING,
    WAITING_REMOVING,
    WAITING_TOKEN,
    WAITING_PARKED,
    WAITING_SERVING
};

enum outcome { OUTCOME_TAKEN, OUTCOME_QUEUED, OUTCOME_REFUSED };

/* The command, with its bytes: what a shard reads of it to see whether a key has something. Lives until no shard has a half of it. */
struct request {
    _Atomic bool claim;
    _Atomic uint32_t holders; /* halves, and the connection's side */
    struct waiting *waiting;  /* there until it is decided who ends it, and then until that has happened */
    const struct command *row;
    size_t size; /* bytes, of all */
    struct hop hop;
};

/* What stands in the queues of one shard. As a message it is given back, to be forgotten. */
struct half {
    struct message message;
    struct waiter waiter;
    struct wait keys[];
};

/* One that is served in slices. The shard's, from the first to the last. */
struct serving {
    struct serving *next; /* of its thread's */
    struct waiting *waiting;
    struct member member;
    struct intent intents[2];
    int64_t now_ms; /* of all slices */
};

struct waiting {
    struct message message; /* SERVED */
    struct deadline deadline;
    struct member member; /* TRYING: where transactions are under way */
    struct conn *conn;
    struct task *task;
    struct request *request;
    struct half **halves; /* by shard; NULL: no key there */
    uint64_t timeout_ms, cycles;
    enum state state;
    enum outcome outcome; /* TRYING: the shard's */
    /* What is taken in slices; the shard's that does it. */
    uint32_t nth;            /* of which key */
    uint64_t taking;         /* the state; 0: it has not begun */
    struct serving *serving; /* or NULL */
    bool in_time_table, failed, served, dropped;
    bool listed;   /* it stands in its queue already: it was told to try */
    bool tries;    /* MESSAGE_SERVED says so: nothing was taken. The shard's, until the message is read */
    bool given_up; /* the same: its client had left, or sent no more, and there is no reply */
    enum { ENDS_NOT, ENDS_NOTHING, ENDS_ERROR, ENDS_LEFT } ends; /* what wanted to end it while a shard had its claim */
    void *moved;                                                 /* what moving->carry() gave */
    struct reply reply;                                          /* what was taken */
    struct aside_count counted;                                  /* of it */
};

static inline const struct arg *request_key(const struct request *q, uint32_t nth) { return hop_key(&q->hop, nth); }

static inline uint32_t request_shard(const struct thread *t, const struct request *q, uint32_t nth) {
    return thread_shard_of(t, request_key(q, nth), hop_hash(&q->hop, nth));
}

static inline struct waiting *waiting_of(const struct hop *h) { return (struct waiting *)(uintptr_t)h->state; }

/* ---- waiting_shard.c ---- */

/* All of it on the only shard; the waves of several: each shard tells what it found; takes; queues up. */
struct found {
    uint32_t ready, nth; /* the first of its keys there that is ready */
};
hop_fn waiting_try_piece, waiting_look_piece, waiting_take_piece, waiting_queue_piece;
/* Of BLMOVE over two shards. */
hop_fn waiting_copy_piece, waiting_put_piece, waiting_remove_piece;
/* Keys that are waited for. */
static inline uint32_t waited_keys(const struct blocking *b, uint32_t n_keys) { return b->moving ? 1 : n_keys; }
/* A key is ready, or has the wrong type: takes in one go. */
void waiting_take(struct shard *s, const struct command *row, const struct hop *h, uint32_t nth, enum readiness ready, struct reply *r);
/* In this shard's queues. False: no memory; what is listed is forgotten later. */
bool waiting_queue_up(struct shard *s, struct half *x);

/* ---- waiting.c ---- */

/* It was told to try. */
void waiting_try_again(struct thread *t, struct waiting *x);

/* ---- waiting_park.c ---- */

/* NULL: no memory. */
struct waiting *waiting_new(
    struct thread *t, struct conn *c, const struct command *row, const struct arg *argv, uint32_t argc, const struct waiting_for *asked);
void waiting_free(struct waiting *x);
void half_free(struct half *x);
/* It stands in all queues, or would, had memory not been refused. */
void waiting_park(struct thread *t, struct waiting *x);
/* The reply that there is no memory. */
void waiting_refuse(struct thread *t, struct waiting *x);
/* Stands in no list of parked commands any more. */
void waiting_unpark(struct thread *t, struct waiting *x);
/* Its time is over, and the like: replies that, and ends it. */
void waiting_end_untaken(struct thread *t, struct waiting *x);
/* The command is over, its reply is made; or what a shard took becomes the reply. */
void waiting_end(struct thread *t, struct waiting *x);
void waiting_end_served(struct thread *t, struct waiting *x);

#endif
