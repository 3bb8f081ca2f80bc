/* Texts: see report.h. */
#include "tools/darter-bench/report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char rule[] = "----------------------------------------------------------------------";

/* ---- the plan ---- */

static void plan_rate(const struct options *o, uint64_t connections) {
    uint64_t qps = (uint64_t)(o->qps < 0 ? -o->qps : o->qps);
    if (!qps) {
        printf("As fast as replies come (--qps=0), %" PRIu64
               " on the way a connection. A request waits for the reply before it, so while the server stalls "
               "nothing is asked, and the latency of what users would have asked is hidden (coordinated omission); --qps=N shows it.\n",
            o->pipeline);
        return;
    }
    printf("At a rate of %" PRIu64
           " requests a second and connection, i.e. a request every %.0f us. Latency counts from the scheduled time.\n",
        qps, 1e6 / (double)qps);
    printf("Overall scheduled RPS: %" PRIu64 "\n", qps * connections);
}

void report_plan(const struct run *run, const char *back_end) {
    const struct options *o = run->options;
    uint64_t connections = o->connections * run->workers;
    printf("Running %u thread%s (%s) with %" PRIu64 " connection%s each against %s, ", run->workers, run->workers == 1 ? "" : "s", back_end,
        o->connections, o->connections == 1 ? "" : "s", run->address_text);
    if (o->connect_only) printf("without sending requests\n");
    else if (o->test_time_s) printf("sending requests for %" PRIu64 " s\n", o->test_time_s);
    else
        printf("sending %" PRIu64 " requests per each connection, or %.0f requests overall\n", o->requests,
            (double)o->requests * (double)connections);
    if (!o->connect_only) plan_rate(o, connections);
    fflush(stdout);
}

/* ---- on the way ---- */

void progress_add(struct progress *p, const struct report *report) { stats_merge(&p->span, &report->stats); }

static double hit_rate(const struct stats *s) {
    uint64_t all = s->hits + s->misses;
    return all ? 100 * (double)s->hits / (double)all : 0;
}

static void take_away(struct progress *p) {
    if (p->live) printf("\r\033[K");
    p->live = false;
}

static double done_percent(const struct results *r, uint64_t seconds) {
    const struct options *o = r->run->options;
    if (o->test_time_s) return seconds < o->test_time_s ? 100 * (double)seconds / (double)o->test_time_s : 100;
    return 100 * (double)stats_requests(&r->total) / ((double)o->requests * (double)o->connections * r->run->workers);
}

/* What a connection has done of its part: of -n, or of what the schedule asks for in the time. Without either, time tells. */
static double share_percent(const struct results *r, uint64_t done, uint64_t seconds) {
    const struct options *o = r->run->options;
    if (!o->test_time_s) return 100 * (double)done / (double)o->requests;
    if (!o->qps) return done_percent(r, seconds);
    return 100 * (double)done / (fabs((double)o->qps) * (double)o->test_time_s);
}

static void print_line(const struct results *r, const struct stats *span, uint64_t seconds, double now) {
    uint64_t requests = stats_requests(&r->total);
    printf("%" PRIu64 "s: %.1f%% done, RPS(now/agg): %.0f/%.0f, errs: %" PRIu64 ", hitrate: %.1f%%, clients: %u", seconds,
        done_percent(r, seconds), now, (double)requests / (double)seconds, r->total.errors, hit_rate(&r->total), results_active(r));
    if (!span) return;
    struct histogram all = span->latency[OP_SET];
    histogram_merge(&all, &span->latency[OP_GET]);
    printf("\ndone_min: %.2f%%, done_max: %.2f%%, p99_lat(us): %.0f, max_pending: %" PRIu64 "\n",
        share_percent(r, results_done_min(r), seconds), share_percent(r, results_done_max(r), seconds),
        histogram_percentile(&all, 99) / 1e3, span->pending_max);
}

void progress_show(struct progress *p, const struct results *r) {
    uint64_t seconds = results_seconds(r), requests = stats_requests(&r->total);
    if (seconds == UINT64_MAX) return; /* the end */
    if (seconds >= p->shown_s + PROGRESS_S) {
        take_away(p);
        print_line(r, &p->span, seconds, (double)stats_requests(&p->span) / (double)(seconds - p->shown_s));
        p->shown_s = seconds;
        stats_clear(&p->span);
    } else if (p->terminal && seconds > p->live_s) {
        take_away(p);
        print_line(r, NULL, seconds, (double)(requests - p->live_requests) / (double)(seconds - p->live_s));
        p->live = true;
    } else return;
    p->live_s = seconds;
    p->live_requests = requests;
    fflush(stdout);
}

void progress_end(struct progress *p) {
    take_away(p);
    fflush(stdout);
}

/* ---- the summary ---- */

/* Bins for people: 5 of them an octave of ten, in us. */
static double bin_edge(int i) {
    static const double steps[] = {1, 1.5, 2, 3, 4, 6, 8};
    int n = sizeof steps / sizeof *steps;
    return i < 0 ? 0 : steps[i % n] * pow(10, i / n);
}

/* Values below limit_us, by the bins that end before it. */
static uint64_t below(const struct histogram *h, double limit_us) {
    uint64_t sum = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BINS && (double)histogram_bin_end(i) <= limit_us * 1e3; i++) sum += h->bins[i];
    return sum;
}

static void print_histogram(const struct histogram *h) {
    uint64_t before = 0;
    for (int i = 0; before < h->count; i++) {
        double from_us = bin_edge(i - 1), to_us = bin_edge(i);
        uint64_t until = to_us * 1e3 > (double)h->max ? h->count : below(h, to_us), count = until - before;
        before = until;
        if (!count) continue;
        double percent = 100 * (double)count / (double)h->count;
        printf("[%8.0f, %8.0f ) %10" PRIu64 " %7.3f%% %7.3f%% %.*s\n", i ? from_us : 0, to_us, count, percent,
            100 * (double)until / (double)h->count, (int)(percent / 5 + 0.5), "####################");
    }
}

static void print_latency(const struct histogram *h) {
    static const double percents[] = {50, 90, 99, 99.9, 99.99};
    printf("Latency summary, all times are in usec:\n");
    printf("Count: %" PRIu64 "  Average: %.3f  StdDev: %.3f\n", h->count, histogram_mean(h) / 1e3, histogram_deviation(h) / 1e3);
    printf("Min: %.3f  Median: %.3f  Max: %.3f\n", h->count ? (double)h->min / 1e3 : 0, histogram_percentile(h, 50) / 1e3,
        (double)h->max / 1e3);
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++)
        printf("%sp%g: %.3f", i ? "  " : "", percents[i], histogram_percentile(h, percents[i]) / 1e3);
    printf("\n%s\n", rule);
    print_histogram(h);
    printf("%s\n", rule);
}

static void print_cpu(const struct results *r) {
    double requests = (double)r->latency.count, own = cpu_sum(r->own);
    printf("Own CPU: %.2f s (user %.2f, system %.2f)", own, r->own.user_s, r->own.system_s);
    if (requests > 0) printf(", %.3f us a request; busiest thread: %.0f%%", own * 1e6 / requests, 100 * r->busiest);
    printf("\n");
    double server = r->has_server ? cpu_sum(r->server) : 0;
    if (r->has_server) {
        printf("Server CPU: %.2f s (user %.2f, system %.2f), %.0f%% of a CPU", server, r->server.user_s, r->server.system_s,
            100 * server / r->duration_s);
        if (requests > 0) printf(", %.3f us a request", server * 1e6 / requests);
        printf("\n");
    }
    if (r->busiest > 0.9)
        printf("A thread of this tool was busy all the time: it may be the bottleneck. Give it more CPUs, or a second machine.\n");
}

static void print_troubles(const struct results *r) {
    const struct stats *s = &r->total;
    if (s->errors) {
        printf("Got %" PRIu64 " error responses!", s->errors);
        for (int i = 0; i < ERROR_KINDS && s->kinds[i].count; i++)
            printf("%s %s: %" PRIu64, i ? "," : "", s->kinds[i].word, s->kinds[i].count);
        printf("\n");
    }
    if (r->connections_lost) printf("Lost %u connections\n", r->connections_lost);
    if (r->never_sent)
        printf("%" PRIu64
               " requests were due at the end and not sent: the server did not keep up. Latencies are of those that were answered\n",
            r->never_sent);
    if (r->never_answered) printf("%" PRIu64 " requests were sent and not answered. Latencies are of those that were\n", r->never_answered);
    if (r->interrupted) printf("Interrupted: this is what was done until then\n");
}

void report_summary(const struct results *r) {
    const struct histogram *h = &r->latency;
    double qps = r->duration_s > 0 ? (double)h->count / r->duration_s : 0;
    printf("\nTotal time: %.3fs. Overall number of requests: %" PRIu64 ", QPS: %.0f, P99 lat: %.0fus\n", r->duration_s, h->count, qps,
        histogram_percentile(h, 99) / 1e3);
    print_troubles(r);
    if (h->count) print_latency(h);
    if (r->total.hits + r->total.misses) printf("Hit rate: %.4f%%\n", hit_rate(&r->total));
    print_cpu(r);
    fflush(stdout);
}
