/* SORT and SORT_RO: BY, GET, LIMIT, ASC, DESC, ALPHA, STORE.
 *
 * A sorting goes through phases, each as far as a slice's budget goes:
 *
 *   GATHER   copies the elements, of a list or a sorted set that is not to be sorted only those of LIMIT
 *   WEIGH    looks up what BY names
 *   SORT     makes numbers of the weights; a merge sort from the bottom up, stable
 *   FETCH    looks up what GET names, of the elements within LIMIT
 *   EMIT     replies, or makes a list of it
 *
 * On one shard a hop does all of them, in slices if the elements are many. Over several shards each phase is a wave: the source's shard gathers and sorts, every
 * shard looks up the keys that lie there, the target's shard stores. BY and GET may name any key, so the intents are then on the database as a whole.
 *
 * Names found here follow Redis: a pattern without * names nothing (as BY: do not sort), # is the element itself, key->field a field of a hash.
 */
#include <errno.h>
#include <math.h>
#include <mimalloc.h>
#include <stdlib.h>

#include "server/command.h"
#include "server/config.h"
#include "server/kept.h"
#include "server/lists.h"
#include "server/merge_sort.h"
#include "server/route.h"
#include "server/steps.h"
#include "server/strings.h"
#include "server/task_internal.h"
#include "server/thread.h"
#include "shard/batch.h"
#include "shard/container.h"
#include "shard/list.h"
#include "shard/set.h"
#include "shard/zset.h"

/* ---- what is asked for ---- */

/* Names a key for each element: what stands before and behind the *, and the field behind ->. */
struct pattern {
    const char *text;
    uint32_t prefix, postfix, field_size;
    const char *field; /* NULL: none */
    bool is_element, is_nothing;
};

struct question {
    struct pattern by;
    bool has_by, descending, alpha, unsorted;
    int64_t start, count; /* LIMIT; count negative: all */
    uint32_t store, n_gets;
};

static void read_pattern(const struct arg *a, struct pattern *out) {
    const char *star = memchr(a->p, '*', a->size), *end = a->p + a->size, *arrow;
    *out = (struct pattern){.text = a->p, .is_element = a->size == 1 && *a->p == '#', .is_nothing = !star};
    if (!star) return;
    out->prefix = (uint32_t)(star - a->p);
    arrow = memmem(star + 1, (size_t)(end - star - 1), "->", 2);
    if (arrow && arrow + 2 < end) {
        out->field = arrow + 2;
        out->field_size = (uint32_t)(end - out->field);
    }
    out->postfix = (uint32_t)((out->field ? arrow : end) - star - 1);
}

static bool reaches(const struct arg *pattern) { return memchr(pattern->p, '*', pattern->size); }

/* How many arguments an option has behind it; -1: it is none. */
static int option_args(const struct arg *a) {
    if (arg_is(a, "asc") || arg_is(a, "desc") || arg_is(a, "alpha")) return 0;
    if (arg_is(a, "limit")) return 2;
    return arg_is(a, "by") || arg_is(a, "get") || arg_is(a, "store") ? 1 : -1;
}

static void find_keys(const struct arg *argv, uint32_t argc, struct key_range *out) {
    for (uint32_t i = 2; i < argc; i++) {
        int more = option_args(&argv[i]);
        if (more < 0 || (uint32_t)more > argc - i - 1) return; /* an error, which the source's shard replies */
        if (arg_is(&argv[i], "store")) {
            out->n = i <= UINT8_MAX ? 2 : 1;
            out->step = (uint8_t)i;
            out->anywhere |= i > UINT8_MAX;
        } else if (arg_is(&argv[i], "by") || arg_is(&argv[i], "get")) out->anywhere |= reaches(&argv[i + 1]);
        i += (uint32_t)more;
    }
}

/* False: an error was replied. */
static bool read_question(const struct command *row, const struct arg *argv, uint32_t argc, struct question *q, struct reply *r) {
    bool may_store = row->flags & CMD_WRITE;
    *q = (struct question){.count = -1};
    for (uint32_t i = 2; i < argc; i++) {
        int more = option_args(&argv[i]);
        bool stores = arg_is(&argv[i], "store");
        if (more < 0 || (uint32_t)more > argc - i - 1 || (stores && !may_store)) {
            reply_syntax_error(r);
            return false;
        }
        if (arg_is(&argv[i], "limit")) {
            if (!arg_int64(&argv[i + 1], &q->start, r) || !arg_int64(&argv[i + 2], &q->count, r)) return false;
        } else if (arg_is(&argv[i], "by")) {
            q->has_by = true;
            read_pattern(&argv[i + 1], &q->by);
            if (q->by.is_nothing) q->unsorted = true;
        } else if (stores) q->store = i + 1;
        else if (arg_is(&argv[i], "get")) q->n_gets++;
        else if (arg_is(&argv[i], "alpha")) q->alpha = true;
        else q->descending = arg_is(&argv[i], "desc");
        i += (uint32_t)more;
    }
    return true;
}

/* ---- a sorting ---- */

struct item {
    const char *text, *weight; /* both with a NUL behind them; weight NULL: none */
    uint32_t size, weight_size;
    double score;
};

struct found {
    const char *text; /* NULL: nothing */
    uint32_t size;
};

/* What each shard does of it, at the same time as others. */
struct part {
    struct kept texts;
    uint64_t looked; /* keys that were looked up in this phase */
    int64_t budget;  /* left of this slice */
    bool no_memory;
};

enum phase { GATHER, WEIGH, SORT, FETCH, EMIT };

struct sorting {
    struct question q;
    struct pattern *gets;
    enum phase phase;
    bool no_number, begun; /* begun: the reply is */
    uint32_t n_parts;      /* shards; 1: the only one that takes part */
    struct part *parts;
    uint64_t start, end; /* of what is wanted: [start, end) */
    uint64_t next, n;    /* of the elements: the phase's next; all */
    struct set_walk walk;
    struct item *elements;
    struct merge_sort order; /* of them */
    struct found *found;     /* of each wanted element: what each GET gave */
    struct list list;        /* for STORE, from has_list on */
    struct list_load load;
    bool has_list, asked, refused;
};

#define SLICE_COST 4096 /* 50 to 150 us. The unit is an element that is copied, moved or replied */
#define LOOK_COST 8
#define BYTES_PER_COST 256u
#define ASK_PER_COST 16u
#define AT_ONCE 512u /* elements that are no matter */

static struct part *part_of(struct sorting *g, const struct shard *s) { return &g->parts[g->n_parts == 1 ? 0 : s->id]; }

static bool is_over(struct part *p, int64_t cost) {
    if (p->budget <= 0) return true;
    p->budget -= cost;
    return false;
}

static bool lacks_memory(const struct sorting *g) {
    for (uint32_t i = 0; i < g->n_parts; i++)
        if (g->parts[i].no_memory) return true;
    return false;
}

/* A copy. NULL: no memory. */
static const char *keep(struct part *p, const char *text, uint32_t size) {
    const char *copy = kept_copy(&p->texts, text, size);
    p->budget -= size / BYTES_PER_COST;
    p->no_memory |= !copy;
    return copy;
}

static void sorting_free(struct sorting *g) {
    if (!g) return;
    for (uint32_t i = 0; g->parts && i < g->n_parts; i++) kept_drop(&g->parts[i].texts);
    if (g->has_list) list_free(&g->list, NULL);
    mi_free(g->parts);
    mi_free(g->gets);
    mi_free(g->elements);
    mi_free(g->order.items);
    mi_free(g->order.other);
    mi_free(g->found);
    mi_free(g);
}

static struct sorting *sorting_new(const struct question *q, const struct arg *argv, uint32_t argc, uint32_t n_parts) {
    struct sorting *g = mi_calloc(1, sizeof *g);
    if (!g) return NULL;
    g->q = *q;
    g->n_parts = n_parts;
    g->parts = mi_calloc(n_parts, sizeof *g->parts);
    g->gets = mi_calloc(q->n_gets + 1, sizeof *g->gets);
    if (!g->parts || !g->gets) {
        sorting_free(g);
        return NULL;
    }
    for (uint32_t i = 2, n = 0; i < argc; i += 1 + (uint32_t)option_args(&argv[i]))
        if (arg_is(&argv[i], "get")) read_pattern(&argv[i + 1], &g->gets[n++]);
    return g;
}

/* ---- gathering ---- */

/* Is the key, if it is there, something that has elements? The error is replied. */
static bool can_be_sorted(const struct key *k, struct reply *r) {
    if (!k->entry || entry_type(k->entry) == TYPE_LIST || entry_type(k->entry) == TYPE_SET || entry_type(k->entry) == TYPE_ZSET)
        return true;
    reply_wrong_type(r);
    return false;
}

static uint64_t count_elements(struct shard *s, const struct key *k) {
    if (!k->entry) return 0;
    if (entry_type(k->entry) == TYPE_LIST) {
        struct list x = open_list(s, k);
        return list_count(&x);
    }
    if (entry_type(k->entry) == TYPE_SET) {
        struct set x = set_open(s, k);
        return set_count(&x);
    }
    struct zset x = zset_open(s, k);
    return zset_count(&x);
}

/* LIMIT over n elements. */
static void limit(struct sorting *g, int64_t n) {
    int64_t start = g->q.start < 0 ? 0 : g->q.start > n ? n : g->q.start, count = g->q.count < 0 ? n : g->q.count > n ? n : g->q.count;
    g->start = (uint64_t)start;
    g->end = (uint64_t)(count > n - start ? n : start + count);
}

/* Finds out how much there is to do. False: no memory. */
static bool prepare(struct shard *s, const struct key *k, struct sorting *g) {
    struct question *q = &g->q;
    enum entry_type type = k->entry ? entry_type(k->entry) : TYPE_LIST;
    uint64_t n = count_elements(s, k);
    if (q->unsorted && type == TYPE_SET && q->store) {
        /* A stored result does not depend on the order of a set. */
        q->unsorted = q->has_by = false;
        q->alpha = true;
    }
    if (n && type == TYPE_ZSET) { /* Redis converts it to look at it */
        struct zset x = zset_open(s, k);
        zset_show_large(&x, true);
    }
    limit(g, (int64_t)n);
    g->n = q->unsorted && type != TYPE_SET ? g->end - g->start : n;
    g->elements = mi_malloc((g->n + 1) * sizeof *g->elements);
    g->order.n = g->n;
    g->order.items = mi_malloc((g->n + 1) * sizeof *g->order.items);
    g->order.other = q->unsorted ? NULL : mi_malloc((g->n + 1) * sizeof *g->order.other);
    return g->elements && g->order.items && (q->unsorted || g->order.other);
}

static bool add(struct sorting *g, struct part *p, const char *text, uint32_t size) {
    struct item *e = &g->elements[g->next];
    *e = (struct item){.text = keep(p, text, size), .size = size};
    if (!e->text) return false;
    g->order.items[g->next++] = e;
    return true;
}

static bool from_list(struct shard *s, const struct key *k, struct sorting *g, struct part *p) {
    struct list x = open_list(s, k);
    bool back = g->q.unsorted && g->q.descending;
    uint64_t from = (g->q.unsorted ? g->start : 0) + g->next;
    struct list_walk w = list_walk_from(&x, back ? list_count(&x) - 1 - from : from, back ? LIST_HEAD : LIST_TAIL);
    struct list_item item;
    while (g->next < g->n && !is_over(p, 1) && list_next(&x, &w, &item)) {
        char scratch[INT64_TEXT_SIZE];
        uint32_t size;
        const char *text = list_text(&item, scratch, &size);
        if (!add(g, p, text, size)) return true;
    }
    return g->next == g->n;
}

static bool from_set(struct shard *s, const struct key *k, struct sorting *g, struct part *p) {
    struct set x = set_open(s, k);
    struct set_item m;
    while (g->next < g->n && !is_over(p, 1) && set_next(&x, &g->walk, &m)) {
        char scratch[INT64_TEXT_SIZE];
        uint32_t size;
        const char *text = set_text(&m, scratch, &size);
        if (!add(g, p, text, size)) return true;
    }
    return g->next == g->n;
}

static bool from_zset(struct shard *s, const struct key *k, struct sorting *g, struct part *p) {
    struct zset x = zset_open(s, k);
    struct zset_walk w;
    struct zset_item m;
    bool back = g->q.unsorted && g->q.descending;
    uint64_t from = (g->q.unsorted ? g->start : 0) + g->next;
    zset_begin(&x, &w, back ? zset_count(&x) - 1 - from : from, g->n - g->next, back);
    while (g->next < g->n && !is_over(p, 1) && zset_next(&x, &w, &m)) {
        char scratch[INT64_TEXT_SIZE];
        uint32_t size;
        const char *text = zset_text(&m, scratch, &size);
        if (!add(g, p, text, size)) return true;
    }
    return g->next == g->n;
}

static bool take_elements(struct shard *s, const struct key *k, struct sorting *g, struct part *p) {
    switch (entry_type(k->entry)) {
    case TYPE_LIST: return from_list(s, k, g, p);
    case TYPE_SET: return from_set(s, k, g, p);
    default: return from_zset(s, k, g, p);
    }
}

/* True: all are there, or memory was refused. */
static bool gather(struct shard *s, const struct key *k, struct sorting *g) {
    struct part *p = part_of(g, s);
    if (!g->elements && !prepare(s, k, g)) {
        p->no_memory = true;
        return true;
    }
    if (g->n && !take_elements(s, k, g, p)) return false;
    if (g->n && g->q.unsorted && entry_type(k->entry) != TYPE_SET) {
        g->end -= g->start;
        g->start = 0;
    }
    g->next = 0;
    return true;
}

/* ---- looking up ---- */

/* Where a sorting's keys may be: all shards, by number; or only one, and what lies elsewhere is another hop's. */
struct reach {
    struct shard *here;
    struct shard *const *all;
    struct hop *hop;
};

#define NAME_MAX_SHORT 256u

/* The name that a pattern makes of an element, in memory that is to be freed if it is not scratch. */
static char *name_of(const struct pattern *p, const struct item *e, char scratch[NAME_MAX_SHORT], size_t *size) {
    *size = (size_t)p->prefix + e->size + p->postfix;
    char *name = *size <= NAME_MAX_SHORT ? scratch : mi_malloc(*size);
    if (!name) return NULL;
    memcpy(name, p->text, p->prefix);
    memcpy(name + p->prefix, e->text, e->size);
    memcpy(name + p->prefix + e->size, p->text + p->prefix + 1, p->postfix);
    return name;
}

/* The key's value, or the field's, as the bytes of this shard's part of the sorting. */
static void take_value(struct part *to, struct shard *s, const struct key *k, const struct pattern *p, struct found *out) {
    char scratch[INT64_TEXT_SIZE];
    size_t size;
    if (!p->field && entry_type(k->entry) == TYPE_STRING) {
        const char *text = key_string(k, scratch, &size);
        *out = (struct found){keep(to, text, (uint32_t)size), (uint32_t)size};
    } else if (p->field && entry_type(k->entry) == TYPE_HASH) {
        struct fields f = key_fields(s, k);
        struct field_name name;
        struct field x;
        uint32_t n;
        field_name(&f, p->field, p->field_size, &name);
        if (!fields_find(&f, &name, &x) || x.expires_at_ms < s->now_ms) return;
        const char *text = packed_text(x.value, scratch, &n);
        *out = (struct found){keep(to, text, n), n};
    }
}

/* NULL: it is another hop's. */
static struct shard *shard_with(const struct sorting *g, const struct reach *at, uint32_t slot) {
    if (g->n_parts == 1) return at->here;
    uint32_t shard = route_shard(slot, g->n_parts);
    return at->all ? at->all[shard] : shard == at->here->id ? at->here : NULL;
}

static void look_up(struct sorting *g, const struct reach *at, const struct pattern *p, const struct item *e, struct found *out) {
    char scratch[NAME_MAX_SHORT];
    size_t size;
    char *name = name_of(p, e, scratch, &size);
    if (!name || size > UINT32_MAX) {
        part_of(g, at->here)->no_memory = true;
        if (name != scratch) mi_free(name);
        return;
    }
    struct arg key = {name, (uint32_t)size, 0};
    uint64_t hash = hash_key(at->here->secret, name, size);
    struct shard *s = shard_with(g, at, route_slot(at->here->secret, &key, hash));
    if (s) {
        struct hop h = *at->hop;
        struct key k;
        h.argv = &key - h.key_first;
        h.argc = h.n_keys = 1;
        h.hash = hash;
        h.hashes = NULL;
        if (key_read(s, &h, &k)) take_value(part_of(g, at->here), s, &k, p, out);
    }
    if (name != scratch) mi_free(name);
}

static bool looks_up(const struct pattern *p) { return !p->is_element && !p->is_nothing; }

/* The weights of the elements, on this shard or everywhere. True: that is done. */
static bool weigh(struct sorting *g, const struct reach *at) {
    const struct question *q = &g->q;
    struct part *p = part_of(g, at->here);
    uint64_t *i = &p->looked;
    if (!q->has_by || q->unsorted || !looks_up(&q->by)) return true;
    for (; *i < g->n && !p->no_memory; (*i)++) {
        struct found x = {0};
        if (is_over(p, LOOK_COST)) return false;
        look_up(g, at, &q->by, &g->elements[*i], &x);
        if (!x.text) continue;
        g->elements[*i].weight = x.text;
        g->elements[*i].weight_size = x.size;
    }
    *i = 0;
    return true;
}

static bool fetches(const struct sorting *g) {
    for (uint32_t i = 0; i < g->q.n_gets; i++)
        if (looks_up(&g->gets[i])) return true;
    return false;
}

static bool fetch(struct sorting *g, const struct reach *at) {
    struct part *p = part_of(g, at->here);
    uint64_t *i = &p->looked, n = g->found ? (g->end - g->start) * g->q.n_gets : 0;
    for (; *i < n && !p->no_memory; (*i)++) {
        const struct pattern *x = &g->gets[*i % g->q.n_gets];
        if (!looks_up(x)) continue;
        if (is_over(p, LOOK_COST)) return false;
        look_up(g, at, x, g->order.items[g->start + *i / g->q.n_gets], &g->found[*i]);
    }
    *i = 0;
    return true;
}

/* ---- sorting ---- */

static int compare_bytes(const char *a, uint32_t a_size, const char *b, uint32_t b_size) {
    int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order ? order : (a_size > b_size) - (a_size < b_size);
}

static int compare_texts(const struct question *q, const char *a, uint32_t a_size, const char *b, uint32_t b_size) {
    return q->store ? compare_bytes(a, a_size, b, b_size) : strcoll(a, b);
}

static int compare(const void *left, const void *right, const void *arg) {
    const struct item *a = left, *b = right;
    const struct question *q = arg;
    int order;
    if (!q->alpha) {
        order = (a->score > b->score) - (a->score < b->score);
        if (!order) order = compare_bytes(a->text, a->size, b->text, b->size);
    } else if (!q->has_by || q->by.is_element) order = compare_texts(q, a->text, a->size, b->text, b->size);
    else if (a->weight && b->weight) order = compare_texts(q, a->weight, a->weight_size, b->weight, b->weight_size);
    else order = (a->weight != NULL) - (b->weight != NULL);
    return q->descending ? -order : order;
}

/* The number that a weight is, as strtod reads it. */
static bool read_score(const char *p, uint32_t size, double *out) {
    int64_t whole;
    char *end;
    if (parse_int64(p, size, &whole)) {
        *out = (double)whole;
        return true;
    }
    errno = 0;
    *out = strtod(p, &end);
    return !*end && errno != ERANGE && !isnan(*out);
}

static bool make_scores(struct sorting *g, struct part *part) {
    bool by_key = g->q.has_by && looks_up(&g->q.by);
    for (; g->next < g->n; g->next++) {
        struct item *e = &g->elements[g->next];
        const char *p = by_key ? e->weight : e->text;
        if (is_over(part, 1)) return false;
        if (p && !read_score(p, by_key ? e->weight_size : e->size, &e->score)) {
            g->no_number = true;
            return true;
        }
    }
    return true;
}

/* True: they are in order, and there is room for what GET gives; or it can't be. */
static bool sort(struct sorting *g, struct part *p) {
    if (!g->order.width && !g->q.unsorted) {
        if (!g->q.alpha && !make_scores(g, p)) return false;
        if (g->no_number) return true;
    }
    if (!g->q.unsorted && !merge_sort(&g->order, compare, &g->q, &p->budget)) return false;
    g->next = 0;
    if (g->q.n_gets) g->found = mi_calloc((g->end - g->start) * g->q.n_gets + 1, sizeof *g->found);
    p->no_memory |= g->q.n_gets && !g->found;
    return true;
}

/* ---- the result ---- */

static uint64_t result_size(const struct sorting *g) { return (g->end - g->start) * (g->q.n_gets ? g->q.n_gets : 1); }

/* The nth of what is replied or stored. */
static struct found result_at(const struct sorting *g, uint64_t nth) {
    uint32_t n = g->q.n_gets;
    const struct item *e = g->order.items[g->start + (n ? nth / n : nth)];
    if (n && !g->gets[nth % n].is_element) return g->found[nth];
    return (struct found){e->text, e->size};
}

static bool reply_all(struct sorting *g, struct part *p, struct reply *r) {
    uint64_t n = result_size(g);
    if (!g->begun) reply_array(r, n);
    g->begun = true;
    for (; g->next < n; g->next++) {
        struct found x = result_at(g, g->next);
        if (is_over(p, 1)) return false;
        p->budget -= x.size / BYTES_PER_COST;
        if (x.text) reply_bulk(r, x.text, x.size);
        else reply_null(r);
    }
    return true;
}

/* The key that is stored to, on its shard. */
static void store_key(struct shard *s, const struct hop *h, uint32_t nth, struct key *k) {
    const struct arg *name = &h->argv[nth];
    key_find(s, s->dbs[h->db], hash_key(s->secret, name->p, name->size), name->p, name->size, k);
}

/* What the list will take at most, and whether it may. True: that is known, and the error replied. */
static bool ask_budget(struct shard *s, const struct key *k, struct sorting *g, struct part *p, struct reply *r) {
    uint64_t n = s->leased == BUDGET_NONE ? 0 : result_size(g);
    for (; g->next < n; g->next++) {
        if (g->next % ASK_PER_COST == 0 && is_over(p, 1)) return false;
        list_load_add(&g->load, result_at(g, g->next).size);
    }
    g->next = 0;
    g->asked = true;
    g->refused = n && !may_push(s, k, &g->list, &g->load, r);
    return true;
}

static bool make_list(struct shard *s, const struct hop *h, struct sorting *g, struct part *p, struct reply *r) {
    uint64_t n = result_size(g);
    struct key k;
    store_key(s, h, g->q.store, &k);
    if (!g->has_list) g->list = list_new(s, config_current()->list_max_listpack_size);
    g->has_list = true;
    if (!g->asked && !ask_budget(s, &k, g, p, r)) return false;
    if (g->refused) return true;
    for (; g->next < n; g->next++) {
        struct found x = result_at(g, g->next);
        if (is_over(p, 1)) return false;
        p->budget -= x.size / BYTES_PER_COST;
        if (!list_push(&g->list, LIST_TAIL, &(struct arg){.p = x.text ? x.text : "", .size = x.size})) continue;
        reply_refused(s, r);
        return true;
    }
    g->has_list = false;
    if (list_replace(s, &k, &g->list, KEY_STORE)) reply_refused(s, r);
    else reply_int(r, (int64_t)n);
    return true;
}

static bool emit(struct shard *home, const struct hop *h, struct sorting *g, struct reply *r) {
    struct part *p = part_of(g, home);
    if (lacks_memory(g)) reply_no_memory(r);
    else if (g->no_number) reply_error(r, "ERR One or more scores can't be converted into double");
    else return g->q.store ? make_list(home, h, g, p, r) : reply_all(g, p, r);
    return true;
}

/* ---- on shards that are at hand ---- */

static void source_key(struct shard *s, const struct hop *h, struct key *k) {
    const struct arg *name = hop_key(h, 0);
    key_look(s, s->dbs[h->db], hop_hash(h, 0), name->p, name->size, k);
}

/* One slice of it. True: it is replied. */
static bool go_on(struct sorting *g, const struct reach *at, struct shard *source, struct shard *home, struct reply *r) {
    struct part *p = part_of(g, at->here);
    struct key k;
    p->budget = part_of(g, home)->budget = SLICE_COST;
    if (g->phase == GATHER) {
        source_key(source, at->hop, &k);
        if (!gather(source, &k, g)) return false;
        g->phase = WEIGH;
    }
    if (g->phase == WEIGH) {
        if (!weigh(g, at)) return false;
        g->phase = SORT;
    }
    if (g->phase == SORT) {
        if (!lacks_memory(g) && !sort(g, p)) return false;
        g->phase = FETCH;
    }
    if (g->phase == FETCH) {
        if (!fetch(g, at)) return false;
        g->phase = EMIT;
    }
    return emit(home, at->hop, g, r);
}

/* False: an error was replied. */
static bool begin(struct shard *s, const struct hop *h, struct question *q, struct key *k, struct reply *r) {
    if (!read_question(command_by_number(h->row), h->argv, h->argc, q, r)) return false;
    key_read_nth(s, h, 0, k);
    return can_be_sorted(k, r);
}

static void sort_on_spread(const struct spread *x, struct hop *h, struct reply *r) {
    struct shard *source = spread_shard(x, h, 0);
    struct question q;
    struct key k;
    if (!begin(source, h, &q, &k, r)) return;
    struct sorting *g = sorting_new(&q, h->argv, h->argc, x->n);
    if (!g) {
        reply_no_memory(r);
        return;
    }
    struct shard *home = source;
    if (q.store && x->n > 1) {
        const struct arg *name = &h->argv[q.store];
        home = x->shards[route_shard(route_slot(source->secret, name, hash_key(source->secret, name->p, name->size)), x->n)];
    }
    struct reach at = {.here = source, .all = x->shards, .hop = h};
    while (!go_on(g, &at, source, home, r)) {}
    sorting_free(g);
}

/* Everything is on this shard: a hop, that goes on in slices if it has much to do. */
static enum hop_result sort_on_shard(struct shard *s, struct hop *h, struct reply *r) {
    struct sorting *g = h->state > HOP_IN_SLICES ? (struct sorting *)(uintptr_t)h->state : NULL;
    struct reach at = {.here = s, .hop = h};
    struct question q;
    struct key k;
    if (!g) {
        if (!begin(s, h, &q, &k, r)) return HOP_DONE;
        if (!h->state && count_elements(s, &k) > AT_ONCE) return HOP_AGAIN;
        g = sorting_new(&q, h->argv, h->argc, 1);
        if (!g) {
            reply_no_memory(r);
            return HOP_DONE;
        }
    }
    bool done = go_on(g, &at, s, s, r);
    while (!done && !h->state) done = go_on(g, &at, s, s, r);
    if (done) {
        sorting_free(g);
        return HOP_DONE;
    }
    h->state = (uint64_t)(uintptr_t)g;
    return HOP_AGAIN;
}

static void sort_drop(struct shard *s, struct hop *h, struct reply *r) {
    (void)s, (void)r;
    if (h->state > HOP_IN_SLICES) sorting_free((struct sorting *)(uintptr_t)h->state);
}

/* ---- over several shards ---- */

static struct sorting *sorting_of(const struct hop *h) { return steps_carrier(h)->own; }

static void drop_own(struct thread *t, void *own) {
    (void)t;
    sorting_free(own);
}

static struct part *begin_slice(struct sorting *g, const struct shard *s) {
    struct part *p = part_of(g, s);
    p->budget = SLICE_COST;
    return p;
}

/* The source's shard. */
static enum hop_result gather_hop(struct shard *s, struct hop *h, struct reply *r) {
    struct sorting *g = sorting_of(h);
    struct key k;
    begin_slice(g, s);
    if (g->elements) source_key(s, h, &k);
    else if (key_read_nth(s, h, 0, &k), !can_be_sorted(&k, r)) return HOP_DONE;
    return gather(s, &k, g) ? HOP_DONE : HOP_AGAIN;
}

static enum hop_result sort_hop(struct shard *s, struct hop *h, struct reply *r) {
    struct sorting *g = sorting_of(h);
    (void)r;
    return sort(g, begin_slice(g, s)) ? HOP_DONE : HOP_AGAIN;
}

/* Every shard. */
static enum hop_result weigh_hop(struct shard *s, struct hop *h, struct reply *r) {
    struct sorting *g = sorting_of(h);
    struct reach at = {.here = s, .hop = h};
    (void)r;
    begin_slice(g, s);
    return weigh(g, &at) ? HOP_DONE : HOP_AGAIN;
}

static enum hop_result fetch_hop(struct shard *s, struct hop *h, struct reply *r) {
    struct sorting *g = sorting_of(h);
    struct reach at = {.here = s, .hop = h};
    (void)r;
    begin_slice(g, s);
    return fetch(g, &at) ? HOP_DONE : HOP_AGAIN;
}

/* The target's shard, or the source's. */
static enum hop_result emit_hop(struct shard *s, struct hop *h, struct reply *r) {
    struct sorting *g = sorting_of(h);
    begin_slice(g, s);
    return emit(s, h, g, r) ? HOP_DONE : HOP_AGAIN;
}

static void send_hop(struct thread *t, struct task *k, uint32_t shard, hop_fn *run) {
    steps_hop(t, k, shard, run);
    k->pieces[shard]->owner_only = true; /* it may go on in slices */
}

static void send_to_all(struct thread *t, struct task *k, hop_fn *run) {
    for (uint32_t s = 0; s < t->n_threads; s++) send_hop(t, k, s, run);
}

static uint32_t home_of(const struct thread *t, const struct task *k, const struct question *q) {
    if (!q->store) return steps_shard_of(t, k, 0);
    const struct arg *name = &k->argv[q->store];
    return thread_shard_of(t, name, hash_key(&t->server->secret, name->p, name->size));
}

/* Sends the next phase's wave. */
static void send_phase(struct thread *t, struct task *k, struct sorting *g) {
    uint32_t source = steps_shard_of(t, k, 0);
    steps_new_wave(t, k);
    if (lacks_memory(g)) g->phase = EMIT;
    if (g->phase == WEIGH && (!g->q.has_by || g->q.unsorted || !looks_up(&g->q.by))) g->phase = SORT;
    if (g->phase == FETCH && !fetches(g)) g->phase = EMIT;
    switch (g->phase) {
    case GATHER: send_hop(t, k, source, gather_hop); break;
    case WEIGH: send_to_all(t, k, weigh_hop); break;
    case SORT: send_hop(t, k, source, sort_hop); break;
    case FETCH: send_to_all(t, k, fetch_hop); break;
    case EMIT: send_hop(t, k, home_of(t, k, &g->q), emit_hop); break;
    }
}

static bool sort_steps(struct thread *t, struct task *k, struct reply *r) {
    struct sorting *g = k->carrier->own;
    struct question q;
    if (!g) {
        if (!read_question(k->row, k->argv, k->argc, &q, r)) return false;
        g = k->carrier->own = sorting_new(&q, k->argv, k->argc, t->n_threads);
        k->carrier->drop_own = drop_own;
        if (!g) reply_no_memory(r);
    } else if (g->phase == EMIT) {
        steps_take_reply(t, k, r);
        return false;
    } else {
        if (steps_take_error(t, k, r)) return false;
        g->phase++;
    }
    if (g) send_phase(t, k, g);
    return g;
}

/* ---- the table ---- */

#define SORT_CATEGORIES ACL_SET | ACL_SORTEDSET | ACL_LIST | ACL_DANGEROUS

const struct command commands_sort[] = {
    {.name = "sort",
        .group = "generic",
        .since = "1.0.0",
        .summary = "Sort the elements in a list, set or sorted set",
        .complexity =
            "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of returned elements. When "
            "the elements are not sorted, complexity is O(N).",
        .arity = -2,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_MOVABLE_KEYS,
        .acl = SORT_CATEGORIES,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS),
            {.flags = KEY_RO | KEY_ACCESS,
                .begin = KEY_BEGIN_UNKNOWN,
                .find = KEY_FIND_UNKNOWN,
                .notes =
                    "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we "
                    "sort"},
            {.flags = KEY_OW | KEY_UPDATE,
                .begin = KEY_BEGIN_UNKNOWN,
                .find = KEY_FIND_UNKNOWN,
                .notes = "For the optional STORE keyword. It is marked 'unknown' because the keyword can appear anywhere in the argument "
                         "array"}},
        .n_key_specs = 3,
        .plan = PLAN_SPREAD,
        .find_keys = find_keys,
        .on_shard = sort_on_shard,
        .on_spread = sort_on_spread,
        .on_steps = sort_steps,
        .on_drop = sort_drop},
    {.name = "sort_ro",
        .group = "generic",
        .since = "7.0.0",
        .summary = "Sort the elements in a list, set or sorted set. Read-only variant of SORT.",
        .complexity =
            "O(N+M*log(M)) where N is the number of elements in the list or set to sort, and M the number of returned elements. When "
            "the elements are not sorted, complexity is O(N).",
        .arity = -2,
        .flags = CMD_READONLY | CMD_MOVABLE_KEYS,
        .acl = SORT_CATEGORIES,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS),
            {.flags = KEY_RO | KEY_ACCESS,
                .begin = KEY_BEGIN_UNKNOWN,
                .find = KEY_FIND_UNKNOWN,
                .notes =
                    "For the optional BY/GET keyword. It is marked 'unknown' because the key names derive from the content of the key we "
                    "sort"}},
        .n_key_specs = 2,
        .plan = PLAN_SPREAD,
        .find_keys = find_keys,
        .on_shard = sort_on_shard,
        .on_spread = sort_on_spread,
        .on_steps = sort_steps,
        .on_drop = sort_drop},
    {0}};
