/* The table of directives, and how values are read, shown and set. Loading files and arguments: config_load.c. */
#include "server/config.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/command.h"
#include "server/config_table.h"
#include "server/glob.h"
#include "server/log.h"

static const char *const names_io[] = {"auto", "uring", "epoll", NULL};
static const char *const names_prefetch[] = {"none", "bucket", "bucket+probe", "entry", "full", NULL};
static const char *const names_debug[] = {"no", "yes", "local", NULL};
static const char *const names_huge[] = {"auto", "yes", "no", NULL};
static const char *const names_level[] = {"debug", "verbose", "notice", "warning", NULL};
static const char *const names_policy[] = {
    "noeviction", "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "allkeys-lru", "allkeys-lfu", "allkeys-random", NULL};
/* user, then local0 and on */
static const char *const names_facility[] = {"user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7", NULL};
static const char *const names_supervised[] = {"upstart", "systemd", "auto", "no", NULL}; /* enum supervised */
static const char *const names_oom[] = {"no", "yes", "relative", "absolute", NULL};       /* enum oom_score_adj */
static const char *const names_fsync[] = {"everysec", "always", "no", NULL};

#define AT(field) offsetof(struct config, field)
#define NUMBER(name, field, low, high, fall_back, how, doc) \
    { name, DIRECTIVE_NUMBER, AT(field), 0, low, high, fall_back, NULL, how, doc }
#define BYTES(name, field, low, high, fall_back, how, doc) \
    { name, DIRECTIVE_BYTES, AT(field), 0, low, high, fall_back, NULL, how, doc }
#define BOOL(name, field, fall_back, how, doc) \
    { name, DIRECTIVE_BOOL, AT(field), 0, 0, 1, fall_back ? "yes" : "no", NULL, how, doc }
#define CHOICE(name, field, names, fall_back, how, doc) \
    { name, DIRECTIVE_CHOICE, AT(field), 0, 0, 0, fall_back, names, how, doc }
#define TEXT(name, field, fall_back, how, doc) \
    { name, DIRECTIVE_TEXT, AT(field), sizeof(((struct config *)0)->field), 0, 0, fall_back, NULL, how, doc }

const struct directive directives[] = {
    {"bind", DIRECTIVE_BIND, AT(bind), 0, 0, 0, "127.0.0.1 -::1", NULL, DIRECTIVE_FIXED,
        "Addresses to listen on; a leading '-' means: skip it if it is not there"},
    NUMBER("port", port, 0, 65535, "6379", DIRECTIVE_FIXED, "TCP port; 0: no TCP"),
    NUMBER("tcp-backlog", tcp_backlog, 0, INT32_MAX, "511", DIRECTIVE_FIXED, "Connections that may wait to be accepted"),
    NUMBER("tcp-keepalive", tcp_keepalive_s, 0, INT32_MAX, "300", DIRECTIVE_MUTABLE, "Seconds between keepalive probes; 0: none"),
    NUMBER("timeout", timeout_s, 0, INT32_MAX, "0", DIRECTIVE_MUTABLE, "Seconds after which an idle client is closed; 0: never"),
    TEXT("unixsocket", unixsocket, "", DIRECTIVE_FIXED, "Path of a Unix socket to listen on"),
    {"unixsocketperm", DIRECTIVE_OCTAL, AT(unixsocketperm), 0, 0, 0777, "0", NULL, DIRECTIVE_FIXED, "Mode of the Unix socket, octal"},
    NUMBER("maxclients", maxclients, 1, 1000000, "10000", DIRECTIVE_MUTABLE, "Most clients at a time"),
    BOOL("protected-mode", protected_mode, true, DIRECTIVE_MUTABLE, "Without a password, serve clients of this machine only"),
    TEXT("requirepass", requirepass, "", DIRECTIVE_MUTABLE, "Password of the default user"),
    NUMBER("threads", threads, 0, 1024, "0", DIRECTIVE_FIXED, "Threads, each with a shard; 0: the CPUs that this process may use"),
    CHOICE("io", io, names_io, "auto", DIRECTIVE_FIXED, "How sockets are served: auto, uring or epoll"),
    BOOL("pin", pin, true, DIRECTIVE_FIXED, "Pin each thread to a CPU"),
    NUMBER("databases", databases, 1, 16384, "16", DIRECTIVE_FIXED, "Number of databases"),
    CHOICE("prefetch", prefetch, names_prefetch, "full", DIRECTIVE_MUTABLE,
        "How far a batch prefetches: none, bucket, bucket+probe, entry, full"),
    CHOICE("huge-pages", huge_pages, names_huge, "auto", DIRECTIVE_FIXED, "Advise huge pages for the table and small values"),
    NUMBER("housekeeping-percent", housekeeping_percent, 1, 100, "20", DIRECTIVE_MUTABLE,
        "Share of a busy thread's time for expiry and freeing"),
    BYTES(
        "proto-max-bulk-len", proto_max_bulk_len, 1048576, 4294967295, "512mb", DIRECTIVE_MUTABLE, "Largest argument, and largest string"),
    BYTES("client-query-buffer-limit", client_query_buffer_limit, 1048576, INT64_MAX, "1gb", DIRECTIVE_MUTABLE,
        "Most bytes of a client that wait to be run"),
    {"client-output-buffer-limit", DIRECTIVE_OUTPUT_LIMIT, AT(output_limit), 0, 0, 0,
        "normal 0 0 0 slave 268435456 67108864 60 pubsub 33554432 8388608 60", NULL, DIRECTIVE_MUTABLE,
        "Per class: hard limit, soft limit, seconds above the soft limit"},
    BYTES("maxmemory", maxmemory, 0, INT64_MAX, "0", DIRECTIVE_MUTABLE, "Most bytes of data; 0: no limit (not enforced yet)"),
    CHOICE("maxmemory-policy", maxmemory_policy, names_policy, "noeviction", DIRECTIVE_MUTABLE,
        "What to evict at maxmemory (not enforced yet)"),
    CHOICE("enable-debug-command", enable_debug_command, names_debug, "no", DIRECTIVE_FIXED,
        "Allow DEBUG: no, yes, or local connections only"),
    NUMBER("slowlog-log-slower-than", slowlog_slower_us, -1, INT64_MAX, "10000", DIRECTIVE_MUTABLE,
        "Microseconds from which on a command is put into the slow log; -1: none"),
    NUMBER("slowlog-max-len", slowlog_max_len, 0, 1000000, "128", DIRECTIVE_MUTABLE, "Entries of the slow log, for each thread"),
    BOOL("latency-tracking", latency_tracking, true, DIRECTIVE_MUTABLE, "Show latencystats in INFO"),
    CHOICE("loglevel", loglevel, names_level, "notice", DIRECTIVE_MUTABLE, "Least level of what is logged"),
    TEXT("logfile", logfile, "", DIRECTIVE_FIXED, "File to log to, opened anew on SIGHUP; empty: standard error"),
    BOOL("syslog-enabled", syslog_enabled, false, DIRECTIVE_FIXED, "Log to syslog as well"),
    TEXT("syslog-ident", syslog_ident, "darter", DIRECTIVE_FIXED, "Name of the program in syslog"),
    CHOICE("syslog-facility", syslog_facility, names_facility, "local0", DIRECTIVE_FIXED, "Facility in syslog: user, or local0 to local7"),
    BOOL("crash-log-enabled", crash_log_enabled, true, DIRECTIVE_FIXED, "Report a crash in the log, with a backtrace"),
    NUMBER("watchdog-period", watchdog_period_ms, 0, INT32_MAX, "0", DIRECTIVE_MUTABLE,
        "Milliseconds after which a thread that hangs in one tick is named in the log; 0: off"),
    TEXT("dir", dir, "", DIRECTIVE_MUTABLE, "Working directory"),
    TEXT("dbfilename", dbfilename, "dump.rdb", DIRECTIVE_MUTABLE, "Name of the snapshot file (no snapshots yet)"),
    TEXT("save", save, "", DIRECTIVE_MUTABLE, "When to save (no snapshots yet)"),
    BOOL("rdbcompression", rdbcompression, true, DIRECTIVE_MUTABLE, "Compress strings in snapshots (no snapshots yet)"),
    BOOL("rdbchecksum", rdbchecksum, true, DIRECTIVE_FIXED, "Checksum snapshots (no snapshots yet)"),
    BOOL("appendonly", appendonly, false, DIRECTIVE_FIXED, "Append log (not yet)"),
    CHOICE("appendfsync", appendfsync, names_fsync, "everysec", DIRECTIVE_MUTABLE, "When the append log is synced (not yet)"),
    BOOL("daemonize", daemonize, false, DIRECTIVE_FIXED, "Run in the background; the start waits until connections are accepted"),
    TEXT("pidfile", pidfile, "", DIRECTIVE_FIXED, "File for the process id, removed at the end; in the background /var/run/darter.pid"),
    CHOICE("supervised", supervised, names_supervised, "no", DIRECTIVE_FIXED,
        "Tell a supervisor of the start and the end: no, upstart, systemd, auto"),
    CHOICE("oom-score-adj", oom_score_adj, names_oom, "no", DIRECTIVE_MUTABLE,
        "Set the kernel's OOM score by oom-score-adj-values: no, relative (yes) to what it is, or absolute"),
    TEXT("oom-score-adj-values", oom_score_adj_values, "0 200 800", DIRECTIVE_MUTABLE,
        "OOM score of a master, a replica and a background child, each -2000 to 2000; there are only masters yet"),
    NUMBER("hz", hz, 1, 500, "10", DIRECTIVE_MUTABLE, "Accepted for compatibility: housekeeping here is driven by what is due"),
    BOOL("activerehashing", activerehashing, true, DIRECTIVE_MUTABLE, "Accepted for compatibility: the table never rehashes"),
    BOOL("lazyfree-lazy-eviction", lazyfree_lazy_eviction, false, DIRECTIVE_MUTABLE, "Accepted for compatibility: freeing is always lazy"),
    BOOL("lazyfree-lazy-expire", lazyfree_lazy_expire, false, DIRECTIVE_MUTABLE, "Accepted for compatibility: freeing is always lazy"),
    BOOL("lazyfree-lazy-server-del", lazyfree_lazy_server_del, false, DIRECTIVE_MUTABLE,
        "Accepted for compatibility: freeing is always lazy"),
    BOOL("lazyfree-lazy-user-del", lazyfree_lazy_user_del, false, DIRECTIVE_MUTABLE, "Accepted for compatibility: freeing is always lazy"),
    BOOL("lazyfree-lazy-user-flush", lazyfree_lazy_user_flush, false, DIRECTIVE_MUTABLE,
        "Accepted for compatibility: freeing is always lazy"),
    {NULL, DIRECTIVE_NUMBER, 0, 0, 0, 0, NULL, NULL, DIRECTIVE_FIXED, NULL},
};

static _Atomic(const struct config *) current;
static const struct config *retired; /* freed at the CONFIG SET after the one that replaced it */

const struct config *config_current(void) { return atomic_load_explicit(&current, memory_order_acquire); }

void config_install(const struct config *c) { atomic_store_explicit(&current, c, memory_order_release); }

const struct directive *directive_find(const char *name) {
    for (const struct directive *d = directives; d->name; d++)
        if (!strcasecmp(d->name, name)) return d;
    return NULL;
}

/* A number with an optional unit: b k kb m mb g gb (kb is 1024, k is 1000). */
static bool read_bytes(const char *text, int64_t *out) {
    static const struct {
        const char *unit;
        int64_t times;
    } units[] = {{"", 1}, {"b", 1}, {"k", 1000}, {"kb", 1024}, {"m", 1000000}, {"mb", 1 << 20}, {"g", 1000000000}, {"gb", 1 << 30}};
    char *end;
    errno = 0;
    long long n = strtoll(text, &end, 10);
    if (errno || end == text) return false;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (!strcasecmp(end, units[i].unit)) return !__builtin_mul_overflow(n, units[i].times, out);
    return false;
}

static bool read_number(const char *text, int base, int64_t *out) {
    char *end;
    errno = 0;
    *out = strtoll(text, &end, base);
    return !errno && end != text && !*end;
}

static const char *read_bind(struct config *c, char *text) {
    uint32_t n = 0;
    char bind[CONFIG_BIND_MAX][64];
    for (char *rest, *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        if (n == CONFIG_BIND_MAX) return "too many addresses";
        if (strlen(word) >= sizeof bind[0]) return "an address is too long";
        strcpy(bind[n++], word);
    }
    memcpy(c->bind, bind, sizeof bind);
    c->n_bind = n;
    return NULL;
}

static const char *read_output_limit(struct config *c, char *text) {
    static const char *const classes[] = {"normal", "slave", "pubsub"};
    struct output_limit limits[CLIENT_CLASSES];
    memcpy(limits, c->output_limit, sizeof limits);
    char *words[16];
    size_t n = 0;
    for (char *rest, *word = strtok_r(text, " ", &rest); word; word = strtok_r(NULL, " ", &rest)) {
        if (n == 16) return "Wrong number of arguments in buffer limit configuration.";
        words[n++] = word;
    }
    if (!n || n % 4) return "Wrong number of arguments in buffer limit configuration.";
    for (size_t i = 0; i < n; i += 4) {
        size_t class = 0;
        while (class < CLIENT_CLASSES && strcasecmp(words[i], classes[class]) &&
            !(class == CLIENT_REPLICA && !strcasecmp(words[i], "replica")))
            class ++;
        if (class == CLIENT_CLASSES) return "Invalid client class specified in buffer limit configuration.";
        int64_t hard, soft, soft_s;
        if (!read_bytes(words[i + 1], &hard) || !read_bytes(words[i + 2], &soft) || !read_number(words[i + 3], 10, &soft_s) || hard < 0 ||
            soft < 0 || soft_s < 0)
            return "Error in hard, soft or soft_seconds setting in buffer limit configuration.";
        limits[class] = (struct output_limit){(uint64_t)hard, (uint64_t)soft, (uint64_t)soft_s};
    }
    memcpy(c->output_limit, limits, sizeof limits);
    return NULL;
}

const char *directive_read(const struct directive *d, struct config *c, const char *text, char *why, size_t why_size) {
    char *field = (char *)c + d->at;
    int64_t n;
    char copy[CONFIG_TEXT_MAX * 2];
    if (strlen(text) >= sizeof copy) return "argument too long";
    strcpy(copy, text);
    switch (d->kind) {
    case DIRECTIVE_NUMBER:
        if (!read_number(text, 10, &n)) return "argument couldn't be parsed into an integer";
        break;
    case DIRECTIVE_OCTAL:
        if (!read_number(text, 8, &n)) return "argument couldn't be parsed into an integer";
        break;
    case DIRECTIVE_BYTES:
        if (!read_bytes(text, &n)) return "argument must be a memory value";
        break;
    case DIRECTIVE_BOOL:
        if (strcasecmp(text, "yes") && strcasecmp(text, "no")) return "argument must be 'yes' or 'no'";
        *(bool *)field = !strcasecmp(text, "yes");
        return NULL;
    case DIRECTIVE_CHOICE:
        for (int i = 0; d->names[i]; i++)
            if (!strcasecmp(text, d->names[i])) {
                *(int32_t *)field = i;
                return NULL;
            }
        size_t at = (size_t)snprintf(why, why_size, "argument(s) must be one of the following: ");
        for (int i = 0; d->names[i] && at < why_size; i++)
            at += (size_t)snprintf(why + at, why_size - at, "%s%s", i ? ", " : "", d->names[i]);
        return why;
    case DIRECTIVE_TEXT:
        if (strlen(text) >= d->size) return "argument too long";
        strcpy(field, text);
        return NULL;
    case DIRECTIVE_BIND: return read_bind(c, copy);
    case DIRECTIVE_OUTPUT_LIMIT: return read_output_limit(c, copy);
    default: return "unknown kind";
    }
    if (n < d->low || n > d->high) {
        snprintf(why, why_size, "argument must be between %lld and %lld inclusive", (long long)d->low, (long long)d->high);
        return why;
    }
    *(int64_t *)field = n;
    return NULL;
}

static void show(const struct directive *d, const struct config *c, char *out, size_t size) {
    const char *field = (const char *)c + d->at;
    size_t n = 0;
    *out = 0;
    switch (d->kind) {
    case DIRECTIVE_NUMBER:
    case DIRECTIVE_BYTES: snprintf(out, size, "%lld", (long long)*(const int64_t *)field); break;
    case DIRECTIVE_OCTAL: snprintf(out, size, "%llo", (long long)*(const int64_t *)field); break;
    case DIRECTIVE_BOOL: snprintf(out, size, "%s", *(const bool *)field ? "yes" : "no"); break;
    case DIRECTIVE_CHOICE: snprintf(out, size, "%s", d->names[*(const int32_t *)field]); break;
    case DIRECTIVE_TEXT: snprintf(out, size, "%s", field); break;
    case DIRECTIVE_BIND:
        for (uint32_t i = 0; i < c->n_bind; i++) n += (size_t)snprintf(out + n, size - n, "%s%s", i ? " " : "", c->bind[i]);
        break;
    case DIRECTIVE_OUTPUT_LIMIT:
        for (int i = 0; i < CLIENT_CLASSES; i++) {
            static const char *const classes[] = {"normal", "slave", "pubsub"};
            const struct output_limit *l = &c->output_limit[i];
            n += (size_t)snprintf(out + n, size - n, "%s%s %llu %llu %llu", i ? " " : "", classes[i], (unsigned long long)l->hard,
                (unsigned long long)l->soft, (unsigned long long)l->soft_s);
        }
        break;
    default: break;
    }
}

/* Calls each directive whose name one of the patterns matches, once. */
void config_get(const struct arg *patterns, uint32_t n, struct reply *r) {
    const struct config *c = config_current();
    size_t count = 0;
    for (int round = 0; round < 2; round++) {
        for (const struct directive *d = directives; d->name; d++) {
            bool wanted = false;
            for (uint32_t i = 0; i < n && !wanted; i++)
                wanted = glob_match(patterns[i].p, patterns[i].size, d->name, strlen(d->name), true);
            if (!wanted) continue;
            count++;
            if (!round) continue;
            char text[2048];
            show(d, c, text, sizeof text);
            reply_bulk_text(r, d->name);
            reply_bulk_text(r, text);
        }
        if (!round) reply_map(r, count);
    }
}

static bool take_text(const struct arg *a, char *out, size_t size) {
    if (a->size >= size || memchr(a->p, 0, a->size)) return false;
    memcpy(out, a->p, a->size);
    out[a->size] = 0;
    return true;
}

void config_set(const struct arg *pairs, uint32_t n, struct reply *r) {
    struct config *next = malloc(sizeof *next);
    if (!next) {
        reply_error(r, "ERR out of memory");
        return;
    }
    *next = *config_current();
    char name[128], value[CONFIG_TEXT_MAX * 2], why[512];
    const struct directive *seen[128];
    for (uint32_t i = 0; i < n; i++) {
        const char *wrong = NULL;
        const struct directive *d = take_text(&pairs[2 * i], name, sizeof name) ? directive_find(name) : NULL;
        if (!d) {
            reply_errorf(r, "ERR Unknown option or number of arguments for CONFIG SET - '%.*s'",
                (int)(pairs[2 * i].size < 128 ? pairs[2 * i].size : 128), pairs[2 * i].p);
            free(next);
            return;
        }
        if (d->how == DIRECTIVE_FIXED) wrong = "can't set immutable config";
        for (uint32_t j = 0; j < i && j < 128 && !wrong; j++)
            if (seen[j] == d) wrong = "duplicate parameter";
        if (i < 128) seen[i] = d;
        if (!wrong)
            wrong =
                take_text(&pairs[2 * i + 1], value, sizeof value) ? directive_read(d, next, value, why, sizeof why) : "argument too long";
        if (wrong) {
            reply_errorf(r, "ERR CONFIG SET failed (possibly related to argument '%s') - %s", d->name, wrong);
            free(next);
            return;
        }
    }
    log_set_level((enum log_level)next->loglevel);
    free((void *)retired);
    retired = config_current();
    config_install(next);
    reply_ok(r);
}
