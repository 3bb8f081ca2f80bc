/* The hash of a key: XXH3, 64 bits, with a secret made at start, and which of its bits mean what.
 *
 *   63        50 49                        14 13     8 7          0
 *   | slot: 14 | directory: 36              | home: 6 | fingerprint: 8 |
 *
 * The slot's bits place a key on a shard (of the key, or of its {tag}); the other three are used by the shard's table, so they stay
 * independent of the placement. Computed once, by the connection's thread, and sent along. Pure functions: any thread.
 */
#ifndef SHARD_HASH_H
#define SHARD_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_SLOTS 16384u
#define HASH_SLOT_BITS 14
#define HASH_DIRECTORY_BITS 36
#define HASH_HOME_BITS 6
#define HASH_FINGERPRINT_BITS 8
#define HASH_SECRET_SIZE 192u

struct hash_secret {
    uint8_t bytes[HASH_SECRET_SIZE];
};

/* Fills a secret from 32 bytes of seed (getrandom's, or a file's). */
void hash_secret_init(struct hash_secret *s, const uint8_t seed[32]);
uint64_t hash_key(const struct hash_secret *s, const char *key, size_t size);

static inline uint32_t hash_slot(uint64_t hash) { return (uint32_t)(hash >> (64 - HASH_SLOT_BITS)); }
/* The directory's index at a depth of 0..36 bits: a shift by 64 - depth in two steps, so that depth 0 needs no branch. */
static inline uint64_t hash_directory(uint64_t hash, unsigned depth) { return hash << HASH_SLOT_BITS >> 1 >> (~depth & 63); }
static inline unsigned hash_home(uint64_t hash) { return (unsigned)(hash >> 8) & 63u; }
static inline uint8_t hash_fingerprint(uint64_t hash) { return (uint8_t)hash; }

#endif
