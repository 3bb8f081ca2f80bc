/* The table of directives as text: for --help, and as docs/configuration.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/config_table.h"
#include "server/version.h"

static void print_usage(void) {
    printf(
        "darter %s: an in-memory datastore that speaks RESP\n\n"
        "usage: darter [FILE] [--directive value ...] [-]\n"
        "       darter --check-config [FILE] [--directive value ...]\n"
        "       darter --check-rdb FILE [--rdb-skip-unknown yes|no]\n"
        "       darter --help | --version\n\n"
        "FILE is in redis.conf's format; - reads more of it from standard input. Directives are applied in this order: the file, standard\n"
        "input, the arguments; the last value counts. --check-config starts nothing: it tells all that is wrong with a configuration,\n"
        "with file and line, or what this machine would refuse of it: addresses, the log file (status 1); or what was read and what of\n"
        "it has an effect (status 0). --check-rdb reads a snapshot as a "
        "start does,\n"
        "and tells what is in it, or where it is damaged; with --rdb-skip-unknown yes what is not known here is counted, and passed "
        "over.\n\n"
        "examples:\n"
        "  darter --port 7000 --threads 4\n"
        "  darter /etc/darter/darter.conf --loglevel verbose\n"
        "  echo 'maxclients 100' | darter -\n\n",
        DARTER_VERSION);
}

/* Without the marks of a document. */
static void print_plain(const char *p) {
    for (; *p; p++)
        if (*p != '`') putchar(*p);
}

static void print_plain_values(const struct directive *d) {
    char *text = NULL;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (!f) return;
    directive_print_values(d, f);
    fclose(f);
    print_plain(text);
    free(text);
}

void config_print_help(void) {
    print_usage();
    printf("Directives (default): values\n");
    const char *separator = "\nAccepted, without an effect: ";
    for (const struct directive *d = directives; d->doc; d++) {
        if (!d->name && !(d[1].flags & DIRECTIVE_IDLE)) printf("\n %s\n", d->doc);
        if (!d->name || d->flags & (DIRECTIVE_IDLE | DIRECTIVE_HIDDEN)) continue;
        printf("  --%s (%s): ", d->name, *d->fall_back ? d->fall_back : "\"\"");
        print_plain_values(d);
        printf("\n      ");
        print_plain(d->doc);
        putchar('\n');
    }
    for (const struct directive *d = NULL; (d = directive_next(d));) {
        if (!(d->flags & DIRECTIVE_IDLE) || d->flags & DIRECTIVE_HIDDEN) continue;
        printf("%s%s", separator, d->name);
        separator = " ";
    }
    printf("\n");
}

/* ---- what a value looks like ---- */

/* Bytes as one writes them. */
static void print_bytes(int64_t n, FILE *f) {
    static const char *const units[] = {"", "kb", "mb", "gb"};
    int unit = 0;
    for (; n > 0 && unit < 3 && n % 1024 == 0; unit++) n /= 1024;
    fprintf(f, "%lld%s", (long long)n, units[unit]);
}

static void print_range(const struct directive *d, FILE *f) {
    bool bytes = d->kind == DIRECTIVE_BYTES, octal = d->kind == DIRECTIVE_OCTAL;
    int64_t low = d->flags & DIRECTIVE_PERCENT ? 0 : d->low;
    if (bytes) print_bytes(low, f);
    else fprintf(f, octal ? "%llo" : "%lld", (long long)low);
    if (d->high == INT64_MAX) fprintf(f, " or more");
    else {
        fprintf(f, " to ");
        if (bytes) print_bytes(d->high, f);
        else fprintf(f, octal ? "%llo" : "%lld", (long long)d->high);
    }
    fputs(bytes ? d->flags & DIRECTIVE_PERCENT ? " (bytes), or 0% to 100%" : " (bytes)" : octal ? " (octal)" : "", f);
}

void directive_print_values(const struct directive *d, FILE *f) {
    if (d->expects) {
        fputs(d->expects, f);
        return;
    }
    switch (d->kind) {
    case DIRECTIVE_NUMBER:
    case DIRECTIVE_OCTAL:
    case DIRECTIVE_BYTES: print_range(d, f); break;
    case DIRECTIVE_BOOL: fputs("`yes`, `no`", f); break;
    case DIRECTIVE_CHOICE:
        for (int i = 0; d->names[i]; i++) fprintf(f, "%s`%s`", i ? ", " : "", d->names[i]);
        break;
    case DIRECTIVE_TEXT: fprintf(f, "text, up to %zu bytes", d->size - 1); break;
    case DIRECTIVE_WORDS:
    case DIRECTIVE_BIND:
    case DIRECTIVE_OUTPUT_LIMIT:
    case DIRECTIVE_SAVE: abort(); /* their rows say it */
    }
}

/* ---- the document ---- */

static const char introduction[] =
    "# Configuration\n"
    "\n"
    "<!-- Made from the table in server/config_table.c by tools/gen-docs. Change it there. -->\n"
    "\n"
    "Darter reads what Redis reads: a file in redis.conf's format, standard input, and arguments.\n"
    "\n"
    "    darter /etc/darter/darter.conf                 # a file\n"
    "    darter /etc/darter/darter.conf --port 7000     # a file, and a value that wins over it\n"
    "    generate | darter -                            # standard input\n"
    "    darter --check-config /etc/darter/darter.conf  # says what is wrong, or what was read; starts nothing\n"
    "\n"
    "They are applied in this order: the file, standard input, the arguments. The last value of a directive counts; `save` lines add up, "
    "and a `save`\n"
    "argument adds to them, unless it is `\"\"`, which takes all away.\n"
    "\n"
    "**Lines.** One directive a line, its name in any case, then its values. `#` begins a remark, at the start of a line only. In \"double "
    "quotes\" a value\n"
    "may hold blanks and the escapes `\\n \\r \\t \\a \\b \\\\ \\\" \\xHH`; in 'single quotes' only `\\'` is special. Bytes may have a "
    "unit: `k` is 1000 and `kb`\n"
    "is 1024, so with `m mb g gb`.\n"
    "\n"
    "**`include FILE`** reads another file in this place, up to 16 deep. With `*`, `?` or `[` it reads all files that match, and there may "
    "be none.\n"
    "\n"
    "**`rename-command OLD NEW`** gives a command another name; `\"\"` as the new name takes it away.\n"
    "\n"
    "**While it runs.** `CONFIG GET pattern ...` shows values. `CONFIG SET name value ...` sets those that the tables mark so, all or "
    "none. `CONFIG REWRITE`\n"
    "writes what has changed into the file that was read at start: remarks, order and `include` lines stay, new lines come at the end.\n"
    "\n"
    "**What does not apply yet.** Every directive of Redis 7.0 is known. The groups called \"accepted\" below have no effect; each that is "
    "used is told\n"
    "in the log at start, with file and line, and `CONFIG GET` shows the value that was set. An unknown directive, or a bad value, ends "
    "the start. So do\n"
    "`user`, `aclfile` and `loadmodule`: without the users or the module that they ask for, another server would start than the one that "
    "was meant.\n";

void config_print_docs(void) {
    fputs(introduction, stdout);
    for (const struct directive *d = directives; d->doc; d++) {
        if (!d->name) {
            printf("\n## %s\n\n| directive | default | values | `CONFIG SET` | |\n| --- | --- | --- | --- | --- |\n", d->doc);
            continue;
        }
        if (d->flags & DIRECTIVE_HIDDEN) continue;
        printf("| `%s`", d->name);
        if (d->alias) printf(" (also `%s`)", d->alias);
        printf(" | `%s` | ", *d->fall_back ? d->fall_back : "\"\"");
        directive_print_values(d, stdout);
        printf(" | %s | %s |\n", d->flags & DIRECTIVE_PROTECTED ? "if allowed" : d->flags & DIRECTIVE_MUTABLE ? "yes" : "", d->doc);
    }
}
