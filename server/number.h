/* Floating-point numbers as strings hold them: INCRBYFLOAT's reading and writing, and the reading of scores. Pure functions. */
#ifndef SERVER_NUMBER_H
#define SERVER_NUMBER_H

#include <stdbool.h>
#include <stddef.h>

/* The longest text of a long double: 4,933 digits before the point, 17 after it. */
#define LONG_DOUBLE_TEXT_SIZE 5120u

/* Reads the whole of p as strtold does (hexadecimal too), but no leading space, no NaN, nothing out of range. */
bool parse_long_double(const char *p, size_t size, long double *out);
/* The same as strtod does. */
bool parse_double(const char *p, size_t size, double *out);
/* Writes a finite v with up to 17 digits after the point, never with an exponent; no NUL. Returns the size. */
size_t format_long_double(char out[LONG_DOUBLE_TEXT_SIZE], long double v);

#endif
