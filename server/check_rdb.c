#include "server/check_rdb.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "io/clock.h"
#include "server/rdb_file.h"
#include "shard/shard.h"

#define DATABASES 65536u
#define TYPES 6u

static const char *const type_names[TYPES] = {"strings", "lists", "sets", "sorted sets", "hashes", "streams"};

/* Each value is read into a shard as at a start, and freed again. */
struct checking {
    struct shard *shard;
    bool skip_unknown;
    uint64_t skipped, keys, expiring, expired, timed_hashes, of_type[TYPES], in_database[DATABASES];
};

static bool check_key(void *arg, struct rdb_source *x, const struct rdb_key *key) {
    static const struct rdb_limits limits = {512, 64, -2, 512, 128, 64};
    struct checking *c = arg;
    struct shard *s = c->shard;
    struct key k = {.db = s->dbs[0], .hash = hash_key(s->secret, key->name, key->size), .name = key->name, .size = (uint32_t)key->size};
    if (key->db >= DATABASES) return rdb_wrong(x, "a database of an absurd number");
    if (c->skip_unknown && rdb_is_unknown(key->type)) {
        c->skipped++;
        return rdb_skip_value(x, key->type);
    }
    if (!rdb_read_value(x, key->type, s, &k, EXPIRY_NONE, &limits, KEY_LOADED)) return false;
    c->keys++;
    c->expiring += key->expire_at_ms != EXPIRY_NONE;
    c->expired += key->expire_at_ms < s->now_ms;
    c->of_type[entry_type(k.entry)]++;
    c->in_database[key->db]++;
    c->timed_hashes += entry_type(k.entry) == TYPE_HASH && entry_fields_time(k.entry) != EXPIRY_NONE;
    key_delete(s, &k, KEY_EXPIRED);
    shard_work(s, s->now_ms, UINT64_MAX / 4, now_monotonic_ns);
    return true;
}

static void show_aux(void *arg, const char *name, size_t name_size, const char *value, size_t value_size) {
    (void)arg;
    printf("  %.*s: %.*s", (int)name_size, name, (int)value_size, value);
    char text[32];
    struct tm at;
    int64_t seconds;
    if (name_size == 5 && !memcmp(name, "ctime", 5) && parse_int64(value, value_size, &seconds) && gmtime_r(&(time_t){seconds}, &at) &&
        strftime(text, sizeof text, "%F %T UTC", &at))
        printf(" (%s)", text);
    putchar('\n');
}

static void show(const struct checking *c, const struct rdb_walk *w) {
    printf("version %u, %llu bytes, %s\n", w->version, (unsigned long long)w->bytes,
        w->has_checksum ? "the checksum is right" : "without a checksum");
    printf("%llu key%s, %llu with a time, %llu of these past it\n", (unsigned long long)c->keys, c->keys == 1 ? "" : "s",
        (unsigned long long)c->expiring, (unsigned long long)c->expired);
    for (unsigned i = 0; i < TYPES; i++)
        if (c->of_type[i]) printf("  %s: %llu\n", type_names[i], (unsigned long long)c->of_type[i]);
    if (c->skipped) printf("  skipped, of unknown types: %llu\n", (unsigned long long)c->skipped);
    if (w->module_aux) printf("  modules' auxiliary data, skipped: %llu\n", (unsigned long long)w->module_aux);
    if (c->timed_hashes)
        printf("  hashes with times of fields, which Redis reads from 7.4 on: %llu\n", (unsigned long long)c->timed_hashes);
    for (unsigned i = 0; i < DATABASES; i++)
        if (c->in_database[i]) printf("  database %u: %llu\n", i, (unsigned long long)c->in_database[i]);
}

int check_rdb(const char *path, bool skip_unknown) {
    static const uint8_t seed[32];
    struct hash_secret secret;
    struct checking *c = calloc(1, sizeof *c);
    char why[RDB_WHY_MAX + 64];
    hash_secret_init(&secret, seed);
    struct shard_options o = {.shards = 1, .databases = 1, .secret = &secret, .seed = 1, .now_ms = now_realtime_ms()};
    if (!c || !(c->shard = shard_new(&o))) {
        fprintf(stderr, "%s: out of memory\n", path);
        free(c);
        return 1;
    }
    c->skip_unknown = skip_unknown;
    struct rdb_walk w = {.key = check_key, .aux = show_aux, .arg = c, .checks = true, .skip_unknown = skip_unknown};
    bool good = rdb_file_walk(path, &w, why, sizeof why);
    if (good) show(c, &w);
    if (good) printf("%s: good\n", path);
    else fprintf(stderr, "%s: %s\n", path, why);
    shard_drop(c->shard);
    free(c);
    return !good;
}
