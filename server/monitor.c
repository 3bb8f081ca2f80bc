#include "server/monitor.h"

#include <mimalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "server/conn.h"

struct monitors {
    uint32_t *of_thread; /* monitors of each thread, */
    uint32_t n;          /* and of all */
    uint32_t n_threads;
    struct conn **conns; /* those of this thread */
    uint32_t n_conns, capacity;
    struct reply *texts; /* by thread: this tick's lines for it */
};

/* A tick's lines on their way to another thread. */
struct monitor_text {
    struct message message;
    size_t size;
    char bytes[];
};

struct monitors *monitors_new(uint32_t n_threads) {
    struct monitors *m = mi_calloc(1, sizeof *m);
    if (!m) return NULL;
    m->n_threads = n_threads;
    m->of_thread = mi_calloc(n_threads, sizeof *m->of_thread);
    m->texts = mi_calloc(n_threads, sizeof *m->texts);
    if (m->of_thread && m->texts) return m;
    mi_free(m->of_thread);
    mi_free(m->texts);
    mi_free(m);
    return NULL;
}

void monitors_drop(struct monitors *m) {
    if (!m) return;
    for (uint32_t i = 0; i < m->n_conns; i++) {
        reply_drop(&m->conns[i]->monitor->waits);
        mi_free(m->conns[i]->monitor);
        m->conns[i]->monitor = NULL;
    }
    for (uint32_t i = 0; i < m->n_threads; i++) reply_drop(&m->texts[i]);
    mi_free(m->of_thread);
    mi_free(m->texts);
    mi_free(m->conns);
    mi_free(m);
}

/* ---- what is secret ---- */

/* Who says more words than this before what they are about has them hidden rather than looked through, for each of them. */
#define WORDS_SEEN 64u

/* What stands behind AUTH and AUTH2, before the keys. */
static bool is_secret_of_migrate(const struct arg *argv, uint32_t argc, uint32_t i) {
    for (uint32_t j = 6; j < argc && j < i && !arg_is(&argv[j], "keys"); j++) {
        uint32_t n = arg_is(&argv[j], "auth") ? 1 : arg_is(&argv[j], "auth2") ? 2 : 0;
        if (i <= j + n || j > WORDS_SEEN) return true;
        j += n;
    }
    return false;
}

bool secret_argument(const struct command *row, const struct arg *argv, uint32_t argc, uint32_t i) {
    if (!i) return false;
    if (!row->parent && !strcmp(row->name, "auth")) return true;
    if (!row->parent && !strcmp(row->name, "hello")) {
        for (uint32_t j = 2; j < argc; j++) {
            if (j > WORDS_SEEN) return true;
            if (arg_is(&argv[j], "auth")) {
                if (i == j + 1 || i == j + 2) return true;
                j += 2;
            } else if (arg_is(&argv[j], "setname")) j++;
        }
        return false;
    }
    if (!row->parent && !strcmp(row->name, "migrate")) return is_secret_of_migrate(argv, argc, i);
    if (row->parent && !strcmp(row->parent->name, "config") && !strcmp(row->name, "set"))
        return i > 2 && i % 2 && config_is_secret(&argv[i - 1]);
    return false;
}

/* ---- a line ---- */

/* A table instead of printf: somebody may write 500 MB of bytes that are no text. */
static void add_quoted(struct reply *r, const char *p, size_t size) {
    static const char named[] = "\n\r\t\a\b\\\"", letters[] = "nrtab\\\"", hex[] = "0123456789abcdef";
    REPLY_LITERAL(r, "\"");
    for (size_t i = 0; i < size; i++) {
        const unsigned char byte = (unsigned char)p[i];
        const char *at = byte ? strchr(named, byte) : NULL;
        if (at) reply_bytes(r, (char[]){'\\', letters[at - named]}, 2);
        else if (byte >= ' ' && byte <= '~') reply_bytes(r, &p[i], 1);
        else reply_bytes(r, (char[]){'\\', 'x', hex[byte >> 4], hex[byte & 15]}, 4);
    }
    REPLY_LITERAL(r, "\"");
}

static void add_line(struct reply *r, struct conn *c, const struct command *row, const struct arg *argv, uint32_t argc) {
    char peer[CONN_ADDRESS_MAX], start[CONN_ADDRESS_MAX + 64];
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    conn_address(c, peer);
    int n = snprintf(start, sizeof start, "+%lld.%06ld [%u %s%s]", (long long)now.tv_sec, now.tv_nsec / 1000, c->db,
        c->unix_socket ? "unix:" : "", peer);
    if (c->unix_socket && n > 3 && !strcmp(start + n - 3, ":0]")) {
        n -= 3;
        start[n++] = ']';
    }
    reply_bytes(r, start, (size_t)n);
    for (uint32_t i = 0; i < argc; i++) {
        REPLY_LITERAL(r, " ");
        if (secret_argument(row, argv, argc, i)) REPLY_LITERAL(r, "\"(redacted)\"");
        else add_quoted(r, argv[i].p, argv[i].size);
    }
    REPLY_LITERAL(r, "\r\n");
}

void monitor_feed(struct thread *t, struct conn *c, const struct command *row, const struct arg *argv, uint32_t argc) {
    struct monitors *m = t->monitors;
    struct reply *first = NULL;
    size_t at = 0;
    if (row->flags & (CMD_ADMIN | CMD_SKIP_MONITOR)) return;
    for (uint32_t to = 0; to < t->n_threads; to++) {
        struct reply *text = &m->texts[to];
        if (!m->of_thread[to]) continue;
        if (first) {
            reply_bytes(text, first->p + at, first->size - at);
            continue;
        }
        at = text->size;
        add_line(text, c, row, argv, argc);
        if (text->failed) { /* no memory: this line is lost */
            text->size = at;
            text->failed = false;
            return;
        }
        first = text;
    }
}

/* ---- to the monitors ---- */

/* While a task is under way its reply may be half there: lines wait until it is whole. */
static void deliver(struct thread *t, const char *p, size_t size) {
    struct monitors *m = t->monitors;
    for (uint32_t i = 0; i < m->n_conns; i++) {
        struct conn *c = m->conns[i];
        struct reply *waits = &c->monitor->waits;
        if (c->state >= CONN_CLOSING) continue;
        if (c->task) {
            reply_bytes(waits, p, size);
            uint64_t most = t->config->output_limit[CLIENT_REPLICA].hard;
            if (waits->failed || (most && waits->size > most)) conn_close(c, false);
            continue;
        }
        if (!(waits->size + size)) continue;
        if (!c->out.p) conn_take_spare(t, c);
        if (waits->size) reply_bytes(&c->out, waits->p, waits->size);
        reply_bytes(&c->out, p, size);
        reply_drop(waits);
        if (c->out.failed) conn_close(c, false);
        conn_mark(t, c);
    }
}

void monitor_publish(struct thread *t) {
    struct monitors *m = t->monitors;
    deliver(t, "", 0);
    for (uint32_t to = 0; to < t->n_threads; to++) {
        struct reply *text = &m->texts[to];
        if (!text->size) continue;
        if (to == t->id) deliver(t, text->p, text->size);
        else {
            struct monitor_text *x = mi_malloc(sizeof *x + text->size);
            if (x) {
                x->message = (struct message){.kind = MESSAGE_MONITOR, .from = t->id};
                x->size = text->size;
                memcpy(x->bytes, text->p, text->size);
                mailbox_push(&t->server->threads[to]->returns, &x->message);
                thread_want_wake(t, to);
            }
        }
        reply_drop(text);
    }
}

static void one_left(struct thread *t, uint32_t of) {
    struct monitors *m = t->monitors;
    m->of_thread[of]--;
    t->monitored = --m->n != 0;
}

void monitor_message(struct thread *t, struct message *x) {
    if (x->kind == MESSAGE_MONITOR_LEFT) one_left(t, x->from);
    else {
        struct monitor_text *text = (struct monitor_text *)x;
        deliver(t, text->bytes, text->size);
    }
    mi_free(x);
}

/* ---- coming and going ---- */

static void tell_all_one_left(struct thread *t) {
    for (uint32_t to = 0; to < t->n_threads; to++) {
        if (to == t->id) continue;
        struct message *x = mi_malloc(sizeof *x);
        if (!x) abort();
        *x = (struct message){.kind = MESSAGE_MONITOR_LEFT, .from = t->id};
        mailbox_push(&t->server->threads[to]->returns, x);
        thread_want_wake(t, to);
    }
    one_left(t, t->id);
}

void monitor_leave(struct thread *t, struct conn *c) {
    struct monitors *m = t->monitors;
    if (!c->monitor) return;
    for (uint32_t i = 0; i < m->n_conns; i++)
        if (m->conns[i] == c) m->conns[i--] = m->conns[--m->n_conns];
    reply_drop(&c->monitor->waits);
    mi_free(c->monitor);
    c->monitor = NULL;
    tell_all_one_left(t);
}

/* The thread knows of one more monitor, of the thread that asks. */
enum hop_result monitor_piece(struct shard *s, struct hop *h, struct reply *r) {
    struct thread *t = server.threads[s->id];
    const struct conn *c = h->origin;
    t->monitors->of_thread[c->thread->id]++;
    t->monitors->n++;
    t->monitored = true;
    (void)r; /* so that nothing of it can be refused: the merge counts on all pieces */
    return HOP_DONE;
}

void monitor_merge(const struct hop *h, struct reply *const *pieces, uint32_t n, struct reply *r) {
    struct conn *c = h->origin;
    struct thread *t = c->thread;
    struct monitors *m = t->monitors;
    (void)pieces;
    (void)n;
    if (m->n_conns == m->capacity) {
        uint32_t capacity = m->capacity ? m->capacity * 2 : 4;
        struct conn **conns = mi_realloc(m->conns, capacity * sizeof *conns);
        if (conns) {
            m->conns = conns;
            m->capacity = capacity;
        }
    }
    if (c->monitor) { /* Redis says nothing to one that monitors already */
        tell_all_one_left(t);
        return;
    }
    if (m->n_conns < m->capacity) c->monitor = mi_calloc(1, sizeof *c->monitor);
    if (!c->monitor) {
        tell_all_one_left(t);
        reply_no_memory(r);
        return;
    }
    m->conns[m->n_conns++] = c;
    reply_ok(r);
}
