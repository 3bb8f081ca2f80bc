/* What the compiler can't know of a branch. */
#ifndef SHARD_LIKELY_H
#define SHARD_LIKELY_H

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#endif
