/* In this file: one command on shards that are held; a transaction: what is kept of it, where it runs, the two ways, and its end.
 *
 *   state   | what it is                                          | leaves to
 *   PIECE   | one piece is on its way to the shard of all keys    | done
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
    return (struct hop){.origin = c,
        .hash = q->n_keys ? q->hashes[0] : 0,
        .run = q->row->on_shard,
        .argv = q->argv,
        .hashes = q->n_keys > 1 ? q->hashes : NULL,
        .argc = q->argc,
        .db = c->db,
        .resp = c->resp,
        .flags = (uint8_t)(conn_hop_flags(c, q->row) | (q->n_keys ? 0 : HOP_NO_KEY)),
        .n_keys = q->n_keys,
        .key_first = (uint8_t)q->row->key_first,
        .key_step = (uint8_t)q->row->key_step,
        .row = q->row->number};
}

static void run_whole(struct shard *s, struct hop *h, struct reply *r) { hop_run_whole(s, h, r); }

static struct shard *shard_of(struct thread *t, const struct spread *x, const struct queued *q, uint32_t nth) {
    return x->shards[thread_shard_of(t, exec_key(q, nth), q->hashes[nth])];
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

static void spread_on_held(struct thread *t, struct hop *h, const struct queued *q, const struct spread *x, struct reply *r) {
    h->hashes = q->hashes;
    q->row->on_spread(x, h, r);
    if (h->state) go_on_aside(t, x->shards[t->id], h, r);
    if (q->row->plan == PLAN_EXCLUSIVE) thread_take_config(t);
}

/* A value a key, one after the other. */
static void each_on_held(struct thread *t, struct hop *h, const struct queued *q, const struct spread *x, struct reply *r) {
    reply_array(r, q->n_keys);
    h->flags |= HOP_PIECE;
    h->n_keys = 1;
    h->hashes = NULL;
    for (uint32_t i = 0; i < q->n_keys; i++) {
        h->hash = q->hashes[i];
        h->argv = (struct arg *)(uintptr_t)exec_key(q, i) - h->key_first; /* as if it were the first key */
        run_whole(shard_of(t, x, q, i), h, r);
    }
}

uint32_t exec_gather(struct thread *t, const struct queued *q, uint32_t shard, struct arg *args, uint64_t *hashes) {
    uint32_t n = 0, step = (uint32_t)q->row->key_step;
    struct arg *to = args;
    *to++ = q->argv[0];
    for (uint32_t i = 0; i < q->n_keys; i++) {
        struct arg *from = (struct arg *)(uintptr_t)exec_key(q, i);
        if (thread_shard_of(t, from, q->hashes[i]) != shard) continue;
        hashes[n++] = q->hashes[i];
        for (uint32_t j = 0; j < step; j++) {
            *to++ = from[j];
            from[j].flags &= ~(uint32_t)ARG_BLOB;
        }
    }
    return n;
}

/* A sum, or OK or the first error, of a piece for every shard. */
static void pieces_on_held(struct thread *t, struct hop *h, const struct queued *q, const struct spread *x, struct reply *r) {
    struct arg *args = mi_malloc((q->n_keys * h->key_step + 1) * sizeof *args);
    uint64_t *hashes = mi_malloc(q->n_keys * sizeof *hashes);
    struct reply piece = {.resp = h->resp};
    int64_t sum = 0;
    bool failed = !args || !hashes;
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
    reply_drop(&piece);
    mi_free(args);
    mi_free(hashes);
}

/* SCAN: from shard to shard while the piece says so. */
static void cursor_on_held(struct thread *t, struct hop *h, const struct queued *q, const struct spread *x, struct reply *r) {
    if (x->n == 1) {
        run_whole(x->shards[t->id], h, r);
        return;
    }
    struct reply *pieces = mi_calloc(x->n, sizeof *pieces), **list = mi_calloc(x->n, sizeof *list);
    uint32_t n = 0;
    h->flags |= HOP_PIECE;
    for (uint32_t s = cursor_shard(&q->argv[1], x->n); pieces && list && s < x->n; s++) {
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

static void wrong_arity(const struct queued *q, struct reply *r) {
    reply_errorf(r, "ERR wrong number of arguments for '%s' command", q->row->name);
}

void exec_on_held(struct thread *t, struct conn *c, const struct queued *q, const struct spread *x, struct reply *r) {
    struct hop h = exec_hop(c, q);
    r->resp = c->resp;
    if (q->uneven) {
        wrong_arity(q, r);
        return;
    }
    switch ((enum plan)q->row->plan) {
    case PLAN_CONNECTION: conn_run(c, q->row, q->argv, q->argc, r); break;
    case PLAN_SINGLE: run_whole(q->n_keys ? shard_of(t, x, q, 0) : x->shards[t->id], &h, r); break;
    case PLAN_SPREAD:
    case PLAN_EXCLUSIVE: spread_on_held(t, &h, q, x, r); break;
    case PLAN_FANOUT:
        if (q->row->merge == MERGE_EACH) each_on_held(t, &h, q, x, r);
        else pieces_on_held(t, &h, q, x, r);
        break;
    case PLAN_BLOCKING: waiting_on_held(t, x, &h, r); break;
    case PLAN_CURSOR: cursor_on_held(t, &h, q, x, r); break;
    case PLAN_ALL:
    case PLAN_DISK:
    case PLAN_TRANSACTION: abort(); /* they wait, or are never queued */
    }
}

/* ---- a transaction ---- */

static void hide_blobs(struct queued *q) {
    for (uint32_t i = 0; i < q->argc; i++) q->argv[i].flags &= ~(uint32_t)ARG_BLOB;
}

static void show_blobs(struct queued *q) {
    for (uint32_t i = 0; i < q->argc; i++)
        if (q->argv[i].flags & ARG_WAS_BLOB) q->argv[i].flags |= ARG_BLOB;
}

static void drop(struct exec *x) {
    for (uint32_t i = 0; x->keeps_blobs && i < x->n; i++) show_blobs(x->commands[i]);
    queue_drop(x->commands, x->n);
    watchers_free(x->watchers, server.n_threads);
    reply_drop(&x->saved);
    exec_shards_drop(x);
    mi_free(x->hops);
    mi_free(x->results);
    mi_free(x->intents);
    mi_free(x);
}

static bool is_muted(const struct conn *c) { return c->reply_off || c->reply_skip; }

static bool runs_alone(const struct command *row) { return row->on_shard == monitor_piece; }

bool exec_is_saved(const struct queued *q) { return q->uneven || q->row->plan == PLAN_CONNECTION || runs_alone(q->row); }

/* ---- where it runs ---- */

#define NOWHERE UINT32_MAX
#define EVERYWHERE (UINT32_MAX - 1)

static uint32_t both(uint32_t a, uint32_t b) { return a == NOWHERE || a == b ? b : b == NOWHERE ? a : EVERYWHERE; }

static uint32_t where_one(struct thread *t, const struct queued *q) {
    uint32_t where = NOWHERE;
    switch ((enum plan)q->row->plan) {
    case PLAN_CONNECTION: return NOWHERE;
    case PLAN_SINGLE:
        if (!q->n_keys) return t->id;
        break;
    case PLAN_BLOCKING:
    case PLAN_FANOUT: break;
    case PLAN_SPREAD:
        if (!q->n_keys) return t->id;
        if (q->row->flags & CMD_SLICED) return EVERYWHERE;
        break;
    default: return runs_alone(q->row) ? NOWHERE : EVERYWHERE;
    }
    for (uint32_t i = 0; i < q->n_keys && where != EVERYWHERE; i++) where = both(where, thread_shard_of(t, exec_key(q, i), q->hashes[i]));
    return where;
}

/* The shard of all keys; NOWHERE: there are none; EVERYWHERE: there is no such shard, or it takes more. */
static uint32_t where(struct thread *t, const struct exec *x) {
    uint32_t at = NOWHERE;
    bool session = false;
    for (uint32_t s = 0; x->watchers && s < t->n_threads; s++)
        if (x->watchers[s]) at = both(at, s);
    bool watches = at != NOWHERE;
    for (uint32_t i = 0; i < x->n && at != EVERYWHERE; i++) {
        at = both(at, where_one(t, x->commands[i]));
        session |= (x->commands[i]->row->flags & (CMD_SESSION | CMD_PROTECTED)) && x->commands[i]->row->plan == PLAN_CONNECTION;
    }
    /* What is resolved before it is known that nothing was touched must be nothing that is felt. (A database can be put back.) */
    return session && watches ? EVERYWHERE : at;
}

/* ---- as one piece ---- */

static enum hop_result run_saved(struct shard *s, struct hop *h, struct reply *r) {
    (void)s;
    reply_bytes(r, h->argv[0].p, h->argv[0].size);
    return HOP_DONE;
}

enum hop_result exec_run_spread(struct shard *s, struct hop *h, struct reply *r) {
    struct spread x = {&s, 1};
    command_by_number(h->row)->on_spread(&x, h, r);
    return HOP_DONE;
}

/* A command of the connection, or one that is refused: its reply, until its turn. */
void exec_resolve_one(struct thread *t, struct conn *c, const struct queued *q, struct exec *x, struct result *result) {
    size_t before = x->saved.size;
    uint64_t start = cycles_now();
    (void)t;
    x->saved.resp = c->resp;
    if (q->uneven) wrong_arity(q, &x->saved);
    else if (runs_alone(q->row)) reply_error(&x->saved, "ERR MONITOR isn't allowed for DENY BLOCKING client");
    else conn_run(c, q->row, q->argv, q->argc, &x->saved);
    result->saved.size = (uint32_t)(x->saved.size - before);
    result->cycles = cycles_now() - start;
}

/* Makes the hops, and resolves what needs no shard, in order: each with the connection's state of its turn. */
static void resolve(struct thread *t, struct exec *x) {
    struct conn *c = x->conn;
    x->head = !is_muted(c);
    for (uint32_t i = 0; i < x->n; i++) {
        const struct queued *q = x->commands[i];
        bool saved = exec_is_saved(q);
        if (saved) exec_resolve_one(t, c, q, x, &x->results[i]);
        x->hops[i] = exec_hop(c, q);
        x->results[i].db = c->db;
        if (is_muted(c)) x->hops[i].flags |= HOP_NO_REPLY;
        if (q->row->plan == PLAN_SPREAD) x->hops[i].run = exec_run_spread;
        if (!saved) continue;
        x->hops[i].run = run_saved;
        x->hops[i].argv = &x->results[i].saved;
        x->hops[i].argc = 1;
        x->hops[i].n_keys = 0;
        x->hops[i].key_first = 0;
        x->hops[i].flags = (uint8_t)(HOP_NO_KEY | (x->hops[i].flags & HOP_NO_REPLY));
    }
    size_t at = 0; /* only now the replies lie still */
    for (uint32_t i = 0; i < x->n; i++) {
        if (!x->results[i].saved.size) continue;
        x->results[i].saved.p = x->saved.p + at;
        at += x->results[i].saved.size;
    }
}

struct running {
    struct exec *x;
    struct shard *s;
    struct reply *r;
    uint64_t last; /* cycles: the end of the one before */
};

static inline __attribute__((always_inline)) void run_one(void *ctx, struct hop *h) {
    struct running *run = ctx;
    struct result *result = &run->x->results[h - run->x->hops];
    struct reply *r = run->r;
    uint32_t n_refs = r->n_refs;
    result->at = r->size;
    r->resp = h->resp;
    run_whole(run->s, h, r);
    uint64_t now = cycles_now();
    result->cycles += now - run->last;
    run->last = now;
    if (__builtin_expect(h->flags & HOP_NO_REPLY, 0)) reply_cut(run->s, r, result->at, n_refs);
}

/* The member that waits for transactions in the name of a piece, with intents on all its keys and what is watched there. Of whoever holds the shard. */
static struct member *member_of(const struct hop *h) {
    struct exec *x = (struct exec *)(uintptr_t)h->state;
    const struct watcher *who = x->watchers ? x->watchers[x->shard] : NULL;
    uint32_t n = 1 + (who ? who->n : 0);
    bool writes = false;
    for (uint32_t i = 0; i < x->n; i++) {
        n += x->hops[i].n_keys;
        writes |= x->hops[i].flags & HOP_WRITE;
    }
    struct intent *to = x->intents = mi_malloc(n * sizeof *to);
    if (!to) abort(); /* it can neither run now nor wait */
    intent_on_database(to++, INTENT_DB, writes ? INTENT_WRITE_WITHIN : INTENT_READ_WITHIN);
    for (const struct watch *w = who ? who->first : NULL; w; w = w->next_of) intent_on_key(to++, INTENT_DB, w->in.hash, false);
    for (uint32_t i = 0; i < x->n; i++)
        for (uint32_t j = 0; j < x->hops[i].n_keys; j++)
            intent_on_key(to++, INTENT_DB, hop_hash(&x->hops[i], j), x->hops[i].flags & HOP_WRITE);
    x->member = (struct member){.local = true, .intents = x->intents, .n_intents = n};
    return &x->member;
}

enum hop_result exec_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct exec *x = (struct exec *)(uintptr_t)h->state;
    struct watcher *who = x->watchers ? x->watchers[s->id] : NULL;
    if (who) {
        x->aborted = !watch_is_valid(s, who);
        watch_forget(s, who);
        if (x->aborted) return HOP_DONE;
    }
    if (x->head) reply_array(r, x->n);
    struct running run = {x, s, r, cycles_now()};
    batch_run(s, x->hops, x->n, true, run_one, &run);
    return HOP_DONE;
}

/* ---- afterwards ---- */

void exec_count(struct thread *t, struct exec *x, uint32_t nth, const char *text, size_t size) {
    const struct queued *q = x->commands[nth];
    const struct result *result = &x->results[nth];
    struct command_stats *s = &t->measure.commands[q->row->number];
    struct conn *c = x->conn;
    uint16_t db = c->db;
    t->stats.commands++;
    s->calls++;
    measure_time(&t->measure, q->row->number, result->cycles, 1);
    if (result->cycles >= t->measure.slow_cycles) log_slow(t, c, q->row, q->argv, q->argc, result->cycles);
    c->db = result->db;
    if (__builtin_expect(t->monitored, 0) && x->keeps_blobs) monitor_feed(t, c, q->row, q->argv, q->argc);
    c->db = db;
    if (!size || *text != '-') return;
    s->failed++;
    t->stats.errors++;
    measure_error(&t->measure, text + 1, size - 1);
}

static void count_all(struct thread *t, struct exec *x, const struct reply *r) {
    for (uint32_t i = 0; i < x->n; i++) {
        size_t at = x->results[i].at, end = i + 1 < x->n ? x->results[i + 1].at : r->size;
        exec_count(t, x, i, r->p + at, r->failed || end < at ? 0 : end - at);
    }
}

/* Outside MULTI again. EXEC shows itself to those who monitor behind what it ran. */
static void end(struct thread *t, struct exec *x, const struct command *row, struct arg *argv, uint32_t argc) {
    struct conn *c = x->conn;
    multi_end(t, c);
    if (__builtin_expect(t->monitored, 0)) monitor_feed(t, c, row, argv, argc);
    drop(x);
}

static void piece_done(struct thread *t, struct task *k, struct exec *x) {
    struct conn *c = x->conn;
    if (x->aborted) {
        c->db = x->db;
        struct reply *r = conn_output(t, course_conn(k), is_muted(c) || x->skipped);
        reply_null_array(r);
    } else count_all(t, x, course_piece_reply(k, x->shard));
    course_take(t, k);
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

static void drop_unwanted(struct thread *t, struct reply *r) {
    for (uint32_t i = 0; i < r->n_refs; i++) outbox_release_blob(t, r->refs[i].blob);
    r->size = r->n_refs = r->refs_bytes = 0;
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
    if (r == &t->scratch) drop_unwanted(t, r);
    x->at++;
}

/* Runs the next one. False: it waits. */
static bool held_next(struct thread *t, struct task *k, struct exec *x) {
    const struct queued *q = x->commands[x->at];
    struct conn *c = x->conn;
    struct reply *r = held_output(t, k, x);
    if (runs_alone(q->row)) {
        reply_error(r, "ERR MONITOR isn't allowed for DENY BLOCKING client");
    } else if (q->row->plan == PLAN_DISK) {
        x->state = EXEC_DISK;
        if (course_disk(t, k, q->row, r == &t->scratch)) return false;
        reply_no_memory(r);
    } else if (q->row->plan == PLAN_ALL) {
        x->state = EXEC_EVERYWHERE;
        if (course_everywhere(t, k, &(struct task_command){q->row, q->argv, q->argc})) return false;
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
    end(t, x, own.row, own.argv, own.argc);
    course_end(t, k);
}

void exec_hold_all(struct thread *t, struct task *k, struct exec *x) {
    x->state = EXEC_TOKEN;
    course_hold(t, k);
}

static void go_on(struct thread *t, struct task *k, void *of) {
    struct exec *x = of;
    if (x->state >= EXEC_SCHEDULED && x->state <= EXEC_LEAVING) {
        exec_shards_go_on(t, k, x);
        return;
    }
    if (x->state == EXEC_PIECE) piece_done(t, k, x);
    else if (!held_run(t, k, x)) return;
    exec_over(t, k, x);
}

static void gave_up(struct thread *t, struct task *k, void *of) { exec_hold_all(t, k, of); }

/* No shard may know of a watcher that is gone. */
static void drop_of(void *of) {
    struct exec *x = of;
    for (uint32_t s = 0; x->watchers && s < server.n_threads; s++)
        if (x->watchers[s]) watch_forget(server.threads[s]->shard, x->watchers[s]);
    drop(x);
}

static const struct task_course course = {.on = go_on, .gave_up = gave_up, .drop = drop_of, .member = member_of};

static void reply_at_once(struct thread *t, struct conn *c, struct exec *x, const struct command *row, struct arg *argv, uint32_t argc) {
    struct command_stats *s = &t->measure.commands[row->number];
    uint64_t start = cycles_now();
    bool head = !is_muted(c);
    struct reply text = {.resp = c->resp};
    resolve(t, x);
    if (head) reply_array(&text, x->n);
    for (uint32_t i = 0; i < x->n; i++) {
        x->results[i].at = text.size;
        if (!(x->hops[i].flags & HOP_NO_REPLY)) reply_bytes(&text, x->results[i].saved.p, x->results[i].saved.size);
    }
    struct reply *r = conn_output(t, c, false);
    reply_bytes(r, text.p, text.size);
    r->failed |= text.failed | x->saved.failed;
    conn_mark(t, c);
    count_all(t, x, &text);
    reply_drop(&text);
    s->calls++;
    measure_time(&t->measure, row->number, cycles_now() - start, 1);
    end(t, x, row, argv, argc);
}

static struct exec *exec_new(struct thread *t, struct conn *c) {
    struct exec *x = mi_calloc(1, sizeof *x);
    if (!x) return NULL;
    uint32_t n = c->multi->n;
    x->conn = c;
    x->results = mi_calloc(n ? n : 1, sizeof *x->results);
    x->hops = mi_malloc_aligned((n ? n : 1) * sizeof *x->hops, 64);
    x->db = c->db;
    x->skipped = c->reply_skip;
    (void)t;
    if (!x->results || !x->hops) {
        drop(x);
        return NULL;
    }
    return x;
}

static void no_memory(struct thread *t, struct conn *c) {
    struct reply *r = conn_reply_begin(t, c);
    multi_end(t, c);
    reply_no_memory(r);
    conn_reply_end(t, c, r);
}

void exec_start(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    struct exec *x = exec_new(t, c);
    if (!x) {
        no_memory(t, c);
        return;
    }
    bool touched = multi_is_touched(c->multi, t->n_threads);
    if (touched) {
        struct reply *r = conn_reply_begin(t, c);
        reply_null_array(r);
        conn_reply_end(t, c, r);
        t->measure.commands[row->number].calls++;
        end(t, x, row, argv, argc);
        return;
    }
    uint32_t n;
    x->commands = multi_take_queue(c->multi, &n);
    x->n = n;
    x->watchers = multi_take_watchers(c->multi);
    x->keeps_blobs = t->monitored;
    for (uint32_t i = 0; x->keeps_blobs && i < n; i++) hide_blobs(x->commands[i]);
    x->shard = where(t, x);
    if (x->shard == NOWHERE) {
        reply_at_once(t, c, x, row, argv, argc);
        return;
    }
    struct task *k = course_start(t, c, &(struct task_command){row, argv, argc}, &course, x);
    if (!k) {
        c->multi->watchers = x->watchers; /* to be told to the shards */
        x->watchers = NULL;
        drop(x);
        no_memory(t, c);
        return;
    }
    if (x->shard == EVERYWHERE) {
        if (!exec_shards_begin(t, k, x)) exec_hold_all(t, k, x);
        return;
    }
    resolve(t, x);
    course_send(t, k, x->shard, (uint64_t)(uintptr_t)x, true, false);
}
