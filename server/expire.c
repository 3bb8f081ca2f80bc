/* The times of keys. In this file: amounts; EXPIRE and its kin; TTL and its kin; PERSIST; the rows. */
#include "server/expire.h"

#include "server/strings.h"

static void reply_invalid_expiry(struct reply *r, const char *command) {
    reply_errorf(r, "ERR invalid expire time in '%s' command", command);
}

/* EXPIRY_NONE is no time: who asks for the last millisecond of all gets the one before. */
static int64_t clamp(int64_t at_ms) { return at_ms == EXPIRY_NONE ? EXPIRY_NONE - 1 : at_ms; }

bool arg_expiry(const struct shard *s, const struct arg *amount, enum time_unit unit, bool relative, const char *command, int64_t *at_ms,
    struct reply *r) {
    int64_t v;
    if (!arg_int64(amount, &v, r)) return false;
    bool fits =
        v > 0 && (unit == UNIT_MS || !__builtin_mul_overflow(v, 1000, &v)) && (!relative || !__builtin_add_overflow(v, s->now_ms, &v));
    if (fits) *at_ms = clamp(v);
    else reply_invalid_expiry(r, command);
    return fits;
}

/* --- EXPIRE --- */

enum { COND_NX = 1, COND_XX = 2, COND_GT = 4, COND_LT = 8 };

static bool parse_conditions(const struct hop *h, unsigned *out, struct reply *r) {
    static const struct {
        const char *word;
        unsigned flag;
    } words[] = {{"nx", COND_NX}, {"xx", COND_XX}, {"gt", COND_GT}, {"lt", COND_LT}};
    *out = 0;
    for (uint32_t i = 3; i < h->argc; i++) {
        unsigned flag = 0;
        for (size_t w = 0; w < sizeof words / sizeof *words; w++)
            if (arg_is(&h->argv[i], words[w].word)) flag = words[w].flag;
        if (!flag) {
            reply_errorf(r, "ERR Unsupported option %.*s", (int)(h->argv[i].size < 512 ? h->argv[i].size : 512), h->argv[i].p);
            return false;
        }
        *out |= flag;
    }
    if (*out & COND_NX && *out & (COND_XX | COND_GT | COND_LT)) {
        reply_error(r, "ERR NX and XX, GT or LT options at the same time are not compatible");
        return false;
    }
    if (*out & COND_GT && *out & COND_LT) {
        reply_error(r, "ERR GT and LT options at the same time are not compatible");
        return false;
    }
    return true;
}

/* A key without a time lives for ever: nothing is later, everything is sooner. */
static bool holds(unsigned conditions, const struct entry *e, int64_t at_ms) {
    if (conditions & COND_NX && entry_expires(e)) return false;
    if (conditions & COND_XX && !entry_expires(e)) return false;
    if (conditions & COND_GT && at_ms <= entry_expiry(e)) return false;
    if (conditions & COND_LT && at_ms >= entry_expiry(e)) return false;
    return true;
}

static enum hop_result expire_key(
    struct shard *s, struct hop *h, struct reply *r, enum time_unit unit, bool relative, const char *command) {
    struct key k;
    unsigned conditions;
    int64_t at_ms;
    if (!parse_conditions(h, &conditions, r) || !arg_int64(&h->argv[2], &at_ms, r)) return HOP_DONE;
    if ((unit == UNIT_S && __builtin_mul_overflow(at_ms, 1000, &at_ms)) || (relative && __builtin_add_overflow(at_ms, s->now_ms, &at_ms))) {
        reply_invalid_expiry(r, command);
        return HOP_DONE;
    }
    at_ms = clamp(at_ms);
    if (!key_write(s, h, &k) || !holds(conditions, k.entry, at_ms)) {
        reply_int(r, 0);
        return HOP_DONE;
    }
    if (at_ms <= s->now_ms) {
        key_delete(s, &k, KEY_DEL);
    } else if (key_set_expiry(s, &k, at_ms, KEY_EXPIRE)) {
        reply_refused(s, r);
        return HOP_DONE;
    }
    reply_int(r, 1);
    return HOP_DONE;
}

static enum hop_result expire(struct shard *s, struct hop *h, struct reply *r) { return expire_key(s, h, r, UNIT_S, true, "expire"); }
static enum hop_result pexpire(struct shard *s, struct hop *h, struct reply *r) { return expire_key(s, h, r, UNIT_MS, true, "pexpire"); }
static enum hop_result expireat(struct shard *s, struct hop *h, struct reply *r) { return expire_key(s, h, r, UNIT_S, false, "expireat"); }
static enum hop_result pexpireat(struct shard *s, struct hop *h, struct reply *r) {
    return expire_key(s, h, r, UNIT_MS, false, "pexpireat");
}

static enum hop_result persist(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    bool changes = key_write(s, h, &k) && entry_expires(k.entry);
    if (changes && key_set_expiry(s, &k, EXPIRY_NONE, KEY_PERSIST)) reply_refused(s, r);
    else reply_int(r, changes);
    return HOP_DONE;
}

/* --- TTL --- */

/* The key's time, counted from from_ms, in seconds (rounded) or ms; -1: none; -2: no key. Not a use of the key: its access clock stays. */
static enum hop_result reply_time(struct shard *s, struct hop *h, struct reply *r, enum time_unit unit, int64_t from_ms) {
    struct key k;
    bool found = key_peek_nth(s, h, 0, &k);
    if (!found || !entry_expires(k.entry)) {
        reply_int(r, found ? -1 : -2);
        return HOP_DONE;
    }
    int64_t ms = entry_expiry(k.entry) - from_ms;
    if (ms < 0) ms = 0;
    reply_int(r, unit == UNIT_MS ? ms : ms / 1000 + (ms % 1000 >= 500));
    return HOP_DONE;
}

static enum hop_result ttl(struct shard *s, struct hop *h, struct reply *r) { return reply_time(s, h, r, UNIT_S, s->now_ms); }
static enum hop_result pttl(struct shard *s, struct hop *h, struct reply *r) { return reply_time(s, h, r, UNIT_MS, s->now_ms); }
static enum hop_result expiretime(struct shard *s, struct hop *h, struct reply *r) { return reply_time(s, h, r, UNIT_S, 0); }
static enum hop_result pexpiretime(struct shard *s, struct hop *h, struct reply *r) { return reply_time(s, h, r, UNIT_MS, 0); }

/* --- the rows --- */

const struct command commands_expire[] = {
    {.name = "expire",
        .group = "generic",
        .since = "1.0.0",
        .arity = -3,
        .flags = CMD_WRITE | CMD_FAST,
        .acl = ACL_KEYSPACE,
        .summary = "Set a key's time to live in seconds",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = expire,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_UPDATE)},
        .n_key_specs = 1},
    {.name = "expireat",
        .group = "generic",
        .since = "1.2.0",
        .arity = -3,
        .flags = CMD_WRITE | CMD_FAST,
        .acl = ACL_KEYSPACE,
        .summary = "Set the expiration for a key as a UNIX timestamp",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = expireat,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_UPDATE)},
        .n_key_specs = 1},
    {.name = "expiretime",
        .group = "generic",
        .since = "7.0.0",
        .arity = 2,
        .flags = CMD_READONLY | CMD_FAST,
        .acl = ACL_KEYSPACE,
        .summary = "Get the expiration Unix timestamp for a key",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = expiretime,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1},
    {.name = "persist",
        .group = "generic",
        .since = "2.2.0",
        .arity = 2,
        .flags = CMD_WRITE | CMD_FAST,
        .acl = ACL_KEYSPACE,
        .summary = "Remove the expiration from a key",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = persist,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_UPDATE)},
        .n_key_specs = 1},
    {.name = "pexpire",
        .group = "generic",
        .since = "2.6.0",
        .arity = -3,
        .flags = CMD_WRITE | CMD_FAST,
        .acl = ACL_KEYSPACE,
        .summary = "Set a key's time to live in milliseconds",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = pexpire,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_UPDATE)},
        .n_key_specs = 1},
    {.name = "pexpireat",
        .group = "generic",
        .since = "2.6.0",
        .arity = -3,
        .flags = CMD_WRITE | CMD_FAST,
        .acl = ACL_KEYSPACE,
        .summary = "Set the expiration for a key as a UNIX timestamp specified in milliseconds",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = pexpireat,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_UPDATE)},
        .n_key_specs = 1},
    {.name = "pexpiretime",
        .group = "generic",
        .since = "7.0.0",
        .arity = 2,
        .flags = CMD_READONLY | CMD_FAST,
        .acl = ACL_KEYSPACE,
        .summary = "Get the expiration Unix timestamp for a key in milliseconds",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = pexpiretime,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1},
    {.name = "pttl",
        .group = "generic",
        .since = "2.6.0",
        .arity = 2,
        .flags = CMD_READONLY | CMD_FAST,
        .acl = ACL_KEYSPACE,
        .summary = "Get the time to live for a key in milliseconds",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = pttl,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1,
        .hints = (const char *const[]){"nondeterministic_output", NULL}},
    {.name = "ttl",
        .group = "generic",
        .since = "1.0.0",
        .arity = 2,
        .flags = CMD_READONLY | CMD_FAST,
        .acl = ACL_KEYSPACE,
        .summary = "Get the time to live for a key in seconds",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = ttl,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1,
        .hints = (const char *const[]){"nondeterministic_output", NULL}},
    {.name = NULL},
};
