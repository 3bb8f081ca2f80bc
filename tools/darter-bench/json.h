/* Everything as JSON: "ALL STATS" has the shape that memtier_benchmark and dfly_bench write (latencies in ms, a time series by second), so that what
 * reads theirs reads this; the rest (configuration, errors, CPU, the whole histogram) stands beside it. */
#ifndef TOOLS_DARTER_BENCH_JSON_H
#define TOOLS_DARTER_BENCH_JSON_H

#include "tools/darter-bench/results.h"

/* Returns 0 or a negative errno. */
int json_write(const struct results *r, const char *path);

#endif
