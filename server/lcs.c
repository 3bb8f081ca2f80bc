/* LCS, bit-parallel: Hyyro, "Bit-Parallel LCS-length Computation Revisited" (AWOCA 2004), after Crochemore et al. (2001).
 *
 *   Let L(i, j) be the length for the first i bytes of a and the first j of b. Row i is a string of bits over b: bit j - 1 is 0 where
 *   L(i, j) = L(i, j - 1) + 1. From one row to the next, 64 columns at a time: with match = the places of a's next byte in b,
 *   row' = (row + (row & match)) | (row & ~match). The zeros of the last row are the length.
 *
 * To find the bytes themselves the rows are kept (a bit a cell, where a table of numbers would take 32) and walked back from the end:
 * a match goes to (i - 1, j - 1); else up if row i's bit is 0, as L(i - 1, j) > L(i, j - 1) holds exactly then; else left. So the same
 * path is found among equals as by a table.
 *
 * Rows times words are many, so it is done in slices, phase after phase, while other commands run. Both values are held as they were: blobs by
 * reference (a writer copies them meanwhile), shorter ones copied.
 */
#include "server/lcs.h"

#include <mimalloc.h>
#include <sys/mman.h>

#include "server/config.h"
#include "server/strings.h"
#include "shard/blob.h"
#include "shard/memory.h"

/* What a slice may cost: 50 to 100 us. The unit is a word of a row, or a byte of a string. */
#define SLICE_COST 32768
#define KEPT_COST 8  /* of a word that is kept: new memory, of which a virtual machine takes 15 us a page */
#define ROW_COST 4   /* of a row, besides its words */
#define STEP_COST 4  /* of a step back: a line of another row, and a branch that nobody can foretell */
#define RUN_COST 100 /* of a run, with its six numbers */

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
    size_t words, row_bytes, different;
    struct blob *blobs[3]; /* where the three lie: blobs, as these come and go at little cost however large they are */
};

/* A run of matches: where it begins in a and b. */
struct run {
    size_t a, b, size;
};

/* The phases, in order; each says true when it is through. */
enum phase { PHASE_BYTES, PHASE_CLEAR, PHASE_PLACES, PHASE_ROWS, PHASE_LENGTH, PHASE_BACK, PHASE_DONE };

/* An LCS under way. */
struct work {
    struct lcs_options o;
    struct strings x;
    struct rows t;
    enum phase phase;
    int64_t budget;    /* left of this slice */
    size_t i, j, word; /* where the phase is: in a, in b, in the row */
    bool carry;        /* into the row's next word */
    uint32_t length, text_at;
    char *text;        /* the common bytes, filled from the end: room for the length */
    struct reply runs; /* each run of matches, last first */
    struct run run;
    size_t n_runs;
    struct blob *blobs[2]; /* held */
    char small[2][ENTRY_EMBEDDED_MAX + 1];
};
_Static_assert(INT64_TEXT_SIZE <= ENTRY_EMBEDDED_MAX + 1, "integers are written there too");

/* ---- rows ---- */

/* How many of these may be done now, at this cost each; 0: the slice is over, or there are none. */
static size_t share(struct work *w, size_t left, int64_t cost) {
    size_t n = w->budget > 0 ? (size_t)((w->budget + cost - 1) / cost) : 0;
    if (n > left) n = left;
    w->budget -= (int64_t)n * cost;
    return n;
}

/* Which bytes a has. */
static bool find_bytes(struct work *w) {
    for (size_t n = share(w, w->x.a_size - w->i, 1); n; n--, w->i++) {
        uint32_t *place = &w->t.place[w->x.a[w->i]];
        if (!*place) *place = (uint32_t)++w->t.different;
    }
    return w->i == w->x.a_size;
}

/* Room in a blob; NULL: memory is refused. */
static void *room(struct shard *s, struct blob **b, size_t size) {
    *b = blob_new(s->memory, s->id, size, size);
    return *b ? (*b)->bytes : NULL;
}

/* False: memory is refused. */
static bool rows_alloc(struct shard *s, struct work *w) {
    struct rows *t = &w->t;
    t->words = (w->x.b_size + 63) / 64;
    t->row_bytes = (w->x.b_size + 7) / 8;
    t->row = room(s, &t->blobs[0], t->words * 8);
    t->matches = t->row ? room(s, &t->blobs[1], t->different * t->words * 8) : NULL;
    if (!t->matches || w->o.length) return t->matches;
    t->kept = room(s, &t->blobs[2], t->row_bytes * w->x.a_size);
    /* A slice writes a fraction of a huge page, but the first touch of one costs as much as many slices. */
    if (t->kept && blob_mapped(t->blobs[2])) madvise(t->blobs[2], blob_mapped(t->blobs[2]), MADV_NOHUGEPAGE);
    return t->kept;
}

static bool clear(struct work *w) {
    struct rows *t = &w->t;
    size_t all = (1 + t->different) * t->words;
    while (w->word < all) {
        bool first = w->word < t->words;
        size_t n = share(w, first ? t->words - w->word : all - w->word, 1);
        if (!n) return false;
        memset(first ? t->row + w->word : t->matches + (w->word - t->words), first ? 0xff : 0, n * 8);
        w->word += n;
    }
    return true;
}

static bool mark_places(struct work *w) {
    struct rows *t = &w->t;
    for (size_t n = share(w, w->x.b_size - w->j, 1); n; n--, w->j++) {
        uint32_t place = t->place[w->x.b[w->j]];
        if (place) t->matches[(place - 1) * t->words + w->j / 64] |= (uint64_t)1 << w->j % 64;
    }
    return w->j == w->x.b_size;
}

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "kept rows are copied as bytes: bit j is bit j % 8 of byte j / 8");

/* Words [from, to) of the row that a's byte i makes. */
static void fill_words(struct work *w, size_t from, size_t to) {
    struct rows *t = &w->t;
    const uint64_t *matches = t->matches + (t->place[w->x.a[w->i]] - 1) * t->words;
    uint64_t carry = w->carry;
    for (size_t at = from; at < to; at++) {
        uint64_t row = t->row[at], match = matches[at], sum;
        bool over = __builtin_add_overflow(row, row & match, &sum);
        over |= __builtin_add_overflow(sum, carry, &sum);
        carry = over;
        t->row[at] = sum | (row & ~match);
    }
    w->carry = carry;
    size_t end = to * 8 < t->row_bytes ? to * 8 : t->row_bytes;
    if (t->kept) memcpy(t->kept + w->i * t->row_bytes + from * 8, t->row + from, end - from * 8);
}

static bool fill_rows(struct work *w) {
    while (w->i < w->x.a_size) {
        size_t n = share(w, w->t.words - w->word, w->t.kept ? KEPT_COST : 1);
        if (!n) return false;
        fill_words(w, w->word, w->word + n);
        w->word += n;
        if (w->word < w->t.words) continue;
        w->budget -= ROW_COST;
        w->word = 0;
        w->carry = false;
        w->i++;
    }
    return true;
}

/* The zeros of the last row. */
static bool count_length(struct work *w) {
    for (size_t n = share(w, w->t.words - w->word, 1); n; n--, w->word++) {
        size_t bits = w->x.b_size - w->word * 64;
        uint64_t zeros = ~w->t.row[w->word];
        if (bits < 64) zeros &= ((uint64_t)1 << bits) - 1;
        w->length += (uint32_t)__builtin_popcountll(zeros);
    }
    return w->word == w->t.words;
}

/* ---- walking back ---- */

static bool steps_up(const struct rows *t, size_t i, size_t j) {
    return !(t->kept[(i - 1) * t->row_bytes + (j - 1) / 8] >> (j - 1) % 8 & 1);
}

static void end_run(struct work *w) {
    struct run run = w->run;
    struct reply *r = &w->runs;
    w->run.size = 0;
    if (!w->o.index || run.size == 0 || (int64_t)run.size < w->o.min_match_length) return;
    w->budget -= RUN_COST;
    w->n_runs++;
    reply_array(r, w->o.with_match_length ? 3 : 2);
    reply_array(r, 2);
    reply_int(r, (int64_t)run.a);
    reply_int(r, (int64_t)(run.a + run.size - 1));
    reply_array(r, 2);
    reply_int(r, (int64_t)run.b);
    reply_int(r, (int64_t)(run.b + run.size - 1));
    if (w->o.with_match_length) reply_int(r, (int64_t)run.size);
}

static bool walk_back(struct work *w) {
    const struct strings *x = &w->x;
    while (w->i > 0 && w->j > 0) {
        if (!share(w, 1, STEP_COST)) return false;
        if (x->a[w->i - 1] == x->b[w->j - 1]) {
            w->run = (struct run){--w->i, --w->j, w->run.size + 1};
            if (w->text) w->text[--w->text_at] = (char)x->a[w->i];
            continue;
        }
        end_run(w);
        if (steps_up(&w->t, w->i, w->j)) w->i--;
        else w->j--;
    }
    end_run(w);
    return true;
}

/* ---- replies ---- */

static void reply_failed(struct reply *r) { reply_error(r, "ERR Insufficient memory, failed allocating transient memory for LCS"); }

/* {"matches": [...], "len": length}: how many matches there are is known last, so they were written to a reply of their own. */
static void reply_index(struct reply *r, struct reply *runs, size_t n_runs, uint32_t length) {
    reply_map(r, 2);
    reply_bulk_text(r, "matches");
    reply_array(r, n_runs);
    if (n_runs && !runs->failed) reply_take(r, runs, 0, runs->size);
    if (runs->failed) r->failed = true;
    reply_bulk_text(r, "len");
    reply_int(r, length);
}

static void reply_result(struct reply *r, const struct lcs_options *o, struct work *w) {
    struct reply none = {0};
    if (o->length) reply_int(r, w ? w->length : 0);
    else if (o->index) reply_index(r, w ? &w->runs : &none, w ? w->n_runs : 0, w ? w->length : 0);
    else reply_bulk(r, w && w->text ? w->text : "", w ? w->length : 0);
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

/* ---- slices ---- */

/* Keeps a value as it is now. lent: the entry is a copy whose reference to a blob is for us. */
static const unsigned char *hold(struct work *w, unsigned which, const struct entry *e, bool lent, size_t *size) {
    struct blob *b = w->blobs[which] = entry_blob(e);
    if (b) {
        if (!lent) b->refs++;
        *size = b->size;
        return (const unsigned char *)b->bytes;
    }
    const char *p = entry_string(e, w->small[which], size);
    if (p != w->small[which]) memcpy(w->small[which], p, *size);
    return (const unsigned char *)w->small[which];
}

void lcs_drop(struct shard *s, struct hop *h, struct reply *r) {
    struct work *w = (struct work *)(uintptr_t)h->state;
    for (unsigned i = 0; i < 3; i++)
        if (w->t.blobs[i]) blob_release(s->memory, w->t.blobs[i]);
    if (w->text) memory_free(s->memory, w->text, w->length);
    for (unsigned i = 0; i < 2; i++) {
        if (!w->blobs[i]) continue;
        if (w->blobs[i]->shard == s->id) blob_release(s->memory, w->blobs[i]);
        else reply_hold_blob(r, w->blobs[i]);
    }
    reply_drop(&w->runs);
    mi_free(w);
    h->state = 0;
}

void lcs_begin(struct hop *h, struct entry *const entries[2], bool lent, struct reply *r) {
    const struct entry *a = entries[0], *b = entries[1];
    struct lcs_options o;
    if ((a && entry_type(a) != TYPE_STRING) || (b && entry_type(b) != TYPE_STRING)) {
        reply_error(r, "ERR The specified keys must contain string values");
        return;
    }
    size_t a_size = a ? entry_string_size(a) : 0, b_size = b ? entry_string_size(b) : 0;
    if (!parse_options(h, &o, r)) return;
    /* Bytes that a table of 32-bit numbers would take: Redis' bound, which bounds memory and time here too (512 MiB: 2^27 cells, 2^21 words). */
    if ((uint64_t)(a_size + 1) * (b_size + 1) > (uint64_t)config_current()->proto_max_bulk_len / 4) {
        reply_error(r, "ERR Insufficient memory, transient memory for LCS exceeds proto-max-bulk-len");
        return;
    }
    if (!a_size || !b_size) {
        reply_result(r, &o, NULL);
        return;
    }
    struct work *w = mi_malloc(sizeof *w);
    if (!w) {
        reply_failed(r);
        return;
    }
    *w = (struct work){.o = o, .runs = {.resp = h->resp}};
    w->x.a = hold(w, 0, a, lent, &w->x.a_size);
    w->x.b = hold(w, 1, b, lent, &w->x.b_size);
    if (o.length && a_size > b_size) w->x = (struct strings){w->x.b, w->x.a, b_size, a_size}; /* the longer one's bits make fuller words */
    h->state = (uint64_t)(uintptr_t)w;
}

void lcs(const struct spread *x, struct hop *h, struct reply *r) {
    struct key a, b;
    bool has_a = spread_read(x, h, 0, NULL, &a), has_b = spread_read(x, h, 1, NULL, &b);
    struct entry *const entries[2] = {has_a ? a.entry : NULL, has_b ? b.entry : NULL};
    lcs_begin(h, entries, false, r);
}

/* Goes on to the next phase. False: memory is refused. */
static bool next_phase(struct shard *s, struct work *w) {
    switch (++w->phase) {
    case PHASE_CLEAR: return rows_alloc(s, w);
    case PHASE_BACK:
        if (w->o.length || !w->length) {
            w->phase = PHASE_DONE;
            return true;
        }
        w->i = w->x.a_size;
        w->j = w->x.b_size;
        w->text_at = w->length;
        return w->o.index || (w->text = memory_alloc(s->memory, w->length));
    default: w->i = w->j = w->word = 0; return true;
    }
}

enum hop_result lcs_slice(struct shard *s, struct hop *h, struct reply *r) {
    static bool (*const phases[])(struct work * w) = {find_bytes, clear, mark_places, fill_rows, count_length, walk_back};
    if (!h->state) {
        struct spread x = {&s, 1};
        lcs(&x, h, r);
        if (!h->state) return HOP_DONE;
    }
    struct work *w = (struct work *)(uintptr_t)h->state;
    w->budget = SLICE_COST;
    while (w->phase != PHASE_DONE) {
        if (!phases[w->phase](w)) return HOP_AGAIN;
        if (next_phase(s, w)) continue;
        reply_failed(r);
        lcs_drop(s, h, r);
        return HOP_DONE;
    }
    reply_result(r, &w->o, w);
    lcs_drop(s, h, r);
    return HOP_DONE;
}
