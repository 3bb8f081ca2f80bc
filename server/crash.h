/* What is written when the process dies by a fault of its own: SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT, a failed assertion.
 *
 * To the log and to standard error: version, signal, address, the thread's number or name, the command that ran on it (its name, never an argument) and a
 * backtrace. Then the signal takes its default action, so core dumps work as ever. A handler runs on a stack of its own, so that an overflow is
 * told too. In builds with sanitizers their own reports come instead.
 *
 * The same handler serves the watchdog: SIGALRM sent to a thread writes that thread's backtrace.
 */
#ifndef SERVER_CRASH_H
#define SERVER_CRASH_H

#include <pthread.h>
#include <stdbool.h>

struct thread;

/* Main thread, once, before others start. report false (crash-log-enabled no): only what the watchdog needs. */
void crash_start(bool report);
/* On each thread at its start; t NULL: it serves nobody, and its report tells its name. */
void crash_thread_start(const struct thread *t);
/* A file to be removed when the process crashes (the pidfile); must stay valid. */
void crash_remove_file(const char *path);
/* Makes a thread write where it is. */
void crash_show_stack(pthread_t thread);

#endif
