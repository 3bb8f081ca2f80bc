/* The timing wheel of a shard's expiry times: hierarchical, after Varghese and Lauck ("Hashed and Hierarchical Timing Wheels",
 * SOSP 1987).
 *
 * A record is 8 bytes: the low 50 bits of the key's hash and 14 bits of the database's id. It holds no pointer, so entries may move or go
 * as they like: when a record is due, the caller looks the key up by these bits and compares its real expiry time. A record may be early (the
 * time was moved later: the caller adds it again) or stale (the key is gone); stale ones are counted by the caller and swept (wheel_sweep).
 *
 *   level 0: 256 slots of 16 ms   1: 256 of 4.1 s   2: 256 of 17.5 min   3: 256 of 74.6 h   beyond: the last slot of level 3
 *
 * A slot is a list of chunks; a bit map a level finds the next one in use. A record of a higher level is looked up again by the caller when its
 * slot comes (fire), and added anew at its real time; so it costs at most one lookup a level. Belongs to the shard.
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
    int64_t position;           /* ticks (of 16 ms since the Unix epoch) that have been fired */
    uint64_t records;
    struct wheel_chunk *slots[WHEEL_LEVELS][WHEEL_SLOTS];
    uint64_t used[WHEEL_LEVELS][WHEEL_SLOTS / 64];
    struct wheel_chunk *due;    /* records whose slot has come, not fired yet */
    uint32_t sweep_slot;        /* where wheel_sweep goes on */
};

static inline uint64_t wheel_record(uint64_t hash, uint32_t db_id) { return (hash & (((uint64_t)1 << WHEEL_HASH_BITS) - 1)) | (uint64_t)db_id << WHEEL_HASH_BITS; }
static inline uint64_t wheel_hash(uint64_t record) { return record & (((uint64_t)1 << WHEEL_HASH_BITS) - 1); }
static inline uint32_t wheel_db(uint64_t record) { return (uint32_t)(record >> WHEEL_HASH_BITS); }

/* now_ms: ms of the Unix epoch. */
void wheel_init(struct wheel *w, struct memory *memory, int64_t now_ms);
void wheel_drop(struct wheel *w);

/* Arms a record for due_ms. Fires not before due_ms, and at most one tick after it (if wheel_advance is called). 0 or -ENOMEM. */
int wheel_add(struct wheel *w, int64_t due_ms, uint64_t record);

/* Takes up to max due records into out and forgets them; returns how many. Repeat until it says 0. now_ms may jump both ways. */
size_t wheel_take_due(struct wheel *w, int64_t now_ms, uint64_t *out, size_t max);

/* ms of the Unix epoch at which wheel_take_due has something, or INT64_MAX. Cheap (bit maps). */
int64_t wheel_next_due(const struct wheel *w);

/* Garbage: goes through up to max records from where it stopped last, keeps those for which keep says true, and compacts. True once
 * it has been round the whole wheel. */
typedef bool wheel_keep(void *arg, uint64_t record);
bool wheel_sweep(struct wheel *w, size_t max, wheel_keep *keep, void *arg);

#endif
