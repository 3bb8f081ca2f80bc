#include <stddef.h>

#include "tests/sim/check.h"

/* Readings of all accounts at once. */
static const char *check_bank(const struct history *h) {
    uint32_t keys = h->plan->settings.keys;
    for (uint32_t i = 0; i < h->n; i++) {
        const struct op *op = h->ops[i];
        int64_t sum = 0;
        if (op->kind != OP_MGET || op->parts[0].db != DB_BANK || h->until[i] == UINT64_MAX) continue;
        for (uint32_t j = 0; j < op->n_parts; j++) sum += op->parts[j].got.number;
        if (op->n_parts == keys && sum != (int64_t)keys * BANK_START) return "the sum of all accounts was another at a moment";
    }
    return NULL;
}

static bool counts(const struct part *p, uint32_t key) {
    return p->kind == PART_INCR && p->db == DB_LISTS && p->key == key && p->status == PART_DONE;
}

/* Each counts a step of its own, and later ones later steps. */
static const char *check_counter(const struct history *h, uint32_t key) {
    for (uint32_t i = 0; i < h->n; i++)
        for (uint32_t j = 0; j < h->n; j++)
            for (uint32_t p = 0; p < h->ops[i]->n_parts; p++)
                for (uint32_t q = 0; q < h->ops[j]->n_parts && counts(&h->ops[i]->parts[p], key); q++) {
                    if ((i == j && p == q) || !counts(&h->ops[j]->parts[q], key)) continue;
                    int64_t a = h->ops[i]->parts[p].result, b = h->ops[j]->parts[q].result;
                    if (a == b) return "two counted the same step";
                    if (h->until[i] < h->ops[j]->invoked && a > b) return "a counter went back";
                }
    return NULL;
}

const char *check_sums(const struct history *h) {
    const char *wrong = check_bank(h);
    uint32_t keys = h->plan->settings.keys;
    for (uint32_t key = keys - keys / 3; key < keys && !wrong; key++) wrong = check_counter(h, key);
    return wrong;
}
