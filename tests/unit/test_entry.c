#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shard/blob.h"
#include "shard/entry.h"
#include "shard/memory.h"

static void integers_are_read_only_in_their_one_form(void **state) {
    static const struct {
        const char *text;
        int64_t value;
    } good[] = {{"0", 0}, {"7", 7}, {"-1", -1}, {"10", 10}, {"9223372036854775807", INT64_MAX}, {"-9223372036854775808", INT64_MIN}};
    static const char *const bad[] = {"", "-", "-0", "00", "01", "-01", "+1", " 1", "1 ", "1a", "a", "1.0", "9223372036854775808",
        "-9223372036854775809", "18446744073709551616", "99999999999999999999", "111111111111111111111", "0x1"};
    int64_t v;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_true(parse_int64(good[i].text, strlen(good[i].text), &v));
        assert_int_equal(v, good[i].value);
    }
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) assert_false(parse_int64(bad[i], strlen(bad[i]), &v));
    assert_false(parse_int64("1\0002", 3, &v));
}

static void integers_are_written_as_printf_does(void **state) {
    char expected[32], got[INT64_TEXT_SIZE];
    int64_t v = 1, read;
    for (int i = 0; i < 4000; i++) {
        int64_t n = i == 0 ? INT64_MIN : i == 1 ? INT64_MAX : i < 2000 ? i - 1000 : v;
        int size = snprintf(expected, sizeof expected, "%lld", (long long)n);
        assert_int_equal(format_int64(got, n), size);
        assert_memory_equal(got, expected, (size_t)size);
        assert_true(parse_int64(got, (size_t)size, &read));
        assert_int_equal(read, n);
        v = (int64_t)((uint64_t)v * 6364136223846793005u + 1442695040888963407u) >> i % 60;
    }
}

static void integers_take_the_fewest_bytes(void **state) {
    static const struct {
        int64_t value;
        uint8_t size;
    } cases[] = {{0, 1}, {127, 1}, {-128, 1}, {128, 2}, {-129, 2}, {32767, 2}, {32768, 4}, {INT32_MAX, 4}, {INT32_MIN, 4},
        {(int64_t)INT32_MAX + 1, 8}, {INT64_MAX, 8}, {INT64_MIN, 8}};
    struct memory *m = memory_new(false);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char packed[8];
        assert_int_equal(entry_pack_int(cases[i].value, packed), cases[i].size);
        struct entry *e = entry_new(m, "key", 3, ENTRY_KIND(TYPE_STRING, ENC_INT), INT64_MAX, cases[i].size);
        memcpy(entry_value(e), packed, cases[i].size);
        assert_int_equal(entry_int(e), cases[i].value);
        assert_int_equal(entry_size(e), 4 + 3 + cases[i].size);
        entry_drop(m, e, NULL);
    }
    assert_int_equal(memory_used(m), 0);
    memory_drop(m);
}

/* Every combination of key size, expiry time and value: what was put in comes out, and all of it is freed. */
static void an_entry_holds_what_it_was_given(void **state) {
    static const uint32_t key_sizes[] = {0, 1, 16, 255, 256, 70000};
    static const size_t value_sizes[] = {0, 1, 16, 255, 256, 5000};
    struct memory *m = memory_new(false);
    char *text = malloc(70000), scratch[INT64_TEXT_SIZE];
    for (size_t i = 0; i < 70000; i++) text[i] = (char)(i * 7);
    for (int at = 0; at < 6 * 6 * 2; at++) {
        uint32_t key_size = key_sizes[at % 6];
        size_t value_size = value_sizes[at / 6 % 6], got;
        int64_t expiry = at / 36 ? 1700000000123 : INT64_MAX;
        bool embedded = value_size <= ENTRY_EMBEDDED_MAX;
        struct entry *e = entry_new(
            m, text, key_size, ENTRY_KIND(TYPE_STRING, embedded ? ENC_EMBEDDED : ENC_BLOB), expiry, embedded ? (uint8_t)value_size : 0);
        struct blob *b = embedded ? NULL : blob_new(m, 0, value_size, value_size);
        if (b) entry_write_pointer(e, b);
        memcpy(b ? b->bytes : entry_value(e), text + 3, value_size);
        assert_int_equal(entry_key_size(e), key_size);
        assert_true(entry_has_key(e, text, key_size));
        assert_int_equal(entry_expiry(e), expiry);
        assert_ptr_equal(entry_blob(e), b);
        assert_memory_equal(entry_string(e, scratch, &got), text + 3, value_size);
        assert_int_equal(got, value_size);
        assert_int_equal(entry_string_size(e), value_size);
        entry_drop(m, e, NULL);
        assert_int_equal(memory_used(m), 0);
    }
    free(text);
    memory_drop(m);
}

static void an_entry_expires_after_its_millisecond(void **state) {
    struct memory *m = memory_new(false);
    struct entry *e = entry_new(m, "k", 1, ENTRY_KIND(TYPE_STRING, ENC_EMBEDDED), 1000, 0);
    assert_false(entry_expired(e, 999));
    assert_false(entry_expired(e, 1000));
    assert_true(entry_expired(e, 1001));
    entry_drop(m, e, NULL);
    memory_drop(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(integers_are_read_only_in_their_one_form),
        cmocka_unit_test(integers_are_written_as_printf_does),
        cmocka_unit_test(integers_take_the_fewest_bytes),
        cmocka_unit_test(an_entry_holds_what_it_was_given),
        cmocka_unit_test(an_entry_expires_after_its_millisecond),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
