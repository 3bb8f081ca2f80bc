/* What about this machine will hurt, said at start: one line each, with what to do. Main thread. */
#ifndef SERVER_ADVICE_H
#define SERVER_ADVICE_H

struct config;

/* What can be told from the configuration and the system, before the threads start. */
void advice_system(const struct config *c);
/* io_uring was wanted, and is not there: why, in the proactor's words, and what to do. */
void advice_no_uring(const char *why);

#endif
