/* The sorted-set commands. In this file: opening and replying; members one by one; popping; the scan. Ranges: zset_ranges.c. Random members: zset_random.c. Several together: zset_algebra.c. The
 * rows: zset_commands.c. */
#include "server/zsets.h"

#include <errno.h>
#include <math.h>
#include <mimalloc.h>
#include <stdio.h>

#include "server/config.h"
#include "server/field_scan.h"
#include "server/many.h"
#include "server/number.h"
#include "server/steps.h"
#include "server/strings.h"
#include "server/task_internal.h"
#include "server/thread.h"
#include "server/zset_parcel.h"
#include "shard/likely.h"

/* ---- opening and replying ---- */

bool is_zset(const struct key *k, struct reply *r) {
    if (LIKELY(!k->entry || entry_type(k->entry) == TYPE_ZSET)) return true;
    reply_wrong_type(r);
    return false;
}

bool zset_open_read(struct shard *s, const struct hop *h, struct zset *x, struct reply *r) {
    struct key k;
    key_read(s, h, &k);
    if (!is_zset(&k, r)) return false;
    *x = zset_open(s, &k);
    return true;
}

bool zset_open_write(struct shard *s, const struct hop *h, struct key *k, struct zset *x, struct reply *r) {
    key_write(s, h, k);
    if (!is_zset(k, r)) return false;
    *x = zset_open(s, k);
    return true;
}

bool zset_open_slice(struct shard *s, const struct hop *h, struct zset *x, struct reply *r) {
    const struct arg *name = hop_key(h, 0);
    struct key k;
    if (h->state) key_look(s, s->dbs[h->db], h->hash, name->p, name->size, &k);
    else key_read(s, h, &k);
    if (!is_zset(&k, r)) return false;
    *x = zset_open(s, &k);
    return true;
}

bool arg_score(const struct arg *a, double *out, const char *text, struct reply *r) {
    if (LIKELY(parse_double(a->p, a->size, out))) return true;
    reply_error(r, text ? text : "ERR value is not a valid float");
    return false;
}

static bool crosses(uint64_t count, uint32_t longest) {
    const struct config *config = config_current();
    return longest > (uint64_t)config->zset_max_listpack_value || count > (uint64_t)config->zset_max_listpack_entries;
}

double zset_kept(const struct zset *x, uint32_t size, double score) {
    if (LIKELY(score != 0)) return score;
    bool large = (!zset_is_empty(x) && zset_is_shown_large(x)) || (size && crosses(zset_count(x) + 1, size));
    return large ? score : 0;
}

void zset_show(struct zset *x, uint32_t longest) {
    if (crosses(zset_count(x), longest)) zset_show_large(x, true);
}

void reply_member(struct reply *r, const struct zset_item *m) {
    char scratch[INT64_TEXT_SIZE];
    uint32_t size;
    const char *text = zset_text(m, scratch, &size);
    reply_stored(r, text, size);
}

void reply_members_size(struct reply *r, uint64_t n, bool scores) { reply_array(r, scores && r->resp < 3 ? 2 * n : n); }

void reply_scored(struct reply *r, const struct zset_item *m, bool scores) {
    if (scores && r->resp >= 3) reply_array(r, 2);
    reply_member(r, m);
    if (scores) reply_double(r, m->score);
}

static struct field_name name_of(const struct zset *x, const struct arg *a) {
    struct field_name name;
    zset_name(x, a->p, a->size, &name);
    return name;
}

/* Names of up to ZSET_GROUP arguments, from argv[at] on, before argv[to], each `step` arguments from the last, with what will be looked for on its way; how many. */
static inline uint32_t name_group(
    const struct zset *x, const struct hop *h, uint32_t at, uint32_t to, uint32_t step, struct field_name names[ZSET_GROUP]) {
    uint32_t n = 0;
    for (; n < ZSET_GROUP && at < to; n++, at += step) names[n] = name_of(x, &h->argv[at]);
    if (n > 2) zset_prefetch(x, names, n);
    return n;
}

/* ---- results ---- */

/* Members between two questions to the budget. */
#define ASK_EVERY 64u

bool zset_rebuild(struct zset_building *b, const struct field_name *name, const struct zset_item *was, double score) {
    if (zset_put(b->x, name, was, score)) return false;
    if (name->packed.text_size > b->longest) b->longest = name->packed.text_size;
    return b->unasked || ++b->n % ASK_EVERY || shard_fits(b->shard, 0);
}

bool zset_build(struct zset_building *b, const struct field_name *name, double score) { return zset_rebuild(b, name, NULL, score); }

bool zset_build_in_turn(struct zset_building *b, const struct field_name *name, double score) {
    uint32_t size = name->packed.text_size;
    if (!zset_rebuild(b, name, NULL, b->large ? score : zset_kept(b->x, size, score))) return false;
    if (b->large) zset_show_large(b->x, true);
    else zset_show(b->x, size);
    return true;
}

void zset_built(struct zset_building *b) {
    if (!zset_is_empty(b->x)) zset_show(b->x, b->longest);
}

void zset_store_result(struct shard *s, struct key *k, struct zset *result, bool good, struct reply *r) {
    uint64_t n = zset_count(result);
    if (good && n && !zset_is_shown_large(result)) good = !zset_drop_signs(result);
    if (!good) zset_drop(s, result);
    if (!good || zset_replace(s, k, result, KEY_STORE)) reply_refused(s, r);
    else reply_int(r, (int64_t)n);
}

bool zset_unpack(struct zset_building *b, const struct parcel *p, struct parcel_at *at, bool in_turn, uint64_t *most) {
    const char *text;
    uint32_t size;
    double score;
    for (; *most && (text = parcel_next(p, at, &size, &score)); --*most) {
        struct field_name name;
        zset_name(b->x, text, size, &name);
        if (!(in_turn ? zset_build_in_turn(b, &name, score) : zset_build(b, &name, score))) return false;
    }
    return *most;
}

/* ---- adding ---- */

enum { ADD_NX = 1, ADD_XX = 2, ADD_GT = 4, ADD_LT = 8, ADD_CH = 16, ADD_INCR = 32 };

/* ZADD under way. */
struct adding {
    struct zset *x;
    unsigned flags;
    int64_t added, updated;
    bool did; /* INCR: it is there with this score now */
    double score;
};

/* False: memory was refused, or the sum is not a number: then NAN is its score. */
static inline __attribute__((always_inline)) bool add_one(struct adding *a, const struct field_name *name, double score) {
    struct zset_item was;
    bool found = zset_find(a->x, name, &was);
    if (a->flags & (found ? ADD_NX : ADD_XX)) return true;
    if (found && a->flags & ADD_INCR) {
        score += was.score;
        a->score = score;
        if (isnan(score)) return false;
    }
    if (found && ((a->flags & ADD_LT && score >= was.score) || (a->flags & ADD_GT && score <= was.score))) return true;
    a->score = score;
    a->did = true;
    if (found && score == was.score) return true;
    if (zset_put(a->x, name, found ? &was : NULL, zset_kept(a->x, found ? 0 : name->packed.text_size, score))) return false;
    a->updated += found;
    a->added += !found;
    if (!found) zset_show(a->x, name->packed.text_size);
    return true;
}

/* Whether the members argv[first], argv[first + 2] ... may be added. */
static bool may_add(struct shard *s, const struct hop *h, const struct key *k, const struct zset *x, uint32_t first) {
    size_t bytes = 0;
    uint32_t n = 0;
    if (LIKELY(s->leased == BUDGET_NONE)) return true;
    for (uint32_t i = first; i < h->argc; i += 2) {
        struct field_name name = name_of(x, &h->argv[i]);
        struct zset_item was;
        if (zset_find(x, &name, &was)) continue;
        bytes += zset_needs_member(&name);
        n++;
    }
    return !n || key_may_take(s, k, bytes + zset_needs(x, n));
}

/* Adds the pairs of scores and members from argv[first] on. False: an error was replied. */
static bool add_all(struct shard *s, struct hop *h, uint32_t first, struct adding *a, struct reply *r) {
    struct field_name names[ZSET_GROUP];
    enum key_event event = a->flags & ADD_INCR ? KEY_ZINCR : KEY_ZADD;
    struct key k;
    struct zset x;
    bool good = true;
    double score;
    for (uint32_t i = first; i < h->argc; i += 2)
        if (!arg_score(&h->argv[i], &score, NULL, r)) return false;
    if (!zset_open_write(s, h, &k, &x, r)) return false;
    if (!may_add(s, h, &k, &x, first + 1)) {
        reply_refused(s, r);
        return false;
    }
    a->x = &x;
    key_before_change(s, &k, event);
    for (uint32_t at = first, n; at < h->argc && good; at += 2 * n) {
        n = name_group(&x, h, at + 1, h->argc, 2, names);
        for (uint32_t i = 0; i < n && good; i++) {
            if (h->argc - first > 2) arg_score(&h->argv[at + 2 * i], &score, NULL, r);
            good = add_one(a, &names[i], score);
        }
    }
    bool is_nan = !good && isnan(a->score);
    if (a->added || a->updated || (!good && !is_nan)) good &= !zset_store(s, &k, &x, event);
    if (is_nan) reply_error(r, "ERR resulting score is not a number (NaN)");
    else if (!good) reply_refused(s, r);
    return good;
}

/* The same of very many, in slices. The score of the member that is argv[at + step - 1]: */
static bool score_at(const struct hop *h, const struct many *m, uint32_t at, double *score, struct reply *r) {
    return m->way->step == 3 ? arg_place(&h->argv[at], score, r) : arg_score(&h->argv[at], score, NULL, r);
}

/* All scores are read first; then what those that are new will take. */
static bool check_many(struct shard *s, struct hop *h, struct many *m, uint32_t to, struct reply *r) {
    struct field_name names[ZSET_GROUP];
    struct zset_item was;
    struct key k;
    double score;
    const uint32_t step = m->way->step;
    for (uint32_t i = m->at; i < to; i += step)
        if (!score_at(h, m, i, &score, r)) return false;
    many_look(s, h, &k);
    bool sums = s->leased != BUDGET_NONE && (!k.entry || entry_type(k.entry) == TYPE_ZSET);
    struct zset x = sums ? zset_open(s, &k) : zset_new(s);
    for (uint32_t n; sums && m->at < to; m->at += step * n) {
        n = name_group(&x, h, m->at + step - 1, to, step, names);
        for (uint32_t i = 0; i < n; i++) {
            if (zset_find(&x, &names[i], &was)) continue;
            m->bytes += zset_needs_member(&names[i]);
            m->members++;
        }
    }
    m->at = to;
    if (!many_is_last(h, m)) return true;
    return is_zset(&k, r) && (!m->members || many_reserve(s, m, &k, m->bytes + zset_needs(&x, (uint32_t)m->members), r));
}

/* The zset after a part; last: it is told. False: refused. */
static bool store_many(struct shard *s, struct key *k, struct zset *x, const struct many *m, bool last, enum key_event event) {
    if (zset_is_empty(x) || last) return !m->flag || !zset_store(s, k, x, event);
    return !zset_keep(s, k, x, event);
}

static bool add_many(struct shard *s, struct hop *h, struct many *m, uint32_t to, struct reply *r) {
    struct field_name names[ZSET_GROUP];
    const uint32_t step = m->way->step;
    struct key k;
    struct zset x;
    struct adding a = {.x = &x, .flags = m->flags};
    bool good = true;
    zset_open_write(s, h, &k, &x, r);
    key_before_change(s, &k, KEY_ZADD);
    for (uint32_t n; m->at < to && good; m->at += step * n) {
        n = name_group(&x, h, m->at + step - 1, to, step, names);
        for (uint32_t i = 0; i < n && good; i++) {
            double score = 0;
            score_at(h, m, m->at + i * step, &score, r);
            good = add_one(&a, &names[i], score);
        }
    }
    m->n += a.flags & ADD_CH ? a.added + a.updated : a.added;
    m->flag |= a.added || a.updated || !good;
    good &= store_many(s, &k, &x, m, !good || many_is_last(h, m), KEY_ZADD);
    if (!good) reply_refused(s, r);
    return good;
}

static unsigned add_flag(const struct arg *a) {
    static const struct {
        const char *word;
        unsigned flag;
    } words[] = {{"nx", ADD_NX}, {"xx", ADD_XX}, {"gt", ADD_GT}, {"lt", ADD_LT}, {"ch", ADD_CH}, {"incr", ADD_INCR}};
    for (size_t i = 0; a->size < 5 && i < sizeof words / sizeof *words; i++)
        if (arg_is(a, words[i].word)) return words[i].flag;
    return 0;
}

/* What does not go together; NULL: all is well. */
static const char *add_conflict(unsigned flags, uint32_t members) {
    bool nx = flags & ADD_NX, gt = flags & ADD_GT, lt = flags & ADD_LT;
    if (nx && flags & ADD_XX) return "ERR XX and NX options at the same time are not compatible";
    if ((gt && nx) || (lt && nx) || (gt && lt)) return "ERR GT, LT, and/or NX options at the same time are not compatible";
    if (flags & ADD_INCR && members > 1) return "ERR INCR option supports a single increment-element pair";
    return NULL;
}

/* The flags of ZADD, and where its scores begin. False: an error was replied. */
static inline bool read_flags(const struct hop *h, unsigned *flags, uint32_t *first, struct reply *r) {
    *first = 2;
    for (unsigned flag; *first < h->argc && (flag = add_flag(&h->argv[*first])); ++*first) *flags |= flag;
    uint32_t rest = h->argc - *first;
    const char *conflict = add_conflict(*flags, rest / 2);
    if (!rest || rest % 2) reply_syntax_error(r);
    else if (conflict) reply_error(r, conflict);
    else return true;
    return false;
}

static bool begin_adding(struct shard *s, struct hop *h, struct many *m, struct reply *r) {
    (void)s;
    return read_flags(h, &m->flags, &m->first, r);
}

static bool begin_adding_places(struct shard *s, struct hop *h, struct many *m, struct reply *r) {
    (void)s;
    for (unsigned flag; m->first < h->argc && (flag = add_flag(&h->argv[m->first]) & (ADD_NX | ADD_XX | ADD_CH)); m->first++)
        m->flags |= flag;
    if (m->first < h->argc) return true;
    reply_syntax_error(r);
    return false;
}

static const struct many_way adding = {128, 2, 2, begin_adding, check_many, add_many, many_reply_n};
const struct many_way zset_adding_places = {128 * 3, 2, 3, begin_adding_places, check_many, add_many, many_reply_n};

static inline void add_now(struct shard *s, struct hop *h, unsigned flags, uint32_t first, struct reply *r) {
    struct adding a = {.flags = flags};
    if (!add_all(s, h, first, &a, r)) return;
    else if (!(a.flags & ADD_INCR)) reply_int(r, a.flags & ADD_CH ? a.added + a.updated : a.added);
    else if (a.did) reply_double(r, a.score);
    else reply_null(r);
}

enum hop_result zadd(struct shard *s, struct hop *h, struct reply *r) {
    unsigned flags = 0;
    uint32_t first;
    if (!read_flags(h, &flags, &first, r)) return HOP_DONE;
    if (UNLIKELY(h->argc > MANY_FEW) && !(flags & ADD_INCR) && many_is_long(h, &adding)) return many_run(s, h, &adding, r);
    add_now(s, h, flags, first, r);
    return HOP_DONE;
}

void zadd_in_one_go(struct shard *s, struct hop *h, struct reply *r) {
    unsigned flags = 0;
    uint32_t first;
    if (read_flags(h, &flags, &first, r)) add_now(s, h, flags, first, r);
}

enum hop_result zincrby(struct shard *s, struct hop *h, struct reply *r) {
    struct adding a = {.flags = ADD_INCR};
    if (add_flag(&h->argv[2])) reply_syntax_error(r); /* Redis reads ZADD's options here, too */
    else if (add_all(s, h, 2, &a, r)) reply_double(r, a.score);
    return HOP_DONE;
}

/* ---- members one by one ---- */

/* Takes the arguments [at, to) out. How many were there. */
static inline int64_t remove_members(struct zset *x, const struct hop *h, uint32_t at, uint32_t to) {
    struct field_name names[ZSET_GROUP];
    struct zset_item m;
    int64_t removed = 0;
    for (uint32_t n; at < to && !zset_is_empty(x); at += n) {
        n = name_group(x, h, at, to, 1, names);
        for (uint32_t i = 0; i < n && !zset_is_empty(x); i++) {
            if (!zset_find(x, &names[i], &m)) continue;
            zset_remove(x, &names[i], &m);
            removed++;
        }
    }
    return removed;
}

static bool begin_removing(struct shard *s, struct hop *h, struct many *m, struct reply *r) {
    struct key k;
    (void)m;
    key_write(s, h, &k);
    return is_zset(&k, r);
}

static bool remove_many(struct shard *s, struct hop *h, struct many *m, uint32_t to, struct reply *r) {
    struct key k;
    struct zset x;
    zset_open_write(s, h, &k, &x, r);
    if (k.entry) key_before_change(s, &k, KEY_ZREM);
    m->n += remove_members(&x, h, m->at, to);
    m->flag = m->n;
    m->at = zset_is_empty(&x) ? h->argc : to;
    store_many(s, &k, &x, m, many_is_last(h, m), KEY_ZREM);
    return true;
}

static const struct many_way removing = {128, 2, 1, begin_removing, NULL, remove_many, many_reply_n};

enum hop_result zrem(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    struct zset x;
    if (UNLIKELY(h->argc > MANY_FEW) && many_is_long(h, &removing)) return many_run(s, h, &removing, r);
    if (!zset_open_write(s, h, &k, &x, r)) return HOP_DONE;
    if (k.entry) key_before_change(s, &k, KEY_ZREM);
    int64_t removed = remove_members(&x, h, 2, h->argc);
    if (removed) zset_store(s, &k, &x, KEY_ZREM);
    reply_int(r, removed);
    return HOP_DONE;
}

enum hop_result zcard(struct shard *s, struct hop *h, struct reply *r) {
    struct zset x;
    if (zset_open_read(s, h, &x, r)) reply_int(r, (int64_t)zset_count(&x));
    return HOP_DONE;
}

enum hop_result zscore(struct shard *s, struct hop *h, struct reply *r) {
    struct zset x;
    struct zset_item m;
    if (!zset_open_read(s, h, &x, r)) return HOP_DONE;
    struct field_name name = name_of(&x, &h->argv[2]);
    if (zset_find(&x, &name, &m)) reply_double(r, m.score);
    else reply_null(r);
    return HOP_DONE;
}

static inline void reply_scores(const struct zset *x, const struct hop *h, uint32_t at, uint32_t to, struct reply *r) {
    struct field_name names[ZSET_GROUP];
    struct zset_item m;
    for (uint32_t n; at < to; at += n) {
        n = name_group(x, h, at, to, 1, names);
        for (uint32_t i = 0; i < n; i++) {
            if (zset_find(x, &names[i], &m)) reply_double(r, m.score);
            else reply_null(r);
        }
    }
}

bool zset_begin_asking(struct shard *s, struct hop *h, struct many *m, struct reply *r) {
    struct zset x;
    (void)m;
    if (!zset_open_read(s, h, &x, r)) return false;
    reply_array(r, h->argc - 2);
    return true;
}

static bool reply_many(struct shard *s, struct hop *h, struct many *m, uint32_t to, struct reply *r) {
    struct key k;
    many_look(s, h, &k);
    struct zset x = zset_open(s, &k);
    reply_scores(&x, h, m->at, to, r);
    m->at = to;
    return true;
}

static const struct many_way asking = {256, 2, 1, zset_begin_asking, NULL, reply_many, NULL};

enum hop_result zmscore(struct shard *s, struct hop *h, struct reply *r) {
    struct zset x;
    if (UNLIKELY(h->argc > MANY_FEW) && many_is_long(h, &asking)) return many_run(s, h, &asking, r);
    if (!zset_open_read(s, h, &x, r)) return HOP_DONE;
    reply_array(r, h->argc - 2);
    reply_scores(&x, h, 2, h->argc, r);
    return HOP_DONE;
}

static enum hop_result rank(struct shard *s, struct hop *h, bool from_highest, struct reply *r) {
    struct zset x;
    struct zset_item m;
    if (!zset_open_read(s, h, &x, r)) return HOP_DONE;
    struct field_name name = name_of(&x, &h->argv[2]);
    if (!zset_find(&x, &name, &m)) {
        reply_null(r);
        return HOP_DONE;
    }
    uint64_t below = zset_rank(&x, &name, &m);
    reply_int(r, (int64_t)(from_highest ? zset_count(&x) - 1 - below : below));
    return HOP_DONE;
}

enum hop_result zrank(struct shard *s, struct hop *h, struct reply *r) { return rank(s, h, false, r); }
enum hop_result zrevrank(struct shard *s, struct hop *h, struct reply *r) { return rank(s, h, true, r); }

/* ---- popping ---- */

static void reply_pop_size(const struct key *k, uint64_t n, enum pop_shape shape, struct reply *r) {
    if (shape == POP_NAMED_PAIRS) reply_array(r, 2);
    if (shape == POP_NAMED_FLAT) reply_array(r, 2 * n + 1);
    if (shape & POP_NAMED_FLAT) reply_bulk(r, k->name, k->size);
    if (shape != POP_NAMED_FLAT) reply_array(r, shape & POP_PAIRS ? n : 2 * n);
}

/* Replies n members that are there, from the first that would be popped on but for so many. */
static void reply_popped(const struct zset *x, bool highest, uint64_t but, uint64_t n, enum pop_shape shape, struct reply *r) {
    struct zset_walk w;
    struct zset_item m;
    zset_begin(x, &w, highest ? zset_count(x) - 1 - but : but, n, highest);
    while (zset_next(x, &w, &m)) {
        if (shape & POP_PAIRS) reply_array(r, 2);
        reply_member(r, &m);
        reply_double(r, m.score);
    }
}

/* Takes n members away, which are there. */
static void remove_popped(struct shard *s, struct key *k, struct zset *x, bool highest, uint64_t n) {
    key_before_change(s, k, KEY_ZPOP);
    zset_remove_range(x, highest ? zset_count(x) - n : 0, n);
    zset_store(s, k, x, KEY_ZPOP);
}

void zset_pop(struct shard *s, struct key *k, bool highest, uint64_t count, enum pop_shape shape, struct reply *r) {
    struct zset x = zset_open(s, k);
    if (count > zset_count(&x)) count = zset_count(&x);
    reply_pop_size(k, count, shape, r);
    reply_popped(&x, highest, 0, count, shape, r);
    remove_popped(s, k, &x, highest, count);
}

/* All is replied: it goes. A whole set at once, as its memory comes back in slices. */
static enum hop_result remove_in_slices(struct shard *s, struct hop *h, struct key *k, struct zset *x, bool highest, uint64_t left) {
    if (left == zset_count(x)) {
        key_before_change(s, k, KEY_ZPOP);
        zset_drop(s, x);
        zset_store(s, k, x, KEY_ZPOP);
        return HOP_DONE;
    }
    uint64_t now = left < ZSET_REMOVE_SLICE ? left : ZSET_REMOVE_SLICE;
    remove_popped(s, k, x, highest, now);
    h->state += now;
    return now == left ? HOP_DONE : HOP_AGAIN;
}

/* Pops up to count members, many in slices. The hop's state is then how many were replied + HOP_IN_SLICES; and once all are, with HOP_REMOVES, how many went. */
static enum hop_result pop_on(
    struct shard *s, struct hop *h, struct key *k, struct zset *x, bool highest, uint64_t count, enum pop_shape shape, struct reply *r) {
    bool removes = h->state & HOP_REMOVES;
    uint64_t done = h->state ? (h->state & ~HOP_REMOVES) - HOP_IN_SLICES : 0, all = zset_count(x) + (removes ? done : 0),
             n = count < all ? count : all;
    if (!h->state && n > ZSET_REMOVE_SLICE) return HOP_AGAIN;
    if (removes) return remove_in_slices(s, h, k, x, highest, n - done);
    if (!n) {
        reply_array(r, 0);
        return HOP_DONE;
    }
    if (!done) reply_pop_size(k, n, shape, r);
    uint64_t now = n - done < ZSET_REPLY_SLICE ? n - done : ZSET_REPLY_SLICE;
    reply_popped(x, highest, done, now, shape, r);
    if (!h->state) {
        remove_popped(s, k, x, highest, n);
        return HOP_DONE;
    }
    h->state = done + now < n ? HOP_IN_SLICES + done + now : HOP_REMOVES | HOP_IN_SLICES;
    return HOP_AGAIN;
}

enum hop_result zset_pop_on(
    struct shard *s, struct hop *h, struct key *k, bool highest, uint64_t count, enum pop_shape shape, struct reply *r) {
    struct zset x = zset_open(s, k);
    return pop_on(s, h, k, &x, highest, count, shape, r);
}

static enum hop_result pop(struct shard *s, struct hop *h, bool highest, struct reply *r) {
    struct key k;
    struct zset x;
    int64_t count = 1;
    enum pop_shape shape = r->resp >= 3 && h->argc > 2 ? POP_PAIRS : POP_FLAT;
    if (h->argc > 3) {
        reply_syntax_error(r);
        return HOP_DONE;
    }
    if (h->argc > 2 && (!parse_int64(h->argv[2].p, h->argv[2].size, &count) || count < 0)) {
        reply_error(r, "ERR value is out of range, must be positive");
        return HOP_DONE;
    }
    if (!zset_open_write(s, h, &k, &x, r)) return HOP_DONE;
    return pop_on(s, h, &k, &x, highest, (uint64_t)count, shape, r);
}

enum hop_result zpopmin(struct shard *s, struct hop *h, struct reply *r) { return pop(s, h, false, r); }
enum hop_result zpopmax(struct shard *s, struct hop *h, struct reply *r) { return pop(s, h, true, r); }

bool zset_read_pops(const struct arg *argv, uint32_t argc, uint32_t at, struct zset_pops *out, struct reply *r) {
    int64_t n, most = 1;
    if (!parse_int64(argv[at].p, argv[at].size, &n) || n < 1) {
        reply_error(r, "ERR numkeys should be greater than 0");
        return false;
    }
    uint64_t where = (uint64_t)n + at + 1;
    bool told = where < argc && (arg_is(&argv[where], "min") || arg_is(&argv[where], "max"));
    uint64_t rest = told ? argc - where - 1 : 0;
    if (!told || (rest && (!arg_is(&argv[where + 1], "count") || rest < 2))) {
        reply_syntax_error(r);
        return false;
    }
    if (rest && (!parse_int64(argv[where + 2].p, argv[where + 2].size, &most) || most < 1)) {
        reply_error(r, "ERR count should be greater than 0");
        return false;
    }
    if (rest > 2) {
        reply_syntax_error(r);
        return false;
    }
    *out = (struct zset_pops){.n_keys = (uint32_t)n, .highest = arg_is(&argv[where], "max"), .count = (uint64_t)most};
    return true;
}

void zmpop(const struct spread *x, struct hop *h, struct reply *r) {
    struct zset_pops asked;
    if (!zset_read_pops(h->argv, h->argc, 1, &asked, r)) return;
    for (uint32_t i = 0; i < h->n_keys; i++) {
        struct shard *s;
        struct key k;
        if (!spread_write(x, h, i, &s, &k)) continue;
        if (is_zset(&k, r)) zset_pop(s, &k, asked.highest, asked.count, POP_NAMED_PAIRS, r);
        return;
    }
    reply_null_array(r);
}

/* Where one shard has all keys. The first that is there stays so until all is popped. */
enum hop_result zmpop_on_one(struct shard *s, struct hop *h, struct reply *r) {
    struct zset_pops asked;
    struct key k;
    if (!zset_read_pops(h->argv, h->argc, 1, &asked, r)) return HOP_DONE;
    for (uint32_t i = 0; i < h->n_keys; i++) {
        if (!key_write_nth(s, h, i, &k)) continue;
        return is_zset(&k, r) ? zset_pop_on(s, h, &k, asked.highest, asked.count, POP_NAMED_PAIRS, r) : HOP_DONE;
    }
    reply_null_array(r);
    return HOP_DONE;
}

/* Over several shards: each tells the first of its keys that has something, or is none of a sorted set; then the first of those is popped from. */
struct popping {
    struct zset_pops asked;
    uint64_t state; /* of the pop, as a plain hop's */
    uint32_t n, chosen;
    uint32_t first[]; /* by shard: a key, or NONE */
};
#define NONE UINT32_MAX

static void popping_drop(struct thread *t, void *own) {
    (void)t;
    mi_free(own);
}

static enum hop_result look_for_members(struct shard *s, struct hop *h, struct reply *r) {
    struct carrier *x = steps_carrier(h);
    struct popping *p = x->own;
    struct key k;
    (void)r;
    for (uint32_t i = 0; i < h->n_keys && p->first[s->id] == NONE; i++)
        if (x->shards[i] == s->id && key_write_nth(s, h, i, &k)) p->first[s->id] = i;
    return HOP_DONE;
}

static enum hop_result pop_chosen(struct shard *s, struct hop *h, struct reply *r) {
    struct popping *p = steps_carrier(h)->own;
    struct hop own = *h;
    struct key k;
    key_write_nth(s, h, p->chosen, &k);
    if (!is_zset(&k, r)) return HOP_DONE;
    own.state = p->state;
    enum hop_result result = zset_pop_on(s, &own, &k, p->asked.highest, p->asked.count, POP_NAMED_PAIRS, r);
    p->state = hop_state_next(&own);
    return result;
}

static bool start_popping(struct thread *t, struct task *k, struct reply *r) {
    struct popping *p = mi_calloc(1, sizeof *p + t->n_threads * sizeof p->first[0]);
    k->carrier->own = p;
    k->carrier->drop_own = popping_drop;
    if (!p || !steps_find_shards(t, k)) {
        reply_no_memory(r);
        return false;
    }
    p->n = t->n_threads;
    p->chosen = NONE;
    for (uint32_t i = 0; i < p->n; i++) p->first[i] = NONE;
    if (!zset_read_pops(k->argv, k->argc, 1, &p->asked, r)) return false;
    steps_wave_on_some(t, k, 0, k->n_keys, look_for_members);
    return true;
}

bool zmpop_steps(struct thread *t, struct task *k, struct reply *r) {
    struct popping *p = k->carrier->own;
    if (k->step == 0) return start_popping(t, k, r);
    if (p->chosen != NONE) {
        steps_take_reply(t, k, r);
        return false;
    }
    for (uint32_t i = 0; i < p->n; i++)
        if (p->first[i] < p->chosen) p->chosen = p->first[i];
    if (p->chosen == NONE) {
        reply_null_array(r);
        return false;
    }
    steps_wave_on(t, k, p->chosen, pop_chosen);
    return true;
}

/* ---- the scan ---- */

/* Buckets that a call walks for each member asked for, if they are empty; and what it may do, in members met and buckets walked, whatever COUNT says. */
#define BUCKETS_PER_MEMBER 10u
#define SCAN_COST_MAX 2000u

/* In a small one Redis keeps whole numbers up to here as integers, and ZSCAN tells them so. */
#define WHOLE_MAX 0x1p62

struct scanning {
    const struct scan_options *o;
    bool small;
    struct reply found;
    uint64_t n, met;
};

static void visit(void *arg, const struct zset_item *m) {
    struct scanning *w = arg;
    char scratch[INT64_TEXT_SIZE];
    uint32_t size;
    const char *text = zset_text(m, scratch, &size);
    w->met++;
    if (!scan_matches(w->o, text, size)) return;
    reply_stored(&w->found, text, size);
    if (w->small && fabs(m->score) <= WHOLE_MAX && (double)(int64_t)m->score == m->score) reply_bulk_int(&w->found, (int64_t)m->score);
    else reply_double(&w->found, m->score); /* a bulk: this is RESP2 */
    w->n += 2;
}

static void scan(const struct zset *x, uint64_t cursor, const struct scan_options *o, struct reply *r) {
    struct scanning w = {.o = o, .small = !zset_is_shown_large(x), .found = {.resp = 2}};
    uint64_t count = (uint64_t)o->count, buckets = 0;
    do {
        cursor = zset_scan(x, cursor, visit, &w);
        buckets++;
    } while (cursor && w.met < count && w.met + buckets < SCAN_COST_MAX && buckets / BUCKETS_PER_MEMBER < count);
    reply_array(r, 2);
    char text[24];
    int size = snprintf(text, sizeof text, "%llu", (unsigned long long)cursor);
    reply_bulk(r, text, (size_t)size);
    reply_array(r, w.n);
    reply_join(x->memory, r, &w.found);
}

enum hop_result zscan(struct shard *s, struct hop *h, struct reply *r) {
    struct zset x;
    struct scan_options o;
    uint64_t cursor;
    if (!scan_cursor(&h->argv[2], &cursor, r) || !zset_open_read(s, h, &x, r)) return HOP_DONE;
    if (zset_is_empty(&x)) reply_empty_scan(r);
    else if (scan_options(h, &o, r)) scan(&x, cursor, &o, r);
    return HOP_DONE;
}
