/* Active expiry: deletes keys soon after their time, whether or not anybody reads them, and keeps the wheel free of garbage.
 *
 * Every key with an expiry time has a record in the shard's wheel, at its time or earlier. When the record is due the key is looked up:
 * it is deleted, or the record is armed again at the key's later time, or the key is gone and so is the record.
 *
 * Records of keys that are gone (SET k EX, DEL k, over and over) stay until their time comes. When they outnumber the keys that
 * expire, the wheel is rebuilt from the tables, in slices; so its size is bounded by the keys': at most 16 bytes for each that
 * expires, times two while that goes on, and one for each other key. Belongs to the shard; called by shard_work.
 */
#ifndef SHARD_EXPIRE_H
#define SHARD_EXPIRE_H

#include <stdbool.h>
#include <stdint.h>

struct shard;

/* A slice of housekeeping. The clock may cost a system call, so it is not looked at without need. */
struct slice {
    uint64_t (*cpu_ns)(void);
    uint64_t last_ns; /* when it was last looked at */
};
static inline bool slice_is_past(struct slice *x, uint64_t until_ns) { return (x->last_ns = x->cpu_ns()) >= until_ns; }

/* Deletes what is due at s->now_ms and rebuilds the wheel if that is due, until until_ns (looked at every few dozen keys). */
void expire_work(struct shard *s, struct slice *slice, uint64_t until_ns);
/* ms of the Unix epoch at which expire_work has something to do; now or earlier: at once; INT64_MAX: nothing. */
int64_t expire_next_due(const struct shard *s);
/* A record could not be armed for want of memory, so its key would stay: a rebuild will find it. */
void expire_lost_record(struct shard *s);
/* Frees the wheel, and what a rebuild holds. */
void expire_drop(struct shard *s);

#endif
