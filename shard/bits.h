/* Bits of byte strings, many at a time: what bitmaps are made of. Pure functions, on whatever thread.
 *
 * Bit 0 is the highest of the first byte:   | 0 1 2 3 4 5 6 7 | 8 9 ...
 *
 * Counting has a version for each kind of machine; which one is taken is asked at each call (a load and a test, no ifunc). The others work 16 bytes at a
 * time, in what every machine of the kind has (SSE2, NEON): a value that does not fit into the caches moves no faster with wider registers.
 */
#ifndef SHARD_BITS_H
#define SHARD_BITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many bits are 1. */
uint64_t bits_count(const void *p, size_t size);
/* The first bit that is 1 (or 0); size * 8: there is none. */
uint64_t bits_first(const void *p, size_t size, bool one);

enum bits_op { BITS_AND, BITS_OR, BITS_XOR };
/* to = a op b, byte by byte; to may be a or b, else they do not overlap. */
void bits_combine(enum bits_op op, void *to, const void *a, const void *b, size_t size);
/* to = ~from; to may be from. */
void bits_invert(void *to, const void *from, size_t size);

/* A field of 1 to 64 bits from this bit on, its highest bit first; what lies behind the end is 0. */
uint64_t bits_get(const void *p, size_t size, uint64_t bit, unsigned n);
/* Writes the n lowest bits of v there; they all lie within p. */
void bits_set(void *p, uint64_t bit, unsigned n, uint64_t v);

/* The versions of bits_count, for tests and measurements: the first that is there is taken, and the last always is. */
struct bits_counter {
    const char *name;
    bool (*is_there)(void);
    uint64_t (*count)(const unsigned char *p, size_t size);
};
extern const struct bits_counter bits_counters[];
extern const unsigned bits_n_counters;

#endif
