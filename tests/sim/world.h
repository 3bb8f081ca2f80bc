/* A whole server in one thread of ours: its threads are state machines, and each step of one of them is drawn from the seed.
 *
 * Real: struct shard with its tables, memory and expiry; schedule.c, wait.c and txn.c; mailboxes and holder words. Modelled, in driver.c (a turn of a thread, lending),
 * coordinate.c (what the thread of a connection does), execute.c (what the holder of a shard does) and waiting.c (both, of commands that wait): what outbox.c,
 * lend.c, task.c, standstill.c and waiting.c do. snapshots.c has their snapshots. world.c has the clients, the clock and what goes wrong.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "io/holder.h"
#include "io/mailbox.h"
#include "server/txn.h"
#include "shard/schedule.h"
#include "shard/shard.h"
#include "shard/wait.h"
#include "tests/lib/random.h"
#include "tests/sim/fault.h"
#include "tests/sim/plan.h"

/* Deliberate faults of the driver, one at a time (sim_fault); those of schedule.h and txn.h come before. */
enum {
    FAULT_NO_VALIDATION = 20,    /* EXEC does not look at what was watched */
    FAULT_ARMED_EARLY = 21,      /* an outbox is armed before all of its mailboxes were filled */
    FAULT_RUN_ON_ARRIVAL = 22,   /* a shard runs the first hop when its own member stands, not when all do */
    FAULT_EARLY_RELEASE = 23,    /* the first hop on a shard releases, not the last */
    FAULT_NO_DRAIN = 24,         /* an exclusive command does not wait for transactions under way */
    FAULT_FORGOTTEN_INTENT = 25, /* a deferred command has no intent of its own, so a later one overtakes it */
    FAULT_OWN_FIRST = 26,        /* own commands run before what had arrived */
    FAULT_EXPIRY_TAKES = 27,     /* expiry does not look at intents */
    FAULT_PLAIN_PASSES = 28,     /* a plain command does not look at intents */
    FAULT_OWN_OVERTAKES = 29,    /* own commands run although something is held back by what is not armed yet */
    FAULT_NUMBER_EARLY = 30,     /* a number is drawn before its members have their places in their shards' order of arrival */
    FAULT_SERVED_LATE = 31,      /* who waits is served after a batch, not after each of its commands */
    FAULT_HALF_FORGOTTEN = 32,   /* a waiter is left in the queues of another shard when its command is over */
    FAULT_QUEUES_UNGUARDED = 33, /* between looking and queuing up no intents stand */
    FAULT_ENDS_UNCLAIMED = 34,   /* a deadline, CLIENT UNBLOCK or the end of a connection does not ask who was first */
    FAULT_NOT_SERVED_HELD = 35,  /* nobody is served after an exclusive command */
    FAULT_WRITER_FORGOTTEN = 36, /* who waited until a snapshot had written a value is not run */
    FAULT_SERVED_UNLOCKED = 37,  /* the key of who is served in slices is not locked */
    FAULT_SERVED_ON = 38,        /* who is served in slices is not done when its shard stands still */
};

#define BATCH_OPS 4u
#define LETTERS_TAKEN 3u /* commands of a connection that are taken in one turn, at most */

enum letter_kind {
    LETTER_HOPS,
    LETTER_HOP /* one that was deferred, on its way back */,
    LETTER_SCHEDULE,
    LETTER_RUN,
    LETTER_TRY, /* a POP on its only shard */
    LETTER_FORGET,
    LETTER_WITHDRAW,
    LETTER_STOP, /* to a shard, and back */
    LETTER_GO,
    LETTER_TOKEN_ASK,
    LETTER_TOKEN,
    LETTER_TOKEN_BACK,
    LETTER_DRAIN,
    LETTER_DRAINED,
    LETTER_SERVED /* to a thread */
};

struct letter {
    struct message message;
    struct letter *next; /* in an outbox */
    uint32_t to;         /* shard */
    struct task *task;
    struct slot *slot;
    struct half *half; /* FORGET */
    struct pop *pop;   /* SERVED */
    uint32_t n;
    struct op *ops[BATCH_OPS];
    uint64_t turn; /* LETTER_HOPS: in which it was made */
    bool late, last;
};

/* What stands on a shard for an operation. */
struct slot {
    struct member member;
    struct intent intents[2 * PARTS_MAX];
    struct op *op;
    struct task *task;     /* NULL: a deferred command */
    struct letter *parked; /* what goes on once nothing before it conflicts */
    uint32_t from, shard;
    bool stands;
};

/* What stands in the queues of one shard for a POP. */
struct half {
    struct waiter waiter;
    struct wait keys[POP_KEYS_MAX];
};

enum pop_state { POP_TRYING, POP_LOOKING, POP_QUEUING, POP_PARKED, POP_SERVING, POP_OVER };
#define NONE UINT32_MAX

/* A command that waits for keys. Of its connection's thread, but for the claim; and of the shard that has claimed it, until it says so. */
struct pop {
    struct op *op;
    struct task *task;
    uint32_t home;    /* thread */
    uint32_t holders; /* halves; the connection's side; a letter that says that it was served */
    _Atomic bool claim;
    enum pop_state state;
    uint32_t first; /* of its keys that had something at once, or NONE */
    bool refused, served;
    uint64_t until; /* step */
    struct half *halves[SHARDS_MAX];
};

/* Who is served in slices; its shard's. */
struct serving {
    struct serving *next;
    struct member member;
    struct intent intents[2];
    struct pop *pop;
    uint32_t nth;
    int64_t now_ms;
};

/* Who stands in the queue of a key, in order. */
#define LINE_MAX 128u
struct line {
    uint32_t n;
    struct pop *of[LINE_MAX];
};

/* An operation that waits for all before it on its connection. */
struct task {
    struct op *op;
    struct pop *pop; /* of a POP */
    struct conn *conn;
    struct thread *thread;
    struct txn txn;
    uint32_t wave, outstanding;
    struct slot *slots[SHARDS_MAX]; /* NULL: it is not there, or has been released */
    struct task *next;              /* that wait: for the end of a drain; for their numbers */
};

struct conn {
    uint16_t id;
    struct thread *thread;
    struct op *input[32], *order[32]; /* what was sent and not taken; what was taken and not answered */
    uint32_t n_input, n_order, n_out, position;
    struct pop *parked;
    bool busy, closed, unblocked;
};

enum stage {
    STAGE_ASLEEP,
    STAGE_TAKE,
    STAGE_COLLECT,
    STAGE_BORROW,
    STAGE_PUSH,
    STAGE_ARM,
    STAGE_REQUESTS,
    STAGE_OWN,
    STAGE_BORROWED,
    STAGE_SETTLE,
    STAGE_RETURNS,
    STAGE_SEND,
    STAGE_KEEP,
    STAGE_REST
};

enum { NOT_BORROWED, BORROWED, BORROWED_RUNS };

struct letters {
    struct letter *first, *last;
};

struct thread {
    struct world *world;
    uint32_t id;
    enum stage stage;
    struct holder holder;
    bool mine, stands_still, draining;
    bool early; /* FAULT_OWN_FIRST: it runs what it should run later */
    struct mailbox requests, returns;
    _Atomic uint64_t armed;
    uint64_t sequence, turn;
    struct shard *shard;
    struct serving *serving;
    uint64_t used_at_first; /* bytes */
    int64_t now_ms;
    struct letters outbox[SHARDS_MAX], lent[SHARDS_MAX], own, running;
    uint8_t borrowed[SHARDS_MAX];
    bool queued[SHARDS_MAX], pushing;
    uint32_t in_flight;                            /* transactions that this thread coordinates */
    struct task *waiting, *numbers, *drain_for;    /* until a drain ends; until their numbers are drawn; whoever asked for a drain */
    uint32_t token_queue[CLIENTS_MAX * CONNS_MAX]; /* of thread 0: who asked */
    struct task *token_tasks[CLIENTS_MAX * CONNS_MAX];
    uint32_t token_first, token_n;
    bool token_out;
    uint32_t weight;
    uint64_t held_until; /* step: it has lost its CPU in the middle of publishing */
    uint64_t watermark; /* no number up to it may still come in: of what has run here, and those drawn before what has run here was asked */
};

struct client {
    struct conn *conn;
    uint32_t next, unanswered; /* operation of the plan; of what was sent */
    bool leaving;
};

struct stats {
    uint64_t steps, withdrawn, exclusive, deferred, lent, expired, waited, parked, served, sliced, snapshots;
};

struct world {
    struct plan *plan;
    struct random random;
    struct hash_secret secret;
    struct thread threads[SHARDS_MAX];
    struct client clients[CLIENTS_MAX];
    struct conn conns[CONNS_MAX];
    uint32_t n_conns, n_threads, n_asked; /* operations of the plan itself */
    uint64_t moment, number;
    _Atomic uint64_t stranger_armed; /* of a thread that has lost its CPU between a push and arming: what stands behind it waits */
    uint64_t stranger_sequence;
    int64_t now_ms, latest_ms; /* it jumps back */
    uint64_t hashes[KEYS_MAX];
    char names[KEYS_MAX][8];
    uint8_t shard_of[KEYS_MAX];
    struct line lines[DBS][KEYS_MAX];
    int64_t letters, slots, tasks, pops; /* that are not freed */
    struct text *texts;                  /* what parts have read */
    struct stats stats;
    const char *wrong; /* what has failed, or NULL */
};

/* Runs a plan, which becomes its history. NULL, or what went wrong in it. */
const char *world_run(struct plan *p, struct stats *stats);
/* Frees what the history's parts refer to. */
void world_forget(void);

/* ---- driver.c ---- */

/* Whether a step of the thread could do anything. */
bool thread_has_work(struct thread *t);
void thread_step(struct thread *t);
static inline bool thread_holds(const struct thread *t) { return t->mine && !t->stands_still; }
void thread_queue(struct thread *t, struct letter *l);
/* Not by the outbox: at once. */
void thread_note(struct thread *t, uint32_t to, bool to_shard, enum letter_kind kind, struct task *task);
void thread_post(struct thread *t, struct letter *l, bool to_shard);
struct letter *letter_new(struct thread *t, enum letter_kind kind, uint32_t to);
void letter_free(struct world *w, struct letter *l);

/* ---- coordinate.c ---- */

void coordinate_take(struct thread *t, struct conn *c);
/* Begins a transaction. */
void coordinate_start(struct thread *t, struct task *k);
/* A task is done; its reply can be sent. */
void coordinate_end(struct thread *t, struct task *k);
/* Something of this thread's comes back; it is freed. */
void coordinate_returned(struct thread *t, struct letter *l);
/* Of what this turn has sent, when all of it has its place in its shard's order of arrival. */
void coordinate_draw_numbers(struct thread *t);
void coordinate_drained(struct thread *t);
uint32_t op_shards(const struct world *w, const struct op *op);

/* ---- execute.c ---- */

/* t, which holds the shard of `of`, does what l asks there. */
void execute(struct thread *t, struct thread *of, struct letter *l);
/* Runs all of an operation, on shards that all stand still. */
void execute_all(struct world *w, struct op *op);
void execute_expiry(struct thread *t);
/* A member leaves the order of the shard of `of`, which t holds. */
void execute_leave(struct thread *t, struct thread *of, struct member *m);
void execute_part(struct thread *of, struct op *op, struct part *p);
/* Elements of a key. */
uint32_t execute_elements(const struct key *k);
struct slot *slot_new(struct thread *t, struct op *op, uint32_t shard);
void slot_free(struct world *w, struct slot *slot);

/* Those that waited until a snapshot had written a value run. */
void execute_let_go(struct thread *t);

/* ---- snapshots.c ---- */

/* While all shards stand still. One that still runs is let be. */
void snapshots_cut(struct world *w);
/* The disk is slower now, or faster. */
void snapshots_change_room(struct world *w);
/* Before a plain command is run on a shard; before a member is taken in there. */
void snapshots_hold(struct thread *of, const struct op *op);
void snapshots_hold_member(struct thread *of, const struct member *m);
/* Housekeeping; before a shard stands still. */
void snapshots_work(struct thread *t);
void snapshots_hurry(struct thread *t);

/* ---- waiting.c ---- */

/* The connection's side: begins; all shards have been looked at; it has taken, or queued up; a shard has served it; its time is over, or it is
 * unblocked, or its client has left. */
void waiting_start(struct thread *t, struct task *k, uint32_t shards);
void waiting_looked(struct pop *x);
void waiting_queued(struct thread *t, struct pop *x);
void waiting_served(struct thread *t, struct pop *x);
bool waiting_is_over(const struct world *w, const struct conn *c);
void waiting_end(struct thread *t, struct conn *c);
/* The shard's side: all that it does on its only one; a wave of several; all on shards that stand still; a half is given back, and the letter freed. */
void waiting_try(struct thread *of, struct pop *x);
void waiting_wave(struct thread *of, struct pop *x);
void waiting_on_held(struct world *w, struct pop *x);
void waiting_forget_arrived(struct thread *of, struct letter *l);
/* Serves who can be. t holds the shard of `of`. */
void waiting_serve(struct thread *t, struct thread *of);
/* The last slice of the first of those who are served in slices. t holds the shard of `of`. */
void waiting_serve_out(struct thread *t, struct thread *of);
/* Whether somebody should have been served. */
void waiting_check_lines(struct thread *of);
/* NULL, or what is left at the end. */
const char *waiting_left(const struct thread *t);

/* ---- world.c ---- */

/* A reply reaches its client. */
void client_receives(struct world *w, struct op *op);
char *world_text(struct world *w, uint32_t size);

#endif
