#include "shard/packed.h"

#include <errno.h>

#include "shard/memory.h"

#define SMALL_INT_MAX 63
#define HEAD_SMALL_INT 0x80u
#define HEAD_INT 0xc0u

struct far {
    uint32_t size;
    char bytes[];
};

static struct far *far_at(const uint8_t *at) {
    struct far *f;
    memcpy(&f, at + 1, sizeof f);
    return f;
}

static size_t far_bytes(uint32_t size) { return sizeof(struct far) + size; }

void packed_of_int(struct packed *x, int64_t v) {
    x->text = "";
    x->text_size = 0;
    if (v >= 0 && v <= SMALL_INT_MAX) {
        x->head[0] = (uint8_t)(HEAD_SMALL_INT + (uint64_t)v);
        x->head_size = x->size = 1;
        return;
    }
    uint64_t folded = (uint64_t)(v < 0 ? ~v : v); /* without its sign bit */
    unsigned bits = folded ? 65 - (unsigned)__builtin_clzll(folded) : 1, bytes = (bits + 7) / 8;
    x->head[0] = (uint8_t)(HEAD_INT + bytes);
    memcpy(x->head + 1, &v, bytes);
    x->head_size = x->size = (uint8_t)(1 + bytes);
}

void packed_of(struct packed *x, const char *text, uint32_t size) {
    int64_t v;
    if (size - 1 < INT64_TEXT_SIZE - 1 && parse_int64(text, size, &v)) {
        packed_of_int(x, v);
        x->text_size = size;
        x->text = text;
        return;
    }
    packed_of_text(x, text, size);
}

void packed_of_text(struct packed *x, const char *text, uint32_t size) {
    x->text = text;
    x->text_size = size;
    if (size <= PACKED_INLINE_MAX) {
        x->head[0] = (uint8_t)size;
        x->head_size = 1;
        x->size = (uint8_t)(1 + size);
    } else {
        x->head[0] = PACKED_FAR;
        x->head_size = x->size = PACKED_FAR_SIZE;
    }
}

int packed_make_far(struct memory *m, struct packed *x) {
    if (!packed_is_far(x)) return 0;
    struct far *f = memory_alloc(m, far_bytes(x->text_size));
    if (!f) return -ENOMEM;
    f->size = x->text_size;
    memcpy(f->bytes, x->text, x->text_size);
    memcpy(x->head + 1, &f, sizeof f);
    return 0;
}

void packed_drop(struct memory *m, const uint8_t *at) {
    if (*at != PACKED_FAR) return;
    struct far *f = far_at(at);
    if (f) memory_free(m, f, far_bytes(f->size));
}

size_t packed_far_memory(const uint8_t *at) { return *at == PACKED_FAR ? memory_usable(far_bytes(far_at(at)->size)) : 0; }

size_t packed_far_needs(const struct packed *x) { return packed_is_far(x) ? memory_usable(far_bytes(x->text_size)) : 0; }

int64_t packed_int(const uint8_t *at) {
    if (*at < HEAD_INT) return *at - (int64_t)HEAD_SMALL_INT;
    unsigned bytes = *at & 0xfu;
    uint64_t v = 0;
    memcpy(&v, at + 1, bytes);
    unsigned unused = 64 - 8 * bytes;
    return (int64_t)(v << unused) >> unused;
}

const char *packed_text(const uint8_t *at, char scratch[INT64_TEXT_SIZE], uint32_t *size) {
    if (*at < HEAD_SMALL_INT) {
        *size = *at;
        return (const char *)at + 1;
    }
    if (*at == PACKED_FAR) {
        *size = far_at(at)->size;
        return far_at(at)->bytes;
    }
    *size = format_int64(scratch, packed_int(at));
    return scratch;
}

uint32_t packed_text_size(const uint8_t *at) {
    char scratch[INT64_TEXT_SIZE];
    uint32_t size;
    packed_text(at, scratch, &size);
    return size;
}

/* --- copying in parts --- */

/* What making a block costs, in bytes that are copied meanwhile. */
#define BLOCK_COST 256

void packed_forget(uint8_t *at) {
    const struct far *none = NULL;
    memcpy(at + 1, &none, sizeof none);
}

int packed_copy_far(struct memory *m, uint8_t *to, const uint8_t *from, struct packed_copying *c) {
    const struct far *f = far_at(from);
    struct far *copy = far_at(to);
    if (!copy) {
        copy = memory_alloc(m, far_bytes(f->size));
        if (!copy) return -ENOMEM;
        copy->size = f->size;
        memcpy(to + 1, &copy, sizeof copy);
        c->memory += memory_usable(far_bytes(f->size));
        c->cost -= BLOCK_COST;
        c->written = 0;
    }
    int64_t left = f->size - c->written, now = c->cost > 0 ? c->cost : 0;
    if (now > left) now = left;
    memcpy(copy->bytes + c->written, f->bytes + c->written, (size_t)now);
    c->written += (uint32_t)now;
    c->cost -= now;
    return now < left;
}
