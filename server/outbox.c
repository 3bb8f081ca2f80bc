/* Outboxes: hops on their way to shards, batches on their way back, and the order of replies.
 *
 * Map: adding hops; flush (collect, borrow, publish, draw numbers, arm, run); returns; retiring ticks; blobs to give back. What runs the batches is run.c.
 *
 * Order of replies. A connection's commands that may finish out of order have a record (struct own) in its list; a reply at the head goes
 * straight to the connection's output, others wait in their batch. Hops on the own shard, while this thread holds it, of a connection without
 * records need none: they run in this flush, in order, before anything on another shard. So with one thread there are no records at all.
 *
 * While it does not hold its shard (a coordinator does, or a borrower), a thread's own hops have records and go by its own mailbox, as others' do.
 */
#include "server/outbox.h"

#include <mimalloc.h>
#include <stdlib.h>

#include "server/conn.h"
#include "server/defer.h"
#include "server/exec.h"
#include "server/lend.h"
#include "server/monitor.h"
#include "server/multi.h"
#include "server/run.h"
#include "server/saving.h"
#include "server/slow.h"
#include "server/task.h"
#include "server/thread.h"
#include "server/waiting.h"
#include "shard/blob.h"

/* ---- adding ---- */

static struct batch *batch_new(struct thread *t, uint32_t to) {
    struct batch *b = t->free_batches;
    if (b) t->free_batches = b->next;
    else {
        b = mi_malloc_aligned(sizeof *b, 64);
        if (!b) abort(); /* 40 KB refused: nothing can be answered any more */
        b->replies = (struct reply){0};
        b->late = NULL;
        b->made_next = t->made_batches;
        t->made_batches = b;
        b->message.armed = &t->armed;
        b->message.from = t->id;
        b->message.kind = MESSAGE_BATCH;
        b->message.sequence = 0; /* a piece that another thread runs later than we borrowed its shard comes back as armed */
    }
    b->n = b->n_args = b->done = 0;
    b->to = to;
    b->next = NULL;
    b->tick = NULL;
    b->task = NULL;
    b->slow = b->owner_only = b->recorded = b->goes_on = false;
    b->order = PIECE_HOP;
    b->n_late = 0;
    b->cycles = 0;
    b->counted = (struct aside_count){0};
    b->now_ms = t->now_ms;
    return b;
}

static void drop_refs(struct thread *t, struct reply *r) {
    for (uint32_t i = 0; i < r->n_refs; i++)
        if (r->refs[i].blob) outbox_release_blob(t, r->refs[i].blob);
}

/* Of a hop that goes on in slices, at the end of the process. */
static void drop_state(struct batch *b, uint32_t index, struct deferred *d) {
    struct hop *h = &b->hops[index];
    const struct command *row = command_by_number(h->row);
    if (row->on_drop && !(h->flags & HOP_SLOW)) row->on_drop(server.threads[b->to]->shard, h, &d->reply);
}

static __attribute__((cold)) void drop_late(struct thread *t, struct batch *b) {
    for (uint32_t i = 0; i < b->n; i++) {
        struct deferred *d = b->late[i];
        if (!d) continue;
        if (d->sliced && !d->done) drop_state(b, i, d);
        drop_refs(t, &d->reply);
        reply_drop(&d->reply);
        mi_free(d);
    }
    mi_free(b->late);
    b->late = NULL;
}

void batch_recycle(struct thread *t, struct batch *b) {
    struct reply *r = &b->replies;
    drop_refs(t, r);
    r->size = r->n_refs = r->refs_bytes = 0;
    r->failed = false;
    if (r->capacity > 1u << 20) reply_drop(r);
    if (__builtin_expect(b->late != NULL, 0)) drop_late(t, b);
    b->n = 0; /* its hops are no more */
    b->next = t->free_batches;
    t->free_batches = b;
}

static void queue_batch(struct thread *t, struct batch *b) {
    if (b->to == t->id) {
        if (t->own_last) t->own_last->next = b;
        else t->own_batch = b;
        t->own_last = b;
        return;
    }
    t->outbox_used = true;
    if (t->outbox_last[b->to]) t->outbox_last[b->to]->next = b;
    else t->outbox_first[b->to] = b;
    t->outbox_last[b->to] = b;
}

static inline struct batch *last_batch(const struct thread *t, uint32_t shard) {
    return shard == t->id ? t->own_last : t->outbox_last[shard];
}

static inline struct batch *batch_with_room(struct thread *t, uint32_t shard, uint32_t hops, uint32_t argc) {
    struct batch *b = last_batch(t, shard);
    /* A batch of an earlier tick (it waits for a coordinator) would go with that tick, and a reply in it may wait behind one of this tick. */
    if (b && b->tick == t->tick && !b->task && b->n + hops <= BATCH_HOPS && b->n_args + argc <= BATCH_ARGS) return b;
    if (b && t->n_threads == 1 && !t->stands_still) outbox_flush(t); /* alone, nothing forbids to run at once, and the cache is warm */
    b = batch_new(t, shard);
    b->tick = thread_tick(t);
    b->tick->open++;
    queue_batch(t, b);
    return b;
}

/* Blobs among the arguments pass to the copy. */
static void move_blobs(struct tick *k, struct arg *from, struct arg *to, uint32_t argc) {
    for (uint32_t i = 0; i < argc; i++) {
        if (!(from[i].flags & ARG_BLOB)) continue;
        from[i].flags &= ~(uint32_t)ARG_BLOB;
        to[i].flags |= ARG_WAS_BLOB;
        tick_add_blob(k, &to[i]);
    }
}

/* The batch's next hop, for which there is room, takes its place in the order of its connection; there is none to keep for a hop that runs here
 * with nothing of the connection unfinished before it. To be asked when the room is there: making it may have run what came before, and a
 * command among that which goes on in slices is unfinished from then on. */
static inline void take_place(struct thread *t, struct conn *c, struct batch *b) {
    struct own *own = &b->own[b->n];
    own->conn = NULL;
    if (b->to == t->id && !c->first && thread_holds(t)) return;
    *own = (struct own){c, NULL, b, b->n};
    if (c->last) c->last->next = own;
    else c->first = own;
    c->last = own;
}

struct hop *outbox_add(struct thread *t, uint32_t shard, struct conn *c, struct arg *argv, uint32_t argc) {
    bool large = argc > BATCH_ARGS / 4;
    struct batch *b = batch_with_room(t, shard, 1, large ? 0 : argc);
    struct hop *h = &b->hops[b->n];
    struct arg *to = &b->args[b->n_args];
    if (large) {
        to = mi_malloc(argc * sizeof *to);
        if (!to) return NULL;
        tick_add_memory(b->tick, to);
    } else b->n_args += argc;
    for (uint32_t i = 0; i < argc; i++) to[i] = argv[i];
    if (__builtin_expect(t->argv_has_blob, 0)) move_blobs(b->tick, argv, to, argc);
    h->argv = to;
    h->argc = argc;
    h->hashes = NULL;
    h->origin = c;
    h->state = 0;
    h->db = c->db;
    h->resp = c->resp;
    take_place(t, c, b);
    c->n_out++;
    b->n++;
    return h;
}

void outbox_reserve(struct thread *t, uint32_t shard, uint32_t hops, uint32_t args) { batch_with_room(t, shard, hops, args); }

struct hop *outbox_add_made(struct thread *t, uint32_t shard, struct conn *c, const struct hop *like) {
    struct batch *b = last_batch(t, shard);
    struct hop *h = &b->hops[b->n];
    *h = *like;
    h->origin = c;
    h->db = c->db;
    h->resp = c->resp;
    take_place(t, c, b);
    c->n_out++;
    b->n++;
    return h;
}

const struct hop *outbox_own_last(const struct thread *t, const struct conn *c) {
    const struct batch *b = t->own_last;
    if (!b || b->task || b->tick != t->tick || !b->n) return NULL;
    const struct hop *h = &b->hops[b->n - 1];
    const struct own *own = &b->own[b->n - 1];
    return h->origin == c && (own->conn ? c->last == own : !c->first) ? h : NULL;
}

struct batch *outbox_piece(struct thread *t, uint32_t shard, struct task *task) {
    struct batch *b = batch_new(t, shard);
    b->task = task;
    b->n = 1;
    b->own[0].conn = NULL;
    return b;
}

void outbox_send_piece(struct thread *t, struct batch *b) {
    b->next = NULL;
    queue_batch(t, b);
}

/* ---- flush ---- */

void batch_link_to_tick(struct batch *b) {
    if (b->task) return;
    b->next = b->tick->batches;
    b->tick->batches = b;
}

static void run_own_now(struct thread *t) {
    struct batch *first = t->own_now;
    t->own_now = NULL;
    run_own_batches(t, t, first);
}

/* The own hops of this turn go by the mailbox, at the place in the order of arrival that they have anyway: behind what was collected. */
static __attribute__((cold)) void queue_own_now(struct thread *t) {
    run_record_all(t->own_now);
    while (t->own_now) {
        struct batch *b = t->own_now;
        t->own_now = b->next;
        batch_link_to_tick(b);
        b->message.sequence = t->sequence; /* armed already */
        mailbox_append(&t->requests, &b->message);
    }
}

/* From here on all own hops go by the mailbox. */
static void stand_still(struct thread *t, struct message *m) {
    uint32_t from = m->from;
    queue_own_now(t);
    run_slices_out(t);
    t->stands_still = true;
    t->hurry_ns = 0;
    m->kind = MESSAGE_STOPPED;
    mailbox_push(&t->server->threads[from]->returns, m);
    thread_want_wake(t, from);
}

static void run_requests(struct thread *t) {
    struct message *m;
    while (!t->stands_still && (m = mailbox_next(&t->requests))) {
        if (m->kind == MESSAGE_STOP) stand_still(t, m);
        else run_message(t, t, m);
    }
}

static void push_all(struct thread *t, uint32_t shard, struct batch *b) {
    while (b) {
        struct batch *next = b->next;
        batch_link_to_tick(b);
        b->message.sequence = t->sequence;
        t->stats.batches_sent++;
        t->stats.hops_sent += b->n;
        mailbox_push(&t->server->threads[shard]->requests, &b->message);
        b = next;
    }
    lend_queued(t, shard);
}

/* Everything that is not for a borrowed shard (those were taken out), and the own hops too while the shard is not in hand. To be armed. */
static void publish(struct thread *t) {
    t->sequence++;
    for (uint32_t s = 0; s < t->n_threads; s++) {
        struct batch *b = t->outbox_first[s];
        if (!b) continue;
        t->outbox_first[s] = t->outbox_last[s] = NULL;
        push_all(t, s, b);
    }
    if (t->own_batch && !thread_holds(t)) {
        struct batch *b = t->own_batch;
        t->own_batch = t->own_last = NULL;
        push_all(t, t->id, b);
    }
    t->outbox_used = false;
}

static void exchange(struct thread *t) {
    if (!t->mine && (t->own_batch || mailbox_has_new(&t->requests))) lend_insist(t);
    if (thread_holds(t)) mailbox_collect(&t->requests);
    if (t->outbox_used) lend_borrow_all(t);
    bool publishes = t->outbox_used || (t->own_batch && !thread_holds(t));
    if (publishes) publish(t);
    /* From here on all that this turn sends has its place in the order of arrival of its shard. Numbers must not be drawn before (shard/schedule.h). */
    if (t->numbers) task_draw_numbers(t);
    if (publishes) mailbox_arm(&t->armed, t->sequence);
}

void outbox_flush(struct thread *t) {
    if (t->n_threads > 1) exchange(t);
    else if (t->numbers) task_draw_numbers(t);
    if (thread_holds(t)) {
        t->own_now = t->own_batch;
        t->own_batch = t->own_last = NULL;
        if (t->n_threads > 1) run_requests(t);
        if (__builtin_expect(t->n_threads > 1 && t->requests.first, 0))
            queue_own_now(t); /* it is not armed yet, and holds back what these may depend on */
        else if (t->own_now) run_own_now(t);
    }
    if (t->n_borrowed) lend_run_borrowed(t);
    if (t->settles) lend_settle_all(t);
}

/* ---- coming back ---- */

void outbox_emit(struct thread *t, struct conn *c) {
    struct own *o = c->first;
    if (!c->out.p) conn_take_spare(t, c);
    while (o && o->index < o->batch->done) {
        struct batch *b = o->batch;
        struct deferred *d = batch_late(b, o->index);
        if (__builtin_expect(d != NULL, 0)) {
            if (!d->done) break;
            o = o->next;
            conn_answered(t, c);
            client_memory_forget_aside(c, &d->counted);
            if (d->reply.failed) c->out.failed = true;
            reply_take(&c->out, &d->reply, 0, d->reply.size);
            continue;
        }
        size_t start = o->index ? b->ends[o->index - 1] : 0;
        uint32_t i;
        do {
            i = o->index;
            o = o->next;
            conn_answered(t, c);
        } while (o && o->batch == b && o->index == i + 1 && o->index < b->done && !batch_late(b, o->index));
        reply_take(&c->out, &b->replies, start, b->ends[i]);
    }
    c->first = o;
    if (!o) c->last = NULL;
    conn_mark(t, c);
}

static void log_slow_hop(struct thread *t, struct batch *b, uint32_t i) {
    const struct hop *h = &b->hops[i];
    if (h->flags & HOP_SLOW) log_slow(t, b->own[i].conn, command_by_number(h->row), h->argv, h->argc, h->state);
}

/* The reply of a hop that waited takes its place. */
static void late_is_back(struct thread *t, struct deferred *d) {
    struct batch *b = d->batch;
    struct own *own = &b->own[d->index];
    d->done = true;
    for (uint32_t i = d->index; d->slow && i <= d->index + exec_together(&b->hops[d->index]); i++) log_slow_hop(t, b, i);
    if (!--b->n_late) b->tick->open--;
    if (own->conn->first == own) outbox_emit(t, own->conn);
}

static void log_slow_hops(struct thread *t, struct batch *b) {
    for (uint32_t i = 0; i < b->n; i++)
        if (batch_late(b, i)) i += exec_together(&b->hops[i]); /* they may be run at this moment */
        else log_slow_hop(t, b, i);
}

static void came_back(struct thread *t, struct batch *b) {
    if (b->task) {
        task_piece_done(t, b);
        return;
    }
    b->done = b->n;
    if (!b->n_late) b->tick->open--;
    if (__builtin_expect(b->slow, 0)) log_slow_hops(t, b);
    for (uint32_t i = 0; i < b->n; i++)
        if (b->own[i].conn->first == &b->own[i]) outbox_emit(t, b->own[i].conn);
}

void outbox_take_returns(struct thread *t) {
    mailbox_collect(&t->returns);
    struct message *m;
    while ((m = mailbox_next(&t->returns))) {
        struct note *n = (struct note *)m;
        switch ((enum message_kind)m->kind) {
        case MESSAGE_BATCH: came_back(t, (struct batch *)m); break;
        case MESSAGE_HELD: run_held_arrived(t, (struct batch *)m); break;
        case MESSAGE_BESIDE: run_beside_arrived(t, (struct batch *)m); break;
        case MESSAGE_STOPPED:
            task_stopped(t, n->task);
            mi_free(n);
            break;
        case MESSAGE_GO:
            task_go_on(t);
            mi_free(n);
            break;
        case MESSAGE_TOKEN:
            task_token(t, n->task, n->value);
            mi_free(n);
            break;
        case MESSAGE_TOKEN_ASK:
        case MESSAGE_TOKEN_BACK: task_token_message(t, n); break;
        case MESSAGE_MONITOR:
        case MESSAGE_MONITOR_LEFT: monitor_message(t, m); break;
        case MESSAGE_SERVED: waiting_served(t, m); break;
        case MESSAGE_LATE: late_is_back(t, (struct deferred *)m); break;
        case MESSAGE_ASIDE: client_memory_aside_message(t, n); break;
        case MESSAGE_HALT:
        case MESSAGE_MAY_I:
        case MESSAGE_YOU_MAY:
        case MESSAGE_HALTED: task_halt_message(t, n); break;
        case MESSAGE_SAVED: saving_message(t, n); break;
        case MESSAGE_SAVE_AND_EXIT: saving_end_message(t, n); break;
        case MESSAGE_END_ABORTED: saving_abort_message(t, n); break;
        case MESSAGE_LOADING:
            mi_free(n);
            task_loading(t);
            break;
        case MESSAGE_LOADED:
            mi_free(n);
            task_loaded(t);
            break;
        case MESSAGE_ROOM: mi_free(n); break; /* to be awake is all */
        case MESSAGE_DISK: task_disk_done(t, (struct disk_job *)m); break;
        case MESSAGE_ADOPT:
            conn_open(t, (int)(n->value >> 1), n->value & 1);
            mi_free(n);
            break;
        default: abort();
        }
    }
}

/* Gives back what the commands of a tick pointed into. */
static void retire_tick(struct thread *t, struct tick *k) {
    for (uint32_t i = 0; i < k->n_buffers; i++) proactor_give_buffer(t->proactor, k->buffers[i]);
    for (uint32_t i = 0; i < k->n_blobs; i++) args_discard_blobs(k->blobs[i], 1);
    for (uint32_t i = 0; i < k->n_blocks; i++) {
        struct block *b = k->blocks[i];
        if (!--b->pins && b->dropped) block_free(b);
    }
    for (uint32_t i = 0; i < k->n_memory; i++) mi_free(k->memory[i]);
    k->n_buffers = k->n_blobs = k->n_blocks = k->n_memory = 0;
    while (k->batches) {
        struct batch *b = k->batches;
        k->batches = b->next;
        batch_recycle(t, b);
    }
}

/* Oldest first, so that a batch outlives every reply that waits behind one of an older tick. */
void outbox_retire(struct thread *t) {
    for (; t->tick_first != t->tick_next && !t->ticks[t->tick_first % TICKS].open; t->tick_first++)
        retire_tick(t, &t->ticks[t->tick_first % TICKS]);
}

/* ---- the end ---- */

void outbox_end(struct thread *t) {
    for (struct batch *b = t->made_batches; b; b = b->made_next) {
        if (b->task) continue; /* a piece of EXEC's has the function of its row, but is no head */
        for (uint32_t i = 0; i < b->n; i++) exec_head_drop(t->server->threads[b->to]->shard, &b->hops[i]);
    }
    for (; t->tick_first != t->tick_next; t->tick_first++) {
        struct tick *k = &t->ticks[t->tick_first % TICKS];
        k->batches = NULL; /* freed below, wherever they are */
        retire_tick(t, k);
    }
}

void outbox_drop_batches(struct thread *t) {
    while (t->made_batches) {
        struct batch *b = t->made_batches;
        struct reply *r = &b->replies;
        t->made_batches = b->made_next;
        drop_refs(t, r);
        reply_drop(r);
        if (b->late) drop_late(t, b);
        mi_free(b);
    }
    outbox_publish_releases(t);
}

/* Armed or not: everybody has ended. Batches are their makers'. */
static void drain(struct thread *t, struct mailbox *from) {
    mailbox_collect(from);
    struct message *m = from->first, *next;
    from->first = from->last = NULL;
    for (; m; m = next) {
        next = m->next;
        if (m->kind == MESSAGE_RELEASE) outbox_release_arrived(t->shard, m);
        else if (m->kind == MESSAGE_UNWATCH) multi_unwatch_arrived(t->shard, m);
        else if (m->kind == MESSAGE_FORGET) waiting_forget_arrived(t->shard, m);
        else if (m->kind == MESSAGE_SERVED) waiting_drop_served(m);
        else if (m->kind != MESSAGE_BATCH && m->kind != MESSAGE_LATE && m->kind != MESSAGE_HELD && m->kind != MESSAGE_BESIDE) mi_free(m);
    }
}

void outbox_drain(struct thread *t) {
    drain(t, &t->requests);
    drain(t, &t->returns);
}

/* ---- blobs whose bytes were sent ---- */

void outbox_release_arrived(struct shard *s, struct message *message) {
    struct release *m = (struct release *)message;
    for (uint32_t i = 0; i < m->n; i++) blob_release(s->memory, m->blobs[i]);
    mi_free(m);
}

void outbox_release_blob(struct thread *t, struct blob *b) {
    if (b->shard == t->id && thread_holds(t)) {
        blob_release(t->shard->memory, b);
        return;
    }
    struct release *m = t->releases[b->shard];
    if (!m) {
        m = mi_malloc(sizeof *m);
        if (!m) abort();
        m->message = (struct message){.kind = MESSAGE_RELEASE, .from = t->id};
        m->n = 0;
        t->releases[b->shard] = m;
    }
    m->blobs[m->n++] = b;
    if (m->n == sizeof m->blobs / sizeof *m->blobs) outbox_publish_releases(t);
}

void outbox_publish_releases(struct thread *t) {
    for (uint32_t s = 0; s < t->n_threads; s++) {
        struct release *m = t->releases[s];
        if (!m) continue;
        t->releases[s] = NULL;
        if (s == t->id && thread_holds(t)) outbox_release_arrived(t->shard, &m->message);
        else {
            mailbox_push(&t->server->threads[s]->requests, &m->message);
            lend_queued(t, s);
        }
    }
}
