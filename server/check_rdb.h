/* darter --check-rdb FILE [--rdb-skip-unknown yes|no]: whether an RDB file is right to its last byte, and what is in it. Starts nothing. */
#ifndef SERVER_CHECK_RDB_H
#define SERVER_CHECK_RDB_H

#include <stdbool.h>

/* skip_unknown: what is not known here (streams, modules' data) is passed over and counted, as a start with rdb-skip-unknown does; else it is wrong. The process' status. */
int check_rdb(const char *path, bool skip_unknown);

#endif
