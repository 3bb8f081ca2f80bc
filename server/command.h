/* Commands as data: one row a command, in the file of its family. COMMAND, routing, ACL and the documents read the same row.
 *
 * To add a command: write its function and its row in its family's file, and its test. Nothing else.
 */
#ifndef SERVER_COMMAND_H
#define SERVER_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "server/disk.h"
#include "server/reply.h"
#include "shard/hop.h"
#include "shard/keyspace.h"

struct blocking;
struct conn;
struct task;
struct command;
struct thread;

#define COMMAND_ROWS_MAX 512u /* rows with subcommands; number 0 is none */

/* How a command runs. */
enum plan {
    PLAN_CONNECTION, /* at dispatch, on the connection's thread: on_connection */
    PLAN_SINGLE,     /* one hop on the shard of its key: on_shard */
    PLAN_SPREAD,     /* two or more keys that belong together: on_spread, as one hop if one shard has them all, else exclusive; CMD_SLICED:
                      * on_spread may leave a state, with which on_shard goes on in slices (without a state on_shard begins by itself) */
    PLAN_FANOUT,     /* one piece a shard with the keys that lie there (on_shard, HOP_PIECE), then merge */
    PLAN_ALL,        /* one piece on every shard (on_shard, HOP_PIECE), then merge */
    PLAN_CURSOR, /* a piece on the shard that the cursor in argv[1] names (cursor_shard), then on the next while scan_goes_on; one shard: one hop */
    PLAN_EXCLUSIVE,   /* all shards are held by the coordinator: on_spread */
    PLAN_DISK,        /* no key; on the thread that waits for the disk: on_disk. OK, or its error, is the reply */
    PLAN_TRANSACTION, /* EXEC, WATCH: multi_dispatch */
    PLAN_COURSE,      /* its own course of steps (course.h): on_course */
    PLAN_BLOCKING,    /* waits until one of its keys has something: waiting.h */
};

/* What the pieces' replies become. A piece's function appends one RESP value a key (MERGE_EACH), or one integer (MERGE_SUM), or
 * +OK or an error (MERGE_OK: the first error wins), or lines of one long text (MERGE_TEXT; or an error), or elements of one long list in chunks
 * (MERGE_LIST), which both are put together in slices; or whatever merge_custom understands. */
enum merge { MERGE_NONE, MERGE_SUM, MERGE_OK, MERGE_EACH, MERGE_TEXT, MERGE_LIST, MERGE_CUSTOM };

/* MERGE_LIST: before each chunk of a piece's reply. */
struct list_chunk {
    uint64_t elements, bytes;
};

enum command_flags {
    CMD_WRITE = 1 << 0,
    CMD_READONLY = 1 << 1,
    CMD_DENYOOM = 1 << 2,
    CMD_ADMIN = 1 << 3,
    CMD_PUBSUB = 1 << 4,
    CMD_NOSCRIPT = 1 << 5,
    CMD_BLOCKING = 1 << 6,
    CMD_LOADING = 1 << 7,
    CMD_STALE = 1 << 8,
    CMD_FAST = 1 << 9,
    CMD_NO_AUTH = 1 << 10,
    CMD_MAY_REPLICATE = 1 << 11, /* not shown, as in Redis */
    CMD_NO_MULTI = 1 << 12,
    CMD_MOVABLE_KEYS = 1 << 13,
    CMD_ALLOW_BUSY = 1 << 14,
    CMD_TOUCHES_ARBITRARY_KEYS = 1 << 15,
    CMD_SKIP_MONITOR = 1 << 16,
    CMD_SKIP_SLOWLOG = 1 << 17,
    CMD_ASKING = 1 << 18,
    CMD_NO_ASYNC_LOADING = 1 << 19,
    CMD_PROTECTED = 1 << 20,
    CMD_VALUE_HINT = 1 << 21, /* not shown: stage 3 of the prefetch is worth it */
    CMD_SLICED = 1 << 22,     /* not shown: on_shard may say HOP_AGAIN */
    CMD_CHEAP = 1 << 23,      /* not shown: as good as FAST where time is taken */
    CMD_AT_ONCE = 1 << 24,    /* not shown: runs inside MULTI too, it is not queued */
    CMD_ENDS_MULTI = 1 << 25, /* not shown: the same, and MULTI is over then */
    CMD_SETTLES = 1 << 26,    /* not shown: of PLAN_ALL: answered when all that was dispatched before its pieces ran is through */
    CMD_REPLACES = 1 << 27,   /* not shown: writes its keys without changing the values that they have: these may be kept elsewhere */
    CMD_BESIDE = 1 << 28,     /* not shown: of PLAN_EXCLUSIVE: it may run while data are loaded, without a shard (a spread of none) */
    CMD_LOOKS_ON =
        1 << 29, /* not shown: while all shards stand still it changes no key and tells of none: transactions that rest may stay */
    CMD_ANY_KEYS = 1 << 30, /* not shown: its steps take any number of keys in waves; very many: with an intent on the database */
};

_Static_assert((0u + CMD_VALUE_HINT + CMD_SLICED + CMD_CHEAP + CMD_AT_ONCE + CMD_ENDS_MULTI + CMD_SETTLES + CMD_REPLACES + CMD_BESIDE +
                   CMD_LOOKS_ON + CMD_ANY_KEYS) == (1u << 31) - (1u << 21),
    "each has a bit of its own");

/* ACL categories beyond those that follow from flags (read, write, fast, slow, admin, dangerous of admin, blocking). */
enum acl_category {
    ACL_KEYSPACE = 1 << 0,
    ACL_READ = 1 << 1,
    ACL_WRITE = 1 << 2,
    ACL_SET = 1 << 3,
    ACL_SORTEDSET = 1 << 4,
    ACL_LIST = 1 << 5,
    ACL_HASH = 1 << 6,
    ACL_STRING = 1 << 7,
    ACL_BITMAP = 1 << 8,
    ACL_HYPERLOGLOG = 1 << 9,
    ACL_GEO = 1 << 10,
    ACL_STREAM = 1 << 11,
    ACL_PUBSUB = 1 << 12,
    ACL_ADMIN = 1 << 13,
    ACL_FAST = 1 << 14,
    ACL_SLOW = 1 << 15,
    ACL_BLOCKING = 1 << 16,
    ACL_DANGEROUS = 1 << 17,
    ACL_CONNECTION = 1 << 18,
    ACL_TRANSACTION = 1 << 19,
    ACL_SCRIPTING = 1 << 20,
};

/* A key spec, for COMMAND INFO and routing. begin: index (pos) or keyword; find: range (last, step, limit) or keynum. */
enum key_begin { KEY_BEGIN_NONE, KEY_BEGIN_INDEX, KEY_BEGIN_KEYWORD, KEY_BEGIN_UNKNOWN };
enum key_find { KEY_FIND_NONE, KEY_FIND_RANGE, KEY_FIND_KEYNUM, KEY_FIND_UNKNOWN };
enum key_flags {
    KEY_RO = 1 << 0,
    KEY_RW = 1 << 1,
    KEY_OW = 1 << 2,
    KEY_RM = 1 << 3,
    KEY_ACCESS = 1 << 4,
    KEY_UPDATE = 1 << 5,
    KEY_INSERT = 1 << 6,
    KEY_DELETE = 1 << 7,
    KEY_NOT_KEY = 1 << 8,
    KEY_INCOMPLETE = 1 << 9,
    KEY_VARIABLE_FLAGS = 1 << 10,
};
struct key_spec {
    uint16_t flags; /* enum key_flags */
    uint8_t begin, find;
    int8_t pos; /* KEY_BEGIN_INDEX: the first key's argument; KEYWORD: start from here */
    const char *keyword;
    int8_t last, step, limit; /* RANGE: last key relative to the first (negative: from the end); KEYNUM: keynum index, first key, step */
    const char *notes;
};

/* PLAN_COURSE: on the connection's thread, with nothing of the connection under way. */
typedef void course_fn(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc);
/* Runs at dispatch on the connection's thread and appends one RESP value to r (or none, if it took care of that itself). */
typedef void connection_fn(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r);

/* The shards that a command over several keys works on: all those it needs are held by whoever runs it. */
struct spread {
    struct shard *const *shards;
    uint32_t n; /* 1: one shard has all keys */
};
/* The shard of the hop's nth key. */
struct shard *spread_shard(const struct spread *x, const struct hop *h, uint32_t nth);
/* key_read_nth and key_write_nth on the right shard; *s (may be NULL) is set to it. */
bool spread_read(const struct spread *x, const struct hop *h, uint32_t nth, struct shard **s, struct key *k);
bool spread_write(const struct spread *x, const struct hop *h, uint32_t nth, struct shard **s, struct key *k);

/* Runs while every shard of the spread is held; appends one RESP value. Written once, it serves one shard (a hop) and several (exclusive). */
typedef void spread_fn(const struct spread *x, struct hop *h, struct reply *r);
/* A hop that runs the on_spread of its row where one shard has all keys. */
hop_fn spread_on_one;
/* A hop that runs the on_shard of its row to its end, however much it has to do. */
hop_fn hop_to_its_end;

/* The state of a piece of a command that `needs`: memory was reserved for all of them, or refused. 0: the shard decides alone. */
enum room { ROOM_RESERVED = 1, ROOM_REFUSED };

/* PLAN_SPREAD over several shards as waves of hops (steps.h). */
typedef bool steps_fn(struct thread *t, struct task *k, struct reply *r);

/* Frees what a sliced hop's state holds: on_shard will not be called again for it. At the end of the process, and of what only reads whenever nobody wants its
 * reply any more; r is what was made of that. */
typedef void hop_drop_fn(struct shard *s, struct hop *h, struct reply *r);
/* Bytes that the state of a plain hop in slices holds, and no shard counts. */
typedef uint64_t hop_held_fn(const struct hop *h);

/* Merges the replies of n pieces (each a whole piece's bytes, in shard order) into r. Not called, and an error replied, if memory for one was refused. */
typedef void merge_fn(const struct hop *h, struct reply *const *pieces, uint32_t n, struct reply *r);

/* A key spec with begin index and find range, as nearly all have. */
#define KEY_RANGE(first_, last_, step_, flags_) \
    { .flags = (flags_), .begin = KEY_BEGIN_INDEX, .find = KEY_FIND_RANGE, .pos = (first_), .last = (last_), .step = (step_) }
#define KEY_RANGE_NOTED(first_, last_, step_, flags_, notes_)                                                                   \
    {                                                                                                                           \
        .flags = (flags_), .begin = KEY_BEGIN_INDEX, .find = KEY_FIND_RANGE, .pos = (first_), .last = (last_), .step = (step_), \
        .notes = (notes_)                                                                                                       \
    }

/* Keys among the arguments: n of them, step apart from first on (hop_key_at). */
struct key_range {
    uint32_t n;
    uint8_t first, step; /* first 0: the arguments can't be (COMMAND GETKEYS says so) */
    bool anywhere;       /* any other key may be read, too: SORT BY */
};
/* Where keys are that no range of a key spec tells of. The n that it is given is 1. */
typedef void find_keys_fn(const struct arg *argv, uint32_t argc, struct key_range *out);

struct command {
    const char *name;  /* lower case; a subcommand's own name */
    const char *group; /* connection, generic, server, string ... */
    const char *since;
    const char *summary;
    const char *complexity;
    int16_t arity;  /* as in Redis: negative: at least */
    uint8_t plan;   /* enum plan */
    uint8_t merge;  /* enum merge */
    uint32_t flags; /* enum command_flags */
    uint32_t acl;   /* enum acl_category, explicit ones */
    struct key_spec keys[3];
    uint8_t n_key_specs;
    connection_fn *on_connection;
    hop_fn *on_shard;
    hop_fn *
        needs; /* PLAN_FANOUT that sets its keys to the arguments behind them: replies how many bytes that takes on the shard, so that all pieces run, or none */
    spread_fn *
        on_spread; /* an on_shard beside it goes on with what it began (CMD_SLICED), or runs instead where one shard has all keys, perhaps in slices */
    hop_fn *
        on_beside; /* PLAN_ALL, while data are loaded: instead of on_shard, at once; looks at the thread only. NULL: waits for the shards */
    find_keys_fn *find_keys; /* PLAN_SPREAD; NULL: the key specs tell */
    steps_fn *on_steps;      /* PLAN_SPREAD; NULL: over several shards it is exclusive */
    disk_fn *on_disk;
    course_fn *on_course;
    const struct blocking *blocking; /* PLAN_BLOCKING */
    hop_drop_fn *on_drop;            /* NULL: a sliced hop's state is a number */
    hop_held_fn *held_bytes;         /* NULL: what such a state holds is little, or its shard counts it */
    merge_fn *merge_custom;
    const struct command *subcommands; /* NULL-name-terminated */
    const char *const *hints;          /* COMMAND INFO's tips, NULL-terminated; or NULL */
    const char *const *help;           /* a container's HELP lines, NULL-terminated (without the first and the last two); or NULL */
    /* Filled in at start. */
    const struct command *parent;
    uint16_t number;                      /* of the row, for statistics */
    int8_t key_first, key_last, key_step; /* of the range spec, as in COMMAND INFO; of a KEYNUM spec, there 0: the first key and the step */
};

/* A family: its rows end with a row without a name. */
extern const struct command commands_string[], commands_generic[], commands_expire[], commands_connection[], commands_server[],
    commands_transaction[], commands_hash[], commands_hash_expiry[], commands_set[], commands_list[], commands_bitmap[],
    commands_hyperloglog[], commands_zset[], commands_geo[], commands_sort[], commands_dump[], commands_migrate[];

/* Builds the lookup table from the families; call once before any thread starts. Aborts with a message if two rows collide. */
void commands_init(void);
/* Gives a command another name, or with "" takes it away: rename-command. At start, after commands_init(). NULL, or what is wrong. */
const char *command_rename(const char *old, const char *new);
/* Prints docs/commands.md (command_docs.c). */
void commands_print_docs(void);
/* The row of a command name (any case), or NULL. Does not descend to subcommands. */
const struct command *command_find(const char *name, size_t size);
/* The row of a subcommand, or NULL. */
const struct command *command_find_sub(const struct command *parent, const char *name, size_t size);
/* The row with this number, of a command or a subcommand. */
const struct command *command_by_number(uint16_t number);
/* Where the keys are among the arguments. n is 0 where they say so themselves (SINTERCARD) and it can't be: the command replies the error. False: they
 * are no whole pairs (MSET). */
bool command_keys(const struct command *row, const struct arg *argv, uint32_t argc, struct key_range *out);
/* The command's name, of a subcommand with its container's: "config|get". */
#define COMMAND_FULL_NAME 64u
void command_full_name(const struct command *row, char out[COMMAND_FULL_NAME]);
/* All top-level rows, in no order. */
size_t command_count(void);
const struct command *command_at(size_t i);

/* The argument as a number, with the error replied if it is none. */
bool arg_int64(const struct arg *a, int64_t *out, struct reply *r);
/* blob_discard, without the time that unmapping takes. */
void blob_give_up(struct blob *b);
/* Discards the blobs among arguments that nobody took over. */
void args_discard_blobs(struct arg *argv, uint32_t argc);
/* What Redis says of a subcommand with too many arguments where it reads them itself. container: in capitals. */
void reply_subcommand_error(struct reply *r, const struct arg *sub, const char *container);
/* Equal, ignoring ASCII case, to a lower-case word. */
bool arg_is(const struct arg *a, const char *word);

#endif
