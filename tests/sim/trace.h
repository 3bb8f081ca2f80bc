/* Making a failing run short, and showing it. */
#ifndef SIM_TRACE_H
#define SIM_TRACE_H

#include <stdio.h>

#include "tests/sim/plan.h"

/* What is wrong with a run of this plan; NULL: nothing. The plan becomes the history of it. */
typedef const char *judge_fn(struct plan *p);

/* Leaves out clients, pipelines and commands, and what may go wrong, as long as a run of what is left fails in some order. p is a plan that fails, before it
 * was run; afterwards it is the shorter one. */
void plan_shrink(struct plan *p, judge_fn *judge);
/* A copy with its own parts. */
void plan_copy(struct plan *to, const struct plan *from);
/* A line for each operation, by when it was asked. */
void history_print(const struct plan *p, FILE *to);

#endif
