#include "server/disk.h"

#include <errno.h>
#include <mimalloc.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "io/clock.h"
#include "server/crash.h"
#include "server/join.h"
#include "server/thread.h"

static struct mailbox jobs;
static int wake = -1;
static pthread_t handle;
static struct disk_job stop; /* with nothing to do: the last one */

struct disk_job *disk_waiter(struct thread *t, struct task *k, bool quiet) {
    struct disk_job *job = mi_calloc(1, sizeof *job);
    if (!job) return NULL;
    job->message.from = t->id;
    job->thread = t;
    job->task = k;
    job->quiet = quiet;
    return job;
}

void disk_give_back(struct disk_job *job) {
    struct thread *t = job->thread;
    job->message.kind = MESSAGE_DISK;
    mailbox_push(&t->returns, &job->message);
    mailbox_fence();
    if (mailbox_must_wake(&t->asleep)) proactor_wake(NULL, t->proactor);
}

static void *run(void *unused) {
    uint64_t times;
    prctl(PR_SET_NAME, "disk");
    crash_thread_start(NULL);
    for (;;) {
        if (read(wake, &times, sizeof times) < 0 && errno != EINTR) return unused;
        mailbox_collect(&jobs);
        for (struct disk_job *job; (job = (struct disk_job *)mailbox_next(&jobs));) {
            if (!job->work && !job->wait) return unused;
            uint64_t start = cycles_now();
            if (job->wait) job->wait(job->of);
            else job->good = job->work(&job->config, job->why);
            job->cycles = cycles_now() - start;
            disk_give_back(job);
        }
    }
}

int disk_start(void) {
    mailbox_init(&jobs);
    wake = eventfd(0, EFD_CLOEXEC);
    return wake < 0 ? errno : pthread_create(&handle, NULL, run, NULL);
}

void disk_give(struct disk_job *job) {
    mailbox_push(&jobs, &job->message);
    while (write(wake, &(uint64_t){1}, sizeof(uint64_t)) < 0 && errno == EINTR) {}
}

bool disk_stop(void) {
    disk_give(&stop);
    return join_in_time(handle);
}
