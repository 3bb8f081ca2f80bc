/* In this file: the keys; listing and forgetting; what makes a key ready; whose turn it is. */
#include "shard/wait.h"

#include <string.h>

#include "shard/entry.h"
#include "shard/keyspace.h"
#include "shard/memory.h"
#include "shard/shard.h"

/* Lives as long as it has waiters or is in one of the lists. */
struct wait_key {
    struct bucket_record in;
    struct wait_key *next_ready; /* in the list of those that are ready, or held */
    struct wait *first, *last;
    struct wait *turn; /* marked: who is to be asked next; NULL: all were */
    uint32_t size;
    uint16_t db; /* number of the database: SWAPDB changes what lies behind it */
    bool marked; /* ready or held */
    bool held, let_go;
    char name[];
};

/* ---- keys ---- */

static struct wait_key *first_key(const struct waits *t, uint64_t hash) { return (struct wait_key *)buckets_first(&t->keys, hash); }
static struct wait_key *next_key(const struct wait_key *k) { return (struct wait_key *)k->in.next; }

static struct wait_key *find(const struct waits *t, uint16_t db, uint64_t hash, const char *name, uint32_t size) {
    struct wait_key *k = first_key(t, hash);
    while (k && (k->in.hash != hash || k->db != db || k->size != size || memcmp(k->name, name, size))) k = next_key(k);
    return k;
}

static struct wait_key *key_new(struct shard *s, struct waits *t, uint16_t db, uint64_t hash, const char *name, uint32_t size) {
    struct wait_key *k = memory_alloc(s->memory, sizeof *k + size);
    if (!k) return NULL;
    *k = (struct wait_key){.in.hash = hash, .size = size, .db = db};
    memcpy(k->name, name, size);
    if (buckets_add(&t->keys, s->memory, &k->in)) return k;
    memory_free(s->memory, k, sizeof *k + size);
    return NULL;
}

static inline void free_if_unused(struct shard *s, struct wait_key *k) {
    if (k->first || k->marked) return;
    buckets_remove(&s->waits.keys, s->memory, &k->in);
    memory_free(s->memory, k, sizeof *k + k->size);
}

void wait_drop(struct shard *s) {
    struct waits *t = &s->waits;
    for (uint32_t b = 0; b < t->keys.n_heads; b++)
        for (struct bucket_record *r = t->keys.heads[b], *next; r; r = next) {
            next = r->next;
            memory_free(s->memory, r, sizeof(struct wait_key) + ((struct wait_key *)r)->size);
        }
    buckets_drop(&t->keys, s->memory);
    *t = (struct waits){0};
}

/* ---- listing and forgetting ---- */

static void link_in(struct wait_key *k, struct wait *w, struct wait *previous, struct wait *next) {
    w->previous = previous;
    w->next = next;
    if (previous) previous->next = w;
    else k->first = w;
    if (next) next->previous = w;
    else k->last = w;
}

bool wait_add(struct shard *s, struct wait *w, uint16_t db, uint64_t hash, const char *name, uint32_t size) {
    struct waits *t = &s->waits;
    struct wait_key *k = find(t, db, hash, name, size);
    if (!k && !(k = key_new(s, t, db, hash, name, size))) return false;
    w->key = k;
    if (WAIT_FAULT == WAIT_FAULT_LAST_FIRST && k->first) link_in(k, w, NULL, k->first);
    else link_in(k, w, k->last, NULL);
    t->n++;
    return true;
}

static void make_ready(struct waits *t, struct wait_key *k);
static bool is_there(const struct shard *s, const struct wait_key *k);

static void take_out(struct shard *s, struct wait *w) {
    struct wait_key *k = w->key;
    if (w->next) w->next->previous = w->previous;
    else k->last = w->previous;
    if (w->previous) w->previous->next = w->next;
    else k->first = w->next;
    if (k->turn == w) k->turn = w->next;
    w->key = NULL;
    s->waits.n--;
    if (w->waiter->busy && k->first && is_there(s, k)) make_ready(&s->waits, k);
    free_if_unused(s, k);
}

void wait_forget(struct shard *s, struct waiter *who) {
    for (uint32_t i = 0; i < who->n; i++)
        if (who->keys[i].key) take_out(s, &who->keys[i]);
}

void wait_resume(struct shard *s, struct waiter *who) {
    who->busy = false;
    for (uint32_t i = 0; i < who->n; i++)
        if (who->keys[i].key && is_there(s, who->keys[i].key)) make_ready(&s->waits, who->keys[i].key);
}

/* ---- what makes a key ready ---- */

static void make_ready(struct waits *t, struct wait_key *k) {
    if (k->marked || (WAIT_FAULT == WAIT_FAULT_WAKE_LOST && t->ready)) return;
    k->marked = true;
    k->turn = k->first;
    k->next_ready = NULL;
    if (t->last_ready) t->last_ready->next_ready = k;
    else t->ready = k;
    t->last_ready = k;
}

void wait_touch(struct shard *s, const struct key *k) {
    struct waits *t = &s->waits;
    if (!k->entry) return;
    for (struct wait_key *x = first_key(t, k->hash); x; x = next_key(x))
        if (x->in.hash == k->hash && x->size == k->size && s->dbs[x->db] == k->db && !memcmp(x->name, k->name, k->size)) make_ready(t, x);
}

/* A key past its time is not there. */
static bool is_there(const struct shard *s, const struct wait_key *k) {
    table_slot *slot = table_find(&s->dbs[k->db]->keys, k->in.hash, k->name, k->size);
    return slot && !entry_expired(table_entry(*slot), s->now_ms);
}

void wait_swap(struct shard *s, uint32_t a, uint32_t b) {
    struct waits *t = &s->waits;
    for (uint32_t i = 0; i < t->keys.n_heads && WAIT_FAULT != WAIT_FAULT_SWAP_UNSEEN; i++)
        for (struct wait_key *k = (struct wait_key *)t->keys.heads[i]; k; k = next_key(k))
            if ((k->db == a || k->db == b) && k->first && is_there(s, k)) make_ready(t, k);
}

/* ---- whose turn it is ---- */

static struct wait_key *take_ready(struct waits *t) {
    struct wait_key *k = t->ready;
    t->ready = k->next_ready;
    if (!t->ready) t->last_ready = NULL;
    return k;
}

static void hold(struct waits *t, struct wait_key *k) {
    k->held = true;
    k->next_ready = NULL;
    if (t->last_held) t->last_held->next_ready = k;
    else t->held = k;
    t->last_held = k;
}

static bool mark_held(struct wait_key *k) {
    if (!k->held || k->let_go) return false;
    k->let_go = true;
    return true;
}

/* Marks what is held of the intent's key, in all databases, or of everything. How many that are. */
static uint32_t mark_all_held(struct waits *t, const struct intent *i) {
    uint32_t n = 0;
    if (i->whole && i->mode < INTENT_READ) return 0;
    if (i->whole)
        for (struct wait_key *k = t->held; k; k = k->next_ready) n += mark_held(k);
    else
        for (struct wait_key *k = first_key(t, i->hash); k; k = next_key(k)) n += k->in.hash == i->hash && mark_held(k);
    return n;
}

void wait_let_go(struct shard *s, const struct member *m) {
    struct waits *t = &s->waits;
    uint32_t n = 0;
    if (!t->held || WAIT_FAULT == WAIT_FAULT_HELD_FOR_EVER) return;
    for (uint32_t i = 0; i < m->n_intents; i++) n += mark_all_held(t, &m->intents[i]);
    for (struct wait_key **link = &t->held, *last = NULL, *k; n && (k = *link);) {
        if (!k->let_go) {
            last = k;
            link = &k->next_ready;
            continue;
        }
        *link = k->next_ready;
        if (t->last_held == k) t->last_held = last;
        k->marked = k->held = k->let_go = false;
        make_ready(t, k);
        n--;
    }
}

static struct wait *turn_of(struct shard *s, struct wait_key *k) {
    while (k->turn && !k->turn->waiter->busy && WAIT_FAULT != WAIT_FAULT_CLAIM_IGNORED &&
        atomic_load_explicit(k->turn->waiter->claim, memory_order_acquire))
        wait_forget(s, k->turn->waiter);
    return k->turn && !k->turn->waiter->busy ? k->turn : NULL;
}

struct wait *wait_next(struct shard *s) {
    struct waits *t = &s->waits;
    while (t->ready) {
        struct wait_key *k = t->ready;
        if (is_there(s, k) && turn_of(s, k)) {
            if (WAIT_FAULT == WAIT_FAULT_NOT_HELD || !schedule_holds(&s->schedule, INTENT_DB, k->in.hash)) return k->turn;
            hold(t, take_ready(t));
            continue;
        }
        take_ready(t);
        k->marked = false;
        k->turn = NULL;
        free_if_unused(s, k);
    }
    return NULL;
}

void wait_pass(struct wait *w) { w->key->turn = WAIT_FAULT == WAIT_FAULT_PASSED_ENDS ? NULL : w->next; }
