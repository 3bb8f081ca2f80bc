#include "server/replication.h"

#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>

#include "server/conn.h"

static _Atomic uint64_t changes; /* of the id */

/* The finalizer of SplitMix64 (Steele, Lea, Flood 2014): the id must differ from others, nothing more. */
static uint64_t mix(uint64_t v) {
    v = (v ^ v >> 30) * 0xbf58476d1ce4e5b9u;
    v = (v ^ v >> 27) * 0x94d049bb133111ebu;
    return v ^ v >> 31;
}

void replication_id(char out[REPLICATION_ID_SIZE + 1]) {
    uint64_t v = atomic_load_explicit(&changes, memory_order_relaxed);
    for (const char *p = server.run_id; *p; p++) v = mix(v + (unsigned char)*p + 0x9e3779b97f4a7c15u);
    for (size_t i = 0; i < REPLICATION_ID_SIZE; i += 8) {
        v = mix(v + 0x9e3779b97f4a7c15u);
        snprintf(out + i, 9, "%08x", (unsigned)(v & UINT32_MAX));
    }
}

void replication_change_id(void) { atomic_fetch_add_explicit(&changes, 1, memory_order_relaxed); }

void role_command(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)c;
    (void)argv;
    (void)argc;
    reply_array(r, 3);
    reply_bulk_text(r, "master");
    reply_int(r, 0);
    reply_array(r, 0);
}

void replicaof_command(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    int64_t port;
    (void)c;
    (void)argc;
    if (arg_is(&argv[1], "no") && arg_is(&argv[2], "one")) reply_ok(r);
    else if (!parse_int64(argv[2].p, argv[2].size, &port) || port < 0 || port > 65535) reply_error(r, "ERR Invalid master port");
    else reply_error(r, "ERR This server cannot be a replica yet");
}

void wait_command(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    int64_t replicas, timeout_ms;
    (void)c;
    (void)argc;
    if (!arg_int64(&argv[1], &replicas, r)) return;
    if (!parse_int64(argv[2].p, argv[2].size, &timeout_ms)) reply_error(r, "ERR timeout is not an integer or out of range");
    else if (timeout_ms < 0) reply_error(r, "ERR timeout is negative");
    else reply_int(r, 0); /* there are none, and more will not come within the time */
}
