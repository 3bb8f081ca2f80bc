/* The file of a snapshot, and the thread that writes it while the shards go on: it alone waits for the disk.
 *
 * Shards put pieces into its queue, each with its checksum; they are written in the order of their coming, but that a stream (a value too large for one
 * piece) is not interrupted: what comes meanwhile waits. The bytes that wait are counted; who can wait asks first whether there is room. The file is written
 * under a name of its own (that of the file, and .part), synced, renamed, and its folder synced; only then is the snapshot complete. Whatever
 * goes wrong leaves the old file as it was, and no other; but if only the folder could not be synced, the new one has its place already.
 */
#ifndef SERVER_SNAPSHOT_FILE_H
#define SERVER_SNAPSHOT_FILE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "shard/rdb_write.h"
#include "shard/snapshot.h"

#define SNAPSHOT_WHY_MAX 512u

struct snapshot_file;

struct snapshot_file_options {
    const char *directory, *name; /* absolute; of the file there. Read at the start only */
    uint32_t shards;              /* that will put pieces */
    uint64_t limit;               /* bytes that may wait before there is no room for what is urgent; half of it for what is not */
    bool checksum, sync_early;
    _Atomic uint64_t *cpu_ns; /* the CPU time that the thread spends is added here, ns */
    bool give_up_at_limit;    /* there is always room for what is urgent; but when more than the limit waits then, the snapshot fails */
    struct rdb_buffer head;   /* what comes first; taken over */
    /* On the file's thread: there is room again for somebody who asked in vain. */
    void (*room)(void *arg);
    /* On the file's thread, at its end. */
    void (*done)(void *arg);
    void *arg;
    /* One that was given up, under the same name: the thread waits for its end, and frees it, before it opens its own. NULL: there is none. */
    struct snapshot_file *before;
};

/* Starts the thread. NULL: it could not be, and head and before are still the caller's. */
struct snapshot_file *snapshot_file_start(const struct snapshot_file_options *o);
/* Waits for the end of the thread, which has called done(). NULL: the file is complete; else what went wrong. */
const char *snapshot_file_wait(struct snapshot_file *f);
/* Waits for the end of the thread for a while. False: it hangs (join.h), and the file must stay. */
bool snapshot_file_ends_in_time(struct snapshot_file *f);
/* As snapshot_file_wait, and frees. */
void snapshot_file_end(struct snapshot_file *f);

/* Any thread. Takes the bytes over and leaves an empty buffer, with room for a chunk if there is memory. could_wait: nothing of it was put without asking for room: so
 * the snapshot is not given up for it, as each shard may put a chunk, and one a stream, while there is room for one. */
void snapshot_file_put(struct snapshot_file *f, struct rdb_buffer *b, enum snapshot_part part, uint64_t stream, bool could_wait);
uint64_t snapshot_file_new_stream(struct snapshot_file *f);
bool snapshot_file_has_room(struct snapshot_file *f, uint64_t stream, bool urgent);
/* A shard has put all it has; or (why) it gives up, and with it the snapshot. */
void snapshot_file_shard_is_through(struct snapshot_file *f, const char *why);
/* It is not wanted any more: it fails, with this reason (a constant). */
void snapshot_file_give_up(struct snapshot_file *f, const char *why);
/* The disk, or a shard, has failed: nothing more is worth putting. */
bool snapshot_file_failed(const struct snapshot_file *f);
uint64_t snapshot_file_bytes(const struct snapshot_file *f);

#endif
