/* Comparing the values of two keys, of one shard or of two, element by element: what is the same, and is kept in the same way (which encoding is shown is another thing). NULL: they are the same; else
 * in what they differ. */
#ifndef TESTS_VALUES_H
#define TESTS_VALUES_H

#include <stdbool.h>
#include <string.h>

#include "shard/keyspace.h"
#include "shard/list.h"
#include "shard/set.h"
#include "shard/zset.h"

static inline bool values_same_text(const char *p, uint32_t n, const char *q, uint32_t m) { return n == m && !memcmp(p, q, n); }

static inline const char *values_fields_differ(const struct fields *a, const struct fields *b) {
    struct fields_walk w = {0};
    struct field x, y;
    uint64_t walked = 0;
    char mine[INT64_TEXT_SIZE], others[INT64_TEXT_SIZE];
    if (fields_count(a) != fields_count(b)) return "the number of fields";
    for (; fields_next(a, &w, &x); walked++) {
        struct field_name name;
        uint32_t n, m;
        const char *text = packed_text(x.name, mine, &n);
        field_name(b, text, n, &name);
        if (!fields_find(b, &name, &y)) return "a field that only one has";
        if (x.expires_at_ms != y.expires_at_ms) return "a field's time";
        if (!x.value != !y.value) return "a field's value that only one has";
        if (!x.value) continue;
        const char *p = packed_text(x.value, mine, &n), *q = packed_text(y.value, others, &m);
        if (!values_same_text(p, n, q, m)) return "a field's value";
    }
    return walked != fields_count(a) ? "the number of fields that a walk finds" : NULL;
}

static inline const char *values_lists_differ(const struct list *a, const struct list *b) {
    struct list_walk v = list_walk_from(a, 0, LIST_TAIL), w = list_walk_from(b, 0, LIST_TAIL);
    struct list_item x, y;
    uint64_t walked = 0;
    char mine[INT64_TEXT_SIZE], others[INT64_TEXT_SIZE];
    if (list_count(a) != list_count(b)) return "the number of elements";
    for (; list_next(a, &v, &x); walked++) {
        uint32_t n, m;
        if (!list_next(b, &w, &y)) return "an element that only one has";
        const char *p = list_text(&x, mine, &n), *q = list_text(&y, others, &m);
        if (!values_same_text(p, n, q, m)) return "an element";
    }
    return walked != list_count(a) ? "the number of elements that a walk finds" : NULL;
}

static inline const char *values_zsets_differ(const struct zset *a, const struct zset *b) {
    struct zset_walk v, w;
    struct zset_item x, y;
    uint64_t walked = 0;
    char mine[INT64_TEXT_SIZE], others[INT64_TEXT_SIZE];
    if (zset_count(a) != zset_count(b)) return "the number of members";
    zset_begin(a, &v, 0, UINT64_MAX, false);
    zset_begin(b, &w, 0, UINT64_MAX, false);
    for (; zset_next(a, &v, &x); walked++) {
        uint32_t n, m;
        if (!zset_next(b, &w, &y)) return "a member that only one has";
        const char *p = zset_text(&x, mine, &n), *q = zset_text(&y, others, &m);
        if (!values_same_text(p, n, q, m)) return "a member";
        if (memcmp(&x.score, &y.score, sizeof x.score)) return "a score";
    }
    return walked != zset_count(a) ? "the number of members that a walk finds" : NULL;
}

static inline const char *values_intsets_differ(const struct intset *a, const struct intset *b) {
    if (intset_count(a) != intset_count(b)) return "the number of integers";
    for (uint32_t i = 0; i < intset_count(a); i++)
        if (intset_at(a, i) != intset_at(b, i)) return "an integer";
    return NULL;
}

/* Both are there. */
static inline const char *values_differ(struct shard *s, const struct key *a, struct shard *t, const struct key *b) {
    if (entry_type(a->entry) != entry_type(b->entry)) return "their types";
    if (entry_encoding(a->entry) != entry_encoding(b->entry)) return "their encodings";
    if (entry_expiry(a->entry) != entry_expiry(b->entry)) return "their times";
    if (entry_fields_time(a->entry) != entry_fields_time(b->entry)) return "the earliest time of a field";
    if (entry_type(a->entry) == TYPE_STRING) {
        char mine[INT64_TEXT_SIZE], others[INT64_TEXT_SIZE];
        size_t n, m;
        const char *p = key_string(a, mine, &n), *q = key_string(b, others, &m);
        return n == m && !memcmp(p, q, n) ? NULL : "their strings";
    }
    if (entry_type(a->entry) == TYPE_LIST) {
        struct list x = list_open(s, a, LIST_FILL), y = list_open(t, b, LIST_FILL);
        return values_lists_differ(&x, &y);
    }
    if (entry_type(a->entry) == TYPE_ZSET) {
        struct zset x = zset_open(s, a), y = zset_open(t, b);
        return values_zsets_differ(&x, &y);
    }
    if (entry_encoding(a->entry) == ENC_INTSET) return values_intsets_differ(entry_pointer(a->entry), entry_pointer(b->entry));
    struct fields x = key_fields(s, a), y = key_fields(t, b);
    return values_fields_differ(&x, &y);
}

#endif
