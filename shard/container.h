/* Containers: values that are neither a string nor inside their entry, but behind its pointer. What all of them have in common: their end, their size, and how
 * they come to another key or shard.
 *
 * A container belongs to its entry and lies in its shard's memory. A copy is made block by block, of the same shape. As nothing changes in a container while
 * somebody has an intent on its key, another shard copies it from where it lies.
 */
#ifndef SHARD_CONTAINER_H
#define SHARD_CONTAINER_H

#include <stdbool.h>
#include <stddef.h>

#include "shard/entry.h"
#include "shard/fields.h"

struct shard;

/* Frees what e points to. A large one is hung in *large, to be freed in slices; NULL: at once. e's pointer may be NULL: it was taken over. */
void container_drop(struct memory *m, struct entry *e, struct trash **large);
/* The same for one that is in no entry. */
void container_free(struct memory *m, enum entry_encoding encoding, void *container, struct trash **large);
/* Bytes behind the entry. */
size_t container_memory(const struct entry *e);
/* Whether freeing it is done in slices, so that its bytes do not come back at once. */
bool container_is_large(const struct entry *e);
/* Whether clients are told its large encoding: a hash that crossed a limit of the configuration; a set always. */
bool container_shown_large(const struct entry *e);
/* A copy for a shard, made in parts, of the container of an entry of this or another shard, which stays as it is meanwhile. All 0: nothing was copied. */
struct container_copying {
    void *container; /* so far */
    size_t memory;   /* and what it takes */
    enum entry_encoding encoding;
    struct packed_copying at;
};
/* Goes on for about so many bytes. 1: there is more; 0: it is done, and is the caller's; -ENOMEM: nothing is left of it. */
int container_copy_some(struct shard *s, struct container_copying *c, const struct entry *e, int64_t cost);
/* Frees what there is of it. */
void container_copy_drop(struct shard *s, struct container_copying *c);

/* The fields of a hash or a set that has some, and where they belong. */
struct fields container_fields(struct shard *s, const struct entry *e);

#endif
