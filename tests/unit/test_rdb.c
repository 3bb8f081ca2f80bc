/* RDB values: what is written in steps of any size is read as the same value, and skipped to its end; every cut and every changed byte leaves nothing behind; the packed
 * forms that only others write, and what is wrong with them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shard/keyspace.h"
#include "shard/memory.h"
#include "shard/rdb_read.h"
#include "shard/rdb_write.h"
#include "shard/shard.h"
#include "tests/lib/dribble.h"
#include "tests/lib/random.h"
#include "tests/lib/two_shards.h"
#include "tests/lib/values.h"

#define LATER_MS (NOW_MS + 100000)

static struct random dice;
static uint64_t draw(void) { return random_next(&dice); }

static int setup(void **state) {
    random_seed(&dice, 7, 0);
    return two_shards_setup(state);
}

/* ---- values of all kinds ---- */

/* Its bytes, of which the last tells it from all others. */
static uint32_t draw_text(char *to, uint32_t number) {
    static const uint32_t sizes[] = {3, 20, 40, 113, 300, 5000};
    if (below(&dice, 3) == 0)
        return (uint32_t)snprintf(to, 32, "%lld", (long long)(int64_t)(draw() >> below(&dice, 64)) ^ (long long)number << 40);
    uint32_t size = below(&dice, sizes[below(&dice, 6)]);
    bool plain = below(&dice, 2);
    for (uint32_t i = 0; i < size; i++) to[i] = (char)(plain ? 'a' + below(&dice, 2) : draw());
    return size + (uint32_t)snprintf(to + size, 32, ":%u", number);
}

enum kind { TEXT, LIST, SET, INTS, ZSET, HASH, TIMED, KINDS };

static void make(struct shard *s, enum kind kind, uint32_t n) {
    static char text[6000], other[6000];
    struct key k = find(s, "key");
    struct list list = list_new(s, -2);
    struct set set = set_new(s);
    struct zset zset = zset_new(s);
    struct fields fields = {.memory = s->memory, .secret = &secret};
    struct field_name name;
    struct packed value;
    int64_t first_ms = FIELD_NEVER;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t size = kind == INTS ? (uint32_t)snprintf(text, 32, "%lld", (long long)i << below(&dice, 40)) : draw_text(text, i);
        switch (kind) {
        case TEXT: key_set_bytes(s, &k, text, size, FORM_ANY, EXPIRY_NONE, KEY_SET); break;
        case LIST: assert_int_equal(list_push(&list, LIST_TAIL, &(struct arg){.p = text, .size = size}), 0); break;
        case SET:
        case INTS:
            set_name(&set, text, size, &name);
            assert_true(set_add(&set, &name, 512) >= 0);
            break;
        case ZSET:
            zset_name(&zset, text, size, &name);
            assert_int_equal(zset_put(&zset, &name, NULL,
                                 below(&dice, 9)               ? (double)(int64_t)draw() / 1e9
                                     : below(&dice, 2)         ? INFINITY
                                     : n > limits.zset_entries ? -0.0
                                                               : 0),
                0);
            break;
        default: {
            int64_t at_ms = kind == TIMED && below(&dice, 2) ? NOW_MS + 1 + below(&dice, 1000000) : FIELD_NEVER;
            field_name(&fields, text, size, &name);
            packed_of(&value, other, draw_text(other, i));
            assert_int_equal(fields_put(&fields, &name, NULL, &value, at_ms), 0);
            if (at_ms < first_ms) first_ms = at_ms;
        }
        }
    }
    if (kind == LIST) list_replace(s, &k, &list, KEY_RPUSH);
    else if (kind == SET || kind == INTS) set_replace(s, &k, &set, KEY_SADD);
    else if (kind == ZSET) zset_replace(s, &k, &zset, KEY_ZADD);
    else if (kind != TEXT) {
        key_replace(s, &k, TYPE_HASH, fields.map ? ENC_MAP : ENC_PAGE, fields.map ? (void *)fields.map : (void *)fields.page, KEY_HSET);
        if (first_ms != FIELD_NEVER) key_time_fields(s, &k, first_ms);
    }
}

/* ---- comparing ---- */

static void same(struct shard *s, struct shard *t, const char *name) {
    struct key a = find(s, name), b = find(t, name);
    assert_non_null(a.entry);
    assert_non_null(b.entry);
    const char *difference = values_differ(s, &a, t, &b);
    if (difference) fail_msg("%s", difference);
}

/* ---- written, read ---- */

/* The value alone, in steps of about so many bytes. */
static struct rdb_buffer written(struct shard *s, const char *name, bool compress, size_t step) {
    struct rdb_buffer b = {0};
    struct key k = find(s, name);
    struct rdb_value v;
    enum rdb_step what;
    rdb_value_begin(&v, k.entry, compress);
    while ((what = rdb_value_step(&v, s, k.entry, &b, step)) == RDB_MORE) {}
    assert_int_equal(what, RDB_DONE);
    return b;
}

#define SPREAD 8u /* of what a source brings */

static bool read_back(struct shard *s, const char *name, uint8_t type, const uint8_t *p, size_t n, struct rdb_source *x) {
    struct dribble d;
    struct key k = find(s, name);
    *x = dribble_from(&d, p, n, SPREAD);
    bool good = rdb_read_value(x, type, s, &k, EXPIRY_NONE, &limits, KEY_LOADED);
    if (good) assert_true(x->at == x->end && !x->left);
    else assert_true(x->why[0]);
    dribble_drop(&d);
    return good;
}

/* rest: bytes behind it. */
static bool skipped(uint8_t type, const uint8_t *p, size_t n, struct rdb_source *x, size_t *rest) {
    struct dribble d;
    *x = dribble_from(&d, p, n, SPREAD);
    bool good = rdb_skip_value(x, type);
    *rest = (size_t)(x->end - x->at) + x->left;
    dribble_drop(&d);
    return good;
}

static void what_is_written_is_read(void **state) {
    struct shard **two = *state;
    static const uint32_t counts[] = {1, 2, 7, 130, 600, 3000};
    struct rdb_source x;
    for (enum kind kind = 0; kind < KINDS; kind++)
        for (unsigned i = 0; i < 24; i++) {
            make(two[0], kind, counts[i % 6]);
            struct key k = find(two[0], "key");
            uint8_t type = (uint8_t)rdb_type_of(k.entry);
            assert_int_equal(rdb_version_of(k.entry), entry_fields_time(k.entry) != INT64_MAX ? 12 : 10);
            struct rdb_buffer b = written(two[0], "key", i & 1, i % 3 ? 1 + below(&dice, 5000) : SIZE_MAX);
            assert_true(read_back(two[1], "key", type, b.bytes, b.length, &x));
            same(two[0], two[1], "key");
            size_t rest;
            assert_true(skipped(type, b.bytes, b.length, &x, &rest) && !rest);
            rdb_buffer_drop(&b);
            forget(two[0], "key");
            forget(two[1], "key");
        }
}

/* From some size on a buffer is pages of its own, which are moved and not copied. */
static void a_large_buffer_is_a_mapping(void **state) {
    struct rdb_buffer b = {0};
    (void)state;
    for (uint32_t i = 0; i < (8u << 20) / sizeof i; i++) {
        assert_true(rdb_put_bytes(&b, &i, sizeof i));
        assert_true(rdb_buffer_mapped(&b) == (b.capacity >= 1u << 20 ? b.capacity : 0));
    }
    assert_true(rdb_buffer_mapped(&b) >= 8u << 20);
    for (uint32_t i = 0, got; i < (8u << 20) / sizeof i; i++) {
        memcpy(&got, b.bytes + i * sizeof i, sizeof got);
        assert_int_equal(got, i);
    }
    rdb_buffer_drop(&b);
    assert_true(!b.bytes && !b.capacity && !rdb_buffer_mapped(&b));
}

/* A large value that nobody gets, whole, in parts, or only looked at, is freed later, in slices. */
static void what_is_given_up_is_freed_later(void **state) {
    struct shard **two = *state;
    for (enum kind kind = LIST; kind < KINDS; kind++) {
        if (kind == INTS) continue; /* one block */
        make(two[0], kind, 3000);
        struct key k = find(two[0], "key"), none = find(two[1], "none");
        uint8_t type = (uint8_t)rdb_type_of(k.entry);
        struct rdb_buffer b = written(two[0], "key", false, SIZE_MAX);
        struct rdb_source whole = {.at = b.bytes, .end = b.bytes + b.length, .offset = b.length}, x = whole, cut = whole;
        struct rdb_making *m = rdb_make_begin(type, two[1], &limits);
        assert_int_equal(rdb_make_step(m, &x, 2900), RDB_MAKING);
        assert_null(two[1]->trash);
        rdb_make_drop(m);
        assert_non_null(two[1]->trash);
        forget(two[1], "none");
        x = whole;
        assert_true(rdb_check_value(&x, type, two[1], &limits));
        assert_non_null(two[1]->trash);
        forget(two[1], "none");
        cut.end--;
        assert_false(rdb_read_value(&cut, type, two[1], &none, EXPIRY_NONE, &limits, KEY_LOADED));
        assert_non_null(two[1]->trash);
        forget(two[1], "none");
        rdb_buffer_drop(&b);
        forget(two[0], "key");
    }
}

static void a_long_string_is_written_in_steps(void **state) {
    struct shard **two = *state;
    struct rdb_source x;
    size_t size = 300000;
    char *text = malloc(size);
    for (size_t i = 0; i < size; i++) text[i] = (char)draw();
    struct key k = find(two[0], "key");
    assert_int_equal(key_set_bytes(two[0], &k, text, size, FORM_ANY, EXPIRY_NONE, KEY_SET), 0);
    struct rdb_buffer b = written(two[0], "key", true, 1000);
    assert_true(b.length >= size && b.length < size + 10);
    assert_true(read_back(two[1], "key", RDB_STRING, b.bytes, b.length, &x));
    same(two[0], two[1], "key");
    rdb_buffer_drop(&b);
    free(text);
}

static void a_whole_entry_has_its_time_its_idleness_and_its_key(void **state) {
    struct shard **two = *state;
    struct rdb_buffer b = {0};
    struct key k = find(two[0], "key");
    struct rdb_entry_options o = {.idle_s = 300};
    key_set_bytes(two[0], &k, "value", 5, FORM_ANY, 0x0102030405060708, KEY_SET);
    assert_true(rdb_put_entry(&b, two[0], k.entry, &o));
    static const uint8_t expected[] = "\xfc\x08\x07\x06\x05\x04\x03\x02\x01\xf8\x41\x2c\x00\x03key\x05value";
    assert_int_equal(b.length, sizeof expected - 1);
    assert_memory_equal(b.bytes, expected, b.length);
    rdb_buffer_drop(&b);
}

static void lengths_and_numbers_take_as_few_bytes_as_they_can(void **state) {
    (void)state;
    static const uint64_t lengths[] = {0, 63, 64, 16383, 16384, UINT32_MAX, (uint64_t)UINT32_MAX + 1, UINT64_MAX};
    static const size_t sizes[] = {1, 1, 2, 2, 5, 5, 9, 9};
    for (unsigned i = 0; i < 8; i++) {
        struct rdb_buffer b = {0};
        uint64_t n;
        assert_true(rdb_put_length(&b, lengths[i]));
        assert_int_equal(b.length, sizes[i]);
        struct rdb_source x = {.at = b.bytes, .end = b.bytes + b.length};
        assert_true(rdb_get_length(&x, &n));
        assert_true(n == lengths[i] && x.at == x.end);
        rdb_buffer_drop(&b);
    }
    static const int64_t numbers[] = {
        0, -128, 127, 128, -32768, 32767, 32768, INT32_MIN, INT32_MAX, (int64_t)INT32_MAX + 1, INT64_MIN, INT64_MAX};
    static const size_t bytes[] = {2, 2, 2, 3, 3, 3, 5, 5, 5, 11, 21, 20};
    for (unsigned i = 0; i < 12; i++) {
        struct rdb_buffer b = {0};
        struct rdb_text t = {0};
        char text[INT64_TEXT_SIZE];
        unsigned n = format_int64(text, numbers[i]);
        assert_true(rdb_put_string(&b, text, n, false));
        assert_int_equal(b.length, bytes[i]);
        struct rdb_source x = {.at = b.bytes, .end = b.bytes + b.length};
        assert_true(rdb_get_string(&x, &t));
        assert_true(t.size == n && !memcmp(t.p, text, n));
        rdb_text_drop(&t);
        rdb_buffer_drop(&b);
    }
}

/* ---- what is wrong ---- */

/* Nothing is left behind, whether it was read or not. */
static void try(struct shard *s, uint8_t type, const uint8_t *p, size_t n) {
    struct rdb_source x;
    forget(s, "key"); /* what earlier ones left to be freed, too */
    size_t used = memory_used(s->memory), rest;
    skipped(type, p, n, &x, &rest);
    struct dribble d;
    struct key k = find(s, "key");
    x = dribble_from(&d, p, n, SPREAD);
    bool good = rdb_read_value(&x, type, s, &k, EXPIRY_NONE, &limits, KEY_LOADED);
    dribble_drop(&d);
    assert_true(good == !x.why[0]);
    assert_true(good == (find(s, "key").entry != NULL));
    forget(s, "key");
    if (!good) assert_int_equal(memory_used(s->memory), used); /* of a good one with times, the wheel keeps a record */
}

static void damage_leaves_nothing_behind(void **state) {
    struct shard **two = *state;
    make(two[1], TEXT, 1);
    forget(two[1], "key");
    for (enum kind kind = 0; kind < KINDS; kind++)
        for (unsigned i = 0; i < 4; i++) {
            make(two[0], kind, i % 2 ? 5 : 150);
            uint8_t type = (uint8_t)rdb_type_of(find(two[0], "key").entry);
            struct rdb_buffer b = written(two[0], "key", i & 1, SIZE_MAX);
            for (unsigned j = 0; j < 150; j++) {
                size_t cut = j < 20 && j < b.length ? j : below(&dice, (uint32_t)b.length);
                struct rdb_source x;
                assert_false(read_back(two[1], "key", type, b.bytes, cut, &x));
                assert_null(find(two[1], "key").entry);
            }
            for (unsigned j = 0; j < 150; j++) {
                size_t at = below(&dice, (uint32_t)b.length);
                uint8_t was = b.bytes[at];
                b.bytes[at] = (uint8_t)draw();
                try(two[1], type, b.bytes, b.length);
                b.bytes[at] = was;
            }
            rdb_buffer_drop(&b);
            forget(two[0], "key");
        }
}

struct example {
    uint8_t type;
    const char *bytes;
    size_t size;
    const char *why; /* NULL: it is good */
};
#define EXAMPLE(type, bytes, why) \
    { type, bytes, sizeof(bytes) - 1, why }

static void packed_forms_are_read_or_refused(void **state) {
    struct shard **two = *state;
    static const struct example examples[] = {
        /* Two strings, an integer of each width. */
        EXAMPLE(RDB_LIST_ZIPLIST, "\x14\x14\0\0\0\x0f\0\0\0\x03\0\0\x01\x61\x03\xf2\x02\xc0\x00\x01\xff", NULL),
        EXAMPLE(RDB_LIST_ZIPLIST, "\x14\x14\0\0\0\x0f\0\0\0\x03\0\0\x01\x61\x04\xf2\x02\xc0\x00\x01\xff", "wrong link"),
        EXAMPLE(RDB_LIST_ZIPLIST, "\x14\x14\0\0\0\x0f\0\0\0\x04\0\0\x01\x61\x03\xf2\x02\xc0\x00\x01\xff", "another number"),
        EXAMPLE(RDB_LIST_ZIPLIST, "\x14\x14\0\0\0\x0d\0\0\0\x03\0\0\x01\x61\x03\xf2\x02\xc0\x00\x01\xff", "wrong end"),
        EXAMPLE(RDB_LIST_ZIPLIST, "\x14\x15\0\0\0\x0f\0\0\0\x03\0\0\x01\x61\x03\xf2\x02\xc0\x00\x01\xff", "another size"),
        EXAMPLE(RDB_LIST_ZIPLIST, "\x0b\x0b\0\0\0\x0a\0\0\0\0\0\xff", "empty"),
        EXAMPLE(RDB_HASH_ZIPMAP, "\x0c\x01\x03key\x03\x00val\xff\x00", "without an end"),
        EXAMPLE(RDB_HASH_ZIPMAP, "\x0b\x01\x03key\x03\x00val\xff", NULL),
        EXAMPLE(RDB_HASH_ZIPMAP, "\x0d\x01\x03key\x03\x02valxx\xff", NULL),
        EXAMPLE(RDB_HASH_ZIPMAP, "\x0b\x01\x03key\x03\x09val\xff", "does not fit"),
        EXAMPLE(RDB_HASH_ZIPMAP, "\x14\x02\x03key\x03\x00val\x03key\x03\x00val\xff", "twice"),
        EXAMPLE(RDB_SET_INTSET, "\x0c\x02\0\0\0\x02\0\0\0\x01\0\x02\0", NULL),
        EXAMPLE(RDB_SET_INTSET, "\x0c\x02\0\0\0\x02\0\0\0\x02\0\x01\0", "not in order"),
        EXAMPLE(RDB_SET_INTSET, "\x0c\x02\0\0\0\x02\0\0\0\x02\0\x02\0", "not in order"),
        EXAMPLE(RDB_SET_INTSET, "\x0c\x03\0\0\0\x02\0\0\0\x01\0\x02\0", "unknown form"),
        EXAMPLE(RDB_SET_INTSET, "\x0c\x02\0\0\0\x03\0\0\0\x01\0\x02\0", "another size"),
        EXAMPLE(RDB_SET_INTSET, "\x08\x02\0\0\0\0\0\0\0", "empty"),
        EXAMPLE(RDB_SET_LISTPACK, "\x0d\x0d\0\0\0\x02\0\x81\x61\x02\x81\x62\x02\xff", NULL),
        EXAMPLE(RDB_SET_LISTPACK, "\x0e\x0d\0\0\0\x02\0\x81\x61\x02\x81\x62\x02\xff\xff", "another size"),
        EXAMPLE(RDB_SET_LISTPACK, "\x0e\x0e\0\0\0\x02\0\x81\x61\x02\x81\x62\x02\xff\xff", "does not fit"),
        EXAMPLE(RDB_SET_LISTPACK, "\x0d\x0d\0\0\0\x02\0\x81\x61\x02\x81\x61\x02\xff", "twice"),
        EXAMPLE(RDB_HASH_LISTPACK, "\x0c\x0c\0\0\0\x02\0\x81\x61\x02\x05\x01\xff", NULL),
        EXAMPLE(RDB_HASH_LISTPACK, "\x0a\x0a\0\0\0\x01\0\x81\x61\x02\xff", "without a value"),
        EXAMPLE(RDB_HASH_LISTPACK, "\x0c\x0c\0\0\0\x02\0\x81\x61\x03\x05\x01\xff", "wrong link"),
        EXAMPLE(RDB_ZSET_LISTPACK, "\x0c\x0c\0\0\0\x02\0\x81\x61\x02\x05\x01\xff", NULL),
        EXAMPLE(RDB_ZSET_LISTPACK, "\x0f\x0f\0\0\0\x02\0\x81\x61\x02\x83nan\x04\xff", "not a number"),
        EXAMPLE(RDB_ZSET_LISTPACK, "\x0f\x0f\0\0\0\x02\0\x81\x61\x02\x83xyz\x04\xff", "not a number"),
        EXAMPLE(RDB_ZSET_TEXT, "\x02\x01\x61\x03\x31.5\x01\x62\xfe", NULL),
        EXAMPLE(RDB_ZSET_TEXT, "\x01\x01\x61\xfd", "not a number"),
        EXAMPLE(RDB_ZSET_TEXT, "\x02\x01\x61\x01\x31\x01\x61\x01\x32", "twice"),
        EXAMPLE(RDB_ZSET, "\x01\x01\x61\0\0\0\0\0\0\xf8\x7f", "not a number"),
        EXAMPLE(RDB_SET, "\x02\x01\x61\x01\x61", "twice"),
        EXAMPLE(RDB_SET, "\0", "empty"),
        EXAMPLE(RDB_LIST, "\0", "empty"),
        EXAMPLE(RDB_HASH, "\0", "empty"),
        EXAMPLE(RDB_HASH, "\x02\x01\x61\x01\x62\x01\x61\x01\x63", "twice"),
        EXAMPLE(RDB_SET, "\x81\xff\xff\xff\xff\xff\xff\xff\xff", "more elements than bytes"),
        EXAMPLE(RDB_HASH, "\x81\x80\0\0\0\0\0\0\0", "more elements than bytes"),
        EXAMPLE(RDB_STRING, "\x81\x7f\xff\xff\xff\xff\xff\xff\xff", "longer than what is left"),
        EXAMPLE(RDB_STRING, "\xc3\x03\x80\x10\0\0\0\0\0\0", "impossible size"),
        EXAMPLE(RDB_STRING, "\xc4", "unknown form"),
        EXAMPLE(RDB_STRING, "\xbf", "unknown form"),
        EXAMPLE(RDB_LIST, "\xc0\x01\x01\x61", "where a length must be"),
        EXAMPLE(RDB_QUICKLIST_2, "\x02\x01\x02xx\x02\x09\x09\0\0\0\x01\0\x05\x01\xff", NULL),
        EXAMPLE(RDB_QUICKLIST_2, "\x01\x03\x02xx", "unknown form"),
        EXAMPLE(RDB_QUICKLIST_2, "\0", "empty"),
        EXAMPLE(RDB_QUICKLIST, "\x01\x0b\x0b\0\0\0\x0a\0\0\0\0\0\xff", "empty"),
        EXAMPLE(RDB_STREAM_2, "\0", "stream"),
        EXAMPLE(RDB_MODULE, "\0", "module"),
        EXAMPLE(26, "\0", "unknown type"),
        EXAMPLE(8, "\0", "unknown type"),
    };
    for (size_t i = 0; i < sizeof examples / sizeof *examples; i++) {
        const struct example *e = &examples[i];
        struct rdb_source x;
        bool good = read_back(two[0], "key", e->type, (const uint8_t *)e->bytes, e->size, &x);
        if (good == (e->why != NULL) || (e->why && !strstr(x.why, e->why)))
            fail_msg("example %zu, of type %u: %s", i, e->type, good ? "it was read" : x.why);
        forget(two[0], "key");
    }
}

/* As in Redis, which keeps its sign in a skiplist only. */
static void a_small_sorted_set_has_no_negative_zero(void **state) {
    struct shard **two = *state;
    struct rdb_source x;
    struct zset_item m;
    struct field_name name;
    for (unsigned n = 3; n <= 300; n += 297) {
        struct rdb_buffer b = {0};
        rdb_put_length(&b, n);
        for (unsigned i = 0; i < n; i++) {
            double score = i == 1 ? -0.0 : i == 2 ? -1 : i;
            rdb_put_int(&b, i);
            rdb_put_bytes(&b, &score, sizeof score);
        }
        assert_true(read_back(two[0], "key", RDB_ZSET, b.bytes, b.length, &x));
        struct key k = find(two[0], "key");
        struct zset zset = zset_open(two[0], &k);
        zset_name(&zset, "1", 1, &name);
        assert_true(zset_find(&zset, &name, &m));
        assert_true(m.score == 0);
        assert_int_equal(signbit(m.score) != 0, n > 3);
        assert_int_equal(zset_count(&zset), n);
        forget(two[0], "key");
        rdb_buffer_drop(&b);
    }
}

static void times_of_fields_are_read_in_all_four_forms(void **state) {
    struct shard **two = *state;
    static const struct example examples[] = {
        /* One field without a time, one with 1800000000001 ms: absolute; and as a distance from the first. */
        EXAMPLE(RDB_HASH_TIMES_OLD, "\x02\0\x01\x61\x01\x31\x81\0\0\x01\xa3\x18\x5c\x50\x01\x01\x62\x01\x32", NULL),
        EXAMPLE(RDB_HASH_TIMES, "\x01\x50\x5c\x18\xa3\x01\0\0\x02\0\x01\x61\x01\x31\x01\x01\x62\x01\x32", NULL),
        EXAMPLE(RDB_HASH_TIMES_LISTPACK_OLD,
            "\x1d\x1d\0\0\0\x06\0\x81\x61\x02\x01\x01\0\x01\x81\x62\x02\x02\x01\xf4\x01\x50\x5c\x18\xa3\x01\0\0\x09\xff", NULL),
        EXAMPLE(RDB_HASH_TIMES_LISTPACK,
            "\x01\x50\x5c\x18\xa3\x01\0\0\x1d\x1d\0\0\0\x06\0\x81\x61\x02\x01\x01\0\x01\x81\x62\x02\x02\x01\xf4\x01\x50\x5c\x18\xa3\x01\0\0"
            "\x09\xff",
            NULL),
    };
    for (unsigned i = 0; i < 4; i++) {
        struct rdb_source x;
        struct field_name name;
        struct field f;
        if (!read_back(two[0], "key", examples[i].type, (const uint8_t *)examples[i].bytes, examples[i].size, &x))
            fail_msg("form %u: %s", i, x.why);
        struct key k = find(two[0], "key");
        struct fields fields = key_fields(two[0], &k);
        assert_int_equal(fields_count(&fields), 2);
        assert_true(entry_fields_time(k.entry) == INT64_C(1800000000001));
        field_name(&fields, "a", 1, &name);
        assert_true(fields_find(&fields, &name, &f) && f.expires_at_ms == FIELD_NEVER);
        field_name(&fields, "b", 1, &name);
        assert_true(fields_find(&fields, &name, &f) && f.expires_at_ms == INT64_C(1800000000001));
        forget(two[0], "key");
    }
}

static void refused_memory_leaves_nothing_behind(void **state) {
    struct shard **two = *state;
    for (enum kind kind = 0; kind < KINDS; kind++) {
        make(two[0], kind, 300);
        uint8_t type = (uint8_t)rdb_type_of(find(two[0], "key").entry);
        struct rdb_buffer b = written(two[0], "key", false, SIZE_MAX);
        struct rdb_source x;
        size_t used = memory_used(two[1]->memory);
        for (uint64_t nth = 1;; nth += 1 + nth / 8) {
            memory_fail_after(two[1]->memory, nth);
            bool good = read_back(two[1], "key", type, b.bytes, b.length, &x);
            memory_fail_after(two[1]->memory, 0);
            if (good) break;
            assert_non_null(strstr(x.why, "memory"));
            assert_null(find(two[1], "key").entry);
            forget(two[1], "key");
            assert_true(memory_used(two[1]->memory) <= used + 65536); /* tables may have grown */
        }
        same(two[0], two[1], "key");
        rdb_buffer_drop(&b);
        forget(two[0], "key");
        forget(two[1], "key");
    }
}

/* Puts 100 bytes, noise or one letter; the bytes that took. */
static size_t put_100(struct rdb_buffer *b, bool noise) {
    char text[100];
    size_t before = b->length;
    for (unsigned i = 0; i < sizeof text; i++) text[i] = noise ? (char)draw() : 'x';
    assert_true(rdb_put_string(b, text, sizeof text, true));
    return b->length - before;
}

/* A run of noise ends the trying; what can be made smaller among it is soon found, and from then on all is tried. */
static void compression_is_tried_where_it_pays(void **state) {
    (void)state;
    struct rdb_buffer b = {0};
    for (unsigned i = 0; i < 60; i++) assert_int_equal(put_100(&b, true), 102);
    assert_true(put_100(&b, false) < 30);
    for (unsigned i = 0; i < 200; i++) assert_int_equal(put_100(&b, true), 102);
    unsigned as_it_was = 0;
    while (put_100(&b, false) > 30) as_it_was++;
    assert_in_range(as_it_was, 1, 31);
    for (unsigned i = 0; i < 60; i++) assert_true(put_100(&b, false) < 30);
    rdb_buffer_drop(&b);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(what_is_written_is_read, setup, two_shards_teardown),
        cmocka_unit_test_setup_teardown(a_large_buffer_is_a_mapping, setup, two_shards_teardown),
        cmocka_unit_test_setup_teardown(what_is_given_up_is_freed_later, setup, two_shards_teardown),
        cmocka_unit_test_setup_teardown(a_long_string_is_written_in_steps, setup, two_shards_teardown),
        cmocka_unit_test_setup_teardown(a_whole_entry_has_its_time_its_idleness_and_its_key, setup, two_shards_teardown),
        cmocka_unit_test(lengths_and_numbers_take_as_few_bytes_as_they_can),
        cmocka_unit_test(compression_is_tried_where_it_pays),
        cmocka_unit_test_setup_teardown(damage_leaves_nothing_behind, setup, two_shards_teardown),
        cmocka_unit_test_setup_teardown(packed_forms_are_read_or_refused, setup, two_shards_teardown),
        cmocka_unit_test_setup_teardown(a_small_sorted_set_has_no_negative_zero, setup, two_shards_teardown),
        cmocka_unit_test_setup_teardown(times_of_fields_are_read_in_all_four_forms, setup, two_shards_teardown),
        cmocka_unit_test_setup_teardown(refused_memory_leaves_nothing_behind, setup, two_shards_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
