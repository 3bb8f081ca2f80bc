/* INFO's pieces and their sum. What the sections say: info_sections.c. */
#include "server/info.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "server/conn.h"
#include "server/info_figures.h"
#include "server/loading.h"
#include "shard/table_internal.h"

#define CLIENTS_SLICE 1024u /* connections that are looked at in one slice: some 50 us */
#define TTL_DRAWS 256u      /* keys that a shard draws at most to estimate a database's avg_ttl, */
#define TTL_ENOUGH 16u      /* and those with an expiry time that are enough */

/* ---- a piece ---- */

/* MEMORY STATS and the like ask with no section at all, which means the usual ones. */
static bool wants(const struct hop *h, const char *section, bool by_default) {
    bool named = false;
    for (uint32_t a = 1; a < h->argc; a++) {
        if (arg_is(&h->argv[a], section) || arg_is(&h->argv[a], "all") || arg_is(&h->argv[a], "everything")) return true;
        named = true;
        if (by_default && arg_is(&h->argv[a], "default")) return true;
    }
    return by_default && (!named || command_by_number(h->row)->parent);
}

static uint64_t draw(void *s) { return shard_random(s); }

static void estimate_ttl(struct shard *s, const struct db *db, struct db_figures *d) {
    for (uint32_t i = 0; db->expiring && i < TTL_DRAWS && d->ttls < TTL_ENOUGH; i++) {
        const table_slot *slot = table_random(&db->keys, draw, s);
        const struct entry *e = slot ? table_entry(*slot) : NULL;
        if (!e || !entry_expires(e)) continue;
        int64_t left = entry_expiry(e) - s->now_ms;
        d->ttl_sum_ms += left > 0 ? (uint64_t)left : 0;
        d->ttls++;
    }
}

static void rates(const struct thread *t, struct figures *f) {
    struct sample before = measure_before(&t->measure, t->now_ns);
    double s = (double)(t->now_ns - before.at_ns) / 1e9;
    if (!before.at_ns || s < 0.001) return;
    f->commands_a_second = (double)(t->stats.commands - before.commands) / s;
    f->input_kbps = (double)(t->stats.input_bytes - before.input_bytes) / 1024 / s;
    f->output_kbps = (double)(t->stats.output_bytes - before.output_bytes) / 1024 / s;
}

static uint64_t table_bytes(const struct table *t) {
    uint64_t words = t->directory ? (uint64_t)1 << t->depth : 0;
    if (t->resized) words += (uint64_t)1 << t->resized_depth;
    return t->segments * sizeof(struct segment) + t->chained * sizeof(struct bucket) + words * sizeof *t->directory;
}

static void append(struct reply *r, const void *p, size_t size) { reply_bytes(r, p, size); }

static void append_commands(const struct measure *m, bool histograms, struct reply *r) {
    for (uint32_t i = 1; i < COMMAND_ROWS_MAX; i++) {
        struct command_figures c = {.row = i, .stats = m->commands[i]};
        if (!c.stats.calls && !c.stats.rejected) continue;
        c.with_histogram = histograms && c.stats.histogram;
        append(r, &c, sizeof c);
        if (c.with_histogram) append(r, c.stats.histogram, sizeof *c.stats.histogram);
    }
}

static void shard_figures(const struct shard *s, struct figures *f) {
    f->shard = s->stats;
    f->schedule = s->schedule.stats;
    memory_stats(s->memory, &f->memory);
    for (uint32_t i = 0; i < s->n_dbs; i++) f->table_bytes += table_bytes(&s->dbs[i]->keys);
}

static void append_dbs(struct shard *s, const struct hop *h, struct reply *r) {
    bool keyspace = wants(h, "keyspace", true);
    for (uint32_t i = 0; i < s->n_dbs; i++) {
        struct db_figures d = {
            .keys = s->dbs[i]->keys.count, .expiring = s->dbs[i]->expiring, .table_bytes = table_bytes(&s->dbs[i]->keys)};
        if (keyspace) estimate_ttl(s, s->dbs[i], &d);
        append(r, &d, sizeof d);
    }
}

static void append_loaded_dbs(const struct shard *s, struct reply *r) {
    for (uint32_t i = 0; i < s->n_dbs; i++) {
        struct db_figures d = {0};
        loading_db_figures(s->id, i, &d.keys, &d.expiring);
        append(r, &d, sizeof d);
    }
}

/* beside: of the shard nothing is touched. */
static void first_part(struct shard *s, const struct hop *h, bool beside, struct reply *r) {
    struct thread *t = server.threads[s->id];
    struct figures f = {.thread = t->stats, .startup_bytes = t->startup_bytes, .n_dbs = s->n_dbs, .n_errors = t->measure.n_errors};
    f.with_slices = wants(h, "threads", false);
    if (beside) loading_figures(s->id, &f.shard, &f.memory);
    else shard_figures(s, &f);
    rates(t, &f);
    for (uint32_t i = 1; i < COMMAND_ROWS_MAX; i++) f.n_commands += t->measure.commands[i].calls || t->measure.commands[i].rejected;
    append(r, &f, sizeof f);
    if (beside) append_loaded_dbs(s, r);
    else append_dbs(s, h, r);
    append_commands(&t->measure, wants(h, "latencystats", false), r);
    append(r, t->measure.errors, t->measure.n_errors * sizeof *t->measure.errors);
    if (f.with_slices) append(r, t->measure.slices, SLICE_CAUSES * sizeof *t->measure.slices);
}

/* The state is 1 more than the next connection's place. */
static enum hop_result piece(struct shard *s, struct hop *h, bool beside, struct reply *r) {
    const struct thread *t = server.threads[s->id];
    if (!h->state) {
        first_part(s, h, beside, r);
        if (!wants(h, "clients", true) && !wants(h, "memory", true)) return HOP_DONE;
        h->state = 1;
    }
    struct client_figures f = {0};
    for (uint32_t n = 0; n < CLIENTS_SLICE && h->state <= t->n_slots; n++, h->state++) {
        const struct conn *c = t->slots[h->state - 1];
        if (!c || c->state == CONN_REMOVED) continue;
        uint64_t in = c->in ? c->in->capacity : 0,
                 out = c->out.size + c->out.refs_bytes + (c->stream.sending ? c->flight.size + c->flight.refs_bytes : 0);
        uint64_t refs = c->out.refs_bytes + c->flight.refs_bytes + atomic_load_explicit(&c->aside.refs, memory_order_relaxed),
                 bytes = conn_memory(c);
        f.bytes += bytes > refs ? bytes - refs : 0; /* these are the shards' */
        if (in > f.input_max) f.input_max = in;
        if (out > f.output_max) f.output_max = out;
    }
    append(r, &f, sizeof f);
    return h->state <= t->n_slots ? HOP_AGAIN : HOP_DONE;
}

enum hop_result info_piece(struct shard *s, struct hop *h, struct reply *r) { return piece(s, h, false, r); }
enum hop_result info_beside(struct shard *s, struct hop *h, struct reply *r) { return piece(s, h, true, r); }

enum hop_result info_reset_beside(struct shard *s, struct hop *h, struct reply *r) {
    struct thread_stats *t = &server.threads[s->id]->stats;
    (void)h;
    *t = (struct thread_stats){.clients = t->clients, .blocked = t->blocked, .blocked_in_time = t->blocked_in_time};
    measure_reset(&server.threads[s->id]->measure);
    reply_ok(r);
    return HOP_DONE;
}

enum hop_result info_reset(struct shard *s, struct hop *h, struct reply *r) {
    uint64_t dirty = s->stats.dirty;
    s->schedule.stats = (struct schedule_stats){0};
    s->stats = (struct shard_stats){.dirty = dirty};
    return info_reset_beside(s, h, r);
}

/* ---- the sum ---- */

static void add_db(struct db_figures *to, const struct db_figures *d) {
    to->keys += d->keys;
    to->expiring += d->expiring;
    to->table_bytes += d->table_bytes;
    to->ttl_sum_ms += d->ttl_sum_ms;
    to->ttls += d->ttls;
}

static const char *add_command(struct sums *s, const char *p) {
    struct command_figures c;
    memcpy(&c, p, sizeof c);
    p += sizeof c;
    struct command_stats *to = &s->commands[c.row];
    to->calls += c.stats.calls;
    to->cycles += c.stats.cycles;
    to->timed += c.stats.timed;
    to->rejected += c.stats.rejected;
    to->failed += c.stats.failed;
    if (!c.with_histogram) return p;
    if (!to->histogram) to->histogram = calloc(1, sizeof *to->histogram);
    struct histogram h;
    memcpy(&h, p, sizeof h);
    if (to->histogram) histogram_merge(to->histogram, &h);
    return p + sizeof h;
}

static void add_error(struct sums *s, const struct error_stats *e) {
    uint32_t i = 0;
    while (i < s->n_errors && strcmp(s->errors[i].word, e->word)) i++;
    if (i == MEASURE_ERRORS_MAX) return;
    if (i == s->n_errors) s->errors[s->n_errors++] = *e;
    else s->errors[i].count += e->count;
}

static void add_figures(struct figures *to, const struct figures *f) {
    to->shard.hits += f->shard.hits;
    to->shard.misses += f->shard.misses;
    to->shard.expired_lazy += f->shard.expired_lazy;
    to->shard.expired_active += f->shard.expired_active;
    to->shard.expired_fields += f->shard.expired_fields;
    to->shard.dirty += f->shard.dirty;
    to->shard.groups += f->shard.groups;
    to->shard.prefetched += f->shard.prefetched;
    to->shard.ahead += f->shard.ahead;
    to->memory.used += f->memory.used;
    to->memory.used_large += f->memory.used_large;
    to->memory.peak += f->memory.peak;
    to->memory.reserved += f->memory.reserved;
    to->thread.clients += f->thread.clients;
    to->thread.blocked += f->thread.blocked;
    to->thread.blocked_in_time += f->thread.blocked_in_time;
    to->thread.commands += f->thread.commands;
    to->thread.connections += f->thread.connections;
    to->thread.rejected += f->thread.rejected;
    to->thread.evicted_clients += f->thread.evicted_clients;
    to->thread.input_bytes += f->thread.input_bytes;
    to->thread.output_bytes += f->thread.output_bytes;
    to->thread.errors += f->thread.errors;
    to->thread.reads += f->thread.reads;
    to->thread.sends += f->thread.sends;
    to->thread.keep_ns += f->thread.keep_ns;
    to->thread.keep_unfinished += f->thread.keep_unfinished;
    if (f->thread.longest_keep_ns > to->thread.longest_keep_ns) to->thread.longest_keep_ns = f->thread.longest_keep_ns;
    to->table_bytes += f->table_bytes;
    to->startup_bytes += f->startup_bytes;
    to->commands_a_second += f->commands_a_second;
    to->input_kbps += f->input_kbps;
    to->output_kbps += f->output_kbps;
}

static void add_piece(struct sums *s, const struct reply *piece) {
    struct figures f;
    const char *p = piece->p + sizeof f;
    memcpy(&f, piece->p, sizeof f);
    add_figures(&s->all, &f);
    for (uint32_t i = 0; i < f.n_dbs; i++, p += sizeof(struct db_figures)) {
        struct db_figures d;
        memcpy(&d, p, sizeof d);
        if (i < s->n_dbs) add_db(&s->dbs[i], &d);
    }
    for (uint32_t i = 0; i < f.n_commands; i++) p = add_command(s, p);
    for (uint32_t i = 0; i < f.n_errors; i++, p += sizeof(struct error_stats)) {
        struct error_stats e;
        memcpy(&e, p, sizeof e);
        add_error(s, &e);
    }
    if (f.with_slices) p += SLICE_CAUSES * sizeof(struct slices);
    for (struct client_figures c; p + sizeof c <= piece->p + piece->size; p += sizeof c) {
        memcpy(&c, p, sizeof c);
        s->clients.bytes += c.bytes;
        if (c.input_max > s->clients.input_max) s->clients.input_max = c.input_max;
        if (c.output_max > s->clients.output_max) s->clients.output_max = c.output_max;
    }
}

const char *figures_of(const struct reply *piece, struct figures *f) {
    const char *p = piece->p + sizeof *f;
    memcpy(f, piece->p, sizeof *f);
    if (!f->with_slices) return NULL;
    p += f->n_dbs * sizeof(struct db_figures);
    for (uint32_t i = 0; i < f->n_commands; i++) {
        struct command_figures c;
        memcpy(&c, p, sizeof c);
        p += sizeof c + (c.with_histogram ? sizeof(struct histogram) : 0);
    }
    return p + f->n_errors * sizeof(struct error_stats);
}

static void read_resident(struct sums *s) {
    FILE *f = fopen("/proc/self/statm", "r");
    unsigned long long total, pages = 0, shared = 0;
    if (f && fscanf(f, "%llu %llu %llu", &total, &pages, &shared) != 3) pages = shared = 0;
    if (f) fclose(f);
    s->resident = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    s->anonymous = (pages > shared ? pages - shared : 0) * (uint64_t)sysconf(_SC_PAGESIZE);
}

bool sums_make(struct sums *s, struct reply *const *pieces, uint32_t n) {
    *s = (struct sums){.pieces = pieces, .n = n, .n_dbs = (uint32_t)config_current()->databases};
    s->commands = calloc(COMMAND_ROWS_MAX, sizeof *s->commands);
    s->dbs = calloc(s->n_dbs, sizeof *s->dbs);
    if (!s->commands || !s->dbs) return false;
    for (uint32_t i = 0; i < n; i++) add_piece(s, pieces[i]);
    s->used = s->all.memory.used + s->clients.bytes;
    s->peak = s->all.memory.peak > s->used ? s->all.memory.peak : s->used;
    read_resident(s);
    return true;
}

void sums_drop(struct sums *s) {
    for (uint32_t i = 0; s->commands && i < COMMAND_ROWS_MAX; i++) free(s->commands[i].histogram);
    free(s->commands);
    free(s->dbs);
}

/* ---- the text ---- */

void text_add(struct text *x, const char *format, ...) {
    for (;;) {
        va_list args;
        va_start(args, format);
        int n = vsnprintf(x->p + x->size, x->capacity - x->size, format, args);
        va_end(args);
        if (n < 0) return;
        if (x->size + (size_t)n < x->capacity) {
            x->size += (size_t)n;
            return;
        }
        size_t capacity = x->capacity * 2 + (size_t)n;
        char *p = realloc(x->p, capacity);
        if (!p) return;
        x->p = p;
        x->capacity = capacity;
    }
}

void text_human(uint64_t bytes, char out[32]) {
    static const char units[] = "BKMGTPE";
    double v = (double)bytes;
    int unit = 0;
    for (; v >= 1024 && unit < 6; unit++) v /= 1024;
    if (unit) snprintf(out, 32, "%.2f%c", v, units[unit]);
    else snprintf(out, 32, "%lluB", (unsigned long long)bytes);
}

static bool asked_for(const struct hop *h, const struct section *section) {
    if (h->argc == 1) return section->by_default;
    for (uint32_t a = 1; a < h->argc; a++) {
        const struct arg *name = &h->argv[a];
        if (arg_is(name, "all") || arg_is(name, "everything") || arg_is(name, section->name)) return true;
        if (section->by_default && arg_is(name, "default")) return true;
        if (!strcmp(section->name, "modules") && arg_is(name, "module_list")) return true;
    }
    return false;
}

void info_merge(const struct hop *h, struct reply *const *pieces, uint32_t n, struct reply *r) {
    struct sums s;
    struct text x = {malloc(8192), 0, 8192};
    if (!sums_make(&s, pieces, n) || !x.p) reply_no_memory(r);
    else {
        for (const struct section *section = info_sections; section->name; section++) {
            if (!asked_for(h, section)) continue;
            if (x.size) text_add(&x, "\r\n");
            section->write(&x, &s);
        }
        reply_verbatim(r, "txt", x.p, x.size);
    }
    free(x.p);
    sums_drop(&s);
}
