/* What the proactor's two back ends share, and what each must provide. Included by io/proactor.c, io/uring.c, io/epoll.c and
 * their tests only; everything is the proactor's own thread's but where marked.
 *
 * A stream is on at most one of the proactor's lists:
 *
 *   UNSETTLED  something about it changed (added, paused, resumed, its receive ended ...). When the next wait begins, the back end
 *              compares what it wants with what the kernel has, and arms or cancels. So a change and its undoing in one turn cost nothing,
 *              and the place of a recv_into may still change until then.
 *   STARVED    it has bytes to read, and no buffer was free. In the order of arrival; taken up when buffers come back.
 *   DUE        an event that a call made (a failed send, a removal) waits to be taken by proactor_next().
 */
#ifndef IO_BACKEND_H
#define IO_BACKEND_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "io/proactor.h"

enum { LISTENERS_MAX = 64, WATCHERS_MAX = 16, SEND_IOVECS_MAX = 64 };
#define ACCEPT_PAUSE_NS 100000000u /* after EMFILE and its like */

enum stream_list_id { LIST_NONE, LIST_UNSETTLED, LIST_STARVED, LIST_DUE, LISTS };
enum { DUE_SENT = 1, DUE_CLOSED = 2, DUE_REMOVED = 4, DUE_CONNECTED = 8 };

/* Bytes of a long send, or of a receive into a place, that go in one call: about 100 us of the kernel's work. The rest is for the turns to come. */
#define IO_SLICE_BYTES (256u << 10)

/* A send of several iovecs that is out. One is reused for another, so no send allocates once enough exist. */
struct send_rest {
    struct msghdr msg; /* msg_iov: what is left; msg_iovlen: how many of them are in this slice */
    unsigned left;     /* how many are left */
    struct iovec iov[SEND_IOVECS_MAX];
    struct send_rest *next_spare, *next_made;
};

enum listener_state { LISTENER_FREE, LISTENER_ON, LISTENER_STOPPING };

struct listener {
    int fd;
    uint8_t state;      /* enum listener_state; STOPPING: the kernel still names it */
    bool armed, paused; /* paused: until accept_again_ns */
    uint64_t tag;
};

struct watcher {
    int fd;
    bool armed;
    uint64_t tag;
};

struct backend_ops {
    void (*close)(struct proactor *p);
    int (*add)(struct proactor *p, struct stream *s);
    void (*connect)(struct proactor *p, struct stream *s, const struct sockaddr *address, socklen_t size);
    void (*remove)(struct proactor *p, struct stream *s);
    bool (*send)(struct proactor *p, struct stream *s, const struct iovec *iov, unsigned n);
    void (*wait)(struct proactor *p, uint64_t deadline_ns);
    bool (*next)(struct proactor *p, struct event *ev);
    void (*give_buffer)(struct proactor *p, uint32_t buffer);
    int (*listen)(struct proactor *p, struct listener *l);
    void (*unlisten)(struct proactor *p, struct listener *l);
    int (*watch)(struct proactor *p, struct watcher *w);
    bool (*wake)(struct proactor *self, struct proactor *other); /* false: cannot; write the eventfd */
};

struct proactor {
    const struct backend_ops *ops;
    enum proactor_kind kind;
    pthread_t owner;
    uint32_t buffer_size, buffer_count, buffers_free;
    char *buffers; /* buffer_count * buffer_size bytes */
    struct {
        struct stream *first, *last;
    } lists[LISTS];
    struct send_rest *spare_rests, *made_rests; /* those not in use, and all */
    uint64_t accept_again_ns;                   /* 0: no listener is paused */
    bool woken_by_self;
    int wake_fd;                            /* an eventfd, blocking: io_uring would not wait on another */
    uint32_t listener_count, watcher_count; /* slots used so far */
    struct listener listeners[LISTENERS_MAX];
    struct watcher watchers[WATCHERS_MAX];
    _Alignas(64) _Atomic uint32_t wake_written; /* any thread: the eventfd was written and not yet read */
};

/* Opens a back end. Each returns a proactor whose shared part is filled in, or sets *error (negative) and *why. */
struct proactor *uring_open(const struct proactor_options *options, int *error, const char **why);
struct proactor *epoll_open(const struct proactor_options *options, int *error, const char **why);

/* The shared part: buffers, eventfd. Returns 0 or a negative errno; backend_finish() undoes it, after failure too. */
int backend_init(struct proactor *p, const struct proactor_options *options);
void backend_finish(struct proactor *p);

static inline char *backend_buffer(const struct proactor *p, uint32_t buffer) { return p->buffers + (size_t)buffer * p->buffer_size; }

/* Moves a stream to the end of a list (LIST_NONE: to none). */
void backend_list(struct proactor *p, struct stream *s, enum stream_list_id id);
/* To UNSETTLED, unless it is on that already or has an event due (it is settled after that). */
static inline void backend_unsettle(struct proactor *p, struct stream *s) {
    if (s->list != LIST_UNSETTLED && s->list != LIST_DUE) backend_list(p, s, LIST_UNSETTLED);
}
/* Makes an event due. */
void backend_due(struct proactor *p, struct stream *s, uint8_t due, int error);
/* Takes the first due event. */
bool backend_next_due(struct proactor *p, struct event *ev);

/* Starts a send: keeps what is needed of iov. False: out of memory, and the event is due. total is never 0. */
bool backend_keep_send(struct proactor *p, struct stream *s, const struct iovec *iov, unsigned n, size_t total);
/* What of a send goes out next: the iovecs of a message, or (message NULL) a part of one. */
struct send_slice {
    const struct msghdr *message;
    const char *at;
    size_t size;
};
struct send_slice backend_next_slice(struct stream *s);
/* Takes off n bytes that went out. True: that was all of it. */
bool backend_sent(struct stream *s, size_t n);
/* The connection is there (0), or is not and never will be (a negative errno). Returns the event. */
struct event backend_connected(struct proactor *p, struct stream *s, int result);
/* The send is over, well or not. */
void backend_end_send(struct proactor *p, struct stream *s);

/* Fills ev for a failed accept and says whether it is an event (else it concerned one connection only, and is forgotten). */
bool backend_accept_failed(struct proactor *p, struct listener *l, int error, struct event *ev);
/* Unpauses the listeners whose pause is over (the back end then arms them). */
void backend_unpause_listeners(struct proactor *p);

/* When a wait must end at the latest: now (0) if there is something to take. */
uint64_t backend_wait_limit(const struct proactor *p, uint64_t deadline_ns);
/* The eventfd was read: whoever writes from here on must wake us again. */
void backend_wake_read(struct proactor *p);
void backend_wake_write(struct proactor *other); /* any thread */

/* For tests: io_uring's set-up fails with this negative errno from now on (0: no longer). */
void proactor_test_refuse_uring(int error);
int backend_refused_uring(void);

#endif
