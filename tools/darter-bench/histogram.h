/* A histogram of times in nanoseconds, with at most 0.8 % of relative error, in the manner of HdrHistogram (Gil Tene).
 *
 * Every octave [2^k, 2^(k+1)) is divided into 64 bins of equal width, and below 64 ns every nanosecond has its own. A value stands for the middle
 * of its bin, so it is off by at most half a bin: 1/128 of it. Count, sum, minimum and maximum are exact. It has a fixed size (22 KiB),
 * adding costs a shift and an increment, and histograms of several threads are merged by addition. Values above 2^48 ns (3 days) count as that.
 *
 *   value  0 1 2 ... 63 | 64 65 ... 127 | 128-129 130-131 ... | 256-259 ...
 *   bin    0 1 2 ... 63 | 64 65 ... 127 | 128     129     ... | 192     ...
 *
 * No thread of its own: whoever has it, uses it.
 */
#ifndef TOOLS_DARTER_BENCH_HISTOGRAM_H
#define TOOLS_DARTER_BENCH_HISTOGRAM_H

#include <stdint.h>

enum { HISTOGRAM_BITS = 6, HISTOGRAM_OCTAVES = 48, HISTOGRAM_BINS = (HISTOGRAM_OCTAVES - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS };

struct histogram {
    uint64_t count, min, max; /* min and max mean nothing while count is 0 */
    double sum, sum_of_squares;
    uint64_t bins[HISTOGRAM_BINS];
};

static inline uint32_t histogram_bin(uint64_t value) {
    if (value >> HISTOGRAM_OCTAVES) return HISTOGRAM_BINS - 1;
    if (!(value >> HISTOGRAM_BITS)) return (uint32_t)value;
    uint32_t octave = 63 - (uint32_t)__builtin_clzll(value) - HISTOGRAM_BITS;
    return (octave << HISTOGRAM_BITS) + (uint32_t)(value >> octave);
}

/* Adds n times the value. */
static inline void histogram_add(struct histogram *h, uint64_t value, uint64_t n) {
    if (!h->count || value < h->min) h->min = value;
    if (!h->count || value > h->max) h->max = value;
    h->count += n;
    h->sum += (double)value * (double)n;
    h->sum_of_squares += (double)value * (double)value * (double)n;
    h->bins[histogram_bin(value)] += n;
}

void histogram_clear(struct histogram *h);
void histogram_merge(struct histogram *to, const struct histogram *from);

/* The least value of a bin, and the one above its greatest. */
uint64_t histogram_bin_start(uint32_t bin);
uint64_t histogram_bin_end(uint32_t bin);

/* The value that percent (0 to 100) of all values do not exceed; 0 of none. Never below min or above max. */
double histogram_percentile(const struct histogram *h, double percent);
double histogram_mean(const struct histogram *h);
double histogram_deviation(const struct histogram *h);

#endif
