#include "shard/rdb_packed.h"

#include "shard/entry.h"

#define END 0xffu

static uint64_t little(const uint8_t *p, unsigned bytes) {
    uint64_t v = 0;
    for (unsigned i = 0; i < bytes; i++) v |= (uint64_t)p[i] << 8 * i;
    return v;
}

/* Two's complement of so many bytes. */
static int64_t signed_little(const uint8_t *p, unsigned bytes) {
    unsigned unused = 64 - 8 * bytes;
    return (int64_t)(little(p, bytes) << unused) >> unused;
}

static bool add_int(rdb_element *add, void *arg, int64_t v) {
    char text[INT64_TEXT_SIZE];
    return add(arg, text, format_int64(text, v));
}

/* An element on its way: a string in the block, or an integer. */
struct item {
    size_t head, size; /* bytes before a string, and its own; of an integer head is all */
    bool is_int;
    int64_t v;
};

static bool add_element(const struct item *e, const uint8_t *at, rdb_element *add, void *arg) {
    return e->is_int ? add_int(add, arg, e->v) : add(arg, (const char *)at + e->head, e->size);
}

/* ---- listpack: its bytes (4), its elements (2, ffff: not known), elements, end; an element: what it is, its bytes, its size read from behind ---- */

#define LISTPACK_HEAD 6u
#define LISTPACK_UNKNOWN 0xffffu

/* False: it does not fit into `left` bytes, or is of unknown form. */
static bool listpack_element(const uint8_t *p, size_t left, struct item *e) {
    uint8_t first = *p;
    unsigned bytes = 0;
    *e = (struct item){.is_int = true, .head = 1};
    if (first < 0x80) e->v = first;
    else if (first < 0xc0) *e = (struct item){.head = 1, .size = first & 0x3f};
    else if (first < 0xe0) {
        if (left < 2) return false;
        e->head = 2;
        e->v = (int64_t)(((uint64_t)(first & 0x1f) << 8 | p[1]) << 51) >> 51;
    } else if (first < 0xf0) {
        if (left < 2) return false;
        *e = (struct item){.head = 2, .size = (size_t)(first & 0xf) << 8 | p[1]};
    } else if (first == 0xf0) {
        if (left < 5) return false;
        *e = (struct item){.head = 5, .size = little(p + 1, 4)};
    } else if (first <= 0xf4) {
        bytes = first == 0xf1 ? 2 : first == 0xf2 ? 3 : first == 0xf3 ? 4 : 8;
        if (left < 1 + bytes) return false;
        e->head = 1 + bytes;
        e->v = signed_little(p + 1, bytes);
    } else return false;
    return e->head + e->size <= left;
}

/* The size that lies behind an element of so many bytes: its own bytes, or 0 if it is another. */
static unsigned listpack_back(const uint8_t *p, size_t left, size_t size) {
    unsigned n = size <= 127 ? 1 : size < 16383 ? 2 : size < 2097151 ? 3 : size < 268435455 ? 4 : 5;
    if (left < n) return 0;
    for (unsigned i = 0; i < n; i++) {
        uint8_t expected = (uint8_t)((size >> 7 * (n - 1 - i) & 0x7f) | (i ? 0x80 : 0));
        if (p[i] != expected) return 0;
    }
    return n;
}

/* To be gone on with from here. */
static const char *leave_at(struct rdb_packed_walk *w, size_t at) {
    w->at = at;
    w->more = true;
    return NULL;
}

const char *rdb_listpack(const uint8_t *p, size_t size, struct rdb_packed_walk *w, uint64_t most, rdb_element *add, void *arg) {
    if (size < LISTPACK_HEAD + 1 || little(p, 4) != size || p[size - 1] != END) return "a listpack of another size than it says";
    const uint8_t *at = p + (w->more ? w->at : LISTPACK_HEAD), *end = p + size - 1;
    uint64_t says = little(p + 4, 2);
    w->more = false;
    for (; at < end; w->n++) {
        struct item e;
        if (!most--) return leave_at(w, (size_t)(at - p));
        if (!listpack_element(at, (size_t)(end - at), &e)) return "a listpack's element that does not fit";
        size_t whole = e.head + e.size;
        unsigned back = listpack_back(at + whole, (size_t)(end - at) - whole, whole);
        if (!back) return "a listpack's element with a wrong link";
        if (!add_element(&e, at, add, arg)) return leave_at(w, (size_t)(at - p));
        at += whole + back;
    }
    return says != LISTPACK_UNKNOWN && says != w->n ? "a listpack with another number of elements than it says" : NULL;
}

/* ---- ziplist: its bytes (4), where the last element begins (4), elements (2), elements, end; an element: the size of the one before, what it is, its bytes ---- */

#define ZIPLIST_HEAD 10u

static bool ziplist_element(const uint8_t *p, size_t left, struct item *e) {
    uint8_t first = *p;
    *e = (struct item){.head = 1};
    switch (first >> 6) {
    case 0: e->size = first & 0x3f; break;
    case 1:
        if (left < 2) return false;
        *e = (struct item){.head = 2, .size = (size_t)(first & 0x3f) << 8 | p[1]};
        break;
    case 2:
        if (first != 0x80 || left < 5) return false;
        *e = (struct item){.head = 5, .size = (size_t)p[1] << 24 | (size_t)p[2] << 16 | (size_t)p[3] << 8 | p[4]};
        break;
    default: {
        unsigned bytes = first == 0xc0 ? 2 : first == 0xd0 ? 4 : first == 0xe0 ? 8 : first == 0xf0 ? 3 : first == 0xfe ? 1 : 0;
        e->is_int = true;
        if (!bytes) {
            if (first < 0xf1 || first > 0xfd) return false;
            e->v = (first & 0xf) - 1;
        } else {
            if (left < 1 + bytes) return false;
            e->v = signed_little(p + 1, bytes);
        }
        e->head = 1 + bytes;
    }
    }
    return e->head + e->size <= left;
}

const char *rdb_ziplist(const uint8_t *p, size_t size, struct rdb_packed_walk *w, uint64_t most, rdb_element *add, void *arg) {
    if (size < ZIPLIST_HEAD + 1 || little(p, 4) != size || p[size - 1] != END) return "a ziplist of another size than it says";
    const uint8_t *at = p + (w->more ? w->at : ZIPLIST_HEAD), *end = p + size - 1;
    uint64_t says = little(p + 8, 2);
    if (!w->more) w->last = ZIPLIST_HEAD;
    w->more = false;
    for (; at < end; w->n++) {
        if (!most--) return leave_at(w, (size_t)(at - p));
        bool is_long = *at == 0xfe;
        size_t link = is_long ? 5 : 1, left = (size_t)(end - at);
        if (*at == END || left <= link || (is_long ? little(at + 1, 4) : *at) != w->before) return "a ziplist's element with a wrong link";
        struct item e;
        if (!ziplist_element(at + link, left - link, &e)) return "a ziplist's element that does not fit";
        if (!add_element(&e, at + link, add, arg)) return leave_at(w, (size_t)(at - p));
        w->last = (size_t)(at - p);
        w->before = link + e.head + e.size;
        at += w->before;
    }
    if (little(p + 4, 4) != w->last) return "a ziplist with a wrong end";
    return says != LISTPACK_UNKNOWN && says != w->n ? "a ziplist with another number of elements than it says" : NULL;
}

/* ---- zipmap: how many (1, fe: not known), then size, key, size, unused bytes (1), value, unused bytes; end. A size is one byte, or fe and four ---- */

#define ZIPMAP_UNKNOWN 0xfeu

static bool zipmap_text(const uint8_t **at, const uint8_t *end, bool value, const uint8_t **text, size_t *size) {
    const uint8_t *p = *at;
    size_t left = (size_t)(end - p), head = left && *p == 0xfe ? 5 : 1, unused = 0;
    if (left < head + value || *p == END) return false;
    *size = head == 5 ? little(p + 1, 4) : *p;
    if (value) unused = p[head++];
    if (*size > left - head || unused > left - head - *size) return false;
    *text = p + head;
    *at = p + head + *size + unused;
    return true;
}

const char *rdb_zipmap(const uint8_t *p, size_t size, struct rdb_packed_walk *w, uint64_t most, rdb_element *add, void *arg) {
    if (size < 2 || p[size - 1] != END) return "a zipmap without an end";
    const uint8_t *at = p + (w->more ? w->at : 1), *end = p + size - 1, *text;
    size_t n;
    w->more = false;
    for (; at < end; w->n++) {
        if (!most--) return leave_at(w, (size_t)(at - p));
        if (!zipmap_text(&at, end, false, &text, &n)) return "a zipmap's key that does not fit";
        if (!add(arg, (const char *)text, n)) return NULL;
        if (!zipmap_text(&at, end, true, &text, &n)) return "a zipmap's value that does not fit";
        if (!add(arg, (const char *)text, n)) return NULL;
    }
    return *p != ZIPMAP_UNKNOWN && *p != w->n ? "a zipmap with another number of fields than it says" : NULL;
}

/* ---- intset: bytes of an integer (4), how many (4), integers in ascending order ---- */

const char *rdb_intset(const uint8_t *p, size_t size, struct rdb_packed_walk *w, uint64_t most, rdb_element *add, void *arg) {
    if (size < 8) return "an intset of another size than it says";
    uint64_t width = little(p, 4), n = little(p + 4, 4);
    if (width != 2 && width != 4 && width != 8) return "an intset of unknown form";
    if (size - 8 != width * n) return "an intset of another size than it says";
    w->more = false;
    for (; w->n < n; w->n++) {
        uint64_t i = w->n;
        if (!most--) return leave_at(w, 0);
        int64_t v = signed_little(p + 8 + i * width, (unsigned)width);
        if (i && v <= signed_little(p + 8 + (i - 1) * width, (unsigned)width)) return "an intset that is not in order";
        if (!add_int(add, arg, v)) return NULL;
    }
    return NULL;
}
