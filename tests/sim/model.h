/* The sequential specification: what operations answer if they are carried out one after another. */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include "tests/sim/plan.h"

#define ELEMENTS_MAX 40u

/* The elements of a key, as far as there is room. What stands above it was pushed, and is popped, without being known. */
struct elements {
    uint16_t n, tokens[ELEMENTS_MAX];
};

struct model {
    struct value values[DBS][KEYS_MAX];
    struct elements elements[DBS][KEYS_MAX];
};

/* All accounts have BANK_START; nothing else is there. */
void model_init(struct model *m, uint32_t keys);
/* Carries op out; true if it answers what the history says. What was refused for want of memory, and which keys were found past their time and
 * deleted, is taken from the history. */
bool model_apply(struct model *m, const struct op *op);
/* For remembering states. */
uint64_t model_hash(const struct model *m);

#endif
