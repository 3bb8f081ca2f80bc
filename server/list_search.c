/* List commands that compare elements: LINSERT, LREM, LPOS. Each goes in slices where the list is long. */
#include <mimalloc.h>

#include "server/lists.h"
#include "server/strings.h"

static bool is_long(const struct list *x) { return list_count(x) > LIST_SLICE; }

void list_search_drop(struct shard *s, struct hop *h, struct reply *r) {
    (void)s, (void)r;
    if (h->state > HOP_IN_SLICES) mi_free((void *)(uintptr_t)h->state);
}

/* A copy of a command's beginnings, to be gone on with. NULL: it goes on at once. */
static void *keep_state(struct hop *h, const void *x, size_t size) {
    void *kept = mi_malloc(size);
    if (!kept) return NULL;
    memcpy(kept, x, size);
    h->state = (uint64_t)(uintptr_t)kept;
    return kept;
}

/* It is over; x: what was kept, or that which was not. */
static void forget_state(struct hop *h, void *x, const void *not_kept) {
    if (x == not_kept) return;
    h->state = 0;
    mi_free(x);
}

/* ---- LINSERT ---- */

static void insert(struct shard *s, struct hop *h, struct key *k, struct list *x, const struct list_item *i, bool behind, struct reply *r) {
    struct arg *value = &h->argv[4];
    struct list_load load = {0};
    list_load_add(&load, value->size);
    if (!may_push(s, k, x, &load, r)) return;
    key_before_change(s, k, KEY_LINSERT);
    if (list_insert(x, i, behind, value)) {
        list_keep(s, k, x);
        reply_refused(s, r);
        return;
    }
    uint64_t n = list_count(x);
    list_store(s, k, x, KEY_LINSERT);
    reply_int(r, (int64_t)n);
}

/* In slices the hop's state is how many elements were compared, + HOP_IN_SLICES. */
enum hop_result linsert(struct shard *s, struct hop *h, struct reply *r) {
    bool behind = arg_is(&h->argv[2], "after");
    struct element pivot;
    struct list_item i;
    struct key k;
    struct list x;
    if (!behind && !arg_is(&h->argv[2], "before")) {
        reply_syntax_error(r);
        return HOP_DONE;
    }
    if (!open_list_write(s, h, &k, &x, r)) return HOP_DONE;
    if (!k.entry) {
        reply_int(r, 0);
        return HOP_DONE;
    }
    if (!h->state && is_long(&x)) return HOP_AGAIN;
    uint64_t at = h->state ? h->state - HOP_IN_SLICES : 0, end = at + LIST_SLICE;
    struct list_walk w = list_walk_from(&x, at, LIST_TAIL);
    element_of(&pivot, h->argv[3].p, h->argv[3].size);
    for (; at < end && list_next(&x, &w, &i); at++) {
        if (!list_equal(&i, &pivot)) continue;
        insert(s, h, &k, &x, &i, behind, r);
        return HOP_DONE;
    }
    if (at == list_count(&x)) {
        reply_int(r, -1);
        return HOP_DONE;
    }
    h->state = at + HOP_IN_SLICES;
    return HOP_AGAIN;
}

/* ---- LREM ---- */

enum hop_result lrem(struct shard *s, struct hop *h, struct reply *r) {
    struct list_removal removal = {0}, *at = &removal;
    struct element what;
    struct key k;
    struct list x;
    int64_t count;
    if (!arg_int64(&h->argv[2], &count, r) || !open_list_write(s, h, &k, &x, r)) return HOP_DONE;
    if (!k.entry) {
        reply_int(r, 0);
        return HOP_DONE;
    }
    if (!h->state && is_long(&x)) return HOP_AGAIN;
    if (h->state > HOP_IN_SLICES) {
        at = (struct list_removal *)(uintptr_t)h->state;
    } else {
        removal.from = count < 0 ? LIST_TAIL : LIST_HEAD;
        removal.left = !count ? UINT64_MAX : count < 0 ? 0 - (uint64_t)count : (uint64_t)count;
        struct list_removal *kept = h->state ? keep_state(h, &removal, sizeof removal) : NULL;
        if (kept) at = kept;
    }
    element_of(&what, h->argv[3].p, h->argv[3].size);
    key_before_change(s, &k, KEY_LREM);
    bool more = list_remove_some(&x, &what, at, at != &removal ? LIST_SLICE : UINT32_MAX);
    while (more && at == &removal) more = list_remove_some(&x, &what, at, UINT32_MAX);
    if (more || !at->removed) list_keep(s, &k, &x);
    else list_store(s, &k, &x, KEY_LREM);
    if (more) return HOP_AGAIN;
    reply_int(r, (int64_t)at->removed);
    forget_state(h, at, &removal);
    return HOP_DONE;
}

/* ---- LPOS ---- */

/* Places that are told in one slice. */
#define FOUND_SLICE 4096u
/* Places that were found: the first few, and blocks of more, so that nothing is copied as they become many. */
#define FOUND_FEW 16u
#define FOUND_BLOCK 1000u
struct found {
    struct found *next;
    uint64_t index[FOUND_BLOCK];
};

struct search {
    enum list_end towards;
    bool all;      /* COUNT was given */
    bool ended;    /* what there is was found */
    uint64_t skip; /* matches before the first that is told */
    uint64_t most; /* of those that are told; of elements compared */
    uint64_t most_compared;
    uint64_t compared;
    uint64_t n, told;
    struct found *first, *last; /* those that are to be told yet */
    uint64_t few[FOUND_FEW];
};

static bool out_of_range(struct reply *r, const char *option) {
    reply_errorf(r, "ERR %s can't be negative", option);
    return false;
}

/* False: an error was replied. */
static bool read_search(const struct hop *h, struct search *x, struct reply *r) {
    int64_t rank = 1, count = 1, most = 0;
    memset(x, 0, offsetof(struct search, few)); /* few is written before it is read */
    for (uint32_t i = 3; i < h->argc; i += 2) {
        const struct arg *value = &h->argv[i + 1];
        bool more = i + 1 < h->argc;
        if (more && arg_is(&h->argv[i], "rank")) {
            if (!arg_int64(value, &rank, r)) return false;
            if (rank) continue;
            reply_error(r,
                "ERR RANK can't be zero: use 1 to start from the first match, 2 from the second ... or use negative to start "
                "from the end of the list");
            return false;
        } else if (more && arg_is(&h->argv[i], "count")) {
            if (!parse_int64(value->p, value->size, &count) || count < 0) return out_of_range(r, "COUNT");
            x->all = true;
        } else if (more && arg_is(&h->argv[i], "maxlen")) {
            if (!parse_int64(value->p, value->size, &most) || most < 0) return out_of_range(r, "MAXLEN");
        } else {
            reply_syntax_error(r);
            return false;
        }
    }
    x->towards = rank < 0 ? LIST_HEAD : LIST_TAIL;
    /* The smallest number there is counts as -1. */
    x->skip = rank == INT64_MIN ? 0 : (uint64_t)(rank < 0 ? -rank : rank) - 1;
    x->most = count ? (uint64_t)count : UINT64_MAX;
    x->most_compared = most ? (uint64_t)most : UINT64_MAX;
    return true;
}

static bool note_found(struct search *x, uint64_t index) {
    if (x->n < FOUND_FEW) {
        x->few[x->n++] = index;
        return true;
    }
    uint64_t nth = (x->n - FOUND_FEW) % FOUND_BLOCK;
    if (!nth) {
        struct found *block = mi_malloc(sizeof *block);
        if (!block) return false;
        block->next = NULL;
        if (x->last) x->last->next = block;
        else x->first = block;
        x->last = block;
    }
    x->last->index[nth] = index;
    x->n++;
    return true;
}

static void forget_first(struct search *x) {
    struct found *block = x->first;
    x->first = block->next;
    mi_free(block);
}

static void forget_found(struct search *x) {
    while (x->first) forget_first(x);
}

enum progress { SEARCH_DONE, SEARCH_MORE, SEARCH_REFUSED };

static enum progress search_some(const struct list *l, struct search *x, const struct element *what, uint64_t elements) {
    uint64_t count = list_count(l), all = x->most_compared < count ? x->most_compared : count;
    uint64_t end = elements < all - x->compared ? x->compared + elements : all;
    bool tail = x->towards == LIST_TAIL;
    struct list_walk w = list_walk_from(l, tail ? x->compared : count - 1 - x->compared, x->towards);
    struct list_item i;
    while (x->compared < end && list_next(l, &w, &i)) {
        uint64_t index = tail ? x->compared : count - 1 - x->compared;
        x->compared++;
        if (!list_equal(&i, what)) continue;
        if (x->skip) {
            x->skip--;
            continue;
        }
        if (!note_found(x, index)) return SEARCH_REFUSED;
        if (x->n == x->most) return SEARCH_DONE;
    }
    return x->compared < all ? SEARCH_MORE : SEARCH_DONE;
}

/* About so many of what was found. False: there is more. */
static bool reply_found(struct search *x, uint64_t most, struct reply *r) {
    if (!x->all) {
        if (x->n) reply_int(r, (int64_t)x->few[0]);
        else reply_null(r);
        return true;
    }
    if (!x->told) reply_array(r, x->n);
    uint64_t end = most < x->n - x->told ? x->told + most : x->n;
    for (; x->told < end && x->told < FOUND_FEW; x->told++) reply_int(r, (int64_t)x->few[x->told]);
    while (x->told < end) {
        uint64_t nth = (x->told++ - FOUND_FEW) % FOUND_BLOCK;
        reply_int(r, (int64_t)x->first->index[nth]);
        if (nth == FOUND_BLOCK - 1) forget_first(x);
    }
    return x->told == x->n;
}

void lpos_drop(struct shard *s, struct hop *h, struct reply *r) {
    if (h->state > HOP_IN_SLICES) forget_found((struct search *)(uintptr_t)h->state);
    list_search_drop(s, h, r);
}

/* Goes on with a search. True: it is over. */
static bool go_on(const struct list *l, struct search *x, const struct element *what, bool slice, struct reply *r) {
    if (!x->ended) {
        enum progress progress = search_some(l, x, what, slice ? LIST_SLICE : UINT64_MAX);
        if (progress == SEARCH_MORE) return false;
        if (progress == SEARCH_REFUSED) {
            reply_no_memory(r);
            return true;
        }
        x->ended = true;
    }
    return reply_found(x, slice ? FOUND_SLICE : UINT64_MAX, r);
}

enum hop_result lpos(struct shard *s, struct hop *h, struct reply *r) {
    struct search search, *x = &search;
    struct element what;
    struct key k;
    struct list l;
    if (h->state <= HOP_IN_SLICES && !read_search(h, &search, r)) return HOP_DONE;
    if (!open_list_read(s, h, &k, &l, r)) return HOP_DONE;
    if (!h->state && is_long(&l) && search.most_compared > LIST_SLICE) return HOP_AGAIN;
    if (h->state > HOP_IN_SLICES) x = (struct search *)(uintptr_t)h->state;
    else if (h->state) {
        struct search *kept = keep_state(h, &search, sizeof search);
        if (kept) x = kept;
    }
    element_of(&what, h->argv[2].p, h->argv[2].size);
    if (!go_on(&l, x, &what, x != &search, r)) return HOP_AGAIN;
    forget_found(x);
    forget_state(h, x, &search);
    return HOP_DONE;
}
