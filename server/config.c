/* Snapshots of the configuration, and CONFIG GET and SET. Around it: config_table.c (the directives), config_value.c (reading and showing values),
 * config_check.c and config_apply.c (what single directives need), config_load.c (the start), config_rewrite.c, config_docs.c.
 */
#include "server/config.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/command.h"
#include "server/config_table.h"
#include "server/config_words.h"
#include "server/glob.h"
#include "server/listeners.h"
#include "server/loading.h"
#include "server/title.h"

#define NAME_SIZE 128u
#define SHOWN_MAX 64u /* bytes of a refused value that are told */

static _Atomic(const struct config *) current;
static const struct config **retired; /* those that were replaced, the oldest first, as long as a thread may read them */
static uint32_t n_retired, retired_capacity;

const struct config *config_current(void) { return atomic_load_explicit(&current, memory_order_acquire); }

void config_install(const struct config *c) { atomic_store_explicit(&current, c, memory_order_release); }

/* ---- GET ---- */

static bool is_plain(const struct arg *pattern) {
    for (uint32_t i = 0; i < pattern->size; i++)
        if (strchr("*?[\\", pattern->p[i])) return false;
    return true;
}

/* The first of the patterns that a name matches, or NULL. */
static const struct arg *matching(const struct directive *d, const char *name, const struct arg *patterns, uint32_t n) {
    if (!name) return NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (d->flags & DIRECTIVE_HIDDEN && !is_plain(&patterns[i])) continue;
        if (glob_match(patterns[i].p, patterns[i].size, name, strlen(name), true, NULL)) return &patterns[i];
    }
    return NULL;
}

/* Each name once, and aliases are names too; a name that was given plainly is shown as it was written. */
void config_get(const struct arg *patterns, uint32_t n, struct reply *r) {
    const struct config *c = config_current();
    char text[DIRECTIVE_SHOW_MAX];
    size_t count = 0;
    for (int round = 0; round < 2; round++) {
        for (const struct directive *d = NULL; (d = directive_next(d));) {
            const char *const names[] = {d->name, d->alias};
            for (int i = 0; i < 2; i++) {
                const struct arg *by = matching(d, names[i], patterns, n);
                if (!by) continue;
                count++;
                if (!round) continue;
                directive_show(d, c, text);
                if (is_plain(by)) reply_bulk(r, by->p, by->size);
                else reply_bulk_text(r, names[i]);
                reply_bulk_text(r, text);
            }
        }
        if (!round) reply_map(r, count);
    }
}

/* ---- SET ---- */

static bool take_text(const struct arg *a, char *out, size_t size) {
    if (a->size >= size || memchr(a->p, 0, a->size)) return false;
    memcpy(out, a->p, a->size);
    out[a->size] = 0;
    return true;
}

bool config_is_secret(const struct arg *a) {
    char name[NAME_SIZE];
    const struct directive *d = take_text(a, name, sizeof name) ? directive_find(name) : NULL;
    return d && d->flags & DIRECTIVE_SECRET;
}

static bool names_same(const struct arg *a, const struct arg *b) { return a->size == b->size && !strncasecmp(a->p, b->p, a->size); }

/* The names, before any value is looked at; the first fault counts. NULL, after an error was replied. */
static const struct directive **find_all(const struct arg *pairs, uint32_t n, bool local, struct reply *r) {
    const struct directive **found = calloc(n, sizeof(const struct directive *));
    const char *wrong = found ? NULL : "out of memory";
    int allow = config_current()->enable_protected_configs;
    uint32_t i = 0;
    for (; i < n && !wrong; i++) {
        char name[NAME_SIZE];
        const struct directive *d = found[i] = take_text(&pairs[2 * i], name, sizeof name) ? directive_find(name) : NULL;
        if (!d) {
            reply_errorf(r, "ERR Unknown option or number of arguments for CONFIG SET - '%.*s'",
                (int)(pairs[2 * i].size < NAME_SIZE ? pairs[2 * i].size : NAME_SIZE), pairs[2 * i].p);
            free(found);
            return NULL;
        }
        bool allowed = allow == CONFIG_ALLOW_YES || (allow == CONFIG_ALLOW_LOCAL && local);
        if (!(d->flags & DIRECTIVE_MUTABLE)) wrong = "can't set immutable config";
        else if (d->flags & DIRECTIVE_PROTECTED && !allowed) wrong = "can't set protected config";
        for (uint32_t j = 0; j < i && !wrong; j++)
            if (names_same(&pairs[2 * i], &pairs[2 * j])) wrong = "duplicate parameter";
    }
    if (!wrong) return found;
    reply_errorf(r, "ERR CONFIG SET failed (possibly related to argument '%.*s') - %s", i ? (int)pairs[2 * i - 2].size : 0,
        i ? pairs[2 * i - 2].p : "", wrong);
    free(found);
    return NULL;
}

/* Redis' text, the value, and what was expected where that text does not tell. */
static void refuse_value(const struct directive *d, const struct arg *name, const char *value, const char *why, struct reply *r) {
    char start[SHOWN_MAX + 1], shown[4 * SHOWN_MAX + 3];
    bool alias = d->alias && name->size == strlen(d->alias) && !strncasecmp(name->p, d->alias, name->size);
    const char *called = alias ? d->alias : d->name;
    size_t size = strnlen(value, SHOWN_MAX);
    memcpy(start, value, size);
    start[size] = 0;
    words_quote(start, shown);
    if (d->flags & DIRECTIVE_SECRET) reply_errorf(r, "ERR CONFIG SET failed (possibly related to argument '%s') - %s", called, why);
    else
        reply_errorf(r, "ERR CONFIG SET failed (possibly related to argument '%s') - %s (got %s%s%s%s)", called, why, shown,
            value[size] ? "..." : "", d->expects ? ", expected " : "", d->expects ? d->expects : "");
}

static bool read_all(const struct directive **found, const struct arg *pairs, uint32_t n, struct config *next, struct reply *r) {
    for (uint32_t i = 0; i < n; i++) {
        char value[DIRECTIVE_SHOW_MAX] = "", why[DIRECTIVE_WHY_MAX] = "argument too long";
        bool good = take_text(&pairs[2 * i + 1], value, sizeof value);
        if (!good && pairs[2 * i + 1].size < sizeof value) strcpy(why, "argument must not have a zero byte");
        if (good && directive_read_text(found[i], next, value, why)) continue;
        refuse_value(found[i], &pairs[2 * i], value, why, r);
        return false;
    }
    return true;
}

/* Applies what has changed. If one fails, those before it are applied the other way round, and nothing has changed. */
static bool apply_all(const struct directive **found, uint32_t n, struct config *next, struct reply *r) {
    const struct config *was = config_current();
    char before[DIRECTIVE_SHOW_MAX], after[DIRECTIVE_SHOW_MAX], why[DIRECTIVE_WHY_MAX] = "";
    for (uint32_t i = 0; i < n; i++) {
        if (!found[i]->apply) continue;
        directive_show(found[i], was, before);
        directive_show(found[i], next, after);
        if (!strcmp(before, after)) continue;
        if (found[i]->apply(was, next, why)) continue;
        reply_errorf(r, "ERR CONFIG SET failed (possibly related to argument '%s') - %s", found[i]->name, why);
        listeners_keep();
        struct config *back = malloc(sizeof *back);
        if (!back) return false;
        *back = *was;
        while (i--)
            if (found[i]->apply) found[i]->apply(next, back, why);
        free(back);
        return false;
    }
    return true;
}

/* A thread whose version is oldest reads that one or newer ones. What loads keeps its own for longer than a tick: beside it all are kept. */
static void free_retired(uint64_t oldest) {
    uint32_t n = 0;
    if (loading_is_running()) return;
    while (n < n_retired && retired[n]->version < oldest) free((void *)retired[n++]);
    if (n) memmove(retired, retired + n, (n_retired -= n) * sizeof *retired);
}

static bool room_to_retire(void) {
    if (n_retired < retired_capacity) return true;
    uint32_t capacity = retired_capacity ? 2 * retired_capacity : 8;
    const struct config **more = realloc(retired, capacity * sizeof *more);
    if (!more) return false;
    retired = more;
    retired_capacity = capacity;
    return true;
}

uint32_t config_retired(void) { return n_retired; }

void config_set(const struct arg *pairs, uint32_t n, bool local, uint64_t oldest, struct reply *r) {
    const struct directive **found = find_all(pairs, n, local, r);
    if (!found) return;
    free_retired(oldest);
    struct config *next = room_to_retire() ? malloc(sizeof *next) : NULL;
    if (next) {
        *next = *config_current();
        next->version++;
    }
    if (!next) reply_no_memory(r);
    else if (read_all(found, pairs, n, next, r) && apply_all(found, n, next, r)) {
        retired[n_retired++] = config_current();
        listeners_change(next);
        config_install(next);
        title_show(next);
        reply_ok(r);
    } else free(next);
    free(found);
}
