/* The configuration: one table of directives (config_table.c), and immutable snapshots of their values.
 *
 * A snapshot never changes. CONFIG SET makes a new one and swaps the pointer while it holds every shard (so two cannot race); each
 * thread takes the new pointer at the start of its next tick and tells its version then (struct thread.config_version). An old one is freed
 * at a CONFIG SET that finds every thread with a newer one. Threads read it through their own pointer (struct thread.config), or for a
 * moment through config_current().
 *
 * To add a directive: a field here, a row in config_table.c, what it does, and a test of that, named in tests/integration/test_config_effects.py.
 * docs/configuration.md is made from the rows (tools/gen-docs).
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
/* A snapshot is due after so many seconds with at least so many changes. */
struct save_point {
    int64_t seconds, changes;
};

#define CONFIG_TEXT_MAX 512u
#define CONFIG_NAME_MAX 128u /* of what is a short name */
#define CONFIG_BIND_MAX 16u
#define CONFIG_HOST_MAX 256u /* of an address or a host name, with '-' and NUL */
#define CONFIG_SAVE_MAX 32u

/* Fields are named after their directives, which the table describes; int32_t ones are indices of the names there. */
struct config {
    /* network */
    char bind[CONFIG_BIND_MAX][CONFIG_HOST_MAX];
    uint32_t n_bind;
    int64_t port, tcp_backlog, tcp_keepalive_s, timeout_s, maxclients, threads, databases;
    char unixsocket[108];
    int64_t unixsocketperm; /* octal mode; 0: as umask says */
    bool protected_mode, pin, lend;
    int32_t io; /* enum proactor_kind */
    char requirepass[CONFIG_TEXT_MAX];
    char reported_redis_version[16];
    /* limits */
    int64_t proto_max_bulk_len, client_query_buffer_limit, maxmemory;
    int64_t maxmemory_clients; /* bytes; negative: percent of maxmemory */
    struct output_limit output_limit[CLIENT_CLASSES];
    /* behaviour */
    int32_t prefetch;                                        /* enum prefetch_level */
    int32_t enable_debug_command;                            /* enum config_allow */
    int32_t enable_protected_configs, enable_module_command; /* enum config_allow */
    int32_t huge_pages;                                      /* 0 auto, 1 yes, 2 no */
    int32_t loglevel;                                        /* enum log_level */
    int64_t housekeeping_percent, slowlog_slower_us, slowlog_max_len;
    bool latency_tracking;
    char latency_tracking_info_percentiles[CONFIG_NAME_MAX];
    int64_t latency_monitor_threshold_ms, busy_reply_threshold_ms, tracking_table_max_keys;
    char notify_keyspace_events[20];
    /* process */
    char dir[CONFIG_TEXT_MAX]; /* the working directory, absolute */
    char logfile[CONFIG_TEXT_MAX], pidfile[CONFIG_TEXT_MAX], syslog_ident[CONFIG_NAME_MAX];
    bool daemonize, syslog_enabled, set_proc_title, always_show_logo, crash_log_enabled, crash_memcheck_enabled, use_exit_on_panic;
    int32_t syslog_facility, supervised, oom_score_adj;
    char oom_score_adj_values[32], proc_title_template[CONFIG_NAME_MAX], ignore_warnings[CONFIG_NAME_MAX];
    char shutdown_on_sigint[32], shutdown_on_sigterm[32];
    int64_t shutdown_timeout_s, watchdog_period_ms, socket_mark_id;
    bool disable_thp;
    char server_cpulist[CONFIG_NAME_MAX], bio_cpulist[CONFIG_NAME_MAX], aof_rewrite_cpulist[CONFIG_NAME_MAX],
        bgsave_cpulist[CONFIG_NAME_MAX];
    char bind_source_addr[64];
    int64_t io_threads;
    bool io_threads_do_reads;
    /* snapshots */
    struct save_point save[CONFIG_SAVE_MAX];
    uint32_t n_save;
    char dbfilename[CONFIG_TEXT_MAX];
    bool rdbcompression, rdbchecksum, rdb_del_sync_files, rdb_save_incremental_fsync, rdb_skip_unknown, stop_writes_on_bgsave_error;
    int32_t sanitize_dump_payload, snapshot_overrun, snapshot_prefetch;
    int64_t snapshot_buffer_limit;
    int64_t rdb_key_save_delay_us, key_load_delay_us, loading_process_events_interval_bytes;
    /* append log */
    bool appendonly, no_appendfsync_on_rewrite, aof_load_truncated, aof_use_rdb_preamble, aof_timestamp_enabled,
        aof_rewrite_incremental_fsync, aof_disable_auto_gc;
    int32_t appendfsync;
    char appendfilename[CONFIG_NAME_MAX], appenddirname[CONFIG_NAME_MAX];
    int64_t auto_aof_rewrite_percentage, auto_aof_rewrite_min_size;
    /* eviction, expiry, freeing */
    int32_t maxmemory_policy;
    int64_t maxmemory_samples, maxmemory_eviction_tenacity, lfu_log_factor, lfu_decay_time_min, active_expire_effort, hz;
    bool dynamic_hz, activerehashing, activedefrag, jemalloc_bg_thread;
    bool lazyfree_lazy_eviction, lazyfree_lazy_expire, lazyfree_lazy_server_del, lazyfree_lazy_user_del, lazyfree_lazy_user_flush;
    int64_t active_defrag_ignore_bytes, active_defrag_threshold_lower, active_defrag_threshold_upper, active_defrag_cycle_min,
        active_defrag_cycle_max, active_defrag_max_scan_fields;
    /* the small forms of values */
    int64_t hash_max_listpack_entries, hash_max_listpack_value, list_max_listpack_size, list_compress_depth, set_max_intset_entries,
        zset_max_listpack_entries, zset_max_listpack_value, hll_sparse_max_bytes, stream_node_max_bytes, stream_node_max_entries;
    /* users */
    char aclfile[CONFIG_TEXT_MAX];
    int64_t acllog_max_len;
    int32_t acl_pubsub_default;
    /* replication */
    char replicaof[CONFIG_TEXT_MAX]; /* "host port", or "" */
    char masteruser[CONFIG_TEXT_MAX], masterauth[CONFIG_TEXT_MAX], replica_announce_ip[CONFIG_NAME_MAX];
    bool replica_serve_stale_data, replica_read_only, replica_lazy_flush, replica_ignore_maxmemory, replica_announced,
        replica_ignore_disk_write_errors, repl_diskless_sync, repl_disable_tcp_nodelay;
    int32_t repl_diskless_load, propagation_error_behavior;
    int64_t repl_diskless_sync_delay_s, repl_diskless_sync_max_replicas, repl_ping_replica_period_s, repl_timeout_s, repl_backlog_size,
        repl_backlog_ttl_s, replica_priority, replica_announce_port, min_replicas_to_write, min_replicas_max_lag_s;
    /* cluster */
    bool cluster_enabled, cluster_replica_no_failover, cluster_require_full_coverage, cluster_allow_reads_when_down,
        cluster_allow_pubsubshard_when_down, cluster_allow_replica_migration;
    char cluster_config_file[CONFIG_NAME_MAX], cluster_announce_ip[CONFIG_NAME_MAX], cluster_announce_hostname[256];
    int64_t cluster_port, cluster_announce_port, cluster_announce_bus_port, cluster_announce_tls_port, cluster_node_timeout_ms,
        cluster_migration_barrier, cluster_replica_validity_factor, cluster_link_sendbuf_limit;
    int32_t cluster_preferred_endpoint_type;
    /* TLS */
    int64_t tls_port, tls_session_cache_size, tls_session_cache_timeout_s;
    bool tls_cluster, tls_replication, tls_prefer_server_ciphers, tls_session_caching;
    int32_t tls_auth_clients;
    char tls_cert_file[CONFIG_TEXT_MAX], tls_key_file[CONFIG_TEXT_MAX], tls_key_file_pass[CONFIG_TEXT_MAX],
        tls_client_cert_file[CONFIG_TEXT_MAX], tls_client_key_file[CONFIG_TEXT_MAX], tls_client_key_file_pass[CONFIG_TEXT_MAX],
        tls_dh_params_file[CONFIG_TEXT_MAX], tls_ca_cert_file[CONFIG_TEXT_MAX], tls_ca_cert_dir[CONFIG_TEXT_MAX],
        tls_protocols[CONFIG_NAME_MAX], tls_ciphers[CONFIG_TEXT_MAX], tls_ciphersuites[CONFIG_TEXT_MAX];

    uint64_t version;                  /* one more with each CONFIG SET */
    char config_file[CONFIG_TEXT_MAX]; /* absolute path of the file that was read; "": none */
};

enum config_allow { CONFIG_ALLOW_NO, CONFIG_ALLOW_YES, CONFIG_ALLOW_LOCAL };

/* The current snapshot. Any thread. */
const struct config *config_current(void);

/* Sets the defaults, then applies the file, standard input and the arguments, in this order: [FILE] [-] [--name value ...] [-]. Returns 0, or
 * prints what is wrong (with file and line, or the argument) on standard error and returns 1. *exit_now: --help and the like were answered.
 * Once, before threads start and after commands_init() (for rename-command). Changes to dir at once, as what follows may depend on it. */
int config_load(int argc, char **argv, bool *exit_now);

/* Logs what was accepted at start without having an effect: once, when the log is open. */
void config_log_warnings(void);

/* Raises the limit on open files so that maxclients fit, or lowers maxclients to what fits. After config_load, before threads start.
 * Returns 0, or 1 if not even one client fits. */
int config_fit_clients(void);

/* What shutdown-on-sigint and its kin say. */
enum shutdown_flags { SHUTDOWN_SAVE = 1, SHUTDOWN_NOSAVE = 2, SHUTDOWN_NOW = 4, SHUTDOWN_FORCE = 8 };
uint32_t config_shutdown_flags(const char *words);

/* Gives the shards maxmemory as their limit, or none. Only with every shard held, or before threads start. While data are loaded the first does nothing. */
void config_limit_memory(const struct config *c);
void config_lift_memory_limit(void);

/* CONFIG GET with n patterns. Any thread. */
void config_get(const struct arg *patterns, uint32_t n, struct reply *r);
/* Whether the value of the directive of this name must not be shown. Any thread. */
bool config_is_secret(const struct arg *name);
/* CONFIG SET with n name-value pairs, all or nothing. Only with every shard held, or beside a loading, by one at a time. local: the client is on
 * this machine; oldest: the least version that any thread holds, older ones are freed. */
void config_set(const struct arg *pairs, uint32_t n, bool local, uint64_t oldest, struct reply *r);
/* How many old ones are kept, as threads may read them. As config_set. */
uint32_t config_retired(void);
/* CONFIG REWRITE (a disk_fn): writes the file that was read at start anew. The disk's thread only. */
bool config_rewrite(const struct config *c, char *why);

#endif
