/* The shard's half of the scheduler: which transactions are under way here, on what keys, and who may run. Pure data: no clock, no memory of its
 * but an array of buckets, no message. The coordinator's half is server/txn.h.
 *
 * In the family of VLL (Ren, Thomson, Abadi: "Lightweight Locking for Main Memory Database Systems", VLDB 2012). A transaction over several
 * shards has a number, of one counter for all. On each of its shards it has a member, with an intent on each of its keys. Of two members with
 * intents that conflict on a place the one with the lower number goes first, on every shard. So:
 *
 *   - A member may run once it was told to (which happens when its intents stand on all shards) and none of its intents waits. An intent waits
 *     while one before it in the order of its place conflicts. Members without a conflict run in any order.
 *   - The floor is the highest number that has begun here. A transaction's member that arrives with a lower number is late: it may have to go before
 *     something that has run. It is not taken in; the coordinator withdraws the transaction everywhere and tries again with a new number.
 *   - A command of one shard (a local member) has no number and is taken in only if it meets an intent that conflicts. It takes the number of the
 *     last that is here, and goes right behind it: it waits for those that came before it and conflict, and only for them.
 *
 * When the number is drawn matters: after the transaction's members have their places in the order of arrival of all their shards, and before any of them
 * is taken in (between the pushes of a turn and its arming). Why that is strictly serialisable, in the order of the numbers:
 *
 *   - Let P be a command of one shard, asked when N was the last number drawn, and T a transaction that is taken in there after P has run. T's place is behind
 *     P's, which P got after it was asked: so T's number is above N. P comes before T, and behind all that could be seen when P was asked,
 *     which has numbers up to N. There is no circle.
 *   - Of two transactions the one with the lower number has its places before the other's hops are even sent. So it is taken in on each shard before
 *     the other begins there: of VLL's withdrawals hardly any is left. (A local member raises the floor to the end of the queue as it was when it came, which may be
 *     more than what it waited for; and what is refused for want of memory is withdrawn in the same way.)
 *
 * Places are keys (by their 64-bit hash: keys with the same hash wait for each other without need) and whole databases. Each member has on each
 * database of its keys an intent that says that there are some (WITHIN); a member with very many keys has one on the whole database instead
 * (cf. granular locks: Gray, Lorie, Putzolu, Traiger 1976).
 *
 * What a queue of thousands costs: on a place the intents of one mode are a line, in the order of their members, and those that wait are the end of it. So
 * whoever comes last, or leaves as the first, asks only the first and the last of each line; one that comes out of order passes those that it overtakes.
 *
 * The memory of members and intents is the sender's; it must stay where it is until schedule_remove() or until schedule_add() did not take it in.
 */
#ifndef SHARD_SCHEDULE_H
#define SHARD_SCHEDULE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Deliberate faults, one at a time, that the simulator must find (tests/sim). Never set elsewhere. */
#ifndef SCHEDULE_FAULT
#define SCHEDULE_FAULT 0
#endif
enum { SCHEDULE_FAULT_NO_FLOOR = 1, SCHEDULE_FAULT_INTENT_LOST = 2, SCHEDULE_FAULT_WAITING_RUNS = 3, SCHEDULE_FAULT_WRITES_SHARE = 4 };

enum intent_mode {
    INTENT_READ_WITHIN,  /* on a database: the member reads keys of it */
    INTENT_WRITE_WITHIN, /* and writes some */
    INTENT_READ,         /* on a key or a database */
    INTENT_WRITE,
    INTENT_MODES
};

/* Keys of the same name in different databases share a place: COPY and MOVE reach from one database into another. */
#define INTENT_DB 0u

struct member;

struct intent;

/* The intents on a key or a database. */
struct intent_place {
    struct intent *chain; /* one of the next place of the bucket */
    struct intent_line {
        struct intent *first, *last, *first_waiting; /* all from that one on wait, and none before it */
    } lines[INTENT_MODES];
};

/* One of those on a place stands for it: `place` means something in that one only. */
struct intent {
    uint64_t hash; /* of the key; 0 for a database */
    uint32_t db;   /* number */
    uint8_t mode;  /* enum intent_mode */
    bool whole;    /* on the database */
    bool waits;
    bool linked; /* false: another of the same member on the same place does for both */
    struct member *member;
    struct intent *next, *previous; /* of its line */
    struct intent_place place;
};

struct member {
    uint64_t number; /* the transaction's; 0: local, which schedule_add() replaces by its place in the order */
    int64_t turn;    /* of those of one number: the schedule's, in the order in which they came */
    struct intent *intents;
    uint32_t n_intents;
    uint32_t n_waits; /* of its intents */
    bool local, told, begun, in;
    bool ready;                     /* in the list of those */
    _Atomic bool awaited;           /* somebody behind it had to wait for it; its sender may read that meanwhile */
    struct member *next, *previous; /* of the shard, in order */
    struct member *next_ready;
    void *owner; /* the sender's */
};

struct schedule_stats {
    uint64_t scheduled;    /* members taken in, of transactions */
    uint64_t immediate;    /* of these: nothing was before them */
    uint64_t late;         /* not taken in */
    uint64_t deferred;     /* local members */
    uint64_t out_of_order; /* began while one with a lower number was still here */
};

struct schedule {
    struct intent **buckets;
    uint32_t n_buckets; /* power of two, or 0 */
    uint32_t n_places, n_members;
    uint32_t n_whole; /* intents that read or write a whole database */
    uint64_t floor;   /* no number below it is taken in */
    int64_t turns;    /* drawn */
    struct member *first, *last;
    struct member *ready, *last_ready;
    struct schedule_stats stats;
};

/* An empty one is all zero. Frees the buckets; members are their owners'. */
void schedule_drop(struct schedule *s);

static inline bool schedule_is_empty(const struct schedule *s) { return !s->n_members; }

/* An intent on a key, or on a database. */
void intent_on_key(struct intent *i, uint32_t db, uint64_t hash, bool write);
void intent_on_database(struct intent *i, uint32_t db, enum intent_mode mode);

/* Takes a member in, with its intents (set up by the two above; those on keys behind one on their database). number, local and intents are set, all else
 * is 0. False: it is late, nothing was done. Places may be named twice. O(intents), unless numbers arrive out of order. */
bool schedule_add(struct schedule *s, struct member *m);
/* The same of a local member that begins at once, before all that stand: nothing that it conflicts with may have begun (schedule_holds). Who has not begun waits for it, told or not.
 * False: no memory. */
bool schedule_add_begun(struct schedule *s, struct member *m);
/* It may run as soon as nothing before it conflicts. True: that is now, and it has begun. False: schedule_next() will give it. */
bool schedule_tell(struct schedule *s, struct member *m);
/* A member that was told, waited, and need not wait any more: it has begun. NULL: there is none. To be asked until then after each schedule_remove(),
 * before anything else is added but by schedule_add_begun(). */
struct member *schedule_next(struct schedule *s);
/* It has run, or is withdrawn. Those that waited for it may be ready now. */
void schedule_remove(struct schedule *s, struct member *m);

/* Whether a command on this key would have to wait. Cheap if the schedule is empty. */
bool schedule_conflicts(const struct schedule *s, uint32_t db, uint64_t hash, bool write);
/* Whether a member that has begun, and is not done, has an intent on this key or on its database as a whole. */
bool schedule_holds(const struct schedule *s, uint32_t db, uint64_t hash);
/* Whether somebody has had to wait for an intent of this member, since it stands. On any thread, while the member's memory is there. */
static inline bool schedule_is_awaited(const struct member *m) { return atomic_load_explicit(&m->awaited, memory_order_relaxed); }

#endif
