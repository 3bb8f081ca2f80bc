/* Transactions: tasks whose keys lie on several shards, or are very many. server/txn.h has the states, shard/schedule.h the shards' half.
 *
 * A task sets up its members, one for each shard that takes part, and begins. Their messages go out with the next flush, which draws its number between
 * publishing and arming: shard/schedule.h says why then. Once all stand, the step function of the task's kind sends waves of hops, and lets go.
 *
 * A message for a member always is a piece (struct batch) of the task, and at most one is under way for each: whatever must be sent, a withdrawal too, has
 * its room.
 */
#include <mimalloc.h>
#include <stdlib.h>

#include "server/course.h"
#include "server/defer.h"
#include "server/outbox.h"
#include "server/task_internal.h"
#include "server/thread.h"

static bool takes_part(const struct task *k, uint32_t shard) { return k->members[shard].n_intents; }

static struct batch *message_for(struct thread *t, struct task *k, uint32_t shard, enum piece_order order) {
    struct batch *b = k->pieces[shard];
    if (!b) b = task_piece(t, k, shard, k->argv, k->argc, 0, NULL, 1, 0);
    b->order = (uint8_t)order;
    b->member = &k->members[shard];
    return b;
}

static void schedule(struct thread *t, struct task *k) {
    for (uint32_t s = 0; s < t->n_threads; s++) {
        if (!takes_part(k, s)) continue;
        struct member *m = &k->members[s];
        *m = (struct member){.intents = m->intents, .n_intents = m->n_intents};
        outbox_send_piece(t, message_for(t, k, s, PIECE_SCHEDULE));
    }
    k->next = t->numbers;
    t->numbers = k;
}

/* Until the coordinator that has all shards, or asks for them, lets go. */
static void wait_for_go(struct thread *t, struct task *k) {
    k->next = NULL;
    if (t->waiting_last) t->waiting_last->next = k;
    else t->waiting_tasks = k;
    t->waiting_last = k;
}

void transact_begin(struct thread *t, struct task *k) {
    if (t->no_transactions) {
        wait_for_go(t, k);
        return;
    }
    t->transactions++;
    t->stats.transactions++;
    t->stats.transactions_whole += k->whole;
    schedule(t, k);
}

/* Those that rest go on; those that are yet to begin do that, or wait again. */
static void resume(struct thread *t, void (*not_begun)(struct thread *t, struct task *k)) {
    struct task *k = t->waiting_tasks, *next;
    t->waiting_tasks = t->waiting_last = NULL;
    for (; k; k = next) {
        next = k->next;
        if (!k->rests) not_begun(t, k);
        else if (transact_go_on(t, k)) k->course->on(t, k, k->of);
    }
}

void transact_resume(struct thread *t) { resume(t, transact_begin); }
void transact_resume_resting(struct thread *t) { resume(t, wait_for_go); }

void transact_rest(struct thread *t, struct task *k) {
    k->rests = true;
    t->transactions--;
    t->resting++;
    task_halted(t);
}

bool transact_is_awaited(const struct thread *t, const struct task *k) {
    for (uint32_t s = 0; s < t->n_threads; s++)
        if (takes_part(k, s) && schedule_is_awaited(&k->members[s])) return true;
    return false;
}

bool transact_go_on(struct thread *t, struct task *k) {
    if (!k->rests) return true;
    if (t->no_transactions && t->looks_on && !t->halts_owed) {
        wait_for_go(t, k);
        task_ask_to_go_on(t);
        return false;
    }
    k->rests = false;
    t->resting--;
    t->transactions++;
    return true;
}

void task_draw_numbers(struct thread *t) {
    for (struct task *k = t->numbers; k; k = k->next) {
        uint64_t number = atomic_fetch_add_explicit(&server.transaction, 1, memory_order_relaxed) + 1;
        uint32_t n = 0;
        for (uint32_t s = 0; s < t->n_threads; s++) {
            if (!takes_part(k, s)) continue;
            k->members[s].number = number;
            n++;
        }
        txn_schedule(&k->txn, number, n);
    }
    t->numbers = NULL;
}

void transact_send_wave(struct thread *t, struct task *k, bool last) {
    uint32_t n = 0;
    for (uint32_t s = 0; s < t->n_threads; s++) {
        bool runs = k->pieces[s];
        if (!runs && !(last && takes_part(k, s) && k->members[s].in)) continue;
        outbox_send_piece(t, message_for(t, k, s, !runs ? PIECE_LET_GO : last ? PIECE_RUN_LAST : PIECE_RUN));
        n++;
    }
    txn_run(&k->txn, n);
}

void transact_let_go(struct thread *t, struct task *k) {
    uint32_t n = 0;
    k->letting_go = true;
    for (uint32_t s = 0; s < t->n_threads; s++) {
        if (!takes_part(k, s) || !k->members[s].in) continue;
        outbox_send_piece(t, message_for(t, k, s, PIECE_LET_GO));
        n++;
    }
    txn_run(&k->txn, n);
}

void transact_end(struct thread *t, struct task *k) {
    mi_free(k->members);
    mi_free(k->intents);
    k->members = NULL; /* what it sends from here on is no part of a transaction */
    k->intents = NULL;
    t->transactions--;
    task_halted(t);
}

static void withdraw(struct thread *t, struct task *k) {
    for (uint32_t s = 0; s < t->n_threads; s++)
        if (takes_part(k, s) && !k->pieces[s]->refused) outbox_send_piece(t, message_for(t, k, s, PIECE_LET_GO));
}

static void step(struct thread *t, struct task *k) {
    if (k->kind == TASK_COURSE) k->course->on(t, k, k->of);
    else if (k->kind == TASK_STEPS) task_steps_step(t, k);
    else task_fanout_step(t, k);
}

/* The pieces of a fan-out are run as they are while all shards stand still; what else goes its exclusive way. */
static void give_up(struct thread *t, struct task *k) {
    transact_end(t, k);
    if (k->kind == TASK_COURSE) {
        task_forget_wave(t, k);
        k->course->gave_up(t, k, k->of);
        return;
    }
    if (k->kind == TASK_STEPS) {
        task_forget_wave(t, k);
        k->kind = TASK_EXCLUSIVE;
    }
    task_ask_for_token(t, k);
}

/* From here on nobody deletes a key of it that is there at this time (shard/keyspace.c, shard/expire.c): what one of its waves finds, the next does. */
static void take_time(struct thread *t, struct task *k) {
    k->now_ms = t->now_ms;
    for (uint32_t s = 0; s < t->n_threads; s++)
        if (k->pieces[s]) k->pieces[s]->now_ms = k->now_ms;
}

void transact_answer(struct thread *t, struct task *k, struct batch *b) {
    switch (txn_answer(&k->txn, b->order == PIECE_SCHEDULE && b->refused)) {
    case TXN_WAIT: break;
    case TXN_STANDS:
        take_time(t, k);
        step(t, k);
        break;
    case TXN_WAVE_DONE: step(t, k); break;
    case TXN_WITHDRAW: withdraw(t, k); break;
    case TXN_TRY_AGAIN:
        t->stats.withdrawn++;
        schedule(t, k);
        break;
    case TXN_GIVE_UP:
        t->stats.withdrawn++;
        t->stats.given_up++;
        give_up(t, k);
        break;
    }
}
