#include "shard/budget.h"

/* Of small limits the chunks of all shards together are this part at most. */
#define CHUNKS_PART 16u

void budget_init(struct budget *b) { budget_limit(b, BUDGET_NONE, 0, 1); }

void budget_limit(struct budget *b, uint64_t limit, uint64_t used, uint32_t shards) {
    uint64_t chunk = limit / CHUNKS_PART / shards;
    atomic_store_explicit(&b->chunk, chunk < BUDGET_CHUNK_MAX ? chunk : BUDGET_CHUNK_MAX, memory_order_relaxed);
    atomic_store_explicit(&b->leased, used, memory_order_relaxed);
    atomic_store_explicit(&b->limit, limit, memory_order_relaxed);
}

uint64_t budget_take(struct budget *b, uint64_t bytes) {
    uint64_t limit = atomic_load_explicit(&b->limit, memory_order_relaxed);
    uint64_t leased = atomic_load_explicit(&b->leased, memory_order_relaxed), chunk = budget_chunk(b), taken;
    do {
        if (leased > limit || bytes > limit - leased) return 0;
        uint64_t quarter = (limit - leased - bytes) / 4;
        taken = bytes + (quarter < chunk ? quarter : chunk);
    } while (!atomic_compare_exchange_weak_explicit(&b->leased, &leased, leased + taken, memory_order_relaxed, memory_order_relaxed));
    return taken;
}

bool budget_reserve(struct budget *b, uint64_t bytes) {
    uint64_t limit = atomic_load_explicit(&b->limit, memory_order_relaxed);
    uint64_t leased = atomic_load_explicit(&b->leased, memory_order_relaxed);
    do
        if (leased > limit || bytes > limit - leased) return false;
    while (!atomic_compare_exchange_weak_explicit(&b->leased, &leased, leased + bytes, memory_order_relaxed, memory_order_relaxed));
    return true;
}

void budget_take_anyway(struct budget *b, uint64_t bytes) { atomic_fetch_add_explicit(&b->leased, bytes, memory_order_relaxed); }

void budget_give(struct budget *b, uint64_t bytes) { atomic_fetch_sub_explicit(&b->leased, bytes, memory_order_relaxed); }
