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

struct figures { struct shard_stats shard; struct thread_stats thread; struct memory_stats memory; uint32_t n_dbs; };
struct db_figures { uint64_t keys, expiring; };

enum hop_result info_piece(struct shard *s, struct hop *h, struct reply *r) {
    (void)h;
    struct figures f = {.shard = s->stats, .thread = server.threads[s->id]->stats, .n_dbs = s->n_dbs};
    memory_stats(s->memory, &f.memory);
    reply_bytes(r, (const char *)&f, sizeof f);
    for (uint32_t i = 0; i < s->n_dbs; i++) {
        struct db_figures d = {s->dbs[i]->keys.count, s->dbs[i]->expiring};
        reply_bytes(r, (const char *)&d, sizeof d);
    }
    return HOP_DONE;
}

enum hop_result info_reset(struct shard *s, struct hop *h, struct reply *r) {
    (void)h;
    struct thread_stats *t = &server.threads[s->id]->stats;
    uint64_t clients = t->clients, dirty = s->stats.dirty;
    *t = (struct thread_stats){.clients = clients};
    s->stats = (struct shard_stats){.dirty = dirty};
    reply_ok(r);
    return HOP_DONE;
}

/* ---- the text ---- */

struct text { char *p; size_t size, capacity; };

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

struct sums { struct shard_stats shard; struct thread_stats thread; struct memory_stats memory; const struct reply *const *pieces; uint32_t n; };

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
    add(x, "# Server\r\nredis_version:%s\r\ndarter_version:%s\r\nredis_mode:standalone\r\nos:%s %s %s\r\narch_bits:%d\r\n", REPORTED_REDIS_VERSION, DARTER_VERSION, u.sysname,
        u.release, u.machine, (int)sizeof(void *) * 8);
    add(x, "multiplexing_api:%s\r\ngcc_version:%d.%d.%d\r\nprocess_id:%d\r\nprocess_supervised:no\r\nrun_id:%s\r\ntcp_port:%lld\r\nserver_time_usec:%lld\r\n",
        proactor_kind_of(server.threads[0]->proactor) == PROACTOR_URING ? "io_uring" : "epoll", __GNUC__, __GNUC_MINOR__, __GNUC_PATCHLEVEL__, (int)getpid(), server.run_id,
        (long long)config_current()->port, (long long)now_realtime_ms() * 1000);
    add(x, "uptime_in_seconds:%llu\r\nuptime_in_days:%llu\r\nthreads:%u\r\nexecutable:%s\r\nconfig_file:%s\r\n", (ull)up_s, (ull)(up_s / 86400), server.n_threads, exe,
        config_current()->config_file);
}

static void clients_section(struct text *x, const struct sums *s) {
    add(x, "# Clients\r\nconnected_clients:%llu\r\ncluster_connections:0\r\nmaxclients:%lld\r\nblocked_clients:0\r\n", (ull)s->thread.clients, (long long)config_current()->maxclients);
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
    add(x, "# Memory\r\nused_memory:%llu\r\nused_memory_human:%s\r\nused_memory_rss:%llu\r\nused_memory_rss_human:%s\r\nused_memory_peak:%llu\r\nused_memory_peak_human:%s\r\n",
        (ull)s->memory.used, used, (ull)r, rss, (ull)s->memory.peak, peak);
    add(x, "used_memory_dataset:%llu\r\nallocator_reserved:%llu\r\nmaxmemory:%lld\r\nmaxmemory_human:%s\r\nmaxmemory_policy:noeviction\r\nmem_fragmentation_ratio:%.2f\r\nmem_allocator:mimalloc-%d.%d.%d\r\n",
        (ull)s->memory.used, (ull)s->memory.reserved, (long long)config_current()->maxmemory, most, s->memory.used ? (double)r / (double)s->memory.used : 0.0,
        MI_MALLOC_VERSION / 100, MI_MALLOC_VERSION / 10 % 10, MI_MALLOC_VERSION % 10);
}

static void stats_section(struct text *x, const struct sums *s) {
    add(x, "# Stats\r\ntotal_connections_received:%llu\r\ntotal_commands_processed:%llu\r\ntotal_net_input_bytes:%llu\r\ntotal_net_output_bytes:%llu\r\nrejected_connections:%llu\r\n",
        (ull)s->thread.connections, (ull)s->thread.commands, (ull)s->thread.input_bytes, (ull)s->thread.output_bytes, (ull)s->thread.rejected);
    add(x, "expired_keys:%llu\r\nexpired_keys_active:%llu\r\nexpired_keys_lazy:%llu\r\nevicted_keys:0\r\nkeyspace_hits:%llu\r\nkeyspace_misses:%llu\r\n",
        (ull)(s->shard.expired_active + s->shard.expired_lazy), (ull)s->shard.expired_active, (ull)s->shard.expired_lazy, (ull)s->shard.hits, (ull)s->shard.misses);
    add(x, "total_error_replies:%llu\r\nlongest_expire_slice_usec:%llu\r\n", (ull)s->thread.errors, (ull)(s->thread.longest_keep_ns / 1000));
    add(x, "prefetch_groups:%llu\r\nprefetched_hops:%llu\r\nprefetch_distance_avg:%.2f\r\n", (ull)s->shard.groups, (ull)s->shard.prefetched,
        s->shard.prefetched ? (double)s->shard.ahead / (double)s->shard.prefetched / 2 : 0.0);
}

static void persistence_section(struct text *x, const struct sums *s) {
    add(x, "# Persistence\r\nloading:0\r\nasync_loading:0\r\nrdb_changes_since_last_save:%llu\r\nrdb_bgsave_in_progress:0\r\naof_enabled:0\r\n", (ull)s->shard.dirty);
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
    add(x, "# CPU\r\nused_cpu_sys:%ld.%06ld\r\nused_cpu_user:%ld.%06ld\r\nused_cpu_sys_children:%ld.%06ld\r\nused_cpu_user_children:%ld.%06ld\r\n", (long)self.ru_stime.tv_sec,
        (long)self.ru_stime.tv_usec, (long)self.ru_utime.tv_sec, (long)self.ru_utime.tv_usec, (long)children.ru_stime.tv_sec, (long)children.ru_stime.tv_usec,
        (long)children.ru_utime.tv_sec, (long)children.ru_utime.tv_usec);
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
        add(x, "thread%u:clients=%llu,commands=%llu,ticks=%llu,sleeps=%llu,wakes=%llu,sends=%llu,hops_sent=%llu,batches_sent=%llu,hops_taken=%llu,batches_taken=%llu,tasks=%llu,exclusives=%llu\r\n",
            i, (ull)f.thread.clients, (ull)f.thread.commands, (ull)f.thread.ticks, (ull)f.thread.sleeps, (ull)f.thread.wakes, (ull)f.thread.sends, (ull)f.thread.hops_sent,
            (ull)f.thread.batches_sent, (ull)f.thread.hops_taken, (ull)f.thread.batches_taken, (ull)f.thread.tasks, (ull)f.thread.exclusives);
    }
}

static const struct section { const char *name; void (*write)(struct text *, const struct sums *); bool by_default; } sections[] = {
    {"server", server_section, true}, {"clients", clients_section, true}, {"memory", memory_section, true}, {"persistence", persistence_section, true},
    {"stats", stats_section, true}, {"replication", replication_section, true}, {"cpu", cpu_section, true}, {"cluster", cluster_section, true},
    {"keyspace", keyspace_section, true}, {"threads", threads_section, false}};
#define N_SECTIONS (sizeof sections / sizeof *sections)

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
        s->thread.input_bytes += f.thread.input_bytes;
        s->thread.output_bytes += f.thread.output_bytes;
        s->thread.errors += f.thread.errors;
    }
}

void info_merge(const struct hop *h, struct reply *const *pieces, uint32_t n, struct reply *r) {
    struct sums s = {.pieces = (const struct reply *const *)pieces, .n = n};
    struct text x = {malloc(8192), 0, 8192};
    bool wanted[N_SECTIONS] = {false};
    if (!x.p) {
        reply_no_memory(r);
        return;
    }
    sum_up(&s);
    for (size_t i = 0; i < N_SECTIONS; i++) wanted[i] = h->argc == 1 && sections[i].by_default;
    for (uint32_t a = 1; a < h->argc; a++) {
        bool all = arg_is(&h->argv[a], "all") || arg_is(&h->argv[a], "everything"), usual = arg_is(&h->argv[a], "default");
        for (size_t i = 0; i < N_SECTIONS; i++) wanted[i] |= all || (usual && sections[i].by_default) || arg_is(&h->argv[a], sections[i].name);
    }
    for (size_t i = 0; i < N_SECTIONS; i++) {
        if (!wanted[i]) continue;
        if (x.size) add(&x, "\r\n");
        sections[i].write(&x, &s);
    }
    reply_verbatim(r, "txt", x.p, x.size);
    free(x.p);
}
