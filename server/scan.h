/* Cursors of SCAN: a shard and a place in its table.
 *
 *   52           42 41                    0
 *   | shard: 11    | table's cursor: 42    |        0 begins, and ends
 *
 * A call begins on the cursor's shard. With one shard that is all. With several it is a piece (HOP_PIECE); when a piece came to its
 * shard's end before it met COUNT keys or had done enough, scan_goes_on says so, and another piece runs on the next shard; then
 * scan_merge. So a client that scans a small database is done in one call, however many shards there are, as it is with Redis.
 */
#ifndef SERVER_SCAN_H
#define SERVER_SCAN_H

#include "server/command.h"

/* A cursor argument, as lenient as Redis. */
bool parse_cursor(const struct arg *a, uint64_t *out);
/* The shard that PLAN_CURSOR's hop must run on: argv[1]'s, or 0 if that is none (the hop replies the error, or the end). */
uint32_t cursor_shard(const struct arg *cursor, uint32_t shards);

/* After a piece: 0, or the next shard has a piece to run, with this as its hop's state. */
uint64_t scan_goes_on(const struct reply *piece);

hop_fn scan, keys_piece, randomkey_piece;
merge_fn scan_merge, randomkey_merge;

#endif
