#include "shard/fieldmap.h"

#include <errno.h>

#include "shard/memory.h"

/* A page is split when the pages have more items or bytes than this in the mean, and joined when they have less than that. */
#define MEAN_ITEMS 12u
#define MEAN_BYTES 224u
#define JOIN_ITEMS 4u
#define JOIN_BYTES 80u
#define FIRST_CHUNK 8u
/* A copy brings the page of so many buckets further on its way. What a bucket costs, in bytes that are copied meanwhile. */
#define COPY_AHEAD 8u
#define PLACE_COST 8

static uint32_t places(const struct fieldmap *x, uint32_t chunk) { return chunk ? FIELDMAP_CHUNK : x->first_room; }
/* Of its places, and of their times. */
static size_t chunk_bytes(const struct fieldmap *x, uint32_t chunk) { return places(x, chunk) * sizeof(struct page *); }
_Static_assert(sizeof(struct page *) == sizeof(int64_t), "a place is as large as its time");

struct fieldmap *fieldmap_new(struct memory *m) {
    struct fieldmap *x = memory_alloc(m, sizeof *x);
    if (!x) return NULL;
    *x = (struct fieldmap){.memory = memory_usable(sizeof *x), .chunks_room = 1, .n_chunks = 1, .first_room = FIRST_CHUNK, .buckets = 1};
    x->chunks = memory_alloc(m, sizeof *x->chunks);
    if (x->chunks) x->chunks[0] = memory_alloc(m, chunk_bytes(x, 0));
    if (!x->chunks || !x->chunks[0]) {
        if (x->chunks) memory_free(m, x->chunks, sizeof *x->chunks);
        memory_free(m, x, sizeof *x);
        return NULL;
    }
    x->chunks[0][0] = NULL;
    x->memory += memory_usable(sizeof *x->chunks) + memory_usable(chunk_bytes(x, 0));
    return x;
}

uint64_t fieldmap_hash(const struct hash_secret *secret, const uint8_t *name) {
    char scratch[INT64_TEXT_SIZE];
    uint32_t size;
    const char *text = packed_text(name, scratch, &size);
    return hash_key(secret, text, size);
}

void fieldmap_drop_items(struct memory *m, struct page *p) {
    uint8_t *item = p ? page_item(p, 0) : NULL;
    for (uint32_t i = 0; p && i < p->n; item += page_item_size(p, i++)) {
        uint32_t name = packed_size(item);
        packed_drop(m, item);
        if (name < page_item_size(p, i)) packed_drop(m, item + name);
    }
}

/* --- times --- */

/* The arrays by chunk, in one block. */
static size_t times_bytes(const struct fieldmap *x) { return x->chunks_room * (sizeof *x->chunk_times + sizeof *x->page_times); }

static void lay_times(struct fieldmap *x, void *block, uint32_t room) {
    x->chunk_times = block;
    x->page_times = (int64_t **)((int64_t *)block + room);
}

int fieldmap_time_room(struct memory *m, struct fieldmap *x, uint64_t bucket) {
    uint32_t chunk = (uint32_t)(bucket / FIELDMAP_CHUNK);
    if (!x->chunk_times) {
        void *block = memory_alloc(m, times_bytes(x));
        if (!block) return -ENOMEM;
        lay_times(x, block, x->chunks_room);
        for (uint32_t i = 0; i < x->chunks_room; i++) {
            x->chunk_times[i] = PAGE_NEVER;
            x->page_times[i] = NULL;
        }
        x->memory += memory_usable(times_bytes(x));
    }
    if (x->page_times[chunk]) return 0;
    int64_t *times = memory_alloc(m, chunk_bytes(x, chunk));
    if (!times) return -ENOMEM;
    for (uint32_t i = 0; i < places(x, chunk); i++) times[i] = PAGE_NEVER;
    x->page_times[chunk] = times;
    x->memory += memory_usable(chunk_bytes(x, chunk));
    return 0;
}

static int64_t first_of(const int64_t *times, uint32_t n) {
    int64_t first = PAGE_NEVER;
    for (uint32_t i = 0; i < n; i++) first = times[i] < first ? times[i] : first;
    return first;
}

static void write_time(struct fieldmap *x, uint64_t bucket, int64_t at) {
    uint32_t chunk = (uint32_t)(bucket / FIELDMAP_CHUNK);
    int64_t *times = x->page_times[chunk], *place = times ? &times[bucket % FIELDMAP_CHUNK] : NULL;
    if (!times || *place == at) return;
    bool was_first = *place == x->chunk_times[chunk];
    *place = at;
    if (at < x->chunk_times[chunk]) x->chunk_times[chunk] = at;
    else if (was_first) x->chunk_times[chunk] = first_of(times, places(x, chunk));
}

void fieldmap_time_changed(struct fieldmap *x, uint64_t bucket) {
    if (x->chunk_times) write_time(x, bucket, page_first_time(*fieldmap_place(x, bucket)));
}

int64_t fieldmap_first_time(const struct fieldmap *x, uint64_t *bucket) {
    int64_t first = PAGE_NEVER;
    for (uint32_t chunk = 0; x->chunk_times && chunk < x->n_chunks; chunk++) {
        if (x->chunk_times[chunk] >= first) continue;
        first = x->chunk_times[chunk];
        *bucket = chunk * (uint64_t)FIELDMAP_CHUNK;
    }
    if (first == PAGE_NEVER) return first;
    for (const int64_t *times = x->page_times[*bucket / FIELDMAP_CHUNK]; *times != first; times++) ++*bucket;
    return first;
}

static void free_page_times(struct memory *m, struct fieldmap *x, uint32_t chunk) {
    if (!x->chunk_times || !x->page_times[chunk]) return;
    memory_free(m, x->page_times[chunk], chunk_bytes(x, chunk));
    x->memory -= memory_usable(chunk_bytes(x, chunk));
    x->page_times[chunk] = NULL;
    x->chunk_times[chunk] = PAGE_NEVER;
}

/* --- growing --- */

/* memory_alloc of another block with the old one's bytes; the old one is freed. */
static void *move_block(struct memory *m, struct fieldmap *x, void *block, size_t old, size_t size) {
    void *to = memory_alloc(m, size);
    if (!to) return NULL;
    memcpy(to, block, old);
    memory_free(m, block, old);
    x->memory += memory_usable(size) - memory_usable(old);
    return to;
}

static bool grow_first_chunk(struct memory *m, struct fieldmap *x) {
    size_t old = chunk_bytes(x, 0);
    int64_t *times = x->chunk_times ? x->page_times[0] : NULL, *more = times ? memory_alloc(m, 2 * old) : NULL;
    if (times && !more) return false;
    struct page **to = move_block(m, x, x->chunks[0], old, 2 * old);
    if (!to) {
        if (more) memory_free(m, more, 2 * old);
        return false;
    }
    x->chunks[0] = to;
    if (times) {
        memcpy(more, times, old);
        for (uint32_t i = x->first_room; i < 2 * x->first_room; i++) more[i] = PAGE_NEVER;
        memory_free(m, times, old);
        x->page_times[0] = more;
        x->memory += memory_usable(2 * old) - memory_usable(old);
    }
    x->first_room *= 2;
    return true;
}

/* Room for twice as many chunks. */
static bool grow_chunks(struct memory *m, struct fieldmap *x) {
    uint32_t room = x->chunks_room;
    size_t old = room * sizeof *x->chunks, old_times = times_bytes(x);
    void *times = x->chunk_times ? memory_alloc(m, 2 * old_times) : NULL;
    if (x->chunk_times && !times) return false;
    struct page ***to = move_block(m, x, x->chunks, old, 2 * old);
    if (!to) {
        if (times) memory_free(m, times, 2 * old_times);
        return false;
    }
    x->chunks = to;
    x->chunks_room = 2 * room;
    if (!times) return true;
    const struct fieldmap was = *x;
    lay_times(x, times, 2 * room);
    memcpy(x->chunk_times, was.chunk_times, room * sizeof *x->chunk_times);
    memcpy(x->page_times, was.page_times, room * sizeof *x->page_times);
    for (uint32_t i = room; i < 2 * room; i++) {
        x->chunk_times[i] = PAGE_NEVER;
        x->page_times[i] = NULL;
    }
    memory_free(m, was.chunk_times, old_times);
    x->memory += memory_usable(2 * old_times) - memory_usable(old_times);
    return true;
}

static bool add_chunk(struct memory *m, struct fieldmap *x) {
    if (x->n_chunks == x->chunks_room && !grow_chunks(m, x)) return false;
    struct page **chunk = memory_alloc(m, chunk_bytes(x, 1));
    if (!chunk) return false;
    x->memory += memory_usable(chunk_bytes(x, 1));
    x->chunks[x->n_chunks++] = chunk;
    return true;
}

/* Room for the place of the next bucket. */
static bool make_place(struct memory *m, struct fieldmap *x) {
    if (x->buckets < x->first_room) return true;
    if (x->first_room < FIELDMAP_CHUNK) return grow_first_chunk(m, x);
    return x->buckets < (uint64_t)x->n_chunks * FIELDMAP_CHUNK || add_chunk(m, x);
}

/* Marks what goes to the new bucket; how many. */
static uint32_t mark(const struct fieldmap *x, struct page *p, const struct hash_secret *secret, bool *goes) {
    uint32_t n = 0;
    const uint8_t *item = page_item(p, 0);
    for (uint32_t i = 0; i < p->n; item += page_item_size(p, i++))
        n += goes[i] = fieldmap_bucket_hash(fieldmap_hash(secret, item)) >> x->level & 1;
    return n;
}

static bool split(struct memory *m, struct fieldmap *x, const struct hash_secret *secret) {
    bool goes[PAGE_ITEMS_MAX];
    if (!make_place(m, x)) return false;
    struct page **from = fieldmap_place(x, x->buckets - ((uint64_t)1 << x->level)), **to = fieldmap_place(x, x->buckets);
    size_t before = page_memory(*from);
    uint32_t n = *from ? mark(x, *from, secret, goes) : 0;
    if (n && x->chunk_times && page_first_time(*from) != PAGE_NEVER && fieldmap_time_room(m, x, x->buckets)) return false;
    *to = NULL;
    if (n && n == (*from)->n) {
        *to = *from;
        *from = NULL;
    } else if (n && !(*to = page_part(m, from, goes))) {
        return false;
    }
    x->memory += page_memory(*from) + page_memory(*to) - before;
    if (x->chunk_times) {
        fieldmap_time_changed(x, x->buckets - ((uint64_t)1 << x->level));
        fieldmap_time_changed(x, x->buckets);
    }
    if (++x->buckets == (uint64_t)2 << x->level) x->level++;
    return true;
}

void fieldmap_grow(struct memory *m, struct fieldmap *x, const struct hash_secret *secret) {
    while (x->n > x->buckets * MEAN_ITEMS || x->used > x->buckets * MEAN_BYTES)
        if (x->buckets >= x->n || !split(m, x, secret)) return;
}

/* Items of any size that a page has room for. */
#define PAGE_FULL (PAGE_BYTES_MAX / PAGE_ITEM_MAX)
/* Places are made for more items than there are up to here: enough for what comes in the order of 100 million others. */
#define FORCED_BUCKETS ((uint64_t)1 << 20)

int fieldmap_make_room(struct memory *m, struct fieldmap *x, const struct hash_secret *secret, uint64_t hash) {
    for (const struct page *p; (p = *fieldmap_page(x, hash)) && p->n >= PAGE_FULL;)
        if (x->buckets >= FORCED_BUCKETS + x->n || !split(m, x, secret)) return -ENOMEM;
    return 0;
}

/* --- shrinking --- */

static void free_last_chunk(struct memory *m, struct fieldmap *x) {
    free_page_times(m, x, x->n_chunks - 1);
    memory_free(m, x->chunks[--x->n_chunks], chunk_bytes(x, 1));
    x->memory -= memory_usable(chunk_bytes(x, 1));
}

static bool join(struct memory *m, struct fieldmap *x) {
    uint64_t last = x->buckets - 1, half = (uint64_t)1 << (last >> x->level ? x->level : x->level - 1);
    struct page **from = fieldmap_place(x, last), **to = fieldmap_place(x, last - half);
    size_t before = page_memory(*from) + page_memory(*to);
    if (x->chunk_times && page_first_time(*from) != PAGE_NEVER && fieldmap_time_room(m, x, last - half)) return false;
    if (!*to) *to = *from;
    else if (*from && !page_join(m, to, *from)) return false;
    x->memory += page_memory(*to) - before;
    if (x->chunk_times) {
        write_time(x, last, PAGE_NEVER);
        fieldmap_time_changed(x, last - half);
    }
    if (*to && (*to)->n > x->most) x->most = (*to)->n;
    if (x->buckets == (uint64_t)1 << x->level) x->level--;
    x->buckets--;
    if (x->n_chunks > 1 && x->buckets + FIELDMAP_CHUNK / 2 <= (uint64_t)(x->n_chunks - 1) * FIELDMAP_CHUNK) free_last_chunk(m, x);
    return true;
}

void fieldmap_shrink(struct memory *m, struct fieldmap *x) {
    for (unsigned i = 0; i < 2 && x->buckets > 1; i++)
        if (x->n >= x->buckets * JOIN_ITEMS || x->used >= x->buckets * JOIN_BYTES || !join(m, x)) return;
}

/* --- copying --- */

/* The next chunk of a copy, and the times of its pages. False: no memory. */
static bool copy_chunk(struct memory *m, struct fieldmap *x, const struct fieldmap *from) {
    uint32_t chunk = x->n_chunks;
    struct page **to = memory_alloc(m, chunk_bytes(x, chunk));
    if (!to) return false;
    x->chunks[x->n_chunks++] = to;
    x->memory += memory_usable(chunk_bytes(x, chunk));
    if (!from->chunk_times || !from->page_times[chunk]) return true;
    if (fieldmap_time_room(m, x, (uint64_t)chunk * FIELDMAP_CHUNK)) return false;
    memcpy(x->page_times[chunk], from->page_times[chunk], chunk_bytes(x, chunk));
    x->chunk_times[chunk] = from->chunk_times[chunk];
    return true;
}

struct fieldmap *fieldmap_copy(struct memory *m, const struct fieldmap *from) {
    struct fieldmap *x = memory_alloc(m, sizeof *x);
    if (!x) return NULL;
    *x = *from;
    x->memory = memory_usable(sizeof *x);
    x->buckets = x->n_chunks = 0;
    x->chunk_times = NULL;
    x->page_times = NULL;
    x->chunks = memory_alloc(m, x->chunks_room * sizeof *x->chunks);
    if (x->chunks) x->memory += memory_usable(x->chunks_room * sizeof *x->chunks);
    if (x->chunks && copy_chunk(m, x, from)) return x;
    if (x->n_chunks) fieldmap_free_some(m, x, 0);
    else {
        if (x->chunks) memory_free(m, x->chunks, x->chunks_room * sizeof *x->chunks);
        memory_free(m, x, sizeof *x);
    }
    return NULL;
}

/* The page of the last bucket of a copy; its first part, or the next. */
static int copy_page(struct memory *m, struct fieldmap *to, const struct fieldmap *from, struct packed_copying *c) {
    uint64_t b = to->buckets - 1;
    int more = page_copy_some(m, fieldmap_place(to, b), *fieldmap_place(from, b), c);
    to->memory += c->memory;
    c->memory = 0;
    return more;
}

int fieldmap_copy_some(struct memory *m, struct fieldmap *to, const struct fieldmap *from, struct packed_copying *c) {
    int more = c->inside ? copy_page(m, to, from, c) : 0;
    for (; !more && to->buckets < from->buckets;) {
        uint64_t b = to->buckets;
        if (c->cost <= 0) return 1;
        c->cost -= PLACE_COST;
        if (b == (uint64_t)to->n_chunks * FIELDMAP_CHUNK && !copy_chunk(m, to, from)) return -ENOMEM;
        if (b + COPY_AHEAD < from->buckets) __builtin_prefetch(*fieldmap_place(from, b + COPY_AHEAD));
        *fieldmap_place(to, b) = NULL;
        to->buckets++;
        if (*fieldmap_place(from, b)) more = copy_page(m, to, from, c);
    }
    return more;
}

/* --- walking, freeing --- */

static uint64_t reverse(uint64_t v) {
    v = (v >> 1 & 0x5555555555555555ull) | (v & 0x5555555555555555ull) << 1;
    v = (v >> 2 & 0x3333333333333333ull) | (v & 0x3333333333333333ull) << 2;
    v = (v >> 4 & 0x0f0f0f0f0f0f0f0full) | (v & 0x0f0f0f0f0f0f0f0full) << 4;
    return __builtin_bswap64(v);
}

uint64_t fieldmap_walk(const struct fieldmap *x, uint64_t *cursor) {
    uint64_t half = (uint64_t)1 << x->level, mask = 2 * half - 1, b = *cursor & mask;
    if (b >= x->buckets) b &= mask >> 1;
    if (b >= x->buckets - half && b < half) mask >>= 1; /* not split yet */
    *cursor = reverse(reverse(*cursor | ~mask) + 1);
    return b;
}

bool fieldmap_free_some(struct memory *m, struct fieldmap *x, uint32_t pages) {
    for (; x->buckets; x->buckets--) {
        if (!pages--) return true;
        if (x->buckets >= 8) __builtin_prefetch(*fieldmap_place(x, x->buckets - 8));
        struct page *p = *fieldmap_place(x, x->buckets - 1);
        fieldmap_drop_items(m, p);
        page_free(m, p);
        while (x->n_chunks > 1 && x->n_chunks > (x->buckets - 1 + FIELDMAP_CHUNK - 1) / FIELDMAP_CHUNK) free_last_chunk(m, x);
    }
    while (x->n_chunks > 1) free_last_chunk(m, x);
    free_page_times(m, x, 0);
    if (x->chunk_times) memory_free(m, x->chunk_times, times_bytes(x));
    memory_free(m, x->chunks[0], chunk_bytes(x, 0));
    memory_free(m, x->chunks, x->chunks_room * sizeof *x->chunks);
    memory_free(m, x, sizeof *x);
    return false;
}
