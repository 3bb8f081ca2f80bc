#include "shard/page.h"

#include <errno.h>

#include "shard/memory.h"
#include "shard/page_match.h"

/* There is room for a multiple of so many pairs. Behind them and their items the block is long enough for what pairs_read reads: the items take at least a byte each,
 * and a block is a multiple of 8 bytes. */
#define ROOM_STEP 4u

static struct pairs pairs_at(const struct page *p, uint32_t index) { return pairs_read(p->bytes + 2 * index); }

bool page_find(const struct page *p, uint8_t fingerprint, const struct packed *name, struct page_at *at) {
    struct pairs_wanted wanted = pairs_want(fingerprint);
    struct pairs_sum before = pairs_sum_none();
    if (!p) return false;
    for (uint32_t i = 0; i < p->n; i += PAIRS_AT_ONCE) {
        struct pairs x = pairs_at(p, i);
        for (uint64_t found = pairs_match(x, wanted); found; found &= found - 1) {
            unsigned lane = (unsigned)__builtin_ctzll(found) / PAIR_BITS;
            if (i + lane >= p->n) return false;
            uint32_t offset = pairs_total(pairs_add(before, pairs_before(x, lane)));
            if (!packed_equal(name, page_item((struct page *)(uintptr_t)p, offset))) continue;
            *at = (struct page_at){i + lane, offset};
            return true;
        }
        before = pairs_add(before, x);
    }
    return false;
}

bool page_find_fingerprint(const struct page *p, uint8_t fingerprint, uint32_t from, struct page_at *at, bool *more) {
    struct pairs_wanted wanted = pairs_want(fingerprint);
    struct pairs_sum before = pairs_sum_none();
    bool found = false;
    *more = false;
    for (uint32_t i = 0; i < p->n; i += PAIRS_AT_ONCE) {
        struct pairs x = pairs_at(p, i);
        for (uint64_t left = pairs_match(x, wanted); left; left &= left - 1) {
            unsigned lane = (unsigned)__builtin_ctzll(left) / PAIR_BITS;
            if (i + lane < from) continue;
            if (i + lane >= p->n) break;
            if (found) {
                *more = true;
                return true;
            }
            *at = (struct page_at){i + lane, pairs_total(pairs_add(before, pairs_before(x, lane)))};
            found = true;
        }
        before = pairs_add(before, x);
    }
    return found;
}

struct page_at page_nth(const struct page *p, uint32_t index) {
    struct pairs_sum before = pairs_sum_none();
    uint32_t i = 0;
    for (; i + PAIRS_AT_ONCE <= index; i += PAIRS_AT_ONCE) before = pairs_add(before, pairs_at(p, i));
    if (i < index) before = pairs_add(before, pairs_before(pairs_at(p, i), index - i));
    return (struct page_at){index, pairs_total(before)};
}

static int64_t item_time(const uint8_t *item, uint32_t size) {
    uint32_t texts = packed_size(item);
    int64_t at;
    if (texts < size) texts += packed_size(item + texts);
    if (texts == size) return PAGE_NEVER;
    memcpy(&at, item + texts, sizeof at);
    return at;
}

int64_t page_first_time(const struct page *p) {
    int64_t first = PAGE_NEVER;
    const uint8_t *item = p ? page_item((struct page *)(uintptr_t)p, 0) : NULL;
    for (uint32_t i = 0; p && i < p->n; item += page_item_size(p, i++)) {
        int64_t at = item_time(item, page_item_size(p, i));
        if (at < first) first = at;
    }
    return first;
}

/* --- blocks --- */

/* The block's size for so many bytes: steps of about a sixteenth, so that a page that grows is not copied at each item. */
static size_t round_block(size_t bytes) {
    size_t step = 8;
    while (step < 256 && bytes > 16 * step) step *= 2;
    return (bytes + step - 1) & ~(step - 1);
}

static uint32_t room_for(uint32_t n) { return (n + ROOM_STEP - 1) & ~(ROOM_STEP - 1); }

/* All that the block will really have. */
static size_t block_for(uint32_t room, uint32_t used) { return memory_usable(round_block(sizeof(struct page) + 2u * room + used)); }

static bool has_room(const struct page *p, uint32_t room, uint32_t used) {
    return p && room == p->room && sizeof(struct page) + 2u * room + used <= 8u * p->block;
}

/* The page in a block of another size, with room for so many pairs and bytes. NULL: no memory, nothing changed. */
static struct page *move_page(struct memory *m, struct page *p, uint32_t room, uint32_t used) {
    size_t block = block_for(room, used);
    struct page *to = memory_alloc(m, block);
    if (!to) return NULL;
    *to = (struct page){.room = (uint8_t)room, .block = (uint16_t)(block / 8)};
    uint32_t kept = 0;
    if (p) {
        to->n = p->n;
        to->flags = p->flags;
        to->used = p->used;
        kept = 2u * p->n;
        memcpy(to->bytes, p->bytes, kept);
        memcpy(page_item(to, 0), page_item(p, 0), p->used < used ? p->used : used);
        memory_free(m, p, 8u * p->block);
    }
    memset(to->bytes + kept, 0, 2u * room - kept);
    return to;
}

size_t page_needs(const struct page *p, uint32_t more) {
    uint32_t n = p ? p->n : 0, used = p ? p->used : 0;
    return block_for(room_for(n + 1), used + more) + (p ? 0 : 8);
}

uint8_t *page_add(struct memory *m, struct page **at, uint8_t fingerprint, uint32_t size) {
    struct page *p = *at;
    uint32_t n = p ? p->n : 0, used = (p ? p->used : 0) + size, room = p && n < p->room ? p->room : room_for(n + 1);
    if (n == PAGE_ITEMS_MAX || used > PAGE_BYTES_MAX) return NULL;
    if (!has_room(p, room, used)) {
        p = move_page(m, p, room, used);
        if (!p) return NULL;
        *at = p;
    }
    uint8_t *item = page_item(p, p->used);
    p->bytes[2 * n] = fingerprint;
    p->bytes[2 * n + 1] = (uint8_t)size;
    p->n++;
    p->used = (uint16_t)used;
    return item;
}

uint8_t *page_insert(struct memory *m, struct page **page, struct page_at at, uint8_t fingerprint, uint32_t size) {
    uint8_t *item = page_add(m, page, fingerprint, size);
    if (!item) return NULL;
    struct page *p = *page;
    return page_move(p, (struct page_at){p->n - 1u, p->used - size}, at);
}

uint8_t *page_move(struct page *p, struct page_at from, struct page_at to) {
    uint8_t kept[PAGE_ITEM_MAX], pair[2], *pairs = p->bytes, *item = page_item(p, from.offset);
    uint32_t size = page_item_size(p, from.index), end = to.offset + page_item_size(p, to.index);
    memcpy(kept, item, size);
    memcpy(pair, pairs + 2 * from.index, 2);
    if (from.index < to.index) {
        memmove(item, item + size, end - from.offset - size);
        memmove(pairs + 2 * from.index, pairs + 2 * from.index + 2, 2 * (to.index - from.index));
        item = page_item(p, end - size);
    } else {
        item = page_item(p, to.offset);
        memmove(item + size, item, from.offset - to.offset);
        memmove(pairs + 2 * to.index + 2, pairs + 2 * to.index, 2 * (from.index - to.index));
    }
    memcpy(item, kept, size);
    memcpy(pairs + 2 * to.index, pair, 2);
    return item;
}

uint8_t *page_resize(struct memory *m, struct page **page, struct page_at at, uint32_t size) {
    struct page *p = *page;
    uint32_t old = page_item_size(p, at.index), used = p->used - old + size;
    if (size == old) return page_item(p, at.offset);
    if (used > PAGE_BYTES_MAX) return NULL;
    uint32_t behind = p->used - at.offset - old;
    if (!has_room(p, p->room, used)) {
        p = move_page(m, p, p->room, used > p->used ? used : p->used);
        if (!p) return NULL;
        *page = p;
    }
    uint8_t *item = page_item(p, at.offset);
    memmove(item + size, item + old, behind);
    p->bytes[2 * at.index + 1] = (uint8_t)size;
    p->used = (uint16_t)used;
    return item;
}

/* After items went: into a smaller block if that is worth it. Without memory it stays where it is. */
static void trim(struct memory *m, struct page **p) {
    size_t now = page_memory(*p);
    if (block_for(room_for((*p)->n), (*p)->used) > now - now / 4) return;
    struct page *to = move_page(m, *p, room_for((*p)->n), (*p)->used);
    if (to) *p = to;
}

void page_remove(struct memory *m, struct page **page, struct page_at at) {
    struct page *p = *page;
    uint32_t size = page_item_size(p, at.index);
    if (p->n == 1) {
        page_free(m, p);
        *page = NULL;
        return;
    }
    uint8_t *item = page_item(p, at.offset), *pair = p->bytes + 2 * at.index;
    memmove(item, item + size, p->used - at.offset - size);
    memmove(pair, pair + 2, 2u * (p->n - at.index - 1u));
    p->n--;
    p->bytes[2 * p->n] = p->bytes[2 * p->n + 1] = 0;
    p->used = (uint16_t)(p->used - size);
    trim(m, page);
}

struct page *page_part(struct memory *m, struct page **from, const bool *goes) {
    struct page *p = *from, *to;
    uint32_t n = 0, bytes = 0, offset = 0, kept = 0, kept_bytes = 0;
    for (uint32_t i = 0; i < p->n; i++) {
        n += goes[i];
        bytes += goes[i] ? page_item_size(p, i) : 0;
    }
    to = move_page(m, NULL, room_for(n), bytes);
    if (!to) return NULL;
    for (uint32_t i = 0, size; i < p->n; i++, offset += size) {
        size = page_item_size(p, i);
        if (goes[i]) {
            memcpy(page_add(m, &to, page_fingerprint(p, i), size), page_item(p, offset), size);
            continue;
        }
        memmove(page_item(p, kept_bytes), page_item(p, offset), size);
        memmove(p->bytes + 2 * kept++, p->bytes + 2 * i, 2);
        kept_bytes += size;
    }
    memset(p->bytes + 2 * kept, 0, 2u * (p->n - kept));
    p->n = (uint8_t)kept;
    p->used = (uint16_t)kept_bytes;
    trim(m, from);
    return to;
}

bool page_join(struct memory *m, struct page **at, struct page *from) {
    struct page *p = *at;
    uint32_t n = p->n + (uint32_t)from->n, used = p->used + (uint32_t)from->used;
    if (n > PAGE_ITEMS_MAX || used > PAGE_BYTES_MAX) return false;
    p = move_page(m, p, room_for(n), used);
    if (!p) return false;
    memcpy(p->bytes + 2 * p->n, from->bytes, 2u * from->n);
    memcpy(page_item(p, p->used), page_item(from, 0), from->used);
    p->n = (uint8_t)n;
    p->used = (uint16_t)used;
    *at = p;
    page_free(m, from);
    return true;
}

void page_free(struct memory *m, struct page *p) {
    if (p) memory_free(m, p, 8u * p->block);
}

/* --- copying --- */

/* The packed strings of an item: its name, and its value if it has one (else NULL). */
static uint8_t *value_of(struct page *p, uint32_t index, uint8_t *item) {
    uint32_t name = packed_size(item);
    return name < page_item_size(p, index) ? item + name : NULL;
}

static bool forget(uint8_t *at) {
    if (!at || *at != PACKED_FAR) return false;
    packed_forget(at);
    return true;
}

/* The copy of the block. *far: its items refer to something. */
static struct page *copy_block(struct memory *m, const struct page *p, bool *far) {
    struct page *to = memory_alloc(m, 8u * p->block);
    if (!to) return NULL;
    memcpy(to, p, sizeof *p + 2u * p->room + p->used);
    uint8_t *item = page_item(to, 0);
    *far = false;
    for (uint32_t i = 0; i < to->n; item += page_item_size(to, i++)) {
        *far |= forget(item);
        *far |= forget(value_of(to, i, item));
    }
    return to;
}

/* Of the string at this offset from the first item. */
static int copy_string(struct memory *m, struct page *to, const struct page *from, uint32_t offset, struct packed_copying *c) {
    uint8_t *at = page_item(to, offset);
    if (*at != PACKED_FAR || offset < c->at) return 0;
    c->at = offset;
    if (c->cost <= 0) return 1;
    int more = packed_copy_far(m, at, page_item((struct page *)(uintptr_t)from, offset), c);
    if (!more) c->at = offset + PACKED_FAR_SIZE;
    return more;
}

static int copy_items(struct memory *m, struct page *to, const struct page *from, struct packed_copying *c) {
    for (uint32_t i = 0, offset = 0; i < to->n; offset += page_item_size(to, i++)) {
        uint32_t name = packed_size(page_item(to, offset));
        int more = copy_string(m, to, from, offset, c);
        if (!more && name < page_item_size(to, i)) more = copy_string(m, to, from, offset + name, c);
        if (more) return more;
    }
    return 0;
}

/* What a page costs, in bytes that are copied meanwhile. */
#define PAGE_COST 256

int page_copy_some(struct memory *m, struct page **to, const struct page *from, struct packed_copying *c) {
    if (!c->inside) {
        *to = copy_block(m, from, &c->inside);
        if (!*to) return -ENOMEM;
        c->at = 0;
        c->memory += page_memory(*to);
        c->cost -= PAGE_COST + from->used;
    }
    int more = c->inside ? copy_items(m, *to, from, c) : 0;
    c->inside = more;
    return more;
}
