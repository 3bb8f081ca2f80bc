#include "server/txn.h"

#include <stdlib.h>

static void expect(bool legal) {
    if (!legal) abort();
}

void txn_schedule(struct txn *x, uint64_t number, uint32_t n) {
    expect(x->state == TXN_IDLE && n);
    x->state = TXN_SCHEDULING;
    x->number = number;
    x->out = n;
    x->standing = 0;
    x->any_late = false;
}

void txn_run(struct txn *x, uint32_t n) {
    expect(x->state == TXN_STANDING && n && n <= x->standing);
    x->state = TXN_RUNNING;
    x->out = n;
}

static enum txn_verdict withdrawn(struct txn *x) {
    x->state = TXN_IDLE;
    return ++x->withdrawals < TXN_TRIES ? TXN_TRY_AGAIN : TXN_GIVE_UP;
}

static enum txn_verdict all_answered(struct txn *x) {
    if (!x->any_late) {
        x->state = TXN_STANDING;
        return TXN_STANDS;
    }
    if (!x->standing || TXN_FAULT == TXN_FAULT_NO_WITHDRAWAL) return withdrawn(x);
    x->state = TXN_WITHDRAWING;
    x->out = x->standing;
    return TXN_WITHDRAW;
}

enum txn_verdict txn_answer(struct txn *x, bool late) {
    expect(x->out);
    x->out--;
    switch ((enum txn_state)x->state) {
    case TXN_SCHEDULING:
        if (late && TXN_FAULT != TXN_FAULT_LATE_STANDS) x->any_late = true;
        else x->standing++;
        return x->out ? TXN_WAIT : all_answered(x);
    case TXN_WITHDRAWING: return x->out ? TXN_WAIT : withdrawn(x);
    case TXN_RUNNING:
        if (x->out) return TXN_WAIT;
        x->state = TXN_STANDING;
        return TXN_WAVE_DONE;
    case TXN_IDLE:
    case TXN_STANDING: break;
    }
    abort();
}
