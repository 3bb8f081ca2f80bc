/* LZF, unpacked in parts: the format of liblzf, in which Redis compresses strings. Pure, and without memory of its own.
 *
 *   packed: a byte below 32: so many bytes + 1 follow as they are
 *           else: its upper 3 bits: a length (7: the next byte is added), + 2; its lower 5 bits and a byte: how far back what is repeated lies, - 1
 */
#ifndef SHARD_UNPACK_H
#define SHARD_UNPACK_H

#include <stddef.h>
#include <stdint.h>

/* All of `from` becomes all of `to`. The places are 0 at first; both blocks may lie elsewhere at the next call. */
struct unpacking {
    const uint8_t *from;
    uint8_t *to;
    size_t from_size, to_size;
    size_t from_at, to_at;
};

enum unpack_step { UNPACK_DONE, UNPACK_MORE, UNPACK_WRONG };

/* Makes so many bytes more, or up to 263 beyond that. WRONG: it is not what it says, or has another size; never touches a byte outside of the blocks. */
enum unpack_step unpack_some(struct unpacking *u, size_t bytes);

#endif
