/* The log: one line an event to standard error, in Redis' shape (pid:role time mark text). Any thread. */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

enum log_level { LOG_DEBUG_LEVEL, LOG_VERBOSE_LEVEL, LOG_NOTICE_LEVEL, LOG_WARNING_LEVEL };

void log_set_level(enum log_level level);
void log_line(enum log_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
