/* Containers: values that are neither a string nor inside their entry, but behind its pointer. What all of them have in common: their end, their size, and how
 * they come to another shard.
 *
 * A container belongs to its entry and lies in its shard's memory. To travel it is flat: all in one block of its own, of no shard.
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
/* A copy for this shard, of an entry of any shard or a flat one: its pointer and encoding. NULL: no memory. */
void *container_copy(struct shard *s, const struct entry *e, enum entry_encoding *encoding);
/* A flat copy. NULL: no memory. */
void *container_flatten(const struct entry *e);
/* Frees a flat container. */
void container_drop_flat(void *flat);

/* The fields of a hash or a set that has some, and where they belong. */
struct fields container_fields(struct shard *s, const struct entry *e);

#endif
