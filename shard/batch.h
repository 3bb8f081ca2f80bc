/* Running a batch of hops: in groups, with their memory prefetched stage by stage (hop.h has the stages and the literature).
 *
 * Everything is inlined into the caller, with its exec: a hop costs no call but its own. Whoever holds the shard runs it.
 */
#ifndef SHARD_BATCH_H
#define SHARD_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "shard/blob.h"
#include "shard/hop.h"
#include "shard/shard.h"
#include "shard/table.h"

/* Fewer hops than this are run as they are: there is nothing for their misses to overlap with. */
#define BATCH_MIN 3u
/* Stage 3 prefetches the first bytes of a value up to here. */
#define BATCH_VALUE_BYTES 256u

typedef void batch_exec(void *ctx, struct hop *h);

#define BATCH_INLINE static inline __attribute__((always_inline))

BATCH_INLINE const struct table *batch_table(const struct shard *s, const struct hop *h) { return &s->dbs[h->db]->keys; }

BATCH_INLINE void batch_prefetch_lines(const void *p, size_t size) {
    for (size_t at = 0; at < size; at += 64) __builtin_prefetch((const char *)p + at);
}

/* The rest of an entry after its first line, or the first lines of the blob behind it. The entry's first line has arrived. */
BATCH_INLINE void batch_prefetch_value(const struct entry *e, bool blob) {
    const struct blob *b = entry_blob(e);
    if (!b) {
        size_t size = entry_size(e);
        if (size > 64) batch_prefetch_lines((const char *)e + 64, (size < BATCH_VALUE_BYTES ? size : BATCH_VALUE_BYTES) - 64);
    } else if (blob) {
        batch_prefetch_lines(b, BATCH_VALUE_BYTES);
    }
}

/* Stages 0 to 3 for a group. */
BATCH_INLINE void batch_prefetch(const struct shard *s, const struct hop *hops, uint32_t n, bool foreign) {
    const struct entry *entries[HOP_GROUP];
    for (uint32_t i = 0; i < n; i++) {
        if (foreign) __builtin_prefetch(hops[i].argv);
        if (!(hops[i].flags & HOP_NO_KEY)) table_prefetch_directory(batch_table(s, &hops[i]), hops[i].hash);
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct hop *h = &hops[i];
        if (h->flags & HOP_NO_KEY) continue;
        if (foreign) __builtin_prefetch(h->argv[h->key_first].p);
        table_prefetch_buckets(batch_table(s, h), h->hash, s->prefetch >= PREFETCH_BUCKET_PROBE, h->flags & HOP_WRITE);
    }
    if (s->prefetch < PREFETCH_ENTRY) return;
    for (uint32_t i = 0; i < n; i++)
        entries[i] = hops[i].flags & HOP_NO_KEY ? NULL : table_prefetch_entry(batch_table(s, &hops[i]), hops[i].hash);
    if (s->prefetch < PREFETCH_FULL) return;
    for (uint32_t i = 0; i < n; i++)
        if (entries[i]) batch_prefetch_value(entries[i], hops[i].flags & HOP_VALUE);
}

/* Runs n hops in order: calls exec(ctx, hop) for each, exec being a static inline function. foreign: keys and arguments were written
 * by another core, so they are prefetched too. */
BATCH_INLINE void batch_run(struct shard *s, struct hop *hops, uint32_t n, bool foreign, batch_exec *exec, void *ctx) {
    s->stats.batches++;
    s->stats.hops += n;
    if (s->prefetch == PREFETCH_NONE || n < BATCH_MIN) {
        for (uint32_t i = 0; i < n; i++) exec(ctx, &hops[i]);
        return;
    }
    for (uint32_t at = 0; at < n;) {
        uint32_t size = n - at < HOP_GROUP ? n - at : HOP_GROUP;
        batch_prefetch(s, hops + at, size, foreign);
        s->stats.groups++;
        s->stats.prefetched += size;
        s->stats.ahead += size * (size - 1);
        for (uint32_t end = at + size; at < end; at++) exec(ctx, &hops[at]);
    }
}

#endif
