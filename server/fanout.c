/* Fan-out: one piece a shard with the keys that lie there, as a transaction; the replies are put together by the row's merge.
 *
 * A command of up to FANOUT_KEYS_MAX keys a shard has an intent on each, and one wave. With more keys than that it has intents on its database as a whole,
 * on every shard, and goes through the keys in waves of bounded size.
 */
#include <mimalloc.h>
#include <stdlib.h>

#include "server/defer.h"
#include "server/outbox.h"
#include "server/task_internal.h"
#include "server/thread.h"
#include "shard/keyspace.h"

/* The members of a dealt wave: an intent on the database, and one on each key. */
static bool intents_on_keys(struct thread *t, struct task *k) {
    struct intent *next = k->intents = mi_malloc((k->n_keys + t->n_threads) * sizeof *k->intents);
    if (!next) return false;
    for (uint32_t s = 0; s < t->n_threads; s++) {
        if (!k->pieces[s]) continue;
        struct member *m = &k->members[s];
        m->intents = next;
        m->n_intents = hop_intents(&k->pieces[s]->hops[0], next);
        next += m->n_intents;
    }
    return true;
}

bool task_intents_on_database(struct thread *t, struct task *k) {
    k->whole = true;
    k->intents = mi_malloc(t->n_threads * sizeof *k->intents);
    if (!k->intents) return false;
    for (uint32_t s = 0; s < t->n_threads; s++) {
        intent_on_database(&k->intents[s], INTENT_DB, k->row->flags & CMD_WRITE ? INTENT_WRITE : INTENT_READ);
        k->members[s].intents = &k->intents[s];
        k->members[s].n_intents = 1;
    }
    return true;
}

void task_start_fanout(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc, uint32_t n_keys) {
    bool many = n_keys > FANOUT_KEYS_MAX * t->n_threads;
    struct task *k = task_new(t, c, row, TASK_FANOUT, argv, argc, many);
    if (!k) {
        task_no_memory(t, c);
        return;
    }
    k->n_keys = n_keys;
    k->members = mi_calloc(t->n_threads, sizeof *k->members);
    if (k->members && (many ? task_intents_on_database(t, k) : task_deal_wave(t, k) && intents_on_keys(t, k))) {
        transact_begin(t, k);
        return;
    }
    task_forget_wave(t, k);
    reply_no_memory(task_output(t, k));
    task_finish(t, k);
}

/* ---- memory for all keys, or for none ---- */

uint64_t task_most(const struct task *k) {
    return keys_set_most(k->argv, (uint32_t)k->row->key_first, (uint32_t)k->row->key_step, k->n_keys);
}

bool task_reserve(struct thread *t, struct task *k, uint64_t bytes) {
    if (!budget_reserve(&t->server->budget, bytes)) return false;
    k->reserved = bytes;
    k->room = ROOM_RESERVED;
    return true;
}

bool task_take_needs(struct thread *t, struct task *k) {
    for (uint32_t s = 0; s < t->n_threads; s++)
        if (k->pieces[s]) k->sum += strtoll(k->pieces[s]->replies.p + 1, NULL, 10);
    task_undeal_wave(t, k);
    k->next_key = k->wave_end < k->n_keys ? k->wave_end : 0;
    return k->next_key;
}

/* ---- waves ---- */

static void fail(struct thread *t, struct task *k) {
    task_forget_wave(t, k);
    k->asking = false;
    if (!k->error.size) reply_no_memory(&k->error);
    transact_let_go(t, k);
}

/* The pieces that were dealt, for what the task does now. */
static void send_dealt(struct thread *t, struct task *k, bool last) {
    for (uint32_t s = 0; s < t->n_threads; s++) {
        if (!k->pieces[s]) continue;
        struct hop *h = &k->pieces[s]->hops[0];
        h->state = k->room;
        if (k->asking) h->run = k->row->needs;
    }
    transact_send_wave(t, k, last);
}

/* What was sent to schedule has no keys; the waves bring their own pieces. */
static void next_wave(struct thread *t, struct task *k) {
    task_forget_wave(t, k);
    if (task_deal_wave(t, k)) send_dealt(t, k, !k->whole && !k->asking);
    else fail(t, k);
}

static void begin(struct thread *t, struct task *k) {
    k->asking = k->row->needs && !task_reserve(t, k, task_most(k));
    if (k->whole) next_wave(t, k);
    else send_dealt(t, k, !k->asking);
}

/* A wave of answers is back. */
static void go_on_asking(struct thread *t, struct task *k) {
    if (task_take_needs(t, k)) {
        next_wave(t, k);
        return;
    }
    k->asking = false;
    if (task_reserve(t, k, (uint64_t)k->sum)) next_wave(t, k);
    else fail(t, k);
}

static void end(struct thread *t, struct task *k) {
    task_forget_wave(t, k);
    if (k->members) transact_end(t, k);
    task_fanout_reply(t, k);
}

void task_fanout_merged(struct thread *t, struct task *k, bool more) {
    if (more) next_wave(t, k);
    else if (k->whole) transact_let_go(t, k);
    else end(t, k);
}

void task_fanout_step(struct thread *t, struct task *k) {
    bool begins = k->txn.standing && !k->stood;
    k->stood = true;
    if (begins) begin(t, k);
    else if (k->asking) go_on_asking(t, k);
    else if (k->letting_go) end(t, k);
    else if (task_merges_long(t, k)) {
        if (!k->whole) transact_end(t, k); /* it was the only wave */
        task_merge_in_slices(t, k);
    } else task_fanout_merged(t, k, task_merge_wave(t, k));
}
