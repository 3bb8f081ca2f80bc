/* The budget: how many bytes of data all shards together may have (maxmemory). One for a server; every thread may read it, shards take from it.
 *
 * A shard leases bytes before it needs them, a chunk at a time, and compares what it uses with its lease, which is its own: so the shared line is
 * written once a chunk, and asking costs a shard an addition and a comparison. What is leased together never passes the limit, unless what
 * is never refused (EXPIRE, RENAME, or a limit that was lowered) made it so: then the budget is exceeded, and commands that may be refused are.
 *
 * A shard is refused while others hold bytes that they do not use: at most a chunk each.
 */
#ifndef SHARD_BUDGET_H
#define SHARD_BUDGET_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define BUDGET_NONE UINT64_MAX /* no limit: then nothing is leased, and every lease is this */
#define BUDGET_CHUNK_MAX (64u << 10)

struct budget {
    _Alignas(64) _Atomic uint64_t limit; /* bytes, or BUDGET_NONE */
    _Atomic uint64_t leased, chunk;      /* bytes */
};

/* Without a limit. */
void budget_init(struct budget *b);
/* Another limit, with used bytes leased by so many shards. Nobody else may lease meanwhile. */
void budget_limit(struct budget *b, uint64_t limit, uint64_t used, uint32_t shards);
/* Leases so many bytes if they are left, and of what is left then up to a chunk, but a quarter at most, so that the next request need not come here even
 * near the limit. Returns how many; 0: refused. */
uint64_t budget_take(struct budget *b, uint64_t bytes);
/* Leases just so many, or none (false): for a command over several shards, before any of them begins. */
bool budget_reserve(struct budget *b, uint64_t bytes);
/* Leases them all the same: they are in use already. */
void budget_take_anyway(struct budget *b, uint64_t bytes);
void budget_give(struct budget *b, uint64_t bytes);

static inline uint64_t budget_chunk(const struct budget *b) { return atomic_load_explicit(&b->chunk, memory_order_relaxed); }
/* Whether more is in use than may be. Two loads of one line. */
static inline bool budget_exceeded(const struct budget *b) {
    return atomic_load_explicit(&b->leased, memory_order_relaxed) > atomic_load_explicit(&b->limit, memory_order_relaxed);
}

#endif
