#include "server/regions.h"

#include <mimalloc.h>
#include <stdatomic.h>
#include <unistd.h>

#include "server/thread.h"
#include "shard/mapping.h"
#include "shard/memory.h"

static int wake = -1;
/* How a block that is given back begins. */
struct given_back {
    struct given_back *next;
    size_t size;
};
static _Atomic(struct given_back *) given_back;

static void wake_main(void) {
    if (write(wake, &(uint64_t){1}, sizeof(uint64_t)) < 0) { /* it is full: then it was told */
    }
}

void regions_start(int wake_fd) { wake = wake_fd; }

static void map_asked(struct server *s) {
    for (uint32_t i = 0; i < s->n_threads; i++) {
        struct thread *t = s->threads[i];
        if (atomic_load_explicit(&t->region, memory_order_relaxed) != REGION_ASKED) continue;
        atomic_store_explicit(&t->region, memory_map_region(), memory_order_release);
        mailbox_fence();
        if (atomic_load_explicit(&t->awaits_region, memory_order_relaxed) && mailbox_must_wake(&t->asleep))
            proactor_wake(NULL, t->proactor);
    }
}

void regions_serve(struct server *s) {
    map_asked(s);
    struct given_back *block = atomic_exchange_explicit(&given_back, NULL, memory_order_acquire);
    while (block) {
        struct given_back *next = block->next;
        memory_unmap(block, block->size);
        block = next;
        map_asked(s); /* somebody may wait for these */
    }
}

void regions_give_back(void *p, size_t size) {
    struct given_back *block = p, *head = atomic_load_explicit(&given_back, memory_order_relaxed);
    block->size = size;
    do block->next = head;
    while (!atomic_compare_exchange_weak_explicit(&given_back, &head, block, memory_order_release, memory_order_relaxed));
    if (!head) wake_main();
}

void *regions_room(size_t size) { return size < MAPPING_MIN ? mi_malloc(size) : mapping_new(size); }

void regions_free_room(void *room, size_t size) {
    if (!room || size < MAPPING_MIN) mi_free(room);
    else regions_give_back(room, size);
}

void regions_give_back_spare(struct memory *m) {
    size_t size;
    void *block = memory_take_spare(m, &size);
    regions_give_back(block, size);
}

static __attribute__((noinline)) void take_or_ask(struct thread *t) {
    void *region = atomic_load_explicit(&t->region, memory_order_acquire);
    if (region == REGION_ASKED) return;
    atomic_store_explicit(&t->region, region ? NULL : REGION_ASKED, memory_order_relaxed);
    if (region) memory_give_region(t->shard->memory, region);
    else wake_main();
}

bool regions_wait(struct thread *t) {
    bool awaited = atomic_load_explicit(&t->awaits_region, memory_order_relaxed);
    if (__builtin_expect(!memory_runs_short(t->shard->memory), 1)) {
        if (awaited) atomic_store_explicit(&t->awaits_region, false, memory_order_relaxed);
        return false;
    }
    void *region = atomic_load_explicit(&t->region, memory_order_acquire);
    bool refused = !region && awaited; /* then the slice sees for itself */
    if (region && region != REGION_ASKED) memory_give_region(t->shard->memory, region);
    bool waits = region == REGION_ASKED || (!region && !refused);
    atomic_store_explicit(&t->awaits_region, waits, memory_order_relaxed);
    if (region == REGION_ASKED) return true;
    atomic_store_explicit(&t->region, waits ? REGION_ASKED : NULL, memory_order_relaxed);
    if (waits) wake_main();
    return waits;
}

void regions_wait_no_more(struct thread *t) {
    if (__builtin_expect(atomic_load_explicit(&t->awaits_region, memory_order_relaxed), 0))
        atomic_store_explicit(&t->awaits_region, false, memory_order_relaxed);
}

bool regions_arrived(struct thread *t) {
    return thread_holds(t) && atomic_load_explicit(&t->awaits_region, memory_order_relaxed) &&
        atomic_load_explicit(&t->region, memory_order_relaxed) != REGION_ASKED;
}

void regions_look(struct thread *t) {
    if (__builtin_expect(memory_wants_region(t->shard->memory), 0)) take_or_ask(t);
    while (__builtin_expect(memory_wants_trim(t->shard->memory), 0)) regions_give_back_spare(t->shard->memory);
}
