/* The string commands. In this file: replies and checks; GET and SET; counters; parts of strings; several keys; the rows. */
#include "server/strings.h"
#include "server/steps.h"

#include <errno.h>
#include <math.h>

#include "server/config.h"
#include "server/expire.h"
#include "server/lcs.h"
#include "server/number.h"
#include "shard/blob.h"
#include "shard/likely.h"

void reply_string(struct reply *r, const struct entry *e) {
    struct blob *b;
    switch (entry_encoding(e)) {
    case ENC_INT: reply_bulk_int(r, entry_int(e)); break;
    case ENC_BLOB:
        b = entry_blob(e);
        reply_bulk_blob(r, b, 0, b->size);
        break;
    default: reply_bulk(r, entry_value(e), e->value_size); break;
    }
}

__attribute__((cold)) void reply_refused(struct shard *s, struct reply *r) {
    s->out_of_memory = true;
    reply_no_memory(r);
}

/* Is the key, if it is there, a string? The error is replied. */
static inline bool is_string(const struct key *k, struct reply *r) {
    if (LIKELY(!k->entry || entry_type(k->entry) == TYPE_STRING)) return true;
    reply_wrong_type(r);
    return false;
}

static bool size_allowed(int64_t size, int64_t more, struct reply *r) {
    int64_t total;
    if (!__builtin_add_overflow(size, more, &total) && total <= config_current()->proto_max_bulk_len) return true;
    reply_error(r, "ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    return false;
}

/* --- GET and SET --- */

static enum hop_result get(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    if (!key_read(s, h, &k)) reply_null(r);
    else if (is_string(&k, r)) reply_string(r, k.entry);
    return HOP_DONE;
}

enum {
    OPTION_NX = 1 << 0,
    OPTION_XX = 1 << 1,
    OPTION_GET = 1 << 2,
    OPTION_KEEPTTL = 1 << 3,
    OPTION_PERSIST = 1 << 4,
    OPTION_EX = 1 << 5,
    OPTION_PX = 1 << 6,
    OPTION_EXAT = 1 << 7,
    OPTION_PXAT = 1 << 8,
    OPTION_TIMES = OPTION_EX | OPTION_PX | OPTION_EXAT | OPTION_PXAT,
    OPTIONS_SET = OPTION_NX | OPTION_XX | OPTION_GET | OPTION_KEEPTTL | OPTION_TIMES,
    OPTIONS_GETEX = OPTION_PERSIST | OPTION_TIMES,
};

/* A time may be given twice (the last counts), but not two kinds of times. */
static const struct option {
    const char *word;
    unsigned flag, excludes;
} options[] = {
    {"ex", OPTION_EX, OPTION_KEEPTTL | OPTION_PERSIST | (OPTION_TIMES & ~OPTION_EX)},
    {"px", OPTION_PX, OPTION_KEEPTTL | OPTION_PERSIST | (OPTION_TIMES & ~OPTION_PX)},
    {"nx", OPTION_NX, OPTION_XX},
    {"xx", OPTION_XX, OPTION_NX},
    {"get", OPTION_GET, 0},
    {"keepttl", OPTION_KEEPTTL, OPTION_PERSIST | OPTION_TIMES},
    {"persist", OPTION_PERSIST, OPTION_KEEPTTL | OPTION_TIMES},
    {"exat", OPTION_EXAT, OPTION_KEEPTTL | OPTION_PERSIST | (OPTION_TIMES & ~OPTION_EXAT)},
    {"pxat", OPTION_PXAT, OPTION_KEEPTTL | OPTION_PERSIST | (OPTION_TIMES & ~OPTION_PXAT)},
};

static const struct option *find_option(const struct arg *a, unsigned allowed, unsigned given) {
    for (const struct option *o = options; o < options + sizeof options / sizeof *options; o++)
        if (arg_is(a, o->word)) return o->flag & allowed && !(o->excludes & given) ? o : NULL;
    return NULL;
}

/* The options from argv[at] on; amount: the argument after EX, PX, EXAT or PXAT. */
static bool parse_options(const struct hop *h, uint32_t at, unsigned allowed, unsigned *given, const struct arg **amount, struct reply *r) {
    *given = 0;
    *amount = NULL;
    for (; at < h->argc; at++) {
        const struct option *o = find_option(&h->argv[at], allowed, *given);
        bool timed = o && o->flag & OPTION_TIMES;
        if (!o || (timed && at + 1 == h->argc)) {
            reply_syntax_error(r);
            return false;
        }
        *given |= o->flag;
        if (timed) *amount = &h->argv[++at];
    }
    return true;
}

static bool option_expiry(
    const struct shard *s, const struct arg *amount, unsigned given, const char *command, int64_t *at_ms, struct reply *r) {
    return arg_expiry(s, amount, given & (OPTION_EX | OPTION_EXAT) ? UNIT_S : UNIT_MS, given & (OPTION_EX | OPTION_PX), command, at_ms, r);
}

static void set_with_options(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    unsigned given;
    const struct arg *amount;
    int64_t at_ms = EXPIRY_NONE;
    size_t reply_size = r->size;
    if (!parse_options(h, 3, OPTIONS_SET, &given, &amount, r)) return;
    if (amount && !option_expiry(s, amount, given, "set", &at_ms, r)) return;
    if (given & OPTION_KEEPTTL) at_ms = EXPIRY_KEEP;

    bool found = given & OPTION_GET ? key_read(s, h, &k) : key_write(s, h, &k);
    if (given & OPTION_GET) {
        if (!is_string(&k, r)) return;
        if (found) reply_string(r, k.entry);
        else reply_null(r);
    }
    if (given & (found ? OPTION_NX : OPTION_XX)) {
        if (!(given & OPTION_GET)) reply_null(r);
        return;
    }
    if (key_set_arg(s, &k, &h->argv[2], at_ms, KEY_SET)) {
        reply_cut(s, r, reply_size);
        reply_refused(s, r);
    } else if (!(given & OPTION_GET)) {
        reply_ok(r);
    }
}

static enum hop_result set(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    if (h->argc > 3) {
        set_with_options(s, h, r);
        return HOP_DONE;
    }
    key_write(s, h, &k);
    if (LIKELY(!key_set_arg(s, &k, &h->argv[2], EXPIRY_NONE, KEY_SET))) reply_ok(r);
    else reply_refused(s, r);
    return HOP_DONE;
}

static enum hop_result setnx(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    if (key_write(s, h, &k)) reply_int(r, 0);
    else if (key_set_arg(s, &k, &h->argv[2], EXPIRY_NONE, KEY_SET)) reply_refused(s, r);
    else reply_int(r, 1);
    return HOP_DONE;
}

static enum hop_result set_for(struct shard *s, struct hop *h, struct reply *r, enum time_unit unit, const char *command) {
    struct key k;
    int64_t at_ms;
    if (!arg_expiry(s, &h->argv[2], unit, true, command, &at_ms, r)) return HOP_DONE;
    key_write(s, h, &k);
    if (key_set_arg(s, &k, &h->argv[3], at_ms, KEY_SET)) reply_refused(s, r);
    else reply_ok(r);
    return HOP_DONE;
}
static enum hop_result setex(struct shard *s, struct hop *h, struct reply *r) { return set_for(s, h, r, UNIT_S, "setex"); }
static enum hop_result psetex(struct shard *s, struct hop *h, struct reply *r) { return set_for(s, h, r, UNIT_MS, "psetex"); }

static enum hop_result getset(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    size_t reply_size = r->size;
    bool found = key_read(s, h, &k);
    if (!is_string(&k, r)) return HOP_DONE;
    if (found) reply_string(r, k.entry);
    else reply_null(r);
    if (key_set_arg(s, &k, &h->argv[2], EXPIRY_NONE, KEY_SET)) {
        reply_cut(s, r, reply_size);
        reply_refused(s, r);
    }
    return HOP_DONE;
}

static enum hop_result getdel(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    if (!key_read(s, h, &k)) {
        reply_null(r);
    } else if (is_string(&k, r)) {
        reply_string(r, k.entry);
        key_delete(s, &k, KEY_DEL);
    }
    return HOP_DONE;
}

static enum hop_result getex(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    unsigned given;
    const struct arg *amount;
    int64_t at_ms = EXPIRY_NONE;
    size_t reply_size = r->size;
    if (!parse_options(h, 2, OPTIONS_GETEX, &given, &amount, r)) return HOP_DONE;
    if (!key_read(s, h, &k)) {
        reply_null(r);
        return HOP_DONE;
    }
    if (!is_string(&k, r)) return HOP_DONE;
    if (amount && !option_expiry(s, amount, given, "getex", &at_ms, r)) return HOP_DONE;
    reply_string(r, k.entry);
    if (given & (OPTION_EXAT | OPTION_PXAT) && at_ms <= s->now_ms) {
        key_delete(s, &k, KEY_DEL);
    } else if (given && key_set_expiry(s, &k, at_ms, amount ? KEY_EXPIRE : KEY_PERSIST)) {
        reply_cut(s, r, reply_size);
        reply_refused(s, r);
    }
    return HOP_DONE;
}

/* --- counters --- */

static bool string_int64(const struct entry *e, int64_t *out) {
    char scratch[INT64_TEXT_SIZE];
    size_t size;
    if (entry_encoding(e) == ENC_INT) return *out = entry_int(e), true;
    const char *p = entry_string(e, scratch, &size);
    return parse_int64(p, size, out);
}

static void increment(struct shard *s, struct hop *h, int64_t by, struct reply *r) {
    struct key k;
    int64_t v = 0;
    bool found = key_write(s, h, &k);
    if (!is_string(&k, r)) return;
    if (found && !string_int64(k.entry, &v)) {
        reply_not_integer(r);
    } else if (__builtin_add_overflow(v, by, &v)) {
        reply_error(r, "ERR increment or decrement would overflow");
    } else if (key_set_int(s, &k, v, EXPIRY_KEEP, KEY_INCR)) {
        reply_refused(s, r);
    } else {
        reply_int(r, v);
    }
}

static enum hop_result incr(struct shard *s, struct hop *h, struct reply *r) {
    increment(s, h, 1, r);
    return HOP_DONE;
}

static enum hop_result decr(struct shard *s, struct hop *h, struct reply *r) {
    increment(s, h, -1, r);
    return HOP_DONE;
}

static enum hop_result incrby(struct shard *s, struct hop *h, struct reply *r) {
    int64_t by;
    if (arg_int64(&h->argv[2], &by, r)) increment(s, h, by, r);
    return HOP_DONE;
}

static enum hop_result decrby(struct shard *s, struct hop *h, struct reply *r) {
    int64_t by;
    if (!arg_int64(&h->argv[2], &by, r)) return HOP_DONE;
    if (by == INT64_MIN) reply_error(r, "ERR decrement would overflow");
    else increment(s, h, -by, r);
    return HOP_DONE;
}

/* In long double, so that 0.1 + 0.2 is 0.3 to whoever reads it. */
static enum hop_result incrbyfloat(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    long double v = 0, by;
    char scratch[INT64_TEXT_SIZE], text[LONG_DOUBLE_TEXT_SIZE];
    size_t size;
    bool found = key_write(s, h, &k);
    if (!is_string(&k, r)) return HOP_DONE;
    const char *old = found ? key_string(&k, scratch, &size) : NULL;
    if ((found && !parse_long_double(old, size, &v)) || !parse_long_double(h->argv[2].p, h->argv[2].size, &by)) {
        reply_error(r, "ERR value is not a valid float");
        return HOP_DONE;
    }
    v += by;
    if (!isfinite(v)) {
        reply_error(r, "ERR increment would produce NaN or Infinity");
        return HOP_DONE;
    }
    size = format_long_double(text, v);
    if (key_set_bytes(s, &k, text, size, FORM_TEXT, EXPIRY_KEEP, KEY_INCR)) reply_refused(s, r);
    else reply_bulk(r, text, size);
    return HOP_DONE;
}

/* --- parts of strings --- */

static enum hop_result length(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    bool found = key_read(s, h, &k);
    if (is_string(&k, r)) reply_int(r, found ? (int64_t)entry_string_size(k.entry) : 0);
    return HOP_DONE;
}

static enum hop_result append(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    struct arg *more = &h->argv[2];
    bool found = key_write(s, h, &k);
    if (!is_string(&k, r)) return HOP_DONE;
    size_t size = found ? entry_string_size(k.entry) : 0;
    if (!found) {
        if (key_set_arg(s, &k, more, EXPIRY_NONE, KEY_APPEND)) reply_refused(s, r);
        else reply_int(r, more->size);
        return HOP_DONE;
    }
    if (!size_allowed((int64_t)size, more->size, r)) return HOP_DONE;
    char *p = key_make_writable(s, &k, size + more->size, true, KEY_APPEND);
    if (!p) {
        reply_refused(s, r);
        return HOP_DONE;
    }
    memcpy(p + size, more->p, more->size);
    key_after_change(s, &k, KEY_APPEND);
    reply_int(r, (int64_t)(size + more->size));
    return HOP_DONE;
}

static enum hop_result setrange(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    int64_t offset;
    const struct arg *part = &h->argv[3];
    if (!arg_int64(&h->argv[2], &offset, r)) return HOP_DONE;
    if (offset < 0) {
        reply_error(r, "ERR offset is out of range");
        return HOP_DONE;
    }
    bool found = key_write(s, h, &k);
    if (!is_string(&k, r)) return HOP_DONE;
    size_t size = found ? entry_string_size(k.entry) : 0;
    if (part->size == 0) {
        reply_int(r, (int64_t)size);
        return HOP_DONE;
    }
    if (!size_allowed(offset, part->size, r)) return HOP_DONE;
    size_t end = (size_t)offset + part->size;
    if (end > size) size = end;
    char *p = key_make_writable(s, &k, size, found, KEY_SETRANGE);
    if (!p) {
        reply_refused(s, r);
        return HOP_DONE;
    }
    memcpy(p + offset, part->p, part->size);
    key_after_change(s, &k, KEY_SETRANGE);
    reply_int(r, (int64_t)size);
    return HOP_DONE;
}

static enum hop_result getrange(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    int64_t start, end;
    char scratch[INT64_TEXT_SIZE];
    if (!arg_int64(&h->argv[2], &start, r) || !arg_int64(&h->argv[3], &end, r)) return HOP_DONE;
    bool found = key_read(s, h, &k);
    if (!is_string(&k, r)) return HOP_DONE;
    size_t size = 0;
    const char *p = found ? key_string(&k, scratch, &size) : NULL;
    bool backwards = start < 0 && end < 0 && start > end;
    if (start < 0) start = start + (int64_t)size < 0 ? 0 : start + (int64_t)size;
    if (end < 0) end = end + (int64_t)size < 0 ? 0 : end + (int64_t)size;
    if (end >= (int64_t)size) end = (int64_t)size - 1;
    if (backwards || size == 0 || start > end) {
        reply_bulk(r, "", 0);
        return HOP_DONE;
    }
    size_t n = (size_t)(end - start) + 1;
    if (entry_blob(k.entry)) reply_bulk_blob(r, entry_blob(k.entry), (size_t)start, n);
    else reply_bulk(r, p + start, n);
    return HOP_DONE;
}

/* --- several keys --- */

#define MGET_SLICE_BYTES ((size_t)64 << 10) /* that are copied in a slice */

/* In slices the hop's state is the next key + HOP_IN_SLICES. */
static enum hop_result mget(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    size_t began = r->size;
    uint64_t hits = s->stats.hits, misses = s->stats.misses;
    uint32_t i = h->state ? (uint32_t)(h->state - HOP_IN_SLICES) : 0;
    size_t full = began + (__builtin_expect(h->state != 0, 0) ? MGET_SLICE_BYTES : REPLY_GO_BYTES);
    if (!i && !(h->flags & HOP_PIECE)) reply_array(r, h->n_keys);
    for (; i < h->n_keys && LIKELY(r->size <= full); i++) {
        key_prefetch_ahead(s, h, i);
        if (key_read_nth(s, h, i, &k) && entry_type(k.entry) == TYPE_STRING) reply_string(r, k.entry);
        else reply_null(r);
    }
    if (LIKELY(i == h->n_keys)) return HOP_DONE;
    if (h->state || h->flags & HOP_PIECE) {
        h->state = HOP_IN_SLICES + i;
    } else {
        reply_cut(s, r, began);
        s->stats.hits = hits;
        s->stats.misses = misses;
    }
    return HOP_AGAIN;
}

/* Key without a value: who counts arguments by arity alone cannot see it. */
static bool pairs_complete(const struct hop *h, const char *command, struct reply *r) {
    if ((h->argc - h->key_first) % 2 == 0) return true;
    reply_errorf(r, "ERR wrong number of arguments for '%s' command", command);
    return false;
}

enum hop_result set_keys(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    if (!pairs_complete(h, "mset", r)) return HOP_DONE;
    if (h->state == ROOM_REFUSED || (h->state != ROOM_RESERVED && !key_may_set_all(s, h))) {
        reply_refused(s, r);
        return HOP_DONE;
    }
    bool refused = false;
    s->never_refused = true; /* all or nothing: from here on only the system can refuse */
    for (uint32_t i = 0; !refused && i < h->n_keys; i++) {
        key_prefetch_ahead(s, h, i);
        key_write_nth(s, h, i, &k);
        refused = key_set_arg(s, &k, hop_key(h, i) + 1, EXPIRY_NONE, KEY_SET);
    }
    s->never_refused = false;
    if (refused) reply_refused(s, r);
    else reply_ok(r);
    return HOP_DONE;
}

static enum hop_result mset_needs(struct shard *s, struct hop *h, struct reply *r) {
    reply_int(r, (int64_t)key_set_all_needs(s, h));
    return HOP_DONE;
}

static void msetnx(const struct spread *x, struct hop *h, struct reply *r) {
    struct shard *s;
    struct key k;
    if (!pairs_complete(h, "msetnx", r)) return;
    for (uint32_t i = 0; i < h->n_keys; i++) {
        if (x->n == 1) key_prefetch_ahead(x->shards[0], h, i);
        if (spread_write(x, h, i, NULL, &k)) {
            reply_int(r, 0);
            return;
        }
    }
    for (uint32_t i = 0; i < h->n_keys; i++) {
        spread_write(x, h, i, &s, &k);
        if (!key_set_arg(s, &k, hop_key(h, i) + 1, EXPIRY_NONE, KEY_SET)) continue;
        /* None of the keys was there: all or nothing is easy. */
        while (i-- > 0) {
            struct shard *at;
            if (spread_write(x, h, i, &at, &k)) key_delete(at, &k, KEY_DEL);
        }
        reply_refused(s, r);
        return;
    }
    reply_int(r, 1);
}

/* --- the rows --- */

const struct command commands_string[] = {
    {.name = "append",
        .group = "string",
        .since = "2.0.0",
        .arity = 3,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
        .acl = ACL_STRING,
        .summary = "Append a value to a key",
        .complexity =
            "O(1). The amortized time complexity is O(1) assuming the appended value is small and the already present value is of any "
            "size, since the dynamic string library used by Redis will double the free space available on every reallocation.",
        .plan = PLAN_SINGLE,
        .on_shard = append,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_INSERT)},
        .n_key_specs = 1},
    {.name = "decr",
        .group = "string",
        .since = "1.0.0",
        .arity = 2,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
        .acl = ACL_STRING,
        .summary = "Decrement the integer value of a key by one",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = decr,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_UPDATE)},
        .n_key_specs = 1},
    {.name = "decrby",
        .group = "string",
        .since = "1.0.0",
        .arity = 3,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
        .acl = ACL_STRING,
        .summary = "Decrement the integer value of a key by the given number",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = decrby,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_UPDATE)},
        .n_key_specs = 1},
    {.name = "get",
        .group = "string",
        .since = "1.0.0",
        .arity = 2,
        .flags = CMD_READONLY | CMD_FAST | CMD_VALUE_HINT,
        .acl = ACL_STRING,
        .summary = "Get the value of a key",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = get,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1},
    {.name = "getdel",
        .group = "string",
        .since = "6.2.0",
        .arity = 2,
        .flags = CMD_REPLACES | CMD_WRITE | CMD_FAST | CMD_VALUE_HINT,
        .acl = ACL_STRING,
        .summary = "Get the value of a key and delete the key",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = getdel,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_DELETE)},
        .n_key_specs = 1},
    {.name = "getex",
        .group = "string",
        .since = "6.2.0",
        .arity = -2,
        .flags = CMD_WRITE | CMD_FAST | CMD_VALUE_HINT,
        .acl = ACL_STRING,
        .summary = "Get the value of a key and optionally set its expiration",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = getex,
        .keys = {KEY_RANGE_NOTED(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_UPDATE, "RW and UPDATE because it changes the TTL")},
        .n_key_specs = 1},
    {.name = "getrange",
        .group = "string",
        .since = "2.4.0",
        .arity = 4,
        .flags = CMD_READONLY | CMD_VALUE_HINT,
        .acl = ACL_STRING,
        .summary = "Get a substring of the string stored at a key",
        .complexity =
            "O(N) where N is the length of the returned string. The complexity is ultimately determined by the returned length, but "
            "because creating a substring from an existing string is very cheap, it can be considered O(1) for small strings.",
        .plan = PLAN_SINGLE,
        .on_shard = getrange,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1},
    {.name = "getset",
        .group = "string",
        .since = "1.0.0",
        .arity = 3,
        .flags = CMD_REPLACES | CMD_WRITE | CMD_DENYOOM | CMD_FAST | CMD_VALUE_HINT,
        .acl = ACL_STRING,
        .summary = "Set the string value of a key and return its old value",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = getset,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_UPDATE)},
        .n_key_specs = 1},
    {.name = "incr",
        .group = "string",
        .since = "1.0.0",
        .arity = 2,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
        .acl = ACL_STRING,
        .summary = "Increment the integer value of a key by one",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = incr,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_UPDATE)},
        .n_key_specs = 1},
    {.name = "incrby",
        .group = "string",
        .since = "1.0.0",
        .arity = 3,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
        .acl = ACL_STRING,
        .summary = "Increment the integer value of a key by the given amount",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = incrby,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_UPDATE)},
        .n_key_specs = 1},
    {.name = "incrbyfloat",
        .group = "string",
        .since = "2.6.0",
        .arity = 3,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
        .acl = ACL_STRING,
        .summary = "Increment the float value of a key by the given amount",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = incrbyfloat,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_UPDATE)},
        .n_key_specs = 1},
    {.name = "lcs",
        .group = "string",
        .since = "7.0.0",
        .arity = -3,
        .flags = CMD_READONLY | CMD_SLICED,
        .acl = ACL_STRING,
        .summary = "Find longest common substring",
        .complexity = "O(N*M) where N and M are the lengths of s1 and s2, respectively",
        .plan = PLAN_SPREAD,
        .on_spread = lcs,
        .on_steps = lcs_steps,
        .on_shard = lcs_slice,
        .on_drop = lcs_drop,
        .keys = {KEY_RANGE(1, 1, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1},
    {.name = "mget",
        .group = "string",
        .since = "1.0.0",
        .arity = -2,
        .flags = CMD_READONLY | CMD_FAST | CMD_VALUE_HINT,
        .acl = ACL_STRING,
        .summary = "Get the values of all the given keys",
        .complexity = "O(N) where N is the number of keys to retrieve.",
        .plan = PLAN_FANOUT,
        .merge = MERGE_EACH,
        .on_shard = mget,
        .keys = {KEY_RANGE(1, -1, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1,
        .hints = (const char *const[]){"request_policy:multi_shard", NULL}},
    {.name = "mset",
        .group = "string",
        .since = "1.0.1",
        .arity = -3,
        .flags = CMD_REPLACES | CMD_WRITE | CMD_DENYOOM,
        .acl = ACL_STRING,
        .summary = "Set multiple keys to multiple values",
        .complexity = "O(N) where N is the number of keys to set.",
        .plan = PLAN_FANOUT,
        .merge = MERGE_OK,
        .on_shard = set_keys,
        .needs = mset_needs,
        .keys = {KEY_RANGE(1, -1, 2, KEY_OW | KEY_UPDATE)},
        .n_key_specs = 1,
        .hints = (const char *const[]){"request_policy:multi_shard", "response_policy:all_succeeded", NULL}},
    {.name = "msetnx",
        .group = "string",
        .since = "1.0.1",
        .arity = -3,
        .flags = CMD_WRITE | CMD_DENYOOM,
        .acl = ACL_STRING,
        .summary = "Set multiple keys to multiple values, only if none of the keys exist",
        .complexity = "O(N) where N is the number of keys to set.",
        .plan = PLAN_SPREAD,
        .on_spread = msetnx,
        .on_steps = msetnx_steps,
        .keys = {KEY_RANGE(1, -1, 2, KEY_OW | KEY_INSERT)},
        .n_key_specs = 1,
        .hints = (const char *const[]){"request_policy:multi_shard", "response_policy:agg_min", NULL}},
    {.name = "psetex",
        .group = "string",
        .since = "2.6.0",
        .arity = 4,
        .flags = CMD_REPLACES | CMD_WRITE | CMD_DENYOOM,
        .acl = ACL_STRING,
        .summary = "Set the value and expiration in milliseconds of a key",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = psetex,
        .keys = {KEY_RANGE(1, 0, 1, KEY_OW | KEY_UPDATE)},
        .n_key_specs = 1},
    {.name = "set",
        .group = "string",
        .since = "1.0.0",
        .arity = -3,
        .flags = CMD_REPLACES | CMD_WRITE | CMD_DENYOOM | CMD_CHEAP,
        .acl = ACL_STRING,
        .summary = "Set the string value of a key",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = set,
        .keys = {KEY_RANGE_NOTED(
            1, 0, 1, KEY_RW | KEY_ACCESS | KEY_UPDATE | KEY_VARIABLE_FLAGS, "RW and ACCESS due to the optional `GET` argument")},
        .n_key_specs = 1},
    {.name = "setex",
        .group = "string",
        .since = "2.0.0",
        .arity = 4,
        .flags = CMD_REPLACES | CMD_WRITE | CMD_DENYOOM,
        .acl = ACL_STRING,
        .summary = "Set the value and expiration of a key",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = setex,
        .keys = {KEY_RANGE(1, 0, 1, KEY_OW | KEY_UPDATE)},
        .n_key_specs = 1},
    {.name = "setnx",
        .group = "string",
        .since = "1.0.0",
        .arity = 3,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
        .acl = ACL_STRING,
        .summary = "Set the value of a key, only if the key does not exist",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = setnx,
        .keys = {KEY_RANGE(1, 0, 1, KEY_OW | KEY_INSERT)},
        .n_key_specs = 1},
    {.name = "setrange",
        .group = "string",
        .since = "2.2.0",
        .arity = 4,
        .flags = CMD_WRITE | CMD_DENYOOM,
        .acl = ACL_STRING,
        .summary = "Overwrite part of a string at key starting at the specified offset",
        .complexity = "O(1), not counting the time taken to copy the new string in place. Usually, this string is very small so the "
                      "amortized complexity is O(1). Otherwise, complexity is O(M) with M being the length of the value argument.",
        .plan = PLAN_SINGLE,
        .on_shard = setrange,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_UPDATE)},
        .n_key_specs = 1},
    {.name = "strlen",
        .group = "string",
        .since = "2.2.0",
        .arity = 2,
        .flags = CMD_READONLY | CMD_FAST,
        .acl = ACL_STRING,
        .summary = "Get the length of the value stored in a key",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = length,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO)},
        .n_key_specs = 1},
    {.name = "substr",
        .group = "string",
        .since = "1.0.0",
        .arity = 4,
        .flags = CMD_READONLY | CMD_VALUE_HINT,
        .acl = ACL_STRING,
        .summary = "Get a substring of the string stored at a key",
        .complexity =
            "O(N) where N is the length of the returned string. The complexity is ultimately determined by the returned length, but "
            "because creating a substring from an existing string is very cheap, it can be considered O(1) for small strings.",
        .plan = PLAN_SINGLE,
        .on_shard = getrange,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1},
    {.name = NULL},
};
