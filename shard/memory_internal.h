/* What the implementations of memory.h share, and nobody else includes: large blocks, and mapped ones that nobody uses any more.
 *
 *   memory.c         arenas: the server's (-Dmemory=arenas)
 *   memory_plain.c   mimalloc for everything, to compare with (-Dmemory=mimalloc)
 */
#ifndef SHARD_MEMORY_INTERNAL_H
#define SHARD_MEMORY_INTERNAL_H

#include <stdint.h>
#include <sys/mman.h>

#include <mimalloc.h>

#include "shard/memory.h"

#define likely(x) __builtin_expect(!!(x), 1)
#define unlikely(x) __builtin_expect(!!(x), 0)

#define LINE 64u

/* A block that is aligned to a line. Mimalloc aligns those of more than a KiB by the way it cuts its pages; asking for it would cost up to 63 bytes each. */
static inline void *alloc_aligned(size_t size) {
    void *block = mi_malloc(size);
    if (likely(!((uintptr_t)block & (LINE - 1)))) return block;
    mi_free(block);
    return mi_malloc_aligned(size, LINE);
}

/* A mapped block that waits for memory_take_spare. */
struct given_up {
    struct given_up *next;
    size_t size;
};

static inline void given_up_push(struct given_up **list, void *block, size_t size) {
    struct given_up *g = block;
    *g = (struct given_up){*list, size};
    *list = g;
}

static inline void *given_up_pop(struct given_up **list, size_t *size) {
    struct given_up *g = *list;
    *list = g->next;
    *size = g->size;
    return g;
}

static inline void given_up_drop(struct given_up **list) {
    while (*list) {
        size_t size;
        void *block = given_up_pop(list, &size);
        munmap(block, size);
    }
}

/* The most of the work first, without the lock that other threads' mappings need. */
static inline void unmap(void *block, size_t size) {
    madvise(block, size, MADV_DONTNEED);
    munmap(block, size);
}

#endif
