/* In this file: counting, in its versions; looking for a bit; combining; fields. */
#include "shard/bits.h"

#include <string.h>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

static inline uint64_t load64(const unsigned char *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* The last bytes of a string, fewer than 8. */
static inline uint64_t load_rest(const unsigned char *p, size_t size) {
    uint64_t v = 0;
    memcpy(&v, p, size);
    return v;
}

/* ---- counting ---- */

/* In each byte how many of its bits are 1: in pairs, in fours, in eights. */
static inline uint64_t ones_of_bytes(uint64_t v) {
    v -= v >> 1 & 0x5555555555555555u;
    v = (v & 0x3333333333333333u) + (v >> 2 & 0x3333333333333333u);
    return (v + (v >> 4)) & 0x0f0f0f0f0f0f0f0fu;
}

/* The sum of 8 bytes of up to 255. */
static inline uint64_t sum_of_bytes(uint64_t v) {
    return ((v & 0x00ff00ff00ff00ffu) + (v >> 8 & 0x00ff00ff00ff00ffu)) * 0x0001000100010001u >> 48;
}

#define WORDS_MAX 31u /* of 8 ones a byte, that a byte can hold the sum of */

static uint64_t count_words(const unsigned char *p, size_t size) {
    uint64_t total = 0;
    while (size >= 8) {
        uint64_t bytes = 0;
        size_t n = size / 8 < WORDS_MAX ? size / 8 : WORDS_MAX;
        for (size_t i = 0; i < n; i++) bytes += ones_of_bytes(load64(p + i * 8));
        total += sum_of_bytes(bytes);
        p += n * 8;
        size -= n * 8;
    }
    return total + sum_of_bytes(ones_of_bytes(load_rest(p, size)));
}

static bool always(void) { return true; }

#if defined(__x86_64__)

__attribute__((target("popcnt"))) static uint64_t count_popcnt(const unsigned char *p, size_t size) {
    uint64_t a = 0, b = 0;
    for (; size >= 32; p += 32, size -= 32) {
        a += (uint64_t)_mm_popcnt_u64(load64(p)) + (uint64_t)_mm_popcnt_u64(load64(p + 8));
        b += (uint64_t)_mm_popcnt_u64(load64(p + 16)) + (uint64_t)_mm_popcnt_u64(load64(p + 24));
    }
    for (; size >= 8; p += 8, size -= 8) a += (uint64_t)_mm_popcnt_u64(load64(p));
    return a + b + (uint64_t)_mm_popcnt_u64(load_rest(p, size));
}

/* The ones of each half of a byte by a table of 16 in a register (Mula, Kurz, Lemire: "Faster Population Counts Using AVX2 Instructions", 2018). */
__attribute__((target("avx2,popcnt"))) static uint64_t count_avx2(const unsigned char *p, size_t size) {
    const __m256i low = _mm256_set1_epi8(15), zero = _mm256_setzero_si256(),
                  ones = _mm256_setr_epi8(0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4, 0, 1, 1, 2, 1, 2, 2, 3, 1, 2, 2, 3, 2, 3, 3, 4);
    __m256i total = zero;
    while (size >= 32) {
        __m256i bytes = zero;
        size_t n = size / 32 < WORDS_MAX ? size / 32 : WORDS_MAX;
        for (size_t i = 0; i < n; i++) {
            __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(p + i * 32));
            bytes = _mm256_add_epi8(bytes, _mm256_shuffle_epi8(ones, _mm256_and_si256(v, low)));
            bytes = _mm256_add_epi8(bytes, _mm256_shuffle_epi8(ones, _mm256_and_si256(_mm256_srli_epi16(v, 4), low)));
        }
        total = _mm256_add_epi64(total, _mm256_sad_epu8(bytes, zero));
        p += n * 32;
        size -= n * 32;
    }
    uint64_t sums[4];
    _mm256_storeu_si256((__m256i *)(void *)sums, total);
    return sums[0] + sums[1] + sums[2] + sums[3] + count_popcnt(p, size);
}

static bool has_popcnt(void) { return __builtin_cpu_supports("popcnt"); }
static bool has_avx2(void) { return __builtin_cpu_supports("avx2") && has_popcnt(); }

const struct bits_counter bits_counters[] = {
    {"avx2", has_avx2, count_avx2}, {"popcnt", has_popcnt, count_popcnt}, {"words", always, count_words}};

uint64_t bits_count(const void *p, size_t size) {
    if (has_avx2()) return count_avx2(p, size);
    return has_popcnt() ? count_popcnt(p, size) : count_words(p, size);
}

#elif defined(__aarch64__)

static uint64_t count_neon(const unsigned char *p, size_t size) {
    uint64x2_t total = vdupq_n_u64(0);
    while (size >= 16) {
        uint8x16_t bytes = vdupq_n_u8(0);
        size_t n = size / 16 < WORDS_MAX ? size / 16 : WORDS_MAX;
        for (size_t i = 0; i < n; i++) bytes = vaddq_u8(bytes, vcntq_u8(vld1q_u8(p + i * 16)));
        total = vpadalq_u32(total, vpaddlq_u16(vpaddlq_u8(bytes)));
        p += n * 16;
        size -= n * 16;
    }
    return vgetq_lane_u64(total, 0) + vgetq_lane_u64(total, 1) + count_words(p, size);
}

const struct bits_counter bits_counters[] = {{"neon", always, count_neon}, {"words", always, count_words}};

uint64_t bits_count(const void *p, size_t size) { return count_neon(p, size); }

#else

const struct bits_counter bits_counters[] = {{"words", always, count_words}};

uint64_t bits_count(const void *p, size_t size) { return count_words(p, size); }

#endif

const unsigned bits_n_counters = sizeof bits_counters / sizeof *bits_counters;

/* ---- looking for a bit ---- */

uint64_t bits_first(const void *from, size_t size, bool one) {
    const unsigned char *p = from;
    uint64_t other = one ? 0 : UINT64_MAX; /* words of bits that are not looked for */
    size_t at = 0;
    for (; size - at >= 32; at += 32) {
        uint64_t a = (load64(p + at) ^ other) | (load64(p + at + 8) ^ other),
                 b = (load64(p + at + 16) ^ other) | (load64(p + at + 24) ^ other);
        if (a | b) break;
    }
    for (; size - at >= 8; at += 8) {
        uint64_t v = load64(p + at) ^ other;
        if (v) return at * 8 + (uint64_t)__builtin_clzll(__builtin_bswap64(v));
    }
    for (; at < size; at++) {
        unsigned v = (p[at] ^ other) & 255;
        if (v) return at * 8 + (uint64_t)__builtin_clz(v) - 24;
    }
    return size * 8;
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the first byte of a word is turned to be its highest");

/* ---- combining ---- */

typedef uint64_t vector __attribute__((vector_size(16)));
#define BLOCK 64u /* bytes a round */

/* One operation in all the code around: always inlined with a constant. */
static inline __attribute__((always_inline)) void combine(
    enum bits_op op, unsigned char *to, const unsigned char *a, const unsigned char *b, size_t size) {
    size_t at = 0;
    for (; size - at >= BLOCK; at += BLOCK) {
        vector x[BLOCK / 16], y[BLOCK / 16];
        memcpy(x, a + at, BLOCK);
        memcpy(y, b + at, BLOCK);
        for (unsigned i = 0; i < BLOCK / 16; i++) x[i] = op == BITS_AND ? x[i] & y[i] : op == BITS_OR ? x[i] | y[i] : x[i] ^ y[i];
        memcpy(to + at, x, BLOCK);
    }
    for (; at < size; at++) to[at] = (unsigned char)(op == BITS_AND ? a[at] & b[at] : op == BITS_OR ? a[at] | b[at] : a[at] ^ b[at]);
}

void bits_combine(enum bits_op op, void *to, const void *a, const void *b, size_t size) {
    switch (op) {
    case BITS_AND: combine(BITS_AND, to, a, b, size); break;
    case BITS_OR: combine(BITS_OR, to, a, b, size); break;
    case BITS_XOR: combine(BITS_XOR, to, a, b, size); break;
    }
}

void bits_invert(void *to, const void *from, size_t size) {
    const unsigned char *p = from;
    unsigned char *out = to;
    size_t at = 0;
    for (; size - at >= BLOCK; at += BLOCK) {
        vector x[BLOCK / 16];
        memcpy(x, p + at, BLOCK);
        for (unsigned i = 0; i < BLOCK / 16; i++) x[i] = ~x[i];
        memcpy(out + at, x, BLOCK);
    }
    for (; at < size; at++) out[at] = (unsigned char)~p[at];
}

/* ---- fields ---- */

/* A field of 64 bits that begins within a byte touches 9. */
#define FIELD_BYTES 9u

uint64_t bits_get(const void *from, size_t size, uint64_t bit, unsigned n) {
    unsigned char bytes[FIELD_BYTES] = {0};
    uint64_t at = bit / 8, high;
    unsigned skip = bit % 8;
    size_t touched = (skip + n + 7) / 8;
    if (at < size) memcpy(bytes, (const unsigned char *)from + at, size - at < touched ? size - at : touched);
    high = __builtin_bswap64(load64(bytes)) << skip;
    if (skip) high |= (uint64_t)bytes[8] >> (8 - skip);
    return high >> (64 - n);
}

void bits_set(void *p, uint64_t bit, unsigned n, uint64_t v) {
    unsigned char *at = (unsigned char *)p + bit / 8;
    unsigned skip = bit % 8;
    while (n) { /* a byte, or its part */
        unsigned room = 8 - skip, take = n < room ? n : room, shift = room - take;
        unsigned mask = ((1u << take) - 1) << shift, part = (unsigned)(v >> (n - take)) << shift;
        *at = (unsigned char)((*at & ~mask) | (part & mask));
        n -= take;
        skip = 0;
        at++;
    }
}
