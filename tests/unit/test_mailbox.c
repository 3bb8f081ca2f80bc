/* The mailbox: one total order, arming, and that no message is ever slept over. Runs under the thread sanitizer too. */
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
#include "io/mailbox.h"

/* cmocka's assertions belong to the main thread; others stop the program. */
#define CHECK(condition)                                                    \
    do {                                                                    \
        if (!(condition)) {                                                 \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
            abort();                                                        \
        }                                                                   \
    } while (0)

static void keeps_the_order_of_pushes(void **state) {
    (void)state;
    struct mailbox m;
    struct message messages[10] = {0};
    mailbox_init(&m);
    assert_false(mailbox_ready(&m));
    mailbox_collect(&m);
    assert_null(mailbox_next(&m));
    for (unsigned i = 0; i < 5; i++) mailbox_push(&m, &messages[i]);
    assert_true(mailbox_ready(&m));
    assert_null(mailbox_next(&m)); /* not collected */
    mailbox_collect(&m);
    for (unsigned i = 0; i < 3; i++) assert_ptr_equal(mailbox_next(&m), &messages[i]);
    for (unsigned i = 5; i < 10; i++) mailbox_push(&m, &messages[i]);
    mailbox_collect(&m);
    for (unsigned i = 3; i < 10; i++) assert_ptr_equal(mailbox_next(&m), &messages[i]);
    assert_null(mailbox_next(&m));
    assert_false(mailbox_ready(&m));
    mailbox_push(&m, &messages[0]); /* a message may be sent again as soon as it was taken */
    mailbox_collect(&m);
    assert_ptr_equal(mailbox_next(&m), &messages[0]);
}

static void holds_back_what_is_not_armed(void **state) {
    (void)state;
    struct mailbox m;
    _Atomic uint64_t armed = 0;
    struct message free_one = {0}, first = {.armed = &armed, .sequence = 1}, second = {.armed = &armed, .sequence = 2}, behind = {0};
    mailbox_init(&m);
    mailbox_push(&m, &free_one);
    mailbox_push(&m, &first);
    mailbox_push(&m, &second);
    mailbox_push(&m, &behind);
    mailbox_collect(&m);
    assert_ptr_equal(mailbox_next(&m), &free_one);
    assert_null(mailbox_next(&m));
    assert_false(mailbox_ready(&m));
    mailbox_arm(&armed, 1);
    assert_true(mailbox_ready(&m));
    assert_ptr_equal(mailbox_next(&m), &first);
    assert_null(mailbox_next(&m)); /* the one behind needs no arming, but waits for the one before it */
    assert_false(mailbox_ready(&m));
    mailbox_arm(&armed, 2);
    assert_ptr_equal(mailbox_next(&m), &second);
    assert_ptr_equal(mailbox_next(&m), &behind);
    assert_null(mailbox_next(&m));
}

static void wakes_one_sleeper_once(void **state) {
    (void)state;
    struct mailbox m;
    mailbox_init(&m);
    assert_false(mailbox_must_wake(&m.asleep));
    mailbox_announce_sleep(&m.asleep);
    assert_true(mailbox_must_wake(&m.asleep));
    assert_false(mailbox_must_wake(&m.asleep));
    mailbox_announce_sleep(&m.asleep);
    mailbox_awake(&m.asleep);
    assert_false(mailbox_must_wake(&m.asleep));
}

/* On a machine that is busy with other things a stress test stops after this long, with fewer messages. */
#define STRESS_NS (15 * 1000000000ull)

/* ---- producers, and one consumer that really sleeps ---- */

enum { PRODUCERS_MAX = 4, LENT_MAX = 64, BATCH = 8 };

struct letter {
    struct message message;
    uint64_t number;   /* of its producer's letters */
    _Atomic bool home; /* the consumer is done with it */
};

struct post {
    struct mailbox box;
    int bell; /* an eventfd: what the consumer sleeps on */
    unsigned producers;
    uint64_t messages; /* of one producer */
    unsigned lent;     /* how many of its letters may be out */
    _Atomic uint64_t armed[PRODUCERS_MAX];
    _Atomic uint64_t wakes;
    bool arming;
};

struct producer {
    struct post *post;
    uint32_t number;
    struct letter letters[LENT_MAX];
};

/* Sends batches of one to eight letters, armed together or not at all, and wakes the consumer if it had announced its sleep. */
static void *produce(void *arg) {
    struct producer *me = arg;
    struct post *post = me->post;
    uint64_t sent = 0, end_ns = now_monotonic_ns() + STRESS_NS;
    bool last = false;
    for (unsigned round = 0; !last; round++) {
        bool late = round % 16 == 0 && now_monotonic_ns() >= end_ns;
        unsigned batch = post->lent < BATCH ? 1 : 1 + (round * 7 + me->number) % BATCH;
        for (unsigned i = 0; i < batch && !last; i++) {
            struct letter *l = &me->letters[sent % post->lent];
            for (unsigned spins = 0; !atomic_load_explicit(&l->home, memory_order_acquire); spins++)
                if (post->lent > 1 || spins > 10000) sched_yield();
            atomic_store_explicit(&l->home, false, memory_order_relaxed);
            l->number = sent++;
            last = late || sent == post->messages;
            l->message.kind = last;
            l->message.from = me->number;
            l->message.armed = post->arming ? &post->armed[me->number] : NULL;
            l->message.sequence = round + 1;
            mailbox_push(&post->box, &l->message);
        }
        /* A while of nothing, so that the consumer may find the letter unarmed and be just about to sleep when it is armed. */
        for (volatile unsigned i = 0; post->lent == 1 && i < round % 200; i++) {}
        if (post->arming) mailbox_arm(&post->armed[me->number], round + 1);
        mailbox_fence();
        if (!mailbox_must_wake(&post->box.asleep)) continue;
        atomic_fetch_add_explicit(&post->wakes, 1, memory_order_relaxed);
        CHECK(write(post->bell, &(uint64_t){1}, 8) == 8);
    }
    return NULL;
}

/* No timeout anywhere: a lost wake-up is a test that never ends. */
static void *consume(void *arg) {
    struct post *post = arg;
    uint64_t seen[PRODUCERS_MAX] = {0}, total = 0;
    unsigned over = 0; /* producers that sent their last letter */
    while (over < post->producers) {
        struct message *msg;
        mailbox_collect(&post->box);
        while ((msg = mailbox_next(&post->box))) {
            struct letter *l = (struct letter *)msg;
            CHECK(l->number == seen[msg->from]);
            seen[msg->from]++;
            total++;
            over += msg->kind;
            atomic_store_explicit(&l->home, true, memory_order_release);
        }
        if (over == post->producers) break;
        for (volatile unsigned i = 0; post->lent == 1 && i < total * 13 % 300; i++) {}
        mailbox_collect(&post->box);
        mailbox_announce_sleep(&post->box.asleep);
        if (!mailbox_ready(&post->box)) CHECK(read(post->bell, &(uint64_t){0}, 8) == 8);
        mailbox_awake(&post->box.asleep);
    }
    return NULL;
}

/* On one CPU the threads only meet where one is put off it. The nth of the CPUs we may use, if it can be had. */
static void pin(pthread_t thread, unsigned nth) {
    cpu_set_t allowed, one;
    CPU_ZERO(&one);
    if (sched_getaffinity(0, sizeof allowed, &allowed)) return;
    nth %= (unsigned)CPU_COUNT(&allowed);
    for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
        if (CPU_ISSET(cpu, &allowed) && !nth--) CPU_SET(cpu, &one);
    pthread_setaffinity_np(thread, sizeof one, &one);
}

static void deliver(unsigned producers_count, uint64_t messages, unsigned lent, bool arming) {
    struct post *post = aligned_alloc(64, sizeof *post);
    struct producer *producers = calloc(producers_count, sizeof *producers);
    memset(post, 0, sizeof *post);
    mailbox_init(&post->box);
    post->bell = eventfd(0, EFD_CLOEXEC);
    post->producers = producers_count;
    post->messages = messages;
    post->lent = lent;
    post->arming = arming;
    pthread_t consumer, threads[PRODUCERS_MAX];
    assert_int_equal(pthread_create(&consumer, NULL, consume, post), 0);
    pin(consumer, 0);
    for (unsigned i = 0; i < producers_count; i++) {
        producers[i].post = post;
        producers[i].number = i;
        for (unsigned k = 0; k < lent; k++) atomic_init(&producers[i].letters[k].home, true);
        assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
        pin(threads[i], i + 1);
    }
    for (unsigned i = 0; i < producers_count; i++) pthread_join(threads[i], NULL);
    pthread_join(consumer, NULL);
    assert_true(post->wakes > 0);
    close(post->bell);
    free(producers);
    free(post);
}

static void loses_no_wake_up(void **state) {
    (void)state;
    deliver(4, 250000, 64, false);
}

static void loses_no_wake_up_with_arming(void **state) {
    (void)state;
    deliver(4, 250000, 64, true);
}

/* With one letter out nothing but its own wake-up helps, and the consumer is always about to sleep. */
static void loses_no_wake_up_of_a_single_letter(void **state) {
    (void)state;
    deliver(1, 20000, 1, true);
}

/* ---- two mailboxes that are armed together ---- */

enum { TICKS = 100000 };

struct pair {
    struct mailbox boxes[2];
    _Atomic uint64_t armed;
    struct message messages[2][64];
    _Atomic uint64_t done; /* the last tick that was taken */
};

/* Whoever finds a message of a tick in the second mailbox must find that tick's in the first one: it was pushed before they were armed. */
static void *look_at_both(void *arg) {
    struct pair *pair = arg;
    bool last = false;
    for (uint64_t tick = 1; !last; tick++) {
        struct message *msg;
        do {
            mailbox_collect(&pair->boxes[1]);
            msg = mailbox_next(&pair->boxes[1]);
            if (!msg) sched_yield();
        } while (!msg);
        CHECK(msg->sequence == tick);
        last = msg->kind;
        mailbox_collect(&pair->boxes[0]);
        msg = mailbox_next(&pair->boxes[0]);
        CHECK(msg && msg->sequence == tick);
        atomic_store_explicit(&pair->done, tick, memory_order_release);
    }
    return NULL;
}

static void arms_all_mailboxes_at_once(void **state) {
    (void)state;
    struct pair *pair = aligned_alloc(64, sizeof *pair);
    memset(pair, 0, sizeof *pair);
    for (unsigned i = 0; i < 2; i++) mailbox_init(&pair->boxes[i]);
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, look_at_both, pair), 0);
    uint64_t end_ns = now_monotonic_ns() + STRESS_NS;
    bool last = false;
    for (uint64_t tick = 1; !last; tick++) {
        while (tick - atomic_load_explicit(&pair->done, memory_order_acquire) > 32) sched_yield();
        last = tick == TICKS || (tick % 16 == 0 && now_monotonic_ns() >= end_ns);
        for (unsigned box = 2; box-- > 0;) { /* the second one first: only the arming holds it back */
            struct message *msg = &pair->messages[box][tick % 64];
            *msg = (struct message){.armed = &pair->armed, .sequence = tick, .kind = last};
            mailbox_push(&pair->boxes[box], msg);
        }
        mailbox_arm(&pair->armed, tick);
    }
    pthread_join(reader, NULL);
    free(pair);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(keeps_the_order_of_pushes),
        cmocka_unit_test(holds_back_what_is_not_armed),
        cmocka_unit_test(wakes_one_sleeper_once),
        cmocka_unit_test(loses_no_wake_up),
        cmocka_unit_test(loses_no_wake_up_with_arming),
        cmocka_unit_test(loses_no_wake_up_of_a_single_letter),
        cmocka_unit_test(arms_all_mailboxes_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
