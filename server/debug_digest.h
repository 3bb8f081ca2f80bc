/* DEBUG DIGEST and DIGEST-VALUE: checksums of all data and of values, the same that Redis 7.0 has of them, so that data can be compared between servers. */
#ifndef SERVER_DEBUG_DIGEST_H
#define SERVER_DEBUG_DIGEST_H

#include "server/command.h"

/* Of all keys of all databases, at one moment: everything stands still meanwhile, 1.6 us a key of a few bytes. */
spread_fn debug_digest;
/* Of the values of some keys. */
hop_fn debug_digest_value;

#endif
