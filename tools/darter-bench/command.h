/* The commands that are sent: prepared once, filled in for each request.
 *
 * A command is a list of parts. Literal bytes, which hold everything that is the same each time (the RESP frame too), and arguments that are made
 * of pieces: literal text, a key, data, a score. The RESP length of such an argument is known once its pieces are drawn, so writing a request is a
 * few copies into the connection's buffer; nothing is allocated.
 *
 *   set __key__ __data__  ->  LITERAL "*3\r\n$3\r\nset\r\n"  ARGUMENT [KEY]  ARGUMENT [DATA]
 *
 * A command is made by main() and then read by all threads; what draws its values (struct source) is each thread's own.
 */
#ifndef TOOLS_DARTER_BENCH_COMMAND_H
#define TOOLS_DARTER_BENCH_COMMAND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/darter-bench/keys.h"
#include "tools/darter-bench/random.h"

enum piece_kind { PIECE_TEXT, PIECE_KEY, PIECE_DATA, PIECE_SCORE };

struct piece {
    enum piece_kind kind;
    char *text; /* PIECE_TEXT */
    size_t size;
};

struct part {
    uint32_t first, count; /* pieces of an argument. count 0: bytes that go out as they are, in pieces[first] */
};

struct command {
    struct part *parts;
    struct piece *pieces;
    uint32_t part_count, piece_count;
    size_t size_max; /* of one request, in bytes */
};

/* What requests are filled from. Owned by a thread. */
struct source {
    struct random random;
    struct keys keys;
    const char *key_prefix;
    size_t key_prefix_size;
    uint64_t size_min, size_max; /* bytes of a value */
    bool random_data;            /* else values and scores count up */
    uint64_t counter;
    char *pool; /* random bytes; a random value starts somewhere in it */
    size_t pool_size;
};

/* Returns 0 or -ENOMEM. */
int source_init(struct source *s, uint64_t seed, const struct keys_options *keys, const char *key_prefix, uint64_t size_min,
    uint64_t size_max, bool random_data, bool ascii);
void source_finish(struct source *s);

/* Makes a command of a line of words, as redis-cli reads them: blanks divide, "..." and '...' keep blanks, and in "..." \n \r \t \xHH stand for
 * bytes. __key__, __data__ and __score__ may stand anywhere in a word. s says how long the values can become. Returns NULL, or what is wrong, as static text. */
const char *command_init(struct command *c, const char *line, const struct source *s);
void command_finish(struct command *c);

/* Writes one request; to has room for c->size_max bytes. Returns the end. */
char *command_write(const struct command *c, struct source *s, char *to);

#endif
