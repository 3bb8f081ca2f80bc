/* Each operation against one that goes bit by bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shard/bits.h"

#define SIZE_MAX_TESTED 700u
#define ROUNDS 3000u

static uint64_t state = 88172645463325252u;
static uint64_t draw(uint64_t n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state % n;
}

/* A block of its own of this size at this distance from an aligned address, so that a sanitizer sees whoever reads beside it. */
static unsigned char *block(size_t size, size_t offset, unsigned char **base) {
    *base = malloc(offset + size + 1);
    return *base + offset;
}

/* Few ones, many, or half. */
static void fill(unsigned char *p, size_t size) {
    unsigned kind = (unsigned)draw(4);
    for (size_t i = 0; i < size; i++) p[i] = (unsigned char)(kind == 0 ? 0 : kind == 1 ? 255 : draw(256));
    if (kind < 2 && size && draw(2)) p[draw(size)] ^= (unsigned char)(1u << draw(8));
}

static bool bit_at(const unsigned char *p, uint64_t bit) { return p[bit / 8] >> (7 - bit % 8) & 1; }

static void all_versions_count_the_same(void **s) {
    (void)s;
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned char *base;
        size_t size = draw(i % 8 ? 200 : SIZE_MAX_TESTED * 10);
        unsigned char *p = block(size, draw(16), &base);
        uint64_t ones = 0;
        fill(p, size);
        for (uint64_t b = 0; b < size * 8; b++) ones += bit_at(p, b);
        assert_int_equal(bits_count(p, size), ones);
        for (unsigned v = 0; v < bits_n_counters; v++)
            if (bits_counters[v].is_there()) assert_int_equal(bits_counters[v].count(p, size), ones);
        free(base);
    }
}

static void the_first_bit_is_found(void **s) {
    (void)s;
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned char *base;
        size_t size = draw(300);
        unsigned char *p = block(size, draw(16), &base);
        fill(p, size);
        for (unsigned one = 0; one < 2; one++) {
            uint64_t at = 0;
            while (at < size * 8 && bit_at(p, at) != one) at++;
            assert_int_equal(bits_first(p, size, one), at);
        }
        free(base);
    }
}

static void combining_is_done_bit_by_bit(void **s) {
    (void)s;
    for (unsigned i = 0; i < ROUNDS; i++) {
        unsigned char *bases[3], *x[3], expected[SIZE_MAX_TESTED], a[SIZE_MAX_TESTED], b[SIZE_MAX_TESTED];
        size_t size = draw(SIZE_MAX_TESTED);
        enum bits_op op = (enum bits_op)draw(3);
        for (unsigned j = 0; j < 3; j++) x[j] = block(size, draw(16), &bases[j]);
        fill(x[0], size);
        fill(x[1], size);
        memcpy(a, x[0], size);
        memcpy(b, x[1], size);
        for (size_t j = 0; j < size; j++)
            expected[j] = (unsigned char)(op == BITS_AND ? a[j] & b[j] : op == BITS_OR ? a[j] | b[j] : a[j] ^ b[j]);
        unsigned char *to = x[draw(3)]; /* one of the two, or another */
        bits_combine(op, to, x[0], x[1], size);
        assert_memory_equal(to, expected, size);
        memcpy(x[0], a, size);
        for (size_t j = 0; j < size; j++) expected[j] = (unsigned char)~a[j];
        to = x[draw(2) * 2];
        bits_invert(to, x[0], size);
        assert_memory_equal(to, expected, size);
        for (unsigned j = 0; j < 3; j++) free(bases[j]);
    }
}

static void fields_of_all_sizes_anywhere(void **s) {
    (void)s;
    for (unsigned i = 0; i < ROUNDS * 10; i++) {
        unsigned char *base, before[64];
        size_t size = 1 + draw(40);
        unsigned char *p = block(size, draw(8), &base);
        fill(p, size);
        unsigned n = 1 + (unsigned)draw(64);
        uint64_t at = draw(size * 8 + 200), v = 0;
        for (unsigned j = 0; j < n; j++) v = v << 1 | (at + j < size * 8 && bit_at(p, at + j));
        assert_int_equal(bits_get(p, size, at, n), v);
        if (at + n <= size * 8) {
            memcpy(before, p, size);
            v = draw(UINT64_MAX);
            bits_set(p, at, n, v);
            assert_int_equal(bits_get(p, size, at, n), v & UINT64_MAX >> (64 - n));
            for (uint64_t b = 0; b < size * 8; b++)
                if (b < at || b >= at + n) assert_int_equal(bit_at(p, b), bit_at(before, b));
        }
        free(base);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_versions_count_the_same),
        cmocka_unit_test(the_first_bit_is_found),
        cmocka_unit_test(combining_is_done_bit_by_bit),
        cmocka_unit_test(fields_of_all_sizes_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
