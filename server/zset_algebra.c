/* Sorted sets together: ZUNION, ZINTER, ZDIFF, ZINTERCARD, and what stores their results; sets are sources too, as if each member had the score 1. In this file: arguments;
 * sources; the three operations; results; the commands where all shards are at hand; in slices; as waves of hops over several shards.
 *
 * Members of one source are looked for in others in groups, so that their cache misses overlap. Sources are taken in the order of their sizes, as in Redis: the sum of
 * scores depends on it. A result is a sorted set in any case, as it has an order.
 *
 * What is large goes on in slices. Between them nothing points into the keyspace: the sources, on which intents stand, are opened anew for each.
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

/* What a slice may do: members, each times the sources that it is looked for in; 50 to 150 us. */
#define SLICE_COST 256u

enum operation { UNION, INTER, DIFF };
enum aggregate { SUM, MIN, MAX };

/* What a command asks for. */
struct question {
    const char *name;
    enum operation operation;
    bool stores, counts;
    bool scores; /* WITHSCORES */
    enum aggregate aggregate;
    uint64_t limit;   /* of what ZINTERCARD counts; 0: none */
    uint32_t weights; /* the first of them among the arguments; 0: all are 1 */
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

static bool read_weights(struct question *q, const struct arg *argv, uint32_t at, uint32_t n, struct reply *r) {
    double weight;
    for (uint32_t i = 0; i < n; i++)
        if (!arg_score(&argv[at + i], &weight, "ERR weight value is not a float", r)) return false;
    q->weights = at;
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

/* How many arguments the option argv[at] takes; 0: it is none of this command's, or an error was replied. */
static uint32_t read_option(struct question *q, const struct arg *argv, uint32_t argc, uint32_t at, uint32_t n, struct reply *r) {
    const struct arg *a = &argv[at];
    uint32_t left = argc - at;
    bool combines = q->operation != DIFF && !q->counts;
    int64_t limit;
    if (combines && left > n && arg_is(a, "weights")) return read_weights(q, argv, at + 1, n, r) ? n + 1 : 0;
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
        took = read_option(q, argv, argc, at, n, r);
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

/* Weighs the sources, and puts them into the order in which they are taken: in each slice the same, as they come in the same order. */
static void arrange(const struct question *q, const struct arg *argv, struct source *x, uint32_t n) {
    double weight = 1;
    struct reply none = {0};
    for (uint32_t i = 0; q->weights && i < n; i++)
        if (arg_score(&argv[q->weights + i], &weight, NULL, &none)) x[i].weight = weight;
    if (q->operation != DIFF) qsort(x, n, sizeof *x, by_count);
}

/* Members of a source, with what their score counts. */
struct group {
    struct field_name names[ZSET_GROUP];
    double scores[ZSET_GROUP];
    char scratch[ZSET_GROUP][INT64_TEXT_SIZE];
    uint32_t n;
};

/* A place in a source, which lasts from slice to slice: of a sorted set the rank. */
struct place {
    uint64_t rank;
    struct set_walk set;
};

struct source_walk {
    struct zset_walk zset;
    struct place *at;
};

/* Goes on from a place, which follows. */
static void begin(const struct source *x, struct place *at, struct source_walk *w) {
    *w = (struct source_walk){.at = at};
    if (!x->is_set && at->rank < zset_count(&x->zset)) zset_begin(&x->zset, &w->zset, at->rank, UINT64_MAX, false);
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
    w->at->rank += g->n;
    while (x->is_set && g->n < ZSET_GROUP && set_next(&x->set, &w->at->set, &i)) {
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

/* Results under way: they are counted, or a sorted set is built of them. */
struct combination {
    uint32_t source; /* which of them is walked through, */
    struct place at; /* and how far */
    bool counts;
    uint64_t n, limit; /* results so far; enough (0: never) */
    struct zset result;
    struct zset_building into;
    bool refused;
    uint64_t replied; /* of the result's members */
    bool combined;    /* the result is whole */
};

static void combination_begin(struct combination *c, const struct question *q, struct shard *home) {
    *c = (struct combination){.counts = q->counts, .limit = q->limit, .result = zset_new(home)};
    c->into = (struct zset_building){.shard = home, .x = &c->result, .unasked = !q->stores};
}

/* False: no more is wanted. */
static bool emit(struct combination *c, const struct field_name *name, double score) {
    if (!c->counts && !zset_build(&c->into, name, score)) c->refused = true;
    c->n++;
    return !c->refused && !(c->limit && c->n >= c->limit);
}

static double aggregated(enum aggregate how, double a, double b) {
    double sum = a + b;
    if (how == MIN) return b < a ? b : a;
    if (how == MAX) return b > a ? b : a;
    return isnan(sum) ? 0 : sum;
}

/* Those of a group of the first source's that all others have, or that none has. False: no more is wanted. */
static bool filter_group(const struct question *q, const struct source *x, uint32_t n, struct combination *c, struct group *g) {
    uint32_t in = (1u << g->n) - 1;
    double score;
    for (uint32_t j = 1; j < n && in; j++) {
        prefetch(&x[j], g);
        for (uint32_t left = in; left; left &= left - 1) {
            unsigned i = (unsigned)__builtin_ctz(left);
            bool found = find(&x[j], &g->names[i], &score);
            if (found != (q->operation == INTER)) in &= ~(1u << i);
            else if (found) g->scores[i] = aggregated(q->aggregate, g->scores[i], score);
        }
    }
    for (; in; in &= in - 1) {
        unsigned i = (unsigned)__builtin_ctz(in);
        if (!emit(c, &g->names[i], g->scores[i])) return false;
    }
    return true;
}

static bool add_to_union(const struct question *q, struct combination *c, const struct field_name *name, double score) {
    struct zset_item was;
    if (!zset_find(&c->result, name, &was)) return zset_build(&c->into, name, score);
    return zset_rebuild(&c->into, name, &was, aggregated(q->aggregate, was.score, score));
}

static bool unite_group(const struct question *q, struct combination *c, const struct group *g) {
    if (g->n > 2) zset_prefetch(&c->result, g->names, g->n);
    for (uint32_t i = 0; i < g->n && !c->refused; i++) c->refused = !add_to_union(q, c, &g->names[i], g->scores[i]);
    return !c->refused;
}

/* Goes on, with sources that are arranged. False: there is more. */
static bool combine(const struct question *q, const struct source *x, uint32_t n, struct combination *c, uint64_t cost) {
    bool unites = q->operation == UNION;
    uint32_t times = unites ? 1 : n;
    struct source_walk w;
    struct group g;
    for (; c->source < (unites ? n : 1); c->source++, c->at = (struct place){0})
        for (begin(&x[c->source], &c->at, &w); next_group(&x[c->source], &w, &g);) {
            if (!(unites ? unite_group(q, c, &g) : filter_group(q, x, n, c, &g))) return true;
            if (cost <= (uint64_t)g.n * times) return false;
            cost -= (uint64_t)g.n * times;
        }
    return true;
}

/* What all of it costs; of sources that are arranged. */
static uint64_t combine_cost(const struct question *q, const struct source *x, uint32_t n) {
    uint64_t sum = 0;
    if (q->operation != UNION) return source_count(&x[0]) * n;
    for (uint32_t i = 0; i < n; i++) sum += source_count(&x[i]);
    return sum;
}

/* ---- results ---- */

/* Goes on for so many. False: there is more. */
static bool reply_result(const struct question *q, struct combination *c, struct reply *r, uint64_t most) {
    struct zset_walk w;
    struct zset_item m;
    uint64_t n = zset_count(&c->result);
    if (!c->replied) reply_members_size(r, n, q->scores);
    if (!n) return true;
    zset_begin(&c->result, &w, c->replied, most, false);
    for (; zset_next(&c->result, &w, &m); c->replied++) reply_scored(r, &m, q->scores);
    return c->replied == n;
}

/* All sources were seen. False: the members of the result are to be replied. k: the key that is written. */
static bool conclude(const struct question *q, struct shard *home, struct combination *c, struct key *k, struct reply *r) {
    c->combined = true;
    if (!c->refused && !q->counts) zset_built(&c->into);
    if (q->counts) {
        reply_int(r, (int64_t)c->n);
    } else if (q->stores) {
        zset_store_result(home, k, &c->result, !c->refused, r);
        c->result = zset_new(home);
    } else if (c->refused) {
        reply_refused(home, r);
        zset_drop(home, &c->result);
    } else {
        return false;
    }
    return true;
}

/* ---- with all shards at hand ---- */

/* A command under way. */
struct answer {
    struct question q;
    uint32_t n; /* sources */
    struct shard *home;
    uint64_t cost;
    struct combination c;
};

/* Opens the sources; again: for the next slice. NULL: an error was replied. They are to be freed. */
static struct source *open_all(
    const struct spread *x, const struct hop *h, const struct question *q, uint32_t n, bool again, struct reply *r) {
    struct source *sources = mi_calloc(n, sizeof *sources);
    if (!sources) reply_no_memory(r);
    for (uint32_t i = 0; sources && i < n; i++) {
        uint32_t nth = q->stores + i;
        struct shard *s = spread_shard(x, h, nth);
        const struct arg *name = hop_key(h, nth);
        struct key k;
        if (x->n == 1) key_prefetch_ahead(s, h, nth);
        if (again) key_look(s, s->dbs[h->db], hop_hash(h, nth), name->p, name->size, &k);
        else if (q->stores) key_write_nth(s, h, nth, &k);
        else key_read_nth(s, h, nth, &k);
        if (open_source(s, &k, &sources[i], r)) continue;
        mi_free(sources);
        return NULL;
    }
    return sources;
}

/* False: an error was replied. */
static bool answer_begin(
    struct answer *a, const struct question *q, const struct spread *x, const struct hop *h, bool again, struct reply *r) {
    *a = (struct answer){.q = *q};
    if (!read_numkeys(q, h->argv, h->argc, &a->n, r)) return false;
    struct source *sources = open_all(x, h, q, a->n, again, r);
    bool good = sources && read_options(&a->q, h->argv, h->argc, a->n, r);
    if (good) {
        a->home = q->stores ? spread_shard(x, h, 0) : x->shards[0];
        combination_begin(&a->c, &a->q, a->home);
        arrange(&a->q, h->argv, sources, a->n);
        a->cost = combine_cost(&a->q, sources, a->n);
    }
    mi_free(sources);
    return good;
}

/* Goes on. False: there is more. */
static bool answer_go_on(struct answer *a, const struct spread *x, const struct hop *h, struct reply *r, uint64_t cost) {
    struct key k;
    if (!a->c.combined) {
        struct source *sources = open_all(x, h, &a->q, a->n, true, r);
        if (!sources) {
            zset_drop(a->home, &a->c.result);
            return true;
        }
        arrange(&a->q, h->argv, sources, a->n);
        bool done = combine(&a->q, sources, a->n, &a->c, cost);
        mi_free(sources);
        if (!done) return false;
        if (a->q.stores) spread_write(x, h, 0, NULL, &k);
        return conclude(&a->q, a->home, &a->c, &k, r);
    }
    if (!reply_result(&a->q, &a->c, r, cost)) return false;
    zset_drop(a->home, &a->c.result);
    return true;
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

/* The question of a row. */
static const struct question *question_of(const struct command *row) {
    static spread_fn *const of[] = {zunion, zinter, zdiff, zunionstore, zinterstore, zdiffstore, zintercard};
    size_t i = 0;
    while (row->on_spread != of[i]) i++;
    return &questions[i];
}

static void run(const struct question *q, const struct spread *x, const struct hop *h, struct reply *r) {
    struct answer a;
    if (!answer_begin(&a, q, x, h, false, r)) return;
    while (!answer_go_on(&a, x, h, r, UINT64_MAX)) {}
}

void zunion(const struct spread *x, struct hop *h, struct reply *r) { run(&questions[0], x, h, r); }
void zinter(const struct spread *x, struct hop *h, struct reply *r) { run(&questions[1], x, h, r); }
void zdiff(const struct spread *x, struct hop *h, struct reply *r) { run(&questions[2], x, h, r); }
void zunionstore(const struct spread *x, struct hop *h, struct reply *r) { run(&questions[3], x, h, r); }
void zinterstore(const struct spread *x, struct hop *h, struct reply *r) { run(&questions[4], x, h, r); }
void zdiffstore(const struct spread *x, struct hop *h, struct reply *r) { run(&questions[5], x, h, r); }
void zintercard(const struct spread *x, struct hop *h, struct reply *r) { run(&questions[6], x, h, r); }

/* ---- as a plain hop, in slices if it has much to do ---- */

static struct answer *answer_of(const struct hop *h) { return h->state > HOP_IN_SLICES ? (struct answer *)(uintptr_t)h->state : NULL; }

void zset_answer_drop(struct shard *s, struct hop *h, struct reply *r) {
    struct answer *a = answer_of(h);
    (void)r;
    if (!a) return;
    zset_drop(s, &a->c.result);
    mi_free(a);
    h->state = 0;
}

/* Begins one that goes on in slices. It stays where it is: what is built in it is pointed to. NULL: an error was replied. */
static struct answer *answer_new(const struct question *q, const struct spread *x, struct hop *h, struct reply *r) {
    struct answer *a = mi_malloc(sizeof *a);
    if (!a) reply_no_memory(r);
    if (a && answer_begin(a, q, x, h, true, r)) {
        h->state = (uint64_t)(uintptr_t)a;
        return a;
    }
    mi_free(a);
    return NULL;
}

enum hop_result zset_algebra_on_one(struct shard *s, struct hop *h, struct reply *r) {
    const struct question *q = question_of(command_by_number(h->row));
    struct spread x = {&s, 1};
    struct answer *a = answer_of(h), small;
    if (!h->state) {
        if (!answer_begin(&small, q, &x, h, false, r)) return HOP_DONE;
        if (small.cost > SLICE_COST) return HOP_AGAIN;
        while (!answer_go_on(&small, &x, h, r, UINT64_MAX)) {}
        return HOP_DONE;
    }
    if (!a) a = answer_new(q, &x, h, r);
    if (!a) return HOP_DONE;
    if (!answer_go_on(a, &x, h, r, SLICE_COST)) return HOP_AGAIN;
    mi_free(a);
    h->state = 0;
    return HOP_DONE;
}

/* ---- over several shards ---- */

/* A command under way. Each parcel is written by the shard of its key. */
struct algebra {
    struct question q;
    uint32_t n, n_shards, home; /* n: sources; home: the shard that makes the result */
    uint64_t *sizes;            /* of each source */
    struct packing {            /* by shard: what it packs, and how far */
        uint32_t source;
        struct place at;
    } * packing;
    bool packed, finishes, large; /* packed: all shards' sources; large: it goes on in slices */
    /* On the home shard: */
    struct source *sources; /* made of the parcels */
    uint32_t unpacked;      /* of them so many are whole, */
    struct parcel_at at;    /* and the next so far */
    struct combination c;
    struct parcel parcels[];
};

static void drop_sources(struct shard *s, struct algebra *a) {
    for (uint32_t i = 0; a->sources && i < a->n; i++) zset_drop(s, &a->sources[i].zset);
    mi_free(a->sources);
    a->sources = NULL;
}

static void algebra_drop_own(struct thread *t, void *own) {
    struct algebra *a = own;
    (void)t;
    for (uint32_t i = 0; i < a->n; i++) parcel_drop(&a->parcels[i]);
    if (a->sources) { /* the process ends */
        zset_drop(server.threads[a->home]->shard, &a->c.result);
        drop_sources(server.threads[a->home]->shard, a);
    }
    mi_free(a->sizes);
    mi_free(a->packing);
    mi_free(a);
}

static struct algebra *algebra_new(const struct thread *t, const struct task *k, const struct question *q) {
    uint32_t n = k->n_keys - q->stores;
    struct algebra *a = mi_calloc(1, sizeof *a + n * sizeof a->parcels[0]);
    if (!a) return NULL;
    a->q = *q;
    a->n = n;
    a->n_shards = t->n_threads;
    a->home = steps_shard_of(t, k, 0);
    a->sizes = mi_calloc(n, sizeof *a->sizes);
    a->packing = mi_calloc(t->n_threads, sizeof *a->packing);
    if (a->sizes && a->packing) return a;
    mi_free(a->sizes);
    mi_free(a->packing);
    mi_free(a);
    return NULL;
}

/* The members of a source, from a place on. False: there is more, or no memory (then *cost is not 0). */
static bool pack(const struct source *x, struct place *at, struct parcel *p, uint64_t *cost) {
    struct source_walk w;
    struct group g;
    for (begin(x, at, &w); *cost && next_group(x, &w, &g); *cost -= *cost < g.n ? *cost : g.n)
        for (uint32_t i = 0; i < g.n; i++)
            if (!parcel_add(p, g.names[i].packed.text, g.names[i].packed.text_size, g.scores[i])) return false;
    return *cost;
}

static uint64_t slice_cost(const struct algebra *a) { return a->large ? SLICE_COST : UINT64_MAX; }

/* Packs the sources that lie here. */
static enum hop_result pack_sources(struct shard *s, struct hop *h, struct reply *r) {
    struct carrier *x = steps_carrier(h);
    struct algebra *a = x->own;
    struct packing *p = &a->packing[s->id];
    uint64_t cost = slice_cost(a);
    for (; p->source < a->n; p->source++, p->at = (struct place){0}) {
        uint32_t nth = a->q.stores + p->source;
        const struct arg *name = hop_key(h, nth);
        struct source source;
        struct key k;
        if (x->shards[nth] != s->id) continue;
        key_look(s, s->dbs[h->db], hop_hash(h, nth), name->p, name->size, &k);
        if (!open_source(s, &k, &source, r)) return HOP_DONE;
        if (pack(&source, &p->at, &a->parcels[p->source], &cost)) continue;
        if (!cost) return HOP_AGAIN;
        reply_no_memory(r);
        return HOP_DONE;
    }
    return HOP_DONE;
}

/* How many members this shard's sources have. */
static uint64_t members_on(const struct algebra *a, const struct carrier *x, uint32_t shard) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < a->n; i++)
        if (x->shards[a->q.stores + i] == shard) sum += a->sizes[i];
    return sum;
}

/* Step 0: the sizes of all sources. Shards that have few members pack them, too. */
static enum hop_result measure(struct shard *s, struct hop *h, struct reply *r) {
    struct carrier *x = steps_carrier(h);
    struct algebra *a = x->own;
    for (uint32_t i = 0; i < a->n; i++) {
        struct key k;
        struct source source;
        uint32_t nth = a->q.stores + i;
        if (x->shards[nth] != s->id) continue;
        if (a->q.stores) key_write_nth(s, h, nth, &k);
        else key_read_nth(s, h, nth, &k);
        if (!open_source(s, &k, &source, r)) return HOP_DONE;
        a->sizes[i] = source_count(&source);
    }
    return members_on(a, x, s->id) > SLICE_COST ? HOP_DONE : pack_sources(s, h, r);
}

/* Makes sorted sets of the parcels. False: there is more, or no memory (then *cost is not 0). */
static bool unpack(struct shard *s, struct algebra *a, uint64_t *cost) {
    if (!a->sources) {
        a->sources = mi_calloc(a->n, sizeof *a->sources);
        if (!a->sources) return false;
        for (uint32_t i = 0; i < a->n; i++) a->sources[i] = (struct source){.zset = zset_new(s), .weight = 1};
        combination_begin(&a->c, &a->q, s);
    }
    for (; a->unpacked < a->n; a->unpacked++, a->at = (struct parcel_at){0}) {
        struct zset_building b = {.shard = s, .x = &a->sources[a->unpacked].zset};
        if (!zset_unpack(&b, &a->parcels[a->unpacked], &a->at, false, cost)) return false;
        parcel_drop(&a->parcels[a->unpacked]);
    }
    return true;
}

/* Goes on with sorted sets that are whole. False: there is more. */
static bool answer_from_sources(struct shard *s, const struct hop *h, struct algebra *a, struct reply *r) {
    struct key k;
    if (a->c.combined) return reply_result(&a->q, &a->c, r, slice_cost(a));
    struct source *sources = mi_malloc(a->n * sizeof *sources);
    if (!sources) {
        reply_no_memory(r);
        return true;
    }
    memcpy(sources, a->sources, a->n * sizeof *sources);
    arrange(&a->q, h->argv, sources, a->n);
    bool done = combine(&a->q, sources, a->n, &a->c, slice_cost(a));
    mi_free(sources);
    if (!done) return false;
    if (a->q.stores) key_write_nth(s, h, 0, &k);
    return conclude(&a->q, s, &a->c, &k, r);
}

/* The end, on the home shard. */
static enum hop_result answer_from_parcels(struct shard *s, struct hop *h, struct reply *r) {
    struct algebra *a = steps_carrier(h)->own;
    uint64_t cost = slice_cost(a);
    if (a->unpacked < a->n && !unpack(s, a, &cost)) {
        if (!cost) return HOP_AGAIN;
        reply_no_memory(r);
    } else {
        while (!answer_from_sources(s, h, a, r))
            if (a->large) return HOP_AGAIN;
    }
    if (a->sources) zset_drop(s, &a->c.result);
    drop_sources(s, a);
    return HOP_DONE;
}

static bool start(struct thread *t, struct task *k, struct reply *r) {
    const struct question *q = question_of(k->row);
    struct algebra *a = algebra_new(t, k, q);
    k->carrier->own = a;
    if (a) k->carrier->drop_own = algebra_drop_own;
    if (a && steps_find_shards(t, k)) {
        steps_wave_on_some(t, k, q->stores, k->n_keys, measure);
        return true;
    }
    reply_no_memory(r);
    return false;
}

/* The second wave, of the shards that have many members. False: there are none. */
static bool pack_large(struct thread *t, struct task *k, struct algebra *a) {
    uint64_t sum = 0;
    bool any = false;
    a->packed = true;
    for (uint32_t s = 0; s < a->n_shards; s++) sum += members_on(a, k->carrier, s);
    a->large = sum > SLICE_COST;
    steps_new_wave(t, k);
    for (uint32_t s = 0; s < a->n_shards; s++) {
        if (members_on(a, k->carrier, s) <= SLICE_COST) continue;
        steps_hop_in_slices(t, k, s, pack_sources);
        any = true;
    }
    return any;
}

bool zset_algebra_steps(struct thread *t, struct task *k, struct reply *r) {
    struct algebra *a = k->carrier->own;
    if (k->step == 0) return start(t, k, r);
    if (a->finishes) {
        task_take_whole(t, k);
        return false;
    }
    if (steps_take_error(t, k, r)) return false;
    if (!a->packed) {
        if (!read_options(&a->q, k->argv, k->argc, a->n, r)) return false;
        if (pack_large(t, k, a)) return true;
    }
    a->finishes = true;
    steps_new_wave(t, k);
    if (a->large) steps_hop_in_slices(t, k, a->home, answer_from_parcels);
    else steps_hop(t, k, a->home, answer_from_parcels);
    return true;
}
