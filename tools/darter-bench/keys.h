/* Which key comes next: numbers in [minimum, maximum], by one of four distributions.
 *
 *   U  uniform
 *   N  normal around the middle of the range; what falls outside is drawn again
 *   Z  Zipf: the number minimum + k - 1 has the probability k^-alpha / sum of all. By rejection-inversion (W. Hörmann, G. Derflinger:
 *      Rejection-inversion to generate variates from monotone discrete distributions, ACM TOMACS 6/3, 1996): exact for every alpha >= 0,
 *      1 included, at a constant cost, and without a table. Of a range beyond 2^53 numbers only the first 2^53 steps are told apart by a double;
 *      further up several neighbours share one.
 *   S  sequential: one number after the other, from first on; after the last of the slice, its start again
 *
 * One generator a thread. Threads that walk one range in sequence take a slice of it each.
 */
#ifndef TOOLS_DARTER_BENCH_KEYS_H
#define TOOLS_DARTER_BENCH_KEYS_H

#include <stdint.h>

#include "tools/darter-bench/random.h"

struct zipf {
    double alpha, count;          /* ranks are 1 to count */
    double area_first, area_last; /* the hat's integral at the lower end of rank 1 and the upper end of the last */
    double always;                /* a point at most this far below its rank needs no test */
};

struct keys {
    char distribution;               /* 'U', 'N', 'Z' or 'S' */
    uint64_t minimum, count;         /* count 0: 2^64 */
    double deviation;                /* N */
    struct zipf zipf;                /* Z */
    uint64_t slice, slice_count, at; /* S: where the slice starts, how long it is (0: 2^64), and how far it was walked */
};

struct keys_options {
    char distribution;
    uint64_t minimum, maximum; /* minimum <= maximum */
    uint64_t deviation;        /* of N; 0: a sixth of the range */
    double alpha;              /* of Z; >= 0 */
    uint32_t slice, slices;    /* of S: this one of so many */
};

void keys_init(struct keys *k, const struct keys_options *options);

/* What is not uniform. */
uint64_t keys_draw(struct keys *k, struct random *r);

static inline uint64_t keys_next(struct keys *k, struct random *r) {
    return k->distribution == 'U' ? k->minimum + random_below(r, k->count) : keys_draw(k, r);
}

/* A rank in [1, count]. */
void zipf_init(struct zipf *z, double alpha, double count);
double zipf_draw(const struct zipf *z, struct random *r);

#endif
