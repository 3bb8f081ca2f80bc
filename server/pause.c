#include "server/pause.h"

#include "server/thread.h"

/* ---- who waits ---- */

static void hold(struct thread *t, struct conn *c) {
    if (c->held) return;
    t->held = array_with_room(t->held, t->n_held, &t->held_capacity, sizeof *t->held);
    t->held[t->n_held++] = c;
    c->held = true;
}

bool pause_holds(struct thread *t, struct conn *c, uint32_t flags) {
    if (t->now_ns >= t->pause_until_ns && thread_holds(t)) {
        pause_end(t);
        return false;
    }
    if (!t->pause_all && !(flags & (CMD_WRITE | CMD_MAY_REPLICATE))) return false;
    c->state = CONN_WAITING;
    hold(t, c);
    return true;
}

void pause_end(struct thread *t) {
    t->pause_until_ns = 0;
    t->shard->hide_expired = false;
    while (t->n_held) {
        struct conn *c = t->held[--t->n_held];
        c->held = false;
        if (c->state == CONN_WAITING && !conn_has_work(c)) conn_resume_later(t, c);
    }
}

void pause_forget(struct thread *t, struct conn *c) {
    for (uint32_t i = 0; c->held && i < t->n_held; i++)
        if (t->held[i] == c) t->held[i--] = t->held[--t->n_held];
}

/* ---- PAUSE, UNPAUSE ---- */

enum hop_result client_pause_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct thread *t = server.threads[s->id];
    int64_t ms;
    if (h->argc > 4) reply_subcommand_error(r, &h->argv[1], "CLIENT");
    else if (h->argc == 4 && !arg_is(&h->argv[3], "write") && !arg_is(&h->argv[3], "all"))
        reply_error(r, "ERR CLIENT PAUSE mode must be WRITE or ALL");
    else if (!parse_int64(h->argv[2].p, h->argv[2].size, &ms)) reply_error(r, "ERR timeout is not an integer or out of range");
    else if (ms < 0) reply_error(r, "ERR timeout is negative");
    else {
        /* A pause can be made longer and stricter, not shorter or weaker. */
        uint64_t until_ns = t->now_ns + ((uint64_t)ms < UINT64_MAX / 4000000 ? (uint64_t)ms * 1000000 : UINT64_MAX / 4);
        bool all = h->argc == 3 || arg_is(&h->argv[3], "all");
        t->pause_all = all || (t->pause_until_ns && t->pause_all);
        if (until_ns > t->pause_until_ns) t->pause_until_ns = until_ns;
        s->hide_expired = true;
        reply_ok(r);
    }
    return HOP_DONE;
}

enum hop_result client_unpause_piece(struct shard *s, struct hop *h, struct reply *r) {
    (void)h;
    pause_end(server.threads[s->id]);
    reply_ok(r);
    return HOP_DONE;
}
