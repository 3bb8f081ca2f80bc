#include "server/debug.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "server/conn.h"
#include "server/debug_blockpop.h"
#include "server/debug_digest.h"
#include "server/debug_populate.h"
#include "server/debug_reload.h"
#include "server/debug_replies.h"
#include "server/debug_schedule.h"
#include "server/debug_table.h"
#include "server/keys.h"
#include "server/lists.h"
#include "server/route.h"
#include "server/thread.h"
#include "shard/container.h"

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
    char text[512];
    int n = snprintf(text, sizeof text, "Value at:%p refcount:1 encoding:%s serializedlength:%zu lru:%u lru_seconds_idle:%u",
        (void *)k.entry, encoding_name(k.entry), size + 1, k.entry->access, key_idle_s(s, k.entry));
    if (entry_type(k.entry) == TYPE_LIST) {
        struct list x = open_list(s, &k);
        snprintf(text + n, sizeof text - (size_t)n,
            " ql_nodes:%u ql_avg_node:%.2f ql_listpack_max:%d ql_compressed:0 ql_uncompressed_size:%zu", list_nodes(&x),
            (double)list_count(&x) / list_nodes(&x), x.fill, size);
    }
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

const char *const debug_help[] = {"BATCH <tick|connection>",
    "    Run what came in once a turn of a thread, or after each connection's input: to measure what batches over clients bring.",
    "BLOCKPOP <timeout> <key> [<key> ...]",
    "    Like BLPOP, of strings: take away the first of the keys that is there, and reply with its name and value. Wait for one if there "
    "is none.",
    "CHANGE-REPL-ID", "    Change the replication ID of the instance.", "DIGEST",
    "    Output a hex signature of all data, the same as of Redis. Everything stands still meanwhile.", "DIGEST-VALUE <key> [<key> ...]",
    "    Output a hex signature of the values of all the specified keys.", "ERROR <string>",
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
    "RELOAD [NOSAVE] [NOFLUSH] [MERGE]",
    "    Save the data, drop them, and load them again. NOSAVE: the file that is there; NOFLUSH: beside what is there; MERGE: a key that "
    "is there is replaced.",
    "SCHEDULE", "    Show the transactions under way: the queue of each shard, with intents, and the state of each on its thread.",
    "SET-ACTIVE-EXPIRE <0|1>",
    "    Setting it to 0 disables expiring keys in the background when they are not accessed (otherwise the Redis behavior).",
    "SLEEP <seconds>", "    Stop the server for <seconds>. Decimals allowed.", NULL};

#define DEBUG_FLAGS (CMD_ADMIN | CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_PROTECTED)
const struct command debug_subcommands[] = {
    {.name = "sleep", .arity = 3, .plan = PLAN_EXCLUSIVE, .flags = DEBUG_FLAGS | CMD_LOOKS_ON, .on_spread = debug_sleep},
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
    {.name = "digest", .arity = 2, .plan = PLAN_EXCLUSIVE, .flags = DEBUG_FLAGS, .on_spread = debug_digest},
    {.name = "digest-value",
        .arity = -3,
        .plan = PLAN_FANOUT,
        .merge = MERGE_EACH,
        .flags = DEBUG_FLAGS,
        .on_shard = debug_digest_value,
        .keys = {KEY_RANGE(2, -1, 1, KEY_RO)},
        .n_key_specs = 1},
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
    {.name = "reload", .arity = -2, .plan = PLAN_COURSE, .flags = DEBUG_FLAGS | CMD_NO_MULTI, .on_course = debug_reload},
    {.name = "loadaof", .arity = 2, .flags = DEBUG_FLAGS, .on_connection = debug_senseless},
    {.name = "aof-flush-sleep", .arity = 3, .flags = DEBUG_FLAGS, .on_connection = debug_senseless},
    {.name = "replicate", .arity = -3, .flags = DEBUG_FLAGS, .on_connection = debug_senseless},
    {.name = "restart", .arity = -2, .flags = DEBUG_FLAGS, .on_connection = debug_senseless},
    {.name = "crash-and-recover", .arity = -2, .flags = DEBUG_FLAGS, .on_connection = debug_senseless},
    {.name = "help", .arity = 2, .flags = DEBUG_FLAGS}, {0}};
