/* The RESP parser of requests: multibulk and inline, from bytes that may end anywhere.
 *
 * Arguments are left where they lie and named by thread.argv. A large command that is not whole keeps what was parsed in conn.partial, so no
 * byte is looked at twice however the packets are cut; a large argument is received straight into a blob.
 */
#ifndef SERVER_PARSE_H
#define SERVER_PARSE_H

#include "server/conn.h"

enum parse_result {
    PARSE_COMMAND, /* thread.argv[0..argc) */
    PARSE_NOTHING, /* an empty line or *0: skip it */
    PARSE_MORE,    /* not whole yet */
    PARSE_BAD,     /* a protocol error: *error says which; the connection can't go on */
    PARSE_NO_MEMORY,
};

/* Parses the command at p (the start of a command, or of one whose parsed part is in c->partial). *next: behind it. */
enum parse_result parse(
    struct thread *t, struct conn *c, const char *p, const char *end, const char **next, uint32_t *argc, const char **error);
/* The blob that was being received is whole: it becomes the next argument. False: no memory. */
bool partial_blob_done(struct partial *k);
/* Drops what was parsed of a command, with its blobs. */
void partial_drop(struct conn *c);
/* Its arguments are the command's now: what they were kept in goes. Legal if there is such a part. */
void partial_free(struct conn *c);

#endif
