/* A shard: its databases, its heap, its timers, its counters. It belongs to whoever holds it (usually its thread), not to a thread:
 * nothing in shard/ is thread-local, and nothing here is locked.
 *
 * Clock, randomness and memory come from outside: the holder sets now_ms before each batch, seeds random at the start.
 */
#ifndef SHARD_SHARD_H
#define SHARD_SHARD_H

#include <stdbool.h>
#include <stdint.h>

#include "shard/budget.h"
#include "shard/hash.h"
#include "shard/hop.h"
#include "shard/memory.h"
#include "shard/schedule.h"
#include "shard/table.h"
#include "shard/wait.h"
#include "shard/watch.h"
#include "shard/wheel.h"

/* A database's half on this shard. Its number is its place in shard.dbs; its id stays with it when SWAPDB moves it. */
struct db {
    struct table keys;
    uint64_t expiring;               /* keys that have an expiry time */
    uint64_t timed;                  /* hashes whose fields may have one */
    uint64_t asked_below, asked_for; /* when the table last did not want to shrink: 7/8 of its count; its merge_below */
    uint32_t id;
};

struct shard_stats {
    uint64_t hits, misses; /* keyspace_hits, keyspace_misses */
    uint64_t expired_lazy, expired_active, expired_fields;
    uint64_t dirty;                 /* changes of keys since the start */
    uint64_t hops, batches, groups; /* groups: of hops that were prefetched together */
    uint64_t prefetched, ahead;     /* hops with a key that were prefetched; and the hops that lay between prefetch and run, in total */
    uint64_t scheduled_ahead;       /* keys prefetched when their transaction was scheduled */
    uint64_t longest_expire_ns;     /* by the clock given to shard_work */
};

struct shard_options {
    uint32_t id, shards, databases;
    const struct hash_secret *secret; /* must outlive the shard */
    uint64_t seed;
    int64_t now_ms;
    bool huge_pages;
    struct budget *budget;  /* must outlive the shard; NULL: no limit, ever */
    table_growing *growing; /* told of steps of growth within inserts, with this arg; or NULL */
    void *growing_arg;
};

struct shard {
    struct memory *memory;
    uint64_t leased; /* bytes: what memory may come to before the budget is asked again; BUDGET_NONE: there is no limit */
    struct budget *budget;
    table_growing *growing;
    void *growing_arg;
    bool never_refused; /* of the hop that runs: what moves a key, or has its memory reserved, takes without asking */
    const struct hash_secret *secret;
    int64_t now_ms;  /* of the hop that runs: ms of the Unix epoch */
    struct db **dbs; /* by number */
    struct db **by_id;
    uint32_t n_dbs, id, shards;
    uint8_t prefetch;         /* enum prefetch_level */
    bool active_expire;       /* DEBUG SET-ACTIVE-EXPIRE */
    bool hide_expired;        /* CLIENT PAUSE: expired keys are hidden from readers, and nothing deletes them */
    bool out_of_memory;       /* the last hop was refused memory */
    struct schedule schedule; /* transactions under way */
    struct buckets watches;   /* of watch.h */
    struct waits waits;
    struct wheel wheel;
    uint64_t wheel_stale;          /* records whose key went or became due earlier since they were last counted, about */
    struct wheel_rebuild *rebuild; /* of the wheel, if one is going on */
    int64_t rebuild_at_ms;         /* when one must begin because records were lost; INT64_MAX: none were */
    struct shard_stats stats;
    uint64_t random[2];
    int64_t tables_at_ms;      /* tables are not worked on before */
    struct snapshot *snapshot; /* being written, or given up and not out of the way */
    struct trash *trash;       /* large containers, and tables that shard_flush took out: being freed in slices */
};

/* NULL when memory is refused. Prefetches in full and expires actively until told otherwise. */
struct shard *shard_new(const struct shard_options *o);
/* Frees everything, key by key (about 50 ns each): a process that ends need not call it. */
void shard_drop(struct shard *s);

/* Whether so many bytes more may be taken. What takes bytes by a command that may be refused asks here first: a new key, a longer value, a segment,
 * a deeper directory; what overwrites or deletes does not. Housekeeping and commands that are never refused take without asking. */
bool shard_lease(struct shard *s, uint64_t bytes);
static inline bool shard_fits(struct shard *s, uint64_t bytes) {
    return __builtin_expect(memory_used(s->memory) + bytes <= s->leased, 1) || shard_lease(s, bytes);
}
/* Brings the lease in line with what is used: leases what was taken without asking, gives back what is not needed. After each turn of work. */
void shard_settle(struct shard *s);
/* Another limit, in bytes (0: none), for the shards of a budget; all are held by the caller. */
void shards_limit(struct shard *const *shards, uint32_t n, uint64_t limit);

/* xorshift128+ (Vigna 2014): not for secrets. */
uint64_t shard_random(struct shard *s);

/* Housekeeping: expiry that is due, tables that grow or are being freed. Works for about budget_ns, by cpu_ns (CPU time, looked at every few
 * dozen keys; not at all if nothing is due). True: there is more to do right now. To be called when
 * shard_next_due says so. */
bool shard_work(struct shard *s, int64_t now_ms, uint64_t budget_ns, uint64_t (*cpu_ns)(void));
/* ms of the Unix epoch at which shard_work has something to do; now_ms or less: at once; INT64_MAX: nothing. About 50 ns. */
int64_t shard_next_due(const struct shard *s);

/* Takes out all keys of a database (number) at once; they are freed by shard_work. Tells nobody: KEY_FLUSH is the command's to report. */
void shard_flush(struct shard *s, uint32_t db);
/* Frees a table that was taken out, with its entries, in slices. */
void shard_discard(struct shard *s, struct table *keys);
/* The numbers a and b change places. */
void shard_swap(struct shard *s, uint32_t a, uint32_t b);

#endif
