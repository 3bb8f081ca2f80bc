/* What a build with sanitizers includes instead of mimalloc's header: the same calls over malloc, so that address and leak checks see every
 * block. meson.build puts this folder first in the include path when b_sanitize is set. It has what the sources use; add what they come to use. */
#ifndef SANITIZE_MIMALLOC_H
#define SANITIZE_MIMALLOC_H

#include <malloc.h>
#include <stdbool.h>
#include <stdlib.h>

#define MI_MALLOC_VERSION 0 /* shown by INFO */

static inline void *mi_malloc(size_t size) { return malloc(size); }
static inline void *mi_zalloc(size_t size) { return calloc(1, size); }
static inline void *mi_calloc(size_t count, size_t size) { return calloc(count, size); }
static inline void *mi_realloc(void *block, size_t size) { return realloc(block, size); }
static inline void mi_free(void *block) { free(block); }
static inline size_t mi_good_size(size_t size) { return size; } /* what is beyond it is red */
static inline size_t mi_usable_size(const void *block) { return malloc_usable_size((void *)block); }
static inline void mi_stats_print_out(void (*out)(const char *text, void *arg), void *arg) { out("malloc: no figures\n", arg); }
static inline void mi_collect(bool force) { (void)force; }

static inline void *mi_malloc_aligned(size_t size, size_t alignment) {
    void *block;
    return posix_memalign(&block, alignment < sizeof(void *) ? sizeof(void *) : alignment, size) ? NULL : block;
}

#endif
