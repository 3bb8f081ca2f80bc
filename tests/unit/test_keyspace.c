/* The keyspace against a naive model, with refused memory, and with its accounting checked to the byte. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shard/blob.h"
#include "shard/keyspace.h"
#include "shard/memory.h"
#include "shard/shard.h"
#include "tests/lib/random.h"

#define START_MS INT64_C(1700000000000)
#define DATABASES 2u

static struct hash_secret secret;

static struct random dice = {88172645463325252u};

static struct shard *new_shard(uint32_t id) {
    uint8_t seed[32] = {7};
    hash_secret_init(&secret, seed);
    struct shard_options o = {.id = id, .shards = 2, .databases = DATABASES, .secret = &secret, .seed = 1, .now_ms = START_MS};
    return shard_new(&o);
}

static int setup(void **state) {
    *state = new_shard(0);
    return 0;
}

static int teardown(void **state) {
    struct shard *s = *state;
    for (uint32_t i = 0; i < DATABASES; i++) assert_null(table_check(&s->dbs[i]->keys));
    shard_drop(s);
    return 0;
}

static bool find_in(struct shard *s, uint32_t db, const char *name, size_t size, struct key *k) {
    return key_find(s, s->dbs[db], hash_key(&secret, name, size), name, (uint32_t)size, k);
}
static bool find(struct shard *s, const char *name, struct key *k) { return find_in(s, 0, name, strlen(name), k); }

static void assert_value(const struct key *k, const char *expected, size_t size) {
    char scratch[INT64_TEXT_SIZE];
    size_t got;
    assert_non_null(k->entry);
    const char *p = key_string(k, scratch, &got);
    assert_int_equal(got, size);
    assert_memory_equal(p, expected, size);
}

static void set(struct shard *s, const char *name, const char *value, size_t size, int64_t at_ms) {
    struct key k;
    find(s, name, &k);
    assert_int_equal(key_set_bytes(s, &k, value, size, FORM_ANY, at_ms, KEY_SET), 0);
}

static struct entry *entry_at(struct shard *s, const char *name) {
    struct key k;
    assert_true(find(s, name, &k));
    return k.entry;
}

/* All bytes that are in use beyond the tables and the wheel. */
static size_t used_by_keys(struct shard *s) {
    struct table_stats stats;
    size_t used = memory_used(s->memory);
    for (uint32_t i = 0; i < DATABASES; i++) {
        table_stats(&s->dbs[i]->keys, &stats);
        used -= stats.bytes;
    }
    return used;
}

/* --- */

static void values_are_kept_in_the_form_that_redis_shows(void **state) {
    struct shard *s = *state;
    static char big[300];
    static const struct {
        const char *value;
        size_t size;
        enum entry_encoding encoding;
        uint8_t value_size;
    } cases[] = {{"", 0, ENC_EMBEDDED, 0}, {"abc", 3, ENC_EMBEDDED, 3}, {"12", 2, ENC_INT, 1}, {"-12", 3, ENC_INT, 1},
        {"300", 3, ENC_INT, 2}, {"70000", 5, ENC_INT, 4}, {"9223372036854775807", 19, ENC_INT, 8}, {"-9223372036854775808", 20, ENC_INT, 8},
        {"9223372036854775808", 19, ENC_EMBEDDED, 19}, {"012", 3, ENC_EMBEDDED, 3}, {"1.5", 3, ENC_EMBEDDED, 3}, {"-", 1, ENC_EMBEDDED, 1},
        {big, 255, ENC_EMBEDDED, 255}, {big, 256, ENC_BLOB, 0}};
    memset(big, 'x', sizeof big);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t before = 0; before < sizeof cases / sizeof *cases; before++) {
            struct key k;
            set(s, "k", cases[before].value, cases[before].size, EXPIRY_NONE);
            set(s, "k", cases[i].value, cases[i].size, EXPIRY_NONE);
            assert_true(find(s, "k", &k));
            assert_int_equal(entry_encoding(k.entry), cases[i].encoding);
            assert_int_equal(k.entry->value_size, cases[i].value_size);
            assert_value(&k, cases[i].value, cases[i].size);
        }
}

static void forms_other_than_any_are_never_integers(void **state) {
    struct shard *s = *state;
    struct key k;
    find(s, "k", &k);
    key_set_bytes(s, &k, "12", 2, FORM_TEXT, EXPIRY_NONE, KEY_SET);
    assert_int_equal(entry_encoding(k.entry), ENC_EMBEDDED);
    key_set_bytes(s, &k, "12", 2, FORM_RAW, EXPIRY_NONE, KEY_SET);
    assert_int_equal(entry_encoding(k.entry), ENC_RAW);
    key_set_int(s, &k, 12, EXPIRY_NONE, KEY_SET);
    assert_int_equal(entry_encoding(k.entry), ENC_INT);
}

static void a_value_of_the_same_class_is_overwritten_in_place(void **state) {
    struct shard *s = *state;
    char big[300] = "";
    set(s, "k", "12345678x", 9, EXPIRY_NONE);
    struct entry *e = entry_at(s, "k");
    set(s, "k", "abcdefghi", 9, EXPIRY_NONE);
    assert_ptr_equal(entry_at(s, "k"), e);
    set(s, "k", "abcdefghij", 10, EXPIRY_NONE); /* 4 + 1 + 9 and 4 + 1 + 10: both 16 */
    assert_ptr_equal(entry_at(s, "k"), e);
    set(s, "k", "abcdefghijkl", 12, EXPIRY_NONE);
    assert_int_equal(entry_at(s, "k")->value_size, 12);
    set(s, "k", "1", 1, START_MS + 10);
    e = entry_at(s, "k");
    set(s, "k", "2", 1, START_MS + 20);
    assert_ptr_equal(entry_at(s, "k"), e);
    set(s, "k", "3", 1, EXPIRY_KEEP);
    assert_ptr_equal(entry_at(s, "k"), e);
    assert_int_equal(entry_expiry(e), START_MS + 20);
    set(s, "k", big, sizeof big, EXPIRY_NONE);
    struct blob *b = entry_blob(entry_at(s, "k"));
    big[0] = 'y';
    set(s, "k", big, sizeof big - 1, EXPIRY_NONE);
    assert_ptr_equal(entry_blob(entry_at(s, "k")), b);
    assert_int_equal(b->size, sizeof big - 1);
    assert_int_equal(b->bytes[0], 'y');
}

static void a_blob_that_a_reply_refers_to_is_left_alone(void **state) {
    struct shard *s = *state;
    struct key k;
    char big[300];
    memset(big, 'a', sizeof big);
    set(s, "k", big, sizeof big, EXPIRY_NONE);
    struct blob *b = entry_blob(entry_at(s, "k"));
    b->refs++;
    memset(big, 'b', sizeof big);
    set(s, "k", big, sizeof big, EXPIRY_NONE);
    assert_int_equal(b->refs, 1);
    assert_int_equal(b->bytes[0], 'a');
    find(s, "k", &k);
    assert_value(&k, big, sizeof big);

    struct blob *second = entry_blob(k.entry);
    second->refs++;
    char *p = key_make_writable(s, &k, sizeof big + 1, true, KEY_APPEND);
    p[sizeof big] = 'c';
    key_after_change(s, &k, KEY_APPEND);
    assert_ptr_not_equal(entry_blob(k.entry), second);
    assert_int_equal(second->size, sizeof big);
    assert_memory_equal(p, big, sizeof big);

    struct blob *third = entry_blob(k.entry);
    third->refs++;
    key_delete(s, &k, KEY_DEL);
    assert_int_equal(third->refs, 1);
    blob_release(s->memory, b);
    blob_release(s->memory, second);
    blob_release(s->memory, third);
}

static void a_received_blob_becomes_the_value(void **state) {
    struct shard *s = *state;
    struct key k;
    size_t size = 100000;
    set(s, "k", "x", 1, EXPIRY_NONE);
    size_t before = used_by_keys(s);
    for (int round = 0; round < 3; round++) { /* over an embedded value, over a blob, as a new key */
        struct blob *b = blob_receive(size);
        memset(b->bytes, 'r' + round, size);
        struct arg a = {b->bytes, (uint32_t)size, ARG_BLOB};
        if (round == 2) {
            find(s, "k", &k);
            key_delete(s, &k, KEY_DEL);
        }
        find(s, "k", &k);
        assert_int_equal(key_set_arg(s, &k, &a, EXPIRY_NONE, KEY_SET), 0);
        assert_int_equal(a.flags, 0);
        assert_ptr_equal(entry_blob(k.entry), b);
        assert_int_equal(b->size, size);
        assert_int_equal(used_by_keys(s), before - memory_usable_packed(6) + memory_usable_packed(entry_size(k.entry)) + blob_memory(b));
    }
    /* What is not kept as a blob stays the sender's. */
    struct blob *b = blob_receive(size);
    struct arg a = {b->bytes, 3, ARG_BLOB};
    memcpy(b->bytes, "abc", 3);
    find(s, "k", &k);
    assert_int_equal(key_set_arg(s, &k, &a, EXPIRY_NONE, KEY_SET), 0);
    assert_int_equal(a.flags, ARG_BLOB);
    blob_discard(b);
    assert_value(&k, "abc", 3);
    assert_int_equal(used_by_keys(s), before);
}

static void strings_grow_and_shrink(void **state) {
    struct shard *s = *state;
    static const size_t sizes[] = {0, 1, 3, 40, 44, 45, 254, 255, 256, 257, 1000, 1024, 5000, 70000};
    static char zeros[70000];
    for (size_t from = 0; from < sizeof sizes / sizeof *sizes; from++)
        for (size_t to = 0; to < sizeof sizes / sizeof *sizes; to++) {
            struct key k;
            char *expected = calloc(1, 70000);
            memset(expected, 'o', sizes[from]);
            set(s, "k", expected, sizes[from], START_MS + 1000);
            find(s, "k", &k);
            char *p = key_make_writable(s, &k, sizes[to], random_next(&dice) & 1, KEY_APPEND);
            key_after_change(s, &k, KEY_APPEND);
            assert_non_null(p);
            if (sizes[to] < sizes[from]) memset(expected + sizes[to], 0, sizes[from] - sizes[to]);
            assert_value(&k, expected, sizes[to]);
            assert_int_equal(entry_encoding(k.entry), sizes[to] > 255 ? ENC_BLOB : ENC_RAW);
            assert_int_equal(entry_expiry(k.entry), START_MS + 1000);
            find(s, "k", &k);
            assert_value(&k, expected, sizes[to]);
            key_delete(s, &k, KEY_DEL);
            p = key_make_writable(s, &k, sizes[to], false, KEY_SETRANGE);
            key_after_change(s, &k, KEY_SETRANGE);
            assert_value(&k, zeros, sizes[to]);
            assert_false(entry_expires(k.entry));
            key_delete(s, &k, KEY_DEL);
            free(expected);
        }
    struct key k;
    set(s, "n", "1234", 4, EXPIRY_NONE);
    find(s, "n", &k);
    memcpy(key_make_writable(s, &k, 5, true, KEY_APPEND) + 4, "5", 1);
    assert_value(&k, "12345", 5);
    assert_int_equal(entry_encoding(k.entry), ENC_RAW);
}

static void appending_copies_in_proportion(void **state) {
    struct shard *s = *state;
    struct key k;
    unsigned moves = 0;
    void *last = NULL;
    set(s, "k", "x", 1, EXPIRY_NONE);
    for (size_t size = 1000; size < 3000000; size += 1000) {
        find(s, "k", &k);
        char *p = key_make_writable(s, &k, size, true, KEY_APPEND);
        key_after_change(s, &k, KEY_APPEND);
        moves += p != last;
        last = p;
    }
    assert_true(moves < 20);
}

/* A huge string is made, appended to and deleted without a walk over its bytes: the seconds of this test would be minutes. */
static void huge_strings_cost_no_copies(void **state) {
    struct shard *s = *state;
    struct key k;
    size_t empty = used_by_keys(s), size = (size_t)512 << 20;
    find(s, "k", &k);
    char *p = key_make_writable(s, &k, size, false, KEY_SETRANGE);
    p[size - 1] = 'e';
    for (int i = 1; i <= 2000; i++) {
        find(s, "k", &k);
        p = key_make_writable(s, &k, size + (size_t)i * 100000, true, KEY_APPEND);
        p[size + (size_t)i * 100000 - 1] = 'a';
        key_after_change(s, &k, KEY_APPEND);
    }
    assert_int_equal(p[0], 0);
    assert_int_equal(p[size - 1], 'e');
    assert_int_equal(p[size + 100000 - 1], 'a');
    assert_int_equal(p[size + 100000], 0);
    p = key_make_writable(s, &k, 10, false, KEY_SETRANGE);
    p = key_make_writable(s, &k, size, false, KEY_SETRANGE);
    assert_int_equal(p[size - 1], 0);
    key_delete(s, &k, KEY_DEL);
    assert_int_equal(used_by_keys(s), empty);
}

/* --- expiry --- */

static void a_key_past_its_time_is_gone_to_its_reader(void **state) {
    struct shard *s = *state;
    struct key k;
    set(s, "k", "v", 1, START_MS + 100);
    assert_int_equal(s->dbs[0]->expiring, 1);
    s->now_ms = START_MS + 100;
    assert_true(find(s, "k", &k));
    s->now_ms = START_MS + 101;
    uint64_t dirty = s->stats.dirty;
    assert_false(find(s, "k", &k));
    assert_int_equal(s->dbs[0]->keys.count, 0);
    assert_int_equal(s->dbs[0]->expiring, 0);
    assert_int_equal(s->stats.expired_lazy, 1);
    assert_int_equal(s->wheel_stale, 1);
    assert_int_equal(s->stats.dirty, dirty);
}

static void a_key_past_its_time_is_hidden_from_readers_in_a_pause_but_not_from_writers(void **state) {
    struct shard *s = *state;
    struct key k;
    set(s, "k", "v", 1, START_MS + 100);
    s->now_ms = START_MS + 101;
    s->hide_expired = true;
    assert_false(key_look(s, s->dbs[0], hash_key(&secret, "k", 1), "k", 1, &k));
    assert_int_equal(s->dbs[0]->keys.count, 1);
    set(s, "k", "w", 1, EXPIRY_NONE); /* it was under way when the pause began */
    assert_int_equal(s->dbs[0]->keys.count, 1);
    s->hide_expired = false;
    assert_true(find(s, "k", &k));
    assert_value(&k, "w", 1);
}

static void one_record_serves_as_long_as_it_fires_no_later(void **state) {
    struct shard *s = *state;
    struct key k;
    set(s, "k", "v", 1, START_MS + 1000);
    assert_int_equal(s->wheel.records, 1);
    set(s, "k", "w", 1, START_MS + 2000);
    find(s, "k", &k);
    assert_int_equal(key_set_expiry(s, &k, START_MS + 3000, KEY_EXPIRE), 0);
    assert_int_equal(s->wheel.records, 1);
    assert_int_equal(s->wheel_stale, 0);
    assert_int_equal(key_set_expiry(s, &k, START_MS + 500, KEY_EXPIRE), 0);
    assert_int_equal(s->wheel.records, 2);
    assert_int_equal(s->wheel_stale, 1);
    assert_int_equal(s->dbs[0]->expiring, 1);
    assert_int_equal(key_set_expiry(s, &k, EXPIRY_NONE, KEY_PERSIST), 0);
    assert_false(entry_expires(k.entry));
    assert_value(&k, "w", 1);
    assert_int_equal(s->dbs[0]->expiring, 0);
    assert_int_equal(s->wheel_stale, 2);
    assert_int_equal(key_set_expiry(s, &k, START_MS + 700, KEY_EXPIRE), 0);
    assert_int_equal(s->wheel.records, 3);
    key_delete(s, &k, KEY_DEL);
    assert_int_equal(s->dbs[0]->expiring, 0);
    assert_int_equal(s->wheel_stale, 3);
}

static void changing_the_time_keeps_value_and_access_clock(void **state) {
    struct shard *s = *state;
    struct key k;
    char big[5000];
    memset(big, 'b', sizeof big);
    set(s, "k", big, sizeof big, EXPIRY_NONE);
    struct blob *b = entry_blob(entry_at(s, "k"));
    s->now_ms += 160000;
    find(s, "k", &k);
    assert_int_equal(key_idle_s(s, k.entry), 160);
    assert_int_equal(key_set_expiry(s, &k, s->now_ms + 100, KEY_EXPIRE), 0);
    assert_ptr_equal(entry_blob(k.entry), b);
    assert_int_equal(b->refs, 1);
    assert_int_equal(key_idle_s(s, k.entry), 160);
}

/* --- copying and moving --- */

static void a_copy_shares_a_large_value_until_one_is_written(void **state) {
    struct shard *s = *state;
    struct key src, dst;
    char big[5000];
    memset(big, 'b', sizeof big);
    size_t empty = used_by_keys(s);
    set(s, "a", big, sizeof big, EXPIRY_NONE);
    find(s, "a", &src);
    find_in(s, 1, "b", 1, &dst);
    assert_int_equal(key_copy_from(s, &dst, src.entry, START_MS + 5, KEY_COPY_TO), 0);
    assert_ptr_equal(entry_blob(src.entry), entry_blob(dst.entry));
    assert_int_equal(entry_blob(src.entry)->refs, 2);
    assert_int_equal(s->dbs[1]->expiring, 1);
    find(s, "a", &src);
    key_make_writable(s, &src, sizeof big, false, KEY_SETRANGE)[0] = 'x';
    find_in(s, 1, "b", 1, &dst);
    assert_value(&dst, big, sizeof big);
    key_delete(s, &dst, KEY_DEL);
    find(s, "a", &src);
    key_delete(s, &src, KEY_DEL);
    wheel_drop(&s->wheel);
    assert_int_equal(used_by_keys(s), empty);
}

static void a_key_moves_between_shards(void **state) {
    struct shard *s = *state, *other = new_shard(1);
    static const size_t sizes[] = {0, 5, 255, 256, 900, 5000, 100000};
    static char big[100000];
    size_t empty = used_by_keys(s), empty_other = used_by_keys(other);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes * 2; i++) {
        size_t size = sizes[i / 2];
        struct key src, dst, again;
        memset(big, (int)('a' + i), size);
        set(s, "a", big, size, START_MS + 99);
        if (i & 1) set(other, "b", "old", 3, START_MS + 50);
        find(s, "a", &src);
        find(other, "b", &dst);
        struct blob *b = entry_blob(src.entry), *shared = NULL;
        if (b && i & 1) (shared = b)->refs++;
        assert_int_equal(key_move_from(other, &dst, s, &src, KEY_RENAME_FROM, KEY_RENAME_TO), 0);
        if (shared) blob_release(s->memory, shared);
        assert_false(find(s, "a", &again));
        assert_true(find(other, "b", &again));
        assert_value(&again, big, size);
        assert_int_equal(entry_expiry(again.entry), START_MS + 99);
        assert_int_equal(s->dbs[0]->expiring, 0);
        assert_int_equal(other->dbs[0]->expiring, 1);
        if (b && !shared && size > 1000) assert_ptr_equal(entry_blob(again.entry), b);
        if (entry_blob(again.entry)) assert_int_equal(entry_blob(again.entry)->refs, 1);
        key_delete(other, &again, KEY_DEL);
        wheel_drop(&s->wheel);
        wheel_drop(&other->wheel);
        assert_int_equal(used_by_keys(s), empty);
        assert_int_equal(used_by_keys(other), empty_other);
    }
    shard_drop(other);
}

static void renaming_within_a_shard_counts_one_change(void **state) {
    struct shard *s = *state;
    struct key src, dst;
    for (int taken = 0; taken < 2; taken++) {
        set(s, "a", "v", 1, EXPIRY_NONE);
        if (taken) set(s, "b", "w", 1, START_MS + 9);
        uint64_t dirty = s->stats.dirty;
        find(s, "a", &src);
        find(s, "b", &dst);
        assert_int_equal(key_move_from(s, &dst, s, &src, KEY_RENAME_FROM, KEY_RENAME_TO), 0);
        assert_int_equal(s->stats.dirty, dirty + 1);
        assert_false(find(s, "a", &src));
        assert_true(find(s, "b", &dst));
        assert_value(&dst, "v", 1);
        assert_false(entry_expires(dst.entry));
        assert_int_equal(s->dbs[0]->expiring, 0);
        key_delete(s, &dst, KEY_DEL);
    }
}

/* --- refused memory --- */

/* One of the operations that may be refused, on key "k" of a size, to a size. */
enum operation { OP_SET, OP_SET_TIMED, OP_ADOPT, OP_INT, OP_GROW, OP_EXPIRE, OP_PERSIST, OP_COPY, OP_MOVE, OPERATIONS };

static int operate(struct shard *s, struct shard *other, enum operation op, size_t size) {
    struct key k, dst;
    char *bytes = calloc(1, size + 1);
    int result = 0;
    bool found = find(s, "k", &k);
    switch (op) {
    case OP_SET: result = key_set_bytes(s, &k, bytes, size, FORM_ANY, EXPIRY_KEEP, KEY_SET); break;
    case OP_SET_TIMED: result = key_set_bytes(s, &k, bytes, size, FORM_ANY, START_MS + 5, KEY_SET); break;
    case OP_INT: result = key_set_int(s, &k, (int64_t)size * 1000000007, EXPIRY_NONE, KEY_INCR); break;
    case OP_GROW: result = key_make_writable(s, &k, size, true, KEY_APPEND) ? 0 : -ENOMEM; break;
    case OP_EXPIRE: result = found ? key_set_expiry(s, &k, START_MS + 5, KEY_EXPIRE) : 0; break;
    case OP_PERSIST: result = found ? key_set_expiry(s, &k, EXPIRY_NONE, KEY_PERSIST) : 0; break;
    case OP_COPY:
        find(other, "k2", &dst);
        result = found ? key_copy_from(other, &dst, k.entry, START_MS + 5, KEY_COPY_TO) : 0;
        break;
    case OP_MOVE:
        find(other, "k2", &dst);
        result = found ? key_move_from(other, &dst, s, &k, KEY_RENAME_FROM, KEY_RENAME_TO) : 0;
        break;
    default: {
        struct blob *b = blob_receive(size);
        struct arg a = {b->bytes, (uint32_t)size, ARG_BLOB};
        memset(b->bytes, 0, size);
        result = key_set_arg(s, &k, &a, EXPIRY_NONE, KEY_SET);
        if (a.flags & ARG_BLOB) blob_discard(b);
    }
    }
    free(bytes);
    return result;
}

struct look {
    bool found;
    size_t size;
    char bytes[6000];
    int64_t expiry;
    uint64_t count, expiring;
    size_t keys_used;
};

static void look_at(struct shard *s, const char *name, struct look *l) {
    struct key k;
    char scratch[INT64_TEXT_SIZE];
    *l = (struct look){.count = s->dbs[0]->keys.count, .expiring = s->dbs[0]->expiring};
    if (!find(s, name, &k)) return;
    const char *p = key_string(&k, scratch, &l->size);
    l->found = true;
    l->expiry = entry_expiry(k.entry);
    memcpy(l->bytes, p, l->size);
    l->keys_used = key_memory(k.entry);
}

static void refused_memory_changes_nothing(void **state) {
    static const size_t sizes[] = {0, 7, 100, 300, 5000}; /* the first: no key at all */
    struct look before, after, before_other, after_other;
    unsigned refusals = 0;
    for (size_t from = 0; from < 5; from++)
        for (size_t to = 0; to < 5; to++)
            for (int timed = 0; timed < 2; timed++)
                for (enum operation op = 0; op < OPERATIONS; op++)
                    for (unsigned nth = 1;; nth++) {
                        struct shard *s = new_shard(0), *other = op == OP_COPY || op == OP_MOVE ? new_shard(1) : s;
                        char filler[5000];
                        memset(filler, 'f', sizeof filler);
                        if (sizes[from]) set(s, "k", filler, sizes[from], timed ? START_MS + 100 : EXPIRY_NONE);
                        if (to & 1 && other != s) set(other, "k2", filler, 50, EXPIRY_NONE);
                        look_at(s, "k", &before);
                        look_at(other, "k2", &before_other);
                        uint64_t dirty = s->stats.dirty;
                        memory_fail_after(other->memory, nth);
                        int result = operate(s, other, op, sizes[to]);
                        memory_fail_after(other->memory, 0);
                        if (result) {
                            refusals++;
                            assert_int_equal(result, -ENOMEM);
                            look_at(s, "k", &after);
                            look_at(other, "k2", &after_other);
                            assert_memory_equal(&before, &after, sizeof before);
                            assert_memory_equal(&before_other, &after_other, sizeof before);
                            assert_int_equal(s->stats.dirty, dirty);
                        }
                        struct key k;
                        bool other_too = other != s;
                        if (find(s, "k", &k)) key_delete(s, &k, KEY_DEL);
                        if (find(other, "k2", &k)) key_delete(other, &k, KEY_DEL);
                        wheel_drop(&s->wheel);
                        struct shard *empty = new_shard(0);
                        assert_int_equal(used_by_keys(s), used_by_keys(empty));
                        if (other_too) {
                            wheel_drop(&other->wheel);
                            assert_int_equal(used_by_keys(other), used_by_keys(empty));
                            shard_drop(other);
                        }
                        shard_drop(empty);
                        shard_drop(s);
                        if (!result) break;
                    }
    assert_true(refusals > 300);
}

/* --- against a model --- */

#define MODEL_KEYS 300u
struct model_key {
    bool there;
    char *p;
    size_t size;
    int64_t expiry;
};

static void model_set(struct model_key *m, const char *p, size_t size, int64_t expiry) {
    char *copy = malloc(size + 1);
    memcpy(copy, p, size);
    free(m->p);
    *m = (struct model_key){true, copy, size, expiry};
}

static void model_remove(struct model_key *m) {
    free(m->p);
    *m = (struct model_key){0};
}

static size_t model_name(char *to, size_t i) {
    size_t size = (size_t)sprintf(to, "key:%zu", i);
    if (i % 10 == 9) {
        memset(to + size, 'l', 300);
        size += 300;
    }
    return size;
}

static size_t some_bytes(char *to) {
    static const size_t most[] = {4, 12, 50, 255, 700, 20000};
    size_t size = below(&dice, most[below(&dice, 6)] + 1);
    if (random_next(&dice) & 1) return (size_t)sprintf(to, "%lld", (long long)((int64_t)random_next(&dice) >> below(&dice, 64)));
    for (size_t i = 0; i < size; i++) to[i] = (char)random_next(&dice);
    return size;
}

static int64_t some_expiry(const struct shard *s) { return random_next(&dice) & 1 ? EXPIRY_NONE : s->now_ms + (int64_t)below(&dice, 2000); }

static void check_against(struct shard *s, struct model_key *model) {
    uint64_t count = 0, expiring = 0;
    for (size_t i = 0; i < MODEL_KEYS; i++) {
        char name[400];
        struct key k;
        struct model_key *m = &model[i];
        if (m->there && m->expiry < s->now_ms) model_remove(m);
        bool found = find_in(s, 0, name, model_name(name, i), &k);
        assert_int_equal(found, m->there);
        if (!found) continue;
        assert_value(&k, m->p, m->size);
        assert_int_equal(entry_expiry(k.entry), m->expiry);
        count++;
        expiring += m->expiry != EXPIRY_NONE;
    }
    assert_int_equal(s->dbs[0]->keys.count, count);
    assert_int_equal(s->dbs[0]->expiring, expiring);
    assert_true(s->wheel.records >= expiring);
}

static void random_changes_agree_with_a_naive_model(void **state) {
    struct shard *s = *state;
    static struct model_key model[MODEL_KEYS];
    static char bytes[50000];
    size_t empty = used_by_keys(s);
    for (unsigned round = 0; round < 60000; round++) {
        char name[400], other_name[400];
        struct key k, other;
        size_t at = below(&dice, MODEL_KEYS), other_at = below(&dice, MODEL_KEYS), size;
        struct model_key *m = &model[at], *to = &model[other_at];
        if (m->there && m->expiry < s->now_ms) model_remove(m);
        if (to->there && to->expiry < s->now_ms) model_remove(to);
        bool found = find_in(s, 0, name, model_name(name, at), &k);
        assert_int_equal(found, m->there);
        int64_t expiry = some_expiry(s);
        switch (below(&dice, 10)) {
        case 0:
        case 1:
            size = some_bytes(bytes);
            if (found && random_next(&dice) & 1) {
                assert_int_equal(key_set_bytes(s, &k, bytes, size, FORM_ANY, EXPIRY_KEEP, KEY_SET), 0);
                expiry = m->expiry;
            } else {
                assert_int_equal(key_set_bytes(s, &k, bytes, size, FORM_ANY, expiry, KEY_SET), 0);
            }
            model_set(m, bytes, size, expiry);
            break;
        case 2:
            if (!found || m->size > 20000) break;
            size = m->size + below(&dice, 600);
            memcpy(bytes, m->p, m->size);
            memset(bytes + m->size, 0, size - m->size);
            assert_memory_equal(key_make_writable(s, &k, size, random_next(&dice) & 1, KEY_SETRANGE), bytes, size);
            model_set(m, bytes, size, m->expiry);
            break;
        case 3:
            if (!found) break;
            assert_int_equal(key_set_expiry(s, &k, expiry, KEY_EXPIRE), 0);
            m->expiry = expiry;
            break;
        case 4:
            if (!found) break;
            key_delete(s, &k, KEY_DEL);
            model_remove(m);
            break;
        case 5:
        case 6:
            if (!found || at == other_at) break;
            find_in(s, 0, other_name, model_name(other_name, other_at), &other);
            assert_int_equal(key_copy_from(s, &other, k.entry, expiry, KEY_COPY_TO), 0);
            model_set(to, m->p, m->size, expiry);
            break;
        case 7:
            if (!found || at == other_at) break;
            find_in(s, 0, other_name, model_name(other_name, other_at), &other);
            assert_int_equal(key_move_from(s, &other, s, &k, KEY_RENAME_FROM, KEY_RENAME_TO), 0);
            model_set(to, m->p, m->size, m->expiry);
            model_remove(m);
            break;
        case 8: {
            int64_t v = (int64_t)random_next(&dice) >> below(&dice, 64);
            assert_int_equal(key_set_int(s, &k, v, EXPIRY_KEEP, KEY_INCR), 0);
            size = (size_t)sprintf(bytes, "%lld", (long long)v);
            model_set(m, bytes, size, found ? m->expiry : EXPIRY_NONE);
            break;
        }
        default: s->now_ms += (int64_t)below(&dice, 20);
        }
        if (round % 500 == 0) check_against(s, model);
    }
    check_against(s, model);
    assert_null(table_check(&s->dbs[0]->keys));
    for (size_t i = 0; i < MODEL_KEYS; i++) {
        char name[400];
        struct key k;
        if (find_in(s, 0, name, model_name(name, i), &k)) key_delete(s, &k, KEY_DEL);
        model_remove(&model[i]);
    }
    wheel_drop(&s->wheel);
    assert_int_equal(used_by_keys(s), empty);
    assert_int_equal(s->dbs[0]->expiring, 0);
}

/* --- lookups of hops --- */

static void lookups_count_and_touch_as_they_say(void **state) {
    struct shard *s = *state;
    struct key k;
    struct arg argv[] = {{"x", 1, 0}, {"k", 1, 0}, {"none", 4, 0}};
    uint64_t hashes[] = {hash_key(&secret, "k", 1), hash_key(&secret, "none", 4)};
    struct hop h = {.hash = hashes[0], .argv = argv, .argc = 3, .hashes = hashes, .n_keys = 2, .key_first = 1, .key_step = 1};
    set(s, "k", "v", 1, EXPIRY_NONE);
    struct entry *e = entry_at(s, "k");
    s->now_ms += 10 * 16000;
    assert_true(key_peek_nth(s, &h, 0, &k));
    assert_int_equal(s->stats.hits, 1);
    assert_int_equal(key_idle_s(s, e), 160);
    h.flags = HOP_NO_TOUCH;
    assert_true(key_read(s, &h, &k));
    assert_true(key_write(s, &h, &k));
    assert_int_equal(s->stats.hits, 2);
    assert_int_equal(key_idle_s(s, e), 160);
    h.flags = 0;
    assert_false(key_read_nth(s, &h, 1, &k));
    assert_false(key_write_nth(s, &h, 1, &k));
    assert_int_equal(s->stats.misses, 1);
    assert_true(key_write_nth(s, &h, 0, &k));
    assert_int_equal(key_idle_s(s, e), 0);
    assert_int_equal(s->stats.hits, 2);
    for (s->prefetch = PREFETCH_NONE; s->prefetch <= PREFETCH_FULL; s->prefetch++) key_prefetch_ahead(s, &h, 0);
}

int main(void) {
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(values_are_kept_in_the_form_that_redis_shows),
        TEST(forms_other_than_any_are_never_integers),
        TEST(a_value_of_the_same_class_is_overwritten_in_place),
        TEST(a_blob_that_a_reply_refers_to_is_left_alone),
        TEST(a_received_blob_becomes_the_value),
        TEST(strings_grow_and_shrink),
        TEST(appending_copies_in_proportion),
        TEST(huge_strings_cost_no_copies),
        TEST(a_key_past_its_time_is_gone_to_its_reader),
        TEST(a_key_past_its_time_is_hidden_from_readers_in_a_pause_but_not_from_writers),
        TEST(one_record_serves_as_long_as_it_fires_no_later),
        TEST(changing_the_time_keeps_value_and_access_clock),
        TEST(a_copy_shares_a_large_value_until_one_is_written),
        TEST(a_key_moves_between_shards),
        TEST(renaming_within_a_shard_counts_one_change),
        TEST(refused_memory_changes_nothing),
        TEST(random_changes_agree_with_a_naive_model),
        TEST(lookups_count_and_touch_as_they_say),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
