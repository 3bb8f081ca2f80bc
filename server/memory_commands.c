#include "server/memory_commands.h"

#include <mimalloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/info.h"
#include "server/info_figures.h"
#include "server/regions.h"
#include "shard/keyspace.h"

/* ---- USAGE ---- */

/* SAMPLES is checked; a string has nothing to be sampled. */
static enum hop_result usage(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    for (uint32_t i = 3; i < h->argc; i += 2) {
        int64_t samples;
        if (!arg_is(&h->argv[i], "samples") || i + 1 == h->argc) reply_syntax_error(r);
        else if (!arg_int64(&h->argv[i + 1], &samples, r)) return HOP_DONE;
        else if (samples < 0) reply_syntax_error(r);
        else continue;
        return HOP_DONE;
    }
    if (key_look(s, s->dbs[h->db], h->hash, h->argv[2].p, h->argv[2].size, &k)) reply_int(r, (int64_t)key_memory(k.entry));
    else reply_null(r);
    return HOP_DONE;
}

/* ---- STATS ---- */

static void number(struct reply *r, const char *name, int64_t v) {
    reply_bulk_text(r, name);
    reply_int(r, v);
}

static void ratio(struct reply *r, const char *name, double a, double b) {
    reply_bulk_text(r, name);
    reply_double(r, b > 0 ? a / b : 0);
}

static void stats_db(struct reply *r, uint32_t db, const struct db_figures *d) {
    char name[32];
    snprintf(name, sizeof name, "db.%u", db);
    reply_bulk_text(r, name);
    reply_map(r, 3);
    number(r, "overhead.hashtable.main", (int64_t)d->table_bytes);
    number(r, "overhead.hashtable.expires", 0); /* times lie in the entries */
    number(r, "overhead.hashtable.slot-to-keys", 0);
}

static void stats_merge(const struct hop *h, struct reply *const *pieces, uint32_t n, struct reply *r) {
    struct sums s;
    (void)h;
    if (!sums_make(&s, pieces, n)) {
        reply_no_memory(r);
        sums_drop(&s);
        return;
    }
    uint64_t keys = 0, startup = s.all.startup_bytes, overhead = s.all.table_bytes + s.clients.bytes + startup;
    size_t dbs = 0;
    if (overhead > s.used) overhead = s.used;
    uint64_t held = s.used - overhead, above_start = s.used > startup ? s.used - startup : 0;
    uint64_t active = s.all.memory.reserved + s.all.memory.used_large + s.clients.bytes;
    for (uint32_t i = 0; i < s.n_dbs; i++) {
        keys += s.dbs[i].keys;
        dbs += s.dbs[i].keys != 0;
    }
    reply_map(r, 27 + dbs);
    number(r, "peak.allocated", (int64_t)s.peak);
    number(r, "total.allocated", (int64_t)s.used);
    number(r, "startup.allocated", (int64_t)startup);
    number(r, "replication.backlog", 0);
    number(r, "clients.slaves", 0);
    number(r, "clients.normal", (int64_t)s.clients.bytes);
    number(r, "cluster.links", 0);
    number(r, "aof.buffer", 0);
    number(r, "lua.caches", 0);
    number(r, "functions.caches", 0);
    for (uint32_t i = 0; i < s.n_dbs; i++)
        if (s.dbs[i].keys) stats_db(r, i, &s.dbs[i]);
    number(r, "overhead.total", (int64_t)overhead);
    number(r, "keys.count", (int64_t)keys);
    number(r, "keys.bytes-per-key", (int64_t)(keys ? above_start / keys : 0));
    number(r, "dataset.bytes", (int64_t)held);
    ratio(r, "dataset.percentage", 100 * (double)held, (double)above_start);
    ratio(r, "peak.percentage", 100 * (double)s.used, (double)s.peak);
    number(r, "allocator.allocated", (int64_t)s.used);
    number(r, "allocator.active", (int64_t)active);
    number(r, "allocator.resident", (int64_t)s.resident);
    ratio(r, "allocator-fragmentation.ratio", (double)active, (double)s.used);
    number(r, "allocator-fragmentation.bytes", (int64_t)active - (int64_t)s.used);
    ratio(r, "allocator-rss.ratio", (double)s.resident, (double)active);
    number(r, "allocator-rss.bytes", (int64_t)s.resident - (int64_t)active);
    ratio(r, "rss-overhead.ratio", 1, 1); /* what is not the allocator's is not told apart */
    number(r, "rss-overhead.bytes", 0);
    ratio(r, "fragmentation", (double)s.resident, (double)s.used);
    number(r, "fragmentation.bytes", (int64_t)s.resident - (int64_t)s.used);
    sums_drop(&s);
}

/* ---- DOCTOR ---- */

#define SMALL_BYTES (5u << 20) /* below this fixed costs outweigh all else */

static void doctor_merge(const struct hop *h, struct reply *const *pieces, uint32_t n, struct reply *r) {
    struct sums s;
    struct text x = {malloc(1024), 0, 1024};
    (void)h;
    if (!sums_make(&s, pieces, n) || !x.p) {
        reply_no_memory(r);
        sums_drop(&s);
        free(x.p);
        return;
    }
    char peak[32], used[32], rss[32];
    text_human(s.peak, peak);
    text_human(s.used, used);
    text_human(s.resident, rss);
    if (s.used < SMALL_BYTES)
        text_add(&x, "This instance is empty or holds very little: fixed costs outweigh the data, and nothing can be said about it.\n");
    else {
        if (s.peak > s.used + s.used / 2)
            text_add(&x,
                " * Peak memory: at its peak the data took %s, and now %s. What is free is kept for a while; MEMORY PURGE gives it back at "
                "once.\n",
                peak, used);
        if (s.resident > s.used + s.used / 2)
            text_add(&x,
                " * High fragmentation: the process takes %s for %s of data. See allocator_active in INFO memory; MEMORY PURGE may help.\n",
                rss, used);
        if (s.all.thread.clients && s.clients.bytes / s.all.thread.clients > 200 << 10)
            text_add(&x,
                " * Big client buffers: more than 200 KB a client. See CLIENT LIST for who does not read its replies, and "
                "client-output-buffer-limit.\n");
        if (!x.size) text_add(&x, "No memory issue was found in this instance.\n");
    }
    reply_verbatim(r, "txt", x.p, x.size);
    sums_drop(&s);
    free(x.p);
}

/* ---- PURGE, MALLOC-STATS ---- */

static enum hop_result purge_piece(struct shard *s, struct hop *h, struct reply *r) {
    (void)h;
    if (memory_wants_trim(s->memory)) {
        regions_give_back_spare(s->memory);
        if (memory_wants_trim(s->memory)) return HOP_AGAIN;
    }
    mi_collect(true);
    reply_ok(r);
    return HOP_DONE;
}

static void append(const char *text, void *to) { text_add(to, "%s", text); }

static void show_allocator(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    struct text x = {malloc(4096), 0, 4096};
    (void)c;
    (void)argv;
    (void)argc;
    if (!x.p) {
        reply_no_memory(r);
        return;
    }
    mi_stats_print_out(append, &x);
    reply_verbatim(r, "txt", x.p, x.size);
    free(x.p);
}

/* ---- the rows ---- */

const char *const memory_help[] = {"DOCTOR", "    Return memory problems reports.", "MALLOC-STATS",
    "    Return internal statistics report from the memory allocator.", "PURGE",
    "    Attempt to purge dirty pages for reclamation by the allocator.", "STATS",
    "    Return information about the memory usage of the server.", "USAGE <key> [SAMPLES <count>]",
    "    Return memory in bytes used by <key> and its value. Nested values are",
    "    sampled up to <count> times (default: 5, 0 means sample all).", NULL};

static const char *const ask_all[] = {"nondeterministic_output", "request_policy:all_shards", "response_policy:special", NULL};
static const char *const tell_all[] = {"request_policy:all_shards", "response_policy:all_succeeded", NULL};

const struct command memory_subcommands[] = {{.name = "usage",
                                                 .since = "4.0.0",
                                                 .summary = "Estimate the memory usage of a key",
                                                 .complexity = "O(N) where N is the number of samples.",
                                                 .arity = -3,
                                                 .plan = PLAN_SINGLE,
                                                 .flags = CMD_READONLY,
                                                 .on_shard = usage,
                                                 .keys = {KEY_RANGE(2, 0, 1, KEY_RO)},
                                                 .n_key_specs = 1},
    {.name = "doctor",
        .since = "4.0.0",
        .summary = "Outputs memory problems report",
        .complexity = "O(1)",
        .arity = 2,
        .plan = PLAN_ALL,
        .merge = MERGE_CUSTOM,
        .flags = CMD_SLICED,
        .on_shard = info_piece,
        .merge_custom = doctor_merge,
        .hints = ask_all},
    {.name = "malloc-stats",
        .since = "4.0.0",
        .summary = "Show allocator internal stats",
        .complexity = "Depends on how much memory is allocated, could be slow",
        .arity = 2,
        .on_connection = show_allocator,
        .hints = ask_all},
    {.name = "stats",
        .since = "4.0.0",
        .summary = "Show memory usage details",
        .complexity = "O(1)",
        .arity = 2,
        .plan = PLAN_ALL,
        .merge = MERGE_CUSTOM,
        .flags = CMD_SLICED,
        .on_shard = info_piece,
        .merge_custom = stats_merge,
        .hints = ask_all},
    {.name = "purge",
        .since = "4.0.0",
        .summary = "Ask the allocator to release memory",
        .complexity = "Depends on how much memory is allocated, could be slow",
        .arity = 2,
        .plan = PLAN_ALL,
        .merge = MERGE_OK,
        .flags = CMD_SLICED,
        .on_shard = purge_piece,
        .hints = tell_all},
    {.name = "help",
        .since = "4.0.0",
        .summary = "Show helpful text about the different subcommands",
        .complexity = "O(1)",
        .arity = 2,
        .flags = CMD_LOADING | CMD_STALE},
    {0}};
