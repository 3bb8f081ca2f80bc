#include "shard/packed.h"

#include <assert.h>
#include <errno.h>

#include "shard/blob.h"
#include "shard/hop.h"
#include "shard/memory.h"

#define SMALL_INT_MAX 63
#define HEAD_SMALL_INT 0x80u
#define HEAD_INT 0xc0u

struct far {
    uint32_t size;
    char bytes[];
};

/* What a far string refers to: a block, or a blob, whose address is one more. 0: nothing yet. */
static uintptr_t address_at(const uint8_t *at) {
    uintptr_t p;
    memcpy(&p, at + 1, sizeof p);
    return p;
}

static void write_address(uint8_t *at, uintptr_t p) { memcpy(at + 1, &p, sizeof p); }

static struct far *far_at(const uint8_t *at) { return (struct far *)address_at(at); }
static struct blob *blob_at(const uint8_t *at) {
    uintptr_t p = address_at(at);
    return p & 1 ? (struct blob *)(p - 1) : NULL;
}

static size_t far_bytes(uint32_t size) { return sizeof(struct far) + size; }

/* What is there for a string of so many bytes, which are not written yet, as an address. 0: no memory. */
static uintptr_t new_far(struct memory *m, uint32_t size, char **bytes) {
    if (size >= BLOB_SHARE_MIN) {
        struct blob *b = blob_new(m, memory_owner(m), size, size);
        if (!b) return 0;
        *bytes = b->bytes;
        return (uintptr_t)b + 1;
    }
    struct far *f = memory_alloc(m, far_bytes(size));
    if (!f) return 0;
    f->size = size;
    *bytes = f->bytes;
    return (uintptr_t)f;
}

static const char *far_text(const uint8_t *at, uint32_t *size) {
    const struct blob *b = blob_at(at);
    const struct far *f = far_at(at);
    *size = b ? (uint32_t)b->size : f->size;
    return b ? b->bytes : f->bytes;
}

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
        packed_forget(x->head);
    }
}

void packed_adopt(struct memory *m, struct packed *x, struct arg *a) {
    if (!(a->flags & ARG_BLOB) || a->size < BLOB_SHARE_MIN) return;
    struct blob *b = packed_blob(a->p);
    assert(packed_is_far(x) && x->text == a->p && !address_at(x->head));
    b->size = a->size;
    blob_adopt(m, b, memory_owner(m));
    a->flags &= ~(uint32_t)ARG_BLOB;
    write_address(x->head, (uintptr_t)b + 1);
}

void packed_share(struct packed *x, const struct arg *a) {
    struct blob *b = packed_blob(a->p);
    assert(packed_is_far(x) && x->text == a->p && b->size == a->size && b->refs);
    b->refs++;
    write_address(x->head, (uintptr_t)b + 1);
}

int packed_make_far(struct memory *m, struct packed *x) {
    char *bytes;
    if (!packed_is_far(x) || address_at(x->head)) return 0;
    uintptr_t p = new_far(m, x->text_size, &bytes);
    if (!p) return -ENOMEM;
    memcpy(bytes, x->text, x->text_size);
    write_address(x->head, p);
    return 0;
}

void packed_drop(struct memory *m, const uint8_t *at) {
    if (*at != PACKED_FAR) return;
    struct blob *b = blob_at(at);
    struct far *f = far_at(at);
    if (b) blob_release(m, b);
    else if (f) memory_free(m, f, far_bytes(f->size));
}

size_t packed_far_memory(const uint8_t *at) {
    if (*at != PACKED_FAR) return 0;
    const struct blob *b = blob_at(at);
    return b ? blob_memory(b) : memory_usable(far_bytes(far_at(at)->size));
}

size_t packed_far_needs(const struct packed *x) {
    if (!packed_is_far(x)) return 0;
    return x->text_size >= BLOB_SHARE_MIN ? blob_memory_for(x->text_size) : memory_usable(far_bytes(x->text_size));
}

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
    if (*at == PACKED_FAR) return far_text(at, size);
    *size = format_int64(scratch, packed_int(at));
    return scratch;
}

uint32_t packed_text_size(const uint8_t *at) {
    char scratch[INT64_TEXT_SIZE];
    uint32_t size;
    packed_text(at, scratch, &size);
    return size;
}

struct blob *packed_blob(const char *text) {
    return (struct blob *)(uintptr_t)(text - offsetof(struct blob, bytes));
}

/* --- copying in parts --- */

/* What making a block costs, in bytes that are copied meanwhile. */
#define BLOCK_COST 256

void packed_forget(uint8_t *at) { write_address(at, 0); }

int packed_copy_far(struct memory *m, uint8_t *to, const uint8_t *from, struct packed_copying *c) {
    uint32_t size;
    const char *text = far_text(from, &size);
    char *bytes;
    if (!address_at(to)) {
        uintptr_t p = new_far(m, size, &bytes);
        if (!p) return -ENOMEM;
        write_address(to, p);
        c->memory += packed_far_memory(to);
        c->cost -= BLOCK_COST;
        c->written = 0;
    }
    bytes = (char *)(uintptr_t)far_text(to, &size);
    int64_t left = size - c->written, now = c->cost > 0 ? c->cost : 0;
    if (now > left) now = left;
    memcpy(bytes + c->written, text + c->written, (size_t)now);
    c->written += (uint32_t)now;
    c->cost -= now;
    return now < left;
}
