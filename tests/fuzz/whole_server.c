#include "tests/fuzz/whole_server.h"

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define FLUSH_EVERY 256 /* inputs */
#define PATIENCE_S 60   /* spent waiting, second by second: a machine that stands still for longer is no hang */
#define TRIES_A_S 100
#define SHOWN_BYTES 256u
#define DEPTH_MAX 64

int darter_main(int argc, char **argv);

static struct sockaddr_un address = {.sun_family = AF_UNIX};
static char io_name[16]; /* of the back end */
static const char *arguments[] = {"darter", "--port", "0", "--unixsocket", address.sun_path, "--threads", "2", "--pin", "no", "--io",
    io_name, "--loglevel", "warning", "--enable-debug-command", "yes", "--proto-max-bulk-len", "1mb", "--client-query-buffer-limit", "4mb",
    "--client-output-buffer-limit", "normal", "64mb", "0", "0", "--save", "", NULL};

/* What is going on, for whoever reads the log of a machine that is gone. */
static const uint8_t *input; /* the fuzzer's */
static size_t input_size, to_send, sent;
static unsigned n_exchanges;
static char *got;
static size_t got_size, got_capacity;

static void print_hex(const char *what, const void *bytes, size_t size) {
    fprintf(stderr, "fuzz: %s, %zu bytes, in hex: ", what, size);
    for (size_t i = 0; i < size; i++) fprintf(stderr, "%02x", ((const uint8_t *)bytes)[i]);
    fputc('\n', stderr);
}

/* Of each thread: its name, its state, what it used of the CPU (user and system, in clock ticks), and where the kernel holds it. */
static void print_threads(void) {
    DIR *tasks = opendir("/proc/self/task");
    for (struct dirent *e; tasks && (e = readdir(tasks));) {
        static const char *const files[] = {"stat", "wchan"};
        char path[300], text[2][512] = {{0}};
        for (int i = 0; i < 2 && *e->d_name != '.'; i++) {
            snprintf(path, sizeof path, "/proc/self/task/%s/%s", e->d_name, files[i]);
            FILE *f = fopen(path, "r");
            if (f && !fgets(text[i], sizeof text[i], f)) text[i][0] = 0;
            if (f) fclose(f);
        }
        char name[32] = "", state = '?';
        unsigned long user = 0, sys = 0;
        if (sscanf(text[0], "%*d (%31[^)]) %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lu %lu", name, &state, &user, &sys) == 4)
            fprintf(stderr, "fuzz: thread %s: %c, CPU %lu + %lu, in %s\n", name, state, user, sys, text[1]);
    }
    if (tasks) closedir(tasks);
}

__attribute__((noreturn)) static void give_up(const char *why) {
    fprintf(stderr, "fuzz: %s (the last error: %s)\n", why, strerror(errno));
    fprintf(stderr, "fuzz: --io %s, exchange %u of this process, sent %zu of %zu bytes, received %zu\n", io_name, n_exchanges, sent,
        to_send, got_size);
    print_threads();
    if (got_size > SHOWN_BYTES) print_hex("the last that was received", got + got_size - SHOWN_BYTES, SHOWN_BYTES);
    else print_hex("what was received", got, got_size);
    print_hex("the input", input, input_size);
    abort();
}

static void *serve(void *unused) {
    (void)unused;
    darter_main((int)(sizeof arguments / sizeof *arguments) - 1, (char **)(uintptr_t)arguments);
    give_up("the server ended");
}

static int try_connect(void) {
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) give_up("socket");
    if (!connect(fd, (struct sockaddr *)&address, sizeof address)) return fd;
    close(fd);
    return -1;
}

void whole_server_start(const char *io) {
    snprintf(io_name, sizeof io_name, "%s", io);
    snprintf(address.sun_path, sizeof address.sun_path, "/tmp/darter-fuzz-%d.sock", (int)getpid());
    pthread_t thread;
    if (pthread_create(&thread, NULL, serve, NULL)) give_up("pthread_create");
    for (int tries = 0; tries < PATIENCE_S * TRIES_A_S; tries++, usleep(1000000 / TRIES_A_S)) {
        int fd = try_connect();
        if (fd < 0) continue;
        close(fd);
        return;
    }
    give_up("the server does not listen");
}

/* Reads one RESP value at p. Returns behind it, or NULL: it is not whole, or none. */
static const char *value_end(const char *p, const char *end, int depth) {
    if (p >= end || depth > DEPTH_MAX) return NULL;
    const char *line_end = memmem(p, (size_t)(end - p), "\r\n", 2);
    if (!line_end) return NULL;
    char kind = *p;
    long long n = 0;
    if (strchr("$=*%~>", kind)) {
        char *stop;
        n = strtoll(p + 1, &stop, 10);
        if (stop != line_end || stop == p + 1 || n < -1) return NULL;
    }
    p = line_end + 2;
    switch (kind) {
    case '+':
    case '-':
    case ':':
    case '_':
    case '#':
    case ',':
    case '(': return p;
    case '$':
    case '=':
        if (n < 0) return p;
        return end - p >= n + 2 && !memcmp(p + n, "\r\n", 2) ? p + n + 2 : NULL;
    case '%': n *= 2; __attribute__((fallthrough));
    case '*':
    case '~':
    case '>':
        for (; n > 0 && p; n--) p = value_end(p, end, depth + 1);
        return p;
    default: return NULL;
    }
}

static bool receive(int fd) {
    if (got_size == got_capacity && !(got = realloc(got, got_capacity = got_capacity ? got_capacity * 2 : 1 << 16))) give_up("no memory");
    ssize_t n = recv(fd, got + got_size, got_capacity - got_size, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return true;
    if (n <= 0) return false;
    got_size += (size_t)n;
    return true;
}

static void exchange(const uint8_t *bytes, size_t size, size_t piece) {
    int fd = try_connect();
    if (fd < 0) give_up("cannot connect");
    n_exchanges++;
    got_size = sent = 0;
    to_send = size;
    bool reading = true, sending = size > 0;
    if (!sending) shutdown(fd, SHUT_WR);
    for (unsigned waited_s = 0; reading;) {
        struct pollfd p = {fd, (short)(POLLIN | (sending ? POLLOUT : 0)), 0};
        int ready = poll(&p, 1, 1000);
        if (!ready && ++waited_s == PATIENCE_S) give_up("the server neither answers nor closes");
        if (ready <= 0) continue;
        waited_s = 0;
        if (p.revents & (POLLIN | POLLHUP | POLLERR)) reading = receive(fd);
        if (sending && p.revents & POLLOUT) {
            size_t now = piece && piece < size - sent ? piece : size - sent;
            ssize_t n = send(fd, bytes + sent, now, MSG_NOSIGNAL | MSG_DONTWAIT);
            if (n > 0) sent += (size_t)n;
            else if (n < 0 && errno != EAGAIN && errno != EINTR) sending = false;
            if (sent == size) sending = false;
            if (!sending) shutdown(fd, SHUT_WR);
        }
    }
    close(fd);
}

void whole_server_exchange(const uint8_t *bytes, size_t size, size_t piece) {
    static unsigned count;
    exchange(bytes, size, piece);
    for (const char *p = got, *end = got + got_size; p < end;) {
        p = value_end(p, end, 0);
        if (!p) give_up("the replies are no RESP");
    }
    if (++count % FLUSH_EVERY == 0) {
        static const char flush[] = "CONFIG SET requirepass \"\" timeout 0 proto-max-bulk-len 1mb maxclients 10000 protected-mode "
                                    "no\r\nFLUSHALL\r\nDEBUG SET-ACTIVE-EXPIRE 1\r\n";
        exchange((const uint8_t *)flush, sizeof flush - 1, 0);
    }
}

static bool contains(const uint8_t *bytes, size_t size, const char *word) {
    size_t n = strlen(word);
    for (size_t i = 0; i + n <= size; i++)
        if (!strncasecmp((const char *)bytes + i, word, n)) return true;
    return false;
}

static bool must_not_be_seen(const uint8_t *bytes, size_t size) {
    /* Escapes of inline commands could hide a word, so inputs with both quotes and backslashes in them may not have CONFIG SET's or SHUTDOWN's parts. */
    bool escapes = contains(bytes, size, "\\x");
    return contains(bytes, size, "shutdown") || contains(bytes, size, "sleep") || contains(bytes, size, "populate") ||
        contains(bytes, size, "pause") || contains(bytes, size, "segfault") || contains(bytes, size, "panic") ||
        contains(bytes, size, "requirepass") || contains(bytes, size, "maxclients") || contains(bytes, size, "maxmemory-clients") ||
        (escapes && contains(bytes, size, "\""));
}

bool whole_server_begin(const uint8_t *bytes, size_t size) {
    input = bytes;
    input_size = size;
    return !must_not_be_seen(bytes, size);
}
