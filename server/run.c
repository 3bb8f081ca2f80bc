/* Running on a shard that the thread holds: plain batches, its own and those of others; pieces of tasks, by what they ask for; what had to wait for a transaction.
 *
 * A plain hop goes by the engine of batches (shard/batch.h). While nothing is under way on the shard and nobody waits for a key of it, that is all; else each hop is asked whether
 * it must wait, and after each whoever waits for what it brought is served. Whatever leaves the shard's order lets go, serves, and then runs what is ready.
 */
#include "server/run.h"

#include <mimalloc.h>
#include <stdlib.h>

#include "io/clock.h"
#include "server/conn.h"
#include "server/course.h"
#include "server/defer.h"
#include "server/exec.h"
#include "server/multi.h"
#include "server/outbox.h"
#include "server/regions.h"
#include "server/slow.h"
#include "server/task.h"
#include "server/waiting.h"
#include "shard/batch.h"
#include "shard/keyspace.h"
#include "shard/snapshot.h"

/* t runs b on the shard s, which it holds. */
struct batch_run {
    struct thread *t;
    struct shard *s;
    struct batch *b, *rest; /* rest: what comes behind it, of its thread's own */
    bool guarded;           /* a hop may have to wait */
    bool slow;              /* a hop was, of those whose sender is another thread */
    /* While the shard is not quiet: hops of an EXEC that follow, and share what was decided of the first. */
    uint32_t together;
    bool put_off;
};

/* What a hop took, which is done. */
static void count_time(struct batch_run *x, struct hop *h, uint64_t cycles) {
    struct thread *t = x->t;
    struct batch *b = x->b;
    measure_time(&t->measure, h->row, cycles, h->flags & HOP_TIMED ? 1 : t->measure.weight);
    if (cycles < t->measure.slow_cycles || !h->row) return; /* no row: a reply that was saved */
    if (b->message.from == t->id) {
        log_slow(t, h->origin, command_by_number(h->row), h->argv, h->argc, cycles);
        return;
    }
    h->flags |= HOP_SLOW;
    h->state = cycles;
    x->slow = true;
}

/* Runs a hop and takes its time. */
static __attribute__((noinline)) enum hop_result run_timed(struct batch_run *x, struct hop *h, struct reply *r) {
    uint64_t start = cycles_now();
    enum hop_result result = h->run(x->s, h, r);
    if (result == HOP_DONE) count_time(x, h, cycles_now() - start);
    return result;
}

static __attribute__((cold)) void count_failure(struct thread *t, const struct hop *h, const struct reply *r, size_t at) {
    if (!h->row) return;
    t->measure.commands[h->row].failed++;
    t->stats.errors++;
    measure_error(&t->measure, r->p + at + 1, r->size - at - 1);
}

/* What is done after a hop has run, whose reply began here. */
static inline void after_hop(struct batch_run *x, struct hop *h, struct reply *r, size_t size) {
    if (__builtin_expect(r->size > size && r->p[size] == '-', 0)) count_failure(x->t, h, r, size);
    if (__builtin_expect(h->flags & HOP_NO_REPLY, 0)) reply_cut(x->s, r, size);
}

static inline enum hop_result run_into(struct batch_run *x, struct hop *h, struct reply *r) {
    struct thread *t = x->t;
    size_t size = r->size;
    enum hop_result result;
    r->resp = h->resp;
    t->measure.commands[h->row].calls++;
    atomic_store_explicit(&t->running, h->row, memory_order_relaxed);
    if (__builtin_expect(t->measure.weight || h->flags & HOP_TIMED, 0)) result = run_timed(x, h, r);
    else result = h->run(x->s, h, r);
    after_hop(x, h, r, size);
    return result;
}

/* Those without a place come before all that have one. */
__attribute__((cold)) void run_record_all(struct batch *first) {
    struct batch *reversed = NULL;
    for (struct batch *b = first, *next; b; b = next) {
        next = b->next;
        b->next = reversed;
        reversed = b;
    }
    for (struct batch *b = reversed, *after = NULL, *previous; b; after = b, b = previous) {
        previous = b->next;
        b->next = after;
        if (b->task || b->recorded) continue;
        b->recorded = true;
        for (uint32_t i = b->n; i-- > b->done;) {
            struct conn *c = b->hops[i].origin;
            if (b->own[i].conn) continue;
            b->own[i] = (struct own){c, c->first, b, i};
            if (!c->first) c->last = &b->own[i];
            c->first = &b->own[i];
        }
    }
}

/* The same for a batch that is about to run, or runs, and those behind it. One that came by the mailbox is linked to its tick already, and stays so. */
static void record_from(struct batch *b, struct batch *rest) {
    struct batch *linked = b->next;
    b->next = rest;
    run_record_all(b);
    b->next = linked;
}

/* To be gone on with by the shard's owner. */
static void go_on_later(struct thread *t, struct shard *s, struct deferred *d) {
    struct thread *owner = t->server->threads[s->id];
    d->sliced = true;
    d->next = NULL;
    if (owner->late_slices) owner->late_slices_last->next = d;
    else owner->late_slices = d;
    owner->late_slices_last = d;
}

/* A hop that has much to do: its reply comes late. From here on others may meet its intents. */
static __attribute__((noinline, cold)) void begin_slices(struct batch_run *x, struct hop *h) {
    struct batch *b = x->b;
    uint32_t i = (uint32_t)(h - b->hops);
    if (b->message.from == x->t->id && !b->own[i].conn) {
        record_from(b, x->rest);
    }
    struct deferred *d = defer_slices(x->s, b, i);
    if (d) go_on_later(x->t, x->s, d);
    x->guarded = true;
}

/* A hop of a connection of this thread: its reply goes straight to its connection unless an earlier one is still out. */
static inline __attribute__((always_inline)) void exec_own(void *ctx, struct hop *h) {
    struct batch_run *x = ctx;
    struct thread *t = x->t;
    struct batch *b = x->b;
    struct conn *c = h->origin;
    uint32_t i = (uint32_t)(h - b->hops);
    if (__builtin_expect(!b->own[i].conn, 1)) {
        if (!c->out.p) conn_take_spare(t, c);
        if (__builtin_expect(run_into(x, h, &c->out) == HOP_DONE, 1)) {
            conn_answered(t, c);
            conn_mark(t, c);
        } else begin_slices(x, h);
    } else if (c->first == &b->own[i]) {
        if (!c->out.p) conn_take_spare(t, c);
        if (__builtin_expect(run_into(x, h, &c->out) == HOP_AGAIN, 0)) {
            begin_slices(x, h);
            b->ends[i] = b->replies.size;
            b->done = i + 1;
            return;
        }
        struct own *next = c->first = b->own[i].next;
        if (!next) c->last = NULL;
        conn_answered(t, c);
        if (next && next->batch != b && next->index < next->batch->done) outbox_emit(t, c);
        else conn_mark(t, c);
    } else if (__builtin_expect(run_into(x, h, &b->replies) == HOP_AGAIN, 0)) begin_slices(x, h);
    b->ends[i] = b->replies.size;
    b->done = i + 1;
}

static inline __attribute__((always_inline)) void exec_foreign(void *ctx, struct hop *h) {
    struct batch_run *x = ctx;
    struct batch *b = x->b;
    if (__builtin_expect(run_into(x, h, &b->replies) == HOP_AGAIN, 0)) begin_slices(x, h);
    b->ends[h - b->hops] = b->replies.size;
}

/* Neither are transactions under way on the shard, nor does somebody wait for a key of it, nor is a snapshot being written. */
static inline bool is_quiet(const struct shard *s) { return schedule_is_empty(&s->schedule) && !s->waits.n && !s->snapshot; }

/* Where a snapshot must write a key first, its value is in the shard's order before the hop is. */
static void hold_keys(struct shard *s, const struct hop *h) {
    if (!(h->flags & HOP_WRITE) || h->flags & HOP_NO_KEY) return;
    bool replaces = command_by_number(h->row)->flags & CMD_REPLACES;
    for (uint32_t i = 0; i < h->n_keys; i++) {
        const struct arg *name = hop_key(h, i);
        snapshot_hold_key(s, s->dbs[h->db], hop_hash(h, i), name->p, name->size, replaces);
    }
}

static __attribute__((noinline)) void hold_for_snapshot(struct shard *s, const struct hop *h) {
    for (const struct hop *last = h + exec_together(h); h <= last; h++) hold_keys(s, h);
}

static void hold_for_member(struct shard *s, const struct member *m) {
    if (!s->snapshot) return;
    for (uint32_t i = 0; i < m->n_intents; i++)
        if (!m->intents[i].whole && m->intents[i].mode == INTENT_WRITE) snapshot_hold_hash(s, m->intents[i].hash);
}

/* The same while it is not: a hop that meets a transaction waits, and its reply comes late; and who waits for what a hop brought is served. What EXEC runs
 * waits, or runs, as one. */
static inline bool waits(struct batch_run *x, struct hop *h) {
    struct batch *b = x->b;
    uint32_t i = (uint32_t)(h - b->hops);
    if (x->together) x->together--;
    else {
        x->together = exec_together(h);
        if (x->s->snapshot) hold_for_snapshot(x->s, h);
        x->put_off = !schedule_is_empty(&x->s->schedule) && hop_must_wait(x->s, h);
        if (x->put_off) {
            if (b->message.from == x->t->id && !b->own[i].conn) record_from(b, x->rest);
            defer_hop(x->s, b, i);
        }
    }
    if (x->put_off) b->ends[i] = b->replies.size;
    return x->put_off;
}

/* Who waits for a key that is there now is served: right after what brought it. */
static inline void serve(struct thread *t, struct shard *s) {
    if (__builtin_expect(s->waits.ready != NULL, 0)) waiting_serve(t, s);
}

static void exec_own_guarded(void *ctx, struct hop *h) {
    struct batch_run *x = ctx;
    if (waits(x, h)) x->b->done = (uint32_t)(h - x->b->hops) + 1;
    else {
        exec_own(x, h);
        if (!x->together) serve(x->t, x->s);
    }
}

static void exec_foreign_guarded(void *ctx, struct hop *h) {
    struct batch_run *x = ctx;
    if (waits(x, h)) return;
    exec_foreign(x, h);
    if (!x->together) serve(x->t, x->s);
}

/* At first nothing is in the way; a hop of the batch that goes on in slices changes that. */
static inline __attribute__((always_inline)) void exec_own_quiet(void *ctx, struct hop *h) {
    if (__builtin_expect(((struct batch_run *)ctx)->guarded, 0)) exec_own_guarded(ctx, h);
    else exec_own(ctx, h);
}

static inline __attribute__((always_inline)) void exec_foreign_quiet(void *ctx, struct hop *h) {
    if (__builtin_expect(((struct batch_run *)ctx)->guarded, 0)) exec_foreign_guarded(ctx, h);
    else exec_foreign(ctx, h);
}

/* A transaction's member, a piece, or a hop that waited or was sliced leaves the shard's order; what it made ready may be taken now. */
void run_leave(struct shard *s, struct member *m) {
    schedule_remove(&s->schedule, m);
    if (__builtin_expect(s->waits.held != NULL, 0)) wait_let_go(s, m);
}

/* A piece that nothing was in the way of, and that has much to do: from here on it has its place in the shard's order. */
static __attribute__((cold)) void lock_local(struct shard *s, struct batch *b) {
    if (!b->member) b->member = course_member(b->task, &b->hops[0]);
    b->member->owner = b;
    b->order = PIECE_RUN_LAST;
    if (!schedule_add(&s->schedule, b->member) || !schedule_tell(&s->schedule, b->member)) abort();
}

/* Runs a piece of a task, whose time and failure the task counts. True: it is done; false: it was sliced, and goes on later. */
static bool run_piece(struct thread *t, struct shard *s, struct batch *b) {
    struct hop *h = &b->hops[0];
    bool sliced = command_by_number(h->row)->flags & CMD_SLICED || (b->owner_only && b->order == PIECE_RUN) || b->goes_on;
    uint64_t start_ns = sliced ? thread_cpu_ns() : 0, start = cycles_now();
    s->now_ms = b->now_ms;
    b->replies.resp = h->resp;
    atomic_store_explicit(&t->running, h->row, memory_order_relaxed);
    if (sliced) memory_slice_begin(s->memory);
    enum hop_result result = h->run(s, h, &b->replies);
    if (sliced) memory_slice_end(s->memory);
    atomic_store_explicit(&t->running, 0, memory_order_relaxed);
    uint64_t cycles = cycles_now() - start;
    b->cycles += cycles;
    if (sliced) slice_add(&t->measure, SLICE_LONG, thread_cpu_ns() - start_ns);
    else slice_add(&t->measure, SLICE_TASK, cycles);
    if (sliced && h->origin) client_memory_aside(t, h->origin, &b->counted, &b->replies, 0);
    if (result == HOP_DONE) {
        if (b->order == PIECE_RUN_LAST) run_leave(s, b->member);
        return true;
    }
    if (b->order == PIECE_LOCAL) lock_local(s, b);
    struct thread *owner = t->server->threads[s->id]; /* a borrower runs what waited here, but no second slice of it */
    b->goes_on = true;
    b->next = NULL;
    if (owner->slices_last) owner->slices_last->next = b;
    else owner->slices = b;
    owner->slices_last = b;
    return false;
}

static void send_back(struct thread *t, struct batch *b) {
    struct thread *to = t->server->threads[b->message.from];
    mailbox_push(&to->returns, &b->message);
    thread_want_wake(t, b->message.from);
}

/* The keys' buckets are on their way before the hop comes. */
static void prefetch_keys(struct shard *s, const struct hop *h) {
    if (h->flags & HOP_NO_KEY || s->prefetch == PREFETCH_NONE) return;
    key_prefetch_group(s, h, 0);
    s->stats.scheduled_ahead += h->n_keys < HOP_GROUP ? h->n_keys : HOP_GROUP;
}

/* A piece that is no part of a transaction may run unless it meets one. Else it waits in the shard's order, and lets go when it has run. */
static bool may_run_local(struct shard *s, struct batch *b) {
    if (__builtin_expect(schedule_is_empty(&s->schedule) && !s->snapshot, 1)) return true;
    b->member = course_member(b->task, &b->hops[0]);
    hold_for_member(s, b->member);
    if (schedule_is_empty(&s->schedule)) return true;
    b->member->owner = b;
    b->order = PIECE_RUN_LAST;
    schedule_add(&s->schedule, b->member);
    return schedule_tell(&s->schedule, b->member);
}

/* Does what a piece asks for. True: it goes back. */
static bool run_order(struct thread *t, struct shard *s, struct batch *b) {
    switch ((enum piece_order)b->order) {
    case PIECE_HOP: return run_piece(t, s, b);
    case PIECE_LOCAL: return may_run_local(s, b) && run_piece(t, s, b);
    case PIECE_SCHEDULE:
        hold_for_member(s, b->member);
        b->refused = !schedule_add(&s->schedule, b->member);
        if (!b->refused) prefetch_keys(s, &b->hops[0]);
        return true;
    case PIECE_LET_GO: run_leave(s, b->member); return true;
    case PIECE_RUN:
    case PIECE_RUN_LAST: b->member->owner = b; return schedule_tell(&s->schedule, b->member) && run_piece(t, s, b);
    }
    abort();
}

static void piece_goes_back(struct thread *t, struct batch *b) {
    if (b->message.from == t->id) task_piece_done(t, b);
    else send_back(t, b);
}

/* What EXEC runs together. */
static void run_late_together(struct batch_run *x, struct hop *head, uint32_t n, struct reply *r) {
    for (struct hop *h = head; h <= head + n; h++) run_into(x, h, r);
    atomic_store_explicit(&x->t->running, 0, memory_order_relaxed);
}

/* A reply that is being made, and that nobody will be sent: it is dropped, and what it took. Only of what only reads: who changes something
 * does so to the end. */
static bool give_up_reply(struct batch_run *x, struct hop *h, struct deferred *d) {
    const struct conn *c = h->origin;
    const struct command *row = command_by_number(h->row);
    if (!d->sliced || !(row->flags & CMD_READONLY) || !atomic_load_explicit(&c->gone, memory_order_relaxed)) return false;
    if (row->on_drop) row->on_drop(x->s, h, &d->reply);
    h->state = 0;
    reply_cut(x->s, &d->reply, 0);
    reply_drop(&d->reply);
    return true;
}

/* False: there is more to do. */
static bool run_late_hop(struct batch_run *x, struct hop *h, struct deferred *d) {
    struct thread *t = x->t;
    if (give_up_reply(x, h, d)) return true;
    uint64_t start = cycles_now(), start_ns = d->sliced ? thread_cpu_ns() : 0;
    d->reply.resp = h->resp;
    t->measure.commands[h->row].calls += !d->sliced;
    atomic_store_explicit(&t->running, h->row, memory_order_relaxed);
    if (d->sliced) memory_slice_begin(x->s->memory);
    enum hop_result result = h->run(x->s, h, &d->reply);
    if (d->sliced) memory_slice_end(x->s->memory);
    atomic_store_explicit(&t->running, 0, memory_order_relaxed);
    d->cycles += cycles_now() - start;
    if (d->sliced) slice_add(&t->measure, SLICE_LONG, thread_cpu_ns() - start_ns);
    const struct command *row = command_by_number(h->row);
    if (result == HOP_AGAIN) h->state = hop_state_next(h);
    if (d->sliced)
        client_memory_aside(t, h->origin, &d->counted, &d->reply, result == HOP_AGAIN && row->held_bytes ? row->held_bytes(h) : 0);
    if (result == HOP_AGAIN) {
        go_on_later(t, x->s, d);
        return false;
    }
    after_hop(x, h, &d->reply, 0);
    if (t->measure.weight || h->flags & HOP_TIMED || d->sliced) count_time(x, h, d->cycles);
    return true;
}

/* One slice, or all of it. True: it is done, and its reply on its way. */
static bool run_late(struct thread *t, struct shard *s, struct deferred *d) {
    struct batch *b = d->batch;
    struct hop *h = &b->hops[d->index];
    struct batch_run x = {.t = t, .s = s, .b = b};
    uint32_t together = exec_together(h);
    s->now_ms = b->now_ms;
    if (together) run_late_together(&x, h, together, &d->reply);
    else if (!run_late_hop(&x, h, d)) return false;
    d->slow = x.slow;
    run_leave(s, &d->member);
    serve(t, s);
    /* By the mailbox even if it is ours: the batch, which another thread may have run, could still be on its way there, and comes first. */
    uint32_t from = b->message.from;
    mailbox_push(&t->server->threads[from]->returns, &d->message);
    thread_want_wake(t, from);
    return true;
}

/* Runs what need not wait any more. */
static __attribute__((cold)) void run_ready(struct thread *t, struct shard *s) {
    struct member *m;
    while ((m = schedule_next(&s->schedule))) {
        if (m->local && ((struct message *)m->owner)->kind == MESSAGE_LATE) {
            run_late(t, s, m->owner);
            continue;
        }
        struct batch *b = m->owner;
        bool done = run_piece(t, s, b);
        serve(t, s);
        if (done) piece_goes_back(t, b);
    }
}

static inline void after_piece(struct thread *t, struct shard *s) {
    if (s->schedule.ready) run_ready(t, s);
}

void run_after_snapshot(struct thread *t) {
    while (snapshot_let_go(t->shard)) after_piece(t, t->shard);
}

/* A batch of t's own; rest: what comes behind it. */
static void run_own(struct thread *t, struct shard *s, struct batch *b, struct batch *rest) {
    if (b->task) {
        bool done = run_order(t, s, b);
        serve(t, s);
        if (done) task_piece_done(t, b);
        after_piece(t, s);
        return;
    }
    struct batch_run x = {.t = t, .s = s, .b = b, .rest = rest};
    s->now_ms = b->now_ms;
    uint64_t start = cycles_now();
    if (__builtin_expect(is_quiet(s), 1)) batch_run(s, b->hops, b->n, false, exec_own_quiet, &x);
    else {
        if (!b->recorded && !schedule_is_empty(&s->schedule)) record_from(b, rest);
        batch_run(s, b->hops, b->n, false, exec_own_guarded, &x);
    }
    slice_add(&t->measure, SLICE_BATCH, cycles_now() - start);
    atomic_store_explicit(&t->running, 0, memory_order_relaxed);
    if (!b->n_late) b->tick->open--;
}

static void run_foreign(struct thread *t, struct shard *s, struct batch *b) {
    t->stats.batches_taken++;
    t->stats.hops_taken += b->n;
    if (b->task) {
        bool done = run_order(t, s, b);
        serve(t, s);
        if (done) send_back(t, b);
        after_piece(t, s);
        return;
    }
    struct batch_run x = {.t = t, .s = s, .b = b};
    s->now_ms = b->now_ms;
    uint64_t start = cycles_now();
    if (__builtin_expect(is_quiet(s), 1)) batch_run(s, b->hops, b->n, true, exec_foreign_quiet, &x);
    else batch_run(s, b->hops, b->n, true, exec_foreign_guarded, &x);
    slice_add(&t->measure, SLICE_BATCH, cycles_now() - start);
    atomic_store_explicit(&t->running, 0, memory_order_relaxed);
    b->slow = x.slow;
    send_back(t, b);
}

/* What is queued meanwhile (the next wave of a long command) is for the next flush, so that others have their turn. */
void run_own_batches(struct thread *t, struct thread *of, struct batch *first) {
    while (first) {
        struct batch *b = first;
        first = b->next;
        b->next = NULL;
        bool piece = b->task; /* which may be another's when it has run */
        run_own(t, of->shard, b, first);
        if (!piece) batch_link_to_tick(b);
    }
}

void run_message(struct thread *t, struct thread *of, struct message *m) {
    if (m->kind == MESSAGE_RELEASE) outbox_release_arrived(of->shard, m);
    else if (m->kind == MESSAGE_UNWATCH) multi_unwatch_arrived(of->shard, m);
    else if (m->kind == MESSAGE_FORGET) {
        waiting_forget_arrived(of->shard, m);
        serve(t, of->shard); /* it may have stood before others */
    } else if (m->from == t->id) run_own(t, of->shard, (struct batch *)m, NULL);
    else run_foreign(t, of->shard, (struct batch *)m);
}

static void run_held(struct thread *t, struct batch *b) {
    struct hop *h = &b->hops[0];
    uint64_t start = cycles_now();
    t->shard->now_ms = b->now_ms;
    b->replies.resp = h->resp;
    hop_run_whole(t->shard, h, &b->replies);
    b->cycles += cycles_now() - start;
}

/* It knows of its thread by the shard's number. */
static void run_beside(struct thread *t, struct batch *b) {
    uint64_t start = cycles_now();
    b->replies.resp = b->hops[0].resp;
    hop_run_whole(t->shard, &b->hops[0], &b->replies);
    b->cycles += cycles_now() - start;
}

static void send_to_thread(struct thread *t, struct batch *b, enum message_kind kind) {
    b->message.kind = kind;
    b->message.armed = NULL; /* nothing else of this turn is with it */
    mailbox_push(&t->server->threads[b->to]->returns, &b->message);
    thread_want_wake(t, b->to);
}

void run_send_held(struct thread *t, struct batch *b) {
    if (b->to == t->id) run_held(t, b);
    else send_to_thread(t, b, MESSAGE_HELD);
}

void run_send_beside(struct thread *t, struct batch *b) {
    if (b->to == t->id) run_beside(t, b);
    else send_to_thread(t, b, MESSAGE_BESIDE);
}

static void goes_home(struct thread *t, struct batch *b) {
    b->message.kind = MESSAGE_BATCH;
    b->message.armed = &t->server->threads[b->message.from]->armed;
    b->message.sequence = 0;
    send_back(t, b);
}

/* Of a coordinator that holds this thread's shard. */
void run_held_arrived(struct thread *t, struct batch *b) {
    run_held(t, b);
    goes_home(t, b);
}

void run_beside_arrived(struct thread *t, struct batch *b) {
    run_beside(t, b);
    goes_home(t, b);
}

/* The next slice of the first of the plain hops that go on in slices. */
static void run_late_slice(struct thread *t) {
    struct deferred *d = t->late_slices;
    t->late_slices = d->next;
    if (run_late(t, t->shard, d)) after_piece(t, t->shard);
}

static void run_serving_slice(struct thread *t) {
    if (!waiting_serve_slice(t)) return;
    serve(t, t->shard);
    after_piece(t, t->shard);
}

/* The next slice of a piece, which stands at this link of the list. */
static void run_piece_slice(struct thread *t, struct batch **link, struct batch *before) {
    struct batch *b = *link;
    *link = b->next;
    if (t->slices_last == b) t->slices_last = before;
    b->next = NULL;
    bool done = run_piece(t, t->shard, b);
    serve(t, t->shard);
    if (done) piece_goes_back(t, b);
    after_piece(t, t->shard);
}

/* Of those that are no part of a transaction, which has ended by now, but have intents. False: there is none. */
static bool run_local_piece_slice(struct thread *t) {
    struct batch **link = &t->slices, *before = NULL;
    for (; *link; before = *link, link = &(*link)->next) {
        if ((*link)->order != PIECE_RUN_LAST) continue;
        run_piece_slice(t, link, before);
        return true;
    }
    return false;
}

/* False: there is nothing to be run. */
static bool run_slice_out(struct thread *t) {
    if (t->late_slices) run_late_slice(t);
    else if (t->serving) run_serving_slice(t);
    else return run_local_piece_slice(t);
    return true;
}

/* What waits until a snapshot has written a value does not wait longer; what runs then may go on in slices. */
void run_slices_out(struct thread *t) {
    do {
        snapshot_hurry(t->shard);
        run_after_snapshot(t);
    } while (run_slice_out(t));
}

/* Whether one of the next slices is of a command that writes. */
static bool slices_write(const struct thread *t) {
    const struct deferred *d = t->late_slices;
    return t->serving || (d && command_by_number(d->batch->hops[d->index].row)->flags & CMD_WRITE) ||
        (t->slices && command_by_number(t->slices->hops[0].row)->flags & CMD_WRITE);
}

bool run_slices(struct thread *t) {
    if (!thread_holds(t)) return false;
    if (!thread_has_slices(t) || !slices_write(t)) regions_wait_no_more(t);
    else if (regions_wait(t)) return false;
    if (t->late_slices) run_late_slice(t);
    if (t->serving) run_serving_slice(t);
    if (t->slices) run_piece_slice(t, &t->slices, NULL);
    return thread_has_slices(t);
}
