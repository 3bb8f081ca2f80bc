/* From a key to its slot, and from a slot to its shard. Pure functions.
 *
 * A key's slot is 14 bits of its hash, or of the hash of its {tag} as in Redis Cluster (the bytes between the first '{' and the next '}', if
 * there are any), so keys of one tag are on one shard.
 */
#ifndef SERVER_ROUTE_H
#define SERVER_ROUTE_H

#include <stdint.h>
#include <string.h>

#include "shard/hash.h"
#include "shard/hop.h"

static inline uint32_t route_slot(const struct hash_secret *secret, const struct arg *key, uint64_t hash) {
    const char *open = memchr(key->p, '{', key->size);
    if (__builtin_expect(!open, 1)) return hash_slot(hash);
    const char *end = key->p + key->size, *close = memchr(open + 1, '}', (size_t)(end - open - 1));
    if (!close || close == open + 1) return hash_slot(hash);
    return hash_slot(hash_key(secret, open + 1, (size_t)(close - open - 1)));
}

/* shards: how many there are (<= 16384). */
static inline uint32_t route_shard(uint32_t slot, uint32_t shards) { return (uint32_t)((uint64_t)slot * shards / HASH_SLOTS); }

#endif
