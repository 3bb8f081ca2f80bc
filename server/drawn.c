#include "server/drawn.h"

#include <errno.h>
#include <mimalloc.h>

/* Places in a part, 2^so many: 4 KiB. Hashes lead everywhere, so a slice makes as many parts as it draws items: they must be small. */
#define PART_BITS 9u

static unsigned part_bits(const struct drawn *d) { return d->bits < PART_BITS ? d->bits : PART_BITS; }

bool drawn_new(struct drawn *d, uint64_t count) {
    d->bits = 2;
    while ((uint64_t)1 << d->bits < 2 * count) d->bits++;
    d->parts = mi_calloc((size_t)1 << (d->bits - part_bits(d)), sizeof *d->parts);
    return d->parts;
}

/* The place where the item is or would be; NULL: in a part that is not there. *part: which. */
static const void **find(const struct drawn *d, const void *item, uint64_t *part) {
    uint64_t all = ((uint64_t)1 << d->bits) - 1, within = ((uint64_t)1 << part_bits(d)) - 1;
    uint64_t i = (uint64_t)(uintptr_t)item * 0x9e3779b97f4a7c15u >> (64 - d->bits);
    for (;; i = (i + 1) & all) {
        *part = i >> part_bits(d);
        if (!d->parts[*part]) return NULL;
        const void **at = &d->parts[*part][i & within];
        if (!*at || *at == item) return at;
    }
}

int drawn_add(struct drawn *d, const void *item) {
    uint64_t part;
    const void **at = find(d, item, &part);
    if (!at) {
        d->parts[part] = mi_calloc((size_t)1 << part_bits(d), sizeof *at);
        if (!d->parts[part]) return -ENOMEM;
        at = find(d, item, &part);
    }
    if (*at) return 0;
    *at = item;
    return 1;
}

bool drawn_has(const struct drawn *d, const void *item) {
    uint64_t part;
    const void **at = find(d, item, &part);
    return at && *at;
}

void drawn_drop(struct drawn *d) {
    for (uint64_t i = 0; d->parts && i < (uint64_t)1 << (d->bits - part_bits(d)); i++) mi_free((void *)d->parts[i]);
    mi_free((void *)d->parts);
    d->parts = NULL;
}
