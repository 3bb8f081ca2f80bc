#include <stdlib.h>
#include <string.h>

#include "tests/sim/check.h"

struct graph {
    const struct history *h;
    struct set earlier[OPS_MAX];
    const char *wrong;
};

static void add_edge(struct graph *g, int from, int to) {
    if (from >= 0 && to >= 0 && from != to) set_add(&g->earlier[to], (uint32_t)from);
}

static int writer_at(const struct history *h, const char *list, uint32_t at) { return h->writer[(unsigned)atoi(list + at) % 10000u]; }

/* An answered operation's reading of this list, its next one from *i, *j on. */
static const struct value *next_reading(const struct history *h, uint32_t key, uint32_t *i, uint32_t *j) {
    for (; *i < h->n; ++*i, *j = 0) {
        const struct op *op = h->ops[*i];
        for (; h->until[*i] != UINT64_MAX && *j < op->n_parts; ++*j) {
            const struct part *p = &op->parts[*j];
            if (p->kind == PART_GET && p->db == DB_LISTS && p->key == key && p->status != PART_NOT_RUN) return &op->parts[(*j)++].got;
        }
    }
    return NULL;
}

/* The version order: what the longest reading says; all others must be beginnings of it. */
static const struct value *longest_reading(struct graph *g, uint32_t key) {
    const struct value *longest = NULL, *v;
    for (uint32_t i = 0, j = 0; (v = next_reading(g->h, key, &i, &j));)
        if (v->text && (!longest || v->size > longest->size)) longest = v;
    for (uint32_t i = 0, j = 0; (v = next_reading(g->h, key, &i, &j));)
        if (v->text && memcmp(v->text, longest->text, v->size)) g->wrong = "two readings of a list are not beginnings of one";
    return longest;
}

static void add_writes(struct graph *g, const struct value *list) {
    int before = -1;
    bool met[10000] = {false};
    for (uint32_t at = 0; at < list->size; at += TOKEN_SIZE) {
        unsigned token = (unsigned)atoi(list->text + at) % 10000u;
        int writer = writer_at(g->h, list->text, at);
        if (writer < 0) g->wrong = "a list has what nobody appended";
        if (met[token]) g->wrong = "a list has twice what was appended once";
        met[token] = true;
        add_edge(g, before, writer);
        before = writer;
    }
}

static void add_list(struct graph *g, uint32_t key) {
    const struct value *longest = longest_reading(g, key), *v;
    if (!longest || g->wrong) return;
    add_writes(g, longest);
    for (uint32_t i = 0, j = 0; (v = next_reading(g->h, key, &i, &j));) {
        if (v->size) add_edge(g, writer_at(g->h, longest->text, v->size - TOKEN_SIZE), (int)i);    /* it read what that wrote */
        if (v->size < longest->size) add_edge(g, (int)i, writer_at(g->h, longest->text, v->size)); /* before this one wrote */
    }
}

static bool has_cycle(const struct graph *g) {
    struct set done = {{0}};
    for (uint32_t n = 0; n < g->h->n; n++) {
        uint32_t i = 0;
        while (i < g->h->n && (set_has(&done, i) || !set_is_within(&g->earlier[i], &done))) i++;
        if (i == g->h->n) return true;
        set_add(&done, i);
    }
    return false;
}

const char *check_append(const struct history *h) {
    static struct graph g;
    uint32_t keys = h->plan->settings.keys;
    g.h = h;
    g.wrong = NULL;
    memcpy(g.earlier, h->earlier, sizeof g.earlier);
    for (uint32_t key = 0; key < keys - keys / 3; key++) add_list(&g, key);
    if (g.wrong) return g.wrong;
    return has_cycle(&g) ? "the dependencies among appends and readings have a cycle" : NULL;
}
