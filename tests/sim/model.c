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

/* A key of the model. */
struct place {
    struct value *value;
    struct elements *elements;
};

static struct place place_of(struct model *m, const struct part *p) {
    return (struct place){&m->values[p->db][p->key], &m->elements[p->db][p->key]};
}

static void clear(struct place at) {
    *at.value = (struct value){0};
    at.elements->n = 0;
}

static uint32_t element_text(char text[TOKEN_SIZE + 1], uint32_t token) {
    return (uint32_t)snprintf(text, TOKEN_SIZE + 1, "%04u;", token % 10000u);
}

static void push(struct place at, const struct part *p) {
    char text[TOKEN_SIZE + 1];
    element_text(text, p->token);
    at.value->code = code_more(at.value->code, text, TOKEN_SIZE);
    at.value->size += TOKEN_SIZE;
    if (at.elements->n < ELEMENTS_MAX) at.elements->tokens[at.elements->n] = p->token;
    at.elements->n++;
}

/* True: the element is the last one, which is gone now. */
static bool pop(struct place at, const struct value *element) {
    char text[TOKEN_SIZE + 1];
    struct elements *e = at.elements;
    if (!e->n-- || !element->text) return false;
    if (e->n < ELEMENTS_MAX && element_text(text, e->tokens[e->n]) && strcmp(text, element->text)) return false;
    at.value->code = code_less(at.value->code, element->text, TOKEN_SIZE);
    at.value->size -= TOKEN_SIZE;
    if (!e->n) clear(at);
    return true;
}

static void write_part(struct model *m, const struct op *op, const struct part *p, struct part *answer, const struct part *answers) {
    const struct value nothing = {.deadline_ms = INT64_MAX};
    struct place at = place_of(m, p);
    struct value *v = at.value;
    if (p->kind == PART_DEL) {
        answer->result = v->code != 0;
        clear(at);
        return;
    }
    if (!v->code || p->kind == PART_SET) {
        *v = nothing;
        at.elements->n = 0;
    }
    if (p->kind == PART_SET && p->from >= 0) {
        *v = answers[p->from].got;
        *at.elements = *place_of(m, &op->parts[p->from]).elements;
    } else if (p->kind == PART_INCR) {
        set_number(v, v->number + p->number);
        answer->result = v->number;
    } else {
        push(at, p);
        answer->result = v->size;
        if (p->ttl_ms) v->deadline_ms = op->now_ms + p->ttl_ms;
    }
}

static bool apply_pop(struct place at, const struct value *seen, const struct part *p) {
    if (seen->size < p->needs * TOKEN_SIZE) return p->status == PART_ABSENT;
    return p->status == PART_DONE && pop(at, &p->got);
}

/* One part; answer gets what it should have answered. */
static bool apply_part(struct model *m, const struct op *op, const struct part *p, struct part *answer, const struct part *answers) {
    struct place at = place_of(m, p);
    const struct value gone = {0}, *seen = at.value;
    bool past = seen->code && seen->deadline_ms < op->now_ms;
    *answer = *p;
    if (p->status == PART_NOT_RUN || (p->expired && !past)) return false;
    if (past && part_changed(p)) clear(at);
    if (past) seen = &gone;
    if (p->status == PART_REFUSED) return true;
    if (p->kind == PART_POP) return apply_pop(at, seen, p);
    if (p->kind == PART_GET) {
        answer->got = *seen;
        answer->status = seen->code ? PART_DONE : PART_ABSENT;
        return answer->status == p->status && seen->code == p->got.code && (!seen->code || seen->deadline_ms == p->got.deadline_ms);
    }
    answer->status = PART_DONE;
    if (p->kind == PART_EXISTS) answer->result = seen->code != 0;
    else write_part(m, op, p, answer, answers);
    return p->status == PART_DONE && answer->result == p->result;
}

static void flush(struct model *m) {
    for (uint32_t db = DB_A; db <= DB_B; db++) {
        memset(m->values[db], 0, sizeof m->values[db]);
        for (uint32_t key = 0; key < KEYS_MAX; key++) m->elements[db][key].n = 0;
    }
}

static void swap(struct model *m) {
    const struct model were = *m;
    memcpy(m->values[DB_A], were.values[DB_B], sizeof were.values[DB_B]);
    memcpy(m->values[DB_B], were.values[DB_A], sizeof were.values[DB_A]);
    memcpy(m->elements[DB_A], were.elements[DB_B], sizeof were.elements[DB_B]);
    memcpy(m->elements[DB_B], were.elements[DB_A], sizeof were.elements[DB_A]);
}

/* The server's own deletion of a key whose time has come. */
static bool expire(struct model *m, const struct op *op) {
    struct place at = place_of(m, &op->parts[0]);
    if (!at.value->code || at.value->deadline_ms >= op->now_ms) return false;
    clear(at);
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
        if (op->kind == OP_POP && p->status == PART_NOT_RUN) continue; /* another of its keys had something first */
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
