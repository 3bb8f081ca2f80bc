/* What each stage of the prefetch, and each size of group, brings: ns a hop.
 *
 *   bench_batch [KEYS...]      (default: 100000 3000000)
 *
 * Keys of 16 bytes, values of 64 (or VALUE=bytes in the environment). Each batch is of 256 hops (or BATCH=hops) for random keys, made just
 * before it is run, so that hops and arguments are in the cache, as after parsing. All cells of a row are measured in turn, batch by
 * batch, so that what else the machine does falls on all alike; shown is the lower quartile of 1000 batches. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "shard/batch.h"
#include "shard/keyspace.h"
#include "shard/memory.h"

#define KEY_SIZE 16u
#define VALUE_MAX 512u
#define BATCH_MAX 512u
#define SAMPLES 1000u
#define LEVELS 5u
#define GROUPS 5u

static const uint32_t group_sizes[GROUPS] = {4, 8, 16, 32, 64};
static const char *const level_names[LEVELS] = {"none", "bucket", "bucket+probe", "entry", "full"};
enum kind { GET, SET, MISS, KINDS };
static const char *const kind_names[KINDS] = {"GET", "SET", "GET, a miss"};

struct run {
    struct shard *s;
    char *out;
};

struct bench {
    struct shard *s;
    uint64_t keys;
    uint32_t batch, value_size;
    struct hop hops[BATCH_MAX];
    struct arg args[BATCH_MAX][3];
    char names[BATCH_MAX][KEY_SIZE];
    char value[VALUE_MAX], out[BATCH_MAX * VALUE_MAX];
    double samples[LEVELS][GROUPS][SAMPLES];
};

static struct hash_secret secret;
static uint64_t random_state = 88172645463325252u;

static uint64_t draw(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    return random_state ^= random_state << 17;
}

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The value is copied out, as into a reply. */
static enum hop_result run_get(struct shard *s, struct hop *h, struct reply *r) {
    struct run *x = (struct run *)r;
    struct key k;
    char scratch[INT64_TEXT_SIZE];
    size_t size;
    if (!key_read(s, h, &k)) return HOP_DONE;
    const char *p = key_string(&k, scratch, &size);
    memcpy(x->out, p, size);
    x->out += size;
    return HOP_DONE;
}

static enum hop_result run_set(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    key_write(s, h, &k);
    if (key_set_arg(s, &k, &h->argv[2], EXPIRY_NONE, KEY_SET)) abort();
    return HOP_DONE;
}

static inline void exec(void *ctx, struct hop *h) {
    struct run *x = ctx;
    h->run(x->s, h, (struct reply *)x);
}

static __attribute__((noinline)) void run_4(struct run *x, struct hop *hops, uint32_t n) {
    batch_run_in_groups(x->s, hops, n, false, exec, x, 4);
}
static __attribute__((noinline)) void run_8(struct run *x, struct hop *hops, uint32_t n) {
    batch_run_in_groups(x->s, hops, n, false, exec, x, 8);
}
static __attribute__((noinline)) void run_16(struct run *x, struct hop *hops, uint32_t n) {
    batch_run_in_groups(x->s, hops, n, false, exec, x, 16);
}
static __attribute__((noinline)) void run_32(struct run *x, struct hop *hops, uint32_t n) {
    batch_run_in_groups(x->s, hops, n, false, exec, x, 32);
}
static __attribute__((noinline)) void run_64(struct run *x, struct hop *hops, uint32_t n) {
    batch_run_in_groups(x->s, hops, n, false, exec, x, 64);
}
static void (*const runs[GROUPS])(struct run *x, struct hop *hops, uint32_t n) = {run_4, run_8, run_16, run_32, run_64};

static void write_name(char *name, uint64_t i) {
    memcpy(name, "key:", 4);
    for (unsigned k = KEY_SIZE; k > 4; i /= 10) name[--k] = (char)('0' + i % 10);
}

static void fill(struct bench *b) {
    char name[KEY_SIZE];
    for (uint64_t i = 0; i < b->keys; i++) {
        struct key k;
        write_name(name, i);
        key_find(b->s, b->s->dbs[0], hash_key(&secret, name, KEY_SIZE), name, KEY_SIZE, &k);
        if (key_set_bytes(b->s, &k, b->value, b->value_size, FORM_ANY, EXPIRY_NONE, KEY_SET)) abort();
        if (i % 1000 == 0)
            while (shard_work(b->s, 0, 1000000, now_ns)) {}
    }
}

static void make_batch(struct bench *b, enum kind kind) {
    for (uint32_t i = 0; i < b->batch; i++) {
        write_name(b->names[i], draw() % b->keys + (kind == MISS ? b->keys : 0));
        b->args[i][1] = (struct arg){b->names[i], KEY_SIZE, 0};
        b->args[i][2] = (struct arg){b->value, b->value_size, 0};
        b->hops[i] = (struct hop){.hash = hash_key(&secret, b->names[i], KEY_SIZE),
            .run = kind == SET ? run_set : run_get,
            .argv = b->args[i],
            .argc = kind == SET ? 3 : 2,
            .flags = kind == SET ? HOP_WRITE : HOP_VALUE,
            .n_keys = 1,
            .key_first = 1,
            .key_step = 1};
    }
}

static int compare(const void *a, const void *b) {
    const double *x = a, *y = b;
    return *x < *y ? -1 : *x > *y;
}

static void measure(struct bench *b, enum kind kind) {
    for (uint32_t at = 0; at < SAMPLES; at++) {
        for (unsigned level = 0; level < LEVELS; level++) {
            for (unsigned group = 0; group < GROUPS; group++) {
                struct run x = {b->s, b->out};
                make_batch(b, kind);
                b->s->prefetch = (uint8_t)level;
                uint64_t start_ns = now_ns();
                runs[group](&x, b->hops, b->batch);
                b->samples[level][group][at] = (double)(now_ns() - start_ns) / b->batch;
            }
        }
    }
    printf("\n%-14s", kind_names[kind]);
    for (unsigned group = 0; group < GROUPS; group++) printf("%6u", group_sizes[group]);
    printf("   hops a group\n");
    for (unsigned level = 0; level < LEVELS; level++) {
        printf("  %-12s", level_names[level]);
        for (unsigned group = 0; group < GROUPS; group++) {
            qsort(b->samples[level][group], SAMPLES, sizeof(double), compare);
            printf("%6.1f", b->samples[level][group][SAMPLES / 4]);
        }
        printf("   ns a hop\n");
    }
}

static uint32_t setting(const char *name, uint32_t otherwise, uint32_t max) {
    const char *text = getenv(name);
    uint32_t v = text ? (uint32_t)strtoul(text, NULL, 10) : otherwise;
    return v < 1 ? 1 : v > max ? max : v;
}

static void bench(uint64_t keys) {
    struct bench *b = calloc(1, sizeof *b);
    struct shard_options o = {.shards = 1, .databases = 16, .secret = &secret, .seed = 1, .huge_pages = true};
    if (!b || !(b->s = shard_new(&o))) abort();
    b->keys = keys;
    b->batch = setting("BATCH", 256, BATCH_MAX);
    b->value_size = setting("VALUE", 64, VALUE_MAX);
    memset(b->value, 'x', sizeof b->value);
    fill(b);
    printf("\n%lu keys of %u bytes, values of %u, batches of %u\n", (unsigned long)keys, KEY_SIZE, b->value_size, b->batch);
    for (enum kind kind = GET; kind < KINDS; kind++) measure(b, kind);
    shard_drop(b->s);
    free(b);
}

int main(int argc, char **argv) {
    uint8_t seed[32] = {1};
    hash_secret_init(&secret, seed);
    if (argc < 2) {
        bench(100000);
        bench(3000000);
    }
    for (int i = 1; i < argc; i++) bench(strtoull(argv[i], NULL, 10));
    return 0;
}
