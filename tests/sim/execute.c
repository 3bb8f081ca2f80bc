/* What the holder of a shard does there: plain commands, which wait where they meet an intent; members of transactions; their hops. */
#include <mimalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/keyspace.h"
#include "shard/snapshot.h"
#include "tests/sim/world.h"

/* ---- parts ---- */

static bool find_key(struct thread *of, const struct part *p, struct key *k) {
    const struct world *w = of->world;
    const char *name = w->names[p->key];
    bool finds = part_writes(p) || sim_fault == FAULT_EXPIRY_TAKES;
    return (finds ? key_find : key_look)(of->shard, of->shard->dbs[p->db], w->hashes[p->key], name, (uint32_t)strlen(name), k);
}

uint32_t execute_elements(const struct key *k) {
    char scratch[INT64_TEXT_SIZE];
    size_t size = 0;
    if (k->entry) key_string(k, scratch, &size);
    return (uint32_t)size / TOKEN_SIZE;
}

static void read_value(struct world *w, struct value *v, const struct key *k) {
    char scratch[INT64_TEXT_SIZE];
    size_t size;
    const char *bytes = key_string(k, scratch, &size);
    char *text = world_text(w, (uint32_t)size + 1);
    memcpy(text, bytes, size);
    text[size] = 0;
    *v = (struct value){.code = code_more(0, text, (uint32_t)size),
        .number = strtoll(text, NULL, 10),
        .deadline_ms = entry_expiry(k->entry),
        .size = (uint32_t)size,
        .text = text};
}

/* Appends to, or sets, the key's value. */
static int append(struct shard *s, struct part *p, struct key *k) {
    char token[TOKEN_SIZE + 1], scratch[INT64_TEXT_SIZE];
    size_t size = 0;
    if (k->entry) key_string(k, scratch, &size);
    snprintf(token, sizeof token, "%04u;", p->token % 10000u);
    char *to = key_make_writable(s, k, size + TOKEN_SIZE, false, KEY_APPEND);
    if (!to) return -1;
    memcpy(to + size, token, TOKEN_SIZE);
    key_after_change(s, k, KEY_APPEND);
    p->result = (int64_t)(size + TOKEN_SIZE);
    return 0;
}

static int set(struct shard *s, const struct op *op, struct part *p, struct key *k) {
    char token[TOKEN_SIZE + 1];
    const struct value *from = p->from >= 0 ? &op->parts[p->from].got : NULL;
    int64_t deadline_ms = from ? from->deadline_ms : p->ttl_ms ? op->now_ms + p->ttl_ms : EXPIRY_NONE;
    snprintf(token, sizeof token, "%04u;", p->token % 10000u);
    p->result = from ? 0 : TOKEN_SIZE;
    return key_set_bytes(s, k, from ? from->text : token, from ? from->size : TOKEN_SIZE, FORM_ANY, deadline_ms, KEY_SET);
}

static int increment(struct shard *s, struct part *p, struct key *k) {
    char text[32] = "0", scratch[INT64_TEXT_SIZE];
    size_t size = 0;
    const char *bytes = k->entry ? key_string(k, scratch, &size) : text;
    memcpy(text, bytes, size < sizeof text ? size : sizeof text - 1);
    p->result = strtoll(text, NULL, 10) + p->number;
    return key_set_int(s, k, p->result, EXPIRY_KEEP, KEY_INCR);
}

static void delete_key(struct shard *s, struct part *p, struct key *k) {
    p->result = k->entry != NULL;
    if (k->entry) key_delete(s, k, KEY_DEL);
}

/* The last element. The key goes with it if it was the only one. */
static int pop(struct thread *of, struct part *p, struct key *k) {
    struct value all;
    read_value(of->world, &all, k);
    uint32_t left = all.size - TOKEN_SIZE;
    if (left && key_set_bytes(of->shard, k, all.text, left, FORM_ANY, EXPIRY_KEEP, KEY_SET)) return -1;
    if (!left) key_delete(of->shard, k, KEY_DEL);
    p->got = (struct value){.text = all.text + left, .size = TOKEN_SIZE};
    return 0;
}

static enum part_status write_key(struct thread *of, const struct op *op, struct part *p, struct key *k) {
    struct shard *s = of->shard;
    int refused = 0;
    switch ((enum part_kind)p->kind) {
    case PART_SET: refused = set(s, op, p, k); break;
    case PART_INCR: refused = increment(s, p, k); break;
    case PART_APPEND: refused = append(s, p, k); break;
    case PART_POP:
        if (execute_elements(k) < p->needs) return PART_ABSENT;
        refused = pop(of, p, k);
        break;
    default: delete_key(s, p, k); break;
    }
    return refused ? PART_REFUSED : PART_DONE;
}

/* A reader leaves a key that is past its time where it is: it may share it with a transaction whose time is an earlier one. */
void execute_part(struct thread *of, struct op *op, struct part *p) {
    struct shard *s = of->shard;
    struct key k;
    uint64_t expired = s->stats.expired_lazy;
    if (of->watermark < op->drawn) of->watermark = op->drawn;
    s->now_ms = op->now_ms;
    s->hide_expired = true;
    bool found = find_key(of, p, &k);
    s->hide_expired = false;
    p->at = ++of->world->moment;
    p->expired = s->stats.expired_lazy != expired;
    p->status = PART_DONE;
    if (part_writes(p)) p->status = write_key(of, op, p, &k);
    else if (p->kind == PART_EXISTS) p->result = found;
    else if (!found) p->status = PART_ABSENT;
    else read_value(of->world, &p->got, &k);
}

static void run_wave(struct world *w, struct op *op, uint32_t wave, uint32_t shard) {
    for (uint32_t i = 0; i < op->n_parts; i++)
        if (op->parts[i].wave == wave && w->shard_of[op->parts[i].key] == shard) execute_part(&w->threads[shard], op, &op->parts[i]);
}

static void decide(struct op *op) {
    op->went = op_goes_on((enum op_kind)op->kind, op->parts, op->n_parts, op->n_watched) || sim_fault == FAULT_NO_VALIDATION;
}

/* All of it on one shard. */
static void run_whole(struct world *w, struct op *op, uint32_t shard) {
    op->ran = ++w->moment;
    run_wave(w, op, 0, shard);
    decide(op);
    if (op->went) run_wave(w, op, 1, shard);
}

void execute_all(struct world *w, struct op *op) {
    op->ran = ++w->moment;
    for (uint32_t s = 0; s < w->n_threads; s++) {
        if (op->kind == OP_FLUSH) {
            shard_flush(w->threads[s].shard, DB_A);
            shard_flush(w->threads[s].shard, DB_B);
        } else if (op->kind == OP_SWAP) shard_swap(w->threads[s].shard, DB_A, DB_B);
        run_wave(w, op, 0, s);
    }
    if (op->kind == OP_CUT) snapshots_cut(w);
    decide(op);
    for (uint32_t s = 0; s < w->n_threads && op->went; s++) run_wave(w, op, 1, s);
}

/* ---- slots ---- */

static bool writes_to(const struct world *w, const struct op *op, uint32_t shard) {
    for (uint32_t i = 0; i < op->n_parts; i++)
        if (w->shard_of[op->parts[i].key] == shard && part_writes(&op->parts[i])) return true;
    return false;
}

struct slot *slot_new(struct thread *t, struct op *op, uint32_t shard) {
    struct world *w = t->world;
    struct slot *slot = mi_calloc(1, sizeof *slot);
    if (!slot) abort();
    struct member *m = &slot->member;
    *slot = (struct slot){.op = op, .from = t->id, .shard = shard};
    m->intents = slot->intents;
    bool writes = writes_to(w, op, shard);
    enum intent_mode within = writes ? INTENT_WRITE_WITHIN : INTENT_READ_WITHIN, all = writes ? INTENT_WRITE : INTENT_READ;
    intent_on_database(&slot->intents[m->n_intents++], INTENT_DB, op->whole ? all : within);
    for (uint32_t i = 0; i < op->n_parts && !op->whole; i++) {
        const struct part *p = &op->parts[i];
        if (w->shard_of[p->key] == shard) intent_on_key(&slot->intents[m->n_intents++], INTENT_DB, w->hashes[p->key], part_writes(p));
    }
    w->slots++;
    return slot;
}

void slot_free(struct world *w, struct slot *slot) {
    if (slot->member.in) { /* its memory is left, as the schedule refers to it */
        w->wrong = "a member is forgotten while it stands";
        return;
    }
    w->slots--;
    mi_free(slot);
}

/* ---- answers ---- */

/* To whoever sent it: at once if that is who runs it. */
static void answer(struct thread *t, struct letter *l) {
    l->message.armed = NULL;
    if (l->message.from == t->id) coordinate_returned(t, l);
    else mailbox_push(&t->world->threads[l->message.from].returns, &l->message);
}

/* ---- members ---- */

static void remove_member(struct thread *t, struct thread *of, struct slot *slot);

static void finish_deferred(struct thread *t, struct thread *of, struct slot *slot) {
    struct letter *l = slot->parked;
    if (l->message.kind == LETTER_TRY) waiting_try(of, l->task->pop);
    else run_whole(t->world, slot->op, of->id);
    remove_member(t, of, slot);
    slot_free(t->world, slot);
    answer(t, l);
}

static void run_hop(struct thread *t, struct thread *of, struct letter *l) {
    struct slot *slot = l->slot;
    if (of->watermark < slot->member.number) of->watermark = slot->member.number;
    struct pop *pop = l->task->pop;
    if (pop) waiting_wave(of, pop);
    else run_wave(t->world, slot->op, l->task->wave, of->id);
    if (l->last || sim_fault == FAULT_EARLY_RELEASE || (pop && sim_fault == FAULT_QUEUES_UNGUARDED)) remove_member(t, of, slot);
    waiting_serve(t, of);
    answer(t, l);
}

/* Nothing before it conflicts any more. */
static void begun(struct thread *t, struct thread *of, struct slot *slot) {
    struct letter *l = slot->parked;
    slot->parked = NULL;
    if (!slot->task) {
        slot->parked = l;
        finish_deferred(t, of, slot);
    } else run_hop(t, of, l);
}

static void run_ready(struct thread *t, struct thread *of) {
    struct member *m;
    waiting_serve(t, of);
    while ((m = schedule_next(&of->shard->schedule))) begun(t, of, (struct slot *)m);
}

void execute_let_go(struct thread *t) {
    while (snapshot_let_go(t->shard))
        if (sim_fault != FAULT_WRITER_FORGOTTEN) run_ready(t, t);
}

void execute_leave(struct thread *t, struct thread *of, struct member *m) {
    schedule_remove(&of->shard->schedule, m);
    wait_let_go(of->shard, m);
    run_ready(t, of);
}

static void remove_member(struct thread *t, struct thread *of, struct slot *slot) {
    if (slot->member.in) execute_leave(t, of, &slot->member); /* not in: by an early release */
}

static void schedule(struct thread *t, struct thread *of, struct letter *l) {
    snapshots_hold_member(of, &l->slot->member);
    l->late = !schedule_add(&of->shard->schedule, &l->slot->member);
    bool before = l->slot->member.number <= of->watermark;
    if (before && !l->late && sim_fault != SCHEDULE_FAULT_NO_FLOOR) t->world->wrong = "a member comes in behind what it should come before";
    if (!l->late && sim_fault == FAULT_RUN_ON_ARRIVAL) run_wave(t->world, l->slot->op, 0, of->id);
    answer(t, l);
}

static void run(struct thread *t, struct thread *of, struct letter *l) {
    if (!l->slot->member.in || schedule_tell(&of->shard->schedule, &l->slot->member)) { /* not in: released early */
        run_hop(t, of, l);
        return;
    }
    l->slot->parked = l;
    t->world->stats.waited++;
}

static void withdraw(struct thread *t, struct thread *of, struct letter *l) {
    remove_member(t, of, l->slot);
    answer(t, l);
}

/* ---- plain commands ---- */

static bool meets_intent(const struct thread *of, const struct op *op) {
    const struct world *w = of->world;
    if (schedule_is_empty(&of->shard->schedule) || sim_fault == FAULT_PLAIN_PASSES) return false;
    for (uint32_t i = 0; i < op->n_parts; i++)
        if (schedule_conflicts(&of->shard->schedule, INTENT_DB, w->hashes[op->parts[i].key], part_writes(&op->parts[i]))) return true;
    return op->whole;
}

/* It becomes a member of its own, behind what it conflicts with, and goes back later by a letter of its own. False: there is no memory for that. */
static bool defer(struct thread *t, struct thread *of, struct op *op, uint32_t from) {
    struct slot *slot = slot_new(&t->world->threads[from], op, of->id);
    slot->member.local = true;
    if (sim_fault == FAULT_FORGOTTEN_INTENT) /* it waits, but nothing waits for it */
        for (uint32_t i = 0; i < slot->member.n_intents; i++)
            slot->intents[i].mode = slot->intents[i].whole ? INTENT_READ_WITHIN : INTENT_READ;
    if (!schedule_add(&of->shard->schedule, &slot->member)) {
        slot_free(t->world, slot);
        return false; /* it goes back as one that was not run */
    }
    struct letter *l = letter_new(&t->world->threads[from], LETTER_HOP, of->id);
    l->ops[0] = op;
    l->n = 1;
    slot->parked = l;
    t->world->stats.deferred++;
    if (schedule_tell(&of->shard->schedule, &slot->member)) finish_deferred(t, of, slot);
    return true;
}

static void run_hops(struct thread *t, struct thread *of, struct letter *l) {
    for (uint32_t i = 0; i < l->n; i++) {
        snapshots_hold(of, l->ops[i]);
        if (!meets_intent(of, l->ops[i])) {
            waiting_check_lines(of);
            run_whole(t->world, l->ops[i], of->id);
            if (sim_fault != FAULT_SERVED_LATE) waiting_serve(t, of);
        } else if (defer(t, of, l->ops[i], l->message.from)) l->ops[i] = NULL;
    }
    waiting_serve(t, of);
    answer(t, l);
}

/* A POP on its only shard: where transactions are under way, as one member of the shard's order. */
static void try(struct thread *t, struct thread *of, struct letter *l) {
    snapshots_hold(of, l->task->op);
    if (schedule_is_empty(&of->shard->schedule)) {
        waiting_try(of, l->task->pop);
        waiting_serve(t, of);
        answer(t, l);
        return;
    }
    struct slot *slot = slot_new(l->task->thread, l->task->op, of->id);
    slot->member.local = true;
    slot->parked = l;
    if (!schedule_add(&of->shard->schedule, &slot->member)) abort(); /* there are buckets, since there are members */
    if (schedule_tell(&of->shard->schedule, &slot->member)) finish_deferred(t, of, slot);
}

/* From here on the own commands go by the mailbox; those of this turn too, behind what was collected. */
static void stand_still(struct thread *t, struct letter *l) {
    for (struct letter *o = t->running.first, *next; o; o = next) {
        next = o->next;
        o->message.sequence = t->sequence; /* armed already */
        mailbox_append(&t->requests, &o->message);
    }
    t->running = (struct letters){0};
    snapshots_hurry(t);
    while (t->serving && sim_fault != FAULT_SERVED_ON) {
        waiting_serve_out(t, t);
        snapshots_hurry(t);
    }
    t->stands_still = true;
    answer(t, l);
}

void execute(struct thread *t, struct thread *of, struct letter *l) {
    switch ((enum letter_kind)l->message.kind) {
    case LETTER_HOPS: run_hops(t, of, l); break;
    case LETTER_SCHEDULE: schedule(t, of, l); break;
    case LETTER_RUN: run(t, of, l); break;
    case LETTER_WITHDRAW: withdraw(t, of, l); break;
    case LETTER_TRY: try(t, of, l); break;
    case LETTER_FORGET: waiting_forget_arrived(of, l); break;
    case LETTER_STOP: stand_still(t, l); break;
    default: abort();
    }
}

/* ---- expiry ---- */

static uint64_t no_time(void) { return 0; }

static bool has_key(const struct thread *of, uint32_t db, uint32_t key) {
    const struct world *w = of->world;
    const char *name = w->names[key];
    return table_find(&of->shard->dbs[db]->keys, w->hashes[key], name, (uint32_t)strlen(name));
}

static void note_expired(struct world *w, uint32_t db, uint32_t key) {
    struct plan *p = w->plan;
    if (p->n_ops == OPS_MAX) {
        w->wrong = "more keys expire than the history has room for";
        return;
    }
    struct op *op = &p->ops[p->n_ops];
    *op = (struct op){.kind = OP_EXPIRED, .n_parts = 1, .parts = &p->parts[p->n_ops * PARTS_MAX], .now_ms = w->now_ms, .finished = true};
    op->parts[0] = (struct part){.kind = PART_DEL, .db = (uint8_t)db, .key = (uint8_t)key, .status = PART_DONE};
    op->invoked = w->moment;
    op->ran = op->parts[0].at = ++w->moment;
    op->returned = ++w->moment;
    p->n_ops++;
    w->stats.expired++;
}

/* The server deletes what is past its time, where no intents are. */
void execute_expiry(struct thread *t) {
    struct world *w = t->world;
    bool there[DBS][KEYS_MAX];
    if (t->shard->snapshot) {
        snapshots_work(t);
        if (snapshot_is_due(t->shard)) return; /* the rest in other turns, so that much happens in between */
    }
    if (shard_next_due(t->shard) > w->now_ms || (!schedule_is_empty(&t->shard->schedule) && sim_fault != FAULT_EXPIRY_TAKES)) return;
    for (uint32_t db = 0; db < DBS; db++)
        for (uint32_t key = 0; key < w->plan->settings.keys; key++) there[db][key] = has_key(t, db, key);
    while (shard_work(t->shard, w->now_ms, 1000, no_time)) execute_let_go(t);
    execute_let_go(t);
    for (uint32_t db = 0; db < DBS; db++)
        for (uint32_t key = 0; key < w->plan->settings.keys; key++)
            if (there[db][key] && !has_key(t, db, key)) note_expired(w, db, key);
}
