/* Merging and asking histograms: see histogram.h. */
#include "tools/darter-bench/histogram.h"

#include <math.h>
#include <string.h>

void histogram_clear(struct histogram *h) { memset(h, 0, sizeof *h); }

void histogram_merge(struct histogram *to, const struct histogram *from) {
    if (!from->count) return;
    if (!to->count || from->min < to->min) to->min = from->min;
    if (!to->count || from->max > to->max) to->max = from->max;
    to->count += from->count;
    to->sum += from->sum;
    to->sum_of_squares += from->sum_of_squares;
    for (uint32_t i = 0; i < HISTOGRAM_BINS; i++) to->bins[i] += from->bins[i];
}

uint64_t histogram_bin_start(uint32_t bin) {
    if (bin < 1u << HISTOGRAM_BITS) return bin;
    uint32_t octave = (bin >> HISTOGRAM_BITS) - 1;
    return (uint64_t)(bin - (octave << HISTOGRAM_BITS)) << octave;
}

uint64_t histogram_bin_end(uint32_t bin) { return histogram_bin_start(bin + 1); }

double histogram_percentile(const struct histogram *h, double percent) {
    if (!h->count) return 0;
    double wanted = ceil(percent / 100 * (double)h->count);
    uint64_t seen = 0, target = wanted < 1 ? 1 : (uint64_t)wanted;
    uint32_t bin = 0;
    while (bin < HISTOGRAM_BINS - 1 && (seen += h->bins[bin]) < target) bin++;
    /* The middle of the values that the bin holds: of a bin one wide, the value. */
    double value = (double)(histogram_bin_start(bin) + histogram_bin_end(bin) - 1) / 2;
    return value < (double)h->min ? (double)h->min : value > (double)h->max ? (double)h->max : value;
}

double histogram_mean(const struct histogram *h) { return h->count ? h->sum / (double)h->count : 0; }

double histogram_deviation(const struct histogram *h) {
    if (!h->count) return 0;
    double mean = histogram_mean(h), variance = h->sum_of_squares / (double)h->count - mean * mean;
    return variance > 0 ? sqrt(variance) : 0;
}
