#include "server/parse.h"

#include <ctype.h>
#include <limits.h>
#include <mimalloc.h>
#include <stdio.h>

#include "server/regions.h"
#include "shard/blob.h"
#include "shard/mapping.h"

#define LINE_MAX_BYTES 65536 /* of an inline command, and of a header */
#define KEEP_PARTIAL 4096    /* bytes of a command from which on its parsed part is kept */
#define ARGC_MAX_NO_AUTH 10
#define BULK_MAX_NO_AUTH 16384

static bool argv_room(struct thread *t, uint32_t n) {
    if (n <= t->argv_capacity) return true;
    uint32_t capacity = t->argv_capacity;
    while (capacity < n) capacity *= 2;
    size_t size = t->argv_capacity * sizeof *t->argv;
    struct arg *argv = growing_resize(t->argv, size, size, capacity * sizeof *argv);
    if (!argv) return false;
    t->argv = argv;
    t->argv_capacity = capacity;
    return true;
}

/* A header's number, the slow way: any length, and what is wrong with it. Returns what follows CR LF; NULL: not whole. */
static const char *header_slow(const char *p, const char *end, int64_t *v, bool *ok) {
    const char *cr = memchr(p, '\r', (size_t)(end - p));
    if (!cr || cr + 1 >= end) return NULL;
    *ok = parse_int64(p, (size_t)(cr - p), v);
    return cr + 2;
}

/* The number of a header line behind its kind byte. *ok: it is a canonical integer. One or two digits are what nearly all have. */
static inline const char *header(const char *p, const char *end, int64_t *v, bool *ok) {
    if (__builtin_expect(end - p >= 4, 1)) {
        unsigned first = (unsigned char)p[0] - '0', second = (unsigned char)p[1] - '0';
        *ok = true;
        if (first < 10 && p[1] == '\r') {
            *v = first;
            return p + 3;
        }
        if (first - 1 < 9 && second < 10 && p[2] == '\r') {
            *v = first * 10 + second;
            return p + 4;
        }
    }
    return header_slow(p, end, v, ok);
}

void partial_free(struct conn *c) {
    regions_free_room(c->partial->args, c->partial->capacity * sizeof *c->partial->args);
    mi_free(c->partial);
    c->partial = NULL;
}

void partial_drop(struct conn *c) {
    struct partial *k = c->partial;
    if (!k) return;
    if (k->blob) blob_give_up(k->blob);
    for (uint32_t i = 0; i < k->have; i++)
        if (k->args[i].blob) blob_give_up(k->args[i].blob);
    partial_free(c);
}

static bool partial_room(struct partial *k, uint32_t n) {
    if (n <= k->capacity) return true;
    uint32_t capacity = k->capacity ? k->capacity * 2 : 16;
    while (capacity < n) capacity *= 2;
    size_t size = k->capacity * sizeof *k->args;
    struct partial_arg *args = growing_resize(k->args, size, size, capacity * sizeof *args);
    if (!args) return false;
    k->args = args;
    k->capacity = capacity;
    return true;
}

/* Begins to keep what is parsed: argv as offsets from the command's start. */
static struct partial *keep_partial(struct thread *t, struct conn *c, const char *start, uint32_t argc, uint32_t have) {
    struct partial *k = mi_calloc(1, sizeof *k);
    if (!k || !partial_room(k, have)) {
        mi_free(k);
        return NULL;
    }
    for (uint32_t i = 0; i < have; i++) k->args[i] = (struct partial_arg){.at = (size_t)(t->argv[i].p - start), .size = t->argv[i].size};
    k->argc = argc;
    k->have = have;
    return c->partial = k;
}

/* Begins to receive an argument of size bytes into a blob; what is there of it is copied, and [at, end) counts as taken. */
static enum parse_result start_blob(struct partial *k, const char *at, const char *end, size_t size) {
    k->blob = blob_receive(size);
    if (!k->blob) return PARSE_NO_MEMORY;
    k->blob_size = size;
    k->blob_have = (size_t)(end - at);
    memcpy(k->blob->bytes, at, k->blob_have);
    k->blob_took_rest = true;
    return PARSE_MORE;
}

bool partial_blob_done(struct partial *k) {
    if (!partial_room(k, k->have + 1)) return false;
    k->blob->size = k->blob_size;
    k->args[k->have++] = (struct partial_arg){.size = (uint32_t)k->blob_size, .blob = k->blob};
    k->blob = NULL;
    k->blob_size = k->blob_have = 0;
    k->skip_newline = true;
    return true;
}

/* The command is whole: its arguments come back as pointers. */
static bool restore_partial(struct thread *t, const struct partial *k, const char *start) {
    if (!argv_room(t, k->have)) return false;
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

/* Where an argument lies, or why it does not yet. */
struct bulk {
    const char *p;
    uint32_t size;
    bool large; /* not whole, and worth a blob */
};

/* The bulk at p. Returns behind it, NULL if it is not whole (see large), or sets *error. */
static inline const char *parse_bulk(
    const struct thread *t, const struct conn *c, const char *p, const char *end, struct bulk *b, const char **error) {
    int64_t size;
    bool ok;
    b->large = false;
    if (p >= end) return NULL;
    if (__builtin_expect(*p != '$', 0)) {
        static _Thread_local char text[] = "expected '$', got 'x'";
        text[sizeof text - 3] = *p;
        *error = text;
        return NULL;
    }
    const char *q = header(p + 1, end, &size, &ok);
    if (__builtin_expect(!q, 0)) {
        if (end - p > LINE_MAX_BYTES) *error = "too big bulk count string";
        return NULL;
    }
    if (__builtin_expect(!ok || size < 0 || size > t->config->proto_max_bulk_len, 0)) {
        *error = "invalid bulk length";
        return NULL;
    }
    if (__builtin_expect(size > BULK_MAX_NO_AUTH && conn_must_authenticate(c), 0)) {
        *error = "unauthenticated bulk length";
        return NULL;
    }
    b->p = q;
    b->size = (uint32_t)size;
    if (__builtin_expect(end - q < size + 2, 0)) {
        b->large = size >= (int64_t)BLOB_SHARE_MIN && end - q < size;
        return NULL;
    }
    return q + size + 2;
}

/* Goes on with a command whose first part is kept. */
static enum parse_result parse_kept(
    struct thread *t, struct conn *c, const char *start, const char *end, const char **next, uint32_t *argc, const char **error) {
    struct partial *k = c->partial;
    if (k->skip_newline) {
        if ((size_t)(end - start) < k->at + 2) return PARSE_MORE;
        k->at += 2;
        k->skip_newline = false;
    }
    while (k->have < k->argc) {
        struct bulk b;
        const char *q = parse_bulk(t, c, start + k->at, end, &b, error);
        if (!q) {
            if (*error) return PARSE_BAD;
            if (!b.large) return PARSE_MORE;
            k->at = (size_t)(b.p - start);
            return start_blob(k, b.p, end, b.size);
        }
        if (!partial_room(k, k->have + 1)) return PARSE_NO_MEMORY;
        k->args[k->have++] = (struct partial_arg){.at = (size_t)(b.p - start), .size = b.size};
        k->at = (size_t)(q - start);
    }
    if (!restore_partial(t, k, start)) return PARSE_NO_MEMORY;
    *argc = k->argc;
    *next = start + k->at;
    return PARSE_COMMAND;
}

static enum parse_result parse_multibulk(
    struct thread *t, struct conn *c, const char *p, const char *end, const char **next, uint32_t *argc, const char **error) {
    const char *start = p;
    int64_t n;
    bool ok;
    p = header(p + 1, end, &n, &ok);
    if (__builtin_expect(!p, 0)) return not_whole(start, end, "too big mbulk count string", error);
    if (__builtin_expect(!ok || n > INT_MAX, 0)) return bad(error, "invalid multibulk length");
    if (__builtin_expect(n > ARGC_MAX_NO_AUTH && conn_must_authenticate(c), 0)) return bad(error, "unauthenticated multibulk length");
    *next = p;
    if (__builtin_expect(n <= 0, 0)) return PARSE_NOTHING;
    for (uint32_t have = 0; have < n; have++) {
        struct bulk b;
        if (__builtin_expect(have == t->argv_capacity, 0) && !argv_room(t, have + 1)) return PARSE_NO_MEMORY;
        const char *q = parse_bulk(t, c, p, end, &b, error);
        if (__builtin_expect(!q, 0)) {
            if (*error) return PARSE_BAD;
            if (!b.large && p - start <= KEEP_PARTIAL) return PARSE_MORE;
            struct partial *k = keep_partial(t, c, start, (uint32_t)n, have);
            if (!k) return PARSE_NO_MEMORY;
            k->at = (size_t)((b.large ? b.p : p) - start);
            return b.large ? start_blob(k, b.p, end, b.size) : PARSE_MORE;
        }
        t->argv[have] = (struct arg){b.p, b.size, 0};
        p = q;
    }
    *argc = (uint32_t)n;
    *next = p;
    return PARSE_COMMAND;
}

static int hex_digit(char c) { return c <= '9' ? c - '0' : (c | 0x20) - 'a' + 10; }

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
                *(*to)++ = (char)(hex_digit(p[2]) << 4 | hex_digit(p[3]));
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

static enum parse_result parse_inline(
    struct thread *t, const char *p, const char *end, const char **next, uint32_t *argc, const char **error) {
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

enum parse_result parse(
    struct thread *t, struct conn *c, const char *p, const char *end, const char **next, uint32_t *argc, const char **error) {
    if (__builtin_expect(c->partial != NULL, 0)) return parse_kept(t, c, p, end, next, argc, error);
    if (__builtin_expect(*p == '*', 1)) return parse_multibulk(t, c, p, end, next, argc, error);
    return parse_inline(t, p, end, next, argc, error);
}
