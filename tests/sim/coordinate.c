/* What the thread of a connection does: takes commands, sees transactions through, asks for the standstill of an exclusive one. */
#include <mimalloc.h>
#include <stdlib.h>

#include "tests/sim/world.h"

uint32_t op_shards(const struct world *w, const struct op *op) {
    uint32_t shards = 0;
    for (uint32_t i = 0; i < op->n_parts; i++) shards |= 1u << w->shard_of[op->parts[i].key];
    return shards;
}

static bool is_exclusive(const struct op *op) { return op->kind == OP_FLUSH || op->kind == OP_SWAP || op->kind == OP_CUT; }

/* ---- the end of an operation ---- */

static struct conn *conn_of(struct thread *t, const struct op *op) { return &t->world->conns[op->conn]; }

static void hop_done(struct thread *t, struct op *op) {
    op->finished = true;
    conn_of(t, op)->n_out--;
}

void coordinate_end(struct thread *t, struct task *k) {
    k->op->finished = true;
    k->conn->n_out--;
    k->conn->busy = false;
    t->world->tasks--;
    mi_free(k);
}

/* ---- transactions ---- */

static void draw_number(struct thread *t, struct task *k) {
    struct world *w = t->world;
    txn_schedule(&k->txn, ++w->number, (uint32_t)__builtin_popcount(op_shards(w, k->op)));
    for (uint32_t s = 0; s < w->n_threads; s++)
        if (k->slots[s]) k->slots[s]->member.number = k->txn.number;
}

void coordinate_draw_numbers(struct thread *t) {
    for (struct task *k = t->numbers; k; k = k->next) draw_number(t, k);
    t->numbers = NULL;
}

/* The schedules of all shards leave in one turn, which draws the number. */
static void schedule(struct thread *t, struct task *k) {
    uint32_t shards = op_shards(t->world, k->op);
    for (uint32_t s = 0; s < t->world->n_threads; s++) {
        if (!(shards >> s & 1)) continue;
        struct slot *slot = k->slots[s] = slot_new(t, k->op, s);
        slot->task = k;
        struct letter *l = letter_new(t, LETTER_SCHEDULE, s);
        l->task = k;
        l->slot = slot;
        thread_queue(t, l);
    }
    if (sim_fault == FAULT_NUMBER_EARLY || sim_fault == SCHEDULE_FAULT_NO_FLOOR) { /* else nothing is ever late */
        draw_number(t, k);
        t->held_until = t->world->stats.steps + below(&t->world->random, 300);
        return;
    }
    k->next = t->numbers;
    t->numbers = k;
}

static void send(struct thread *t, struct task *k, uint32_t shard, enum letter_kind kind, bool last) {
    struct letter *l = letter_new(t, kind, shard);
    l->task = k;
    l->slot = k->slots[shard];
    l->last = last;
    thread_queue(t, l);
}

static bool has_parts(const struct world *w, const struct op *op, uint32_t shard, uint32_t wave) {
    for (uint32_t i = 0; i < op->n_parts; i++)
        if (op->parts[i].wave == wave && w->shard_of[op->parts[i].key] == shard) return true;
    return false;
}

static uint32_t waves_of(const struct op *op) { return op->kind == OP_POP || (op->n_parts && op->parts[op->n_parts - 1].wave) ? 2 : 1; }

/* The hops of a wave; those that are the last on their shard release it. In the last wave all that still stand are released. */
static void run(struct thread *t, struct task *k) {
    struct world *w = t->world;
    bool final = k->wave + 1 >= waves_of(k->op), to[SHARDS_MAX], last[SHARDS_MAX];
    uint32_t n = 0;
    for (uint32_t s = 0; s < w->n_threads; s++) {
        bool now = k->pop || has_parts(w, k->op, s, k->wave);
        bool later = !final && (k->pop || has_parts(w, k->op, s, 1) || w->plan->settings.release_late);
        to[s] = k->slots[s] && (now || final);
        last[s] = !later;
        n += to[s];
    }
    txn_run(&k->txn, n);
    for (uint32_t s = 0; s < w->n_threads; s++)
        if (to[s]) send(t, k, s, LETTER_RUN, last[s]);
}

static void release_slots(struct thread *t, struct task *k) {
    for (uint32_t s = 0; s < t->world->n_threads; s++) {
        if (!k->slots[s]) continue;
        slot_free(t->world, k->slots[s]);
        k->slots[s] = NULL;
    }
}

static void leave_flight(struct thread *t) {
    t->in_flight--;
    coordinate_drained(t);
}

static void wave_done(struct thread *t, struct task *k) {
    if (++k->wave < waves_of(k->op)) {
        if (k->pop) waiting_looked(k->pop);
        k->op->went =
            op_goes_on((enum op_kind)k->op->kind, k->op->parts, k->op->n_parts, k->op->n_watched) || sim_fault == FAULT_NO_VALIDATION;
        if (!k->op->went) k->wave = PARTS_MAX; /* nothing is run, all is released */
        bool any = false;
        for (uint32_t s = 0; s < t->world->n_threads; s++) any |= k->slots[s] != NULL;
        if (any) {
            run(t, k);
            return;
        }
    }
    release_slots(t, k);
    leave_flight(t);
    if (k->pop) waiting_queued(t, k->pop);
    else coordinate_end(t, k);
}

static void ask_for_token(struct thread *t, struct task *k) {
    t->world->stats.exclusive++;
    thread_note(t, 0, false, LETTER_TOKEN_ASK, k);
}

static void verdict(struct thread *t, struct task *k, enum txn_verdict v) {
    switch (v) {
    case TXN_WAIT: break;
    case TXN_STANDS:
        k->op->now_ms = t->now_ms;
        k->op->ran = ++t->world->moment;
        run(t, k);
        break;
    case TXN_WITHDRAW:
        for (uint32_t s = 0; s < t->world->n_threads; s++)
            if (k->slots[s] && k->slots[s]->stands) send(t, k, s, LETTER_WITHDRAW, true);
        break;
    case TXN_TRY_AGAIN:
        t->world->stats.withdrawn++;
        release_slots(t, k);
        schedule(t, k);
        break;
    case TXN_GIVE_UP:
        t->world->stats.withdrawn++;
        release_slots(t, k);
        ask_for_token(t, k);
        leave_flight(t);
        break;
    case TXN_WAVE_DONE: wave_done(t, k); break;
    }
}

void coordinate_start(struct thread *t, struct task *k) {
    if (t->draining) {
        k->next = t->waiting;
        t->waiting = k;
        return;
    }
    t->in_flight++;
    schedule(t, k);
}

/* ---- exclusive ---- */

static void give_token(struct thread *t) {
    if (t->token_out || !t->token_n) return;
    uint32_t at = t->token_first++ % (CLIENTS_MAX * CONNS_MAX);
    t->token_n--;
    t->token_out = true;
    thread_note(t, t->token_queue[at], false, LETTER_TOKEN, t->token_tasks[at]);
}

static void token_asked(struct thread *t, const struct letter *l) {
    uint32_t at = (t->token_first + t->token_n++) % (CLIENTS_MAX * CONNS_MAX);
    t->token_queue[at] = l->message.from;
    t->token_tasks[at] = l->task;
    give_token(t);
}

/* Everybody ends what is under way, and begins no transaction until GO. */
static void drain_all(struct thread *t, struct task *k) {
    k->outstanding = t->world->n_threads;
    for (uint32_t s = 0; s < t->world->n_threads; s++)
        if (sim_fault == FAULT_NO_DRAIN) thread_note(t, s, true, LETTER_STOP, k);
        else thread_note(t, s, false, LETTER_DRAIN, k);
}

/* One exclusive command at a time, so one asks. */
void coordinate_drained(struct thread *t) {
    if (!t->draining || t->in_flight || !t->drain_for) return;
    struct task *k = t->drain_for;
    t->drain_for = NULL;
    thread_note(t, k->thread->id, false, LETTER_DRAINED, k);
}

static void drain(struct thread *t, struct task *k) {
    t->draining = true;
    t->drain_for = k;
    coordinate_drained(t);
}

static void all_drained(struct thread *t, struct task *k) {
    if (--k->outstanding) return;
    k->outstanding = t->world->n_threads;
    for (uint32_t s = 0; s < t->world->n_threads; s++) thread_note(t, s, true, LETTER_STOP, k);
}

static void go(struct thread *t) {
    struct task *k = t->waiting, *next;
    t->stands_still = t->draining = false;
    t->waiting = NULL;
    for (; k; k = next) {
        next = k->next;
        coordinate_start(t, k);
    }
}

static void all_stopped(struct thread *t, struct task *k) {
    struct world *w = t->world;
    if (--k->outstanding) return;
    for (uint32_t s = 0; s < w->n_threads; s++)
        if (!schedule_is_empty(&w->threads[s].shard->schedule) && sim_fault != FAULT_NO_DRAIN)
            w->wrong = "a transaction is under way while all shards stand still";
    k->op->now_ms = t->now_ms;
    if (k->pop) waiting_on_held(w, k->pop);
    else execute_all(w, k->op);
    for (uint32_t s = 0; s < w->n_threads && sim_fault != FAULT_NOT_SERVED_HELD; s++) {
        w->threads[s].shard->now_ms = k->op->now_ms;
        waiting_serve(t, &w->threads[s]);
    }
    if (k->pop) waiting_queued(t, k->pop);
    else coordinate_end(t, k);
    for (uint32_t s = 0; s < w->n_threads; s++) thread_note(t, s, false, LETTER_GO, NULL);
    thread_note(t, 0, false, LETTER_TOKEN_BACK, NULL);
}

/* ---- what comes back ---- */

void coordinate_returned(struct thread *t, struct letter *l) {
    struct task *k = l->task;
    switch ((enum letter_kind)l->message.kind) {
    case LETTER_HOPS:
    case LETTER_HOP:
        for (uint32_t i = 0; i < l->n; i++)
            if (l->ops[i]) hop_done(t, l->ops[i]);
        break;
    case LETTER_SCHEDULE:
        l->slot->stands = !l->late;
        verdict(t, k, txn_answer(&k->txn, l->late));
        break;
    case LETTER_RUN:
        if (l->last) {
            k->slots[l->to] = NULL;
            slot_free(t->world, l->slot);
        }
        verdict(t, k, txn_answer(&k->txn, false));
        break;
    case LETTER_TRY: waiting_queued(t, k->pop); break;
    case LETTER_SERVED: waiting_served(t, l->pop); break;
    case LETTER_WITHDRAW: verdict(t, k, txn_answer(&k->txn, false)); break;
    case LETTER_TOKEN_ASK: token_asked(t, l); break;
    case LETTER_TOKEN: drain_all(t, k); break;
    case LETTER_TOKEN_BACK:
        t->token_out = false;
        give_token(t);
        break;
    case LETTER_DRAIN: drain(t, k); break;
    case LETTER_DRAINED: all_drained(t, k); break;
    case LETTER_STOP: all_stopped(t, k); break;
    case LETTER_GO: go(t); break;
    case LETTER_FORGET: abort();
    }
    letter_free(t->world, l);
}

/* ---- taking commands ---- */

/* A batch for this shard with room, of this turn. */
static struct letter *batch_with_room(struct thread *t, uint32_t shard) {
    struct letter *l = shard == t->id ? t->own.last : t->outbox[shard].last;
    if (l && l->message.kind == LETTER_HOPS && l->n < BATCH_OPS && l->turn == t->turn) return l;
    l = letter_new(t, LETTER_HOPS, shard);
    l->turn = t->turn;
    thread_queue(t, l);
    return l;
}

static void take_op(struct thread *t, struct conn *c, struct op *op) {
    uint32_t shards = op_shards(t->world, op);
    op->now_ms = t->now_ms;
    c->order[c->n_order++] = op;
    c->n_out++;
    if (!op->multi) {
        struct letter *l = batch_with_room(t, (uint32_t)__builtin_ctz(shards));
        l->ops[l->n++] = op;
        return;
    }
    struct task *k = mi_calloc(1, sizeof *k);
    if (!k) abort();
    *k = (struct task){.op = op, .conn = c, .thread = t};
    t->world->tasks++;
    c->busy = true;
    if (is_exclusive(op)) ask_for_token(t, k);
    else if (op->kind == OP_POP) waiting_start(t, k, shards);
    else coordinate_start(t, k);
}

void coordinate_take(struct thread *t, struct conn *c) {
    for (uint32_t n = below(&t->world->random, LETTERS_TAKEN + 1); n && c->n_input && !c->busy; n--) {
        struct op *op = c->input[0];
        if (op->multi && c->n_out) return;
        c->n_input--;
        for (uint32_t i = 0; i < c->n_input; i++) c->input[i] = c->input[i + 1];
        take_op(t, c, op);
    }
}
