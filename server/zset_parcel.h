/* Members with their scores on their way between shards, in order: of no shard. */
#ifndef SERVER_ZSET_PARCEL_H
#define SERVER_ZSET_PARCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All 0: empty. */
struct parcel {
    char *bytes; /* of each: its score, its size (4 bytes), its bytes */
    size_t size, capacity;
    uint64_t n;
};

/* False: no memory. */
bool parcel_add(struct parcel *p, const char *text, uint32_t size, double score);
/* The next one; NULL: that was all. *at begins with 0. */
const char *parcel_next(const struct parcel *p, size_t *at, uint32_t *size, double *score);
void parcel_drop(struct parcel *p);

#endif
