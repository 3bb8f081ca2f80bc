/* A hop: one function to be run on one shard, with its arguments; and how a batch of them is run.
 *
 * Hops are made by a connection's thread and lent to the shard while they run. Arguments point into the sender's receive buffers. What the
 * shard reads fills one line; a batch is an array of hops, so they come to the other core in sequence.
 *
 * A batch is run in groups, stage by stage, so that the cache misses of a group overlap (group prefetching: Chen, Ailamaki, Gibbons,
 * Mowry, "Improving Hash Join Performance through Prefetching", ICDE 2004; cf. AMAC: Kocberber, Falsafi, Grot, VLDB 2015):
 *
 *   stage 0  the keys' bytes (of foreign hops) and the directory words
 *   stage 1  segment -> the target bucket, and the probe bucket
 *   stage 2  fingerprints -> the entry that will most probably be compared
 *   stage 3  the value behind the entry, where the hop's row asks for it
 *   stage 4  run
 *
 * A prefetch is advice: it may be wrong (a table may split in between), never faults, decides nothing.
 */
#ifndef SHARD_HOP_H
#define SHARD_HOP_H

#include <stdbool.h>
#include <stdint.h>

struct shard;
struct reply;
struct hop;

/* One argument of a command. flags: ARG_BLOB: p is the bytes of a struct blob that the shard may take over (it then clears the flag). ARG_SHARED: of one that the shard has
 * already, in a container, and to which what is made of the argument may refer, too. */
struct arg {
    const char *p;
    uint32_t size, flags;
};
enum { ARG_BLOB = 1, ARG_WAS_BLOB = 2, ARG_SHARED = 4 }; /* WAS: stays, so that one knows that p may be gone once ARG_BLOB is cleared */

/* DONE, or AGAIN: a slice was done (about 100 us at most), run it again later; its state is in h->state.
 *
 * A piece of a row with CMD_SLICED says so whenever it likes. A plain hop that finds that it has much to do says so at first, before it replied or changed
 * anything, while its state is 0: then its keys are locked, its state is HOP_IN_SLICES, and it is run as often as it says AGAIN. */
enum hop_result { HOP_DONE, HOP_AGAIN };
#define HOP_IN_SLICES 1u
/* In the state of what pops in slices: it has replied all, and takes it away from here on. Before that it may be given up, and nothing has changed. */
#define HOP_REMOVES (1ull << 63)

/* Runs on the shard's holder; appends exactly one RESP value to reply (a piece: as its row's merge says). */
typedef enum hop_result hop_fn(struct shard *s, struct hop *h, struct reply *r);

enum {
    HOP_WRITE = 1,    /* prefetches are for writing */
    HOP_NO_KEY = 2,   /* nothing to prefetch */
    HOP_NO_REPLY = 4, /* CLIENT REPLY OFF or SKIP: the reply is dropped */
    HOP_NO_TOUCH = 8, /* CLIENT NO-TOUCH: leaves the access clock alone */
    HOP_PIECE = 16,   /* part of a command over several keys or shards */
    HOP_VALUE = 32,   /* stage 3 is worth it */
    HOP_TIMED = 64,   /* may be slow: its time is always taken */
    HOP_SLOW = 128,   /* was slow: state is its time, in the runner's unit */
};

struct hop {
    uint64_t hash; /* of the first key */
    hop_fn *run;
    struct arg *argv; /* argv[0] is the command's name */
    uint64_t *hashes; /* of all keys of the hop, in order, if there are several; else NULL */
    void *origin;     /* the sender's: the shard reads of it at most what never changes, or is atomic */
    uint64_t state;   /* of a sliced hop: 0 at first */
    uint32_t argc;
    uint16_t db;  /* number of the database */
    uint8_t resp; /* 2 or 3 */
    uint8_t flags;
    uint32_t n_keys; /* keys: argv[key_first], argv[key_first + key_step] ...: hop_key_at */
    uint8_t key_first, key_step;
    uint16_t row; /* the command's number */
};
_Static_assert(sizeof(struct hop) == 64, "a hop is one line");

/* A key_step: one argument stands between the first key and the others, which have none between them (ZUNIONSTORE). */
#define HOP_KEY_GAP 0u
static inline uint32_t hop_key_at(uint32_t first, uint32_t step, uint32_t nth) {
    return step != HOP_KEY_GAP ? first + nth * step : first + nth + (nth > 0);
}

enum prefetch_level { PREFETCH_NONE, PREFETCH_BUCKET, PREFETCH_BUCKET_PROBE, PREFETCH_ENTRY, PREFETCH_FULL };

/* The state of a hop that said AGAIN, for the next time. */
static inline uint64_t hop_state_next(const struct hop *h) { return h->state ? h->state : HOP_IN_SLICES; }

/* Runs a hop to its end. */
static inline void hop_run_whole(struct shard *s, struct hop *h, struct reply *r) {
    while (h->run(s, h, r) == HOP_AGAIN) h->state = hop_state_next(h);
}

/* Hops in a group: chosen by measurement (docs/benchmarks.md). */
#define HOP_GROUP 32

#endif
