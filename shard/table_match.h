/* Which of 16 bytes equal one byte: the comparison of fingerprints, by SSE2, NEON, or plain 64-bit words. */
#ifndef SHARD_TABLE_MATCH_H
#define SHARD_TABLE_MATCH_H

#include <stdint.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#elif defined(__ARM_NEON) && defined(__aarch64__)
#include <arm_neon.h>
#endif

/* Bit i: byte i of the word (from the low end) equals the byte. */
static inline uint32_t match_word_plain(uint64_t word, uint8_t byte) {
    const uint64_t low7 = 0x7f7f7f7f7f7f7f7full;
    uint64_t x = word ^ byte * 0x0101010101010101ull;
    uint64_t zero = ~(((x & low7) + low7) | x | low7); /* bit 7 of each byte that is zero; no carry crosses bytes */
    return (uint32_t)((zero >> 7) * 0x0102040810204080ull >> 56);
}
static inline uint32_t match_bytes_plain(uint64_t low, uint64_t high, uint8_t byte) {
    return match_word_plain(low, byte) | match_word_plain(high, byte) << 8;
}

/* Bit i: byte i of the 16 (low's lowest is 0, high's lowest is 8) equals the byte. */
static inline uint32_t match_bytes(uint64_t low, uint64_t high, uint8_t byte) {
#if defined(__SSE2__)
    __m128i both = _mm_set_epi64x((long long)high, (long long)low);
    return (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(both, _mm_set1_epi8((char)byte)));
#elif defined(__ARM_NEON) && defined(__aarch64__)
    const uint8x16_t bits = vreinterpretq_u8_u64(vdupq_n_u64(0x8040201008040201ull));
    uint8x16_t both = vreinterpretq_u8_u64(vcombine_u64(vcreate_u64(low), vcreate_u64(high)));
    uint8x16_t equal = vandq_u8(vceqq_u8(both, vdupq_n_u8(byte)), bits);
    return vaddv_u8(vget_low_u8(equal)) | (uint32_t)vaddv_u8(vget_high_u8(equal)) << 8;
#else
    return match_bytes_plain(low, high, byte);
#endif
}

static inline uint32_t match_16(const uint8_t *bytes, uint8_t byte) {
    uint64_t low, high;
    memcpy(&low, bytes, sizeof low);
    memcpy(&high, bytes + 8, sizeof high);
    return match_bytes(low, high, byte);
}

#endif
