/* The randomness of tests in C: everything that is chosen comes from one of these, so a seed repeats a run exactly. xorshift64* (Vigna 2014). */
#ifndef TESTS_RANDOM_H
#define TESTS_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

struct random {
    uint64_t state;
};

/* Several streams of one seed: what is asked does not depend on the order in which it runs. */
static inline void random_seed(struct random *r, uint64_t seed, uint64_t stream) {
    r->state = (seed * 0x9e3779b97f4a7c15ull) ^ ((stream + 1) * 0xbf58476d1ce4e5b9ull);
    if (!r->state) r->state = 1;
}

static inline uint64_t random_next(struct random *r) {
    r->state ^= r->state >> 12;
    r->state ^= r->state << 25;
    r->state ^= r->state >> 27;
    return r->state * 0x2545f4914f6cdd1dull;
}

/* 0 ... n - 1. */
static inline uint32_t below(struct random *r, uint32_t n) { return (uint32_t)((random_next(r) >> 32) * n >> 32); }
static inline bool one_in(struct random *r, uint32_t n) { return !below(r, n); }

#endif
