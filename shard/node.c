#include "shard/node.h"

#include <errno.h>

#include "shard/hop.h"
#include "shard/memory.h"

/* ---- elements ---- */

static uint32_t with_size_behind(uint32_t form) { return form + (form < NODE_WIDE ? 1 : 3); }

void element_of(struct element *x, const char *text, uint32_t size) {
    packed_of(&x->packed, text, size);
    x->middling = size <= NODE_INLINE_MAX && packed_is_far(&x->packed);
    x->size = with_size_behind(x->middling ? 3 + size : x->packed.size);
}

int element_make_far(struct memory *m, struct element *x) { return x->middling ? 0 : packed_make_far(m, &x->packed); }

int element_make(struct memory *m, struct element *x, struct arg *a) {
    element_of(x, a->p, a->size);
    if (__builtin_expect(a->flags & ARG_BLOB, 0)) packed_adopt(m, &x->packed, a);
    else if (__builtin_expect(a->flags & ARG_SHARED, 0)) packed_share(&x->packed, a);
    return element_make_far(m, x);
}

void element_unmake(struct memory *m, struct element *x) {
    if (!x->middling) packed_drop(m, x->packed.head);
}

bool element_equal(const struct element *x, const uint8_t *at) {
    if (!x->middling) return *at != NODE_MIDDLING && packed_equal(&x->packed, at);
    uint32_t size = x->packed.text_size;
    return *at == NODE_MIDDLING && at[1] + 256u * at[2] == size && !memcmp(at + 3, x->packed.text, size);
}

void node_write(const struct element *x, uint8_t *to) {
    uint32_t form;
    if (x->middling) {
        uint32_t size = x->packed.text_size;
        to[0] = NODE_MIDDLING;
        to[1] = (uint8_t)size;
        to[2] = (uint8_t)(size >> 8);
        memcpy(to + 3, x->packed.text, size);
        form = 3 + size;
    } else {
        packed_write(&x->packed, to);
        form = x->packed.size;
    }
    to += form;
    if (form < NODE_WIDE) {
        *to = (uint8_t)form;
        return;
    }
    to[0] = (uint8_t)form;
    to[1] = (uint8_t)(form >> 8);
    to[2] = NODE_WIDE;
}

uint32_t node_nth(const struct node *p, uint32_t nth) {
    uint32_t at = p->first;
    if (nth <= p->n / 2u) {
        while (nth--) at += element_size(node_at(p, at));
        return at;
    }
    at = p->end;
    for (uint32_t left = p->n - nth; left; left--) at -= element_size_before(node_at(p, at));
    return at;
}

/* ---- blocks ---- */

/* A block for so many bytes: in steps of about a sixteenth, so that a node that grows is not copied at each element; a large one as the allocator rounds it. */
static uint32_t round_block(uint32_t bytes) {
    uint32_t step = 8;
    while (step < 256 && bytes > 16 * step) step *= 2;
    bytes = (bytes + step - 1) & ~(step - 1);
    return bytes <= MEMORY_SMALL_MAX ? bytes : (uint32_t)((memory_usable(bytes) + 7) & ~(size_t)7);
}

/* Where the elements in a block of so many bytes must end: offsets have 16 bits. */
static uint32_t end_of(uint32_t block) { return block < NODE_BYTES_MAX ? block : NODE_BYTES_MAX; }
static uint32_t room_end(const struct node *p) { return end_of(8u * p->block); }

size_t node_needs(uint32_t used) { return round_block(NODE_HEADER + used); }

/* An empty node in a block of so many bytes, whose elements will begin there. */
static struct node *new_node(struct memory *m, uint32_t block, uint32_t first) {
    struct node *p = memory_alloc(m, block);
    if (p) *p = (struct node){.block = (uint16_t)(block / 8), .first = (uint16_t)first, .end = (uint16_t)first};
    return p;
}

void node_free(struct memory *m, struct node *p) {
    if (p) memory_free(m, p, 8u * p->block);
}

/* The elements in another block, beginning there, with a gap before `at`. NULL: no memory, nothing changed. */
static struct node *move_node(struct memory *m, struct node *p, uint32_t block, uint32_t first, uint32_t at, uint32_t gap) {
    struct node *to = new_node(m, block, first);
    if (!to) return NULL;
    uint32_t before = at - p->first, behind = p->end - at;
    memcpy(node_at(to, first), node_at(p, p->first), before);
    memcpy(node_at(to, first + before + gap), node_at(p, at), behind);
    to->n = p->n;
    to->end = (uint16_t)(first + before + gap + behind);
    node_free(m, p);
    return to;
}

/* Moves the elements within the block. */
static void slide(struct node *p, uint32_t first) {
    uint32_t used = node_used(p);
    memmove(node_at(p, first), node_at(p, p->first), used);
    p->first = (uint16_t)first;
    p->end = (uint16_t)(first + used);
}

/* Room for so many bytes at an end. What there is at the other end is shared, so that a queue, whose end becomes full again and again, moves its elements once for every few of them; and
 * if it is little, the block grows. */
static bool make_room(struct memory *m, struct node **at, enum list_end end, uint32_t size, uint32_t block) {
    struct node *p = *at;
    uint32_t used = node_used(p), bytes = NODE_HEADER + used + size;
    if (bytes > NODE_BYTES_MAX) return false;
    if (p && room_end(p) >= bytes + used / 8) {
        uint32_t share = (room_end(p) - bytes) / 2;
        slide(p, NODE_HEADER + share + (end == LIST_HEAD ? size : 0));
        return true;
    }
    if (block < bytes) block = round_block(bytes);
    uint32_t first = end == LIST_HEAD ? end_of(block) - used : NODE_HEADER;
    p = p ? move_node(m, p, block, first, p->end, 0) : new_node(m, block, first);
    if (p) *at = p;
    return p;
}

uint8_t *node_push(struct memory *m, struct node **at, enum list_end end, uint32_t size, uint32_t block) {
    struct node *p = *at;
    bool fits = p && (end == LIST_HEAD ? p->first >= NODE_HEADER + size : p->end + size <= room_end(p));
    if (__builtin_expect(!fits, 0)) {
        if (!make_room(m, at, end, size, block)) return NULL;
        p = *at;
    }
    p->n++;
    if (end == LIST_HEAD) return node_at(p, p->first = (uint16_t)(p->first - size));
    p->end = (uint16_t)(p->end + size);
    return node_at(p, p->end - size);
}

/* Makes the gap of `old` bytes at `at` one of `size`, by moving the shorter side where there is room. False: there is none. */
static bool move_side(struct node *p, uint32_t *at, uint32_t old, uint32_t size) {
    uint32_t before = *at - p->first, behind = p->end - *at - old;
    bool head_fits = p->first + old >= NODE_HEADER + size, tail_fits = p->end + size <= room_end(p) + old;
    if (head_fits && (before <= behind || !tail_fits)) {
        uint32_t first = p->first + old - size;
        memmove(node_at(p, first), node_at(p, p->first), before);
        p->first = (uint16_t)first;
        *at = first + before;
    } else if (tail_fits) {
        memmove(node_at(p, *at + size), node_at(p, *at + old), behind);
        p->end = (uint16_t)(p->end + size - old);
    } else return false;
    return true;
}

uint8_t *node_replace(struct memory *m, struct node **node, uint32_t at, uint32_t old, uint32_t size) {
    struct node *p = *node;
    uint32_t more = size > old ? size - old : 0, bytes = NODE_HEADER + node_used(p) + more;
    if (!move_side(p, &at, old, size)) {
        if (bytes > NODE_BYTES_MAX) return NULL;
        uint32_t before = at - p->first;
        p = move_node(m, p, round_block(bytes), NODE_HEADER, at, more);
        if (!p) return NULL;
        *node = p;
        at = p->first + before;
    }
    if (!old) p->n++;
    return node_at(p, at);
}

uint32_t node_remove(struct memory *m, struct node **node, uint32_t at, uint32_t bytes, uint32_t n) {
    struct node *p = *node;
    if (n == p->n) {
        node_free(m, p);
        *node = NULL;
        return 0;
    }
    move_side(p, &at, bytes, 0);
    p->n = (uint16_t)(p->n - n);
    return at;
}

void node_trim(struct memory *m, struct node **node) {
    struct node *p = *node;
    size_t now = node_memory(p);
    uint32_t block = round_block(NODE_HEADER + node_used(p));
    if (!p || block > now - now / 4) return;
    p = move_node(m, p, block, NODE_HEADER, p->end, 0);
    if (p) *node = p;
}

struct node *node_split(struct memory *m, struct node *p, uint32_t at, uint32_t n) {
    uint32_t bytes = p->end - at;
    struct node *to = new_node(m, round_block(NODE_HEADER + bytes), NODE_HEADER);
    if (!to) return NULL;
    memcpy(node_at(to, NODE_HEADER), node_at(p, at), bytes);
    to->n = (uint16_t)n;
    to->end = (uint16_t)(NODE_HEADER + bytes);
    p->n = (uint16_t)(p->n - n);
    p->end = (uint16_t)at;
    return to;
}

bool node_join(struct memory *m, struct node **node, struct node *from) {
    struct node *p = *node;
    uint32_t more = node_used(from), bytes = NODE_HEADER + node_used(p) + more;
    if (bytes > NODE_BYTES_MAX) return false;
    if (p->end + more > room_end(p)) {
        if (bytes <= room_end(p)) slide(p, NODE_HEADER);
        else if (!(p = move_node(m, p, round_block(bytes), NODE_HEADER, p->end, 0))) return false;
    }
    memcpy(node_at(p, p->end), node_at(from, from->first), more);
    p->end = (uint16_t)(p->end + more);
    p->n = (uint16_t)(p->n + from->n);
    *node = p;
    node_free(m, from);
    return true;
}

/* ---- what the elements refer to ---- */

size_t node_far_memory(const struct node *p) {
    size_t bytes = 0;
    for (uint32_t at = p ? p->first : 0; p && at < p->end; at += element_size(node_at(p, at))) bytes += packed_far_memory(node_at(p, at));
    return bytes;
}

void node_drop_far(struct memory *m, struct node *p) {
    for (uint32_t at = p ? p->first : 0; p && at < p->end; at += element_size(node_at(p, at))) packed_drop(m, node_at(p, at));
}

/* The copy of the block. *far: its elements refer to something. */
static struct node *copy_block(struct memory *m, const struct node *p, bool *far) {
    struct node *to = new_node(m, round_block(NODE_HEADER + node_used(p)), NODE_HEADER);
    if (!to) return NULL;
    memcpy(node_at(to, NODE_HEADER), node_at(p, p->first), node_used(p));
    to->n = p->n;
    to->end = (uint16_t)(NODE_HEADER + node_used(p));
    *far = false;
    for (uint32_t at = NODE_HEADER; at < to->end; at += element_size(node_at(to, at))) {
        if (*node_at(to, at) != PACKED_FAR) continue;
        packed_forget(node_at(to, at));
        *far = true;
    }
    return to;
}

static int copy_elements(struct memory *m, struct node *to, const struct node *from, struct packed_copying *c) {
    for (; c->at < to->end; c->at += element_size(node_at(to, c->at))) {
        if (*node_at(to, c->at) != PACKED_FAR) continue;
        if (c->cost <= 0) return 1;
        int more = packed_copy_far(m, node_at(to, c->at), node_at(from, from->first + c->at - NODE_HEADER), c);
        if (more) return more;
    }
    return 0;
}

/* What a node costs, in bytes that are copied meanwhile; and its bytes twice, as they are mostly the first in their memory pages. */
#define COPY_COST 1024

int node_copy_some(struct memory *m, struct node **to, const struct node *from, struct packed_copying *c) {
    if (!c->inside) {
        *to = copy_block(m, from, &c->inside);
        if (!*to) return -ENOMEM;
        c->at = NODE_HEADER;
        c->cost -= COPY_COST + 2 * (int64_t)node_used(from);
    }
    int more = c->inside ? copy_elements(m, *to, from, c) : 0;
    c->inside = more;
    return more;
}
