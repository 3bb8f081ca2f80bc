/* ZRANDMEMBER. In this file: what is asked; what is drawn, in slices; the command.
 *
 * Of a sorted set that has few more members than are asked for each is taken, on a walk through all, with the probability that is left for it (Knuth, The Art of Computer
 * Programming, volume 2, 3.4.2, algorithm S). Of a larger one members are drawn one by one, and those that were drawn already are drawn again: they are known by where they lie,
 * as nothing moves while there is an intent on the key.
 */
#include <mimalloc.h>

#include "server/drawn.h"
#include "server/strings.h"
#include "server/zsets.h"

/* Bytes of a reply with members drawn more than once: what asks for more is closed. */
#define DRAWN_MAX ((size_t)1 << 28)
/* Draws of a slice, members walked through, and bytes of its reply. */
#define SLICE_DRAWS 128u
#define SLICE_WALK 512u
#define SLICE_BYTES (64u << 10)
/* What is drawn of this many times the count is drawn one by one. */
#define DRAW_RATIO 3u

/* ---- what is asked ---- */

/* False: an error was replied. */
static bool draw_options(const struct hop *h, int64_t *count, bool *scores, struct reply *r) {
    *scores = h->argc == 4;
    if (h->argc < 3) return true;
    if (!arg_int64(&h->argv[2], count, r)) return false;
    if (*count == INT64_MIN) {
        reply_error(r, "ERR value is out of range, value must between -9223372036854775807 and 9223372036854775807");
        return false;
    }
    if (h->argc > 4 || (*scores && !arg_is(&h->argv[3], "withscores"))) {
        reply_syntax_error(r);
        return false;
    }
    if (*scores && (*count < -INT64_MAX / 2 || *count > INT64_MAX / 2)) {
        reply_error(r, "ERR value is out of range");
        return false;
    }
    return true;
}

/* ---- what is drawn ---- */

/* A command under way. */
struct drawing {
    enum {
        ANY,        /* members that may be drawn again */
        ONE_BY_ONE, /* different ones */
        ON_THE_WAY  /* the same, of a walk through all */
    } how;
    bool scores;
    uint64_t left; /* to be drawn */
    uint64_t rest; /* ON_THE_WAY: members that the walk will come to */
    struct drawn drawn;
};

static struct drawing *drawing_of(const struct hop *h) { return h->state > HOP_IN_SLICES ? (struct drawing *)(uintptr_t)h->state : NULL; }

static void drawing_end(struct hop *h, struct drawing *d) {
    drawn_drop(&d->drawn);
    if (!drawing_of(h)) return;
    mi_free(d);
    h->state = 0;
}

void zrandmember_drop(struct shard *s, struct hop *h, struct reply *r) {
    struct drawing *d = drawing_of(h);
    (void)s, (void)r;
    if (d) drawing_end(h, d);
}

static struct drawing drawing_for(const struct zset *x, int64_t count, bool scores) {
    uint64_t all = zset_count(x), n = count < 0 ? (uint64_t)-count : (uint64_t)count;
    struct drawing d = {.how = ANY, .scores = scores, .left = n, .rest = all};
    if (count < 0) return d;
    if (n > all) d.left = all;
    d.how = d.left < all / DRAW_RATIO ? ONE_BY_ONE : ON_THE_WAY;
    return d;
}

static bool is_short(const struct drawing *d) { return d->how == ON_THE_WAY ? d->rest <= SLICE_WALK : d->left <= SLICE_DRAWS; }

static uint64_t next_random(void *s) { return shard_random(s); }

enum progress { MORE, DONE, REFUSED };

static enum progress walk_on(struct shard *s, struct drawing *d, const struct zset *x, struct reply *r) {
    struct zset_walk w;
    struct zset_item m;
    size_t size = r->size;
    zset_begin(x, &w, zset_count(x) - d->rest, SLICE_WALK, false);
    while (d->left && r->size - size <= SLICE_BYTES && zset_next(x, &w, &m)) {
        if (shard_random(s) % d->rest-- >= d->left) continue;
        d->left--;
        reply_scored(r, &m, d->scores);
    }
    return d->left ? MORE : DONE;
}

/* Of count draws out of DRAW_RATIO times as many, each takes 1.5 tries at most. */
static enum progress draw_on(struct shard *s, struct drawing *d, const struct zset *x, struct reply *r) {
    struct zset_item m;
    size_t size = r->size;
    if (d->how == ON_THE_WAY) return walk_on(s, d, x, r);
    for (uint32_t n = 0; d->left; n++, d->left--) {
        if (n == SLICE_DRAWS || r->size - size > SLICE_BYTES) return MORE;
        if (r->size + r->refs_bytes > DRAWN_MAX || r->failed) return REFUSED;
        int is_new = 1;
        do {
            zset_random(x, next_random, s, &m);
            if (d->how == ONE_BY_ONE) is_new = drawn_add(&d->drawn, m.member);
        } while (!is_new);
        if (is_new < 0) return REFUSED;
        reply_scored(r, &m, d->scores);
    }
    return DONE;
}

/* What goes on in slices, and is begun; NULL: no memory. */
static struct drawing *drawing_keep(struct hop *h, const struct drawing *of) {
    struct drawing *d = mi_malloc(sizeof *d);
    if (!d) return NULL;
    *d = *of;
    h->state = (uint64_t)(uintptr_t)d;
    return d;
}

static enum hop_result draw_some(struct shard *s, struct hop *h, const struct zset *x, int64_t count, bool scores, struct reply *r) {
    struct drawing begun, *d = drawing_of(h);
    size_t size = r->size;
    if (!d) {
        begun = drawing_for(x, count, scores);
        bool is_long = h->state || !is_short(&begun); /* with a state: in slices from the beginning */
        if (is_long && !h->state) return HOP_AGAIN;
        bool good = begun.how != ONE_BY_ONE || drawn_new(&begun.drawn, begun.left);
        d = good && is_long ? drawing_keep(h, &begun) : &begun;
        if (!good || !d) {
            drawn_drop(&begun.drawn);
            reply_refused(s, r);
            return HOP_DONE;
        }
        reply_members_size(r, d->left, scores);
    }
    enum progress p = draw_on(s, d, x, r);
    while (p == MORE && !drawing_of(h) && r->size - size <= REPLY_GO_BYTES) p = draw_on(s, d, x, r);
    if (p == MORE && !drawing_of(h)) { /* few, but very long: they are taken back, and others are drawn in slices */
        reply_cut(s, r, size);
        drawn_drop(&d->drawn);
    }
    if (p == MORE) return HOP_AGAIN;
    if (p == REFUSED) r->failed = true; /* half of the reply may be on its way */
    drawing_end(h, d);
    return HOP_DONE;
}

/* ---- the command ---- */

enum hop_result zrandmember(struct shard *s, struct hop *h, struct reply *r) {
    struct zset x;
    struct zset_item m;
    int64_t count = 0;
    bool scores;
    if (!draw_options(h, &count, &scores, r) || !zset_open_slice(s, h, &x, r)) return HOP_DONE;
    bool empty = zset_is_empty(&x);
    if (h->argc > 2) {
        if (!empty && count) return draw_some(s, h, &x, count, scores, r);
        reply_array(r, 0);
    } else if (empty) {
        reply_null(r);
    } else {
        zset_random(&x, next_random, s, &m);
        reply_member(r, &m);
    }
    return HOP_DONE;
}
