/* In this file: a shard's beginning and end; its lease of the budget; its housekeeping; flushing and swapping databases. */
#include "shard/shard.h"

#include <assert.h>

#include "shard/container.h"
#include "shard/expire.h"
#include "shard/snapshot.h"

/* What table_work does between two looks at the clock: about a microsecond a unit, but a unit that writes to new memory takes up to 20 on a virtual
 * machine. */
#define TABLE_WORK_UNITS 4u
#define TABLES_RETRY_MS 100
/* Entries between prefetch and freeing. */
#define FREE_AHEAD 16u

/* A table that shard_flush took out. */
struct flushed {
    struct trash trash;
    struct table keys;
    struct shard *shard; /* into which large containers go */
};

static uint64_t hash_entry(const void *secret, const struct entry *e) { return hash_key(secret, entry_key(e), entry_key_size(e)); }

/* splitmix64 (Steele, Lea, Flood 2014): turns any seed into states that are not zero. */
static uint64_t split_mix(uint64_t *seed) {
    uint64_t z = (*seed += 0x9e3779b97f4a7c15ull);
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

uint64_t shard_random(struct shard *s) {
    uint64_t a = s->random[0], b = s->random[1];
    s->random[0] = b;
    a ^= a << 23;
    s->random[1] = a ^ b ^ a >> 17 ^ b >> 26;
    return s->random[1] + b;
}

/* --- the budget --- */

bool shard_lease(struct shard *s, uint64_t bytes) {
    if (s->never_refused) return true; /* it is leased when the shard settles */
    uint64_t more = budget_take(s->budget, memory_used(s->memory) + bytes - s->leased);
    s->leased += more;
    return more;
}

void shard_settle(struct shard *s) {
    uint64_t used = memory_used(s->memory);
    if (s->leased == BUDGET_NONE) return;
    uint64_t chunk = budget_chunk(s->budget), kept = used;
    if (s->leased < used) {
        budget_take_anyway(s->budget, used - s->leased);
    } else if (budget_exceeded(s->budget)) {
        budget_give(s->budget, s->leased - used);
    } else if (s->leased - used > chunk) {
        kept += chunk / 2;
        budget_give(s->budget, s->leased - kept);
    } else {
        return;
    }
    s->leased = kept;
}

void shards_limit(struct shard *const *shards, uint32_t n, uint64_t limit) {
    uint64_t used = 0;
    for (uint32_t i = 0; i < n; i++) {
        used += shards[i]->leased = memory_used(shards[i]->memory);
        if (!limit) shards[i]->leased = BUDGET_NONE;
        shards[i]->tables_at_ms = 0; /* growth that was refused is tried again */
    }
    budget_limit(shards[0]->budget, limit ? limit : BUDGET_NONE, limit ? used : 0, n);
}

static bool may_grow(void *arg, size_t bytes) {
    struct shard *s = arg;
    return shard_fits(s, bytes);
}

static void growing(void *arg, bool ended) {
    struct shard *s = arg;
    s->growing(s->growing_arg, ended);
}

/* --- beginning and end --- */

struct shard *shard_new(const struct shard_options *o) {
    struct memory *m = memory_new(o->huge_pages);
    if (!m) return NULL;
    memory_set_owner(m, o->id);
    struct shard *s = memory_alloc(m, sizeof *s);
    struct db **order = memory_alloc(m, 2 * o->databases * sizeof *order);
    struct db *dbs = memory_alloc(m, o->databases * sizeof *dbs);
    if (!s || !order || !dbs) {
        if (s) memory_free(m, s, sizeof *s);
        if (order) memory_free(m, order, 2 * o->databases * sizeof *order);
        if (dbs) memory_free(m, dbs, o->databases * sizeof *dbs);
        memory_drop(m);
        return NULL;
    }
    *s = (struct shard){.memory = m,
        .leased = BUDGET_NONE,
        .budget = o->budget,
        .growing = o->growing,
        .growing_arg = o->growing_arg,
        .secret = o->secret,
        .now_ms = o->now_ms,
        .dbs = order,
        .by_id = order + o->databases,
        .n_dbs = o->databases,
        .id = o->id,
        .shards = o->shards,
        .prefetch = PREFETCH_FULL,
        .active_expire = true,
        .rebuild_at_ms = INT64_MAX};
    for (uint32_t i = 0; i < o->databases; i++) {
        dbs[i] = (struct db){.id = i};
        table_init(&dbs[i].keys, m, hash_entry, o->secret);
        dbs[i].keys.may_grow = may_grow;
        dbs[i].keys.growing = o->growing ? growing : NULL;
        dbs[i].keys.owner = s;
        s->dbs[i] = s->by_id[i] = &dbs[i];
    }
    wheel_init(&s->wheel, m, o->now_ms);
    uint64_t seed = o->seed;
    s->random[0] = split_mix(&seed);
    s->random[1] = split_mix(&seed);
    return s;
}

/* --- trash --- */

/* Entries on their way out: each waits for FREE_AHEAD others, so that its line has come from memory. */
struct freeing {
    struct memory *memory;
    struct trash **large;
    struct entry *waiting[FREE_AHEAD];
    unsigned at;
};

static void visit_free(void *arg, uint64_t hash_prefix, table_slot *slot) {
    struct freeing *f = arg;
    struct entry **place = &f->waiting[f->at++ % FREE_AHEAD];
    if (*place) entry_drop(f->memory, *place, f->large);
    *place = table_entry(*slot);
    __builtin_prefetch(*place, 1);
}

/* Frees one segment of a table with its entries. True: there is more. */
static bool free_some(struct memory *m, struct table *t, struct trash **large) {
    struct freeing f = {.memory = m, .large = large};
    bool more = table_dismantle(t, visit_free, &f);
    for (unsigned i = 0; i < FREE_AHEAD; i++)
        if (f.waiting[i]) entry_drop(m, f.waiting[i], large);
    return more;
}

static bool free_flushed_some(struct memory *m, struct trash *x) {
    struct flushed *flushed = (struct flushed *)x;
    if (free_some(m, &flushed->keys, &flushed->shard->trash)) return true;
    memory_free(m, flushed, sizeof *flushed);
    return false;
}

/* Frees some of what is first. It may put more before itself, so it is taken out first. */
static void free_trash_some(struct shard *s) {
    struct trash *first = s->trash;
    s->trash = first->next;
    if (!first->free_some(s->memory, first)) return;
    first->next = s->trash;
    s->trash = first;
}

void shard_drop(struct shard *s) {
    struct memory *m = s->memory;
    struct db *dbs = s->by_id[0], **order = s->dbs;
    uint32_t n = s->n_dbs;
    for (uint32_t i = 0; i < n; i++)
        while (free_some(m, &dbs[i].keys, NULL)) {}
    snapshot_drop(s);
    while (s->trash) free_trash_some(s);
    expire_drop(s);
    schedule_drop(&s->schedule);
    watch_drop(s);
    wait_drop(s);
    memory_free(m, dbs, n * sizeof *dbs);
    memory_free(m, order, 2 * n * sizeof *order);
    memory_free(m, s, sizeof *s);
    memory_drop(m);
}

/* --- housekeeping --- */

/* Whether a table has begun something, or must begin. */
static inline bool table_is_busy(const struct table *t) { return t->grow_due || t->resized || t->sweep; }

/* Or it may want to shrink: an eighth of its keys went since it was largest, and since it last had no use for that. */
static inline bool may_be_sparse(const struct db *db) {
    const struct table *t = &db->keys;
    return t->count < t->merge_below && (t->count < db->asked_below || t->merge_below != db->asked_for);
}

static bool tables_want_work(const struct shard *s) {
    for (uint32_t i = 0; i < s->n_dbs; i++)
        if (table_is_busy(&s->dbs[i]->keys) || may_be_sparse(s->dbs[i])) return true;
    return false;
}

/* A table whose growth is refused stays busy and says that there is nothing to do: it is asked again a little later. */
static void work_on_tables(struct shard *s, struct slice *slice, uint64_t until_ns) {
    bool refused = false;
    for (uint32_t i = 0; i < s->n_dbs; i++) {
        struct db *db = s->dbs[i];
        struct table *t = &db->keys;
        if (!table_is_busy(t) && !may_be_sparse(db)) continue;
        while (table_work(t, TABLE_WORK_UNITS))
            if (slice_is_past(slice, until_ns)) return;
        db->asked_below = t->count - t->count / 8;
        db->asked_for = t->merge_below;
        refused |= table_is_busy(t);
    }
    if (refused) s->tables_at_ms = s->now_ms + TABLES_RETRY_MS;
}

static void work_on_trash(struct shard *s, struct slice *slice, uint64_t until_ns) {
    while (s->trash) {
        free_trash_some(s);
        if (slice_is_past(slice, until_ns)) return;
    }
}

/* A table that grows comes first: inserts chain until it is done. Then expiry, which leaves a quarter of the time to the trash. */
bool shard_work(struct shard *s, int64_t now_ms, uint64_t budget_ns, uint64_t (*cpu_ns)(void)) {
    s->now_ms = now_ms;
    bool tables = now_ms >= s->tables_at_ms && tables_want_work(s), expiry = expire_next_due(s) <= now_ms, snapshot = snapshot_is_due(s);
    if (!tables && !expiry && !s->trash && !snapshot) return false;
    struct slice slice = {.cpu_ns = cpu_ns, .last_ns = cpu_ns()};
    uint64_t until_ns = slice.last_ns + budget_ns;
    if (tables) work_on_tables(s, &slice, until_ns - budget_ns / 2);
    if (expiry) expire_work(s, &slice, s->trash ? until_ns - budget_ns / 4 : until_ns);
    if (s->trash) work_on_trash(s, &slice, snapshot ? until_ns - budget_ns / 4 : until_ns);
    if (snapshot) snapshot_work(s, &slice, until_ns);
    return shard_next_due(s) <= now_ms;
}

int64_t shard_next_due(const struct shard *s) {
    if (s->trash || snapshot_is_due(s)) return 0;
    int64_t tables = tables_want_work(s) ? s->tables_at_ms : INT64_MAX, expiry = expire_next_due(s);
    return tables < expiry ? tables : expiry;
}

/* --- databases --- */

void shard_discard(struct shard *s, struct table *keys) {
    struct flushed *flushed = memory_alloc(s->memory, sizeof *flushed);
    if (!flushed) { /* right, but all at once */
        while (free_some(s->memory, keys, NULL)) {}
        return;
    }
    *flushed = (struct flushed){.trash = {s->trash, free_flushed_some}, .keys = *keys, .shard = s};
    s->trash = &flushed->trash;
}

void shard_flush(struct shard *s, uint32_t number) {
    struct db *db = s->dbs[number];
    struct table keys = db->keys;
    if (!keys.count) return;
    if (s->watches.n) watch_flush(s, number);
    table_init(&db->keys, s->memory, keys.hash, keys.hash_arg);
    db->keys.mark = keys.mark;
    db->keys.may_grow = keys.may_grow;
    db->keys.growing = keys.growing;
    db->keys.owner = keys.owner;
    s->wheel_stale += db->expiring + db->timed;
    db->expiring = db->timed = 0;
    if (!s->snapshot || !snapshot_takes(s, db, &keys)) shard_discard(s, &keys);
}

void shard_swap(struct shard *s, uint32_t a, uint32_t b) {
    if (s->watches.n && a != b) watch_swap(s, a, b);
    struct db *was_a = s->dbs[a];
    s->dbs[a] = s->dbs[b];
    s->dbs[b] = was_a;
    if (s->waits.n && a != b) wait_swap(s, a, b);
}
