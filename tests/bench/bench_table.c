/* The packed table beside a plain one: ns an operation and bytes a key, with and without the staged prefetch.
 *
 *   bench_table [KEYS...]      (default: 100000 3000000)
 *
 * The plain table is what one would write first: open addressing with linear probing over 8-byte slots (16 bits of hash, 48 of pointer),
 * at most 3/4 full, doubled by a rehash of the whole. Both index the same entries (16-byte keys and values), are asked in the same random
 * order, and get their hashes ready-made, as in the server. "staged" asks in groups of 16 through the prefetch functions, the plain one
 * through a prefetch of its slot and one of the entry. Times are the best of 3 passes. "worst" is the slowest single insert. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "shard/memory.h"
#include "shard/table.h"

#define KEY_SIZE 16u
#define GROUP 16u
#define PASSES 3

struct query {
    uint64_t hash;
    char key[KEY_SIZE];
};

static struct hash_secret secret;
static uint64_t random_state = 88172645463325252ull;

static uint64_t draw(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static uint64_t now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static uint64_t hash_entry(const void *arg, const struct entry *e) { return hash_key(arg, entry_key(e), entry_key_size(e)); }

/* ---- the plain table ---- */

struct plain {
    uint64_t *slots;
    uint64_t size, count;
};

static inline struct entry *plain_entry(uint64_t slot) { return (struct entry *)(uintptr_t)(slot & 0xffffffffffffull); }
static inline uint64_t plain_at(const struct plain *p, uint64_t hash) { return hash >> 8 & (p->size - 1); }
static inline uint64_t plain_tag(uint64_t hash) { return hash >> 48 << 48; }

static uint64_t *plain_find(const struct plain *p, uint64_t hash, const char *key, uint32_t size) {
    for (uint64_t i = plain_at(p, hash); p->slots[i]; i = (i + 1) & (p->size - 1)) {
        if ((p->slots[i] ^ hash) >> 48 == 0 && entry_has_key(plain_entry(p->slots[i]), key, size)) return &p->slots[i];
    }
    return NULL;
}

static void plain_put(struct plain *p, uint64_t hash, struct entry *e) {
    uint64_t i = plain_at(p, hash);
    while (p->slots[i]) i = (i + 1) & (p->size - 1);
    p->slots[i] = plain_tag(hash) | (uintptr_t)e;
}

static void plain_insert(struct plain *p, uint64_t hash, struct entry *e) {
    if (p->count + 1 > p->size / 4 * 3) {
        struct plain old = *p;
        p->size = old.size ? 2 * old.size : 1024;
        p->slots = calloc(p->size, sizeof *p->slots);
        for (uint64_t i = 0; i < old.size; i++) {
            if (old.slots[i]) plain_put(p, hash_entry(&secret, plain_entry(old.slots[i])), plain_entry(old.slots[i]));
        }
        free(old.slots);
    }
    plain_put(p, hash, e);
    p->count++;
}

/* ---- the passes ---- */

struct world {
    struct memory *memory;
    struct table table;
    struct plain plain;
    struct query *there, *missing;
    struct entry **entries; /* of there, in its order */
    size_t count;
};

enum what { PACKED, PACKED_STAGED, PLAIN, PLAIN_STAGED };

static uint64_t failures;

static uint64_t look_up(struct world *w, enum what what, const struct query *q, size_t n, bool hit) {
    uint64_t found = 0, start = now_ns();
    for (size_t i = 0; i < n; i += GROUP) {
        size_t end = i + GROUP < n ? i + GROUP : n;
        if (what == PACKED_STAGED) {
            for (size_t k = i; k < end; k++) table_prefetch_directory(&w->table, q[k].hash);
            for (size_t k = i; k < end; k++) table_prefetch_buckets(&w->table, q[k].hash, true, false);
            for (size_t k = i; k < end; k++) table_prefetch_entry(&w->table, q[k].hash);
        } else if (what == PLAIN_STAGED) {
            for (size_t k = i; k < end; k++) __builtin_prefetch(&w->plain.slots[plain_at(&w->plain, q[k].hash)]);
            for (size_t k = i; k < end; k++) __builtin_prefetch(plain_entry(w->plain.slots[plain_at(&w->plain, q[k].hash)]));
        }
        if (what == PACKED || what == PACKED_STAGED) {
            for (size_t k = i; k < end; k++) found += table_find(&w->table, q[k].hash, q[k].key, KEY_SIZE) != NULL;
        } else {
            for (size_t k = i; k < end; k++) found += plain_find(&w->plain, q[k].hash, q[k].key, KEY_SIZE) != NULL;
        }
    }
    uint64_t took = now_ns() - start;
    failures += found != (hit ? n : 0);
    return took;
}

static void clear(struct world *w, enum what what) {
    if (what == PACKED || what == PACKED_STAGED) {
        table_drop(&w->table);
        table_init(&w->table, w->memory, hash_entry, &secret);
    } else {
        free(w->plain.slots);
        w->plain = (struct plain){0};
    }
}

static uint64_t fill(struct world *w, enum what what, uint64_t *worst) {
    uint64_t start = now_ns();
    for (size_t i = 0; i < w->count; i += GROUP) {
        size_t end = i + GROUP < w->count ? i + GROUP : w->count;
        const struct query *q = w->there;
        if (what == PACKED_STAGED) {
            for (size_t k = i; k < end; k++) table_prefetch_directory(&w->table, q[k].hash);
            for (size_t k = i; k < end; k++) table_prefetch_buckets(&w->table, q[k].hash, true, true);
        } else if (what == PLAIN_STAGED && w->plain.size) {
            for (size_t k = i; k < end; k++) __builtin_prefetch(&w->plain.slots[plain_at(&w->plain, q[k].hash)], 1);
        }
        for (size_t k = i; k < end; k++) {
            uint64_t before = worst ? now_ns() : 0;
            if (what == PACKED || what == PACKED_STAGED) failures += table_insert(&w->table, q[k].hash, w->entries[k]) != 0;
            else plain_insert(&w->plain, q[k].hash, w->entries[k]);
            if (worst && now_ns() - before > *worst) *worst = now_ns() - before;
        }
        if (what == PACKED || what == PACKED_STAGED) table_work(&w->table, 20);
    }
    return now_ns() - start;
}

static void shuffle(struct query *q, size_t n) {
    for (size_t i = n; i > 1; i--) {
        size_t k = draw() % i;
        struct query swap = q[i - 1];
        q[i - 1] = q[k];
        q[k] = swap;
    }
}

static void bench(size_t n) {
    struct world w = {.memory = memory_new(true), .count = n};
    w.there = malloc(n * sizeof *w.there);
    w.missing = malloc(n * sizeof *w.missing);
    w.entries = malloc(n * sizeof *w.entries);
    table_init(&w.table, w.memory, hash_entry, &secret);
    for (size_t i = 0; i < n; i++) {
        char key[2 * KEY_SIZE];
        for (int k = 0; k < 2; k++) {
            struct query *q = k ? &w.missing[i] : &w.there[i];
            snprintf(key, sizeof key, k ? "kez:%012zu" : "key:%012zu", i);
            memcpy(q->key, key, KEY_SIZE);
            q->hash = hash_key(&secret, q->key, KEY_SIZE);
        }
        struct entry *e = memory_alloc(w.memory, ENTRY_HEADER + KEY_SIZE + 16);
        *e = (struct entry){.kind = TYPE_STRING | ENC_EMBEDDED << 3, .key_size = KEY_SIZE, .value_size = 16};
        memcpy(e->rest, w.there[i].key, KEY_SIZE);
        w.entries[i] = e;
    }
    static const char *const names[] = {"packed", "packed, staged", "plain", "plain, staged"};
    uint64_t insert[4] = {0}, hit[4] = {0}, miss[4] = {0}, worst[4] = {0};
    for (int pass = 0; pass < PASSES; pass++) {
        for (enum what what = PACKED; what <= PLAIN_STAGED; what++) {
            clear(&w, what);
            uint64_t ns = fill(&w, what, NULL);
            if (!pass || ns < insert[what]) insert[what] = ns;
        }
    }
    for (enum what what = PACKED; what <= PLAIN_STAGED; what++) {
        clear(&w, what);
        fill(&w, what, &worst[what]);
    }
    shuffle(w.there, n);
    shuffle(w.missing, n);
    for (int pass = 0; pass < PASSES; pass++) {
        for (enum what what = PACKED; what <= PLAIN_STAGED; what++) {
            uint64_t ns = look_up(&w, what, w.there, n, true);
            if (!pass || ns < hit[what]) hit[what] = ns;
            ns = look_up(&w, what, w.missing, n, false);
            if (!pass || ns < miss[what]) miss[what] = ns;
        }
    }
    struct table_stats s;
    table_stats(&w.table, &s);
    printf("\n%zu keys                insert      hit     miss  bytes/key   worst insert us\n", n);
    for (enum what what = PACKED; what <= PLAIN_STAGED; what++) {
        double bytes = (double)(what <= PACKED_STAGED ? s.bytes : w.plain.size * 8) / (double)n;
        printf("%-20s %10.1f %8.1f %8.1f %10.2f %17.1f\n", names[what], (double)insert[what] / (double)n, (double)hit[what] / (double)n,
            (double)miss[what] / (double)n, bytes, (double)worst[what] / 1000);
    }
    free(w.plain.slots);
    free(w.there);
    free(w.missing);
    free(w.entries);
    memory_drop(w.memory);
}

int main(int argc, char **argv) {
    hash_secret_init(&secret, (const uint8_t[32]){1, 2, 3});
    for (int i = 1; i < argc; i++) bench(strtoull(argv[i], NULL, 10));
    if (argc == 1) {
        bench(100000);
        bench(3000000);
    }
    if (failures) printf("%llu lookups or inserts went wrong\n", (unsigned long long)failures);
    return failures != 0;
}
