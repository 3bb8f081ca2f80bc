/* DEBUG RELOAD: saves, drops everything, and loads it again, while all shards stand still. */
#ifndef SERVER_DEBUG_RELOAD_H
#define SERVER_DEBUG_RELOAD_H

#include "server/command.h"

course_fn debug_reload;

#endif
