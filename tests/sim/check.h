/* Is a history right? Each check says NULL, or what is wrong; why gets the operations that show it. None of them knows how the server works. */
#ifndef SIM_CHECK_H
#define SIM_CHECK_H

#include "tests/sim/plan.h"

#define WORDS (OPS_MAX / 64u)

/* A set of operations of a history. */
struct set {
    uint64_t words[WORDS];
};

static inline void set_add(struct set *s, uint32_t i) { s->words[i / 64] |= 1ull << i % 64; }
static inline void set_remove(struct set *s, uint32_t i) { s->words[i / 64] &= ~(1ull << i % 64); }
static inline bool set_has(const struct set *s, uint32_t i) { return s->words[i / 64] >> i % 64 & 1; }
static inline bool set_is_within(const struct set *s, const struct set *of) {
    for (uint32_t i = 0; i < WORDS; i++)
        if (s->words[i] & ~of->words[i]) return false;
    return true;
}

/* What took effect, with the order that every explanation must keep:
 *
 *   - real time: what was answered before another was asked comes first (strict serialisability);
 *   - a connection's order, of commands on one key, and of one over several shards with all others;
 *   - causal order of pipelines: whoever has seen a later command of a pipeline sees the earlier ones from then on, in what it asks of their keys. In what it asks of others a
 *     plain command need not have a place yet: it may wait for a transaction on its shard which has not run where others ask.
 */
struct history {
    const struct plan *plan;
    uint32_t n;
    const struct op *ops[OPS_MAX];
    uint64_t until[OPS_MAX];     /* when it was answered; UINT64_MAX: never */
    struct set earlier[OPS_MAX]; /* of each: what must come before it */
    int16_t writer[10000];       /* of each token: operation, or -1 */
};

void history_read(struct history *h, const struct plan *p);

/* Strict serialisability of everything, against the model. An order is looked for as in Wing and Gong, "Testing and Verifying Concurrent Objects" (JPDC 1993), with
 * the memory of states of Lowe, "Testing for Linearizability" (CCPE 2017). The order in which keys were really accessed comes first, and must
 * explain everything, so a history costs microseconds. The search only tells whether a client could have noticed. */
const char *check_linear(const struct history *h);
/* The lists that are only appended to tell the order of their writes, so dependencies are read from the answers alone, and a cycle among them is an anomaly: Adya, "Weak
 * Consistency" (MIT 1999); Kingsbury and Alvaro, "Elle: Inferring Isolation Anomalies from Experimental Observations" (VLDB 2020). */
const char *check_append(const struct history *h);
/* The sum of the accounts; the counters. */
const char *check_sums(const struct history *h);
/* Each element that was popped was pushed, and popped once. */
const char *check_taken(const struct history *h);

#endif
