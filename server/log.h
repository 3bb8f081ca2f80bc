/* The log: one line an event, in Redis' shape (pid:role time mark text), to standard error or a file, and to syslog if asked for.
 *
 * log_line() may be called on any thread. Until log_queue_start() a line is written at once. From then on it is put into a bounded queue without
 * a lock, and the main thread writes it (log_drain), so that a slow disk or a pipe that nobody reads never holds up a tick; the main thread's
 * eventfd is written once for what it has not seen yet. A line that finds the queue full is dropped, and their number is logged later.
 * One line is one write(), so lines do not interleave. Time is taken when the line is made, and made readable when it is written.
 */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include <stdbool.h>

enum log_level { LOG_DEBUG_LEVEL, LOG_VERBOSE_LEVEL, LOG_NOTICE_LEVEL, LOG_WARNING_LEVEL };

void log_set_level(enum log_level level);
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* At start, in the working directory that a relative path is meant from. file "": standard error. syslog_ident NULL: no syslog; facility: as of
 * syslog(3). Returns 0 or a negative errno: the file cannot be opened. */
int log_open(const char *file, const char *syslog_ident, int facility);

/* Main thread: opens the file anew (logrotate has renamed it). If that fails, the old file stays. */
void log_reopen(void);

/* Main thread, before other threads start: lines are queued from here on, and wake_fd (an eventfd) says so. */
void log_queue_start(int wake_fd);
/* Main thread: writes what is queued and can be written without waiting. Returns a descriptor to poll for writing before the next call, or -1. */
int log_drain(void);
/* Main thread, when other threads have ended: writes the rest (what cannot be written within a second is lost); lines are written at once again. */
void log_queue_stop(void);

/* For a signal handler: writes what is queued, as far as nobody else is about to; and the descriptor of the log. Async-signal-safe but for the
 * conversion of time. */
void log_crash_drain(void);
int log_fd(void);

#endif
