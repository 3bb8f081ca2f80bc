/* In this file: listing and forgetting; what touches a watched key. */
#include "shard/watch.h"

#include <string.h>

#include "shard/entry.h"
#include "shard/keyspace.h"
#include "shard/memory.h"
#include "shard/shard.h"

void watch_drop(struct shard *s) { buckets_drop(&s->watches, s->memory); }

/* --- listing and forgetting --- */

static const struct entry *look_up(const struct shard *s, uint32_t db, const struct watch *w) {
    table_slot *slot = table_find(&s->dbs[db]->keys, w->in.hash, w->name, w->size);
    return slot ? table_entry(*slot) : NULL;
}

static bool is_expired(const struct shard *s, const struct entry *e) { return e && entry_expired(e, s->now_ms); }

bool watch_add(struct shard *s, struct watch *w) {
    struct watcher *who = w->watcher;
    if (!buckets_add(&s->watches, s->memory, &w->in)) return false;
    const struct entry *e = look_up(s, w->db, w);
    w->may_expire = e && entry_expires(e);
    w->was_expired = is_expired(s, e);
    who->may_expire |= w->may_expire;
    w->next_of = who->first;
    who->first = w;
    who->n++;
    w->listed = true;
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
    for (struct watch *w = who->first; w; w = w->next_of) {
        if (w->listed) buckets_remove(&s->watches, s->memory, &w->in);
        w->listed = false;
    }
}

/* --- what touches --- */

/* Nothing more needs to be known of a watcher. */
static void mark(struct shard *s, struct watcher *who) {
    atomic_store_explicit(&who->touched, true, memory_order_relaxed);
    watch_forget(s, who);
}

static struct watch *first_of(const struct shard *s, uint64_t hash) { return (struct watch *)buckets_first(&s->watches, hash); }
static struct watch *next_of(const struct watch *w) { return (struct watch *)w->in.next; }

static bool is_of(const struct shard *s, const struct watch *w, const struct key *k) {
    return w->in.hash == k->hash && w->size == k->size && s->dbs[w->db] == k->db && !memcmp(w->name, k->name, k->size);
}

void watch_touch(struct shard *s, const struct key *k) {
    for (struct watch *w = first_of(s, k->hash), *next; w; w = next) {
        next = next_of(w);
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
    const struct buckets *t = &s->watches;
    for (uint32_t b = 0; b < t->n_heads; b++)
        for (struct watch *w = (struct watch *)t->heads[b]; w; w = next_of(w))
            if ((w->db == db || w->db == other) && replaced(s, w, w->db == db ? by : other_by))
                atomic_store_explicit(&w->watcher->touched, true, memory_order_relaxed);
    for (uint32_t b = 0; b < t->n_heads; b++)
        for (struct watch *w = (struct watch *)t->heads[b], *next; w; w = next) {
            next = next_of(w);
            if (!atomic_load_explicit(&w->watcher->touched, memory_order_relaxed)) continue;
            watch_forget(s, w->watcher);
            if (!t->n) return;
            next = (struct watch *)t->heads[b];
        }
}

void watch_flush(struct shard *s, uint32_t db) { replace(s, db, NULL, db, NULL); }
void watch_swap(struct shard *s, uint32_t a, uint32_t b) { replace(s, a, &b, b, &a); }
