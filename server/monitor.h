/* MONITOR: every command that is dispatched, on any thread, as a line to the connections that asked for it.
 *
 * Each thread knows how many monitors each other thread has (thread.monitors); nothing is done while there are none (one branch a command).
 * Lines for a thread gather in a text that is sent to it once a tick, as a message; that thread appends it to its monitors' outputs. So lines
 * of one connection are in order, and those of different threads nearly so. A monitor that does not read is closed by the output limit
 * of replicas. What is secret (passwords) is not shown.
 *
 *   a connection:  nobody --MONITOR: all threads know (+1)--> in thread.monitors --RESET, or removed: all are told (-1)--> nobody
 */
#ifndef SERVER_MONITOR_H
#define SERVER_MONITOR_H

#include "server/command.h"

struct thread;
struct monitors;

/* What a thread knows of monitors. NULL: no memory. */
struct monitors *monitors_new(uint32_t n_threads);
void monitors_drop(struct monitors *m);

/* thread.monitored is set: a command was taken for dispatch. */
void monitor_feed(struct thread *t, struct conn *c, const struct command *row, const struct arg *argv, uint32_t argc);
/* Sends what was gathered in this tick; before waking. */
void monitor_publish(struct thread *t);
/* A text from another thread (MESSAGE_MONITOR), or word that a monitor went (MESSAGE_MONITOR_LEFT). */
struct message;
void monitor_message(struct thread *t, struct message *m);
/* The connection monitors no longer (nothing happens if it did not). */
void monitor_leave(struct thread *t, struct conn *c);

/* MONITOR: pieces and merge. */
hop_fn monitor_piece;
merge_fn monitor_merge;

/* Whether the ith argument must not be shown: passwords of AUTH, HELLO, CONFIG SET. */
bool secret_argument(const struct command *row, const struct arg *argv, uint32_t argc, uint32_t i);

#endif
