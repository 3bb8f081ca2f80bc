/* CPU time and CPUs: see cpu.h. */
#include "tools/darter-bench/cpu.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static double seconds(struct timeval t) { return (double)t.tv_sec + (double)t.tv_usec / 1e6; }

struct cpu_time cpu_of_self(void) {
    struct rusage r;
    getrusage(RUSAGE_SELF, &r);
    return (struct cpu_time){seconds(r.ru_utime), seconds(r.ru_stime)};
}

int cpu_of_process(uint64_t pid, struct cpu_time *out) {
    char path[64], text[1024];
    unsigned long long user, system;
    snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)pid);
    FILE *f = fopen(path, "r");
    if (!f) return -errno;
    size_t n = fread(text, 1, sizeof text - 1, f);
    fclose(f);
    text[n] = 0;
    /* The name, in parentheses, may hold blanks and parentheses; the numbers come after its last one. */
    const char *after = strrchr(text, ')');
    if (!after || sscanf(after + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system) != 2) return -EIO;
    double tick_s = 1.0 / (double)sysconf(_SC_CLK_TCK);
    *out = (struct cpu_time){(double)user * tick_s, (double)system * tick_s};
    return 0;
}

uint32_t cpu_count(void) {
    cpu_set_t set;
    return sched_getaffinity(0, sizeof set, &set) ? 1 : (uint32_t)CPU_COUNT(&set);
}
