/* The timing wheel of a shard's expiry times: hierarchical, after Varghese and Lauck ("Hashed and Hierarchical Timing Wheels",
 * SOSP 1987).
 *
 * A record is 8 bytes: the low 50 bits of the key's hash and 14 bits of the database's id. It holds no pointer, so entries may move or go
 * as they like: when a record is due, the caller looks the key up by these bits and compares its real expiry time. A record may be early (the
 * time was moved later, or it comes from a higher level: the caller adds it again) or stale (the key is gone).
 *
 *   level 0: 256 slots of 16 ms   1: 256 of 4.1 s   2: 256 of 17.5 min   3: 256 of 74.6 h   beyond: the last slot of level 3
 *
 *   slot --> chunk being filled --> oldest chunk --> ... (a ring)      chunk: | next: 48, capacity: 8, records: 8 | record | record | ...
 *
 * A slot's first chunk has room for one record and is replaced by one twice the size until it has 512 bytes; after that chunks are added. So a
 * record costs 16 bytes at most, 8.1 in a long slot. A bit map a level finds the next slot in use, so the clock may jump by years.
 *
 * When the slot of a higher level comes, its records must be dealt out to the lower one. To spare a lookup of the key, a record carries the
 * next 8 bits of its time, in place of the hash's lowest 8 directory bits (which would matter from 2^24 segments on: 5 billion keys a
 * shard). Below that the time is forgotten, and the record is handed to the caller when its slot begins. So a key costs one lookup if it lives
 * up to 17.5 min, two up to 74.6 h, three up to two years. Belongs to the shard.
 */
#ifndef SHARD_WHEEL_H
#define SHARD_WHEEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define WHEEL_TICK_MS 16
#define WHEEL_LEVELS 4
#define WHEEL_SLOTS 256
#define WHEEL_HASH_BITS 50

struct memory;
struct wheel_chunk;

struct wheel {
    struct memory *memory;
    int64_t position; /* the tick (of 16 ms since the Unix epoch) that it stands at: all up to it are due */
    uint64_t records;
    struct wheel_chunk *slots[WHEEL_LEVELS][WHEEL_SLOTS];
    uint64_t used[WHEEL_LEVELS][WHEEL_SLOTS / 64];
    struct wheel_chunk *due;                  /* records whose slot has come, not yet taken */
    struct wheel_chunk *opened[WHEEL_LEVELS]; /* the slot that position is in (levels 1 to 3), not yet dealt out */
};

static inline uint64_t wheel_record(uint64_t hash, uint32_t db_id) {
    return (hash & (((uint64_t)1 << WHEEL_HASH_BITS) - 1)) | (uint64_t)db_id << WHEEL_HASH_BITS;
}
static inline uint64_t wheel_hash(uint64_t record) { return record & (((uint64_t)1 << WHEEL_HASH_BITS) - 1); }
static inline uint32_t wheel_db(uint64_t record) { return (uint32_t)(record >> WHEEL_HASH_BITS); }

/* The bits of a record that the wheel uses for itself: they are zero in what wheel_take_due gives. */
#define WHEEL_OWN_BITS ((uint64_t)0xff << 14)

/* now_ms: ms of the Unix epoch. */
void wheel_init(struct wheel *w, struct memory *memory, int64_t now_ms);
void wheel_drop(struct wheel *w);
/* wheel_drop in slices: frees up to max chunks (about 20 ns each). True: there is more. The wheel stays usable. */
bool wheel_drop_some(struct wheel *w, size_t max);

/* Arms a record: it is taken once now_ms is past due_ms, at most one tick later; early if it comes from a higher level. 0, or -ENOMEM with
 * nothing changed. */
int wheel_add(struct wheel *w, int64_t due_ms, uint64_t record);

/* Takes up to max due records into out and forgets them; returns how many. Its work is bounded (about 10 us beside max records), so it may
 * return 0 while there is more: finished when it returns 0 and wheel_next_due is later than now_ms. now_ms may jump both ways. A caller that adds a
 * record again must do so for now_ms or later, or it gets it back at once. */
size_t wheel_take_due(struct wheel *w, int64_t now_ms, uint64_t *out, size_t max);

/* ms of the Unix epoch at which wheel_take_due has something to do (it then returns records, or this time moves on); in the past: at
 * once; INT64_MAX: nothing is armed. Cheap (bit maps). */
int64_t wheel_next_due(const struct wheel *w);

#endif
