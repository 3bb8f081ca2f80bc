/* Drawing: see plot.h. */
#include "tools/darter-bench/plot.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { COLUMNS = 72, ROWS = 10, SECONDS_MAX = 600 };

/* ---- what is drawn ---- */

/* A row of columns, each the height of its value. */
struct columns {
    unsigned count;
    double values[COLUMNS], most;
    double from, to; /* what the axis says at both ends */
};

/* Shares (%) of all requests by latency (us): columns of equal width on a logarithmic axis. */
static struct columns latency_columns(const struct histogram *h) {
    double low = log((double)(h->min ? h->min : 1)), high = log((double)h->max + 1), width = (high - low) / COLUMNS;
    struct columns c = {.count = COLUMNS, .from = exp(low) / 1e3, .to = exp(high) / 1e3};
    for (uint32_t i = 0; i < HISTOGRAM_BINS; i++) {
        if (!h->bins[i]) continue;
        /* A bin may be wider than a column, where values are few and small: then it is spread. */
        double start = log((double)histogram_bin_start(i) + 1e-9), end = log((double)histogram_bin_end(i));
        if (start < low) start = low;
        if (end > high) end = high;
        int first = (int)((start - low) / width), last = (int)ceil((end - low) / width) - 1;
        if (first > COLUMNS - 1) first = COLUMNS - 1;
        if (last > COLUMNS - 1) last = COLUMNS - 1;
        if (last < first) last = first;
        for (int k = first; k <= last; k++) c.values[k] += 100 * (double)h->bins[i] / (double)h->count / (last - first + 1);
    }
    for (unsigned i = 0; i < c.count; i++) c.most = c.values[i] > c.most ? c.values[i] : c.most;
    return c;
}

/* Full seconds: of the last one only a part was used, and its rate would be none. */
static uint64_t whole_seconds(const struct results *r) {
    uint64_t n = r->second_count;
    return n > 1 && (double)n > r->duration_s ? n - 1 : n;
}

static double rate_of(const struct second *s) { return (double)s->all.count; }
static double p99_of(const struct second *s) { return s->all.p99 / 1e3; }

/* A figure of every second, or the mean of several where there are more seconds than columns. */
static struct columns time_columns(const struct results *r, double (*figure)(const struct second *)) {
    uint64_t n = whole_seconds(r);
    struct columns c = {.count = n < COLUMNS ? (unsigned)n : COLUMNS, .to = (double)n};
    for (unsigned i = 0; i < c.count; i++) {
        uint64_t first = n * i / c.count, end = n * (i + 1) / c.count;
        for (uint64_t k = first; k < end; k++) c.values[i] += figure(&r->seconds[k]) / (double)(end - first);
        if (c.values[i] > c.most) c.most = c.values[i];
    }
    return c;
}

/* A figure on an axis: whole where it is large, else three digits. */
static const char *label_of(double value, const char *unit, char label[48]) {
    snprintf(label, 48, value >= 100 ? "%.0f%s" : "%.3g%s", value, unit);
    return label;
}

/* ---- in the terminal ---- */

static void draw_columns(const struct columns *c, const char *title, const char *unit) {
    static const char *const eighths[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
    unsigned width = c->count && c->count <= COLUMNS / 2 ? COLUMNS / c->count : 1;
    if (width > 6) width = 6;
    printf("\n%s\n", title);
    for (int row = ROWS - 1; row >= 0; row--) {
        char label[48] = "";
        if (row == ROWS - 1 || row == ROWS / 2) label_of(c->most * (row + 1) / ROWS, "", label);
        printf("%10s |", label);
        for (unsigned i = 0; i < c->count; i++) {
            double level = c->most > 0 ? c->values[i] / c->most * ROWS * 8 - row * 8 : 0;
            for (unsigned k = 0; k < width; k++) fputs(eighths[level >= 8 ? 8 : level > 0 ? (int)ceil(level) : 0], stdout);
        }
        putchar('\n');
    }
    char from[48], to[48];
    label_of(c->from, "", from);
    label_of(c->to, unit, to);
    int room = (int)(c->count * width) - (int)strlen(from);
    printf("%10s +%s%*s\n", "", from, room > (int)strlen(to) ? room : (int)strlen(to) + 1, to);
}

void plot_terminal(const struct results *r) {
    if (!r->latency.count) return;
    struct columns latency = latency_columns(&r->latency), rate = time_columns(r, rate_of), p99 = time_columns(r, p99_of);
    draw_columns(&latency, "Latency: % of requests (logarithmic axis)", " us");
    if (rate.count < 2) return; /* nothing goes on over one second */
    draw_columns(&rate, "Throughput: requests a second", " s");
    draw_columns(&p99, "p99 latency: us", " s");
    fflush(stdout);
}

/* ---- as SVG ---- */

enum { WIDTH = 800, PANEL = 200, GAP = 70, LEFT = 80, RIGHT = 20, TOP = 50 };

static void text_at(FILE *f, double x, double y, const char *anchor, const char *text) {
    fprintf(f, "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"%s\">", x, y, anchor);
    for (; *text; text++) fprintf(f, *text == '<' ? "&lt;" : *text == '&' ? "&amp;" : "%c", *text);
    fputs("</text>\n", f);
}

static double panel_top(int panel) { return TOP + panel * (PANEL + GAP); }

/* Frame, title, and the value axis: four lines. */
static void frame(FILE *f, int panel, const char *title, double most) {
    double top = panel_top(panel);
    char label[48];
    fprintf(f, "<g class=\"title\">");
    text_at(f, LEFT, top - 10, "start", title);
    fprintf(f, "</g>\n");
    for (int i = 0; i <= 4; i++) {
        double y = top + PANEL - PANEL * i / 4.0;
        fprintf(f, "<line class=\"grid\" x1=\"%d\" y1=\"%.1f\" x2=\"%d\" y2=\"%.1f\"/>\n", LEFT, y, WIDTH - RIGHT, y);
        text_at(f, LEFT - 8, y + 4, "end", label_of(most * i / 4, "", label));
    }
}

static void svg_latency(FILE *f, const struct results *r) {
    struct columns c = latency_columns(&r->latency);
    double top = panel_top(0), width = (double)(WIDTH - LEFT - RIGHT) / COLUMNS, low = log(c.from), high = log(c.to);
    char label[48], mark[64];
    frame(f, 0, "Latency: % of requests by us (logarithmic)", c.most);
    for (unsigned i = 0; i < c.count; i++) {
        double height = c.values[i] / c.most * PANEL;
        if (height > 0)
            fprintf(f, "<rect class=\"bar\" x=\"%.1f\" y=\"%.1f\" width=\"%.1f\" height=\"%.1f\"/>\n", LEFT + i * width,
                top + PANEL - height, width - 1, height);
    }
    for (double at = pow(10, ceil(low / log(10) - 1e-9)); at <= c.to; at *= 10) {
        text_at(f, LEFT + (log(at) - low) / (high - low) * (WIDTH - LEFT - RIGHT), top + PANEL + 16, "middle", label_of(at, "", label));
    }
    static const double marks[] = {50, 99, 99.9};
    for (size_t i = 0; i < sizeof marks / sizeof *marks; i++) {
        double us = histogram_percentile(&r->latency, marks[i]) / 1e3, x = LEFT + (log(us) - low) / (high - low) * (WIDTH - LEFT - RIGHT);
        fprintf(f, "<line class=\"mark\" x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\"/>\n", x, top, x, top + PANEL);
        snprintf(mark, sizeof mark, "p%g %s", marks[i], label_of(us, "", label));
        text_at(f, x - 3, top + 12 + 14 * (double)i, "end", mark);
    }
}

/* Points that the picture cannot tell apart are left out. */
static void svg_over_time(FILE *f, const struct results *r, int panel, const char *title, double (*figure)(const struct second *)) {
    uint64_t n = whole_seconds(r), step = n / SECONDS_MAX + 1;
    double top = panel_top(panel), most = 0;
    char label[48];
    for (uint64_t i = 0; i < n; i++) most = figure(&r->seconds[i]) > most ? figure(&r->seconds[i]) : most;
    frame(f, panel, title, most);
    fprintf(f, "<polyline class=\"curve\" points=\"");
    for (uint64_t i = 0; i < n; i += step)
        fprintf(f, "%.1f,%.1f ", LEFT + ((double)i + 0.5) / (double)n * (WIDTH - LEFT - RIGHT),
            top + PANEL - (most > 0 ? figure(&r->seconds[i]) / most * PANEL : 0));
    fprintf(f, "\"/>\n");
    for (int i = 0; i <= 4; i++) {
        text_at(
            f, LEFT + (WIDTH - LEFT - RIGHT) * i / 4.0, top + PANEL + 16, "middle", label_of((double)n * i / 4, i == 4 ? " s" : "", label));
    }
}

int plot_svg(const struct results *r, const char *path) {
    FILE *f = fopen(path, "w");
    if (!f) return -errno;
    int height = (int)panel_top(3);
    char title[256];
    fprintf(f,
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n"
        "<style>.bar{fill:#3b76af}.curve{fill:none;stroke:#3b76af;stroke-width:2}.grid{stroke:#ddd}.mark{stroke:#c33;stroke-dasharray:4 3}"
        ".title{font-weight:bold}</style>\n<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
        WIDTH, height);
    snprintf(
        title, sizeof title, "darter-bench: %s, %" PRIu64 " requests in %.1f s", r->run->address_text, r->latency.count, r->duration_s);
    text_at(f, LEFT, 20, "start", title);
    if (r->latency.count) {
        svg_latency(f, r);
        svg_over_time(f, r, 1, "Throughput: requests a second", rate_of);
        svg_over_time(f, r, 2, "p99 latency: us", p99_of);
    }
    fprintf(f, "</svg>\n");
    int error = ferror(f) ? -EIO : 0;
    if (fclose(f) && !error) error = -errno;
    return error;
}
