/* LD_PRELOAD: the wall clock goes on by CLOCK_STEP_MS whenever it is looked at, and the monotonic one by MONOTONIC_STEP_MS, beside going on as they do. A thread of the server
 * looks at each once a turn or a little more often, so what takes several turns, however fast they are, takes time. The other clocks are as they were. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

struct clock {
    _Atomic long long looks;
    long long step_ms;
};

static struct clock wall, monotonic;

static long long number_of(const char *variable) {
    const char *text = getenv(variable);
    return text ? atoll(text) : 0;
}

__attribute__((constructor)) static void begin(void) {
    wall.step_ms = number_of("CLOCK_STEP_MS");
    monotonic.step_ms = number_of("MONOTONIC_STEP_MS");
}

int clock_gettime(clockid_t clock, struct timespec *t) {
    if (syscall(SYS_clock_gettime, clock, t)) return -1;
    struct clock *c = clock == CLOCK_REALTIME ? &wall : clock == CLOCK_MONOTONIC ? &monotonic : NULL;
    if (!c || !c->step_ms) return 0;
    long long ms = (atomic_fetch_add(&c->looks, 1) + 1) * c->step_ms;
    t->tv_sec += (time_t)(ms / 1000);
    t->tv_nsec += (long)(ms % 1000) * 1000000;
    if (t->tv_nsec >= 1000000000) {
        t->tv_sec++;
        t->tv_nsec -= 1000000000;
    }
    return 0;
}
