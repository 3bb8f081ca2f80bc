/* Commands for keys of any type. In this file: many keys at once; renaming, copying, moving; TYPE and OBJECT; the rows. Walks are in scan.c. */
#include "server/keys.h"

#include <mimalloc.h>

#include "server/command.h"
#include "server/scan.h"
#include "server/steps.h"
#include "server/strings.h"
#include "shard/container.h"

const char *type_name(enum entry_type type) {
    static const char *const names[] = {"string", "list", "set", "zset", "hash", "stream"};
    return names[type];
}

const char *encoding_name(const struct entry *e) {
    if (entry_type(e) == TYPE_LIST) return "quicklist";
    if (entry_type(e) == TYPE_ZSET) return container_shown_large(e) ? "skiplist" : "listpack";
    switch (entry_encoding(e)) {
    case ENC_INT: return "int";
    case ENC_EMBEDDED: return e->value_size <= ENTRY_EMBSTR_MAX ? "embstr" : "raw";
    case ENC_PAGE:
    case ENC_MAP: return container_shown_large(e) ? "hashtable" : "listpack";
    case ENC_INTSET: return "intset";
    default: return "raw";
    }
}

/* --- many keys at once --- */

enum hop_result delete_keys(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    int64_t n = 0;
    for (uint32_t i = 0; i < h->n_keys; i++) {
        key_prefetch_ahead(s, h, i);
        if (!key_write_nth(s, h, i, &k)) continue;
        key_delete(s, &k, KEY_DEL);
        n++;
    }
    reply_int(r, n);
    return HOP_DONE;
}

static enum hop_result exists(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    int64_t n = 0;
    for (uint32_t i = 0; i < h->n_keys; i++) {
        key_prefetch_ahead(s, h, i);
        n += key_peek_nth(s, h, i, &k);
    }
    reply_int(r, n);
    return HOP_DONE;
}

static enum hop_result touch(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    int64_t n = 0;
    h->flags &= (uint8_t)~HOP_NO_TOUCH; /* who asks for it by name gets it */
    for (uint32_t i = 0; i < h->n_keys; i++) {
        key_prefetch_ahead(s, h, i);
        n += key_read_nth(s, h, i, &k);
    }
    reply_int(r, n);
    return HOP_DONE;
}

static enum hop_result dbsize(struct shard *s, struct hop *h, struct reply *r) {
    reply_int(r, (int64_t)s->dbs[h->db]->keys.count);
    return HOP_DONE;
}

/* --- renaming, copying, moving --- */

static bool same_key(const struct hop *h) {
    const struct arg *a = hop_key(h, 0), *b = hop_key(h, 1);
    return a->size == b->size && !memcmp(a->p, b->p, a->size);
}

static void rename_to(const struct spread *x, struct hop *h, struct reply *r, bool only_new) {
    struct shard *from, *to;
    struct key src, dst;
    if (!spread_write(x, h, 0, &from, &src)) {
        reply_error(r, "ERR no such key");
        return;
    }
    bool same = same_key(h), taken = same || spread_write(x, h, 1, &to, &dst);
    if (only_new && taken) {
        reply_int(r, 0);
        return;
    }
    if (!same && key_move_from(to, &dst, from, &src, KEY_RENAME_FROM, KEY_RENAME_TO)) {
        reply_refused(to, r);
        return;
    }
    if (only_new) reply_int(r, 1);
    else reply_ok(r);
}

static void rename_key(const struct spread *x, struct hop *h, struct reply *r) { rename_to(x, h, r, false); }
static void renamenx(const struct spread *x, struct hop *h, struct reply *r) { rename_to(x, h, r, true); }

static bool arg_db(const struct shard *s, const struct arg *a, uint32_t *out, struct reply *r) {
    int64_t v;
    if (!arg_int64(a, &v, r)) return false;
    if (v < INT32_MIN || v > INT32_MAX) {
        reply_error(r, "ERR value is out of range, value must between -2147483648 and 2147483647");
    } else if (v < 0 || v >= s->n_dbs) {
        reply_error(r, "ERR DB index is out of range");
    } else {
        *out = (uint32_t)v;
        return true;
    }
    return false;
}

static void reply_same_object(struct reply *r) { reply_error(r, "ERR source and destination objects are the same"); }

bool copy_options(const struct shard *s, const struct hop *h, uint32_t *db, bool *replace, struct reply *r) {
    *db = h->db;
    *replace = false;
    for (uint32_t i = 3; i < h->argc; i++) {
        if (arg_is(&h->argv[i], "replace")) {
            *replace = true;
        } else if (arg_is(&h->argv[i], "db") && i + 1 < h->argc) {
            if (!arg_db(s, &h->argv[++i], db, r)) return false;
        } else {
            reply_syntax_error(r);
            return false;
        }
    }
    return true;
}

/* COPY's arguments. False: an error was replied. */
static bool read_copy(const struct shard *s, const struct hop *h, uint32_t *db, bool *replace, struct reply *r) {
    if (!copy_options(s, h, db, replace, r)) return false;
    bool same = *db == h->db && same_key(h);
    if (same) reply_same_object(r);
    return !same;
}

static bool find_copy(struct shard *s, const struct hop *h, uint32_t db, struct key *k) {
    const struct arg *name = hop_key(h, 1);
    return key_find(s, s->dbs[db], hop_hash(h, 1), name->p, name->size, k);
}

/* In one go. */
static void copy_key(struct shard *s, struct key *dst, const struct key *src, struct reply *r) {
    if (key_copy_from(s, dst, src->entry, entry_expiry(src->entry), KEY_COPY_TO)) reply_refused(s, r);
    else reply_int(r, 1);
}

static void copy(const struct spread *x, struct hop *h, struct reply *r) {
    struct shard *to = spread_shard(x, h, 1);
    struct key src, dst;
    uint32_t db;
    bool replace;
    if (!read_copy(to, h, &db, &replace, r)) return;
    bool found = spread_read(x, h, 0, NULL, &src);
    if (!found || (find_copy(to, h, db, &dst) && !replace)) reply_int(r, 0);
    else copy_key(to, &dst, &src, r);
}

/* A container on its way to its copy on the same shard. */
struct copying {
    struct entry *from; /* lent */
    uint32_t db;
    struct container_copying c;
};

static struct copying *copying_of(const struct hop *h) { return h->state > HOP_IN_SLICES ? (struct copying *)(uintptr_t)h->state : NULL; }

static void copying_end(struct hop *h, struct copying *x) {
    entry_end_loan(x->from);
    mi_free(x);
    h->state = 0;
}

static void copying_drop(struct shard *s, struct hop *h, struct reply *r) {
    struct copying *x = copying_of(h);
    (void)r;
    if (!x) return;
    container_copy_drop(s, &x->c);
    copying_end(h, x);
}

/* False: there is no memory, and that is replied. */
static bool copying_begin(struct hop *h, const struct key *src, uint32_t db, struct reply *r) {
    struct copying *x = mi_calloc(1, sizeof *x);
    if (x) x->from = entry_lend(src->entry);
    if (x && x->from) {
        x->db = db;
        h->state = (uint64_t)(uintptr_t)x;
        return true;
    }
    mi_free(x);
    reply_no_memory(r);
    return false;
}

static bool is_long(const struct key *k) { return entry_type(k->entry) != TYPE_STRING && container_memory(k->entry) > KEY_COPY_COST; }

/* What COPY finds. AGAIN: it has begun, or is to go on in slices. */
static enum hop_result look_and_copy(struct shard *s, struct hop *h, struct reply *r) {
    const struct arg *name = hop_key(h, 0);
    struct key src, dst;
    uint32_t db;
    bool replace;
    if (!read_copy(s, h, &db, &replace, r)) return HOP_DONE;
    bool found = h->state ? key_look_again(s, s->dbs[h->db], h->hash, name->p, name->size, &src) : key_read_nth(s, h, 0, &src);
    if (!found || (find_copy(s, h, db, &dst) && !replace)) reply_int(r, 0);
    else if (!is_long(&src)) copy_key(s, &dst, &src, r);
    else return !h->state || copying_begin(h, &src, db, r) ? HOP_AGAIN : HOP_DONE;
    return HOP_DONE;
}

/* Where one shard has both keys. */
static enum hop_result copy_on_one(struct shard *s, struct hop *h, struct reply *r) {
    struct copying *x = copying_of(h);
    struct key dst;
    if (!x) return look_and_copy(s, h, r);
    find_copy(s, h, x->db, &dst);
    int more = key_copy_some(s, &dst, x->from, &x->c, KEY_COPY_COST, true, KEY_COPY_TO);
    if (more > 0) return HOP_AGAIN;
    if (more) reply_refused(s, r);
    else reply_int(r, 1);
    copying_end(h, x);
    return HOP_DONE;
}

static enum hop_result move(struct shard *s, struct hop *h, struct reply *r) {
    struct key src, dst;
    uint32_t db;
    if (!arg_db(s, &h->argv[2], &db, r)) return HOP_DONE;
    if (db == h->db) reply_same_object(r);
    else if (!key_write(s, h, &src) || key_find(s, s->dbs[db], src.hash, src.name, src.size, &dst)) reply_int(r, 0);
    else if (key_move_from(s, &dst, s, &src, KEY_MOVE_FROM, KEY_MOVE_TO)) reply_refused(s, r);
    else reply_int(r, 1);
    return HOP_DONE;
}

/* --- TYPE and OBJECT --- */

static enum hop_result type(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    reply_status(r, key_peek_nth(s, h, 0, &k) ? type_name(entry_type(k.entry)) : "none");
    return HOP_DONE;
}

static bool object_found(struct shard *s, struct hop *h, struct key *k, struct reply *r) {
    if (key_peek_nth(s, h, 0, k)) return true;
    reply_null(r);
    return false;
}

static enum hop_result object_encoding(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    if (object_found(s, h, &k, r)) reply_bulk_text(r, encoding_name(k.entry));
    return HOP_DONE;
}

static enum hop_result object_freq(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    if (object_found(s, h, &k, r))
        reply_error(r,
            "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies "
            "at "
            "runtime LRU and LFU data will take some time to adjust.");
    return HOP_DONE;
}

static enum hop_result object_idletime(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    if (object_found(s, h, &k, r)) reply_int(r, key_idle_s(s, k.entry));
    return HOP_DONE;
}

/* Nothing is shared that a client could see: small integers, which Redis takes from a pool, lie in their entries. */
static enum hop_result object_refcount(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    if (object_found(s, h, &k, r)) reply_int(r, 1);
    return HOP_DONE;
}

static const char *const object_help[] = {
    "ENCODING <key>",
    "    Return the kind of internal representation used in order to store the value",
    "    associated with a <key>.",
    "FREQ <key>",
    "    Return the access frequency index of the <key>. The returned integer is",
    "    proportional to the logarithm of the recent access frequency of the key.",
    "IDLETIME <key>",
    "    Return the idle time of the <key>, that is the approximated number of",
    "    seconds elapsed since the last access to the key.",
    "REFCOUNT <key>",
    "    Return the number of references of the value associated with the specified",
    "    <key>.",
    NULL,
};

/* --- the rows --- */

static const struct command object_subcommands[] = {
    {.name = "idletime",
        .group = "generic",
        .since = "2.2.3",
        .arity = 3,
        .flags = CMD_READONLY,
        .acl = ACL_KEYSPACE,
        .summary = "Get the time since a Redis object was last accessed",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = object_idletime,
        .keys = {KEY_RANGE(2, 0, 1, KEY_RO)},
        .n_key_specs = 1,
        .hints = (const char *const[]){"nondeterministic_output", NULL}},
    {.name = "help",
        .group = "generic",
        .since = "6.2.0",
        .arity = 2,
        .flags = CMD_LOADING | CMD_STALE,
        .acl = ACL_KEYSPACE,
        .summary = "Show helpful text about the different subcommands",
        .complexity = "O(1)"},
    {.name = "encoding",
        .group = "generic",
        .since = "2.2.3",
        .arity = 3,
        .flags = CMD_READONLY,
        .acl = ACL_KEYSPACE,
        .summary = "Inspect the internal encoding of a Redis object",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = object_encoding,
        .keys = {KEY_RANGE(2, 0, 1, KEY_RO)},
        .n_key_specs = 1,
        .hints = (const char *const[]){"nondeterministic_output", NULL}},
    {.name = "freq",
        .group = "generic",
        .since = "4.0.0",
        .arity = 3,
        .flags = CMD_READONLY,
        .acl = ACL_KEYSPACE,
        .summary = "Get the logarithmic access frequency counter of a Redis object",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = object_freq,
        .keys = {KEY_RANGE(2, 0, 1, KEY_RO)},
        .n_key_specs = 1,
        .hints = (const char *const[]){"nondeterministic_output", NULL}},
    {.name = "refcount",
        .group = "generic",
        .since = "2.2.3",
        .arity = 3,
        .flags = CMD_READONLY,
        .acl = ACL_KEYSPACE,
        .summary = "Get the number of references to the value of the key",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = object_refcount,
        .keys = {KEY_RANGE(2, 0, 1, KEY_RO)},
        .n_key_specs = 1,
        .hints = (const char *const[]){"nondeterministic_output", NULL}},
    {.name = NULL},
};

const struct command commands_generic[] = {
    {.name = "copy",
        .group = "generic",
        .since = "6.2.0",
        .arity = -3,
        .flags = CMD_WRITE | CMD_DENYOOM,
        .acl = ACL_KEYSPACE,
        .summary = "Copy a key",
        .complexity = "O(N) worst case for collections, where N is the number of nested items. O(1) for string values.",
        .plan = PLAN_SPREAD,
        .on_spread = copy,
        .on_shard = copy_on_one,
        .on_drop = copying_drop,
        .on_steps = copy_steps,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS), KEY_RANGE(2, 0, 1, KEY_OW | KEY_UPDATE)},
        .n_key_specs = 2},
    {.name = "dbsize",
        .group = "server",
        .since = "1.0.0",
        .arity = 1,
        .flags = CMD_READONLY | CMD_FAST,
        .acl = ACL_KEYSPACE,
        .summary = "Return the number of keys in the selected database",
        .complexity = "O(1)",
        .plan = PLAN_ALL,
        .merge = MERGE_SUM,
        .on_shard = dbsize,
        .hints = (const char *const[]){"request_policy:all_shards", "response_policy:agg_sum", NULL}},
    {.name = "del",
        .group = "generic",
        .since = "1.0.0",
        .arity = -2,
        .flags = CMD_REPLACES | CMD_WRITE,
        .acl = ACL_KEYSPACE,
        .summary = "Delete a key",
        .complexity = "O(N) where N is the number of keys that will be removed. When a key to remove holds a value other than a string, "
                      "the individual complexity for this key is O(M) where M is the number of elements in the list, set, sorted set or "
                      "hash. Removing a single key that holds a string value is O(1).",
        .plan = PLAN_FANOUT,
        .merge = MERGE_SUM,
        .on_shard = delete_keys,
        .keys = {KEY_RANGE(1, -1, 1, KEY_RM | KEY_DELETE)},
        .n_key_specs = 1,
        .hints = (const char *const[]){"request_policy:multi_shard", "response_policy:agg_sum", NULL}},
    {.name = "exists",
        .group = "generic",
        .since = "1.0.0",
        .arity = -2,
        .flags = CMD_READONLY | CMD_FAST,
        .acl = ACL_KEYSPACE,
        .summary = "Determine if a key exists",
        .complexity = "O(N) where N is the number of keys to check.",
        .plan = PLAN_FANOUT,
        .merge = MERGE_SUM,
        .on_shard = exists,
        .keys = {KEY_RANGE(1, -1, 1, KEY_RO)},
        .n_key_specs = 1,
        .hints = (const char *const[]){"request_policy:multi_shard", "response_policy:agg_sum", NULL}},
    {.name = "keys",
        .group = "generic",
        .since = "1.0.0",
        .arity = 2,
        .flags = CMD_READONLY | CMD_SLICED,
        .acl = ACL_KEYSPACE | ACL_DANGEROUS,
        .summary = "Find all keys matching the given pattern",
        .complexity = "O(N) with N being the number of keys in the database, under the assumption that the key names in the database and "
                      "the given pattern have limited length.",
        .plan = PLAN_ALL,
        .merge = MERGE_LIST,
        .on_shard = keys_piece,
        .hints = (const char *const[]){"request_policy:all_shards", "nondeterministic_output_order", NULL}},
    {.name = "move",
        .group = "generic",
        .since = "1.0.0",
        .arity = 3,
        .flags = CMD_WRITE | CMD_FAST,
        .acl = ACL_KEYSPACE,
        .summary = "Move a key to another database",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = move,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_UPDATE)},
        .n_key_specs = 1},
    {.name = "object",
        .group = "generic",
        .since = "2.2.3",
        .arity = -2,
        .summary = "A container for object introspection commands",
        .complexity = "Depends on subcommand.",
        .subcommands = object_subcommands,
        .help = object_help},
    {.name = "randomkey",
        .group = "generic",
        .since = "1.0.0",
        .arity = 1,
        .flags = CMD_READONLY,
        .acl = ACL_KEYSPACE,
        .summary = "Return a random key from the keyspace",
        .complexity = "O(1)",
        .plan = PLAN_ALL,
        .merge = MERGE_CUSTOM,
        .on_shard = randomkey_piece,
        .merge_custom = randomkey_merge,
        .hints = (const char *const[]){"request_policy:all_shards", "nondeterministic_output", NULL}},
    {.name = "rename",
        .group = "generic",
        .since = "1.0.0",
        .arity = 3,
        .flags = CMD_WRITE,
        .acl = ACL_KEYSPACE,
        .summary = "Rename a key",
        .complexity = "O(1)",
        .plan = PLAN_SPREAD,
        .on_spread = rename_key,
        .on_steps = rename_steps,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_DELETE), KEY_RANGE(2, 0, 1, KEY_OW | KEY_UPDATE)},
        .n_key_specs = 2},
    {.name = "renamenx",
        .group = "generic",
        .since = "1.0.0",
        .arity = 3,
        .flags = CMD_WRITE | CMD_FAST,
        .acl = ACL_KEYSPACE,
        .summary = "Rename a key, only if the new key does not exist",
        .complexity = "O(1)",
        .plan = PLAN_SPREAD,
        .on_spread = renamenx,
        .on_steps = renamenx_steps,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_DELETE), KEY_RANGE(2, 0, 1, KEY_OW | KEY_INSERT)},
        .n_key_specs = 2},
    {.name = "scan",
        .group = "generic",
        .since = "2.8.0",
        .arity = -2,
        .flags = CMD_READONLY,
        .acl = ACL_KEYSPACE,
        .summary = "Incrementally iterate the keys space",
        .complexity = "O(1) for every call. O(N) for a complete iteration, including enough command calls for the cursor to return back to "
                      "0. N is the number of elements inside the collection.",
        .plan = PLAN_CURSOR,
        .merge = MERGE_CUSTOM,
        .on_shard = scan,
        .merge_custom = scan_merge,
        .hints = (const char *const[]){"nondeterministic_output", "request_policy:special", NULL}},
    {.name = "touch",
        .group = "generic",
        .since = "3.2.1",
        .arity = -2,
        .flags = CMD_READONLY | CMD_FAST,
        .acl = ACL_KEYSPACE,
        .summary = "Alters the last access time of a key(s). Returns the number of existing keys specified.",
        .complexity = "O(N) where N is the number of keys that will be touched.",
        .plan = PLAN_FANOUT,
        .merge = MERGE_SUM,
        .on_shard = touch,
        .keys = {KEY_RANGE(1, -1, 1, KEY_RO)},
        .n_key_specs = 1,
        .hints = (const char *const[]){"request_policy:multi_shard", "response_policy:agg_sum", NULL}},
    {.name = "type",
        .group = "generic",
        .since = "1.0.0",
        .arity = 2,
        .flags = CMD_READONLY | CMD_FAST,
        .acl = ACL_KEYSPACE,
        .summary = "Determine the type stored at key",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = type,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO)},
        .n_key_specs = 1},
    {.name = "unlink",
        .group = "generic",
        .since = "4.0.0",
        .arity = -2,
        .flags = CMD_REPLACES | CMD_WRITE | CMD_FAST,
        .acl = ACL_KEYSPACE,
        .summary = "Delete a key asynchronously in another thread. Otherwise it is just as DEL, but non blocking.",
        .complexity = "O(1) for each key removed regardless of its size. Then the command does O(N) work in a different thread in order to "
                      "reclaim memory, where N is the number of allocations the deleted objects where composed of.",
        .plan = PLAN_FANOUT,
        .merge = MERGE_SUM,
        .on_shard = delete_keys,
        .keys = {KEY_RANGE(1, -1, 1, KEY_RM | KEY_DELETE)},
        .n_key_specs = 1,
        .hints = (const char *const[]){"request_policy:multi_shard", "response_policy:agg_sum", NULL}},
    {.name = NULL},
};
