/* From a seed to a plan: how large the world is, what may go wrong in it, and what its clients ask. */
#include <string.h>

#include "tests/sim/plan.h"
#include "tests/sim/random.h"

#define PIPELINE_MAX 6u

struct maker {
    struct plan *plan;
    struct random random;
    uint16_t token;
    uint32_t weights[8]; /* of the families below */
    bool expire;
    bool watchers; /* half of the clients write in pipelines, the others read key after key: they see most of what should not be seen */
    bool reads;    /* this one does */
    /* Pairs of keys over shards, so that one transaction stands behind another on each, and plain commands that see how far they are. */
    bool chains;
};

static struct part *add_part(struct maker *m, struct op *op, enum part_kind kind, uint32_t db, uint32_t key, uint32_t wave) {
    struct part *p = &op->parts[op->n_parts++];
    *p = (struct part){.kind = (uint8_t)kind, .db = (uint8_t)db, .key = (uint8_t)key, .wave = (uint8_t)wave, .from = -1};
    if (kind == PART_SET || kind == PART_APPEND) p->token = ++m->token;
    if (kind == PART_SET && m->expire && one_in(&m->random, 3)) p->ttl_ms = (int32_t)(1 + below(&m->random, 40));
    if (kind == PART_INCR) p->number = 1;
    return p;
}

static uint32_t any_key(struct maker *m) { return below(&m->random, m->plan->settings.keys); }
static uint32_t any_db(struct maker *m) { return one_in(&m->random, 5) ? DB_B : DB_A; }

/* n different keys, as a permutation's beginning. */
static void choose_keys(struct maker *m, uint8_t keys[KEYS_MAX]) {
    uint32_t n = m->plan->settings.keys;
    for (uint32_t i = 0; i < KEYS_MAX; i++) keys[i] = (uint8_t)i;
    for (uint32_t i = 0; i + 1 < n; i++) {
        uint32_t j = i + below(&m->random, n - i);
        uint8_t key = keys[i];
        keys[i] = keys[j];
        keys[j] = key;
    }
}

/* In DB_LISTS the upper keys are counters. */
static bool is_counter(const struct maker *m, uint32_t key) { return key >= m->plan->settings.keys - m->plan->settings.keys / 3; }

static enum part_kind any_of_lists(struct maker *m, uint32_t key) {
    if (one_in(&m->random, 2)) return PART_GET;
    return is_counter(m, key) ? PART_INCR : PART_APPEND;
}

static enum part_kind any_of_plain(struct maker *m) {
    static const uint8_t kinds[] = {PART_GET, PART_GET, PART_GET, PART_SET, PART_SET, PART_APPEND, PART_DEL, PART_EXISTS};
    return (enum part_kind)kinds[below(&m->random, sizeof kinds)];
}

static void make_fanout(struct maker *m, struct op *op, bool lists);

static void make_single(struct maker *m, struct op *op, bool lists) {
    if (m->chains && !m->reads) {
        make_fanout(m, op, false);
        return;
    }
    uint32_t key = any_key(m);
    op->kind = OP_SINGLE;
    if (m->watchers)
        add_part(m, op,
            m->reads                           ? PART_GET
                : lists && !is_counter(m, key) ? PART_APPEND
                                               : PART_SET,
            lists && !is_counter(m, key) ? DB_LISTS : DB_A, key, 0);
    else if (m->chains) add_part(m, op, one_in(&m->random, 6) ? PART_SET : PART_GET, DB_A, key, 0);
    else if (lists) add_part(m, op, any_of_lists(m, key), DB_LISTS, key, 0);
    else add_part(m, op, any_of_plain(m), any_db(m), key, 0);
}

static void make_fanout(struct maker *m, struct op *op, bool lists) {
    static const uint8_t kinds[] = {PART_GET, PART_SET, PART_DEL, PART_EXISTS}, names[] = {OP_MGET, OP_MSET, OP_MDEL, OP_MEXISTS};
    uint32_t choice = lists ? 0 : below(&m->random, 3) ? below(&m->random, 2) : below(&m->random, 4);
    uint32_t n = 2 + below(&m->random, 3), db = lists ? DB_LISTS : any_db(m);
    uint8_t keys[KEYS_MAX];
    if (m->chains) { /* no two on one shard */
        n = 2;
        choice = below(&m->random, 4) > 0;
        db = DB_A;
    }
    op->kind = names[choice];
    op->whole = !m->chains && one_in(&m->random, 6);
    choose_keys(m, keys);
    if (op->whole || n > m->plan->settings.keys) n = m->plan->settings.keys;
    for (uint32_t i = 0; i < n; i++) add_part(m, op, (enum part_kind)kinds[choice], db, keys[i], 0);
}

static void make_setnx(struct maker *m, struct op *op) {
    uint8_t keys[KEYS_MAX];
    uint32_t db = any_db(m);
    op->kind = OP_MSETNX;
    choose_keys(m, keys);
    for (uint32_t i = 0; i < 2; i++) add_part(m, op, PART_EXISTS, db, keys[i], 0);
    for (uint32_t i = 0; i < 2; i++) add_part(m, op, PART_SET, db, keys[i], 1);
}

static void make_rename(struct maker *m, struct op *op) {
    uint8_t keys[KEYS_MAX];
    uint32_t db = any_db(m);
    op->kind = OP_RENAME;
    choose_keys(m, keys);
    add_part(m, op, PART_GET, db, keys[0], 0);
    struct part *set = add_part(m, op, PART_SET, db, keys[1], 1);
    set->from = 0;
    set->ttl_ms = 0;
    add_part(m, op, PART_DEL, db, keys[0], 1);
}

static void make_bank(struct maker *m, struct op *op) {
    uint8_t keys[KEYS_MAX];
    choose_keys(m, keys);
    if (one_in(&m->random, 3)) {
        op->kind = OP_MGET;
        op->whole = one_in(&m->random, 4);
        for (uint32_t i = 0; i < m->plan->settings.keys; i++) add_part(m, op, PART_GET, DB_BANK, i, 0);
        return;
    }
    int64_t amount = 1 + below(&m->random, 60);
    op->kind = OP_TRANSFER;
    add_part(m, op, PART_GET, DB_BANK, keys[0], 0);
    add_part(m, op, PART_INCR, DB_BANK, keys[0], 1)->number = -amount;
    add_part(m, op, PART_INCR, DB_BANK, keys[1], 1)->number = amount;
}

/* MULTI ... EXEC: lists and plain keys in one. */
static void make_exec(struct maker *m, struct op *op, const struct op *watch) {
    uint32_t n = 2 + below(&m->random, 4), wave = watch != NULL;
    op->kind = OP_EXEC;
    for (uint32_t i = 0; watch && i < watch->n_parts; i++) add_part(m, op, PART_GET, watch->parts[i].db, watch->parts[i].key, 0);
    op->n_watched = op->n_parts;
    for (uint32_t i = 0; i < n; i++) {
        bool lists = m->weights[1] && (!m->weights[0] || one_in(&m->random, 2));
        uint32_t key = watch && one_in(&m->random, 2) ? watch->parts[0].key : any_key(m);
        if (lists) add_part(m, op, any_of_lists(m, key), DB_LISTS, key, wave);
        else add_part(m, op, any_of_plain(m), any_db(m), key, wave);
    }
}

static struct op *add_op(struct maker *m, uint32_t client, uint32_t pipeline) {
    struct plan *p = m->plan;
    struct op *op = &p->ops[p->n_ops];
    *op = (struct op){.client = (uint8_t)client, .pipeline = (uint16_t)pipeline, .parts = &p->parts[p->n_ops * PARTS_MAX]};
    p->n_ops++;
    return op;
}

static void make_watch(struct maker *m, struct op *op) {
    uint8_t keys[KEYS_MAX];
    bool lists = m->weights[1] && one_in(&m->random, 2);
    op->kind = OP_WATCH;
    choose_keys(m, keys);
    for (uint32_t i = 0, n = 1 + below(&m->random, 2); i < n; i++) add_part(m, op, PART_GET, lists ? DB_LISTS : DB_A, keys[i], 0);
}

static void make_op(struct maker *m, struct op *op) {
    uint32_t sum = 0, family = 0;
    for (uint32_t i = 0; i < 8; i++) sum += m->weights[i];
    for (uint32_t at = below(&m->random, sum); at >= m->weights[family]; family++) at -= m->weights[family];
    switch (family) {
    case 0: make_single(m, op, false); break;
    case 1: make_single(m, op, true); break;
    case 2: m->reads ? make_single(m, op, false) : make_fanout(m, op, m->weights[1] && (!m->weights[0] || one_in(&m->random, 3))); break;
    case 3: one_in(&m->random, 2) ? make_setnx(m, op) : make_rename(m, op); break;
    case 4: make_bank(m, op); break;
    case 5: make_exec(m, op, NULL); break;
    case 6: op->kind = OP_FLUSH; break;
    default: op->kind = OP_SWAP; break;
    }
}

/* A client's pipelines, one after another; a WATCH and its EXEC are a pipeline each. */
static void make_client(struct maker *m, uint32_t client, uint32_t n_ops) {
    m->reads = (m->watchers || m->chains) && client % 2;
    uint32_t longest = m->reads || m->chains ? 1 : 1 + below(&m->random, PIPELINE_MAX), watches = m->weights[5] ? 6 : 0;
    for (uint32_t pipeline = client * 1000; n_ops && m->plan->n_ops + PIPELINE_MAX + 2 < OPS_MAX / 2;) {
        if (watches && one_in(&m->random, watches)) {
            struct op *watch = add_op(m, client, pipeline++);
            make_watch(m, watch);
            make_exec(m, add_op(m, client, pipeline++), watch);
            n_ops -= n_ops < 2 ? n_ops : 2;
            continue;
        }
        uint32_t n = 1 + below(&m->random, longest);
        if (n > n_ops) n = n_ops;
        for (uint32_t i = 0; i < n; i++) make_op(m, add_op(m, client, pipeline));
        m->plan->ops[m->plan->n_ops - 1].leaves = one_in(&m->random, 40);
        pipeline++;
        n_ops -= n;
    }
}

static void choose_weights(struct maker *m) {
    static const uint8_t weights[][8] = {
        /* plain lists fan-out gather bank exec flush swap */
        {6, 0, 4, 3, 0, 2, 1, 1},
        {0, 6, 3, 0, 0, 3, 0, 0},
        {4, 4, 3, 2, 2, 3, 0, 0},
        {0, 0, 0, 0, 6, 0, 0, 0},
        {4, 4, 4, 2, 2, 2, 1, 1},
        {8, 8, 1, 1, 0, 1, 0, 0},
        {10, 5, 0, 0, 0, 0, 0, 0}, /* watchers */
        {10, 5, 0, 0, 0, 0, 0, 0},
        {10, 5, 0, 0, 0, 0, 0, 0},
        {9, 0, 7, 0, 0, 0, 0, 0}, /* chains */
        {9, 0, 7, 0, 0, 0, 0, 0},
        {3, 3, 6, 1, 0, 4, 0, 0},
        {0, 6, 4, 0, 0, 6, 0, 0},
    };
    const uint8_t *chosen = weights[below(&m->random, sizeof weights / sizeof *weights)];
    for (uint32_t i = 0; i < 8; i++) m->weights[i] = chosen[i];
    m->watchers = chosen[0] + chosen[1] == 15;
    m->chains = chosen[0] == 9;
}

void plan_make(struct plan *p, uint64_t seed) {
    struct maker m = {.plan = p};
    random_seed(&m.random, seed, 0);
    struct random *r = &m.random;
    memset(p, 0, sizeof *p);
    choose_weights(&m);
    p->settings = (struct settings){.seed = seed,
        .order = seed,
        .shards = 2 + below(r, SHARDS_MAX - 1),
        .clients = 2 + below(r, CLIENTS_MAX - 1),
        .keys = 3 + below(r, KEYS_MAX - 2),
        .stall = one_in(r, 3),
        .lend = one_in(r, 2),
        .expire = one_in(r, 3),
        .refuse = !m.weights[4] && one_in(r, 4),
        .hold_replies = one_in(r, 2),
        .release_late = one_in(r, 2)};
    if (m.watchers || m.chains) {
        p->settings.stall = true;
        p->settings.often = m.chains;
        p->settings.shards = p->settings.keys = 3 + below(r, SHARDS_MAX - 2);
        p->settings.clients = CLIENTS_MAX;
    }
    p->settings.jump = p->settings.expire && one_in(r, 4);
    m.expire = p->settings.expire;
    uint32_t n = m.chains ? 100 : 20 + below(r, 60);
    for (uint32_t c = 0; c < p->settings.clients; c++) make_client(&m, c, 1 + n / p->settings.clients);
}

bool op_goes_on(enum op_kind kind, const struct part *parts, uint32_t n, uint32_t n_watched) {
    switch (kind) {
    case OP_MSETNX:
        for (uint32_t i = 0; i < n && !parts[i].wave; i++)
            if (parts[i].result) return false;
        return true;
    case OP_RENAME: return parts[0].status == PART_DONE;
    case OP_TRANSFER: return parts[0].status == PART_DONE && parts[0].got.number + parts[1].number >= 0;
    case OP_EXEC:
        for (uint32_t i = 0; i < n_watched; i++)
            if (parts[i].got.code != parts[i].expected) return false;
        return true;
    default: return true;
    }
}
