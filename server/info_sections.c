/* INFO's sections: Redis' names and order, so that its tools find what they look for. What does not exist here (forks, replicas, an append log) is 0;
 * what would have to be made up is left out.
 */
#include <math.h>
#include <mimalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "io/clock.h"
#include "server/build_id.h"
#include "server/config_table.h"
#include "server/info_figures.h"
#include "server/loading.h"
#include "server/replication.h"
#include "server/saving.h"
#include "server/service.h"
#include "server/version.h"

typedef unsigned long long ull;

static void number(struct text *x, const char *name, uint64_t v) { text_add(x, "%s:%llu\r\n", name, (ull)v); }
static void decimal(struct text *x, const char *name, double v) { text_add(x, "%s:%.2f\r\n", name, v); }
static void word(struct text *x, const char *name, const char *v) { text_add(x, "%s:%s\r\n", name, v); }

/* A size in bytes, and once more for people. */
static void size(struct text *x, const char *name, uint64_t bytes) {
    char text[32];
    text_human(bytes, text);
    text_add(x, "%s:%llu\r\n%s_human:%s\r\n", name, (ull)bytes, name, text);
}

/* What does not exist is none. */
static void none(struct text *x, const char *const *names) {
    for (; *names; names++) number(x, *names, 0);
}
#define NONE(x, ...) none(x, (const char *const[]){__VA_ARGS__, NULL})

static double ratio(uint64_t a, uint64_t b) { return b ? (double)a / (double)b : 0.0; }

static void server_section(struct text *x, const struct sums *s) {
    const struct config *c = config_current();
    struct utsname u;
    struct timespec now;
    char exe[512];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n < 0 ? 0 : n] = 0;
    (void)s;
    if (uname(&u)) memset(&u, 0, sizeof u);
    clock_gettime(CLOCK_REALTIME, &now);
    uint64_t up_s = (now_monotonic_ns() - server.started_ns) / 1000000000u;
    text_add(x, "# Server\r\n");
    word(x, "redis_version", c->reported_redis_version);
    text_add(x, "redis_git_sha1:00000000\r\n");
    number(x, "redis_git_dirty", 0);
    word(x, "redis_build_id", build_id());
    word(x, "darter_version", DARTER_VERSION);
    word(x, "redis_mode", "standalone");
    text_add(x, "os:%s %s %s\r\n", u.sysname, u.release, u.machine);
    number(x, "arch_bits", sizeof(void *) * 8);
    word(x, "monotonic_clock", "POSIX clock_gettime");
    word(x, "multiplexing_api", proactor_kind_of(server.threads[0]->proactor) == PROACTOR_URING ? "io_uring" : "epoll");
    word(x, "atomicvar_api", "c11-builtin");
    text_add(x, "gcc_version:%d.%d.%d\r\n", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__);
    number(x, "process_id", (uint64_t)getpid());
    word(x, "process_supervised", service_supervisor());
    word(x, "run_id", server.run_id);
    number(x, "tcp_port", (uint64_t)c->port);
    number(x, "server_time_usec", (uint64_t)now.tv_sec * 1000000 + (uint64_t)now.tv_nsec / 1000);
    number(x, "uptime_in_seconds", up_s);
    number(x, "uptime_in_days", up_s / 86400);
    number(x, "hz", (uint64_t)c->hz);
    number(x, "configured_hz", (uint64_t)c->hz);
    number(x, "lru_clock", (uint64_t)now.tv_sec & 0xffffff);
    number(x, "threads", server.n_threads);
    word(x, "executable", exe);
    word(x, "config_file", c->config_file);
    number(x, "io_threads_active", 0);
}

static void clients_section(struct text *x, const struct sums *s) {
    text_add(x, "# Clients\r\n");
    number(x, "connected_clients", s->all.thread.clients);
    number(x, "cluster_connections", 0);
    number(x, "maxclients", (uint64_t)config_current()->maxclients);
    number(x, "client_recent_max_input_buffer", s->clients.input_max);
    number(x, "client_recent_max_output_buffer", s->clients.output_max);
    number(x, "blocked_clients", s->all.thread.blocked);
    NONE(x, "tracking_clients");
    number(x, "clients_in_timeout_table", s->all.thread.blocked_in_time);
}

static void memory_limits(struct text *x, const struct config *c) {
    const struct directive *d = directive_find("maxmemory-policy");
    size(x, "maxmemory", (uint64_t)c->maxmemory);
    if (d) {
        char policy[DIRECTIVE_SHOW_MAX];
        directive_show(d, c, policy);
        word(x, "maxmemory_policy", policy);
    }
}

static void memory_section(struct text *x, const struct sums *s) {
    const struct memory_stats *m = &s->all.memory;
    uint64_t overhead = s->all.table_bytes + s->clients.bytes + s->all.startup_bytes,
             active = m->reserved + m->used_large + s->clients.bytes;
    if (overhead > s->used) overhead = s->used;
    uint64_t held = s->used - overhead, above_start = s->used > s->all.startup_bytes ? s->used - s->all.startup_bytes : 0;
    text_add(x, "# Memory\r\n");
    size(x, "used_memory", s->used);
    size(x, "used_memory_rss", s->resident);
    size(x, "used_memory_peak", s->peak);
    text_add(x, "used_memory_peak_perc:%.2f%%\r\n", 100 * ratio(s->used, s->peak));
    number(x, "used_memory_overhead", overhead);
    number(x, "used_memory_startup", s->all.startup_bytes);
    number(x, "used_memory_dataset", held);
    text_add(x, "used_memory_dataset_perc:%.2f%%\r\n", 100 * ratio(held, above_start));
    number(x, "allocator_allocated", s->used);
    number(x, "allocator_active", active);
    number(x, "allocator_reserved", m->reserved);
    number(x, "allocator_resident", s->anonymous);
    size(x, "total_system_memory", (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE));
    NONE(x, "used_memory_lua", "used_memory_vm_eval");
    text_add(x, "used_memory_lua_human:0B\r\n");
    NONE(x, "used_memory_scripts_eval", "number_of_cached_scripts", "number_of_functions", "number_of_libraries",
        "used_memory_vm_functions");
    size(x, "used_memory_vm_total", 0);
    number(x, "used_memory_functions", 0);
    size(x, "used_memory_scripts", 0);
    memory_limits(x, config_current());
    decimal(x, "allocator_frag_ratio", ratio(active, s->used));
    text_add(x, "allocator_frag_bytes:%lld\r\n", (long long)active - (long long)s->used);
    decimal(x, "allocator_rss_ratio", ratio(s->anonymous, active));
    text_add(x, "allocator_rss_bytes:%lld\r\n", (long long)s->anonymous - (long long)active);
    decimal(x, "rss_overhead_ratio", ratio(s->resident, s->anonymous));
    text_add(x, "rss_overhead_bytes:%lld\r\n", (long long)s->resident - (long long)s->anonymous);
    decimal(x, "mem_fragmentation_ratio", ratio(s->resident, s->used));
    text_add(x, "mem_fragmentation_bytes:%lld\r\n", (long long)s->resident - (long long)s->used);
    number(x, "mem_not_counted_for_evict", s->clients.bytes);
    NONE(x, "mem_replication_backlog", "mem_total_replication_buffers", "mem_clients_slaves");
    number(x, "mem_clients_normal", s->clients.bytes);
    NONE(x, "mem_cluster_links", "mem_aof_buffer");
    text_add(x, "mem_allocator:mimalloc-%d.%d.%d\r\n", MI_MALLOC_VERSION / 100, MI_MALLOC_VERSION / 10 % 10, MI_MALLOC_VERSION % 10);
    NONE(x, "active_defrag_running", "lazyfree_pending_objects", "lazyfreed_objects");
}

/* The rest at the pace so far; one second as long as there is none. */
static void loading_progress(struct text *x, const struct loading_info *l) {
    int64_t elapsed_s = now_realtime_ms() / 1000 - l->began_s;
    uint64_t left = l->total_bytes - l->loaded_bytes, eta_s = elapsed_s > 0 ? (uint64_t)elapsed_s * left / (l->loaded_bytes + 1) : 1;
    number(x, "loading_start_time", (uint64_t)l->began_s);
    number(x, "loading_total_bytes", l->total_bytes);
    number(x, "loading_rdb_used_mem", l->used_mem);
    number(x, "loading_loaded_bytes", l->loaded_bytes);
    decimal(x, "loading_loaded_perc", l->total_bytes ? (double)l->loaded_bytes / (double)l->total_bytes * 100 : 0);
    number(x, "loading_eta_seconds", eta_s);
}

static void persistence_section(struct text *x, const struct sums *s) {
    text_add(x, "# Persistence\r\n");
    struct saving_info saving;
    struct loading_info loading;
    saving_info(&saving);
    loading_info(&loading);
    number(x, "loading", loading.running);
    NONE(x, "async_loading", "current_cow_size_age");
    number(x, "current_cow_peak", saving.extra_peak);
    number(x, "current_cow_size", saving.extra);
    decimal(x, "current_fork_perc", 0);
    number(x, "current_save_keys_processed", saving.keys);
    number(x, "current_save_keys_total", saving.keys_total);
    number(x, "rdb_changes_since_last_save", s->all.shard.dirty - saving.dirty_before);
    number(x, "rdb_bgsave_in_progress", saving.running);
    number(x, "rdb_last_save_time", (uint64_t)saving.last_save_s);
    word(x, "rdb_last_bgsave_status", saving.last_failed ? "err" : "ok");
    text_add(x, "rdb_last_bgsave_time_sec:%lld\r\nrdb_current_bgsave_time_sec:%lld\r\n", (long long)saving.last_took_s,
        (long long)saving.running_s);
    number(x, "rdb_saves", saving.saves);
    number(x, "rdb_last_cow_size", saving.extra_last);
    number(x, "rdb_last_load_keys_expired", loading.expired);
    number(x, "rdb_last_load_keys_loaded", loading.keys);
    NONE(x, "aof_enabled", "aof_rewrite_in_progress", "aof_rewrite_scheduled");
    text_add(x, "aof_last_rewrite_time_sec:-1\r\naof_current_rewrite_time_sec:-1\r\n");
    word(x, "aof_last_bgrewrite_status", "ok");
    NONE(x, "aof_rewrites", "aof_rewrites_consecutive_failures");
    word(x, "aof_last_write_status", "ok");
    NONE(x, "aof_last_cow_size", "module_fork_in_progress", "module_fork_last_cow_size");
    if (loading.running) loading_progress(x, &loading);
}

static void stats_section(struct text *x, const struct sums *s) {
    const struct thread_stats *t = &s->all.thread;
    const struct shard_stats *d = &s->all.shard;
    text_add(x, "# Stats\r\n");
    number(x, "total_connections_received", t->connections);
    number(x, "total_commands_processed", t->commands);
    number(x, "instantaneous_ops_per_sec", (uint64_t)llround(s->all.commands_a_second));
    number(x, "total_net_input_bytes", t->input_bytes);
    number(x, "total_net_output_bytes", t->output_bytes);
    NONE(x, "total_net_repl_input_bytes", "total_net_repl_output_bytes");
    decimal(x, "instantaneous_input_kbps", s->all.input_kbps);
    decimal(x, "instantaneous_output_kbps", s->all.output_kbps);
    text_add(x, "instantaneous_input_repl_kbps:0.00\r\ninstantaneous_output_repl_kbps:0.00\r\n");
    number(x, "rejected_connections", t->rejected);
    NONE(x, "sync_full", "sync_partial_ok", "sync_partial_err");
    number(x, "expired_keys", d->expired_active + d->expired_lazy);
    number(x, "expired_subkeys", d->expired_fields);
    number(x, "expired_keys_active", d->expired_active);
    number(x, "expired_keys_lazy", d->expired_lazy);
    text_add(x, "expired_stale_perc:0.00\r\n");
    number(x, "expired_time_cap_reached_count", t->keep_unfinished);
    number(x, "expire_cycle_cpu_milliseconds", t->keep_ns / 1000000);
    number(x, "longest_expire_slice_usec", t->longest_keep_ns / 1000);
    number(x, "evicted_clients", t->evicted_clients);
    NONE(x, "evicted_keys", "total_eviction_exceeded_time", "current_eviction_exceeded_time");
    number(x, "keyspace_hits", d->hits);
    number(x, "keyspace_misses", d->misses);
    NONE(x, "pubsub_channels", "pubsub_patterns", "pubsubshard_channels", "latest_fork_usec", "total_forks", "migrate_cached_sockets",
        "slave_expires_tracked_keys", "active_defrag_hits", "active_defrag_misses", "active_defrag_key_hits", "active_defrag_key_misses",
        "total_active_defrag_time", "current_active_defrag_time", "tracking_total_keys", "tracking_total_items", "tracking_total_prefixes",
        "unexpected_error_replies");
    number(x, "total_error_replies", t->errors);
    number(x, "dump_payload_sanitizations", 0);
    number(x, "total_reads_processed", t->reads);
    number(x, "total_writes_processed", t->sends);
    NONE(x, "io_threaded_reads_processed", "io_threaded_writes_processed", "reply_buffer_shrinks", "reply_buffer_expands");
    number(x, "prefetch_groups", d->groups);
    number(x, "prefetched_hops", d->prefetched);
    decimal(x, "prefetch_distance_avg", ratio(d->ahead, d->prefetched) / 2);
}

static void replication_section(struct text *x, const struct sums *s) {
    char id[REPLICATION_ID_SIZE + 1];
    (void)s;
    replication_id(id);
    text_add(x, "# Replication\r\nrole:master\r\n");
    number(x, "connected_slaves", 0);
    word(x, "master_failover_state", "no-failover");
    word(x, "master_replid", id);
    word(x, "master_replid2", "0000000000000000000000000000000000000000");
    text_add(x, "master_repl_offset:0\r\nsecond_repl_offset:-1\r\n");
    NONE(x, "repl_backlog_active", "repl_backlog_size", "repl_backlog_first_byte_offset", "repl_backlog_histlen");
}

static void seconds(struct text *x, const char *name, struct timeval t) {
    text_add(x, "%s:%ld.%06ld\r\n", name, (long)t.tv_sec, (long)t.tv_usec);
}

/* Of the thread that main() runs in; the kernel tells it in clock ticks. False: it does not tell. */
static bool main_thread_cpu(struct timeval *user, struct timeval *system) {
    char path[64], text[1024];
    unsigned long long u, s, ticks = (unsigned long long)sysconf(_SC_CLK_TCK);
    snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)getpid());
    FILE *f = fopen(path, "re");
    if (!f) return false;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    const char *rest = strrchr(text, ')'); /* the name before it may hold anything */
    if (!rest || sscanf(rest, ") %*c %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %llu %llu", &u, &s) != 2) return false;
    *user = (struct timeval){(time_t)(u / ticks), (suseconds_t)(u % ticks * 1000000 / ticks)};
    *system = (struct timeval){(time_t)(s / ticks), (suseconds_t)(s % ticks * 1000000 / ticks)};
    return true;
}

static void cpu_section(struct text *x, const struct sums *s) {
    struct rusage self, children;
    struct timeval user, system;
    (void)s;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    text_add(x, "# CPU\r\n");
    seconds(x, "used_cpu_sys", self.ru_stime);
    seconds(x, "used_cpu_user", self.ru_utime);
    seconds(x, "used_cpu_sys_children", children.ru_stime);
    seconds(x, "used_cpu_user_children", children.ru_utime);
    if (!main_thread_cpu(&user, &system)) return;
    seconds(x, "used_cpu_sys_main_thread", system);
    seconds(x, "used_cpu_user_main_thread", user);
}

static void modules_section(struct text *x, const struct sums *s) {
    (void)s;
    text_add(x, "# Modules\r\n");
}

/* Times of cheap commands are a sample, scaled to all calls. */
static void commandstats_section(struct text *x, const struct sums *s) {
    double ns = measure_ns_per_cycle();
    text_add(x, "# Commandstats\r\n");
    for (uint32_t i = 1; i < COMMAND_ROWS_MAX; i++) {
        const struct command_stats *c = &s->commands[i];
        char name[COMMAND_FULL_NAME];
        if (!c->calls && !c->rejected) continue;
        command_full_name(command_by_number((uint16_t)i), name);
        double each_us = c->timed ? (double)c->cycles * ns / 1000 / (double)c->timed : 0;
        text_add(x, "cmdstat_%s:calls=%llu,usec=%.0f,usec_per_call=%.2f,rejected_calls=%llu,failed_calls=%llu\r\n", name, (ull)c->calls,
            each_us * (double)c->calls, each_us, (ull)c->rejected, (ull)c->failed);
    }
}

static void errorstats_section(struct text *x, const struct sums *s) {
    text_add(x, "# Errorstats\r\n");
    for (uint32_t i = 0; i < s->n_errors; i++) text_add(x, "errorstat_%s:count=%llu\r\n", s->errors[i].word, (ull)s->errors[i].count);
}

/* latency-tracking-info-percentiles says which. */
static void percentiles(struct text *x, const struct histogram *h, double us_a_unit) {
    const char *p = config_current()->latency_tracking_info_percentiles;
    for (bool first = true;; first = false) {
        char *end;
        double part = strtod(p, &end);
        if (end == p) return;
        text_add(x, "%sp%g=%.3f", first ? "" : ",", part, (double)histogram_percentile(h, part / 100) * us_a_unit);
        p = end;
    }
}

static void latencystats_section(struct text *x, const struct sums *s) {
    double us = measure_ns_per_cycle() / 1000;
    text_add(x, "# Latencystats\r\n");
    for (uint32_t i = 1; i < COMMAND_ROWS_MAX && config_current()->latency_tracking; i++) {
        const struct histogram *h = s->commands[i].histogram;
        char name[COMMAND_FULL_NAME];
        if (!h || !h->n) continue;
        command_full_name(command_by_number((uint16_t)i), name);
        text_add(x, "latency_percentiles_usec_%s:", name);
        percentiles(x, h, us);
        text_add(x, "\r\n");
    }
}

static void cluster_section(struct text *x, const struct sums *s) {
    (void)s;
    text_add(x, "# Cluster\r\ncluster_enabled:0\r\n");
}

/* avg_ttl is estimated from a few keys. */
static void keyspace_section(struct text *x, const struct sums *s) {
    text_add(x, "# Keyspace\r\n");
    for (uint32_t i = 0; i < s->n_dbs; i++) {
        const struct db_figures *d = &s->dbs[i];
        if (d->keys)
            text_add(x, "db%u:keys=%llu,expires=%llu,avg_ttl=%llu\r\n", i, (ull)d->keys, (ull)d->expiring,
                (ull)(d->ttls ? d->ttl_sum_ms / d->ttls : 0));
    }
}

/* How long the thread was busy in one go, by cause; a thread that the machine does not let run is busy as well, but for long commands and
 * housekeeping, which are CPU time. */
static void slices(struct text *x, uint32_t thread, const char *p) {
    static const char *const names[SLICE_CAUSES] = {"tick", "batch", "task", "long", "housekeeping", "growth", "lent"};
    for (size_t i = 0; i < SLICE_CAUSES; i++, p += sizeof(struct slices)) {
        struct slices c;
        memcpy(&c, p, sizeof c);
        double us = i >= SLICE_LONG && i <= SLICE_GROW ? 0.001 : measure_ns_per_cycle() / 1000;
        text_add(x, "thread%u_%s:slices=%llu,usec=%.0f,p50_usec=%.1f,p99_usec=%.1f,p99.9_usec=%.1f,longest_usec=%.1f\r\n", thread, names[i],
            (ull)c.histogram.n, (double)c.total * us, c.histogram.n ? (double)histogram_percentile(&c.histogram, 0.5) * us : 0,
            c.histogram.n ? (double)histogram_percentile(&c.histogram, 0.99) * us : 0,
            c.histogram.n ? (double)histogram_percentile(&c.histogram, 0.999) * us : 0, (double)c.longest * us);
    }
}

/* Those that the thread coordinated; and what its shard saw of all. */
static void transactions(struct text *x, uint32_t thread, const struct figures *f) {
    const struct thread_stats *t = &f->thread;
    const struct schedule_stats *s = &f->schedule;
    text_add(x,
        "thread%u_transactions:count=%llu,whole_database=%llu,withdrawn=%llu,given_up=%llu,scheduled=%llu,immediate=%llu,late=%llu,"
        "deferred=%llu"
        ",out_of_order=%llu,prefetched_keys=%llu\r\n",
        thread, (ull)t->transactions, (ull)t->transactions_whole, (ull)t->withdrawn, (ull)t->given_up, (ull)s->scheduled, (ull)s->immediate,
        (ull)s->late, (ull)s->deferred, (ull)s->out_of_order, (ull)f->shard.scheduled_ahead);
}

static void threads_section(struct text *x, const struct sums *s) {
    text_add(x, "# Threads\r\n");
    for (uint32_t i = 0; i < s->n; i++) {
        struct figures f;
        const char *p = figures_of(s->pieces[i], &f);
        const struct thread_stats *t = &f.thread;
        text_add(x, "thread%u:clients=%llu,commands=%llu,commands_per_sec=%.0f,ticks=%llu,sleeps=%llu,wakes=%llu,reads=%llu,sends=%llu", i,
            (ull)t->clients, (ull)t->commands, f.commands_a_second, (ull)t->ticks, (ull)t->sleeps, (ull)t->wakes, (ull)t->reads,
            (ull)t->sends);
        text_add(x,
            ",hops_sent=%llu,batches_sent=%llu,hops_taken=%llu,batches_taken=%llu,hops_per_batch=%.2f,tasks=%llu,exclusives=%llu"
            ",lends=%llu,lent_hops=%llu,found_lent=%llu,wanted=%llu\r\n",
            (ull)t->hops_sent, (ull)t->batches_sent, (ull)t->hops_taken, (ull)t->batches_taken, ratio(t->hops_sent, t->batches_sent),
            (ull)t->tasks, (ull)t->exclusives, (ull)t->lends, (ull)t->lent_hops, (ull)t->found_lent, (ull)t->wanted);
        transactions(x, i, &f);
        if (p) slices(x, i, p);
    }
}

const struct section info_sections[] = {{"server", server_section, true}, {"clients", clients_section, true},
    {"memory", memory_section, true}, {"persistence", persistence_section, true}, {"stats", stats_section, true},
    {"replication", replication_section, true}, {"cpu", cpu_section, true}, {"modules", modules_section, true},
    {"commandstats", commandstats_section, false}, {"errorstats", errorstats_section, true}, {"latencystats", latencystats_section, false},
    {"cluster", cluster_section, true}, {"keyspace", keyspace_section, true}, {"threads", threads_section, false}, {NULL, NULL, false}};
