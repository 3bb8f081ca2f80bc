/* Large blocks that are pages of their own: they grow without being copied, as the kernel moves the pages (copying takes 20 ms for 100 MB). Any thread.
 *
 * Given back with memory_unmap, which takes a millisecond and more for large ones: on the server's threads that serve clients rather by regions_give_back().
 */
#ifndef SHARD_MAPPING_H
#define SHARD_MAPPING_H

#include <stddef.h>

/* From here on it is worth it, bytes. */
#define MAPPING_MIN (1u << 20)

/* size bytes of zeros, untouched. NULL: no memory. */
void *mapping_new(size_t size);
/* Another size; the bytes stay, their place may not. NULL: no memory, nothing changed. */
void *mapping_resize(void *block, size_t size, size_t to_size);
/* A block that grows: the heap's (mi_malloc) below MAPPING_MIN bytes, a mapping from there. used: its first bytes, which stay. block: NULL for
 * size 0. NULL: no memory, nothing changed. */
void *growing_resize(void *block, size_t size, size_t used, size_t to_size);

#endif
