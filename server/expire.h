/* Times that keys are given: the amounts in arguments, and the EXPIRE family. */
#ifndef SERVER_EXPIRE_H
#define SERVER_EXPIRE_H

#include "server/command.h"

enum time_unit { UNIT_MS, UNIT_S };

/* The amount of EX, PX, EXAT, PXAT, SETEX ... as a time: ms of the Unix epoch, never EXPIRY_NONE. relative: counts from now. False: the error was replied
 * (no number; or zero, negative, beyond what fits: "invalid expire time in 'command' command"). */
bool arg_expiry(const struct shard *s, const struct arg *amount, enum time_unit unit, bool relative, const char *command, int64_t *at_ms,
    struct reply *r);

#endif
