#include "server/info.h"

#include <mimalloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "io/clock.h"
#include "server/thread.h"
#include "server/version.h"

/* A piece is raw: figures, those of each database, those of the commands that ran, and of the errors. */
struct figures {
    struct shard_stats shard;
    struct thread_stats thread;
    struct memory_stats memory;
    uint32_t n_dbs, n_commands, n_errors;
};
struct db_figures {
    uint64_t keys, expiring;
};
struct command_figures {
    uint32_t row;
    bool with_histogram;
    struct command_stats stats;
};

static bool wants(const struct hop *h, const char *section) {
    for (uint32_t a = 1; a < h->argc; a++)
        if (arg_is(&h->argv[a], section) || arg_is(&h->argv[a], "all") || arg_is(&h->argv[a], "everything")) return true;
    return false;
}

enum hop_result info_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct thread *t = server.threads[s->id];
    struct figures f = {.shard = s->stats, .thread = t->stats, .n_dbs = s->n_dbs, .n_errors = t->measure.n_errors};
    bool histograms = wants(h, "latencystats");
    memory_stats(s->memory, &f.memory);
    for (uint32_t i = 1; i < COMMAND_ROWS_MAX; i++) f.n_commands += t->measure.commands[i].calls || t->measure.commands[i].rejected;
    reply_bytes(r, (const char *)&f, sizeof f);
    for (uint32_t i = 0; i < s->n_dbs; i++) {
        struct db_figures d = {s->dbs[i]->keys.count, s->dbs[i]->expiring};
        reply_bytes(r, (const char *)&d, sizeof d);
    }
    for (uint32_t i = 1; i < COMMAND_ROWS_MAX; i++) {
        struct command_figures c = {.row = i, .stats = t->measure.commands[i]};
        if (!c.stats.calls && !c.stats.rejected) continue;
        c.with_histogram = histograms && c.stats.histogram;
        reply_bytes(r, (const char *)&c, sizeof c);
        if (c.with_histogram) reply_bytes(r, (const char *)c.stats.histogram, sizeof *c.stats.histogram);
    }
    reply_bytes(r, (const char *)t->measure.errors, t->measure.n_errors * sizeof *t->measure.errors);
    return HOP_DONE;
}

enum hop_result info_reset(struct shard *s, struct hop *h, struct reply *r) {
    (void)h;
    struct thread_stats *t = &server.threads[s->id]->stats;
    uint64_t clients = t->clients, dirty = s->stats.dirty;
    *t = (struct thread_stats){.clients = clients};
    s->stats = (struct shard_stats){.dirty = dirty};
    measure_reset(&server.threads[s->id]->measure);
    reply_ok(r);
    return HOP_DONE;
}

/* ---- the text ---- */

struct text {
    char *p;
    size_t size, capacity;
};

static void add(struct text *x, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *x, const char *format, ...) {
    for (;;) {
        va_list args;
        va_start(args, format);
        int n = vsnprintf(x->p + x->size, x->capacity - x->size, format, args);
        va_end(args);
        if (n < 0) return;
        if (x->size + (size_t)n < x->capacity) {
            x->size += (size_t)n;
            return;
        }
        size_t capacity = x->capacity * 2 + (size_t)n;
        char *p = realloc(x->p, capacity);
        if (!p) return;
        x->p = p;
        x->capacity = capacity;
    }
}

struct sums {
    struct shard_stats shard;
    struct thread_stats thread;
    struct memory_stats memory;
    const struct reply *const *pieces;
    uint32_t n;
    struct command_stats *commands; /* by row, with merged histograms */
    struct error_stats errors[MEASURE_ERRORS_MAX];
    uint32_t n_errors;
};

static void human(uint64_t bytes, char *out, size_t size) {
    static const char units[] = "BKMGTPE";
    double v = (double)bytes;
    int unit = 0;
    for (; v >= 1024 && unit < 6; unit++) v /= 1024;
    if (unit) snprintf(out, size, "%.2f%c", v, units[unit]);
    else snprintf(out, size, "%lluB", (unsigned long long)bytes);
}

typedef unsigned long long ull;

static void server_section(struct text *x, const struct sums *s) {
    struct utsname u;
    (void)s;
    if (uname(&u)) memset(&u, 0, sizeof u);
    uint64_t up_s = (now_monotonic_ns() - server.started_ns) / 1000000000u;
    char exe[512];
    ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
    exe[n < 0 ? 0 : n] = 0;
    add(x, "# Server\r\nredis_version:%s\r\ndarter_version:%s\r\nredis_mode:standalone\r\nos:%s %s %s\r\narch_bits:%d\r\n",
        config_current()->reported_redis_version, DARTER_VERSION, u.sysname, u.release, u.machine, (int)sizeof(void *) * 8);
    add(x,
        "multiplexing_api:%s\r\ngcc_version:%d.%d.%d\r\nprocess_id:%d\r\nprocess_supervised:no\r\nrun_id:%s\r\ntcp_port:%lld\r\nserver_"
        "time_usec:%lld\r\n",
        proactor_kind_of(server.threads[0]->proactor) == PROACTOR_URING ? "io_uring" : "epoll", __GNUC__, __GNUC_MINOR__,
        __GNUC_PATCHLEVEL__, (int)getpid(), server.run_id, (long long)config_current()->port, (long long)now_realtime_ms() * 1000);
    add(x, "uptime_in_seconds:%llu\r\nuptime_in_days:%llu\r\nthreads:%u\r\nexecutable:%s\r\nconfig_file:%s\r\n", (ull)up_s,
        (ull)(up_s / 86400), server.n_threads, exe, config_current()->config_file);
}

static void clients_section(struct text *x, const struct sums *s) {
    add(x, "# Clients\r\nconnected_clients:%llu\r\ncluster_connections:0\r\nmaxclients:%lld\r\nblocked_clients:0\r\n",
        (ull)s->thread.clients, (long long)config_current()->maxclients);
}

static uint64_t resident(void) {
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long long total, pages = 0;
    if (f && fscanf(f, "%llu %llu", &total, &pages) != 2) pages = 0;
    if (f) fclose(f);
    return pages * (uint64_t)sysconf(_SC_PAGESIZE);
}

static void memory_section(struct text *x, const struct sums *s) {
    char used[32], rss[32], peak[32], most[32];
    uint64_t r = resident();
    human(s->memory.used, used, sizeof used);
    human(s->memory.peak, peak, sizeof peak);
    human(r, rss, sizeof rss);
    human((uint64_t)config_current()->maxmemory, most, sizeof most);
    add(x,
        "# "
        "Memory\r\nused_memory:%llu\r\nused_memory_human:%s\r\nused_memory_rss:%llu\r\nused_memory_rss_human:%s\r\nused_memory_peak:%"
        "llu\r\nused_memory_peak_human:%s\r\n",
        (ull)s->memory.used, used, (ull)r, rss, (ull)s->memory.peak, peak);
    add(x,
        "used_memory_dataset:%llu\r\nallocator_reserved:%llu\r\nmaxmemory:%lld\r\nmaxmemory_human:%s\r\nmaxmemory_policy:noeviction\r\nmem_"
        "fragmentation_ratio:%.2f\r\nmem_allocator:mimalloc-%d.%d.%d\r\n",
        (ull)s->memory.used, (ull)s->memory.reserved, (long long)config_current()->maxmemory, most,
        s->memory.used ? (double)r / (double)s->memory.used : 0.0, MI_MALLOC_VERSION / 100, MI_MALLOC_VERSION / 10 % 10,
        MI_MALLOC_VERSION % 10);
}

static void stats_section(struct text *x, const struct sums *s) {
    add(x,
        "# "
        "Stats\r\ntotal_connections_received:%llu\r\ntotal_commands_processed:%llu\r\ntotal_net_input_bytes:%llu\r\ntotal_net_output_bytes:"
        "%llu\r\nrejected_connections:%llu\r\n",
        (ull)s->thread.connections, (ull)s->thread.commands, (ull)s->thread.input_bytes, (ull)s->thread.output_bytes,
        (ull)s->thread.rejected);
    add(x,
        "expired_keys:%llu\r\nexpired_keys_active:%llu\r\nexpired_keys_lazy:%llu\r\nevicted_keys:0\r\nevicted_clients:%llu\r\nkeyspace_hits:%llu\r\nkeyspace_"
        "misses:%llu\r\n",
        (ull)(s->shard.expired_active + s->shard.expired_lazy), (ull)s->shard.expired_active, (ull)s->shard.expired_lazy,
        (ull)s->thread.evicted_clients, (ull)s->shard.hits, (ull)s->shard.misses);
    add(x, "total_error_replies:%llu\r\nlongest_expire_slice_usec:%llu\r\n", (ull)s->thread.errors,
        (ull)(s->thread.longest_keep_ns / 1000));
    add(x, "prefetch_groups:%llu\r\nprefetched_hops:%llu\r\nprefetch_distance_avg:%.2f\r\n", (ull)s->shard.groups, (ull)s->shard.prefetched,
        s->shard.prefetched ? (double)s->shard.ahead / (double)s->shard.prefetched / 2 : 0.0);
}

static void persistence_section(struct text *x, const struct sums *s) {
    add(x,
        "# "
        "Persistence\r\nloading:0\r\nasync_loading:0\r\nrdb_changes_since_last_save:%llu\r\nrdb_bgsave_in_progress:0\r\naof_enabled:0\r\n",
        (ull)s->shard.dirty);
}

static void replication_section(struct text *x, const struct sums *s) {
    (void)s;
    add(x, "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n");
}

static void cpu_section(struct text *x, const struct sums *s) {
    struct rusage self, children;
    (void)s;
    getrusage(RUSAGE_SELF, &self);
    getrusage(RUSAGE_CHILDREN, &children);
    add(x,
        "# "
        "CPU\r\nused_cpu_sys:%ld.%06ld\r\nused_cpu_user:%ld.%06ld\r\nused_cpu_sys_children:%ld.%06ld\r\nused_cpu_user_children:%ld.%"
        "06ld\r\n",
        (long)self.ru_stime.tv_sec, (long)self.ru_stime.tv_usec, (long)self.ru_utime.tv_sec, (long)self.ru_utime.tv_usec,
        (long)children.ru_stime.tv_sec, (long)children.ru_stime.tv_usec, (long)children.ru_utime.tv_sec, (long)children.ru_utime.tv_usec);
}

static void cluster_section(struct text *x, const struct sums *s) {
    (void)s;
    add(x, "# Cluster\r\ncluster_enabled:0\r\n");
}

static void keyspace_section(struct text *x, const struct sums *s) {
    add(x, "# Keyspace\r\n");
    for (uint32_t db = 0; db < (uint32_t)config_current()->databases; db++) {
        struct db_figures sum = {0};
        for (uint32_t i = 0; i < s->n; i++) {
            struct db_figures d;
            memcpy(&d, s->pieces[i]->p + sizeof(struct figures) + db * sizeof d, sizeof d);
            sum.keys += d.keys;
            sum.expiring += d.expiring;
        }
        if (sum.keys) add(x, "db%u:keys=%llu,expires=%llu,avg_ttl=0\r\n", db, (ull)sum.keys, (ull)sum.expiring);
    }
}

static void threads_section(struct text *x, const struct sums *s) {
    add(x, "# Threads\r\n");
    for (uint32_t i = 0; i < s->n; i++) {
        struct figures f;
        memcpy(&f, s->pieces[i]->p, sizeof f);
        add(x,
            "thread%u:clients=%llu,commands=%llu,ticks=%llu,sleeps=%llu,wakes=%llu,sends=%llu,hops_sent=%llu,batches_sent=%llu,hops_taken=%"
            "llu,batches_taken=%llu,tasks=%llu,exclusives=%llu\r\n",
            i, (ull)f.thread.clients, (ull)f.thread.commands, (ull)f.thread.ticks, (ull)f.thread.sleeps, (ull)f.thread.wakes,
            (ull)f.thread.sends, (ull)f.thread.hops_sent, (ull)f.thread.batches_sent, (ull)f.thread.hops_taken, (ull)f.thread.batches_taken,
            (ull)f.thread.tasks, (ull)f.thread.exclusives);
    }
}

static void full_name(const struct command *row, char *out, size_t size) {
    snprintf(out, size, "%s%s%s", row->parent ? row->parent->name : "", row->parent ? "|" : "", row->name);
}

/* Times of cheap commands are a sample, scaled to all calls. */
static void commandstats_section(struct text *x, const struct sums *s) {
    double ns = measure_ns_per_cycle();
    add(x, "# Commandstats\r\n");
    for (uint32_t i = 1; i < COMMAND_ROWS_MAX; i++) {
        const struct command_stats *c = &s->commands[i];
        char name[64];
        if (!c->calls && !c->rejected) continue;
        full_name(command_by_number((uint16_t)i), name, sizeof name);
        double each_us = c->timed ? (double)c->cycles * ns / 1000 / (double)c->timed : 0;
        add(x, "cmdstat_%s:calls=%llu,usec=%.0f,usec_per_call=%.2f,rejected_calls=%llu,failed_calls=%llu\r\n", name, (ull)c->calls,
            each_us * (double)c->calls, each_us, (ull)c->rejected, (ull)c->failed);
    }
}

static void latencystats_section(struct text *x, const struct sums *s) {
    double us = measure_ns_per_cycle() / 1000;
    add(x, "# Latencystats\r\n");
    for (uint32_t i = 1; i < COMMAND_ROWS_MAX && config_current()->latency_tracking; i++) {
        const struct histogram *h = s->commands[i].histogram;
        char name[64];
        if (!h || !h->n) continue;
        full_name(command_by_number((uint16_t)i), name, sizeof name);
        add(x, "latency_percentiles_usec_%s:p50=%.3f,p99=%.3f,p99.9=%.3f\r\n", name, (double)histogram_percentile(h, 0.5) * us,
            (double)histogram_percentile(h, 0.99) * us, (double)histogram_percentile(h, 0.999) * us);
    }
}

static void errorstats_section(struct text *x, const struct sums *s) {
    add(x, "# Errorstats\r\n");
    for (uint32_t i = 0; i < s->n_errors; i++) add(x, "errorstat_%s:count=%llu\r\n", s->errors[i].word, (ull)s->errors[i].count);
}

static const struct section {
    const char *name;
    void (*write)(struct text *, const struct sums *);
    bool by_default, in_all;
} sections[] = {{"server", server_section, true, true}, {"clients", clients_section, true, true}, {"memory", memory_section, true, true},
    {"persistence", persistence_section, true, true}, {"stats", stats_section, true, true},
    {"replication", replication_section, true, true}, {"cpu", cpu_section, true, true}, {"commandstats", commandstats_section, false, true},
    {"latencystats", latencystats_section, false, true}, {"errorstats", errorstats_section, true, true},
    {"cluster", cluster_section, true, true}, {"keyspace", keyspace_section, true, true}, {"threads", threads_section, false, true}};
#define N_SECTIONS (sizeof sections / sizeof *sections)

static void sum_commands(struct sums *s, const struct figures *f, const char *p) {
    for (uint32_t i = 0; i < f->n_commands; i++) {
        struct command_figures c;
        memcpy(&c, p, sizeof c);
        p += sizeof c;
        struct command_stats *to = &s->commands[c.row];
        to->calls += c.stats.calls;
        to->cycles += c.stats.cycles;
        to->timed += c.stats.timed;
        to->rejected += c.stats.rejected;
        to->failed += c.stats.failed;
        if (!c.with_histogram) continue;
        if (!to->histogram) to->histogram = calloc(1, sizeof *to->histogram);
        struct histogram h;
        memcpy(&h, p, sizeof h);
        p += sizeof h;
        if (to->histogram) histogram_merge(to->histogram, &h);
    }
    for (uint32_t i = 0; i < f->n_errors; i++, p += sizeof(struct error_stats)) {
        struct error_stats e;
        uint32_t j = 0;
        memcpy(&e, p, sizeof e);
        while (j < s->n_errors && strcmp(s->errors[j].word, e.word)) j++;
        if (j == MEASURE_ERRORS_MAX) continue;
        if (j == s->n_errors) s->errors[s->n_errors++] = e;
        else s->errors[j].count += e.count;
    }
}

static void sum_up(struct sums *s) {
    for (uint32_t i = 0; i < s->n; i++) {
        struct figures f;
        memcpy(&f, s->pieces[i]->p, sizeof f);
        s->shard.hits += f.shard.hits;
        s->shard.misses += f.shard.misses;
        s->shard.expired_lazy += f.shard.expired_lazy;
        s->shard.expired_active += f.shard.expired_active;
        s->shard.dirty += f.shard.dirty;
        s->shard.groups += f.shard.groups;
        s->shard.prefetched += f.shard.prefetched;
        s->shard.ahead += f.shard.ahead;
        if (f.thread.longest_keep_ns > s->thread.longest_keep_ns) s->thread.longest_keep_ns = f.thread.longest_keep_ns;
        s->memory.used += f.memory.used;
        s->memory.peak += f.memory.peak;
        s->memory.reserved += f.memory.reserved;
        s->thread.clients += f.thread.clients;
        s->thread.commands += f.thread.commands;
        s->thread.connections += f.thread.connections;
        s->thread.rejected += f.thread.rejected;
        s->thread.evicted_clients += f.thread.evicted_clients;
        s->thread.input_bytes += f.thread.input_bytes;
        s->thread.output_bytes += f.thread.output_bytes;
        s->thread.errors += f.thread.errors;
        sum_commands(s, &f, s->pieces[i]->p + sizeof f + f.n_dbs * sizeof(struct db_figures));
    }
}

static void sums_drop(struct sums *s) {
    for (uint32_t i = 0; s->commands && i < COMMAND_ROWS_MAX; i++) free(s->commands[i].histogram);
    free(s->commands);
}

void info_merge(const struct hop *h, struct reply *const *pieces, uint32_t n, struct reply *r) {
    struct sums s = {.pieces = (const struct reply *const *)pieces, .n = n, .commands = calloc(COMMAND_ROWS_MAX, sizeof *s.commands)};
    struct text x = {malloc(8192), 0, 8192};
    bool wanted[N_SECTIONS] = {false};
    if (!x.p || !s.commands) {
        reply_no_memory(r);
        free(x.p);
        free(s.commands);
        return;
    }
    sum_up(&s);
    for (size_t i = 0; i < N_SECTIONS; i++) wanted[i] = h->argc == 1 && sections[i].by_default;
    for (uint32_t a = 1; a < h->argc; a++) {
        bool all = arg_is(&h->argv[a], "all") || arg_is(&h->argv[a], "everything"), usual = arg_is(&h->argv[a], "default");
        for (size_t i = 0; i < N_SECTIONS; i++)
            wanted[i] |= (all && sections[i].in_all) || (usual && sections[i].by_default) || arg_is(&h->argv[a], sections[i].name);
    }
    for (size_t i = 0; i < N_SECTIONS; i++) {
        if (!wanted[i]) continue;
        if (x.size) add(&x, "\r\n");
        sections[i].write(&x, &s);
    }
    reply_verbatim(r, "txt", x.p, x.size);
    free(x.p);
    sums_drop(&s);
}
