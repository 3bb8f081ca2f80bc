#include "server/debug_table.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/info_figures.h"

#define SLICE_SEGMENTS 64u /* of one slice: about 100 us */

typedef unsigned long long ull;

/* What a piece begins with. */
enum outcome { STATS_THERE, NO_NUMBER, NO_DATABASE, NO_SUBCOMMAND };

static enum outcome database_of(const struct shard *s, const struct hop *h, int64_t *n) {
    if (h->argc > 4 || (h->argc == 4 && !arg_is(&h->argv[3], "full"))) return NO_SUBCOMMAND;
    if (!parse_int64(h->argv[2].p, h->argv[2].size, n)) return NO_NUMBER;
    return *n >= 0 && *n < s->n_dbs ? STATS_THERE : NO_DATABASE;
}

/* The statistics so far stand in the piece; the state is where the walk is. */
enum hop_result debug_htstats(struct shard *s, struct hop *h, struct reply *r) {
    int64_t n;
    struct table_stats stats;
    if (!h->state) {
        char outcome = (char)database_of(s, h, &n);
        reply_bytes(r, &outcome, 1);
        if (outcome != STATS_THERE) return HOP_DONE;
        table_stats(&s->dbs[n]->keys, &stats);
        reply_bytes(r, (const char *)&stats, sizeof stats);
    }
    if (r->failed || database_of(s, h, &n) != STATS_THERE) return HOP_DONE;
    char *at = r->p + r->size - sizeof stats;
    memcpy(&stats, at, sizeof stats);
    h->state = table_stats_walk(&s->dbs[n]->keys, h->state, SLICE_SEGMENTS, &stats);
    memcpy(at, &stats, sizeof stats);
    return h->state ? HOP_AGAIN : HOP_DONE;
}

static double percent(uint64_t part, uint64_t of) { return of ? 100.0 * (double)part / (double)of : 0.0; }

static void share(struct text *x, const char *name, uint64_t n, const struct table_stats *t) {
    text_add(x, " %s: %llu (%.2f %%)\n", name, (ull)n, percent(n, t->home + t->neighbour + t->stash + t->chain));
}

static void describe(struct text *x, const struct table_stats *t) {
    text_add(x, " keys: %llu\n directory: depth %u, %llu words%s\n segments: %llu", (ull)t->entries, t->depth, (ull)t->directory_size,
        t->grow_due ? ", doubling is due" : "", (ull)t->segments);
    const char *before = " (";
    for (unsigned depth = 0; depth <= HASH_DIRECTORY_BITS; depth++) {
        if (!t->at_depth[depth]) continue;
        text_add(x, "%sdepth %u: %llu", before, depth, (ull)t->at_depth[depth]);
        before = ", ";
    }
    text_add(x, "%s\n buckets: %llu\n slots: %llu\n load: %.4f\n", t->segments ? ")" : "", (ull)t->buckets, (ull)t->slots,
        percent(t->entries, t->slots) / 100);
    share(x, "home", t->home, t);
    share(x, "neighbour", t->neighbour, t);
    share(x, "stash", t->stash, t);
    share(x, "chain", t->chain, t);
    text_add(x, " chain buckets: %llu\n bytes: %llu\n bytes a key: %.2f\n", (ull)t->chain_buckets, (ull)t->bytes,
        t->entries ? (double)t->bytes / (double)t->entries : 0.0);
    text_add(x, " splits: %llu\n merges: %llu\n growth withheld: %llu\n fill of segments, by sixteenths:", (ull)t->splits, (ull)t->merges,
        (ull)t->withheld);
    for (size_t i = 0; i < sizeof t->fill / sizeof *t->fill; i++) text_add(x, " %llu", (ull)t->fill[i]);
    text_add(x, "\n");
}

static void refuse(enum outcome outcome, struct reply *r) {
    if (outcome == NO_NUMBER) reply_error(r, "ERR value is not an integer or out of range");
    else if (outcome == NO_DATABASE) reply_error(r, "ERR Out of range database");
    else reply_syntax_error(r);
}

void debug_htstats_merge(const struct hop *h, struct reply *const *pieces, uint32_t n, struct reply *r) {
    struct text x = {malloc(4096), 0, 4096};
    struct table_stats all = {0}, *each = calloc(n, sizeof *each);
    bool enough = x.p && each;
    for (uint32_t i = 0; i < n && enough; i++) {
        if (pieces[i]->p[0] != STATS_THERE) {
            refuse((enum outcome)pieces[i]->p[0], r);
            free(x.p);
            free(each);
            return;
        }
        memcpy(&each[i], pieces[i]->p + 1, sizeof each[i]);
        table_stats_add(&all, &each[i]);
    }
    if (enough) {
        text_add(&x, "[database %.*s]\n", (int)h->argv[2].size, h->argv[2].p);
        describe(&x, &all);
        for (uint32_t i = 0; h->argc > 3 && i < n; i++) {
            text_add(&x, "[shard %u]\n", i);
            describe(&x, &each[i]);
        }
        reply_verbatim(r, "txt", x.p, x.size);
    } else reply_no_memory(r);
    free(x.p);
    free(each);
}

/* Values that have a table of their own are to come. */
enum hop_result debug_htstats_key(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    if (h->argc > 4 || (h->argc == 4 && !arg_is(&h->argv[3], "full"))) reply_syntax_error(r);
    else if (!key_look(s, s->dbs[h->db], h->hash, h->argv[2].p, h->argv[2].size, &k)) reply_error(r, "ERR no such key");
    else reply_error(r, "ERR The value stored at the specified key is not represented using an hash table");
    return HOP_DONE;
}
