/* The proactor: choice of the back end, and what both share. The back ends are in uring.c and epoll.c.
 *
 *   opening and closing; the calls that only change what a stream wants; lists and due events; sends; accepting; waking
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/backend.h"
#include "io/clock.h"

_Static_assert(sizeof(struct stream) == 64, "a stream is one cache line");

static int test_refusal;

void proactor_test_refuse_uring(int error) { test_refusal = error; }

int backend_refused_uring(void) { return test_refusal; }

#ifndef HAVE_URING
struct proactor *uring_open(const struct proactor_options *options, int *error, const char **why) {
    (void)options;
    *error = -ENOSYS;
    *why = "built without io_uring";
    return NULL;
}
#endif

int proactor_open(struct proactor **out, const struct proactor_options *options, const char **why) {
    const char *unused, **reason = why ? why : &unused;
    int error = 0;
    struct proactor *p = NULL;
    *reason = NULL;
    if (!options->buffer_size || options->buffer_size > 1u << 30 || !options->buffer_count || options->buffer_count > 32768 ||
        (options->buffer_count & (options->buffer_count - 1))) {
        *reason = "buffer size or count out of range";
        return -EINVAL;
    }
    if (options->kind != PROACTOR_EPOLL) p = uring_open(options, &error, reason);
    if (!p && options->kind != PROACTOR_URING) {
        const char *no_uring = *reason;
        p = epoll_open(options, &error, reason);
        if (p) *reason = no_uring;
    }
    if (!p) return error;
    *out = p;
    return 0;
}

void proactor_close(struct proactor *p) {
    for (uint32_t i = 0; i < p->watcher_count; i++) close(p->watchers[i].fd);
    p->ops->close(p);
}

enum proactor_kind proactor_kind_of(const struct proactor *p) { return p->kind; }

int backend_init(struct proactor *p, const struct proactor_options *options) {
    p->owner = pthread_self();
    p->buffer_size = options->buffer_size;
    p->buffer_count = p->buffers_free = options->buffer_count;
    p->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (p->wake_fd < 0) return -errno;
    void *m = mmap(NULL, (size_t)p->buffer_size * p->buffer_count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED) return -errno;
    p->buffers = m;
    return 0;
}

void backend_finish(struct proactor *p) {
    if (p->buffers) munmap(p->buffers, (size_t)p->buffer_size * p->buffer_count);
    if (p->wake_fd >= 0) close(p->wake_fd);
    while (p->made_rests) {
        struct send_rest *r = p->made_rests;
        p->made_rests = r->next_made;
        free(r);
    }
}

/* ---- what a stream wants ---- */

int proactor_add(struct proactor *p, struct stream *s) {
    *s = (struct stream){.fd = s->fd, .kind = s->kind};
    int error = p->ops->add(p, s);
    if (!error) backend_unsettle(p, s);
    return error;
}

int proactor_connect(struct proactor *p, struct stream *s, const struct sockaddr *address, socklen_t size) {
    *s = (struct stream){.fd = s->fd, .kind = s->kind, .connecting = true};
    int error = p->ops->add(p, s);
    if (!error) p->ops->connect(p, s, address, size);
    return error;
}

void proactor_pause(struct proactor *p, struct stream *s) {
    if (s->paused || s->removing) return;
    s->paused = true;
    backend_unsettle(p, s);
}

void proactor_resume(struct proactor *p, struct stream *s) {
    if (!s->paused || s->removing) return;
    s->paused = false;
    backend_unsettle(p, s);
}

void proactor_recv_into(struct proactor *p, struct stream *s, char *place, size_t size) {
    if (s->removing) return;
    s->direct = place;
    s->direct_left = place ? size : 0;
    backend_unsettle(p, s);
}

void proactor_remove(struct proactor *p, struct stream *s) {
    if (s->removing) return;
    s->removing = true;
    s->due &= (uint8_t) ~(DUE_CLOSED | DUE_CONNECTED);
    if (!s->due) backend_list(p, s, LIST_NONE);
    p->ops->remove(p, s);
}

bool proactor_send(struct proactor *p, struct stream *s, const struct iovec *iov, unsigned n) { return p->ops->send(p, s, iov, n); }

void proactor_wait(struct proactor *p, uint64_t deadline_ns) { p->ops->wait(p, deadline_ns); }

bool proactor_next(struct proactor *p, struct event *ev) { return p->ops->next(p, ev); }

void proactor_give_buffer(struct proactor *p, uint32_t buffer) { p->ops->give_buffer(p, buffer); }

uint32_t proactor_free_buffers(const struct proactor *p) { return p->buffers_free; }

uint64_t backend_wait_limit(const struct proactor *p, uint64_t deadline_ns) {
    if (p->woken_by_self || p->lists[LIST_DUE].first) return 0;
    return p->accept_again_ns && p->accept_again_ns < deadline_ns ? p->accept_again_ns : deadline_ns;
}

/* ---- lists and due events ---- */

void backend_list(struct proactor *p, struct stream *s, enum stream_list_id id) {
    if (s->list != LIST_NONE) {
        if (s->prev) s->prev->next = s->next;
        else p->lists[s->list].first = s->next;
        if (s->next) s->next->prev = s->prev;
        else p->lists[s->list].last = s->prev;
        s->prev = s->next = NULL;
    }
    s->list = (uint8_t)id;
    if (id == LIST_NONE) return;
    s->prev = p->lists[id].last;
    if (s->prev) s->prev->next = s;
    else p->lists[id].first = s;
    p->lists[id].last = s;
}

void backend_due(struct proactor *p, struct stream *s, uint8_t due, int error) {
    s->due |= due;
    if (due != DUE_REMOVED) s->error = (int16_t)error;
    if (s->list != LIST_DUE) backend_list(p, s, LIST_DUE);
}

bool backend_next_due(struct proactor *p, struct event *ev) {
    if (p->woken_by_self) {
        p->woken_by_self = false;
        *ev = (struct event){.kind = EV_WAKE};
        return true;
    }
    struct stream *s = p->lists[LIST_DUE].first;
    if (!s) return false;
    uint8_t first = s->due & (uint8_t)-s->due;
    s->due ^= first;
    if (first == DUE_CONNECTED) *ev = backend_connected(p, s, s->error);
    else
        *ev = (struct event){.stream = s,
            .kind = first == DUE_SENT ? EV_SENT
                : first == DUE_CLOSED ? EV_CLOSED
                                      : EV_REMOVED,
            .result = first == DUE_REMOVED ? 0 : s->error};
    if (s->due) return true;
    backend_list(p, s, LIST_NONE);
    if (!s->removing) backend_unsettle(p, s);
    return true;
}

struct event backend_connected(struct proactor *p, struct stream *s, int result) {
    s->connecting = false;
    s->ended = result != 0;
    if (!s->due) backend_unsettle(p, s);
    return (struct event){.kind = EV_CONNECTED, .stream = s, .result = result};
}

/* ---- sends ---- */

bool backend_keep_send(struct proactor *p, struct stream *s, const struct iovec *iov, unsigned n, size_t total) {
    s->sending = true;
    s->send_left = total;
    s->vectored = n > 1;
    if (n == 1) {
        s->send_at = iov->iov_base;
        return true;
    }
    struct send_rest *r = p->spare_rests;
    if (r) p->spare_rests = r->next_spare;
    else if ((r = malloc(sizeof *r))) {
        r->next_made = p->made_rests;
        p->made_rests = r;
    } else {
        s->sending = false;
        backend_due(p, s, DUE_SENT, -ENOMEM);
        return false;
    }
    memcpy(r->iov, iov, n * sizeof *iov);
    r->msg = (struct msghdr){.msg_iov = r->iov};
    r->left = n;
    s->send_rest = r;
    return true;
}

struct send_slice backend_next_slice(struct stream *s) {
    const char *at = s->send_at;
    size_t size = s->send_left;
    if (s->vectored) {
        struct send_rest *r = s->send_rest;
        struct msghdr *m = &r->msg;
        size_t room = IO_SLICE_BYTES;
        for (; !m->msg_iov->iov_len; r->left--) m->msg_iov++; /* a message of empty ones would send nothing */
        m->msg_iovlen = 0;
        while (m->msg_iovlen < r->left && m->msg_iov[m->msg_iovlen].iov_len <= room) room -= m->msg_iov[m->msg_iovlen++].iov_len;
        if (m->msg_iovlen) return (struct send_slice){.message = m};
        at = m->msg_iov->iov_base;
        size = m->msg_iov->iov_len;
    }
    return (struct send_slice){.at = at, .size = size < IO_SLICE_BYTES ? size : IO_SLICE_BYTES};
}

bool backend_sent(struct stream *s, size_t n) {
    s->send_left -= n;
    if (!s->send_left) return true;
    if (!s->vectored) {
        s->send_at += n;
        return false;
    }
    struct msghdr *m = &s->send_rest->msg;
    for (; n >= m->msg_iov->iov_len; s->send_rest->left--) n -= m->msg_iov++->iov_len;
    m->msg_iov->iov_base = (char *)m->msg_iov->iov_base + n;
    m->msg_iov->iov_len -= n;
    return false;
}

void backend_end_send(struct proactor *p, struct stream *s) {
    s->sending = false;
    if (!s->vectored) return;
    s->send_rest->next_spare = p->spare_rests;
    p->spare_rests = s->send_rest;
}

/* ---- accepting, watching ---- */

int proactor_listen(struct proactor *p, int fd, uint64_t tag) {
    int listening = 0;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &(socklen_t){sizeof listening})) return -errno;
    if (!listening) return -EINVAL;
    uint32_t i = 0;
    while (i < p->listener_count && p->listeners[i].state != LISTENER_FREE) i++;
    if (i == LISTENERS_MAX) return -ENOSPC;
    struct listener *l = &p->listeners[i];
    *l = (struct listener){.fd = fd, .state = LISTENER_ON, .tag = tag};
    int error = p->ops->listen(p, l);
    if (error) l->state = LISTENER_FREE;
    else if (i == p->listener_count) p->listener_count++;
    return error;
}

void proactor_unlisten(struct proactor *p, int fd) {
    for (uint32_t i = 0; i < p->listener_count; i++) {
        struct listener *l = &p->listeners[i];
        if (l->state != LISTENER_ON || l->fd != fd) continue;
        l->state = l->armed ? LISTENER_STOPPING : LISTENER_FREE;
        p->ops->unlisten(p, l);
        return;
    }
}

bool backend_accept_failed(struct proactor *p, struct listener *l, int error, struct event *ev) {
    switch (-error) {
    /* The connection was gone before it was accepted, or never got so far: see accept(2). */
    case EAGAIN:
    case EINTR:
    case ECANCELED:
    case ECONNABORTED:
    case EPERM:
    case EPROTO:
    case ENETDOWN:
    case ENOPROTOOPT:
    case EHOSTDOWN:
    case ENONET:
    case EHOSTUNREACH:
    case ENETUNREACH:
    case ETIMEDOUT: return false;
    }
    l->paused = true;
    if (!p->accept_again_ns) p->accept_again_ns = now_monotonic_ns() + ACCEPT_PAUSE_NS;
    *ev = (struct event){.kind = EV_ACCEPT, .result = error, .tag = l->tag};
    return true;
}

void backend_unpause_listeners(struct proactor *p) {
    if (!p->accept_again_ns || now_monotonic_ns() < p->accept_again_ns) return;
    p->accept_again_ns = 0;
    for (uint32_t i = 0; i < p->listener_count; i++) p->listeners[i].paused = false;
}

int proactor_watch_fd(struct proactor *p, int fd, uint64_t tag) {
    if (p->watcher_count == WATCHERS_MAX) return -ENOSPC;
    struct watcher *w = &p->watchers[p->watcher_count];
    *w = (struct watcher){.fd = fd, .tag = tag};
    int error = p->ops->watch(p, w);
    if (!error) p->watcher_count++;
    return error;
}

/* ---- waking ---- */

void proactor_wake(struct proactor *self, struct proactor *other) {
    if (self == other) self->woken_by_self = true;
    else if (!self || !self->ops->wake(self, other)) backend_wake_write(other);
}

/* The word spares the writes of all but the first. It is exchanged on both sides, so that whoever finds it set has its stores seen by the
 * owner after it cleared it. */
void backend_wake_write(struct proactor *other) {
    if (atomic_exchange(&other->wake_written, 1)) return;
    while (write(other->wake_fd, &(uint64_t){1}, 8) < 0 && errno == EINTR) {}
}

void backend_wake_read(struct proactor *p) { atomic_exchange(&p->wake_written, 0); }
