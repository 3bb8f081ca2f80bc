#include "server/measure.h"

#include <mimalloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "io/clock.h"
#include "server/conn.h"
#include "server/monitor.h"

#define SLOW_FIRST 16u
#define SLOW_MOST (1u << 30) /* entries of a thread, if slowlog-max-len is beyond all memory */

static uint64_t start_cycles, start_ns;
static _Atomic uint64_t next_slow_id;

void measure_start(void) {
    start_cycles = cycles_now();
    start_ns = now_monotonic_ns();
}

double measure_ns_per_cycle(void) {
    uint64_t ns = now_monotonic_ns() - start_ns, cycles = cycles_now() - start_cycles;
    return ns && cycles ? (double)ns / (double)cycles : 1.0;
}

/* ---- histograms ---- */

/* Bucket of v: below 32 exact; then 16 a power of two. */
static uint32_t bucket_of(uint64_t v) {
    if (v < 32) return (uint32_t)v;
    uint32_t exponent = 63 - (uint32_t)__builtin_clzll(v), bucket = (exponent - 3) * 16 + (uint32_t)(v >> (exponent - 4) & 15);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

uint64_t histogram_upper(uint32_t bucket) {
    if (bucket < 32) return bucket;
    uint32_t exponent = bucket / 16 + 3;
    return (((uint64_t)(16 + bucket % 16) + 1) << (exponent - 4)) - 1;
}

void histogram_add(struct histogram *h, uint64_t v, uint32_t times) {
    h->counts[bucket_of(v)] += times;
    h->n += times;
}

void histogram_merge(struct histogram *to, const struct histogram *from) {
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) to->counts[i] += from->counts[i];
    to->n += from->n;
}

uint64_t histogram_percentile(const struct histogram *h, double part) {
    uint64_t want = (uint64_t)(part * (double)h->n + 0.5), seen = 0;
    if (!want) want = 1;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->counts[i];
        if (seen >= want) return histogram_upper(i);
    }
    return 0;
}

/* ---- a thread's figures ---- */

bool measure_init(struct measure *m, size_t n) {
    *m = (struct measure){.slow_cycles = UINT64_MAX, .weight = 1};
    m->commands = mi_calloc(n, sizeof *m->commands);
    m->errors = mi_calloc(MEASURE_ERRORS_MAX, sizeof *m->errors);
    m->slices = mi_calloc(SLICE_CAUSES, sizeof *m->slices);
    return m->commands && m->errors && m->slices;
}

void measure_drop(struct measure *m) {
    for (uint32_t i = 0; m->commands && i < COMMAND_ROWS_MAX; i++) mi_free(m->commands[i].histogram);
    slow_resize(m, 0);
    mi_free(m->commands);
    mi_free(m->errors);
    mi_free(m->slices);
    mi_free(m->latency);
}

void measure_reset(struct measure *m) {
    for (uint32_t i = 0; i < COMMAND_ROWS_MAX; i++) {
        mi_free(m->commands[i].histogram);
        m->commands[i] = (struct command_stats){0};
    }
    m->n_errors = 0;
    m->n_samples = 0;
    m->next_sample_ns = 0;
    memset(m->slices, 0, SLICE_CAUSES * sizeof *m->slices);
}

void measure_tick(struct measure *m, uint64_t commands_before) {
    m->ticks++;
    m->weight = commands_before <= MEASURE_FEW ? 1 : m->ticks % MEASURE_EVERY ? 0 : MEASURE_EVERY;
}

void measure_time(struct measure *m, uint32_t row, uint64_t cycles, uint32_t weight) {
    struct command_stats *s = &m->commands[row];
    s->timed += weight;
    s->cycles += cycles * weight;
    if (!s->histogram) s->histogram = mi_calloc(1, sizeof *s->histogram);
    if (s->histogram) histogram_add(s->histogram, cycles, weight);
}

void measure_error(struct measure *m, const char *text, size_t size) {
    size_t n = 0;
    while (n < size && n < sizeof m->errors->word - 1 && text[n] != ' ' && text[n] != '\r') n++;
    for (uint32_t i = 0; i < m->n_errors; i++) {
        if (strncmp(m->errors[i].word, text, n) || m->errors[i].word[n]) continue;
        m->errors[i].count++;
        return;
    }
    if (m->n_errors == MEASURE_ERRORS_MAX) return;
    struct error_stats *e = &m->errors[m->n_errors++];
    memcpy(e->word, text, n);
    e->word[n] = 0;
    e->count = 1;
}

void slice_add(struct measure *m, enum slice_cause cause, uint64_t v) {
    struct slices *s = &m->slices[cause];
    histogram_add(&s->histogram, v, 1);
    s->total += v;
    if (v > s->longest) s->longest = v;
}

/* ---- rates ---- */

void measure_sample(struct measure *m, const struct sample *now) {
    m->samples[m->n_samples++ % RATE_SAMPLES] = *now;
    m->next_sample_ns = now->at_ns + RATE_SAMPLE_NS;
}

struct sample measure_before(const struct measure *m, uint64_t now_ns) {
    struct sample best = {0};
    for (uint32_t i = 0; i < RATE_SAMPLES && i < m->n_samples; i++) {
        const struct sample *s = &m->samples[(m->n_samples - 1 - i) % RATE_SAMPLES];
        best = *s;
        if (now_ns - s->at_ns >= RATE_SPAN_NS) break;
    }
    return best;
}

/* ---- the slow log ---- */

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
