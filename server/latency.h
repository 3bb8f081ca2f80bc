/* LATENCY: the latency monitor, which keeps the worst of each second for a few kinds of events, and histograms of commands' times.
 *
 * Each thread keeps its own series; they are put together when asked for. Nothing is kept while latency-monitor-threshold is 0.
 */
#ifndef SERVER_LATENCY_H
#define SERVER_LATENCY_H

#include "server/command.h"

struct measure;

enum latency_event {
    LATENCY_COMMAND,      /* a command that is not fast took long */
    LATENCY_FAST_COMMAND, /* one that is did */
    LATENCY_EXPIRE_CYCLE, /* a slice of housekeeping did */
    LATENCY_EVENTS
};

#define LATENCY_SAMPLES 160u /* seconds with an event that are kept */

struct latency_sample {
    int64_t at_s;
    uint32_t ms;
};
/* The worst of each second, oldest first in a ring. */
struct latency_series {
    uint32_t first, n;
    uint32_t worst_ms; /* ever, until LATENCY RESET */
    struct latency_sample samples[LATENCY_SAMPLES];
};

/* An event took that long. Its thread only. */
void latency_add(struct measure *m, enum latency_event event, int64_t at_s, uint32_t ms);

extern const struct command latency_subcommands[];
extern const char *const latency_help[];

#endif
