/* Times of fields, by the commands: against a model, on one shard and on three that are held, while time goes on and housekeeping runs now and then; what many
 * fields that are due at once look like; the wheel's records. */
#include "tests/unit/command_driver.h"

#include "shard/field_expiry.h"
#include "tests/lib/random.h"

#define NEVER INT64_MAX
#define KEYS 6u
#define FIELDS 400u
#define SMALL 12u
#define BULK 60u

static struct random dice = {88172645463325252u};
static uint64_t looks;
static uint64_t counting_ns(void) { return ++looks * 1000; }

struct model {
    bool there[FIELDS];
    int value[FIELDS];
    int64_t at[FIELDS], key_at;
};

static int64_t now_of(const struct driver *d) { return d->shards[0]->now_ms; }

static uint32_t count(const struct model *m) {
    uint32_t n = 0;
    for (uint32_t i = 0; i < FIELDS; i++) n += m->there[i];
    return n;
}

static void clear(struct model *m) {
    memset(m->there, 0, sizeof m->there);
    m->key_at = NEVER;
}

/* What is past its time goes. */
static void pass(struct model *models, int64_t now) {
    for (struct model *m = models; m < models + KEYS; m++) {
        if (m->key_at < now) clear(m);
        for (uint32_t i = 0; i < FIELDS; i++) m->there[i] &= m->at[i] >= now;
        if (!count(m)) m->key_at = NEVER;
    }
}

static void work(struct driver *d) {
    for (uint32_t i = 0; i < d->n; i++) {
        unsigned slices = 0;
        while (shard_work(d->shards[i], now_of(d), 100000, counting_ns)) assert_true(++slices < 100000);
        assert_true(shard_next_due(d->shards[i]) > now_of(d));
    }
}

/* A line, and what is expected. */
struct said {
    char line[20000], reply[20000];
    size_t line_size, reply_size;
};
#define SAY(x, ...) ((x)->line_size += (size_t)snprintf((x)->line + (x)->line_size, sizeof(x)->line - (x)->line_size, __VA_ARGS__))
#define HEAR(x, ...) ((x)->reply_size += (size_t)snprintf((x)->reply + (x)->reply_size, sizeof(x)->reply - (x)->reply_size, __VA_ARGS__))

static void hear_value(struct said *x, const struct model *m, uint32_t i) {
    char text[16];
    if (!m->there[i]) HEAR(x, "$-1|");
    else HEAR(x, "$%d|%s|", snprintf(text, sizeof text, "%d", m->value[i]), text);
}

/* Different ones. */
static uint32_t choose(bool large, uint32_t out[BULK]) {
    uint32_t n = 1 + below(&dice, large ? BULK - 1 : 3), from = below(&dice, large ? FIELDS : SMALL);
    for (uint32_t i = 0; i < n; i++) out[i] = (from + i * 7) % (large ? FIELDS : SMALL);
    return n;
}

static int64_t soon(int64_t now) { return now + 1 + (one_in(&dice, 8) ? below(&dice, 5000000) : below(&dice, 600)); }

static void say_fields(struct said *x, const uint32_t *f, uint32_t n) {
    SAY(x, " FIELDS %u", n);
    for (uint32_t i = 0; i < n; i++) SAY(x, " f%u", f[i]);
}

static void expire(struct said *x, struct model *m, uint32_t key, const uint32_t *f, uint32_t n, int64_t now) {
    static const char *const conditions[] = {"", " NX", " XX", " GT", " LT"};
    uint32_t c = below(&dice, 5);
    int64_t at = one_in(&dice, 10) ? now - below(&dice, 2) : soon(now);
    if (one_in(&dice, 2)) SAY(x, "HPEXPIREAT k%u %lld%s", key, (long long)at, conditions[c]);
    else SAY(x, "HPEXPIRE k%u %lld%s", key, (long long)(at > now ? at - now : (at = now, 0)), conditions[c]);
    say_fields(x, f, n);
    HEAR(x, "*%u|", n);
    for (uint32_t i = 0; i < n; i++) {
        bool has = m->at[f[i]] != NEVER,
             holds = c == 0 || (c == 1 && !has) || (c == 2 && has) || (c == 3 && has && at > m->at[f[i]]) || (c == 4 && at < m->at[f[i]]);
        HEAR(x, ":%d|", !m->there[f[i]] ? -2 : !holds ? 0 : at <= now ? 2 : 1);
        if (!m->there[f[i]] || !holds) continue;
        m->at[f[i]] = at;
        m->there[f[i]] = at > now;
    }
}

static void set(struct said *x, struct model *m, uint32_t key, const uint32_t *f, uint32_t n, int64_t now) {
    uint32_t kind = below(&dice, 4), all = 0;
    int64_t at = kind == 1 ? soon(now) : NEVER;
    bool fnx = one_in(&dice, 4), fxx = !fnx && one_in(&dice, 4);
    int value = (int)below(&dice, 100000);
    for (uint32_t i = 0; i < n; i++) all += m->there[f[i]];
    if (kind == 3) fnx = fxx = false;
    if (kind == 3) SAY(x, "HSET k%u", key);
    else SAY(x, "HSETEX k%u%s", key, fnx ? " FNX" : fxx ? " FXX" : "");
    if (kind == 1) SAY(x, " PXAT %lld", (long long)at);
    if (kind == 2) SAY(x, " KEEPTTL");
    if (kind != 3) SAY(x, " FIELDS %u", n);
    for (uint32_t i = 0; i < n; i++) SAY(x, " f%u %d", f[i], value);
    bool sets = !(fnx && all) && !(fxx && all < n);
    HEAR(x, ":%u|", kind == 3 ? n - all : sets);
    for (uint32_t i = 0; sets && i < n; i++) {
        if (kind != 2 || !m->there[f[i]]) m->at[f[i]] = at;
        m->there[f[i]] = true;
        m->value[f[i]] = value;
    }
}

static void get_and_change(struct said *x, struct model *m, uint32_t key, const uint32_t *f, uint32_t n, int64_t now) {
    uint32_t kind = below(&dice, 4);
    int64_t at = soon(now);
    if (kind == 0) SAY(x, "HGETDEL k%u", key);
    else SAY(x, "HGETEX k%u", key);
    if (kind == 1) SAY(x, " PXAT %lld", (long long)at);
    if (kind == 2) SAY(x, " PERSIST");
    say_fields(x, f, n);
    HEAR(x, "*%u|", n);
    for (uint32_t i = 0; i < n; i++) {
        hear_value(x, m, f[i]);
        if (kind == 0) m->there[f[i]] = false;
        if (kind == 1) m->at[f[i]] = at;
        if (kind == 2) m->at[f[i]] = NEVER;
    }
}

static void change_field(struct said *x, struct model *m, uint32_t key, const uint32_t *f, uint32_t n) {
    uint32_t i = f[0], kind = below(&dice, 3);
    if (kind == 0) {
        SAY(x, "HPERSIST k%u", key);
        say_fields(x, f, n);
        HEAR(x, "*%u|", n);
        for (uint32_t j = 0; j < n; j++) {
            HEAR(x, ":%d|", !m->there[f[j]] ? -2 : m->at[f[j]] == NEVER ? -1 : 1);
            m->at[f[j]] = NEVER;
        }
    } else if (kind == 1) {
        SAY(x, "HDEL k%u f%u", key, i);
        HEAR(x, ":%d|", m->there[i]);
        m->there[i] = false;
    } else {
        if (!m->there[i]) m->value[i] = 0, m->at[i] = NEVER;
        m->there[i] = true;
        SAY(x, "HINCRBY k%u f%u 5", key, i);
        HEAR(x, ":%d|", m->value[i] += 5);
    }
}

static void change_key(struct said *x, struct model *models, uint32_t key, int64_t now) {
    uint32_t other = below(&dice, KEYS), kind = below(&dice, 5);
    struct model *m = &models[key], *to = &models[other];
    bool there = count(m);
    if (kind <= 1 && other != key) {
        SAY(x, kind ? "COPY k%u k%u REPLACE" : "RENAME k%u k%u", key, other);
        HEAR(x, "%s", kind ? (there ? ":1|" : ":0|") : there ? "+OK|" : "-ERR no such key|");
        if (there) *to = *m;
        if (there && !kind) clear(m);
    } else if (kind == 2) {
        int64_t at = soon(now);
        SAY(x, "PEXPIREAT k%u %lld", key, (long long)at);
        HEAR(x, ":%d|", there);
        if (there) m->key_at = at;
    } else if (kind == 3) {
        SAY(x, "PERSIST k%u", key);
        HEAR(x, ":%d|", there && m->key_at != NEVER);
        m->key_at = NEVER;
    } else {
        SAY(x, "SET k%u text", key);
        HEAR(x, "+OK|");
        clear(m);
    }
}

static void check_key(struct driver *d, const struct model *m, uint32_t key) {
    struct said x = {0};
    SAY(&x, "HMGET k%u", key);
    HEAR(&x, "*%u|", FIELDS);
    for (uint32_t i = 0; i < FIELDS; i++) SAY(&x, " f%u", i);
    for (uint32_t i = 0; i < FIELDS; i++) hear_value(&x, m, i);
    EXPECT(d, x.line, x.reply);
    x = (struct said){0};
    SAY(&x, "HPEXPIRETIME k%u FIELDS %u", key, FIELDS);
    HEAR(&x, "*%u|", FIELDS);
    for (uint32_t i = 0; i < FIELDS; i++) SAY(&x, " f%u", i);
    for (uint32_t i = 0; i < FIELDS; i++) HEAR(&x, ":%lld|", !m->there[i] ? -2 : m->at[i] == NEVER ? -1 : (long long)m->at[i]);
    EXPECT(d, x.line, x.reply);
}

static void check_size(struct driver *d, const struct model *m, uint32_t key) {
    struct said x = {0};
    SAY(&x, "HLEN k%u", key);
    HEAR(&x, ":%u|", count(m));
    EXPECT(d, x.line, x.reply);
}

/* After housekeeping nothing is left that was due a tick ago. */
static void check_stored(struct driver *d, const struct model *models) {
    for (uint32_t i = 0; i < d->n; i++) {
        int64_t first = shard_next_due(d->shards[i]);
        assert_true(first > now_of(d));
    }
    uint64_t stored = 0, there = 0;
    for (uint32_t i = 0; i < d->n; i++) stored += d->shards[i]->dbs[0]->keys.count;
    for (uint32_t i = 0; i < KEYS; i++) there += count(&models[i]) != 0;
    assert_true(stored >= there);
}

static void model_body(struct driver *d) {
    static struct model models[KEYS];
    static bool text[KEYS]; /* it is a string */
    memset(text, 0, sizeof text);
    for (uint32_t i = 0; i < KEYS; i++) clear(&models[i]);
    for (uint32_t step = 0; step < 20000; step++) {
        uint32_t key = below(&dice, KEYS), f[BULK], n = choose(key >= KEYS / 2, f), kind = below(&dice, 20);
        struct model *m = &models[key];
        struct said x = {0};
        int64_t now = now_of(d);
        pass(models, now);
        if (kind < 5) set(&x, m, key, f, n, now);
        else if (kind < 11) expire(&x, m, key, f, n, now);
        else if (kind < 14) get_and_change(&x, m, key, f, n, now);
        else if (kind < 18) change_field(&x, m, key, f, n);
        else change_key(&x, models, key, now);
        EXPECT(d, x.line, x.reply);
        if (!strncmp(x.line, "SET", 3)) {
            x = (struct said){0};
            SAY(&x, "DEL k%u", key);
            EXPECT(d, x.line, ":1|");
        }
        if (!count(m)) m->key_at = NEVER;
        check_size(d, m, key);
        if (step % 50 == 0) check_key(d, m, key);
        if (one_in(&dice, 3)) driver_wait(d, below(&dice, 60));
        if (one_in(&dice, 10)) {
            work(d);
            pass(models, now_of(d));
            check_stored(d, models);
        }
        if (one_in(&dice, 20)) { /* readers see the same while nothing is taken out */
            for (uint32_t i = 0; i < d->n; i++) d->shards[i]->hide_expired = true;
            driver_wait(d, below(&dice, 100));
            pass(models, now_of(d));
            check_size(d, m, key);
            check_key(d, m, key);
            for (uint32_t i = 0; i < d->n; i++) d->shards[i]->hide_expired = false;
        }
    }
    driver_wait(d, 10000000);
    work(d);
    for (uint32_t i = 0; i < d->n; i++) {
        assert_int_equal(d->shards[i]->dbs[0]->timed, 0);
        assert_int_equal(d->shards[i]->dbs[0]->expiring, 0);
        assert_int_equal(d->shards[i]->wheel.records, 0);
    }
    for (uint32_t key = 0; key < KEYS; key++) {
        pass(models, now_of(d));
        check_key(d, &models[key], key);
    }
}
static void commands_are_as_their_model(void **state) { driver_each(model_body); }

static void fill(struct driver *d, const char *key, uint32_t n, int64_t at_ms) {
    for (uint32_t i = 0; i < n; i += 100) {
        struct said x = {0};
        SAY(&x, "HSETEX %s PXAT %lld FIELDS 100", key, (long long)at_ms);
        for (uint32_t j = i; j < i + 100; j++) SAY(&x, " f%u v", j);
        EXPECT(d, x.line, ":1|");
    }
}

/* More than a lookup takes out. */
static void due_body(struct driver *d) {
    fill(d, "k", 10000, DRIVER_START_MS + 10);
    EXPECT(d, "HSET k stays v", ":1|");
    driver_wait(d, 11);
    EXPECT(d, "HLEN k", ":1|");
    EXPECT(d, "HGETALL k", "*2|$5|stays|$1|v|");
    EXPECT(d, "HKEYS k", "*1|$5|stays|");
    EXPECT(d, "HGET k f9999", "$-1|");
    EXPECT(d, "HEXISTS k f9998", ":0|");
    EXPECT(d, "HSTRLEN k f9997", ":0|");
    EXPECT(d, "HTTL k FIELDS 1 f9996", "*1|:-2|");
    EXPECT(d, "HRANDFIELD k", "$5|stays|");
    EXPECT(d, "HRANDFIELD k 5", "*1|$5|stays|");
    EXPECT(d, "HRANDFIELD k -2 WITHVALUES", "*4|$5|stays|$1|v|$5|stays|$1|v|");
    EXPECT(d, "HDEL k f9995", ":0|");
    EXPECT(d, "HSETNX k f9994 new", ":1|");
    EXPECT(d, "HINCRBY k f9993 7", ":7|");
    EXPECT(d, "HSET k f9992 new", ":1|");
    EXPECT(d, "HPEXPIRE k 100000 FIELDS 2 f9991 f9992", "*2|:-2|:1|");
    EXPECT(d, "HPERSIST k FIELDS 2 f9991 f9992", "*2|:-2|:1|");
    EXPECT(d, "HGETEX k EX 100 FIELDS 1 f9990", "*1|$-1|");
    EXPECT(d, "HGETDEL k FIELDS 1 f9989", "*1|$-1|");
    EXPECT(d, "HSETEX k FNX FIELDS 1 f9988 new", ":1|");
    EXPECT(d, "HLEN k", ":5|");
    EXPECT(d, "COPY k copy", ":1|");
    EXPECT(d, "HLEN copy", ":5|");
    driver_wait(d, WHEEL_TICK_MS);
    work(d);
    uint64_t gone = 0;
    for (uint32_t i = 0; i < d->n; i++) gone += d->shards[i]->stats.expired_fields;
    assert_true(gone >= 9990);
    EXPECT(d, "HLEN k", ":5|");
    EXPECT(d, "HLEN copy", ":5|");
}
static void many_fields_that_are_due_are_seen_by_nobody(void **state) { driver_each(due_body); }

static void all_due_body(struct driver *d) {
    fill(d, "k", 3000, DRIVER_START_MS + 10);
    fill(d, "l", 100, DRIVER_START_MS + 10);
    driver_wait(d, 11);
    EXPECT(d, "EXISTS l", ":0|");
    EXPECT(d, "HGETALL k", "*0|");
    EXPECT(d, "HLEN k", ":0|");
    EXPECT(d, "HRANDFIELD k", "$-1|");
    EXPECT(d, "HRANDFIELD k 3", "*0|");
    EXPECT(d, "HSETEX k FXX FIELDS 1 f1 v", ":0|");
    driver_wait(d, WHEEL_TICK_MS);
    work(d);
    EXPECT(d, "EXISTS k", ":0|");
    for (uint32_t i = 0; i < d->n; i++) assert_int_equal(d->shards[i]->dbs[0]->keys.count, 0);
}
static void a_hash_goes_with_its_last_field(void **state) { driver_each(all_due_body); }

/* Who sets times and takes them away, over and over, leaves no heap of records behind. */
static void records_body(struct driver *d) {
    EXPECT(d, "HSET k a 1 b 2", ":2|");
    EXPECT(d, "EXPIRE k 100000000", ":1|");
    for (int i = 0; i < 3000; i++) {
        EXPECT(d, "HPEXPIRE k 50000000 FIELDS 1 a", "*1|:1|");
        EXPECT(d, "HPERSIST k FIELDS 1 a", "*1|:1|");
    }
    for (int i = 0; i < 3000; i++) {
        EXPECT(d, "HSETEX k PX 20 FIELDS 1 c v", ":1|");
        driver_wait(d, 40);
        work(d);
        EXPECT(d, "HLEN k", ":2|");
    }
    uint64_t records = 0;
    for (uint32_t i = 0; i < d->n; i++) records += d->shards[i]->wheel.records;
    assert_in_range(records, 1, 1100); /* some are stale: so many may become */
}
static void records_do_not_pile_up(void **state) { driver_each(records_body); }

static void errors_body(struct driver *d) {
#define MISSING "-ERR Mandatory argument FIELDS is missing or not at the right position|"
#define NUMBER "-ERR Number of fields must be a positive integer|"
#define MATCH "-ERR The `numfields` parameter must match the number of arguments|"
#define WRONG_TYPE "-WRONGTYPE Operation against a key holding the wrong kind of value|"
    EXPECT(d, "SET s text", "+OK|");
    EXPECT(d, "HSET h a 1", ":1|");
    static const char *const all[] = {"HEXPIRE s 1 FIELDS 1 a", "HPERSIST s FIELDS 1 a", "HTTL s FIELDS 1 a", "HGETDEL s FIELDS 1 a",
        "HGETEX s EX 1 FIELDS 1 a", "HSETEX s EX 1 FIELDS 1 a 1", "HEXPIRE s x FIELDS 1 a"};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) EXPECT(d, all[i], WRONG_TYPE);
    EXPECT(d, "HEXPIRE h x FIELDS 1 a", "-ERR value is not an integer or out of range|");
    EXPECT(d, "HEXPIRE h -1 FIELDS 1 a", "-ERR invalid expire time, must be >= 0|");
    EXPECT(d, "HPEXPIREAT h 70368744177664 FIELDS 1 a", "-ERR invalid expire time in 'hpexpireat' command|");
    EXPECT(d, "HEXPIRE h 70368744177 FIELDS 1 a", "-ERR invalid expire time in 'hexpire' command|");
    EXPECT(d, "HPEXPIREAT h 70368744177663 FIELDS 1 a", "*1|:1|");
    EXPECT(d, "HPERSIST h FIELDS 1 a", "*1|:1|");
    EXPECT(d, "HEXPIRE h 1 NX XX 1 a", MISSING);
    EXPECT(d, "HEXPIRE h 1 FIELDS 0 a", "-ERR Parameter `numFields` should be greater than 0|");
    EXPECT(d, "HEXPIRE h 1 FIELDS 2 a", MATCH);
    EXPECT(d, "HEXPIRE h 1 FIELDS 1 a b", MATCH);
    EXPECT(d, "HTTL h FIELD 1 a", MISSING);
    EXPECT(d, "HTTL h FIELDS x a", NUMBER);
    EXPECT(d, "HTTL h FIELDS 9223372036854775807 a", MATCH);
    EXPECT(d, "HPERSIST h FIELDS 0 a", NUMBER);
    EXPECT(d, "HGETDEL h FIELDS 2 a", MATCH);
    EXPECT(d, "HGETEX h FOO 1 a", MISSING);
    EXPECT(d, "HGETEX h EX 1 a", MISSING);
    EXPECT(d, "HGETEX h PERSIST EX 1 FIELDS 1 a", MISSING);
    EXPECT(d, "HGETEX h EX 0x1 FIELDS 1 a", "-ERR value is not an integer or out of range|");
    EXPECT(d, "HSETEX h FNX FXX FIELDS 1 a 1", "-ERR Only one of FXX or FNX arguments can be specified|");
    EXPECT(d, "HSETEX h EX 1 KEEPTTL FIELDS 1 a 1", "-ERR Only one of EX, PX, EXAT, PXAT or KEEPTTL arguments can be specified|");
    EXPECT(d, "HSETEX h FIELDS 0 a 1", "-ERR invalid number of fields|");
    EXPECT(d, "HSETEX h FIELDS 2 a 1 b", "-ERR wrong number of arguments for 'hsetex' command|");
    EXPECT(d, "HSETEX h FNX KEEPTTL FIELDS 1", "-ERR wrong number of arguments for 'hsetex' command|");
    EXPECT(d, "HSETEX h FNX FNX FNX EX", "-ERR Only one of FXX or FNX arguments can be specified|");
    EXPECT(d, "HSETEX h BOGUS FIELDS 1 a 1", "-ERR unknown argument: BOGUS|");
    EXPECT(d, "HGETALL h", "*2|$1|a|$1|1|");
    EXPECT(d, "HTTL h FIELDS 1 a", "*1|:-1|");
    EXPECT(d, "HTTL none FIELDS 2 a b", "*2|:-2|:-2|");
    EXPECT(d, "HGETEX none EX 1 FIELDS 2 a b", "*2|$-1|$-1|");
    EXPECT(d, "HGETDEL h FIELDS 2 a a", "*2|$1|1|$-1|");
    EXPECT(d, "EXISTS h", ":0|");
}
static void errors_change_nothing(void **state) { driver_each(errors_body); }

/* Every allocation on the way is refused in turn. */
static void refused_body(struct driver *d) {
    for (unsigned after = 1; after < 12; after++) {
        fill(d, "k", 300, DRIVER_START_MS + 1000000);
        for (uint32_t i = 0; i < d->n; i++) memory_fail_after(d->shards[i]->memory, after);
        free(driver_run(d, "HPEXPIRE k 5000 FIELDS 3 f1 f2 f3"));
        free(driver_run(d, "HPERSIST k FIELDS 2 f3 f4"));
        free(driver_run(d, "HSETEX new PX 4000 FIELDS 2 a 1 b 2"));
        for (uint32_t i = 0; i < d->n; i++) memory_fail_after(d->shards[i]->memory, 0);
        EXPECT(d, "HLEN k", ":300|");
        driver_wait(d, 6000);
        work(d);
        EXPECT(d, "EXISTS new", ":0|");
        free(driver_run(d, "DEL k"));
    }
}
static void refused_memory_leaves_nothing_behind_for_ever(void **state) { driver_each(refused_body); }

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_are_as_their_model),
        cmocka_unit_test(many_fields_that_are_due_are_seen_by_nobody),
        cmocka_unit_test(a_hash_goes_with_its_last_field),
        cmocka_unit_test(records_do_not_pile_up),
        cmocka_unit_test(errors_change_nothing),
        cmocka_unit_test(refused_memory_leaves_nothing_behind_for_ever),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
