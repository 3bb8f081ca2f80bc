/* Which items of a container were drawn already, by where they lie: open addressing, at most half full, in parts that are made when they are first
 * touched, so that beginning with many costs nothing at once. While it is in use nothing in the container may move.
 */
#ifndef SERVER_DRAWN_H
#define SERVER_DRAWN_H

#include <stdbool.h>
#include <stdint.h>

struct drawn {
    const void ***parts;
    unsigned bits; /* there are 2^bits places */
};

/* For so many items. False: no memory. */
bool drawn_new(struct drawn *d, uint64_t count);
/* 1: it is new, and noted; 0: it was drawn before; -ENOMEM. */
int drawn_add(struct drawn *d, const void *item);
bool drawn_has(const struct drawn *d, const void *item);
/* Frees it; zeros are nothing to be freed. */
void drawn_drop(struct drawn *d);

#endif
