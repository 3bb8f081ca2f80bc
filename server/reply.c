#include "server/reply.h"

#include <assert.h>
#include <math.h>
#include <mimalloc.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/regions.h"
#include "shard/keyspace.h"
#include "shard/mapping.h"

#define REPLY_FIRST 4096u            /* bytes of a reply's first allocation */
#define HEAP_MAX ((size_t)256 << 10) /* what is longer becomes a mapping at once: the copy to that is short, and is the last */

/* Then they are given back by the main thread. */
static bool is_mapped(size_t capacity) { return capacity >= MAPPING_MIN; }

static void free_bytes(struct reply *r) {
    if (is_mapped(r->capacity)) regions_give_back(r->p, r->capacity);
    else mi_free(r->p);
}

void reply_drop(struct reply *r) {
    free_bytes(r);
    mi_free(r->refs);
    *r = (struct reply){.resp = r->resp};
}

bool reply_grow(struct reply *r, size_t more) {
    size_t capacity = r->capacity ? r->capacity : REPLY_FIRST;
    if (r->failed) return false;
    while (capacity < r->size + more) capacity *= 2;
    if (capacity > HEAP_MAX && capacity < MAPPING_MIN) capacity = MAPPING_MIN;
    char *p = growing_resize(r->p, r->capacity, r->size, capacity);
    if (!p) {
        r->failed = true;
        return false;
    }
    r->p = p;
    r->capacity = capacity;
    return true;
}

/* kind, decimal number, CR LF. */
static void header(struct reply *r, char kind, int64_t n) {
    char *p = reply_room(r, 24);
    if (!p) return;
    *p = kind;
    unsigned digits = format_int64(p + 1, n);
    p[digits + 1] = '\r';
    p[digits + 2] = '\n';
    r->size += digits + 3;
}

void reply_status(struct reply *r, const char *text) {
    REPLY_LITERAL(r, "+");
    reply_bytes(r, text, strlen(text));
    REPLY_LITERAL(r, "\r\n");
}

void reply_error(struct reply *r, const char *text) {
    size_t n = strlen(text);
    char *p = reply_room(r, n + 3);
    if (!p) return;
    *p++ = '-';
    for (size_t i = 0; i < n; i++) *p++ = text[i] == '\r' || text[i] == '\n' ? ' ' : text[i];
    *p++ = '\r';
    *p++ = '\n';
    r->size += n + 3;
}

void reply_errorf(struct reply *r, const char *format, ...) {
    char text[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    reply_error(r, text);
}

void reply_int(struct reply *r, int64_t v) { header(r, ':', v); }

void reply_bulk(struct reply *r, const char *v, size_t size) {
    char *p = reply_room(r, size + 32);
    if (!p) return;
    char *start = p;
    *p++ = '$';
    if (size >= 100) {
        p += format_int64(p, (int64_t)size);
    } else {
        if (size >= 10) *p++ = (char)('0' + size / 10);
        *p++ = (char)('0' + size % 10);
    }
    memcpy(p, "\r\n", 2);
    memcpy(p + 2, v, size);
    memcpy(p + 2 + size, "\r\n", 2);
    r->size += (size_t)(p - start) + size + 4;
}

void reply_bulk_text(struct reply *r, const char *text) { reply_bulk(r, text, strlen(text)); }

void reply_bulk_int(struct reply *r, int64_t v) {
    char digits[24];
    reply_bulk(r, digits, format_int64(digits, v));
}

static bool room_for_ref(struct reply *r) {
    if (r->n_refs < r->refs_capacity) return true;
    uint32_t capacity = r->refs_capacity ? r->refs_capacity * 2 : 4;
    struct reply_ref *refs = mi_realloc(r->refs, capacity * sizeof *refs);
    if (!refs) return false;
    r->refs = refs;
    r->refs_capacity = capacity;
    return true;
}

/* With room for it; the reference is the caller's to count. */
static bool refer(struct reply *r, struct blob *b, size_t start, size_t size) {
    header(r, '$', (int64_t)size);
    if (r->failed) return false;
    r->refs[r->n_refs++] = (struct reply_ref){.at = r->size, .blob = b, .start = start, .size = size};
    r->refs_bytes += size;
    REPLY_LITERAL(r, "\r\n");
    return true;
}

void reply_bulk_blob(struct reply *r, struct blob *b, size_t start, size_t size) {
    if (size < BLOB_SHARE_MIN || r->failed || !room_for_ref(r)) {
        reply_bulk(r, b->bytes + start, size);
        return;
    }
    if (refer(r, b, start, size)) b->refs++;
}

bool reply_lent_blob(struct reply *r, struct blob *b) {
    if (!r->failed && room_for_ref(r)) return refer(r, b, 0, b->size);
    r->failed = true;
    return false;
}

void reply_stored_large(struct reply *r, const char *text, uint32_t size) {
    struct blob *b = packed_blob(text);
    assert(b->size == size && b->refs);
    reply_bulk_blob(r, b, 0, size);
}

/* A ref behind every byte is never taken along. */
void reply_hold_blob(struct reply *r, struct blob *b) {
    if (!room_for_ref(r)) abort(); /* a few bytes refused: nothing can be answered any more */
    r->refs[r->n_refs++] = (struct reply_ref){.at = SIZE_MAX, .blob = b};
}

void reply_null(struct reply *r) {
    if (r->resp < 3) REPLY_LITERAL(r, "$-1\r\n");
    else REPLY_LITERAL(r, "_\r\n");
}

void reply_null_array(struct reply *r) {
    if (r->resp < 3) REPLY_LITERAL(r, "*-1\r\n");
    else REPLY_LITERAL(r, "_\r\n");
}

void reply_array(struct reply *r, size_t n) { header(r, '*', (int64_t)n); }

void reply_map(struct reply *r, size_t n) {
    if (r->resp < 3) header(r, '*', (int64_t)n * 2);
    else header(r, '%', (int64_t)n);
}

void reply_set(struct reply *r, size_t n) { header(r, r->resp < 3 ? '*' : '~', (int64_t)n); }

void reply_push(struct reply *r, size_t n) { header(r, r->resp < 3 ? '*' : '>', (int64_t)n); }

/* Whole numbers of so many digits look the same as integers do. */
#define WHOLE_MAX 1e15

void reply_double(struct reply *r, double v) {
    char text[64];
    if (fabs(v) < WHOLE_MAX && (double)(int64_t)v == v && !(v == 0 && signbit(v))) {
        if (r->resp < 3) {
            reply_bulk_int(r, (int64_t)v);
            return;
        }
        char *p = reply_room(r, INT64_TEXT_SIZE + 3);
        if (!p) return;
        unsigned size = format_int64(p + 1, (int64_t)v);
        p[0] = ',';
        memcpy(p + 1 + size, "\r\n", 2);
        r->size += size + 3;
        return;
    }
    if (isinf(v)) snprintf(text, sizeof text, v > 0 ? "inf" : "-inf");
    else if (isnan(v)) snprintf(text, sizeof text, "nan");
    else snprintf(text, sizeof text, "%.17g", v);
    if (r->resp < 3) {
        reply_bulk_text(r, text);
        return;
    }
    REPLY_LITERAL(r, ",");
    reply_bytes(r, text, strlen(text));
    REPLY_LITERAL(r, "\r\n");
}

void reply_bool(struct reply *r, bool v) {
    if (r->resp < 3) reply_int(r, v);
    else if (v) REPLY_LITERAL(r, "#t\r\n");
    else REPLY_LITERAL(r, "#f\r\n");
}

void reply_verbatim_begin(struct reply *r, const char *kind3, size_t size) {
    if (r->resp < 3) {
        header(r, '$', (int64_t)size);
        return;
    }
    header(r, '=', (int64_t)size + 4);
    reply_bytes(r, kind3, 3);
    REPLY_LITERAL(r, ":");
}

void reply_verbatim(struct reply *r, const char *kind3, const char *p, size_t size) {
    reply_verbatim_begin(r, kind3, size);
    reply_bytes(r, p, size);
    REPLY_LITERAL(r, "\r\n");
}

void reply_wrong_type(struct reply *r) { REPLY_LITERAL(r, "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"); }
void reply_syntax_error(struct reply *r) { REPLY_LITERAL(r, "-ERR syntax error\r\n"); }
void reply_not_integer(struct reply *r) { REPLY_LITERAL(r, "-ERR value is not an integer or out of range\r\n"); }
void reply_no_memory(struct reply *r) { REPLY_LITERAL(r, "-OOM command not allowed when used memory > 'maxmemory'.\r\n"); }

/* A large whole that nothing stands before changes hands without a copy. */
static bool swap_bytes(struct reply *to, struct reply *from, size_t start, size_t end) {
    if (start || to->size || end != from->size || end < MAPPING_MIN || to->failed) return false;
    struct reply old = *to;
    to->p = from->p;
    to->capacity = from->capacity;
    to->size = end;
    from->p = old.p;
    from->capacity = old.capacity;
    from->size = 0;
    return true;
}

void reply_take_refs(struct reply *to, size_t base, struct reply *from, size_t start, size_t end, uint32_t ref, uint32_t ref_end) {
    for (uint32_t i = ref; i < ref_end; i++) {
        struct reply_ref *taken = &from->refs[i];
        if (!taken->blob || taken->at < start || taken->at >= end) continue;
        if (to->failed || !room_for_ref(to)) {
            to->failed = true;
            return;
        }
        to->refs[to->n_refs] = *taken;
        to->refs[to->n_refs++].at = base + (taken->at - start);
        to->refs_bytes += taken->size;
        from->refs_bytes -= taken->size;
        taken->blob = NULL;
    }
}

void reply_take(struct reply *to, struct reply *from, size_t start, size_t end) {
    size_t base = to->size;
    if (start == end) return; /* a reply that was asked not to be: there may be no bytes at all */
    if (!swap_bytes(to, from, start, end)) reply_bytes(to, from->p + start, end - start);
    if (__builtin_expect(from->n_refs, 0)) reply_take_refs(to, base, from, start, end, 0, from->n_refs);
}

void reply_join(struct memory *m, struct reply *to, struct reply *from) {
    reply_take(to, from, 0, from->size);
    to->failed |= from->failed;
    for (uint32_t i = 0; i < from->n_refs; i++)
        if (from->refs[i].blob) blob_release(m, from->refs[i].blob);
    reply_drop(from);
}

/* A value's ref is behind the value's beginning. */
void reply_cut(struct shard *s, struct reply *r, size_t size) {
    r->size = size;
    while (r->n_refs && r->refs[r->n_refs - 1].at >= size) {
        struct reply_ref *ref = &r->refs[--r->n_refs];
        r->refs_bytes -= ref->size;
        blob_release(s->memory, ref->blob);
    }
}
