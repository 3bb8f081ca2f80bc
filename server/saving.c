#include "server/saving.h"

#include <errno.h>
#include <mimalloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "io/clock.h"
#include "server/disk.h"
#include "server/join.h"
#include "server/log.h"
#include "server/service.h"
#include "server/snapshot_file.h"
#include "server/task.h"
#include "server/thread.h"
#include "server/version.h"
#include "shard/expire.h"

/* After a snapshot that failed, the next one by a save point waits so long, seconds. */
#define RETRY_S 5
/* Between two looks at the sockets while all shards stand still. */
#define STANDING_SLICE_NS 500000u

/* Of a snapshot for which all shards stand still: WALKS: each thread is to write its shard. Who begins it is not done before that, though its end may come: so nobody gives it up
 * until then, and it walks only if it has not ended. */
enum walks { WALKS_NOT, WALKS_SOON, WALKS };

enum ending { ENDING_NONE, ENDING_SAVING, ENDING_ABORTED, ENDING_SURE };

static struct {
    /* Written by who begins, while all shards are held, or by thread 0 at the end; read by any. */
    _Atomic bool running, urgent, failed;
    _Atomic uint64_t put, saves, dirty_before, dirty_cut, keys_total, extra, extra_peak, extra_last;
    _Atomic uint64_t *kept;     /* bytes, by shard */
    uint64_t *images;           /* of before-images, how many were in what each shard has put; the shard's */
    _Atomic uint64_t writer_ns; /* CPU time of all files' threads */
    _Atomic int64_t saved_s, took_s, began_s, tried_s;
    _Atomic uint64_t *keys; /* written, by shard */
    struct snapshot_file *file;
    struct snapshot_file *before; /* one that was given up, and perhaps hangs at the disk: the next one waits for its end. NULL: none */
    uint64_t serial;              /* of the file */
    _Atomic uint64_t
        open; /* the same until somebody takes its end on himself: thread 0 when it is told, or who gives the snapshot up; then 0 */
    struct disk_job *waiter;
    bool stands, at_end; /* all shards stand still until the answer; and it is for the end of the process */
    bool given_up;       /* nobody wants it any more, which is no failure */
    _Atomic int walks;   /* enum walks */
    _Atomic bool forced; /* the process ends even if it can't be saved */
    _Atomic bool asked;  /* a signal has asked for that end */
    _Atomic int ending;  /* enum ending */
    char why[SNAPSHOT_WHY_MAX];
    uint64_t bytes;
    /* The file that is being written, under its own name; empty: none is. For the main thread, should it not wait for anybody. */
    pthread_mutex_t part_lock;
    char part[2 * CONFIG_TEXT_MAX + 8],
        part_before[2 * CONFIG_TEXT_MAX + 8]; /* before: that of a file that was given up, until one after it has ended */
} saving = {.part_lock = PTHREAD_MUTEX_INITIALIZER};

static int64_t now_s(void) { return now_realtime_ms() / 1000; }

bool saving_is_running(void) { return atomic_load_explicit(&saving.running, memory_order_acquire); }
uint64_t saving_writer_ns(void) { return atomic_load_explicit(&saving.writer_ns, memory_order_relaxed); }
bool saving_is_urgent(void) { return atomic_load_explicit(&saving.urgent, memory_order_relaxed); }

bool saving_refuses_writes(void) {
    if (__builtin_expect(!atomic_load_explicit(&saving.failed, memory_order_relaxed), 1)) return false;
    const struct config *c = config_current();
    return c->n_save && c->stop_writes_on_bgsave_error;
}

/* ---- what the shards put ---- */

/* Threads may come here together: what one notes too late another has noted, or will. */
static void note_extra(uint64_t put) {
    uint64_t written = snapshot_file_bytes(saving.file), extra = put > written ? put - written : 0;
    for (uint32_t i = 0; i < server.n_threads; i++) extra += atomic_load_explicit(&saving.kept[i], memory_order_relaxed);
    atomic_store_explicit(&saving.extra, extra, memory_order_relaxed);
    if (extra > atomic_load_explicit(&saving.extra_peak, memory_order_relaxed))
        atomic_store_explicit(&saving.extra_peak, extra, memory_order_relaxed);
}

static void sink_put(void *arg, struct shard *s, struct rdb_buffer *b, enum snapshot_part part, uint64_t stream) {
    uint64_t images = snapshot_stats(s)->images;
    bool could_wait = images == saving.images[s->id];
    (void)arg;
    saving.images[s->id] = images;
    atomic_store_explicit(&saving.keys[s->id], snapshot_stats(s)->keys, memory_order_relaxed);
    atomic_store_explicit(&saving.kept[s->id], snapshot_stats(s)->kept_bytes, memory_order_relaxed);
    note_extra(atomic_fetch_add_explicit(&saving.put, b->length, memory_order_relaxed) + b->length);
    snapshot_file_put(saving.file, b, part, stream, could_wait);
}

static uint64_t sink_new_stream(void *arg) {
    (void)arg;
    return snapshot_file_new_stream(saving.file);
}

static bool sink_has_room(void *arg, uint64_t stream, bool urgent) {
    (void)arg;
    return snapshot_file_has_room(saving.file, stream, urgent);
}

static bool sink_is_off(void *arg) {
    (void)arg;
    return snapshot_file_failed(saving.file);
}

static void sink_end(void *arg, struct shard *s, bool failed) {
    (void)arg;
    (void)s;
    snapshot_file_shard_is_through(saving.file, failed ? "out of memory" : NULL);
}

static const struct snapshot_sink sink = {NULL, sink_put, sink_new_stream, sink_has_room, sink_is_off, sink_end};

/* ---- the file's thread ---- */

static void tell(struct thread *t, enum message_kind kind, uint64_t value) {
    struct note *n = mi_malloc(sizeof *n);
    if (!n) abort();
    *n = (struct note){.message = {.kind = kind}, .value = value};
    mailbox_push(&t->returns, &n->message);
    mailbox_fence();
    if (mailbox_must_wake(&t->asleep)) proactor_wake(NULL, t->proactor);
}

static void tell_all(enum message_kind kind) {
    for (uint32_t i = 0; i < server.n_threads; i++) tell(server.threads[i], kind, 0);
}

static void there_is_room(void *arg) {
    (void)arg;
    tell_all(MESSAGE_ROOM);
}

static void file_is_done(void *arg) { tell(server.threads[0], MESSAGE_SAVED, (uintptr_t)arg); }

/* ---- beginning ---- */

static uint64_t total_keys(const struct spread *x) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < x->n; i++)
        for (uint32_t d = 0; d < x->shards[i]->n_dbs; d++) n += x->shards[i]->dbs[d]->keys.count;
    return n;
}

static bool put_number(struct rdb_buffer *b, const char *name, uint64_t v) {
    char text[INT64_TEXT_SIZE + 1];
    snprintf(text, sizeof text, "%llu", (unsigned long long)v);
    return rdb_put_aux(b, name, text);
}

/* The version, and what Redis says about itself there. */
static bool put_aux(const struct spread *x, struct rdb_buffer *b) {
    uint64_t used = 0, timed = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        used += memory_used(x->shards[i]->memory);
        for (uint32_t d = 0; d < x->shards[i]->n_dbs; d++) timed += x->shards[i]->dbs[d]->timed;
    }
    return rdb_put_head(b, timed ? RDB_VERSION_TIMES : RDB_VERSION) &&
        rdb_put_aux(b, "redis-ver", config_current()->reported_redis_version) && put_number(b, "redis-bits", 64) &&
        put_number(b, "ctime", (uint64_t)now_s()) && put_number(b, "used-mem", used) && rdb_put_aux(b, "darter-version", DARTER_VERSION);
}

/* The file's head: what it is, and how many keys each database has. */
static bool make_head(const struct spread *x, struct rdb_buffer *b) {
    if (!put_aux(x, b)) return false;
    for (uint32_t d = 0; d < x->shards[0]->n_dbs; d++) {
        uint64_t keys = 0, expiring = 0;
        for (uint32_t i = 0; i < x->n; i++) {
            keys += x->shards[i]->dbs[d]->keys.count;
            expiring += x->shards[i]->dbs[d]->expiring;
        }
        if (keys && (!rdb_put_select(b, d) || !rdb_put_resize(b, keys, expiring))) return false;
    }
    return true;
}

static void note_part(const char *directory, const char *name) {
    pthread_mutex_lock(&saving.part_lock);
    if (directory) snprintf(saving.part, sizeof saving.part, "%s/%s.part", directory, name);
    else saving.part[0] = 0;
    pthread_mutex_unlock(&saving.part_lock);
}

static void forget_parts(void) {
    pthread_mutex_lock(&saving.part_lock);
    saving.part[0] = saving.part_before[0] = 0;
    pthread_mutex_unlock(&saving.part_lock);
}

/* The one that is being written was given up, and goes when its thread comes to that. */
static void leave_part(void) {
    pthread_mutex_lock(&saving.part_lock);
    memcpy(saving.part_before, saving.part, sizeof saving.part);
    saving.part[0] = 0;
    pthread_mutex_unlock(&saving.part_lock);
}

static struct snapshot_file *start_file(const struct spread *x) {
    const struct config *c = config_current();
    struct snapshot_file_options o = {.directory = c->dir,
        .name = c->dbfilename,
        .shards = x->n,
        .limit = (uint64_t)c->snapshot_buffer_limit,
        .give_up_at_limit = c->snapshot_overrun == 1,
        .checksum = c->rdbchecksum,
        .sync_early = c->rdb_save_incremental_fsync,
        .cpu_ns = &saving.writer_ns,
        .before = saving.before,
        .room = there_is_room,
        .done = file_is_done,
        .arg = (void *)(uintptr_t)++saving.serial};
    note_part(c->dir, c->dbfilename);
    struct snapshot_file *f = make_head(x, &o.head) ? snapshot_file_start(&o) : NULL;
    if (f) {
        saving.before = NULL;
        return f;
    }
    rdb_buffer_drop(&o.head);
    note_part(NULL, NULL);
    return NULL;
}

static const char *begin(const struct spread *x, struct disk_job *waiter, bool stands) {
    const struct config *c = config_current();
    const struct snapshot_options o = {.sink = sink,
        .compress = c->rdbcompression,
        .ahead = (enum table_ahead)c->snapshot_prefetch,
        .kept_max = (size_t)c->snapshot_buffer_limit / x->n};
    uint64_t dirty = 0;
    if (saving_is_running()) return "ERR Background save already in progress";
    for (uint32_t i = 0; i < x->n; i++)
        if (x->shards[i]->snapshot) return "ERR A snapshot that failed is being cleared away, try again in a moment";
    if (!saving.keys) saving.keys = mi_calloc(x->n, sizeof *saving.keys);
    if (!saving.kept) saving.kept = mi_calloc(x->n, sizeof *saving.kept);
    saving.stands = stands;
    saving.waiter = waiter;
    saving.given_up = false;
    if (!saving.images) saving.images = mi_calloc(x->n, sizeof *saving.images);
    saving.file = saving.keys && saving.kept && saving.images ? start_file(x) : NULL;
    if (!saving.file) return "ERR Can't start a snapshot: out of memory";
    for (uint32_t i = 0; i < x->n; i++) {
        atomic_store_explicit(&saving.keys[i], 0, memory_order_relaxed);
        atomic_store_explicit(&saving.kept[i], 0, memory_order_relaxed);
        saving.images[i] = 0;
        dirty += x->shards[i]->stats.dirty;
    }
    atomic_store(&saving.put, 0);
    atomic_store(&saving.extra, 0);
    atomic_store(&saving.extra_peak, 0);
    atomic_store(&saving.dirty_cut, dirty);
    atomic_store(&saving.keys_total, total_keys(x));
    atomic_store(&saving.began_s, now_s());
    atomic_store(&saving.tried_s, now_s());
    atomic_store(&saving.open, saving.serial);
    atomic_store_explicit(&saving.running, true, memory_order_release);
    for (uint32_t i = 0; i < x->n; i++) /* from here on its end may come */
        if (snapshot_begin(x->shards[i], &o)) snapshot_file_shard_is_through(saving.file, "out of memory");
    return NULL;
}

const char *saving_begin(const struct spread *x, struct disk_job *waiter) {
    const char *why = begin(x, waiter, false);
    if (why) return why;
    atomic_store(&saving.urgent, waiter != NULL);
    log_line(LOG_NOTICE_LEVEL, waiter ? "Saving the dataset" : "Background saving started");
    return NULL;
}

/* ---- its end ---- */

/* Waits for the thread, which is through unless the process ends. */
static void end_file(void) {
    const char *why = snapshot_file_wait(saving.file);
    snprintf(saving.why, sizeof saving.why, "%s", why ? why : "");
    saving.bytes = snapshot_file_bytes(saving.file);
    snapshot_file_end(saving.file);
    forget_parts();
}

/* The file has ended, or is given up. */
static void note_result(void) {
    bool good = !saving.why[0];
    int64_t took = now_s() - atomic_load(&saving.began_s);
    saving.file = NULL;
    atomic_store(&saving.open, 0);
    if (!saving.given_up) atomic_store(&saving.failed, !good);
    atomic_store(&saving.took_s, took);
    atomic_store(&saving.extra_last, atomic_load(&saving.extra_peak));
    if (good) {
        atomic_store(&saving.saved_s, now_s());
        atomic_store(&saving.dirty_before, atomic_load(&saving.dirty_cut));
        atomic_fetch_add(&saving.saves, 1);
        log_line(LOG_NOTICE_LEVEL, "DB saved on disk: %llu keys, %llu bytes, %lld s", (unsigned long long)atomic_load(&saving.keys_total),
            (unsigned long long)saving.bytes, (long long)took);
    } else if (saving.given_up) log_line(LOG_NOTICE_LEVEL, "Saving was given up");
    else log_line(LOG_WARNING_LEVEL, "Saving failed: %s", saving.why);
    atomic_store(&saving.urgent, false);
    atomic_store_explicit(&saving.running, false, memory_order_release);
}

static void fill_in(struct disk_job *job, bool good) {
    job->good = good;
    if (!good && !job->quiet) snprintf(job->why, sizeof job->why, "ERR %.500s", saving.why);
}

static void answer(struct disk_job *job, bool good) {
    fill_in(job, good);
    disk_give_back(job);
}

/* True: the end of this snapshot is the caller's to note. */
static bool takes_end(uint64_t serial) { return serial && atomic_compare_exchange_strong(&saving.open, &serial, 0); }

static struct disk_job *take_waiter(void) {
    struct disk_job *waiter = saving.waiter;
    saving.waiter = NULL;
    return waiter;
}

static void end_standing(struct thread *t, bool good);

void saving_message(struct thread *t, struct note *n) {
    bool ours = takes_end(n->value);
    mi_free(n);
    if (!ours) return;
    end_file();
    bool good = !saving.why[0], stands = saving.stands;
    struct disk_job *waiter = stands ? NULL : take_waiter();
    if (waiter) fill_in(waiter, good);
    note_result(); /* from here on another may begin, unless the shards stand still for this one */
    if (stands) end_standing(t, good);
    else if (waiter) disk_give_back(waiter);
}

/* ---- while all shards stand still ---- */

static uint64_t no_clock(void) { return 0; }

static void walk(struct shard *s) {
    struct slice slice = {.cpu_ns = no_clock};
    while (snapshot_is_due(s)) {
        snapshot_work(s, &slice, 1);
        while (snapshot_let_go(s)) {}
    }
}

/* What is being written is given up, and its marks put in order. Its file may be at a disk that hangs, so nobody here waits for its end. */
static void give_up_running(const struct spread *x) {
    if (saving_is_running()) {
        for (uint32_t i = 0; i < x->n; i++) {
            if (!snapshot_stats(x->shards[i])) continue;
            snapshot_abort(x->shards[i]);
            snapshot_file_shard_is_through(saving.file, "given up");
        }
        if (takes_end(atomic_load(&saving.open))) {
            snapshot_file_give_up(saving.file, "given up");
            saving.given_up = true;
            saving.before = saving.file;
            leave_part();
            snprintf(saving.why, sizeof saving.why, "given up");
            note_result();
            if (saving.waiter) answer(take_waiter(), false);
        } else /* thread 0 is at it */
            while (saving_is_running()) usleep(100);
    }
    for (uint32_t i = 0; i < x->n; i++) walk(x->shards[i]);
}

static const char *begin_standing(const struct spread *x, struct disk_job *waiter, bool at_end) {
    give_up_running(x);
    saving.at_end = at_end;
    atomic_store(&saving.walks, WALKS_SOON);
    const char *why = begin(x, waiter, true);
    int soon = WALKS_SOON;
    if (why) atomic_store(&saving.walks, WALKS_NOT);
    else if (atomic_compare_exchange_strong(&saving.walks, &soon, WALKS)) tell_all(MESSAGE_ROOM);
    return why;
}

const char *saving_begin_standing(const struct spread *x, struct disk_job *waiter) { return begin_standing(x, waiter, false); }

bool saving_work_standing(struct shard *s) {
    struct slice slice = {.cpu_ns = now_monotonic_ns};
    if (atomic_load_explicit(&saving.walks, memory_order_acquire) != WALKS || !snapshot_is_due(s)) return false;
    snapshot_work(s, &slice, now_monotonic_ns() + STANDING_SLICE_NS);
    while (snapshot_let_go(s)) {} /* nobody waits for it: there are no writers */
    return snapshot_is_due(s);
}

/* ---- save points ---- */

static bool cut_for_point(struct thread *t, const struct spread *x) {
    (void)t;
    const char *why = saving_is_running() ? NULL : saving_begin(x, NULL);
    if (why) log_line(LOG_WARNING_LEVEL, "Can't save: %s", why);
    return false;
}

static uint64_t dirty_now(void) {
    uint64_t n = 0;
    for (uint32_t i = 0; i < server.n_threads; i++) n += atomic_load_explicit(&server.threads[i]->changes, memory_order_relaxed);
    return n - atomic_load_explicit(&saving.dirty_before, memory_order_relaxed);
}

static int64_t last_save_s(void) {
    int64_t saved = atomic_load_explicit(&saving.saved_s, memory_order_relaxed);
    return saved ? saved : server.started_ms / 1000;
}

void saving_cron(struct thread *t) {
    const struct config *c = t->config;
    bool failed = atomic_load_explicit(&saving.failed, memory_order_relaxed);
    if (!c->n_save || saving_is_running()) return;
    int64_t now = t->now_ms / 1000;
    if (failed && now - atomic_load(&saving.tried_s) <= RETRY_S) return;
    uint64_t dirty = dirty_now();
    for (uint32_t i = 0; i < c->n_save; i++) {
        const struct save_point *p = &c->save[i];
        if (dirty < (uint64_t)p->changes || now - last_save_s() <= p->seconds) continue;
        log_line(LOG_NOTICE_LEVEL, "%lld changes in %lld seconds. Saving...", (long long)p->changes, (long long)p->seconds);
        atomic_store(&saving.tried_s, now);
        task_start_cut(t, cut_for_point, true);
        return;
    }
}

/* ---- the end of the process ---- */

bool saving_end_begin(bool force) {
    int none = ENDING_NONE;
    if (!atomic_compare_exchange_strong(&saving.ending, &none, ENDING_SAVING)) return false;
    atomic_store(&saving.forced, force);
    log_line(LOG_WARNING_LEVEL, "User requested shutdown...");
    return true;
}

void saving_end_now(void) {
    atomic_store(&saving.ending, ENDING_SURE);
    kill(getpid(), SIGTERM);
}

void saving_end_failed(void) {
    atomic_store(&saving.asked, false);
    if (atomic_exchange(&saving.ending, ENDING_NONE) != ENDING_ABORTED)
        log_line(LOG_WARNING_LEVEL, "Errors trying to shut down the server. Check the logs for more information.");
}

bool saving_end_save(const struct spread *x, struct disk_job *waiter) {
    if (atomic_load(&saving.ending) == ENDING_SAVING) {
        log_line(LOG_NOTICE_LEVEL, "Saving the final RDB snapshot before exiting.");
        const char *why = begin_standing(x, waiter, true);
        if (!why) {
            if (atomic_load(&saving.ending) == ENDING_ABORTED)
                tell(server.threads[0], MESSAGE_END_ABORTED, 0); /* that may have come too early */
            return true;
        }
        log_line(LOG_WARNING_LEVEL, "Error trying to save the DB, can't exit: %s", why);
    }
    saving_end_failed();
    return false;
}

/* Thread 0: it is saved, or will not be. */
static void end_standing(struct thread *t, bool good) {
    struct disk_job *waiter = take_waiter();
    int state = ENDING_SAVING;
    saving.stands = false;
    atomic_store(&saving.walks, WALKS_NOT);
    if (!saving.at_end) { /* DEBUG RELOAD */
        answer(waiter, good);
        return;
    }
    if (!good && atomic_load(&saving.ending) == ENDING_SAVING) {
        bool forced = good = atomic_load(&saving.forced);
        log_line(LOG_WARNING_LEVEL, "Error trying to save the DB%s",
            forced ? ". Exit anyway." : ", can't exit. SHUTDOWN NOSAVE ends without saving.");
    }
    if (good && atomic_compare_exchange_strong(&saving.ending, &state, ENDING_SURE)) {
        atomic_store(&server.stopping, true); /* nobody goes on behind the file's back */
        saving_end_now();
        mi_free(waiter);
        return;
    }
    saving_end_failed();
    if (waiter) answer(waiter, false);
    else task_let_all_go(t);
}

bool saving_end_abort(void) {
    int state = ENDING_SAVING;
    if (!atomic_compare_exchange_strong(&saving.ending, &state, ENDING_ABORTED)) return false;
    log_line(LOG_NOTICE_LEVEL, "Shutdown manually aborted.");
    tell(server.threads[0], MESSAGE_END_ABORTED, 0);
    return true;
}

/* Who waits for the shards to stand still finds out by himself. */
void saving_abort_message(struct thread *t, struct note *n) {
    mi_free(n);
    if (atomic_load(&saving.walks) != WALKS || !saving_is_running() || !saving.at_end || atomic_load(&saving.ending) != ENDING_ABORTED)
        return;
    saving.given_up = true;
    snapshot_file_give_up(saving.file, "the end was aborted");
    end_standing(t, false);
}

static bool cut_for_end(struct thread *t, const struct spread *x) {
    (void)t;
    return saving_end_save(x, NULL);
}

void saving_end_message(struct thread *t, struct note *n) {
    mi_free(n);
    task_start_cut(t, cut_for_end, false);
}

/* As Ctrl+C, twice. The lock stays: no other file is begun. */
static void insist(void) {
    pthread_mutex_lock(&saving.part_lock);
    if (saving.part[0]) unlink(saving.part);
    if (saving.part_before[0]) unlink(saving.part_before);
    log_line(LOG_WARNING_LEVEL, "You insist... exiting now.");
    log_drain();
    service_pidfile_remove();
    _exit(1);
}

bool saving_signal(int number) {
    const struct config *c = config_current();
    bool interrupt = number == SIGINT;
    if (atomic_exchange(&saving.asked, true) && interrupt) insist();
    log_line(LOG_WARNING_LEVEL, "Received %s scheduling shutdown...", interrupt ? "SIGINT" : "SIGTERM");
    uint32_t flags = config_shutdown_flags(interrupt ? c->shutdown_on_sigint : c->shutdown_on_sigterm);
    if (!saving_end_begin(flags & SHUTDOWN_FORCE)) return false;
    if (flags & SHUTDOWN_NOSAVE || (!(flags & SHUTDOWN_SAVE) && !c->n_save)) {
        atomic_store(&saving.ending, ENDING_SURE);
        return true;
    }
    tell(server.threads[0], MESSAGE_SAVE_AND_EXIT, 0);
    return false;
}

/* A thread of its own, since this may hang as well. */
static void *unlink_parts(void *unused) {
    if (saving.part[0]) unlink(saving.part);
    if (saving.part_before[0]) unlink(saving.part_before);
    return unused;
}

bool saving_stop(void) {
    bool ended = true;
    pthread_t unlinker;
    if (saving_is_running()) {
        for (uint32_t i = 0; i < server.n_threads; i++)
            if (snapshot_stats(server.threads[i]->shard)) snapshot_file_shard_is_through(saving.file, "the server ends");
        ended = snapshot_file_ends_in_time(saving.file);
        if (ended) {
            end_file();
            note_result();
        }
    }
    if (saving.before) {
        if (snapshot_file_ends_in_time(saving.before)) {
            snapshot_file_end(saving.before);
            saving.before = NULL;
        } else ended = false;
    }
    if (ended) return true;
    log_line(LOG_WARNING_LEVEL, "The disk hangs: the end does not wait for the snapshot that is being written");
    if (!pthread_create(&unlinker, NULL, unlink_parts, NULL)) join_in_time(unlinker);
    return false;
}

/* ---- what is shown ---- */

void saving_info(struct saving_info *out) {
    bool running = saving_is_running();
    *out = (struct saving_info){.running = running,
        .last_failed = atomic_load(&saving.failed),
        .saves = atomic_load(&saving.saves),
        .dirty_before = atomic_load(&saving.dirty_before),
        .keys_total = running ? atomic_load(&saving.keys_total) : 0,
        .last_save_s = last_save_s(),
        .bytes = running ? atomic_load(&saving.put) : 0,
        .extra = running ? atomic_load(&saving.extra) : 0,
        .extra_peak = running ? atomic_load(&saving.extra_peak) : 0,
        .extra_last = atomic_load(&saving.extra_last),
        .last_took_s = atomic_load(&saving.saved_s) || atomic_load(&saving.failed) ? atomic_load(&saving.took_s) : -1,
        .running_s = running ? now_s() - atomic_load(&saving.began_s) : -1};
    for (uint32_t i = 0; running && i < server.n_threads; i++) out->keys += atomic_load_explicit(&saving.keys[i], memory_order_relaxed);
}
