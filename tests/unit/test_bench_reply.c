/* The load tool's reply parser: every shape, in one piece and cut everywhere. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/darter-bench/reply.h"

static const struct {
    const char *bytes;
    enum reply_kind kind;
} replies[] = {
    {"+OK\r\n", REPLY_STATUS},
    {"+\r\n", REPLY_STATUS},
    {":0\r\n", REPLY_STATUS},
    {":-9223372036854775808\r\n", REPLY_STATUS},
    {"#t\r\n", REPLY_STATUS},
    {",-1.5e300\r\n", REPLY_STATUS},
    {",inf\r\n", REPLY_STATUS},
    {"(3492890328409238509324850943850943825024385\r\n", REPLY_STATUS},
    {"$0\r\n\r\n", REPLY_VALUE},
    {"$5\r\nhello\r\n", REPLY_VALUE},
    {"$16\r\n0123456789abcdef\r\n", REPLY_VALUE},
    {"$4\r\n\r\n\r\n\r\n", REPLY_VALUE},
    {"$6\r\n$1\r\nx\n\r\n", REPLY_VALUE},
    {"=9\r\ntxt:hello\r\n", REPLY_VALUE},
    {"$-1\r\n", REPLY_NIL},
    {"*-1\r\n", REPLY_NIL},
    {"_\r\n", REPLY_NIL},
    {"*0\r\n", REPLY_VALUE},
    {"%0\r\n", REPLY_VALUE},
    {"~0\r\n", REPLY_VALUE},
    {"*3\r\n$1\r\na\r\n$-1\r\n:7\r\n", REPLY_VALUE},
    {"*2\r\n*2\r\n*0\r\n*-1\r\n*1\r\n*1\r\n-ERR inside\r\n", REPLY_VALUE},
    {"%2\r\n+a\r\n:1\r\n+b\r\n*2\r\n_\r\n#f\r\n", REPLY_VALUE},
    {"~2\r\n$1\r\nx\r\n,1.5\r\n", REPLY_VALUE},
    {"*2\r\n!5\r\nERR x\r\n%1\r\n+k\r\n!0\r\n\r\n", REPLY_VALUE},
    {">3\r\n$10\r\ninvalidate\r\n*1\r\n$1\r\nk\r\n_\r\n", REPLY_PUSH},
    {"|1\r\n+ttl\r\n:3600\r\n$1\r\nv\r\n", REPLY_VALUE},
    {"|1\r\n+ttl\r\n*2\r\n:1\r\n|1\r\n+a\r\n+b\r\n:2\r\n-ERR after it\r\n", REPLY_ERROR},
    {"|0\r\n$-1\r\n", REPLY_NIL},
    {"*2\r\n|1\r\n+a\r\n+b\r\n:1\r\n:2\r\n", REPLY_VALUE},
    {"-ERR unknown command\r\n", REPLY_ERROR},
    {"-WRONGTYPE x\r\n", REPLY_ERROR},
    {"!21\r\nSYNTAX invalid syntax\r\n", REPLY_ERROR},
};

enum { REPLIES = sizeof replies / sizeof *replies };

static void reads_every_shape_cut_anywhere(void **state) {
    (void)state;
    for (size_t i = 0; i < REPLIES; i++) {
        size_t size = strlen(replies[i].bytes);
        for (size_t cut = 1; cut <= size; cut++) {
            struct reply_parser r = {0};
            for (int times = 0; times < 2; times++) { /* nothing is left over from the first */
                size_t at = 0;
                if (cut < size) assert_int_equal(reply_read(&r, replies[i].bytes, &at, cut), REPLY_MORE);
                if (cut < size) assert_int_equal(at, cut);
                if (reply_read(&r, replies[i].bytes, &at, size) != REPLY_WHOLE) fail_msg("reply %zu, cut at %zu", i, cut);
                assert_int_equal(at, size);
                assert_int_equal(r.kind, replies[i].kind);
            }
        }
    }
}

static void reads_byte_by_byte(void **state) {
    (void)state;
    struct reply_parser r = {0};
    for (size_t i = 0; i < REPLIES; i++) {
        size_t size = strlen(replies[i].bytes), at = 0;
        for (size_t n = 1; n < size; n++) assert_int_equal(reply_read(&r, replies[i].bytes, &at, n), REPLY_MORE);
        assert_int_equal(reply_read(&r, replies[i].bytes, &at, size), REPLY_WHOLE);
        assert_int_equal(r.kind, replies[i].kind);
    }
}

/* All of them in a row, delivered in pieces of each size. */
static void reads_a_stream_in_pieces_of_any_size(void **state) {
    (void)state;
    char stream[4096] = "";
    for (size_t i = 0; i < REPLIES; i++) strcat(stream, replies[i].bytes);
    size_t size = strlen(stream);
    for (size_t piece = 1; piece <= size; piece++) {
        struct reply_parser r = {0};
        size_t seen = 0;
        for (size_t from = 0; from < size; from += piece) {
            size_t n = size - from < piece ? size - from : piece;
            char *part = malloc(n); /* of its own, so that reading beyond it is found */
            memcpy(part, stream + from, n);
            for (size_t at = 0; at < n;) {
                enum reply_result result = reply_read(&r, part, &at, n);
                assert_int_not_equal(result, REPLY_BROKEN);
                if (result == REPLY_WHOLE) assert_int_equal(r.kind, replies[seen++].kind);
            }
            free(part);
        }
        assert_int_equal(seen, REPLIES);
    }
}

static void keeps_the_text_of_errors(void **state) {
    (void)state;
    static const struct {
        const char *bytes, *text;
    } errors[] = {{"-ERR no such key\r\n", "ERR no such key"}, {"!9\r\nOOM x\r\ny \r\n", "OOM x\r\ny "}, {"-\r\n", ""}};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct reply_parser r = {0};
        size_t at = 0;
        assert_int_equal(reply_read(&r, errors[i].bytes, &at, strlen(errors[i].bytes)), REPLY_WHOLE);
        assert_int_equal(r.text_size, strlen(errors[i].text));
        assert_memory_equal(r.text, errors[i].text, r.text_size);
    }
    struct reply_parser r = {0};
    char large[2000] = "-";
    memset(large + 1, 'x', 1990);
    strcpy(large + 1991, "\r\n");
    size_t at = 0;
    assert_int_equal(reply_read(&r, large, &at, strlen(large)), REPLY_WHOLE);
    assert_int_equal(r.text_size, REPLY_TEXT_MAX);
}

static void says_what_is_no_reply(void **state) {
    (void)state;
    static const char *const broken[] = {"HTTP/1.1 400\r\n", "\r\n", "$x\r\n", "$\r\n", "$-2\r\nab\r\n", "$99999999999999999999\r\n",
        "*1\r\nx", "$1\r\nab\r\n", "$1\r\na\rb", "*-5\r\n", "%-1\r\n", "$1-\r\n", "*?\r\n", "$?\r\n;4\r\n"};
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        struct reply_parser r = {0};
        size_t at = 0;
        if (reply_read(&r, broken[i], &at, strlen(broken[i])) != REPLY_BROKEN) fail_msg("%zu is taken for a reply", i);
    }
}

static void bounds_depth_and_lines(void **state) {
    (void)state;
    struct reply_parser r = {0};
    char deep[REPLY_DEPTH_MAX * 4 + 8] = "";
    size_t at = 0;
    for (int i = 0; i < REPLY_DEPTH_MAX; i++) strcat(deep, "*1\r\n");
    strcat(deep, ":1\r\n");
    assert_int_equal(reply_read(&r, deep, &at, strlen(deep)), REPLY_WHOLE);
    strcpy(deep + REPLY_DEPTH_MAX * 4, "*1\r\n");
    at = 0;
    assert_int_equal(reply_read(&r, deep, &at, strlen(deep)), REPLY_BROKEN);
    static char line[REPLY_LINE_MAX + 2];
    memset(line, 'x', sizeof line);
    line[0] = '+';
    r = (struct reply_parser){0};
    at = 0;
    assert_int_equal(reply_read(&r, line, &at, sizeof line), REPLY_BROKEN);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(reads_every_shape_cut_anywhere),
        cmocka_unit_test(reads_byte_by_byte),
        cmocka_unit_test(reads_a_stream_in_pieces_of_any_size),
        cmocka_unit_test(keeps_the_text_of_errors),
        cmocka_unit_test(says_what_is_no_reply),
        cmocka_unit_test(bounds_depth_and_lines),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
