/* DEBUG POPULATE: each shard makes its own keys, in slices and groups of them, through the funnel like any other key. */
#ifndef SERVER_DEBUG_POPULATE_H
#define SERVER_DEBUG_POPULATE_H

#include "shard/hop.h"

hop_fn debug_populate;

#endif
