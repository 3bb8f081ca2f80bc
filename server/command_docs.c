/* The command table as docs/commands.md. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/command.h"

/* Groups in the order of the page. */
static const char *const groups[] = {
    "string", "bitmap", "hyperloglog", "hash", "list", "set", "sorted-set", "geo", "generic", "transactions", "connection", "server", NULL};

static int by_name(const void *a, const void *b) {
    return strcmp((*(const struct command *const *)a)->name, (*(const struct command *const *)b)->name);
}

/* In a table of markdown '|' ends a cell. */
static void print_cell(const char *text) {
    for (; text && *text; text++) {
        if (*text == '|') putchar('\\');
        putchar(*text);
    }
}

static void print_name(const struct command *row) {
    char name[128];
    snprintf(name, sizeof name, "%s%s%s", row->parent ? row->parent->name : "", row->parent ? " " : "", row->name);
    for (char *p = name; *p; p++) *p = (char)toupper((unsigned char)*p);
    printf("| `%s` | %d | ", name, row->arity);
    print_cell(row->summary);
    printf(" | ");
    print_cell(row->complexity);
    printf(" | %s |\n", row->since ? row->since : "");
}

static void print_row(const struct command *row) {
    const struct command *subs[64];
    size_t n = 0;
    if (!row->subcommands || row->on_connection || row->on_shard) print_name(row);
    for (const struct command *sub = row->subcommands; sub && sub->name && n < 64; sub++) subs[n++] = sub;
    qsort(subs, n, sizeof *subs, by_name);
    for (size_t i = 0; i < n; i++) print_name(subs[i]);
}

void commands_print_docs(void) {
    size_t count = command_count();
    const struct command **rows = calloc(count ? count : 1, sizeof *rows);
    if (!rows) return;
    for (size_t i = 0; i < count; i++) rows[i] = command_at(i);
    qsort(rows, count, sizeof *rows, by_name);
    printf("# Commands\n\n"
           "Made from the command table by `tools/gen-docs`; do not edit. Arity as Redis counts it: with the command's name, and negative "
           "for \"at least\".\n"
           "Replies, options and errors are Redis 7.0's; what may differ is in [operations.md](operations.md). `COMMAND DOCS` and `COMMAND "
           "INFO` tell the same to "
           "a program.\n");
    for (const char *const *group = groups; *group; group++) {
        printf("\n## %c%s\n\n| command | arity | what it does | cost | since |\n|---|---|---|---|---|\n", toupper((unsigned char)**group),
            *group + 1);
        for (size_t i = 0; i < count; i++)
            if (rows[i]->group && !strcmp(rows[i]->group, *group)) print_row(rows[i]);
    }
    free(rows);
}
