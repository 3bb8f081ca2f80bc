/* Buckets that grow one at a time: every record is found, and no other; all is given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include "shard/buckets.h"
#include "shard/memory.h"
#include "tests/lib/random.h"

#define N 4000u

struct number {
    struct bucket_record in;
    uint32_t n;
    bool listed;
};

static struct memory *memory;
static uint64_t used_at_first;
static struct number all[N];

static int setup(void **state) {
    (void)state;
    memory = memory_new(false);
    if (!memory) return -1;
    used_at_first = memory_used(memory);
    for (uint32_t i = 0; i < N; i++) all[i] = (struct number){.in.hash = i * UINT64_C(0x2545f4914f6cdd1d), .n = i};
    return 0;
}

static int teardown(void **state) {
    (void)state;
    assert_int_equal(memory_used(memory), used_at_first);
    memory_drop(memory);
    return 0;
}

static const struct number *find(const struct buckets *t, uint32_t n) {
    for (struct bucket_record *r = buckets_first(t, all[n].in.hash); r; r = r->next)
        if (((struct number *)r)->n == n) return (struct number *)r;
    return NULL;
}

static void add(struct buckets *t, uint32_t n) {
    assert_true(buckets_add(t, memory, &all[n].in));
    all[n].listed = true;
}

static void take_out(struct buckets *t, uint32_t n) {
    buckets_remove(t, memory, &all[n].in);
    all[n].listed = false;
}

static void check_all(const struct buckets *t) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < N; i++) {
        assert_ptr_equal(find(t, i), all[i].listed ? &all[i] : NULL);
        n += all[i].listed;
    }
    assert_int_equal(t->n, n);
}

static void records_are_found_while_the_buckets_grow(void **state) {
    struct buckets t = {0};
    (void)state;
    for (uint32_t i = 0; i < N; i++) {
        add(&t, i);
        if (i % 97 == 0) check_all(&t);
    }
    check_all(&t);
    assert_true(t.n_heads >= N / 2); /* and lists are short */
    buckets_drop(&t, memory);
}

static void nothing_is_kept_once_the_last_record_is_out(void **state) {
    struct buckets t = {0};
    (void)state;
    for (uint32_t i = 0; i < 100; i++) add(&t, i);
    for (uint32_t i = 0; i < 100; i++) take_out(&t, i);
    assert_null(t.heads);
    assert_null(buckets_first(&t, all[0].in.hash));
    add(&t, 0);
    assert_ptr_equal(find(&t, 0), &all[0]);
    take_out(&t, 0);
}

static void records_of_one_hash_share_a_bucket(void **state) {
    struct buckets t = {0};
    (void)state;
    for (uint32_t i = 0; i < 300; i++) {
        all[i].in.hash = 7;
        add(&t, i);
    }
    take_out(&t, 150);
    take_out(&t, 0);
    take_out(&t, 299);
    for (uint32_t i = 0; i < 300; i++) assert_ptr_equal(find(&t, i), all[i].listed ? &all[i] : NULL);
    buckets_drop(&t, memory);
}

static void coming_and_going_at_random_agrees_with_a_list(void **state) {
    struct buckets t = {0};
    struct random dice;
    random_seed(&dice, 1, 0);
    (void)state;
    for (uint32_t step = 0; step < 20000; step++) {
        uint32_t n = below(&dice, step % 2000 < 1000 ? N : 20);
        if (all[n].listed) take_out(&t, n);
        else add(&t, n);
        if (step % 500 == 0) check_all(&t);
    }
    check_all(&t);
    buckets_drop(&t, memory);
}

static void refused_memory_makes_lists_longer_and_an_empty_one_say_no(void **state) {
    struct buckets t = {0};
    (void)state;
    memory_fail_after(memory, 1);
    assert_false(buckets_add(&t, memory, &all[0].in));
    assert_int_equal(t.n, 0);
    memory_fail_after(memory, 0);
    for (uint32_t i = 0; i < 200; i++) {
        memory_fail_after(memory, i ? 1 : 0);
        add(&t, i);
    }
    memory_fail_after(memory, 0);
    check_all(&t);
    for (uint32_t i = 200; i < 1000; i++) add(&t, i); /* and it goes on growing */
    check_all(&t);
    buckets_drop(&t, memory);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(records_are_found_while_the_buckets_grow, setup, teardown),
        cmocka_unit_test_setup_teardown(nothing_is_kept_once_the_last_record_is_out, setup, teardown),
        cmocka_unit_test_setup_teardown(records_of_one_hash_share_a_bucket, setup, teardown),
        cmocka_unit_test_setup_teardown(coming_and_going_at_random_agrees_with_a_list, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_memory_makes_lists_longer_and_an_empty_one_say_no, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
