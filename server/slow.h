/* The slow commands that a thread keeps for SLOWLOG (slowlog.c): a ring of the newest. On the thread t. */
#ifndef SERVER_SLOW_H
#define SERVER_SLOW_H

#include "server/measure.h"

struct arg;
struct command;
struct conn;
struct thread;

#define SLOW_ARGS 32u
#define SLOW_ARG_BYTES 128u

/* One slow command. Kept by the thread of its connection, newest first in a ring. */
struct slow {
    uint64_t id;
    int64_t at_s;
    uint64_t us;
    uint32_t argc;
    char *args[SLOW_ARGS];
    uint32_t sizes[SLOW_ARGS];
    char *peer, *name;
};

/* The slow log of a thread: room for so many entries; 0 empties it. Adding makes room by itself, up to `most`. */
void slow_resize(struct measure *m, uint32_t capacity);
void slow_add(
    struct measure *m, int64_t most, struct conn *c, const struct command *row, const struct arg *argv, uint32_t argc, uint64_t us);
/* A command of measure.slow_cycles or more: puts it into the slow log, tells the latency monitor. */
void log_slow(struct thread *t, struct conn *c, const struct command *row, const struct arg *argv, uint32_t argc, uint64_t cycles);

#endif
