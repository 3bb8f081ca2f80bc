#include "tests/unit/command_driver.h"

#define NULL_BULK "$-1|"
#define WRONG_INT "-ERR value is not an integer or out of range|"
#define SYNTAX "-ERR syntax error|"
#define BAD_TIME(command) "-ERR invalid expire time in '" command "' command|"

static void set_and_get_body(struct driver *d) {
    EXPECT(d, "GET k", NULL_BULK);
    EXPECT(d, "SET k v", "+OK|");
    EXPECT(d, "GET k", "$1|v|");
    EXPECT(d, "SET k \"\"", "+OK|");
    EXPECT(d, "GET k", "$0||");
    EXPECT(d, "SET k 0012", "+OK|");
    EXPECT(d, "GET k", "$4|0012|");
    EXPECT(d, "SET k -9223372036854775808", "+OK|");
    EXPECT(d, "GET k", "$20|-9223372036854775808|");
    EXPECT(d, "SET \"\" empty", "+OK|");
    EXPECT(d, "GET \"\"", "$5|empty|");
    EXPECT(d, "SETNX k w", ":0|");
    EXPECT(d, "SETNX n w", ":1|");
    EXPECT(d, "GETSET n x", "$1|w|");
    EXPECT(d, "GETSET none y", NULL_BULK);
    EXPECT(d, "GETDEL none", "$1|y|");
    EXPECT(d, "GETDEL none", NULL_BULK);
    d->out.resp = 3;
    EXPECT(d, "GET none", "_|");
    EXPECT(d, "GETDEL none", "_|");
    d->out.resp = 2;
}
static void set_and_get(void **state) { driver_each(set_and_get_body); }

static void set_options_body(struct driver *d) {
    EXPECT(d, "SET k v XX", NULL_BULK);
    EXPECT(d, "SET k v NX", "+OK|");
    EXPECT(d, "SET k w nx", NULL_BULK);
    EXPECT(d, "SET k w XX GET", "$1|v|");
    EXPECT(d, "SET k x NX GET", "$1|w|");
    EXPECT(d, "GET k", "$1|w|");
    EXPECT(d, "SET none x XX GET", NULL_BULK);
    EXPECT(d, "SET none x NX GET", NULL_BULK);
    EXPECT(d, "GET none", "$1|x|");
    EXPECT(d, "SET k v EX 10", "+OK|");
    EXPECT(d, "PTTL k", ":10000|");
    EXPECT(d, "SET k v KEEPTTL", "+OK|");
    EXPECT(d, "PTTL k", ":10000|");
    EXPECT(d, "SET k v PX 1234 GET", "$1|v|");
    EXPECT(d, "PTTL k", ":1234|");
    EXPECT(d, "SET k v EXAT 1700000050", "+OK|");
    EXPECT(d, "PTTL k", ":50000|");
    EXPECT(d, "SET k v PXAT 1700000000050", "+OK|");
    EXPECT(d, "PTTL k", ":50|");
    EXPECT(d, "SET k v EX 10 EX 20", "+OK|");
    EXPECT(d, "TTL k", ":20|");
    EXPECT(d, "SET k v", "+OK|");
    EXPECT(d, "TTL k", ":-1|");
    EXPECT(d, "SET k v PXAT 1", "+OK|");
    EXPECT(d, "GET k", NULL_BULK);
    EXPECT(d, "SET k v NX XX", SYNTAX);
    EXPECT(d, "SET k v EX", SYNTAX);
    EXPECT(d, "SET k v EX 1 PX 1", SYNTAX);
    EXPECT(d, "SET k v KEEPTTL EX 1", SYNTAX);
    EXPECT(d, "SET k v PERSIST", SYNTAX);
    EXPECT(d, "SET k v FOO", SYNTAX);
    EXPECT(d, "SET k v EX x", WRONG_INT);
    EXPECT(d, "SET k v EX 0", BAD_TIME("set"));
    EXPECT(d, "SET k v PX -1", BAD_TIME("set"));
    EXPECT(d, "SET k v EX 9223372036854775807", BAD_TIME("set"));
    EXPECT(d, "SET k v EX 9223372036854775", BAD_TIME("set"));
    EXPECT(d, "SET k v PX 9223372036854775807", BAD_TIME("set"));
    EXPECT(d, "SET k v EXAT 9223372036854775807", BAD_TIME("set"));
    EXPECT(d, "EXISTS k", ":0|");
    EXPECT(d, "SETEX k 10 v", "+OK|");
    EXPECT(d, "TTL k", ":10|");
    EXPECT(d, "PSETEX k 10 v", "+OK|");
    EXPECT(d, "PTTL k", ":10|");
    EXPECT(d, "SETEX k 0 v", BAD_TIME("setex"));
    EXPECT(d, "PSETEX k -5 v", BAD_TIME("psetex"));
    EXPECT(d, "SETEX k x v", WRONG_INT);
}
static void set_options(void **state) { driver_each(set_options_body); }

static void getex_body(struct driver *d) {
    EXPECT(d, "GETEX k", NULL_BULK);
    EXPECT(d, "GETEX k EX x", NULL_BULK);
    EXPECT(d, "SET k v", "+OK|");
    EXPECT(d, "GETEX k", "$1|v|");
    EXPECT(d, "GETEX k EX 10", "$1|v|");
    EXPECT(d, "TTL k", ":10|");
    EXPECT(d, "GETEX k", "$1|v|");
    EXPECT(d, "TTL k", ":10|");
    EXPECT(d, "GETEX k PERSIST", "$1|v|");
    EXPECT(d, "TTL k", ":-1|");
    EXPECT(d, "GETEX k PXAT 1700000000099", "$1|v|");
    EXPECT(d, "PTTL k", ":99|");
    EXPECT(d, "GETEX k EX x", WRONG_INT);
    EXPECT(d, "GETEX k EX 0", BAD_TIME("getex"));
    EXPECT(d, "GETEX k NX", SYNTAX);
    EXPECT(d, "GETEX k EX 1 PERSIST", SYNTAX);
    EXPECT(d, "GETEX k KEEPTTL", SYNTAX);
    EXPECT(d, "GETEX k EXAT 1", "$1|v|");
    EXPECT(d, "EXISTS k", ":0|");
}
static void getex(void **state) { driver_each(getex_body); }

static void counters_body(struct driver *d) {
    EXPECT(d, "INCR n", ":1|");
    EXPECT(d, "DECR n", ":0|");
    EXPECT(d, "INCRBY n 300", ":300|");
    EXPECT(d, "DECRBY n 100000", ":-99700|");
    EXPECT(d, "GET n", "$6|-99700|");
    EXPECT(d, "SET n 9223372036854775806", "+OK|");
    EXPECT(d, "INCR n", ":9223372036854775807|");
    EXPECT(d, "INCR n", "-ERR increment or decrement would overflow|");
    EXPECT(d, "DECRBY n -9223372036854775808", "-ERR decrement would overflow|");
    EXPECT(d, "INCRBY n x", WRONG_INT);
    EXPECT(d, "SET n abc", "+OK|");
    EXPECT(d, "INCR n", WRONG_INT);
    EXPECT(d, "SET n 1", "+OK|");
    EXPECT(d, "APPEND n 2", ":2|");
    EXPECT(d, "OBJECT ENCODING n", "$3|raw|");
    EXPECT(d, "INCR n", ":13|");
    EXPECT(d, "OBJECT ENCODING n", "$3|int|");
    EXPECT(d, "EXPIRE n 100", ":1|");
    EXPECT(d, "INCRBY n 1000000", ":1000013|");
    EXPECT(d, "TTL n", ":100|");
    EXPECT(d, "INCRBYFLOAT n 0.5", "$9|1000013.5|");
    EXPECT(d, "TTL n", ":100|");
}
static void counters(void **state) { driver_each(counters_body); }

static void float_counters_body(struct driver *d) {
    EXPECT(d, "INCRBYFLOAT f 10.50", "$4|10.5|");
    EXPECT(d, "INCRBYFLOAT f 0.1", "$4|10.6|");
    EXPECT(d, "INCRBYFLOAT f -5", "$3|5.6|");
    EXPECT(d, "INCRBYFLOAT f 4.4", "$2|10|");
    EXPECT(d, "OBJECT ENCODING f", "$6|embstr|");
    EXPECT(d, "SET f 5.0e3", "+OK|");
    EXPECT(d, "INCRBYFLOAT f 2.0e2", "$4|5200|");
    EXPECT(d, "SET f -0.0", "+OK|");
    EXPECT(d, "INCRBYFLOAT f 0", "$1|0|");
    EXPECT(d, "SET f 0.1", "+OK|");
    EXPECT(d, "INCRBYFLOAT f 0.2", "$3|0.3|");
    EXPECT(d, "INCRBYFLOAT f inf", "-ERR increment would produce NaN or Infinity|");
    EXPECT(d, "INCRBYFLOAT f nan", "-ERR value is not a valid float|");
    EXPECT(d, "INCRBYFLOAT f \" 1\"", "-ERR value is not a valid float|");
    EXPECT(d, "INCRBYFLOAT f \"1 \"", "-ERR value is not a valid float|");
    EXPECT(d, "INCRBYFLOAT f \"\"", "-ERR value is not a valid float|");
    EXPECT(d, "INCRBYFLOAT f 1e5000", "-ERR value is not a valid float|");
    EXPECT(d, "SET f x", "+OK|");
    EXPECT(d, "INCRBYFLOAT f 1", "-ERR value is not a valid float|");
}
static void float_counters(void **state) { driver_each(float_counters_body); }

static void parts_body(struct driver *d) {
    EXPECT(d, "APPEND k Hello", ":5|");
    EXPECT(d, "OBJECT ENCODING k", "$6|embstr|");
    EXPECT(d, "APPEND k \"\"", ":5|");
    EXPECT(d, "APPEND k \" World\"", ":11|");
    EXPECT(d, "OBJECT ENCODING k", "$3|raw|");
    EXPECT(d, "STRLEN k", ":11|");
    EXPECT(d, "STRLEN none", ":0|");
    EXPECT(d, "GETRANGE k 0 4", "$5|Hello|");
    EXPECT(d, "GETRANGE k -5 -1", "$5|World|");
    EXPECT(d, "GETRANGE k 0 -1", "$11|Hello World|");
    EXPECT(d, "GETRANGE k 5 3", "$0||");
    EXPECT(d, "GETRANGE k -1 -5", "$0||");
    EXPECT(d, "GETRANGE k -100 2", "$3|Hel|");
    EXPECT(d, "GETRANGE k -100 -99", "$1|H|");
    EXPECT(d, "GETRANGE k 100 200", "$0||");
    EXPECT(d, "GETRANGE k -9223372036854775808 9223372036854775807", "$11|Hello World|");
    EXPECT(d, "GETRANGE none 0 1", "$0||");
    EXPECT(d, "GETRANGE k x 1", WRONG_INT);
    EXPECT(d, "SUBSTR k 0 1", "$2|He|");
    EXPECT(d, "SET n 12345", "+OK|");
    EXPECT(d, "GETRANGE n 1 2", "$2|23|");
    EXPECT(d, "STRLEN n", ":5|");
    EXPECT(d, "SETRANGE k 6 Redis", ":11|");
    EXPECT(d, "GET k", "$11|Hello Redis|");
    EXPECT(d, "SETRANGE k 13 !", ":14|");
    EXPECT(d, "GETRANGE k 13 13", "$1|!|");
    EXPECT(d, "SETRANGE k -1 x", "-ERR offset is out of range|");
    EXPECT(d, "SETRANGE k 536870912 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)|");
    EXPECT(d, "SETRANGE k 9223372036854775807 x", "-ERR string exceeds maximum allowed size (proto-max-bulk-len)|");
    EXPECT(d, "SETRANGE k 9223372036854775807 \"\"", ":14|");
    EXPECT(d, "SETRANGE none 5 \"\"", ":0|");
    EXPECT(d, "EXISTS none", ":0|");
    EXPECT(d, "SETRANGE n 1 x", ":5|");
    EXPECT(d, "GET n", "$5|1x345|");
    EXPECT(d, "OBJECT ENCODING n", "$3|raw|");
    EXPECT(d, "SETRANGE new 0 7", ":1|");
    EXPECT(d, "OBJECT ENCODING new", "$3|raw|");
    EXPECT(d, "APPEND fresh 7", ":1|");
    EXPECT(d, "OBJECT ENCODING fresh", "$3|int|");
}
static void parts(void **state) { driver_each(parts_body); }

static void several_keys_body(struct driver *d) {
    EXPECT(d, "MSET a 1 b 2 c 3 d 4 a 5", "+OK|");
    EXPECT(d, "MGET a b none c d a", "*6|$1|5|$1|2|$-1|$1|3|$1|4|$1|5|");
    EXPECT(d, "MSETNX x 1 a 2", ":0|");
    EXPECT(d, "EXISTS x", ":0|");
    EXPECT(d, "MSETNX x 1 y 2 z 3 x 4", ":1|");
    EXPECT(d, "MGET x y z", "*3|$1|4|$1|2|$1|3|");
    EXPECT(d, "SET a 1 EX 100", "+OK|");
    EXPECT(d, "MSET a 2 b 2", "+OK|");
    EXPECT(d, "TTL a", ":-1|");
    EXPECT(d, "MSETNX {t}a 1 {t}b", "-ERR wrong number of arguments for 'msetnx' command|");
    EXPECT(d, "MSET {t}a 1 {t}b", "-ERR wrong number of arguments for 'mset' command|");
    d->out.resp = 3;
    EXPECT(d, "MGET none a", "*2|_|$1|2|");
    d->out.resp = 2;
}
static void several_keys(void **state) { driver_each(several_keys_body); }

/* Many keys of one shard: more than a group of prefetches. */
static void many_keys_of_one_shard(void **state) {
    struct driver *d = driver_new(3);
    char line[20000] = "MSET", *to = line + 4;
    for (int i = 0; i < 100; i++) to += sprintf(to, " {t}%d %d", i, i * 1000);
    EXPECT(d, line, "+OK|");
    char expected[20000] = "*101|", *at = expected + 5;
    to = line + sprintf(line, "MGET");
    for (int i = 0; i < 101; i++) {
        char v[16];
        int size = sprintf(v, "%d", i * 1000);
        to += sprintf(to, " {t}%d", i);
        at += i < 100 ? sprintf(at, "$%d|%s|", size, v) : sprintf(at, "$-1|");
    }
    EXPECT(d, line, expected);
    memcpy(line, "DEL ", 4);
    memmove(line + 4, line + 5, strlen(line + 5) + 1);
    EXPECT(d, line, ":100|");
    driver_drop(d);
}

/* Large values are replied by reference; the reply stays what it was when the key is overwritten or deleted before it is sent. */
static void large_values_are_replied_by_reference(void **state) {
    struct driver *d = driver_new(1);
    char *big = malloc(70000), *line = malloc(70100), *expected = malloc(70100);
    memset(big, 'b', 69999);
    big[69999] = 0;
    size_t baseline = memory_used(d->shards[0]->memory);
    sprintf(line, "SET k %s", big);
    sprintf(expected, "$69999|%s|", big);
    EXPECT(d, line, "+OK|");
    free(driver_run(d, "GET k"));
    assert_int_equal(d->out.n_refs, 1);
    assert_int_equal(d->out.refs_bytes, 69999);
    EXPECT(d, "GET k", expected);
    static const char *const changes[] = {"GETSET k w", "GETDEL k", "SET k w GET", "GETEX k EXAT 1", "GETEX k EX 1"};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        EXPECT(d, line, "+OK|");
        EXPECT(d, changes[i], expected);
    }
    sprintf(line, "SETRANGE k 69999 %s", "c");
    EXPECT(d, line, ":70000|");
    EXPECT(d, "GETRANGE k 69998 70000", "$2|bc|");
    free(driver_run(d, "GETRANGE k 1 60000"));
    assert_int_equal(d->out.n_refs, 1);
    assert_int_equal(d->out.refs_bytes, 60000);
    EXPECT(d, "DEL k", ":1|");
    wheel_drop(&d->shards[0]->wheel);
    struct table_stats stats;
    table_stats(&d->shards[0]->dbs[0]->keys, &stats);
    assert_int_equal(memory_used(d->shards[0]->memory) - stats.bytes, baseline);
    free(big);
    free(line);
    free(expected);
    driver_drop(d);
}

/* Whatever is refused: the reply is an error alone, and what was replied by reference before it is let go. */
static void refused_memory_is_an_error(void **state) {
    static const char *const lines[] = {"SET k w", "SET k 12345678901234567890123456789012345678901234567890 GET", "SET k v EX 5",
        "SETEX k 5 v", "SETNX n v", "GETSET k 12345678901234567890123456789012345678901234567890", "GETEX k EX 5", "INCR n",
        "INCRBYFLOAT n 1", "APPEND k vvvvvvvvvvvvvvvvv", "SETRANGE k 100000 v", "MSET k v n v", "MSETNX n v m v", "RENAME k k2",
        "COPY k k2", "EXPIRE k 5", "MOVE k 1"};
    char *big = calloc(1, 20001), *set = malloc(20100);
    memset(big, 'b', 20000);
    for (int kind = 0; kind < 2; kind++)
        for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
            for (uint64_t nth = 1;; nth++) {
                struct driver *d = driver_new(1);
                sprintf(set, "SET k %s", kind ? big : "v");
                EXPECT(d, set, "+OK|");
                memory_fail_after(d->shards[0]->memory, nth);
                char *got = driver_run(d, lines[i]);
                memory_fail_after(d->shards[0]->memory, 0);
                bool refused = !strncmp(got, "-OOM", 4);
                if (refused) {
                    assert_true(d->shards[0]->out_of_memory);
                    assert_int_equal(d->out.n_refs, 0);
                    sprintf(set, "$%d|%s|", kind ? 20000 : 1, kind ? big : "v");
                    if (strncmp(lines[i], "MSET ", 5)) EXPECT(d, "GET k", set);
                    EXPECT(d, "EXISTS n m k2", ":0|");
                    EXPECT(d, "TTL k", ":-1|");
                }
                free(got);
                driver_drop(d);
                if (!refused) break;
            }
    free(big);
    free(set);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(set_and_get),
        cmocka_unit_test(set_options),
        cmocka_unit_test(getex),
        cmocka_unit_test(counters),
        cmocka_unit_test(float_counters),
        cmocka_unit_test(parts),
        cmocka_unit_test(several_keys),
        cmocka_unit_test(many_keys_of_one_shard),
        cmocka_unit_test(large_values_are_replied_by_reference),
        cmocka_unit_test(refused_memory_is_an_error),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
