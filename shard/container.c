#include "shard/container.h"

#include <assert.h>
#include <errno.h>

#include "shard/blob.h"
#include "shard/intset.h"
#include "shard/list.h"
#include "shard/memory.h"
#include "shard/shard.h"
#include "shard/zset.h"

/* Pages freed in one go: about 10 us. */
#define FREE_PAGES 64u

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

/* --- copies --- */

static int copy_list_some(struct memory *m, void **to, const struct entry *e, struct packed_copying *c) {
    struct list from = list_of(e), x = {.memory = m, .fill = from.fill};
    if (*to) x = list_view(m, entry_encoding(e), *to);
    int more = list_copy_some(&x, &from, c);
    *to = x.chain ? (void *)x.chain : (void *)x.node;
    return more;
}

static int copy_zset_some(struct memory *m, const struct hash_secret *secret, void **to, const struct entry *e, struct packed_copying *c) {
    struct zset from = zset_view(e), x = {.memory = m, .secret = secret};
    enum entry_encoding encoding;
    if (*to) x = zset_of(m, secret, entry_encoding(e), *to);
    int more = zset_copy_some(&x, &from, c);
    *to = zset_container(&x, &encoding);
    return more;
}

static int copy_fields_some(struct memory *m, void **to, const struct entry *e, struct packed_copying *c) {
    struct fields from = view(e), x = view_of(entry_encoding(e), *to);
    x.memory = m;
    int more = fields_copy_some(&x, &from, c);
    *to = x.map ? (void *)x.map : (void *)x.page;
    return more;
}

int container_copy_some(struct shard *s, struct container_copying *c, const struct entry *e, int64_t cost) {
    int more = 0;
    size_t used = memory_used(s->memory);
    c->at.cost = cost;
    c->encoding = entry_encoding(e);
    if (entry_type(e) == TYPE_LIST) more = copy_list_some(s->memory, &c->container, e, &c->at);
    else if (is_zset(e)) more = copy_zset_some(s->memory, s->secret, &c->container, e, &c->at);
    else if (!is_ints(e)) more = copy_fields_some(s->memory, &c->container, e, &c->at);
    else if (!(c->container = intset_copy(s->memory, entry_pointer(e)))) more = -ENOMEM;
    c->memory += memory_used(s->memory) - used;
    if (more < 0) container_copy_drop(s, c);
    return more;
}

void container_copy_drop(struct shard *s, struct container_copying *c) {
    if (c->container) container_free(s->memory, c->encoding, c->container, &s->trash);
    c->container = NULL;
}
