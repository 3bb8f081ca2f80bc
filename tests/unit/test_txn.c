/* The coordinator's states. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "server/txn.h"

static void all_stand_then_waves_of_hops(void **state) {
    (void)state;
    struct txn x = {0};
    txn_schedule(&x, 7, 3);
    assert_int_equal(txn_answer(&x, false), TXN_WAIT);
    assert_int_equal(txn_answer(&x, false), TXN_WAIT);
    assert_int_equal(txn_answer(&x, false), TXN_STANDS);
    txn_run(&x, 1);
    assert_int_equal(txn_answer(&x, false), TXN_WAVE_DONE);
    txn_run(&x, 3);
    assert_int_equal(txn_answer(&x, false), TXN_WAIT);
    assert_int_equal(txn_answer(&x, false), TXN_WAIT);
    assert_int_equal(txn_answer(&x, false), TXN_WAVE_DONE);
    assert_int_equal(x.withdrawals, 0);
}

static void one_late_withdraws_the_others(void **state) {
    (void)state;
    struct txn x = {0};
    txn_schedule(&x, 7, 3);
    assert_int_equal(txn_answer(&x, false), TXN_WAIT);
    assert_int_equal(txn_answer(&x, true), TXN_WAIT);
    assert_int_equal(txn_answer(&x, false), TXN_WITHDRAW);
    assert_int_equal(x.out, 2);
    assert_int_equal(txn_answer(&x, false), TXN_WAIT);
    assert_int_equal(txn_answer(&x, false), TXN_TRY_AGAIN);
    txn_schedule(&x, 9, 3);
    assert_int_equal(x.number, 9);
}

static void late_everywhere_there_is_nothing_to_withdraw(void **state) {
    (void)state;
    struct txn x = {0};
    txn_schedule(&x, 7, 2);
    assert_int_equal(txn_answer(&x, true), TXN_WAIT);
    assert_int_equal(txn_answer(&x, true), TXN_TRY_AGAIN);
}

static void it_gives_up_after_a_number_of_tries(void **state) {
    (void)state;
    struct txn x = {0};
    for (uint32_t i = 1; i <= TXN_TRIES; i++) {
        txn_schedule(&x, i, 1);
        assert_int_equal(txn_answer(&x, true), i < TXN_TRIES ? TXN_TRY_AGAIN : TXN_GIVE_UP);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_stand_then_waves_of_hops),
        cmocka_unit_test(one_late_withdraws_the_others),
        cmocka_unit_test(late_everywhere_there_is_nothing_to_withdraw),
        cmocka_unit_test(it_gives_up_after_a_number_of_tries),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
