/* Powers of two: what a directory's size and depth are made of. Pure functions; one instruction and a shift where the compiler has the builtin. */
#ifndef SHARD_POWER_H
#define SHARD_POWER_H

#include <stdint.h>

#if defined(__has_builtin)
#if __has_builtin(__builtin_clzll)
#define POWER_BUILTIN 1
#endif
#endif

/* Zero bits above the highest one of n > 0, where there is no instruction for it: six halvings. */
static inline unsigned power_leading_zeros_plain(uint64_t n) {
    unsigned zeros = 0;
    for (unsigned half = 32; half; half /= 2) {
        if (n >> (64 - half)) continue;
        zeros += half;
        n <<= half;
    }
    return zeros;
}

static inline unsigned power_leading_zeros(uint64_t n) {
#ifdef POWER_BUILTIN
    return (unsigned)__builtin_clzll(n);
#else
    return power_leading_zeros_plain(n);
#endif
}

/* The exponent of the largest power of two that is at most n; 0 for 0. */
static inline unsigned power_log2(uint64_t n) { return n ? 63 - power_leading_zeros(n) : 0; }

/* The smallest power of two that is at least n, for n up to 2^63; 1 for 0. */
static inline uint64_t power_next(uint64_t n) { return n < 2 ? 1 : (uint64_t)1 << (64 - power_leading_zeros(n - 1)); }

#endif
