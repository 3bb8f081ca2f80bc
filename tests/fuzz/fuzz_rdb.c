/* Data in RDB's format: a value as RESTORE gets it, or a whole file as at a start.
 *
 * Whatever is accepted must be sound: it can be read past as well; it is written, read into another shard, and compared; once deleted it leaves nothing. What is refused
 * says why, and leaves nothing either. A whole file that was accepted is written anew, and that file must be accepted, with as many keys. Two who share its chunks
 * judge it as one who reads all, and find the same keys.
 *
 *   | how (enum how) | type, value |   | how, with HOW_FRAME | type, packed form |   | how, with HOW_FILE | REDIS0010 ... | */
#include <math.h>
#include <mimalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "server/rdb_file.h"
#include "shard/container.h"
#include "shard/crc64.h"
#include "shard/memory.h"
#include "shard/rdb_write.h"
#include "tests/lib/dribble.h"
#include "tests/lib/values.h"

#define NOW_MS INT64_C(1700000000000)
#define CHECKSUM_BYTES 8u
/* What a shard with little room has, beside what it uses anyway. */
#define TIGHT_BYTES 3000u

enum how {
    HOW_FILE = 1,
    HOW_SEAL = 2,     /* of a file: its checksum is made right first */
    HOW_DRIBBLE = 2,  /* of a value: its bytes come few at a time */
    HOW_COMPRESS = 4, /* what is written */
    HOW_STEPS = 8,    /* it is written in steps */
    HOW_SMALL = 16,   /* the configuration's limits are low */
    HOW_TIGHT = 32,   /* the shard has little room */
    HOW_EXPIRES = 64, /* the key has a time */
    HOW_AUX = 128,    /* of a file: auxiliary fields are looked at */
    HOW_FRAME = 128,  /* of a value: it is a packed form without its length, whose sizes and end are made right first */
};

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

static struct hash_secret secret;
static struct budget budget; /* of the first shard */
static struct shard *first, *second;
static int file; /* in memory */
static char path[64];

static void require(bool is_so, const char *what, const char *detail) {
    if (is_so) return;
    fprintf(stderr, "fuzz: %s: %s\n", what, detail ? detail : "");
    abort();
}

static const struct rdb_limits *limits_for(uint8_t how) {
    static const struct rdb_limits usual = {512, 64, -2, 512, 128, 64}, low = {3, 4, 2, 3, 3, 4};
    return how & HOW_SMALL ? &low : &usual;
}

/* ---- shards ---- */

static struct key find(struct shard *s, const char *name, size_t size) {
    struct key k;
    key_find(s, s->dbs[0], hash_key(&secret, name, size), name, (uint32_t)size, &k);
    return k;
}

/* Deletes a key, if it is there, and all that is to be freed later. */
static void forget(struct shard *s, struct key *k) {
    if (k->entry) key_delete(s, k, KEY_DEL);
    while (s->trash) {
        struct trash *x = s->trash, *next = x->next;
        if (!x->free_some(s->memory, x)) s->trash = next;
    }
    while (wheel_drop_some(&s->wheel, SIZE_MAX)) {}
}

static struct shard *new_shard(struct budget *of) {
    struct shard_options o = {.shards = 1, .databases = 1, .secret = &secret, .seed = 1, .now_ms = NOW_MS, .budget = of};
    struct shard *s = shard_new(&o);
    require(s, "no memory", NULL);
    struct key k = find(s, "", 0);
    key_set_int(s, &k, 1, EXPIRY_NONE, KEY_SET); /* the table has its first segment from now on */
    forget(s, &k);
    return s;
}

/* ---- a value ---- */

static void write_value(struct rdb_buffer *b, const struct key *k, uint8_t how) {
    struct rdb_value v;
    enum rdb_step step;
    rdb_value_begin(&v, k->entry, how & HOW_COMPRESS);
    while ((step = rdb_value_step(&v, first, k->entry, b, how & HOW_STEPS ? 1 : SIZE_MAX)) == RDB_MORE) {}
    require(step == RDB_DONE, "a value can't be written", NULL);
}

static void check_zset(const struct zset *x) {
    struct zset_walk w;
    struct zset_item m, found;
    double last = -HUGE_VAL;
    char scratch[INT64_TEXT_SIZE];
    uint64_t rank = 0;
    for (zset_begin(x, &w, 0, UINT64_MAX, false); zset_next(x, &w, &m); last = m.score) {
        struct field_name name;
        require(m.score >= last, "scores are out of order", NULL);
        zset_name_of(x, &m, scratch, &name);
        require(zset_find(x, &name, &found), "a member is not found", NULL);
        require(zset_rank(x, &name, &found) == rank++, "a member is there twice, or in another place", NULL);
    }
}

static void check_fields(const struct fields *x) {
    struct fields_walk w = {0};
    struct field f, found;
    char scratch[INT64_TEXT_SIZE];
    while (fields_next(x, &w, &f)) {
        struct field_name name;
        uint32_t size;
        const char *text = packed_text(f.name, scratch, &size);
        field_name(x, text, size, &name);
        require(fields_find(x, &name, &found) && found.name == f.name, "a field is there twice, or not found", NULL);
    }
}

/* What holds of a value beside what values_differ() finds. */
static void check_alone(const struct key *k) {
    const struct entry *e = k->entry;
    if (entry_type(e) == TYPE_ZSET) {
        struct zset x = zset_open(first, k);
        check_zset(&x);
    } else if (entry_type(e) == TYPE_HASH || (entry_type(e) == TYPE_SET && entry_encoding(e) != ENC_INTSET)) {
        struct fields x = key_fields(first, k);
        check_fields(&x);
        require(fields_first_time(&x) == entry_fields_time(e), "the earliest time of a field is not that of its hash", NULL);
    }
}

/* Written, and read by the other shard, it is the same. */
static void check_round_trip(const struct key *k, uint8_t how) {
    struct rdb_buffer b = {0};
    struct key other = find(second, k->name, k->size);
    uint8_t type = (uint8_t)rdb_type_of(k->entry);
    write_value(&b, k, how);
    struct rdb_source x = {.at = b.bytes, .end = b.bytes + b.length, .offset = b.length}, skipped = x;
    require(rdb_skip_value(&skipped, type) && skipped.at == skipped.end, "what was written can't be read past", skipped.why);
    require(rdb_read_value(&x, type, second, &other, entry_expiry(k->entry), limits_for(how), KEY_LOADED), "what was written can't be read",
        x.why);
    require(x.at == x.end, "what was written is not read to its end", NULL);
    const char *difference = values_differ(first, k, second, &other);
    require(!difference, "what was written is read as something else", difference);
    if (entry_type(k->entry) == TYPE_HASH || entry_type(k->entry) == TYPE_ZSET)
        require(container_shown_large(k->entry) == container_shown_large(other.entry), "another encoding is shown", NULL);
    rdb_buffer_drop(&b);
    forget(second, &other);
}

/* Reads a value. True: it was accepted, and is there. */
static bool read_value(struct rdb_source *x, uint8_t type, struct key *k, int64_t at_ms, uint8_t how) {
    shards_limit(&first, 1, how & HOW_TIGHT ? memory_used(first->memory) + TIGHT_BYTES : 0);
    bool good = rdb_read_value(x, type, first, k, at_ms, limits_for(how), KEY_LOADED);
    require(good == !x->why[0], good ? "a good value with a fault" : "a bad value without a reason", x->why);
    require(good == (k->entry != NULL), "a key is there if and only if its value is bad", x->why);
    if (!good) return false;
    check_alone(k);
    check_round_trip(k, how);
    return true;
}

/* ---- a value alone ---- */

static struct rdb_source source_of(const uint8_t *p, size_t size, struct dribble *d, uint8_t how) {
    struct rdb_source few = dribble_from(d, p, size, 3);
    return how & HOW_DRIBBLE ? few : (struct rdb_source){.at = p, .end = p + size, .offset = size};
}

static size_t left_of(const struct rdb_source *x) { return (size_t)(x->end - x->at) + x->left; }

/* Read in slices, as by RESTORE of a long payload, and read for nobody, it is judged the same and leaves nothing either. k: the key whose value it became; without an
 * entry: it was refused. */
static void check_other_ways(const uint8_t *p, size_t size, const struct key *k, uint8_t how) {
    struct rdb_source x = {.at = p + 1, .end = p + size, .offset = size - 1}, checked = x;
    struct key other = find(second, "key", 3);
    size_t used = memory_used(second->memory);
    require(rdb_check_value(&checked, *p, second, limits_for(how)) == (k->entry != NULL), "a value is good only if somebody gets it",
        checked.why);
    if (rdb_is_container(*p)) {
        struct rdb_making *m = rdb_make_begin(*p, second, limits_for(how));
        enum rdb_making_step step = RDB_MAKING;
        require(m, "no memory", NULL);
        for (; step == RDB_MAKING; x = (struct rdb_source){.at = x.at, .end = x.end, .offset = x.offset})
            if ((step = rdb_make_step(m, &x, how & HOW_STEPS ? 1 : 3)) == RDB_MAKING_WRONG) break;
        bool good = step == RDB_MADE && rdb_make_check(m, &x);
        require(good == (k->entry != NULL), "in slices another value is good", x.why);
        require(good || x.why[0], "a bad value without a reason, in slices", NULL);
        if (!good || how & HOW_COMPRESS) rdb_make_drop(m);
        else {
            require(rdb_make_store(m, &x, &other, entry_expiry(k->entry), KEY_LOADED), "a value that was made can't be stored", x.why);
            const char *difference = values_differ(first, k, second, &other);
            require(!difference, "in slices it is read as something else", difference);
        }
    }
    forget(second, &other);
    require(memory_used(second->memory) == used, "something is left behind in slices", x.why);
}

static void try_value(const uint8_t *p, size_t size, uint8_t how) {
    struct dribble d;
    struct key k = find(first, "key", 3);
    if (!size) return;
    struct rdb_source skipping = source_of(p + 1, size - 1, &d, how);
    bool can_skip = rdb_skip_value(&skipping, *p);
    require(can_skip == !skipping.why[0], "skipping and its reason disagree", skipping.why);
    dribble_drop(&d);
    size_t used = memory_used(first->memory);
    struct rdb_source x = source_of(p + 1, size - 1, &d, how);
    if (read_value(&x, *p, &k, how & HOW_EXPIRES ? NOW_MS + 1000 : EXPIRY_NONE, how))
        require(can_skip && left_of(&x) == left_of(&skipping), "what can be read can't be read past", skipping.why);
    if (!x.no_memory) check_other_ways(p, size, &k, how);
    dribble_drop(&d);
    forget(first, &k);
    require(memory_used(first->memory) == used, "something is left behind", x.why);
}

/* The sizes that a packed form has of itself, so that what is behind them is tried. */
static void mend_packed(uint8_t type, uint8_t *p, size_t size) {
    uint32_t n = (uint32_t)size, width;
    if (!n) return;
    if (type == RDB_SET_INTSET) {
        if (n < 8) return;
        memcpy(&width, p, sizeof width);
        n = width ? (n - 8) / width : 0;
        memcpy(p + 4, &n, sizeof n);
        return;
    }
    p[n - 1] = 0xff;
    if (type == RDB_HASH_ZIPMAP) return;
    bool ziplist = type == RDB_LIST_ZIPLIST || type == RDB_ZSET_ZIPLIST || type == RDB_HASH_ZIPLIST;
    if (n < 11) return;
    memcpy(p, &n, sizeof n);
    memset(p + (ziplist ? 8 : 4), 0xff, 2); /* its number of elements: not known */
}

static void try_framed(const uint8_t *p, size_t size, uint8_t how) {
    struct rdb_buffer b = {0};
    if (!size) return;
    if (!rdb_put_byte(&b, *p) || !rdb_put_length(&b, size - 1) || !rdb_put_bytes(&b, p + 1, size - 1)) abort();
    mend_packed(*p, b.bytes + b.length - (size - 1), size - 1);
    uint8_t *exact = malloc(b.length); /* without room behind it, so that what is read there is found out */
    if (!exact) abort();
    memcpy(exact, b.bytes, b.length);
    try_value(exact, b.length, how);
    free(exact);
    rdb_buffer_drop(&b);
}

/* ---- a file ---- */

struct visiting {
    uint8_t how;
    struct rdb_buffer out; /* the file, written anew */
    uint32_t db;
    uint64_t keys;
    bool timed; /* fields have times */
    size_t seen;
};

static void put_key(struct visiting *v, const struct key *k, uint32_t db) {
    struct rdb_entry_options o = {.compress = v->how & HOW_COMPRESS, .idle_s = v->how & HOW_STEPS ? 3 : RDB_NO_IDLE};
    if (db != v->db) rdb_put_select(&v->out, v->db = db);
    require(rdb_put_entry(&v->out, first, k->entry, &o), "an entry can't be written", NULL);
    v->timed |= rdb_version_of(k->entry) == RDB_VERSION_TIMES;
    v->keys++;
}

static bool visit_key(void *arg, struct rdb_source *x, const struct rdb_key *key) {
    struct visiting *v = arg;
    struct key k = find(first, key->name, key->size);
    if (key->expire_at_ms < NOW_MS) return rdb_skip_value(x, key->type);
    size_t used = memory_used(first->memory);
    bool good = read_value(x, key->type, &k, key->expire_at_ms, v->how);
    if (good) put_key(v, &k, key->db);
    forget(first, &k);
    require(memory_used(first->memory) == used, "something is left behind", x->why);
    return good;
}

static bool visit_past(void *arg, struct rdb_source *x, const struct rdb_key *key) { return rdb_skip_value(x, key->type); }

/* What comes past, in any order; and of what is claimed that it lies where it lay. */
struct passing_by {
    uint64_t keys, sum, claimed_keys, claimed_sum;
    uint64_t mine, turn; /* chunks: those whose bit is `turn` */
};

static bool visit_past_summing(void *arg, struct rdb_source *x, const struct rdb_key *key) {
    struct passing_by *p = arg;
    const uint8_t *value = x->at;
    struct rdb_source alone;
    if (!rdb_skip_value(x, key->type)) return false;
    uint64_t sum = hash_key(&secret, key->name, key->size) * (key->db + UINT64_C(2)) + (uint64_t)key->expire_at_ms * 31 + key->type;
    p->keys += !key->claimed;
    p->sum += key->claimed ? 0 : sum;
    p->claimed_keys += key->claimed;
    p->claimed_sum += key->claimed ? sum : 0;
    if (!key->claimed) return true;
    require(value <= x->at && x->at <= x->end, "a claimed value does not lie in one place", NULL);
    alone = (struct rdb_source){.at = value, .end = x->at, .offset = x->offset};
    require(rdb_skip_value(&alone, key->type) && alone.at == x->at, "a claimed value can't be read for itself", alone.why);
    return true;
}

static bool claim(void *arg, struct rdb_source *x, uint64_t number, bool *mine) {
    struct passing_by *p = arg;
    (void)x;
    *mine = (p->mine >> number % 64 & 1) == p->turn;
    return true;
}

static bool pass_by(struct passing_by *p, bool shares, bool checks) {
    char text[RDB_WHY_MAX + 64] = "";
    struct rdb_walk w = {.key = visit_past_summing, .arg = p, .checks = checks, .skip_unknown = true};
    w.claims = shares ? claim : NULL;
    bool good = rdb_file_walk(path, &w, text, sizeof text);
    require(good == !*text, "a file and its reason disagree", text);
    return good;
}

static void check_shared(const uint8_t *p, size_t size) {
    uint64_t mine = size ? crc64(0, p, size) : 0;
    struct passing_by all = {0}, first_half = {.mine = mine, .turn = 0}, second_half = {.mine = mine, .turn = 1};
    bool good = pass_by(&all, false, true);
    bool shared = pass_by(&first_half, true, true);
    shared &= pass_by(&second_half, true, false); /* in any case */
    require(shared == good, "who share a file judge it otherwise", NULL);
    if (!good) return;
    require(first_half.keys == second_half.keys && first_half.sum == second_half.sum, "what is in no chunk is not for all", NULL);
    require(all.keys == first_half.keys + first_half.claimed_keys + second_half.claimed_keys &&
            all.sum == first_half.sum + first_half.claimed_sum + second_half.claimed_sum,
        "who share a file find other keys", NULL);
}

static void visit_aux(void *arg, const char *name, size_t name_size, const char *value, size_t value_size) {
    struct visiting *v = arg;
    for (size_t i = 0; i < name_size; i++) v->seen += (uint8_t)name[i];
    for (size_t i = 0; i < value_size; i++) v->seen += (uint8_t)value[i];
}

static void write_file(const uint8_t *p, size_t size) {
    if (ftruncate(file, 0) || pwrite(file, p, size, 0) != (ssize_t)size) abort();
}

static void seal(uint8_t *p, size_t size) {
    if (size < CHECKSUM_BYTES) return;
    uint64_t crc = crc64(0, p, size - CHECKSUM_BYTES);
    for (unsigned i = 0; i < CHECKSUM_BYTES; i++) p[size - CHECKSUM_BYTES + i] = (uint8_t)(crc >> 8 * i);
}

static bool walk(struct visiting *v, rdb_visit_key *visit, const char **why) {
    static char text[RDB_WHY_MAX + 64];
    struct rdb_walk w = {.key = visit, .aux = v->how & HOW_AUX ? visit_aux : NULL, .arg = v, .checks = true, .skip_unknown = true};
    *text = 0;
    bool good = rdb_file_walk(path, &w, text, sizeof text);
    require(good == !*text, "a file and its reason disagree", text);
    *why = text;
    return good;
}

/* Of the file that was written anew: the keys are there. */
static void check_new_file(struct visiting *v) {
    static const uint8_t no_checksum[CHECKSUM_BYTES];
    const char *why;
    struct visiting again = {.how = v->how & (uint8_t)~HOW_TIGHT, .db = UINT32_MAX};
    if (v->timed) memcpy(v->out.bytes, "REDIS0012", 9);
    if (!rdb_put_end(&v->out) || !rdb_put_bytes(&v->out, no_checksum, sizeof no_checksum)) abort();
    seal(v->out.bytes, v->out.length);
    write_file(v->out.bytes, v->out.length);
    require(walk(&again, visit_key, &why), "a file that was written can't be read", why);
    require(again.keys == v->keys, "a file that was written has other keys", NULL);
    rdb_buffer_drop(&again.out);
}

static void try_file(const uint8_t *p, size_t size, uint8_t how) {
    const char *why;
    struct visiting v = {.how = how, .db = UINT32_MAX};
    uint8_t *copy = malloc(size + 1);
    if (!copy) abort();
    memcpy(copy, p, size);
    if (how & HOW_SEAL) seal(copy, size);
    write_file(copy, size);
    check_shared(copy, size);
    free(copy);
    rdb_put_head(&v.out, RDB_VERSION);
    if (walk(&v, visit_key, &why)) {
        struct visiting past = {.how = how};
        require(walk(&past, visit_past, &why), "what can be read can't be read past", why);
        check_new_file(&v);
    }
    rdb_buffer_drop(&v.out);
}

/* ---- libFuzzer's ---- */

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    static const uint8_t seed[32] = {7};
    (void)argc, (void)argv;
    hash_secret_init(&secret, seed);
    budget_init(&budget);
    first = new_shard(&budget);
    second = new_shard(NULL);
    file = memfd_create("rdb", MFD_CLOEXEC);
    if (file < 0) abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (!size) return 0;
    if (*bytes & HOW_FILE) try_file(bytes + 1, size - 1, *bytes);
    else if (*bytes & HOW_FRAME) try_framed(bytes + 1, size - 1, *bytes);
    else try_value(bytes + 1, size - 1, *bytes);
    return 0;
}
