/* What must happen besides a new value, where something must: at CONFIG SET, and at start where the row says so. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "server/config_table.h"
#include "server/listeners.h"
#include "server/loading.h"
#include "server/log.h"
#include "server/thread.h"

#define FDS_BESIDE_CLIENTS 64

bool apply_loglevel(const struct config *from, struct config *to, char *why) {
    (void)from;
    (void)why;
    log_set_level((enum log_level)to->loglevel);
    return true;
}

/* The snapshot keeps it as an absolute path, whatever was given. */
bool apply_dir(const struct config *from, struct config *to, char *why) {
    (void)from;
    if (!chdir(to->dir) && getcwd(to->dir, sizeof to->dir)) return true;
    snprintf(why, DIRECTIVE_WHY_MAX, "%s", strerror(errno));
    return false;
}

/* What it opens takes the place of what is open when all of the CONFIG SET is well (listeners_change); so there is nothing to undo. */
static bool open_listeners(const struct config *c, char *why, const char *text) {
    const char *name = listeners_unknown(c);
    if (name) {
        snprintf(why, DIRECTIVE_WHY_MAX, "host names are looked up at start only, and %s was not: give its address", name);
        return false;
    }
    if (listeners_open(c)) return true;
    snprintf(why, DIRECTIVE_WHY_MAX, "%s", text);
    return false;
}

bool apply_bind(const struct config *from, struct config *to, char *why) {
    (void)from;
    return open_listeners(to, why, "Failed to bind to specified addresses.");
}

bool apply_port(const struct config *from, struct config *to, char *why) {
    (void)from;
    return open_listeners(to, why, "Unable to listen on this port. Check server logs.");
}

/* Raises the limit on open files so that as many clients may come. Returns for how many there is room. */
static int64_t make_room(int64_t clients) {
    struct rlimit l;
    rlim_t want = (rlim_t)clients + FDS_BESIDE_CLIENTS;
    if (getrlimit(RLIMIT_NOFILE, &l)) return clients;
    if (l.rlim_cur >= want) return clients;
    struct rlimit more = {want, l.rlim_max < want ? want : l.rlim_max};
    if (!setrlimit(RLIMIT_NOFILE, &more)) return clients;
    /* Above the hard limit only the administrator may go: take all of it. */
    more = (struct rlimit){want < l.rlim_max ? want : l.rlim_max, l.rlim_max};
    if (setrlimit(RLIMIT_NOFILE, &more)) more = l;
    return more.rlim_cur >= want ? clients : (int64_t)more.rlim_cur - FDS_BESIDE_CLIENTS;
}

bool apply_maxclients(const struct config *from, struct config *to, char *why) {
    (void)from;
    int64_t room = make_room(to->maxclients);
    if (room >= to->maxclients) return true;
    snprintf(why, DIRECTIVE_WHY_MAX, "The operating system is not able to handle the specified number of clients, try with %lld",
        (long long)room);
    return false;
}

static void limit_memory(uint64_t limit) {
    struct shard **shards = calloc(server.n_threads, sizeof *shards);
    if (!shards) abort();
    for (uint32_t i = 0; i < server.n_threads; i++) shards[i] = server.threads[i]->shard;
    shards_limit(shards, server.n_threads, limit);
    free(shards);
    if (budget_exceeded(&server.budget))
        log_line(LOG_WARNING_LEVEL,
            "maxmemory is below what the data take already: commands that take more memory are refused until keys are deleted");
}

/* CONFIG SET holds all shards, but beside a loading, which comes here at its end; at start nobody has them yet. */
void config_limit_memory(const struct config *c) {
    if (!loading_is_running()) limit_memory((uint64_t)c->maxmemory);
}

void config_lift_memory_limit(void) { limit_memory(0); }

bool apply_maxmemory(const struct config *from, struct config *to, char *why) {
    (void)from;
    (void)why;
    config_limit_memory(to);
    return true;
}

int config_fit_clients(void) {
    const struct config *c = config_current();
    int64_t room = make_room(c->maxclients);
    if (room >= c->maxclients) return 0;
    if (room < 1) {
        log_line(LOG_WARNING_LEVEL, "Only %lld open files are allowed, too few for a single client: raise the limit (ulimit -n)",
            (long long)room + FDS_BESIDE_CLIENTS);
        return 1;
    }
    struct config *next = malloc(sizeof *next);
    if (!next) return 1;
    *next = *c;
    next->maxclients = room;
    log_line(LOG_WARNING_LEVEL,
        "maxclients %lld needs %lld open files, but only %lld are allowed: it is %lld now (raise the limit with ulimit -n)",
        (long long)c->maxclients, (long long)c->maxclients + FDS_BESIDE_CLIENTS, (long long)room + FDS_BESIDE_CLIENTS, (long long)room);
    config_install(next);
    free((void *)c);
    return 0;
}
