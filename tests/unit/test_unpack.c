/* LZF in parts, against liblzf; whatever it is given it stays within its blocks, and judges as liblzf does. */
#include "shard/unpack.h"

#include <liblzf/lzf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/lib/random.h"

#define SIZE_MOST 5000u

/* Text that is worth it in one way or another. */
static size_t draw(struct random *r, uint8_t *to) {
    size_t size = 1 + below(r, SIZE_MOST);
    unsigned alphabet = 1u << below(r, 9);
    for (size_t i = 0; i < size;) {
        size_t run = below(r, 4) ? 1 : 1 + below(r, 600);
        uint8_t byte = (uint8_t)below(r, alphabet);
        for (; run && i < size; run--) to[i++] = byte;
    }
    return size;
}

/* Copies, so that the address sanitizer sees each byte beyond. */
static enum unpack_step unpack(const uint8_t *packed, size_t n, uint8_t *out, size_t size, size_t step) {
    uint8_t *from = malloc(n ? n : 1), *to = malloc(size ? size : 1);
    struct unpacking u = {.from = from, .from_size = n, .to = to, .to_size = size};
    enum unpack_step result;
    memcpy(from, packed, n);
    for (size_t before = 0; (result = unpack_some(&u, step)) == UNPACK_MORE; before = u.to_at) {
        assert_true(u.to_at > before);
        assert_true(u.to_at - before <= step + 263);
    }
    if (result == UNPACK_DONE) memcpy(out, to, size);
    free(from);
    free(to);
    return result;
}

static void becomes_what_it_was(void **state) {
    static const size_t steps[] = {1, 7, 300, SIZE_MAX};
    static uint8_t text[SIZE_MOST], packed[2 * SIZE_MOST], out[SIZE_MOST];
    struct random r;
    random_seed(&r, 20261202, 0);
    (void)state;
    for (unsigned i = 0, tried = 0; tried < 1000; i++) {
        assert_true(i < 10000);
        size_t size = draw(&r, text);
        unsigned n = lzf_compress(text, (unsigned)size, packed, (unsigned)sizeof packed);
        if (!n) continue;
        tried++;
        assert_int_equal(unpack(packed, n, out, size, steps[i % 4]), UNPACK_DONE);
        assert_memory_equal(out, text, size);
        if (size > 1) assert_int_equal(unpack(packed, n, out, size - 1, steps[i % 4]), UNPACK_WRONG);
        if (size < SIZE_MOST) assert_int_equal(unpack(packed, n, out, size + 1, steps[i % 4]), UNPACK_WRONG);
    }
}

static void judges_as_liblzf(void **state) {
    static uint8_t packed[64], out[2][600];
    struct random r;
    random_seed(&r, 7, 0);
    unsigned good = 0;
    (void)state;
    for (unsigned i = 0; i < 200000; i++) {
        size_t n = 1 + below(&r, below(&r, 4) ? 6 : sizeof packed), size = 1 + below(&r, 12 * n);
        for (size_t j = 0; j < n; j++) packed[j] = (uint8_t)(below(&r, 3) ? below(&r, 8) : below(&r, 256));
        unsigned really = lzf_decompress(packed, (unsigned)n, out[0], (unsigned)sizeof out[0]);
        if (size > sizeof out[0]) size = sizeof out[0];
        if (really && below(&r, 4)) size = really;
        bool is_good = lzf_decompress(packed, (unsigned)n, out[0], (unsigned)size) == size;
        assert_int_equal(unpack(packed, n, out[1], size, 1 + below(&r, 20)), is_good ? UNPACK_DONE : UNPACK_WRONG);
        if (is_good) assert_memory_equal(out[0], out[1], size);
        good += is_good;
    }
    assert_true(good > 1000);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(becomes_what_it_was), cmocka_unit_test(judges_as_liblzf)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
