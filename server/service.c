/* Map: notification, supervision, sockets; the background; pidfile; OOM score. */
#include "server/service.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "server/crash.h"
#include "server/log.h"

#ifdef DARTER_LIBSYSTEMD
#include <systemd/sd-daemon.h>
#endif

#define FIRST_HANDED_FD 3 /* SD_LISTEN_FDS_START */

static enum supervised supervisor = SUPERVISED_NO;
static int parent_waits = -1; /* the pipe to the process that was started, while it waits */
static char pidfile[PATH_MAX];

/* ---- systemd's protocols, with its library or without ---- */

#ifdef DARTER_LIBSYSTEMD
static int notify(const char *lines) { return sd_notify(0, lines); }
static int handed(void) { return sd_listen_fds(1); }
static uint64_t watchdog_us(void) {
    uint64_t us = 0;
    return sd_watchdog_enabled(0, &us) > 0 ? us : 0;
}
#else
/* 1: sent; 0: nobody asked to be told; else a negative errno. */
static int notify(const char *lines) {
    const char *path = getenv("NOTIFY_SOCKET");
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    size_t n = path ? strlen(path) : 0;
    if (!n) return 0;
    if ((path[0] != '/' && path[0] != '@') || n >= sizeof to.sun_path) return -EINVAL;
    memcpy(to.sun_path, path, n);
    if (path[0] == '@') to.sun_path[0] = 0;
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    ssize_t sent =
        sendto(fd, lines, strlen(lines), MSG_NOSIGNAL, (struct sockaddr *)&to, (socklen_t)(offsetof(struct sockaddr_un, sun_path) + n));
    int error = sent < 0 ? -errno : 1;
    close(fd);
    return error;
}

/* A number from the environment, if the variable pid_name is absent or names this process; else 0. */
static long from_environment(const char *name, const char *pid_name, bool pid_needed) {
    const char *text = getenv(name), *pid = getenv(pid_name);
    if (!text || (!pid && pid_needed) || (pid && atol(pid) != (long)getpid())) return 0;
    long n = atol(text);
    return n > 0 ? n : 0;
}

static int handed(void) {
    long n = from_environment("LISTEN_FDS", "LISTEN_PID", true);
    unsetenv("LISTEN_FDS");
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDNAMES");
    return n < 1024 ? (int)n : 0;
}

static uint64_t watchdog_us(void) { return (uint64_t)from_environment("WATCHDOG_USEC", "WATCHDOG_PID", false); }
#endif

/* ---- supervision ---- */

bool service_supervise(int supervised) {
    if (supervised == SUPERVISED_AUTO)
        supervised = getenv("UPSTART_JOB") ? SUPERVISED_UPSTART : getenv("NOTIFY_SOCKET") ? SUPERVISED_SYSTEMD : SUPERVISED_NO;
    if (supervised == SUPERVISED_UPSTART) {
        if (!getenv("UPSTART_JOB")) {
            log_line(LOG_WARNING_LEVEL, "upstart supervision requested, but UPSTART_JOB not found!");
            return false;
        }
        log_line(LOG_NOTICE_LEVEL, "Supervised by upstart, will stop to signal readiness.");
        raise(SIGSTOP);
        unsetenv("UPSTART_JOB");
        supervisor = SUPERVISED_UPSTART;
    } else if (supervised == SUPERVISED_SYSTEMD) {
        const char *path = getenv("NOTIFY_SOCKET");
        int sent = path && *path ? notify("STATUS=Starting") : 0;
        if (sent <= 0) {
            log_line(LOG_WARNING_LEVEL, "systemd supervision requested, but %s",
                sent ? strerror(-sent) : "NOTIFY_SOCKET not found! (the unit needs Type=notify)");
            return false;
        }
        supervisor = SUPERVISED_SYSTEMD;
    }
    return supervisor != SUPERVISED_NO;
}

const char *service_supervisor(void) {
    return supervisor == SUPERVISED_SYSTEMD ? "systemd" : supervisor == SUPERVISED_UPSTART ? "upstart" : "no";
}

void service_notify(const char *lines) {
    if (supervisor == SUPERVISED_SYSTEMD) notify(lines);
}

uint64_t service_watchdog_us(void) { return supervisor == SUPERVISED_SYSTEMD ? watchdog_us() : 0; }

void service_stopping(void) { service_notify("STOPPING=1\nSTATUS=Shutting down"); }

/* ---- sockets ---- */

static bool listens(int fd) {
    int on = 0, type = 0;
    socklen_t a = sizeof on, b = sizeof type;
    return !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &on, &a) && on && !getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &b) &&
        type == SOCK_STREAM;
}

uint32_t service_sockets(int *fds, uint32_t most) {
    int n = handed();
    uint32_t taken = 0;
    for (int fd = FIRST_HANDED_FD; fd < FIRST_HANDED_FD + n; fd++) {
        if (taken < most && listens(fd)) {
            fcntl(fd, F_SETFD, FD_CLOEXEC);
            fds[taken++] = fd;
            continue;
        }
        log_line(LOG_WARNING_LEVEL, "Descriptor %d was handed over, but it is no listening stream socket, or one too many: closing it", fd);
        close(fd);
    }
    return taken;
}

/* ---- the background ---- */

/* The process that was started: waits for the word of the new one, and ends as that says. */
static void wait_for_child(int from, pid_t child) {
    char ready;
    ssize_t n;
    while ((n = read(from, &ready, 1)) < 0 && errno == EINTR) {}
    if (n == 1) _exit(0);
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {}
    _exit(WIFEXITED(status) && WEXITSTATUS(status) ? WEXITSTATUS(status) : 1);
}

int service_daemonize(void) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC)) return -errno;
    pid_t child = fork();
    if (child < 0) return -errno;
    if (child) {
        close(ends[1]);
        wait_for_child(ends[0], child);
    }
    close(ends[0]);
    parent_waits = ends[1];
    setsid();
    return 0;
}

void service_ready(void) {
    service_notify("READY=1\nSTATUS=Ready to accept connections");
    if (parent_waits < 0) return;
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    for (int fd = 0; fd <= 2 && null >= 0; fd++) dup2(null, fd);
    if (null > 2) close(null);
    if (write(parent_waits, "", 1) < 0) { /* it was killed: nobody waits */
    }
    close(parent_waits);
    parent_waits = -1;
}

/* ---- pidfile ---- */

void service_pidfile(const char *file) {
    if (file[0] == '/') snprintf(pidfile, sizeof pidfile, "%s", file);
    else {
        char here[PATH_MAX]; /* the working directory may change later */
        if (!getcwd(here, sizeof here) || (size_t)snprintf(pidfile, sizeof pidfile, "%s/%s", here, file) >= sizeof pidfile) pidfile[0] = 0;
    }
    FILE *f = fopen(pidfile, "we");
    if (!f || fprintf(f, "%d\n", (int)getpid()) < 0 || fflush(f)) {
        log_line(LOG_WARNING_LEVEL, "Failed to write PID file %s: %s", file, strerror(errno));
        if (!f) pidfile[0] = 0;
    }
    if (f) fclose(f);
    if (pidfile[0]) crash_remove_file(pidfile);
}

void service_pidfile_remove(void) {
    if (!pidfile[0]) return;
    log_line(LOG_NOTICE_LEVEL, "Removing the pid file.");
    unlink(pidfile);
    pidfile[0] = 0;
}

/* ---- OOM score ---- */

void service_oom_score(int mode, int value) {
    static int first, known; /* what stood there before us */
    static bool changed;
    if (mode == OOM_NO && !changed) return;
    FILE *f = fopen("/proc/self/oom_score_adj", "r+e");
    if (f && !known) known = fscanf(f, "%d", &first) == 1;
    int score = mode == OOM_NO ? first : mode == OOM_ABSOLUTE ? value : first + value;
    if (score < -1000) score = -1000;
    if (score > 1000) score = 1000;
    if (f) rewind(f);
    bool written = f && fprintf(f, "%d\n", score) > 0 && !fflush(f);
    int error = errno;
    if (f) fclose(f);
    if (written) changed = true;
    else
        log_line(LOG_WARNING_LEVEL,
            "Unable to write oom_score_adj %d: %s. A lower value needs CAP_SYS_RESOURCE; under systemd set OOMScoreAdjust= instead", score,
            strerror(error));
}
