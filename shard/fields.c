#include "shard/fields.h"

#include <assert.h>
#include <errno.h>

#include "shard/memory.h"

#define LINE 64u
/* Of a page, these many bytes are prefetched. */
#define PREFETCH_BYTES 256u
#define TIME_SIZE 8u

size_t fields_memory(const struct fields *f) {
    if (f->map) return f->map->memory;
    size_t bytes = page_memory(f->page);
    const uint8_t *item = f->page ? page_item(f->page, 0) : NULL;
    for (uint32_t i = 0; f->page && i < f->page->n; item += page_item_size(f->page, i++)) {
        uint32_t name = packed_size(item);
        bytes += packed_far_memory(item) + (name < page_item_size(f->page, i) ? packed_far_memory(item + name) : 0);
    }
    return bytes;
}

void fields_set_flags(struct fields *f, uint32_t flags) {
    if (f->map) f->map->flags = flags;
    else f->page->flags = (uint8_t)flags;
}

/* --- finding --- */

void field_name(const struct fields *f, const char *name, uint32_t size, struct field_name *out) {
    packed_of(&out->packed, name, size);
    out->hash = hash_key(f->secret, name, size);
}

static struct page **place_of(const struct fields *f, uint64_t hash) {
    return f->map ? fieldmap_page(f->map, hash) : (struct page **)(uintptr_t)&f->page;
}

static void read_item(struct page **place, struct page_at at, struct field *out) {
    const uint8_t *item = page_item(*place, at.offset), *end = item + page_item_size(*place, at.index);
    *out = (struct field){.name = item, .expires_at_ms = FIELD_NEVER, .place = place, .at = at};
    item += packed_size(item);
    if (item == end) return;
    out->value = item;
    item += packed_size(item);
    if (item < end) memcpy(&out->expires_at_ms, item, TIME_SIZE);
}

bool fields_find(const struct fields *f, const struct field_name *name, struct field *out) {
    struct page **place = place_of(f, name->hash);
    struct page_at at;
    if (!page_find(*place, hash_fingerprint(name->hash), &name->packed, &at)) return false;
    read_item(place, at, out);
    return true;
}

/* Mostly one alone has its fingerprint; else their whole hashes tell. */
static struct page_at place_of_hash(const struct fields *f, struct page *p, uint64_t hash) {
    struct page_at at;
    bool more;
    bool found = page_find_fingerprint(p, hash_fingerprint(hash), 0, &at, &more);
    assert(found);
    while (more && fieldmap_hash(f->secret, page_item(p, at.offset)) != hash)
        page_find_fingerprint(p, hash_fingerprint(hash), at.index + 1, &at, &more);
    return at;
}

const uint8_t *fields_place_of(const struct fields *f, uint64_t hash, struct page_at *at) {
    struct page *p = *place_of(f, hash);
    *at = place_of_hash(f, p, hash);
    return page_item(p, at->offset);
}

void fields_prefetch_page(const struct fields *f, uint64_t hash) {
    const char *p = (const char *)*place_of(f, hash);
    for (size_t at = 0; p && at < PREFETCH_BYTES; at += LINE) __builtin_prefetch(p + at);
}

void fields_random(const struct fields *f, uint64_t (*next)(void *), void *arg, struct field *out) {
    struct page **place = (struct page **)(uintptr_t)&f->page;
    uint64_t index;
    if (!f->map) {
        index = next(arg) % f->page->n;
    } else {
        do { /* a bucket, and a place in it, which may be free: so each item is as likely */
            uint64_t random = next(arg);
            place = fieldmap_place(f->map, random % f->map->buckets);
            index = next(arg) % f->map->most;
        } while (!*place || index >= (*place)->n);
    }
    read_item(place, page_nth(*place, (uint32_t)index), out);
}

/* --- times --- */

int64_t fields_first_time(const struct fields *f) {
    uint64_t bucket;
    return f->map ? fieldmap_first_time(f->map, &bucket) : page_first_time(f->page);
}

/* Once the page at this place has changed. */
static void time_changed(struct fields *f, uint64_t hash) {
    if (f->map) fieldmap_time_changed(f->map, fieldmap_bucket(f->map, hash));
}

static int time_room(struct fields *f, uint64_t hash, int64_t expires_at_ms) {
    return f->map && expires_at_ms != FIELD_NEVER ? fieldmap_time_room(f->memory, f->map, fieldmap_bucket(f->map, hash)) : 0;
}

/* --- walking --- */

struct fields_walk fields_walk_at(const struct fields *f, uint64_t place) {
    struct fields_walk w = {.bucket = place >> 8, .index = place & 0xff};
    if (w.index) w.offset = page_nth(f->map ? *fieldmap_place(f->map, w.bucket) : f->page, w.index).offset;
    return w;
}

bool fields_next(const struct fields *f, struct fields_walk *w, struct field *out) {
    uint64_t buckets = fields_buckets(f);
    for (; w->bucket < buckets; w->bucket++, w->index = w->offset = 0) {
        struct page **place = f->map ? fieldmap_place(f->map, w->bucket) : (struct page **)(uintptr_t)&f->page;
        if (!*place) continue;
        if (!w->index && f->map && w->bucket + 2 < buckets) {
            const char *ahead = (const char *)*fieldmap_place(f->map, w->bucket + 2);
            for (size_t at = 0; ahead && at < PREFETCH_BYTES; at += LINE) __builtin_prefetch(ahead + at);
        }
        read_item(place, (struct page_at){w->index, w->offset}, out);
        w->offset += page_item_size(*place, w->index++);
        if (w->index == (*place)->n) {
            w->bucket++;
            w->index = w->offset = 0;
        }
        return true;
    }
    return false;
}

uint64_t fields_scan(const struct fields *f, uint64_t cursor, fields_visit *visit, void *arg) {
    struct page **place = (struct page **)(uintptr_t)&f->page;
    struct field x;
    if (f->map) place = fieldmap_place(f->map, fieldmap_walk(f->map, &cursor));
    else cursor = 0;
    struct page_at at = {0};
    for (; *place && at.index < (*place)->n; at.offset += page_item_size(*place, at.index++)) {
        read_item(place, at, &x);
        visit(arg, &x);
    }
    return cursor;
}

/* --- changing --- */

size_t fields_needs(const struct fields *f, const struct field_name *name, const struct packed *value) {
    uint32_t size = name->packed.size + (value ? value->size : 0) + TIME_SIZE;
    size_t far = packed_far_needs(&name->packed) + (value ? packed_far_needs(value) : 0);
    size_t page = page_needs(*place_of(f, name->hash), size), now = page_memory(*place_of(f, name->hash));
    return far + (page > now ? page - now : 0);
}

static void count(struct fields *f, int64_t items, int64_t bytes, int64_t memory) {
    if (!f->map) return;
    f->map->n += (uint64_t)items;
    f->map->used += (uint64_t)bytes;
    f->map->memory += (uint64_t)memory;
}

/* A page too large becomes a map. Without memory it stays one, as long as there is room in it. */
static void outgrow(struct fields *f) {
    if (!f->page || (f->page->n <= FIELDS_PAGE_ITEMS && f->page->used <= FIELDS_PAGE_BYTES)) return;
    size_t memory = fields_memory(f);
    struct fieldmap *x = fieldmap_new(f->memory);
    if (!x) return;
    *fieldmap_place(x, 0) = f->page;
    x->n = x->most = f->page->n;
    x->used = f->page->used;
    x->memory += memory;
    x->flags = f->page->flags;
    if (page_first_time(f->page) != FIELD_NEVER && fieldmap_time_room(f->memory, x, 0)) {
        *fieldmap_place(x, 0) = NULL;
        x->buckets = 1;
        fieldmap_free_some(f->memory, x, UINT32_MAX);
        return;
    }
    fieldmap_time_changed(x, 0);
    f->map = x;
    f->page = NULL;
    fieldmap_grow(f->memory, x, f->secret);
    x->most = FIELDS_PAGE_ITEMS / 4;
    for (uint64_t i = 0; i < x->buckets; i++)
        if (*fieldmap_place(x, i) && (*fieldmap_place(x, i))->n > x->most) x->most = (*fieldmap_place(x, i))->n;
}

static void grow(struct fields *f) {
    if (f->map) fieldmap_grow(f->memory, f->map, f->secret);
    else outgrow(f);
}

static void write_rest(uint8_t *to, const struct packed *value, int64_t expires_at_ms) {
    if (!value) return;
    packed_write(value, to);
    if (expires_at_ms != FIELD_NEVER) memcpy(to + value->size, &expires_at_ms, TIME_SIZE);
}

static uint32_t rest_size(const struct packed *value, int64_t expires_at_ms) {
    return value ? value->size + (expires_at_ms != FIELD_NEVER ? TIME_SIZE : 0) : 0;
}

static void unmake(struct memory *m, const struct packed *x) {
    if (x) packed_drop(m, x->head);
}

static int add(struct fields *f, const struct field_name *name, struct packed *value, int64_t expires_at_ms) {
    struct packed packed = name->packed;
    if ((f->map && fieldmap_make_room(f->memory, f->map, f->secret, name->hash)) || time_room(f, name->hash, expires_at_ms) ||
        packed_make_far(f->memory, &packed)) {
        unmake(f->memory, &packed);
        unmake(f->memory, value);
        return -ENOMEM;
    }
    struct page **place = place_of(f, name->hash);
    uint32_t size = packed.size + rest_size(value, expires_at_ms);
    size_t before = page_memory(*place);
    uint8_t *item = page_add(f->memory, place, hash_fingerprint(name->hash), size);
    if (!item) {
        unmake(f->memory, &packed);
        unmake(f->memory, value);
        return -ENOMEM;
    }
    packed_write(&packed, item);
    write_rest(item + packed.size, value, expires_at_ms);
    size_t far = packed_far_memory(packed.head) + (value ? packed_far_memory(value->head) : 0);
    count(f, 1, size, (int64_t)(page_memory(*place) - before + far));
    if (!f->map) {
        outgrow(f);
        return 0;
    }
    if ((*place)->n > f->map->most) f->map->most = (*place)->n;
    if (expires_at_ms != FIELD_NEVER) time_changed(f, name->hash);
    fieldmap_grow(f->memory, f->map, f->secret);
    return 0;
}

int fields_put(struct fields *f, const struct field_name *name, const struct field *was, struct packed *value, int64_t expires_at_ms) {
    assert(value || expires_at_ms == FIELD_NEVER);
    if (value && packed_make_far(f->memory, value)) return -ENOMEM;
    if (was && time_room(f, name->hash, expires_at_ms)) {
        unmake(f->memory, value);
        return -ENOMEM;
    }
    if (!was) return add(f, name, value, expires_at_ms);
    uint32_t name_size = packed_size(was->name), old = page_item_size(*was->place, was->at.index);
    uint32_t size = name_size + rest_size(value, expires_at_ms);
    size_t before = page_memory(*was->place), old_far = was->value ? packed_far_memory(was->value) : 0;
    uint8_t name_bytes[PACKED_SIZE_MAX], value_bytes[PACKED_FAR_SIZE] = {0};
    memcpy(name_bytes, was->name, name_size);
    if (old_far) memcpy(value_bytes, was->value, PACKED_FAR_SIZE);
    uint8_t *item = page_resize(f->memory, was->place, was->at, size);
    if (!item) {
        unmake(f->memory, value);
        return -ENOMEM;
    }
    if (old_far) packed_drop(f->memory, value_bytes);
    memcpy(item, name_bytes, name_size);
    write_rest(item + name_size, value, expires_at_ms);
    size_t far = value ? packed_far_memory(value->head) : 0;
    count(f, 0, (int64_t)size - old, (int64_t)(page_memory(*was->place) - before + far - old_far));
    if (was->expires_at_ms != FIELD_NEVER || expires_at_ms != FIELD_NEVER) time_changed(f, name->hash);
    grow(f);
    return 0;
}

int fields_set_time(struct fields *f, const struct field *was, int64_t expires_at_ms) {
    uint8_t texts[PAGE_ITEM_MAX];
    uint32_t old = page_item_size(*was->place, was->at.index), kept = packed_size(was->name) + packed_size(was->value);
    uint32_t size = kept + (expires_at_ms != FIELD_NEVER ? TIME_SIZE : 0);
    uint64_t hash = f->map ? fieldmap_hash(f->secret, was->name) : 0;
    size_t before = page_memory(*was->place);
    memcpy(texts, was->name, kept);
    if (time_room(f, hash, expires_at_ms)) return -ENOMEM;
    uint8_t *item = page_resize(f->memory, was->place, was->at, size);
    if (!item) return -ENOMEM;
    memcpy(item, texts, kept);
    if (size > kept) memcpy(item + kept, &expires_at_ms, TIME_SIZE);
    count(f, 0, (int64_t)size - old, (int64_t)(page_memory(*was->place) - before));
    time_changed(f, hash);
    grow(f);
    return 0;
}

static void take_out(struct fields *f, const struct field *x) {
    struct page **place = x->place;
    size_t before = page_memory(*place), far = packed_far_memory(x->name) + (x->value ? packed_far_memory(x->value) : 0);
    uint32_t size = page_item_size(*place, x->at.index);
    packed_drop(f->memory, x->name);
    if (x->value) packed_drop(f->memory, x->value);
    page_remove(f->memory, place, x->at);
    count(f, -1, -(int64_t)size, (int64_t)(page_memory(*place) - before - far));
}

/* Once so many were taken out of a map. */
static void shrink(struct fields *f, uint32_t n) {
    if (!f->map->n) fields_free(f);
    while (f->map && n--) fieldmap_shrink(f->memory, f->map);
}

void fields_remove(struct fields *f, const struct field *x) {
    uint64_t hash = x->expires_at_ms != FIELD_NEVER && f->map ? fieldmap_hash(f->secret, x->name) : 0;
    bool timed = x->expires_at_ms != FIELD_NEVER;
    take_out(f, x);
    if (!f->map) return;
    if (timed) time_changed(f, hash);
    shrink(f, 1);
}

/* All of a page go. */
static void drop_page(struct fields *f, struct page **place) {
    uint32_t n = (*place)->n, used = (*place)->used;
    size_t bytes = page_memory(*place);
    const uint8_t *item = page_item(*place, 0);
    for (uint32_t i = 0; i < n; item += page_item_size(*place, i++)) {
        uint32_t name = packed_size(item);
        bytes += packed_far_memory(item) + (name < page_item_size(*place, i) ? packed_far_memory(item + name) : 0);
    }
    fieldmap_drop_items(f->memory, *place);
    page_free(f->memory, *place);
    *place = NULL;
    count(f, -(int64_t)n, -(int64_t)used, -(int64_t)bytes);
}

/* Of one page; how many. */
static uint32_t expire_page(struct fields *f, struct page **place, int64_t before_ms) {
    struct page_at at = {0};
    struct field x;
    uint32_t n = 0, all = *place ? (*place)->n : 0;
    for (; at.index < all; at.offset += page_item_size(*place, at.index++)) {
        read_item(place, at, &x);
        if (x.expires_at_ms >= before_ms) break;
    }
    if (all && at.index == all) {
        drop_page(f, place);
        return all;
    }
    at = (struct page_at){0};
    while (*place && at.index < (*place)->n) {
        read_item(place, at, &x);
        if (x.expires_at_ms < before_ms) {
            take_out(f, &x);
            n++;
        } else at.offset += page_item_size(*place, at.index++);
    }
    return n;
}

uint32_t fields_expire(struct fields *f, int64_t before_ms, uint32_t most) {
    uint32_t n = 0;
    uint64_t bucket;
    if (!f->map) return expire_page(f, &f->page, before_ms);
    while (f->map && n < most && fieldmap_first_time(f->map, &bucket) < before_ms) {
        uint32_t gone = expire_page(f, fieldmap_place(f->map, bucket), before_ms);
        fieldmap_time_changed(f->map, bucket);
        n += gone;
        shrink(f, gone);
    }
    return n;
}

/* --- as a whole --- */

void fields_free(struct fields *f) {
    if (f->map)
        while (fieldmap_free_some(f->memory, f->map, UINT32_MAX)) {}
    fieldmap_drop_items(f->memory, f->page);
    page_free(f->memory, f->page);
    f->map = NULL;
    f->page = NULL;
}

int fields_put_copy(struct fields *f, const struct field *x) {
    char scratch[2][INT64_TEXT_SIZE];
    uint32_t size;
    const char *text = packed_text(x->name, scratch[0], &size);
    struct field_name name;
    struct packed value;
    field_name(f, text, size, &name);
    if (x->value) {
        text = packed_text(x->value, scratch[1], &size);
        packed_of(&value, text, size);
    }
    return fields_put(f, &name, NULL, x->value ? &value : NULL, x->expires_at_ms);
}

int fields_copy_some(struct fields *to, const struct fields *from, struct packed_copying *c) {
    if (!from->map) return from->page ? page_copy_some(to->memory, &to->page, from->page, c) : 0;
    if (!to->map && !(to->map = fieldmap_copy(to->memory, from->map))) return -ENOMEM;
    return fieldmap_copy_some(to->memory, to->map, from->map, c);
}
