#include "server/rdb_file.h"

#include <errno.h>
#include <fcntl.h>
#include <mimalloc.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "shard/crc64.h"

#define BLOCK ((size_t)1 << 20)
#define HEAD 9u
/* What is read at once behind a jump, and beyond a chunk: enough for the next mark. Twice as much each time, up to a block. */
#define BLOCK_AFTER_JUMP ((size_t)4 << 10)
/* A longer chunk is not claimed, as its reader holds all of it: everybody reads it. */
#define CLAIMED_MAX ((uint64_t)8 << 20)
/* Behind the mark of a chunk, and behind a chunk, the database must be told. */
#define NO_DATABASE UINT32_MAX
#define KEY_SHOWN 64u /* bytes of a key in a message */
/* The first version with a checksum. */
#define CHECKSUM_VERSION 5

struct file {
    struct rdb_source source;
    int fd;
    uint8_t *bytes;
    size_t capacity;
    const uint8_t *unchecked; /* from here to source.at the checksum is to be gone on with */
    uint64_t crc;
    struct rdb_walk *walk;
    size_t block; /* to be read next */
    uint32_t db;
    int64_t expire_at_ms; /* of the next key */
    struct rdb_text key, aux;
    /* Chunks. In one, the source ends where it does. */
    uint64_t chunks; /* that could be claimed, so far */
    bool in_chunk, claimed;
    size_t hidden;   /* bytes behind the chunk that were read already */
    uint64_t behind; /* that were not */
};

/* ---- the bytes ---- */

static void check_to_here(struct file *f) {
    if (f->walk->checks) f->crc = crc64(f->crc, f->unchecked, (size_t)(f->source.at - f->unchecked));
    f->unchecked = f->source.at;
}

static bool make_room(struct file *f, size_t n) {
    if (f->capacity >= n) return true;
    size_t capacity = f->capacity * 2 > n ? f->capacity * 2 : n;
    uint8_t *bytes = mi_realloc(f->bytes, capacity);
    if (!bytes) return rdb_wrong(&f->source, "out of memory");
    f->bytes = bytes;
    f->capacity = capacity;
    return true;
}

/* What is there goes to the front, and as much as there is room for comes behind it. */
static bool more(struct rdb_source *x, size_t n) {
    struct file *f = x->arg;
    size_t have = (size_t)(x->end - x->at);
    check_to_here(f);
    memmove(f->bytes, x->at, have);
    size_t block = f->block;
    if (block < BLOCK) f->block = block * 2;
    if (!make_room(f, n < block ? block : n)) return false;
    x->at = f->unchecked = f->bytes;
    x->end = f->bytes + have;
    while (have < n) {
        size_t room = (n < block ? block : n) - have;
        ssize_t got = read(f->fd, f->bytes + have, room < x->left ? room : x->left);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0) return rdb_wrong(x, strerror(errno));
        if (!got) return rdb_wrong(x, "the file ends in the middle");
        have += (size_t)got;
        x->left -= (uint64_t)got;
        x->offset += (uint64_t)got;
        x->end += got;
    }
    return true;
}

/* ---- opcodes ---- */

static bool read_head(struct file *f) {
    struct rdb_source *x = &f->source;
    if (x->left < HEAD || !rdb_need(x, HEAD) || memcmp(x->at, "REDIS", 5))
        return rdb_wrong(x, "this is no RDB file: it does not begin with REDIS");
    for (unsigned i = 5; i < HEAD; i++) {
        if (x->at[i] < '0' || x->at[i] > '9') return rdb_wrong(x, "a version that is no number");
        f->walk->version = f->walk->version * 10 + x->at[i] - '0';
    }
    if (f->walk->version < 1 || f->walk->version > RDB_VERSION_TIMES) return rdb_wrong(x, "a version that can't be read");
    x->at += HEAD;
    return true;
}

static bool read_end(struct file *f) {
    struct rdb_source *x = &f->source;
    uint64_t crc;
    check_to_here(f);
    if (f->walk->version >= CHECKSUM_VERSION) {
        if (!rdb_get_little(x, 8, &crc)) return false;
        f->walk->has_checksum = crc;
        if (f->walk->checks && crc && crc != f->crc) return rdb_wrong(x, "the checksum is not that of the data");
    }
    return (x->at == x->end && !x->left) || rdb_wrong(x, "there is something behind the end");
}

static bool skip_lengths(struct rdb_source *x, unsigned n) {
    uint64_t length;
    for (; n; n--)
        if (!rdb_get_length(x, &length)) return false;
    return true;
}

static bool skip_strings(struct rdb_source *x, unsigned n) {
    for (; n; n--)
        if (!rdb_skip_string(x)) return false;
    return true;
}

/* Of Redis 7.0's first release candidates. */
static bool skip_old_function(struct rdb_source *x) {
    uint64_t described;
    return skip_strings(x, 2) && rdb_get_length(x, &described) && skip_strings(x, described ? 2 : 1);
}

void rdb_name_key(struct rdb_source *x, const char *key, size_t size) {
    char name[KEY_SHOWN + 1];
    size_t n = size < KEY_SHOWN ? size : KEY_SHOWN, said = strlen(x->why);
    for (size_t i = 0; i < n; i++) name[i] = key[i] >= ' ' && key[i] <= '~' ? key[i] : '?';
    name[n] = 0;
    snprintf(x->why + said, sizeof x->why - said, ", in key '%s'%s", name, n < size ? "..." : "");
}

static bool read_key(struct file *f, uint8_t type) {
    struct rdb_source *x = &f->source;
    if (f->db == NO_DATABASE) return rdb_wrong(x, "a key before its database, in a chunk or behind one");
    if (!rdb_get_string_kept(x, &f->key)) return false;
    struct rdb_key key = {
        .name = f->key.p, .size = f->key.size, .db = f->db, .type = type, .claimed = f->claimed, .expire_at_ms = f->expire_at_ms};
    f->expire_at_ms = EXPIRY_NONE;
    if (f->walk->key(f->walk->arg, x, &key)) return true;
    rdb_wrong(x, "a value that can't be read");
    rdb_name_key(x, f->key.p, f->key.size);
    return false;
}

/* ---- chunks ---- */

static void forget_place(struct file *f) {
    f->db = NO_DATABASE;
    f->expire_at_ms = EXPIRY_NONE;
}

static void enter_chunk(struct file *f, uint64_t n, bool claimed) {
    struct rdb_source *x = &f->source;
    uint64_t have = (uint64_t)(x->end - x->at), unread = n > have ? n - have : 0;
    f->in_chunk = true;
    f->claimed = claimed;
    f->hidden = n < have ? have - n : 0;
    f->behind = x->left - unread;
    x->end -= f->hidden;
    x->offset -= f->hidden;
    x->left = unread;
}

static void leave_chunk(struct file *f) {
    struct rdb_source *x = &f->source;
    f->in_chunk = f->claimed = false;
    x->end += f->hidden;
    x->offset += f->hidden;
    x->left = f->behind;
    forget_place(f);
}

static bool jump(struct file *f, uint64_t n) {
    struct rdb_source *x = &f->source;
    uint64_t have = (uint64_t)(x->end - x->at);
    if (f->walk->checks || n <= have) return rdb_skip(x, n); /* the checksum needs the bytes */
    if (lseek(f->fd, (off_t)(n - have), SEEK_CUR) < 0) return rdb_wrong(x, strerror(errno));
    x->at = f->unchecked = x->end;
    x->left -= n - have;
    x->offset += n - have;
    f->block = BLOCK_AFTER_JUMP;
    return true;
}

/* All of it is read at once: what is passed on to others is there as long as its key is looked at. */
static bool read_ahead(struct file *f, uint64_t n) {
    if (!f->walk->checks) f->block = n + BLOCK_AFTER_JUMP;
    return rdb_need(&f->source, n);
}

/* Behind a mark. n: the bytes of the chunk; 0: it doesn't say. */
static bool begin_chunk(struct file *f, uint64_t n) {
    struct rdb_source *x = &f->source;
    bool mine = false;
    if (f->in_chunk) return rdb_wrong(x, "a chunk within a chunk");
    forget_place(f);
    if (!n) return true;
    if (n > (uint64_t)(x->end - x->at) + x->left) return rdb_wrong(x, "the data end in the middle of a chunk");
    if (f->walk->claims && n <= CLAIMED_MAX) {
        if (!f->walk->claims(f->walk->arg, x, f->chunks++, &mine)) return false;
        if (!mine) return jump(f, n);
        if (!read_ahead(f, n)) return false;
    }
    enter_chunk(f, n, mine);
    return true;
}

/* What a mark says; 0: nothing, or something else. */
static uint64_t marked_bytes(const struct rdb_text *t) {
    uint64_t n = 0;
    if (t->size != RDB_CHUNK_DIGITS) return 0;
    for (size_t i = 0; i < t->size; i++) {
        if (t->p[i] < '0' || t->p[i] > '9') return 0;
        n = n * 10 + (uint64_t)(t->p[i] - '0');
    }
    return n;
}

static bool read_aux(struct file *f) {
    struct rdb_text value = {0};
    if (!rdb_get_string_kept(&f->source, &f->aux)) return false;
    bool mark = f->aux.size == strlen(RDB_CHUNK_MARK) && !memcmp(f->aux.p, RDB_CHUNK_MARK, f->aux.size);
    if (!mark && !f->walk->aux) return rdb_skip_string(&f->source);
    bool good = rdb_get_string(&f->source, &value);
    if (good && mark) good = begin_chunk(f, marked_bytes(&value));
    else if (good) f->walk->aux(f->walk->arg, f->aux.p, f->aux.size, value.p, value.size);
    rdb_text_drop(&value);
    return good;
}

static bool skip_module_aux(struct file *f) {
    f->walk->module_aux++;
    if (!f->walk->skip_unknown) return rdb_wrong(&f->source, "a module's auxiliary data (rdb-skip-unknown yes passes over them)");
    return skip_lengths(&f->source, 3) && rdb_skip_module(&f->source);
}

static bool walk(struct file *f) {
    struct rdb_source *x = &f->source;
    if (!read_head(f)) return false;
    for (;;) {
        uint8_t what, byte;
        uint64_t n;
        bool good;
        if (f->in_chunk && x->at == x->end && !x->left) leave_chunk(f);
        if (!rdb_get_byte(x, &what)) return false;
        switch (what) {
        case RDB_END: return f->in_chunk ? rdb_wrong(x, "the end of the file within a chunk") : read_end(f);
        case RDB_SELECT:
            good = rdb_get_length(x, &n);
            f->db = n < NO_DATABASE ? (uint32_t)n : NO_DATABASE - 1;
            break;
        case RDB_EXPIRES_S:
            good = rdb_get_little(x, 4, &n);
            f->expire_at_ms = (int64_t)(int32_t)n * 1000;
            break;
        case RDB_EXPIRES_MS:
            good = rdb_get_little(x, 8, &n);
            f->expire_at_ms = (int64_t)n == EXPIRY_NONE ? EXPIRY_NONE - 1 : (int64_t)n;
            break;
        case RDB_RESIZE: good = skip_lengths(x, 2); break;
        case RDB_SLOT_INFO: good = skip_lengths(x, 3); break;
        case RDB_AUX: good = read_aux(f); break;
        case RDB_FUNCTION:
        case RDB_FUNCTION_OLD:
            good = what == RDB_FUNCTION ? skip_strings(x, 1) : skip_old_function(x);
            f->walk->functions++;
            break;
        case RDB_MODULE_AUX: good = skip_module_aux(f); break;
        case RDB_IDLE: good = skip_lengths(x, 1); break;
        case RDB_FREQUENCY: good = rdb_get_byte(x, &byte); break;
        default: good = read_key(f, what);
        }
        if (!good) return false;
    }
}

static bool is_same(const struct stat *a, const struct stat *b) {
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino && a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
        a->st_mtim.tv_nsec == b->st_mtim.tv_nsec;
}

bool rdb_file_walk(const char *path, struct rdb_walk *w, char *why, size_t why_size) {
    struct stat st;
    struct file f = {.fd = open(path, O_RDONLY | O_CLOEXEC), .walk = w};
    if (f.fd < 0 || fstat(f.fd, &st)) {
        snprintf(why, why_size, "can't open it: %s", strerror(errno));
        if (f.fd >= 0) close(f.fd);
        return false;
    }
    if (w->is && !is_same(w->is, &st)) {
        snprintf(why, why_size, "it was replaced or changed meanwhile");
        close(f.fd);
        return false;
    }
    w->bytes = (uint64_t)st.st_size;
    posix_fadvise(f.fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    f.source = (struct rdb_source){.left = (uint64_t)st.st_size, .more = more, .arg = &f};
    f.bytes = mi_malloc(BLOCK);
    f.capacity = f.bytes ? BLOCK : 0;
    f.block = BLOCK;
    f.expire_at_ms = EXPIRY_NONE;
    f.source.at = f.source.end = f.unchecked = f.bytes;
    bool good = f.bytes ? walk(&f) : rdb_wrong(&f.source, "out of memory");
    if (!good) snprintf(why, why_size, "%s", f.source.why);
    rdb_text_drop(&f.key);
    rdb_text_drop(&f.aux);
    mi_free(f.bytes);
    close(f.fd);
    return good;
}
