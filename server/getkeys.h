/* COMMAND GETKEYS and GETKEYSANDFLAGS: the keys of a command, by its row's key specifications. */
#ifndef SERVER_GETKEYS_H
#define SERVER_GETKEYS_H

#include "server/command.h"

connection_fn getkeys_command, getkeysandflags_command;

#endif
