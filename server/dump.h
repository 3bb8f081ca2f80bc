/* What DUMP makes of a value, in steps: for DUMP itself, and for MIGRATE. Pure, but for the directive rdbcompression; on whoever holds the key's shard. */
#ifndef SERVER_DUMP_H
#define SERVER_DUMP_H

#include "shard/rdb_write.h"

/* Bytes that a slice writes: about 100 us. */
#define DUMP_SLICE_BYTES (64u << 10)

/* All 0 at first. The text is the caller's, to be dropped, or used for another value. */
struct dump {
    struct rdb_buffer text;
    struct rdb_value value;
    unsigned version;
    bool written;
    size_t summed, copied; /* bytes of the text */
    uint64_t crc;
};

/* Frees it; what is large by the main thread. Any thread. */
void dump_drop_text(struct rdb_buffer *text);
/* Begins with the value of an entry; what the text held is forgotten. False: no memory. */
bool dump_begin(struct dump *d, const struct entry *e);
/* Writes about so many bytes; the footer behind the last. e: the entry, which may lie elsewhere than at the step before, and whose value may not change meanwhile. */
enum rdb_step dump_step(struct dump *d, struct shard *s, const struct entry *e, size_t bytes);

#endif
