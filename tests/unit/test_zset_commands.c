/* The sorted-set commands on one shard and on three that are held: shapes in both protocols, errors; and what each allocation that is refused leaves behind. */
#include "tests/unit/command_driver.h"

#include "shard/memory.h"
#include "shard/zset.h"

#define WRONG_TYPE "-WRONGTYPE Operation against a key holding the wrong kind of value|"
#define SYNTAX "-ERR syntax error|"

static void shapes_body(struct driver *d) {
    EXPECT(d, "ZADD z 1 a 2.5 b 3 c", ":3|");
    EXPECT(d, "ZRANGE z 0 1 WITHSCORES", "*4|$1|a|$1|1|$1|b|$3|2.5|");
    EXPECT(d, "ZADD z INCR 0.5 b", "$1|3|");
    EXPECT(d, "ZADD z NX INCR 1 b", "$-1|");
    EXPECT(d, "ZADD z CH GT 2 b 4 c 1 new", ":2|");
    EXPECT(d, "ZREVRANK z c", ":0|");
    EXPECT(d, "ZPOPMAX z", "*2|$1|c|$1|4|");
    EXPECT(d, "ZMPOP 2 none z MIN COUNT 2", "*2|$1|z|*2|*2|$1|a|$1|1|*2|$3|new|$1|1|");
    d->out.resp = 3;
    EXPECT(d, "ZADD z 1 a 2.5 b 3 c", ":2|");
    EXPECT(d, "ZRANGE z 0 1 WITHSCORES", "*2|*2|$1|a|,1|*2|$1|b|,2.5|");
    EXPECT(d, "ZSCORE z none", "_|");
    EXPECT(d, "ZMSCORE z a none", "*2|,1|_|");
    EXPECT(d, "ZPOPMIN z", "*2|$1|a|,1|");
    EXPECT(d, "ZPOPMIN z 1", "*1|*2|$1|b|,2.5|");
    EXPECT(d, "ZRANDMEMBER z -2 WITHSCORES", "*2|*2|$1|c|,3|*2|$1|c|,3|");
    EXPECT(d, "ZUNION 2 z none WITHSCORES", "*1|*2|$1|c|,3|");
    EXPECT(d, "ZSCAN z 0", "*2|$1|0|*2|$1|c|$1|3|");
    EXPECT(d, "ZADD z inf d -inf e", ":2|");
    EXPECT(d, "ZRANGE z -inf (inf BYSCORE WITHSCORES", "*2|*2|$1|e|,-inf|*2|$1|c|,3|");
    d->out.resp = 2;
}
static void shapes(void **state) { driver_each(shapes_body); }

static void errors_body(struct driver *d) {
    static const char *const on_text[] = {"ZADD s 1 a", "ZINCRBY s 1 a", "ZREM s a", "ZCARD s", "ZSCORE s a", "ZMSCORE s a", "ZRANK s a",
        "ZCOUNT s 0 1", "ZLEXCOUNT s - +", "ZRANGE s 0 1", "ZRANGEBYSCORE s 0 1", "ZRANGEBYLEX s - +", "ZREVRANGE s 0 1",
        "ZRANGESTORE d s 0 1", "ZREMRANGEBYRANK s 0 1", "ZPOPMIN s", "ZMPOP 2 none s MIN", "ZRANDMEMBER s", "ZSCAN s 0", "ZUNION 2 none s",
        "ZINTERSTORE d 2 none s", "ZDIFF 1 s", "ZINTERCARD 1 s LIMIT x"};
    EXPECT(d, "SET s text", "+OK|");
    EXPECT(d, "ZADD d 1 kept", ":1|");
    for (size_t i = 0; i < sizeof on_text / sizeof *on_text; i++) EXPECT(d, on_text[i], WRONG_TYPE);
    EXPECT(d, "ZADD s nan a", "-ERR value is not a valid float|");
    EXPECT(d, "ZADD s NX XX 1 a", "-ERR XX and NX options at the same time are not compatible|");
    EXPECT(d, "ZADD s NX 1", SYNTAX);
    EXPECT(d, "ZRANGE d 0 1 BYSCORE BYLEX", SYNTAX);
    EXPECT(d, "ZRANGE d 0 1 REV REV", SYNTAX);
    EXPECT(d, "ZRANGE d 0 1 LIMIT 0 1", "-ERR syntax error, LIMIT is only supported in combination with either BYSCORE or BYLEX|");
    EXPECT(d, "ZUNIONSTORE d 0 a", "-ERR at least 1 input key is needed for 'zunionstore' command|");
    EXPECT(d, "ZUNIONSTORE d 3 a b", SYNTAX);
    EXPECT(d, "ZUNIONSTORE d 1 none WEIGHTS x", "-ERR weight value is not a float|");
    EXPECT(d, "ZRANGE d 0 -1", "*1|$4|kept|");
}
static void errors(void **state) { driver_each(errors_body); }

static void add_members(struct driver *d, uint32_t n) {
    char line[64];
    for (uint32_t i = 0; i < n; i++) {
        snprintf(line, sizeof line, "ZADD z %u member:%u", i * 7 % 50, i);
        free(driver_run(d, line));
    }
    free(driver_run(d, "ZADD other 1 member:1 2 x"));
    free(driver_run(d, "ZADD to 5 kept"));
}

static char *both(struct driver *d) {
    char *z = driver_run(d, "ZRANGE z 0 -1 WITHSCORES"), *to = driver_run(d, "ZRANGE to 0 -1 WITHSCORES");
    char *text = malloc(strlen(z) + strlen(to) + 1);
    strcat(strcpy(text, z), to);
    free(z);
    free(to);
    return text;
}

/* The nth allocation from now on fails, for n = 1, 2 ... until none does. */
static void refuse_each(struct driver *d, uint32_t members, const char *command) {
    for (uint64_t nth = 1, refused = 1; refused; nth++) {
        assert_true(nth < 5000);
        free(driver_run(d, "DEL z other to"));
        for (uint32_t i = 0; i < d->n; i++)
            while (d->shards[i]->trash && d->shards[i]->trash->free_some) {
                struct trash *x = d->shards[i]->trash, *next = x->next;
                while (x->free_some(d->shards[i]->memory, x)) {}
                d->shards[i]->trash = next;
            }
        add_members(d, members);
        char *before = both(d);
        for (uint32_t i = 0; i < d->n; i++) memory_fail_after(d->shards[i]->memory, nth);
        char *reply = driver_run(d, command);
        for (uint32_t i = 0; i < d->n; i++) memory_fail_after(d->shards[i]->memory, 0);
        char *after = both(d);
        refused = *reply == '-';
        if (refused) {
            assert_true(!strncmp(reply, "-OOM", 4));
            assert_string_equal(before, after);
        }
        free(before);
        free(reply);
        free(after);
        if (nth > 60 && members > 200) nth += nth / 4;
    }
}

/* A member that does not fit into a page lies elsewhere. */
#define FAR_MEMBER                                                                                                                         \
    "ZADD z 0.3 "                                                                                                                          \
    "xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx" \
    "xxxxxxxxx"

static void refused_body(struct driver *d) {
    static const char *const commands[] = {"ZADD z 5 new", "ZADD z 2.5 member:3", FAR_MEMBER, "ZINCRBY z 1.25 member:1",
        "ZUNIONSTORE to 2 z other", "ZINTERSTORE to 2 z other", "ZDIFFSTORE to 2 z other", "ZRANGESTORE to z 0 -1", "ZUNION 2 z other"};
    static const uint32_t sizes[] = {0, 5, 128, 200};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (size_t j = 0; j < sizeof commands / sizeof *commands; j++) refuse_each(d, sizes[i], commands[j]);
}
static void refused_memory_is_an_error_and_changes_nothing(void **state) { driver_each(refused_body); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(shapes),
        cmocka_unit_test(errors),
        cmocka_unit_test(refused_memory_is_an_error_and_changes_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
