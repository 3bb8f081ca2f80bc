/* How long a table's steps of growth take, and how much of that is the machine's: a control of the same length that does nothing.
 *
 *   bench_growth [KEYS]      (default: 8000000; random hashes, entries of 24 bytes)
 *
 * Each step is timed as the server times it (thread.c): by cycles, and where that is 10 us or more by the thread's CPU time, which counts what interrupts
 * and the hypervisor take as well. Behind each step the control counts for as many cycles as the median step had so far, and is timed in the same
 * way. What the control shows at its tail cannot be a fault of the table. Regions are mapped ahead, as the server's main thread does. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "io/clock.h"
#include "shard/memory.h"
#include "shard/table.h"

#define ENTRY_BYTES 24u
#define STEPS_MAX 1000000u
#define SURE_NS 10000u
#define CALIBRATE 1000u /* steps after which the control follows the median */

struct series {
    uint64_t ns[STEPS_MAX];
    size_t n;
};

static struct series steps, control;
static double ns_per_cycle;
static uint64_t begin_ns, begin_cycles, control_cycles;
static uint64_t random_state = 42;

static uint64_t draw(void) {
    uint64_t z = random_state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

static uint64_t cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void begin(void) {
    begin_ns = cpu_ns();
    begin_cycles = cycles_now();
}

static void end(struct series *s) {
    uint64_t ns = (uint64_t)((double)(cycles_now() - begin_cycles) * ns_per_cycle);
    if (ns >= SURE_NS) ns = cpu_ns() - begin_ns;
    if (s->n < STEPS_MAX) s->ns[s->n++] = ns;
}

static int by_size(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void run_control(void) {
    begin();
    while (cycles_now() - begin_cycles < control_cycles) {}
    end(&control);
}

static void growing(void *owner, bool ended) {
    (void)owner;
    if (!ended) {
        begin();
        return;
    }
    end(&steps);
    if (steps.n == CALIBRATE) {
        static uint64_t sorted[CALIBRATE];
        for (size_t i = 0; i < CALIBRATE; i++) sorted[i] = steps.ns[i];
        qsort(sorted, CALIBRATE, sizeof sorted[0], by_size);
        control_cycles = (uint64_t)((double)sorted[CALIBRATE / 2] / ns_per_cycle);
    }
    if (steps.n > CALIBRATE) run_control();
}

/* An entry here is its hash. */
static uint64_t hash_of(const void *arg, const struct entry *e) {
    uint64_t hash;
    (void)arg;
    memcpy(&hash, e->rest, sizeof hash);
    return hash;
}

static void calibrate(void) {
    uint64_t ns = now_monotonic_ns(), cycles = cycles_now();
    while (now_monotonic_ns() - ns < 200000000u) {}
    ns_per_cycle = (double)(now_monotonic_ns() - ns) / (double)(cycles_now() - cycles);
}

static void show(const char *name, struct series *s) {
    uint64_t total = 0;
    if (!s->n) return;
    qsort(s->ns, s->n, sizeof s->ns[0], by_size);
    for (size_t i = 0; i < s->n; i++) total += s->ns[i];
    printf("| %s | %zu | %.2f us | %.1f us | %.1f us | %.1f us | %.1f us |\n", name, s->n, (double)total / 1000 / (double)s->n,
        (double)s->ns[s->n / 2] / 1000, (double)s->ns[s->n * 99 / 100] / 1000, (double)s->ns[s->n * 999 / 1000] / 1000,
        (double)s->ns[s->n - 1] / 1000);
}

int main(int argc, char **argv) {
    uint64_t keys = argc > 1 ? strtoull(argv[1], NULL, 10) : 8000000;
    struct memory *m = memory_new(true);
    struct table t;
    calibrate();
    table_init(&t, m, hash_of, NULL);
    t.growing = growing;
    for (uint64_t i = 0; i < keys; i++) {
        struct entry *e = memory_alloc_packed(m, ENTRY_BYTES);
        uint64_t hash = draw();
        if (!e) return 1;
        *e = (struct entry){.key_size = ENTRY_BYTES - ENTRY_HEADER};
        memcpy(e->rest, &hash, sizeof hash);
        if (table_insert(&t, hash, e)) return 1;
        if (i % 64) continue;
        table_work(&t, 4);
        if (memory_wants_region(m)) memory_give_region(m, memory_map_region());
    }
    printf("| %llu keys | steps | mean | p50 | p99 | p99.9 | longest |\n|---|---|---|---|---|---|---|\n", (unsigned long long)keys);
    show("steps of growth", &steps);
    show("the control", &control);
    table_drop(&t);
    memory_drop(m);
    return 0;
}
