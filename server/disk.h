/* The thread that waits for the disk, so that no thread that serves ever does: what takes a file to be written, and synced, is a job for it.
 *
 * Jobs are run one after the other, in the order in which they came, each with the configuration that was in force when it was given. A connection
 * waits for its job as for any task (task.c), so there are no more jobs than connections. Between jobs the thread sleeps.
 */
#ifndef SERVER_DISK_H
#define SERVER_DISK_H

#include "io/mailbox.h"
#include "server/config.h"

#define DISK_WHY_MAX 512u

/* Does the work. False: why says what went wrong, as the error that is replied. */
typedef bool disk_fn(const struct config *c, char why[DISK_WHY_MAX]);

struct task;
struct thread;

struct disk_job {
    struct message message; /* first; to the disk's thread, and back as MESSAGE_DISK */
    struct thread *thread;  /* that gets it back */
    struct task *task;
    disk_fn *work;
    void (*wait)(void *
            of); /* instead of work: something else that is to be waited for, of a course; not what it waits for, but of must live until it is back */
    void *of;
    struct config config;
    bool good;
    bool quiet;      /* a course's: it replies itself */
    uint64_t cycles; /* that the work took */
    char why[DISK_WHY_MAX];
};

/* Main thread: before others serve, and after they have ended. Returns 0 or an error number. disk_stop() waits for what was begun; false: it hangs
 * (join.h). */
int disk_start(void);
bool disk_stop(void);

/* What somebody else answers: for a course that waits for it. NULL: no memory. quiet: see disk_job. */
struct disk_job *disk_waiter(struct thread *t, struct task *k, bool quiet);
/* Any thread: goes back to who waits. */
void disk_give_back(struct disk_job *job);

/* Any thread that serves: from here on the job is the disk's, until it is back. It was allocated with mi_malloc, and whoever gets it back frees it. */
void disk_give(struct disk_job *job);

#endif
