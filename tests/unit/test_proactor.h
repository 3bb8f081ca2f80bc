/* A world of streams for the proactor's tests: a proactor, its streams, and their other ends.
 *
 * The other ends are plain non-blocking sockets that the same thread drives in between. What a peer sends is a pattern of the stream's number
 * and the position, so every byte that arrives is checked for its order. A wait that takes longer than PATIENCE_NS is taken for a lost
 * event; nothing else depends on time. */
#ifndef TESTS_TEST_PROACTOR_H
#define TESTS_TEST_PROACTOR_H

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/backend.h"
#include "io/clock.h"

#define PATIENCE_NS (60 * 1000000000ull)

struct conn {
    struct stream s;
    int peer; /* the other end */
    unsigned id;
    uint64_t put, received; /* bytes: written by the peer, and seen by us */
    char *place;            /* recv_into: where the next byte goes, */
    size_t place_left;      /* and how many more */
    unsigned closes, sents, removes, connects;
    int close_result, sent_result, connect_result;
};

/* A back end and a sort of socket. */
struct way {
    enum proactor_kind kind;
    bool tcp;
};

struct world {
    const struct way *way;
    struct proactor *p;
    struct conn *conns;
    unsigned count;
    unsigned accepts, accept_errors, wakes, fds, directs;
    int accepted[256], accept_error;
    uint64_t accept_tag, fd_tag;
    bool hold; /* keep receive buffers instead of giving them back */
    uint32_t held[65536];
    unsigned held_count;
    bool seen[1024]; /* buffers that something came in */
    unsigned buffers_seen;
};

static inline char pattern(unsigned id, uint64_t at) { return (char)(at * 31 + (at >> 8) * 17 + id * 101); }

static inline void fill(char *to, unsigned id, uint64_t at, size_t n) {
    for (size_t i = 0; i < n; i++) to[i] = pattern(id, at + i);
}

static inline void check(const char *from, unsigned id, uint64_t at, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (from[i] != pattern(id, at + i)) fail_msg("stream %u: a wrong byte at %lu", id, (unsigned long)(at + i));
}

/* ---- a world of streams ---- */

static inline void open_world(struct world *w, uint32_t buffer_size, uint32_t buffer_count) {
    const char *why;
    struct proactor_options options = {.kind = w->way->kind, .buffer_size = buffer_size, .buffer_count = buffer_count};
    int rc = proactor_open(&w->p, &options, &why);
    if (rc && w->way->kind == PROACTOR_URING) {
        print_message("no io_uring here: %s\n", why);
        skip();
    }
    assert_int_equal(rc, 0);
    assert_int_equal(proactor_kind_of(w->p), w->way->kind);
}

static inline int listen_anywhere(struct sockaddr_in *a) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    *a = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(bind(fd, (struct sockaddr *)a, sizeof *a), 0);
    assert_int_equal(listen(fd, 512), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)a, &(socklen_t){sizeof *a}), 0);
    return fd;
}

static inline int connect_to(const struct sockaddr_in *a) {
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(connect(fd, (const struct sockaddr *)a, sizeof *a), 0);
    return fd;
}

static inline void make_pair(bool tcp, int pair[2]) {
    if (tcp) {
        struct sockaddr_in a;
        int listener = listen_anywhere(&a);
        pair[1] = connect_to(&a);
        pair[0] = accept(listener, NULL, NULL);
        close(listener);
    } else assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
    assert_true(pair[0] >= 0);
    for (int i = 0; i < 2; i++) assert_int_equal(fcntl(pair[i], F_SETFL, O_NONBLOCK), 0);
}

static inline void open_conns(struct world *w, unsigned count) {
    w->conns = calloc(count, sizeof *w->conns);
    w->count = count;
    for (unsigned i = 0; i < count; i++) {
        int pair[2];
        make_pair(w->way->tcp, pair);
        w->conns[i] = (struct conn){.s.fd = pair[0], .peer = pair[1], .id = i};
        assert_int_equal(proactor_add(w->p, &w->conns[i].s), 0);
    }
}

static inline void give_held(struct world *w) {
    while (w->held_count) proactor_give_buffer(w->p, w->held[--w->held_count]);
}

static inline void take(struct world *w, const struct event *ev) {
    struct conn *c = (struct conn *)ev->stream;
    switch (ev->kind) {
    case EV_RECV:
        assert_true(!c->closes && !c->s.removing && ev->size);
        check(ev->data, c->id, c->received, ev->size);
        c->received += ev->size;
        w->held[w->held_count++] = ev->buffer;
        w->buffers_seen += ev->buffer < sizeof w->seen && !w->seen[ev->buffer];
        if (ev->buffer < sizeof w->seen) w->seen[ev->buffer] = true;
        if (c->place_left) { /* what came too early for its place is copied there */
            size_t n = ev->size < c->place_left ? ev->size : c->place_left;
            memcpy(c->place, ev->data, n);
            c->place += n;
            c->place_left -= n;
            proactor_recv_into(w->p, &c->s, c->place_left ? c->place : NULL, c->place_left);
        }
        if (!w->hold) give_held(w);
        break;
    case EV_DIRECT:
        assert_true(!c->closes && !c->s.removing && ev->size && ev->size <= c->place_left);
        check(c->place, c->id, c->received, ev->size);
        c->received += ev->size;
        c->place += ev->size;
        c->place_left -= ev->size;
        w->directs++;
        break;
    case EV_CLOSED:
        c->closes++;
        c->close_result = ev->result;
        break;
    case EV_CONNECTED:
        assert_false(c->connects || c->received || c->s.removing);
        c->connects++;
        c->connect_result = ev->result;
        break;
    case EV_SENT:
        assert_false(c->removes);
        c->sents++;
        c->sent_result = ev->result;
        break;
    case EV_REMOVED: c->removes++; break;
    case EV_ACCEPT:
        w->accept_tag = ev->tag;
        if (ev->result >= 0) w->accepted[w->accepts++ % 256] = ev->result;
        else {
            w->accept_errors++;
            w->accept_error = ev->result;
        }
        break;
    case EV_WAKE: w->wakes++; break;
    case EV_FD:
        w->fds++;
        w->fd_tag = ev->tag;
        break;
    }
}

/* One turn. Returns how many events it brought. */
static inline unsigned turn(struct world *w, uint64_t deadline_ns) {
    struct event ev;
    unsigned events = 0;
    proactor_wait(w->p, deadline_ns);
    for (; proactor_next(w->p, &ev); events++) take(w, &ev);
    return events;
}

/* Turns until nothing more comes by itself. */
static inline void drain(struct world *w) {
    for (unsigned idle = 0; idle < 3; idle++)
        if (turn(w, 0)) idle = 0;
}

#define UNTIL(w, condition)                                                               \
    for (uint64_t give_up_ns = now_monotonic_ns() + PATIENCE_NS; !(condition);) {         \
        turn(w, give_up_ns);                                                              \
        if (now_monotonic_ns() >= give_up_ns) fail_msg("waited in vain: %s", #condition); \
    }

/* The thread sleeps until the deadline, and is not woken more often than a few stray completions, and the slices that a socket takes of a long send, explain. */
#define TURNS_MAX 64
static inline void assert_sleeps(struct world *w) {
    drain(w);
    uint64_t deadline_ns = now_monotonic_ns() + 30000000;
    unsigned turns = 0;
    do assert_int_equal(turn(w, deadline_ns), 0);
    while (turns++ < TURNS_MAX && now_monotonic_ns() < deadline_ns);
    assert_true(turns < TURNS_MAX);
}

/* The peer writes up to n bytes of its pattern. */
static inline size_t put(struct conn *c, size_t n) {
    static char bytes[65536];
    size_t done = 0;
    while (done < n) {
        size_t part = n - done < sizeof bytes ? n - done : sizeof bytes;
        fill(bytes, c->id, c->put, part);
        ssize_t out = send(c->peer, bytes, part, MSG_NOSIGNAL);
        if (out <= 0) break;
        c->put += (uint64_t)out;
        done += (size_t)out;
    }
    return done;
}

/* The peer reads what is there, up to n bytes, and checks that it is the pattern from *at on. */
static inline size_t get(struct conn *c, uint64_t *at, size_t n) {
    static char bytes[65536];
    ssize_t in = recv(c->peer, bytes, n < sizeof bytes ? n : sizeof bytes, 0);
    if (in <= 0) return 0;
    check(bytes, c->id, *at, (size_t)in);
    *at += (uint64_t)in;
    return (size_t)in;
}

static inline void send_whole(struct world *w, struct conn *c, const char *bytes, size_t n) {
    unsigned sents = c->sents;
    if (proactor_send(w->p, &c->s, &(struct iovec){(char *)bytes, n}, 1)) return;
    UNTIL(w, c->sents > sents);
    assert_int_equal(c->sent_result, 0);
}

static inline void close_world(struct world *w) {
    give_held(w);
    for (unsigned i = 0; i < w->count; i++) proactor_remove(w->p, &w->conns[i].s);
    for (unsigned i = 0; i < w->count; i++) {
        struct conn *c = &w->conns[i];
        UNTIL(w, c->removes == 1);
        assert_int_equal(fcntl(c->s.fd, F_GETFD), -1);
        close(c->peer);
    }
    give_held(w);
    drain(w);
    assert_int_equal(proactor_free_buffers(w->p), w->p->buffer_count);
    proactor_close(w->p);
    free(w->conns);
}

#endif
