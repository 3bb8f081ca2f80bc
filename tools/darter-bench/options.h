/* The command line. Flags, their defaults and their forms (--flag=value, --flag value, one dash or two, --noflag) are those of dfly_bench where it
 * has them, so that its command lines run unchanged.
 *
 * Made by main() and then only read, by every thread. The strings are the command line's own.
 */
#ifndef TOOLS_DARTER_BENCH_OPTIONS_H
#define TOOLS_DARTER_BENCH_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/proactor.h"

struct options {
    const char *host, *unix_path, *user, *password;
    uint64_t port;
    bool tcp_nodelay, greet, connect_only;
    uint64_t threads;     /* 0: one a usable CPU */
    uint64_t connections; /* a thread */
    uint64_t requests;    /* a connection; counts if test_time_s is 0 */
    uint64_t test_time_s;
    int64_t qps; /* a connection; 0: closed loop */
    uint64_t pipeline;
    uint64_t size_min, size_max; /* -d, bytes */
    uint64_t ratio_set, ratio_get;
    const char *command; /* "": set and get by the ratio */
    const char *key_prefix;
    uint64_t key_minimum, key_maximum, key_stddev;
    char key_dist;
    double zipf_alpha;
    uint64_t seed;
    bool random_data, ascii;
    enum proactor_kind io;
    uint64_t server_pid;       /* 0: none */
    const char *json_out_file; /* "": none */
    const char *plot;          /* NULL: none; else the SVG file */
    bool help, version;
};

enum { OPTIONS_MESSAGE_MAX = 512 };

/* Reads the command line. False: message says what is wrong with it. */
bool options_read(struct options *o, int argc, char **argv, char message[OPTIONS_MESSAGE_MAX]);

/* Prints the flags with their defaults. */
void options_help(void);

#endif
