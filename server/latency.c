/* Map: series and how they are put together; LATEST, HISTORY, GRAPH, RESET, DOCTOR; HISTOGRAM; the rows. */
#include "server/latency.h"

#include <mimalloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/clock.h"
#include "server/measure.h"
#include "server/thread.h"

static const char *const event_names[LATENCY_EVENTS] = {"command", "fast-command", "expire-cycle"};

void latency_add(struct measure *m, enum latency_event event, int64_t at_s, uint32_t ms) {
    if (!m->latency && !(m->latency = mi_calloc(LATENCY_EVENTS, sizeof *m->latency))) return;
    struct latency_series *l = &m->latency[event];
    struct latency_sample *last = l->n ? &l->samples[(l->first + l->n - 1) % LATENCY_SAMPLES] : NULL;
    if (ms > l->worst_ms) l->worst_ms = ms;
    if (last && last->at_s == at_s) {
        if (ms > last->ms) last->ms = ms;
        return;
    }
    if (l->n == LATENCY_SAMPLES) l->first = (l->first + 1) % LATENCY_SAMPLES;
    else l->n++;
    l->samples[(l->first + l->n - 1) % LATENCY_SAMPLES] = (struct latency_sample){at_s, ms};
}

/* ---- all threads' series ---- */

/* A piece: all series of a thread as they are, or nothing. */
static enum hop_result series_piece(struct shard *s, struct hop *h, struct reply *r) {
    const struct measure *m = &server.threads[s->id]->measure;
    (void)h;
    if (m->latency) reply_bytes(r, (const char *)m->latency, LATENCY_EVENTS * sizeof *m->latency);
    return HOP_DONE;
}

static int by_time(const void *a, const void *b) {
    const struct latency_sample *x = a, *y = b;
    return x->at_s < y->at_s ? -1 : x->at_s > y->at_s;
}

/* One event's series of all threads as one: of each second the worst; the newest LATENCY_SAMPLES of them. False: no memory. */
static bool series_merge(struct reply *const *pieces, uint32_t n, enum latency_event event, struct latency_series *out) {
    *out = (struct latency_series){0};
    struct latency_sample *all = malloc(n * sizeof out->samples);
    if (!all) return false;
    uint32_t count = 0, kept = 0;
    for (uint32_t i = 0; i < n; i++) {
        struct latency_series l;
        if (pieces[i]->size < (event + 1u) * sizeof l) continue;
        memcpy(&l, pieces[i]->p + event * sizeof l, sizeof l);
        if (l.worst_ms > out->worst_ms) out->worst_ms = l.worst_ms;
        for (uint32_t j = 0; j < l.n; j++) all[count++] = l.samples[(l.first + j) % LATENCY_SAMPLES];
    }
    qsort(all, count, sizeof *all, by_time);
    for (uint32_t i = 0; i < count; i++) {
        if (!kept || all[kept - 1].at_s != all[i].at_s) all[kept++] = all[i];
        else if (all[kept - 1].ms < all[i].ms) all[kept - 1].ms = all[i].ms;
    }
    out->n = kept < LATENCY_SAMPLES ? kept : LATENCY_SAMPLES;
    memcpy(out->samples, all + kept - out->n, out->n * sizeof *all);
    free(all);
    return true;
}

static int event_named(const struct arg *a) {
    for (int i = 0; i < LATENCY_EVENTS; i++)
        if (arg_is(a, event_names[i])) return i;
    return -1;
}

static void latest_merge(const struct hop *h, struct reply *const *pieces, uint32_t n, struct reply *r) {
    struct latency_series all[LATENCY_EVENTS];
    size_t events = 0;
    (void)h;
    for (int i = 0; i < LATENCY_EVENTS; i++) {
        if (!series_merge(pieces, n, (enum latency_event)i, &all[i])) {
            reply_no_memory(r);
            return;
        }
        events += all[i].n != 0;
    }
    reply_array(r, events);
    for (int i = 0; i < LATENCY_EVENTS; i++) {
        const struct latency_series *l = &all[i];
        if (!l->n) continue;
        reply_array(r, 4);
        reply_bulk_text(r, event_names[i]);
        reply_int(r, l->samples[l->n - 1].at_s);
        reply_int(r, l->samples[l->n - 1].ms);
        reply_int(r, l->worst_ms);
    }
}

static void history_merge(const struct hop *h, struct reply *const *pieces, uint32_t n, struct reply *r) {
    struct latency_series l = {0};
    int event = event_named(&h->argv[2]);
    if (event >= 0 && !series_merge(pieces, n, (enum latency_event)event, &l)) {
        reply_no_memory(r);
        return;
    }
    reply_array(r, l.n);
    for (uint32_t i = 0; i < l.n; i++) {
        reply_array(r, 2);
        reply_int(r, l.samples[i].at_s);
        reply_int(r, l.samples[i].ms);
    }
}

/* ---- GRAPH ---- */

#define GRAPH_ROWS 4
#define GRAPH_LABEL 8

/* "12s", "3m", "2h" or "1d" ago. */
static void ago(int64_t s, char out[GRAPH_LABEL]) {
    static const struct {
        int64_t s;
        char unit;
    } units[] = {{86400, 'd'}, {3600, 'h'}, {60, 'm'}, {1, 's'}};
    size_t i = 0;
    if (s < 0) s = 0;
    while (i < 3 && s < units[i].s) i++;
    snprintf(out, GRAPH_LABEL, "%d%c", (int)(s / units[i].s % 10000), units[i].unit);
}

/* The character of a sample in a row (counted from the top): '#' for its upper end, '|' below that, '_' on the ground. */
static char graph_mark(uint32_t ms, uint32_t low, uint32_t high, int row) {
    int height = high > low ? (int)((uint64_t)(ms - low) * (3 * GRAPH_ROWS - 1) / (high - low)) : 0;
    int above = height - 3 * (GRAPH_ROWS - 1 - row);
    if (above < 0) return ' ';
    if (above > 2) return '|';
    return above == 0 ? '_' : above == 1 ? 'o' : '#';
}

static void graph_merge(const struct hop *h, struct reply *const *pieces, uint32_t n, struct reply *r) {
    struct latency_series l = {0};
    int event = event_named(&h->argv[2]);
    int64_t now_s = now_realtime_ms() / 1000;
    char text[(LATENCY_SAMPLES + 1) * (GRAPH_ROWS + GRAPH_LABEL) + 256];
    uint32_t low = UINT32_MAX, high = 0;
    if (event >= 0 && !series_merge(pieces, n, (enum latency_event)event, &l)) {
        reply_no_memory(r);
        return;
    }
    if (!l.n) {
        reply_errorf(r, "ERR No samples available for event '%.*s'", (int)(h->argv[2].size < 128 ? h->argv[2].size : 128), h->argv[2].p);
        return;
    }
    for (uint32_t i = 0; i < l.n; i++) {
        if (l.samples[i].ms < low) low = l.samples[i].ms;
        if (l.samples[i].ms > high) high = l.samples[i].ms;
    }
    size_t at = (size_t)snprintf(
        text, sizeof text, "%s - high %u ms, low %u ms (all time high %u ms)\n", event_names[event], high, low, l.worst_ms);
    memset(text + at, '-', 80);
    at += 80;
    text[at++] = '\n';
    for (int row = 0; row < GRAPH_ROWS; row++) {
        for (uint32_t i = 0; i < l.n; i++) text[at++] = graph_mark(l.samples[i].ms, low, high, row);
        text[at++] = '\n';
    }
    text[at++] = '\n';
    for (size_t row = 0; row < GRAPH_LABEL - 1; row++) {
        bool any = false;
        size_t start = at;
        for (uint32_t i = 0; i < l.n; i++) {
            char label[GRAPH_LABEL];
            ago(now_s - l.samples[i].at_s, label);
            bool has = strlen(label) > row;
            any |= has;
            text[at++] = has ? label[row] : ' ';
        }
        text[at++] = '\n';
        if (any) continue;
        at = start;
        break;
    }
    reply_verbatim(r, "txt", text, at);
}

/* ---- RESET ---- */

static bool chosen(const struct hop *h, int event) {
    for (uint32_t i = 2; i < h->argc; i++)
        if (arg_is(&h->argv[i], event_names[event])) return true;
    return h->argc == 2;
}

/* A piece: a byte an event, 1 if there was something to forget. */
static enum hop_result reset_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct measure *m = &server.threads[s->id]->measure;
    char had[LATENCY_EVENTS] = {0};
    for (int i = 0; i < LATENCY_EVENTS && m->latency; i++) {
        if (!chosen(h, i)) continue;
        had[i] = m->latency[i].n != 0;
        m->latency[i] = (struct latency_series){0};
    }
    reply_bytes(r, had, sizeof had);
    return HOP_DONE;
}

static void reset_merge(const struct hop *h, struct reply *const *pieces, uint32_t n, struct reply *r) {
    int64_t count = 0;
    (void)h;
    for (size_t i = 0; i < LATENCY_EVENTS; i++) {
        bool had = false;
        for (uint32_t j = 0; j < n; j++) had |= pieces[j]->size > i && pieces[j]->p[i];
        count += had;
    }
    reply_int(r, count);
}

/* ---- DOCTOR ---- */

static size_t doctor_event(char *text, size_t size, size_t number, const char *name, const struct latency_series *l) {
    uint64_t sum = 0, off = 0;
    for (uint32_t i = 0; i < l->n; i++) sum += l->samples[i].ms;
    uint64_t mean = sum / l->n;
    for (uint32_t i = 0; i < l->n; i++) off += l->samples[i].ms > mean ? l->samples[i].ms - mean : mean - l->samples[i].ms;
    int64_t span = l->samples[l->n - 1].at_s - l->samples[0].at_s;
    int n = snprintf(text, size,
        "%zu. %s: %u latency spikes (average %llums, mean deviation %llums, period %.2f sec). Worst all time event %ums.\n", number, name,
        l->n, (unsigned long long)mean, (unsigned long long)(off / l->n), (double)span / l->n, l->worst_ms);
    return n < 0 ? 0 : (size_t)n < size ? (size_t)n : size - 1;
}

static void doctor_merge(const struct hop *h, struct reply *const *pieces, uint32_t n, struct reply *r) {
    static const char *const advice[LATENCY_EVENTS] = {
        "- Check your Slow Log to understand what are the commands you are running which are too slow to execute. See SLOWLOG GET.\n"
        "- Commands over many keys or on very large values are slow in themselves: ask for less at a time (SCAN instead of KEYS, GETRANGE "
        "instead of GET).\n",
        "- Commands that should be fast were not: look whether the machine is overloaded or swaps, and whether it gives each thread a CPU "
        "of its own.\n",
        "- Expiry took long at a time: lower housekeeping-percent, and look whether the machine is overloaded.\n"};
    char text[4096];
    size_t at = 0, events = 0;
    bool had[LATENCY_EVENTS] = {0};
    int64_t threshold = config_current()->latency_monitor_threshold_ms;
    (void)h;
    for (int i = 0; i < LATENCY_EVENTS; i++) {
        struct latency_series l;
        if (!series_merge(pieces, n, (enum latency_event)i, &l)) {
            reply_no_memory(r);
            return;
        }
        if (!l.n) continue;
        had[i] = true;
        if (!events++) at += (size_t)snprintf(text, sizeof text, "These are the latency spikes that were seen, by kind of event:\n\n");
        at += doctor_event(text + at, sizeof text - at, events, event_names[i], &l);
    }
    if (events) at += (size_t)snprintf(text + at, sizeof text - at, "\nWhat to look at:\n\n");
    for (int i = 0; i < LATENCY_EVENTS; i++)
        if (had[i]) at += (size_t)snprintf(text + at, sizeof text - at, "%s", advice[i]);
    if (!events && !threshold)
        at = (size_t)snprintf(text, sizeof text,
            "Latency monitoring is disabled in this instance. You may use \"CONFIG SET latency-monitor-threshold <milliseconds>.\" in "
            "order to enable it.\n");
    else if (!events)
        at = (size_t)snprintf(text, sizeof text,
            "No latency spike of %lld ms or more was observed since the start or the last LATENCY RESET.\n", (long long)threshold);
    reply_verbatim(r, "txt", text, at);
}

/* ---- HISTOGRAM ---- */

/* A piece: of each command asked for that has times, this. */
struct times {
    uint32_t row;
    uint64_t calls;
    struct histogram histogram;
};

/* Asked for: by its own name or its container's, or all are. */
static bool asked_for(const struct hop *h, const struct command *row) {
    char name[COMMAND_FULL_NAME];
    command_full_name(row, name);
    for (uint32_t i = 2; i < h->argc; i++)
        if (arg_is(&h->argv[i], name) || (row->parent && arg_is(&h->argv[i], row->parent->name))) return true;
    return h->argc == 2;
}

static enum hop_result histogram_piece(struct shard *s, struct hop *h, struct reply *r) {
    const struct measure *m = &server.threads[s->id]->measure;
    for (uint32_t i = 1; i < COMMAND_ROWS_MAX; i++) {
        const struct command_stats *c = &m->commands[i];
        if (!c->histogram || !asked_for(h, command_by_number((uint16_t)i))) continue;
        struct times times = {.row = i, .calls = c->calls, .histogram = *c->histogram};
        reply_bytes(r, (const char *)&times, sizeof times);
    }
    return HOP_DONE;
}

#define HISTOGRAM_POWERS 28 /* from 1,024 ns: up to 137 s */

/* Counts up to each power of two, where they grow; as in Redis, where a limit is the upper end of a bucket of an HDR histogram of two digits. Times
 * are a sample: they are scaled to all calls. */
static void reply_times(struct reply *r, const struct times *t, double ns_per_cycle) {
    uint64_t counts[HISTOGRAM_POWERS] = {0}, before = 0;
    size_t n = 0;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        double ns = (double)histogram_upper(i) * ns_per_cycle;
        int power = 0;
        while (power < HISTOGRAM_POWERS - 1 && ns > (double)(1024ull << power)) power++;
        counts[power] += t->histogram.counts[i];
    }
    for (int i = 1; i < HISTOGRAM_POWERS; i++) counts[i] += counts[i - 1];
    for (int i = 0; i < HISTOGRAM_POWERS; i++) {
        counts[i] = t->histogram.n ? (uint64_t)((double)counts[i] * (double)t->calls / (double)t->histogram.n + 0.5) : 0;
        n += counts[i] > (i ? counts[i - 1] : 0);
    }
    reply_map(r, 2);
    reply_bulk_text(r, "calls");
    reply_int(r, (int64_t)t->calls);
    reply_bulk_text(r, "histogram_usec");
    reply_map(r, n);
    for (int i = 0; i < HISTOGRAM_POWERS; before = counts[i++]) {
        uint64_t limit_ns = 1024ull << i;
        if (counts[i] <= before) continue;
        reply_int(r, (int64_t)((limit_ns + limit_ns / 128 - 1) / 1000));
        reply_int(r, (int64_t)counts[i]);
    }
}

static void histogram_reply(const struct hop *h, struct reply *const *pieces, uint32_t n, struct reply *r) {
    struct times **rows = calloc(COMMAND_ROWS_MAX, sizeof *rows), one;
    size_t count = 0;
    double ns = measure_ns_per_cycle();
    (void)h;
    for (uint32_t i = 0; rows && i < n; i++) {
        for (size_t at = 0; at + sizeof one <= pieces[i]->size; at += sizeof one) {
            memcpy(&one, pieces[i]->p + at, sizeof one);
            struct times **to = &rows[one.row];
            if (!*to && (*to = calloc(1, sizeof **to))) count++;
            if (!*to) continue;
            (*to)->row = one.row;
            (*to)->calls += one.calls;
            histogram_merge(&(*to)->histogram, &one.histogram);
        }
    }
    if (!rows) {
        reply_no_memory(r);
        return;
    }
    reply_map(r, count);
    for (uint32_t i = 1; i < COMMAND_ROWS_MAX; i++) {
        char name[80];
        const struct command *row = command_by_number((uint16_t)i);
        if (!rows[i]) continue;
        snprintf(name, sizeof name, "%s%s%s", row->parent ? row->parent->name : "", row->parent ? "|" : "", row->name);
        reply_bulk_text(r, name);
        reply_times(r, rows[i], ns);
        free(rows[i]);
    }
    free(rows);
}

/* ---- the rows ---- */

const char *const latency_help[] = {"DOCTOR", "    Return a human readable latency analysis report.", "GRAPH <event>",
    "    Return an ASCII latency graph for the <event> class.", "HISTORY <event>", "    Return time-latency samples for the <event> class.",
    "LATEST", "    Return the latest latency samples for all events.", "RESET [<event> ...]",
    "    Reset latency data of one or more <event> classes.", "    (default: reset all data for all event classes)",
    "HISTOGRAM [COMMAND ...]",
    "    Return a cumulative distribution of latencies in the format of a histogram for the specified command names.",
    "    If no commands are specified then all histograms are replied.", NULL};

#define FLAGS (CMD_ADMIN | CMD_NOSCRIPT | CMD_LOADING | CMD_STALE)
static const char *const ask_all[] = {"nondeterministic_output", "request_policy:all_nodes", "response_policy:special", NULL};
static const char *const tell_all[] = {"request_policy:all_nodes", "response_policy:all_succeeded", NULL};

const struct command latency_subcommands[] = {{.name = "doctor",
                                                  .since = "2.8.13",
                                                  .summary = "Return a human readable latency analysis report.",
                                                  .complexity = "O(1)",
                                                  .arity = 2,
                                                  .plan = PLAN_ALL,
                                                  .merge = MERGE_CUSTOM,
                                                  .flags = FLAGS,
                                                  .on_shard = series_piece,
                                                  .on_beside = series_piece,
                                                  .merge_custom = doctor_merge,
                                                  .hints = ask_all},
    {.name = "graph",
        .since = "2.8.13",
        .summary = "Return a latency graph for the event.",
        .complexity = "O(1)",
        .arity = 3,
        .plan = PLAN_ALL,
        .merge = MERGE_CUSTOM,
        .flags = FLAGS,
        .on_shard = series_piece,
        .on_beside = series_piece,
        .merge_custom = graph_merge,
        .hints = ask_all},
    {.name = "histogram",
        .since = "7.0.0",
        .summary = "Return the cumulative distribution of latencies of a subset of commands or all.",
        .complexity = "O(N) where N is the number of commands with latency information being retrieved.",
        .arity = -2,
        .plan = PLAN_ALL,
        .merge = MERGE_CUSTOM,
        .flags = FLAGS,
        .on_shard = histogram_piece,
        .on_beside = histogram_piece,
        .merge_custom = histogram_reply,
        .hints = ask_all},
    {.name = "reset",
        .since = "2.8.13",
        .summary = "Reset latency data for one or more events.",
        .complexity = "O(1)",
        .arity = -2,
        .plan = PLAN_ALL,
        .merge = MERGE_CUSTOM,
        .flags = FLAGS,
        .on_shard = reset_piece,
        .on_beside = reset_piece,
        .merge_custom = reset_merge,
        .hints = tell_all},
    {.name = "history",
        .since = "2.8.13",
        .summary = "Return timestamp-latency samples for the event.",
        .complexity = "O(1)",
        .arity = 3,
        .plan = PLAN_ALL,
        .merge = MERGE_CUSTOM,
        .flags = FLAGS,
        .on_shard = series_piece,
        .on_beside = series_piece,
        .merge_custom = history_merge,
        .hints = ask_all},
    {.name = "help",
        .since = "2.8.13",
        .summary = "Show helpful text about the different subcommands.",
        .complexity = "O(1)",
        .arity = 2,
        .flags = CMD_LOADING | CMD_STALE},
    {.name = "latest",
        .since = "2.8.13",
        .summary = "Return the latest latency samples for all events.",
        .complexity = "O(1)",
        .arity = 2,
        .plan = PLAN_ALL,
        .merge = MERGE_CUSTOM,
        .flags = FLAGS,
        .on_shard = series_piece,
        .on_beside = series_piece,
        .merge_custom = latest_merge,
        .hints = ask_all},
    {0}};
