/* A thread: a proactor, the connections dealt to it, the shard that it usually holds, and its turn of work, the tick.
 *
 * Everything here belongs to the thread, but for the line of words that other threads read or write (mailboxes, arming word). A tick:
 *
 *   wait      let go of the shard, submit what is queued, sleep until something happens, take the shard (thread.c)
 *   take      every event of the proactor; parse; dispatch: own hops to the own batch, others to the outboxes (conn.c, dispatch.c)
 *   flush     collect the mailbox, borrow the shards of sleepers (lend.c), publish the outboxes, arm them, run what was collected, the own batch, and
 *             what is for the borrowed shards (outbox.c)
 *   return    take finished batches back, complete replies in order, go on with tasks (outbox.c, task.c)
 *   send      one vectored send a connection, none while it has commands out (conn.c)
 *   wake      the sleepers that were sent something
 *   keep      housekeeping: expiry, freeing, growing the table's directory
 *
 * The order inside flush carries the causal order of pipelines: the mailbox is collected after the sockets were read and before the
 * outboxes are armed, and own hops run after what was collected. See docs/architecture.md.
 */
#ifndef SERVER_THREAD_H
#define SERVER_THREAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "io/holder.h"
#include "io/mailbox.h"
#include "io/proactor.h"
#include "server/client_memory.h"
#include "server/command.h"
#include "server/config.h"
#include "server/deadline.h"
#include "server/measure.h"
#include "server/route.h"
#include "shard/schedule.h"
#include "shard/shard.h"

#define BATCH_HOPS 256u /* hops of a batch: what stays in a core's L2 with its arguments */
#define BATCH_ARGS (BATCH_HOPS * 3)
#define THREAD_BUFFER_SIZE 16384u /* receive buffers, bytes each */
#define THREAD_BUFFERS 128u
#define TICKS 256u /* ticks that may be unfinished, a power of two */
#define ARGV_FIRST 64u
#define FANOUT_KEYS_MAX 512u /* keys of one piece: bounds how long a shard is busy with it */

struct conn;
struct migrate;
struct task;
struct tick;
struct batch;

/* stream.kind: what has it first. */
enum { STREAM_CONN, STREAM_MIGRATE };

/* What only the sender reads of a hop: whose it is, and its place in that connection's order. */
struct own {
    struct conn *conn;
    struct own *next;
    struct batch *batch;
    uint32_t index;
};

/* A message that was not armed when its mailbox passed to others. armed NULL: none. */
struct lend_left {
    const _Atomic uint64_t *armed;
    uint64_t sequence;
};

/* Messages between threads. */
enum message_kind {
    MESSAGE_BATCH,         /* requests: run it. returns: it was run */
    MESSAGE_RELEASE,       /* requests: blobs whose replies were sent */
    MESSAGE_STOP,          /* requests: stand still at this point of the order, and say so */
    MESSAGE_STOPPED,       /* returns: a shard stands still */
    MESSAGE_GO,            /* returns: go on */
    MESSAGE_TOKEN_ASK,     /* returns, thread 0: may I be the coordinator? */
    MESSAGE_TOKEN,         /* returns: you are the coordinator */
    MESSAGE_TOKEN_BACK,    /* returns, thread 0: I no longer am */
    MESSAGE_ADOPT,         /* returns: a new connection is yours */
    MESSAGE_MONITOR,       /* returns: lines for monitors */
    MESSAGE_DISK,          /* returns: what was given to the disk's thread is done */
    MESSAGE_MONITOR_LEFT,  /* returns: the sender has one monitor less */
    MESSAGE_LATE,          /* returns: a hop that waited for a transaction has run */
    MESSAGE_ASIDE,         /* returns: a shard holds a good deal more for a connection */
    MESSAGE_HALT,          /* returns: start no transaction, and say when yours have ended */
    MESSAGE_HALTED,        /* returns: so it is */
    MESSAGE_MAY_I,         /* returns: a transaction that rests wants to go on */
    MESSAGE_YOU_MAY,       /* returns: not all have halted yet: it may, and this is to be told once more when none is under way */
    MESSAGE_HELD,          /* returns: a batch of a coordinator that holds the receiver's shard: run it, to its end */
    MESSAGE_BESIDE,        /* returns: a batch that looks at the receiver only, not at its shard: run it, to its end */
    MESSAGE_UNWATCH,       /* requests: a watcher's keys are to be forgotten */
    MESSAGE_FORGET,        /* requests: who waited for keys does so no more */
    MESSAGE_SERVED,        /* returns: a parked command was served */
    MESSAGE_ROOM,          /* returns: a snapshot that waited for its file may go on */
    MESSAGE_SAVED,         /* returns, thread 0: a snapshot's file is done */
    MESSAGE_SAVE_AND_EXIT, /* returns, thread 0: the process shall end, but not without a snapshot */
    MESSAGE_END_ABORTED,   /* returns, thread 0: ... but is not to end any more */
    MESSAGE_LOADING,       /* returns, thread 0: the coordinator begins to load */
    MESSAGE_LOADED,        /* returns, thread 0: the loaders have ended */
};

/* Where the token of the coordinators is. While data are loaded it is the loading's, and what needs no shard may have it beside that, one at a time. */
enum token { TOKEN_HERE, TOKEN_OUT, TOKEN_LOADING, TOKEN_BESIDE };

/* What a piece asks of its shard. */
enum piece_order {
    PIECE_HOP,      /* to be run, no transaction */
    PIECE_LOCAL,    /* to be run once it conflicts with no transaction */
    PIECE_SCHEDULE, /* to take its member in */
    PIECE_RUN,      /* to run its hop as soon as its member may begin */
    PIECE_RUN_LAST, /* and then to let the member go */
    PIECE_LET_GO,   /* to let the member go: it has run, or is withdrawn */
};

/* A batch of hops for one shard, lent to whoever runs it, and back with the replies. */
struct batch {
    struct message message;
    uint32_t n, to;                  /* hops; shard */
    int64_t now_ms;                  /* the time of its commands */
    struct reply replies;            /* one after the other */
    _Alignas(64) struct batch *next; /* in a list of the sender's or (a piece that goes on later) the runner's */
    struct tick *tick;
    struct task *task; /* of pieces: the task that waits */
    struct batch *made_next;
    uint32_t done, n_args;      /* hops that have their reply */
    bool slow;                  /* a hop of it was (HOP_SLOW) */
    bool owner_only;            /* a piece that may go on and on: no borrower runs it */
    bool goes_on;               /* a piece that has said HOP_AGAIN */
    struct aside_count counted; /* of such a piece */
    uint64_t cycles;            /* of a piece: the time it took */
    uint8_t order;              /* of a piece: enum piece_order */
    bool refused;               /* of PIECE_SCHEDULE: it came too late */
    bool recorded;              /* all its hops have a place in the order of their connections */
    uint32_t n_late;            /* hops that wait for transactions, or whose replies are on their way */
    struct deferred **late;     /* by hop; NULL: none ever waited */
    struct member *member;      /* of a piece of a transaction */
    _Alignas(64) struct hop hops[BATCH_HOPS];
    struct arg args[BATCH_ARGS];
    size_t ends[BATCH_HOPS]; /* where in replies each reply ends */
    struct own own[BATCH_HOPS];
};

struct release {
    struct message message;
    uint32_t n;
    struct blob *blobs[30];
};
/* STOP, GO, TOKEN..., ADOPT. */
struct note {
    struct message message;
    uint64_t value;
    struct task *task;
};

/* Bytes of a client that wait: the start of a command that is not whole, or what stands behind one that is under way. */
struct block {
    size_t size, capacity;
    uint32_t pins;
    bool dropped;
    char bytes[];
};

/* What commands under way still point into; given back oldest tick first, once its batches are back. */
struct tick {
    struct batch *batches;
    uint32_t open; /* batches and tasks that are not finished */
    uint32_t n_buffers, n_blocks, n_blobs, blocks_capacity, blobs_capacity, buffers_capacity;
    uint32_t *buffers;
    struct block **blocks;
    struct arg **blobs; /* arguments that may still be blobs of ours */
    void **memory;      /* argument vectors too large for a batch */
    uint32_t n_memory, memory_capacity;
};

struct thread_stats {
    uint64_t commands, connections, rejected, input_bytes, output_bytes, ticks, sleeps, wakes, hops_sent, hops_taken, batches_sent,
        batches_taken, tasks, exclusives;
    uint64_t clients, errors, sends, evicted_clients;
    uint64_t lends, lent_hops, found_lent,
        wanted; /* batches, and hops, run on borrowed shards; turns that found the own one lent; of these, had to ask for it */
    uint64_t transactions, transactions_whole, withdrawn, given_up;
    uint64_t blocked, blocked_in_time;        /* parked commands now; those with a timeout */
    uint64_t longest_keep_ns;                 /* CPU time of the longest slice of housekeeping */
    uint64_t keep_ns, keep_unfinished, reads; /* housekeeping's CPU time; its slices that left something to do; what came in by sockets */
};

struct thread {
    /* Written by others. */
    struct mailbox requests, returns;
    _Alignas(64) _Atomic uint64_t armed; /* outboxes with this sequence or less may be run */
    _Alignas(64) _Atomic uint32_t asleep;
    _Atomic uint32_t turn;           /* counts its turns, for the watchdog */
    _Atomic uint64_t config_version; /* of config, or of one before it */
    _Atomic uint64_t changes;        /* changes of its shard's keys, as of its last turn */
    _Atomic(void *) region;          /* the next one for the shard's memory: regions.h */
    _Atomic bool awaits_region;
    _Atomic uint16_t running; /* the row of the command that runs, 0: none; for crash reports and the watchdog */
    /* The shard's, so of whoever holds it. */
    struct holder holder;
    struct shard *shard;
    _Atomic int64_t lent_due_ms; /* when its owner must be awake again for its sake; a borrower may only move it forward */
    /* Its own. */
    _Alignas(64) bool mine; /* it holds its shard; else the shard is lent */
    bool stands_still;      /* a coordinator holds the shard */
    bool settles;           /* something was queued for shards that nobody may be looking at */
    uint64_t *queued;       /* bit map of these */
    uint64_t *borrowed;     /* bit map: shards that it holds beside its own, in this flush */
    uint32_t n_borrowed;
    uint64_t lent_since; /* cycles: when it found its shard lent */
    int64_t sleeps_until_ms;
    struct lend_left sleeps_beside;
    struct server *server;
    const struct config *config;
    struct proactor *proactor;
    uint32_t id, n_threads;
    uint32_t route_first, route_n; /* keys go to the shards from route_first on: all of them, but for DEBUG ROUTE */
    bool flush_each;               /* DEBUG BATCH */
    int64_t now_ms;                /* of this tick */
    uint64_t now_ns, sequence;
    /* Dispatch. */
    struct arg *argv; /* of the command being parsed */
    uint32_t argv_capacity;
    bool argv_has_blob;
    struct reply scratch;                       /* replies that wait or are dropped */
    struct batch *own_batch, *own_last;         /* own hops of this tick, in order */
    struct batch **outbox_first, **outbox_last; /* by shard */
    /* In the flush: own hops, and by shard those for borrowed ones. What is queued from here on is for the next flush, which gives transactions
     * their numbers and sends all that belongs together at once. */
    struct batch *own_now, **lent_now;
    bool outbox_used;
    struct batch *free_batches, *made_batches; /* made: all, by made_next */
    struct tick *ticks, *tick;                 /* tick: the one being filled, or NULL */
    uint32_t tick_first, tick_next;
    struct batch *slices, *slices_last; /* sliced hops that said AGAIN, of whoever sent them */
    struct deferred *late_slices,
        *late_slices_last; /* plain hops on this thread's shard that go on in slices; whoever holds the shard may add one */
    struct serving *serving, *serving_last; /* who waited for keys of the shard, and is served in slices; the same */
    struct task *merges, *merges_last;      /* they put long texts together, in slices */
    uint64_t *wanted;                       /* bit map: threads to wake */
    /* Connections. */
    struct conn *conns;  /* list of all */
    struct conn **slots; /* the same, each in a place that it keeps */
    uint32_t n_slots, slots_capacity, *free_slots, n_free_slots;
    struct deadlines deadlines; /* of parked commands */
    struct migrate *migrates;   /* list of all that go to other servers */
    struct deadlines migrate_deadlines;
    struct conn **held; /* they wait for the end of CLIENT PAUSE */
    uint32_t n_held, held_capacity;
    struct client_memory client_memory;
    uint64_t pause_until_ns;       /* 0: no pause */
    bool pause_all;                /* else only writes wait */
    struct conn **dirty, **resume; /* replies to send; input to go on with */
    uint32_t n_dirty, dirty_capacity, n_resume, resume_capacity;
    struct reply *spare; /* reply buffers without an owner */
    uint32_t n_spare;
    struct task *free_tasks;
    struct release **releases; /* by shard: blobs to give back */
    uint32_t round_robin;
    uint64_t next_timeout_ns, keep_last_ns;
    int64_t keep_tokens_ns;                         /* what housekeeping may spend; below 0: has spent too much */
    uint64_t writer_seen_ns;                        /* saving_writer_ns(), as far as this thread's housekeeping has paid its part */
    uint64_t images_seen;                           /* of the running snapshot's images, the same */
    uint64_t walked_keys, walked_ns, walked_key_ns; /* of a snapshot's walk, not yet counted; what a key costs it */
    struct thread_stats stats;
    struct measure measure;
    uint64_t growth_ns, growth_cycles; /* when the shard's table began the step of growth that is under way */
    uint64_t growth_check_ns;          /* when memory_check_growth is due */
    struct monitors *monitors;
    uint64_t startup_bytes;   /* of its shard, before the first key */
    bool monitored;           /* some connection monitors, on whatever thread */
    uint64_t commands_before; /* stats.commands at the start of the tick before */
    /* Transactions. */
    struct task *numbers;                      /* sent in this turn; the flush draws their numbers */
    struct task *waiting_tasks, *waiting_last; /* they begin at GO */
    uint32_t transactions, resting;            /* under way; that wait for somebody else than this server (transact_rest) */
    bool no_transactions;                      /* a coordinator wants all shards to itself: none begins */
    bool looks_on;                             /* and it is for what may be beside those that rest */
    uint64_t hurry_ns;                         /* if it has not got them by then, those that rest are to end; 0: they are in no hurry */
    bool asked;                                /* the coordinator was asked whether one that rests may go on */
    struct task *halted;                       /* whose coordinator is to be told when none is under way, and on which thread it is */
    uint32_t halted_for, halts_owed;           /* how often it is to be told so; 0: it has been */
    struct task *halting;                      /* of this thread's coordinator, while it waits for that */
    /* Thread 0: the token of the coordinators. */
    struct note **token_queue;
    uint32_t token_first, token_n, token_capacity;
    uint8_t token; /* enum token */
    bool loaded;   /* the loaders have ended; somebody is beside them yet */
    pthread_t handle;
};

struct server {
    struct thread **threads;
    uint32_t n_threads;
    struct hash_secret secret;
    struct budget budget; /* maxmemory */
    _Atomic uint64_t next_client_id;
    _Alignas(64) _Atomic uint64_t transaction; /* the number drawn last */
    _Atomic uint64_t clients;
    _Atomic uint64_t clients_memory; /* bytes, while maxmemory-clients is set */
    _Atomic bool stopping;
    int64_t started_ms;
    uint64_t started_ns;
    char run_id[41];
    pthread_barrier_t ready;
};

extern struct server server; /* immutable after the start, but for its atomics */

/* thread.c */
struct thread *thread_new(uint32_t id, uint32_t n);
int thread_start(struct thread *t);
/* After all threads have ended: connections and what was under way. */
void thread_drop_conns(struct thread *t);
void thread_drop(struct thread *t);
void thread_want_wake(struct thread *t, uint32_t to);
/* All others, at once. */
void thread_wake_others(struct thread *t);
/* There is something on its shard that goes on in slices. */
static inline bool thread_has_slices(const struct thread *t) { return t->slices || t->late_slices || t->serving; }
/* May it touch its shard now? Constant from the start of a turn to the flush. */
static inline bool thread_holds(const struct thread *t) { return t->mine && !t->stands_still; }
/* Takes the current configuration; limits in time are looked at anew. The one before may be freed from here on. */
void thread_take_config(struct thread *t);
/* The least version of the configuration that any thread may still read. Any thread. */
uint64_t threads_oldest_config(void);
/* The shard of a key. */
static inline uint32_t thread_shard_of(const struct thread *t, const struct arg *key, uint64_t hash) {
    if (t->route_n == 1) return t->route_first;
    return route_shard(route_slot(&t->server->secret, key, hash), t->route_n);
}
/* The tick that commands dispatched now belong to. */
struct tick *thread_tick(struct thread *t);
void thread_add_conn(struct thread *t, struct conn *c);
void thread_remove_conn(struct thread *t, struct conn *c);
void tick_add_memory(struct tick *k, void *p);
void tick_add_blob(struct tick *k, struct arg *a);
void tick_add_buffer(struct tick *k, uint32_t buffer);
void tick_pin_block(struct tick *k, struct block *b);

/* A growing array with room for one more: as it is, or moved; n: items, size: bytes of one. What is refused here cannot be recovered from. */
void *array_with_room(void *array, uint32_t n, uint32_t *capacity, size_t size);

#endif
