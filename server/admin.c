/* The server commands: configuration, information, flushing, the end. */
#include <signal.h>
#include <unistd.h>

#include "io/clock.h"
#include "server/conn.h"
#include "server/debug.h"
#include "server/info.h"
#include "server/introspect.h"
#include "server/latency.h"
#include "server/lolwut.h"
#include "server/memory_commands.h"
#include "server/monitor.h"
#include "server/replication.h"
#include "server/save_commands.h"
#include "server/slowlog.h"

/* ---- CONFIG ---- */

static void config_get_command(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)c;
    config_get(argv + 2, argc - 2, r);
}

#define RETIRED_FEW 16u /* old configurations (18 KB each) that wait until threads wake by themselves */

/* Every shard is held: no two CONFIG SET at a time, and what lives in the shards is set too. */
static void config_set_command(const struct spread *x, struct hop *h, struct reply *r) {
    if (h->argc % 2) {
        reply_syntax_error(r);
        return;
    }
    const struct conn *c = h->origin;
    config_set(h->argv + 2, (h->argc - 2) / 2, c->local, threads_oldest_config(), r);
    if (config_retired() > RETIRED_FEW) thread_wake_others(c->thread); /* one EXEC may have very many of these */
    for (uint32_t i = 0; i < x->n; i++) x->shards[i]->prefetch = (uint8_t)config_current()->prefetch;
    if (x->n == 1) thread_take_config(server.threads[0]);
}

static const char *const config_help[] = {"GET <pattern>", "    Return parameters matching the glob-like <pattern> and their values.",
    "SET <directive> <value>", "    Set the configuration <directive> to <value>.", "RESETSTAT",
    "    Reset statistics reported by the INFO command.", "REWRITE", "    Rewrite the configuration file.", NULL};

#define CONFIG_FLAGS (CMD_ADMIN | CMD_NOSCRIPT | CMD_LOADING | CMD_STALE)
static const char *const all_nodes[] = {"request_policy:all_nodes", "response_policy:all_succeeded", NULL};
static const struct command config_subcommands[] = {{.name = "get",
                                                        .since = "2.0.0",
                                                        .summary = "Get the values of configuration parameters",
                                                        .complexity = "O(N) when N is the number of configuration parameters provided",
                                                        .arity = -3,
                                                        .flags = CONFIG_FLAGS,
                                                        .on_connection = config_get_command},
    {.name = "set",
        .since = "2.0.0",
        .summary = "Set configuration parameters to the given values",
        .complexity = "O(N) when N is the number of configuration parameters provided",
        .arity = -4,
        .plan = PLAN_EXCLUSIVE,
        .flags = CONFIG_FLAGS | CMD_BESIDE | CMD_LOOKS_ON,
        .on_spread = config_set_command,
        .hints = all_nodes},
    {.name = "resetstat",
        .since = "2.0.0",
        .summary = "Reset the stats returned by INFO",
        .complexity = "O(1)",
        .arity = 2,
        .plan = PLAN_ALL,
        .merge = MERGE_OK,
        .flags = CONFIG_FLAGS,
        .on_shard = info_reset,
        .on_beside = info_reset_beside},
    {.name = "rewrite",
        .since = "2.8.0",
        .summary = "Rewrite the configuration file with the in memory configuration",
        .complexity = "O(1)",
        .arity = 2,
        .plan = PLAN_DISK,
        .flags = CONFIG_FLAGS,
        .on_disk = config_rewrite},
    {.name = "help",
        .since = "5.0.0",
        .summary = "Show helpful text about the different subcommands",
        .complexity = "O(1)",
        .arity = 2,
        .flags = CMD_LOADING | CMD_STALE},
    {0}};

/* ---- FLUSHDB, FLUSHALL, SWAPDB ---- */

/* ASYNC and SYNC are the same here: the keys are gone at once, and their memory follows in slices. */
static bool flush_option(const struct hop *h, struct reply *r) {
    if (h->argc == 1 || (h->argc == 2 && (arg_is(&h->argv[1], "async") || arg_is(&h->argv[1], "sync")))) return true;
    reply_syntax_error(r);
    return false;
}

static void flushdb(const struct spread *x, struct hop *h, struct reply *r) {
    if (!flush_option(h, r)) return;
    for (uint32_t i = 0; i < x->n; i++) shard_flush(x->shards[i], h->db);
    reply_ok(r);
}

static void flushall(const struct spread *x, struct hop *h, struct reply *r) {
    if (!flush_option(h, r)) return;
    for (uint32_t i = 0; i < x->n; i++)
        for (uint32_t db = 0; db < x->shards[i]->n_dbs; db++) shard_flush(x->shards[i], db);
    reply_ok(r);
}

static void swapdb(const struct spread *x, struct hop *h, struct reply *r) {
    static const char *const bad[] = {"ERR invalid first DB index", "ERR invalid second DB index"};
    int64_t db[2];
    for (int i = 0; i < 2; i++) {
        if (parse_int64(h->argv[i + 1].p, h->argv[i + 1].size, &db[i]) && db[i] >= INT32_MIN && db[i] <= INT32_MAX) continue;
        reply_error(r, bad[i]);
        return;
    }
    if (db[0] < 0 || db[1] < 0 || db[0] >= x->shards[0]->n_dbs || db[1] >= x->shards[0]->n_dbs) {
        reply_error(r, "ERR DB index is out of range");
        return;
    }
    for (uint32_t i = 0; i < x->n; i++) shard_swap(x->shards[i], (uint32_t)db[0], (uint32_t)db[1]);
    reply_ok(r);
}

/* ---- TIME, SHUTDOWN ---- */

static void time_command(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    struct timespec now;
    (void)c;
    (void)argv;
    (void)argc;
    clock_gettime(CLOCK_REALTIME, &now);
    reply_array(r, 2);
    reply_bulk_int(r, now.tv_sec);
    reply_bulk_int(r, now.tv_nsec / 1000);
}

/* ---- ACL, MODULE: what there is of them ---- */

static void acl_whoami(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)c;
    (void)argv;
    (void)argc;
    reply_bulk_text(r, "default");
}

static void module_list(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)c;
    (void)argv;
    (void)argc;
    reply_array(r, 0);
}

static const char *const acl_help[] = {"WHOAMI", "    Return the current connection username.", NULL};
static const char *const module_help[] = {"LIST", "    Return a list of loaded modules.", NULL};
static const char *const module_hints[] = {"nondeterministic_output_order", NULL};
static const char *const wait_hints[] = {"request_policy:all_shards", "response_policy:agg_min", NULL};

static const struct command acl_subcommands[] = {{.name = "whoami",
                                                     .since = "6.0.0",
                                                     .summary = "Return the name of the user associated to the current connection",
                                                     .complexity = "O(1)",
                                                     .arity = 2,
                                                     .flags = CMD_NOSCRIPT | CMD_LOADING | CMD_STALE,
                                                     .on_connection = acl_whoami},
    {.name = "help",
        .since = "6.0.0",
        .summary = "Show helpful text about the different subcommands",
        .complexity = "O(1)",
        .arity = 2,
        .flags = CMD_LOADING | CMD_STALE},
    {0}};
static const struct command module_subcommands[] = {{.name = "list",
                                                        .since = "4.0.0",
                                                        .summary = "List all modules loaded by the server",
                                                        .complexity = "O(N) where N is the number of loaded modules.",
                                                        .arity = 2,
                                                        .flags = CMD_ADMIN | CMD_NOSCRIPT,
                                                        .on_connection = module_list,
                                                        .hints = module_hints},
    {.name = "help",
        .since = "5.0.0",
        .summary = "Show helpful text about the different subcommands",
        .complexity = "O(1)",
        .arity = 2,
        .flags = CMD_LOADING | CMD_STALE},
    {0}};

static const char *const info_hints[] = {"nondeterministic_output", "request_policy:all_shards", "response_policy:special", NULL};
static const char *const output_hints[] = {"nondeterministic_output", NULL};
static const char *const order_hints[] = {"nondeterministic_output_order", NULL};
static const char *const flush_hints[] = {"request_policy:all_shards", "response_policy:all_succeeded", NULL};

const struct command commands_server[] = {{.name = "command",
                                              .group = "server",
                                              .since = "2.8.13",
                                              .summary = "Get array of Redis command details",
                                              .complexity = "O(N) where N is the total number of Redis commands",
                                              .arity = -1,
                                              .flags = CMD_LOADING | CMD_STALE,
                                              .acl = ACL_CONNECTION,
                                              .on_connection = introspect_all,
                                              .subcommands = introspect_subcommands,
                                              .help = introspect_help,
                                              .hints = order_hints},
    {.name = "acl",
        .group = "server",
        .since = "6.0.0",
        .summary = "A container for Access List Control commands ",
        .complexity = "Depends on subcommand.",
        .arity = -2,
        .subcommands = acl_subcommands,
        .help = acl_help},
    {.name = "bgsave",
        .group = "server",
        .since = "1.0.0",
        .summary = "Asynchronously save the dataset to disk",
        .complexity = "O(1)",
        .arity = -1,
        .plan = PLAN_EXCLUSIVE,
        .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_NO_ASYNC_LOADING | CMD_LOOKS_ON,
        .on_spread = bgsave_command},
    {.name = "wait",
        .group = "generic",
        .since = "3.0.0",
        .summary = "Wait for the synchronous replication of all the write commands sent in the context of the current connection",
        .complexity = "O(1)",
        .arity = 3,
        .flags = CMD_NOSCRIPT,
        .acl = ACL_CONNECTION,
        .on_connection = wait_command,
        .hints = wait_hints},
    {.name = "config",
        .group = "server",
        .since = "2.0.0",
        .summary = "A container for server configuration commands",
        .complexity = "Depends on subcommand.",
        .arity = -2,
        .subcommands = config_subcommands,
        .help = config_help},
    {.name = "debug",
        .group = "server",
        .since = "1.0.0",
        .summary = "A container for debugging commands",
        .complexity = "Depends on subcommand.",
        .arity = -2,
        .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_PROTECTED,
        .subcommands = debug_subcommands,
        .help = debug_help},
    {.name = "flushall",
        .group = "server",
        .since = "1.0.0",
        .summary = "Remove all keys from all databases",
        .complexity = "O(N) where N is the total number of keys in all databases",
        .arity = -1,
        .plan = PLAN_EXCLUSIVE,
        .flags = CMD_WRITE,
        .acl = ACL_KEYSPACE | ACL_DANGEROUS,
        .on_spread = flushall,
        .hints = flush_hints},
    {.name = "flushdb",
        .group = "server",
        .since = "1.0.0",
        .summary = "Remove all keys from the current database",
        .complexity = "O(N) where N is the number of keys in the selected database",
        .arity = -1,
        .plan = PLAN_EXCLUSIVE,
        .flags = CMD_WRITE,
        .acl = ACL_KEYSPACE | ACL_DANGEROUS,
        .on_spread = flushdb,
        .hints = flush_hints},
    {.name = "info",
        .group = "server",
        .since = "1.0.0",
        .summary = "Get information and statistics about the server",
        .complexity = "O(1)",
        .arity = -1,
        .plan = PLAN_ALL,
        .merge = MERGE_CUSTOM,
        .flags = CMD_LOADING | CMD_STALE | CMD_SLICED,
        .acl = ACL_DANGEROUS,
        .on_shard = info_piece,
        .on_beside = info_beside,
        .merge_custom = info_merge,
        .hints = info_hints},
    {.name = "lastsave",
        .group = "server",
        .since = "1.0.0",
        .summary = "Get the UNIX time stamp of the last successful save to disk",
        .complexity = "O(1)",
        .arity = 1,
        .flags = CMD_LOADING | CMD_STALE | CMD_FAST,
        .acl = ACL_ADMIN | ACL_DANGEROUS,
        .on_connection = lastsave_command,
        .hints = output_hints},
    {.name = "latency",
        .group = "server",
        .since = "2.8.13",
        .summary = "A container for latency diagnostics commands",
        .complexity = "Depends on subcommand.",
        .arity = -2,
        .subcommands = latency_subcommands,
        .help = latency_help},
    {.name = "lolwut",
        .group = "server",
        .since = "5.0.0",
        .summary = "Display some computer art and the Redis version",
        .arity = -1,
        .flags = CMD_READONLY | CMD_FAST,
        .on_connection = lolwut_command},
    {.name = "memory",
        .group = "server",
        .since = "4.0.0",
        .summary = "A container for memory diagnostics commands",
        .complexity = "Depends on subcommand.",
        .arity = -2,
        .subcommands = memory_subcommands,
        .help = memory_help},
    {.name = "module",
        .group = "server",
        .since = "4.0.0",
        .summary = "A container for module commands",
        .complexity = "Depends on subcommand.",
        .arity = -2,
        .subcommands = module_subcommands,
        .help = module_help},
    {.name = "monitor",
        .group = "server",
        .since = "1.0.0",
        .summary = "Listen for all requests received by the server in real time",
        .arity = 1,
        .plan = PLAN_ALL,
        .merge = MERGE_CUSTOM,
        .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_LOADING | CMD_STALE,
        .on_shard = monitor_piece,
        .on_beside = monitor_piece,
        .merge_custom = monitor_merge},
    {.name = "replicaof",
        .group = "server",
        .since = "5.0.0",
        .summary = "Make the server a replica of another instance, or promote it as master.",
        .complexity = "O(1)",
        .arity = 3,
        .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_STALE | CMD_NO_ASYNC_LOADING,
        .on_connection = replicaof_command},
    {.name = "role",
        .group = "server",
        .since = "2.8.12",
        .summary = "Return the role of the instance in the context of replication",
        .complexity = "O(1)",
        .arity = 1,
        .flags = CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_FAST,
        .acl = ACL_ADMIN | ACL_DANGEROUS,
        .on_connection = role_command},
    {.name = "save",
        .group = "server",
        .since = "1.0.0",
        .summary = "Synchronously save the dataset to disk",
        .complexity = "O(N) where N is the total number of keys in all databases",
        .arity = 1,
        .plan = PLAN_COURSE,
        .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_NO_ASYNC_LOADING | CMD_NO_MULTI | CMD_LOOKS_ON,
        .on_course = save_command},
    {.name = "shutdown",
        .group = "server",
        .since = "1.0.0",
        .summary = "Synchronously save the dataset to disk and then shut down the server",
        .complexity = "O(N) when saving, where N is the total number of keys in all databases when saving data, otherwise O(1)",
        .arity = -1,
        .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_NO_MULTI | CMD_ALLOW_BUSY,
        .plan = PLAN_COURSE,
        .on_course = shutdown_command},
    {.name = "slaveof",
        .group = "server",
        .since = "1.0.0",
        .summary = "Make the server a replica of another instance, or promote it as master.",
        .complexity = "O(1)",
        .arity = 3,
        .flags = CMD_ADMIN | CMD_NOSCRIPT | CMD_STALE | CMD_NO_ASYNC_LOADING,
        .on_connection = replicaof_command},
    {.name = "slowlog",
        .group = "server",
        .since = "2.2.12",
        .summary = "A container for slow log commands",
        .complexity = "Depends on subcommand.",
        .arity = -2,
        .subcommands = slowlog_subcommands,
        .help = slowlog_help},
    {.name = "swapdb",
        .group = "server",
        .since = "4.0.0",
        .summary = "Swaps two Redis databases",
        .complexity = "O(N) where N is the count of clients watching or blocking on keys from both databases.",
        .arity = 3,
        .plan = PLAN_EXCLUSIVE,
        .flags = CMD_WRITE | CMD_FAST,
        .acl = ACL_KEYSPACE | ACL_DANGEROUS,
        .on_spread = swapdb},
    {.name = "time",
        .group = "server",
        .since = "2.6.0",
        .summary = "Return the current server time",
        .complexity = "O(1)",
        .arity = 1,
        .flags = CMD_LOADING | CMD_STALE | CMD_FAST,
        .on_connection = time_command,
        .hints = output_hints},
    {0}};
