/* A merge sort of pointers from the bottom up, stable, that can be put down and gone on with at any comparison, and while the rest of a run is copied. */
#ifndef SERVER_MERGE_SORT_H
#define SERVER_MERGE_SORT_H

#include <stdbool.h>
#include <stdint.h>

struct merge_sort {
    void **items, **other; /* both the user's, with room for n; which is which changes */
    uint64_t n;
    /* All 0 at first: the width of sorted runs, and the two that are being merged. */
    uint64_t width, low, left, right;
    bool merging;
};

typedef int merge_compare(const void *a, const void *b, const void *arg);

/* Goes on until all is sorted, in items, or the budget is used up: 1 for each that is moved with a comparison, and for each 16 that are copied. True: sorted. */
bool merge_sort(struct merge_sort *m, merge_compare *compare, const void *arg, int64_t *budget);

#endif
