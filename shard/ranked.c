/* In this file: searching; nodes; inserting; removing; the end. */
#include "shard/ranked.h"

#include <assert.h>
#include <errno.h>
#include <string.h>

#include "shard/memory.h"

#define NODE_SIZE sizeof(struct leaf)
_Static_assert(sizeof(struct inner) <= NODE_SIZE, "all nodes have the same size");
_Static_assert(NODE_SIZE <= MEMORY_SMALL_MAX, "nodes lie in the shard's pages");

static uint32_t room_of(uint32_t level) { return level ? INNER_ROOM : LEAF_ROOM; }

/* --- searching --- */

static int compare(const char *a, uint32_t a_size, const char *b, uint32_t b_size) {
    int order = memcmp(a, b, a_size < b_size ? a_size : b_size);
    return order ? order : (a_size > b_size) - (a_size < b_size);
}

bool ranked_is_before(const struct ranked_bound *b, double score, const char *text, uint32_t size) {
    if (b->by_score && score != b->score) return score < b->score;
    if (!b->by_member) return b->after;
    int order = compare(text, size, b->text, b->size);
    return order < 0 || (order == 0 && b->after);
}

/* How many of n ascending scores lie below this one; or_equal: or are it. */
static uint32_t scores_before(const double *scores, uint32_t n, double score, bool or_equal) {
    uint32_t from = 0;
    while (n) {
        uint32_t half = n / 2;
        double middle = scores[from + half];
        bool before = middle < score || (or_equal && middle == score);
        from = before ? from + half + 1 : from;
        n = before ? n - half - 1 : half;
    }
    return from;
}

static bool member_is_before(const struct fields *members, uint64_t hash, const struct ranked_bound *b) {
    char scratch[INT64_TEXT_SIZE];
    uint32_t size;
    struct page_at at;
    const char *text = packed_text(fields_place_of(members, hash, &at), scratch, &size);
    int order = compare(text, size, b->text, b->size);
    return order < 0 || (order == 0 && b->after);
}

/* How many of n records lie before the bound. */
static uint32_t records_before(
    const struct fields *members, const double *scores, const uint64_t *hashes, uint32_t n, const struct ranked_bound *b) {
    uint32_t from = 0, to = n;
    if (b->by_score) {
        if (!b->by_member) return scores_before(scores, n, b->score, b->after);
        from = scores_before(scores, n, b->score, false);
        to = from + scores_before(scores + from, n - from, b->score, true);
    }
    while (from < to) {
        uint32_t middle = (from + to) / 2;
        if (member_is_before(members, hashes[middle], b)) from = middle + 1;
        else to = middle;
    }
    return from;
}

/* Down one level. */
static void step_down(struct ranked_path *p, uint32_t level, const struct inner *x, uint32_t at) {
    p->at[level] = at;
    for (uint32_t i = 0; i < at; i++) p->rank += x->counts[i];
    p->nodes[level - 1] = x->children[at];
}

static void begin(const struct ranked *t, struct ranked_path *p) {
    p->rank = 0;
    if (t->levels) p->nodes[t->levels - 1] = t->root;
    else p->nodes[0] = NULL;
}

void ranked_find(const struct ranked *t, const struct fields *members, const struct ranked_bound *b, struct ranked_path *p) {
    begin(t, p);
    for (uint32_t level = t->levels; level-- > 1;) {
        const struct inner *x = p->nodes[level];
        uint32_t before = records_before(members, x->scores, x->hashes, x->n, b);
        step_down(p, level, x, before ? before - 1 : 0);
    }
    const struct leaf *x = p->nodes[0];
    p->at[0] = x ? records_before(members, x->scores, x->hashes, x->n, b) : 0;
    p->rank += p->at[0];
}

void ranked_find_record(
    const struct ranked *t, const struct fields *members, const struct record *x, const struct field_name *name, struct ranked_path *p) {
    char scratch[INT64_TEXT_SIZE];
    struct ranked_bound b = {.by_score = true, .by_member = true, .after = true, .score = x->score};
    b.text = name->packed.text;
    b.size = name->packed.text_size;
    if (!b.size && packed_is_int(name->packed.head)) b.text = packed_text(name->packed.head, scratch, &b.size);
    begin(t, p);
    for (uint32_t level = t->levels; level-- > 1;) {
        const struct inner *i = p->nodes[level];
        step_down(p, level, i, records_before(members, i->scores, i->hashes, i->n, &b) - 1);
    }
    const struct leaf *l = p->nodes[0];
    uint32_t at = scores_before(l->scores, l->n, x->score, false);
    while (at < l->n && l->hashes[at] != x->hash) at++;
    assert(at < l->n && l->scores[at] == x->score);
    p->at[0] = at;
    p->rank += at;
}

void ranked_at(const struct ranked *t, uint64_t rank, struct ranked_path *p) {
    begin(t, p);
    for (uint32_t level = t->levels; level-- > 1;) {
        const struct inner *x = p->nodes[level];
        uint32_t at = 0;
        uint64_t left = rank - p->rank;
        for (; left >= x->counts[at]; at++) left -= x->counts[at];
        step_down(p, level, x, at);
    }
    p->at[0] = (uint32_t)(rank - p->rank);
    p->rank = rank;
}

/* --- nodes --- */

static uint32_t node_n(const void *node) { return *(const uint32_t *)node; }

/* The first record of a node of this level. */
static struct record first_of(const void *node, uint32_t level) {
    const struct leaf *l = node;
    const struct inner *i = node;
    return level ? (struct record){i->scores[0], i->hashes[0]} : (struct record){l->scores[0], l->hashes[0]};
}

static uint64_t count_of(const void *node, uint32_t level) {
    const struct inner *x = node;
    uint64_t n = 0;
    if (!level) return node_n(node);
    for (uint32_t i = 0; i < x->n; i++) n += x->counts[i];
    return n;
}

/* Moves n elements of a node from one place to another, of the same or another node. */
static void move_records(struct leaf *to, uint32_t to_at, const struct leaf *from, uint32_t at, uint32_t n) {
    memmove(to->scores + to_at, from->scores + at, n * sizeof *to->scores);
    memmove(to->hashes + to_at, from->hashes + at, n * sizeof *to->hashes);
}

static void move_children(struct inner *to, uint32_t to_at, const struct inner *from, uint32_t at, uint32_t n) {
    memmove(to->scores + to_at, from->scores + at, n * sizeof *to->scores);
    memmove(to->hashes + to_at, from->hashes + at, n * sizeof *to->hashes);
    memmove(to->counts + to_at, from->counts + at, n * sizeof *to->counts);
    memmove(to->children + to_at, from->children + at, n * sizeof *to->children);
}

static void move(uint32_t level, void *to, uint32_t to_at, const void *from, uint32_t at, uint32_t n) {
    if (level) move_children(to, to_at, from, at, n);
    else move_records(to, to_at, from, at, n);
}

static void set_n(void *node, uint32_t n) { *(uint32_t *)node = n; }

static void take_element(uint32_t level, void *node, uint32_t at) {
    uint32_t n = node_n(node);
    move(level, node, at, node, at + 1, n - at - 1);
    set_n(node, n - 1);
}

static void *new_node(struct ranked *t, struct ranked_spare *spare) {
    void *node = spare->nodes[--spare->n];
    set_n(node, 0);
    t->nodes++;
    return node;
}

static void free_node(struct memory *m, struct ranked *t, void *node) {
    memory_free(m, node, NODE_SIZE);
    t->nodes--;
}

/* --- inserting --- */

int ranked_reserve(struct memory *m, const struct ranked *t, const struct ranked_path *p, struct ranked_spare *spare) {
    uint32_t needed = t->levels ? 0 : 1, level = 0;
    for (; level < t->levels && node_n(p->nodes[level]) == room_of(level); level++) needed++;
    if (needed && level == t->levels && t->levels) needed++; /* a new root */
    for (spare->n = 0; spare->n < needed; spare->n++) {
        spare->nodes[spare->n] = memory_alloc(m, NODE_SIZE);
        if (spare->nodes[spare->n]) continue;
        ranked_give_back(m, spare);
        return -ENOMEM;
    }
    return 0;
}

void ranked_give_back(struct memory *m, struct ranked_spare *spare) {
    while (spare->n) memory_free(m, spare->nodes[--spare->n], NODE_SIZE);
}

/* Whether the place is behind all of the tree, or before it. */
static bool is_last(const struct ranked *t, const struct ranked_path *p) {
    for (uint32_t level = 1; level < t->levels; level++)
        if (p->at[level] + 1 < node_n(p->nodes[level])) return false;
    return p->at[0] == node_n(p->nodes[0]);
}

static bool is_first(const struct ranked *t, const struct ranked_path *p) {
    for (uint32_t level = 0; level < t->levels; level++)
        if (p->at[level]) return false;
    return true;
}

/* What goes into a node: a record, or a child with its first record and count. */
struct element {
    struct record first;
    uint64_t count;
    void *child;
};

static void write_element(uint32_t level, void *node, uint32_t at, const struct element *x) {
    struct leaf *l = node;
    struct inner *i = node;
    if (!level) {
        l->scores[at] = x->first.score;
        l->hashes[at] = x->first.hash;
        return;
    }
    i->scores[at] = x->first.score;
    i->hashes[at] = x->first.hash;
    i->counts[at] = x->count;
    i->children[at] = x->child;
}

static void put_element(uint32_t level, void *node, uint32_t at, const struct element *x) {
    uint32_t n = node_n(node);
    move(level, node, at + 1, node, at, n - at);
    set_n(node, n + 1);
    write_element(level, node, at, x);
}

/* Puts it into a node. If that is full it is split at `cut`, and what is right of that is returned. */
static void *put_or_split(
    struct ranked *t, uint32_t level, void *node, uint32_t at, uint32_t cut, const struct element *x, struct ranked_spare *spare) {
    uint32_t n = node_n(node);
    if (n < room_of(level)) {
        put_element(level, node, at, x);
        return NULL;
    }
    void *right = new_node(t, spare);
    move(level, right, 0, node, cut, n - cut);
    set_n(right, n - cut);
    set_n(node, cut);
    if (at < cut || !cut) put_element(level, node, at, x);
    else put_element(level, right, at - cut, x);
    return right;
}

static struct element element_of(void *node, uint32_t level) {
    return (struct element){first_of(node, level), count_of(node, level), node};
}

static void new_root(struct ranked *t, void *left, void *right, struct ranked_spare *spare) {
    uint32_t level = t->levels;
    struct element first = element_of(left, level - 1), second = element_of(right, level - 1);
    void *root = new_node(t, spare);
    put_element(level, root, 0, &first);
    put_element(level, root, 1, &second);
    t->root = root;
    t->levels++;
}

/* A full node that grows at its end, as with scores that only rise, stays full, and the new one gets what comes. */
void ranked_insert(struct ranked *t, const struct ranked_path *p, const struct record *x, struct ranked_spare *spare) {
    struct element e = {.first = *x};
    if (!t->levels) {
        t->root = new_node(t, spare);
        t->levels = 1;
        t->n = 1;
        put_element(0, t->root, 0, &e);
        return;
    }
    bool last = is_last(t, p), first = is_first(t, p);
    void *right = NULL;
    for (uint32_t level = 0; level < t->levels; level++) {
        void *node = p->nodes[level];
        uint32_t at = p->at[level], n = node_n(node), cut = last ? n : first ? 0 : (n + 1) / 2;
        if (!level) {
            right = put_or_split(t, 0, node, at, cut, &e, spare);
            continue;
        }
        struct inner *up = node;
        struct record below = first_of(up->children[at], level - 1);
        up->scores[at] = below.score;
        up->hashes[at] = below.hash;
        up->counts[at] = right ? count_of(up->children[at], level - 1) : up->counts[at] + 1;
        if (!right) continue;
        e = element_of(right, level - 1);
        if (first) cut = 1;
        right = put_or_split(t, level, node, at + 1, cut, &e, spare);
    }
    if (right) new_root(t, p->nodes[t->levels - 1], right, spare);
    t->n++;
}

bool ranked_may_rescore(const struct ranked_path *p, double score) {
    const struct leaf *x = p->nodes[0];
    uint32_t at = p->at[0];
    return at && at + 1 < x->n && x->scores[at - 1] < score && score < x->scores[at + 1];
}

void ranked_rescore(const struct ranked_path *p, double score) {
    struct leaf *x = p->nodes[0];
    x->scores[p->at[0]] = score;
}

/* --- removing --- */

/* Joins the node at this place, once it is less than a quarter full, with one beside it, if a quarter stays free. */
static void join(struct memory *m, struct ranked *t, struct inner *up, uint32_t at, uint32_t level) {
    uint32_t n = node_n(up->children[at]), room = room_of(level);
    if (n > room / 4 || up->n < 2) return;
    uint32_t left = at + 1 < up->n ? at : at - 1;
    void *a = up->children[left], *b = up->children[left + 1];
    if (node_n(a) + node_n(b) > room - room / 4) return;
    move(level, a, node_n(a), b, 0, node_n(b));
    set_n(a, node_n(a) + node_n(b));
    up->counts[left] += up->counts[left + 1];
    take_element(level + 1, up, left + 1);
    free_node(m, t, b);
}

static void lower_root(struct memory *m, struct ranked *t) {
    while (t->levels > 1 && node_n(t->root) == 1) {
        void *root = t->root;
        t->root = ((struct inner *)root)->children[0];
        free_node(m, t, root);
        t->levels--;
    }
    if (node_n(t->root)) return;
    free_node(m, t, t->root);
    *t = (struct ranked){0};
}

void ranked_remove(struct memory *m, struct ranked *t, const struct ranked_path *p) {
    take_element(0, p->nodes[0], p->at[0]);
    t->n--;
    for (uint32_t level = 1; level < t->levels; level++) {
        struct inner *up = p->nodes[level];
        uint32_t at = p->at[level];
        up->counts[at]--;
        if (!node_n(up->children[at])) {
            free_node(m, t, up->children[at]);
            take_element(level, up, at);
            continue;
        }
        struct record below = first_of(up->children[at], level - 1);
        up->scores[at] = below.score;
        up->hashes[at] = below.hash;
        join(m, t, up, at, level - 1);
    }
    lower_root(m, t);
}

/* --- copying --- */

static void append_child(struct inner *up, const struct inner *like, uint32_t at, void *child) {
    move_children(up, up->n, like, at, 1);
    up->children[up->n++] = child;
}

/* Leaves come in order, each with the nodes above it of which it is the first: so a copy of the same shape grows at its right edge. */
int ranked_copy_leaf(struct memory *m, struct ranked *to, const struct ranked *from) {
    struct ranked_path p;
    struct ranked_spare spare = {.n = 0};
    uint32_t begin = 1; /* nodes that begin there */
    ranked_at(from, to->n, &p);
    while (begin < from->levels && !p.at[begin]) begin++;
    for (; spare.n < begin; spare.n++) {
        spare.nodes[spare.n] = memory_alloc(m, NODE_SIZE);
        if (spare.nodes[spare.n]) continue;
        ranked_give_back(m, &spare);
        return -ENOMEM;
    }
    struct inner *up = NULL;
    for (uint32_t level = from->levels; level-- > 0;) {
        void *node;
        if (level < begin) {
            node = new_node(to, &spare);
            if (up) append_child(up, p.nodes[level + 1], p.at[level + 1], node);
            else to->root = node;
        } else node = up ? up->children[up->n - 1] : to->root;
        up = node;
    }
    memcpy(up, p.nodes[0], NODE_SIZE);
    to->levels = from->levels;
    to->n += node_n(up);
    return to->n < from->n;
}

/* --- the end --- */

size_t ranked_memory(const struct ranked *t) { return t->nodes * memory_usable(NODE_SIZE); }

/* The last leaf, again and again, and the nodes above it as they become empty. */
bool ranked_free_some(struct memory *m, struct ranked *t, uint32_t nodes) {
    while (t->root) {
        struct inner *up[RANKED_LEVELS];
        uint32_t level = t->levels - 1;
        void *node = t->root;
        if (!nodes--) return true;
        for (; level; level--) {
            up[level] = node;
            node = up[level]->children[up[level]->n - 1];
        }
        free_node(m, t, node);
        for (level = 1; level < t->levels && !--up[level]->n; level++) free_node(m, t, up[level]);
        if (level == t->levels) t->root = NULL;
    }
    return false;
}
