/* Copies of texts that stay where they are until they are dropped, at once or block by block. Of no shard. */
#ifndef SERVER_KEPT_H
#define SERVER_KEPT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* All 0: empty. */
struct kept {
    struct kept_block *blocks;
    size_t left; /* of the first, which is given out from its end */
};

/* A copy with a NUL behind it. NULL: no memory. */
const char *kept_copy(struct kept *k, const char *text, uint32_t size);
void kept_drop(struct kept *k);
/* A block of them, some 64 KiB, which were given out last. False: there is none left. */
bool kept_drop_some(struct kept *k);

#endif
