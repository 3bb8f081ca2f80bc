/* Members with their scores on their way between shards, in order: of no shard. */
#ifndef SERVER_ZSET_PARCEL_H
#define SERVER_ZSET_PARCEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All 0: empty. In chunks, so that nothing is copied as they become more. Of each member its score, its size (4 bytes), its bytes. */
struct parcel_chunk {
    struct parcel_chunk *next;
    size_t size, capacity;
    char bytes[];
};
struct parcel {
    struct parcel_chunk *first, *last;
    uint64_t n;
};
/* A place in it; zeros: the beginning. */
struct parcel_at {
    const struct parcel_chunk *chunk;
    size_t at;
};

/* False: no memory. */
bool parcel_add(struct parcel *p, const char *text, uint32_t size, double score);
/* The next one; NULL: that was all. */
const char *parcel_next(const struct parcel *p, struct parcel_at *at, uint32_t *size, double *score);
void parcel_drop(struct parcel *p);

#endif
