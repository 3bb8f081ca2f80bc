/* MULTI and WATCH: the connection's half. What a client queued, and which keys it watches.
 *
 * A connection has a struct multi from its first MULTI or WATCH on. Inside MULTI, dispatch checks every command as outside, and then hands it over here
 * (multi_queue), which copies its arguments out of the receive buffers. EXEC takes the queue and runs it (exec.h). The keys watched are lent to their
 * shards (shard/watch.h) until EXEC, or until a message tells the shard to forget them: that message also gives the records away, and whoever runs it frees them.
 *
 * All on the connection's thread, but for multi_unwatch_arrived.
 */
#ifndef SERVER_MULTI_H
#define SERVER_MULTI_H

#include "server/conn.h"
#include "shard/watch.h"

struct exec;

/* A command that waits for EXEC: what was found, copied and hashed when it was queued. argv, hashes and bytes lie behind it. */
struct queued {
    struct queued *next;
    const struct command *row;
    struct hop hop;          /* as it will run, but for the connection's state */
    bool saved;              /* it needs no shard: it is the connection's, or refused when it is run */
    bool uneven;             /* its keys do not come out even (MSET): that is why */
    bool has_blob, anywhere; /* anywhere: see key_range */
};

/* Where the keys of commands lie. */
#define NOWHERE UINT32_MAX
#define EVERYWHERE (UINT32_MAX - 1) /* on several shards, or a command works on all */
static inline uint32_t where_both(uint32_t a, uint32_t b) { return a == NOWHERE || a == b ? b : b == NOWHERE ? a : EVERYWHERE; }

/* What is queued, in order. Its memory comes in blocks, which pass on with it. */
struct queue {
    struct queued *first, *last;
    struct queue_block *blocks;
    uint32_t n, n_keys; /* commands; keys of all */
    uint32_t where;     /* a shard, or one of the above */
    bool saved;         /* some command is */
};

struct multi {
    struct queue queue;
    bool on;                   /* between MULTI and EXEC */
    bool broken;               /* a command was refused: EXEC will be */
    uint32_t flags;            /* of all that is queued, or-ed */
    uint64_t bytes;            /* what the queue takes, also while EXEC runs it */
    uint64_t shown;            /* the same as CLIENT LIST tells it, as redis-server counts, */
    uint32_t n_shown;          /* and how many they are */
    struct watcher **watchers; /* by shard; NULL: it watches nothing; entries may be NULL */
    struct watch **watched;    /* the records by key: a table with open addressing */
    uint32_t n_watched, watched_size;
    uint64_t watched_bytes;
};

/* What only some rows of commands are: those that a client runs inside MULTI too, at once. */
static inline bool multi_queues(const struct conn *c, const struct command *row) {
    return __builtin_expect(c->multi != NULL, 0) && c->multi->on && !(row->flags & (CMD_AT_ONCE | CMD_ENDS_MULTI));
}
/* The flags that a command is judged by: EXEC's are those of what it will run. */
uint32_t multi_flags(const struct conn *c, const struct command *row);
/* The command passes to the queue, and its reply is made. Blobs are taken over. */
void multi_queue(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc);
/* A command was refused before it was queued or run. True: the text was replied in EXEC's own way. */
bool multi_refused(struct thread *t, struct conn *c, const char *text);
/* PLAN_TRANSACTION: EXEC, WATCH. False: it must wait. */
bool multi_dispatch(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc);
/* Takes the queue out, while CLIENT LIST goes on to show it; queue_drop frees one. */
struct queue multi_take_queue(struct multi *m);
void queue_drop(struct queue *q);
/* Memory that lives as long as what is queued. NULL: there is none. */
void *queue_room(struct queue *q, size_t size);
/* What is queued now belongs to hops of this tick, and lives as long as it does. */
void queue_to_tick(struct queue *q, struct tick *k);
/* Forgets what is queued, and what is watched: DISCARD, RESET. */
void multi_end(struct thread *t, struct conn *c);
/* Some watched key was touched already. */
bool multi_is_touched(const struct multi *m, uint32_t n_shards);
/* Frees the records of a watcher that no shard has any more, and it. */
void watcher_free(struct watcher *w);
/* Takes the watchers out (an array by shard, or NULL), to be freed with watchers_free once no shard has any. */
struct watcher **multi_take_watchers(struct multi *m);
void watchers_free(struct watcher **watchers, uint32_t n_shards);
/* MESSAGE_UNWATCH: on the shard s, held by the caller; frees the message. */
void multi_unwatch_arrived(struct shard *s, struct message *m);
void multi_free(struct thread *t, struct conn *c);
uint64_t multi_memory(const struct multi *m);

connection_fn multi_command, discard_command, unwatch_command;
hop_fn watch_piece;

#endif
