/* LD_PRELOAD: the disk under one file, and under the folder it is in, fails as a test wants it. What to do is read from a page that both have mapped
 * (disk_faults.py), at every call; so faults come and go while the server runs. The file is the one whose name ends in ".part". */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum step { STEP_NONE, STEP_OPEN, STEP_WRITE, STEP_SYNC, STEP_CLOSE, STEP_RENAME, STEP_OPEN_FOLDER, STEP_SYNC_FOLDER };

struct page {
    _Atomic uint32_t step, error;    /* this step fails with this error number, or hangs (0) until another is to fail or none; */
    _Atomic uint64_t after;          /* of writing: what would go beyond so many bytes; up to them it is written */
    _Atomic uint64_t piece;          /* a write takes so many bytes at most; 0: all */
    _Atomic uint64_t bytes_a_second; /* 0: as fast as it goes */
    _Atomic uint64_t hits, written;  /* how often a step failed; bytes of the file that is open */
};

static struct page *page;
static _Atomic int part = -1, folder = -1; /* what is open */

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("DISK_FAULTS");
    int (*open_it)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
    int fd = path ? open_it(path, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0) return;
    void *mapped = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (mapped != MAP_FAILED) page = mapped;
    close(fd);
}

static int fails(enum step step) {
    if (!page || atomic_load(&page->step) != step) return 0;
    atomic_fetch_add(&page->hits, 1);
    int error = (int)atomic_load(&page->error);
    while (!error && atomic_load(&page->step) == step) usleep(1000);
    errno = error;
    return error != 0;
}

static int ends_in_part(const char *path) {
    size_t n = strlen(path);
    return n > 5 && !strcmp(path + n - 5, ".part");
}

static int open_as(const char *name, const char *path, int flags, mode_t mode) {
    int (*next)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, name);
    int is_part = ends_in_part(path), is_folder = flags & O_DIRECTORY && !(flags & O_PATH);
    if ((is_part && fails(STEP_OPEN)) || (is_folder && fails(STEP_OPEN_FOLDER))) return -1;
    int fd = next(path, flags, mode);
    if (is_part && page) atomic_store(&page->written, 0);
    if (is_part) atomic_store(&part, fd);
    else if (is_folder) atomic_store(&folder, fd);
    return fd;
}

#define OPEN(name)                                \
    int name(const char *path, int flags, ...) {  \
        mode_t mode = 0;                          \
        if (flags & (O_CREAT | O_TMPFILE)) {      \
            va_list more;                         \
            va_start(more, flags);                \
            mode = va_arg(more, mode_t);          \
            va_end(more);                         \
        }                                         \
        return open_as(#name, path, flags, mode); \
    }
OPEN(open)
OPEN(open64)

ssize_t write(int fd, const void *bytes, size_t n) {
    static ssize_t (*next)(int, const void *, size_t);
    if (!next) next = (ssize_t(*)(int, const void *, size_t))dlsym(RTLD_NEXT, "write");
    if (!page || fd < 0 || fd != atomic_load(&part)) return next(fd, bytes, n);
    uint64_t piece = atomic_load(&page->piece), speed = atomic_load(&page->bytes_a_second), written = atomic_load(&page->written);
    if (piece && n > piece) n = piece;
    if (atomic_load(&page->step) == STEP_WRITE) {
        uint64_t after = atomic_load(&page->after), room = after > written ? after - written : 0;
        if (!room) {
            if (fails(STEP_WRITE)) return -1;
        } else if (n > room) n = room;
    }
    if (speed) usleep((useconds_t)(n * 1000000 / speed));
    ssize_t done = next(fd, bytes, n);
    if (done > 0) atomic_fetch_add(&page->written, (uint64_t)done);
    return done;
}

int fsync(int fd) {
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
    if (fd >= 0 && fd == atomic_load(&part) && fails(STEP_SYNC)) return -1;
    if (fd >= 0 && fd == atomic_load(&folder) && fails(STEP_SYNC_FOLDER)) return -1;
    return next(fd);
}

/* It is closed all the same, as by Linux. */
int close(int fd) {
    int (*next)(int) = (int (*)(int))dlsym(RTLD_NEXT, "close");
    int was_part = fd >= 0 && fd == atomic_load(&part), done;
    if (was_part) atomic_store(&part, -1);
    else if (fd >= 0 && fd == atomic_load(&folder)) atomic_store(&folder, -1);
    done = next(fd);
    return was_part && fails(STEP_CLOSE) ? -1 : done;
}

int rename(const char *from, const char *to) {
    int (*next)(const char *, const char *) = (int (*)(const char *, const char *))dlsym(RTLD_NEXT, "rename");
    if (ends_in_part(from) && fails(STEP_RENAME)) return -1;
    return next(from, to);
}
