/* What people read: what the run will do, a line every five seconds, and the summary. The shapes are dfly_bench's, so that what reads its output reads
 * this. main()'s thread. */
#ifndef TOOLS_DARTER_BENCH_REPORT_H
#define TOOLS_DARTER_BENCH_REPORT_H

#include "tools/darter-bench/results.h"

enum { PROGRESS_S = 5 };

struct progress {
    bool terminal;          /* standard output is one: a line is kept up to date */
    bool live;              /* it stands there */
    uint64_t shown_s;       /* seconds of the run that the last full line told of */
    uint64_t live_s;        /* and the live one */
    uint64_t live_requests; /* when that was drawn */
    uint64_t requests;      /* before this span */
    struct stats span;      /* since the last full line */
};

void report_plan(const struct run *run, const char *back_end);
/* Takes a report in too, before results_add(). */
void progress_add(struct progress *p, const struct report *report);
/* Shows what is due after results_add(). */
void progress_show(struct progress *p, const struct results *r);
/* Takes the live line away. */
void progress_end(struct progress *p);
void report_summary(const struct results *r);

#endif
