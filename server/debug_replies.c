#include "server/debug_replies.h"

#include <ctype.h>
#include <signal.h>
#include <stdlib.h>

#include "server/conn.h"
#include "server/glob.h"
#include "server/log.h"
#include "server/replication.h"

#define TEXT_MAX 4096u /* bytes of a client's text that are told; an error or a line of the log is cut before that */

/* ---- PROTOCOL ---- */

static const char AFTER_ATTRIBUTE[] = "Some real reply following the attribute", AFTER_PUSH[] = "Some real reply following the push reply";

static void attribute(struct reply *r) {
    if (r->resp > 2) {
        REPLY_LITERAL(r, "|1\r\n");
        reply_bulk_text(r, "key-popularity");
        reply_array(r, 2);
        reply_bulk_text(r, "key:123");
        reply_int(r, 90);
    }
    reply_bulk_text(r, AFTER_ATTRIBUTE);
}

static void push(struct reply *r) {
    if (r->resp < 3) {
        reply_error(r, "ERR RESP2 is not supported by this command");
        return;
    }
    reply_push(r, 2);
    reply_bulk_text(r, "server-cpu-usage");
    reply_int(r, 42);
    reply_bulk_text(r, AFTER_PUSH);
}

static void several(struct reply *r, const struct arg *kind) {
    bool map = arg_is(kind, "map");
    if (map) reply_map(r, 3);
    else if (arg_is(kind, "set")) reply_set(r, 3);
    else reply_array(r, 3);
    for (int i = 0; i < 3; i++) {
        reply_int(r, i);
        if (map) reply_bool(r, i == 1);
    }
}

static void big_number(struct reply *r) {
    static const char digits[] = "1234567999999999999999999999999999999";
    if (r->resp < 3) reply_bulk_text(r, digits);
    else {
        REPLY_LITERAL(r, "(");
        reply_bytes(r, digits, sizeof digits - 1);
        REPLY_LITERAL(r, "\r\n");
    }
}

void debug_protocol(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    const struct arg *kind = &argv[2];
    (void)c;
    (void)argc;
    if (arg_is(kind, "string")) reply_bulk_text(r, "Hello World");
    else if (arg_is(kind, "integer")) reply_int(r, 12345);
    else if (arg_is(kind, "double")) reply_double(r, 3.141);
    else if (arg_is(kind, "bignum")) big_number(r);
    else if (arg_is(kind, "null")) reply_null(r);
    else if (arg_is(kind, "array") || arg_is(kind, "set") || arg_is(kind, "map")) several(r, kind);
    else if (arg_is(kind, "attrib")) attribute(r);
    else if (arg_is(kind, "push")) push(r);
    else if (arg_is(kind, "true") || arg_is(kind, "false")) reply_bool(r, arg_is(kind, "true"));
    else if (arg_is(kind, "verbatim")) reply_verbatim(r, "txt", "This is a verbatim\nstring", 25);
    else
        reply_error(r,
            "ERR Wrong protocol type name. Please use one of the following: "
            "string|integer|double|bignum|null|array|set|map|attrib|push|verbatim|true|false");
}

/* ---- errors, logs, ends ---- */

void debug_error(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)c;
    (void)argc;
    reply_errorf(r, "%.*s", (int)(argv[2].size < TEXT_MAX ? argv[2].size : TEXT_MAX), argv[2].p);
}

void debug_log(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)c;
    (void)argc;
    log_line(LOG_WARNING_LEVEL, "DEBUG LOG: %.*s", (int)(argv[2].size < TEXT_MAX ? argv[2].size : TEXT_MAX), argv[2].p);
    reply_ok(r);
}

void debug_segfault(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)c;
    (void)argv;
    (void)argc;
    (void)r;
    raise(SIGSEGV);
}

void debug_panic(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)c;
    (void)argv;
    (void)argc;
    (void)r;
    log_line(LOG_WARNING_LEVEL, "called by DEBUG PANIC");
    abort();
}

/* ---- the rest ---- */

/* A limit of list nodes, where there are lists: the value is checked. */
void debug_packed_threshold(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    char text[32], *end;
    (void)c;
    (void)argc;
    size_t n = argv[2].size < sizeof text - 1 ? argv[2].size : sizeof text - 1;
    memcpy(text, argv[2].p, n);
    text[n] = 0;
    uint64_t v = strtoull(text, &end, 10);
    for (size_t i = 0; end[i]; i++) end[i] = (char)tolower((unsigned char)end[i]);
    uint64_t unit = !*end || !strcmp(end, "b") ? 1
        : !strcmp(end, "k")                    ? 1000
        : !strcmp(end, "kb")                   ? 1 << 10
        : !strcmp(end, "m")                    ? 1000000
        : !strcmp(end, "mb")                   ? 1 << 20
        : !strcmp(end, "g")                    ? 1000000000
        : !strcmp(end, "gb")                   ? 1 << 30
                                               : 0;
    if (end == text || !isdigit((unsigned char)*text) || !unit || v > UINT32_MAX || v * unit > UINT32_MAX)
        reply_error(r, "ERR argument must be a memory value bigger than 1 and smaller than 4gb");
    else reply_ok(r);
}

void debug_change_repl_id(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)c;
    (void)argv;
    (void)argc;
    replication_change_id();
    reply_ok(r);
}

/* DEBUG STRINGMATCH-LEN pattern text. */
void debug_stringmatch(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)c;
    (void)argc;
    reply_int(r, glob_match(argv[2].p, argv[2].size, argv[3].p, argv[3].size, false, NULL));
}

/* A switch of something that is not there, so that off is as good as on. */
void debug_accepted(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)c;
    (void)argv;
    (void)argc;
    reply_ok(r);
}

void debug_senseless(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)c;
    (void)argc;
    reply_errorf(r, "ERR DEBUG %.*s makes no sense here: there is no append log and no replication yet",
        (int)(argv[1].size < 64 ? argv[1].size : 64), argv[1].p);
}
