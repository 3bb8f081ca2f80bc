/* XXH3 with a secret of our own, compiled in here from its header: no other file includes it.
 *
 * XXH3 takes keys of up to 16 bytes, 17 to 128, 129 to 240 and longer ones by four ways; all four mix the secret in before they multiply,
 * so whoever does not know the secret cannot choose keys that collide. Short keys, which are most, cost one or two multiplications. */
#include "shard/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

_Static_assert(HASH_SECRET_SIZE >= XXH3_SECRET_SIZE_MIN, "XXH3 wants a secret of at least this size");

void hash_secret_init(struct hash_secret *s, const uint8_t seed[32]) { XXH3_generateSecret(s->bytes, sizeof s->bytes, seed, 32); }

uint64_t hash_key(const struct hash_secret *s, const char *key, size_t size) {
    return XXH3_64bits_withSecret(key, size, s->bytes, sizeof s->bytes);
}
