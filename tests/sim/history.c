#include <stdlib.h>
#include <string.h>

#include "tests/sim/check.h"

/* Their order on a key of both makes a difference. */
static bool conflict_on_a_key(const struct op *a, const struct op *b) {
    for (uint32_t i = 0; i < a->n_parts; i++)
        for (uint32_t j = 0; j < b->n_parts; j++) {
            const struct part *p = &a->parts[i], *q = &b->parts[j];
            if (p->db == q->db && p->key == q->key && (part_writes(p) || part_writes(q))) return true;
        }
    return false;
}

static bool conflict(const struct op *a, const struct op *b) { return a->multi || b->multi || conflict_on_a_key(a, b); }

static bool has_no_keys(const struct op *op) { return op->kind == OP_FLUSH || op->kind == OP_SWAP; }

static bool same_conn_before(const struct op *a, const struct op *b) {
    return a->kind != OP_EXPIRED && b->kind != OP_EXPIRED && a->conn == b->conn && a->position < b->position;
}

/* Of each connection: from which position on nothing was seen yet. */
struct seen {
    uint16_t until[CONNS_MAX];
};

static void see(const struct history *h, struct seen *seen, const struct op *op) {
    for (uint32_t i = 0; i < op->n_parts; i++) {
        const struct value *v = &op->parts[i].got;
        if (!v->text) continue;
        for (uint32_t at = 0; at + TOKEN_SIZE <= v->size && v->text[at + TOKEN_SIZE - 1] == ';'; at += TOKEN_SIZE) {
            int16_t w = h->writer[(unsigned)atoi(v->text + at) % 10000u];
            if (w < 0) continue;
            const struct op *writer = h->ops[w];
            if (seen->until[writer->conn] < writer->position) seen->until[writer->conn] = writer->position;
        }
    }
}

static void add_causal_order(struct history *h, uint32_t j) {
    struct seen seen = {{0}};
    for (uint32_t i = 0; i < h->n; i++)
        if (h->until[i] < h->ops[j]->invoked && h->ops[i]->kind != OP_EXPIRED) see(h, &seen, h->ops[i]);
    for (uint32_t i = 0; i < h->n; i++)
        if (i != j && h->ops[i]->kind != OP_EXPIRED && h->ops[i]->position < seen.until[h->ops[i]->conn] &&
            (has_no_keys(h->ops[j]) || conflict_on_a_key(h->ops[i], h->ops[j])))
            set_add(&h->earlier[j], i);
}

void history_read(struct history *h, const struct plan *p) {
    h->plan = p;
    h->n = 0;
    memset(h->writer, -1, sizeof h->writer);
    memset(h->earlier, 0, sizeof h->earlier);
    for (uint32_t i = 0; i < p->n_ops; i++) {
        const struct op *op = &p->ops[i];
        if (!op->ran) continue;
        h->until[h->n] = op->returned ? op->returned : UINT64_MAX;
        for (uint32_t j = 0; j < op->n_parts; j++)
            if (op->parts[j].token && op->parts[j].status == PART_DONE && op->parts[j].from < 0)
                h->writer[op->parts[j].token % 10000u] = (int16_t)h->n;
        h->ops[h->n++] = op;
    }
    for (uint32_t j = 0; j < h->n; j++) {
        if (h->ops[j]->kind == OP_EXPIRED) continue; /* nobody asks for it, so it need not come behind what is already on its way */
        for (uint32_t i = 0; i < h->n; i++)
            if (h->until[i] < h->ops[j]->invoked || (same_conn_before(h->ops[i], h->ops[j]) && conflict(h->ops[i], h->ops[j])))
                set_add(&h->earlier[j], i);
        add_causal_order(h, j);
    }
}
