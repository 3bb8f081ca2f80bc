/* DEBUG, for tests and measurements; behind enable-debug-command. */
#ifndef SERVER_DEBUG_H
#define SERVER_DEBUG_H

#include "server/command.h"

extern const struct command debug_subcommands[];
extern const char *const debug_help[];

#endif
