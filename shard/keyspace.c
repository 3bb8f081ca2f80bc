/* In this file: looking up; values as they will be kept; what they take of the budget; putting an entry in its place; setting, growing, copying, moving, deleting. */
#include "shard/keyspace.h"

#include <assert.h>
#include <errno.h>
#include <mimalloc.h>

#include "shard/batch.h"
#include "shard/blob.h"
#include "shard/container.h"
#include "shard/expire.h"
#include "shard/field_expiry.h"
#include "shard/likely.h"
#include "shard/memory.h"
#include "shard/snapshot.h"

/* Growth of a string that is appended to: by its own size, and from here on by an eighth, so that the bytes copied stay in proportion. */
#define SPARE_DOUBLING_MAX (1u << 20)
/* Fields past their time that a lookup takes out: some 20 us. */
#define FIELDS_AT_ONCE 128u

void key_tell(struct shard *s, const struct key *k) {
    if (s->watches.n) watch_touch(s, k);
    if (s->waits.n) wait_touch(s, k);
}

void key_image(struct shard *s, struct key *k) { snapshot_image(s, k->db, key_slot(k)); }

/* key_before_change of a key whose entry goes as it is, to drop_left(). */
static inline void before_leaving(struct shard *s, struct key *k) {
    if (UNLIKELY(s->snapshot != NULL) && k->entry) snapshot_leaves(s, k->db, key_slot(k));
}

static inline void drop_left(struct shard *s, struct entry *e) {
    if (UNLIKELY(s->snapshot != NULL) && snapshot_keeps(s, e)) return;
    entry_drop(s->memory, e, &s->trash);
}

/* --- looking up --- */

/* Past its time: gone to its reader, and as we are here, for good. The record in the wheel stays behind. */
static __attribute__((noinline, cold)) void expire_now(struct shard *s, struct key *k, bool reads) {
    /* Only hidden from who reads: during CLIENT PAUSE; and while a transaction, which may be at an earlier time, has an intent on it. Who writes (and was under way
     * when the pause began) might insert it again. */
    if (reads && (s->hide_expired || schedule_conflicts(&s->schedule, INTENT_DB, k->hash, true))) {
        k->slot = NULL;
        k->entry = NULL;
        return;
    }
    key_delete(s, k, KEY_EXPIRED);
    s->wheel_stale++;
    s->stats.expired_lazy++;
}

/* Of a hash: fields past their time are taken out, as many as make no pause; those that are left are hidden by whoever reads fields. False: it is gone. */
static __attribute__((noinline, cold)) bool expire_fields_now(struct shard *s, struct key *k, bool reads) {
    if (reads && (s->hide_expired || schedule_conflicts(&s->schedule, INTENT_DB, k->hash, true))) return true;
    key_expire_fields(s, k, FIELDS_AT_ONCE);
    s->wheel_stale++;
    return k->entry;
}

static inline bool look_up(struct shard *s, struct db *db, uint64_t hash, const char *name, uint32_t size, struct key *k, bool reads) {
    table_slot *slot = table_find(&db->keys, hash, name, size);
    *k = (struct key){.db = db, .hash = hash, .name = name, .size = size, .slot = slot};
    if (!slot) return false;
    k->entry = table_entry(*slot);
    if (LIKELY(!(k->entry->kind & (ENTRY_TYPE | ENTRY_EXPIRES)))) return true; /* a string without a time */
    if (UNLIKELY(entry_expired(k->entry, s->now_ms))) {
        expire_now(s, k, reads);
        return false;
    }
    return LIKELY(!k->entry->value_size) || !fields_are_due(s, k->entry) || expire_fields_now(s, k, reads);
}

/* The line is written only when the clock has moved on. */
static inline void touch(const struct shard *s, const struct hop *h, struct entry *e) {
    uint8_t now = entry_access_at(s->now_ms);
    if (e->access != now && !(h->flags & HOP_NO_TOUCH)) e->access = now;
}

static inline bool peek_key(struct shard *s, const struct hop *h, uint64_t hash, const struct arg *name, struct key *k) {
    bool found = look_up(s, s->dbs[h->db], hash, name->p, name->size, k, true);
    s->stats.hits += found;
    s->stats.misses += !found;
    return found;
}

static inline bool read_key(struct shard *s, const struct hop *h, uint64_t hash, const struct arg *name, struct key *k) {
    if (!peek_key(s, h, hash, name, k)) return false;
    touch(s, h, k->entry);
    return true;
}

static inline bool write_key(struct shard *s, const struct hop *h, uint64_t hash, const struct arg *name, struct key *k) {
    if (!look_up(s, s->dbs[h->db], hash, name->p, name->size, k, false)) return false;
    touch(s, h, k->entry);
    return true;
}

bool key_read(struct shard *s, const struct hop *h, struct key *k) { return read_key(s, h, h->hash, hop_key(h, 0), k); }
bool key_write(struct shard *s, const struct hop *h, struct key *k) { return write_key(s, h, h->hash, hop_key(h, 0), k); }

bool key_read_nth(struct shard *s, const struct hop *h, uint32_t n, struct key *k) {
    return read_key(s, h, hop_hash(h, n), hop_key(h, n), k);
}
bool key_peek_nth(struct shard *s, const struct hop *h, uint32_t n, struct key *k) {
    return peek_key(s, h, hop_hash(h, n), hop_key(h, n), k);
}
bool key_write_nth(struct shard *s, const struct hop *h, uint32_t n, struct key *k) {
    return write_key(s, h, hop_hash(h, n), hop_key(h, n), k);
}

bool key_find(struct shard *s, struct db *db, uint64_t hash, const char *name, uint32_t size, struct key *k) {
    return look_up(s, db, hash, name, size, k, false);
}

bool key_look(struct shard *s, struct db *db, uint64_t hash, const char *name, uint32_t size, struct key *k) {
    return look_up(s, db, hash, name, size, k, true);
}

bool key_look_again(struct shard *s, struct db *db, uint64_t hash, const char *name, uint32_t size, struct key *k) {
    bool hidden = s->hide_expired;
    s->hide_expired = true;
    bool found = look_up(s, db, hash, name, size, k, true);
    s->hide_expired = hidden;
    return found;
}

table_slot *key_slot(struct key *k) {
    if (UNLIKELY(!k->slot)) k->slot = table_find(&k->db->keys, k->hash, k->name, k->size);
    assert(k->slot && table_entry(*k->slot) == k->entry);
    return k->slot;
}

void key_prefetch_group(const struct shard *s, const struct hop *h, uint32_t first) {
    const struct table *t = &s->dbs[h->db]->keys;
    const struct entry *entries[HOP_GROUP];
    uint32_t n = h->n_keys - first < HOP_GROUP ? h->n_keys - first : HOP_GROUP;
    const uint64_t *hashes = h->hashes + first;
    if (s->prefetch == PREFETCH_NONE || n < BATCH_MIN) return;
    for (uint32_t i = 0; i < n; i++) {
        __builtin_prefetch(hop_key(h, first + i)->p);
        table_prefetch_directory(t, hashes[i]);
    }
    for (uint32_t i = 0; i < n; i++) table_prefetch_buckets(t, hashes[i], s->prefetch >= PREFETCH_BUCKET_PROBE, h->flags & HOP_WRITE);
    if (s->prefetch < PREFETCH_ENTRY) return;
    for (uint32_t i = 0; i < n; i++) entries[i] = table_prefetch_entry(t, hashes[i]);
    if (s->prefetch < PREFETCH_FULL) return;
    for (uint32_t i = 0; i < n; i++)
        if (entries[i]) batch_prefetch_value(entries[i], h->flags & HOP_VALUE);
}

/* --- values --- */

/* A string value on its way into an entry. */
struct value {
    const char *p; /* the bytes that will be embedded or copied into a blob; not if it is adopted */
    size_t size;
    enum entry_encoding encoding;
    struct blob *adopted; /* a received blob that will be the value */
    char packed[8];
};

/* Whether v's first byte may begin an integer: most values end here. */
static inline bool may_be_int(const char *p, size_t size) {
    return size - 1 < INT64_TEXT_SIZE - 1 && ((unsigned char)(*p - '0') <= 9 || *p == '-');
}

static inline void pack_int(struct value *v, int64_t n) {
    v->size = entry_pack_int(n, v->packed);
    v->p = v->packed;
    v->encoding = ENC_INT;
}

static inline void value_of_bytes(struct value *v, const char *p, size_t size, enum key_form form) {
    int64_t n;
    v->p = p;
    v->size = size;
    v->adopted = NULL;
    v->encoding = size > ENTRY_EMBEDDED_MAX ? ENC_BLOB : form == FORM_RAW ? ENC_RAW : ENC_EMBEDDED;
    if (form == FORM_ANY && may_be_int(p, size) && parse_int64(p, size, &n)) pack_int(v, n);
}

static struct blob *blob_of_arg(const struct arg *a) { return (struct blob *)(uintptr_t)(a->p - offsetof(struct blob, bytes)); }

/* The blob that will hold v. The arg keeps its own until all went well. */
static struct blob *make_blob(struct shard *s, const struct value *v) {
    if (v->adopted) return v->adopted;
    struct blob *b = blob_new(s->memory, s->id, v->size, v->size);
    if (b) memcpy(b->bytes, v->p, v->size);
    return b;
}

static size_t value_blob_memory(const struct value *v) { return v->adopted ? blob_memory(v->adopted) : blob_memory_for(v->size); }

static void unmake_blob(struct shard *s, const struct value *v, struct blob *b) {
    if (b && !v->adopted) blob_release(s->memory, b);
}

static void adopt(struct shard *s, const struct value *v) {
    if (!v->adopted) return;
    v->adopted->size = v->size;
    blob_adopt(s->memory, v->adopted, s->id);
}

/* --- the budget --- */

/* What a record of the wheel may take at most: a new chunk. */
#define RECORD_BYTES 544u

/* Bytes of an entry with this key and embedded value (or pointer), before they are rounded down to a multiple of 4. */
static inline size_t entry_bytes(uint32_t key_size, int64_t at_ms, size_t value_size) {
    size_t head = ENTRY_HEADER + (key_size > UINT8_MAX ? sizeof(uint32_t) : 0);
    size_t bytes = head + (at_ms == EXPIRY_NONE ? 0 : 8 + RECORD_BYTES) + key_size + value_size;
    return (bytes < 8 ? 8 : bytes) + 3; /* no block is smaller */
}

/* Bytes that come back when a blob is replaced: none while somebody else refers to it. */
static size_t blob_gives(const struct blob *b) { return b->refs > 1 ? 0 : blob_memory(b); }

/* Bytes that come back when the entry is replaced. */
static size_t entry_gives(const struct entry *e) {
    const struct blob *b = entry_blob(e);
    size_t gives = memory_usable_packed(entry_size(e)) + (b ? blob_gives(b) : 0);
    if (UNLIKELY(entry_type(e) != TYPE_STRING) && !container_is_large(e)) gives += container_memory(e);
    return gives;
}

/* Whether the key may take so many bytes instead of what it takes now. */
static inline bool fits(struct shard *s, const struct key *k, size_t bytes) {
    if (LIKELY(!k->entry)) return shard_fits(s, bytes);
    size_t back = entry_gives(k->entry);
    return (bytes & ~(size_t)3) <= back || shard_fits(s, bytes - back);
}

/* New keys that split one segment, at most about. */
#define KEYS_A_SPLIT 64u

static size_t bytes_for(uint32_t key_size, size_t value_size) {
    bool embedded = value_size <= ENTRY_EMBEDDED_MAX;
    return entry_bytes(key_size, EXPIRY_NONE, embedded ? value_size : 8) + (embedded ? 0 : blob_memory_for(value_size));
}

/* So many new keys may split segments, as the hashes fall. An estimate: who asks for it is not refused afterwards. */
static uint64_t segments_for(uint64_t keys) { return (keys / KEYS_A_SPLIT + (keys != 0)) * TABLE_SEGMENT_BYTES; }

uint64_t keys_set_most(const struct arg *argv, uint32_t first, uint32_t step, uint32_t n) {
    uint64_t bytes = segments_for(n);
    for (uint32_t i = 0; i < n; i++) {
        const struct arg *key = &argv[hop_key_at(first, step, i)];
        bytes += bytes_for(key[0].size, key[1].size);
    }
    return bytes;
}

uint64_t key_set_all_needs(struct shard *s, const struct hop *h) {
    uint64_t bytes = 0, created = 0;
    for (uint32_t i = 0; i < h->n_keys; i++) {
        const struct arg *key = hop_key(h, i);
        struct key k;
        key_prefetch_ahead(s, h, i);
        size_t needs = bytes_for(key[0].size, key[1].size);
        if (!look_up(s, s->dbs[h->db], hop_hash(h, i), key[0].p, key[0].size, &k, false)) {
            bytes += needs;
            created++;
        } else if ((needs & ~(size_t)3) > entry_gives(k.entry)) bytes += needs - entry_gives(k.entry);
    }
    return bytes + segments_for(created);
}

bool key_may_set_all(struct shard *s, const struct hop *h) {
    if (LIKELY(s->leased == BUDGET_NONE) || shard_fits(s, keys_set_most(h->argv, h->key_first, h->key_step, h->n_keys))) return true;
    return shard_fits(s, key_set_all_needs(s, h));
}

/* --- an entry's place --- */

/* Has the wheel hold a record that fires by at_ms, as far as the record that the key's old time armed does not serve. */
static inline int arm(struct shard *s, const struct key *k, int64_t old_at_ms, int64_t at_ms) {
    if (LIKELY(at_ms == EXPIRY_NONE) || at_ms >= old_at_ms) return 0;
    return wheel_add(&s->wheel, at_ms, wheel_record(k->hash, k->db->id)) ? -ENOMEM : 0;
}

/* The record of a key that was due at another time will be of no use. */
static inline void count_stale(struct shard *s, int64_t old_due_ms, int64_t due_ms) {
    if (old_due_ms != EXPIRY_NONE && (due_ms == EXPIRY_NONE || due_ms < old_due_ms)) s->wheel_stale++;
}

/* Of something that had a time, or has one now. */
static inline void count_time(uint64_t *n, int64_t old_at_ms, int64_t at_ms) {
    *n += (uint64_t)(at_ms != EXPIRY_NONE) - (uint64_t)(old_at_ms != EXPIRY_NONE);
}

/* The counts, once the key's own time has changed, which is all that it has. */
static inline void count_expiry(struct shard *s, const struct key *k, int64_t old_at_ms, int64_t at_ms) {
    if (LIKELY(old_at_ms == at_ms)) return;
    count_time(&k->db->expiring, old_at_ms, at_ms);
    count_stale(s, old_at_ms, at_ms);
}

/* What an entry's times are; of none: never. */
struct times {
    int64_t own_ms, fields_ms, due_ms;
};

static inline struct times times_of(const struct entry *e) {
    struct times t = {EXPIRY_NONE, EXPIRY_NONE, EXPIRY_NONE};
    if (e) t = (struct times){entry_expiry(e), entry_fields_time(e), entry_due(e)};
    return t;
}

static inline void count_times(struct shard *s, const struct key *k, const struct times *old, const struct times *now) {
    count_time(&k->db->expiring, old->own_ms, now->own_ms);
    count_time(&k->db->timed, old->fields_ms, now->fields_ms);
    count_stale(s, old->due_ms, now->due_ms);
}

static inline int64_t expiry_of(const struct entry *e) { return e ? entry_expiry(e) : EXPIRY_NONE; }

/* Links n in: instead of the key's entry, which is dropped, or as a new one. On failure n is still the caller's. */
static int place(struct shard *s, struct key *k, struct entry *n) {
    struct entry *old = k->entry;
    const struct times was = times_of(old), is = times_of(n);
    if (arm(s, k, was.due_ms, is.due_ms)) return -ENOMEM;
    before_leaving(s, k);
    if (old) {
        table_replace(key_slot(k), n);
        drop_left(s, old);
    } else if (table_insert(&k->db->keys, k->hash, n)) {
        if (is.due_ms != EXPIRY_NONE) s->wheel_stale++;
        return -ENOMEM;
    }
    n->access = entry_access_at(s->now_ms);
    k->entry = n;
    count_times(s, k, &was, &is);
    return 0;
}

/* What most new keys are: short, without a time, and their value embedded. put_new() would do the same with more questions. Not inlined: where gcc knows that a size
 * is below 256 it copies with rep movs, which takes longer to start than memcpy to end. */
static __attribute__((noinline)) int put_short(struct shard *s, struct key *k, const struct value *v, enum key_event event) {
    size_t size = ENTRY_HEADER + k->size + v->size;
    if (!shard_fits(s, size + 7)) return -ENOMEM;
    struct entry *e = memory_alloc_packed(s->memory, size);
    if (!e) return -ENOMEM;
    entry_write_short(e, ENTRY_KIND(TYPE_STRING, v->encoding), entry_access_at(s->now_ms), k->name, k->size, v->p, v->size);
    key_before_change(s, k, event);
    if (table_insert(&k->db->keys, k->hash, e)) {
        memory_free(s->memory, e, size);
        return -ENOMEM;
    }
    k->entry = e;
    key_after_change(s, k, event);
    return 0;
}

/* A new entry for v at the key. */
static __attribute__((noinline)) int put_new(struct shard *s, struct key *k, const struct value *v, int64_t at_ms, enum key_event event) {
    bool embedded = v->encoding != ENC_BLOB;
    if (!fits(s, k, entry_bytes(k->size, at_ms, embedded ? v->size : 8) + (embedded ? 0 : value_blob_memory(v)))) return -ENOMEM;
    struct blob *b = embedded ? NULL : make_blob(s, v);
    if (!embedded && !b) return -ENOMEM;
    struct entry *n = entry_new(s->memory, k->name, k->size, ENTRY_KIND(TYPE_STRING, v->encoding), at_ms, embedded ? (uint8_t)v->size : 0);
    if (!n) goto no_memory;
    if (embedded) memcpy(entry_value(n), v->p, v->size);
    else entry_write_pointer(n, b);
    if (place(s, k, n)) goto no_memory;
    adopt(s, v);
    key_after_change(s, k, event);
    return 0;

no_memory:
    if (n) memory_free(s->memory, n, entry_size(n));
    unmake_blob(s, v, b);
    return -ENOMEM;
}

/* The value behind e's pointer gives way to v: into the same block if it fits. */
static int put_blob(struct shard *s, struct key *k, const struct value *v, int64_t at_ms, enum key_event event) {
    struct entry *e = k->entry;
    struct blob *old = entry_blob(e);
    bool in_place = !v->adopted && blob_fits(old, v->size);
    size_t back = blob_gives(old), bytes = in_place ? back : value_blob_memory(v);
    bytes += at_ms < expiry_of(k->entry) ? RECORD_BYTES : 0;
    if (bytes > back && !shard_fits(s, bytes - back)) return -ENOMEM;
    struct blob *b = in_place ? old : make_blob(s, v);
    int64_t old_at_ms = entry_expiry(e);
    if (!b) return -ENOMEM;
    if (arm(s, k, old_at_ms, at_ms)) {
        if (!in_place) unmake_blob(s, v, b);
        return -ENOMEM;
    }
    key_before_change(s, k, event);
    if (in_place) {
        memcpy(b->bytes, v->p, v->size);
        b->size = v->size;
    } else {
        adopt(s, v);
        blob_release(s->memory, old);
        entry_write_pointer(e, b);
    }
    if (at_ms != EXPIRY_NONE) entry_write_expiry(e, at_ms);
    count_expiry(s, k, old_at_ms, at_ms);
    key_after_change(s, k, event);
    return 0;
}

/* Whether e's block can take an embedded value of this size instead of the one that it has. */
static inline bool fits_embedded(const struct entry *e, size_t size) {
    if (!entry_is_embedded(e)) return false;
    if (LIKELY(e->value_size == size)) return true;
    size_t now = entry_size(e);
    return memory_usable_packed(now) == memory_usable_packed(now - e->value_size + size);
}

static inline int put(struct shard *s, struct key *k, const struct value *v, int64_t expire_at_ms, enum key_event event) {
    struct entry *e = k->entry;
    int64_t old_at_ms = expiry_of(e), at_ms = expire_at_ms == EXPIRY_KEEP ? old_at_ms : expire_at_ms;
    if (!e && LIKELY(at_ms == EXPIRY_NONE && v->encoding != ENC_BLOB && k->size <= UINT8_MAX)) return put_short(s, k, v, event);
    if (!e || entry_expires(e) != (at_ms != EXPIRY_NONE)) return put_new(s, k, v, at_ms, event);
    if (UNLIKELY(v->encoding == ENC_BLOB)) {
        bool over = entry_blob(e) && !(UNLIKELY(s->snapshot != NULL) && snapshot_would_keep(s, k->db, *key_slot(k)));
        return over ? put_blob(s, k, v, at_ms, event) : put_new(s, k, v, at_ms, event);
    }
    if (!fits_embedded(e, v->size)) return put_new(s, k, v, at_ms, event);
    if (UNLIKELY(at_ms < old_at_ms) && !shard_fits(s, RECORD_BYTES)) return -ENOMEM;
    if (arm(s, k, old_at_ms, at_ms)) return -ENOMEM;

    key_before_change(s, k, event);
    if (at_ms != EXPIRY_NONE) entry_write_expiry(e, at_ms);
    e->kind = (e->kind & (ENTRY_EXPIRES | ENTRY_LONG_KEY)) | ENTRY_KIND(TYPE_STRING, v->encoding);
    e->value_size = (uint8_t)v->size;
    memcpy(entry_value(e), v->p, v->size);
    count_expiry(s, k, old_at_ms, at_ms);
    key_after_change(s, k, event);
    return 0;
}

/* --- setting --- */

/* What most SETs find: a short key without a time, with text of just this size; and they bring text. All of put()'s questions in one comparison. */
static inline bool put_same(struct shard *s, struct key *k, const struct arg *a, enum key_event event) {
    struct entry *e = k->entry;
    if (!e || e->kind != ENTRY_KIND(TYPE_STRING, ENC_EMBEDDED) || e->value_size != a->size || may_be_int(a->p, a->size)) return false;
    key_before_change(s, k, event);
    memcpy(e->rest + e->key_size, a->p, a->size);
    key_after_change(s, k, event);
    return true;
}

int key_set_arg(struct shard *s, struct key *k, struct arg *a, int64_t expire_at_ms, enum key_event event) {
    struct value v;
    if (LIKELY(expire_at_ms == EXPIRY_NONE) && put_same(s, k, a, event)) return 0;
    value_of_bytes(&v, a->p, a->size, FORM_ANY);
    if (UNLIKELY(a->flags & ARG_BLOB) && v.encoding == ENC_BLOB) v.adopted = blob_of_arg(a);
    int refused = put(s, k, &v, expire_at_ms, event);
    if (!refused && v.adopted) a->flags &= ~(uint32_t)ARG_BLOB;
    return refused;
}

int key_set_bytes(
    struct shard *s, struct key *k, const char *p, size_t size, enum key_form form, int64_t expire_at_ms, enum key_event event) {
    struct value v;
    value_of_bytes(&v, p, size, form);
    return put(s, k, &v, expire_at_ms, event);
}

int key_set_int(struct shard *s, struct key *k, int64_t n, int64_t expire_at_ms, enum key_event event) {
    struct value v = {0};
    pack_int(&v, n);
    return put(s, k, &v, expire_at_ms, event);
}

/* --- growing --- */

static size_t with_spare(size_t size) {
    return size + (size < SPARE_DOUBLING_MAX ? size : size / 8 > SPARE_DOUBLING_MAX ? size / 8 : SPARE_DOUBLING_MAX);
}

/* A raw entry of size bytes that begins with the key's old value; zeros follow. */
static struct entry *grown_entry(struct shard *s, const struct key *k, size_t size, bool spare) {
    char scratch[INT64_TEXT_SIZE];
    size_t old_size = 0;
    const char *old = k->entry ? key_string(k, scratch, &old_size) : "";
    bool embedded = size <= ENTRY_EMBEDDED_MAX;
    size_t bytes = entry_bytes(k->size, expiry_of(k->entry), embedded ? size : 8);
    spare = spare && !embedded && fits(s, k, bytes + blob_memory_for(with_spare(size)));
    if (!spare && !fits(s, k, bytes + (embedded ? 0 : blob_memory_for(size)))) return NULL;
    struct blob *b = embedded ? NULL : blob_new(s->memory, s->id, size, spare ? with_spare(size) : size);
    if (!embedded && !b && spare) b = blob_new(s->memory, s->id, size, size);
    if (!embedded && !b) return NULL;
    struct entry *n = entry_new(s->memory, k->name, k->size, ENTRY_KIND(TYPE_STRING, embedded ? ENC_RAW : ENC_BLOB), expiry_of(k->entry),
        embedded ? (uint8_t)size : 0);
    if (!n) {
        if (b) blob_release(s->memory, b);
        return NULL;
    }
    if (b) entry_write_pointer(n, b);
    size_t kept = old_size < size ? old_size : size;
    memcpy(b ? b->bytes : entry_value(n), old, kept);
    if (b) blob_zero(b, kept, size);
    else memset(entry_value(n) + kept, 0, size - kept);
    return n;
}

/* A blob that has room for size bytes, or that can be made to have it without copying; else NULL. */
static struct blob *roomy_blob(struct shard *s, struct entry *e, size_t size) {
    struct blob *b = entry_blob(e);
    if (!b || b->refs > 1 || size <= ENTRY_EMBEDDED_MAX) return NULL;
    if (size <= b->capacity) return b;
    if (!blob_can_grow(b)) return NULL;
    size_t now = blob_memory(b);
    struct blob *grown = shard_fits(s, blob_memory_for(with_spare(size)) - now) ? blob_grow(s->memory, b, with_spare(size)) : NULL;
    if (!grown && shard_fits(s, blob_memory_for(size) - now)) grown = blob_grow(s->memory, b, size);
    if (grown) entry_write_pointer(e, grown);
    return grown;
}

char *key_make_writable(struct shard *s, struct key *k, size_t size, bool spare, enum key_event event) {
    struct entry *e = k->entry;
    struct blob *b = e ? roomy_blob(s, e, size) : NULL;
    if (b) {
        key_before_change(s, k, event);
        if (size > b->size) blob_zero(b, b->size, size);
        b->size = size;
        return b->bytes;
    }
    if (e && size <= ENTRY_EMBEDDED_MAX && entry_encoding(e) != ENC_INT && fits_embedded(e, size)) {
        key_before_change(s, k, event);
        if (size > e->value_size) memset(entry_value(e) + e->value_size, 0, size - e->value_size);
        e->kind = (e->kind & (ENTRY_EXPIRES | ENTRY_LONG_KEY)) | ENTRY_KIND(TYPE_STRING, ENC_RAW);
        e->value_size = (uint8_t)size;
        return entry_value(e);
    }
    struct entry *n = grown_entry(s, k, size, spare);
    if (!n) return NULL;
    if (place(s, k, n)) {
        entry_drop(s->memory, n, &s->trash);
        return NULL;
    }
    b = entry_blob(n);
    return b ? b->bytes : entry_value(n);
}

/* --- copying, expiry, moving, deleting --- */

/* An entry under k's name for a container whose fields have this time. NULL: no memory; the container is still the caller's. */
static struct entry *container_entry(struct shard *s, const struct key *k, enum entry_type type, enum entry_encoding encoding,
    void *container, int64_t at_ms, int64_t fields_ms) {
    bool timed = fields_ms != EXPIRY_NONE;
    struct entry *n = entry_new(s->memory, k->name, k->size, ENTRY_KIND(type, encoding), at_ms, timed ? sizeof fields_ms : 0);
    if (n) entry_write_pointer(n, container);
    if (n && timed) entry_write_fields_time(n, fields_ms);
    return n;
}

static struct entry *copied_container(struct shard *s, const struct key *k, const struct entry *src, int64_t at_ms) {
    struct container_copying c = {0};
    if (container_copy_some(s, &c, src, INT64_MAX)) return NULL;
    struct entry *n = container_entry(s, k, entry_type(src), c.encoding, c.container, at_ms, entry_fields_time(src));
    if (!n) container_copy_drop(s, &c);
    return n;
}

/* An entry under k's name with src's value: embedded bytes are copied, a blob of this shard is shared, another shard's is copied. */
static struct entry *copied_entry(struct shard *s, const struct key *k, const struct entry *src, int64_t at_ms) {
    struct blob *b = entry_blob(src);
    if (entry_type(src) != TYPE_STRING) return copied_container(s, k, src, at_ms);
    if (b && b->shard == s->id) {
        b->refs++;
    } else if (b) {
        struct blob *copy = blob_new(s->memory, s->id, b->size, b->size);
        if (!copy) return NULL;
        memcpy(copy->bytes, b->bytes, b->size);
        b = copy;
    }
    struct entry *n = entry_new(s->memory, k->name, k->size, ENTRY_KIND(entry_type(src), entry_encoding(src)), at_ms, src->value_size);
    if (!n) {
        if (b) blob_release(s->memory, b);
        return NULL;
    }
    if (b) entry_write_pointer(n, b);
    else memcpy(entry_value(n), entry_value(src), src->value_size);
    return n;
}

static int place_copy(struct shard *s, struct key *dst, const struct entry *src, int64_t at_ms, enum key_event event) {
    struct entry *n = copied_entry(s, dst, src, at_ms);
    if (!n) return -ENOMEM;
    if (!place(s, dst, n)) return 0;
    entry_drop(s->memory, n, &s->trash);
    return -ENOMEM;
}

/* The same, of an entry of this shard that is about to go: a container changes hands, it is not copied. fields_ms: the time of its fields. */
static int place_moved(struct shard *s, struct key *dst, struct entry *src, int64_t at_ms, int64_t fields_ms, enum key_event event) {
    if (entry_type(src) == TYPE_STRING) return place_copy(s, dst, src, at_ms, event);
    void *container = entry_pointer(src);
    struct entry *n = container_entry(s, dst, entry_type(src), entry_encoding(src), container, at_ms, fields_ms);
    if (!n) return -ENOMEM;
    entry_write_pointer(src, NULL);
    if (!place(s, dst, n)) return 0;
    entry_write_pointer(src, container);
    memory_free(s->memory, n, entry_size(n));
    return -ENOMEM;
}

int key_copy_from(struct shard *s, struct key *dst, const struct entry *src, int64_t expire_at_ms, enum key_event event) {
    const struct blob *b = entry_blob(src);
    size_t value = entry_is_embedded(src) ? src->value_size : 8, more = b && b->shard != s->id ? blob_memory_for(b->size) : 0;
    if (entry_type(src) != TYPE_STRING) more = container_memory(src);
    if (!fits(s, dst, entry_bytes(dst->size, expire_at_ms, value) + more)) return -ENOMEM;
    if (place_copy(s, dst, src, expire_at_ms, event)) return -ENOMEM;
    key_after_change(s, dst, event);
    return 0;
}

int key_copy_some(
    struct shard *s, struct key *dst, const struct entry *src, struct container_copying *c, int64_t cost, bool asks, enum key_event event) {
    size_t all = container_memory(src), more = all > c->memory ? all - c->memory : 0;
    if (asks && !fits(s, dst, entry_bytes(dst->size, entry_expiry(src), 8) + more)) {
        container_copy_drop(s, c);
        return -ENOMEM;
    }
    int left = container_copy_some(s, c, src, cost);
    if (left) return left;
    s->never_refused = !asks;
    int refused = key_replace_timed(s, dst, entry_type(src), c->encoding, c->container, entry_expiry(src), entry_fields_time(src), event);
    s->never_refused = false;
    if (refused) container_copy_drop(s, c);
    return refused;
}

int key_set_expiry(struct shard *s, struct key *k, int64_t at_ms, enum key_event event) {
    struct entry *e = k->entry;
    int64_t old_at_ms = entry_expiry(e);
    if (at_ms == old_at_ms) {
        if (at_ms != EXPIRY_NONE) key_after_change(s, k, event);
        return 0;
    }
    if (!entry_expires(e) || at_ms == EXPIRY_NONE) {
        uint8_t access = e->access;
        key_before_change(s, k, event); /* while the entry still has its value */
        if (place_moved(s, k, e, at_ms, entry_fields_time(e), event)) return -ENOMEM;
        k->entry->access = access;
    } else {
        const struct times was = times_of(e);
        if (arm(s, k, was.due_ms, at_ms)) return -ENOMEM;
        key_before_change(s, k, event);
        entry_write_expiry(e, at_ms);
        const struct times is = times_of(e);
        count_times(s, k, &was, &is);
    }
    key_after_change(s, k, event);
    return 0;
}

int key_time_fields(struct shard *s, struct key *k, int64_t at_ms) {
    struct entry *e = k->entry;
    const struct times was = times_of(e);
    if (at_ms >= was.fields_ms) return 0;
    key_before_change(s, k, KEY_HEXPIRE);
    if (!entry_is_timed(e)) {
        uint8_t access = e->access;
        if (place_moved(s, k, e, entry_expiry(e), at_ms, KEY_HEXPIRE)) return -ENOMEM;
        k->entry->access = access;
        return 0;
    }
    if (arm(s, k, was.due_ms, at_ms)) return -ENOMEM;
    entry_write_fields_time(e, at_ms);
    const struct times is = times_of(e);
    count_times(s, k, &was, &is);
    return 0;
}

void key_retime_fields(struct shard *s, struct key *k, int64_t at_ms) {
    struct entry *e = k->entry;
    count_time(&k->db->timed, entry_fields_time(e), at_ms);
    entry_write_fields_time(e, at_ms);
    int64_t due_ms = entry_due(e);
    if (due_ms != EXPIRY_NONE && wheel_add(&s->wheel, due_ms, wheel_record(k->hash, k->db->id))) expire_lost_record(s);
}

/* Out of the table and the counts; the entry is the caller's, and key_before_change behind him. */
static struct entry *take_out(struct shard *s, struct key *k, enum key_event event) {
    struct entry *e = k->entry;
    table_remove(&k->db->keys, k->hash, key_slot(k));
    if (entry_due(e) != EXPIRY_NONE) {
        k->db->expiring -= entry_expires(e);
        k->db->timed -= entry_fields_time(e) != EXPIRY_NONE;
        if (event != KEY_EXPIRED) s->wheel_stale++;
    }
    k->slot = NULL;
    k->entry = NULL;
    return e;
}

void key_delete(struct shard *s, struct key *k, enum key_event event) {
    before_leaving(s, k);
    struct entry *e = take_out(s, k, event); /* k's name may lie in it, so it goes last */
    key_after_change(s, k, event);
    drop_left(s, e);
}

int key_move_from(struct shard *s, struct key *dst, struct shard *src_shard, struct key *src, enum key_event from, enum key_event to) {
    struct entry *e = src->entry;
    struct blob *b = entry_blob(e);
    key_before_change(src_shard, src, from);
    bool handed = b && s != src_shard && blob_transfer(src_shard->memory, s->memory, b, s->id);
    s->never_refused = true;
    int refused =
        s == src_shard ? place_moved(s, dst, e, entry_expiry(e), entry_fields_time(e), to) : place_copy(s, dst, e, entry_expiry(e), to);
    s->never_refused = false;
    if (refused) {
        if (handed) blob_transfer(s->memory, src_shard->memory, b, src_shard->id);
        return -ENOMEM;
    }
    src->slot = NULL; /* the insert may have moved it */
    take_out(src_shard, src, from);
    if (handed) b->refs--;                  /* now it is the copy's alone */
    key_after_change(src_shard, src, from); /* src's name may lie in its entry */
    if (!handed) entry_drop(src_shard->memory, e, &src_shard->trash);
    else memory_free(src_shard->memory, e, entry_size(e));
    key_after_change(s, dst, to);
    return 0;
}

struct entry *entry_lend(const struct entry *e) {
    struct blob *b = entry_blob(e);
    struct entry *copy = mi_malloc(entry_size(e));
    if (!copy) return NULL;
    memcpy(copy, e, entry_size(e));
    if (b) b->refs++;
    return copy;
}

void entry_end_loan(struct entry *e) { mi_free(e); }

struct entry *key_lift(struct shard *s, struct key *k, enum key_event event) {
    key_before_change(s, k, event);
    struct entry *e = k->entry, *lifted = mi_malloc(entry_size(e));
    assert(entry_type(e) == TYPE_STRING);
    struct blob *b = entry_blob(e), *detached = b && lifted ? blob_detach(s->memory, b) : NULL;
    if (lifted) memcpy(lifted, e, entry_size(e));
    if (!lifted || (b && !detached)) {
        mi_free(lifted);
        return NULL;
    }
    if (b) entry_write_pointer(lifted, detached);
    take_out(s, k, event);
    if (b && b == detached) memory_free(s->memory, e, entry_size(e));
    else entry_drop(s->memory, e, &s->trash);
    key_after_change(s, k, event);
    return lifted;
}

int key_land(struct shard *s, struct key *dst, struct entry *lifted, enum key_event event) {
    struct blob *b = entry_blob(lifted);
    bool adopted = b && blob_can_be_adopted(b);
    if (adopted) blob_adopt(s->memory, b, s->id);
    s->never_refused = true;
    int refused = place_copy(s, dst, lifted, entry_expiry(lifted), event);
    s->never_refused = false;
    if (refused) {
        if (adopted) blob_disown(s->memory, b);
        return -ENOMEM;
    }
    if (adopted) b->refs--; /* the copy shares it */
    else if (b) blob_discard(b);
    entry_end_loan(lifted);
    key_after_change(s, dst, event);
    return 0;
}

uint32_t key_idle_s(const struct shard *s, const struct entry *e) {
    return (uint8_t)(entry_access_at(s->now_ms) - e->access) * ENTRY_ACCESS_UNIT_S;
}

void key_set_idle(struct shard *s, struct key *k, uint64_t idle_s) {
    uint64_t units = idle_s / ENTRY_ACCESS_UNIT_S;
    k->entry->access = (uint8_t)(entry_access_at(s->now_ms) - (units < UINT8_MAX ? units : UINT8_MAX));
}

size_t key_memory(const struct entry *e) {
    const struct blob *b = entry_blob(e);
    size_t container = entry_type(e) == TYPE_STRING ? 0 : container_memory(e);
    return memory_usable_packed(entry_size(e)) + (b ? blob_memory(b) : 0) + container + 10;
}

/* --- containers --- */

struct fields key_fields(struct shard *s, const struct key *k) {
    return container_fields(s, k->entry);
}

int key_store(struct shard *s, struct key *k, enum entry_type type, enum entry_encoding encoding, void *container, enum key_event event) {
    if (k->entry) {
        entry_write_pointer(k->entry, container);
        if (container) k->entry->kind = (k->entry->kind & (ENTRY_EXPIRES | ENTRY_LONG_KEY)) | ENTRY_KIND(type, encoding);
        else key_delete(s, k, KEY_DEL);
        return 0;
    }
    if (!container) return 0;
    struct entry *n = container_entry(s, k, type, encoding, container, EXPIRY_NONE, EXPIRY_NONE);
    if (n && !place(s, k, n)) return 0;
    if (n) memory_free(s->memory, n, entry_size(n));
    return -ENOMEM;
}

int key_store_fields(struct shard *s, struct key *k, enum entry_type type, struct fields *f, enum key_event event) {
    int refused = key_store(s, k, type, f->map ? ENC_MAP : ENC_PAGE, f->map ? (void *)f->map : (void *)f->page, event);
    if (refused) fields_free(f);
    return refused;
}

int key_replace(struct shard *s, struct key *k, enum entry_type type, enum entry_encoding encoding, void *container, enum key_event event) {
    return key_replace_timed(s, k, type, encoding, container, EXPIRY_NONE, EXPIRY_NONE, event);
}

int key_replace_timed(struct shard *s, struct key *k, enum entry_type type, enum entry_encoding encoding, void *container,
    int64_t expire_at_ms, int64_t fields_ms, enum key_event event) {
    struct entry *n = container_entry(s, k, type, encoding, container, expire_at_ms, fields_ms);
    if (!n) return -ENOMEM;
    if (place(s, k, n)) {
        memory_free(s->memory, n, entry_size(n));
        return -ENOMEM;
    }
    key_after_change(s, k, event);
    return 0;
}

size_t key_entry_needs(const struct key *k) { return k->entry ? 0 : entry_bytes(k->size, EXPIRY_NONE, 8); }

bool key_may_take(struct shard *s, const struct key *k, size_t bytes) { return shard_fits(s, bytes + key_entry_needs(k)); }
