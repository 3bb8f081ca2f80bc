#include "server/measure.h"

#include <mimalloc.h>
#include <string.h>

#include "io/clock.h"
#include "server/command.h"
#include "server/slow.h"

static uint64_t start_cycles, start_ns;

void measure_start(void) {
    start_cycles = cycles_now();
    start_ns = now_monotonic_ns();
}

double measure_ns_per_cycle(void) {
    uint64_t ns = now_monotonic_ns() - start_ns, cycles = cycles_now() - start_cycles;
    return ns && cycles ? (double)ns / (double)cycles : 1.0;
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
