/* COMMAND and its subcommands: the command table, as clients see it. */
#ifndef SERVER_INTROSPECT_H
#define SERVER_INTROSPECT_H

#include "server/command.h"

extern const struct command introspect_subcommands[];
extern const char *const introspect_help[];
connection_fn introspect_all;

/* The row that clients are told of instead of this one: of DEBUG's subcommands they know nothing. */
const struct command *introspect_shown(const struct command *row);
/* The row of such a name, or NULL. */
const struct command *introspect_row_named(const struct arg *name);
/* Replies the names of a key specification's flags, as a set. */
void introspect_key_flags(struct reply *r, uint16_t flags);
/* How many subcommands clients are told of. */
size_t introspect_subcommand_count(const struct command *row);

#endif
