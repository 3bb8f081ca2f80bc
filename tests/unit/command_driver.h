/* Runs commands on shards without a server: the row's functions, as its plan says, and compares the reply's bytes. For tests of command families. */
#ifndef TESTS_COMMAND_DRIVER_H
#define TESTS_COMMAND_DRIVER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/command.h"
#include "server/config.h"
#include "server/route.h"
#include "server/scan.h"
#include "server/thread.h"
#include "shard/blob.h"
#include "shard/keyspace.h"
#include "shard/memory.h"
#include "shard/shard.h"

#define DRIVER_SHARDS_MAX 4u
#define DRIVER_ARGS_MAX 3000u
#define DRIVER_START_MS INT64_C(1700000000000)
#define DRIVER_DATABASES 4u

/* The rows lead to functions that name it; none of them runs here. Weak: main.c has it, which is not linked. */
__attribute__((weak)) struct server server;

struct driver {
    struct hash_secret secret;
    struct shard *shards[DRIVER_SHARDS_MAX];
    uint32_t n;
    uint16_t db;
    struct reply out;
    char text[100000]; /* the arguments' bytes */
    struct arg argv[DRIVER_ARGS_MAX];
    uint32_t argc;
    uint64_t hashes[DRIVER_ARGS_MAX];
};

static struct driver *driver_new(uint32_t shards) {
    struct driver *d = calloc(1, sizeof *d);
    uint8_t seed[32] = {9};
    static bool ready;
    if (!ready) {
        char name[] = "test", *argv[] = {name, NULL};
        bool exit_now;
        assert_int_equal(config_load(1, argv, &exit_now), 0);
        commands_init();
    }
    ready = true;
    hash_secret_init(&d->secret, seed);
    d->n = shards;
    d->out.resp = 2;
    for (uint32_t i = 0; i < shards; i++) {
        struct shard_options o = {
            .id = i, .shards = shards, .databases = DRIVER_DATABASES, .secret = &d->secret, .seed = i + 1, .now_ms = DRIVER_START_MS};
        d->shards[i] = shard_new(&o);
    }
    return d;
}

/* The replies' references go back to their shards. */
static void driver_clear(struct driver *d, struct reply *r) {
    for (uint32_t i = 0; i < r->n_refs; i++)
        if (r->refs[i].blob) blob_release(d->shards[r->refs[i].blob->shard]->memory, r->refs[i].blob);
    r->n_refs = 0;
    r->refs_bytes = 0;
    r->size = 0;
}

static void driver_drop(struct driver *d) {
    driver_clear(d, &d->out);
    reply_drop(&d->out);
    for (uint32_t i = 0; i < d->n; i++) {
        for (uint32_t j = 0; j < DRIVER_DATABASES; j++) assert_null(table_check(&d->shards[i]->dbs[j]->keys));
        shard_drop(d->shards[i]);
    }
    free(d);
}

static __attribute__((unused)) void driver_wait(struct driver *d, int64_t ms) {
    for (uint32_t i = 0; i < d->n; i++) d->shards[i]->now_ms += ms;
}

/* Splits a line at spaces; "..." holds spaces, and \xHH anywhere a byte. */
static void driver_split(struct driver *d, const char *line) {
    char *to = d->text;
    d->argc = 0;
    while (*line) {
        bool quoted = *line == '"';
        struct arg *a = &d->argv[d->argc++];
        *a = (struct arg){.p = to};
        for (line += quoted; *line && *line != (quoted ? '"' : ' '); line++) {
            unsigned byte = (unsigned char)*line;
            if (line[0] == '\\' && line[1] == 'x' && sscanf(line + 2, "%2x", &byte) == 1) line += 3;
            *to++ = (char)byte;
        }
        a->size = (uint32_t)(to - a->p);
        line += quoted && *line;
        line += *line == ' ';
    }
}

static uint32_t driver_shard(const struct driver *d, const struct arg *key, uint64_t hash) {
    return route_shard(route_slot(&d->secret, key, hash), d->n);
}

static void driver_hop(struct shard *s, hop_fn *run, struct hop *h, struct reply *r) {
    h->run = run;
    hop_run_whole(s, h, r);
}

static void driver_merge_list(struct driver *d, const struct reply *pieces, uint32_t n) {
    struct list_chunk chunk;
    uint64_t elements = 0;
    struct reply all = {0};
    for (uint32_t i = 0; i < n; i++)
        for (size_t at = 0; at < pieces[i].size; at += sizeof chunk + chunk.bytes) {
            memcpy(&chunk, pieces[i].p + at, sizeof chunk);
            reply_bytes(&all, pieces[i].p + at + sizeof chunk, chunk.bytes);
            elements += chunk.elements;
        }
    reply_array(&d->out, elements);
    reply_bytes(&d->out, all.p, all.size);
    reply_drop(&all);
}

/* Sums, joins or merges the pieces into out. */
static void driver_merge(struct driver *d, const struct command *row, const struct hop *h, struct reply *pieces, uint32_t n) {
    struct reply *list[DRIVER_ARGS_MAX];
    int64_t sum = 0;
    for (uint32_t i = 0; i < n; i++) list[i] = &pieces[i];
    if (row->merge == MERGE_CUSTOM) row->merge_custom(h, list, n, &d->out);
    if (row->merge == MERGE_EACH) reply_array(&d->out, n);
    for (uint32_t i = 0; i < n; i++) {
        if (row->merge == MERGE_EACH) reply_take(&d->out, &pieces[i], 0, pieces[i].size);
        if (row->merge == MERGE_SUM) sum += strtoll(pieces[i].p + 1, NULL, 10);
        if (row->merge == MERGE_OK && !i) reply_bytes(&d->out, pieces[i].p, pieces[i].size);
    }
    if (row->merge == MERGE_SUM) reply_int(&d->out, sum);
    if (row->merge == MERGE_LIST) driver_merge_list(d, pieces, n);
}

static void driver_pieces_drop(struct driver *d, struct reply *pieces, uint32_t n) {
    for (uint32_t i = 0; i < n; i++) {
        driver_clear(d, &pieces[i]);
        reply_drop(&pieces[i]);
    }
    free(pieces);
}

/* One piece a key. */
static void driver_fanout(struct driver *d, const struct command *row, const struct hop *whole) {
    struct reply *pieces = calloc(whole->n_keys, sizeof *pieces);
    for (uint32_t i = 0; i < whole->n_keys; i++) {
        struct arg argv[3] = {d->argv[0]};
        for (uint32_t j = 0; j < whole->key_step; j++) argv[1 + j] = d->argv[whole->key_first + i * whole->key_step + j];
        struct hop h = *whole;
        h.hash = d->hashes[i];
        h.hashes = NULL;
        h.argv = argv;
        h.argc = 1u + whole->key_step;
        h.key_first = 1;
        h.n_keys = 1;
        h.flags |= HOP_PIECE;
        pieces[i].resp = d->out.resp;
        driver_hop(d->shards[driver_shard(d, &argv[1], h.hash)], row->on_shard, &h, &pieces[i]);
    }
    driver_merge(d, row, whole, pieces, whole->n_keys);
    driver_pieces_drop(d, pieces, whole->n_keys);
}

static void driver_all(struct driver *d, const struct command *row, const struct hop *whole) {
    struct reply *pieces = calloc(d->n, sizeof *pieces);
    for (uint32_t i = 0; i < d->n; i++) {
        struct hop h = *whole;
        h.flags |= HOP_PIECE;
        pieces[i].resp = d->out.resp;
        driver_hop(d->shards[i], row->on_shard, &h, &pieces[i]);
    }
    driver_merge(d, row, whole, pieces, d->n);
    driver_pieces_drop(d, pieces, d->n);
}

static void driver_cursor(struct driver *d, const struct command *row, struct hop *h) {
    uint32_t s = cursor_shard(&d->argv[1], d->n), n = 0;
    if (d->n == 1) {
        driver_hop(d->shards[0], row->on_shard, h, &d->out);
        return;
    }
    struct reply *pieces = calloc(d->n, sizeof *pieces);
    h->flags |= HOP_PIECE;
    do {
        pieces[n].resp = d->out.resp;
        driver_hop(d->shards[s++], row->on_shard, h, &pieces[n]);
    } while ((h->state = scan_goes_on(&pieces[n++])));
    driver_merge(d, row, h, pieces, n);
    driver_pieces_drop(d, pieces, n);
}

/* Runs d->argv; the reply's bytes are in d->out, large values in its refs. */
static void driver_run_args(struct driver *d) {
    const struct command *row = command_find(d->argv[0].p, d->argv[0].size);
    assert_non_null(row);
    if (row->subcommands) row = command_find_sub(row, d->argv[1].p, d->argv[1].size);
    assert_non_null(row);
    struct hop h = {.argv = d->argv,
        .argc = d->argc,
        .db = d->db,
        .resp = d->out.resp,
        .flags = row->flags & CMD_WRITE ? HOP_WRITE : 0,
        .row = row->number};
    struct key_range keys;
    bool one = true, even = command_keys(row, d->argv, d->argc, &keys);
    h.key_first = keys.first;
    h.key_step = keys.step;
    h.n_keys = even ? keys.n : (d->argc - 1 - h.key_first) / h.key_step + 1;
    driver_clear(d, &d->out);
    if (row->arity > 0 ? d->argc != (uint32_t)row->arity : d->argc < (uint32_t)-row->arity) {
        reply_error(&d->out, "ERR wrong number of arguments");
        return;
    }
    if (h.n_keys) {
        h.hashes = d->hashes;
        for (uint32_t i = 0; i < h.n_keys; i++) {
            const struct arg *key = hop_key(&h, i);
            d->hashes[i] = hash_key(&d->secret, key->p, key->size);
            one &= driver_shard(d, key, d->hashes[i]) == driver_shard(d, hop_key(&h, 0), d->hashes[0]);
        }
        h.hash = d->hashes[0];
        if (h.n_keys == 1) h.hashes = NULL;
    }
    struct shard **first = &d->shards[h.n_keys ? driver_shard(d, hop_key(&h, 0), h.hash) : 0];
    one &= !keys.anywhere;
    struct spread x = one ? (struct spread){first, 1} : (struct spread){d->shards, d->n};
    switch ((enum plan)row->plan) {
    case PLAN_SINGLE: driver_hop(*first, row->on_shard, &h, &d->out); break;
    case PLAN_SPREAD:
        if (one && row->on_shard && !(row->flags & CMD_SLICED)) {
            driver_hop(*first, row->on_shard, &h, &d->out);
            break;
        }
        row->on_spread(&x, &h, &d->out);
        if (h.state) driver_hop(d->shards[0], row->on_shard, &h, &d->out);
        break;
    case PLAN_FANOUT:
        if (one) driver_hop(*first, row->on_shard, &h, &d->out);
        else driver_fanout(d, row, &h);
        break;
    case PLAN_ALL: driver_all(d, row, &h); break;
    case PLAN_CURSOR: driver_cursor(d, row, &h); break;
    default: fail_msg("no plan for %s", row->name);
    }
}

/* The reply's bytes, with what its refs refer to put in, and '|' for CR LF; NUL-terminated, for the caller to free. */
static char *driver_reply(const struct driver *d, size_t *size) {
    char *text = malloc(d->out.size + d->out.refs_bytes + 1), *to = text;
    uint32_t ref = 0;
    for (size_t i = 0; i <= d->out.size; i++) {
        for (; ref < d->out.n_refs && d->out.refs[ref].at == i; ref++) {
            memcpy(to, d->out.refs[ref].blob->bytes + d->out.refs[ref].start, d->out.refs[ref].size);
            to += d->out.refs[ref].size;
        }
        if (i == d->out.size) break;
        if (d->out.p[i] == '\r') *to++ = '|';
        else if (d->out.p[i] != '\n') *to++ = d->out.p[i];
    }
    *to = 0;
    if (size) *size = (size_t)(to - text);
    return text;
}

static char *driver_run(struct driver *d, const char *line) {
    driver_split(d, line);
    driver_run_args(d);
    return driver_reply(d, NULL);
}

static void driver_expect(struct driver *d, const char *line, const char *expected, const char *file, int at) {
    char *got = driver_run(d, line);
    if (strcmp(got, expected)) {
        print_error("%s:%d: %u shards: %s\n    expected %s\n    got      %s\n", file, at, d->n, line, expected, got);
        fail();
    }
    free(got);
}
/* Runs a line and compares the reply, in which | stands for CR LF. */
#define EXPECT(d, line, expected) driver_expect(d, line, expected, __FILE__, __LINE__)

/* Runs a test body with one shard, and with three. */
static void driver_each(void (*body)(struct driver *d)) {
    for (uint32_t n = 1; n <= 3; n += 2) {
        struct driver *d = driver_new(n);
        body(d);
        driver_drop(d);
    }
}

#endif
