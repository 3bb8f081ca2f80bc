/* The set commands on one shard and on three that are held: replies and errors; algebra against a naive model; draws, which must be fair. */
#include "tests/unit/command_driver.h"

#include "shard/set.h"
#include "tests/lib/random.h"

#define WRONG_TYPE "-WRONGTYPE Operation against a key holding the wrong kind of value|"
#define SYNTAX "-ERR syntax error|"
#define WRONG_INT "-ERR value is not an integer or out of range|"
#define NOT_POSITIVE "-ERR value is out of range, must be positive|"

static void members_body(struct driver *d) {
    EXPECT(d, "SADD k 3 1 2 3", ":3|");
    EXPECT(d, "SMEMBERS k", "*3|$1|1|$1|2|$1|3|");
    EXPECT(d, "OBJECT ENCODING k", "$6|intset|");
    EXPECT(d, "SADD k 007", ":1|");
    EXPECT(d, "OBJECT ENCODING k", "$9|hashtable|");
    EXPECT(d, "SISMEMBER k 007", ":1|");
    EXPECT(d, "SISMEMBER k 7", ":0|");
    EXPECT(d, "SMISMEMBER k 1 x 2 007", "*4|:1|:0|:1|:1|");
    EXPECT(d, "SMISMEMBER none x y", "*2|:0|:0|");
    EXPECT(d, "SCARD k", ":4|");
    EXPECT(d, "SCARD none", ":0|");
    EXPECT(d, "SREM k 007 9 1 1", ":2|");
    EXPECT(d, "OBJECT ENCODING k", "$9|hashtable|");
    EXPECT(d, "SREM k 2 3 4", ":2|");
    EXPECT(d, "EXISTS k", ":0|");
    EXPECT(d, "SMEMBERS k", "*0|");
    d->out.resp = 3;
    EXPECT(d, "SMEMBERS k", "~0|");
    EXPECT(d, "SPOP k", "_|");
    EXPECT(d, "SPOP k 2", "~0|");
    EXPECT(d, "SRANDMEMBER k", "_|");
    EXPECT(d, "SRANDMEMBER k 2", "*0|");
    EXPECT(d, "SADD k x", ":1|");
    EXPECT(d, "SRANDMEMBER k -2", "*2|$1|x|$1|x|");
    EXPECT(d, "SINTER k k", "~1|$1|x|");
    EXPECT(d, "SUNION k none", "~1|$1|x|");
    EXPECT(d, "SPOP k 2", "~1|$1|x|");
    d->out.resp = 2;
}
static void members(void **state) { driver_each(members_body); }

static void errors_body(struct driver *d) {
    static const char *const on_text[] = {"SADD s a", "SREM s a", "SISMEMBER s a", "SMISMEMBER s a", "SCARD s", "SMEMBERS s", "SPOP s",
        "SPOP s 0", "SRANDMEMBER s", "SRANDMEMBER s 2", "SSCAN s 0 foo", "SINTER none s", "SUNION s none", "SDIFF none s",
        "SINTERCARD 2 none s", "SINTERSTORE d k s", "SUNIONSTORE d k s", "SDIFFSTORE d none s", "SMOVE s k a", "SMOVE k s a",
        "SMOVE k s x"};
    EXPECT(d, "SET s text", "+OK|");
    EXPECT(d, "SADD k a", ":1|");
    EXPECT(d, "SADD d kept", ":1|");
    for (size_t i = 0; i < sizeof on_text / sizeof *on_text; i++) EXPECT(d, on_text[i], WRONG_TYPE);
    EXPECT(d, "SMEMBERS d", "*1|$4|kept|");
    EXPECT(d, "SMEMBERS k", "*1|$1|a|");
    EXPECT(d, "SMOVE none s a", ":0|");
    EXPECT(d, "SPOP k x", NOT_POSITIVE);
    EXPECT(d, "SPOP k -1", NOT_POSITIVE);
    EXPECT(d, "SPOP s -1", NOT_POSITIVE);
    EXPECT(d, "SPOP k 1 2", SYNTAX);
    EXPECT(d, "SRANDMEMBER k x", WRONG_INT);
    EXPECT(d, "SRANDMEMBER k 1 2", SYNTAX);
    EXPECT(d, "SRANDMEMBER k -9223372036854775808",
        "-ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807|");
    EXPECT(d, "SINTERCARD 0 k", "-ERR numkeys should be greater than 0|");
    EXPECT(d, "SINTERCARD x k", "-ERR numkeys should be greater than 0|");
    EXPECT(d, "SINTERCARD 3000000000 k", "-ERR Number of keys can't be greater than number of args|");
    EXPECT(d, "SINTERCARD 1 k LIMIT", SYNTAX);
    EXPECT(d, "SINTERCARD 1 k foo 1", SYNTAX);
    EXPECT(d, "SINTERCARD 1 s LIMIT -1", "-ERR LIMIT can't be negative|");
    EXPECT(d, "SINTERCARD 1 k LIMIT 1 limit 0", ":1|");
    EXPECT(d, "SSCAN none 0 foo", "*2|$1|0|*0|");
    EXPECT(d, "SSCAN none x", "-ERR invalid cursor|");
    EXPECT(d, "SSCAN k 0 COUNT 0", SYNTAX);
    EXPECT(d, "SSCAN k 0 MATCH b*", "*2|$1|0|*0|");
    EXPECT(d, "SSCAN k 0 MATCH a* COUNT 5", "*2|$1|0|*1|$1|a|");
}
static void errors(void **state) { driver_each(errors_body); }

static void moves_and_results_body(struct driver *d) {
    EXPECT(d, "SADD a 1 x", ":2|");
    EXPECT(d, "SMOVE a b x", ":1|");
    EXPECT(d, "SMOVE a b x", ":0|");
    EXPECT(d, "SMOVE a a 1", ":1|");
    EXPECT(d, "SMOVE a b 1", ":1|");
    EXPECT(d, "EXISTS a", ":0|");
    EXPECT(d, "SCARD b", ":2|");
    EXPECT(d, "SET t text EX 100", "+OK|");
    EXPECT(d, "SINTERSTORE t b b", ":2|");
    EXPECT(d, "TTL t", ":-1|");
    EXPECT(d, "SDIFFSTORE t b b", ":0|");
    EXPECT(d, "EXISTS t", ":0|");
    EXPECT(d, "SUNIONSTORE b b none", ":2|");
    EXPECT(d, "SADD big 1 2 3 4 5 6 7 8", ":8|");
    EXPECT(d, "SINTERCARD 2 big big LIMIT 3", ":3|");
    EXPECT(d, "SDIFFSTORE rest big b", ":7|");
    EXPECT(d, "OBJECT ENCODING rest", "$6|intset|");
}
static void moves_and_results(void **state) { driver_each(moves_and_results_body); }

/* ---- algebra against a model ---- */

#define MODEL_SETS 5u
#define MODEL_MEMBERS 4000u

static struct random dice = {88172645463325252u};

/* The first half are integers. */
static unsigned member_text(uint32_t i, char out[16]) { return (unsigned)snprintf(out, 16, i < MODEL_MEMBERS / 2 ? "%u" : "m%u", i); }

struct model {
    bool has[MODEL_SETS][MODEL_MEMBERS];
};

static void fill_set(struct driver *d, struct model *m, unsigned set) {
    static const uint32_t sizes[] = {0, 1, 5, 50, 400, 2500}; /* of the largest, combinations go on in slices */
    char line[40000];
    uint32_t from = below(&dice, 2) ? 0 : below(&dice, MODEL_MEMBERS / 2),
             of = 1 + below(&dice, MODEL_MEMBERS / 2 + (from ? 0 : below(&dice, 2) * MODEL_MEMBERS / 2));
    snprintf(line, sizeof line, "DEL set%u", set);
    free(driver_run(d, line));
    memset(m->has[set], 0, sizeof m->has[set]);
    size_t at = (size_t)snprintf(line, sizeof line, "SADD set%u", set);
    uint32_t n = sizes[below(&dice, 6)];
    for (uint32_t i = 0; i < n; i++) {
        char text[16];
        uint32_t member = from + below(&dice, of);
        member_text(member, text);
        at += (size_t)snprintf(line + at, sizeof line - at, " %s", text);
        m->has[set][member] = true;
    }
    if (n) free(driver_run(d, line));
}

/* The members that the reply lists, each once. */
static uint32_t read_members(const char *reply, bool found[MODEL_MEMBERS]) {
    uint32_t n = (uint32_t)strtoul(reply + 1, NULL, 10);
    const char *p = strchr(reply, '|') + 1;
    memset(found, 0, MODEL_MEMBERS);
    for (uint32_t i = 0; i < n; i++) {
        p = strchr(p, '|') + 1;
        uint32_t member = (uint32_t)strtoul(p + (*p == 'm'), NULL, 10);
        assert_true(member < MODEL_MEMBERS && (*p == 'm') == (member >= MODEL_MEMBERS / 2));
        assert_false(found[member]);
        found[member] = true;
        p = strchr(p, '|') + 1;
    }
    assert_int_equal(*p, 0);
    return n;
}

static void combine(const struct model *m, unsigned operation, const unsigned *sets, unsigned n, bool out[MODEL_MEMBERS]) {
    for (uint32_t i = 0; i < MODEL_MEMBERS; i++) {
        bool in = m->has[sets[0]][i];
        for (unsigned j = 1; j < n; j++) {
            bool has = m->has[sets[j]][i];
            in = operation == 0 ? in && has : operation == 1 ? in || has : in && !has;
        }
        out[i] = in;
    }
}

static uint32_t count_of(const bool has[MODEL_MEMBERS]) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < MODEL_MEMBERS; i++) n += has[i];
    return n;
}

static void ask(struct driver *d, struct model *m) {
    static const char *const names[] = {"SINTER", "SUNION", "SDIFF"};
    unsigned operation = below(&dice, 3), n = 1 + below(&dice, MODEL_SETS), sets[MODEL_SETS], to = below(&dice, MODEL_SETS);
    bool stores = below(&dice, 3) == 0, expected[MODEL_MEMBERS], found[MODEL_MEMBERS];
    char line[200], keys[100] = "", *got;
    for (unsigned i = 0; i < n; i++) {
        sets[i] = below(&dice, MODEL_SETS);
        snprintf(keys + strlen(keys), sizeof keys - strlen(keys), " set%u", sets[i]);
    }
    combine(m, operation, sets, n, expected);
    uint32_t count = count_of(expected);
    if (stores) {
        char reply[32];
        snprintf(line, sizeof line, "%sSTORE set%u%s", names[operation], to, keys);
        snprintf(reply, sizeof reply, ":%u|", count);
        EXPECT(d, line, reply);
        memcpy(m->has[to], expected, sizeof expected);
        snprintf(line, sizeof line, "SMEMBERS set%u", to);
    } else if (operation == 0 && below(&dice, 3) == 0) {
        uint32_t limit = below(&dice, 2) ? below(&dice, 20) : 0;
        char reply[32];
        snprintf(line, sizeof line, "SINTERCARD %u%s LIMIT %u", n, keys, limit);
        snprintf(reply, sizeof reply, ":%u|", limit && limit < count ? limit : count);
        EXPECT(d, line, reply);
        return;
    } else {
        snprintf(line, sizeof line, "%s%s", names[operation], keys);
    }
    got = driver_run(d, line);
    read_members(got, found);
    assert_memory_equal(found, expected, sizeof found);
    free(got);
}

static uint64_t no_time(void) { return 0; }

/* A shard's table is there from its first key on. */
static void make_tables(struct driver *d) {
    char line[16];
    for (unsigned i = 0; i < 50; i++) {
        snprintf(line, sizeof line, "SET t%u x", i);
        free(driver_run(d, line));
        snprintf(line, sizeof line, "DEL t%u", i);
        free(driver_run(d, line));
    }
}

/* All that was taken on the way comes back. */
static size_t used(struct driver *d) {
    size_t bytes = 0;
    for (uint32_t i = 0; i < d->n; i++) {
        while (shard_work(d->shards[i], DRIVER_START_MS, 1000000, no_time)) {}
        bytes += memory_used(d->shards[i]->memory);
    }
    return bytes;
}

static void algebra_body(struct driver *d) {
    static struct model m;
    char line[20];
    make_tables(d);
    size_t before = used(d);
    for (unsigned round = 0; round < 3000; round++) {
        if (round % 4 == 0) fill_set(d, &m, below(&dice, MODEL_SETS));
        ask(d, &m);
    }
    for (unsigned i = 0; i < MODEL_SETS; i++) {
        snprintf(line, sizeof line, "DEL set%u", i);
        free(driver_run(d, line));
    }
    assert_int_equal(used(d), before);
    memset(&m, 0, sizeof m);
}
static void algebra_is_as_its_model(void **state) { driver_each(algebra_body); }

/* ---- draws ---- */

/* Chi-squared of how often each of n was drawn: its mean is n - 1, its deviation the root of 2 n; 8 of them are never met by chance. */
static void assert_fair(const uint32_t *times, uint32_t n, uint32_t draws) {
    double mean = (double)draws / n, chi = 0;
    for (uint32_t i = 0; i < n; i++) chi += (times[i] - mean) * (times[i] - mean) / mean;
    assert_true(chi < n || (chi - n) * (chi - n) < 64.0 * 2 * n);
}

static void add_numbers(struct driver *d, uint32_t n, const char *form) {
    char line[40], number[16];
    for (uint32_t i = 0; i < n; i++) {
        snprintf(number, sizeof number, form, i);
        snprintf(line, sizeof line, "SADD k %s", number);
        free(driver_run(d, line));
    }
}

/* Draws until each of n was drawn 100 times in the mean; what was popped comes back. */
static void draw(struct driver *d, uint32_t n, const char *form, const char *command, int32_t count) {
    uint32_t *times = calloc(n, sizeof *times), draws = 0, each = (uint32_t)(count ? abs(count) : 1);
    char line[64], *got;
    bool *seen = calloc(n, sizeof *seen);
    add_numbers(d, n, form);
    while (draws < 100 * n) {
        if (count) snprintf(line, sizeof line, "%s k %d", command, (int)count);
        else snprintf(line, sizeof line, "%s k", command);
        got = driver_run(d, line);
        const char *p = count ? strchr(got, '|') + 1 : got;
        memset(seen, 0, n);
        for (uint32_t i = 0; i < each; i++) {
            p = strchr(p, '|') + 1;
            uint32_t v = (uint32_t)strtoul(p + (*p == 'm'), NULL, 10);
            assert_true(v < n && (count < 0 || !seen[v]));
            seen[v] = true;
            times[v]++;
            p = strchr(p, '|') + 1;
        }
        assert_int_equal(*p, 0);
        draws += each;
        free(got);
        if (strcmp(command, "SPOP")) continue;
        snprintf(line, sizeof line, ":%u|", n - each);
        EXPECT(d, "SCARD k", line);
        for (uint32_t i = 0; i < n; i++) {
            char number[16];
            if (!seen[i]) continue;
            snprintf(number, sizeof number, form, i);
            snprintf(line, sizeof line, "SADD k %s", number);
            EXPECT(d, line, ":1|");
        }
    }
    assert_fair(times, n, draws);
    free(times);
    free(seen);
    free(driver_run(d, "DEL k"));
}

static void draws_are_fair(void **state) {
    static const char *const forms[] = {"%u", "m%u"};
    static const uint32_t sizes[] = {10, 100, 600};
    struct driver *d = driver_new(1);
    make_tables(d);
    size_t before = used(d);
    for (unsigned form = 0; form < 2; form++)
        for (unsigned i = 0; i < 3; i++) {
            int32_t n = (int32_t)sizes[i];
            draw(d, sizes[i], forms[form], "SRANDMEMBER", 0);
            draw(d, sizes[i], forms[form], "SRANDMEMBER", -7);
            draw(d, sizes[i], forms[form], "SRANDMEMBER", n / 5); /* one by one */
            draw(d, sizes[i], forms[form], "SRANDMEMBER", n / 2); /* on the way */
            draw(d, sizes[i], forms[form], "SPOP", 0);
            draw(d, sizes[i], forms[form], "SPOP", n / 3);
            draw(d, sizes[i], forms[form], "SPOP", n - n / 10); /* the rest stays */
        }
    assert_int_equal(used(d), before);
    driver_drop(d);
}

/* A draw of a few costs no walk: the random numbers taken tell. */
static void a_draw_of_a_few_costs_no_more_in_a_large_set(void **state) {
    struct driver *d = driver_new(1);
    add_numbers(d, 20000, "m%u");
    for (unsigned i = 0; i < 100; i++) {
        char *got = driver_run(d, "SRANDMEMBER k 10");
        assert_memory_equal(got, "*10|", 4);
        free(got);
    }
    EXPECT(d, "SCARD k", ":20000|");
    char *got = driver_run(d, "SPOP k 19990"); /* the ten that stay make a small set */
    assert_memory_equal(got, "*19990|", 7);
    free(got);
    EXPECT(d, "SCARD k", ":10|");
    driver_drop(d);
}

/* ---- refused memory ---- */

static void a_limit_refuses_what_does_not_fit(void **state) {
    struct driver *d = driver_new(1);
    struct shard *s = d->shards[0];
    static struct budget budget;
    char line[20000];
    size_t at = (size_t)snprintf(line, sizeof line, "SADD new");
    EXPECT(d, "SADD k 1 2 3 x", ":4|");
    for (unsigned i = 0; i < 1000; i++) at += (size_t)snprintf(line + at, sizeof line - at, " member:%u", i);
    budget_init(&budget);
    s->budget = &budget;
    shards_limit(d->shards, 1, memory_used(s->memory) + 2000);
    EXPECT(d, line, "-OOM command not allowed when used memory > 'maxmemory'.|");
    EXPECT(d, "EXISTS new", ":0|");
    EXPECT(d, "SADD k 1 x", ":0|");
    EXPECT(d, "SADD k y", ":1|");
    shards_limit(d->shards, 1, 0);
    EXPECT(d, line, ":1000|");
    shards_limit(d->shards, 1, memory_used(s->memory) + 2000);
    EXPECT(d, "SUNIONSTORE to k new", "-OOM command not allowed when used memory > 'maxmemory'.|");
    EXPECT(d, "EXISTS to", ":0|");
    used(d); /* what was made of it is freed in slices */
    EXPECT(d, "SINTERSTORE to k k", ":5|");
    EXPECT(d, "SREM new member:1", ":1|");
    shards_limit(d->shards, 1, 0);
    driver_drop(d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(members),
        cmocka_unit_test(errors),
        cmocka_unit_test(moves_and_results),
        cmocka_unit_test(algebra_is_as_its_model),
        cmocka_unit_test(draws_are_fair),
        cmocka_unit_test(a_draw_of_a_few_costs_no_more_in_a_large_set),
        cmocka_unit_test(a_limit_refuses_what_does_not_fit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
