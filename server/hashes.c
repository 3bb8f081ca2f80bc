/* The hash commands. In this file: opening; fields one by one; whole hashes; counters; the rows. Random fields: hash_random.c. */
#include "server/hashes.h"

#include <errno.h>
#include <math.h>

#include "server/config.h"
#include "server/field_scan.h"
#include "server/many.h"
#include "server/number.h"
#include "server/strings.h"
#include "shard/field_expiry.h"
#include "shard/likely.h"

/* Fields of one command that are prefetched together. */
#define GROUP 16u
/* What a field may take beside its bytes: its packed sizes, its place, its share of a page's slack. */
#define FIELD_OVERHEAD 48u

/* --- opening --- */

static inline bool is_hash(const struct key *k, struct reply *r) {
    if (!k->entry || entry_type(k->entry) == TYPE_HASH) return true;
    reply_wrong_type(r);
    return false;
}

static inline void open_fields(struct shard *s, struct hash *x) {
    x->fields = key_fields(s, &x->key);
    x->now_ms = s->now_ms;
}

static inline bool open_read(struct shard *s, const struct hop *h, struct hash *x, struct reply *r) {
    key_read(s, h, &x->key);
    if (!is_hash(&x->key, r)) return false;
    open_fields(s, x);
    return true;
}

static inline bool open_write(struct shard *s, const struct hop *h, struct hash *x, struct reply *r) {
    key_write(s, h, &x->key);
    if (!is_hash(&x->key, r)) return false;
    open_fields(s, x);
    return true;
}

bool hash_open_read(struct shard *s, const struct hop *h, struct hash *x, struct reply *r) { return open_read(s, h, x, r); }
bool hash_open_write(struct shard *s, const struct hop *h, struct hash *x, struct reply *r) { return open_write(s, h, x, r); }

static inline uint64_t pairs_need(const struct hop *h, uint32_t at, uint32_t to) {
    uint64_t bytes = 0;
    for (; at < to; at += 2) bytes += h->argv[at].size + (size_t)h->argv[at + 1].size + FIELD_OVERHEAD;
    return bytes;
}

uint64_t hash_pairs_need(const struct hop *h, uint32_t at, uint32_t to) { return pairs_need(h, at, to); }

bool hash_may_set(struct shard *s, const struct hop *h, const struct hash *x, uint32_t first, struct reply *r) {
    if (key_may_take(s, &x->key, HASH_OVERHEAD + pairs_need(h, first, h->argc))) return true;
    reply_refused(s, r);
    return false;
}

void hash_show_large(struct hash *x, bool long_text) {
    const struct config *config = config_current();
    if (!long_text && fields_count(&x->fields) <= (uint64_t)config->hash_max_listpack_entries) return;
    fields_set_flags(&x->fields, fields_flags(&x->fields) | FIELDS_SHOWN_LARGE);
}

bool hash_is_long(const struct arg *a) { return a->size > (uint64_t)config_current()->hash_max_listpack_value; }

/* A field's name with its bucket on its way from memory. */
static inline uint32_t name_group(
    const struct hash *x, const struct hop *h, uint32_t at, uint32_t to, uint32_t step, struct field_name names[GROUP]) {
    uint32_t n = 0;
    for (; n < GROUP && at < to; n++, at += step) {
        field_name(&x->fields, h->argv[at].p, h->argv[at].size, &names[n]);
        fields_prefetch_place(&x->fields, names[n].hash);
    }
    if (n > 2)
        for (uint32_t i = 0; i < n; i++) fields_prefetch_page(&x->fields, names[i].hash);
    return n;
}

static inline bool find(const struct hash *x, const struct arg *name, struct field *out) {
    struct field_name n;
    if (fields_is_empty(&x->fields)) return false;
    field_name(&x->fields, name->p, name->size, &n);
    return fields_find(&x->fields, &n, out) && hash_is_live(x, out);
}

bool hash_find(const struct hash *x, const struct arg *name, struct field *out) { return find(x, name, out); }

static inline void put_packed(struct reply *r, const uint8_t *at) {
    char scratch[INT64_TEXT_SIZE];
    uint32_t size;
    if (packed_is_int(at)) {
        reply_bulk_int(r, packed_int(at));
        return;
    }
    const char *text = packed_text(at, scratch, &size);
    reply_stored(r, text, size);
}

void reply_packed(struct reply *r, const uint8_t *at) { put_packed(r, at); }

/* --- fields one by one --- */

static int set_named(struct hash *x, const struct field_name *name, struct arg *value, int64_t expires_at_ms) {
    struct field was;
    struct packed packed;
    bool found = fields_find(&x->fields, name, &was), live = found && hash_is_live(x, &was);
    packed_of(&packed, value->p, value->size);
    if (UNLIKELY(value->flags & ARG_BLOB)) packed_adopt(x->fields.memory, &packed, value);
    if (fields_put(&x->fields, name, found ? &was : NULL, &packed, expires_at_ms)) return -ENOMEM;
    return !live;
}

int hash_set(struct hash *x, const struct arg *name, struct arg *value, int64_t expires_at_ms) {
    struct field_name packed;
    field_name(&x->fields, name->p, name->size, &packed);
    return set_named(x, &packed, value, expires_at_ms);
}

/* Sets the fields argv[at], argv[at + 2] ... before argv[to]. How many are new; *refused: by the system, and not all were set. last: those who listen are told. */
static inline int64_t set_some(struct shard *s, struct hop *h, struct hash *x, uint32_t at, uint32_t to, bool last, bool *refused_) {
    struct field_name names[GROUP];
    int64_t created = 0;
    bool refused = false, long_text = false;
    key_before_change(s, &x->key, KEY_HSET);
    for (uint32_t n; at < to && !refused; at += 2 * n) {
        n = name_group(x, h, at, to, 2, names);
        for (uint32_t i = 0; i < n && !refused; i++) {
            struct arg *name = &h->argv[at + 2 * i];
            int is_new = set_named(x, &names[i], name + 1, FIELD_NEVER);
            long_text |= hash_is_long(name) || hash_is_long(name + 1);
            refused = is_new < 0;
            created += is_new > 0;
        }
    }
    if (!fields_is_empty(&x->fields)) hash_show_large(x, long_text);
    refused |= key_store_fields(s, &x->key, TYPE_HASH, &x->fields, KEY_HSET) != 0;
    if ((last || refused) && x->key.entry) key_after_change(s, &x->key, KEY_HSET);
    *refused_ = refused;
    return created;
}

/* Sets the fields from argv[2] on. How many are new; or -ENOMEM, replied. */
static int64_t set_fields(struct shard *s, struct hop *h, struct hash *x, struct reply *r) {
    bool refused;
    if (!hash_may_set(s, h, x, 2, r)) return -ENOMEM;
    int64_t created = set_some(s, h, x, 2, h->argc, true, &refused);
    if (!refused) return created;
    reply_refused(s, r);
    return -ENOMEM;
}

static bool has_pairs(const struct hop *h, const char *command, struct reply *r) {
    if (h->argc % 2 == 0) return true;
    reply_errorf(r, "ERR wrong number of arguments for '%s' command", command);
    return false;
}

/* Very many, in slices. */
static bool begin_many(struct shard *s, struct hop *h, struct many *m, struct reply *r) {
    struct hash x;
    m->acts |= s->leased == BUDGET_NONE;
    return open_write(s, h, &x, r);
}

static bool check_many(struct shard *s, struct hop *h, struct many *m, uint32_t to, struct reply *r) {
    struct key k;
    m->bytes += pairs_need(h, m->at, to);
    m->at = to;
    many_look(s, h, &k);
    return !many_is_last(h, m) || many_reserve(s, m, &k, HASH_OVERHEAD + m->bytes, r);
}

static bool set_many(struct shard *s, struct hop *h, struct many *m, uint32_t to, struct reply *r) {
    struct hash x;
    bool refused;
    open_write(s, h, &x, r);
    m->n += set_some(s, h, &x, m->at, to, to == h->argc, &refused);
    m->at = to;
    if (refused) reply_refused(s, r);
    return !refused;
}

static void end_with_ok(struct shard *s, struct hop *h, struct many *m, struct reply *r) {
    (void)s;
    (void)h;
    (void)m;
    reply_ok(r);
}

static const struct many_way setting = {256, 2, 2, begin_many, check_many, set_many, many_reply_n},
                             setting_ok = {256, 2, 2, begin_many, check_many, set_many, end_with_ok};

static enum hop_result hset(struct shard *s, struct hop *h, struct reply *r) {
    struct hash x;
    if (!has_pairs(h, "hset", r)) return HOP_DONE;
    if (UNLIKELY(h->argc > MANY_FEW) && many_is_long(h, &setting)) return many_run(s, h, &setting, r);
    if (!open_write(s, h, &x, r)) return HOP_DONE;
    int64_t created = set_fields(s, h, &x, r);
    if (created >= 0) reply_int(r, created);
    return HOP_DONE;
}

static enum hop_result hmset(struct shard *s, struct hop *h, struct reply *r) {
    struct hash x;
    if (!has_pairs(h, "hmset", r)) return HOP_DONE;
    if (UNLIKELY(h->argc > MANY_FEW) && many_is_long(h, &setting_ok)) return many_run(s, h, &setting_ok, r);
    if (!open_write(s, h, &x, r)) return HOP_DONE;
    if (set_fields(s, h, &x, r) >= 0) reply_ok(r);
    return HOP_DONE;
}

static enum hop_result hsetnx(struct shard *s, struct hop *h, struct reply *r) {
    struct hash x;
    struct field was;
    if (!open_write(s, h, &x, r)) return HOP_DONE;
    if (find(&x, &h->argv[2], &was)) reply_int(r, 0);
    else if (set_fields(s, h, &x, r) >= 0) reply_int(r, 1);
    return HOP_DONE;
}

static enum hop_result hget(struct shard *s, struct hop *h, struct reply *r) {
    struct hash x;
    struct field f;
    if (!open_read(s, h, &x, r)) return HOP_DONE;
    if (find(&x, &h->argv[2], &f)) put_packed(r, f.value);
    else reply_null(r);
    return HOP_DONE;
}

/* Replies the values of the fields from argv[at] on, before argv[to], but only about so many bytes. Where it came to. */
static inline uint32_t reply_values(const struct hash *x, const struct hop *h, uint32_t at, uint32_t to, size_t most, struct reply *r) {
    struct field_name names[GROUP];
    struct field f;
    size_t end = r->size + most;
    for (uint32_t n; at < to; at += n) {
        n = name_group(x, h, at, to, 1, names);
        for (uint32_t i = 0; i < n; i++) {
            if (UNLIKELY(r->size > end)) return at + i;
            if (fields_find(&x->fields, &names[i], &f) && hash_is_live(x, &f)) reply_packed(r, f.value);
            else reply_null(r);
        }
    }
    return at;
}

static bool begin_asking(struct shard *s, struct hop *h, struct many *m, struct reply *r) {
    struct hash x;
    (void)m;
    if (!open_read(s, h, &x, r)) return false;
    reply_array(r, h->argc - 2);
    return true;
}

static bool reply_many(struct shard *s, struct hop *h, struct many *m, uint32_t to, struct reply *r) {
    struct hash x;
    many_look(s, h, &x.key);
    open_fields(s, &x);
    m->at = reply_values(&x, h, m->at, to, MANY_REPLY_BYTES, r);
    return true;
}

static const struct many_way asking = {256, 2, 1, begin_asking, NULL, reply_many, NULL};

static enum hop_result hmget(struct shard *s, struct hop *h, struct reply *r) {
    struct hash x;
    size_t began = r->size;
    if (UNLIKELY(h->state || (h->argc > MANY_FEW && many_is_long(h, &asking)))) return many_run(s, h, &asking, r);
    uint64_t hits = s->stats.hits;
    if (!open_read(s, h, &x, r)) return HOP_DONE;
    reply_array(r, h->argc - 2);
    if (LIKELY(reply_values(&x, h, 2, h->argc, REPLY_GO_BYTES, r) == h->argc)) return HOP_DONE;
    reply_cut(s, r, began);
    s->stats.hits = hits;
    return HOP_AGAIN;
}

/* Takes the fields from argv[at] on out, before argv[to]. How many were there. */
static inline int64_t remove_some(struct shard *s, struct hash *x, const struct hop *h, uint32_t at, uint32_t to) {
    struct field_name names[GROUP];
    struct field f;
    int64_t removed = 0;
    for (uint32_t n; at < to && !fields_is_empty(&x->fields); at += n) {
        n = name_group(x, h, at, to, 1, names);
        for (uint32_t i = 0; i < n && !fields_is_empty(&x->fields); i++) {
            if (!fields_find(&x->fields, &names[i], &f) || !hash_is_live(x, &f)) continue;
            if (!removed++) key_before_change(s, &x->key, KEY_HDEL);
            fields_remove(&x->fields, &f);
        }
    }
    return removed;
}

static bool begin_removing(struct shard *s, struct hop *h, struct many *m, struct reply *r) {
    struct hash x;
    (void)m;
    return open_write(s, h, &x, r);
}

static bool remove_many(struct shard *s, struct hop *h, struct many *m, uint32_t to, struct reply *r) {
    struct hash x;
    open_write(s, h, &x, r);
    m->n += remove_some(s, &x, h, m->at, to);
    m->at = fields_is_empty(&x.fields) ? h->argc : to;
    if (m->n && many_is_last(h, m)) key_after_change(s, &x.key, KEY_HDEL);
    key_store_fields(s, &x.key, TYPE_HASH, &x.fields, KEY_HDEL);
    return true;
}

static const struct many_way removing = {256, 2, 1, begin_removing, NULL, remove_many, many_reply_n};

static enum hop_result hdel(struct shard *s, struct hop *h, struct reply *r) {
    struct hash x;
    if (UNLIKELY(h->argc > MANY_FEW) && many_is_long(h, &removing)) return many_run(s, h, &removing, r);
    if (!open_write(s, h, &x, r)) return HOP_DONE;
    int64_t removed = remove_some(s, &x, h, 2, h->argc);
    if (removed) {
        key_after_change(s, &x.key, KEY_HDEL);
        key_store_fields(s, &x.key, TYPE_HASH, &x.fields, KEY_HDEL);
    }
    reply_int(r, removed);
    return HOP_DONE;
}

static enum hop_result hexists(struct shard *s, struct hop *h, struct reply *r) {
    struct hash x;
    struct field f;
    if (open_read(s, h, &x, r)) reply_int(r, find(&x, &h->argv[2], &f));
    return HOP_DONE;
}

static enum hop_result hstrlen(struct shard *s, struct hop *h, struct reply *r) {
    struct hash x;
    struct field f;
    if (open_read(s, h, &x, r)) reply_int(r, find(&x, &h->argv[2], &f) ? packed_text_size(f.value) : 0);
    return HOP_DONE;
}

/* --- whole hashes --- */

enum { NAMES = 1, VALUES = 2 };

/* A large hash is walked through in slices of so many buckets, of a dozen fields each, or bytes of the reply: most of what they take is the first touch of its memory. Its hop's
 * state is then its place + HOP_IN_SLICES, and whether its fields are counted first, since some of them are past their time. */
#define SLICE_BUCKETS 32u
#define SLICE_BYTES (32u << 10)
#define COUNTING ((uint64_t)1 << 63)

bool hash_open_slice(struct shard *s, const struct hop *h, struct hash *x, struct reply *r) {
    if (h->state) key_look_again(s, s->dbs[h->db], h->hash, hop_key(h, 0)->p, hop_key(h, 0)->size, &x->key);
    else key_read(s, h, &x->key);
    if (!is_hash(&x->key, r)) return false;
    open_fields(s, x);
    return true;
}

static uint64_t next_place(const struct hop *h) { return h->state ? (h->state & ~COUNTING) - HOP_IN_SLICES : 0; }

/* Goes on counting those that are there. The sum is kept at the end of the reply meanwhile. False: there is more. */
static bool count_on(struct hop *h, const struct hash *x, struct reply *r, uint64_t *n) {
    struct fields_walk w = fields_walk_at(&x->fields, next_place(h));
    uint64_t end = h->state ? w.bucket + SLICE_BUCKETS : UINT64_MAX;
    struct field f;
    *n = 0;
    if (h->state & COUNTING && r->size >= sizeof *n) memcpy(n, r->p + (r->size -= sizeof *n), sizeof *n);
    while (fields_next(&x->fields, &w, &f)) {
        *n += hash_is_live(x, &f);
        if (w.index == 0 && w.bucket >= end) break;
    }
    bool all = w.bucket >= fields_buckets(&x->fields);
    if (!all) reply_bytes(r, (const char *)n, sizeof *n);
    h->state = all ? HOP_IN_SLICES : (fields_walk_place(&w) + HOP_IN_SLICES) | COUNTING;
    return all;
}

static enum hop_result hlen(struct shard *s, struct hop *h, struct reply *r) {
    struct hash x;
    if (!hash_open_slice(s, h, &x, r)) return HOP_DONE;
    uint64_t n = fields_count(&x.fields);
    bool counts = hash_has_dead(&x);
    if (counts && !h->state && fields_buckets(&x.fields) > SLICE_BUCKETS) return HOP_AGAIN;
    if (counts && !count_on(h, &x, r, &n)) return HOP_AGAIN;
    reply_int(r, (int64_t)n);
    return HOP_DONE;
}

static bool is_long(const struct hash *x) {
    const struct fieldmap *map = x->fields.map;
    return map && (map->buckets > 2 * SLICE_BUCKETS || map->memory > 4 * SLICE_BYTES);
}

static enum hop_result reply_all(struct shard *s, struct hop *h, unsigned what, struct reply *r) {
    struct hash x;
    struct field f;
    bool in_slices = h->state;
    size_t began = r->size;
    if (!hash_open_slice(s, h, &x, r)) return HOP_DONE;
    uint64_t buckets = fields_buckets(&x.fields), n = fields_count(&x.fields);
    if (!h->state && is_long(&x)) return HOP_AGAIN;
    if (!next_place(h) || h->state & COUNTING) {
        if (hash_has_dead(&x) && !count_on(h, &x, r, &n)) return HOP_AGAIN;
        if (what == (NAMES | VALUES)) reply_map(r, n);
        else reply_array(r, n);
    }
    struct fields_walk w = fields_walk_at(&x.fields, next_place(h));
    uint64_t end = in_slices ? w.bucket + SLICE_BUCKETS : UINT64_MAX;
    size_t full = r->size + (in_slices ? SLICE_BYTES : REPLY_GO_BYTES);
    while (fields_next(&x.fields, &w, &f)) {
        bool live = hash_is_live(&x, &f);
        if (live && what & NAMES) reply_packed(r, f.name);
        if (live && what & VALUES) reply_packed(r, f.value);
        if (r->size > full || (w.index == 0 && w.bucket >= end)) break;
    }
    if (w.bucket >= buckets) return HOP_DONE;
    if (in_slices) h->state = fields_walk_place(&w) + HOP_IN_SLICES;
    else reply_cut(s, r, began);
    return HOP_AGAIN;
}

static enum hop_result hgetall(struct shard *s, struct hop *h, struct reply *r) { return reply_all(s, h, NAMES | VALUES, r); }
static enum hop_result hkeys(struct shard *s, struct hop *h, struct reply *r) { return reply_all(s, h, NAMES, r); }
static enum hop_result hvals(struct shard *s, struct hop *h, struct reply *r) { return reply_all(s, h, VALUES, r); }

static enum hop_result hscan(struct shard *s, struct hop *h, struct reply *r) {
    struct hash x;
    struct scan_options o;
    uint64_t cursor;
    if (!scan_cursor(&h->argv[2], &cursor, r) || !open_read(s, h, &x, r)) return HOP_DONE;
    if (!x.key.entry) {
        reply_empty_scan(r);
    } else if (scan_options(h, &o, r)) {
        o.live_from_ms = x.now_ms;
        field_scan(&x.fields, cursor, &o, true, r);
    }
    return HOP_DONE;
}

/* --- counters --- */

/* The field's value becomes this. The error is replied. */
static bool change_value(struct shard *s, struct hash *x, const struct arg *name, struct packed *value, struct reply *r) {
    struct field_name packed_name;
    struct field was;
    if (!key_may_take(s, &x->key, HASH_OVERHEAD + name->size + value->text_size + FIELD_OVERHEAD)) {
        reply_refused(s, r);
        return false;
    }
    uint32_t value_size = packed_is_int(value->head) ? packed_text_size(value->head) : value->text_size;
    field_name(&x->fields, name->p, name->size, &packed_name);
    bool found = fields_find(&x->fields, &packed_name, &was);
    key_before_change(s, &x->key, KEY_HINCR);
    bool refused =
        fields_put(&x->fields, &packed_name, found ? &was : NULL, value, found && hash_is_live(x, &was) ? was.expires_at_ms : FIELD_NEVER);
    if (!fields_is_empty(&x->fields)) hash_show_large(x, hash_is_long(name) || hash_is_long(&(struct arg){.size = value_size}));
    refused |= key_store_fields(s, &x->key, TYPE_HASH, &x->fields, KEY_HINCR) != 0;
    if (refused) {
        reply_refused(s, r);
        return false;
    }
    key_after_change(s, &x->key, KEY_HINCR);
    return true;
}

static enum hop_result hincrby(struct shard *s, struct hop *h, struct reply *r) {
    struct hash x;
    struct field f;
    struct packed value;
    int64_t by, v = 0;
    if (!arg_int64(&h->argv[3], &by, r) || !open_write(s, h, &x, r)) return HOP_DONE;
    if (find(&x, &h->argv[2], &f)) {
        if (!packed_is_int(f.value)) {
            reply_error(r, "ERR hash value is not an integer");
            return HOP_DONE;
        }
        v = packed_int(f.value);
    }
    if (__builtin_add_overflow(v, by, &v)) {
        reply_error(r, "ERR increment or decrement would overflow");
        return HOP_DONE;
    }
    packed_of_int(&value, v);
    if (change_value(s, &x, &h->argv[2], &value, r)) reply_int(r, v);
    return HOP_DONE;
}

static enum hop_result hincrbyfloat(struct shard *s, struct hop *h, struct reply *r) {
    struct hash x;
    struct field f;
    struct packed value;
    long double v = 0, by;
    char scratch[INT64_TEXT_SIZE], text[LONG_DOUBLE_TEXT_SIZE];
    uint32_t size;
    if (!parse_long_double(h->argv[3].p, h->argv[3].size, &by)) {
        reply_error(r, "ERR value is not a valid float");
        return HOP_DONE;
    }
    if (!isfinite(by)) {
        reply_error(r, "ERR value is NaN or Infinity");
        return HOP_DONE;
    }
    if (!open_write(s, h, &x, r)) return HOP_DONE;
    if (find(&x, &h->argv[2], &f)) {
        const char *old = packed_text(f.value, scratch, &size);
        if (!parse_long_double(old, size, &v)) {
            reply_error(r, "ERR hash value is not a float");
            return HOP_DONE;
        }
    }
    v += by;
    if (!isfinite(v)) {
        reply_error(r, "ERR increment would produce NaN or Infinity");
        return HOP_DONE;
    }
    size = (uint32_t)format_long_double(text, v);
    packed_of(&value, text, size);
    if (change_value(s, &x, &h->argv[2], &value, r)) reply_bulk(r, text, size);
    return HOP_DONE;
}

/* --- the rows --- */

#define HASH_ROW .group = "hash", .acl = ACL_HASH, .plan = PLAN_SINGLE, .n_key_specs = 1
#define FIRST_KEY(flags_) .keys = {KEY_RANGE(1, 0, 1, flags_)}

const struct command commands_hash[] = {
    {HASH_ROW, .name = "hdel", .since = "2.0.0", .arity = -3, .flags = CMD_WRITE | CMD_FAST | CMD_VALUE_HINT,
        .summary = "Delete one or more hash fields", .complexity = "O(N) where N is the number of fields to be removed.", .on_shard = hdel,
        .on_drop = many_drop, FIRST_KEY(KEY_RW | KEY_DELETE)},
    {HASH_ROW, .name = "hexists", .since = "2.0.0", .arity = 3, .flags = CMD_READONLY | CMD_FAST | CMD_VALUE_HINT,
        .summary = "Determine if a hash field exists", .complexity = "O(1)", .on_shard = hexists, FIRST_KEY(KEY_RO)},
    {HASH_ROW, .name = "hget", .since = "2.0.0", .arity = 3, .flags = CMD_READONLY | CMD_FAST | CMD_VALUE_HINT,
        .summary = "Get the value of a hash field", .complexity = "O(1)", .on_shard = hget, FIRST_KEY(KEY_RO | KEY_ACCESS)},
    {HASH_ROW, .name = "hgetall", .since = "2.0.0", .arity = 2, .flags = CMD_READONLY, .summary = "Get all the fields and values in a hash",
        .complexity = "O(N) where N is the size of the hash.", .on_shard = hgetall, FIRST_KEY(KEY_RO | KEY_ACCESS),
        .hints = (const char *const[]){"nondeterministic_output_order", NULL}},
    {HASH_ROW, .name = "hincrby", .since = "2.0.0", .arity = 4, .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST | CMD_VALUE_HINT,
        .summary = "Increment the integer value of a hash field by the given number", .complexity = "O(1)", .on_shard = hincrby,
        FIRST_KEY(KEY_RW | KEY_ACCESS | KEY_UPDATE)},
    {HASH_ROW, .name = "hincrbyfloat", .since = "2.6.0", .arity = 4, .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST | CMD_VALUE_HINT,
        .summary = "Increment the float value of a hash field by the given amount", .complexity = "O(1)", .on_shard = hincrbyfloat,
        FIRST_KEY(KEY_RW | KEY_ACCESS | KEY_UPDATE)},
    {HASH_ROW, .name = "hkeys", .since = "2.0.0", .arity = 2, .flags = CMD_READONLY, .summary = "Get all the fields in a hash",
        .complexity = "O(N) where N is the size of the hash.", .on_shard = hkeys, FIRST_KEY(KEY_RO | KEY_ACCESS),
        .hints = (const char *const[]){"nondeterministic_output_order", NULL}},
    {HASH_ROW, .name = "hlen", .since = "2.0.0", .arity = 2, .flags = CMD_READONLY | CMD_FAST,
        .summary = "Get the number of fields in a hash", .complexity = "O(1)", .on_shard = hlen, FIRST_KEY(KEY_RO)},
    {HASH_ROW, .name = "hmget", .since = "2.0.0", .arity = -3, .flags = CMD_READONLY | CMD_FAST | CMD_VALUE_HINT,
        .summary = "Get the values of all the given hash fields", .complexity = "O(N) where N is the number of fields being requested.",
        .on_shard = hmget, .on_drop = many_drop, FIRST_KEY(KEY_RO | KEY_ACCESS)},
    {HASH_ROW, .name = "hmset", .since = "2.0.0", .arity = -4, .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST | CMD_VALUE_HINT,
        .summary = "Set multiple hash fields to multiple values", .complexity = "O(N) where N is the number of fields being set.",
        .on_shard = hmset, .on_drop = many_drop, FIRST_KEY(KEY_RW | KEY_UPDATE)},
    {HASH_ROW, .name = "hrandfield", .since = "6.2.0", .arity = -2, .flags = CMD_READONLY,
        .summary = "Get one or multiple random fields from a hash", .complexity = "O(N) where N is the number of fields returned",
        .on_shard = hrandfield, .on_drop = field_drawing_drop, FIRST_KEY(KEY_RO | KEY_ACCESS),
        .hints = (const char *const[]){"nondeterministic_output", NULL}},
    {HASH_ROW, .name = "hscan", .since = "2.8.0", .arity = -3, .flags = CMD_READONLY,
        .summary = "Incrementally iterate hash fields and associated values",
        .complexity =
            "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to 0. "
            "N is the number of elements inside the collection..",
        .on_shard = hscan, FIRST_KEY(KEY_RO | KEY_ACCESS), .hints = (const char *const[]){"nondeterministic_output", NULL}},
    {HASH_ROW, .name = "hset", .since = "2.0.0", .arity = -4, .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST | CMD_VALUE_HINT,
        .summary = "Set the string value of a hash field",
        .complexity = "O(1) for each field/value pair added, so O(N) to add N field/value pairs when the command is called with multiple "
                      "field/value pairs.",
        .on_shard = hset, .on_drop = many_drop, FIRST_KEY(KEY_RW | KEY_UPDATE)},
    {HASH_ROW, .name = "hsetnx", .since = "2.0.0", .arity = 4, .flags = CMD_WRITE | CMD_DENYOOM | CMD_FAST | CMD_VALUE_HINT,
        .summary = "Set the value of a hash field, only if the field does not exist", .complexity = "O(1)", .on_shard = hsetnx,
        FIRST_KEY(KEY_RW | KEY_INSERT)},
    {HASH_ROW, .name = "hstrlen", .since = "3.2.0", .arity = 3, .flags = CMD_READONLY | CMD_FAST | CMD_VALUE_HINT,
        .summary = "Get the length of the value of a hash field", .complexity = "O(1)", .on_shard = hstrlen, FIRST_KEY(KEY_RO)},
    {HASH_ROW, .name = "hvals", .since = "2.0.0", .arity = 2, .flags = CMD_READONLY, .summary = "Get all the values in a hash",
        .complexity = "O(N) where N is the size of the hash.", .on_shard = hvals, FIRST_KEY(KEY_RO | KEY_ACCESS),
        .hints = (const char *const[]){"nondeterministic_output_order", NULL}},
    {.name = NULL},
};
