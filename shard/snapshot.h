/* Snapshots: what a shard held at one moment, written while it goes on changing.
 *
 * The cut is a moment at which all shards stand still (the caller sees to that): snapshot_begin() on each. From then on every slot of the shard's tables
 * lacks the snapshot's mark (table.h). The walk writes what lacks it, in slices of housekeeping, and marks it; before a key that lacks it is
 * changed or taken out, it is written first (its before-image: key_before_change). A new key has the mark from the start. So each key of the cut is
 * written once, as it was then, and nothing else is; splits, displacements and merges move slots with their marks and need not be told of. The idea
 * of a virtual point of consistency and of copying before a change is that of CALC (Ren, Diamond, Abadi, Thomson: "Low-Overhead Asynchronous
 * Checkpointing in Main-Memory Database Systems", SIGMOD 2016); here the mark is in the slot and the image goes straight to the output.
 *
 * What is written goes to a sink in chunks, each of which begins with its own database. A large value is written slice by slice, as a stream of pieces between
 * chunks. Who wants to change it before it is written waits, and nobody else does: the value has a member in the shard's schedule that reads its key. One that is
 * deleted or replaced is kept by the snapshot until it is written, within a limit. While the sink has no room, all values of the cut are treated so, whatever their
 * size: so writers wait for a slow disk, and what waits for it is bounded. What cannot wait (commands that run while all shards stand still, and those on the
 * whole of a database) writes its images at once, whole.
 *
 * All calls belong to the shard's holder.
 */
#ifndef SHARD_SNAPSHOT_H
#define SHARD_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "shard/rdb_write.h"
#include "shard/table.h"

struct shard;
struct slice;
struct hop;

/* A chunk is put when it has so many bytes, or a little more. */
#define SNAPSHOT_CHUNK_BYTES (256u << 10)

/* A whole chunk; or a piece of a stream, which begins with one that is no piece of another stream, and goes on until the last. */
enum snapshot_part { SNAPSHOT_WHOLE, SNAPSHOT_PIECE, SNAPSHOT_LAST };

/* Where the bytes go. Called by the shard's holder, whatever thread that is. */
struct snapshot_sink {
    void *arg;
    /* Takes the bytes over and leaves an empty buffer. stream: 0 for a whole chunk. */
    void (*put)(void *arg, struct shard *s, struct rdb_buffer *b, enum snapshot_part part, uint64_t stream);
    /* A number for a new stream, not 0. */
    uint64_t (*new_stream)(void *arg);
    /* Whether there is room for more of a stream; or (0) for what somebody waits for; or (0, not urgent) for the walk. Else the holder is woken when there is. */
    bool (*has_room)(void *arg, uint64_t stream, bool urgent);
    /* Nothing is worth putting any more: the snapshot is given up, and end() called. */
    bool (*is_off)(void *arg);
    /* Everything of this shard was put; or (failed) it will not be, for want of memory. */
    void (*end)(void *arg, struct shard *s, bool failed);
};

struct snapshot_options {
    struct snapshot_sink sink;
    bool compress, idle; /* LZF; the keys' idle times are written, too */
    enum table_ahead ahead;
    size_t kept_max; /* bytes of deleted or replaced values that may be kept; but one is, whatever its size */
};

struct snapshot_stats {
    uint64_t keys, keys_total; /* written; of the cut */
    uint64_t images;           /* of the written ones: because they were about to change */
    uint64_t bytes;
    size_t kept_bytes; /* of values whose keys went, which it keeps until they are written */
};

struct snapshot;

/* At the cut. 0; -ENOMEM; -EBUSY: one is being written, or one was given up and its marks are not back in order yet. */
int snapshot_begin(struct shard *s, const struct snapshot_options *o);
/* Gives it up: nothing more is put, and end() is not called. */
void snapshot_abort(struct shard *s);
/* NULL: none is being written. */
const struct snapshot_stats *snapshot_stats(const struct shard *s);

/* Some of it. To be followed by snapshot_let_go. */
void snapshot_work(struct shard *s, struct slice *slice, uint64_t until_ns);
/* Whether there is something to do at once. */
bool snapshot_is_due(const struct shard *s);

/* Before a hop that writes a key is asked whether it must wait, or (by the key's hash, in whatever database) a member that writes it is taken into the schedule: if it
 * has to wait until the snapshot has written the key's value, that is in the schedule then. replaces: the hop uses nothing of the value that is there. */
void snapshot_hold_key(struct shard *s, struct db *db, uint64_t hash, const char *name, uint32_t size, bool replaces);
void snapshot_hold_hash(struct shard *s, uint64_t hash);
/* A value that was held is written, and its member gone: schedule_next() tells who may run. False: there is none. */
bool snapshot_let_go(struct shard *s);
/* Writes all values that are held, in one go. To be followed by snapshot_let_go. */
void snapshot_hurry(struct shard *s);

/* The shard goes (at the end of the process). */
void snapshot_drop(struct shard *s);

/* keyspace.h: before a key that is there changes. */
void snapshot_image(struct shard *s, struct db *db, table_slot *slot);
/* The same, of one whose entry will be dropped as it is: then snapshot_keeps() is asked, and true takes it over. */
void snapshot_leaves(struct shard *s, struct db *db, table_slot *slot);
bool snapshot_keeps(struct shard *s, struct entry *e);
/* Whether the entry would be kept: it must not be written over. */
bool snapshot_would_keep(struct shard *s, struct db *db, table_slot slot);
/* shard.c: a table is taken out of its database with all keys. True: the snapshot has it, and will free it. */
bool snapshot_takes(struct shard *s, struct db *db, const struct table *keys);

#endif
