#include "server/merge_sort.h"

#include <string.h>

#define COPIES_PER_COST 16

/* What is left of one of two runs. False: the budget is used up. */
static bool copy_rest(struct merge_sort *m, uint64_t *from, uint64_t to, uint64_t at, int64_t *budget) {
    while (*from < to) {
        if (*budget <= 0) return false;
        uint64_t n = (uint64_t)*budget * COPIES_PER_COST;
        if (n > to - *from) n = to - *from;
        memcpy(m->other + at, m->items + *from, n * sizeof *m->items);
        *from += n;
        at += n;
        *budget -= (int64_t)((n + COPIES_PER_COST - 1) / COPIES_PER_COST);
    }
    return true;
}

/* Merges the runs [low, low + width) and [low + width, low + 2 width) of items into other. False: the budget is used up. */
static bool merge(struct merge_sort *m, merge_compare *compare, const void *arg, int64_t *budget) {
    uint64_t middle = m->low + m->width < m->n ? m->low + m->width : m->n, high = middle + m->width < m->n ? middle + m->width : m->n;
    if (!m->merging) {
        m->left = m->low;
        m->right = middle;
        m->merging = true;
    }
    while (m->left < middle && m->right < high) {
        uint64_t at = m->left + m->right - middle;
        if ((*budget)-- <= 0) return false;
        if (compare(m->items[m->right], m->items[m->left], arg) < 0) m->other[at] = m->items[m->right++];
        else m->other[at] = m->items[m->left++];
    }
    uint64_t at = m->left + m->right - middle;
    if (!copy_rest(m, m->left < middle ? &m->left : &m->right, m->left < middle ? middle : high, at, budget)) return false;
    m->merging = false;
    m->low = high;
    return true;
}

bool merge_sort(struct merge_sort *m, merge_compare *compare, const void *arg, int64_t *budget) {
    if (!m->width) m->width = 1;
    for (; m->width < m->n; m->width *= 2, m->low = 0) {
        while (m->low < m->n)
            if (*budget <= 0 || !merge(m, compare, arg, budget)) return false;
        void **sorted = m->other;
        m->other = m->items;
        m->items = sorted;
    }
    return true;
}
