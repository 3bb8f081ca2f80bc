/* What memory costs that is only touched: the control of DEBUG POPULATE, whose time is mostly that of getting memory from the system, and the system's from its host.
 *
 *   touch [REGIONS [small]]      (default: 330 of 2 MiB; small: in pages of 4 KiB, not huge ones)
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <time.h>

#define REGION ((size_t)2 << 20)

static double ms_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

int main(int argc, char **argv) {
    size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 330, step = argc > 2 ? 4096 : REGION;
    char *p = mmap(NULL, (n + 1) * REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return 1;
    p += -(uintptr_t)p & (REGION - 1);
    if (step == REGION) madvise(p, n * REGION, MADV_HUGEPAGE);
    double wall = ms_of(CLOCK_MONOTONIC), cpu = ms_of(CLOCK_PROCESS_CPUTIME_ID);
    for (size_t i = 0; i < n * REGION; i += step) ((volatile char *)p)[i] = 1;
    printf("%zu regions in %zu KiB: %.0f ms, of CPU %.0f ms\n", n, step >> 10, ms_of(CLOCK_MONOTONIC) - wall,
        ms_of(CLOCK_PROCESS_CPUTIME_ID) - cpu);
    return 0;
}
