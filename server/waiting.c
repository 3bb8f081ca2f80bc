/* In this file: what shards and the connection's thread share of a request; the shard's side; the connection's side.
 *
 *   state       | what it is                                             | leaves to
 *   TRYING      | one piece on the only shard: it takes, or queues up    | PARKED, SERVING, done
 *   SCHEDULED   | several shards: intents on all keys are on their way   | LOOKING, TOKEN
 *   LOOKING     | each shard tells its first key that is ready           | TAKING, QUEUING, LEAVING
 *   TAKING      | the shard of the first of these takes                  | done
 *   QUEUING     | on each shard it queues up, then its intents go        | PARKED, SERVING, done
 *   LEAVING     | the intents go, an error was replied                   | done
 *   TOKEN       | it was withdrawn too often: all shards are to stand still, then it does the same there | PARKED, SERVING, done
 *   PARKED      | it stands in the queues                                | SERVING, done
 *   SERVING     | a shard took before it could be ended                  | done
 *
 * No push is missed between looking and queuing up, as the intents stand. A shard may take from the first queue on, before the last is reached:
 * what it took (MESSAGE_SERVED) then waits for the state PARKED.
 */
#include "server/waiting.h"

#include <math.h>
#include <mimalloc.h>
#include <stdlib.h>

#include "io/clock.h"
#include "server/course.h"
#include "server/defer.h"
#include "server/lend.h"
#include "server/number.h"
#include "server/outbox.h"
#include "server/task_internal.h"

enum state {
    WAITING_TRYING,
    WAITING_SCHEDULED,
    WAITING_LOOKING,
    WAITING_TAKING,
    WAITING_QUEUING,
    WAITING_LEAVING,
    WAITING_TOKEN,
    WAITING_PARKED,
    WAITING_SERVING
};

enum outcome { OUTCOME_TAKEN, OUTCOME_QUEUED, OUTCOME_REFUSED };

/* The command, with its bytes: what a shard reads of it to see whether a key has something. Lives until no shard has a half of it. */
struct request {
    _Atomic bool claim;
    _Atomic uint32_t holders; /* halves, and the connection's side */
    struct waiting *waiting;  /* there until it is decided who ends it, and then until that has happened */
    const struct command *row;
    size_t size; /* bytes, of all */
    struct hop hop;
};

/* What stands in the queues of one shard. As a message it is given back, to be forgotten. */
struct half {
    struct message message;
    struct waiter waiter;
    struct wait keys[];
};

struct waiting {
    struct message message; /* SERVED */
    struct deadline deadline;
    struct member member; /* TRYING: where transactions are under way */
    struct conn *conn;
    struct task *task;
    struct request *request;
    struct half **halves; /* by shard; NULL: no key there */
    uint64_t timeout_ms, cycles;
    int64_t now_ms; /* of all its pieces */
    enum state state;
    enum outcome outcome; /* TRYING: the shard's */
    bool in_time_table, failed, served, dropped;
    struct reply reply; /* what was taken */
};

/* ---- what is shared ---- */

static const struct arg *key_of(const struct request *q, uint32_t nth) { return hop_key(&q->hop, nth); }

static uint32_t shard_of(const struct thread *t, const struct request *q, uint32_t nth) {
    return thread_shard_of(t, key_of(q, nth), hop_hash(&q->hop, nth));
}

static void request_release(struct request *q) {
    if (atomic_fetch_sub_explicit(&q->holders, 1, memory_order_acq_rel) == 1) mi_free(q);
}

static void half_free(struct half *x) {
    request_release(x->waiter.owner);
    mi_free(x);
}

/* A copy of the command. NULL: no memory. */
static struct request *request_new(
    struct thread *t, struct conn *c, const struct command *row, const struct arg *argv, uint32_t argc, const struct waiting_for *asked) {
    size_t arrays = argc * sizeof *argv + asked->n_keys * sizeof(uint64_t), size = sizeof(struct request) + arrays;
    for (uint32_t i = 0; i < argc; i++) size += argv[i].size;
    struct request *q = mi_malloc_aligned(size, 64);
    if (!q) return NULL;
    uint64_t *hashes = (uint64_t *)(q + 1);
    struct arg *args = (struct arg *)(hashes + asked->n_keys);
    char *to = (char *)(args + argc);
    for (uint32_t i = 0; i < argc; i++) {
        memcpy(to, argv[i].p, argv[i].size);
        args[i] = (struct arg){to, argv[i].size, 0};
        to += argv[i].size;
    }
    for (uint32_t i = 0; i < asked->n_keys; i++) {
        const struct arg *key = &args[asked->key_first + i];
        hashes[i] = hash_key(&t->server->secret, key->p, key->size);
    }
    *q = (struct request){.holders = 1, .row = row, .size = size};
    q->hop = (struct hop){.origin = c,
        .hash = hashes[0],
        .argv = args,
        .hashes = hashes,
        .argc = argc,
        .db = c->db,
        .resp = c->resp,
        .flags = conn_hop_flags(c, row) & (HOP_WRITE | HOP_NO_TOUCH),
        .n_keys = asked->n_keys,
        .key_first = (uint8_t)asked->key_first,
        .key_step = 1,
        .row = row->number};
    return q;
}

/* ---- the shard's side ---- */

static void take(struct shard *s, const struct command *row, struct hop *h, uint32_t nth, enum readiness ready, struct reply *r) {
    if (ready == KEY_READY) row->blocking->take(s, h, nth, r);
    else reply_wrong_type(r);
}

/* In this shard's queues. False: no memory; what is listed is forgotten later. */
static bool queue_up(struct shard *s, struct half *x) {
    const struct request *q = x->waiter.owner;
    for (uint32_t i = 0; i < x->waiter.n; i++) {
        struct wait *w = &x->keys[i];
        const struct arg *key = key_of(q, w->nth);
        if (!wait_add(s, w, q->hop.db, hop_hash(&q->hop, w->nth), key->p, key->size)) return false;
    }
    return true;
}

static struct waiting *waiting_of(const struct hop *h) { return (struct waiting *)(uintptr_t)h->state; }

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

static enum hop_result try_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct waiting *x = waiting_of(h);
    struct half *half = x->halves[s->id];
    struct hop own = x->request->hop;
    uint32_t nth;
    enum readiness ready = look(s, half, &nth);
    x->outcome = OUTCOME_TAKEN;
    if (ready != KEY_NOT_READY) take(s, x->request->row, &own, nth, ready, r);
    else x->outcome = queue_up(s, half) ? OUTCOME_QUEUED : OUTCOME_REFUSED;
    return HOP_DONE;
}

/* What a shard found. */
struct found {
    uint32_t ready, nth;
};

static enum hop_result look_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct found found = {0};
    found.ready = look(s, waiting_of(h)->halves[s->id], &found.nth);
    reply_bytes(r, (const char *)&found, sizeof found);
    return HOP_DONE;
}

static enum hop_result take_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct waiting *x = waiting_of(h);
    struct hop own = x->request->hop;
    uint32_t nth;
    enum readiness ready = look(s, x->halves[s->id], &nth);
    if (ready != KEY_NOT_READY) take(s, x->request->row, &own, nth, ready, r);
    else x->request->row->blocking->nothing(r);
    return HOP_DONE;
}

static enum hop_result queue_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct half *half = waiting_of(h)->halves[s->id];
    reply_int(r, queue_up(s, half));
    return HOP_DONE;
}

/* The waiter is claimed: takes for it, and tells its thread. */
static void serve_one(struct thread *t, struct shard *s, struct waiter *who, uint32_t nth) {
    struct request *q = who->owner;
    struct waiting *x = q->waiting;
    uint32_t home = x->message.from;
    struct hop h = q->hop;
    uint64_t start = cycles_now();
    wait_forget(s, who);
    x->reply.resp = h.resp;
    atomic_store_explicit(&t->running, h.row, memory_order_relaxed);
    q->row->blocking->take(s, &h, nth, &x->reply);
    atomic_store_explicit(&t->running, 0, memory_order_relaxed);
    x->cycles = cycles_now() - start;
    mailbox_push(&t->server->threads[home]->returns, &x->message);
    thread_want_wake(t, home);
}

void waiting_serve(struct thread *t, struct shard *s) {
    struct wait *w;
    while ((w = wait_next(s))) {
        struct waiter *who = w->waiter;
        const struct request *q = who->owner;
        uint32_t nth = w->nth;
        if (q->row->blocking->ready(s, &q->hop, nth) != KEY_READY) wait_pass(w);
        else if (wait_claim(who)) serve_one(t, s, who, nth);
        else wait_forget(s, who);
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
    for (uint32_t i = 0; i < asked.n_keys; i++) {
        struct shard *s = shard_on(t, x, h, i);
        enum readiness ready = row->blocking->ready(s, h, i);
        if (ready == KEY_NOT_READY) continue;
        take(s, row, h, i, ready, r);
        return;
    }
    row->blocking->nothing(r);
}

enum hop_result waiting_at_once(struct shard *s, struct hop *h, struct reply *r) {
    struct spread x = {&s, 1};
    at_once(NULL, &x, h, r);
    return HOP_DONE;
}

void waiting_on_held(struct thread *t, const struct spread *x, struct hop *h, struct reply *r) { at_once(t, x, h, r); }

/* ---- the connection's side: making one, and its end ---- */

static void waiting_free(struct waiting *x) {
    for (uint32_t s = 0; x->halves && s < server.n_threads; s++)
        if (x->halves[s]) half_free(x->halves[s]);
    if (x->request) request_release(x->request);
    for (uint32_t i = 0; i < x->reply.n_refs; i++)
        if (x->reply.refs[i].blob) outbox_release_blob(server.threads[x->message.from], x->reply.refs[i].blob);
    reply_drop(&x->reply);
    mi_free(x->halves);
    mi_free(x);
}

/* The halves, with the keys of each shard. False: no memory. */
static bool make_halves(struct thread *t, struct waiting *x) {
    const struct request *q = x->request;
    uint32_t *counts = mi_calloc(t->n_threads, sizeof *counts);
    bool enough = counts && x->halves;
    for (uint32_t i = 0; enough && i < q->hop.n_keys; i++) counts[shard_of(t, q, i)]++;
    for (uint32_t s = 0; enough && s < t->n_threads; s++) {
        if (!counts[s]) continue;
        struct half *half = x->halves[s] = mi_malloc(sizeof *half + counts[s] * sizeof *half->keys);
        enough = half;
        if (!enough) break;
        *half = (struct half){.message = {.kind = MESSAGE_FORGET, .from = t->id}};
        half->waiter = (struct waiter){.claim = &x->request->claim, .owner = x->request, .keys = half->keys};
        atomic_fetch_add_explicit(&x->request->holders, 1, memory_order_relaxed);
    }
    for (uint32_t i = 0; enough && i < q->hop.n_keys; i++) {
        struct half *half = x->halves[shard_of(t, q, i)];
        half->keys[half->waiter.n++] = (struct wait){.waiter = &half->waiter, .nth = i};
    }
    mi_free(counts);
    return enough;
}

static struct waiting *waiting_new(
    struct thread *t, struct conn *c, const struct command *row, const struct arg *argv, uint32_t argc, const struct waiting_for *asked) {
    struct waiting *x = mi_calloc(1, sizeof *x);
    if (!x) return NULL;
    x->message = (struct message){.kind = MESSAGE_SERVED, .from = t->id};
    x->conn = c;
    x->timeout_ms = asked->timeout_ms;
    x->now_ms = t->now_ms;
    x->halves = mi_calloc(t->n_threads, sizeof *x->halves);
    x->request = request_new(t, c, row, argv, argc, asked);
    if (x->request) x->request->waiting = x;
    if (x->request && make_halves(t, x)) return x;
    waiting_free(x);
    return NULL;
}

/* The halves leave the shards; each is freed there. */
static void forget_all(struct thread *t, struct waiting *x) {
    for (uint32_t s = 0; s < t->n_threads; s++) {
        struct half *half = x->halves[s];
        if (!half) continue;
        x->halves[s] = NULL;
        if (s == t->id && (thread_holds(t) || t->n_threads == 1)) waiting_forget_arrived(t->shard, &half->message);
        else {
            mailbox_push(&t->server->threads[s]->requests, &half->message);
            lend_queued(t, s);
        }
    }
}

static void unpark(struct thread *t, struct waiting *x) {
    if (x->conn->waiting != x) return;
    x->conn->waiting = NULL;
    deadlines_remove(&t->deadlines, &x->deadline);
    t->stats.blocked--;
    t->stats.blocked_in_time -= x->in_time_table;
}

/* The command is over, its reply is made. */
static void end(struct thread *t, struct waiting *x) {
    struct task *k = x->task;
    unpark(t, x);
    forget_all(t, x);
    waiting_free(x);
    course_end(t, k);
}

/* What a shard took becomes the reply. */
static void end_served(struct thread *t, struct waiting *x) {
    struct task *k = x->task;
    k->cycles += x->cycles;
    k->reply_at = k->conn->out.size;
    if (!k->no_reply) reply_take(task_output(t, k), &x->reply, 0, x->reply.size);
    k->conn->out.failed |= x->reply.failed;
    end(t, x);
}

/* Whether it is ours to end it. Else a shard has taken for it, and says so. */
static bool may_end(struct thread *t, struct waiting *x) {
    if (wait_claim(&(struct waiter){.claim = &x->request->claim})) return true;
    unpark(t, x);
    x->state = WAITING_SERVING;
    return false;
}

void waiting_leave(struct conn *c) {
    struct waiting *x = c->waiting;
    if (may_end(c->thread, x)) end(c->thread, x);
}

bool waiting_unblock(struct conn *c, bool error) {
    struct waiting *x = c->waiting;
    struct thread *t = c->thread;
    if (!may_end(t, x)) return false;
    struct reply *r = task_output(t, x->task);
    x->task->reply_at = r->size;
    if (error) reply_error(r, "UNBLOCKED client unblocked via CLIENT UNBLOCK");
    else x->request->row->blocking->nothing(r);
    end(t, x);
    return true;
}

void waiting_check(struct thread *t) {
    while (deadlines_next_ns(&t->deadlines) <= t->now_ns) {
        struct deadline *d = t->deadlines.heap[0];
        waiting_unblock(((struct waiting *)((char *)d - offsetof(struct waiting, deadline)))->conn, false);
    }
}

uint64_t waiting_memory(const struct waiting *x) {
    uint64_t bytes = sizeof *x + x->request->size;
    for (uint32_t s = 0; s < server.n_threads; s++)
        if (x->halves[s]) bytes += sizeof *x->halves[s] + x->halves[s]->waiter.n * sizeof *x->halves[s]->keys;
    return bytes;
}

/* ---- parking ---- */

static void refuse(struct thread *t, struct waiting *x) {
    struct reply *r = task_output(t, x->task);
    x->task->reply_at = r->size;
    reply_no_memory(r);
}

/* It stands in all queues, or would, had memory not been refused. */
static void park(struct thread *t, struct waiting *x) {
    struct conn *c = x->conn;
    if (x->served) {
        end_served(t, x);
        return;
    }
    bool in_time = x->timeout_ms != 0;
    if (x->failed || (in_time && !deadlines_add(&t->deadlines, &x->deadline))) {
        if (!may_end(t, x)) return;
        refuse(t, x);
        end(t, x);
        return;
    }
    x->state = WAITING_PARKED;
    x->in_time_table = in_time;
    c->waiting = x;
    t->stats.blocked++;
    t->stats.blocked_in_time += in_time;
    conn_parked(t, c);
}

void waiting_served(struct thread *t, struct message *m) {
    struct waiting *x = (struct waiting *)m;
    x->served = true;
    if (x->state == WAITING_PARKED || x->state == WAITING_SERVING) end_served(t, x);
}

/* ---- steps ---- */

static struct batch *piece(struct thread *t, struct waiting *x, uint32_t shard, hop_fn *run) {
    struct task *k = x->task;
    struct hop *own = &x->request->hop;
    struct batch *b = task_piece(t, k, shard, k->argv, k->argc, own->n_keys, own->hashes, 1, (uint64_t)(uintptr_t)x);
    b->hops[0].run = run;
    b->hops[0].key_first = own->key_first;
    b->now_ms = x->now_ms;
    return b;
}

static void tried(struct thread *t, struct task *k, struct waiting *x) {
    if (x->outcome == OUTCOME_TAKEN) {
        k->reply_at = k->conn->out.size;
        course_take(t, k);
        end(t, x);
        return;
    }
    course_drop_pieces(t, k);
    x->failed = x->outcome == OUTCOME_REFUSED;
    park(t, x);
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

static void looked(struct thread *t, struct task *k, struct waiting *x) {
    bool failed = false;
    uint32_t shard = first_ready(t, k, &failed);
    task_forget_wave(t, k);
    if (failed) {
        x->state = WAITING_LEAVING;
        refuse(t, x);
        transact_let_go(t, k);
    } else if (shard < t->n_threads) {
        x->state = WAITING_TAKING;
        piece(t, x, shard, take_piece);
        transact_send_wave(t, k, true);
    } else {
        x->state = WAITING_QUEUING;
        send_everywhere(t, k, x, queue_piece, true);
    }
}

static void queued(struct thread *t, struct task *k, struct waiting *x) {
    for (uint32_t s = 0; s < t->n_threads; s++)
        if (k->pieces[s]) x->failed |= k->pieces[s]->replies.failed || k->pieces[s]->replies.p[1] == '0';
    task_forget_wave(t, k);
    transact_end(t, k);
    park(t, x);
}

/* All shards stand still: at once what the waves do. */
static void on_held(struct thread *t, struct task *k, struct waiting *x) {
    const struct spread *held = course_held(k);
    struct hop h = x->request->hop;
    bool over = false;
    for (uint32_t i = 0; i < h.n_keys && !over; i++) {
        struct shard *s = held->shards[shard_of(t, x->request, i)];
        enum readiness ready = x->request->row->blocking->ready(s, &h, i);
        over = ready != KEY_NOT_READY;
        if (!over) continue;
        struct reply *r = &x->reply;
        r->resp = h.resp;
        take(s, x->request->row, &h, i, ready, r);
    }
    for (uint32_t s = 0; s < held->n && !over; s++)
        if (x->halves[s]) x->failed |= !queue_up(held->shards[s], x->halves[s]);
    course_let_go(t, k);
    if (over) end_served(t, x);
    else park(t, x);
}

static void go_on(struct thread *t, struct task *k, void *of) {
    struct waiting *x = of;
    switch (x->state) {
    case WAITING_TRYING: tried(t, k, x); return;
    case WAITING_SCHEDULED:
        task_forget_wave(t, k);
        x->state = WAITING_LOOKING;
        send_everywhere(t, k, x, look_piece, false);
        return;
    case WAITING_LOOKING: looked(t, k, x); return;
    case WAITING_QUEUING: queued(t, k, x); return;
    case WAITING_TOKEN: on_held(t, k, x); return;
    case WAITING_TAKING:
    case WAITING_LEAVING: break;
    case WAITING_PARKED:
    case WAITING_SERVING: abort();
    }
    if (x->state == WAITING_TAKING) {
        k->reply_at = k->conn->out.size;
        course_take(t, k);
    } else task_forget_wave(t, k);
    transact_end(t, k);
    end(t, x);
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
    if (wait_claim(&(struct waiter){.claim = &x->request->claim}) || x->served) waiting_free(x);
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

/* A member for each shard, with intents on its keys. False: no memory. */
static bool set_up(struct thread *t, struct task *k, const struct waiting *x) {
    const struct request *q = x->request;
    bool write = q->hop.flags & HOP_WRITE;
    struct intent *next = k->intents = mi_malloc((q->hop.n_keys + t->n_threads) * sizeof *next);
    k->members = mi_calloc(t->n_threads, sizeof *k->members);
    if (!next || !k->members) return false;
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
    if (n == 1) {
        x->state = WAITING_TRYING;
        struct batch *b = piece(t, x, shard, try_piece);
        b->order = PIECE_LOCAL;
        b->owner_only = x->request->hop.n_keys > FANOUT_KEYS_MAX;
        k->outstanding = 1;
        outbox_send_piece(t, b);
    } else if (set_up(t, k, x)) {
        x->state = WAITING_SCHEDULED;
        transact_begin(t, k);
    } else {
        mi_free(k->members);
        k->members = NULL;
        refuse(t, x);
        end(t, x);
    }
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
