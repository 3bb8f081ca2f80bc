/* Containers with long elements, as RDB: written and read in steps of a bounded number of bytes, as in one go. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <liblzf/lzf.h>

#include "shard/keyspace.h"
#include "shard/memory.h"
#include "shard/rdb_read.h"
#include "shard/rdb_write.h"
#include "shard/shard.h"
#include "tests/lib/random.h"
#include "tests/lib/two_shards.h"
#include "tests/lib/values.h"

/* What is moved in one step at most: a step's bytes, and what is short enough for one (64 KiB) twice, with what stands before it. */
#define STEP_BYTES 4096u
#define STEP_MAX (STEP_BYTES + 2 * (65536u + 32))
#define LONG_BYTES 1000000u

static char noise[LONG_BYTES], letters[LONG_BYTES];

static int setup(void **state) {
    struct random dice;
    random_seed(&dice, 1, 0);
    for (size_t i = 0; i < LONG_BYTES; i++) {
        noise[i] = (char)random_next(&dice);
        letters[i] = (char)('a' + i / 1000 % 26);
    }
    return two_shards_setup(state);
}

/* ---- payloads ---- */

/* In the form that is asked for: as it is, or compressed, whatever its size. */
static void put(struct rdb_buffer *b, const char *text, size_t size, bool compressed) {
    unsigned n = 0;
    char *packed = malloc(size + 8);
    if (compressed) n = lzf_compress(text, (unsigned)size, packed, (unsigned)size + 7);
    if (n) {
        rdb_put_byte(b, RDB_ENCODED | RDB_LZF);
        rdb_put_length(b, n);
        rdb_put_length(b, size);
        rdb_put_bytes(b, packed, n);
    } else rdb_put_string(b, text, size, false);
    free(packed);
}

static void put_zeros(struct rdb_buffer *b, unsigned n) {
    while (n--) rdb_put_byte(b, 0);
}

static const uint8_t types[] = {RDB_LIST, RDB_SET, RDB_ZSET, RDB_HASH, RDB_HASH_TIMES, RDB_QUICKLIST_2};
#define TYPES (sizeof types / sizeof *types)

/* An element, or a field and its value. */
static void put_item(
    struct rdb_buffer *b, uint8_t type, const char *text, size_t size, const char *value, size_t value_size, bool compressed) {
    enum { NODE_PLAIN = 1 };
    if (type == RDB_HASH_TIMES) rdb_put_length(b, size & 1);
    if (type == RDB_QUICKLIST_2) rdb_put_length(b, NODE_PLAIN);
    put(b, text, size, compressed);
    if (type == RDB_HASH || type == RDB_HASH_TIMES) put(b, value, value_size, compressed);
    if (type == RDB_ZSET) put_zeros(b, 8);
}

/* Short and long ones: a long name, a long value, both. */
static struct rdb_buffer payload(uint8_t type, bool compressed) {
    struct rdb_buffer b = {0};
    const uint64_t at_ms = NOW_MS + 1000;
    for (unsigned i = 0; type == RDB_HASH_TIMES && i < 8; i++) rdb_put_byte(&b, (uint8_t)(at_ms >> 8 * i));
    rdb_put_length(&b, 5);
    put_item(&b, type, "a", 1, "1", 1, compressed);
    put_item(&b, type, noise, 300000, "2", 1, compressed);
    put_item(&b, type, "between", 7, letters, LONG_BYTES, compressed);
    put_item(&b, type, letters, 700001, noise, LONG_BYTES, compressed);
    put_item(&b, type, "z", 1, "3", 1, compressed);
    return b;
}

static void read_at_once(struct shard *s, uint8_t type, const struct rdb_buffer *b) {
    struct key k = find(s, "key");
    struct rdb_source x = {.at = b->bytes, .end = b->bytes + b->length, .offset = b->length};
    if (!rdb_read_value(&x, type, s, &k, EXPIRY_NONE, &limits, KEY_LOADED)) fail_msg("type %u: %s", type, x.why);
    assert_true(x.at == x.end);
}

/* In steps, from bytes that lie elsewhere each time. Returns how many; 0: it was wrong, and *why has it. */
static unsigned read_in_steps(struct shard *s, uint8_t type, const struct rdb_buffer *b, char *why) {
    struct rdb_making *m = rdb_make_begin(type, s, &limits);
    enum rdb_making_step step = RDB_MAKING;
    unsigned n = 0;
    size_t at = 0;
    for (; step == RDB_MAKING; n++) {
        uint8_t *copy = malloc(b->length);
        memcpy(copy, b->bytes, b->length);
        struct rdb_source x = {.at = copy + at, .end = copy + b->length, .offset = b->length};
        uint64_t before = memory_used(s->memory) + rdb_make_aside(m);
        step = rdb_make_step(m, &x, 128);
        assert_true(memory_used(s->memory) + rdb_make_aside(m) <= before + LONG_BYTES + 65536); /* what a step takes is told */
        at = (size_t)(x.at - copy);
        memcpy(why, x.why, sizeof x.why);
        free(copy);
    }
    struct rdb_source x = {.at = b->bytes + at, .end = b->bytes + b->length, .offset = b->length};
    struct key k = find(s, "key");
    if (step == RDB_MADE && rdb_make_check(m, &x) && rdb_make_store(m, &x, &k, EXPIRY_NONE, KEY_RESTORE)) return n;
    rdb_make_drop(m);
    return 0;
}

/* ---- tests ---- */

static void long_elements_are_written_in_steps(void **state) {
    struct shard **two = *state;
    for (unsigned i = 0; i < TYPES; i++) {
        struct rdb_buffer from = payload(types[i], false), whole = {0}, b = {0};
        struct rdb_value v;
        enum rdb_step what;
        read_at_once(two[0], types[i], &from);
        struct key k = find(two[0], "key");
        rdb_value_begin(&v, k.entry, true);
        assert_int_equal(rdb_value_step(&v, two[0], k.entry, &whole, SIZE_MAX), RDB_DONE);
        rdb_value_begin(&v, k.entry, true);
        do {
            size_t before = b.length;
            what = rdb_value_step(&v, two[0], k.entry, &b, STEP_BYTES);
            assert_true(b.length - before <= STEP_MAX);
        } while (what == RDB_MORE);
        assert_int_equal(what, RDB_DONE);
        assert_int_equal(b.length, whole.length);
        assert_memory_equal(b.bytes, whole.bytes, b.length);
        b.length = 0; /* who can't wait any more has the rest at once */
        rdb_value_begin(&v, k.entry, true);
        for (unsigned n = 0; n < 20; n++) assert_int_equal(rdb_value_step(&v, two[0], k.entry, &b, STEP_BYTES), RDB_MORE);
        assert_int_equal(rdb_value_step(&v, two[0], k.entry, &b, SIZE_MAX), RDB_DONE);
        assert_int_equal(b.length, whole.length);
        assert_memory_equal(b.bytes, whole.bytes, b.length);
        rdb_buffer_drop(&from);
        rdb_buffer_drop(&whole);
        rdb_buffer_drop(&b);
        forget(two[0], "key");
    }
}

/* In steps it becomes what it becomes at once. Returns how many they were. */
static unsigned reads_the_same(struct shard **two, uint8_t type, const struct rdb_buffer *b) {
    char why[RDB_WHY_MAX] = "";
    read_at_once(two[0], type, b);
    unsigned n = read_in_steps(two[1], type, b, why);
    if (!n) fail_msg("type %u: %s", type, why);
    struct key k = find(two[0], "key"), l = find(two[1], "key");
    const char *difference = values_differ(two[0], &k, two[1], &l);
    if (difference) fail_msg("type %u: %s", type, difference);
    forget(two[0], "key");
    forget(two[1], "key");
    return n;
}

static void long_elements_are_read_in_steps(void **state) {
    for (unsigned i = 0; i < 2 * TYPES; i++) {
        struct rdb_buffer b = payload(types[i / 2], i & 1);
        assert_true(reads_the_same(*state, types[i / 2], &b) >= LONG_BYTES / (256u << 10) + 3);
        rdb_buffer_drop(&b);
    }
}

/* An element of a listpack: its head, its bytes, and its length, to be read from behind. */
static void put_packed(struct rdb_buffer *b, const char *text, size_t size) {
    size_t from = b->length;
    if (size < 64) rdb_put_byte(b, (uint8_t)(0x80 | size));
    else {
        rdb_put_byte(b, 0xf0);
        for (unsigned i = 0; i < 4; i++) rdb_put_byte(b, (uint8_t)(size >> 8 * i));
    }
    rdb_put_bytes(b, text, size);
    unsigned bytes = 1;
    for (size_t n = b->length - from, left = n >> 7; left || bytes; left >>= 7) {
        if (left && ++bytes) continue;
        for (unsigned i = bytes; i--;) rdb_put_byte(b, (uint8_t)((n >> 7 * i & 127) | (i + 1 < bytes ? 128 : 0)));
        break;
    }
}

static bool is_timed(uint8_t type) { return type == RDB_HASH_TIMES_LISTPACK || type == RDB_HASH_TIMES_LISTPACK_OLD; }

/* Long and short ones in turn, in one listpack. */
static struct rdb_buffer packed_payload(uint8_t type) {
    static const size_t sizes[] = {200000, 30000, 300000, 100, 70000, 1};
    struct rdb_buffer items = {0}, b = {0};
    unsigned n = 0;
    for (unsigned i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const char name = (char)('a' + i);
        if (type == RDB_HASH_LISTPACK || is_timed(type)) put_packed(&items, &name, 1), n++;
        put_packed(&items, noise + i, sizes[i]), n++;
        if (is_timed(type)) put_packed(&items, i & 1 ? "0" : "1700000001000", i & 1 ? 1 : 13), n++;
        if (type == RDB_ZSET_LISTPACK) put_packed(&items, "1", 1), n++;
    }
    for (unsigned i = 0; type == RDB_HASH_TIMES_LISTPACK && i < 8; i++) rdb_put_byte(&b, (uint8_t)((uint64_t)(NOW_MS + 1000) >> 8 * i));
    size_t all = items.length + 7;
    rdb_put_length(&b, all);
    for (unsigned i = 0; i < 4; i++) rdb_put_byte(&b, (uint8_t)(all >> 8 * i));
    for (unsigned i = 0; i < 2; i++) rdb_put_byte(&b, (uint8_t)(n >> 8 * i));
    rdb_put_bytes(&b, items.bytes, items.length);
    rdb_put_byte(&b, 0xff);
    rdb_buffer_drop(&items);
    return b;
}

static void long_elements_of_a_listpack_are_read_in_steps(void **state) {
    static const uint8_t packed[] = {
        RDB_HASH_LISTPACK, RDB_SET_LISTPACK, RDB_ZSET_LISTPACK, RDB_HASH_TIMES_LISTPACK, RDB_HASH_TIMES_LISTPACK_OLD};
    struct shard **two = *state;
    for (unsigned i = 0; i < 2 * sizeof packed; i++) { /* twice: the first of a kind leaves what the next needs, too */
        uint8_t type = packed[i / 2];
        struct rdb_buffer b = packed_payload(type);
        size_t used = memory_used(two[1]->memory);
        reads_the_same(two, type, &b);
        rdb_buffer_drop(&b);
        if (i & 1 && !is_timed(type)) assert_int_equal(memory_used(two[1]->memory), used); /* times leave their records */
    }
}

static void what_is_wrong_with_a_long_element_leaves_nothing(void **state) {
    struct shard *s = ((struct shard **)*state)[0];
    char why[RDB_WHY_MAX];
    for (unsigned i = 0; i < TYPES; i++) {
        size_t used = memory_used(s->memory);
        struct rdb_buffer b = payload(types[i], true);
        size_t behind = types[i] == RDB_HASH || types[i] == RDB_HASH_TIMES ? LONG_BYTES : 0; /* noise, which is not compressed */
        memset(b.bytes + b.length - behind - 3000, 0, 2000);                                 /* within the last long one that is */
        assert_int_equal(read_in_steps(s, types[i], &b, why), 0);
        assert_non_null(strstr(why, "corrupt"));
        rdb_buffer_drop(&b);
        b = payload(types[i], false);
        b.length -= 20000; /* and within it it ends */
        assert_int_equal(read_in_steps(s, types[i], &b, why), 0);
        assert_true(why[0]);
        rdb_buffer_drop(&b);
        empty_trash(s);
        assert_true(memory_used(s->memory) <= used + 65536);
    }
}

static void a_long_element_that_comes_twice_is_refused(void **state) {
    struct shard *s = ((struct shard **)*state)[0];
    char why[RDB_WHY_MAX];
    for (unsigned i = 1; i < 5; i++) {
        struct rdb_buffer b = {0};
        if (types[i] == RDB_HASH_TIMES) put_zeros(&b, 8);
        size_t used = memory_used(s->memory);
        rdb_put_length(&b, 2);
        for (unsigned n = 0; n < 2; n++) put_item(&b, types[i], noise, LONG_BYTES, letters, LONG_BYTES, false);
        assert_int_equal(read_in_steps(s, types[i], &b, why), 0);
        assert_non_null(strstr(why, "twice"));
        rdb_buffer_drop(&b);
        empty_trash(s);
        assert_true(memory_used(s->memory) <= used + 65536);
    }
}

static void refused_memory_leaves_nothing_of_a_long_element(void **state) {
    struct shard **two = *state;
    char why[RDB_WHY_MAX];
    for (unsigned i = 0; i < TYPES; i++) {
        struct rdb_buffer b = payload(types[i], false);
        size_t used = memory_used(two[1]->memory);
        for (uint64_t nth = 1;; nth++) {
            memory_fail_after(two[1]->memory, nth);
            unsigned good = read_in_steps(two[1], types[i], &b, why);
            memory_fail_after(two[1]->memory, 0);
            if (good) break;
            assert_null(find(two[1], "key").entry);
            empty_trash(two[1]);
            assert_true(memory_used(two[1]->memory) <= used + 65536);
        }
        read_at_once(two[0], types[i], &b);
        struct key k = find(two[0], "key"), l = find(two[1], "key");
        assert_null(values_differ(two[0], &k, two[1], &l));
        rdb_buffer_drop(&b);
        forget(two[0], "key");
        forget(two[1], "key");
    }
}

/* As before Redis 7: each long element a ziplist of its own, compressed. */
static void an_old_list_of_several_long_elements_is_read_whole(void **state) {
    struct shard **two = *state;
    char why[RDB_WHY_MAX];
    const uint32_t n = 600000, bytes = 10 + 6 + n + 1;
    uint8_t *p = malloc(bytes);
    struct rdb_buffer old = {0}, new = {0};
    const uint8_t head[] = {(uint8_t)bytes, (uint8_t)(bytes >> 8), (uint8_t)(bytes >> 16), 0, 10, 0, 0, 0, 1, 0, 0, 0x80, 0,
        (uint8_t)(n >> 16), (uint8_t)(n >> 8), (uint8_t)n};
    memcpy(p, head, sizeof head);
    p[bytes - 1] = 0xff;
    rdb_put_length(&old, 3);
    rdb_put_length(&new, 3);
    for (unsigned i = 0; i < 3; i++) {
        memcpy(p + sizeof head, letters + i, n);
        put(&old, (const char *)p, bytes, true);
        put(&new, letters + i, n, false);
    }
    for (unsigned i = 0; i < 2; i++) {
        read_at_once(two[0], RDB_LIST, &new);
        if (i) assert_true(read_in_steps(two[1], RDB_QUICKLIST, &old, why) >= 3 * (n / (256u << 10) + n / (128u << 10)));
        else read_at_once(two[1], RDB_QUICKLIST, &old);
        struct key k = find(two[0], "key"), l = find(two[1], "key");
        assert_null(values_differ(two[0], &k, two[1], &l));
        forget(two[0], "key");
        forget(two[1], "key");
    }
    free(p);
    rdb_buffer_drop(&old);
    rdb_buffer_drop(&new);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(long_elements_are_written_in_steps, setup, two_shards_teardown),
        cmocka_unit_test_setup_teardown(long_elements_are_read_in_steps, setup, two_shards_teardown),
        cmocka_unit_test_setup_teardown(long_elements_of_a_listpack_are_read_in_steps, setup, two_shards_teardown),
        cmocka_unit_test_setup_teardown(what_is_wrong_with_a_long_element_leaves_nothing, setup, two_shards_teardown),
        cmocka_unit_test_setup_teardown(a_long_element_that_comes_twice_is_refused, setup, two_shards_teardown),
        cmocka_unit_test_setup_teardown(refused_memory_leaves_nothing_of_a_long_element, setup, two_shards_teardown),
        cmocka_unit_test_setup_teardown(an_old_list_of_several_long_elements_is_read_whole, setup, two_shards_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
