/* The HyperLogLog commands, on strings that shard/hyperloglog.h describes. In this file: values; PFADD; PFCOUNT and PFMERGE, on one shard and on several; PFDEBUG, PFSELFTEST; the
 * rows.
 */
#include "shard/hyperloglog.h"

#include <math.h>
#include <mimalloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/command.h"
#include "server/config.h"
#include "server/many.h"
#include "server/steps.h"
#include "server/strings.h"
#include "server/task_internal.h"

/* ---- values ---- */

/* What may be wrong with the value of a key. */
enum fault { FAULT_NONE, FAULT_TYPE, FAULT_NO_HLL, FAULT_CORRUPT };

static void reply_fault(struct reply *r, enum fault fault) {
    if (fault == FAULT_TYPE) reply_wrong_type(r);
    else if (fault == FAULT_NO_HLL) reply_error(r, "WRONGTYPE Key is not a valid HyperLogLog string value.");
    else reply_error(r, "INVALIDOBJ Corrupted HLL object detected");
}

/* The bytes of a key that is there. */
static enum fault value_of(const struct key *k, const unsigned char **p, size_t *size) {
    char scratch[INT64_TEXT_SIZE];
    if (entry_type(k->entry) != TYPE_STRING) return FAULT_TYPE;
    if (entry_encoding(k->entry) == ENC_INT) return FAULT_NO_HLL;
    *p = (const unsigned char *)key_string(k, scratch, size);
    return hll_is(*p, *size) ? FAULT_NONE : FAULT_NO_HLL;
}

static size_t sparse_max(void) { return (size_t)config_current()->hll_sparse_max_bytes; }

/* Puts a value that was made or changed elsewhere under the key; nobody is told yet. */
static bool put(struct shard *s, struct key *k, const struct hll *x, struct reply *r) {
    char *p = key_make_writable(s, k, x->size, k->entry && !hll_is_dense(x->p), KEY_PFADD);
    if (!p) {
        reply_refused(s, r);
        return false;
    }
    memcpy(p, x->p, x->size);
    hll_outdate(p);
    return true;
}

static bool place(struct shard *s, struct key *k, const struct hll *x, struct reply *r) {
    if (!put(s, k, x, r)) return false;
    key_after_change(s, k, KEY_PFADD);
    return true;
}

/* ---- PFADD ---- */

/* Elements from argv[at] on, before argv[to], are added to a copy. changed: at least one changed it. */
static enum hll_result add_rest(struct hll *x, const struct hop *h, uint32_t at, uint32_t to, bool *changed) {
    struct hll_place place = {0};
    for (; at < to; at++) {
        struct hll_element e = hll_element(h->argv[at].p, h->argv[at].size);
        enum hll_result one = hll_find(x->p, x->size, e, &place);
        if (one == HLL_CHANGED) one = hll_put(x, e, &place, sparse_max());
        if (one == HLL_CORRUPT) return one;
        *changed |= one == HLL_CHANGED;
    }
    return HLL_SAME;
}

/* Registers are written where they lie. False: refused. */
static bool write_dense(struct shard *s, struct key *k, const struct hop *h, uint32_t at, uint32_t to, struct reply *r) {
    char *p = key_make_writable(s, k, HLL_DENSE_SIZE, false, KEY_PFADD);
    struct hll_place place;
    if (!p) {
        reply_refused(s, r);
        return false;
    }
    for (; at < to; at++) {
        struct hll_element e = hll_element(h->argv[at].p, h->argv[at].size);
        if (hll_find(p, HLL_DENSE_SIZE, e, &place) == HLL_CHANGED) hll_dense_put(p, e);
    }
    hll_outdate(p);
    return true;
}

static void add_to_dense(struct shard *s, struct key *k, const struct hop *h, uint32_t at, struct reply *r) {
    if (!write_dense(s, k, h, at, h->argc, r)) return;
    key_after_change(s, k, KEY_PFADD);
    reply_int(r, 1);
}

/* With what is there, from its first element that changes something on. If it turns out to be corrupt, what was added before stays added, as in Redis. */
static void add_to_sparse(
    struct shard *s, struct key *k, const struct hop *h, uint32_t at, const unsigned char *p, size_t size, struct reply *r) {
    unsigned char room[HLL_ROOM];
    struct hll x = {room, size};
    if (size > HLL_SPARSE_SIZE_MAX) {
        reply_fault(r, FAULT_CORRUPT);
        return;
    }
    bool changed = !p;
    if (p) memcpy(room, p, size);
    else hll_init(&x);
    enum hll_result result = add_rest(&x, h, at, h->argc, &changed);
    if (changed && !place(s, k, &x, r)) return;
    if (result == HLL_CORRUPT) reply_fault(r, FAULT_CORRUPT);
    else reply_int(r, changed);
}

/* The first element from argv[at] on, before argv[to], that would change a value, or shows that it is corrupt. */
static inline enum hll_result find_change(const unsigned char *p, size_t size, const struct hop *h, uint32_t *at, uint32_t to) {
    struct hll_place place;
    for (; *at < to; ++*at) {
        enum hll_result result = hll_find(p, size, hll_element(h->argv[*at].p, h->argv[*at].size), &place);
        if (result != HLL_SAME) return result;
    }
    return HLL_SAME;
}

/* Very many, in slices. The value as each leaves it is under the key; those who listen are told once, at the end. */
static bool begin_adding(struct shard *s, struct hop *h, struct many *m, struct reply *r) {
    const unsigned char *p = NULL;
    size_t size = 0;
    struct key k;
    enum fault fault = key_write(s, h, &k) ? value_of(&k, &p, &size) : FAULT_NONE;
    if (fault) reply_fault(r, fault);
    return !fault && ((p && hll_is_dense(p)) || many_reserve(s, m, &k, HLL_DENSE_SIZE, r));
}

/* Some in a copy of what is there, if anything is, from the first on that changes it. */
static enum hll_result add_some(
    struct shard *s, struct key *k, const struct hop *h, uint32_t at, uint32_t to, bool *changed, bool *refused, struct reply *r) {
    unsigned char room[HLL_ROOM];
    struct hll x = {room, 0};
    const unsigned char *p = NULL;
    enum hll_result result = HLL_SAME;
    *changed = !k->entry;
    if (!k->entry) hll_init(&x);
    else if (value_of(k, &p, &x.size) || (result = find_change(p, x.size, h, &at, to)) != HLL_CHANGED) return result;
    if (p && hll_is_dense(p)) {
        *changed = true;
        *refused = !write_dense(s, k, h, at, to, r);
        return HLL_SAME;
    }
    if (x.size > HLL_SPARSE_SIZE_MAX) return HLL_CORRUPT;
    *changed = true;
    if (p) memcpy(room, p, x.size);
    result = add_rest(&x, h, at, to, changed);
    *refused = !put(s, k, &x, r);
    return result;
}

static bool add_many(struct shard *s, struct hop *h, struct many *m, uint32_t to, struct reply *r) {
    bool changed = false, refused = false;
    struct key k;
    key_write(s, h, &k);
    enum hll_result result = add_some(s, &k, h, m->at, to, &changed, &refused, r);
    m->at = to;
    m->flag |= changed && !refused;
    bool over = refused || result == HLL_CORRUPT;
    if (m->flag && (over || many_is_last(h, m))) key_after_change(s, &k, KEY_PFADD);
    if (!refused && over) reply_fault(r, FAULT_CORRUPT);
    return !over;
}

static void end_adding(struct shard *s, struct hop *h, struct many *m, struct reply *r) {
    (void)s, (void)h;
    reply_int(r, m->flag);
}

static const struct many_way adding = {128, 2, 1, begin_adding, NULL, add_many, end_adding};

static enum hop_result pfadd(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    const unsigned char *p = NULL;
    size_t size = 0;
    uint32_t at = 2;
    if (__builtin_expect(h->argc > MANY_FEW, 0) && many_is_long(h, &adding)) return many_run(s, h, &adding, r);
    if (key_write(s, h, &k)) {
        enum hll_result result = HLL_SAME;
        enum fault fault = value_of(&k, &p, &size);
        if (!fault) result = find_change(p, size, h, &at, h->argc);
        if (result == HLL_CORRUPT) fault = FAULT_CORRUPT;
        if (fault) reply_fault(r, fault);
        else if (result == HLL_SAME) reply_int(r, 0);
        else if (hll_is_dense(p)) add_to_dense(s, &k, h, at, r);
        else add_to_sparse(s, &k, h, at, p, size, r);
    } else add_to_sparse(s, &k, h, at, NULL, 0, r);
    return HOP_DONE;
}

/* ---- PFCOUNT, PFMERGE ---- */

/* What several values come to. */
struct merged {
    uint8_t registers[HLL_REGISTERS];
    bool dense;    /* one of them is */
    uint8_t fault; /* enum fault, of the first key that has one; */
    uint32_t at;   /* which it is */
};

/* False: there is something wrong with it. */
static bool merge_key(struct merged *m, const struct key *k, uint32_t nth) {
    const unsigned char *p = NULL;
    size_t size = 0;
    if (!k->entry) return true;
    enum fault fault = value_of(k, &p, &size);
    if (!fault && !hll_merge(m->registers, p, size)) fault = FAULT_CORRUPT;
    if (!fault) m->dense |= hll_is_dense(p);
    m->fault = (uint8_t)fault;
    m->at = nth;
    return !fault;
}

/* All keys, on one shard or on several that are held. False: an error was replied. */
static bool merge_all(const struct spread *x, const struct hop *h, struct merged *m, struct reply *r) {
    struct key k;
    for (uint32_t i = 0; i < h->n_keys; i++) {
        if (x->n == 1) key_prefetch_ahead(x->shards[0], h, i);
        spread_read(x, h, i, NULL, &k);
        if (merge_key(m, &k, i)) continue;
        reply_fault(r, (enum fault)m->fault);
        return false;
    }
    return true;
}

/* The estimate is kept in the value, for the next time. */
static void count_one(struct shard *s, const struct hop *h, struct reply *r) {
    struct key k;
    const unsigned char *p = NULL;
    size_t size = 0;
    uint64_t estimate = 0;
    if (!key_read_nth(s, h, 0, &k)) {
        reply_int(r, 0);
        return;
    }
    enum fault fault = value_of(&k, &p, &size);
    bool kept = !fault && hll_kept(p, &estimate);
    if (!fault && !kept && !hll_estimate(p, size, &estimate)) fault = FAULT_CORRUPT;
    if (fault) {
        reply_fault(r, fault);
        return;
    }
    reply_int(r, (int64_t)estimate);
    char *to =
        kept ? NULL : key_make_writable(s, &k, size, false, KEY_PFCOUNT); /* without memory for a copy it is estimated again next time */
    if (!to) return;
    hll_keep(to, estimate);
    key_after_change(s, &k, KEY_PFCOUNT);
}

static void pfcount(const struct spread *x, struct hop *h, struct reply *r) {
    if (h->n_keys == 1) {
        count_one(spread_shard(x, h, 0), h, r);
        return;
    }
    struct merged m = {.at = 0};
    if (merge_all(x, h, &m, r)) reply_int(r, (int64_t)hll_estimate_registers(m.registers));
}

/* Raises the first key's value to the registers. */
static void write_merged(struct shard *s, struct key *k, const struct merged *m, struct reply *r) {
    unsigned char room[HLL_ROOM];
    const unsigned char *p = NULL;
    struct hll x = {room, 0};
    if (!k->entry) hll_init(&x);
    else if (value_of(k, &p, &x.size) || x.size > HLL_SPARSE_SIZE_MAX) {
        reply_fault(r, FAULT_CORRUPT);
        return;
    } else memcpy(room, p, x.size);
    if (m->dense && !hll_make_dense(&x)) {
        reply_fault(r, FAULT_CORRUPT);
        return;
    }
    hll_raise(&x, m->registers, sparse_max());
    if (place(s, k, &x, r)) reply_ok(r);
}

static void pfmerge(const struct spread *x, struct hop *h, struct reply *r) {
    struct merged m = {.at = 0};
    struct shard *s;
    struct key k;
    if (!merge_all(x, h, &m, r)) return;
    spread_write(x, h, 0, &s, &k);
    write_merged(s, &k, &m, r);
}

/* ---- on one shard ---- */

/* Keys of a slice: about 10 us each. */
#define SLICE_KEYS 16u

/* Very many keys, in slices. The hop's state: */
struct merging {
    struct merged m;
    uint32_t at; /* the next key */
};

/* False: there is more. */
static bool merge_slice(struct shard *s, struct hop *h, struct merging *g) {
    struct key k;
    for (uint32_t end = g->at + SLICE_KEYS; g->at < end && g->at < h->n_keys; g->at++) {
        key_prefetch_ahead(s, h, g->at);
        key_read_nth(s, h, g->at, &k);
        if (!merge_key(&g->m, &k, g->at)) return true;
    }
    return g->at == h->n_keys;
}

static void reply_merged(struct shard *s, struct hop *h, const struct merged *m, bool writes, struct reply *r) {
    struct key k;
    if (m->fault) reply_fault(r, (enum fault)m->fault);
    else if (!writes) reply_int(r, (int64_t)hll_estimate_registers(m->registers));
    else {
        key_write_nth(s, h, 0, &k);
        write_merged(s, &k, m, r);
    }
}

static enum hop_result on_one(struct shard *s, struct hop *h, spread_fn *few, bool writes, struct reply *r) {
    struct merging *g = h->state > HOP_IN_SLICES ? (struct merging *)(uintptr_t)h->state : NULL;
    if (h->n_keys <= 2 * SLICE_KEYS) {
        few(&(struct spread){&s, 1}, h, r);
        return HOP_DONE;
    }
    if (!h->state) return HOP_AGAIN;
    if (!g && !(g = mi_calloc(1, sizeof *g))) {
        reply_no_memory(r);
        return HOP_DONE;
    }
    h->state = (uint64_t)(uintptr_t)g;
    if (!merge_slice(s, h, g)) return HOP_AGAIN;
    reply_merged(s, h, &g->m, writes, r);
    mi_free(g);
    h->state = 0;
    return HOP_DONE;
}

static enum hop_result pfcount_on_one(struct shard *s, struct hop *h, struct reply *r) { return on_one(s, h, pfcount, false, r); }
static enum hop_result pfmerge_on_one(struct shard *s, struct hop *h, struct reply *r) { return on_one(s, h, pfmerge, true, r); }

static void merging_drop(struct shard *s, struct hop *h, struct reply *r) {
    (void)s, (void)r;
    if (h->state > HOP_IN_SLICES) mi_free((void *)(uintptr_t)h->state);
}

/* ---- over several shards ---- */

/* Keys of a wave: about 10 us each, so that no shard is busy with one for long. */
#define WAVE_KEYS 32u

/* Each shard merges its own. */
struct parts {
    uint32_t from, to; /* keys of the wave */
    uint32_t n;
    struct merged *of[]; /* by shard; NULL: it has no key */
};

static void parts_drop(struct thread *t, void *own) {
    struct parts *p = own;
    (void)t;
    for (uint32_t s = 0; s < p->n; s++) mi_free(p->of[s]);
    mi_free(p);
}

static bool parts_new(struct thread *t, struct task *k) {
    struct carrier *x = k->carrier;
    struct parts *p = mi_calloc(1, sizeof *p + t->n_threads * sizeof(struct merged *));
    if (!p) return false;
    p->n = t->n_threads;
    x->own = p;
    x->drop_own = parts_drop;
    if (!steps_find_shards(t, k)) return false;
    for (uint32_t i = 0; i < k->n_keys; i++) {
        struct merged **m = &p->of[x->shards[i]];
        if (!*m && !(*m = mi_calloc(1, sizeof **m))) return false;
    }
    return true;
}

static enum hop_result merge_part(struct shard *s, struct hop *h, struct reply *r) {
    struct carrier *x = steps_carrier(h);
    struct parts *p = x->own;
    struct merged *m = p->of[s->id];
    struct key k;
    (void)r;
    for (uint32_t i = p->from; i < p->to; i++) {
        if (x->shards[i] != s->id) continue;
        key_read_nth(s, h, i, &k);
        if (!merge_key(m, &k, i)) break;
    }
    return HOP_DONE;
}

static enum hop_result write_part(struct shard *s, struct hop *h, struct reply *r) {
    const struct parts *p = steps_carrier(h)->own;
    struct key k;
    key_write_nth(s, h, 0, &k);
    write_merged(s, &k, p->of[s->id], r);
    return HOP_DONE;
}

/* The fault of the first key that has one. */
static enum fault first_fault(const struct parts *p) {
    const struct merged *first = NULL;
    for (uint32_t s = 0; s < p->n; s++)
        if (p->of[s] && p->of[s]->fault && (!first || p->of[s]->at < first->at)) first = p->of[s];
    return first ? (enum fault)first->fault : FAULT_NONE;
}

/* All parts become one of them. */
static struct merged *join_parts(struct parts *p, uint32_t into) {
    struct merged *m = p->of[into];
    for (uint32_t s = 0; s < p->n; s++) {
        if (s == into || !p->of[s]) continue;
        hll_merge_registers(m->registers, p->of[s]->registers);
        m->dense |= p->of[s]->dense;
    }
    return m;
}

/* Waves of keys, until all are merged. False: they are, or an error was replied (*failed). */
static bool merge_steps(struct thread *t, struct task *k, struct reply *r, bool *failed) {
    *failed = false;
    if (k->step == 0 && !parts_new(t, k)) {
        reply_no_memory(r);
        *failed = true;
        return false;
    }
    struct parts *p = k->carrier->own;
    enum fault fault = first_fault(p);
    if (fault) {
        reply_fault(r, fault);
        *failed = true;
        return false;
    }
    if (p->to == k->n_keys) return false;
    p->from = p->to;
    p->to = k->n_keys - p->from > WAVE_KEYS ? p->from + WAVE_KEYS : k->n_keys;
    steps_wave_on_some(t, k, p->from, p->to, merge_part);
    return true;
}

static bool pfcount_steps(struct thread *t, struct task *k, struct reply *r) {
    bool failed;
    if (merge_steps(t, k, r, &failed)) return true;
    if (!failed) reply_int(r, (int64_t)hll_estimate_registers(join_parts(k->carrier->own, k->carrier->shards[0])->registers));
    return false;
}

static bool pfmerge_steps(struct thread *t, struct task *k, struct reply *r) {
    bool failed;
    struct parts *p = k->carrier->own;
    if (p && p->from == p->to) { /* the last wave wrote */
        steps_take_reply(t, k, r);
        return false;
    }
    if (merge_steps(t, k, r, &failed)) return true;
    if (failed) return false;
    p = k->carrier->own;
    p->from = p->to;
    join_parts(p, k->carrier->shards[0]);
    steps_wave_on(t, k, 0, write_part);
    return true;
}

/* ---- PFDEBUG, PFSELFTEST ---- */

static void debug_dense(struct shard *s, struct key *k, const struct hop *h, const unsigned char *p, size_t size, struct reply *r) {
    unsigned char room[HLL_ROOM];
    uint8_t registers[HLL_REGISTERS];
    struct hll x = {room, size};
    bool was_dense = hll_is_dense(p), fits = size <= HLL_SPARSE_SIZE_MAX;
    if (fits) memcpy(room, p, size);
    if (!fits || !hll_make_dense(&x)) {
        reply_fault(r, FAULT_CORRUPT);
        return;
    }
    if (!was_dense) {
        char *to = key_make_writable(s, k, x.size, false, KEY_PFADD);
        if (!to) {
            reply_refused(s, r);
            return;
        }
        memcpy(to, x.p, x.size);
        key_after_change(s, k, KEY_PFADD);
    }
    if (!arg_is(&h->argv[1], "getreg")) {
        reply_int(r, !was_dense);
        return;
    }
    hll_registers(registers, x.p);
    reply_array(r, HLL_REGISTERS);
    for (uint32_t i = 0; i < HLL_REGISTERS; i++) reply_int(r, registers[i]);
}

#define RUN_TEXT_MAX 16u /* "v:32,4 ", "Z:16384 " */

static void decode_run(void *arg, unsigned kind, unsigned length, unsigned value) {
    struct reply *text = arg;
    char run[RUN_TEXT_MAX];
    int n = kind > 1 ? snprintf(run, sizeof run, "v:%u,%u ", value, length) : snprintf(run, sizeof run, "%c:%u ", kind ? 'Z' : 'z', length);
    reply_bytes(text, run, (size_t)n);
}

static void debug_decode(const unsigned char *p, size_t size, struct reply *r) {
    struct reply text = {0};
    if (hll_is_dense(p)) {
        reply_error(r, "ERR HLL encoding is not sparse");
        return;
    }
    hll_each_run(p, size, decode_run, &text);
    reply_bulk(r, text.p ? text.p : "", text.size ? text.size - 1 : 0);
    r->failed |= text.failed;
    reply_drop(&text);
}

static enum hop_result pfdebug(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    const unsigned char *p = NULL;
    size_t size = 0;
    const struct arg *what = &h->argv[1];
    if (!key_write(s, h, &k)) {
        reply_error(r, "ERR The specified key does not exist");
        return HOP_DONE;
    }
    enum fault fault = value_of(&k, &p, &size);
    if (fault) reply_fault(r, fault);
    else if (arg_is(what, "getreg") || arg_is(what, "todense")) debug_dense(s, &k, h, p, size, r);
    else if (arg_is(what, "decode")) debug_decode(p, size, r);
    else if (arg_is(what, "encoding")) reply_status(r, hll_is_dense(p) ? "dense" : "sparse");
    else reply_errorf(r, "ERR Unknown PFDEBUG subcommand '%.*s'", (int)(what->size < 128 ? what->size : 128), what->p);
    return HOP_DONE;
}

#define TEST_ELEMENTS 10000u

/* Whether a sparse value that becomes dense has the same registers as a dense one, and estimates well all the way. About 0.3 ms. */
static const char *self_test(void) {
    unsigned char sparse_room[HLL_ROOM], dense_room[HLL_ROOM];
    struct hll sparse = {sparse_room, 0}, dense = {dense_room, 0};
    struct hll_place place = {0};
    hll_init(&sparse);
    hll_init(&dense);
    hll_make_dense(&dense);
    for (uint32_t i = 1; i <= TEST_ELEMENTS; i++) {
        struct hll_element e = hll_element(&i, sizeof i);
        uint64_t a, b;
        if (hll_find(dense.p, dense.size, e, &place) == HLL_CHANGED) hll_dense_put(dense.p, e);
        if (hll_find(sparse.p, sparse.size, e, &place) == HLL_CHANGED && hll_put(&sparse, e, &place, 3000) == HLL_CORRUPT)
            return "a sparse value broke";
        if ((i & (i - 1)) && i != TEST_ELEMENTS) continue;
        if (!hll_estimate(sparse.p, sparse.size, &a) || !hll_estimate(dense.p, dense.size, &b)) return "a value is corrupt";
        if (a != b) return "sparse and dense values differ";
        if (fabs((double)a - i) > 1 + i * 5 * 1.04 / sqrt(HLL_REGISTERS)) return "an estimate is too far off";
    }
    return NULL;
}

static void pfselftest(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)c, (void)argv, (void)argc;
    const char *wrong = self_test();
    if (wrong) reply_errorf(r, "ERR TESTFAILED %s", wrong);
    else reply_ok(r);
}

/* ---- the rows ---- */

const struct command commands_hyperloglog[] = {
    {.name = "pfadd",
        .group = "hyperloglog",
        .since = "2.8.9",
        .arity = -2,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
        .acl = ACL_HYPERLOGLOG,
        .summary = "Adds the specified elements to the specified HyperLogLog.",
        .complexity = "O(1) to add every element.",
        .plan = PLAN_SINGLE,
        .on_shard = pfadd,
        .on_drop = many_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_INSERT)},
        .n_key_specs = 1},
    {.name = "pfcount",
        .group = "hyperloglog",
        .since = "2.8.9",
        .arity = -2,
        .flags = CMD_READONLY | CMD_MAY_REPLICATE | CMD_ANY_KEYS,
        .acl = ACL_HYPERLOGLOG,
        .summary = "Return the approximated cardinality of the set(s) observed by the HyperLogLog at key(s).",
        .complexity = "O(1) with a very small average constant time when called with a single key. O(N) with N being the number of keys, "
                      "and much bigger constant times, when called with multiple keys.",
        .plan = PLAN_SPREAD,
        .on_shard = pfcount_on_one,
        .on_spread = pfcount,
        .on_drop = merging_drop,
        .on_steps = pfcount_steps,
        .keys = {KEY_RANGE_NOTED(
            1, -1, 1, KEY_RW | KEY_ACCESS, "RW because it may change the internal representation of the key, and propagate to replicas")},
        .n_key_specs = 1},
    {.name = "pfdebug",
        .group = "hyperloglog",
        .since = "2.8.9",
        .arity = 3,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_ADMIN,
        .acl = ACL_HYPERLOGLOG,
        .summary = "Internal commands for debugging HyperLogLog values",
        .complexity = "N/A",
        .plan = PLAN_SINGLE,
        .on_shard = pfdebug,
        .keys = {KEY_RANGE(2, 0, 1, KEY_RW | KEY_ACCESS)},
        .n_key_specs = 1},
    {.name = "pfmerge",
        .group = "hyperloglog",
        .since = "2.8.9",
        .arity = -2,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_ANY_KEYS,
        .acl = ACL_HYPERLOGLOG,
        .summary = "Merge N different HyperLogLogs into a single one.",
        .complexity = "O(N) to merge N HyperLogLogs, but with high constant times.",
        .plan = PLAN_SPREAD,
        .on_shard = pfmerge_on_one,
        .on_spread = pfmerge,
        .on_drop = merging_drop,
        .on_steps = pfmerge_steps,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_INSERT), KEY_RANGE(2, -1, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 2},
    {.name = "pfselftest",
        .group = "hyperloglog",
        .since = "2.8.9",
        .arity = 1,
        .flags = CMD_ADMIN,
        .acl = ACL_HYPERLOGLOG,
        .summary = "An internal command for testing HyperLogLog values",
        .complexity = "N/A",
        .plan = PLAN_CONNECTION,
        .on_connection = pfselftest},
    {.name = NULL},
};
