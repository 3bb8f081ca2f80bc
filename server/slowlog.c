#include "server/slowlog.h"

#include <stdlib.h>

#include "server/slow.h"
#include "server/thread.h"

/* How many entries of all threads count: each thread keeps up to slowlog-max-len. */
static uint64_t length_max(void) { return (uint64_t)config_current()->slowlog_max_len; }

/* ---- GET ---- */

static bool wanted(const struct hop *h, int64_t *count, struct reply *r) {
    *count = 10;
    if (h->argc > 3) reply_subcommand_error(r, &h->argv[1], "SLOWLOG");
    else if (h->argc == 3 && (!parse_int64(h->argv[2].p, h->argv[2].size, count) || *count < -1))
        reply_error(r, "ERR count should be greater than or equal to -1");
    else return true;
    return false;
}

/* A piece: entries, newest first: this, then the entry as a RESP value of that many bytes. */
struct piece {
    uint64_t id, bytes;
};

static void reply_entry(struct reply *r, const struct slow *s) {
    reply_array(r, 6);
    reply_int(r, (int64_t)s->id);
    reply_int(r, s->at_s);
    reply_int(r, (int64_t)s->us);
    reply_array(r, s->argc);
    for (uint32_t i = 0; i < s->argc; i++) reply_bulk(r, s->args[i] ? s->args[i] : "", s->sizes[i]);
    reply_bulk_text(r, s->peer ? s->peer : "");
    reply_bulk_text(r, s->name ? s->name : "");
}

static enum hop_result get_piece(struct shard *s, struct hop *h, struct reply *r) {
    const struct measure *m = &server.threads[s->id]->measure;
    int64_t count;
    if (!wanted(h, &count, r)) return HOP_DONE;
    uint64_t most = count < 0 || (uint64_t)count > length_max() ? length_max() : (uint64_t)count;
    for (uint32_t i = 0; i < m->slow_n && i < most; i++) {
        const struct slow *entry = &m->slow[(m->slow_first + m->slow_n - 1 - i) % m->slow_capacity];
        struct piece piece = {.id = entry->id};
        size_t at = r->size;
        reply_bytes(r, (const char *)&piece, sizeof piece);
        reply_entry(r, entry);
        if (r->failed) break;
        piece.bytes = r->size - at - sizeof piece;
        memcpy(r->p + at, &piece, sizeof piece);
    }
    return HOP_DONE;
}

/* The piece whose next entry is the newest of all, or n. */
static uint32_t newest(struct reply *const *pieces, const size_t *at, uint32_t n, struct piece *out) {
    uint32_t best = n;
    for (uint32_t i = 0; i < n; i++) {
        struct piece piece;
        if (at[i] + sizeof piece > pieces[i]->size) continue;
        memcpy(&piece, pieces[i]->p + at[i], sizeof piece);
        if (best != n && piece.id < out->id) continue;
        best = i;
        *out = piece;
    }
    return best;
}

static void get_merge(const struct hop *h, struct reply *const *pieces, uint32_t n, struct reply *r) {
    struct reply all = {.resp = r->resp};
    size_t *at = calloc(n, sizeof *at), found = 0;
    struct piece piece = {0};
    int64_t count;
    if (!wanted(h, &count, r)) {
        free(at);
        return;
    }
    uint64_t most = count < 0 || (uint64_t)count > length_max() ? length_max() : (uint64_t)count;
    for (uint32_t i; at && found < most && (i = newest(pieces, at, n, &piece)) < n; found++) {
        reply_bytes(&all, pieces[i]->p + at[i] + sizeof piece, piece.bytes);
        at[i] += sizeof piece + piece.bytes;
    }
    if (!at || all.failed) reply_no_memory(r);
    else {
        reply_array(r, found);
        reply_bytes(r, all.p ? all.p : "", all.size);
    }
    reply_drop(&all);
    free(at);
}

/* ---- LEN, RESET ---- */

static enum hop_result len_piece(struct shard *s, struct hop *h, struct reply *r) {
    uint64_t n = server.threads[s->id]->measure.slow_n;
    (void)h;
    reply_bytes(r, (const char *)&n, sizeof n);
    return HOP_DONE;
}

static void len_merge(const struct hop *h, struct reply *const *pieces, uint32_t n, struct reply *r) {
    uint64_t sum = 0, one;
    (void)h;
    for (uint32_t i = 0; i < n; i++) {
        if (pieces[i]->size != sizeof one) continue;
        memcpy(&one, pieces[i]->p, sizeof one);
        sum += one;
    }
    reply_int(r, (int64_t)(sum < length_max() ? sum : length_max()));
}

static enum hop_result reset_piece(struct shard *s, struct hop *h, struct reply *r) {
    (void)h;
    slow_resize(&server.threads[s->id]->measure, 0);
    reply_ok(r);
    return HOP_DONE;
}

/* ---- the rows ---- */

const char *const slowlog_help[] = {"GET [<count>]", "    Return top <count> entries from the slowlog (default: 10, -1 mean all).",
    "    Entries are made of:", "    id, timestamp, time in microseconds, arguments array, client IP and port,", "    client name", "LEN",
    "    Return the length of the slowlog.", "RESET", "    Reset the slowlog.", NULL};

#define FLAGS (CMD_ADMIN | CMD_LOADING | CMD_STALE)
static const char *const get_hints[] = {"request_policy:all_nodes", "nondeterministic_output", NULL};
static const char *const len_hints[] = {"request_policy:all_nodes", "response_policy:agg_sum", "nondeterministic_output", NULL};
static const char *const reset_hints[] = {"request_policy:all_nodes", "response_policy:all_succeeded", NULL};

const struct command slowlog_subcommands[] = {{.name = "len",
                                                  .since = "2.2.12",
                                                  .summary = "Get the slow log's length",
                                                  .complexity = "O(1)",
                                                  .arity = 2,
                                                  .plan = PLAN_ALL,
                                                  .merge = MERGE_CUSTOM,
                                                  .flags = FLAGS,
                                                  .on_shard = len_piece,
                                                  .on_beside = len_piece,
                                                  .merge_custom = len_merge,
                                                  .hints = len_hints},
    {.name = "help",
        .since = "6.2.0",
        .summary = "Show helpful text about the different subcommands",
        .complexity = "O(1)",
        .arity = 2,
        .flags = CMD_LOADING | CMD_STALE},
    {.name = "get",
        .since = "2.2.12",
        .summary = "Get the slow log's entries",
        .complexity = "O(N) where N is the number of entries returned",
        .arity = -2,
        .plan = PLAN_ALL,
        .merge = MERGE_CUSTOM,
        .flags = FLAGS,
        .on_shard = get_piece,
        .on_beside = get_piece,
        .merge_custom = get_merge,
        .hints = get_hints},
    {.name = "reset",
        .since = "2.2.12",
        .summary = "Clear all entries from the slow log",
        .complexity = "O(N) where N is the number of entries in the slowlog",
        .arity = 2,
        .plan = PLAN_ALL,
        .merge = MERGE_OK,
        .flags = FLAGS,
        .on_shard = reset_piece,
        .on_beside = reset_piece,
        .hints = reset_hints},
    {0}};
