#include "shard/container.h"

#include <assert.h>
#include <mimalloc.h>

#include "shard/blob.h"
#include "shard/intset.h"
#include "shard/list.h"
#include "shard/memory.h"
#include "shard/shard.h"
#include "shard/zset.h"

/* Pages freed in one go: about 10 us. */
#define FREE_PAGES 64u

/* Lists what a flat container holds: for each field its name, then its value if there are any, then its time; of an intset the integers; of a list the elements; of a
 * zset each member, then its score. */
struct flat {
    size_t size, memory; /* bytes; what it took where it came from */
    uint32_t flags;
    int32_t fill; /* of a list */
    bool ints;
    char bytes[];
};

/* What a text in it begins with; NO_TEXT: there is none. */
#define NO_TEXT UINT32_MAX

static bool is_fields(enum entry_encoding encoding) { return encoding == ENC_PAGE || encoding == ENC_MAP; }
static bool is_ints(const struct entry *e) { return entry_encoding(e) == ENC_INTSET; }
static bool is_list(enum entry_encoding encoding) { return encoding == ENC_NODE || encoding == ENC_CHAIN; }
static bool is_zset(const struct entry *e) { return entry_type(e) == TYPE_ZSET; }

static struct zset zset_view(const struct entry *e) { return zset_of(NULL, NULL, entry_encoding(e), entry_pointer(e)); }

static struct fields view_of(enum entry_encoding encoding, void *container) {
    struct fields f = {0};
    if (encoding == ENC_MAP) f.map = container;
    else f.page = container;
    return f;
}
static struct fields view(const struct entry *e) { return view_of(entry_encoding(e), entry_pointer(e)); }
static struct list list_of(const struct entry *e) { return list_view(NULL, entry_encoding(e), entry_pointer(e)); }

struct fields container_fields(struct shard *s, const struct entry *e) {
    struct fields f = e ? view(e) : (struct fields){0};
    f.memory = s->memory;
    f.secret = s->secret;
    return f;
}

/* --- the end --- */

static bool free_map_some(struct memory *m, struct trash *x) { return fieldmap_free_some(m, (struct fieldmap *)x, FREE_PAGES); }

bool container_is_large(const struct entry *e) {
    return entry_encoding(e) == ENC_MAP || entry_encoding(e) == ENC_CHAIN || (entry_encoding(e) == ENC_RANKED && is_zset(e));
}

void container_drop(struct memory *m, struct entry *e, struct trash **large) {
    if (entry_pointer(e)) container_free(m, entry_encoding(e), entry_pointer(e), large);
}

void container_free(struct memory *m, enum entry_encoding encoding, void *container, struct trash **large) {
    if (encoding == ENC_INTSET) {
        intset_free(m, container);
        return;
    }
    if (is_list(encoding)) {
        struct list x = list_view(m, encoding, container);
        list_free(&x, large);
        return;
    }
    if (encoding == ENC_RANKED) {
        struct zset x = zset_of(m, NULL, encoding, container);
        zset_free(&x, large);
        return;
    }
    assert(is_fields(encoding));
    struct fields f = view_of(encoding, container);
    f.memory = m;
    if (!large || !f.map) {
        fields_free(&f);
        return;
    }
    f.map->trash = (struct trash){*large, free_map_some};
    *large = &f.map->trash;
}

/* --- size --- */

size_t container_memory(const struct entry *e) {
    if (entry_encoding(e) == ENC_FLAT) return ((struct flat *)entry_pointer(e))->memory;
    if (is_ints(e)) return intset_memory(entry_pointer(e));
    if (entry_type(e) == TYPE_LIST) {
        struct list x = list_of(e);
        return list_memory(&x);
    }
    if (is_zset(e)) {
        struct zset x = zset_view(e);
        return zset_memory(&x);
    }
    struct fields f = view(e);
    return fields_memory(&f);
}

bool container_shown_large(const struct entry *e) {
    if (is_zset(e)) {
        struct zset x = zset_view(e);
        return zset_is_shown_large(&x);
    }
    struct fields f = view(e);
    return entry_type(e) == TYPE_SET || fields_flags(&f) & FIELDS_SHOWN_LARGE;
}

/* --- flat --- */

struct writer {
    struct flat *flat;
    size_t size;
};

static void write_bytes(struct writer *w, const void *p, size_t n) {
    if (w->flat) memcpy(w->flat->bytes + w->size, p, n);
    w->size += n;
}

static void write_text(struct writer *w, const uint8_t *packed) {
    char scratch[INT64_TEXT_SIZE];
    uint32_t size = NO_TEXT;
    const char *text = packed ? packed_text(packed, scratch, &size) : NULL;
    write_bytes(w, &size, sizeof size);
    if (packed) write_bytes(w, text, size);
}

static void write_fields(struct writer *w, const struct fields *f) {
    struct fields_walk walk = {0};
    struct field x;
    while (fields_next(f, &walk, &x)) {
        write_text(w, x.name);
        write_text(w, x.value);
        write_bytes(w, &x.expires_at_ms, sizeof x.expires_at_ms);
    }
}

static void *flatten_ints(const struct intset *x) {
    uint32_t n = intset_count(x);
    struct flat *flat = mi_malloc(sizeof *flat + n * sizeof(int64_t));
    if (!flat) return NULL;
    *flat = (struct flat){.size = n * sizeof(int64_t), .memory = intset_memory(x), .ints = true};
    for (uint32_t i = 0; i < n; i++) {
        int64_t v = intset_at(x, i);
        memcpy(flat->bytes + i * sizeof v, &v, sizeof v);
    }
    return flat;
}

static void write_list(struct writer *w, const struct list *x) {
    struct list_walk walk = list_walk_from(x, 0, LIST_TAIL);
    struct list_item i;
    while (list_next(x, &walk, &i)) {
        char scratch[INT64_TEXT_SIZE];
        uint32_t size;
        const char *text = list_text(&i, scratch, &size);
        write_bytes(w, &size, sizeof size);
        write_bytes(w, text, size);
    }
}

static void *flatten_list(const struct list *x) {
    struct writer w = {0};
    write_list(&w, x);
    struct flat *flat = mi_malloc(sizeof *flat + w.size);
    if (!flat) return NULL;
    *flat = (struct flat){.size = w.size, .memory = list_memory(x), .fill = x->chain ? x->fill : LIST_FILL_WHOLE};
    w = (struct writer){.flat = flat};
    write_list(&w, x);
    return flat;
}

static void write_zset(struct writer *w, const struct zset *x) {
    struct zset_walk walk;
    struct zset_item m;
    zset_begin(x, &walk, 0, UINT64_MAX, false);
    while (zset_next(x, &walk, &m)) {
        write_text(w, m.member);
        write_bytes(w, &m.score, sizeof m.score);
    }
}

static void *flatten_zset(const struct zset *x) {
    struct writer w = {0};
    write_zset(&w, x);
    struct flat *flat = mi_malloc(sizeof *flat + w.size);
    if (!flat) return NULL;
    *flat = (struct flat){.size = w.size, .memory = zset_memory(x), .flags = zset_is_shown_large(x)};
    w = (struct writer){.flat = flat};
    write_zset(&w, x);
    return flat;
}

void *container_flatten(const struct entry *e) {
    if (is_ints(e)) return flatten_ints(entry_pointer(e));
    if (entry_type(e) == TYPE_LIST) {
        struct list x = list_of(e);
        return flatten_list(&x);
    }
    if (is_zset(e)) {
        struct zset x = zset_view(e);
        return flatten_zset(&x);
    }
    struct fields f = view(e);
    struct writer w = {0};
    write_fields(&w, &f);
    struct flat *flat = mi_malloc(sizeof *flat + w.size);
    if (!flat) return NULL;
    *flat = (struct flat){.size = w.size, .memory = fields_memory(&f), .flags = fields_flags(&f)};
    w = (struct writer){.flat = flat};
    write_fields(&w, &f);
    return flat;
}

void container_drop_flat(void *flat) { mi_free(flat); }

static const char *read_text(const char *p, const char **text, uint32_t *size) {
    memcpy(size, p, sizeof *size);
    *text = p + sizeof *size;
    return *text + (*size == NO_TEXT ? 0 : *size);
}

/* --- copies --- */

static int copy_flat(struct fields *to, const struct flat *flat) {
    for (const char *p = flat->bytes, *end = p + flat->size; p < end;) {
        const char *name, *value;
        uint32_t name_size, value_size;
        int64_t at_ms;
        struct field_name packed_name;
        struct packed packed_value;
        p = read_text(read_text(p, &name, &name_size), &value, &value_size);
        memcpy(&at_ms, p, sizeof at_ms);
        p += sizeof at_ms;
        field_name(to, name, name_size, &packed_name);
        if (value_size != NO_TEXT) packed_of(&packed_value, value, value_size);
        if (!fields_put(to, &packed_name, NULL, value_size == NO_TEXT ? NULL : &packed_value, at_ms)) continue;
        fields_free(to);
        return -1;
    }
    if (!fields_is_empty(to)) fields_set_flags(to, flat->flags);
    return 0;
}

static struct intset *copy_flat_ints(struct memory *m, const struct flat *flat) {
    struct intset *to = NULL;
    for (uint32_t i = 0; i < flat->size / sizeof(int64_t); i++) {
        int64_t v;
        memcpy(&v, flat->bytes + i * sizeof v, sizeof v);
        if (!intset_add(m, &to, v, i)) continue;
        intset_free(m, to);
        return NULL;
    }
    return to;
}

static int copy_flat_list(struct list *to, const struct flat *flat) {
    for (const char *p = flat->bytes, *end = p + flat->size; p < end;) {
        const char *text;
        uint32_t size;
        p = read_text(p, &text, &size);
        if (!list_push(to, LIST_TAIL, text, size)) continue;
        list_free(to, NULL);
        return -1;
    }
    return 0;
}

static void *copy_list(struct shard *s, const struct entry *e, enum entry_encoding *encoding) {
    const struct flat *flat = entry_encoding(e) == ENC_FLAT ? entry_pointer(e) : NULL;
    struct list to = list_new(s, flat ? flat->fill : LIST_FILL);
    if (flat) {
        if (copy_flat_list(&to, flat)) return NULL;
    } else {
        struct list from = list_of(e);
        if (list_copy(&to, &from)) return NULL;
    }
    *encoding = to.chain ? ENC_CHAIN : ENC_NODE;
    return to.chain ? (void *)to.chain : (void *)to.node;
}

static int copy_flat_zset(struct zset *to, const struct flat *flat) {
    for (const char *p = flat->bytes, *end = p + flat->size; p < end;) {
        const char *member;
        uint32_t size;
        double score;
        struct field_name name;
        p = read_text(p, &member, &size);
        memcpy(&score, p, sizeof score);
        p += sizeof score;
        zset_name(to, member, size, &name);
        if (!zset_put(to, &name, NULL, score)) continue;
        zset_free(to, NULL);
        return -1;
    }
    if (!zset_is_empty(to)) zset_show_large(to, flat->flags);
    return 0;
}

static void *copy_zset(struct shard *s, const struct entry *e, enum entry_encoding *encoding) {
    struct zset to = zset_new(s), from = zset_view(e);
    if (entry_encoding(e) == ENC_FLAT ? copy_flat_zset(&to, entry_pointer(e)) : zset_copy(&to, &from)) return NULL;
    return zset_container(&to, encoding);
}

void *container_copy(struct shard *s, const struct entry *e, enum entry_encoding *encoding) {
    if (entry_type(e) == TYPE_LIST) return copy_list(s, e, encoding);
    const struct flat *flat = entry_encoding(e) == ENC_FLAT ? entry_pointer(e) : NULL;
    if (is_zset(e)) return copy_zset(s, e, encoding);
    if (is_ints(e) || (flat && flat->ints)) {
        *encoding = ENC_INTSET;
        return flat ? copy_flat_ints(s->memory, flat) : intset_copy(s->memory, entry_pointer(e));
    }
    struct fields to = container_fields(s, NULL);
    if (flat) {
        if (copy_flat(&to, flat)) return NULL;
    } else {
        struct fields from = view(e);
        if (fields_copy(&to, &from)) return NULL;
    }
    *encoding = to.map ? ENC_MAP : ENC_PAGE;
    return to.map ? (void *)to.map : (void *)to.page;
}
