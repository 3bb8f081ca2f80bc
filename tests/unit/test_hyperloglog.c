/* Values against a plain array of registers; corrupt ones only for what they must not do. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shard/hyperloglog.h"

static uint64_t state = 88172645463325252u;
static uint64_t draw(uint64_t n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % n;
}

struct test {
    unsigned char room[HLL_ROOM];
    struct hll x;
};

static struct hll *new_value(struct test *t) {
    t->x.p = t->room;
    hll_init(&t->x);
    return &t->x;
}

static enum hll_result add(struct hll *x, struct hll_element e, size_t sparse_max) {
    struct hll_place at = {0};
    enum hll_result r = hll_find(x->p, x->size, e, &at);
    return r == HLL_CHANGED ? hll_put(x, e, &at, sparse_max) : r;
}

static enum hll_result add_number(struct hll *x, uint64_t n, size_t sparse_max) {
    char text[32];
    int size = snprintf(text, sizeof text, "%llu", (unsigned long long)n);
    return add(x, hll_element(text, (size_t)size), sparse_max);
}

static void expect_registers(const struct hll *x, const uint8_t expected[HLL_REGISTERS]) {
    uint8_t got[HLL_REGISTERS] = {0};
    assert_true(hll_merge(got, x->p, x->size));
    assert_memory_equal(got, expected, HLL_REGISTERS);
}

static void an_empty_one_is_one_run_of_zeros(void **s) {
    struct test t;
    struct hll *x = new_value(&t);
    uint64_t n = 1;
    (void)s;
    assert_int_equal(x->size, 18);
    assert_memory_equal(x->p, "HYLL\x01\0\0\0\0\0\0\0\0\0\0\0\x7f\xff", 18);
    assert_true(hll_is(x->p, x->size));
    assert_false(hll_is_dense(x->p));
    assert_true(hll_kept(x->p, &n));
    assert_int_equal(n, 0);
    hll_outdate(x->p);
    assert_false(hll_kept(x->p, &n));
    assert_true(hll_estimate(x->p, x->size, &n));
    assert_int_equal(n, 0);
    hll_keep(x->p, 12345);
    assert_true(hll_kept(x->p, &n));
    assert_int_equal(n, 12345);
}

/* As redis-server 7.0 has it: registers, and the bytes after three elements. */
static void bytes_are_those_of_redis(void **s) {
    struct test t;
    struct hll *x = new_value(&t);
    (void)s;
    assert_int_equal(add(x, hll_element("a", 1), 3000), HLL_CHANGED);
    assert_memory_equal(x->p + HLL_HEADER, "\x71\xa6\x84\x4e\x57", 5); /* Z:12711 v:2,1 Z:3672 */
    assert_int_equal(x->size, HLL_HEADER + 5);
    assert_int_equal(add(x, hll_element("a", 1), 3000), HLL_SAME);
}

static void elements_change_what_a_plain_array_of_registers_says(void **s) {
    (void)s;
    for (unsigned round = 0; round < 20; round++) {
        struct test t;
        struct hll *x = new_value(&t);
        uint8_t model[HLL_REGISTERS] = {0};
        size_t sparse_max = round % 3 ? 3000 : draw(20000);
        for (unsigned i = 0; i < 8000; i++) {
            struct hll_element e = {(uint32_t)draw(round % 2 ? HLL_REGISTERS : 200), (uint8_t)(1 + draw(round % 4 ? 4 : 40))};
            enum hll_result r = add(x, e, sparse_max);
            assert_int_equal(r, model[e.index] < e.rank ? HLL_CHANGED : HLL_SAME);
            if (model[e.index] < e.rank) model[e.index] = e.rank;
            if (i % 500 == 0) expect_registers(x, model);
            if (!hll_is_dense(x->p)) assert_true(x->size <= (sparse_max > 18 ? sparse_max : 18));
        }
        expect_registers(x, model);
    }
}

static void dense_and_sparse_ones_estimate_the_same(void **s) {
    struct test sparse_test, dense_test;
    struct hll *sparse = new_value(&sparse_test), *dense = new_value(&dense_test);
    uint8_t registers[HLL_REGISTERS] = {0};
    (void)s;
    assert_true(hll_make_dense(dense));
    for (uint64_t i = 1; i <= 300000; i++) {
        add_number(sparse, i, 3000);
        add_number(dense, i, 3000);
        if ((i & (i - 1)) && i % 50000) continue;
        uint64_t a = 0, b = 0;
        assert_true(hll_estimate(sparse->p, sparse->size, &a) && hll_estimate(dense->p, dense->size, &b));
        assert_int_equal(a, b);
        assert_true(fabs((double)a - (double)i) <= 1 + (double)i * 4 * 1.04 / 128);
        hll_registers(registers, dense->p);
        assert_int_equal(hll_estimate_registers(registers), a);
        expect_registers(sparse, registers);
    }
    assert_true(hll_is_dense(sparse->p));
}

/* hll_raise walks once; its bytes are those of one register after the other. */
static void raising_is_the_same_as_adding_one_by_one(void **s) {
    (void)s;
    for (unsigned round = 0; round < 300; round++) {
        struct test a, b;
        struct hll *x = new_value(&a), *y = new_value(&b);
        uint8_t registers[HLL_REGISTERS] = {0};
        size_t sparse_max = round % 5 ? 3000 : 400;
        unsigned spread = round % 2 ? HLL_REGISTERS : 300, n = (unsigned)draw(900), ranks = round % 3 ? 3 : 36;
        for (unsigned i = 0; i < n; i++) add(x, (struct hll_element){(uint32_t)draw(spread), (uint8_t)(1 + draw(ranks))}, sparse_max);
        memcpy(y->p, x->p, x->size);
        y->size = x->size;
        for (unsigned i = 0; i < n; i++) registers[draw(spread)] = (uint8_t)(1 + draw(ranks));
        for (uint32_t i = 0; i < HLL_REGISTERS; i++)
            if (registers[i]) add(y, (struct hll_element){i, registers[i]}, sparse_max);
        hll_raise(x, registers, sparse_max);
        hll_outdate(y->p);
        assert_int_equal(x->size, y->size);
        assert_memory_equal(x->p, y->p, x->size);
    }
}

/* In a block of just its size, so that a sanitizer sees whoever reads beside it. */
static void try_corrupt(const unsigned char *p, size_t size) {
    unsigned char *exact = malloc(size), *room = malloc(HLL_ROOM);
    uint8_t registers[HLL_REGISTERS] = {0};
    uint64_t n;
    memcpy(exact, p, size);
    if (hll_is(exact, size)) {
        bool good = hll_estimate(exact, size, &n), merges = hll_merge(registers, exact, size);
        assert_int_equal(good, merges);
        struct hll x = {room, size};
        for (unsigned i = 0; i < 20; i++) {
            struct hll_place at = {0};
            struct hll_element e = {(uint32_t)draw(HLL_REGISTERS), (uint8_t)(1 + draw(50))};
            if (size <= HLL_SPARSE_SIZE_MAX) memcpy(room, exact, size);
            x.size = size;
            enum hll_result r = hll_find(exact, size, e, &at);
            if (size > HLL_SPARSE_SIZE_MAX) continue;
            if (r == HLL_CHANGED) r = hll_put(&x, e, &at, draw(2) ? 3000 : 40000);
            if (good) assert_int_not_equal(r, HLL_CORRUPT);
            assert_true(x.size <= HLL_ROOM);
        }
        if (size <= HLL_SPARSE_SIZE_MAX) {
            memcpy(room, exact, size);
            x.size = size;
            for (uint32_t i = 0; i < HLL_REGISTERS; i++) registers[i] = (uint8_t)draw(64);
            hll_raise(&x, registers, 3000);
            assert_int_equal(hll_make_dense(&x) || !good, true);
        }
    }
    free(exact);
    free(room);
}

static void corrupt_values_are_found_and_break_nothing(void **s) {
    struct test t;
    struct hll *x;
    (void)s;
    for (unsigned round = 0; round < 20000; round++) {
        x = new_value(&t);
        for (unsigned i = 0, n = (unsigned)draw(60); i < n; i++) add_number(x, draw(100000), 3000);
        for (unsigned i = 0, n = (unsigned)draw(4); i < n; i++) x->p[4 + draw(x->size - 4)] = (unsigned char)draw(256);
        if (draw(3) == 0) x->size = 1 + draw(x->size);
        if (draw(4) == 0 && x->size + 20 < HLL_ROOM)
            for (unsigned i = 0; i < 20; i++) x->p[x->size++] = (unsigned char)draw(256);
        try_corrupt(x->p, x->size);
    }
    unsigned char *large = malloc(100000);
    for (unsigned fill = 0; fill < 256; fill += 15) {
        memset(large, (int)fill, 100000);
        memcpy(large, "HYLL\x01", 5);
        for (size_t size = 16; size < 100000; size = size * 3 / 2) try_corrupt(large, size);
        large[4] = 0;
        try_corrupt(large, HLL_DENSE_SIZE);
    }
    free(large);
}

/* Against a walk from run to run, over bytes of which many look like the first of a long run. */
static void the_run_of_a_register_is_found_wherever_it_is(void **s) {
    (void)s;
    for (unsigned round = 0; round < 20000; round++) {
        unsigned char p[16 + 150] = "HYLL\x01";
        size_t size = 16 + draw(150), of_last[2] = {16, 16};
        for (size_t i = 16; i < size; i++) {
            static const unsigned char high[] = {0x00, 0x40, 0x80, 0xc0};
            p[i] = (unsigned char)(high[draw(round % 3 ? 4 : 2)] | draw(64));
            if (draw(2)) p[i] &= 0xc3; /* short ones, so that a search goes far */
        }
        unsigned char *exact = malloc(size);
        memcpy(exact, p, size);
        uint32_t first = 0, first_of_before = 0, first_of_previous = 0;
        for (size_t at = 16; at < size && first < HLL_REGISTERS;) {
            unsigned b = p[at], is_long = b >> 6 == 1;
            uint32_t span = b & 0x80 ? (b & 3) + 1 : is_long ? ((b & 63) << 8 | (at + 1 < size ? p[at + 1] : 0)) + 1 : (b & 63) + 1;
            uint32_t index = first + (uint32_t)draw(span);
            struct hll_place found = {0};
            assert_int_not_equal(
                hll_find(exact, size, (struct hll_element){index < HLL_REGISTERS ? index : first, 1}, &found), HLL_CORRUPT);
            assert_int_equal(found.run, at);
            assert_int_equal(found.first, first);
            assert_int_equal(found.span, span);
            assert_int_equal(found.previous, of_last[0]);
            assert_int_equal(found.before, of_last[1]);
            assert_int_equal(found.before_first, first_of_before);
            of_last[1] = of_last[0];
            of_last[0] = at;
            first_of_before = first_of_previous;
            first_of_previous = first;
            first += span;
            at += is_long ? 2 : 1;
        }
        if (first < HLL_REGISTERS) {
            struct hll_place found = {0};
            assert_int_equal(hll_find(exact, size, (struct hll_element){first, 1}, &found), HLL_CORRUPT);
        }
        free(exact);
    }
}

static void not_everything_is_one(void **s) {
    (void)s;
    assert_false(hll_is("HYLL\x01\0\0\0\0\0\0\0\0\0\0", 15));
    assert_true(hll_is("HYLL\x01\0\0\0\0\0\0\0\0\0\0\0", 16));
    assert_false(hll_is("HYLL\0\0\0\0\0\0\0\0\0\0\0\0", 16));
    assert_false(hll_is("HYLL\x02\0\0\0\0\0\0\0\0\0\0\0", 16));
    assert_false(hll_is("HYLM\x01\0\0\0\0\0\0\0\0\0\0\0", 16));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_empty_one_is_one_run_of_zeros),
        cmocka_unit_test(bytes_are_those_of_redis),
        cmocka_unit_test(elements_change_what_a_plain_array_of_registers_says),
        cmocka_unit_test(dense_and_sparse_ones_estimate_the_same),
        cmocka_unit_test(raising_is_the_same_as_adding_one_by_one),
        cmocka_unit_test(the_run_of_a_register_is_found_wherever_it_is),
        cmocka_unit_test(corrupt_values_are_found_and_break_nothing),
        cmocka_unit_test(not_everything_is_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
