/* Courses: tasks whose steps another file decides (exec.c, multi.c, waiting.c). A task waits for one thing at a time; when that is there its course's on() is called,
 * on the connection's thread, and begins the next wait or ends the task.
 *
 *   course_send         pieces to shards
 *   course_hold         every shard is to stand still; then course_held() says which they are, and their data are the task's until course_let_go()
 *   course_everywhere   while all are held: a PLAN_ALL command on every thread
 *   course_disk         a PLAN_DISK command
 *   course_wait         anything that takes its time, on the disk's thread
 */
#ifndef SERVER_COURSE_H
#define SERVER_COURSE_H

#include "server/conn.h"

struct member;

struct task_command {
    const struct command *row;
    struct arg *argv;
    uint32_t argc;
};

/* drop: the process ends in the middle of it. */
struct task_course {
    void (*on)(struct thread *t, struct task *k, void *of);
    void (*gave_up)(struct thread *t, struct task *k, void *of); /* its transaction was withdrawn too often */
    void (*drop)(void *of);
    void (*left)(struct thread *t, struct task *k,
        void *of);                      /* its connection is closing: nobody waits for it; may be told twice. NULL: it goes on */
    uint64_t (*memory)(const void *of); /* bytes that it holds for the connection, for its thread. NULL: none worth counting */
    /* What waits in the name of a piece of order PIECE_LOCAL; of whoever holds the shard. */
    struct member *(*member)(const struct hop *piece);
};

/* The connection waits from here on. NULL: no memory, nothing was done. */
struct task *course_start(struct thread *t, struct conn *c, const struct task_command *command, const struct task_course *course, void *of);
void course_end(struct thread *t, struct task *k);

/* A piece: the row's on_shard with this state. owner_only: no borrower runs it. */
void course_send(struct thread *t, struct task *k, uint32_t shard, uint64_t state, bool owner_only);
/* What the pieces that are back replied: all goes into the output, or nothing is wanted. */
void course_take(struct thread *t, struct task *k);
void course_drop_pieces(struct thread *t, struct task *k);

void course_hold(struct thread *t, struct task *k);
const struct spread *course_held(const struct task *k);
void course_let_go(struct thread *t, struct task *k);
/* The command runs on every thread, at once and to its end. False: that is done (there is one thread). Then course_merge puts its reply into the output, or
 * aside. */
bool course_everywhere(struct thread *t, struct task *k, const struct task_command *command);
void course_merge(struct thread *t, struct task *k, bool aside);
/* The reply is in the output, or aside, when on() is called. False: no memory. */
bool course_disk(struct thread *t, struct task *k, const struct command *row, bool aside);

/* wait(of) is called there, then on(). False: no memory. */
bool course_wait(struct thread *t, struct task *k, void (*wait)(void *of));
/* conn.c: the connection of a task closes; the bytes that its course holds. */
void course_left(struct thread *t, struct task *k);
uint64_t course_memory(const struct task *k);

struct conn *course_conn(const struct task *k);
/* The command that it was started for. */
struct task_command course_command(const struct task *k);
/* The connection's output, or aside if the command is not to be answered. */
struct reply *course_output(struct thread *t, struct task *k);

/* outbox.c: the course's member(). */
struct member *course_member(const struct task *k, const struct hop *piece);
/* task.c: the process ends. */
void course_drop(struct task *k);

#endif
