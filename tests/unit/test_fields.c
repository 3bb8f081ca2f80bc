/* Packed strings; fields against a naive model, with refused memory, with their accounting checked to the byte, and with cursors while they grow and shrink. */
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
#include "shard/fields.h"
#include "shard/hop.h"
#include "shard/memory.h"
#include "tests/lib/random.h"

#define NAMES 4096u
#define TIMES 1000000u

static struct hash_secret secret;
static struct random dice = {88172645463325252u};

static uint64_t draw(void *arg) { return random_next(arg); }

static int setup(void **state) {
    uint8_t seed[32] = {7};
    hash_secret_init(&secret, seed);
    *state = memory_new(false);
    return 0;
}

static int teardown(void **state) {
    assert_int_equal(memory_used(*state), 0);
    memory_drop(*state);
    return 0;
}

/* ---- packed strings ---- */

static void a_packed_string_is_what_it_was_made_of(void **state) {
    static const char *const texts[] = {"", "a", "0", "63", "64", "-1", "127", "128", "-128", "-129", "255", "32767", "32768", "-32769",
        "8388607", "8388608", "2147483647", "-2147483649", "549755813887", "140737488355328", "9223372036854775807", "-9223372036854775808",
        "9223372036854775808", "007", "-0", "+1", "1.5", "12345678901234567890"};
    char scratch[INT64_TEXT_SIZE];
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        struct packed x;
        uint8_t at[PACKED_SIZE_MAX];
        uint32_t size;
        packed_of(&x, texts[i], (uint32_t)strlen(texts[i]));
        packed_write(&x, at);
        assert_int_equal(packed_size(at), x.size);
        const char *text = packed_text(at, scratch, &size);
        assert_int_equal(size, strlen(texts[i]));
        assert_memory_equal(text, texts[i], size);
        assert_true(packed_equal(&x, at));
        for (size_t j = 0; j < sizeof texts / sizeof *texts; j++) {
            struct packed other;
            packed_of(&other, texts[j], (uint32_t)strlen(texts[j]));
            assert_int_equal(packed_equal(&other, at), i == j);
        }
    }
}

static void integers_are_packed_in_the_fewest_bytes(void **state) {
    static const struct {
        int64_t v;
        unsigned size;
    } cases[] = {{0, 1}, {63, 1}, {64, 2}, {-1, 2}, {127, 2}, {128, 3}, {-128, 2}, {-129, 3}, {32767, 3}, {32768, 4}, {8388608, 5},
        {INT64_MAX, 9}, {INT64_MIN, 9}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct packed x;
        uint8_t at[PACKED_SIZE_MAX];
        packed_of_int(&x, cases[i].v);
        packed_write(&x, at);
        assert_int_equal(x.size, cases[i].size);
        assert_true(packed_is_int(at));
        assert_int_equal(packed_int(at), cases[i].v);
    }
}

static void a_long_string_is_far_and_freed(void **state) {
    struct memory *m = *state;
    static const uint32_t sizes[] = {PACKED_INLINE_MAX, PACKED_INLINE_MAX + 1, 300, BLOB_SHARE_MIN - 1, BLOB_SHARE_MIN, 70000};
    char *text = calloc(1, 70000), scratch[INT64_TEXT_SIZE];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct packed x;
        uint8_t at[PACKED_SIZE_MAX];
        uint32_t size;
        packed_of(&x, text, sizes[i]);
        assert_int_equal(packed_make_far(m, &x), 0);
        packed_write(&x, at);
        assert_int_equal(packed_is_far(&x), sizes[i] > PACKED_INLINE_MAX);
        assert_int_equal(packed_far_memory(at), memory_used(m));
        assert_memory_equal(packed_text(at, scratch, &size), text, sizes[i]);
        assert_int_equal(size, sizes[i]);
        assert_true(packed_equal(&x, at));
        packed_drop(m, at);
    }
    free(text);
}

static void a_reply_keeps_a_long_string_that_is_dropped(void **state) {
    struct memory *m = *state;
    char *text = calloc(1, BLOB_SHARE_MIN), scratch[INT64_TEXT_SIZE];
    struct packed x;
    uint8_t at[PACKED_SIZE_MAX];
    uint32_t size;
    packed_of(&x, text, BLOB_SHARE_MIN);
    assert_int_equal(packed_make_far(m, &x), 0);
    packed_write(&x, at);
    struct blob *b = packed_blob(packed_text(at, scratch, &size));
    assert_int_equal(b->size, BLOB_SHARE_MIN);
    b->refs++;
    packed_drop(m, at);
    assert_memory_equal(b->bytes, text, BLOB_SHARE_MIN);
    assert_int_equal(memory_used(m), blob_memory(b));
    blob_release(m, b);
    free(text);
}

static void a_received_blob_becomes_a_long_string(void **state) {
    struct memory *m = *state;
    static const uint32_t sizes[] = {BLOB_SHARE_MIN, 70000, BLOB_MAPPED_MIN};
    char scratch[INT64_TEXT_SIZE];
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct blob *b = blob_receive(sizes[i]);
        struct arg a = {b->bytes, sizes[i], ARG_BLOB};
        struct packed x;
        uint8_t at[PACKED_SIZE_MAX];
        uint32_t size;
        memset(b->bytes, 'b', sizes[i]);
        packed_of(&x, a.p, a.size);
        packed_adopt(m, &x, &a);
        assert_int_equal(a.flags, 0);
        assert_int_equal(packed_make_far(m, &x), 0);
        packed_write(&x, at);
        assert_ptr_equal(packed_text(at, scratch, &size), b->bytes);
        assert_int_equal(size, sizes[i]);
        assert_int_equal(memory_used(m), packed_far_memory(at));
        packed_drop(m, at);
        assert_int_equal(memory_used(m), 0);
    }
}

/* ---- against a model ---- */

struct model {
    bool there[NAMES];
    uint32_t size[NAMES]; /* of the value, whose bytes follow from it */
    int64_t at[NAMES];
    uint32_t n;
};

static char value_text[2000];

/* Names of all kinds: numbers, short and long text. */
static uint32_t name_of(uint32_t i, char out[400]) {
    switch (i % 4) {
    case 0: return (uint32_t)snprintf(out, 400, "%u", i * i);
    case 1: return (uint32_t)snprintf(out, 400, "field:%u", i);
    case 2: return (uint32_t)snprintf(out, 400, "%0*u", (int)(60 + i % 200), i);
    default: return (uint32_t)snprintf(out, 400, "-%u-", i);
    }
}

static uint32_t value_size(void) {
    uint32_t kind = below(&dice, 10);
    return kind == 0 ? below(&dice, 2000) : kind == 1 ? below(&dice, 150) : below(&dice, 20);
}

static void check_field(const struct model *model, uint32_t i, const struct field *x, bool values) {
    char name[400], scratch[INT64_TEXT_SIZE];
    uint32_t size, name_size = name_of(i, name);
    const char *text = packed_text(x->name, scratch, &size);
    assert_int_equal(size, name_size);
    assert_memory_equal(text, name, size);
    assert_int_equal(x->expires_at_ms, model->at[i]);
    assert_int_equal(x->value != NULL, values);
    if (!values) return;
    text = packed_text(x->value, scratch, &size);
    assert_int_equal(size, model->size[i]);
    assert_memory_equal(text, value_text, size);
}

static void find_name(const struct fields *f, uint32_t i, struct field_name *out, char text[400]) {
    uint32_t size = name_of(i, text);
    field_name(f, text, size, out);
}

static void put_one(struct fields *f, struct model *model, uint32_t i, bool values) {
    char text[400];
    struct field_name name;
    struct field was;
    struct packed value;
    find_name(f, i, &name, text);
    bool found = fields_find(f, &name, &was);
    assert_int_equal(found, model->there[i]);
    if (found) check_field(model, i, &was, values);
    uint32_t size = value_size();
    int64_t at = values && below(&dice, 4) == 0 ? (int64_t)below(&dice, TIMES) : FIELD_NEVER;
    packed_of(&value, value_text, size);
    if (fields_put(f, &name, found ? &was : NULL, values ? &value : NULL, at)) return; /* memory was refused */
    model->n += !found;
    model->there[i] = true;
    model->size[i] = size;
    model->at[i] = at;
}

static void remove_one(struct fields *f, struct model *model, uint32_t i, bool values) {
    char text[400];
    struct field_name name;
    struct field was;
    find_name(f, i, &name, text);
    bool found = fields_find(f, &name, &was);
    assert_int_equal(found, model->there[i]);
    if (!found) return;
    check_field(model, i, &was, values);
    fields_remove(f, &was);
    model->there[i] = false;
    model->n--;
}

static void time_one(struct fields *f, struct model *model, uint32_t i) {
    char text[400];
    struct field_name name;
    struct field was;
    int64_t at = below(&dice, 3) ? (int64_t)below(&dice, TIMES) : FIELD_NEVER;
    find_name(f, i, &name, text);
    if (fields_find(f, &name, &was) && !fields_set_time(f, &was, at)) model->at[i] = at;
}

static void check_first_time(const struct fields *f, const struct model *model) {
    int64_t first = FIELD_NEVER;
    for (uint32_t i = 0; i < NAMES; i++)
        if (model->there[i] && model->at[i] < first) first = model->at[i];
    assert_int_equal(fields_first_time(f), first);
}

static void expire_some(struct fields *f, struct model *model) {
    uint32_t most = 1 + below(&dice, 50), n = 0, left = 0;
    int64_t before = (int64_t)below(&dice, TIMES / 10);
    uint32_t gone = fields_expire(f, before, most);
    for (uint32_t i = 0; i < NAMES; i++) {
        char text[400];
        struct field_name name;
        struct field x;
        if (!model->there[i] || model->at[i] >= before) continue;
        find_name(f, i, &name, text);
        model->there[i] = !fields_is_empty(f) && fields_find(f, &name, &x);
        n += !model->there[i];
        left += model->there[i];
    }
    assert_int_equal(gone, n);
    assert_true(!left || n >= most);
    model->n -= n;
}

static void check_all(const struct fields *f, const struct model *model, bool values) {
    struct fields_walk w = {0};
    struct field x;
    uint32_t n = 0;
    while (fields_next(f, &w, &x)) n++;
    assert_int_equal(n, model->n);
    assert_int_equal(fields_count(f), model->n);
    assert_int_equal(memory_used(f->memory), fields_memory(f));
    for (uint32_t i = 0; i < NAMES; i++) {
        char text[400];
        struct field_name name;
        find_name(f, i, &name, text);
        assert_int_equal(fields_find(f, &name, &x), model->there[i]);
        if (model->there[i]) check_field(model, i, &x, values);
    }
}

/* In parts of random size. */
static int copy_all(struct fields *to, const struct fields *from) {
    struct packed_copying c = {0};
    int more;
    do {
        c.cost = below(&dice, 20000);
        more = fields_copy_some(to, from, &c);
    } while (more > 0);
    if (more) fields_free(to);
    return more;
}

/* Grows, shrinks, grows ... refused: now and then an allocation fails. */
static void live(struct memory *m, uint32_t steps, bool values, bool refused) {
    static struct model model;
    memset(&model, 0, sizeof model);
    struct fields f = {.memory = m, .secret = &secret};
    for (uint32_t step = 0, grows = 7; step < steps; step++) {
        if (step % 5000 == 0) grows = 2 + below(&dice, 8);
        if (refused && below(&dice, 20) == 0) memory_fail_after(m, 1 + below(&dice, 3));
        uint32_t i = below(&dice, below(&dice, 3) ? NAMES : 200);
        if (values && below(&dice, 5) == 0) time_one(&f, &model, i);
        else if (values && below(&dice, 500) == 0) expire_some(&f, &model);
        else if (below(&dice, 10) < grows) put_one(&f, &model, i, values);
        else remove_one(&f, &model, i, values);
        memory_fail_after(m, 0);
        if (step % 10000 == 9999) check_all(&f, &model, values);
        if (step % 100 == 99) check_first_time(&f, &model);
        assert_int_equal(fields_is_empty(&f), model.n == 0);
    }
    check_all(&f, &model, values);
    struct fields copy = {.memory = m, .secret = &secret};
    if (model.n) {
        size_t used = memory_used(m), other = used - fields_memory(&f);
        fields_set_flags(&f, FIELDS_SHOWN_LARGE);
        assert_int_equal(copy_all(&copy, &f), 0);
        assert_int_equal(fields_flags(&copy), FIELDS_SHOWN_LARGE);
        fields_free(&f);
        assert_true(memory_used(m) <= used);
        assert_int_equal(fields_memory(&copy), memory_used(m) - other);
        check_all(&copy, &model, values);
        memory_fail_after(m, 1);
        assert_int_equal(copy_all(&f, &copy), -ENOMEM);
        assert_true(fields_is_empty(&f));
        for (uint32_t step = 0; model.n && step < 2000; step++) remove_one(&copy, &model, below(&dice, NAMES), values);
        check_all(&copy, &model, values);
    }
    fields_free(&copy);
}

static void fields_with_values_are_as_their_model(void **state) { live(*state, 500000, true, false); }
static void members_without_values_are_as_their_model(void **state) { live(*state, 300000, false, false); }
static void refused_memory_changes_nothing(void **state) { live(*state, 200000, true, true); }

/* ---- walks ---- */

static uint32_t number_of(const struct field *x) {
    char scratch[INT64_TEXT_SIZE + 1];
    uint32_t size;
    assert_true(packed_is_int(x->name));
    packed_text(x->name, scratch, &size);
    scratch[size] = 0;
    return (uint32_t)strtoul(scratch, NULL, 10);
}

static void put_number(struct fields *f, uint32_t i) {
    char text[16];
    struct field_name name;
    struct field was;
    field_name(f, text, (uint32_t)snprintf(text, sizeof text, "%u", i), &name);
    if (!fields_find(f, &name, &was)) assert_int_equal(fields_put(f, &name, NULL, NULL, FIELD_NEVER), 0);
}

static void remove_number(struct fields *f, uint32_t i) {
    char text[16];
    struct field_name name;
    struct field was;
    field_name(f, text, (uint32_t)snprintf(text, sizeof text, "%u", i), &name);
    if (fields_find(f, &name, &was)) fields_remove(f, &was);
}

static void small_ones_keep_their_order(void **state) {
    struct fields f = {.memory = *state, .secret = &secret};
    struct fields_walk w = {0};
    struct field x;
    for (uint32_t i = 0; i < 100; i++) put_number(&f, 1000 - i * 7);
    for (uint32_t i = 0; i < 100; i += 3) remove_number(&f, 1000 - i * 7);
    for (uint32_t i = 0; i < 100; i++) {
        if (i % 3 == 0) continue;
        assert_true(fields_next(&f, &w, &x));
        assert_int_equal(number_of(&x), 1000 - i * 7);
    }
    assert_false(fields_next(&f, &w, &x));
    fields_free(&f);
}

static bool seen[NAMES];
static void see(void *arg, const struct field *x) {
    (void)arg;
    uint32_t i = number_of(x);
    if (i < NAMES) seen[i] = true;
}

/* Names below NAMES are there all the time; others come and go in thousands between the steps. */
static void a_scan_meets_what_is_there_all_the_time(void **state) {
    struct fields f = {.memory = *state, .secret = &secret};
    for (uint32_t i = 0; i < NAMES; i++) put_number(&f, i);
    for (unsigned round = 0; round < 20; round++) {
        uint64_t cursor = 0;
        unsigned step = 0;
        memset(seen, 0, sizeof seen);
        do {
            cursor = fields_scan(&f, cursor, see, NULL);
            if (step++ % 16 == 0) {
                uint32_t from = NAMES + below(&dice, 40000), n = below(&dice, 8000);
                bool add = below(&dice, 2);
                for (uint32_t i = 0; i < n; i++) add ? put_number(&f, from + i) : remove_number(&f, from + i);
            }
        } while (cursor);
        for (uint32_t i = 0; i < NAMES; i++) assert_true(seen[i]);
    }
    fields_free(&f);
}

/* Chi-squared over n members, 200 draws each: its mean is n - 1, its deviation the root of 2 n; 8 of them are never met by chance. */
static void draw_all(struct memory *m, uint32_t n) {
    struct fields f = {.memory = m, .secret = &secret};
    uint32_t *times = calloc(n, sizeof *times);
    double chi = 0;
    for (uint32_t i = 0; i < n; i++) put_number(&f, i);
    for (uint32_t i = 0; i < 200 * n; i++) {
        struct field x;
        fields_random(&f, draw, &dice, &x);
        times[number_of(&x)]++;
    }
    for (uint32_t i = 0; i < n; i++) chi += ((double)times[i] - 200) * ((double)times[i] - 200) / 200;
    assert_true((chi - n) * (chi - n) < 64.0 * 2 * n || chi < n);
    free(times);
    fields_free(&f);
}

static void each_is_drawn_as_often(void **state) {
    draw_all(*state, 10);
    draw_all(*state, 100);
    draw_all(*state, 3000);
}

/* Items that get times grow. What is due for that is done at once, not by the next insert. */
static void a_map_whose_fields_get_times_grows_along(void **state) {
    struct fields f = {.memory = *state, .secret = &secret};
    for (uint32_t i = 0; i < 20000; i++) {
        char text[16];
        struct field_name name;
        struct packed value;
        packed_of(&value, "some value", 10);
        field_name(&f, text, (uint32_t)snprintf(text, sizeof text, "f%u", i), &name);
        assert_int_equal(fields_put(&f, &name, NULL, &value, FIELD_NEVER), 0);
    }
    uint64_t buckets = fields_buckets(&f);
    for (uint32_t i = 0; i < 20000; i++) {
        char text[16];
        struct field_name name;
        struct field x;
        uint64_t before = fields_buckets(&f);
        field_name(&f, text, (uint32_t)snprintf(text, sizeof text, "f%u", i), &name);
        assert_true(fields_find(&f, &name, &x));
        assert_int_equal(fields_set_time(&f, &x, 1000 + i), 0);
        assert_in_range(fields_buckets(&f) - before, 0, 1);
    }
    size_t used = f.map->used;
    assert_true(used >= 20000 * 8 && fields_buckets(&f) > buckets);
    assert_true(used / fields_buckets(&f) <= 224);
    assert_int_equal(fields_expire(&f, 1000 + 20000, UINT32_MAX), 20000);
    assert_true(fields_is_empty(&f));
}

static void copy_one(void *arg, const struct field *x) { assert_int_equal(fields_put_copy(arg, x), 0); }

/* They come in the order of their hashes: all to one page, were the pages not made first that they are to lie in. */
static void what_comes_in_the_order_of_a_scan_finds_room(void **state) {
    enum { MANY = 60000 };
    struct fields from = {.memory = *state, .secret = &secret}, to = from;
    for (uint32_t i = 0; i < MANY; i++) put_number(&from, i);
    uint64_t cursor = 0;
    do cursor = fields_scan(&from, cursor, copy_one, &to);
    while (cursor);
    assert_int_equal(fields_count(&to), MANY);
    struct fields_walk w = {0};
    struct field x;
    uint32_t met = 0;
    while (fields_next(&to, &w, &x)) met++;
    assert_int_equal(met, MANY);
    for (uint32_t i = 0; i < MANY; i++) remove_number(&to, i);
    assert_true(fields_is_empty(&to));
    fields_free(&from);
}

/* What a walk through one map is looked for in another lies where its bucket tells. */
static void items_of_a_bucket_are_in_its_counterparts(void **state) {
    struct memory *m = *state;
    static const uint32_t sizes[] = {150, 700, 1000, 1531, 3000, 6000, 24000};
    enum { N = sizeof sizes / sizeof *sizes };
    struct fields maps[N];
    for (unsigned i = 0; i < N; i++) {
        maps[i] = (struct fields){.memory = m, .secret = &secret};
        for (uint32_t j = 0; j < sizes[i]; j++) put_number(&maps[i], j);
    }
    for (unsigned i = 0; i < N * N; i++) {
        const struct fieldmap *of = maps[i / N].map, *x = maps[i % N].map;
        struct fields_walk w = {0};
        struct field f;
        while (fields_next(&maps[i / N], &w, &f)) {
            struct field_name name;
            char text[16];
            field_name(&maps[i % N], text, (uint32_t)snprintf(text, sizeof text, "%u", number_of(&f)), &name);
            uint64_t step, b = fieldmap_counterpart(x, of, fieldmap_bucket(of, name.hash), &step);
            while (b < x->buckets && b != fieldmap_bucket(x, name.hash)) b += step;
            assert_true(b < x->buckets);
        }
    }
    for (unsigned i = 0; i < N; i++) fields_free(&maps[i]);
}

static void a_large_map_is_freed_in_slices(void **state) {
    struct fields f = {.memory = *state, .secret = &secret};
    for (uint32_t i = 0; i < 100000; i++) put_number(&f, i);
    assert_non_null(f.map);
    unsigned slices = 1;
    size_t used = memory_used(*state);
    while (fieldmap_free_some(f.memory, f.map, 64)) {
        assert_true(memory_used(*state) < used);
        used = memory_used(*state);
        slices++;
    }
    assert_in_range(slices, 100000 / 12 / 64, 100000 / 4 / 64);
}

int main(void) {
    for (size_t i = 0; i < sizeof value_text; i++) value_text[i] = (char)('a' + i % 26);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_packed_string_is_what_it_was_made_of),
        cmocka_unit_test_setup_teardown(a_reply_keeps_a_long_string_that_is_dropped, setup, teardown),
        cmocka_unit_test_setup_teardown(a_received_blob_becomes_a_long_string, setup, teardown),
        cmocka_unit_test(integers_are_packed_in_the_fewest_bytes),
        cmocka_unit_test_setup_teardown(a_long_string_is_far_and_freed, setup, teardown),
        cmocka_unit_test_setup_teardown(fields_with_values_are_as_their_model, setup, teardown),
        cmocka_unit_test_setup_teardown(members_without_values_are_as_their_model, setup, teardown),
        cmocka_unit_test_setup_teardown(refused_memory_changes_nothing, setup, teardown),
        cmocka_unit_test_setup_teardown(small_ones_keep_their_order, setup, teardown),
        cmocka_unit_test_setup_teardown(a_scan_meets_what_is_there_all_the_time, setup, teardown),
        cmocka_unit_test_setup_teardown(each_is_drawn_as_often, setup, teardown),
        cmocka_unit_test_setup_teardown(a_map_whose_fields_get_times_grows_along, setup, teardown),
        cmocka_unit_test_setup_teardown(what_comes_in_the_order_of_a_scan_finds_room, setup, teardown),
        cmocka_unit_test_setup_teardown(items_of_a_bucket_are_in_its_counterparts, setup, teardown),
        cmocka_unit_test_setup_teardown(a_large_map_is_freed_in_slices, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
