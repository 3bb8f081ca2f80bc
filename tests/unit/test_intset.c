/* Intsets against a sorted array of integers, with refused memory, and with their accounting checked to the byte. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shard/intset.h"
#include "shard/memory.h"
#include "tests/lib/random.h"

#define MODEL_MAX 700u

static struct random dice = {88172645463325252u};

static int setup(void **state) {
    *state = memory_new(false);
    return 0;
}

static int teardown(void **state) {
    assert_int_equal(memory_used(*state), 0);
    memory_drop(*state);
    return 0;
}

struct model {
    int64_t v[MODEL_MAX];
    uint32_t n;
};

static uint32_t model_place(const struct model *m, int64_t v) {
    uint32_t i = 0;
    while (i < m->n && m->v[i] < v) i++;
    return i;
}

static void check(struct memory *m, const struct intset *x, const struct model *model) {
    assert_int_equal(intset_count(x), model->n);
    for (uint32_t i = 0; i < model->n; i++) assert_int_equal(intset_at(x, i), model->v[i]);
    assert_int_equal(intset_memory(x), memory_used(m));
}

/* Few enough to meet again; of all widths, with the edges of each. */
static int64_t draw_number(unsigned widest) {
    static const int64_t edges[] = {0, -1, 1, INT16_MAX, INT16_MIN, INT16_MAX + 1, INT16_MIN - 1, INT32_MAX, INT32_MIN,
        (int64_t)INT32_MAX + 1, (int64_t)INT32_MIN - 1, INT64_MAX, INT64_MIN};
    switch (below(&dice, widest)) {
    case 0: return (int64_t)below(&dice, 1000) - 500;
    case 1: return ((int64_t)below(&dice, 600) - 300) * 7001;
    case 2: return edges[below(&dice, sizeof edges / sizeof *edges)];
    default: return ((int64_t)below(&dice, 600) - 300) * (int64_t)30000000000000;
    }
}

static void live(struct memory *m, uint32_t steps, unsigned widest, bool refused) {
    static struct model model;
    struct intset *x = NULL;
    model.n = 0;
    for (uint32_t step = 0, grows = 8; step < steps; step++) {
        uint32_t index = UINT32_MAX, place;
        if (step % 4000 == 0) grows = 2 + below(&dice, 8);
        int64_t v = draw_number(widest);
        place = model_place(&model, v);
        bool there = place < model.n && model.v[place] == v;
        assert_int_equal(intset_find(x, v, &index), there);
        assert_int_equal(index, place);
        if (refused && one_in(&dice, 10)) memory_fail_after(m, 1);
        if (below(&dice, 10) < grows && !there && model.n < MODEL_MAX) {
            if (!intset_add(m, &x, v, index)) {
                memmove(model.v + place + 1, model.v + place, (model.n - place) * sizeof *model.v);
                model.v[place] = v;
                model.n++;
            } else {
                assert_true(refused);
            }
        } else if (there) {
            intset_remove(m, &x, index);
            memmove(model.v + place, model.v + place + 1, (model.n - place - 1) * sizeof *model.v);
            model.n--;
        }
        memory_fail_after(m, 0);
        if (step % 500 == 0) check(m, x, &model);
    }
    check(m, x, &model);
    intset_free(m, x);
}

static void an_intset_is_as_its_model(void **state) {
    for (unsigned widest = 1; widest <= 4; widest++) live(*state, 250000, widest, false);
}

static void refused_memory_changes_nothing(void **state) { live(*state, 100000, 4, true); }

static void integers_take_the_bytes_of_the_widest(void **state) {
    static const struct {
        int64_t v;
        size_t bytes;
    } cases[] = {{INT16_MAX, 2}, {INT16_MIN, 2}, {INT16_MAX + 1, 4}, {INT16_MIN - 1, 4}, {INT32_MAX, 4}, {(int64_t)INT32_MAX + 1, 8},
        {INT64_MIN, 8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct intset *x = NULL;
        uint32_t index;
        for (int64_t v = 1; v <= 1000; v++) assert_int_equal(intset_add(*state, &x, v, (uint32_t)v - 1), 0);
        assert_false(intset_find(x, cases[i].v, &index));
        assert_int_equal(intset_add(*state, &x, cases[i].v, index), 0);
        assert_in_range(intset_memory(x), 1001 * cases[i].bytes, 1001 * cases[i].bytes * 17 / 16 + 64);
        assert_true(intset_memory(x) <= intset_memory_with(NULL, 1001));
        intset_free(*state, x);
    }
}

static void a_copy_is_equal_and_takes_no_more(void **state) {
    struct intset *x = NULL, *copy;
    for (int64_t v = 0; v < 100; v++) assert_int_equal(intset_add(*state, &x, v * 1000, (uint32_t)v), 0);
    size_t used = memory_used(*state);
    copy = intset_copy(*state, x);
    assert_non_null(copy);
    assert_int_equal(intset_count(copy), 100);
    for (uint32_t i = 0; i < 100; i++) assert_int_equal(intset_at(copy, i), 1000 * (int64_t)i);
    assert_true(memory_used(*state) <= 2 * used);
    memory_fail_after(*state, 1);
    assert_null(intset_copy(*state, x));
    memory_fail_after(*state, 0);
    intset_free(*state, x);
    intset_free(*state, copy);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(an_intset_is_as_its_model, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_memory_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(integers_take_the_bytes_of_the_widest, setup, teardown),
        cmocka_unit_test_setup_teardown(a_copy_is_equal_and_takes_no_more, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
