/* darter --check-rdb FILE: whether an RDB file is right to its last byte, and what is in it. Starts nothing. */
#ifndef SERVER_CHECK_RDB_H
#define SERVER_CHECK_RDB_H

/* The process' status. */
int check_rdb(const char *path);

#endif
