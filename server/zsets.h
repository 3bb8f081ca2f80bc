/* What the files of the sorted-set commands share, and what other families need of sorted sets. */
#ifndef SERVER_ZSETS_H
#define SERVER_ZSETS_H

#include "server/command.h"
#include "server/many.h"
#include "shard/zset.h"

/* Members of one command that are looked for together. */
#define ZSET_GROUP 16u
/* Members that are replied, or removed, in one slice. */
#define ZSET_REPLY_SLICE 512u
#define ZSET_REMOVE_SLICE 256u

/* Is the key, if it is there, a sorted set? The error is replied. */
bool is_zset(const struct key *k, struct reply *r);
/* False: the key is of another type, and that is replied. A key that is not there is an empty one. */
bool zset_open_read(struct shard *s, const struct hop *h, struct zset *x, struct reply *r);
bool zset_open_write(struct shard *s, const struct hop *h, struct key *k, struct zset *x, struct reply *r);
/* The same in a later slice, which counts no hit. */
bool zset_open_slice(struct shard *s, const struct hop *h, struct zset *x, struct reply *r);

/* A score; the error is replied. text: it; NULL: the usual. */
bool arg_score(const struct arg *a, double *out, const char *text, struct reply *r);

/* A longitude and a latitude, as the score of the place (geo.c). False: the error is replied. */
bool arg_place(const struct arg *a, double *out, struct reply *r);
/* Adds the members argv[m->first + 2], argv[m->first + 5] ... with their places before them, in slices: GEOADD, which begins so. */
extern const struct many_way zset_adding_places;
/* Looks at the key, and begins the reply of as many elements as there are members named, from argv[2] on. */
bool zset_begin_asking(struct shard *s, struct hop *h, struct many *m, struct reply *r);

/* The score that a member of this size (0: one that is there) will have: a small one keeps no -0, as in Redis. */
double zset_kept(const struct zset *x, uint32_t size, double score);
/* After members were added: clients are told of the large encoding once a limit of the configuration was crossed; longest: bytes of the longest new member. */
void zset_show(struct zset *x, uint32_t longest);

void reply_member(struct reply *r, const struct zset_item *m);
/* An array of n members, with their scores: in RESP2 one array, else one of pairs. */
void reply_members_size(struct reply *r, uint64_t n, bool scores);
void reply_scored(struct reply *r, const struct zset_item *m, bool scores);

/* How popped members are replied. In bit 0 whether each is a pair of its own; in bit 1 whether the key's name comes before them. */
enum pop_shape {
    POP_FLAT,        /* member, score, member, score ...: ZPOPMIN */
    POP_PAIRS,       /* [member, score], [member, score] ...: ZPOPMIN with a count in RESP3 */
    POP_NAMED_FLAT,  /* key, member, score: BZPOPMIN */
    POP_NAMED_PAIRS, /* key, [[member, score] ...]: ZMPOP, BZMPOP */
};
/* Pops up to count > 0 members of a key that is a sorted set with members, the lowest or the highest, and replies them. */
void zset_pop(struct shard *s, struct key *k, bool highest, uint64_t count, enum pop_shape shape, struct reply *r);
/* The same of a hop that goes on in slices if they are many: all are replied before the first goes (HOP_REMOVES). */
enum hop_result zset_pop_on(
    struct shard *s, struct hop *h, struct key *k, bool highest, uint64_t count, enum pop_shape shape, struct reply *r);

/* What ZMPOP and BZMPOP are told, from the number of keys on, which is argv[at]. False: an error was replied. */
struct zset_pops {
    uint32_t n_keys;
    bool highest;
    uint64_t count;
};
bool zset_read_pops(const struct arg *argv, uint32_t argc, uint32_t at, struct zset_pops *out, struct reply *r);

/* A new one under way, for a shard: a result that is going to be stored, or replied. */
struct zset_building {
    struct shard *shard;
    struct zset *x;
    uint32_t longest, n;
    bool unasked; /* the budget is not asked */
    bool large;   /* it is known to be large from the first member on: -0 is kept */
};
/* Adds a member, which is new, or the one that is there (was) gets this score. False: no memory. */
bool zset_build(struct zset_building *b, const struct field_name *name, double score);
/* The same for what Redis adds one by one: it is a small one until it crosses a limit. */
bool zset_build_in_turn(struct zset_building *b, const struct field_name *name, double score);
bool zset_rebuild(struct zset_building *b, const struct field_name *name, const struct zset_item *was, double score);
/* All are in it: clients are shown the large encoding if a limit of the configuration was crossed. */
void zset_built(struct zset_building *b);
/* (The members of a small result lose their -0 by that.) The result becomes the value of a key, and how many members it has is the reply. Not good: memory was refused; it is dropped, and that is the reply. */
void zset_store_result(struct shard *s, struct key *k, struct zset *result, bool good, struct reply *r);
/* Adds what came in a parcel, from a place on; in turn or not. *most: of so many; what is left of that. False: there is more, or no memory (then *most is not 0). */
struct parcel;
struct parcel_at;
bool zset_unpack(struct zset_building *b, const struct parcel *p, struct parcel_at *at, bool in_turn, uint64_t *most);

/* zsets.c */
/* ZADD of arguments that the caller made and frees: it never goes on in slices, whose tasks would read them later. */
void zadd_in_one_go(struct shard *s, struct hop *h, struct reply *r);
hop_fn zadd, zincrby, zrem, zcard, zscore, zmscore, zrank, zrevrank, zpopmin, zpopmax, zmpop_on_one, zscan;
spread_fn zmpop;
steps_fn zmpop_steps;

/* zset_random.c */
hop_fn zrandmember;
hop_drop_fn zrandmember_drop;

/* zset_blocking.c */
extern const struct blocking bzpopmin, bzpopmax, bzmpop;

/* zset_ranges.c */
hop_fn zcount, zlexcount, zrange, zrangebyscore, zrevrangebyscore, zrangebylex, zrevrangebylex, zrevrange, zremrangebyrank,
    zremrangebyscore, zremrangebylex;
spread_fn zrangestore;
hop_fn zrangestore_on_one;
hop_drop_fn zrangestore_drop;
steps_fn zrangestore_steps;

/* zset_algebra.c */
spread_fn zunion, zinter, zdiff, zunionstore, zinterstore, zdiffstore, zintercard;
hop_fn zset_algebra_on_one;
hop_drop_fn zset_answer_drop;
steps_fn zset_algebra_steps;
find_keys_fn zset_algebra_keys;

#endif
