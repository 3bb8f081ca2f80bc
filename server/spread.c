/* Commands over several keys that belong together: which shard has which key. */
#include "server/command.h"
#include "server/route.h"

struct shard *spread_shard(const struct spread *x, const struct hop *h, uint32_t nth) {
    if (x->n == 1) return x->shards[0];
    const struct arg *key = &h->argv[h->key_first + nth * h->key_step];
    return x->shards[route_shard(route_slot(x->shards[0]->secret, key, h->hashes[nth]), x->n)];
}

bool spread_read(const struct spread *x, const struct hop *h, uint32_t nth, struct shard **s, struct key *k) {
    struct shard *at = spread_shard(x, h, nth);
    if (s) *s = at;
    return key_read_nth(at, h, nth, k);
}

bool spread_write(const struct spread *x, const struct hop *h, uint32_t nth, struct shard **s, struct key *k) {
    struct shard *at = spread_shard(x, h, nth);
    if (s) *s = at;
    return key_write_nth(at, h, nth, k);
}
