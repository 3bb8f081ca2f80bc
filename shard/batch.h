/* Running a batch of hops: in groups, with their memory prefetched stage by stage (hop.h has the stages and the literature).
 *
 * Everything is inlined into the caller, with its exec: a hop costs no call but its own. Whoever holds the shard runs it.
 *
 * What was measured (tests/bench/bench_batch.c measures it again): groups of 32 against 8 and 16, which leave misses unoverlapped, and 64, which
 * win nothing more; the stages of one group overlapped with the run of the group before, and a pipeline that moves on one hop at a time, which
 * both gain less from overlapping than the second look into the table costs, since no pointer outlives a run; and the whole last
 * stage by lines, not by bytes: half of the entries straddle a line.
 */
#ifndef SHARD_BATCH_H
#define SHARD_BATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "shard/blob.h"
#include "shard/hop.h"
#include "shard/shard.h"
#include "shard/table.h"

/* Fewer hops than this are run as they are: with two, what overlapping brings on a large table the stages cost on a small one. */
#define BATCH_MIN 3u
/* Stage 3 prefetches this much of a blob. */
#define BATCH_BLOB_BYTES 256u
#define BATCH_LINE 64u
/* Of a group, for measuring. */
#define BATCH_GROUP_MAX 64u
_Static_assert(HOP_GROUP <= BATCH_GROUP_MAX, "the entries of a group are kept");

typedef void batch_exec(void *ctx, struct hop *h);

#define BATCH_INLINE static inline __attribute__((always_inline))

BATCH_INLINE const struct table *batch_table(const struct shard *s, const struct hop *h) { return &s->dbs[h->db]->keys; }

/* The rest of an entry, or the beginning of the blob behind it. The entry's first line has arrived. Without a branch for what is usual: whether
 * there is a second or a third line changes from one entry to the next. */
BATCH_INLINE void batch_prefetch_value(const struct entry *e, bool wanted) {
    const struct blob *b = entry_blob(e);
    if (b) {
        for (size_t at = 0; wanted && at < BATCH_BLOB_BYTES; at += BATCH_LINE) __builtin_prefetch((const char *)b + at);
        return;
    }
    size_t size = entry_size(e);
    const char *second = (const char *)e + BATCH_LINE, *last = (const char *)e + size - 1;
    __builtin_prefetch(last);
    __builtin_prefetch(second < last ? second : last);
    if (size > 2 * BATCH_LINE)
        for (const char *at = second + BATCH_LINE; at < last; at += BATCH_LINE) __builtin_prefetch(at);
}

/* The key of a foreign hop, and the value that it writes. */
BATCH_INLINE void batch_prefetch_arguments(const struct hop *h) {
    __builtin_prefetch(h->argv[h->key_first].p);
    if (!(h->flags & HOP_WRITE)) return;
    const struct arg *last = &h->argv[h->argc - 1];
    __builtin_prefetch(last->p);
    __builtin_prefetch(last->p + last->size);
}

/* Stage 3 for the containers of a group whose row asks for it: their page; or their map, the place of the page of the first field that the command names, and
 * that page; of a list both ends. entries: what each hop will probably find, or NULL. */
void batch_prefetch_fields(const struct shard *s, const struct hop *hops, const struct entry *const *entries, uint32_t n);

/* Stages 0 to 3 for a group. */
BATCH_INLINE void batch_prefetch(const struct shard *s, const struct hop *hops, uint32_t n, bool foreign) {
    const struct entry *entries[BATCH_GROUP_MAX];
    const uint8_t level = s->prefetch;
    for (uint32_t i = 0; i < n; i++) {
        if (foreign) __builtin_prefetch(hops[i].argv);
        if (!(hops[i].flags & HOP_NO_KEY)) table_prefetch_directory(batch_table(s, &hops[i]), hops[i].hash);
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct hop *h = &hops[i];
        if (h->flags & HOP_NO_KEY) continue;
        if (foreign) batch_prefetch_arguments(h);
        table_prefetch_buckets(batch_table(s, h), h->hash, level >= PREFETCH_BUCKET_PROBE, h->flags & HOP_WRITE);
    }
    if (level < PREFETCH_ENTRY) return;
    for (uint32_t i = 0; i < n; i++)
        entries[i] = hops[i].flags & HOP_NO_KEY ? NULL : table_prefetch_entry(batch_table(s, &hops[i]), hops[i].hash);
    if (level < PREFETCH_FULL) return;
    bool containers = false;
    for (uint32_t i = 0; i < n; i++) {
        if (!entries[i]) continue;
        batch_prefetch_value(entries[i], hops[i].flags & HOP_VALUE);
        containers |= entry_type(entries[i]) != TYPE_STRING;
    }
    if (__builtin_expect(containers, 0)) batch_prefetch_fields(s, hops, entries, n);
}

/* batch_run with another size of group, a constant: for measuring. */
BATCH_INLINE void batch_run_in_groups(
    struct shard *s, struct hop *hops, uint32_t n, bool foreign, batch_exec *exec, void *ctx, const uint32_t group_max) {
    s->stats.batches++;
    s->stats.hops += n;
    if (s->prefetch == PREFETCH_NONE || n < BATCH_MIN) {
        for (uint32_t i = 0; i < n; i++) exec(ctx, &hops[i]);
        return;
    }
    for (uint32_t at = 0; at < n;) {
        /* The last two groups share what is left, lest one be too small to overlap. */
        uint32_t left = n - at, size = left <= group_max ? left : left >= 2 * group_max ? group_max : left / 2;
        batch_prefetch(s, hops + at, size, foreign);
        s->stats.groups++;
        s->stats.prefetched += size;
        s->stats.ahead += size * (size - 1);
        for (uint32_t end = at + size; at < end; at++) exec(ctx, &hops[at]);
    }
}

/* Runs n hops in order: calls exec(ctx, hop) for each, exec being a static inline function. foreign: keys and arguments were written
 * by another core, so they are prefetched too. A hop with several keys has its first one prefetched; it sees to the others itself. */
BATCH_INLINE void batch_run(struct shard *s, struct hop *hops, uint32_t n, bool foreign, batch_exec *exec, void *ctx) {
    batch_run_in_groups(s, hops, n, foreign, exec, ctx, HOP_GROUP);
}

#endif
