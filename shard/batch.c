#include "shard/batch.h"

#include "shard/fields.h"
#include "shard/list.h"
#include "shard/zset.h"

/* A map's own lines. */
static void prefetch_map(const struct fieldmap *x) {
    __builtin_prefetch(x);
    __builtin_prefetch((const char *)x + BATCH_LINE);
}

/* Both ends of each list, as the hop does not tell which it is about. */
static void prefetch_lists(const struct list *lists, uint32_t n) {
    for (uint32_t step = 0; step < LIST_PREFETCH_STEPS; step++) {
        for (uint32_t i = 0; i < n; i++) {
            list_prefetch(&lists[i], LIST_HEAD, step);
            list_prefetch(&lists[i], LIST_TAIL, step);
        }
    }
}

/* Which argument is the member that a command on a zset most probably looks for: of those that add one it comes behind its score. */
static uint32_t member_of(const struct hop *h) {
    uint32_t first = h->key_first + 1u;
    return h->flags & HOP_WRITE && h->argc > first + 1 ? first + 1 : first;
}

static void prefetch_zsets(const struct shard *s, const struct hop *hops, const struct entry *const *entries, uint32_t n) {
    struct zset zsets[BATCH_GROUP_MAX];
    uint64_t hashes[BATCH_GROUP_MAX];
    uint32_t n_zsets = 0;
    for (uint32_t i = 0; i < n; i++) {
        const struct entry *e = entries[i];
        const struct hop *h = &hops[i];
        if (!e || !(h->flags & HOP_VALUE) || entry_type(e) != TYPE_ZSET || entry_encoding(e) != ENC_RANKED || member_of(h) >= h->argc)
            continue;
        const struct arg *member = &h->argv[member_of(h)];
        zsets[n_zsets] = (struct zset){.large = entry_pointer(e)};
        hashes[n_zsets++] = hash_key(s->secret, member->p, member->size);
    }
    for (unsigned stage = 0; stage < ZSET_STAGES; stage++)
        for (uint32_t i = 0; i < n_zsets; i++) zset_prefetch_stage(&zsets[i], hashes[i], stage);
}

void batch_prefetch_fields(const struct shard *s, const struct hop *hops, const struct entry *const *entries, uint32_t n) {
    struct fields maps[BATCH_GROUP_MAX];
    struct list lists[BATCH_GROUP_MAX];
    uint64_t hashes[BATCH_GROUP_MAX];
    uint32_t n_maps = 0, n_lists = 0;
    bool zsets = false;
    for (uint32_t i = 0; i < n; i++) {
        const struct entry *e = entries[i];
        const struct hop *h = &hops[i];
        uint32_t field = h->key_first + 1u;
        if (!e || !(h->flags & HOP_VALUE)) continue;
        zsets |= entry_type(e) == TYPE_ZSET;
        if (entry_type(e) == TYPE_LIST) lists[n_lists++] = list_view(NULL, entry_encoding(e), entry_pointer(e));
        if (field >= h->argc) continue;
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
    if (n_lists) prefetch_lists(lists, n_lists);
    if (zsets) prefetch_zsets(s, hops, entries, n);
}
