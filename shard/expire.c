/* In this file: firing records that are due; rebuilding the wheel. */
#include "shard/expire.h"

#include <assert.h>

#include "shard/field_expiry.h"
#include "shard/keyspace.h"
#include "shard/memory.h"
#include "shard/shard.h"

/* Records looked up together, so that their cache misses overlap. */
#define GROUP 32u
#define GROUP_OF_HASHES 4u /* where fields are taken out */
/* Records, and fields taken out, between two looks at the clock: 5 to 20 us. (A look at the thread's CPU time is a system call, 0.2 to 2 us.) */
#define LOOK_RECORDS 64u
/* Fields of a hash that a record takes out, about. */
#define FIELDS_AT_ONCE 16u
/* Buckets walked by a rebuild between two looks at the clock: about 5 keys each. */
#define WALK_BUCKETS 16u
/* Segments between the prefetch of a bucket's entries and the visit: 4 times 5 entries. */
#define WALK_AHEAD 4u
#define DROP_CHUNKS 32u
/* How many records may become stale before they are counted against the keys. */
#define STALE_LOOK 1024u
#define RETRY_MS 1000
#define HELD_RETRY_MS 2 /* about as long as a transaction takes */

/* A rebuild of the wheel: s->wheel was begun anew, and gets a record of every key that the walk through the tables meets. The old wheel
 * still fires meanwhile. */
struct wheel_rebuild {
    struct wheel old;
    uint32_t db_id; /* where the walk is; n_dbs: it is done, and the old wheel is being freed */
    uint64_t cursor;
};

static bool expires(const struct shard *s) { return s->active_expire && !s->hide_expired; }

void expire_lost_record(struct shard *s) {
    if (s->rebuild_at_ms == INT64_MAX) s->rebuild_at_ms = s->now_ms + RETRY_MS;
}

static void arm(struct shard *s, int64_t at_ms, uint64_t record) {
    if (wheel_add(&s->wheel, at_ms, record)) expire_lost_record(s);
}

/* --- firing --- */

/* What a record leads to: a key that is due, or one of whose fields are, or else the earliest time among those that are not yet. (More than one key only if 42
 * bits of their hashes agree.) */
struct found {
    int64_t now_ms, next_ms;
    table_slot *due, *fields_due;
};

static void visit_found(void *arg, uint64_t hash_prefix, table_slot *slot) {
    struct found *f = arg;
    const struct entry *e = table_entry(*slot);
    if (entry_expired(e, f->now_ms)) {
        f->due = slot;
        return;
    }
    int64_t due_ms = entry_due(e);
    if (due_ms < f->now_ms) f->fields_due = slot;
    else if (due_ms < f->next_ms) f->next_ms = due_ms;
}

static struct key key_at(struct db *db, table_slot *slot) {
    struct entry *e = table_entry(*slot);
    return (struct key){
        .db = db, .hash = db->keys.hash(db->keys.hash_arg, e), .name = entry_key(e), .size = entry_key_size(e), .slot = slot, .entry = e};
}

static void delete_expired(struct shard *s, struct db *db, table_slot *slot) {
    struct key k = key_at(db, slot);
    key_delete(s, &k, KEY_EXPIRED);
    s->stats.expired_active++;
}

/* In slices: what is left is armed again, and comes back at once. How many went. */
static unsigned expire_fields(struct shard *s, struct db *db, table_slot *slot) {
    struct key k = key_at(db, slot);
    return key_expire_fields(s, &k, FIELDS_AT_ONCE);
}

/* A transaction has an intent on it, and may be at an earlier time. */
static bool is_held(const struct shard *s, const struct db *db, const table_slot *slot) {
    return !schedule_is_empty(&s->schedule) &&
        schedule_conflicts(&s->schedule, INTENT_DB, db->keys.hash(db->keys.hash_arg, table_entry(*slot)), true);
}

/* Each of the keys that share a record's bits has a record of its own, at its time or earlier. As a record deletes one key, or is armed again
 * for the earliest time among them, this stays so. How many fields were taken out. */
static unsigned fire(struct shard *s, struct db *db, uint64_t record) {
    struct found f = {.now_ms = s->now_ms, .next_ms = INT64_MAX};
    table_match(&db->keys, wheel_hash(record), visit_found, &f);
    table_slot *due = f.due ? f.due : f.fields_due;
    if (due && is_held(s, db, due)) arm(s, s->now_ms + HELD_RETRY_MS, record);
    else if (f.due) delete_expired(s, db, f.due);
    else if (f.fields_due) {
        if (f.next_ms != INT64_MAX) arm(s, f.next_ms, record); /* of another with these bits */
        return expire_fields(s, db, f.fields_due);
    } else if (f.next_ms != INT64_MAX) arm(s, f.next_ms, record);
    return 0;
}

/* How many fields went with it. */
static unsigned fire_group(struct shard *s, const uint64_t *records, size_t n) {
    struct db *dbs[GROUP];
    for (size_t i = 0; i < n; i++) {
        assert(wheel_db(records[i]) < s->n_dbs);
        dbs[i] = s->by_id[wheel_db(records[i])];
        table_prefetch_directory(&dbs[i]->keys, wheel_hash(records[i]));
    }
    for (size_t i = 0; i < n; i++) table_prefetch_buckets(&dbs[i]->keys, wheel_hash(records[i]), true, true);
    for (size_t i = 0; i < n; i++) table_prefetch_entry(&dbs[i]->keys, wheel_hash(records[i]));
    unsigned fields = 0;
    for (size_t i = 0; i < n; i++) fields += fire(s, dbs[i], records[i]);
    return fields;
}

static void fire_due(struct shard *s, struct wheel *w, struct slice *slice, uint64_t until_ns) {
    uint64_t records[GROUP];
    size_t most = GROUP;
    for (unsigned fired = 0;;) {
        size_t n = wheel_take_due(w, s->now_ms, records, most);
        unsigned fields = n ? fire_group(s, records, n) : 0;
        if (n < most && wheel_next_due(w) > s->now_ms) return;
        fired += fields;
        most = fields ? GROUP_OF_HASHES : GROUP;
        fired += n ? (unsigned)n : GROUP; /* nothing was due: records were dealt out */
        if (fired < LOOK_RECORDS) continue;
        if (slice_is_past(slice, until_ns)) return;
        fired = 0;
    }
}

/* --- rebuilding --- */

static void begin_rebuild(struct shard *s) {
    struct wheel_rebuild *r = memory_alloc(s->memory, sizeof *r);
    s->rebuild_at_ms = r ? INT64_MAX : s->now_ms + RETRY_MS;
    if (!r) return;
    *r = (struct wheel_rebuild){.old = s->wheel};
    wheel_init(&s->wheel, s->memory, s->now_ms);
    s->rebuild = r;
}

/* Counts the records against the keys. Walking the tables costs less than 10 keys for each record that it removes. */
static bool too_many_records(struct shard *s) {
    uint64_t expiring = 0, keys = 0;
    s->wheel_stale = 0;
    for (uint32_t i = 0; i < s->n_dbs; i++) {
        expiring += s->dbs[i]->expiring + s->dbs[i]->timed;
        keys += s->dbs[i]->keys.count;
    }
    return s->wheel.records > 2 * expiring + keys / 8 + STALE_LOOK;
}

struct walk {
    struct shard *s;
    struct db *db;
};

static void visit_walk(void *arg, uint64_t hash_prefix, table_slot *slot) {
    struct walk *w = arg;
    const struct entry *e = table_entry(*slot);
    const struct table *t = &w->db->keys;
    if (entry_due(e) != INT64_MAX) arm(w->s, entry_due(e), wheel_record(t->hash(t->hash_arg, e), w->db->id));
}

/* The next few buckets. A walk goes from segment to segment, so the buckets to come are known but for segments that are less deep than
 * the directory: those are prefetched more than once. */
static void walk_some(struct shard *s, struct wheel_rebuild *r) {
    struct walk w = {s, s->by_id[r->db_id]};
    const struct table *t = &w.db->keys;
    uint64_t step = (uint64_t)1 << (HASH_DIRECTORY_BITS - t->depth);
    for (unsigned i = 0; i < WALK_BUCKETS; i++) {
        table_prefetch_scan(t, r->cursor + 2 * WALK_AHEAD * step, false);
        table_prefetch_scan(t, r->cursor + WALK_AHEAD * step, true);
        r->cursor = table_scan(t, r->cursor, visit_walk, &w);
        if (!r->cursor) {
            r->db_id++;
            return;
        }
    }
}

static void work_on_rebuild(struct shard *s, struct slice *slice, uint64_t until_ns) {
    struct wheel_rebuild *r = s->rebuild;
    do {
        if (r->db_id < s->n_dbs) {
            walk_some(s, r);
        } else if (!wheel_drop_some(&r->old, DROP_CHUNKS)) {
            memory_free(s->memory, r, sizeof *r);
            s->rebuild = NULL;
            return;
        }
    } while (!slice_is_past(slice, until_ns));
}

/* --- */

void expire_work(struct shard *s, struct slice *slice, uint64_t until_ns) {
    uint64_t start_ns = slice->last_ns, middle_ns = start_ns < until_ns ? start_ns + (until_ns - start_ns) / 2 : until_ns;
    if (!s->rebuild && (s->rebuild_at_ms <= s->now_ms || (s->wheel_stale >= STALE_LOOK && too_many_records(s)))) begin_rebuild(s);
    if (s->rebuild) {
        if (expires(s)) fire_due(s, &s->rebuild->old, slice, middle_ns);
        work_on_rebuild(s, slice, middle_ns);
    }
    if (expires(s)) fire_due(s, &s->wheel, slice, until_ns);
    uint64_t took_ns = slice->last_ns - start_ns;
    if (took_ns > s->stats.longest_expire_ns) s->stats.longest_expire_ns = took_ns;
}

int64_t expire_next_due(const struct shard *s) {
    if (s->rebuild || s->wheel_stale >= STALE_LOOK) return 0;
    int64_t due = expires(s) ? wheel_next_due(&s->wheel) : INT64_MAX;
    return due < s->rebuild_at_ms ? due : s->rebuild_at_ms;
}

void expire_drop(struct shard *s) {
    wheel_drop(&s->wheel);
    if (!s->rebuild) return;
    wheel_drop(&s->rebuild->old);
    memory_free(s->memory, s->rebuild, sizeof *s->rebuild);
    s->rebuild = NULL;
}
