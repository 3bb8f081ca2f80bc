/* Times of a hash's fields. A field past its time is gone to every reader; whoever comes upon one, or the shard's wheel, takes it out, and the hash with its last.
 *
 * The entry of a hash whose fields have times says before which time none of them is past its own (entry.h), so who looks the key up compares once. The wheel
 * holds a record for that time, or for the key's own if that is earlier (expire.h). When it fires, what is due is taken out in slices, and the next time armed.
 */
#ifndef SHARD_FIELD_EXPIRY_H
#define SHARD_FIELD_EXPIRY_H

#include "shard/keyspace.h"

/* Whether a field of this entry may be past its time. As of a key: not yet in the very millisecond of it. */
static inline bool fields_are_due(const struct shard *s, const struct entry *e) { return entry_fields_time(e) < s->now_ms; }
/* Takes out those that are, about so many; the last one takes the key with it. Returns how many. */
uint32_t key_expire_fields(struct shard *s, struct key *k, uint32_t most);

#endif
