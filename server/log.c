#include "server/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static _Atomic int least = LOG_NOTICE_LEVEL;

void log_set_level(enum log_level level) { atomic_store_explicit(&least, (int)level, memory_order_relaxed); }

void log_line(enum log_level level, const char *format, ...) {
    if ((int)level < atomic_load_explicit(&least, memory_order_relaxed)) return;
    char line[1024];
    struct timespec now;
    struct tm day;
    clock_gettime(CLOCK_REALTIME, &now);
    localtime_r(&now.tv_sec, &day);
    size_t n = (size_t)snprintf(line, sizeof line, "%d:M ", (int)getpid());
    n += strftime(line + n, sizeof line - n, "%d %b %Y %H:%M:%S", &day);
    n += (size_t)snprintf(line + n, sizeof line - n, ".%03d %c ", (int)(now.tv_nsec / 1000000), ".-*#"[level]);
    va_list args;
    va_start(args, format);
    int text = vsnprintf(line + n, sizeof line - n - 1, format, args);
    va_end(args);
    n = text < 0 ? n : n + (size_t)text < sizeof line - 1 ? n + (size_t)text : sizeof line - 2;
    line[n++] = '\n';
    if (write(STDERR_FILENO, line, n) < 0) return;      /* nobody is left to tell */
}
