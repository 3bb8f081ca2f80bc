/* In this file: the buckets; listing and forgetting; what touches a watched key. */
#include "shard/watch.h"

#include <string.h>

#include "shard/entry.h"
#include "shard/keyspace.h"
#include "shard/memory.h"
#include "shard/shard.h"

#define BUCKETS_MIN 16u

/* --- buckets --- */

/* Bits of a hash that neither the shard's choice nor the table's segments depend on much, spread. */
static inline uint32_t mix(uint64_t hash) { return (uint32_t)(hash * 0x9e3779b97f4a7c15u >> 32); }

/* Linear hashing: buckets below n_buckets exist; the others' records are still with the bucket that they split from. */
static inline uint32_t bucket_of(const struct watches *t, uint64_t hash) {
    uint32_t round = 1u << (31 - __builtin_clz(t->n_buckets)), bucket = mix(hash) & (2 * round - 1);
    return bucket < t->n_buckets ? bucket : bucket - round;
}

static void link_in(struct watches *t, struct watch *w) {
    struct watch **head = &t->buckets[bucket_of(t, w->hash)];
    w->previous = NULL;
    w->next = *head;
    if (w->next) w->next->previous = w;
    *head = w;
}

static void link_out(struct watches *t, struct watch *w) {
    if (w->next) w->next->previous = w->previous;
    if (w->previous) w->previous->next = w->next;
    else t->buckets[bucket_of(t, w->hash)] = w->next;
}

/* Room in the array for one more bucket. */
static bool make_room(struct shard *s, struct watches *t) {
    if (t->n_buckets < t->capacity) return true;
    uint32_t capacity = t->capacity ? t->capacity * 2 : BUCKETS_MIN;
    struct watch **more = memory_alloc(s->memory, capacity * sizeof *more);
    if (!more) return false;
    if (t->n_buckets) memcpy(more, t->buckets, t->n_buckets * sizeof *more);
    if (t->buckets) memory_free(s->memory, t->buckets, t->capacity * sizeof *more);
    t->buckets = more;
    t->capacity = capacity;
    return true;
}

/* One more bucket, with those records of the bucket it splits from that belong there. If memory is refused the chains get longer. */
static void split_one(struct shard *s, struct watches *t) {
    if (!make_room(s, t)) return;
    uint32_t round = 1u << (31 - __builtin_clz(t->n_buckets)), from = t->n_buckets - round;
    struct watch *w = t->buckets[from], *next;
    t->buckets[from] = NULL;
    t->buckets[t->n_buckets++] = NULL;
    for (; w; w = next) {
        next = w->next;
        link_in(t, w);
    }
}

static bool begin(struct shard *s, struct watches *t) {
    if (t->n_buckets) return true;
    if (!make_room(s, t)) return false;
    memset(t->buckets, 0, BUCKETS_MIN * sizeof *t->buckets);
    t->n_buckets = BUCKETS_MIN;
    return true;
}

void watch_drop(struct shard *s) {
    struct watches *t = &s->watches;
    if (t->buckets) memory_free(s->memory, t->buckets, t->capacity * sizeof *t->buckets);
    *t = (struct watches){0};
}

/* --- listing and forgetting --- */

static const struct entry *look_up(const struct shard *s, uint32_t db, const struct watch *w) {
    table_slot *slot = table_find(&s->dbs[db]->keys, w->hash, w->name, w->size);
    return slot ? table_entry(*slot) : NULL;
}

static bool is_expired(const struct shard *s, const struct entry *e) { return e && entry_expired(e, s->now_ms); }

bool watch_add(struct shard *s, struct watch *w) {
    struct watches *t = &s->watches;
    struct watcher *who = w->watcher;
    if (!begin(s, t)) return false;
    const struct entry *e = look_up(s, w->db, w);
    w->may_expire = e && entry_expires(e);
    w->was_expired = is_expired(s, e);
    who->may_expire |= w->may_expire;
    w->next_of = who->first;
    who->first = w;
    who->n++;
    link_in(t, w);
    w->listed = true;
    if (++t->n > t->n_buckets) split_one(s, t);
    return true;
}

/* A key without an expiry time does not get one untouched, so the others need no look. */
bool watch_is_valid(struct shard *s, struct watcher *who) {
    if (atomic_load_explicit(&who->touched, memory_order_relaxed)) return false;
    if (!who->may_expire) return true;
    for (const struct watch *w = who->first; w; w = w->next_of)
        if (w->may_expire && !w->was_expired && is_expired(s, look_up(s, w->db, w))) return false;
    return true;
}

void watch_forget(struct shard *s, struct watcher *who) {
    struct watches *t = &s->watches;
    for (struct watch *w = who->first; w; w = w->next_of) {
        if (!w->listed) continue;
        link_out(t, w);
        w->listed = false;
        t->n--;
    }
    if (!t->n) watch_drop(s);
}

/* --- what touches --- */

/* Nothing more needs to be known of a watcher. */
static void mark(struct shard *s, struct watcher *who) {
    atomic_store_explicit(&who->touched, true, memory_order_relaxed);
    watch_forget(s, who);
}

static struct watch *first_of(const struct shard *s, uint64_t hash) {
    const struct watches *t = &s->watches;
    return t->n ? t->buckets[bucket_of(t, hash)] : NULL;
}

static bool is_of(const struct shard *s, const struct watch *w, const struct key *k) {
    return w->hash == k->hash && w->size == k->size && s->dbs[w->db] == k->db && !memcmp(w->name, k->name, k->size);
}

void watch_touch(struct shard *s, const struct key *k) {
    for (struct watch *w = first_of(s, k->hash), *next; w; w = next) {
        next = w->next;
        if (!is_of(s, w, k)) continue;
        if (w->was_expired && !k->entry) {
            w->was_expired = w->may_expire = false;
            continue;
        }
        mark(s, w->watcher); /* which may take out the next one too */
        next = first_of(s, k->hash);
    }
}

/* What becomes of a watched key when other contents (NULL: none) take the place of its database's. True: it was touched. */
static bool replaced(const struct shard *s, struct watch *w, const uint32_t *by) {
    const struct entry *before = look_up(s, w->db, w), *after = by ? look_up(s, *by, w) : NULL;
    if (!before && !after) return false;
    if (w->was_expired) {
        if (!after) w->was_expired = w->may_expire = false;
        else if (!is_expired(s, after)) return true;
        return false;
    }
    if (before || !is_expired(s, after)) return true;
    w->was_expired = w->may_expire = true;
    return false;
}

/* First all are looked at, each once: what replaced() finds may change what it would find next. */
static void replace(struct shard *s, uint32_t db, const uint32_t *by, uint32_t other, const uint32_t *other_by) {
    struct watches *t = &s->watches;
    for (uint32_t b = 0; b < t->n_buckets; b++)
        for (struct watch *w = t->buckets[b]; w; w = w->next)
            if ((w->db == db || w->db == other) && replaced(s, w, w->db == db ? by : other_by))
                atomic_store_explicit(&w->watcher->touched, true, memory_order_relaxed);
    for (uint32_t b = 0; b < t->n_buckets; b++)
        for (struct watch *w = t->buckets[b], *next; w; w = next) {
            next = w->next;
            if (!atomic_load_explicit(&w->watcher->touched, memory_order_relaxed)) continue;
            watch_forget(s, w->watcher);
            if (!t->n) return;
            next = t->buckets[b];
        }
}

void watch_flush(struct shard *s, uint32_t db) { replace(s, db, NULL, db, NULL); }
void watch_swap(struct shard *s, uint32_t a, uint32_t b) { replace(s, a, &b, b, &a); }
