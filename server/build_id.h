/* Which build this program is: the first bytes of the note that the linker wrote about all of it. */
#ifndef SERVER_BUILD_ID_H
#define SERVER_BUILD_ID_H

/* 16 hexadecimal digits, as redis_build_id of INFO has them; zeros if the linker wrote no note. On any thread. */
const char *build_id(void);

#endif
