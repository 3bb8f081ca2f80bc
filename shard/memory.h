/* The memory of one shard: arenas for small blocks, mimalloc for large ones, exact accounting.
 *
 * A struct memory belongs to its shard and passes with it: whoever holds the shard may call it, nobody else; nothing in it is
 * thread-local. Blocks up to MEMORY_SMALL_MAX bytes come from pages of one size class (classes are 4 bytes apart, so an entry of 36 bytes
 * takes 36), pages from 2 MiB-aligned regions that are advised huge. The caller passes the size again when it frees, so
 * a block has no header. Larger blocks are mimalloc's. Empty pages can serve any class again, and empty regions go back in slices.
 *
 *   region (2 MiB):  | page | page | page | ...           a page is 64 KiB of blocks of one class
 *                    and the headers of all its pages: class, blocks in use, free list   (where: memory.c)
 *
 * That is memory.c. memory_plain.c implements the same with nothing but mimalloc, to compare with (meson option memory): sizes are mimalloc's
 * then, no region is ever wanted, and memory_drop frees no blocks.
 */
#ifndef SHARD_MEMORY_H
#define SHARD_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMORY_SMALL_MAX 1024u

struct memory; /* begins with: */
struct memory_account {
    size_t used;
    uint32_t owner; /* the number of its shard, which the shard writes once; 0 until then */
};

/* huge: advise regions huge (transparent huge pages). NULL when there is no memory. */
struct memory *memory_new(bool huge);
/* Frees every region, and with them every small block; large blocks must have been freed. */
void memory_drop(struct memory *m);

/* A block of size bytes (> 0), aligned to 8 (to 64 if size is a multiple of 64 and <= MEMORY_SMALL_MAX, or > MEMORY_SMALL_MAX). NULL when memory is refused. */
void *memory_alloc(struct memory *m, size_t size);
/* The same, aligned to 4, with no more bytes than that takes: for what is only bytes, entries. */
void *memory_alloc_packed(struct memory *m, size_t size);
/* size as it was given to memory_alloc, or any size of the same class. */
void memory_free(struct memory *m, void *block, size_t size);
/* The bytes that a block of this size really has: two sizes with the same result can be overwritten in place. */
size_t memory_usable(size_t size);
size_t memory_usable_packed(size_t size);

/* Segments of tables: blocks of one fixed size, 64-byte aligned, packed without waste into regions of their own. The first region is huge at once; a later one that is not in
 * reserve comes in small pages, as in a slice (see there): a table's step is no longer for it. */
void *memory_alloc_segment(struct memory *m, size_t size);
void memory_free_segment(struct memory *m, void *segment, size_t size);

/* Regions are mapped and given back outside of the commands: giving one back takes up to 0.3 ms; the first touch of a huge page takes 0.1 ms, and 3 to
 * 5 ms on a virtual machine that gets its memory only then. So whoever holds the shard asks these between commands, and another thread does the work. */

/* Any thread. A region (2 MiB), advised huge and touched. The caller owns it until memory_give_region. NULL: refused. */
void *memory_map_region(void);
/* Any thread. Gives a region of memory_map_region, or what memory_take_spare gave, back to the system. */
void memory_unmap(void *block, size_t size);
/* A region will be needed soon, and there are not enough in reserve. Never true without huge pages: then memory comes in small pages, as it is used. */
bool memory_wants_region(const struct memory *m);
/* Every second or so: if nothing grew between two calls, what is in reserve is too many for memory_wants_trim, and no more is wanted until something grows. */
void memory_check_growth(struct memory *m);
/* Less is left than a slice may take, and there is no region in reserve: it better waits for one. Never true without huge pages, or where there are no blocks yet. */
bool memory_runs_short(const struct memory *m);
/* A slice of a long command begins, or ends: whoever has to have a region meanwhile, and none is in reserve, gets it in small pages, as it is used, since the first touch of a huge
 * one alone may take longer than a slice. From then on there is one in reserve however little there is, as long as something grows. The system is told to make huge pages of
 * the small ones once all of the region is in use. */
void memory_slice_begin(struct memory *m);
void memory_slice_end(struct memory *m);
/* Takes a region over, for the next need. Legal if memory_wants_region or memory_runs_short was true, and none was given since. */
void memory_give_region(struct memory *m, void *region);
/* Empty regions are kept for the next need, one of each kind; there are more, or a reserve that is not needed, or mapped blocks were given up. */
bool memory_wants_trim(const struct memory *m);
/* One of those that are too many, and its size. It is the caller's now; its bytes may be overwritten. Legal if memory_wants_trim. */
void *memory_take_spare(struct memory *m, size_t *size);
/* Gives up a block that was mapped on its own (whole pages; its charge is the caller's to take back): it waits for memory_take_spare, as unmapping
 * takes 1 ms for 500 MiB in huge pages, and fifty in small ones. */
void memory_give_up(struct memory *m, void *block, size_t size);

/* Adds to or takes from the account for bytes that were allocated elsewhere (a blob received by another thread). */
void memory_charge(struct memory *m, ptrdiff_t bytes);

struct memory_stats {
    size_t used, used_large, reserved, pages, regions, peak, small_paged;
};
/* used: bytes in blocks handed out (usable size) plus charges. used_large: those of large blocks, and the charges. reserved: bytes held from the system for small blocks.
 * small_paged: the regions that slices have had to have, and that the system was not told to make huge pages of yet. */
void memory_stats(const struct memory *m, struct memory_stats *out);
static inline size_t memory_used(const struct memory *m) { return ((const struct memory_account *)m)->used; }
/* The number of the shard whose memory this is; the shard says it once, at its beginning. */
static inline void memory_set_owner(struct memory *m, uint32_t shard) { ((struct memory_account *)m)->owner = shard; }
static inline uint32_t memory_owner(const struct memory *m) { return ((const struct memory_account *)m)->owner; }

/* Tests: the nth allocation from now on fails (0: none), once. */
void memory_fail_after(struct memory *m, uint64_t nth);

#endif
