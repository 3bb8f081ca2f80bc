/* A request of a command that waits: made, parked, ended. */
#include <mimalloc.h>

#include "server/course.h"
#include "server/lend.h"
#include "server/outbox.h"
#include "server/waiting_internal.h"

/* ---- making one ---- */

static void request_release(struct request *q) {
    if (atomic_fetch_sub_explicit(&q->holders, 1, memory_order_acq_rel) == 1) mi_free(q);
}

void half_free(struct half *x) {
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
        .flags = (row_hop_flags(row) | conn_hop_flags(c)) & (HOP_WRITE | HOP_NO_TOUCH),
        .n_keys = asked->n_keys,
        .key_first = (uint8_t)asked->key_first,
        .key_step = 1,
        .row = row->number};
    return q;
}

void waiting_free(struct waiting *x) {
    for (uint32_t s = 0; x->halves && s < server.n_threads; s++)
        if (x->halves[s]) half_free(x->halves[s]);
    if (x->moved) x->request->row->blocking->moving->drop(server.threads[x->message.from], x->moved);
    if (x->request) request_release(x->request);
    for (uint32_t i = 0; i < x->reply.n_refs; i++)
        if (x->reply.refs[i].blob) outbox_release_blob(server.threads[x->message.from], x->reply.refs[i].blob);
    reply_drop(&x->reply);
    mi_free(x->serving);
    mi_free(x->halves);
    mi_free(x);
}

/* The halves, with the keys of each shard. False: no memory. */
static bool make_halves(struct thread *t, struct waiting *x) {
    const struct request *q = x->request;
    uint32_t *counts = mi_calloc(t->n_threads, sizeof *counts), n_keys = waited_keys(q->row->blocking, q->hop.n_keys);
    bool enough = counts && x->halves;
    for (uint32_t i = 0; enough && i < n_keys; i++) counts[request_shard(t, q, i)]++;
    for (uint32_t s = 0; enough && s < t->n_threads; s++) {
        if (!counts[s]) continue;
        struct half *half = x->halves[s] = mi_malloc(sizeof *half + counts[s] * sizeof *half->keys);
        enough = half;
        if (!enough) break;
        *half = (struct half){.message = {.kind = MESSAGE_FORGET, .from = t->id}};
        half->waiter = (struct waiter){.claim = &x->request->claim, .owner = x->request, .keys = half->keys};
        atomic_fetch_add_explicit(&x->request->holders, 1, memory_order_relaxed);
    }
    for (uint32_t i = 0; enough && i < n_keys; i++) {
        struct half *half = x->halves[request_shard(t, q, i)];
        half->keys[half->waiter.n++] = (struct wait){.waiter = &half->waiter, .nth = i};
    }
    mi_free(counts);
    return enough;
}

struct waiting *waiting_new(
    struct thread *t, struct conn *c, const struct command *row, const struct arg *argv, uint32_t argc, const struct waiting_for *asked) {
    struct waiting *x = mi_calloc(1, sizeof *x);
    if (!x) return NULL;
    x->message = (struct message){.kind = MESSAGE_SERVED, .from = t->id};
    x->conn = c;
    x->timeout_ms = asked->timeout_ms;
    x->halves = mi_calloc(t->n_threads, sizeof *x->halves);
    x->request = request_new(t, c, row, argv, argc, asked);
    if (x->request) x->request->waiting = x;
    if (x->request && make_halves(t, x)) return x;
    waiting_free(x);
    return NULL;
}

/* ---- its end ---- */

/* The halves leave the shards; each is freed there. */
static void forget_all(struct thread *t, struct waiting *x) {
    for (uint32_t s = 0; s < t->n_threads; s++) {
        struct half *half = x->halves[s];
        if (!half) continue;
        x->halves[s] = NULL;
        if (s == t->id && (thread_holds(t) || t->n_threads == 1)) {
            waiting_forget_arrived(t->shard, &half->message);
            if (t->shard->waits.ready) waiting_serve(t, t->shard);
        } else {
            mailbox_push(&t->server->threads[s]->requests, &half->message);
            lend_queued(t, s);
        }
    }
}

void waiting_unpark(struct thread *t, struct waiting *x) {
    if (x->conn->waiting != x) return;
    x->conn->waiting = NULL;
    deadlines_remove(&t->deadlines, &x->deadline);
    t->stats.blocked--;
    t->stats.blocked_in_time -= x->in_time_table;
}

void waiting_end(struct thread *t, struct waiting *x) {
    struct task *k = x->task;
    waiting_unpark(t, x);
    forget_all(t, x);
    waiting_free(x);
    course_end(t, k);
}

void waiting_end_served(struct thread *t, struct waiting *x) {
    struct task *k = x->task;
    k->cycles += x->cycles;
    k->reply_at = k->conn->out.size;
    client_memory_forget_aside(k->conn, &x->counted);
    if (!k->no_reply) reply_take(task_output(t, k), &x->reply, 0, x->reply.size);
    k->conn->out.failed |= x->reply.failed;
    waiting_unpark(t, x);
    if (x->given_up) conn_close(k->conn, true); /* as one that parks when its client sends no more: what is behind it is not run */
    waiting_end(t, x);
}

/* Whether it is ours to end it. Else a shard has taken for it, or told it to try, and says so. */
static bool may_end(struct thread *t, struct waiting *x) {
    if (wait_claim(&(struct waiter){.claim = &x->request->claim})) return true;
    waiting_unpark(t, x);
    x->state = WAITING_SERVING;
    return false;
}

void waiting_leave(struct conn *c) {
    struct waiting *x = c->waiting;
    x->ends = ENDS_LEFT;
    if (may_end(c->thread, x)) waiting_end(c->thread, x);
}

void waiting_end_untaken(struct thread *t, struct waiting *x) {
    struct reply *r = task_output(t, x->task);
    x->task->reply_at = r->size;
    if (x->ends == ENDS_ERROR) reply_error(r, "UNBLOCKED client unblocked via CLIENT UNBLOCK");
    else if (x->ends == ENDS_NOTHING) x->request->row->blocking->nothing(r);
    waiting_end(t, x);
}

bool waiting_unblock(struct conn *c, bool error) {
    struct waiting *x = c->waiting;
    struct thread *t = c->thread;
    x->ends = error ? ENDS_ERROR : ENDS_NOTHING;
    if (!may_end(t, x)) return false;
    waiting_end_untaken(t, x);
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

void waiting_refuse(struct thread *t, struct waiting *x) {
    struct reply *r = task_output(t, x->task);
    x->task->reply_at = r->size;
    reply_no_memory(r);
}

void waiting_park(struct thread *t, struct waiting *x) {
    struct conn *c = x->conn;
    if (x->served && x->tries) {
        x->served = false;
        waiting_try_again(t, x);
        return;
    }
    if (x->served) {
        waiting_end_served(t, x);
        return;
    }
    bool in_time = x->timeout_ms != 0;
    if (x->failed || (in_time && !deadlines_add(&t->deadlines, &x->deadline))) {
        if (!may_end(t, x)) return;
        waiting_refuse(t, x);
        waiting_end(t, x);
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
    if (x->state != WAITING_PARKED && x->state != WAITING_SERVING) return;
    if (!x->tries) {
        waiting_end_served(t, x);
        return;
    }
    x->served = false;
    waiting_try_again(t, x);
}
