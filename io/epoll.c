/* The proactor over epoll, for where io_uring is not allowed.
 *
 * Level triggered: epoll_wait() says which descriptors are ready, epoll_next() makes the system call that each of them needs (one accept, one
 * receive or one send an event) and turns the result into an event. What a turn leaves untaken is simply reported again.
 * Every call says MSG_DONTWAIT, so it does not matter whether a stream's descriptor is non-blocking.
 *
 * stream.armed holds the EPOLL bits that the kernel has of a stream, 0: it is not in the set. A stream that wants nothing is taken out, because
 * the kernel reports hang-ups and errors whether asked to or not, and a paused stream would then keep the thread awake.
 *
 * epoll_data is a stream's address, or a number with its lowest bit set.
 *
 *   opening; waiting; taking events; streams, listeners and watchers
 */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "io/backend.h"
#include "io/clock.h"

/* Descriptors a turn; the kernel puts those it reported behind those it did not, so more of them take turns. */
#define READY_MAX 512
/* Connections a listener and turn, so that a storm of them does not stop the streams. */
#define ACCEPTS_MAX 64

enum other { OTHER_WAKE, OTHER_ACCEPT, OTHER_WATCH };
#define OTHER(kind, index) ((uint64_t)(index) << 8 | (uint64_t)(kind) << 1 | 1)

struct epoll {
    struct proactor base;
    int fd;
    bool no_ns_timeouts;    /* epoll_pwait2() is refused: old kernel or filter */
    int ready_count, taken; /* of ready[]: this turn's, and how many are done with */
    unsigned accepts;       /* of the listener at ready[taken], in this turn */
    uint32_t hungry;        /* starved streams to try in this turn */
    uint32_t free_count;    /* of free_buffers: a stack, so that the next buffer is one that is in the cache */
    uint32_t *free_buffers;
    struct epoll_event ready[READY_MAX];
};

static const struct backend_ops epoll_ops;

/* ---- opening ---- */

static void epoll_close(struct proactor *p) {
    struct epoll *e = (struct epoll *)p;
    if (e->fd >= 0) close(e->fd);
    free(e->free_buffers);
    backend_finish(p);
    free(e);
}

static int watch(struct epoll *e, int fd, uint64_t what) {
    return epoll_ctl(e->fd, EPOLL_CTL_ADD, fd, &(struct epoll_event){.events = EPOLLIN, .data.u64 = what}) ? -errno : 0;
}

struct proactor *epoll_open(const struct proactor_options *options, int *error, const char **why) {
    struct epoll *e = aligned_alloc(_Alignof(struct epoll), sizeof *e);
    *error = -ENOMEM;
    *why = "out of memory or descriptors";
    if (!e) return NULL;
    memset(e, 0, sizeof *e);
    e->base.ops = &epoll_ops;
    e->base.kind = PROACTOR_EPOLL;
    e->fd = -1;
    *error = backend_init(&e->base, options);
    if (!*error && !(e->free_buffers = malloc(options->buffer_count * sizeof *e->free_buffers))) *error = -ENOMEM;
    if (!*error && (e->fd = epoll_create1(EPOLL_CLOEXEC)) < 0) *error = -errno;
    if (!*error) *error = watch(e, e->base.wake_fd, OTHER(OTHER_WAKE, 0));
    if (*error) {
        epoll_close(&e->base);
        return NULL;
    }
    while (e->free_count < options->buffer_count) {
        e->free_buffers[e->free_count] = options->buffer_count - 1 - e->free_count;
        e->free_count++;
    }
    *why = NULL;
    return &e->base;
}

/* ---- waiting ---- */

/* Makes the kernel report what the stream wants. */
static int settle(struct epoll *e, struct stream *s) {
    bool reads = !s->connecting && !s->paused && !s->ended && !s->removing && s->list != LIST_STARVED;
    bool writes = (s->sending || s->connecting) && !s->removing;
    uint8_t wanted = (uint8_t)((reads ? EPOLLIN : 0) | (writes ? EPOLLOUT : 0));
    if (wanted == s->armed) return 0;
    int op = !s->armed ? EPOLL_CTL_ADD : !wanted ? EPOLL_CTL_DEL : EPOLL_CTL_MOD;
    struct epoll_event want = {.events = wanted, .data.u64 = (uintptr_t)s};
    if (epoll_ctl(e->fd, op, s->fd, &want)) return -errno;
    s->armed = wanted;
    return 0;
}

static void settle_all(struct epoll *e) {
    struct proactor *p = &e->base;
    for (struct stream *s; (s = p->lists[LIST_UNSETTLED].first);) {
        backend_list(p, s, LIST_NONE);
        int error = settle(e, s);
        if (!error) continue;
        s->ended = true; /* out of memory for one more descriptor: the kernel will not tell us of it again */
        backend_due(p, s, DUE_CLOSED, error);
    }
    /* Without a buffer the starved must not end the wait. With one there is no wait: they are tried first, and may stay in the set. */
    if (!e->free_count)
        for (struct stream *s = p->lists[LIST_STARVED].first; s; s = s->next) settle(e, s);
    if (!p->accept_again_ns) return;
    backend_unpause_listeners(p);
    for (uint32_t i = 0; i < p->listener_count; i++) {
        struct listener *l = &p->listeners[i];
        if (l->state != LISTENER_ON || l->armed || l->paused) continue;
        l->armed = !watch(e, l->fd, OTHER(OTHER_ACCEPT, i));
        if (l->armed) continue;
        l->paused = true;
        p->accept_again_ns = now_monotonic_ns() + ACCEPT_PAUSE_NS;
    }
}

static int wait_until(struct epoll *e, uint64_t limit_ns) {
    if (!limit_ns) return epoll_wait(e->fd, e->ready, READY_MAX, 0);
    if (limit_ns == UINT64_MAX) return epoll_wait(e->fd, e->ready, READY_MAX, -1);
    uint64_t now_ns = now_monotonic_ns(), left_ns = limit_ns > now_ns ? limit_ns - now_ns : 0;
    if (!e->no_ns_timeouts) {
        struct timespec left = {.tv_sec = (time_t)(left_ns / 1000000000), .tv_nsec = (long)(left_ns % 1000000000)};
        int n = epoll_pwait2(e->fd, e->ready, READY_MAX, &left, NULL);
        if (n >= 0 || (errno != ENOSYS && errno != EPERM)) return n;
        e->no_ns_timeouts = true;
    }
    uint64_t left_ms = (left_ns + 999999) / 1000000;
    return epoll_wait(e->fd, e->ready, READY_MAX, left_ms < 3600000 ? (int)left_ms : 3600000);
}

static void epoll_wait_turn(struct proactor *p, uint64_t deadline_ns) {
    struct epoll *e = (struct epoll *)p;
    settle_all(e);
    uint64_t limit_ns = backend_wait_limit(p, deadline_ns);
    e->hungry = 0;
    if (e->free_count)
        for (struct stream *s = p->lists[LIST_STARVED].first; s && e->hungry < e->free_count; s = s->next) e->hungry++;
    int n = wait_until(e, e->hungry ? 0 : limit_ns);
    e->ready_count = n > 0 ? n : 0;
    e->taken = 0;
    e->accepts = 0;
}

/* ---- taking events ---- */

static bool receive(struct epoll *e, struct stream *s, struct event *ev) {
    struct proactor *p = &e->base;
    bool direct = s->direct_left;
    if (!direct && !e->free_count) {
        backend_list(p, s, LIST_STARVED);
        return false;
    }
    uint32_t buffer = direct ? 0 : e->free_buffers[e->free_count - 1];
    char *to = direct ? s->direct : backend_buffer(p, buffer);
    size_t size = !direct ? p->buffer_size : s->direct_left < IO_SLICE_BYTES ? s->direct_left : IO_SLICE_BYTES;
    ssize_t n = recv(s->fd, to, size, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR)) return false;
    if (n <= 0) {
        s->ended = true;
        *ev = (struct event){.kind = EV_CLOSED, .stream = s, .result = n ? -errno : 0};
        backend_unsettle(p, s);
        return true;
    }
    *ev =
        (struct event){.kind = direct ? EV_DIRECT : EV_RECV, .stream = s, .data = direct ? NULL : to, .size = (size_t)n, .buffer = buffer};
    if (direct) {
        s->direct += n;
        s->direct_left -= (size_t)n;
    } else {
        e->free_count--;
        p->buffers_free--;
    }
    return true;
}

/* Sends a slice, or what the socket takes of it. Returns 1: all is out, 0: not yet, or a negative errno. */
static int send_some(struct stream *s) {
    struct send_slice x = backend_next_slice(s);
    for (;;) {
        ssize_t n =
            x.message ? sendmsg(s->fd, x.message, MSG_NOSIGNAL | MSG_DONTWAIT) : send(s->fd, x.at, x.size, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n >= 0) return backend_sent(s, (size_t)n) ? 1 : 0;
        if (errno == EAGAIN) return 0;
        if (errno != EINTR) return -errno;
    }
}

static bool stream_ready(struct epoll *e, struct epoll_event *r, struct event *ev) {
    struct stream *s = r->data.ptr;
    uint32_t events = r->events;
    if (s->removing) return false;
    if (s->connecting) {
        r->events = 0;
        int error = 0;
        if (s->due || getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &(socklen_t){sizeof error})) return false;
        *ev = backend_connected(&e->base, s, -error);
        return true;
    }
    if (s->sending && (events & (EPOLLOUT | EPOLLERR | EPOLLHUP))) {
        int result = send_some(s);
        if (result) {
            backend_end_send(&e->base, s);
            backend_unsettle(&e->base, s);
            *ev = (struct event){.kind = EV_SENT, .stream = s, .result = result > 0 ? 0 : result};
            return true;
        }
    }
    r->events = 0; /* the next call goes on behind this descriptor */
    bool reads = !s->paused && !s->ended && s->list != LIST_STARVED && !(s->due & DUE_CLOSED);
    if (reads && (events & (EPOLLIN | EPOLLERR | EPOLLHUP))) return receive(e, s, ev);
    return false;
}

static bool listener_ready(struct epoll *e, struct listener *l, struct event *ev) {
    while (l->state == LISTENER_ON && l->armed && e->accepts++ < ACCEPTS_MAX) {
        int fd = accept4(l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0) {
            *ev = (struct event){.kind = EV_ACCEPT, .result = fd, .tag = l->tag};
            return true;
        }
        if (errno == EAGAIN) break;
        if (!backend_accept_failed(&e->base, l, -errno, ev)) continue;
        epoll_ctl(e->fd, EPOLL_CTL_DEL, l->fd, NULL);
        l->armed = false;
        return true;
    }
    e->accepts = 0;
    return false;
}

/* One event of the descriptor at ready[taken]; false: it has no more in this turn. */
static bool ready_next(struct epoll *e, struct epoll_event *r, struct event *ev) {
    if (!(r->data.u64 & 1)) return r->events && stream_ready(e, r, ev);
    uint32_t index = (uint32_t)(r->data.u64 >> 8);
    bool first = r->events;
    switch ((enum other)(r->data.u64 >> 1 & 0x7f)) {
    case OTHER_ACCEPT: return listener_ready(e, &e->base.listeners[index], ev);
    case OTHER_WATCH: *ev = (struct event){.kind = EV_FD, .tag = e->base.watchers[index].tag}; break;
    case OTHER_WAKE:
        if (first && read(e->base.wake_fd, &(uint64_t){0}, 8) == 8) backend_wake_read(&e->base);
        *ev = (struct event){.kind = EV_WAKE};
        break;
    }
    r->events = 0;
    return first;
}

static bool epoll_next(struct proactor *p, struct event *ev) {
    struct epoll *e = (struct epoll *)p;
    for (struct stream *s; e->hungry && (s = p->lists[LIST_STARVED].first);) {
        e->hungry--;
        backend_list(p, s, LIST_UNSETTLED);
        if (receive(e, s, ev)) return true;
    }
    e->hungry = 0;
    for (; e->taken < e->ready_count; e->taken++)
        if (ready_next(e, &e->ready[e->taken], ev)) return true;
    return backend_next_due(p, ev);
}

/* ---- streams, listeners and watchers ---- */

static int epoll_add(struct proactor *p, struct stream *s) { return settle((struct epoll *)p, s); }

static void epoll_connect(struct proactor *p, struct stream *s, const struct sockaddr *address, socklen_t size) {
    if (!connect(s->fd, address, size)) backend_due(p, s, DUE_CONNECTED, 0);
    else if (errno != EINPROGRESS) backend_due(p, s, DUE_CONNECTED, -errno);
    else backend_unsettle(p, s);
}

/* The descriptor may have a copy somewhere, and closing it would then leave it in the set: it is taken out by name. */
static void epoll_remove(struct proactor *p, struct stream *s) {
    struct epoll *e = (struct epoll *)p;
    if (s->armed) epoll_ctl(e->fd, EPOLL_CTL_DEL, s->fd, NULL);
    s->armed = 0;
    close(s->fd);
    if (s->sending) {
        backend_end_send(p, s);
        backend_due(p, s, DUE_SENT, -ECANCELED);
    }
    backend_due(p, s, DUE_REMOVED, 0);
}

static bool epoll_send(struct proactor *p, struct stream *s, const struct iovec *iov, unsigned n) {
    size_t total = 0;
    for (unsigned i = 0; i < n; i++) total += iov[i].iov_len;
    if (!total) return true;
    if (!backend_keep_send(p, s, iov, n, total)) return false;
    int result = send_some(s);
    if (!result) {
        backend_unsettle(p, s);
        return false;
    }
    backend_end_send(p, s);
    if (result > 0) return true;
    backend_due(p, s, DUE_SENT, result);
    return false;
}

static void epoll_give_buffer(struct proactor *p, uint32_t buffer) {
    struct epoll *e = (struct epoll *)p;
    e->free_buffers[e->free_count++] = buffer;
    p->buffers_free++;
}

static int epoll_listen(struct proactor *p, struct listener *l) {
    int flags = fcntl(l->fd, F_GETFL);
    if (flags < 0 || fcntl(l->fd, F_SETFL, flags | O_NONBLOCK)) return -errno;
    int error = watch((struct epoll *)p, l->fd, OTHER(OTHER_ACCEPT, l - p->listeners));
    l->armed = !error;
    return error;
}

static void epoll_unlisten(struct proactor *p, struct listener *l) {
    if (l->armed) epoll_ctl(((struct epoll *)p)->fd, EPOLL_CTL_DEL, l->fd, NULL);
    *l = (struct listener){.state = LISTENER_FREE};
}

static int epoll_watch(struct proactor *p, struct watcher *w) {
    return watch((struct epoll *)p, w->fd, OTHER(OTHER_WATCH, w - p->watchers));
}

static bool epoll_wake(struct proactor *self, struct proactor *other) {
    (void)self;
    (void)other;
    return false;
}

static const struct backend_ops epoll_ops = {
    .close = epoll_close,
    .add = epoll_add,
    .connect = epoll_connect,
    .remove = epoll_remove,
    .send = epoll_send,
    .wait = epoll_wait_turn,
    .next = epoll_next,
    .give_buffer = epoll_give_buffer,
    .listen = epoll_listen,
    .unlisten = epoll_unlisten,
    .watch = epoll_watch,
    .wake = epoll_wake,
};
