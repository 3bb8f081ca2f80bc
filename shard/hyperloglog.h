/* HyperLogLog: about how many different elements were added, in Redis' own bytes, so that values move between the servers. Pure data; the memory is the caller's.
 *
 *   bytes 0-3    "HYLL"
 *   byte 4       encoding: 0 dense, 1 sparse
 *   bytes 5-7    not used
 *   bytes 8-15   the estimate as of the last time that it was asked for, little-endian; the highest bit is set when it is out of date
 *   dense        16384 registers of 6 bits, the first in the lowest bits of the first byte
 *   sparse       runs of registers:   00nnnnnn            n + 1 zeros
 *                                     01nnnnnn nnnnnnnn   n + 1 zeros, high bits first
 *                                     1vvvvvnn            n + 1 registers that are v + 1
 *
 * An element is hashed by MurmurHash64A (Appleby, with Redis' seed). 14 bits of it choose the register, which keeps the highest rank: how many of the other
 * bits are 0 from the lowest on, plus one. The estimate is Ertl's ("New cardinality estimation algorithms for HyperLogLog sketches", 2017), in the order of
 * operations that gives the same last bit as in Redis.
 *
 * A sparse value is brought to new registers as Redis does it, run by run, so that the bytes are the same. Values come from clients (SET): what is no valid
 * sequence of runs is found corrupt where Redis finds it so, and nothing is read or written outside of it.
 */
#ifndef SHARD_HYPERLOGLOG_H
#define SHARD_HYPERLOGLOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HLL_REGISTERS 16384u
#define HLL_HEADER 16u
#define HLL_DENSE_SIZE (HLL_HEADER + HLL_REGISTERS / 4 * 3)
/* The longest sparse value that may be valid: all runs of one register, in their long form. */
#define HLL_SPARSE_SIZE_MAX (HLL_HEADER + 2 * HLL_REGISTERS)
/* Room for a value that is being changed: a run may become 5 bytes before it is known to be too much. */
#define HLL_ROOM (HLL_SPARSE_SIZE_MAX + 8)

enum hll_result { HLL_SAME, HLL_CHANGED, HLL_CORRUPT };

/* A value that is being changed, in a buffer of HLL_ROOM bytes. */
struct hll {
    unsigned char *p;
    size_t size;
};

struct hll_element {
    uint32_t index;
    uint8_t rank;
};

/* Where in a value an element goes; offsets, so that it stays true of a copy. Dense: nothing. */
struct hll_place {
    size_t run, previous,
        before; /* the run that covers the register, the one before it and the one before that; where the search began: there is none */
    uint32_t first, span;  /* the registers that the run covers */
    uint32_t before_first; /* the first that `before` covers */
};

/* Whether it claims to be one: the bytes behind the header may be anything. */
bool hll_is(const void *p, size_t size);
bool hll_is_dense(const void *p);

/* An empty, sparse one. */
void hll_init(struct hll *x);
struct hll_element hll_element(const void *p, size_t size);
/* Whether the element would change the value; where. */
enum hll_result hll_find(const void *p, size_t size, struct hll_element e, struct hll_place *at);
/* Changes it, as hll_find said that it must be. A sparse value that would be longer than sparse_max bytes becomes dense. */
enum hll_result hll_put(struct hll *x, struct hll_element e, const struct hll_place *at, size_t sparse_max);
/* A register of a dense value. */
void hll_dense_put(void *p, struct hll_element e);
/* False: it is corrupt (and not changed). */
bool hll_make_dense(struct hll *x);
/* All registers of a dense value. */
void hll_registers(uint8_t registers[HLL_REGISTERS], const void *dense);

/* The estimate that the value keeps. False: out of date. */
bool hll_kept(const void *p, uint64_t *estimate);
void hll_keep(void *p, uint64_t estimate);
void hll_outdate(void *p);
/* The estimate, anew. False: corrupt. */
bool hll_estimate(const void *p, size_t size, uint64_t *estimate);

/* registers[i] = max(registers[i], the value's); False: corrupt, some may have been raised. */
bool hll_merge(uint8_t registers[HLL_REGISTERS], const void *p, size_t size);
void hll_merge_registers(uint8_t to[HLL_REGISTERS], const uint8_t from[HLL_REGISTERS]);
uint64_t hll_estimate_registers(const uint8_t registers[HLL_REGISTERS]);
/* Raises the value to these registers. */
void hll_raise(struct hll *x, const uint8_t registers[HLL_REGISTERS], size_t sparse_max);

/* Calls on() for each run of a sparse value: its first byte's two highest bits, length, value (of zeros 0). */
void hll_each_run(const void *p, size_t size, void (*on)(void *arg, unsigned kind, unsigned length, unsigned value), void *arg);

#endif
