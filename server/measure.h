/* What commands cost: calls, time, failures, a histogram a command; the slow ones; errors by their first word.
 *
 * Each thread writes its own figures for what it runs (own hops, hops of others, commands that need no shard); they are summed when shown.
 * Reading the CPU's counter twice a command would cost a tenth of a GET in a deep pipeline, so:
 *
 *   ticks of few commands: every command is timed;
 *   busy ticks: commands that may be slow (HOP_TIMED) are timed always; the others in one tick of MEASURE_EVERY, and count so often.
 *
 * So calls are exact, times and histograms of cheap commands are a sample, and nothing slow escapes the slow log.
 *
 * Besides: how long a thread works without looking at anything else, by cause (two readings of the counter a tick); events of the latency monitor
 * (latency.c); and every 100 ms in which there is a tick what was done so far, for rates. An idle thread is not woken for that.
 */
#ifndef SERVER_MEASURE_H
#define SERVER_MEASURE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/histogram.h"

#define MEASURE_FEW 16u /* commands of a tick up to which each is timed */
#define MEASURE_EVERY 16u
#define MEASURE_ERRORS_MAX 128u /* different first words of errors that are counted apart */

struct command_stats {
    uint64_t calls, cycles, timed, rejected, failed; /* cycles: of the timed ones, counted for those they stand for */
    struct histogram *histogram;                     /* of cycles; NULL until the first */
};

struct error_stats {
    char word[32];
    uint64_t count;
};

/* What a thread does in one go. Units: cycles; of SLICE_LONG, SLICE_KEEP and SLICE_GROW ns of CPU time, since these
 * are rare, and bounded by us: whatever the machine does meanwhile must not hide how long they are. */
enum slice_cause {
    SLICE_TICK,  /* a turn of the loop, from one wait to the next; the others are parts of it */
    SLICE_BATCH, /* a batch of hops */
    SLICE_TASK,  /* a piece of a command over several shards */
    SLICE_LONG,  /* a slice of a long command, or of putting its pieces together */
    SLICE_KEEP,  /* housekeeping: expiry, freeing, growing */
    SLICE_GROW,  /* a step of the table's growth within a command: a segment that splits */
    SLICE_LENT,  /* from finding the own shard lent to having it; the thread does other things meanwhile */
    SLICE_CAUSES
};
struct slices {
    struct histogram histogram;
    uint64_t longest, total;
};

/* What a thread had done at a moment. */
struct sample {
    uint64_t at_ns, commands, input_bytes, output_bytes;
};
#define RATE_SAMPLES 16u
#define RATE_SAMPLE_NS 100000000u
#define RATE_SPAN_NS 1000000000u /* rates are of the last second, or of the time since the last sample before */

struct latency_series;
struct slow;

struct measure {
    struct command_stats *commands; /* by number of the row */
    uint32_t weight;                /* of this tick: 0: cheap commands are not timed */
    uint64_t ticks;
    uint64_t slow_cycles; /* a command of this many or more is for the slow log or the latency monitor; UINT64_MAX: for neither */
    struct error_stats *errors;
    uint32_t n_errors;
    struct slow *slow; /* ring (slow.h) */
    uint32_t slow_capacity, slow_first, slow_n;
    struct slices *slices;          /* by enum slice_cause */
    struct latency_series *latency; /* by enum latency_event; NULL until the first event */
    struct sample samples[RATE_SAMPLES];
    uint32_t n_samples; /* so far */
    uint64_t next_sample_ns;
};

/* For n rows. False: no memory. */
bool measure_init(struct measure *m, size_t n);
void measure_drop(struct measure *m);
/* CONFIG RESETSTAT. */
void measure_reset(struct measure *m);
/* At the start of a tick: commands_before is what the last one ran. */
void measure_tick(struct measure *m, uint64_t commands_before);

/* A command took so many cycles; weight: how many it stands for. */
void measure_time(struct measure *m, uint32_t row, uint64_t cycles, uint32_t weight);
/* An error was replied: text from behind its '-'. */
void measure_error(struct measure *m, const char *text, size_t size);

void slice_add(struct measure *m, enum slice_cause cause, uint64_t v);

/* At the start of a tick, once next_sample_ns has come. */
void measure_sample(struct measure *m, const struct sample *now);
/* The sample that rates are counted from at the moment now_ns; all 0 if there is none. */
struct sample measure_before(const struct measure *m, uint64_t now_ns);

/* ns of a number of cycles (measured since the start). */
double measure_ns_per_cycle(void);
/* Called once, before threads start. */
void measure_start(void);

#endif
