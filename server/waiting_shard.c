/* What shards do for commands that wait: look, take, queue up; serve whoever waits for what has come; forget; and the same at once inside MULTI. */
#include <mimalloc.h>
#include <stdlib.h>

#include "io/clock.h"
#include "server/run.h"
#include "server/waiting_internal.h"

void waiting_take(struct shard *s, const struct command *row, const struct hop *h, uint32_t nth, enum readiness ready, struct reply *r) {
    struct hop own = *h;
    if (ready != KEY_READY) {
        reply_wrong_type(r);
        return;
    }
    while (row->blocking->take(s, &own, nth, r) == HOP_AGAIN) own.state = hop_state_next(&own);
}

/* Takes some of it, or all. */
static enum hop_result take_some(struct shard *s, struct waiting *x, uint32_t nth, struct reply *r) {
    struct hop own = x->request->hop;
    own.state = x->taking;
    enum hop_result result = x->request->row->blocking->take(s, &own, nth, r);
    if (result == HOP_AGAIN) x->taking = hop_state_next(&own);
    x->nth = nth;
    return result;
}

bool waiting_queue_up(struct shard *s, struct half *x) {
    const struct request *q = x->waiter.owner;
    if (x->waiter.busy) {
        wait_resume(s, &x->waiter);
        return true;
    }
    for (uint32_t i = 0; i < x->waiter.n; i++) {
        struct wait *w = &x->keys[i];
        const struct arg *key = request_key(q, w->nth);
        if (!wait_add(s, w, q->hop.db, hop_hash(&q->hop, w->nth), key->p, key->size)) return false;
    }
    return true;
}

/* The first of a half's keys that is ready. */
static enum readiness look(struct shard *s, const struct half *x, uint32_t *nth) {
    const struct request *q = x->waiter.owner;
    for (uint32_t i = 0; i < x->waiter.n; i++) {
        enum readiness ready = q->row->blocking->ready(s, &q->hop, x->keys[i].nth);
        *nth = x->keys[i].nth;
        if (ready != KEY_NOT_READY) return ready;
    }
    return KEY_NOT_READY;
}

enum hop_result waiting_try_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct waiting *x = waiting_of(h);
    struct half *half = x->halves[s->id];
    uint32_t nth;
    if (x->taking) return take_some(s, x, x->nth, r);
    enum readiness ready = look(s, half, &nth);
    x->outcome = OUTCOME_TAKEN;
    if (ready == KEY_READY) return take_some(s, x, nth, r);
    if (ready == KEY_WRONG_TYPE) reply_wrong_type(r);
    else x->outcome = waiting_queue_up(s, half) ? OUTCOME_QUEUED : OUTCOME_REFUSED;
    return HOP_DONE;
}

enum hop_result waiting_look_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct found found = {0};
    found.ready = look(s, waiting_of(h)->halves[s->id], &found.nth);
    reply_bytes(r, (const char *)&found, sizeof found);
    return HOP_DONE;
}

enum hop_result waiting_take_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct waiting *x = waiting_of(h);
    uint32_t nth;
    if (x->taking) return take_some(s, x, x->nth, r);
    enum readiness ready = look(s, x->halves[s->id], &nth);
    if (ready == KEY_READY) return take_some(s, x, nth, r);
    if (ready == KEY_WRONG_TYPE) reply_wrong_type(r);
    else x->request->row->blocking->nothing(r);
    return HOP_DONE;
}

enum hop_result waiting_queue_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct half *half = waiting_of(h)->halves[s->id];
    reply_int(r, waiting_queue_up(s, half));
    return HOP_DONE;
}

/* ---- moving over two shards ---- */

enum hop_result waiting_copy_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct waiting *x = waiting_of(h);
    const struct request *q = x->request;
    enum readiness ready = q->row->blocking->ready(s, &q->hop, 0);
    if (ready == KEY_WRONG_TYPE && !x->listed) reply_wrong_type(r);
    if (ready != KEY_READY) return HOP_DONE;
    x->moved = q->row->blocking->moving->carry(s, &q->hop);
    if (!x->moved) reply_no_memory(r);
    return HOP_DONE;
}

enum hop_result waiting_put_piece(struct shard *s, struct hop *h, struct reply *r) {
    const struct waiting *x = waiting_of(h);
    return x->request->row->blocking->moving->put(s, &x->request->hop, x->moved, r);
}

/* Its place goes with it, so that whoever is behind is served. */
enum hop_result waiting_remove_piece(struct shard *s, struct hop *h, struct reply *r) {
    const struct waiting *x = waiting_of(h);
    (void)r;
    if (x->listed) wait_forget(s, &x->halves[s->id]->waiter);
    x->request->row->blocking->moving->remove(s, &x->request->hop);
    return HOP_DONE;
}

/* ---- serving ---- */

/* Whether what is taken can be put where it belongs right here: on this shard, and no transaction is at work on it. */
static bool may_take_here(const struct thread *t, const struct shard *s, const struct request *q) {
    if (!q->row->blocking->moving) return true;
    return request_shard(t, q, 1) == s->id && !schedule_holds(&s->schedule, INTENT_DB, hop_hash(&q->hop, 1));
}

static void tell(struct thread *t, struct waiting *x) {
    uint32_t from = x->message.from; /* once it is pushed it may be gone */
    mailbox_push(&t->server->threads[from]->returns, &x->message);
    thread_want_wake(t, from);
}

/* The waiter is claimed: it is told to try by a transaction, and keeps its place. */
static void have_it_try(struct thread *t, struct waiter *who) {
    struct waiting *x = ((struct request *)who->owner)->waiting;
    who->busy = true;
    x->tries = true;
    tell(t, x);
}

static enum hop_result serve_some(struct thread *t, struct shard *s, struct waiting *x, uint32_t nth) {
    uint64_t start = cycles_now();
    atomic_store_explicit(&t->running, x->request->hop.row, memory_order_relaxed);
    enum hop_result result = take_some(s, x, nth, &x->reply);
    atomic_store_explicit(&t->running, 0, memory_order_relaxed);
    x->cycles += cycles_now() - start;
    client_memory_aside(t, x->conn, &x->counted, &x->reply, 0);
    return result;
}

static void serve_later(struct thread *owner, struct serving *v) {
    v->next = NULL;
    if (owner->serving) owner->serving_last->next = v;
    else owner->serving = v;
    owner->serving_last = v;
}

/* Its key is locked, and the shard's owner goes on with it. False: no memory. */
static bool go_on_in_slices(struct thread *t, struct shard *s, struct waiting *x) {
    struct serving *v = mi_malloc(sizeof *v);
    if (!v) return false;
    *v = (struct serving){.waiting = x, .now_ms = s->now_ms};
    v->member = (struct member){.local = true, .intents = v->intents, .n_intents = 2};
    intent_on_database(&v->intents[0], INTENT_DB, INTENT_WRITE_WITHIN);
    intent_on_key(&v->intents[1], INTENT_DB, hop_hash(&x->request->hop, x->nth), true);
    if (!schedule_add_begun(&s->schedule, &v->member)) {
        mi_free(v);
        return false;
    }
    x->serving = v;
    serve_later(t->server->threads[s->id], v);
    return true;
}

/* The waiter is claimed: takes for it, and tells its thread. */
static void serve_one(struct thread *t, struct shard *s, struct waiter *who, uint32_t nth) {
    struct request *q = who->owner;
    struct waiting *x = q->waiting;
    wait_forget(s, who);
    x->reply.resp = q->hop.resp;
    if (serve_some(t, s, x, nth) == HOP_AGAIN) {
        if (go_on_in_slices(t, s, x)) return;
        while (serve_some(t, s, x, nth) == HOP_AGAIN) {}
    }
    tell(t, x);
}

/* Nobody would get it, and nothing of it was taken away yet. */
static bool is_given_up(const struct waiting *x) {
    const struct conn *c = x->request->hop.origin;
    return !(x->taking & HOP_REMOVES) && atomic_load_explicit(&c->left, memory_order_relaxed);
}

bool waiting_serve_slice(struct thread *t) {
    struct serving *v = t->serving;
    struct waiting *x = v->waiting;
    struct shard *s = t->shard;
    uint64_t start_ns = thread_cpu_ns();
    t->serving = v->next;
    s->now_ms = v->now_ms;
    bool given_up = is_given_up(x), over = given_up || serve_some(t, s, x, x->nth) == HOP_DONE;
    slice_add(&t->measure, SLICE_LONG, thread_cpu_ns() - start_ns);
    if (!over) {
        serve_later(t, v);
        return false;
    }
    if (given_up) reply_cut(s, &x->reply, 0);
    x->given_up = given_up;
    x->serving = NULL;
    run_leave(s, &v->member);
    mi_free(v);
    tell(t, x);
    return true;
}

void waiting_serve(struct thread *t, struct shard *s) {
    struct wait *w;
    while ((w = wait_next(s))) {
        struct waiter *who = w->waiter;
        const struct request *q = who->owner;
        uint32_t nth = w->nth;
        if (q->row->blocking->ready(s, &q->hop, nth) != KEY_READY) wait_pass(w);
        else if (!wait_claim(who)) wait_forget(s, who);
        else if (may_take_here(t, s, q)) serve_one(t, s, who, nth);
        else have_it_try(t, who);
    }
}

void waiting_forget_arrived(struct shard *s, struct message *m) {
    struct half *x = (struct half *)m;
    wait_forget(s, &x->waiter);
    half_free(x);
}

/* ---- inside MULTI ---- */

static struct shard *shard_on(struct thread *t, const struct spread *x, const struct hop *h, uint32_t nth) {
    return x->n == 1 ? x->shards[0] : x->shards[thread_shard_of(t, hop_key(h, nth), hop_hash(h, nth))];
}

static void at_once(struct thread *t, const struct spread *x, struct hop *h, struct reply *r) {
    const struct command *row = command_by_number(h->row);
    struct waiting_for asked;
    if (!row->blocking->parse(h->argv, h->argc, &asked, r)) return;
    for (uint32_t i = 0; i < waited_keys(row->blocking, asked.n_keys); i++) {
        struct shard *s = shard_on(t, x, h, i);
        enum readiness ready = row->blocking->ready(s, h, i);
        if (ready == KEY_NOT_READY) continue;
        if (row->blocking->moving) row->blocking->moving->all(s, shard_on(t, x, h, 1), h, r);
        else waiting_take(s, row, h, i, ready, r);
        return;
    }
    if (row->blocking->nothing_at_once) row->blocking->nothing_at_once(r);
    else row->blocking->nothing(r);
}

enum hop_result waiting_at_once(struct shard *s, struct hop *h, struct reply *r) {
    struct spread x = {&s, 1};
    at_once(NULL, &x, h, r);
    return HOP_DONE;
}

void waiting_on_held(struct thread *t, const struct spread *x, struct hop *h, struct reply *r) { at_once(t, x, h, r); }
