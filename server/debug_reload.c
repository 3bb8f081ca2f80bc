#include "server/debug_reload.h"

#include <mimalloc.h>

#include "server/conn.h"
#include "server/course.h"
#include "server/disk.h"
#include "server/loading.h"
#include "server/log.h"
#include "server/reply.h"
#include "server/saving.h"
#include "server/thread.h"

/* What it waits for. */
enum reload_step { RELOAD_HOLDING, RELOAD_SAVING, RELOAD_LOADING };

struct reload {
    bool save;
    struct loading_options load;
    enum reload_step step;
    struct disk_job *job; /* of the step; whoever calls on() frees it */
};

static void end(struct thread *t, struct task *k, struct reload *x, const char *error) {
    course_let_go(t, k);
    if (error) reply_error(course_output(t, k), error);
    else reply_ok(course_output(t, k));
    mi_free(x);
    course_end(t, k);
}

static void load(struct thread *t, struct task *k, struct reload *x) {
    x->step = RELOAD_LOADING;
    x->job = disk_waiter(t, k, true);
    const char *why = x->job ? loading_begin(&x->load, x->job) : "out of memory";
    if (!why) return;
    log_line(LOG_WARNING_LEVEL, "Can't load the DB: %s", why);
    mi_free(x->job);
    end(t, k, x, "ERR Error trying to load the RDB dump, check server logs.");
}

static void save(struct thread *t, struct task *k, struct reload *x) {
    x->step = RELOAD_SAVING;
    x->job = disk_waiter(t, k, true);
    const char *why = x->job ? saving_begin_standing(course_held(k), x->job) : "ERR out of memory";
    if (!why) return;
    mi_free(x->job);
    end(t, k, x, "ERR");
}

static void goes_on(struct thread *t, struct task *k, void *of) {
    struct reload *x = of;
    bool good = x->step == RELOAD_HOLDING || x->job->good;
    if (x->step == RELOAD_HOLDING && x->save) save(t, k, x);
    else if (x->step == RELOAD_LOADING) {
        if (good) log_line(LOG_WARNING_LEVEL, "DB reloaded by DEBUG RELOAD");
        end(t, k, x, good ? NULL : "ERR Error trying to load the RDB dump, check server logs.");
    } else if (good) load(t, k, x);
    else end(t, k, x, "ERR");
}

static void drop(void *of) { mi_free(of); }

static const struct task_course course = {.on = goes_on, .drop = drop};

static bool parse(const struct arg *argv, uint32_t argc, struct reload *x) {
    *x = (struct reload){.save = true, .load = {.flush = true}};
    for (uint32_t i = 2; i < argc; i++) {
        if (arg_is(&argv[i], "merge")) x->load.merge = true;
        else if (arg_is(&argv[i], "noflush")) x->load.flush = false;
        else if (arg_is(&argv[i], "nosave")) x->save = false;
        else return false;
    }
    return true;
}

static void refuse(struct thread *t, struct conn *c, const char *error) {
    struct reply *r = conn_reply_begin(t, c);
    reply_error(r, error);
    conn_reply_end(t, c, r);
}

void debug_reload(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    struct reload x;
    if (!parse(argv, argc, &x)) {
        refuse(t, c, "ERR DEBUG RELOAD only supports the MERGE, NOFLUSH and NOSAVE options.");
        return;
    }
    struct reload *of = mi_malloc(sizeof *of);
    if (of) *of = x;
    struct task *k = of ? course_start(t, c, &(struct task_command){row, argv, argc}, &course, of) : NULL;
    if (k) {
        course_hold(t, k);
        return;
    }
    mi_free(of);
    refuse(t, c, "OOM out of memory");
}
