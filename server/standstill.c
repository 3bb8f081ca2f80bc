/* Standing still: how a coordinator comes to have all shards to itself, what it runs then, and how it lets them go.
 *
 * The token: thread 0 gives it to one coordinator at a time, in the order of asking. A shard stands still between two hops: its thread
 * goes on with its sockets and with what came back, but takes nothing from its mailbox and runs no own hop until GO. Nobody waits in
 * a blocking way, and since there is one token two coordinators can't wait for each other.
 *
 *   coordinator's thread                         each thread
 *   TOKEN_ASK to thread 0, TOKEN from it
 *   HALT to all                                  begins no transaction; HALTED when none is under way, but those that rest and may (transact_rest)
 *   (YOU_MAY, while some have not halted)        MAY_I, if one that rests wants to go on; then HALTED once more
 *   STOP to all, by their shards' mailboxes      STOPPED, when what came before has run
 *   works on all shards' data
 *   GO to all, TOKEN_BACK to thread 0            goes on
 *
 * In this file: asking; the token, on thread 0; what runs while all shards are held; halting, stopping, going on.
 */
#include <mimalloc.h>
#include <stdlib.h>

#include "io/clock.h"
#include "server/loading.h"
#include "server/outbox.h"
#include "server/run.h"
#include "server/task_internal.h"
#include "server/thread.h"
#include "server/waiting.h"

/* How long who wants all shards waits for transactions that rest, or for those that wait for these. */
#define HURRY_NS 1000000000u

/* ---- asking ---- */

static void send_note(struct thread *t, uint32_t to, bool to_requests, enum message_kind kind, struct task *task, uint64_t value) {
    struct note *n = mi_malloc(sizeof *n);
    if (!n) abort();
    *n = (struct note){.message = {.kind = kind, .from = t->id}, .task = task, .value = value};
    struct thread *o = t->server->threads[to];
    mailbox_push(to_requests ? &o->requests : &o->returns, &n->message);
    thread_want_wake(t, to);
}

void task_ask_for_token(struct thread *t, struct task *k) {
    t->stats.exclusives++;
    send_note(t, 0, false, MESSAGE_TOKEN_ASK, k, k->row && k->row->plan == PLAN_EXCLUSIVE && k->row->flags & CMD_BESIDE);
}

void task_start_cut(struct thread *t, task_cut *cut, bool looks_on) {
    struct task *k = mi_malloc(sizeof *k);
    if (!k) abort();
    *k = (struct task){.kind = TASK_CUT, .cut = cut, .looks_on = looks_on};
    task_ask_for_token(t, k);
}

/* ---- the token ---- */

/* The first that waits; beside: of those that may be beside the loading. NULL: nobody. */
static struct note *take_waiting(struct thread *t, bool beside) {
    uint32_t capacity = t->token_capacity, i = 0;
    while (i < t->token_n && beside && !t->token_queue[(t->token_first + i) % capacity]->value) i++;
    if (i == t->token_n) return NULL;
    struct note *n = t->token_queue[(t->token_first + i) % capacity];
    for (; i; i--) t->token_queue[(t->token_first + i) % capacity] = t->token_queue[(t->token_first + i - 1) % capacity];
    t->token_first++;
    t->token_n--;
    return n;
}

static void give_token(struct thread *t) {
    bool beside = t->token == TOKEN_LOADING;
    struct note *n = beside || t->token == TOKEN_HERE ? take_waiting(t, beside) : NULL;
    if (!n) return;
    t->token = beside ? TOKEN_BESIDE : TOKEN_OUT;
    send_note(t, n->message.from, false, MESSAGE_TOKEN, n->task, beside);
    mi_free(n);
}

/* The loading is a coordinator as any other from here on, about to let go. */
static void end_loading(struct thread *t) {
    t->loaded = false;
    t->token = TOKEN_OUT;
    loading_ended(t);
}

void task_loading(struct thread *t) {
    t->token = TOKEN_LOADING;
    give_token(t);
}

void task_loaded(struct thread *t) {
    t->loaded = true;
    if (t->token == TOKEN_LOADING) end_loading(t);
}

static void token_is_back(struct thread *t) {
    bool was_beside = t->token == TOKEN_BESIDE;
    t->token = was_beside ? TOKEN_LOADING : TOKEN_HERE;
    if (was_beside && t->loaded) end_loading(t);
}

/* At most one waits a connection, so the queue is bounded by the clients. */
void task_token_message(struct thread *t, struct note *n) {
    if (n->message.kind == MESSAGE_TOKEN_BACK) {
        token_is_back(t);
        mi_free(n);
    } else {
        if (t->token_n == t->token_capacity) {
            uint32_t capacity = t->token_capacity ? t->token_capacity * 2 : 16;
            struct note **queue = mi_malloc(capacity * sizeof *queue);
            if (!queue) abort();
            for (uint32_t i = 0; i < t->token_n; i++) queue[i] = t->token_queue[(t->token_first + i) % t->token_capacity];
            mi_free(t->token_queue);
            t->token_queue = queue;
            t->token_capacity = capacity;
            t->token_first = 0;
        }
        t->token_queue[(t->token_first + t->token_n++) % t->token_capacity] = n;
    }
    give_token(t);
}

/* ---- while all shards are held ---- */

/* Asks each shard what the keys take, wave by wave. */
static void ask_held(struct thread *t, struct task *k, struct shard *const *shards) {
    bool dealt = true;
    while (dealt) {
        for (uint32_t s = 0; s < t->n_threads; s++)
            if (k->pieces[s]) k->row->needs(shards[s], &k->pieces[s]->hops[0], &k->pieces[s]->replies);
        dealt = task_take_needs(t, k) && task_deal_wave(t, k);
    }
}

static bool reserve_held(struct thread *t, struct task *k, struct shard *const *shards) {
    if (task_reserve(t, k, task_most(k))) return true;
    ask_held(t, k, shards);
    if (task_reserve(t, k, (uint64_t)k->sum) && task_deal_wave(t, k)) return true;
    reply_no_memory(&k->error);
    return false;
}

static void run_pieces_held(struct thread *t, struct task *k, struct shard *const *shards) {
    for (uint32_t s = 0; s < t->n_threads; s++) {
        struct hop *h = k->pieces[s] ? &k->pieces[s]->hops[0] : NULL;
        if (!h) continue;
        h->state = k->room;
        hop_run_whole(shards[s], h, &k->pieces[s]->replies);
    }
}

/* One with intents on the database as a whole has not dealt anything yet. */
static void run_fanout(struct thread *t, struct task *k, struct shard *const *shards) {
    if (!k->wave_end) {
        task_forget_wave(t, k);
        if (!task_deal_wave(t, k)) {
            reply_no_memory(&k->error);
            return;
        }
    }
    if (k->row->needs && !reserve_held(t, k, shards)) return;
    do run_pieces_held(t, k, shards);
    while (task_merge_wave(t, k) && task_deal_wave(t, k));
}

static struct hop exclusive_hop(const struct task *k) {
    return (struct hop){.origin = k->conn,
        .hash = k->n_keys ? k->hashes[0] : 0,
        .argv = k->argv,
        .hashes = k->hashes,
        .argc = k->argc,
        .db = k->conn->db,
        .resp = k->conn->resp,
        .flags = (uint8_t)(HOP_WRITE | (k->conn->no_touch ? HOP_NO_TOUCH : 0)),
        .n_keys = k->n_keys,
        .key_first = k->key_first,
        .key_step = k->key_step,
        .row = k->row->number};
}

static void run_exclusive(struct thread *t, struct task *k, const struct spread *x) {
    uint64_t start = cycles_now();
    k->hop = exclusive_hop(k);
    atomic_store_explicit(&t->running, k->row->number, memory_order_relaxed);
    if (k->kind == TASK_FANOUT) run_fanout(t, k, x->shards);
    else k->row->on_spread(x, &k->hop, task_output(t, k));
    atomic_store_explicit(&t->running, 0, memory_order_relaxed);
    k->cycles = cycles_now() - start;
}

/* The loading goes on, with the shards. */
static void run_exclusive_beside(struct thread *t, struct task *k) {
    run_exclusive(t, k, &(struct spread){NULL, 0});
    thread_take_config(t);
    send_note(t, 0, false, MESSAGE_TOKEN_BACK, NULL, 0);
    task_finish(t, k);
}

/* ---- halting, stopping, going on ---- */

static bool looks_on(const struct task *k) { return k->row ? k->row->flags & CMD_LOOKS_ON : k->looks_on; }

/* First no transaction may be under way, and none begins. */
void task_token(struct thread *t, struct task *k, bool beside) {
    if (beside) {
        run_exclusive_beside(t, k);
        return;
    }
    k->outstanding = t->n_threads;
    t->halting = k;
    for (uint32_t s = 0; s < t->n_threads; s++) send_note(t, s, false, MESSAGE_HALT, k, looks_on(k));
}

void task_halted(struct thread *t) {
    if (!t->halts_owed || t->transactions || (t->resting && !t->looks_on)) return;
    send_note(t, t->halted_for, false, MESSAGE_HALTED, t->halted, t->halts_owed);
    t->halts_owed = 0;
}

void task_ask_to_go_on(struct thread *t) {
    if (!t->asked) send_note(t, t->halted_for, false, MESSAGE_MAY_I, NULL, 0);
    t->asked = true;
}

/* While some thread has not halted yet: what it waits for may be what this one would do. Later the asking one waits for GO. */
static void may_go_on(struct thread *t, uint32_t from) {
    if (!t->halting) return;
    t->halting->outstanding++;
    send_note(t, from, false, MESSAGE_YOU_MAY, NULL, 0);
}

static void they_may_go_on(struct thread *t) {
    t->asked = false;
    t->halts_owed++;
    transact_resume_resting(t);
    task_halted(t);
}

void task_halt_message(struct thread *t, struct note *n) {
    struct task *k = n->task;
    uint32_t from = n->message.from;
    enum message_kind kind = n->message.kind;
    uint64_t value = n->value;
    mi_free(n);
    switch (kind) {
    case MESSAGE_HALT:
        t->no_transactions = true;
        t->looks_on = value;
        t->hurry_ns = t->now_ns + HURRY_NS;
        t->halted = k;
        t->halted_for = from;
        t->halts_owed = 1;
        task_halted(t);
        return;
    case MESSAGE_MAY_I: may_go_on(t, from); return;
    case MESSAGE_YOU_MAY: they_may_go_on(t); return;
    default: break; /* MESSAGE_HALTED */
    }
    if (k->outstanding -= (uint32_t)value) return;
    k->outstanding = t->n_threads;
    t->halting = NULL;
    if (t->n_threads == 1) { /* there is no mailbox to read: what came before runs now, and what comes is for later */
        outbox_flush(t);
        run_slices_out(t);
        t->stands_still = true;
        t->hurry_ns = 0;
        task_stopped(t, k);
        return;
    }
    for (uint32_t s = 0; s < t->n_threads; s++) send_note(t, s, true, MESSAGE_STOP, k, 0);
}

void task_go_on(struct thread *t) {
    t->stands_still = t->no_transactions = t->asked = false;
    t->hurry_ns = 0;
    thread_take_config(t);
    transact_resume(t);
}

void task_let_all_go(struct thread *t) {
    for (uint32_t s = 0; s < t->n_threads; s++) { /* what came while they stood still goes to who waits for it, before anybody else */
        struct shard *shard = t->server->threads[s]->shard;
        if (shard->waits.ready) waiting_serve(t, shard);
    }
    for (uint32_t s = 0; s < t->n_threads; s++)
        if (s != t->id) send_note(t, s, false, MESSAGE_GO, NULL, 0);
    task_go_on(t);
    send_note(t, 0, false, MESSAGE_TOKEN_BACK, NULL, 0);
}

void task_stopped(struct thread *t, struct task *k) {
    if (--k->outstanding) return;
    if (k->kind == TASK_SETTLING) {
        task_settled_once(t, k);
        return;
    }
    struct shard **shards = mi_malloc(t->n_threads * sizeof *shards);
    if (!shards) abort();
    k->now_ms = t->now_ms;
    for (uint32_t s = 0; s < t->n_threads; s++) {
        shards[s] = t->server->threads[s]->shard;
        shards[s]->now_ms = k->now_ms;
    }
    if (k->kind == TASK_CUT) {
        bool keeps = k->cut(t, &(struct spread){shards, t->n_threads});
        mi_free(shards);
        mi_free(k);
        if (!keeps) task_let_all_go(t);
        return;
    }
    if (k->kind == TASK_COURSE) {
        k->held = (struct spread){shards, t->n_threads};
        k->course->on(t, k, k->of);
        return;
    }
    run_exclusive(t, k, &(struct spread){shards, t->n_threads});
    mi_free(shards);
    task_let_all_go(t);
    if (k->hop.state) task_go_on_in_slices(t, k);
    else if (k->kind == TASK_FANOUT) task_fanout_reply(t, k);
    else task_finish(t, k);
}
