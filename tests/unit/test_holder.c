/* The holder word: its moves one by one; then threads that sleep, lend and borrow for millions of hand-overs, under the thread sanitizer too.
 *
 * Built with HOLDER_FAULT the protocol has a fault; then the stress must fail: by a lost or doubled count, by the thread sanitizer, or by its deadline. */
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cmocka.h>

#include "io/clock.h"
#include "io/holder.h"
#include "io/mailbox.h"

#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            _exit(1);                                                       \
        }                                                                   \
    } while (0)

static void legal_moves(void **state) {
    (void)state;
    struct holder h = {0};
    assert_int_equal(holder_state(&h), HOLDER_OWNED);
    assert_true(holder_take(&h)); /* it is its own already */
    assert_false(holder_borrow(&h));
    holder_let_go(&h);
    assert_true(holder_borrow(&h));
    assert_false(holder_borrow(&h));
    assert_false(holder_take(&h));
    assert_false(holder_give_back(&h)); /* to nobody */
    assert_int_equal(holder_state(&h), HOLDER_FREE);
    assert_false(holder_want(&h)); /* it is there */
    assert_true(holder_take(&h));
    assert_int_equal(holder_state(&h), HOLDER_OWNED);
}

static void who_wants_it_gets_it(void **state) {
    (void)state;
    struct holder h = {0};
    holder_let_go(&h);
    assert_true(holder_borrow(&h));
    assert_true(holder_want(&h));
    assert_true(holder_want(&h)); /* asked already */
    assert_false(holder_take(&h));
    assert_false(holder_borrow(&h));
    assert_true(holder_give_back(&h)); /* to the owner */
    assert_false(holder_borrow(&h));
    assert_true(holder_take(&h));
}

/* ---- the stress ---- */

enum { THREADS = 3, NOTES = 16 };
#define STRESS_NS (15 * 1000000000ull)
#define ROUNDS 1500000u
#define SLEEP_MAX_MS 20000 /* a wake-up that takes longer was lost */

/* What passes with the word is plain memory. */
struct thing {
    struct holder holder;
    struct mailbox box; /* its consumer's half passes too */
    uint64_t applied[THREADS], hand_overs;
    _Alignas(64) _Atomic uint32_t asleep;
    int bell;
};

struct note {
    struct message message;
    uint64_t number;
    _Atomic bool home;
};

struct worker {
    struct thing *things;
    uint32_t number;
    bool mine;
    uint64_t sent[THREADS]; /* to each thing */
    struct note notes[NOTES];
    uint64_t random;
    _Atomic uint32_t *ended;
};

static uint32_t draw(struct worker *w, uint32_t n) {
    w->random = w->random * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(w->random >> 33) % n;
}

/* The order of one sender's work on one thing is kept, whoever does it. */
static void apply(struct thing *x, uint32_t from, uint64_t number) {
    CHECK(x->applied[from] == number);
    x->applied[from] = number + 1;
}

static void run_arrived(struct thing *x) {
    struct message *m;
    mailbox_collect(&x->box);
    while ((m = mailbox_next(&x->box))) {
        struct note *n = (struct note *)m;
        apply(x, m->from, n->number);
        atomic_store_explicit(&n->home, true, memory_order_release);
    }
}

static void wake(struct thing *x) {
    mailbox_fence();
    if (mailbox_must_wake(&x->asleep)) CHECK(write(x->bell, &(uint64_t){1}, 8) == 8);
}

/* A borrower that is put off its CPU at the worst moment. */
static void dawdle(struct worker *w) {
    if (!draw(w, 64)) sched_yield();
}

/* True: there is work that nobody sees to. */
static bool give_back(struct worker *w, struct thing *x) {
    x->hand_overs++;
    dawdle(w);
    if (holder_give_back(&x->holder)) wake(x);
    mailbox_fence();
    return mailbox_has_new(&x->box);
}

static void settle(struct worker *w, struct thing *x) {
    mailbox_fence();
    for (int i = 0; i < 3; i++) {
        uint32_t is = holder_state(&x->holder);
        if (is == HOLDER_LENT || is == HOLDER_WANTED) return;
        if (is == HOLDER_OWNED) break;
        if (!holder_borrow(&x->holder)) continue;
        run_arrived(x);
        if (!give_back(w, x)) return;
    }
    wake(x);
}

static void work_for(struct worker *w, uint32_t to) {
    struct thing *x = &w->things[to];
    if (holder_borrow(&x->holder)) {
        run_arrived(x);
        dawdle(w);
        apply(x, w->number, w->sent[to]++);
        if (give_back(w, x)) settle(w, x);
        return;
    }
    struct note *n = &w->notes[draw(w, NOTES)];
    if (!atomic_load_explicit(&n->home, memory_order_acquire)) return;
    atomic_store_explicit(&n->home, false, memory_order_relaxed);
    n->message = (struct message){.from = w->number};
    n->number = w->sent[to]++;
    mailbox_push(&x->box, &n->message);
    settle(w, x);
}

/* The fault itself: when there is something to be taken, which is when a borrower may be about to take it. */
static void look_late(struct thing *x) {
    for (int i = 0; i < 100 && !mailbox_has_new(&x->box); i++) sched_yield();
    mailbox_collect(&x->box);
}

/* The owner's sleep, as a server's thread does it; over: nothing else to do, for as long as others may still send. */
static void owner_sleeps(struct worker *w, struct thing *x) {
    if (w->mine) {
        mailbox_collect(&x->box);
        if (mailbox_ready(&x->box)) return;
        w->mine = false;
        holder_let_go(&x->holder);
        dawdle(w);
        if (HOLDER_FAULT == HOLDER_FAULT_LATE_LOOK) look_late(x);
    } else {
        while (!holder_want(&x->holder))
            if ((w->mine = holder_take(&x->holder))) return;
    }
    mailbox_announce_sleep(&x->asleep);
    uint32_t is = holder_state(&x->holder);
    bool stay = is == HOLDER_OWNED || (is == HOLDER_FREE && mailbox_has_new(&x->box)) || *w->ended == THREADS;
    if (!stay) {
        struct pollfd p = {.fd = x->bell, .events = POLLIN};
        int n = poll(&p, 1, *w->ended ? 1 : SLEEP_MAX_MS);
        CHECK(n == 1 || *w->ended);
        if (n == 1) CHECK(read(x->bell, &(uint64_t){0}, 8) == 8);
    }
    mailbox_awake(&x->asleep);
}

static void *worker(void *arg) {
    struct worker *w = arg;
    struct thing *own = &w->things[w->number];
    uint64_t end_ns = now_monotonic_ns() + STRESS_NS;
    bool over = false;
    for (uint32_t round = 0; *w->ended < THREADS; round++) {
        if (!w->mine) w->mine = holder_take(&own->holder);
        for (uint32_t i = draw(w, 4); i && !over; i--) {
            uint32_t to = (w->number + 1 + draw(w, THREADS - 1)) % THREADS;
            work_for(w, to);
        }
        if (w->mine) {
            run_arrived(own);
            if (!over) apply(own, w->number, w->sent[w->number]++);
        }
        if (!over && (round == ROUNDS || (round % 64 == 0 && now_monotonic_ns() > end_ns))) {
            over = true;
            atomic_fetch_add(w->ended, 1);
            for (uint32_t i = 0; i < THREADS; i++) CHECK(write(w->things[i].bell, &(uint64_t){1}, 8) == 8);
        }
        /* Only while somebody else is sure to go on sending may one sleep for long. */
        if (over || (w->number && !*w->ended && draw(w, 2))) owner_sleeps(w, own);
    }
    return NULL;
}

static void nothing_is_lost_or_done_twice(void **state) {
    (void)state;
    struct thing *things = aligned_alloc(64, THREADS * sizeof *things);
    struct worker workers[THREADS] = {0};
    pthread_t threads[THREADS];
    _Atomic uint32_t ended = 0;
    memset(things, 0, THREADS * sizeof *things);
    for (uint32_t i = 0; i < THREADS; i++) {
        mailbox_init(&things[i].box);
        things[i].bell = eventfd(0, EFD_CLOEXEC);
        workers[i] = (struct worker){.things = things, .number = i, .mine = true, .random = i + 1, .ended = &ended};
        for (uint32_t k = 0; k < NOTES; k++) atomic_init(&workers[i].notes[k].home, true);
    }
    for (uint32_t i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, worker, &workers[i]), 0);
    for (uint32_t i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
    uint64_t hand_overs = 0;
    for (uint32_t i = 0; i < THREADS; i++) {
        run_arrived(&things[i]);
        hand_overs += things[i].hand_overs;
        for (uint32_t from = 0; from < THREADS; from++) assert_int_equal(things[i].applied[from], workers[from].sent[i]);
        close(things[i].bell);
    }
    print_message("%llu hand-overs\n", (unsigned long long)hand_overs);
    assert_true(hand_overs > 1000);
    free(things);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(legal_moves), cmocka_unit_test(who_wants_it_gets_it), cmocka_unit_test(nothing_is_lost_or_done_twice)};
    const struct CMUnitTest stress[] = {cmocka_unit_test(nothing_is_lost_or_done_twice)};
    return HOLDER_FAULT ? cmocka_run_group_tests(stress, NULL, NULL) : cmocka_run_group_tests(tests, NULL, NULL);
}
