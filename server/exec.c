/* In this file: one command on shards that are held; the group of hops on one shard; what takes longer: what is kept of it, while all shards are held, its end.
 *
 * The states of what takes longer:
 *
 *   state   | what it is                                          | leaves to
 *   SCHEDULED ... LEAVING: exec_shards.c
 *   TOKEN   | all shards are to stand still                       | HELD
 *   HELD    | they do: commands run, up to one that must wait     | EVERYWHERE, DISK, done
 *   EVERYWHERE | a piece of a command runs on every thread        | HELD
 *   DISK    | a command runs on the disk's thread                 | HELD
 */
#include "server/exec.h"

#include <mimalloc.h>
#include <stdlib.h>

#include "io/clock.h"
#include "server/exec_internal.h"
#include "server/monitor.h"
#include "server/outbox.h"
#include "server/scan.h"
#include "server/slow.h"
#include "server/waiting.h"
#include "shard/batch.h"
#include "shard/blob.h"

/* ---- one command, on shards that are held ---- */

struct hop exec_hop(struct conn *c, const struct queued *q) {
    struct hop h = q->hop;
    h.origin = c;
    h.db = c->db;
    h.resp = c->resp;
    h.flags |= conn_hop_flags(c);
    return h;
}

static void run_whole(struct shard *s, struct hop *h, struct reply *r) { hop_run_whole(s, h, r); }

static struct shard *shard_of(struct thread *t, const struct spread *x, struct queued *q, uint32_t nth) {
    return x->shards[thread_shard_of(t, exec_key(q, nth), hop_hash(&q->hop, nth))];
}

/* A command that left a state to go on with (LCS): as a piece, whose reply may hold what is not to be sent. */
static void go_on_aside(struct thread *t, struct shard *s, struct hop *h, struct reply *r) {
    struct reply piece = {.resp = h->resp};
    run_whole(s, h, &piece);
    reply_take(r, &piece, 0, piece.size);
    r->failed |= piece.failed;
    for (uint32_t i = 0; i < piece.n_refs; i++)
        if (piece.refs[i].blob) outbox_release_blob(t, piece.refs[i].blob);
    reply_drop(&piece);
}

static void spread_on_held(struct thread *t, struct hop *h, struct queued *q, const struct spread *x, struct reply *r) {
    h->hashes = exec_hashes(q);
    q->row->on_spread(x, h, r);
    if (h->state) go_on_aside(t, x->shards[t->id], h, r);
    if (q->row->plan == PLAN_EXCLUSIVE) thread_take_config(t);
}

/* A value a key, one after the other. */
static void each_on_held(struct thread *t, struct hop *h, struct queued *q, const struct spread *x, struct reply *r) {
    reply_array(r, q->hop.n_keys);
    h->flags |= HOP_PIECE;
    h->n_keys = 1;
    h->hashes = NULL;
    for (uint32_t i = 0; i < q->hop.n_keys; i++) {
        h->hash = hop_hash(&q->hop, i);
        h->argv = (struct arg *)(uintptr_t)exec_key(q, i) - h->key_first; /* as if it were the first key */
        run_whole(shard_of(t, x, q, i), h, r);
    }
}

uint32_t exec_gather(struct thread *t, struct queued *q, uint32_t shard, struct arg *args, uint64_t *hashes) {
    uint32_t n = 0, step = (uint32_t)q->row->key_step;
    struct arg *to = args;
    *to++ = q->hop.argv[0];
    for (uint32_t i = 0; i < q->hop.n_keys; i++) {
        struct arg *from = (struct arg *)(uintptr_t)exec_key(q, i);
        if (thread_shard_of(t, from, hop_hash(&q->hop, i)) != shard) continue;
        hashes[n++] = hop_hash(&q->hop, i);
        for (uint32_t j = 0; j < step; j++) {
            *to++ = from[j];
            from[j].flags &= ~(uint32_t)ARG_BLOB;
        }
    }
    return n;
}

uint64_t exec_reserve(struct thread *t, const struct queued *q, uint64_t *bytes) {
    if (!q->row->needs) return 0;
    uint64_t most = keys_set_most(q->hop.argv, q->hop.key_first, q->hop.key_step, q->hop.n_keys);
    if (!budget_reserve(&t->server->budget, most)) return ROOM_REFUSED;
    *bytes += most;
    return ROOM_RESERVED;
}

/* A sum, or OK or the first error, of a piece for every shard. */
static void pieces_on_held(struct thread *t, struct hop *h, struct queued *q, const struct spread *x, struct reply *r) {
    struct arg *args = mi_malloc((q->hop.n_keys * h->key_step + 1) * sizeof *args);
    uint64_t *hashes = mi_malloc(q->hop.n_keys * sizeof *hashes);
    struct reply piece = {.resp = h->resp};
    int64_t sum = 0;
    uint64_t reserved = 0;
    bool failed = !args || !hashes;
    h->state = exec_reserve(t, q, &reserved);
    if (failed) reply_no_memory(r);
    for (uint32_t s = 0; !failed && s < x->n; s++) {
        h->n_keys = exec_gather(t, q, s, args, hashes);
        if (!h->n_keys) continue;
        h->argv = args;
        h->argc = 1 + h->n_keys * h->key_step;
        h->key_first = 1;
        h->hashes = hashes;
        h->hash = hashes[0];
        h->flags |= HOP_PIECE;
        piece.size = 0;
        run_whole(x->shards[s], h, &piece);
        args_discard_blobs(args, h->argc);
        failed = piece.failed || piece.p[0] == '-';
        if (piece.failed) reply_no_memory(r);
        else if (failed) reply_bytes(r, piece.p, piece.size);
        else if (q->row->merge == MERGE_SUM) sum += strtoll(piece.p + 1, NULL, 10);
    }
    if (!failed && q->row->merge == MERGE_SUM) reply_int(r, sum);
    else if (!failed) reply_ok(r);
    budget_give(&t->server->budget, reserved);
    reply_drop(&piece);
    mi_free(args);
    mi_free(hashes);
}

/* SCAN: from shard to shard while the piece says so. */
static void cursor_on_held(struct thread *t, struct hop *h, struct queued *q, const struct spread *x, struct reply *r) {
    if (x->n == 1) {
        run_whole(x->shards[t->id], h, r);
        return;
    }
    struct reply *pieces = mi_calloc(x->n, sizeof *pieces), **list = mi_calloc(x->n, sizeof *list);
    uint32_t n = 0;
    h->flags |= HOP_PIECE;
    for (uint32_t s = cursor_shard(&q->hop.argv[1], x->n); pieces && list && s < x->n; s++) {
        pieces[n].resp = h->resp;
        run_whole(x->shards[s], h, &pieces[n]);
        h->state = scan_goes_on(&pieces[n]);
        list[n] = &pieces[n];
        n++;
        if (!h->state) break;
    }
    if (n) q->row->merge_custom(h, list, n, r);
    else reply_no_memory(r);
    for (uint32_t i = 0; i < n; i++) reply_drop(&pieces[i]);
    mi_free(pieces);
    mi_free(list);
}

static void wrong_arity(struct queued *q, struct reply *r) {
    reply_errorf(r, "ERR wrong number of arguments for '%s' command", q->row->name);
}

void exec_on_held(struct thread *t, struct conn *c, struct queued *q, const struct spread *x, struct reply *r) {
    struct hop h = exec_hop(c, q);
    r->resp = c->resp;
    if (q->uneven) {
        wrong_arity(q, r);
        return;
    }
    switch ((enum plan)q->row->plan) {
    case PLAN_CONNECTION: conn_run(c, q->row, q->hop.argv, q->hop.argc, r); break;
    case PLAN_SINGLE: run_whole(q->hop.n_keys ? shard_of(t, x, q, 0) : x->shards[t->id], &h, r); break;
    case PLAN_SPREAD:
    case PLAN_EXCLUSIVE: spread_on_held(t, &h, q, x, r); break;
    case PLAN_FANOUT:
        if (q->row->merge == MERGE_EACH) each_on_held(t, &h, q, x, r);
        else pieces_on_held(t, &h, q, x, r);
        break;
    case PLAN_BLOCKING: waiting_on_held(t, x, &h, r); break;
    case PLAN_CURSOR: cursor_on_held(t, &h, q, x, r); break;
    case PLAN_ALL:
    case PLAN_COURSE:
    case PLAN_DISK:
    case PLAN_TRANSACTION: abort(); /* they wait, or are never queued */
    }
}

/* ---- as a group of hops ---- */

/* So that a shard is not busy with it for long. */
#define GROUP_KEYS_MAX (4 * FANOUT_KEYS_MAX)

/* Lies with what was queued, until the tick is retired. */
struct group {
    uint32_t n;          /* hops behind the head */
    struct watcher *who; /* until the head has run */
};

static bool is_muted(const struct conn *c) { return c->reply_off || c->reply_skip; }

bool exec_runs_alone(const struct command *row) { return row->on_shard == monitor_piece; }

static struct group *group_of(const struct hop *h) { return (struct group *)(uintptr_t)h->state; }

uint32_t exec_together(const struct hop *h) { return h->run == exec_head ? group_of(h)->n : 0; }

const struct watch *exec_watched(const struct hop *h) { return h->run == exec_head && group_of(h)->who ? group_of(h)->who->first : NULL; }

static enum hop_result run_nothing(struct shard *s, struct hop *h, struct reply *r) {
    (void)s;
    (void)h;
    (void)r;
    return HOP_DONE;
}

/* Whether what the group watches is as it was. From here on nothing is watched. */
static bool is_untouched(struct shard *s, struct group *g) {
    struct watcher *who = g->who;
    if (__builtin_expect(!who, 1)) return true;
    bool valid = watch_is_valid(s, who);
    g->who = NULL;
    watch_forget(s, who);
    watcher_free(who);
    return valid;
}

enum hop_result exec_head(struct shard *s, struct hop *h, struct reply *r) {
    struct group *g = group_of(h);
    if (is_untouched(s, g)) {
        reply_array(r, g->n);
        return HOP_DONE;
    }
    reply_null_array(r);
    for (struct hop *of = h + 1; of <= h + g->n; of++) {
        of->run = run_nothing;
        of->row = 0; /* it does not count */
    }
    return HOP_DONE;
}

void exec_head_drop(struct shard *s, struct hop *h) {
    if (h->run == exec_head) is_untouched(s, group_of(h));
}

/* The shard that all can be run on as a group, or EVERYWHERE. */
static uint32_t group_shard(const struct thread *t, const struct conn *c) {
    const struct multi *m = c->multi;
    const struct queue *q = &m->queue;
    uint32_t at = q->n ? q->where : NOWHERE;
    bool watches = m->watchers;
    for (uint32_t s = 0; watches && s < t->n_threads; s++)
        if (m->watchers[s]) at = where_both(at, s);
    if (q->n >= BATCH_HOPS || q->n_keys > GROUP_KEYS_MAX) return EVERYWHERE;
    /* What is resolved, or shown, before it is known that nothing was touched must not be felt. Lines for a monitor must not come into a reply. */
    if ((watches && (q->saved || t->monitored)) || c->monitor) return EVERYWHERE;
    return at == NOWHERE ? t->id : at;
}

static void count_one(struct thread *t, struct conn *c, const struct queued *q, uint64_t cycles, const char *text, size_t size) {
    struct command_stats *s = &t->measure.commands[q->row->number];
    s->calls++;
    measure_time(&t->measure, q->row->number, cycles, 1);
    if (cycles >= t->measure.slow_cycles) log_slow(t, c, q->row, q->hop.argv, q->hop.argc, cycles);
    if (!size || *text != '-') return;
    s->failed++;
    t->stats.errors++;
    measure_error(&t->measure, text + 1, size - 1);
}

static void run_saved(struct conn *c, struct queued *q, struct reply *r) {
    if (q->uneven) wrong_arity(q, r);
    else if (exec_runs_alone(q->row)) reply_error(r, "ERR MONITOR isn't allowed for DENY BLOCKING client");
    else conn_run(c, q->row, q->hop.argv, q->hop.argc, r);
}

static void add_saved(struct thread *t, struct conn *c, struct queued *q, uint32_t shard) {
    struct reply *r = conn_output(t, c, true);
    uint64_t start = cycles_now();
    run_saved(c, q, r);
    count_one(t, c, q, cycles_now() - start, r->p, r->size);
    conn_reply_end_within(t, c, r, shard);
}

static void add_one(struct thread *t, struct conn *c, struct queued *q, uint32_t shard) {
    struct hop *h = outbox_add_made(t, shard, c, &q->hop);
    h->flags |= conn_hop_flags(c);
    for (uint32_t i = 0; q->has_blob && i < q->hop.argc; i++)
        if (q->hop.argv[i].flags & ARG_BLOB) tick_add_blob(thread_tick(t), &q->hop.argv[i]);
}

static void add_head(struct thread *t, struct conn *c, struct group *g, uint32_t shard) {
    struct hop head = {
        .run = exec_head, .state = (uint64_t)(uintptr_t)g, .flags = (uint8_t)(HOP_NO_KEY | (conn_hop_flags(c) & HOP_NO_REPLY))};
    struct watcher **watchers = multi_take_watchers(c->multi);
    *g = (struct group){.n = c->multi->queue.n, .who = watchers ? watchers[shard] : NULL};
    mi_free(watchers);
    outbox_reserve(t, shard, g->n + 1, g->n);
    outbox_add_made(t, shard, c, &head);
}

/* False: no memory, nothing was done. */
static bool run_as_group(struct thread *t, struct conn *c, uint32_t shard) {
    struct queue *queue = &c->multi->queue;
    struct group *g = queue_room(queue, sizeof *g);
    if (!g) return false;
    add_head(t, c, g, shard);
    t->stats.commands += queue->n;
    for (struct queued *q = queue->first; q; q = q->next) {
        if (q->saved) add_saved(t, c, q, shard);
        else add_one(t, c, q, shard);
        if (__builtin_expect(t->monitored, 0)) monitor_feed(t, c, q->row, q->hop.argv, q->hop.argc);
    }
    queue_to_tick(queue, thread_tick(t));
    return true;
}

/* ---- what takes longer ---- */

static void hide_blobs(struct queued *q) {
    for (uint32_t i = 0; i < q->hop.argc; i++) q->hop.argv[i].flags &= ~(uint32_t)ARG_BLOB;
}

static void show_blobs(struct queued *q) {
    for (uint32_t i = 0; i < q->hop.argc; i++)
        if (q->hop.argv[i].flags & ARG_WAS_BLOB) q->hop.argv[i].flags |= ARG_BLOB;
}

static void drop(struct exec *x) {
    for (uint32_t i = 0; x->keeps_blobs && i < x->n; i++) show_blobs(x->commands[i]);
    watchers_free(x->watchers, server.n_threads);
    reply_drop(&x->saved);
    exec_shards_drop(x);
    budget_give(&server.budget, x->reserved);
    queue_drop(&x->queue);
    mi_free(x->commands);
    mi_free(x->hops);
    mi_free(x->results);
    mi_free(x);
}

/* A command of the connection, or one that is refused: its reply, until its turn. */
void exec_resolve_one(struct conn *c, struct queued *q, struct exec *x, struct result *result) {
    size_t before = x->saved.size;
    uint64_t start = cycles_now();
    x->saved.resp = c->resp;
    run_saved(c, q, &x->saved);
    result->saved.size = (uint32_t)(x->saved.size - before);
    result->cycles = cycles_now() - start;
}

void exec_count(struct thread *t, struct exec *x, uint32_t nth, const char *text, size_t size) {
    const struct queued *q = x->commands[nth];
    const struct result *result = &x->results[nth];
    struct conn *c = x->conn;
    uint16_t db = c->db;
    t->stats.commands++;
    c->db = result->db;
    count_one(t, c, q, result->cycles, text, size);
    if (__builtin_expect(t->monitored, 0) && x->keeps_blobs) monitor_feed(t, c, q->row, q->hop.argv, q->hop.argc);
    c->db = db;
}

/* Outside MULTI again. EXEC shows itself to those who monitor behind what it ran. */
static void end(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    multi_end(t, c);
    if (__builtin_expect(t->monitored, 0)) monitor_feed(t, c, row, argv, argc);
}

/* ---- while all shards are held ---- */

/* When dispatch has forgotten of CLIENT REPLY SKIP. */
void exec_begin_skip(struct exec *x) { x->conn->reply_skip |= x->skipped; }
void exec_end_skip(struct exec *x) {
    x->conn->reply_skip = x->conn->reply_skip_next; /* of a command inside: it is for the one behind EXEC */
    x->conn->reply_skip_next = false;
}

static void forget_watched(struct exec *x, const struct spread *held) {
    for (uint32_t s = 0; x->watchers && s < held->n; s++) {
        if (!x->watchers[s]) continue;
        if (!watch_is_valid(held->shards[s], x->watchers[s])) x->aborted = true;
        watch_forget(held->shards[s], x->watchers[s]);
    }
}

static struct reply *held_output(struct thread *t, struct task *k, struct exec *x) {
    struct reply *r = conn_output(t, course_conn(k), is_muted(x->conn));
    x->reply_at = r->size;
    x->started = cycles_now();
    return r;
}

static void held_one_done(struct thread *t, struct exec *x, struct reply *r) {
    x->results[x->at].cycles = cycles_now() - x->started;
    x->results[x->at].db = x->conn->db;
    exec_count(t, x, x->at, r->p ? r->p + x->reply_at : "", r->size - x->reply_at);
    if (r == &t->scratch) conn_drop_unwanted(t);
    x->at++;
}

/* Runs the next one. False: it waits. */
static bool held_next(struct thread *t, struct task *k, struct exec *x) {
    struct queued *q = x->commands[x->at];
    struct conn *c = x->conn;
    struct reply *r = held_output(t, k, x);
    if (exec_runs_alone(q->row)) {
        reply_error(r, "ERR MONITOR isn't allowed for DENY BLOCKING client");
    } else if (q->row->plan == PLAN_DISK) {
        x->state = EXEC_DISK;
        if (course_disk(t, k, q->row, r == &t->scratch)) return false;
        reply_no_memory(r);
    } else if (q->row->plan == PLAN_ALL) {
        x->state = EXEC_EVERYWHERE;
        if (course_everywhere(t, k, &(struct task_command){q->row, q->hop.argv, q->hop.argc})) return false;
        course_merge(t, k, r == &t->scratch);
    } else {
        bool muted = is_muted(c);
        exec_on_held(t, c, q, course_held(k), r);
        if (muted && !is_muted(c)) { /* CLIENT REPLY ON is answered itself */
            struct reply *out = conn_output(t, course_conn(k), false);
            x->reply_at = out->size;
            reply_bytes(out, r->p, r->size);
            r = out;
        }
    }
    held_one_done(t, x, r);
    return true;
}

/* A command that waited is back. */
static void held_back(struct thread *t, struct task *k, struct exec *x) {
    bool muted = is_muted(x->conn);
    struct reply *r = conn_output(t, x->conn, muted);
    x->reply_at = r->size; /* what was there before may be sent meanwhile */
    if (x->state == EXEC_EVERYWHERE) course_merge(t, k, muted);
    held_one_done(t, x, r);
}

/* False: it waits. */
static bool held_run(struct thread *t, struct task *k, struct exec *x) {
    struct conn *c = x->conn;
    if (x->state == EXEC_TOKEN) {
        forget_watched(x, course_held(k));
        exec_begin_skip(x);
        struct reply *r = conn_output(t, course_conn(k), is_muted(c));
        if (x->aborted) reply_null_array(r);
        else reply_array(r, x->n);
    } else held_back(t, k, x);
    x->state = EXEC_HELD;
    while (!x->aborted && x->at < x->n)
        if (!held_next(t, k, x)) return false;
    exec_end_skip(x);
    course_let_go(t, k);
    return true;
}

/* ---- its course ---- */

void exec_over(struct thread *t, struct task *k, struct exec *x) {
    const struct task_command own = course_command(k);
    struct conn *c = x->conn;
    drop(x);
    end(t, c, own.row, own.argv, own.argc);
    course_end(t, k);
}

void exec_hold_all(struct thread *t, struct task *k, struct exec *x) {
    x->state = EXEC_TOKEN;
    course_hold(t, k);
}

static void go_on(struct thread *t, struct task *k, void *of) {
    struct exec *x = of;
    if (x->state <= EXEC_LEAVING) {
        exec_shards_go_on(t, k, x);
        return;
    }
    if (held_run(t, k, x)) exec_over(t, k, x);
}

static void gave_up(struct thread *t, struct task *k, void *of) { exec_hold_all(t, k, of); }

/* No shard may know of a watcher that is gone. */
static void drop_of(void *of) {
    struct exec *x = of;
    for (uint32_t s = 0; x->watchers && s < server.n_threads; s++)
        if (x->watchers[s]) watch_forget(server.threads[s]->shard, x->watchers[s]);
    drop(x);
}

static const struct task_course course = {.on = go_on, .gave_up = gave_up, .drop = drop_of};

/* Everything but what is queued and watched. */
static struct exec *exec_new(struct conn *c) {
    struct exec *x = mi_calloc(1, sizeof *x);
    uint32_t n = c->multi->queue.n;
    if (!x) return NULL;
    x->conn = c;
    x->commands = mi_malloc((n + 1) * sizeof *x->commands);
    x->results = mi_calloc(n + 1, sizeof *x->results);
    x->hops = mi_malloc_aligned((n + 1) * sizeof *x->hops, 64);
    x->skipped = c->reply_skip;
    if (x->commands && x->results && x->hops) return x;
    drop(x);
    return NULL;
}

static void take_over(struct thread *t, struct exec *x) {
    struct multi *m = x->conn->multi;
    x->queue = multi_take_queue(m);
    x->watchers = multi_take_watchers(m);
    x->keeps_blobs = t->monitored;
    for (struct queued *q = x->queue.first; q; q = q->next) {
        if (x->keeps_blobs) hide_blobs(q);
        x->commands[x->n++] = q;
    }
}

static void no_memory(struct thread *t, struct conn *c) {
    struct reply *r = conn_reply_begin(t, c);
    multi_end(t, c);
    reply_no_memory(r);
    conn_reply_end(t, c, r);
}

static void run_as_task(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    struct exec *x = exec_new(c);
    struct task *k = x ? course_start(t, c, &(struct task_command){row, argv, argc}, &course, x) : NULL;
    if (!k) {
        if (x) drop(x);
        no_memory(t, c);
        return;
    }
    take_over(t, x);
    if (!exec_shards_begin(t, k, x)) exec_hold_all(t, k, x);
}

bool exec_start(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    struct command_stats *s = &t->measure.commands[row->number];
    uint64_t start = cycles_now();
    if (multi_is_touched(c->multi, t->n_threads)) {
        struct reply *r = conn_reply_begin(t, c);
        reply_null_array(r);
        conn_reply_end(t, c, r);
    } else {
        uint32_t shard = group_shard(t, c);
        if (shard == EVERYWHERE) {
            if (!conn_drained(t, c)) return false;
            run_as_task(t, c, row, argv, argc);
            return true;
        }
        if (!run_as_group(t, c, shard)) {
            no_memory(t, c);
            return true;
        }
    }
    s->calls++;
    if (t->measure.weight) measure_time(&t->measure, row->number, cycles_now() - start, t->measure.weight);
    end(t, c, row, argv, argc);
    return true;
}
