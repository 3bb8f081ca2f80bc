/* Map: making a line; the queue; writing; opening. */
#include "server/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <syslog.h>
#include <time.h>
#include <unistd.h>

#define TEXT_MAX 960u    /* with what stands before it, Redis' 1024 */
#define QUEUE_LINES 256u /* a power of two; the memory is touched only as lines are queued */
#define STOP_WAIT_MS 1000

struct line {
    struct timespec at;
    int level;
    uint32_t size;
    char text[TEXT_MAX];
};

/* A slot is free for the line number n if turn == n, and holds it if turn == n + 1 (Vyukov's bounded queue). */
struct slot {
    _Atomic uint64_t turn;
    struct line line;
};

static struct slot slots[QUEUE_LINES];
static _Atomic uint64_t queue_next; /* number of the next line to come */
static uint64_t queue_first;        /* of the next to be written; under writing */
static _Atomic uint64_t dropped;
static _Atomic bool queued, told; /* lines are queued; the main thread has been told and has not looked yet */
static int wake = -1;
static pthread_mutex_t writing = PTHREAD_MUTEX_INITIALIZER; /* who writes: the main thread, or one that ends the process */

static _Atomic int least = LOG_NOTICE_LEVEL;
static _Atomic int fd = STDERR_FILENO;
static bool may_block; /* a pipe, a socket, a terminal: ask before writing */
static bool stuck;     /* somebody waited in vain: at the end, nobody waits again */
static bool to_syslog;
static char path[PATH_MAX]; /* absolute, or empty */
static char ident[128];

void log_set_level(enum log_level level) { atomic_store_explicit(&least, (int)level, memory_order_relaxed); }

int log_fd(void) { return atomic_load_explicit(&fd, memory_order_relaxed); }

/* ---- writing; under the mutex ---- */

static void write_line(const struct line *l) {
    char out[TEXT_MAX + 96];
    struct tm day;
    localtime_r(&l->at.tv_sec, &day);
    size_t n = (size_t)snprintf(out, sizeof out, "%d:M ", (int)getpid());
    n += strftime(out + n, sizeof out - n, "%d %b %Y %H:%M:%S", &day);
    n += (size_t)snprintf(out + n, sizeof out - n, ".%03d %c ", (int)(l->at.tv_nsec / 1000000), ".-*#"[l->level]);
    memcpy(out + n, l->text, l->size);
    n += l->size;
    out[n++] = '\n';
    while (write(log_fd(), out, n) < 0 && errno == EINTR) {} /* otherwise nobody is left to tell */
    static const int priorities[] = {LOG_DEBUG, LOG_INFO, LOG_NOTICE, LOG_WARNING};
    if (to_syslog) syslog(priorities[l->level], "%.*s", (int)l->size, l->text);
}

static bool can_write(int wait_ms) {
    struct pollfd p = {.fd = log_fd(), .events = POLLOUT};
    return !may_block || poll(&p, 1, stuck ? 0 : wait_ms) == 1;
}

static bool pending(void) { return atomic_load_explicit(&slots[queue_first % QUEUE_LINES].turn, memory_order_acquire) == queue_first + 1; }

static void write_dropped(void) {
    uint64_t n = atomic_exchange_explicit(&dropped, 0, memory_order_relaxed);
    if (!n) return;
    struct line l = {.level = LOG_WARNING_LEVEL};
    clock_gettime(CLOCK_REALTIME, &l.at);
    l.size = (uint32_t)snprintf(
        l.text, sizeof l.text, "%llu lines of the log were lost: it could not be written fast enough", (unsigned long long)n);
    write_line(&l);
}

/* True: all is written. wait_ms: for how long it may block, about. */
static bool drain(int wait_ms) {
    while (pending()) {
        if (!can_write(wait_ms)) {
            stuck |= wait_ms > 0;
            return false;
        }
        struct slot *s = &slots[queue_first % QUEUE_LINES];
        write_line(&s->line);
        atomic_store_explicit(&s->turn, queue_first + QUEUE_LINES, memory_order_release);
        queue_first++;
    }
    if (!atomic_load_explicit(&dropped, memory_order_relaxed)) return true;
    if (!can_write(wait_ms)) return false;
    write_dropped();
    return true;
}

int log_drain(void) {
    atomic_exchange(&told, false); /* before looking: who queues after this tells again */
    pthread_mutex_lock(&writing);
    bool all = drain(0);
    pthread_mutex_unlock(&writing);
    return all ? -1 : log_fd();
}

void log_crash_drain(void) {
    if (!atomic_load(&queued) || pthread_mutex_trylock(&writing)) return;
    drain(0);
    pthread_mutex_unlock(&writing);
}

/* ---- making a line ---- */

static void fill(struct line *l, enum log_level level, const char *format, va_list args) __attribute__((format(printf, 3, 0)));
static void fill(struct line *l, enum log_level level, const char *format, va_list args) {
    clock_gettime(CLOCK_REALTIME, &l->at);
    l->level = (int)level;
    int n = vsnprintf(l->text, sizeof l->text, format, args);
    l->size = n < 0 ? 0 : (uint32_t)n < sizeof l->text ? (uint32_t)n : (uint32_t)sizeof l->text - 1;
    for (uint32_t i = 0; i < l->size; i++)
        if (l->text[i] == '\n') l->text[i] = ' '; /* a line is a line */
}

/* The slot for a new line, or NULL if the queue is full. */
static struct slot *take_slot(uint64_t *number) {
    uint64_t n = atomic_load_explicit(&queue_next, memory_order_relaxed);
    for (;;) {
        struct slot *s = &slots[n % QUEUE_LINES];
        uint64_t turn = atomic_load_explicit(&s->turn, memory_order_acquire);
        if (turn < n) return NULL;
        if (turn > n) n = atomic_load_explicit(&queue_next, memory_order_relaxed); /* another thread was faster */
        else if (atomic_compare_exchange_weak_explicit(&queue_next, &n, n + 1, memory_order_relaxed, memory_order_relaxed)) {
            *number = n;
            return s;
        }
    }
}

static void tell(void) {
    if (atomic_exchange(&told, true)) return;
    if (write(wake, &(uint64_t){1}, sizeof(uint64_t)) < 0) { /* it is full: then it was told */
    }
}

void log_line(enum log_level level, const char *format, ...) {
    if ((int)level < atomic_load_explicit(&least, memory_order_relaxed)) return;
    va_list args;
    va_start(args, format);
    if (atomic_load_explicit(&queued, memory_order_acquire)) {
        uint64_t number;
        struct slot *s = take_slot(&number);
        if (s) {
            fill(&s->line, level, format, args);
            atomic_store_explicit(&s->turn, number + 1, memory_order_release);
        } else atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed);
        tell();
    } else {
        struct line l;
        fill(&l, level, format, args);
        pthread_mutex_lock(&writing);
        if (can_write(STOP_WAIT_MS)) write_line(&l);
        else stuck = true;
        pthread_mutex_unlock(&writing);
    }
    va_end(args);
}

/* ---- opening, starting, stopping ---- */

static int open_file(void) { return open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644); }

static void look_at(int descriptor) {
    struct stat s;
    may_block = fstat(descriptor, &s) == 0 && !S_ISREG(s.st_mode);
    atomic_store(&fd, descriptor);
}

int log_open(const char *file, const char *syslog_ident, int facility) {
    path[0] = 0;
    if (file[0]) {
        size_t n = 0;
        if (file[0] != '/') { /* the working directory may change later */
            if (!getcwd(path, sizeof path - 1)) return -errno;
            n = strlen(path);
            path[n++] = '/';
        }
        if (n + strlen(file) >= sizeof path) return -ENAMETOOLONG;
        strcpy(path + n, file);
        int opened = open_file();
        if (opened < 0) return -errno;
        look_at(opened);
    } else look_at(STDERR_FILENO);
    if (!syslog_ident) return 0;
    snprintf(ident, sizeof ident, "%s", syslog_ident);
    openlog(ident, LOG_PID | LOG_NDELAY | LOG_NOWAIT, facility);
    to_syslog = true;
    return 0;
}

void log_reopen(void) {
    if (!path[0]) return;
    pthread_mutex_lock(&writing);
    drain(0);
    int opened = open_file(), error = errno, old = log_fd();
    if (opened >= 0) {
        look_at(opened);
        close(old);
    }
    pthread_mutex_unlock(&writing);
    if (opened < 0) log_line(LOG_WARNING_LEVEL, "Can't open the log file %s anew, going on with the old one: %s", path, strerror(error));
    else log_line(LOG_NOTICE_LEVEL, "Opened the log file anew");
}

/* exit() on any thread. */
static void flush_at_exit(void) {
    if (!atomic_load(&queued)) return;
    pthread_mutex_lock(&writing);
    drain(STOP_WAIT_MS);
    pthread_mutex_unlock(&writing);
}

void log_queue_start(int wake_fd) {
    for (uint64_t i = 0; i < QUEUE_LINES; i++) atomic_store_explicit(&slots[i].turn, i, memory_order_relaxed);
    wake = wake_fd;
    atomic_store(&queued, true);
    atexit(flush_at_exit);
}

void log_queue_stop(void) {
    flush_at_exit();
    atomic_store(&queued, false);
}
