#include "shard/set.h"

#include <assert.h>
#include <errno.h>

#include "shard/container.h"
#include "shard/memory.h"

/* Whether a name is an integer: which. */
static bool number_of(const struct field_name *name, int64_t *v) {
    if (!packed_is_int(name->packed.head)) return false;
    *v = packed_int(name->packed.head);
    return true;
}

/* ---- from an entry, and back ---- */

struct set set_new(struct shard *s) {
    return (struct set){.fields = container_fields(s, NULL), .no_prefetch = s->prefetch < PREFETCH_FULL};
}

struct set set_open(struct shard *s, const struct key *k) {
    bool ints = k->entry && entry_encoding(k->entry) == ENC_INTSET;
    struct set x = set_new(s);
    if (!ints) x.fields = container_fields(s, k->entry);
    if (ints) x.ints = entry_pointer(k->entry);
    return x;
}

static void *container_of(const struct set *x, enum entry_encoding *encoding) {
    *encoding = x->ints ? ENC_INTSET : x->fields.map ? ENC_MAP : ENC_PAGE;
    return x->ints ? (void *)x->ints : x->fields.map ? (void *)x->fields.map : (void *)x->fields.page;
}

void set_drop(struct shard *s, struct set *x) {
    enum entry_encoding encoding;
    void *container = container_of(x, &encoding);
    if (container) container_free(s->memory, encoding, container, &s->trash);
    *x = set_new(s);
}

int set_store(struct shard *s, struct key *k, struct set *x, enum key_event event) {
    enum entry_encoding encoding;
    void *container = container_of(x, &encoding);
    if (!container) {
        if (!k->entry) return 0;
        key_after_change(s, k, event);
        key_store(s, k, TYPE_SET, ENC_PAGE, NULL, event);
        return 0;
    }
    if (key_store(s, k, TYPE_SET, encoding, container, event)) {
        set_drop(s, x);
        return -ENOMEM;
    }
    key_after_change(s, k, event);
    return 0;
}

int set_keep(struct shard *s, struct key *k, struct set *x, enum key_event event) {
    enum entry_encoding encoding;
    void *container = container_of(x, &encoding);
    assert(container);
    int refused = key_store(s, k, TYPE_SET, encoding, container, event);
    if (refused) set_drop(s, x);
    return refused;
}

int set_replace(struct shard *s, struct key *k, struct set *x, enum key_event event) {
    enum entry_encoding encoding;
    void *container = container_of(x, &encoding);
    if (!container) {
        if (k->entry) key_delete(s, k, KEY_DEL);
        return 0;
    }
    if (key_replace(s, k, TYPE_SET, encoding, container, event)) {
        set_drop(s, x);
        return -ENOMEM;
    }
    return 0;
}

/* ---- members ---- */

const char *set_text(const struct set_item *m, char scratch[INT64_TEXT_SIZE], uint32_t *size) {
    if (m->field.name) return packed_text(m->field.name, scratch, size);
    *size = format_int64(scratch, m->number);
    return scratch;
}

void set_name_of(const struct set *x, const struct set_item *m, char scratch[INT64_TEXT_SIZE], struct field_name *out) {
    uint32_t size;
    const char *text = set_text(m, scratch, &size);
    if (m->field.name && !packed_is_int(m->field.name)) packed_of_text(&out->packed, text, size);
    else packed_of_int(&out->packed, m->field.name ? packed_int(m->field.name) : m->number);
    out->packed.text = text;
    out->packed.text_size = size;
    out->hash = hash_key(x->fields.secret, text, size);
}

static void at_index(const struct set *x, uint32_t index, struct set_item *out) {
    out->field.name = NULL;
    out->number = intset_at(x->ints, index);
    out->index = index;
}

bool set_find(const struct set *x, const struct field_name *name, struct set_item *out) {
    if (!x->ints) return fields_find(&x->fields, name, &out->field);
    out->field.name = NULL;
    return number_of(name, &out->number) && intset_find(x->ints, out->number, &out->index);
}

void set_random(const struct set *x, uint64_t (*next)(void *), void *arg, struct set_item *out) {
    if (x->ints) at_index(x, (uint32_t)(next(arg) % intset_count(x->ints)), out);
    else fields_random(&x->fields, next, arg, &out->field);
}

bool set_next(const struct set *x, struct set_walk *w, struct set_item *out) {
    if (!x->ints) return fields_next(&x->fields, &w->fields, &out->field);
    if (w->index == intset_count(x->ints)) return false;
    at_index(x, w->index++, out);
    return true;
}

struct visiting {
    set_visit *visit;
    void *arg;
};

static void visit_field(void *arg, const struct field *x) {
    struct visiting *v = arg;
    struct set_item m = {.field = *x};
    v->visit(v->arg, &m);
}

uint64_t set_scan(const struct set *x, uint64_t cursor, set_visit *visit, void *arg) {
    struct visiting v = {visit, arg};
    struct set_walk w = {0};
    struct set_item m;
    if (!x->ints) return fields_scan(&x->fields, cursor, visit_field, &v);
    while (set_next(x, &w, &m)) visit(arg, &m);
    return 0;
}

void set_prefetch(const struct set *x, const struct field_name *names, uint32_t n) {
    if (!x->fields.map || x->no_prefetch) return;
    for (uint32_t i = 0; i < n; i++) fields_prefetch_place(&x->fields, names[i].hash);
    for (uint32_t i = 0; i < n; i++) fields_prefetch_page(&x->fields, names[i].hash);
}

/* What is asked for of a page: a dozen members of 16 bytes take 250. */
#define ALONG_BYTES 256u
#define LINE 64u
/* One that has more than so many times the buckets is asked for member by member. */
#define ALONG_TIMES 2u
/* Buckets between that which a walk is in and that for which it asks. */
#define ALONG_AHEAD 2u

bool set_walks_along(const struct set *x, const struct set *walked) {
    const struct fieldmap *map = x->fields.map, *by = walked->fields.map;
    return map && by && !x->no_prefetch && map->buckets <= ALONG_TIMES * by->buckets;
}

void set_prefetch_along(const struct set *x, const struct set *walked, uint64_t from, uint64_t to) {
    const struct fieldmap *map = x->fields.map, *by = walked->fields.map;
    uint64_t end = to + ALONG_AHEAD < by->buckets ? to + ALONG_AHEAD : by->buckets, step;
    for (from += ALONG_AHEAD; from < end; from++) {
        for (uint64_t b = fieldmap_counterpart(map, by, from, &step); b < map->buckets; b += step) {
            const char *p = (const char *)*fieldmap_place(map, b);
            for (size_t at = 0; p && at < ALONG_BYTES; at += LINE) __builtin_prefetch(p + at);
        }
    }
}

uint32_t set_probe(const struct set *x, const struct field_name *names, uint32_t of, bool asked) {
    uint32_t found = 0;
    if (x->fields.map && !x->no_prefetch && !asked) {
        for (uint32_t left = of; left; left &= left - 1) fields_prefetch_place(&x->fields, names[__builtin_ctz(left)].hash);
        for (uint32_t left = of; left; left &= left - 1) fields_prefetch_page(&x->fields, names[__builtin_ctz(left)].hash);
    }
    for (uint32_t left = of; left; left &= left - 1) {
        unsigned i = (unsigned)__builtin_ctz(left);
        found |= (uint32_t)set_has(x, &names[i]) << i;
    }
    return found;
}

/* ---- changing ---- */

int set_convert(struct set *x) {
    struct set to = {.fields = {.memory = x->fields.memory, .secret = x->fields.secret}, .no_prefetch = x->no_prefetch};
    struct set_walk w = {0};
    struct set_item m;
    if (!x->ints) return 0;
    while (set_next(x, &w, &m)) {
        char scratch[INT64_TEXT_SIZE];
        struct field_name name;
        set_name_of(x, &m, scratch, &name);
        if (!fields_put(&to.fields, &name, NULL, NULL, FIELD_NEVER)) continue;
        fields_free(&to.fields);
        return -ENOMEM;
    }
    intset_free(x->fields.memory, x->ints);
    *x = to;
    return 0;
}

enum { IS_FULL = 2 };

static int add_number(struct set *x, int64_t v, int64_t ints_max) {
    uint32_t index;
    if (intset_find(x->ints, v, &index)) return 0;
    if ((int64_t)intset_count(x->ints) >= (ints_max < INTSET_MAX ? ints_max : INTSET_MAX)) return IS_FULL;
    return intset_add(x->fields.memory, &x->ints, v, index) ? -ENOMEM : 1;
}

int set_add(struct set *x, const struct field_name *name, int64_t ints_max) {
    struct field was;
    int64_t v;
    if (fields_is_empty(&x->fields)) {
        int added = number_of(name, &v) ? add_number(x, v, ints_max) : IS_FULL;
        if (added != IS_FULL) return added;
        if (set_convert(x)) {
            packed_drop(x->fields.memory, name->packed.head);
            return -ENOMEM;
        }
    }
    if (fields_find(&x->fields, name, &was)) return 0;
    return fields_put(&x->fields, name, NULL, NULL, FIELD_NEVER) ? -ENOMEM : 1;
}

void set_remove(struct set *x, const struct set_item *m) {
    if (x->ints) intset_remove(x->fields.memory, &x->ints, m->index);
    else fields_remove(&x->fields, &m->field);
}

/* ---- what it takes ---- */

/* A page's block grows by steps of up to this many bytes. */
#define PAGE_STEP 256u
/* A name in a page: its pair of bytes, as a part of four. */
#define PAIR_BYTES 8u
/* A map with its first pages; and what each name costs more there than in one page, since pages are not full. */
#define MAP_BYTES 512u
#define MAP_NAME_BYTES 16u

size_t set_needs_member(const struct field_name *name) { return packed_far_needs(&name->packed) + name->packed.size + PAIR_BYTES; }

size_t set_needs(const struct set *x, uint32_t members) {
    size_t n = set_count(x) + members, more = n > FIELDS_PAGE_ITEMS ? MAP_BYTES + n * MAP_NAME_BYTES : PAGE_STEP;
    if (x->fields.map) return (size_t)members * PAGE_STEP;
    if (!x->ints) return more;
    return more + intset_memory_with(x->ints, members) + intset_count(x->ints) * (1 + sizeof(int64_t) + PAIR_BYTES);
}
