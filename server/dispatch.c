/* Dispatch: from a parsed command to what runs it. State of the connection (database, authentication, protocol) is applied here, in
 * the order of the commands, however far parsing has run ahead.
 */
#include <ctype.h>
#include <mimalloc.h>
#include <stdio.h>
#include <stdlib.h>

#include "io/clock.h"
#include "server/conn.h"
#include "server/loading.h"
#include "server/log.h"
#include "server/monitor.h"
#include "server/multi.h"
#include "server/outbox.h"
#include "server/pause.h"
#include "server/route.h"
#include "server/saving.h"
#include "server/scan.h"
#include "server/slow.h"
#include "server/steps.h"
#include "server/task.h"
#include "server/waiting.h"

/* ---- errors that come before the command ---- */

static void reply_now(struct thread *t, struct conn *c, const char *text) {
    if (multi_refused(t, c, text)) return;
    struct reply *r = conn_reply_begin(t, c);
    reply_error(r, text);
    conn_reply_end(t, c, r);
    t->stats.errors++;
    measure_error(&t->measure, text, strlen(text));
}

static void reject(struct thread *t, struct conn *c, const struct command *row, const char *text) {
    t->measure.commands[row->number].rejected++;
    reply_now(t, c, text);
}

static void unknown_command(struct thread *t, struct conn *c, const struct arg *argv, uint32_t argc) {
    char text[512];
    if (arg_is(&argv[0], "post") || arg_is(&argv[0], "host:")) { /* a browser that was sent here, with commands in what it posts */
        char address[CONN_ADDRESS_MAX];
        conn_address(c, address);
        log_line(LOG_WARNING_LEVEL, "Possible SECURITY ATTACK detected: POST or Host: from %s, client id=%llu. Closing it", address,
            (unsigned long long)c->id);
        conn_close(c, false);
        return;
    }
    size_t n = (size_t)snprintf(text, sizeof text,
        "ERR unknown command '%.*s', with args beginning with: ", (int)(argv[0].size < 128 ? argv[0].size : 128), argv[0].p);
    size_t args = 0;
    for (uint32_t i = 1; i < argc && args < 128 && n < sizeof text; i++) {
        size_t left = 128 - args, size = argv[i].size < left ? argv[i].size : left;
        int wrote = snprintf(text + n, sizeof text - n, "'%.*s' ", (int)size, argv[i].p);
        n += (size_t)wrote;
        args += (size_t)wrote;
    }
    reply_now(t, c, text);
}

#define CAPITALS_MAX 32u

static void capitals(const char *name, char out[CAPITALS_MAX]) {
    size_t i = 0;
    for (; name[i] && i < CAPITALS_MAX - 1; i++) out[i] = (char)toupper((unsigned char)name[i]);
    out[i] = 0;
}

static void unknown_subcommand(struct thread *t, struct conn *c, const struct command *row, const struct arg *sub) {
    char text[256], name[CAPITALS_MAX];
    capitals(row->name, name);
    snprintf(text, sizeof text, "ERR unknown subcommand %s'%.*s'. Try %s HELP.",
        row->flags & CMD_PROTECTED ? "or wrong number of arguments for " : "", (int)(sub->size < 128 ? sub->size : 128), sub->p, name);
    reply_now(t, c, text);
}

static void wrong_arity(struct thread *t, struct conn *c, const struct command *row, const struct arg *argv) {
    char text[128];
    if (row->parent && row->flags & CMD_PROTECTED) { /* DEBUG reads its arguments itself */
        t->measure.commands[row->number].rejected++;
        unknown_subcommand(t, c, row->parent, &argv[1]);
        return;
    }
    snprintf(text, sizeof text, "ERR wrong number of arguments for '%s%s%s' command", row->parent ? row->parent->name : "",
        row->parent ? "|" : "", row->name);
    reject(t, c, row, text);
}

/* CMD HELP, from the container's lines. */
static void reply_help(const struct command *container, struct reply *r) {
    size_t n = 0;
    char title[128], name[CAPITALS_MAX];
    capitals(container->name, name);
    while (container->help[n]) n++;
    snprintf(title, sizeof title, "%s <subcommand> [<arg> [value] [opt] ...]. Subcommands are:", name);
    reply_array(r, n + 3);
    reply_status(r, title);
    for (size_t i = 0; i < n; i++) reply_status(r, container->help[i]);
    reply_status(r, "HELP");
    reply_status(r, "    Prints this help.");
}

/* ---- plans ---- */

static inline struct hop *add_hop(
    struct thread *t, struct conn *c, const struct command *row, uint32_t shard, struct arg *argv, uint32_t argc) {
    struct hop *h = outbox_add(t, shard, c, argv, argc);
    if (__builtin_expect(!h, 0)) {
        reply_now(t, c, "OOM out of memory for the command's arguments");
        return NULL;
    }
    h->run = row->on_shard;
    h->row = row->number;
    h->key_first = (uint8_t)row->key_first;
    h->key_step = (uint8_t)row->key_step;
    h->flags = row_hop_flags(row) | conn_hop_flags(c);
    return h;
}

/* No key: the own shard. */
static struct hop *add_keyless(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    struct hop *h = add_hop(t, c, row, t->id, argv, argc);
    if (!h) return NULL;
    h->n_keys = 0;
    h->hash = 0;
    h->flags |= HOP_NO_KEY;
    return h;
}

static void single(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    if (!row->key_first) { /* TIME on a shard, for instance */
        add_keyless(t, c, row, argv, argc);
        return;
    }
    const struct arg *key = &argv[row->key_first];
    uint64_t hash = hash_key(&t->server->secret, key->p, key->size);
    struct hop *h = add_hop(t, c, row, thread_shard_of(t, key, hash), argv, argc);
    if (!h) return;
    h->hash = hash;
    h->n_keys = 1;
}

/* Several keys on one shard: one hop, with the hashes of all. Returns false if they are on several (nothing was done). */
static bool one_shard(
    struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc, const struct key_range *keys) {
    uint64_t few[16], *hashes = few, shard = 0;
    void *memory = NULL;
    uint32_t n_keys = keys->n;
    if (n_keys > FANOUT_KEYS_MAX && row->plan == PLAN_FANOUT) return false;
    if (n_keys > 1) {
        hashes = memory = mi_malloc(n_keys * sizeof *hashes);
        if (!memory) {
            reply_now(t, c, "OOM out of memory for the command's arguments");
            return true;
        }
    }
    for (uint32_t i = 0; i < n_keys; i++) {
        const struct arg *key = &argv[hop_key_at(keys->first, keys->step, i)];
        hashes[i] = hash_key(&t->server->secret, key->p, key->size);
        uint32_t s = thread_shard_of(t, key, hashes[i]);
        if (i && s != shard) {
            mi_free(memory);
            return false;
        }
        shard = s;
    }
    struct hop *h = add_hop(t, c, row, (uint32_t)shard, argv, argc);
    if (memory) tick_add_memory(thread_tick(t), memory);
    if (!h) return true;
    h->hash = hashes[0];
    h->n_keys = n_keys;
    h->key_step = keys->step;
    h->hashes = memory ? hashes : NULL;
    if (n_keys > 1) h->flags |= HOP_TIMED;
    if (row->plan == PLAN_SPREAD && !row->on_shard) h->run = spread_on_one;
    return true;
}

bool conn_drained(struct thread *t, struct conn *c) {
    if (!conn_has_work(c)) return true;
    if (t->n_threads == 1 && !c->first && !c->task) {
        outbox_flush(t);
        if (!conn_has_work(c)) return true;
    }
    c->state = CONN_WAITING;
    return false;
}

static bool several_keys(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    struct key_range keys;
    if (!command_keys(row, argv, argc, &keys)) {
        wrong_arity(t, c, row, argv);
        return true;
    }
    if (!keys.n) { /* its arguments tell of no keys that could be: it replies what is wrong */
        struct hop *h = add_keyless(t, c, row, argv, argc);
        if (h) h->run = spread_on_one;
        return true;
    }
    bool sliced = row->plan == PLAN_SPREAD && row->flags & CMD_SLICED;
    if (!sliced && !keys.anywhere && one_shard(t, c, row, argv, argc, &keys)) return true;
    if (!conn_drained(t, c)) return false;
    if (row->plan == PLAN_FANOUT) task_start_fanout(t, c, row, argv, argc, keys.n);
    else if (row->on_steps && (keys.n <= FANOUT_KEYS_MAX * t->n_threads || row->flags & CMD_ANY_KEYS))
        task_start_steps(t, c, row, argv, argc, &keys);
    else task_start_exclusive(t, c, row, argv, argc, &keys);
    return true;
}

/* Of one thread: nothing is under way on its shard once what was dispatched before has run. */
static bool may_run_alone(struct thread *t) {
    if (t->transactions || t->resting || t->stands_still) return false;
    outbox_flush(t);
    return !thread_has_slices(t);
}

static bool cursor(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    if (t->n_threads > 1) {
        if (!conn_drained(t, c)) return false;
        task_start_cursor(t, c, row, argv, argc);
        return true;
    }
    add_keyless(t, c, row, argv, argc);
    return true;
}

void conn_run(struct conn *c, const struct command *row, struct arg *argv, uint32_t argc, struct reply *r) {
    struct thread *t = c->thread;
    atomic_store_explicit(&t->running, row->number, memory_order_relaxed);
    if (row->on_connection) row->on_connection(c, argv, argc, r);
    else reply_help(row->parent, r);
    atomic_store_explicit(&t->running, 0, memory_order_relaxed);
}

static void on_connection(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    struct reply *r = conn_reply_begin(t, c);
    struct command_stats *s = &t->measure.commands[row->number];
    size_t size = r->size;
    bool always = !(row->flags & (CMD_FAST | CMD_CHEAP));
    uint64_t start = t->measure.weight || always ? cycles_now() : 0;
    conn_run(c, row, argv, argc, r);
    s->calls++;
    if (start) {
        uint64_t cycles = cycles_now() - start;
        measure_time(&t->measure, row->number, cycles, always ? 1 : t->measure.weight);
        if (cycles >= t->measure.slow_cycles) log_slow(t, c, row, argv, argc, cycles);
    }
    if (__builtin_expect(r->size > size && r->p[size] == '-', 0)) {
        s->failed++;
        t->stats.errors++;
        measure_error(&t->measure, r->p + size + 1, r->size - size - 1);
    }
    conn_reply_end(t, c, r);
}

static bool allowed(struct thread *t, struct conn *c, const struct command *row) {
    if (__builtin_expect(!c->authenticated, 0) && conn_must_authenticate(c) && !(row->flags & CMD_NO_AUTH)) {
        reject(t, c, row, "NOAUTH Authentication required.");
        return false;
    }
    if (__builtin_expect(c->multi != NULL, 0) && c->multi->on && (row->flags & CMD_NO_MULTI || row->plan == PLAN_COURSE)) {
        reject(t, c, row, "ERR Command not allowed inside a transaction");
        return false;
    }
    if (__builtin_expect((row->flags & CMD_PROTECTED) != 0, 0)) {
        int debug = t->config->enable_debug_command;
        if (debug == 0 || (debug == 2 && !c->local)) {
            reject(t, c, row,
                "ERR DEBUG command not allowed. If the enable-debug-command option is set to \"local\", you can run it from a local "
                "connection, "
                "otherwise you need to set this option in the configuration file, and then restart the server.");
            return false;
        }
    }
    return true;
}

/* The row of the command, with the right number of arguments. NULL: an error was replied. */
static const struct command *find_row(struct thread *t, struct conn *c, const struct arg *argv, uint32_t argc) {
    const struct command *row = c->row = command_find(argv[0].p, argv[0].size);
    if (__builtin_expect(!row, 0)) {
        unknown_command(t, c, argv, argc);
        return NULL;
    }
    if (__builtin_expect(row->subcommands != NULL, 0) && argc > 1) {
        const struct command *sub = command_find_sub(row, argv[1].p, argv[1].size);
        if (!sub) {
            if (!(row->flags & CMD_PROTECTED)) c->row = NULL;
            unknown_subcommand(t, c, row, &argv[1]);
            return NULL;
        }
        c->row = row = sub;
    }
    if (__builtin_expect(row->arity > 0 ? (uint32_t)row->arity != argc : argc < (uint32_t)-row->arity, 0)) {
        wrong_arity(t, c, row, argv);
        return NULL;
    }
    return row;
}

static bool exclusive(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    if (t->n_threads > 1 || !may_run_alone(t)) {
        if (!conn_drained(t, c)) return false;
        task_start_exclusive(t, c, row, argv, argc, &(struct key_range){0});
        return true;
    }
    struct hop *h = add_hop(t, c, row, t->id, argv, argc);
    if (!h) return true;
    h->run = spread_on_one;
    h->n_keys = 0;
    h->hash = 0;
    h->flags |= HOP_NO_KEY;
    outbox_flush(t); /* at once: commands without a shard, as CONFIG GET, do not wait for it */
    return true;
}

/* By its plan. False: it must wait for its connection's earlier commands. */
static bool begin(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    switch ((enum plan)row->plan) {
    case PLAN_SINGLE: single(t, c, row, argv, argc); return true;
    case PLAN_CONNECTION: on_connection(t, c, row, argv, argc); return true;
    case PLAN_FANOUT:
    case PLAN_SPREAD: return several_keys(t, c, row, argv, argc);
    case PLAN_CURSOR: return cursor(t, c, row, argv, argc);
    case PLAN_ALL:
        if (!conn_drained(t, c)) return false;
        task_start_all(t, c, row, argv, argc);
        return true;
    case PLAN_DISK:
        if (!conn_drained(t, c)) return false;
        task_start_disk(t, c, row, argv, argc);
        return true;
    case PLAN_COURSE:
        if (!conn_drained(t, c)) return false;
        row->on_course(t, c, row, argv, argc);
        return true;
    case PLAN_EXCLUSIVE: return exclusive(t, c, row, argv, argc);
    case PLAN_BLOCKING: return waiting_start(t, c, row, argv, argc);
    case PLAN_TRANSACTION: return multi_dispatch(t, c, row, argv, argc);
    }
    abort();
}

/* What a loading server refuses, or one that can't save. */
static bool server_refuses(void) { return loading_is_running() || saving_refuses_writes(); }

static const char *refusal(uint32_t flags) {
    if (loading_is_running()) return flags & CMD_LOADING ? NULL : "LOADING Redis is loading the dataset in memory";
    if (!(flags & CMD_WRITE)) return NULL;
    return "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk. Commands that may modify the "
           "data set are disabled, because this "
           "instance is configured to report errors during writes if RDB snapshotting fails (stop-writes-on-bgsave-error option). Please "
           "check the Redis logs for details about "
           "the RDB error.";
}

bool dispatch(struct thread *t, struct conn *c, struct arg *argv, uint32_t argc) {
    const struct command *row = find_row(t, c, argv, argc);
    if (__builtin_expect(!row, 0) || !allowed(t, c, row)) return true;
    uint32_t flags = __builtin_expect(c->multi != NULL, 0) ? multi_flags(c, row) : row->flags;
    if (__builtin_expect(budget_exceeded(&t->server->budget), 0) && flags & CMD_DENYOOM) {
        reject(t, c, row, "OOM command not allowed when used memory > 'maxmemory'.");
        return true;
    }
    if (__builtin_expect(server_refuses(), 0)) {
        const char *why = refusal(flags);
        if (why) {
            reject(t, c, row, why);
            return true;
        }
    }
    if (__builtin_expect(t->pause_until_ns != 0, 0) && pause_holds(t, c, flags)) return false;
    if (multi_queues(c, row)) {
        multi_queue(t, c, row, argv, argc);
        return true;
    }
    if (!begin(t, c, row, argv, argc)) return false;
    t->stats.commands++;
    if (__builtin_expect(t->monitored, 0) && row->plan != PLAN_TRANSACTION) monitor_feed(t, c, row, argv, argc);
    return true;
}
