/* The clocks. Any thread; each call costs about 25 ns where the vDSO serves it (thread_cpu_ns is a system call). */
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

/* The CPU's own counter: about 8 ns a call, of no fixed unit. Only differences on one thread mean something; how many ns a unit is, is
 * measured beside CLOCK_MONOTONIC by whoever shows them. */
static inline uint64_t cycles_now(void) {
#if defined(__x86_64__)
    return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
    uint64_t v;
    __asm__ volatile("mrs %0, cntvct_el0" : "=r"(v));
    return v;
#else
    return now_monotonic_ns();
#endif
}

#endif
