/* The table of directives: every one of Redis 7.0, and Darter's own. What works comes first; then, in groups whose titles say so, what is accepted
 * without an effect. When something begins to work, its row moves up and loses its flag.
 */
#include "server/config_table.h"

static const char *const names_io[] = {"auto", "uring", "epoll", NULL};
static const char *const names_prefetch[] = {"none", "bucket", "bucket+probe", "entry", "full", NULL};
static const char *const names_allow[] = {"no", "yes", "local", NULL}; /* enum config_allow */
static const char *const names_huge[] = {"auto", "yes", "no", NULL};
static const char *const names_level[] = {"debug", "verbose", "notice", "warning", NULL};
static const char *const names_facility[] = {"user", "local0", "local1", "local2", "local3", "local4", "local5", "local6", "local7", NULL};
static const char *const names_supervised[] = {"upstart", "systemd", "auto", "no", NULL}; /* enum supervised */
static const char *const names_oom[] = {"no", "yes", "relative", "absolute", NULL};       /* enum oom_score_adj */
static const char *const names_policy[] = {
    "volatile-lru", "volatile-lfu", "volatile-random", "volatile-ttl", "allkeys-lru", "allkeys-lfu", "allkeys-random", "noeviction", NULL};
static const char *const names_fsync[] = {"everysec", "always", "no", NULL};
static const char *const names_sanitize[] = {"no", "yes", "clients", NULL};
static const char *const names_pubsub[] = {"allchannels", "resetchannels", NULL};
static const char *const names_diskless[] = {"disabled", "on-empty-db", "swapdb", NULL};
static const char *const names_propagation[] = {"ignore", "panic", "panic-on-replicas", NULL};
static const char *const names_endpoint[] = {"ip", "hostname", "unknown-endpoint", NULL};
static const char *const names_tls_clients[] = {"no", "yes", "optional", NULL};

#define FIXED 0
#define MUTABLE DIRECTIVE_MUTABLE
#define YET_FIXED DIRECTIVE_YET
#define YET (DIRECTIVE_YET | DIRECTIVE_MUTABLE)
#define NEEDLESS_FIXED DIRECTIVE_NEEDLESS
#define NEEDLESS (DIRECTIVE_NEEDLESS | DIRECTIVE_MUTABLE)
#define HIDDEN DIRECTIVE_HIDDEN
#define SECRET DIRECTIVE_SECRET
#define MAX INT64_MAX

/* One row, one line: */
/* clang-format off */
#define ROW(name_, kind_, field_, fall_back_, flags_, doc_) \
    .name = name_, .kind = kind_, .at = offsetof(struct config, field_), .fall_back = fall_back_, .flags = flags_, .doc = doc_
/* A row: name, field, (range or names,) default, flags, doc, and what else it has. */
#define NUMBER(name, field, low_, high_, fall_back, flags, doc, ...) \
    {ROW(name, DIRECTIVE_NUMBER, field, fall_back, flags, doc), .low = low_, .high = high_, __VA_ARGS__}
#define BYTES(name, field, low_, high_, fall_back, flags, doc, ...) \
    {ROW(name, DIRECTIVE_BYTES, field, fall_back, flags, doc), .low = low_, .high = high_, __VA_ARGS__}
#define BOOL(name, field, fall_back, flags, doc, ...) {ROW(name, DIRECTIVE_BOOL, field, fall_back, flags, doc), __VA_ARGS__}
#define CHOICE(name, field, names_, fall_back, flags, doc, ...) \
    {ROW(name, DIRECTIVE_CHOICE, field, fall_back, flags, doc), .names = names_, __VA_ARGS__}
#define TEXT(name, field, fall_back, flags, doc, ...) \
    {ROW(name, DIRECTIVE_TEXT, field, fall_back, flags, doc), .size = sizeof(((struct config *)0)->field), __VA_ARGS__}
#define WORDS(name, field, fall_back, flags, doc, ...) \
    {ROW(name, DIRECTIVE_WORDS, field, fall_back, flags, doc), .size = sizeof(((struct config *)0)->field), __VA_ARGS__}
#define GROUP(title) {.doc = title}

static const char *const names_overrun[] = {"throttle", "abort", NULL};
static const char *const names_ahead[] = {"none", "entries", "values", NULL};

const struct directive directives[] = {
    GROUP("Network"),
    {ROW("bind", DIRECTIVE_BIND, bind, "* -::*", MUTABLE, "Addresses to listen on, or host names (looked up at start: their first IPv4 address). A leading `-`: skip it if this machine does not have it; `*` and `::*`: all of IPv4, of IPv6"), .apply = apply_bind, .expects = "up to 16 addresses or host names"},
    NUMBER("port", port, 0, 65535, "6379", MUTABLE, "TCP port; 0: no TCP", .apply = apply_port),
    NUMBER("tcp-backlog", tcp_backlog, 0, INT32_MAX, "511", FIXED, "Connections that may wait to be accepted"),
    NUMBER("tcp-keepalive", tcp_keepalive_s, 0, INT32_MAX, "300", MUTABLE, "Seconds between keepalive probes, for connections from then on; 0: none"),
    NUMBER("timeout", timeout_s, 0, INT32_MAX, "0", MUTABLE, "Seconds after which an idle client is closed; 0: never"),
    TEXT("unixsocket", unixsocket, "", FIXED, "Path of a Unix socket to listen on"),
    {ROW("unixsocketperm", DIRECTIVE_OCTAL, unixsocketperm, "0", FIXED, "Mode of the Unix socket, octal; 0: as the umask says"), .high = 0777},
    NUMBER("maxclients", maxclients, 1, UINT32_MAX, "10000", MUTABLE, "Most clients at a time. The limit on open files is raised for it; at start it is lowered to what fits", .apply = apply_maxclients),
    BOOL("protected-mode", protected_mode, "yes", MUTABLE, "Without a password, serve clients of this machine only"),
    TEXT("requirepass", requirepass, "", MUTABLE | SECRET, "Password of the default user"),
    TEXT("reported-redis-version", reported_redis_version, "7.0.15", MUTABLE, "Version that clients are told (INFO's redis_version, HELLO), as some ask for it before they use a command", .check = check_version, .expects = "three numbers with dots"),

    GROUP("Threads"),
    NUMBER("threads", threads, 0, 1024, "0", FIXED, "Threads, each with a shard of the keys; 0: as many as CPUs that this process may use"),
    CHOICE("io", io, names_io, "auto", FIXED, "How sockets are served: io_uring, epoll, or io_uring where it is allowed"),
    BOOL("pin", pin, "yes", FIXED, "Pin each thread to a CPU"),
    BOOL("lend", lend, "yes", MUTABLE, "A thread that sleeps lends its shard to those that have work for it, so that it need not be woken"),
    CHOICE("prefetch", prefetch, names_prefetch, "full", MUTABLE, "How far a batch of commands prefetches"),
    NUMBER("housekeeping-percent", housekeeping_percent, 1, 100, "20", MUTABLE, "Share of a busy thread's time for expiry, freeing and snapshots"),

    GROUP("Memory and limits"),
    NUMBER("databases", databases, 1, 16384, "16", FIXED, "Number of databases. (Redis takes more; here a key's expiry record has 14 bits for them)"),
    BYTES("proto-max-bulk-len", proto_max_bulk_len, 1048576, UINT32_MAX, "512mb", MUTABLE, "Largest argument, and largest string. (Redis takes more; here sizes have 32 bits)"),
    BYTES("client-query-buffer-limit", client_query_buffer_limit, 1048576, MAX, "1gb", MUTABLE, "Most bytes of a client that wait to be run"),
    {ROW("client-output-buffer-limit", DIRECTIVE_OUTPUT_LIMIT, output_limit, "normal 0 0 0 slave 256mb 64mb 60 pubsub 32mb 8mb 60", MUTABLE, "A client whose unread replies are above the hard limit, or for so many seconds above the soft limit, is closed"), .expects = "class, hard limit, soft limit, seconds; several times"},
    BYTES("maxmemory", maxmemory, 0, MAX, "0", MUTABLE, "Most bytes of data and their tables, clients' buffers not counted: what would take more is refused; 0: no limit", .apply = apply_maxmemory),
    BYTES("maxmemory-clients", maxmemory_clients, -100, MAX, "0", DIRECTIVE_MUTABLE | DIRECTIVE_PERCENT, "Most memory of all clients, in bytes or percent of maxmemory; 0: no limit"),
    CHOICE("huge-pages", huge_pages, names_huge, "auto", FIXED, "Advise huge pages for the table and small values"),

    GROUP("Small forms of values"),
    NUMBER("hash-max-listpack-entries", hash_max_listpack_entries, 0, MAX, "512", MUTABLE, "Most fields of a small hash", .alias = "hash-max-ziplist-entries"),
    BYTES("hash-max-listpack-value", hash_max_listpack_value, 0, MAX, "64", MUTABLE, "Longest field or value of a small hash", .alias = "hash-max-ziplist-value"),
    NUMBER("list-max-listpack-size", list_max_listpack_size, INT32_MIN, INT32_MAX, "-2", MUTABLE, "Most elements of a list's node, or its size: -1 to -5 are 4 to 64 KiB", .alias = "list-max-ziplist-size"),
    NUMBER("zset-max-listpack-entries", zset_max_listpack_entries, 0, MAX, "128", MUTABLE, "Most elements of a small sorted set", .alias = "zset-max-ziplist-entries"),
    BYTES("zset-max-listpack-value", zset_max_listpack_value, 0, MAX, "64", MUTABLE, "Longest element of a small sorted set", .alias = "zset-max-ziplist-value"),
    NUMBER("set-max-intset-entries", set_max_intset_entries, 0, MAX, "512", MUTABLE, "Most elements of a set of integers in its small form"),
    BYTES("hll-sparse-max-bytes", hll_sparse_max_bytes, 0, MAX, "3000", MUTABLE, "Largest sparse HyperLogLog"),

    GROUP("Process and log"),
    TEXT("dir", dir, "", MUTABLE | DIRECTIVE_PROTECTED | DIRECTIVE_AT_ONCE, "Working directory; empty: where the server was started. Relative paths that follow are meant from there", .apply = apply_dir, .expects = "a folder that exists"),
    CHOICE("loglevel", loglevel, names_level, "notice", MUTABLE, "Least level of what is logged", .apply = apply_loglevel),
    TEXT("logfile", logfile, "", FIXED, "File to log to, opened anew on SIGHUP; empty: standard error"),
    BOOL("syslog-enabled", syslog_enabled, "no", FIXED, "Log to syslog as well"),
    TEXT("syslog-ident", syslog_ident, "darter", FIXED, "Name of the program in syslog"),
    CHOICE("syslog-facility", syslog_facility, names_facility, "local0", FIXED, "Facility in syslog"),
    BOOL("crash-log-enabled", crash_log_enabled, "yes", FIXED, "Report a crash in the log, with a backtrace"),
    NUMBER("watchdog-period", watchdog_period_ms, 0, INT32_MAX, "0", MUTABLE, "Milliseconds after which a thread that hangs in one tick is named in the log; 0: off"),
    BOOL("daemonize", daemonize, "no", FIXED, "Run in the background; the start waits until connections are accepted"),
    TEXT("pidfile", pidfile, "", FIXED, "File for the process id, removed at the end; in the background, if empty, /var/run/darter.pid"),
    CHOICE("supervised", supervised, names_supervised, "no", FIXED, "Tell a supervisor of the start and the end"),
    BOOL("set-proc-title", set_proc_title, "yes", FIXED, "Show a title in the place of the arguments, in ps and /proc/PID/cmdline"),
    TEXT("proc-title-template", proc_title_template, "{title} {listen-addr} {server-mode}", MUTABLE, "What that title is", .check = check_title, .expects = "text with {title} {listen-addr} {server-mode} {port} {tls-port} {unixsocket} {config-file}"),
    WORDS("shutdown-on-sigint", shutdown_on_sigint, "default", MUTABLE, "How SIGINT ends the server: default is as SHUTDOWN does", .check = check_sigint, .expects = "default, or of save, nosave, now, force"),
    WORDS("shutdown-on-sigterm", shutdown_on_sigterm, "default", MUTABLE, "How SIGTERM ends the server", .check = check_sigterm, .expects = "default, or of save, nosave, now, force"),
    CHOICE("oom-score-adj", oom_score_adj, names_oom, "no", MUTABLE, "Set the kernel's OOM score by oom-score-adj-values: relative (or yes) to what it is, or absolute", .check = check_oom_mode),
    WORDS("oom-score-adj-values", oom_score_adj_values, "0 200 800", MUTABLE, "OOM score of a master, a replica and a background child; there are only masters yet", .check = check_oom_values, .expects = "three numbers from -2000 to 2000"),

    GROUP("Access, slow log, latency"),
    CHOICE("enable-debug-command", enable_debug_command, names_allow, "no", FIXED, "Allow DEBUG: to nobody, to all, to clients of this machine"),
    CHOICE("enable-protected-configs", enable_protected_configs, names_allow, "no", FIXED, "Allow CONFIG SET of what may write files elsewhere (dir, dbfilename)"),
    NUMBER("slowlog-log-slower-than", slowlog_slower_us, -1, MAX, "10000", MUTABLE, "Microseconds from which on a command is put into the slow log; -1: none"),
    NUMBER("slowlog-max-len", slowlog_max_len, 0, MAX, "128", MUTABLE, "Entries of the slow log"),
    BOOL("latency-tracking", latency_tracking, "yes", MUTABLE, "Show latencystats in INFO"),
    WORDS("latency-tracking-info-percentiles", latency_tracking_info_percentiles, "50 99 99.9", MUTABLE, "Percentiles that INFO's latencystats shows", .check = check_percentiles, .expects = "numbers from 0 to 100"),
    NUMBER("latency-monitor-threshold", latency_monitor_threshold_ms, 0, MAX, "0", MUTABLE, "Milliseconds from which on an event is kept for LATENCY; 0: off"),

    GROUP("Accepted, never needed: freeing, rehashing and threads"),
    NUMBER("hz", hz, 0, INT32_MAX, "10", NEEDLESS, "Housekeeping is driven by what is due; kept between 1 and 500", .check = check_hz),
    BOOL("dynamic-hz", dynamic_hz, "yes", NEEDLESS, "See hz"),
    NUMBER("active-expire-effort", active_expire_effort, 1, 10, "1", NEEDLESS, "Keys expire when they are due; see housekeeping-percent"),
    BOOL("activerehashing", activerehashing, "yes", NEEDLESS, "The table never rehashes"),
    BOOL("lazyfree-lazy-eviction", lazyfree_lazy_eviction, "no", NEEDLESS, "Freeing is always lazy"),
    BOOL("lazyfree-lazy-expire", lazyfree_lazy_expire, "no", NEEDLESS, "Freeing is always lazy"),
    BOOL("lazyfree-lazy-server-del", lazyfree_lazy_server_del, "no", NEEDLESS, "Freeing is always lazy"),
    BOOL("lazyfree-lazy-user-del", lazyfree_lazy_user_del, "no", NEEDLESS, "Freeing is always lazy"),
    BOOL("lazyfree-lazy-user-flush", lazyfree_lazy_user_flush, "no", NEEDLESS, "Freeing is always lazy"),
    BOOL("replica-lazy-flush", replica_lazy_flush, "no", NEEDLESS, "Freeing is always lazy", .alias = "slave-lazy-flush"),
    BOOL("activedefrag", activedefrag, "no", NEEDLESS, "Memory is not defragmented in place"),
    BYTES("active-defrag-ignore-bytes", active_defrag_ignore_bytes, 1, MAX, "100mb", NEEDLESS, "See activedefrag"),
    NUMBER("active-defrag-threshold-lower", active_defrag_threshold_lower, 0, 1000, "10", NEEDLESS, "See activedefrag"),
    NUMBER("active-defrag-threshold-upper", active_defrag_threshold_upper, 0, 1000, "100", NEEDLESS, "See activedefrag"),
    NUMBER("active-defrag-cycle-min", active_defrag_cycle_min, 1, 99, "1", NEEDLESS, "See activedefrag"),
    NUMBER("active-defrag-cycle-max", active_defrag_cycle_max, 1, 99, "25", NEEDLESS, "See activedefrag"),
    NUMBER("active-defrag-max-scan-fields", active_defrag_max_scan_fields, 1, MAX, "1000", NEEDLESS, "See activedefrag"),
    BOOL("jemalloc-bg-thread", jemalloc_bg_thread, "yes", NEEDLESS, "The allocator is mimalloc"),
    BOOL("disable-thp", disable_thp, "yes", NEEDLESS_FIXED, "See huge-pages"),
    NUMBER("io-threads", io_threads, 1, 128, "1", NEEDLESS_FIXED, "See threads"),
    BOOL("io-threads-do-reads", io_threads_do_reads, "no", NEEDLESS_FIXED, "See threads"),
    TEXT("server_cpulist", server_cpulist, "", NEEDLESS_FIXED, "See pin; taskset and cpusets are obeyed"),
    TEXT("bio_cpulist", bio_cpulist, "", NEEDLESS_FIXED, "See pin"),
    BOOL("always-show-logo", always_show_logo, "no", NEEDLESS_FIXED, "There is no logo"),
    BOOL("crash-memcheck-enabled", crash_memcheck_enabled, "yes", NEEDLESS, "Memory is not tested after a crash"),
    BOOL("use-exit-on-panic", use_exit_on_panic, "no", NEEDLESS | HIDDEN, "For Redis' own tests"),

    GROUP("Accepted, no effect yet: process and clients"),
    TEXT("ignore-warnings", ignore_warnings, "", YET, "Names of checks at start that only warn"),
    NUMBER("shutdown-timeout", shutdown_timeout_s, 0, INT32_MAX, "10", YET, "Seconds that a shutdown waits for replicas"),
    NUMBER("socket-mark-id", socket_mark_id, 0, UINT32_MAX, "0", YET_FIXED, "Mark of all sockets, for routing"),
    TEXT("bind-source-addr", bind_source_addr, "", YET, "Address that outgoing connections come from"),
    NUMBER("tracking-table-max-keys", tracking_table_max_keys, 0, MAX, "1000000", YET, "Most keys that are watched for client-side caches"),
    TEXT("notify-keyspace-events", notify_keyspace_events, "", YET, "Classes of events that are published", .check = check_events, .expects = "characters of `Ag$lshzxeKEtmdn`"),
    NUMBER("busy-reply-threshold", busy_reply_threshold_ms, 0, MAX, "5000", YET, "Milliseconds after which a script may be killed", .alias = "lua-time-limit"),
    CHOICE("enable-module-command", enable_module_command, names_allow, "no", YET_FIXED, "Allow MODULE"),

    GROUP("Accepted, no effect yet: eviction"),
    CHOICE("maxmemory-policy", maxmemory_policy, names_policy, "noeviction", YET, "What to evict at maxmemory"),
    NUMBER("maxmemory-samples", maxmemory_samples, 1, INT32_MAX, "5", YET, "Keys that are compared to find one to evict"),
    NUMBER("maxmemory-eviction-tenacity", maxmemory_eviction_tenacity, 0, 100, "10", YET, "How much time eviction may take"),
    NUMBER("lfu-log-factor", lfu_log_factor, 0, INT32_MAX, "10", YET, "How slowly the counter of accesses grows"),
    NUMBER("lfu-decay-time", lfu_decay_time_min, 0, INT32_MAX, "1", YET, "Minutes after which the counter of accesses shrinks"),

    GROUP("Snapshots"),
    {ROW("save", DIRECTIVE_SAVE, save, "3600 1 300 100 60 10000", MUTABLE, "Save after so many seconds if there were so many changes; empty: never"), .expects = "seconds and changes, in pairs, as in 3600 1 300 100; or \"\""},
    TEXT("dbfilename", dbfilename, "dump.rdb", MUTABLE | DIRECTIVE_PROTECTED, "Name of the snapshot file", .check = check_dbfilename, .expects = "a file name without a directory"),
    BOOL("rdbcompression", rdbcompression, "yes", MUTABLE, "Compress strings of up to 32 KiB in snapshots"),
    BOOL("rdbchecksum", rdbchecksum, "yes", 0, "Checksum snapshots"),
    BOOL("rdb-save-incremental-fsync", rdb_save_incremental_fsync, "yes", MUTABLE, "Have the disk begin with a snapshot while it is written"),
    BOOL("rdb-skip-unknown", rdb_skip_unknown, "no", MUTABLE, "Load a snapshot without what is not known here (streams, modules' data) instead of refusing it"),
    BOOL("stop-writes-on-bgsave-error", stop_writes_on_bgsave_error, "yes", MUTABLE, "Refuse writes after a snapshot failed, while there are save points"),
    BYTES("snapshot-buffer-limit", snapshot_buffer_limit, 1 << 20, MAX, "64mb", MUTABLE, "Bytes of a snapshot that may wait for the disk"),
    CHOICE("snapshot-overrun", snapshot_overrun, names_overrun, "throttle", MUTABLE, "When more waits: slow down what would add to it, or give the snapshot up"),
    NUMBER("key-load-delay", key_load_delay_us, INT32_MIN, INT32_MAX, "0", MUTABLE | HIDDEN, "Slow loading down, for tests"),
    CHOICE("snapshot-prefetch", snapshot_prefetch, names_ahead, "values", MUTABLE | HIDDEN, "What a snapshot's walk brings on its way from memory, for measuring"),

    GROUP("Accepted, no effect yet: snapshots"),
    BOOL("rdb-del-sync-files", rdb_del_sync_files, "no", YET, "Delete snapshots that were made for replication only"),
    CHOICE("sanitize-dump-payload", sanitize_dump_payload, names_sanitize, "no", YET, "Check in depth what RESTORE is given"),
    NUMBER("rdb-key-save-delay", rdb_key_save_delay_us, INT32_MIN, INT32_MAX, "0", YET | HIDDEN, "Slow saving down, for tests"),
    NUMBER("loading-process-events-interval-bytes", loading_process_events_interval_bytes, 1024, INT32_MAX, "2097152", YET | HIDDEN, "Bytes after which a loading server looks at its clients"),
    TEXT("bgsave_cpulist", bgsave_cpulist, "", YET_FIXED, "CPUs for saving"),

    GROUP("Accepted, no effect yet: append log"),
    BOOL("appendonly", appendonly, "no", YET, "Write every change to the append log"),
    CHOICE("appendfsync", appendfsync, names_fsync, "everysec", YET, "When the append log is synced"),
    TEXT("appendfilename", appendfilename, "appendonly.aof", YET_FIXED, "Name of the append log's files", .check = check_appendfilename, .expects = "a file name without a directory"),
    TEXT("appenddirname", appenddirname, "appendonlydir", YET_FIXED, "Directory of the append log's files", .check = check_appenddirname, .expects = "a directory's name without a path"),
    BOOL("no-appendfsync-on-rewrite", no_appendfsync_on_rewrite, "no", YET, "Do not sync while a snapshot or a rewrite runs"),
    NUMBER("auto-aof-rewrite-percentage", auto_aof_rewrite_percentage, 0, INT32_MAX, "100", YET, "Growth after which the append log is rewritten"),
    BYTES("auto-aof-rewrite-min-size", auto_aof_rewrite_min_size, 0, MAX, "64mb", YET, "Size from which on it is rewritten"),
    BOOL("aof-load-truncated", aof_load_truncated, "yes", YET, "Load an append log whose end is missing"),
    BOOL("aof-use-rdb-preamble", aof_use_rdb_preamble, "yes", YET, "Begin a rewritten append log with a snapshot"),
    BOOL("aof-timestamp-enabled", aof_timestamp_enabled, "no", YET, "Write the time into the append log"),
    BOOL("aof-rewrite-incremental-fsync", aof_rewrite_incremental_fsync, "yes", YET, "Sync a rewrite while it is written"),
    BOOL("aof-disable-auto-gc", aof_disable_auto_gc, "no", YET, "Keep files of the append log that are not needed any more"),
    TEXT("aof_rewrite_cpulist", aof_rewrite_cpulist, "", YET_FIXED, "CPUs for rewriting the append log"),

    GROUP("Accepted, no effect yet: small forms of values"),
    NUMBER("list-compress-depth", list_compress_depth, 0, INT32_MAX, "0", YET, "Nodes at each end of a list that are not compressed; 0: none is"),
    BYTES("stream-node-max-bytes", stream_node_max_bytes, 0, MAX, "4096", YET, "Largest node of a stream; 0: no limit"),
    NUMBER("stream-node-max-entries", stream_node_max_entries, 0, MAX, "100", YET, "Most entries of a stream's node; 0: no limit"),

    GROUP("Accepted, no effect yet: users"),
    TEXT("aclfile", aclfile, "", YET_FIXED, "File of users; refused at start if it is set, as without its users the server would be open", .check = check_aclfile),
    NUMBER("acllog-max-len", acllog_max_len, 0, MAX, "128", YET, "Entries of ACL LOG"),
    CHOICE("acl-pubsub-default", acl_pubsub_default, names_pubsub, "resetchannels", YET, "Channels that a new user may use"),

    GROUP("Accepted, no effect yet: replication"),
    WORDS("replicaof", replicaof, "", YET_FIXED, "Follow a master", .alias = "slaveof", .check = check_replicaof, .expects = "host and port"),
    TEXT("masteruser", masteruser, "", YET | SECRET, "User at the master"),
    TEXT("masterauth", masterauth, "", YET | SECRET, "Password at the master"),
    BOOL("replica-serve-stale-data", replica_serve_stale_data, "yes", YET, "Answer while the master is away", .alias = "slave-serve-stale-data"),
    BOOL("replica-read-only", replica_read_only, "yes", YET, "Refuse writes on a replica", .alias = "slave-read-only"),
    BOOL("replica-ignore-maxmemory", replica_ignore_maxmemory, "yes", YET, "Leave eviction to the master", .alias = "slave-ignore-maxmemory"),
    BOOL("replica-ignore-disk-write-errors", replica_ignore_disk_write_errors, "no", YET, "Go on as a replica that cannot write its disk"),
    CHOICE("propagation-error-behavior", propagation_error_behavior, names_propagation, "ignore", YET, "What to do about an error in what the master sent"),
    NUMBER("replica-priority", replica_priority, 0, INT32_MAX, "100", YET, "Order in which Sentinel promotes; 0: never", .alias = "slave-priority"),
    BOOL("replica-announced", replica_announced, "yes", YET, "Be shown by Sentinel"),
    TEXT("replica-announce-ip", replica_announce_ip, "", YET, "Address that the master is told", .alias = "slave-announce-ip"),
    NUMBER("replica-announce-port", replica_announce_port, 0, 65535, "0", YET, "Port that the master is told", .alias = "slave-announce-port"),
    BOOL("repl-diskless-sync", repl_diskless_sync, "yes", YET, "Send snapshots to replicas without a file"),
    NUMBER("repl-diskless-sync-delay", repl_diskless_sync_delay_s, 0, INT32_MAX, "5", YET, "Seconds to wait for more replicas before that"),
    NUMBER("repl-diskless-sync-max-replicas", repl_diskless_sync_max_replicas, 0, INT32_MAX, "0", YET, "Replicas that end that wait; 0: none"),
    CHOICE("repl-diskless-load", repl_diskless_load, names_diskless, "disabled", YET, "Load the master's snapshot without a file"),
    NUMBER("repl-ping-replica-period", repl_ping_replica_period_s, 1, INT32_MAX, "10", YET, "Seconds between pings to replicas", .alias = "repl-ping-slave-period"),
    NUMBER("repl-timeout", repl_timeout_s, 1, INT32_MAX, "60", YET, "Seconds after which a silent peer is given up"),
    BOOL("repl-disable-tcp-nodelay", repl_disable_tcp_nodelay, "no", YET, "Send to replicas in fewer, later packets"),
    BYTES("repl-backlog-size", repl_backlog_size, 1, MAX, "1mb", YET, "Changes that are kept for replicas that come back; at least 16kb", .check = check_backlog),
    NUMBER("repl-backlog-ttl", repl_backlog_ttl_s, 0, MAX, "3600", YET, "Seconds after which they are freed if no replica is there; 0: never"),
    NUMBER("min-replicas-to-write", min_replicas_to_write, 0, INT32_MAX, "0", YET, "Refuse writes with fewer replicas", .alias = "min-slaves-to-write"),
    NUMBER("min-replicas-max-lag", min_replicas_max_lag_s, 0, INT32_MAX, "10", YET, "Seconds that such a replica may be behind", .alias = "min-slaves-max-lag"),

    GROUP("Accepted, no effect yet: cluster"),
    BOOL("cluster-enabled", cluster_enabled, "no", YET_FIXED, "Be a node of a cluster"),
    TEXT("cluster-config-file", cluster_config_file, "nodes.conf", YET_FIXED, "File that the node keeps"),
    NUMBER("cluster-node-timeout", cluster_node_timeout_ms, 0, MAX, "15000", YET, "Milliseconds after which a silent node has failed"),
    NUMBER("cluster-port", cluster_port, 0, 65535, "0", YET_FIXED, "Port for other nodes; 0: port + 10000"),
    NUMBER("cluster-replica-validity-factor", cluster_replica_validity_factor, 0, INT32_MAX, "10", YET, "Node timeouts after which a replica is too old to be promoted", .alias = "cluster-slave-validity-factor"),
    BOOL("cluster-replica-no-failover", cluster_replica_no_failover, "no", YET, "Never promote this replica", .alias = "cluster-slave-no-failover"),
    NUMBER("cluster-migration-barrier", cluster_migration_barrier, 0, INT32_MAX, "1", YET, "Replicas that a master keeps when others need one"),
    BOOL("cluster-allow-replica-migration", cluster_allow_replica_migration, "yes", YET, "Let replicas move to masters without one"),
    BOOL("cluster-require-full-coverage", cluster_require_full_coverage, "yes", YET, "Serve only if every slot is served"),
    BOOL("cluster-allow-reads-when-down", cluster_allow_reads_when_down, "no", YET, "Answer reads while the cluster is down"),
    BOOL("cluster-allow-pubsubshard-when-down", cluster_allow_pubsubshard_when_down, "yes", YET, "Publish to shards while the cluster is down"),
    BYTES("cluster-link-sendbuf-limit", cluster_link_sendbuf_limit, 0, MAX, "0", YET, "Most bytes that wait for another node; 0: no limit"),
    TEXT("cluster-announce-ip", cluster_announce_ip, "", YET, "Address that other nodes are told"),
    TEXT("cluster-announce-hostname", cluster_announce_hostname, "", YET, "Host name that clients are told", .check = check_hostname, .expects = "letters, digits, hyphens and dots"),
    NUMBER("cluster-announce-port", cluster_announce_port, 0, 65535, "0", YET, "Port that other nodes are told"),
    NUMBER("cluster-announce-tls-port", cluster_announce_tls_port, 0, 65535, "0", YET, "TLS port that other nodes are told"),
    NUMBER("cluster-announce-bus-port", cluster_announce_bus_port, 0, 65535, "0", YET, "Port for other nodes that they are told"),
    CHOICE("cluster-preferred-endpoint-type", cluster_preferred_endpoint_type, names_endpoint, "ip", YET, "What clients are told of other nodes"),

    GROUP("Accepted, no effect yet: TLS"),
    NUMBER("tls-port", tls_port, 0, 65535, "0", YET, "TLS port; 0: no TLS"),
    TEXT("tls-cert-file", tls_cert_file, "", YET, "Certificate"),
    TEXT("tls-key-file", tls_key_file, "", YET, "Its key"),
    TEXT("tls-key-file-pass", tls_key_file_pass, "", YET | SECRET, "Password of the key"),
    TEXT("tls-client-cert-file", tls_client_cert_file, "", YET, "Certificate for outgoing connections"),
    TEXT("tls-client-key-file", tls_client_key_file, "", YET, "Its key"),
    TEXT("tls-client-key-file-pass", tls_client_key_file_pass, "", YET | SECRET, "Password of that key"),
    TEXT("tls-dh-params-file", tls_dh_params_file, "", YET, "Diffie-Hellman parameters"),
    TEXT("tls-ca-cert-file", tls_ca_cert_file, "", YET, "Authorities that sign clients' certificates"),
    TEXT("tls-ca-cert-dir", tls_ca_cert_dir, "", YET, "The same as a directory"),
    CHOICE("tls-auth-clients", tls_auth_clients, names_tls_clients, "yes", YET, "Whether clients need a certificate"),
    BOOL("tls-replication", tls_replication, "no", YET, "TLS to the master"),
    BOOL("tls-cluster", tls_cluster, "no", YET, "TLS between nodes"),
    TEXT("tls-protocols", tls_protocols, "", YET, "Versions of TLS"),
    TEXT("tls-ciphers", tls_ciphers, "", YET, "Ciphers up to TLS 1.2"),
    TEXT("tls-ciphersuites", tls_ciphersuites, "", YET, "Ciphers of TLS 1.3"),
    BOOL("tls-prefer-server-ciphers", tls_prefer_server_ciphers, "no", YET, "Our order of ciphers counts"),
    BOOL("tls-session-caching", tls_session_caching, "yes", YET, "Let clients resume sessions"),
    NUMBER("tls-session-cache-size", tls_session_cache_size, 0, INT32_MAX, "20480", YET, "Sessions that are kept; 0: no limit"),
    NUMBER("tls-session-cache-timeout", tls_session_cache_timeout_s, 0, INT32_MAX, "300", YET, "Seconds that they are kept"),
    {0},
};
