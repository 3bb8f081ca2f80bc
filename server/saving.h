/* Saving: who decides when a snapshot is made, and what became of the last one. One is written at a time.
 *
 * A snapshot begins while all shards stand still (saving_begin), which is the moment it shows; then they go on, and each writes what it held then
 * (shard/snapshot.h) to one file (snapshot_file.h). When that is complete, or has failed, thread 0 is told: it notes the result and lets whoever waits for it
 * know.
 *
 *   SAVE       waits for the end; nobody else does, as the cut is all that others see of it
 *   BGSAVE     waits for the cut
 *   points     thread 0 looks ten times a second whether one of the configuration's save points is reached
 *   SHUTDOWN,  no shard goes on after the cut: what was acknowledged is in the file. If it can't be written, they do go on, unless it is forced
 *   SIGTERM
 */
#ifndef SERVER_SAVING_H
#define SERVER_SAVING_H

#include <stdbool.h>
#include <stdint.h>

#include "server/command.h"

struct thread;
struct disk_job;
struct note;

/* All shards are held: begins. NULL, or the error to reply. waiter: gets its answer at the end as MESSAGE_DISK; NULL: nobody waits. */
const char *saving_begin(const struct spread *x, struct disk_job *waiter);
/* All shards are held, and nothing goes on before it returns: writes the file. NULL, or what went wrong. */
const char *saving_whole(const struct spread *x);
bool saving_is_running(void);
/* The walk may take all of a thread's time: somebody waits for it. */
bool saving_is_urgent(void);

/* Thread 0. */
void saving_cron(struct thread *t);
void saving_message(struct thread *t, struct note *n);
void saving_exit_message(struct thread *t, struct note *n);

/* Main thread: SIGTERM. True: the end may come. False: thread 0 was asked to save first, and another SIGTERM follows if that went well. */
bool saving_may_exit(void);
/* Before that signal is sent: what to do, whatever the configuration says. */
enum saving_exit { EXIT_AS_CONFIGURED, EXIT_SAVING, EXIT_NOT_SAVING, EXIT_SAVED };
void saving_at_exit(enum saving_exit what);
/* After all threads have ended: what was being written is not. */
void saving_stop(void);

/* What INFO and LASTSAVE show. */
struct saving_info {
    bool running, last_failed;
    uint64_t saves, dirty_before; /* changes up to the last complete one */
    uint64_t keys, keys_total, bytes;
    uint64_t extra, extra_peak,
        extra_last; /* bytes that wait for the disk, or are kept until they are written: now; at most; at most of the last one */
    int64_t last_save_s, last_took_s, running_s; /* -1: none */
};
void saving_info(struct saving_info *out);
/* stop-writes-on-bgsave-error: writes are to be refused. */
bool saving_refuses_writes(void);

#endif
