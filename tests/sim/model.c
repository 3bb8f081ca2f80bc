#include "tests/sim/model.h"

#include <stdio.h>
#include <string.h>

static void set_number(struct value *v, int64_t n) {
    char text[24];
    v->size = (uint32_t)snprintf(text, sizeof text, "%lld", (long long)n);
    v->number = n;
    v->code = code_more(0, text, v->size);
}

void model_init(struct model *m, uint32_t keys) {
    memset(m, 0, sizeof *m);
    for (uint32_t i = 0; i < keys; i++) {
        set_number(&m->values[DB_BANK][i], BANK_START);
        m->values[DB_BANK][i].deadline_ms = INT64_MAX;
    }
}

static void append(struct value *v, const struct part *p) {
    char text[TOKEN_SIZE + 1];
    snprintf(text, sizeof text, "%04u;", p->token % 10000u);
    v->code = code_more(v->code, text, TOKEN_SIZE);
    v->size += TOKEN_SIZE;
}

static void write_part(struct value *v, const struct part *p, struct part *answer, const struct part *answers, int64_t now_ms) {
    const struct value nothing = {.deadline_ms = INT64_MAX};
    if (p->kind == PART_DEL) {
        answer->result = v->code != 0;
        *v = (struct value){0};
        return;
    }
    if (!v->code || p->kind == PART_SET) *v = nothing;
    if (p->kind == PART_SET && p->from >= 0) {
        *v = answers[p->from].got;
    } else if (p->kind == PART_INCR) {
        set_number(v, v->number + p->number);
        answer->result = v->number;
    } else {
        append(v, p);
        answer->result = v->size;
        if (p->ttl_ms) v->deadline_ms = now_ms + p->ttl_ms;
    }
}

/* One part; answer gets what it should have answered. */
static bool apply_part(struct model *m, const struct op *op, const struct part *p, struct part *answer, const struct part *answers) {
    struct value *v = &m->values[p->db][p->key], gone = {0};
    bool past = v->code && v->deadline_ms < op->now_ms;
    *answer = *p;
    if (p->status == PART_NOT_RUN || (p->expired && !past)) return false;
    if (past && (p->expired || (part_writes(p) && p->status != PART_REFUSED))) *v = gone;
    const struct value *seen = past ? &gone : v;
    if (p->status == PART_REFUSED) return true;
    if (p->kind == PART_GET) {
        answer->got = *seen;
        answer->status = seen->code ? PART_DONE : PART_ABSENT;
        return answer->status == p->status && seen->code == p->got.code && (!seen->code || seen->deadline_ms == p->got.deadline_ms);
    }
    answer->status = PART_DONE;
    if (p->kind == PART_EXISTS) answer->result = seen->code != 0;
    else write_part(v, p, answer, answers, op->now_ms);
    return p->status == PART_DONE && answer->result == p->result;
}

static void flush(struct model *m) {
    memset(m->values[DB_A], 0, sizeof m->values[DB_A]);
    memset(m->values[DB_B], 0, sizeof m->values[DB_B]);
}

static void swap(struct model *m) {
    struct value were[KEYS_MAX];
    memcpy(were, m->values[DB_A], sizeof were);
    memcpy(m->values[DB_A], m->values[DB_B], sizeof were);
    memcpy(m->values[DB_B], were, sizeof were);
}

/* The server's own deletion of a key whose time has come. */
static bool expire(struct model *m, const struct op *op) {
    struct value *v = &m->values[op->parts[0].db][op->parts[0].key];
    if (!v->code || v->deadline_ms >= op->now_ms) return false;
    *v = (struct value){0};
    return true;
}

bool model_apply(struct model *m, const struct op *op) {
    struct part answers[PARTS_MAX];
    bool first = true, goes = true;
    memcpy(answers, op->parts, op->n_parts * sizeof *answers);
    if (op->kind == OP_EXPIRED) return expire(m, op);
    if (op->kind == OP_FLUSH) flush(m);
    if (op->kind == OP_SWAP) swap(m);
    for (uint32_t i = 0; i < op->n_parts; i++) {
        const struct part *p = &op->parts[i];
        if (p->wave && first) {
            first = false;
            goes = op_goes_on((enum op_kind)op->kind, answers, op->n_parts, op->n_watched);
            if (goes != op->went) return false;
        }
        if (p->wave && !goes) {
            if (p->status != PART_NOT_RUN) return false;
        } else if (!apply_part(m, op, p, &answers[i], answers)) return false;
    }
    return true;
}

uint64_t model_hash(const struct model *m) {
    uint64_t hash = 1;
    for (uint32_t i = 0; i < DBS; i++)
        for (uint32_t j = 0; j < KEYS_MAX; j++) {
            const struct value *v = &m->values[i][j];
            hash = (hash ^ v->code) * 0x9e3779b97f4a7c15ull;
            hash = (hash ^ (uint64_t)v->deadline_ms ^ hash >> 29) * 0xbf58476d1ce4e5b9ull;
        }
    return hash;
}
