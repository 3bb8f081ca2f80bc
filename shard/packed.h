/* A byte string in packed form, as containers keep their members: as an integer if it reads like one, else with its size before it.
 *
 *   00..7f   a string of so many bytes, which follow (at most PACKED_INLINE_MAX)
 *   80..bf   the integer 0..63
 *   c1..c8   an integer of 1..8 bytes, which follow: two's complement, little endian, as few as it takes
 *   e0       a longer string, "far": the address (8 bytes) of a block with its size (4 bytes) and its bytes; or, from BLOB_SHARE_MIN bytes on, the
 *            address + 1 of a blob (blob.h), so that a reply can refer to it and what was received need not be copied
 *
 * Each string has one form only, so of two that are not far the bytes are equal if and only if the strings are.
 */
#ifndef SHARD_PACKED_H
#define SHARD_PACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shard/entry.h"

#define PACKED_INLINE_MAX 112u
#define PACKED_FAR 0xe0u
#define PACKED_FAR_SIZE 9u
#define PACKED_SIZE_MAX (1u + PACKED_INLINE_MAX)

struct arg;
struct blob;
struct memory;

/* A string on its way into packed form. Refers to the string's own bytes. */
struct packed {
    const char *text;
    uint32_t text_size;
    uint8_t head[PACKED_FAR_SIZE]; /* all of an integer or a far string's; of a short string its size */
    uint8_t head_size;
    uint8_t size; /* of the packed form */
};

void packed_of(struct packed *x, const char *text, uint32_t size);
void packed_of_int(struct packed *x, int64_t v);
/* Of one that is known not to read like an integer. */
void packed_of_text(struct packed *x, const char *text, uint32_t size);
static inline bool packed_is_far(const struct packed *x) { return x->head[0] == PACKED_FAR; }
/* Of the argument that x was made of, just before it is made far: if that lies in a blob of its own, it becomes the far string's, and the argument's no
 * more; else nothing is done. Whatever then refuses x must drop it (packed_drop), as if it had been made far. */
void packed_adopt(struct memory *m, struct packed *x, struct arg *a);
/* The same for one in a blob of the shard's (ARG_SHARED): the far string refers to that, as one more. */
void packed_share(struct packed *x, const struct arg *a);

/* Writes x->size bytes. A far string's block must have been made. */
static inline void packed_write(const struct packed *x, uint8_t *to) {
    memcpy(to, x->head, x->head_size);
    memcpy(to + x->head_size, x->text, x->size - x->head_size);
}

/* Makes a far string's block unless it has one, which then belongs to what is written; does nothing for others. -ENOMEM: nothing was done. */
int packed_make_far(struct memory *m, struct packed *x);
/* Frees the block of one that was written, or not; does nothing for others. */
void packed_drop(struct memory *m, const uint8_t *at);
/* Bytes of that block, 0 if there is none. */
size_t packed_far_memory(const uint8_t *at);
/* What packed_make_far takes. */
size_t packed_far_needs(const struct packed *x);

/* Copying packed strings that lie in one block, byte by byte, and then what the far ones refer to, in parts: of this or another shard, from where it lies. The copy may be dropped
 * at any time. All 0 but for cost: nothing was copied. */
struct packed_copying {
    int64_t cost;     /* what may still be done now: bytes, about; below 0: no more */
    size_t memory;    /* bytes that the far ones took */
    bool inside;      /* a block was copied, and not all that it refers to */
    uint32_t at;      /* where in the block its next far string is, or is looked for */
    uint32_t written; /* bytes of that one */
};
/* What a copied string refers to is not its own: it has nothing yet (packed_drop does nothing). Of a far one. */
void packed_forget(uint8_t *at);
/* Goes on copying what `from` refers to for its copy. 1: there is more; 0: all is written; -ENOMEM. Of far ones. */
int packed_copy_far(struct memory *m, uint8_t *to, const uint8_t *from, struct packed_copying *c);

/* Of what is written at `at`: its size in packed form. */
static inline uint32_t packed_size(const uint8_t *at) {
    if (*at <= 0x7f) return 1u + *at;
    if (*at <= 0xbf) return 1;
    return *at == PACKED_FAR ? PACKED_FAR_SIZE : 1u + (*at & 0xfu);
}
static inline bool packed_is_int(const uint8_t *at) { return *at >= 0x80 && *at < PACKED_FAR; }
/* Of an integer. */
int64_t packed_int(const uint8_t *at);
/* Its text; an integer's is written to scratch. */
const char *packed_text(const uint8_t *at, char scratch[INT64_TEXT_SIZE], uint32_t *size);
uint32_t packed_text_size(const uint8_t *at);
/* The blob that packed_text gave the bytes of, if they are BLOB_SHARE_MIN or more. */
struct blob *packed_blob(const char *text);
/* Whether x is the string that is written at `at`. */
static inline bool packed_equal(const struct packed *x, const uint8_t *at) {
    if (__builtin_expect(packed_is_far(x), 0)) {
        uint32_t size;
        const char *text = *at == PACKED_FAR ? packed_text(at, NULL, &size) : NULL;
        return text && size == x->text_size && !memcmp(text, x->text, size);
    }
    return *at == x->head[0] && !memcmp(at, x->head, x->head_size) && !memcmp(at + x->head_size, x->text, x->size - x->head_size);
}

#endif
