/* A thread that makes load: a proactor, its connections, and the schedule.
 *
 *   CONNECTING --all are greeted--> READY --run.start_ns is set--> LOADING --n, time or stop--> DRAINING --> ENDED
 *
 * One turn: wait; take what came and count the replies; see which requests are due; write for every connection that may send, all it may send, in
 * one send. A turn costs one system call under io_uring, however many connections it serves.
 *
 * Schedule (--qps). All connections of a thread have the same rate, so one counter says which request is next: slot g is request g / connections of
 * connection g % connections, at start + g / (rate of the thread). Nothing is queued: a connection knows how many of its requests are due and
 * how many it sent, and the time of each is computed. Latency counts from that time, whatever delayed the sending.
 *
 * Between threads: main() owns struct run; what workers write there is atomic, or written once before an atomic says so. A worker hands
 * over one struct report a second, through main's mailbox.
 */
#ifndef TOOLS_DARTER_BENCH_WORKER_H
#define TOOLS_DARTER_BENCH_WORKER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "io/mailbox.h"
#include "io/proactor.h"
#include "tools/darter-bench/command.h"
#include "tools/darter-bench/options.h"
#include "tools/darter-bench/stats.h"

/* DRAIN_S: how long replies are waited for after the end. */
enum { REPORTS = 4, FAILURE_MAX = 512, DRAIN_S = 10 };

struct report {
    struct message message;
    _Atomic bool busy;           /* main has it */
    bool last;                   /* the worker ended */
    uint64_t second;             /* of the run, in which this span began */
    uint64_t until_ns;           /* where it ends, since the start */
    uint64_t done_min, done_max; /* replies so far, of the connection with the fewest and the most */
    uint32_t active, lost;       /* connections that go on, and that were lost so far */
    struct stats stats;
};

/* What all threads share. */
struct run {
    const struct options *options;
    struct command commands[OPS];
    bool custom; /* commands[OP_SET] alone, from --command */
    struct sockaddr_storage address;
    socklen_t address_size;
    char address_text[128];
    uint32_t workers;
    struct proactor *main;
    struct mailbox reports;
    _Atomic uint32_t ready;    /* workers whose connections are all greeted */
    _Atomic uint64_t start_ns; /* 0: not yet */
    _Atomic uint32_t stopping; /* end now */
    _Atomic uint32_t failing;  /* somebody writes, or wrote, failure */
    _Atomic uint32_t failed;   /* and it is written */
    char failure[FAILURE_MAX]; /* why the run cannot start or go on */
    _Atomic uint32_t losses;   /* connections that were lost; the first one's reason: */
    _Atomic uint32_t loss_told;
    char loss[FAILURE_MAX];
};

struct connection;

struct worker {
    struct run *run;
    pthread_t thread;
    uint32_t number;
    struct proactor *proactor;
    _Atomic(struct proactor *) opened; /* the same, for main to wake */
    struct source source;
    struct connection *connections;
    uint32_t connection_count, connecting, next_to_connect, ready, working, lost;
    struct connection **dirty; /* may send; at most one entry a connection */
    uint32_t dirty_count;
    bool over;    /* nothing new is sent */
    bool closing; /* nothing counts any more */
    uint64_t ratio_all;
    uint64_t start_ns, end_ns;  /* end: nothing is due from there on */
    uint64_t rate, slot, slots; /* --qps: requests a second of this thread, the next one, and how many there are */
    uint64_t first_slot_ns;
    uint64_t report_ns; /* when the second is over */
    struct stats stats; /* of this second */
    struct report reports[REPORTS];
    /* Known when it ended: */
    uint64_t cpu_ns, wall_ns, never_sent, never_answered;
};

/* Prepares a worker; *w is zeros but for number. Returns 0 or a negative errno. */
int worker_init(struct worker *w, struct run *run);
/* Body of the thread; arg is the worker. */
void *worker_main(void *arg);
/* After the thread ended. */
void worker_finish(struct worker *w);

/* Says why the run failed, unless somebody else did; main() then ends it. Any thread. */
void run_fail(struct run *run, struct proactor *self, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
