/* In this file: queueing; MULTI and DISCARD; the keys that are watched; WATCH; EXEC's first questions; the rows. */
#include "server/multi.h"

#include <mimalloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/course.h"
#include "server/exec.h"
#include "server/lend.h"
#include "server/monitor.h"
#include "shard/keyspace.h"

#define WATCHES_A_SLICE 256u /* keys that a shard registers in one go: about 50 us */

static struct multi *multi_of(struct conn *c) {
    if (!c->multi) c->multi = mi_calloc(1, sizeof *c->multi);
    return c->multi;
}

/* ---- the queue ---- */

/* Blocks double from the first, which has room for ten short commands, to the largest. */
#define BLOCK_FIRST 2048u
#define BLOCK_MAX 65536u

struct queue_block {
    struct queue_block *next;
    size_t capacity, used;
    char bytes[];
};

static __attribute__((noinline)) void *new_block(struct queue *q, size_t size) {
    size_t capacity = q->blocks ? 2 * (sizeof *q->blocks + q->blocks->capacity) : BLOCK_FIRST;
    if (capacity > BLOCK_MAX) capacity = BLOCK_MAX;
    capacity -= sizeof(struct queue_block);
    if (capacity < size) capacity = size;
    struct queue_block *b = mi_malloc(sizeof *b + capacity);
    if (!b) return NULL;
    *b = (struct queue_block){.next = q->blocks, .capacity = capacity, .used = size};
    q->blocks = b;
    return b->bytes;
}

void *queue_room(struct queue *q, size_t size) {
    struct queue_block *b = q->blocks;
    size = (size + 7) & ~(size_t)7;
    if (!b || b->capacity - b->used < size) return new_block(q, size);
    b->used += size;
    return b->bytes + b->used - size;
}

/* False: they are no whole pairs. */
static bool find_keys(const struct thread *t, const struct command *row, const struct arg *argv, uint32_t argc, struct key_range *out) {
    *out = (struct key_range){.n = 1, .first = (uint8_t)row->key_first, .step = (uint8_t)row->key_step};
    if (!row->find_keys && row->key_first > 0 && row->key_last == row->key_first) return true;
    bool even = command_keys(row, argv, argc, out);
    out->anywhere &= t->n_threads > 1;
    return even;
}

/* Blobs pass to the copy; what lies around the arguments is copied with them, since they lie in one piece. */
static void copy_args(struct queued *q, struct arg *argv, uint32_t argc, char *to) {
    struct arg *copy = q->hop.argv;
    if (q->has_blob) {
        for (uint32_t i = 0; i < argc; i++) {
            copy[i] = argv[i];
            if (argv[i].flags & ARG_BLOB) {
                copy[i].flags |= ARG_WAS_BLOB;
                argv[i].flags &= ~(uint32_t)ARG_BLOB;
                continue;
            }
            memcpy(to, argv[i].p, argv[i].size);
            copy[i].p = to;
            to += argv[i].size;
        }
        return;
    }
    ptrdiff_t moved = to - argv[0].p;
    memcpy(to, argv[0].p, (size_t)(argv[argc - 1].p - argv[0].p) + argv[argc - 1].size);
    for (uint32_t i = 0; i < argc; i++) copy[i] = (struct arg){argv[i].p + moved, argv[i].size, 0};
}

/* Bytes of the arguments' copy. */
static size_t args_size(const struct thread *t, const struct arg *argv, uint32_t argc) {
    size_t size = 0;
    if (!t->argv_has_blob) return (size_t)(argv[argc - 1].p - argv[0].p) + argv[argc - 1].size;
    for (uint32_t i = 0; i < argc; i++) size += argv[i].flags & ARG_BLOB ? 0 : argv[i].size;
    return size;
}

/* Nothing comes between commands of a transaction, so none is sliced; but what is a piece for each shard has its own way. */
static hop_fn *run_of(const struct command *row) {
    if (row->flags & CMD_SLICED) return row->on_shard;
    return row->plan == PLAN_SPREAD ? spread_on_one : hop_to_its_end;
}

static struct queued *keep(struct thread *t, struct queue *of, const struct command *row, struct arg *argv, uint32_t argc) {
    struct key_range keys;
    bool uneven = !find_keys(t, row, argv, argc, &keys);
    uint32_t n_keys = keys.n, n_hashes = n_keys > 1 ? n_keys : 0;
    struct queued *q = queue_room(of, sizeof *q + argc * sizeof *argv + n_hashes * sizeof(uint64_t) + args_size(t, argv, argc));
    if (!q) return NULL;
    struct arg *copy = (struct arg *)(q + 1);
    uint64_t *hashes = (uint64_t *)(copy + argc);
    *q = (struct queued){.row = row,
        .saved = uneven || row->plan == PLAN_CONNECTION || exec_runs_alone(row),
        .uneven = uneven,
        .has_blob = t->argv_has_blob,
        .anywhere = keys.anywhere,
        .hop = {.run = run_of(row),
            .argv = copy,
            .hashes = n_hashes ? hashes : NULL,
            .argc = argc,
            .flags = (uint8_t)(row_hop_flags(row) | (n_hashes ? HOP_TIMED : 0) | (n_keys ? 0 : HOP_NO_KEY)),
            .n_keys = n_keys,
            .key_first = (uint8_t)row->key_first,
            .key_step = keys.step,
            .row = row->number}};
    copy_args(q, argv, argc, (char *)(hashes + n_hashes));
    if (n_keys) q->hop.hash = hash_key(&t->server->secret, copy[row->key_first].p, copy[row->key_first].size);
    for (uint32_t i = 0; i < n_hashes; i++)
        hashes[i] = i ? hash_key(&t->server->secret, hop_key(&q->hop, i)->p, hop_key(&q->hop, i)->size) : q->hop.hash;
    return q;
}

/* Where a command can be run as one hop. */
static uint32_t where_one(const struct thread *t, const struct queued *q) {
    uint32_t where = NOWHERE;
    if (q->saved) return NOWHERE;
    switch ((enum plan)q->row->plan) {
    case PLAN_SINGLE:
        if (!q->hop.n_keys) return t->id;
        break;
    case PLAN_BLOCKING:
    case PLAN_FANOUT: break;
    case PLAN_SPREAD:
        if (!q->hop.n_keys) return t->id;
        if (q->row->flags & CMD_SLICED || q->anywhere) return EVERYWHERE;
        break;
    default: return EVERYWHERE;
    }
    for (uint32_t i = 0; i < q->hop.n_keys && where != EVERYWHERE; i++)
        where = where_both(where, thread_shard_of(t, hop_key(&q->hop, i), hop_hash(&q->hop, i)));
    return where;
}

static void append(const struct thread *t, struct queue *of, struct queued *q) {
    if (of->last) of->last->next = q;
    else {
        of->first = q;
        of->where = NOWHERE;
    }
    of->last = q;
    of->n++;
    of->n_keys += q->hop.n_keys;
    of->where = where_both(of->where, where_one(t, q));
    of->saved |= q->saved;
}

void queue_drop(struct queue *q) {
    for (const struct queued *one = q->first; one; one = one->next)
        if (one->has_blob) args_discard_blobs(one->hop.argv, one->hop.argc);
    for (struct queue_block *b = q->blocks, *next; b; b = next) {
        next = b->next;
        mi_free(b);
    }
    *q = (struct queue){0};
}

void queue_to_tick(struct queue *q, struct tick *k) {
    for (struct queue_block *b = q->blocks, *next; b; b = next) {
        next = b->next;
        tick_add_memory(k, b);
    }
    *q = (struct queue){0};
}

/* Of a transaction that will be refused anyway nothing more is kept. */
void multi_queue(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    struct multi *m = c->multi;
    if (!m->broken && !multi_is_touched(m, t->n_threads)) {
        const struct queue_block *before = m->queue.blocks;
        struct queued *q = keep(t, &m->queue, row, argv, argc);
        if (!q) {
            m->broken = true;
            struct reply *r = conn_reply_begin(t, c);
            reply_no_memory(r);
            conn_reply_end(t, c, r);
            return;
        }
        append(t, &m->queue, q);
        m->flags |= row->flags;
        m->n_shown++;
        if (m->queue.blocks != before) m->bytes += sizeof *before + m->queue.blocks->capacity;
        for (uint32_t i = 0; i < argc; i++) m->shown += argv[i].size + sizeof(void *);
        if (q->has_blob)
            for (uint32_t i = 0; i < argc; i++) m->bytes += q->hop.argv[i].flags & ARG_BLOB ? q->hop.argv[i].size : 0;
    }
    struct reply *r = conn_reply_begin(t, c);
    REPLY_LITERAL(r, "+QUEUED\r\n");
    conn_reply_end(t, c, r);
}

struct queue multi_take_queue(struct multi *m) {
    struct queue q = m->queue;
    m->queue = (struct queue){0};
    return q;
}

/* No longer in MULTI. */
static void leave(struct multi *m) {
    queue_drop(&m->queue);
    m->on = m->broken = false;
    m->flags = m->n_shown = 0;
    m->bytes = m->shown = 0;
}

uint32_t multi_flags(const struct conn *c, const struct command *row) {
    if (row->on_shard == exec_head) return row->flags | (c->multi->flags & (CMD_WRITE | CMD_MAY_REPLICATE | CMD_DENYOOM));
    /* What is queued takes memory without end: so nothing but the end of it is allowed then. */
    return row->flags | (c->multi->on && !(row->flags & CMD_ENDS_MULTI) ? CMD_DENYOOM : 0);
}

/* ---- refusing ---- */

static void exec_error(struct thread *t, struct conn *c, const char *text) {
    struct reply *r = conn_reply_begin(t, c);
    reply_error(r, text);
    conn_reply_end(t, c, r);
    t->stats.errors++;
    measure_error(&t->measure, text, strlen(text));
}

bool multi_refused(struct thread *t, struct conn *c, const char *text) {
    if (c->row && c->row->on_shard == exec_head) {
        char whole[256];
        snprintf(whole, sizeof whole, "EXECABORT Transaction discarded because of: %s", strncmp(text, "ERR ", 4) ? text : text + 4);
        if (c->multi) multi_end(t, c);
        exec_error(t, c, whole);
        return true;
    }
    if (c->multi && c->multi->on) c->multi->broken = true;
    return false;
}

/* ---- MULTI, DISCARD ---- */

void multi_command(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    struct multi *m = multi_of(c);
    (void)argv;
    (void)argc;
    if (!m) {
        reply_no_memory(r);
    } else if (m->on) {
        reply_error(r, "ERR MULTI calls can not be nested");
    } else {
        m->on = true;
        reply_ok(r);
    }
}

void discard_command(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)argv;
    (void)argc;
    if (!c->multi || !c->multi->on) {
        reply_error(r, "ERR DISCARD without MULTI");
        return;
    }
    multi_end(c->thread, c);
    reply_ok(r);
}

/* ---- what is watched ---- */

bool multi_is_touched(const struct multi *m, uint32_t n_shards) {
    for (uint32_t s = 0; m->watchers && s < n_shards; s++)
        if (m->watchers[s] && atomic_load_explicit(&m->watchers[s]->touched, memory_order_relaxed)) return true;
    return false;
}

void watcher_free(struct watcher *who) {
    for (struct watch *w = who->first, *next; w; w = next) {
        next = w->next_of;
        mi_free(w);
    }
    mi_free(who);
}

void watchers_free(struct watcher **watchers, uint32_t n_shards) {
    for (uint32_t s = 0; watchers && s < n_shards; s++)
        if (watchers[s]) watcher_free(watchers[s]);
    mi_free(watchers);
}

struct watcher **multi_take_watchers(struct multi *m) {
    struct watcher **watchers = m->watchers;
    mi_free(m->watched);
    m->watched = NULL;
    m->watchers = NULL;
    m->n_watched = m->watched_size = 0;
    m->watched_bytes = 0;
    return watchers;
}

/* To a shard: forget this watcher and free it. */
struct unwatch {
    struct message message;
    struct watcher *watcher;
};

void multi_unwatch_arrived(struct shard *s, struct message *m) {
    struct unwatch *x = (struct unwatch *)m;
    watch_forget(s, x->watcher);
    watcher_free(x->watcher);
    mi_free(x);
}

static void unwatch(struct thread *t, struct multi *m) {
    struct watcher **watchers = multi_take_watchers(m);
    for (uint32_t s = 0; watchers && s < t->n_threads; s++) {
        if (!watchers[s]) continue;
        struct unwatch *x = mi_malloc(sizeof *x);
        if (!x) abort();
        *x = (struct unwatch){.message = {.kind = MESSAGE_UNWATCH, .from = t->id}, .watcher = watchers[s]};
        if (s == t->id && thread_holds(t)) multi_unwatch_arrived(t->shard, &x->message);
        else {
            mailbox_push(&t->server->threads[s]->requests, &x->message);
            lend_queued(t, s);
        }
    }
    mi_free(watchers);
}

void unwatch_command(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)argv;
    (void)argc;
    if (c->multi) unwatch(c->thread, c->multi);
    reply_ok(r);
}

void multi_end(struct thread *t, struct conn *c) {
    if (!c->multi) return;
    leave(c->multi);
    unwatch(t, c->multi);
}

void multi_free(struct thread *t, struct conn *c) {
    multi_end(t, c);
    mi_free(c->multi);
    c->multi = NULL;
}

uint64_t multi_memory(const struct multi *m) { return sizeof *m + m->bytes + m->watched_bytes + m->watched_size * sizeof *m->watched; }

/* ---- the table of what is watched: so that no key is watched twice ---- */

static struct watch **place_of(const struct multi *m, uint64_t hash, uint16_t db, const char *name, uint32_t size) {
    for (uint32_t i = (uint32_t)hash;; i++) {
        struct watch **at = &m->watched[i & (m->watched_size - 1)];
        const struct watch *w = *at;
        if (!w || (w->in.hash == hash && w->db == db && w->size == size && !memcmp(w->name, name, size))) return at;
    }
}

static bool grow_watched(struct multi *m) {
    uint32_t size = m->watched_size;
    struct watch **old = m->watched, **more = mi_calloc(size ? 2 * size : 8, sizeof *more);
    if (!more) return false;
    m->watched = more;
    m->watched_size = size ? 2 * size : 8;
    for (uint32_t i = 0; i < size; i++)
        if (old[i]) *place_of(m, old[i]->in.hash, old[i]->db, old[i]->name, old[i]->size) = old[i];
    mi_free(old);
    return true;
}

static struct watcher *watcher_of(struct thread *t, struct multi *m, uint32_t shard) {
    if (!m->watchers) m->watchers = mi_calloc(t->n_threads, sizeof *m->watchers);
    if (m->watchers && !m->watchers[shard]) m->watchers[shard] = mi_calloc(1, sizeof *m->watchers[shard]);
    return m->watchers ? m->watchers[shard] : NULL;
}

/* ---- WATCH ---- */

/* The records that are under way to a shard; WATCH has an array of them, by shard. */
struct watching {
    struct watch *next; /* by next_of */
    bool failed;
};

/* Makes a record for the key unless it is watched already. False: no memory. */
static bool want(struct thread *t, struct conn *c, struct watching *x, const struct arg *key) {
    struct multi *m = c->multi;
    if (2 * m->n_watched >= m->watched_size && !grow_watched(m)) return false;
    uint64_t hash = hash_key(&t->server->secret, key->p, key->size);
    struct watch **place = place_of(m, hash, c->db, key->p, key->size);
    if (*place) return true;
    uint32_t shard = thread_shard_of(t, key, hash);
    struct watcher *who = watcher_of(t, m, shard);
    struct watch *w = who ? mi_malloc(sizeof *w + key->size) : NULL;
    if (!w) return false;
    *w = (struct watch){.in.hash = hash, .next_of = x[shard].next, .watcher = who, .db = c->db, .size = key->size};
    memcpy(w->name, key->p, key->size);
    x[shard].next = w;
    *place = w;
    m->n_watched++;
    m->watched_bytes += sizeof *w + key->size;
    return true;
}

enum hop_result watch_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct watching *list = (struct watching *)(uintptr_t)h->state;
    (void)r;
    for (uint32_t i = 0; list->next && i < WATCHES_A_SLICE; i++) {
        struct watch *w = list->next;
        list->next = w->next_of;
        if (watch_add(s, w)) continue;
        list->failed = true; /* with the watcher all the same, so that it is freed with it */
        w->next_of = w->watcher->first;
        w->watcher->first = w;
    }
    return list->next ? HOP_AGAIN : HOP_DONE;
}

/* What has not arrived anywhere. */
static void watching_drop(void *of) {
    struct watching *x = of;
    for (uint32_t s = 0; s < server.n_threads; s++)
        for (struct watch *w = x[s].next, *next; w; w = next) {
            next = w->next_of;
            mi_free(w);
        }
    mi_free(x);
}

static void watching_done(struct thread *t, struct task *k, void *of) {
    struct watching *x = of;
    struct conn *c = course_conn(k);
    bool failed = false;
    for (uint32_t s = 0; s < t->n_threads; s++) failed |= x[s].failed;
    struct reply *r = course_output(t, k);
    course_drop_pieces(t, k);
    if (failed) {
        unwatch(t, c->multi);
        reply_no_memory(r);
    } else reply_ok(r);
    mi_free(x);
    course_end(t, k);
}

static const struct task_course watching_course = {.on = watching_done, .drop = watching_drop};

static void give_up_watching(struct thread *t, struct conn *c, struct watching *x) {
    struct reply *r = conn_reply_begin(t, c);
    if (x) watching_drop(x);
    if (c->multi) unwatch(t, c->multi);
    reply_no_memory(r);
    conn_reply_end(t, c, r);
}

static void begin_watching(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    struct watching *x = mi_calloc(t->n_threads, sizeof *x);
    bool enough = x && multi_of(c);
    for (uint32_t i = 1; enough && i < argc; i++) enough = want(t, c, x, &argv[i]);
    struct task *k = enough ? course_start(t, c, &(struct task_command){row, argv, 1}, &watching_course, x) : NULL;
    if (!k) {
        give_up_watching(t, c, x);
        return;
    }
    bool sent = false;
    for (uint32_t s = 0; s < t->n_threads; s++) {
        if (!x[s].next) continue;
        course_send(t, k, s, (uint64_t)(uintptr_t)&x[s], argc > WATCHES_A_SLICE);
        sent = true;
    }
    if (!sent) watching_done(t, k, x); /* all are watched already */
}

static void refuse(struct thread *t, struct conn *c, const struct command *row, const char *text) {
    t->measure.commands[row->number].calls++;
    t->measure.commands[row->number].failed++;
    exec_error(t, c, text);
}

static bool watch(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    if (c->multi && c->multi->on) refuse(t, c, row, "ERR WATCH inside MULTI is not allowed");
    else if (!conn_drained(t, c)) return false;
    else begin_watching(t, c, row, argv, argc);
    if (__builtin_expect(t->monitored, 0)) monitor_feed(t, c, row, argv, argc);
    return true;
}

/* ---- EXEC ---- */

static bool exec(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    if (c->multi && c->multi->on && !c->multi->broken) return exec_start(t, c, row, argv, argc);
    refuse(t, c, row, c->multi && c->multi->on ? "EXECABORT Transaction discarded because of previous errors." : "ERR EXEC without MULTI");
    if (c->multi && c->multi->on) multi_end(t, c);
    if (__builtin_expect(t->monitored, 0)) monitor_feed(t, c, row, argv, argc);
    return true;
}

bool multi_dispatch(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    return row->on_shard == exec_head ? exec(t, c, row, argv, argc) : watch(t, c, row, argv, argc);
}

/* ---- the rows ---- */

#define TRANSACTION_FLAGS (CMD_NOSCRIPT | CMD_LOADING | CMD_STALE)
const struct command commands_transaction[] = {{.name = "discard",
                                                   .group = "transactions",
                                                   .since = "2.0.0",
                                                   .summary = "Discard all commands issued after MULTI",
                                                   .complexity = "O(N), when N is the number of queued commands",
                                                   .arity = 1,
                                                   .flags = TRANSACTION_FLAGS | CMD_FAST | CMD_ALLOW_BUSY | CMD_ENDS_MULTI,
                                                   .acl = ACL_TRANSACTION,
                                                   .on_connection = discard_command},
    {.name = "exec",
        .group = "transactions",
        .since = "1.2.0",
        .summary = "Execute all commands issued after MULTI",
        .complexity = "Depends on commands in the transaction",
        .arity = 1,
        .plan = PLAN_TRANSACTION,
        .flags = TRANSACTION_FLAGS | CMD_SKIP_SLOWLOG | CMD_ENDS_MULTI,
        .acl = ACL_TRANSACTION,
        .on_shard = exec_head},
    {.name = "multi",
        .group = "transactions",
        .since = "1.2.0",
        .summary = "Mark the start of a transaction block",
        .complexity = "O(1)",
        .arity = 1,
        .flags = TRANSACTION_FLAGS | CMD_FAST | CMD_ALLOW_BUSY | CMD_AT_ONCE,
        .acl = ACL_TRANSACTION,
        .on_connection = multi_command},
    {.name = "unwatch",
        .group = "transactions",
        .since = "2.2.0",
        .summary = "Forget about all watched keys",
        .complexity = "O(1)",
        .arity = 1,
        .flags = TRANSACTION_FLAGS | CMD_FAST | CMD_ALLOW_BUSY,
        .acl = ACL_TRANSACTION,
        .on_connection = unwatch_command},
    {.name = "watch",
        .group = "transactions",
        .since = "2.2.0",
        .summary = "Watch the given keys to determine execution of the MULTI/EXEC block",
        .complexity = "O(1) for every key.",
        .arity = -2,
        .plan = PLAN_TRANSACTION,
        .flags = TRANSACTION_FLAGS | CMD_FAST | CMD_ALLOW_BUSY | CMD_AT_ONCE | CMD_SLICED,
        .acl = ACL_TRANSACTION,
        .keys = {KEY_RANGE(1, -1, 1, KEY_RO)},
        .n_key_specs = 1,
        .on_shard = watch_piece},
    {0}};
