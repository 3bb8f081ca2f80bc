/* Loading the snapshot at the start, while clients already connect and are told so.
 *
 * A thread for each shard reads the whole file, and makes the keys of its shard; past the others it reads without looking. So it does not matter who wrote the
 * file, nor how many shards there were. The shards stand still meanwhile. A file that is not right to its last byte is no snapshot: the server says where and
 * why, and ends.
 */
#ifndef SERVER_LOADING_H
#define SERVER_LOADING_H

#include <stdbool.h>
#include <stdint.h>

#include "server/config.h"

/* Main thread, before others start: is there something to load? Then the threads' shards stand still from the start. -1: there is, but it can't be
 * read, which was logged. */
int loading_prepare(const struct config *c);
/* Main thread, once the others run: loads, and lets the shards go. signals: what ends it early. FAILED: that was logged. */
enum loading_result { LOADING_DONE, LOADING_FAILED, LOADING_ENDED };
enum loading_result loading_run(int signals);

bool loading_is_running(void);
/* What INFO shows. */
struct loading_info {
    bool running;
    uint64_t keys, expired, total_bytes, loaded_bytes;
    int64_t began_s;
};
void loading_info(struct loading_info *out);

#endif
