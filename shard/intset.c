#include "shard/intset.h"

#include <errno.h>
#include <string.h>

#include "shard/memory.h"

#define WIDTH_SHIFT 30
#define WIDEST 8u

static uint32_t width_of(const struct intset *x) { return 1u << (x->n_width >> WIDTH_SHIFT); }

static uint32_t width_for(int64_t v) { return v == (int16_t)v ? 2 : v == (int32_t)v ? 4 : 8; }

static uint32_t header_of(uint32_t n, uint32_t width) { return n | (width == 2 ? 1u : width == 4 ? 2u : 3u) << WIDTH_SHIFT; }

/* The block for so many integers: steps of about a sixteenth, so that one that grows is not copied for each. */
static size_t block_for(size_t n, uint32_t width) {
    size_t bytes = sizeof(struct intset) + n * width, step = 8;
    while (bytes > 16 * step) step *= 2;
    return (bytes + step - 1) & ~(step - 1);
}

static int64_t read_at(const uint8_t *bytes, uint32_t width, uint32_t index) {
    const uint8_t *at = bytes + (size_t)index * width;
    int64_t v8;
    int32_t v4;
    int16_t v2;
    switch (width) {
    case 2: memcpy(&v2, at, sizeof v2); return v2;
    case 4: memcpy(&v4, at, sizeof v4); return v4;
    default: memcpy(&v8, at, sizeof v8); return v8;
    }
}

static void write_at(uint8_t *bytes, uint32_t width, uint32_t index, int64_t v) { memcpy(bytes + (size_t)index * width, &v, width); }
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the low bytes of an integer come first");

int64_t intset_at(const struct intset *x, uint32_t index) { return read_at(x->bytes, width_of(x), index); }

bool intset_find(const struct intset *x, int64_t v, uint32_t *index) {
    uint32_t low = 0, high = intset_count(x);
    if (high) { /* what comes in ascending order goes to the end */
        int64_t last = intset_at(x, high - 1);
        if (v > last) low = high;
    }
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (intset_at(x, middle) < v) low = middle + 1;
        else high = middle;
    }
    *index = low;
    return low < intset_count(x) && intset_at(x, low) == v;
}

size_t intset_memory(const struct intset *x) { return x ? memory_usable(8 * (size_t)x->block) : 0; }

size_t intset_memory_with(const struct intset *x, uint32_t more) {
    return memory_usable(block_for(intset_count(x) + (size_t)more, WIDEST));
}

static struct intset *new_block(struct memory *m, uint32_t n, uint32_t width) {
    size_t block = block_for(n, width);
    struct intset *x = memory_alloc(m, block);
    if (x) *x = (struct intset){header_of(n, width), (uint32_t)(block / 8)};
    return x;
}

/* The integers of x, each in `width` bytes, in a block of its own, with a gap at a place. */
static struct intset *with_gap(struct memory *m, const struct intset *x, uint32_t width, uint32_t gap) {
    uint32_t n = intset_count(x);
    struct intset *to = new_block(m, n + 1, width);
    if (!to) return NULL;
    for (uint32_t i = 0; i < n; i++) write_at(to->bytes, width, i + (i >= gap), intset_at(x, i));
    return to;
}

int intset_add(struct memory *m, struct intset **at, int64_t v, uint32_t index) {
    struct intset *x = *at;
    uint32_t n = intset_count(x), width = width_for(v), now = x ? width_of(x) : 0;
    if (width < now) width = now;
    if (width == now && sizeof *x + (size_t)(n + 1) * width <= 8 * (size_t)x->block) {
        memmove(x->bytes + (size_t)(index + 1) * width, x->bytes + (size_t)index * width, (size_t)(n - index) * width);
        x->n_width = header_of(n + 1, width);
    } else {
        struct intset *to = with_gap(m, x, width, index);
        if (!to) return -ENOMEM;
        intset_free(m, x);
        *at = x = to;
    }
    write_at(x->bytes, width, index, v);
    return 0;
}

void intset_remove(struct memory *m, struct intset **at, uint32_t index) {
    struct intset *x = *at, *to;
    uint32_t n = intset_count(x), width = width_of(x);
    if (n == 1) {
        intset_free(m, x);
        *at = NULL;
        return;
    }
    memmove(x->bytes + (size_t)index * width, x->bytes + (size_t)(index + 1) * width, (size_t)(n - index - 1) * width);
    x->n_width = header_of(n - 1, width);
    if (block_for(n - 1, width) > 8 * (size_t)x->block / 4 * 3) return;
    to = intset_copy(m, x);
    if (!to) return; /* it stays where it is */
    intset_free(m, x);
    *at = to;
}

void intset_free(struct memory *m, struct intset *x) {
    if (x) memory_free(m, x, 8 * (size_t)x->block);
}

struct intset *intset_copy(struct memory *m, const struct intset *x) {
    uint32_t n = intset_count(x), width = width_of(x);
    struct intset *to = new_block(m, n, width);
    if (to) memcpy(to->bytes, x->bytes, (size_t)n * width);
    return to;
}
