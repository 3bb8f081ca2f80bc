/* EXEC over several shards, as a transaction: an intent on each key, shared ones on what is watched.
 *
 *   state     | what it is                                            | leaves to
 *   SCHEDULED | the intents are on their way                          | LOOKING if keys are watched, else PARTS
 *   LOOKING   | the shards of watched keys look whether one changed   | PARTS, or LEAVING
 *   PARTS     | each shard runs its part of all commands, in one hop  | done
 *   LEAVING   | the intents go, nothing was run                       | done
 *
 * Commands of different shards don't meet, so each shard runs all of its own, in their order, and the replies are put in order afterwards; a command
 * over several shards has a piece in the part of each.
 */
#include <mimalloc.h>
#include <stdlib.h>

#include "io/clock.h"
#include "server/exec_internal.h"
#include "server/outbox.h"
#include "server/task_internal.h"
#include "server/thread.h"
#include "shard/batch.h"

/* One shard's part. */
struct part {
    struct hop *hops;
    struct piece_result *results;
    uint32_t n, capacity;
    /* While the replies are put in order. */
    uint32_t taken; /* hops */
    size_t at;      /* bytes of its reply */
    uint32_t ref;   /* refs */
};
struct piece_result {
    size_t at; /* where the hop's reply begins */
    uint64_t cycles;
};

/* ---- what it takes ---- */

static uint32_t key_shard(struct thread *t, const struct queued *q, uint32_t nth) {
    return thread_shard_of(t, exec_key(q, nth), hop_hash(&q->hop, nth));
}

#define SEVERAL UINT32_MAX

/* The command's only shard, or SEVERAL. */
static uint32_t only_shard(struct thread *t, const struct queued *q) {
    if (!q->hop.n_keys) return t->id;
    uint32_t shard = key_shard(t, q, 0);
    for (uint32_t i = 1; i < q->hop.n_keys; i++)
        if (key_shard(t, q, i) != shard) return SEVERAL;
    return shard;
}

static bool fits(struct thread *t, const struct queued *q) {
    switch ((enum plan)q->row->plan) {
    case PLAN_CONNECTION:
    case PLAN_SINGLE: return true;
    case PLAN_FANOUT: return q->hop.n_keys <= FANOUT_KEYS_MAX * t->n_threads;
    case PLAN_SPREAD: return !(q->row->flags & CMD_SLICED) && !q->anywhere && only_shard(t, q) != SEVERAL;
    default: return q->saved;
    }
}

static const struct watch *watched_on(const struct exec *x, uint32_t shard) {
    return x->watchers && x->watchers[shard] ? x->watchers[shard]->first : NULL;
}

/* What one shard has of it. */
struct share {
    uint32_t keys; /* with those that are watched */
    bool takes_part, writes;
};

/* Returns how many keys they are. */
static size_t count_shares(struct thread *t, const struct exec *x, struct share *shares) {
    size_t total = 0;
    for (uint32_t i = 0; i < x->n; i++) {
        const struct queued *q = x->commands[i];
        if (q->saved) continue;
        if (!q->hop.n_keys) shares[t->id].takes_part = true;
        total += q->hop.n_keys;
        for (uint32_t j = 0; j < q->hop.n_keys; j++) {
            struct share *share = &shares[key_shard(t, q, j)];
            share->keys++;
            share->takes_part = true;
            share->writes |= q->row->flags & CMD_WRITE;
        }
    }
    for (uint32_t s = 0; s < t->n_threads; s++)
        for (const struct watch *w = watched_on(x, s); w; w = w->next_of, total++) {
            shares[s].keys++;
            shares[s].takes_part = true;
        }
    if (!total) shares[t->id].takes_part = true; /* somebody must */
    return total;
}

/* An intent on the database, then on what is watched, then on the keys; or, of very many keys, on the database as a whole. */
static void add_intents(struct thread *t, struct task *k, const struct exec *x, const struct share *shares, bool whole) {
    struct intent *next = k->intents;
    for (uint32_t s = 0; s < t->n_threads; s++) {
        struct member *m = &k->members[s];
        bool writes = shares[s].writes;
        if (!shares[s].takes_part) continue;
        m->intents = next;
        m->n_intents = 1;
        next += 1 + (whole ? 0 : shares[s].keys);
        if (whole) intent_on_database(m->intents, INTENT_DB, writes ? INTENT_WRITE : INTENT_READ);
        else intent_on_database(m->intents, INTENT_DB, writes ? INTENT_WRITE_WITHIN : INTENT_READ_WITHIN);
        for (const struct watch *w = whole ? NULL : watched_on(x, s); w; w = w->next_of)
            intent_on_key(&m->intents[m->n_intents++], INTENT_DB, w->in.hash, false);
    }
    for (uint32_t i = 0; !whole && i < x->n; i++) {
        const struct queued *q = x->commands[i];
        for (uint32_t j = 0; j < q->hop.n_keys && !q->saved; j++) {
            struct member *m = &k->members[key_shard(t, q, j)];
            intent_on_key(&m->intents[m->n_intents++], INTENT_DB, hop_hash(&q->hop, j), q->row->flags & CMD_WRITE);
        }
    }
}

/* The members. False: no memory, or too many keys for this way: only one shard may be busy with them for so long while the others go on. */
static bool set_up(struct thread *t, struct task *k, struct exec *x) {
    uint32_t n = t->n_threads, n_members = 0;
    struct share *shares = mi_calloc(n, sizeof *shares);
    size_t total = shares ? count_shares(t, x, shares) : 0;
    bool whole = total > (size_t)n * 4 * FANOUT_KEYS_MAX;
    for (uint32_t s = 0; shares && s < n; s++) n_members += shares[s].takes_part;
    k->members = mi_calloc(n, sizeof *k->members);
    k->intents = mi_malloc((n + (whole ? 0 : total)) * sizeof *k->intents);
    k->whole = whole;
    bool enough = shares && k->members && k->intents && (!whole || n_members == 1);
    if (enough) add_intents(t, k, x, shares, whole);
    mi_free(shares);
    return enough;
}

bool exec_shards_begin(struct thread *t, struct task *k, struct exec *x) {
    for (uint32_t i = 0; i < x->n; i++)
        if (!fits(t, x->commands[i])) return false;
    if (!set_up(t, k, x)) {
        mi_free(k->members);
        mi_free(k->intents);
        k->members = NULL;
        k->intents = NULL;
        return false;
    }
    x->state = EXEC_SCHEDULED;
    transact_begin(t, k);
    return true;
}

/* ---- looking ---- */

static enum hop_result look(struct shard *s, struct hop *h, struct reply *r) {
    struct watcher *who = ((struct exec *)(uintptr_t)h->state)->watchers[s->id];
    reply_int(r, watch_is_valid(s, who));
    watch_forget(s, who);
    return HOP_DONE;
}

static struct batch *piece(struct thread *t, struct task *k, uint32_t shard, hop_fn *run, void *state) {
    struct batch *b = task_piece(t, k, shard, k->argv, k->argc, 0, NULL, 1, (uint64_t)(uintptr_t)state);
    b->hops[0].run = run;
    b->owner_only = k->whole; /* it may take long */
    return b;
}

/* False: nothing is watched. */
static bool look_at_watched(struct thread *t, struct task *k, struct exec *x) {
    bool any = false;
    for (uint32_t s = 0; x->watchers && s < t->n_threads; s++) {
        if (!x->watchers[s]) continue;
        piece(t, k, s, look, x);
        any = true;
    }
    if (any) transact_send_wave(t, k, false);
    return any;
}

static bool all_are_valid(const struct thread *t, const struct task *k) {
    for (uint32_t s = 0; s < t->n_threads; s++)
        if (k->pieces[s] && k->pieces[s]->replies.p[1] == '0') return false;
    return true;
}

/* ---- the parts ---- */

static struct hop *part_add(struct part *p) {
    if (p->n == p->capacity) {
        uint32_t capacity = p->capacity ? 2 * p->capacity : 8;
        struct hop *hops = mi_malloc_aligned(capacity * sizeof *hops, 64);
        if (!hops) return NULL;
        if (p->n) memcpy(hops, p->hops, p->n * sizeof *hops);
        mi_free(p->hops);
        p->hops = hops;
        p->capacity = capacity;
    }
    return &p->hops[p->n++];
}

/* A piece for each shard of the command's keys. False: no memory. */
static bool add_pieces(struct thread *t, struct exec *x, uint32_t nth, const struct hop *h) {
    struct queued *q = x->commands[nth];
    uint32_t step = (uint32_t)q->row->key_step;
    size_t args = (q->hop.n_keys * step + t->n_threads) * sizeof(struct arg);
    struct arg *arg = x->blocks[nth] = mi_malloc(args + q->hop.n_keys * sizeof(uint64_t));
    if (!arg) return false;
    uint64_t *hash = (uint64_t *)((char *)arg + args), room = exec_reserve(t, q, &x->reserved);
    for (uint32_t s = 0; s < t->n_threads; s++) {
        uint32_t n = exec_gather(t, q, s, arg, hash);
        struct hop *piece = n ? part_add(&x->parts[s]) : NULL;
        if (!n) continue;
        if (!piece) return false;
        *piece = *h;
        piece->argv = arg;
        piece->argc = 1 + n * step;
        piece->key_first = 1;
        piece->n_keys = n;
        piece->hashes = hash;
        piece->hash = hash[0];
        piece->flags |= HOP_PIECE;
        piece->state = room;
        arg += piece->argc;
        hash += n;
    }
    return true;
}

static bool add_command(struct thread *t, struct exec *x, uint32_t nth) {
    struct conn *c = x->conn;
    struct queued *q = x->commands[nth];
    bool saved = q->saved;
    if (saved) exec_resolve_one(c, q, x, &x->results[nth]);
    struct hop h = exec_hop(c, q), *own;
    x->results[nth].db = c->db;
    x->hops[nth] = h;
    if (saved) return true;
    uint32_t shard = only_shard(t, q);
    if (shard == SEVERAL) return add_pieces(t, x, nth, &h);
    own = part_add(&x->parts[shard]);
    if (own) *own = h;
    return own;
}

struct running {
    struct part *part;
    struct shard *s;
    struct reply *r;
    uint64_t last; /* cycles: the end of the one before */
};

static inline __attribute__((always_inline)) void run_one(void *ctx, struct hop *h) {
    struct running *run = ctx;
    struct piece_result *result = &run->part->results[h - run->part->hops];
    struct reply *r = run->r;
    result->at = r->size;
    r->resp = h->resp;
    hop_run_whole(run->s, h, r);
    uint64_t now = cycles_now();
    result->cycles = now - run->last;
    run->last = now;
    if (__builtin_expect(h->flags & HOP_NO_REPLY, 0)) reply_cut(run->s, r, result->at);
}

static enum hop_result run_part(struct shard *s, struct hop *h, struct reply *r) {
    struct part *p = (struct part *)(uintptr_t)h->state;
    struct running run = {p, s, r, cycles_now()};
    batch_run(s, p->hops, p->n, true, run_one, &run);
    return HOP_DONE;
}

/* False: no memory. */
static bool send_parts(struct thread *t, struct task *k, struct exec *x) {
    x->parts = mi_calloc(t->n_threads, sizeof *x->parts);
    x->blocks = mi_calloc(x->n, sizeof *x->blocks);
    bool enough = x->parts && x->blocks;
    exec_begin_skip(x);
    x->head = !(x->conn->reply_off || x->conn->reply_skip);
    for (uint32_t i = 0; enough && i < x->n; i++) enough = add_command(t, x, i);
    exec_end_skip(x);
    for (uint32_t s = 0; enough && s < t->n_threads; s++) {
        struct part *p = &x->parts[s];
        if (!p->n) continue;
        p->results = mi_calloc(p->n, sizeof *p->results);
        enough = p->results;
    }
    for (uint32_t s = 0; enough && s < t->n_threads; s++)
        if (x->parts[s].n) piece(t, k, s, run_part, &x->parts[s]);
    if (enough) transact_send_wave(t, k, true);
    return enough;
}

void exec_shards_drop(struct exec *x) {
    for (uint32_t s = 0; x->parts && s < server.n_threads; s++) {
        struct part *p = &x->parts[s];
        for (uint32_t i = 0; i < p->n; i++)
            if (p->hops[i].flags & HOP_PIECE) args_discard_blobs(p->hops[i].argv, p->hops[i].argc);
        mi_free(p->hops);
        mi_free(p->results);
    }
    for (uint32_t i = 0; x->blocks && i < x->n; i++) mi_free(x->blocks[i]);
    mi_free(x->parts);
    mi_free(x->blocks);
}

/* ---- the replies ---- */

/* The end of the next hop's reply in a part; it is taken. */
static size_t take_next(struct task *k, struct exec *x, uint32_t shard, uint64_t *cycles) {
    struct part *p = &x->parts[shard];
    *cycles += p->results[p->taken].cycles;
    p->taken++;
    return p->taken < p->n ? p->results[p->taken].at : k->pieces[shard]->replies.size;
}

static void take_until(struct task *k, struct exec *x, uint32_t shard, size_t end, struct reply *r) {
    struct part *p = &x->parts[shard];
    struct reply *from = &k->pieces[shard]->replies;
    if (end > p->at) reply_take(r, from, p->at, end);
    p->at = end;
}

/* A value a key, in the order of the command. */
static void take_each(struct thread *t, struct task *k, struct exec *x, const struct queued *q, struct reply *r) {
    reply_array(r, q->hop.n_keys);
    for (uint32_t i = 0; i < q->hop.n_keys; i++) {
        uint32_t s = key_shard(t, q, i);
        struct part *p = &x->parts[s];
        struct reply *from = &k->pieces[s]->replies;
        while (p->ref < from->n_refs && from->refs[p->ref].at < p->at) p->ref++;
        uint32_t ref = p->ref;
        size_t at = p->at;
        p->at = task_value_end(from, at, &p->ref);
        reply_take_value(r, from, at, p->at, ref, p->ref);
    }
}

/* A sum, or OK or the first error, of the pieces' replies. */
static void take_sum(struct thread *t, struct task *k, struct exec *x, const size_t *ends, const struct queued *q, struct reply *r) {
    int64_t sum = 0;
    bool failed = false;
    for (uint32_t s = 0; s < t->n_threads; s++) {
        if (!ends[s]) continue;
        const char *p = k->pieces[s]->replies.p + x->parts[s].at;
        if (*p == '-' && !failed) reply_bytes(r, p, ends[s] - x->parts[s].at);
        failed |= *p == '-';
        if (!failed && q->row->merge == MERGE_SUM) sum += strtoll(p + 1, NULL, 10);
        x->parts[s].at = ends[s];
    }
    if (!failed && q->row->merge == MERGE_SUM) reply_int(r, sum);
    else if (!failed) reply_ok(r);
}

static void take_pieces(struct thread *t, struct task *k, struct exec *x, uint32_t nth, struct reply *r, size_t *ends) {
    struct queued *q = x->commands[nth];
    memset(ends, 0, t->n_threads * sizeof *ends);
    for (uint32_t i = 0; i < q->hop.n_keys; i++) {
        uint32_t s = key_shard(t, q, i);
        if (!ends[s]) ends[s] = take_next(k, x, s, &x->results[nth].cycles);
    }
    if (x->hops[nth].flags & HOP_NO_REPLY) return;
    if (q->row->merge == MERGE_EACH) take_each(t, k, x, q, r);
    else take_sum(t, k, x, ends, q, r);
}

/* True: the pieces are whole, so what lies where in them is known. */
static bool are_whole(const struct thread *t, const struct task *k) {
    for (uint32_t s = 0; s < t->n_threads; s++)
        if (k->pieces[s] && k->pieces[s]->replies.failed) return false;
    return true;
}

static void reply_all(struct thread *t, struct task *k, struct exec *x) {
    struct reply *r = conn_output(t, x->conn, false);
    size_t saved = 0, *ends = mi_calloc(t->n_threads, sizeof *ends);
    if (!ends || !are_whole(t, k)) {
        r->failed = true;
        mi_free(ends);
        return;
    }
    if (x->head) reply_array(r, x->n);
    for (uint32_t i = 0; i < x->n; i++) {
        size_t before = r->size;
        bool muted = x->hops[i].flags & HOP_NO_REPLY;
        if (x->commands[i]->saved) {
            if (!muted) reply_bytes(r, x->saved.p + saved, x->results[i].saved.size);
            saved += x->results[i].saved.size;
        } else {
            uint32_t s = only_shard(t, x->commands[i]);
            if (s == SEVERAL) take_pieces(t, k, x, i, r, ends);
            else take_until(k, x, s, take_next(k, x, s, &x->results[i].cycles), r);
        }
        exec_count(t, x, i, r->p + before, r->failed ? 0 : r->size - before);
    }
    r->failed |= x->saved.failed;
    mi_free(ends);
    conn_mark(t, x->conn);
}

/* ---- steps ---- */

static void run_parts(struct thread *t, struct task *k, struct exec *x) {
    task_forget_wave(t, k);
    x->state = EXEC_PARTS;
    if (send_parts(t, k, x)) return;
    task_forget_wave(t, k);
    x->conn->out.failed = true; /* some commands of the connection have run, so there is no error that would be true */
    x->state = EXEC_LEAVING;
    transact_let_go(t, k);
}

void exec_shards_go_on(struct thread *t, struct task *k, struct exec *x) {
    switch (x->state) {
    case EXEC_SCHEDULED:
        task_forget_wave(t, k);
        x->state = EXEC_LOOKING;
        if (!look_at_watched(t, k, x)) run_parts(t, k, x);
        return;
    case EXEC_LOOKING:
        x->aborted = !all_are_valid(t, k);
        if (!x->aborted) {
            run_parts(t, k, x);
            return;
        }
        task_forget_wave(t, k);
        x->state = EXEC_LEAVING;
        transact_let_go(t, k);
        return;
    case EXEC_PARTS: reply_all(t, k, x); break;
    default:
        if (x->aborted) reply_null_array(conn_output(t, x->conn, x->conn->reply_off || x->conn->reply_skip || x->skipped));
    }
    task_forget_wave(t, k);
    transact_end(t, k);
    exec_over(t, k, x);
}
