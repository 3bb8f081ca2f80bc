/* In this file: limits; the ring of a chain; from small to large and back; pushing, popping; finding, walking; as a whole. Changes in the middle: list_edit.c. */
#include "shard/list_internal.h"

#include <assert.h>
#include <errno.h>

#include "shard/container.h"
#include "shard/memory.h"

#define LINE 64u
#define FIRST_ROOM 4u
#define FILL_MIN (-5)
#define FILL_MAX 32767
#define FILL_BYTES 8192u /* where the fill counts elements */
/* Nodes that are freed at once; more go in slices. */
#define FREE_AT_ONCE 32u

/* ---- limits ---- */

static int32_t clamp_fill(int64_t fill) { return fill < FILL_MIN ? FILL_MIN : fill > FILL_MAX ? FILL_MAX : (int32_t)fill; }

uint32_t list_node_bytes(const struct list *x) {
    if (x->fill >= 0) return FILL_BYTES;
    uint32_t bytes = 2048u << -x->fill;
    return bytes < NODE_BYTES_MAX ? bytes : NODE_BYTES_MAX;
}

bool list_node_takes(const struct list *x, const struct node *p, uint32_t n, uint32_t bytes) {
    uint32_t most = x->fill < 0 ? UINT16_MAX : x->fill ? (uint32_t)x->fill : 1;
    return !p || (p->n + n <= most && NODE_HEADER + node_used(p) + bytes <= list_node_bytes(x));
}

/* Bytes of a block that a new node of a chain is given: as it will be full one day, unless so many elements make it full. */
static uint32_t chain_block(const struct list *x) { return x->fill < 0 ? list_node_bytes(x) : 0; }

/* ---- the ring ---- */

static size_t ring_bytes(uint32_t room) { return room * sizeof(struct place); }

static bool resize_ring(struct memory *m, struct chain *c, uint32_t room) {
    struct place *to = memory_alloc(m, ring_bytes(room));
    if (!to) return false;
    for (uint32_t i = 0; i < c->n_places; i++) to[i] = *chain_place(c, i);
    memory_free(m, c->places, ring_bytes(c->room));
    c->memory += memory_usable(ring_bytes(room)) - memory_usable(ring_bytes(c->room));
    c->places = to;
    c->room = room;
    c->first = 0;
    return true;
}

struct place *chain_insert_place(struct memory *m, struct chain *c, uint32_t index) {
    if (c->n_places == c->room && !resize_ring(m, c, 2 * c->room)) return NULL;
    c->n_places++;
    if (index < c->n_places / 2) {
        c->first = (c->first - 1) & (c->room - 1);
        for (uint32_t i = 0; i < index; i++) *chain_place(c, i) = *chain_place(c, i + 1);
    } else {
        for (uint32_t i = c->n_places - 1; i > index; i--) *chain_place(c, i) = *chain_place(c, i - 1);
    }
    struct place *p = chain_place(c, index);
    *p = (struct place){0};
    return p;
}

void chain_remove_place(struct memory *m, struct chain *c, uint32_t index) {
    c->n_places--;
    if (index <= c->n_places / 2) {
        for (uint32_t i = index; i > 0; i--) *chain_place(c, i) = *chain_place(c, i - 1);
        c->first = (c->first + 1) & (c->room - 1);
    } else {
        for (uint32_t i = index; i < c->n_places; i++) *chain_place(c, i) = *chain_place(c, i + 1);
    }
    if (c->room > FIRST_ROOM && c->n_places < c->room / 4) resize_ring(m, c, c->room / 2);
}

static uint32_t end_index(const struct chain *c, enum list_end end) { return end == LIST_HEAD ? 0 : c->n_places - 1; }

/* ---- from small to large, and back ---- */

/* A chain without places. NULL: no memory. */
static struct chain *chain_new(struct memory *m, uint32_t room, int32_t fill) {
    struct chain *c = memory_alloc(m, sizeof *c);
    struct place *places = c ? memory_alloc(m, ring_bytes(room)) : NULL;
    if (!places) {
        if (c) memory_free(m, c, sizeof *c);
        return NULL;
    }
    *c = (struct chain){.places = places, .room = room, .fill = fill, .memory = memory_usable(sizeof *c) + memory_usable(ring_bytes(room))};
    return c;
}

static void chain_free(struct memory *m, struct chain *c) {
    memory_free(m, c->places, ring_bytes(c->room));
    memory_free(m, c, sizeof *c);
}

bool list_make_chain(struct list *x) {
    if (x->chain) return true;
    struct chain *c = chain_new(x->memory, FIRST_ROOM, x->fill);
    if (!c) return false;
    struct node *p = x->node;
    struct place *place = chain_insert_place(x->memory, c, 0);
    place->node = p;
    chain_count(c, place, p->n, (int64_t)node_far_memory(p));
    x->node = NULL;
    x->chain = c;
    return true;
}

void list_shrink(struct list *x) {
    struct chain *c = x->chain;
    if (!c) {
        if (x->node) node_trim(x->memory, &x->node);
        return;
    }
    if (c->n_places > 1) return;
    struct node *p = c->n_places ? chain_place(c, 0)->node : NULL;
    if (p && !list_node_takes(x, p, p->n, NODE_HEADER + node_used(p))) return;
    chain_free(x->memory, c);
    x->chain = NULL;
    x->node = p;
    if (p) node_trim(x->memory, &x->node);
}

/* ---- pushing ---- */

/* Room for an element in a chain, where *far bytes are counted for it. */
static uint8_t *push_to_chain(struct list *x, enum list_end end, uint32_t size, size_t far) {
    struct chain *c = x->chain;
    uint32_t index = end_index(c, end);
    struct place *p = chain_place(c, index);
    bool full = !list_node_takes(x, p->node, 1, size);
    if (full) {
        index += end == LIST_TAIL;
        p = chain_insert_place(x->memory, c, index);
        if (!p) return NULL;
    }
    uint8_t *to = node_push(x->memory, &p->node, end, size, chain_block(x));
    if (!to) {
        if (full) chain_remove_place(x->memory, c, index);
        return NULL;
    }
    chain_count(c, p, 1, (int64_t)far);
    return to;
}

int list_push(struct list *x, enum list_end end, struct arg *text) {
    struct element e;
    uint8_t *to = NULL;
    if (element_make(x->memory, &e, text)) return -ENOMEM;
    if (!x->chain && list_node_takes(x, x->node, 1, e.size)) to = node_push(x->memory, &x->node, end, e.size, 0);
    else if (list_make_chain(x)) to = push_to_chain(x, end, e.size, packed_far_memory(element_head(&e)));
    if (!to) {
        element_unmake(x->memory, &e);
        return -ENOMEM;
    }
    node_write(&e, to);
    return 0;
}

void list_load_add(struct list_load *load, uint32_t size) {
    struct element e;
    struct packed far = {.head = {PACKED_FAR}, .text_size = size};
    bool is_far = size > NODE_INLINE_MAX;
    if (!is_far) element_of(&e, "", 0);
    load->n++;
    load->bytes += is_far ? PACKED_FAR_SIZE + 1 : size + 6;
    load->far += is_far ? packed_far_needs(&far) : 0;
}

size_t list_needs(const struct list *x, const struct list_load *load) {
    uint64_t most = list_node_bytes(x), bytes = load->bytes, ring = 0;
    if (!x->chain && bytes <= most && list_node_takes(x, x->node, (uint32_t)load->n, (uint32_t)bytes)) {
        size_t block = node_needs(node_used(x->node) + (uint32_t)bytes), now = node_memory(x->node);
        return load->far + (block > now ? block - now : 0);
    }
    uint64_t nodes = x->fill < 0 ? 2 * bytes / most + 1 : load->n, room = x->chain ? x->chain->room : FIRST_ROOM;
    if (!x->chain || x->chain->n_places + nodes > room) ring = 2 * ring_bytes((uint32_t)(nodes + room)) + sizeof *x->chain;
    /* In nodes of so many bytes; or in blocks that are rounded, with what rounding the one that is there takes. */
    return load->far + ring + (x->fill < 0 ? nodes * most : bytes + bytes / 4 + nodes * (NODE_HEADER + 64) + most / 8);
}

/* ---- popping ---- */

/* Frees about so many nodes, as many elements with a block of their own count like one. False: that was all, and itself. */
static bool chain_free_some(struct memory *m, struct chain *c, uint32_t nodes) {
    for (uint64_t done = 0; c->n_places; c->n_places--) {
        struct place *p = chain_place(c, c->n_places - 1);
        if (done >= nodes) return true;
        if (c->n_places > 4) __builtin_prefetch(chain_place(c, c->n_places - 5)->node);
        if (p->far) node_drop_far(m, p->node);
        done += p->far ? p->n : 1;
        node_free(m, p->node);
    }
    chain_free(m, c);
    return false;
}

static bool free_chain_some(struct memory *m, struct trash *x) { return chain_free_some(m, (struct chain *)x, FREE_AT_ONCE); }

/* Takes n places out at an end, and frees what they have: some at once; many as a chain of their own, in slices. */
static void drop_places(struct list *x, enum list_end end, uint32_t n, struct trash **trash) {
    struct chain *c = x->chain, *cut = NULL;
    uint32_t room = FIRST_ROOM;
    while (room < n) room *= 2;
    if (trash && n > FREE_AT_ONCE) cut = chain_new(x->memory, room, c->fill);
    for (uint32_t i = 0; i < n; i++) {
        struct place *p = chain_place(c, end_index(c, end));
        c->n -= p->n;
        c->memory -= p->block + p->far;
        if (cut) {
            cut->places[cut->n_places++] = *p;
        } else {
            if (p->far) node_drop_far(x->memory, p->node);
            node_free(x->memory, p->node);
        }
        if (end == LIST_HEAD) c->first = (c->first + 1) & (c->room - 1);
        c->n_places--;
    }
    if (c->room > FIRST_ROOM && c->n_places < c->room / 4) {
        uint32_t less = FIRST_ROOM;
        while (less < 2 * c->n_places) less *= 2;
        resize_ring(x->memory, c, less);
    }
    if (!cut) return;
    cut->trash = (struct trash){*trash, free_chain_some};
    *trash = &cut->trash;
}

/* Takes n elements out of a node, not all. What was referred to: bytes. */
static size_t pop_from(struct memory *m, struct node **node, enum list_end end, uint32_t n) {
    struct node *p = *node;
    uint32_t at = end == LIST_HEAD ? p->first : p->end;
    size_t far = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (end == LIST_TAIL) at -= element_size_before(node_at(p, at));
        const uint8_t *e = node_at(p, at);
        if (__builtin_expect(*e == PACKED_FAR, 0)) {
            far += packed_far_memory(e);
            packed_drop(m, e);
        }
        if (end == LIST_HEAD) at += element_size(e);
    }
    if (end == LIST_HEAD) p->first = (uint16_t)at;
    else p->end = (uint16_t)at;
    p->n = (uint16_t)(p->n - n);
    return far;
}

void list_pop(struct list *x, enum list_end end, uint64_t n, struct trash **trash) {
    struct chain *c = x->chain;
    if (n >= list_count(x)) {
        list_free(x, trash);
        return;
    }
    if (!n) return;
    if (!c) {
        pop_from(x->memory, &x->node, end, (uint32_t)n);
        node_trim(x->memory, &x->node);
        return;
    }
    uint32_t places = 0;
    for (uint32_t i = end_index(c, end), of; (of = chain_place(c, i)->n) <= n; i += end == LIST_HEAD ? 1 : -1u, places++) n -= of;
    if (places) drop_places(x, end, places, trash);
    if (n) {
        struct place *p = chain_place(c, end_index(c, end));
        size_t far = pop_from(x->memory, &p->node, end, (uint32_t)n);
        chain_count(c, p, -(int64_t)n, -(int64_t)far);
    }
    if (c->n_places == 1) list_shrink(x);
}

/* ---- finding, walking ---- */

static struct node *node_of(const struct list *x, uint32_t place) { return x->chain ? chain_place(x->chain, place)->node : x->node; }

void list_at(const struct list *x, uint64_t index, struct list_item *out) {
    const struct chain *c = x->chain;
    uint32_t i = 0;
    if (c && index <= c->n / 2) {
        while (index >= chain_place(c, i)->n) index -= chain_place(c, i++)->n;
    } else if (c) {
        uint64_t behind = c->n - index; /* from this element on */
        for (i = c->n_places - 1; behind > chain_place(c, i)->n; i--) behind -= chain_place(c, i)->n;
        index = chain_place(c, i)->n - behind;
    }
    const struct node *p = node_of(x, i);
    *out = (struct list_item){node_at(p, node_nth(p, (uint32_t)index)), i, (uint32_t)index};
}

void list_peek(const struct list *x, enum list_end end, struct list_item *out) {
    uint32_t i = x->chain ? end_index(x->chain, end) : 0;
    const struct node *p = node_of(x, i);
    uint32_t at = end == LIST_HEAD ? p->first : p->end - element_size_before(node_at(p, p->end));
    *out = (struct list_item){node_at(p, at), i, end == LIST_HEAD ? 0 : p->n - 1u};
}

struct list_walk list_walk_from(const struct list *x, uint64_t index, enum list_end towards) {
    struct list_walk w = {.towards = towards};
    if (index >= list_count(x)) return w;
    list_at(x, index, &w.next);
    w.node = node_of(x, w.next.place);
    return w;
}

/* Into the neighbouring node. */
static void next_node(const struct list *x, struct list_walk *w) {
    const struct chain *c = x->chain;
    uint32_t last = c ? end_index(c, w->towards) : 0;
    w->next.at = NULL;
    if (!c || w->next.place == last) return;
    w->next.place += w->towards == LIST_TAIL ? 1 : -1u;
    const struct node *p = w->node = node_of(x, w->next.place);
    if (w->next.place != last)
        __builtin_prefetch(node_of(x, w->next.place + (w->towards == LIST_TAIL ? 1 : -1u))); /* while this one is read */
    w->next.nth = w->towards == LIST_TAIL ? 0 : p->n - 1u;
    w->next.at = node_at(p, w->towards == LIST_TAIL ? p->first : p->end - element_size_before(node_at(p, p->end)));
}

bool list_next(const struct list *x, struct list_walk *w, struct list_item *out) {
    if (!w->next.at) return false;
    *out = w->next;
    if (w->towards == LIST_TAIL) {
        w->next.at += element_size(w->next.at);
        if (__builtin_expect(++w->next.nth == w->node->n, 0)) next_node(x, w);
    } else if (__builtin_expect(w->next.nth-- == 0, 0)) {
        next_node(x, w);
    } else {
        w->next.at -= element_size_before(w->next.at);
    }
    return true;
}

void list_prefetch(const struct list *x, enum list_end end, uint32_t step) {
    const struct chain *c = x->chain;
    if (!c) step += 2;
    if (step == 0) {
        __builtin_prefetch(c);
    } else if (step == 1) {
        __builtin_prefetch(chain_place(c, end_index(c, end)));
    } else if (step < LIST_PREFETCH_STEPS) {
        const struct node *p = c ? chain_place(c, end_index(c, end))->node : x->node;
        __builtin_prefetch(step == 2 ? (const char *)p : (const char *)p + (end == LIST_HEAD ? p->first : p->end) - 1);
    }
}

/* ---- as a whole ---- */

struct list list_view(struct memory *m, enum entry_encoding encoding, void *container) {
    struct list x = {.memory = m, .fill = LIST_FILL};
    if (encoding == ENC_CHAIN) {
        x.chain = container;
        x.fill = x.chain->fill;
    } else x.node = container;
    return x;
}

struct list list_new(struct shard *s, int64_t fill) {
    return (struct list){.memory = s->memory, .fill = clamp_fill(fill)};
}

struct list list_open(struct shard *s, const struct key *k, int64_t fill) {
    if (!k->entry) return list_new(s, fill);
    struct list x = list_view(s->memory, entry_encoding(k->entry), entry_pointer(k->entry));
    if (!x.chain) x.fill = clamp_fill(fill);
    return x;
}

static void *container_of(const struct list *x, enum entry_encoding *encoding) {
    *encoding = x->chain ? ENC_CHAIN : ENC_NODE;
    return x->chain ? (void *)x->chain : (void *)x->node;
}

int list_store(struct shard *s, struct key *k, struct list *x, enum key_event event) {
    enum entry_encoding encoding;
    void *container = container_of(x, &encoding);
    if (!container) {
        if (!k->entry) return 0;
        key_after_change(s, k, event);
        key_store(s, k, TYPE_LIST, ENC_NODE, NULL, event);
        return 0;
    }
    if (key_store(s, k, TYPE_LIST, encoding, container, event)) {
        list_free(x, &s->trash);
        return -ENOMEM;
    }
    key_after_change(s, k, event);
    return 0;
}

int list_keep(struct shard *s, struct key *k, struct list *x) {
    enum entry_encoding encoding;
    void *container = container_of(x, &encoding);
    int refused = key_store(s, k, TYPE_LIST, encoding, container, KEY_DEL);
    if (refused) list_free(x, &s->trash);
    return refused;
}

int list_replace(struct shard *s, struct key *k, struct list *x, enum key_event event) {
    enum entry_encoding encoding;
    void *container = container_of(x, &encoding);
    if (!container) {
        if (k->entry) key_delete(s, k, KEY_DEL);
        return 0;
    }
    if (key_replace(s, k, TYPE_LIST, encoding, container, event)) {
        list_free(x, &s->trash);
        return -ENOMEM;
    }
    return 0;
}

void list_free(struct list *x, struct trash **trash) {
    if (x->chain && trash) {
        x->chain->trash = (struct trash){*trash, free_chain_some};
        *trash = &x->chain->trash;
    } else if (x->chain) {
        while (chain_free_some(x->memory, x->chain, UINT32_MAX)) {}
    } else if (x->node) {
        node_drop_far(x->memory, x->node);
        node_free(x->memory, x->node);
    }
    x->chain = NULL;
    x->node = NULL;
}

size_t list_memory(const struct list *x) { return x->chain ? x->chain->memory : node_memory(x->node) + node_far_memory(x->node); }

/* Of the last place. */
static int copy_place(struct list *to, const struct list *from, struct packed_copying *c) {
    struct chain *x = to->chain;
    struct place *place = &x->places[x->n_places - 1];
    const struct place *p = chain_place(from->chain, x->n_places - 1);
    int more = node_copy_some(to->memory, &place->node, p->node, c);
    if (place->node) chain_count(x, place, (int64_t)p->n - place->n, (int64_t)c->memory);
    c->memory = 0;
    return more;
}

int list_copy_some(struct list *to, const struct list *from, struct packed_copying *c) {
    if (!from->chain) return from->node ? node_copy_some(to->memory, &to->node, from->node, c) : 0;
    if (!to->chain && !(to->chain = chain_new(to->memory, from->chain->room, from->chain->fill))) return -ENOMEM;
    struct chain *x = to->chain;
    to->fill = x->fill;
    int more = c->inside ? copy_place(to, from, c) : 0;
    while (!more && x->n_places < from->chain->n_places) {
        if (c->cost <= 0) return 1;
        x->places[x->n_places++] = (struct place){0};
        more = copy_place(to, from, c);
    }
    return more;
}
