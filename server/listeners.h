/* The listening sockets: opened at start, and others in their place when CONFIG SET changes port or bind.
 *
 * The change has two steps, so that it can be part of a CONFIG SET that fails: new sockets are opened beside the old ones, which goes wrong or not, and
 * then either the old ones or the new ones go. Both steps are the coordinator's, one at a time; thread 0 follows when it takes the new
 * configuration, which may be while the next change is made (an EXEC has several): it leaves alone what may yet be refused. A mutex is held
 * in each step.
 *
 *   states of a socket:  OPEN --listeners_change--> WANTED --listeners_follow--> ACCEPTING --listeners_change--> SHUT --listeners_follow--> closed
 *                        OPEN --listeners_keep, listeners_change--> closed;  WANTED --listeners_change--> closed
 */
#ifndef SERVER_LISTENERS_H
#define SERVER_LISTENERS_H

#include <stdbool.h>

struct config;
struct proactor;

/* Main thread, at start, before service_daemonize(): takes the sockets of a service manager, if it handed any over. */
void listeners_take_handed(void);
/* Main thread, at start: opens bind, port and unixsocket, and looks host names up for it, unless sockets were handed over. Returns 0, or 1: why is logged. */
int listeners_start(const struct config *c);
/* Main thread, after all others have ended: closes all, and removes the Unix socket. */
void listeners_end(void);

/* An address of bind, without its '-', in numbers; NULL: a host name that was not looked up. */
const char *listeners_numbers(const char *address);
/* The coordinator: the first host name among the addresses of c that was not looked up at start, or NULL. To look one up would hold every shard. */
const char *listeners_unknown(const struct config *c);
/* The coordinator: opens what c asks for and is not open yet. False: something could not be opened (it is logged), and none of it is. */
bool listeners_open(const struct config *c);
/* The coordinator: the old ones stay; what listeners_open() opened goes. */
void listeners_keep(void);
/* The coordinator, before it installs c: what c does not ask for takes no more connections, and its port is free. */
void listeners_change(const struct config *c);
/* Thread 0: accepts on new sockets of the configuration, and gives up those that were shut. An EV_ACCEPT has the tag 1 for a Unix socket, else 0. */
void listeners_follow(struct proactor *p);

#endif
