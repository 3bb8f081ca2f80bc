/* DEBUG's subcommands that need no shard: replies of every type, errors, the end in several ways, and what can't be had. */
#ifndef SERVER_DEBUG_REPLIES_H
#define SERVER_DEBUG_REPLIES_H

#include "server/command.h"

connection_fn debug_protocol, debug_error, debug_log, debug_segfault, debug_panic, debug_packed_threshold, debug_change_repl_id,
    debug_stringmatch, debug_accepted, debug_senseless;

#endif
