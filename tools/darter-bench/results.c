/* Adding up: see results.h. */
#include "tools/darter-bench/results.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int results_init(struct results *r, const struct run *run) {
    uint32_t n = run->workers;
    *r = (struct results){.run = run,
        .reported = calloc(n, sizeof *r->reported),
        .done_min = calloc(n, sizeof *r->done_min),
        .done_max = calloc(n, sizeof *r->done_max),
        .active = calloc(n, sizeof *r->active),
        .lost = calloc(n, sizeof *r->lost)};
    if (!r->reported || !r->done_min || !r->done_max || !r->active || !r->lost) return -ENOMEM;
    for (uint32_t i = 0; i < n; i++) r->active[i] = (uint32_t)run->options->connections;
    return 0;
}

void results_finish(struct results *r) {
    free(r->seconds);
    free(r->reported);
    free(r->done_min);
    free(r->done_max);
    free(r->active);
    free(r->lost);
}

static struct point point_of(const struct histogram *h) {
    return (struct point){.count = h->count,
        .mean = histogram_mean(h),
        .min = h->count ? (double)h->min : 0,
        .max = (double)h->max,
        .p50 = histogram_percentile(h, 50),
        .p99 = histogram_percentile(h, 99),
        .p999 = histogram_percentile(h, 99.9)};
}

/* Seconds until the given one are over. Memory refused ends the series there, not the run. */
static void close_seconds(struct results *r, uint64_t until) {
    for (; r->now_second < until; r->now_second++) {
        if (r->second_count == r->second_room) {
            uint64_t room = r->second_room ? r->second_room * 2 : 64;
            struct second *more = realloc(r->seconds, room * sizeof *more);
            if (!more) return;
            r->seconds = more;
            r->second_room = room;
        }
        struct second *s = &r->seconds[r->second_count++];
        struct histogram all = r->now.latency[OP_SET];
        histogram_merge(&all, &r->now.latency[OP_GET]);
        *s = (struct second){.all = point_of(&all),
            .errors = r->now.errors,
            .hits = r->now.hits,
            .misses = r->now.misses,
            .bytes_in = r->now.bytes_in,
            .bytes_out = r->now.bytes_out};
        for (int i = 0; i < OPS; i++) s->of[i] = point_of(&r->now.latency[i]);
        stats_clear(&r->now);
    }
}

void results_add(struct results *r, const struct report *report) {
    uint32_t from = report->message.from;
    close_seconds(r, report->second);
    stats_merge(&r->now, &report->stats);
    stats_merge(&r->total, &report->stats);
    r->reported[from] = report->last ? UINT64_MAX : report->until_ns / 1000000000;
    r->done_min[from] = report->done_min;
    r->done_max[from] = report->done_max;
    r->active[from] = report->active;
    r->lost[from] = report->lost;
    double until_s = (double)report->until_ns / 1e9;
    if (until_s > r->duration_s) r->duration_s = until_s;
}

void results_end(struct results *r) {
    if (stats_requests(&r->now)) close_seconds(r, r->now_second + 1);
    for (int i = 0; i < OPS; i++) histogram_merge(&r->latency, &r->total.latency[i]);
    for (uint32_t i = 0; i < r->run->workers; i++) r->connections_lost += r->lost[i];
}

uint64_t results_seconds(const struct results *r) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < r->run->workers; i++)
        if (r->reported[i] < least) least = r->reported[i];
    return least;
}

uint64_t results_done_min(const struct results *r) {
    uint64_t least = UINT64_MAX;
    for (uint32_t i = 0; i < r->run->workers; i++)
        if (r->done_min[i] < least) least = r->done_min[i];
    return least;
}

uint64_t results_done_max(const struct results *r) {
    uint64_t most = 0;
    for (uint32_t i = 0; i < r->run->workers; i++)
        if (r->done_max[i] > most) most = r->done_max[i];
    return most;
}

uint32_t results_active(const struct results *r) {
    uint32_t sum = 0;
    for (uint32_t i = 0; i < r->run->workers; i++) sum += r->active[i];
    return sum;
}

const char *results_name(const struct run *run, enum op op) { return run->custom ? "Commands" : op == OP_SET ? "Sets" : "Gets"; }
