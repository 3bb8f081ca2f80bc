/* Walking an RDB file from its first byte to its last: opcodes, keys; its checksum. Knows nothing of values but where they begin. */
#ifndef SERVER_RDB_FILE_H
#define SERVER_RDB_FILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "shard/rdb_read.h"

/* A key whose value comes next. The name lies elsewhere than in the source. */
struct rdb_key {
    const char *name;
    size_t size;
    uint32_t db;
    uint8_t type;         /* enum rdb_type */
    bool claimed;         /* it is in a chunk that this walk claimed: all of the value is there */
    int64_t expire_at_ms; /* EXPIRY_NONE */
};

/* Reads the value, or past it. False: x->why says what is wrong. */
typedef bool rdb_visit_key(void *arg, struct rdb_source *x, const struct rdb_key *key);

/* What the file says of itself. */
typedef void rdb_visit_aux(void *arg, const char *name, size_t name_size, const char *value, size_t value_size);

struct rdb_walk {
    rdb_visit_key *key;
    rdb_visit_aux *aux; /* NULL: is passed over */
    /* Whether this walk reads chunk `number` (from 0), or jumps over it. NULL: it reads all. False: x->why says what is wrong. */
    bool (*claims)(void *arg, struct rdb_source *x, uint64_t number, bool *mine);
    void *arg;
    const struct stat *is; /* the file that it must be still; NULL: any */
    bool checks;           /* the checksum is compared, if there is one */
    bool skip_unknown;     /* modules' auxiliary data are passed over, else wrong */
    /* What was found. */
    unsigned version;
    uint64_t bytes;
    bool has_checksum;
    uint64_t functions, module_aux; /* that were passed over */
};

/* Notes in which key it went wrong. */
void rdb_name_key(struct rdb_source *x, const char *name, size_t size);

/* True: the file is whole. False: why says where and what is wrong. */
bool rdb_file_walk(const char *path, struct rdb_walk *w, char *why, size_t why_size);

#endif
