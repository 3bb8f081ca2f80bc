/* Sets together: SINTER, SUNION, SDIFF, SINTERCARD, and what stores their results. In this file: sources; where results go; the three ways to walk; the
 * commands where all shards are at hand; as waves of hops over several shards.
 *
 * Members of one set are looked for in others in groups, so that their cache misses overlap. SINTER walks through its smallest set. SDIFF either looks
 * the first set's members up in the others, or takes the others' members out of a copy of the first, whichever looks cheaper (as in Redis, so that the results
 * have the same encoding).
 *
 * Over several shards only names travel: of SUNION those of the shards that are not the result's; else those that may still be in the result, which
 * each shard filters in its turn.
 */
#include <errno.h>
#include <mimalloc.h>
#include <stdlib.h>

#include "server/sets.h"
#include "server/steps.h"
#include "server/strings.h"
#include "server/task_internal.h"
#include "server/thread.h"
#include "shard/container.h"
#include "shard/memory.h"

enum operation { INTER, UNION, DIFF };

/* What a command asks for. */
struct question {
    enum operation operation;
    bool stores, counts;
    uint64_t limit; /* of what SINTERCARD counts; 0: none */
    uint32_t first; /* of the keys, the first source */
};

/* ---- sources ---- */

#define FEW 16u

struct sources {
    struct set *sets;
    uint32_t n;
    struct set few[FEW];
};

static bool sources_new(struct sources *o, uint32_t most) {
    o->n = 0;
    o->sets = most <= FEW ? o->few : mi_malloc(most * sizeof *o->sets);
    return o->sets;
}

static void sources_drop(struct sources *o) {
    if (o->sets != o->few) mi_free(o->sets);
}

/* Opens all sources of a command. False: an error was replied. */
static bool open_all(const struct spread *x, const struct hop *h, uint32_t first, struct sources *o, struct reply *r) {
    if (!sources_new(o, h->n_keys - first)) {
        reply_no_memory(r);
        return false;
    }
    for (uint32_t i = first; i < h->n_keys; i++) {
        struct shard *s;
        struct key k;
        if (x->n == 1) key_prefetch_ahead(x->shards[0], h, i);
        spread_read(x, h, i, &s, &k);
        if (!is_set(&k, r)) {
            sources_drop(o);
            return false;
        }
        o->sets[o->n++] = set_open(s, &k);
    }
    return true;
}

static int by_count(const void *a, const void *b) {
    uint64_t x = set_count(a), y = set_count(b);
    return (x > y) - (x < y);
}
static int by_count_descending(const void *a, const void *b) { return by_count(b, a); }

static bool is_same(const struct set *a, const struct set *b) {
    return a->ints == b->ints && a->fields.page == b->fields.page && a->fields.map == b->fields.map;
}

/* ---- where results go ---- */

/* Names on their way between shards: for each its size (4 bytes) and its bytes. Of no shard. */
struct names {
    char *bytes;
    size_t size, capacity;
    uint64_t n;
};

static bool names_add(struct names *l, const char *text, uint32_t size) {
    size_t needs = l->size + sizeof size + size;
    if (needs > l->capacity) {
        size_t capacity = needs < 1024 ? 1024 : 2 * needs;
        char *bytes = mi_realloc(l->bytes, capacity);
        if (!bytes) return false;
        l->bytes = bytes;
        l->capacity = capacity;
    }
    memcpy(l->bytes + l->size, &size, sizeof size);
    memcpy(l->bytes + l->size + sizeof size, text, size);
    l->size = needs;
    l->n++;
    return true;
}

static const char *names_next(const struct names *l, size_t *at, uint32_t *size) {
    if (*at == l->size) return NULL;
    memcpy(size, l->bytes + *at, sizeof *size);
    const char *text = l->bytes + *at + sizeof *size;
    *at += sizeof *size + *size;
    return text;
}

static void names_drop(struct names *l) {
    mi_free(l->bytes);
    *l = (struct names){0};
}

/* Takes results, of one of these kinds. */
struct sink {
    struct reply *values;
    struct names *names;
    struct set *set;
    uint64_t n, limit; /* so far; enough (0: never) */
    /* Of a set: */
    int64_t ints_max;
    struct shard *budget; /* whose budget it must fit into; NULL: it need not */
    size_t gives;         /* bytes that come back when it has its place */
    bool refused;
};

/* Names between two questions to the budget. */
#define ASK_EVERY 64u

static bool fits(const struct sink *o) {
    return !o->budget || memory_used(o->budget->memory) - o->gives <= o->budget->leased || shard_fits(o->budget, 0);
}

/* False: no more is wanted. */
static bool emit(struct sink *o, const struct field_name *name) {
    const struct packed *p = &name->packed;
    int added = 1;
    if (o->values) reply_bulk(o->values, p->text, p->text_size);
    if (o->names && !names_add(o->names, p->text, p->text_size)) o->refused = true;
    if (o->set) added = set_add(o->set, name, o->ints_max);
    if (added < 0 || (o->set && o->n % ASK_EVERY == 0 && !fits(o))) o->refused = true;
    o->n += added > 0;
    return !o->refused && !(o->limit && o->n >= o->limit);
}

/* ---- walking ---- */

struct group {
    struct set_item items[SET_GROUP];
    struct field_name names[SET_GROUP];
    char scratch[SET_GROUP][INT64_TEXT_SIZE];
};

static uint32_t next_group(const struct set *x, struct set_walk *w, struct group *g) {
    uint32_t n = 0;
    for (; n < SET_GROUP && set_next(x, w, &g->items[n]); n++) set_name_of(x, &g->items[n], g->scratch[n], &g->names[n]);
    return n;
}

/* Names of a list, as a group. */
static uint32_t next_names(const struct set *x, const struct names *l, size_t *at, struct group *g) {
    uint32_t n = 0, size;
    const char *text;
    for (; n < SET_GROUP && (text = names_next(l, at, &size)); n++) set_name(x, text, size, &g->names[n]);
    return n;
}

/* Of a group those that are in all of n sets, or in none of them. */
static uint32_t filter(const struct group *g, uint32_t in, const struct set *sets, uint32_t n, bool in_all) {
    for (uint32_t i = 0; i < n && in; i++) {
        uint32_t found = set_probe(&sets[i], g->names, in);
        in = in_all ? found : in & ~found;
    }
    return in;
}

static bool emit_group(struct sink *o, const struct group *g, uint32_t in) {
    for (; in; in &= in - 1)
        if (!emit(o, &g->names[__builtin_ctz(in)])) return false;
    return true;
}

/* The first set's members that are in all others, or in none of them. */
static void walk_first(const struct set *sets, uint32_t n, bool in_all, struct sink *o) {
    struct group g;
    struct set_walk w = {0};
    for (uint32_t got; (got = next_group(&sets[0], &w, &g));)
        if (!emit_group(o, &g, filter(&g, (1u << got) - 1, sets + 1, n - 1, in_all))) return;
}

static bool add_all(const struct set *x, struct sink *o) {
    struct group g;
    struct set_walk w = {0};
    for (uint32_t got; (got = next_group(x, &w, &g));) {
        if (o->set && got > 2) set_prefetch(o->set, g.names, got);
        if (!emit_group(o, &g, (1u << got) - 1)) return false;
    }
    return true;
}

static bool add_names(const struct names *l, struct sink *o) {
    struct group g;
    size_t at = 0;
    for (uint32_t got; (got = next_names(o->set, l, &at, &g));) {
        if (got > 2) set_prefetch(o->set, g.names, got);
        if (!emit_group(o, &g, (1u << got) - 1)) return false;
    }
    return true;
}

static void take_all_out(struct set *from, const struct set *x) {
    struct group g;
    struct set_walk w = {0};
    struct set_item m;
    for (uint32_t got; !set_is_empty(from) && (got = next_group(x, &w, &g));) {
        if (got > 2) set_prefetch(from, g.names, got);
        for (uint32_t i = 0; i < got && !set_is_empty(from); i++)
            if (set_find(from, &g.names[i], &m)) set_remove(from, &m);
    }
}

static void intersect(struct sources *s, struct sink *o) {
    qsort(s->sets, s->n, sizeof *s->sets, by_count);
    if (set_is_empty(&s->sets[0])) return;
    walk_first(s->sets, s->n, true, o);
}

/* Whether SDIFF takes the others' members out of a copy of the first. */
static bool takes_out(uint64_t first, uint64_t sum, uint32_t there) { return first * there / 2 > sum; }

static bool diff_takes_out(const struct sources *s) {
    uint64_t sum = 0;
    uint32_t there = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        sum += set_count(&s->sets[i]);
        there += !set_is_empty(&s->sets[i]);
    }
    return takes_out(set_count(&s->sets[0]), sum, there);
}

static bool first_is_among_others(const struct sources *s) {
    for (uint32_t i = 1; i < s->n; i++)
        if (is_same(&s->sets[0], &s->sets[i])) return true;
    return false;
}

static void subtract(struct sources *s, bool take_out, struct sink *o) {
    if (set_is_empty(&s->sets[0]) || first_is_among_others(s)) return;
    if (!take_out) {
        qsort(s->sets + 1, s->n - 1, sizeof *s->sets, by_count_descending);
        walk_first(s->sets, s->n, false, o);
        return;
    }
    if (!add_all(&s->sets[0], o)) return;
    for (uint32_t i = 1; i < s->n && !set_is_empty(o->set); i++) take_all_out(o->set, &s->sets[i]);
}

static void unite(const struct sources *s, struct sink *o) {
    for (uint32_t i = 0; i < s->n; i++)
        if (!add_all(&s->sets[i], o)) return;
}

/* ---- with all shards at hand ---- */

static void combine(const struct question *q, struct sources *s, bool take_out, struct sink *o) {
    switch (q->operation) {
    case INTER: intersect(s, o); break;
    case UNION: unite(s, o); break;
    case DIFF: subtract(s, take_out, o); break;
    }
}

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

/* Through a set: what is stored, and what can't be known before all sources were seen. */
static void through_set(
    const struct question *q, const struct spread *x, const struct hop *h, struct sources *s, bool take_out, struct reply *r) {
    struct shard *home = q->stores ? spread_shard(x, h, 0) : x->shards[0];
    struct set result = set_new(home);
    struct sink o = {.set = &result, .ints_max = set_ints_max()};
    struct key k;
    if (q->stores) {
        spread_write(x, h, 0, NULL, &k);
        o.budget = home;
        o.gives = gives_back(&k);
    }
    combine(q, s, take_out, &o);
    bool refused = o.refused || (q->stores && !fits(&o));
    if (q->stores) {
        store(home, &k, &result, refused, r);
        return;
    }
    if (refused) reply_refused(home, r);
    else reply_all_items(r, &result);
    set_drop(home, &result);
}

static void reply_values(struct reply *r, struct reply *values, uint64_t n) {
    reply_set(r, n);
    if (values->size) reply_take(r, values, 0, values->size);
    if (values->failed) r->failed = true;
    reply_drop(values);
}

static void answer(const struct question *q, const struct spread *x, const struct hop *h, struct reply *r) {
    struct sources s;
    struct reply values = {.resp = r->resp};
    if (!open_all(x, h, q->first, &s, r)) return;
    bool take_out = q->operation == DIFF && diff_takes_out(&s);
    struct sink o = {.values = q->counts ? NULL : &values, .limit = q->limit};
    if (s.n == 1 && !q->stores && !q->counts) {
        reply_all_items(r, &s.sets[0]);
    } else if (q->stores || q->operation == UNION || take_out) {
        through_set(q, x, h, &s, take_out, r);
    } else {
        combine(q, &s, false, &o);
        if (q->counts) reply_int(r, (int64_t)o.n);
        else reply_values(r, &values, o.n);
    }
    sources_drop(&s);
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

/* ---- over several shards ---- */

/* A command under way. What hops write is written by one shard at a time: each its own sizes and list, or the one list that goes round. */
struct algebra {
    struct question q;
    uint32_t n_keys, n_shards, home; /* home: the shard that makes a set of the result */
    uint16_t *shards;                /* of each key */
    uint64_t *sizes;                 /* of each key's set */
    struct names *lists;             /* by shard; what goes round is the first */
    uint16_t *order;                 /* INTER, DIFF: whose turn is when */
    uint32_t n_order, turn;
    bool takes_out;  /* as diff_takes_out(), */
    bool first_ints; /* and the first set's copy would be an intset */
    bool finishes;
};

void algebra_drop(struct algebra *a) {
    if (!a) return;
    for (uint32_t i = 0; a->lists && i < a->n_shards; i++) names_drop(&a->lists[i]);
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
    if (!a->shards || !a->sizes || !a->lists || !a->order) {
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

/* Step 0: the sizes of all sets; a union's shards give their members, too. */
static enum hop_result measure(struct shard *s, struct hop *h, struct reply *r) {
    struct algebra *a = algebra_of(h);
    struct sink o = {.names = &a->lists[s->id]};
    for (uint32_t i = a->q.first; i < a->n_keys; i++) {
        struct key k;
        if (a->shards[i] != s->id) continue;
        key_read_nth(s, h, i, &k);
        if (!is_set(&k, r)) return HOP_DONE;
        struct set x = set_open(s, &k);
        a->sizes[i] = set_count(&x);
        if (a->q.operation == UNION && s->id != a->home) add_all(&x, &o);
    }
    if (o.refused) reply_no_memory(r);
    return HOP_DONE;
}

static bool is_last_turn(const struct algebra *a) { return a->turn == a->n_order; }

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
    struct sources o;
    struct sink to = {.names = &a->lists[0], .limit = is_last_turn(a) ? a->q.limit : 0};
    if (!open_here(s, h, a, &o, r)) return HOP_DONE;
    if (a->takes_out) a->first_ints = would_be_ints(&o.sets[0]);
    combine(&a->q, &o, false, &to);
    sources_drop(&o);
    if (to.refused) reply_no_memory(r);
    return HOP_DONE;
}

/* A later turn: what is left of the list. */
static enum hop_result go_on(struct shard *s, struct hop *h, struct reply *r) {
    struct algebra *a = algebra_of(h);
    struct sources o;
    struct names from = a->lists[0], left = {0};
    struct sink to = {.names = &left, .limit = is_last_turn(a) ? a->q.limit : 0};
    struct group g;
    size_t at = 0;
    if (!open_here(s, h, a, &o, r)) return HOP_DONE;
    for (uint32_t got; (got = next_names(&o.sets[0], &from, &at, &g));)
        if (!emit_group(&to, &g, filter(&g, (1u << got) - 1, o.sets, o.n, a->q.operation == INTER))) break;
    sources_drop(&o);
    names_drop(&a->lists[0]);
    a->lists[0] = left;
    if (to.refused) reply_no_memory(r);
    return HOP_DONE;
}

/* The end, on the home shard, where a set is made of the lists. */
static enum hop_result finish(struct shard *s, struct hop *h, struct reply *r) {
    struct algebra *a = algebra_of(h);
    struct set result = set_new(s);
    struct sink o = {.set = &result, .ints_max = set_ints_max()};
    struct sources here = {0};
    struct key k;
    if (a->q.stores) {
        key_write_nth(s, h, 0, &k);
        o.budget = s;
        o.gives = gives_back(&k);
    }
    if (a->q.operation == UNION) {
        if (!open_here(s, h, a, &here, r)) return HOP_DONE;
        unite(&here, &o);
        sources_drop(&here);
    }
    for (uint32_t i = 0; i < a->n_shards && !o.refused; i++) add_names(&a->lists[i], &o);
    if (a->takes_out && !a->first_ints && set_convert(&result)) o.refused = true;
    bool refused = o.refused || (a->q.stores && !fits(&o));
    if (a->q.stores) {
        store(s, &k, &result, refused, r);
        return HOP_DONE;
    }
    if (refused) reply_refused(s, r);
    else reply_all_items(r, &result);
    set_drop(s, &result);
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
        a->takes_out = takes_out(a->sizes[first], sum, there);
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

/* The result is in the list that went round. */
static void reply_list(const struct algebra *a, struct reply *r) {
    const struct names *l = &a->lists[0];
    const char *text;
    size_t at = 0;
    uint32_t size;
    if (a->q.counts) {
        reply_int(r, (int64_t)l->n);
        return;
    }
    reply_set(r, l->n);
    while ((text = names_next(l, &at, &size))) reply_bulk(r, text, size);
}

bool algebra_steps(struct thread *t, struct task *k, struct reply *r) {
    struct algebra *a = k->carrier->algebra;
    if (k->step == 0) return start(t, k, r);
    if (a->finishes) {
        task_take_whole(t, k);
        return false;
    }
    if (steps_take_error(t, k, r)) return false;
    bool plans = k->step == 1 && a->q.operation != UNION;
    if (plans && !plan(a)) a->n_order = 0;
    steps_new_wave(t, k);
    if (a->turn < a->n_order && (plans || a->lists[0].n)) {
        steps_hop(t, k, a->order[a->turn++], plans ? begin : go_on);
        return true;
    }
    a->finishes = a->q.stores || a->q.operation == UNION;
    if (a->finishes) steps_hop(t, k, a->home, finish);
    else reply_list(a, r);
    return a->finishes;
}
