/* Delta debugging in its simplest form (cf. Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input", 2002): what can be left out is left out. As
 * another plan runs in another order, each is tried in several. */
#include <mimalloc.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/trace.h"
#include "tests/sim/world.h"

#define ORDERS 120u

void plan_copy(struct plan *to, const struct plan *from) {
    memcpy(to, from, sizeof *to);
    for (uint32_t i = 0; i < to->n_ops; i++) to->ops[i].parts = &to->parts[from->ops[i].parts - from->parts];
}

struct shrinker {
    struct plan *best, *candidate, *run;
    judge_fn *judge;
    uint32_t n_removed;
};

static uint32_t left(const struct plan *p) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->n_ops; i++) n += !p->ops[i].removed;
    return n;
}

/* Whether the candidate fails in some order; then it is the best. */
static bool still_fails(struct shrinker *x) {
    uint64_t order = x->candidate->settings.order;
    for (uint32_t i = 0; i < ORDERS; i++) {
        x->candidate->settings.order = order + i * 0x100000001ull;
        plan_copy(x->run, x->candidate);
        bool fails = x->judge(x->run);
        world_forget();
        if (!fails) continue;
        plan_copy(x->best, x->candidate);
        return true;
    }
    return false;
}

typedef bool belongs_fn(const struct op *op, uint32_t group);

static bool of_client(const struct op *op, uint32_t group) { return op->client == group; }
static bool of_pipeline(const struct op *op, uint32_t group) { return op->pipeline == group; }

static bool try_without(struct shrinker *x, belongs_fn *belongs, uint32_t group) {
    plan_copy(x->candidate, x->best);
    for (uint32_t i = 0; i < x->candidate->n_ops; i++)
        if (belongs(&x->candidate->ops[i], group)) x->candidate->ops[i].removed = true;
    return left(x->candidate) < left(x->best) && still_fails(x);
}

static bool try_without_op(struct shrinker *x, uint32_t op) {
    plan_copy(x->candidate, x->best);
    x->candidate->ops[op].removed = true;
    return still_fails(x);
}

/* One part less of an operation whose parts don't need each other. */
static bool try_without_part(struct shrinker *x, uint32_t at, uint32_t part) {
    plan_copy(x->candidate, x->best);
    struct op *op = &x->candidate->ops[at];
    if (op->n_parts < 2 || op->parts[op->n_parts - 1].wave || op->kind == OP_WATCH) return false;
    memmove(&op->parts[part], &op->parts[part + 1], (op->n_parts - part - 1u) * sizeof *op->parts);
    op->n_parts--;
    return still_fails(x);
}

static bool try_settings(struct shrinker *x, bool *of_candidate) {
    if (!*of_candidate) return false;
    *of_candidate = false;
    return still_fails(x);
}

static void shrink_settings(struct shrinker *x) {
    struct settings *s = &x->candidate->settings;
    bool *flags[] = {&s->stall, &s->often, &s->lend, &s->expire, &s->jump, &s->refuse, &s->hold_replies, &s->release_late};
    for (uint32_t i = 0; i < sizeof flags / sizeof *flags; i++) {
        plan_copy(x->candidate, x->best);
        try_settings(x, flags[i]);
    }
    plan_copy(x->candidate, x->best);
    while (s->shards > 2) {
        s->shards--;
        if (!still_fails(x)) break;
    }
}

/* A pass over everything. True: something was left out. */
static bool shrink_once(struct shrinker *x) {
    uint32_t before = left(x->best), parts = 0;
    for (uint32_t c = 0; c < x->best->settings.clients; c++) try_without(x, of_client, c);
    for (uint32_t i = 0; i < x->best->n_ops; i++)
        if (!x->best->ops[i].removed) try_without(x, of_pipeline, x->best->ops[i].pipeline);
    for (uint32_t i = 0; i < x->best->n_ops; i++)
        if (!x->best->ops[i].removed) try_without_op(x, i);
    for (uint32_t i = 0; i < x->best->n_ops; i++)
        for (uint32_t j = 0; !x->best->ops[i].removed && j < x->best->ops[i].n_parts; j++) parts += try_without_part(x, i, j);
    shrink_settings(x);
    return left(x->best) < before || parts;
}

void plan_shrink(struct plan *p, judge_fn *judge) {
    struct shrinker x = {.best = p, .candidate = mi_malloc(sizeof *p), .run = mi_malloc(sizeof *p), .judge = judge};
    if (!x.candidate || !x.run) abort();
    while (shrink_once(&x)) {}
    mi_free(x.candidate);
    mi_free(x.run);
}
