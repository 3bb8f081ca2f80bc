/* Preparing and writing requests: see command.h. */
#include "tools/darter-bench/command.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DIGITS_MAX = 20, SCORE_MAX = 32, POOL_SPARE = 1 << 18 };

/* ---- numbers as text ---- */

static const char two_digits[] = "000102030405060708091011121314151617181920212223242526272829303132333435363738394041424344454647484950515"
                                 "25354555657585960616263646566676869"
                                 "707172737475767778798081828384858687888990919293949596979899";

/* Writes n in decimal, its end at end; returns its beginning. */
static char *digits_before(char *end, uint64_t n) {
    for (; n >= 100; n /= 100) memcpy(end -= 2, two_digits + n % 100 * 2, 2);
    if (n >= 10) return memcpy(end - 2, two_digits + n * 2, 2);
    *--end = (char)('0' + n);
    return end;
}

/* ---- what requests are filled from ---- */

int source_init(struct source *s, uint64_t seed, const struct keys_options *keys, const char *key_prefix, uint64_t size_min,
    uint64_t size_max, bool random_data, bool ascii) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_";
    *s = (struct source){.key_prefix = key_prefix,
        .key_prefix_size = strlen(key_prefix),
        .size_min = size_min,
        .size_max = size_max,
        .random_data = random_data,
        .pool_size = size_max + POOL_SPARE};
    random_seed(&s->random, seed);
    keys_init(&s->keys, keys);
    if (!random_data) return 0;
    s->pool = malloc(s->pool_size);
    if (!s->pool) return -ENOMEM;
    for (size_t i = 0; i < s->pool_size; i += 8) {
        uint64_t bits = random_bits(&s->random);
        for (size_t j = i; j < i + 8 && j < s->pool_size; j++, bits >>= 8) s->pool[j] = ascii ? letters[bits & 63] : (char)bits;
    }
    return 0;
}

void source_finish(struct source *s) { free(s->pool); }

/* ---- preparing ---- */

static int hex(char c) {
    return isdigit((unsigned char)c) ? c - '0' : isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : -1;
}

/* One character of a word in double quotes. */
static char unescape(const char **p) {
    char c = *(*p)++;
    if (c != '\\' || !**p) return c;
    c = *(*p)++;
    if (c == 'x' && hex((*p)[0]) >= 0 && hex((*p)[1]) >= 0) {
        c = (char)(hex((*p)[0]) * 16 + hex((*p)[1]));
        *p += 2;
        return c;
    }
    return c == 'n' ? '\n' : c == 'r' ? '\r' : c == 't' ? '\t' : c;
}

/* Reads the word at *p into word, which is as long as the line. Returns its size, or -1: a quote is not closed, or text follows one at once. */
static long read_word(const char **p, char *word) {
    char quote = **p == '"' || **p == '\'' ? *(*p)++ : 0, *to = word;
    if (!quote) {
        while (**p && !isspace((unsigned char)**p)) *to++ = *(*p)++;
        return to - word;
    }
    while (**p && **p != quote) {
        if (quote == '\'' && (*p)[0] == '\\' && (*p)[1] == '\'') ++*p;
        *to++ = quote == '"' ? unescape(p) : *(*p)++;
    }
    if (!**p) return -1;
    ++*p;
    return **p && !isspace((unsigned char)**p) ? -1 : to - word;
}

static enum piece_kind place_of(const char *at, size_t size, size_t *length) {
    static const struct {
        const char *name;
        enum piece_kind kind;
    } places[] = {{"__key__", PIECE_KEY}, {"__data__", PIECE_DATA}, {"__score__", PIECE_SCORE}};
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        *length = strlen(places[i].name);
        if (size >= *length && !memcmp(at, places[i].name, *length)) return places[i].kind;
    }
    return PIECE_TEXT;
}

static void add_piece(struct command *c, enum piece_kind kind, const char *text, size_t size) {
    struct piece *piece = &c->pieces[c->piece_count++];
    *piece = (struct piece){.kind = kind};
    if (kind != PIECE_TEXT) return;
    piece->text = memcpy(malloc(size + 1), text, size);
    piece->size = size;
}

/* Divides a word with places to fill in into its pieces. */
static void add_argument(struct command *c, const char *word, size_t size) {
    uint32_t first = c->piece_count;
    size_t plain = 0, length;
    for (size_t i = 0; i < size;) {
        enum piece_kind kind = place_of(word + i, size - i, &length);
        if (kind == PIECE_TEXT) {
            i++;
            continue;
        }
        if (i > plain) add_piece(c, PIECE_TEXT, word + plain, i - plain);
        add_piece(c, kind, NULL, 0);
        i = plain = i + length;
    }
    if (size > plain) add_piece(c, PIECE_TEXT, word + plain, size - plain);
    c->parts[c->part_count++] = (struct part){first, c->piece_count - first};
}

static bool has_places(const char *word, size_t size) {
    size_t length;
    for (size_t i = 0; i < size; i++)
        if (place_of(word + i, size - i, &length) != PIECE_TEXT) return true;
    return false;
}

/* What is written as it is: the frames, and the words without places. */
struct literal {
    char *bytes;
    size_t size;
};

static void add_literal(struct literal *l, const char *word, size_t size) {
    l->size += (size_t)sprintf(l->bytes + l->size, "$%zu\r\n", size);
    memcpy(l->bytes + l->size, word, size);
    memcpy(l->bytes + l->size + size, "\r\n", 2);
    l->size += size + 2;
}

static void end_literal(struct command *c, struct literal *l) {
    if (!l->size) return;
    c->parts[c->part_count++] = (struct part){c->piece_count, 0};
    add_piece(c, PIECE_TEXT, l->bytes, l->size);
    l->size = 0;
}

static size_t longest(const struct command *c, const struct source *s) {
    size_t size = 0;
    for (uint32_t i = 0; i < c->part_count; i++) size += c->parts[i].count ? DIGITS_MAX + 5 : 0;
    for (uint32_t i = 0; i < c->piece_count; i++) switch (c->pieces[i].kind) {
        case PIECE_TEXT: size += c->pieces[i].size; break;
        case PIECE_KEY: size += s->key_prefix_size + DIGITS_MAX; break;
        case PIECE_DATA: size += s->size_max; break;
        case PIECE_SCORE: size += SCORE_MAX; break;
        }
    return size;
}

/* The next word. False: there is none; then *size is -1 if that is an error. */
static bool next_word(const char **p, char *word, long *size) {
    while (isspace((unsigned char)**p)) ++*p;
    *size = 0;
    if (!**p) return false;
    *size = read_word(p, word);
    return *size >= 0;
}

const char *command_init(struct command *c, const char *line, const struct source *s) {
    size_t length = strlen(line), words = 0;
    long size;
    /* A word takes a character and a blank at least, and has a literal before it; a piece takes a character at least. */
    *c = (struct command){.parts = calloc(length + 2, sizeof *c->parts), .pieces = calloc(2 * length + 2, sizeof *c->pieces)};
    char *word = malloc(length + 1);
    struct literal literal = {.bytes = malloc(length * 32 + 64)};
    const char *wrong = NULL;
    if (!c->parts || !c->pieces || !word || !literal.bytes) {
        wrong = "out of memory";
        goto out;
    }
    for (const char *p = line; next_word(&p, word, &size);) words++;
    if (size < 0) wrong = "a quote is not closed, or is followed by something else than a blank";
    else if (!words) wrong = "there is no command in it";
    if (wrong) goto out;
    literal.size = (size_t)sprintf(literal.bytes, "*%zu\r\n", words);
    for (const char *p = line; next_word(&p, word, &size);) {
        if (!has_places(word, (size_t)size)) {
            add_literal(&literal, word, (size_t)size);
            continue;
        }
        end_literal(c, &literal);
        add_argument(c, word, (size_t)size);
    }
    end_literal(c, &literal);
    c->size_max = longest(c, s);
out:
    free(word);
    free(literal.bytes);
    if (wrong) command_finish(c);
    return wrong;
}

void command_finish(struct command *c) {
    for (uint32_t i = 0; i < c->piece_count; i++) free(c->pieces[i].text);
    free(c->parts);
    free(c->pieces);
    *c = (struct command){0};
}

/* ---- writing ---- */

static char *put(char *to, const char *bytes, size_t size) { return (char *)memcpy(to, bytes, size) + size; }

static char *put_length(char *to, uint64_t length) {
    char digits[DIGITS_MAX], *first = digits_before(digits + sizeof digits, length);
    *to++ = '$';
    to = put(to, first, (size_t)(digits + sizeof digits - first));
    return put(to, "\r\n", 2);
}

static char *put_key(char *to, struct source *s) {
    char digits[DIGITS_MAX], *first = digits_before(digits + sizeof digits, keys_next(&s->keys, &s->random));
    to = put(to, s->key_prefix, s->key_prefix_size);
    return put(to, first, (size_t)(digits + sizeof digits - first));
}

static char *put_data(char *to, struct source *s) {
    size_t size =
        (size_t)(s->size_min == s->size_max ? s->size_min : s->size_min + random_below(&s->random, s->size_max - s->size_min + 1));
    if (s->random_data) return put(to, s->pool + random_below(&s->random, POOL_SPARE), size);
    /* The counter, with zeros before it; of a number that is too long, its end. */
    char digits[DIGITS_MAX], *first = digits_before(digits + sizeof digits, s->counter++);
    size_t length = (size_t)(digits + sizeof digits - first), zeros = size > length ? size - length : 0;
    memset(to, '0', zeros);
    return put(to + zeros, digits + sizeof digits - (size - zeros), size - zeros);
}

static char *put_score(char *to, struct source *s) {
    if (s->random_data) return to + snprintf(to, SCORE_MAX, "%.6f", random_unit(&s->random) * 1e6);
    char digits[DIGITS_MAX], *first = digits_before(digits + sizeof digits, s->counter++);
    return put(to, first, (size_t)(digits + sizeof digits - first));
}

static char *put_piece(char *to, const struct piece *p, struct source *s) {
    switch (p->kind) {
    case PIECE_KEY: return put_key(to, s);
    case PIECE_DATA: return put_data(to, s);
    case PIECE_SCORE: return put_score(to, s);
    default: return put(to, p->text, p->size);
    }
}

/* The length stands before the bytes, and is known after: room is left for the usual two digits, and the bytes move if it takes others. */
static char *put_argument(char *to, const struct piece *pieces, uint32_t count, struct source *s) {
    enum { USUAL = 5 }; /* $nn\r\n */
    char *bytes = to + USUAL, *end = bytes;
    for (uint32_t i = 0; i < count; i++) end = put_piece(end, &pieces[i], s);
    size_t size = (size_t)(end - bytes);
    if (size >= 10 && size < 100) {
        to[0] = '$';
        memcpy(to + 1, two_digits + size * 2, 2);
        memcpy(to + 3, "\r\n", 2);
    } else {
        char frame[DIGITS_MAX + 3];
        size_t frame_size = (size_t)(put_length(frame, size) - frame);
        memmove(to + frame_size, bytes, size);
        memcpy(to, frame, frame_size);
        end = to + frame_size + size;
    }
    return put(end, "\r\n", 2);
}

char *command_write(const struct command *c, struct source *s, char *to) {
    for (uint32_t i = 0; i < c->part_count; i++) {
        const struct part *part = &c->parts[i];
        const struct piece *pieces = &c->pieces[part->first];
        to = part->count ? put_argument(to, pieces, part->count, s) : put(to, pieces->text, pieces->size);
    }
    return to;
}
