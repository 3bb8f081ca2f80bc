/* In this file: scores; small ones; large ones; from one to the other; members; ranks; walks; as a whole; from an entry, and back. */
#include "shard/zset.h"

#include <assert.h>
#include <errno.h>
#include <float.h>
#include <math.h>

#include "shard/container.h"
#include "shard/memory.h"

#define LINE 64u
/* A walk brings so many pages on their way ahead of itself. */
#define AHEAD 8u
/* Freed in one go. */
#define FREE_NODES 64u
#define FREE_PAGES 64u
/* What copying a leaf costs, in bytes that are copied meanwhile. */
#define LEAF_COST 2048

struct zset_large {
    struct trash trash;
    const struct hash_secret *secret;
    struct page *page; /* of the fields, */
    struct fieldmap *map;
    struct ranked order;
    uint32_t flags;
};

/* --- scores --- */

/* On its way into packed form: an integer; else a string of 4 or 8 bytes, a float or a double. Each has one form only. */
struct packed_score {
    struct packed packed;
    char bytes[sizeof(double)];
};

static bool is_whole(double v) { return fabs(v) < 9e18 && (double)(int64_t)v == v && !(v == 0 && signbit(v)); }
static bool is_float(double v) { return isinf(v) || (fabs(v) <= FLT_MAX && (double)(float)v == v); }

static void pack_score(double v, struct packed_score *x) {
    if (is_whole(v)) {
        packed_of_int(&x->packed, (int64_t)v);
        return;
    }
    float f = is_float(v) ? (float)v : 0;
    uint32_t size = is_float(v) ? sizeof f : sizeof v;
    memcpy(x->bytes, is_float(v) ? (const void *)&f : (const void *)&v, size);
    packed_of_text(&x->packed, x->bytes, size);
}

static double score_at(const uint8_t *at) {
    double v;
    float f;
    if (packed_is_int(at)) return (double)packed_int(at);
    if (*at == sizeof f) {
        memcpy(&f, at + 1, sizeof f);
        return f;
    }
    memcpy(&v, at + 1, sizeof v);
    return v;
}

static inline struct fields fields_of(const struct zset *x) {
    struct fields f = {.memory = x->memory, .secret = x->secret, .page = x->page};
    if (!x->large) return f;
    f.page = x->large->page;
    f.map = x->large->map;
    return f;
}

struct fields zset_fields(const struct zset *x) {
    return fields_of(x);
}

double zset_field_score(const struct field *x) { return score_at(x->value); }

static void keep_fields(struct zset *x, const struct fields *f) {
    x->large->page = f->page;
    x->large->map = f->map;
}

/* The text of a name that is looked for. */
static const char *name_text(const struct field_name *name, char scratch[INT64_TEXT_SIZE], uint32_t *size) {
    if (!name->packed.text_size && packed_is_int(name->packed.head)) return packed_text(name->packed.head, scratch, size);
    *size = name->packed.text_size;
    return name->packed.text;
}

/* The place of a member by its score. */
static struct ranked_bound place_of(double score, const struct field_name *name, char scratch[INT64_TEXT_SIZE]) {
    struct ranked_bound b = {.by_score = true, .by_member = true, .score = score};
    b.text = name_text(name, scratch, &b.size);
    return b;
}

/* --- small ones --- */

static void read_item(struct page *p, struct page_at at, struct zset_item *out) {
    out->member = page_item(p, at.offset);
    out->score = score_at(out->member + packed_size(out->member));
    out->at = at;
    out->place = NULL;
}

/* The place in the page that has before it what the bound says. */
static struct page_at page_before(const struct page *p, const struct ranked_bound *b) {
    uint32_t from = 0, to = p->n;
    while (from < to) {
        uint32_t middle = (from + to) / 2, size;
        struct zset_item m;
        char scratch[INT64_TEXT_SIZE];
        read_item((struct page *)(uintptr_t)p, page_nth(p, middle), &m);
        const char *text = b->by_member ? zset_text(&m, scratch, &size) : (size = 0, "");
        if (ranked_is_before(b, m.score, text, size)) from = middle + 1;
        else to = middle;
    }
    return page_nth(p, from);
}

static void write_item(uint8_t *to, const struct packed *name, const struct packed_score *score) {
    packed_write(name, to);
    packed_write(&score->packed, to + name->size);
}

static int add_to_page(struct zset *x, const struct field_name *name, double score) {
    char scratch[INT64_TEXT_SIZE];
    struct packed packed = name->packed;
    struct packed_score value;
    struct ranked_bound b = place_of(score, name, scratch);
    pack_score(score, &value);
    if (packed_make_far(x->memory, &packed)) return -ENOMEM;
    struct page_at at = x->page ? page_before(x->page, &b) : (struct page_at){0};
    uint8_t *item = page_insert(x->memory, &x->page, at, hash_fingerprint(name->hash), packed.size + (uint32_t)value.packed.size);
    if (!item) {
        packed_drop(x->memory, packed.head);
        return -ENOMEM;
    }
    write_item(item, &packed, &value);
    return 0;
}

/* Gives a member another score: its item gets the size, then the place that it has by that. */
static int move_in_page(struct zset *x, const struct field_name *name, const struct zset_item *was, double score) {
    char scratch[INT64_TEXT_SIZE];
    uint8_t kept[PACKED_SIZE_MAX];
    struct packed_score value;
    struct page_at at = was->at, to;
    struct ranked_bound b = place_of(score, name, scratch);
    uint32_t name_size = packed_size(was->member);
    pack_score(score, &value);
    uint32_t size = name_size + (uint32_t)value.packed.size;
    to = page_before(x->page, &b);
    bool up = to.index > at.index + 1;
    memcpy(kept, was->member, name_size);
    uint8_t *item = page_resize(x->memory, &x->page, at, size);
    if (!item) return -ENOMEM;
    memcpy(item, kept, name_size);
    packed_write(&value.packed, item + name_size);
    if (!up && to.index >= at.index) return 0;
    if (up) to = page_nth(x->page, to.index - 1);
    page_move(x->page, at, to);
    return 0;
}

/* --- large ones --- */

static bool free_large_some(struct memory *m, struct trash *trash) {
    struct zset_large *x = (struct zset_large *)trash;
    if (ranked_free_some(m, &x->order, FREE_NODES)) return true;
    if (x->map && fieldmap_free_some(m, x->map, FREE_PAGES)) return true;
    fieldmap_drop_items(m, x->page);
    page_free(m, x->page);
    memory_free(m, x, sizeof *x);
    return false;
}

static void free_large(struct memory *m, struct zset_large *x) {
    while (free_large_some(m, &x->trash)) {}
}

static int add_to_large(struct zset *x, const struct field_name *name, double score) {
    char scratch[INT64_TEXT_SIZE];
    struct ranked *order = &x->large->order;
    struct fields f = fields_of(x);
    struct ranked_bound b = place_of(score, name, scratch);
    struct ranked_path p;
    struct ranked_spare spare;
    struct packed_score value;
    pack_score(score, &value);
    ranked_find(order, &f, &b, &p);
    if (ranked_reserve(x->memory, order, &p, &spare)) {
        packed_drop(x->memory, name->packed.head);
        return -ENOMEM;
    }
    if (fields_put(&f, name, NULL, &value.packed, FIELD_NEVER)) {
        ranked_give_back(x->memory, &spare);
        return -ENOMEM;
    }
    keep_fields(x, &f);
    ranked_insert(order, &p, &(struct record){score, name->hash}, &spare);
    return 0;
}

static struct field field_of(struct fields *f, const struct zset_item *m) {
    return (struct field){.name = m->member,
        .value = m->member + packed_size(m->member),
        .expires_at_ms = FIELD_NEVER,
        .place = f->map ? m->place : &f->page,
        .at = m->at};
}

static void read_field(const struct fields *f, const struct field *x, struct zset_item *out) {
    read_item(*x->place, x->at, out);
    if (f->map) out->place = x->place;
}

/* The record with the new score goes in before that with the old one goes out, so that nothing has changed if memory is refused. */
static int move_in_large(struct zset *x, const struct field_name *name, const struct zset_item *was, double score) {
    char scratch[INT64_TEXT_SIZE];
    struct ranked *order = &x->large->order;
    struct fields f = fields_of(x);
    struct ranked_bound b = place_of(score, name, scratch);
    struct record old = {was->score, name->hash};
    struct ranked_path p;
    struct ranked_spare spare = {.n = 0};
    struct packed_score value;
    struct field field = field_of(&f, was);
    pack_score(score, &value);
    ranked_find_record(order, &f, &old, name, &p);
    bool stays = score == was->score /* but for its sign: 0 and -0 */ || ranked_may_rescore(&p, score);
    if (!stays) ranked_find(order, &f, &b, &p);
    if (!stays && ranked_reserve(x->memory, order, &p, &spare)) return -ENOMEM;
    if (fields_put(&f, name, &field, &value.packed, FIELD_NEVER)) {
        ranked_give_back(x->memory, &spare);
        return -ENOMEM;
    }
    keep_fields(x, &f);
    if (stays) {
        ranked_rescore(&p, score);
        return 0;
    }
    ranked_insert(order, &p, &(struct record){score, name->hash}, &spare);
    ranked_find_record(order, &f, &old, name, &p);
    ranked_remove(x->memory, order, &p);
    return 0;
}

static void remove_record(struct zset *x, const struct zset_item *m, const struct ranked_path *p) {
    struct fields f = fields_of(x);
    struct field field = field_of(&f, m);
    ranked_remove(x->memory, &x->large->order, p);
    fields_remove(&f, &field);
    keep_fields(x, &f);
    if (x->large->order.n) return;
    free_large(x->memory, x->large);
    x->large = NULL;
}

/* --- from one to the other --- */

static void name_of(const struct zset *x, const struct zset_item *m, char scratch[INT64_TEXT_SIZE], struct field_name *out) {
    uint32_t size;
    const char *text = zset_text(m, scratch, &size);
    if (packed_is_int(m->member)) packed_of_int(&out->packed, packed_int(m->member));
    else packed_of_text(&out->packed, text, size);
    out->packed.text = text;
    out->packed.text_size = size;
    out->hash = hash_key(x->secret, text, size);
}

/* All members of from, in order. -ENOMEM: not all. */
static int add_all(struct zset *to, const struct zset *from) {
    struct zset_walk w;
    struct zset_item m;
    zset_begin(from, &w, 0, UINT64_MAX, false);
    while (zset_next(from, &w, &m)) {
        char scratch[INT64_TEXT_SIZE];
        struct field_name name;
        name_of(to, &m, scratch, &name);
        if (to->large ? add_to_large(to, &name, m.score) : zset_put(to, &name, NULL, m.score)) return -ENOMEM;
    }
    return 0;
}

static struct zset_large *new_large(const struct zset *of) {
    struct zset_large *x = memory_alloc(of->memory, sizeof *x);
    if (x) *x = (struct zset_large){.secret = of->secret};
    return x;
}

/* A page too large becomes a large one. Without memory it stays one, as long as there is room in it. */
static void outgrow(struct zset *x) {
    if (x->page->n <= ZSET_PAGE_ITEMS && x->page->used <= ZSET_PAGE_BYTES) return;
    struct zset to = {.memory = x->memory, .secret = x->secret, .large = new_large(x)};
    if (!to.large) return;
    to.large->flags = x->page->flags;
    if (add_all(&to, x)) {
        free_large(x->memory, to.large);
        return;
    }
    zset_free(x, NULL);
    *x = to;
}

/* --- members --- */

void zset_name(const struct zset *x, const char *p, uint32_t size, struct field_name *out) {
    packed_of(&out->packed, p, size);
    out->hash = hash_key(x->secret, p, size);
}

void zset_name_of(const struct zset *x, const struct zset_item *m, char scratch[INT64_TEXT_SIZE], struct field_name *out) {
    name_of(x, m, scratch, out);
}

bool zset_find(const struct zset *x, const struct field_name *name, struct zset_item *out) {
    struct fields f = fields_of(x);
    struct field found;
    if (zset_is_empty(x) || !fields_find(&f, name, &found)) return false;
    read_field(&f, &found, out);
    return true;
}

void zset_prefetch(const struct zset *x, const struct field_name *names, uint32_t n) {
    struct fields f = fields_of(x);
    if (!f.map) return;
    for (uint32_t i = 0; i < n; i++) fields_prefetch_place(&f, names[i].hash);
    for (uint32_t i = 0; i < n; i++) fields_prefetch_page(&f, names[i].hash);
}

/* Of a fieldmap its lines, and of the order its root's first. */
static void prefetch_inside(const struct zset_large *x) {
    __builtin_prefetch(x->map);
    __builtin_prefetch((const char *)x->map + LINE);
    __builtin_prefetch(x->order.root);
}

void zset_prefetch_stage(const struct zset *x, uint64_t hash, unsigned stage) {
    if (stage == 0) {
        for (size_t at = 0; at < sizeof(struct zset_large); at += LINE) __builtin_prefetch((const char *)x->large + at);
        return;
    }
    if (stage == 1) {
        prefetch_inside(x->large);
        return;
    }
    struct fields f = fields_of(x);
    if (stage == 2) fields_prefetch_place(&f, hash);
    else fields_prefetch_page(&f, hash);
}

uint64_t zset_rank(const struct zset *x, const struct field_name *name, const struct zset_item *m) {
    struct fields f = fields_of(x);
    struct ranked_path p;
    if (!x->large) return m->at.index;
    ranked_find_record(&x->large->order, &f, &(struct record){m->score, name->hash}, name, &p);
    return p.rank;
}

int zset_put(struct zset *x, const struct field_name *name, const struct zset_item *was, double score) {
    assert(!isnan(score));
    if (was && was->score == score && signbit(was->score) == signbit(score)) return 0;
    if (x->large) return was ? move_in_large(x, name, was, score) : add_to_large(x, name, score);
    if (was ? move_in_page(x, name, was, score) : add_to_page(x, name, score)) return -ENOMEM;
    outgrow(x);
    return 0;
}

void zset_remove(struct zset *x, const struct field_name *name, const struct zset_item *m) {
    struct fields f = fields_of(x);
    struct ranked_path p;
    if (!x->large) {
        packed_drop(x->memory, m->member);
        page_remove(x->memory, &x->page, m->at);
        return;
    }
    ranked_find_record(&x->large->order, &f, &(struct record){m->score, name->hash}, name, &p);
    remove_record(x, m, &p);
}

/* --- ranks --- */

uint64_t zset_count(const struct zset *x) { return x->large ? x->large->order.n : x->page ? x->page->n : 0; }

uint64_t zset_before(const struct zset *x, const struct zset_bound *b) {
    struct ranked_bound bound = {
        .by_score = b->by == ZSET_BY_SCORE, .by_member = b->by == ZSET_BY_MEMBER, .after = b->after, .score = b->score};
    struct fields f = fields_of(x);
    struct ranked_path p;
    bound.text = b->text;
    bound.size = b->size;
    if (b->by == ZSET_FIRST || zset_is_empty(x)) return 0;
    if (b->by == ZSET_LAST) return zset_count(x);
    if (!x->large) return page_before(x->page, &bound).index;
    ranked_find(&x->large->order, &f, &bound, &p);
    return p.rank;
}

/* The item of a hash in the fields of a large one. */
static void item_of_hash(const struct fields *f, double score, uint64_t hash, struct zset_item *out) {
    out->score = score;
    out->place = f->map ? fieldmap_page(f->map, hash) : NULL;
    out->member = fields_place_of(f, hash, &out->at);
}

static void item_of_record(const struct zset *x, const struct ranked_path *p, struct zset_item *out) {
    struct fields f = fields_of(x);
    const struct leaf *l = p->nodes[0];
    item_of_hash(&f, l->scores[p->at[0]], l->hashes[p->at[0]], out);
}

void zset_at(const struct zset *x, uint64_t rank, struct zset_item *out) {
    struct ranked_path p;
    if (!x->large) {
        read_item(x->page, page_nth(x->page, (uint32_t)rank), out);
        return;
    }
    ranked_at(&x->large->order, rank, &p);
    item_of_record(x, &p, out);
}

void zset_random(const struct zset *x, uint64_t (*next)(void *), void *arg, struct zset_item *out) {
    struct fields f = fields_of(x);
    struct field found;
    fields_random(&f, next, arg, &found);
    read_field(&f, &found, out);
}

void zset_remove_range(struct zset *x, uint64_t from, uint64_t n) {
    struct zset_item m;
    struct ranked_path p;
    for (; n && !zset_is_empty(x); n--) {
        if (!x->large) {
            zset_at(x, from, &m);
            zset_remove(x, NULL, &m);
            continue;
        }
        ranked_at(&x->large->order, from, &p);
        item_of_record(x, &p, &m);
        remove_record(x, &m, &p);
    }
}

/* --- walks --- */

/* Comes to the leaf of the walk's rank. All places in there that will be looked for are brought on their way, and the first pages. */
static void enter_leaf(const struct zset *x, struct zset_walk *w) {
    struct ranked_path p;
    struct fields f = fields_of(x);
    ranked_at(&x->large->order, w->rank, &p);
    w->leaf = p.nodes[0];
    w->at.index = p.at[0];
    uint32_t there = w->down ? w->at.index + 1 : w->leaf->n - w->at.index, n = w->left < there ? (uint32_t)w->left : there;
    for (uint32_t i = 0; i < n; i++) fields_prefetch_place(&f, w->leaf->hashes[w->down ? w->at.index - i : w->at.index + i]);
    for (uint32_t i = 0; i < n && i < AHEAD; i++) fields_prefetch_page(&f, w->leaf->hashes[w->down ? w->at.index - i : w->at.index + i]);
}

void zset_begin(const struct zset *x, struct zset_walk *w, uint64_t rank, uint64_t n, bool down) {
    uint64_t count = zset_count(x), there = rank >= count ? 0 : down ? rank + 1 : count - rank;
    *w = (struct zset_walk){.rank = rank, .left = n < there ? n : there, .down = down};
    if (w->left && !x->large) w->at = page_nth(x->page, (uint32_t)rank);
}

static void next_in_page(const struct zset *x, struct zset_walk *w, struct zset_item *out) {
    read_item(x->page, w->at, out);
    if (w->down) w->at = w->at.index ? page_nth(x->page, w->at.index - 1) : (struct page_at){0};
    else w->at.offset += page_item_size(x->page, w->at.index++);
}

static void next_in_large(const struct zset *x, struct zset_walk *w, struct zset_item *out) {
    struct fields f = fields_of(x);
    if (!w->leaf) enter_leaf(x, w);
    uint32_t at = w->at.index, left = w->down ? at : w->leaf->n - at - 1;
    if (left >= AHEAD && w->left > AHEAD) fields_prefetch_page(&f, w->leaf->hashes[w->down ? at - AHEAD : at + AHEAD]);
    item_of_hash(&f, w->leaf->scores[at], w->leaf->hashes[at], out);
    w->rank += w->down ? UINT64_MAX : 1;
    w->at.index += w->down ? UINT32_MAX : 1;
    if (!left) w->leaf = NULL;
}

bool zset_next(const struct zset *x, struct zset_walk *w, struct zset_item *out) {
    if (!w->left) return false;
    w->left--;
    if (x->large) next_in_large(x, w, out);
    else next_in_page(x, w, out);
    return true;
}

struct visiting {
    zset_visit *visit;
    void *arg;
};

static void visit_field(void *arg, const struct field *x) {
    struct visiting *v = arg;
    struct zset_item m;
    read_item(*x->place, x->at, &m);
    v->visit(v->arg, &m);
}

uint64_t zset_scan(const struct zset *x, uint64_t cursor, zset_visit *visit, void *arg) {
    struct visiting v = {visit, arg};
    struct fields f = fields_of(x);
    return fields_scan(&f, cursor, visit_field, &v);
}

/* --- as a whole --- */

size_t zset_memory(const struct zset *x) {
    struct fields f = fields_of(x);
    return fields_memory(&f) + (x->large ? memory_usable(sizeof *x->large) + ranked_memory(&x->large->order) : 0);
}

enum { SHOWN_LARGE = 1 };

bool zset_is_shown_large(const struct zset *x) { return (x->large ? x->large->flags : x->page->flags) & SHOWN_LARGE; }

void zset_show_large(struct zset *x, bool large) {
    uint32_t flags = large ? SHOWN_LARGE : 0;
    if (x->large) x->large->flags = flags;
    else x->page->flags = (uint8_t)flags;
}

int zset_drop_signs(struct zset *x) {
    const struct zset_bound zero = {.by = ZSET_BY_SCORE};
    struct zset_item m;
    for (uint64_t rank = zset_before(x, &zero), n = zset_count(x); rank < n; rank++) {
        char scratch[INT64_TEXT_SIZE];
        struct field_name name;
        zset_at(x, rank, &m);
        if (m.score != 0) return 0;
        zset_name_of(x, &m, scratch, &name);
        if (zset_put(x, &name, &m, 0)) return -ENOMEM;
    }
    return 0;
}

void zset_free(struct zset *x, struct trash **large) {
    if (x->large && large) {
        x->large->trash = (struct trash){*large, free_large_some};
        *large = &x->large->trash;
    } else if (x->large) {
        free_large(x->memory, x->large);
    } else {
        fieldmap_drop_items(x->memory, x->page);
        page_free(x->memory, x->page);
    }
    x->page = NULL;
    x->large = NULL;
}

int zset_copy_some(struct zset *to, const struct zset *from, struct packed_copying *c) {
    if (!from->large) return from->page ? page_copy_some(to->memory, &to->page, from->page, c) : 0;
    if (!to->large && !(to->large = new_large(to))) return -ENOMEM;
    struct zset_large *x = to->large;
    x->flags = from->large->flags;
    while (x->order.n < from->large->order.n) {
        if (c->cost <= 0) return 1;
        c->cost -= LEAF_COST;
        if (ranked_copy_leaf(to->memory, &x->order, &from->large->order) < 0) return -ENOMEM;
    }
    struct fields f = fields_of(to), of = fields_of(from);
    int more = fields_copy_some(&f, &of, c);
    keep_fields(to, &f);
    return more;
}

/* A page's block grows by steps of up to this many bytes. */
#define PAGE_STEP 256u
/* A member in a page: its pair of bytes, as a part of four, and its score. */
#define MEMBER_BYTES 17u
/* What each member costs more in a large one, whose nodes are not full; and the first of those. */
#define LARGE_MEMBER_BYTES 56u
#define LARGE_BYTES 2048u

size_t zset_needs_member(const struct field_name *name) { return packed_far_needs(&name->packed) + name->packed.size + MEMBER_BYTES; }

size_t zset_needs(const struct zset *x, uint32_t members) {
    size_t n = zset_count(x) + members;
    if (x->large) return (size_t)members * PAGE_STEP + LARGE_BYTES;
    return n > ZSET_PAGE_ITEMS ? LARGE_BYTES + n * LARGE_MEMBER_BYTES : PAGE_STEP;
}

/* --- from an entry, and back --- */

struct zset zset_of(struct memory *m, const struct hash_secret *secret, enum entry_encoding encoding, void *container) {
    struct zset x = {.memory = m, .secret = secret};
    if (encoding != ENC_RANKED) {
        x.page = container;
        return x;
    }
    x.large = container;
    x.secret = x.large->secret;
    return x;
}

void *zset_container(const struct zset *x, enum entry_encoding *encoding) {
    *encoding = x->large ? ENC_RANKED : ENC_PAGE;
    return x->large ? (void *)x->large : (void *)x->page;
}

struct zset zset_new(struct shard *s) {
    return (struct zset){.memory = s->memory, .secret = s->secret};
}

struct zset zset_open(struct shard *s, const struct key *k) {
    if (!k->entry) return zset_new(s);
    return zset_of(s->memory, s->secret, entry_encoding(k->entry), entry_pointer(k->entry));
}

int zset_store(struct shard *s, struct key *k, struct zset *x, enum key_event event) {
    enum entry_encoding encoding;
    void *container = zset_container(x, &encoding);
    if (!container) {
        if (!k->entry) return 0;
        key_after_change(s, k, event);
        return key_store(s, k, TYPE_ZSET, ENC_PAGE, NULL, event);
    }
    if (key_store(s, k, TYPE_ZSET, encoding, container, event)) {
        zset_drop(s, x);
        return -ENOMEM;
    }
    key_after_change(s, k, event);
    return 0;
}

int zset_keep(struct shard *s, struct key *k, struct zset *x, enum key_event event) {
    enum entry_encoding encoding;
    void *container = zset_container(x, &encoding);
    assert(container);
    int refused = key_store(s, k, TYPE_ZSET, encoding, container, event);
    if (refused) zset_drop(s, x);
    return refused;
}

int zset_replace(struct shard *s, struct key *k, struct zset *x, enum key_event event) {
    enum entry_encoding encoding;
    void *container = zset_container(x, &encoding);
    if (!container) {
        if (k->entry) key_delete(s, k, KEY_DEL);
        return 0;
    }
    if (!key_replace(s, k, TYPE_ZSET, encoding, container, event)) return 0;
    zset_drop(s, x);
    return -ENOMEM;
}

void zset_drop(struct shard *s, struct zset *x) { zset_free(x, &s->trash); }
