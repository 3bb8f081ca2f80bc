/* DUMP and RESTORE: a key's value as RDB has it, with a footer: the format's version (2 bytes) and a checksum (8 bytes). In this file: DUMP, a large value in
 * slices; RESTORE, and one of a long payload in slices; the rows. */
#include "server/dump.h"

#include <mimalloc.h>
#include <stdio.h>

#include "server/command.h"
#include "server/config.h"
#include "server/regions.h"
#include "server/strings.h"
#include "shard/blob.h"
#include "shard/crc64.h"
#include "shard/rdb_read.h"
#include "shard/unpack.h"

#define FOOTER 10u
/* Bytes that a slice copies to the reply: about 100 us, most of it for fresh pages, where memory is busy. */
#define SLICE_COPIED (128u << 10)

/* ---- DUMP ---- */

static void sum(struct dump *d) {
    d->crc = crc64(d->crc, d->text.bytes + d->summed, d->text.length - d->summed);
    d->summed = d->text.length;
}

bool dump_begin(struct dump *d, const struct entry *e) {
    *d = (struct dump){.text = d->text, .version = rdb_version_of(e)};
    d->text.length = 0;
    rdb_value_begin(&d->value, e, config_current()->rdbcompression);
    return rdb_put_byte(&d->text, (uint8_t)rdb_type_of(e));
}

enum rdb_step dump_step(struct dump *d, struct shard *s, const struct entry *e, size_t bytes) {
    enum rdb_step step = rdb_value_step(&d->value, s, e, &d->text, bytes);
    uint8_t version[2] = {(uint8_t)d->version, (uint8_t)(d->version >> 8)};
    if (step == RDB_DONE && !rdb_put_bytes(&d->text, version, sizeof version)) return RDB_NO_MEMORY;
    sum(d);
    if (step != RDB_DONE) return step;
    uint8_t crc[8];
    for (unsigned i = 0; i < sizeof crc; i++) crc[i] = (uint8_t)(d->crc >> 8 * i);
    d->written = true;
    return rdb_put_bytes(&d->text, crc, sizeof crc) ? RDB_DONE : RDB_NO_MEMORY;
}

static void dump_at_once(struct shard *s, const struct entry *e, struct reply *r) {
    struct dump d = {0};
    if (dump_begin(&d, e) && dump_step(&d, s, e, SIZE_MAX) == RDB_DONE) reply_bulk(r, (const char *)d.text.bytes, d.text.length);
    else reply_no_memory(r);
    rdb_buffer_drop(&d.text);
}

/* Of a hop in slices. */
static struct dump *dump_of(const struct hop *h) { return h->state > HOP_IN_SLICES ? (struct dump *)(uintptr_t)h->state : NULL; }

void dump_drop_text(struct rdb_buffer *text) {
    size_t mapped = rdb_buffer_mapped(text);
    if (mapped) regions_give_back(text->bytes, mapped);
    else rdb_buffer_drop(text);
    *text = (struct rdb_buffer){0};
}

static void dump_drop(struct shard *s, struct hop *h, struct reply *r) {
    struct dump *d = dump_of(h);
    (void)s, (void)r;
    if (d) dump_drop_text(&d->text);
    mi_free(d);
}

static uint64_t dump_held(const struct hop *h) { return dump_of(h) ? dump_of(h)->text.capacity : 0; }

static enum hop_result dump_end(struct shard *s, struct hop *h, struct reply *r) {
    dump_drop(s, h, r);
    h->state = 0;
    return HOP_DONE;
}

/* Some of what was written goes to the reply. */
static enum hop_result copy_slice(struct shard *s, struct hop *h, struct dump *d, struct reply *r) {
    if (!d->copied) {
        char head[32];
        reply_bytes(r, head, (size_t)snprintf(head, sizeof head, "$%zu\r\n", d->text.length));
    }
    size_t left = d->text.length - d->copied, n = left < SLICE_COPIED ? left : SLICE_COPIED;
    reply_bytes(r, (const char *)d->text.bytes + d->copied, n);
    d->copied += n;
    if (n < left) return HOP_AGAIN;
    REPLY_LITERAL(r, "\r\n");
    return dump_end(s, h, r);
}

static enum hop_result dump_slice(struct shard *s, struct hop *h, struct reply *r) {
    struct dump *d = dump_of(h);
    struct key k;
    if (d && d->written) return copy_slice(s, h, d, r);
    if (!key_look_again(s, s->dbs[h->db], h->hash, hop_key(h, 0)->p, hop_key(h, 0)->size, &k)) {
        reply_null(r);
        return dump_end(s, h, r);
    }
    bool good = d || (d = mi_calloc(1, sizeof *d));
    if (good && !dump_of(h)) {
        good = dump_begin(d, k.entry);
        h->state = (uint64_t)(uintptr_t)d;
    }
    if (good && dump_step(d, s, k.entry, DUMP_SLICE_BYTES) != RDB_NO_MEMORY) return HOP_AGAIN;
    reply_no_memory(r);
    return dump_end(s, h, r);
}

static enum hop_result dump(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    if (h->state) return dump_slice(s, h, r);
    if (!key_read(s, h, &k)) reply_null(r);
    else if (rdb_is_large(k.entry)) return HOP_AGAIN;
    else dump_at_once(s, k.entry, r);
    return HOP_DONE;
}

/* ---- RESTORE ---- */

struct restore {
    bool replace, absolute;
    int64_t ttl_ms, idle_s, frequency; /* idle_s, frequency: -1: not given */
};

static bool read_option(const struct hop *h, uint32_t *at, struct restore *o, struct reply *r) {
    const struct arg *a = &h->argv[*at], *next = *at + 1 < h->argc ? a + 1 : NULL;
    if (arg_is(a, "replace")) o->replace = true;
    else if (arg_is(a, "absttl")) o->absolute = true;
    else if (next && o->frequency < 0 && arg_is(a, "idletime")) {
        if (!arg_int64(next, &o->idle_s, r)) return false;
        if (o->idle_s < 0) {
            reply_error(r, "ERR Invalid IDLETIME value, must be >= 0");
            return false;
        }
        ++*at;
    } else if (next && o->idle_s < 0 && arg_is(a, "freq")) {
        if (!arg_int64(next, &o->frequency, r)) return false;
        if (o->frequency < 0 || o->frequency > 255) {
            reply_error(r, "ERR Invalid FREQ value, must be >= 0 and <= 255");
            return false;
        }
        ++*at;
    } else {
        reply_syntax_error(r);
        return false;
    }
    return true;
}

/* Whether the footer is right, of what has this checksum. */
static bool footer_fits(const struct arg *payload, uint64_t sum) {
    const uint8_t *footer = (const uint8_t *)payload->p + payload->size - FOOTER;
    uint64_t crc = 0;
    for (unsigned i = 0; i < 8; i++) crc |= (uint64_t)footer[2 + i] << 8 * i;
    return (unsigned)(footer[0] | footer[1] << 8) <= RDB_VERSION_TIMES && sum == crc;
}

static bool is_sound(const struct arg *payload) {
    return payload->size >= FOOTER && footer_fits(payload, crc64(0, payload->p, payload->size - 8));
}

static struct rdb_limits limits_of(const struct config *c) {
    return (struct rdb_limits){.hash_entries = c->hash_max_listpack_entries,
        .hash_value = c->hash_max_listpack_value,
        .list_size = c->list_max_listpack_size,
        .set_entries = c->set_max_intset_entries,
        .zset_entries = c->zset_max_listpack_entries,
        .zset_value = c->zset_max_listpack_value};
}

/* The type, if the value goes to the very end. */
static bool is_whole(struct rdb_source x, uint8_t *type) { return rdb_get_byte(&x, type) && rdb_skip_value(&x, *type) && x.at == x.end; }

static int64_t time_of(const struct shard *s, const struct restore *o) {
    int64_t most = EXPIRY_NONE - 1, from = o->absolute ? 0 : s->now_ms;
    if (!o->ttl_ms) return EXPIRY_NONE;
    return o->ttl_ms > most - from ? most : o->ttl_ms + from;
}

static void restore_value(struct shard *s, struct key *k, const struct arg *payload, const struct restore *o, struct reply *r) {
    const uint8_t *p = (const uint8_t *)payload->p;
    struct rdb_source x = {.at = p, .end = p + payload->size - FOOTER, .offset = payload->size - FOOTER};
    struct rdb_limits limits = limits_of(config_current());
    uint8_t type = RDB_STRING;
    int64_t at_ms = time_of(s, o);
    if (!is_whole(x, &type)) {
        if (type == RDB_STREAM || type == RDB_STREAM_2 || type == RDB_STREAM_3)
            reply_error(r, "ERR Bad data format: streams are not there yet");
        else reply_error(r, "ERR Bad data format");
        return;
    }
    bool is_past = at_ms < s->now_ms; /* nobody will see the value; what was under the name goes */
    x.at++;
    if (is_past ? rdb_check_value(&x, type, s, &limits) : rdb_read_value(&x, type, s, k, at_ms, &limits, KEY_RESTORE)) {
        if (is_past && k->entry) key_delete(s, k, KEY_DEL);
        else if (!is_past && o->idle_s >= 0) key_set_idle(s, k, (uint64_t)o->idle_s);
        reply_ok(r);
    } else if (x.no_memory) reply_refused(s, r);
    else reply_error(r, "ERR Bad data format");
}

/* ---- RESTORE of a long payload, in slices: the checksum; the value, made aside; then it gets its place ---- */

/* Bytes of a payload, or of a string, that take less than some 100 us in one go: those of a container may be very many elements. */
#define LONG_STRING (64u << 10)
#define LONG_CONTAINER (4u << 10)
/* A slice: bytes that are summed, copied within the cache's reach, unpacked; elements (80 us for a sorted set), and those of a list. */
#define SLICE_SUMMED (512u << 10)
#define SLICE_MOVED (512u << 10)
#define SLICE_UNPACKED (256u << 10)
#define SLICE_MADE 128u
#define SLICE_PUSHED 1024u

struct restoring {
    uint8_t type; /* the payload's first byte, which a string that is made in place overwrites */
    int64_t at_ms, idle_s;
    uint64_t crc;
    size_t summed, at;        /* bytes of the payload */
    struct rdb_making *value; /* NULL: not begun, or a string */
    /* A string. */
    struct blob *string;       /* NULL: not begun */
    bool in_place, compressed; /* in_place: it becomes what its own argument is */
    struct unpacking unpacking;
    size_t size, moved; /* bytes of the text; of these, at their place */
    uint64_t reserved;  /* bytes of the budget, for a blob of its own */
};

static struct restoring *restoring_of(const struct hop *h) {
    return h->state > HOP_IN_SLICES ? (struct restoring *)(uintptr_t)h->state : NULL;
}

/* The blob's memory is nobody's until it has its place; the budget is asked all the same. */
static bool reserve(struct shard *s, struct restoring *x, uint64_t bytes) {
    if (s->leased == BUDGET_NONE) return true;
    if (!budget_reserve(s->budget, bytes)) return false;
    x->reserved = bytes;
    return true;
}

static void unreserve(struct shard *s, struct restoring *x) {
    if (x->reserved) budget_give(s->budget, x->reserved);
    x->reserved = 0;
}

static void restore_drop(struct shard *s, struct hop *h, struct reply *r) {
    struct restoring *x = restoring_of(h);
    (void)r;
    if (x) unreserve(s, x);
    if (x) rdb_make_drop(x->value);
    if (x && x->string && !x->in_place) blob_give_up(x->string);
    mi_free(x);
    h->state = 0;
}

static uint64_t restore_held(const struct hop *h) {
    const struct restoring *x = restoring_of(h);
    if (!x) return 0;
    return (x->value ? rdb_make_aside(x->value) : 0) + (x->string && !x->in_place ? blob_memory(x->string) : 0);
}

static struct rdb_source source_at(const struct arg *payload, size_t at) {
    const uint8_t *p = (const uint8_t *)payload->p;
    return (struct rdb_source){.at = p + at, .end = p + payload->size - FOOTER, .offset = payload->size - FOOTER};
}

static bool is_long(const struct arg *payload) {
    uint8_t type = payload->size > FOOTER ? (uint8_t)payload->p[0] : RDB_STRING;
    struct rdb_string_head head;
    if (payload->size <= FOOTER + 1) return false;
    struct rdb_source x = source_at(payload, 1);
    if (type == RDB_STRING) return payload->size > LONG_STRING || (rdb_get_string_head(&x, &head) && head.size > LONG_STRING);
    return payload->size > LONG_CONTAINER && rdb_is_container(type);
}

/* False: all of it is summed. */
static bool sum_slice(struct restoring *x, const struct arg *payload) {
    size_t left = payload->size - 8 - x->summed, n = left < SLICE_SUMMED ? left : SLICE_SUMMED;
    x->crc = crc64(x->crc, payload->p + x->summed, n);
    x->summed += n;
    return n < left;
}

static enum hop_result reply_wrong(struct shard *s, const struct rdb_source *x, struct reply *r) {
    if (x->no_memory) reply_refused(s, r);
    else reply_error(r, "ERR Bad data format");
    return HOP_DONE;
}

/* Puts the value that was made under the key's name. False: it was refused, and is still there. */
typedef bool store_fn(struct shard *s, struct hop *h, struct restoring *x, struct key *k);

static bool store_container(struct shard *s, struct hop *h, struct restoring *x, struct key *k) {
    struct rdb_source from = source_at(&h->argv[3], x->at);
    (void)s;
    if (!rdb_make_store(x->value, &from, k, x->at_ms, KEY_RESTORE)) return false;
    x->value = NULL;
    return true;
}

static bool store_string(struct shard *s, struct hop *h, struct restoring *x, struct key *k) {
    struct arg text = {.p = x->string->bytes, .size = (uint32_t)x->size, .flags = ARG_BLOB};
    x->string->size = x->size;
    unreserve(s, x); /* it is asked for the key now */
    if (key_set_arg(s, k, &text, x->at_ms, KEY_RESTORE)) return false;
    if (text.flags & ARG_BLOB) return true; /* it was short, and was copied */
    if (x->in_place) h->argv[3].flags &= ~(uint32_t)ARG_BLOB;
    x->string = NULL;
    return true;
}

/* The value is there, whole. */
static enum hop_result place_value(struct shard *s, struct hop *h, struct restoring *x, store_fn *store, struct reply *r) {
    struct key k;
    key_write(s, h, &k);
    if (x->at_ms < s->now_ms) { /* nobody will see it; what was under the name goes */
        if (k.entry) key_delete(s, &k, KEY_DEL);
    } else if (!store(s, h, x, &k)) {
        reply_refused(s, r);
        return HOP_DONE;
    } else if (x->idle_s >= 0) key_set_idle(s, &k, (uint64_t)x->idle_s);
    reply_ok(r);
    return HOP_DONE;
}

/* The string's bytes are moved within their own blob, if the payload is one: that takes no memory. */
static enum hop_result begin_string(struct shard *s, struct restoring *x, const struct arg *payload, struct reply *r) {
    struct rdb_source from = source_at(payload, 1);
    struct rdb_string_head head;
    if (!rdb_get_string_head(&from, &head) || head.is_int || (uint64_t)(from.end - from.at) != head.bytes) {
        reply_error(r, "ERR Bad data format");
        return HOP_DONE;
    }
    x->at = (size_t)(from.at - (const uint8_t *)payload->p);
    x->size = head.size;
    x->compressed = head.compressed;
    x->in_place = payload->flags & ARG_BLOB && !head.compressed;
    if (x->in_place) x->string = (struct blob *)(uintptr_t)(payload->p - offsetof(struct blob, bytes));
    else if (reserve(s, x, blob_memory_for(head.size))) x->string = blob_receive(head.size);
    if (x->string) {
        x->unpacking =
            (struct unpacking){.from = from.at, .from_size = head.bytes, .to = (uint8_t *)x->string->bytes, .to_size = head.size};
        return HOP_AGAIN;
    }
    reply_refused(s, r);
    return HOP_DONE;
}

static enum hop_result string_slice(struct shard *s, struct hop *h, struct restoring *x, struct reply *r) {
    const struct arg *payload = &h->argv[3];
    if (!x->string) return begin_string(s, x, payload, r);
    if (x->compressed) {
        enum unpack_step step = unpack_some(&x->unpacking, SLICE_UNPACKED);
        if (step == UNPACK_MORE) return HOP_AGAIN;
        if (step == UNPACK_DONE) return place_value(s, h, x, store_string, r);
        reply_error(r, "ERR Bad data format");
        return HOP_DONE;
    }
    size_t left = x->size - x->moved, n = left < SLICE_MOVED ? left : SLICE_MOVED;
    memmove(x->string->bytes + x->moved, payload->p + x->at + x->moved, n);
    x->moved += n;
    return n < left ? HOP_AGAIN : place_value(s, h, x, store_string, r);
}

static bool is_list(uint8_t type) {
    return type == RDB_LIST || type == RDB_LIST_ZIPLIST || type == RDB_QUICKLIST || type == RDB_QUICKLIST_2;
}

static enum hop_result container_slice(struct shard *s, struct hop *h, struct restoring *x, struct reply *r) {
    const struct arg *payload = &h->argv[3];
    struct rdb_limits limits = limits_of(config_current());
    if (!x->value) {
        x->value = rdb_make_begin(x->type, s, &limits);
        x->at = 1;
        if (x->value) return HOP_AGAIN;
        reply_no_memory(r);
        return HOP_DONE;
    }
    struct rdb_source from = source_at(payload, x->at);
    enum rdb_making_step step = rdb_make_step(x->value, &from, is_list(x->type) ? SLICE_PUSHED : SLICE_MADE);
    x->at = (size_t)(from.at - (const uint8_t *)payload->p);
    if (step == RDB_MAKING) return HOP_AGAIN;
    if (step != RDB_MADE || from.at != from.end || !rdb_make_check(x->value, &from)) return reply_wrong(s, &from, r);
    return place_value(s, h, x, store_container, r);
}

static enum hop_result restore_slice(struct shard *s, struct hop *h, struct reply *r) {
    struct restoring *x = restoring_of(h);
    const struct arg *payload = &h->argv[3];
    enum hop_result result = HOP_DONE;
    if (x->summed < payload->size - 8) {
        if (sum_slice(x, payload) || footer_fits(payload, x->crc)) return HOP_AGAIN;
        reply_error(r, "ERR DUMP payload version or checksum are wrong");
    } else result = x->type == RDB_STRING ? string_slice(s, h, x, r) : container_slice(s, h, x, r);
    if (result == HOP_DONE) restore_drop(s, h, r);
    return result;
}

static enum hop_result restore_in_slices(struct shard *s, struct hop *h, const struct restore *o, struct reply *r) {
    struct restoring *x;
    if (!h->state) return HOP_AGAIN; /* its key is locked first */
    if (!(x = mi_calloc(1, sizeof *x))) {
        reply_no_memory(r);
        return HOP_DONE;
    }
    x->type = (uint8_t)h->argv[3].p[0];
    x->at_ms = time_of(s, o);
    x->idle_s = o->idle_s;
    h->state = (uint64_t)(uintptr_t)x;
    return restore_slice(s, h, r);
}

/* FREQ is checked, and forgotten: as in Redis while no policy of eviction asks for it. */
static enum hop_result restore(struct shard *s, struct hop *h, struct reply *r) {
    struct restore o = {.idle_s = -1, .frequency = -1};
    struct key k;
    if (restoring_of(h)) return restore_slice(s, h, r);
    for (uint32_t i = 4; i < h->argc; i++)
        if (!read_option(h, &i, &o, r)) return HOP_DONE;
    if (key_write(s, h, &k) && !o.replace) reply_error(r, "BUSYKEY Target key name already exists.");
    else if (!arg_int64(&h->argv[2], &o.ttl_ms, r)) return HOP_DONE;
    else if (o.ttl_ms < 0) reply_error(r, "ERR Invalid TTL value, must be >= 0");
    else if (is_long(&h->argv[3])) return restore_in_slices(s, h, &o, r);
    else if (!is_sound(&h->argv[3])) reply_error(r, "ERR DUMP payload version or checksum are wrong");
    else restore_value(s, &k, &h->argv[3], &o, r);
    return HOP_DONE;
}

/* ---- the rows ---- */

const struct command commands_dump[] = {
    {.name = "dump",
        .group = "generic",
        .since = "2.6.0",
        .arity = 2,
        .flags = CMD_READONLY,
        .acl = ACL_KEYSPACE,
        .summary = "Return a serialized version of the value stored at the specified key.",
        .complexity =
            "O(1) to access the key and additional O(N*M) to serialize it, where N is the number of Redis objects composing the value and "
            "M their average size. For small string values the time complexity is thus O(1)+O(1*M) where M is small, so simply O(1).",
        .plan = PLAN_SINGLE,
        .on_shard = dump,
        .on_drop = dump_drop,
        .held_bytes = dump_held,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1,
        .hints = (const char *const[]){"nondeterministic_output", NULL}},
    {.name = "restore",
        .group = "generic",
        .since = "2.6.0",
        .arity = -4,
        .flags = CMD_WRITE | CMD_DENYOOM,
        .acl = ACL_KEYSPACE | ACL_DANGEROUS,
        .summary = "Create a key using the provided serialized value, previously obtained using DUMP.",
        .complexity =
            "O(1) to create the new key and additional O(N*M) to reconstruct the serialized value, where N is the number of Redis objects "
            "composing the value and M their average size. For small string values the time complexity is thus O(1)+O(1*M) where M is "
            "small, so simply O(1). However for sorted set values the complexity is O(N*M*log(N)) because inserting values into sorted "
            "sets is O(log(N)).",
        .plan = PLAN_SINGLE,
        .on_shard = restore,
        .on_drop = restore_drop,
        .held_bytes = restore_held,
        .keys = {KEY_RANGE(1, 0, 1, KEY_OW | KEY_UPDATE)},
        .n_key_specs = 1},
    {0}};
