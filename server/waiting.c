/* A command that waits for keys, step by step, on its connection's thread: the states of waiting_internal.h. */
#include <math.h>
#include <mimalloc.h>
#include <stdlib.h>

#include "io/clock.h"
#include "server/course.h"
#include "server/defer.h"
#include "server/number.h"
#include "server/outbox.h"
#include "server/waiting_internal.h"

/* ---- steps ---- */

static struct batch *piece(struct thread *t, struct waiting *x, uint32_t shard, hop_fn *run) {
    struct task *k = x->task;
    struct hop *own = &x->request->hop;
    struct batch *b = task_piece(t, k, shard, own->argv, own->argc, own->n_keys, own->hashes, 1, (uint64_t)(uintptr_t)x);
    b->hops[0].run = run;
    b->hops[0].key_first = own->key_first;
    return b;
}

/* What the only piece took; the reply may not be wanted. */
static void reply_taken(struct thread *t, struct task *k) {
    k->reply_at = k->conn->out.size;
    if (k->no_reply) course_drop_pieces(t, k);
    else course_take(t, k);
}

static void tried(struct thread *t, struct task *k, struct waiting *x) {
    if (x->outcome == OUTCOME_TAKEN) {
        reply_taken(t, k);
        waiting_end(t, x);
        return;
    }
    course_drop_pieces(t, k);
    x->failed = x->outcome == OUTCOME_REFUSED;
    waiting_park(t, x);
}

static void send_everywhere(struct thread *t, struct task *k, struct waiting *x, hop_fn *run, bool last) {
    for (uint32_t s = 0; s < t->n_threads; s++)
        if (x->halves[s]) piece(t, x, s, run);
    transact_send_wave(t, k, last);
}

/* The shard of the first key that is ready, or n_threads. */
static uint32_t first_ready(struct thread *t, struct task *k, bool *failed) {
    uint32_t shard = t->n_threads, nth = UINT32_MAX;
    for (uint32_t s = 0; s < t->n_threads; s++) {
        struct found found;
        if (!k->pieces[s]) continue;
        const struct reply *r = &k->pieces[s]->replies;
        *failed |= r->failed;
        if (r->failed) continue;
        memcpy(&found, r->p, sizeof found);
        if (found.ready == KEY_NOT_READY || found.nth > nth) continue;
        nth = found.nth;
        shard = s;
    }
    return shard;
}

/* ---- moving over two shards ---- */

static bool moves_far(const struct thread *t, const struct waiting *x) {
    const struct request *q = x->request;
    return q->row->blocking->moving && request_shard(t, q, 0) != request_shard(t, q, 1);
}

static void send_one(struct thread *t, struct waiting *x, uint32_t nth, hop_fn *run, enum state state, bool last) {
    x->state = state;
    piece(t, x, request_shard(t, x->request, nth), run);
    transact_send_wave(t, x->task, last);
}

/* The error of the only piece of a wave becomes the reply. */
static bool took_error(struct thread *t, struct task *k, struct waiting *x, uint32_t nth) {
    const struct reply *r = &k->pieces[request_shard(t, x->request, nth)]->replies;
    if (!r->failed && (!r->size || r->p[0] != '-')) return false;
    struct reply *to = task_output(t, k);
    k->reply_at = to->size;
    if (r->failed) reply_no_memory(to);
    else reply_bytes(to, r->p, r->size);
    return true;
}

static void leave(struct thread *t, struct task *k, struct waiting *x) {
    x->state = WAITING_LEAVING;
    transact_let_go(t, k);
}

/* Nothing is there, for now. */
static void queue_up(struct thread *t, struct task *k, struct waiting *x) {
    x->state = WAITING_QUEUING;
    send_everywhere(t, k, x, waiting_queue_piece, true);
}

/* What the source's shard found. */
static void copied(struct thread *t, struct task *k, struct waiting *x) {
    bool failed = took_error(t, k, x, 0);
    task_forget_wave(t, k);
    if (failed) leave(t, k, x);
    else if (x->moved) send_one(t, x, 1, waiting_put_piece, WAITING_PUTTING, false);
    else queue_up(t, k, x);
}

static void put(struct thread *t, struct task *k, struct waiting *x) {
    bool failed = took_error(t, k, x, 1);
    task_forget_wave(t, k);
    if (failed) leave(t, k, x);
    else send_one(t, x, 0, waiting_remove_piece, WAITING_REMOVING, true);
}

static void removed(struct thread *t, struct task *k, struct waiting *x) {
    struct reply *r = task_output(t, k);
    task_forget_wave(t, k);
    k->reply_at = r->size;
    x->request->row->blocking->moving->reply(x->moved, r);
    transact_end(t, k);
    waiting_end(t, x);
}

static void looked(struct thread *t, struct task *k, struct waiting *x) {
    bool failed = false;
    if (moves_far(t, x)) {
        copied(t, k, x);
        return;
    }
    uint32_t shard = first_ready(t, k, &failed);
    task_forget_wave(t, k);
    if (failed) {
        x->state = WAITING_LEAVING;
        waiting_refuse(t, x);
        transact_let_go(t, k);
    } else if (shard < t->n_threads) {
        x->state = WAITING_TAKING;
        piece(t, x, shard, waiting_take_piece);
        transact_send_wave(t, k, true);
    } else queue_up(t, k, x);
}

static void queued(struct thread *t, struct task *k, struct waiting *x) {
    for (uint32_t s = 0; s < t->n_threads; s++)
        if (k->pieces[s] && x->halves[s]) x->failed |= k->pieces[s]->replies.failed || k->pieces[s]->replies.p[1] == '0';
    task_forget_wave(t, k);
    transact_end(t, k);
    waiting_park(t, x);
}

/* All shards stand still: at once what the waves do. */
static void on_held(struct thread *t, struct task *k, struct waiting *x) {
    const struct spread *held = course_held(k);
    struct hop h = x->request->hop;
    const struct moving *moving = x->request->row->blocking->moving;
    bool over = false;
    for (uint32_t i = 0; i < waited_keys(x->request->row->blocking, h.n_keys) && !over; i++) {
        struct shard *s = held->shards[request_shard(t, x->request, i)];
        enum readiness ready = x->request->row->blocking->ready(s, &h, i);
        over = ready != KEY_NOT_READY;
        if (!over) continue;
        struct reply *r = &x->reply;
        r->resp = h.resp;
        if (moving) moving->all(s, held->shards[request_shard(t, x->request, 1)], &h, r);
        else waiting_take(s, x->request->row, &h, i, ready, r);
    }
    for (uint32_t s = 0; s < held->n && !over; s++)
        if (x->halves[s]) x->failed |= !waiting_queue_up(held->shards[s], x->halves[s]);
    course_let_go(t, k);
    if (over) waiting_end_served(t, x);
    else waiting_park(t, x);
}

static void go_on(struct thread *t, struct task *k, void *of) {
    struct waiting *x = of;
    switch (x->state) {
    case WAITING_TRYING: tried(t, k, x); return;
    case WAITING_SCHEDULED:
        task_forget_wave(t, k);
        if (moves_far(t, x)) {
            send_one(t, x, 0, waiting_copy_piece, WAITING_LOOKING, false);
            return;
        }
        x->state = WAITING_LOOKING;
        send_everywhere(t, k, x, waiting_look_piece, false);
        return;
    case WAITING_LOOKING: looked(t, k, x); return;
    case WAITING_PUTTING: put(t, k, x); return;
    case WAITING_REMOVING: removed(t, k, x); return;
    case WAITING_QUEUING: queued(t, k, x); return;
    case WAITING_TOKEN: on_held(t, k, x); return;
    case WAITING_TAKING:
    case WAITING_LEAVING: break;
    case WAITING_PARKED:
    case WAITING_SERVING: abort();
    }
    if (x->state == WAITING_TAKING) reply_taken(t, k);
    else task_forget_wave(t, k);
    transact_end(t, k);
    waiting_end(t, x);
}

static void hold_all(struct thread *t, struct task *k, void *of) {
    ((struct waiting *)of)->state = WAITING_TOKEN;
    course_hold(t, k);
}

/* The process ends: no shard may know of a waiter that is gone. What a shard took may be on its way as a message. */
static void drop(void *of) {
    struct waiting *x = of;
    for (uint32_t s = 0; s < server.n_threads; s++)
        if (x->halves[s]) wait_forget(server.threads[s]->shard, &x->halves[s]->waiter);
    x->dropped = true;
    if (wait_claim(&(struct waiter){.claim = &x->request->claim}) || x->served || x->serving) waiting_free(x);
}

void waiting_drop_served(struct message *m) {
    struct waiting *x = (struct waiting *)m;
    if (x->dropped) waiting_free(x);
}

/* On the only shard, where transactions are under way. */
static struct member *waits_there(const struct hop *h) {
    struct task *k = waiting_of(h)->task;
    k->intents = mi_malloc(hop_intents_max(h) * sizeof *k->intents);
    struct member *m = &waiting_of(h)->member;
    if (!k->intents) abort(); /* it can neither run now nor wait */
    *m = (struct member){.local = true, .intents = k->intents, .n_intents = hop_intents(h, k->intents)};
    return m;
}

static const struct task_course course = {.on = go_on, .gave_up = hold_all, .drop = drop, .member = waits_there};

/* ---- beginning ---- */

/* The same for two keys, of which one is not waited for. */
static struct intent *set_up_target(struct thread *t, struct task *k, const struct waiting *x, struct intent *next) {
    const struct request *q = x->request;
    struct member *m = &k->members[request_shard(t, q, 1)];
    m->intents = next;
    m->n_intents = 2;
    intent_on_database(next++, INTENT_DB, INTENT_WRITE_WITHIN);
    intent_on_key(next++, INTENT_DB, hop_hash(&q->hop, 1), true);
    return next;
}

/* A member for each shard, with intents on its keys. False: no memory. */
static bool set_up(struct thread *t, struct task *k, const struct waiting *x) {
    const struct request *q = x->request;
    bool write = q->hop.flags & HOP_WRITE;
    struct intent *next = k->intents = mi_malloc((q->hop.n_keys + t->n_threads) * sizeof *next);
    k->members = mi_calloc(t->n_threads, sizeof *k->members);
    if (!next || !k->members) return false;
    if (moves_far(t, x)) next = set_up_target(t, k, x, next);
    for (uint32_t s = 0; s < t->n_threads; s++) {
        const struct half *half = x->halves[s];
        if (!half) continue;
        struct member *m = &k->members[s];
        m->intents = next;
        m->n_intents = 1 + half->waiter.n;
        intent_on_database(next++, INTENT_DB, write ? INTENT_WRITE_WITHIN : INTENT_READ_WITHIN);
        for (uint32_t i = 0; i < half->waiter.n; i++) intent_on_key(next++, INTENT_DB, hop_hash(&q->hop, half->keys[i].nth), write);
    }
    return true;
}

static void begin(struct thread *t, struct task *k, struct waiting *x) {
    uint32_t n = 0, shard = 0;
    for (uint32_t s = 0; s < t->n_threads; s++) {
        if (!x->halves[s]) continue;
        shard = s;
        n++;
    }
    if (n == 1 && !moves_far(t, x)) {
        x->state = WAITING_TRYING;
        struct batch *b = piece(t, x, shard, waiting_try_piece);
        b->order = PIECE_LOCAL;
        b->member = NULL;
        b->owner_only = x->request->hop.n_keys > FANOUT_KEYS_MAX;
        k->outstanding = 1;
        outbox_send_piece(t, b);
    } else if (set_up(t, k, x)) {
        x->state = WAITING_SCHEDULED;
        transact_begin(t, k);
    } else {
        mi_free(k->members);
        k->members = NULL;
        waiting_refuse(t, x);
        waiting_end(t, x);
    }
}

void waiting_try_again(struct thread *t, struct waiting *x) {
    struct task *k = x->task;
    waiting_unpark(t, x);
    x->tries = false;
    x->listed = true;
    if (x->ends != ENDS_NOT) {
        waiting_end_untaken(t, x);
        return;
    }
    /* Nobody else decides while it is busy, and in no list. */
    atomic_store_explicit(&x->request->claim, false, memory_order_relaxed);
    mi_free(k->intents);
    k->intents = NULL;
    k->txn = (struct txn){0};
    k->letting_go = k->stood = false;
    k->now_ms = t->now_ms;
    begin(t, k, x);
}

static void wrong(struct thread *t, struct conn *c, const struct command *row, const struct reply *error) {
    struct command_stats *s = &t->measure.commands[row->number];
    struct reply *r = conn_reply_begin(t, c);
    s->calls++;
    s->failed++;
    t->stats.errors++;
    measure_error(&t->measure, error->p + 1, error->size - 1);
    reply_bytes(r, error->p, error->size);
    conn_reply_end(t, c, r);
}

bool waiting_start(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    struct waiting_for asked;
    struct reply error = {.resp = c->resp};
    uint64_t now_ns = now_monotonic_ns(); /* the turn's time is before the command came */
    if (!row->blocking->parse(argv, argc, &asked, &error)) {
        if (error.size) wrong(t, c, row, &error);
        else c->out.failed = true;
        reply_drop(&error);
        return true;
    }
    if (!conn_drained(t, c)) return false;
    struct waiting *x = waiting_new(t, c, row, argv, argc, &asked);
    struct task *k = x ? course_start(t, c, &(struct task_command){row, argv, argc}, &course, x) : NULL;
    if (!k) {
        if (x) waiting_free(x);
        task_no_memory(t, c);
        return true;
    }
    x->task = k;
    uint64_t left_ms = (UINT64_MAX - now_ns) / 1000000;
    x->deadline.at_ns = asked.timeout_ms < left_ms ? now_ns + asked.timeout_ms * 1000000 : UINT64_MAX;
    begin(t, k, x);
    return true;
}

bool waiting_seconds(const struct arg *a, uint64_t *ms, struct reply *r) {
    long double seconds;
    if (!parse_long_double(a->p, a->size, &seconds)) {
        reply_error(r, "ERR timeout is not a float or out of range");
        return false;
    }
    long double rounded = ceill(seconds * 1000);
    if (rounded < 0 || rounded >= 9223372036854775808.0L) {
        reply_error(r, "ERR timeout is negative");
        return false;
    }
    *ms = (uint64_t)rounded;
    return true;
}
