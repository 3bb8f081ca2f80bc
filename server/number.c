#include "server/number.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool parse_long_double(const char *p, size_t size, long double *out) {
    char text[LONG_DOUBLE_TEXT_SIZE], *end;
    if (size == 0 || size >= sizeof text || isspace((unsigned char)*p)) return false;
    memcpy(text, p, size);
    text[size] = 0;
    errno = 0;
    long double v = strtold(text, &end);
    if (end != text + size || isnan(v)) return false;
    if (errno == ERANGE && (isinf(v) || v == 0)) return false;
    *out = v;
    return true;
}

/* Digits that a double holds exactly. */
#define EXACT_DIGITS 15u

/* Most are short integers. */
static bool parse_short(const char *p, size_t size, double *out) {
    int64_t v = 0;
    bool negative = *p == '-';
    size_t i = negative;
    if (size - i > EXACT_DIGITS || i == size) return false;
    for (; i < size; i++) {
        unsigned digit = (unsigned char)p[i] - (unsigned)'0';
        if (digit > 9) return false;
        v = 10 * v + digit;
    }
    *out = negative ? -(double)v : (double)v;
    return true;
}

bool parse_double(const char *p, size_t size, double *out) {
    char text[LONG_DOUBLE_TEXT_SIZE], *end;
    if (size == 0 || size >= sizeof text || isspace((unsigned char)*p)) return false;
    if (parse_short(p, size, out)) return true;
    memcpy(text, p, size);
    text[size] = 0;
    errno = 0;
    double v = strtod(text, &end);
    if (end != text + size || isnan(v)) return false;
    if (errno == ERANGE && (isinf(v) || v == 0)) return false;
    *out = v;
    return true;
}

size_t format_long_double(char out[LONG_DOUBLE_TEXT_SIZE], long double v) {
    size_t size = (size_t)snprintf(out, LONG_DOUBLE_TEXT_SIZE, "%.17Lf", v);
    if (size >= LONG_DOUBLE_TEXT_SIZE) size = LONG_DOUBLE_TEXT_SIZE - 1;
    while (out[size - 1] == '0') size--;
    if (out[size - 1] == '.') size--;
    if (size == 2 && out[0] == '-' && out[1] == '0') {
        out[0] = '0';
        size = 1;
    }
    return size;
}
