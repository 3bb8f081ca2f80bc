/* Cursors of SCAN: a shard and a place in its table.
 *
 *   52           42 41                    0
 *   | shard: 11    | table's cursor: 42    |        0 begins, and ends
 *
 * A call visits one shard. When that one ends, the cursor goes on to the next.
 */
#ifndef SERVER_SCAN_H
#define SERVER_SCAN_H

#include "server/command.h"

/* The shard that PLAN_CURSOR's hop must run on: argv[1]'s, or 0 if that is none (the hop replies the error, or the end). */
uint32_t cursor_shard(const struct arg *cursor, uint32_t shards);

hop_fn scan, keys_piece, randomkey_piece;
merge_fn keys_merge, randomkey_merge;

#endif
