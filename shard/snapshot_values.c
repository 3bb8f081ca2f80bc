/* Values that a snapshot writes for themselves: large ones, slice by slice, in a stream of their own; and those whose writers must wait because the
 * sink has no room. In this file: beginning and end; writing; who waits; entries that the snapshot keeps. */
#include <string.h>

#include "shard/blob.h"
#include "shard/container.h"
#include "shard/expire.h"
#include "shard/keyspace.h"
#include "shard/memory.h"
#include "shard/snapshot_internal.h"

/* Bytes between two looks at the clock. */
#define STEP_BYTES (4u << 10)

/* ---- beginning and end ---- */

static void append(struct snapshot *x, struct snapshot_value *v) {
    v->previous = x->last;
    v->next = NULL;
    if (x->last) x->last->next = v;
    else x->first = v;
    x->last = v;
}

static void take_from_list(struct snapshot *x, struct snapshot_value *v) {
    if (v->previous) v->previous->next = v->next;
    else x->first = v->next;
    if (v->next) v->next->previous = v->previous;
    else x->last = v->previous;
}

static void put_first(struct snapshot *x, struct snapshot_value *v) {
    v->previous = NULL;
    v->next = x->first;
    if (x->first) x->first->previous = v;
    else x->last = v;
    x->first = v;
}

struct snapshot_value *snapshot_value_new(struct shard *s, struct snapshot *x, const struct table *t, table_slot *slot, uint32_t number) {
    struct snapshot_value *v = memory_alloc(s->memory, sizeof *v);
    if (!v) return NULL;
    memset(v, 0, sizeof *v);
    v->entry = table_entry(*slot);
    v->number = number;
    v->in.hash = t->hash(t->hash_arg, v->entry);
    if (!buckets_add(&x->values, s->memory, &v->in)) {
        memory_free(s->memory, v, sizeof *v);
        return NULL;
    }
    append(x, v);
    table_mark(t, slot);
    return v;
}

static struct snapshot_value *find(const struct snapshot *x, uint64_t hash, const struct entry *e) {
    if (!x->values.n) return NULL;
    struct snapshot_value *v = (struct snapshot_value *)buckets_first(&x->values, hash);
    while (v && v->entry != e) v = (struct snapshot_value *)v->in.next;
    return v;
}

static struct snapshot_value *find_of(const struct snapshot *x, const struct table *t, const struct entry *e) {
    return x->values.n ? find(x, t->hash(t->hash_arg, e), e) : NULL;
}

static size_t bytes_of(const struct entry *e) {
    const struct blob *b = entry_blob(e);
    if (entry_type(e) != TYPE_STRING) return container_memory(e);
    return b ? b->size : 0;
}

static void drop_kept(struct shard *s, struct snapshot *x, struct snapshot_value *v) {
    if (!v->kept) return;
    x->stats.kept_bytes -= bytes_of(v->entry);
    entry_drop(s->memory, v->entry, &s->trash);
}

/* It is no more to be found, and nothing of it is to be done but to let its key go. */
static void is_written(struct shard *s, struct snapshot *x, struct snapshot_value *v) {
    if (!v->kept) buckets_remove(&x->values, s->memory, &v->in);
    drop_kept(s, x, v);
    rdb_buffer_drop(&v->bytes);
    v->written = true;
    take_from_list(x, v);
    if (v->holds) put_first(x, v);
    else memory_free(s->memory, v, sizeof *v);
}

static void forget(struct shard *s, struct snapshot *x, struct snapshot_value *v) {
    if (!v->written) {
        if (!v->kept) buckets_remove(&x->values, s->memory, &v->in);
        drop_kept(s, x, v);
        rdb_buffer_drop(&v->bytes);
    }
    take_from_list(x, v);
    memory_free(s->memory, v, sizeof *v);
}

void snapshot_values_drop(struct shard *s, struct snapshot *x) {
    while (x->first) forget(s, x, x->first);
}

/* ---- writing ---- */

static bool begin(struct snapshot *x, struct shard *s, struct snapshot_value *v) {
    struct rdb_entry_options o = {.compress = x->compress, .idle_s = x->idle ? (int64_t)key_idle_s(s, v->entry) : RDB_NO_IDLE};
    v->begun = true;
    if (!rdb_put_chunk_mark(&v->bytes) || !rdb_put_select(&v->bytes, v->number) || !rdb_put_entry_head(&v->bytes, v->entry, &o))
        return false;
    rdb_value_begin(&v->value, v->entry, x->compress);
    return true;
}

static void put_piece(struct shard *s, struct snapshot *x, struct snapshot_value *v, bool last) {
    enum snapshot_part part = !last ? SNAPSHOT_PIECE : v->stream ? SNAPSHOT_LAST : SNAPSHOT_WHOLE;
    if (part == SNAPSHOT_WHOLE) rdb_fill_chunk_mark(&v->bytes); /* a stream's doesn't say how long it is */
    if (part == SNAPSHOT_PIECE && !v->stream) v->stream = x->sink.new_stream(x->sink.arg);
    x->stats.bytes += v->bytes.length;
    x->sink.put(x->sink.arg, s, &v->bytes, part, v->stream);
    snapshot_look_for_room(x);
}

/* About so many bytes more. Of none is written what is small: it goes into the chunk. */
static enum rdb_step step(struct shard *s, struct snapshot *x, struct snapshot_value *v, size_t bytes) {
    if (!v->begun && !rdb_is_large(v->entry))
        return snapshot_write_entry(s, x, v->number, v->entry, x->compress) ? RDB_DONE : RDB_NO_MEMORY;
    if (!v->begun && !begin(x, s, v)) return RDB_NO_MEMORY;
    enum rdb_step result = rdb_value_step(&v->value, s, v->entry, &v->bytes, bytes);
    if (result == RDB_DONE || v->bytes.length >= SNAPSHOT_CHUNK_BYTES) put_piece(s, x, v, result == RDB_DONE);
    return result;
}

static enum rdb_step go_on(struct shard *s, struct snapshot *x, struct snapshot_value *v, size_t bytes) {
    enum rdb_step result = step(s, x, v, bytes);
    if (result == RDB_NO_MEMORY) snapshot_fail(s, x);
    else if (result == RDB_DONE) {
        x->stats.keys += v->begun; /* what went into the chunk was counted there */
        is_written(s, x, v);
        if (x->chunk.length >= SNAPSHOT_CHUNK_BYTES) snapshot_put_chunk(s, x);
    }
    return result;
}

bool snapshot_value_has_room(const struct snapshot *x) {
    const struct snapshot_value *v = x->first;
    return v->written || x->sink.has_room(x->sink.arg, v->stream, v->holds || v->kept);
}

bool snapshot_value_work(struct shard *s, struct snapshot *x) {
    if (!snapshot_value_has_room(x)) return false;
    if (!x->first->written) go_on(s, x, x->first, STEP_BYTES);
    return true;
}

void snapshot_value_whole(struct shard *s, struct snapshot *x, const struct table *t, const struct entry *e) {
    struct snapshot_value *v = SNAPSHOT_FAULT == SNAPSHOT_FAULT_NOT_HELD ? NULL : find_of(x, t, e);
    while (v && go_on(s, x, v, SIZE_MAX) == RDB_MORE) {}
}

/* ---- who waits ---- */

/* Writers of the key wait from now on, unless somebody who must write it before is in the order already. Else what they change is written at once, whole. */
static void hold(struct shard *s, struct snapshot_value *v) {
    if (v->holds) return;
    intent_on_database(&v->intents[0], INTENT_DB, INTENT_READ_WITHIN);
    intent_on_key(&v->intents[1], INTENT_DB, v->in.hash, false);
    v->member = (struct member){.local = true, .intents = v->intents, .n_intents = 2};
    if (!schedule_add(&s->schedule, &v->member)) return; /* no memory */
    v->holds = schedule_tell(&s->schedule, &v->member);
    if (!v->holds) schedule_remove(&s->schedule, &v->member);
}

struct holding {
    struct shard *s;
    struct snapshot *x;
    struct db *db;
    bool replaces;
};

/* Whether who changes this entry, which is not marked, must wait until it is written. */
static bool must_wait(const struct holding *h, const struct entry *e) {
    const struct snapshot *x = h->x;
    if (!x->sink.has_room(x->sink.arg, 0, true)) return true;
    return rdb_is_large(e) && (!h->replaces || (x->stats.kept_bytes && x->stats.kept_bytes + bytes_of(e) > x->kept_max));
}

static void hold_slot(struct holding *h, table_slot *slot) {
    struct table *t = &h->db->keys;
    const struct entry *e = table_entry(*slot);
    struct snapshot_value *v;
    if (table_is_marked(t, *slot)) v = h->replaces ? NULL : find_of(h->x, t, e);
    else {
        if (!must_wait(h, e)) return;
        if (!(v = snapshot_value_new(h->s, h->x, t, slot, h->x->numbers[h->db->id]))) snapshot_fail(h->s, h->x);
    }
    if (v) hold(h->s, v);
}

void snapshot_hold_key(struct shard *s, struct db *db, uint64_t hash, const char *name, uint32_t size, bool replaces) {
    struct snapshot *x = snapshot_running(s);
    if (!x || (replaces && x->roomy && !x->stats.kept_bytes)) return;
    struct holding h = {.s = s, .x = x, .db = db, .replaces = replaces};
    table_slot *slot = table_find(&db->keys, hash, name, size);
    if (slot) hold_slot(&h, slot);
}

static void visit_hold(void *arg, uint64_t hash_prefix, table_slot *slot) {
    struct holding *h = arg;
    (void)hash_prefix;
    if (!h->x->given_up) hold_slot(h, slot);
}

void snapshot_hold_hash(struct shard *s, uint64_t hash) {
    struct snapshot *x = snapshot_running(s);
    for (uint32_t i = 0; x && i < s->n_dbs; i++) {
        struct holding h = {.s = s, .x = x, .db = s->dbs[i]};
        if (h.db->keys.count) table_match(&h.db->keys, hash, visit_hold, &h);
    }
}

/* The member goes, and with it what was kept of the value. */
static void let_go(struct shard *s, struct snapshot *x, struct snapshot_value *v) {
    schedule_remove(&s->schedule, &v->member);
    if (s->waits.held) wait_let_go(s, &v->member);
    forget(s, x, v);
}

bool snapshot_let_go(struct shard *s) {
    struct snapshot *x = s->snapshot;
    struct snapshot_value *v = x ? x->first : NULL;
    while (x && x->given_up && v && !v->holds) v = v->next;
    if (!v || !(x->given_up || v->written)) return false;
    let_go(s, x, v);
    return true;
}

void snapshot_hurry(struct shard *s) {
    struct snapshot *x = snapshot_running(s);
    struct snapshot_value *v = x ? x->first : NULL;
    while (v) {
        struct snapshot_value *next = v->next;
        while (!v->written && v->holds && go_on(s, x, v, SIZE_MAX) == RDB_MORE) {}
        v = x->given_up ? NULL : next;
    }
}

/* ---- entries that the snapshot keeps ---- */

static bool would_keep(const struct snapshot *x, const struct table *t, table_slot slot) {
    const struct entry *e = table_entry(slot);
    return table_is_marked(t, slot) ? find_of(x, t, e) != NULL : rdb_is_large(e);
}

bool snapshot_would_keep(struct shard *s, struct db *db, table_slot slot) {
    const struct snapshot *x = snapshot_running(s);
    return x && would_keep(x, &db->keys, slot);
}

void snapshot_leaves(struct shard *s, struct db *db, table_slot *slot) {
    struct snapshot *x = snapshot_running(s);
    struct table *t = &db->keys;
    if (!x || !would_keep(x, t, *slot)) {
        snapshot_image(s, db, slot);
        return;
    }
    struct snapshot_value *v = find_of(x, t, table_entry(*slot));
    if (!v && !(v = snapshot_value_new(s, x, t, slot, x->numbers[db->id]))) {
        snapshot_fail(s, x);
        return;
    }
    x->keeps = v;
    x->stats.images++;
}

bool snapshot_keeps(struct shard *s, struct entry *e) {
    struct snapshot *x = snapshot_running(s);
    struct snapshot_value *v = x ? x->keeps : NULL;
    if (!v || v->entry != e) return false;
    x->keeps = NULL;
    buckets_remove(&x->values, s->memory, &v->in);
    v->kept = true;
    x->stats.kept_bytes += bytes_of(e);
    if (SNAPSHOT_FAULT == SNAPSHOT_FAULT_KEPT_LOST) forget(s, x, v);
    return true;
}
