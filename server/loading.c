#include "server/loading.h"

#include <errno.h>
#include <fcntl.h>
#include <mimalloc.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/stat.h>
#include <unistd.h>

#include "io/clock.h"
#include "server/crash.h"
#include "server/disk.h"
#include "server/log.h"
#include "server/passing.h"
#include "server/rdb_file.h"
#include "server/task.h"
#include "server/thread.h"

/* Between two looks at what is to be logged, ms. */
#define LOOK_MS 20
/* Keys between two looks whether the table has work of its own, and publications of what memory they take. */
#define KEYS_A_WORK 64u
/* Skipped keys that a loader names, and bytes of their names. */
#define SKIPPED_NAMED 10u
#define NAME_SHOWN 64u

/* What others may see of a loader's shard meanwhile. */
struct published {
    _Atomic uint64_t used, used_large, reserved, peak;
    struct {
        _Atomic uint64_t keys, expiring;
    } * dbs;
    struct shard_stats stats; /* of before */
};

/* What reads the file for a shard. */
struct loader {
    struct shard *shard;
    pthread_t handle;
    struct rdb_limits limits;
    table_growing *growing;  /* the shard's: its thread has other things to measure */
    _Atomic uint64_t offset; /* in the file */
    uint64_t keys, expired, skipped;
    struct published published;
    char why[RDB_WHY_MAX + 64];
    bool good, gave_up; /* gave_up: another one was not good */
};

static struct {
    _Atomic bool running;
    _Atomic uint32_t left; /* loaders */
    struct loader *loaders;
    struct passing *passing;
    _Atomic uint64_t chunk; /* the first that no loader has claimed */
    char path[CONFIG_TEXT_MAX * 2];
    struct stat file; /* what was there when it began: each loader opens it for itself, and their chunks must be of one file */
    int tells;        /* an eventfd: the loaders have ended, or the loading has */
    /* DEBUG RELOAD. waiter NULL: it is the start. */
    struct disk_job *waiter;
    bool flush, merge;
    bool whole; /* flush: the file was looked through, and is good */
    _Atomic bool fatal;
    pthread_barrier_t looked;
    _Atomic uint64_t bytes, used_mem, keys, expired;
    _Atomic int64_t began_s;
    uint64_t began_ns;
} loading;

bool loading_is_running(void) { return atomic_load_explicit(&loading.running, memory_order_acquire); }

/* ---- what is published ---- */

static void publish(_Atomic uint64_t *to, uint64_t v) { atomic_store_explicit(to, v, memory_order_relaxed); }
static uint64_t read_published(const _Atomic uint64_t *v) { return atomic_load_explicit(v, memory_order_relaxed); }

/* How far in the file the keys are made. What was passed comes a little out of order. */
static void publish_offset(struct loader *l, uint64_t offset) {
    if (offset > read_published(&l->offset)) publish(&l->offset, offset);
}

static void publish_db(struct loader *l, uint32_t db) {
    publish(&l->published.dbs[db].keys, l->shard->dbs[db]->keys.count);
    publish(&l->published.dbs[db].expiring, l->shard->dbs[db]->expiring);
}

static void publish_memory(struct loader *l) {
    struct memory_stats m;
    memory_stats(l->shard->memory, &m);
    publish(&l->published.used, m.used);
    publish(&l->published.used_large, m.used_large);
    publish(&l->published.reserved, m.reserved);
    publish(&l->published.peak, m.peak);
}

static void publish_all(struct loader *l) {
    publish_memory(l);
    for (uint32_t db = 0; db < l->shard->n_dbs; db++) publish_db(l, db);
}

void loading_figures(uint32_t shard, struct shard_stats *stats, struct memory_stats *memory) {
    const struct published *p = &loading.loaders[shard].published;
    *stats = p->stats;
    *memory = (struct memory_stats){.used = read_published(&p->used),
        .used_large = read_published(&p->used_large),
        .reserved = read_published(&p->reserved),
        .peak = read_published(&p->peak)};
}

void loading_db_figures(uint32_t shard, uint32_t db, uint64_t *keys, uint64_t *expiring) {
    const struct published *p = &loading.loaders[shard].published;
    *keys = read_published(&p->dbs[db].keys);
    *expiring = read_published(&p->dbs[db].expiring);
}

/* ---- a shard's keys ---- */

/* For tests; it may be changed meanwhile. */
static void delay(void) {
    int64_t us = config_current()->key_load_delay_us;
    if (us > 0) usleep((useconds_t)us);
}

/* rdb-skip-unknown: the first few are named. */
static bool skip_unknown(struct loader *l, struct rdb_source *x, const struct rdb_key *key) {
    char name[NAME_SHOWN + 1];
    size_t n = key->size < NAME_SHOWN ? key->size : NAME_SHOWN;
    for (size_t i = 0; i < n; i++) name[i] = key->name[i] >= ' ' && key->name[i] <= '~' ? key->name[i] : '?';
    name[n] = 0;
    if (l->skipped++ < SKIPPED_NAMED)
        log_line(LOG_WARNING_LEVEL, "Skipping key '%s' of database %u: %s", name, key->db,
            key->type == RDB_MODULE ? "a module's value" : "a stream, which Darter does not have yet");
    return rdb_skip_value(x, key->type);
}

static bool make_key(struct loader *l, struct rdb_source *x, const struct rdb_key *key, uint64_t hash) {
    struct shard *s = l->shard;
    if (key->db >= s->n_dbs) return rdb_wrong(x, "a database beyond those that there are (directive databases)");
    if (rdb_is_unknown(key->type) && config_current()->rdb_skip_unknown) return skip_unknown(l, x, key);
    if (key->expire_at_ms < s->now_ms) {
        l->expired++;
        return rdb_skip_value(x, key->type);
    }
    delay();
    struct key k;
    if (key_find(s, s->dbs[key->db], hash, key->name, (uint32_t)key->size, &k)) {
        if (!loading.merge) return rdb_wrong(x, "a key twice");
        key_delete(s, &k, KEY_LOADED);
        key_find(s, s->dbs[key->db], hash, key->name, (uint32_t)key->size, &k);
    }
    if (!rdb_read_value(x, key->type, s, &k, key->expire_at_ms, &l->limits, KEY_LOADED)) return false;
    publish_db(l, key->db);
    if (++l->keys % KEYS_A_WORK) return true;
    table_work(&s->dbs[key->db]->keys, KEYS_A_WORK); /* nobody else makes the table grow meanwhile */
    publish_memory(l);
    return true;
}

/* To the loader of its shard; to oneself, too, who makes many at a time then. */
static bool pass_on(struct loader *l, struct rdb_source *x, const struct rdb_key *key, uint64_t hash, uint32_t to) {
    const uint8_t *value = x->at;
    if (!rdb_skip_value(x, key->type)) return false;
    struct passed_key k = {.hash = hash,
        .offset = x->offset - (uint64_t)(x->end - x->at),
        .expire_at_ms = key->expire_at_ms,
        .value_size = (size_t)(x->at - value),
        .name_size = (uint32_t)key->size,
        .db = key->db,
        .type = key->type,
        .name = key->name,
        .value = value};
    return passing_put(loading.passing, l->shard->id, to, &k) || rdb_wrong(x, "out of memory");
}

static bool load_key(void *arg, struct rdb_source *x, const struct rdb_key *key) {
    struct loader *l = arg;
    struct arg name = {.p = key->name, .size = (uint32_t)key->size};
    uint64_t hash = hash_key(&server.secret, key->name, key->size);
    uint32_t owner = route_shard(route_slot(&server.secret, &name, hash), server.n_threads);
    if (key->claimed) return pass_on(l, x, key, hash, owner);
    publish_offset(l, x->offset - (uint64_t)(x->end - x->at));
    return owner == l->shard->id ? make_key(l, x, key, hash) : rdb_skip_value(x, key->type);
}

static bool make_passed_key(struct loader *l, const struct passed_key *k, struct rdb_source *why) {
    struct rdb_key key = {.name = k->name, .size = k->name_size, .db = k->db, .type = k->type, .expire_at_ms = k->expire_at_ms};
    struct rdb_source x = {.at = k->value, .end = k->value + k->value_size, .offset = k->offset};
    publish_offset(l, k->offset - k->value_size);
    if (make_key(l, &x, &key, k->hash)) return true;
    rdb_wrong(&x, "a value that can't be read");
    rdb_name_key(&x, k->name, k->name_size);
    memcpy(why->why, x.why, sizeof why->why);
    return false;
}

/* So the cache misses of a group overlap. */
static void prefetch_places(const struct shard *s, const struct passed_key *keys, uint32_t n) {
    if (s->prefetch == PREFETCH_NONE) return;
    for (uint32_t i = 0; i < n; i++)
        if (keys[i].db < s->n_dbs) table_prefetch_directory(&s->dbs[keys[i].db]->keys, keys[i].hash);
    for (uint32_t i = 0; i < n; i++)
        if (keys[i].db < s->n_dbs)
            table_prefetch_buckets(&s->dbs[keys[i].db]->keys, keys[i].hash, s->prefetch >= PREFETCH_BUCKET_PROBE, true);
}

static bool make_bundle(struct loader *l, const struct bundle *b, struct rdb_source *why) {
    struct passed_key group[HOP_GROUP];
    for (size_t at = 0;;) {
        uint32_t n = 0;
        while (n < HOP_GROUP && bundle_next(b, &at, &group[n])) n++;
        prefetch_places(l->shard, group, n);
        for (uint32_t i = 0; i < n; i++)
            if (!make_passed_key(l, &group[i], why)) return false;
        if (n < HOP_GROUP) return true;
    }
}

/* Of all bundles of the list, which are gone then. False: why says what is wrong. */
static bool make_passed(struct loader *l, struct bundle *list, struct rdb_source *why) {
    bool good = true;
    for (; list; list = bundle_drop(loading.passing, list)) good = good && make_bundle(l, list, why);
    return good;
}

/* Who comes first to a chunk reads it; what came for this loader is made first, so that it does not pile up. */
static bool claim(void *arg, struct rdb_source *x, uint64_t number, bool *mine) {
    struct loader *l = arg;
    uint64_t free = number;
    struct bundle *list = passing_take(loading.passing, l->shard->id);
    if (!list) publish_offset(l, x->offset - (uint64_t)(x->end - x->at));
    if (!make_passed(l, list, x)) return false;
    l->gave_up = passing_failed(loading.passing);
    if (l->gave_up) return rdb_wrong(x, "another part of it can't be read");
    *mine = atomic_compare_exchange_strong(&loading.chunk, &free, number + 1);
    return true;
}

/* Behind the last chunk: what others have read for this loader. */
static bool make_rest(struct loader *l) {
    struct rdb_source x = {0};
    bool good = true;
    passing_end(loading.passing, l->shard->id);
    for (struct bundle *list; good && (list = passing_await(loading.passing, l->shard->id));) good = make_passed(l, list, &x);
    if (!good) memcpy(l->why, x.why, sizeof x.why);
    return good;
}

static void note_aux(void *arg, const char *name, size_t name_size, const char *value, size_t value_size) {
    int64_t n;
    (void)arg;
    if (name_size == strlen("used-mem") && !memcmp(name, "used-mem", name_size) && parse_int64(value, value_size, &n) && n > 0)
        publish(&loading.used_mem, (uint64_t)n);
}

static void tell_main(void) {
    while (write(loading.tells, &(uint64_t){1}, sizeof(uint64_t)) < 0 && errno == EINTR) {}
}

static void tell_thread_0(enum message_kind kind) {
    struct note *n = mi_zalloc(sizeof *n);
    if (!n) abort();
    n->message.kind = kind;
    mailbox_push(&server.threads[0]->returns, &n->message);
    proactor_wake(NULL, server.threads[0]->proactor);
}

static bool pass_over_key(void *arg, struct rdb_source *x, const struct rdb_key *key) {
    (void)arg;
    if (rdb_is_unknown(key->type) && !config_current()->rdb_skip_unknown) return rdb_wrong(x, "a stream, or a module's value");
    return rdb_skip_value(x, key->type);
}

/* Before anything is thrown away for it the first loader looks through the file, and the others wait. */
static bool is_whole(struct loader *l) {
    struct rdb_walk w = {.key = pass_over_key, .is = &loading.file, .checks = true, .skip_unknown = config_current()->rdb_skip_unknown};
    if (!l->shard->id) loading.whole = rdb_file_walk(loading.path, &w, l->why, sizeof l->why);
    pthread_barrier_wait(&loading.looked);
    return loading.whole;
}

static void empty(struct loader *l) {
    for (uint32_t db = 0; db < l->shard->n_dbs; db++) shard_flush(l->shard, db);
    publish_all(l);
}

static void read_file(struct loader *l) {
    bool first = !l->shard->id;
    struct rdb_walk w = {.key = load_key,
        .aux = first ? note_aux : NULL,
        .claims = claim,
        .arg = l,
        .is = &loading.file,
        .checks = first,
        .skip_unknown = config_current()->rdb_skip_unknown};
    l->good = rdb_file_walk(loading.path, &w, l->why, sizeof l->why) && make_rest(l);
    if (!l->good) passing_fail(loading.passing);
    if (first && w.functions)
        log_line(LOG_WARNING_LEVEL, "Libraries of functions that were passed over, as there are no functions yet: %llu",
            (unsigned long long)w.functions);
    if (first && w.module_aux && l->good)
        log_line(
            LOG_WARNING_LEVEL, "Auxiliary data of modules were skipped %llu times (rdb-skip-unknown)", (unsigned long long)w.module_aux);
    publish_all(l);
    publish(&l->offset, w.bytes);
}

static void *load(void *arg) {
    struct loader *l = arg;
    crash_thread_start(NULL);
    if (!loading.flush) read_file(l);
    else if (is_whole(l)) {
        empty(l);
        read_file(l);
    }
    if (atomic_fetch_sub(&loading.left, 1) > 1) return NULL;
    if (loading.waiter) tell_thread_0(MESSAGE_LOADED);
    else tell_main();
    return NULL;
}

/* ---- all ---- */

static void grows_unmeasured(void *arg, bool ended) {
    (void)arg;
    (void)ended;
}

static bool prepare(struct loader *l, struct shard *s, const struct config *c) {
    l->shard = s;
    s->now_ms = now_realtime_ms();
    l->published.stats = s->stats;
    l->growing = s->growing;
    s->growing = grows_unmeasured;
    l->limits = (struct rdb_limits){.hash_entries = c->hash_max_listpack_entries,
        .hash_value = c->hash_max_listpack_value,
        .list_size = c->list_max_listpack_size,
        .set_entries = c->set_max_intset_entries,
        .zset_entries = c->zset_max_listpack_entries,
        .zset_value = c->zset_max_listpack_value};
    l->keys = l->expired = l->skipped = 0;
    l->good = l->gave_up = false;
    l->why[0] = 0;
    publish(&l->offset, 0);
    if (!l->published.dbs) l->published.dbs = calloc(s->n_dbs, sizeof *l->published.dbs);
    if (l->published.dbs) publish_all(l);
    return l->published.dbs;
}

/* False: errno. */
static bool find_file(const struct config *c) {
    snprintf(loading.path, sizeof loading.path, "%s/%s", c->dir, c->dbfilename);
    if (stat(loading.path, &loading.file)) return false;
    atomic_store(&loading.bytes, (uint64_t)loading.file.st_size);
    return true;
}

/* False: no memory. */
static bool prepare_all(const struct config *c) {
    if (!loading.loaders) {
        loading.tells = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
        loading.loaders = calloc(server.n_threads, sizeof *loading.loaders);
    }
    if (loading.tells < 0 || !loading.loaders) return false;
    for (uint32_t i = 0; i < server.n_threads; i++)
        if (!prepare(&loading.loaders[i], server.threads[i]->shard, c)) return false;
    if (!(loading.passing = passing_new(server.n_threads))) return false;
    atomic_store(&loading.chunk, 0);
    config_lift_memory_limit(); /* what was there must be there again */
    atomic_store(&loading.began_s, now_realtime_ms() / 1000);
    atomic_store_explicit(&loading.running, true, memory_order_release);
    return true;
}

int loading_prepare(const struct config *c) {
    if (!find_file(c)) {
        if (errno == ENOENT) {
            log_line(LOG_NOTICE_LEVEL, "No snapshot at %s: there are no keys", loading.path);
            return 0;
        }
        log_line(LOG_WARNING_LEVEL, "Fatal error: can't look at %s: %s. Exiting.", loading.path, strerror(errno));
        return -1;
    }
    if (!prepare_all(c)) {
        log_line(LOG_WARNING_LEVEL, "Fatal error: no memory to load the DB. Exiting.");
        return -1;
    }
    for (uint32_t i = 0; i < server.n_threads; i++) server.threads[i]->stands_still = server.threads[i]->no_transactions = true;
    server.threads[0]->token = TOKEN_LOADING;
    return 1;
}

static bool start(void) {
    loading.began_ns = now_monotonic_ns();
    log_line(LOG_NOTICE_LEVEL, "Loading %s", loading.path);
    atomic_store(&loading.left, server.n_threads);
    for (uint32_t i = 0; i < server.n_threads; i++)
        if (pthread_create(&loading.loaders[i].handle, NULL, load, &loading.loaders[i])) return false;
    return true;
}

/* True: it is the end, as in a server that has nothing to lose yet. */
static bool take_signal(int signals) {
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == sizeof info) {
        if (info.ssi_signo == SIGHUP) log_reopen();
        else return true;
    }
    return false;
}

static bool are_running(void) { return atomic_load(&loading.left); }

/* Main thread. False: a signal came. */
static bool wait_while(bool (*is_so)(void), int signals) {
    while (is_so()) {
        struct pollfd p[] = {{.fd = signals, .events = POLLIN}, {.fd = loading.tells, .events = POLLIN}};
        uint64_t times;
        log_drain();
        if (poll(p, 2, LOOK_MS) < 0) continue;
        if (p[1].revents && read(loading.tells, &times, sizeof times) < 0) { /* nothing lost: it is asked anyway */
        }
        if (p[0].revents && take_signal(signals)) return false;
    }
    return true;
}

static bool all_good(bool fatal) {
    for (uint32_t i = 0; i < server.n_threads; i++) {
        const struct loader *l = &loading.loaders[i];
        if (l->good || l->gave_up) continue;
        log_line(LOG_WARNING_LEVEL, "%s loading the DB %s: %s.%s", fatal ? "Fatal error" : "Error", loading.path, l->why,
            fatal ? " Exiting." : "");
        return false;
    }
    return true;
}

static void join_all(void) {
    for (uint32_t i = 0; i < server.n_threads; i++) pthread_join(loading.loaders[i].handle, NULL);
    passing_free(loading.passing);
    loading.passing = NULL;
}

static void sum_up(void) {
    uint64_t keys = 0, expired = 0, skipped = 0;
    for (uint32_t i = 0; i < server.n_threads; i++) {
        keys += loading.loaders[i].keys;
        expired += loading.loaders[i].expired;
        skipped += loading.loaders[i].skipped;
    }
    publish(&loading.keys, keys);
    publish(&loading.expired, expired);
    log_line(LOG_NOTICE_LEVEL, "Done loading RDB, keys loaded: %llu, keys expired: %llu.", (unsigned long long)keys,
        (unsigned long long)expired);
    if (skipped)
        log_line(LOG_WARNING_LEVEL, "Keys of unknown types that were skipped (rdb-skip-unknown): %llu", (unsigned long long)skipped);
    log_line(LOG_NOTICE_LEVEL, "DB loaded from disk: %.3f seconds", (double)(now_monotonic_ns() - loading.began_ns) / 1e9);
}

/* The shards are who holds them again. */
static void put_back(void) {
    const struct config *c = config_current();
    for (uint32_t i = 0; i < server.n_threads; i++) {
        struct shard *s = loading.loaders[i].shard;
        s->growing = loading.loaders[i].growing;
        s->prefetch = (uint8_t)c->prefetch; /* CONFIG SET could not */
    }
    atomic_store_explicit(&loading.running, false, memory_order_release);
    config_limit_memory(c);
}

static void reload_ended(void) {
    struct disk_job *waiter = loading.waiter;
    join_all();
    waiter->good = all_good(loading.whole);
    if (waiter->good) sum_up();
    else if (loading.whole) { /* half of it is there, and nothing else */ atomic_store(&loading.fatal, true);
        kill(getpid(), SIGTERM);
        return;
    }
    if (loading.flush) pthread_barrier_destroy(&loading.looked);
    loading.waiter = NULL;
    loading.flush = loading.merge = false;
    put_back();
    disk_give_back(waiter);
}

void loading_ended(struct thread *t) {
    if (loading.waiter) {
        reload_ended();
        return;
    }
    put_back();
    task_let_all_go(t);
    tell_main();
}

const char *loading_begin(const struct loading_options *o, struct disk_job *waiter) {
    const struct config *c = config_current();
    if (!find_file(c)) return strerror(errno);
    if (o->flush && pthread_barrier_init(&loading.looked, NULL, server.n_threads)) return "out of memory";
    loading.waiter = waiter;
    loading.flush = o->flush;
    loading.merge = o->merge;
    loading.whole = false;
    if (!prepare_all(c)) abort();
    log_line(LOG_NOTICE_LEVEL, "Loading the DB %s", loading.path);
    tell_thread_0(MESSAGE_LOADING);
    if (!start()) abort();
    return NULL;
}

int loading_exit_status(void) { return atomic_load(&loading.fatal); }

enum loading_result loading_run(int signals) {
    if (!start()) {
        log_line(LOG_WARNING_LEVEL, "Can't load the DB: out of memory");
        return LOADING_FAILED;
    }
    if (!wait_while(are_running, signals)) return LOADING_ENDED;
    join_all();
    if (!all_good(true)) return LOADING_FAILED;
    sum_up();
    tell_thread_0(MESSAGE_LOADED);
    return wait_while(loading_is_running, signals) ? LOADING_DONE : LOADING_ENDED;
}

void loading_info(struct loading_info *out) {
    *out = (struct loading_info){.running = loading_is_running(),
        .keys = read_published(&loading.keys),
        .expired = read_published(&loading.expired),
        .total_bytes = read_published(&loading.bytes),
        .used_mem = read_published(&loading.used_mem),
        .began_s = atomic_load_explicit(&loading.began_s, memory_order_relaxed)};
    if (!out->running) return;
    out->loaded_bytes = out->total_bytes;
    for (uint32_t i = 0; i < server.n_threads; i++) { /* it is through when the slowest is */
        uint64_t offset = read_published(&loading.loaders[i].offset);
        if (offset < out->loaded_bytes) out->loaded_bytes = offset;
    }
}
