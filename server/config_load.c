/* Reading the configuration at start: a file in redis.conf's format, standard input, then arguments (--name value ...). */
#include <ctype.h>
#include <errno.h>
#include <glob.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "server/check_rdb.h"
#include "server/command.h"
#include "server/config_table.h"
#include "server/config_try.h"
#include "server/config_words.h"
#include "server/log.h"
#include "server/version.h"

#define INCLUDE_DEPTH_MAX 16
#define INCLUDED_FILES_MAX 1000

/* Where a line comes from, for messages. */
struct source {
    const char *name; /* the file's path; NULL: the arguments */
    size_t line;
};

struct loader {
    struct config *config;
    struct source at;
    const struct directive *d; /* of the line that is being read; NULL: none of the table */
    int depth;                 /* of files that include files */
    uint32_t n_opened;         /* files, each as often as it was read */
    bool astray;    /* a limit of include was reached: no further file is opened, or files that include each other take for ever */
    bool save_seen; /* the first save line takes the default away, those after it add to it */
    bool seen[512]; /* of each row: it was given */
    bool checks;    /* --check-config: all that is wrong is told, not the first only */
    char *included; /* --check-config: the names of the files that others include, with commas; NULL: none */
    uint32_t n_included;
};

/* What was accepted without an effect: lines, kept until the log is open. */
static char *warnings;

static void warn(const struct loader *l, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void warn(const struct loader *l, const char *format, ...) {
    char text[DIRECTIVE_WHY_MAX], *line = NULL;
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    int size = l->at.name ? asprintf(&line, "%s%s:%zu: %s\n", warnings ? warnings : "", l->at.name, l->at.line, text)
                          : asprintf(&line, "%s--%s\n", warnings ? warnings : "", text);
    if (size < 0) return;
    free(warnings);
    warnings = line;
}

void config_log_warnings(void) {
    for (char *rest = warnings, *line; (line = strsep(&rest, "\n"));)
        if (*line) log_line(LOG_WARNING_LEVEL, "%s", line);
    free(warnings);
    warnings = NULL;
}

/* ---- lines ---- */

static bool load_file(struct loader *l, const char *path);

/* A pattern may match nothing; a plain name must exist. */
static bool include(struct loader *l, const char *path, char *why) {
    if (l->astray) return true;
    l->astray = l->depth == INCLUDE_DEPTH_MAX || l->n_opened > INCLUDED_FILES_MAX;
    if (l->depth == INCLUDE_DEPTH_MAX) return directive_wrong(why, "include goes deeper than 16 files: does a file include itself?");
    if (l->astray) return directive_wrong(why, "include reads more than 1000 files: do files include each other?");
    struct source at = l->at;
    bool good = true;
    l->depth++;
    if (strpbrk(path, "*?[")) {
        glob_t found;
        int status = glob(path, 0, NULL, &found);
        for (size_t i = 0; !status && !l->astray && (good || l->checks) && i < found.gl_pathc; i++)
            if (!load_file(l, found.gl_pathv[i])) good = false;
        if (!status) globfree(&found);
    } else good = load_file(l, path);
    l->depth--;
    l->at = at;
    *why = 0; /* what is wrong in there has been told */
    return good;
}

/* Lines that are no directives of the table: they have no value that could be shown. */
static bool other_line(struct loader *l, char **words, int n, char *why) {
    if (!strcasecmp(words[0], "include") && n == 2) return include(l, words[1], why);
    if (!strcasecmp(words[0], "rename-command") && n == 3) {
        const char *refused = command_rename(words[1], words[2]);
        return !refused || directive_wrong(why, refused);
    }
    if (!strcasecmp(words[0], "user") && n >= 2)
        return directive_wrong(why, "users are not supported yet, and without this one the server might be open: see requirepass");
    if (!strcasecmp(words[0], "loadmodule") && n >= 2) return directive_wrong(why, "there are no modules");
    static const char *const obsolete[] = {"list-max-ziplist-entries", "list-max-ziplist-value", "lua-replicate-commands"};
    for (size_t i = 0; i < sizeof obsolete / sizeof *obsolete; i++) {
        if (strcasecmp(words[0], obsolete[i]) || n != 2) continue;
        warn(l, "%s is obsolete and has no effect", words[0]);
        return true;
    }
    return directive_wrong(why, "Bad directive or wrong number of arguments");
}

static bool line_words(struct loader *l, char **words, int n, char *why) {
    const struct directive *d = l->d = directive_find(words[0]);
    if (!d) return other_line(l, words, n, why);
    if (n == 1 && d->kind != DIRECTIVE_SAVE && d->kind != DIRECTIVE_BIND) return directive_wrong(why, "wrong number of arguments");
    if (d->kind == DIRECTIVE_SAVE && !l->save_seen) {
        l->config->n_save = 0;
        l->save_seen = true;
    }
    if (!directive_read(d, l->config, words + 1, n - 1, why)) return false;
    if (d->flags & DIRECTIVE_AT_ONCE && !d->apply(l->config, l->config, why)) return false;
    bool again = l->seen[d - directives];
    l->seen[d - directives] = true;
    if (!(d->flags & DIRECTIVE_IDLE) || again) return true; /* once is enough */
    if (d->flags & DIRECTIVE_YET) warn(l, "%s is accepted, but has no effect yet", d->name);
    else warn(l, "%s is accepted, but nothing here needs it", d->name);
    return true;
}

/* ---- what is wrong ---- */

/* Of two names shorter than CONFIG_NAME_MAX: how many letters to put in, take out, change or swap with the next make one name of the other (Damerau's distance of neighbours), in any case. */
static unsigned distance(const char *a, const char *b) {
    unsigned char rows[3][CONFIG_NAME_MAX + 1];
    size_t n = strlen(a), m = strlen(b);
    for (size_t j = 0; j <= m; j++) rows[0][j] = (unsigned char)j;
    for (size_t i = 1; i <= n; i++) {
        unsigned char *now = rows[i % 3], *last = rows[(i - 1) % 3], *before = rows[(i + 1) % 3];
        now[0] = (unsigned char)i;
        for (size_t j = 1; j <= m; j++) {
            int x = tolower((unsigned char)a[i - 1]), y = tolower((unsigned char)b[j - 1]);
            unsigned least = last[j - 1] + (x != y);
            if (last[j] + 1u < least) least = last[j] + 1u;
            if (now[j - 1] + 1u < least) least = now[j - 1] + 1u;
            bool swapped = i > 1 && j > 1 && x == tolower((unsigned char)b[j - 2]) && y == tolower((unsigned char)a[i - 2]);
            if (swapped && before[j - 2] + 1u < least) least = before[j - 2] + 1u;
            now[j] = (unsigned char)least;
        }
    }
    return rows[n % 3][m];
}

/* The directive whose name is nearest to this one, if it is near: one letter wrong of each three. NULL: none. */
static const char *nearest_name(const char *name) {
    const char *nearest = NULL;
    size_t size = strlen(name);
    if (size >= CONFIG_NAME_MAX) return NULL;
    unsigned most = (unsigned)size / 3;
    for (const struct directive *d = NULL; (d = directive_next(d));) {
        unsigned far = distance(name, d->name);
        if (d->flags & DIRECTIVE_HIDDEN || far > most || (nearest && far == most)) continue;
        most = far;
        nearest = d->name;
    }
    return nearest;
}

static bool stands_first(const char *name) {
    static const char *const names[] = {"check-config", "check-rdb", "help", "version"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i])) return true;
    return false;
}

/* What may have been meant. */
static void hint(const struct loader *l, char *const *words, int n) {
    char name[CONFIG_NAME_MAX];
    const char *indent = l->checks ? "    " : "", *dashes = l->at.name ? "" : "--";
    size_t size = n > 0 ? strcspn(words[0], "=") : 0;
    if (size && words[0][size] && size < sizeof name) {
        memcpy(name, words[0], size);
        name[size] = 0;
        if (directive_find(name))
            fprintf(stderr, "%sA name and its value stand side by side, without an equals sign: %s%s %s\n", indent, dashes, name,
                words[0] + size + 1);
    } else if (n > 0 && !l->d) {
        const char *near = nearest_name(words[0]);
        if (!l->at.name && stands_first(words[0])) fprintf(stderr, "%s--%s stands first: see darter --help\n", indent, words[0]);
        else if (near) fprintf(stderr, "%sIs %s%s meant?\n", indent, dashes, near);
    }
    for (int i = 2; i < n; i++)
        if (*words[i] == '#') {
            fprintf(stderr, "%sA remark stands on a line of its own: it cannot follow a value\n", indent);
            return;
        }
}

/* At a start in Redis' shape, as tools look for it; --check-config in that of compilers, as editors do. Then what else may help. */
static void tell_error(const struct loader *l, const char *line, const char *why, char *const *words, int n) {
    const char *indent = l->checks ? "    " : "";
    if (l->checks && l->at.name) fprintf(stderr, "%s:%zu: %s\n    %s\n", l->at.name, l->at.line, why, line);
    else if (l->checks) fprintf(stderr, "%s: %s\n", line, why);
    else {
        fprintf(stderr, "\n*** FATAL CONFIG FILE ERROR (Darter %s) ***\n", DARTER_VERSION);
        if (l->at.name) fprintf(stderr, "Reading the configuration file, at line %zu of %s\n", l->at.line, l->at.name);
        else fprintf(stderr, "Reading the arguments\n");
        fprintf(stderr, ">>> '%s'\n%s\n", line, why);
    }
    if (l->d) {
        fprintf(stderr, "%s%s takes: ", indent, l->d->name);
        directive_print_values(l->d, stderr);
        fputc('\n', stderr);
    }
    hint(l, words, n);
}

/* ---- files ---- */

static bool load_line(struct loader *l, const char *line) {
    char why[DIRECTIVE_WHY_MAX] = "", *words[DIRECTIVE_WORDS_MAX], *buffer = malloc(strlen(line) + 1);
    bool good = false;
    if (!buffer) {
        tell_error(l, line, "out of memory", NULL, 0);
        return false;
    }
    int n = words_split(line, buffer, words, DIRECTIVE_WORDS_MAX);
    l->d = NULL;
    if (n < 0) directive_wrong(why, n == WORDS_TOO_MANY ? "too many words" : "Unbalanced quotes in configuration line");
    else good = line_words(l, words, n, why);
    if (!good && *why) tell_error(l, line, why, words, n);
    free(buffer);
    return good;
}

static void note_included(struct loader *l, const char *path) {
    char *longer = NULL;
    l->n_included++;
    if (asprintf(&longer, "%s%s%s", l->included ? l->included : "", l->included ? ", " : "", path) < 0) return;
    free(l->included);
    l->included = longer;
}

static bool load_stream(struct loader *l, FILE *f, const char *name) {
    char *line = NULL;
    size_t room = 0;
    bool good = true;
    l->at = (struct source){name, 0};
    while ((good || l->checks) && getline(&line, &room, f) >= 0) {
        l->at.line++;
        char *p = line, *end = line + strlen(line);
        while (isspace((unsigned char)*p)) p++;
        while (end > p && isspace((unsigned char)end[-1])) *--end = 0;
        if (*p && *p != '#' && !load_line(l, p)) good = false;
    }
    if (ferror(f)) {
        log_line(LOG_WARNING_LEVEL, "Fatal error, can't read config file '%s': %s", name, strerror(errno));
        good = false;
    }
    free(line);
    return good;
}

static bool load_file(struct loader *l, const char *path) {
    FILE *f = fopen(path, "re");
    if (!f) {
        const char *why = strerror(errno);
        if (l->at.name)
            log_line(
                LOG_WARNING_LEVEL, "Fatal error, can't open config file '%s': %s (included at %s:%zu)", path, why, l->at.name, l->at.line);
        else log_line(LOG_WARNING_LEVEL, "Fatal error, can't open config file '%s': %s", path, why);
        return false;
    }
    l->n_opened++;
    if (l->checks && l->depth) note_included(l, path);
    bool good = load_stream(l, f, path);
    fclose(f);
    return good;
}

/* ---- arguments ---- */

static bool is_option(const char *word) { return word[0] == '-' && word[1] == '-'; }

/* "--name", then values up to the next option; or "--name value" in one argument. What follows a name at once is its value, whatever it looks like,
 * except after --save, whose value may be missing (then it is ""). *n_used: how many arguments it was. */
static bool load_argument(struct loader *l, int argc, char **argv, int *n_used) {
    char why[DIRECTIVE_WHY_MAX] = "", *words[DIRECTIVE_WORDS_MAX], line[DIRECTIVE_SHOW_MAX], empty[] = "",
         *buffer = malloc(strlen(argv[0]) + 1);
    int used = 1, n = buffer && is_option(argv[0]) ? words_split(argv[0] + 2, buffer, words, DIRECTIVE_WORDS_MAX) : 0;
    bool good = false;
    l->d = NULL;
    if (n == 1 && used < argc && (!is_option(argv[1]) || strcasecmp(words[0], "save"))) words[n++] = argv[used++];
    while (n > 0 && n < DIRECTIVE_WORDS_MAX && used < argc && !is_option(argv[used])) words[n++] = argv[used++];
    if (n == 1 && !strcasecmp(words[0], "save")) words[n++] = empty;
    if (n == 0) directive_wrong(why, "directives begin with --");
    else if (n < 0) directive_wrong(why, "Unbalanced quotes");
    else good = line_words(l, words, n, why);
    if (!good && *why) {
        size_t at = 0;
        *line = 0;
        for (int i = 0; i < used && at < sizeof line; i++)
            at += (size_t)snprintf(line + at, sizeof line - at, "%s%s", i ? " " : "", argv[i]);
        tell_error(l, line, why, words, n);
    }
    free(buffer);
    *n_used = used;
    return good;
}

static bool absolute_path(const char *path, char *out, size_t size) {
    char here[CONFIG_TEXT_MAX];
    if (*path == '/') return (size_t)snprintf(out, size, "%s", path) < size;
    return getcwd(here, sizeof here) && (size_t)snprintf(out, size, "%s/%s", here, path) < size;
}

/* [FILE] [-] [--name value ...] [-], in Redis' order: the file, standard input, the arguments. */
static bool load_all(struct loader *l, int argc, char **argv) {
    struct config *c = l->config;
    bool from_stdin = false, good = true;
    if (argc && **argv != '-') {
        if (!absolute_path(*argv, c->config_file, sizeof c->config_file)) {
            log_line(LOG_WARNING_LEVEL, "Fatal error, the path of the config file '%s' is too long", *argv);
            return false;
        }
        good = load_file(l, c->config_file);
        if (!good && !l->checks) return false;
        argc--;
        argv++;
    }
    if (argc && !strcmp(argv[0], "-")) {
        from_stdin = true;
        argc--;
        argv++;
    }
    if (argc && !strcmp(argv[argc - 1], "-")) {
        from_stdin = true;
        argc--;
    }
    if (from_stdin && !load_stream(l, stdin, "the standard input")) good = false;
    l->at = (struct source){0};
    while ((good || l->checks) && argc) {
        int used;
        if (!load_argument(l, argc, argv, &used)) good = false;
        argc -= used;
        argv += used;
    }
    return good;
}

/* ---- --check-config ---- */

/* What was read, and what of it counts. */
static void print_summary(const struct loader *l, const char *file) {
    unsigned effective = 0, idle = 0;
    for (const struct directive *d = NULL; (d = directive_next(d));)
        if (l->seen[d - directives]) (*(d->flags & DIRECTIVE_IDLE ? &idle : &effective))++;
    printf("%s: good", file);
    if (l->n_included)
        printf(", with %u included file%s: %s", l->n_included, l->n_included == 1 ? "" : "s", l->included ? l->included : "");
    printf("\n%u directive%s in effect, %u accepted without effect", effective, effective == 1 ? "" : "s", idle);
    const char *separator = ": ";
    for (const struct directive *d = NULL; (d = directive_next(d));) {
        if (!l->seen[d - directives] || !(d->flags & DIRECTIVE_IDLE)) continue;
        printf("%s%s", separator, d->name);
        separator = ", ";
    }
    printf("\n");
}

static int check_config(int argc, char **argv) {
    if (argc == 2) {
        fprintf(stderr, "usage: darter --check-config [FILE] [--directive value ...]\n");
        return 1;
    }
    struct loader l = {.config = config_defaults(), .checks = true};
    const char *name = is_option(argv[2]) ? "the arguments" : argv[2];
    bool good = l.config && load_all(&l, argc - 2, argv + 2) && config_try(l.config, name);
    if (good) {
        if (warnings) fputs(warnings, stdout);
        print_summary(&l, name);
    }
    free(l.config);
    free(l.included);
    free(warnings);
    warnings = NULL;
    return !good;
}

static int check_snapshot(int argc, char **argv) {
    bool has_option = argc == 5 && !strcmp(argv[3], "--rdb-skip-unknown") && (!strcmp(argv[4], "yes") || !strcmp(argv[4], "no"));
    if (argc == 3 || has_option) return check_rdb(argv[2], has_option && !strcmp(argv[4], "yes"));
    fprintf(stderr, "usage: darter --check-rdb FILE [--rdb-skip-unknown yes|no]\n");
    return 1;
}

/* ---- the start ---- */

static bool is_only(int argc, char **argv, const char *one, const char *other) {
    return argc == 2 && (!strcmp(argv[1], one) || (other && !strcmp(argv[1], other)));
}

int config_load(int argc, char **argv, bool *exit_now) {
    *exit_now = true;
    if (is_only(argc, argv, "--help", "-h")) {
        config_print_help();
        return 0;
    }
    if (is_only(argc, argv, "--version", "-v")) {
        printf("Darter %s (speaks as Redis %s)\n", DARTER_VERSION, REPORTED_REDIS_VERSION);
        return 0;
    }
    if (is_only(argc, argv, "--dump-config-docs", NULL)) {
        config_print_docs();
        return 0;
    }
    if (argc > 1 && !strcmp(argv[1], "--check-config")) return check_config(argc, argv);
    if (argc > 1 && !strcmp(argv[1], "--check-rdb")) return check_snapshot(argc, argv);
    struct loader l = {.config = config_defaults()};
    if (!l.config) return 1;
    bool good = load_all(&l, argc - 1, argv + 1);
    if (good && !*l.config->dir && !getcwd(l.config->dir, sizeof l.config->dir)) *l.config->dir = 0;
    *exit_now = false;
    if (!good) {
        free(l.config);
        return 1;
    }
    log_set_level((enum log_level)l.config->loglevel);
    config_install(l.config);
    return 0;
}
