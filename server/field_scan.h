/* HSCAN and SSCAN: the cursor scan of one key's fields. */
#ifndef SERVER_FIELD_SCAN_H
#define SERVER_FIELD_SCAN_H

#include "server/command.h"
#include "shard/fields.h"

/* A cursor argument; the error is replied. */
bool scan_cursor(const struct arg *a, uint64_t *out, struct reply *r);
/* What is replied where there is nothing. */
void reply_empty_scan(struct reply *r);

/* MATCH and COUNT, from argv[3] on. */
struct scan_options {
    const char *pattern; /* NULL: everything */
    uint32_t pattern_size;
    int64_t count;
    int64_t live_from_ms; /* fields whose time is before it are skipped */
};
bool scan_options(const struct hop *h, struct scan_options *o, struct reply *r);
bool scan_matches(const struct scan_options *o, const char *text, uint32_t size);

/* The reply of a scan from this cursor; values: of each field its value too. */
void field_scan(const struct fields *f, uint64_t cursor, const struct scan_options *o, bool values, struct reply *r);

#endif
