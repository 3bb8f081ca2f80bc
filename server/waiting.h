/* Commands that wait for a key (PLAN_BLOCKING): BLPOP and its like. What such a command is, and the life of one.
 *
 * The command takes at once if one of its keys is ready, the first in the order of its arguments. Else it parks: its connection waits, on each shard of its keys it
 * stands in the queue of each (shard/wait.h), and the first shard with something for it takes in its name, right after the command that brought it. Or
 * its time is over, CLIENT UNBLOCK ends it, or its client leaves. Inside MULTI it never parks: it answers as if its time were over.
 *
 * All on the connection's thread, but for what says otherwise.
 */
#ifndef SERVER_WAITING_H
#define SERVER_WAITING_H

#include "server/conn.h"

enum readiness { KEY_NOT_READY, KEY_READY, KEY_WRONG_TYPE };

/* What the arguments ask for. The keys stand one behind the other. */
struct waiting_for {
    uint64_t timeout_ms; /* 0: for ever */
    uint32_t key_first, n_keys;
};

/* Of a command that moves what it takes to its second key, for which it does not wait: BLMOVE. */
struct moving {
    /* All of it; both shards are at hand, and may be the same. */
    void (*all)(struct shard *source, struct shard *target, struct hop *h, struct reply *r);
    /* Step by step, over two shards, under intents on both keys. What would be taken, as a copy or by reference; NULL: no memory. */
    void *(*carry)(struct shard *source, const struct hop *h);
    /* Puts that into the target, in slices if it is long. Or appends an error, and nothing has changed. */
    enum hop_result (*put)(struct shard *target, const struct hop *h, void *carried, struct reply *r);
    void (*remove)(struct shard *source, const struct hop *h);
    /* On the connection's thread, each. */
    void (*reply)(void *carried, struct reply *r);
    void (*drop)(struct thread *t, void *carried);
};

/* What makes a blocking command. Its row has .plan = PLAN_BLOCKING, .blocking = this, .on_shard = waiting_at_once, and a key spec. */
struct blocking {
    /* Reads the arguments. False: an error was replied. */
    bool (*parse)(const struct arg *argv, uint32_t argc, struct waiting_for *x, struct reply *r);
    /* Whether the hop's nth key has something. On the shard; changes nothing. */
    enum readiness (*ready)(struct shard *s, const struct hop *h, uint32_t nth);
    /* Takes it, and appends one RESP value. On the shard, right after ready() said KEY_READY. If it is much, it says HOP_AGAIN as a plain hop does (shard/hop.h): its key is
     * locked from then on. HOP_REMOVES in its state: it must be gone on with; before that, it is given up if its client leaves. */
    enum hop_result (*take)(struct shard *s, struct hop *h, uint32_t nth, struct reply *r);
    /* The reply when its time is over; and inside MULTI, if that is another one. */
    void (*nothing)(struct reply *r);
    void (*nothing_at_once)(struct reply *r);
    const struct moving *moving; /* or NULL: take() is all */
};

/* A timeout in seconds, as Redis reads it: a float; rounded up to a millisecond. False: the error was replied. */
bool waiting_seconds(const struct arg *a, uint64_t *ms, struct reply *r);

/* Dispatch. False: it must wait for its connection's earlier commands. */
bool waiting_start(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc);
/* Inside MULTI: takes at once or not at all. All keys on one shard; or on shards that are all held. */
hop_fn waiting_at_once;
void waiting_on_held(struct thread *t, const struct spread *x, struct hop *h, struct reply *r);

/* Those whose time is over. To be called from t->deadlines' next on. */
void waiting_check(struct thread *t);
/* The connection closes: c->waiting, which is not NULL, ends. */
void waiting_leave(struct conn *c);
/* CLIENT UNBLOCK. False: a shard has taken something for it already. */
bool waiting_unblock(struct conn *c, bool error);
uint64_t waiting_memory(const struct waiting *x);

/* On the thread t that holds the shard: serves who can be. To be called while s->waits.ready, after each command that may have changed a key. */
void waiting_serve(struct thread *t, struct shard *s);
/* The next slice for the first of those who are served in slices, t->serving; t holds its own shard. True: that was its last, and it has left the shard's order. */
bool waiting_serve_slice(struct thread *t);
/* MESSAGE_SERVED. */
void waiting_served(struct thread *t, struct message *m);
/* MESSAGE_FORGET, on the shard s, held by the caller; frees the message. */
void waiting_forget_arrived(struct shard *s, struct message *m);
/* MESSAGE_SERVED, at the end of the process. */
void waiting_drop_served(struct message *m);

#endif
