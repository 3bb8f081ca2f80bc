/* hiredis, synchronous and with libevent, does ordinary work. Each scenario begins on an empty server; programs.py reads how it went. */
#include <event2/event.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/async.h>
#include <hiredis/hiredis.h>

#include <hiredis/adapters/libevent.h>

/* What went wrong first in the scenario that runs; empty if nothing did. */
static char fault[300];

static bool check(bool good, const char *what) {
    if (!good && !*fault) snprintf(fault, sizeof fault, "%s", what);
    return good;
}

static int setting(const char *name) {
    const char *value = getenv(name);
    return value ? atoi(value) : 0;
}

static redisContext *connected(redisContext *c) {
    if (!c || c->err) {
        fprintf(stderr, "no connection: %s\n", c ? c->errstr : "no memory");
        exit(1);
    }
    return c;
}

static redisContext *client(void) { return connected(redisConnect("127.0.0.1", setting("SERVER_PORT"))); }

/* The replies' checks free the reply. */

static void expect_status(redisReply *r, const char *text) {
    check(r && r->type == REDIS_REPLY_STATUS && !strcmp(r->str, text), text);
    if (r) freeReplyObject(r);
}

static void expect_integer(redisReply *r, long long value, const char *what) {
    check(r && r->type == REDIS_REPLY_INTEGER && r->integer == value, what);
    if (r) freeReplyObject(r);
}

static void expect_bytes(redisReply *r, const void *bytes, size_t size, const char *what) {
    check(r && r->type == REDIS_REPLY_STRING && (size_t)r->len == size && !memcmp(r->str, bytes, size), what);
    if (r) freeReplyObject(r);
}

static void expect_text(redisReply *r, const char *text) { expect_bytes(r, text, strlen(text), text); }

static void expect_nil(redisReply *r, const char *what) {
    check(r && r->type == REDIS_REPLY_NIL, what);
    if (r) freeReplyObject(r);
}

static void expect_error(redisReply *r, const char *beginning) {
    check(r && r->type == REDIS_REPLY_ERROR && !strncmp(r->str, beginning, strlen(beginning)), beginning);
    if (r) freeReplyObject(r);
}

static void *next_reply(redisContext *c) {
    void *reply = NULL;
    return redisGetReply(c, &reply) == REDIS_OK ? reply : NULL;
}

static void strings_and_keys(redisContext *c) {
    expect_status(redisCommand(c, "PING"), "PONG");
    expect_status(redisCommand(c, "SET %s %d EX 1000", "key with spaces", 41), "OK");
    expect_integer(redisCommand(c, "INCR %s", "key with spaces"), 42, "INCR");
    expect_text(redisCommand(c, "GET %b", "key with spaces", (size_t)15), "42");
    expect_integer(redisCommand(c, "PERSIST %s", "key with spaces"), 1, "PERSIST");
    expect_nil(redisCommand(c, "GET nothing"), "GET of nothing");
    const char *words[] = {"MSET", "a", "1", "", "of an empty name"};
    expect_status(redisCommandArgv(c, 5, words, NULL), "OK");
    redisReply *r = redisCommand(c, "MGET a nothing %s", "");
    check(r && r->type == REDIS_REPLY_ARRAY && r->elements == 3 && !strcmp(r->element[0]->str, "1") &&
            r->element[1]->type == REDIS_REPLY_NIL && !strcmp(r->element[2]->str, "of an empty name"),
        "MGET");
    if (r) freeReplyObject(r);
    expect_integer(redisCommand(c, "DEL a nothing %s", ""), 2, "DEL");
    expect_integer(redisCommand(c, "DBSIZE"), 1, "DBSIZE");
    expect_status(redisCommand(c, "SELECT 3"), "OK");
    expect_integer(redisCommand(c, "DBSIZE"), 0, "DBSIZE of another database");
}

static void errors_are_replies(redisContext *c) {
    expect_status(redisCommand(c, "SET text abc"), "OK");
    expect_error(redisCommand(c, "INCR text"), "ERR value is not an integer or out of range");
    expect_error(redisCommand(c, "NONSENSE a"), "ERR unknown command 'NONSENSE', with args beginning with: 'a' ");
    expect_error(redisCommand(c, "GET"), "ERR wrong number of arguments for 'get' command");
    expect_text(redisCommand(c, "GET text"), "abc");
    check(!c->err, "an error is not the end of the connection");
}

static void a_pipeline(redisContext *c) {
    enum { COUNT = 5000 };
    for (int i = 0; i < COUNT; i++) {
        redisAppendCommand(c, "SET key:%d %d", i, i);
        redisAppendCommand(c, "INCR key:%d", i);
        redisAppendCommand(c, "INCRBY sum %s", i ? "1" : "one");
    }
    for (int i = 0; i < COUNT; i++) {
        expect_status(next_reply(c), "OK");
        expect_integer(next_reply(c), i + 1, "INCR in a pipeline");
        if (i) expect_integer(next_reply(c), i, "INCRBY in a pipeline");
        else expect_error(next_reply(c), "ERR value is not an integer or out of range");
    }
}

static void values_of_all_sizes(redisContext *c) {
    static const size_t sizes[] = {0, 1, 255, 256, 4095, 16383, 16384, 16385, 65536, 1 << 20, 5 << 20};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    size_t largest = sizes[COUNT - 1];
    char *bytes = malloc(largest);
    if (!bytes) abort();
    for (size_t i = 0; i < largest; i++) bytes[i] = (char)(i * 2654435761u >> 13);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++) redisAppendCommand(c, "SET big:%d %b", i, bytes, sizes[i]);
        for (int i = 0; i < COUNT; i++) expect_status(next_reply(c), "OK");
        for (int i = 0; i < COUNT; i++) redisAppendCommand(c, "GET big:%d", i);
        for (int i = 0; i < COUNT; i++) expect_bytes(next_reply(c), bytes, sizes[i], "a value of another size");
    }
    free(bytes);
}

static void a_password(redisContext *unused) {
    (void)unused;
    redisContext *c = connected(redisConnect("127.0.0.1", setting("SERVER_PORT_WITH_PASSWORD")));
    expect_error(redisCommand(c, "GET k"), "NOAUTH ");
    expect_error(redisCommand(c, "AUTH wrong"), "WRONGPASS ");
    expect_status(redisCommand(c, "AUTH %s", getenv("SERVER_PASSWORD")), "OK");
    expect_status(redisCommand(c, "SET k v"), "OK");
    redisFree(c);
}

static void a_unix_socket(redisContext *c) {
    redisContext *local = connected(redisConnectUnix(getenv("SERVER_SOCKET")));
    expect_status(redisCommand(local, "SET k v"), "OK");
    expect_text(redisCommand(c, "GET k"), "v");
    redisFree(local);
}

static void a_killed_connection(redisContext *c) {
    redisContext *killer = client();
    redisReply *id = redisCommand(c, "CLIENT ID");
    if (check(id && id->type == REDIS_REPLY_INTEGER, "CLIENT ID"))
        expect_integer(redisCommand(killer, "CLIENT KILL ID %lld", id->integer), 1, "CLIENT KILL");
    if (id) freeReplyObject(id);
    redisReply *r = redisCommand(c, "PING");
    check(!r && c->err, "a killed connection answers nothing");
    if (r) freeReplyObject(r);
    check(redisReconnect(c) == REDIS_OK, "redisReconnect");
    expect_status(redisCommand(c, "PING"), "PONG");
    redisFree(killer);
}

static void tell_server(const char *what) {
    printf("{\"server\": \"%s\"}\n", what);
    fflush(stdout);
    if (getchar() != '\n') exit(1);
}

static void a_new_start(redisContext *c) {
    expect_status(redisCommand(c, "SET k v"), "OK");
    tell_server("stop");
    redisReply *r = redisCommand(c, "GET k");
    check(!r && c->err, "nobody answers");
    if (r) freeReplyObject(r);
    check(redisReconnect(c) == REDIS_ERR, "nobody listens");
    tell_server("start");
    check(redisReconnect(c) == REDIS_OK, "redisReconnect");
    expect_nil(redisCommand(c, "GET k"), "a new server is empty");
}

/* Asynchronous: several contexts of one event base, each with commands of its own under way. */

enum { CONTEXTS = 10, COMMANDS = 500 };

struct counter {
    int replies, connects, disconnects;
};

static void on_connect(const redisAsyncContext *a, int status) {
    ((struct counter *)a->data)->connects++;
    check(status == REDIS_OK, "an asynchronous connection");
}

static void on_disconnect(const redisAsyncContext *a, int status) {
    ((struct counter *)a->data)->disconnects++;
    check(status == REDIS_OK, "an asynchronous end");
}

static void on_reply(redisAsyncContext *a, void *reply, void *order) {
    struct counter *own = a->data;
    redisReply *r = reply;
    check(r && r->type == REDIS_REPLY_INTEGER && r->integer == own->replies + 1, "an asynchronous INCR");
    check((size_t)order == (size_t)own->replies, "replies in order");
    if (++own->replies == COMMANDS) redisAsyncDisconnect(a);
}

static void asynchronous_commands(redisContext *c) {
    struct event_base *base = event_base_new();
    struct counter all[CONTEXTS] = {0};
    for (int i = 0; i < CONTEXTS; i++) {
        redisAsyncContext *a = redisAsyncConnect("127.0.0.1", setting("SERVER_PORT"));
        if (!a || a->err) exit(1);
        a->data = &all[i];
        redisLibeventAttach(a, base);
        redisAsyncSetConnectCallback(a, on_connect);
        redisAsyncSetDisconnectCallback(a, on_disconnect);
        for (size_t n = 0; n < COMMANDS; n++) redisAsyncCommand(a, on_reply, (void *)n, "INCR counter:%d", i);
    }
    event_base_dispatch(base);
    event_base_free(base);
    for (int i = 0; i < CONTEXTS; i++) {
        check(all[i].connects == 1 && all[i].disconnects == 1 && all[i].replies == COMMANDS, "every command is answered once");
        char text[16];
        snprintf(text, sizeof text, "%d", COMMANDS);
        expect_text(redisCommand(c, "GET counter:%d", i), text);
    }
}

static const struct scenario {
    const char *name;
    void (*run)(redisContext *);
} scenarios[] = {{"strings and keys", strings_and_keys}, {"errors are replies", errors_are_replies}, {"a pipeline", a_pipeline},
    {"values of all sizes", values_of_all_sizes}, {"a password", a_password}, {"a Unix socket", a_unix_socket},
    {"a killed connection is opened again", a_killed_connection}, {"the server is started anew", a_new_start},
    {"asynchronous commands on several connections", asynchronous_commands}};

int main(void) {
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++) {
        redisContext *c = client();
        expect_status(redisCommand(c, "FLUSHALL"), "OK");
        scenarios[i].run(c);
        redisFree(c);
        printf(
            "{\"name\": \"%s\", \"fault\": %s%s%s}\n", scenarios[i].name, *fault ? "\"" : "", *fault ? fault : "null", *fault ? "\"" : "");
        fflush(stdout);
        *fault = 0;
    }
    return 0;
}
