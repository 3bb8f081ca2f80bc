/* Copies of containers, made in parts: of each kind, with refused memory, and given up half-way. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shard/container.h"
#include "shard/list.h"
#include "shard/memory.h"
#include "shard/rdb_write.h"
#include "shard/set.h"
#include "shard/zset.h"
#include "tests/lib/random.h"

static struct hash_secret secret;
static struct random dice = {88172645463325252u};

static struct shard *new_shard(uint32_t id) {
    uint8_t seed[32] = {5};
    hash_secret_init(&secret, seed);
    struct shard_options o = {.id = id, .shards = 2, .databases = 1, .secret = &secret, .seed = 1, .now_ms = 1000000};
    return shard_new(&o);
}

static struct key find(struct shard *s, const char *name) {
    struct key k;
    key_find(s, s->dbs[0], hash_key(&secret, name, strlen(name)), name, (uint32_t)strlen(name), &k);
    return k;
}

/* ---- containers to copy ---- */

/* What the ith text is: a number, short, or far; now and then of some pages. */
static uint32_t text_of(uint32_t i, char *text) {
    uint32_t size = (uint32_t)sprintf(text, i % 3 ? "%u" : "member:%u", i);
    if (i % 37 == 1) {
        uint32_t more = i % 5 ? 1500 : 40000;
        memset(text + size, 'a' + (int)(i % 26), more);
        size += more;
    }
    return size;
}

static char text[50000], other_text[50000];

static void fill_hash(struct shard *s, struct key *k, uint32_t n) {
    struct fields f = key_fields(s, k);
    for (uint32_t i = 0; i < n; i++) {
        struct field_name name;
        struct packed value;
        field_name(&f, text, text_of(i, text), &name);
        packed_of(&value, other_text, text_of(i + 1, other_text));
        assert_int_equal(fields_put(&f, &name, NULL, &value, i % 7 ? FIELD_NEVER : 2000000 + i), 0);
    }
    assert_int_equal(key_replace_timed(s, k, TYPE_HASH, f.map ? ENC_MAP : ENC_PAGE, f.map ? (void *)f.map : (void *)f.page, EXPIRY_NONE,
                         2000000, KEY_HSET),
        0);
}

static void fill_set(struct shard *s, struct key *k, uint32_t n, bool ints) {
    struct set x = set_new(s);
    for (uint32_t i = 0; i < n; i++) {
        struct field_name name;
        uint32_t size = ints ? (uint32_t)sprintf(text, "%u", i) : text_of(i, text);
        set_name(&x, text, size, &name);
        assert_int_equal(set_add(&x, &name, 512), 1);
    }
    assert_int_equal(set_store(s, k, &x, KEY_SADD), 0);
}

static void fill_list(struct shard *s, struct key *k, uint32_t n) {
    struct list x = list_new(s, LIST_FILL);
    for (uint32_t i = 0; i < n; i++) assert_int_equal(list_push(&x, LIST_TAIL, &(struct arg){.p = text, .size = text_of(i, text)}), 0);
    assert_int_equal(list_store(s, k, &x, KEY_RPUSH), 0);
}

static void fill_zset(struct shard *s, struct key *k, uint32_t n) {
    struct zset x = zset_new(s);
    for (uint32_t i = 0; i < n; i++) {
        struct field_name name;
        zset_name(&x, text, text_of(i, text), &name);
        assert_int_equal(zset_put(&x, &name, NULL, (double)below(&dice, 500) / 4), 0);
    }
    assert_int_equal(zset_store(s, k, &x, KEY_ZADD), 0);
}

#define KINDS 6u
static void fill(struct shard *s, const char *name, unsigned kind, uint32_t n) {
    struct key k = find(s, name);
    if (k.entry) key_delete(s, &k, KEY_DEL);
    k = find(s, name);
    if (kind == 0) fill_hash(s, &k, n);
    else if (kind == 1) fill_set(s, &k, n, false);
    else if (kind == 2) fill_set(s, &k, n < 500 ? n : 500, true);
    else if (kind == 3) fill_list(s, &k, n);
    else if (kind == 4) fill_zset(s, &k, n);
    else fill_hash(s, &k, 3);
}

/* ---- comparing ---- */

static struct rdb_buffer image_of(struct shard *s, const struct entry *e) {
    struct rdb_buffer b = {0};
    assert_true(rdb_put_entry(&b, s, e, &(struct rdb_entry_options){.idle_s = RDB_NO_IDLE}));
    return b;
}

/* The same members, in the same places. */
static void assert_same(struct shard *s, const struct entry *e, const struct entry *copy) {
    struct rdb_buffer a = image_of(s, e), b = image_of(s, copy);
    assert_int_equal(a.length, b.length);
    assert_memory_equal(a.bytes, b.bytes, a.length);
    rdb_buffer_drop(&a);
    rdb_buffer_drop(&b);
}

static uint64_t no_time(void) { return 0; }
static void free_trash(struct shard *s) {
    while (shard_work(s, 1000000, 1000000, no_time)) {}
}

/* ---- */

/* Both keys have names of one size, so that their images are the same. */
static void copies_in_parts_are_the_same(void **state) {
    struct shard *s = *state, *other = new_shard(1);
    static const uint32_t sizes[] = {1, 60, 2000, 30000};
    for (unsigned kind = 0; kind < KINDS; kind++)
        for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
            fill(s, "k", kind, sizes[i]);
            for (unsigned part = 0; part < 3; part++) {
                const struct entry *e = find(s, "k").entry;
                struct container_copying c = {0};
                struct key k = find(other, "k");
                uint32_t cost = part ? part * 30000 : 1000;
                uint64_t parts = 1;
                int more;
                while ((more = key_copy_some(other, &k, e, &c, below(&dice, cost) + 1, true, KEY_COPY_TO)) > 0) parts++;
                assert_int_equal(more, 0);
                assert_same(other, e, find(other, "k").entry);
                assert_int_equal(container_memory(find(other, "k").entry), c.memory);
                if (sizes[i] > 10000 && kind != 2 && kind != 5) assert_true(parts > 10);
                k = find(other, "k");
                key_delete(other, &k, KEY_DEL);
                free_trash(other);
            }
        }
    shard_drop(other);
}

/* A far string of megabytes is copied in parts, too. */
static void a_long_string_is_copied_in_parts(void **state) {
    struct shard *s = *state;
    static char large[4 << 20];
    struct fields f = {.memory = s->memory, .secret = s->secret};
    for (uint32_t i = 0; i < 3; i++) {
        struct field_name name;
        struct packed value;
        field_name(&f, text, (uint32_t)sprintf(text, "%u", i), &name);
        memset(large, 'a' + (int)i, sizeof large);
        packed_of(&value, large, sizeof large);
        assert_int_equal(fields_put(&f, &name, NULL, &value, FIELD_NEVER), 0);
    }
    struct key k = find(s, "k"), copy = find(s, "c");
    assert_int_equal(key_store_fields(s, &k, TYPE_HASH, &f, KEY_HSET), 0);
    struct container_copying c = {0};
    uint64_t parts = 1;
    while (key_copy_some(s, &copy, find(s, "k").entry, &c, 100000, true, KEY_COPY_TO) > 0) parts++;
    assert_in_range(parts, 120, 140);
    struct fields of = key_fields(s, &copy);
    struct field_name name;
    struct field found;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t size;
        field_name(&of, text, (uint32_t)sprintf(text, "%u", i), &name);
        assert_true(fields_find(&of, &name, &found));
        const char *value = packed_text(found.value, NULL, &size);
        memset(large, 'a' + (int)i, sizeof large);
        assert_int_equal(size, sizeof large);
        assert_memory_equal(value, large, size);
    }
}

static void a_copy_that_is_given_up_leaves_nothing(void **state) {
    struct shard *s = *state, *other = new_shard(1);
    for (unsigned kind = 0; kind < KINDS; kind++) {
        fill(s, "k", kind, 3000);
        const struct entry *e = find(s, "k").entry;
        for (uint32_t after = 0; after < 60; after++) {
            struct container_copying c = {0};
            struct key k = find(other, "k");
            size_t used = memory_used(other->memory);
            int more = 1;
            for (uint32_t i = 0; i < after && more > 0; i++) more = key_copy_some(other, &k, e, &c, 1000 * after, true, KEY_COPY_TO);
            if (more > 0) container_copy_drop(other, &c);
            else key_delete(other, &k, KEY_DEL);
            free_trash(other);
            if (more > 0) assert_int_equal(memory_used(other->memory), used);
        }
    }
    shard_drop(other);
}

/* Whichever allocation is refused: the key that is there stays as it is, and nothing is lost. */
static void refused_memory_changes_nothing(void **state) {
    struct shard *s = *state, *other = new_shard(1);
    for (unsigned kind = 0; kind < KINDS; kind++) {
        uint32_t n = kind == 3 ? 20000 : 1500;
        fill(s, "k", kind, n);
        const struct entry *e = find(s, "k").entry;
        fill(other, "k", 1, 5);
        free_trash(other);
        bool refused = true;
        for (uint32_t nth = 1; refused; nth += nth < 40 ? 1 : 37) {
            struct container_copying c = {0};
            struct key k = find(other, "k");
            size_t used = memory_used(other->memory);
            int more;
            memory_fail_after(other->memory, nth);
            while ((more = key_copy_some(other, &k, e, &c, 5000, false, KEY_COPY_TO)) > 0) {}
            memory_fail_after(other->memory, 0);
            refused = more;
            if (!refused) break;
            assert_int_equal(more, -ENOMEM);
            assert_null(c.container);
            free_trash(other);
            assert_int_equal(memory_used(other->memory), used);
            assert_int_equal(entry_type(find(other, "k").entry), TYPE_SET);
        }
        assert_same(other, e, find(other, "k").entry);
    }
    shard_drop(other);
}

/* What is copied may be changed as any other. */
static void a_copy_lives_on(void **state) {
    struct shard *s = *state, *other = new_shard(1);
    fill(s, "k", 4, 5000);
    struct key k = find(other, "k");
    assert_int_equal(key_copy_from(other, &k, find(s, "k").entry, EXPIRY_NONE, KEY_COPY_TO), 0);
    k = find(s, "k");
    key_delete(s, &k, KEY_DEL);
    free_trash(s);
    k = find(other, "k");
    struct zset x = zset_open(other, &k);
    for (uint32_t i = 0; i < 8000; i++) {
        struct field_name name;
        struct zset_item m;
        zset_name(&x, text, text_of(i, text), &name);
        bool found = zset_find(&x, &name, &m);
        assert_int_equal(found, i < 5000);
        if (found) assert_int_equal(zset_rank(&x, &name, &m) < zset_count(&x), 1);
        if (found && i % 2) zset_remove(&x, &name, &m);
        else assert_int_equal(zset_put(&x, &name, found ? &m : NULL, i), 0);
    }
    assert_int_equal(zset_count(&x), 5500);
    zset_remove_range(&x, 0, 5500);
    assert_true(zset_is_empty(&x));
    zset_store(other, &k, &x, KEY_ZREM);
    shard_drop(other);
}

static int setup(void **state) {
    *state = new_shard(0);
    return 0;
}

static int teardown(void **state) {
    shard_drop(*state);
    return 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(copies_in_parts_are_the_same, setup, teardown),
        cmocka_unit_test_setup_teardown(a_long_string_is_copied_in_parts, setup, teardown),
        cmocka_unit_test_setup_teardown(a_copy_that_is_given_up_leaves_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_memory_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(a_copy_lives_on, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
