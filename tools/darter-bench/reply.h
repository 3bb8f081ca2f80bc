/* Reads replies: RESP2 and RESP3, nested to any shape, in pieces of any size, and without copying what they hold.
 *
 * A parser belongs to one connection. It keeps only where it stands: how many bytes of a string are still to come, how many elements of
 * each open array, and the part of a line that was cut off. Nothing is allocated.
 *
 *   states:  TYPE -> LINE -> (VALUE | BULK | BULK_END) -> TYPE of the next element, or the reply is whole
 */
#ifndef TOOLS_DARTER_BENCH_REPLY_H
#define TOOLS_DARTER_BENCH_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { REPLY_DEPTH_MAX = 32, REPLY_LINE_MAX = 64 * 1024, REPLY_TEXT_MAX = 256 };

/* What the whole of a reply was. */
enum reply_kind {
    REPLY_STATUS, /* +OK, a number, a boolean: neither hit nor miss */
    REPLY_VALUE,  /* a string, or an array, map or set: a hit */
    REPLY_NIL,    /* $-1, *-1, _ : a miss */
    REPLY_ERROR,  /* -ERR ..., !... : its text is in parser.text */
    REPLY_PUSH,   /* > : belongs to no request */
};

enum reply_state { REPLY_AT_TYPE, REPLY_IN_LINE, REPLY_IN_BULK, REPLY_AT_BULK_END };

struct reply_parser {
    uint8_t state;             /* enum reply_state */
    uint8_t kind;              /* enum reply_kind, of the reply that is being read */
    char type;                 /* the element's first byte */
    bool keeps_text;           /* the element's bytes are kept: it is an error at the top */
    bool negative, has_number; /* of the line's number */
    uint8_t depth;             /* open aggregates */
    uint8_t ended;             /* bytes of "\r\n" seen after a bulk */
    uint32_t attributes;       /* bit n: the open aggregate n is an attribute */
    uint32_t line;             /* bytes of this line so far */
    uint32_t text_size;
    uint64_t number;                /* the line's number; then what is left of a bulk */
    uint64_t left[REPLY_DEPTH_MAX]; /* elements still to come of each open aggregate */
    char text[REPLY_TEXT_MAX];      /* the beginning of an error's text */
};

enum reply_result { REPLY_WHOLE, REPLY_MORE, REPLY_BROKEN };

/* Takes bytes from data[*at, size) and moves *at on. REPLY_WHOLE: kind tells what it was, and the rest is for the next call. REPLY_MORE: all bytes
 * are taken, and the reply is not at its end. REPLY_BROKEN: this is no RESP. A parser starts as zeros. */
enum reply_result reply_read(struct reply_parser *r, const char *data, size_t *at, size_t size);

#endif
