/* The thread: see worker.h. */
#include "tools/darter-bench/worker.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "io/clock.h"
#include "tools/darter-bench/connection.h"

#define SECOND_NS 1000000000ull
#define DRAIN_NS (DRAIN_S * SECOND_NS)
/* How long connecting may take, all of it. */
#define CONNECT_NS (30 * SECOND_NS)
/* Connections that are opened at a time: few enough for any listener's queue. */
#define CONNECTING_MAX 32
#define RECEIVE_SIZE 16384
#define RECEIVE_COUNT 256

void run_fail(struct run *run, struct proactor *self, const char *format, ...) {
    if (atomic_exchange(&run->failing, 1)) return;
    va_list list;
    va_start(list, format);
    vsnprintf(run->failure, sizeof run->failure, format, list);
    va_end(list);
    atomic_store(&run->failed, 1);
    proactor_wake(self, run->main);
}

/* ---- set-up ---- */

int worker_init(struct worker *w, struct run *run) {
    const struct options *o = run->options;
    w->run = run;
    w->connection_count = (uint32_t)o->connections;
    w->ratio_all = o->ratio_set + o->ratio_get;
    struct keys_options keys = {.distribution = o->key_dist,
        .minimum = o->key_minimum,
        .maximum = o->key_maximum,
        .deviation = o->key_stddev,
        .alpha = o->zipf_alpha,
        .slice = w->number,
        .slices = run->workers};
    int error = source_init(&w->source, o->seed + w->number, &keys, o->key_prefix, o->size_min, o->size_max, o->random_data, o->ascii);
    w->connections = aligned_alloc(64, w->connection_count * sizeof *w->connections);
    w->dirty = calloc(w->connection_count, sizeof *w->dirty);
    if (error || !w->connections || !w->dirty) return -ENOMEM;
    memset(w->connections, 0, w->connection_count * sizeof *w->connections);
    size_t longest =
        run->commands[OP_SET].size_max > run->commands[OP_GET].size_max ? run->commands[OP_SET].size_max : run->commands[OP_GET].size_max;
    size_t greeting = strlen(o->user) + strlen(o->password) + 128;
    for (uint32_t i = 0; i < w->connection_count; i++) {
        struct connection *c = &w->connections[i];
        c->number = i;
        /* Writing goes on while less than BUFFER_SIZE is there: one command more fits. */
        c->buffer = malloc(BUFFER_SIZE + (longest > greeting ? longest : greeting));
        if (!c->buffer) return -ENOMEM;
    }
    return 0;
}

void worker_finish(struct worker *w) {
    for (uint32_t i = 0; w->connections && i < w->connection_count; i++) {
        free(w->connections[i].buffer);
        free(w->connections[i].ring);
    }
    free(w->connections);
    free(w->dirty);
    source_finish(&w->source);
    if (w->proactor) proactor_close(w->proactor);
}

/* ---- events ---- */

static void take(struct worker *w, const struct event *ev) {
    struct connection *c = (struct connection *)ev->stream;
    switch (ev->kind) {
    case EV_CONNECTED:
        if (!w->closing) connection_connected(w, c, ev->result);
        break;
    case EV_RECV:
        if (!w->closing) connection_received(w, c, ev->data, ev->size);
        proactor_give_buffer(w->proactor, ev->buffer);
        break;
    case EV_CLOSED:
        if (!w->closing) connection_lost(w, c, ev->result);
        break;
    case EV_SENT:
        if (w->closing) break;
        if (ev->result < 0) connection_lost(w, c, ev->result);
        else if (w->start_ns) connection_mark(w, c);
        break;
    case EV_REMOVED: c->removed = true; break;
    default: break;
    }
}

static bool stopped(const struct worker *w) { return atomic_load(&w->run->stopping); }

static void turn(struct worker *w, uint64_t deadline_ns) {
    struct event ev;
    proactor_wait(w->proactor, deadline_ns);
    while (proactor_next(w->proactor, &ev)) take(w, &ev);
}

/* ---- connecting ---- */

/* False: it was in vain, or the run is stopped. */
static bool connect_all(struct worker *w) {
    uint64_t limit_ns = now_monotonic_ns() + CONNECT_NS;
    while (w->ready < w->connection_count) {
        if (stopped(w)) return false;
        while (w->connecting < CONNECTING_MAX && w->next_to_connect < w->connection_count) {
            if (!connection_start(w, &w->connections[w->next_to_connect])) return false;
            w->next_to_connect++;
        }
        turn(w, limit_ns);
        if (w->ready < w->connection_count && now_monotonic_ns() >= limit_ns) {
            run_fail(w->run, w->proactor, "%s did not answer for %llu s (%u of %u connections greeted)", w->run->address_text,
                CONNECT_NS / SECOND_NS, w->ready, w->connection_count);
            return false;
        }
    }
    return true;
}

static bool wait_for_start(struct worker *w) {
    atomic_fetch_add(&w->run->ready, 1);
    proactor_wake(w->proactor, w->run->main);
    for (;;) {
        /* In this order: main stops after it started. Once it started it waits for the last report of every worker, stopped or not. */
        bool stop = stopped(w);
        w->start_ns = atomic_load(&w->run->start_ns);
        if (w->start_ns) return true;
        if (stop) return false;
        turn(w, UINT64_MAX);
    }
}

/* ---- reports ---- */

static void hand_over(struct worker *w, uint64_t now_ns, bool last) {
    struct report *r = w->reports;
    while (r < w->reports + REPORTS && atomic_load_explicit(&r->busy, memory_order_acquire)) r++;
    /* Main has them all still: the span goes on. The last one must get through, so one is kept for it. */
    if (r >= w->reports + REPORTS - !last) return;
    r->second = (w->report_ns - w->start_ns) / SECOND_NS - 1;
    r->until_ns = now_ns - w->start_ns;
    r->last = last;
    r->active = w->working;
    r->lost = w->lost;
    r->done_min = UINT64_MAX;
    r->done_max = 0;
    for (uint32_t i = 0; i < w->connection_count; i++) {
        const struct connection *c = &w->connections[i];
        if (c->answered < r->done_min) r->done_min = c->answered;
        if (c->answered > r->done_max) r->done_max = c->answered;
        /* A backlog that only waits is one too. */
        uint64_t pending = (c->due > c->sent ? c->due : c->sent) - c->answered;
        if (connection_is_working(c) && pending > w->stats.pending_max) w->stats.pending_max = pending;
    }
    r->stats = w->stats;
    stats_clear(&w->stats);
    atomic_store_explicit(&r->busy, true, memory_order_relaxed);
    r->message = (struct message){.from = w->number};
    mailbox_push(&w->run->reports, &r->message);
    proactor_wake(w->proactor, w->run->main);
}

/* ---- the load ---- */

uint64_t worker_slot_ns(const struct worker *w, uint64_t slot) {
    return w->first_slot_ns + slot / w->rate * SECOND_NS + slot % w->rate * SECOND_NS / w->rate;
}

static void plan(struct worker *w) {
    const struct options *o = w->run->options;
    w->report_ns = w->start_ns + SECOND_NS;
    w->end_ns = o->test_time_s ? w->start_ns + o->test_time_s * SECOND_NS : UINT64_MAX;
    uint64_t qps = (uint64_t)(o->qps < 0 ? -o->qps : o->qps);
    w->rate = qps * w->connection_count;
    /* Threads take turns within the time of one request. */
    if (qps) w->first_slot_ns = w->start_ns + SECOND_NS * w->number / w->run->workers / w->rate;
    w->slots = o->test_time_s || o->requests > UINT64_MAX / w->connection_count ? UINT64_MAX : o->requests * w->connection_count;
    for (uint32_t i = 0; i < w->connection_count; i++) connection_mark(w, &w->connections[i]);
}

/* Makes due what is due by now. Returns when the next request is. */
static uint64_t follow_schedule(struct worker *w, uint64_t now_ns) {
    uint64_t until_ns = now_ns < w->end_ns ? now_ns : w->end_ns - 1, next_ns = UINT64_MAX;
    while (w->slot < w->slots && (next_ns = worker_slot_ns(w, w->slot)) <= until_ns) {
        struct connection *c = &w->connections[w->slot++ % w->connection_count];
        next_ns = UINT64_MAX;
        if (!connection_is_working(c)) continue;
        uint64_t pending = ++c->due - c->answered;
        if (pending > w->stats.pending_max) w->stats.pending_max = pending;
        connection_mark(w, c);
    }
    return next_ns;
}

static void send_all(struct worker *w) {
    uint32_t count = w->dirty_count;
    w->dirty_count = 0; /* what is marked while sending comes again in the next turn */
    for (uint32_t i = 0; i < count; i++) {
        struct connection *c = w->dirty[i];
        c->dirty = false;
        connection_send(w, c);
    }
}

/* Nothing new from here on; what is on the way is waited for. */
static void end_load(struct worker *w) {
    w->over = true;
    for (uint32_t i = 0; i < w->connection_count; i++) {
        struct connection *c = &w->connections[i];
        if (c->due > c->sent) {
            w->never_sent += c->due - c->sent;
            c->due = c->sent;
        }
        if (c->answered == c->sent) connection_finish(w, c);
    }
}

static void load(struct worker *w) {
    uint64_t drained_ns = UINT64_MAX, now_ns = now_monotonic_ns();
    plan(w);
    while (w->working && !stopped(w) && now_ns < drained_ns) {
        if (!w->over && now_ns >= w->end_ns) {
            if (w->rate) follow_schedule(w, now_ns); /* what was due before the end, since the last turn */
            send_all(w);
            end_load(w);
            drained_ns = w->end_ns + DRAIN_NS;
            continue;
        }
        uint64_t wake_ns = w->over ? drained_ns : w->end_ns;
        if (w->rate && !w->over) {
            uint64_t next_ns = follow_schedule(w, now_ns);
            if (next_ns < wake_ns) wake_ns = next_ns;
        }
        send_all(w);
        if (now_ns >= w->report_ns) {
            hand_over(w, now_ns, false);
            w->report_ns += (now_ns - w->report_ns) / SECOND_NS * SECOND_NS + SECOND_NS;
        }
        if (w->report_ns < wake_ns) wake_ns = w->report_ns;
        turn(w, w->dirty_count ? 0 : wake_ns);
        now_ns = now_monotonic_ns();
    }
    for (uint32_t i = 0; i < w->connection_count; i++)
        if (connection_is_working(&w->connections[i])) w->never_answered += w->connections[i].sent - w->connections[i].answered;
    w->wall_ns = now_ns - w->start_ns;
    hand_over(w, now_ns, true);
}

/* ---- the thread ---- */

static void hold_connections(struct worker *w) {
    uint64_t end_ns = w->start_ns + w->run->options->test_time_s * SECOND_NS;
    while (!stopped(w) && now_monotonic_ns() < end_ns) turn(w, end_ns);
    w->report_ns = w->start_ns + SECOND_NS;
    hand_over(w, now_monotonic_ns(), true);
}

static void close_all(struct worker *w) {
    uint32_t open = w->next_to_connect, removed = 0;
    w->closing = true;
    for (uint32_t i = 0; i < open; i++) proactor_remove(w->proactor, &w->connections[i].stream);
    while (removed < open) {
        if (w->connections[removed].removed) removed++;
        else turn(w, UINT64_MAX);
    }
}

void *worker_main(void *arg) {
    struct worker *w = arg;
    const char *why;
    struct proactor_options options = {.kind = w->run->options->io, .buffer_size = RECEIVE_SIZE, .buffer_count = RECEIVE_COUNT};
    prctl(PR_SET_TIMERSLACK, 1); /* ns: requests go out at their time */
    int error = proactor_open(&w->proactor, &options, &why);
    if (error) {
        run_fail(w->run, NULL, "cannot talk to the kernel: %s (%s)", why ? why : "no proactor", strerror(-error));
        return NULL;
    }
    atomic_store(&w->opened, w->proactor);
    if (connect_all(w) && wait_for_start(w)) {
        uint64_t cpu_ns = thread_cpu_ns();
        if (w->run->options->connect_only) hold_connections(w);
        else load(w);
        w->cpu_ns = thread_cpu_ns() - cpu_ns;
    }
    close_all(w);
    return NULL;
}
