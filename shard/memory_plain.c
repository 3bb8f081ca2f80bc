/* The memory of a shard without arenas: every block is mimalloc's own. It is there to be compared with (meson option memory=mimalloc): what the
 * arenas of memory.c save, in bytes and in instructions, is measured against it, and so is any other allocator that one may try.
 *
 * The contract is that of memory.h, with the account as exact: a block counts with what mimalloc gives for its size, and only
 * a segment with what was asked for it (the table asks for no more before it grows; mimalloc takes 5,120 bytes for its 4,416). What is about regions
 * does not apply: none is ever wanted, huge pages are not asked for, and memory_drop cannot free the blocks that are still in use, since
 * blocks of all shards lie together (a heap of mimalloc's belongs to one thread, a shard does not).
 */
#include <assert.h>

#include "shard/memory_internal.h"

struct memory {
    struct memory_account account; /* first: memory_used reads it */
    size_t used_large, peak;
    uint64_t fail_after;
    struct given_up *given_up;
};

struct memory *memory_new(bool huge) {
    struct memory *m = mi_malloc(sizeof *m);
    if (m) *m = (struct memory){0};
    return m;
}

void memory_drop(struct memory *m) {
    if (!m) return;
    given_up_drop(&m->given_up);
    mi_free(m);
}

/* ---- blocks ---- */

size_t memory_usable(size_t size) { return mi_good_size(size); }
size_t memory_usable_packed(size_t size) { return mi_good_size(size); }

static inline void note_peak(struct memory *m) {
    if (unlikely(m->account.used > m->peak)) m->peak = m->account.used;
}

/* True once: this is the allocation that memory_fail_after meant. */
static inline bool fails(struct memory *m) { return unlikely(m->fail_after) && !--m->fail_after; }

void *memory_alloc(struct memory *m, size_t size) {
    assert(size);
    if (fails(m)) return NULL;
    void *block = size % LINE == 0 || size > MEMORY_SMALL_MAX ? alloc_aligned(size) : mi_malloc(size);
    if (unlikely(!block)) return NULL;
    size_t usable = mi_good_size(size);
    m->account.used += usable;
    if (size > MEMORY_SMALL_MAX) m->used_large += usable;
    return block;
}

void *memory_alloc_packed(struct memory *m, size_t size) { return memory_alloc(m, size); }

void memory_free(struct memory *m, void *block, size_t size) {
    size_t usable = mi_good_size(size);
    note_peak(m);
    m->account.used -= usable;
    if (size > MEMORY_SMALL_MAX) m->used_large -= usable;
    mi_free(block);
}

void *memory_alloc_segment(struct memory *m, size_t size) {
    assert(size % LINE == 0);
    if (fails(m)) return NULL;
    void *segment = alloc_aligned(size);
    if (segment) m->account.used += size;
    return segment;
}

void memory_free_segment(struct memory *m, void *segment, size_t size) {
    note_peak(m);
    m->account.used -= size;
    mi_free(segment);
}

void memory_fail_after(struct memory *m, uint64_t nth) { m->fail_after = nth; }

/* ---- regions: there are none ---- */

void *memory_map_region(void) { return NULL; }
bool memory_wants_region(const struct memory *m) { return false; }
void memory_check_growth(struct memory *m) {}
bool memory_runs_short(const struct memory *m) { return false; }
void memory_slice_begin(struct memory *m) {}
void memory_slice_end(struct memory *m) {}
void memory_give_region(struct memory *m, void *region) { assert(!"no region was wanted"); }

void memory_unmap(void *block, size_t size) { unmap(block, size); }
bool memory_wants_trim(const struct memory *m) { return m->given_up; }
void memory_give_up(struct memory *m, void *block, size_t size) { given_up_push(&m->given_up, block, size); }

void *memory_take_spare(struct memory *m, size_t *size) {
    assert(m->given_up);
    return given_up_pop(&m->given_up, size);
}

/* ---- the account ---- */

void memory_charge(struct memory *m, ptrdiff_t bytes) {
    note_peak(m);
    m->account.used += (size_t)bytes;
    m->used_large += (size_t)bytes;
}

/* reserved: mimalloc does not tell what it holds for whom, so no more than is in use. */
void memory_stats(const struct memory *m, struct memory_stats *out) {
    *out = (struct memory_stats){
        .used = m->account.used,
        .used_large = m->used_large,
        .reserved = m->account.used - m->used_large,
        .peak = m->account.used > m->peak ? m->account.used : m->peak,
    };
}
