/* Writing JSON: see json.h. Members are written one a call; what begins an object or ends one says whether a comma is needed. */
#include "tools/darter-bench/json.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

struct json {
    FILE *file;
    bool comma;
    int depth;
};

static void text(struct json *j, const char *s) {
    fputc('"', j->file);
    for (; *s; s++) {
        unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\') fprintf(j->file, "\\%c", c);
        else if (c < ' ') fprintf(j->file, "\\u%04x", c);
        else fputc(c, j->file);
    }
    fputc('"', j->file);
}

static void name(struct json *j, const char *s) {
    fprintf(j->file, "%s\n%*s", j->comma ? "," : "", 2 * j->depth, "");
    j->comma = true;
    if (!s) return; /* an element of an array */
    text(j, s);
    fputs(": ", j->file);
}

static void begin(struct json *j, const char *s, char bracket) {
    if (j->depth) name(j, s);
    fputc(bracket, j->file);
    j->depth++;
    j->comma = false;
}

static void end(struct json *j, char bracket) {
    j->depth--;
    fprintf(j->file, "\n%*s%c", 2 * j->depth, "", bracket);
    j->comma = true;
}

static void put_text(struct json *j, const char *s, const char *value) {
    name(j, s);
    text(j, value);
}

static void put_count(struct json *j, const char *s, uint64_t value) {
    name(j, s);
    fprintf(j->file, "%" PRIu64, value);
}

static void put_number(struct json *j, const char *s, double value) {
    name(j, s);
    fprintf(j->file, "%.6f", value);
}

static void put_bool(struct json *j, const char *s, bool value) {
    name(j, s);
    fputs(value ? "true" : "false", j->file);
}

/* ---- the parts ---- */

static void put_configuration(struct json *j, const struct results *r) {
    const struct options *o = r->run->options;
    char pair[64];
    begin(j, "configuration", '{');
    put_text(j, "server", r->run->address_text);
    put_count(j, "threads", r->run->workers);
    put_count(j, "connections_per_thread", o->connections);
    put_count(j, "requests_per_connection", o->requests);
    put_count(j, "test_time", o->test_time_s);
    put_number(j, "qps_per_connection", (double)o->qps);
    put_count(j, "pipeline", o->pipeline);
    put_count(j, "size_min", o->size_min);
    put_count(j, "size_max", o->size_max);
    snprintf(pair, sizeof pair, "%" PRIu64 ":%" PRIu64, o->ratio_set, o->ratio_get);
    put_text(j, "ratio", pair);
    put_text(j, "command", o->command);
    put_text(j, "key_prefix", o->key_prefix);
    put_count(j, "key_minimum", o->key_minimum);
    put_count(j, "key_maximum", o->key_maximum);
    put_text(j, "key_dist", (char[2]){o->key_dist, 0});
    put_count(j, "key_stddev", o->key_stddev);
    put_number(j, "zipf_alpha", o->zipf_alpha);
    put_count(j, "seed", o->seed);
    put_bool(j, "random_data", o->random_data);
    put_bool(j, "tcp_nodelay", o->tcp_nodelay);
    end(j, '}');
}

static void put_percentiles(struct json *j, const struct histogram *h) {
    static const double percents[] = {50, 90, 95, 99, 99.9, 99.99};
    begin(j, "Percentile Latencies", '{');
    for (size_t i = 0; i < sizeof percents / sizeof *percents; i++) {
        char s[16];
        snprintf(s, sizeof s, "p%.2f", percents[i]);
        put_number(j, s, histogram_percentile(h, percents[i]) / 1e6);
    }
    end(j, '}');
}

static void put_point(struct json *j, uint64_t second, const struct point *p) {
    char s[24];
    snprintf(s, sizeof s, "%" PRIu64, second);
    begin(j, s, '{');
    put_count(j, "Count", p->count);
    put_number(j, "Average Latency", p->mean / 1e6);
    put_number(j, "Min Latency", p->min / 1e6);
    put_number(j, "Max Latency", p->max / 1e6);
    put_number(j, "p50.00", p->p50 / 1e6);
    put_number(j, "p99.00", p->p99 / 1e6);
    put_number(j, "p99.90", p->p999 / 1e6);
    end(j, '}');
}

/* op OPS: all of them. */
static void put_row(struct json *j, const struct results *r, const char *s, int op) {
    const struct histogram *h = op == OPS ? &r->latency : &r->total.latency[op];
    double seconds = r->duration_s > 0 ? r->duration_s : 1;
    begin(j, s, '{');
    put_count(j, "Count", h->count);
    put_number(j, "Ops/sec", (double)h->count / seconds);
    if (op != OP_SET || r->run->custom) { /* a SET neither hits nor misses */
        put_number(j, "Hits/sec", (double)r->total.hits / seconds);
        put_number(j, "Misses/sec", (double)r->total.misses / seconds);
    }
    put_number(j, "Latency", histogram_mean(h) / 1e6);
    put_number(j, "Average Latency", histogram_mean(h) / 1e6);
    put_number(j, "StdDev Latency", histogram_deviation(h) / 1e6);
    put_number(j, "Min Latency", h->count ? (double)h->min / 1e6 : 0);
    put_number(j, "Max Latency", (double)h->max / 1e6);
    if (op == OPS) put_number(j, "KB/sec", (double)(r->total.bytes_in + r->total.bytes_out) / 1024 / seconds);
    put_percentiles(j, h);
    begin(j, "Time-Serie", '{');
    for (uint64_t i = 0; i < r->second_count; i++) put_point(j, i, op == OPS ? &r->seconds[i].all : &r->seconds[i].of[op]);
    end(j, '}');
    end(j, '}');
}

static void put_stats(struct json *j, const struct results *r) {
    begin(j, "ALL STATS", '{');
    begin(j, "Runtime", '{');
    put_count(j, "Start time", (uint64_t)r->started_ms);
    put_count(j, "Finish time", (uint64_t)r->ended_ms);
    put_count(j, "Total duration", (uint64_t)(r->duration_s * 1e3 + 0.5));
    put_text(j, "Time unit", "MILLISECONDS");
    end(j, '}');
    for (int i = 0; i < (r->run->custom ? 1 : OPS); i++) put_row(j, r, results_name(r->run, i), i);
    put_row(j, r, "Totals", OPS);
    end(j, '}');
}

static void put_counts(struct json *j, const struct results *r) {
    const struct stats *s = &r->total;
    begin(j, "counts", '{');
    put_count(j, "requests", r->latency.count);
    put_count(j, "hits", s->hits);
    put_count(j, "misses", s->misses);
    put_count(j, "errors", s->errors);
    put_count(j, "connections_lost", r->connections_lost);
    put_count(j, "never_sent", r->never_sent);
    put_count(j, "never_answered", r->never_answered);
    put_count(j, "max_pending", s->pending_max);
    put_count(j, "bytes_sent", s->bytes_out);
    put_count(j, "bytes_received", s->bytes_in);
    put_bool(j, "interrupted", r->interrupted);
    begin(j, "errors_by_kind", '{');
    for (int i = 0; i < ERROR_KINDS && s->kinds[i].count; i++) put_count(j, s->kinds[i].word, s->kinds[i].count);
    end(j, '}');
    end(j, '}');
}

static void put_cpu(struct json *j, const char *s, const struct cpu_time *t, const struct results *r) {
    begin(j, s, '{');
    put_number(j, "user_s", t->user_s);
    put_number(j, "system_s", t->system_s);
    put_number(j, "us_per_request", r->latency.count ? cpu_sum(*t) * 1e6 / (double)r->latency.count : 0);
    if (t == &r->own) put_number(j, "busiest_thread", r->busiest);
    end(j, '}');
}

/* Every bin that is not empty: from, to (us), count. */
static void put_histogram(struct json *j, const struct histogram *h) {
    begin(j, "histogram_us", '[');
    for (uint32_t i = 0; i < HISTOGRAM_BINS; i++) {
        if (!h->bins[i]) continue;
        name(j, NULL);
        fprintf(j->file, "[%.3f, %.3f, %" PRIu64 "]", (double)histogram_bin_start(i) / 1e3, (double)histogram_bin_end(i) / 1e3, h->bins[i]);
    }
    end(j, ']');
}

int json_write(const struct results *r, const char *path) {
    struct json j = {.file = fopen(path, "w")};
    if (!j.file) return -errno;
    begin(&j, NULL, '{');
    put_text(&j, "tool", "darter-bench " DARTER_VERSION);
    put_configuration(&j, r);
    put_stats(&j, r);
    put_counts(&j, r);
    put_cpu(&j, "own_cpu", &r->own, r);
    if (r->has_server) put_cpu(&j, "server_cpu", &r->server, r);
    put_histogram(&j, &r->latency);
    end(&j, '}');
    fputc('\n', j.file);
    int error = ferror(j.file) ? -EIO : 0;
    if (fclose(j.file) && !error) error = -errno;
    return error;
}
