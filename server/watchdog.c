#include "server/watchdog.h"

#include <mimalloc.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/clock.h"
#include "server/crash.h"
#include "server/log.h"
#include "server/service.h"
#include "server/thread.h"

#define LOOKS_A_PERIOD 4u /* so a hang is told at most a quarter of the period late */

struct seen {
    uint32_t turn;
    bool told;
    uint64_t since_ns;
};

static _Atomic int64_t period_ms;
static int wake = -1;
static uint64_t systemd_ns, next_ping_ns, next_look_ns;
static struct seen *seen; /* by thread; the main thread's */

void watchdog_start(int wake_fd, uint64_t systemd_us) {
    wake = wake_fd;
    systemd_ns = systemd_us * 1000;
    next_ping_ns = now_monotonic_ns();
}

void watchdog_set(int64_t ms) {
    if (atomic_exchange(&period_ms, ms) == ms || wake < 0) return;
    if (write(wake, &(uint64_t){1}, sizeof(uint64_t)) < 0) { /* it is full: then it was told */
    }
}

static void tell(const struct thread *t, uint64_t ns) {
    uint16_t row = atomic_load_explicit(&t->running, memory_order_relaxed);
    const struct command *c = row ? command_by_number(row) : NULL;
    log_line(LOG_WARNING_LEVEL, "WATCHDOG: thread %u hangs: its tick has taken %llu ms so far, in the command %s%s%s", t->id,
        (unsigned long long)(ns / 1000000), c && c->parent ? c->parent->name : "", c && c->parent ? "|" : "", c ? c->name : "none");
    log_drain();
    crash_show_stack(t->handle);
}

/* Brings what was seen up to date. True: every thread sleeps or has gone on within limit_ns. Hangs longer than tell_ns are told. */
static bool look(uint64_t now_ns, uint64_t limit_ns, uint64_t tell_ns) {
    bool well = true;
    for (uint32_t i = 0; i < server.n_threads; i++) {
        struct thread *t = server.threads[i];
        struct seen *s = &seen[i];
        uint32_t turn = atomic_load_explicit(&t->turn, memory_order_relaxed);
        if (turn != s->turn || atomic_load_explicit(&t->asleep, memory_order_relaxed) || !s->since_ns) {
            *s = (struct seen){.turn = turn, .since_ns = now_ns};
            continue;
        }
        uint64_t ns = now_ns - s->since_ns;
        if (ns >= limit_ns) well = false;
        if (!tell_ns || ns < tell_ns || s->told) continue;
        s->told = true;
        tell(t, ns);
    }
    return well;
}

int watchdog_look(void) {
    uint64_t period_ns = (uint64_t)atomic_load_explicit(&period_ms, memory_order_relaxed) * 1000000;
    if (!period_ns && !systemd_ns) return -1;
    if (!seen && !(seen = mi_calloc(server.n_threads, sizeof *seen))) return -1;
    uint64_t now_ns = now_monotonic_ns(), every_ns = UINT64_MAX;
    if (period_ns) every_ns = period_ns / LOOKS_A_PERIOD;
    if (systemd_ns && systemd_ns / LOOKS_A_PERIOD < every_ns) every_ns = systemd_ns / LOOKS_A_PERIOD;
    if (next_look_ns > now_ns + every_ns) next_look_ns = now_ns; /* the period became shorter */
    if (now_ns >= next_look_ns) {
        bool well = look(now_ns, systemd_ns ? systemd_ns / 2 : UINT64_MAX, period_ns);
        next_look_ns = now_ns + every_ns;
        if (systemd_ns && well && now_ns >= next_ping_ns) {
            service_notify("WATCHDOG=1");
            next_ping_ns = now_ns + systemd_ns / LOOKS_A_PERIOD;
        }
    }
    return (int)((next_look_ns - now_ns) / 1000000) + 1;
}
