/* Pictures of a run: how latency is distributed, and throughput and p99 over time. In the terminal as columns of block characters, and as SVG, which needs
 * nothing but itself. */
#ifndef TOOLS_DARTER_BENCH_PLOT_H
#define TOOLS_DARTER_BENCH_PLOT_H

#include "tools/darter-bench/results.h"

void plot_terminal(const struct results *r);
/* Returns 0 or a negative errno. */
int plot_svg(const struct results *r, const char *path);

#endif
