#include "shard/blob.h"

#include <assert.h>
#include <mimalloc.h>

#include "shard/memory.h"

/* No string is longer than 4 GiB (the largest proto-max-bulk-len), nor has it more spare room than bytes. */
#define CAPACITY_MAX ((uint64_t)8 << 30)

/* A blob's block. Received ones are larger than the shard's small blocks, so that every large blob is a block of mimalloc's, wherever it was made. */
static size_t block_size(size_t capacity) { return sizeof(struct blob) + capacity; }

struct blob *blob_receive(size_t capacity) {
    if (capacity < MEMORY_SMALL_MAX) capacity = MEMORY_SMALL_MAX;
    if (capacity > CAPACITY_MAX) return NULL;
    struct blob *b = mi_malloc_aligned(block_size(capacity), 64);
    if (b) *b = (struct blob){.capacity = capacity, .refs = 1};
    return b;
}

void blob_discard(struct blob *b) { mi_free(b); }

void blob_adopt(struct memory *m, struct blob *b, uint32_t shard) {
    b->shard = shard;
    memory_charge(m, (ptrdiff_t)memory_usable(block_size(b->capacity)));
}

struct blob *blob_new(struct memory *m, uint32_t shard, size_t size, size_t capacity) {
    assert(capacity >= size);
    if (capacity > CAPACITY_MAX) return NULL;
    size_t block = memory_usable(block_size(capacity));
    struct blob *b = memory_alloc(m, block);
    if (b) *b = (struct blob){.size = size, .capacity = block - sizeof(struct blob), .refs = 1, .shard = shard};
    return b;
}

void blob_release(struct memory *m, struct blob *b) {
    assert(b->refs > 0);
    if (--b->refs == 0) memory_free(m, b, block_size(b->capacity));
}

bool blob_fits(const struct blob *b, size_t size) {
    return b->refs == 1 && size <= b->capacity && memory_usable(block_size(size)) == memory_usable(block_size(b->capacity));
}

size_t blob_memory(const struct blob *b) { return memory_usable(block_size(b->capacity)); }

bool blob_transfer(struct memory *from, struct memory *to, struct blob *b, uint32_t shard) {
    if (b->refs > 1 || block_size(b->capacity) <= MEMORY_SMALL_MAX) return false;
    memory_charge(from, -(ptrdiff_t)blob_memory(b));
    memory_charge(to, (ptrdiff_t)blob_memory(b));
    b->shard = shard;
    return true;
}
