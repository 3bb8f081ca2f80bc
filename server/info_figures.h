/* INFO's figures: how a shard and its thread put them into a piece, and all pieces' sum, for those who show them (INFO, MEMORY). */
#ifndef SERVER_INFO_FIGURES_H
#define SERVER_INFO_FIGURES_H

#include "server/thread.h"

/* A piece is raw: this; then those of each database, of the commands that ran, of errors; slices (INFO threads); and of clients, one for each slice
 * of the walk over them, to the end. */
struct figures {
    struct shard_stats shard;
    struct schedule_stats schedule;
    struct thread_stats thread;
    struct memory_stats memory;
    uint64_t table_bytes, startup_bytes;
    double commands_a_second, input_kbps, output_kbps; /* KiB a second */
    uint32_t n_dbs, n_commands, n_errors;
    bool with_slices;
};
struct db_figures {
    uint64_t keys, expiring, table_bytes, ttl_sum_ms, ttls; /* ttls: keys that were drawn for their time to live */
};
struct command_figures {
    uint32_t row;
    bool with_histogram;
    struct command_stats stats;
};
struct client_figures {
    uint64_t bytes, input_max, output_max;
};

struct sums {
    struct figures all; /* added up; the longest slice: of all */
    struct client_figures clients;
    struct db_figures *dbs;
    struct command_stats *commands; /* by row, with merged histograms */
    struct error_stats errors[MEASURE_ERRORS_MAX];
    uint32_t n_errors, n_dbs;
    struct reply *const *pieces;
    uint32_t n;
    uint64_t used, peak;          /* bytes: data, tables and clients */
    uint64_t resident, anonymous; /* bytes of the process; of these what no file or mapping that others share holds */
};

/* False: no memory (drop it all the same). */
bool sums_make(struct sums *s, struct reply *const *pieces, uint32_t n);
void sums_drop(struct sums *s);
/* A piece's figures, and where its slices are, or NULL. */
const char *figures_of(const struct reply *piece, struct figures *f);

/* Text that grows. */
struct text {
    char *p;
    size_t size, capacity;
};
void text_add(struct text *x, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* 1536: "1.50K". */
void text_human(uint64_t bytes, char out[32]);

/* info_sections.c: in the order in which they are shown; the last one has no name. */
struct section {
    const char *name;
    void (*write)(struct text *, const struct sums *);
    bool by_default;
};
extern const struct section info_sections[];

#endif
