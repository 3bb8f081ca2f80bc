/* Combining sets, piece by piece: from sources or lists of names into a sink. Nothing here looks keys up; on the thread that holds the sources' shards.
 *
 * A combination goes on for as much as it is given, and then may be put aside: its sources are opened anew for the next time (their sets are the same, as
 * somebody sees to that).
 */
#ifndef SERVER_SET_COMBINE_H
#define SERVER_SET_COMBINE_H

#include "server/reply.h"
#include "shard/set.h"

enum operation { INTER, UNION, DIFF };

/* The sets that are combined. */
#define SOURCES_FEW 16u
struct sources {
    struct set *sets;
    uint32_t n;
    struct set few[SOURCES_FEW];
};
/* False: no memory. */
bool sources_new(struct sources *o, uint32_t most);
void sources_drop(struct sources *o);

/* Names on their way between shards: for each its size (4 bytes) and its bytes. Of no shard; in chunks, so that nothing is copied as they become more. */
struct names_chunk {
    struct names_chunk *next;
    size_t size, capacity;
    char bytes[];
};
struct names {
    struct names_chunk *first, *last;
    uint64_t n;
};
/* A place in them; zeros: the beginning. */
struct names_at {
    const struct names_chunk *chunk;
    size_t at;
};

void names_drop(struct names *l);

/* Takes results, of one of these kinds. */
struct sink {
    struct reply *values;
    struct names *names;
    struct set *set;
    uint64_t n, limit; /* so far; enough (0: never) */
    /* Of a set: */
    int64_t ints_max;
    struct shard *budget; /* whose budget it must fit into; NULL: it need not */
    size_t gives;         /* bytes that come back when it has its place */
    bool refused;
};

/* Whether what a sink made fits into its budget. */
bool sink_fits(const struct sink *o);

/* What a slice may do: members, each times the sets that it is looked for in; 100 to 300 us. */
#define SLICE_COST 2048u

/* A combination of sources under way. */
struct combination {
    enum operation operation;
    bool takes_out, begun; /* takes_out: the others' members out of a copy of the first */
    uint32_t source;       /* which of them is walked through, */
    struct set_walk walk;  /* and how far */
    struct sink o;
};

/* Goes on. False: there is more. It puts the sources in an order of its own. */
bool combine(struct combination *c, struct sources *s, uint64_t cost);
/* What all of it costs. */
uint64_t combine_cost(const struct combination *c, struct sources *s);
/* Adds the names of a list to a set. False: there is more. */
bool combine_names(const struct names *l, struct names_at *at, struct sink *o, uint64_t cost);
/* Passes on those of a list that are in all sources, or in none. False: there is more. */
bool filter_names(const struct names *l, struct names_at *at, const struct sources *s, bool in_all, struct sink *o, uint64_t cost);

/* Whether SDIFF takes the others' members out of a copy of the first: by its size, the sum of all sizes, and how many have members. */
bool diff_takes_out(uint64_t first, uint64_t sum, uint32_t there);

/* A set's members on their way into a reply. */
struct listing {
    bool begun;
    struct set_walk walk;
};
/* Goes on for so many. False: there is more. */
bool list_members(struct listing *l, const struct set *x, struct reply *r, uint64_t cost);

#endif
