#include "server/save_commands.h"

#include <mimalloc.h>

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
    struct disk_job *job = disk_waiter(t, k, false);
    const char *why = job ? saving_begin(course_held(k), job) : "ERR out of memory";
    save->begun = true;
    course_let_go(t, k);
    if (!why) return;
    mi_free(job);
    reply_error(course_output(t, k), why);
    save_goes_on(t, k, of);
}

static void drop_save(void *of) { mi_free(of); }

static const struct task_course save_course = {.on = save_goes_on, .drop = drop_save};

/* False: no memory, which is replied. */
static bool start(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc,
    const struct task_course *course, void *of) {
    struct task *k = of ? course_start(t, c, &(struct task_command){row, argv, argc}, course, of) : NULL;
    if (k) {
        course_hold(t, k);
        return true;
    }
    struct reply *r = conn_reply_begin(t, c);
    reply_no_memory(r);
    conn_reply_end(t, c, r);
    mi_free(of);
    return false;
}

void save_command(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    start(t, c, row, argv, argc, &save_course, mi_calloc(1, sizeof(struct save)));
}

/* ---- SHUTDOWN ---- */

struct shutdown {
    uint32_t flags; /* enum shutdown_flags */
    bool abort;
    bool another; /* is at it: this one waits for how that goes */
    bool begun;
};

static const char shutdown_failed[] = "ERR Errors trying to SHUTDOWN. Check logs.";

/* The shards are held; or it was not to be. If it is, the process ends. */
static void shutdown_goes_on(struct thread *t, struct task *k, void *of) {
    struct shutdown *x = of;
    if (!x->another && !x->begun) {
        struct disk_job *job = disk_waiter(t, k, true);
        x->begun = true;
        if (job && saving_end_save(course_held(k), job)) return;
        if (!job) saving_end_failed();
        mi_free(job);
    }
    course_let_go(t, k);
    reply_error(course_output(t, k), shutdown_failed);
    mi_free(of);
    course_end(t, k);
}

static const struct task_course shutdown_course = {.on = shutdown_goes_on, .drop = drop_save};

/* False: they make no sense. */
static bool parse_shutdown(const struct arg *argv, uint32_t argc, struct shutdown *x) {
    *x = (struct shutdown){0};
    for (uint32_t i = 1; i < argc; i++) {
        uint32_t flag = arg_is(&argv[i], "nosave") ? SHUTDOWN_NOSAVE
            : arg_is(&argv[i], "save")             ? SHUTDOWN_SAVE
            : arg_is(&argv[i], "now")              ? SHUTDOWN_NOW
            : arg_is(&argv[i], "force")            ? SHUTDOWN_FORCE
                                                   : 0;
        if (!flag && !arg_is(&argv[i], "abort")) return false;
        x->flags |= flag;
        x->abort |= !flag;
    }
    return !(x->flags & SHUTDOWN_SAVE && x->flags & SHUTDOWN_NOSAVE) && !(x->abort && x->flags);
}

static void reply_at_once(struct thread *t, struct conn *c, const char *error) {
    struct reply *r = conn_reply_begin(t, c);
    if (error) reply_error(r, error);
    else reply_ok(r);
    conn_reply_end(t, c, r);
}

/* NOW is about replicas, which there are none of. */
void shutdown_command(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    struct shutdown x;
    if (!parse_shutdown(argv, argc, &x)) {
        reply_at_once(t, c, "ERR syntax error");
        return;
    }
    if (x.abort) {
        reply_at_once(t, c, saving_end_abort() ? NULL : "ERR No shutdown in progress.");
        return;
    }
    bool saves = x.flags & SHUTDOWN_SAVE || (!(x.flags & SHUTDOWN_NOSAVE) && t->config->n_save);
    if (loading_is_running()) saves = false; /* what is loaded is the file's */
    x.another = !saving_end_begin(x.flags & SHUTDOWN_FORCE);
    if (!x.another && !saves) {
        conn_close(c, false);
        saving_end_now();
        return;
    }
    struct shutdown *of = mi_malloc(sizeof *of);
    if (of) *of = x;
    if (!start(t, c, row, argv, argc, &shutdown_course, of) && !x.another) saving_end_failed();
}
