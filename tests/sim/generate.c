/* From a seed to a plan: how large the world is, what may go wrong in it, and what its clients ask. */
#include <string.h>

#include "tests/lib/random.h"
#include "tests/sim/plan.h"

#define PIPELINE_MAX 6u

enum family { PLAIN, LISTS, FANOUT, GATHER, BANK, EXEC, FLUSH, SWAP, POP, FAMILIES };

enum style {
    MIXED,
    WATCHERS, /* half of the clients write in pipelines, the others read key after key: they see most of what should not be seen */
    CHAINS, /* pairs of keys over shards, so that one transaction stands behind another on each, and plain commands that see how far they are */
    QUEUES,     /* half of the clients push, the others pop, mostly */
    SHORT_LIVES /* of all keys that are set */
};

/* What is asked how often. */
struct shape {
    enum style style;
    uint8_t weights[FAMILIES];
};

static const struct shape shapes[] = {
    {MIXED, {[PLAIN] = 6, [FANOUT] = 4, [GATHER] = 3, [EXEC] = 2, [FLUSH] = 1, [SWAP] = 1}},
    {MIXED, {[LISTS] = 6, [FANOUT] = 3, [EXEC] = 3}},
    {MIXED, {[PLAIN] = 4, [LISTS] = 4, [FANOUT] = 3, [GATHER] = 2, [BANK] = 2, [EXEC] = 3}},
    {MIXED, {[BANK] = 6}},
    {MIXED, {[PLAIN] = 4, [LISTS] = 4, [FANOUT] = 4, [GATHER] = 2, [BANK] = 2, [EXEC] = 2, [FLUSH] = 1, [SWAP] = 1}},
    {MIXED, {[PLAIN] = 8, [LISTS] = 8, [FANOUT] = 1, [GATHER] = 1, [EXEC] = 1}},
    {WATCHERS, {[PLAIN] = 10, [LISTS] = 5}},
    {WATCHERS, {[PLAIN] = 10, [LISTS] = 5}},
    {WATCHERS, {[PLAIN] = 10, [LISTS] = 5}},
    {CHAINS, {[PLAIN] = 9, [FANOUT] = 7}},
    {CHAINS, {[PLAIN] = 9, [FANOUT] = 7}},
    {MIXED, {[PLAIN] = 3, [LISTS] = 3, [FANOUT] = 6, [GATHER] = 1, [EXEC] = 4}},
    {MIXED, {[LISTS] = 6, [FANOUT] = 4, [EXEC] = 6}},
    {MIXED, {[PLAIN] = 6, [FANOUT] = 1, [GATHER] = 2, [EXEC] = 2, [FLUSH] = 1, [SWAP] = 1, [POP] = 5}},
    {SHORT_LIVES, {[PLAIN] = 4, [FANOUT] = 3, [GATHER] = 4, [EXEC] = 4}},
    {QUEUES, {[PLAIN] = 6, [POP] = 6}},
    {QUEUES, {[PLAIN] = 8, [FANOUT] = 3, [GATHER] = 1, [EXEC] = 4, [SWAP] = 1, [POP] = 8}},
};

struct maker {
    struct plan *plan;
    struct random random;
    uint16_t token;
    const struct shape *shape;
    bool expire;
    bool second; /* of the two halves of the clients this one is in */
};

static bool has(const struct maker *m, enum family f) { return m->shape->weights[f]; }

static struct part *add_part(struct maker *m, struct op *op, enum part_kind kind, uint32_t db, uint32_t key, uint32_t wave) {
    struct part *p = &op->parts[op->n_parts++];
    *p = (struct part){.kind = (uint8_t)kind, .db = (uint8_t)db, .key = (uint8_t)key, .wave = (uint8_t)wave, .from = -1};
    if (kind == PART_SET || kind == PART_APPEND) p->token = ++m->token;
    if (kind == PART_SET && m->expire && (m->shape->style == SHORT_LIVES || one_in(&m->random, 3)))
        p->ttl_ms = (int32_t)(1 + below(&m->random, 40));
    if (kind == PART_INCR) p->number = 1;
    if (kind == PART_POP) p->needs = 1;
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
    static const uint8_t of_queues[] = {PART_APPEND, PART_APPEND, PART_APPEND, PART_APPEND, PART_SET, PART_GET, PART_POP, PART_DEL};
    return (enum part_kind)(has(m, POP) ? of_queues : kinds)[below(&m->random, sizeof kinds)];
}

static void make_fanout(struct maker *m, struct op *op, bool lists);

static void make_single(struct maker *m, struct op *op, bool lists) {
    enum style style = m->shape->style;
    if (style == CHAINS && !m->second) {
        make_fanout(m, op, false);
        return;
    }
    uint32_t key = any_key(m);
    op->kind = OP_SINGLE;
    if (style == WATCHERS) {
        bool list = lists && !is_counter(m, key);
        add_part(m, op, m->second ? PART_GET : list ? PART_APPEND : PART_SET, list ? DB_LISTS : DB_A, key, 0);
    } else if (style == CHAINS) add_part(m, op, one_in(&m->random, 6) ? PART_SET : PART_GET, DB_A, key, 0);
    else if (lists) add_part(m, op, any_of_lists(m, key), DB_LISTS, key, 0);
    else add_part(m, op, any_of_plain(m), any_db(m), key, 0);
}

static void make_fanout(struct maker *m, struct op *op, bool lists) {
    static const uint8_t kinds[] = {PART_GET, PART_SET, PART_DEL, PART_EXISTS}, names[] = {OP_MGET, OP_MSET, OP_MDEL, OP_MEXISTS};
    uint32_t choice = lists ? 0 : below(&m->random, 3) ? below(&m->random, 2) : below(&m->random, 4);
    uint32_t n = 2 + below(&m->random, 3), db = lists ? DB_LISTS : any_db(m);
    uint8_t keys[KEYS_MAX];
    bool chains = m->shape->style == CHAINS;
    if (chains) { /* no two on one shard */
        n = 2;
        choice = below(&m->random, 4) > 0;
        db = DB_A;
    }
    op->kind = names[choice];
    op->whole = !chains && one_in(&m->random, 6);
    choose_keys(m, keys);
    if (op->whole || n > m->plan->settings.keys) n = m->plan->settings.keys;
    for (uint32_t i = 0; i < n; i++) add_part(m, op, (enum part_kind)kinds[choice], db, keys[i], 0);
    bool waves =
        kinds[choice] == PART_SET && !chains && one_in(&m->random, has(m, POP) ? 1 : 3); /* as many keys have, some of them named twice */
    for (uint32_t i = 0; waves && i < 2; i++) add_part(m, op, PART_SET, db, keys[i], 1);
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
        bool lists = has(m, LISTS) && (!has(m, PLAIN) || one_in(&m->random, 2));
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
    bool lists = has(m, LISTS) && one_in(&m->random, 2);
    op->kind = OP_WATCH;
    choose_keys(m, keys);
    for (uint32_t i = 0, n = 1 + below(&m->random, 2); i < n; i++) add_part(m, op, PART_GET, lists ? DB_LISTS : DB_A, keys[i], 0);
}

/* Waits for some keys, now and then twice for one; some want two elements at once. */
static void make_pop(struct maker *m, struct op *op) {
    uint32_t n = 1 + below(&m->random, 3), db = any_db(m), needs = one_in(&m->random, 5) ? 2 : 1;
    uint8_t keys[KEYS_MAX];
    op->kind = OP_POP;
    op->patience = (uint16_t)(one_in(&m->random, 3) ? 1 + below(&m->random, 20000) : 0);
    choose_keys(m, keys);
    for (uint32_t i = 0; i < n; i++) add_part(m, op, PART_POP, db, keys[i], 0)->needs = (uint8_t)needs;
    if (one_in(&m->random, 10)) add_part(m, op, PART_POP, db, keys[0], 0)->needs = (uint8_t)needs;
}

static enum family any_family(struct maker *m) {
    const uint8_t *weights = m->shape->weights;
    uint32_t sum = 0, family = 0;
    for (uint32_t i = 0; i < FAMILIES; i++) sum += weights[i];
    for (uint32_t at = below(&m->random, sum); at >= weights[family]; family++) at -= weights[family];
    if (m->shape->style == QUEUES && one_in(&m->random, 2))
        return m->second ? POP : has(m, FANOUT) && one_in(&m->random, 3) ? FANOUT : PLAIN;
    return (enum family)family;
}

static void make_op(struct maker *m, struct op *op) {
    switch (any_family(m)) {
    case PLAIN: make_single(m, op, false); break;
    case LISTS: make_single(m, op, true); break;
    case FANOUT:
        if (m->second && m->shape->style == CHAINS) make_single(m, op, false);
        else make_fanout(m, op, has(m, LISTS) && (!has(m, PLAIN) || one_in(&m->random, 3)));
        break;
    case GATHER: one_in(&m->random, 2) ? make_setnx(m, op) : make_rename(m, op); break;
    case BANK: make_bank(m, op); break;
    case EXEC: make_exec(m, op, NULL); break;
    case FLUSH: op->kind = OP_FLUSH; break;
    case POP: make_pop(m, op); break;
    default: op->kind = OP_SWAP; break;
    }
}

static void make_cut(struct maker *m, struct op *op) {
    uint32_t db = has(m, BANK) ? DB_BANK : has(m, LISTS) ? DB_LISTS : DB_A;
    op->kind = OP_CUT;
    for (uint32_t key = 0; key < m->plan->settings.keys; key++) add_part(m, op, PART_GET, db, key, 0);
}

/* A client's pipelines, one after another; a WATCH and its EXEC are a pipeline each. */
static void make_client(struct maker *m, uint32_t client, uint32_t n_ops) {
    enum style style = m->shape->style;
    m->second = client % 2 && (style == WATCHERS || style == CHAINS || style == QUEUES);
    bool one = style == CHAINS || (style == WATCHERS && m->second);
    uint32_t longest = one ? 1 : 1 + below(&m->random, PIPELINE_MAX), watches = has(m, EXEC) ? 6 : 0;
    for (uint32_t pipeline = client * 1000; n_ops && m->plan->n_ops + PIPELINE_MAX + 2 < OPS_MAX / 2;) {
        if (watches && one_in(&m->random, watches)) {
            struct op *watch = add_op(m, client, pipeline++);
            make_watch(m, watch);
            make_exec(m, add_op(m, client, pipeline++), watch);
            n_ops -= n_ops < 2 ? n_ops : 2;
            continue;
        }
        uint32_t n = 1 + below(&m->random, longest);
        if (m->plan->settings.snapshots && one_in(&m->random, 10)) make_cut(m, add_op(m, client, pipeline++));
        if (n > n_ops) n = n_ops;
        for (uint32_t i = 0; i < n; i++) make_op(m, add_op(m, client, pipeline));
        m->plan->ops[m->plan->n_ops - 1].leaves = one_in(&m->random, 40);
        pipeline++;
        n_ops -= n;
    }
}

void plan_make(struct plan *p, uint64_t seed) {
    struct maker m = {.plan = p};
    random_seed(&m.random, seed, 0);
    struct random *r = &m.random;
    memset(p, 0, sizeof *p);
    m.shape = &shapes[below(r, sizeof shapes / sizeof *shapes)];
    enum style style = m.shape->style;
    p->settings = (struct settings){.seed = seed,
        .order = seed,
        .shards = 2 + below(r, SHARDS_MAX - 1),
        .clients = 2 + below(r, CLIENTS_MAX - 1),
        .keys = 3 + below(r, KEYS_MAX - 2),
        .stall = one_in(r, 3),
        .lend = one_in(r, 2),
        .expire = style == SHORT_LIVES || one_in(r, 3),
        .refuse = !has(&m, BANK) && one_in(r, 4),
        .hold_replies = one_in(r, 2),
        .release_late = one_in(r, 2),
        .snapshots = one_in(r, 2)};
    if (style == WATCHERS || style == CHAINS) {
        p->settings.stall = true;
        p->settings.often = style == CHAINS;
        p->settings.snapshots &= style != CHAINS; /* they keep threads busy that are held up all the time */
        p->settings.shards = p->settings.keys = 3 + below(r, SHARDS_MAX - 2);
        p->settings.clients = CLIENTS_MAX;
    }
    if (style == QUEUES) p->settings.clients = 4 + below(r, CLIENTS_MAX - 3);
    p->settings.jump = p->settings.expire && one_in(r, 4);
    m.expire = p->settings.expire;
    uint32_t n = style == CHAINS || style == QUEUES ? 100 : 20 + below(r, 60);
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
