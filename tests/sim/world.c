/* The clients, the clock, and what goes wrong; a run from its beginning to its end, and whether everything was given back. */
#include <mimalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/keyspace.h"
#include "tests/sim/world.h"

#define START_MS INT64_C(1700000000000)
/* In which nothing is asked, run or answered. A run takes some 24,000 in all, one whose threads are held up again and again 400,000. */
#define IDLE_STEPS_MAX 200000u

unsigned sim_fault;

/* ---- memory ---- */

struct text {
    struct text *next;
    uint64_t used;
    char bytes[65536];
};
static struct text *texts;
static bool refuse_next; /* the schedule's next call for memory */

char *world_text(struct world *w, uint32_t size) {
    if (!texts || texts->used + size > sizeof texts->bytes) {
        struct text *t = mi_malloc(sizeof *t);
        if (!t || size > sizeof t->bytes) abort();
        t->next = texts;
        t->used = 0;
        texts = t;
    }
    char *at = texts->bytes + texts->used;
    texts->used += size;
    return at;
}

void world_forget(void) {
    for (struct text *next; texts; texts = next) {
        next = texts->next;
        mi_free(texts);
    }
}

/* What schedule.c calls instead of mi_calloc. */
void *sim_calloc(size_t n, size_t size);
void *sim_calloc(size_t n, size_t size) {
    if (!refuse_next) return mi_calloc(n, size);
    refuse_next = false;
    return NULL;
}

/* ---- clients ---- */

static struct conn *connect_client(struct world *w, struct client *c) {
    if (w->n_conns == CONNS_MAX) return NULL;
    struct conn *conn = c->conn = &w->conns[w->n_conns];
    *conn = (struct conn){.id = (uint16_t)w->n_conns, .thread = &w->threads[below(&w->random, w->n_threads)]};
    w->n_conns++;
    return conn;
}

static struct op *next_op(struct world *w, uint32_t client) {
    struct client *c = &w->clients[client];
    while (c->next < w->n_asked && (w->plan->ops[c->next].client != client || w->plan->ops[c->next].removed)) c->next++;
    return c->next < w->n_asked ? &w->plan->ops[c->next] : NULL;
}

/* What the client's last WATCH saw is what its EXEC is to find. */
static void expect_watched(struct world *w, struct op *op) {
    const struct op *watch = op;
    while (watch > w->plan->ops && (watch->kind != OP_WATCH || watch->client != op->client)) watch--;
    for (uint32_t i = 0; i < op->n_watched; i++) op->parts[i].expected = watch->kind == OP_WATCH ? watch->parts[i].got.code : 0;
}

/* Its next pipeline, once all of the last one is answered. */
static bool client_sends(struct world *w, uint32_t client) {
    struct client *c = &w->clients[client];
    struct op *op = next_op(w, client);
    if (!op || c->unanswered || (!c->conn && !connect_client(w, c))) return false;
    uint16_t pipeline = op->pipeline;
    uint64_t invoked = ++w->moment;
    for (; op && op->pipeline == pipeline; op = next_op(w, client)) {
        uint32_t shards = op_shards(w, op);
        op->id = (uint16_t)(op - w->plan->ops);
        op->conn = c->conn->id;
        op->position = (uint16_t)c->conn->position++;
        op->multi = !shards || shards & (shards - 1) || op->kind == OP_POP;
        op->invoked = invoked;
        op->drawn = w->number;
        expect_watched(w, op);
        c->conn->input[c->conn->n_input++] = op;
        c->unanswered++;
        c->leaving |= op->leaves;
        c->next++;
    }
    return true;
}

/* The connection is gone: what was not taken never runs; what was, runs to its end. */
static void client_leaves(struct world *w, uint32_t client) {
    struct client *c = &w->clients[client];
    c->conn->n_input = 0;
    c->conn->closed = true;
    c->conn = NULL;
    c->leaving = false;
    c->unanswered = 0;
}

void client_receives(struct world *w, struct op *op) {
    struct client *c = &w->clients[op->client];
    if (!c->conn || c->conn->id != op->conn) return;
    op->returned = ++w->moment;
    c->unanswered--;
}

/* ---- beginning and end ---- */

static void set_number(struct thread *t, uint32_t db, uint32_t key, int64_t n) {
    const struct world *w = t->world;
    struct key k;
    key_find(t->shard, t->shard->dbs[db], w->hashes[key], w->names[key], (uint32_t)strlen(w->names[key]), &k);
    if (key_set_int(t->shard, &k, n, EXPIRY_NONE, KEY_SET)) abort();
}

/* The keys are dealt to the shards in turn: a name is tried until it lies where it is wanted. */
static void name_key(struct world *w, uint32_t key) {
    uint32_t shard = SHARDS_MAX, n = 0;
    for (; shard != key % w->n_threads; n++) {
        snprintf(w->names[key], sizeof w->names[key], "%u:%u", key, n);
        w->hashes[key] = hash_key(&w->secret, w->names[key], strlen(w->names[key]));
        shard = (uint32_t)((uint64_t)hash_slot(w->hashes[key]) * w->n_threads / HASH_SLOTS);
    }
    w->shard_of[key] = (uint8_t)shard;
}

static void begin(struct world *w, struct plan *p) {
    const struct settings *o = &p->settings;
    uint8_t seed[32] = {(uint8_t)o->seed, (uint8_t)(o->seed >> 8), (uint8_t)(o->seed >> 16), (uint8_t)(o->seed >> 24)};
    *w = (struct world){.plan = p, .n_threads = o->shards, .now_ms = START_MS, .latest_ms = START_MS, .n_asked = p->n_ops, .number = 100};
    random_seed(&w->random, o->order, 1);
    hash_secret_init(&w->secret, seed);
    for (uint32_t i = 0; i < o->keys; i++) name_key(w, i);
    for (uint32_t i = 0; i < o->shards; i++) {
        struct thread *t = &w->threads[i];
        struct shard_options options = {
            .id = i, .shards = o->shards, .databases = DBS, .secret = &w->secret, .seed = o->seed + i, .now_ms = START_MS};
        t->world = w;
        t->id = i;
        t->mine = true;
        t->stage = STAGE_TAKE;
        t->shard = shard_new(&options);
        if (!t->shard) abort();
        t->used_at_first = memory_used(t->shard->memory);
        mailbox_init(&t->requests);
        mailbox_init(&t->returns);
    }
    for (uint32_t i = 0; i < o->keys; i++) set_number(&w->threads[w->shard_of[i]], DB_BANK, i, BANK_START);
}

static uint64_t no_time(void) { return 0; }

/* Everything that a thread has must be back where it came from. */
static const char *what_is_left(struct thread *t) {
    const struct schedule *s = &t->shard->schedule;
    uint32_t state = holder_state(&t->holder);
    if (s->n_members || s->first || s->last) return "a member is left in a schedule";
    if (s->n_places || s->n_whole || s->ready) return "an intent is left in a schedule";
    if (t->in_flight || t->draining || t->stands_still || t->waiting || t->numbers || t->token_out || t->token_n)
        return "a thread is left in the middle of something";
    if (state != HOLDER_OWNED && state != HOLDER_FREE) return "a shard was not given back";
    for (uint32_t i = 0; i < DBS; i++) {
        const char *wrong = table_check(&t->shard->dbs[i]->keys);
        if (wrong) return wrong;
    }
    const char *wrong = waiting_left(t);
    if (wrong) return wrong;
    memory_fail_after(t->shard->memory, 0);
    for (uint32_t i = 0; i < DBS; i++) {
        set_number(t, i, 0, 0); /* an empty table would keep its segment */
        shard_flush(t->shard, i);
    }
    for (int64_t now_ms = t->world->now_ms + 100000; shard_work(t->shard, now_ms, 1000, no_time); now_ms += 100000) {}
    if (memory_used(t->shard->memory) != t->used_at_first) return "a shard holds memory for nothing";
    return NULL;
}

static void end(struct world *w) {
    for (uint32_t i = 0; i < w->n_threads; i++) {
        struct thread *t = &w->threads[i];
        if (!w->wrong) w->wrong = what_is_left(t);
        shard_drop(t->shard);
    }
    if (!w->wrong && (w->letters || w->slots || w->tasks || w->pops))
        w->wrong = "a message, a member, a transaction or a waiter was never freed";
}

/* ---- the run ---- */

/* Threads are of different speed, and each is held up now and then. */
static void change_speeds(struct world *w) {
    static const uint8_t weights[] = {0, 1, 1, 8, 8, 8, 40}; /* the first is a thread that has lost its CPU */
    for (uint32_t i = 0; i < w->n_threads; i++) w->threads[i].weight = weights[below(&w->random, sizeof weights)];
}

/* Where it would matter most, between two mailboxes or before arming, it happens more often than by chance. */
static void hold_up(struct world *w, struct thread *t) {
    const struct settings *o = &w->plan->settings;
    if (!o->stall || !one_in(&w->random, !t->pushing ? 60 : o->often ? 2 : 6)) return;
    t->held_until = w->stats.steps + below(&w->random, o->often && one_in(&w->random, 3) ? 4000 : 600);
}

static bool step_of_a_thread(struct world *w) {
    uint32_t sum = 0, at;
    bool ready[SHARDS_MAX];
    for (uint32_t i = 0; i < w->n_threads; i++) {
        struct thread *t = &w->threads[i];
        ready[i] = t->held_until <= w->stats.steps && (t->stage != STAGE_ASLEEP || thread_has_work(t));
        sum += ready[i] ? w->threads[i].weight : 0;
    }
    if (!sum) return false;
    at = below(&w->random, sum);
    for (uint32_t i = 0; i < w->n_threads; i++) {
        if (!ready[i]) continue;
        if (at < w->threads[i].weight) {
            thread_step(&w->threads[i]);
            hold_up(w, &w->threads[i]);
            return true;
        }
        at -= w->threads[i].weight;
    }
    return false;
}

static void refuse_memory(struct world *w) {
    if (one_in(&w->random, 4)) refuse_next = true;
    else memory_fail_after(w->threads[below(&w->random, w->n_threads)].shard->memory, 1 + below(&w->random, 4));
}

/* One that is none of ours pushes to a shard's mailbox, and arms that much later. */
static void be_a_stranger(struct world *w) {
    bool armed = atomic_load(&w->stranger_armed) == w->stranger_sequence, more = false;
    for (uint32_t i = 0; i < w->plan->settings.clients; i++) more |= next_op(w, i) != NULL;
    if (!armed) {
        if (!more || one_in(&w->random, 1000)) mailbox_arm(&w->stranger_armed, w->stranger_sequence);
        return;
    }
    if (!more || !one_in(&w->random, 60)) return;
    uint32_t shard = below(&w->random, w->n_threads);
    struct letter *l = letter_new(&w->threads[below(&w->random, w->n_threads)], LETTER_HOPS, shard);
    l->message.armed = &w->stranger_armed;
    l->message.sequence = ++w->stranger_sequence;
    mailbox_push(&w->threads[shard].requests, &l->message);
}

/* CLIENT UNBLOCK */
static void unblock_one(struct world *w) {
    struct conn *c = w->n_conns ? &w->conns[below(&w->random, w->n_conns)] : NULL;
    if (c && c->parked) c->unblocked = true;
}

/* What comes from outside. */
static void happen(struct world *w) {
    const struct settings *o = &w->plan->settings;
    uint32_t client = below(&w->random, o->clients);
    if (one_in(&w->random, 8)) client_sends(w, client);
    else if (w->clients[client].leaving && one_in(&w->random, 30)) client_leaves(w, client);
    if (one_in(&w->random, o->stall ? 300 : 60)) change_speeds(w);
    if (o->expire && one_in(&w->random, 40)) w->now_ms += one_in(&w->random, 5) ? 20 : 1 + below(&w->random, 3);
    if (w->latest_ms < w->now_ms) w->latest_ms = w->now_ms;
    if (o->jump && one_in(&w->random, 400)) w->now_ms -= below(&w->random, 30);
    if (o->often) be_a_stranger(w);
    if (o->refuse && one_in(&w->random, 200)) refuse_memory(w);
    if (one_in(&w->random, 2000)) unblock_one(w);
    if (o->snapshots && one_in(&w->random, 200)) snapshots_change_room(w);
}

static bool is_over(struct world *w) {
    for (uint32_t i = 0; i < w->plan->settings.clients; i++)
        if (next_op(w, i) || w->clients[i].unanswered) return false;
    for (uint32_t i = 0; i < w->n_conns; i++)
        if (w->conns[i].n_order) return false;
    for (uint32_t i = 0; i < w->n_threads; i++) {
        const struct thread *t = &w->threads[i];
        if (t->shard->snapshot || t->serving || t->in_flight || t->waiting || t->token_out || t->token_n || t->draining) return false;
        if (t->stage != STAGE_ASLEEP && t->stage != STAGE_TAKE) return false;
    }
    return !w->letters;
}

/* A client that finds no connection left stays away. */
static void forget_the_rest(struct world *w) {
    if (w->n_conns < CONNS_MAX) return;
    for (uint32_t i = 0; i < w->plan->settings.clients; i++)
        if (!w->clients[i].conn) w->clients[i].next = w->n_asked;
}

const char *world_run(struct plan *p, struct stats *stats) {
    static struct world w;
    begin(&w, p);
    change_speeds(&w);
    uint64_t moment = 0, moved = 0; /* the last time that something was asked, run or answered, and its step */
    for (uint32_t steps = 0; !w.wrong; steps++) {
        happen(&w);
        if (!step_of_a_thread(&w)) {
            change_speeds(&w);
            if (one_in(&w.random, 20)) unblock_one(&w);
        }
        if (steps % 16 == 0) {
            forget_the_rest(&w);
            if (is_over(&w)) break;
        }
        if (w.moment != moment) {
            moment = w.moment;
            moved = steps;
        }
        if (steps - moved > IDLE_STEPS_MAX) w.wrong = "there is no progress";
        w.stats.steps++;
    }
    refuse_next = false;
    end(&w);
    *stats = w.stats;
    return w.wrong;
}
