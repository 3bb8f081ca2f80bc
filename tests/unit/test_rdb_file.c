/* Walking RDB files: chunks are read by who claims them, and judged the same by who claims none; marks that are wrong; the checksum. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "server/rdb_file.h"
#include "server/thread.h"
#include "shard/crc64.h"
#include "shard/rdb_write.h"
#include "tests/lib/random.h"

struct server server; /* main.c's; what a failed assertion shows leads to the whole server */

#define KEYS 4000u
#define WALKERS_MAX 5u
#define LATER_MS INT64_C(1800000000000)

static struct random dice = {88172645463325252u};

/* ---- files ---- */

static struct rdb_buffer file;
static uint32_t keys; /* that are in it: "k0", "k1" ... with their number as database, and some with a time */

static void begin_file(void) {
    file.length = 0;
    keys = 0;
    assert_true(rdb_put_head(&file, RDB_VERSION));
}

static void put_key(struct rdb_buffer *b, uint32_t size) {
    char name[16];
    static char value[400000];
    uint8_t time[8];
    for (unsigned i = 0; i < 8; i++) time[i] = (uint8_t)((uint64_t)LATER_MS >> 8 * i);
    memset(value, 'v', sizeof value);
    snprintf(name, sizeof name, "k%u", keys);
    if (keys % 3 == 0) assert_true(rdb_put_byte(b, RDB_EXPIRES_MS) && rdb_put_bytes(b, time, sizeof time));
    assert_true(rdb_put_byte(b, RDB_STRING) && rdb_put_string(b, name, strlen(name), false) && rdb_put_string(b, value, size, false));
    keys++;
}

static void put_keys(struct rdb_buffer *b, uint32_t n, uint32_t size_max) {
    for (; n; n--) {
        assert_true(rdb_put_select(b, keys % 5));
        put_key(b, below(&dice, size_max + 1));
    }
}

static void put_chunk(uint32_t n, uint32_t size_max) {
    struct rdb_buffer b = {0};
    assert_true(rdb_put_chunk_mark(&b));
    put_keys(&b, n, size_max);
    rdb_fill_chunk_mark(&b);
    assert_true(rdb_put_bytes(&file, b.bytes, b.length));
    rdb_buffer_drop(&b);
}

static void end_file(void) {
    uint8_t crc[8];
    assert_true(rdb_put_end(&file));
    uint64_t v = crc64(0, file.bytes, file.length);
    for (unsigned i = 0; i < 8; i++) crc[i] = (uint8_t)(v >> 8 * i);
    assert_true(rdb_put_bytes(&file, crc, sizeof crc));
}

/* ---- walkers ---- */

static unsigned reads; /* calls of the system */

/* Instead of the C library's. */
ssize_t read(int fd, void *to, size_t n) {
    reads++;
    return syscall(SYS_read, fd, to, n);
}

struct walker {
    uint8_t claims[KEYS]; /* of these chunks */
    uint64_t chunks, seen_aux;
    uint8_t read[KEYS], read_claimed[KEYS];
    bool refuses; /* to go on at the second chunk */
    char why[RDB_WHY_MAX + 64];
};

static bool visit(void *arg, struct rdb_source *x, const struct rdb_key *key) {
    struct walker *w = arg;
    char name[16] = "";
    assert_true(key->size < 8);
    memcpy(name, key->name, key->size);
    uint32_t n = (uint32_t)strtoul(name + 1, NULL, 10);
    const uint8_t *value = x->at, *in_file = file.bytes + (x->offset - (uint64_t)(x->end - x->at));
    assert_true(n < KEYS);
    assert_int_equal(key->db, n % 5);
    assert_true(key->expire_at_ms == (n % 3 ? EXPIRY_NONE : LATER_MS));
    assert_memory_equal(in_file - key->size, key->name, key->size); /* what a message would say */
    w->read[n]++;
    w->read_claimed[n] += key->claimed;
    if (key->claimed) assert_int_equal(x->left, 0); /* all of the chunk is there */
    if (!rdb_skip_value(x, key->type)) return false;
    if (key->claimed) assert_true(value < x->at && (x->at[-1] == 'v' || x->at == value + 1)); /* it lies where it lay */
    return true;
}

static void visit_aux(void *arg, const char *name, size_t name_size, const char *value, size_t value_size) {
    struct walker *w = arg;
    (void)value, (void)value_size;
    assert_true(name_size == 5 && !memcmp(name, "other", 5));
    w->seen_aux++;
}

static bool claim(void *arg, struct rdb_source *x, uint64_t number, bool *mine) {
    struct walker *w = arg;
    assert_int_equal(number, w->chunks++);
    *mine = w->claims[number];
    return !w->refuses || number != 1 || rdb_wrong(x, "nobody wants it");
}

static bool walk_file(struct walker *w, bool claims, bool checks) {
    char path[64];
    int fd = memfd_create("rdb", MFD_CLOEXEC);
    assert_true(fd >= 0 && write(fd, file.bytes, file.length) == (ssize_t)file.length);
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    struct rdb_walk walk = {.key = visit, .aux = visit_aux, .arg = w, .checks = checks};
    walk.claims = claims ? claim : NULL;
    w->why[0] = 0;
    w->chunks = w->seen_aux = 0;
    memset(w->read, 0, sizeof w->read);
    memset(w->read_claimed, 0, sizeof w->read_claimed);
    bool good = rdb_file_walk(path, &walk, w->why, sizeof w->why);
    assert_true(good == !w->why[0]);
    close(fd);
    return good;
}

static struct walker *new_walkers(void) {
    struct walker *w = calloc(WALKERS_MAX, sizeof *w);
    assert_non_null(w);
    return w;
}

/* ---- chunks ---- */

static void test_each_chunk_is_read_by_who_claims_it(void **state) {
    struct walker *w = new_walkers();
    (void)state;
    for (unsigned round = 0; round < 40; round++) {
        static uint8_t owner[KEYS], in_chunk[KEYS]; /* of keys */
        uint32_t walkers = 1 + below(&dice, WALKERS_MAX), chunks = 0;
        bool checks = round % 2;
        begin_file();
        assert_true(rdb_put_aux(&file, "other", "x"));
        for (uint32_t parts = below(&dice, 30); parts; parts--) {
            uint32_t first = keys, who = below(&dice, walkers);
            uint32_t size = (const uint32_t[]){10, 300, 5000, 300000}[below(&dice, 4)];
            bool chunk = below(&dice, 4);
            if (chunk) put_chunk(1 + below(&dice, size > 5000 ? 5 : 60), size);
            else put_keys(&file, 1 + below(&dice, 3), size); /* as the values that are streams */
            for (uint32_t i = first; i < keys; i++) owner[i] = (uint8_t)who, in_chunk[i] = chunk;
            for (uint32_t i = 0; chunk && i < walkers; i++) w[i].claims[chunks] = i == who;
            chunks += chunk;
        }
        assert_true(rdb_put_aux(&file, "other", "y"));
        end_file();
        for (uint32_t i = 0; i < walkers; i++) {
            assert_true(walk_file(&w[i], true, checks));
            assert_int_equal(w[i].chunks, chunks);
            assert_int_equal(w[i].seen_aux, 2);
            for (uint32_t k = 0; k < keys; k++) {
                assert_int_equal(w[i].read[k], !in_chunk[k] || owner[k] == i);
                assert_int_equal(w[i].read_claimed[k], in_chunk[k] && owner[k] == i);
            }
        }
        assert_true(walk_file(&w[0], false, checks)); /* who claims nothing reads all */
        for (uint32_t k = 0; k < keys; k++) assert_true(w[0].read[k] == 1 && !w[0].read_claimed[k]);
        assert_int_equal(w[0].seen_aux, 2);
    }
    free(w);
}

static void test_a_chunk_too_long_to_be_held_is_read_by_all(void **state) {
    struct walker *w = new_walkers();
    (void)state;
    begin_file();
    put_chunk(3, 100);
    struct rdb_buffer b = {0};
    assert_true(rdb_put_chunk_mark(&b));
    while (b.length < 9u << 20) {
        assert_true(rdb_put_select(&b, keys % 5));
        put_key(&b, 400000);
    }
    rdb_fill_chunk_mark(&b);
    uint32_t before = 3, behind = keys;
    assert_true(rdb_put_bytes(&file, b.bytes, b.length));
    rdb_buffer_drop(&b);
    put_chunk(3, 100);
    end_file();
    w->claims[0] = 1;
    assert_true(walk_file(w, true, false));
    assert_int_equal(w->chunks, 2);
    for (uint32_t k = 0; k < keys; k++) {
        assert_int_equal(w->read[k], k < behind);
        assert_int_equal(w->read_claimed[k], k < before);
    }
    free(w);
}

static void test_who_will_not_go_on_says_why(void **state) {
    struct walker *w = new_walkers();
    (void)state;
    begin_file();
    for (unsigned i = 0; i < 3; i++) put_chunk(3, 100);
    end_file();
    w->refuses = true;
    assert_false(walk_file(w, true, false));
    assert_non_null(strstr(w->why, "nobody wants it"));
    free(w);
}

/* ---- what is wrong ---- */

/* Judged by who claims all, and by who claims nothing. */
static void assert_refused(const char *why) {
    struct walker *w = new_walkers();
    memset(w->claims, 1, sizeof w->claims);
    for (unsigned i = 0; i < 4; i++) {
        assert_false(walk_file(w, i & 1, i & 2));
        if (!strstr(w->why, why)) fail_msg("'%s' where '%s' was to be said", w->why, why);
    }
    free(w);
}

static void assert_accepted(uint64_t chunks) {
    struct walker *w = new_walkers();
    memset(w->claims, 1, sizeof w->claims);
    for (unsigned i = 0; i < 4; i++) {
        if (!walk_file(w, i & 1, i & 2)) fail_msg("refused: %s", w->why);
        assert_int_equal(w->chunks, i & 1 ? chunks : 0);
        for (uint32_t k = 0; k < keys; k++) assert_int_equal(w->read[k], 1);
    }
    free(w);
}

/* What stands behind the mark, whose number is `more` too great. */
static void put_marked(const struct rdb_buffer *b, int more) {
    char digits[16];
    snprintf(digits, sizeof digits, "%08d", (int)b->length + more);
    assert_true(rdb_put_aux(&file, RDB_CHUNK_MARK, digits) && rdb_put_bytes(&file, b->bytes, b->length));
}

static void test_marks_of_another_form_say_nothing(void **state) {
    static const char *const forms[] = {
        "", "x", "00000000", "0000020", "000000020", "-0000020", "+0000020", " 0000020", "0x000020", "12345678901234567890"};
    (void)state;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        begin_file();
        put_chunk(2, 10);
        assert_true(rdb_put_aux(&file, RDB_CHUNK_MARK, forms[i]));
        put_keys(&file, 5, 30);
        put_chunk(2, 10);
        end_file();
        assert_accepted(2);
    }
    begin_file(); /* names that are nearly that of a mark */
    assert_true(rdb_put_aux(&file, "other", "00000003"));
    put_keys(&file, 2, 30);
    end_file();
    assert_accepted(0);
}

static void test_marks_of_another_length_are_refused(void **state) {
    static const struct {
        int more;
        const char *why;
    } wrong[] = {{-1, "the data end in the middle"}, {-30, "the data end in the middle"}, {1, "the data end in the middle"},
        {7, "longer than what is left"}, {2000, "a chunk within a chunk"}, {99000000, "the data end in the middle of a chunk"}};
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct rdb_buffer b = {0};
        begin_file();
        put_chunk(3, 100);
        assert_true(rdb_put_select(&b, keys % 5));
        put_key(&b, 50);
        put_marked(&b, wrong[i].more);
        put_chunk(20, 300);
        put_chunk(20, 300);
        end_file();
        assert_refused(wrong[i].why);
        rdb_buffer_drop(&b);
    }
}

static void test_a_chunk_stands_for_itself(void **state) {
    struct rdb_buffer b = {0};
    (void)state;
    begin_file(); /* a key behind a mark, before its database */
    assert_true(rdb_put_select(&file, 0));
    put_key(&b, 10);
    put_marked(&b, 0);
    end_file();
    assert_refused("a key before its database");
    begin_file(); /* the same behind a mark that says nothing */
    assert_true(rdb_put_select(&file, 0) && rdb_put_aux(&file, RDB_CHUNK_MARK, "00000000"));
    put_key(&file, 10);
    end_file();
    assert_refused("a key before its database");
    begin_file(); /* behind a chunk */
    put_chunk(5, 10);
    put_key(&file, 10);
    end_file();
    assert_refused("a key before its database");
    begin_file(); /* the end of the file */
    b.length = 0;
    put_keys(&b, 1, 10);
    assert_true(rdb_put_end(&b));
    put_marked(&b, 0);
    end_file();
    assert_refused("the end of the file within a chunk");
    begin_file(); /* a mark; the outer one is right */
    b.length = 0;
    put_keys(&b, 1, 10);
    assert_true(rdb_put_aux(&b, RDB_CHUNK_MARK, "00000000"));
    put_keys(&b, 1, 10);
    put_marked(&b, 0);
    end_file();
    assert_refused("a chunk within a chunk");
    rdb_buffer_drop(&b);
}

/* Of a key, before a mark and in the end of a chunk. */
static void test_a_time_is_not_that_of_a_key_beyond_a_mark(void **state) {
    static const uint8_t time[] = {RDB_EXPIRES_MS, 1, 2, 3, 4, 5, 6, 7, 8};
    struct rdb_buffer b = {0};
    (void)state;
    begin_file();
    assert_true(rdb_put_bytes(&file, time, sizeof time));
    put_chunk(2, 10);
    put_keys(&b, 2, 10);
    assert_true(rdb_put_bytes(&b, time, sizeof time));
    put_marked(&b, 0);
    put_keys(&file, 2, 10);
    end_file();
    assert_accepted(2);
    rdb_buffer_drop(&b);
}

static void test_every_cut_is_found(void **state) {
    struct walker *w = new_walkers();
    (void)state;
    begin_file();
    put_chunk(3, 20);
    put_keys(&file, 1, 20);
    put_chunk(3, 20);
    end_file();
    size_t whole = file.length;
    for (file.length = 0; file.length < whole; file.length++)
        for (unsigned i = 0; i < 8; i++) {
            memset(w->claims, i & 4 ? 1 : 0, sizeof w->claims);
            assert_false(walk_file(w, i & 1, i & 2));
        }
    file.length = whole;
    assert_true(walk_file(w, true, true));
    free(w);
}

/* Also where nobody looks. */
static void test_every_byte_is_in_the_checksum(void **state) {
    struct walker *w = new_walkers();
    (void)state;
    begin_file();
    for (unsigned i = 0; i < 5; i++) put_chunk(3, 40);
    size_t first = 60, last = file.length;
    end_file();
    for (size_t at = first; at < last; at++) {
        file.bytes[at] ^= 1;
        w->claims[2] = at % 2;
        if (file.bytes[at - 1] == 'v' && file.bytes[at + 1] == 'v' && file.bytes[at] != 'v') { /* within a value: nothing else is wrong */
            assert_false(walk_file(w, true, true));
            assert_non_null(strstr(w->why, "the checksum is not that of the data"));
            assert_true(walk_file(w, true, false)); /* who has not to look at it */
        }
        file.bytes[at] ^= 1;
    }
    assert_true(walk_file(w, true, true));
    free(w);
}

/* Loaders open it one after the other: what one has claimed must be in the file that another reads. */
static void test_a_file_that_was_replaced_is_refused(void **state) {
    char path[] = "/tmp/darter-test-XXXXXX", why[256] = "";
    (void)state;
    struct stat st;
    int fd = mkstemp(path);
    assert_true(fd >= 0 && !fstat(fd, &st));
    struct walker *w = new_walkers();
    struct rdb_walk walk = {.key = visit, .arg = w, .is = &st};
    assert_false(rdb_file_walk(path, &walk, why, sizeof why));
    assert_null(strstr(why, "replaced")); /* it is empty, but the same */
    assert_int_equal(write(fd, "REDIS0010", 9), 9);
    assert_false(rdb_file_walk(path, &walk, why, sizeof why));
    assert_non_null(strstr(why, "replaced"));
    close(fd);
    unlink(path);
    free(w);
}

/* A chunk that is claimed takes one call, which brings the mark behind it, too; one that is not takes one for that mark. */
static void test_a_claimed_chunk_is_read_at_once(void **state) {
    struct walker *w = new_walkers();
    (void)state;
    begin_file();
    enum { CHUNKS = 60, FIRST_BLOCK = 1 << 20 };
    for (unsigned i = 0; i < CHUNKS; i++) {
        put_chunk(60, 3000);
        w->claims[i] = i % 2;
    }
    const size_t size = file.length / CHUNKS;
    end_file();
    reads = 0;
    assert_true(walk_file(w, true, false));
    assert_in_range(reads, CHUNKS / 2, CHUNKS + 2 - FIRST_BLOCK / size);
    for (unsigned i = 0; i < CHUNKS; i++) w->claims[i] = 1;
    reads = 0;
    assert_true(walk_file(w, true, false));
    assert_in_range(reads, CHUNKS / 2, CHUNKS + 2 - FIRST_BLOCK / size);
    free(w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_each_chunk_is_read_by_who_claims_it),
        cmocka_unit_test(test_a_claimed_chunk_is_read_at_once),
        cmocka_unit_test(test_a_chunk_too_long_to_be_held_is_read_by_all),
        cmocka_unit_test(test_who_will_not_go_on_says_why),
        cmocka_unit_test(test_marks_of_another_form_say_nothing),
        cmocka_unit_test(test_marks_of_another_length_are_refused),
        cmocka_unit_test(test_a_chunk_stands_for_itself),
        cmocka_unit_test(test_a_time_is_not_that_of_a_key_beyond_a_mark),
        cmocka_unit_test(test_every_cut_is_found),
        cmocka_unit_test(test_every_byte_is_in_the_checksum),
        cmocka_unit_test(test_a_file_that_was_replaced_is_refused),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    rdb_buffer_drop(&file);
    return failed;
}
