/* Saving: who decides when a snapshot is made, and what became of the last one. One is written at a time.
 *
 * A snapshot begins while all shards stand still (saving_begin), which is the moment it shows; then they go on, and each writes what it held then
 * (shard/snapshot.h) to one file (snapshot_file.h). When that is complete, or has failed, thread 0 is told: it notes the result and lets whoever waits for it
 * know.
 *
 *   SAVE       waits for the end; nobody else does, as the cut is all that others see of it
 *   BGSAVE     waits for the cut
 *   points     thread 0 looks ten times a second whether one of the configuration's save points is reached
 *   SHUTDOWN,  no shard goes on after the cut (saving_begin_standing): what was acknowledged is in the file. Each thread writes its shard, and serves its
 *   SIGTERM    sockets. If it can't be written, or SHUTDOWN ABORT comes, the shards go on, unless it is forced
 *
 * The end of the process, as far as it may be aborted:
 *
 *   ENDING_NONE     nobody asked for it
 *   ENDING_SAVING   somebody did (-> NONE: it could not be saved)
 *   ENDING_ABORTED  SHUTDOWN ABORT came in time; who is at it lets go (-> NONE)
 *   ENDING_SURE     nothing can stop it
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
/* The same, but the caller lets the shards go only when he has the answer. What is being written is given up for it. */
const char *saving_begin_standing(const struct spread *x, struct disk_job *waiter);
bool saving_is_running(void);
/* CPU time that the threads of snapshots' files have spent since the start of the process, ns. Any thread. */
uint64_t saving_writer_ns(void);
/* The walk may take all of a thread's time: somebody waits for it. */
bool saving_is_urgent(void);
/* The shard's thread, while the shard stands still: some of its walk. True: there is more to do at once. */
bool saving_work_standing(struct shard *s);

/* Thread 0. */
void saving_cron(struct thread *t);
void saving_message(struct thread *t, struct note *n);
void saving_end_message(struct thread *t, struct note *n);
void saving_abort_message(struct thread *t, struct note *n);

/* ---- the end of the process ---- */

/* Any thread: an end begins. False: another one has, and this one does nothing. */
bool saving_end_begin(bool force);
/* The same thread: it need not, or can't, be saved. */
void saving_end_now(void);
void saving_end_failed(void);
/* All shards are held: saves. False: the end is off, or can't be. waiter: gets the answer (disk_job.good: the process ends). */
bool saving_end_save(const struct spread *x, struct disk_job *waiter);
/* Any thread: SHUTDOWN ABORT. False: there is nothing to abort. */
bool saving_end_abort(void);

/* Main thread: a signal asks for the end. True: it may come. False: not yet (thread 0 was asked to save first, and SIGTERM of our own follows if that goes
 * well), or not at all. */
bool saving_signal(int number);
/* After all threads have ended: what was being written is not. False: the thread that writes it hangs at the disk, and goes on until the process is gone. */
bool saving_stop(void);

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
