/* The allocator of a shard's small blocks and segments. The contract is in memory.h; memory_plain.c has another implementation of it.
 *
 *   region (2 MiB):  | page 0: blocks: first run | headers of all 32 pages: a line each | blocks: second run | page 1 | ... | page 31 | region's header: one line |
 *
 * The headers do not stand at the region's start: with those of all regions 2 MiB apart, they would fall into the same few sets
 * of the caches, and each memory_free touches one. They stand where five bits of the region's address say, so that the
 * headers of neighbouring regions fill all sets evenly, and a header's address still costs three instructions (header_of). Only the first page has
 * its blocks in two runs; all others are whole, and lose only what is left at the end.
 *
 * A page is in one of four states:
 *
 *   free       its bit in region->free_pages is set; any class may take it
 *   current    classes[class].current: memory_alloc takes from here
 *   listed     in classes[class].listed: has free blocks, will be current one day
 *   full       in no list. It is listed again once 1/64 of its blocks are free, not at the first one: else under steady churn every
 *              allocation would change the page for one single block.
 *
 * page->floor makes memory_free's test for all of this one comparison: used <= floor means that there is something to do (a current or
 * listed page became empty: floor is 0; a full one has enough free blocks: floor is where that is).
 */
#include <assert.h>
#include <string.h>

#include "shard/memory_internal.h"

#if defined(__SANITIZE_ADDRESS__)
#define POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISONS 1
#endif
#endif
#ifdef POISONS
#include <sanitizer/asan_interface.h>
#define poison(p, n) ASAN_POISON_MEMORY_REGION(p, n)
#define unpoison(p, n) ASAN_UNPOISON_MEMORY_REGION(p, n)
#else
#define poison(p, n) ((void)(p), (void)(n))
#define unpoison(p, n) ((void)(p), (void)(n))
#endif

#define REGION_SIZE ((uintptr_t)2 << 20)
#define PAGE_SIZE ((uintptr_t)64 << 10)
#define REGION_PAGES 32u
#define GRAIN 4u     /* bytes between classes */
#define BLOCK_MIN 8u /* a free block leads to the next one */
#define CLASSES (MEMORY_SMALL_MAX / GRAIN + 1)
#define RESERVES 2u      /* regions in reserve at most: one for each kind */
#define RESERVE_SHARE 8u /* and no more than this part of all, so that small data do not pay for it */
/* But for segments there is one even then, once less than this part of a region is left: some hundred splits, which take 5 ms. 100,000 keys do not get there. */
#define SEGMENTS_QUARTERS 1u
/* A region is asked for when less than this part of one is left: while a table splits, one lasts 25 ms, and the first touch may take 5 ms. */
#define PREPARE_QUARTERS 3u
/* What a slice may take: its bytes are in one or two pages of blocks, but each class of blocks that it comes to anew begins one. */
#define SHORT_PAGES 12u
#define SPARES_KEPT 1u /* empty regions of a kind that are kept for the next need */

struct page {
    void *free;            /* blocks given back; each begins with a pointer to the next */
    uintptr_t bump, limit; /* what was never handed out of the run that is being carved */
    int32_t used, floor;
    uint16_t size; /* of its blocks; 0: a free page */
    bool last;     /* there is no run behind the one that is being carved */
    struct page *next, *prev;
};
_Static_assert(sizeof(struct page) <= LINE, "a page's header is one line");

struct region {
    struct region *next, *prev; /* of all regions of its kind */
    struct region *room_next, *room_prev;
    uint32_t free_pages; /* bit i: page i is free */
    uint32_t used;       /* segments handed out */
    void *free;          /* segments given back */
    uintptr_t bump;
    bool small_paged; /* it is to be advised huge once it is used up */
};
_Static_assert(sizeof(struct region) <= LINE, "a region's header is one line");

/* Regions of one kind: of pages, or of segments. room: those with a free page or segment; left: how many these have together. spare: empty
 * ones (by room_next), for the next use or for memory_take_spare. */
struct regions {
    struct region *all, *room, *spare;
    uint32_t spares;
    size_t left;
};

struct memory {
    struct memory_account account; /* first: memory_used reads it */
    struct {
        struct page *current, *listed;
    } classes[CLASSES];
    size_t used_large, peak;
    size_t pages, regions;
    uint64_t fail_after;
    size_t segment_size;
    struct regions small, segments;
    void *reserve; /* regions that are of no kind yet; each begins with a pointer to the next */
    uint32_t reserves;
    struct given_up *given_up;
    size_t small_paged;
    bool huge;
    bool in_slice;
    bool hurried; /* a slice or a segment had to have a region that was not in reserve, and what grew has not come to rest since */
    bool grew;    /* pages or segments were handed out since memory_check_growth */
    bool rests;   /* and none were between the two last times, or since */
};

/* Current where a class has none. Nothing can be taken from it, so it is never written. */
static const struct page no_page;

static void *alloc_slow(struct memory *m, size_t size);
static void page_event(struct memory *m, struct page *p);

/* The header of the page that an address lies in. Bits 16 to 20 of it are the page's number in the region, and bits 21 to 25 say where the headers are. */
static inline struct page *header_of(uintptr_t at) { return (struct page *)((at & ~(REGION_SIZE - 1)) | (at >> 10 & (PAGE_SIZE - LINE))); }
#define HEADERS_SIZE (REGION_PAGES * LINE)

/* Local maxima of use lie just before something is given back, so only then the peak is looked at. */
static inline void note_peak(struct memory *m) {
    if (unlikely(m->account.used > m->peak)) m->peak = m->account.used;
}

/* A free block's pointer to the next one. Blocks are aligned to a grain only. */
static inline void *next_free(const void *block) {
    void *next;
    memcpy(&next, block, sizeof next);
    return next;
}
static inline void set_next_free(void *block, void *next) { memcpy(block, &next, sizeof next); }

/* What is smaller than BLOCK_MIN comes by alloc_slow, as its class never has a page. */
static inline size_t class_of(size_t size) { return (size + GRAIN - 1) / GRAIN; }

/* A block of the page's, or NULL. Given back ones first: they are warmer, and what was never carved is not touched for nothing. */
static inline void *take(struct memory *m, struct page *p, size_t size) {
    void *block = p->free;
    if (likely(block)) {
        unpoison(block, size);
        p->free = next_free(block);
    } else {
        if (unlikely(p->bump + size > p->limit)) return NULL;
        block = (void *)p->bump;
        unpoison(block, size);
        p->bump += size;
    }
    p->used++;
    m->account.used += size;
    return block;
}

void *memory_alloc_packed(struct memory *m, size_t size) {
    if (unlikely(size > MEMORY_SMALL_MAX)) return alloc_slow(m, size);
    size_t class = class_of(size);
    void *block = take(m, m->classes[class].current, class * GRAIN);
    return likely(block) ? block : alloc_slow(m, size);
}

void *memory_alloc(struct memory *m, size_t size) {
    if (unlikely(size > MEMORY_SMALL_MAX))
        return alloc_slow(m, size); /* not rounded: memory_free will ask for the usable size of this one */
    return memory_alloc_packed(m, (size + 7) & ~(size_t)7);
}

void memory_free(struct memory *m, void *block, size_t size) {
    if (unlikely(size > MEMORY_SMALL_MAX)) {
        memory_charge(m, -(ptrdiff_t)mi_good_size(size));
        mi_free(block);
        return;
    }
    struct page *p = header_of((uintptr_t)block);
    note_peak(m);
    m->account.used -= p->size;
    set_next_free(block, p->free);
    p->free = block;
    poison(block, p->size);
    if (unlikely(--p->used <= p->floor)) page_event(m, p);
}

size_t memory_usable(size_t size) { return size <= MEMORY_SMALL_MAX ? (size + 7) & ~(size_t)7 : mi_good_size(size); }

size_t memory_usable_packed(size_t size) {
    if (unlikely(size > MEMORY_SMALL_MAX)) return mi_good_size(size);
    return size <= BLOCK_MIN ? BLOCK_MIN : (size + GRAIN - 1) & ~(size_t)(GRAIN - 1);
}

/* ---- regions ---- */

/* 2 MiB at a multiple of 2 MiB. The kernel maps downwards from the last mapping, so beside the last region the first try mostly fits. */
static void *map_region(bool huge) {
    char *p = mmap(NULL, REGION_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED) return NULL;
    if ((uintptr_t)p & (REGION_SIZE - 1)) {
        munmap(p, REGION_SIZE);
        p = mmap(NULL, 2 * REGION_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (p == MAP_FAILED) return NULL;
        size_t before = -(uintptr_t)p & (REGION_SIZE - 1);
        if (before) munmap(p, before);
        p += before;
        munmap(p + REGION_SIZE, REGION_SIZE - before);
    }
    if (huge) madvise(p, REGION_SIZE, MADV_HUGEPAGE);
    return p;
}

/* The header of a region of pages. */
static struct region *region_of(const void *inside) { return (struct region *)(((uintptr_t)inside | (REGION_SIZE - 1)) + 1 - LINE); }
static void *region_start(const struct region *r) { return (void *)((uintptr_t)r & ~(REGION_SIZE - 1)); }

void *memory_map_region(void) {
    char *region = map_region(true);
    if (region) *(volatile char *)region = 0; /* the system gives the huge page now */
    return region;
}

void memory_unmap(void *block, size_t size) { unmap(block, size); }

static void unmap_region(struct region *r) {
    unpoison(region_start(r), REGION_SIZE);
    munmap(region_start(r), REGION_SIZE);
}

static void room_add(struct regions *of, struct region *r) {
    r->room_prev = NULL;
    r->room_next = of->room;
    if (of->room) of->room->room_prev = r;
    of->room = r;
}

static void room_remove(struct regions *of, struct region *r) {
    if (r->room_prev) r->room_prev->room_next = r->room_next;
    else of->room = r->room_next;
    if (r->room_next) r->room_next->room_prev = r->room_prev;
}

/* How many pages or segments an empty region has. */
static size_t region_parts(const struct memory *m, const struct regions *of) {
    return of == &m->small ? REGION_PAGES : (REGION_SIZE - LINE) / m->segment_size;
}

static void spare_add(struct regions *of, struct region *r) {
    r->room_next = of->spare;
    of->spare = r;
    of->spares++;
}

static void *take_reserve(struct memory *m) {
    void **region = m->reserve;
    if (!region) return NULL;
    m->reserve = *region;
    m->reserves--;
    *region = NULL;
    return region;
}

/* Begins a region of this kind, as a spare one. False: no memory. */
static bool region_begin(struct memory *m, struct regions *of) {
    char *start = take_reserve(m); /* zero, as mapped memory is */
    bool small_paged = !start && m->huge && (m->in_slice || (of == &m->segments && of->all));
    m->hurried |= small_paged;
    if (!start) {
        start = map_region(m->huge && !small_paged);
        if (!start) return false;
        m->regions++;
    }
    bool pages = of == &m->small;
    struct region *r = pages ? region_of(start) : (struct region *)start;
    if (pages) r->free_pages = UINT32_MAX;
    else r->bump = (uintptr_t)start + LINE;
    r->small_paged = small_paged;
    m->small_paged += small_paged;
    r->next = of->all;
    if (of->all) of->all->prev = r;
    of->all = r;
    spare_add(of, r);
    return true;
}

/* The last of it was handed out: huge pages would not be given at a touch any more, but made of the small ones in the background. */
static void used_up(struct memory *m, struct regions *of, struct region *r) {
    room_remove(of, r);
    if (likely(!r->small_paged)) return;
    madvise(region_start(r), REGION_SIZE, MADV_HUGEPAGE);
    r->small_paged = false;
    m->small_paged--;
}

/* A region with room: a spare one, or a new one. NULL: no memory. */
static struct region *region_new(struct memory *m, struct regions *of) {
    if (!of->spare && !region_begin(m, of)) return NULL;
    struct region *r = of->spare;
    of->spare = r->room_next;
    of->spares--;
    of->left += region_parts(m, of);
    room_add(of, r);
    return r;
}

/* An empty region waits as a spare one: unmapping takes up to 100 us, and many may become empty at once. */
static void region_empty(struct memory *m, struct regions *of, struct region *r) {
    room_remove(of, r);
    of->left -= region_parts(m, of);
    spare_add(of, r);
}

/* The reserve is for growth. */
static bool too_many_reserves(const struct memory *m) { return m->rests && m->reserve; }

bool memory_wants_trim(const struct memory *m) {
    return m->small.spares > SPARES_KEPT || m->segments.spares > SPARES_KEPT || m->given_up || too_many_reserves(m);
}

void memory_give_up(struct memory *m, void *block, size_t size) { given_up_push(&m->given_up, block, size); }

void *memory_take_spare(struct memory *m, size_t *size) {
    if (m->given_up) return given_up_pop(&m->given_up, size);
    *size = REGION_SIZE;
    if (too_many_reserves(m)) {
        m->regions--;
        return take_reserve(m);
    }
    struct regions *of = m->small.spares > SPARES_KEPT ? &m->small : &m->segments;
    struct region *r = of->spare;
    assert(of->spares > SPARES_KEPT);
    of->spare = r->room_next;
    of->spares--;
    if (r->prev) r->prev->next = r->next;
    else of->all = r->next;
    if (r->next) r->next->prev = r->prev;
    m->small_paged -= r->small_paged;
    m->regions--;
    unpoison(region_start(r), REGION_SIZE);
    return region_start(r);
}

void memory_check_growth(struct memory *m) {
    m->rests = !m->grew;
    m->hurried &= m->grew;
    m->grew = false;
}

static void note_growth(struct memory *m) {
    m->grew = true;
    m->rests = false;
}

/* Kinds that nobody uses have no regions, and need none. */
static bool runs_out(const struct memory *m, const struct regions *of, unsigned quarters) {
    return of->all && !of->spare && of->left < region_parts(m, of) * quarters / 4;
}

bool memory_wants_region(const struct memory *m) {
    if (!m->huge || m->rests || m->reserves >= RESERVES) return false;
    if (m->reserves < m->regions / RESERVE_SHARE || (m->hurried && !m->reserves))
        return runs_out(m, &m->small, PREPARE_QUARTERS) || runs_out(m, &m->segments, PREPARE_QUARTERS);
    return !m->reserves && runs_out(m, &m->segments, SEGMENTS_QUARTERS);
}

bool memory_runs_short(const struct memory *m) {
    return m->huge && !m->reserve && !m->small.spare && m->small.all && m->small.left < SHORT_PAGES;
}

void memory_slice_begin(struct memory *m) { m->in_slice = true; }
void memory_slice_end(struct memory *m) { m->in_slice = false; }

void memory_give_region(struct memory *m, void *region) {
    *(void **)region = m->reserve;
    m->reserve = region;
    m->reserves++;
    m->regions++;
}

/* ---- pages ---- */

static void list_add(struct memory *m, struct page *p) {
    struct page **head = &m->classes[p->size / GRAIN].listed;
    p->prev = NULL;
    p->next = *head;
    if (*head) (*head)->prev = p;
    *head = p;
}

static void list_remove(struct memory *m, struct page *p) {
    if (p->prev) p->prev->next = p->next;
    else m->classes[p->size / GRAIN].listed = p->next;
    if (p->next) p->next->prev = p->prev;
}

static uintptr_t region_at(const struct page *p) { return (uintptr_t)p & ~(REGION_SIZE - 1); }
static uintptr_t page_number(const struct page *p) { return (uintptr_t)p / LINE % REGION_PAGES; }
static uintptr_t page_start(const struct page *p) { return region_at(p) + page_number(p) * PAGE_SIZE; }

/* The last page ends before the region's header. */
static uintptr_t page_end(const struct page *p) { return page_start(p) + PAGE_SIZE - (page_number(p) == REGION_PAGES - 1 ? LINE : 0); }

/* Whether the page has a block to hand out; the first one goes on behind the headers when what lies before them is carved. */
static bool page_has_room(struct page *p) {
    if (p->free || p->bump + p->size <= p->limit) return true;
    if (p->last) return false;
    p->last = true;
    p->bump = (uintptr_t)p + HEADERS_SIZE;
    p->limit = page_end(p);
    return p->bump + p->size <= p->limit;
}

/* In no list until memory_free has filled 1/64 of it. */
static void set_full(struct page *p) { p->floor = p->used - (p->used >= 64 ? p->used / 64 : 1); }

/* A free page for blocks of this size, in no list. NULL: no memory. */
static struct page *page_new(struct memory *m, size_t size) {
    struct region *r = m->small.room;
    if (!r && !(r = region_new(m, &m->small))) return NULL;
    unsigned i = (unsigned)__builtin_ctz(r->free_pages);
    r->free_pages &= r->free_pages - 1;
    if (!r->free_pages) used_up(m, &m->small, r);
    struct page *p = header_of((uintptr_t)region_start(r) + i * PAGE_SIZE);
    *p = (struct page){.size = (uint16_t)size, .last = i > 0};
    p->bump = page_start(p);
    p->limit = i ? page_end(p) : (uintptr_t)p;
    poison((void *)p->bump, p->limit - p->bump);
    if (!i) poison((char *)p + HEADERS_SIZE, page_end(p) - (uintptr_t)p - HEADERS_SIZE);
    m->pages++;
    m->small.left--;
    note_growth(m);
    return p;
}

static void page_free(struct memory *m, struct page *p) {
    struct region *r = region_of(p);
    if (!r->free_pages) room_add(&m->small, r);
    r->free_pages |= 1u << page_number(p);
    m->pages--;
    m->small.left++;
    if (r->free_pages == UINT32_MAX) region_empty(m, &m->small, r);
}

/* What memory_free found: the page is empty, or it was full and has enough room again. */
static void page_event(struct memory *m, struct page *p) {
    if (p->floor) {
        p->floor = 0;
        list_add(m, p);
        if (p->used) return;
    }
    if (m->classes[p->size / GRAIN].current == p) m->classes[p->size / GRAIN].current = (struct page *)&no_page;
    else list_remove(m, p);
    page_free(m, p);
}

/* While a failure is awaited no page stays current, so that every allocation comes by alloc_slow and is counted. */
static void hold_current(struct memory *m, size_t class) {
    struct page *p = m->classes[class].current;
    if (p == &no_page) return;
    m->classes[class].current = (struct page *)&no_page;
    if (page_has_room(p)) list_add(m, p);
    else set_full(p);
}

/* True once: this is the allocation that memory_fail_after meant. */
static bool fails(struct memory *m) { return m->fail_after && !--m->fail_after; }

/* Where memory_alloc goes when the current page has nothing, when the block is large, and for every block while a failure is awaited. */
static void *alloc_slow(struct memory *m, size_t size) {
    assert(size);
    bool counting = m->fail_after;
    if (fails(m)) return NULL;
    if (size > MEMORY_SMALL_MAX) {
        void *block = alloc_aligned(size);
        if (block) memory_charge(m, (ptrdiff_t)mi_good_size(size));
        return block;
    }
    size_t class = class_of(size < BLOCK_MIN ? BLOCK_MIN : size);
    struct page *p = m->classes[class].current;
    if (p != &no_page && !page_has_room(p)) {
        set_full(p);
        p = m->classes[class].current = (struct page *)&no_page;
    }
    if (p == &no_page) {
        p = m->classes[class].listed;
        if (p) list_remove(m, p);
        else if (!(p = page_new(m, class * GRAIN))) return NULL;
        page_has_room(p);
        m->classes[class].current = p;
    }
    void *block = take(m, p, class * GRAIN);
    if (counting) hold_current(m, class);
    return block;
}

void memory_fail_after(struct memory *m, uint64_t nth) {
    m->fail_after = nth;
    for (size_t class = 1; class < CLASSES; class ++) hold_current(m, class);
}

/* ---- segments ---- */

void *memory_alloc_segment(struct memory *m, size_t size) {
    assert(size % LINE == 0 && (!m->segment_size || m->segment_size == size));
    m->segment_size = size;
    if (fails(m)) return NULL;
    struct region *r = m->segments.room;
    if (!r && !(r = region_new(m, &m->segments))) return NULL;
    void *segment = r->free;
    if (segment) {
        unpoison(segment, size);
        r->free = *(void **)segment;
    } else {
        segment = (void *)r->bump;
        r->bump += size;
    }
    r->used++;
    m->segments.left--;
    note_growth(m);
    if (!r->free && r->bump + size > (uintptr_t)region_start(r) + REGION_SIZE) used_up(m, &m->segments, r);
    m->account.used += size;
    return segment;
}

void memory_free_segment(struct memory *m, void *segment, size_t size) {
    struct region *r = (struct region *)((uintptr_t)segment & ~(REGION_SIZE - 1));
    if (!r->free && r->bump + size > (uintptr_t)r + REGION_SIZE) room_add(&m->segments, r);
    note_peak(m);
    m->account.used -= size;
    *(void **)segment = r->free;
    r->free = segment;
    poison(segment, size);
    m->segments.left++;
    if (!--r->used) region_empty(m, &m->segments, r);
}

/* ---- the whole ---- */

struct memory *memory_new(bool huge) {
    struct memory *m = alloc_aligned(sizeof *m);
    if (!m) return NULL;
    *m = (struct memory){.huge = huge};
    for (size_t class = 0; class < CLASSES; class ++) m->classes[class].current = (struct page *)&no_page;
    return m;
}

static void regions_drop(struct regions *of) {
    for (struct region *r = of->all, *next; r; r = next) {
        next = r->next;
        unmap_region(r);
    }
}

void memory_drop(struct memory *m) {
    if (!m) return;
    regions_drop(&m->small);
    regions_drop(&m->segments);
    for (void *region; (region = take_reserve(m));) munmap(region, REGION_SIZE);
    given_up_drop(&m->given_up);
    mi_free(m);
}

void memory_charge(struct memory *m, ptrdiff_t bytes) {
    note_peak(m);
    m->account.used += (size_t)bytes;
    m->used_large += (size_t)bytes;
}

void memory_stats(const struct memory *m, struct memory_stats *out) {
    *out = (struct memory_stats){
        .used = m->account.used,
        .used_large = m->used_large,
        .reserved = m->regions * REGION_SIZE,
        .pages = m->pages,
        .regions = m->regions,
        .small_paged = m->small_paged,
        .peak = m->account.used > m->peak ? m->account.used : m->peak,
    };
}
