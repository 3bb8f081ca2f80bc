/* A whole server in one thread of ours: its threads are state machines, and each step of one of them is drawn from the seed.
 *
 * Real: struct shard with its tables, memory and expiry; schedule.c and txn.c; mailboxes and holder words. Modelled, in driver.c (a turn of a thread, lending),
 * coordinate.c (what the thread of a connection does) and execute.c (what the holder of a shard does): what outbox.c, lend.c and task.c do. world.c has the
 * clients, the clock and what goes wrong.
 */
#ifndef SIM_WORLD_H
#define SIM_WORLD_H

#include "io/holder.h"
#include "io/mailbox.h"
#include "server/txn.h"
#include "shard/schedule.h"
#include "shard/shard.h"
#include "tests/sim/fault.h"
#include "tests/sim/plan.h"
#include "tests/sim/random.h"

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
};

#define BATCH_OPS 4u
#define LETTERS_TAKEN 3u /* commands of a connection that are taken in one turn, at most */

enum letter_kind {
    LETTER_HOPS,
    LETTER_HOP /* one that was deferred, on its way back */,
    LETTER_SCHEDULE,
    LETTER_RUN,
    LETTER_WITHDRAW,
    LETTER_STOP, /* to a shard, and back */
    LETTER_GO,
    LETTER_TOKEN_ASK,
    LETTER_TOKEN,
    LETTER_TOKEN_BACK,
    LETTER_DRAIN,
    LETTER_DRAINED /* to a thread */
};

struct letter {
    struct message message;
    struct letter *next; /* in an outbox */
    uint32_t to;         /* shard */
    struct task *task;
    struct slot *slot;
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

/* An operation that waits for all before it on its connection. */
struct task {
    struct op *op;
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
    bool busy, closed;
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

struct list {
    struct letter *first, *last;
};

struct thread {
    struct world *world;
    uint32_t id;
    enum stage stage;
    struct holder holder;
    bool mine, stands_still, draining;
    struct mailbox requests, returns;
    _Atomic uint64_t armed;
    uint64_t sequence, turn;
    struct shard *shard;
    uint64_t used_at_first; /* bytes */
    int64_t now_ms;
    struct list outbox[SHARDS_MAX], lent[SHARDS_MAX], own, running;
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
    uint64_t steps, withdrawn, exclusive, deferred, lent, expired, waited;
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
    int64_t now_ms;
    uint64_t hashes[KEYS_MAX];
    char names[KEYS_MAX][8];
    uint8_t shard_of[KEYS_MAX];
    int64_t letters, slots, tasks; /* that are not freed */
    struct text *texts;            /* what parts have read */
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
struct letter *letter_new(struct thread *t, enum letter_kind kind, uint32_t to);
void letter_free(struct world *w, struct letter *l);

/* ---- coordinate.c ---- */

void coordinate_take(struct thread *t, struct conn *c);
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
struct slot *slot_new(struct thread *t, struct op *op, uint32_t shard);
void slot_free(struct world *w, struct slot *slot);

/* ---- world.c ---- */

/* A reply reaches its client. */
void client_receives(struct world *w, struct op *op);
char *world_text(struct world *w, uint32_t size);

#endif
