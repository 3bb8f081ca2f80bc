/* A digest is 20 bytes, into which others go in two ways: mixed, where their order counts, or with exclusive or, where it does not. */
#include "server/debug_digest.h"

#include <arpa/inet.h>
#include <sha1.h>
#include <stdio.h>
#include <string.h>

#include "server/keys.h"
#include "shard/container.h"
#include "shard/list.h"
#include "shard/set.h"
#include "shard/zset.h"

#define DIGEST_BYTES ((unsigned)SHA1_DIGEST_LENGTH)

static void hash(const void *bytes, size_t n, uint8_t out[DIGEST_BYTES]) {
    SHA1_CTX sha1;
    SHA1Init(&sha1);
    SHA1Update(&sha1, bytes, n);
    SHA1Final(out, &sha1);
}

static void xor_bytes(uint8_t digest[DIGEST_BYTES], const void *bytes, size_t n) {
    uint8_t of[DIGEST_BYTES];
    hash(bytes, n, of);
    for (unsigned i = 0; i < DIGEST_BYTES; i++) digest[i] ^= of[i];
}

static void mix_bytes(uint8_t digest[DIGEST_BYTES], const void *bytes, size_t n) {
    xor_bytes(digest, bytes, n);
    hash(digest, DIGEST_BYTES, digest);
}

static void mix_number(uint8_t digest[DIGEST_BYTES], uint32_t number) {
    uint32_t big = htonl(number);
    mix_bytes(digest, &big, sizeof big);
}

/* Of a pair, whose place among the others does not count. */
static void xor_pair(uint8_t digest[DIGEST_BYTES], const char *a, size_t a_size, const char *b, size_t b_size) {
    uint8_t pair[DIGEST_BYTES] = {0};
    mix_bytes(pair, a, a_size);
    mix_bytes(pair, b, b_size);
    xor_bytes(digest, pair, sizeof pair);
}

/* ---- values ---- */

static void mix_string(uint8_t digest[DIGEST_BYTES], const struct entry *e) {
    char scratch[INT64_TEXT_SIZE];
    size_t size;
    const char *text = entry_string(e, scratch, &size);
    mix_bytes(digest, text, size);
}

static void mix_list(uint8_t digest[DIGEST_BYTES], struct shard *s, const struct entry *e) {
    struct list l = list_view(s->memory, entry_encoding(e), entry_pointer(e));
    struct list_walk w = list_walk_from(&l, 0, LIST_TAIL);
    struct list_item item;
    char scratch[INT64_TEXT_SIZE];
    while (list_next(&l, &w, &item)) {
        uint32_t size;
        const char *text = list_text(&item, scratch, &size);
        mix_bytes(digest, text, size);
    }
}

static void mix_set(uint8_t digest[DIGEST_BYTES], struct shard *s, const struct key *k) {
    struct set set = set_open(s, k);
    struct set_walk w = {0};
    struct set_item item;
    char scratch[INT64_TEXT_SIZE];
    while (set_next(&set, &w, &item)) {
        uint32_t size;
        const char *text = set_text(&item, scratch, &size);
        xor_bytes(digest, text, size);
    }
}

static void mix_zset(uint8_t digest[DIGEST_BYTES], struct shard *s, const struct entry *e) {
    struct zset z = zset_of(s->memory, s->secret, entry_encoding(e), entry_pointer(e));
    struct fields members = zset_fields(&z);
    struct fields_walk w = {0};
    struct field m;
    char scratch[INT64_TEXT_SIZE], score[128];
    while (fields_next(&members, &w, &m)) {
        uint32_t size;
        const char *text = packed_text(m.name, scratch, &size);
        xor_pair(digest, text, size, score, (size_t)snprintf(score, sizeof score, "%.17g", zset_field_score(&m)));
    }
}

static void mix_hash(uint8_t digest[DIGEST_BYTES], struct shard *s, const struct entry *e) {
    static const char expires[] = "!!hexpire!!";
    struct fields fields = container_fields(s, e);
    struct fields_walk w = {0};
    struct field f;
    char name_scratch[INT64_TEXT_SIZE], scratch[INT64_TEXT_SIZE];
    while (fields_next(&fields, &w, &f)) {
        if (f.expires_at_ms < s->now_ms) continue;
        uint32_t name_size, size;
        const char *name = packed_text(f.name, name_scratch, &name_size), *value = packed_text(f.value, scratch, &size);
        xor_pair(digest, name, name_size, value, size);
        if (f.expires_at_ms != FIELD_NEVER) xor_bytes(digest, expires, sizeof expires - 1);
    }
}

static void mix_value(uint8_t digest[DIGEST_BYTES], struct shard *s, const struct key *k) {
    static const char expires[] = "!!expire!!";
    mix_number(digest, (uint32_t)entry_type(k->entry));
    switch (entry_type(k->entry)) {
    case TYPE_STRING: mix_string(digest, k->entry); break;
    case TYPE_LIST: mix_list(digest, s, k->entry); break;
    case TYPE_SET: mix_set(digest, s, k); break;
    case TYPE_ZSET: mix_zset(digest, s, k->entry); break;
    case TYPE_HASH: mix_hash(digest, s, k->entry); break;
    case TYPE_STREAM: break;
    }
    if (entry_expires(k->entry)) xor_bytes(digest, expires, sizeof expires - 1);
}

static void reply_digest(struct reply *r, const uint8_t digest[DIGEST_BYTES]) {
    char text[2 * DIGEST_BYTES + 1];
    for (unsigned i = 0; i < DIGEST_BYTES; i++) snprintf(text + 2 * (size_t)i, 3, "%02x", digest[i]);
    reply_status(r, text);
}

enum hop_result debug_digest_value(struct shard *s, struct hop *h, struct reply *r) {
    if (!(h->flags & HOP_PIECE)) reply_array(r, h->n_keys);
    for (uint32_t i = 0; i < h->n_keys; i++) {
        const struct arg *name = hop_key(h, i);
        uint8_t digest[DIGEST_BYTES] = {0};
        struct key k;
        if (key_look(s, s->dbs[h->db], hop_hash(h, i), name->p, name->size, &k)) mix_value(digest, s, &k);
        reply_digest(r, digest);
    }
    return HOP_DONE;
}

/* ---- all data ---- */

struct database_digest {
    struct shard *shard;
    uint8_t *digest;
    uint32_t db;
    bool any; /* a key was met */
};

static void begin_database(struct database_digest *d) {
    if (!d->any) mix_number(d->digest, d->db);
    d->any = true;
}

static void visit(void *arg, uint64_t hash_prefix, table_slot *slot) {
    struct database_digest *d = arg;
    struct key k = {.entry = table_entry(*slot)};
    uint8_t digest[DIGEST_BYTES] = {0};
    (void)hash_prefix;
    if (entry_expired(k.entry, d->shard->now_ms)) return;
    begin_database(d);
    mix_bytes(digest, entry_key(k.entry), entry_key_size(k.entry));
    mix_value(digest, d->shard, &k);
    xor_bytes(d->digest, digest, sizeof digest);
}

void debug_digest(const struct spread *x, struct hop *h, struct reply *r) {
    uint8_t digest[DIGEST_BYTES] = {0};
    (void)h;
    for (uint32_t db = 0; db < x->shards[0]->n_dbs; db++) {
        struct database_digest d = {.digest = digest, .db = db};
        for (uint32_t i = 0; i < x->n; i++) {
            const struct table *t = &x->shards[i]->dbs[db]->keys;
            d.shard = x->shards[i];
            for (uint64_t cursor = 0; t->count && ((cursor = table_scan(t, cursor, visit, &d)));) {}
        }
    }
    reply_digest(r, digest);
}
