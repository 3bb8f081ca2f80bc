/* What an EXEC under way is made of: for exec.c and exec_shards.c. */
#ifndef SERVER_EXEC_INTERNAL_H
#define SERVER_EXEC_INTERNAL_H

#include "server/course.h"
#include "server/exec.h"
#include "shard/keyspace.h"
#include "shard/schedule.h"

struct part;

enum exec_state { EXEC_SCHEDULED, EXEC_LOOKING, EXEC_PARTS, EXEC_LEAVING, EXEC_TOKEN, EXEC_HELD, EXEC_EVERYWHERE, EXEC_DISK };

/* What is known of each command. */
struct result {
    uint64_t cycles;
    struct arg saved; /* of a command of the connection: its reply, made before */
    uint16_t db;      /* afterwards */
};

struct exec {
    struct conn *conn;
    struct queue queue;
    struct queued **commands; /* of the queue, by number */
    uint32_t n, at;           /* at: HELD: the next one */
    enum exec_state state;
    struct watcher **watchers; /* by shard, or NULL */
    struct hop *hops;          /* PARTS: by command */
    struct part *parts;        /* PARTS: by shard */
    void **blocks;             /* PARTS: by command, what its pieces are made of; or NULL */
    struct result *results;
    struct reply saved; /* what the results' saved point into */
    bool skipped;       /* CLIENT REPLY SKIP was for this EXEC */
    bool head, aborted;
    bool keeps_blobs;  /* somebody monitors: long arguments are copied, not taken over, so that they can be shown afterwards */
    uint64_t reserved; /* bytes of the budget, until the end */
    uint64_t started;
    size_t reply_at; /* HELD: where in the output the reply that is being made begins */
};

/* exec.c */
static inline const struct arg *exec_key(const struct queued *q, uint32_t nth) { return hop_key(&q->hop, nth); }
static inline uint64_t *exec_hashes(struct queued *q) { return q->hop.hashes ? q->hop.hashes : &q->hop.hash; }
/* A command as a hop, with the connection's state of now. */
struct hop exec_hop(struct conn *c, const struct queued *q);
/* Runs such a command; its reply goes to x->saved. */
void exec_resolve_one(struct conn *c, struct queued *q, struct exec *x, struct result *result);
/* The keys of one shard, with what belongs to them, as a piece's arguments; blobs pass to them. Returns how many they are. */
uint32_t exec_gather(struct thread *t, struct queued *q, uint32_t shard, struct arg *args, uint64_t *hashes);
/* Memory for all pieces of a command over several shards, if its row `needs`: enum room, and adds to the bytes that are to be given back. An upper bound is
 * asked for: values that are there already are not looked at. */
uint64_t exec_reserve(struct thread *t, const struct queued *q, uint64_t *bytes);
/* A command has run: counts it, as any other. text: its reply, if it has one. */
void exec_count(struct thread *t, struct exec *x, uint32_t nth, const char *text, size_t size);
/* Around what its commands do, when dispatch has forgotten of CLIENT REPLY SKIP. */
void exec_begin_skip(struct exec *x);
void exec_end_skip(struct exec *x);
/* The end: outside MULTI again. */
void exec_over(struct thread *t, struct task *k, struct exec *x);
void exec_hold_all(struct thread *t, struct task *k, struct exec *x);

/* exec_shards.c: over several shards, under intents. False: not these commands, or no memory; nothing was done. */
bool exec_shards_begin(struct thread *t, struct task *k, struct exec *x);
/* The next step. */
void exec_shards_go_on(struct thread *t, struct task *k, struct exec *x);
void exec_shards_drop(struct exec *x);

#endif
