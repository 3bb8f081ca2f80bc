/* The start and the end: configuration, listening sockets, threads, signals. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/socket.h"
#include "server/log.h"
#include "server/thread.h"
#include "server/version.h"

#define FDS_BESIDE_CLIENTS 64

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

/* The CPUs that this process may use: its affinity, and its cgroup's quota. */
static uint32_t usable_cpus(void) {
    cpu_set_t set;
    uint32_t n = sched_getaffinity(0, sizeof set, &set) ? 1 : (uint32_t)CPU_COUNT(&set);
    FILE *f = fopen("/sys/fs/cgroup/cpu.max", "r");
    long quota, period;
    if (f && fscanf(f, "%ld %ld", &quota, &period) == 2 && period > 0 && quota > 0) {
        uint32_t most = (uint32_t)((quota + period - 1) / period);
        if (most < n) n = most;
    }
    if (f) fclose(f);
    return n ? n : 1;
}

static int listen_all(const struct config *c) {
    for (uint32_t i = 0; c->port && i < c->n_bind; i++) {
        int fd = socket_listen_tcp(c->bind[i], (uint16_t)c->port, (int)c->tcp_backlog);
        if (fd == SOCKET_ABSENT) continue;
        if (fd < 0) {
            log_line(LOG_WARNING_LEVEL, "Could not listen on %s port %d: %s", c->bind[i], (int)c->port,
                fd == -EINVAL ? "not an address" : strerror(-fd));
            return 1;
        }
        server.listeners[server.n_listeners++] = fd;
    }
    if (c->port && !server.n_listeners) {
        log_line(LOG_WARNING_LEVEL, "Configured to not listen anywhere, exiting.");
        return 1;
    }
    if (c->unixsocket[0]) {
        int fd = socket_listen_unix(c->unixsocket, (mode_t)c->unixsocketperm, (int)c->tcp_backlog);
        if (fd < 0) {
            log_line(LOG_WARNING_LEVEL, "Could not listen on the Unix socket %s: %s", c->unixsocket, strerror(-fd));
            return 1;
        }
        server.listeners[server.n_listeners++] = fd;
    }
    return 0;
}

/* As many descriptors as clients may come. */
static void raise_file_limit(const struct config *c) {
    struct rlimit l;
    rlim_t want = (rlim_t)c->maxclients + FDS_BESIDE_CLIENTS;
    if (getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur >= want) return;
    rlim_t had = l.rlim_cur;
    l.rlim_cur = want;
    if (l.rlim_max < want) l.rlim_max = want;
    if (!setrlimit(RLIMIT_NOFILE, &l)) return;
    if (getrlimit(RLIMIT_NOFILE, &l)) return;
    l.rlim_cur = l.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &l)) l.rlim_cur = had;
    log_line(LOG_WARNING_LEVEL, "maxclients needs %llu open files, but only %llu are allowed", (unsigned long long)want,
        (unsigned long long)l.rlim_cur);
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
    for (uint32_t i = 0; i < server.n_threads; i++) {
        server.threads[i] = thread_new(i, server.n_threads);
        if (server.threads[i]) continue;
        log_line(LOG_WARNING_LEVEL, "Out of memory for thread %u", i);
        return 1;
    }
    return 0;
}

/* Waits for SIGTERM or SIGINT (SHUTDOWN sends it too). */
static void wait_for_end(void) {
    sigset_t ends;
    int sig = 0;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    while (sigwait(&ends, &sig)) {}
    log_line(LOG_WARNING_LEVEL, "Received %s scheduling shutdown...", sig == SIGINT ? "SIGINT" : "SIGTERM");
}

int main(int argc, char **argv) {
    bool exit_now;
    if (config_load(argc, argv, &exit_now)) return 1;
    if (exit_now) return 0;
    const struct config *c = config_current();
    commands_init();
    measure_start();
    signal(SIGPIPE, SIG_IGN);
    signal(SIGHUP, SIG_IGN);
    sigset_t ends;
    sigemptyset(&ends);
    sigaddset(&ends, SIGTERM);
    sigaddset(&ends, SIGINT);
    pthread_sigmask(SIG_BLOCK, &ends, NULL);
    if (c->dir[0] && chdir(c->dir)) {
        log_line(LOG_WARNING_LEVEL, "Can't change to the directory %s: %s", c->dir, strerror(errno));
        return 1;
    }
    raise_file_limit(c);
    if (listen_all(c) || init(c)) return 1;
    for (uint32_t i = 0; i < server.n_threads; i++) {
        int error = thread_start(server.threads[i]);
        if (!error) continue;
        log_line(LOG_WARNING_LEVEL, "Can't start thread %u: %s", i, strerror(error));
        return 1;
    }
    pthread_barrier_wait(&server.ready);
    const char *io = proactor_kind_of(server.threads[0]->proactor) == PROACTOR_URING ? "io_uring" : "epoll";
    log_line(LOG_NOTICE_LEVEL, "Darter %s, %u thread%s, %s, pid %d", DARTER_VERSION, server.n_threads, server.n_threads == 1 ? "" : "s", io,
        (int)getpid());
    log_line(LOG_NOTICE_LEVEL, "Ready to accept connections");
    wait_for_end();
    atomic_store(&server.stopping, true);
    for (uint32_t i = 0; i < server.n_threads; i++) proactor_wake(NULL, server.threads[i]->proactor);
    for (uint32_t i = 0; i < server.n_threads; i++) pthread_join(server.threads[i]->handle, NULL);
    for (uint32_t i = 0; i < server.n_listeners; i++) close(server.listeners[i]);
    c = config_current(); /* CONFIG SET has freed the one of the start */
    if (c->unixsocket[0]) unlink(c->unixsocket);
    if (FREE_AT_EXIT)
        for (uint32_t i = 0; i < server.n_threads; i++) thread_drop(server.threads[i]);
    log_line(LOG_WARNING_LEVEL, "Darter is now ready to exit, bye bye...");
    return 0;
}
