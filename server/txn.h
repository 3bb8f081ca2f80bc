/* The coordinator's half of the scheduler: the life of one transaction over several shards, as a state machine without messages, threads or memory.
 * Whoever drives it (transact.c; the simulator) sends what a verdict asks for, and tells what came back. The shard's half is shard/schedule.h.
 *
 *   state        | what happens                        | next        | verdict
 *   -------------+-------------------------------------+-------------+------------------------------------------------------
 *   IDLE         | txn_schedule: n members are sent    | SCHEDULING  |
 *   SCHEDULING   | an answer, not the last             | SCHEDULING  | WAIT
 *                | the last, all stand                 | STANDING    | STANDS: send the first hops
 *                | the last, some stand, some are late | WITHDRAWING | WITHDRAW: tell those that stand
 *                | the last, all are late              | IDLE        | TRY_AGAIN, or GIVE_UP after TXN_TRIES
 *   WITHDRAWING  | an answer, not the last             | WITHDRAWING | WAIT
 *                | the last                            | IDLE        | TRY_AGAIN, or GIVE_UP after TXN_TRIES
 *   STANDING     | txn_run: n hops are sent            | RUNNING     |
 *   RUNNING      | an answer, not the last             | RUNNING     | WAIT
 *                | the last                            | STANDING    | WAVE_DONE: send the next hops; or all members were released with this wave
 *
 * Anything else is a fault in the program and stops it. No hop runs before all members stand, so a shard may show effects of the transaction while another
 * does not have them yet, but no one can come between. GIVE_UP: the transaction runs as an exclusive one, which nothing can overtake, so each
 * ends after a bounded number of tries.
 */
#ifndef SERVER_TXN_H
#define SERVER_TXN_H

#include <stdbool.h>
#include <stdint.h>

/* Deliberate faults, one at a time, that the simulator must find (tests/sim). Never set elsewhere. */
#ifndef TXN_FAULT
#define TXN_FAULT 0
#endif
enum { TXN_FAULT_NO_WITHDRAWAL = 10, TXN_FAULT_LATE_STANDS = 11 };

/* Withdrawals before the exclusive plan. */
#define TXN_TRIES 4u

enum txn_state { TXN_IDLE, TXN_SCHEDULING, TXN_WITHDRAWING, TXN_STANDING, TXN_RUNNING };
enum txn_verdict { TXN_WAIT, TXN_STANDS, TXN_WITHDRAW, TXN_TRY_AGAIN, TXN_GIVE_UP, TXN_WAVE_DONE };

/* All zero at first. */
struct txn {
    uint64_t number;
    uint32_t state;       /* enum txn_state */
    uint32_t out;         /* members that have not answered yet */
    uint32_t standing;    /* members whose intents stand */
    uint32_t withdrawals; /* times that it was withdrawn */
    bool any_late;
};

/* n members are on their way to their shards, with this number. */
void txn_schedule(struct txn *x, uint64_t number, uint32_t n);
/* n hops are on their way to shards where the transaction stands. */
void txn_run(struct txn *x, uint32_t n);
/* A shard has answered; late: to a schedule: it was not taken in. */
enum txn_verdict txn_answer(struct txn *x, bool late);

#endif
