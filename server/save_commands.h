/* SAVE, BGSAVE, LASTSAVE and SHUTDOWN. */
#ifndef SERVER_SAVE_COMMANDS_H
#define SERVER_SAVE_COMMANDS_H

#include "server/command.h"

connection_fn lastsave_command;
spread_fn bgsave_command;
course_fn save_command, shutdown_command;

#endif
