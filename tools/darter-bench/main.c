/* The start and the end of a run: options, address, workers, signals, and the reports in between. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/un.h>
#include <unistd.h>

#include "io/clock.h"
#include "tools/darter-bench/json.h"
#include "tools/darter-bench/plot.h"
#include "tools/darter-bench/report.h"

static int complain(const char *format, ...) __attribute__((format(printf, 1, 2)));

static int complain(const char *format, ...) {
    va_list list;
    va_start(list, format);
    fputs("darter-bench: ", stderr);
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    return 1;
}

/* ---- before the run ---- */

static const char *find_server(struct run *run) {
    const struct options *o = run->options;
    if (*o->unix_path) {
        struct sockaddr_un *a = (struct sockaddr_un *)&run->address;
        if (strlen(o->unix_path) >= sizeof a->sun_path) return "the path of the Unix socket is too long";
        a->sun_family = AF_UNIX;
        strcpy(a->sun_path, o->unix_path);
        run->address_size = sizeof *a;
        snprintf(run->address_text, sizeof run->address_text, "%s", o->unix_path);
        return NULL;
    }
    char port[8];
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG}, *found;
    snprintf(port, sizeof port, "%u", (unsigned)o->port);
    int error = getaddrinfo(o->host, port, &hints, &found);
    if (error) return gai_strerror(error);
    /* "localhost" may be ::1 first, where a server that listens on 127.0.0.1 only is not found: take what answers. */
    struct addrinfo *chosen = found;
    for (struct addrinfo *a = found; a; a = a->ai_next) {
        int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
        if (fd < 0) continue;
        bool answers = !a->ai_next || !connect(fd, a->ai_addr, a->ai_addrlen);
        close(fd);
        if (!answers) continue;
        chosen = a;
        break;
    }
    memcpy(&run->address, chosen->ai_addr, chosen->ai_addrlen);
    run->address_size = chosen->ai_addrlen;
    freeaddrinfo(found);
    snprintf(run->address_text, sizeof run->address_text, "%s:%s", o->host, port);
    return NULL;
}

static const char *make_commands(struct run *run) {
    const struct options *o = run->options;
    struct source longest = {.key_prefix_size = strlen(o->key_prefix), .size_max = o->size_max};
    run->custom = *o->command;
    if (run->custom) return command_init(&run->commands[OP_SET], o->command, &longest);
    const char *wrong = command_init(&run->commands[OP_SET], "SET __key__ __data__", &longest);
    return wrong ? wrong : command_init(&run->commands[OP_GET], "GET __key__", &longest);
}

/* As many files as the connections need, if the limit can be raised. */
static void raise_files(uint64_t connections) {
    struct rlimit files;
    if (getrlimit(RLIMIT_NOFILE, &files) || files.rlim_cur >= connections + 64) return;
    files.rlim_cur = connections + 64 < files.rlim_max ? connections + 64 : files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
}

static int take_signals(void) {
    sigset_t set;
    signal(SIGPIPE, SIG_IGN);
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    return signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
}

/* ---- the run ---- */

struct bench {
    struct options options;
    struct run run;
    struct worker *workers;
    uint32_t started; /* threads */
    struct results results;
    struct progress progress;
    struct cpu_time own_start, server_start;
    uint32_t ended; /* workers whose last report came */
    int signals;    /* signalfd */
    bool loading, interrupted;
};

static void wake_workers(struct bench *b) {
    for (uint32_t i = 0; i < b->started; i++) {
        struct proactor *p = atomic_load(&b->workers[i].opened);
        if (p) proactor_wake(b->run.main, p);
    }
}

static void stop(struct bench *b) {
    atomic_store(&b->run.stopping, 1);
    wake_workers(b);
}

static void start_load(struct bench *b) {
    report_plan(&b->run, proactor_kind_of(b->workers[0].proactor) == PROACTOR_URING ? "io_uring" : "epoll");
    b->results.started_ms = now_realtime_ms();
    b->own_start = cpu_of_self();
    if (b->options.server_pid) cpu_of_process(b->options.server_pid, &b->server_start);
    atomic_store(&b->run.start_ns, now_monotonic_ns());
    wake_workers(b);
}

static void take_reports(struct bench *b) {
    struct message *m;
    mailbox_collect(&b->run.reports);
    while ((m = mailbox_next(&b->run.reports))) {
        struct report *report = (struct report *)((char *)m - offsetof(struct report, message));
        progress_add(&b->progress, report);
        results_add(&b->results, report);
        b->ended += report->last;
        atomic_store_explicit(&report->busy, false, memory_order_release);
        progress_show(&b->progress, &b->results);
    }
}

static void take_signal(struct bench *b) {
    struct signalfd_siginfo info;
    while (read(b->signals, &info, sizeof info) == sizeof info) b->interrupted = true;
}

/* Until every worker has ended, or none can go on. */
static void supervise(struct bench *b) {
    struct event ev;
    while (b->ended < b->run.workers) {
        proactor_wait(b->run.main, UINT64_MAX);
        while (proactor_next(b->run.main, &ev))
            if (ev.kind == EV_FD) take_signal(b);
        if (b->interrupted || atomic_load(&b->run.failed)) {
            stop(b);
            if (!b->loading) return;
        }
        if (!b->loading && atomic_load(&b->run.ready) == b->run.workers) {
            b->loading = true;
            start_load(b);
        }
        if (b->loading) take_reports(b);
    }
}

static int run_load(struct bench *b) {
    for (; b->started < b->run.workers; b->started++)
        if (pthread_create(&b->workers[b->started].thread, NULL, worker_main, &b->workers[b->started])) {
            run_fail(&b->run, b->run.main, "no thread for worker %u", b->started + 1);
            break;
        }
    supervise(b);
    struct cpu_time server_end;
    b->results.has_server = b->options.server_pid && !cpu_of_process(b->options.server_pid, &server_end);
    if (b->results.has_server) b->results.server = cpu_between(b->server_start, server_end);
    b->results.own = cpu_between(b->own_start, cpu_of_self());
    for (uint32_t i = 0; i < b->started; i++) pthread_join(b->workers[i].thread, NULL);
    progress_end(&b->progress);
    if (atomic_load(&b->run.failed)) return complain("%s", b->run.failure);
    return b->loading ? 0 : complain("interrupted before all connections were there");
}

static void add_up(struct bench *b) {
    struct results *r = &b->results;
    for (uint32_t i = 0; i < b->run.workers; i++) {
        const struct worker *w = &b->workers[i];
        double busy = w->wall_ns ? (double)w->cpu_ns / (double)w->wall_ns : 0;
        if (busy > r->busiest) r->busiest = busy;
        r->never_sent += w->never_sent;
        r->never_answered += w->never_answered;
    }
    r->interrupted = b->interrupted;
    r->ended_ms = now_realtime_ms();
    results_end(r);
}

static int tell(struct bench *b) {
    const struct options *o = &b->options;
    int status = 0;
    add_up(b);
    report_summary(&b->results);
    if (o->plot) {
        plot_terminal(&b->results);
        int error = plot_svg(&b->results, o->plot);
        if (error) status = complain("%s: %s", o->plot, strerror(-error));
    }
    if (*o->json_out_file) {
        int error = json_write(&b->results, o->json_out_file);
        if (error) status = complain("%s: %s", o->json_out_file, strerror(-error));
    }
    if (b->results.connections_lost)
        status = complain(
            "%s (%u of %u connections in all)", b->run.loss, b->results.connections_lost, b->run.workers * (uint32_t)o->connections);
    else if (b->results.never_answered && !b->interrupted)
        status = complain("%s left %llu requests unanswered, %d s after the end", b->run.address_text,
            (unsigned long long)b->results.never_answered, DRAIN_S);
    return status;
}

static int prepare(struct bench *b) {
    struct run *run = &b->run;
    struct options *o = &b->options;
    run->options = o;
    run->workers = o->threads ? (uint32_t)o->threads : cpu_count();
    b->progress.terminal = isatty(STDOUT_FILENO);
    struct cpu_time unused;
    int error = o->server_pid ? cpu_of_process(o->server_pid, &unused) : 0;
    if (error) return complain("--server_pid=%llu: %s", (unsigned long long)o->server_pid, strerror(-error));
    const char *wrong = make_commands(run);
    if (wrong) return complain("--command: %s", wrong);
    wrong = find_server(run);
    if (wrong) return complain("%s: %s", *o->unix_path ? o->unix_path : o->host, wrong);
    raise_files(o->connections * run->workers);
    mailbox_init(&run->reports);
    b->signals = take_signals();
    struct proactor_options options = {.kind = PROACTOR_EPOLL, .buffer_size = 64, .buffer_count = 1};
    if (b->signals < 0 || proactor_open(&run->main, &options, NULL) || proactor_watch_fd(run->main, b->signals, 0))
        return complain("no descriptors are left");
    b->workers = calloc(run->workers, sizeof *b->workers);
    if (!b->workers || results_init(&b->results, run)) return complain("out of memory");
    for (uint32_t i = 0; i < run->workers; i++) {
        b->workers[i].number = i;
        if (worker_init(&b->workers[i], run)) return complain("not enough memory for %llu connections", (unsigned long long)o->connections);
    }
    return 0;
}

static void clean_up(struct bench *b) {
    for (uint32_t i = 0; b->workers && i < b->run.workers; i++) worker_finish(&b->workers[i]);
    free(b->workers);
    results_finish(&b->results);
    for (int i = 0; i < OPS; i++) command_finish(&b->run.commands[i]);
    if (b->run.main) proactor_close(b->run.main);
}

int main(int argc, char **argv) {
    static struct bench bench; /* zeros, and too large for a stack */
    char message[OPTIONS_MESSAGE_MAX];
    if (!options_read(&bench.options, argc, argv, message)) return complain("%s", message);
    if (bench.options.help) {
        options_help();
        return 0;
    }
    if (bench.options.version) {
        puts("darter-bench " DARTER_VERSION);
        return 0;
    }
    int status = prepare(&bench);
    if (!status) status = run_load(&bench);
    if (!status) status = tell(&bench);
    clean_up(&bench);
    return status;
}
