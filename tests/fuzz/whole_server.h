/* A whole server inside the fuzzer's process, reached over a Unix socket: coverage then guides the fuzzer through parser, dispatch, hops and
 * commands alike. One server a process, started once; what an input leaves behind is flushed every now and then. */
#ifndef FUZZ_WHOLE_SERVER_H
#define FUZZ_WHOLE_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Starts the server with that back end ("uring", "epoll", "auto"), two threads, and low limits. Once. */
void whole_server_start(const char *io);

/* Sends bytes[0..size) on a connection of its own in pieces of piece bytes (0: at once), half-closes it, and reads until the server closes. Aborts if
 * what comes back is not a sequence of whole RESP values, or nothing comes for a minute; then it says why, what the threads do, and the input. */
void whole_server_exchange(const uint8_t *bytes, size_t size, size_t piece);

/* Before an exchange: this is the fuzzer's input, which a failure shows. False: it is to be passed over, since a command in it ends, blocks or fills the
 * server by design (SHUTDOWN, CLIENT PAUSE, DEBUG SLEEP, POPULATE, SEGFAULT, PANIC). */
bool whole_server_begin(const uint8_t *input, size_t size);

#endif
