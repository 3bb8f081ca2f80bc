/* Watched keys: who is to be told that a key changed (WATCH), on the shard that owns the key.
 *
 * A watcher is one client's half on one shard: the keys it watches there, and whether one of them was touched. The watcher and its records are made by the
 * client's side and lent to the shard from watch_add to watch_forget; meanwhile only whoever holds the shard touches what links them, and the client's
 * side reads at most `touched` and what never changes (db, hash, name). Nothing here allocates but the array of buckets.
 *
 *   buckets (by hash)    watch <-> watch <-> watch            buckets.h: no insertion is slow; the shard's count of records is asked at every change of a key
 *                          |         |
 *   watcher              first, n, touched
 *
 * A key that is past its time and still there when it is watched counts as not there: that it is deleted is no change.
 */
#ifndef SHARD_WATCH_H
#define SHARD_WATCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shard/buckets.h"

struct shard;
struct key;
struct watcher;

struct watch {
    struct bucket_record in;
    struct watch *next_of; /* of the same watcher */
    struct watcher *watcher;
    uint16_t db; /* number of the database: SWAPDB changes what lies behind it */
    bool listed;
    bool was_expired; /* it was past its time when the watch began */
    bool may_expire;  /* it had an expiry time then */
    uint32_t size;
    char name[];
};

struct watcher {
    struct watch *first;
    uint32_t n;
    bool may_expire; /* some key of it */
    _Atomic bool touched;
};

/* Lists a record, made with watcher, hash, db, size and name filled in and all else 0. False: no memory, it is not listed. */
bool watch_add(struct shard *s, struct watch *w);
/* Whether no key of it changed, or went past its time, since it was watched. */
bool watch_is_valid(struct shard *s, struct watcher *who);
/* Takes all records of a watcher out; they stay in its list, and are the client's side's again. */
void watch_forget(struct shard *s, struct watcher *who);

/* A key changed, as the funnel tells (keyspace.h); it is gone if it has no entry. Only to be called while something is watched. */
void watch_touch(struct shard *s, const struct key *k);
/* Before all keys of a database go, or two databases (different ones) change places. */
void watch_flush(struct shard *s, uint32_t db);
void watch_swap(struct shard *s, uint32_t a, uint32_t b);

/* The end of the shard. */
void watch_drop(struct shard *s);

#endif
