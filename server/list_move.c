/* List commands over several keys: LMOVE, RPOPLPUSH, LMPOP; each also as waves of hops over several shards. */
#include <mimalloc.h>

#include "server/lists.h"
#include "server/steps.h"
#include "server/strings.h"
#include "server/task_internal.h"
#include "server/waiting.h"

/* ---- LMOVE, RPOPLPUSH ---- */

bool read_ends(const struct hop *h, enum list_end *from, enum list_end *to, struct reply *r) {
    *from = LIST_TAIL;
    *to = LIST_HEAD;
    if (h->argc < 5 || (arg_end(&h->argv[3], from) && arg_end(&h->argv[4], to))) return true;
    reply_syntax_error(r);
    return false;
}

/* To another list first: what is refused there has not left. False: that is replied. */
static bool push_moved(struct shard *s, struct key *k, enum list_end end, const char *text, uint32_t size, struct reply *r) {
    struct list x = open_list(s, k);
    struct list_load load = {0};
    list_load_add(&load, size);
    if (!may_push(s, k, &x, &load, r)) return false;
    key_before_change(s, k, push_event(end));
    if (list_push(&x, end, &(struct arg){.p = text, .size = size})) list_keep(s, k, &x);
    else if (!list_store(s, k, &x, push_event(end))) return true;
    reply_refused(s, r);
    return false;
}

static void take_moved(struct shard *s, struct key *k, enum list_end end) {
    struct list x = open_list(s, k);
    key_before_change(s, k, pop_event(end));
    list_pop(&x, end, 1, &s->trash);
    list_store(s, k, &x, pop_event(end));
}

/* Within one list. Its element can't be pushed from where it lies. */
static void rotate(struct shard *s, struct key *k, enum list_end from, enum list_end to, struct reply *r) {
    struct list x = open_list(s, k);
    struct list_item i;
    char scratch[INT64_TEXT_SIZE], few[NODE_INLINE_MAX], *copy = few;
    uint32_t size;
    list_peek(&x, from, &i);
    const char *text = list_text(&i, scratch, &size);
    if (size > sizeof few) copy = mi_malloc(size);
    if (!copy) {
        reply_no_memory(r);
        return;
    }
    memcpy(copy, text, size);
    if (push_moved(s, k, to, copy, size, r)) {
        reply_bulk(r, copy, size);
        take_moved(s, k, from);
    }
    if (copy != few) mi_free(copy);
}

/* From a list that is there. src->slot may be out of date. */
static void move_one(
    struct shard *source, struct key *src, enum list_end from, struct shard *target, struct key *dst, enum list_end to, struct reply *r) {
    if (!is_list(src, r) || !is_list(dst, r)) return;
    if (src->entry == dst->entry) {
        rotate(source, src, from, to, r);
        return;
    }
    struct list l = open_list(source, src);
    struct list_item i;
    char scratch[INT64_TEXT_SIZE];
    uint32_t size;
    list_peek(&l, from, &i);
    const char *text = list_text(&i, scratch, &size);
    if (!push_moved(target, dst, to, text, size, r)) return;
    reply_bulk(r, text, size);
    src->slot = NULL; /* the insertion may have moved it */
    take_moved(source, src, from);
}

static void move_element(const struct spread *x, struct hop *h, struct reply *r) {
    struct shard *source, *target;
    struct key src, dst;
    enum list_end from, to;
    if (!read_ends(h, &from, &to, r)) return;
    bool found = spread_write(x, h, 0, &source, &src);
    spread_write(x, h, 1, &target, &dst);
    src.slot = NULL; /* the second look may have deleted a key */
    if (found) move_one(source, &src, from, target, &dst, to, r);
    else reply_null(r);
}

void lmove(const struct spread *x, struct hop *h, struct reply *r) { move_element(x, h, r); }
void rpoplpush(const struct spread *x, struct hop *h, struct reply *r) { move_element(x, h, r); }

/* ---- the same for BLMOVE, BRPOPLPUSH ---- */

static void move_at_once(struct shard *source, struct shard *target, struct hop *h, struct reply *r) {
    struct key src, dst;
    enum list_end from, to;
    if (!read_ends(h, &from, &to, r)) return;
    bool found = find_list(source, h, 0, &src);
    find_list(target, h, 1, &dst);
    src.slot = NULL;
    if (found) move_one(source, &src, from, target, &dst, to, r);
    else reply_null(r);
}

/* ---- over two shards ---- */

/* What is carried from one to the other. */
struct carried {
    enum list_end from, to;
    uint32_t size;
    char text[];
};

/* A copy of what is at the end of a list. NULL: no memory. */
static struct carried *carry(struct shard *s, const struct key *k, enum list_end from, enum list_end to) {
    struct list l = open_list(s, k);
    struct list_item i;
    char scratch[INT64_TEXT_SIZE];
    uint32_t size;
    list_peek(&l, from, &i);
    const char *text = list_text(&i, scratch, &size);
    struct carried *c = mi_malloc(sizeof *c + size);
    if (!c) return NULL;
    *c = (struct carried){from, to, size};
    memcpy(c->text, text, size);
    return c;
}

static void *copy_waited(struct shard *s, const struct hop *h) {
    enum list_end from, to;
    struct key k;
    read_ends(h, &from, &to, NULL);
    return find_list(s, h, 0, &k) ? carry(s, &k, from, to) : NULL;
}

static void put_waited(struct shard *s, const struct hop *h, const void *copy, struct reply *r) {
    const struct carried *c = copy;
    struct key k;
    find_list(s, h, 1, &k);
    if (is_list(&k, r)) push_moved(s, &k, c->to, c->text, c->size, r);
}

static void remove_waited(struct shard *s, const struct hop *h) {
    enum list_end from, to;
    struct key k;
    read_ends(h, &from, &to, NULL);
    if (find_list(s, h, 0, &k)) take_moved(s, &k, from);
}

static void reply_waited(const void *copy, struct reply *r) {
    const struct carried *c = copy;
    reply_bulk(r, c->text, c->size);
}

const struct moving list_moving = {
    .all = move_at_once, .copy = copy_waited, .put = put_waited, .remove = remove_waited, .reply = reply_waited};

static void drop_carried(struct thread *t, void *own) {
    (void)t;
    mi_free(own);
}

static enum hop_result look_at_source(struct shard *s, struct hop *h, struct reply *r) {
    struct carrier *x = steps_carrier(h);
    enum list_end from, to;
    struct key k;
    x->found[0] = key_write_nth(s, h, 0, &k);
    if (!x->found[0] || !is_list(&k, r) || !read_ends(h, &from, &to, r)) return HOP_DONE;
    x->own = carry(s, &k, from, to);
    x->drop_own = drop_carried;
    if (!x->own) reply_no_memory(r);
    return HOP_DONE;
}

static enum hop_result look_at_target(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    key_write_nth(s, h, 1, &k);
    is_list(&k, r);
    return HOP_DONE;
}

static enum hop_result push_to_target(struct shard *s, struct hop *h, struct reply *r) {
    const struct carried *c = steps_carrier(h)->own;
    struct key k;
    key_write_nth(s, h, 1, &k);
    push_moved(s, &k, c->to, c->text, c->size, r);
    return HOP_DONE;
}

static enum hop_result take_from_source(struct shard *s, struct hop *h, struct reply *r) {
    const struct carried *c = steps_carrier(h)->own;
    struct key k;
    (void)r;
    if (key_write_nth(s, h, 0, &k)) take_moved(s, &k, c->from);
    return HOP_DONE;
}

/* The source's error comes before the target's. */
static bool take_error(struct thread *t, struct task *k, struct reply *r) {
    const struct batch *source = k->pieces[steps_shard_of(t, k, 0)];
    if (!source || !source->replies.size || source->replies.p[0] != '-') return steps_take_error(t, k, r);
    reply_bytes(r, source->replies.p, source->replies.size);
    return true;
}

bool lmove_steps(struct thread *t, struct task *k, struct reply *r) {
    const struct carrier *x = k->carrier;
    enum list_end from, to;
    if (k->step == 0) {
        struct hop h = {.argv = k->argv, .argc = k->argc};
        if (!read_ends(&h, &from, &to, r)) return false;
        steps_new_wave(t, k);
        steps_hop(t, k, steps_shard_of(t, k, 0), look_at_source);
        steps_hop(t, k, steps_shard_of(t, k, 1), look_at_target);
        return true;
    }
    if (k->step == 1 && !x->found[0]) {
        reply_null(r);
        return false;
    }
    if (take_error(t, k, r)) return false;
    if (k->step == 3) {
        const struct carried *c = x->own;
        reply_bulk(r, c->text, c->size);
        return false;
    }
    if (k->step == 1) steps_wave_on(t, k, 1, push_to_target);
    else steps_wave_on(t, k, 0, take_from_source);
    return true;
}

/* ---- LMPOP ---- */

/* What stands behind LEFT or RIGHT: nothing, or COUNT once. */
static bool read_count(const struct arg *argv, uint32_t argc, uint32_t at, struct multi_pop *x, struct reply *r) {
    int64_t count = 0;
    for (; at < argc; at += 2) {
        if (count || at + 1 == argc || !arg_is(&argv[at], "count")) {
            reply_syntax_error(r);
            return false;
        }
        if (parse_int64(argv[at + 1].p, argv[at + 1].size, &count) && count > 0) continue;
        reply_error(r, "ERR count should be greater than 0");
        return false;
    }
    x->count = count ? (uint64_t)count : 1;
    return true;
}

bool read_pop(const struct arg *argv, uint32_t argc, uint32_t at, struct multi_pop *x, struct reply *r) {
    int64_t n;
    if (!parse_int64(argv[at].p, argv[at].size, &n) || n < 1) {
        reply_error(r, "ERR numkeys should be greater than 0");
        return false;
    }
    uint32_t left = argc - at - 1;
    if (n >= left || !arg_end(&argv[at + 1 + (uint32_t)n], &x->end)) {
        reply_syntax_error(r);
        return false;
    }
    x->first = at + 1;
    x->n = (uint32_t)n;
    return read_count(argv, argc, x->first + x->n + 1, x, r);
}

void pop_of_many(struct shard *s, struct key *k, const struct multi_pop *x, struct reply *r) {
    struct list l = open_list(s, k);
    reply_array(r, 2);
    reply_bulk(r, k->name, k->size);
    pop_and_reply(s, k, &l, x->end, x->count, r);
}

void lmpop(const struct spread *x, struct hop *h, struct reply *r) {
    struct multi_pop asked;
    struct shard *s;
    struct key k;
    if (!read_pop(h->argv, h->argc, 1, &asked, r)) return;
    for (uint32_t i = 0; i < h->n_keys; i++) {
        if (!spread_write(x, h, i, &s, &k)) continue;
        if (is_list(&k, r)) pop_of_many(s, &k, &asked, r);
        return;
    }
    reply_null_array(r);
}

/* Where one shard has all keys. The first that is there stays so until all is popped. */
enum hop_result lmpop_on_one(struct shard *s, struct hop *h, struct reply *r) {
    struct multi_pop asked;
    struct key k;
    if (!read_pop(h->argv, h->argc, 1, &asked, r)) return HOP_DONE;
    for (uint32_t i = 0; i < h->n_keys; i++) {
        if (!key_write_nth(s, h, i, &k)) continue;
        return is_list(&k, r) ? pop_of_many_on(s, h, &k, &asked, r) : HOP_DONE;
    }
    reply_null_array(r);
    return HOP_DONE;
}

/* Over several shards: which keys are there, each written by its shard; and which is popped from. */
struct chosen {
    uint32_t nth;
    uint64_t state; /* of the pop, as a plain hop's */
    bool found[];
};

static enum hop_result look_for_keys(struct shard *s, struct hop *h, struct reply *r) {
    const struct carrier *x = steps_carrier(h);
    struct chosen *c = x->own;
    struct key k;
    (void)r;
    for (uint32_t i = 0; i < h->n_keys; i++)
        if (x->shards[i] == s->id) c->found[i] = key_write_nth(s, h, i, &k);
    return HOP_DONE;
}

static enum hop_result pop_chosen(struct shard *s, struct hop *h, struct reply *r) {
    struct chosen *c = steps_carrier(h)->own;
    struct hop own = *h;
    struct multi_pop asked;
    struct key k;
    if (!read_pop(h->argv, h->argc, 1, &asked, r)) return HOP_DONE;
    if (!key_write_nth(s, h, c->nth, &k)) {
        reply_null_array(r);
        return HOP_DONE;
    }
    if (!is_list(&k, r)) return HOP_DONE;
    own.state = c->state;
    enum hop_result result = pop_of_many_on(s, &own, &k, &asked, r);
    c->state = hop_state_next(&own);
    return result;
}

bool lmpop_steps(struct thread *t, struct task *k, struct reply *r) {
    struct carrier *x = k->carrier;
    struct chosen *c = x->own;
    struct multi_pop asked;
    if (k->step == 0) {
        if (!read_pop(k->argv, k->argc, 1, &asked, r)) return false;
        x->own = mi_calloc(1, sizeof *c + k->n_keys);
        x->drop_own = drop_carried;
        if (!x->own || !steps_find_shards(t, k)) {
            reply_no_memory(r);
            return false;
        }
        steps_wave_on_some(t, k, 0, k->n_keys, look_for_keys);
        return true;
    }
    if (k->step == 2) {
        steps_take_reply(t, k, r);
        return false;
    }
    while (c->nth < k->n_keys && !c->found[c->nth]) c->nth++;
    if (c->nth == k->n_keys) {
        reply_null_array(r);
        return false;
    }
    steps_wave_on(t, k, c->nth, pop_chosen);
    return true;
}
