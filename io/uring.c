/* The proactor over io_uring.
 *
 * One system call a turn: uring_wait() queues what the streams want, submits, and waits; uring_next() then translates completions where
 * they lie in the ring, and gives the ring its places back when the last one is taken. Task work runs only in that call
 * (DEFER_TASKRUN), so nothing happens behind the caller's back in between.
 *
 * Receiving is one multishot operation a stream that takes buffers of the registered ring by itself. It ends (no MORE flag) when no
 * buffer is free, when the completion queue is full, when it is cancelled, or with the stream; settle() then starts what is wanted next.
 * Streams that ended for want of a buffer line up; as buffers come back each of them receives once, before the multishot ones get any.
 * The kernel orders what we queue, and cancellations run while they are submitted: so a cancellation never meets a later receive.
 *
 * user_data is a stream's address with the operation in its low three bits, or a number above OP_OTHER.
 *
 *   opening; waiting; completions; streams; listeners and watchers; waking
 */
#include <errno.h>
#include <fcntl.h>
#include <liburing.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io/backend.h"
#include "io/clock.h"

/* A turn takes at most buffer_count receives, and as many sends as connections had commands; beyond this many completions the kernel keeps
 * them aside and the turn after takes them. */
#define CQ_ENTRIES 8192
#define SQ_ENTRIES 1024
/* A send of at most this many bytes is expected to go out while it is submitted: the wait counts on it. */
#define QUICK_SEND_BYTES 65536
/* How long the wait counts on that, when a socket turns out to be full. */
#define QUICK_SEND_NS 1000000
/* Buffers in the kernel's ring at first. */
#define ON_SHOW_FIRST 16

enum { ARMED_NONE, ARMED_POOL, ARMED_DIRECT }; /* stream.armed */

enum { OP_POOL = 1, OP_DIRECT, OP_SEND, OP_CONNECT, OP_CANCEL, OP_WAKE_SENT, OP_OTHER, OP_MASK = 7 };
enum other { OTHER_IGNORED, OTHER_WAKE, OTHER_WAKE_FD, OTHER_ACCEPT, OTHER_WATCH };
#define OTHER(kind, index) ((uint64_t)(index) << 16 | (uint64_t)(kind) << 8 | OP_OTHER)

struct uring {
    struct proactor base;
    struct io_uring ring;
    /* The kernel takes buffers from its ring in turn, so all that lie there go round, through memory and caches. Only some do, on_show; the
     * other free ones are a stack. on_show_max doubles whenever the ring runs out. */
    struct io_uring_buf_ring *free_buffers;
    uint32_t on_show, on_show_max;
    bool ran_out;
    uint32_t *stacked, n_stacked;
    unsigned given_back;  /* buffers written into the ring of buffers, not yet shown to the kernel */
    unsigned taken, end;  /* completions of this turn: taken so far, and where they end (ring positions from cq_start) */
    unsigned quick_sends; /* sends queued since the last wait that it counts on */
    bool wake_fd_armed;
    uint64_t wake_count; /* what the eventfd gave */
};

static const struct backend_ops uring_ops;

/* ---- opening ---- */

static struct io_uring_sqe *get_sqe(struct uring *u) {
    for (;;) {
        struct io_uring_sqe *sqe = io_uring_get_sqe(&u->ring);
        if (sqe) return sqe;
        /* The queue is full. Submitting fails only while the kernel has no memory for requests; there is nothing else to do then. */
        if (io_uring_submit(&u->ring) < 0) sched_yield();
    }
}

/* once: takes one buffer, so that the starved share what there is. A multishot receive would take all the buffers that it can fill.
 * On a Unix socket each receive is armed anew: Linux before 7.0 loses the end of the file of a multishot receive there, if it comes with the last bytes. */
static void arm_pool(struct uring *u, struct stream *s, bool once) {
    struct io_uring_sqe *sqe = get_sqe(u);
    if (once || s->local) io_uring_prep_recv(sqe, s->fd, NULL, 0, 0);
    else io_uring_prep_recv_multishot(sqe, s->fd, NULL, 0, 0);
    sqe->flags |= IOSQE_BUFFER_SELECT;
    sqe->buf_group = 0;
    sqe->user_data = (uintptr_t)s | OP_POOL;
    s->armed = ARMED_POOL;
    s->ops_out++;
}

static void put_buffer(struct uring *u, uint32_t buffer) {
    if (u->on_show >= u->on_show_max) {
        u->stacked[u->n_stacked++] = buffer;
        return;
    }
    u->on_show++;
    io_uring_buf_ring_add(u->free_buffers, backend_buffer(&u->base, buffer), u->base.buffer_size, (unsigned short)buffer,
        io_uring_buf_ring_mask(u->base.buffer_count), (int)u->given_back++);
}

static void show_buffers(struct uring *u) {
    while (u->n_stacked && u->on_show < u->on_show_max) put_buffer(u, u->stacked[--u->n_stacked]);
    if (u->given_back) io_uring_buf_ring_advance(u->free_buffers, (int)u->given_back);
    u->given_back = 0;
}

/* The kernel says yes to the flags; does a multishot receive into the ring of buffers really work (sandboxes, filters)? */
static int try_receive(struct uring *u) {
    int pair[2], result = -EIO;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair)) return -errno;
    struct stream s = {.fd = pair[0]};
    arm_pool(u, &s, false);
    if (write(pair[1], "x", 1) == 1) {
        struct __kernel_timespec second = {.tv_sec = 1};
        struct io_uring_cqe *q = NULL;
        int rc = io_uring_submit_and_wait_timeout(&u->ring, &q, 1, &second, NULL);
        if (q) {
            bool right = q->res == 1 && (q->flags & IORING_CQE_F_MORE) && (q->flags & IORING_CQE_F_BUFFER);
            result = right ? 0 : q->res < 0 ? q->res : -EOPNOTSUPP;
            if (q->flags & IORING_CQE_F_BUFFER) {
                u->on_show--;
                put_buffer(u, q->flags >> IORING_CQE_BUFFER_SHIFT);
            }
            io_uring_cqe_seen(&u->ring, q);
        } else if (rc < 0) result = rc;
    }
    close(pair[1]);
    for (bool more = true; more && !result;) { /* to its end, so that nothing of it comes later */
        struct __kernel_timespec second = {.tv_sec = 1};
        struct io_uring_cqe *q;
        result = io_uring_wait_cqe_timeout(&u->ring, &q, &second);
        if (result == -EINTR) result = 0;
        else if (!result) {
            more = q->flags & IORING_CQE_F_MORE;
            io_uring_cqe_seen(&u->ring, q);
        }
    }
    close(pair[0]);
    show_buffers(u);
    return result;
}

static int set_up_buffers(struct uring *u) {
    uint32_t n = u->base.buffer_count;
    void *m = mmap(NULL, n * sizeof(struct io_uring_buf), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (m == MAP_FAILED) return -errno;
    u->free_buffers = m;
    struct io_uring_buf_reg reg = {.ring_addr = (uintptr_t)m, .ring_entries = n, .bgid = 0};
    int rc = io_uring_register_buf_ring(&u->ring, &reg, 0);
    if (rc) return rc;
    io_uring_buf_ring_init(u->free_buffers);
    u->stacked = malloc(n * sizeof *u->stacked);
    if (!u->stacked) return -ENOMEM;
    u->on_show_max = n < ON_SHOW_FIRST ? n : ON_SHOW_FIRST;
    for (uint32_t i = n; i-- > 0;) put_buffer(u, i);
    show_buffers(u);
    return 0;
}

static int set_up_ring(struct uring *u, const char **why) {
    const unsigned flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG | IORING_SETUP_CQSIZE |
        IORING_SETUP_SUBMIT_ALL | IORING_SETUP_CLAMP;
    struct io_uring_params params = {.cq_entries = CQ_ENTRIES, .flags = flags};
    int rc = backend_refused_uring();
    if (!rc) rc = io_uring_queue_init_params(SQ_ENTRIES, &u->ring, &params);
    if (rc) {
        u->ring.ring_fd = -1;
        *why = rc == -EPERM || rc == -EACCES ? "io_uring is forbidden here"
            : rc == -ENOMEM                  ? "io_uring may not lock enough memory"
            : rc == -ENOSYS                  ? "the kernel has no io_uring"
            : rc == -EINVAL                  ? "the kernel's io_uring is too old (6.1 is needed)"
                                             : "io_uring could not be set up";
        return rc;
    }
    const unsigned needed =
        IORING_FEAT_NODROP | IORING_FEAT_SUBMIT_STABLE | IORING_FEAT_FAST_POLL | IORING_FEAT_EXT_ARG | IORING_FEAT_CQE_SKIP;
    struct io_uring_probe *probe = io_uring_get_probe_ring(&u->ring);
    bool able = probe && (params.features & needed) == needed && io_uring_opcode_supported(probe, IORING_OP_MSG_RING) &&
        io_uring_opcode_supported(probe, IORING_OP_SENDMSG) && io_uring_opcode_supported(probe, IORING_OP_CONNECT) &&
        io_uring_opcode_supported(probe, IORING_OP_ASYNC_CANCEL);
    io_uring_free_probe(probe);
    *why = "io_uring here lacks an operation that is needed";
    if (!able) return -EOPNOTSUPP;
    io_uring_register_ring_fd(&u->ring); /* spares a file look-up a turn; goes without */
    if ((rc = set_up_buffers(u))) {
        *why = "io_uring takes no ring of buffers";
        return rc;
    }
    if ((rc = try_receive(u))) {
        *why = "io_uring's multishot receive does not work here";
        return rc;
    }
    *why = NULL;
    return 0;
}

static void uring_close(struct proactor *p) {
    struct uring *u = (struct uring *)p;
    if (u->ring.ring_fd >= 0) {
        if (pthread_equal(p->owner, pthread_self())) io_uring_submit(&u->ring); /* wakes for others may be queued */
        io_uring_queue_exit(&u->ring);
    }
    if (u->free_buffers) munmap(u->free_buffers, p->buffer_count * sizeof(struct io_uring_buf));
    free(u->stacked);
    backend_finish(p);
    free(u);
}

struct proactor *uring_open(const struct proactor_options *options, int *error, const char **why) {
    struct uring *u = aligned_alloc(_Alignof(struct uring), sizeof *u);
    *error = -ENOMEM;
    *why = "out of memory or descriptors";
    if (!u) return NULL;
    memset(u, 0, sizeof *u);
    u->base.ops = &uring_ops;
    u->base.kind = PROACTOR_URING;
    u->ring.ring_fd = -1;
    *error = backend_init(&u->base, options);
    if (!*error) *error = set_up_ring(u, why);
    if (!*error) return &u->base;
    uring_close(&u->base);
    return NULL;
}

/* ---- waiting ---- */

static void cancel(struct uring *u, struct stream *s) {
    struct io_uring_sqe *sqe = get_sqe(u);
    if (s->removing) io_uring_prep_cancel_fd(sqe, s->fd, IORING_ASYNC_CANCEL_ALL);
    else io_uring_prep_cancel64(sqe, (uintptr_t)s | (s->armed == ARMED_POOL ? OP_POOL : OP_DIRECT), 0);
    sqe->user_data = (uintptr_t)s | OP_CANCEL;
    s->ops_out++;
    s->cancels_out++;
}

/* Makes the kernel do what the stream wants. Where that needs a cancellation first, the end of the receive brings it here again. */
static void settle(struct uring *u, struct stream *s) {
    bool once = s->list == LIST_STARVED;
    uint8_t wanted = s->connecting || s->paused || s->ended || s->removing ? ARMED_NONE : s->direct_left ? ARMED_DIRECT : ARMED_POOL;
    backend_list(&u->base, s, LIST_NONE);
    if (wanted == s->armed) return;
    if (s->armed != ARMED_NONE) {
        if (!s->cancels_out) cancel(u, s);
    } else if (wanted == ARMED_POOL) {
        arm_pool(u, s, once);
    } else {
        struct io_uring_sqe *sqe = get_sqe(u);
        size_t size = s->direct_left < IO_SLICE_BYTES ? s->direct_left : IO_SLICE_BYTES;
        io_uring_prep_recv(sqe, s->fd, s->direct, size, 0);
        sqe->user_data = (uintptr_t)s | OP_DIRECT;
        s->armed = ARMED_DIRECT;
        s->ops_out++;
    }
}

static void arm_listeners_and_watchers(struct uring *u) {
    struct proactor *p = &u->base;
    backend_unpause_listeners(p);
    for (uint32_t i = 0; i < p->listener_count; i++) {
        struct listener *l = &p->listeners[i];
        if (l->state != LISTENER_ON || l->armed || l->paused) continue;
        struct io_uring_sqe *sqe = get_sqe(u);
        io_uring_prep_multishot_accept(sqe, l->fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        sqe->user_data = OTHER(OTHER_ACCEPT, i);
        l->armed = true;
    }
    for (uint32_t i = 0; i < p->watcher_count; i++) {
        struct watcher *w = &p->watchers[i];
        if (w->armed) continue;
        struct io_uring_sqe *sqe = get_sqe(u);
        io_uring_prep_poll_add(sqe, w->fd, POLLIN);
        sqe->user_data = OTHER(OTHER_WATCH, i);
        w->armed = true;
    }
    if (!u->wake_fd_armed) {
        struct io_uring_sqe *sqe = get_sqe(u);
        io_uring_prep_read(sqe, p->wake_fd, &u->wake_count, sizeof u->wake_count, 0);
        sqe->user_data = OTHER(OTHER_WAKE_FD, 0);
        u->wake_fd_armed = true;
    }
}

static void give_ring_back(struct uring *u) {
    io_uring_cq_advance(&u->ring, u->taken);
    u->taken = 0;
}

/* Submits and takes what is there. With nothing to submit and nothing there it is no system call: a thread that works through a backlog looks
 * once a turn. */
static void look(struct uring *u) {
    unsigned news = IO_URING_READ_ONCE(*u->ring.sq.kflags) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW);
    if (news || io_uring_sq_ready(&u->ring)) io_uring_submit_and_get_events(&u->ring);
}

static void uring_wait(struct proactor *p, uint64_t deadline_ns) {
    struct uring *u = (struct uring *)p;
    give_ring_back(u);
    if (u->ran_out && u->on_show_max < p->buffer_count) u->on_show_max *= 2;
    u->ran_out = false;
    show_buffers(u);
    /* The starved first, and not more of them than there are buffers: those that are armed already take theirs only after this submit. */
    for (uint32_t room = u->on_show; room && p->lists[LIST_STARVED].first; room--) settle(u, p->lists[LIST_STARVED].first);
    while (p->lists[LIST_UNSETTLED].first) settle(u, p->lists[LIST_UNSETTLED].first);
    arm_listeners_and_watchers(u);

    /* Those that still line up although there are buffers have their turn next: those before them may find nothing to read. */
    bool must_go_on = io_uring_cq_ready(&u->ring) || (p->buffers_free && p->lists[LIST_STARVED].first);
    uint64_t limit_ns = must_go_on ? 0 : backend_wait_limit(p, deadline_ns), now_ns = 0;
    if (limit_ns && limit_ns != UINT64_MAX) now_ns = now_monotonic_ns();
    uint64_t left_ns = limit_ns == UINT64_MAX ? UINT64_MAX : limit_ns > now_ns ? limit_ns - now_ns : 0;
    if (u->quick_sends && left_ns > QUICK_SEND_NS) left_ns = QUICK_SEND_NS;
    if (!left_ns) look(u);
    else if (left_ns == UINT64_MAX) io_uring_submit_and_wait(&u->ring, 1);
    else {
        struct __kernel_timespec left = {.tv_sec = (int64_t)(left_ns / 1000000000), .tv_nsec = (long long)(left_ns % 1000000000)};
        struct io_uring_cqe *unused;
        io_uring_submit_and_wait_timeout(&u->ring, &unused, u->quick_sends + 1, &left, NULL);
    }
    u->quick_sends = 0;
    u->end = io_uring_cq_ready(&u->ring);
}

/* ---- completions ---- */

/* The kernel has nothing of a removed stream any more: it may go. */
static void let_go(struct uring *u, struct stream *s) {
    if (!s->removing || s->ops_out) return;
    close(s->fd);
    backend_due(&u->base, s, DUE_REMOVED, 0);
}

/* A receive into the pool ended for want of a buffer (the kernel wants one before it looks for bytes: there may be none). */
static void line_up(struct uring *u, struct stream *s) {
    if (s->paused || s->direct_left || s->due) backend_unsettle(&u->base, s);
    else backend_list(&u->base, s, LIST_STARVED);
}

static bool pool_received(struct uring *u, struct stream *s, const struct io_uring_cqe *q, struct event *ev) {
    bool over = !(q->flags & IORING_CQE_F_MORE);
    uint32_t buffer = q->flags >> IORING_CQE_BUFFER_SHIFT;
    if (over) {
        s->armed = ARMED_NONE;
        s->ops_out--;
    }
    if (q->flags & IORING_CQE_F_BUFFER) {
        u->on_show--;
        u->base.buffers_free--;
        if (q->res > 0 && !s->removing) {
            if (over) backend_unsettle(&u->base, s);
            *ev = (struct event){
                .kind = EV_RECV, .stream = s, .data = backend_buffer(&u->base, buffer), .size = (size_t)q->res, .buffer = buffer};
            return true;
        }
        proactor_give_buffer(&u->base, buffer);
    }
    if (s->removing) let_go(u, s);
    else if (q->res == -ENOBUFS) {
        u->ran_out = true;
        line_up(u, s);
    } else if (q->res == -ECANCELED || q->res == -EINTR || q->res == -EAGAIN) backend_unsettle(&u->base, s);
    else {
        s->ended = true;
        *ev = (struct event){.kind = EV_CLOSED, .stream = s, .result = q->res};
        return true;
    }
    return false;
}

static bool direct_received(struct uring *u, struct stream *s, int res, struct event *ev) {
    s->armed = ARMED_NONE;
    s->ops_out--;
    if (s->removing) {
        let_go(u, s);
        return false;
    }
    if (res > 0) {
        size_t n = (size_t)res;
        if (s->direct_left) { /* else it was stopped meanwhile */
            s->direct += n;
            s->direct_left -= n;
        }
        backend_unsettle(&u->base, s);
        *ev = (struct event){.kind = EV_DIRECT, .stream = s, .size = n};
        return true;
    }
    if (res == -ECANCELED || res == -EINTR || res == -EAGAIN) {
        backend_unsettle(&u->base, s);
        return false;
    }
    s->ended = true;
    *ev = (struct event){.kind = EV_CLOSED, .stream = s, .result = res};
    return true;
}

static void queue_send(struct uring *u, struct stream *s) {
    struct io_uring_sqe *sqe = get_sqe(u);
    struct send_slice x = backend_next_slice(s);
    if (x.message) io_uring_prep_sendmsg(sqe, s->fd, x.message, MSG_WAITALL | MSG_NOSIGNAL);
    else io_uring_prep_send(sqe, s->fd, x.at, x.size, MSG_WAITALL | MSG_NOSIGNAL);
    sqe->user_data = (uintptr_t)s | OP_SEND;
    s->ops_out++;
}

/* MSG_WAITALL: less than the slice only if an error came in the middle; going on then tells which. */
static bool sent(struct uring *u, struct stream *s, int res, struct event *ev) {
    s->ops_out--;
    bool whole = res > 0 && backend_sent(s, (size_t)res);
    if (!whole && !s->removing && (res > 0 || res == -EINTR || res == -EAGAIN)) {
        queue_send(u, s);
        return false;
    }
    backend_end_send(&u->base, s);
    *ev = (struct event){.kind = EV_SENT, .stream = s, .result = whole ? 0 : res < 0 ? res : -ECANCELED};
    let_go(u, s);
    return true;
}

static bool connected(struct uring *u, struct stream *s, int res, struct event *ev) {
    s->ops_out--;
    if (s->removing) {
        let_go(u, s);
        return false;
    }
    *ev = backend_connected(&u->base, s, res);
    return true;
}

static void cancelled(struct uring *u, struct stream *s, int res) {
    s->ops_out--;
    s->cancels_out--;
    if (s->removing) {
        if (s->ops_out && !s->cancels_out && res < 0) cancel(u, s); /* it was just between two states */
        let_go(u, s);
    } else if (res < 0) backend_unsettle(&u->base, s);
}

static bool accepted(struct uring *u, uint32_t index, const struct io_uring_cqe *q, struct event *ev) {
    struct listener *l = &u->base.listeners[index];
    bool stopping = l->state == LISTENER_STOPPING;
    if (!(q->flags & IORING_CQE_F_MORE)) {
        l->armed = false;
        if (stopping) l->state = LISTENER_FREE;
    }
    if (stopping) {
        if (q->res >= 0) close(q->res);
        return false;
    }
    if (q->res < 0) return backend_accept_failed(&u->base, l, q->res, ev);
    *ev = (struct event){.kind = EV_ACCEPT, .result = q->res, .tag = l->tag};
    return true;
}

static bool other_done(struct uring *u, const struct io_uring_cqe *q, struct event *ev) {
    uint32_t index = (uint32_t)(q->user_data >> 16);
    switch ((enum other)(q->user_data >> 8 & 0xff)) {
    case OTHER_IGNORED: break;
    case OTHER_ACCEPT: return accepted(u, index, q, ev);
    case OTHER_WATCH:
        if (q->res < 0) break; /* somebody closed it: never again */
        u->base.watchers[index].armed = false;
        *ev = (struct event){.kind = EV_FD, .tag = u->base.watchers[index].tag};
        return true;
    case OTHER_WAKE_FD:
        u->wake_fd_armed = false;
        backend_wake_read(&u->base);
        __attribute__((fallthrough));
    case OTHER_WAKE: *ev = (struct event){.kind = EV_WAKE}; return true;
    }
    return false;
}

static bool uring_next(struct proactor *p, struct event *ev) {
    struct uring *u = (struct uring *)p;
    unsigned head = *u->ring.cq.khead;
    while (u->taken != u->end) {
        const struct io_uring_cqe *q = &u->ring.cq.cqes[(head + u->taken++) & *u->ring.cq.kring_mask];
        uint64_t address = q->user_data & ~(uint64_t)OP_MASK;
        struct stream *s = (struct stream *)(uintptr_t)address;
        bool is_event = false;
        switch (q->user_data & OP_MASK) {
        case OP_POOL: is_event = pool_received(u, s, q, ev); break;
        case OP_DIRECT: is_event = direct_received(u, s, q->res, ev); break;
        case OP_SEND: is_event = sent(u, s, q->res, ev); break;
        case OP_CONNECT: is_event = connected(u, s, q->res, ev); break;
        case OP_CANCEL: cancelled(u, s, q->res); break;
        case OP_WAKE_SENT: backend_wake_write((struct proactor *)(uintptr_t)address); break; /* said only if it failed */
        case OP_OTHER: is_event = other_done(u, q, ev); break;
        }
        if (is_event) return true;
    }
    if (u->taken) {
        give_ring_back(u);
        u->end = 0;
    }
    return backend_next_due(p, ev);
}

/* ---- streams, listeners, wakes ---- */

static bool is_local(int fd) {
    int domain = 0;
    return !getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &(socklen_t){sizeof domain}) && domain == AF_UNIX;
}

static int uring_add(struct proactor *p, struct stream *s) {
    (void)p; /* the next wait arms it; a descriptor that is none shows as EV_CLOSED */
    s->local = is_local(s->fd);
    return s->fd < 0 ? -EBADF : 0;
}

static void uring_connect(struct proactor *p, struct stream *s, const struct sockaddr *address, socklen_t size) {
    struct io_uring_sqe *sqe = get_sqe((struct uring *)p);
    s->local = is_local(s->fd);
    io_uring_prep_connect(sqe, s->fd, address, size);
    sqe->user_data = (uintptr_t)s | OP_CONNECT;
    s->ops_out++;
}

static void uring_remove(struct proactor *p, struct stream *s) {
    struct uring *u = (struct uring *)p;
    if (s->ops_out) cancel(u, s);
    else let_go(u, s);
}

static bool uring_send(struct proactor *p, struct stream *s, const struct iovec *iov, unsigned n) {
    struct uring *u = (struct uring *)p;
    size_t total = 0;
    for (unsigned i = 0; i < n; i++) total += iov[i].iov_len;
    if (!total) return true;
    if (!backend_keep_send(p, s, iov, n, total)) return false;
    queue_send(u, s);
    if (total <= QUICK_SEND_BYTES) u->quick_sends++;
    return false;
}

static void uring_give_buffer(struct proactor *p, uint32_t buffer) {
    put_buffer((struct uring *)p, buffer);
    p->buffers_free++;
}

static int uring_listen(struct proactor *p, struct listener *l) {
    (void)p;
    (void)l; /* the next wait arms it */
    return 0;
}

/* Submits at once, so that the port is free when the caller closes the listening socket. */
static void uring_unlisten(struct proactor *p, struct listener *l) {
    struct uring *u = (struct uring *)p;
    if (!l->armed) return;
    struct io_uring_sqe *sqe = get_sqe(u);
    io_uring_prep_cancel64(sqe, OTHER(OTHER_ACCEPT, l - p->listeners), 0);
    sqe->user_data = OTHER(OTHER_IGNORED, 0);
    io_uring_submit(&u->ring);
}

static int uring_watch(struct proactor *p, struct watcher *w) {
    (void)p; /* the next wait arms it */
    return fcntl(w->fd, F_GETFD) < 0 ? -errno : 0;
}

static bool uring_wake(struct proactor *self, struct proactor *other) {
    if (other->kind != PROACTOR_URING) return false;
    struct io_uring_sqe *sqe = get_sqe((struct uring *)self);
    io_uring_prep_msg_ring(sqe, ((struct uring *)other)->ring.ring_fd, 0, OTHER(OTHER_WAKE, 0), 0);
    sqe->flags |= IOSQE_CQE_SKIP_SUCCESS;
    sqe->user_data = (uintptr_t)other | OP_WAKE_SENT;
    return true;
}

static const struct backend_ops uring_ops = {
    .close = uring_close,
    .add = uring_add,
    .connect = uring_connect,
    .remove = uring_remove,
    .send = uring_send,
    .wait = uring_wait,
    .next = uring_next,
    .give_buffer = uring_give_buffer,
    .listen = uring_listen,
    .unlisten = uring_unlisten,
    .watch = uring_watch,
    .wake = uring_wake,
};
