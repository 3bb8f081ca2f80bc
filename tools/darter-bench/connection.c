/* Connecting, greeting, sending and receiving: see connection.h. */
#include "tools/darter-bench/connection.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/socket.h"

/* ---- connecting and greeting ---- */

bool connection_start(struct worker *w, struct connection *c) {
    struct run *run = w->run;
    c->stream.fd = socket(run->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int error = c->stream.fd < 0 ? -errno : 0;
    if (!error && run->options->tcp_nodelay) error = socket_tune(c->stream.fd, true, 0);
    if (!error) error = proactor_connect(w->proactor, &c->stream, (struct sockaddr *)&run->address, run->address_size);
    if (!error) {
        c->state = CONN_CONNECTING;
        w->connecting++;
        return true;
    }
    if (c->stream.fd >= 0) close(c->stream.fd);
    run_fail(run, w->proactor, "no socket for connection %u: %s", c->number + 1, strerror(-error));
    return false;
}

static char *put_bulk(char *to, const char *text) { return to + sprintf(to, "$%zu\r\n%s\r\n", strlen(text), text); }

static void become_ready(struct worker *w, struct connection *c) {
    c->state = CONN_READY;
    w->connecting--;
    w->ready++;
    w->working++;
}

/* AUTH and PING in one send. */
static void greet(struct worker *w, struct connection *c) {
    const struct options *o = w->run->options;
    char *to = c->buffer;
    if (*o->password) {
        to += sprintf(to, "*%d\r\n$4\r\nAUTH\r\n", *o->user ? 3 : 2);
        if (*o->user) to = put_bulk(to, o->user);
        to = put_bulk(to, o->password);
        c->greetings++;
    }
    if (o->greet) {
        to += sprintf(to, "*1\r\n$4\r\nPING\r\n");
        c->greetings++;
    }
    if (!c->greetings) {
        become_ready(w, c);
        return;
    }
    c->state = CONN_GREETING;
    proactor_send(w->proactor, &c->stream, &(struct iovec){c->buffer, (size_t)(to - c->buffer)}, 1);
}

void connection_connected(struct worker *w, struct connection *c, int error) {
    if (!error) greet(w, c);
    else run_fail(w->run, w->proactor, "cannot connect to %s: %s", w->run->address_text, strerror(-error));
}

static void take_greeting(struct worker *w, struct connection *c) {
    if (c->parser.kind == REPLY_ERROR) {
        const char *text = c->parser.text;
        bool unknown = c->parser.text_size >= 6 && !memcmp(text, "NOAUTH", 6);
        run_fail(w->run, w->proactor, "%s refuses the greeting: %.*s%s", w->run->address_text, (int)c->parser.text_size, text,
            unknown ? " (give it with --password)" : "");
    } else if (!--c->greetings) become_ready(w, c);
}

/* ---- the end ---- */

void connection_finish(struct worker *w, struct connection *c) {
    if (!connection_is_working(c)) return;
    c->state = CONN_FINISHED;
    w->working--;
}

void connection_lost(struct worker *w, struct connection *c, int error) {
    struct run *run = w->run;
    const char *reason = error ? strerror(-error) : "the server closed it";
    if (!w->start_ns) w->start_ns = atomic_load(&run->start_ns); /* others may be at work already */
    if (!w->start_ns) {
        run_fail(run, w->proactor, "lost a connection to %s before the start: %s", run->address_text, reason);
        return;
    }
    if (c->state == CONN_READY) {
        w->working--;
        w->lost++;
        w->never_answered += c->sent - c->answered;
        if (!atomic_exchange(&run->loss_told, 1))
            snprintf(run->loss, sizeof run->loss, "a connection to %s was lost after %.1f s, with %llu requests on the way: %s",
                run->address_text, (double)(now_monotonic_ns() - w->start_ns) / 1e9, (unsigned long long)(c->sent - c->answered), reason);
        atomic_fetch_add(&run->losses, 1);
    }
    c->state = CONN_LOST;
}

/* ---- sending ---- */

/* Room for one more request on the way. False: there is as much as may be. */
static bool grow_ring(struct connection *c) {
    uint64_t size = c->ring_size ? c->ring_size * 2 : RING_FIRST;
    uint64_t *ring = size <= RING_MAX ? malloc(size * sizeof *ring) : NULL;
    if (!ring) return false;
    for (uint64_t i = c->answered; i < c->sent; i++) ring[i & (size - 1)] = c->ring[i & (c->ring_size - 1)];
    free(c->ring);
    c->ring = ring;
    c->ring_size = size;
    return true;
}

/* How many requests the connection may have sent by now. */
static uint64_t allowed(const struct worker *w, const struct connection *c) {
    const struct options *o = w->run->options;
    if (o->qps) return c->due;
    if (w->over) return c->sent;
    uint64_t window = c->answered + o->pipeline;
    return o->test_time_s || window < o->requests ? window : o->requests;
}

void connection_send(struct worker *w, struct connection *c) {
    if (c->stream.sending || !connection_is_working(c)) return;
    const struct options *o = w->run->options;
    const struct command *commands = w->run->commands;
    uint64_t until = allowed(w, c), now_ns = o->qps ? 0 : now_monotonic_ns();
    char *to = c->buffer, *last = c->buffer + BUFFER_SIZE;
    while (c->sent < until && to < last) {
        if (c->sent - c->answered == c->ring_size && !grow_ring(c)) break;
        enum op op = w->run->custom || random_below(&w->source.random, w->ratio_all) < o->ratio_set ? OP_SET : OP_GET;
        uint64_t from_ns = o->qps ? worker_slot_ns(w, c->sent * w->connection_count + c->number) : now_ns;
        c->ring[c->sent++ & (c->ring_size - 1)] = from_ns << 1 | op;
        to = command_write(&commands[op], &w->source, to);
    }
    if (to == c->buffer) return;
    size_t size = (size_t)(to - c->buffer);
    w->stats.bytes_out += size;
    if (!o->qps && c->sent - c->answered > w->stats.pending_max) w->stats.pending_max = c->sent - c->answered;
    if (proactor_send(w->proactor, &c->stream, &(struct iovec){c->buffer, size}, 1) && c->sent < until) connection_mark(w, c);
}

/* ---- receiving ---- */

static void count_kind(struct worker *w, const struct reply_parser *r) {
    switch ((enum reply_kind)r->kind) {
    case REPLY_VALUE: w->stats.hits++; break;
    case REPLY_NIL: w->stats.misses++; break;
    case REPLY_ERROR: stats_add_error(&w->stats, r->text, r->text_size); break;
    default: break;
    }
}

/* Requests that were sent at one time and answered at one time are counted together. */
struct same {
    uint64_t entry, count;
};

static void count_same(struct worker *w, struct same *same, uint64_t now_ns) {
    if (!same->count) return;
    uint64_t from_ns = same->entry >> 1;
    histogram_add(&w->stats.latency[same->entry & 1], now_ns > from_ns ? now_ns - from_ns : 0, same->count);
    same->count = 0;
}

void connection_received(struct worker *w, struct connection *c, const char *data, size_t size) {
    uint64_t now_ns = now_monotonic_ns();
    struct same same = {0};
    w->stats.bytes_in += size;
    for (size_t at = 0; at < size;) {
        enum reply_result result = reply_read(&c->parser, data, &at, size);
        if (result == REPLY_MORE) break;
        bool loading = c->state >= CONN_READY;
        if (result == REPLY_BROKEN || (loading && c->parser.kind != REPLY_PUSH && c->answered == c->sent)) {
            run_fail(w->run, w->proactor, "%s sent what is no reply to any request", w->run->address_text);
            return;
        }
        if (c->parser.kind == REPLY_PUSH) continue;
        if (!loading) {
            take_greeting(w, c);
            continue;
        }
        uint64_t entry = c->ring[c->answered++ & (c->ring_size - 1)];
        count_kind(w, &c->parser);
        if (entry != same.entry) count_same(w, &same, now_ns);
        same.entry = entry;
        same.count++;
    }
    count_same(w, &same, now_ns);
    const struct options *o = w->run->options;
    if (c->state != CONN_READY || !w->start_ns) return;
    bool all = !o->test_time_s && c->answered == o->requests;
    if (all || (w->over && c->answered == c->sent)) connection_finish(w, c);
    else connection_mark(w, c);
}
