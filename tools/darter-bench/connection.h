/* One connection of a worker.
 *
 *   UNUSED --connect--> CONNECTING --> GREETING --replies--> READY --> (load) --> FINISHED
 *                          any --error, end of file--> LOST
 *
 * Requests on the way are kept in a ring: when each one counts from, and which command it was. Replies come in that order. The ring grows to what the
 * connection ever had on the way; nothing else is allocated while the load runs.
 */
#ifndef TOOLS_DARTER_BENCH_CONNECTION_H
#define TOOLS_DARTER_BENCH_CONNECTION_H

#include "tools/darter-bench/reply.h"
#include "tools/darter-bench/worker.h"

enum connection_state { CONN_UNUSED, CONN_CONNECTING, CONN_GREETING, CONN_READY, CONN_FINISHED, CONN_LOST };

/* Bytes of requests a send at most, and requests on the way at most (the ring then takes 8 MiB). What is due beyond that waits here. */
enum { BUFFER_SIZE = 64 * 1024, RING_MAX = 1 << 20, RING_FIRST = 64 };

struct connection {
    _Alignas(64) struct stream stream; /* first: events name it */
    uint32_t number;                   /* among the worker's */
    uint8_t state;                     /* enum connection_state */
    bool dirty, removed;
    uint32_t greetings;           /* replies to the greeting still to come */
    uint64_t due, sent, answered; /* requests. due counts with --qps only */
    uint64_t *ring;               /* by sent and answered, modulo ring_size: ns << 1 | op */
    uint64_t ring_size;
    char *buffer;
    size_t buffer_size;
    struct reply_parser parser;
};

/* Starts connecting. False: it failed, and the run was told. */
bool connection_start(struct worker *w, struct connection *c);
void connection_connected(struct worker *w, struct connection *c, int error);
/* Bytes came. */
void connection_received(struct worker *w, struct connection *c, const char *data, size_t size);
/* The other end is gone (error 0: it closed in order). */
void connection_lost(struct worker *w, struct connection *c, int error);
/* Sends what may be sent now. */
void connection_send(struct worker *w, struct connection *c);
/* When request i of the connection is due (--qps), on CLOCK_MONOTONIC. */
uint64_t worker_slot_ns(const struct worker *w, uint64_t slot);
/* It has nothing more to do. */
void connection_finish(struct worker *w, struct connection *c);

static inline bool connection_is_working(const struct connection *c) { return c->state == CONN_READY; }

static inline void connection_mark(struct worker *w, struct connection *c) {
    if (c->dirty) return;
    c->dirty = true;
    w->dirty[w->dirty_count++] = c;
}

#endif
