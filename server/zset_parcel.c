#include "server/zset_parcel.h"

#include <mimalloc.h>
#include <string.h>

#define CHUNK_FIRST 1024u
#define CHUNK_MOST (256u << 10)

static bool grow(struct parcel *p, size_t needs) {
    size_t capacity = !p->last ? CHUNK_FIRST : p->last->capacity < CHUNK_MOST ? 2 * p->last->capacity : CHUNK_MOST;
    if (capacity < needs) capacity = needs;
    struct parcel_chunk *c = mi_malloc(sizeof *c + capacity);
    if (!c) return false;
    *c = (struct parcel_chunk){.capacity = capacity};
    if (p->last) p->last->next = c;
    else p->first = c;
    p->last = c;
    return true;
}

bool parcel_add(struct parcel *p, const char *text, uint32_t size, double score) {
    size_t needs = sizeof score + sizeof size + size;
    if ((!p->last || p->last->size + needs > p->last->capacity) && !grow(p, needs)) return false;
    char *to = p->last->bytes + p->last->size;
    memcpy(to, &score, sizeof score);
    memcpy(to + sizeof score, &size, sizeof size);
    memcpy(to + sizeof score + sizeof size, text, size);
    p->last->size += needs;
    p->n++;
    return true;
}

const char *parcel_next(const struct parcel *p, struct parcel_at *at, uint32_t *size, double *score) {
    if (!at->chunk) at->chunk = p->first;
    if (at->chunk && at->at == at->chunk->size && at->chunk->next) *at = (struct parcel_at){at->chunk->next, 0};
    if (!at->chunk || at->at == at->chunk->size) return NULL;
    const char *from = at->chunk->bytes + at->at;
    memcpy(score, from, sizeof *score);
    memcpy(size, from + sizeof *score, sizeof *size);
    at->at += sizeof *score + sizeof *size + *size;
    return from + sizeof *score + sizeof *size;
}

void parcel_drop(struct parcel *p) {
    for (struct parcel_chunk *c = p->first, *next; c; c = next) {
        next = c->next;
        mi_free(c);
    }
    *p = (struct parcel){0};
}
