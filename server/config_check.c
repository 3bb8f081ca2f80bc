/* Checks of single directives: they refuse a value, or put it right. Error texts are Redis'. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/config_table.h"
#include "server/service.h"
#include "server/title.h"
#include "shard/entry.h"

bool check_hz(struct config *c, char *why) {
    (void)why;
    c->hz = c->hz < 1 ? 1 : c->hz > 500 ? 500 : c->hz;
    return true;
}

bool check_backlog(struct config *c, char *why) {
    (void)why;
    if (c->repl_backlog_size < 16384) c->repl_backlog_size = 16384;
    return true;
}

static bool is_base_name(const char *text) { return !strpbrk(text, "/\\"); }

bool check_dbfilename(struct config *c, char *why) {
    return is_base_name(c->dbfilename) || directive_wrong(why, "dbfilename can't be a path, just a filename");
}

bool check_appendfilename(struct config *c, char *why) {
    if (!*c->appendfilename) return directive_wrong(why, "appendfilename can't be empty");
    return is_base_name(c->appendfilename) || directive_wrong(why, "appendfilename can't be a path, just a filename");
}

bool check_appenddirname(struct config *c, char *why) {
    if (!*c->appenddirname) return directive_wrong(why, "appenddirname can't be empty");
    return is_base_name(c->appenddirname) || directive_wrong(why, "appenddirname can't be a path, just a dirname");
}

/* Without its users the server would be open to everybody: better no server. */
bool check_aclfile(struct config *c, char *why) {
    return !*c->aclfile || directive_wrong(why, "users are not supported yet, and without the users of this file the server would be open");
}

bool check_hostname(struct config *c, char *why) {
    for (const char *p = c->cluster_announce_hostname; *p; p++)
        if (!isalnum((unsigned char)*p) && *p != '-' && *p != '.')
            return directive_wrong(why, "Hostnames may only contain alphanumeric characters, hyphens or dots");
    return true;
}

bool check_title(struct config *c, char *why) {
    return title_is_good(c) || directive_wrong(why, "template format is invalid or contains unknown variables");
}

/* Each character once, in Redis' order; A stands for all of its classes. */
bool check_events(struct config *c, char *why) {
    static const char classes[] = "g$lshzxetd", all[] = "Ag$lshzxeKEtmdn";
    char *given = c->notify_keyspace_events, out[sizeof c->notify_keyspace_events], *to = out;
    size_t n = 0;
    for (const char *p = given; *p; p++)
        if (!strchr(all, *p)) return directive_wrong(why, "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.");
    for (const char *p = classes; *p; p++) n += strchr(given, *p) != NULL;
    if (strchr(given, 'A') || n == sizeof classes - 1) *to++ = 'A';
    else
        for (const char *p = classes; *p; p++)
            if (strchr(given, *p)) *to++ = *p;
    for (const char *p = "nKEm"; *p; p++)
        if (strchr(given, *p)) *to++ = *p;
    *to = 0;
    strcpy(given, out);
    return true;
}

/* Shown with up to six digits after the point, without zeros at the end. */
bool check_percentiles(struct config *c, char *why) {
    char out[sizeof c->latency_tracking_info_percentiles], *to = out;
    *to = 0;
    for (char *p = c->latency_tracking_info_percentiles; *p; p += *p == ' ') {
        char *end, one[64];
        double v = strtod(p, &end);
        if (end == p || (*end && *end != ' ') || isnan(v))
            return directive_wrong(why, "Invalid latency-tracking-info-percentiles parameters");
        if (v < 0 || v > 100) return directive_wrong(why, "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]");
        int n = snprintf(one, sizeof one, "%.6f", v);
        while (one[n - 1] == '0') n--;
        if (one[n - 1] == '.') n--;
        if ((size_t)(to - out + n + 2) > sizeof out) return directive_wrong(why, "argument too long");
        to += sprintf(to, "%s%.*s", to == out ? "" : " ", n, one);
        p = end;
    }
    strcpy(c->latency_tracking_info_percentiles, out);
    return true;
}

/* The two are one, and Redis shows the first. */
bool check_oom_mode(struct config *c, char *why) {
    (void)why;
    if (c->oom_score_adj == OOM_RELATIVE) c->oom_score_adj = OOM_YES;
    return true;
}

bool check_oom_values(struct config *c, char *why) {
    int n = 0;
    for (const char *p = c->oom_score_adj_values; *p; n++) {
        size_t size = strcspn(p, " ");
        int64_t v;
        if (!parse_int64(p, size, &v) || v < -2000 || v > 2000)
            return directive_wrong(why, "Invalid oom-score-adj-values, elements must be between -2000 and 2000.");
        p += size + (p[size] == ' ');
    }
    return n == 3 || directive_wrong(why, "wrong number of arguments");
}

bool check_replicaof(struct config *c, char *why) {
    int64_t port;
    const char *blank = strchr(c->replicaof, ' ');
    if (!*c->replicaof) return true;
    if (!blank || strchr(blank + 1, ' ')) return directive_wrong(why, "wrong number of arguments");
    if (!strcasecmp(c->replicaof, "no one")) *c->replicaof = 0;
    else if (!parse_int64(blank + 1, strlen(blank + 1), &port) || port < 0 || port > 65535)
        return directive_wrong(why, "Invalid master port");
    return true;
}

bool check_version(struct config *c, char *why) {
    unsigned a, b, d;
    int end = 0;
    const char *text = c->reported_redis_version;
    if (sscanf(text, "%3u.%3u.%3u%n", &a, &b, &d, &end) == 3 && !text[end] && strspn(text, "0123456789.") == (size_t)end) return true;
    return directive_wrong(why, "argument must be a version, three numbers with dots (7.0.15)");
}

/* Each word once, in this order. */
static bool check_shutdown(char *given, char *why) {
    static const char *const words[] = {"default", "save", "nosave", "now", "force"};
    enum { N = sizeof words / sizeof *words, DEFAULT = 0, SAVE = 1, NOSAVE = 2 };
    bool has[N] = {false};
    int n = 0;
    for (const char *p = given; *p; n++) {
        size_t size = strcspn(p, " "), i = 0;
        while (i < N && (strlen(words[i]) != size || strncasecmp(words[i], p, size))) i++;
        if (i == N) return directive_wrong(why, "argument(s) must be one of the following: default, save, nosave, now, force");
        has[i] = true;
        p += size + (p[size] == ' ');
    }
    if (!n) return directive_wrong(why, "argument(s) must be one of the following: default, save, nosave, now, force");
    if (has[SAVE] && has[NOSAVE]) return directive_wrong(why, "shutdown options SAVE and NOSAVE can't be used simultaneously");
    char *to = given;
    for (int i = 0; i < N; i++)
        if (has[i] && (i || n == 1)) to += sprintf(to, "%s%s", to == given ? "" : " ", words[i]);
    if (to == given) strcpy(given, words[DEFAULT]);
    return true;
}

uint32_t config_shutdown_flags(const char *words) {
    static const char *const names[] = {"save", "nosave", "now", "force"}; /* in the order of the flags */
    uint32_t flags = 0;
    while (*words) {
        size_t size = strcspn(words, " ");
        for (uint32_t i = 0; i < sizeof names / sizeof *names; i++)
            if (strlen(names[i]) == size && !strncmp(names[i], words, size)) flags |= 1u << i;
        words += size + (words[size] == ' ');
    }
    return flags;
}

bool check_sigint(struct config *c, char *why) { return check_shutdown(c->shutdown_on_sigint, why); }
bool check_sigterm(struct config *c, char *why) { return check_shutdown(c->shutdown_on_sigterm, why); }
