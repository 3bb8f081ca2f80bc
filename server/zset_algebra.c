/* Sorted sets together: ZUNION, ZINTER, ZDIFF, ZINTERCARD, and what stores their results; sets are sources too, as if each member had the score 1. In this file: arguments;
 * sources; the three operations; results; the commands where all shards are at hand; as waves of hops over several shards.
 *
 * Members of one source are looked for in others in groups, so that their cache misses overlap. Sources are taken in the order of their sizes, as in Redis: the sum of
 * scores depends on it. A result is a sorted set in any case, as it has an order.
 *
 * Over several shards each packs what its sources have; one makes sorted sets of that, and goes on as if it had them all.
 */
#include <errno.h>
#include <math.h>
#include <mimalloc.h>
#include <stdlib.h>

#include "server/sets.h"
#include "server/steps.h"
#include "server/strings.h"
#include "server/task_internal.h"
#include "server/thread.h"
#include "server/zset_parcel.h"
#include "server/zsets.h"
#include "shard/memory.h"

enum operation { UNION, INTER, DIFF };
enum aggregate { SUM, MIN, MAX };

/* What a command asks for. */
struct question {
    const char *name;
    enum operation operation;
    bool stores, counts;
    bool scores; /* WITHSCORES */
    enum aggregate aggregate;
    uint64_t limit;            /* of what ZINTERCARD counts; 0: none */
    const struct arg *weights; /* NULL: all are 1 */
};

/* ---- arguments ---- */

/* The number of keys' place. */
static uint32_t numkeys_at(const struct question *q) { return q->stores ? 2 : 1; }

/* False: an error was replied. */
static bool read_numkeys(const struct question *q, const struct arg *argv, uint32_t argc, uint32_t *n, struct reply *r) {
    uint32_t at = numkeys_at(q);
    int64_t told;
    if (!arg_int64(&argv[at], &told, r)) return false;
    if (told < 1) reply_errorf(r, "ERR at least 1 input key is needed for '%s' command", q->name);
    else if (told > argc - at - 1) reply_syntax_error(r);
    else {
        *n = (uint32_t)told;
        return true;
    }
    return false;
}

/* Of what stores: the destination, then behind their number the others. */
void zset_algebra_keys(const struct arg *argv, uint32_t argc, struct key_range *out) {
    int64_t told;
    out->step = HOP_KEY_GAP;
    out->n = parse_int64(argv[2].p, argv[2].size, &told) && told >= 1 && told <= argc - 3 ? (uint32_t)told + 1 : 0;
}

static bool read_weights(struct question *q, const struct arg *weights, uint32_t n, struct reply *r) {
    double weight;
    for (uint32_t i = 0; i < n; i++)
        if (!arg_score(&weights[i], &weight, "ERR weight value is not a float", r)) return false;
    q->weights = weights;
    return true;
}

static bool read_aggregate(struct question *q, const struct arg *a) {
    static const char *const names[] = {"sum", "min", "max"};
    for (unsigned i = 0; i < 3; i++) {
        if (!arg_is(a, names[i])) continue;
        q->aggregate = (enum aggregate)i;
        return true;
    }
    return false;
}

/* How many arguments the option at `a` takes; 0: it is none of this command's, or an error was replied. */
static uint32_t read_option(struct question *q, const struct arg *a, uint32_t left, uint32_t n, struct reply *r) {
    bool combines = q->operation != DIFF && !q->counts;
    int64_t limit;
    if (combines && left > n && arg_is(a, "weights")) return read_weights(q, a + 1, n, r) ? n + 1 : 0;
    if (combines && left >= 2 && arg_is(a, "aggregate")) return read_aggregate(q, a + 1) ? 2 : 0;
    if (!q->stores && !q->counts && arg_is(a, "withscores")) {
        q->scores = true;
        return 1;
    }
    if (!q->counts || left < 2 || !arg_is(a, "limit")) return 0;
    if (!parse_int64(a[1].p, a[1].size, &limit) || limit < 0) {
        reply_error(r, "ERR LIMIT can't be negative");
        return 0;
    }
    q->limit = (uint64_t)limit;
    return 2;
}

/* What comes behind n keys. False: an error was replied. */
static bool read_options(struct question *q, const struct arg *argv, uint32_t argc, uint32_t n, struct reply *r) {
    size_t before = r->size;
    for (uint32_t at = numkeys_at(q) + 1 + n, took; at < argc; at += took) {
        took = read_option(q, &argv[at], argc - at, n, r);
        if (took) continue;
        if (r->size == before) reply_syntax_error(r);
        return false;
    }
    return true;
}

/* ---- sources ---- */

struct source {
    bool is_set;
    struct zset zset;
    struct set set;
    double weight;
};

static uint64_t source_count(const struct source *x) { return x->is_set ? set_count(&x->set) : zset_count(&x->zset); }

/* False: the key is of another type, and that is replied. */
static bool open_source(struct shard *s, const struct key *k, struct source *out, struct reply *r) {
    *out = (struct source){.weight = 1};
    out->is_set = k->entry && entry_type(k->entry) == TYPE_SET;
    if (out->is_set) {
        out->set = set_open(s, k);
        return true;
    }
    if (!is_zset(k, r)) return false;
    out->zset = zset_open(s, k);
    return true;
}

static int by_count(const void *a, const void *b) {
    uint64_t x = source_count(a), y = source_count(b);
    return (x > y) - (x < y);
}

/* Members of a source, with what their score counts. */
struct group {
    struct field_name names[ZSET_GROUP];
    double scores[ZSET_GROUP];
    char scratch[ZSET_GROUP][INT64_TEXT_SIZE];
    uint32_t n;
};

struct source_walk {
    struct zset_walk zset;
    struct set_walk set;
};

static void begin(const struct source *x, struct source_walk *w) {
    *w = (struct source_walk){0};
    if (!x->is_set) zset_begin(&x->zset, &w->zset, 0, UINT64_MAX, false);
}

static double weighted(const struct source *x, double score) {
    double v = x->weight * score;
    return isnan(v) ? 0 : v;
}

/* False: there are no more. */
static bool next_group(const struct source *x, struct source_walk *w, struct group *g) {
    struct zset_item m;
    struct set_item i;
    g->n = 0;
    while (!x->is_set && g->n < ZSET_GROUP && zset_next(&x->zset, &w->zset, &m)) {
        zset_name_of(&x->zset, &m, g->scratch[g->n], &g->names[g->n]);
        g->scores[g->n++] = weighted(x, m.score);
    }
    while (x->is_set && g->n < ZSET_GROUP && set_next(&x->set, &w->set, &i)) {
        set_name_of(&x->set, &i, g->scratch[g->n], &g->names[g->n]);
        g->scores[g->n++] = weighted(x, 1);
    }
    return g->n;
}

static void prefetch(const struct source *x, const struct group *g) {
    if (g->n < 3) return;
    if (x->is_set) set_prefetch(&x->set, g->names, g->n);
    else zset_prefetch(&x->zset, g->names, g->n);
}

static bool find(const struct source *x, const struct field_name *name, double *score) {
    struct zset_item m;
    if (x->is_set) {
        *score = x->weight;
        return set_has(&x->set, name);
    }
    if (!zset_find(&x->zset, name, &m)) return false;
    *score = x->weight * m.score;
    return true;
}

/* ---- the operations ---- */

/* Takes results: counts them, or builds a sorted set of them. */
struct sink {
    struct zset_building *into; /* NULL: they are counted */
    uint64_t n, limit;          /* so far; enough (0: never) */
    bool refused;
};

/* False: no more is wanted. */
static bool emit(struct sink *o, const struct field_name *name, double score) {
    if (o->into && !zset_build(o->into, name, score)) o->refused = true;
    o->n++;
    return !o->refused && !(o->limit && o->n >= o->limit);
}

static double aggregated(enum aggregate how, double a, double b) {
    double sum = a + b;
    if (how == MIN) return b < a ? b : a;
    if (how == MAX) return b > a ? b : a;
    return isnan(sum) ? 0 : sum;
}

/* Members of the smallest source that all others have. */
static void intersect(const struct question *q, const struct source *x, uint32_t n, struct sink *o) {
    struct source_walk w;
    struct group g;
    double score;
    if (!source_count(&x[0])) return;
    for (begin(&x[0], &w); next_group(&x[0], &w, &g);) {
        uint32_t in = (1u << g.n) - 1;
        for (uint32_t j = 1; j < n && in; j++) {
            prefetch(&x[j], &g);
            for (uint32_t left = in; left; left &= left - 1) {
                unsigned i = (unsigned)__builtin_ctz(left);
                if (find(&x[j], &g.names[i], &score)) g.scores[i] = aggregated(q->aggregate, g.scores[i], score);
                else in &= ~(1u << i);
            }
        }
        for (; in; in &= in - 1) {
            unsigned i = (unsigned)__builtin_ctz(in);
            if (!emit(o, &g.names[i], g.scores[i])) return;
        }
    }
}

static bool add_to_union(const struct question *q, struct sink *o, const struct field_name *name, double score) {
    struct zset_item was;
    if (!zset_find(o->into->x, name, &was)) return zset_build(o->into, name, score);
    return zset_rebuild(o->into, name, &was, aggregated(q->aggregate, was.score, score));
}

static void unite(const struct question *q, const struct source *x, uint32_t n, struct sink *o) {
    struct source_walk w;
    struct group g;
    for (uint32_t j = 0; j < n; j++)
        for (begin(&x[j], &w); next_group(&x[j], &w, &g);) {
            if (g.n > 2) zset_prefetch(o->into->x, g.names, g.n);
            for (uint32_t i = 0; i < g.n && !o->refused; i++) o->refused = !add_to_union(q, o, &g.names[i], g.scores[i]);
            if (o->refused) return;
        }
}

static void subtract(const struct source *x, uint32_t n, struct sink *o) {
    struct source_walk w;
    struct group g;
    double score;
    for (begin(&x[0], &w); next_group(&x[0], &w, &g);) {
        uint32_t in = (1u << g.n) - 1;
        for (uint32_t j = 1; j < n && in; j++) {
            prefetch(&x[j], &g);
            for (uint32_t left = in; left; left &= left - 1) {
                unsigned i = (unsigned)__builtin_ctz(left);
                if (find(&x[j], &g.names[i], &score)) in &= ~(1u << i);
            }
        }
        for (; in; in &= in - 1) {
            unsigned i = (unsigned)__builtin_ctz(in);
            if (!emit(o, &g.names[i], g.scores[i])) return;
        }
    }
}

static void combine(const struct question *q, struct source *x, uint32_t n, struct sink *o) {
    double weight = 1;
    struct reply none = {0};
    for (uint32_t i = 0; q->weights && i < n; i++)
        if (arg_score(&q->weights[i], &weight, NULL, &none)) x[i].weight = weight;
    if (q->operation != DIFF) qsort(x, n, sizeof *x, by_count);
    switch (q->operation) {
    case INTER: intersect(q, x, n, o); break;
    case UNION: unite(q, x, n, o); break;
    case DIFF: subtract(x, n, o); break;
    }
}

/* ---- results ---- */

static void reply_all(struct reply *r, const struct zset *x, bool scores) {
    struct zset_walk w;
    struct zset_item m;
    reply_members_size(r, zset_count(x), scores);
    zset_begin(x, &w, 0, UINT64_MAX, false);
    while (zset_next(x, &w, &m)) reply_scored(r, &m, scores);
}

/* The answer from all sources, made in this shard's memory. k: the key that is written, once they were read. */
static void answer(const struct question *q, struct shard *home, struct source *x, uint32_t n, struct key *k, struct reply *r) {
    struct zset result = zset_new(home);
    struct zset_building b = {.shard = home, .x = &result, .unasked = !q->stores};
    struct sink o = {.into = q->counts ? NULL : &b, .limit = q->limit};
    combine(q, x, n, &o);
    if (!o.refused && !q->counts) zset_built(&b);
    if (q->counts) {
        reply_int(r, (int64_t)o.n);
    } else if (q->stores) {
        zset_store_result(home, k, &result, !o.refused, r);
    } else {
        if (o.refused) reply_refused(home, r);
        else reply_all(r, &result, q->scores);
        zset_drop(home, &result);
    }
}

/* ---- with all shards at hand ---- */

static void run(struct question q, const struct spread *x, struct hop *h, struct reply *r) {
    struct source *sources;
    uint32_t n, first = q.stores;
    struct key k;
    bool good = true;
    if (!read_numkeys(&q, h->argv, h->argc, &n, r)) return;
    sources = mi_calloc(n, sizeof *sources);
    if (!sources) {
        reply_no_memory(r);
        return;
    }
    for (uint32_t i = 0; i < n && good; i++) {
        struct shard *s;
        if (x->n == 1) key_prefetch_ahead(x->shards[0], h, first + i);
        if (q.stores) spread_write(x, h, first + i, &s, &k);
        else spread_read(x, h, first + i, &s, &k);
        good = open_source(s, &k, &sources[i], r);
    }
    if (good && read_options(&q, h->argv, h->argc, n, r)) {
        struct shard *home = x->shards[0];
        if (q.stores) spread_write(x, h, 0, &home, &k);
        answer(&q, home, sources, n, &k, r);
    }
    mi_free(sources);
}

static const struct question questions[] = {
    {.name = "zunion", .operation = UNION},
    {.name = "zinter", .operation = INTER},
    {.name = "zdiff", .operation = DIFF},
    {.name = "zunionstore", .operation = UNION, .stores = true},
    {.name = "zinterstore", .operation = INTER, .stores = true},
    {.name = "zdiffstore", .operation = DIFF, .stores = true},
    {.name = "zintercard", .operation = INTER, .counts = true},
};

void zunion(const struct spread *x, struct hop *h, struct reply *r) { run(questions[0], x, h, r); }
void zinter(const struct spread *x, struct hop *h, struct reply *r) { run(questions[1], x, h, r); }
void zdiff(const struct spread *x, struct hop *h, struct reply *r) { run(questions[2], x, h, r); }
void zunionstore(const struct spread *x, struct hop *h, struct reply *r) { run(questions[3], x, h, r); }
void zinterstore(const struct spread *x, struct hop *h, struct reply *r) { run(questions[4], x, h, r); }
void zdiffstore(const struct spread *x, struct hop *h, struct reply *r) { run(questions[5], x, h, r); }
void zintercard(const struct spread *x, struct hop *h, struct reply *r) { run(questions[6], x, h, r); }

/* ---- over several shards ---- */

/* A command under way. Each parcel is written by the shard of its key. */
struct algebra {
    struct question q;
    uint32_t n; /* sources */
    bool finishes;
    struct parcel parcels[];
};

static void algebra_drop_own(struct thread *t, void *own) {
    struct algebra *a = own;
    (void)t;
    for (uint32_t i = 0; i < a->n; i++) parcel_drop(&a->parcels[i]);
    mi_free(a);
}

static bool pack(const struct source *x, struct parcel *p) {
    struct source_walk w;
    struct group g;
    for (begin(x, &w); next_group(x, &w, &g);)
        for (uint32_t i = 0; i < g.n; i++)
            if (!parcel_add(p, g.names[i].packed.text, g.names[i].packed.text_size, g.scores[i])) return false;
    return true;
}

static enum hop_result pack_sources(struct shard *s, struct hop *h, struct reply *r) {
    struct carrier *x = steps_carrier(h);
    struct algebra *a = x->own;
    uint32_t first = a->q.stores;
    for (uint32_t i = 0; i < a->n; i++) {
        struct key k;
        struct source source;
        if (x->shards[first + i] != s->id) continue;
        if (a->q.stores) key_write_nth(s, h, first + i, &k);
        else key_read_nth(s, h, first + i, &k);
        if (!open_source(s, &k, &source, r)) break;
        if (pack(&source, &a->parcels[i])) continue;
        reply_no_memory(r);
        break;
    }
    return HOP_DONE;
}

static enum hop_result answer_from_parcels(struct shard *s, struct hop *h, struct reply *r) {
    struct algebra *a = steps_carrier(h)->own;
    struct source *sources = mi_calloc(a->n, sizeof *sources);
    struct key k;
    bool good = sources;
    for (uint32_t i = 0; i < a->n && good; i++) {
        sources[i] = (struct source){.zset = zset_new(s), .weight = 1};
        struct zset_building b = {.shard = s, .x = &sources[i].zset};
        good = zset_unpack(&b, &a->parcels[i], false);
    }
    if (a->q.stores) key_write_nth(s, h, 0, &k);
    if (good) answer(&a->q, s, sources, a->n, &k, r);
    else reply_no_memory(r);
    for (uint32_t i = 0; sources && i < a->n; i++) zset_drop(s, &sources[i].zset);
    mi_free(sources);
    return HOP_DONE;
}

/* The question of a row. */
static const struct question *question_of(const struct command *row) {
    static spread_fn *const of[] = {zunion, zinter, zdiff, zunionstore, zinterstore, zdiffstore, zintercard};
    size_t i = 0;
    while (row->on_spread != of[i]) i++;
    return &questions[i];
}

static bool start(struct thread *t, struct task *k, struct reply *r) {
    const struct question *q = question_of(k->row);
    uint32_t n = k->n_keys - q->stores;
    struct algebra *a = mi_calloc(1, sizeof *a + n * sizeof a->parcels[0]);
    if (a) {
        *a = (struct algebra){.q = *q, .n = n};
        k->carrier->own = a;
        k->carrier->drop_own = algebra_drop_own;
    }
    if (a && steps_find_shards(t, k)) {
        steps_wave_on_some(t, k, q->stores, k->n_keys, pack_sources);
        return true;
    }
    reply_no_memory(r);
    return false;
}

bool zset_algebra_steps(struct thread *t, struct task *k, struct reply *r) {
    struct algebra *a = k->carrier->own;
    if (k->step == 0) return start(t, k, r);
    if (a->finishes) {
        steps_take_reply(t, k, r);
        return false;
    }
    if (steps_take_error(t, k, r) || !read_options(&a->q, k->argv, k->argc, a->n, r)) return false;
    a->finishes = true;
    steps_wave_on(t, k, 0, answer_from_parcels);
    return true;
}
