#include "server/client_memory.h"

#include <mimalloc.h>

#include "server/conn.h"
#include "server/log.h"
#include "server/thread.h"

/* A command whose thread is told what it holds has so much at least. */
#define ASIDE_TOLD_MIN (256u << 10)

static uint32_t size_class(uint64_t bytes) { return 63 - (uint32_t)__builtin_clzll(bytes | 1); }

static void publish(struct client_memory *m) {
    uint32_t largest = m->classes ? size_class(m->classes) + 1 : 0;
    if (largest != atomic_load_explicit(&m->largest, memory_order_relaxed))
        atomic_store_explicit(&m->largest, largest, memory_order_release);
}

static void list_in(struct client_memory *m, struct conn *c) {
    uint32_t class = size_class(c->counted);
    c->size_next = m->lists[class];
    if (c->size_next) c->size_next->size_link = &c->size_next;
    c->size_link = &m->lists[class];
    m->lists[class] = c;
    m->classes |= 1ull << class;
}

static void list_out(struct client_memory *m, struct conn *c, uint64_t bytes) {
    if (!c->size_link) return;
    *c->size_link = c->size_next;
    if (c->size_next) c->size_next->size_link = c->size_link;
    c->size_link = NULL;
    if (!m->lists[size_class(bytes)]) m->classes &= ~(1ull << size_class(bytes));
}

/* It counts for so many bytes, and may be closed for them, or not. */
static void set(struct thread *t, struct conn *c, uint64_t bytes, bool may_go) {
    uint64_t before = c->counted;
    bool moves = !may_go || !c->size_link || size_class(before) != size_class(bytes);
    c->counted = bytes;
    if (bytes < before) atomic_fetch_sub_explicit(&server.clients_memory, before - bytes, memory_order_release);
    if (moves) {
        list_out(&t->client_memory, c, before);
        if (may_go) list_in(&t->client_memory, c);
        publish(&t->client_memory);
    }
    if (bytes > before) atomic_fetch_add_explicit(&server.clients_memory, bytes - before, memory_order_release);
}

static bool too_much(const struct thread *t) {
    return atomic_load_explicit(&server.clients_memory, memory_order_acquire) > t->client_memory.max;
}

/* Of the threads with the largest clients: this one if it is among them. */
static struct thread *whose_turn(struct thread *t) {
    struct thread *whose = t;
    uint32_t most = atomic_load_explicit(&t->client_memory.largest, memory_order_relaxed);
    for (uint32_t i = 0; i < t->n_threads; i++) {
        uint32_t largest = atomic_load_explicit(&server.threads[i]->client_memory.largest, memory_order_acquire);
        if (largest > most) {
            most = largest;
            whose = server.threads[i];
        }
    }
    return whose;
}

bool client_memory_must_act(struct thread *t) {
    return t->client_memory.max && t->client_memory.classes && too_much(t) && whose_turn(t) == t && too_much(t);
}

void client_memory_keep_limit(struct thread *t) {
    struct client_memory *m = &t->client_memory;
    while (m->max && too_much(t)) {
        struct thread *whose = whose_turn(t);
        if (!too_much(t)) return;
        if (whose != t) {
            thread_want_wake(t, whose->id);
            return;
        }
        if (!m->classes) return;
        struct conn *victim = m->lists[size_class(m->classes)];
        log_line(LOG_NOTICE_LEVEL, "Evicting client id=%llu of %llu bytes: the clients' memory is above maxmemory-clients",
            (unsigned long long)victim->id, (unsigned long long)victim->counted);
        t->stats.evicted_clients++;
        client_memory_forget(t, victim);
        conn_close(victim, false);
    }
}

void client_memory_forget(struct thread *t, struct conn *c) {
    if (c->counted) set(t, c, 0, false);
}

static void count(struct thread *t, struct conn *c) {
    if (!t->client_memory.max || conn_is_going(c)) client_memory_forget(t, c);
    else set(t, c, conn_memory(c), !c->no_evict);
}

void client_memory_count(struct thread *t, struct conn *c) {
    count(t, c);
    client_memory_keep_limit(t);
}

void client_memory_take_limit(struct thread *t) {
    const struct config *g = t->config;
    uint64_t max = g->maxmemory_clients < 0 ? (uint64_t)(g->maxmemory / 100 * -g->maxmemory_clients) : (uint64_t)g->maxmemory_clients;
    if (max == t->client_memory.max) return;
    t->client_memory.max = max;
    for (struct conn *c = t->conns; c; c = c->next) count(t, c);
    client_memory_keep_limit(t);
}

/* ---- aside ---- */

static void change(_Atomic uint64_t *sum, uint64_t was, uint64_t now) {
    if (was != now) atomic_fetch_add_explicit(sum, now - was, memory_order_relaxed);
}

/* Its thread looks at the limits when it takes this. The connection is there until then, as its command is. */
static void tell(struct thread *t, struct conn *c) {
    struct thread *to = c->thread;
    struct note *n = mi_malloc(sizeof *n);
    if (!n) return; /* it is looked at later */
    *n = (struct note){.message = {.kind = MESSAGE_ASIDE, .from = t->id}, .value = (uint64_t)(uintptr_t)c};
    mailbox_push(&to->returns, &n->message);
    thread_want_wake(t, to->id);
}

static bool has_limit(const struct thread *t) {
    const struct output_limit *l = &t->config->output_limit[CLIENT_NORMAL];
    return t->client_memory.max || l->hard || l->soft;
}

void client_memory_aside(struct thread *t, struct conn *c, struct aside_count *counted, const struct reply *r, uint64_t held) {
    struct aside_count was = *counted, now = {.replies = r ? r->size : 0, .refs = r ? r->refs_bytes : 0, .held = held};
    *counted = now;
    change(&c->aside.replies, was.replies, now.replies);
    change(&c->aside.refs, was.refs, now.refs);
    change(&c->aside.held, was.held, now.held);
    uint64_t before = was.replies + was.refs + was.held, bytes = now.replies + now.refs + now.held;
    if (bytes >= ASIDE_TOLD_MIN && bytes > before && size_class(bytes) > size_class(before) && has_limit(t)) tell(t, c);
}

void client_memory_forget_aside(struct conn *c, struct aside_count *counted) {
    change(&c->aside.replies, counted->replies, 0);
    change(&c->aside.refs, counted->refs, 0);
    change(&c->aside.held, counted->held, 0);
    *counted = (struct aside_count){0};
}

void client_memory_aside_message(struct thread *t, struct note *n) {
    struct conn *c = (struct conn *)(uintptr_t)n->value;
    mi_free(n);
    conn_look_at_limits(t, c);
}
