/* Sets under a key against a naive model: as integers, as text, with refused memory, with the accounting checked to the byte; their copies; probes. */
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
#include "shard/memory.h"
#include "shard/set.h"
#include "tests/lib/random.h"

#define NAMES 2048u
#define INTS_MAX 100

static struct hash_secret secret;
static struct random dice = {88172645463325252u};

static uint64_t draw(void *arg) { return random_next(arg); }

static struct shard *new_shard(uint32_t id) {
    uint8_t seed[32] = {7};
    hash_secret_init(&secret, seed);
    struct shard_options o = {.id = id, .shards = 2, .databases = 1, .secret = &secret, .seed = 1, .now_ms = 1000000};
    return shard_new(&o);
}

static int setup(void **state) {
    *state = new_shard(0);
    return 0;
}

static int teardown(void **state) {
    shard_drop(*state);
    return 0;
}

static struct key find(struct shard *s, const char *name) {
    struct key k;
    key_find(s, s->dbs[0], hash_key(&secret, name, strlen(name)), name, (uint32_t)strlen(name), &k);
    return k;
}

/* ---- members ---- */

/* The first half are integers; of the others some are long. */
static uint32_t text_of(uint32_t i, char out[400]) {
    if (i < NAMES / 2) return (uint32_t)snprintf(out, 400, "%d", (int)(i * i) - 500);
    return (uint32_t)snprintf(out, 400, "%0*u:", i % 5 ? 10 : (int)(90 + i % 200), i);
}

static struct field_name name_of(const struct set *x, uint32_t i, char text[400]) {
    struct field_name name;
    set_name(x, text, text_of(i, text), &name);
    return name;
}

struct model {
    bool there[NAMES];
    uint32_t n;
    bool ints; /* still an intset */
};

static int add(struct shard *s, const char *key, struct model *model, uint32_t i) {
    struct key k = find(s, key);
    struct set x = set_open(s, &k);
    char text[400];
    struct field_name name = name_of(&x, i, text);
    key_before_change(s, &k, KEY_SADD);
    int added = set_add(&x, &name, INTS_MAX);
    bool created = !k.entry;
    if (added == -ENOMEM) { /* it may be of another kind, but has the same members */
        if (k.entry) assert_int_equal(set_store(s, &k, &x, KEY_SADD), 0);
        if (set_count(&x) && model->ints) model->ints = x.ints;
        return -ENOMEM;
    }
    assert_int_equal(added, !model->there[i]);
    if (set_store(s, &k, &x, KEY_SADD)) {
        assert_true(created);
        return -ENOMEM;
    }
    if (!added) return 0;
    if (created) model->ints = true;
    if (i >= NAMES / 2 || model->n >= INTS_MAX) model->ints = false;
    model->there[i] = true;
    model->n++;
    return 1;
}

static void take(struct shard *s, const char *key, struct model *model, uint32_t i) {
    struct key k = find(s, key);
    struct set x = set_open(s, &k);
    struct set_item m;
    char text[400];
    struct field_name name = name_of(&x, i, text);
    bool found = set_find(&x, &name, &m);
    assert_int_equal(found, model->there[i]);
    if (!found) return;
    set_remove(&x, &m);
    assert_int_equal(set_store(s, &k, &x, KEY_SREM), 0);
    assert_int_equal(k.entry != NULL, model->n > 1);
    model->there[i] = false;
    model->n--;
}

static uint32_t index_of(const struct set *x, const struct set_item *m) {
    char scratch[INT64_TEXT_SIZE], text[400], again[INT64_TEXT_SIZE];
    uint32_t size;
    struct field_name from, to;
    const char *p = set_text(m, scratch, &size);
    set_name(x, p, size, &from);
    set_name_of(x, m, again, &to);
    assert_int_equal(from.hash, to.hash);
    assert_int_equal(from.packed.size, to.packed.size);
    assert_memory_equal(from.packed.head, to.packed.head,
        packed_is_far(&from.packed) ? 1 : from.packed.head_size); /* of a far one the rest is not set yet */
    for (uint32_t i = 0; i < NAMES; i++)
        if (text_of(i, text) == size && !memcmp(text, p, size)) return i;
    fail_msg("a member that was never added");
    return 0;
}

static size_t around; /* bytes of all else */

static void check(struct shard *s, const char *key, const struct model *model) {
    struct key k = find(s, key);
    assert_int_equal(k.entry != NULL, model->n > 0);
    struct set x = set_open(s, &k);
    struct set_walk w = {0};
    struct set_item m;
    uint32_t n = 0;
    assert_int_equal(set_count(&x), model->n);
    while (set_next(&x, &w, &m)) n++;
    assert_int_equal(n, model->n);
    if (k.entry) assert_int_equal(entry_encoding(k.entry) == ENC_INTSET, model->ints);
    for (uint32_t i = 0; i < NAMES; i += SET_GROUP) {
        struct field_name names[SET_GROUP];
        char texts[SET_GROUP][400];
        uint32_t expected = 0, of = (uint32_t)draw(&dice) & ((1u << SET_GROUP) - 1);
        for (uint32_t j = 0; j < SET_GROUP; j++) {
            names[j] = name_of(&x, i + j, texts[j]);
            expected |= (uint32_t)model->there[i + j] << j;
        }
        assert_int_equal(set_probe(&x, names, of, false), expected & of);
    }
    if (!k.entry) return;
    set_random(&x, draw, &dice, &m);
    assert_true(model->there[index_of(&x, &m)]);
    size_t others = memory_used(s->memory) - memory_usable_packed(entry_size(k.entry)) - container_memory(k.entry);
    if (!around) around = others;
    assert_int_equal(others, around);
}

static void live(struct shard *s, uint32_t steps, bool refused) {
    static struct model model;
    memset(&model, 0, sizeof model);
    around = 0;
    for (uint32_t step = 0, grows = 7, names = NAMES; step < steps; step++) {
        if (step % 3000 == 0) {
            grows = 2 + below(&dice, 8);
            names = below(&dice, 2) ? NAMES / 2 : below(&dice, 2) ? 150 : NAMES;
            if (below(&dice, 2)) /* all anew, so that it is an intset again */
                for (uint32_t i = 0; i < NAMES; i++) take(s, "set", &model, i);
        }
        uint32_t i = below(&dice, names);
        if (refused && below(&dice, 10) == 0) memory_fail_after(s->memory, 1 + below(&dice, 4));
        if (below(&dice, 10) < grows) assert_true(add(s, "set", &model, i) != -ENOMEM || refused);
        else take(s, "set", &model, i);
        memory_fail_after(s->memory, 0);
        if (step % 5000 == 4999) check(s, "set", &model);
    }
    check(s, "set", &model);
}

static void a_set_is_as_its_model(void **state) { live(*state, 1000000, false); }
static void refused_memory_changes_nothing(void **state) { live(*state, 200000, true); }

/* ---- encodings ---- */

static void add_number(struct set *x, int64_t v, int64_t ints_max) {
    char text[INT64_TEXT_SIZE];
    struct field_name name;
    set_name(x, text, format_int64(text, v), &name);
    assert_true(set_add(x, &name, ints_max) >= 0);
}

static void more_integers_than_the_limit_are_no_intset(void **state) {
    struct set x = set_new(*state);
    for (int64_t v = 1; v <= 10; v++) add_number(&x, v, 10);
    assert_non_null(x.ints);
    add_number(&x, 7, 5); /* is there: changes nothing, whatever the limit */
    assert_non_null(x.ints);
    add_number(&x, 11, 10);
    assert_null(x.ints);
    assert_int_equal(set_count(&x), 11);
    set_drop(*state, &x);
    add_number(&x, 1, 0);
    assert_null(x.ints);
    assert_int_equal(set_count(&x), 1);
    set_drop(*state, &x);
}

static void what_it_needs_is_enough(void **state) {
    struct shard *s = *state;
    for (unsigned round = 0; round < 2000; round++) {
        struct set x = set_new(s);
        for (uint32_t i = below(&dice, below(&dice, 4) ? 100 : 1000); i; i--)
            add_number(&x, below(&dice, 3) ? i : i * 100000000, below(&dice, 3) ? 512 : 20);
        uint32_t n = 1 + below(&dice, 100), kind = below(&dice, 3);
        size_t used = memory_used(s->memory), needs = set_needs(&x, n);
        for (uint32_t i = 0; i < n; i++) {
            char text[400];
            struct field_name name = name_of(&x,
                kind == 0       ? below(&dice, NAMES / 2)
                    : kind == 1 ? below(&dice, NAMES)
                                : NAMES / 2 + below(&dice, NAMES / 2),
                text);
            needs += set_needs_member(&name);
            assert_true(set_add(&x, &name, 512) >= 0);
        }
        assert_true(memory_used(s->memory) <= used + needs);
        if (x.ints) set_drop(s, &x);
        else fields_free(&x.fields); /* at once */
    }
}

/* ---- copies ---- */

static void fill(struct shard *s, const char *name, uint32_t n) {
    struct key k = find(s, name);
    struct set x = set_open(s, &k);
    for (uint32_t i = 0; i < n; i++) add_number(&x, (int64_t)i * i * i, 512);
    assert_int_equal(set_store(s, &k, &x, KEY_SADD), 0);
}

static void assert_same(struct shard *s, const char *name, struct shard *other, const char *other_name) {
    struct key k = find(s, name), o = find(other, other_name);
    assert_non_null(k.entry);
    assert_non_null(o.entry);
    struct set x = set_open(s, &k), y = set_open(other, &o);
    struct set_walk w = {0};
    struct set_item m;
    assert_int_equal(entry_encoding(k.entry), entry_encoding(o.entry));
    assert_int_equal(set_count(&x), set_count(&y));
    while (set_next(&x, &w, &m)) {
        char scratch[INT64_TEXT_SIZE];
        struct field_name n;
        set_name_of(&y, &m, scratch, &n);
        assert_true(set_has(&y, &n));
    }
}

static uint64_t no_time(void) { return 0; }

static void delete_keys(struct shard *s) {
    static const char *const names[] = {"a", "kept", "copy", "far"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct key k = find(s, names[i]);
        if (k.entry) key_delete(s, &k, KEY_DEL);
    }
    while (shard_work(s, 1000000, 1000000, no_time)) {}
}

static void copies_and_moves_have_the_same_members(void **state) {
    static const uint32_t sizes[] = {1, 100, 512, 513, 3000};
    struct shard *s = *state, *other = new_shard(1);
    size_t before = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        fill(s, "a", sizes[i]);
        fill(s, "kept", sizes[i]);
        struct key a = find(s, "a"), copy = find(s, "copy"), far = find(other, "far");
        assert_int_equal(key_copy_from(s, &copy, a.entry, EXPIRY_NONE, KEY_COPY_TO), 0);
        assert_int_equal(key_copy_from(other, &far, a.entry, EXPIRY_NONE, KEY_COPY_TO), 0);
        assert_same(s, "a", s, "copy");
        assert_same(s, "a", other, "far");
        a = find(s, "a");
        assert_int_equal(key_set_expiry(s, &a, 2000000, KEY_EXPIRE), 0);
        struct entry *lent = entry_lend(a.entry);
        struct container_copying c = {0};
        far = find(other, "far");
        int more;
        while ((more = key_copy_some(other, &far, lent, &c, 2000, false, KEY_RENAME_TO)) > 0) assert_same(s, "kept", other, "far");
        assert_int_equal(more, 0);
        entry_end_loan(lent);
        assert_int_equal(entry_expiry(find(other, "far").entry), 2000000);
        assert_same(s, "kept", other, "far");
        copy = find(s, "copy");
        struct set none = set_new(s);
        assert_int_equal(set_replace(s, &copy, &none, KEY_STORE), 0);
        assert_null(find(s, "copy").entry);
        delete_keys(s);
        delete_keys(other);
        if (!before) before = memory_used(s->memory) + memory_used(other->memory);                  /* the tables are there now */
        assert_in_range(memory_used(s->memory) + memory_used(other->memory), before, before + 200); /* and timer records */
    }
    shard_drop(other);
}

static void a_result_replaces_a_key_of_any_kind(void **state) {
    struct shard *s = *state;
    struct key k = find(s, "k");
    assert_int_equal(key_set_bytes(s, &k, "text", 4, FORM_ANY, 2000000, KEY_SET), 0);
    struct set x = set_new(s);
    add_number(&x, 5, 512);
    uint64_t dirty = s->stats.dirty;
    assert_int_equal(set_replace(s, &k, &x, KEY_STORE), 0);
    assert_int_equal(s->stats.dirty, dirty + 1);
    k = find(s, "k");
    assert_int_equal(entry_type(k.entry), TYPE_SET);
    assert_int_equal(entry_expiry(k.entry), INT64_MAX);
    struct set refused = set_new(s);
    add_number(&refused, 6, 512);
    memory_fail_after(s->memory, 1);
    assert_int_equal(set_replace(s, &k, &refused, KEY_STORE), -ENOMEM);
    memory_fail_after(s->memory, 0);
    x = set_open(s, &k);
    assert_int_equal(set_count(&x), 1);
    assert_int_equal(intset_at(x.ints, 0), 5);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_set_is_as_its_model, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_memory_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(more_integers_than_the_limit_are_no_intset, setup, teardown),
        cmocka_unit_test_setup_teardown(what_it_needs_is_enough, setup, teardown),
        cmocka_unit_test_setup_teardown(copies_and_moves_have_the_same_members, setup, teardown),
        cmocka_unit_test_setup_teardown(a_result_replaces_a_key_of_any_kind, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
