#include "server/zset_parcel.h"

#include <mimalloc.h>
#include <string.h>

#define FIRST_CAPACITY 1024u

bool parcel_add(struct parcel *p, const char *text, uint32_t size, double score) {
    size_t needs = p->size + sizeof score + sizeof size + size;
    if (needs > p->capacity) {
        size_t capacity = needs < FIRST_CAPACITY ? FIRST_CAPACITY : 2 * needs;
        char *bytes = mi_realloc(p->bytes, capacity);
        if (!bytes) return false;
        p->bytes = bytes;
        p->capacity = capacity;
    }
    char *to = p->bytes + p->size;
    memcpy(to, &score, sizeof score);
    memcpy(to + sizeof score, &size, sizeof size);
    memcpy(to + sizeof score + sizeof size, text, size);
    p->size = needs;
    p->n++;
    return true;
}

const char *parcel_next(const struct parcel *p, size_t *at, uint32_t *size, double *score) {
    if (*at == p->size) return NULL;
    const char *from = p->bytes + *at;
    memcpy(score, from, sizeof *score);
    memcpy(size, from + sizeof *score, sizeof *size);
    *at += sizeof *score + sizeof *size + *size;
    return from + sizeof *score + sizeof *size;
}

void parcel_drop(struct parcel *p) {
    mi_free(p->bytes);
    *p = (struct parcel){0};
}
