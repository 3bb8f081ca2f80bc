/* Commands that wait for keys, in step with server/waiting.c; and the lines of those that wait, kept once more in the plainest way, by which shard/wait.c is judged:
 *
 *   - whoever is served is the first of the key's line with a use for what is there;
 *   - before anything else runs on a shard, and after each message, nobody is parked there with a key that has something for him, but for keys that a
 *     transaction under way holds.
 */
#include <mimalloc.h>
#include <stdlib.h>
#include <string.h>

#include "shard/keyspace.h"
#include "tests/sim/world.h"

/* ---- lines ---- */

static struct part *part_of(const struct wait *w) { return &((struct pop *)w->waiter->owner)->op->parts[w->nth]; }

static struct line *line_of(struct world *w, const struct part *p) { return &w->lines[p->db][p->key]; }

static void line_add(struct world *w, struct pop *x, const struct part *p) {
    struct line *line = line_of(w, p);
    if (line->n == LINE_MAX) abort();
    line->of[line->n++] = x;
}

static void line_remove(struct world *w, const struct pop *x, const struct part *p) {
    struct line *line = line_of(w, p);
    uint32_t kept = 0;
    for (uint32_t i = 0; i < line->n; i++)
        if (line->of[i] != x) line->of[kept++] = line->of[i];
    line->n = kept;
}

/* Elements of a key, at a time in ms. */
static uint32_t elements(const struct world *w, const struct shard *s, uint32_t db, uint32_t key, int64_t now_ms) {
    table_slot *slot = table_find(&s->dbs[db]->keys, w->hashes[key], w->names[key], (uint32_t)strlen(w->names[key]));
    if (!slot || entry_expired(table_entry(*slot), now_ms)) return 0;
    return execute_elements(&(struct key){.entry = table_entry(*slot)});
}

/* The first of a line that has a use for n elements. */
static const struct pop *first_of(const struct line *line, uint32_t n) {
    for (uint32_t i = 0; i < line->n; i++)
        if (!atomic_load(&line->of[i]->claim) && line->of[i]->op->parts[0].needs <= n) return line->of[i];
    return NULL;
}

/* A key that is past its time for somebody is not there for him; whether a waiter must be served with it depends on whose time it was. So it counts only if it is there for all. */
void waiting_check_lines(struct thread *of) {
    struct world *w = of->world;
    for (uint32_t db = 0; db < DBS; db++)
        for (uint32_t key = 0; key < w->plan->settings.keys; key++) {
            if (w->shard_of[key] != of->id || !w->lines[db][key].n || schedule_holds(&of->shard->schedule, INTENT_DB, w->hashes[key]))
                continue;
            uint32_t n = elements(w, of->shard, db, key, w->latest_ms);
            if (n && first_of(&w->lines[db][key], n)) w->wrong = "somebody is left parked although a key has something for him";
        }
}

const char *waiting_left(const struct thread *t) {
    const struct waits *s = &t->shard->waits;
    if (s->n || s->keys.n || s->keys.heads) return "somebody is left in a queue of a shard";
    if (s->ready || s->held) return "a key is left ready, or held";
    for (uint32_t db = 0; db < DBS; db++)
        for (uint32_t key = 0; key < KEYS_MAX; key++)
            if (t->world->lines[db][key].n) return "somebody is left in a line";
    return NULL;
}

/* ---- making and forgetting ---- */

static struct pop *pop_new(struct world *w, struct task *k) {
    struct op *op = k->op;
    struct pop *x = mi_calloc(1, sizeof *x);
    if (!x) abort();
    *x = (struct pop){.op = op, .task = k, .home = k->thread->id, .holders = 1, .first = NONE};
    for (uint32_t i = 0; i < op->n_parts; i++) {
        uint32_t s = w->shard_of[op->parts[i].key];
        if (!x->halves[s]) {
            x->halves[s] = mi_calloc(1, sizeof *x->halves[s]);
            if (!x->halves[s]) abort();
            x->halves[s]->waiter = (struct waiter){.claim = &x->claim, .owner = x, .keys = x->halves[s]->keys};
            x->holders++;
        }
        struct waiter *who = &x->halves[s]->waiter;
        who->keys[who->n++] = (struct wait){.waiter = who, .nth = i};
    }
    w->pops++;
    return x;
}

static void release(struct world *w, struct pop *x) {
    if (--x->holders) return;
    w->pops--;
    mi_free(x);
}

static void leave_lines(struct world *w, const struct waiter *who) {
    for (uint32_t i = 0; i < who->n; i++) line_remove(w, who->owner, part_of(&who->keys[i]));
}

static void forget(struct thread *of, struct half *half) {
    wait_forget(of->shard, &half->waiter);
    leave_lines(of->world, &half->waiter);
    release(of->world, half->waiter.owner);
    mi_free(half);
}

void waiting_forget_arrived(struct thread *of, struct letter *l) {
    forget(of, l->half);
    letter_free(of->world, l);
}

/* ---- the shard's side ---- */

static bool is_ready(struct thread *of, const struct part *p) {
    return elements(of->world, of->shard, p->db, p->key, of->shard->now_ms) >= p->needs;
}

/* The first of the keys on this shard that has something. */
static uint32_t look(struct thread *of, struct pop *x) {
    const struct waiter *who = &x->halves[of->id]->waiter;
    of->shard->now_ms = x->op->now_ms;
    for (uint32_t i = 0; i < who->n; i++) {
        struct part *p = part_of(&who->keys[i]);
        if (is_ready(of, p)) return who->keys[i].nth;
        p->at = ++of->world->moment;
        p->status = PART_ABSENT;
    }
    return NONE;
}

static void queue_up(struct thread *of, struct pop *x) {
    struct world *w = of->world;
    struct waiter *who = &x->halves[of->id]->waiter;
    for (uint32_t i = 0; i < who->n; i++) {
        const struct part *p = part_of(&who->keys[i]);
        const char *name = w->names[p->key];
        if (!wait_add(of->shard, &who->keys[i], p->db, w->hashes[p->key], name, (uint32_t)strlen(name))) {
            x->refused = true;
            return;
        }
        line_add(w, x, p);
    }
}

/* What it has found out about keys before does not count any more, from one of them on. */
static void forget_answers(struct pop *x, uint32_t from) {
    for (uint32_t i = from; i < x->op->n_parts; i++) {
        x->op->parts[i].status = PART_NOT_RUN;
        x->op->parts[i].at = 0;
    }
}

static void take(struct thread *of, struct pop *x, uint32_t nth) {
    x->op->ran = of->world->moment + 1;
    execute_part(of, x->op, &x->op->parts[nth]);
}

void waiting_try(struct thread *of, struct pop *x) {
    x->op->ran = ++of->world->moment;
    x->first = look(of, x);
    if (x->first == NONE) queue_up(of, x);
    else take(of, x, x->first);
}

/* The first wave looks, the second takes or queues up. */
void waiting_wave(struct thread *of, struct pop *x) {
    if (x->state == POP_LOOKING) {
        uint32_t found = look(of, x);
        if (found < x->first) x->first = found;
    } else if (x->first == NONE) queue_up(of, x);
    else if (of->world->shard_of[x->op->parts[x->first].key] == of->id) {
        forget_answers(x, x->first); /* those before it had nothing, under the same intents */
        take(of, x, x->first);
    }
}

void waiting_on_held(struct world *w, struct pop *x) {
    for (uint32_t i = 0; i < x->op->n_parts && x->first == NONE; i++) {
        struct part *p = &x->op->parts[i];
        struct thread *of = &w->threads[w->shard_of[p->key]];
        of->shard->now_ms = x->op->now_ms;
        if (is_ready(of, p)) {
            x->first = i;
            take(of, x, i);
            return;
        }
        p->at = ++w->moment;
        p->status = PART_ABSENT;
    }
    for (uint32_t s = 0; s < w->n_threads; s++)
        if (x->halves[s]) queue_up(&w->threads[s], x);
}

static void tell(struct thread *t, struct pop *x) {
    struct letter *l = letter_new(t, LETTER_SERVED, x->home);
    l->pop = x;
    thread_post(t, l, false);
}

static void take_for(struct thread *of, struct pop *x, uint32_t nth) {
    x->op->now_ms = of->shard->now_ms;
    forget_answers(x, 0);
    take(of, x, nth);
}

/* Its key is locked; what is taken goes at the end. False: no memory. */
static bool serve_in_slices(struct thread *of, struct pop *x, uint32_t nth) {
    struct world *w = of->world;
    struct serving *v = mi_calloc(1, sizeof *v), **link = &of->serving;
    if (!v) abort();
    *v = (struct serving){.pop = x, .nth = nth, .now_ms = of->shard->now_ms};
    v->member = (struct member){.local = true, .intents = v->intents, .n_intents = 2};
    intent_on_database(&v->intents[0], INTENT_DB, INTENT_WRITE_WITHIN);
    intent_on_key(&v->intents[1], INTENT_DB, w->hashes[x->op->parts[nth].key], true);
    if (sim_fault != FAULT_SERVED_UNLOCKED && !schedule_add_begun(&of->shard->schedule, &v->member)) {
        mi_free(v);
        return false;
    }
    while (*link) link = &(*link)->next;
    *link = v;
    w->stats.sliced++;
    return true;
}

static void serve_one(struct thread *t, struct thread *of, struct wait *turn) {
    struct pop *x = turn->waiter->owner;
    uint32_t nth = turn->nth;
    wait_forget(of->shard, turn->waiter);
    leave_lines(of->world, turn->waiter);
    x->holders++;
    of->world->stats.served++;
    if (one_in(&of->world->random, 3) && serve_in_slices(of, x, nth)) return;
    take_for(of, x, nth);
    tell(t, x);
}

/* Who has left loses nothing, as long as nothing was taken away. */
void waiting_serve_out(struct thread *t, struct thread *of) {
    struct serving *v = of->serving;
    struct pop *x = v->pop;
    of->serving = v->next;
    of->shard->now_ms = v->now_ms;
    if (!x->task->conn->closed || one_in(&of->world->random, 2)) take_for(of, x, v->nth);
    tell(t, x);
    if (v->member.in) execute_leave(t, of, &v->member);
    mi_free(v);
    waiting_serve(t, of);
}

void waiting_serve(struct thread *t, struct thread *of) {
    struct world *w = of->world;
    struct wait *turn;
    while ((turn = wait_next(of->shard))) {
        const struct part *p = part_of(turn);
        struct pop *x = turn->waiter->owner;
        uint32_t n = elements(w, of->shard, p->db, p->key, of->shard->now_ms);
        if (n < p->needs) {
            wait_pass(turn);
            continue;
        }
        if (first_of(line_of(w, p), n) != x) w->wrong = "somebody is served before who came first";
        if (wait_claim(turn->waiter) || sim_fault == WAIT_FAULT_CLAIM_IGNORED) serve_one(t, of, turn);
        else wait_forget(of->shard, turn->waiter);
    }
    waiting_check_lines(of);
}

/* ---- the connection's side ---- */

static void forget_all(struct thread *t, struct pop *x) {
    for (uint32_t s = 0; s < t->world->n_threads; s++) {
        struct half *half = x->halves[s];
        if (!half) continue;
        x->halves[s] = NULL;
        if (s == t->id && thread_holds(t)) {
            forget(t, half);
            continue;
        }
        if (sim_fault == FAULT_HALF_FORGOTTEN) continue;
        struct letter *l = letter_new(t, LETTER_FORGET, s);
        l->half = half;
        thread_post(t, l, true);
    }
}

static void end(struct thread *t, struct pop *x) {
    struct task *k = x->task;
    k->conn->parked = NULL;
    x->state = POP_OVER;
    forget_all(t, x);
    release(t->world, x);
    coordinate_end(t, k);
}

/* Nothing of it has an answer. */
static void refuse(struct thread *t, struct pop *x) {
    forget_answers(x, 0);
    end(t, x);
}

static bool may_end(struct pop *x) {
    bool claimed = wait_claim(&(struct waiter){.claim = &x->claim});
    if (claimed || sim_fault == FAULT_ENDS_UNCLAIMED) return true;
    x->task->conn->parked = NULL;
    x->state = POP_SERVING;
    return false;
}

static void park(struct thread *t, struct pop *x) {
    struct world *w = t->world;
    if (x->served) end(t, x);
    else if (x->refused) {
        if (may_end(x)) refuse(t, x);
    } else {
        x->state = POP_PARKED;
        x->until = x->op->patience ? w->stats.steps + x->op->patience : UINT64_MAX;
        x->task->conn->parked = x;
        w->stats.parked++;
    }
}

void waiting_start(struct thread *t, struct task *k, uint32_t shards) {
    struct pop *x = k->pop = pop_new(t->world, k);
    if (shards & (shards - 1)) {
        x->state = POP_LOOKING;
        coordinate_start(t, k);
        return;
    }
    struct letter *l = letter_new(t, LETTER_TRY, (uint32_t)__builtin_ctz(shards));
    l->task = k;
    thread_queue(t, l);
}

void waiting_looked(struct pop *x) { x->state = POP_QUEUING; }

/* It has taken, or stands in all queues. */
void waiting_queued(struct thread *t, struct pop *x) {
    if (x->first == NONE) park(t, x);
    else end(t, x);
}

void waiting_served(struct thread *t, struct pop *x) {
    if (x->state == POP_OVER) t->world->wrong = "something was taken for a command that was over";
    x->served = true;
    bool ends = x->state == POP_PARKED || x->state == POP_SERVING;
    release(t->world, x);
    if (ends) end(t, x);
}

bool waiting_is_over(const struct world *w, const struct conn *c) {
    return c->parked && (c->closed || c->unblocked || c->parked->until <= w->stats.steps);
}

void waiting_end(struct thread *t, struct conn *c) {
    struct pop *x = c->parked;
    c->unblocked = false;
    if (may_end(x)) end(t, x);
}
