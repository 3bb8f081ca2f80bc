#include "tests/unit/command_driver.h"

#define SYNTAX "-ERR syntax error|"
#define BAD_OFFSET "-ERR bit offset is not an integer or out of range|"
#define BAD_FIELD "-ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.|"

static void bits_body(struct driver *d) {
    EXPECT(d, "SETBIT k 7 1", ":0|");
    EXPECT(d, "GET k", "$1|\x01|");
    EXPECT(d, "SETBIT k 7 0", ":1|");
    EXPECT(d, "SETBIT k 30 0", ":0|");
    EXPECT(d, "STRLEN k", ":4|");
    EXPECT(d, "SETBIT k 4294967296 1", BAD_OFFSET);
    EXPECT(d, "SETBIT k -1 1", BAD_OFFSET);
    EXPECT(d, "SETBIT k #1 1", BAD_OFFSET);
    EXPECT(d, "SETBIT k 1 2", "-ERR bit is not an integer or out of range|");
    EXPECT(d, "SET n 12345", "+OK|");
    EXPECT(d, "GETBIT n 2", ":1|");
    EXPECT(d, "GETBIT n 1000", ":0|");
    EXPECT(d, "GETBIT none 0", ":0|");
    EXPECT(d, "OBJECT ENCODING n", "$3|int|");
    EXPECT(d, "SETBIT n 6 1", ":0|");
    EXPECT(d, "GET n", "$5|32345|");
    EXPECT(d, "OBJECT ENCODING n", "$3|raw|");
}
static void bits(void **state) { driver_each(bits_body); }

static void ranges_body(struct driver *d) {
    EXPECT(d, "BITCOUNT none x y", ":0|");
    EXPECT(d, "SET k foobar", "+OK|");
    EXPECT(d, "BITCOUNT k", ":26|");
    EXPECT(d, "BITCOUNT k 1 1", ":6|");
    EXPECT(d, "BITCOUNT k 5 30 BIT", ":17|");
    EXPECT(d, "BITCOUNT k 9 9 bit", ":1|");
    EXPECT(d, "BITCOUNT k 8 8 BIT", ":0|");
    EXPECT(d, "BITCOUNT k -1 -2", ":0|");
    EXPECT(d, "BITCOUNT k 1", SYNTAX);
    EXPECT(d, "BITCOUNT k 0 -1 BITS", SYNTAX);
    EXPECT(d, "BITCOUNT k 0 x", "-ERR value is not an integer or out of range|");
    EXPECT(d, "SET k \"\\xff\\xf0\\x00\"", "+OK|");
    EXPECT(d, "BITPOS k 0", ":12|");
    EXPECT(d, "BITPOS k 1 2", ":-1|");
    EXPECT(d, "BITPOS k 0 0 0", ":-1|");
    EXPECT(d, "BITPOS k 0 9 -1 BIT", ":12|");
    EXPECT(d, "BITPOS k 1 13 -1 BIT", ":-1|");
    EXPECT(d, "SET k \"\\xff\"", "+OK|");
    EXPECT(d, "BITPOS k 0", ":8|");
    EXPECT(d, "BITPOS k 0 0 -1", ":-1|");
    EXPECT(d, "BITPOS none 0", ":0|");
    EXPECT(d, "BITPOS none 1", ":-1|");
    EXPECT(d, "BITPOS k 2", "-ERR The bit argument must be 1 or 0.|");
}
static void ranges(void **state) { driver_each(ranges_body); }

static void fields_body(struct driver *d) {
    EXPECT(d, "BITFIELD k INCRBY i5 100 1 GET u4 0", "*2|:1|:0|");
    EXPECT(d, "BITFIELD k SET i8 0 -100 GET u8 0 GET i8 #0", "*3|:0|:156|:-100|");
    EXPECT(d, "BITFIELD u SET u2 #51 3 OVERFLOW SAT INCRBY u2 #51 1 OVERFLOW FAIL INCRBY u2 #51 1 OVERFLOW WRAP INCRBY u2 #51 1",
        "*4|:0|:3|$-1|:0|");
    EXPECT(d, "BITFIELD s SET i64 3 9223372036854775807 INCRBY i64 3 1 OVERFLOW SAT INCRBY i64 3 -1",
        "*3|:0|:-9223372036854775808|:-9223372036854775808|");
    EXPECT(d, "BITFIELD s OVERFLOW SAT SET u8 0 -1 GET u8 0", "*2|:16|:255|");
    EXPECT(d, "BITFIELD k GET u64 0", BAD_FIELD);
    EXPECT(d, "BITFIELD k GET U8 0", BAD_FIELD);
    EXPECT(d, "BITFIELD k GET u8 -1", BAD_OFFSET);
    EXPECT(d, "BITFIELD k GET u8 #9223372036854775807", BAD_OFFSET);
    EXPECT(d, "BITFIELD k SET u8 0 x", "-ERR value is not an integer or out of range|");
    EXPECT(d, "BITFIELD k OVERFLOW x", "-ERR Invalid OVERFLOW type specified|");
    EXPECT(d, "BITFIELD k SET u8 0", SYNTAX);
    EXPECT(d, "BITFIELD k SET u8 0 1 GET", SYNTAX);
    EXPECT(d, "BITFIELD k GET u8 0", "*1|:156|");
    EXPECT(d, "BITFIELD_RO k GET u8 0", "*1|:156|");
    EXPECT(d, "BITFIELD_RO k SET u8 0 1", "-ERR BITFIELD_RO only supports the GET subcommand|");
    EXPECT(d, "BITFIELD none GET u63 100", "*1|:0|");
    EXPECT(d, "EXISTS none", ":0|");
    d->out.resp = 3;
    EXPECT(d, "BITFIELD none OVERFLOW FAIL SET u4 0 99", "*1|_|");
    EXPECT(d, "STRLEN none", ":1|");
    d->out.resp = 2;
}
static void fields(void **state) { driver_each(fields_body); }

static void bitop_body(struct driver *d) {
    EXPECT(d, "MSET a foobar b abcdef n 10", "+OK|");
    EXPECT(d, "BITOP AND t a b", ":6|");
    EXPECT(d, "GET t", "$6|`bc`ab|");
    EXPECT(d, "BITOP OR t a b n none", ":6|");
    EXPECT(d, "GET t",
        "$6|w\x7fof"
        "ev|");
    EXPECT(d, "BITOP XOR a a a", ":6|");
    EXPECT(d, "BITCOUNT a", ":0|");
    EXPECT(d, "BITOP NOT t n", ":2|");
    EXPECT(d, "BITOP NOT t t", ":2|");
    EXPECT(d, "GET t", "$2|10|");
    EXPECT(d, "OBJECT ENCODING t", "$3|raw|");
    EXPECT(d, "EXPIRE t 100", ":1|");
    EXPECT(d, "BITOP AND t none", ":0|");
    EXPECT(d, "EXISTS t", ":0|");
    EXPECT(d, "BITOP NOT t a b", "-ERR BITOP NOT must be called with a single source key.|");
    EXPECT(d, "BITOP NAND t a b", SYNTAX);
}
static void bitop(void **state) { driver_each(bitop_body); }

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(bits), cmocka_unit_test(ranges), cmocka_unit_test(fields), cmocka_unit_test(bitop)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
