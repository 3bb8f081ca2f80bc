/* Tasks: commands that need more than one hop. One at a time for a connection, which is drained before and waits until it is done.
 *
 *   kind       | states                                           | what it does
 *   FANOUT     | a transaction (transact.c), then WAVE -> (all    | one piece a shard with its keys; at most FANOUT_KEYS_MAX keys a piece
 *              | pieces back) -> WAVE ... -> done                 |
 *              | WAVE -> (all pieces back) -> EACH ... -> WAVE    | of many or long values a slice a tick is put into the output
 *   ALL        | WAVE -> (all pieces back) -> done                | one piece on every shard; a piece may be sliced
 *              | WAVE -> (all pieces back) -> TEXT ... -> done    | of a long text or list a slice a tick is put into the output
 *   CURSOR     | WAVE -> WAVE ... -> done                         | one piece a wave, from shard to shard while the piece says so (SCAN)
 *   STEPS      | a transaction with several waves of hops         | steps.c
 *   SLICED     | (STEPS or EXCLUSIVE left it)                     | one piece, in slices (LCS)
 *              | WAVE -> done                                     |
 *   EXCLUSIVE  | TOKEN -> (it is ours) -> STOPPING -> (all shards | the command's function works on all shards' data
 *              | stand still) -> runs -> done, or SLICED          |
 *   DISK       | WAITING -> done                                  | the command's function runs on the disk's thread (disk.h)
 *   COURSE     | its owner's (course.h)                           | another file decides what comes after each step
 *   CUT        | TOKEN -> STOPPING -> runs -> done                | no command's: a function works on all shards' data, and may keep them
 *   SETTLING   | (ALL left it) TOKEN -> STOPPING -> TOKEN ->      | nothing: what was dispatched before is through then
 *              | STOPPING -> done                                 |
 *
 * What needs all shards at a standstill asks for the token: server/standstill.c.
 */
#include "server/task.h"

#include <mimalloc.h>
#include <stdlib.h>

#include "io/clock.h"
#include "server/course.h"
#include "server/loading.h"
#include "server/outbox.h"
#include "server/route.h"
#include "server/run.h"
#include "server/scan.h"
#include "server/slow.h"
#include "server/steps.h"
#include "server/task_internal.h"
#include "server/thread.h"
#include "shard/blob.h"

#define TEXT_SLICE 65536u /* bytes of a text that are put behind the others in one go: about 30 us, and as much to send */
#define EACH_COST 64u     /* what a value takes besides its bytes, in bytes that are copied meanwhile */

struct task *task_free(struct task *k) {
    struct task *next = k->next;
    mi_free(k);
    return next;
}

struct reply *task_output(struct thread *t, struct task *k) {
    return conn_output(t, k->conn, k->no_reply);
}

/* Copies the argument vector, and with bytes what it points to. NULL: no memory. */
static struct arg *copy_args(struct arg *argv, uint32_t argc, bool bytes) {
    size_t size = argc * sizeof *argv;
    if (bytes)
        for (uint32_t i = 0; i < argc; i++) size += argv[i].flags & ARG_BLOB ? 0 : argv[i].size;
    struct arg *copy = mi_malloc(size ? size : 1);
    if (!copy) return NULL;
    char *to = (char *)(copy + argc);
    for (uint32_t i = 0; i < argc; i++) {
        copy[i] = argv[i];
        if (copy[i].flags & ARG_BLOB) copy[i].flags |= ARG_WAS_BLOB;
        argv[i].flags &= ~(uint32_t)ARG_BLOB; /* a blob is the copy's from here on */
        if (!bytes || copy[i].flags & ARG_BLOB) continue;
        memcpy(to, argv[i].p, argv[i].size);
        copy[i].p = to;
        to += argv[i].size;
    }
    return copy;
}

struct task *task_new(
    struct thread *t, struct conn *c, const struct command *row, enum task_kind kind, struct arg *argv, uint32_t argc, bool copy_bytes) {
    struct task *k = t->free_tasks;
    if (k) t->free_tasks = k->next;
    else if (!(k = mi_malloc(sizeof *k))) return NULL;
    *k = (struct task){.conn = c, .row = row, .kind = kind, .argc = argc, .no_reply = c->reply_off || c->reply_skip, .now_ms = t->now_ms};
    k->pieces = mi_calloc(t->n_threads, sizeof *k->pieces);
    k->argv = k->pieces ? copy_args(argv, argc, copy_bytes) : NULL;
    if (!k->argv) {
        mi_free(k->pieces);
        mi_free(k);
        return NULL;
    }
    if (!copy_bytes) {
        k->tick = thread_tick(t);
        k->tick->open++;
    }
    k->reply_at = c->out.size;
    c->task = k;
    c->state = CONN_BUSY;
    t->stats.tasks++;
    return k;
}

static void drop_wave(struct task *k) {
    mi_free(k->piece_args);
    mi_free(k->piece_hashes);
    mi_free(k->piece_shard);
    k->piece_args = NULL;
    k->piece_hashes = NULL;
    k->piece_shard = NULL;
}

static void measure_task(struct thread *t, struct task *k) {
    struct command_stats *s = &t->measure.commands[k->row->number];
    const struct reply *r = &k->conn->out;
    s->calls++;
    measure_time(&t->measure, k->row->number, k->cycles, 1);
    if (k->cycles >= t->measure.slow_cycles) log_slow(t, k->conn, k->row, k->argv, k->argc, k->cycles);
    if (k->no_reply || r->size <= k->reply_at || r->p[k->reply_at] != '-') return;
    s->failed++;
    t->stats.errors++;
    measure_error(&t->measure, r->p + k->reply_at + 1, r->size - k->reply_at - 1);
}

static void drop_contents(struct task *k) {
    drop_wave(k);
    args_discard_blobs(k->argv, k->argc);
    mi_free(k->argv);
    mi_free(k->hashes);
    mi_free(k->pieces);
    carrier_drop(k->conn->thread, k->carrier);
    mi_free(k->members);
    mi_free(k->intents);
    mi_free(k->each);
    reply_drop(&k->error);
}

void task_drop(struct task *k, uint32_t n_threads) {
    bool sliced = k->row->on_drop && k->kind != TASK_STEPS; /* the state of a step's hop is the task's carrier */
    for (uint32_t s = 0; s < n_threads; s++) {
        struct batch *b = k->pieces[s];
        if (b && b->hops[0].argv != k->argv) args_discard_blobs(b->hops[0].argv, b->hops[0].argc);
        if (b && sliced && b->hops[0].state) k->row->on_drop(server.threads[s]->shard, &b->hops[0], &b->replies);
    }
    if (k->kind == TASK_STEPS && k->hop.state) k->row->on_drop(k->conn->thread->shard, &k->hop, &k->conn->out);
    course_drop(k);
    drop_contents(k);
    mi_free(k);
}

void task_finish(struct thread *t, struct task *k) {
    struct conn *c = k->conn;
    measure_task(t, k);
    if (k->reserved) budget_give(&t->server->budget, k->reserved); /* what of it was used, the shards have leased */
    drop_contents(k);
    if (k->tick) k->tick->open--;
    k->next = t->free_tasks;
    t->free_tasks = k;
    c->task = NULL;
    if (c->state == CONN_BUSY) c->state = CONN_RUNNING;
    conn_mark(t, c);
    conn_resume_later(t, c);
}

void task_no_memory(struct thread *t, struct conn *c) {
    struct reply *r = conn_reply_begin(t, c);
    reply_no_memory(r);
    conn_reply_end(t, c, r);
}

/* ---- fan-out ---- */

struct batch *task_piece(struct thread *t, struct task *k, uint32_t shard, struct arg *argv, uint32_t argc, uint32_t n_keys,
    uint64_t *hashes, uint32_t key_step, uint64_t state) {
    struct batch *b = outbox_piece(t, shard, k);
    b->now_ms = k->now_ms;
    b->owner_only = !k->members || k->row->flags & CMD_SLICED; /* only a transaction's pieces are bounded */
    struct hop *h = &b->hops[0];
    *h = (struct hop){.origin = k->conn,
        .hash = hashes ? hashes[0] : 0,
        .run = k->row->on_shard,
        .argv = argv,
        .hashes = hashes,
        .argc = argc,
        .db = k->conn->db,
        .resp = k->conn->resp,
        .flags = (uint8_t)(HOP_PIECE | (n_keys ? 0 : HOP_NO_KEY) | (k->row->flags & CMD_WRITE ? HOP_WRITE : 0) |
            (k->row->flags & CMD_VALUE_HINT ? HOP_VALUE : 0) | (k->conn->no_touch ? HOP_NO_TOUCH : 0)),
        .n_keys = n_keys,
        .key_first = 1,
        .key_step = (uint8_t)key_step,
        .row = k->row->number,
        .state = state};
    return k->pieces[shard] = b;
}

static void send_piece(struct thread *t, struct task *k, uint32_t shard, struct arg *argv, uint32_t argc, uint32_t n_keys, uint64_t *hashes,
    uint32_t key_step, uint64_t state) {
    k->outstanding++;
    outbox_send_piece(t, task_piece(t, k, shard, argv, argc, n_keys, hashes, key_step, state));
}

/* Deals the keys [next_key, wave_end) to pieces of their shards, by counting. False: no memory. */
static bool deal(struct thread *t, struct task *k, uint32_t *counts) {
    uint32_t n = k->wave_end - k->next_key, step = (uint32_t)k->row->key_step, first = (uint32_t)k->row->key_first, args_at = 0,
             hashes_at = 0;
    k->piece_args = mi_malloc((n * step + t->n_threads) * sizeof *k->piece_args);
    k->piece_hashes = mi_malloc(n * sizeof *k->piece_hashes);
    k->piece_shard = mi_malloc(n * sizeof *k->piece_shard);
    if (!k->piece_args || !k->piece_hashes || !k->piece_shard) return false;
    for (uint32_t i = 0; i < n; i++) {
        struct arg *key = &k->argv[first + (k->next_key + i) * step];
        k->hashes[i] = hash_key(&t->server->secret, key->p, key->size);
        uint32_t s = thread_shard_of(t, key, k->hashes[i]);
        k->piece_shard[i] = (uint16_t)s;
        counts[s]++;
    }
    for (uint32_t s = 0; s < t->n_threads; s++) {
        if (!counts[s]) continue;
        struct arg *args = &k->piece_args[args_at], *to = args + 1;
        uint64_t *hashes = &k->piece_hashes[hashes_at], *hash = hashes;
        args[0] = k->argv[0];
        for (uint32_t i = 0; i < n; i++) {
            if (k->piece_shard[i] != s) continue;
            *hash++ = k->hashes[i];
            for (uint32_t j = 0; j < step; j++) {
                struct arg *from = &k->argv[first + (k->next_key + i) * step + j];
                *to++ = *from;
                from->flags &= ~(uint32_t)ARG_BLOB;
            }
        }
        task_piece(t, k, s, args, (uint32_t)(to - args), counts[s], hashes, step, 0);
        args_at += (uint32_t)(to - args);
        hashes_at += counts[s];
    }
    return true;
}

bool task_deal_wave(struct thread *t, struct task *k) {
    uint32_t most = FANOUT_KEYS_MAX * t->n_threads, left = k->n_keys - k->next_key, n = left < most ? left : most;
    uint32_t *counts = mi_calloc(t->n_threads, sizeof *counts);
    if (!k->hashes) k->hashes = mi_malloc(n * sizeof *k->hashes);
    k->wave_end = k->next_key + n;
    bool dealt = counts && k->hashes && deal(t, k, counts);
    mi_free(counts);
    return dealt;
}

void task_undeal_wave(struct thread *t, struct task *k) {
    uint32_t step = (uint32_t)k->row->key_step, first = (uint32_t)k->row->key_first;
    for (uint32_t s = 0; s < t->n_threads; s++) {
        const struct arg *dealt = k->pieces[s] ? k->pieces[s]->hops[0].argv + 1 : NULL;
        for (uint32_t i = k->next_key; dealt && i < k->wave_end; i++) {
            if (k->piece_shard[i - k->next_key] != s) continue;
            memcpy(&k->argv[first + i * step], dealt, step * sizeof *dealt);
            dealt += step;
        }
        if (dealt) k->pieces[s]->hops[0].argc = 1; /* nothing of it is the piece's any more */
    }
    task_forget_wave(t, k);
}

size_t task_value_end(const struct reply *piece, size_t at, uint32_t *ref) {
    size_t line = at;
    while (piece->p[line] != '\r') line++;
    line += 2;
    if (piece->p[at] != '$' || piece->p[at + 1] == '-') return line;
    if (*ref < piece->n_refs && piece->refs[*ref].at == line) {
        ++*ref;
        return line + 2;
    }
    size_t size = 0;
    for (const char *p = piece->p + at + 1; *p != '\r'; p++) size = size * 10 + (size_t)(*p - '0');
    return line + size + 2;
}

/* How far a shard's piece is in the output. */
struct each {
    size_t at;
    uint32_t ref;
};

/* Puts the next values of a wave into the output, about as many as a budget allows (bytes, and EACH_COST a value). True: there are more. */
static bool each_goes_on(struct thread *t, struct task *k, size_t budget) {
    struct reply *r = task_output(t, k);
    uint32_t n = k->wave_end - k->next_key;
    if (!k->each) {
        k->each = mi_calloc(t->n_threads, sizeof *k->each);
        k->each_next = 0;
        r->failed |= !k->each;
        if (!k->started) reply_array(r, k->n_keys);
        k->started = true;
    }
    struct each *each = k->each;
    uint32_t i = k->each_next;
    for (size_t done = 0; !r->failed && i < n; i++) {
        if (done >= budget) {
            k->each_next = i;
            return true;
        }
        uint32_t s = k->piece_shard[i];
        struct each *from = &each[s];
        size_t at = from->at;
        uint32_t ref = from->ref;
        struct reply *piece = &k->pieces[s]->replies;
        if (piece->failed) {
            r->failed = true;
            break;
        }
        from->at = task_value_end(piece, at, &from->ref);
        reply_take_value(r, piece, at, from->at, ref, from->ref);
        done += from->at - at + EACH_COST;
    }
    return false;
}

static void each_end(struct task *k) {
    if (!k->each) return;
    mi_free(k->each);
    k->each = NULL;
}

static void merge_simple(struct task *k, const struct reply *piece) {
    if (piece->failed || !piece->size) return;
    if (piece->p[0] == '-') {
        if (!k->error.size) reply_bytes(&k->error, piece->p, piece->size);
    } else if (k->row->merge == MERGE_SUM) k->sum += strtoll(piece->p + 1, NULL, 10);
}

static void merge_custom(struct thread *t, struct task *k) {
    struct reply **pieces = mi_calloc(t->n_threads, sizeof *pieces);
    uint32_t n = 0;
    bool enough = pieces;
    for (uint32_t s = 0; s < t->n_threads && enough; s++) {
        if (!k->pieces[s]) continue;
        pieces[n++] = &k->pieces[s]->replies;
        enough = !k->pieces[s]->replies.failed; /* else its bytes end anywhere */
    }
    if (!enough) {
        reply_no_memory(task_output(t, k));
        mi_free(pieces);
        return;
    }
    k->hop =
        (struct hop){.origin = k->conn, .argv = k->argv, .argc = k->argc, .db = k->conn->db, .resp = k->conn->resp, .row = k->row->number};
    k->row->merge_custom(&k->hop, pieces, n, task_output(t, k));
    mi_free(pieces);
}

/* The next of a piece's bytes for the output: of a text some, of a list the elements of a chunk. */
static const char *next_bytes(struct task *k, const struct reply *piece, size_t *n) {
    const char *p = piece->p + k->text_at;
    if (k->row->merge == MERGE_LIST) {
        struct list_chunk chunk;
        memcpy(&chunk, p, sizeof chunk);
        *n = chunk.bytes;
        k->text_at += sizeof chunk + chunk.bytes;
        return p + sizeof chunk;
    }
    *n = piece->size - k->text_at < TEXT_SLICE ? piece->size - k->text_at : TEXT_SLICE;
    k->text_at += *n;
    return p;
}

/* Puts the next slice of the text or list into the output. False: that was the last. */
static bool text_goes_on(struct thread *t, struct task *k) {
    struct reply *r = task_output(t, k);
    size_t done = 0, n;
    for (; k->text_shard < t->n_threads; k->text_shard++, k->text_at = 0) {
        const struct reply *piece = &k->pieces[k->text_shard]->replies;
        while (k->text_at < piece->size) {
            if (done >= TEXT_SLICE) return k->conn->state == CONN_BUSY; /* else it is closing: nobody reads on */
            const char *p = next_bytes(k, piece, &n);
            reply_bytes(r, p, n);
            done += n;
        }
    }
    if (k->row->merge == MERGE_TEXT) REPLY_LITERAL(r, "\r\n");
    return false;
}

static uint64_t list_elements(const struct reply *piece) {
    struct list_chunk chunk;
    uint64_t n = 0;
    for (size_t at = 0; at < piece->size; at += sizeof chunk + chunk.bytes) {
        memcpy(&chunk, piece->p + at, sizeof chunk);
        n += chunk.elements;
    }
    return n;
}

/* MERGE_TEXT, MERGE_LIST: all pieces are back. True: there is more to do, in slices. */
static bool text_begin(struct thread *t, struct task *k) {
    uint64_t size = 0;
    bool list = k->row->merge == MERGE_LIST;
    if (k->no_reply) return false;
    for (uint32_t s = 0; s < t->n_threads; s++) {
        const struct reply *piece = &k->pieces[s]->replies;
        if (piece->failed) reply_no_memory(task_output(t, k));
        else if (!list && piece->size && piece->p[0] == '-') reply_bytes(task_output(t, k), piece->p, piece->size);
        else {
            size += list ? list_elements(piece) : piece->size;
            continue;
        }
        return false;
    }
    if (list) reply_array(task_output(t, k), size);
    else reply_verbatim_begin(task_output(t, k), "txt", size);
    k->text_shard = 0;
    k->text_at = 0;
    return true;
}

static void all_back(struct thread *t, struct task *k);
static bool wave_done(struct thread *t, struct task *k);

/* A slice of the text, or of a wave's values, and what comes behind the last. */
static void merge_slice(struct thread *t, struct task *k) {
    uint64_t start_ns = thread_cpu_ns();
    bool each = k->row->merge == MERGE_EACH, more = each ? each_goes_on(t, k, TEXT_SLICE) : text_goes_on(t, k);
    k->reply_at = SIZE_MAX; /* it is no error, and may be sent in parts */
    if (each && more && conn_is_going(k->conn)) {
        k->conn->out.failed = true;
        more = false;
    }
    slice_add(&t->measure, SLICE_LONG, thread_cpu_ns() - start_ns);
    if (more) {
        conn_mark(t, k->conn);
        task_merge_in_slices(t, k);
    } else if (each) task_fanout_merged(t, k, wave_done(t, k));
    else all_back(t, k);
}

void task_merge_in_slices(struct thread *t, struct task *k) {
    k->next = NULL;
    if (t->merges) t->merges_last->next = k;
    else t->merges = k;
    t->merges_last = k;
}

void task_run_merge(struct thread *t) {
    struct task *k = t->merges;
    t->merges = k->next;
    merge_slice(t, k);
}

void task_merge_at_once(struct thread *t, struct task *k) {
    k->sum = 0;
    if (k->row->merge == MERGE_TEXT || k->row->merge == MERGE_LIST) {
        if (text_begin(t, k))
            while (text_goes_on(t, k)) {}
    } else if (k->row->merge == MERGE_CUSTOM) merge_custom(t, k);
    else {
        for (uint32_t s = 0; s < t->n_threads; s++) merge_simple(k, &k->pieces[s]->replies);
        if (k->error.size) reply_bytes(task_output(t, k), k->error.p, k->error.size);
        else if (k->row->merge == MERGE_SUM) reply_int(task_output(t, k), k->sum);
        else reply_ok(task_output(t, k));
    }
    reply_drop(&k->error);
}

/* The reply of the only piece. */
void task_take_whole(struct thread *t, struct task *k) {
    struct reply *r = task_output(t, k);
    for (uint32_t s = 0; s < t->n_threads; s++) {
        if (!k->pieces[s]) continue;
        reply_take(r, &k->pieces[s]->replies, 0, k->pieces[s]->replies.size);
        if (k->pieces[s]->replies.failed) k->conn->out.failed = true;
    }
}

void task_forget_wave(struct thread *t, struct task *k) {
    for (uint32_t s = 0; s < t->n_threads; s++) {
        struct batch *b = k->pieces[s];
        if (!b) continue;
        k->cycles += b->cycles;
        if (b->hops[0].argv != k->argv) args_discard_blobs(b->hops[0].argv, b->hops[0].argc);
        batch_recycle(t, b);
        k->pieces[s] = NULL;
    }
    drop_wave(k);
}

/* The wave's replies are the task's. True: there are more keys. */
static bool wave_done(struct thread *t, struct task *k) {
    each_end(k);
    task_forget_wave(t, k);
    k->next_key = k->wave_end;
    bool closing = k->conn->state == CONN_CLOSING || k->conn->state == CONN_REMOVED;
    return k->next_key < k->n_keys && !k->error.size && !(closing && k->row->flags & CMD_READONLY);
}

bool task_merge_wave(struct thread *t, struct task *k) {
    if (k->row->merge == MERGE_EACH) { /* unwanted values stay with their pieces, which give their blobs back */
        if (!k->no_reply && !k->error.size) each_goes_on(t, k, SIZE_MAX);
    } else
        for (uint32_t s = 0; s < t->n_threads; s++)
            if (k->pieces[s]) merge_simple(k, &k->pieces[s]->replies);
    return wave_done(t, k);
}

bool task_merges_long(struct thread *t, const struct task *k) {
    if (k->row->merge != MERGE_EACH || k->no_reply || k->error.size) return false;
    size_t bytes = (size_t)(k->wave_end - k->next_key) * EACH_COST;
    for (uint32_t s = 0; s < t->n_threads; s++)
        if (k->pieces[s]) bytes += k->pieces[s]->replies.size;
    return bytes > TEXT_SLICE;
}

void task_fanout_reply(struct thread *t, struct task *k) {
    struct reply *r = task_output(t, k);
    if (k->row->merge == MERGE_EACH && k->next_key < k->n_keys)
        k->conn->out.failed = true; /* no memory in the middle of it, or nobody reads on */
    else if (k->row->merge != MERGE_EACH) {
        if (k->error.size) reply_bytes(r, k->error.p, k->error.size);
        else if (k->row->merge == MERGE_SUM) reply_int(r, k->sum);
        else reply_ok(r);
    }
    task_finish(t, k);
}

/* CMD_SETTLES: all threads know, and what they dispatched before is on its way. It is through when all shards have stood still twice: transactions have ended and
 * mailboxes were emptied once; and a transaction that gave up meanwhile, to become exclusive, has asked for the token before the second time. */
static void begin_to_settle(struct thread *t, struct task *k) {
    k->kind = TASK_SETTLING;
    k->rounds = 2;
    task_ask_for_token(t, k);
}

void task_settled_once(struct thread *t, struct task *k) {
    task_let_all_go(t);
    if (--k->rounds) task_ask_for_token(t, k);
    else task_fanout_reply(t, k);
}

/* All pieces of another kind are back, and what is put together in slices is. */
static void all_back(struct thread *t, struct task *k) {
    if (k->row->merge == MERGE_CUSTOM) merge_custom(t, k);
    else if (k->kind == TASK_SLICED) task_take_whole(t, k);
    else if (k->row->merge == MERGE_SUM || k->row->merge == MERGE_OK) {
        task_merge_wave(t, k);
        if (k->row->flags & CMD_SETTLES && !k->error.size) begin_to_settle(t, k);
        else task_fanout_reply(t, k);
        return;
    }
    task_forget_wave(t, k);
    task_finish(t, k);
}

/* SCAN: the piece of shard wave_end is back. True: the next shard's is on its way. */
static bool cursor_goes_on(struct thread *t, struct task *k) {
    uint64_t state = scan_goes_on(&k->pieces[k->wave_end]->replies);
    if (!state || k->conn->state == CONN_CLOSING || k->conn->state == CONN_REMOVED) return false;
    send_piece(t, k, ++k->wave_end, k->argv, k->argc, 0, NULL, 1, state);
    return true;
}

void task_piece_done(struct thread *t, struct batch *b) {
    struct task *k = b->task;
    if (k->conn) client_memory_forget_aside(k->conn, &b->counted);
    if (k->members) {
        transact_answer(t, k, b);
        return;
    }
    if (--k->outstanding || (k->kind == TASK_CURSOR && cursor_goes_on(t, k))) return;
    if (k->kind == TASK_COURSE) {
        k->course->on(t, k, k->of);
        return;
    }
    if ((k->row->merge == MERGE_TEXT || k->row->merge == MERGE_LIST) && text_begin(t, k)) task_merge_in_slices(t, k);
    else all_back(t, k);
}

static bool hash_keys(struct thread *t, struct task *k, const struct key_range *keys) {
    uint32_t n_keys = k->n_keys = keys->n;
    k->key_first = keys->first;
    k->key_step = keys->step;
    k->hashes = mi_malloc((n_keys ? n_keys : 1) * sizeof *k->hashes);
    if (!k->hashes) return false;
    for (uint32_t i = 0; i < n_keys; i++) {
        const struct arg *key = &k->argv[hop_key_at(k->key_first, k->key_step, i)];
        k->hashes[i] = hash_key(&t->server->secret, key->p, key->size);
    }
    return true;
}

/* The loaders have the shards: the pieces run on their threads at once. */
static void all_beside(struct thread *t, struct task *k) {
    struct batch *own = NULL;
    for (uint32_t i = 0; i < t->n_threads; i++) {
        uint32_t s = (t->id + 1 + i) % t->n_threads; /* the own one is the last */
        k->outstanding++;
        own = task_piece(t, k, s, k->argv, k->argc, 0, NULL, 1, 0);
        own->hops[0].run = k->row->on_beside;
        run_send_beside(t, own);
    }
    task_piece_done(t, own);
}

void task_start_all(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    struct task *k = task_new(t, c, row, TASK_ALL, argv, argc, true);
    if (!k) {
        task_no_memory(t, c);
        return;
    }
    if (__builtin_expect(loading_is_running() && row->on_beside, 0)) {
        all_beside(t, k);
        return;
    }
    for (uint32_t s = 0; s < t->n_threads; s++) send_piece(t, k, s, k->argv, argc, 0, NULL, 1, 0);
}

void task_start_cursor(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    struct task *k = task_new(t, c, row, TASK_CURSOR, argv, argc, true);
    if (!k) {
        task_no_memory(t, c);
        return;
    }
    k->wave_end = cursor_shard(&argv[1], t->n_threads);
    send_piece(t, k, k->wave_end, k->argv, argc, 0, NULL, 1, 0);
}

/* ---- the disk ---- */

bool task_to_disk(struct thread *t, struct task *k, const struct command *row) {
    struct disk_job *job = mi_malloc(sizeof *job);
    if (!job) return false;
    *job = (struct disk_job){.message = {.from = t->id}, .thread = t, .task = k, .work = row->on_disk, .config = *config_current()};
    disk_give(job);
    return true;
}

void task_start_disk(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    struct task *k = task_new(t, c, row, TASK_DISK, argv, argc, true);
    if (!k) task_no_memory(t, c);
    else if (!task_to_disk(t, k, row)) {
        reply_no_memory(task_output(t, k));
        task_finish(t, k);
    }
}

void task_disk_done(struct thread *t, struct disk_job *job) {
    struct reply *r = task_output(t, job->task);
    if (job->good && !job->quiet) reply_ok(r);
    else if (!job->quiet) reply_error(r, job->why);
    job->task->cycles = job->cycles;
    if (job->task->kind == TASK_COURSE) job->task->course->on(t, job->task, job->task->of);
    else task_finish(t, job->task);
    mi_free(job);
}

/* ---- exclusive ---- */

struct task *task_new_hashed(struct thread *t, struct conn *c, const struct command *row, enum task_kind kind, struct arg *argv,
    uint32_t argc, const struct key_range *keys) {
    struct task *k = task_new(t, c, row, kind, argv, argc, true);
    if (!k) {
        task_no_memory(t, c);
    } else if (!hash_keys(t, k, keys)) {
        reply_no_memory(task_output(t, k));
        task_finish(t, k);
        return NULL;
    }
    return k;
}

void task_start_exclusive(
    struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc, const struct key_range *keys) {
    struct task *k = task_new_hashed(t, c, row, TASK_EXCLUSIVE, argv, argc, keys);
    if (k) task_ask_for_token(t, k);
}

static void send_sliced(struct thread *t, struct task *k, uint32_t shard, uint64_t state) {
    k->kind = TASK_SLICED;
    k->wave_end = k->n_keys; /* there is no other wave */
    send_piece(t, k, shard, k->argv, k->argc, k->n_keys, k->hashes, k->key_step, state);
}

void task_go_on_in_slices(struct thread *t, struct task *k) { send_sliced(t, k, t->id, k->hop.state); }
