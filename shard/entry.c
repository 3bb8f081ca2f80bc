#include "shard/entry.h"

#include <assert.h>

#include "shard/blob.h"
#include "shard/container.h"
#include "shard/memory.h"

struct entry *entry_new(struct memory *m, const char *key, uint32_t key_size, uint8_t kind, int64_t expire_at_ms, uint8_t value_size) {
    bool is_long = key_size > UINT8_MAX, expires = expire_at_ms != INT64_MAX;
    struct entry shape = {
        .kind = kind | (expires ? ENTRY_EXPIRES : 0) | (is_long ? ENTRY_LONG_KEY : 0),
        .key_size = is_long ? 0 : (uint8_t)key_size,
        .value_size = value_size,
    };
    size_t before_key = entry_pointer_offset(&shape) + (entry_is_embedded(&shape) ? 0u : 8u);
    struct entry *e = memory_alloc_packed(m, ENTRY_HEADER + before_key + key_size + value_size);
    if (!e) return NULL;
    *e = shape;
    if (is_long) memcpy(e->rest, &key_size, sizeof key_size);
    if (expires) entry_write_expiry(e, expire_at_ms);
    memcpy(e->rest + before_key, key, key_size);
    return e;
}

void entry_drop(struct memory *m, struct entry *e, struct trash **large) {
    struct blob *b = entry_blob(e);
    if (b) blob_release(m, b);
    else if (__builtin_expect(entry_type(e) != TYPE_STRING, 0)) container_drop(m, e, large);
    memory_free(m, e, entry_size(e));
}

int64_t entry_int(const struct entry *e) {
    const char *p = entry_value(e);
    int8_t v8;
    int16_t v16;
    int32_t v32;
    int64_t v64;
    switch (e->value_size) {
    case 1: return memcpy(&v8, p, sizeof v8), v8;
    case 2: return memcpy(&v16, p, sizeof v16), v16;
    case 4: return memcpy(&v32, p, sizeof v32), v32;
    default: return memcpy(&v64, p, sizeof v64), v64;
    }
}

uint8_t entry_pack_int(int64_t v, char out[8]) {
    int8_t v8 = (int8_t)v;
    int16_t v16 = (int16_t)v;
    int32_t v32 = (int32_t)v;
    if (v8 == v) return memcpy(out, &v8, sizeof v8), sizeof v8;
    if (v16 == v) return memcpy(out, &v16, sizeof v16), sizeof v16;
    if (v32 == v) return memcpy(out, &v32, sizeof v32), sizeof v32;
    return memcpy(out, &v, sizeof v), sizeof v;
}

const char *entry_string(const struct entry *e, char *scratch, size_t *size) {
    switch (entry_encoding(e)) {
    case ENC_INT: *size = format_int64(scratch, entry_int(e)); return scratch;
    case ENC_BLOB: *size = entry_blob(e)->size; return entry_blob(e)->bytes;
    default: *size = e->value_size; return entry_value(e);
    }
}

size_t entry_string_size(const struct entry *e) {
    char scratch[INT64_TEXT_SIZE];
    switch (entry_encoding(e)) {
    case ENC_INT: return format_int64(scratch, entry_int(e));
    case ENC_BLOB: return entry_blob(e)->size;
    default: return e->value_size;
    }
}

bool parse_int64(const char *p, size_t size, int64_t *out) {
    if (size == 0 || size >= INT64_TEXT_SIZE) return false;
    bool negative = *p == '-';
    if (negative && (p++, --size == 0)) return false;
    unsigned first = (unsigned char)*p - '0';
    if (first == 0) return *out = 0, size == 1 && !negative;
    if (first > 9) return false;
    uint64_t v = first;
    for (size_t i = 1; i < size; i++) {
        unsigned digit = (unsigned char)p[i] - '0';
        if (digit > 9 || __builtin_mul_overflow(v, 10u, &v) || __builtin_add_overflow(v, digit, &v)) return false;
    }
    if (v > (uint64_t)INT64_MAX + negative) return false;
    *out = negative ? (int64_t)(0 - v) : (int64_t)v;
    return true;
}

/* Of v >= 1: from its bits (1233 / 4096 is a little more than log10(2)), corrected by one comparison. */
static unsigned count_digits(uint64_t v) {
    static const uint64_t powers[] = {1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000, 10000000000, 100000000000,
        1000000000000, 10000000000000, 100000000000000, 1000000000000000, 10000000000000000, 100000000000000000, 1000000000000000000,
        10000000000000000000u};
    unsigned about = (unsigned)(64 - __builtin_clzll(v)) * 1233 >> 12;
    return about + (v >= powers[about]);
}

unsigned format_int64(char *out, int64_t v) {
    static const char pairs[] =
        "00010203040506070809101112131415161718192021222324252627282930313233343536373839404142434445464748495051525354555657585960616263"
        "646566676869707172737475767778798081828384858687888990919293949596979899";
    bool negative = v < 0;
    uint64_t rest = negative ? 0 - (uint64_t)v : (uint64_t)v;
    if (negative) *out++ = '-';
    if (rest < 10) {
        *out = (char)('0' + rest);
        return 1u + negative;
    }
    if (rest < 100) {
        memcpy(out, pairs + rest * 2, 2);
        return 2u + negative;
    }
    unsigned size = count_digits(rest);
    char *p = out + size;
    while (rest >= 10) {
        p -= 2;
        memcpy(p, pairs + rest % 100 * 2, 2);
        rest /= 100;
    }
    if (p > out) *out = (char)('0' + rest);
    return size + negative;
}
