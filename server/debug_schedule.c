#include "server/debug_schedule.h"

#include <stdarg.h>
#include <stdio.h>

#include "server/conn.h"
#include "server/task_internal.h"
#include "server/thread.h"

#define CONNECTIONS_A_SLICE 512u
/* So much is shown, of the rest how much it is. */
#define MEMBERS_MAX 100u      /* of a shard */
#define INTENTS_MAX 12u       /* of a member */
#define TRANSACTIONS_MAX 100u /* of a slice of a thread's connections */

typedef unsigned long long ull;

static __attribute__((format(printf, 2, 3))) void line(struct reply *r, const char *format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    reply_bytes(r, text, n < (int)sizeof text ? (size_t)n : sizeof text - 1);
}

/* ---- a shard ---- */

static void show_intent(struct reply *r, const struct intent *i) {
    static const char *const modes[INTENT_MODES] = {"reads within", "writes within", "reads", "writes"};
    const char *linked = i->linked ? "" : ", another does for it", *waits = i->waits ? ", waits" : "";
    if (i->whole) line(r, "  database: %s%s%s\n", modes[i->mode], linked, waits);
    else line(r, "  key %016llx: %s%s%s\n", (ull)i->hash, modes[i->mode], linked, waits);
}

static void show_member(struct reply *r, const struct member *m) {
    const char *state = m->begun ? "runs" : m->told ? "told to run" : "stands";
    line(r, " member number=%llu local=%s state=\"%s\" intents=%u waiting=%u\n", (ull)m->number, m->local ? "yes" : "no", state,
        m->n_intents, m->n_waits);
    for (uint32_t i = 0; i < m->n_intents && i < INTENTS_MAX; i++) show_intent(r, &m->intents[i]);
    if (m->n_intents > INTENTS_MAX) line(r, "  and %u more\n", m->n_intents - INTENTS_MAX);
}

static void show_shard(struct reply *r, const struct shard *s) {
    const struct schedule *x = &s->schedule;
    const struct member *m = x->first;
    line(r,
        "[shard %u]\n members=%u places=%u whole=%u floor=%llu scheduled=%llu immediate=%llu late=%llu deferred=%llu out_of_order=%llu\n",
        s->id, x->n_members, x->n_places, x->n_whole, (ull)x->floor, (ull)x->stats.scheduled, (ull)x->stats.immediate, (ull)x->stats.late,
        (ull)x->stats.deferred, (ull)x->stats.out_of_order);
    for (uint32_t n = 0; m && n < MEMBERS_MAX; n++, m = m->next) show_member(r, m);
    if (m) line(r, " and %u more\n", x->n_members - MEMBERS_MAX);
}

/* ---- a thread ---- */

static void show_thread(struct reply *r, const struct thread *t) {
    uint32_t wait = 0;
    for (const struct task *k = t->waiting_tasks; k; k = k->next) wait++;
    line(r, "[thread %u]\n under_way=%u waiting_for_a_coordinator=%u stands_still=%s last_number=%llu\n", t->id,
        t->transactions + t->resting, wait, t->stands_still ? "yes" : "no",
        (ull)atomic_load_explicit(&t->server->transaction, memory_order_relaxed));
}

static void show_transaction(struct reply *r, const struct task *k) {
    static const char *const states[] = {"not numbered yet", "scheduling", "withdrawing", "stands", "runs"};
    char name[COMMAND_FULL_NAME];
    command_full_name(k->row, name);
    line(r, " transaction client=%llu cmd=%s number=%llu state=\"%s\" out=%u standing=%u withdrawals=%u%s\n", (ull)k->conn->id, name,
        (ull)k->txn.number, states[k->txn.state], k->txn.out, k->txn.standing, k->txn.withdrawals, k->whole ? " whole" : "");
}

/* False: there are more connections. */
static bool show_transactions(struct reply *r, const struct thread *t, uint64_t *at) {
    uint32_t more = 0, shown = 0;
    for (uint64_t end = *at + CONNECTIONS_A_SLICE; *at < end && *at < t->n_slots; ++*at) {
        const struct conn *c = t->slots[*at];
        if (!c || !c->task || !c->task->members) continue;
        if (shown < TRANSACTIONS_MAX) show_transaction(r, c->task);
        else more++;
        shown++;
    }
    if (more) line(r, " and %u more\n", more);
    return *at >= t->n_slots;
}

enum hop_result debug_schedule(struct shard *s, struct hop *h, struct reply *r) {
    const struct thread *t = server.threads[s->id];
    if (!h->state) {
        show_shard(r, s);
        show_thread(r, t);
    }
    return show_transactions(r, t, &h->state) ? HOP_DONE : HOP_AGAIN;
}
