/* The table's daily work: finding, inserting, removing, and the prefetches before them. The map of the other files, and the layout
 * of a segment, are in table_internal.h. */
#include "shard/table_internal.h"

#include <errno.h>

/* ---- an empty table ---- */

/* A table without segments looks up in this one, so that no lookup asks whether there is one. */
const struct segment no_segment = {.stash.homes = {[0 ... STASH_SLOTS - 1] = NO_HOME}};
const table_word no_directory[1] = {(table_word)&no_segment};

void table_init(struct table *t, struct memory *memory, table_hash *hash, const void *hash_arg) {
    *t = (struct table){.directory = (table_word *)no_directory, .memory = memory, .hash = hash, .hash_arg = hash_arg};
}

/* ---- finding ---- */

static inline uint64_t load_8(const char *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline uint32_t load_4(const char *p) {
    uint32_t v;
    memcpy(&v, p, sizeof v);
    return v;
}

/* Keys are short, and their sizes repeat: comparing them here is cheaper than a call of memcmp. */
static inline __attribute__((always_inline)) bool same_bytes(const char *a, const char *b, uint32_t n) {
    if (likely(n >= 8)) {
        if (load_8(a) != load_8(b)) return false;
#pragma GCC unroll 1
        for (uint32_t i = 8; i + 8 < n; i += 8) {
            if (load_8(a + i) != load_8(b + i)) return false;
        }
        return load_8(a + n - 8) == load_8(b + n - 8);
    }
    if (n >= 4) return load_4(a) == load_4(b) && load_4(a + n - 4) == load_4(b + n - 4);
    return !n || (a[0] == b[0] && a[n / 2] == b[n / 2] && a[n - 1] == b[n - 1]);
}

/* Whether the slot's entry has this key, of at most 255 bytes. */
static inline __attribute__((always_inline)) bool has_key(table_slot slot, const char *key, uint32_t size) {
    const struct entry *e = table_entry(slot);
    if (e->key_size != size || unlikely(e->kind & ENTRY_LONG_KEY)) return false;
    return likely(same_bytes(entry_key(e), key, size));
}

/* An entry of this home in stash or chain. */
table_slot *find_stashed(const struct table *t, uint64_t hash, const char *key, uint32_t size) {
    table_word w = find_word(t, hash);
    struct segment *s = word_segment(w);
    unsigned depth = word_depth(w);
    for (uint32_t m = match_stash(&s->stash, hash_fingerprint(hash), hash_home(hash)); m; m &= m - 1) {
        unsigned i = (unsigned)__builtin_ctz(m);
        table_slot *slot = &s->buckets[REGULAR + i / SLOTS].slots[i % SLOTS];
        if (tag_agrees(*slot, hash, depth, 0) && entry_has_key(table_entry(*slot), key, size)) return slot;
    }
    for (struct bucket *b = s->stash.chain; b; b = chain_next(b)) {
        for (uint32_t m = match_bytes(bucket_head(b), 0, hash_fingerprint(hash)) & b->occupied; m; m &= m - 1) {
            table_slot *slot = &b->slots[__builtin_ctz(m)];
            if (tag_agrees(*slot, hash, depth, 0) && entry_has_key(table_entry(*slot), key, size)) return slot;
        }
    }
    return NULL;
}

/* The whole search, for what the first comparison does not decide: a second fingerprint that agrees, and long keys. */
table_slot *find_rare(const struct table *t, uint64_t hash, const char *key, uint32_t size) {
    table_word w = find_word(t, hash);
    struct segment *s = word_segment(w);
    for (uint32_t m = match_home(s, hash); m; m &= m - 1) {
        unsigned i = (unsigned)__builtin_ctz(m);
        table_slot *slot = slot_near(s, hash, i);
        if (tag_agrees(*slot, hash, word_depth(w), i) && entry_has_key(table_entry(*slot), key, size)) return slot;
    }
    return bucket_at(s, home_offset(hash))->occupied & ASK_STASH ? find_stashed(t, hash, key, size) : NULL;
}

/* Decides by the first fingerprint that agrees. No loop, and no call but those it ends with, so that it saves few registers. */
table_slot *table_find(const struct table *t, uint64_t hash, const char *key, uint32_t size) {
    table_word w = find_word(t, hash);
    struct segment *s = word_segment(w);
    uint32_t m = match_home(s, hash);
    if (m) {
        unsigned i = (unsigned)__builtin_ctz(m);
        table_slot *slot = slot_near(s, hash, i);
        if (likely(tag_agrees(*slot, hash, word_depth(w), i)) && likely(has_key(*slot, key, size))) return slot;
        if (m & (m - 1) || size > UINT8_MAX) return find_rare(t, hash, key, size);
    }
    if (unlikely(bucket_at(s, home_offset(hash))->occupied & ASK_STASH)) return find_stashed(t, hash, key, size);
    return NULL;
}

/* ---- inserting ---- */

static inline unsigned free_slot(const struct bucket *b) { return (unsigned)__builtin_ctz(~(uint32_t)(b->occupied & OCCUPIED)); }

static inline void put(struct bucket *b, unsigned i, table_slot slot, uint8_t fingerprint) {
    b->fingerprints[i] = fingerprint;
    b->slots[i] = slot;
    b->occupied |= (uint8_t)(1u << i);
}

/* Moves slot i of a full bucket to another one with room. */
static void move(struct bucket *from, unsigned i, struct bucket *to) {
    put(to, free_slot(to), from->slots[i] ^ SLOT_NEIGHBOUR, from->fingerprints[i]);
    from->occupied &= (uint8_t) ~(1u << i);
}

/* A slot of a full bucket whose NEIGHBOUR bit is this, or SLOTS. */
static unsigned slot_with(const struct bucket *b, uint64_t neighbour) {
    unsigned i = 0;
    while (i < SLOTS && (b->slots[i] & SLOT_NEIGHBOUR) != neighbour) i++;
    return i;
}

/* Home and neighbour are full: makes room in one of them, by moving an entry to the other bucket that it may lie in. */
static struct bucket *displace(struct segment *s, unsigned home) {
    struct bucket *b = &s->buckets[home], *next = &s->buckets[next_home(home)];
    struct bucket *after = &s->buckets[next_home(next_home(home))], *before = &s->buckets[(home - 1) & (REGULAR - 1)];
    unsigned i;
    if (free_slot(after) < SLOTS && (i = slot_with(next, 0)) < SLOTS) {
        move(next, i, after);
        return next;
    }
    if (free_slot(before) < SLOTS && (i = slot_with(b, SLOT_NEIGHBOUR)) < SLOTS) {
        move(b, i, before);
        return b;
    }
    return NULL;
}

bool place_regular(struct segment *s, table_slot slot, uint8_t fingerprint) {
    unsigned home = slot_home(slot);
    struct bucket *b = &s->buckets[home], *next = &s->buckets[next_home(home)], *to = b;
    /* The number of slots in use of both, counted side by side. */
    uint32_t n = (b->occupied & OCCUPIED) | (uint32_t)(next->occupied & OCCUPIED) << 8;
    n -= n >> 1 & 0x5555;
    n = (n & 0x3333) + (n >> 2 & 0x3333);
    n = (n + (n >> 4)) & 0x0f0f;
    if (n >> 8 < (n & 0xff)) to = next;
    if (unlikely(n == (SLOTS << 8 | SLOTS)) && !(to = displace(s, home))) return false;
    put(to, free_slot(to), to == b ? slot : slot | SLOT_NEIGHBOUR, fingerprint);
    return true;
}

bool place(struct segment *s, table_slot slot, uint8_t fingerprint) {
    if (likely(place_regular(s, slot, fingerprint))) return true;
    uint32_t m = match_homes(&s->stash, NO_HOME);
    if (!m) return false;
    unsigned i = (unsigned)__builtin_ctz(m), home = slot_home(slot);
    put(&s->buckets[REGULAR + i / SLOTS], i % SLOTS, slot, fingerprint);
    s->stash.fingerprints[i] = fingerprint;
    s->stash.homes[i] = (uint8_t)home;
    s->buckets[home].occupied |= ASK_STASH;
    return true;
}

int table_insert(struct table *t, uint64_t hash, struct entry *e) {
    if (unlikely(t->directory == no_directory)) {
        int rc = grow_first(t);
        if (rc) return rc;
    }
    for (;;) {
        table_word w = find_word(t, hash);
        if (likely(place(word_segment(w), slot_tag(hash, word_depth(w)) | t->mark | (uintptr_t)e, hash_fingerprint(hash)))) break;
        int rc = grow_full(t, hash, e);
        if (rc < 0) return rc;
        if (rc) break;
    }
    t->count++;
    return 0;
}

/* ---- removing ---- */

/* Whether an entry of this home lies in the stash or the chain. */
static bool is_stashed(const struct segment *s, unsigned home) {
    if (match_homes(&s->stash, (uint8_t)home)) return true;
    for (const struct bucket *b = s->stash.chain; b; b = chain_next(b)) {
        for (uint32_t m = b->occupied; m; m &= m - 1) {
            if (slot_home(b->slots[__builtin_ctz(m)]) == home) return true;
        }
    }
    return false;
}

static __attribute__((noinline)) void remove_stashed(struct table *t, struct segment *s, struct bucket *b, unsigned i, unsigned home) {
    if ((uintptr_t)b - (uintptr_t)s < sizeof *s) s->stash.homes[(size_t)(b - s->buckets - REGULAR) * SLOTS + i] = NO_HOME;
    else if (!b->occupied) chain_remove(t, s, b);
    if (!is_stashed(s, home)) s->buckets[home].occupied &= OCCUPIED;
}

void table_remove(struct table *t, uint64_t hash, table_slot *slot) {
    struct bucket *b = (struct bucket *)((uintptr_t)slot & ~(uintptr_t)(sizeof *b - 1));
    struct segment *s = word_segment(find_word(t, hash));
    unsigned i = (unsigned)(slot - b->slots), home = slot_home(*slot);
    b->occupied &= (uint8_t) ~(1u << i);
    t->count--;
    if (unlikely((uintptr_t)b - (uintptr_t)s >= sizeof s->buckets[0] * REGULAR)) remove_stashed(t, s, b, i, home);
}

/* ---- prefetching ---- */

void table_prefetch_buckets(const struct table *t, uint64_t hash, bool probe, bool write) {
    const struct segment *s = word_segment(find_word(t, hash));
    const struct bucket *b = bucket_at(s, home_offset(hash)), *next = bucket_at(s, home_offset(hash) + sizeof *b);
    if (write) {
        __builtin_prefetch(b, 1);
        if (probe) __builtin_prefetch(next, 1);
    } else {
        __builtin_prefetch(b);
        if (probe) __builtin_prefetch(next);
    }
}

const struct entry *table_prefetch_entry(const struct table *t, uint64_t hash) {
    table_word w = find_word(t, hash);
    const struct segment *s = word_segment(w);
    for (uint32_t m = match_home(s, hash); m; m &= m - 1) {
        unsigned i = (unsigned)__builtin_ctz(m);
        table_slot slot = *slot_near(s, hash, i);
        if (unlikely(!tag_agrees(slot, hash, word_depth(w), i))) continue;
        __builtin_prefetch(table_entry(slot));
        return table_entry(slot);
    }
    if (bucket_at(s, home_offset(hash))->occupied & ASK_STASH) __builtin_prefetch(&s->stash);
    return NULL;
}
