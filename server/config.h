/* The configuration: one table of directives, and immutable snapshots of their values.
 *
 * A snapshot never changes. CONFIG SET makes a new one and swaps the pointer while it holds every shard (so two cannot race); each
 * thread takes the new pointer at the start of its next tick, and the old one is freed at the CONFIG SET after next, when every
 * thread has acknowledged in between. Threads read it through their own pointer (struct thread.config).
 */
#ifndef SERVER_CONFIG_H
#define SERVER_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct reply;
struct arg;

enum client_class { CLIENT_NORMAL, CLIENT_REPLICA, CLIENT_PUBSUB, CLIENT_CLASSES };
struct output_limit {
    uint64_t hard, soft;
    uint64_t soft_s;
};

#define CONFIG_TEXT_MAX 512u
#define CONFIG_BIND_MAX 16u

struct config {
    /* network */
    char bind[CONFIG_BIND_MAX][64];
    uint32_t n_bind;
    int64_t port, tcp_backlog, tcp_keepalive_s, timeout_s, maxclients, threads, databases;
    char unixsocket[108];
    int64_t unixsocketperm; /* octal mode; 0: as umask says */
    bool protected_mode, pin;
    int32_t io; /* enum proactor_kind */
    char requirepass[CONFIG_TEXT_MAX];
    /* limits */
    int64_t proto_max_bulk_len, client_query_buffer_limit, maxmemory;
    struct output_limit output_limit[CLIENT_CLASSES];
    /* behaviour */
    int32_t prefetch;             /* enum prefetch_level */
    int32_t enable_debug_command; /* 0 no, 1 yes, 2 local */
    int32_t huge_pages;           /* 0 auto, 1 yes, 2 no */
    int32_t loglevel;             /* enum log_level */
    int64_t hz, housekeeping_percent, slowlog_slower_us, slowlog_max_len;
    bool latency_tracking;
    char dir[CONFIG_TEXT_MAX], logfile[CONFIG_TEXT_MAX], pidfile[CONFIG_TEXT_MAX], dbfilename[CONFIG_TEXT_MAX];
    char save[CONFIG_TEXT_MAX];
    bool daemonize, appendonly, rdbcompression, rdbchecksum, activerehashing;
    bool lazyfree_lazy_eviction, lazyfree_lazy_expire, lazyfree_lazy_server_del, lazyfree_lazy_user_del, lazyfree_lazy_user_flush;
    int32_t maxmemory_policy, appendfsync;
    bool syslog_enabled, crash_log_enabled;
    char syslog_ident[64], oom_score_adj_values[32];
    int32_t syslog_facility;    /* 0: user; n: local(n - 1) */
    int32_t supervised;         /* enum supervised */
    int32_t oom_score_adj;      /* enum oom_score_adj */
    int64_t watchdog_period_ms; /* 0: off */
    char config_file[CONFIG_TEXT_MAX]; /* INFO's config_file */
};

/* The current snapshot. Any thread. */
const struct config *config_current(void);

/* Sets the defaults, then applies the command line: [FILE] [--name value ...]. Returns 0, or prints what is wrong (file and line, or
 * argument) on standard error and returns 1. *exit_now: --help or --version was answered. Once, before threads start. */
int config_load(int argc, char **argv, bool *exit_now);

/* CONFIG GET with n patterns, and CONFIG SET with n name-value pairs (all or nothing); append the reply. SET: only with every shard held;
 * *changed is the new snapshot or NULL. */
void config_get(const struct arg *patterns, uint32_t n, struct reply *r);
void config_set(const struct arg *pairs, uint32_t n, struct reply *r);

#endif
