/* What is counted of a span of time: by a worker of the second that goes on, by main() of everything.
 *
 * A worker adds to its own, once a second hands it to main() (worker.h), and starts again from nothing; main() merges. So no counter is ever
 * shared.
 */
#ifndef TOOLS_DARTER_BENCH_STATS_H
#define TOOLS_DARTER_BENCH_STATS_H

#include <stddef.h>
#include <stdint.h>

#include "tools/darter-bench/histogram.h"

/* A command of --command counts as the first. */
enum op { OP_SET, OP_GET, OPS };

enum { ERROR_WORD_MAX = 32, ERROR_KINDS = 16 };

/* Errors by their first word. The last kind takes those for which there is no room. */
struct error_kind {
    char word[ERROR_WORD_MAX];
    uint64_t count;
};

struct stats {
    struct histogram latency[OPS]; /* ns */
    uint64_t errors, hits, misses, bytes_out, bytes_in;
    uint64_t pending_max; /* of any connection */
    struct error_kind kinds[ERROR_KINDS];
};

void stats_clear(struct stats *s);
void stats_merge(struct stats *to, const struct stats *from);
/* An error reply: text without its '-' and line end. */
void stats_add_error(struct stats *s, const char *text, size_t size);

static inline uint64_t stats_requests(const struct stats *s) { return s->latency[OP_SET].count + s->latency[OP_GET].count; }

#endif
