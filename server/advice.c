#include "server/advice.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "server/config.h"
#include "server/log.h"

#define HUGE_PAGES "/sys/kernel/mm/transparent_hugepage/enabled"
#define LOCKED_WANTED (8u << 20) /* rings and buffers of a thread, where the kernel counts them (before Linux 5.12 wholly) */

/* The first line of a file of the kernel; false if there is none. */
static bool read_line(const char *path, char *out, int size) {
    FILE *f = fopen(path, "re");
    bool got = f && fgets(out, size, f);
    if (f) fclose(f);
    if (got) out[strcspn(out, "\n")] = 0;
    return got;
}

static bool read_number(const char *path, long *out) {
    char text[64];
    if (!read_line(path, text, sizeof text)) return false;
    *out = atol(text);
    return true;
}

static void overcommit(void) {
    long mode;
    if (read_number("/proc/sys/vm/overcommit_memory", &mode) && mode == 2)
        log_line(LOG_WARNING_LEVEL,
            "WARNING vm.overcommit_memory is 2: memory is refused at the kernel's CommitLimit even while some is free, and commands then "
            "fail with OOM. Run 'sysctl vm.overcommit_memory=1', or set maxmemory well below the limit");
}

static void huge_pages(const struct config *c) {
    char text[128];
    if (!read_line(HUGE_PAGES, text, sizeof text)) return;
    if (strstr(text, "[always]"))
        log_line(LOG_WARNING_LEVEL,
            "WARNING Transparent huge pages are set to 'always': memory that was not meant for them grows and stalls. Run "
            "'echo madvise > " HUGE_PAGES "' (Darter asks for them where they help)");
    else if (strstr(text, "[never]") && c->huge_pages != 2)
        log_line(LOG_WARNING_LEVEL,
            "WARNING Transparent huge pages are set to 'never': large tables become slower. Run 'echo madvise > " HUGE_PAGES
            "', or say 'huge-pages no'");
}

static void backlog(const struct config *c) {
    long most;
    if (c->port && read_number("/proc/sys/net/core/somaxconn", &most) && most < c->tcp_backlog)
        log_line(LOG_WARNING_LEVEL,
            "WARNING The TCP backlog setting of %lld cannot be enforced because net.core.somaxconn is %ld. Run "
            "'sysctl net.core.somaxconn=%lld', or lower tcp-backlog",
            (long long)c->tcp_backlog, most, (long long)c->tcp_backlog);
}

static void threads(const struct config *c) {
    cpu_set_t usable;
    if (sched_getaffinity(0, sizeof usable, &usable)) return;
    int n = CPU_COUNT(&usable);
    if (c->threads > n)
        log_line(LOG_WARNING_LEVEL,
            "WARNING %lld threads share %d CPU%s: they take turns, and requests wait for it. Say 'threads 0' for one a CPU",
            (long long)c->threads, n, n == 1 ? "" : "s");
}

void advice_system(const struct config *c) {
    threads(c);
    overcommit();
    huge_pages(c);
    backlog(c);
}

void advice_no_uring(const char *why) {
    long disabled = 0;
    struct rlimit locked;
    log_line(LOG_NOTICE_LEVEL, "io_uring is not available (%s): using epoll", why);
    if (read_number("/proc/sys/kernel/io_uring_disabled", &disabled) && disabled)
        log_line(LOG_WARNING_LEVEL,
            "WARNING kernel.io_uring_disabled is %ld, so epoll is used. Run 'sysctl kernel.io_uring_disabled=0' for io_uring, or say 'io "
            "epoll'",
            disabled);
    else if (!getrlimit(RLIMIT_MEMLOCK, &locked) && locked.rlim_cur < LOCKED_WANTED && strstr(why, "lock"))
        log_line(LOG_WARNING_LEVEL,
            "WARNING Only %llu kB of memory may be locked, too little for io_uring, so epoll is used. Raise it (LimitMEMLOCK= of the unit, "
            "ulimit "
            "-l), or say 'io epoll'",
            (unsigned long long)locked.rlim_cur / 1024);
    else if (strstr(why, "forbidden"))
        log_line(LOG_WARNING_LEVEL,
            "WARNING io_uring is forbidden here, as container run-times do by their seccomp profile, so epoll is used. Allow "
            "io_uring_setup, io_uring_enter and io_uring_register there, or say 'io epoll'");
}
