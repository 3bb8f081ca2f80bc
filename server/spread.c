/* Commands over several keys that belong together: which shard has which key. */
#include "server/command.h"
#include "server/route.h"

enum hop_result spread_on_one(struct shard *s, struct hop *h, struct reply *r) {
    struct spread x = {&s, 1};
    command_by_number(h->row)->on_spread(&x, h, r);
    return HOP_DONE;
}

enum hop_result hop_to_its_end(struct shard *s, struct hop *h, struct reply *r) {
    const struct command *row = command_by_number(h->row);
    while (row->on_shard(s, h, r) == HOP_AGAIN) h->state = hop_state_next(h);
    return HOP_DONE;
}

struct shard *spread_shard(const struct spread *x, const struct hop *h, uint32_t nth) {
    if (x->n == 1) return x->shards[0];
    const struct arg *key = hop_key(h, nth);
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
