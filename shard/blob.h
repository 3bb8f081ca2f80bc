/* A blob: a byte string too large to be embedded in its entry, reference-counted so that replies can be sent from it.
 *
 * The count belongs to the shard that owns the key and is not atomic: only whoever holds the shard counts up or down. A reply that
 * refers to a blob keeps one reference until its bytes are sent; the reference then travels back to the shard. A blob with more
 * than one reference is immutable: APPEND and SETRANGE copy it first.
 *
 * A blob may be made on a connection's thread (a large argument is received straight into it); it then has one reference, which
 * the shard takes over with blob_adopt(), and its bytes are charged to the shard at that moment.
 */
#ifndef SHARD_BLOB_H
#define SHARD_BLOB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct memory;

struct blob {
    uint64_t size, capacity; /* bytes */
    uint32_t refs, shard;
    char bytes[];
};

/* Blocks of this size and more are mapped on their own, in huge pages where the kernel has them: they are zero until touched, grow without being
 * copied, and are gone at once (512 MiB: 1 ms instead of 50). Below it mimalloc's reuse of blocks is worth more than that. */
#define BLOB_MAPPED_MIN ((size_t)8 << 20)

/* Values of this size and more are replied by reference, not copied; and received straight into a blob. */
#define BLOB_SHARE_MIN 16384u

#define BLOB_NO_SHARD UINT32_MAX

/* On a connection's thread: room for capacity bytes, one reference, owned by the caller. NULL when memory is refused. */
struct blob *blob_receive(size_t capacity);
/* Undoes blob_receive, on the same or another thread, if no shard adopted it. */
void blob_discard(struct blob *b);
/* What there is to unmap instead (memory_unmap), if somebody else shall do that, in bytes; 0: it was not mapped on its own. */
size_t blob_mapped(const struct blob *b);
/* The shard takes over a received blob. */
void blob_adopt(struct memory *m, struct blob *b, uint32_t shard);

/* On the shard. A new blob of size bytes with room for at least capacity >= size; NULL when memory is refused. */
struct blob *blob_new(struct memory *m, uint32_t shard, size_t size, size_t capacity);
/* Lets go of one reference; frees the blob with the last. */
void blob_release(struct memory *m, struct blob *b);

/* A mapped blob that nobody else refers to can grow: it may move, its bytes stay. NULL when memory is refused; then nothing changed. */
bool blob_can_grow(const struct blob *b);
struct blob *blob_grow(struct memory *m, struct blob *b, size_t capacity);
/* Makes bytes [from, to) zero; of a mapped blob without touching them. */
void blob_zero(struct blob *b, size_t from, size_t to);

/* Can it be overwritten with size bytes where it lies: nobody else refers to it, and a new one would take a block of the same size? */
bool blob_fits(const struct blob *b, size_t size);
/* Hands a blob to another shard, with its bytes; both shards are held. False (nothing changed): it is referred to, or lies in its shard's own pages. */
bool blob_transfer(struct memory *from, struct memory *to, struct blob *b, uint32_t shard);
/* Takes a blob out of its shard's accounts, for blob_adopt() by another: itself if it is referred to once and does not lie in the shard's own pages, else
 * a copy (the caller keeps its reference to the original). NULL when memory is refused. */
struct blob *blob_detach(struct memory *m, struct blob *b);
/* Undoes blob_adopt. */
void blob_disown(struct memory *m, struct blob *b);
/* A shard can take it over as it is; else it must be copied into the shard's pages. */
bool blob_can_be_adopted(const struct blob *b);
/* Bytes of its block; and of one with this capacity. */
size_t blob_memory(const struct blob *b);
size_t blob_memory_for(size_t capacity);

#endif
