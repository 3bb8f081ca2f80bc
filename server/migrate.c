/* MIGRATE: a course that takes its keys to another server group by group, each group as a transaction of its own.
 *
 *   state      | what is waited for                                       | leaves to
 *   FINDING    | the addresses of a host with a name (the disk's thread)  | SCHEDULED
 *   SCHEDULED  | the intents on the keys of a group                       | DUMPING; LEAVING if the target is lost
 *   DUMPING    | a shard that writes the commands of some keys            | CONNECTING, SENDING, ANSWERS; LEAVING if the target is lost
 *   CONNECTING | the target, once there is something for it               | SENDING, LEAVING
 *   SENDING    | the target's taking of what was dumped                   | DUMPING, ANSWERS, LEAVING
 *   ANSWERS    | its answers to all keys of the group                     | LEAVING
 *   LEAVING    | the deletion of what it has; the intents go              | SCHEDULED, with the next group; or the reply
 *   GOING_ON   | the end of what looks on (a snapshot's cut), before      | DUMPING or LEAVING, as it was meant; LEAVING if the target is lost
 *
 *   invariant: hops are under way in SCHEDULED, DUMPING and LEAVING only; then, and in GOING_ON, on() is called. In the others it is the stream that goes on, and the transaction
 *   rests.
 *
 * A key is deleted only if the target has said that it has it. Memory: the commands of some keys (BATCH_BYTES), or of one long value, and what is on its way.
 * Answers are read while keys are sent, so a target that answers and one that reads never wait for each other. Each wait for the target has the timeout of its own, as in
 * Redis: for the connection, for each piece of SEND_BYTES that it takes, for each line that it answers.
 *
 * In this file: the stream; answers; sending; dumping; groups; the end; the command; events.
 */
#include "server/migrate.h"

#include <errno.h>
#include <mimalloc.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "io/socket.h"
#include "server/client_memory.h"
#include "server/conn.h"
#include "server/course.h"
#include "server/dump.h"
#include "server/task_internal.h"

/* Keys under the intents of one transaction: no shard is busy with them for long, and what was migrated is let go soon. */
#define GROUP_KEYS 512u
/* Commands that are put together before they are sent; what a value must have to be sent from where it was dumped. */
#define BATCH_BYTES (64u << 10)
#define LONG_BYTES (16u << 10)
/* Sent at once: what a target must take within the timeout; and in one turn of the thread. */
#define SEND_BYTES (256u << 10)
#define TURN_BYTES (1u << 20)
/* A long value's memory that is kept for the next one. */
#define KEPT_BYTES (1u << 20)
/* A line of the target, with its end. As in Redis; longer ones are not read. */
#define LINE_BYTES 1024u
/* How often it is asked whether somebody waits for the keys of one that rests, while somebody wants all shards. */
#define HURRY_AGAIN_NS 100000000u
#define ROUNDS_MAX 8u /* each of TXN_TRIES */
#define TIMEOUT_MS 1000

enum state { FINDING, SCHEDULED, DUMPING, CONNECTING, SENDING, ANSWERS, LEAVING, GOING_ON };
/* Why the target is lost, or not gone on with. */
enum loss { LOSS_NONE, LOSS_CONNECTING, LOSS_WRITING, LOSS_READING, LOSS_MEMORY, LOSS_TRANSACTION };

struct migrant {
    const struct arg *name;
    uint64_t hash;
    uint32_t shard;
    bool there;     /* it was, and is on its way */
    bool has_moved; /* the target said so */
};

struct options {
    bool copy, replace;
    uint16_t port;
    int64_t db, timeout_ms;
    const struct arg *user, *password; /* NULL: none */
    uint32_t first_key, n_keys;        /* arguments */
};

struct migrate {
    struct stream stream;             /* first */
    bool connected, streaming, going; /* streaming: the proactor names the stream; going: it was told to remove it */
    struct deadline deadline;
    struct thread *thread;
    struct migrate *newer, *older; /* of the thread */
    struct task *task;             /* NULL: it is over, and the stream is going */
    uint8_t state, lost;           /* enum state, enum loss */
    bool goes_on;                  /* the deadline is for the next turn */
    bool leaves;                   /* GOING_ON: to LEAVING */
    struct options options;
    char *host;
    struct socket_addresses addresses;
    uint32_t next_address;
    uint32_t rounds; /* withdrawn so often */
    /* Keys, by their shards. The group is [first, end); of it those before next are dumped, before n_sent sent or on their way, before n_answered answered. */
    uint32_t n, first, end, next, n_sent, n_answered;
    bool any_there;
    /* Written by the shard that dumps, then sent. */
    struct rdb_buffer commands;
    struct dump dump;
    bool dumping, is_long, no_memory; /* dumping: a value, in slices; is_long: dump.text is sent behind the commands */
    uint64_t n_dumped;                /* keys of the batch */
    _Atomic uint64_t bytes;           /* of both, as the shard told last, or what is left of them */
    unsigned part;                    /* of what is sent: commands, value, tail */
    size_t part_at, part_out;         /* bytes that are out, and on their way */
    /* Answers. */
    unsigned greetings;                                            /* of AUTH and SELECT, that are still to come */
    char line[LINE_BYTES], refusal[LINE_BYTES], error[LINE_BYTES]; /* refusal: of AUTH or SELECT; error: what is replied. Empty: none */
    size_t line_size;
    struct migrant keys[];
};

static void go_on(struct migrate *m);
static void leave(struct migrate *m);
static void connect_next(struct migrate *m);

/* ---- the stream ---- */

static void forget_deadline(struct migrate *m) {
    m->goes_on = false;
    deadlines_remove(&m->thread->migrate_deadlines, &m->deadline);
}

static void wait_until(struct migrate *m, uint64_t at_ns) {
    forget_deadline(m);
    m->deadline.at_ns = at_ns;
    if (!deadlines_add(&m->thread->migrate_deadlines, &m->deadline)) abort();
}

/* The target has done something: its time begins anew. */
static void renew(struct migrate *m) { wait_until(m, m->thread->now_ns + (uint64_t)m->options.timeout_ms * 1000000); }

static void close_stream(struct migrate *m) {
    if (!m->streaming || m->going) return;
    m->going = true;
    m->connected = false;
    proactor_remove(m->thread->proactor, &m->stream);
}

static bool stream_waits(const struct migrate *m) { return m->state == CONNECTING || m->state == SENDING || m->state == ANSWERS; }

static bool is_leaving(const struct migrate *m) { return m->state == LEAVING || (m->state == GOING_ON && m->leaves); }

/* What a hop is under way for comes to its end first. */
static void lose(struct migrate *m, enum loss why) {
    if (m->lost) return;
    if (is_leaving(m) && m->end == m->n) { /* it has answered everything */
        close_stream(m);
        return;
    }
    m->lost = (uint8_t)why;
    forget_deadline(m);
    close_stream(m);
    if (stream_waits(m)) leave(m);
}

static enum loss loss_now(const struct migrate *m) {
    return m->state == CONNECTING ? LOSS_CONNECTING : m->state == ANSWERS ? LOSS_READING : LOSS_WRITING;
}

static void connect_next(struct migrate *m) {
    struct thread *t = m->thread;
    m->state = CONNECTING;
    while (m->next_address < m->addresses.n) {
        uint32_t i = m->next_address++;
        int fd = socket_for(&m->addresses.at[i]);
        if (fd < 0) continue;
        m->stream = (struct stream){.fd = fd, .kind = STREAM_MIGRATE};
        if (proactor_connect(t->proactor, &m->stream, (const struct sockaddr *)&m->addresses.at[i], m->addresses.sizes[i])) {
            close(fd);
            continue;
        }
        m->streaming = true;
        m->going = false;
        renew(m);
        return;
    }
    lose(m, LOSS_CONNECTING);
}

/* As in Redis, whose first write finds that nobody listens. */
static void connected(struct migrate *m, int result) {
    if (!result) {
        m->connected = true;
        go_on(m);
    } else if (m->next_address == m->addresses.n) lose(m, LOSS_WRITING);
    else close_stream(m); /* the next address, once it is removed */
}

/* ---- answers ---- */

/* Whatever is no status is no word of a server that has a key now: somebody else may listen there. */
static bool is_status(const char *line) { return line[0] == '+'; }

/* Of AUTH, or SELECT. The first refusal counts. */
static void take_greeting(struct migrate *m) {
    m->greetings--;
    if (!is_status(m->line) && !m->refusal[0]) memcpy(m->refusal, m->line, sizeof m->refusal);
}

/* False: nothing was asked that this could answer. */
static bool take_answer(struct migrate *m) {
    while (m->n_answered < m->n_sent && !m->keys[m->n_answered].there) m->n_answered++;
    if (m->n_answered == m->n_sent) return false;
    const char *error = m->refusal[0] ? m->refusal : is_status(m->line) ? NULL : m->line;
    if (!error) m->keys[m->n_answered].has_moved = true;
    else if (!m->error[0]) memcpy(m->error, error, sizeof m->error);
    m->n_answered++;
    return true;
}

#define EMPTY_LINE "an empty line"

static bool take_line(struct migrate *m) {
    while (m->line_size && (m->line[m->line_size - 1] == '\r' || m->line[m->line_size - 1] == '\n')) m->line_size--;
    memset(m->line + m->line_size, 0, sizeof m->line - m->line_size);
    m->line_size = 0;
    if (!m->line[0]) memcpy(m->line, EMPTY_LINE, sizeof EMPTY_LINE);
    if (m->greetings) {
        take_greeting(m);
        return true;
    }
    return take_answer(m);
}

static bool all_answered(const struct migrate *m) {
    for (uint32_t i = m->n_answered; i < m->n_sent; i++)
        if (m->keys[i].there) return false;
    return true;
}

static void received(struct migrate *m, const char *p, size_t size) {
    bool any = false;
    for (size_t i = 0; i < size; i++) {
        if (m->line_size == sizeof m->line - 1) {
            lose(m, LOSS_READING);
            return;
        }
        m->line[m->line_size++] = p[i];
        if (p[i] != '\n') continue;
        any = true;
        if (take_line(m)) continue;
        lose(m, LOSS_READING);
        return;
    }
    if (any && m->state == ANSWERS && all_answered(m)) leave(m);
    else if (any && stream_waits(m) && !m->goes_on) renew(m);
}

static void wait_for_answers(struct migrate *m) {
    m->state = ANSWERS;
    if (all_answered(m)) leave(m);
    else renew(m);
}

/* ---- sending ---- */

static void note_bytes(struct migrate *m) {
    atomic_store_explicit(&m->bytes, m->commands.capacity + m->dump.text.capacity, memory_order_relaxed);
}

static const char *part_of(const struct migrate *m, size_t *size) {
    const char *tail = m->options.replace ? "\r\n$7\r\nREPLACE\r\n" : "\r\n";
    switch (m->part) {
    case 0: *size = m->commands.length; return (const char *)m->commands.bytes;
    case 1: *size = m->is_long ? m->dump.text.length : 0; return (const char *)m->dump.text.bytes;
    default: *size = m->is_long ? strlen(tail) : 0; return tail;
    }
}

static void start_dump(struct migrate *m);

static void all_sent(struct migrate *m) {
    m->commands.length = m->n_dumped = 0;
    m->is_long = false;
    if (m->dump.text.capacity > KEPT_BYTES) dump_drop_text(&m->dump.text);
    note_bytes(m);
    if (m->next < m->end) start_dump(m);
    else wait_for_answers(m);
}

/* As much as the target takes, and a turn may have. */
static void send_on(struct migrate *m) {
    m->state = SENDING;
    renew(m);
    for (size_t left = TURN_BYTES;;) {
        size_t size;
        const char *p = part_of(m, &size);
        if (m->part_at == size) {
            m->part_at = 0;
            if (m->part++ < 2) continue;
            m->part = 0;
            all_sent(m);
            return;
        }
        if (left < SEND_BYTES) {
            wait_until(m, 0);
            m->goes_on = true;
            return;
        }
        size_t n = size - m->part_at < SEND_BYTES ? size - m->part_at : SEND_BYTES;
        m->part_out = n;
        if (!proactor_send(m->thread->proactor, &m->stream, &(struct iovec){(void *)(uintptr_t)(p + m->part_at), n}, 1)) return;
        m->part_at += n;
        left -= n;
    }
}

static void sent(struct migrate *m, int result) {
    if (result < 0) {
        lose(m, LOSS_WRITING);
        return;
    }
    m->part_at += m->part_out;
    send_on(m);
}

/* There is something to send, or there is nobody yet to send it to. */
static void go_on(struct migrate *m) {
    if (m->connected) send_on(m);
    else connect_next(m);
}

/* ---- dumping: on the shards ---- */

static bool put_text(struct rdb_buffer *b, const char *p, size_t size) {
    char head[32];
    return rdb_put_bytes(b, head, (size_t)snprintf(head, sizeof head, "$%zu\r\n", size)) && rdb_put_bytes(b, p, size) &&
        rdb_put_bytes(b, "\r\n", 2);
}

static bool put_int(struct rdb_buffer *b, int64_t v) {
    char text[INT64_TEXT_SIZE];
    return put_text(b, text, format_int64(text, v));
}

static bool put_count(struct rdb_buffer *b, unsigned n) {
    char head[16];
    return rdb_put_bytes(b, head, (size_t)snprintf(head, sizeof head, "*%u\r\n", n));
}

static int64_t time_left(const struct shard *s, const struct entry *e) {
    if (!entry_expires(e)) return 0;
    int64_t left = entry_expiry(e) - s->now_ms;
    return left < 1 ? 1 : left;
}

/* The value is in the text: its command, or all of it that stands before the value. */
static bool put_command(struct migrate *m, const struct migrant *x, int64_t ttl_ms) {
    struct rdb_buffer *b = &m->commands;
    const struct rdb_buffer *value = &m->dump.text;
    m->is_long = value->length >= LONG_BYTES;
    if (!put_count(b, m->options.replace ? 5 : 4) || !put_text(b, "RESTORE", 7) || !put_text(b, x->name->p, x->name->size) ||
        !put_int(b, ttl_ms))
        return false;
    char head[32];
    if (m->is_long) return rdb_put_bytes(b, head, (size_t)snprintf(head, sizeof head, "$%zu\r\n", value->length));
    return put_text(b, (const char *)value->bytes, value->length) && (!m->options.replace || put_text(b, "REPLACE", 7));
}

/* Whether the next key is there; then its value is begun with. */
static bool begin_value(struct migrate *m, struct shard *s, const struct hop *h, struct key *k) {
    const struct migrant *x = &m->keys[m->next];
    if (m->dumping) return key_look_again(s, s->dbs[h->db], x->hash, x->name->p, x->name->size, k);
    struct hop one = *h;
    one.hash = x->hash;
    one.hashes = NULL;
    one.argv = (struct arg *)(uintptr_t)x->name;
    one.n_keys = 1;
    one.key_first = 0;
    if (!key_read(s, &one, k)) return false;
    m->no_memory |= !dump_begin(&m->dump, k->entry);
    return true;
}

/* The keys of this shard that come next, until there is enough to be sent. */
static enum hop_result dump_keys(struct shard *s, struct hop *h, struct reply *r) {
    struct migrate *m = (struct migrate *)(uintptr_t)h->state;
    (void)r;
    for (; m->next < m->end && m->keys[m->next].shard == s->id && !m->is_long && m->commands.length < BATCH_BYTES; m->next++) {
        struct migrant *x = &m->keys[m->next];
        struct key k;
        x->there = begin_value(m, s, h, &k);
        if (!x->there) continue;
        enum rdb_step step = m->no_memory ? RDB_NO_MEMORY : dump_step(&m->dump, s, k.entry, DUMP_SLICE_BYTES);
        m->dumping = step == RDB_MORE;
        note_bytes(m);
        if (m->dumping) return HOP_AGAIN;
        m->no_memory = step == RDB_NO_MEMORY || !put_command(m, x, time_left(s, k.entry));
        if (m->no_memory) return HOP_DONE;
        m->n_dumped++;
    }
    return HOP_DONE;
}

static void piece(struct migrate *m, uint32_t shard, hop_fn *run) {
    struct batch *b = task_piece(m->thread, m->task, shard, m->task->argv, m->task->argc, 0, NULL, 1, (uint64_t)(uintptr_t)m);
    b->hops[0].run = run;
    b->owner_only = true;          /* it may go on in slices */
    b->now_ms = m->thread->now_ms; /* its keys don't need each other, and the time that is left to one is told as it goes */
}

/* The stream has done its part. False: hops may not be sent yet. */
static bool goes_on(struct migrate *m, bool leaves) {
    m->state = GOING_ON;
    m->leaves = leaves;
    forget_deadline(m);
    return transact_go_on(m->thread, m->task);
}

static void start_dump(struct migrate *m) {
    if (!goes_on(m, false)) return;
    m->state = DUMPING;
    piece(m, m->keys[m->next].shard, dump_keys);
    transact_send_wave(m->thread, m->task, false);
}

static void dumped(struct migrate *m) {
    task_forget_wave(m->thread, m->task);
    if (m->thread->client_memory.max) client_memory_count(m->thread, m->task->conn); /* which may close it, and so lose the target */
    if (m->no_memory) lose(m, LOSS_MEMORY);
    else if (m->thread->hurry_ns && m->thread->hurry_ns <= m->thread->now_ns && !m->thread->looks_on) lose(m, LOSS_WRITING);
    if (m->n_dumped) m->any_there = true;
    if (m->n_dumped || m->next == m->end) m->n_sent = m->next;
    if (m->lost) leave(m);
    else if (!m->n_dumped && m->next < m->end) start_dump(m);
    else {
        transact_rest(m->thread, m->task);
        if (m->n_dumped) go_on(m);
        else wait_for_answers(m);
    }
}

/* ---- groups ---- */

static uint32_t group_shards_end(const struct migrate *m, uint32_t from) {
    uint32_t to = from;
    while (to < m->end && m->keys[to].shard == m->keys[from].shard) to++;
    return to;
}

/* A member for each shard of the group's keys. False: no memory. */
static bool set_up(struct migrate *m) {
    struct task *k = m->task;
    uint32_t n = m->end - m->first, n_threads = m->thread->n_threads;
    struct intent *next = k->intents = mi_malloc((n + n_threads) * sizeof *k->intents);
    k->members = mi_calloc(n_threads, sizeof *k->members);
    k->txn = (struct txn){0};
    k->letting_go = false;
    if (!k->intents || !k->members) return false;
    for (uint32_t i = m->first, to; i < m->end; i = to) {
        to = group_shards_end(m, i);
        struct member *x = &k->members[m->keys[i].shard];
        x->intents = next;
        intent_on_database(next++, INTENT_DB, m->options.copy ? INTENT_READ_WITHIN : INTENT_WRITE_WITHIN);
        for (uint32_t j = i; j < to; j++) intent_on_key(next++, INTENT_DB, m->keys[j].hash, !m->options.copy);
        x->n_intents = 1 + to - i;
    }
    return true;
}

static void finish(struct migrate *m);

static void begin_group(struct migrate *m) {
    struct task *k = m->task;
    uint32_t left = m->n - m->first;
    if (!left || m->lost || conn_is_going(m->task->conn)) {
        finish(m);
        return;
    }
    m->end = m->first + (left < GROUP_KEYS ? left : GROUP_KEYS);
    m->next = m->n_sent = m->n_answered = m->first;
    m->state = SCHEDULED;
    if (set_up(m)) {
        transact_begin(m->thread, k);
        return;
    }
    mi_free(k->members);
    mi_free(k->intents);
    k->members = NULL;
    k->intents = NULL;
    m->lost = LOSS_MEMORY;
    finish(m);
}

static void give_up(struct thread *t, struct task *k, void *of) {
    struct migrate *m = of;
    (void)t, (void)k;
    if (++m->rounds < ROUNDS_MAX) {
        begin_group(m);
        return;
    }
    m->lost = LOSS_TRANSACTION;
    finish(m);
}

static enum hop_result delete_moved(struct shard *s, struct hop *h, struct reply *r) {
    const struct migrate *m = (const struct migrate *)(uintptr_t)h->state;
    struct key k;
    (void)r;
    for (uint32_t i = m->first; i < m->end; i++) {
        const struct migrant *x = &m->keys[i];
        if (x->shard == s->id && x->has_moved && key_find(s, s->dbs[h->db], x->hash, x->name->p, x->name->size, &k))
            key_delete(s, &k, KEY_DEL);
    }
    return HOP_DONE;
}

/* What has moved goes, then the intents. */
static void leave(struct migrate *m) {
    bool any = false;
    if (!goes_on(m, true)) return;
    m->state = LEAVING;
    for (uint32_t i = m->first; i < m->end && !m->options.copy; i++) {
        if (!m->keys[i].has_moved || m->task->pieces[m->keys[i].shard]) continue;
        piece(m, m->keys[i].shard, delete_moved);
        any = true;
    }
    if (any) transact_send_wave(m->thread, m->task, true);
    else transact_let_go(m->thread, m->task);
}

static void left_group(struct migrate *m) {
    task_forget_wave(m->thread, m->task);
    transact_end(m->thread, m->task);
    m->first = m->end;
    begin_group(m);
}

/* ---- the end ---- */

static void unlink_and_free(struct migrate *m) {
    if (m->newer) m->newer->older = m->older;
    else m->thread->migrates = m->older;
    if (m->older) m->older->newer = m->newer;
    rdb_buffer_drop(&m->commands);
    dump_drop_text(&m->dump.text);
    mi_free(m->host);
    mi_free(m);
}

static void reply_end(const struct migrate *m, struct reply *r) {
    if (m->error[0]) reply_errorf(r, "ERR Target instance replied with error: %s", m->error + (m->error[0] == '-'));
    else if (m->lost == LOSS_MEMORY) reply_no_memory(r);
    else if (m->lost == LOSS_TRANSACTION) reply_error(r, "TRYAGAIN Too many other transactions on these keys");
    else if (m->lost == LOSS_CONNECTING) reply_error(r, "IOERR error or timeout connecting to the client");
    else if (m->lost) reply_errorf(r, "IOERR error or timeout %s to target instance", m->lost == LOSS_WRITING ? "writing" : "reading");
    else if (!m->any_there) reply_status(r, "NOKEY");
    else reply_ok(r);
}

static void finish(struct migrate *m) {
    struct task *k = m->task;
    forget_deadline(m);
    reply_end(m, course_output(m->thread, k));
    m->task = NULL;
    close_stream(m);
    if (!m->streaming) unlink_and_free(m);
    course_end(k->conn->thread, k);
}

void migrate_drop_all(struct thread *t) {
    while (t->migrates) unlink_and_free(t->migrates);
}

/* ---- the command ---- */

static void step(struct thread *t, struct task *k, void *of) {
    struct migrate *m = of;
    (void)t, (void)k;
    switch ((enum state)m->state) {
    case FINDING: begin_group(m); return;
    case SCHEDULED:
        task_forget_wave(t, k);
        if (m->lost) leave(m);
        else start_dump(m);
        return;
    case DUMPING: dumped(m); return;
    case LEAVING: left_group(m); return;
    case GOING_ON:
        if (m->leaves || m->lost) leave(m);
        else start_dump(m);
        return;
    case CONNECTING:
    case SENDING:
    case ANSWERS: break;
    }
    abort();
}

/* migrate_drop_all() frees it. */
static void drop(void *of) { ((struct migrate *)of)->task = NULL; }

/* CLIENT KILL, and clients that end otherwise than in order. What the target has by then is deleted. */
static void left(struct thread *t, struct task *k, void *of) {
    struct migrate *m = of;
    (void)t, (void)k;
    if (m->state != FINDING) lose(m, loss_now(m));
}

static uint64_t memory(const void *of) {
    const struct migrate *m = of;
    return m ? sizeof *m + m->n * sizeof *m->keys + atomic_load_explicit(&m->bytes, memory_order_relaxed) : 0;
}

static const struct task_course course = {.on = step, .gave_up = give_up, .drop = drop, .left = left, .memory = memory};

static bool read_options(const struct arg *argv, uint32_t argc, struct options *o, struct reply *r) {
    *o = (struct options){.first_key = 3, .n_keys = 1};
    for (uint32_t i = 6; i < argc; i++) {
        uint32_t more = argc - 1 - i;
        if (arg_is(&argv[i], "copy")) o->copy = true;
        else if (arg_is(&argv[i], "replace")) o->replace = true;
        else if (arg_is(&argv[i], "auth") && more >= 1) {
            o->user = NULL;
            o->password = &argv[++i];
        } else if (arg_is(&argv[i], "auth2") && more >= 2) {
            o->user = &argv[++i];
            o->password = &argv[++i];
        } else if (arg_is(&argv[i], "keys")) {
            if (argv[3].size) {
                reply_error(r, "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string");
                return false;
            }
            o->first_key = i + 1;
            o->n_keys = more;
            break;
        } else {
            reply_syntax_error(r);
            return false;
        }
    }
    if (!arg_int64(&argv[5], &o->timeout_ms, r) || !arg_int64(&argv[4], &o->db, r)) return false;
    if (o->timeout_ms <= 0) o->timeout_ms = TIMEOUT_MS;
    if (o->timeout_ms > INT32_MAX) o->timeout_ms = INT32_MAX;
    return true;
}

/* As atoi has it. */
static uint16_t read_port(const struct arg *a) {
    char text[16] = "";
    memcpy(text, a->p, a->size < sizeof text - 1 ? a->size : sizeof text - 1);
    return (uint16_t)strtol(text, NULL, 10);
}

/* AUTH and SELECT stand before the first key. */
static bool put_greeting(struct migrate *m, const struct options *o) {
    struct rdb_buffer *b = &m->commands;
    m->greetings = o->password ? 2 : 1;
    if (o->password &&
        (!put_count(b, o->user ? 3 : 2) || !put_text(b, "AUTH", 4) || (o->user && !put_text(b, o->user->p, o->user->size)) ||
            !put_text(b, o->password->p, o->password->size)))
        return false;
    return put_count(b, 2) && put_text(b, "SELECT", 6) && put_int(b, o->db);
}

/* In the order of their shards, by counting. False: no memory. */
static bool take_keys(struct thread *t, struct migrate *m, const struct arg *argv) {
    uint32_t n = m->options.n_keys, *places = mi_calloc(t->n_threads + 1, sizeof *places);
    uint64_t *hashes = mi_malloc((n + !n) * sizeof *hashes);
    for (uint32_t i = 0; places && hashes && i < n; i++) {
        hashes[i] = hash_key(&t->server->secret, argv[i].p, argv[i].size);
        places[thread_shard_of(t, &argv[i], hashes[i]) + 1]++;
    }
    for (uint32_t s = 0; places && hashes && s < t->n_threads; s++) places[s + 1] += places[s];
    for (uint32_t i = 0; places && hashes && i < n; i++) {
        uint32_t s = thread_shard_of(t, &argv[i], hashes[i]);
        m->keys[places[s]++] = (struct migrant){.name = &argv[i], .hash = hashes[i], .shard = s};
    }
    bool enough = places && hashes;
    mi_free(places);
    mi_free(hashes);
    return enough;
}

static struct migrate *make(struct thread *t, const struct arg *argv, const struct options *o) {
    struct migrate *m = mi_calloc(1, sizeof *m + o->n_keys * sizeof *m->keys);
    if (!m) return NULL;
    m->options = *o;
    m->options.port = read_port(&argv[2]);
    m->options.user = m->options.password = NULL; /* they don't stay */
    m->n = o->n_keys;
    m->thread = t;
    m->host = mi_malloc(argv[1].size + 1);
    if (m->host) {
        memcpy(m->host, argv[1].p, argv[1].size);
        m->host[argv[1].size] = 0;
    }
    m->older = t->migrates;
    if (t->migrates) t->migrates->newer = m;
    t->migrates = m;
    if (m->host && put_greeting(m, o)) return m;
    unlink_and_free(m);
    return NULL;
}

/* The disk's thread. */
static void find_host(void *of) {
    struct migrate *m = of;
    socket_find(m->host, m->options.port, true, &m->addresses);
}

static void migrate(struct thread *t, struct conn *c, const struct command *row, struct arg *argv, uint32_t argc) {
    struct options o;
    struct task *k = course_start(t, c, &(struct task_command){row, argv, argc}, &course, NULL);
    if (!k) {
        task_no_memory(t, c);
        return;
    }
    struct reply *r = course_output(t, k);
    bool good = read_options(k->argv, argc, &o, r);
    struct migrate *m = good ? make(t, k->argv, &o) : NULL;
    if (!m) {
        if (good) reply_no_memory(r);
        course_end(t, k);
        return;
    }
    m->task = k;
    k->of = m;
    bool found = socket_find(m->host, m->options.port, false, &m->addresses);
    if (!take_keys(t, m, k->argv + o.first_key) || (!found && !course_wait(t, k, find_host))) {
        m->lost = LOSS_MEMORY;
        finish(m);
    } else if (found) begin_group(m);
}

/* ---- events ---- */

void migrate_event(struct thread *t, const struct event *e) {
    struct migrate *m = (struct migrate *)e->stream;
    if (e->kind == EV_REMOVED) {
        m->streaming = false;
        if (!m->task) unlink_and_free(m);
        else if (m->state == CONNECTING && !m->lost) connect_next(m);
        return;
    }
    if (!m->going) switch (e->kind) {
        case EV_CONNECTED: connected(m, e->result); break;
        case EV_RECV: received(m, e->data, e->size); break;
        case EV_SENT: sent(m, e->result); break;
        case EV_CLOSED: lose(m, loss_now(m)); break;
        default: break;
        }
    if (e->kind == EV_RECV) proactor_give_buffer(t->proactor, e->buffer);
}

/* What is dumped yet ends when that is done. What looks on is held up only by transactions that wait for the keys of one that rests; one may begin to do so later, and tells nobody here. */
void migrate_hurry(struct thread *t) {
    for (struct migrate *m = t->migrates; m; m = m->older)
        if (m->task && stream_waits(m) && (!t->looks_on || transact_is_awaited(t, m->task))) lose(m, loss_now(m));
    if (t->looks_on) t->hurry_ns = t->now_ns + HURRY_AGAIN_NS;
}

void migrate_check(struct thread *t) {
    while (deadlines_next_ns(&t->migrate_deadlines) <= t->now_ns) {
        struct deadline *d = t->migrate_deadlines.heap[0];
        struct migrate *m = (struct migrate *)((char *)d - offsetof(struct migrate, deadline));
        bool goes_on = m->goes_on;
        forget_deadline(m);
        if (goes_on) send_on(m);
        else lose(m, loss_now(m));
    }
}

/* ---- the row ---- */

static void find_keys(const struct arg *argv, uint32_t argc, struct key_range *out) {
    *out = (struct key_range){.n = 1, .first = 3, .step = 1};
    for (uint32_t i = 6; i < argc && i < UINT8_MAX; i++) {
        if (arg_is(&argv[i], "auth")) i++;
        else if (arg_is(&argv[i], "auth2")) i += 2;
        else if (arg_is(&argv[i], "keys") && i + 1 < argc) {
            *out = (struct key_range){.n = argc - i - 1, .first = argv[3].size ? 0 : (uint8_t)(i + 1), .step = 1};
            return;
        }
    }
}

const struct command commands_migrate[] = {
    {.name = "migrate",
        .group = "generic",
        .since = "2.6.0",
        .arity = -6,
        .flags = CMD_WRITE | CMD_MOVABLE_KEYS,
        .acl = ACL_KEYSPACE | ACL_DANGEROUS,
        .summary = "Atomically transfer a key from a Redis instance to another one.",
        .complexity = "This command actually executes a DUMP+DEL in the source instance, and a RESTORE in the target instance. See the "
                      "pages of these "
                      "commands for time complexity. Also an O(N) data transfer between the two instances is performed.",
        .plan = PLAN_COURSE,
        .on_course = migrate,
        .find_keys = find_keys,
        .keys = {KEY_RANGE(3, 0, 1, KEY_RW | KEY_ACCESS | KEY_DELETE),
            {.flags = KEY_RW | KEY_ACCESS | KEY_DELETE | KEY_INCOMPLETE,
                .begin = KEY_BEGIN_KEYWORD,
                .find = KEY_FIND_RANGE,
                .pos = -2,
                .keyword = "KEYS",
                .last = -1,
                .step = 1}},
        .n_key_specs = 2,
        .hints = (const char *const[]){"nondeterministic_output", NULL}},
    {0}};
