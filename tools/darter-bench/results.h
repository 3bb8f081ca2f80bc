/* What a run came to: the sums, and one point a second. Owned by main(), which feeds it the workers' reports; report.c, json.c and plot.c read it. */
#ifndef TOOLS_DARTER_BENCH_RESULTS_H
#define TOOLS_DARTER_BENCH_RESULTS_H

#include "tools/darter-bench/cpu.h"
#include "tools/darter-bench/worker.h"

/* One command's second. Times in ns. */
struct point {
    uint64_t count;
    double mean, min, max, p50, p99, p999;
};

struct second {
    struct point of[OPS], all;
    uint64_t errors, hits, misses, bytes_in, bytes_out;
};

struct results {
    const struct run *run;
    struct stats total;
    struct histogram latency; /* of all commands; filled by results_end() */
    struct stats now;         /* the second that reports still come for */
    uint64_t now_second;
    struct second *seconds; /* those that are over */
    uint64_t second_count, second_room;
    /* By worker: its latest report. */
    uint64_t *reported, *done_min, *done_max;
    uint32_t *active, *lost;
    int64_t started_ms, ended_ms; /* wall clock */
    double duration_s;
    struct cpu_time own;
    bool has_server;
    struct cpu_time server;
    double busiest; /* share of the duration for which the busiest worker had a CPU */
    uint64_t never_sent, never_answered;
    uint32_t connections_lost;
    bool interrupted;
};

/* Returns 0 or -ENOMEM. */
int results_init(struct results *r, const struct run *run);
void results_finish(struct results *r);
/* Takes a report in. */
void results_add(struct results *r, const struct report *report);
/* After the last report. */
void results_end(struct results *r);
/* Whole seconds that all workers have reported. */
uint64_t results_seconds(const struct results *r);
/* Replies so far, of the connections with the fewest and the most; connections at work. */
uint64_t results_done_min(const struct results *r);
uint64_t results_done_max(const struct results *r);
uint32_t results_active(const struct results *r);

/* The name of a command's row: "Sets", "Gets", or "Commands". */
const char *results_name(const struct run *run, enum op op);

#endif
