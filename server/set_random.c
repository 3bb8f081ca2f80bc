/* SRANDMEMBER and SPOP. In this file: what is drawn, in slices; SRANDMEMBER; SPOP.
 *
 * A set that has few more members than are asked for is walked through, each member taken with the probability that is left for it (Knuth, The Art of Computer
 * Programming, volume 2, 3.4.2, algorithm S). Of a larger one members are drawn one by one, and those that were drawn already are drawn again.
 *
 * What is much goes on in slices. The set is opened anew for each; nothing in it moves meanwhile, as there is an intent on it, so what was drawn is known by
 * where it lies.
 */
#include <mimalloc.h>

#include "server/drawn.h"
#include "server/sets.h"
#include "server/strings.h"

/* Bytes of a reply with members drawn more than once: what asks for more is closed. */
#define DRAWN_MAX ((size_t)1 << 30)
/* Draws of a slice, members walked through, and bytes of its reply: with a million 40 to 90 us of CPU in the median. */
#define SLICE_DRAWS 128u
#define SLICE_WALK 512u
#define SLICE_BYTES (64u << 10)
/* What is drawn of a set of this many times the count is drawn one by one; of a smaller one, while walking through it. */
#define DRAW_RATIO 3u
/* SPOP that leaves less than a fifth of what it takes makes a new set of the rest, as Redis does. */
#define KEEP_RATIO 5u

/* ---- what is drawn ---- */

/* A command under way. */
struct drawing {
    enum {
        ANY,        /* members that may be drawn again */
        ONE_BY_ONE, /* different ones */
        ON_THE_WAY, /* the same, of a walk through all */
        TAKE,       /* SPOP: each is taken out */
        KEEP,       /* SPOP: those that stay are drawn, and become a set; then OTHERS */
        OTHERS,     /* those that were not drawn are replied, in a walk through all */
        ALL         /* SPOP: all of them are */
    } how;
    uint64_t left; /* to be drawn; KEEP: to be kept; of a walk: to be replied */
    uint64_t rest; /* ON_THE_WAY: members that the walk will come to */
    struct set_walk walk;
    struct drawn drawn;
    struct set kept;
};

static struct drawing *drawing_of(const struct hop *h) { return h->state > HOP_IN_SLICES ? (struct drawing *)(uintptr_t)h->state : NULL; }

/* What goes on in slices, and is begun; NULL: no memory, replied. */
static struct drawing *drawing_keep(struct hop *h, const struct drawing *of, struct shard *s, struct reply *r) {
    struct drawing *d = mi_malloc(sizeof *d);
    if (!d) {
        reply_refused(s, r);
        return NULL;
    }
    *d = *of;
    h->state = (uint64_t)(uintptr_t)d;
    return d;
}

static void drawing_end(struct hop *h, struct drawing *d) {
    drawn_drop(&d->drawn);
    if (!drawing_of(h)) return;
    mi_free(d);
    h->state = 0;
}

void drawing_drop(struct shard *s, struct hop *h, struct reply *r) {
    struct drawing *d = drawing_of(h);
    (void)r;
    if (!d) return;
    set_drop(s, &d->kept);
    drawing_end(h, d);
}

/* Whether it is done in one go. */
static bool is_short(const struct drawing *d, const struct set *x) {
    if (d->how == ANY || d->how == ONE_BY_ONE || d->how == TAKE) return d->left <= SLICE_DRAWS;
    return set_count(x) <= SLICE_WALK;
}

static uint64_t next_random(void *s) { return shard_random(s); }

/* One that was not drawn before. Of count draws out of DRAW_RATIO times as many, each takes 1.5 tries at most. False: no memory. */
static bool draw_new(struct shard *s, const struct set *x, struct drawn *d, struct set_item *m) {
    int is_new;
    do {
        set_random(x, next_random, s, m);
        is_new = drawn_add(d, set_place(x, m));
    } while (!is_new);
    return is_new > 0;
}

static bool keep_one(struct set *kept, const struct set_item *m) {
    char scratch[INT64_TEXT_SIZE];
    struct field_name name;
    set_name_of(kept, m, scratch, &name);
    return set_add(kept, &name, set_ints_max()) >= 0;
}

/* The next one that is drawn. False: no memory. */
static bool draw_one(struct shard *s, struct drawing *d, struct set *x, struct reply *r) {
    struct set_item m;
    if (d->how == ONE_BY_ONE || d->how == KEEP) {
        if (!draw_new(s, x, &d->drawn, &m)) return false;
    } else set_random(x, next_random, s, &m);
    if (d->how == KEEP) return keep_one(&d->kept, &m);
    reply_item(r, &m);
    if (d->how == TAKE) set_remove(x, &m);
    return true;
}

/* Whether the walk takes this one. */
static bool takes(struct shard *s, const struct drawing *d, const struct set *x, const struct set_item *m) {
    switch (d->how) {
    case ON_THE_WAY: return shard_random(s) % d->rest < d->left;
    case OTHERS: return !drawn_has(&d->drawn, set_place(x, m));
    default: return true;
    }
}

enum progress { MORE, DONE, REFUSED };

static enum progress walk_on(struct shard *s, struct drawing *d, const struct set *x, struct reply *r) {
    struct set_item m;
    size_t size = r->size;
    for (uint32_t n = 0; d->left; n++, d->rest--) {
        if (n == SLICE_WALK || r->size - size > SLICE_BYTES) return MORE;
        if (!set_next(x, &d->walk, &m)) break;
        if (!takes(s, d, x, &m)) continue;
        reply_item(r, &m);
        d->left--;
    }
    return DONE;
}

static enum progress draw_on(struct shard *s, struct drawing *d, struct set *x, struct reply *r) {
    size_t size = r->size;
    if (d->how != ANY && d->how != ONE_BY_ONE && d->how != TAKE && d->how != KEEP) return walk_on(s, d, x, r);
    for (uint32_t n = 0; d->left; n++, d->left--) {
        if (n == SLICE_DRAWS || r->size - size > SLICE_BYTES) return MORE;
        if (d->how == ANY && (r->size + r->refs_bytes > DRAWN_MAX || r->failed)) return REFUSED;
        if (!draw_one(s, d, x, r)) return REFUSED;
    }
    return DONE;
}

/* ---- SRANDMEMBER ---- */

/* False: the key is of another type, and that is replied. */
static bool open_read(struct shard *s, const struct hop *h, struct set *x, struct reply *r) {
    const struct arg *name = hop_key(h, 0);
    struct key k;
    if (h->state) key_look(s, s->dbs[h->db], h->hash, name->p, name->size, &k);
    else key_read(s, h, &k);
    if (!is_set(&k, r)) return false;
    *x = set_open(s, &k);
    return true;
}

static struct drawing drawing_for(const struct set *x, int64_t count) {
    uint64_t all = set_count(x), n = count < 0 ? (uint64_t)-count : (uint64_t)count;
    struct drawing d = {.how = ANY, .left = n, .rest = all};
    if (count < 0) return d;
    if (n > all) d.left = all;
    d.how = d.left < all / DRAW_RATIO ? ONE_BY_ONE : ON_THE_WAY;
    return d;
}

static enum hop_result draw_some(struct shard *s, struct hop *h, struct set *x, int64_t count, struct reply *r) {
    struct drawing begun, *d = drawing_of(h);
    size_t size = r->size;
    if (!d) {
        begun = drawing_for(x, count);
        d = &begun;
        bool is_long = h->state || !is_short(d, x); /* with a state: in slices from the beginning */
        if (is_long && !h->state) return HOP_AGAIN;
        if (d->how == ONE_BY_ONE && !drawn_new(&d->drawn, d->left)) {
            reply_refused(s, r);
            return HOP_DONE;
        }
        if (is_long && !(d = drawing_keep(h, &begun, s, r))) {
            drawn_drop(&begun.drawn);
            return HOP_DONE;
        }
        reply_array(r, d->left);
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

enum hop_result srandmember(struct shard *s, struct hop *h, struct reply *r) {
    struct set x;
    struct set_item m;
    int64_t count = 0;
    if (h->argc > 3) {
        reply_syntax_error(r);
        return HOP_DONE;
    }
    if (h->argc > 2 && !arg_int64(&h->argv[2], &count, r)) return HOP_DONE;
    if (count == INT64_MIN) {
        reply_errorf(r, "ERR value is out of range, value must between %lld and %lld", -(long long)INT64_MAX, (long long)INT64_MAX);
        return HOP_DONE;
    }
    if (!open_read(s, h, &x, r)) return HOP_DONE;
    if (h->argc > 2) {
        if (!set_is_empty(&x) && count) return draw_some(s, h, &x, count, r);
        reply_array(r, 0);
    } else if (set_is_empty(&x)) {
        reply_null(r);
    } else {
        set_random(&x, next_random, s, &m);
        reply_item(r, &m);
    }
    return HOP_DONE;
}

/* ---- SPOP ---- */

static void pop_one(struct shard *s, struct key *k, struct set *x, struct reply *r) {
    struct set_item m;
    key_before_change(s, k, KEY_SPOP);
    set_random(x, next_random, s, &m);
    reply_item(r, &m);
    set_remove(x, &m);
    set_store(s, k, x, KEY_SPOP);
}

/* Of fewer members than are there. */
static struct drawing popping_for(const struct set *x, uint64_t count) {
    uint64_t all = set_count(x), stay = all > count ? all - count : 0;
    struct drawing d = {.how = TAKE, .left = count};
    if (!stay) d = (struct drawing){.how = ALL, .left = all};
    else if (stay * KEEP_RATIO <= count) d = (struct drawing){.how = KEEP, .left = stay};
    return d;
}

/* Without memory for those that stay each is taken out. */
static void take_instead(struct shard *s, struct drawing *d, uint64_t count, struct reply *r) {
    drawn_drop(&d->drawn);
    set_drop(s, &d->kept);
    *d = (struct drawing){.how = TAKE, .left = count, .kept = set_new(s)};
    reply_set(r, count);
}

/* What it is once a part is done. */
static void store(struct shard *s, struct key *k, struct drawing *d, struct set *x, bool done) {
    struct set old = *x;
    if (d->how == TAKE && !done) set_keep(s, k, x, KEY_SPOP);
    else if (d->how == TAKE) set_store(s, k, x, KEY_SPOP);
    else if (done && d->how == ALL) {
        key_after_change(s, k, KEY_SPOP);
        key_delete(s, k, KEY_DEL);
    } else if (done) {
        set_store(s, k, &d->kept, KEY_SPOP);
        set_drop(s, &old);
    }
}

/* Begins what is in d; in slices too. */
static void pop_begin(struct shard *s, struct drawing *d, uint64_t count, struct reply *r) {
    d->kept = set_new(s);
    if (d->how == KEEP && !drawn_new(&d->drawn, d->left)) take_instead(s, d, count, r);
    else if (d->how != KEEP) reply_set(r, d->left);
}

/* False: there is more. */
static bool pop_on(struct shard *s, struct key *k, struct drawing *d, struct set *x, uint64_t count, struct reply *r) {
    key_before_change(s, k, KEY_SPOP);
    enum progress p = draw_on(s, d, x, r);
    if (d->how == KEEP) {
        if (p == DONE) {
            d->how = OTHERS;
            d->left = count;
            reply_set(r, count);
        } else if (p == REFUSED) take_instead(s, d, count, r);
        return false;
    }
    store(s, k, d, x, p != MORE);
    return p != MORE;
}

static enum hop_result pop_some(struct shard *s, struct hop *h, struct key *k, struct set *x, uint64_t count, struct reply *r) {
    struct drawing begun, *d = drawing_of(h);
    if (!d) {
        begun = popping_for(x, count);
        d = &begun;
        bool is_long = !is_short(d, x);
        if (is_long && !h->state) return HOP_AGAIN;
        if (is_long && !(d = drawing_keep(h, &begun, s, r))) return HOP_DONE;
        pop_begin(s, d, count, r);
    }
    bool done = pop_on(s, k, d, x, count, r);
    while (!done && !drawing_of(h)) done = pop_on(s, k, d, x, count, r);
    if (!done) return HOP_AGAIN;
    drawing_end(h, d);
    return HOP_DONE;
}

/* SPOP's count; the error is replied. */
static bool pop_count(const struct arg *a, int64_t *count, struct reply *r) {
    if (parse_int64(a->p, a->size, count) && *count >= 0) return true;
    reply_error(r, "ERR value is out of range, must be positive");
    return false;
}

enum hop_result spop(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    struct set x;
    int64_t count = 0;
    if (h->argc > 3) {
        reply_syntax_error(r);
        return HOP_DONE;
    }
    if (h->argc == 3 && !pop_count(&h->argv[2], &count, r)) return HOP_DONE;
    key_write(s, h, &k);
    if (!is_set(&k, r)) return HOP_DONE;
    x = set_open(s, &k);
    if (h->argc == 3 && !set_is_empty(&x) && count) return pop_some(s, h, &k, &x, (uint64_t)count, r);
    if (h->argc == 3) reply_set(r, 0);
    else if (set_is_empty(&x)) reply_null(r);
    else pop_one(s, &k, &x, r);
    return HOP_DONE;
}
