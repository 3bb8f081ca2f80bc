/* Ranges of sorted sets, by rank, by score, by member: counted, replied, stored, removed. In this file: limits; which members; counting; replying; removing; storing.
 *
 * Every range is one of ranks [from, to), once its limits were looked for. Long ones are replied and removed in slices: the hop's state is then how many are done +
 * HOP_IN_SLICES, and the arguments are read again each time. What is stored grows in a struct storing, beside the keys.
 */
#include <math.h>
#include <mimalloc.h>
#include <stdlib.h>
#include <string.h>

#include "server/config.h"
#include "server/steps.h"
#include "server/strings.h"
#include "server/task_internal.h"
#include "server/zset_parcel.h"
#include "server/zsets.h"

enum by { BY_RANK, BY_SCORE, BY_LEX };

/* Two limits, as the arguments say them. */
struct limits {
    int64_t first, last; /* BY_RANK: negative ones count from the end */
    struct zset_bound min, max;
};

/* ---- limits ---- */

/* A score with "(" before it if it is excluded. Redis reads it as strtod does, up to a NUL. */
static bool score_limit(const struct arg *a, bool *excluded, double *out) {
    char few[64], *text = a->size < sizeof few ? few : mi_malloc(a->size + 1u), *end;
    if (!text) return false;
    memcpy(text, a->p, a->size);
    text[a->size] = 0;
    *excluded = *text == '(';
    *out = strtod(text + *excluded, &end);
    bool good = !*end && !isnan(*out);
    if (text != few) mi_free(text);
    return good;
}

static bool score_limits(const struct arg *min, const struct arg *max, struct limits *o, struct reply *r) {
    bool min_excluded, max_excluded;
    o->min = (struct zset_bound){.by = ZSET_BY_SCORE};
    o->max = (struct zset_bound){.by = ZSET_BY_SCORE};
    if (!score_limit(min, &min_excluded, &o->min.score) || !score_limit(max, &max_excluded, &o->max.score)) {
        reply_error(r, "ERR min or max is not a float");
        return false;
    }
    o->min.after = min_excluded;
    o->max.after = !max_excluded;
    return true;
}

static bool lex_limit(const struct arg *a, bool is_max, struct zset_bound *out) {
    char kind = a->size ? *a->p : 0;
    if ((kind == '-' || kind == '+') && (a->size == 1 || !a->p[1])) {
        *out = (struct zset_bound){.by = kind == '-' ? ZSET_FIRST : ZSET_LAST};
        return true;
    }
    if (kind != '(' && kind != '[') return false;
    *out = (struct zset_bound){.by = ZSET_BY_MEMBER, .after = (kind == '[') == is_max, .text = a->p + 1, .size = a->size - 1};
    return true;
}

static bool lex_limits(const struct arg *min, const struct arg *max, struct limits *o, struct reply *r) {
    if (lex_limit(min, false, &o->min) && lex_limit(max, true, &o->max)) return true;
    reply_error(r, "ERR min or max not valid string range item");
    return false;
}

static bool read_limits(enum by by, const struct arg *min, const struct arg *max, struct limits *o, struct reply *r) {
    switch (by) {
    case BY_RANK: return arg_int64(min, &o->first, r) && arg_int64(max, &o->last, r);
    case BY_SCORE: return score_limits(min, max, o, r);
    case BY_LEX: return lex_limits(min, max, o, r);
    }
    return false;
}

/* ---- which members ---- */

/* Ranks [from, to); empty: both 0. */
struct ranks {
    uint64_t from, to;
};

/* down: ranks are counted from the highest. */
static struct ranks by_rank(int64_t first, int64_t last, int64_t count, bool down) {
    if (first < 0) first += count;
    if (last < 0) last += count;
    if (first < 0) first = 0;
    if (last >= count) last = count - 1;
    if (first > last || first >= count) return (struct ranks){0};
    if (down) return (struct ranks){(uint64_t)(count - 1 - last), (uint64_t)(count - first)};
    return (struct ranks){(uint64_t)first, (uint64_t)last + 1};
}

static struct ranks ranks_of(const struct zset *x, enum by by, const struct limits *o, bool down) {
    if (by == BY_RANK) return by_rank(o->first, o->last, (int64_t)zset_count(x), down);
    struct ranks k = {zset_before(x, &o->min), zset_before(x, &o->max)};
    return k.from < k.to ? k : (struct ranks){0};
}

/* What LIMIT leaves: a negative count is no limit, behind a negative offset is nothing. */
static struct ranks limited(struct ranks k, int64_t offset, int64_t count, bool down) {
    uint64_t n = k.to - k.from;
    if (offset < 0 || (uint64_t)offset >= n) return (struct ranks){0};
    n -= (uint64_t)offset;
    if (count >= 0 && (uint64_t)count < n) n = (uint64_t)count;
    if (down) return (struct ranks){k.to - (uint64_t)offset - n, k.to - (uint64_t)offset};
    return (struct ranks){k.from + (uint64_t)offset, k.from + (uint64_t)offset + n};
}

/* ---- counting ---- */

static enum hop_result count(struct shard *s, struct hop *h, enum by by, struct reply *r) {
    struct limits o;
    struct zset x;
    if (!read_limits(by, &h->argv[2], &h->argv[3], &o, r) || !zset_open_read(s, h, &x, r)) return HOP_DONE;
    struct ranks k = ranks_of(&x, by, &o, false);
    reply_int(r, (int64_t)(k.to - k.from));
    return HOP_DONE;
}

enum hop_result zcount(struct shard *s, struct hop *h, struct reply *r) { return count(s, h, BY_SCORE, r); }
enum hop_result zlexcount(struct shard *s, struct hop *h, struct reply *r) { return count(s, h, BY_LEX, r); }

/* ---- replying ---- */

/* A command of the ZRANGE kind. any: its options say by what and from where. */
struct request {
    enum by by;
    bool down, any, stores;
    bool scores;
    int64_t offset, count;
    struct limits limits;
};

/* The options from argv[at] on. False: an error was replied. */
static bool read_options(struct request *q, const struct arg *argv, uint32_t argc, uint32_t at, struct reply *r) {
    q->count = -1;
    for (; at < argc; at++) {
        const struct arg *a = &argv[at];
        if (!q->stores && arg_is(a, "withscores")) q->scores = true;
        else if (arg_is(a, "limit") && argc - at > 2) {
            if (!arg_int64(a + 1, &q->offset, r) || !arg_int64(a + 2, &q->count, r)) return false;
            at += 2;
        } else if (q->any && !q->down && arg_is(a, "rev")) q->down = true;
        else if (q->any && q->by == BY_RANK && arg_is(a, "bylex")) q->by = BY_LEX;
        else if (q->any && q->by == BY_RANK && arg_is(a, "byscore")) q->by = BY_SCORE;
        else {
            reply_syntax_error(r);
            return false;
        }
    }
    if (q->count != -1 && q->by == BY_RANK)
        reply_error(r, "ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX");
    else if (q->scores && q->by == BY_LEX) reply_error(r, "ERR syntax error, WITHSCORES not supported in combination with BYLEX");
    else return true;
    return false;
}

/* Options and limits; min: the argument with the first of these. */
static bool read_request(struct request *q, const struct arg *argv, uint32_t argc, uint32_t min, struct reply *r) {
    if (!read_options(q, argv, argc, min + 2, r)) return false;
    bool swap = q->down && q->by != BY_RANK; /* the maximum comes first */
    return read_limits(q->by, &argv[min + swap], &argv[min + 1 - swap], &q->limits, r);
}

static struct ranks ranks_asked(const struct request *q, const struct zset *x) {
    struct ranks k = ranks_of(x, q->by, &q->limits, q->down);
    return q->by == BY_RANK ? k : limited(k, q->offset, q->count, q->down);
}

static enum hop_result range(struct shard *s, struct hop *h, struct request q, struct reply *r) {
    struct zset x;
    struct zset_walk w;
    struct zset_item m;
    if (!read_request(&q, h->argv, h->argc, 2, r) || !zset_open_slice(s, h, &x, r)) return HOP_DONE;
    struct ranks k = ranks_asked(&q, &x);
    uint64_t n = k.to - k.from, done = h->state ? h->state - HOP_IN_SLICES : 0;
    size_t began = r->size, full = began + REPLY_GO_BYTES;
    if (!h->state && n > ZSET_REPLY_SLICE) return HOP_AGAIN;
    if (!done) reply_members_size(r, n, q.scores);
    if (!n) return HOP_DONE;
    uint64_t now = n - done < ZSET_REPLY_SLICE ? n - done : ZSET_REPLY_SLICE;
    zset_begin(&x, &w, q.down ? k.to - 1 - done : k.from + done, now, q.down);
    for (; r->size <= full && zset_next(&x, &w, &m); done++) reply_scored(r, &m, q.scores);
    if (done == n) return HOP_DONE;
    if (h->state) h->state = HOP_IN_SLICES + done;
    else reply_cut(s, r, began);
    return HOP_AGAIN;
}

enum hop_result zrange(struct shard *s, struct hop *h, struct reply *r) { return range(s, h, (struct request){.any = true}, r); }
enum hop_result zrevrange(struct shard *s, struct hop *h, struct reply *r) { return range(s, h, (struct request){.down = true}, r); }
enum hop_result zrangebyscore(struct shard *s, struct hop *h, struct reply *r) { return range(s, h, (struct request){.by = BY_SCORE}, r); }
enum hop_result zrevrangebyscore(struct shard *s, struct hop *h, struct reply *r) {
    return range(s, h, (struct request){.by = BY_SCORE, .down = true}, r);
}
enum hop_result zrangebylex(struct shard *s, struct hop *h, struct reply *r) { return range(s, h, (struct request){.by = BY_LEX}, r); }
enum hop_result zrevrangebylex(struct shard *s, struct hop *h, struct reply *r) {
    return range(s, h, (struct request){.by = BY_LEX, .down = true}, r);
}

/* ---- removing ---- */

/* All of it goes at once, whatever its size: its memory comes back in slices. */
static void remove_all(struct shard *s, struct key *k, struct zset *x) {
    zset_drop(s, x);
    zset_store(s, k, x, KEY_ZREM);
}

static enum hop_result remove_range(struct shard *s, struct hop *h, enum by by, struct reply *r) {
    struct limits o;
    struct key key;
    struct zset x;
    uint64_t gone = h->state ? h->state - HOP_IN_SLICES : 0;
    if (!read_limits(by, &h->argv[2], &h->argv[3], &o, r) || !zset_open_write(s, h, &key, &x, r)) return HOP_DONE;
    struct ranks k =
        h->state && by == BY_RANK ? by_rank(o.first, o.last, (int64_t)(zset_count(&x) + gone), false) : ranks_of(&x, by, &o, false);
    uint64_t n = k.to - k.from - (by == BY_RANK ? gone : 0), all = zset_count(&x), now = n < ZSET_REMOVE_SLICE ? n : ZSET_REMOVE_SLICE;
    if (!h->state && n > ZSET_REMOVE_SLICE && n < all) return HOP_AGAIN;
    if (n) key_before_change(s, &key, KEY_ZREM);
    if (n && n == all) {
        remove_all(s, &key, &x);
        now = n;
    } else if (n) {
        zset_remove_range(&x, k.from, now);
        zset_store(s, &key, &x, KEY_ZREM);
    }
    if (now == n) {
        reply_int(r, (int64_t)(gone + n));
        return HOP_DONE;
    }
    h->state = HOP_IN_SLICES + gone + now;
    return HOP_AGAIN;
}

enum hop_result zremrangebyrank(struct shard *s, struct hop *h, struct reply *r) { return remove_range(s, h, BY_RANK, r); }
enum hop_result zremrangebyscore(struct shard *s, struct hop *h, struct reply *r) { return remove_range(s, h, BY_SCORE, r); }
enum hop_result zremrangebylex(struct shard *s, struct hop *h, struct reply *r) { return remove_range(s, h, BY_LEX, r); }

/* ---- storing ---- */

/* Of a range by rank Redis knows beforehand how many members it has. */
static bool is_large(const struct request *q, uint64_t n) {
    return q->by == BY_RANK && n > (uint64_t)config_current()->zset_max_listpack_entries;
}

/* Members that are copied in one slice: some 100 us. */
#define STORE_SLICE 256u

/* ZRANGESTORE under way. Its limits point into the arguments. */
struct storing {
    struct request q;
    struct ranks ranks;
    uint64_t done; /* members taken */
    struct zset result;
    struct zset_building building; /* of the result, on its shard; x NULL: it is not begun, or has its place */
    /* Over two shards: what travels, and how far it is unpacked. */
    struct parcel parcel;
    struct parcel_at at;
    bool stored; /* the last wave was sent */
};

/* Reads what is asked. False: an error was replied. */
static bool storing_read(struct storing *x, const struct arg *argv, uint32_t argc, struct reply *r) {
    *x = (struct storing){.q = {.any = true, .stores = true}};
    return read_request(&x->q, argv, argc, 3, r);
}

static void storing_build(struct storing *x, struct shard *home) {
    x->result = zset_new(home);
    x->building = (struct zset_building){.shard = home, .x = &x->result, .large = is_large(&x->q, x->ranks.to - x->ranks.from)};
}

static void storing_drop(struct storing *x) {
    if (x->building.x) zset_drop(x->building.shard, &x->result);
    parcel_drop(&x->parcel);
    mi_free(x);
}

/* The source, which is read for the first time, or again. False: an error was replied. */
static bool open_source(struct shard *s, const struct hop *h, bool again, struct zset *x, struct reply *r) {
    const struct arg *name = hop_key(h, 1);
    struct key k;
    if (again) key_look_again(s, s->dbs[h->db], hop_hash(h, 1), name->p, name->size, &k);
    else key_read_nth(s, h, 1, &k);
    if (!is_zset(&k, r)) return false;
    *x = zset_open(s, &k);
    return true;
}

static uint64_t left_of(const struct storing *x) { return x->ranks.to - x->ranks.from - x->done; }

/* Begins a walk through the next members of the source, in the order of the range. */
static void walk_on(struct storing *x, const struct zset *source, uint64_t most, struct zset_walk *w) {
    uint64_t n = left_of(x) < most ? left_of(x) : most;
    zset_begin(source, w, x->q.down ? x->ranks.to - 1 - x->done : x->ranks.from + x->done, n, x->q.down);
    x->done += n;
}

/* Copies so many at most. False: no memory. */
static bool copy_on(struct storing *x, const struct zset *source, uint64_t most) {
    struct zset_walk w;
    struct zset_item m;
    walk_on(x, source, most, &w);
    while (zset_next(source, &w, &m)) {
        char scratch[INT64_TEXT_SIZE];
        struct field_name name;
        zset_name_of(&x->result, &m, scratch, &name);
        if (!zset_build_in_turn(&x->building, &name, m.score)) return false;
    }
    return true;
}

void zrangestore(const struct spread *x, struct hop *h, struct reply *r) {
    struct storing storing;
    struct shard *to;
    struct key k;
    struct zset source;
    if (!storing_read(&storing, h->argv, h->argc, r) || !open_source(spread_shard(x, h, 1), h, false, &source, r)) return;
    storing.ranks = ranks_asked(&storing.q, &source);
    storing_build(&storing, spread_shard(x, h, 0));
    bool good = copy_on(&storing, &source, UINT64_MAX);
    spread_write(x, h, 0, &to, &k);
    zset_store_result(to, &k, &storing.result, good, r);
}

/* ---- where one shard has both keys: in slices, if it is many ---- */

static struct storing *storing_of(const struct hop *h) { return h->state > HOP_IN_SLICES ? (struct storing *)(uintptr_t)h->state : NULL; }

void zrangestore_drop(struct shard *s, struct hop *h, struct reply *r) {
    struct storing *x = storing_of(h);
    (void)s, (void)r;
    if (x) storing_drop(x);
    h->state = 0;
}

static void store_result(struct shard *s, const struct hop *h, struct storing *x, bool good, struct reply *r) {
    struct key k;
    key_write_nth(s, h, 0, &k);
    zset_store_result(s, &k, &x->result, good, r);
    x->building.x = NULL;
}

enum hop_result zrangestore_on_one(struct shard *s, struct hop *h, struct reply *r) {
    struct storing few, *x = storing_of(h);
    struct zset source;
    if (!x && !storing_read(&few, h->argv, h->argc, r)) return HOP_DONE;
    if (!open_source(s, h, h->state, &source, r)) return HOP_DONE;
    if (!x) {
        few.ranks = ranks_asked(&few.q, &source);
        bool many = left_of(&few) > STORE_SLICE;
        if (many && !h->state) return HOP_AGAIN;
        x = many ? mi_malloc(sizeof *x) : &few;
        if (!x) {
            reply_no_memory(r);
            return HOP_DONE;
        }
        *x = few;
        storing_build(x, s);
        if (many) h->state = (uint64_t)(uintptr_t)x;
    }
    bool good = copy_on(x, &source, STORE_SLICE);
    if (good && left_of(x)) return HOP_AGAIN;
    store_result(s, h, x, good, r);
    if (x != &few) zrangestore_drop(s, h, r);
    return HOP_DONE;
}

/* ---- over two shards: the source's gives the members, the other makes a sorted set of them ---- */

static void drop_own(struct thread *t, void *own) {
    (void)t;
    storing_drop(own);
}

/* Takes so many at most. Without memory that is replied. */
static void take_members(struct storing *x, const struct zset *source, uint64_t most, struct reply *r) {
    struct zset_walk w;
    struct zset_item m;
    walk_on(x, source, most, &w);
    while (zset_next(source, &w, &m)) {
        char scratch[INT64_TEXT_SIZE];
        uint32_t size;
        const char *text = zset_text(&m, scratch, &size);
        if (parcel_add(&x->parcel, text, size, m.score)) continue;
        reply_no_memory(r);
        return;
    }
}

/* Few are taken at once. */
static enum hop_result look_at_range(struct shard *s, struct hop *h, struct reply *r) {
    struct storing *x = steps_carrier(h)->own;
    struct zset source;
    if (!open_source(s, h, false, &source, r)) return HOP_DONE;
    x->ranks = ranks_asked(&x->q, &source);
    if (left_of(x) <= STORE_SLICE) take_members(x, &source, STORE_SLICE, r);
    return HOP_DONE;
}

static enum hop_result take_range(struct shard *s, struct hop *h, struct reply *r) {
    struct storing *x = steps_carrier(h)->own;
    struct zset source;
    open_source(s, h, true, &source, r);
    take_members(x, &source, STORE_SLICE, r);
    return left_of(x) && !r->size ? HOP_AGAIN : HOP_DONE;
}

static enum hop_result put_range(struct shard *s, struct hop *h, struct reply *r) {
    struct storing *x = steps_carrier(h)->own;
    uint64_t most = STORE_SLICE;
    if (!x->building.x) storing_build(x, s);
    bool all = zset_unpack(&x->building, &x->parcel, &x->at, true, &most);
    if (!all && !most) return HOP_AGAIN;
    store_result(s, h, x, all, r);
    return HOP_DONE;
}

bool zrangestore_steps(struct thread *t, struct task *k, struct reply *r) {
    struct storing *x = k->carrier->own;
    if (!x) {
        x = k->carrier->own = mi_malloc(sizeof *x);
        k->carrier->drop_own = drop_own;
        if (!x) reply_no_memory(r);
        if (!x || !storing_read(x, k->argv, k->argc, r)) return false;
        steps_wave_on(t, k, 1, look_at_range);
        return true;
    }
    if (x->stored) {
        steps_take_reply(t, k, r);
        return false;
    }
    if (steps_take_error(t, k, r)) return false;
    bool takes = left_of(x), many = x->ranks.to - x->ranks.from > STORE_SLICE;
    uint32_t shard = steps_shard_of(t, k, takes ? 1 : 0);
    steps_new_wave(t, k);
    if (many) steps_hop_in_slices(t, k, shard, takes ? take_range : put_range);
    else steps_hop(t, k, shard, put_range);
    x->stored = !takes;
    return true;
}
