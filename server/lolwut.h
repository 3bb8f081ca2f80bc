/* LOLWUT: a picture, and the version. */
#ifndef SERVER_LOLWUT_H
#define SERVER_LOLWUT_H

#include "server/command.h"

connection_fn lolwut_command;

#endif
