#include "server/debug_populate.h"

#include <stdlib.h>
#include <string.h>

#include "server/command.h"
#include "server/conn.h"
#include "server/route.h"

#define POPULATE_SLICE 768u   /* keys of one slice: less than 100 us */
#define POPULATE_SEEN 4096u   /* numbers of one slice, most of them other shards' */
#define POPULATE_LARGE 65536u /* bytes of a value from which on a slice makes one key: it is made of the system's zeros where it can be */
#define POPULATE_KEY_MAX 512u

static const char value_text[] = "value:";
enum { VALUE_TEXT_SIZE = sizeof value_text - 1 };

/* A key of a group. What all names have in common, prefix and colon, is written once a slice. */
struct populated {
    char name[POPULATE_KEY_MAX + INT64_TEXT_SIZE];
    uint32_t size;
    uint64_t hash;
};

struct population {
    const char *prefix;
    size_t prefix_size;
    int64_t count, size;
    char *value;                      /* size bytes: "value:", a number, zeros */
    char number[2 * INT64_TEXT_SIZE]; /* the next key's; its digits end at INT64_TEXT_SIZE, zeros follow */
    uint32_t first;                   /* of the digits */
    struct populated group[HOP_GROUP];
};

static bool population_of(const struct hop *h, struct population *p, struct reply *r) {
    p->prefix = "key";
    p->prefix_size = 3;
    p->size = -1;
    bool good = parse_int64(h->argv[2].p, h->argv[2].size, &p->count) && p->count >= 0;
    if (h->argc > 5) {
        reply_subcommand_error(r, &h->argv[1], "DEBUG");
        return false;
    }
    if (h->argc > 3) {
        p->prefix = h->argv[3].p;
        p->prefix_size = h->argv[3].size;
    }
    if (h->argc > 4) good &= parse_int64(h->argv[4].p, h->argv[4].size, &p->size) && p->size >= 0 && p->size <= 512 << 20;
    if (!good || p->prefix_size > POPULATE_KEY_MAX - 24) {
        reply_error(r, "ERR value is out of range, must be positive");
        return false;
    }
    return true;
}

static bool is_large(const struct population *p) { return p->size >= POPULATE_LARGE; }

/* What a slice needs to go on with this number. False: no memory. */
static bool begin(struct population *p, int64_t next) {
    p->value = calloc(1, (p->size > 0 && !is_large(p) ? (size_t)p->size : 0) + 64);
    if (!p->value) return false;
    memcpy(p->value, value_text, VALUE_TEXT_SIZE);
    for (uint32_t i = 0; i < HOP_GROUP; i++) {
        memcpy(p->group[i].name, p->prefix, p->prefix_size);
        p->group[i].name[p->prefix_size] = ':';
    }
    char text[INT64_TEXT_SIZE];
    uint32_t digits = format_int64(text, next);
    memset(p->number, 0, sizeof p->number);
    p->first = INT64_TEXT_SIZE - digits;
    memcpy(p->number + p->first, text, digits);
    return true;
}

/* The number becomes one more: mostly one digit changes, and nothing is divided. */
static void count_on(struct population *p) {
    uint32_t i = INT64_TEXT_SIZE - 1;
    while (i >= p->first && p->number[i] == '9') p->number[i--] = '0';
    if (i >= p->first) p->number[i]++;
    else p->number[p->first = i] = '1';
}

static void name_key(const struct shard *s, const struct population *p, struct populated *one) {
    uint32_t before = (uint32_t)p->prefix_size + 1;
    memcpy(one->name + before, p->number + p->first, INT64_TEXT_SIZE); /* zeros behind the digits */
    one->size = before + INT64_TEXT_SIZE - p->first;
    one->hash = hash_key(s->secret, one->name, one->size);
}

static bool make_key(struct shard *s, struct db *db, struct population *p, const struct populated *one) {
    struct key k;
    if (key_find(s, db, one->hash, one->name, one->size, &k)) return true;
    memcpy(p->value + VALUE_TEXT_SIZE, one->name + p->prefix_size + 1, INT64_TEXT_SIZE);
    size_t text = VALUE_TEXT_SIZE + one->size - p->prefix_size - 1;
    if (!is_large(p)) return !key_set_bytes(s, &k, p->value, p->size <= 0 ? text : (size_t)p->size, FORM_ANY, EXPIRY_NONE, KEY_SET);
    char *bytes = key_make_writable(s, &k, (size_t)p->size, false, KEY_SET);
    if (!bytes) return false;
    memcpy(bytes, p->value, text);
    key_after_change(s, &k, KEY_SET);
    return true;
}

/* Names keys for as long as they are this shard's and the group is not full, from this number on; returns the one behind. */
static int64_t name_group(const struct shard *s, const struct db *db, struct population *p, int64_t next, int64_t end, uint32_t *n) {
    uint32_t room = is_large(p) ? 1 : HOP_GROUP;
    for (*n = 0; *n < room && next < end; next++) {
        struct populated *one = &p->group[*n];
        name_key(s, p, one);
        count_on(p);
        struct arg name = {one->name, one->size, 0};
        if (s->shards > 1 && route_shard(route_slot(s->secret, &name, one->hash), s->shards) != s->id) continue;
        table_prefetch_directory(&db->keys, one->hash);
        ++*n;
    }
    return next;
}

/* A slice, from h->state on. False: no memory. */
static bool populate(struct shard *s, struct hop *h, struct population *p) {
    struct db *db = s->dbs[h->db];
    int64_t next = (int64_t)h->state, end = p->count - next < POPULATE_SEEN ? p->count : next + POPULATE_SEEN;
    bool enough = begin(p, next);
    for (uint32_t made = 0, n; made < (is_large(p) ? 1 : POPULATE_SLICE) && enough && next < end; made += n) {
        next = name_group(s, db, p, next, end, &n);
        for (uint32_t i = 0; i < n; i++) table_prefetch_buckets(&db->keys, p->group[i].hash, true, true);
        for (uint32_t i = 0; i < n && enough; i++) enough = make_key(s, db, p, &p->group[i]);
    }
    h->state = (uint64_t)next;
    free(p->value);
    return enough;
}

enum hop_result debug_populate(struct shard *s, struct hop *h, struct reply *r) {
    struct population p;
    if (!population_of(h, &p, r)) return HOP_DONE;
    if (!populate(s, h, &p)) reply_no_memory(r);
    else if ((int64_t)h->state >= p.count) reply_ok(r);
    /* It is not known whether a client that sends no more still reads: this is for one that does. */
    else if (atomic_load_explicit(&((struct conn *)h->origin)->left, memory_order_relaxed))
        reply_error(r, "ERR stopped before all keys were made: the client closed its end");
    else return HOP_AGAIN;
    return HOP_DONE;
}
