#include <stdlib.h>

#include "tests/sim/check.h"

const char *check_taken(const struct history *h) {
    bool taken[sizeof h->writer / sizeof *h->writer] = {false};
    for (uint32_t i = 0; i < h->n; i++)
        for (uint32_t j = 0; j < h->ops[i]->n_parts; j++) {
            const struct part *p = &h->ops[i]->parts[j];
            if (p->kind != PART_POP || p->status != PART_DONE) continue;
            uint32_t token = (unsigned)atoi(p->got.text) % 10000u;
            if (taken[token]) return "an element was taken twice";
            if (h->writer[token] < 0) return "an element was taken that nobody has pushed";
            taken[token] = true;
        }
    return NULL;
}
