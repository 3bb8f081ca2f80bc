/* A source of RDB bytes that brings few at a time, each time to a block of just their size, so that what reads past them is found out. */
#ifndef TESTS_DRIBBLE_H
#define TESTS_DRIBBLE_H

#include <stdlib.h>
#include <string.h>

#include "shard/rdb_read.h"

/* What the source stands on; to be dropped after it. */
struct dribble {
    const uint8_t *rest;
    uint8_t *block;
    size_t spread; /* it brings less than so many bytes more than are asked for */
};

static inline bool dribble_more(struct rdb_source *x, size_t n) {
    struct dribble *d = x->arg;
    size_t have = (size_t)(x->end - x->at), more = n - have + x->left % d->spread;
    if (more > x->left) more = x->left;
    uint8_t *block = malloc(have + more);
    if (!block) abort();
    memcpy(block, x->at, have);
    memcpy(block + have, d->rest, more);
    free(d->block);
    d->block = block;
    d->rest += more;
    x->at = block;
    x->end = block + have + more;
    x->left -= more;
    x->offset += more;
    return true;
}

static inline struct rdb_source dribble_from(struct dribble *d, const uint8_t *p, size_t size, size_t spread) {
    *d = (struct dribble){.rest = p, .block = malloc(1), .spread = spread};
    if (!d->block) abort();
    return (struct rdb_source){.at = d->block, .end = d->block, .left = size, .more = dribble_more, .arg = d};
}

static inline void dribble_drop(struct dribble *d) { free(d->block); }

#endif
