/* LD_PRELOAD: the wall clock goes on by CLOCK_STEP_MS whenever it is looked at, beside going on as it does. A thread of the server looks at it once a turn, so what takes
 * several turns, however fast they are, takes time. The other clocks are as they were. */
#define _GNU_SOURCE
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Atomic long long looks;
static long long step_ms;

__attribute__((constructor)) static void begin(void) {
    const char *step = getenv("CLOCK_STEP_MS");
    if (step) step_ms = atoll(step);
}

int clock_gettime(clockid_t clock, struct timespec *t) {
    if (syscall(SYS_clock_gettime, clock, t)) return -1;
    if (clock != CLOCK_REALTIME || !step_ms) return 0;
    long long ms = (atomic_fetch_add(&looks, 1) + 1) * step_ms;
    t->tv_sec += (time_t)(ms / 1000);
    t->tv_nsec += (long)(ms % 1000) * 1000000;
    if (t->tv_nsec >= 1000000000) {
        t->tv_sec++;
        t->tv_nsec -= 1000000000;
    }
    return 0;
}
