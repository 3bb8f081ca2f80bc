#include "server/glob.h"

/* The bound that glob.h tells of, in steps of 1 to 2 ns. */
#define STEPS_FIRST 4096u
#define STEPS_A_BYTE 256u
#define STEPS_MANY (1u << 18)
#define STEPS_A_BYTE_LONG 4u

static signed char fold(char c, bool ignore_case) { return (signed char)(ignore_case && c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c); }

static bool same(char a, char b, bool ignore_case) { return fold(a, ignore_case) == fold(b, ignore_case); }

static bool in_range(char c, char from, char to, bool ignore_case) {
    signed char at = fold(c, ignore_case), low = (signed char)from, high = (signed char)to;
    if (low > high) low = (signed char)to, high = (signed char)from;
    low = fold((char)low, ignore_case);
    high = fold((char)high, ignore_case);
    return at >= low && at <= high;
}

/* A pattern on its way through a text. */
struct matching {
    const char *end; /* of the pattern */
    uint64_t left;   /* steps */
    bool ignore_case;
};

/* Whether c is in the class whose '[' is before *at; moves *at behind its ']', or to the end. Each byte of the class is a step. */
static bool in_class(struct matching *m, const char **at, char c) {
    const char *p = *at, *end = (uint64_t)(m->end - p) > m->left ? p + m->left : m->end;
    bool negated = p < end && *p == '^', found = false;
    if (negated) p++;
    for (; p < end && *p != ']'; p++) {
        if (*p == '\\' && end - p >= 2) {
            found |= *++p == c;
        } else if (end - p >= 3 && p[1] == '-') {
            found |= in_range(c, p[0], p[2], m->ignore_case);
            p += 2;
        } else {
            found |= same(*p, c, m->ignore_case);
        }
    }
    m->left -= (uint64_t)(p - *at);
    *at = p < end ? p + 1 : end;
    return found != negated;
}

/* Whether the pattern's next element, which is no star, takes c; moves *at behind it. */
static bool takes(struct matching *m, const char **at, char c) {
    const char *p = (*at)++;
    if (*p == '?') return true;
    if (*p == '[') return in_class(m, at, c);
    if (*p == '\\' && m->end - p >= 2) p = (*at)++;
    return same(*p, c, m->ignore_case);
}

static const char *behind_stars(struct matching *m, const char *p) {
    for (; p < m->end && *p == '*' && m->left; p++) m->left--;
    return p;
}

static bool match(struct matching *m, const char *p, const char *t, const char *text_end) {
    const char *star = NULL, *retry = NULL; /* behind the last star, and where the text that follows it was tried */
    while (t < text_end) {
        if (!m->left) return false;
        m->left--;
        if (p < m->end && *p == '*') {
            p = behind_stars(m, p);
            if (p == m->end) return true;
            star = p;
            retry = t;
        } else if (p < m->end && takes(m, &p, *t)) {
            t++;
        } else if (star) {
            p = star;
            t = ++retry;
        } else {
            return false;
        }
    }
    return behind_stars(m, p) == m->end;
}

bool glob_match(const char *pattern, size_t pattern_size, const char *text, size_t size, bool ignore_case, uint64_t *steps) {
    uint64_t most = STEPS_FIRST + STEPS_A_BYTE * (uint64_t)size;
    if (most > STEPS_MANY) most = (uint64_t)size * STEPS_A_BYTE_LONG > STEPS_MANY ? (uint64_t)size * STEPS_A_BYTE_LONG : STEPS_MANY;
    struct matching m = {pattern + pattern_size, most, ignore_case};
    bool matches = size ? match(&m, pattern, text, text + size) : pattern_size == 0;
    if (steps) *steps += most - m.left;
    return matches;
}
