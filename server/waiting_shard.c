/* What shards do for commands that wait: look, take, queue up; serve whoever waits for what has come; forget; and the same at once inside MULTI. */
#include <stdlib.h>

#include "io/clock.h"
#include "server/waiting_internal.h"

void waiting_take(struct shard *s, const struct command *row, struct hop *h, uint32_t nth, enum readiness ready, struct reply *r) {
    if (ready == KEY_READY) row->blocking->take(s, h, nth, r);
    else reply_wrong_type(r);
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
    struct hop own = x->request->hop;
    uint32_t nth;
    enum readiness ready = look(s, half, &nth);
    x->outcome = OUTCOME_TAKEN;
    if (ready != KEY_NOT_READY) waiting_take(s, x->request->row, &own, nth, ready, r);
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
    struct hop own = x->request->hop;
    uint32_t nth;
    enum readiness ready = look(s, x->halves[s->id], &nth);
    if (ready != KEY_NOT_READY) waiting_take(s, x->request->row, &own, nth, ready, r);
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
    x->moved = q->row->blocking->moving->copy(s, &q->hop);
    if (!x->moved) reply_no_memory(r);
    return HOP_DONE;
}

enum hop_result waiting_put_piece(struct shard *s, struct hop *h, struct reply *r) {
    const struct waiting *x = waiting_of(h);
    x->request->row->blocking->moving->put(s, &x->request->hop, x->moved, r);
    return HOP_DONE;
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

/* The waiter is claimed: takes for it, and tells its thread. */
static void serve_one(struct thread *t, struct shard *s, struct waiter *who, uint32_t nth) {
    struct request *q = who->owner;
    struct waiting *x = q->waiting;
    struct hop h = q->hop;
    uint64_t start = cycles_now();
    wait_forget(s, who);
    x->reply.resp = h.resp;
    atomic_store_explicit(&t->running, h.row, memory_order_relaxed);
    q->row->blocking->take(s, &h, nth, &x->reply);
    atomic_store_explicit(&t->running, 0, memory_order_relaxed);
    x->cycles = cycles_now() - start;
    tell(t, x);
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
