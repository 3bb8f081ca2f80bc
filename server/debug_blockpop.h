/* DEBUG BLOCKPOP timeout key [key ...]: BLPOP on strings, to try what waits for keys: takes away the first of its keys that is there, as GETDEL does. */
#ifndef SERVER_DEBUG_BLOCKPOP_H
#define SERVER_DEBUG_BLOCKPOP_H

#include "server/waiting.h"

extern const struct blocking debug_blockpop;

#endif
