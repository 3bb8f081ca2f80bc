/* What the files of the set commands share. */
#ifndef SERVER_SETS_H
#define SERVER_SETS_H

#include "server/command.h"
#include "shard/set.h"

/* From more members on a set of integers is shown as a hashtable. */
int64_t set_ints_max(void);
/* Is the key, if it is there, a set? The error is replied. */
bool is_set(const struct key *k, struct reply *r);
void reply_item(struct reply *r, const struct set_item *m);

/* set_random.c */
hop_fn spop, srandmember;
hop_drop_fn drawing_drop;

/* set_algebra.c */
spread_fn sinter, sunion, sdiff, sinterstore, sunionstore, sdiffstore, sintercard;
hop_fn sinter_on_one, sunion_on_one, sdiff_on_one, sinterstore_on_one, sunionstore_on_one, sdiffstore_on_one, sintercard_on_one;
hop_drop_fn answer_drop;
steps_fn algebra_steps;
struct algebra;
/* Frees what its steps left (or NULL). */
void algebra_drop(struct algebra *a);

#endif
