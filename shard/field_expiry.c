#include "shard/field_expiry.h"

uint32_t key_expire_fields(struct shard *s, struct key *k, uint32_t most) {
    struct fields f = key_fields(s, k);
    uint32_t n = 0;
    if (fields_first_time(&f) < s->now_ms) {
        key_before_change(s, k, KEY_HEXPIRED);
        n = fields_expire(&f, s->now_ms, most);
        s->stats.expired_fields += n;
        key_after_change(s, k, KEY_HEXPIRED);
    }
    if (!fields_is_empty(&f)) key_retime_fields(s, k, fields_first_time(&f));
    key_store_fields(s, k, TYPE_HASH, &f, KEY_HEXPIRED);
    return n;
}
