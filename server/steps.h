/* Commands whose keys belong together and lie on several shards (PLAN_SPREAD), as transactions of several waves of hops: some that read, then some that
 * write, all under the same intents.
 *
 * A step function is called on the connection's thread when the intents stand (k->step is 0), and again whenever the wave that it sent is done (1, 2 ...).
 * It sends the next wave and returns true, or appends the reply and returns false.
 */
#ifndef SERVER_STEPS_H
#define SERVER_STEPS_H

#include "server/task.h"
#include "shard/container.h"

/* What the hops of a task leave for its next step. Each member is written by one shard at a time. */
struct carrier {
    struct entry *entry[2]; /* copies, of the first and the second key; their blobs are lent or, if lifted, ours */
    bool lifted;            /* taken out of its shard: it must land somewhere */
    bool is_long;           /* COPY, RENAME: a container that is copied in slices */
    struct container_copying copying;
    struct shard *copies; /* whose shard that is for */
    bool found[2];
    uint32_t db; /* COPY's */
    bool replace;
    struct algebra *algebra; /* of SINTER and its kin (set_algebra.c) */
    /* Of families with files of their own: the shard of each key, and what else they carry. */
    uint16_t *shards;
    void *own;
    void (*drop_own)(struct thread *t, void *own);
};

/* Frees what a task carries, at its end. */
void carrier_drop(struct thread *t, struct carrier *x);

steps_fn rename_steps, renamenx_steps, copy_steps, msetnx_steps, lcs_steps;

/* For step functions elsewhere. Which shard has the nth key; */
uint32_t steps_shard_of(const struct thread *t, const struct task *k, uint32_t nth);
/* the wave before, of which nothing is needed any more, makes room; */
void steps_new_wave(struct thread *t, struct task *k);
/* a hop for a shard, in the next wave: it sees all arguments, and the carrier (one a shard); */
void steps_hop(struct thread *t, struct task *k, uint32_t shard, hop_fn *run);
/* the same of one that may go on in slices: the shard's own thread runs it; */
void steps_hop_in_slices(struct thread *t, struct task *k, uint32_t shard, hop_fn *run);
struct carrier *steps_carrier(const struct hop *h);
/* replies the error that a hop of the wave replied, if one did. */
bool steps_take_error(struct thread *t, struct task *k, struct reply *r);
/* Notes the shard of each key in the carrier, once. False: no memory. */
bool steps_find_shards(struct thread *t, struct task *k);
/* The next wave: a hop on each shard that has one of the keys [from, to); or on the shard of the nth key. */
void steps_wave_on_some(struct thread *t, struct task *k, uint32_t from, uint32_t to, hop_fn *run);
void steps_wave_on(struct thread *t, struct task *k, uint32_t nth, hop_fn *run);
/* The reply of a wave's only hop. */
void steps_take_reply(struct thread *t, struct task *k, struct reply *r);

void task_start_steps(
    struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc, const struct key_range *keys);

#endif
