/* Listening, options, names: see socket.h. */
#include "io/socket.h"

#include <arpa/inet.h>
#include <errno.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un local;
    struct sockaddr_storage storage;
};

/* ---- listening ---- */

static int close_with(int fd, int error) {
    close(fd);
    return error;
}

static bool parse_address(const char *text, uint16_t port, union address *a, socklen_t *size) {
    memset(a, 0, sizeof *a);
    if (!strcmp(text, "*") || !strcmp(text, "::*")) {
        bool v6 = text[0] == ':';
        if (v6) a->v6 = (struct sockaddr_in6){.sin6_family = AF_INET6, .sin6_addr = in6addr_any};
        else a->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_ANY)};
        *size = v6 ? sizeof a->v6 : sizeof a->v4;
    } else {
        /* The resolver reads the numbers and, for link-local addresses, the name of the interface. It asks no server. */
        struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *found;
        if (!*text || getaddrinfo(text, NULL, &hints, &found)) return false;
        *size = found->ai_addrlen;
        memcpy(a, found->ai_addr, found->ai_addrlen);
        freeaddrinfo(found);
    }
    if (a->any.sa_family == AF_INET6) a->v6.sin6_port = htons(port);
    else a->v4.sin_port = htons(port);
    return true;
}

static bool is_absence(int error) {
    return error == -EADDRNOTAVAIL || error == -EAFNOSUPPORT || error == -EPFNOSUPPORT || error == -EPROTONOSUPPORT ||
        error == -ESOCKTNOSUPPORT || error == -ENOPROTOOPT;
}

static int open_tcp(const union address *a, socklen_t size, int backlog, bool shared) {
    int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    if (fd < 0) return -errno;
    if (shared) socket_share_port(fd, true);
    if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on)) return close_with(fd, -errno);
    if (a->any.sa_family == AF_INET6 && setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on)) return close_with(fd, -errno);
    if (bind(fd, &a->any, size) || listen(fd, backlog)) return close_with(fd, -errno);
    return fd;
}

static int listen_tcp(const char *address, uint16_t port, int backlog, bool shared) {
    bool may_be_absent = *address == '-';
    union address a;
    socklen_t size;
    if (!parse_address(address + may_be_absent, port, &a, &size)) return -EINVAL;
    int fd = open_tcp(&a, size, backlog, shared);
    return fd < 0 && may_be_absent && is_absence(fd) ? SOCKET_ABSENT : fd;
}

bool socket_is_address(const char *text) {
    union address a;
    socklen_t size;
    return parse_address(text, 0, &a, &size);
}

const char *socket_look_up(const char *name, char out[SOCKET_NUMBERS_SIZE]) {
    struct addrinfo hints = {.ai_family = AF_INET, .ai_flags = AI_PASSIVE, .ai_socktype = SOCK_STREAM}, *found;
    int error = getaddrinfo(name, NULL, &hints, &found);
    if (error) return error == EAI_SYSTEM ? strerror(errno) : gai_strerror(error);
    const union address *a = (const void *)found->ai_addr;
    inet_ntop(AF_INET, &a->v4.sin_addr, out, SOCKET_NUMBERS_SIZE);
    freeaddrinfo(found);
    return NULL;
}

bool socket_find(const char *host, uint16_t port, bool waits, struct socket_addresses *out) {
    struct addrinfo hints = {.ai_flags = waits ? 0 : AI_NUMERICHOST, .ai_socktype = SOCK_STREAM}, *found;
    out->n = 0;
    if (!*host || getaddrinfo(host, NULL, &hints, &found)) return false;
    for (const struct addrinfo *f = found; f && out->n < SOCKET_ADDRESSES_MAX; f = f->ai_next) {
        union address a = {0};
        if (f->ai_family != AF_INET && f->ai_family != AF_INET6) continue;
        memcpy(&a, f->ai_addr, f->ai_addrlen);
        if (f->ai_family == AF_INET6) a.v6.sin6_port = htons(port);
        else a.v4.sin_port = htons(port);
        out->at[out->n] = a.storage;
        out->sizes[out->n++] = f->ai_addrlen;
    }
    freeaddrinfo(found);
    return out->n;
}

int socket_for(const struct sockaddr_storage *address) {
    int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -errno;
    socket_tune(fd, true, 0);
    return fd;
}

int socket_listen_tcp(const char *address, uint16_t port, int backlog) { return listen_tcp(address, port, backlog, false); }

int socket_listen_tcp_shared(const char *address, uint16_t port, int backlog) { return listen_tcp(address, port, backlog, true); }

/* Both sides must say so, and be of the same user. Without it, the next bind tells. */
void socket_share_port(int fd, bool share) { setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &(int){share}, sizeof(int)); }

/* Somebody listens there, or it is not ours to remove: a negative errno. Nobody does: the file is gone, 0. */
static int remove_stale(const union address *a, socklen_t size) {
    struct stat st;
    if (lstat(a->local.sun_path, &st)) return errno == ENOENT ? 0 : -errno;
    if (!S_ISSOCK(st.st_mode)) return -EEXIST;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -errno;
    int error = connect(fd, &a->any, size) ? errno : 0;
    close(fd);
    if (error != ECONNREFUSED) return -EADDRINUSE;
    return unlink(a->local.sun_path) && errno != ENOENT ? -errno : 0;
}

int socket_listen_unix(const char *path, mode_t mode, int backlog) {
    union address a = {.local.sun_family = AF_UNIX};
    size_t length = strlen(path);
    if (!length) return -EINVAL;
    if (length >= sizeof a.local.sun_path) return -ENAMETOOLONG;
    memcpy(a.local.sun_path, path, length + 1);
    socklen_t size = (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + 1);

    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -errno;
    /* The file gets the socket's mode less the umask: so at no moment is it wider than asked for. The chmod adds what the umask took. */
    if (mode && fchmod(fd, mode)) return close_with(fd, -errno);
    if (bind(fd, &a.any, size)) {
        if (errno != EADDRINUSE) return close_with(fd, -errno);
        int error = remove_stale(&a, size);
        if (error) return close_with(fd, error);
        if (bind(fd, &a.any, size)) return close_with(fd, -errno);
    }
    if ((mode && chmod(path, mode)) || listen(fd, backlog)) {
        int error = -errno;
        unlink(path);
        return close_with(fd, error);
    }
    return fd;
}

/* ---- options ---- */

static int set(int fd, int level, int option, int value) { return setsockopt(fd, level, option, &value, sizeof value) ? -errno : 0; }

int socket_tune(int fd, bool nodelay, unsigned keepalive_s) {
    int domain = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &(socklen_t){sizeof domain})) return -errno;
    if (domain == AF_UNIX) return 0;
    int error = set(fd, IPPROTO_TCP, TCP_NODELAY, nodelay);
    if (error) return error;
    error = set(fd, SOL_SOCKET, SO_KEEPALIVE, keepalive_s > 0);
    if (error || !keepalive_s) return error;
    const int longest_s = 32767; /* the kernel's limit for both times */
    int idle_s = keepalive_s < (unsigned)longest_s ? (int)keepalive_s : longest_s, between_s = idle_s < 3 ? 1 : idle_s / 3;
    error = set(fd, IPPROTO_TCP, TCP_KEEPIDLE, idle_s);
    if (!error) error = set(fd, IPPROTO_TCP, TCP_KEEPINTVL, between_s);
    if (!error) error = set(fd, IPPROTO_TCP, TCP_KEEPCNT, 3);
    return error;
}

/* ---- names ---- */

static int write_text(const union address *a, socklen_t size, char text[SOCKET_TEXT_SIZE]) {
    char number[INET6_ADDRSTRLEN], scope[IF_NAMESIZE + 1] = "";
    switch (a->any.sa_family) {
    case AF_INET:
        inet_ntop(AF_INET, &a->v4.sin_addr, number, sizeof number);
        return snprintf(text, SOCKET_TEXT_SIZE, "%s:%u", number, ntohs(a->v4.sin_port));
    case AF_INET6:
        inet_ntop(AF_INET6, &a->v6.sin6_addr, number, sizeof number);
        if (a->v6.sin6_scope_id && if_indextoname(a->v6.sin6_scope_id, scope + 1)) scope[0] = '%';
        return snprintf(text, SOCKET_TEXT_SIZE, "[%s%s]:%u", number, scope, ntohs(a->v6.sin6_port));
    case AF_UNIX: {
        size_t before = offsetof(struct sockaddr_un, sun_path), length = size > before ? size - before : 0;
        return snprintf(text, SOCKET_TEXT_SIZE, "%.*s:0", (int)strnlen(a->local.sun_path, length), a->local.sun_path);
    }
    default: return -EAFNOSUPPORT;
    }
}

int socket_local_text(int fd, char text[SOCKET_TEXT_SIZE]) {
    union address a = {0};
    socklen_t size = sizeof a;
    *text = 0;
    return getsockname(fd, &a.any, &size) ? -errno : write_text(&a, size, text);
}

int socket_peer_text(int fd, char text[SOCKET_TEXT_SIZE]) {
    union address a = {0};
    socklen_t size = sizeof a;
    *text = 0;
    if (getpeername(fd, &a.any, &size)) return -errno;
    bool nameless = a.any.sa_family == AF_UNIX && (size <= offsetof(struct sockaddr_un, sun_path) || !a.local.sun_path[0]);
    return nameless ? socket_local_text(fd, text) : write_text(&a, size, text);
}

bool socket_is_loopback(int fd) {
    union address a = {0};
    socklen_t size = sizeof a;
    if (getpeername(fd, &a.any, &size)) return false;
    if (a.any.sa_family == AF_UNIX) return true;
    if (a.any.sa_family == AF_INET) return ntohl(a.v4.sin_addr.s_addr) >> 24 == 127;
    if (a.any.sa_family != AF_INET6) return false;
    const uint8_t *b = a.v6.sin6_addr.s6_addr;
    return IN6_IS_ADDR_LOOPBACK(&a.v6.sin6_addr) || (IN6_IS_ADDR_V4MAPPED(&a.v6.sin6_addr) && b[12] == 127);
}
