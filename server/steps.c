/* In this file: the frame of such tasks; RENAME, RENAMENX and COPY; MSETNX; LCS. Those of sets are with their commands. */
#include "server/steps.h"

#include <mimalloc.h>
#include <stdlib.h>

#include "server/defer.h"
#include "server/keys.h"
#include "server/lcs.h"
#include "server/outbox.h"
#include "server/sets.h"
#include "server/strings.h"
#include "server/task_internal.h"
#include "server/thread.h"
#include "shard/blob.h"
#include "shard/container.h"

/* ---- the frame ---- */

uint32_t steps_shard_of(const struct thread *t, const struct task *k, uint32_t nth) {
    return thread_shard_of(t, &k->argv[hop_key_at(k->key_first, k->key_step, nth)], k->hashes[nth]);
}

/* The command's first key spec tells of the first key, the last of the others. */
static bool is_written(const struct command *row, uint32_t nth) {
    return row->flags & CMD_WRITE && !(row->keys[nth ? row->n_key_specs - 1 : 0].flags & KEY_RO);
}

/* One member for each shard of the keys, with an intent on each. */
static bool set_up(struct thread *t, struct task *k) {
    bool write = k->row->flags & CMD_WRITE;
    struct intent *next = k->intents = mi_malloc((k->n_keys + t->n_threads) * sizeof *k->intents);
    k->members = mi_calloc(t->n_threads, sizeof *k->members);
    k->carrier = mi_calloc(1, sizeof *k->carrier);
    if (!k->intents || !k->members || !k->carrier) return false;
    for (uint32_t i = 0; i < k->n_keys; i++) k->members[steps_shard_of(t, k, i)].n_intents++;
    for (uint32_t s = 0; s < t->n_threads; s++) {
        struct member *m = &k->members[s];
        if (!m->n_intents) continue;
        m->intents = next;
        next += ++m->n_intents;
        intent_on_database(m->intents, INTENT_DB, write ? INTENT_WRITE_WITHIN : INTENT_READ_WITHIN);
        m->n_intents = 1;
    }
    for (uint32_t i = 0; i < k->n_keys; i++) {
        struct member *m = &k->members[steps_shard_of(t, k, i)];
        intent_on_key(&m->intents[m->n_intents++], INTENT_DB, k->hashes[i], is_written(k->row, i));
    }
    return true;
}

/* Every shard, with an intent on the database as a whole. */
static bool set_up_anywhere(struct thread *t, struct task *k) {
    k->members = mi_calloc(t->n_threads, sizeof *k->members);
    k->carrier = mi_calloc(1, sizeof *k->carrier);
    return k->members && k->carrier && task_intents_on_database(t, k);
}

void task_start_steps(
    struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc, const struct key_range *keys) {
    struct task *k = task_new_hashed(t, c, row, TASK_STEPS, argv, argc, keys);
    if (!k) return;
    if (keys->anywhere || keys->n > FANOUT_KEYS_MAX * t->n_threads ? set_up_anywhere(t, k) : set_up(t, k)) {
        transact_begin(t, k);
        return;
    }
    reply_no_memory(task_output(t, k));
    task_finish(t, k);
}

void steps_hop(struct thread *t, struct task *k, uint32_t shard, hop_fn *run) {
    struct batch *b = task_piece(t, k, shard, k->argv, k->argc, k->n_keys, k->hashes, k->key_step, (uint64_t)(uintptr_t)k->carrier);
    b->hops[0].run = run;
    b->hops[0].key_first = k->key_first;
}

void steps_hop_in_slices(struct thread *t, struct task *k, uint32_t shard, hop_fn *run) {
    steps_hop(t, k, shard, run);
    k->pieces[shard]->owner_only = true;
}

static void hop_on(struct thread *t, struct task *k, uint32_t nth, hop_fn *run) { steps_hop(t, k, steps_shard_of(t, k, nth), run); }

void steps_new_wave(struct thread *t, struct task *k) { task_forget_wave(t, k); }

struct carrier *steps_carrier(const struct hop *h) {
    return (struct carrier *)(uintptr_t)h->state;
}

bool steps_take_error(struct thread *t, struct task *k, struct reply *r) {
    for (uint32_t s = 0; s < t->n_threads; s++) {
        const struct batch *b = k->pieces[s];
        if (!b || (!b->replies.failed && (!b->replies.size || b->replies.p[0] != '-'))) continue;
        if (b->replies.failed) reply_no_memory(r);
        else reply_bytes(r, b->replies.p, b->replies.size);
        return true;
    }
    return false;
}

void carrier_drop(struct thread *t, struct carrier *x) {
    if (!x) return;
    for (unsigned i = 0; i < 2; i++) {
        struct blob *b = x->entry[i] ? entry_blob(x->entry[i]) : NULL;
        if (b && x->lifted) blob_discard(b);
        else if (b) outbox_release_blob(t, b);
        entry_end_loan(x->entry[i]);
    }
    if (x->copies) container_copy_drop(x->copies, &x->copying); /* the process ends */
    algebra_drop(x->algebra);
    if (x->own) x->drop_own(t, x->own);
    mi_free(x->shards);
    mi_free(x);
}

/* ---- for other files ---- */

bool steps_find_shards(struct thread *t, struct task *k) {
    uint16_t *shards = k->carrier->shards = mi_malloc(k->n_keys * sizeof *shards);
    for (uint32_t i = 0; shards && i < k->n_keys; i++) shards[i] = (uint16_t)steps_shard_of(t, k, i);
    return shards;
}

void steps_wave_on_some(struct thread *t, struct task *k, uint32_t from, uint32_t to, hop_fn *run) {
    steps_new_wave(t, k);
    for (; from < to; from++)
        if (!k->pieces[steps_shard_of(t, k, from)]) hop_on(t, k, from, run);
}

void steps_wave_on(struct thread *t, struct task *k, uint32_t nth, hop_fn *run) {
    steps_new_wave(t, k);
    hop_on(t, k, nth, run);
}

void steps_take_reply(struct thread *t, struct task *k, struct reply *r) {
    for (uint32_t s = 0; s < t->n_threads; s++)
        if (k->pieces[s]) reply_take(r, &k->pieces[s]->replies, 0, k->pieces[s]->replies.size);
}

void task_steps_step(struct thread *t, struct task *k) {
    if (k->letting_go) {
        task_forget_wave(t, k);
        transact_end(t, k);
        if (k->hop.state) task_go_on_in_slices(t, k);
        else task_finish(t, k);
        return;
    }
    if (k->row->on_steps(t, k, task_output(t, k))) {
        k->step++;
        transact_send_wave(t, k, false);
        return;
    }
    task_forget_wave(t, k);
    transact_let_go(t, k);
}

/* ---- RENAME, RENAMENX ---- */

static enum hop_result look_hop(struct shard *s, struct hop *h, uint32_t nth) {
    struct key k;
    steps_carrier(h)->found[nth] = key_write_nth(s, h, nth, &k);
    return HOP_DONE;
}

static enum hop_result look_at_source(struct shard *s, struct hop *h, struct reply *r) {
    (void)r;
    return look_hop(s, h, 0);
}

static enum hop_result look_at_target(struct shard *s, struct hop *h, struct reply *r) {
    (void)r;
    return look_hop(s, h, 1);
}

/* Lends a key that is read, the first of which a container may be copied from. (Both may be lent at once, by two shards.) */
static void lend(struct carrier *x, uint32_t nth, const struct key *k, struct reply *r) {
    x->entry[nth] = entry_lend(k->entry);
    if (!x->entry[nth]) reply_no_memory(r);
    if (!nth) x->is_long = entry_type(k->entry) != TYPE_STRING && container_memory(k->entry) > KEY_COPY_COST;
}

/* A string is taken out, a container lent. */
static enum hop_result lift(struct shard *s, struct hop *h, struct reply *r) {
    struct carrier *x = steps_carrier(h);
    struct key k;
    x->found[0] = key_write_nth(s, h, 0, &k);
    if (!x->found[0]) return HOP_DONE;
    if (entry_type(k.entry) != TYPE_STRING) {
        lend(x, 0, &k, r);
        return HOP_DONE;
    }
    x->entry[0] = key_lift(s, &k, KEY_RENAME_FROM);
    x->lifted = x->entry[0];
    if (!x->lifted) reply_no_memory(r);
    return HOP_DONE;
}

/* Goes on copying the container that was lent to a key. */
static enum hop_result copy_lent(struct shard *s, struct key *k, struct carrier *x, struct reply *r, enum key_event event) {
    x->copies = s;
    int more = key_copy_some(s, k, x->entry[0], &x->copying, x->is_long ? KEY_COPY_COST : INT64_MAX, event == KEY_COPY_TO, event);
    if (more > 0) return HOP_AGAIN;
    x->copies = NULL;
    if (more < 0) reply_refused(s, r);
    return HOP_DONE;
}

static enum hop_result land_on(struct shard *s, struct hop *h, struct reply *r, uint32_t nth) {
    struct carrier *x = steps_carrier(h);
    struct key k;
    key_write_nth(s, h, nth, &k);
    if (!x->lifted) return copy_lent(s, &k, x, r, KEY_RENAME_TO);
    if (key_land(s, &k, x->entry[0], KEY_RENAME_TO)) reply_refused(s, r);
    else x->entry[0] = NULL;
    return HOP_DONE;
}

static enum hop_result land(struct shard *s, struct hop *h, struct reply *r) { return land_on(s, h, r, 1); }

/* The key whose container was copied goes. */
static enum hop_result leave(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    (void)r;
    if (key_write_nth(s, h, 0, &k)) key_delete(s, &k, KEY_RENAME_FROM);
    return HOP_DONE;
}

/* The target's shard had no memory. */
static enum hop_result put_back(struct shard *s, struct hop *h, struct reply *r) { return land_on(s, h, r, 0); }

/* A hop that goes on in slices if what it copies is long. */
static void hop_to_copy(struct thread *t, struct task *k, hop_fn *run) {
    if (k->carrier->is_long) steps_hop_in_slices(t, k, steps_shard_of(t, k, 1), run);
    else hop_on(t, k, 1, run);
}

static void reply_renamed(const struct task *k, struct reply *r) {
    if (k->row->on_steps == renamenx_steps) reply_int(r, 1);
    else reply_ok(r);
}

/* Step 0 lifts the source, 1 puts it under its new name; then what was a copy lets the source go, or what was lifted and did not find room is put back. */
static bool move_steps(struct thread *t, struct task *k, struct reply *r, uint32_t step) {
    struct carrier *x = k->carrier;
    if (step == 1 && !x->found[0]) reply_error(r, "ERR no such key");
    if (step == 1 && (!x->found[0] || steps_take_error(t, k, r))) return false;
    if (step == 2 && !x->lifted && steps_take_error(t, k, r)) return false;
    if (step == (x->lifted ? 2 : 3) && (!x->lifted || !x->entry[0])) {
        reply_renamed(k, r);
        return false;
    }
    if (step == 3) {
        reply_no_memory(r);
        return false;
    }
    steps_new_wave(t, k);
    if (step == 0) hop_on(t, k, 0, lift);
    else if (step == 1) hop_to_copy(t, k, land);
    else hop_on(t, k, 0, x->lifted ? put_back : leave);
    return true;
}

bool rename_steps(struct thread *t, struct task *k, struct reply *r) { return move_steps(t, k, r, k->step); }

bool renamenx_steps(struct thread *t, struct task *k, struct reply *r) {
    const struct carrier *x = k->carrier;
    if (k->step == 0) {
        steps_new_wave(t, k);
        hop_on(t, k, 0, look_at_source);
        hop_on(t, k, 1, look_at_target);
        return true;
    }
    if (k->step == 1 && x->found[0] && x->found[1]) {
        reply_int(r, 0);
        return false;
    }
    if (k->step == 1 && !x->found[0]) {
        reply_error(r, "ERR no such key");
        return false;
    }
    return move_steps(t, k, r, k->step - 1);
}

/* ---- what two values are read for: COPY, LCS ---- */

static enum hop_result read_value(struct shard *s, struct hop *h, struct reply *r, uint32_t nth) {
    struct carrier *x = steps_carrier(h);
    struct key k;
    x->found[nth] = key_read_nth(s, h, nth, &k);
    if (!x->found[nth]) return HOP_DONE;
    lend(x, nth, &k, r);
    return HOP_DONE;
}

static enum hop_result read_first(struct shard *s, struct hop *h, struct reply *r) { return read_value(s, h, r, 0); }
static enum hop_result read_second(struct shard *s, struct hop *h, struct reply *r) { return read_value(s, h, r, 1); }
static enum hop_result read_both(struct shard *s, struct hop *h, struct reply *r) {
    read_value(s, h, r, 0);
    return read_value(s, h, r, 1);
}

static bool find_target(struct shard *s, const struct hop *h, struct key *k) {
    const struct arg *name = hop_key(h, 1);
    return key_find(s, s->dbs[steps_carrier(h)->db], hop_hash(h, 1), name->p, name->size, k);
}

static enum hop_result look_for_copy(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    (void)r;
    steps_carrier(h)->found[1] = find_target(s, h, &k);
    return HOP_DONE;
}

static enum hop_result write_copy(struct shard *s, struct hop *h, struct reply *r) {
    struct carrier *x = steps_carrier(h);
    const struct entry *src = x->entry[0];
    struct key k;
    find_target(s, h, &k);
    if (entry_type(src) != TYPE_STRING) return copy_lent(s, &k, x, r, KEY_COPY_TO);
    if (key_copy_from(s, &k, src, entry_expiry(src), KEY_COPY_TO)) reply_refused(s, r);
    return HOP_DONE;
}

bool copy_steps(struct thread *t, struct task *k, struct reply *r) {
    struct carrier *x = k->carrier;
    if (k->step == 0) {
        k->hop = (struct hop){.argv = k->argv, .argc = k->argc, .db = k->conn->db};
        if (!copy_options(t->shard, &k->hop, &x->db, &x->replace, r)) return false;
        steps_new_wave(t, k);
        hop_on(t, k, 0, read_first);
        hop_on(t, k, 1, look_for_copy);
        return true;
    }
    if (steps_take_error(t, k, r)) return false;
    if (k->step == 2 || !x->found[0] || (x->found[1] && !x->replace)) {
        reply_int(r, k->step == 2);
        return false;
    }
    steps_new_wave(t, k);
    hop_to_copy(t, k, write_copy);
    return true;
}

bool lcs_steps(struct thread *t, struct task *k, struct reply *r) {
    struct carrier *x = k->carrier;
    if (k->step == 0) {
        steps_new_wave(t, k);
        if (steps_shard_of(t, k, 0) == steps_shard_of(t, k, 1)) hop_on(t, k, 0, read_both);
        else {
            hop_on(t, k, 0, read_first);
            hop_on(t, k, 1, read_second);
        }
        return true;
    }
    if (steps_take_error(t, k, r)) return false;
    k->hop = (struct hop){.argv = k->argv, .argc = k->argc, .resp = k->conn->resp};
    lcs_begin(&k->hop, x->entry, true, r);
    for (unsigned i = 0; k->hop.state && i < 2; i++) {
        mi_free(x->entry[i]); /* without its blob */
        x->entry[i] = NULL;
    }
    return false;
}

/* ---- MSETNX ---- */

/* The same keys in the next wave, for another function. */
static void run_again(struct thread *t, struct task *k, hop_fn *run) {
    for (uint32_t s = 0; s < t->n_threads; s++) {
        struct batch *b = k->pieces[s];
        if (!b) continue;
        b->replies.size = 0;
        b->hops[0].run = run;
    }
}

static enum hop_result count_keys(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    int64_t n = 0;
    for (uint32_t i = 0; i < h->n_keys; i++) {
        key_prefetch_ahead(s, h, i);
        n += key_write_nth(s, h, i, &k);
    }
    reply_int(r, n);
    return HOP_DONE;
}

bool msetnx_steps(struct thread *t, struct task *k, struct reply *r) {
    int64_t found = 0;
    switch (k->step) {
    case 0:
        steps_new_wave(t, k);
        if (!task_deal_wave(t, k)) {
            reply_no_memory(r);
            return false;
        }
        run_again(t, k, count_keys);
        return true;
    case 1:
        for (uint32_t s = 0; s < t->n_threads; s++)
            if (k->pieces[s]) found += strtoll(k->pieces[s]->replies.p + 1, NULL, 10);
        if (found) {
            reply_int(r, 0);
            return false;
        }
        run_again(t, k, set_keys);
        return true;
    case 2:
        if (!steps_take_error(t, k, &k->error)) {
            reply_int(r, 1);
            return false;
        }
        run_again(t, k, delete_keys); /* none was there before */
        return true;
    default: reply_bytes(r, k->error.p, k->error.size); return false;
    }
}
