/* What a snapshot is made of, for snapshot.c and snapshot_values.c alone. */
#ifndef SHARD_SNAPSHOT_INTERNAL_H
#define SHARD_SNAPSHOT_INTERNAL_H

#include "shard/buckets.h"
#include "shard/schedule.h"
#include "shard/shard.h"
#include "shard/snapshot.h"
#include "shard/snapshot_fault.h"

#define SNAPSHOT_NO_DB UINT32_MAX

/* A table that was taken out of its database, with what of it was not written yet. */
struct detached {
    struct detached *next;
    struct table keys;
    uint32_t number;
};

/* A value that is written for itself. Its slot has the mark from now on. */
struct snapshot_value {
    struct bucket_record in; /* by the key's hash, while it is to be found: its entry is in the table, and it is not written yet */
    struct snapshot_value *next, *previous;
    struct entry *entry;
    uint32_t number; /* of its database at the cut */
    bool kept;       /* the entry is the snapshot's own: its key went, or has another */
    bool written, begun;
    bool holds; /* the member stands in the shard's order: writers wait */
    struct member member;
    struct intent intents[2];
    /* Once begun: */
    struct rdb_value value;
    struct rdb_buffer bytes;
    uint64_t stream; /* 0: nothing of it was put */
};

struct snapshot {
    struct snapshot_sink sink;
    struct snapshot_stats stats;
    bool compress, idle;
    bool roomy;    /* there was room for what is urgent when something was last put */
    bool given_up; /* the walk only marks what is left, so that the mark can be used again */
    struct rdb_buffer chunk;
    uint32_t chunk_db; /* number of the database that the chunk is at */
    /* The walk: a table, and how far it is. */
    struct table_walk walk;
    struct table *table;
    struct detached *detached;
    uint32_t at; /* id of the next database */
    size_t left; /* bytes of this step */
    /* Values in their order. Those that are written and still hold their key are at its beginning, or soon will be. */
    struct snapshot_value *first, *last;
    struct buckets values;
    size_t kept_max;
    struct snapshot_value *keeps; /* its entry is about to be dropped: snapshot_keeps */
    uint32_t numbers[];           /* of databases at the cut, by id */
};

static inline struct snapshot *snapshot_running(const struct shard *s) {
    return s->snapshot && !s->snapshot->given_up ? s->snapshot : NULL;
}

static inline void snapshot_look_for_room(struct snapshot *x) { x->roomy = x->sink.has_room(x->sink.arg, 0, true); }

/* The snapshot has failed, for want of memory. */
void snapshot_fail(struct shard *s, struct snapshot *x);
void snapshot_put_chunk(struct shard *s, struct snapshot *x);
/* The entry goes into the chunk. False: no memory. */
bool snapshot_write_entry(struct shard *s, struct snapshot *x, uint32_t number, const struct entry *e, bool compress);

/* Takes an entry that is not marked, as a value for itself, and marks it. NULL: no memory. */
struct snapshot_value *snapshot_value_new(struct shard *s, struct snapshot *x, const struct table *t, table_slot *slot, uint32_t number);
/* The rest of the value of this entry, in one go, if there is one. */
void snapshot_value_whole(struct shard *s, struct snapshot *x, const struct table *t, const struct entry *e);
/* Some of the first. False: it waits for room. */
bool snapshot_value_work(struct shard *s, struct snapshot *x);
bool snapshot_value_has_room(const struct snapshot *x);
/* Forgets them all, at the end. */
void snapshot_values_drop(struct shard *s, struct snapshot *x);

#endif
