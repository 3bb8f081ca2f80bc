#include "server/glob.h"

static signed char fold(char c, bool ignore_case) { return (signed char)(ignore_case && c >= 'A' && c <= 'Z' ? c + ('a' - 'A') : c); }

static bool same(char a, char b, bool ignore_case) { return fold(a, ignore_case) == fold(b, ignore_case); }

static bool in_range(char c, char from, char to, bool ignore_case) {
    signed char at = fold(c, ignore_case), low = (signed char)from, high = (signed char)to;
    if (low > high) low = (signed char)to, high = (signed char)from;
    low = fold((char)low, ignore_case);
    high = fold((char)high, ignore_case);
    return at >= low && at <= high;
}

/* Whether c is in the class whose '[' is before *at; moves *at behind its ']', or to the end. */
static bool in_class(const char **at, const char *end, char c, bool ignore_case) {
    const char *p = *at;
    bool negated = p < end && *p == '^', found = false;
    if (negated) p++;
    for (; p < end && *p != ']'; p++) {
        if (*p == '\\' && end - p >= 2) {
            found |= *++p == c;
        } else if (end - p >= 3 && p[1] == '-') {
            found |= in_range(c, p[0], p[2], ignore_case);
            p += 2;
        } else {
            found |= same(*p, c, ignore_case);
        }
    }
    *at = p < end ? p + 1 : end;
    return found != negated;
}

/* Whether the pattern's next element, which is no star, takes c; moves *at behind it. */
static bool takes(const char **at, const char *end, char c, bool ignore_case) {
    const char *p = (*at)++;
    if (*p == '?') return true;
    if (*p == '[') return in_class(at, end, c, ignore_case);
    if (*p == '\\' && end - p >= 2) p = (*at)++;
    return same(*p, c, ignore_case);
}

bool glob_match(const char *pattern, size_t pattern_size, const char *text, size_t size, bool ignore_case) {
    const char *p = pattern, *end = pattern + pattern_size, *t = text, *text_end = text + size;
    const char *star = NULL, *retry = NULL; /* behind the last star, and where the text that follows it was tried */
    if (size == 0) return pattern_size == 0;
    while (t < text_end) {
        if (p < end && *p == '*') {
            while (p < end && *p == '*') p++;
            if (p == end) return true;
            star = p;
            retry = t;
        } else if (p < end && takes(&p, end, *t, ignore_case)) {
            t++;
        } else if (star) {
            p = star;
            t = ++retry;
        } else {
            return false;
        }
    }
    while (p < end && *p == '*') p++;
    return p == end;
}
