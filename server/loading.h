/* Loading a snapshot: at the start, while clients already connect and are told so, and for DEBUG RELOAD.
 *
 * A thread for each shard makes its keys. Who comes first to a marked chunk of the file (rdb.h) claims and reads it, and passes its keys on as they lie there
 * (passing.h), each to the thread of its shard; the others jump over it. What is in no chunk, as in files of other servers, each reads, and makes its own of. So it does not matter who wrote the
 * file, nor how many shards there were. One of them reads every byte, for the checksum. When one finds something wrong all stop. The shards are the loaders' meanwhile: the loading is a coordinator that has the token, and all of them stand still. What
 * needs no shard goes on beside it (struct command: on_beside, CMD_BESIDE); INFO shows what the loaders publish as they go. At the start, a file that is not right to its
 * last byte is no snapshot: the server says where and why, and ends.
 */
#ifndef SERVER_LOADING_H
#define SERVER_LOADING_H

#include <stdbool.h>
#include <stdint.h>

#include "server/config.h"
#include "shard/memory.h"
#include "shard/shard.h"

struct disk_job;
struct thread;

/* Main thread, before others start: is there something to load? Then the threads' shards stand still from the start. -1: there is, but it can't be
 * read, which was logged. */
int loading_prepare(const struct config *c);
/* Main thread, once the others run: loads, and lets the shards go. signals: what ends it early. */
enum loading_result { LOADING_DONE, LOADING_FAILED, LOADING_ENDED };
enum loading_result loading_run(int signals);

/* Thread 0: all loaders have ended, and nothing goes on beside them. */
void loading_ended(struct thread *t);

/* DEBUG RELOAD: all shards are held by the caller, who lets them go when he has the answer. flush: what is there goes first, once the file was looked through; merge: a
 * key that is there already is replaced, else it is an error; of a file that holds a key twice the later one stays, as in Redis, but of two in different chunks, which nobody
 * writes, either. NULL, or what went wrong. disk_job.good: all is loaded. If it can't be, and what was there is gone, the
 * process ends: nothing but the file is left. */
struct loading_options {
    bool flush, merge;
};
const char *loading_begin(const struct loading_options *o, struct disk_job *waiter);
/* Main thread: the end was asked for while that goes on. The process' status. */
int loading_exit_status(void);

bool loading_is_running(void);
/* What INFO shows. */
struct loading_info {
    bool running;
    uint64_t keys, expired, total_bytes, loaded_bytes, used_mem; /* used_mem: what the file says of its writer */
    int64_t began_s;
};
void loading_info(struct loading_info *out);
/* Of one shard, and of one of its databases, as far as its loader has come. Once a loading has begun. */
void loading_figures(uint32_t shard, struct shard_stats *stats, struct memory_stats *memory);
void loading_db_figures(uint32_t shard, uint32_t db, uint64_t *keys, uint64_t *expiring);

#endif
