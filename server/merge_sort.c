#include "server/merge_sort.h"

#include <string.h>

#define COPIES_PER_COST 16

static void copy_rest(struct merge_sort *m, uint64_t from, uint64_t to, uint64_t at) {
    if (from < to) memcpy(m->other + at, m->items + from, (to - from) * sizeof *m->items);
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
    copy_rest(m, m->left, middle, at);
    copy_rest(m, m->right, high, at + middle - m->left);
    *budget -= (int64_t)(middle - m->left + high - m->right) / COPIES_PER_COST;
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
