/* Statistics of a table, and the check of everything that is believed to hold in it. Both walk all segments. */
#include "shard/table_internal.h"

static uint64_t segment_start(const struct table *t, uint64_t position) {
    return position & ~(span_of(word_depth(word_at(t, position))) - 1);
}

void table_stats(const struct table *t, struct table_stats *out) {
    *out = (struct table_stats){
        .entries = t->count,
        .segments = t->segments,
        .buckets = t->segments * BUCKETS + t->chained,
        .slots = t->segments * BUCKETS * SLOTS + t->chained * CHAIN_SLOTS,
        .directory_size = t->segments ? (uint64_t)1 << t->depth : 0,
        .chain_buckets = t->chained,
        .withheld = t->withheld,
        .splits = t->splits,
        .merges = t->merges,
        .depth = t->depth,
        .grow_due = t->grow_due,
    };
    for (unsigned depth = 0; depth <= HASH_DIRECTORY_BITS; depth++) out->at_depth[depth] = t->at_depth[depth];
    out->bytes = t->segments * sizeof(struct segment) + t->chained * sizeof(struct bucket) + out->directory_size * sizeof(table_word);
    if (t->resized) out->bytes += sizeof(table_word) << t->resized_depth;
}

static void walk_segment(const struct segment *s, struct table_stats *out) {
    unsigned n = 0;
    for (unsigned k = 0; k < BUCKETS; k++) {
        const struct bucket *b = &s->buckets[k];
        for (uint32_t m = b->occupied & OCCUPIED; m; m &= m - 1, n++) {
            if (k >= REGULAR) out->stash++;
            else if (b->slots[__builtin_ctz(m)] & SLOT_NEIGHBOUR) out->neighbour++;
            else out->home++;
        }
    }
    out->walked++;
    out->fill[n * 16 / (BUCKETS * SLOTS) < 16 ? n * 16 / (BUCKETS * SLOTS) : 15]++;
    for (const struct bucket *b = s->stash.chain; b; b = chain_next(b)) out->chain += (unsigned)__builtin_popcount(b->occupied);
}

uint64_t table_stats_walk(const struct table *t, uint64_t position, unsigned segments, struct table_stats *out) {
    if (!t->segments) return 0;
    for (; segments && position < SPACE; segments--) {
        table_word w = word_at(t, position);
        position = segment_start(t, position); /* it may have merged with the one before meanwhile */
        walk_segment(word_segment(w), out);
        position += span_of(word_depth(w));
    }
    return position < SPACE ? position : 0;
}

void table_stats_add(struct table_stats *to, const struct table_stats *s) {
    to->entries += s->entries;
    to->segments += s->segments;
    to->buckets += s->buckets;
    to->slots += s->slots;
    to->directory_size += s->directory_size;
    to->chain_buckets += s->chain_buckets;
    to->withheld += s->withheld;
    to->splits += s->splits;
    to->merges += s->merges;
    to->bytes += s->bytes;
    for (unsigned depth = 0; depth <= HASH_DIRECTORY_BITS; depth++) to->at_depth[depth] += s->at_depth[depth];
    if (s->depth > to->depth) to->depth = s->depth;
    to->grow_due |= s->grow_due;
    to->walked += s->walked;
    to->home += s->home;
    to->neighbour += s->neighbour;
    to->stash += s->stash;
    to->chain += s->chain;
    for (unsigned i = 0; i < 16; i++) to->fill[i] += s->fill[i];
}

/* What is wrong with a slot's bits, given the entry's hash, the segment's range and the bucket (REGULAR for stash and chain). */
static const char *check_slot(const struct table *t, uint64_t position, table_slot slot, uint8_t fingerprint, unsigned bucket) {
    uint64_t hash = t->hash(t->hash_arg, table_entry(slot));
    unsigned depth = word_depth(word_at(t, position));
    if (hash_directory(hash, depth) != position >> (HASH_DIRECTORY_BITS - depth)) return "an entry lies in a wrong segment";
    if (fingerprint != hash_fingerprint(hash)) return "a fingerprint is not its entry's";
    if ((slot & SLOT_TAG & ~SLOT_NEIGHBOUR) != slot_tag(hash, depth)) return "a slot's home or directory bits are not its entry's";
    unsigned home = slot_home(slot);
    if (bucket == REGULAR) return slot & SLOT_NEIGHBOUR ? "a stashed slot says neighbour" : NULL;
    if (bucket != (slot & SLOT_NEIGHBOUR ? next_home(home) : home)) return "an entry lies in a wrong bucket";
    return NULL;
}

static const char *check_segment(const struct table *t, uint64_t position, uint64_t *entries, uint64_t *chained) {
    const struct segment *s = word_segment(word_at(t, position));
    uint64_t stashed = 0; /* bit h: an entry of home h is in stash or chain */
    const char *wrong = NULL;
    for (unsigned k = 0; k < BUCKETS && !wrong; k++) {
        const struct bucket *b = &s->buckets[k];
        for (unsigned i = 0; i < SLOTS && !wrong; i++) {
            bool used = b->occupied >> i & 1;
            if (used) wrong = check_slot(t, position, b->slots[i], b->fingerprints[i], k < REGULAR ? k : REGULAR);
            *entries += used;
            if (k < REGULAR || wrong) continue;
            unsigned line = (k - REGULAR) * SLOTS + i;
            if (!used) {
                if (s->stash.homes[line] != NO_HOME) return "the stash index has a home for a free slot";
                continue;
            }
            stashed |= 1ull << slot_home(b->slots[i]);
            if (s->stash.homes[line] != slot_home(b->slots[i])) return "the stash index has a wrong home";
            if (s->stash.fingerprints[line] != b->fingerprints[i]) return "the stash index has a wrong fingerprint";
        }
        if (k >= REGULAR && b->occupied & ASK_STASH) return "a stash bucket asks the stash";
    }
    for (const struct bucket *b = s->stash.chain; b && !wrong; b = chain_next(b)) {
        ++*chained;
        if (!b->occupied || b->occupied >> CHAIN_SLOTS) return "a chain bucket is empty, or has an entry where its link is";
        for (uint32_t m = b->occupied; m && !wrong; m &= m - 1) {
            unsigned i = (unsigned)__builtin_ctz(m);
            wrong = check_slot(t, position, b->slots[i], b->fingerprints[i], REGULAR);
            stashed |= 1ull << slot_home(b->slots[i]);
            ++*entries;
        }
    }
    for (unsigned k = 0; k < REGULAR && !wrong; k++) {
        if (!(s->buckets[k].occupied & ASK_STASH) != !(stashed >> k & 1)) wrong = "a home's ASK_STASH bit is not what the stash has";
    }
    return wrong;
}

/* The copy of the directory must agree with it below resized_to. */
static const char *check_resized(const struct table *t) {
    uint64_t end =
        t->resized_depth > t->depth ? t->resized_to << (t->resized_depth - t->depth) : t->resized_to >> (t->depth - t->resized_depth);
    for (uint64_t i = 0; i < end; i++) {
        table_word w = word_at(t, i << (HASH_DIRECTORY_BITS - t->resized_depth));
        if (t->resized[i] != w) return "the next directory is not what the directory is";
        if (word_depth(w) > t->resized_depth) return "a segment is deeper than the next directory";
    }
    return NULL;
}

const char *table_check(const struct table *t) {
    if (!t->segments) {
        if (t->count || t->chained || t->resized || t->depth) return "a table without segments has something";
        return t->directory == no_directory ? NULL : "a table without segments has a directory";
    }
    uint64_t entries = 0, segments = 0, chained = 0, position = 0;
    uint32_t at_depth[HASH_DIRECTORY_BITS + 1] = {0};
    const char *wrong = NULL;
    while (position < SPACE && !wrong) {
        table_word w = word_at(t, position);
        unsigned depth = word_depth(w);
        if (depth > t->depth) return "a segment is deeper than the directory";
        if (position != segment_start(t, position)) return "a segment's words begin amidst its range";
        for (uint64_t at = position; at < position + span_of(depth); at += span_of(t->depth)) {
            if (word_at(t, at) != w) return "a segment's words are not alike";
        }
        segments++;
        at_depth[depth]++;
        wrong = check_segment(t, position, &entries, &chained);
        position += span_of(depth);
    }
    if (wrong) return wrong;
    if (entries != t->count) return "the count of entries is wrong";
    if (segments != t->segments) return "the count of segments is wrong";
    if (memcmp(at_depth, t->at_depth, sizeof at_depth)) return "the count of segments by depth is wrong";
    if (chained != t->chained) return "the count of chain buckets is wrong";
    return t->resized ? check_resized(t) : NULL;
}
