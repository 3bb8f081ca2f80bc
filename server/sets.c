/* The set commands. In this file: members one by one; whole sets; SMOVE; the rows. Random members: set_random.c; several sets: set_algebra.c. */
#include "server/sets.h"

#include <errno.h>

#include "server/config.h"
#include "server/field_scan.h"
#include "server/many.h"
#include "server/steps.h"
#include "server/strings.h"
#include "server/task_internal.h"
#include "shard/likely.h"

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

/* Names of up to SET_GROUP arguments from argv[at] on, before argv[to]; how many. */
static inline uint32_t name_group(const struct set *x, const struct hop *h, uint32_t at, uint32_t to, struct field_name names[SET_GROUP]) {
    uint32_t n = 0;
    for (; n < SET_GROUP && at + n < to; n++) names[n] = name_of(x, &h->argv[at + n]);
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

/* Adds the arguments [at, to). How many are new; *refused: by the system, and not all were added. */
static inline int64_t add_members(struct set *x, const struct hop *h, uint32_t at, uint32_t to, bool *refused) {
    struct field_name names[SET_GROUP];
    int64_t added = 0, most = set_ints_max();
    int one = 0;
    for (uint32_t n; at < to && one >= 0; at += n) {
        n = name_group(x, h, at, to, names);
        if (n > 2) set_prefetch(x, names, n);
        for (uint32_t i = 0; i < n && one >= 0; i++) {
            one = set_add(x, &names[i], most);
            added += one > 0;
        }
    }
    *refused = one < 0;
    return added;
}

/* Takes the arguments [at, to) out. How many were there. */
static inline int64_t remove_members(struct set *x, const struct hop *h, uint32_t at, uint32_t to) {
    struct field_name names[SET_GROUP];
    struct set_item m;
    int64_t removed = 0;
    for (uint32_t n; at < to && !set_is_empty(x); at += n) {
        n = name_group(x, h, at, to, names);
        if (n > 2) set_prefetch(x, names, n);
        for (uint32_t i = 0; i < n && !set_is_empty(x); i++) {
            if (!set_find(x, &names[i], &m)) continue;
            set_remove(x, &m);
            removed++;
        }
    }
    return removed;
}

static inline void reply_whether(const struct set *x, const struct hop *h, uint32_t at, uint32_t to, struct reply *r) {
    struct field_name names[SET_GROUP];
    for (uint32_t n; at < to; at += n) {
        n = name_group(x, h, at, to, names);
        uint32_t found = set_probe(x, names, (1u << n) - 1, false);
        for (uint32_t i = 0; i < n; i++) reply_int(r, found >> i & 1);
    }
}

/* ---- very many members ---- */

static bool begin_many_written(struct shard *s, struct hop *h, struct many *m, struct reply *r) {
    struct key k;
    m->acts |= s->leased == BUDGET_NONE;
    key_write(s, h, &k);
    return is_set(&k, r);
}

static bool begin_many_read(struct shard *s, struct hop *h, struct many *m, struct reply *r) {
    struct set x;
    (void)m;
    if (!open_read(s, h, &x, r)) return false;
    reply_array(r, h->argc - 2);
    return true;
}

/* What those that are no members yet will take. */
static bool check_many(struct shard *s, struct hop *h, struct many *m, uint32_t to, struct reply *r) {
    struct key k;
    many_look(s, h, &k);
    struct set x = set_open(s, &k);
    struct field_name names[SET_GROUP];
    for (uint32_t n; m->at < to; m->at += n) {
        n = name_group(&x, h, m->at, to, names);
        uint32_t found = set_probe(&x, names, (1u << n) - 1, false);
        for (uint32_t i = 0; i < n; i++) {
            if (found >> i & 1) continue;
            m->bytes += set_needs_member(&names[i]);
            m->members++;
        }
    }
    if (!many_is_last(h, m) || !m->members) return true;
    return many_reserve(s, m, &k, m->bytes + set_needs(&x, (uint32_t)m->members), r);
}

/* The set after a part; last: it is told. False: refused. */
static bool store_many(struct shard *s, struct key *k, struct set *x, const struct many *m, bool last, enum key_event event) {
    if (set_is_empty(x) || last) return !m->n || !set_store(s, k, x, event);
    return !set_keep(s, k, x, event);
}

static bool add_many(struct shard *s, struct hop *h, struct many *m, uint32_t to, struct reply *r) {
    struct key k;
    struct set x;
    bool refused;
    open_write(s, h, &k, &x, r);
    key_before_change(s, &k, KEY_SADD);
    m->n += add_members(&x, h, m->at, to, &refused);
    m->at = to;
    refused |= !store_many(s, &k, &x, m, refused || many_is_last(h, m), KEY_SADD);
    if (refused) reply_refused(s, r);
    return !refused;
}

static bool remove_many(struct shard *s, struct hop *h, struct many *m, uint32_t to, struct reply *r) {
    struct key k;
    struct set x;
    open_write(s, h, &k, &x, r);
    if (k.entry) key_before_change(s, &k, KEY_SREM);
    m->n += remove_members(&x, h, m->at, to);
    m->at = set_is_empty(&x) ? h->argc : to;
    store_many(s, &k, &x, m, many_is_last(h, m), KEY_SREM);
    return true;
}

static bool reply_many(struct shard *s, struct hop *h, struct many *m, uint32_t to, struct reply *r) {
    struct key k;
    many_look(s, h, &k);
    struct set x = set_open(s, &k);
    reply_whether(&x, h, m->at, to, r);
    m->at = to;
    return true;
}

static const struct many_way adding = {256, 2, 1, begin_many_written, check_many, add_many, many_reply_n},
                             removing = {256, 2, 1, begin_many_written, NULL, remove_many, many_reply_n},
                             asking = {512, 2, 1, begin_many_read, NULL, reply_many, NULL};

/* ---- SADD, SREM, SISMEMBER, SMISMEMBER ---- */

static enum hop_result sadd(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    struct set x;
    bool refused;
    if (UNLIKELY(h->argc > MANY_FEW) && many_is_long(h, &adding)) return many_run(s, h, &adding, r);
    if (!open_write(s, h, &k, &x, r)) return HOP_DONE;
    if (!may_add(s, h, &k, &x)) {
        reply_refused(s, r);
        return HOP_DONE;
    }
    key_before_change(s, &k, KEY_SADD);
    int64_t added = add_members(&x, h, 2, h->argc, &refused);
    if (added || refused) refused |= set_store(s, &k, &x, KEY_SADD) != 0;
    if (refused) reply_refused(s, r);
    else reply_int(r, added);
    return HOP_DONE;
}

static enum hop_result srem(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    struct set x;
    if (UNLIKELY(h->argc > MANY_FEW) && many_is_long(h, &removing)) return many_run(s, h, &removing, r);
    if (!open_write(s, h, &k, &x, r)) return HOP_DONE;
    if (k.entry) key_before_change(s, &k, KEY_SREM);
    int64_t removed = remove_members(&x, h, 2, h->argc);
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
    if (UNLIKELY(h->argc > MANY_FEW) && many_is_long(h, &asking)) return many_run(s, h, &asking, r);
    if (!open_read(s, h, &x, r)) return HOP_DONE;
    reply_array(r, h->argc - 2);
    reply_whether(&x, h, 2, h->argc, r);
    return HOP_DONE;
}

/* ---- whole sets ---- */

void reply_item(struct reply *r, const struct set_item *m) {
    char scratch[INT64_TEXT_SIZE];
    uint32_t size;
    const char *text = set_text(m, scratch, &size);
    reply_stored(r, text, size);
}

static enum hop_result scard(struct shard *s, struct hop *h, struct reply *r) {
    struct set x;
    if (open_read(s, h, &x, r)) reply_int(r, (int64_t)set_count(&x));
    return HOP_DONE;
}

/* A large set's members are replied in slices of so many buckets, of a dozen members each, or bytes: most of what they take is the first touch of the reply's memory. The hop's state is
 * then its place + HOP_IN_SLICES. */
#define SLICE_BUCKETS 32u
#define SLICE_BYTES (32u << 10)

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

static bool is_long(const struct set *x) {
    const struct fieldmap *map = x->fields.map;
    return map && (map->buckets > 2 * SLICE_BUCKETS || map->memory > 4 * SLICE_BYTES);
}

static enum hop_result smembers(struct shard *s, struct hop *h, struct reply *r) {
    struct set_item m;
    struct set x;
    if (!open_slice(s, h, &x, r)) return HOP_DONE;
    uint64_t buckets = fields_buckets(&x.fields);
    if (!h->state && is_long(&x)) return HOP_AGAIN;
    struct set_walk w = {.fields = fields_walk_at(&x.fields, h->state ? h->state - HOP_IN_SLICES : 0)};
    uint64_t end = h->state ? w.fields.bucket + SLICE_BUCKETS : UINT64_MAX;
    size_t began = r->size, full = began + (h->state ? SLICE_BYTES : REPLY_GO_BYTES);
    if (h->state <= HOP_IN_SLICES) reply_set(r, set_count(&x));
    while (set_next(&x, &w, &m)) {
        reply_item(r, &m);
        if (!x.ints && (r->size > full || (w.fields.index == 0 && w.fields.bucket >= end))) break;
    }
    if (w.fields.bucket >= buckets) return HOP_DONE;
    if (h->state) h->state = fields_walk_place(&w.fields) + HOP_IN_SLICES;
    else reply_cut(s, r, began);
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
        .on_drop = many_drop,
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
        .on_drop = many_drop,
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
        .on_drop = drawing_drop,
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
        .on_drop = drawing_drop,
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
        .on_drop = many_drop,
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
