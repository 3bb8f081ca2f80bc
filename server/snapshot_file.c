#include "server/snapshot_file.h"

#include <errno.h>
#include <fcntl.h>
#include <mimalloc.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "io/clock.h"
#include "io/mailbox.h"
#include "server/crash.h"
#include "server/join.h"
#include "shard/crc64.h"

/* A stream that is being written may have so much waiting, whatever else waits. */
#define STREAM_WAITING_MAX (4u * SNAPSHOT_CHUNK_BYTES)
/* Bytes between two hints to the kernel that it should write. */
#define SYNC_EARLY_BYTES (8u << 20)
#define PATH_ROOM 4608u
/* A buffer for a chunk, which is put when it is full or a little more. Some of those that are written are used again: fresh memory costs more than the copying. */
#define CHUNK_ROOM (SNAPSHOT_CHUNK_BYTES + (80u << 10))
#define SPARES 16u
/* The thread works for nobody who waits: it does not take the CPU from those that answer clients. */
#define NICE 5

enum piece_kind { PIECE_BYTES, PIECE_SHARD_THROUGH };

struct piece {
    struct message message;
    struct piece *next; /* of those that wait for the end of a stream */
    enum piece_kind kind;
    enum snapshot_part part;
    uint64_t stream, crc;
    struct rdb_buffer bytes;
};

struct snapshot_file {
    struct snapshot_file_options o;
    char path[PATH_ROOM], part[PATH_ROOM];
    char directory[PATH_ROOM];
    pthread_t handle;
    bool joined;
    int wake;
    struct mailbox pieces;
    _Alignas(64) _Atomic uint64_t waiting;        /* bytes */
    _Atomic uint64_t stream_waiting, stream_open; /* of the stream that is being written; its number, 0: none is */
    _Atomic uint64_t streams, written;
    _Atomic bool wanted, failed;       /* wanted: somebody waits for room */
    _Atomic(const char *) reason;      /* of a failure elsewhere */
    _Atomic(uint8_t *) spares[SPARES]; /* buffers of CHUNK_ROOM */
    /* The thread's own. */
    int fd;
    uint32_t through; /* shards */
    uint64_t crc, hinted, cpu_ns;
    struct piece *first, *last;
    char why[SNAPSHOT_WHY_MAX];
};

/* ---- what goes wrong ---- */

static void failed(struct snapshot_file *f, const char *what, int error) {
    if (!f->why[0]) snprintf(f->why, sizeof f->why, "%s %.400s: %s", what, f->part, strerror(error));
    atomic_store_explicit(&f->failed, true, memory_order_release);
}

static void failed_elsewhere(struct snapshot_file *f, const char *why) {
    const char *none = NULL;
    atomic_compare_exchange_strong(&f->reason, &none, why);
    atomic_store_explicit(&f->failed, true, memory_order_release);
}

void snapshot_file_give_up(struct snapshot_file *f, const char *why) { failed_elsewhere(f, why); }

bool snapshot_file_failed(const struct snapshot_file *f) { return atomic_load_explicit(&f->failed, memory_order_acquire); }

/* ---- writing ---- */

static bool write_all(struct snapshot_file *f, const uint8_t *p, size_t n) {
    while (n) {
        ssize_t done = write(f->fd, p, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) {
            failed(f, "writing", done ? errno : ENOSPC);
            return false;
        }
        p += done;
        n -= (size_t)done;
    }
    return true;
}

static void write_bytes(struct snapshot_file *f, const struct rdb_buffer *b, uint64_t crc) {
    if (snapshot_file_failed(f) || !write_all(f, b->bytes, b->length)) return;
    if (f->o.checksum) f->crc = crc64_combine(f->crc, crc, b->length);
    uint64_t written = atomic_load_explicit(&f->written, memory_order_relaxed) + b->length;
    atomic_store_explicit(&f->written, written, memory_order_relaxed);
    if (!f->o.sync_early || written - f->hinted < SYNC_EARLY_BYTES) return;
    sync_file_range(f->fd, (off_t)f->hinted, (off_t)(written - f->hinted), SYNC_FILE_RANGE_WRITE);
    f->hinted = written;
}

static void open_file(struct snapshot_file *f) {
    f->fd = open(f->part, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0644);
    if (f->fd < 0) failed(f, "opening", errno);
}

static void sync_folder(struct snapshot_file *f) {
    int fd = open(f->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0 || fsync(fd)) failed(f, "syncing the folder of", errno);
    if (fd >= 0) close(fd);
}

/* All pieces are written. */
static void close_file(struct snapshot_file *f) {
    struct rdb_buffer end = {0};
    if (!snapshot_file_failed(f)) {
        if (!rdb_put_end(&end)) failed(f, "ending", ENOMEM);
        if (f->o.checksum) f->crc = crc64_combine(f->crc, crc64(0, end.bytes, end.length), end.length);
        uint64_t crc = f->o.checksum ? f->crc : 0;
        uint8_t bytes[8];
        for (unsigned i = 0; i < 8; i++) bytes[i] = (uint8_t)(crc >> 8 * i);
        if (write_all(f, end.bytes, end.length)) write_all(f, bytes, sizeof bytes);
        atomic_fetch_add_explicit(&f->written, end.length + sizeof bytes, memory_order_relaxed);
    }
    rdb_buffer_drop(&end);
    if (!snapshot_file_failed(f) && fsync(f->fd)) failed(f, "syncing", errno);
    if (f->fd >= 0 && close(f->fd) && !snapshot_file_failed(f)) failed(f, "closing", errno);
    if (!snapshot_file_failed(f) && rename(f->part, f->path)) failed(f, "renaming", errno);
    if (!snapshot_file_failed(f)) sync_folder(f);
    else if (f->fd >= 0) unlink(f->part);
}

/* ---- the queue ---- */

/* Keeps its buffer for another. */
static bool spare(struct snapshot_file *f, struct rdb_buffer *b) {
    for (uint32_t i = 0; b->capacity == CHUNK_ROOM && i < SPARES; i++) {
        uint8_t *none = NULL;
        if (atomic_compare_exchange_strong_explicit(&f->spares[i], &none, b->bytes, memory_order_release, memory_order_relaxed))
            return true;
    }
    return false;
}

/* Any thread. */
static uint8_t *take_spare(struct snapshot_file *f) {
    for (uint32_t i = 0; i < SPARES; i++)
        if (atomic_load_explicit(&f->spares[i], memory_order_relaxed)) {
            uint8_t *bytes = atomic_exchange_explicit(&f->spares[i], NULL, memory_order_acquire);
            if (bytes) return bytes;
        }
    return mi_malloc(CHUNK_ROOM);
}

static void piece_free(struct snapshot_file *f, struct piece *p) {
    if (!spare(f, &p->bytes)) rdb_buffer_drop(&p->bytes);
    mi_free(p);
}

static void write_piece(struct snapshot_file *f, struct piece *p) {
    if (p->kind == PIECE_SHARD_THROUGH) f->through++;
    else {
        write_bytes(f, &p->bytes, p->crc);
        if (p->part != SNAPSHOT_WHOLE) {
            bool opens = atomic_load_explicit(&f->stream_open, memory_order_relaxed) != p->stream;
            uint64_t open = p->part == SNAPSHOT_LAST ? 0 : p->stream;
            if (opens || !open) atomic_store_explicit(&f->stream_waiting, 0, memory_order_relaxed);
            else atomic_fetch_sub_explicit(&f->stream_waiting, p->bytes.length, memory_order_relaxed);
            atomic_store_explicit(&f->stream_open, open, memory_order_release);
        }
        atomic_fetch_sub_explicit(&f->waiting, p->bytes.length, memory_order_acq_rel);
    }
    piece_free(f, p);
}

/* Who fails in the middle of a stream does not end it: from then on nothing waits. */
static bool must_wait(const struct snapshot_file *f, const struct piece *p) {
    if (snapshot_file_failed(f)) return false;
    uint64_t open = atomic_load_explicit(&f->stream_open, memory_order_relaxed);
    return open && (p->part == SNAPSHOT_WHOLE || p->stream != open);
}

/* Those that waited for a stream's end, up to the next stream. */
static void write_waiting(struct snapshot_file *f) {
    for (struct piece **at = &f->first; *at;) {
        struct piece *p = *at;
        if (must_wait(f, p)) {
            at = &p->next;
            continue;
        }
        bool streamed = p->part != SNAPSHOT_WHOLE;
        *at = p->next;
        write_piece(f, p);
        if (streamed) at = &f->first; /* another may be open now, or none */
    }
    f->last = f->first;
    while (f->last && f->last->next) f->last = f->last->next;
}

static void take_piece(struct snapshot_file *f, struct piece *p) {
    if (f->first && snapshot_file_failed(f)) write_waiting(f);
    bool waits = must_wait(f, p) || (f->first && !atomic_load_explicit(&f->stream_open, memory_order_relaxed));
    if (!waits) {
        bool last = p->part == SNAPSHOT_LAST;
        write_piece(f, p);
        if (last && f->first) write_waiting(f);
        return;
    }
    p->next = NULL;
    if (f->last) f->last->next = p;
    else f->first = p;
    f->last = p;
}

static void count_cpu(struct snapshot_file *f) {
    uint64_t now_ns = thread_cpu_ns();
    atomic_fetch_add_explicit(f->o.cpu_ns, now_ns - f->cpu_ns, memory_order_relaxed);
    f->cpu_ns = now_ns;
}

static void say_room(struct snapshot_file *f) {
    if (atomic_load_explicit(&f->waiting, memory_order_acquire) > f->o.limit / 4 && !atomic_load(&f->stream_open) &&
        !snapshot_file_failed(f))
        return;
    if (atomic_exchange(&f->wanted, false)) f->o.room(f->o.arg);
}

static void *run(void *arg) {
    struct snapshot_file *f = arg;
    prctl(PR_SET_NAME, "snapshot");
    crash_thread_start(NULL);
    setpriority(PRIO_PROCESS, (id_t)gettid(), getpriority(PRIO_PROCESS, 0) + NICE);
    if (f->o.before) snapshot_file_end(f->o.before);
    open_file(f);
    write_bytes(f, &f->o.head, crc64(0, f->o.head.bytes, f->o.head.length));
    rdb_buffer_drop(&f->o.head);
    while (f->through < f->o.shards) {
        uint64_t times;
        if (read(f->wake, &times, sizeof times) < 0 && errno != EINTR) abort();
        mailbox_collect(&f->pieces);
        for (struct piece *p; (p = (struct piece *)mailbox_next(&f->pieces));) {
            take_piece(f, p);
            count_cpu(f);
            say_room(f);
        }
        say_room(f);
    }
    close_file(f);
    f->o.done(f->o.arg);
    return NULL;
}

/* ---- any thread ---- */

static void send(struct snapshot_file *f, struct piece *p) {
    mailbox_push(&f->pieces, &p->message);
    while (write(f->wake, &(uint64_t){1}, sizeof(uint64_t)) < 0 && errno == EINTR) {}
}

static struct piece *piece_new(enum piece_kind kind) {
    struct piece *p = mi_zalloc(sizeof *p);
    if (!p) abort();
    p->kind = kind;
    return p;
}

void snapshot_file_put(struct snapshot_file *f, struct rdb_buffer *b, enum snapshot_part part, uint64_t stream, bool could_wait) {
    struct piece *p = piece_new(PIECE_BYTES);
    p->part = part;
    p->stream = stream;
    p->bytes = *b;
    if (f->o.checksum) p->crc = crc64(0, b->bytes, b->length);
    *b = (struct rdb_buffer){.bytes = take_spare(f), .futile = b->futile};
    if (b->bytes) b->capacity = CHUNK_ROOM;
    uint64_t waiting = atomic_fetch_add_explicit(&f->waiting, p->bytes.length, memory_order_acq_rel) + p->bytes.length;
    if (stream && atomic_load_explicit(&f->stream_open, memory_order_relaxed) == stream)
        atomic_fetch_add_explicit(&f->stream_waiting, p->bytes.length, memory_order_relaxed);
    if (f->o.give_up_at_limit && !could_wait && waiting > f->o.limit + SNAPSHOT_CHUNK_BYTES)
        failed_elsewhere(f, "too much waited for the disk (snapshot-overrun abort)");
    send(f, p);
}

uint64_t snapshot_file_new_stream(struct snapshot_file *f) { return atomic_fetch_add_explicit(&f->streams, 1, memory_order_relaxed) + 1; }

static bool room(const struct snapshot_file *f, uint64_t stream, bool urgent) {
    if (snapshot_file_failed(f)) return true; /* it goes nowhere */
    if (stream)
        return atomic_load_explicit(&f->stream_open, memory_order_acquire) == stream &&
            atomic_load_explicit(&f->stream_waiting, memory_order_relaxed) < STREAM_WAITING_MAX;
    if (urgent && f->o.give_up_at_limit) return true;
    return atomic_load_explicit(&f->waiting, memory_order_relaxed) < (urgent ? f->o.limit : f->o.limit / 2);
}

bool snapshot_file_has_room(struct snapshot_file *f, uint64_t stream, bool urgent) {
    if (room(f, stream, urgent)) return true;
    atomic_store(&f->wanted, true);
    return room(f, stream, urgent);
}

void snapshot_file_shard_is_through(struct snapshot_file *f, const char *why) {
    struct piece *p = piece_new(PIECE_SHARD_THROUGH);
    if (why) failed_elsewhere(f, why);
    send(f, p);
}

uint64_t snapshot_file_bytes(const struct snapshot_file *f) { return atomic_load_explicit(&f->written, memory_order_relaxed); }

/* ---- beginning and end ---- */

struct snapshot_file *snapshot_file_start(const struct snapshot_file_options *o) {
    struct snapshot_file *f = mi_malloc_aligned(sizeof *f, 64);
    if (!f) return NULL;
    memset(f, 0, sizeof *f);
    f->o = *o;
    f->fd = -1;
    mailbox_init(&f->pieces);
    snprintf(f->directory, sizeof f->directory, "%s", o->directory);
    snprintf(f->path, sizeof f->path, "%s/%s", o->directory, o->name);
    snprintf(f->part, sizeof f->part, "%s/%s.part", o->directory, o->name);
    f->wake = eventfd(0, EFD_CLOEXEC);
    if (f->wake >= 0 && !pthread_create(&f->handle, NULL, run, f)) return f;
    if (f->wake >= 0) close(f->wake);
    mi_free(f);
    return NULL;
}

const char *snapshot_file_wait(struct snapshot_file *f) {
    if (!f->joined) pthread_join(f->handle, NULL);
    f->joined = true;
    return f->why[0] ? f->why : atomic_load(&f->reason);
}

bool snapshot_file_ends_in_time(struct snapshot_file *f) {
    if (!f->joined) f->joined = join_in_time(f->handle);
    return f->joined;
}

void snapshot_file_end(struct snapshot_file *f) {
    snapshot_file_wait(f);
    close(f->wake);
    for (uint32_t i = 0; i < SPARES; i++) mi_free(atomic_load_explicit(&f->spares[i], memory_order_acquire));
    mi_free(f);
}
