/* The proactor: bytes and time for one thread.
 *
 * One proactor belongs to one thread; every function but proactor_wake() is called on that thread only. Two back ends
 * (io_uring, epoll) stand behind this one interface and pass the same tests; which one runs is chosen when it is opened.
 * It is completion-based: the caller queues work (receive, send, accept), calls proactor_wait(), and then takes events
 * with proactor_next() until it says false. Under epoll the system calls are made inside, so the caller sees no difference.
 *
 * Cost: under io_uring one system call a turn, which submits and waits at once; under epoll one wait, one recv a readable
 * stream and one send a writing stream. A thread that has nothing to do sleeps in proactor_wait() and uses no CPU.
 *
 * Received bytes lie in buffers of the proactor's pool. A RECV event hands one over; it stays the caller's until
 * proactor_give_buffer(). There are options.buffer_count of them; while none is free, receiving pauses by itself and goes
 * on as soon as buffers come back.
 *
 *   stream states:  IDLE --proactor_add--> RECEIVING <--pause/resume--> PAUSED
 *                   IDLE --proactor_connect--> CONNECTING --EV_CONNECTED--> RECEIVING, or ENDED if it failed
 *                   RECEIVING --recv_into--> DIRECT --when full, by itself--> RECEIVING
 *                   any --EV_CLOSED (end of file, error)--> ENDED --proactor_remove--> GONE (after EV_REMOVED)
 */
#ifndef IO_PROACTOR_H
#define IO_PROACTOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

struct proactor;

enum proactor_kind { PROACTOR_AUTO, PROACTOR_URING, PROACTOR_EPOLL };

struct proactor_options {
    enum proactor_kind kind; /* AUTO: io_uring if the kernel allows all that is needed, else epoll */
    uint32_t buffer_size;    /* bytes of one receive buffer, e.g. 16384 */
    uint32_t buffer_count;   /* a power of two, e.g. 128 */
};

/* A connected socket as the proactor sees it: one cache line. Embedded in the caller's connection object; zero it, set fd (and kind), then
 * proactor_add() or proactor_connect(). All fields but fd and kind are the proactor's own. The caller may free it only after EV_REMOVED. */
struct stream {
    int fd;
    uint8_t armed;       /* what the kernel watches for us. io_uring: which receive; epoll: the EPOLL bits */
    uint8_t ops_out;     /* io_uring: operations in the kernel that still name this stream, */
    uint8_t cancels_out; /* and how many of them are cancellations */
    uint8_t list;        /* the one list of the proactor it is on */
    uint8_t due;         /* events that a call of the caller made, not yet taken */
    bool paused, ended, removing;
    bool sending;               /* a send is out: its bytes must not change until EV_SENT */
    bool vectored : 1;          /* ... of more than one iovec: send_rest counts, else send_at */
    bool connecting : 1;        /* neither receives nor sends yet */
    bool local : 1;             /* io_uring: a Unix socket */
    uint8_t kind : 2;           /* the caller's: what it is embedded in */
    int16_t error;              /* of the due events */
    struct stream *prev, *next; /* in that list */
    char *direct;               /* recv_into: where to go on, */
    size_t direct_left;         /* and how many bytes are still to come; 0: into pool buffers */
    union {
        const char *send_at; /* what is left of the send */
        struct send_rest *send_rest;
    };
    size_t send_left; /* in bytes */
};

enum event_kind {
    EV_ACCEPT,    /* fd: a new connection, or a negative errno: accepting stopped for now and is taken up again by itself */
    EV_RECV,      /* stream, data, size, buffer: bytes in a pool buffer, now the caller's */
    EV_DIRECT,    /* stream, size: this many bytes arrived in the place given to proactor_recv_into() */
    EV_CLOSED,    /* stream, result: end of file (0) or a negative errno. No more EV_RECV follows */
    EV_CONNECTED, /* stream, result: 0, or a negative errno: then nothing but EV_REMOVED follows */
    EV_SENT,      /* stream, result: all bytes of the send are out (>= 0), or a negative errno */
    EV_REMOVED,   /* stream: the kernel names it no more and fd is closed; the caller may free it */
    EV_WAKE,      /* proactor_wake() was called (coalesced) */
    EV_FD,        /* tag: the descriptor given to proactor_watch_fd() is readable */
};

struct event {
    enum event_kind kind;
    struct stream *stream;
    char *data;
    size_t size;
    uint32_t buffer;
    int result;   /* ACCEPT: the new fd */
    uint64_t tag; /* ACCEPT, FD: the listener's or watcher's tag */
};

/* Opens a proactor for the calling thread. Returns 0 and sets *out, or a negative errno (with kind AUTO only if epoll fails
 * too). *why (may be NULL) is then, or after a fallback from io_uring, a static text for the log; else NULL. */
int proactor_open(struct proactor **out, const struct proactor_options *options, const char **why);
/* Closes it and every descriptor it still watches. On its own thread, or on another once that has ended. Streams must have been removed;
 * of those that were not, the descriptors stay open. */
void proactor_close(struct proactor *p);
/* PROACTOR_URING or PROACTOR_EPOLL. */
enum proactor_kind proactor_kind_of(const struct proactor *p);

/* Accepts on a listening socket from now on; each connection is an EV_ACCEPT. The fd stays the caller's. At most 64 listeners.
 * EMFILE, ENFILE, ENOMEM and ENOBUFS pause accepting for 100 ms instead of spinning. Returns 0 or a negative errno. */
int proactor_listen(struct proactor *p, int fd, uint64_t tag);
/* Stops accepting on this listening socket. No EV_ACCEPT of it follows, and the caller may close it. */
void proactor_unlisten(struct proactor *p, int fd);
/* Says EV_FD with tag whenever fd is readable (signalfd, eventfd of another library), again and again until the caller has read it.
 * fd is the proactor's from here on: proactor_close() closes it. At most 16. Returns 0 or a negative errno. */
int proactor_watch_fd(struct proactor *p, int fd, uint64_t tag);

/* Starts receiving on a connected, non-blocking socket. The fd is the proactor's from here on. Returns 0 or a negative errno. */
int proactor_add(struct proactor *p, struct stream *s);
/* Connects a non-blocking socket, and starts receiving once that is done: EV_CONNECTED comes in every case, and nothing may be sent before. The
 * fd is the proactor's from here on; address must live until EV_CONNECTED or EV_REMOVED. A Unix socket whose listener has no room may say -EAGAIN.
 * Returns 0 or a negative errno (and then the fd is still the caller's). How long it may take is the caller's to limit, by proactor_remove(). */
int proactor_connect(struct proactor *p, struct stream *s, const struct sockaddr *address, socklen_t size);
/* Stops and restarts receiving. Events that were already taken from the kernel may still come after a pause. */
void proactor_pause(struct proactor *p, struct stream *s);
void proactor_resume(struct proactor *p, struct stream *s);
/* Lets the next size bytes of the stream go straight to place (EV_DIRECT as they come). Bytes that arrive before this takes hold
 * still come as EV_RECV: the caller copies them and calls this again with what is left (place may be NULL to stop). Once size
 * bytes are there, receiving into pool buffers goes on by itself. place stays the caller's and must live until then or EV_REMOVED.
 * Stopping at another moment than in an EV_RECV is legal too, but then a receive into place may be on its way: place must
 * live, and an EV_DIRECT may come, until the next EV_RECV or EV_REMOVED. */
void proactor_recv_into(struct proactor *p, struct stream *s, char *place, size_t size);
/* Closes the stream: cancels what is out, closes fd, then EV_REMOVED. Legal once. No other event of the stream follows but
 * an EV_SENT for a send that is out. */
void proactor_remove(struct proactor *p, struct stream *s);

/* Sends iov[0..n) in full (n <= 64); iov itself is copied, the bytes must stay until EV_SENT. At most one send a stream is out. Returns
 * true if all of it is already out (no EV_SENT follows: epoll, usually), else false. Errors come as EV_SENT. A long one goes out in slices of
 * 256 KiB, one a turn, as a receive into a place comes in: so other streams have their turn in between. */
bool proactor_send(struct proactor *p, struct stream *s, const struct iovec *iov, unsigned n);

/* Submits what is queued and waits until there is an event or deadline_ns (CLOCK_MONOTONIC; UINT64_MAX: none; 0: do not wait) has
 * come. It may also return with neither, after a signal for instance. Where the back end can, it waits for one completion more than
 * there were short sends since the last call, so that completed sends alone cost no turn, yet not over 1 ms for them. */
void proactor_wait(struct proactor *p, uint64_t deadline_ns);
/* Takes the next event. False: no more in this turn. */
bool proactor_next(struct proactor *p, struct event *ev);

/* Gives a receive buffer back. */
void proactor_give_buffer(struct proactor *p, uint32_t buffer);
/* How many receive buffers are free. */
uint32_t proactor_free_buffers(const struct proactor *p);

/* Makes proactor_wait() of another thread return with EV_WAKE. Any thread may call it; self is the calling thread's proactor, or
 * NULL if it has none. With io_uring on both sides it is queued with self's next submit (IORING_OP_MSG_RING), else an eventfd is written. other must
 * be open until self has taken the events of its next wait. */
void proactor_wake(struct proactor *self, struct proactor *other);

#endif
