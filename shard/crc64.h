/* CRC-64 as RDB files have it: the polynomial ad93d23594c935a9, reflected, initially 0, not inverted at the end.
 *
 * Carry-less multiplication folds 64 bytes at a time where the CPU has it (Gopal, Ozturk, Guilford, Wolrich, Feghali, Dixon, Karakoyunlu: "Fast CRC Computation for
 * Generic Polynomials Using PCLMULQDQ Instruction", Intel, 2009); elsewhere eight tables take 8 bytes at a time (Kounavis & Berry, "A Systematic Approach to Building High Performance
 * Software-based CRC Generators", ISCC 2005). Pure functions, any thread.
 */
#ifndef SHARD_CRC64_H
#define SHARD_CRC64_H

#include <stddef.h>
#include <stdint.h>

/* Goes on from crc (0 at first) with n more bytes. */
uint64_t crc64(uint64_t crc, const void *bytes, size_t n);
/* By tables alone: for tests. */
uint64_t crc64_plain(uint64_t crc, const void *bytes, size_t n);
/* That of two texts one behind the other, from that of each and the second's size in bytes. O(log n). */
uint64_t crc64_combine(uint64_t first, uint64_t second, uint64_t second_size);

#endif
