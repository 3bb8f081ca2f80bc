/* MEMORY: what keys cost, and where the server's memory is. */
#ifndef SERVER_MEMORY_COMMANDS_H
#define SERVER_MEMORY_COMMANDS_H

#include "server/command.h"

extern const struct command memory_subcommands[];
extern const char *const memory_help[];

#endif
