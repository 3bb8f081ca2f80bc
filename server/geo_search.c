/* GEOSEARCH, GEORADIUS and their kin.
 *
 * A search goes through phases, each as far as a slice's budget goes:
 *
 *   GATHER   copies the members of nine squares that are within the shape
 *   SORT     by distance
 *   EMIT     replies them, or makes a sorted set of them
 *   FORGET   frees what was copied
 *
 * It is a hop, in slices if the squares have many members. What is stored on another shard than it was found on goes in two waves.
 */
#include <math.h>
#include <mimalloc.h>
#include <stdlib.h>

#include "server/geo.h"
#include "server/kept.h"
#include "server/merge_sort.h"
#include "server/regions.h"
#include "server/steps.h"
#include "server/strings.h"
#include "server/task_internal.h"
#include "server/thread.h"

/* ---- what a search asks for ---- */

/* What kind of search a row is. */
struct form {
    bool radius, by_member, may_store, stores; /* GEORADIUS and its kin; ...BYMEMBER; it has STORE; GEOSEARCHSTORE */
};

enum order { AS_FOUND, NEAREST_FIRST, FARTHEST_FIRST };

struct question {
    struct geo_shape shape;
    double unit;
    enum order order;
    int64_t count; /* 0: all */
    bool any, with_distance, with_number, with_point, store_distance;
    uint32_t store; /* the argument that is stored to; 0: none */
};

static struct form form_of(const struct command *row) {
    bool search = !strncmp(row->name, "geosearch", 9);
    return (struct form){.radius = !search,
        .by_member = !strncmp(row->name, "georadiusbymember", 17),
        .may_store = !search && row->flags & CMD_WRITE,
        .stores = search && row->flags & CMD_WRITE};
}

static bool arg_length(const struct arg *a, const char *text, double *out, struct reply *r) { return arg_score(a, out, text, r); }

static bool arg_radius(const struct arg *a, struct question *q, struct reply *r) {
    if (!arg_length(&a[0], "ERR need numeric radius", &q->shape.radius, r)) return false;
    if (q->shape.radius < 0) {
        reply_error(r, "ERR radius cannot be negative");
        return false;
    }
    return geo_arg_unit(&a[1], &q->unit, r);
}

static bool arg_box(const struct arg *a, struct question *q, struct reply *r) {
    q->shape.is_box = true;
    if (!arg_length(&a[0], "ERR need numeric width", &q->shape.width, r) ||
        !arg_length(&a[1], "ERR need numeric height", &q->shape.height, r))
        return false;
    if (q->shape.width < 0 || q->shape.height < 0) {
        reply_error(r, "ERR height or width cannot be negative");
        return false;
    }
    return geo_arg_unit(&a[2], &q->unit, r);
}

/* The middle is where a member is. A key that is not there has none, and no error comes of it. */
static bool arg_member(const struct arg *a, const struct zset *x, struct question *q, struct reply *r) {
    if (zset_is_empty(x) || geo_find_place(x, a, &q->shape.centre)) return true;
    reply_error(r, "ERR could not decode requested zset member");
    return false;
}

/* The options of a search that may come more than once, or in any order. */
struct given {
    bool member, point, radius, box;
};

enum option { OPTION_NONE, OPTION_TAKEN, OPTION_REFUSED };

/* FROMMEMBER, FROMLONLAT, BYRADIUS, BYBOX at *i of argv. */
static enum option shape_option(
    const struct arg *argv, uint32_t argc, uint32_t *i, const struct zset *x, struct given *given, struct question *q, struct reply *r) {
    const struct arg *a = &argv[*i];
    uint32_t left = argc - *i - 1, takes;
    bool good;
    if (arg_is(a, "frommember") && left >= 1 && !given->point) {
        given->member = true;
        takes = 1;
        good = arg_member(a + 1, x, q, r);
    } else if (arg_is(a, "fromlonlat") && left >= 2 && !given->member) {
        given->point = true;
        takes = 2;
        good = geo_arg_point(a + 1, &q->shape.centre, r);
    } else if (arg_is(a, "byradius") && left >= 2 && !given->box) {
        given->radius = true;
        takes = 2;
        good = arg_radius(a + 1, q, r);
    } else if (arg_is(a, "bybox") && left >= 3 && !given->radius) {
        given->box = true;
        takes = 3;
        good = arg_box(a + 1, q, r);
    } else return OPTION_NONE;
    *i += takes;
    return good ? OPTION_TAKEN : OPTION_REFUSED;
}

static bool arg_count(const struct arg *a, int64_t *out, struct reply *r) {
    if (!arg_int64(a, out, r)) return false;
    if (*out > 0) return true;
    reply_error(r, "ERR COUNT must be > 0");
    return false;
}

/* What stands behind the fixed arguments, from argv[at] on. False: an error was replied. */
static bool read_options(struct form form, const struct arg *argv, uint32_t argc, uint32_t at, const struct zset *x, struct given *given,
    struct question *q, struct reply *r) {
    for (uint32_t i = at; i < argc; i++) {
        const struct arg *a = &argv[i];
        if (arg_is(a, "withdist")) q->with_distance = true;
        else if (arg_is(a, "withhash")) q->with_number = true;
        else if (arg_is(a, "withcoord")) q->with_point = true;
        else if (arg_is(a, "any")) q->any = true;
        else if (arg_is(a, "asc")) q->order = NEAREST_FIRST;
        else if (arg_is(a, "desc")) q->order = FARTHEST_FIRST;
        else if (form.stores && arg_is(a, "storedist")) q->store_distance = true;
        else if (arg_is(a, "count") && i + 1 < argc) {
            if (!arg_count(&argv[++i], &q->count, r)) return false;
        } else if (form.may_store && i + 1 < argc && (arg_is(a, "store") || arg_is(a, "storedist"))) {
            q->store_distance = arg_is(a, "storedist");
            q->store = ++i;
        } else {
            enum option o = form.radius ? OPTION_NONE : shape_option(argv, argc, &i, x, given, q, r);
            if (o == OPTION_NONE) reply_syntax_error(r);
            if (o != OPTION_TAKEN) return false;
        }
    }
    return true;
}

/* What does not go together. False: that was replied. */
static bool is_whole(struct form form, const struct arg *name, const struct given *given, const struct question *q, struct reply *r) {
    if (q->store && (q->with_distance || q->with_number || q->with_point))
        reply_errorf(r, "ERR %s is not compatible with WITHDIST, WITHHASH and WITHCOORD options",
            form.stores ? "GEOSEARCHSTORE" : "STORE option in GEORADIUS");
    else if (!form.radius && !given->member && !given->point)
        reply_errorf(r, "ERR exactly one of FROMMEMBER or FROMLONLAT can be specified for %.*s", (int)name->size, name->p);
    else if (!form.radius && !given->radius && !given->box)
        reply_errorf(r, "ERR exactly one of BYRADIUS and BYBOX can be specified for %.*s", (int)name->size, name->p);
    else if (q->any && !q->count) reply_error(r, "ERR the ANY argument requires COUNT argument");
    else return true;
    return false;
}

/* False: an error was replied. x: the sorted set that is searched. */
static bool read_question(
    const struct command *row, const struct arg *argv, uint32_t argc, const struct zset *x, struct question *q, struct reply *r) {
    struct form form = form_of(row);
    struct given given = {0};
    uint32_t at = form.by_member ? 5 : form.radius ? 6 : form.stores ? 3 : 2;
    *q = (struct question){.unit = 1, .store = form.stores ? 1 : 0};
    if (form.by_member && !zset_is_empty(x)) {
        if (!arg_member(&argv[2], x, q, r) || !arg_radius(&argv[3], q, r)) return false;
    } else if (form.radius && !form.by_member) {
        if (!geo_arg_point(&argv[2], &q->shape.centre, r) || !arg_radius(&argv[4], q, r)) return false;
    }
    if (!read_options(form, argv, argc, at, x, &given, q, r) || !is_whole(form, &argv[0], &given, q, r)) return false;
    if (q->count && q->order == AS_FOUND && !q->any) q->order = NEAREST_FIRST; /* the nearest, as which ones else? */
    q->shape.radius *= q->unit;
    q->shape.width *= q->unit;
    q->shape.height *= q->unit;
    return true;
}

/* GEORADIUS: the key of the last STORE. */
void geo_find_keys(const struct arg *argv, uint32_t argc, struct key_range *out) {
    for (uint32_t i = arg_is(&argv[0], "georadiusbymember") ? 5 : 6; i + 1 < argc; i++) {
        if (arg_is(&argv[i], "count")) i++;
        else if (arg_is(&argv[i], "store") || arg_is(&argv[i], "storedist")) {
            i++;
            out->n = i - 1 <= UINT8_MAX ? 2 : 1;
            out->step = (uint8_t)(i - 1);
            out->anywhere = i - 1 > UINT8_MAX;
        }
    }
}

/* ---- a search ---- */

struct found {
    const char *text;
    uint32_t size;
    double score, distance;
    struct geo_point point;
};

enum phase { GATHER, SORT, EMIT, FORGET };

/* Records lie in blocks, which stay where they are. */
#define BLOCK_RECORDS 64u
struct record_block {
    struct record_block *next;
    struct found records[BLOCK_RECORDS];
};

struct search {
    struct question q;
    enum phase phase;
    bool no_memory, begun; /* begun: the reply is */
    int64_t budget;        /* left of this slice */
    struct geo_range ranges[GEO_RANGES];
    unsigned n_ranges, range; /* range: that is looked through, */
    uint64_t looked;          /* and how many of its members were */
    struct record_block *blocks;
    struct kept texts;
    struct merge_sort order; /* of what was found */
    uint64_t room;           /* of its items, and of the others: the two change places */
    uint64_t n, emitted;     /* that are wanted; that are replied or stored */
    struct zset result;      /* for a store, while it is under way */
    struct zset_building building;
    bool builds;
};

#define SLICE_COST 512 /* 100 to 300 us. The unit is a member that is looked at, moved or replied */
#define STORE_COST 4
#define FORGET_TEXTS_COST 32 /* a block of them */

static void search_drop_result(struct search *g) {
    if (g->builds) zset_free(&g->result, NULL);
    g->builds = false;
}

static void search_free(struct search *g) {
    if (!g) return;
    for (struct record_block *b = g->blocks, *next; b; b = next) {
        next = b->next;
        mi_free(b);
    }
    search_drop_result(g);
    kept_drop(&g->texts);
    regions_free_room(g->order.items, g->room * sizeof *g->order.items);
    regions_free_room(g->order.other, g->room * sizeof *g->order.other);
    mi_free(g);
}

static struct search *search_new(const struct question *q) {
    struct search *g = mi_calloc(1, sizeof *g);
    if (!g) return NULL;
    g->q = *q;
    g->n_ranges = geo_ranges(&q->shape, g->ranges);
    return g;
}

static bool is_over(struct search *g, int64_t cost) {
    if (g->budget <= 0) return true;
    g->budget -= cost;
    return false;
}

/* What is under way in slices goes so, too. True: what is left is freed at once. */
static bool forget(struct search *g) {
    for (struct record_block *b; (b = g->blocks); mi_free(b)) {
        if (is_over(g, 1)) return false;
        g->blocks = b->next;
    }
    do
        if (is_over(g, FORGET_TEXTS_COST)) return false;
    while (kept_drop_some(&g->texts));
    return true;
}

/* Room that is doubled is copied; from here on there is room for all that may be found, which is touched as it is used. */
#define DOUBLED_ROOM 4096u

static struct zset_bound by_score(uint64_t score) { return (struct zset_bound){.by = ZSET_BY_SCORE, .score = (double)score}; }

/* How many may be found at most. */
static uint64_t most_found(const struct search *g, const struct zset *x) {
    uint64_t n = 0;
    for (unsigned i = 0; i < g->n_ranges; i++) {
        struct zset_bound low = by_score(g->ranges[i].from), high = by_score(g->ranges[i].to);
        uint64_t from = zset_before(x, &low), to = zset_before(x, &high);
        if (from < to) n += to - from;
    }
    return g->q.any && n > (uint64_t)g->q.count ? (uint64_t)g->q.count : n;
}

static bool make_room(struct search *g, const struct zset *x) {
    uint64_t room = g->room ? 2 * g->room : BLOCK_RECORDS;
    if (room > DOUBLED_ROOM) room = most_found(g, x);
    void **items = regions_room(room * sizeof *items);
    if (!items) return false;
    if (g->order.n) memcpy(items, g->order.items, g->order.n * sizeof *items);
    regions_free_room(g->order.items, g->room * sizeof *items);
    g->order.items = items;
    g->room = room;
    return true;
}

/* Room for one more. NULL: no memory. */
static struct found *record(struct search *g, const struct zset *x) {
    uint64_t n = g->order.n;
    if (n == g->room && !make_room(g, x)) return NULL;
    if (n % BLOCK_RECORDS == 0) {
        struct record_block *b = mi_malloc(sizeof *b);
        if (!b) return NULL;
        b->next = g->blocks;
        g->blocks = b;
    }
    struct found *one = &g->blocks->records[n % BLOCK_RECORDS];
    g->order.items[g->order.n++] = one;
    return one;
}

static void take(struct search *g, const struct zset *x, const struct zset_item *m, struct geo_point point, double distance) {
    char scratch[INT64_TEXT_SIZE];
    uint32_t size;
    const char *text = zset_text(m, scratch, &size), *copy = kept_copy(&g->texts, text, size);
    struct found *one = copy ? record(g, x) : NULL;
    if (one) *one = (struct found){copy, size, m->score, distance, point};
    else g->no_memory = true;
}

static bool has_enough(const struct search *g) { return g->q.any && g->order.n >= (uint64_t)g->q.count; }

/* Goes on through one range. True: it is through. */
static bool gather_range(struct search *g, const struct zset *x) {
    struct zset_bound low = by_score(g->ranges[g->range].from), high = by_score(g->ranges[g->range].to);
    uint64_t from = zset_before(x, &low) + g->looked, to = zset_before(x, &high);
    struct zset_walk w;
    struct zset_item m;
    if (from >= to) return true;
    zset_begin(x, &w, from, to - from, false);
    while (!has_enough(g) && !g->no_memory) {
        double distance;
        if (is_over(g, 1)) return false;
        if (!zset_next(x, &w, &m)) break;
        g->looked++;
        struct geo_point p = geo_decode((uint64_t)m.score);
        if (geo_is_within(&g->q.shape, p, &distance)) take(g, x, &m, p, distance);
    }
    return true;
}

/* True: all was found that is wanted. */
static bool gather(struct search *g, const struct zset *x) {
    while (g->range < g->n_ranges && !has_enough(g) && !g->no_memory) {
        if (!gather_range(g, x)) return false;
        g->range++;
        g->looked = 0;
    }
    g->n = g->order.n;
    if (g->q.count && g->n > (uint64_t)g->q.count) g->n = (uint64_t)g->q.count;
    if (g->q.order != AS_FOUND && g->order.n) {
        g->order.other = regions_room(g->room * sizeof *g->order.other);
        g->no_memory |= !g->order.other;
    }
    return true;
}

static int nearest_first(const void *left, const void *right, const void *arg) {
    const struct found *a = left, *b = right;
    (void)arg;
    return (a->distance > b->distance) - (a->distance < b->distance);
}

static int farthest_first(const void *left, const void *right, const void *arg) { return nearest_first(right, left, arg); }

static bool sort(struct search *g) {
    if (g->q.order == AS_FOUND || g->no_memory) return true;
    return merge_sort(&g->order, g->q.order == NEAREST_FIRST ? nearest_first : farthest_first, NULL, &g->budget);
}

/* ---- the result ---- */

static void reply_found(const struct question *q, const struct found *x, struct reply *r) {
    unsigned more = q->with_distance + q->with_number + q->with_point;
    if (more) reply_array(r, more + 1);
    reply_bulk(r, x->text, x->size);
    if (q->with_distance) geo_reply_distance(r, x->distance / q->unit);
    if (q->with_number) reply_int(r, (int64_t)x->score);
    if (q->with_point) geo_reply_point(r, x->point);
}

static bool reply_all(struct search *g, struct reply *r) {
    if (!g->begun) reply_array(r, g->n);
    g->begun = true;
    for (; g->emitted < g->n; g->emitted++) {
        if (is_over(g, 1)) return false;
        reply_found(&g->q, g->order.items[g->emitted], r);
    }
    return true;
}

/* The key that is stored to, on its shard. */
static void store_key(struct shard *s, const struct hop *h, const struct question *q, struct key *k) {
    const struct arg *name = &h->argv[q->store];
    key_find(s, s->dbs[h->db], hash_key(s->secret, name->p, name->size), name->p, name->size, k);
}

static bool store_all(struct shard *s, const struct hop *h, struct search *g, struct reply *r) {
    struct key k;
    bool good = true;
    if (!g->builds) {
        g->result = zset_new(s);
        g->building = (struct zset_building){.shard = s, .x = &g->result};
        g->builds = true;
    }
    for (; g->emitted < g->n && good; g->emitted++) {
        const struct found *x = g->order.items[g->emitted];
        struct field_name name;
        if (is_over(g, STORE_COST)) return false;
        zset_name(&g->result, x->text, x->size, &name);
        good = zset_build(&g->building, &name, g->q.store_distance ? x->distance / g->q.unit : x->score);
    }
    if (good) zset_built(&g->building);
    store_key(s, h, &g->q, &k);
    g->builds = false;
    zset_store_result(s, &k, &g->result, good, r);
    return true;
}

static bool emit(struct shard *home, const struct hop *h, struct search *g, struct reply *r) {
    if (g->no_memory) reply_no_memory(r);
    else return g->q.store ? store_all(home, h, g, r) : reply_all(g, r);
    return true;
}

/* ---- on shards that are at hand ---- */

/* The nth key, which is searched, at first as its command does and later once more. */
static bool open_source(struct shard *s, const struct hop *h, uint32_t nth, bool again, struct zset *x, struct reply *r) {
    const struct arg *name = hop_key(h, nth);
    struct key k;
    if (again) key_look(s, s->dbs[h->db], hop_hash(h, nth), name->p, name->size, &k);
    else key_read_nth(s, h, nth, &k);
    if (!is_zset(&k, r)) return false;
    *x = zset_open(s, &k);
    return true;
}

static uint32_t source_of(const struct command *row) { return form_of(row).stores ? 1 : 0; }

/* One slice of it. True: it is replied. */
static bool go_on(struct search *g, const struct zset *x, struct shard *home, const struct hop *h, struct reply *r) {
    g->budget = SLICE_COST;
    if (g->phase == GATHER) {
        if (!gather(g, x)) return false;
        g->phase = SORT;
    }
    if (g->phase == SORT) {
        if (!sort(g)) return false;
        g->phase = EMIT;
    }
    if (g->phase == EMIT) {
        if (!emit(home, h, g, r)) return false;
        g->phase = FORGET;
    }
    return !h->state || forget(g);
}

/* The key that is stored to goes, as there is nothing to search. */
static void store_nothing(struct shard *home, const struct hop *h, const struct question *q, struct reply *r) {
    struct key k;
    store_key(home, h, q, &k);
    if (k.entry) key_delete(home, &k, KEY_DEL);
    reply_int(r, 0);
}

void geo_search_on_spread(const struct spread *x, struct hop *h, struct reply *r) {
    const struct command *row = command_by_number(h->row);
    uint32_t nth = source_of(row);
    struct shard *source = spread_shard(x, h, nth), *home = source;
    struct question q;
    struct zset z;
    if (!open_source(source, h, nth, false, &z, r) || !read_question(row, h->argv, h->argc, &z, &q, r)) return;
    if (q.store && x->n > 1) {
        const struct arg *name = &h->argv[q.store];
        home = x->shards[route_shard(route_slot(source->secret, name, hash_key(source->secret, name->p, name->size)), x->n)];
    }
    if (zset_is_empty(&z)) {
        if (q.store) store_nothing(home, h, &q, r);
        else reply_array(r, 0);
        return;
    }
    struct search *g = search_new(&q);
    if (!g) reply_no_memory(r);
    while (g && !go_on(g, &z, home, h, r)) {}
    search_free(g);
}

/* Members of a sorted set that is searched whole at once. */
#define AT_ONCE 1024u

/* Everything is on this shard: a hop, that goes on in slices if it may have much to do. */
enum hop_result geo_search(struct shard *s, struct hop *h, struct reply *r) {
    const struct command *row = command_by_number(h->row);
    struct search *g = h->state > HOP_IN_SLICES ? (struct search *)(uintptr_t)h->state : NULL;
    struct question q;
    struct zset z;
    bool done;
    if (!open_source(s, h, source_of(row), g, &z, r)) return HOP_DONE;
    if (!g) {
        if (!read_question(row, h->argv, h->argc, &z, &q, r)) return HOP_DONE;
        if (zset_is_empty(&z)) {
            if (q.store) store_nothing(s, h, &q, r);
            else reply_array(r, 0);
            return HOP_DONE;
        }
        g = search_new(&q);
        if (!g) {
            reply_no_memory(r);
            return HOP_DONE;
        }
        g->budget = SLICE_COST;
        if (!h->state && zset_count(&z) > AT_ONCE) {
            if (!gather(g, &z)) { /* nothing was changed or replied: it begins anew */
                search_free(g);
                return HOP_AGAIN;
            }
            g->phase = SORT;
        }
    }
    do done = go_on(g, &z, s, h, r);
    while (!done && !h->state);
    if (done) {
        search_free(g);
        return HOP_DONE;
    }
    h->state = (uint64_t)(uintptr_t)g;
    return HOP_AGAIN;
}

void geo_search_drop(struct shard *s, struct hop *h, struct reply *r) {
    (void)s, (void)r;
    if (h->state > HOP_IN_SLICES) search_free((struct search *)(uintptr_t)h->state);
}

/* ---- over two shards ---- */

static struct search *search_of(const struct hop *h) { return steps_carrier(h)->own; }

static void drop_own(struct thread *t, void *own) {
    (void)t;
    search_free(own);
}

/* The source's shard reads the arguments too, as the middle may be where a member is. */
static enum hop_result gather_hop(struct shard *s, struct hop *h, struct reply *r) {
    const struct command *row = command_by_number(h->row);
    struct search *g = search_of(h);
    struct question q;
    struct zset z;
    if (!open_source(s, h, source_of(row), g, &z, r)) return HOP_DONE;
    if (!g) {
        if (!read_question(row, h->argv, h->argc, &z, &q, r)) return HOP_DONE;
        g = steps_carrier(h)->own = search_new(&q);
        if (!g) {
            reply_no_memory(r);
            return HOP_DONE;
        }
        if (zset_is_empty(&z)) g->range = g->n_ranges;
    }
    g->budget = SLICE_COST;
    if (g->phase == GATHER && !gather(g, &z)) return HOP_AGAIN;
    g->phase = SORT;
    if (!sort(g)) return HOP_AGAIN;
    g->phase = EMIT;
    return HOP_DONE;
}

static enum hop_result emit_hop(struct shard *s, struct hop *h, struct reply *r) {
    struct search *g = search_of(h);
    g->budget = SLICE_COST;
    if (g->phase == EMIT) {
        if (!emit(s, h, g, r)) return HOP_AGAIN;
        g->phase = FORGET;
    }
    return forget(g) ? HOP_DONE : HOP_AGAIN;
}

bool geo_search_steps(struct thread *t, struct task *k, struct reply *r) {
    uint32_t shard = steps_shard_of(t, k, source_of(k->row));
    if (k->step == 2) {
        steps_take_reply(t, k, r);
        return false;
    }
    if (k->step == 1) {
        if (steps_take_error(t, k, r)) return false;
        const struct search *g = k->carrier->own;
        const struct arg *name = &k->argv[g->q.store];
        if (g->q.store) shard = thread_shard_of(t, name, hash_key(&t->server->secret, name->p, name->size));
    }
    k->carrier->drop_own = drop_own;
    steps_new_wave(t, k);
    steps_hop(t, k, shard, k->step ? emit_hop : gather_hop);
    k->pieces[shard]->owner_only = true; /* it may go on in slices */
    return true;
}
