/* Versions that are shown. DARTER_VERSION comes from the build. */
#ifndef SERVER_VERSION_H
#define SERVER_VERSION_H

#ifndef DARTER_VERSION
#define DARTER_VERSION "0.1.0"
#endif
/* Whose commands and replies these are: the default of reported-redis-version. */
#define REPORTED_REDIS_VERSION "7.0.15"

#endif
