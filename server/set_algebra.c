/* Sets together: SINTER, SUNION, SDIFF, SINTERCARD, and what stores their results. In this file: the commands where all shards are
 * at hand; as waves of hops over several shards. set_combine.c combines.
 *
 * Members of one set are looked for in others in groups, so that their cache misses overlap. SINTER walks through its smallest set. SDIFF either looks
 * the first set's members up in the others, or takes the others' members out of a copy of the first, whichever looks cheaper (as in Redis, so that the results
 * have the same encoding).
 *
 * What is large goes on in slices. Between them nothing points into the keyspace: the sources, on which intents stand, are opened anew for each.
 *
 * Over several shards only names travel: of SUNION those of the shards that are not the result's; else those that may still be in the result, which
 * each shard filters in its turn. The last shard's turn makes the reply.
 */
#include <errno.h>
#include <mimalloc.h>
#include <stdlib.h>

#include "server/set_combine.h"
#include "server/sets.h"
#include "server/steps.h"
#include "server/strings.h"
#include "server/task_internal.h"
#include "server/thread.h"
#include "shard/container.h"
#include "shard/memory.h"

/* What a command asks for. */
struct question {
    enum operation operation;
    bool stores, counts;
    uint64_t limit; /* of what SINTERCARD counts; 0: none */
    uint32_t first; /* of the keys, the first source */
};

/* Opens all sources of a command; again: for the next slice. False: an error was replied. */
static bool open_all(const struct spread *x, const struct hop *h, uint32_t first, bool again, struct sources *o, struct reply *r) {
    if (!sources_new(o, h->n_keys - first)) {
        reply_no_memory(r);
        return false;
    }
    for (uint32_t i = first; i < h->n_keys; i++) {
        struct shard *s = spread_shard(x, h, i);
        const struct arg *name = hop_key(h, i);
        struct key k;
        if (x->n == 1) key_prefetch_ahead(s, h, i);
        if (again) key_look(s, s->dbs[h->db], hop_hash(h, i), name->p, name->size, &k);
        else key_read_nth(s, h, i, &k);
        if (!is_set(&k, r)) {
            sources_drop(o);
            return false;
        }
        o->sets[o->n++] = set_open(s, &k);
    }
    return true;
}

/* ---- with all shards at hand ---- */

/* The result becomes the value of a key; how many members it has is the reply. */
static void store(struct shard *home, struct key *k, struct set *result, bool refused, struct reply *r) {
    uint64_t n = set_count(result);
    if (refused) set_drop(home, result);
    if (refused || set_replace(home, k, result, KEY_STORE)) reply_refused(home, r);
    else reply_int(r, (int64_t)n);
}

/* Bytes that come back when the key's value is replaced. */
static size_t gives_back(const struct key *k) {
    return k->entry && entry_type(k->entry) == TYPE_SET && !container_is_large(k->entry) ? key_memory(k->entry) : 0;
}

static void reply_values(struct reply *r, struct reply *values, uint64_t n) {
    reply_set(r, n);
    if (values->size) reply_take(r, values, 0, values->size);
    if (values->failed) r->failed = true;
    reply_drop(values);
}

/* A command on shards that are at hand, under way. */
struct answer {
    struct question q;
    struct combination c;
    bool single,
        through_set; /* single: one set's members are the answer; through_set: what is stored, and what can't be known before all sources were seen */
    bool lists; /* all is combined, the members are being replied */
    struct listing listing;
    struct shard *home; /* where the result is made */
    struct set result;
    struct reply values;
    uint64_t cost;
};

static bool is_taken_out(const struct sources *s) {
    uint64_t sum = 0;
    uint32_t there = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        sum += set_count(&s->sets[i]);
        there += !set_is_empty(&s->sets[i]);
    }
    return diff_takes_out(set_count(&s->sets[0]), sum, there);
}

/* False: an error was replied. */
static bool answer_begin(
    struct answer *a, const struct question *q, const struct spread *x, const struct hop *h, bool again, struct reply *r) {
    struct sources s;
    struct key k;
    *a = (struct answer){.q = *q, .c.operation = q->operation, .values.resp = r->resp};
    a->home = q->stores ? spread_shard(x, h, 0) : x->shards[0];
    if (!open_all(x, h, q->first, again, &s, r)) return false;
    a->c.takes_out = q->operation == DIFF && is_taken_out(&s);
    a->single = s.n == 1 && !q->stores && !q->counts;
    a->through_set = q->stores || q->operation == UNION || a->c.takes_out;
    a->result = set_new(a->home);
    a->cost = combine_cost(&a->c, &s);
    sources_drop(&s);
    if (a->through_set) a->c.o = (struct sink){.set = &a->result, .ints_max = set_ints_max()};
    else a->c.o = (struct sink){.values = q->counts ? NULL : &a->values, .limit = q->limit};
    if (!q->stores) return true;
    spread_write(x, h, 0, NULL, &k);
    a->c.o.budget = a->home;
    a->c.o.gives = gives_back(&k);
    return true;
}

/* All sources were seen. False: the members of the result are to be replied. */
static bool conclude(struct answer *a, const struct spread *x, const struct hop *h, struct reply *r) {
    struct sink *o = &a->c.o;
    bool refused = o->refused || (a->q.stores && !sink_fits(o));
    struct key k;
    if (a->q.stores) {
        spread_write(x, h, 0, NULL, &k);
        store(a->home, &k, &a->result, refused, r);
    } else if (a->through_set) {
        if (!refused) return false;
        reply_refused(a->home, r);
        set_drop(a->home, &a->result);
    } else if (a->q.counts) {
        reply_int(r, (int64_t)o->n);
    } else {
        reply_values(r, &a->values, o->n);
    }
    return true;
}

/* Goes on. False: there is more. */
static bool answer_go_on(struct answer *a, const struct spread *x, const struct hop *h, struct reply *r, uint64_t cost) {
    struct sources s;
    bool done = false;
    if (a->lists && !a->single) {
        done = list_members(&a->listing, &a->result, r, cost);
        if (done) set_drop(a->home, &a->result);
        return done;
    }
    if (!open_all(x, h, a->q.first, true, &s, r)) {
        set_drop(a->home, &a->result);
        return true;
    }
    if (a->single) done = list_members(&a->listing, &s.sets[0], r, cost);
    else a->lists = combine(&a->c, &s, cost);
    sources_drop(&s);
    return done || (a->lists && conclude(a, x, h, r));
}

static void answer(const struct question *q, const struct spread *x, const struct hop *h, struct reply *r) {
    struct answer a;
    if (!answer_begin(&a, q, x, h, false, r)) return;
    while (!answer_go_on(&a, x, h, r, UINT64_MAX)) {}
}

static struct answer *answer_of(const struct hop *h) { return h->state > HOP_IN_SLICES ? (struct answer *)(uintptr_t)h->state : NULL; }

static void answer_end(struct hop *h, struct answer *a) {
    mi_free(a);
    h->state = 0;
}

void answer_drop(struct shard *s, struct hop *h, struct reply *r) {
    struct answer *a = answer_of(h);
    (void)r;
    if (!a) return;
    set_drop(s, &a->result);
    reply_drop(&a->values);
    answer_end(h, a);
}

/* As a plain hop, in slices if it has much to do. */
static enum hop_result answer_on_one(const struct question *q, struct shard *s, struct hop *h, struct reply *r) {
    struct spread x = {&s, 1};
    struct answer *a = answer_of(h), small;
    if (!h->state) {
        if (!answer_begin(&small, q, &x, h, false, r)) return HOP_DONE;
        if (small.cost > SLICE_COST) return HOP_AGAIN;
        while (!answer_go_on(&small, &x, h, r, UINT64_MAX)) {}
        return HOP_DONE;
    }
    if (!a) {
        a = mi_malloc(sizeof *a);
        if (!a) reply_no_memory(r);
        if (!a || !answer_begin(a, q, &x, h, true, r)) {
            mi_free(a);
            return HOP_DONE;
        }
        h->state = (uint64_t)(uintptr_t)a;
    }
    if (!answer_go_on(a, &x, h, r, SLICE_COST)) return HOP_AGAIN;
    answer_end(h, a);
    return HOP_DONE;
}

/* SINTERCARD's arguments around its keys. False: an error was replied. */
static bool card_options(const struct arg *argv, uint32_t argc, uint64_t *limit, struct reply *r) {
    int64_t n, most = 0;
    if (!parse_int64(argv[1].p, argv[1].size, &n) || n < 1) {
        reply_error(r, "ERR numkeys should be greater than 0");
        return false;
    }
    if (n > argc - 2) {
        reply_error(r, "ERR Number of keys can't be greater than number of args");
        return false;
    }
    for (uint32_t i = 2 + (uint32_t)n; i < argc; i += 2) {
        if (!arg_is(&argv[i], "limit") || i + 1 == argc) {
            reply_syntax_error(r);
            return false;
        }
        if (parse_int64(argv[i + 1].p, argv[i + 1].size, &most) && most >= 0) continue;
        reply_error(r, "ERR LIMIT can't be negative");
        return false;
    }
    *limit = (uint64_t)most;
    return true;
}

static const struct question inter = {.operation = INTER}, unites = {.operation = UNION}, diff = {.operation = DIFF},
                             inter_store = {.operation = INTER, .stores = true, .first = 1},
                             union_store = {.operation = UNION, .stores = true, .first = 1},
                             diff_store = {.operation = DIFF, .stores = true, .first = 1};

void sinter(const struct spread *x, struct hop *h, struct reply *r) { answer(&inter, x, h, r); }
void sunion(const struct spread *x, struct hop *h, struct reply *r) { answer(&unites, x, h, r); }
void sdiff(const struct spread *x, struct hop *h, struct reply *r) { answer(&diff, x, h, r); }
void sinterstore(const struct spread *x, struct hop *h, struct reply *r) { answer(&inter_store, x, h, r); }
void sunionstore(const struct spread *x, struct hop *h, struct reply *r) { answer(&union_store, x, h, r); }
void sdiffstore(const struct spread *x, struct hop *h, struct reply *r) { answer(&diff_store, x, h, r); }

void sintercard(const struct spread *x, struct hop *h, struct reply *r) {
    struct question q = {.operation = INTER, .counts = true};
    if (card_options(h->argv, h->argc, &q.limit, r)) answer(&q, x, h, r);
}

enum hop_result sinter_on_one(struct shard *s, struct hop *h, struct reply *r) { return answer_on_one(&inter, s, h, r); }
enum hop_result sunion_on_one(struct shard *s, struct hop *h, struct reply *r) { return answer_on_one(&unites, s, h, r); }
enum hop_result sdiff_on_one(struct shard *s, struct hop *h, struct reply *r) { return answer_on_one(&diff, s, h, r); }
enum hop_result sinterstore_on_one(struct shard *s, struct hop *h, struct reply *r) { return answer_on_one(&inter_store, s, h, r); }
enum hop_result sunionstore_on_one(struct shard *s, struct hop *h, struct reply *r) { return answer_on_one(&union_store, s, h, r); }
enum hop_result sdiffstore_on_one(struct shard *s, struct hop *h, struct reply *r) { return answer_on_one(&diff_store, s, h, r); }
enum hop_result sintercard_on_one(struct shard *s, struct hop *h, struct reply *r) {
    struct question q = {.operation = INTER, .counts = true};
    return card_options(h->argv, h->argc, &q.limit, r) ? answer_on_one(&q, s, h, r) : HOP_DONE;
}

/* ---- over several shards ---- */

/* A command under way. What hops write is written by one shard at a time: each its own sizes, list and part, or the one list that goes round. */
struct algebra {
    struct question q;
    uint32_t n_keys, n_shards, home; /* home: the shard that makes a set of the result */
    uint16_t *shards;                /* of each key */
    uint64_t *sizes;                 /* of each key's set */
    struct names *lists, left;       /* by shard; what goes round is the first, and what is left of it */
    struct names_at at;              /* where one is being read */
    struct combination *parts;       /* by shard */
    uint16_t *order;                 /* INTER, DIFF: whose turn is when */
    uint32_t n_order, turn;
    bool takes_out;  /* as diff_takes_out(), */
    bool first_ints; /* and the first set's copy would be an intset */
    bool replied;    /* the last wave's hop did */
    bool large;      /* it goes on in slices: some shard has many members */
    /* The end, on the home shard. */
    bool finishes, united, lists_members; /* united: a union's members on this shard are in the result */
    uint32_t list;                        /* which is being read */
    struct set result;
    struct listing listing;
    struct reply values;
};

void algebra_drop(struct algebra *a) {
    if (!a) return;
    for (uint32_t i = 0; a->lists && i < a->n_shards; i++) names_drop(&a->lists[i]);
    names_drop(&a->left);
    reply_drop(&a->values);
    if (!set_is_empty(&a->result)) set_drop(server.threads[a->home]->shard, &a->result); /* the process ends */
    mi_free(a->parts);
    mi_free(a->shards);
    mi_free(a->sizes);
    mi_free(a->lists);
    mi_free(a->order);
    mi_free(a);
}

static struct algebra *algebra_of(const struct hop *h) { return steps_carrier(h)->algebra; }

static struct algebra *algebra_new(const struct thread *t, const struct task *k, const struct question *q) {
    struct algebra *a = mi_calloc(1, sizeof *a);
    if (!a) return NULL;
    *a = (struct algebra){.q = *q, .n_keys = k->n_keys, .n_shards = t->n_threads};
    a->shards = mi_calloc(k->n_keys, sizeof *a->shards);
    a->sizes = mi_calloc(k->n_keys, sizeof *a->sizes);
    a->lists = mi_calloc(t->n_threads, sizeof *a->lists);
    a->order = mi_calloc(t->n_threads, sizeof *a->order);
    a->parts = mi_calloc(t->n_threads, sizeof *a->parts);
    if (!a->shards || !a->sizes || !a->lists || !a->order || !a->parts) {
        algebra_drop(a);
        return NULL;
    }
    for (uint32_t i = 0; i < k->n_keys; i++) a->shards[i] = (uint16_t)steps_shard_of(t, k, i);
    a->home = a->shards[0];
    return a;
}

/* The sources that lie here, as they were measured. False: no memory, replied. */
static bool open_here(struct shard *s, const struct hop *h, const struct algebra *a, struct sources *o, struct reply *r) {
    if (!sources_new(o, a->n_keys)) {
        reply_no_memory(r);
        return false;
    }
    for (uint32_t i = a->q.first; i < a->n_keys; i++) {
        const struct arg *name = hop_key(h, i);
        struct key k;
        if (a->shards[i] != s->id) continue;
        key_look(s, s->dbs[h->db], hop_hash(h, i), name->p, name->size, &k);
        o->sets[o->n++] = set_open(s, &k);
    }
    return true;
}

/* False: a source is no set, and that is replied. */
static bool measure_here(struct shard *s, const struct hop *h, struct algebra *a, struct reply *r) {
    for (uint32_t i = a->q.first; i < a->n_keys; i++) {
        struct key k;
        if (a->shards[i] != s->id) continue;
        key_read_nth(s, h, i, &k);
        if (!is_set(&k, r)) return false;
        struct set x = set_open(s, &k);
        a->sizes[i] = set_count(&x);
    }
    return true;
}

/* What is done of it at once: all of it, unless it is large. */
static uint64_t slice_cost(const struct algebra *a) { return a->large ? SLICE_COST : UINT64_MAX; }

/* Goes on with the sources of this shard. False: there is more. */
static bool combine_here(struct shard *s, const struct hop *h, const struct algebra *a, struct combination *c, struct reply *r) {
    struct sources o;
    if (!open_here(s, h, a, &o, r)) return true;
    bool done = combine(c, &o, slice_cost(a));
    sources_drop(&o);
    return done;
}

/* The members of a union's sources of a shard that is not the result's. */
static enum hop_result collect(struct shard *s, struct hop *h, struct reply *r) {
    struct algebra *a = algebra_of(h);
    struct combination *c = &a->parts[s->id];
    if (!c->begun) *c = (struct combination){.operation = UNION, .begun = true, .o.names = &a->lists[s->id]};
    if (!combine_here(s, h, a, c, r)) return HOP_AGAIN;
    if (c->o.refused) reply_no_memory(r);
    return HOP_DONE;
}

static uint64_t members_on(const struct algebra *a, uint32_t shard) {
    uint64_t sum = 0;
    for (uint32_t i = a->q.first; i < a->n_keys; i++)
        if (a->shards[i] == shard) sum += a->sizes[i];
    return sum;
}

/* Step 0: the sizes of all sets; a union's shards that have few members give them, too. */
static enum hop_result measure(struct shard *s, struct hop *h, struct reply *r) {
    struct algebra *a = algebra_of(h);
    if (!measure_here(s, h, a, r) || a->q.operation != UNION || s->id == a->home || members_on(a, s->id) > SLICE_COST) return HOP_DONE;
    return collect(s, h, r);
}

static bool is_last_turn(const struct algebra *a) { return a->turn == a->n_order; }

/* Where the results of a turn go: on in a list, or into the reply. */
static struct sink sink_of_turn(struct algebra *a, struct names *list) {
    if (a->q.stores || !is_last_turn(a)) return (struct sink){.names = list};
    return (struct sink){.values = a->q.counts ? NULL : &a->values, .limit = a->q.limit};
}

static void end_turn(struct algebra *a, const struct combination *c, struct reply *r) {
    if (c->o.refused) {
        reply_no_memory(r);
        return;
    }
    if (c->o.names) return;
    if (a->q.counts) reply_int(r, (int64_t)c->o.n);
    else reply_values(r, &a->values, c->o.n);
    a->replied = true;
}

/* Whether adding all members of a set one by one would make an intset of them. */
static bool would_be_ints(const struct set *x) {
    struct set_walk w = {0};
    struct set_item m;
    if ((int64_t)set_count(x) > set_ints_max()) return false;
    while (set_next(x, &w, &m))
        if (m.field.name && !packed_is_int(m.field.name)) return false;
    return true;
}

/* The first turn: what may be in the result by the sets that lie here. */
static enum hop_result begin(struct shard *s, struct hop *h, struct reply *r) {
    struct algebra *a = algebra_of(h);
    struct combination *c = &a->parts[s->id];
    struct sources o;
    if (!c->begun) {
        *c = (struct combination){.operation = a->q.operation, .begun = true, .o = sink_of_turn(a, &a->lists[0])};
        a->values.resp = h->resp;
        if (!open_here(s, h, a, &o, r)) return HOP_DONE;
        if (a->takes_out) a->first_ints = would_be_ints(&o.sets[0]);
        sources_drop(&o);
    }
    if (!combine_here(s, h, a, c, r)) return HOP_AGAIN;
    end_turn(a, c, r);
    return HOP_DONE;
}

/* A later turn: what is left of the list. */
static enum hop_result go_on(struct shard *s, struct hop *h, struct reply *r) {
    struct algebra *a = algebra_of(h);
    struct combination *c = &a->parts[s->id];
    struct sources here;
    if (!c->begun) {
        *c = (struct combination){.operation = a->q.operation, .begun = true, .o = sink_of_turn(a, &a->left)};
        a->values.resp = h->resp;
        a->at = (struct names_at){0};
    }
    if (!open_here(s, h, a, &here, r)) return HOP_DONE;
    bool done = filter_names(&a->lists[0], &a->at, &here, a->q.operation == INTER, &c->o, slice_cost(a));
    sources_drop(&here);
    if (!done) return HOP_AGAIN;
    names_drop(&a->lists[0]);
    a->lists[0] = a->left;
    a->left = (struct names){0};
    end_turn(a, c, r);
    return HOP_DONE;
}

/* Makes the result of the lists, and of what a union has here. False: there is more. */
static bool make_result(struct shard *s, const struct hop *h, struct algebra *a, struct combination *c, struct reply *r) {
    struct key k;
    if (!c->begun || c->o.names) {
        *c = (struct combination){.operation = UNION, .begun = true, .o = {.set = &a->result, .ints_max = set_ints_max()}};
        a->result = set_new(s);
        a->at = (struct names_at){0};
        if (a->q.stores) {
            key_write_nth(s, h, 0, &k);
            c->o.budget = s;
            c->o.gives = gives_back(&k);
        }
    }
    if (a->q.operation == UNION && !a->united) {
        if (!combine_here(s, h, a, c, r)) return false;
        a->united = true;
    }
    for (; a->list < a->n_shards && !c->o.refused; a->list++, a->at = (struct names_at){0})
        if (!combine_names(&a->lists[a->list], &a->at, &c->o, slice_cost(a))) return false;
    return true;
}

/* False: there is more. */
static bool list_result(struct shard *s, struct algebra *a, struct reply *r) {
    if (!list_members(&a->listing, &a->result, r, slice_cost(a))) return false;
    set_drop(s, &a->result);
    return true;
}

/* The end, on the home shard, where a set is made of the lists. */
static enum hop_result finish(struct shard *s, struct hop *h, struct reply *r) {
    struct algebra *a = algebra_of(h);
    struct combination *c = &a->parts[s->id];
    struct key k;
    if (a->lists_members) return list_result(s, a, r) ? HOP_DONE : HOP_AGAIN;
    if (!make_result(s, h, a, c, r)) return HOP_AGAIN;
    if (a->takes_out && !a->first_ints && set_convert(&a->result)) c->o.refused = true;
    bool refused = c->o.refused || (a->q.stores && !sink_fits(&c->o));
    a->lists_members = !a->q.stores && !refused;
    if (a->lists_members) return !a->large && list_result(s, a, r) ? HOP_DONE : HOP_AGAIN;
    if (a->q.stores) {
        key_write_nth(s, h, 0, &k);
        store(s, &k, &a->result, refused, r);
    } else {
        reply_refused(s, r);
        set_drop(s, &a->result);
    }
    a->result = set_new(s);
    return HOP_DONE;
}

/* The smallest size of a shard's sources; UINT64_MAX: it has none. */
static uint64_t smallest_on(const struct algebra *a, uint32_t shard) {
    uint64_t smallest = UINT64_MAX;
    for (uint32_t i = a->q.first; i < a->n_keys; i++)
        if (a->shards[i] == shard && a->sizes[i] < smallest) smallest = a->sizes[i];
    return smallest;
}

static bool has_members_on(const struct algebra *a, uint32_t shard) {
    for (uint32_t i = a->q.first; i < a->n_keys; i++)
        if (a->shards[i] == shard && a->sizes[i]) return true;
    return false;
}

/* INTER begins where the smallest set is, and so on; DIFF where the first is. False: the result is empty. */
static bool plan(struct algebra *a) {
    uint64_t sum = 0;
    uint32_t there = 0, first = a->q.first;
    for (uint32_t i = first; i < a->n_keys; i++) {
        if (a->q.operation == INTER && !a->sizes[i]) return false;
        sum += a->sizes[i];
        there += a->sizes[i] > 0;
    }
    if (a->q.operation == DIFF) {
        if (!a->sizes[first]) return false;
        a->takes_out = diff_takes_out(a->sizes[first], sum, there);
        a->order[a->n_order++] = a->shards[first];
        for (uint32_t s = 0; s < a->n_shards; s++)
            if (s != a->shards[first] && has_members_on(a, s)) a->order[a->n_order++] = (uint16_t)s;
        return true;
    }
    for (uint32_t s = 0; s < a->n_shards; s++) {
        uint64_t size = smallest_on(a, s);
        uint32_t at = a->n_order;
        if (size == UINT64_MAX) continue;
        for (; at && smallest_on(a, a->order[at - 1]) > size; at--) a->order[at] = a->order[at - 1];
        a->order[at] = (uint16_t)s;
        a->n_order++;
    }
    return true;
}

static const struct question *question_of(const struct task *k, struct question *card, struct reply *r) {
    static const struct {
        spread_fn *of;
        const struct question *q;
    } questions[] = {{sinter, &inter}, {sunion, &unites}, {sdiff, &diff}, {sinterstore, &inter_store}, {sunionstore, &union_store},
        {sdiffstore, &diff_store}};
    for (size_t i = 0; i < sizeof questions / sizeof *questions; i++)
        if (k->row->on_spread == questions[i].of) return questions[i].q;
    *card = (struct question){.operation = INTER, .counts = true};
    return card_options(k->argv, k->argc, &card->limit, r) ? card : NULL;
}

static bool start(struct thread *t, struct task *k, struct reply *r) {
    struct question card;
    const struct question *q = question_of(k, &card, r);
    struct algebra *a = q ? k->carrier->algebra = algebra_new(t, k, q) : NULL;
    if (q && !a) reply_no_memory(r);
    if (!a) return false;
    steps_new_wave(t, k);
    for (uint32_t s = 0; s < t->n_threads; s++)
        if (smallest_on(a, s) != UINT64_MAX) steps_hop(t, k, s, measure);
    return true;
}

/* A hop of what may be large. */
static void hop_on(struct thread *t, struct task *k, uint32_t shard, hop_fn *run) {
    if (k->carrier->algebra->large) steps_hop_in_slices(t, k, shard, run);
    else steps_hop(t, k, shard, run);
}

/* Once all is measured: the second wave of a union, for the shards that have many members. */
static bool collect_large(struct thread *t, struct task *k, struct algebra *a) {
    bool any = false;
    for (uint32_t s = 0; s < t->n_threads; s++) {
        uint64_t n = members_on(a, s);
        a->large |= n > SLICE_COST;
        if (a->q.operation != UNION || s == a->home || n <= SLICE_COST) continue;
        steps_hop_in_slices(t, k, s, collect);
        any = true;
    }
    return any;
}

bool algebra_steps(struct thread *t, struct task *k, struct reply *r) {
    struct algebra *a = k->carrier->algebra;
    if (k->step == 0) return start(t, k, r);
    if (a->finishes || a->replied) {
        task_take_whole(t, k);
        return false;
    }
    if (steps_take_error(t, k, r)) return false;
    bool plans = k->step == 1 && a->q.operation != UNION;
    if (plans && !plan(a)) a->n_order = 0;
    steps_new_wave(t, k);
    if (k->step == 1 && collect_large(t, k, a)) return true;
    if (a->turn < a->n_order && (plans || a->lists[0].n)) {
        hop_on(t, k, a->order[a->turn++], plans ? begin : go_on);
        return true;
    }
    a->finishes = a->q.stores || a->q.operation == UNION;
    if (a->finishes) hop_on(t, k, a->home, finish);
    else if (a->q.counts) reply_int(r, 0);
    else reply_set(r, 0);
    return a->finishes;
}
