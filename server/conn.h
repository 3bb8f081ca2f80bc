/* A connection: a client's socket, what it sent that is not run yet, what it is to be sent, and its session.
 *
 * Belongs to the thread that it was dealt to. A machine:
 *
 *   state     | what it is                                        | leaves to
 *   RUNNING   | commands are dispatched as they come              | WAITING, CLOSING
 *   WAITING   | the next command needs all before it finished     | RUNNING or BUSY, when they are; CLOSING
 *   BUSY      | a task is under way, or its command is parked     | RUNNING, when it is done; CLOSING
 *   CLOSING   | nothing more is dispatched; replies may go out    | REMOVED, when nothing is under way
 *   REMOVED   | the proactor lets go of the socket                | freed at EV_REMOVED
 *
 *   invariant: while own hops of this flush or records (first) are unfinished, the connection is not REMOVED.
 *
 * Reading goes on whatever the client reads or not; it pauses only while more than CONN_INPUT_PAUSE bytes wait behind a command under way.
 */
#ifndef SERVER_CONN_H
#define SERVER_CONN_H

#include "io/socket.h"
#include "server/thread.h"

enum conn_state { CONN_RUNNING, CONN_WAITING, CONN_BUSY, CONN_CLOSING, CONN_REMOVED };

#define CONN_INPUT_PAUSE (256u << 10)
#define CONN_COMMANDS_A_TICK 1024u /* commands of one client in one tick */
#define CONN_COMMANDS_OUT 4096u    /* commands of one client that are not finished */
#define CONN_HOLD_BYTES 16384u     /* replies that wait for the rest of their pipeline, at most */

/* A command that is not whole yet, if it is large: so that what was parsed is not parsed again. */
struct partial {
    uint32_t argc, have, capacity;
    size_t at;                         /* where in the input parsing goes on */
    bool skip_newline, blob_took_rest; /* rest: the bytes behind `at` are in the blob now */
    struct blob *blob;                 /* the argument that is being received into its own allocation, */
    size_t blob_size, blob_have;       /* its size, and what has arrived */
    struct partial_arg {
        size_t at;
        uint32_t size;
        struct blob *blob;
    } * args;
};

/* Gives back a block of input that no command under way points into. Its thread. */
void block_free(struct block *b);

/* What a connection that monitors has besides. */
struct monitor {
    struct reply waits; /* lines that came while a task was under way */
};

struct conn {
    struct stream stream; /* first: the proactor's name for it */
    struct thread *thread;
    struct conn *previous, *next; /* the thread's list */
    struct own *first, *last;     /* unfinished commands whose replies are not in out */
    uint32_t n_out;               /* commands dispatched and not finished */
    uint8_t state, resp;
    bool dirty, on_resume, paused, direct, eof, close_after_reply, authenticated, local, no_touch, no_evict, held, reply_off, reply_skip,
        reply_skip_next, unix_socket;
    _Atomic bool gone; /* it closes, and nothing is sent any more: what would only be a reply need not be made */
    _Atomic bool left; /* it closes, or its client sends no more; read by shards that work for it (DEBUG POPULATE) */
    uint16_t db;
    struct reply out, flight; /* flight: what an unfinished send still reads from */
    size_t flight_at;         /* bytes of flight that are sent, */
    uint32_t flight_ref;      /* and refs */
    struct block *in;
    size_t in_at; /* bytes of in that were dispatched */
    struct partial *partial;
    struct task *task;
    struct monitor *monitor; /* NULL: it does not */
    struct waiting *waiting; /* waiting.h; NULL: its command is not parked */
    struct multi *multi;     /* multi.h; NULL: it never used MULTI or WATCH */
    uint64_t id, created_ns, active_ns, soft_since_ns;
    uint64_t counted;          /* bytes of it in server.clients_memory */
    struct aside aside;        /* what shards hold for its commands */
    struct conn *size_next;    /* client_memory.h: the next of its size class */
    struct conn **size_link;   /* and what points to it; NULL: in no list */
    uint32_t slot;             /* in the thread's array */
    const struct command *row; /* the command dispatched last */
    char *name, *lib_name, *lib_version;
};

static inline bool conn_has_work(const struct conn *c) { return c->n_out || c->task; }
/* It closes, and what is in out will not be sent. One that closes after its replies is not going yet: a client that does not read them keeps it
 * for as long as it likes, so limits and CLIENT KILL hold for it. */
static inline bool conn_is_going(const struct conn *c) {
    return c->state == CONN_REMOVED || (c->state == CONN_CLOSING && !c->close_after_reply);
}

/* A new connection's socket, on its thread. */
void conn_open(struct thread *t, int fd, bool unix_socket);
/* Events. */
void conn_received(struct thread *t, struct conn *c, char *p, size_t size, uint32_t buffer);
void conn_received_direct(struct thread *t, struct conn *c, size_t size);
void conn_ended(struct thread *t, struct conn *c, int result);
void conn_sent(struct thread *t, struct conn *c, int result);
void conn_removed(struct thread *t, struct conn *c);

/* Frees a connection that the proactor no longer names (or after its end). */
void conn_free(struct thread *t, struct conn *c);

/* "1.2.3.4:5", "[::1]:5" or "path:0". */
#define CONN_ADDRESS_MAX SOCKET_TEXT_SIZE
void conn_address(const struct conn *c, char out[CONN_ADDRESS_MAX]);
/* Its command is parked. Who has left already is not waited for. */
void conn_parked(struct thread *t, struct conn *c);
/* Goes on with input that waits (after a task, or the next tick). */
void conn_resume(struct thread *t, struct conn *c);
void conn_resume_later(struct thread *t, struct conn *c);
/* Closes as soon as what is under way is finished; after_reply: and what is in out is sent. */
void conn_close(struct conn *c, bool after_reply);
/* Gives out a buffer before its first byte. */
void conn_take_spare(struct thread *t, struct conn *c);
void conn_send_all(struct thread *t);
void conn_check_timeouts(struct thread *t);
/* Closes it if it is over a limit of its output; then its memory is counted anew, and that of all clients kept within its limit. */
void conn_look_at_limits(struct thread *t, struct conn *c);
/* Bytes that a connection holds: itself, what waits to be run, what waits to be sent. */
uint64_t conn_memory(const struct conn *c);

/* The connection's output, with a buffer and its protocol; aside: the thread's scratch, emptied, instead. */
struct reply *conn_output(struct thread *t, struct conn *c, bool aside);
/* Gives back what a reply that went aside refers to; the next one does so, too. */
void conn_drop_unwanted(struct thread *t);
/* Where a reply that is made now goes; after writing call conn_reply_end. */
struct reply *conn_reply_begin(struct thread *t, struct conn *c);
void conn_reply_end(struct thread *t, struct conn *c, struct reply *r);
/* The same inside a group of hops for a shard, where the reply takes its place. */
void conn_reply_end_within(struct thread *t, struct conn *c, const struct reply *r, uint32_t shard);

/* dispatch.c: false: the command must wait (state WAITING was set); nothing was done. */
bool dispatch(struct thread *t, struct conn *c, struct arg *argv, uint32_t argc);
/* A command over several shards waits for all of its connection before it, and is waited for. False: WAITING was set. */
bool conn_drained(struct thread *t, struct conn *c);
/* Runs a PLAN_CONNECTION command; its reply goes to r. */
void conn_run(struct conn *c, const struct command *row, struct arg *argv, uint32_t argc, struct reply *r);

/* A hop's flags: what the command's row says, and the connection. */
static inline uint8_t row_hop_flags(const struct command *row) {
    uint8_t flags = 0;
    if (row->flags & CMD_WRITE) flags |= HOP_WRITE;
    if (row->flags & CMD_VALUE_HINT) flags |= HOP_VALUE;
    if (!(row->flags & (CMD_FAST | CMD_CHEAP))) flags |= HOP_TIMED;
    return flags;
}
static inline uint8_t conn_hop_flags(const struct conn *c) {
    uint8_t flags = 0;
    if (__builtin_expect(c->no_touch, 0)) flags |= HOP_NO_TOUCH;
    if (__builtin_expect(c->reply_off | c->reply_skip, 0)) flags |= HOP_NO_REPLY;
    return flags;
}

/* While there is no password, nobody has to; who came then counts as authenticated for good. */
static inline bool conn_must_authenticate(const struct conn *c) { return !c->authenticated && c->thread->config->requirepass[0]; }

void conn_mark_slow(struct thread *t, struct conn *c);
/* Says that out may have something to send, or that the connection may be ready to go. */
static inline void conn_mark(struct thread *t, struct conn *c) {
    if (c->dirty) return;
    if (__builtin_expect(t->n_dirty == t->dirty_capacity, 0)) {
        conn_mark_slow(t, c);
        return;
    }
    c->dirty = true;
    t->dirty[t->n_dirty++] = c;
}

/* A command of the connection has its reply in out. What waits for all of them goes on in the next tick. */
static inline void conn_answered(struct thread *t, struct conn *c) {
    if (!--c->n_out && __builtin_expect(c->state == CONN_WAITING, 0)) conn_resume_later(t, c);
}

#endif
