/* CRC-64: the check value, the table's against the carry-less multiply's at every size and alignment, and the sum of two texts. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shard/crc64.h"

#define BYTES 5000u

static uint8_t text[BYTES];

static int setup(void **state) {
    uint64_t random = 88172645463325252u;
    (void)state;
    for (size_t i = 0; i < BYTES; i++) {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        text[i] = (uint8_t)random;
    }
    return 0;
}

/* Bit by bit, as the polynomial says it. */
static uint64_t by_bits(uint64_t crc, const uint8_t *p, size_t n) {
    for (; n; n--) {
        crc ^= *p++;
        for (unsigned i = 0; i < 8; i++) crc = crc >> 1 ^ (crc & 1 ? UINT64_C(0x95ac9329ac4bc9b5) : 0);
    }
    return crc;
}

static void the_check_value_is_right(void **state) {
    (void)state;
    assert_true(crc64(0, "123456789", 9) == UINT64_C(0xe9c6d914c4b8d9ca));
    assert_true(crc64_plain(0, "123456789", 9) == UINT64_C(0xe9c6d914c4b8d9ca));
    assert_true(crc64(7, "", 0) == 7);
}

static void all_ways_agree(void **state) {
    (void)state;
    for (size_t n = 0; n <= 600; n++)
        for (size_t from = 0; from < 3; from++) {
            uint64_t begin = n * UINT64_C(0x9e3779b97f4a7c15), crc = by_bits(begin, text + from, n);
            assert_true(crc64(begin, text + from, n) == crc);
            assert_true(crc64_plain(begin, text + from, n) == crc);
        }
    assert_true(crc64(0, text, BYTES) == by_bits(0, text, BYTES));
}

static void two_sums_make_one(void **state) {
    (void)state;
    uint64_t whole = crc64(0, text, BYTES);
    for (size_t i = 0; i <= BYTES; i += 13) {
        uint64_t first = crc64(0, text, i), second = crc64(0, text + i, BYTES - i);
        assert_true(crc64_combine(first, second, BYTES - i) == whole);
    }
    assert_true(crc64_combine(whole, 0, 0) == whole);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_check_value_is_right),
        cmocka_unit_test(all_ways_agree),
        cmocka_unit_test(two_sums_make_one),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
