/* For tests of RDB: two shards of one secret, which a test has as its state, and a key in one of them. */
#ifndef TESTS_TWO_SHARDS_H
#define TESTS_TWO_SHARDS_H

#include <stdlib.h>
#include <string.h>

#include "shard/keyspace.h"
#include "shard/rdb_read.h"
#include "shard/shard.h"

#define NOW_MS INT64_C(1700000000000)

static const struct rdb_limits limits = {
    .hash_entries = 128, .hash_value = 64, .list_size = -2, .set_entries = 512, .zset_entries = 128, .zset_value = 64};
static struct hash_secret secret;

static inline struct shard *new_shard(void) {
    struct shard_options o = {.id = 0, .shards = 1, .databases = 1, .secret = &secret, .seed = 1, .now_ms = NOW_MS};
    return shard_new(&o);
}

static inline int two_shards_setup(void **state) {
    uint8_t seed[32] = {7};
    hash_secret_init(&secret, seed);
    struct shard **two = calloc(2, sizeof *two);
    two[0] = new_shard();
    two[1] = new_shard();
    *state = two;
    return 0;
}

static inline int two_shards_teardown(void **state) {
    struct shard **two = *state;
    shard_drop(two[0]);
    shard_drop(two[1]);
    free(two);
    return 0;
}

static inline struct key find(struct shard *s, const char *name) {
    struct key k;
    uint32_t size = (uint32_t)strlen(name);
    key_find(s, s->dbs[0], hash_key(&secret, name, size), name, size, &k);
    return k;
}

static inline void empty_trash(struct shard *s) {
    while (s->trash) {
        struct trash *x = s->trash, *next = x->next;
        if (!x->free_some(s->memory, x)) s->trash = next;
    }
}

/* Deletes the key, and frees all of what is to be freed in slices. */
static inline void forget(struct shard *s, const char *name) {
    struct key k = find(s, name);
    if (k.entry) key_delete(s, &k, KEY_DEL);
    empty_trash(s);
}

#endif
