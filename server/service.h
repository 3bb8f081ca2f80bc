/* How the process stands in the system: the background, its pidfile, who supervises it, sockets it was handed, its place before the OOM killer.
 *
 * Main thread, before others start and after they have ended; service_notify() is for the main thread at any time.
 */
#ifndef SERVER_SERVICE_H
#define SERVER_SERVICE_H

#include <stdbool.h>
#include <stdint.h>

/* Values of `supervised`, in the order of its row in the table of directives. */
enum supervised { SUPERVISED_UPSTART, SUPERVISED_SYSTEMD, SUPERVISED_AUTO, SUPERVISED_NO };

/* Values of `oom-score-adj`, likewise. */
enum oom_score_adj { OOM_NO, OOM_YES, OOM_RELATIVE, OOM_ABSOLUTE };

/* Socket activation (sd_listen_fds): the listening stream sockets that were handed to this process, at most `most`. What is handed over and is no
 * such socket is logged and closed. Before service_daemonize(). Returns how many. */
uint32_t service_sockets(int *fds, uint32_t most);

/* Finds out who supervises us and tells him that we start. True: somebody does, so the process must stay in the foreground. */
bool service_supervise(int supervised);
/* For INFO: "no", "systemd" or "upstart". */
const char *service_supervisor(void);

/* Goes into the background, before any thread exists. The process that was started stays until service_ready() or the end of the new one, and its
 * status tells which. Returns in the new process: 0, or a negative errno if there is none. */
int service_daemonize(void);

/* Connections are accepted: tells whoever waits for it. */
void service_ready(void);
/* The end begins. */
void service_stopping(void);
/* Sends lines of the notification protocol to systemd, if it supervises us. */
void service_notify(const char *lines);
/* The watchdog's period that systemd asks for, in us; 0: none. */
uint64_t service_watchdog_us(void);

/* Writes the process id into the file; a failure is logged. Removed by service_pidfile_remove(), and in a crash. */
void service_pidfile(const char *file);
void service_pidfile_remove(void);

/* Sets /proc/self/oom_score_adj: `mode`, and the value for this role. Called again, it starts from what stood there first. Any thread, one at a time. */
void service_oom_score(int mode, int value);

#endif
