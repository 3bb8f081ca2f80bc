/* BITOP over values of any size, for steps.c. */
#ifndef SERVER_BITMAPS_H
#define SERVER_BITMAPS_H

#include "server/command.h"

steps_fn bitop_steps;

#endif
