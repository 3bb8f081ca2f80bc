/* DEBUG SCHEDULE: the transactions under way, as the shards and as the coordinating threads see them. */
#ifndef SERVER_DEBUG_SCHEDULE_H
#define SERVER_DEBUG_SCHEDULE_H

#include "shard/hop.h"

/* On every thread: its shard's queue, then the transactions of its connections, a slice of these a call. */
hop_fn debug_schedule;

#endif
