/* The three clocks. Any thread; each call costs about 25 ns where the vDSO serves it (thread_cpu_ns is a system call). */
#ifndef IO_CLOCK_H
#define IO_CLOCK_H

#include <stdint.h>
#include <time.h>

/* CLOCK_MONOTONIC: for timeouts and deadlines. Never jumps. */
static inline uint64_t now_monotonic_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* The wall clock, ms since 1970: for expiry and for what people read. May jump. */
static inline int64_t now_realtime_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* CPU time of the calling thread: for bounding slices of work where other processes take the CPU away. */
static inline uint64_t thread_cpu_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

#endif
