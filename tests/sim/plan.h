/* What clients will ask, and what comes of it: a plan is made from a seed before anything runs, and becomes the history as it does.
 *
 * An operation is a list of parts, each on one key, in one or two waves: the second one may depend on what the first has read. So there is one
 * description of MGET, RENAME and EXEC, which the shards execute part by part, and the checkers' model all at once.
 */
#ifndef SIM_PLAN_H
#define SIM_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#define SHARDS_MAX 5u
#define CLIENTS_MAX 8u
#define KEYS_MAX 6u /* in each database */
#define PARTS_MAX 12u
#define OPS_MAX 256u /* with those of the server itself */
#define CONNS_MAX 32u
#define TOKEN_SIZE 5u /* bytes of what is set and appended: four digits and ';'. An element, for who pops */
#define POP_KEYS_MAX 4u

/* What the databases are for, so that the checkers know what to expect. */
enum { DB_A, DB_B /* these two are flushed and swapped */, DB_LISTS /* only appended to */, DB_BANK /* a constant sum */, DBS };
#define BANK_START 100

enum part_kind { PART_GET, PART_EXISTS, PART_SET, PART_INCR, PART_APPEND, PART_DEL, PART_POP /* takes the last element */ };
enum part_status { PART_NOT_RUN, PART_DONE, PART_ABSENT, PART_REFUSED /* no memory: nothing was changed */ };

/* What a key has, or a part has read. */
struct value {
    uint64_t code; /* of its bytes (FNV-1a); 0: there is no key */
    int64_t number, deadline_ms;
    uint32_t size;
    const char *text; /* NULL in the model */
};

struct part {
    uint8_t kind, db, key, wave;
    int8_t from;       /* SET: the part whose value and deadline it takes, or -1 */
    uint16_t token;    /* SET, APPEND: what it writes; unique */
    int32_t ttl_ms;    /* SET: 0: for ever */
    int64_t number;    /* INCR: by how much */
    uint8_t needs;     /* POP: so many elements must be there */
    uint64_t expected; /* EXEC: the code of a watched key */
    /* The answer. */
    uint8_t status;
    bool expired;     /* it deleted the key, as that was past its time */
    int64_t result;   /* all but GET and POP */
    struct value got; /* GET; POP: the element */
    uint64_t at;      /* when it ran, in the order of all that ran */
};

enum op_kind {
    OP_SINGLE,
    OP_MGET,
    OP_MSET,
    OP_MSETNX,
    OP_MDEL,
    OP_MEXISTS,
    OP_RENAME,
    OP_TRANSFER,
    OP_WATCH,
    OP_EXEC,
    OP_FLUSH,
    OP_SWAP,
    OP_CUT, /* of a snapshot; it reads some keys at the same moment */
    OP_POP, /* BLPOP: waits for the first of its keys that has something */
    OP_EXPIRED
};

struct op {
    uint8_t kind, client, n_parts, n_watched;
    bool whole;        /* its intents are on whole databases */
    bool leaves;       /* the client disconnects after it has sent this one's pipeline */
    bool removed;      /* by the shrinker */
    uint16_t patience; /* POP: steps that it waits; 0: until it is unblocked */
    uint16_t pipeline;
    struct part *parts;
    /* The history's. Moments are in the order of everything that happens; 0: never. */
    uint16_t id, conn, position;
    bool multi; /* over several shards, or exclusive: waits for all before it, as what follows waits for it */
    bool finished, went;
    uint64_t drawn;                  /* numbers, when it was asked */
    uint64_t invoked, returned, ran; /* ran: about when it took effect; exactly of FLUSH and SWAP */
    int64_t now_ms;
};

/* What may happen in a run. */
struct settings {
    uint64_t seed, order; /* of what is asked; and of the order in which it runs */
    uint32_t shards, clients, keys;
    bool stall; /* threads are held up for long, */
    bool often; /* while they publish, most of all */
    bool lend, expire, jump, refuse, hold_replies, release_late, snapshots;
};

struct plan {
    struct settings settings;
    uint32_t n_ops;
    struct op ops[OPS_MAX];
    struct part parts[OPS_MAX * PARTS_MAX];
};

/* Makes the plan of a seed. */
void plan_make(struct plan *p, uint64_t seed);

static inline bool part_writes(const struct part *p) { return p->kind >= PART_SET; }
/* The key may be another afterwards. */
static inline bool part_changed(const struct part *p) { return (part_writes(p) && p->status == PART_DONE) || p->expired; }

/* After the first wave: whether the second one takes place. parts: with their answers. */
bool op_goes_on(enum op_kind kind, const struct part *parts, uint32_t n, uint32_t n_watched);

static inline uint64_t code_more(uint64_t code, const char *p, uint32_t n) {
    if (!code) code = 0xcbf29ce484222325ull;
    for (uint32_t i = 0; i < n; i++) code = (code ^ (unsigned char)p[i]) * 0x100000001b3ull;
    return code;
}

/* Without its last bytes: FNV-1a the other way round, by the inverse of its prime. */
static inline uint64_t code_less(uint64_t code, const char *p, uint32_t n) {
    while (n--) code = code * 0xce965057aff6957bull ^ (unsigned char)p[n];
    return code;
}

#endif
