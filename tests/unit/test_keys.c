#include "tests/unit/command_driver.h"

#define NULL_BULK "$-1|"
#define WRONG_INT "-ERR value is not an integer or out of range|"
#define SYNTAX "-ERR syntax error|"
#define SAME "-ERR source and destination objects are the same|"
#define DB_RANGE "-ERR DB index is out of range|"

static void many_keys_at_once_body(struct driver *d) {
    EXPECT(d, "MSET a 1 b 2 c 3", "+OK|");
    EXPECT(d, "EXISTS a b none c a", ":4|");
    EXPECT(d, "TOUCH a b none", ":2|");
    EXPECT(d, "DEL a none a", ":1|");
    EXPECT(d, "UNLINK b c c", ":2|");
    EXPECT(d, "EXISTS a b c", ":0|");
    EXPECT(d, "DBSIZE", ":0|");
}
static void many_keys_at_once(void **state) { driver_each(many_keys_at_once_body); }

static void renaming_body(struct driver *d) {
    EXPECT(d, "RENAME none x", "-ERR no such key|");
    EXPECT(d, "RENAME none none", "-ERR no such key|");
    EXPECT(d, "RENAMENX none x", "-ERR no such key|");
    static const char *const names[] = {"b", "c", "dd", "e", "f", "g"}; /* some of them on other shards than a */
    for (size_t i = 0; i < 6; i++) {
        char line[64];
        EXPECT(d, "SET a v EX 100", "+OK|");
        sprintf(line, "RENAME a %s", names[i]);
        EXPECT(d, line, "+OK|");
        EXPECT(d, "EXISTS a", ":0|");
        sprintf(line, "TTL %s", names[i]);
        EXPECT(d, line, ":100|");
        sprintf(line, "RENAMENX %s a", names[i]);
        EXPECT(d, line, ":1|");
        EXPECT(d, "GET a", "$1|v|");
        sprintf(line, "SET %s other", names[i]);
        EXPECT(d, line, "+OK|");
        sprintf(line, "RENAMENX a %s", names[i]);
        EXPECT(d, line, ":0|");
        EXPECT(d, "SET a 12", "+OK|");
        sprintf(line, "RENAME a %s", names[i]);
        EXPECT(d, line, "+OK|");
        sprintf(line, "GET %s", names[i]);
        EXPECT(d, line, "$2|12|");
        sprintf(line, "OBJECT ENCODING %s", names[i]);
        EXPECT(d, line, "$3|int|");
        sprintf(line, "TTL %s", names[i]);
        EXPECT(d, line, ":-1|");
    }
    EXPECT(d, "RENAME b b", "+OK|");
    EXPECT(d, "RENAMENX b b", ":0|");
    EXPECT(d, "GET b", "$2|12|");
    EXPECT(d, "DBSIZE", ":6|");
}
static void renaming(void **state) { driver_each(renaming_body); }

static void copying_body(struct driver *d) {
    EXPECT(d, "COPY none x", ":0|");
    EXPECT(d, "SET a v EX 100", "+OK|");
    static const char *const names[] = {"b", "c", "dd", "e", "f", "g"};
    for (size_t i = 0; i < 6; i++) {
        char line[64];
        sprintf(line, "COPY a %s", names[i]);
        EXPECT(d, line, ":1|");
        EXPECT(d, line, ":0|");
        sprintf(line, "COPY a %s REPLACE", names[i]);
        EXPECT(d, line, ":1|");
        sprintf(line, "TTL %s", names[i]);
        EXPECT(d, line, ":100|");
        sprintf(line, "GET %s", names[i]);
        EXPECT(d, line, "$1|v|");
    }
    EXPECT(d, "COPY a a", SAME);
    EXPECT(d, "COPY a a DB 0", SAME);
    EXPECT(d, "COPY none none", SAME);
    EXPECT(d, "COPY a a DB 1", ":1|");
    EXPECT(d, "COPY a a DB 1", ":0|");
    EXPECT(d, "COPY a a DB 1 REPLACE", ":1|");
    EXPECT(d, "COPY a b DB 2", ":1|");
    EXPECT(d, "COPY a b DB 4", DB_RANGE);
    EXPECT(d, "COPY a b DB -1", DB_RANGE);
    EXPECT(d, "COPY a b DB x", WRONG_INT);
    EXPECT(d, "COPY a b DB 99999999999", "-ERR value is out of range, value must between -2147483648 and 2147483647|");
    EXPECT(d, "COPY a b DB", SYNTAX);
    EXPECT(d, "COPY a b FOO", SYNTAX);
    d->db = 1;
    EXPECT(d, "TTL a", ":100|");
    EXPECT(d, "DBSIZE", ":1|");
    d->db = 2;
    EXPECT(d, "GET b", "$1|v|");
}
static void copying(void **state) { driver_each(copying_body); }

static void moving_body(struct driver *d) {
    EXPECT(d, "MOVE a 1", ":0|");
    EXPECT(d, "SET a v EX 100", "+OK|");
    EXPECT(d, "MOVE a 0", SAME);
    EXPECT(d, "MOVE a 4", DB_RANGE);
    EXPECT(d, "MOVE a x", WRONG_INT);
    EXPECT(d, "MOVE a 1", ":1|");
    EXPECT(d, "EXISTS a", ":0|");
    EXPECT(d, "SET a w", "+OK|");
    EXPECT(d, "MOVE a 1", ":0|");
    d->db = 1;
    EXPECT(d, "TTL a", ":100|");
    EXPECT(d, "GET a", "$1|v|");
}
static void moving(void **state) { driver_each(moving_body); }

static void looking_body(struct driver *d) {
    EXPECT(d, "TYPE none", "+none|");
    EXPECT(d, "OBJECT ENCODING none", NULL_BULK);
    EXPECT(d, "OBJECT REFCOUNT none", NULL_BULK);
    EXPECT(d, "OBJECT IDLETIME none", NULL_BULK);
    EXPECT(d, "OBJECT FREQ none", NULL_BULK);
    EXPECT(d, "MSET i 12 e abc r 123456789012345678901234567890123456789012345", "+OK|");
    EXPECT(d, "TYPE i", "+string|");
    EXPECT(d, "OBJECT ENCODING i", "$3|int|");
    EXPECT(d, "OBJECT ENCODING e", "$6|embstr|");
    EXPECT(d, "OBJECT ENCODING r", "$3|raw|");
    EXPECT(d, "OBJECT REFCOUNT i", ":1|");
    EXPECT(d, "OBJECT REFCOUNT e", ":1|");
    driver_wait(d, 16000 * 10);
    EXPECT(d, "OBJECT IDLETIME e", ":160|");
    EXPECT(d, "TYPE e", "+string|");
    EXPECT(d, "TTL e", ":-1|");
    EXPECT(d, "EXISTS e", ":1|");
    EXPECT(d, "OBJECT IDLETIME e", ":160|");
    EXPECT(d, "TOUCH e", ":1|");
    EXPECT(d, "OBJECT IDLETIME e", ":0|");
}
static void looking(void **state) { driver_each(looking_body); }

static void times_body(struct driver *d) {
    EXPECT(d, "EXPIRE none 1", ":0|");
    EXPECT(d, "TTL none", ":-2|");
    EXPECT(d, "PTTL none", ":-2|");
    EXPECT(d, "EXPIRETIME none", ":-2|");
    EXPECT(d, "PEXPIRETIME none", ":-2|");
    EXPECT(d, "PERSIST none", ":0|");
    EXPECT(d, "SET k v", "+OK|");
    EXPECT(d, "TTL k", ":-1|");
    EXPECT(d, "EXPIRETIME k", ":-1|");
    EXPECT(d, "PERSIST k", ":0|");
    EXPECT(d, "EXPIRE k 100", ":1|");
    EXPECT(d, "TTL k", ":100|");
    EXPECT(d, "EXPIRETIME k", ":1700000100|");
    EXPECT(d, "PEXPIRETIME k", ":1700000100000|");
    EXPECT(d, "PEXPIRE k 1499", ":1|");
    EXPECT(d, "TTL k", ":1|");
    EXPECT(d, "PEXPIRE k 1500", ":1|");
    EXPECT(d, "TTL k", ":2|");
    EXPECT(d, "EXPIREAT k 1700000007", ":1|");
    EXPECT(d, "PTTL k", ":7000|");
    EXPECT(d, "PEXPIREAT k 1700000000008", ":1|");
    EXPECT(d, "PTTL k", ":8|");
    EXPECT(d, "PERSIST k", ":1|");
    EXPECT(d, "TTL k", ":-1|");
    EXPECT(d, "GET k", "$1|v|");
    EXPECT(d, "EXPIRE k 100 XX", ":0|");
    EXPECT(d, "EXPIRE k 100 GT", ":0|");
    EXPECT(d, "EXPIRE k 100 LT", ":1|");
    EXPECT(d, "EXPIRE k 200 NX", ":0|");
    EXPECT(d, "EXPIRE k 200 LT", ":0|");
    EXPECT(d, "EXPIRE k 100 GT", ":0|");
    EXPECT(d, "EXPIRE k 100 LT", ":0|");
    EXPECT(d, "EXPIRE k 200 XX GT", ":1|");
    EXPECT(d, "EXPIRE k 50 xx lt", ":1|");
    EXPECT(d, "PERSIST k", ":1|");
    EXPECT(d, "EXPIRE k 50 NX", ":1|");
    EXPECT(d, "EXPIRE k 50 NX XX", "-ERR NX and XX, GT or LT options at the same time are not compatible|");
    EXPECT(d, "EXPIRE k 50 GT LT", "-ERR GT and LT options at the same time are not compatible|");
    EXPECT(d, "EXPIRE k x FOO", "-ERR Unsupported option FOO|");
    EXPECT(d, "EXPIRE k x", WRONG_INT);
    EXPECT(d, "EXPIRE k 9223372036854775807", "-ERR invalid expire time in 'expire' command|");
    EXPECT(d, "EXPIRE k -9223372036854775807", "-ERR invalid expire time in 'expire' command|");
    EXPECT(d, "EXPIRE none 9223372036854775807", "-ERR invalid expire time in 'expire' command|");
    EXPECT(d, "PEXPIRE k 9223372036854775807", "-ERR invalid expire time in 'pexpire' command|");
    EXPECT(d, "EXPIREAT k 9223372036854775807", "-ERR invalid expire time in 'expireat' command|");
    EXPECT(d, "PEXPIRE k -9223372036854775808", ":1|");
    EXPECT(d, "EXISTS k", ":0|");
    EXPECT(d, "SET k v", "+OK|");
    EXPECT(d, "EXPIRE k 0", ":1|");
    EXPECT(d, "EXISTS k", ":0|");
    EXPECT(d, "SET k v", "+OK|");
    EXPECT(d, "EXPIREAT k 1 GT", ":0|");
    EXPECT(d, "EXPIREAT k 1 NX", ":1|");
    EXPECT(d, "EXISTS k", ":0|");
    EXPECT(d, "SET k v PX 100", "+OK|");
    driver_wait(d, 100);
    EXPECT(d, "PTTL k", ":0|");
    EXPECT(d, "GET k", "$1|v|");
    driver_wait(d, 1);
    EXPECT(d, "PTTL k", ":-2|");
    EXPECT(d, "GET k", NULL_BULK);
    EXPECT(d, "DBSIZE", ":0|");
}
static void times(void **state) { driver_each(times_body); }

/* Every place that looks a key up must see that its time is over. */
static void an_expired_key_is_no_key_body(struct driver *d) {
    static const struct {
        const char *line, *expected;
    } cases[] = {{"GET k", NULL_BULK}, {"EXISTS k", ":0|"}, {"TYPE k", "+none|"}, {"TTL k", ":-2|"}, {"DEL k", ":0|"}, {"INCR k", ":1|"},
        {"APPEND k x", ":1|"}, {"SETNX k x", ":1|"}, {"GETSET k x", NULL_BULK}, {"SET k x XX", NULL_BULK}, {"SET k x KEEPTTL", "+OK|"},
        {"STRLEN k", ":0|"}, {"SETRANGE k 2 x", ":3|"}, {"PERSIST k", ":0|"}, {"EXPIRE k 10", ":0|"}, {"RENAME k l", "-ERR no such key|"},
        {"RENAMENX live k", ":1|"}, {"COPY live k", ":1|"}, {"COPY k l", ":0|"}, {"MOVE k 1", ":0|"}, {"MGET k", "*1|$-1|"},
        {"MSETNX k 1 l 2", ":1|"}, {"GETEX k", NULL_BULK}, {"GETDEL k", NULL_BULK}, {"LCS k live", "$0||"},
        {"OBJECT ENCODING k", NULL_BULK}, {"TOUCH k", ":0|"}, {"INCRBYFLOAT k 1", "$1|1|"}, {"GETRANGE k 0 -1", "$0||"}, {"KEYS k", "*0|"},
        {"SCAN 0 MATCH k", "*2|$1|0|*0|"}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        EXPECT(d, "SET k 12 PX 5", "+OK|");
        EXPECT(d, "SET live v", "+OK|");
        driver_wait(d, 6);
        EXPECT(d, cases[i].line, cases[i].expected);
        char *got = driver_run(d, "TTL k"); /* nothing of the old time is left */
        assert_true(!strcmp(got, ":-1|") || !strcmp(got, ":-2|"));
        free(got);
        free(driver_run(d, "DEL k l live"));
    }
    EXPECT(d, "SET k 12 PX 5", "+OK|");
    driver_wait(d, 6);
    EXPECT(d, "RANDOMKEY", NULL_BULK);
}
static void an_expired_key_is_no_key(void **state) { driver_each(an_expired_key_is_no_key_body); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_keys_at_once),
        cmocka_unit_test(renaming),
        cmocka_unit_test(copying),
        cmocka_unit_test(moving),
        cmocka_unit_test(looking),
        cmocka_unit_test(times),
        cmocka_unit_test(an_expired_key_is_no_key),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
