/* In this file: the keys and their buckets; listing and forgetting; what makes a key ready; whose turn it is. */
#include "shard/wait.h"

#include <string.h>

#include "shard/entry.h"
#include "shard/keyspace.h"
#include "shard/memory.h"
#include "shard/shard.h"

#define BUCKETS_MIN 16u

/* Lives as long as it has waiters or is in one of the lists. */
struct wait_key {
    struct wait_key *next;       /* in its bucket */
    struct wait_key *next_ready; /* in the list of those that are ready, or held */
    struct wait *first, *last;
    struct wait *turn; /* marked: who is to be asked next; NULL: all were */
    uint64_t hash;
    uint32_t size;
    uint16_t db; /* number of the database: SWAPDB changes what lies behind it */
    bool marked; /* ready or held */
    bool held, let_go;
    char name[];
};

/* ---- keys ---- */

/* Bits that neither the shard's choice nor the table's segments depend on much, spread; as in watch.c. */
static inline uint32_t mix(uint64_t hash) { return (uint32_t)(hash * 0x9e3779b97f4a7c15u >> 32); }

/* The largest power of two that is not above the number of buckets. */
static inline uint32_t round_of(const struct waits *t) { return 1u << (31 - __builtin_clz(t->n_buckets)); }

/* Buckets that do not exist yet are still with the one that they will split from. */
static struct wait_key **bucket_of(const struct waits *t, uint64_t hash) {
    uint32_t round = round_of(t), i = mix(hash) & (2 * round - 1);
    return &t->buckets[i < t->n_buckets ? i : i - round];
}

static bool make_room(struct shard *s, struct waits *t) {
    if (t->n_buckets < t->capacity) return true;
    uint32_t capacity = t->capacity ? 2 * t->capacity : BUCKETS_MIN;
    struct wait_key **more = memory_alloc(s->memory, capacity * sizeof *more);
    if (!more) return false;
    if (t->n_buckets) memcpy(more, t->buckets, t->n_buckets * sizeof *more);
    if (t->buckets) memory_free(s->memory, t->buckets, t->capacity * sizeof *more);
    t->buckets = more;
    t->capacity = capacity;
    return true;
}

/* One more bucket. If memory is refused the chains get longer. */
static void split_one(struct shard *s, struct waits *t) {
    if (!make_room(s, t)) return;
    struct wait_key **from = &t->buckets[t->n_buckets - round_of(t)], *k = *from, *next;
    *from = NULL;
    t->buckets[t->n_buckets++] = NULL;
    for (; k; k = next) {
        struct wait_key **to = bucket_of(t, k->hash);
        next = k->next;
        k->next = *to;
        *to = k;
    }
}

static bool begin(struct shard *s, struct waits *t) {
    if (t->n_buckets) return true;
    if (!make_room(s, t)) return false;
    memset(t->buckets, 0, BUCKETS_MIN * sizeof *t->buckets);
    t->n_buckets = BUCKETS_MIN;
    return true;
}

static struct wait_key *find(const struct waits *t, uint16_t db, uint64_t hash, const char *name, uint32_t size) {
    struct wait_key *k = *bucket_of(t, hash);
    while (k && (k->hash != hash || k->db != db || k->size != size || memcmp(k->name, name, size))) k = k->next;
    return k;
}

static struct wait_key *key_new(struct shard *s, struct waits *t, uint16_t db, uint64_t hash, const char *name, uint32_t size) {
    struct wait_key *k = memory_alloc(s->memory, sizeof *k + size);
    if (!k) return NULL;
    if (!begin(s, t)) {
        memory_free(s->memory, k, sizeof *k + size);
        return NULL;
    }
    *k = (struct wait_key){.hash = hash, .size = size, .db = db};
    memcpy(k->name, name, size);
    struct wait_key **bucket = bucket_of(t, hash);
    k->next = *bucket;
    *bucket = k;
    if (++t->n_keys > t->n_buckets) split_one(s, t);
    return k;
}

static void free_buckets(struct shard *s, struct waits *t) {
    if (t->buckets) memory_free(s->memory, t->buckets, t->capacity * sizeof *t->buckets);
    t->buckets = NULL;
    t->n_buckets = t->capacity = 0;
}

static void key_free(struct shard *s, struct waits *t, struct wait_key *k) {
    struct wait_key **link = bucket_of(t, k->hash);
    while (*link != k) link = &(*link)->next;
    *link = k->next;
    memory_free(s->memory, k, sizeof *k + k->size);
    if (!--t->n_keys) free_buckets(s, t);
}

static inline void free_if_unused(struct shard *s, struct wait_key *k) {
    if (!k->first && !k->marked) key_free(s, &s->waits, k);
}

void wait_drop(struct shard *s) {
    struct waits *t = &s->waits;
    for (uint32_t b = 0; b < t->n_buckets; b++)
        for (struct wait_key *k = t->buckets[b], *next; k; k = next) {
            next = k->next;
            memory_free(s->memory, k, sizeof *k + k->size);
        }
    free_buckets(s, t);
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
    struct wait_key *k = t->n_keys ? find(t, db, hash, name, size) : NULL;
    if (!k && !(k = key_new(s, t, db, hash, name, size))) return false;
    w->key = k;
    if (WAIT_FAULT == WAIT_FAULT_LAST_FIRST && k->first) link_in(k, w, NULL, k->first);
    else link_in(k, w, k->last, NULL);
    t->n++;
    return true;
}

static void take_out(struct shard *s, struct wait *w) {
    struct wait_key *k = w->key;
    if (w->next) w->next->previous = w->previous;
    else k->last = w->previous;
    if (w->previous) w->previous->next = w->next;
    else k->first = w->next;
    if (k->turn == w) k->turn = w->next;
    w->key = NULL;
    s->waits.n--;
    free_if_unused(s, k);
}

void wait_forget(struct shard *s, struct waiter *who) {
    for (uint32_t i = 0; i < who->n; i++)
        if (who->keys[i].key) take_out(s, &who->keys[i]);
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
    for (struct wait_key *x = *bucket_of(t, k->hash); x; x = x->next)
        if (x->hash == k->hash && x->size == k->size && s->dbs[x->db] == k->db && !memcmp(x->name, k->name, k->size)) make_ready(t, x);
}

/* A key past its time is not there. */
static bool is_there(const struct shard *s, const struct wait_key *k) {
    table_slot *slot = table_find(&s->dbs[k->db]->keys, k->hash, k->name, k->size);
    return slot && !entry_expired(table_entry(*slot), s->now_ms);
}

void wait_swap(struct shard *s, uint32_t a, uint32_t b) {
    struct waits *t = &s->waits;
    for (uint32_t i = 0; i < t->n_buckets && WAIT_FAULT != WAIT_FAULT_SWAP_UNSEEN; i++)
        for (struct wait_key *k = t->buckets[i]; k; k = k->next)
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
        for (struct wait_key *k = *bucket_of(t, i->hash); k; k = k->next) n += k->hash == i->hash && mark_held(k);
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
    while (k->turn && WAIT_FAULT != WAIT_FAULT_CLAIM_IGNORED && atomic_load_explicit(k->turn->waiter->claim, memory_order_acquire))
        wait_forget(s, k->turn->waiter);
    return k->turn;
}

struct wait *wait_next(struct shard *s) {
    struct waits *t = &s->waits;
    while (t->ready) {
        struct wait_key *k = t->ready;
        if (is_there(s, k) && turn_of(s, k)) {
            if (WAIT_FAULT == WAIT_FAULT_NOT_HELD || !schedule_holds(&s->schedule, INTENT_DB, k->hash)) return k->turn;
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
