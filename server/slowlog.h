/* SLOWLOG: the slow commands that the threads keep (slow.h), as one log: newest first, no longer than slowlog-max-len in all. */
#ifndef SERVER_SLOWLOG_H
#define SERVER_SLOWLOG_H

#include "server/command.h"

extern const struct command slowlog_subcommands[];
extern const char *const slowlog_help[];

#endif
