/* The watchdog: names a thread whose tick hangs, and tells systemd that the ticks go on.
 *
 * The main thread, which otherwise only waits for signals, looks now and then at each thread's turn: a thread that neither sleeps nor has begun
 * a new tick for `watchdog-period` ms is named in the log, once a hang, with its backtrace. With watchdog-period 0 and no watchdog of systemd
 * nothing is looked at and nothing wakes up.
 */
#ifndef SERVER_WATCHDOG_H
#define SERVER_WATCHDOG_H

#include <stdint.h>

/* Main thread, before others start. wake_fd: the main thread's eventfd. systemd_us: how often systemd wants to hear of us; 0: never. */
void watchdog_start(int wake_fd, uint64_t systemd_us);
/* Any thread: the period, in ms; 0: off. */
void watchdog_set(int64_t period_ms);
/* Main thread: looks, if it is time. Returns the ms until the next look, -1: none is needed. */
int watchdog_look(void);

#endif
