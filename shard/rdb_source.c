/* In this file: the bytes; lengths and counts; room for texts; strings; scores. */
#include "shard/rdb_source.h"

#include <math.h>
#include <mimalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/rdb_internal.h"
#include "shard/shard.h"
#include "shard/unpack.h"

/* A compressed byte becomes at most so many: 3 bytes make 264. */
#define LZF_RATIO_MAX 90u
#define STRING_MAX ((uint64_t)512 << 20)

/* ---- bytes ---- */

bool rdb_wrong(struct rdb_source *x, const char *what) {
    unsigned long long at = (unsigned long long)(x->offset - (uint64_t)(x->end - x->at));
    if (!x->why[0]) snprintf(x->why, sizeof x->why, "at offset %llu: %s", at, what);
    return false;
}

bool rdb_no_memory(struct rdb_source *x) {
    x->no_memory = true;
    return rdb_wrong(x, "out of memory");
}

bool rdb_need(struct rdb_source *x, size_t n) {
    size_t have = (size_t)(x->end - x->at);
    if (__builtin_expect(have >= n, 1)) return true;
    if (n - have > x->left || !x->more) return rdb_wrong(x, "the data end in the middle");
    return x->more(x, n);
}

bool rdb_get_byte(struct rdb_source *x, uint8_t *out) {
    if (!rdb_need(x, 1)) return false;
    *out = *x->at++;
    return true;
}

bool rdb_get_little(struct rdb_source *x, unsigned bytes, uint64_t *out) {
    if (!rdb_need(x, bytes)) return false;
    *out = 0;
    for (unsigned i = 0; i < bytes; i++) *out |= (uint64_t)x->at[i] << 8 * i;
    x->at += bytes;
    return true;
}

static bool get_big(struct rdb_source *x, unsigned bytes, uint64_t *out) {
    if (!rdb_need(x, bytes)) return false;
    *out = 0;
    for (unsigned i = 0; i < bytes; i++) *out = *out << 8 | *x->at++;
    return true;
}

/* Without a copy where it can be done. */
bool rdb_skip(struct rdb_source *x, uint64_t n) {
    while (n) {
        uint64_t have = (uint64_t)(x->end - x->at), some = n < have ? n : have;
        x->at += some;
        n -= some;
        if (n && !rdb_need(x, 1)) return false;
    }
    return true;
}

/* ---- lengths ---- */

/* A length, or (*encoded) what a string's first byte says that is none. */
static bool get_length(struct rdb_source *x, uint64_t *out, bool *encoded) {
    uint8_t first;
    *encoded = false;
    *out = 0;
    if (!rdb_get_byte(x, &first)) return false;
    switch (first >> 6) {
    case RDB_LENGTH_6: *out = first & 0x3f; return true;
    case RDB_LENGTH_14: {
        uint8_t second;
        if (!rdb_get_byte(x, &second)) return false;
        *out = (uint64_t)(first & 0x3f) << 8 | second;
        return true;
    }
    case RDB_ENCODED >> 6:
        *encoded = true;
        *out = first & 0x3f;
        return true;
    default: break;
    }
    if (first == RDB_LENGTH_32) return get_big(x, 4, out);
    if (first == RDB_LENGTH_64) return get_big(x, 8, out);
    return rdb_wrong(x, "a length of unknown form");
}

bool rdb_get_length(struct rdb_source *x, uint64_t *out) {
    bool encoded;
    if (!get_length(x, out, &encoded)) return false;
    return !encoded || rdb_wrong(x, "a string where a length must be");
}

bool rdb_get_count(struct rdb_source *x, uint64_t *n) {
    if (!rdb_get_length(x, n)) return false;
    return *n <= x->left + (uint64_t)(x->end - x->at) || rdb_wrong(x, "more elements than bytes");
}

/* ---- room for texts ---- */

void rdb_text_drop(struct rdb_text *t) {
    mi_free(t->room);
    *t = (struct rdb_text){0};
}

bool rdb_reserve(struct rdb_source *x, uint64_t bytes) {
    if (!x->room || x->room->s->leased == BUDGET_NONE) return true;
    if (!budget_reserve(x->room->s->budget, bytes)) return false;
    x->room->reserved += bytes;
    return true;
}

void rdb_unreserve(struct rdb_room *room, uint64_t bytes) {
    if (bytes > room->reserved) bytes = room->reserved;
    if (bytes) budget_give(room->s->budget, bytes);
    room->reserved -= bytes;
}

bool rdb_make_room(struct rdb_source *x, struct rdb_text *t, size_t n) {
    if (t->capacity >= n) return true;
    size_t more = n - t->capacity;
    if (!rdb_reserve(x, more)) return rdb_no_memory(x);
    char *room = mi_realloc(t->room, n);
    if (!room) {
        if (x->room) rdb_unreserve(x->room, more);
        return rdb_no_memory(x);
    }
    t->room = room;
    t->capacity = n;
    return true;
}

/* ---- strings ---- */

static bool get_int(struct rdb_source *x, unsigned bytes, struct rdb_text *out) {
    uint64_t v;
    if (!rdb_get_little(x, bytes, &v)) return false;
    int64_t n = bytes == 1 ? (int8_t)v : bytes == 2 ? (int16_t)v : (int32_t)v;
    out->size = format_int64(out->number, n);
    out->p = out->number;
    return true;
}

/* What is left, and is not too long for a string. */
static bool check_size(struct rdb_source *x, uint64_t n) {
    if (n > x->left + (uint64_t)(x->end - x->at)) return rdb_wrong(x, "a string that is longer than what is left");
    return n <= STRING_MAX || rdb_wrong(x, "a string of more than 512 MiB");
}

/* What stands before the bytes of a compressed string. */
static bool get_lzf_head(struct rdb_source *x, uint64_t *packed, uint64_t *size) {
    if (!rdb_get_length(x, packed) || !rdb_get_length(x, size) || !check_size(x, *packed)) return false;
    return (*size && *size <= STRING_MAX && *size <= *packed * LZF_RATIO_MAX) || rdb_wrong(x, "a compressed string of an impossible size");
}

static bool get_lzf(struct rdb_source *x, struct rdb_text *out) {
    uint64_t packed, size;
    if (!get_lzf_head(x, &packed, &size)) return false;
    if (!rdb_need(x, packed) || !rdb_make_room(x, out, size)) return false;
    struct unpacking u = {.from = x->at, .from_size = packed, .to = (uint8_t *)out->room, .to_size = size};
    if (unpack_some(&u, SIZE_MAX) != UNPACK_DONE) return rdb_wrong(x, "a compressed string that is corrupt");
    x->at += packed;
    out->p = out->room;
    out->size = size;
    return true;
}

bool rdb_get_string(struct rdb_source *x, struct rdb_text *out) {
    uint64_t n;
    bool encoded;
    if (!get_length(x, &n, &encoded)) return false;
    if (!encoded) {
        if (!check_size(x, n) || !rdb_need(x, n)) return false;
        out->p = (const char *)x->at;
        out->size = n;
        x->at += n;
        return true;
    }
    if (n <= RDB_INT_32) return get_int(x, 1u << n, out);
    return n == RDB_LZF ? get_lzf(x, out) : rdb_wrong(x, "a string of unknown form");
}

bool rdb_get_string_kept(struct rdb_source *x, struct rdb_text *out) {
    if (!rdb_get_string(x, out)) return false;
    if (out->p == out->room || out->p == out->number) return true;
    if (!rdb_make_room(x, out, out->size ? out->size : 1)) return false;
    memcpy(out->room, out->p, out->size);
    out->p = out->room;
    return true;
}

bool rdb_get_string_head(struct rdb_source *x, struct rdb_string_head *out) {
    bool encoded;
    *out = (struct rdb_string_head){0};
    if (!get_length(x, &out->bytes, &encoded)) return false;
    out->size = out->bytes;
    if (!encoded) return check_size(x, out->bytes);
    if (out->bytes <= RDB_INT_32) {
        out->bytes = 1ull << out->bytes;
        out->is_int = true;
        return true;
    }
    out->compressed = true;
    return out->bytes == RDB_LZF ? get_lzf_head(x, &out->bytes, &out->size) : rdb_wrong(x, "a string of unknown form");
}

bool rdb_skip_string(struct rdb_source *x) {
    uint64_t n, size;
    bool encoded;
    if (!get_length(x, &n, &encoded)) return false;
    if (!encoded) return rdb_skip(x, n);
    if (n <= RDB_INT_32) return rdb_skip(x, 1u << n);
    if (n != RDB_LZF) return rdb_wrong(x, "a string of unknown form");
    return rdb_get_length(x, &n) && rdb_get_length(x, &size) && rdb_skip(x, n);
}

/* ---- scores ---- */

bool rdb_get_score(struct rdb_source *x, bool text, double *out) {
    uint64_t bits;
    uint8_t n;
    if (!text) {
        if (!rdb_get_little(x, 8, &bits)) return false;
        memcpy(out, &bits, sizeof *out);
        return true;
    }
    if (!rdb_get_byte(x, &n)) return false;
    if (n >= 253) {
        *out = n == 253 ? NAN : n == 254 ? INFINITY : -INFINITY;
        return true;
    }
    char digits[256], *end;
    if (!rdb_need(x, n)) return false;
    memcpy(digits, x->at, n);
    digits[n] = 0;
    x->at += n;
    *out = strtod(digits, &end);
    return (n && end == digits + n) || rdb_wrong(x, "a score that is not a number");
}
