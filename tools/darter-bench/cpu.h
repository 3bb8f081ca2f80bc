/* CPU time: of this process, and of another one on this machine. Any thread. */
#ifndef TOOLS_DARTER_BENCH_CPU_H
#define TOOLS_DARTER_BENCH_CPU_H

#include <stdint.h>

struct cpu_time {
    double user_s, system_s;
};

/* Of this process, all its threads. */
struct cpu_time cpu_of_self(void);
/* Of another process, from /proc/PID/stat, in steps of 10 ms. Returns 0 or a negative errno. */
int cpu_of_process(uint64_t pid, struct cpu_time *out);
/* CPUs that this process may run on. */
uint32_t cpu_count(void);

static inline struct cpu_time cpu_between(struct cpu_time from, struct cpu_time to) {
    return (struct cpu_time){to.user_s - from.user_s, to.system_s - from.system_s};
}
static inline double cpu_sum(struct cpu_time t) { return t.user_s + t.system_s; }

#endif
