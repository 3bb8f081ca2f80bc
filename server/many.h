/* Commands with very many arguments (HSET, SADD, ZADD, HMGET and their kin): they go through these in slices, under the intent on their key.
 *
 * A command says what it does to some of its arguments at a time, and many_run() does the rest: the hop says HOP_AGAIN at first (shard/hop.h), and is then
 * called for each slice. It may go through its arguments twice: first it checks them all, and decides whether memory for all will do; then it acts. Nothing is changed
 * before it acts, and nothing is asked from then on, so it is done as a whole or not at all (but where the system has no memory).
 *
 * Nothing points into the keyspace between two slices: each opens its key anew. Those who listen are told once, when all is done.
 *
 * On the shard's holder. What a small command pays is the comparison with MANY_FEW.
 */
#ifndef SERVER_MANY_H
#define SERVER_MANY_H

#include "server/command.h"

/* With so many arguments a command need not ask whether it is long. */
#define MANY_FEW 64u

struct many_way;

/* One that is under way. All is 0 at first. */
struct many {
    const struct many_way *way;
    uint32_t first, at;           /* the first of its arguments; the next */
    bool acts;                    /* the arguments were checked */
    bool flag;                    /* the command's own */
    unsigned flags;               /* the same */
    int64_t n;                    /* what it counts */
    uint64_t members, bytes, far; /* what it adds up while it checks */
    uint64_t reserved;            /* bytes of the budget that are kept for it */
    size_t reply_at;              /* where its reply begins */
};

/* Does something to the arguments from m->at on, before `to`, and sets m->at behind the last of them. False: an error was replied, and all is over. */
typedef bool many_part(struct shard *s, struct hop *h, struct many *m, uint32_t to, struct reply *r);

/* A way to go through arguments. */
struct many_way {
    uint32_t most;        /* arguments of a slice: about 100 us */
    uint32_t first, step; /* the first argument, and how many belong together */
    /* Reads what stands before them, and looks at the key; may set m->first. False: an error was replied. NULL: nothing. */
    bool (*begin)(struct shard *s, struct hop *h, struct many *m, struct reply *r);
    many_part *check; /* NULL: nothing is to be checked */
    many_part *act;
    void (*end)(struct shard *s, struct hop *h, struct many *m, struct reply *r); /* replies; NULL: that is done */
};

/* Whether a hop with more than MANY_FEW arguments goes on, or should, in slices. */
bool many_is_long(const struct hop *h, const struct many_way *way);
/* The whole of such a hop. */
enum hop_result many_run(struct shard *s, struct hop *h, const struct many_way *way, struct reply *r);
/* Keeps so many bytes of the budget for the key's value, and its entry, for what will be done: it is not refused then. False: refused, which is replied. */
bool many_reserve(struct shard *s, struct many *m, const struct key *k, uint64_t bytes, struct reply *r);
/* Whether the reply of a slice that began at this size is long enough. */
#define MANY_REPLY_BYTES (64u << 10)
static inline bool many_replied(const struct reply *r, size_t began) { return r->size - began > MANY_REPLY_BYTES; }
/* The way's last part was that. */
static inline bool many_is_last(const struct hop *h, const struct many *m) { return m->at >= h->argc; }
/* An end: replies m->n. */
void many_reply_n(struct shard *s, struct hop *h, struct many *m, struct reply *r);
/* The key as a later slice sees it, which only reads, counts no hit, and changes nothing whatever is past its time. */
void many_look(struct shard *s, const struct hop *h, struct key *k);
/* Of the rows of such commands. */
hop_drop_fn many_drop;

#endif
