#include "shard/mapping.h"

#include <mimalloc.h>
#include <string.h>
#include <sys/mman.h>

#ifndef __has_feature
#define __has_feature(x) 0
#endif

void *mapping_new(size_t size) {
    void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? NULL : p;
}

/* (The thread sanitizer does not see mremap, and takes the next owner of the address for a racing one.) */
void *mapping_resize(void *block, size_t size, size_t to_size) {
#if defined __SANITIZE_THREAD__ || __has_feature(thread_sanitizer)
    void *to = mapping_new(to_size);
    if (!to) return NULL;
    memcpy(to, block, size < to_size ? size : to_size);
    munmap(block, size);
    return to;
#else
    void *p = mremap(block, size, to_size, MREMAP_MAYMOVE);
    return p == MAP_FAILED ? NULL : p;
#endif
}

/* Pages that are about to be written, all in one go: half of what a fault for each takes. Only advice: older kernels refuse it. */
static void touch(void *block, size_t size) {
#ifdef MADV_POPULATE_WRITE
    if (size) madvise(block, size, MADV_POPULATE_WRITE);
#else
    (void)block;
    (void)size;
#endif
}

void *growing_resize(void *block, size_t size, size_t used, size_t to_size) {
    if (to_size < MAPPING_MIN) return mi_realloc(block, to_size);
    if (size >= MAPPING_MIN) return mapping_resize(block, size, to_size);
    void *p = mapping_new(to_size);
    if (!p) return NULL;
    touch(p, used);
    if (used) memcpy(p, block, used);
    mi_free(block);
    return p;
}
