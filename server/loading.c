#include "server/loading.h"

#include <errno.h>
#include <fcntl.h>
#include <mimalloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/clock.h"
#include "server/crash.h"
#include "server/log.h"
#include "server/rdb_file.h"
#include "server/thread.h"

/* Between two looks at signals, ms. */
#define LOOK_MS 20
/* Keys between two looks whether the table has work of its own. */
#define KEYS_A_WORK 64u

/* What reads the file for a shard. */
struct loader {
    struct shard *shard;
    pthread_t handle;
    struct rdb_limits limits;
    char path[CONFIG_TEXT_MAX * 2];
    _Atomic uint64_t offset;
    uint64_t keys, expired;
    char why[RDB_WHY_MAX + 64];
    bool good;
    useconds_t delay_us; /* key-load-delay */
};

static struct {
    _Atomic bool running;
    _Atomic uint32_t left; /* loaders */
    struct loader *loaders;
    uint64_t bytes, keys, expired;
    int64_t began_s;
} loading;

bool loading_is_running(void) { return atomic_load_explicit(&loading.running, memory_order_relaxed); }

/* ---- a shard's keys ---- */

static bool is_mine(const struct loader *l, const struct arg *key, uint64_t hash) {
    return route_shard(route_slot(&server.secret, key, hash), server.n_threads) == l->shard->id;
}

static bool load_key(void *arg, struct rdb_source *x, const struct rdb_key *key) {
    struct loader *l = arg;
    struct shard *s = l->shard;
    struct arg name = {.p = key->name, .size = (uint32_t)key->size};
    uint64_t hash = hash_key(&server.secret, key->name, key->size);
    atomic_store_explicit(&l->offset, x->offset, memory_order_relaxed);
    if (!is_mine(l, &name, hash)) return rdb_skip_value(x, key->type);
    if (key->db >= s->n_dbs) return rdb_wrong(x, "a database beyond those that there are (directive databases)");
    if (key->expire_at_ms < s->now_ms) {
        l->expired++;
        return rdb_skip_value(x, key->type);
    }
    if (l->delay_us) usleep(l->delay_us);
    struct key k;
    if (key_find(s, s->dbs[key->db], hash, name.p, name.size, &k)) return rdb_wrong(x, "a key twice");
    if (!(++l->keys % KEYS_A_WORK)) table_work(&s->dbs[key->db]->keys, KEYS_A_WORK); /* nobody else makes the table grow meanwhile */
    return rdb_read_value(x, key->type, s, &k, key->expire_at_ms, &l->limits, KEY_LOADED);
}

static void *load(void *arg) {
    struct loader *l = arg;
    crash_thread_start(NULL);
    struct rdb_walk w = {.key = load_key, .arg = l, .checks = !l->shard->id};
    l->good = rdb_file_walk(l->path, &w, l->why, sizeof l->why);
    atomic_fetch_sub(&loading.left, 1);
    return NULL;
}

/* ---- all ---- */

static void path_of(const struct config *c, char *out, size_t room) { snprintf(out, room, "%s/%s", c->dir, c->dbfilename); }

int loading_prepare(const struct config *c) {
    char path[CONFIG_TEXT_MAX * 2];
    struct stat st;
    path_of(c, path, sizeof path);
    if (stat(path, &st)) {
        if (errno == ENOENT) return 0;
        log_line(LOG_WARNING_LEVEL, "Fatal error: can't look at %s: %s. Exiting.", path, strerror(errno));
        return -1;
    }
    loading.bytes = (uint64_t)st.st_size;
    loading.began_s = now_realtime_ms() / 1000;
    atomic_store(&loading.running, true);
    for (uint32_t i = 0; i < server.n_threads; i++) server.threads[i]->stands_still = true;
    return 1;
}

static bool start(const struct config *c) {
    loading.loaders = calloc(server.n_threads, sizeof *loading.loaders);
    if (!loading.loaders) return false;
    atomic_store(&loading.left, server.n_threads);
    for (uint32_t i = 0; i < server.n_threads; i++) {
        struct loader *l = &loading.loaders[i];
        l->shard = server.threads[i]->shard;
        l->shard->now_ms = now_realtime_ms();
        l->limits = (struct rdb_limits){.hash_entries = c->hash_max_listpack_entries,
            .hash_value = c->hash_max_listpack_value,
            .list_size = c->list_max_listpack_size,
            .set_entries = c->set_max_intset_entries,
            .zset_entries = c->zset_max_listpack_entries,
            .zset_value = c->zset_max_listpack_value};
        l->delay_us = c->key_load_delay_us > 0 ? (useconds_t)c->key_load_delay_us : 0;
        path_of(c, l->path, sizeof l->path);
        if (pthread_create(&l->handle, NULL, load, l)) return false;
    }
    return true;
}

/* True: all are done. False: a signal came. */
static bool wait_for_loaders(int signals) {
    while (atomic_load(&loading.left)) {
        struct pollfd p = {.fd = signals, .events = POLLIN};
        log_drain();
        if (poll(&p, 1, LOOK_MS) > 0) return false;
    }
    for (uint32_t i = 0; i < server.n_threads; i++) pthread_join(loading.loaders[i].handle, NULL);
    return true;
}

static bool all_good(void) {
    for (uint32_t i = 0; i < server.n_threads; i++) {
        const struct loader *l = &loading.loaders[i];
        if (l->good) continue;
        log_line(LOG_WARNING_LEVEL, "Fatal error loading the DB %s: %s. Exiting.", l->path, l->why);
        return false;
    }
    return true;
}

static void let_go(void) {
    for (uint32_t i = 0; i < server.n_threads; i++) {
        struct thread *t = server.threads[i];
        struct note *n = mi_zalloc(sizeof *n);
        if (!n) abort();
        n->message.kind = MESSAGE_GO;
        mailbox_push(&t->returns, &n->message);
        proactor_wake(NULL, t->proactor);
    }
}

enum loading_result loading_run(int signals) {
    const struct config *c = config_current();
    uint64_t start_ns = now_monotonic_ns();
    if (!start(c)) {
        log_line(LOG_WARNING_LEVEL, "Can't load the DB: out of memory");
        return LOADING_FAILED;
    }
    if (!wait_for_loaders(signals)) {
        log_line(LOG_WARNING_LEVEL, "The end was asked for while the DB was loaded");
        return LOADING_ENDED;
    }
    if (!all_good()) return LOADING_FAILED;
    for (uint32_t i = 0; i < server.n_threads; i++) {
        loading.keys += loading.loaders[i].keys;
        loading.expired += loading.loaders[i].expired;
    }
    log_line(LOG_NOTICE_LEVEL, "Done loading RDB, keys loaded: %llu, keys expired: %llu.", (unsigned long long)loading.keys,
        (unsigned long long)loading.expired);
    log_line(LOG_NOTICE_LEVEL, "DB loaded from disk: %.3f seconds", (double)(now_monotonic_ns() - start_ns) / 1e9);
    config_limit_memory(c);
    atomic_store(&loading.running, false);
    let_go();
    return LOADING_DONE;
}

void loading_info(struct loading_info *out) {
    *out = (struct loading_info){.running = loading_is_running(),
        .keys = loading.keys,
        .expired = loading.expired,
        .total_bytes = loading.bytes,
        .began_s = loading.began_s};
    if (!out->running || !loading.loaders) return;
    out->loaded_bytes = atomic_load_explicit(&loading.loaders[0].offset, memory_order_relaxed);
}
