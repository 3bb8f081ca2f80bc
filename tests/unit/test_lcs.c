#include "server/lcs.h"
#include "tests/unit/command_driver.h"

static void options_body(struct driver *d) {
    EXPECT(d, "MSET a ohmytext b mynewtext", "+OK|");
    EXPECT(d, "LCS a b", "$6|mytext|");
    EXPECT(d, "LCS a b LEN", ":6|");
    EXPECT(d, "LCS a b IDX", "*4|$7|matches|*2|*2|*2|:4|:7|*2|:5|:8|*2|*2|:2|:3|*2|:0|:1|$3|len|:6|");
    EXPECT(d, "LCS a b IDX MINMATCHLEN 4 WITHMATCHLEN", "*4|$7|matches|*1|*3|*2|:4|:7|*2|:5|:8|:4|$3|len|:6|");
    EXPECT(d, "LCS a b MINMATCHLEN -3 IDX MINMATCHLEN 5", "*4|$7|matches|*0|$3|len|:6|");
    EXPECT(d, "LCS a none", "$0||");
    EXPECT(d, "LCS a none LEN", ":0|");
    EXPECT(d, "LCS none none IDX", "*4|$7|matches|*0|$3|len|:0|");
    EXPECT(d, "LCS a a", "$8|ohmytext|");
    EXPECT(d, "LCS a b LEN IDX", "-ERR If you want both the length and indexes, please just use IDX.|");
    EXPECT(d, "LCS a b FOO", "-ERR syntax error|");
    EXPECT(d, "LCS a b MINMATCHLEN", "-ERR syntax error|");
    EXPECT(d, "LCS a b MINMATCHLEN x", "-ERR value is not an integer or out of range|");
    EXPECT(d, "MSET a 123 b 1234", "+OK|");
    EXPECT(d, "LCS a b", "$3|123|");
    d->out.resp = 3;
    EXPECT(d, "LCS a b IDX", "%2|$7|matches|*1|*2|*2|:0|:2|*2|:0|:2|$3|len|:3|");
}
static void options(void **state) { driver_each(options_body); }

#define MOST 200u
static uint32_t table[MOST + 1][MOST + 1];

static void expect_text(struct driver *d, const char *a, size_t a_size, const char *b, size_t b_size) {
    for (size_t i = 0; i <= a_size; i++)
        for (size_t j = 0; j <= b_size; j++)
            if (!i || !j) table[i][j] = 0;
            else if (a[i - 1] == b[j - 1]) table[i][j] = table[i - 1][j - 1] + 1;
            else table[i][j] = table[i - 1][j] > table[i][j - 1] ? table[i - 1][j] : table[i][j - 1];
    char text[MOST + 1], expected[MOST + 20];
    uint32_t length = table[a_size][b_size], at = length;
    for (size_t i = a_size, j = b_size; i && j;)
        if (a[i - 1] == b[j - 1]) text[--at] = a[i - 1], i--, j--;
        else if (table[i - 1][j] > table[i][j - 1]) i--;
        else j--;
    sprintf(expected, ":%u|", length);
    EXPECT(d, "LCS a b LEN", expected);
    sprintf(expected, "$%u|%.*s|", length, (int)length, text);
    EXPECT(d, "LCS a b", expected);
}

/* The same path as a table of numbers gives, over one word of bits and over several. */
static void bits_agree_with_a_table(void **state) {
    struct driver *d = driver_new(1);
    uint64_t random = 88172645463325252u;
    size_t baseline = 0;
    for (int round = 0; round < 600; round++) {
        char a[MOST + 1], b[MOST + 1], line[2 * MOST + 50];
        size_t a_size = 1 + (size_t)round * 7 % MOST, b_size = 1 + (size_t)round * 31 % MOST;
        for (size_t i = 0; i < a_size + b_size; i++) {
            random ^= random << 13;
            random ^= random >> 7;
            random ^= random << 17;
            char c = "abcdefghijklmnopqrstuvwxyz"[random % (2 + (unsigned)round % 25)];
            if (i < a_size) a[i] = c;
            else b[i - a_size] = c;
        }
        sprintf(line, "MSET a %.*s b %.*s", (int)a_size, a, (int)b_size, b);
        EXPECT(d, line, "+OK|");
        baseline = memory_used(d->shards[0]->memory);
        expect_text(d, a, a_size, b, b_size);
        assert_int_equal(memory_used(d->shards[0]->memory), baseline);
    }
    for (uint64_t nth = 1; nth <= 4; nth++) {
        memory_fail_after(d->shards[0]->memory, nth);
        EXPECT(d, "LCS a b", "-ERR Insufficient memory, failed allocating transient memory for LCS|");
        memory_fail_after(d->shards[0]->memory, 0);
        assert_int_equal(memory_used(d->shards[0]->memory), baseline);
    }
    driver_drop(d);
}

static void the_bound_is_that_of_a_table(void **state) {
    struct driver *d = driver_new(1);
    EXPECT(d, "SETRANGE a 11583 x", ":11584|");
    EXPECT(d, "SETRANGE b 11584 x", ":11585|"); /* 11585 x 11586 x 4 > 2^29 */
    EXPECT(d, "LCS a b LEN", "-ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len|");
    EXPECT(d, "SETRANGE b 5000 \"\"", ":11585|");
    EXPECT(d, "DEL b", ":1|");
    EXPECT(d, "SETRANGE b 11582 y", ":11583|");
    EXPECT(d, "LCS a b LEN", ":11582|");
    driver_drop(d);
}

/* Two strings of 11,000 bytes each, with much in common; "a" and "b" under one tag, so that one shard has both. */
static void set_long_ones(struct driver *d) {
    static char line[2 * 11000 + 64];
    char *to = line + sprintf(line, "MSET {t}a ");
    for (unsigned i = 0; i < 11000; i++) *to++ = "abcab"[i % 5];
    to += sprintf(to, " {t}b ");
    for (unsigned i = 0; i < 11000; i++) *to++ = "abcd"[i % 4];
    *to = 0;
    EXPECT(d, line, "+OK|");
}

/* LCS {t}a {t}b, which must run in slices; between the first and the second one the line is run. Returns how many slices there were. */
static unsigned run_sliced(struct driver *d, const char *meanwhile, struct reply *r) {
    struct arg argv[] = {{"LCS", 3, 0}, {"{t}a", 4, 0}, {"{t}b", 4, 0}};
    uint64_t hashes[2];
    for (unsigned i = 0; i < 2; i++) hashes[i] = hash_key(&d->secret, argv[1 + i].p, 4);
    struct hop h = {.hash = hashes[0], .hashes = hashes, .argv = argv, .argc = 3, .n_keys = 2, .key_first = 1, .key_step = 1, .resp = 2};
    struct shard *s = d->shards[driver_shard(d, &argv[1], hashes[0])];
    unsigned n = 1;
    while (lcs_slice(s, &h, r) == HOP_AGAIN) {
        if (n++ > 1) continue;
        if (!meanwhile) {
            lcs_drop(s, &h, r);
            break;
        }
        EXPECT(d, meanwhile, ":1|");
    }
    return n;
}

/* Whatever is written meanwhile, the answer is that of the moment at which it began. */
static void values_are_held_during_slices_body(struct driver *d) {
    static const char *const meanwhile[] = {"EXISTS {t}a", "DEL {t}a", "DEL {t}b", "COPY {t}x {t}a REPLACE"};
    struct reply first = {.resp = 2};
    EXPECT(d, "SET {t}x other", "+OK|");
    for (unsigned i = 0; i < sizeof meanwhile / sizeof *meanwhile; i++) {
        struct reply r = {.resp = 2};
        set_long_ones(d);
        assert_true(run_sliced(d, meanwhile[i], i ? &r : &first) >= 20);
        if (i) assert_int_equal(r.size, first.size);
        if (i) assert_memory_equal(r.p, first.p, r.size);
        reply_drop(&r);
    }
    assert_true(first.size > 5000);
    reply_drop(&first);
}
static void values_are_held_during_slices(void **state) { driver_each(values_are_held_during_slices_body); }

static void work_that_is_dropped_leaves_nothing(void **state) {
    struct driver *d = driver_new(1);
    set_long_ones(d);
    size_t before = memory_used(d->shards[0]->memory);
    struct reply r = {.resp = 2};
    assert_int_equal(run_sliced(d, NULL, &r), 2);
    assert_int_equal(memory_used(d->shards[0]->memory), before);
    EXPECT(d, "DEL {t}a {t}b", ":2|");
    reply_drop(&r);
    driver_drop(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(options),
        cmocka_unit_test(bits_agree_with_a_table),
        cmocka_unit_test(the_bound_is_that_of_a_table),
        cmocka_unit_test(values_are_held_during_slices),
        cmocka_unit_test(work_that_is_dropped_leaves_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
