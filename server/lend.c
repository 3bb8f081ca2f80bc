#include "server/lend.h"

#include "io/clock.h"
#include "server/outbox.h"
#include "server/regions.h"
#include "server/run.h"
#include "server/thread.h"

/* What lent_due_ms is set to when the owner is needed at once. */
#define NEEDED INT64_MIN
/* How often a shard that nobody holds is tried before its owner is woken. */
#define SETTLE_ROUNDS 3

/* What stands unarmed at the head of a mailbox whose shard is let go: once it is armed there is work. */
static struct lend_left left_of(const struct mailbox *m) {
    return m->first ? (struct lend_left){m->first->armed, m->first->sequence} : (struct lend_left){0};
}

static bool is_ripe(const struct lend_left *l) { return l->armed && atomic_load_explicit(l->armed, memory_order_acquire) >= l->sequence; }

/* ---- the owner ---- */

static bool take(struct thread *t) {
    if (!holder_take(&t->holder)) return false;
    t->mine = true;
    if (t->lent_since) slice_add(&t->measure, SLICE_LENT, cycles_now() - t->lent_since);
    t->lent_since = 0;
    return true;
}

void lend_take(struct thread *t) {
    if (take(t) || t->lent_since) return;
    t->lent_since = cycles_now();
    t->stats.found_lent++;
}

void lend_insist(struct thread *t) {
    while (!holder_want(&t->holder))
        if (take(t)) return;
    t->stats.wanted++;
}

bool lend_let_go(struct thread *t) {
    if (!t->mine) {
        while (!holder_want(&t->holder)) /* so that whoever has it hands it over: what it is due for would be slept over */
            if (take(t)) return false;
        return true;
    }
    if (!t->config->lend || t->stands_still || thread_has_slices(t) || t->pause_until_ns) return true;
    mailbox_collect(&t->requests);
    if (mailbox_ready(&t->requests)) return false;
    t->sleeps_beside = left_of(&t->requests);
    t->sleeps_until_ms = shard_next_due(t->shard);
    atomic_store_explicit(&t->lent_due_ms, t->sleeps_until_ms, memory_order_relaxed);
    t->mine = false;
    holder_let_go(&t->holder);
    return true;
}

bool lend_must_stay(struct thread *t) {
    if (t->mine) return !t->stands_still && mailbox_ready(&t->requests);
    uint32_t state = holder_state(&t->holder);
    if (state == HOLDER_FREE)
        return mailbox_has_new(&t->requests) || is_ripe(&t->sleeps_beside) ||
            atomic_load_explicit(&t->lent_due_ms, memory_order_relaxed) < t->sleeps_until_ms;
    return state == HOLDER_OWNED; /* else the borrower looks again, and wakes */
}

/* ---- the borrower ---- */

static bool may_run(const struct message *m) {
    return m->kind == MESSAGE_RELEASE || m->kind == MESSAGE_UNWATCH || m->kind == MESSAGE_FORGET ||
        (m->kind == MESSAGE_BATCH && !((const struct batch *)m)->owner_only);
}

/* The first message that a borrower leaves where it is, or NULL. */
static const struct message *first_left(const struct mailbox *m) {
    const struct message *msg = m->first;
    while (msg && mailbox_is_armed(msg) && may_run(msg)) msg = msg->next;
    return msg;
}

static void run_arrived(struct thread *t, struct thread *of) {
    struct message *m;
    while (of->requests.first && may_run(of->requests.first) && (m = mailbox_next(&of->requests))) run_message(t, of, m);
}

/* Gives a shard back. True: there is something in its mailbox that nobody sees to. */
static bool give_back(struct thread *t, struct thread *of) {
    const struct message *first = of->requests.first;
    struct lend_left left = left_of(&of->requests);
    int64_t due_ms = thread_has_slices(of) || (first && !may_run(first)) ? NEEDED : shard_next_due(of->shard);
    bool wake = due_ms < atomic_load_explicit(&of->lent_due_ms, memory_order_relaxed);
    if (wake) atomic_store_explicit(&of->lent_due_ms, due_ms, memory_order_relaxed);
    regions_look(of);
    shard_settle(of->shard);
    wake |= holder_give_back(&of->holder);
    if (wake) thread_want_wake(t, of->id); /* after a fence; and if it is not asleep yet, it looks at lent_due_ms once it has said so */
    mailbox_fence();
    return mailbox_has_new(&of->requests) || is_ripe(&left);
}

/* Sees to a shard's mailbox after something was pushed and armed, or while something was left in it; after a fence. */
static void settle(struct thread *t, struct thread *of) {
    for (int i = 0; i < SETTLE_ROUNDS; i++) {
        uint32_t state = holder_state(&of->holder);
        if (state == HOLDER_LENT || state == HOLDER_WANTED) return;
        if (state == HOLDER_OWNED) break;
        if (!holder_borrow(&of->holder)) continue;
        mailbox_collect(&of->requests);
        run_arrived(t, of);
        if (!give_back(t, of)) return;
    }
    thread_want_wake(t, of->id);
}

static bool may_lend(const struct batch *b) {
    while (b && !b->owner_only) b = b->next;
    return !b;
}

static bool borrow(struct thread *t, struct thread *of) {
    if (holder_state(&of->holder) != HOLDER_FREE || !may_lend(t->outbox_first[of->id]) || !holder_borrow(&of->holder)) return false;
    mailbox_collect(&of->requests);
    if (!first_left(&of->requests)) return true;
    if (give_back(t, of)) lend_queued(t, of->id);
    return false;
}

void lend_borrow_all(struct thread *t) {
    if (!t->config->lend) return;
    for (uint32_t s = 0; s < t->n_threads; s++) {
        if (s == t->id || !t->outbox_first[s] || !borrow(t, t->server->threads[s])) continue;
        t->lent_now[s] = t->outbox_first[s];
        t->outbox_first[s] = t->outbox_last[s] = NULL;
        t->borrowed[s / 64] |= 1ull << s % 64;
        t->n_borrowed++;
    }
}

void lend_run_borrowed(struct thread *t) {
    for (uint32_t w = 0; t->n_borrowed; w++) {
        for (; t->borrowed[w]; t->n_borrowed--) {
            uint32_t s = w * 64 + (uint32_t)__builtin_ctzll(t->borrowed[w]);
            struct thread *of = t->server->threads[s];
            struct batch *own = t->lent_now[s];
            t->lent_now[s] = NULL;
            t->borrowed[w] &= t->borrowed[w] - 1;
            run_arrived(t, of);
            for (struct batch *b = own; b; b = b->next) {
                t->stats.lends++;
                t->stats.lent_hops += b->n;
            }
            run_own_batches(t, of, own);
            if (give_back(t, of)) lend_queued(t, s);
        }
    }
}

void lend_queued(struct thread *t, uint32_t shard) {
    if (shard == t->id) return;
    if (!t->config->lend) {
        thread_want_wake(t, shard);
        return;
    }
    t->queued[shard / 64] |= 1ull << shard % 64;
    t->settles = true;
}

void lend_settle_all(struct thread *t) {
    t->settles = false;
    mailbox_fence(); /* what was pushed and armed is visible before the holders are looked at */
    for (uint32_t w = 0; w <= (t->n_threads - 1) / 64; w++) {
        while (t->queued[w]) {
            uint32_t s = w * 64 + (uint32_t)__builtin_ctzll(t->queued[w]);
            t->queued[w] &= t->queued[w] - 1;
            settle(t, t->server->threads[s]);
        }
    }
}
