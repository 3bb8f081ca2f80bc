/* merge_sort: against a plain stable sort, with budgets of every size. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "server/merge_sort.h"

#define MOST 300u

struct record {
    int key;
    unsigned nth;
};

static int by_key(const void *a, const void *b, const void *arg) {
    const struct record *x = a, *y = b;
    assert_ptr_equal(arg, &by_key);
    return (x->key > y->key) - (x->key < y->key);
}

static void sort_with(unsigned n, unsigned keys, int64_t budget) {
    struct record records[MOST];
    void *items[MOST], *other[MOST];
    struct merge_sort m = {.items = items, .other = other, .n = n};
    int64_t left = budget;
    unsigned slices = 1;
    srandom(n * 31 + keys);
    for (unsigned i = 0; i < n; i++) {
        records[i] = (struct record){(int)((unsigned)random() % keys), i};
        items[i] = &records[i];
    }
    for (; !merge_sort(&m, by_key, &by_key, &left); slices++) left = budget;
    for (unsigned i = 1; i < n; i++) {
        const struct record *a = m.items[i - 1], *b = m.items[i];
        assert_true(a->key < b->key || (a->key == b->key && a->nth < b->nth));
    }
    if (n > 100 && budget == 1) assert_true(slices > n);
}

static void sorts_and_keeps_the_order_of_equals(void **state) {
    (void)state;
    static const unsigned sizes[] = {0, 1, 2, 3, 7, 8, 9, 31, 64, 65, 127, 200, MOST};
    static const int64_t budgets[] = {1, 2, 7, 100, 1000000};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t j = 0; j < sizeof budgets / sizeof *budgets; j++)
            for (unsigned keys = 1; keys < 1000; keys = keys * 7 + 1) sort_with(sizes[i], keys, budgets[j]);
}

/* What is left of one of two runs is copied under the budget, too. */
static void copies_no_long_run_in_one_go(void **state) {
    struct record records[256];
    void *items[256], *other[256];
    struct merge_sort m = {.items = items, .other = other, .n = 256, .width = 128};
    unsigned slices = 1;
    (void)state;
    for (unsigned i = 0; i < 256; i++) {
        records[i] = (struct record){(int)i, i};
        items[i] = &records[i];
    }
    for (int64_t left = 1; !merge_sort(&m, by_key, &by_key, &left); slices++) left = 1;
    for (unsigned i = 0; i < 256; i++) assert_ptr_equal(m.items[i], &records[i]);
    assert_true(slices >= 128 + 128 / 16);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sorts_and_keeps_the_order_of_equals),
        cmocka_unit_test(copies_no_long_run_in_one_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
