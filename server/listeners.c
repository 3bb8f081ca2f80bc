/* Map: the list; host names; opening; the change; the start and the end. */
#include "server/listeners.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "io/proactor.h"
#include "io/socket.h"
#include "server/config.h"
#include "server/log.h"
#include "server/service.h"

#define START_TRIES 8 /* the pauses between them double: 1.5 seconds in all */
#define START_PAUSE_NS 12000000

/* Those that go until thread 0 sees it, those of the configuration, and those that one to come would have; and the Unix socket. */
#define LISTENERS_MAX (3 * CONFIG_BIND_MAX + 1)

enum state {
    OPEN, /* for a configuration that may yet be refused */
    WANTED,
    ACCEPTING,
    SHUT
};

struct listening {
    int fd;
    enum state state;
    bool is_unix;
    uint16_t port;
    char address[CONFIG_HOST_MAX]; /* as in bind, without its '-' */
};

/* A host name of bind, and the address that was found for it at start. */
struct host {
    char name[CONFIG_HOST_MAX], address[SOCKET_NUMBERS_SIZE];
};

/* Thread 0 may still follow one change while a coordinator on another thread makes the next. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct listening all[LISTENERS_MAX];
static uint32_t n_all;
static struct host hosts[CONFIG_BIND_MAX];
static uint32_t n_hosts;
static bool handed;              /* by a service manager: they stay as they are */
static char unix_path[PATH_MAX]; /* of a socket that we made: absolute, as the working directory may change */

/* ---- the list ---- */

static const char *plain(const char *address) { return address + (*address == '-'); }

static bool is_for(const struct listening *l, const char *address, const struct config *c) {
    return l->state != SHUT && !l->is_unix && l->port == c->port && !strcmp(l->address, plain(address));
}

static bool is_open(const char *address, const struct config *c) {
    for (uint32_t i = 0; i < n_all; i++)
        if (is_for(&all[i], address, c)) return true;
    return false;
}

static bool is_wanted(const struct listening *l, const struct config *c) {
    for (uint32_t i = 0; c->port && i < c->n_bind; i++)
        if (is_for(l, c->bind[i], c)) return true;
    return l->is_unix;
}

static void add(int fd, bool is_unix, const char *address, int64_t port) {
    struct listening *l = &all[n_all++];
    *l = (struct listening){.fd = fd, .is_unix = is_unix, .port = (uint16_t)port};
    strncpy(l->address, plain(address), sizeof l->address - 1);
}

static void forget(uint32_t i) {
    close(all[i].fd);
    all[i] = all[--n_all];
}

/* ---- host names ---- */

/* This machine has its own name everywhere, whoever is asked. */
const char *listeners_numbers(const char *address) {
    if (socket_is_address(address)) return address;
    for (uint32_t i = 0; i < n_hosts; i++)
        if (!strcasecmp(hosts[i].name, address)) return hosts[i].address;
    return strcasecmp(address, "localhost") ? NULL : "127.0.0.1";
}

const char *listeners_unknown(const struct config *c) {
    for (uint32_t i = 0; c->port && i < c->n_bind; i++)
        if (!listeners_numbers(plain(c->bind[i]))) return plain(c->bind[i]);
    return NULL;
}

/* As in Redis, a '-' is no excuse for a name that cannot be found. */
static bool look_up_all(const struct config *c) {
    for (const char *name; (name = listeners_unknown(c));) {
        struct host *host = &hosts[n_hosts];
        const char *error = socket_look_up(name, host->address);
        if (error) {
            log_line(LOG_WARNING_LEVEL, "Could not listen on %s port %d: %s", name, (int)c->port, error);
            return false;
        }
        strncpy(host->name, name, sizeof host->name - 1);
        n_hosts++;
    }
    return true;
}

/* ---- opening ---- */

typedef int open_function(const char *address, const struct config *c);

static int open_tcp(const char *address, const struct config *c, bool shared) {
    char text[CONFIG_HOST_MAX];
    const char *numbers = listeners_numbers(plain(address));
    if (!numbers) return -EINVAL;
    snprintf(text, sizeof text, "%s%s", *address == '-' ? "-" : "", numbers);
    return shared ? socket_listen_tcp_shared(text, (uint16_t)c->port, (int)c->tcp_backlog)
                  : socket_listen_tcp(text, (uint16_t)c->port, (int)c->tcp_backlog);
}

static void share_port(int64_t port, bool share) {
    for (uint32_t i = 0; i < n_all; i++)
        if (!all[i].is_unix && all[i].port == port) socket_share_port(all[i].fd, share);
}

/* Sockets of ours that go a moment later may stand in the way. */
static int open_beside(const char *address, const struct config *c) {
    int fd = open_tcp(address, c, false);
    if (fd != -EADDRINUSE) return fd;
    share_port(c->port, true);
    fd = open_tcp(address, c, true);
    share_port(c->port, false);
    if (fd >= 0) socket_share_port(fd, false);
    return fd;
}

static int open_tcp_alone(const char *address, const struct config *c) { return open_tcp(address, c, false); }

static int open_unix(const char *path, const struct config *c) {
    return socket_listen_unix(path, (mode_t)c->unixsocketperm, (int)c->tcp_backlog);
}

/* The ring of a killed server gives its listening sockets up a moment after the process is gone, and nothing tells them from those of one that
 * lives: what is taken is tried again for a while. */
static int open_patiently(open_function *open_one, const char *address, const struct config *c) {
    struct timespec pause = {.tv_nsec = START_PAUSE_NS};
    int fd = open_one(address, c);
    for (int tries = 1; fd == -EADDRINUSE && tries < START_TRIES; tries++) {
        nanosleep(&pause, NULL);
        pause.tv_nsec *= 2;
        fd = open_one(address, c);
    }
    return fd;
}

static int open_tcp_patiently(const char *address, const struct config *c) { return open_patiently(open_tcp_alone, address, c); }

static bool open_all(const struct config *c, open_function *open_one) {
    for (uint32_t i = 0; c->port && i < c->n_bind; i++) {
        if (is_open(c->bind[i], c)) continue;
        int fd = open_one(c->bind[i], c);
        if (fd == SOCKET_ABSENT) continue;
        if (fd < 0) {
            log_line(LOG_WARNING_LEVEL, "Could not listen on %s port %d: %s", c->bind[i], (int)c->port,
                fd == -EINVAL ? "a name that was not looked up at start" : strerror(-fd));
            return false;
        }
        add(fd, false, c->bind[i], c->port);
    }
    return true;
}

/* ---- the change ---- */

bool listeners_open(const struct config *c) {
    if (handed) {
        log_line(LOG_WARNING_LEVEL, "The sockets are those of the service manager: port and bind can't be changed");
        return false;
    }
    pthread_mutex_lock(&lock);
    bool good = open_all(c, open_beside);
    pthread_mutex_unlock(&lock);
    if (!good) listeners_keep();
    return good;
}

void listeners_keep(void) {
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < n_all;)
        if (all[i].state == OPEN) forget(i);
        else i++;
    pthread_mutex_unlock(&lock);
}

static void want_all(void) {
    for (uint32_t i = 0; i < n_all; i++)
        if (all[i].state == OPEN) all[i].state = WANTED;
}

/* A ring that accepts on a socket holds it beyond close(): the shutdown frees the port now. */
void listeners_change(const struct config *c) {
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < n_all && !handed;) {
        if (all[i].state == SHUT || is_wanted(&all[i], c)) i++;
        else if (all[i].state != ACCEPTING) forget(i);
        else {
            shutdown(all[i].fd, SHUT_RDWR);
            all[i++].state = SHUT;
        }
    }
    want_all();
    pthread_mutex_unlock(&lock);
}

void listeners_follow(struct proactor *p) {
    pthread_mutex_lock(&lock);
    for (uint32_t i = 0; i < n_all;) {
        struct listening *l = &all[i];
        if (l->state == SHUT) {
            proactor_unlisten(p, l->fd);
            forget(i);
            continue;
        }
        if (l->state == WANTED) {
            int error = proactor_listen(p, l->fd, l->is_unix);
            if (error) log_line(LOG_WARNING_LEVEL, "Can't accept on %s port %u: %s", l->address, l->port, strerror(-error));
            l->state = ACCEPTING;
        }
        i++;
    }
    pthread_mutex_unlock(&lock);
}

/* ---- the start and the end ---- */

static bool is_unix_socket(int fd) {
    int domain = 0;
    return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &(socklen_t){sizeof domain}) && domain == AF_UNIX;
}

void listeners_take_handed(void) {
    int fds[CONFIG_BIND_MAX + 1];
    uint32_t n = service_sockets(fds, sizeof fds / sizeof *fds);
    for (uint32_t i = 0; i < n; i++) add(fds[i], is_unix_socket(fds[i]), "", 0);
    handed = n > 0;
    want_all();
}

static bool start_unix(const struct config *c) {
    int fd = open_patiently(open_unix, c->unixsocket, c);
    if (fd < 0) {
        log_line(LOG_WARNING_LEVEL, "Could not listen on the Unix socket %s: %s", c->unixsocket, strerror(-fd));
        return false;
    }
    add(fd, true, "", 0);
    if (!realpath(c->unixsocket, unix_path)) *unix_path = 0;
    return true;
}

int listeners_start(const struct config *c) {
    if (handed) {
        log_line(LOG_NOTICE_LEVEL, "Listening on %u socket%s of the service manager", n_all, n_all == 1 ? "" : "s");
        return 0;
    }
    if (!look_up_all(c) || !open_all(c, open_tcp_patiently)) return 1;
    if (!n_all && (c->port || !c->unixsocket[0])) {
        log_line(LOG_WARNING_LEVEL, "Configured to not listen anywhere, exiting.");
        return 1;
    }
    if (c->unixsocket[0] && !start_unix(c)) return 1;
    want_all();
    return 0;
}

void listeners_end(void) {
    for (uint32_t i = 0; i < n_all; i++) {
        if (!handed) shutdown(all[i].fd, SHUT_RDWR);
        close(all[i].fd);
    }
    if (*unix_path) unlink(unix_path);
}
