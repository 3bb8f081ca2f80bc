/* HRANDFIELD. In this file: what is drawn, in slices; the command.
 *
 * As set_random.c draws members: few of many one by one, else on a walk through all (Knuth, The Art of Computer Programming, volume 2, 3.4.2, algorithm S). Of
 * fields of which some are past their time the others are copied first, and drawn from the copy.
 */
#include <mimalloc.h>

#include "server/drawn.h"
#include "server/hashes.h"
#include "server/strings.h"
#include "shard/container.h"

/* Bytes of a reply with fields drawn more than once: what asks for more is closed. */
#define DRAWN_MAX ((size_t)1 << 28)
/* Draws of a slice, fields walked through or copied, and bytes of its reply: with a million 40 to 90 us of CPU in the median. */
#define SLICE_DRAWS 128u
#define SLICE_WALK 512u
#define SLICE_COPY 256u
#define SLICE_BYTES (64u << 10)
/* What is drawn of a hash of this many times the count is drawn one by one; of a smaller one, while walking through it. */
#define DRAW_RATIO 3u

/* ---- what is drawn ---- */

/* A command under way. */
struct drawing {
    enum {
        COPY,       /* those that are there are copied */
        ANY,        /* fields that may be drawn again */
        ONE_BY_ONE, /* different ones */
        ON_THE_WAY  /* the same, of a walk through all */
    } how;
    bool copied, values;
    int64_t count;
    uint64_t left, rest; /* to be drawn yet; ON_THE_WAY: fields that the walk will come to */
    struct fields_walk walk;
    struct drawn drawn;
    struct fields live; /* the copy */
};

static struct drawing *drawing_of(const struct hop *h) { return h->state > HOP_IN_SLICES ? (struct drawing *)(uintptr_t)h->state : NULL; }

static void drawing_end(struct shard *s, struct hop *h, struct drawing *d) {
    struct fields *live = &d->live;
    void *container = live->map ? (void *)live->map : (void *)live->page;
    if (container) container_free(s->memory, live->map ? ENC_MAP : ENC_PAGE, container, &s->trash);
    drawn_drop(&d->drawn);
    if (!drawing_of(h)) return;
    mi_free(d);
    h->state = 0;
}

void field_drawing_drop(struct shard *s, struct hop *h, struct reply *r) {
    struct drawing *d = drawing_of(h);
    (void)r;
    if (d) drawing_end(s, h, d);
}

static void choose_how(struct drawing *d, const struct fields *of) {
    uint64_t all = fields_count(of), n = d->count < 0 ? (uint64_t)-d->count : (uint64_t)d->count;
    d->rest = all;
    d->left = d->count > 0 && n > all ? all : n;
    d->how = d->count < 0 ? ANY : d->left < all / DRAW_RATIO ? ONE_BY_ONE : ON_THE_WAY;
}

/* Whether it is done in one go. */
static bool is_short(const struct drawing *d, const struct hash *x) {
    bool draws = d->count < 0 && (uint64_t)-d->count > SLICE_DRAWS, many = fields_count(&x->fields) > SLICE_WALK;
    if (d->how == COPY) return !draws && fields_count(&x->fields) <= SLICE_COPY;
    return d->how == ON_THE_WAY ? !many : d->left <= SLICE_DRAWS;
}

enum progress { MORE, DONE, REFUSED };

static uint64_t next_random(void *s) { return shard_random(s); }

static void reply_drawn(const struct field *f, bool values, struct reply *r) {
    if (values && r->resp >= 3) reply_array(r, 2);
    reply_packed(r, f->name);
    if (values) reply_packed(r, f->value);
}

/* The next one that is drawn. False: no memory. */
static bool draw_one(struct shard *s, struct drawing *d, const struct fields *of, struct reply *r) {
    struct field f;
    int is_new = 1;
    do {
        fields_random(of, next_random, s, &f);
        if (d->how == ONE_BY_ONE) is_new = drawn_add(&d->drawn, f.name);
    } while (!is_new);
    if (is_new < 0) return false;
    reply_drawn(&f, d->values, r);
    return true;
}

static enum progress walk_on(struct shard *s, struct drawing *d, const struct fields *of, struct reply *r) {
    struct field f;
    size_t size = r->size;
    for (uint32_t n = 0; d->left; n++, d->rest--) {
        if (n == SLICE_WALK || r->size - size > SLICE_BYTES) return MORE;
        if (!fields_next(of, &d->walk, &f)) break;
        if (shard_random(s) % d->rest >= d->left) continue;
        reply_drawn(&f, d->values, r);
        d->left--;
    }
    return DONE;
}

static enum progress draw_on(struct shard *s, struct drawing *d, const struct fields *of, struct reply *r) {
    size_t size = r->size;
    if (d->how == ON_THE_WAY) return walk_on(s, d, of, r);
    for (uint32_t n = 0; d->left; n++, d->left--) {
        if (n == SLICE_DRAWS || r->size - size > SLICE_BYTES) return MORE;
        if (d->how == ANY && (r->size + r->refs_bytes > DRAWN_MAX || r->failed)) return REFUSED;
        if (!draw_one(s, d, of, r)) return REFUSED;
    }
    return DONE;
}

static enum progress copy_on(struct drawing *d, const struct hash *x) {
    struct field f;
    for (uint32_t n = 0; n < SLICE_COPY; n++) {
        if (!fields_next(&x->fields, &d->walk, &f)) return DONE;
        if (hash_is_live(x, &f) && fields_put_copy(&d->live, &f)) return REFUSED;
    }
    return MORE;
}

/* ---- the command ---- */

/* All that is there is known: the reply's head; or all of it, if that is little. False: no memory. */
static bool begin(struct shard *s, const struct hop *h, struct drawing *d, const struct fields *of, struct reply *r) {
    bool one = h->argc == 2;
    struct field f;
    choose_how(d, of);
    if (d->how == ONE_BY_ONE && !one && d->left && !drawn_new(&d->drawn, d->left)) return false;
    if (!one) {
        reply_array(r, d->values && r->resp < 3 ? 2 * d->left : d->left);
        return true;
    }
    d->left = 0;
    if (fields_is_empty(of)) {
        reply_null(r);
        return true;
    }
    fields_random(of, next_random, s, &f);
    reply_packed(r, f.name);
    return true;
}

/* Goes on. */
static enum progress go_on(struct shard *s, const struct hop *h, struct drawing *d, struct hash *x, struct reply *r) {
    if (d->how == COPY) {
        enum progress p = copy_on(d, x);
        if (p == MORE) return MORE;
        d->walk = (struct fields_walk){0};
        d->copied = true;
        if (fields_is_empty(&d->live) && d->count < 0) d->count = 0;
        if (p == REFUSED || !begin(s, h, d, &d->live, r)) {
            reply_refused(s, r);
            return DONE;
        }
        return MORE;
    }
    enum progress p = draw_on(s, d, d->copied ? &d->live : &x->fields, r);
    if (p == REFUSED) r->failed = true; /* half of the reply may be on its way */
    return p;
}

/* Of a hash with fields. */
static enum hop_result draw(struct shard *s, struct hop *h, struct hash *x, int64_t count, struct reply *r) {
    struct drawing begun = {.count = count, .values = h->argc == 4, .live = {.memory = s->memory, .secret = s->secret}};
    struct drawing *d = drawing_of(h);
    size_t size = r->size;
    if (!d) {
        d = &begun;
        if (hash_has_dead(x)) d->how = COPY;
        else choose_how(d, &x->fields);
        bool is_long = h->state || !is_short(d, x); /* with a state: in slices from the beginning */
        if (is_long && !h->state) return HOP_AGAIN;
        d = is_long ? mi_malloc(sizeof *d) : &begun;
        if (d && is_long) {
            *d = begun;
            h->state = (uint64_t)(uintptr_t)d;
        }
        if (!d || (d->how != COPY && !begin(s, h, d, &x->fields, r))) {
            reply_refused(s, r);
            if (d) drawing_end(s, h, d);
            return HOP_DONE;
        }
    }
    enum progress p = go_on(s, h, d, x, r);
    while (p == MORE && !drawing_of(h) && r->size - size <= REPLY_GO_BYTES) p = go_on(s, h, d, x, r);
    if (p == MORE && !drawing_of(h)) { /* few, but very long: they are taken back, and others are drawn in slices */
        reply_cut(s, r, size);
        drawing_end(s, h, d);
    }
    if (p == MORE) return HOP_AGAIN;
    drawing_end(s, h, d);
    return HOP_DONE;
}

/* HRANDFIELD's options; the error is replied. */
static bool read_options(const struct hop *h, int64_t *count, struct reply *r) {
    bool values = h->argc == 4;
    if (h->argc == 2) return true;
    if (!arg_int64(&h->argv[2], count, r)) return false;
    if (*count == INT64_MIN) {
        reply_error(r, "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807");
        return false;
    }
    if (h->argc > 4 || (values && !arg_is(&h->argv[3], "withvalues"))) {
        reply_syntax_error(r);
        return false;
    }
    if (!values || (*count >= -INT64_MAX / 2 && *count <= INT64_MAX / 2)) return true;
    reply_error(r, "ERR value is out of range");
    return false;
}

enum hop_result hrandfield(struct shard *s, struct hop *h, struct reply *r) {
    struct hash x;
    int64_t count = 0;
    if (!read_options(h, &count, r) || !hash_open_slice(s, h, &x, r)) return HOP_DONE;
    if (!fields_is_empty(&x.fields) && (count || h->argc == 2)) return draw(s, h, &x, count, r);
    if (h->argc == 2) reply_null(r);
    else reply_array(r, 0);
    return HOP_DONE;
}
