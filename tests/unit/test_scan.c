#include "tests/unit/command_driver.h"

#define KEYS 20000u

static void fill(struct driver *d, unsigned n) {
    for (unsigned i = 0; i < n; i++) {
        char line[64];
        sprintf(line, "SET key:%u %u", i, i);
        EXPECT(d, line, "+OK|");
    }
}

/* Marks the keys of a reply's bulks from `at` on; returns how many there were. */
static size_t mark_keys(const struct reply *r, size_t at, unsigned char *seen) {
    size_t n = 0;
    while (at < r->size) {
        char *end;
        size_t size = strtoul(r->p + at + 1, &end, 10);
        assert_memory_equal(end + 2, "key:", 4);
        unsigned i = (unsigned)strtoul(end + 6, NULL, 10);
        assert_true(i < KEYS);
        seen[i]++;
        n++;
        at = (size_t)(end + 2 + size + 2 - r->p);
    }
    return n;
}

/* Runs a call of SCAN; returns the next cursor. */
static uint64_t scan_once(struct driver *d, uint64_t cursor, const char *options, unsigned char *seen, size_t *n) {
    char line[128];
    sprintf(line, "SCAN %llu %s", (unsigned long long)cursor, options);
    driver_split(d, line);
    driver_run_args(d);
    assert_memory_equal(d->out.p, "*2\r\n$", 5);
    char *p = strstr(d->out.p, "\r\n") + 3;
    p = strstr(p, "\r\n") + 2;
    uint64_t next = strtoull(p, &p, 10);
    assert_true(next < (uint64_t)1 << 53);
    size_t announced = strtoul(p + 3, &p, 10);
    *n = mark_keys(&d->out, (size_t)(p + 2 - d->out.p), seen);
    assert_int_equal(*n, announced);
    return next;
}

static void a_scan_meets_every_key_body(struct driver *d) {
    static const char *const options[] = {"", "COUNT 1", "COUNT 100", "COUNT 1000000000", "MATCH key:*", "TYPE string COUNT 50"};
    fill(d, KEYS);
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        unsigned char *seen = calloc(1, KEYS);
        size_t n, calls = 0, most = 0;
        uint64_t cursor = 0;
        do {
            cursor = scan_once(d, cursor, options[i], seen, &n);
            if (n > most) most = n;
            calls++;
        } while (cursor);
        for (unsigned k = 0; k < KEYS; k++) assert_int_equal(seen[k], 1);
        assert_true(most < 3000);
        if (i == 3) assert_true(calls >= KEYS / 3000 && calls < 100);
        free(seen);
    }
}
static void a_scan_meets_every_key(void **state) { driver_each(a_scan_meets_every_key_body); }

/* Keys that are there all the time are met, whatever comes and goes meanwhile. */
static void a_scan_during_changes_body(struct driver *d) {
    unsigned char *seen = calloc(1, KEYS);
    uint64_t cursor = 0;
    unsigned added = KEYS / 4, round = 0;
    size_t n;
    fill(d, KEYS / 4);
    do {
        cursor = scan_once(d, cursor, "COUNT 20", seen, &n);
        for (int i = 0; i < 20 && added < KEYS; i++) {
            char line[64];
            sprintf(line, "SET key:%u x", added++);
            EXPECT(d, line, "+OK|");
            if (i % 2) continue;
            sprintf(line, "DEL key:%u", KEYS / 4 + round++ % (added - KEYS / 4));
            free(driver_run(d, line));
        }
    } while (cursor);
    for (unsigned k = 0; k < KEYS / 4; k++) assert_true(seen[k] >= 1);
    free(seen);
}
static void a_scan_during_changes(void **state) { driver_each(a_scan_during_changes_body); }

static void a_small_database_is_scanned_in_one_call_body(struct driver *d) {
    unsigned char *seen = calloc(1, KEYS);
    size_t n;
    EXPECT(d, "SCAN 0", "*2|$1|0|*0|");
    fill(d, 30);
    assert_int_equal(scan_once(d, 0, "COUNT 1000", seen, &n), 0);
    assert_int_equal(n, 30);
    assert_int_equal(scan_once(d, 0, "COUNT 1000 MATCH key:1?", seen, &n), 0);
    assert_int_equal(n, 10);
    assert_int_equal(scan_once(d, 0, "COUNT 1000 TYPE list", seen, &n), 0);
    assert_int_equal(n, 0);
    assert_int_equal(scan_once(d, 0, "COUNT 1000 TYPE nonesuch", seen, &n), 0);
    assert_int_equal(n, 0);
    free(seen);
}
static void a_small_database_is_scanned_in_one_call(void **state) { driver_each(a_small_database_is_scanned_in_one_call_body); }

static void wrong_arguments_body(struct driver *d) {
    EXPECT(d, "SCAN x", "-ERR invalid cursor|");
    EXPECT(d, "SCAN 1x", "-ERR invalid cursor|");
    EXPECT(d, "SCAN \" 1\"", "-ERR invalid cursor|");
    EXPECT(d, "SCAN 18446744073709551616", "-ERR invalid cursor|");
    EXPECT(d, "SCAN 18446744073709551615", "*2|$1|0|*0|");
    EXPECT(d, "SCAN -1", "*2|$1|0|*0|");
    EXPECT(d, "SCAN 0 COUNT 0", "-ERR syntax error|");
    EXPECT(d, "SCAN 0 COUNT -1", "-ERR syntax error|");
    EXPECT(d, "SCAN 0 COUNT x", "-ERR value is not an integer or out of range|");
    EXPECT(d, "SCAN 0 COUNT", "-ERR syntax error|");
    EXPECT(d, "SCAN 0 MATCH", "-ERR syntax error|");
    EXPECT(d, "SCAN 0 FOO 1", "-ERR syntax error|");
}
static void wrong_arguments(void **state) { driver_each(wrong_arguments_body); }

static void keys_lists_what_matches_body(struct driver *d) {
    unsigned char *seen = calloc(1, KEYS);
    EXPECT(d, "KEYS *", "*0|");
    fill(d, KEYS);
    driver_split(d, "KEYS *");
    driver_run_args(d);
    char *p;
    size_t n = strtoul(d->out.p + 1, &p, 10);
    assert_int_equal(n, KEYS);
    assert_int_equal(mark_keys(&d->out, (size_t)(p + 2 - d->out.p), seen), KEYS);
    for (unsigned k = 0; k < KEYS; k++) assert_int_equal(seen[k], 1);
    EXPECT(d, "KEYS key:1234", "*1|$8|key:1234|");
    EXPECT(d, "KEYS none", "*0|");
    EXPECT(d, "KEYS key:77[5]", "*1|$7|key:775|");
    free(seen);
}
static void keys_lists_what_matches(void **state) { driver_each(keys_lists_what_matches_body); }

/* One slice of KEYS, however many keys there are, is a bounded piece of work. */
static void keys_works_in_slices(void **state) {
    struct driver *d = driver_new(1);
    unsigned slices = 1;
    fill(d, KEYS);
    driver_split(d, "KEYS *");
    struct hop h = {.argv = d->argv, .argc = 2, .flags = HOP_PIECE};
    size_t last = 0, most = 0;
    while (keys_piece(d->shards[0], &h, &d->out) == HOP_AGAIN) {
        if (d->out.size - last > most) most = d->out.size - last;
        last = d->out.size;
        slices++;
    }
    assert_true(slices >= 10);
    assert_true(most < 3000 * 20);
    driver_drop(d);
}

/* Calls of SCAN until it is through, with a reply of whatever size. */
static unsigned calls_of(struct driver *d, const char *options) {
    unsigned calls = 0;
    unsigned long long cursor = 0;
    do {
        char line[400];
        sprintf(line, "SCAN %llu COUNT 1000 MATCH %s", cursor, options);
        driver_split(d, line);
        driver_run_args(d);
        cursor = strtoull(strstr(d->out.p + 4, "\r\n") + 2, NULL, 10);
        calls++;
    } while (cursor);
    return calls;
}

static void a_slow_pattern_makes_calls_shorter(void **state) {
    struct driver *d = driver_new(1);
    char line[400], many[101] = "", slow[64] = "*";
    memset(many, 'a', 100);
    memset(slow + 1, 'a', 50);
    slow[51] = 'b';
    for (unsigned i = 0; i < 400; i++) {
        sprintf(line, "SET %s%u x", many, i);
        EXPECT(d, line, "+OK|");
    }
    assert_true(calls_of(d, "*x*") <= 2);
    assert_true(calls_of(d, slow) > 8);
    driver_drop(d);
}

static void randomkey_draws_from_all_shards_body(struct driver *d) {
    unsigned char seen[50] = {0};
    EXPECT(d, "RANDOMKEY", "$-1|");
    fill(d, 50);
    for (int i = 0; i < 2000; i++) {
        driver_split(d, "RANDOMKEY");
        driver_run_args(d);
        mark_keys(&d->out, 0, seen);
    }
    for (int i = 0; i < 50; i++) assert_true(seen[i] > 0);
}
static void randomkey_draws_from_all_shards(void **state) { driver_each(randomkey_draws_from_all_shards_body); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_scan_meets_every_key),
        cmocka_unit_test(a_scan_during_changes),
        cmocka_unit_test(a_small_database_is_scanned_in_one_call),
        cmocka_unit_test(wrong_arguments),
        cmocka_unit_test(keys_lists_what_matches),
        cmocka_unit_test(keys_works_in_slices),
        cmocka_unit_test(a_slow_pattern_makes_calls_shorter),
        cmocka_unit_test(randomkey_draws_from_all_shards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
