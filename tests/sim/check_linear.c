#include <stdlib.h>
#include <string.h>

#include "tests/sim/check.h"
#include "tests/sim/model.h"

/* States looked at before the search is given up. */
#define NODES_MAX 200000u
#define MEMORY_SIZE (1u << 19)

/* ---- the order in which keys were accessed ---- */

struct access {
    uint64_t at;
    uint32_t op;
    bool writes;
};

static int by_time(const void *a, const void *b) {
    const struct access *x = a, *y = b;
    return x->at < y->at ? -1 : x->at > y->at;
}

static uint32_t accesses_of(const struct history *h, uint32_t db, uint32_t key, struct access *out, uint32_t max) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < h->n; i++) {
        const struct op *op = h->ops[i];
        if ((op->kind == OP_FLUSH || op->kind == OP_SWAP) && db <= DB_B && n < max) out[n++] = (struct access){op->ran, i, true};
        for (uint32_t j = 0; j < op->n_parts; j++) {
            const struct part *p = &op->parts[j];
            if (p->db == db && p->key == key && p->at && n < max) out[n++] = (struct access){p->at, i, part_changed(p)};
        }
    }
    return n;
}

static void add_conflicts(const struct history *h, struct set earlier[]) {
    static struct access accesses[OPS_MAX * PARTS_MAX];
    for (uint32_t db = 0; db < DBS; db++)
        for (uint32_t key = 0; key < h->plan->settings.keys; key++) {
            uint32_t n = accesses_of(h, db, key, accesses, OPS_MAX * PARTS_MAX);
            qsort(accesses, n, sizeof *accesses, by_time);
            for (uint32_t j = 0; j < n; j++)
                for (uint32_t i = 0; i < j; i++)
                    if (accesses[i].op != accesses[j].op && (accesses[i].writes || accesses[j].writes))
                        set_add(&earlier[accesses[j].op], accesses[i].op);
        }
}

/* The operations by when they took effect, about. */
static void sort_by_effect(const struct history *h, uint16_t order[]) {
    for (uint32_t i = 0; i < h->n; i++) {
        uint32_t j = i;
        for (; j && h->ops[order[j - 1]]->ran > h->ops[i]->ran; j--) order[j] = order[j - 1];
        order[j] = (uint16_t)i;
    }
}

/* True: an order that keeps all of these explains every answer. */
static bool explains(const struct history *h, const struct set earlier[], const uint16_t order[]) {
    struct model m;
    struct set done = {{0}};
    model_init(&m, h->plan->settings.keys);
    for (uint32_t n = 0; n < h->n; n++) {
        uint32_t i = 0;
        while (i < h->n && (set_has(&done, order[i]) || !set_is_within(&earlier[order[i]], &done))) i++;
        if (i == h->n || !model_apply(&m, h->ops[order[i]])) return false;
        set_add(&done, order[i]);
    }
    return true;
}

/* ---- the search ---- */

struct search {
    const struct history *h;
    const uint16_t *order;
    uint64_t *seen; /* hashes of states from which there is no way on */
    uint32_t nodes;
    struct set done;
};

static uint64_t hash_state(const struct search *x, const struct model *m) {
    uint64_t hash = model_hash(m);
    for (uint32_t i = 0; i < WORDS; i++) hash = (hash ^ x->done.words[i] ^ hash >> 31) * 0x94d049bb133111ebull;
    return hash | 1;
}

/* True: the rest can be put in order, or the search is given up. */
static bool search(struct search *x, const struct model *before, uint32_t n) {
    if (n == x->h->n || ++x->nodes > NODES_MAX) return true;
    for (uint32_t i = 0; i < x->h->n; i++) {
        uint32_t op = x->order[i];
        struct model m;
        if (set_has(&x->done, op) || !set_is_within(&x->h->earlier[op], &x->done)) continue;
        m = *before;
        if (!model_apply(&m, x->h->ops[op])) continue;
        set_add(&x->done, op);
        uint64_t hash = hash_state(x, &m), *place = &x->seen[hash % MEMORY_SIZE];
        if (*place != hash) {
            if (search(x, &m, n + 1)) return true;
            *place = hash;
        }
        set_remove(&x->done, op);
    }
    return false;
}

const char *check_linear(const struct history *h) {
    static struct set earlier[OPS_MAX];
    static uint64_t seen[MEMORY_SIZE];
    uint16_t order[OPS_MAX];
    sort_by_effect(h, order);
    memcpy(earlier, h->earlier, sizeof earlier);
    add_conflicts(h, earlier);
    if (explains(h, earlier, order)) return NULL;
    memset(seen, 0, sizeof seen);
    struct search x = {.h = h, .order = order, .seen = seen};
    struct model m;
    model_init(&m, h->plan->settings.keys);
    if (!search(&x, &m, 0)) return "no order of the operations explains all answers";
    return x.nodes > NODES_MAX ? "the order of accesses explains nothing, and the search for another was given up"
                               : "keys were accessed in an order that goes round in a circle, though another explains the answers";
}
