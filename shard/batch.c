#include "shard/batch.h"

#include "shard/fields.h"

/* A map's own lines. */
static void prefetch_map(const struct fieldmap *x) {
    __builtin_prefetch(x);
    __builtin_prefetch((const char *)x + BATCH_LINE);
}

void batch_prefetch_fields(const struct shard *s, const struct hop *hops, const struct entry *const *entries, uint32_t n) {
    struct fields maps[BATCH_GROUP_MAX];
    uint64_t hashes[BATCH_GROUP_MAX];
    uint32_t n_maps = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct entry *e = entries[i];
        const struct hop *h = &hops[i];
        uint32_t field = h->key_first + 1u;
        if (!e || !(h->flags & HOP_VALUE) || field >= h->argc) continue;
        if (entry_encoding(e) == ENC_PAGE) {
            fields_prefetch_page(&(struct fields){.page = entry_pointer(e)}, 0);
        } else if (entry_encoding(e) == ENC_MAP) {
            maps[n_maps] = (struct fields){.map = entry_pointer(e)};
            hashes[n_maps++] = hash_key(s->secret, h->argv[field].p, h->argv[field].size);
            prefetch_map(entry_pointer(e));
        }
    }
    for (uint32_t i = 0; i < n_maps; i++) fields_prefetch_place(&maps[i], hashes[i]);
    for (uint32_t i = 0; i < n_maps; i++) fields_prefetch_page(&maps[i], hashes[i]);
}
