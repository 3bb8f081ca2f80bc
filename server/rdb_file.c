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
    uint32_t db;
    struct rdb_text key, aux;
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
    if (!make_room(f, n < BLOCK ? BLOCK : n)) return false;
    x->at = f->unchecked = f->bytes;
    x->end = f->bytes + have;
    while (have < n) {
        size_t room = f->capacity - have;
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

/* Says at which key it went wrong. */
static void name_key(struct file *f) {
    struct rdb_source *x = &f->source;
    char name[KEY_SHOWN + 1];
    size_t n = f->key.size < KEY_SHOWN ? f->key.size : KEY_SHOWN, said = strlen(x->why);
    for (size_t i = 0; i < n; i++) name[i] = f->key.p[i] >= ' ' && f->key.p[i] <= '~' ? f->key.p[i] : '?';
    name[n] = 0;
    snprintf(x->why + said, sizeof x->why - said, ", in key '%s'%s", name, n < f->key.size ? "..." : "");
}

static bool read_key(struct file *f, uint8_t type, int64_t expire_at_ms) {
    struct rdb_source *x = &f->source;
    if (!rdb_get_string_kept(x, &f->key)) return false;
    struct rdb_key key = {.name = f->key.p, .size = f->key.size, .db = f->db, .type = type, .expire_at_ms = expire_at_ms};
    if (f->walk->key(f->walk->arg, x, &key)) return true;
    rdb_wrong(x, "a value that can't be read");
    name_key(f);
    return false;
}

static bool read_aux(struct file *f) {
    struct rdb_text value = {0};
    if (!f->walk->aux) return skip_strings(&f->source, 2);
    bool good = rdb_get_string_kept(&f->source, &f->aux) && rdb_get_string(&f->source, &value);
    if (good) f->walk->aux(f->walk->arg, f->aux.p, f->aux.size, value.p, value.size);
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
    int64_t expire_at_ms = EXPIRY_NONE;
    if (!read_head(f)) return false;
    for (;;) {
        uint8_t what, byte;
        uint64_t n;
        bool good;
        if (!rdb_get_byte(x, &what)) return false;
        switch (what) {
        case RDB_END: return read_end(f);
        case RDB_SELECT:
            good = rdb_get_length(x, &n);
            f->db = n < UINT32_MAX ? (uint32_t)n : UINT32_MAX;
            break;
        case RDB_EXPIRES_S:
            good = rdb_get_little(x, 4, &n);
            expire_at_ms = (int64_t)(int32_t)n * 1000;
            break;
        case RDB_EXPIRES_MS:
            good = rdb_get_little(x, 8, &n);
            expire_at_ms = (int64_t)n == EXPIRY_NONE ? EXPIRY_NONE - 1 : (int64_t)n;
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
        default: good = read_key(f, what, expire_at_ms); expire_at_ms = EXPIRY_NONE;
        }
        if (!good) return false;
    }
}

bool rdb_file_walk(const char *path, struct rdb_walk *w, char *why, size_t why_size) {
    struct stat st;
    struct file f = {.fd = open(path, O_RDONLY | O_CLOEXEC), .walk = w};
    if (f.fd < 0 || fstat(f.fd, &st)) {
        snprintf(why, why_size, "can't open it: %s", strerror(errno));
        if (f.fd >= 0) close(f.fd);
        return false;
    }
    w->bytes = (uint64_t)st.st_size;
    posix_fadvise(f.fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    f.source = (struct rdb_source){.left = (uint64_t)st.st_size, .more = more, .arg = &f};
    f.bytes = mi_malloc(BLOCK);
    f.capacity = f.bytes ? BLOCK : 0;
    f.source.at = f.source.end = f.unchecked = f.bytes;
    bool good = f.bytes ? walk(&f) : rdb_wrong(&f.source, "out of memory");
    if (!good) snprintf(why, why_size, "%s", f.source.why);
    rdb_text_drop(&f.key);
    rdb_text_drop(&f.aux);
    mi_free(f.bytes);
    close(f.fd);
    return good;
}
