/* LCS, bit-parallel: Hyyro, "Bit-Parallel LCS-length Computation Revisited" (AWOCA 2004), after Crochemore et al. (2001).
 *
 *   Let L(i, j) be the length for the first i bytes of a and the first j of b. Row i is a string of bits over b: bit j - 1 is 0 where
 *   L(i, j) = L(i, j - 1) + 1. From one row to the next, 64 columns at a time: with match = the places of a's next byte in b,
 *   row' = (row + (row & match)) | (row & ~match). The zeros of the last row are the length.
 *
 * To find the bytes themselves the rows are kept (a bit a cell, where a table of numbers would take 32) and walked back from the end:
 * a match goes to (i - 1, j - 1); else up if row i's bit is 0, as L(i - 1, j) > L(i, j - 1) holds exactly then; else left. So the same
 * path is found among equals as by a table.
 */
#include "server/lcs.h"

#include "server/config.h"
#include "server/strings.h"
#include "shard/memory.h"

struct lcs_options {
    bool length, index, with_match_length;
    int64_t min_match_length;
};

struct strings {
    const unsigned char *a, *b;
    size_t a_size, b_size;
};

struct rows {
    uint64_t *row;       /* the current one */
    uint64_t *matches;   /* for each different byte of a: its places in b */
    uint32_t place[256]; /* which of matches; 0: not in a */
    unsigned char *kept; /* all rows, or NULL */
    size_t words, row_bytes, different, kept_bytes;
};

static void rows_drop(struct memory *m, struct rows *t) {
    if (t->row) memory_free(m, t->row, t->words * 8);
    if (t->matches) memory_free(m, t->matches, t->different * t->words * 8);
    if (t->kept) memory_free(m, t->kept, t->kept_bytes);
}

/* Both strings have bytes. False: memory is refused. */
static bool rows_make(struct memory *m, struct rows *t, const struct strings *x, bool keep) {
    *t = (struct rows){.words = (x->b_size + 63) / 64, .row_bytes = (x->b_size + 7) / 8};
    for (size_t i = 0; i < x->a_size; i++)
        if (!t->place[x->a[i]]) t->place[x->a[i]] = (uint32_t)++t->different;
    t->kept_bytes = keep ? t->row_bytes * x->a_size : 0;
    t->row = memory_alloc(m, t->words * 8);
    t->matches = memory_alloc(m, t->different * t->words * 8);
    t->kept = keep ? memory_alloc(m, t->kept_bytes) : NULL;
    if (!t->row || !t->matches || (keep && !t->kept)) {
        rows_drop(m, t);
        return false;
    }
    memset(t->row, 0xff, t->words * 8);
    memset(t->matches, 0, t->different * t->words * 8);
    for (size_t j = 0; j < x->b_size; j++) {
        uint32_t place = t->place[x->b[j]];
        if (place) t->matches[(place - 1) * t->words + j / 64] |= (uint64_t)1 << j % 64;
    }
    return true;
}

/* Runs through a; returns the length. */
static uint32_t rows_fill(struct rows *t, const struct strings *x) {
    for (size_t i = 0; i < x->a_size; i++) {
        const uint64_t *matches = t->matches + (t->place[x->a[i]] - 1) * t->words;
        uint64_t carry = 0;
        for (size_t w = 0; w < t->words; w++) {
            uint64_t row = t->row[w], match = matches[w], sum;
            bool over = __builtin_add_overflow(row, row & match, &sum);
            over |= __builtin_add_overflow(sum, carry, &sum);
            carry = over;
            t->row[w] = sum | (row & ~match);
        }
        if (t->kept) memcpy(t->kept + i * t->row_bytes, t->row, t->row_bytes); /* little-endian: bit j is bit j % 8 of byte j / 8 */
    }
    uint32_t length = 0;
    for (size_t j = 0; j < x->b_size; j++) length += !(t->row[j / 64] >> j % 64 & 1);
    return length;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "kept rows are copied as bytes");

static bool steps_up(const struct rows *t, size_t i, size_t j) {
    return !(t->kept[(i - 1) * t->row_bytes + (j - 1) / 8] >> (j - 1) % 8 & 1);
}

/* A run of matches: where it begins in a and b. */
struct run {
    size_t a, b, size;
};

static size_t reply_run(struct reply *r, const struct run *run, const struct lcs_options *o) {
    if (run->size == 0 || (int64_t)run->size < o->min_match_length) return 0;
    reply_array(r, o->with_match_length ? 3 : 2);
    reply_array(r, 2);
    reply_int(r, (int64_t)run->a);
    reply_int(r, (int64_t)(run->a + run->size - 1));
    reply_array(r, 2);
    reply_int(r, (int64_t)run->b);
    reply_int(r, (int64_t)(run->b + run->size - 1));
    if (o->with_match_length) reply_int(r, (int64_t)run->size);
    return 1;
}

/* Walks back from the end. text (room for the length): the common bytes, or NULL; runs: each run of matches, last first, or NULL. Returns how many. */
static size_t walk_back(
    const struct rows *t, const struct strings *x, uint32_t length, char *text, struct reply *runs, const struct lcs_options *o) {
    struct run run = {0};
    size_t n = 0, i = x->a_size, j = x->b_size;
    while (i > 0 && j > 0) {
        if (x->a[i - 1] == x->b[j - 1]) {
            run = (struct run){--i, --j, run.size + 1};
            if (text) text[--length] = (char)x->a[i];
            continue;
        }
        if (runs) n += reply_run(runs, &run, o);
        run.size = 0;
        if (steps_up(t, i, j)) i--;
        else j--;
    }
    if (runs) n += reply_run(runs, &run, o);
    return n;
}

static bool parse_options(const struct hop *h, struct lcs_options *o, struct reply *r) {
    *o = (struct lcs_options){0};
    for (uint32_t i = 3; i < h->argc; i++) {
        const struct arg *a = &h->argv[i];
        if (arg_is(a, "len")) {
            o->length = true;
        } else if (arg_is(a, "idx")) {
            o->index = true;
        } else if (arg_is(a, "withmatchlen")) {
            o->with_match_length = true;
        } else if (arg_is(a, "minmatchlen") && i + 1 < h->argc) {
            if (!arg_int64(&h->argv[++i], &o->min_match_length, r)) return false;
        } else {
            reply_syntax_error(r);
            return false;
        }
    }
    if (o->length && o->index) {
        reply_error(r, "ERR If you want both the length and indexes, please just use IDX.");
        return false;
    }
    return true;
}

/* {"matches": [...], "len": length}: how many matches there are is known last, so they are written to a reply of their own. */
static void reply_index(struct reply *r, const struct rows *t, const struct strings *x, uint32_t length, const struct lcs_options *o) {
    struct reply runs = {.resp = r->resp};
    size_t n = length ? walk_back(t, x, length, NULL, &runs, o) : 0;
    reply_map(r, 2);
    reply_bulk_text(r, "matches");
    reply_array(r, n);
    if (n) reply_take(r, &runs, 0, runs.size);
    if (runs.failed) r->failed = true;
    reply_bulk_text(r, "len");
    reply_int(r, length);
    reply_drop(&runs);
}

static void reply_text(struct reply *r, struct memory *m, const struct rows *t, const struct strings *x, uint32_t length) {
    char *text = length ? memory_alloc(m, length) : NULL;
    if (length && !text) {
        reply_error(r, "ERR Insufficient memory, failed allocating transient memory for LCS");
        return;
    }
    if (length) walk_back(t, x, length, text, NULL, NULL);
    reply_bulk(r, text ? text : "", length);
    if (text) memory_free(m, text, length);
}

void lcs(const struct spread *x, struct hop *h, struct reply *r) {
    struct key a, b;
    struct lcs_options o;
    char scratch[2][INT64_TEXT_SIZE];
    struct memory *m = x->shards[0]->memory;
    bool has_a = spread_read(x, h, 0, NULL, &a), has_b = spread_read(x, h, 1, NULL, &b);
    if ((has_a && entry_type(a.entry) != TYPE_STRING) || (has_b && entry_type(b.entry) != TYPE_STRING)) {
        reply_error(r, "ERR The specified keys must contain string values");
        return;
    }
    struct strings in = {0};
    if (has_a) in.a = (const unsigned char *)key_string(&a, scratch[0], &in.a_size);
    if (has_b) in.b = (const unsigned char *)key_string(&b, scratch[1], &in.b_size);
    if (!parse_options(h, &o, r)) return;
    /* Bytes that a table of 32-bit numbers would take: Redis' bound, which bounds the time here too (512 MiB: 2^27 cells, 2^21 words). */
    if ((uint64_t)(in.a_size + 1) * (in.b_size + 1) > (uint64_t)config_current()->proto_max_bulk_len / 4) {
        reply_error(r, "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
        return;
    }
    struct rows t = {0};
    bool empty = !in.a_size || !in.b_size;
    if (o.length && in.a_size > in.b_size)
        in = (struct strings){in.b, in.a, in.b_size, in.a_size}; /* the longer one's bits make fuller words */
    if (!empty && !rows_make(m, &t, &in, !o.length)) {
        reply_error(r, "ERR Insufficient memory, failed allocating transient memory for LCS");
        return;
    }
    uint32_t length = empty ? 0 : rows_fill(&t, &in);
    if (o.length) reply_int(r, length);
    else if (o.index) reply_index(r, &t, &in, length, &o);
    else reply_text(r, m, &t, &in, length);
    rows_drop(m, &t);
}
