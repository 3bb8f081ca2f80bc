/* A reply: RESP values appended to a growing byte string, with large values referred to instead of copied.
 *
 * Written by one thread at a time: on a connection's thread it is the connection's output, on a shard the replies of a batch. The
 * protocol version (2 or 3) is set before each command and decides how maps, sets, nulls and doubles look.
 *
 *   bytes:  $5\r\nhello\r\n  $20000\r\n ^ \r\n  :1\r\n
 *                                       |
 *   refs:                               at this offset: a blob's bytes, sent from where they lie
 *
 * If memory is refused, failed is set and the rest is dropped: the connection is closed, as its stream can't go on.
 */
#ifndef SERVER_REPLY_H
#define SERVER_REPLY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "shard/blob.h"

struct memory;
struct shard;
struct reply_ref {
    size_t at;
    struct blob *blob;
    size_t start, size;
};

struct reply {
    char *p;
    size_t size, capacity; /* bytes */
    uint8_t resp;          /* 2 or 3 */
    bool failed;
    uint32_t n_refs, refs_capacity;
    struct reply_ref *refs;
    size_t refs_bytes; /* bytes behind refs */
};

/* Frees the bytes (refs must have been handed back). */
void reply_drop(struct reply *r);
bool reply_grow(struct reply *r, size_t more);

/* Room for n more bytes at p + size, or NULL (failed). */
static inline char *reply_room(struct reply *r, size_t n) {
    if (__builtin_expect(r->size + n > r->capacity, 0) && !reply_grow(r, n)) return NULL;
    return r->p + r->size;
}
static inline void reply_bytes(struct reply *r, const char *p, size_t n) {
    if (!n) return;
    char *to = reply_room(r, n);
    if (!to) return;
    memcpy(to, p, n);
    r->size += n;
}
#define REPLY_LITERAL(r, s) reply_bytes((r), (s), sizeof(s) - 1)

static inline void reply_ok(struct reply *r) { REPLY_LITERAL(r, "+OK\r\n"); }
void reply_status(struct reply *r, const char *text); /* +text */
/* An error. text includes its code ("ERR ...", "WRONGTYPE ..."); newlines in it become spaces. */
void reply_error(struct reply *r, const char *text);
void reply_errorf(struct reply *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
void reply_int(struct reply *r, int64_t v);
void reply_bulk(struct reply *r, const char *p, size_t size);
void reply_bulk_text(struct reply *r, const char *text); /* up to its NUL */
void reply_bulk_int(struct reply *r, int64_t v);         /* as a bulk of decimal digits */
/* Bytes [start, start + size) of a blob, as a bulk; counts a reference if it is worth it, so only on the blob's shard. */
void reply_bulk_blob(struct reply *r, struct blob *b, size_t start, size_t size);
/* All of a blob, as a bulk, with a reference that the caller has: on any thread. False: that was not taken (failed). */
bool reply_lent_blob(struct reply *r, struct blob *b);
/* A bulk of what a container stores (as packed_text and its kin told it): a long one is a blob's, which is referred to. Only on the container's shard. */
void reply_stored_large(struct reply *r, const char *text, uint32_t size);
static inline void reply_stored(struct reply *r, const char *text, uint32_t size) {
    if (__builtin_expect(size < BLOB_SHARE_MIN, 1)) reply_bulk(r, text, size);
    else reply_stored_large(r, text, size);
}
/* Takes over a reference that goes back to the blob's shard when the reply is dropped; nothing of it is sent. Only of a piece's reply. */
void reply_hold_blob(struct reply *r, struct blob *b);
void reply_null(struct reply *r);            /* $-1 or _ */
void reply_null_array(struct reply *r);      /* *-1 or _ */
void reply_array(struct reply *r, size_t n); /* n values follow */
void reply_map(struct reply *r, size_t n);   /* n pairs follow; RESP2: an array of 2n */
void reply_set(struct reply *r, size_t n);
void reply_push(struct reply *r, size_t n);
void reply_double(struct reply *r, double v);
void reply_bool(struct reply *r, bool v);                                            /* RESP2: :1 or :0 */
void reply_verbatim(struct reply *r, const char *kind3, const char *p, size_t size); /* RESP2: a bulk */

/* The same in parts: then size bytes follow, and a newline. */
void reply_verbatim_begin(struct reply *r, const char *kind3, size_t size);

/* Errors that many commands give. */
void reply_wrong_type(struct reply *r);
void reply_syntax_error(struct reply *r);
void reply_not_integer(struct reply *r);
void reply_no_memory(struct reply *r);

/* Appends [start, end) of another reply's bytes, and the refs that lie in there (they move). */
void reply_take(struct reply *to, struct reply *from, size_t start, size_t end);
/* The same where it is known which refs those are: [ref, ref_end) of from's. O(bytes, and they). The first function is a part of it: the bytes are at base by now. */
void reply_take_refs(struct reply *to, size_t base, struct reply *from, size_t start, size_t end, uint32_t ref, uint32_t ref_end);
static inline void reply_take_value(struct reply *to, struct reply *from, size_t start, size_t end, uint32_t ref, uint32_t ref_end) {
    size_t base = to->size;
    reply_bytes(to, from->p + start, end - start);
    if (__builtin_expect(ref != ref_end, 0)) reply_take_refs(to, base, from, start, end, ref, ref_end);
}

/* What a plain hop replies in one go, bytes. One that would reply more takes back what it replied (reply_cut), and goes on in slices. */
#define REPLY_GO_BYTES ((size_t)256 << 10)

/* Appends all of `from`, whose references are of the shard with this memory, which is held; and drops it. */
void reply_join(struct memory *m, struct reply *to, struct reply *from);

/* Shortens r to this size, where a value ended, and gives the references behind that back to the shard s, which is held. */
void reply_cut(struct shard *s, struct reply *r, size_t size);

#endif
