#include "server/clients.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "server/client_memory.h"
#include "server/conn.h"
#include "server/introspect.h"

#define LIST_SLICE 16u  /* connections of one slice: two system calls and a line each, about 100 us */
#define LINE_BYTES 320u /* of a connection without a long name, about */

typedef unsigned long long ull;

/* ---- a line: the fields of Redis 7.0, in its order ---- */

static size_t describe(struct thread *t, const struct conn *c, char *out, size_t size) {
    char peer[CONN_ADDRESS_MAX], local[CONN_ADDRESS_MAX], command[COMMAND_FULL_NAME] = "NULL", flags[8];
    size_t n_flags = 0, queued = c->in ? c->in->size - c->in_at : 0, room = c->in ? c->in->capacity - c->in->size : 0;
    size_t out_bytes = c->out.size + c->out.refs_bytes, flight = c->stream.sending ? c->flight.size + c->flight.refs_bytes : 0;
    if (c->partial && c->partial->blob) queued += c->partial->blob_have;
    conn_address(c, peer);
    if (socket_local_text(c->stream.fd, local) < 0) *local = 0;
    if (c->row) command_full_name(introspect_shown(c->row), command);
    if (c->monitor) flags[n_flags++] = 'O';
    if (c->close_after_reply) flags[n_flags++] = 'c';
    if (c->unix_socket) flags[n_flags++] = 'U';
    if (c->no_evict) flags[n_flags++] = 'e';
    if (c->no_touch) flags[n_flags++] = 'T';
    if (!n_flags) flags[n_flags++] = 'N';
    flags[n_flags] = 0;
    int n = snprintf(out, size,
        "id=%llu addr=%s laddr=%s fd=%d name=%s age=%llu idle=%llu flags=%s db=%u sub=0 psub=0 ssub=0 multi=-1 qbuf=%zu qbuf-free=%zu "
        "argv-mem=0 multi-mem=0 "
        "rbs=%zu rbp=%zu obl=%zu oll=%u omem=%zu tot-mem=%zu events=%s cmd=%s user=default redir=-1 resp=%u",
        (ull)c->id, peer, local, c->stream.fd, c->name ? c->name : "", (ull)(t->now_ns - c->created_ns) / 1000000000u,
        (ull)(t->now_ns - c->active_ns) / 1000000000u, flags, c->db, queued, room, c->out.capacity, c->out.capacity, c->out.size,
        c->out.n_refs + (flight ? 1 : 0), out_bytes + flight, (size_t)conn_memory(c), c->stream.sending ? "rw" : "r", command, c->resp);
    size_t at = n < 0 ? 0 : (size_t)n < size - 1 ? (size_t)n : size - 2;
    /* Later versions end with these. Who sent CLIENT SETINFO knows them. */
    if (c->lib_name || c->lib_version) {
        n = snprintf(
            out + at, size - 1 - at, " lib-name=%s lib-ver=%s", c->lib_name ? c->lib_name : "", c->lib_version ? c->lib_version : "");
        at += n < 0 ? 0 : (size_t)n < size - 1 - at ? (size_t)n : size - 2 - at;
    }
    out[at++] = '\n';
    return at;
}

#define LINE_MAX_BYTES 2048

void client_info(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    char line[LINE_MAX_BYTES];
    (void)argv;
    (void)argc;
    reply_verbatim(r, "txt", line, describe(c->thread, c, line, sizeof line));
}

/* ---- LIST ---- */

enum client_type { TYPE_NORMAL, TYPE_MASTER, TYPE_REPLICA, TYPE_PUBSUB, TYPE_UNKNOWN };

static enum client_type type_of(const struct arg *a) {
    static const char *const names[] = {"normal", "master", "replica", "pubsub"};
    for (int i = 0; i < 4; i++)
        if (arg_is(a, names[i])) return (enum client_type)i;
    return arg_is(a, "slave") ? TYPE_REPLICA : TYPE_UNKNOWN;
}

/* All arguments of LIST are right, or the error is replied. */
static bool list_options(const struct hop *h, struct reply *r) {
    if (h->argc == 2) return true;
    if (h->argc == 4 && arg_is(&h->argv[2], "type")) {
        if (type_of(&h->argv[3]) != TYPE_UNKNOWN) return true;
        reply_errorf(r, "ERR Unknown client type '%.*s'", (int)(h->argv[3].size < 128 ? h->argv[3].size : 128), h->argv[3].p);
        return false;
    }
    if (h->argc > 3 && arg_is(&h->argv[2], "id")) {
        int64_t id;
        for (uint32_t i = 3; i < h->argc; i++)
            if (!parse_int64(h->argv[i].p, h->argv[i].size, &id)) {
                reply_error(r, "ERR Invalid client ID");
                return false;
            }
        return true;
    }
    reply_syntax_error(r);
    return false;
}

/* LIST ID. */
static bool of_some(const struct hop *h) { return h->argc > 3 && arg_is(&h->argv[2], "id"); }

static bool listed(const struct hop *h, const struct conn *c) {
    if (h->argc == 2) return true;
    if (h->argc == 4 && arg_is(&h->argv[2], "type")) return type_of(&h->argv[3]) == TYPE_NORMAL;
    int64_t id;
    for (uint32_t i = 3; i < h->argc; i++)
        if (parse_int64(h->argv[i].p, h->argv[i].size, &id) && (uint64_t)id == c->id) return true;
    return false;
}

enum hop_result client_list_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct thread *t = server.threads[s->id];
    char line[LINE_MAX_BYTES];
    if (!h->state && !list_options(h, r)) return HOP_DONE;
    /* Room for all that is to come, at once: growing the text later means to copy it, which takes longer than a slice may. */
    if (!of_some(h) && h->state < t->n_slots && r->size + (size_t)LIST_SLICE * LINE_BYTES > r->capacity)
        reply_room(r, (t->n_slots - h->state) * (size_t)LINE_BYTES);
    for (uint32_t n = 0; n < LIST_SLICE && h->state < t->n_slots; n++, h->state++) {
        const struct conn *c = t->slots[h->state];
        if (c && c->state != CONN_REMOVED && listed(h, c)) reply_bytes(r, line, describe(t, c, line, sizeof line));
    }
    return h->state < t->n_slots ? HOP_AGAIN : HOP_DONE;
}

/* ---- KILL ---- */

struct filter {
    const struct arg *addr, *laddr;
    int64_t id;
    enum client_type type;
    bool by_id, by_type, skip_me, old_style;
};

static bool kill_options(const struct hop *h, struct filter *f, struct reply *r) {
    *f = (struct filter){.skip_me = true};
    if (h->argc == 3) {
        *f = (struct filter){.addr = &h->argv[2], .old_style = true};
        return true;
    }
    for (uint32_t i = 2; i < h->argc; i += 2) {
        const struct arg *name = &h->argv[i], *value = i + 1 < h->argc ? name + 1 : NULL;
        if (!value) break;
        if (arg_is(name, "id")) {
            if (!parse_int64(value->p, value->size, &f->id) || f->id < 1) {
                reply_error(r, "ERR client-id should be greater than 0");
                return false;
            }
            f->by_id = true;
        } else if (arg_is(name, "type")) {
            f->type = type_of(value);
            f->by_type = true;
            if (f->type == TYPE_UNKNOWN) {
                reply_errorf(r, "ERR Unknown client type '%.*s'", (int)(value->size < 128 ? value->size : 128), value->p);
                return false;
            }
        } else if (arg_is(name, "addr")) f->addr = value;
        else if (arg_is(name, "laddr")) f->laddr = value;
        else if (arg_is(name, "user")) {
            if (value->size != 7 || memcmp(value->p, "default", 7)) {
                reply_errorf(r, "ERR No such user '%.*s'", (int)(value->size < 128 ? value->size : 128), value->p);
                return false;
            }
        } else if (arg_is(name, "skipme") && (arg_is(value, "yes") || arg_is(value, "no"))) f->skip_me = arg_is(value, "yes");
        else {
            reply_syntax_error(r);
            return false;
        }
    }
    if (h->argc % 2) reply_syntax_error(r);
    return !(h->argc % 2);
}

static bool same_text(const struct arg *a, const char *text) { return a->size == strlen(text) && !memcmp(a->p, text, a->size); }

static bool killed(const struct filter *f, const struct conn *c, const struct conn *by) {
    char text[CONN_ADDRESS_MAX];
    if (conn_is_going(c) || (f->by_id && (uint64_t)f->id != c->id) || (f->by_type && f->type != TYPE_NORMAL) || (f->skip_me && c == by))
        return false;
    if (f->addr) {
        conn_address(c, text);
        if (!same_text(f->addr, text)) return false;
    }
    return !f->laddr || (socket_local_text(c->stream.fd, text) >= 0 && same_text(f->laddr, text));
}

enum hop_result client_kill_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct thread *t = server.threads[s->id];
    struct filter f;
    if (!h->state && !kill_options(h, &f, r)) return HOP_DONE;
    if (h->state) kill_options(h, &f, r);
    int64_t n = 0;
    uint32_t end = h->state + 16 * LIST_SLICE < t->n_slots ? (uint32_t)h->state + 16 * LIST_SLICE : t->n_slots;
    if (f.addr || f.laddr) end = h->state + LIST_SLICE < t->n_slots ? (uint32_t)h->state + LIST_SLICE : t->n_slots;
    for (; h->state < end && n < LIST_SLICE; h->state++) {
        struct conn *c = t->slots[h->state];
        if (!c || !killed(&f, c, h->origin)) continue;
        conn_close(c, c == h->origin);
        /* The reply may overtake the close; whoever has it must find the others gone. */
        if (c != h->origin) shutdown(c->stream.fd, SHUT_RDWR);
        n++;
    }
    if (n) reply_bytes(r, (const char *)&n, sizeof n);
    return h->state < t->n_slots ? HOP_AGAIN : HOP_DONE;
}

void client_kill_merge(const struct hop *h, struct reply *const *pieces, uint32_t n, struct reply *r) {
    int64_t sum = 0, count;
    for (uint32_t i = 0; i < n; i++) {
        if (pieces[i]->size && pieces[i]->p[0] == '-') {
            reply_bytes(r, pieces[i]->p, pieces[i]->size);
            return;
        }
        for (size_t at = 0; at < pieces[i]->size; at += sizeof count) {
            memcpy(&count, pieces[i]->p + at, sizeof count);
            sum += count;
        }
    }
    if (h->argc != 3) reply_int(r, sum);
    else if (sum) reply_ok(r);
    else reply_error(r, "ERR No such client");
}

/* ---- PAUSE ---- */

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
    conn_let_go(server.threads[s->id]);
    reply_ok(r);
    return HOP_DONE;
}

/* ---- the rest ---- */

void client_unblock(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    int64_t id;
    (void)c;
    if (argc > 4) reply_subcommand_error(r, &argv[1], "CLIENT");
    else if (argc == 4 && !arg_is(&argv[3], "timeout") && !arg_is(&argv[3], "error"))
        reply_error(r, "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
    else if (arg_int64(&argv[2], &id, r)) reply_int(r, 0); /* no command blocks yet */
}

void client_no_evict(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)argc;
    if (!arg_is(&argv[2], "on") && !arg_is(&argv[2], "off")) {
        reply_syntax_error(r);
        return;
    }
    c->no_evict = arg_is(&argv[2], "on");
    client_memory_count(c->thread, c);
    reply_ok(r);
}

void client_getredir(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)c;
    (void)argv;
    (void)argc;
    reply_int(r, -1);
}
