#include "server/parse.h"

#include <ctype.h>
#include <limits.h>
#include <mimalloc.h>
#include <stdio.h>

#include "shard/blob.h"

#define LINE_MAX_BYTES 65536        /* of an inline command, and of a header */
#define KEEP_PARTIAL 4096           /* bytes of a command from which on its parsed part is kept */
#define ARGC_MAX_NO_AUTH 10
#define BULK_MAX_NO_AUTH 16384

static bool argv_room(struct thread *t, uint32_t n) {
    if (n <= t->argv_capacity) return true;
    uint32_t capacity = t->argv_capacity;
    while (capacity < n) capacity *= 2;
    struct arg *argv = mi_realloc(t->argv, capacity * sizeof *argv);
    if (!argv) return false;
    t->argv = argv;
    t->argv_capacity = capacity;
    return true;
}

/* The number of a header line behind its kind byte. Returns what follows CR LF; NULL: not whole. *ok: it is a canonical integer. */
static inline const char *header(const char *p, const char *end, int64_t *v, bool *ok) {
    const char *q = p;
    uint64_t n = 0;
    while (q < end && (unsigned char)(*q - '0') < 10) n = n * 10 + (uint64_t)(*q++ - '0');
    if (__builtin_expect(q + 1 < end && *q == '\r' && q > p && q - p < 19 && (*p != '0' || q == p + 1), 1)) {
        *v = (int64_t)n;
        *ok = true;
        return q + 2;
    }
    const char *cr = memchr(p, '\r', (size_t)(end - p));
    if (!cr || cr + 1 >= end) return NULL;
    *ok = parse_int64(p, (size_t)(cr - p), v);
    return cr + 2;
}

void partial_drop(struct conn *c) {
    struct partial *k = c->partial;
    if (!k) return;
    if (k->blob) blob_discard(k->blob);
    for (uint32_t i = 0; i < k->have; i++) if (k->args[i].blob) blob_discard(k->args[i].blob);
    mi_free(k->args);
    mi_free(k);
    c->partial = NULL;
}

/* Keeps what is parsed: argv as offsets from the command's start. */
static bool keep_partial(struct thread *t, struct conn *c, const char *start, const char *at, uint32_t argc, uint32_t have) {
    struct partial *k = c->partial;
    if (!k) {
        c->partial = k = mi_calloc(1, sizeof *k);
        if (!k) return false;
        k->argc = argc;
    }
    if (have > k->capacity) {
        uint32_t capacity = k->capacity ? k->capacity * 2 : 16;
        while (capacity < have + 1) capacity *= 2;
        struct partial_arg *args = mi_realloc(k->args, capacity * sizeof *args);
        if (!args) return false;
        k->args = args;
        k->capacity = capacity;
    }
    for (uint32_t i = k->have; i < have; i++) k->args[i] = (struct partial_arg){.at = (size_t)(t->argv[i].p - start), .size = t->argv[i].size};
    k->have = have;
    k->at = (size_t)(at - start);
    return true;
}

/* Begins to receive an argument of size bytes into a blob; what is there of it is copied, and [at, end) counts as taken. */
static enum parse_result start_blob(struct thread *t, struct conn *c, const char *start, const char *at, const char *end, uint32_t argc, uint32_t have, size_t size) {
    if (!keep_partial(t, c, start, at, argc, have)) return PARSE_NO_MEMORY;
    struct partial *k = c->partial;
    k->blob = blob_receive(size);
    if (!k->blob) return PARSE_NO_MEMORY;
    k->blob_size = size;
    k->blob_have = (size_t)(end - at);
    memcpy(k->blob->bytes, at, k->blob_have);
    k->blob_took_rest = true;
    return PARSE_MORE;
}

/* Arguments that were kept come back as pointers. */
static bool restore_partial(struct thread *t, const struct partial *k, const char *start) {
    if (!argv_room(t, k->have + 1)) return false;
    for (uint32_t i = 0; i < k->have; i++) {
        const struct partial_arg *a = &k->args[i];
        t->argv[i] = (struct arg){a->blob ? a->blob->bytes : start + a->at, a->size, a->blob ? ARG_BLOB : 0};
        t->argv_has_blob |= a->blob != NULL;
    }
    return true;
}

static enum parse_result bad(const char **error, const char *text) {
    *error = text;
    return PARSE_BAD;
}

static enum parse_result not_whole(const char *p, const char *end, const char *too_big, const char **error) {
    return end - p > LINE_MAX_BYTES ? bad(error, too_big) : PARSE_MORE;
}

static enum parse_result parse_multibulk(struct thread *t, struct conn *c, const char *p, const char *end, const char **next, uint32_t *argc, const char **error) {
    const char *start = p, *q;
    struct partial *k = c->partial;
    int64_t n, size;
    uint32_t have = 0;
    bool ok;
    if (__builtin_expect(k != NULL, 0)) {
        if (k->skip_newline) {
            if ((size_t)(end - p) < k->at + 2) return PARSE_MORE;
            k->at += 2;
            k->skip_newline = false;
        }
        if (!restore_partial(t, k, start)) return PARSE_NO_MEMORY;
        n = k->argc;
        have = k->have;
        p = start + k->at;
    } else {
        q = header(p + 1, end, &n, &ok);
        if (!q) return not_whole(p, end, "too big mbulk count string", error);
        if (!ok || n > INT_MAX) return bad(error, "invalid multibulk length");
        if (n > ARGC_MAX_NO_AUTH && !c->authenticated) return bad(error, "unauthenticated multibulk length");
        p = q;
        if (n <= 0) {
            *next = p;
            return PARSE_NOTHING;
        }
    }
    for (; have < n; have++) {
        if (__builtin_expect(have == t->argv_capacity, 0) && !argv_room(t, have + 1)) return PARSE_NO_MEMORY;
        if (p < end && *p != '$') {
            static _Thread_local char text[] = "expected '$', got 'x'";
            text[sizeof text - 3] = *p;
            return bad(error, text);
        }
        q = p < end ? header(p + 1, end, &size, &ok) : NULL;
        if (!q) {
            if (p < end && end - p > LINE_MAX_BYTES) return bad(error, "too big bulk count string");
            break;
        }
        if (!ok || size < 0 || size > t->config->proto_max_bulk_len) return bad(error, "invalid bulk length");
        if (size > BULK_MAX_NO_AUTH && !c->authenticated) return bad(error, "unauthenticated bulk length");
        if (end - q < size + 2) {
            if (size >= (int64_t)BLOB_SHARE_MIN && end - q < size) return start_blob(t, c, start, q, end, (uint32_t)n, have, (size_t)size);
            break;
        }
        t->argv[have] = (struct arg){q, (uint32_t)size, 0};
        p = q + size + 2;
    }
    if (have == n) {
        *argc = have;
        *next = p;
        return PARSE_COMMAND;
    }
    if ((c->partial || p - start > KEEP_PARTIAL) && !keep_partial(t, c, start, p, (uint32_t)n, have)) return PARSE_NO_MEMORY;
    return PARSE_MORE;
}

/* One word of an inline command, unescaped to *to. Returns behind it, or NULL: the quotes are not balanced. */
static const char *inline_word(const char *p, const char *end, char **to) {
    char quote = 0;
    for (; p < end; p++) {
        if (!quote) {
            if (isspace((unsigned char)*p) || !*p) return p;
            if (*p == '"' || *p == '\'') quote = *p;
            else *(*to)++ = *p;
            continue;
        }
        if (*p == quote) return p + 1 < end && p[1] && !isspace((unsigned char)p[1]) ? NULL : p + 1;
        if (quote == '"' && *p == '\\' && p + 1 < end) {
            static const char from[] = "nrtba", what[] = "\n\r\t\b\a";
            if (p[1] == 'x' && end - p > 3 && isxdigit((unsigned char)p[2]) && isxdigit((unsigned char)p[3])) {
                unsigned hex;
                sscanf(p + 2, "%2x", &hex);
                *(*to)++ = (char)hex;
                p += 3;
                continue;
            }
            const char *f = p[1] ? strchr(from, p[1]) : NULL;
            *(*to)++ = f ? what[f - from] : p[1];
            p++;
        } else if (quote == '\'' && *p == '\\' && p + 1 < end && p[1] == '\'') *(*to)++ = *++p;
        else *(*to)++ = *p;
    }
    return quote ? NULL : p;
}

static enum parse_result parse_inline(struct thread *t, const char *p, const char *end, const char **next, uint32_t *argc, const char **error) {
    const char *newline = memchr(p, '\n', (size_t)(end - p));
    if (!newline) return not_whole(p, end, "too big inline request", error);
    const char *line_end = newline > p && newline[-1] == '\r' ? newline - 1 : newline;
    *next = newline + 1;
    *argc = 0;
    char *to = mi_malloc((size_t)(line_end - p) + 1);
    if (!to) return PARSE_NO_MEMORY;
    tick_add_memory(thread_tick(t), to);
    for (;;) {
        while (p < line_end && isspace((unsigned char)*p)) p++;
        if (p >= line_end || !*p) break;
        char *word = to;
        p = inline_word(p, line_end, &to);
        if (!p) return bad(error, "unbalanced quotes in request");
        if (!argv_room(t, *argc + 1)) return PARSE_NO_MEMORY;
        t->argv[(*argc)++] = (struct arg){word, (uint32_t)(to - word), 0};
    }
    return *argc ? PARSE_COMMAND : PARSE_NOTHING;
}

enum parse_result parse(struct thread *t, struct conn *c, const char *p, const char *end, const char **next, uint32_t *argc, const char **error) {
    if (__builtin_expect(*p == '*' || c->partial, 1)) return parse_multibulk(t, c, p, end, next, argc, error);
    return parse_inline(t, p, end, next, argc, error);
}
