/* Snapshots: what is written must be what all shards had at the cut, each key once, whatever runs meanwhile. The file is modelled: it has room now and then. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/expire.h"
#include "shard/keyspace.h"
#include "shard/rdb.h"
#include "shard/snapshot.h"
#include "tests/sim/world.h"

/* A value of so many bytes is written for itself, in slices, as large ones are. */
#define SIM_LARGE 10u

bool sim_is_large(const struct entry *e);
bool sim_is_large(const struct entry *e) { return entry_is_embedded(e) && e->value_size >= SIM_LARGE; }

/* A key at the cut. */
struct saved {
    bool there, written;
    uint32_t size;
    char text[4096];
    int64_t deadline_ms;
};

static struct {
    struct saved keys[DBS][KEYS_MAX];
    uint32_t open; /* shards */
    uint32_t room; /* 0: none; 1: for what is urgent; 2: for all */
    bool failed;
} cut;

static void is_wrong(struct world *w, const char *why) {
    if (!w->wrong) w->wrong = why;
}

/* ---- reading what is written ---- */

struct source {
    const uint8_t *at, *end;
};

static uint64_t take(struct source *x, unsigned bytes) {
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes && x->at < x->end; i++) v |= (uint64_t)*x->at++ << 8 * i;
    return v;
}

/* A string, or an integer as text. Its size. */
static uint32_t take_string(struct source *x, char *to, size_t room) {
    unsigned first = (unsigned)take(x, 1), high = first >> 6, low = first & 63;
    if (high == 3) {
        int64_t v = low == RDB_INT_8 ? (int8_t)take(x, 1) : low == RDB_INT_16 ? (int16_t)take(x, 2) : (int32_t)take(x, 4);
        return (uint32_t)snprintf(to, room, "%lld", (long long)v);
    }
    uint32_t size = high == RDB_LENGTH_6 ? low : low << 8 | (uint32_t)take(x, 1);
    if (size >= room || size > (size_t)(x->end - x->at)) return 0;
    memcpy(to, x->at, size);
    to[size] = 0;
    x->at += size;
    return size;
}

static uint32_t key_of(const struct world *w, const char *name) {
    uint32_t key = 0;
    while (key < w->plan->settings.keys && strcmp(w->names[key], name)) key++;
    return key;
}

static void read_key(struct world *w, struct source *x, uint32_t db, int64_t deadline_ms) {
    char name[64], text[4096];
    take_string(x, name, sizeof name);
    uint32_t size = take_string(x, text, sizeof text), key = key_of(w, name);
    struct saved *s = db < DBS && key < w->plan->settings.keys ? &cut.keys[db][key] : NULL;
    if (!s || !s->there) is_wrong(w, "a snapshot has a key that was not there at its cut");
    else if (s->written) is_wrong(w, "a snapshot has a key twice");
    else if (s->size != size || memcmp(s->text, text, size) || s->deadline_ms != deadline_ms)
        is_wrong(w, "a snapshot has a value of another moment than its cut");
    if (s) s->written = true;
}

/* It says how many bytes come behind it. */
static bool take_mark(struct source *x) {
    char text[64];
    unsigned what = (unsigned)take(x, 1);
    uint32_t size = take_string(x, text, sizeof text);
    if (what != RDB_AUX || size != strlen(RDB_CHUNK_MARK) || strcmp(text, RDB_CHUNK_MARK)) return false;
    return take_string(x, text, sizeof text) == RDB_CHUNK_DIGITS && strtoull(text, NULL, 10) == (uint64_t)(x->end - x->at);
}

static void read_chunk(struct world *w, const struct rdb_buffer *b) {
    struct source x = {b->bytes, b->bytes + b->length};
    uint32_t db = DBS;
    int64_t deadline_ms = EXPIRY_NONE;
    if (!take_mark(&x)) is_wrong(w, "a chunk of a snapshot has no mark, or one of another length");
    while (x.at < x.end) {
        unsigned what = (unsigned)take(&x, 1);
        if (what == RDB_SELECT) db = (uint32_t)take(&x, 1);
        else if (what == RDB_EXPIRES_MS) deadline_ms = (int64_t)take(&x, 8);
        else if (what == RDB_STRING) {
            read_key(w, &x, db, deadline_ms);
            deadline_ms = EXPIRY_NONE;
        } else {
            is_wrong(w, "a snapshot has something that was never written");
            return;
        }
    }
}

/* ---- the sink ---- */

static void put(void *arg, struct shard *s, struct rdb_buffer *b, enum snapshot_part part, uint64_t stream) {
    struct world *w = arg;
    (void)s;
    (void)stream;
    if (part != SNAPSHOT_WHOLE) is_wrong(w, "a small value is written in pieces");
    if (!cut.failed) read_chunk(w, b);
    rdb_buffer_drop(b);
}

static uint64_t new_stream(void *arg) {
    (void)arg;
    return 1;
}

static bool has_room(void *arg, uint64_t stream, bool urgent) {
    (void)arg;
    (void)stream;
    return cut.room >= (urgent ? 1 : 2);
}

void snapshots_change_room(struct world *w) { cut.room = below(&w->random, 3); }

static bool is_off(void *arg) {
    (void)arg;
    return cut.failed;
}

static void check_all(struct world *w) {
    for (uint32_t db = 0; db < DBS; db++)
        for (uint32_t key = 0; key < KEYS_MAX; key++)
            if (cut.keys[db][key].there && !cut.keys[db][key].written) is_wrong(w, "a snapshot lacks a key of its cut");
    w->stats.snapshots++;
}

static void ended(void *arg, struct shard *s, bool failed) {
    (void)s;
    cut.failed |= failed;
    if (!--cut.open && !cut.failed) check_all(arg);
}

/* ---- the cut ---- */

static void save_key(const struct thread *t, uint32_t db, uint32_t key) {
    const struct world *w = t->world;
    struct saved *to = &cut.keys[db][key];
    char scratch[INT64_TEXT_SIZE];
    size_t size;
    const table_slot *slot = table_find(&t->shard->dbs[db]->keys, w->hashes[key], w->names[key], (uint32_t)strlen(w->names[key]));
    if (!slot) return;
    to->there = true;
    const char *text = entry_string(table_entry(*slot), scratch, &size);
    to->size = (uint32_t)size;
    to->deadline_ms = entry_expiry(table_entry(*slot));
    if (size >= sizeof to->text) abort();
    memcpy(to->text, text, size);
}

void snapshots_cut(struct world *w) {
    const struct snapshot_options o = {.sink = {w, put, new_stream, has_room, is_off, ended}, .ahead = TABLE_AHEAD_VALUES};
    for (uint32_t s = 0; s < w->n_threads; s++)
        if (w->threads[s].shard->snapshot) return;
    memset(&cut, 0, sizeof cut);
    cut.open = w->n_threads;
    for (uint32_t db = 0; db < DBS; db++)
        for (uint32_t key = 0; key < w->plan->settings.keys; key++) save_key(&w->threads[w->shard_of[key]], db, key);
    for (uint32_t s = 0; s < w->n_threads; s++)
        if (snapshot_begin(w->threads[s].shard, &o)) ended(w, w->threads[s].shard, true);
}

/* ---- the shards' side ---- */

static bool replaces(const struct part *p) { return p->kind == PART_SET || p->kind == PART_DEL; }

void snapshots_hold(struct thread *of, const struct op *op) {
    const struct world *w = of->world;
    for (uint32_t i = 0; of->shard->snapshot && i < op->n_parts; i++) {
        const struct part *p = &op->parts[i];
        if (!part_writes(p) || w->shard_of[p->key] != of->id) continue;
        snapshot_hold_key(
            of->shard, of->shard->dbs[p->db], w->hashes[p->key], w->names[p->key], (uint32_t)strlen(w->names[p->key]), replaces(p));
    }
}

void snapshots_hold_member(struct thread *of, const struct member *m) {
    for (uint32_t i = 0; i < m->n_intents; i++)
        if (!m->intents[i].whole && m->intents[i].mode == INTENT_WRITE) snapshot_hold_hash(of->shard, m->intents[i].hash);
}

static uint64_t no_time(void) { return 0; }

void snapshots_work(struct thread *t) {
    struct slice slice = {.cpu_ns = no_time};
    if (snapshot_is_due(t->shard)) snapshot_work(t->shard, &slice, 0);
    execute_let_go(t);
}

void snapshots_hurry(struct thread *t) {
    snapshot_hurry(t->shard);
    execute_let_go(t);
}
