/* The set commands. In this file: members one by one; whole sets; random members; SMOVE; the rows. Several sets: set_algebra.c. */
#include "server/sets.h"

#include <errno.h>
#include <mimalloc.h>

#include "server/config.h"
#include "server/field_scan.h"
#include "server/steps.h"
#include "server/strings.h"
#include "server/task_internal.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)

/* Bytes of a reply with members drawn more than once: what asks for more is closed. */
#define DRAWN_MAX ((size_t)1 << 30)
/* Draws of a slice, and bytes of their reply: about 100 us. */
#define SLICE_DRAWS 1024u
#define SLICE_BYTES (256u << 10)
/* What is drawn of a set of this many times the count is drawn one by one; of a smaller one, while walking through it. */
#define DRAW_RATIO 3u
/* SPOP that leaves less than a fifth of what it takes makes a new set of the rest, as Redis does. */
#define KEEP_RATIO 5u

int64_t set_ints_max(void) { return config_current()->set_max_intset_entries; }

bool is_set(const struct key *k, struct reply *r) {
    if (LIKELY(!k->entry || entry_type(k->entry) == TYPE_SET)) return true;
    reply_wrong_type(r);
    return false;
}

/* False: the key is of another type, and that is replied. A key that is not there is an empty set. */
static bool open_read(struct shard *s, const struct hop *h, struct set *x, struct reply *r) {
    struct key k;
    key_read(s, h, &k);
    if (!is_set(&k, r)) return false;
    *x = set_open(s, &k);
    return true;
}

static bool open_write(struct shard *s, const struct hop *h, struct key *k, struct set *x, struct reply *r) {
    key_write(s, h, k);
    if (!is_set(k, r)) return false;
    *x = set_open(s, k);
    return true;
}

static struct field_name name_of(const struct set *x, const struct arg *a) {
    struct field_name name;
    set_name(x, a->p, a->size, &name);
    return name;
}

/* ---- members one by one ---- */

/* Names of up to SET_GROUP arguments from argv[at] on; how many. */
static uint32_t name_group(const struct set *x, const struct hop *h, uint32_t at, struct field_name names[SET_GROUP]) {
    uint32_t n = 0;
    for (; n < SET_GROUP && at + n < h->argc; n++) names[n] = name_of(x, &h->argv[at + n]);
    return n;
}

/* Whether the arguments may become members. First as if all were new; that decides unless the limit is near. */
static bool may_add(struct shard *s, const struct hop *h, const struct key *k, const struct set *x) {
    size_t bytes = 0;
    uint32_t n = 0;
    if (LIKELY(s->leased == BUDGET_NONE)) return true;
    for (uint32_t i = 2; i < h->argc; i++) {
        struct field_name name = name_of(x, &h->argv[i]);
        bytes += set_needs_member(&name);
    }
    if (key_may_take(s, k, bytes + set_needs(x, h->argc - 2))) return true;
    bytes = 0;
    for (uint32_t i = 2; i < h->argc; i++) {
        struct field_name name = name_of(x, &h->argv[i]);
        if (set_has(x, &name)) continue;
        bytes += set_needs_member(&name);
        n++;
    }
    return !n || key_may_take(s, k, bytes + set_needs(x, n));
}

static enum hop_result sadd(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    struct set x;
    struct field_name names[SET_GROUP];
    int64_t added = 0, most = set_ints_max();
    int one = 0;
    if (!open_write(s, h, &k, &x, r)) return HOP_DONE;
    if (!may_add(s, h, &k, &x)) {
        reply_refused(s, r);
        return HOP_DONE;
    }
    key_before_change(s, &k, KEY_SADD);
    for (uint32_t at = 2, n; at < h->argc && one >= 0; at += n) {
        n = name_group(&x, h, at, names);
        if (n > 2) set_prefetch(&x, names, n);
        for (uint32_t i = 0; i < n && one >= 0; i++) {
            one = set_add(&x, &names[i], most);
            added += one > 0;
        }
    }
    bool refused = one < 0;
    if (added || refused) refused |= set_store(s, &k, &x, KEY_SADD) != 0;
    if (refused) reply_refused(s, r);
    else reply_int(r, added);
    return HOP_DONE;
}

static enum hop_result srem(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    struct set x;
    struct field_name names[SET_GROUP];
    struct set_item m;
    int64_t removed = 0;
    if (!open_write(s, h, &k, &x, r)) return HOP_DONE;
    if (k.entry) key_before_change(s, &k, KEY_SREM);
    for (uint32_t at = 2, n; at < h->argc && !set_is_empty(&x); at += n) {
        n = name_group(&x, h, at, names);
        if (n > 2) set_prefetch(&x, names, n);
        for (uint32_t i = 0; i < n && !set_is_empty(&x); i++) {
            if (!set_find(&x, &names[i], &m)) continue;
            set_remove(&x, &m);
            removed++;
        }
    }
    if (removed) set_store(s, &k, &x, KEY_SREM);
    reply_int(r, removed);
    return HOP_DONE;
}

static enum hop_result sismember(struct shard *s, struct hop *h, struct reply *r) {
    struct set x;
    if (!open_read(s, h, &x, r)) return HOP_DONE;
    struct field_name name = name_of(&x, &h->argv[2]);
    reply_int(r, set_has(&x, &name));
    return HOP_DONE;
}

static enum hop_result smismember(struct shard *s, struct hop *h, struct reply *r) {
    struct set x;
    struct field_name names[SET_GROUP];
    if (!open_read(s, h, &x, r)) return HOP_DONE;
    reply_array(r, h->argc - 2);
    for (uint32_t at = 2, n; at < h->argc; at += n) {
        n = name_group(&x, h, at, names);
        uint32_t found = set_probe(&x, names, (1u << n) - 1);
        for (uint32_t i = 0; i < n; i++) reply_int(r, found >> i & 1);
    }
    return HOP_DONE;
}

/* ---- whole sets ---- */

void reply_item(struct reply *r, const struct set_item *m) {
    char scratch[INT64_TEXT_SIZE];
    uint32_t size;
    const char *text = set_text(m, scratch, &size);
    reply_bulk(r, text, size);
}

void reply_all_items(struct reply *r, const struct set *x) {
    struct set_walk w = {0};
    struct set_item m;
    reply_set(r, set_count(x));
    while (set_next(x, &w, &m)) reply_item(r, &m);
}

static enum hop_result scard(struct shard *s, struct hop *h, struct reply *r) {
    struct set x;
    if (open_read(s, h, &x, r)) reply_int(r, (int64_t)set_count(&x));
    return HOP_DONE;
}

/* A large set's members are replied in slices of so many buckets, of a dozen members each. The hop's state is then the next bucket + HOP_IN_SLICES. */
#define SLICE_BUCKETS 128u

/* open_read for a slice. */
static bool open_slice(struct shard *s, const struct hop *h, struct set *x, struct reply *r) {
    const struct arg *name = hop_key(h, 0);
    struct key k;
    if (!h->state) return open_read(s, h, x, r);
    key_look(s, s->dbs[h->db], h->hash, name->p, name->size, &k);
    if (!is_set(&k, r)) return false;
    *x = set_open(s, &k);
    return true;
}

static enum hop_result smembers(struct shard *s, struct hop *h, struct reply *r) {
    struct set_item m;
    struct set x;
    if (!open_slice(s, h, &x, r)) return HOP_DONE;
    uint64_t buckets = fields_buckets(&x.fields);
    if (!h->state && buckets > SLICE_BUCKETS) return HOP_AGAIN;
    struct set_walk w = {.fields.bucket = h->state ? h->state - HOP_IN_SLICES : 0};
    uint64_t end = w.fields.bucket + SLICE_BUCKETS;
    if (!w.fields.bucket) reply_set(r, set_count(&x));
    while (set_next(&x, &w, &m)) {
        reply_item(r, &m);
        if (w.fields.index == 0 && w.fields.bucket >= end) break;
    }
    if (w.fields.bucket >= buckets) return HOP_DONE;
    h->state = w.fields.bucket + HOP_IN_SLICES;
    return HOP_AGAIN;
}

/* An intset is given as a whole, as Redis does. */
static void scan_ints(const struct set *x, const struct scan_options *o, struct reply *r) {
    struct reply found = {.resp = r->resp};
    struct set_walk w = {0};
    struct set_item m;
    size_t n = 0;
    while (set_next(x, &w, &m)) {
        char scratch[INT64_TEXT_SIZE];
        uint32_t size;
        const char *text = set_text(&m, scratch, &size);
        if (!scan_matches(o, text, size)) continue;
        reply_bulk(&found, text, size);
        n++;
    }
    reply_array(r, 2);
    reply_bulk(r, "0", 1);
    reply_array(r, n);
    reply_bytes(r, found.p, found.size);
    if (found.failed) r->failed = true;
    reply_drop(&found);
}

static enum hop_result sscan(struct shard *s, struct hop *h, struct reply *r) {
    struct set x;
    struct scan_options o;
    uint64_t cursor;
    if (!scan_cursor(&h->argv[2], &cursor, r) || !open_read(s, h, &x, r)) return HOP_DONE;
    if (set_is_empty(&x)) reply_empty_scan(r);
    else if (!scan_options(h, &o, r)) return HOP_DONE;
    else if (x.ints) scan_ints(&x, &o, r);
    else field_scan(&x.fields, cursor, &o, false, r);
    return HOP_DONE;
}

/* ---- random members ---- */

static uint64_t next_random(void *s) { return shard_random(s); }

/* Members that were drawn, by where they lie: open addressing, at most half full. */
struct drawn {
    const void **places;
    unsigned bits;
};

static bool drawn_new(struct drawn *d, uint64_t count) {
    d->bits = 2;
    while ((uint64_t)1 << d->bits < 2 * count) d->bits++;
    d->places = mi_calloc((size_t)1 << d->bits, sizeof *d->places);
    return d->places;
}

/* The place where it is or would be. */
static const void **drawn_find(const struct drawn *d, const void *place) {
    uint64_t mask = ((uint64_t)1 << d->bits) - 1, i = (uint64_t)(uintptr_t)place * 0x9e3779b97f4a7c15u >> (64 - d->bits);
    while (d->places[i] && d->places[i] != place) i = (i + 1) & mask;
    return &d->places[i];
}

/* One that was not drawn before. Of count draws out of DRAW_RATIO times as many, each takes 1.5 tries at most. */
static void draw_new(struct shard *s, const struct set *x, struct drawn *d, struct set_item *m) {
    const void **at;
    do {
        set_random(x, next_random, s, m);
        at = drawn_find(d, set_place(x, m));
    } while (*at);
    *at = set_place(x, m);
}

/* Of the members in their order each with the probability that is left for it (Knuth, TAOCP 2, 3.4.2, algorithm S). */
static void draw_on_the_way(struct shard *s, const struct set *x, uint64_t count, struct reply *r) {
    struct set_walk w = {0};
    struct set_item m;
    for (uint64_t left = set_count(x); count && set_next(x, &w, &m); left--) {
        if (shard_random(s) % left >= count) continue;
        reply_item(r, &m);
        count--;
    }
}

static void draw_distinct(struct shard *s, const struct set *x, uint64_t count, struct reply *r) {
    struct drawn d;
    struct set_item m;
    if (count > set_count(x)) count = set_count(x);
    bool few = count < set_count(x) / DRAW_RATIO;
    if (few && !drawn_new(&d, count)) {
        reply_refused(s, r);
        return;
    }
    reply_array(r, count);
    if (!few) {
        draw_on_the_way(s, x, count, r);
        return;
    }
    for (; count; count--) {
        draw_new(s, x, &d, &m);
        reply_item(r, &m);
    }
    mi_free(d.places);
}

/* Members that may be drawn again, in slices. The hop's state is then how many are left + HOP_IN_SLICES. */
static enum hop_result draw_any(struct shard *s, struct hop *h, const struct set *x, uint64_t count, struct reply *r) {
    bool begins = h->state <= HOP_IN_SLICES;
    uint64_t left = begins ? count : h->state - HOP_IN_SLICES;
    struct set_item m;
    if (!h->state && count > SLICE_DRAWS) return HOP_AGAIN;
    if (begins) reply_array(r, count);
    size_t size = r->size;
    for (uint32_t n = 0; n < SLICE_DRAWS && r->size - size < SLICE_BYTES && left && !r->failed; n++, left--) {
        if (r->size > DRAWN_MAX) r->failed = true;
        set_random(x, next_random, s, &m);
        reply_item(r, &m);
    }
    h->state = left + HOP_IN_SLICES;
    return left && !r->failed ? HOP_AGAIN : HOP_DONE;
}

static enum hop_result srandmember(struct shard *s, struct hop *h, struct reply *r) {
    struct set x;
    struct set_item m;
    int64_t count = 0;
    if (h->argc > 3) {
        reply_syntax_error(r);
        return HOP_DONE;
    }
    if (h->argc > 2 && !arg_int64(&h->argv[2], &count, r)) return HOP_DONE;
    if (count == INT64_MIN) {
        reply_errorf(r, "ERR value is out of range, value must between %lld and %lld", -(long long)INT64_MAX, (long long)INT64_MAX);
        return HOP_DONE;
    }
    if (!open_slice(s, h, &x, r)) return HOP_DONE;
    if (h->argc > 2) {
        if (set_is_empty(&x) || !count) reply_array(r, 0);
        else if (count < 0) return draw_any(s, h, &x, (uint64_t)-count, r);
        else draw_distinct(s, &x, (uint64_t)count, r);
    } else if (set_is_empty(&x)) {
        reply_null(r);
    } else {
        set_random(&x, next_random, s, &m);
        reply_item(r, &m);
    }
    return HOP_DONE;
}

static void pop_one(struct shard *s, struct key *k, struct set *x, struct reply *r) {
    struct set_item m;
    key_before_change(s, k, KEY_SPOP);
    set_random(x, next_random, s, &m);
    reply_item(r, &m);
    set_remove(x, &m);
    set_store(s, k, x, KEY_SPOP);
}

static void pop_some(struct shard *s, struct key *k, struct set *x, uint64_t count, struct reply *r) {
    struct set_item m;
    key_before_change(s, k, KEY_SPOP);
    reply_set(r, count);
    for (; count; count--) {
        set_random(x, next_random, s, &m);
        reply_item(r, &m);
        set_remove(x, &m);
    }
    set_store(s, k, x, KEY_SPOP);
}

/* The few that stay are drawn instead; the set is made of them, and the old one is freed as a whole. False: no memory, nothing happened. */
static bool pop_most(struct shard *s, struct key *k, struct set *x, uint64_t count, struct reply *r) {
    struct set kept = set_new(s), old = *x;
    struct drawn d;
    struct set_item m;
    struct set_walk w = {0};
    uint64_t stay = set_count(x) - count;
    int one = 0;
    if (!drawn_new(&d, stay)) return false;
    for (; stay && one >= 0; stay--) {
        char scratch[INT64_TEXT_SIZE];
        struct field_name name;
        draw_new(s, x, &d, &m);
        set_name_of(&kept, &m, scratch, &name);
        one = set_add(&kept, &name, set_ints_max());
    }
    if (one >= 0) {
        key_before_change(s, k, KEY_SPOP);
        reply_set(r, count);
        while (set_next(x, &w, &m))
            if (!*drawn_find(&d, set_place(x, &m))) reply_item(r, &m);
        set_store(s, k, &kept, KEY_SPOP);
        set_drop(s, &old);
    } else {
        set_drop(s, &kept);
    }
    mi_free(d.places);
    return one >= 0;
}

static void pop_all(struct shard *s, struct key *k, const struct set *x, struct reply *r) {
    reply_all_items(r, x);
    key_after_change(s, k, KEY_SPOP);
    key_delete(s, k, KEY_DEL);
}

/* SPOP's count; the error is replied. */
static bool pop_count(const struct arg *a, int64_t *count, struct reply *r) {
    if (parse_int64(a->p, a->size, count) && *count >= 0) return true;
    reply_error(r, "ERR value is out of range, must be positive");
    return false;
}

static enum hop_result spop(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    struct set x;
    int64_t count = 0;
    if (h->argc > 3) {
        reply_syntax_error(r);
        return HOP_DONE;
    }
    if (h->argc == 3 && !pop_count(&h->argv[2], &count, r)) return HOP_DONE;
    if (!open_write(s, h, &k, &x, r)) return HOP_DONE;
    uint64_t size = set_count(&x), n = (uint64_t)count;
    if (h->argc == 2 && !size) reply_null(r);
    else if (h->argc == 2) pop_one(s, &k, &x, r);
    else if (!size || !n) reply_set(r, 0);
    else if (n >= size) pop_all(s, &k, &x, r);
    else if ((size - n) * KEEP_RATIO > n || !pop_most(s, &k, &x, n, r)) pop_some(s, &k, &x, n, r);
    return HOP_DONE;
}

/* ---- SMOVE ---- */

/* To another set first: what is refused there has not left. */
static int add_moved(struct shard *s, struct key *k, const struct arg *member) {
    struct set x = set_open(s, k);
    struct field_name name = name_of(&x, member);
    key_before_change(s, k, KEY_SADD);
    s->never_refused = true;
    int added = set_add(&x, &name, set_ints_max());
    if (added && set_store(s, k, &x, KEY_SADD)) added = -ENOMEM;
    s->never_refused = false;
    return added;
}

static void take_moved(struct shard *s, struct key *k, const struct arg *member) {
    struct set x = set_open(s, k);
    struct field_name name = name_of(&x, member);
    struct set_item m;
    if (!set_find(&x, &name, &m)) return;
    key_before_change(s, k, KEY_SREM);
    set_remove(&x, &m);
    set_store(s, k, &x, KEY_SREM);
}

static bool key_has(struct shard *s, const struct key *k, const struct arg *member) {
    struct set x = set_open(s, k);
    struct field_name name = name_of(&x, member);
    return set_has(&x, &name);
}

static void smove(const struct spread *x, struct hop *h, struct reply *r) {
    struct shard *from, *to;
    struct key src, dst;
    const struct arg *member = &h->argv[3];
    bool found = spread_write(x, h, 0, &from, &src);
    spread_write(x, h, 1, &to, &dst);
    src.slot = NULL; /* the second look may have deleted a key */
    if (!found) reply_int(r, 0);
    else if (!is_set(&src, r) || !is_set(&dst, r)) return;
    else if (!key_has(from, &src, member)) reply_int(r, 0);
    else if (src.entry == dst.entry) reply_int(r, 1);
    else if (add_moved(to, &dst, member) < 0) reply_refused(to, r);
    else {
        src.slot = NULL; /* and the insertion may have moved it */
        take_moved(from, &src, member);
        reply_int(r, 1);
    }
}

/* Over two shards. found[0]: the source is there; found[1]: with the member. */
static enum hop_result look_at_source(struct shard *s, struct hop *h, struct reply *r) {
    struct carrier *x = steps_carrier(h);
    struct key k;
    x->found[0] = key_write_nth(s, h, 0, &k);
    x->found[1] = x->found[0] && is_set(&k, r) && key_has(s, &k, &h->argv[3]);
    return HOP_DONE;
}

static enum hop_result look_at_target(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    key_write_nth(s, h, 1, &k);
    is_set(&k, r);
    return HOP_DONE;
}

static enum hop_result add_to_target(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    key_write_nth(s, h, 1, &k);
    if (add_moved(s, &k, &h->argv[3]) < 0) reply_refused(s, r);
    return HOP_DONE;
}

static enum hop_result take_from_source(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    (void)r;
    if (key_write_nth(s, h, 0, &k)) take_moved(s, &k, &h->argv[3]);
    return HOP_DONE;
}

static bool smove_steps(struct thread *t, struct task *k, struct reply *r) {
    const struct carrier *x = k->carrier;
    uint32_t source = steps_shard_of(t, k, 0), target = steps_shard_of(t, k, 1);
    if (k->step == 1 && !x->found[0]) {
        reply_int(r, 0);
        return false;
    }
    if (k->step && steps_take_error(t, k, r)) return false;
    if (k->step == 3 || (k->step == 1 && !x->found[1])) {
        reply_int(r, k->step == 3);
        return false;
    }
    steps_new_wave(t, k);
    if (k->step == 0) {
        steps_hop(t, k, source, look_at_source);
        steps_hop(t, k, target, look_at_target);
    } else if (k->step == 1) steps_hop(t, k, target, add_to_target);
    else steps_hop(t, k, source, take_from_source);
    return true;
}

/* ---- the rows ---- */

#define COMPLEXITY_INTER "O(N*M) worst case where N is the cardinality of the smallest set and M is the number of sets."
#define COMPLEXITY_ALL "O(N) where N is the total number of elements in all given sets."

static const char *const any_order[] = {"nondeterministic_output_order", NULL}, *const by_chance[] = {"nondeterministic_output", NULL};

const struct command commands_set[] = {
    {.name = "sadd",
        .group = "set",
        .since = "1.0.0",
        .arity = -3,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST | CMD_VALUE_HINT,
        .acl = ACL_SET,
        .summary = "Add one or more members to a set",
        .complexity = "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
        .plan = PLAN_SINGLE,
        .on_shard = sadd,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_INSERT)},
        .n_key_specs = 1},
    {.name = "scard",
        .group = "set",
        .since = "1.0.0",
        .arity = 2,
        .flags = CMD_READONLY | CMD_FAST,
        .acl = ACL_SET,
        .summary = "Get the number of members in a set",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = scard,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO)},
        .n_key_specs = 1},
    {.name = "sdiff",
        .group = "set",
        .since = "1.0.0",
        .arity = -2,
        .flags = CMD_READONLY,
        .acl = ACL_SET,
        .summary = "Subtract multiple sets",
        .complexity = COMPLEXITY_ALL,
        .plan = PLAN_SPREAD,
        .on_spread = sdiff,
        .on_shard = sdiff_on_one,
        .on_drop = answer_drop,
        .on_steps = algebra_steps,
        .keys = {KEY_RANGE(1, -1, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1,
        .hints = any_order},
    {.name = "sdiffstore",
        .group = "set",
        .since = "1.0.0",
        .arity = -3,
        .flags = CMD_WRITE | CMD_DENYOOM,
        .acl = ACL_SET,
        .summary = "Subtract multiple sets and store the resulting set in a key",
        .complexity = COMPLEXITY_ALL,
        .plan = PLAN_SPREAD,
        .on_spread = sdiffstore,
        .on_shard = sdiffstore_on_one,
        .on_drop = answer_drop,
        .on_steps = algebra_steps,
        .keys = {KEY_RANGE(1, 0, 1, KEY_OW | KEY_UPDATE), KEY_RANGE(2, -1, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 2},
    {.name = "sinter",
        .group = "set",
        .since = "1.0.0",
        .arity = -2,
        .flags = CMD_READONLY,
        .acl = ACL_SET,
        .summary = "Intersect multiple sets",
        .complexity = COMPLEXITY_INTER,
        .plan = PLAN_SPREAD,
        .on_spread = sinter,
        .on_shard = sinter_on_one,
        .on_drop = answer_drop,
        .on_steps = algebra_steps,
        .keys = {KEY_RANGE(1, -1, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1,
        .hints = any_order},
    {.name = "sintercard",
        .group = "set",
        .since = "7.0.0",
        .arity = -3,
        .flags = CMD_READONLY | CMD_MOVABLE_KEYS,
        .acl = ACL_SET,
        .summary = "Intersect multiple sets and return the cardinality of the result",
        .complexity = COMPLEXITY_INTER,
        .plan = PLAN_SPREAD,
        .on_spread = sintercard,
        .on_shard = sintercard_on_one,
        .on_drop = answer_drop,
        .on_steps = algebra_steps,
        .keys =
            {{.flags = KEY_RO | KEY_ACCESS, .begin = KEY_BEGIN_INDEX, .find = KEY_FIND_KEYNUM, .pos = 1, .last = 0, .step = 1, .limit = 1}},
        .n_key_specs = 1},
    {.name = "sinterstore",
        .group = "set",
        .since = "1.0.0",
        .arity = -3,
        .flags = CMD_WRITE | CMD_DENYOOM,
        .acl = ACL_SET,
        .summary = "Intersect multiple sets and store the resulting set in a key",
        .complexity = COMPLEXITY_INTER,
        .plan = PLAN_SPREAD,
        .on_spread = sinterstore,
        .on_shard = sinterstore_on_one,
        .on_drop = answer_drop,
        .on_steps = algebra_steps,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_UPDATE), KEY_RANGE(2, -1, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 2},
    {.name = "sismember",
        .group = "set",
        .since = "1.0.0",
        .arity = 3,
        .flags = CMD_READONLY | CMD_FAST | CMD_VALUE_HINT,
        .acl = ACL_SET,
        .summary = "Determine if a given value is a member of a set",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = sismember,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO)},
        .n_key_specs = 1},
    {.name = "smembers",
        .group = "set",
        .since = "1.0.0",
        .arity = 2,
        .flags = CMD_READONLY,
        .acl = ACL_SET,
        .summary = "Get all the members in a set",
        .complexity = "O(N) where N is the set cardinality.",
        .plan = PLAN_SINGLE,
        .on_shard = smembers,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1,
        .hints = any_order},
    {.name = "smismember",
        .group = "set",
        .since = "6.2.0",
        .arity = -3,
        .flags = CMD_READONLY | CMD_FAST | CMD_VALUE_HINT,
        .acl = ACL_SET,
        .summary = "Returns the membership associated with the given elements for a set",
        .complexity = "O(N) where N is the number of elements being checked for membership",
        .plan = PLAN_SINGLE,
        .on_shard = smismember,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1},
    {.name = "smove",
        .group = "set",
        .since = "1.0.0",
        .arity = 4,
        .flags = CMD_WRITE | CMD_FAST,
        .acl = ACL_SET,
        .summary = "Move a member from one set to another",
        .complexity = "O(1)",
        .plan = PLAN_SPREAD,
        .on_spread = smove,
        .on_steps = smove_steps,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_DELETE), KEY_RANGE(2, 0, 1, KEY_RW | KEY_INSERT)},
        .n_key_specs = 2},
    {.name = "spop",
        .group = "set",
        .since = "1.0.0",
        .arity = -2,
        .flags = CMD_WRITE | CMD_FAST,
        .acl = ACL_SET,
        .summary = "Remove and return one or multiple random members from a set",
        .complexity = "Without the count argument O(1), otherwise O(N) where N is the value of the passed count.",
        .plan = PLAN_SINGLE,
        .on_shard = spop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_DELETE)},
        .n_key_specs = 1,
        .hints = by_chance},
    {.name = "srandmember",
        .group = "set",
        .since = "1.0.0",
        .arity = -2,
        .flags = CMD_READONLY,
        .acl = ACL_SET,
        .summary = "Get one or multiple random members from a set",
        .complexity = "Without the count argument O(1), otherwise O(N) where N is the absolute value of the passed count.",
        .plan = PLAN_SINGLE,
        .on_shard = srandmember,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1,
        .hints = by_chance},
    {.name = "srem",
        .group = "set",
        .since = "1.0.0",
        .arity = -3,
        .flags = CMD_WRITE | CMD_FAST | CMD_VALUE_HINT,
        .acl = ACL_SET,
        .summary = "Remove one or more members from a set",
        .complexity = "O(N) where N is the number of members to be removed.",
        .plan = PLAN_SINGLE,
        .on_shard = srem,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_DELETE)},
        .n_key_specs = 1},
    {.name = "sscan",
        .group = "set",
        .since = "2.8.0",
        .arity = -3,
        .flags = CMD_READONLY,
        .acl = ACL_SET,
        .summary = "Incrementally iterate Set elements",
        .complexity = "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to "
                      "0. N is the number of elements inside the collection..",
        .plan = PLAN_SINGLE,
        .on_shard = sscan,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1,
        .hints = by_chance},
    {.name = "sunion",
        .group = "set",
        .since = "1.0.0",
        .arity = -2,
        .flags = CMD_READONLY,
        .acl = ACL_SET,
        .summary = "Add multiple sets",
        .complexity = COMPLEXITY_ALL,
        .plan = PLAN_SPREAD,
        .on_spread = sunion,
        .on_shard = sunion_on_one,
        .on_drop = answer_drop,
        .on_steps = algebra_steps,
        .keys = {KEY_RANGE(1, -1, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1,
        .hints = any_order},
    {.name = "sunionstore",
        .group = "set",
        .since = "1.0.0",
        .arity = -3,
        .flags = CMD_WRITE | CMD_DENYOOM,
        .acl = ACL_SET,
        .summary = "Add multiple sets and store the resulting set in a key",
        .complexity = COMPLEXITY_ALL,
        .plan = PLAN_SPREAD,
        .on_spread = sunionstore,
        .on_shard = sunionstore_on_one,
        .on_drop = answer_drop,
        .on_steps = algebra_steps,
        .keys = {KEY_RANGE(1, 0, 1, KEY_OW | KEY_UPDATE), KEY_RANGE(2, -1, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 2},
    {.name = NULL},
};
