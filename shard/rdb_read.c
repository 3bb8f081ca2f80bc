/* In this file: what elements become; where elements come from; values as a whole. Bytes, numbers and strings are in rdb_source.c, the packed forms in rdb_packed.c, reading past
 * values is in rdb_skip.c. */
#include "shard/rdb_read.h"

#include <assert.h>
#include <math.h>
#include <mimalloc.h>
#include <stdlib.h>
#include <string.h>

#include "shard/blob.h"
#include "shard/container.h"
#include "shard/list.h"
#include "shard/memory.h"
#include "shard/rdb_internal.h"
#include "shard/rdb_packed.h"
#include "shard/set.h"
#include "shard/unpack.h"
#include "shard/zset.h"

/* Of a packed form, in a step: about 100 us. */
#define UNPACKED_AT_ONCE (256u << 10)
/* A string that takes more than some 100 us in one go; and of it, in a step: most of the time is for fresh pages. */
#define LONG_TEXT (64u << 10)
#define MOVED_AT_ONCE (128u << 10)
/* What an element may take beside its bytes: a block for a long one, its share of what grows. */
#define ELEMENT_ROOM 64u

/* ---- what elements become ---- */

/* A packed form that is being read. */
struct packed_form {
    bool begun, compressed;
    uint64_t bytes;             /* in the source */
    struct unpacking unpacking; /* of a compressed one, into the making's text */
    struct rdb_packed_walk walk;
};

/* A text that is too long for a step, on its way into a block of its own. */
struct long_text {
    struct blob *block; /* NULL: there is none */
    bool compressed;
    struct unpacking unpacking; /* of one that is not compressed: how far it is */
    size_t offset;              /* where it begins in its packed form, once that is unpacked */
};

/* A container that is being made of strings: elements; fields and values, or members and scores, in turn; with times every third is one. */
struct rdb_making {
    struct rdb_source *x;
    struct shard *s;
    const struct rdb_limits *limits;
    enum entry_type type;
    bool timed; /* fields have times */
    bool long_text;
    unsigned part; /* of an item of several */
    struct rdb_text name;
    struct rdb_text value; /* of timed ones */
    int64_t first_time_ms;
    struct list list;
    struct set set;
    struct zset zset;
    struct fields fields;
    /* Elements that are counted. */
    uint8_t rdb_type;
    bool begun, in_steps;
    uint64_t left, first; /* first: of times, the one that the others are distances from */
    struct rdb_text text;
    int64_t time_ms; /* of the field that is being read */
    struct packed_form form;
    struct long_text lengthy;
    struct rdb_room room; /* of all texts, in slices */
};

static void make_begin(struct rdb_making *m, struct rdb_source *x, struct shard *s, const struct rdb_limits *limits, enum entry_type type) {
    memset(m, 0, sizeof *m);
    m->x = x;
    m->s = s;
    m->limits = limits;
    m->type = type;
    m->first_time_ms = FIELD_NEVER;
    if (type == TYPE_LIST) m->list = list_new(s, limits->list_size);
    else if (type == TYPE_SET) m->set = set_new(s);
    else if (type == TYPE_ZSET) m->zset = zset_new(s);
    else m->fields = (struct fields){.memory = s->memory, .secret = s->secret};
}

static bool no_memory(struct rdb_making *m) { return rdb_no_memory(m->x); }

/* Whether the budget has room for these two, as they would be in a page or a node: what was made before it is counted already. What was reserved for blocks of their own is asked for anew. */
static bool may_take(struct rdb_making *m, const struct arg *name, const struct arg *value) {
    if (name->flags & ARG_BLOB) rdb_unreserve(&m->room, blob_memory(packed_blob(name->p)));
    if (value && value->flags & ARG_BLOB) rdb_unreserve(&m->room, blob_memory(packed_blob(value->p)));
    return shard_fits(m->s, (size_t)name->size + (value ? value->size : 0) + ELEMENT_ROOM) || no_memory(m);
}

/* A block of its own that nothing has taken over. It is large: the shard gives it back as it does those of keys. */
static void give_up_block(struct shard *s, struct blob *b) {
    blob_adopt(s->memory, b, s->id);
    blob_release(s->memory, b);
}

/* Another text, which stays. One in a block of its own brings that: whoever then gives the text as an argument lets it go (let_go), before another is kept. */
static bool keep(struct rdb_making *m, struct rdb_text *t, struct arg *a) {
    assert(!t->block);
    if (a->flags & ARG_BLOB) {
        t->block = packed_blob(a->p);
        a->flags &= ~(uint32_t)ARG_BLOB;
        t->p = a->p;
    } else {
        if (!rdb_make_room(m->x, t, a->size ? a->size : 1)) return false;
        if (a->size) memcpy(t->room, a->p, a->size);
        t->p = t->room;
    }
    t->size = a->size;
    return true;
}

static struct arg arg_of(const struct rdb_text *t) {
    return (struct arg){.p = t->p, .size = (uint32_t)t->size, .flags = t->block ? ARG_BLOB : 0};
}

/* Of a text that was given as an argument: what of its own block nobody took over goes. */
static void let_go(struct rdb_making *m, struct rdb_text *t, const struct arg *a) {
    if (t->block && a->flags & ARG_BLOB) {
        rdb_unreserve(&m->room, blob_memory(t->block));
        give_up_block(m->s, t->block);
    }
    t->block = NULL;
}

static bool add_member(struct rdb_making *m, struct arg *a) {
    struct field_name name;
    struct set_item was;
    if (!may_take(m, a, NULL)) return false;
    set_name(&m->set, a->p, a->size, &name);
    if (a->flags & ARG_BLOB && !set_find(&m->set, &name, &was)) packed_adopt(m->s->memory, &name.packed, a);
    int added = set_add(&m->set, &name, m->limits->set_entries);
    return added > 0 || (added ? no_memory(m) : rdb_wrong(m->x, "a member of a set twice"));
}

static bool add_scored(struct rdb_making *m, double score) {
    struct field_name name;
    struct zset_item was;
    struct arg a = arg_of(&m->name);
    bool good = false;
    if (isnan(score)) return rdb_wrong(m->x, "a score that is not a number");
    if (!may_take(m, &a, NULL)) return false;
    zset_name(&m->zset, a.p, a.size, &name);
    if (zset_find(&m->zset, &name, &was)) rdb_wrong(m->x, "a member of a sorted set twice");
    else {
        m->long_text |= a.size > (uint64_t)m->limits->zset_value;
        packed_adopt(m->s->memory, &name.packed, &a);
        good = !zset_put(&m->zset, &name, NULL, score) || no_memory(m);
    }
    let_go(m, &m->name, &a);
    return good;
}

/* The one of m->name. */
static bool add_field(struct rdb_making *m, struct arg *text, int64_t at_ms) {
    struct field_name name;
    struct field was;
    struct packed value;
    struct arg a = arg_of(&m->name);
    bool good = false;
    if (!may_take(m, &a, text)) return false;
    field_name(&m->fields, a.p, a.size, &name);
    if (fields_find(&m->fields, &name, &was)) rdb_wrong(m->x, "a field of a hash twice");
    else {
        uint64_t most = (uint64_t)m->limits->hash_value;
        m->long_text |= a.size > most || text->size > most;
        if (at_ms < m->first_time_ms) m->first_time_ms = at_ms;
        packed_of(&value, text->p, text->size);
        packed_adopt(m->s->memory, &value, text);
        packed_adopt(m->s->memory, &name.packed, &a);
        good = !fields_put(&m->fields, &name, NULL, &value, at_ms) || no_memory(m);
    }
    let_go(m, &m->name, &a);
    return good;
}

/* A score as text: as strtod has it. */
static bool add_score_text(struct rdb_making *m, const char *p, size_t size) {
    char text[128], *end;
    if (!size || size >= sizeof text) return rdb_wrong(m->x, "a score that is not a number");
    memcpy(text, p, size);
    text[size] = 0;
    double score = strtod(text, &end);
    return end != text + size ? rdb_wrong(m->x, "a score that is not a number") : add_scored(m, score);
}

static bool add_timed(struct rdb_making *m, const char *p, size_t size) {
    int64_t at_ms;
    struct arg value = arg_of(&m->value);
    if (!parse_int64(p, size, &at_ms) || at_ms < 0) return rdb_wrong(m->x, "a field's time that is none");
    bool good = add_field(m, &value, at_ms ? at_ms : FIELD_NEVER);
    let_go(m, &m->value, &value);
    return good;
}

/* The next string. Its block (ARG_BLOB) may be taken over. */
static bool add_next(struct rdb_making *m, struct arg *a) {
    if (m->type == TYPE_LIST) return may_take(m, a, NULL) && (!list_push(&m->list, LIST_TAIL, a) || no_memory(m));
    if (m->type == TYPE_SET) return add_member(m, a);
    switch (m->part++) {
    case 0: return keep(m, &m->name, a);
    case 1:
        if (m->timed) return keep(m, &m->value, a);
        m->part = 0;
        return m->type == TYPE_ZSET ? add_score_text(m, a->p, a->size) : add_field(m, a, FIELD_NEVER);
    default: m->part = 0; return add_timed(m, a->p, a->size);
    }
}

/* What is to be written into the entry; NULL: nothing was made. */
static void *made(const struct rdb_making *m, enum entry_encoding *encoding) {
    const struct fields *f = m->type == TYPE_SET ? &m->set.fields : &m->fields;
    if (m->type == TYPE_ZSET) return zset_container(&m->zset, encoding);
    if (m->type == TYPE_LIST) {
        *encoding = m->list.chain ? ENC_CHAIN : ENC_NODE;
        return m->list.chain ? (void *)m->list.chain : (void *)m->list.node;
    }
    if (m->type == TYPE_SET && m->set.ints) {
        *encoding = ENC_INTSET;
        return m->set.ints;
    }
    *encoding = f->map ? ENC_MAP : ENC_PAGE;
    return f->map ? (void *)f->map : (void *)f->page;
}

static void make_drop(struct rdb_making *m) {
    if (m->type == TYPE_LIST) list_free(&m->list, &m->s->trash);
    else if (m->type == TYPE_SET) set_drop(m->s, &m->set);
    else if (m->type == TYPE_ZSET) zset_drop(m->s, &m->zset);
    else if (!fields_is_empty(&m->fields)) {
        enum entry_encoding encoding;
        void *container = made(m, &encoding);
        container_free(m->s->memory, encoding, container, &m->s->trash); /* a large one in slices */
    }
}

/* What clients are told of its encoding, and what follows from it. False: no memory. */
static bool show(struct rdb_making *m) {
    if (m->type == TYPE_ZSET) {
        bool large = m->long_text || zset_count(&m->zset) > (uint64_t)m->limits->zset_entries;
        zset_show_large(&m->zset, large);
        return large || !zset_drop_signs(&m->zset);
    }
    if (m->type == TYPE_HASH && (m->long_text || fields_count(&m->fields) > (uint64_t)m->limits->hash_entries))
        fields_set_flags(&m->fields, FIELDS_SHOWN_LARGE);
    return true;
}

/* All elements are there. */
static bool is_complete(const struct rdb_making *m) {
    enum entry_encoding encoding;
    if (m->part) return rdb_wrong(m->x, "a field without a value");
    return made(m, &encoding) || rdb_wrong(m->x, "an empty container");
}

static bool make_store(struct rdb_making *m, struct key *k, int64_t expire_at_ms, enum key_event event) {
    enum entry_encoding encoding;
    if (!is_complete(m)) return false;
    if (!show(m)) return no_memory(m);
    void *container = made(m, &encoding);
    return !key_replace_timed(m->s, k, m->type, encoding, container, expire_at_ms, m->first_time_ms, event) || no_memory(m);
}

/* ---- where they come from ---- */

/* Whether the next string is too long for a step. All of it is there, as of all that is read in steps. */
static bool is_long(const struct rdb_source *x) {
    struct rdb_source y = {.at = x->at, .end = x->end, .offset = x->offset};
    struct rdb_string_head head;
    if (x->at == x->end || (*x->at != RDB_LENGTH_32 && *x->at != RDB_LENGTH_64 && *x->at != (RDB_ENCODED | RDB_LZF))) return false;
    return rdb_get_string_head(&y, &head) && head.size > LONG_TEXT;
}

/* A block of its own, which a text of so many bytes is moved to step by step. */
static bool make_block(struct rdb_making *m, const struct rdb_string_head *head) {
    struct long_text *l = &m->lengthy;
    if (!rdb_reserve(m->x, blob_memory_for(head->size))) return rdb_no_memory(m->x);
    *l = (struct long_text){.block = blob_receive(head->size), .compressed = head->compressed};
    l->unpacking = (struct unpacking){.from_size = head->bytes, .to_size = head->size};
    if (l->block) return true;
    rdb_unreserve(&m->room, blob_memory_for(head->size));
    return rdb_no_memory(m->x);
}

static bool begin_long(struct rdb_making *m) {
    struct rdb_string_head head;
    return rdb_get_string_head(m->x, &head) && rdb_need(m->x, head.bytes) && make_block(m, &head);
}

/* Some of it, which begins there. */
static enum unpack_step move_some(struct long_text *l, const uint8_t *from) {
    struct unpacking *u = &l->unpacking;
    u->from = from;
    u->to = (uint8_t *)l->block->bytes;
    if (l->compressed) return unpack_some(u, UNPACKED_AT_ONCE);
    size_t left = u->to_size - u->to_at, n = left < MOVED_AT_ONCE ? left : MOVED_AT_ONCE;
    memcpy(u->to + u->to_at, u->from + u->to_at, n);
    u->to_at += n;
    return n < left ? UNPACK_MORE : UNPACK_DONE;
}

/* The next string; or, in steps, some more of a long one: *most is 0 then, and m->lengthy.block is there, until it is whole. */
static bool get_text(struct rdb_making *m, struct rdb_text *t, bool kept, uint64_t *most) {
    struct long_text *l = &m->lengthy;
    if (__builtin_expect(!l->block && (!m->in_steps || !is_long(m->x)), 1))
        return kept ? rdb_get_string_kept(m->x, t) : rdb_get_string(m->x, t);
    *most = 0;
    if (!l->block) return begin_long(m);
    enum unpack_step step = move_some(l, m->x->at);
    if (step == UNPACK_WRONG) return rdb_wrong(m->x, "a compressed string that is corrupt");
    if (step == UNPACK_MORE) return true;
    m->x->at += l->unpacking.from_size;
    t->block = l->block;
    t->p = l->block->bytes;
    t->size = l->unpacking.to_size;
    l->block = NULL;
    return true;
}

static bool read_string_of(struct rdb_making *m, uint64_t *most) {
    if (!get_text(m, &m->text, false, most)) return false;
    if (m->lengthy.block) return true;
    struct arg a = arg_of(&m->text);
    bool good = add_next(m, &a);
    let_go(m, &m->text, &a);
    return good;
}

/* The name and the value. */
static bool read_pair(struct rdb_making *m, uint64_t *most) {
    do {
        if (!read_string_of(m, most)) return false;
    } while (m->part && !m->lengthy.block);
    return true;
}

static bool read_scored(struct rdb_making *m, bool text, uint64_t *most) {
    double score;
    if (!get_text(m, &m->name, true, most)) return false;
    return m->lengthy.block || (rdb_get_score(m->x, text, &score) && add_scored(m, score));
}

/* A time before the field; old: an absolute one. m->part: of these three. */
static bool read_timed(struct rdb_making *m, bool old, uint64_t *most) {
    if (m->part == 0) {
        uint64_t time;
        if (!rdb_get_length(m->x, &time)) return false;
        uint64_t at_ms = !time ? (uint64_t)FIELD_NEVER : old ? time : m->first + time - 1;
        if (time && at_ms >= (uint64_t)FIELD_NEVER) return rdb_wrong(m->x, "a field's time that is none");
        m->time_ms = (int64_t)at_ms;
        m->part = 1;
    }
    if (m->part == 1) {
        if (!get_text(m, &m->name, true, most)) return false;
        if (m->lengthy.block) return true;
        m->part = 2;
    }
    if (!get_text(m, &m->text, false, most)) return false;
    if (m->lengthy.block) return true;
    m->part = 0;
    struct arg a = arg_of(&m->text);
    bool good = add_field(m, &a, m->time_ms);
    let_go(m, &m->text, &a);
    return good;
}

/* ---- packed forms ---- */

/* Where the one that is being read lies. */
static const uint8_t *form_at(const struct rdb_making *m) { return m->form.compressed ? (const uint8_t *)m->text.room : m->x->at; }

/* Its next string. False: something is wrong; or it is a long one, that is to be moved first, and comes again. */
static bool make_add(void *arg, const char *p, size_t size) {
    struct rdb_making *m = arg;
    struct long_text *l = &m->lengthy;
    struct arg a = {.p = p, .size = (uint32_t)size};
    if (__builtin_expect(size <= LONG_TEXT || !m->in_steps || m->rdb_type == RDB_HASH_ZIPMAP, 1)) return add_next(m, &a);
    if (!l->block) {
        l->offset = make_block(m, &(struct rdb_string_head){.bytes = size, .size = size}) ? (size_t)((const uint8_t *)p - form_at(m)) : 0;
        return false;
    }
    struct rdb_text t = {.p = l->block->bytes, .size = size, .block = l->block};
    l->block = NULL;
    a = arg_of(&t);
    bool good = add_next(m, &a);
    let_go(m, &t, &a);
    return good;
}

typedef const char *packed_reader(const uint8_t *p, size_t size, struct rdb_packed_walk *w, uint64_t most, rdb_element *add, void *arg);

/* A string that holds a packed form begins: its bytes are in the source, which stays before them until all are read. */
static bool begin_packed(struct rdb_making *m) {
    struct rdb_string_head head;
    if (!rdb_get_string_head(m->x, &head)) return false;
    if (head.is_int) return rdb_wrong(m->x, "an integer where a packed form must be");
    m->form = (struct packed_form){.begun = true, .compressed = head.compressed, .bytes = head.bytes};
    if (!rdb_need(m->x, head.bytes)) return false;
    if (!head.compressed) return true;
    m->form.unpacking = (struct unpacking){.from_size = head.bytes, .to_size = head.size};
    return rdb_make_room(m->x, &m->text, head.size);
}

/* Some of it becomes what it was. *most is 0 then, if there is more. */
static bool unpack_form(struct rdb_making *m, uint64_t *most) {
    struct unpacking *u = &m->form.unpacking;
    u->from = m->x->at;
    u->to = (uint8_t *)m->text.room;
    enum unpack_step step = unpack_some(u, m->in_steps ? UNPACKED_AT_ONCE : SIZE_MAX);
    if (step == UNPACK_WRONG) return rdb_wrong(m->x, "a compressed string that is corrupt");
    if (step == UNPACK_MORE) *most = 0;
    return true;
}

/* A string that holds a packed form, or as much of it as *most allows. */
static bool read_packed(struct rdb_making *m, packed_reader *reader, uint64_t *most) {
    struct packed_form *f = &m->form;
    if (!f->begun && !begin_packed(m)) return false;
    if (f->compressed && f->unpacking.to_at < f->unpacking.to_size && (!unpack_form(m, most) || !*most)) return *most == 0;
    if (m->lengthy.block && move_some(&m->lengthy, form_at(m) + m->lengthy.offset) == UNPACK_MORE) {
        *most = 0;
        return true;
    }
    uint64_t before = f->walk.n;
    const char *why = reader(form_at(m), f->compressed ? f->unpacking.to_size : f->bytes, &f->walk, *most, make_add, m);
    if (why) return rdb_wrong(m->x, why);
    if (m->x->why[0]) return false;
    *most = m->lengthy.block ? 0 : *most - (f->walk.n - before);
    if (f->walk.more) return true;
    m->x->at += f->bytes;
    f->begun = false;
    return true;
}

static bool read_node(struct rdb_making *m, bool second, uint64_t *most) {
    enum { NODE_PLAIN = 1, NODE_PACKED = 2 };
    uint64_t kind = NODE_PACKED;
    if (m->lengthy.block && !m->form.begun) kind = NODE_PLAIN;
    else if (second && !m->form.begun && !rdb_get_length(m->x, &kind)) return false;
    if (kind == NODE_PACKED) return read_packed(m, second ? rdb_listpack : rdb_ziplist, most);
    return kind == NODE_PLAIN ? read_string_of(m, most) : rdb_wrong(m->x, "a list's node of unknown form");
}

/* What stands before the elements. */
static bool read_head(struct rdb_making *m) {
    uint64_t first;
    switch (m->rdb_type) {
    case RDB_HASH_TIMES: return rdb_get_little(m->x, 8, &m->first) && rdb_get_count(m->x, &m->left);
    case RDB_LIST:
    case RDB_SET:
    case RDB_HASH:
    case RDB_ZSET_TEXT:
    case RDB_ZSET:
    case RDB_QUICKLIST:
    case RDB_QUICKLIST_2:
    case RDB_HASH_TIMES_OLD: return rdb_get_count(m->x, &m->left);
    case RDB_HASH_TIMES_LISTPACK_OLD: m->timed = true; break;
    case RDB_HASH_TIMES_LISTPACK:
        m->timed = true;
        if (!rdb_get_little(m->x, 8, &first)) return false;
    }
    m->left = 1;
    return true;
}

/* The next element, or as much of a packed form as *most, which the elements of one are taken from, allows, or some of a long text: form.begun, or lengthy.block, then. */
static bool read_next(struct rdb_making *m, uint64_t *most) {
    switch (m->rdb_type) {
    case RDB_LIST:
    case RDB_SET: return read_string_of(m, most);
    case RDB_HASH: return read_pair(m, most);
    case RDB_ZSET_TEXT: return read_scored(m, true, most);
    case RDB_ZSET: return read_scored(m, false, most);
    case RDB_HASH_ZIPMAP: return read_packed(m, rdb_zipmap, most);
    case RDB_LIST_ZIPLIST:
    case RDB_ZSET_ZIPLIST:
    case RDB_HASH_ZIPLIST: return read_packed(m, rdb_ziplist, most);
    case RDB_SET_INTSET: return read_packed(m, rdb_intset, most);
    case RDB_QUICKLIST: return read_node(m, false, most);
    case RDB_QUICKLIST_2: return read_node(m, true, most);
    case RDB_HASH_LISTPACK:
    case RDB_ZSET_LISTPACK:
    case RDB_SET_LISTPACK:
    case RDB_HASH_TIMES_LISTPACK_OLD:
    case RDB_HASH_TIMES_LISTPACK: return read_packed(m, rdb_listpack, most);
    case RDB_HASH_TIMES_OLD: return read_timed(m, true, most);
    case RDB_HASH_TIMES: return read_timed(m, false, most);
    }
    return rdb_wrong(m->x, "a value of unknown type");
}

/* So many elements more. False: something is wrong. */
static bool read_elements(struct rdb_making *m, uint64_t most) {
    if (!m->begun && !read_head(m)) return false;
    m->begun = true;
    while (m->left && most) {
        if (!read_next(m, &most)) return false;
        if (m->form.begun || m->lengthy.block) return true;
        m->left--;
        most -= most > 0;
    }
    return true;
}

/* ---- values ---- */

bool rdb_entry_type(struct rdb_source *x, uint8_t type, enum entry_type *out) {
    switch (type) {
    case RDB_STRING: *out = TYPE_STRING; return true;
    case RDB_LIST:
    case RDB_LIST_ZIPLIST:
    case RDB_QUICKLIST:
    case RDB_QUICKLIST_2: *out = TYPE_LIST; return true;
    case RDB_SET:
    case RDB_SET_INTSET:
    case RDB_SET_LISTPACK: *out = TYPE_SET; return true;
    case RDB_ZSET_TEXT:
    case RDB_ZSET:
    case RDB_ZSET_ZIPLIST:
    case RDB_ZSET_LISTPACK: *out = TYPE_ZSET; return true;
    case RDB_HASH:
    case RDB_HASH_ZIPMAP:
    case RDB_HASH_ZIPLIST:
    case RDB_HASH_LISTPACK:
    case RDB_HASH_TIMES_OLD:
    case RDB_HASH_TIMES_LISTPACK_OLD:
    case RDB_HASH_TIMES:
    case RDB_HASH_TIMES_LISTPACK: *out = TYPE_HASH; return true;
    case RDB_STREAM:
    case RDB_STREAM_2:
    case RDB_STREAM_3: return rdb_wrong(x, "a stream, which Darter does not have yet");
    case RDB_MODULE_OLD:
    case RDB_MODULE: return rdb_wrong(x, "a module's value");
    }
    return rdb_wrong(x, "a value of unknown type");
}

static bool read_string(struct rdb_source *x, struct shard *s, struct key *k, int64_t expire_at_ms, enum key_event event) {
    struct rdb_text text = {0};
    bool good = rdb_get_string(x, &text);
    if (good && key_set_bytes(s, k, text.p, text.size, FORM_ANY, expire_at_ms, event)) good = rdb_no_memory(x);
    rdb_text_drop(&text);
    return good;
}

static void forget_texts(struct rdb_making *m) {
    struct blob *blocks[] = {m->name.block, m->value.block, m->text.block, m->lengthy.block};
    for (unsigned i = 0; i < sizeof blocks / sizeof *blocks; i++)
        if (blocks[i]) give_up_block(m->s, blocks[i]);
    m->lengthy.block = NULL;
    rdb_text_drop(&m->name);
    rdb_text_drop(&m->value);
    rdb_text_drop(&m->text);
    rdb_unreserve(&m->room, m->room.reserved);
}

bool rdb_read_value(struct rdb_source *x, uint8_t type, struct shard *s, struct key *k, int64_t expire_at_ms,
    const struct rdb_limits *limits, enum key_event event) {
    enum entry_type kind;
    struct rdb_making m;
    if (!rdb_entry_type(x, type, &kind)) return false;
    if (kind == TYPE_STRING) return read_string(x, s, k, expire_at_ms, event);
    make_begin(&m, x, s, limits, kind);
    m.rdb_type = type;
    bool good = read_elements(&m, UINT64_MAX) && make_store(&m, k, expire_at_ms, event);
    if (!good) make_drop(&m);
    forget_texts(&m);
    return good;
}

bool rdb_check_value(struct rdb_source *x, uint8_t type, struct shard *s, const struct rdb_limits *limits) {
    enum entry_type kind;
    struct rdb_making m;
    if (!rdb_entry_type(x, type, &kind)) return false;
    if (kind == TYPE_STRING) {
        struct rdb_text text = {0};
        bool good = rdb_get_string(x, &text);
        rdb_text_drop(&text);
        return good;
    }
    make_begin(&m, x, s, limits, kind);
    m.rdb_type = type;
    bool good = read_elements(&m, UINT64_MAX) && is_complete(&m);
    make_drop(&m);
    forget_texts(&m);
    return good;
}

/* ---- values, in slices ---- */

bool rdb_is_container(uint8_t type) {
    struct rdb_source none = {0};
    enum entry_type kind;
    return rdb_entry_type(&none, type, &kind) && kind != TYPE_STRING;
}

struct rdb_making *rdb_make_begin(uint8_t type, struct shard *s, const struct rdb_limits *limits) {
    struct rdb_source none = {0};
    enum entry_type kind;
    struct rdb_making *m = rdb_entry_type(&none, type, &kind) ? mi_malloc(sizeof *m + sizeof *limits) : NULL;
    if (!m) return NULL;
    memcpy(m + 1, limits, sizeof *limits);
    make_begin(m, NULL, s, (const struct rdb_limits *)(m + 1), kind);
    m->rdb_type = type;
    m->room.s = s;
    return m;
}

enum rdb_making_step rdb_make_step(struct rdb_making *m, struct rdb_source *x, uint64_t most) {
    m->x = x;
    m->in_steps = most != UINT64_MAX;
    x->room = &m->room;
    if (!read_elements(m, most)) return RDB_MAKING_WRONG;
    return m->left ? RDB_MAKING : RDB_MADE;
}

bool rdb_make_check(struct rdb_making *m, struct rdb_source *x) {
    m->x = x;
    return is_complete(m);
}

bool rdb_make_store(struct rdb_making *m, struct rdb_source *x, struct key *k, int64_t expire_at_ms, enum key_event event) {
    m->x = x;
    if (!make_store(m, k, expire_at_ms, event)) return false;
    forget_texts(m);
    mi_free(m);
    return true;
}

void rdb_make_drop(struct rdb_making *m) {
    if (!m) return;
    make_drop(m);
    forget_texts(m);
    mi_free(m);
}

static uint64_t block_memory(const struct blob *b) { return b ? blob_memory(b) : 0; }

uint64_t rdb_make_aside(const struct rdb_making *m) {
    return m->name.capacity + m->value.capacity + m->text.capacity + block_memory(m->name.block) + block_memory(m->value.block) +
        block_memory(m->text.block) + block_memory(m->lengthy.block);
}
