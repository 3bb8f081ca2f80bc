/* Values of directives, kind by kind: read from words, shown as text. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "server/config_table.h"
#include "shard/entry.h"

const char *const config_client_classes[CLIENT_CLASSES] = {"normal", "slave", "pubsub"};

bool directive_wrong(char *why, const char *text) {
    snprintf(why, DIRECTIVE_WHY_MAX, "%s", text);
    return false;
}

const struct directive *directive_next(const struct directive *d) {
    for (d = d ? d + 1 : directives; d->doc; d++)
        if (d->name) return d;
    return NULL;
}

const struct directive *directive_find(const char *name) {
    for (const struct directive *d = NULL; (d = directive_next(d));)
        if (!strcasecmp(d->name, name) || (d->alias && !strcasecmp(d->alias, name))) return d;
    return NULL;
}

bool directive_takes_words(const struct directive *d) {
    return d->kind == DIRECTIVE_WORDS || d->kind == DIRECTIVE_BIND || d->kind == DIRECTIVE_OUTPUT_LIMIT || d->kind == DIRECTIVE_SAVE;
}

/* ---- reading ---- */

/* Digits with an optional unit: b k kb m mb g gb (kb is 1024, k is 1000). Too much becomes what no limits allow. */
static bool read_bytes(const char *text, int64_t *out) {
    static const struct {
        const char *unit;
        int64_t times;
    } units[] = {{"", 1}, {"b", 1}, {"k", 1000}, {"kb", 1 << 10}, {"m", 1000000}, {"mb", 1 << 20}, {"g", 1000000000}, {"gb", 1 << 30}};
    size_t digits = strspn(text, "0123456789");
    errno = 0;
    long long n = strtoll(text, NULL, 10);
    for (size_t i = 0; digits && i < sizeof units / sizeof *units; i++) {
        if (strcasecmp(text + digits, units[i].unit)) continue;
        if (errno || __builtin_mul_overflow(n, units[i].times, out)) *out = INT64_MIN;
        return true;
    }
    return false;
}

static bool read_octal(const char *text, int64_t *out) {
    errno = 0;
    *out = strtoll(text, NULL, 8);
    const char *digits = text + (*text == '-');
    return *digits && digits[strspn(digits, "01234567")] == 0 && !errno;
}

/* A percentage is kept as its negative. */
static bool read_percent(const char *text, int64_t *out) {
    size_t size = strlen(text);
    if (size < 2 || text[size - 1] != '%' || !parse_int64(text, size - 1, out) || *out < 0) return false;
    *out = -*out;
    return true;
}

static bool read_integer(const struct directive *d, const char *text, int64_t *out, char *why) {
    bool percent = d->flags & DIRECTIVE_PERCENT;
    if (d->kind == DIRECTIVE_BYTES) {
        if (percent && read_percent(text, out))
            return *out >= -100 || directive_wrong(why, "percentage argument must be less or equal to 100");
        if (!read_bytes(text, out))
            return directive_wrong(why, percent ? "argument must be a memory or percent value" : "argument must be a memory value");
    } else if (d->kind == DIRECTIVE_OCTAL) {
        if (!read_octal(text, out)) return directive_wrong(why, "argument couldn't be parsed as an octal number");
    } else if (!parse_int64(text, strlen(text), out)) return directive_wrong(why, "argument couldn't be parsed into an integer");
    if (*out >= d->low && *out <= d->high) return true;
    snprintf(why, DIRECTIVE_WHY_MAX,
        d->kind == DIRECTIVE_OCTAL ? "argument must be between %llo and %llo inclusive"
                                   : "argument must be between %lld and %lld inclusive",
        (long long)d->low, (long long)d->high);
    return false;
}

static bool read_choice(const struct directive *d, const char *text, int32_t *out, char *why) {
    for (int i = 0; d->names[i]; i++) {
        if (strcasecmp(text, d->names[i])) continue;
        *out = i;
        return true;
    }
    size_t at = (size_t)snprintf(why, DIRECTIVE_WHY_MAX, "argument(s) must be one of the following: ");
    for (int i = 0; d->names[i] && at < DIRECTIVE_WHY_MAX; i++)
        at += (size_t)snprintf(why + at, DIRECTIVE_WHY_MAX - at, "%s%s", i ? ", " : "", d->names[i]);
    return false;
}

/* Words that came as one, "a b", count as several. An empty word counts as none. */
static bool read_bind(struct config *c, char *const *words, int n, char *why) {
    c->n_bind = 0;
    for (int i = 0; i < n; i++) {
        for (const char *p = words[i]; p += strspn(p, " "), *p; p += strcspn(p, " ")) {
            size_t size = strcspn(p, " ");
            if (c->n_bind == CONFIG_BIND_MAX) return directive_wrong(why, "Too many bind addresses specified.");
            if (*p == '#') return directive_wrong(why, "not an address");
            if (size >= sizeof c->bind[0]) return directive_wrong(why, "an address is too long");
            memcpy(c->bind[c->n_bind], p, size);
            c->bind[c->n_bind++][size] = 0;
        }
    }
    return true;
}

static bool read_output_limit(struct config *c, char *const *words, int n, char *why) {
    if (n % 4) return directive_wrong(why, "Wrong number of arguments in buffer limit configuration.");
    for (int i = 0; i < n; i += 4) {
        int class = 0;
        while (class < CLIENT_CLASSES && strcasecmp(words[i], config_client_classes[class]) &&
            (class != CLIENT_REPLICA || strcasecmp(words[i], "replica")))
            class ++;
        if (class == CLIENT_CLASSES) return directive_wrong(why, "Invalid client class specified in buffer limit configuration.");
        int64_t hard, soft, soft_s;
        if (!read_bytes(words[i + 1], &hard) || !read_bytes(words[i + 2], &soft) ||
            !parse_int64(words[i + 3], strlen(words[i + 3]), &soft_s) || hard < 0 || soft < 0 || soft_s < 0 || soft_s > INT32_MAX)
            return directive_wrong(why, "Error in hard, soft or soft_seconds setting in buffer limit configuration.");
        c->output_limit[class] = (struct output_limit){(uint64_t)hard, (uint64_t)soft, (uint64_t)soft_s};
    }
    return true;
}

/* Save points follow those that are there; whoever reads takes away what was there before. "" takes all away. */
static bool read_save(struct config *c, char *const *words, int n, char *why) {
    if (n == 1 && !*words[0]) n = 0;
    if (!n) c->n_save = 0;
    if (n % 2) return directive_wrong(why, "Invalid save parameters");
    for (int i = 0; i < n; i += 2) {
        struct save_point s;
        if (!parse_int64(words[i], strlen(words[i]), &s.seconds) || !parse_int64(words[i + 1], strlen(words[i + 1]), &s.changes) ||
            s.seconds < 1 || s.changes < 0 || s.changes > INT32_MAX)
            return directive_wrong(why, "Invalid save parameters");
        if (c->n_save == CONFIG_SAVE_MAX) return directive_wrong(why, "Too many save parameters");
        c->save[c->n_save++] = s;
    }
    return true;
}

static bool read_words(const struct directive *d, char *field, char *const *words, int n, char *why) {
    size_t at = 0;
    for (int i = 0; i < n; i++) {
        size_t size = strlen(words[i]);
        if (at + (i > 0) + size + 1 > d->size) return directive_wrong(why, "argument too long");
        if (i) field[at++] = ' ';
        memcpy(field + at, words[i], size);
        at += size;
    }
    field[at] = 0;
    return true;
}

static bool read_value(const struct directive *d, struct config *c, char *const *words, int n, char *why) {
    char *field = (char *)c + d->at;
    int64_t number;
    switch (d->kind) {
    case DIRECTIVE_NUMBER:
    case DIRECTIVE_OCTAL:
    case DIRECTIVE_BYTES:
        if (!read_integer(d, words[0], &number, why)) return false;
        *(int64_t *)field = number;
        return true;
    case DIRECTIVE_BOOL:
        if (strcasecmp(words[0], "yes") && strcasecmp(words[0], "no")) return directive_wrong(why, "argument must be 'yes' or 'no'");
        *(bool *)field = !strcasecmp(words[0], "yes");
        return true;
    case DIRECTIVE_CHOICE: return read_choice(d, words[0], (int32_t *)field, why);
    case DIRECTIVE_TEXT:
    case DIRECTIVE_WORDS: return read_words(d, field, words, n, why);
    case DIRECTIVE_BIND: return read_bind(c, words, n, why);
    case DIRECTIVE_OUTPUT_LIMIT: return read_output_limit(c, words, n, why);
    case DIRECTIVE_SAVE: return read_save(c, words, n, why);
    }
    abort();
}

/* The words of a text, at single blanks; "" has none. Returns how many, or -1 if they are too many. */
static int split_at_blanks(char *text, char **words) {
    int n = 0;
    for (char *p = *text ? text : NULL; p; n++) {
        if (n == DIRECTIVE_WORDS_MAX) return -1;
        words[n] = strsep(&p, " ");
    }
    return n;
}

bool directive_read(const struct directive *d, struct config *c, char *const *words, int n, char *why) {
    char copy[DIRECTIVE_SHOW_MAX], *parts[DIRECTIVE_WORDS_MAX];
    if (!directive_takes_words(d)) {
        if (n != 1) return directive_wrong(why, "wrong number of arguments");
    } else if (n == 1 && strchr(words[0], ' ')) { /* several words in quotes, as in Redis: --save "60 1" */
        if (strlen(words[0]) >= sizeof copy) return directive_wrong(why, "argument too long");
        n = split_at_blanks(strcpy(copy, words[0]), parts);
        if (n < 0) return directive_wrong(why, "too many words");
        words = parts;
    }
    return read_value(d, c, words, n, why) && (!d->check || d->check(c, why));
}

bool directive_read_text(const struct directive *d, struct config *c, const char *text, char *why) {
    char copy[DIRECTIVE_SHOW_MAX], *words[DIRECTIVE_WORDS_MAX] = {copy};
    int n = 1;
    if (strlen(text) >= sizeof copy) return directive_wrong(why, "argument too long");
    strcpy(copy, text);
    if (directive_takes_words(d) && (n = split_at_blanks(copy, words)) < 0) return directive_wrong(why, "too many words");
    if (d->kind == DIRECTIVE_SAVE) c->n_save = 0;
    return directive_read(d, c, words, n, why);
}

/* ---- showing ---- */

static void show_integer(const struct directive *d, int64_t n, char *out) {
    if (d->flags & DIRECTIVE_PERCENT && n < 0) sprintf(out, "%lld%%", -(long long)n);
    else sprintf(out, d->kind == DIRECTIVE_OCTAL ? "%llo" : "%lld", (long long)n);
}

void directive_show(const struct directive *d, const struct config *c, char out[DIRECTIVE_SHOW_MAX]) {
    const char *field = (const char *)c + d->at;
    size_t n = 0;
    *out = 0;
    switch (d->kind) {
    case DIRECTIVE_NUMBER:
    case DIRECTIVE_OCTAL:
    case DIRECTIVE_BYTES: show_integer(d, *(const int64_t *)field, out); break;
    case DIRECTIVE_BOOL: strcpy(out, *(const bool *)field ? "yes" : "no"); break;
    case DIRECTIVE_CHOICE: strcpy(out, d->names[*(const int32_t *)field]); break;
    case DIRECTIVE_TEXT:
    case DIRECTIVE_WORDS: strcpy(out, field); break;
    case DIRECTIVE_BIND:
        for (uint32_t i = 0; i < c->n_bind; i++) n += (size_t)sprintf(out + n, "%s%s", i ? " " : "", c->bind[i]);
        break;
    case DIRECTIVE_OUTPUT_LIMIT:
        for (int i = 0; i < CLIENT_CLASSES; i++) {
            const struct output_limit *l = &c->output_limit[i];
            n += (size_t)sprintf(out + n, "%s%s %llu %llu %llu", i ? " " : "", config_client_classes[i], (unsigned long long)l->hard,
                (unsigned long long)l->soft, (unsigned long long)l->soft_s);
        }
        break;
    case DIRECTIVE_SAVE:
        for (uint32_t i = 0; i < c->n_save; i++)
            n += (size_t)sprintf(out + n, "%s%lld %lld", i ? " " : "", (long long)c->save[i].seconds, (long long)c->save[i].changes);
        break;
    }
}

_Static_assert(CONFIG_BIND_MAX *CONFIG_HOST_MAX < DIRECTIVE_SHOW_MAX && CONFIG_SAVE_MAX * 42 < DIRECTIVE_SHOW_MAX &&
        CONFIG_TEXT_MAX < DIRECTIVE_SHOW_MAX,
    "every value fits");

struct config *config_defaults(void) {
    struct config *c = calloc(1, sizeof *c);
    char why[DIRECTIVE_WHY_MAX];
    if (!c) return NULL;
    for (const struct directive *d = NULL; (d = directive_next(d));) {
        if (directive_read_text(d, c, d->fall_back, why)) continue;
        fprintf(stderr, "darter: the default of %s: %s\n", d->name, why);
        abort();
    }
    return c;
}
