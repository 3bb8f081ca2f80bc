/* Built twice: for the arenas of memory.c, and with MEMORY_PLAIN for memory_plain.c, which has no classes, pages and regions of its own. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "shard/memory.h"
#include "tests/lib/random.h"

#if defined(__SANITIZE_ADDRESS__)
#define POISONS 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define POISONS 1
#endif
#endif
#ifdef POISONS
#include <sanitizer/asan_interface.h>
#endif

#define REGION ((size_t)2 << 20)
#define SEGMENT 4416u

static struct random dice = {88172645463325252u};

static struct memory_stats stats_of(const struct memory *m) {
    struct memory_stats s;
    memory_stats(m, &s);
    return s;
}

static size_t alignment_of(size_t size, bool packed) { return size > MEMORY_SMALL_MAX || size % 64 == 0 ? 64 : packed ? 4 : 8; }
static size_t usable(size_t size, bool packed) { return packed ? memory_usable_packed(size) : memory_usable(size); }

static void blocks_keep_what_is_written_to_them(void **state) {
    (void)state;
    enum { N = 5000, STEPS = 200000 };
    struct memory *m = memory_new(false);
    uint8_t **blocks = calloc(N, sizeof *blocks);
    size_t *sizes = calloc(N, sizeof *sizes), used = 0, used_large = 0, peak = 0;
    for (int step = 0; step < STEPS; step++) {
        uint32_t i = below(&dice, N);
        if (blocks[i]) {
            for (size_t k = 0; k < sizes[i]; k++) assert_int_equal(blocks[i][k], (uint8_t)i);
            memory_free(m, blocks[i], sizes[i]);
            used -= usable(sizes[i], i & 1);
            if (sizes[i] > MEMORY_SMALL_MAX) used_large -= usable(sizes[i], i & 1);
            blocks[i] = NULL;
        } else {
            sizes[i] = 1 + (below(&dice, 20) ? below(&dice, step % 3 ? 100 : MEMORY_SMALL_MAX) : below(&dice, 9000));
            blocks[i] = i & 1 ? memory_alloc_packed(m, sizes[i]) : memory_alloc(m, sizes[i]);
            assert_non_null(blocks[i]);
            assert_int_equal((uintptr_t)blocks[i] % alignment_of(sizes[i], i & 1), 0);
            memset(blocks[i], (int)(uint8_t)i, sizes[i]);
            used += usable(sizes[i], i & 1);
            if (sizes[i] > MEMORY_SMALL_MAX) used_large += usable(sizes[i], i & 1);
            if (used > peak) peak = used;
        }
        assert_int_equal(memory_used(m), used);
    }
    assert_int_equal(stats_of(m).used_large, used_large);
    assert_int_equal(stats_of(m).peak, peak);
    for (uint32_t i = 0; i < N; i++) {
        if (blocks[i]) memory_free(m, blocks[i], sizes[i]);
    }
    assert_int_equal(memory_used(m), 0);
    assert_int_equal(stats_of(m).pages, 0);
    assert_int_equal(stats_of(m).peak, peak);
    memory_drop(m);
    free(blocks);
    free(sizes);
}

static void a_usable_size_is_its_own(void **state) {
    (void)state;
    for (size_t size = 1; size < 100000; size += size < 2 * MEMORY_SMALL_MAX ? 1 : 777) {
        assert_in_range(memory_usable(size), size, size + 15 + size / 4);
        assert_int_equal(memory_usable(memory_usable(size)), memory_usable(size));
        assert_in_range(memory_usable_packed(size), size, memory_usable(size));
        assert_int_equal(memory_usable_packed(memory_usable_packed(size)), memory_usable_packed(size));
    }
}

#ifndef MEMORY_PLAIN
static void classes_are_4_bytes_apart_and_aligned_ones_8(void **state) {
    (void)state;
    for (size_t size = 1; size <= MEMORY_SMALL_MAX; size++) {
        assert_int_equal(memory_usable(size), (size + 7) / 8 * 8);
        assert_int_equal(memory_usable_packed(size), size < 8 ? 8 : (size + 3) / 4 * 4);
    }
}

/* Fills four regions with blocks of a size and returns which part of them is not blocks, in 1/10000. */
static size_t overhead(size_t size) {
    struct memory *m = memory_new(false);
    size_t used = 0;
    while (stats_of(m).regions <= 4) {
        used = memory_used(m);
        assert_non_null(memory_alloc_packed(m, size));
    }
    memory_drop(m);
    return 10000 - used * 10000 / (4 * REGION);
}

/* A block at the end of each page at most, and at the headers' two sides. */
static void headers_and_slack_are_little(void **state) {
    (void)state;
    for (size_t size = 8; size <= MEMORY_SMALL_MAX; size += 4)
        assert_in_range(overhead(size) * REGION, 0, 10000 * (33 * 64 + 34 * (size - 1)) + REGION);
    assert_in_range(overhead(120), 0, 20);
}

static void a_free_page_serves_any_class(void **state) {
    (void)state;
    enum { N = 100000 };
    struct memory *m = memory_new(false);
    void **blocks = malloc(N * sizeof *blocks);
    size_t regions = 0;
    for (size_t size = 40; size <= 80; size += 8) {
        size_t n = (size_t)N * 40 / size;
        for (size_t i = 0; i < n; i++) blocks[i] = memory_alloc(m, size);
        if (!regions) regions = stats_of(m).regions;
        assert_in_range(stats_of(m).regions, 1, regions + 1);
        void *kept = blocks[n / 2]; /* so that not all regions can go */
        for (size_t i = 0; i < n; i++) {
            if (blocks[i] != kept) memory_free(m, blocks[i], size);
        }
        assert_int_equal(stats_of(m).pages, 1);
        memory_free(m, kept, size);
    }
    free(blocks);
    memory_drop(m);
}

#endif

static void what_is_given_up_waits_to_be_taken(void **state) {
    (void)state;
    struct memory *m = memory_new(false);
    size_t size;
    for (int i = 0; i < 2; i++) {
        void *mapped = mmap(NULL, REGION, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        assert_ptr_not_equal(mapped, MAP_FAILED);
        memory_give_up(m, mapped, REGION);
    }
    assert_true(memory_wants_trim(m));
    void *block = memory_take_spare(m, &size);
    assert_int_equal(size, 2 << 20);
    memory_unmap(block, size);
    assert_true(memory_wants_trim(m));
    memory_drop(m); /* unmaps the other one */
}

#ifndef MEMORY_PLAIN
/* Gives all empty regions back that are too many. */
static void trim_all(struct memory *m) {
    while (memory_wants_trim(m)) {
        size_t before = stats_of(m).regions, size;
        void *region = memory_take_spare(m, &size);
        memory_unmap(region, size);
        assert_int_equal(stats_of(m).regions, before - 1);
    }
}

static void empty_regions_go_back_but_one(void **state) {
    (void)state;
    enum { N = 200000 };
    struct memory *m = memory_new(true);
    void **blocks = malloc(N * sizeof *blocks);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < N; i++) blocks[i] = memory_alloc(m, 64);
        assert_true(stats_of(m).regions > 5);
        assert_int_equal(stats_of(m).reserved, stats_of(m).regions * REGION);
        for (size_t i = 0; i < N; i++) memory_free(m, blocks[(i * 7919) % N], 64);
        trim_all(m);
        assert_int_equal(stats_of(m).regions, 1);
    }
    free(blocks);
    memory_drop(m);
}

static void random_replacement_does_not_grow(void **state) {
    (void)state;
    enum { N = 100000 };
    struct memory *m = memory_new(false);
    void **blocks = malloc(N * sizeof *blocks);
    for (size_t i = 0; i < N; i++) blocks[i] = memory_alloc(m, 72);
    for (size_t step = 0; step < 10 * N; step++) {
        uint32_t free_one = below(&dice, N);
        memory_free(m, blocks[free_one], 72);
        blocks[free_one] = memory_alloc(m, 72);
    }
    /* Full pages hold 1/64 of their blocks back. */
    assert_in_range(stats_of(m).pages * 65536, memory_used(m), memory_used(m) / 100 * 103);
    memory_drop(m);
    free(blocks);
}

#endif

static void charges_count_as_large(void **state) {
    (void)state;
    struct memory *m = memory_new(false);
    memory_charge(m, 5000);
    assert_int_equal(memory_used(m), 5000);
    assert_int_equal(stats_of(m).used_large, 5000);
    memory_charge(m, -5000);
    assert_int_equal(memory_used(m), 0);
    assert_int_equal(stats_of(m).peak, 5000);
    memory_drop(m);
}

static void segments_are_packed_aligned_and_reused(void **state) {
    (void)state;
    enum { IN_A_REGION = (REGION - 64) / SEGMENT, N = 3 * IN_A_REGION };
    struct memory *m = memory_new(false);
    uint8_t *segments[N];
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < N; i++) {
            segments[i] = memory_alloc_segment(m, SEGMENT);
            assert_int_equal((uintptr_t)segments[i] % 64, 0);
            memset(segments[i], (int)(uint8_t)i, SEGMENT);
        }
#ifndef MEMORY_PLAIN
        assert_int_equal(stats_of(m).regions, 3);
#endif
        assert_int_equal(memory_used(m), (size_t)N * SEGMENT);
        for (size_t i = 0; i < N; i++) {
            uint8_t *segment = segments[i * 101 % N];
            for (size_t k = 0; k < SEGMENT; k += 97) assert_int_equal(segment[k], (uint8_t)(i * 101 % N));
            memory_free_segment(m, segment, SEGMENT);
        }
#ifndef MEMORY_PLAIN
        trim_all(m);
        assert_int_equal(stats_of(m).regions, 1);
#endif
        assert_int_equal(memory_used(m), 0);
    }
    memory_drop(m);
}

#ifdef MEMORY_PLAIN
static void no_region_is_ever_wanted(void **state) {
    (void)state;
    enum { N = 100000 };
    struct memory *m = memory_new(true);
    void **blocks = malloc(N * sizeof *blocks);
    for (int i = 0; i < N; i++) {
        blocks[i] = memory_alloc(m, 56);
        assert_false(memory_wants_region(m));
    }
    for (int i = 0; i < N; i++) memory_free(m, blocks[i], 56);
    assert_false(memory_wants_trim(m));
    assert_int_equal(stats_of(m).regions, 0);
    free(blocks);
    memory_drop(m);
}
#else
static void a_prepared_region_is_used_next(void **state) {
    (void)state;
    struct memory *m = memory_new(true);
    assert_false(memory_wants_region(m)); /* nothing is in use yet */
    memory_alloc(m, 56);
    memory_alloc_segment(m, SEGMENT);
    size_t prepared = 0;
    for (int i = 0; i < 1600000; i++) {
        size_t regions = stats_of(m).regions;
        memory_alloc(m, 56);
        if (i % 200 == 0) memory_alloc_segment(m, SEGMENT);
        if (regions >= 24) assert_int_equal(stats_of(m).regions, regions); /* all that it took was there before */
        if (i < 60000) assert_false(memory_wants_region(m));               /* small data do not pay for more */
        for (; memory_wants_region(m); prepared++) memory_give_region(m, memory_map_region());
        assert_false(memory_wants_trim(m)); /* which would undo it */
    }
    assert_in_range(prepared, 40, 60);
    memory_drop(m);
}

/* A step of the table's growth must not touch a huge page first. */
static void segments_have_a_region_prepared_or_get_small_pages(void **state) {
    (void)state;
    for (int prepares = 0; prepares < 2; prepares++) {
        struct memory *m = memory_new(true);
        memory_alloc_segment(m, SEGMENT);
        assert_int_equal(stats_of(m).small_paged, 0);
        int n = 1;
        for (; !memory_wants_region(m); n++) assert_non_null(memory_alloc_segment(m, SEGMENT));
        assert_in_range(n, 300, 400);
        if (prepares) memory_give_region(m, memory_map_region());
        assert_int_equal(memory_wants_region(m), !prepares); /* one is enough */
        size_t regions = stats_of(m).regions;
        for (int i = 0; i < 200; i++) assert_non_null(memory_alloc_segment(m, SEGMENT));
        assert_int_equal(stats_of(m).regions, 2);
        assert_int_equal(regions, prepares ? 2 : 1);
        assert_int_equal(stats_of(m).small_paged, !prepares);
        memory_drop(m);
    }
}

/* However little there is. */
static void a_slice_gets_small_pages_and_has_a_region_prepared(void **state) {
    (void)state;
    struct memory *m = memory_new(true);
    memory_alloc(m, 56);
    assert_false(memory_wants_region(m));
    memory_slice_begin(m);
    while (stats_of(m).regions < 2) assert_non_null(memory_alloc(m, 56));
    assert_int_equal(stats_of(m).small_paged, 1);
    memory_alloc_segment(m, SEGMENT); /* a region of another kind */
    assert_int_equal(stats_of(m).small_paged, 2);
    memory_slice_end(m);
    while (!memory_wants_region(m)) assert_non_null(memory_alloc(m, 56));
    assert_int_equal(stats_of(m).regions, 3);
    memory_give_region(m, memory_map_region());
    assert_false(memory_wants_region(m)); /* one is enough */
    memory_slice_begin(m);
    while (stats_of(m).small_paged == 2) assert_non_null(memory_alloc(m, 56)); /* it is used up, and the next is the one in reserve */
    assert_int_equal(stats_of(m).small_paged, 1);
    assert_int_equal(stats_of(m).regions, 4);
    while (stats_of(m).small_paged == 1) memory_alloc_segment(m, SEGMENT);
    assert_int_equal(stats_of(m).small_paged, 0);
    memory_slice_end(m);
    while (stats_of(m).regions < 5) assert_non_null(memory_alloc(m, 56));
    assert_int_equal(stats_of(m).small_paged, 0);
    memory_alloc_segment(m, SEGMENT); /* they have room for long */
    memory_check_growth(m);
    memory_check_growth(m);
    for (int i = 0; i < 50000; i++) assert_non_null(memory_alloc(m, 56));
    assert_true(stats_of(m).regions < 8 && !memory_wants_region(m)); /* it has come to rest meanwhile */
    memory_drop(m);
}

static void memory_runs_short_before_a_region_is_used_up(void **state) {
    (void)state;
    struct memory *m = memory_new(true);
    assert_false(memory_runs_short(m)); /* there is nothing yet */
    memory_alloc(m, 56);
    for (int i = 0; i < 3; i++) {
        size_t regions = stats_of(m).regions, before = stats_of(m).pages;
        assert_false(memory_runs_short(m));
        while (!memory_runs_short(m)) assert_non_null(memory_alloc(m, 56));
        assert_int_equal(stats_of(m).regions, regions);
        assert_in_range(stats_of(m).pages - before, 8, 32);
        memory_give_region(m, memory_map_region());
        assert_false(memory_runs_short(m));
        for (size_t left = stats_of(m).pages + 16; stats_of(m).pages < left;) assert_non_null(memory_alloc(m, 56));
        assert_int_equal(stats_of(m).regions, regions + 1);
    }
    memory_drop(m);
    m = memory_new(false);
    for (int i = 0; i < 100000; i++) {
        memory_alloc(m, 56);
        assert_false(memory_runs_short(m));
    }
    memory_drop(m);
}

static void empty_regions_with_small_pages_are_counted_no_more(void **state) {
    (void)state;
    enum { N = 400000 };
    void **blocks = malloc(N * sizeof *blocks);
    struct memory *m = memory_new(true);
    memory_slice_begin(m);
    for (int i = 0; i < N; i++) assert_non_null(blocks[i] = memory_alloc(m, 56));
    assert_true(stats_of(m).regions > 8);
    assert_int_equal(stats_of(m).small_paged, 1); /* that one is not used up */
    for (int i = 0; i < N; i++) memory_free(m, blocks[i], 56);
    while (memory_wants_trim(m)) {
        size_t size;
        void *region = memory_take_spare(m, &size);
        memory_unmap(region, size);
    }
    assert_int_equal(stats_of(m).regions, 1);
    assert_in_range(stats_of(m).small_paged, 0, 1);
    free(blocks);
    memory_drop(m);
}

static void what_is_in_reserve_goes_back_once_nothing_grows(void **state) {
    (void)state;
    struct memory *m = memory_new(true);
    size_t size;
    while (!memory_wants_region(m)) assert_non_null(memory_alloc(m, 56));
    memory_check_growth(m);
    assert_true(memory_wants_region(m));
    memory_give_region(m, memory_map_region());
    size_t regions = stats_of(m).regions;
    memory_check_growth(m);
    assert_true(memory_wants_trim(m));
    assert_false(memory_wants_region(m));
    void *region = memory_take_spare(m, &size);
    assert_int_equal(size, REGION);
    memory_unmap(region, size);
    assert_int_equal(stats_of(m).regions, regions - 1);
    assert_false(memory_wants_trim(m) || memory_wants_region(m));
    for (int i = 0; i < 2000; i++) assert_non_null(memory_alloc(m, 56)); /* more than a page */
    assert_true(memory_wants_region(m));
    memory_give_region(m, memory_map_region());
    assert_false(memory_wants_trim(m));
    memory_drop(m);
}

#endif

static void the_nth_allocation_fails_once(void **state) {
    (void)state;
    struct memory *m = memory_new(false);
    void *first = memory_alloc(m, 48);
    for (uint64_t nth = 1; nth < 40; nth++) {
        memory_fail_after(m, nth);
        for (uint64_t i = 1; i < 45; i++) {
            size_t size = i % 3 == 0 ? 5000 : 48, used = memory_used(m);
            void *block = i % 3 == 1 ? memory_alloc_segment(m, SEGMENT) : memory_alloc(m, size);
            if (i == nth) {
                assert_null(block);
                assert_int_equal(memory_used(m), used);
                continue;
            }
            assert_non_null(block);
            if (i % 3 == 1) memory_free_segment(m, block, SEGMENT);
            else memory_free(m, block, size);
            assert_int_equal(memory_used(m), used);
        }
    }
    memory_fail_after(m, 3);
    memory_fail_after(m, 0);
    void *blocks[10];
    for (int i = 0; i < 10; i++) assert_non_null(blocks[i] = memory_alloc(m, 48));
    for (int i = 0; i < 10; i++) memory_free(m, blocks[i], 48);
    memory_free(m, first, 48);
    memory_drop(m);
}

#if defined(POISONS) && !defined(MEMORY_PLAIN)
static void freed_blocks_are_poisoned(void **state) {
    (void)state;
    struct memory *m = memory_new(false);
    char *a = memory_alloc(m, 40), *b = memory_alloc(m, 40);
    assert_false(__asan_address_is_poisoned(a) || __asan_address_is_poisoned(a + 39));
    memory_free(m, a, 40);
    assert_true(__asan_address_is_poisoned(a) && __asan_address_is_poisoned(a + 39));
    assert_false(__asan_address_is_poisoned(b));
    assert_ptr_equal(memory_alloc(m, 40), a);
    assert_false(__asan_address_is_poisoned(a));
    char *segment = memory_alloc_segment(m, SEGMENT);
    memory_free_segment(m, segment, SEGMENT);
    assert_true(__asan_address_is_poisoned(segment + 8));
    memory_drop(m);
}
#endif

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_given_up_waits_to_be_taken),
        cmocka_unit_test(blocks_keep_what_is_written_to_them),
        cmocka_unit_test(a_usable_size_is_its_own),
        cmocka_unit_test(charges_count_as_large),
        cmocka_unit_test(segments_are_packed_aligned_and_reused),
        cmocka_unit_test(the_nth_allocation_fails_once),
#ifdef MEMORY_PLAIN
        cmocka_unit_test(no_region_is_ever_wanted),
#else
        cmocka_unit_test(classes_are_4_bytes_apart_and_aligned_ones_8),
        cmocka_unit_test(headers_and_slack_are_little),
        cmocka_unit_test(a_free_page_serves_any_class),
        cmocka_unit_test(empty_regions_go_back_but_one),
        cmocka_unit_test(random_replacement_does_not_grow),
        cmocka_unit_test(a_prepared_region_is_used_next),
        cmocka_unit_test(segments_have_a_region_prepared_or_get_small_pages),
        cmocka_unit_test(a_slice_gets_small_pages_and_has_a_region_prepared),
        cmocka_unit_test(memory_runs_short_before_a_region_is_used_up),
        cmocka_unit_test(empty_regions_with_small_pages_are_counted_no_more),
        cmocka_unit_test(what_is_in_reserve_goes_back_once_nothing_grows),
#ifdef POISONS
        cmocka_unit_test(freed_blocks_are_poisoned),
#endif
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
