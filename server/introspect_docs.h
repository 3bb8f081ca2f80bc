/* COMMAND DOCS: what rows (command.h) and facts (command_facts.h) say of commands, for people. */
#ifndef SERVER_INTROSPECT_DOCS_H
#define SERVER_INTROSPECT_DOCS_H

#include "server/command.h"

connection_fn docs_command;

#endif
