#include "shard/blob.h"

#include <assert.h>
#include <mimalloc.h>
#include <string.h>
#include <sys/mman.h>

#include "shard/mapping.h"
#include "shard/memory.h"

/* No string is longer than 4 GiB (the largest proto-max-bulk-len), nor has it more spare room than bytes. */
#define CAPACITY_MAX ((uint64_t)8 << 30)
#define PAGE_SIZE 4096u
/* A gap of less is zeroed by hand. */
#define ZERO_BY_PAGES_MIN (256u << 10)

/* A blob's block is a small block of its shard's, or mimalloc's, or mapped: which of them follows from its size alone. Received ones are
 * larger than a shard's small blocks, so that it makes no difference who made one. */
static size_t block_size(size_t capacity) { return sizeof(struct blob) + capacity; }
static bool is_mapped(size_t capacity) { return block_size(capacity) >= BLOB_MAPPED_MIN; }

/* What a block for this capacity really has; but never so much that it would be taken for a mapped one. */
static size_t block_usable(size_t capacity) {
    size_t block = block_size(capacity);
    if (is_mapped(capacity)) return (block + PAGE_SIZE - 1) & ~(size_t)(PAGE_SIZE - 1);
    size_t usable = memory_usable(block);
    return usable < BLOB_MAPPED_MIN ? usable : block;
}

static struct blob *map(size_t block) {
    void *p = mapping_new(block);
    if (p) madvise(p, block, MADV_HUGEPAGE);
    return p;
}

size_t blob_mapped(const struct blob *b) { return is_mapped(b->capacity) ? block_usable(b->capacity) : 0; }

struct blob *blob_receive(size_t capacity) {
    if (capacity < MEMORY_SMALL_MAX) capacity = MEMORY_SMALL_MAX;
    if (capacity > CAPACITY_MAX) return NULL;
    struct blob *b = is_mapped(capacity) ? map(block_usable(capacity)) : mi_malloc_aligned(block_size(capacity), 64);
    if (b) *b = (struct blob){.capacity = capacity, .refs = 1};
    return b;
}

void blob_discard(struct blob *b) {
    if (is_mapped(b->capacity)) memory_unmap(b, block_usable(b->capacity));
    else mi_free(b);
}

void blob_adopt(struct memory *m, struct blob *b, uint32_t shard) {
    b->shard = shard;
    memory_charge(m, (ptrdiff_t)blob_memory(b));
}

struct blob *blob_new(struct memory *m, uint32_t shard, size_t size, size_t capacity) {
    assert(capacity >= size);
    if (capacity > CAPACITY_MAX) return NULL;
    size_t block = block_usable(capacity);
    struct blob *b = is_mapped(capacity) ? map(block) : memory_alloc(m, block);
    if (!b) return NULL;
    *b = (struct blob){.size = size, .capacity = block - sizeof(struct blob), .refs = 1, .shard = shard};
    if (is_mapped(capacity)) memory_charge(m, (ptrdiff_t)block);
    return b;
}

void blob_release(struct memory *m, struct blob *b) {
    assert(b->refs > 0);
    if (--b->refs) return;
    if (is_mapped(b->capacity)) {
        size_t block = blob_memory(b);
        memory_charge(m, -(ptrdiff_t)block);
        memory_give_up(m, b, block);
    } else {
        memory_free(m, b, block_size(b->capacity));
    }
}

struct blob *blob_grow(struct memory *m, struct blob *b, size_t capacity) {
    assert(b->refs == 1 && is_mapped(b->capacity) && capacity >= b->capacity);
    if (capacity > CAPACITY_MAX) return NULL;
    size_t old = blob_memory(b), block = block_usable(capacity);
    void *p = mapping_resize(b, old, block);
    if (!p) return NULL;
    memory_charge(m, (ptrdiff_t)(block - old));
    b = p;
    b->capacity = block - sizeof(struct blob);
    return b;
}

bool blob_can_grow(const struct blob *b) { return b->refs == 1 && is_mapped(b->capacity); }

void blob_zero(struct blob *b, size_t from, size_t to) {
    assert(from <= to && to <= b->capacity);
    char *start = b->bytes + from, *end = b->bytes + to;
    if (is_mapped(b->capacity) && to - from >= ZERO_BY_PAGES_MIN) {
        char *first = (char *)(((uintptr_t)start + PAGE_SIZE - 1) & ~(uintptr_t)(PAGE_SIZE - 1)),
             *last = (char *)((uintptr_t)end & ~(uintptr_t)(PAGE_SIZE - 1));
        if (!madvise(first, (size_t)(last - first), MADV_DONTNEED)) { /* they come back as zeros, when they are touched */
            memset(start, 0, (size_t)(first - start));
            start = last;
        }
    }
    memset(start, 0, (size_t)(end - start));
}

bool blob_fits(const struct blob *b, size_t size) {
    return b->refs == 1 && size <= b->capacity && block_usable(size) == block_usable(b->capacity);
}

size_t blob_memory_for(size_t capacity) { return block_usable(capacity); }
size_t blob_memory(const struct blob *b) { return block_usable(b->capacity); }

bool blob_can_be_adopted(const struct blob *b) { return block_size(b->capacity) > MEMORY_SMALL_MAX; }

void blob_disown(struct memory *m, struct blob *b) {
    memory_charge(m, -(ptrdiff_t)blob_memory(b));
    b->shard = BLOB_NO_SHARD;
}

struct blob *blob_detach(struct memory *m, struct blob *b) {
    if (b->refs == 1 && blob_can_be_adopted(b)) {
        blob_disown(m, b);
        return b;
    }
    struct blob *copy = blob_receive(b->size);
    if (!copy) return NULL;
    memcpy(copy->bytes, b->bytes, b->size);
    copy->size = b->size;
    copy->shard = BLOB_NO_SHARD;
    return copy;
}

bool blob_transfer(struct memory *from, struct memory *to, struct blob *b, uint32_t shard) {
    if (b->refs > 1 || block_size(b->capacity) <= MEMORY_SMALL_MAX) return false;
    memory_charge(from, -(ptrdiff_t)blob_memory(b));
    memory_charge(to, (ptrdiff_t)blob_memory(b));
    b->shard = shard;
    return true;
}
