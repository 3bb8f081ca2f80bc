#include "server/thread.h"

#include <errno.h>
#include <mimalloc.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/socket.h"
#include "server/advice.h"
#include "server/client_memory.h"
#include "server/conn.h"
#include "server/crash.h"
#include "server/latency.h"
#include "server/lend.h"
#include "server/listeners.h"
#include "server/log.h"
#include "server/migrate.h"
#include "server/monitor.h"
#include "server/outbox.h"
#include "server/pause.h"
#include "server/regions.h"
#include "server/run.h"
#include "server/saving.h"
#include "server/service.h"
#include "server/task.h"
#include "server/waiting.h"
#include "server/watchdog.h"
#include "shard/snapshot.h"

/* A slice of housekeeping shall take 100 us at most: it looks at the clock every 10 us or so, and at the monotonic one, since reading CPU time costs a
 * system call. */
#define KEEP_SLICE_NS 80000u
#define SAVE_POINTS_NS 1000000000u /* thread 0 looks at the save points at least so often */
#define GROWTH_SURE_NS 10000u
#define GROWTH_CHECK_NS 1000000000u /* between memory_check_growth's */
#define KEEP_TOKENS_MAX_NS 2000000
#define KEEP_DEBT_MAX_NS 100000000
#define WALKED_KEYS_SURE 64u /* so many keys tell what one costs */
#define SCRATCH_KEPT (1u << 20)
#define ARGV_KEPT 4096u

/* ---- ticks ---- */

struct tick *thread_tick(struct thread *t) {
    if (t->tick) return t->tick;
    if (t->tick_next - t->tick_first == TICKS)
        return t->tick = &t->ticks[(t->tick_next - 1) % TICKS]; /* full: the newest one lives longer */
    struct tick *k = t->tick = &t->ticks[t->tick_next++ % TICKS];
    k->batches = NULL;
    k->open = 0;
    return k;
}

void *array_with_room(void *array, uint32_t n, uint32_t *capacity, size_t size) {
    if (n < *capacity) return array;
    *capacity = *capacity ? *capacity * 2 : 16;
    void *more = mi_realloc(array, *capacity * size);
    if (!more) abort();
    return more;
}

void tick_add_memory(struct tick *k, void *p) {
    k->memory = array_with_room(k->memory, k->n_memory, &k->memory_capacity, sizeof *k->memory);
    k->memory[k->n_memory++] = p;
}

void tick_add_blob(struct tick *k, struct arg *a) {
    k->blobs = array_with_room(k->blobs, k->n_blobs, &k->blobs_capacity, sizeof *k->blobs);
    k->blobs[k->n_blobs++] = a;
}

void tick_add_buffer(struct tick *k, uint32_t buffer) {
    k->buffers = array_with_room(k->buffers, k->n_buffers, &k->buffers_capacity, sizeof *k->buffers);
    k->buffers[k->n_buffers++] = buffer;
}

void tick_pin_block(struct tick *k, struct block *b) {
    b->pins++;
    k->blocks = array_with_room(k->blocks, k->n_blocks, &k->blocks_capacity, sizeof *k->blocks);
    k->blocks[k->n_blocks++] = b;
}

/* ---- connections ---- */

void thread_add_conn(struct thread *t, struct conn *c) {
    c->next = t->conns;
    if (t->conns) t->conns->previous = c;
    t->conns = c;
    if (t->n_free_slots) c->slot = t->free_slots[--t->n_free_slots];
    else {
        uint32_t capacity = t->slots_capacity;
        t->slots = array_with_room(t->slots, t->n_slots, &t->slots_capacity, sizeof *t->slots);
        t->slots[t->n_slots++] = NULL;
        c->slot = t->n_slots - 1;
        if (capacity != t->slots_capacity && !(t->free_slots = mi_realloc(t->free_slots, t->slots_capacity * sizeof *t->free_slots)))
            abort();
    }
    t->slots[c->slot] = c;
}

/* Its place may be taken by the next one. */
void thread_remove_conn(struct thread *t, struct conn *c) {
    if (c->previous) c->previous->next = c->next;
    else t->conns = c->next;
    if (c->next) c->next->previous = c->previous;
    monitor_leave(t, c);
    t->slots[c->slot] = NULL;
    t->free_slots[t->n_free_slots++] = c->slot;
    pause_forget(t, c);
}

void conn_mark_slow(struct thread *t, struct conn *c) {
    t->dirty = array_with_room(t->dirty, t->n_dirty, &t->dirty_capacity, sizeof *t->dirty);
    t->dirty[t->n_dirty++] = c;
    c->dirty = true;
}

void conn_resume_later(struct thread *t, struct conn *c) {
    if (c->on_resume) return;
    c->on_resume = true;
    t->resume = array_with_room(t->resume, t->n_resume, &t->resume_capacity, sizeof *t->resume);
    t->resume[t->n_resume++] = c;
}

void thread_take_config(struct thread *t) {
    const struct config *c = t->config = config_current();
    atomic_store_explicit(&t->config_version, c->version, memory_order_release);
    t->next_timeout_ns = t->now_ns;
    if (!t->id) {
        watchdog_set(c->watchdog_period_ms);
        service_oom_score(c->oom_score_adj, atoi(c->oom_score_adj_values));
        if (t->proactor) listeners_follow(t->proactor);
    }
    int64_t slow_us = c->slowlog_slower_us, event_us = c->latency_monitor_threshold_ms;
    event_us = !event_us ? -1 : event_us < INT64_MAX / 1000 ? event_us * 1000 : INT64_MAX;
    if (slow_us < 0 || (event_us >= 0 && event_us < slow_us)) slow_us = event_us;
    double cycles = (double)slow_us * 1000 / measure_ns_per_cycle();
    t->measure.slow_cycles = slow_us < 0 || cycles >= (double)INT64_MAX ? UINT64_MAX : (uint64_t)cycles;
    client_memory_take_limit(t);
}

uint64_t threads_oldest_config(void) {
    uint64_t oldest = UINT64_MAX;
    for (uint32_t i = 0; i < server.n_threads; i++) {
        uint64_t version = atomic_load_explicit(&server.threads[i]->config_version, memory_order_acquire);
        if (version < oldest) oldest = version;
    }
    return oldest;
}

/* ---- waking ---- */

void thread_want_wake(struct thread *t, uint32_t to) {
    if (to != t->id) t->wanted[to / 64] |= 1ull << to % 64;
}

static void wake(struct thread *t) {
    bool fenced = false;
    for (uint32_t w = 0; w <= (t->n_threads - 1) / 64; w++) {
        while (t->wanted[w]) {
            uint32_t to = w * 64 + (uint32_t)__builtin_ctzll(t->wanted[w]);
            t->wanted[w] &= t->wanted[w] - 1;
            if (!fenced) mailbox_fence(); /* what was pushed is visible before asleep is read */
            fenced = true;
            struct thread *o = t->server->threads[to];
            if (!mailbox_must_wake(&o->asleep)) continue;
            t->stats.wakes++;
            proactor_wake(t->proactor, o->proactor);
        }
    }
}

void thread_wake_others(struct thread *t) {
    mailbox_fence();
    for (uint32_t i = 0; i < t->n_threads; i++) {
        struct thread *o = t->server->threads[i];
        if (i == t->id || !mailbox_must_wake(&o->asleep)) continue;
        t->stats.wakes++;
        proactor_wake(NULL, o->proactor); /* not with what this one submits at the end of its turn */
    }
}

/* ---- accepting ---- */

static void refuse(int fd, const char *text) {
    if (send(fd, text, strlen(text), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) { /* it is gone: nothing to tell */
    }
    close(fd);
}

static void deal(struct thread *t, int fd, bool unix_socket) {
    if (atomic_load_explicit(&t->server->clients, memory_order_relaxed) >= (uint64_t)t->config->maxclients) {
        t->stats.rejected++;
        refuse(fd, "-ERR max number of clients reached\r\n");
        return;
    }
    atomic_fetch_add_explicit(&t->server->clients, 1, memory_order_relaxed);
    uint32_t to = t->round_robin++ % t->n_threads;
    if (to == t->id) {
        conn_open(t, fd, unix_socket);
        return;
    }
    struct note *n = mi_malloc(sizeof *n);
    if (!n) abort();
    *n = (struct note){.message = {.kind = MESSAGE_ADOPT, .from = t->id}, .value = (uint64_t)fd << 1 | unix_socket};
    mailbox_push(&t->server->threads[to]->returns, &n->message);
    thread_want_wake(t, to);
}

/* ---- the tick ---- */

static void take_events(struct thread *t) {
    struct event e;
    while (proactor_next(t->proactor, &e)) {
        struct conn *c = (struct conn *)e.stream;
        if (__builtin_expect(e.stream && e.stream->kind == STREAM_MIGRATE, 0)) {
            migrate_event(t, &e);
            continue;
        }
        switch (e.kind) {
        case EV_RECV:
            t->stats.reads++;
            conn_received(t, c, e.data, e.size, e.buffer);
            if (__builtin_expect(t->flush_each, 0)) outbox_flush(t);
            break;
        case EV_SENT: conn_sent(t, c, e.result); break;
        case EV_DIRECT:
            t->stats.reads++;
            conn_received_direct(t, c, e.size);
            break;
        case EV_CLOSED: conn_ended(t, c, e.result); break;
        case EV_REMOVED: conn_removed(t, c); break;
        case EV_ACCEPT:
            if (e.result >= 0) deal(t, e.result, e.tag);
            else if (e.result != -EINVAL) /* shut: listeners_follow() is about to give it up */
                log_line(LOG_WARNING_LEVEL, "Accepting client connection: %s", strerror(-e.result));
            break;
        case EV_WAKE:
        case EV_FD:
        case EV_CONNECTED: break;
        }
    }
}

/* Goes on with connections whose input waits. Those that ask again in the meantime are for the next tick. */
static void resume(struct thread *t) {
    uint32_t n = t->n_resume;
    for (uint32_t i = 0; i < n; i++) {
        struct conn *c = t->resume[i];
        c->on_resume = false;
        conn_resume(t, c);
    }
    memmove(t->resume, t->resume + n, (t->n_resume - n) * sizeof *t->resume);
    t->n_resume -= n;
}

static void keep_measure(struct thread *t, uint64_t spent_ns, bool more) {
    int64_t threshold_ms = t->config->latency_monitor_threshold_ms;
    if (spent_ns > t->stats.longest_keep_ns) t->stats.longest_keep_ns = spent_ns;
    t->stats.keep_ns += spent_ns;
    t->stats.keep_unfinished += more;
    slice_add(&t->measure, SLICE_KEEP, spent_ns);
    if (__builtin_expect(threshold_ms && (int64_t)spent_ns / 1000000 >= threshold_ms, 0))
        latency_add(&t->measure, LATENCY_EXPIRE_CYCLE, t->now_ms / 1000, (uint32_t)(spent_ns / 1000000));
}

/* What was spent since the last call on a snapshot's images of what was about to change, by what a key costs its walk. */
static uint64_t images_cost_ns(struct thread *t) {
    const struct snapshot_stats *x = snapshot_stats(t->shard);
    if (!x || x->images < t->images_seen) t->images_seen = 0; /* another snapshot */
    if (!x) return 0;
    uint64_t n = x->images - t->images_seen;
    t->images_seen = x->images;
    return n * t->walked_key_ns;
}

/* What housekeeping may spend while there is other work: its share of the time that has passed. What a snapshot costs elsewhere is taken from it: images, and the thread that
 * writes its file, which may well run on the CPU of one of the threads that fill it. Images leave a quarter of it, as expiry and freeing must go on. */
static void keep_gain(struct thread *t) {
    uint64_t writer_ns = saving_writer_ns();
    int64_t gained = (int64_t)((t->now_ns - t->keep_last_ns) * (uint64_t)t->config->housekeeping_percent / 100);
    int64_t images = (int64_t)images_cost_ns(t);
    t->keep_tokens_ns +=
        gained - (int64_t)((writer_ns - t->writer_seen_ns) / t->n_threads) - (images < gained / 4 * 3 ? images : gained / 4 * 3);
    if (t->keep_tokens_ns > KEEP_TOKENS_MAX_NS) t->keep_tokens_ns = KEEP_TOKENS_MAX_NS;
    if (t->keep_tokens_ns < -KEEP_DEBT_MAX_NS) t->keep_tokens_ns = -KEEP_DEBT_MAX_NS;
    t->keep_last_ns = t->now_ns;
    t->writer_seen_ns = writer_ns;
}

static uint64_t keys_written(const struct shard *s) {
    const struct snapshot_stats *x = snapshot_stats(s);
    return x ? x->keys : 0;
}

/* How many keys a slice has written, and what it took. */
static void count_walked(struct thread *t, uint64_t written, uint64_t before, uint64_t spent_ns) {
    if (written <= before) return;
    t->walked_keys += written - before;
    t->walked_ns += spent_ns;
    if (t->walked_keys < WALKED_KEYS_SURE) return;
    t->walked_key_ns = t->walked_ns / t->walked_keys;
    t->walked_keys = t->walked_ns = 0;
}

/* Housekeeping in slices: a share of the time when there is other work, all of it when there is none. True: there is more to do at once. */
static bool keep(struct thread *t, bool busy) {
    if (!thread_holds(t)) return t->mine && saving_work_standing(t->shard);
    if (shard_next_due(t->shard) > t->now_ms) return false;
    bool limited = busy && !(t->shard->snapshot && saving_is_urgent());
    if (limited) {
        keep_gain(t);
        if (t->keep_tokens_ns < (int64_t)KEEP_SLICE_NS) return true;
    } else {
        t->writer_seen_ns = saving_writer_ns();
        images_cost_ns(t);
    }
    uint64_t start_ns = thread_cpu_ns(), before = keys_written(t->shard);
    bool more = shard_work(t->shard, t->now_ms, KEEP_SLICE_NS, now_monotonic_ns);
    uint64_t spent_ns = thread_cpu_ns() - start_ns;
    keep_measure(t, spent_ns, more);
    count_walked(t, keys_written(t->shard), before, spent_ns);
    if (t->shard->snapshot) {
        run_after_snapshot(t);
        if (t->n_threads > 1) wake(t);
    }
    if (limited) t->keep_tokens_ns -= (int64_t)spent_ns;
    return more;
}

/* A step of the shard's table. The clock of CPU time is a system call: it is asked again only if the step took so long that the machine may have
 * taken the CPU away meanwhile. Whoever holds the shard may come here. */
static void time_growth(void *arg, bool ended) {
    struct thread *t = arg;
    if (!ended) {
        t->growth_ns = thread_cpu_ns();
        t->growth_cycles = cycles_now();
        return;
    }
    uint64_t ns = (uint64_t)((double)(cycles_now() - t->growth_cycles) * measure_ns_per_cycle());
    slice_add(&t->measure, SLICE_GROW, ns < GROWTH_SURE_NS ? ns : thread_cpu_ns() - t->growth_ns);
}

static uint64_t next_deadline(const struct thread *t) {
    uint64_t deadline = t->next_timeout_ns ? t->next_timeout_ns : UINT64_MAX;
    uint64_t parked = deadlines_next_ns(&t->deadlines);
    if (parked < deadline) deadline = parked;
    uint64_t migrating = deadlines_next_ns(&t->migrate_deadlines);
    if (migrating < deadline) deadline = migrating;
    if (t->hurry_ns > t->now_ns && t->migrates && t->hurry_ns < deadline) deadline = t->hurry_ns;
    if (!t->id && t->config->n_save && t->now_ns + SAVE_POINTS_NS < deadline) deadline = t->now_ns + SAVE_POINTS_NS;
    if (!thread_holds(t)) return deadline; /* whoever has it gives it back */
    if (t->pause_until_ns && t->pause_until_ns < deadline) deadline = t->pause_until_ns;
    int64_t due = shard_next_due(t->shard);
    if (due != INT64_MAX) {
        int64_t left = due - t->now_ms;
        uint64_t at = t->now_ns + (left > 0 ? (uint64_t)left * 1000000 : 0);
        if (left < INT64_MAX / 1000000 && at < deadline) deadline = at;
    }
    return deadline;
}

static bool something_arrived(struct thread *t) {
    return mailbox_ready(&t->returns) || lend_must_stay(t) || regions_arrived(t) || client_memory_must_act(t) ||
        atomic_load_explicit(&t->server->stopping, memory_order_relaxed);
}

static void wait_for_work(struct thread *t, bool more) {
    uint64_t deadline = more ? 0 : next_deadline(t);
    if (deadline && t->n_threads > 1 && !lend_let_go(t)) deadline = 0;
    if (deadline) {
        mailbox_announce_sleep(&t->asleep);
        if (something_arrived(t)) deadline = 0;
        else t->stats.sleeps++;
    }
    proactor_wait(t->proactor, deadline);
    mailbox_awake(&t->asleep);
    if (!t->mine) lend_take(t);
    t->now_ns = now_monotonic_ns();
    t->now_ms = now_realtime_ms();
    /* Before anything that came meanwhile is looked at: whoever connects after CONFIG SET was answered finds it in force on every thread. */
    if (__builtin_expect(t->config != config_current(), 0)) thread_take_config(t);
}

static __attribute__((noinline)) void sample(struct thread *t) {
    const struct thread_stats *s = &t->stats;
    measure_sample(&t->measure, &(struct sample){t->now_ns, s->commands, s->input_bytes, s->output_bytes});
    if (!t->id) saving_cron(t);
    if (t->now_ns < t->growth_check_ns || !thread_holds(t)) return;
    memory_check_growth(t->shard->memory);
    t->growth_check_ns = t->now_ns + GROWTH_CHECK_NS;
}

/* What one huge command made grow goes back. */
static void trim(struct thread *t) {
    if (t->scratch.capacity > SCRATCH_KEPT) reply_drop(&t->scratch);
    if (t->argv_capacity <= ARGV_KEPT) return;
    struct arg *less = mi_malloc(ARGV_FIRST * sizeof *less);
    if (!less) return;
    regions_free_room(t->argv, t->argv_capacity * sizeof *t->argv);
    t->argv = less;
    t->argv_capacity = ARGV_FIRST;
}

static void *thread_run(void *arg) {
    struct thread *t = arg;
    bool more = false;
    while (!atomic_load_explicit(&t->server->stopping, memory_order_relaxed)) {
        wait_for_work(t, more);
        uint64_t commands = t->stats.commands, start = cycles_now();
        if (t->now_ns >= t->measure.next_sample_ns) sample(t);
        t->stats.ticks++;
        atomic_store_explicit(&t->turn, (uint32_t)t->stats.ticks, memory_order_relaxed);
        measure_tick(&t->measure, commands - t->commands_before);
        t->commands_before = commands;
        take_events(t);
        if (t->pause_until_ns && t->now_ns >= t->pause_until_ns && thread_holds(t)) pause_end(t);
        if (deadlines_next_ns(&t->deadlines) <= t->now_ns) waiting_check(t);
        if (deadlines_next_ns(&t->migrate_deadlines) <= t->now_ns) migrate_check(t);
        if (__builtin_expect(t->hurry_ns && t->hurry_ns <= t->now_ns, 0)) migrate_hurry(t);
        if (t->n_resume) resume(t);
        outbox_flush(t);
        more = run_slices(t);
        outbox_take_returns(t);
        if (t->merges) task_run_merge(t);
        t->tick = NULL;
        outbox_retire(t);
        trim(t);
        if (__builtin_expect(t->monitored, 0)) monitor_publish(t);
        if (__builtin_expect(t->client_memory.max != 0, 0)) client_memory_keep_limit(t);
        if (t->n_dirty) conn_send_all(t);
        if (t->n_threads > 1) {
            outbox_publish_releases(t);
            if (t->settles) lend_settle_all(t);
            wake(t);
        }
        /* Own hops and slices that waited for a coordinator wake nobody: this tick may have let them go on. */
        more |= keep(t, t->stats.commands != commands) || t->n_resume || t->n_dirty || t->outbox_used || t->own_batch || t->merges ||
            (thread_holds(t) && thread_has_slices(t) && !atomic_load_explicit(&t->awaits_region, memory_order_relaxed));
        if (thread_holds(t)) regions_look(t);
        if (t->next_timeout_ns && t->now_ns >= t->next_timeout_ns) conn_check_timeouts(t);
        if (thread_holds(t)) {
            shard_settle(t->shard);
            atomic_store_explicit(&t->changes, t->shard->stats.dirty, memory_order_relaxed);
        }
        slice_add(&t->measure, SLICE_TICK, cycles_now() - start);
    }
    return NULL;
}

/* ---- life ---- */

static void pin(uint32_t id) {
    cpu_set_t may, one;
    if (sched_getaffinity(0, sizeof may, &may)) return;
    uint32_t n = (uint32_t)CPU_COUNT(&may), nth = n ? id % n : 0;
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++) {
        if (!CPU_ISSET(cpu, &may) || nth--) continue;
        CPU_ZERO(&one);
        CPU_SET(cpu, &one);
        pthread_setaffinity_np(pthread_self(), sizeof one, &one);
        return;
    }
}

/* What must happen on the thread itself: its proactor, and its first memory. */
static void *thread_main(void *arg) {
    struct thread *t = arg;
    char name[16];
    snprintf(name, sizeof name, "shard-%u", t->id);
    prctl(PR_SET_NAME, name); /* for top -H and the like */
    crash_thread_start(t);
    if (t->config->pin && t->n_threads > 1) pin(t->id);
    const char *why = NULL;
    struct proactor_options o = {
        .kind = (enum proactor_kind)t->config->io, .buffer_size = THREAD_BUFFER_SIZE, .buffer_count = THREAD_BUFFERS};
    int error = proactor_open(&t->proactor, &o, &why);
    if (error) {
        log_line(LOG_WARNING_LEVEL, "Can't open the proactor: %s%s%s", strerror(-error), why ? ": " : "", why ? why : "");
        exit(1);
    }
    if (!t->id) {
        if (why) advice_no_uring(why);
        listeners_follow(t->proactor);
    }
    t->now_ns = now_monotonic_ns();
    t->now_ms = now_realtime_ms();
    pthread_barrier_wait(&t->server->ready);
    return thread_run(t);
}

struct thread *thread_new(uint32_t id, uint32_t n) {
    const struct config *config = config_current();
    struct thread *t = mi_malloc_aligned(sizeof *t, 64);
    if (!t) return NULL;
    memset(t, 0, sizeof *t);
    t->id = id;
    t->n_threads = t->route_n = n;
    t->server = &server;
    t->config = config;
    mailbox_init(&t->requests);
    mailbox_init(&t->returns);
    uint64_t seed;
    if (getrandom(&seed, sizeof seed, 0) != sizeof seed) return NULL;
    struct shard_options o = {.id = id,
        .shards = n,
        .databases = (uint32_t)config->databases,
        .secret = &server.secret,
        .seed = seed,
        .now_ms = now_realtime_ms(),
        .huge_pages = config->huge_pages != 2,
        .budget = &server.budget,
        .growing = time_growth,
        .growing_arg = t};
    t->shard = shard_new(&o);
    t->argv = mi_malloc(ARGV_FIRST * sizeof *t->argv);
    t->argv_capacity = ARGV_FIRST;
    t->ticks = mi_calloc(TICKS, sizeof *t->ticks);
    t->outbox_first = mi_calloc(n, sizeof *t->outbox_first);
    t->outbox_last = mi_calloc(n, sizeof *t->outbox_last);
    t->lent_now = mi_calloc(n, sizeof *t->lent_now);
    t->releases = mi_calloc(n, sizeof *t->releases);
    t->wanted = mi_calloc(n / 64 + 1, sizeof *t->wanted);
    t->queued = mi_calloc(n / 64 + 1, sizeof *t->queued);
    t->borrowed = mi_calloc(n / 64 + 1, sizeof *t->borrowed);
    if (!t->shard || !t->argv || !t->ticks || !t->outbox_first || !t->outbox_last || !t->lent_now || !t->releases || !t->wanted ||
        !t->queued || !t->borrowed)
        return NULL;
    t->shard->prefetch = (uint8_t)config->prefetch;
    t->mine = true;
    t->startup_bytes = memory_used(t->shard->memory);
    t->monitors = monitors_new(n);
    if (!t->monitors || !measure_init(&t->measure, COMMAND_ROWS_MAX)) return NULL;
    thread_take_config(t);
    return t;
}

int thread_start(struct thread *t) { return pthread_create(&t->handle, NULL, thread_main, t); }

/* After all threads have ended: their connections, while every shard is there to take its blobs back. */
void thread_drop_conns(struct thread *t) {
    monitors_drop(t->monitors);
    t->monitors = NULL;
    for (struct conn *c = t->conns; c; c = c->next)
        if (c->task) task_drop(c->task, t->n_threads);
    outbox_end(t);
    conn_drop_unwanted(t);
    while (t->conns) {
        struct conn *c = t->conns;
        t->conns = c->next;
        conn_free(t, c);
    }
}

/* After the thread has ended: what is left is given back, so that leak checkers see only leaks. */
void thread_drop(struct thread *t) {
    proactor_close(t->proactor);
    for (uint32_t i = 0; i < TICKS; i++) {
        struct tick *k = &t->ticks[i];
        mi_free(k->buffers);
        mi_free(k->blocks);
        mi_free(k->blobs);
        mi_free(k->memory);
    }
    while (t->free_tasks) t->free_tasks = task_free(t->free_tasks);
    while (t->n_spare) reply_drop(&t->spare[--t->n_spare]);
    for (uint32_t i = 0; i < t->n_threads; i++) mi_free(t->releases[i]);
    reply_drop(&t->scratch);
    measure_drop(&t->measure);
    shard_drop(t->shard);
    mi_free(t->spare);
    regions_free_room(t->argv, t->argv_capacity * sizeof *t->argv);
    mi_free(t->ticks);
    mi_free(t->outbox_first);
    mi_free(t->outbox_last);
    mi_free(t->lent_now);
    mi_free(t->releases);
    mi_free(t->wanted);
    mi_free(t->queued);
    mi_free(t->borrowed);
    mi_free(t->dirty);
    mi_free(t->slots);
    mi_free(t->free_slots);
    mi_free(t->held);
    deadlines_drop(&t->deadlines);
    migrate_drop_all(t);
    deadlines_drop(&t->migrate_deadlines);
    mi_free(t->resume);
    for (uint32_t i = 0; i < t->token_n; i++) mi_free(t->token_queue[(t->token_first + i) % t->token_capacity]);
    mi_free(t->token_queue);
    mi_free(t);
}
