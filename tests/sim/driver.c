/* A turn of a thread, in steps: between two of them any other thread may go on. In step with server/thread.c, outbox.c and lend.c. */
#include <mimalloc.h>
#include <stdlib.h>

#include "tests/sim/world.h"

struct letter *letter_new(struct thread *t, enum letter_kind kind, uint32_t to) {
    struct letter *l = mi_malloc(sizeof *l);
    if (!l) abort();
    *l = (struct letter){.message = {.armed = &t->armed, .kind = kind, .from = t->id}, .to = to};
    t->world->letters++;
    return l;
}

void letter_free(struct world *w, struct letter *l) {
    w->letters--;
    mi_free(l);
}

static void list_add(struct letters *list, struct letter *l) {
    l->next = NULL;
    if (list->last) list->last->next = l;
    else list->first = l;
    list->last = l;
}

static struct letter *list_take(struct letters *list) {
    struct letter *l = list->first;
    if (!l) return NULL;
    list->first = l->next;
    if (!list->first) list->last = NULL;
    return l;
}

void thread_queue(struct thread *t, struct letter *l) { list_add(l->to == t->id ? &t->own : &t->outbox[l->to], l); }

static void queued_for(struct thread *t, uint32_t shard) {
    if (shard != t->id) t->queued[shard] = true;
}

void thread_post(struct thread *t, struct letter *l, bool to_shard) {
    struct thread *other = &t->world->threads[l->to];
    l->message.armed = NULL;
    mailbox_push(to_shard ? &other->requests : &other->returns, &l->message);
    if (to_shard && l->message.kind != LETTER_STOP) queued_for(t, l->to);
}

void thread_note(struct thread *t, uint32_t to, bool to_shard, enum letter_kind kind, struct task *task) {
    struct letter *l = letter_new(t, kind, to);
    l->task = task;
    thread_post(t, l, to_shard);
}

/* ---- lending ---- */

static bool take_back(struct thread *t) {
    if (holder_take(&t->holder)) t->mine = true;
    return t->mine;
}

/* What is not armed yet holds back all behind it: own commands must not overtake that. */
static bool all_armed(const struct mailbox *m) {
    const struct message *msg = m->first;
    while (msg && mailbox_is_armed(msg)) msg = msg->next;
    return !msg || sim_fault == FAULT_OWN_OVERTAKES;
}

/* A borrower leaves to the owner what makes a shard stand still. */
static bool may_borrow(const struct mailbox *m) {
    for (const struct message *msg = m->first; msg; msg = msg->next)
        if (msg->kind == LETTER_STOP) return false;
    return all_armed(m);
}

static void give_back(struct thread *t, struct thread *of) {
    holder_give_back(&of->holder);
    mailbox_fence();
    if (mailbox_has_new(&of->requests)) queued_for(t, of->id);
}

static void borrow_all(struct thread *t) {
    for (uint32_t s = 0; s < t->world->n_threads; s++) {
        struct thread *of = &t->world->threads[s];
        if (s == t->id || !t->outbox[s].first || !holder_borrow(&of->holder)) continue;
        mailbox_collect(&of->requests);
        if (may_borrow(&of->requests)) {
            t->borrowed[s] = BORROWED;
            t->lent[s] = t->outbox[s]; /* what is queued from here on is for the next turn */
            t->outbox[s] = (struct letters){0};
            t->world->stats.lent++;
        } else give_back(t, of);
    }
}

/* A step on a borrowed shard: what had arrived first. */
static void run_borrowed(struct thread *t, struct thread *of) {
    struct message *m = of->requests.first && of->requests.first->kind == LETTER_STOP ? NULL : mailbox_next(&of->requests);
    struct letter *l = m ? (struct letter *)m : list_take(&t->running);
    if (l) execute(t, of, l);
    else {
        t->borrowed[of->id] = NOT_BORROWED;
        give_back(t, of);
    }
}

/* Something was queued for a shard that nobody may be looking at. */
static void settle(struct thread *t, struct thread *of) {
    struct message *m;
    if (!holder_borrow(&of->holder)) return;
    mailbox_collect(&of->requests);
    while (of->requests.first && of->requests.first->kind != LETTER_STOP && (m = mailbox_next(&of->requests)))
        execute(t, of, (struct letter *)m);
    give_back(t, of);
}

/* ---- the stages ---- */

static void push_list(struct thread *t, uint32_t shard, struct letters *list) {
    struct letter *l;
    while ((l = list_take(list))) {
        l->message.sequence = t->sequence;
        mailbox_push(&t->world->threads[shard].requests, &l->message);
    }
    queued_for(t, shard);
}

/* One mailbox a step. False: that was all. */
static bool push_some(struct thread *t) {
    if (!t->pushing) t->sequence++;
    t->pushing = true;
    if (sim_fault == FAULT_ARMED_EARLY) mailbox_arm(&t->armed, t->sequence);
    for (uint32_t s = 0; s < t->world->n_threads; s++) {
        if (!t->outbox[s].first) continue;
        push_list(t, s, &t->outbox[s]);
        return true;
    }
    if (t->own.first && !(thread_holds(t) && all_armed(&t->requests))) push_list(t, t->id, &t->own);
    return false;
}

static void take(struct thread *t) {
    struct world *w = t->world;
    t->now_ms = w->now_ms;
    t->turn++;
    take_back(t);
    for (uint32_t i = 0; i < w->n_conns; i++) {
        struct conn *c = &w->conns[i];
        if (c->thread != t) continue;
        if (waiting_is_over(w, c)) waiting_end(t, c);
        coordinate_take(t, c);
    }
}

static void collect(struct thread *t) {
    if (!t->mine && (t->own.first || mailbox_has_new(&t->requests)))
        while (!take_back(t) && !holder_want(&t->holder)) {}
    if (thread_holds(t)) mailbox_collect(&t->requests);
}

static void run_request(struct thread *t) {
    struct message *m = thread_holds(t) ? mailbox_next(&t->requests) : NULL;
    if (m) {
        execute(t, t, (struct letter *)m);
        return;
    }
    t->stage = STAGE_OWN;
}

/* What is queued from here on is for the next turn. */
static void take_own(struct thread *t) {
    if (!thread_holds(t)) return;
    t->running = t->own;
    t->own = (struct letters){0};
}

static void run_own(struct thread *t) {
    struct letter *l = list_take(&t->running);
    if (l) execute(t, t, l);
    else {
        t->stage = t->early ? STAGE_COLLECT : STAGE_BORROWED;
        t->early = false;
    }
}

/* FAULT_OWN_FIRST: plain commands of this turn, before anything else. What belongs to transactions has no number yet. */
static void run_own_early(struct thread *t) {
    struct letters own = t->own;
    struct letter *l;
    t->own = (struct letters){0};
    while ((l = list_take(&own))) list_add(l->message.kind == LETTER_HOPS ? &t->running : &t->own, l);
    t->early = true;
    t->stage = STAGE_OWN;
}

static void run_lent(struct thread *t) {
    for (uint32_t s = 0; s < t->world->n_threads; s++) {
        if (!t->borrowed[s]) continue;
        if (t->borrowed[s] == BORROWED) {
            t->running = t->lent[s];
            t->lent[s] = (struct letters){0};
            t->borrowed[s] = BORROWED_RUNS;
        }
        run_borrowed(t, &t->world->threads[s]);
        return;
    }
    t->stage = STAGE_SETTLE;
}

static void settle_all(struct thread *t) {
    mailbox_fence();
    for (uint32_t s = 0; s < t->world->n_threads; s++) {
        if (!t->queued[s]) continue;
        t->queued[s] = false;
        settle(t, &t->world->threads[s]);
    }
}

static void take_return(struct thread *t) {
    struct message *m = mailbox_next(&t->returns);
    if (m) coordinate_returned(t, (struct letter *)m);
    else t->stage = STAGE_SEND;
}

static void send(struct thread *t) {
    struct world *w = t->world;
    for (uint32_t i = 0; i < w->n_conns; i++) {
        struct conn *c = &w->conns[i];
        uint32_t n = 0;
        if (c->thread != t || (w->plan->settings.hold_replies && c->n_out && !c->closed)) continue;
        while (n < c->n_order && c->order[n]->finished) client_receives(w, c->order[n++]);
        c->n_order -= n;
        for (uint32_t j = 0; j < c->n_order; j++) c->order[j] = c->order[n + j];
    }
}

static void let_go(struct thread *t) {
    t->stage = STAGE_TAKE;
    if (thread_has_work(t)) return;
    if (!t->mine) {
        while (!holder_want(&t->holder))
            if (take_back(t)) return;
    } else if (t->world->plan->settings.lend && !t->stands_still) {
        mailbox_collect(&t->requests);
        if (mailbox_ready(&t->requests)) return;
        t->mine = false;
        holder_let_go(&t->holder);
    }
    t->stage = STAGE_ASLEEP;
}

static bool conn_has_work(const struct world *w, const struct conn *c) {
    return (c->n_input && !c->busy) || (c->n_order && c->order[0]->finished) || waiting_is_over(w, c);
}

bool thread_has_work(struct thread *t) {
    struct world *w = t->world;
    uint32_t state = holder_state(&t->holder);
    if (t->own.first || mailbox_ready(&t->returns) || (!t->draining && t->waiting)) return true;
    if (!t->mine && state == HOLDER_OWNED) return true;
    if (!t->stands_still && (t->mine || state == HOLDER_FREE) && (mailbox_ready(&t->requests) || t->serving)) return true;
    for (uint32_t s = 0; s < w->n_threads; s++)
        if (t->outbox[s].first || t->queued[s]) return true;
    for (uint32_t i = 0; i < w->n_conns; i++)
        if (w->conns[i].thread == t && conn_has_work(w, &w->conns[i])) return true;
    return (t->mine || state == HOLDER_FREE) && shard_next_due(t->shard) <= w->now_ms;
}

void thread_step(struct thread *t) {
    switch (t->stage) {
    case STAGE_ASLEEP:
    case STAGE_TAKE:
        take(t);
        t->stage = STAGE_COLLECT;
        if (sim_fault == FAULT_OWN_FIRST && thread_holds(t)) run_own_early(t);
        break;
    case STAGE_COLLECT:
        collect(t);
        t->stage = STAGE_BORROW;
        break;
    case STAGE_BORROW:
        if (t->world->plan->settings.lend) borrow_all(t);
        t->stage = STAGE_PUSH;
        break;
    case STAGE_PUSH:
        if (!push_some(t)) t->stage = STAGE_ARM;
        break;
    case STAGE_ARM:
        coordinate_draw_numbers(t);
        mailbox_arm(&t->armed, t->sequence);
        t->pushing = false;
        take_own(t);
        t->stage = STAGE_REQUESTS;
        break;
    case STAGE_REQUESTS: run_request(t); break;
    case STAGE_OWN: run_own(t); break;
    case STAGE_BORROWED: run_lent(t); break;
    case STAGE_SETTLE:
        settle_all(t);
        mailbox_collect(&t->returns);
        t->stage = STAGE_RETURNS;
        break;
    case STAGE_RETURNS: take_return(t); break;
    case STAGE_SEND:
        send(t);
        t->stage = STAGE_KEEP;
        break;
    case STAGE_KEEP:
        if (thread_holds(t)) execute_expiry(t);
        if (thread_holds(t) && t->serving && one_in(&t->world->random, 2)) waiting_serve_out(t, t);
        t->stage = STAGE_REST;
        break;
    case STAGE_REST: let_go(t); break;
    }
}
