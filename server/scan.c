/* Walks over the keys of a database: SCAN, KEYS, RANDOMKEY. */
#include "server/scan.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>

#include "server/field_scan.h"
#include "server/glob.h"
#include "server/keys.h"

/* What a call of SCAN or a slice of KEYS may do, in keys met or buckets walked: 1,000 take 100 to 150 us with 2M keys of 84 B. */
#define WALK_COST_MAX 1000u
/* A key's cost grows with the bytes that are matched and copied. */
#define WALK_COST_BYTES 128u
/* And with the steps that a pattern takes beyond those that most do. */
#define WALK_COST_STEPS 128u
/* Segments between the prefetch of a bucket's entries and the visit. */
#define WALK_AHEAD 4u
/* Expired keys that RANDOMKEY draws, and deletes, before it gives up. */
#define RANDOM_TRIES 1000u

/* --- walking --- */

struct walk {
    const struct shard *s;
    struct reply *r;
    const char *pattern; /* NULL: every key */
    uint32_t pattern_size;
    int type;            /* enum entry_type; ANY_TYPE, NO_TYPE */
    uint32_t met, found; /* keys met, and those replied */
    uint64_t cost;
};
enum { ANY_TYPE = -1, NO_TYPE = -2 };

static void set_pattern(struct walk *w, const struct arg *a) {
    bool all = a->size == 1 && *a->p == '*';
    w->pattern = all ? NULL : a->p;
    w->pattern_size = a->size;
}

static bool matches(struct walk *w, const char *key, uint32_t size) {
    uint64_t steps = 0;
    bool yes = glob_match(w->pattern, w->pattern_size, key, size, false, &steps);
    w->cost += steps / WALK_COST_STEPS;
    return yes;
}

static void visit(void *arg, uint64_t hash_prefix, table_slot *slot) {
    struct walk *w = arg;
    const struct entry *e = table_entry(*slot);
    const char *key = entry_key(e);
    uint32_t size = entry_key_size(e);
    w->met++;
    w->cost += 1 + size / WALK_COST_BYTES;
    if (entry_expired(e, w->s->now_ms)) return;
    if (w->type != ANY_TYPE && (int)entry_type(e) != w->type) return;
    if (w->pattern && !matches(w, key, size)) return;
    reply_bulk(w->r, key, size);
    w->found++;
}

/* Walks until at least count keys were met or enough was done; returns the cursor to go on with, 0 at the end. A walk goes from
 * segment to segment, so the buckets to come are known but for segments that are less deep than the directory. */
static uint64_t walk_on(struct walk *w, const struct table *t, uint64_t cursor, uint64_t count) {
    uint64_t step = (uint64_t)1 << (HASH_DIRECTORY_BITS - t->depth);
    bool ahead = w->s->prefetch != PREFETCH_NONE;
    if (!t->count) return 0;
    do {
        if (ahead) {
            table_prefetch_scan(t, cursor + 2 * WALK_AHEAD * step, false);
            table_prefetch_scan(t, cursor + WALK_AHEAD * step, true);
        }
        cursor = table_scan(t, cursor, visit, w);
        w->cost++;
    } while (cursor && w->met < count && w->cost < WALK_COST_MAX);
    return cursor;
}

/* --- SCAN --- */

#define CURSOR_MASK (((uint64_t)1 << TABLE_CURSOR_BITS) - 1)

/* As lenient as strtoul, which Redis asks: an empty string is 0, a sign is taken. */
bool parse_cursor(const struct arg *a, uint64_t *out) {
    char text[32], *end;
    if (a->size >= sizeof text || (a->size && isspace((unsigned char)*a->p))) return false;
    memcpy(text, a->p, a->size);
    text[a->size] = 0;
    errno = 0;
    *out = strtoull(text, &end, 10);
    return *end == 0 && errno != ERANGE;
}

uint32_t cursor_shard(const struct arg *cursor, uint32_t shards) {
    uint64_t v;
    if (!parse_cursor(cursor, &v)) return 0;
    v >>= TABLE_CURSOR_BITS;
    return v < shards ? (uint32_t)v : 0;
}

static bool parse_scan(const struct hop *h, struct walk *w, uint64_t *cursor, int64_t *count, struct reply *r) {
    if (!scan_cursor(&h->argv[1], cursor, r)) return false;
    *count = 10;
    for (uint32_t i = 2; i < h->argc; i += 2) {
        const struct arg *word = &h->argv[i], *v = word + 1;
        bool has_value = i + 1 < h->argc;
        if (has_value && arg_is(word, "count")) {
            if (!arg_int64(v, count, r)) return false;
            if (*count >= 1) continue;
        } else if (has_value && arg_is(word, "match")) {
            set_pattern(w, v);
            continue;
        } else if (has_value && arg_is(word, "type")) {
            w->type = NO_TYPE;
            for (int t = TYPE_STRING; t <= TYPE_STREAM; t++)
                if (arg_is(v, type_name((enum entry_type)t))) w->type = t;
            continue;
        }
        reply_syntax_error(r);
        return false;
    }
    return true;
}

/* What a piece's reply begins with; then its keys as bulks. */
struct scanned {
    uint64_t next; /* cursor */
    uint64_t found, bytes;
    uint32_t met, cost;
    bool goes_on;
};

/* A later piece's state: what the pieces before it met and did. Never 0. */
static uint64_t state_of(const struct scanned *p) { return (uint64_t)1 << 63 | (uint64_t)p->cost << 31 | p->met; }

/* Walks on this shard: from the cursor, or, if the hop has a state, from the shard's beginning. */
static struct scanned scan_shard(struct shard *s, const struct hop *h, struct walk *w, uint64_t cursor, int64_t count) {
    struct scanned p = {0};
    bool later = h->state;
    if (!later && cursor >> TABLE_CURSOR_BITS != s->id) return p; /* no shard of ours: at the end */
    if (later) {
        w->met = (uint32_t)h->state & INT32_MAX;
        w->cost = h->state >> 31 & UINT32_MAX;
    }
    p.next = walk_on(w, &s->dbs[h->db]->keys, later ? 0 : cursor & CURSOR_MASK, (uint64_t)count);
    p.found = w->found;
    p.met = w->met;
    p.cost = w->cost < UINT32_MAX ? (uint32_t)w->cost : UINT32_MAX;
    if (p.next) {
        p.next |= (uint64_t)s->id << TABLE_CURSOR_BITS;
    } else if (s->id + 1 < s->shards) {
        p.next = (uint64_t)(s->id + 1) << TABLE_CURSOR_BITS;
        p.goes_on = p.met < (uint64_t)count && p.cost < WALK_COST_MAX;
    }
    return p;
}

enum hop_result scan(struct shard *s, struct hop *h, struct reply *r) {
    struct reply keys = {.resp = r->resp};
    struct walk w = {.s = s, .r = &keys, .type = ANY_TYPE};
    uint64_t cursor;
    int64_t count;
    if (!parse_scan(h, &w, &cursor, &count, r)) return HOP_DONE;
    struct scanned p = scan_shard(s, h, &w, cursor, count);
    p.bytes = keys.size;
    if (h->flags & HOP_PIECE) {
        reply_bytes(r, (const char *)&p, sizeof p);
    } else {
        reply_array(r, 2);
        reply_bulk_int(r, (int64_t)p.next);
        reply_array(r, p.found);
    }
    if (keys.size) reply_take(r, &keys, 0, keys.size);
    if (keys.failed) r->failed = true;
    reply_drop(&keys);
    return HOP_DONE;
}

/* False: it is an error (whose text cannot say its own size where a piece does). */
static bool read_piece(const struct reply *piece, struct scanned *p) {
    if (piece->failed || piece->size < sizeof *p) return false;
    memcpy(p, piece->p, sizeof *p);
    return piece->size == sizeof *p + p->bytes;
}

uint64_t scan_goes_on(const struct reply *piece) {
    struct scanned p;
    return read_piece(piece, &p) && p.goes_on ? state_of(&p) : 0;
}

void scan_merge(const struct hop *h, struct reply *const *pieces, uint32_t n, struct reply *r) {
    struct scanned p = {0};
    uint64_t found = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (!read_piece(pieces[i], &p)) {
            reply_take(r, pieces[i], 0, pieces[i]->size);
            if (pieces[i]->failed) r->failed = true;
            return;
        }
        found += p.found;
    }
    reply_array(r, 2);
    reply_bulk_int(r, (int64_t)p.next);
    reply_array(r, found);
    for (uint32_t i = 0; i < n; i++) reply_bytes(r, pieces[i]->p + sizeof p, pieces[i]->size - sizeof p);
}

/* --- KEYS --- */

enum hop_result keys_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct walk w = {.s = s, .r = r, .type = ANY_TYPE};
    struct list_chunk chunk = {0};
    size_t start = r->size;
    set_pattern(&w, &h->argv[1]);
    reply_bytes(r, (const char *)&chunk, sizeof chunk);
    h->state = walk_on(&w, &s->dbs[h->db]->keys, h->state, UINT64_MAX);
    if (r->failed) return HOP_DONE;
    chunk = (struct list_chunk){w.found, r->size - start - sizeof chunk};
    memcpy(r->p + start, &chunk, sizeof chunk);
    return h->state ? HOP_AGAIN : HOP_DONE;
}

/* --- RANDOMKEY --- */

/* A piece's reply: this, and the bytes of a key, if there is any. */
struct draw {
    uint64_t keys, random;
};

static uint64_t next_random(void *s) { return shard_random(s); }

enum hop_result randomkey_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct db *db = s->dbs[h->db];
    struct draw draw = {.random = shard_random(s)};
    const struct entry *e = NULL;
    for (unsigned i = 0; i < RANDOM_TRIES && !e; i++) {
        table_slot *slot = table_random(&db->keys, next_random, s);
        if (!slot) break;
        e = table_entry(*slot);
        struct key k;
        if (entry_expired(e, s->now_ms)) {
            key_look(s, db, db->keys.hash(db->keys.hash_arg, e), entry_key(e), entry_key_size(e), &k);
            e = NULL;
        }
    }
    if (e) draw.keys = db->keys.count;
    reply_bytes(r, (const char *)&draw, sizeof draw);
    if (e) reply_bytes(r, entry_key(e), entry_key_size(e));
    return HOP_DONE;
}

/* A shard's key is taken with the weight of the shard's keys. */
void randomkey_merge(const struct hop *h, struct reply *const *pieces, uint32_t n, struct reply *r) {
    struct draw draw;
    uint64_t keys = 0, random = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (pieces[i]->size < sizeof draw) continue;
        memcpy(&draw, pieces[i]->p, sizeof draw);
        keys += draw.keys;
        random ^= draw.random;
    }
    uint64_t at = keys ? random % keys : 0;
    for (uint32_t i = 0; i < n; i++) {
        if (pieces[i]->size < sizeof draw) continue;
        memcpy(&draw, pieces[i]->p, sizeof draw);
        if (at < draw.keys) {
            reply_bulk(r, pieces[i]->p + sizeof draw, pieces[i]->size - sizeof draw);
            return;
        }
        at -= draw.keys;
    }
    reply_null(r);
}
