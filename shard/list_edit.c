/* Lists: what changes in the middle. A node that is full is split; those that have become small are joined. */
#include <errno.h>

#include "shard/list_internal.h"
#include "shard/memory.h"

static struct node **node_at_place(struct list *x, uint32_t place) { return x->chain ? &chain_place(x->chain, place)->node : &x->node; }

/* Notes what became of the node at a place. */
static void count(struct list *x, uint32_t place, int64_t n, int64_t far) {
    if (x->chain) chain_count(x->chain, chain_place(x->chain, place), n, far);
}

/* ---- inserting, setting ---- */

/* The first element, but the very first, from about the middle of the node's bytes on. */
static uint32_t middle(const struct node *p, uint32_t *nth) {
    uint32_t at = p->first, half = p->first + node_used(p) / 2;
    *nth = 0;
    do {
        at += element_size(node_at(p, at));
        ++*nth;
    } while (at < half && *nth + 1u < p->n);
    return at;
}

/* Splits the node of an element, whose place may then be another one. Of a chain, with more than one element. False: no memory, nothing changed. */
static bool split(struct list *x, struct list_item *i) {
    struct chain *c = x->chain;
    struct place *right = chain_insert_place(x->memory, c, i->place + 1), *left = chain_place(c, i->place);
    if (!right) return false;
    uint32_t nth, at = middle(left->node, &nth);
    right->node = node_split(x->memory, left->node, at, left->n - nth);
    if (!right->node) {
        chain_remove_place(x->memory, c, i->place + 1);
        return false;
    }
    node_trim(x->memory, &left->node);
    int64_t n = right->node->n, far = left->far ? (int64_t)node_far_memory(right->node) : 0;
    chain_count(c, right, n, far);
    chain_count(c, left, -n, -far);
    if (i->nth >= nth) {
        i->place++;
        i->nth -= nth;
    }
    const struct node *p = chain_place(c, i->place)->node;
    i->at = node_at(p, node_nth(p, i->nth));
    return true;
}

/* So that the node of an element may have n elements and so many bytes more, if it does not consist of this one alone. One that was made when a node might have more elements is split
 * until it has no more than that. False: no memory. */
static bool make_room(struct list *x, struct list_item *i, uint32_t n, uint32_t bytes) {
    if (list_node_takes(x, *node_at_place(x, i->place), n, bytes)) return true;
    if (!list_make_chain(x)) return false;
    do {
        if ((*node_at_place(x, i->place))->n == 1) return true;
        if (!split(x, i)) return false;
    } while (!list_node_takes(x, *node_at_place(x, i->place), n, 0));
    return true;
}

/* A node of its own for an element. NULL: no memory. */
static uint8_t *insert_node(struct list *x, uint32_t place, uint32_t size) {
    struct place *p = chain_insert_place(x->memory, x->chain, place);
    if (!p) return NULL;
    uint8_t *to = node_push(x->memory, &p->node, LIST_TAIL, size, 0);
    if (!to) chain_remove_place(x->memory, x->chain, place);
    return to;
}

int list_insert(struct list *x, const struct list_item *at, bool behind, struct arg *text) {
    struct list_item i = *at;
    struct element e;
    uint8_t *to = NULL;
    if (element_make(x->memory, &e, text)) return -ENOMEM;
    if (make_room(x, &i, 1, e.size)) {
        struct node **node = node_at_place(x, i.place);
        if (list_node_takes(x, *node, 1, 0)) {
            uint32_t offset = (uint32_t)(i.at - (uint8_t *)*node) + (behind ? element_size(i.at) : 0);
            to = node_replace(x->memory, node, offset, 0, e.size);
        } else {
            i.place += behind;
            to = insert_node(x, i.place, e.size);
        }
    }
    if (!to) {
        element_unmake(x->memory, &e);
        return -ENOMEM;
    }
    node_write(&e, to);
    count(x, i.place, 1, (int64_t)packed_far_memory(element_head(&e)));
    return 0;
}

int list_set(struct list *x, const struct list_item *at, struct arg *text) {
    struct list_item i = *at;
    struct element e;
    uint32_t old = element_size(i.at);
    uint8_t was[PACKED_FAR_SIZE] = {0}, *to = NULL;
    if (*i.at == PACKED_FAR) memcpy(was, i.at, sizeof was);
    if (element_make(x->memory, &e, text)) return -ENOMEM;
    if (make_room(x, &i, 0, e.size > old ? e.size - old : 0)) {
        struct node **node = node_at_place(x, i.place);
        to = node_replace(x->memory, node, (uint32_t)(i.at - (uint8_t *)*node), old, e.size);
    }
    if (!to) {
        element_unmake(x->memory, &e);
        return -ENOMEM;
    }
    node_write(&e, to);
    count(x, i.place, 0, (int64_t)packed_far_memory(element_head(&e)) - (int64_t)packed_far_memory(was));
    packed_drop(x->memory, was);
    return 0;
}

/* ---- removing ---- */

/* What it costs to take one out, in elements that are looked at. */
#define REMOVAL_COST 8u

/* Takes one out: where now is what was behind it. */
static uint32_t take_out(struct list *x, struct node **node, uint32_t at, size_t *far) {
    const uint8_t *e = node_at(*node, at);
    uint32_t size = element_size(e);
    *far += packed_far_memory(e);
    packed_drop(x->memory, e);
    return node_remove(x->memory, node, at, size, 1);
}

/* How many went from a node, which is freed if all did. */
static uint32_t remove_from(struct list *x, struct node **node, const struct element *what, const struct list_removal *r, size_t *far) {
    uint32_t n = 0, at = r->from == LIST_HEAD ? (*node)->first : (*node)->end;
    while (*node && n < r->left && at != (r->from == LIST_HEAD ? (*node)->end : (*node)->first)) {
        if (r->from == LIST_TAIL) at -= element_size_before(node_at(*node, at));
        if (element_equal(what, node_at(*node, at))) {
            at = take_out(x, node, at, far);
            n++;
        } else if (r->from == LIST_HEAD) at += element_size(node_at(*node, at));
    }
    return n;
}

/* Joins the node at a place with the next one, if there is one and both together leave room. */
static bool join(struct list *x, uint32_t place) {
    struct chain *c = x->chain;
    if (place + 1 >= c->n_places) return false;
    struct place *left = chain_place(c, place), *right = chain_place(c, place + 1);
    if (!list_node_takes(x, left->node, right->n, node_used(right->node) + list_node_bytes(x) / 4)) return false;
    if (!node_join(x->memory, &left->node, right->node)) return false;
    right->node = NULL;
    int64_t n = right->n, far = (int64_t)right->far;
    chain_count(c, right, -n, -far);
    chain_count(c, left, n, far);
    chain_remove_place(x->memory, c, place + 1);
    return true;
}

bool list_remove_some(struct list *x, const struct element *what, struct list_removal *r, uint32_t elements) {
    for (uint32_t done = 0; r->left && r->place < list_nodes(x);) {
        if (done >= elements) return true;
        uint32_t place = r->from == LIST_HEAD ? r->place : list_nodes(x) - 1 - r->place;
        struct node **node = node_at_place(x, place);
        size_t far = 0;
        done += (*node)->n;
        uint32_t n = remove_from(x, node, what, r, &far);
        done += n * REMOVAL_COST;
        r->left -= n;
        r->removed += n;
        if (n && *node) node_trim(x->memory, node);
        count(x, place, -(int64_t)n, -(int64_t)far);
        if (!*node) {
            if (x->chain) chain_remove_place(x->memory, x->chain, place);
            continue;
        }
        bool joined = n && x->chain && (r->from == LIST_TAIL ? join(x, place) : place && join(x, place - 1));
        r->place += !joined;
    }
    list_shrink(x);
    return false;
}
