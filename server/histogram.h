/* A histogram that is added to in a few instructions. */
#ifndef SERVER_HISTOGRAM_H
#define SERVER_HISTOGRAM_H

#include <stdint.h>

/* Counts by size of a number: 16 steps a power of two, so at most 6.25 % wide. Units are the user's. */
#define HISTOGRAM_BUCKETS (40u * 16u)
struct histogram {
    uint64_t counts[HISTOGRAM_BUCKETS]; /* a busy GET passes 2^32 within hours */
    uint64_t n;
};
void histogram_add(struct histogram *h, uint64_t v, uint32_t times);
void histogram_merge(struct histogram *to, const struct histogram *from);
/* The upper end of the bucket in which the nth of all (0 < part <= 1) lies. */
uint64_t histogram_percentile(const struct histogram *h, double part);
uint64_t histogram_upper(uint32_t bucket);

#endif
