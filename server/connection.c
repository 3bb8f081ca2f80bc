/* The connection commands: who the client is, which protocol and database it uses. They run at dispatch, on the connection's thread. */
#include <mimalloc.h>
#include <string.h>

#include "server/clients.h"
#include "server/conn.h"
#include "server/monitor.h"
#include "server/multi.h"
#include "server/pause.h"
#include "server/version.h"

/* ---- PING, ECHO, SELECT, QUIT, RESET ---- */

static void ping(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)c;
    if (argc > 2) reply_error(r, "ERR wrong number of arguments for 'ping' command");
    else if (argc == 2) reply_bulk(r, argv[1].p, argv[1].size);
    else REPLY_LITERAL(r, "+PONG\r\n");
}

static void echo(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)c;
    (void)argc;
    reply_bulk(r, argv[1].p, argv[1].size);
}

static void select_db(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    int64_t n;
    (void)argc;
    if (!arg_int64(&argv[1], &n, r)) return;
    if (n < INT32_MIN || n > INT32_MAX) reply_error(r, "ERR value is out of range, value must between -2147483648 and 2147483647");
    else if (n < 0 || n >= c->thread->config->databases) reply_error(r, "ERR DB index is out of range");
    else {
        c->db = (uint16_t)n;
        reply_ok(r);
    }
}

static void quit(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)argv;
    (void)argc;
    reply_ok(r);
    conn_close(c, true);
}

static void forget_name(char **name) {
    mi_free(*name);
    *name = NULL;
}

static void reset(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)argv;
    (void)argc;
    monitor_leave(c->thread, c);
    multi_end(c->thread, c);
    c->db = 0;
    c->resp = r->resp = 2;
    c->reply_off = c->reply_skip_next = c->no_touch = false; /* not reply_skip: that is for this very command */
    c->authenticated = !c->thread->config->requirepass[0];
    forget_name(&c->name);
    reply_status(r, "RESET");
}

/* ---- AUTH, HELLO ---- */

/* Compares in time that depends on the password given, not on ours. */
static bool same_secret(const char *ours, const struct arg *given) {
    size_t n = strlen(ours);
    unsigned differ = n != given->size;
    for (size_t i = 0; i < given->size; i++) differ |= (unsigned)(given->p[i] ^ ours[n ? i % n : 0]);
    return !differ;
}

static bool authenticate(struct conn *c, const struct arg *user, const struct arg *password, struct reply *r) {
    const char *ours = c->thread->config->requirepass;
    bool is_default = !user || (user->size == 7 && !memcmp(user->p, "default", 7));
    if (is_default && (!ours[0] || same_secret(ours, password))) return c->authenticated = true;
    reply_error(r, "WRONGPASS invalid username-password pair or user is disabled.");
    return false;
}

static void auth(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    if (argc > 3) {
        reply_syntax_error(r);
        return;
    }
    if (argc == 2 && !c->thread->config->requirepass[0]) {
        reply_error(r,
            "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?");
        return;
    }
    if (authenticate(c, argc == 3 ? &argv[1] : NULL, &argv[argc - 1], r)) reply_ok(r);
}

/* Sets a name of the client; "" takes it away. False: a forbidden character (or no memory), nothing changed. */
static bool set_name(char **name, const struct arg *to) {
    for (uint32_t i = 0; i < to->size; i++)
        if (to->p[i] < '!' || to->p[i] > '~') return false;
    char *copy = NULL;
    if (to->size) {
        copy = mi_malloc(to->size + 1);
        if (!copy) return false;
        memcpy(copy, to->p, to->size);
        copy[to->size] = 0;
    }
    mi_free(*name);
    *name = copy;
    return true;
}

static const char BAD_NAME[] = "ERR Client names cannot contain spaces, newlines or special characters.";

static void hello_fields(struct conn *c, struct reply *r) {
    r->resp = c->resp;
    reply_map(r, 7);
    reply_bulk_text(r, "server");
    reply_bulk_text(r, "redis");
    reply_bulk_text(r, "version");
    reply_bulk_text(r, c->thread->config->reported_redis_version);
    reply_bulk_text(r, "proto");
    reply_int(r, c->resp);
    reply_bulk_text(r, "id");
    reply_int(r, (int64_t)c->id);
    reply_bulk_text(r, "mode");
    reply_bulk_text(r, "standalone");
    reply_bulk_text(r, "role");
    reply_bulk_text(r, "master");
    reply_bulk_text(r, "modules");
    reply_array(r, 0);
}

static void hello(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    int64_t version = 0;
    if (argc > 1) {
        if (!parse_int64(argv[1].p, argv[1].size, &version)) {
            reply_error(r, "ERR Protocol version is not an integer or out of range");
            return;
        }
        if (version < 2 || version > 3) {
            reply_error(r, "NOPROTO unsupported protocol version");
            return;
        }
    }
    /* Options take effect one after the other, as in Redis: an error in a later one does not undo those before it. */
    for (uint32_t i = 2; i < argc; i++) {
        if (arg_is(&argv[i], "auth") && argc - 1 - i >= 2) {
            if (!authenticate(c, &argv[i + 1], &argv[i + 2], r)) return;
            i += 2;
        } else if (arg_is(&argv[i], "setname") && argc - 1 - i >= 1) {
            if (!set_name(&c->name, &argv[++i])) {
                reply_error(r, BAD_NAME);
                return;
            }
        } else {
            reply_errorf(r, "ERR Syntax error in HELLO option '%.*s'", (int)(argv[i].size < 128 ? argv[i].size : 128), argv[i].p);
            return;
        }
    }
    if (!c->authenticated) {
        reply_error(r,
            "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO AUTH <user> <pass> option can "
            "be used to "
            "authenticate the client and select the RESP protocol version at the same time");
        return;
    }
    if (version) c->resp = (uint8_t)version;
    hello_fields(c, r);
}

/* ---- CLIENT ---- */

static void client_id(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)argv;
    (void)argc;
    reply_int(r, (int64_t)c->id);
}

static void client_getname(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)argv;
    (void)argc;
    if (c->name) reply_bulk_text(r, c->name);
    else reply_null(r);
}

static void client_setname(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)argc;
    if (set_name(&c->name, &argv[2])) reply_ok(r);
    else reply_error(r, BAD_NAME);
}

static void client_setinfo(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)argc;
    bool lib_name = arg_is(&argv[2], "lib-name");
    if (!lib_name && !arg_is(&argv[2], "lib-ver"))
        reply_errorf(r, "ERR Unrecognized option '%.*s'", (int)(argv[2].size < 128 ? argv[2].size : 128), argv[2].p);
    else if (set_name(lib_name ? &c->lib_name : &c->lib_version, &argv[3])) reply_ok(r);
    else reply_errorf(r, "ERR %s cannot contain spaces, newlines or special characters.", lib_name ? "lib-name" : "lib-ver");
}

static void client_reply(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)argc;
    if (arg_is(&argv[2], "on")) {
        c->reply_off = c->reply_skip = false;
        reply_ok(r);
    } else if (arg_is(&argv[2], "off")) c->reply_off = true;
    else if (arg_is(&argv[2], "skip")) c->reply_skip_next = !c->reply_off;
    else reply_syntax_error(r);
}

static void client_no_touch(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)argc;
    bool on = arg_is(&argv[2], "on");
    if (!on && !arg_is(&argv[2], "off")) {
        reply_syntax_error(r);
        return;
    }
    c->no_touch = on;
    reply_ok(r);
}

static const char *const client_help[] = {"GETREDIR", "    Return the client ID we are redirecting to when tracking is enabled.", "GETNAME",
    "    Return the name of the current connection.", "ID", "    Return the ID of the current connection.", "INFO",
    "    Return information about the current client connection.", "KILL <ip:port>", "    Kill connection made from <ip:port>.",
    "KILL <option> <value> [<option> <value> [...]]", "    Kill connections. Options are:", "    * ADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made from the specified address", "    * LADDR (<ip:port>|<unixsocket>:0)",
    "      Kill connections made to specified local address", "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Kill connections by type.", "    * USER <username>", "      Kill connections authenticated by <username>.",
    "    * SKIPME (YES|NO)", "      Skip killing current connection (default: yes).", "LIST [options ...]",
    "    Return information about client connections. Options:", "    * TYPE (NORMAL|MASTER|REPLICA|PUBSUB)",
    "      Return clients of specified type.", "UNPAUSE", "    Stop the current client pause, resuming traffic.",
    "PAUSE <timeout> [WRITE|ALL]", "    Suspend all, or just write, clients for <timeout> milliseconds.", "REPLY (ON|OFF|SKIP)",
    "    Control the replies sent to the current connection.", "SETNAME <name>", "    Assign the name <name> to the current connection.",
    "SETINFO <option> <value>", "    Set client meta attr. Options are:", "    * LIB-NAME: the client lib name.",
    "    * LIB-VER: the client lib version.", "UNBLOCK <clientid> [TIMEOUT|ERROR]", "    Unblock the specified blocked client.",
    "NO-EVICT (ON|OFF)", "    Protect current client connection from eviction.", "NO-TOUCH (ON|OFF)",
    "    Will not touch LRU/LFU stats when this mode is on.", NULL};

#define SUB_FLAGS (CMD_NOSCRIPT | CMD_LOADING | CMD_STALE)
#define ADMIN_FLAGS (CMD_ADMIN | SUB_FLAGS)
static const char *const client_hints[] = {"nondeterministic_output", NULL};
static const struct command client_subcommands[] = {{.name = "id",
                                                        .since = "5.0.0",
                                                        .summary = "Returns the client ID for the current connection",
                                                        .complexity = "O(1)",
                                                        .arity = 2,
                                                        .flags = SUB_FLAGS,
                                                        .acl = ACL_CONNECTION,
                                                        .on_connection = client_id},
    {.name = "getname",
        .since = "2.6.9",
        .summary = "Get the current connection name",
        .complexity = "O(1)",
        .arity = 2,
        .flags = SUB_FLAGS,
        .acl = ACL_CONNECTION,
        .on_connection = client_getname},
    {.name = "setname",
        .since = "2.6.9",
        .summary = "Set the current connection name",
        .complexity = "O(1)",
        .arity = 3,
        .flags = SUB_FLAGS,
        .acl = ACL_CONNECTION,
        .on_connection = client_setname},
    {.name = "setinfo",
        .since = "7.2.0",
        .summary = "Set client or connection specific info",
        .complexity = "O(1)",
        .arity = 4,
        .flags = SUB_FLAGS,
        .acl = ACL_CONNECTION,
        .on_connection = client_setinfo},
    {.name = "reply",
        .since = "3.2.0",
        .summary = "Instruct the server whether to reply to commands",
        .complexity = "O(1)",
        .arity = 3,
        .flags = SUB_FLAGS,
        .acl = ACL_CONNECTION,
        .on_connection = client_reply},
    {.name = "no-touch",
        .since = "7.2.0",
        .summary = "Controls whether commands sent by the client affect the LRU/LFU of accessed keys",
        .complexity = "O(1)",
        .arity = 3,
        .flags = SUB_FLAGS,
        .acl = ACL_CONNECTION,
        .on_connection = client_no_touch},
    {.name = "info",
        .since = "6.2.0",
        .summary = "Returns information about the current client connection.",
        .complexity = "O(1)",
        .arity = 2,
        .flags = SUB_FLAGS,
        .acl = ACL_CONNECTION,
        .on_connection = client_info,
        .hints = client_hints},
    {.name = "list",
        .since = "2.4.0",
        .summary = "Get the list of client connections",
        .complexity = "O(N) where N is the number of client connections",
        .arity = -2,
        .plan = PLAN_ALL,
        .merge = MERGE_TEXT,
        .flags = ADMIN_FLAGS | CMD_SLICED,
        .acl = ACL_CONNECTION,
        .on_shard = client_list_piece,
        .on_beside = client_list_piece,
        .on_drop = client_search_drop,
        .hints = client_hints},
    {.name = "kill",
        .since = "2.4.0",
        .summary = "Kill the connection of a client",
        .complexity = "O(N) where N is the number of client connections",
        .arity = -3,
        .plan = PLAN_ALL,
        .merge = MERGE_CUSTOM,
        .flags = ADMIN_FLAGS | CMD_SLICED,
        .acl = ACL_CONNECTION,
        .on_shard = client_kill_piece,
        .on_beside = client_kill_piece,
        .on_drop = client_search_drop,
        .merge_custom = client_kill_merge},
    {.name = "pause",
        .since = "2.9.50",
        .summary = "Stop processing commands from clients for some time",
        .complexity = "O(1)",
        .arity = -3,
        .plan = PLAN_ALL,
        .merge = MERGE_OK,
        .flags = ADMIN_FLAGS | CMD_SETTLES,
        .acl = ACL_CONNECTION,
        .on_shard = client_pause_piece},
    {.name = "unpause",
        .since = "6.2.0",
        .summary = "Resume processing of clients that were paused",
        .complexity = "O(N) Where N is the number of paused clients",
        .arity = 2,
        .plan = PLAN_ALL,
        .merge = MERGE_OK,
        .flags = ADMIN_FLAGS,
        .acl = ACL_CONNECTION,
        .on_shard = client_unpause_piece},
    {.name = "unblock",
        .since = "5.0.0",
        .summary = "Unblock a client blocked in a blocking command from a different connection",
        .complexity = "O(log N) where N is the number of client connections",
        .arity = -3,
        .plan = PLAN_ALL,
        .merge = MERGE_SUM,
        .flags = ADMIN_FLAGS | CMD_SLICED,
        .acl = ACL_CONNECTION,
        .on_shard = client_unblock_piece,
        .on_beside = client_unblock_piece},
    {.name = "no-evict",
        .since = "7.0.0",
        .summary = "Set client eviction mode for the current connection",
        .complexity = "O(1)",
        .arity = 3,
        .flags = ADMIN_FLAGS,
        .acl = ACL_CONNECTION,
        .on_connection = client_no_evict},
    {.name = "getredir",
        .since = "6.0.0",
        .summary = "Get tracking notifications redirection client ID if any",
        .complexity = "O(1)",
        .arity = 2,
        .flags = SUB_FLAGS,
        .acl = ACL_CONNECTION,
        .on_connection = client_getredir},
    {.name = "help",
        .since = "5.0.0",
        .summary = "Show helpful text about the different subcommands",
        .complexity = "O(1)",
        .arity = 2,
        .flags = CMD_LOADING | CMD_STALE,
        .acl = ACL_CONNECTION},
    {0}};

#define SESSION_FLAGS (CMD_NOSCRIPT | CMD_LOADING | CMD_STALE | CMD_FAST | CMD_NO_AUTH | CMD_ALLOW_BUSY)
static const char *const ping_hints[] = {"request_policy:all_shards", "response_policy:all_succeeded", NULL};

const struct command commands_connection[] = {{.name = "auth",
                                                  .group = "connection",
                                                  .since = "1.0.0",
                                                  .summary = "Authenticate to the server",
                                                  .complexity = "O(N) where N is the number of passwords defined for the user",
                                                  .arity = -2,
                                                  .flags = SESSION_FLAGS,
                                                  .acl = ACL_CONNECTION,
                                                  .on_connection = auth},
    {.name = "client",
        .group = "connection",
        .since = "2.4.0",
        .summary = "A container for client connection commands",
        .complexity = "Depends on subcommand.",
        .arity = -2,
        .subcommands = client_subcommands,
        .help = client_help},
    {.name = "echo",
        .group = "connection",
        .since = "1.0.0",
        .summary = "Echo the given string",
        .complexity = "O(1)",
        .arity = 2,
        .flags = CMD_LOADING | CMD_STALE | CMD_FAST,
        .acl = ACL_CONNECTION,
        .on_connection = echo},
    {.name = "hello",
        .group = "connection",
        .since = "6.0.0",
        .summary = "Handshake with Redis",
        .complexity = "O(1)",
        .arity = -1,
        .flags = SESSION_FLAGS,
        .acl = ACL_CONNECTION,
        .on_connection = hello},
    {.name = "ping",
        .group = "connection",
        .since = "1.0.0",
        .summary = "Ping the server",
        .complexity = "O(1)",
        .arity = -1,
        .flags = CMD_FAST,
        .acl = ACL_CONNECTION,
        .on_connection = ping,
        .hints = ping_hints},
    {.name = "quit",
        .group = "connection",
        .since = "1.0.0",
        .summary = "Close the connection",
        .complexity = "O(1)",
        .arity = -1,
        .flags = SESSION_FLAGS | CMD_ENDS_MULTI,
        .acl = ACL_CONNECTION,
        .on_connection = quit},
    {.name = "reset",
        .group = "connection",
        .since = "6.2.0",
        .summary = "Reset the connection",
        .complexity = "O(1)",
        .arity = 1,
        .flags = SESSION_FLAGS | CMD_ENDS_MULTI,
        .acl = ACL_CONNECTION,
        .on_connection = reset},
    {.name = "select",
        .group = "connection",
        .since = "1.0.0",
        .summary = "Change the selected database for the current connection",
        .complexity = "O(1)",
        .arity = 2,
        .flags = CMD_LOADING | CMD_STALE | CMD_FAST,
        .acl = ACL_CONNECTION,
        .on_connection = select_db},
    {0}};
