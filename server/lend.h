/* Lending: a core that sleeps lends its shard.
 *
 * A thread that goes to sleep lets go of its shard (io/holder.h). A thread that has a batch for it borrows the shard, serves its mailbox in the order of
 * arrival, runs its own batch last, on its own core, and gives it back: nobody is woken, no turn is added, and the hop costs what a local command costs.
 * All that a command touches hangs from struct shard, so it passes with the word, and so does the consumer's half of the request mailbox.
 *
 * Rules:
 *   - A shard is only tried, never waited for. An owner that finds its shard lent serves its sockets meanwhile; its own hops then go by its own mailbox, so
 *     that they keep their place in the one order of arrival.
 *   - Only bounded work is done on a borrowed shard: batches of hops, pieces of a fan-out, blobs given back, what is to be forgotten. Anything else is left, in its order,
 *     to the owner, who is woken.
 *   - The causal order of pipelines (docs/architecture.md): all shards that will be borrowed in a turn are borrowed, and their mailboxes collected, before the other
 *     outboxes are armed; and own hops run before those on borrowed shards, since their replies have no record of their place.
 *   - A borrower that moves the shard's next deadline forward wakes the owner.
 *   - A thread lets go only while it sleeps, has no slices left to run, no coordinator holds its shard, and no CLIENT PAUSE is on.
 */
#ifndef SERVER_LEND_H
#define SERVER_LEND_H

#include <stdbool.h>
#include <stdint.h>

struct thread;

/* The start of a turn: takes the own shard back, if it is there. */
void lend_take(struct thread *t);
/* In the flush, when there is work for the own shard and it is lent: tries a little, then asks for it. */
void lend_insist(struct thread *t);
/* Before sleep. True: the thread may announce its sleep; false: the shard has just come back, and there is work. */
bool lend_let_go(struct thread *t);
/* After sleep was announced: true if it must not sleep, since its shard was handed to it, or has work that nobody sees to. */
bool lend_must_stay(struct thread *t);

/* Borrows every shard that something is queued for and whose owner sleeps: before anything is armed. */
void lend_borrow_all(struct thread *t);
/* Runs what is for the borrowed shards, and gives them back. */
void lend_run_borrowed(struct thread *t);
/* Sees to what was pushed and armed for shards that nobody may be looking at: runs it, or leaves it to who holds the shard, or wakes the owner. */
void lend_settle_all(struct thread *t);
/* Something was pushed for this shard: lend_settle_all will see to it. */
void lend_queued(struct thread *t, uint32_t shard);

#endif
