#include "server/debug.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/conn.h"
#include "server/debug_blockpop.h"
#include "server/debug_replies.h"
#include "server/debug_schedule.h"
#include "server/debug_table.h"
#include "server/keys.h"
#include "server/route.h"
#include "server/thread.h"
#include "shard/container.h"

#define POPULATE_SLICE 256u   /* keys of one slice: about 100 us */
#define POPULATE_LARGE 65536u /* bytes of a value from which on a slice makes one key: it is made of the system's zeros where it can be */
#define POPULATE_KEY_MAX 512u

/* ---- SLEEP: everything stands still, as in a server of one thread ---- */

static void debug_sleep(const struct spread *x, struct hop *h, struct reply *r) {
    (void)x;
    char text[64];
    size_t n = h->argv[2].size < sizeof text - 1 ? h->argv[2].size : sizeof text - 1;
    memcpy(text, h->argv[2].p, n);
    text[n] = 0;
    double s = strtod(text, NULL);
    if (s > 0 && s < 1e6) {
        struct timespec left = {.tv_sec = (time_t)s, .tv_nsec = (long)((s - floor(s)) * 1e9)};
        while (nanosleep(&left, &left) && errno == EINTR) {}
    }
    reply_ok(r);
}

/* ---- OBJECT ---- */

static enum hop_result debug_object(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    if (!key_look(s, s->dbs[h->db], h->hash, h->argv[2].p, h->argv[2].size, &k)) {
        reply_error(r, "ERR no such key");
        return HOP_DONE;
    }
    size_t size = entry_type(k.entry) == TYPE_STRING ? entry_string_size(k.entry) : container_memory(k.entry);
    char text[256];
    snprintf(text, sizeof text, "Value at:%p refcount:1 encoding:%s serializedlength:%zu lru:%u lru_seconds_idle:%u", (void *)k.entry,
        encoding_name(k.entry), size + 1, k.entry->access, key_idle_s(s, k.entry));
    reply_status(r, text);
    return HOP_DONE;
}

/* ---- SET-ACTIVE-EXPIRE ---- */

static enum hop_result debug_set_active_expire(struct shard *s, struct hop *h, struct reply *r) {
    s->active_expire = !(h->argv[2].size == 1 && h->argv[2].p[0] == '0');
    reply_ok(r);
    return HOP_DONE;
}

/* ---- ROUTE, BATCH: what hops and batches over clients cost, for measuring ---- */

static enum hop_result debug_route(struct shard *s, struct hop *h, struct reply *r) {
    struct thread *t = server.threads[s->id];
    bool local = arg_is(&h->argv[2], "local");
    if (!local && !arg_is(&h->argv[2], "hash")) {
        reply_error(r, "ERR the route is HASH or LOCAL");
        return HOP_DONE;
    }
    t->route_first = local ? t->id : 0;
    t->route_n = local ? 1 : t->n_threads;
    reply_ok(r);
    return HOP_DONE;
}

static enum hop_result debug_batch(struct shard *s, struct hop *h, struct reply *r) {
    bool each = arg_is(&h->argv[2], "connection");
    if (!each && !arg_is(&h->argv[2], "tick")) {
        reply_error(r, "ERR a batch is of a TICK or of a CONNECTION");
        return HOP_DONE;
    }
    server.threads[s->id]->flush_each = each;
    reply_ok(r);
    return HOP_DONE;
}

/* ---- POPULATE: each shard makes its own keys, in slices ---- */

struct population {
    const char *prefix;
    size_t prefix_size;
    int64_t count, size;
};

static bool population_of(const struct hop *h, struct population *p, struct reply *r) {
    *p = (struct population){.prefix = "key", .prefix_size = 3, .size = -1};
    bool good = parse_int64(h->argv[2].p, h->argv[2].size, &p->count) && p->count >= 0;
    if (h->argc > 5) {
        reply_subcommand_error(r, &h->argv[1], "DEBUG");
        return false;
    }
    if (h->argc > 3) {
        p->prefix = h->argv[3].p;
        p->prefix_size = h->argv[3].size;
    }
    if (h->argc > 4) good &= parse_int64(h->argv[4].p, h->argv[4].size, &p->size) && p->size >= 0 && p->size <= 512 << 20;
    if (!good || p->prefix_size > POPULATE_KEY_MAX - 24) {
        reply_error(r, "ERR value is out of range, must be positive");
        return false;
    }
    return true;
}

struct populated {
    char name[POPULATE_KEY_MAX];
    uint32_t size;
    uint64_t hash;
    int64_t n;
};

static bool populate_one(struct shard *s, struct db *db, const struct population *p, const struct populated *one, char *value) {
    struct key k;
    if (key_find(s, db, one->hash, one->name, one->size, &k)) return true;
    int digits = snprintf(value, 32, "value:%lld", (long long)one->n);
    size_t size = p->size <= 0 ? (size_t)digits : (size_t)p->size;
    if (size >= POPULATE_LARGE) {
        char *bytes = key_make_writable(s, &k, size, false, KEY_SET);
        if (!bytes) return false;
        memcpy(bytes, value, (size_t)digits);
        key_after_change(s, &k, KEY_SET);
        return true;
    }
    if (size > (size_t)digits) value[digits] = 0; /* snprintf's own NUL is part of the zeros */
    return key_set_bytes(s, &k, value, size, FORM_ANY, EXPIRY_NONE, KEY_SET) == 0;
}

static enum hop_result debug_populate(struct shard *s, struct hop *h, struct reply *r) {
    struct population p;
    struct populated group[HOP_GROUP];
    if (!population_of(h, &p, r)) return HOP_DONE;
    bool large = p.size >= POPULATE_LARGE;
    char *value = calloc(1, (p.size > 0 && !large ? (size_t)p.size : 0) + 64);
    if (!value) {
        reply_no_memory(r);
        return HOP_DONE;
    }
    struct db *db = s->dbs[h->db];
    bool enough = true;
    for (uint32_t made = 0; made < POPULATE_SLICE && enough && (int64_t)h->state < p.count;) {
        uint32_t n = 0, seen = 0;
        for (; n < (large ? 1 : HOP_GROUP) && seen < 16 * HOP_GROUP && (int64_t)h->state < p.count; h->state++, seen++) {
            struct populated *one = &group[n];
            memcpy(one->name, p.prefix, p.prefix_size);
            one->name[p.prefix_size] = ':';
            one->size = (uint32_t)p.prefix_size + 1 + format_int64(one->name + p.prefix_size + 1, (int64_t)h->state);
            one->hash = hash_key(s->secret, one->name, one->size);
            one->n = (int64_t)h->state;
            struct arg name = {one->name, one->size, 0};
            if (s->shards > 1 && route_shard(route_slot(s->secret, &name, one->hash), s->shards) != s->id) continue;
            table_prefetch_directory(&db->keys, one->hash);
            n++;
        }
        for (uint32_t i = 0; i < n; i++) table_prefetch_buckets(&db->keys, group[i].hash, true, true);
        for (uint32_t i = 0; i < n && enough; i++) enough = populate_one(s, db, &p, &group[i], value);
        made += large && n ? POPULATE_SLICE : seen;
    }
    free(value);
    if (!enough) reply_no_memory(r);
    else if ((int64_t)h->state >= p.count) reply_ok(r);
    /* It is not known whether a client that sends no more still reads: this is for one that does. */
    else if (atomic_load_explicit(&((struct conn *)h->origin)->left, memory_order_relaxed))
        reply_error(r, "ERR stopped before all keys were made: the client closed its end");
    else return HOP_AGAIN;
    return HOP_DONE;
}

const char *const debug_help[] = {"BATCH <tick|connection>",
    "    Run what came in once a turn of a thread, or after each connection's input: to measure what batches over clients bring.",
    "BLOCKPOP <timeout> <key> [<key> ...]",
    "    Like BLPOP, of strings: take away the first of the keys that is there, and reply with its name and value. Wait for one if there "
    "is none.",
    "CHANGE-REPL-ID", "    Change the replication ID of the instance.", "ERROR <string>",
    "    Return a protocol error with <string> as message.", "LOG <message>", "    Write <message> to the server log.", "PANIC",
    "    Crash the server simulating a panic.", "PROTOCOL <type>",
    "    Reply with a test value of the specified type. <type> can be: string,",
    "    integer, double, bignum, null, array, set, map, attrib, push, verbatim,", "    true, false.", "QUICKLIST-PACKED-THRESHOLD <size>",
    "    Accepted: lists decide for themselves.", "SEGFAULT", "    Crash the server with sigsegv.", "STRINGMATCH-LEN <pattern> <text>",
    "    Reply 1 if the glob matches the text.", "HTSTATS <dbid> [full]",
    "    Show the statistics of a database's table: of all shards together; full: and of each.", "HTSTATS-KEY <key> [full]",
    "    Like HTSTATS, of the table of a key's value.", "OBJECT <key>", "    Show low level info about a key and its value.",
    "POPULATE <count> [<prefix>] [<size>]",
    "    Create <count> string keys named key:<num>. If <prefix> is specified it is used instead of the 'key' prefix.",
    "ROUTE <hash|local>",
    "    local: every key is on the shard of the thread that the client is connected to, so that each thread has its own keys: to measure "
    "what hops cost.",
    "SCHEDULE", "    Show the transactions under way: the queue of each shard, with intents, and the state of each on its thread.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Setting it to 0 disables expiring keys in the background when they are not accessed (otherwise the Redis behavior).",
    "SLEEP <seconds>", "    Stop the server for <seconds>. Decimals allowed.", NULL};

#define DEBUG_FLAGS (CMD_ADMIN | CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_PROTECTED)
const struct command debug_subcommands[] = {
    {.name = "sleep", .arity = 3, .plan = PLAN_EXCLUSIVE, .flags = DEBUG_FLAGS, .on_spread = debug_sleep},
    {.name = "object",
        .arity = 3,
        .plan = PLAN_SINGLE,
        .flags = DEBUG_FLAGS,
        .on_shard = debug_object,
        .keys = {KEY_RANGE(2, 0, 1, KEY_RO)},
        .n_key_specs = 1},
    {.name = "set-active-expire",
        .arity = 3,
        .plan = PLAN_ALL,
        .merge = MERGE_OK,
        .flags = DEBUG_FLAGS,
        .on_shard = debug_set_active_expire},
    {.name = "route", .arity = 3, .plan = PLAN_ALL, .merge = MERGE_OK, .flags = DEBUG_FLAGS, .on_shard = debug_route},
    {.name = "batch", .arity = 3, .plan = PLAN_ALL, .merge = MERGE_OK, .flags = DEBUG_FLAGS, .on_shard = debug_batch},
    {.name = "blockpop",
        .arity = -4,
        .plan = PLAN_BLOCKING,
        .flags = DEBUG_FLAGS | CMD_WRITE | CMD_BLOCKING,
        .blocking = &debug_blockpop,
        .on_shard = waiting_at_once,
        .keys = {KEY_RANGE(3, -1, 1, KEY_RW | KEY_ACCESS | KEY_DELETE)},
        .n_key_specs = 1},
    {.name = "schedule", .arity = 2, .plan = PLAN_ALL, .merge = MERGE_TEXT, .flags = DEBUG_FLAGS | CMD_SLICED, .on_shard = debug_schedule},
    {.name = "populate",
        .arity = -3,
        .plan = PLAN_ALL,
        .merge = MERGE_OK,
        .flags = DEBUG_FLAGS | CMD_WRITE | CMD_SLICED,
        .on_shard = debug_populate},
    {.name = "htstats",
        .arity = -3,
        .plan = PLAN_ALL,
        .merge = MERGE_CUSTOM,
        .flags = DEBUG_FLAGS | CMD_SLICED,
        .on_shard = debug_htstats,
        .merge_custom = debug_htstats_merge},
    {.name = "htstats-key",
        .arity = -3,
        .plan = PLAN_SINGLE,
        .flags = DEBUG_FLAGS,
        .on_shard = debug_htstats_key,
        .keys = {KEY_RANGE(2, 0, 1, KEY_RO)},
        .n_key_specs = 1},
    {.name = "protocol", .arity = 3, .flags = DEBUG_FLAGS, .on_connection = debug_protocol},
    {.name = "error", .arity = 3, .flags = DEBUG_FLAGS, .on_connection = debug_error},
    {.name = "log", .arity = 3, .flags = DEBUG_FLAGS, .on_connection = debug_log},
    {.name = "segfault", .arity = 2, .flags = DEBUG_FLAGS, .on_connection = debug_segfault},
    {.name = "panic", .arity = 2, .flags = DEBUG_FLAGS, .on_connection = debug_panic},
    {.name = "quicklist-packed-threshold", .arity = 3, .flags = DEBUG_FLAGS, .on_connection = debug_packed_threshold},
    {.name = "change-repl-id", .arity = 2, .flags = DEBUG_FLAGS, .on_connection = debug_change_repl_id},
    {.name = "stringmatch-len", .arity = 4, .flags = DEBUG_FLAGS, .on_connection = debug_stringmatch},
    {.name = "replybuffer", .arity = 4, .flags = DEBUG_FLAGS, .on_connection = debug_accepted},
    {.name = "pause-cron", .arity = 3, .flags = DEBUG_FLAGS, .on_connection = debug_accepted},
    {.name = "set-skip-checksum-validation", .arity = 3, .flags = DEBUG_FLAGS, .on_connection = debug_accepted},
    {.name = "reload", .arity = -2, .flags = DEBUG_FLAGS, .on_connection = debug_senseless},
    {.name = "loadaof", .arity = 2, .flags = DEBUG_FLAGS, .on_connection = debug_senseless},
    {.name = "aof-flush-sleep", .arity = 3, .flags = DEBUG_FLAGS, .on_connection = debug_senseless},
    {.name = "replicate", .arity = -3, .flags = DEBUG_FLAGS, .on_connection = debug_senseless},
    {.name = "restart", .arity = -2, .flags = DEBUG_FLAGS, .on_connection = debug_senseless},
    {.name = "crash-and-recover", .arity = -2, .flags = DEBUG_FLAGS, .on_connection = debug_senseless},
    {.name = "help", .arity = 2, .flags = DEBUG_FLAGS}, {0}};
