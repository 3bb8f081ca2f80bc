#include "server/clients.h"

#include <mimalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "server/client_memory.h"
#include "server/conn.h"
#include "server/introspect.h"
#include "server/multi.h"
#include "server/waiting.h"

#define LIST_SLICE 16u          /* connections of one slice: two system calls and a line each, about 100 us */
#define LIST_SLICE_BYTES 65536u /* or so many bytes of long names */
#define LINE_BYTES 320u         /* of a connection without a long name, about */
#define ARGS_SLICE 512u         /* arguments of LIST ID and KILL that one slice reads; or connections that are indexed, or compared */

typedef unsigned long long ull;

/* ---- a line: the fields of Redis 7.0, in its order ---- */

/* Names have any length, so they are not copied before they are written to the reply. */
struct line {
    struct part {
        const char *p;
        size_t size;
    } parts[8];
    uint32_t n;
    size_t size;                 /* of all parts */
    char front[512], back[1024]; /* before the name and behind it: numbers, addresses, words of ours */
};

static void line_add(struct line *l, const char *p, size_t size) {
    l->parts[l->n++] = (struct part){p, size};
    l->size += size;
}

static void line_add_text(struct line *l, const char *text) { line_add(l, text ? text : "", text ? strlen(text) : 0); }

static void describe(struct thread *t, const struct conn *c, struct line *l) {
    char peer[CONN_ADDRESS_MAX], local[CONN_ADDRESS_MAX], command[COMMAND_FULL_NAME] = "NULL", flags[11];
    const struct multi *multi = c->multi;
    size_t n_flags = 0, queued = c->in ? c->in->size - c->in_at : 0, room = c->in ? c->in->capacity - c->in->size : 0;
    size_t out_bytes = c->out.size + c->out.refs_bytes, flight = c->stream.sending ? c->flight.size + c->flight.refs_bytes : 0;
    if (c->partial && c->partial->blob) queued += c->partial->blob_have;
    conn_address(c, peer);
    if (socket_local_text(c->stream.fd, local) < 0) *local = 0;
    if (c->row) command_full_name(introspect_shown(c->row), command);
    if (c->monitor) flags[n_flags++] = 'O';
    if (multi && multi->on) flags[n_flags++] = 'x';
    if (c->waiting) flags[n_flags++] = 'b';
    if (multi && multi_is_touched(multi, t->n_threads)) flags[n_flags++] = 'd';
    if (c->close_after_reply) flags[n_flags++] = 'c';
    if (c->unix_socket) flags[n_flags++] = 'U';
    if (c->no_evict) flags[n_flags++] = 'e';
    if (c->no_touch) flags[n_flags++] = 'T';
    if (!n_flags) flags[n_flags++] = 'N';
    flags[n_flags] = 0;
    l->n = 0;
    l->size = 0;
    snprintf(l->front, sizeof l->front, "id=%llu addr=%s laddr=%s fd=%d name=", (ull)c->id, peer, local, c->stream.fd);
    snprintf(l->back, sizeof l->back,
        " age=%llu idle=%llu flags=%s db=%u sub=0 psub=0 ssub=0 multi=%d qbuf=%zu qbuf-free=%zu argv-mem=0 multi-mem=%llu "
        "rbs=%zu rbp=%zu obl=%zu oll=%u omem=%zu tot-mem=%zu events=%s cmd=%s user=default redir=-1 resp=%u",
        (ull)(t->now_ns - c->created_ns) / 1000000000u, (ull)(t->now_ns - c->active_ns) / 1000000000u, flags, c->db,
        multi && multi->on ? (int)multi->n_shown : -1, queued, room, multi ? (ull)multi->shown : 0, c->out.capacity, c->out.capacity,
        c->out.size, c->out.n_refs + (flight ? 1 : 0), out_bytes + flight, (size_t)conn_memory(c), c->stream.sending ? "rw" : "r", command,
        c->resp);
    line_add_text(l, l->front);
    line_add_text(l, c->name);
    line_add_text(l, l->back);
    /* Later versions end with these. Who sent CLIENT SETINFO knows them. */
    if (c->lib_name || c->lib_version) {
        line_add_text(l, " lib-name=");
        line_add_text(l, c->lib_name);
        line_add_text(l, " lib-ver=");
        line_add_text(l, c->lib_version);
    }
    line_add_text(l, "\n");
}

static void line_write(const struct line *l, struct reply *r) {
    for (uint32_t i = 0; i < l->n; i++) reply_bytes(r, l->parts[i].p, l->parts[i].size);
}

void client_info(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    struct line line;
    (void)argv;
    (void)argc;
    describe(c->thread, c, &line);
    reply_verbatim_begin(r, "txt", line.size);
    line_write(&line, r);
    REPLY_LITERAL(r, "\r\n");
}

/* ---- a search: what LIST and KILL keep from slice to slice ---- */

enum client_type { TYPE_NORMAL, TYPE_MASTER, TYPE_REPLICA, TYPE_PUBSUB, TYPE_UNKNOWN };

static enum client_type type_of(const struct arg *a) {
    static const char *const names[] = {"normal", "master", "replica", "pubsub"};
    for (int i = 0; i < 4; i++)
        if (arg_is(a, names[i])) return (enum client_type)i;
    return arg_is(a, "slave") ? TYPE_REPLICA : TYPE_UNKNOWN;
}

/* KILL: all that is given must hold; of what is given twice the last counts. */
struct filter {
    const struct arg *addr, *laddr;
    int64_t id;
    enum client_type type;
    bool by_id, by_type, skip_me;
};

/* First the arguments are read, then the thread's connections are looked at. h->state points to it. */
struct search {
    uint32_t arg;  /* the next to read */
    uint32_t slot; /* the next to look at, in thread.slots */
    struct filter filter;
    bool checked, none; /* LIST ID: all ids are numbers. LIST TYPE: of this type there is nobody */
    uint32_t n_slots;   /* LIST ID: these are, or will be, in places */
    uint32_t *places; /* LIST ID: where the connections with these ids are, slot + 1, by hash (open addressing); NULL: all are asked for */
    uint32_t mask;
};

static struct search *search_of(const struct hop *h) { return (struct search *)(uintptr_t)h->state; }

/* At the first slice. NULL: no memory, which is replied. */
static struct search *search_begin(struct hop *h, struct reply *r) {
    struct search *x = mi_calloc(1, sizeof *x);
    if (!x) reply_no_memory(r);
    h->state = (uint64_t)(uintptr_t)x;
    return x;
}

static enum hop_result search_end(struct hop *h) {
    struct search *x = search_of(h);
    mi_free(x->places);
    mi_free(x);
    h->state = 0;
    return HOP_DONE;
}

void client_search_drop(struct shard *s, struct hop *h, struct reply *r) {
    (void)s;
    (void)r;
    search_end(h);
}

/* ---- LIST ---- */

/* What decides before the ids are read. False: the error is replied. */
static bool list_begin(const struct thread *t, const struct hop *h, struct search *x, struct reply *r) {
    if (h->argc == 2) return true;
    if (h->argc == 4 && arg_is(&h->argv[2], "type")) {
        enum client_type type = type_of(&h->argv[3]);
        x->none = type != TYPE_NORMAL;
        if (type != TYPE_UNKNOWN) return true;
        reply_errorf(r, "ERR Unknown client type '%.*s'", (int)(h->argv[3].size < 128 ? h->argv[3].size : 128), h->argv[3].p);
        return false;
    }
    if (h->argc == 3 || !arg_is(&h->argv[2], "id")) {
        reply_syntax_error(r);
        return false;
    }
    uint32_t capacity = 8;
    x->n_slots = t->n_slots;
    while (capacity < 2 * x->n_slots) capacity *= 2;
    x->arg = 3;
    x->mask = capacity - 1;
    x->places = mi_calloc(capacity, sizeof *x->places);
    if (!x->places) reply_no_memory(r);
    return x->places;
}

static uint32_t hash_id(uint64_t id) { return (uint32_t)hash_key(&server.secret, (const char *)&id, sizeof id); }

/* A slice of the ids. False: one is wrong, which is replied. */
static bool list_check(const struct hop *h, struct search *x, struct reply *r) {
    int64_t id;
    for (uint32_t end = x->arg + ARGS_SLICE; x->arg < end && x->arg < h->argc; x->arg++) {
        if (parse_int64(h->argv[x->arg].p, h->argv[x->arg].size, &id)) continue;
        reply_error(r, "ERR Invalid client ID");
        return false;
    }
    if (x->arg < h->argc) return true;
    x->checked = true;
    x->arg = 3;
    return true;
}

/* A slice of the connections. Who comes later is not found: nobody can have known its id. */
static void list_index(struct thread *t, struct search *x) {
    for (uint32_t end = x->slot + ARGS_SLICE; x->slot < end && x->slot < x->n_slots; x->slot++) {
        const struct conn *c = t->slots[x->slot];
        if (!c) continue;
        uint32_t at = hash_id(c->id) & x->mask;
        while (x->places[at]) at = (at + 1) & x->mask;
        x->places[at] = x->slot + 1;
    }
}

/* Meanwhile others may have come to the slots. */
static const struct conn *find_id(const struct thread *t, const struct search *x, uint64_t id) {
    for (uint32_t at = hash_id(id) & x->mask; x->places[at]; at = (at + 1) & x->mask) {
        const struct conn *c = t->slots[x->places[at] - 1];
        if (c && c->id == id) return c;
    }
    return NULL;
}

static void list_one(struct thread *t, const struct conn *c, struct reply *r) {
    struct line line;
    if (!c || c->state == CONN_REMOVED) return;
    describe(t, c, &line);
    line_write(&line, r);
}

/* In the order of the ids, and as often as they are given, as in Redis (of one shard's connections). */
static void list_ids(struct thread *t, const struct hop *h, struct search *x, struct reply *r) {
    size_t end = r->size + LIST_SLICE_BYTES;
    uint32_t found = 0;
    for (uint32_t n = 0; n < ARGS_SLICE && found < LIST_SLICE && r->size < end && x->arg < h->argc; n++, x->arg++) {
        int64_t id = 0;
        parse_int64(h->argv[x->arg].p, h->argv[x->arg].size, &id);
        const struct conn *c = find_id(t, x, (uint64_t)id);
        found += c != NULL;
        list_one(t, c, r);
    }
}

static void list_all(struct thread *t, struct search *x, struct reply *r) {
    size_t end = r->size + LIST_SLICE_BYTES;
    /* Room for all that is to come, at once: growing the text later means to copy it, which takes longer than a slice may. */
    size_t needs = (t->n_slots - x->slot) * (size_t)LINE_BYTES;
    if (needs && r->size + (size_t)LIST_SLICE * LINE_BYTES > r->capacity) reply_room(r, needs);
    for (uint32_t n = 0; n < LIST_SLICE && r->size < end && x->slot < t->n_slots; n++, x->slot++) list_one(t, t->slots[x->slot], r);
}

/* False: all of it is done, or an error is replied. */
static bool list_goes_on(struct thread *t, const struct hop *h, struct search *x, struct reply *r) {
    if (!x->places) {
        list_all(t, x, r);
        return x->slot < t->n_slots;
    }
    if (!x->checked && !list_check(h, x, r)) return false;
    if (!x->checked) return true;
    if (x->slot < x->n_slots) list_index(t, x);
    if (x->slot < x->n_slots) return true;
    list_ids(t, h, x, r);
    return x->arg < h->argc;
}

enum hop_result client_list_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct thread *t = server.threads[s->id];
    bool first = !h->state;
    struct search *x = first ? search_begin(h, r) : search_of(h);
    if (!x) return HOP_DONE;
    if (first && !list_begin(t, h, x, r)) return search_end(h);
    return !x->none && list_goes_on(t, h, x, r) ? HOP_AGAIN : search_end(h);
}

/* ---- KILL ---- */

/* One filter and its value. False: the error is replied. */
static bool kill_filter(struct filter *f, const struct arg *name, const struct arg *value, struct reply *r) {
    if (arg_is(name, "id")) {
        f->by_id = true;
        if (parse_int64(value->p, value->size, &f->id) && f->id > 0) return true;
        reply_error(r, "ERR client-id should be greater than 0");
    } else if (arg_is(name, "type")) {
        f->type = type_of(value);
        f->by_type = true;
        if (f->type != TYPE_UNKNOWN) return true;
        reply_errorf(r, "ERR Unknown client type '%.*s'", (int)(value->size < 128 ? value->size : 128), value->p);
    } else if (arg_is(name, "addr")) {
        f->addr = value;
        return true;
    } else if (arg_is(name, "laddr")) {
        f->laddr = value;
        return true;
    } else if (arg_is(name, "user")) {
        if (value->size == 7 && !memcmp(value->p, "default", 7)) return true;
        reply_errorf(r, "ERR No such user '%.*s'", (int)(value->size < 128 ? value->size : 128), value->p);
    } else if (arg_is(name, "skipme") && (arg_is(value, "yes") || arg_is(value, "no"))) {
        f->skip_me = arg_is(value, "yes");
        return true;
    } else reply_syntax_error(r);
    return false;
}

/* A slice of the filters, all of which are read before anybody is killed. False: one is wrong, which is replied. */
static bool kill_read(const struct hop *h, struct search *x, struct reply *r) {
    for (uint32_t end = x->arg + ARGS_SLICE; x->arg < end && x->arg < h->argc; x->arg += 2) {
        if (x->arg + 1 == h->argc) {
            reply_syntax_error(r);
            return false;
        }
        if (!kill_filter(&x->filter, &h->argv[x->arg], &h->argv[x->arg + 1], r)) return false;
    }
    return true;
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

static void kill_some(struct thread *t, struct search *x, const struct conn *by, struct reply *r) {
    bool system_calls = x->filter.addr || x->filter.laddr;
    int64_t n = 0;
    uint32_t end = x->slot + (system_calls ? LIST_SLICE : 16 * LIST_SLICE);
    for (; x->slot < end && x->slot < t->n_slots && n < LIST_SLICE; x->slot++) {
        struct conn *c = t->slots[x->slot];
        if (!c || !killed(&x->filter, c, by)) continue;
        conn_close(c, c == by);
        /* The reply may overtake the close; whoever has it must find the others gone. */
        if (c != by) shutdown(c->stream.fd, SHUT_RDWR);
        n++;
    }
    if (n) reply_bytes(r, (const char *)&n, sizeof n);
}

enum hop_result client_kill_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct thread *t = server.threads[s->id];
    bool first = !h->state, old_style = h->argc == 3;
    struct search *x = first ? search_begin(h, r) : search_of(h);
    if (!x) return HOP_DONE;
    if (first) {
        x->arg = old_style ? h->argc : 2;
        x->filter = (struct filter){.addr = old_style ? &h->argv[2] : NULL, .skip_me = !old_style};
    }
    if (x->arg < h->argc) {
        if (!kill_read(h, x, r)) return search_end(h);
        if (x->arg < h->argc) return HOP_AGAIN;
    }
    kill_some(t, x, h->origin, r);
    return x->slot < t->n_slots ? HOP_AGAIN : search_end(h);
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

/* ---- the rest ---- */

/* On every thread; a slice of its connections a call. */
enum hop_result client_unblock_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct thread *t = server.threads[s->id];
    int64_t id, found = 0;
    if (h->argc > 4) reply_subcommand_error(r, &h->argv[1], "CLIENT");
    else if (h->argc == 4 && !arg_is(&h->argv[3], "timeout") && !arg_is(&h->argv[3], "error"))
        reply_error(r, "ERR CLIENT UNBLOCK reason should be TIMEOUT or ERROR");
    else if (arg_int64(&h->argv[2], &id, r)) {
        for (uint64_t end = h->state + ARGS_SLICE; h->state < end && h->state < t->n_slots; h->state++) {
            struct conn *c = t->slots[h->state];
            if (!c || c->id != (uint64_t)id) continue;
            found = c->waiting && waiting_unblock(c, h->argc == 4 && arg_is(&h->argv[3], "error"));
            h->state = t->n_slots;
            break;
        }
        if (h->state < t->n_slots) return HOP_AGAIN;
        reply_int(r, found);
    }
    return HOP_DONE;
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
