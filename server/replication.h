/* What can be said of replication while there is none: this server is a master without replicas. ROLE, REPLICAOF NO ONE, WAIT. */
#ifndef SERVER_REPLICATION_H
#define SERVER_REPLICATION_H

#include "server/command.h"

#define REPLICATION_ID_SIZE 40
/* The id of this server's history, as hex. Any thread. */
void replication_id(char out[REPLICATION_ID_SIZE + 1]);
/* DEBUG CHANGE-REPL-ID: another one from now on. */
void replication_change_id(void);

connection_fn role_command, replicaof_command, wait_command;

#endif
