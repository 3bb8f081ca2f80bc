/* In this file: chunks; writing an entry; the walk; tables that were taken out; before-images; beginning and end. */
#include "shard/snapshot.h"

#include <errno.h>
#include <string.h>

#include "shard/batch.h"
#include "shard/crc64.h"
#include "shard/expire.h"
#include "shard/keyspace.h"
#include "shard/memory.h"
#include "shard/snapshot_internal.h"

/* Bytes that the walk writes between two looks at the clock: some 20 us, compressed. */
#define STEP_BYTES (4u << 10)
/* ---- chunks ---- */

void snapshot_put_chunk(struct shard *s, struct snapshot *x) {
    if (!x->chunk.length) return;
    rdb_fill_chunk_mark(&x->chunk);
    x->stats.bytes += x->chunk.length;
    x->sink.put(x->sink.arg, s, &x->chunk, SNAPSHOT_WHOLE, 0);
    snapshot_look_for_room(x);
    x->chunk_db = SNAPSHOT_NO_DB;
}

void snapshot_fail(struct shard *s, struct snapshot *x) {
    snapshot_abort(s);
    x->sink.end(x->sink.arg, s, true);
}

/* ---- entries ---- */

bool snapshot_write_entry(struct shard *s, struct snapshot *x, uint32_t number, const struct entry *e, bool compress) {
    struct rdb_buffer *b = &x->chunk;
    size_t before = b->length;
    struct rdb_entry_options o = {.compress = compress, .idle_s = x->idle ? (int64_t)key_idle_s(s, e) : RDB_NO_IDLE};
    if (!before && !rdb_put_chunk_mark(b)) return false;
    if (x->chunk_db != number) {
        if (!rdb_put_select(b, number)) return false;
        x->chunk_db = number;
    }
    if (!rdb_put_entry(b, s, e, &o)) {
        b->length = before;
        return false;
    }
    size_t bytes = b->length - before;
    x->left -= bytes < x->left ? bytes : x->left;
    x->stats.keys++;
    return true;
}

/* ---- the walk ---- */

struct visiting {
    struct shard *s;
    struct snapshot *x;
    uint32_t number;
};

static bool visit_write(void *arg, table_slot *slot) {
    struct visiting *v = arg;
    struct snapshot *x = v->x;
    if (rdb_is_large(table_entry(*slot))) {
        if (!snapshot_value_new(v->s, x, x->table, slot, v->number)) snapshot_fail(v->s, x);
        return false;
    }
    if (!snapshot_write_entry(v->s, x, v->number, table_entry(*slot), x->compress)) {
        snapshot_fail(v->s, x);
        return false;
    }
    table_mark(x->table, slot);
    if (x->chunk.length >= SNAPSHOT_CHUNK_BYTES) snapshot_put_chunk(v->s, x);
    return x->left;
}

static bool visit_mark(void *arg, table_slot *slot) {
    struct visiting *v = arg;
    table_mark(v->x->table, slot);
    return true;
}

static void prefetch_value(const struct entry *e) {
    batch_prefetch_value(e, true);
    if (entry_type(e) != TYPE_STRING) __builtin_prefetch(entry_pointer(e));
}

static void walk_anew(struct snapshot *x) {
    x->walk.position = 0;
    x->walk.bucket = 0;
}

/* The table that the walk is at. NULL: it is over. */
static struct table *table_at(const struct shard *s, const struct snapshot *x, uint32_t *number) {
    if (x->detached) {
        *number = x->detached->number;
        return &x->detached->keys;
    }
    if (x->at == s->n_dbs) return NULL;
    *number = x->numbers[x->at];
    for (uint32_t i = 0; SNAPSHOT_FAULT == SNAPSHOT_FAULT_NUMBER_NOW && i < s->n_dbs; i++)
        if (s->dbs[i]->id == x->at) *number = i;
    return &s->by_id[x->at]->keys;
}

static void discard_first(struct shard *s, struct snapshot *x) {
    struct detached *d = x->detached;
    x->detached = d->next;
    shard_discard(s, &d->keys);
    memory_free(s->memory, d, sizeof *d);
}

static void table_is_done(struct shard *s, struct snapshot *x) {
    walk_anew(x);
    if (x->detached) discard_first(s, x);
    else x->at++;
}

static size_t snapshot_size(const struct shard *s) { return sizeof(struct snapshot) + s->n_dbs * sizeof(uint32_t); }

static void forget(struct shard *s, struct snapshot *x) {
    snapshot_values_drop(s, x);
    while (x->detached) discard_first(s, x);
    rdb_buffer_drop(&x->chunk);
    memory_free(s->memory, x, snapshot_size(s));
    s->snapshot = NULL;
}

/* Every slot has the mark. */
static void finish(struct shard *s, struct snapshot *x) {
    const struct snapshot_sink sink = x->sink;
    bool given_up = x->given_up;
    if (!given_up) snapshot_put_chunk(s, x);
    forget(s, x);
    if (!given_up) sink.end(sink.arg, s, false);
}

/* Some of the walk. False: it is over. */
static bool walk_some(struct shard *s, struct snapshot *x) {
    struct visiting v = {.s = s, .x = x};
    if (!(x->table = table_at(s, x, &v.number))) return false;
    x->walk.visit = x->given_up ? visit_mark : visit_write;
    x->walk.arg = &v;
    x->left = STEP_BYTES;
    if (!table_walk_segment(x->table, &x->walk) && !x->first) table_is_done(s, x);
    return true;
}

/* Whether something of a given-up snapshot still holds a key. */
static bool holds(const struct snapshot *x) {
    const struct snapshot_value *v = x->first;
    while (v && !v->holds) v = v->next;
    return v;
}

void snapshot_work(struct shard *s, struct slice *slice, uint64_t until_ns) {
    struct snapshot *x = s->snapshot;
    if (!x->given_up && !x->roomy) snapshot_look_for_room(x);
    x->walk.bucket = 0; /* the table may have changed */
    do {
        if (!x->given_up && x->sink.is_off(x->sink.arg)) snapshot_fail(s, x);
        if (x->given_up) {
            if (holds(x)) return;
            snapshot_values_drop(s, x);
        }
        if (x->first) {
            if (x->first->written || !snapshot_value_work(s, x)) return;
        } else {
            if (!x->given_up && !x->sink.has_room(x->sink.arg, 0, false)) return;
            if (!walk_some(s, x)) {
                finish(s, x);
                return;
            }
        }
    } while (!slice_is_past(slice, until_ns));
}

bool snapshot_is_due(const struct shard *s) {
    const struct snapshot *x = s->snapshot;
    if (!x) return false;
    return x->given_up || (x->first ? snapshot_value_has_room(x) : x->sink.has_room(x->sink.arg, 0, false));
}

bool snapshot_takes(struct shard *s, struct db *db, const struct table *keys) {
    struct snapshot *x = snapshot_running(s);
    if (SNAPSHOT_FAULT == SNAPSHOT_FAULT_FLUSH_LOST) return false;
    struct detached *d = x && db->id >= x->at ? memory_alloc(s->memory, sizeof *d) : NULL;
    if (!d) {
        if (x && db->id >= x->at) snapshot_fail(s, x);
        return false;
    }
    *d = (struct detached){.next = x->detached, .keys = *keys, .number = x->numbers[db->id]};
    x->detached = d;
    walk_anew(x);
    return true;
}

/* ---- before-images ---- */

void snapshot_image(struct shard *s, struct db *db, table_slot *slot) {
    struct snapshot *x = snapshot_running(s);
    if (!x || SNAPSHOT_FAULT == SNAPSHOT_FAULT_NO_IMAGE) return;
    if (table_is_marked(&db->keys, *slot)) {
        snapshot_value_whole(s, x, &db->keys, table_entry(*slot));
        return;
    }
    if (!snapshot_write_entry(s, x, x->numbers[db->id], table_entry(*slot), false)) { /* somebody waits for it */
        snapshot_fail(s, x);
        return;
    }
    if (SNAPSHOT_FAULT != SNAPSHOT_FAULT_UNMARKED) table_mark(&db->keys, slot);
    x->stats.images++;
    if (x->chunk.length >= SNAPSHOT_CHUNK_BYTES) snapshot_put_chunk(s, x);
}

/* ---- beginning and end ---- */

int snapshot_begin(struct shard *s, const struct snapshot_options *o) {
    if (s->snapshot) return -EBUSY;
    struct snapshot *x = memory_alloc(s->memory, snapshot_size(s));
    if (!x) return -ENOMEM;
    memset(x, 0, snapshot_size(s));
    x->sink = o->sink;
    x->compress = o->compress;
    x->idle = o->idle;
    x->kept_max = o->kept_max;
    x->chunk_db = SNAPSHOT_NO_DB;
    x->roomy = true;
    x->walk = (struct table_walk){.ahead = o->ahead, .prefetch_value = prefetch_value};
    for (uint32_t i = 0; i < s->n_dbs; i++) {
        x->numbers[s->dbs[i]->id] = i;
        x->stats.keys_total += s->dbs[i]->keys.count;
        table_unmark_all(&s->dbs[i]->keys);
    }
    s->snapshot = x;
    return 0;
}

/* Slots are marked up to the walk's place, and some behind it: until all are, the mark means nothing. */
void snapshot_abort(struct shard *s) {
    struct snapshot *x = snapshot_running(s);
    if (!x) return;
    x->given_up = true;
    while (x->detached) discard_first(s, x);
    walk_anew(x);
    x->walk.ahead = TABLE_AHEAD_NONE;
}

const struct snapshot_stats *snapshot_stats(const struct shard *s) {
    const struct snapshot *x = snapshot_running(s);
    return x ? &x->stats : NULL;
}

void snapshot_drop(struct shard *s) {
    if (s->snapshot) forget(s, s->snapshot);
}
