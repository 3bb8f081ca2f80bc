/* The end of the process waits for its other threads, but not for ever: one may hang at a disk. */
#ifndef SERVER_JOIN_H
#define SERVER_JOIN_H

#include <pthread.h>
#include <stdbool.h>
#include <time.h>

#define JOIN_MAX_MS 2000 /* that the end waits for one thread */

/* clang's thread sanitizer knows only the join by the clock that may be set: after the other one it reports a thread that nobody joined. */
#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define JOIN_CLOCK CLOCK_REALTIME
#define pthread_clockjoin_np(handle, result, clock, until) pthread_timedjoin_np(handle, result, until)
#endif
#endif
#ifndef JOIN_CLOCK
#define JOIN_CLOCK CLOCK_MONOTONIC
#endif

/* Waits for the end of a thread, JOIN_MAX_MS at most. False: it goes on, and must find all that it uses until the process is gone. */
static inline bool join_in_time(pthread_t handle) {
    struct timespec until;
    clock_gettime(JOIN_CLOCK, &until);
    until.tv_sec += JOIN_MAX_MS / 1000;
    return !pthread_clockjoin_np(handle, NULL, JOIN_CLOCK, &until);
}

#endif
