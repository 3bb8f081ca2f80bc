#include "server/course.h"

#include <mimalloc.h>

#include "server/outbox.h"
#include "server/run.h"
#include "server/task_internal.h"

struct task *course_start(
    struct thread *t, struct conn *c, const struct task_command *command, const struct task_course *course, void *of) {
    struct task *k = task_new(t, c, command->row, TASK_COURSE, command->argv, command->argc, true);
    if (!k) return NULL;
    k->course = course;
    k->of = of;
    k->reply_at = SIZE_MAX; /* some of the reply may be sent before the rest is there */
    return k;
}

void course_end(struct thread *t, struct task *k) { task_finish(t, k); }

/* The task's own command has its place again. */
static void put_back(struct task *k) {
    if (!k->outer.row) return;
    k->row = k->outer.row;
    k->argv = k->outer.argv;
    k->argc = k->outer.argc;
    k->outer.row = NULL;
}

void course_drop(struct task *k) {
    if (k->kind != TASK_COURSE) return;
    put_back(k);
    k->course->drop(k->of);
    mi_free((void *)k->held.shards);
}

/* ---- pieces ---- */

static struct batch *piece(struct thread *t, struct task *k, uint32_t shard, uint64_t state) {
    k->outstanding++;
    return task_piece(t, k, shard, k->argv, k->argc, 0, NULL, 1, state);
}

void course_send(struct thread *t, struct task *k, uint32_t shard, uint64_t state, bool owner_only) {
    struct batch *b = piece(t, k, shard, state);
    b->owner_only = owner_only;
    outbox_send_piece(t, b);
}

void course_drop_pieces(struct thread *t, struct task *k) {
    for (uint32_t s = 0; s < t->n_threads; s++) {
        struct batch *b = k->pieces[s];
        if (!b) continue;
        k->cycles += b->cycles;
        batch_recycle(t, b);
        k->pieces[s] = NULL;
    }
}

void course_take(struct thread *t, struct task *k) {
    bool aside = k->no_reply;
    k->no_reply = false; /* what is not wanted is not there */
    task_take_whole(t, k);
    k->no_reply = aside;
    course_drop_pieces(t, k);
}

/* ---- while all shards are held ---- */

void course_hold(struct thread *t, struct task *k) { task_ask_for_token(t, k); }

const struct spread *course_held(const struct task *k) { return &k->held; }

void course_let_go(struct thread *t, struct task *k) {
    mi_free((void *)k->held.shards);
    k->held = (struct spread){0};
    task_let_all_go(t);
}

bool course_everywhere(struct thread *t, struct task *k, const struct task_command *command) {
    k->outer = course_command(k);
    k->row = command->row;
    k->argv = command->argv;
    k->argc = command->argc;
    for (uint32_t s = 0; s < t->n_threads; s++)
        if (s != t->id) run_send_held(t, piece(t, k, s, 0));
    run_send_held(t, piece(t, k, t->id, 0));
    return --k->outstanding; /* the own piece has run */
}

void course_merge(struct thread *t, struct task *k, bool aside) {
    bool own = k->no_reply;
    k->no_reply = aside;
    task_merge_at_once(t, k);
    k->no_reply = own;
    course_drop_pieces(t, k);
    put_back(k);
}

bool course_disk(struct thread *t, struct task *k, const struct command *row, bool aside) {
    k->no_reply = aside;
    return task_to_disk(t, k, row);
}

bool course_wait(struct thread *t, struct task *k, void (*wait)(void *of)) {
    struct disk_job *job = disk_waiter(t, k, true);
    if (!job) return false;
    job->wait = wait;
    job->of = k->of;
    disk_give(job);
    return true;
}

void course_left(struct thread *t, struct task *k) {
    if (k->kind == TASK_COURSE && k->course->left) k->course->left(t, k, k->of);
}

uint64_t course_memory(const struct task *k) { return k->kind == TASK_COURSE && k->course->memory ? k->course->memory(k->of) : 0; }

/* ---- */

struct member *course_member(const struct task *k, const struct hop *piece) {
    return k->course->member(piece);
}

struct conn *course_conn(const struct task *k) {
    return k->conn;
}

struct task_command course_command(const struct task *k) {
    return (struct task_command){k->row, k->argv, k->argc};
}

struct reply *course_output(struct thread *t, struct task *k) {
    return task_output(t, k);
}
