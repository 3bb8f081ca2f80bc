#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "shard/blob.h"
#include "shard/memory.h"

static void the_last_reference_frees(void **state) {
    struct memory *m = memory_new(false);
    for (size_t size = 1; size < 30000000; size = size * 3 + 1) {
        struct blob *b = blob_new(m, 7, size, size + size / 2);
        assert_int_equal(b->size, size);
        assert_true(b->capacity >= size + size / 2);
        assert_int_equal(b->shard, 7);
        assert_true(memory_used(m) >= b->capacity);
        assert_int_equal(memory_used(m), blob_memory(b));
        memset(b->bytes, 1, b->capacity);
        b->refs++;
        blob_release(m, b);
        assert_int_equal(memory_used(m), blob_memory(b));
        blob_release(m, b);
        assert_int_equal(memory_used(m), 0);
    }
    memory_drop(m);
}

static void a_received_blob_is_charged_to_who_adopts_it(void **state) {
    struct memory *m = memory_new(false);
    for (size_t size = 1; size < 30000000; size = size * 3 + 1) {
        blob_discard(blob_receive(size));
        struct blob *b = blob_receive(size);
        assert_true(b->capacity >= size);
        memset(b->bytes, 1, b->capacity);
        assert_int_equal(memory_used(m), 0);
        blob_adopt(m, b, 3);
        assert_int_equal(b->shard, 3);
        assert_int_equal(memory_used(m), blob_memory(b));
        blob_release(m, b);
        assert_int_equal(memory_used(m), 0);
    }
    memory_drop(m);
}

static void only_its_own_class_fits(void **state) {
    struct memory *m = memory_new(false);
    struct blob *b = blob_new(m, 0, 300, 300);
    assert_true(blob_fits(b, 300));
    assert_true(blob_fits(b, b->capacity));
    assert_false(blob_fits(b, b->capacity + 1));
    assert_false(blob_fits(b, 200));
    b->refs++;
    assert_false(blob_fits(b, 300));
    b->refs--;
    blob_release(m, b);
    memory_drop(m);
}

static void a_large_blob_changes_hands(void **state) {
    struct memory *a = memory_new(false), *b = memory_new(false);
    struct blob *large = blob_new(a, 0, 100000, 100000), *small = blob_new(a, 0, 300, 300);
    assert_false(blob_transfer(a, b, small, 1));
    large->refs++;
    assert_false(blob_transfer(a, b, large, 1));
    large->refs--;
    assert_true(blob_transfer(a, b, large, 1));
    assert_int_equal(large->shard, 1);
    assert_int_equal(memory_used(a), blob_memory(small));
    assert_int_equal(memory_used(b), blob_memory(large));
    blob_release(a, small);
    blob_release(b, large);
    assert_int_equal(memory_used(a), 0);
    assert_int_equal(memory_used(b), 0);
    memory_drop(a);
    memory_drop(b);
}

/* Above and below the size from which on they are mapped. */
static void a_mapped_blob_grows_and_keeps_its_bytes(void **state) {
    struct memory *m = memory_new(false);
    struct blob *small = blob_new(m, 0, 100, 100), *b = blob_new(m, 0, 100, BLOB_MAPPED_MIN);
    assert_false(blob_can_grow(small));
    assert_true(blob_can_grow(b));
    assert_int_equal(memory_used(m), blob_memory(b) + blob_memory(small));
    memset(b->bytes, 'x', b->capacity);
    size_t old = b->capacity;
    b = blob_grow(m, b, 5 * BLOB_MAPPED_MIN);
    assert_true(b->capacity >= 5 * BLOB_MAPPED_MIN);
    assert_int_equal(b->bytes[0], 'x');
    assert_int_equal(b->bytes[old - 1], 'x');
    for (size_t i = old; i < b->capacity; i += 4096) assert_int_equal(b->bytes[i], 0);
    assert_int_equal(memory_used(m), blob_memory(b) + blob_memory(small));
    assert_null(blob_grow(m, b, (size_t)1 << 40));
    b->refs++;
    assert_false(blob_can_grow(b));
    b->refs--;
    blob_release(m, b);
    blob_release(m, small);
    assert_int_equal(memory_used(m), 0);
    memory_drop(m);
}

/* Unmapping takes long, so that is not done where the last reference goes. */
static void a_mapped_blob_is_given_up_not_unmapped(void **state) {
    struct memory *m = memory_new(false);
    struct blob *b = blob_new(m, 0, BLOB_MAPPED_MIN, BLOB_MAPPED_MIN), *small = blob_new(m, 0, 100000, 100000);
    size_t mapped = blob_mapped(b), size;
    assert_int_equal(mapped, blob_memory(b));
    assert_int_equal(blob_mapped(small), 0);
    blob_release(m, small);
    assert_false(memory_wants_trim(m));
    blob_release(m, b);
    assert_int_equal(memory_used(m), 0);
    assert_true(memory_wants_trim(m));
    assert_ptr_equal(memory_take_spare(m, &size), b);
    assert_int_equal(size, mapped);
    memory_unmap(b, size);
    assert_false(memory_wants_trim(m));
    memory_drop(m);
}

static void zeroing_stays_within_its_bounds(void **state) {
    static const size_t bounds[][2] = {
        {0, 0}, {1, 5}, {4090, 4100}, {0, 4096}, {100000, 400000}, {4072, 600000}, {1000000, 1000001}, {5, 9000000}};
    struct memory *m = memory_new(false);
    for (size_t capacity = 1 << 20; capacity <= 16 << 20; capacity *= 16) {
        struct blob *b = blob_new(m, 0, 0, capacity);
        for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
            size_t from = bounds[i][0], to = bounds[i][1] < capacity ? bounds[i][1] : capacity;
            memset(b->bytes, 'x', capacity);
            blob_zero(b, from, to);
            for (size_t at = 0; at < capacity; at++)
                if (b->bytes[at] != (at >= from && at < to ? 0 : 'x')) fail_msg("%zu to %zu: byte %zu", from, to, at);
        }
        blob_release(m, b);
    }
    memory_drop(m);
}

/* The allocator gives more than was asked for: that must not make a block of its own look like a mapped one, which would be unmapped. */
static void just_below_the_bound_none_is_taken_for_a_mapped_one(void **state) {
    struct memory *m = memory_new(false);
    for (size_t size = (8 << 20) - 9000; size < (8 << 20) + 100; size += 97) {
        struct blob *b = blob_new(m, 0, size, size);
        assert_int_equal(blob_mapped(b) != 0, sizeof *b + size >= BLOB_MAPPED_MIN);
        blob_release(m, b);
    }
    assert_int_equal(memory_used(m), 0);
    memory_drop(m);
}

static void what_cannot_be_had_is_refused(void **state) {
    struct memory *m = memory_new(false);
    assert_null(blob_new(m, 0, 0, SIZE_MAX));
    assert_null(blob_new(m, 0, 0, SIZE_MAX / 2));
    assert_null(blob_receive(SIZE_MAX));
    memory_fail_after(m, 1);
    assert_null(blob_new(m, 0, 10, 10));
    assert_int_equal(memory_used(m), 0);
    memory_drop(m);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_mapped_blob_is_given_up_not_unmapped),
        cmocka_unit_test(the_last_reference_frees),
        cmocka_unit_test(a_received_blob_is_charged_to_who_adopts_it),
        cmocka_unit_test(only_its_own_class_fits),
        cmocka_unit_test(a_large_blob_changes_hands),
        cmocka_unit_test(a_mapped_blob_grows_and_keeps_its_bytes),
        cmocka_unit_test(zeroing_stays_within_its_bounds),
        cmocka_unit_test(just_below_the_bound_none_is_taken_for_a_mapped_one),
        cmocka_unit_test(what_cannot_be_had_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
