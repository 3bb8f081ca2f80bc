/* The list commands. In this file: opening; pushing, popping; by index; ranges; the rows. Searching is in list_search.c, several keys are in list_move.c. */
#include "server/lists.h"

#include "server/config.h"
#include "server/many.h"
#include "server/strings.h"
#include "server/waiting.h"
#include "shard/likely.h"

/* A reply of more than twice as many elements or bytes goes in slices of so many: most of what they take is the first touch of its memory. */
#define REPLY_SLICE 1024u
#define REPLY_SLICE_BYTES ((size_t)32 << 10)

/* ---- opening ---- */

bool is_list(const struct key *k, struct reply *r) {
    if (LIKELY(!k->entry || entry_type(k->entry) == TYPE_LIST)) return true;
    reply_wrong_type(r);
    return false;
}

struct list open_list(struct shard *s, const struct key *k) {
    return list_open(s, k, config_current()->list_max_listpack_size);
}

static bool open_found(struct shard *s, const struct key *k, struct list *x, struct reply *r) {
    if (!is_list(k, r)) return false;
    *x = open_list(s, k);
    return true;
}

bool open_list_read(struct shard *s, const struct hop *h, struct key *k, struct list *x, struct reply *r) {
    const struct arg *name = hop_key(h, 0);
    if (h->state) key_look(s, s->dbs[h->db], h->hash, name->p, name->size, k);
    else key_read(s, h, k);
    return open_found(s, k, x, r);
}

bool open_list_write(struct shard *s, const struct hop *h, struct key *k, struct list *x, struct reply *r) {
    key_write(s, h, k);
    return open_found(s, k, x, r);
}

void reply_element(struct reply *r, const struct list_item *i) {
    char scratch[INT64_TEXT_SIZE];
    uint32_t size;
    const char *text = list_text(i, scratch, &size);
    reply_stored(r, text, size);
}

bool arg_end(const struct arg *a, enum list_end *end) {
    *end = arg_is(a, "left") ? LIST_HEAD : LIST_TAIL;
    return *end == LIST_HEAD || arg_is(a, "right");
}

/* ---- pushing ---- */

bool may_push(struct shard *s, const struct key *k, const struct list *x, const struct list_load *load, struct reply *r) {
    if (key_may_take(s, k, list_needs(x, load))) return true;
    reply_refused(s, r);
    return false;
}

static bool may_push_all(struct shard *s, const struct hop *h, const struct key *k, const struct list *x, struct reply *r) {
    struct list_load load = {0};
    if (LIKELY(s->leased == BUDGET_NONE)) return true;
    for (uint32_t i = 2; i < h->argc; i++) list_load_add(&load, h->argv[i].size);
    return may_push(s, k, x, &load, r);
}

/* Very many elements, in slices; flags: the end. */
static enum list_end end_of(const struct many *m) { return (enum list_end)(m->flags & 1); }

static bool begin_pushing(struct shard *s, struct hop *h, struct many *m, bool creates, enum list_end end, struct reply *r) {
    struct key k;
    struct list x;
    m->acts |= s->leased == BUDGET_NONE;
    m->flags = end;
    if (!open_list_write(s, h, &k, &x, r)) return false;
    if (k.entry || creates) return true;
    reply_int(r, 0);
    return false;
}

static bool begin_lpush(struct shard *s, struct hop *h, struct many *m, struct reply *r) {
    return begin_pushing(s, h, m, true, LIST_HEAD, r);
}
static bool begin_rpush(struct shard *s, struct hop *h, struct many *m, struct reply *r) {
    return begin_pushing(s, h, m, true, LIST_TAIL, r);
}
static bool begin_lpushx(struct shard *s, struct hop *h, struct many *m, struct reply *r) {
    return begin_pushing(s, h, m, false, LIST_HEAD, r);
}
static bool begin_rpushx(struct shard *s, struct hop *h, struct many *m, struct reply *r) {
    return begin_pushing(s, h, m, false, LIST_TAIL, r);
}

static bool check_pushing(struct shard *s, struct hop *h, struct many *m, uint32_t to, struct reply *r) {
    struct list_load load = {m->members, m->bytes, m->far};
    struct key k;
    for (; m->at < to; m->at++) list_load_add(&load, h->argv[m->at].size);
    m->members = load.n;
    m->bytes = load.bytes;
    m->far = load.far;
    if (!many_is_last(h, m)) return true;
    many_look(s, h, &k);
    struct list x = open_list(s, &k);
    return many_reserve(s, m, &k, list_needs(&x, &load), r);
}

static bool push_many(struct shard *s, struct hop *h, struct many *m, uint32_t to, struct reply *r) {
    enum list_end end = end_of(m);
    struct key k;
    struct list x;
    open_list_write(s, h, &k, &x, r);
    key_before_change(s, &k, push_event(end));
    while (m->at < to && !list_push(&x, end, &h->argv[m->at])) m->at++;
    int refused = m->at < to;
    if (refused) list_pop(&x, end, m->at - m->first, &s->trash); /* all of them */
    m->n = (int64_t)list_count(&x);
    if (refused) list_keep(s, &k, &x); /* as it was; what an earlier slice made goes */
    else if (many_is_last(h, m)) refused = list_store(s, &k, &x, push_event(end));
    else refused = list_keep(s, &k, &x);
    if (refused) reply_refused(s, r);
    return !refused;
}

static const struct many_way pushing[2][2] = {
    {{1024, 2, 1, begin_lpushx, check_pushing, push_many, many_reply_n}, {1024, 2, 1, begin_lpush, check_pushing, push_many, many_reply_n}},
    {{1024, 2, 1, begin_rpushx, check_pushing, push_many, many_reply_n},
        {1024, 2, 1, begin_rpush, check_pushing, push_many, many_reply_n}}};

static enum hop_result push(struct shard *s, struct hop *h, enum list_end end, bool creates, struct reply *r) {
    struct key k;
    struct list x;
    uint32_t i = 2;
    const struct many_way *way = &pushing[end != LIST_HEAD][creates];
    if (UNLIKELY(h->argc > MANY_FEW) && many_is_long(h, way)) return many_run(s, h, way, r);
    if (!open_list_write(s, h, &k, &x, r)) return HOP_DONE;
    if (!k.entry && !creates) {
        reply_int(r, 0);
        return HOP_DONE;
    }
    if (!may_push_all(s, h, &k, &x, r)) return HOP_DONE;
    key_before_change(s, &k, push_event(end));
    while (i < h->argc && !list_push(&x, end, &h->argv[i])) i++;
    if (LIKELY(i == h->argc)) {
        uint64_t n = list_count(&x);
        if (list_store(s, &k, &x, push_event(end))) reply_refused(s, r);
        else reply_int(r, (int64_t)n);
        return HOP_DONE;
    }
    list_pop(&x, end, i - 2, &s->trash);
    list_keep(s, &k, &x);
    reply_refused(s, r);
    return HOP_DONE;
}

static enum hop_result lpush(struct shard *s, struct hop *h, struct reply *r) { return push(s, h, LIST_HEAD, true, r); }
static enum hop_result rpush(struct shard *s, struct hop *h, struct reply *r) { return push(s, h, LIST_TAIL, true, r); }
static enum hop_result lpushx(struct shard *s, struct hop *h, struct reply *r) { return push(s, h, LIST_HEAD, false, r); }
static enum hop_result rpushx(struct shard *s, struct hop *h, struct reply *r) { return push(s, h, LIST_TAIL, false, r); }

/* ---- popping ---- */

/* Whether so many of its elements are too many to be replied in one go. */
static bool is_much(const struct list *x, uint64_t n) {
    return x->chain && (n > 2 * REPLY_SLICE || x->chain->memory / x->chain->n * n > 2 * REPLY_SLICE_BYTES);
}

/* So many elements are replied before the reply's size is looked at: looking at each would cost ranges of short ones 3 % more instructions. */
#define LOOK_AT_SIZE 8u

/* Replies up to n elements from an index on, but only about so many bytes. How many. */
static uint64_t reply_some(struct reply *r, const struct list *x, uint64_t from, enum list_end towards, uint64_t n, size_t most) {
    struct list_walk w = list_walk_from(x, from, towards);
    struct list_item i;
    uint64_t done = 0;
    size_t end = most < SIZE_MAX - r->size ? r->size + most : SIZE_MAX;
    while (done < n && r->size < end) {
        uint64_t group = n - done < LOOK_AT_SIZE ? n : done + LOOK_AT_SIZE;
        do {
            if (!list_next(x, &w, &i)) return done;
            reply_element(r, &i);
        } while (++done < group);
    }
    return done;
}

static uint64_t reply_slice(struct reply *r, const struct list *x, uint64_t from, enum list_end towards, uint64_t n) {
    return reply_some(r, x, from, towards, n < REPLY_SLICE ? n : REPLY_SLICE, REPLY_SLICE_BYTES);
}

static uint64_t index_at(const struct list *x, enum list_end end) { return end == LIST_HEAD ? 0 : list_count(x) - 1; }
static enum list_end away_from(enum list_end end) { return end == LIST_HEAD ? LIST_TAIL : LIST_HEAD; }

/* False: it would reply more bytes than that, and nothing is done. */
static bool pop_within(struct shard *s, struct key *k, struct list *x, enum list_end end, uint64_t n, size_t most, struct reply *r) {
    size_t began = r->size;
    if (n > list_count(x)) n = list_count(x);
    reply_array(r, n);
    if (reply_some(r, x, index_at(x, end), away_from(end), n, most) < n) {
        reply_cut(s, r, began);
        return false;
    }
    key_before_change(s, k, pop_event(end));
    list_pop(x, end, n, &s->trash);
    list_store(s, k, x, pop_event(end));
    return true;
}

void pop_and_reply(struct shard *s, struct key *k, struct list *x, enum list_end end, uint64_t n, struct reply *r) {
    pop_within(s, k, x, end, n, SIZE_MAX, r);
}

void pop_one(struct shard *s, struct key *k, struct list *x, enum list_end end, struct reply *r) {
    struct list_item i;
    list_peek(x, end, &i);
    reply_element(r, &i);
    key_before_change(s, k, pop_event(end));
    list_pop(x, end, 1, &s->trash);
    list_store(s, k, x, pop_event(end));
}

/* A slice of a large pop: all is replied first; then it goes at once, as its memory comes back in slices. The hop's state is how many were replied, + 1 + HOP_IN_SLICES. */
static enum hop_result pop_slice(
    struct shard *s, struct hop *h, struct key *k, struct list *x, enum list_end end, uint64_t n, struct reply *r) {
    uint64_t done = h->state > HOP_IN_SLICES ? h->state - 1 - HOP_IN_SLICES : 0, at = end == LIST_HEAD ? done : list_count(x) - 1 - done;
    if (!done) reply_array(r, n);
    done += reply_slice(r, x, at, away_from(end), n - done);
    if (done < n) {
        h->state = done + 1 + HOP_IN_SLICES;
        return HOP_AGAIN;
    }
    key_before_change(s, k, pop_event(end));
    list_pop(x, end, n, &s->trash);
    list_store(s, k, x, pop_event(end));
    return HOP_DONE;
}

enum hop_result pop_of_many_on(struct shard *s, struct hop *h, struct key *k, const struct multi_pop *asked, struct reply *r) {
    struct list x = open_list(s, k);
    uint64_t n = asked->count < list_count(&x) ? asked->count : list_count(&x);
    if (!h->state && is_much(&x, n)) return HOP_AGAIN;
    if (!h->state) {
        pop_of_many(s, k, asked, r);
        return HOP_DONE;
    }
    if (h->state == HOP_IN_SLICES) {
        reply_array(r, 2);
        reply_bulk(r, k->name, k->size);
    }
    return pop_slice(s, h, k, &x, asked->end, n, r);
}

static enum hop_result pop(struct shard *s, struct hop *h, enum list_end end, struct reply *r) {
    struct key k;
    struct list x;
    int64_t count = 1;
    if (h->argc > 3) {
        reply_errorf(r, "ERR wrong number of arguments for '%s' command", end == LIST_HEAD ? "lpop" : "rpop");
        return HOP_DONE;
    }
    if (h->argc == 3 && (!parse_int64(h->argv[2].p, h->argv[2].size, &count) || count < 0)) {
        reply_error(r, "ERR value is out of range, must be positive");
        return HOP_DONE;
    }
    if (!open_list_write(s, h, &k, &x, r)) return HOP_DONE;
    uint64_t n = (uint64_t)count < list_count(&x) ? (uint64_t)count : list_count(&x);
    if (h->argc == 2) {
        if (k.entry) pop_one(s, &k, &x, end, r);
        else reply_null(r);
    } else if (h->state) return pop_slice(s, h, &k, &x, end, n, r);
    else if (!k.entry) reply_null_array(r);
    else if (!n) reply_array(r, 0);
    else if (is_much(&x, n) || !pop_within(s, &k, &x, end, n, REPLY_GO_BYTES, r)) return HOP_AGAIN;
    return HOP_DONE;
}

static enum hop_result lpop(struct shard *s, struct hop *h, struct reply *r) { return pop(s, h, LIST_HEAD, r); }
static enum hop_result rpop(struct shard *s, struct hop *h, struct reply *r) { return pop(s, h, LIST_TAIL, r); }

/* ---- by index ---- */

static enum hop_result llen(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    struct list x;
    if (open_list_read(s, h, &k, &x, r)) reply_int(r, (int64_t)list_count(&x));
    return HOP_DONE;
}

/* An index as commands give it, negative from the tail on. False: there is no such element. */
static bool find_index(const struct list *x, int64_t index, struct list_item *i) {
    int64_t n = (int64_t)list_count(x);
    if (index < 0) index += n;
    if (index < 0 || index >= n) return false;
    list_at(x, (uint64_t)index, i);
    return true;
}

static enum hop_result lindex(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    struct list x;
    struct list_item i;
    int64_t index;
    if (!open_list_read(s, h, &k, &x, r)) return HOP_DONE;
    if (!k.entry) reply_null(r);
    else if (!arg_int64(&h->argv[2], &index, r)) return HOP_DONE;
    else if (find_index(&x, index, &i)) reply_element(r, &i);
    else reply_null(r);
    return HOP_DONE;
}

static enum hop_result lset(struct shard *s, struct hop *h, struct reply *r) {
    struct arg *value = &h->argv[3];
    struct list_load load = {0};
    struct list_item i;
    struct key k;
    struct list x;
    int64_t index;
    if (!open_list_write(s, h, &k, &x, r)) return HOP_DONE;
    if (!k.entry) {
        reply_error(r, "ERR no such key");
        return HOP_DONE;
    }
    if (!arg_int64(&h->argv[2], &index, r)) return HOP_DONE;
    if (!find_index(&x, index, &i)) {
        reply_error(r, "ERR index out of range");
        return HOP_DONE;
    }
    list_load_add(&load, value->size);
    if (!may_push(s, &k, &x, &load, r)) return HOP_DONE;
    key_before_change(s, &k, KEY_LSET);
    if (list_set(&x, &i, value)) {
        list_keep(s, &k, &x);
        reply_refused(s, r);
        return HOP_DONE;
    }
    list_store(s, &k, &x, KEY_LSET);
    reply_ok(r);
    return HOP_DONE;
}

/* ---- ranges ---- */

/* What is between two indices, as commands give them: from start on, so many. */
static uint64_t range_of(uint64_t count, int64_t first, int64_t last, uint64_t *start) {
    int64_t n = (int64_t)count;
    if (first < 0) first = first + n < 0 ? 0 : first + n;
    if (last < 0) last += n;
    if (last >= n) last = n - 1;
    *start = (uint64_t)first;
    return first > last ? 0 : (uint64_t)(last - first) + 1;
}

/* In slices the hop's state is how many were replied, + 1 + HOP_IN_SLICES. */
static enum hop_result lrange(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    struct list x;
    int64_t first, last;
    uint64_t start, done = 0;
    if (!arg_int64(&h->argv[2], &first, r) || !arg_int64(&h->argv[3], &last, r)) return HOP_DONE;
    if (!open_list_read(s, h, &k, &x, r)) return HOP_DONE;
    uint64_t n = range_of(list_count(&x), first, last, &start);
    size_t began = r->size;
    if (!h->state && is_much(&x, n)) return HOP_AGAIN;
    if (h->state > HOP_IN_SLICES) done = h->state - 1 - HOP_IN_SLICES;
    if (!done) reply_array(r, n);
    if (h->state) done += reply_slice(r, &x, start + done, LIST_TAIL, n - done);
    else done = reply_some(r, &x, start, LIST_TAIL, n, REPLY_GO_BYTES);
    if (done == n) return HOP_DONE;
    if (h->state) h->state = done + 1 + HOP_IN_SLICES;
    else reply_cut(s, r, began);
    return HOP_AGAIN;
}

static enum hop_result ltrim(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    struct list x;
    int64_t first, last;
    uint64_t start;
    if (!arg_int64(&h->argv[2], &first, r) || !arg_int64(&h->argv[3], &last, r)) return HOP_DONE;
    if (!open_list_write(s, h, &k, &x, r)) return HOP_DONE;
    if (k.entry) {
        uint64_t n = range_of(list_count(&x), first, last, &start);
        key_before_change(s, &k, KEY_LTRIM);
        list_pop(&x, LIST_TAIL, n ? list_count(&x) - start - n : list_count(&x), &s->trash);
        if (n) list_pop(&x, LIST_HEAD, start, &s->trash);
        list_store(s, &k, &x, KEY_LTRIM);
    }
    reply_ok(r);
    return HOP_DONE;
}

/* ---- the rows ---- */

const struct command commands_list[] = {
    {.name = "blmove",
        .group = "list",
        .since = "6.2.0",
        .arity = 6,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_NOSCRIPT | CMD_BLOCKING,
        .acl = ACL_LIST,
        .summary = "Pop an element from a list, push it to another list and return it; or block until one is available",
        .complexity = "O(1)",
        .plan = PLAN_BLOCKING,
        .on_shard = waiting_at_once,
        .blocking = &blmove,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_DELETE), KEY_RANGE(2, 0, 1, KEY_RW | KEY_INSERT)},
        .n_key_specs = 2},
    {.name = "blmpop",
        .group = "list",
        .since = "7.0.0",
        .arity = -5,
        .flags = CMD_WRITE | CMD_BLOCKING | CMD_MOVABLE_KEYS,
        .acl = ACL_LIST,
        .summary = "Pop elements from a list, or block until one is available",
        .complexity = "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
        .plan = PLAN_BLOCKING,
        .on_shard = waiting_at_once,
        .blocking = &blmpop,
        .keys = {{.flags = KEY_RW | KEY_ACCESS | KEY_DELETE,
            .begin = KEY_BEGIN_INDEX,
            .find = KEY_FIND_KEYNUM,
            .pos = 2,
            .last = 0,
            .step = 1,
            .limit = 1}},
        .n_key_specs = 1},
    {.name = "blpop",
        .group = "list",
        .since = "2.0.0",
        .arity = -3,
        .flags = CMD_WRITE | CMD_NOSCRIPT | CMD_BLOCKING,
        .acl = ACL_LIST,
        .summary = "Remove and get the first element in a list, or block until one is available",
        .complexity = "O(N) where N is the number of provided keys.",
        .plan = PLAN_BLOCKING,
        .on_shard = waiting_at_once,
        .blocking = &blpop,
        .keys = {KEY_RANGE(1, -2, 1, KEY_RW | KEY_ACCESS | KEY_DELETE)},
        .n_key_specs = 1},
    {.name = "brpop",
        .group = "list",
        .since = "2.0.0",
        .arity = -3,
        .flags = CMD_WRITE | CMD_NOSCRIPT | CMD_BLOCKING,
        .acl = ACL_LIST,
        .summary = "Remove and get the last element in a list, or block until one is available",
        .complexity = "O(N) where N is the number of provided keys.",
        .plan = PLAN_BLOCKING,
        .on_shard = waiting_at_once,
        .blocking = &brpop,
        .keys = {KEY_RANGE(1, -2, 1, KEY_RW | KEY_ACCESS | KEY_DELETE)},
        .n_key_specs = 1},
    {.name = "brpoplpush",
        .group = "list",
        .since = "2.2.0",
        .arity = 4,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_NOSCRIPT | CMD_BLOCKING,
        .acl = ACL_LIST,
        .summary = "Pop an element from a list, push it to another list and return it; or block until one is available",
        .complexity = "O(1)",
        .plan = PLAN_BLOCKING,
        .on_shard = waiting_at_once,
        .blocking = &blmove,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_DELETE), KEY_RANGE(2, 0, 1, KEY_RW | KEY_INSERT)},
        .n_key_specs = 2},
    {.name = "lindex",
        .group = "list",
        .since = "1.0.0",
        .arity = 3,
        .flags = CMD_READONLY | CMD_VALUE_HINT,
        .acl = ACL_LIST,
        .summary = "Get an element from a list by its index",
        .complexity = "O(N) where N is the number of elements to traverse to get to the element at index. This makes asking for the first "
                      "or the last element of the list O(1).",
        .plan = PLAN_SINGLE,
        .on_shard = lindex,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1},
    {.name = "linsert",
        .group = "list",
        .since = "2.2.0",
        .arity = 5,
        .flags = CMD_WRITE | CMD_DENYOOM,
        .acl = ACL_LIST,
        .summary = "Insert an element before or after another element in a list",
        .complexity =
            "O(N) where N is the number of elements to traverse before seeing the value pivot. This means that inserting somewhere on the "
            "left end on the list (head) can be considered O(1) and inserting somewhere on the right end (tail) is O(N).",
        .plan = PLAN_SINGLE,
        .on_shard = linsert,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_INSERT)},
        .n_key_specs = 1},
    {.name = "llen",
        .group = "list",
        .since = "1.0.0",
        .arity = 2,
        .flags = CMD_READONLY | CMD_FAST | CMD_VALUE_HINT,
        .acl = ACL_LIST,
        .summary = "Get the length of a list",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = llen,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO)},
        .n_key_specs = 1},
    {.name = "lmove",
        .group = "list",
        .since = "6.2.0",
        .arity = 5,
        .flags = CMD_WRITE | CMD_DENYOOM,
        .acl = ACL_LIST,
        .summary = "Pop an element from a list, push it to another list and return it",
        .complexity = "O(1)",
        .plan = PLAN_SPREAD,
        .on_spread = lmove,
        .on_steps = lmove_steps,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_DELETE), KEY_RANGE(2, 0, 1, KEY_RW | KEY_INSERT)},
        .n_key_specs = 2},
    {.name = "lmpop",
        .group = "list",
        .since = "7.0.0",
        .arity = -4,
        .flags = CMD_WRITE | CMD_MOVABLE_KEYS,
        .acl = ACL_LIST,
        .summary = "Pop elements from a list",
        .complexity = "O(N+M) where N is the number of provided keys and M is the number of elements returned.",
        .plan = PLAN_SPREAD,
        .on_spread = lmpop,
        .on_shard = lmpop_on_one,
        .on_steps = lmpop_steps,
        .keys = {{.flags = KEY_RW | KEY_ACCESS | KEY_DELETE,
            .begin = KEY_BEGIN_INDEX,
            .find = KEY_FIND_KEYNUM,
            .pos = 1,
            .last = 0,
            .step = 1,
            .limit = 1}},
        .n_key_specs = 1},
    {.name = "lpop",
        .group = "list",
        .since = "1.0.0",
        .arity = -2,
        .flags = CMD_WRITE | CMD_FAST | CMD_VALUE_HINT,
        .acl = ACL_LIST,
        .summary = "Remove and get the first elements in a list",
        .complexity = "O(N) where N is the number of elements returned",
        .plan = PLAN_SINGLE,
        .on_shard = lpop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_DELETE)},
        .n_key_specs = 1},
    {.name = "lpos",
        .group = "list",
        .since = "6.0.6",
        .arity = -3,
        .flags = CMD_READONLY,
        .acl = ACL_LIST,
        .summary = "Return the index of matching elements on a list",
        .complexity = "O(N) where N is the number of elements in the list, for the average case. When searching for elements near the head "
                      "or the tail of the list, or when the MAXLEN option is provided, the command may run in constant time.",
        .plan = PLAN_SINGLE,
        .on_shard = lpos,
        .on_drop = lpos_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1},
    {.name = "lpush",
        .group = "list",
        .since = "1.0.0",
        .arity = -3,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST | CMD_VALUE_HINT,
        .acl = ACL_LIST,
        .summary = "Prepend one or multiple elements to a list",
        .complexity = "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
        .plan = PLAN_SINGLE,
        .on_shard = lpush,
        .on_drop = many_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_INSERT)},
        .n_key_specs = 1},
    {.name = "lpushx",
        .group = "list",
        .since = "2.2.0",
        .arity = -3,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST | CMD_VALUE_HINT,
        .acl = ACL_LIST,
        .summary = "Prepend an element to a list, only if the list exists",
        .complexity = "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
        .plan = PLAN_SINGLE,
        .on_shard = lpushx,
        .on_drop = many_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_INSERT)},
        .n_key_specs = 1},
    {.name = "lrange",
        .group = "list",
        .since = "1.0.0",
        .arity = 4,
        .flags = CMD_READONLY | CMD_VALUE_HINT,
        .acl = ACL_LIST,
        .summary = "Get a range of elements from a list",
        .complexity = "O(S+N) where S is the distance of start offset from HEAD for small lists, from nearest end (HEAD or TAIL) for large "
                      "lists; and N is the number of elements in the specified range.",
        .plan = PLAN_SINGLE,
        .on_shard = lrange,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1},
    {.name = "lrem",
        .group = "list",
        .since = "1.0.0",
        .arity = 4,
        .flags = CMD_WRITE,
        .acl = ACL_LIST,
        .summary = "Remove elements from a list",
        .complexity = "O(N+M) where N is the length of the list and M is the number of elements removed.",
        .plan = PLAN_SINGLE,
        .on_shard = lrem,
        .on_drop = list_search_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_DELETE)},
        .n_key_specs = 1},
    {.name = "lset",
        .group = "list",
        .since = "1.0.0",
        .arity = 4,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_VALUE_HINT,
        .acl = ACL_LIST,
        .summary = "Set the value of an element in a list by its index",
        .complexity = "O(N) where N is the length of the list. Setting either the first or the last element of the list is O(1).",
        .plan = PLAN_SINGLE,
        .on_shard = lset,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_UPDATE)},
        .n_key_specs = 1},
    {.name = "ltrim",
        .group = "list",
        .since = "1.0.0",
        .arity = 4,
        .flags = CMD_WRITE,
        .acl = ACL_LIST,
        .summary = "Trim a list to the specified range",
        .complexity = "O(N) where N is the number of elements to be removed by the operation.",
        .plan = PLAN_SINGLE,
        .on_shard = ltrim,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_DELETE)},
        .n_key_specs = 1},
    {.name = "rpop",
        .group = "list",
        .since = "1.0.0",
        .arity = -2,
        .flags = CMD_WRITE | CMD_FAST | CMD_VALUE_HINT,
        .acl = ACL_LIST,
        .summary = "Remove and get the last elements in a list",
        .complexity = "O(N) where N is the number of elements returned",
        .plan = PLAN_SINGLE,
        .on_shard = rpop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_DELETE)},
        .n_key_specs = 1},
    {.name = "rpoplpush",
        .group = "list",
        .since = "1.2.0",
        .arity = 3,
        .flags = CMD_WRITE | CMD_DENYOOM,
        .acl = ACL_LIST,
        .summary = "Remove the last element in a list, prepend it to another list and return it",
        .complexity = "O(1)",
        .plan = PLAN_SPREAD,
        .on_spread = rpoplpush,
        .on_steps = lmove_steps,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_DELETE), KEY_RANGE(2, 0, 1, KEY_RW | KEY_INSERT)},
        .n_key_specs = 2},
    {.name = "rpush",
        .group = "list",
        .since = "1.0.0",
        .arity = -3,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST | CMD_VALUE_HINT,
        .acl = ACL_LIST,
        .summary = "Append one or multiple elements to a list",
        .complexity = "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
        .plan = PLAN_SINGLE,
        .on_shard = rpush,
        .on_drop = many_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_INSERT)},
        .n_key_specs = 1},
    {.name = "rpushx",
        .group = "list",
        .since = "2.2.0",
        .arity = -3,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST | CMD_VALUE_HINT,
        .acl = ACL_LIST,
        .summary = "Append an element to a list, only if the list exists",
        .complexity = "O(1) for each element added, so O(N) to add N elements when the command is called with multiple arguments.",
        .plan = PLAN_SINGLE,
        .on_shard = rpushx,
        .on_drop = many_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_INSERT)},
        .n_key_specs = 1},
    {.name = NULL},
};
