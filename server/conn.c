/* Connections: input and its carrying over, output and its limits, closing. */
#include "server/conn.h"
#include "server/client_memory.h"

#include <mimalloc.h>
#include <stdlib.h>

#include "io/clock.h"
#include "server/course.h"
#include "server/log.h"
#include "server/multi.h"
#include "server/outbox.h"
#include "server/parse.h"
#include "server/regions.h"
#include "server/waiting.h"
#include "shard/blob.h"

#define SPARE_MAX 64u               /* reply buffers kept for the next connection */
#define SPARE_BYTES_MAX (64u << 10) /* and how large they may be */
#define DIRECT_MIN (16u << 10)      /* bytes still to come from which on a blob is received without a copy */
#define IOV_MAX_SEND 64
#define BUFFERS_SCARCE (THREAD_BUFFERS / 4) /* fewer free ones: input is copied at once */

/* ---- life ---- */

static const char DENIED[] =
    "-DENIED Redis is running in protected mode because protected mode is enabled and no password is set for the default user. In this "
    "mode connections are only "
    "accepted from the loopback interface. If you want to connect from external computers to Redis you may adopt one of the following "
    "solutions: 1) Just disable "
    "protected mode sending the command 'CONFIG SET protected-mode no' from the loopback interface by connecting to Redis from the same "
    "host the server is running, "
    "however MAKE SURE Redis is not publicly accessible from internet if you do so. Use CONFIG REWRITE to make this change permanent. 2) "
    "Alternatively you can just "
    "disable the protected mode by editing the Redis configuration file, and setting the protected mode option to 'no', and then "
    "restarting the server. 3) If you "
    "started the server manually just for testing, restart it with the '--protected-mode no' option. 4) Setup a an authentication password "
    "for the default user. "
    "NOTE: You only need to do one of the above things in order for the server to start accepting connections from the outside.\r\n";

void conn_open(struct thread *t, int fd, bool unix_socket) {
    struct conn *c = mi_calloc(1, sizeof *c);
    if (!c) abort();
    c->stream.fd = fd;
    c->thread = t;
    c->unix_socket = unix_socket;
    c->local = unix_socket || socket_is_loopback(fd);
    c->resp = 2;
    c->id = atomic_fetch_add_explicit(&t->server->next_client_id, 1, memory_order_relaxed);
    c->created_ns = c->active_ns = t->now_ns;
    c->authenticated = !t->config->requirepass[0];
    if (!unix_socket) socket_tune(fd, true, (int)t->config->tcp_keepalive_s);
    thread_add_conn(t, c);
    t->stats.connections++;
    t->stats.clients++;
    if (t->config->timeout_s && !t->next_timeout_ns) t->next_timeout_ns = t->now_ns + 1000000000u;
    if (proactor_add(t->proactor, &c->stream)) {
        conn_close(c, false);
        return;
    }
    if (!c->local && t->config->protected_mode && !t->config->requirepass[0]) {
        conn_take_spare(t, c);
        reply_bytes(&c->out, DENIED, sizeof DENIED - 1);
        conn_close(c, true);
    }
}

void block_free(struct block *b) { regions_free_room(b, sizeof *b + b->capacity); }

static void give_up_block(struct conn *c) {
    if (c->in->pins) c->in->dropped = true;
    else block_free(c->in);
    c->in = NULL;
    c->in_at = 0;
}

void conn_free(struct thread *t, struct conn *c) {
    for (uint32_t i = 0; i < c->out.n_refs; i++) outbox_release_blob(t, c->out.refs[i].blob);
    for (uint32_t i = 0; i < c->flight.n_refs; i++) outbox_release_blob(t, c->flight.refs[i].blob);
    reply_drop(&c->out);
    reply_drop(&c->flight);
    partial_drop(c);
    multi_free(t, c);
    if (c->in) give_up_block(c);
    mi_free(c->name);
    mi_free(c->lib_name);
    mi_free(c->lib_version);
    mi_free(c);
}

void conn_address(const struct conn *c, char out[CONN_ADDRESS_MAX]) {
    if (socket_peer_text(c->stream.fd, out) < 0) *out = 0;
}

void conn_close(struct conn *c, bool after_reply) {
    if (c->state == CONN_REMOVED) return;
    atomic_store_explicit(&c->left, true, memory_order_relaxed);
    c->close_after_reply = c->state == CONN_CLOSING ? c->close_after_reply && after_reply : after_reply;
    if (!c->close_after_reply) atomic_store_explicit(&c->gone, true, memory_order_relaxed);
    c->state = CONN_CLOSING;
    conn_mark(c->thread, c);
    if (__builtin_expect(c->waiting != NULL, 0)) waiting_leave(c);
    if (__builtin_expect(c->task != NULL, 0)) course_left(c->thread, c->task);
}

void conn_removed(struct thread *t, struct conn *c) {
    client_memory_forget(t, c);
    thread_remove_conn(t, c);
    if (c->on_resume)
        for (uint32_t i = 0; i < t->n_resume; i++)
            if (t->resume[i] == c) t->resume[i--] = t->resume[--t->n_resume];
    if (c->dirty)
        for (uint32_t i = 0; i < t->n_dirty; i++)
            if (t->dirty[i] == c) t->dirty[i--] = t->dirty[--t->n_dirty];
    conn_free(t, c);
}

/* ---- reply buffers ---- */

void conn_take_spare(struct thread *t, struct conn *c) {
    if (!t->n_spare) return;
    uint8_t resp = c->out.resp;
    c->out = t->spare[--t->n_spare];
    c->out.resp = resp;
}

static void give_spare(struct thread *t, struct reply *r) {
    if (!t->spare) t->spare = mi_malloc(SPARE_MAX * sizeof *t->spare);
    if (!t->spare || t->n_spare == SPARE_MAX || r->capacity > SPARE_BYTES_MAX) {
        reply_drop(r);
        return;
    }
    t->spare[t->n_spare] = *r;
    t->spare[t->n_spare].size = t->spare[t->n_spare].n_refs = t->spare[t->n_spare].refs_bytes = 0;
    t->n_spare++;
    *r = (struct reply){0};
}

void conn_drop_unwanted(struct thread *t) {
    struct reply *r = &t->scratch;
    for (uint32_t i = 0; i < r->n_refs; i++)
        if (r->refs[i].blob) outbox_release_blob(t, r->refs[i].blob);
    r->size = r->n_refs = r->refs_bytes = 0;
    r->failed = false;
}

struct reply *conn_output(struct thread *t, struct conn *c, bool aside) {
    struct reply *r = &c->out;
    if (aside) {
        r = &t->scratch;
        conn_drop_unwanted(t);
    } else if (!r->p) conn_take_spare(t, c);
    r->resp = c->resp;
    return r;
}

struct reply *conn_reply_begin(struct thread *t, struct conn *c) {
    return conn_output(t, c, c->reply_off || c->reply_skip || conn_has_work(c));
}

/* A reply that waits for those of earlier commands. It may be longer than an argument, so its size is beside it. */
struct saved {
    size_t size, capacity;
    char bytes[];
};
#define SAVED_ROOM 256u /* of a pipeline's next replies of this kind: a MULTI and what is queued in it */

static enum hop_result run_saved(struct shard *s, struct hop *h, struct reply *r) {
    (void)s;
    const struct saved *saved = (const void *)h->argv[0].p;
    reply_bytes(r, saved->bytes, saved->size);
    return HOP_DONE;
}

static void save_reply(struct thread *t, struct conn *c, const struct reply *r, uint32_t shard, size_t capacity) {
    static struct saved nothing; /* so that the hop is there even if the stream can't go on */
    struct saved *saved = mi_malloc(sizeof *saved + capacity);
    if (saved) {
        saved->size = r->size;
        saved->capacity = capacity;
        if (r->size) memcpy(saved->bytes, r->p, r->size);
        tick_add_memory(thread_tick(t), saved);
    } else {
        c->out.failed = true;
        saved = &nothing;
    }
    struct arg only = {(const char *)saved, sizeof *saved, 0};
    struct hop *h = outbox_add(t, shard, c, &only, 1);
    h->run = run_saved;
    h->row = 0;
    h->flags = HOP_NO_KEY;
    h->n_keys = 0;
    h->hash = 0;
}

/* Behind the one that was saved last, if nothing of the connection has come since. */
static bool join_saved(const struct thread *t, const struct conn *c, const struct reply *r) {
    const struct hop *h = outbox_own_last(t, c);
    struct saved *saved = h && h->run == run_saved ? (struct saved *)(uintptr_t)h->argv[0].p : NULL;
    if (!saved || saved->capacity - saved->size < r->size) return false;
    memcpy(saved->bytes + saved->size, r->p, r->size);
    saved->size += r->size;
    return true;
}

void conn_reply_end(struct thread *t, struct conn *c, struct reply *r) {
    if (r == &c->out) {
        conn_mark(t, c);
        return;
    }
    if (r->failed) c->out.failed = true;
    if (c->reply_off || c->reply_skip || !r->size || join_saved(t, c, r)) return;
    /* Earlier commands are unfinished: the reply takes its place among them. */
    save_reply(t, c, r, t->id, r->size < SAVED_ROOM ? SAVED_ROOM : r->size);
}

/* Without room, so that nothing that comes behind the group joins it. */
void conn_reply_end_within(struct thread *t, struct conn *c, const struct reply *r, uint32_t shard) {
    if (r->failed) c->out.failed = true;
    save_reply(t, c, &(struct reply){.p = r->p, .size = c->reply_off || c->reply_skip ? 0 : r->size}, shard, r->size);
}

/* ---- limits ---- */

/* The limits on replies that the client does not read. */
static bool over_limit(struct thread *t, struct conn *c) {
    const struct output_limit *l = &t->config->output_limit[c->monitor ? CLIENT_REPLICA : CLIENT_NORMAL];
    if (__builtin_expect(!(l->hard | l->soft), 1)) return false;
    uint64_t bytes = c->out.size + c->out.refs_bytes + (c->stream.sending ? c->flight.size + c->flight.refs_bytes : 0);
    bytes += atomic_load_explicit(&c->aside.replies, memory_order_relaxed) + atomic_load_explicit(&c->aside.refs, memory_order_relaxed);
    if (l->hard && bytes > l->hard) return true;
    if (!l->soft || bytes <= l->soft) {
        c->soft_since_ns = 0;
        return false;
    }
    if (!c->soft_since_ns) c->soft_since_ns = t->now_ns;
    if (!t->next_timeout_ns) t->next_timeout_ns = t->now_ns + 1000000000u;
    return t->now_ns - c->soft_since_ns > l->soft_s * 1000000000u;
}

static void close_over_limit(struct thread *t, struct conn *c) {
    if (conn_is_going(c) || __builtin_expect(!over_limit(t, c), 1)) return;
    log_line(LOG_WARNING_LEVEL, "Client id=%llu closed for overcoming of output buffer limits.", (unsigned long long)c->id);
    conn_close(c, false);
}

void conn_look_at_limits(struct thread *t, struct conn *c) {
    if (c->state == CONN_REMOVED) return;
    close_over_limit(t, c);
    if (t->client_memory.max) client_memory_count(t, c);
}

/* ---- input ---- */

/* Appends bytes to what waits. A block that commands under way point into does not move: then its rest is copied to a new one. */
static bool carry(struct conn *c, const char *p, size_t size) {
    size_t rest = c->in ? c->in->size - c->in_at : 0;
    if (c->in && !c->in->pins && c->in_at && c->in_at >= c->in->size / 2) {
        memmove(c->in->bytes, c->in->bytes + c->in_at, rest);
        c->in->size = rest;
        c->in_at = 0;
    }
    if (!c->in || c->in->pins || c->in->size + size > c->in->capacity) {
        size_t capacity = 512;
        while (capacity < rest + size) capacity *= 2;
        struct block *b = regions_room(sizeof *b + capacity);
        if (!b) return false;
        *b = (struct block){.size = rest, .capacity = capacity};
        if (rest) memcpy(b->bytes, c->in->bytes + c->in_at, rest);
        if (c->in) give_up_block(c);
        c->in = b;
    }
    memcpy(c->in->bytes + c->in->size, p, size);
    c->in->size += size;
    return true;
}

static void protocol_error(struct thread *t, struct conn *c, const char *what) {
    struct reply *r = conn_reply_begin(t, c);
    reply_errorf(r, "ERR Protocol error: %s", what);
    conn_reply_end(t, c, r);
    log_line(LOG_VERBOSE_LEVEL, "Protocol error (%s) from client id=%llu", what, (unsigned long long)c->id);
    conn_close(c, true);
}

/* The command was dispatched (or answered): blobs that nobody took over are discarded, and its parsed part is forgotten. */
static void command_taken(struct thread *t, struct conn *c, uint32_t argc) {
    if (__builtin_expect(t->argv_has_blob, 0)) args_discard_blobs(t->argv, argc);
    if (__builtin_expect(c->partial != NULL, 0)) partial_free(c);
    if (__builtin_expect(c->reply_skip, 0)) c->reply_skip = false;
    if (__builtin_expect(c->reply_skip_next, 0)) {
        c->reply_skip = true;
        c->reply_skip_next = false;
    }
}

/* Dispatches the commands in [p, p + size), as far as the connection may go now; returns how many bytes they were. */
static size_t process(struct thread *t, struct conn *c, const char *p, size_t size) {
    const char *start = p, *end = p + size, *next, *error = NULL;
    uint32_t argc = 0, budget = CONN_COMMANDS_A_TICK;
    while (p < end && c->state == CONN_RUNNING) {
        if (!budget--) {
            conn_resume_later(t, c);
            break;
        }
        if (c->n_out >= CONN_COMMANDS_OUT) {
            c->state = CONN_WAITING;
            break;
        }
        t->argv_has_blob = false;
        enum parse_result what = parse(t, c, p, end, &next, &argc, &error);
        if (what == PARSE_MORE) break;
        if (__builtin_expect(what != PARSE_COMMAND && what != PARSE_NOTHING, 0)) {
            if (what == PARSE_BAD) protocol_error(t, c, error);
            else {
                log_line(LOG_WARNING_LEVEL, "Out of memory for a command of client id=%llu: closing it", (unsigned long long)c->id);
                conn_close(c, false);
            }
            return size;
        }
        if (what == PARSE_COMMAND && !dispatch(t, c, t->argv, argc)) break;
        command_taken(t, c, argc); /* after nothing (an empty line) too: CLIENT REPLY SKIP counts it */
        p = next;
    }
    return (size_t)(p - start);
}

static void pause_if_full(struct thread *t, struct conn *c) {
    size_t waits = c->in ? c->in->size - c->in_at : 0;
    if (waits + (c->partial ? c->partial->blob_have : 0) > (size_t)t->config->client_query_buffer_limit) {
        log_line(LOG_WARNING_LEVEL, "Closing client id=%llu that reached max query buffer length", (unsigned long long)c->id);
        conn_close(c, false);
        return;
    }
    if (t->client_memory.max) client_memory_count(t, c);
    bool stuck = (c->state == CONN_WAITING || c->state == CONN_BUSY || c->on_resume) && !c->waiting; /* or its end would not be seen */
    if (stuck && waits > CONN_INPUT_PAUSE && !c->paused) {
        c->paused = true;
        proactor_pause(t->proactor, &c->stream);
    } else if (c->paused && (!stuck || waits <= CONN_INPUT_PAUSE / 2)) {
        c->paused = false;
        proactor_resume(t->proactor, &c->stream);
    }
}

/* Works on what waits in the block. */
static void process_block(struct thread *t, struct conn *c) {
    struct block *b = c->in;
    size_t eaten = process(t, c, b->bytes + c->in_at, b->size - c->in_at);
    if (eaten) tick_pin_block(thread_tick(t), b);
    c->in_at += eaten;
    if (c->partial && c->partial->blob_took_rest) {
        b->size = c->in_at + c->partial->at;
        c->partial->blob_took_rest = false;
    }
    if (c->in_at == b->size) give_up_block(c);
}

/* Lets the rest of a large argument come straight to its place, or says that it is there already. */
static void want_direct(struct thread *t, struct conn *c) {
    struct partial *k = c->partial;
    size_t left = k && k->blob ? k->blob_size - k->blob_have : 0;
    if (!c->direct && left < DIRECT_MIN) return;
    c->direct = left > 0;
    proactor_recv_into(t->proactor, &c->stream, left ? k->blob->bytes + k->blob_have : NULL, left);
}

/* Commands that wait for another shard hold the buffers that their arguments lie in. Before that can starve the other connections of this
 * thread, input is copied to the heap and its buffer goes back at once. */
static bool buffers_are_scarce(const struct thread *t) { return proactor_free_buffers(t->proactor) < BUFFERS_SCARCE; }

void conn_received(struct thread *t, struct conn *c, char *p, size_t size, uint32_t buffer) {
    t->stats.input_bytes += size;
    c->active_ns = t->now_ns;
    if (__builtin_expect(c->out.size > CONN_HOLD_BYTES, 0)) close_over_limit(t, c); /* a turn may bring megabytes of commands */
    if (__builtin_expect(c->state >= CONN_CLOSING, 0)) {
        proactor_give_buffer(t->proactor, buffer);
        return;
    }
    if (__builtin_expect(c->partial && c->partial->blob, 0)) {
        struct partial *k = c->partial;
        size_t left = k->blob_size - k->blob_have, n = size < left ? size : left;
        memcpy(k->blob->bytes + k->blob_have, p, n);
        k->blob_have += n;
        p += n;
        size -= n;
        if (n == left && !partial_blob_done(k)) conn_close(c, false);
        want_direct(t, c);
    }
    bool held = false;
    if (size && !c->in && !buffers_are_scarce(t)) {
        size_t eaten = process(t, c, p, size);
        held = eaten > 0;
        p += eaten;
        size -= eaten;
        if (c->partial && c->partial->blob_took_rest) {
            size = c->partial->at;
            c->partial->blob_took_rest = false;
            want_direct(t, c);
        }
        if (c->state < CONN_CLOSING && size && !carry(c, p, size)) conn_close(c, false);
    } else if (size) {
        if (!carry(c, p, size)) conn_close(c, false);
        else if (c->state == CONN_RUNNING && !c->on_resume) {
            process_block(t, c);
            want_direct(t, c);
        }
    }
    if (held) tick_add_buffer(thread_tick(t), buffer);
    else proactor_give_buffer(t->proactor, buffer);
    if (__builtin_expect(c->in != NULL, 0)) pause_if_full(t, c);
}

void conn_received_direct(struct thread *t, struct conn *c, size_t size) {
    t->stats.input_bytes += size;
    c->active_ns = t->now_ns;
    if (c->state >= CONN_CLOSING || !c->partial || !c->partial->blob) return;
    c->partial->blob_have += size;
    if (c->partial->blob_have == c->partial->blob_size) {
        c->direct = false;
        if (!partial_blob_done(c->partial)) conn_close(c, false);
    } else if (c->in) pause_if_full(t, c);
}

void conn_parked(struct thread *t, struct conn *c) {
    if (c->eof || c->state >= CONN_CLOSING) conn_close(c, true);
    else if (c->paused) {
        c->paused = false;
        proactor_resume(t->proactor, &c->stream);
    }
    if (t->client_memory.max) client_memory_count(t, c);
}

void conn_resume(struct thread *t, struct conn *c) {
    if (c->state == CONN_WAITING && !conn_has_work(c)) c->state = CONN_RUNNING;
    if (c->state != CONN_RUNNING) return;
    if (c->in) {
        process_block(t, c);
        want_direct(t, c);
    }
    if (c->state < CONN_CLOSING && (c->in || c->paused)) pause_if_full(t, c);
    if (c->eof && c->state == CONN_RUNNING && !c->on_resume) conn_close(c, true);
}

/* What the client sent before it ended is still run, except what CLIENT PAUSE holds. */
void conn_ended(struct thread *t, struct conn *c, int result) {
    c->eof = true;
    atomic_store_explicit(&c->left, true, memory_order_relaxed);
    if (c->state >= CONN_CLOSING) {
        conn_mark(t, c);
        return;
    }
    /* conn_resume closes it; but nobody knows when a pause ends, or what a parked command waits for comes, and who came and went meanwhile would fill maxclients */
    if (result == 0 && !c->held && !c->waiting && (c->state != CONN_RUNNING || c->on_resume)) return;
    conn_close(c, result == 0);
}

/* ---- output ---- */

static void release_flight(struct thread *t, struct conn *c) {
    for (uint32_t i = 0; i < c->flight.n_refs; i++) outbox_release_blob(t, c->flight.refs[i].blob);
    c->flight_at = c->flight_ref = 0;
    give_spare(t, &c->flight);
}

/* Sends what is left of flight; true: all of it is out. */
static bool send_flight(struct thread *t, struct conn *c) {
    struct iovec iov[IOV_MAX_SEND];
    for (;;) {
        struct reply *f = &c->flight;
        unsigned n = 0;
        while (n < IOV_MAX_SEND && (c->flight_at < f->size || c->flight_ref < f->n_refs)) {
            struct reply_ref *ref = c->flight_ref < f->n_refs ? &f->refs[c->flight_ref] : NULL;
            if (ref && ref->at == c->flight_at) {
                iov[n++] = (struct iovec){ref->blob->bytes + ref->start, ref->size};
                c->flight_ref++;
                continue;
            }
            size_t to = ref ? ref->at : f->size;
            iov[n++] = (struct iovec){f->p + c->flight_at, to - c->flight_at};
            c->flight_at = to;
        }
        if (!n) return true;
        t->stats.sends++;
        if (!proactor_send(t->proactor, &c->stream, iov, n)) return false;
    }
}

static void output_done(struct thread *t, struct conn *c) {
    t->stats.output_bytes += c->flight.size + c->flight.refs_bytes;
    c->active_ns = t->now_ns;
    release_flight(t, c);
}

void conn_sent(struct thread *t, struct conn *c, int result) {
    if (result < 0) {
        conn_close(c, false);
        return;
    }
    c->active_ns = t->now_ns; /* a client that takes a long reply slowly is not idle */
    if (c->state == CONN_REMOVED || !send_flight(t, c)) return;
    output_done(t, c);
    if (c->out.size || c->state == CONN_CLOSING) conn_mark(t, c);
}

/* A closing connection: true if it is gone now. */
static bool close_if_ready(struct thread *t, struct conn *c) {
    if (conn_has_work(c)) return false; /* whatever finishes last marks it again */
    if (c->close_after_reply && (c->stream.sending || (c->out.size && !c->out.failed))) return false;
    c->state = CONN_REMOVED;
    t->stats.clients--;
    atomic_fetch_sub_explicit(&t->server->clients, 1, memory_order_relaxed);
    proactor_remove(t->proactor, &c->stream);
    return true;
}

uint64_t conn_memory(const struct conn *c) {
    uint64_t bytes = sizeof *c + c->out.capacity + c->out.refs_bytes + c->flight.capacity + c->flight.refs_bytes;
    bytes += mi_usable_size(c->name) + mi_usable_size(c->lib_name) + mi_usable_size(c->lib_version);
    if (c->in) bytes += sizeof *c->in + c->in->capacity;
    if (c->multi) bytes += multi_memory(c->multi);
    if (c->waiting) bytes += waiting_memory(c->waiting);
    if (c->task) bytes += course_memory(c->task);
    bytes += atomic_load_explicit(&c->aside.replies, memory_order_relaxed) + atomic_load_explicit(&c->aside.refs, memory_order_relaxed) +
        atomic_load_explicit(&c->aside.held, memory_order_relaxed);
    if (c->partial) bytes += sizeof *c->partial + c->partial->capacity * sizeof *c->partial->args + c->partial->blob_have;
    return bytes;
}

static void send_one(struct thread *t, struct conn *c) {
    if (c->state == CONN_REMOVED) return;
    if (__builtin_expect(c->out.failed, 0)) conn_close(c, false);
    close_over_limit(t, c);
    if (__builtin_expect(t->client_memory.max != 0, 0)) client_memory_count(t, c);
    if (c->state == CONN_CLOSING && close_if_ready(t, c)) return;
    if (c->state == CONN_CLOSING && !c->close_after_reply) return;
    if (c->stream.sending || !c->out.size) return;
    if ((c->first || c->task) && c->out.size + c->out.refs_bytes < CONN_HOLD_BYTES) return;
    c->flight = c->out;
    c->out = (struct reply){.resp = c->flight.resp};
    c->flight_at = c->flight_ref = 0;
    if (send_flight(t, c)) {
        output_done(t, c);
        if (c->state == CONN_CLOSING) close_if_ready(t, c);
    }
}

void conn_send_all(struct thread *t) {
    while (t->n_dirty) {
        struct conn *c = t->dirty[--t->n_dirty];
        c->dirty = false;
        send_one(t, c);
    }
}

/* ---- once a second, if a limit in time is set ---- */

void conn_check_timeouts(struct thread *t) {
    uint64_t idle_max = (uint64_t)t->config->timeout_s * 1000000000u;
    bool soft = false;
    for (struct conn *c = t->conns, *next; c; c = next) {
        next = c->next;
        if (c->soft_since_ns) {
            soft = true;
            if (over_limit(t, c)) conn_close(c, false);
        }
        bool idles = c->state == CONN_RUNNING || (c->state == CONN_CLOSING && !conn_has_work(c));
        if (idle_max && idles && t->now_ns - c->active_ns > idle_max) conn_close(c, false);
    }
    if (t->n_dirty) conn_send_all(t);
    t->next_timeout_ns = (idle_max && t->conns) || soft ? t->now_ns + 1000000000u : 0;
}
