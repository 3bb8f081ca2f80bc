#include "server/save_commands.h"

#include <mimalloc.h>
#include <signal.h>
#include <stdatomic.h>
#include <unistd.h>

#include "server/conn.h"
#include "server/course.h"
#include "server/disk.h"
#include "server/loading.h"
#include "server/reply.h"
#include "server/saving.h"
#include "server/thread.h"

void lastsave_command(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    struct saving_info info;
    (void)c, (void)argv, (void)argc;
    saving_info(&info);
    reply_int(r, info.last_save_s);
}

void bgsave_command(const struct spread *x, struct hop *h, struct reply *r) {
    if (h->argc > 2 || (h->argc == 2 && !arg_is(&h->argv[1], "schedule"))) {
        reply_syntax_error(r);
        return;
    }
    const char *why = saving_begin(x, NULL);
    if (why) reply_error(r, why);
    else REPLY_LITERAL(r, "+Background saving started\r\n");
}

/* ---- SAVE: a course that waits for the cut, then for the file ---- */

struct save {
    bool begun;
};

static void save_goes_on(struct thread *t, struct task *k, void *of) {
    struct save *save = of;
    if (save->begun) { /* the answer is in the output */
        mi_free(save);
        course_end(t, k);
        return;
    }
    struct disk_job *job = mi_calloc(1, sizeof *job);
    const char *why = "ERR out of memory";
    if (job) {
        job->message.from = t->id;
        job->thread = t;
        job->task = k;
        why = saving_begin(course_held(k), job);
    }
    save->begun = true;
    course_let_go(t, k);
    if (!why) return;
    mi_free(job);
    reply_error(course_output(t, k), why);
    save_goes_on(t, k, of);
}

static void drop_save(void *of) { mi_free(of); }

static const struct task_course save_course = {.on = save_goes_on, .drop = drop_save};

static void start(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc,
    const struct task_course *course, void *of) {
    struct task *k = of ? course_start(t, c, &(struct task_command){row, argv, argc}, course, of) : NULL;
    if (k) {
        course_hold(t, k);
        return;
    }
    struct reply *r = conn_reply_begin(t, c);
    reply_no_memory(r);
    conn_reply_end(t, c, r);
    mi_free(of);
}

void save_command(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    start(t, c, row, argv, argc, &save_course, mi_calloc(1, sizeof(struct save)));
}

/* ---- SHUTDOWN ---- */

struct shutdown {
    bool save, nosave, now, force, abort;
};

static void end_process(struct conn *c, enum saving_exit what) {
    conn_close(c, false);
    saving_at_exit(what);
    kill(getpid(), SIGTERM);
}

/* No shard goes on once the file is there. */
static void shutdown_goes_on(struct thread *t, struct task *k, void *of) {
    const struct shutdown *x = of;
    const char *why = saving_whole(course_held(k));
    if (!why || x->force) {
        atomic_store(&t->server->stopping, true);
        end_process(course_conn(k), EXIT_SAVED);
        return;
    }
    course_let_go(t, k);
    reply_error(course_output(t, k), "ERR Errors trying to SHUTDOWN. Check logs.");
    mi_free(of);
    course_end(t, k);
}

static const struct task_course shutdown_course = {.on = shutdown_goes_on, .drop = drop_save};

/* False: they make no sense. */
static bool parse_shutdown(const struct arg *argv, uint32_t argc, struct shutdown *x) {
    *x = (struct shutdown){0};
    for (uint32_t i = 1; i < argc; i++) {
        bool *flag = arg_is(&argv[i], "nosave") ? &x->nosave
            : arg_is(&argv[i], "save")          ? &x->save
            : arg_is(&argv[i], "now")           ? &x->now
            : arg_is(&argv[i], "force")         ? &x->force
            : arg_is(&argv[i], "abort")         ? &x->abort
                                                : NULL;
        if (!flag) return false;
        *flag = true;
    }
    return !(x->save && x->nosave) && !(x->abort && argc > 2);
}

void shutdown_command(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    struct shutdown x;
    bool good = parse_shutdown(argv, argc, &x);
    if (good && !x.abort) {
        bool saves = !loading_is_running() && (x.save || (!x.nosave && t->config->n_save)); /* what is loaded is the file's */
        if (!saves) {
            end_process(c, EXIT_NOT_SAVING);
            return;
        }
        struct shutdown *of = mi_malloc(sizeof *of);
        if (of) *of = x;
        start(t, c, row, argv, argc, &shutdown_course, of);
        return;
    }
    struct reply *r = conn_reply_begin(t, c);
    if (good) reply_error(r, "ERR No shutdown in progress.");
    else reply_syntax_error(r);
    conn_reply_end(t, c, r);
}
