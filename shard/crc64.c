#include "shard/crc64.h"

#include <stdbool.h>
#include <string.h>

#define POLYNOMIAL 0x95ac9329ac4bc9b5ull /* reflected: the highest bit is x^0 */
#define SLICES 8u

static uint64_t tables[SLICES][256];

/* ---- polynomials modulo this one, reflected ---- */

static uint64_t times_x(uint64_t a) { return a >> 1 ^ (a & 1 ? POLYNOMIAL : 0); }

static uint64_t multiply(uint64_t a, uint64_t b) {
    uint64_t product = 0;
    for (; a; a <<= 1) {
        if (a >> 63) product ^= b;
        b = times_x(b);
    }
    return product;
}

/* x to the power of n. */
static uint64_t power_of_x(uint64_t n) {
    uint64_t result = 1ull << 63, square = 1ull << 62;
    for (; n; n >>= 1) {
        if (n & 1) result = multiply(result, square);
        square = multiply(square, square);
    }
    return result;
}

uint64_t crc64_combine(uint64_t first, uint64_t second, uint64_t second_size) {
    return multiply(first, power_of_x(second_size * 8)) ^ second;
}

/* ---- by tables ---- */

uint64_t crc64_plain(uint64_t crc, const void *bytes, size_t n) {
    const uint8_t *p = bytes;
    for (; n >= SLICES; p += SLICES, n -= SLICES) {
        uint64_t eight = 0;
        for (unsigned i = 0; i < SLICES; i++) eight |= (uint64_t)p[i] << 8 * i;
        eight ^= crc;
        crc = 0;
        for (unsigned i = 0; i < SLICES; i++) crc ^= tables[SLICES - 1 - i][eight >> 8 * i & 0xff];
    }
    for (; n; p++, n--) crc = tables[0][(crc ^ *p) & 0xff] ^ crc >> 8;
    return crc;
}

static void make_tables(void) {
    for (unsigned i = 0; i < 256; i++) {
        uint64_t crc = i;
        for (unsigned bit = 0; bit < 8; bit++) crc = times_x(crc);
        tables[0][i] = crc;
    }
    for (unsigned slice = 1; slice < SLICES; slice++)
        for (unsigned i = 0; i < 256; i++) tables[slice][i] = tables[0][tables[slice - 1][i] & 0xff] ^ tables[slice - 1][i] >> 8;
}

/* ---- by carry-less multiplication ---- */

#ifdef __x86_64__
#include <wmmintrin.h>

#define LANES 4u
#define LANE 16u

/* What 64 bits are multiplied by to move them `bits` towards the end: the one half of 16 bytes, and the other. The product of two reflected polynomials has one bit too
 * few, hence the 1. */
static __m128i by_64_bytes, by_16_bytes;
static bool has_multiply;

static __m128i movers(unsigned bits) { return _mm_set_epi64x((long long)power_of_x(bits - 1), (long long)power_of_x(bits + 64 - 1)); }

__attribute__((target("pclmul"))) static inline __m128i fold(__m128i x, __m128i by, __m128i next) {
    return _mm_xor_si128(next, _mm_xor_si128(_mm_clmulepi64_si128(x, by, 0x00), _mm_clmulepi64_si128(x, by, 0x11)));
}

static inline __m128i load(const uint8_t *p) { return _mm_loadu_si128((const __m128i *)(const void *)p); }

/* n >= 64. */
__attribute__((target("pclmul"))) static uint64_t by_multiplying(uint64_t crc, const uint8_t *p, size_t n) {
    __m128i lanes[LANES];
    uint8_t last[LANE];
    for (unsigned i = 0; i < LANES; i++) lanes[i] = load(p + i * LANE);
    lanes[0] = _mm_xor_si128(lanes[0], _mm_set_epi64x(0, (long long)crc));
    p += LANES * LANE, n -= LANES * LANE;
    for (; n >= LANES * LANE; p += LANES * LANE, n -= LANES * LANE)
        for (unsigned i = 0; i < LANES; i++) lanes[i] = fold(lanes[i], by_64_bytes, load(p + i * LANE));
    __m128i x = lanes[0];
    for (unsigned i = 1; i < LANES; i++) x = fold(x, by_16_bytes, lanes[i]);
    for (; n >= LANE; p += LANE, n -= LANE) x = fold(x, by_16_bytes, load(p));
    memcpy(last, &x, sizeof last);
    return crc64_plain(crc64_plain(0, last, sizeof last), p, n);
}

static void prepare(void) {
    by_64_bytes = movers(LANES * LANE * 8);
    by_16_bytes = movers(LANE * 8);
    __builtin_cpu_init();
    has_multiply = __builtin_cpu_supports("pclmul");
}

uint64_t crc64(uint64_t crc, const void *bytes, size_t n) {
    if (n < 2 * LANES * LANE || !has_multiply) return crc64_plain(crc, bytes, n);
    return by_multiplying(crc, bytes, n);
}
#else
static void prepare(void) {}

uint64_t crc64(uint64_t crc, const void *bytes, size_t n) { return crc64_plain(crc, bytes, n); }
#endif

__attribute__((constructor)) static void start(void) {
    make_tables();
    prepare();
}
