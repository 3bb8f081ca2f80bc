/* Reading past values, with no look at what is in them. */
#include "shard/rdb_internal.h"

static bool skip_strings(struct rdb_source *x, unsigned of_each) {
    uint64_t n;
    bool good = rdb_get_count(x, &n);
    for (uint64_t i = 0; good && i < n * of_each; i++) good = rdb_skip_string(x);
    return good;
}

static bool skip_scored(struct rdb_source *x, bool text) {
    uint64_t n;
    double score;
    bool good = rdb_get_count(x, &n);
    for (uint64_t i = 0; good && i < n; i++) good = rdb_skip_string(x) && rdb_get_score(x, text, &score);
    return good;
}

static bool skip_timed(struct rdb_source *x, bool old) {
    uint64_t n, time;
    bool good = (old || rdb_skip(x, 8)) && rdb_get_count(x, &n);
    for (uint64_t i = 0; good && i < n; i++) good = rdb_get_length(x, &time) && rdb_skip_string(x) && rdb_skip_string(x);
    return good;
}

static bool skip_quicklist(struct rdb_source *x) {
    uint64_t n, kind;
    bool good = rdb_get_count(x, &n);
    for (uint64_t i = 0; good && i < n; i++) good = rdb_get_length(x, &kind) && rdb_skip_string(x);
    return good;
}

bool rdb_skip_module(struct rdb_source *x) {
    enum { MODULE_END, MODULE_SIGNED, MODULE_UNSIGNED, MODULE_FLOAT, MODULE_DOUBLE, MODULE_STRING };
    for (uint64_t what, n;;) {
        bool good = rdb_get_length(x, &what);
        if (!good || what == MODULE_END) return good;
        if (what == MODULE_SIGNED || what == MODULE_UNSIGNED) good = rdb_get_length(x, &n);
        else if (what == MODULE_FLOAT || what == MODULE_DOUBLE) good = rdb_skip(x, what == MODULE_FLOAT ? 4 : 8);
        else good = what == MODULE_STRING ? rdb_skip_string(x) : rdb_wrong(x, "a module's value of unknown form");
        if (!good) return false;
    }
}

static bool skip_lengths(struct rdb_source *x, unsigned n) {
    uint64_t length;
    for (; n; n--)
        if (!rdb_get_length(x, &length)) return false;
    return true;
}

/* n things of so many bytes each. */
static bool skip_counted(struct rdb_source *x, unsigned of_each) {
    uint64_t n;
    return rdb_get_count(x, &n) && rdb_skip(x, n * of_each);
}

/* Its name, when it was seen, and active, and what it was given. */
static bool skip_consumer(struct rdb_source *x, uint8_t type) {
    enum { ID_BYTES = 16, TIME_BYTES = 8 };
    return rdb_skip_string(x) && rdb_skip(x, type == RDB_STREAM_3 ? 2 * TIME_BYTES : TIME_BYTES) && skip_counted(x, ID_BYTES);
}

/* Its name, its last id, how many were read; what was given and not acknowledged: id, time and times; its consumers. */
static bool skip_group(struct rdb_source *x, uint8_t type) {
    enum { ID_AND_TIME_BYTES = 24 };
    uint64_t n;
    if (!rdb_skip_string(x) || !skip_lengths(x, type == RDB_STREAM ? 2 : 3) || !rdb_get_count(x, &n)) return false;
    for (; n; n--)
        if (!rdb_skip(x, ID_AND_TIME_BYTES) || !skip_lengths(x, 1)) return false;
    if (!rdb_get_count(x, &n)) return false;
    for (; n; n--)
        if (!skip_consumer(x, type)) return false;
    return true;
}

/* Nodes, how many entries, the last id; since the second form the first one, the last that was deleted, and how many ever came; groups. */
static bool skip_stream(struct rdb_source *x, uint8_t type) {
    uint64_t n;
    if (!skip_strings(x, 2) || !skip_lengths(x, type == RDB_STREAM ? 3 : 8) || !rdb_get_count(x, &n)) return false;
    for (; n; n--)
        if (!skip_group(x, type)) return false;
    return true;
}

bool rdb_is_unknown(uint8_t type) { return type == RDB_STREAM || type == RDB_STREAM_2 || type == RDB_STREAM_3 || type == RDB_MODULE; }

bool rdb_skip_value(struct rdb_source *x, uint8_t type) {
    enum entry_type kind;
    uint64_t module;
    if (type == RDB_MODULE) return rdb_get_length(x, &module) && rdb_skip_module(x);
    if (rdb_is_unknown(type)) return skip_stream(x, type);
    if (!rdb_entry_type(x, type, &kind)) return false;
    switch (type) {
    case RDB_LIST:
    case RDB_SET: return skip_strings(x, 1);
    case RDB_HASH: return skip_strings(x, 2);
    case RDB_ZSET_TEXT: return skip_scored(x, true);
    case RDB_ZSET: return skip_scored(x, false);
    case RDB_QUICKLIST: return skip_strings(x, 1);
    case RDB_QUICKLIST_2: return skip_quicklist(x);
    case RDB_HASH_TIMES_OLD: return skip_timed(x, true);
    case RDB_HASH_TIMES: return skip_timed(x, false);
    case RDB_HASH_TIMES_LISTPACK: return rdb_skip(x, 8) && rdb_skip_string(x);
    default: return rdb_skip_string(x);
    }
}
