/* Random numbers: xoshiro256** (Blackman, Vigna 2018), seeded by splitmix64, as its authors advise. A state belongs to one thread; the same seed
 * gives the same numbers. About a nanosecond a number. */
#ifndef TOOLS_DARTER_BENCH_RANDOM_H
#define TOOLS_DARTER_BENCH_RANDOM_H

#include <stdint.h>

struct random {
    uint64_t s[4];
};

static inline void random_seed(struct random *r, uint64_t seed) {
    for (int i = 0; i < 4; i++) {
        uint64_t z = seed += 0x9e3779b97f4a7c15;
        z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
        z = (z ^ z >> 27) * 0x94d049bb133111eb;
        r->s[i] = z ^ z >> 31;
    }
}

static inline uint64_t random_bits(struct random *r) {
    uint64_t *s = r->s, five = s[1] * 5, result = (five << 7 | five >> 57) * 9, t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = s[3] << 45 | s[3] >> 19;
    return result;
}

/* 0 to count - 1, each as likely (Lemire 2019: a multiplication, and rarely a second number). count 0 means 2^64. */
static inline uint64_t random_below(struct random *r, uint64_t count) {
    if (!count) return random_bits(r);
    unsigned __int128 m = (unsigned __int128)random_bits(r) * count;
    if ((uint64_t)m < count)
        for (uint64_t least = -count % count; (uint64_t)m < least;) m = (unsigned __int128)random_bits(r) * count;
    return (uint64_t)(m >> 64);
}

/* In [0, 1), in steps of 2^-53. */
static inline double random_unit(struct random *r) { return (double)(random_bits(r) >> 11) * 0x1p-53; }

#endif
