#include "shard/container.h"

#include <assert.h>
#include <mimalloc.h>

#include "shard/blob.h"
#include "shard/memory.h"
#include "shard/shard.h"

/* Pages freed in one go: about 10 us. */
#define FREE_PAGES 64u

/* Lists what a flat container holds: for each field its name, then its value if there are any, then its time. */
struct flat {
    size_t size, memory; /* bytes; what it took where it came from */
    uint32_t flags;
    char bytes[];
};

/* What a text in it begins with; NO_TEXT: there is none. */
#define NO_TEXT UINT32_MAX

static bool is_fields(const struct entry *e) { return entry_encoding(e) == ENC_PAGE || entry_encoding(e) == ENC_MAP; }

static struct fields view(const struct entry *e) {
    struct fields f = {0};
    if (entry_encoding(e) == ENC_MAP) f.map = entry_pointer(e);
    else f.page = entry_pointer(e);
    return f;
}

struct fields container_fields(struct shard *s, const struct entry *e) {
    struct fields f = e ? view(e) : (struct fields){0};
    f.memory = s->memory;
    f.secret = s->secret;
    return f;
}

/* --- the end --- */

static bool free_map_some(struct memory *m, struct trash *x) { return fieldmap_free_some(m, (struct fieldmap *)x, FREE_PAGES); }

bool container_is_large(const struct entry *e) { return entry_encoding(e) == ENC_MAP; }

void container_drop(struct memory *m, struct entry *e, struct trash **large) {
    if (!entry_pointer(e)) return;
    assert(is_fields(e));
    struct fields f = view(e);
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
    struct fields f = view(e);
    return fields_memory(&f);
}

size_t container_copy_memory(const struct entry *e) { return container_memory(e); }

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

void *container_flatten(const struct entry *e) {
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

void *container_copy(struct shard *s, const struct entry *e, enum entry_encoding *encoding) {
    struct fields to = container_fields(s, NULL);
    if (entry_encoding(e) == ENC_FLAT) {
        if (copy_flat(&to, entry_pointer(e))) return NULL;
    } else {
        struct fields from = view(e);
        if (fields_copy(&to, &from)) return NULL;
    }
    *encoding = to.map ? ENC_MAP : ENC_PAGE;
    return to.map ? (void *)to.map : (void *)to.page;
}
