/* Pairs of a page (page.h) compared some at once, by SSE2 or plain 64-bit words: which have a fingerprint, and what the sizes add up to.
 *
 * A pair is a fingerprint in the low byte of 16 bits, a size in the high one. A match has one bit for each pair, PAIR_BITS apart. Up to 16 bytes from
 * the first pair on are read, whether they are pairs or not.
 */
#ifndef SHARD_PAGE_MATCH_H
#define SHARD_PAGE_MATCH_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>

#define PAIRS_AT_ONCE 8u
#define PAIR_BITS 2u

struct pairs {
    __m128i all;
};
/* Of one fingerprint, in each pair's low byte. */
struct pairs_wanted {
    __m128i all;
};
struct pairs_sum {
    __m128i halves;
};

static inline struct pairs pairs_read(const uint8_t *at) { return (struct pairs){_mm_loadu_si128((const __m128i *)at)}; }
static inline struct pairs_wanted pairs_want(uint8_t fingerprint) { return (struct pairs_wanted){_mm_set1_epi16(fingerprint)}; }
static inline uint64_t pairs_match(struct pairs x, struct pairs_wanted w) {
    __m128i fingerprints = _mm_and_si128(x.all, _mm_set1_epi16(0xff));
    return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi16(fingerprints, w.all)) & 0x5555u;
}
static inline struct pairs_sum pairs_sum_none(void) { return (struct pairs_sum){_mm_setzero_si128()}; }
static inline struct pairs_sum pairs_add(struct pairs_sum sum, struct pairs x) {
    return (struct pairs_sum){_mm_add_epi64(sum.halves, _mm_sad_epu8(_mm_srli_epi16(x.all, 8), _mm_setzero_si128()))};
}
/* The first n of them alone, n < PAIRS_AT_ONCE. */
static inline struct pairs pairs_before(struct pairs x, uint32_t n) {
    static const uint64_t masks[4] = {~0ull, ~0ull, 0, 0};
    return (struct pairs){_mm_and_si128(x.all, _mm_loadu_si128((const __m128i *)((const char *)masks + 16 - 2 * n)))};
}
static inline uint32_t pairs_total(struct pairs_sum sum) {
    return (uint32_t)_mm_cvtsi128_si32(_mm_add_epi64(sum.halves, _mm_unpackhi_epi64(sum.halves, sum.halves)));
}

#else

#define PAIRS_AT_ONCE 4u
#define PAIR_BITS 16u

struct pairs {
    uint64_t all;
};
struct pairs_wanted {
    uint64_t all;
};
struct pairs_sum {
    uint64_t lanes; /* a page's sizes add up to less than 2^16 */
};

#define PAIRS_LANES 0x0001000100010001ull

static inline struct pairs pairs_read(const uint8_t *at) {
    struct pairs x;
    memcpy(&x.all, at, sizeof x.all);
    return x;
}
static inline struct pairs_wanted pairs_want(uint8_t fingerprint) { return (struct pairs_wanted){fingerprint * PAIRS_LANES}; }
static inline uint64_t pairs_match(struct pairs x, struct pairs_wanted w) {
    uint64_t different = (x.all ^ w.all) & PAIRS_LANES * 0xff;
    return ~(different + PAIRS_LANES * 0x7fff) >> 15 & PAIRS_LANES;
}
static inline struct pairs_sum pairs_sum_none(void) { return (struct pairs_sum){0}; }
static inline struct pairs_sum pairs_add(struct pairs_sum sum, struct pairs x) {
    return (struct pairs_sum){sum.lanes + (x.all >> 8 & PAIRS_LANES * 0xff)};
}
static inline struct pairs pairs_before(struct pairs x, uint32_t n) { return (struct pairs){x.all & ~(~0ull << 16 * n)}; }
static inline uint32_t pairs_total(struct pairs_sum sum) { return (uint32_t)(sum.lanes * PAIRS_LANES >> 48); }

#endif

#endif
