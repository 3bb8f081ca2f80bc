/* Reading the configuration at start: a file in redis.conf's format, then arguments (--name value ...). */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/config_table.h"
#include "server/log.h"
#include "server/version.h"

#define WORDS_MAX 64

static void help(void) {
    printf("darter %s: an in-memory datastore that speaks RESP\n\n"
           "usage: darter [FILE] [--directive value ...]\n"
           "       darter --help | --version\n\n"
           "FILE is in redis.conf's format. Directives (default):\n\n",
        DARTER_VERSION);
    for (const struct directive *d = directives; d->name; d++)
        printf("  --%s (%s)\n      %s\n", d->name, *d->fall_back ? d->fall_back : "\"\"", d->doc);
}

/* Splits a line into words as Redis does: quotes, and escapes in double quotes. Words are written into buffer. -1: unbalanced quotes. */
static int split(const char *p, char *buffer, char **words) {
    int n = 0;
    for (;;) {
        while (isspace((unsigned char)*p)) p++;
        if (!*p) return n;
        if (n == WORDS_MAX) return -1;
        words[n++] = buffer;
        char quote = *p == '"' || *p == '\'' ? *p++ : 0;
        for (; *p && (quote ? *p != quote : !isspace((unsigned char)*p)); p++) {
            if (quote == '"' && *p == '\\' && p[1]) {
                static const char from[] = "nrtba", to[] = "\n\r\t\b\a";
                unsigned hex;
                if (p[1] == 'x' && isxdigit((unsigned char)p[2]) && isxdigit((unsigned char)p[3]) && sscanf(p + 2, "%2x", &hex) == 1) {
                    *buffer++ = (char)hex;
                    p += 3;
                    continue;
                }
                const char *f = strchr(from, *++p);
                *buffer++ = f ? to[f - from] : *p;
            } else if (quote == '\'' && *p == '\\' && p[1] == '\'') *buffer++ = *++p;
            else *buffer++ = *p;
        }
        if (quote && *p++ != quote) return -1;
        if (quote && *p && !isspace((unsigned char)*p)) return -1;
        *buffer++ = 0;
    }
}

static void add_value(char *values, size_t size, const char *word) {
    size_t n = strlen(values);
    snprintf(values + n, size - n, "%s%s", n ? " " : "", word);
}

static const char *apply(struct config *c, const char *name, const char *value, char *why, size_t size) {
    const struct directive *d = directive_find(name);
    if (!d) {
        snprintf(why, size, "Bad directive or wrong number of arguments");
        return why;
    }
    return directive_read(d, c, value, why, size);
}

static int load_file(struct config *c, const char *path) {
    FILE *f = fopen(path, "r");
    if (!f) {
        fprintf(stderr, "darter: can't open the configuration file %s: %s\n", path, strerror(errno));
        return 1;
    }
    char *line = NULL;
    size_t room = 0, number = 0;
    int failed = 0;
    while (!failed && getline(&line, &room, f) >= 0) {
        number++;
        const char *p = line;
        while (isspace((unsigned char)*p)) p++;
        if (!*p || *p == '#') continue;
        char *buffer = malloc(strlen(p) + WORDS_MAX), *words[WORDS_MAX], values[2048] = "", why[512];
        const char *wrong = buffer ? NULL : "out of memory";
        int n = wrong ? 0 : split(p, buffer, words);
        if (n < 0) wrong = "Unbalanced quotes in configuration line";
        for (int i = 1; i < n; i++) add_value(values, sizeof values, words[i]);
        if (!wrong) wrong = n < 2 ? "Bad directive or wrong number of arguments" : apply(c, words[0], values, why, sizeof why);
        if (wrong) {
            fprintf(stderr, "darter: %s:%zu: %s\n  >>> %.*s\n", path, number, wrong, (int)strcspn(p, "\r\n"), p);
            failed = 1;
        }
        free(buffer);
    }
    free(line);
    fclose(f);
    return failed;
}

int config_load(int argc, char **argv, bool *exit_now) {
    struct config *c = calloc(1, sizeof *c);
    char why[512];
    const char *wrong = NULL;
    int at = 1;
    if (!c) return 1;
    for (const struct directive *d = directives; d->name; d++) {
        wrong = directive_read(d, c, d->fall_back, why, sizeof why);
        if (wrong) fprintf(stderr, "darter: the default of %s: %s\n", d->name, wrong);
    }
    *exit_now = false;
    if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        help();
        *exit_now = true;
    } else if (argc == 2 && (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-v"))) {
        printf("darter %s\n", DARTER_VERSION);
        *exit_now = true;
    } else if (argc > 1 && strncmp(argv[1], "--", 2)) {
        if (load_file(c, argv[1])) goto failed;
        snprintf(c->config_file, sizeof c->config_file, "%s", argv[1]);
        at = 2;
    }
    while (!*exit_now && at < argc) {
        if (strncmp(argv[at], "--", 2)) {
            fprintf(stderr, "darter: '%s' is not a directive; they begin with --\n", argv[at]);
            goto failed;
        }
        const char *name = argv[at++] + 2;
        char values[2048] = "";
        int n = 0;
        for (; at < argc && (strncmp(argv[at], "--", 2) || !argv[at][2]); at++, n++) add_value(values, sizeof values, argv[at]);
        wrong = n                  ? apply(c, name, values, why, sizeof why)
            : directive_find(name) ? "a value is missing"
                                   : "Bad directive or wrong number of arguments";
        if (wrong) {
            fprintf(stderr, "darter: --%s %s: %s\n", name, values, wrong);
            goto failed;
        }
    }
    log_set_level((enum log_level)c->loglevel);
    config_install(c);
    return 0;
failed:
    free(c);
    return 1;
}
