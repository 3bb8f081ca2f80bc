/* What a task is made of, for the files that see tasks through: task.c, transact.c, steps.c. */
#ifndef SERVER_TASK_INTERNAL_H
#define SERVER_TASK_INTERNAL_H

#include "server/course.h"
#include "server/task.h"
#include "server/txn.h"
#include "shard/schedule.h"

enum task_kind {
    TASK_FANOUT,
    TASK_STEPS,
    TASK_ALL,
    TASK_CURSOR,
    TASK_SLICED,
    TASK_EXCLUSIVE,
    TASK_DISK,
    TASK_COURSE,
    TASK_SETTLING,
    TASK_CUT
};

struct task {
    struct task *next; /* free list, or thread.merges */
    struct conn *conn;
    const struct command *row;
    enum task_kind kind;
    bool no_reply, started;
    struct tick *tick; /* pinned until the end, if argv points into receive buffers */
    struct arg *argv;  /* own array; its bytes too where copied */
    uint32_t argc, n_keys, next_key, wave_end;
    uint8_t key_first, key_step;
    uint32_t outstanding;   /* pieces, or shards that do not stand still yet */
    int64_t now_ms;         /* of all its pieces: when it began; of a transaction, when its intents stood; when all shards stood still */
    uint32_t rounds;        /* SETTLING: how often all shards must still stand still */
    uint64_t *hashes;       /* EXCLUSIVE: of all keys; FANOUT: of this wave's */
    struct arg *piece_args; /* of this wave */
    uint64_t *piece_hashes;
    uint16_t *piece_shard; /* of each key of this wave */
    struct batch **pieces; /* by shard, of this wave; NULL: none */
    int64_t sum;
    uint32_t text_shard; /* MERGE_TEXT, MERGE_LIST: whose piece is next, */
    size_t text_at;      /* and from where on */
    struct each *each;   /* MERGE_EACH: by shard; NULL: no wave is being put together */
    uint32_t each_next;  /* and the next of the wave's keys */
    uint64_t cycles;     /* the time of all pieces */
    uint64_t reserved;   /* bytes of the budget, until the end */
    size_t reply_at;     /* where its reply begins in the output */
    struct reply error;  /* the first error; size 0: none */
    struct hop hop;      /* EXCLUSIVE */
    /* Transactions (transact.c). */
    struct txn txn;
    struct member *members; /* by shard; those with intents take part */
    struct intent *intents; /* of all members */
    bool whole;             /* its intents are on the database: very many keys */
    bool stood;             /* its members have stood on all shards */
    bool letting_go;        /* its last messages are out */
    bool asking;            /* FANOUT: the shards are asked what its keys take */
    uint8_t room;           /* FANOUT: enum room, of its pieces */
    uint32_t step;          /* STEPS: which comes next */
    struct carrier *carrier;
    bool rests;    /* COURSE: see transact_rest */
    task_cut *cut; /* CUT */
    bool looks_on; /* the same */
    /* COURSE (course.c). */
    const struct task_course *course;
    void *of;
    struct spread held;        /* the shards, while all are; n 0: they are not */
    struct task_command outer; /* what row, argv and argc are, while a command inside has their place; row NULL: none has */
};

/* task.c */
struct reply *task_output(struct thread *t, struct task *k);
struct task *task_new(
    struct thread *t, struct conn *c, const struct command *row, enum task_kind kind, struct arg *argv, uint32_t argc, bool copy_bytes);
/* The same with the hashes of its keys; NULL: that there is no memory was replied. */
struct task *task_new_hashed(struct thread *t, struct conn *c, const struct command *row, enum task_kind kind, struct arg *argv,
    uint32_t argc, const struct key_range *keys);
void task_finish(struct thread *t, struct task *k);
/* Goes on as a piece in slices on the own shard, with k->hop.state. */
void task_go_on_in_slices(struct thread *t, struct task *k);
/* Replies that there is no memory for a task. */
void task_no_memory(struct thread *t, struct conn *c);
/* A piece for a shard, not sent yet: it becomes k->pieces[shard]. */
struct batch *task_piece(struct thread *t, struct task *k, uint32_t shard, struct arg *argv, uint32_t argc, uint32_t n_keys,
    uint64_t *hashes, uint32_t key_step, uint64_t state);
/* The end of the value at `at` of a piece's bytes; a bulk behind a ref has no bytes of its own here. *ref: the next ref. */
size_t task_value_end(const struct reply *piece, size_t at, uint32_t *ref);
/* Deals the keys [next_key, wave_end) to pieces of their shards, unsent. False: no memory. */
bool task_deal_wave(struct thread *t, struct task *k);
/* All pieces of a wave are back: their replies become part of the task's. True: there are more keys. What may take long (task_merges_long) better goes on in slices: then
 * task_fanout_merged() is called when that is done, with the same result. */
bool task_merge_wave(struct thread *t, struct task *k);
bool task_merges_long(struct thread *t, const struct task *k);
void task_merge_in_slices(struct thread *t, struct task *k);
/* The arguments of a wave that has not run are the task's again. */
void task_undeal_wave(struct thread *t, struct task *k);
/* The end of a fan-out: what the merge makes of all waves, and finish. */
void task_fanout_reply(struct thread *t, struct task *k);
/* Drops the pieces that were dealt or sent, unread. */
void task_forget_wave(struct thread *t, struct task *k);
/* SETTLING: all shards stand still. */
void task_settled_once(struct thread *t, struct task *k);
/* standstill.c. Waits for the token; then the command runs while all shards stand still. */
void task_ask_for_token(struct thread *t, struct task *k);

/* Puts the pieces of a PLAN_ALL command together, in one go. */
void task_merge_at_once(struct thread *t, struct task *k);
/* The replies of all pieces, one after the other. */
void task_take_whole(struct thread *t, struct task *k);
/* Has the command of this row run on the disk's thread; then the reply is in the output. False: no memory. */
bool task_to_disk(struct thread *t, struct task *k, const struct command *row);

/* transact.c: the life of a transaction. A task begins one once its members are set up, and is told by its kind's step function when they stand, and
 * when each wave is done. */
void transact_begin(struct thread *t, struct task *k);
/* Sends the pieces that were made; last: all members go, those without a piece too. */
void transact_send_wave(struct thread *t, struct task *k, bool last);
/* Lets go of all members that stand; then the step function is called a last time, with k->letting_go. */
void transact_let_go(struct thread *t, struct task *k);
/* A course's transaction stands and waits for somebody else than this server, for who knows how long. Until it goes on it sends nothing to the shards, where its intents
 * stay, and points to nothing there. So what looks on (CMD_LOOKS_ON) need not wait for its end, and it waits for what looks on if it wants to go on then, unless that waits for
 * transactions yet, which may wait for its intents (MESSAGE_MAY_I). What else needs all shards waits for its end all the same, as it would act on keys that are not its own.
 * From t->hurry_ns on, if that is not 0, the course is to end it, if all shards are wanted by what does not look on, or if somebody waits for it (transact_is_awaited). */
void transact_rest(struct thread *t, struct task *k);
/* Whether somebody has had to wait for an intent of this transaction, which stands. */
bool transact_is_awaited(const struct thread *t, const struct task *k);
/* True: it goes on. False: it may not yet; when it does the course's on() is called. Also if it does not rest. */
bool transact_go_on(struct thread *t, struct task *k);
/* The task is over, or goes on as another kind. */
void transact_end(struct thread *t, struct task *k);
/* An answer to a piece. */
void transact_answer(struct thread *t, struct task *k, struct batch *b);

/* steps.c: the same. */
void task_steps_step(struct thread *t, struct task *k);

/* fanout.c, for rows with `needs`: an upper bound, in bytes; reserves them; takes the answers of a wave, and its keys back (true: there are more keys; else it is
 * at the first again). */
uint64_t task_most(const struct task *k);
bool task_reserve(struct thread *t, struct task *k, uint64_t bytes);
bool task_take_needs(struct thread *t, struct task *k);

/* fanout.c: an intent on the database as a whole, of a member on every shard. False: no memory. */
bool task_intents_on_database(struct thread *t, struct task *k);
/* All members stand, or a wave is done. */
void task_fanout_step(struct thread *t, struct task *k);
/* A wave is put together; more: there are more keys. */
void task_fanout_merged(struct thread *t, struct task *k, bool more);

#endif
