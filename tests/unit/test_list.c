/* Lists against a naive model: of all kinds of elements, with nodes of all kinds of limits, with refused memory, with their accounting checked to the byte; how
 * they become large and small again; what they cost. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shard/container.h"
#include "shard/list.h"
#include "shard/memory.h"
#include "tests/lib/random.h"

#define TEXT_MAX 3000u
#define MODEL_MAX 60000u

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

/* ---- elements ---- */

/* Of a number: integers of all sizes, short text, and now and then text that is middling, or far. */
static uint32_t text_of(uint32_t id, char out[TEXT_MAX]) {
    uint32_t kind = id % 64, size;
    if (kind < 16) return format_int64(out, (int64_t)((uint64_t)id * id * id << kind) * (id % 3 ? 1 : -1));
    if (kind < 24) return format_int64(out, id % 80);
    size = kind < 60 ? id % 30 : kind < 63 ? 90 + id % 800 : id % TEXT_MAX;
    memset(out, 'a' + (int)(id % 26), size);
    char digits[INT64_TEXT_SIZE];
    unsigned n = format_int64(digits, id);
    for (uint32_t i = 0; i < n && i + 1 < size; i++) out[i + 1] = digits[i];
    return size;
}

static void elements_are_what_they_were_made_of(void **state) {
    struct memory *m = *state;
    static const uint32_t sizes[] = {
        0, 1, PACKED_INLINE_MAX, PACKED_INLINE_MAX + 1, 250, 251, 252, 253, 255, 256, 257, NODE_INLINE_MAX, NODE_INLINE_MAX + 1, 70000};
    static char text[70001];
    memset(text, 'x', sizeof text);
    struct list x = {.memory = m, .fill = LIST_FILL};
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_int_equal(list_push(&x, i % 2 ? LIST_HEAD : LIST_TAIL, &(struct arg){.p = text, .size = sizes[i]}), 0);
    for (unsigned direction = 0; direction < 2; direction++) {
        struct list_walk w = list_walk_from(&x, direction ? list_count(&x) - 1 : 0, direction ? LIST_HEAD : LIST_TAIL);
        struct list_item i;
        uint64_t sum = 0, n = 0;
        while (list_next(&x, &w, &i)) {
            char scratch[INT64_TEXT_SIZE];
            struct element e, other;
            uint32_t size;
            const char *p = list_text(&i, scratch, &size);
            assert_memory_equal(p, text, size);
            element_of(&e, text, size);
            element_of(&other, text, size + 1);
            assert_true(list_equal(&i, &e));
            assert_false(list_equal(&i, &other));
            sum += size;
            n++;
        }
        assert_int_equal(n, sizeof sizes / sizeof *sizes);
        for (unsigned i2 = 0; i2 < n; i2++) sum -= sizes[i2];
        assert_int_equal(sum, 0);
    }
    list_free(&x, NULL);
}

/* ---- against a model ---- */

struct model {
    uint32_t ids[MODEL_MAX], n;
};

static void model_insert(struct model *model, uint32_t at, uint32_t id) {
    memmove(model->ids + at + 1, model->ids + at, (model->n - at) * sizeof *model->ids);
    model->ids[at] = id;
    model->n++;
}
static void model_remove(struct model *model, uint32_t at, uint32_t n) {
    memmove(model->ids + at, model->ids + at + n, (model->n - at - n) * sizeof *model->ids);
    model->n -= n;
}

static void check_item(const struct list_item *i, uint32_t id) {
    char text[TEXT_MAX], scratch[INT64_TEXT_SIZE];
    uint32_t size, expected = text_of(id, text);
    const char *p = list_text(i, scratch, &size);
    assert_int_equal(size, expected);
    assert_memory_equal(p, text, size);
}

static void check_walk(const struct list *x, const struct model *model, uint32_t from, uint32_t most, enum list_end towards) {
    struct list_walk w = list_walk_from(x, from, towards);
    struct list_item i;
    uint32_t n = 0, all = from >= model->n ? 0 : towards == LIST_TAIL ? model->n - from : from + 1;
    for (; n < most && list_next(x, &w, &i); n++) check_item(&i, model->ids[towards == LIST_TAIL ? from + n : from - n]);
    assert_int_equal(n, all < most ? all : most);
}

static void check_all(const struct list *x, const struct model *model) {
    assert_int_equal(list_count(x), model->n);
    assert_int_equal(list_is_empty(x), model->n == 0);
    check_walk(x, model, 0, UINT32_MAX, LIST_TAIL);
    check_walk(x, model, model->n - 1, UINT32_MAX, LIST_HEAD);
    assert_int_equal(memory_used(x->memory), list_memory(x));
}

static void push(struct list *x, struct model *model, uint32_t id) {
    char text[TEXT_MAX];
    uint32_t size = text_of(id, text);
    enum list_end end = below(&dice, 2) ? LIST_HEAD : LIST_TAIL;
    struct list_load load = {0};
    list_load_add(&load, size);
    size_t needs = list_needs(x, &load), before = list_memory(x);
    if (model->n == MODEL_MAX || list_push(x, end, &(struct arg){.p = text, .size = size})) return;
    assert_true(list_memory(x) <= before + needs);
    model_insert(model, end == LIST_HEAD ? 0 : model->n, id);
}

static void drain(struct memory *m, struct trash *trash) {
    while (trash) {
        struct trash *next = trash->next;
        while (trash->free_some(m, trash)) {}
        trash = next;
    }
}

static void pop(struct list *x, struct model *model, uint32_t n) {
    struct trash *trash = NULL;
    struct list_item i;
    bool head = below(&dice, 2);
    if (!model->n) return;
    list_peek(x, head ? LIST_HEAD : LIST_TAIL, &i);
    check_item(&i, model->ids[head ? 0 : model->n - 1]);
    list_pop(x, head ? LIST_HEAD : LIST_TAIL, n, below(&dice, 2) ? &trash : NULL);
    drain(x->memory, trash);
    if (n > model->n) n = model->n;
    model_remove(model, head ? 0 : model->n - n, n);
}

static void change(struct list *x, struct model *model, uint32_t id, bool set) {
    char text[TEXT_MAX];
    uint32_t size = text_of(id, text), at = below(&dice, model->n);
    bool behind = below(&dice, 2);
    struct list_item i;
    list_at(x, at, &i);
    check_item(&i, model->ids[at]);
    if (model->n == MODEL_MAX ||
        (set ? list_set(x, &i, &(struct arg){.p = text, .size = size})
             : list_insert(x, &i, behind, &(struct arg){.p = text, .size = size})))
        return;
    if (set) model->ids[at] = id;
    else model_insert(model, at + behind, id);
}

static void remove_equal(struct list *x, struct model *model, uint32_t id) {
    char text[TEXT_MAX], other[TEXT_MAX];
    uint32_t size = text_of(id, text), n = 0;
    struct list_removal r = {.from = below(&dice, 2) ? LIST_HEAD : LIST_TAIL, .left = below(&dice, 2) ? UINT64_MAX : 1 + below(&dice, 3)};
    uint64_t left = r.left;
    struct element e;
    element_of(&e, text, size);
    while (list_remove_some(x, &e, &r, 1 + below(&dice, 2000))) {}
    for (uint32_t step = 0, of = model->n; step < of && n < left; step++) {
        uint32_t at = r.from == LIST_HEAD ? step - n : of - 1 - step;
        if (text_of(model->ids[at], other) != size || memcmp(other, text, size)) continue;
        model_remove(model, at, 1);
        n++;
    }
    assert_int_equal(r.removed, n);
}

/* In parts of random size. */
static int copy_all(struct list *to, const struct list *from) {
    struct packed_copying c = {0};
    int more;
    do {
        c.cost = below(&dice, 20000);
        more = list_copy_some(to, from, &c);
    } while (more > 0);
    if (more) list_free(to, NULL);
    return more;
}

/* Grows and shrinks; most bounds how large it becomes. other: while it is one node, its fill may change to this, and back. */
static void live(struct memory *m, int32_t fill, int32_t other, uint32_t steps, uint32_t most, bool refused) {
    static struct model model;
    struct list x = {.memory = m, .fill = fill};
    model.n = 0;
    for (uint32_t step = 0, grows = 7, ids = 5000; step < steps; step++) {
        if (step % 3000 == 0) {
            grows = 2 + below(&dice, 8);
            ids = below(&dice, 3) ? 5000 : 30;
        }
        if (refused && below(&dice, 10) == 0) memory_fail_after(m, 1 + below(&dice, 3));
        uint32_t id = below(&dice, ids), kind = below(&dice, 20);
        if (!x.chain && below(&dice, 20) == 0) x.fill = below(&dice, 2) ? fill : other;
        if (!model.n || (below(&dice, 10) < grows && model.n < most))
            kind > 4 ? push(&x, &model, id) : model.n ? change(&x, &model, id, false) : (void)0;
        else if (kind < 10) pop(&x, &model, 1);
        else if (kind < 12) pop(&x, &model, below(&dice, 300));
        else if (kind < 18) change(&x, &model, id, true);
        else if (below(&dice, 20) == 0) remove_equal(&x, &model, id);
        if (below(&dice, 5000) == 0) pop(&x, &model, model.n);
        memory_fail_after(m, 0);
        if (step % 50 == 0) check_walk(&x, &model, below(&dice, model.n + 1), 100, below(&dice, 2) ? LIST_TAIL : LIST_HEAD);
        if (step % 2000 == 0) check_all(&x, &model);
        assert_int_equal(list_count(&x), model.n);
    }
    check_all(&x, &model);
    struct list copy = {.memory = m, .fill = fill};
    size_t used = memory_used(m);
    if (model.n) {
        memory_fail_after(m, 1);
        assert_int_equal(copy_all(&copy, &x), -ENOMEM);
        assert_true(list_is_empty(&copy));
    }
    memory_fail_after(m, 0);
    assert_int_equal(memory_used(m), used);
    assert_int_equal(copy_all(&copy, &x), 0);
    assert_true(list_memory(&copy) <= list_memory(&x));
    list_free(&x, NULL);
    check_all(&copy, &model);
    list_free(&copy, NULL);
}

static void small_lists_are_as_their_model(void **state) {
    for (unsigned i = 0; i < 10; i++) live(*state, LIST_FILL, LIST_FILL, 20000, 5 + 30 * i, false);
}
static void large_lists_are_as_their_model(void **state) { live(*state, LIST_FILL, LIST_FILL, 400000, 50000, false); }
static void nodes_of_all_sizes_are_as_their_model(void **state) {
    static const int32_t fills[] = {-1, -3, -4, -5, 0, 1, 2, 7, 128, 32767};
    for (unsigned i = 0; i < sizeof fills / sizeof *fills; i++)
        live(*state, fills[i], fills[i], 40000, fills[i] < 0 || fills[i] > 100 ? 20000 : 2000, false);
}
static void a_fill_that_changes_is_as_its_model(void **state) {
    static const int32_t fills[] = {0, 1, 2, 7, 128, -1};
    for (unsigned i = 0; i < sizeof fills / sizeof *fills; i++) live(*state, LIST_FILL, fills[i], 20000, 200, false);
}
static void refused_memory_changes_nothing(void **state) {
    live(*state, LIST_FILL, LIST_FILL, 100000, 20000, true);
    live(*state, 3, 3, 50000, 300, true);
    live(*state, LIST_FILL, LIST_FILL, 50000, 30, true);
}

/* ---- its form ---- */

static void push_number(struct list *x, enum list_end end, uint32_t i) {
    char text[16];
    assert_int_equal(list_push(x, end, &(struct arg){.p = text, .size = (uint32_t)snprintf(text, sizeof text, "element-%u", i)}), 0);
}

static void a_large_list_becomes_small_again(void **state) {
    struct list x = {.memory = *state, .fill = LIST_FILL};
    for (uint32_t i = 0; i < 3000; i++) push_number(&x, LIST_TAIL, i);
    assert_non_null(x.chain);
    assert_in_range(list_nodes(&x), 3000 * 14 / 8192, 3000 * 15 / 8192 + 1);
    list_pop(&x, LIST_HEAD, 2990, NULL);
    assert_null(x.chain);
    assert_true(list_memory(&x) < 250);
    list_pop(&x, LIST_TAIL, 10, NULL);
    assert_true(list_is_empty(&x));
}

/* A queue: the elements go through, the bytes stay the same, and what is moved for each is little. */
static void a_queue_takes_no_more_with_time(void **state) {
    static const uint32_t lengths[] = {1, 2, 10, 100, 5000};
    for (unsigned l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        struct list x = {.memory = *state, .fill = LIST_FILL};
        size_t most = 0;
        for (uint32_t i = 0; i < lengths[l]; i++) push_number(&x, LIST_TAIL, 100000 + i);
        size_t at_first = list_memory(&x);
        for (uint32_t i = 0; i < 100000; i++) {
            push_number(&x, LIST_TAIL, 200000 + i);
            list_pop(&x, LIST_HEAD, 1, NULL);
            if (list_memory(&x) > most) most = list_memory(&x);
        }
        assert_true(most <= at_first + at_first / 2 + 8192 * (lengths[l] > 400) + 32);
        list_free(&x, NULL);
    }
}

static void many_small_elements_take_little_more_than_their_bytes(void **state) {
    struct list x = {.memory = *state, .fill = LIST_FILL};
    for (uint32_t i = 0; i < 1000000; i++) push_number(&x, i % 2 ? LIST_HEAD : LIST_TAIL, i % 10); /* 9 bytes, one before, one behind */
    assert_true(list_memory(&x) < 11200000);
    list_free(&x, NULL);
}

static void a_large_list_is_freed_in_slices(void **state) {
    struct list x = {.memory = *state, .fill = LIST_FILL};
    struct trash *trash = NULL;
    char far[2000] = {0};
    for (uint32_t i = 0; i < 100000; i++) push_number(&x, LIST_TAIL, i);
    for (uint32_t i = 0; i < 1000; i++) assert_int_equal(list_push(&x, LIST_TAIL, &(struct arg){.p = far, .size = sizeof far}), 0);
    uint32_t nodes = list_nodes(&x);
    list_pop(&x, LIST_HEAD, 60000, &trash);
    assert_non_null(trash);
    assert_int_equal(list_count(&x), 41000);
    assert_true(list_nodes(&x) < nodes / 2);
    list_free(&x, &trash);
    unsigned slices = 0;
    size_t used = memory_used(*state);
    while (trash) {
        struct trash *next = trash->next;
        if (trash->free_some(*state, trash)) assert_true(memory_used(*state) < used);
        else trash = next;
        used = memory_used(*state);
        slices++;
    }
    assert_in_range(slices, 8, 100);
    assert_int_equal(used, 0);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(elements_are_what_they_were_made_of, setup, teardown),
        cmocka_unit_test_setup_teardown(small_lists_are_as_their_model, setup, teardown),
        cmocka_unit_test_setup_teardown(large_lists_are_as_their_model, setup, teardown),
        cmocka_unit_test_setup_teardown(nodes_of_all_sizes_are_as_their_model, setup, teardown),
        cmocka_unit_test_setup_teardown(a_fill_that_changes_is_as_its_model, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_memory_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_large_list_becomes_small_again, setup, teardown),
        cmocka_unit_test_setup_teardown(a_queue_takes_no_more_with_time, setup, teardown),
        cmocka_unit_test_setup_teardown(many_small_elements_take_little_more_than_their_bytes, setup, teardown),
        cmocka_unit_test_setup_teardown(a_large_list_is_freed_in_slices, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
