/* COMMAND and its subcommands: the command table, as clients see it. */
#ifndef SERVER_INTROSPECT_H
#define SERVER_INTROSPECT_H

#include "server/command.h"

extern const struct command introspect_subcommands[];
extern const char *const introspect_help[];
connection_fn introspect_all;

#endif
