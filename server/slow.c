#include "server/slow.h"

#include <mimalloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "server/conn.h"
#include "server/latency.h"
#include "server/monitor.h"

#define SLOW_FIRST 16u
#define SLOW_MOST (1u << 30) /* entries of a thread, if slowlog-max-len is beyond all memory */

static _Atomic uint64_t next_slow_id;

static void slow_free(struct slow *s) {
    for (uint32_t i = 0; i < s->argc && i < SLOW_ARGS; i++) mi_free(s->args[i]);
    mi_free(s->peer);
    mi_free(s->name);
    *s = (struct slow){0};
}

/* If memory is refused, it stays as it is, and the oldest entry makes room. */
void slow_resize(struct measure *m, uint32_t capacity) {
    if (capacity == m->slow_capacity && capacity) return;
    struct slow *ring = capacity ? mi_calloc(capacity, sizeof *ring) : NULL;
    if (capacity && !ring) return;
    uint32_t kept = 0;
    for (uint32_t i = 0; i < m->slow_n; i++) {
        struct slow *s = &m->slow[(m->slow_first + i) % m->slow_capacity];
        if (m->slow_n - i > capacity) slow_free(s);
        else ring[kept++] = *s;
    }
    mi_free(m->slow);
    m->slow = ring;
    m->slow_capacity = capacity;
    m->slow_first = 0;
    m->slow_n = kept;
}

static char *copy(const char *p, size_t size) {
    char *to = mi_malloc(size + 1);
    if (!to) return NULL;
    memcpy(to, p, size);
    to[size] = 0;
    return to;
}

/* An argument as it is kept: its first bytes, and how many are missing; the last of too many: how many there are more. A blob that the shard took
 * over may be gone: of it only the size is kept. */
static void keep_arg(struct slow *s, uint32_t i, const struct arg *argv, uint32_t argc, const struct command *row) {
    char text[SLOW_ARG_BYTES + 64];
    size_t size = argv[i].size < SLOW_ARG_BYTES ? argv[i].size : SLOW_ARG_BYTES;
    bool gone = argv[i].flags & ARG_WAS_BLOB && !(argv[i].flags & ARG_BLOB);
    if (i == SLOW_ARGS - 1 && argc > SLOW_ARGS) size = (size_t)snprintf(text, sizeof text, "... (%u more arguments)", argc - SLOW_ARGS + 1);
    else if (secret_argument(row, argv, argc, i)) size = (size_t)snprintf(text, sizeof text, "(redacted)");
    else if (gone) size = (size_t)snprintf(text, sizeof text, "... (%u bytes)", argv[i].size);
    else {
        memcpy(text, argv[i].p, size);
        if (argv[i].size > SLOW_ARG_BYTES)
            size += (size_t)snprintf(text + size, sizeof text - size, "... (%u more bytes)", argv[i].size - SLOW_ARG_BYTES);
    }
    s->args[i] = copy(text, size);
    s->sizes[i] = s->args[i] ? (uint32_t)size : 0;
}

void slow_add(
    struct measure *m, int64_t most, struct conn *c, const struct command *row, const struct arg *argv, uint32_t argc, uint64_t us) {
    char peer[CONN_ADDRESS_MAX];
    uint32_t limit = most < SLOW_MOST ? (uint32_t)most : SLOW_MOST, twice = m->slow_capacity ? 2 * m->slow_capacity : SLOW_FIRST;
    if (m->slow_capacity > limit) slow_resize(m, limit);
    else if (m->slow_n == m->slow_capacity && m->slow_capacity < limit) slow_resize(m, twice < limit ? twice : limit);
    if (!m->slow_capacity) return;
    if (m->slow_n == m->slow_capacity) {
        slow_free(&m->slow[m->slow_first]);
        m->slow_first = (m->slow_first + 1) % m->slow_capacity;
        m->slow_n--;
    }
    struct slow *s = &m->slow[(m->slow_first + m->slow_n++) % m->slow_capacity];
    *s = (struct slow){.id = atomic_fetch_add_explicit(&next_slow_id, 1, memory_order_relaxed),
        .at_s = c->thread->now_ms / 1000,
        .us = us,
        .argc = argc < SLOW_ARGS ? argc : SLOW_ARGS};
    for (uint32_t i = 0; i < s->argc; i++) keep_arg(s, i, argv, argc, row);
    conn_address(c, peer);
    s->peer = copy(peer, strlen(peer));
    s->name = copy(c->name ? c->name : "", c->name ? strlen(c->name) : 0);
}

void log_slow(struct thread *t, struct conn *c, const struct command *row, const struct arg *argv, uint32_t argc, uint64_t cycles) {
    int64_t us = (int64_t)((double)cycles * measure_ns_per_cycle() / 1000), threshold_ms = t->config->latency_monitor_threshold_ms;
    if (t->config->slowlog_slower_us >= 0 && us >= t->config->slowlog_slower_us && !(row->flags & CMD_SKIP_SLOWLOG))
        slow_add(&t->measure, t->config->slowlog_max_len, c, row, argv, argc, (uint64_t)us);
    if (threshold_ms && us / 1000 >= threshold_ms)
        latency_add(&t->measure, row->flags & CMD_FAST ? LATENCY_FAST_COMMAND : LATENCY_COMMAND, t->now_ms / 1000, (uint32_t)(us / 1000));
}
