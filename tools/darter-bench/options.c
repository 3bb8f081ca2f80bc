/* The table of flags, and reading the command line by it: see options.h. */
#include "tools/darter-bench/options.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum kind { NUMBER, SIGNED, REAL, YES_NO, TEXT, SIZES, RATIO, DISTRIBUTION, IO, PLOT, IGNORED_YES_NO, IGNORED_TEXT };

struct flag {
    const char *name;
    enum kind kind;
    size_t at;       /* in struct options */
    double from, to; /* of a number; UINT64_MAX rounds to 2^64, which stands for it */
    const char *standard, *help;
};

#define AT(field) offsetof(struct options, field)
#define U32 4294967295.0
#define U64 18446744073709551616.0

static const struct flag flags[] = {
    {"h", TEXT, AT(host), 0, 0, "localhost", "Server: a name or an address"},
    {"p", NUMBER, AT(port), 1, 65535, "6379", "Its port"},
    {"unix", TEXT, AT(unix_path), 0, 0, "", "Path of the server's Unix socket, instead of -h and -p"},
    {"user", TEXT, AT(user), 0, 0, "", "User name for AUTH; needs --password"},
    {"password", TEXT, AT(password), 0, 0, "", "Password for AUTH, on each connection"},
    {"tcp_nodelay", YES_NO, AT(tcp_nodelay), 0, 0, "false", "Set TCP_NODELAY"},
    {"greet", YES_NO, AT(greet), 0, 0, "true", "Send PING on each connection before the start, and end if the reply is an error"},
    {"connect_only", YES_NO, AT(connect_only), 0, 0, "false", "Only connect, and stay connected for --test_time seconds"},
    {"proactor_threads", NUMBER, AT(threads), 0, 1024, "0", "Threads of this tool; 0: one for each CPU it may use"},
    {"c", NUMBER, AT(connections), 1, 1000000, "20", "Connections a thread"},
    {"n", NUMBER, AT(requests), 1, U64, "1000", "Requests a connection"},
    {"test_time", NUMBER, AT(test_time_s), 0, 31536000, "0", "Run for this many seconds instead of -n requests; 0: by -n"},
    {"qps", SIGNED, AT(qps), -1e9, 1e9, "20",
        "Requests a second and connection, sent at their time whether or not replies came (a negative number: the same). Latency counts "
        "from "
        "the scheduled time. 0: the next request follows a reply, as fast as they come, which hides queueing"},
    {"pipeline", NUMBER, AT(pipeline), 1, 1000000, "1", "With --qps=0: requests a connection has on the way at a time"},
    {"d", SIZES, AT(size_min), 0, 0, "16", "Bytes of a value: a number, or min:max to draw each from that range"},
    {"ratio", RATIO, AT(ratio_set), 0, 0, "1:10", "SET:GET; which one comes next is drawn by it"},
    {"command", TEXT, AT(command), 0, 0, "",
        "Send this instead of SET and GET; __key__, __data__ and __score__ are replaced in each request, quotes keep blanks"},
    {"key_prefix", TEXT, AT(key_prefix), 0, 0, "key:", "A key is this and a number"},
    {"key_minimum", NUMBER, AT(key_minimum), 0, U64, "0", "The least of these numbers"},
    {"key_maximum", NUMBER, AT(key_maximum), 0, U64, "50000000", "The greatest"},
    {"key_dist", DISTRIBUTION, AT(key_dist), 0, 0, "U",
        "Their distribution: U uniform, N normal, Z Zipf, S sequential (each thread walks its part of the range)"},
    {"key_stddev", NUMBER, AT(key_stddev), 0, U64, "0", "Standard deviation of the normal distribution; 0: a sixth of the range"},
    {"zipf_alpha", REAL, AT(zipf_alpha), 0, 100, "0.99", "Exponent of the Zipf distribution; 1 is allowed, 0 is uniform"},
    {"seed", NUMBER, AT(seed), 0, U64, "42", "The same seed makes the same requests"},
    {"random_data", YES_NO, AT(random_data), 0, 0, "true", "Draw values and scores at random; else they count up"},
    {"ascii", YES_NO, AT(ascii), 0, 0, "true", "Random values are letters and digits; else any bytes"},
    {"json_out_file", TEXT, AT(json_out_file), 0, 0, "",
        "Write everything as JSON to this file, in the shape of memtier_benchmark's and more"},
    {"plot", PLOT, AT(plot), 0, 0, "",
        "Draw latency and throughput: in the terminal, and to this SVG file; --plot alone: darter-bench.svg"},
    {"server_pid", NUMBER, AT(server_pid), 0, 4194304, "0", "Tell the CPU that this process, the server on this machine, used a request"},
    {"io", IO, AT(io), 0, 0, "auto", "How to talk to the kernel: auto, uring or epoll"},
    {"help", YES_NO, AT(help), 0, 0, "false", "Show this and end"},
    {"version", YES_NO, AT(version), 0, 0, "false", "Show the version and end"},
    /* What published command lines have beside these. */
    {"probe_cluster", IGNORED_YES_NO, 0, 0, 0, "true", "Accepted; one server is talked to in any case"},
    {"cluster_skip_tags", IGNORED_YES_NO, 0, 0, 0, "true", "Accepted, for the same reason without effect"},
    {"logtostderr", IGNORED_YES_NO, 0, 0, 0, "false", "Accepted; there is no log"},
    {"alsologtostderr", IGNORED_YES_NO, 0, 0, 0, "false", "Accepted; there is no log"},
    {"noreply", IGNORED_YES_NO, 0, 0, 0, "false", "Only false is accepted: it concerns memcached"},
    {"P", IGNORED_TEXT, 0, 0, 0, "", "Only \"\" is accepted: RESP is the only protocol"},
};

enum { FLAGS = sizeof flags / sizeof *flags };

static bool say(char *message, const char *format, ...) __attribute__((format(printf, 2, 3)));

static bool say(char *message, const char *format, ...) {
    va_list list;
    va_start(list, format);
    vsnprintf(message, OPTIONS_MESSAGE_MAX, format, list);
    va_end(list);
    return false;
}

static const struct flag *find(const char *name, size_t size) {
    for (size_t i = 0; i < FLAGS; i++)
        if (strlen(flags[i].name) == size && !memcmp(flags[i].name, name, size)) return &flags[i];
    return NULL;
}

/* ---- values ---- */

/* A whole number of decimal digits. */
static bool whole(const char *text, const char **end, uint64_t *n) {
    if (*text < '0' || *text > '9') return false;
    errno = 0;
    *n = strtoull(text, (char **)end, 10);
    return !errno;
}

static void range_text(const struct flag *f, char text[64]) {
    if (f->to == U64) snprintf(text, 64, "%.0f to 18446744073709551615", f->from);
    else snprintf(text, 64, f->kind == REAL ? "%g to %g" : "%.0f to %.0f", f->from, f->to);
}

static bool read_number(const struct flag *f, void *to, const char *text, char *message) {
    char range[64];
    const char *end = text;
    double value = 0;
    uint64_t n = 0;
    bool negative = f->kind == SIGNED && *text == '-', right;
    if (f->kind == REAL) {
        value = strtod(text, (char **)&end);
        right = end != text && !*end && isfinite(value);
    } else {
        right = whole(text + negative, &end, &n) && !*end;
        value = negative ? -(double)n : (double)n;
    }
    range_text(f, range);
    if (!right || value < f->from || value > f->to)
        return say(message, "--%s=%s: not a %s from %s", f->name, text, f->kind == REAL ? "number" : "whole number", range);
    if (f->kind == REAL) *(double *)to = value;
    else if (f->kind == SIGNED) *(int64_t *)to = negative ? -(int64_t)n : (int64_t)n;
    else *(uint64_t *)to = n;
    return true;
}

/* "a" or "a:b" into to[0] and to[1]. */
static bool read_pair(const char *text, bool one_will_do, uint64_t to[2]) {
    const char *end;
    if (!whole(text, &end, &to[0])) return false;
    to[1] = to[0];
    if (!*end) return one_will_do;
    return *end == ':' && whole(end + 1, &end, &to[1]) && !*end;
}

static bool read_yes_no(const char *text, bool *to) {
    static const char *const words[] = {"false", "true", "no", "yes", "0", "1", "f", "t", "n", "y"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcmp(text, words[i])) continue;
        *to = i & 1;
        return true;
    }
    return false;
}

static bool read_value(struct options *o, const struct flag *f, const char *text, char *message) {
    void *to = (char *)o + f->at;
    uint64_t *pair = to;
    bool ignored;
    switch (f->kind) {
    case NUMBER:
    case SIGNED:
    case REAL: return read_number(f, to, text, message);
    case TEXT: *(const char **)to = text; return true;
    case YES_NO:
        if (!read_yes_no(text, to)) return say(message, "--%s=%s: neither true nor false", f->name, text);
        return true;
    case SIZES:
        if (!read_pair(text, true, pair) || pair[1] < pair[0] || pair[1] > 512u << 20)
            return say(message, "--%s=%s: not a number of bytes, or min:max, from 0 to %u", f->name, text, 512u << 20);
        return true;
    case RATIO:
        if (!read_pair(text, false, pair) || !(pair[0] + pair[1]) || pair[0] > 1000000000 || pair[1] > 1000000000)
            return say(message, "--%s=%s: not set:get, two whole numbers from 0 to 1000000000 that are not both 0", f->name, text);
        return true;
    case DISTRIBUTION:
        if (strlen(text) != 1 || !strchr("UNZS", *text)) return say(message, "--%s=%s: not U, N, Z or S", f->name, text);
        *(char *)to = *text;
        return true;
    case IO:
        if (!strcmp(text, "auto")) o->io = PROACTOR_AUTO;
        else if (!strcmp(text, "uring")) o->io = PROACTOR_URING;
        else if (!strcmp(text, "epoll")) o->io = PROACTOR_EPOLL;
        else return say(message, "--%s=%s: not auto, uring or epoll", f->name, text);
        return true;
    case PLOT: o->plot = *text ? text : NULL; return true;
    case IGNORED_YES_NO:
        if (!read_yes_no(text, &ignored)) return say(message, "--%s=%s: neither true nor false", f->name, text);
        if (!strcmp(f->name, "noreply") && ignored) return say(message, "--noreply concerns memcached, and RESP is the only protocol here");
        return true;
    case IGNORED_TEXT:
        if (*text) return say(message, "-P %s: RESP is the only protocol here", text);
        return true;
    }
    return false;
}

/* ---- the command line ---- */

static bool is_boolean(const struct flag *f) { return f->kind == YES_NO || f->kind == IGNORED_YES_NO; }

/* The flag of one argument, and its value if it has one in the same argument. NULL: there is none. */
static const struct flag *read_name(const char *argument, const char **value) {
    const char *name = argument + 1 + (argument[1] == '-'), *equals = strchr(name, '=');
    size_t size = equals ? (size_t)(equals - name) : strlen(name);
    const struct flag *f = find(name, size);
    *value = equals ? equals + 1 : NULL;
    if (f || equals || strncmp(name, "no", 2)) return f;
    f = find(name + 2, size - 2);
    *value = "false";
    return f && is_boolean(f) ? f : NULL;
}

static bool check_all(const struct options *o, char *message) {
    if (o->key_minimum > o->key_maximum) return say(message, "--key_minimum is above --key_maximum");
    if ((double)(o->qps < 0 ? -o->qps : o->qps) * (double)o->connections > 1e10)
        return say(message, "--qps times -c is more than the 10000000000 requests a second that a thread can plan");
    if (*o->user && !*o->password) return say(message, "--user needs --password");
    return true;
}

bool options_read(struct options *o, int argc, char **argv, char message[OPTIONS_MESSAGE_MAX]) {
    memset(o, 0, sizeof *o);
    for (size_t i = 0; i < FLAGS; i++) read_value(o, &flags[i], flags[i].standard, message);
    for (int i = 1; i < argc; i++) {
        const char *value, *argument = argv[i];
        if (argument[0] != '-' || !argument[1])
            return say(message, "'%s' belongs to no flag (true and false are given as --flag=false, or --noflag)", argument);
        const struct flag *f = read_name(argument, &value);
        if (!f) return say(message, "%s: there is no such flag; --help lists them", argument);
        if (!value && is_boolean(f)) value = "true";
        if (!value && f->kind == PLOT) {
            value = "darter-bench.svg";
            if (i + 1 < argc && argv[i + 1][0] != '-') value = argv[++i];
        } else if (!value) {
            if (i + 1 == argc)
                return say(message, "%s needs a value%s", argument, strcmp(f->name, "h") ? "" : " (the server); --help lists the flags");
            value = argv[++i];
        }
        if (!read_value(o, f, value, message)) return false;
    }
    return check_all(o, message);
}

/* Lines of at most 100 columns, each 6 from the left. */
static void print_wrapped(const char *text) {
    enum { WIDTH = 94 };
    while (*text) {
        size_t n = strlen(text);
        if (n > WIDTH)
            for (n = WIDTH; text[n] != ' ';) n--;
        printf("      %.*s\n", (int)n, text);
        text += n + (text[n] == ' ');
    }
}

void options_help(void) {
    puts("darter-bench: loads a server that speaks RESP (Darter, Redis, Valkey, Dragonfly ...), and tells its latency and throughput.\n"
         "\n"
         "  darter-bench -h 10.0.0.1 -p 6379 -c 10 --qps=1000 --test_time=30        # at a fixed rate: latency as users see it\n"
         "  darter-bench --qps=0 --pipeline=16 --ratio=0:1 -n 100000                # as fast as it goes\n"
         "  darter-bench --command 'zadd board __score__ __key__'\n"
         "\n"
         "A value may follow '=' or stand alone; one dash or two; --noflag is --flag=false.\n");
    for (size_t i = 0; i < FLAGS; i++) {
        const struct flag *f = &flags[i];
        printf("  %s%s (%s)\n", strlen(f->name) == 1 ? "-" : "--", f->name, *f->standard ? f->standard : "\"\"");
        print_wrapped(f->help);
    }
}
