/* What a start needs of the machine: that it can open what the configuration names. */
#ifndef SERVER_CONFIG_TRY_H
#define SERVER_CONFIG_TRY_H

#include <stdbool.h>

#include "server/config.h"

/* Tries the addresses of bind (host names are looked up, which may take seconds), each with a port that is free, and looks whether the log file and the Unix socket can be made.
 * What would end a start is told on standard error, a line each, with `name` before it. False: something is wrong. Nothing is left: no file, no socket. */
bool config_try(const struct config *c, const char *name);

#endif
