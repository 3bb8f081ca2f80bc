/* In this file: sources; names, and where results go; walking in groups; combinations; lists. */
#include "server/set_combine.h"

#include <mimalloc.h>
#include <stdlib.h>

#include "server/sets.h"
#include "shard/memory.h"

bool sources_new(struct sources *o, uint32_t most) {
    o->n = 0;
    o->sets = most <= SOURCES_FEW ? o->few : mi_malloc(most * sizeof *o->sets);
    return o->sets;
}

void sources_drop(struct sources *o) {
    if (o->sets != o->few) mi_free(o->sets);
}

static const void *place_of(const struct set *x) {
    return x->ints ? (const void *)x->ints : x->fields.map ? (const void *)x->fields.map : (const void *)x->fields.page;
}

/* Sets of one size are in the same order in each slice. */
static int by_count(const void *a, const void *b) {
    uint64_t x = set_count(a), y = set_count(b);
    uintptr_t at = (uintptr_t)place_of(a), other = (uintptr_t)place_of(b);
    return x != y ? (x > y) - (x < y) : (at > other) - (at < other);
}
static int by_count_descending(const void *a, const void *b) { return by_count(b, a); }

static bool is_same(const struct set *a, const struct set *b) { return place_of(a) == place_of(b); }

/* ---- names, and where results go ---- */

#define CHUNK_FIRST 1024u
#define CHUNK_MOST (256u << 10)

static bool names_grow(struct names *l, size_t needs) {
    size_t capacity = !l->last ? CHUNK_FIRST : l->last->capacity < CHUNK_MOST ? 2 * l->last->capacity : CHUNK_MOST;
    if (capacity < needs) capacity = needs;
    struct names_chunk *c = mi_malloc(sizeof *c + capacity);
    if (!c) return false;
    *c = (struct names_chunk){.capacity = capacity};
    if (l->last) l->last->next = c;
    else l->first = c;
    l->last = c;
    return true;
}

static bool names_add(struct names *l, const char *text, uint32_t size) {
    size_t needs = sizeof size + size;
    if ((!l->last || l->last->size + needs > l->last->capacity) && !names_grow(l, needs)) return false;
    struct names_chunk *c = l->last;
    memcpy(c->bytes + c->size, &size, sizeof size);
    memcpy(c->bytes + c->size + sizeof size, text, size);
    c->size += needs;
    l->n++;
    return true;
}

static const char *names_next(const struct names *l, struct names_at *at, uint32_t *size) {
    if (!at->chunk) *at = (struct names_at){l->first, 0};
    if (at->chunk && at->at == at->chunk->size && at->chunk->next) *at = (struct names_at){at->chunk->next, 0};
    if (!at->chunk || at->at == at->chunk->size) return NULL;
    memcpy(size, at->chunk->bytes + at->at, sizeof *size);
    const char *text = at->chunk->bytes + at->at + sizeof *size;
    at->at += sizeof *size + *size;
    return text;
}

void names_drop(struct names *l) {
    for (struct names_chunk *c = l->first, *next; c; c = next) {
        next = c->next;
        mi_free(c);
    }
    *l = (struct names){0};
}

/* Names between two questions to the budget. */
#define ASK_EVERY 64u

bool sink_fits(const struct sink *o) {
    return !o->budget || memory_used(o->budget->memory) - o->gives <= o->budget->leased || shard_fits(o->budget, 0);
}

/* False: no more is wanted. */
static bool emit(struct sink *o, const struct field_name *name) {
    const struct packed *p = &name->packed;
    int added = 1;
    if (o->values) reply_bulk(o->values, p->text, p->text_size);
    if (o->names && !names_add(o->names, p->text, p->text_size)) o->refused = true;
    if (o->set) added = set_add(o->set, name, o->ints_max);
    if (added < 0 || (o->set && o->n % ASK_EVERY == 0 && !sink_fits(o))) o->refused = true;
    o->n += added > 0;
    return !o->refused && !(o->limit && o->n >= o->limit);
}

/* ---- walking in groups ---- */

struct group {
    struct set_item items[SET_GROUP];
    struct field_name names[SET_GROUP];
    char scratch[SET_GROUP][INT64_TEXT_SIZE];
};

static uint32_t next_group(const struct set *x, struct set_walk *w, struct group *g) {
    uint32_t n = 0;
    for (; n < SET_GROUP && set_next(x, w, &g->items[n]); n++) set_name_of(x, &g->items[n], g->scratch[n], &g->names[n]);
    return n;
}

/* Names of a list, as a group. */
static uint32_t next_names(const struct set *x, const struct names *l, struct names_at *at, struct group *g) {
    uint32_t n = 0, size;
    const char *text;
    for (; n < SET_GROUP && (text = names_next(l, at, &size)); n++) set_name(x, text, size, &g->names[n]);
    return n;
}

/* Of a group those that are in all of n sets, or in none of them. walked: where its members are from (NULL: a list of names). */
static uint32_t filter(const struct group *g, uint32_t in, const struct set *sets, uint32_t n, bool in_all, const struct set *walked) {
    for (uint32_t i = 0; i < n && in; i++) {
        uint32_t found = set_probe(&sets[i], g->names, in, walked && set_walks_along(&sets[i], walked));
        in = in_all ? found : in & ~found;
    }
    return in;
}

/* Once the walk has gone through these buckets of the first set. */
static void prefetch_others(const struct sources *s, uint64_t from, uint64_t to) {
    for (uint32_t i = 1; i < s->n; i++)
        if (set_walks_along(&s->sets[i], &s->sets[0])) set_prefetch_along(&s->sets[i], &s->sets[0], from, to);
}

static bool emit_group(struct sink *o, const struct group *g, uint32_t in) {
    for (; in; in &= in - 1)
        if (!emit(o, &g->names[__builtin_ctz(in)])) return false;
    return true;
}

static void take_group_out(struct set *from, const struct group *g, uint32_t got) {
    struct set_item m;
    if (got > 2) set_prefetch(from, g->names, got);
    for (uint32_t i = 0; i < got && !set_is_empty(from); i++)
        if (set_find(from, &g->names[i], &m)) set_remove(from, &m);
}

/* The first one alone is walked through, and its members are looked for in the others. */
static bool filters(const struct combination *c) { return c->operation == INTER || (c->operation == DIFF && !c->takes_out); }

static bool first_is_among_others(const struct sources *s) {
    for (uint32_t i = 1; i < s->n; i++)
        if (is_same(&s->sets[0], &s->sets[i])) return true;
    return false;
}

/* Puts the sources in order. False: the result is empty. */
static bool arrange(const struct combination *c, struct sources *s) {
    if (c->operation == INTER) qsort(s->sets, s->n, sizeof *s->sets, by_count);
    if (c->operation == UNION) return true;
    if (set_is_empty(&s->sets[0]) || (c->operation == DIFF && first_is_among_others(s))) return false;
    if (c->operation == DIFF && filters(c)) qsort(s->sets + 1, s->n - 1, sizeof *s->sets, by_count_descending);
    return true;
}

/* False: no more is wanted. */
static bool combine_group(struct combination *c, const struct sources *s, const struct group *g, uint32_t got) {
    uint32_t all = (1u << got) - 1;
    if (filters(c)) return emit_group(&c->o, g, filter(g, all, s->sets + 1, s->n - 1, c->operation == INTER, &s->sets[0]));
    if (c->operation == DIFF && c->source) {
        take_group_out(c->o.set, g, got);
        return !set_is_empty(c->o.set);
    }
    if (c->o.set && got > 2) set_prefetch(c->o.set, g->names, got);
    return emit_group(&c->o, g, all);
}

/* Goes on with sources that are arranged. False: there is more. */
static bool combine_arranged(struct combination *c, const struct sources *s, uint64_t cost) {
    uint32_t walked = filters(c) ? 1 : s->n, times = filters(c) ? s->n : 1, got;
    struct group g;
    for (; c->source < walked; c->source++, c->walk = (struct set_walk){0}) {
        for (;;) {
            uint64_t bucket = c->walk.fields.bucket;
            if (!(got = next_group(&s->sets[c->source], &c->walk, &g))) break;
            if (filters(c)) prefetch_others(s, bucket, c->walk.fields.bucket);
            if (!combine_group(c, s, &g, got)) return true;
            if (cost <= (uint64_t)got * times) return false;
            cost -= (uint64_t)got * times;
        }
    }
    return true;
}

bool combine(struct combination *c, struct sources *s, uint64_t cost) { return !arrange(c, s) || combine_arranged(c, s, cost); }

bool combine_names(const struct names *l, struct names_at *at, struct sink *o, uint64_t cost) {
    struct group g;
    for (uint32_t got; (got = next_names(o->set, l, at, &g));) {
        if (got > 2) set_prefetch(o->set, g.names, got);
        if (!emit_group(o, &g, (1u << got) - 1)) return true;
        if (cost <= got) return false;
        cost -= got;
    }
    return true;
}

bool filter_names(const struct names *l, struct names_at *at, const struct sources *s, bool in_all, struct sink *o, uint64_t cost) {
    struct group g;
    for (uint32_t got; (got = next_names(&s->sets[0], l, at, &g));) {
        if (!emit_group(o, &g, filter(&g, (1u << got) - 1, s->sets, s->n, in_all, NULL))) return true;
        if (cost <= (uint64_t)got * s->n) return false;
        cost -= (uint64_t)got * s->n;
    }
    return true;
}

bool diff_takes_out(uint64_t first, uint64_t sum, uint32_t there) { return first * there / 2 > sum; }

uint64_t combine_cost(const struct combination *c, struct sources *s) {
    uint64_t sum = 0;
    if (!arrange(c, s)) return 0;
    if (filters(c)) return set_count(&s->sets[0]) * s->n;
    for (uint32_t i = 0; i < s->n; i++) sum += set_count(&s->sets[i]);
    return sum;
}

/* ---- lists ---- */

bool list_members(struct listing *l, const struct set *x, struct reply *r, uint64_t cost) {
    struct set_item m;
    if (!l->begun) reply_set(r, set_count(x));
    l->begun = true;
    for (; cost; cost--) {
        if (!set_next(x, &l->walk, &m)) return true;
        reply_item(r, &m);
    }
    return false;
}
