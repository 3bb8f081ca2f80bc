/* The start and the end: configuration, listening sockets, threads, signals. */
#include <errno.h>
#include <locale.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/signalfd.h>
#include <syslog.h>
#include <unistd.h>

#include "io/clock.h"
#include "server/advice.h"
#include "server/crash.h"
#include "server/disk.h"
#include "server/listeners.h"
#include "server/loading.h"
#include "server/log.h"
#include "server/outbox.h"
#include "server/regions.h"
#include "server/saving.h"
#include "server/service.h"
#include "server/thread.h"
#include "server/title.h"
#include "server/version.h"
#include "server/watchdog.h"

#define PIDFILE_OF_DAEMONS "/var/run/darter.pid"

/* Leak checkers want every block back; otherwise the end of the process is faster. */
#if defined(__SANITIZE_ADDRESS__)
#define FREE_AT_EXIT true
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define FREE_AT_EXIT true
#endif
#endif
#ifndef FREE_AT_EXIT
#define FREE_AT_EXIT false
#endif

struct server server;

/* The CPUs that a control group's quota amounts to, rounded up; UINT32_MAX: it has none. */
static uint32_t quota_of(const char *group) {
    char path[1100];
    long quota, period;
    uint32_t n = UINT32_MAX;
    snprintf(path, sizeof path, "/sys/fs/cgroup%s/cpu.max", group);
    FILE *f = fopen(path, "r");
    if (f && fscanf(f, "%ld %ld", &quota, &period) == 2 && period > 0 && quota > 0) n = (uint32_t)((quota + period - 1) / period);
    if (f) fclose(f);
    return n;
}

/* The CPUs that this process may use: its affinity, and the quotas of its control group (version 2) and of all above it. */
static uint32_t usable_cpus(void) {
    cpu_set_t set;
    char line[1024], group[1024] = "";
    uint32_t n = sched_getaffinity(0, sizeof set, &set) ? 1 : (uint32_t)CPU_COUNT(&set);
    FILE *f = fopen("/proc/self/cgroup", "r");
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "0::%1023s", group) == 1) break;
    if (f) fclose(f);
    for (char *end = group + strlen(group);; *end = 0) {
        uint32_t most = quota_of(group);
        if (most < n) n = most;
        end = strrchr(group, '/');
        if (!end) return n ? n : 1;
    }
}

static int init(const struct config *c) {
    uint8_t seed[32], id[20];
    if (getrandom(seed, sizeof seed, 0) != sizeof seed || getrandom(id, sizeof id, 0) != sizeof id) return 1;
    hash_secret_init(&server.secret, seed);
    for (size_t i = 0; i < sizeof id; i++) snprintf(server.run_id + 2 * i, 3, "%02x", id[i]);
    server.n_threads = c->threads ? (uint32_t)c->threads : usable_cpus();
    server.started_ms = now_realtime_ms();
    server.started_ns = now_monotonic_ns();
    atomic_store(&server.next_client_id, 1);
    server.threads = calloc(server.n_threads, sizeof *server.threads);
    if (!server.threads || pthread_barrier_init(&server.ready, NULL, server.n_threads + 1)) return 1;
    budget_init(&server.budget);
    for (uint32_t i = 0; i < server.n_threads; i++) {
        server.threads[i] = thread_new(i, server.n_threads);
        if (server.threads[i]) continue;
        log_line(LOG_WARNING_LEVEL, "Out of memory for thread %u", i);
        return 1;
    }
    config_limit_memory(c);
    return 0;
}

static int open_log(const struct config *c) {
    int facility = c->syslog_facility ? LOG_LOCAL0 + ((c->syslog_facility - 1) << 3) : LOG_USER;
    int error = log_open(c->logfile, c->syslog_enabled ? c->syslog_ident : NULL, facility);
    if (error) log_line(LOG_WARNING_LEVEL, "Can't open the log file %s: %s", c->logfile, strerror(-error));
    return error;
}

/* The signals that the main thread waits for, blocked in every thread. Returns a signalfd, or -1. */
static int take_signals(void) {
    sigset_t set;
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN); /* a file that may not grow is an error to be told */
    signal(SIGHUP, SIG_DFL);  /* an ignored one would never come */
    sigemptyset(&set);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* The other threads go on, with half of the data. */
static void exit_at_once(int status) {
    if (!status) log_line(LOG_WARNING_LEVEL, "Received shutdown signal during loading, exiting now.");
    log_drain();
    service_pidfile_remove();
    _exit(status);
}

/* True: it is the end, by a signal or by one of our own, as SHUTDOWN and what was saved send. */
static bool take_signal(int signals) {
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGHUP) log_reopen();
        else if (loading_is_running()) exit_at_once(loading_exit_status()); /* DEBUG RELOAD */
        else if (info.ssi_pid == (uint32_t)getpid() || saving_signal((int)info.ssi_signo)) return true;
    }
    return false;
}

/* What the main thread does while the others serve: it writes the log, maps and unmaps regions of memory, watches if it shall, and otherwise
 * sleeps until a signal comes. */
static void wait_for_end(int signals, int wake) {
    for (bool end = false; !end;) {
        int look_ms = watchdog_look(), log = log_drain();
        regions_serve(&server);
        struct pollfd p[] = {{.fd = signals, .events = POLLIN}, {.fd = wake, .events = POLLIN}, {.fd = log, .events = POLLOUT}};
        if (poll(p, 3, look_ms) < 0) continue;
        uint64_t times;
        if (p[1].revents && read(wake, &times, sizeof times) < 0) { /* nothing lost: both looks follow anyway */
        }
        if (p[0].revents) end = take_signal(signals);
    }
}

static void say_started(void) {
    const char *io = proactor_kind_of(server.threads[0]->proactor) == PROACTOR_URING ? "io_uring" : "epoll";
    log_line(LOG_NOTICE_LEVEL, "Darter %s, %u thread%s, %s, pid %d", DARTER_VERSION, server.n_threads, server.n_threads == 1 ? "" : "s", io,
        (int)getpid());
    log_drain();
}

/* If this goes wrong the process ends at once. */
static void load(int signals) {
    service_notify("STATUS=Loading");
    enum loading_result result = loading_run(signals);
    if (result == LOADING_DONE) return;
    exit_at_once(result == LOADING_FAILED);
}

static void say_ready(void) {
    log_line(LOG_NOTICE_LEVEL, "Ready to accept connections");
    log_drain();
    service_ready();
}

int main(int argc, char **argv) {
    bool exit_now;
    setlocale(LC_COLLATE, ""); /* the order of SORT ALPHA */
    if (argc == 2 && !strcmp(argv[1], "--dump-command-docs")) {
        commands_init();
        commands_print_docs();
        return 0;
    }
    commands_init();
    if (config_load(argc, argv, &exit_now)) return 1;
    if (exit_now) return 0;
    title_take_memory(argc, argv);
    const struct config *c = config_current();
    if (open_log(c)) return 1;
    config_log_warnings();
    listeners_take_handed();
    bool daemon = !service_supervise(c->supervised) && c->daemonize;
    int error = daemon ? service_daemonize() : 0;
    if (error) {
        log_line(LOG_WARNING_LEVEL, "Can't go into the background: %s", strerror(-error));
        return 1;
    }
    int signals = take_signals(), wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (signals < 0 || wake < 0) {
        log_line(LOG_WARNING_LEVEL, "Can't wait for signals: %s", strerror(errno));
        return 1;
    }
    crash_start(c->crash_log_enabled);
    measure_start();
    if (config_fit_clients()) return 1;
    c = config_current();
    if (listeners_start(c) || init(c)) return 1;
    if (daemon || c->pidfile[0]) service_pidfile(c->pidfile[0] ? c->pidfile : PIDFILE_OF_DAEMONS);
    title_show(c);
    advice_system(c);
    int loads = loading_prepare(c);
    if (loads < 0) return 1;
    watchdog_start(wake, service_watchdog_us());
    log_queue_start(wake);
    regions_start(wake);
    for (uint32_t i = 0; i < server.n_threads; i++) {
        error = thread_start(server.threads[i]);
        if (!error) continue;
        log_line(LOG_WARNING_LEVEL, "Can't start thread %u: %s", i, strerror(error));
        return 1;
    }
    error = disk_start();
    if (error) {
        log_line(LOG_WARNING_LEVEL, "Can't start the thread for the disk: %s", strerror(error));
        return 1;
    }
    pthread_barrier_wait(&server.ready);
    say_started();
    if (loads) load(signals);
    say_ready();
    wait_for_end(signals, wake);
    service_stopping();
    atomic_store(&server.stopping, true);
    for (uint32_t i = 0; i < server.n_threads; i++) proactor_wake(NULL, server.threads[i]->proactor);
    for (uint32_t i = 0; i < server.n_threads; i++) pthread_join(server.threads[i]->handle, NULL);
    bool ended = disk_stop();
    ended = saving_stop() && ended;
    listeners_end();
    log_queue_stop();
    service_pidfile_remove();
    if (FREE_AT_EXIT && ended) {
        /* In turns, while every shard is there to take its blobs back and every message's sender is there. */
        static void (*const turns[])(struct thread *) = {thread_drop_conns, outbox_drain, outbox_drop_batches, outbox_drain, thread_drop};
        for (size_t turn = 0; turn < sizeof turns / sizeof *turns; turn++)
            for (uint32_t i = 0; i < server.n_threads; i++) turns[turn](server.threads[i]);
    }
    log_line(LOG_WARNING_LEVEL, "Darter is now ready to exit, bye bye...");
    if (!ended) _exit(0); /* a thread that hangs still uses what exit() would take down */
    return 0;
}
