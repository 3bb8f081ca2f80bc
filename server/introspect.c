#include "server/introspect.h"

#include <stdio.h>
#include <stdlib.h>

#include "server/getkeys.h"
#include "server/glob.h"
#include "server/introspect_docs.h"

struct bit_name {
    uint32_t bit;
    const char *name;
};

/* Each ends without a name. */
static const struct bit_name flag_names[] = {{CMD_WRITE, "write"}, {CMD_READONLY, "readonly"}, {CMD_DENYOOM, "denyoom"},
    {CMD_ADMIN, "admin"}, {CMD_PUBSUB, "pubsub"}, {CMD_NOSCRIPT, "noscript"}, {CMD_BLOCKING, "blocking"}, {CMD_LOADING, "loading"},
    {CMD_STALE, "stale"}, {CMD_SKIP_MONITOR, "skip_monitor"}, {CMD_SKIP_SLOWLOG, "skip_slowlog"}, {CMD_ASKING, "asking"},
    {CMD_FAST, "fast"}, {CMD_NO_AUTH, "no_auth"}, {CMD_NO_MULTI, "no_multi"}, {CMD_MOVABLE_KEYS, "movablekeys"},
    {CMD_ALLOW_BUSY, "allow_busy"}, {CMD_TOUCHES_ARBITRARY_KEYS, "TOUCHES_ARBITRARY_KEYS"}, {CMD_NO_ASYNC_LOADING, "no_async_loading"},
    {0}};
static const struct bit_name acl_names[] = {{ACL_KEYSPACE, "keyspace"}, {ACL_READ, "read"}, {ACL_WRITE, "write"}, {ACL_SET, "set"},
    {ACL_SORTEDSET, "sortedset"}, {ACL_LIST, "list"}, {ACL_HASH, "hash"}, {ACL_STRING, "string"}, {ACL_BITMAP, "bitmap"},
    {ACL_HYPERLOGLOG, "hyperloglog"}, {ACL_GEO, "geo"}, {ACL_STREAM, "stream"}, {ACL_PUBSUB, "pubsub"}, {ACL_ADMIN, "admin"},
    {ACL_FAST, "fast"}, {ACL_SLOW, "slow"}, {ACL_BLOCKING, "blocking"}, {ACL_DANGEROUS, "dangerous"}, {ACL_CONNECTION, "connection"},
    {ACL_TRANSACTION, "transaction"}, {ACL_SCRIPTING, "scripting"}, {0}};
static const struct bit_name key_flag_names[] = {{KEY_RO, "RO"}, {KEY_RW, "RW"}, {KEY_OW, "OW"}, {KEY_RM, "RM"}, {KEY_ACCESS, "access"},
    {KEY_UPDATE, "update"}, {KEY_INSERT, "insert"}, {KEY_DELETE, "delete"}, {KEY_NOT_KEY, "not_key"}, {KEY_INCOMPLETE, "incomplete"},
    {KEY_VARIABLE_FLAGS, "variable_flags"}, {0}};

/* Replies the names of the bits that are set, as a set of status strings. */
static void reply_names(struct reply *r, uint32_t bits, const struct bit_name *names, const char *prefix) {
    size_t count = 0;
    for (const struct bit_name *n = names; n->name; n++) count += (bits & n->bit) != 0;
    reply_set(r, count);
    for (const struct bit_name *n = names; n->name; n++) {
        char text[48];
        if (!(bits & n->bit)) continue;
        snprintf(text, sizeof text, "%s%s", prefix, n->name);
        reply_status(r, text);
    }
}

/* Explicit categories, and those that follow from flags. */
static uint32_t categories(const struct command *row) {
    uint32_t acl = row->acl, f = row->flags;
    if (f & CMD_WRITE) acl |= ACL_WRITE;
    if (f & CMD_READONLY && !(acl & ACL_SCRIPTING)) acl |= ACL_READ;
    if (f & CMD_ADMIN) acl |= ACL_ADMIN | ACL_DANGEROUS;
    if (f & CMD_PUBSUB) acl |= ACL_PUBSUB;
    if (f & CMD_FAST) acl |= ACL_FAST;
    if (f & CMD_BLOCKING) acl |= ACL_BLOCKING;
    if (!(acl & ACL_FAST)) acl |= ACL_SLOW;
    return acl;
}

void introspect_key_flags(struct reply *r, uint16_t flags) { reply_names(r, flags, key_flag_names, ""); }

static void reply_key_spec(struct reply *r, const struct key_spec *k) {
    reply_map(r, k->notes ? 4 : 3);
    if (k->notes) {
        reply_bulk_text(r, "notes");
        reply_bulk_text(r, k->notes);
    }
    reply_bulk_text(r, "flags");
    reply_names(r, k->flags, key_flag_names, "");
    reply_bulk_text(r, "begin_search");
    reply_map(r, 2);
    reply_bulk_text(r, "type");
    reply_bulk_text(r, k->begin == KEY_BEGIN_INDEX ? "index" : k->begin == KEY_BEGIN_KEYWORD ? "keyword" : "unknown");
    reply_bulk_text(r, "spec");
    if (k->begin == KEY_BEGIN_INDEX) {
        reply_map(r, 1);
        reply_bulk_text(r, "index");
        reply_int(r, k->pos);
    } else if (k->begin == KEY_BEGIN_KEYWORD) {
        reply_map(r, 2);
        reply_bulk_text(r, "keyword");
        reply_bulk_text(r, k->keyword);
        reply_bulk_text(r, "startfrom");
        reply_int(r, k->pos);
    } else reply_map(r, 0);
    reply_bulk_text(r, "find_keys");
    reply_map(r, 2);
    reply_bulk_text(r, "type");
    reply_bulk_text(r, k->find == KEY_FIND_RANGE ? "range" : k->find == KEY_FIND_KEYNUM ? "keynum" : "unknown");
    reply_bulk_text(r, "spec");
    if (k->find == KEY_FIND_UNKNOWN) {
        reply_map(r, 0);
        return;
    }
    bool range = k->find == KEY_FIND_RANGE;
    reply_map(r, 3);
    reply_bulk_text(r, range ? "lastkey" : "keynumidx");
    reply_int(r, k->last);
    reply_bulk_text(r, range ? "keystep" : "firstkey");
    reply_int(r, k->step);
    reply_bulk_text(r, range ? "limit" : "keystep");
    reply_int(r, k->limit);
}

/* DEBUG's subcommands are routed by rows of their own, but Redis knows none. */
static bool shows_subcommands(const struct command *row) { return row->subcommands && !(row->flags & CMD_PROTECTED); }

const struct command *introspect_shown(const struct command *row) {
    return row->parent && !shows_subcommands(row->parent) ? row->parent : row;
}

size_t introspect_subcommand_count(const struct command *row) {
    size_t n = 0;
    while (shows_subcommands(row) && row->subcommands[n].name) n++;
    return n;
}

static void reply_row(struct reply *r, const struct command *row) {
    char name[COMMAND_FULL_NAME];
    reply_array(r, 10);
    command_full_name(row, name);
    reply_bulk_text(r, name);
    reply_int(r, row->arity);
    reply_names(r, row->flags, flag_names, "");
    bool range = row->n_key_specs && row->keys[0].find == KEY_FIND_RANGE;
    reply_int(r, range ? row->key_first : 0);
    reply_int(r, range ? row->key_last : 0);
    reply_int(r, range ? row->key_step : 0);
    reply_names(r, categories(row), acl_names, "@");
    size_t n = 0;
    while (row->hints && row->hints[n]) n++;
    reply_set(r, n);
    for (size_t i = 0; i < n; i++) reply_bulk_text(r, row->hints[i]);
    reply_set(r, row->n_key_specs);
    for (uint8_t i = 0; i < row->n_key_specs; i++) reply_key_spec(r, &row->keys[i]);
    n = introspect_subcommand_count(row);
    if (n) reply_array(r, n);
    else reply_set(r, 0);
    for (size_t i = 0; i < n; i++) reply_row(r, &row->subcommands[i]);
}

void introspect_all(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)c;
    (void)argv;
    (void)argc;
    reply_array(r, command_count());
    for (size_t i = 0; i < command_count(); i++) reply_row(r, command_at(i));
}

const struct command *introspect_row_named(const struct arg *a) {
    const char *bar = memchr(a->p, '|', a->size);
    if (!bar) return command_find(a->p, a->size);
    const struct command *row = command_find(a->p, (size_t)(bar - a->p));
    return row && shows_subcommands(row) ? command_find_sub(row, bar + 1, (size_t)(a->p + a->size - bar - 1)) : NULL;
}

static void count(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)c;
    (void)argv;
    (void)argc;
    reply_int(r, (int64_t)command_count());
}

static void details(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    if (argc == 2) {
        introspect_all(c, argv, argc, r);
        return;
    }
    reply_array(r, argc - 2);
    for (uint32_t i = 2; i < argc; i++) {
        const struct command *row = introspect_row_named(&argv[i]);
        if (row) reply_row(r, row);
        else reply_null(r);
    }
}

enum list_filter { LIST_ALL, LIST_MODULE, LIST_ACLCAT, LIST_PATTERN };

static bool listed(const struct command *row, enum list_filter filter, const struct arg *by) {
    char name[COMMAND_FULL_NAME];
    command_full_name(row, name);
    switch (filter) {
    case LIST_ALL: return true;
    case LIST_MODULE: return false;
    case LIST_PATTERN: return glob_match(by->p, by->size, name, strlen(name), true, NULL);
    case LIST_ACLCAT:
        for (size_t i = 0; acl_names[i].name; i++)
            if (categories(row) & acl_names[i].bit && arg_is(by, acl_names[i].name)) return true;
        return false;
    }
    return false;
}

static void list(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    enum list_filter filter = LIST_ALL;
    (void)c;
    if (argc == 5 && arg_is(&argv[2], "filterby")) {
        if (arg_is(&argv[3], "module")) filter = LIST_MODULE;
        else if (arg_is(&argv[3], "aclcat")) filter = LIST_ACLCAT;
        else if (arg_is(&argv[3], "pattern")) filter = LIST_PATTERN;
        else argc = 0;
    } else if (argc != 2) argc = 0;
    if (!argc) {
        reply_syntax_error(r);
        return;
    }
    size_t n = 0;
    for (int round = 0; round < 2; round++) {
        if (round) reply_array(r, n);
        for (size_t i = 0; i < command_count(); i++) {
            const struct command *row = command_at(i), *sub = shows_subcommands(row) ? row->subcommands : NULL;
            if (listed(row, filter, &argv[4])) {
                n++;
                if (round) reply_bulk_text(r, row->name);
            }
            for (; sub && sub->name; sub++) {
                char name[COMMAND_FULL_NAME];
                if (!listed(sub, filter, &argv[4])) continue;
                n++;
                command_full_name(sub, name);
                if (round) reply_bulk_text(r, name);
            }
        }
    }
}

const char *const introspect_help[] = {"(no subcommand)", "    Return details about all Redis commands.", "COUNT",
    "    Return the total number of commands in this Redis server.", "LIST", "    Return a list of all commands in this Redis server.",
    "INFO [<command-name> ...]", "    Return details about multiple Redis commands.",
    "    If no command names are given, documentation details for all", "    commands are returned.", "DOCS [<command-name> ...]",
    "    Return documentation details about multiple Redis commands.", "    If no command names are given, documentation details for all",
    "    commands are returned.", "GETKEYS <full-command>", "    Return the keys from a full Redis command.",
    "GETKEYSANDFLAGS <full-command>", "    Return the keys and the access flags from a full Redis command.", NULL};

#define FLAGS (CMD_LOADING | CMD_STALE)
static const char *const no_order[] = {"nondeterministic_output_order", NULL};
const struct command introspect_subcommands[] = {{.name = "count",
                                                     .since = "2.8.13",
                                                     .summary = "Get total number of Redis commands",
                                                     .complexity = "O(1)",
                                                     .arity = 2,
                                                     .flags = FLAGS,
                                                     .acl = ACL_CONNECTION,
                                                     .on_connection = count},
    {.name = "docs",
        .since = "7.0.0",
        .summary = "Get array of specific Redis command documentation",
        .complexity = "O(N) where N is the number of commands to look up",
        .arity = -2,
        .flags = FLAGS,
        .acl = ACL_CONNECTION,
        .on_connection = docs_command,
        .hints = no_order},
    {.name = "getkeys",
        .since = "2.8.13",
        .summary = "Extract keys given a full Redis command",
        .complexity = "O(N) where N is the number of arguments to the command",
        .arity = -4,
        .flags = FLAGS,
        .acl = ACL_CONNECTION,
        .on_connection = getkeys_command},
    {.name = "getkeysandflags",
        .since = "7.0.0",
        .summary = "Extract keys and access flags given a full Redis command",
        .complexity = "O(N) where N is the number of arguments to the command",
        .arity = -4,
        .flags = FLAGS,
        .acl = ACL_CONNECTION,
        .on_connection = getkeysandflags_command},
    {.name = "info",
        .since = "2.8.13",
        .summary = "Get array of specific Redis command details, or all when no argument is given.",
        .complexity = "O(N) where N is the number of commands to look up",
        .arity = -2,
        .flags = FLAGS,
        .acl = ACL_CONNECTION,
        .on_connection = details,
        .hints = no_order},
    {.name = "list",
        .since = "7.0.0",
        .summary = "Get an array of Redis command names",
        .complexity = "O(N) where N is the total number of Redis commands",
        .arity = -2,
        .flags = FLAGS,
        .acl = ACL_CONNECTION,
        .on_connection = list,
        .hints = no_order},
    {.name = "help",
        .since = "5.0.0",
        .summary = "Show helpful text about the different subcommands",
        .complexity = "O(1)",
        .arity = 2,
        .flags = FLAGS,
        .acl = ACL_CONNECTION},
    {0}};
