/* Times of a hash's fields: HEXPIRE and its kin, HTTL and its kin, HPERSIST (Redis 7.4); HGETEX, HSETEX, HGETDEL (Redis 8.0). In this file: the FIELDS part of
 * a command; amounts; what is done to fields one by one, at once or in slices; the commands that do; HSETEX; the rows. */
#include <errno.h>

#include "server/hashes.h"
#include "server/many.h"
#include "server/strings.h"
#include "shard/field_expiry.h"
#include "shard/likely.h"

/* Redis' limit for a field's time. */
#define TIME_MAX_MS (((int64_t)1 << 46) - 1)
/* Bytes that a time may take: its own, a page's step. And what may be made for the first: places for times, a record, another entry. */
#define TIME_BYTES 32u
#define FIRST_TIME_BYTES 6144u

/* --- FIELDS n field ... --- */

/* The fields of a command: from argv[first] on, in HSETEX each with its value behind it. */
struct named {
    uint32_t first, n;
};

/* FIELDS at argv[at]. not_positive: what is replied to a number below 1. False: the error is replied. */
static bool parse_fields(const struct hop *h, uint32_t at, const char *not_positive, struct named *out, struct reply *r) {
    int64_t n;
    if (at + 1 >= h->argc || !arg_is(&h->argv[at], "fields")) {
        reply_error(r, "ERR Mandatory argument FIELDS is missing or not at the right position");
        return false;
    }
    if (!parse_int64(h->argv[at + 1].p, h->argv[at + 1].size, &n) || n < 1) {
        reply_error(r, not_positive);
        return false;
    }
    if ((uint64_t)n != h->argc - at - 2) {
        reply_error(r, "ERR The `numfields` parameter must match the number of arguments");
        return false;
    }
    *out = (struct named){at + 2, (uint32_t)n};
    return true;
}
#define NOT_POSITIVE "ERR Number of fields must be a positive integer"

/* --- amounts --- */

struct unit {
    int64_t ms;
    bool relative;
};

/* The time that an amount means. The error is replied. */
static bool parse_time(
    const struct shard *s, const struct hop *h, const struct arg *amount, const struct unit *unit, int64_t *at_ms, struct reply *r) {
    int64_t v, from = unit->relative ? s->now_ms : 0;
    if (!arg_int64(amount, &v, r)) return false;
    if (v < 0) {
        reply_error(r, "ERR invalid expire time, must be >= 0");
        return false;
    }
    if (v > TIME_MAX_MS / unit->ms || v * unit->ms > TIME_MAX_MS - from) {
        reply_errorf(r, "ERR invalid expire time in '%s' command", command_by_number(h->row)->name);
        return false;
    }
    *at_ms = v * unit->ms + from;
    return true;
}

/* --- fields one by one --- */

/* Whether fields may get this time, of which the wheel then knows if the hash is there: before anything is changed. The error is replied. */
static bool may_time(struct shard *s, struct hash *x, const struct named *f, int64_t at_ms, struct reply *r) {
    bool may = key_may_take(s, &x->key, f->n * (size_t)TIME_BYTES + FIRST_TIME_BYTES);
    if (may && (!x->key.entry || !key_time_fields(s, &x->key, at_ms))) return true;
    reply_refused(s, r);
    return false;
}

/* What a command does to fields one by one. refused: by the system, which the budget did not foresee; some are changed then, and all of the reply is an error. */
struct change {
    struct shard *s;
    struct hash *x;
    enum key_event event;
    bool changed, refused;
    size_t reply_at;
};

static void begin(struct change *c, enum key_event event) {
    if (!c->changed) key_before_change(c->s, &c->x->key, event);
    c->event = event;
    c->changed = true;
}

static void take_out(struct change *c, const struct field *f, enum key_event event) {
    begin(c, event);
    fields_remove(&c->x->fields, f);
}

static void set_time(struct change *c, const struct field *f, int64_t at_ms, enum key_event event) {
    begin(c, event);
    c->refused |= fields_set_time(&c->x->fields, f, at_ms) != 0;
}

static void refuse(const struct change *c, struct reply *r) {
    if (!c->refused) return;
    reply_cut(c->s, r, c->reply_at);
    reply_refused(c->s, r);
}

static void end(struct change *c, struct reply *r) {
    if (c->changed) {
        key_after_change(c->s, &c->x->key, c->event);
        key_store_fields(c->s, &c->x->key, TYPE_HASH, &c->x->fields, c->event);
    }
    refuse(c, r);
}

/* The end of a slice; those who listen are told with the last. False: refused. */
static bool end_slice(struct change *c, const struct hop *h, struct many *m, struct reply *r) {
    m->flag |= c->changed;
    if (c->changed) m->flags = c->event;
    if (m->flag && (many_is_last(h, m) || c->refused)) key_after_change(c->s, &c->x->key, (enum key_event)m->flags);
    if (c->changed) key_store_fields(c->s, &c->x->key, TYPE_HASH, &c->x->fields, c->event);
    refuse(c, r);
    return !c->refused;
}

enum condition { ALWAYS, NX, XX, GT, LT };

/* What a command asks for. */
struct asked {
    struct named f;
    enum condition condition;
    bool timed, persists;
    int64_t at_ms;    /* FIELD_NEVER: fields get no time */
    struct unit unit; /* in which times are told */
};

/* A command that does one thing to each of its fields. The way is in front: struct many has it. */
struct each {
    struct many_way way;
    struct unit unit;
    bool reads;
    bool (*parse)(const struct shard *s, const struct hop *h, const struct unit *unit, struct asked *out, struct reply *r);
    void (*one)(struct change *c, const struct asked *a, const struct arg *name, struct reply *r);
};
_Static_assert(offsetof(struct each, way) == 0, "struct many has the way of a struct each");

static bool sets_times(const struct shard *s, const struct hash *x, const struct asked *a) {
    return x->key.entry && a->at_ms != FIELD_NEVER && a->at_ms > s->now_ms;
}

static inline bool open_each(struct shard *s, const struct hop *h, const struct each *e, struct hash *x, struct reply *r) {
    return e->reads ? hash_open_read(s, h, x, r) : hash_open_write(s, h, x, r);
}

static bool begin_many(struct shard *s, struct hop *h, struct many *m, struct reply *r) {
    const struct each *e = (const struct each *)m->way;
    struct hash x;
    struct asked a;
    if (!open_each(s, h, e, &x, r) || !e->parse(s, h, &e->unit, &a, r)) return false;
    if (sets_times(s, &x, &a) && !many_reserve(s, m, &x.key, a.f.n * (uint64_t)TIME_BYTES + FIRST_TIME_BYTES, r)) return false;
    m->first = a.f.first;
    reply_array(r, a.f.n);
    return true;
}

/* Its time is that of the first slice, so what is read again is the same. */
static bool do_many(struct shard *s, struct hop *h, struct many *m, uint32_t to, struct reply *r) {
    const struct each *e = (const struct each *)m->way;
    struct hash x;
    struct asked a;
    size_t began = r->size;
    if (!(e->reads ? hash_open_slice(s, h, &x, r) : hash_open_write(s, h, &x, r)) || !e->parse(s, h, &e->unit, &a, r)) return false;
    struct change c = {.s = s, .x = &x, .reply_at = m->reply_at};
    /* In each slice: opening may have taken out all fields with a time, and what the wheel knew of them. */
    c.refused = sets_times(s, &x, &a) && key_time_fields(s, &x.key, a.at_ms) != 0;
    for (; m->at < to && !c.refused && !many_replied(r, began); m->at++) e->one(&c, &a, &h->argv[m->at], r);
    return end_slice(&c, h, m, r);
}

#define FIELDS_A_SLICE 256u
#define IN_SLICES .way = {FIELDS_A_SLICE, 0, 1, begin_many, NULL, do_many, NULL}

static inline __attribute__((always_inline)) enum hop_result on_each(
    struct shard *s, struct hop *h, struct reply *r, const struct each *e) {
    struct hash x;
    struct asked a;
    if (UNLIKELY(h->argc > MANY_FEW) && many_is_long(h, &e->way)) return many_run(s, h, &e->way, r);
    if (!open_each(s, h, e, &x, r) || !e->parse(s, h, &e->unit, &a, r)) return HOP_DONE;
    if (sets_times(s, &x, &a) && !may_time(s, &x, &a.f, a.at_ms, r)) return HOP_DONE;
    struct change c = {.s = s, .x = &x, .reply_at = r->size};
    reply_array(r, a.f.n);
    for (uint32_t i = 0; i < a.f.n; i++) e->one(&c, &a, &h->argv[a.f.first + i], r);
    end(&c, r);
    return HOP_DONE;
}

/* --- setting times --- */

static bool holds(enum condition condition, const struct field *f, int64_t at_ms) {
    bool has = f->expires_at_ms != FIELD_NEVER;
    switch (condition) {
    case NX: return !has;
    case XX: return has;
    case GT: return has && at_ms > f->expires_at_ms;
    case LT: return at_ms < f->expires_at_ms;
    default: return true;
    }
}

static enum condition parse_condition(const struct arg *a) {
    static const char *const words[] = {[NX] = "nx", [XX] = "xx", [GT] = "gt", [LT] = "lt"};
    for (int c = NX; c <= LT; c++)
        if (arg_is(a, words[c])) return (enum condition)c;
    return ALWAYS;
}

/* What becomes of one field: -2: there is none; 0: the condition does not hold; 1: set; 2: its time is past, it is gone. */
static int expire_one(struct change *c, const struct arg *name, enum condition condition, int64_t at_ms) {
    struct field f;
    if (!hash_find(c->x, name, &f)) return -2;
    if (!holds(condition, &f, at_ms)) return 0;
    if (at_ms <= c->s->now_ms) {
        take_out(c, &f, KEY_HDEL);
        return 2;
    }
    set_time(c, &f, at_ms, KEY_HEXPIRE);
    return 1;
}

static bool parse_expire(const struct shard *s, const struct hop *h, const struct unit *unit, struct asked *out, struct reply *r) {
    out->condition = parse_condition(&h->argv[3]);
    return parse_time(s, h, &h->argv[2], unit, &out->at_ms, r) &&
        parse_fields(h, out->condition == ALWAYS ? 3 : 4, "ERR Parameter `numFields` should be greater than 0", &out->f, r);
}

static void expire_field(struct change *c, const struct asked *a, const struct arg *name, struct reply *r) {
    reply_int(r, expire_one(c, name, a->condition, a->at_ms));
}

#define EXPIRE(ms, relative) \
    { IN_SLICES, .unit = {ms, relative}, .parse = parse_expire, .one = expire_field }

static enum hop_result hexpire(struct shard *s, struct hop *h, struct reply *r) {
    static const struct each each = EXPIRE(1000, true);
    return on_each(s, h, r, &each);
}

static enum hop_result hpexpire(struct shard *s, struct hop *h, struct reply *r) {
    static const struct each each = EXPIRE(1, true);
    return on_each(s, h, r, &each);
}

static enum hop_result hexpireat(struct shard *s, struct hop *h, struct reply *r) {
    static const struct each each = EXPIRE(1000, false);
    return on_each(s, h, r, &each);
}

static enum hop_result hpexpireat(struct shard *s, struct hop *h, struct reply *r) {
    static const struct each each = EXPIRE(1, false);
    return on_each(s, h, r, &each);
}

/* Of those that have nothing before FIELDS. */
static bool parse_names(const struct shard *s, const struct hop *h, const struct unit *unit, struct asked *out, struct reply *r) {
    (void)s;
    out->unit = *unit;
    out->at_ms = FIELD_NEVER;
    return parse_fields(h, 2, NOT_POSITIVE, &out->f, r);
}

static void persist_field(struct change *c, const struct asked *a, const struct arg *name, struct reply *r) {
    struct field one;
    bool found = hash_find(c->x, name, &one), timed = found && one.expires_at_ms != FIELD_NEVER;
    (void)a;
    if (timed) set_time(c, &one, FIELD_NEVER, KEY_HPERSIST);
    reply_int(r, !found ? -2 : timed ? 1 : -1);
}

static enum hop_result hpersist(struct shard *s, struct hop *h, struct reply *r) {
    static const struct each each = {IN_SLICES, .parse = parse_names, .one = persist_field};
    return on_each(s, h, r, &each);
}

/* --- telling times --- */

static void tell_time(struct change *c, const struct asked *a, const struct arg *name, struct reply *r) {
    struct field one;
    if (!hash_find(c->x, name, &one)) reply_int(r, -2);
    else if (one.expires_at_ms == FIELD_NEVER) reply_int(r, -1);
    else reply_int(r, (one.expires_at_ms - (a->unit.relative ? c->s->now_ms : 0) + a->unit.ms - 1) / a->unit.ms);
}

#define TELL(ms, relative) \
    { IN_SLICES, .unit = {ms, relative}, .reads = true, .parse = parse_names, .one = tell_time }

static enum hop_result httl(struct shard *s, struct hop *h, struct reply *r) {
    static const struct each each = TELL(1000, true);
    return on_each(s, h, r, &each);
}

static enum hop_result hpttl(struct shard *s, struct hop *h, struct reply *r) {
    static const struct each each = TELL(1, true);
    return on_each(s, h, r, &each);
}

static enum hop_result hexpiretime(struct shard *s, struct hop *h, struct reply *r) {
    static const struct each each = TELL(1000, false);
    return on_each(s, h, r, &each);
}

static enum hop_result hpexpiretime(struct shard *s, struct hop *h, struct reply *r) {
    static const struct each each = TELL(1, false);
    return on_each(s, h, r, &each);
}

/* --- values with times --- */

static bool parse_unit(const struct arg *a, struct unit *out) {
    static const struct {
        const char *word;
        struct unit unit;
    } units[] = {{"ex", {1000, true}}, {"px", {1, true}}, {"exat", {1000, false}}, {"pxat", {1, false}}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        *out = units[i].unit;
        if (arg_is(a, units[i].word)) return true;
    }
    return false;
}

static void change_time(struct change *c, const struct field *f, bool persists, int64_t at_ms) {
    if (persists && f->expires_at_ms == FIELD_NEVER) return;
    if (!persists && at_ms <= c->s->now_ms) take_out(c, f, KEY_HDEL);
    else set_time(c, f, persists ? FIELD_NEVER : at_ms, persists ? KEY_HPERSIST : KEY_HEXPIRE);
}

static bool parse_get(const struct shard *s, const struct hop *h, const struct unit *none, struct asked *out, struct reply *r) {
    struct unit unit;
    (void)none;
    out->at_ms = FIELD_NEVER;
    out->timed = parse_unit(&h->argv[2], &unit);
    out->persists = arg_is(&h->argv[2], "persist");
    return (!out->timed || parse_time(s, h, &h->argv[3], &unit, &out->at_ms, r)) &&
        parse_fields(h, 2 + 2 * out->timed + out->persists, NOT_POSITIVE, &out->f, r);
}

static void get_field(struct change *c, const struct asked *a, const struct arg *name, struct reply *r) {
    struct field one;
    if (!hash_find(c->x, name, &one)) {
        reply_null(r);
        return;
    }
    reply_packed(r, one.value);
    if (a->timed || a->persists) change_time(c, &one, a->persists, a->at_ms);
}

static enum hop_result hgetex(struct shard *s, struct hop *h, struct reply *r) {
    static const struct each each = {IN_SLICES, .parse = parse_get, .one = get_field};
    return on_each(s, h, r, &each);
}

static void get_and_take_out(struct change *c, const struct asked *a, const struct arg *name, struct reply *r) {
    struct field one;
    (void)a;
    if (!hash_find(c->x, name, &one)) {
        reply_null(r);
        return;
    }
    reply_packed(r, one.value);
    take_out(c, &one, KEY_HDEL);
}

static enum hop_result hgetdel(struct shard *s, struct hop *h, struct reply *r) {
    static const struct each each = {IN_SLICES, .parse = parse_names, .one = get_and_take_out};
    return on_each(s, h, r, &each);
}

/* --- HSETEX --- */

/* What stands before FIELDS in HSETEX. */
struct extras {
    bool fnx, fxx, keeps, timed;
    int64_t at_ms;
};

static bool wrong(const char *text, struct reply *r) {
    reply_error(r, text);
    return false;
}

static bool parse_pairs(const struct hop *h, uint32_t at, struct named *out, struct reply *r) {
    int64_t n;
    uint32_t given = h->argc - at - 2;
    if (at + 3 >= h->argc) return wrong("ERR wrong number of arguments for 'hsetex' command", r);
    if (!parse_int64(h->argv[at + 1].p, h->argv[at + 1].size, &n) || n < 1 || n > INT32_MAX)
        return wrong("ERR invalid number of fields", r);
    if (2 * (uint64_t)n != given) return wrong("ERR wrong number of arguments for 'hsetex' command", r);
    *out = (struct named){at + 2, (uint32_t)n};
    return true;
}

/* EX, PX, EXAT, PXAT or KEEPTTL at argv[*at], which is moved to its last word. */
static bool parse_time_word(
    const struct shard *s, const struct hop *h, uint32_t *at, const struct unit *unit, struct extras *x, struct reply *r) {
    if (x->timed || x->keeps) return wrong("ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified", r);
    x->keeps = !unit;
    if (!unit) return true;
    if (*at + 1 == h->argc) return wrong("ERR missing expire time", r);
    x->timed = true;
    return parse_time(s, h, &h->argv[++*at], unit, &x->at_ms, r);
}

static bool parse_extras(const struct shard *s, const struct hop *h, struct extras *x, struct named *f, struct reply *r) {
    *x = (struct extras){.at_ms = FIELD_NEVER};
    for (uint32_t i = 2; i < h->argc; i++) {
        const struct arg *a = &h->argv[i];
        struct unit unit;
        bool timed = parse_unit(a, &unit), fnx = arg_is(a, "fnx");
        if (arg_is(a, "fields")) return parse_pairs(h, i, f, r);
        if (timed || arg_is(a, "keepttl")) {
            if (!parse_time_word(s, h, &i, timed ? &unit : NULL, x, r)) return false;
        } else if (fnx || arg_is(a, "fxx")) {
            if (x->fnx || x->fxx) return wrong("ERR Only one of FXX or FNX arguments can be specified", r);
            x->fnx = fnx;
            x->fxx = !fnx;
        } else {
            reply_errorf(r, "ERR unknown argument: %.*s", (int)(a->size < 128 ? a->size : 128), a->p);
            return false;
        }
    }
    return wrong("ERR wrong number of arguments for 'hsetex' command", r);
}

/* FNX: none of the fields argv[at], argv[at + 2] ... before argv[to] may be there; FXX: all must. */
static bool condition_holds(const struct hash *x, const struct hop *h, uint32_t at, uint32_t to, const struct extras *o) {
    struct field one;
    for (; (o->fnx || o->fxx) && at < to; at += 2)
        if (hash_find(x, &h->argv[at], &one) != o->fxx) return false;
    return true;
}

/* A time that is past: what is there is taken out. */
static void take_out_some(struct change *c, const struct hop *h, uint32_t at, uint32_t to) {
    struct field one;
    for (; at < to; at += 2)
        if (hash_find(c->x, &h->argv[at], &one)) take_out(c, &one, KEY_HDEL);
}

static bool is_past(const struct shard *s, const struct extras *o) { return o->timed && o->at_ms <= s->now_ms; }

/* Sets the fields from argv[at] on, before argv[to]. last: those who listen are told. False: refused. */
static bool set_pairs(struct shard *s, struct hash *x, const struct hop *h, uint32_t at, uint32_t to, const struct extras *o, bool last) {
    struct field one;
    bool refused = false, long_text = false, was_there = x->key.entry;
    key_before_change(s, &x->key, KEY_HSET);
    for (; at < to && !refused; at += 2) {
        struct arg *name = &h->argv[at];
        bool kept = o->keeps && hash_find(x, name, &one);
        refused = hash_set(x, name, name + 1, kept ? one.expires_at_ms : o->at_ms) < 0;
        long_text |= hash_is_long(name) || hash_is_long(name + 1);
    }
    if (!fields_is_empty(&x->fields)) hash_show_large(x, long_text);
    refused |= key_store_fields(s, &x->key, TYPE_HASH, &x->fields, KEY_HSET) != 0;
    if (!x->key.entry) return false;
    if (last || refused) key_after_change(s, &x->key, KEY_HSET);
    if (was_there || !o->timed || !key_time_fields(s, &x->key, o->at_ms)) return !refused;
    key_delete(s, &x->key, KEY_DEL);
    return false;
}

/* Very many, in slices: first the condition, and what they take; then they are set, or taken out. */
static bool begin_pairs(struct shard *s, struct hop *h, struct many *m, struct reply *r) {
    struct extras o;
    struct named f;
    struct hash x;
    if (!parse_extras(s, h, &o, &f, r) || !hash_open_write(s, h, &x, r)) return false;
    m->first = f.first;
    m->acts = !o.fnx && !o.fxx && s->leased == BUDGET_NONE;
    return true;
}

static bool check_pairs(struct shard *s, struct hop *h, struct many *m, uint32_t to, struct reply *r) {
    struct extras o;
    struct named f;
    struct hash x;
    if (!parse_extras(s, h, &o, &f, r) || !hash_open_write(s, h, &x, r)) return false;
    if (!condition_holds(&x, h, m->at, to, &o)) {
        reply_int(r, 0);
        return false;
    }
    m->bytes += hash_pairs_need(h, m->at, to);
    m->at = to;
    if (!many_is_last(h, m) || is_past(s, &o)) return true;
    if (o.timed) m->bytes += f.n * (uint64_t)TIME_BYTES + FIRST_TIME_BYTES;
    return many_reserve(s, m, &x.key, HASH_OVERHEAD + m->bytes, r);
}

static bool act_on_pairs(struct shard *s, struct hop *h, struct many *m, uint32_t to, struct reply *r) {
    struct extras o;
    struct named f;
    struct hash x;
    uint32_t at = m->at;
    if (!parse_extras(s, h, &o, &f, r) || !hash_open_write(s, h, &x, r)) return false;
    m->at = to;
    if (is_past(s, &o)) {
        struct change c = {.s = s, .x = &x, .reply_at = m->reply_at};
        take_out_some(&c, h, at, to);
        return end_slice(&c, h, m, r);
    }
    if (o.timed && x.key.entry && key_time_fields(s, &x.key, o.at_ms)) {
        reply_refused(s, r);
        return false;
    }
    if (set_pairs(s, &x, h, at, to, &o, many_is_last(h, m))) return true;
    reply_refused(s, r);
    return false;
}

static void end_pairs(struct shard *s, struct hop *h, struct many *m, struct reply *r) {
    (void)s, (void)h, (void)m;
    reply_int(r, 1);
}

static const struct many_way setting_pairs = {FIELDS_A_SLICE, 0, 2, begin_pairs, check_pairs, act_on_pairs, end_pairs};

static enum hop_result hsetex(struct shard *s, struct hop *h, struct reply *r) {
    struct hash x;
    struct extras o;
    struct named f;
    if (UNLIKELY(h->argc > MANY_FEW) && many_is_long(h, &setting_pairs)) return many_run(s, h, &setting_pairs, r);
    if (!parse_extras(s, h, &o, &f, r) || !hash_open_write(s, h, &x, r)) return HOP_DONE;
    if (!condition_holds(&x, h, f.first, h->argc, &o)) {
        reply_int(r, 0);
    } else if (is_past(s, &o)) {
        struct change c = {.s = s, .x = &x};
        take_out_some(&c, h, f.first, h->argc);
        end(&c, r);
        reply_int(r, 1);
    } else if (hash_may_set(s, h, &x, f.first, r) && (!o.timed || may_time(s, &x, &f, o.at_ms, r))) {
        if (set_pairs(s, &x, h, f.first, h->argc, &o, true)) reply_int(r, 1);
        else reply_refused(s, r);
    }
    return HOP_DONE;
}

/* --- the rows --- */

#define ROW_OF(complexity_) .group = "hash", .acl = ACL_HASH, .plan = PLAN_SINGLE, .n_key_specs = 1, .complexity = complexity_
#define ROW ROW_OF("O(N) where N is the number of specified fields")

const struct command commands_hash_expiry[] = {
    {ROW, .name = "hexpire", .since = "7.4.0", .arity = -6, .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
        .summary = "Set expiry for hash field using relative time to expire (seconds)", .on_shard = hexpire, .on_drop = many_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_UPDATE)}},
    {ROW, .name = "hexpireat", .since = "7.4.0", .arity = -6, .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
        .summary = "Set expiry for hash field using an absolute Unix timestamp (seconds)", .on_shard = hexpireat, .on_drop = many_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_UPDATE)}},
    {ROW, .name = "hexpiretime", .since = "7.4.0", .arity = -5, .flags = CMD_READONLY | CMD_FAST,
        .summary = "Returns the expiration time of a hash field as a Unix timestamp, in seconds.", .on_shard = hexpiretime,
        .on_drop = many_drop, .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)}},
    {ROW, .name = "hgetdel", .since = "8.0.0", .arity = -5, .flags = CMD_WRITE | CMD_FAST,
        .summary = "Returns the value of a field and deletes it from the hash.", .on_shard = hgetdel, .on_drop = many_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_DELETE)}},
    {ROW, .name = "hgetex", .since = "8.0.0", .arity = -5, .flags = CMD_WRITE | CMD_FAST,
        .summary = "Get the value of one or more fields of a given hash key, and optionally set their expiration.", .on_shard = hgetex,
        .on_drop = many_drop, .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_UPDATE)}},
    {ROW, .name = "hpersist", .since = "7.4.0", .arity = -5, .flags = CMD_WRITE | CMD_FAST,
        .summary = "Removes the expiration time for each specified field", .on_shard = hpersist, .on_drop = many_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_UPDATE)}},
    {ROW, .name = "hpexpire", .since = "7.4.0", .arity = -6, .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
        .summary = "Set expiry for hash field using relative time to expire (milliseconds)", .on_shard = hpexpire, .on_drop = many_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_UPDATE)}},
    {ROW, .name = "hpexpireat", .since = "7.4.0", .arity = -6, .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
        .summary = "Set expiry for hash field using an absolute Unix timestamp (milliseconds)", .on_shard = hpexpireat,
        .on_drop = many_drop, .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_UPDATE)}},
    {ROW, .name = "hpexpiretime", .since = "7.4.0", .arity = -5, .flags = CMD_READONLY | CMD_FAST,
        .summary = "Returns the expiration time of a hash field as a Unix timestamp, in msec.", .on_shard = hpexpiretime,
        .on_drop = many_drop, .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)}},
    {ROW, .name = "hpttl", .since = "7.4.0", .arity = -5, .flags = CMD_READONLY | CMD_FAST,
        .summary = "Returns the TTL in milliseconds of a hash field.", .on_shard = hpttl, .on_drop = many_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)}},
    {ROW_OF("O(N) where N is the number of fields being set."), .name = "hsetex", .since = "8.0.0", .arity = -6,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST,
        .summary = "Set the value of one or more fields of a given hash key, and optionally set their expiration.", .on_shard = hsetex,
        .on_drop = many_drop, .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_UPDATE)}},
    {ROW, .name = "httl", .since = "7.4.0", .arity = -5, .flags = CMD_READONLY | CMD_FAST,
        .summary = "Returns the TTL in seconds of a hash field.", .on_shard = httl, .on_drop = many_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)}},
    {.name = NULL},
};
