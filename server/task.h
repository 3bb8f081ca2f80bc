/* Tasks: commands that need more than one hop. One at a time for a connection, which is drained before and waits until it is done.
 *
 * The task_start functions begin one on the connection's thread; the reply comes when it is done. argv's blobs pass to it. task.c has the table of kinds
 * and states.
 */
#ifndef SERVER_TASK_H
#define SERVER_TASK_H

#include "server/conn.h"

void task_start_fanout(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc, uint32_t n_keys);
void task_start_all(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc);
void task_start_cursor(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc);
void task_start_exclusive(
    struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc, const struct key_range *keys);
/* For nobody's command: all shards stand still while it runs. True: and from then on, until task_let_all_go() on this thread. looks_on: as CMD_LOOKS_ON. Never fails
 * (without memory the process ends). */
typedef bool task_cut(struct thread *t, const struct spread *x);
void task_start_cut(struct thread *t, task_cut *cut, bool looks_on);
void task_start_disk(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc);
/* All shards that a coordinator held go on. */
void task_let_all_go(struct thread *t);
/* Thread 0: who has the token begins to load; the loaders have ended. */
void task_loading(struct thread *t);
void task_loaded(struct thread *t);
/* A piece has come back, or was run here. */
void task_piece_done(struct thread *t, struct batch *b);
/* Numbers for the transactions that this flush has pushed: before it arms them (shard/schedule.h). */
void task_draw_numbers(struct thread *t);
/* HALT, HALTED, MAY_I, YOU_MAY. */
void task_halt_message(struct thread *t, struct note *n);
/* Tells the coordinator who waits for it that no transaction is under way, once that is so. */
void task_halted(struct thread *t);
/* GO: no coordinator holds the shard any more. */
void task_go_on(struct thread *t);
/* Begins what waited for that; or only lets those go on that rest. */
void transact_resume(struct thread *t);
void transact_resume_resting(struct thread *t);
/* One that rests waits for GO, or until the coordinator allows it to go on before. */
void task_ask_to_go_on(struct thread *t);
void task_stopped(struct thread *t, struct task *task);
/* The next of the tasks that put replies together (thread.merges, which is not empty) gets a slice: one a turn, however many there are. */
void task_run_merge(struct thread *t);
void task_disk_done(struct thread *t, struct disk_job *job);
void task_token(struct thread *t, struct task *task, bool beside);
void task_token_message(struct thread *t, struct note *n);
/* Frees a task that is under way (at the end of the process). */
void task_drop(struct task *task, uint32_t n_threads);
/* Frees a task of the free list; the next one. */
struct task *task_free(struct task *task);

#endif
