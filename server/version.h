/* Versions that are shown. DARTER_VERSION comes from the build. */
#ifndef SERVER_VERSION_H
#define SERVER_VERSION_H

#ifndef DARTER_VERSION
#define DARTER_VERSION "0.1.0"
#endif
/* What clients that gate features by version are told (INFO's redis_version, HELLO). */
#define REPORTED_REDIS_VERSION "7.0.15"

#endif
