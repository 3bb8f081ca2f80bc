/* The parser: see reply.h. Whole strings and statuses are read at once; whatever is cut off or nested goes byte by byte through its state. */
#include "tools/darter-bench/reply.h"

#include <string.h>

/* ---- the slow way, which knows everything ---- */

/* One element is over. True: so is the reply. */
static bool end_element(struct reply_parser *r) {
    r->state = REPLY_AT_TYPE;
    while (r->depth) {
        if (--r->left[r->depth - 1]) return false;
        r->depth--;
        if (!(r->attributes >> r->depth & 1)) continue;
        r->attributes &= ~(1u << r->depth); /* an attribute stands before an element, and is none */
        return false;
    }
    return true;
}

/* The kind that an element at the top gives the reply. */
static bool start_element(struct reply_parser *r, char type) {
    static const char types[] = "+-:$*_#,(!=%~>|";
    if (!type || !strchr(types, type)) return false;
    r->type = type;
    r->state = REPLY_IN_LINE;
    r->line = 0;
    r->number = 0;
    r->negative = r->has_number = r->keeps_text = false;
    if (r->depth) return true;
    switch (type) {
    case '$':
    case '=':
    case '*':
    case '%':
    case '~': r->kind = REPLY_VALUE; break;
    case '_': r->kind = REPLY_NIL; break;
    case '>': r->kind = REPLY_PUSH; break;
    case '-':
    case '!':
        r->kind = REPLY_ERROR;
        r->keeps_text = type == '-';
        r->text_size = 0;
        break;
    default: r->kind = REPLY_STATUS; break;
    }
    return true;
}

static void keep_text(struct reply_parser *r, const char *bytes, size_t n) {
    size_t room = sizeof r->text - r->text_size;
    if (n > room) n = room;
    memcpy(r->text + r->text_size, bytes, n);
    r->text_size += (uint32_t)n;
}

static bool is_counted(char type) {
    return type == '$' || type == '=' || type == '!' || type == '*' || type == '%' || type == '~' || type == '>' || type == '|';
}

/* A byte of a line that announces a length or a count. */
static bool take_digit(struct reply_parser *r, char c) {
    if (c == '-' && r->line == 1) {
        r->negative = true;
        return true;
    }
    if (c < '0' || c > '9' || r->number > UINT64_MAX / 100) return false;
    r->number = r->number * 10 + (uint64_t)(c - '0');
    r->has_number = true;
    return true;
}

/* The line is over. */
static enum reply_result end_line(struct reply_parser *r) {
    if (!is_counted(r->type)) return end_element(r) ? REPLY_WHOLE : REPLY_MORE;
    if (!r->has_number) return REPLY_BROKEN;
    bool string = r->type == '$' || r->type == '=' || r->type == '!';
    if (r->negative) { /* -1: the nil of RESP2 */
        if (r->number != 1 || (r->type != '$' && r->type != '*')) return REPLY_BROKEN;
        if (!r->depth) r->kind = REPLY_NIL;
        return end_element(r) ? REPLY_WHOLE : REPLY_MORE;
    }
    if (string) {
        r->keeps_text = r->type == '!' && !r->depth;
        r->ended = 0;
        r->state = r->number ? REPLY_IN_BULK : REPLY_AT_BULK_END;
        return REPLY_MORE;
    }
    bool attribute = r->type == '|';
    uint64_t elements = r->type == '%' || attribute ? r->number * 2 : r->number;
    r->state = REPLY_AT_TYPE;
    if (!elements) return !attribute && end_element(r) ? REPLY_WHOLE : REPLY_MORE;
    if (r->depth == REPLY_DEPTH_MAX) return REPLY_BROKEN;
    if (attribute) r->attributes |= 1u << r->depth;
    r->left[r->depth++] = elements;
    return REPLY_MORE;
}

static enum reply_result take_line(struct reply_parser *r, const char *data, size_t *at, size_t size) {
    bool counted = is_counted(r->type);
    while (*at < size) {
        char c = data[(*at)++];
        if (++r->line > REPLY_LINE_MAX) return REPLY_BROKEN;
        if (c == '\n') return end_line(r);
        if (c == '\r') continue;
        if (counted && !take_digit(r, c)) return REPLY_BROKEN;
        if (r->keeps_text) keep_text(r, &c, 1);
    }
    return REPLY_MORE;
}

static void take_bulk(struct reply_parser *r, const char *data, size_t *at, size_t size) {
    size_t n = size - *at < r->number ? size - *at : (size_t)r->number;
    if (r->keeps_text) keep_text(r, data + *at, n);
    *at += n;
    r->number -= n;
    if (!r->number) r->state = REPLY_AT_BULK_END;
}

static enum reply_result read_slowly(struct reply_parser *r, const char *data, size_t *at, size_t size) {
    while (*at < size) {
        enum reply_result result = REPLY_MORE;
        switch ((enum reply_state)r->state) {
        case REPLY_AT_TYPE:
            if (!start_element(r, data[(*at)++])) return REPLY_BROKEN;
            break;
        case REPLY_IN_LINE: result = take_line(r, data, at, size); break;
        case REPLY_IN_BULK: take_bulk(r, data, at, size); break;
        case REPLY_AT_BULK_END:
            if (data[(*at)++] != "\r\n"[r->ended++]) return REPLY_BROKEN;
            if (r->ended == 2 && end_element(r)) return REPLY_WHOLE;
            break;
        }
        if (result != REPLY_MORE) return result;
    }
    return REPLY_MORE;
}

/* ---- the quick way: what is nearly always there ---- */

/* A nil, a string of up to 9 digits of length, or a status or number of a short line, that lies in data as a whole. */
static bool read_quickly(struct reply_parser *r, const char *data, size_t *at, size_t size) {
    const char *p = data + *at, *end = data + size;
    if (end - p < 4) return false;
    if (*p == '$') {
        uint32_t length = 0;
        const char *digits = ++p;
        if (end - p >= 4 && !memcmp(p, "-1\r\n", 4)) {
            *at = (size_t)(p + 4 - data);
            r->kind = REPLY_NIL;
            return true;
        }
        for (; p < end && *p >= '0' && *p <= '9'; p++) length = length * 10 + (uint32_t)(*p - '0');
        if (p == digits || p - digits > 9 || (size_t)(end - p) < length + (size_t)4) return false;
        if (p[0] != '\r' || p[1] != '\n' || p[2 + length] != '\r' || p[3 + length] != '\n') return false;
        *at = (size_t)(p - data) + length + 4;
        r->kind = REPLY_VALUE;
        return true;
    }
    if (*p != '+' && *p != ':') return false;
    const char *newline = memchr(p, '\n', (size_t)(end - p) < 64 ? (size_t)(end - p) : 64);
    if (!newline) return false;
    *at = (size_t)(newline + 1 - data);
    r->kind = REPLY_STATUS;
    return true;
}

enum reply_result reply_read(struct reply_parser *r, const char *data, size_t *at, size_t size) {
    if (r->state == REPLY_AT_TYPE && !r->depth && read_quickly(r, data, at, size)) return REPLY_WHOLE;
    return read_slowly(r, data, at, size);
}
