#include "server/histogram.h"

/* Bucket of v: below 32 exact; then 16 a power of two. */
static uint32_t bucket_of(uint64_t v) {
    if (v < 32) return (uint32_t)v;
    uint32_t exponent = 63 - (uint32_t)__builtin_clzll(v), bucket = (exponent - 3) * 16 + (uint32_t)(v >> (exponent - 4) & 15);
    return bucket < HISTOGRAM_BUCKETS ? bucket : HISTOGRAM_BUCKETS - 1;
}

uint64_t histogram_upper(uint32_t bucket) {
    if (bucket < 32) return bucket;
    uint32_t exponent = bucket / 16 + 3;
    return (((uint64_t)(16 + bucket % 16) + 1) << (exponent - 4)) - 1;
}

void histogram_add(struct histogram *h, uint64_t v, uint32_t times) {
    h->counts[bucket_of(v)] += times;
    h->n += times;
}

void histogram_merge(struct histogram *to, const struct histogram *from) {
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) to->counts[i] += from->counts[i];
    to->n += from->n;
}

uint64_t histogram_percentile(const struct histogram *h, double part) {
    uint64_t want = (uint64_t)(part * (double)h->n + 0.5), seen = 0;
    if (!want) want = 1;
    for (uint32_t i = 0; i < HISTOGRAM_BUCKETS; i++) {
        seen += h->counts[i];
        if (seen >= want) return histogram_upper(i);
    }
    return 0;
}
