/* List commands over several keys: LMOVE, RPOPLPUSH, LMPOP; each also as waves of hops over several shards. */
#include <mimalloc.h>
#include <stdlib.h>

#include "server/lists.h"
#include "server/outbox.h"
#include "server/steps.h"
#include "server/strings.h"
#include "server/task_internal.h"
#include "server/waiting.h"
#include "shard/blob.h"

/* ---- LMOVE, RPOPLPUSH ---- */

bool read_ends(const struct hop *h, enum list_end *from, enum list_end *to, struct reply *r) {
    *from = LIST_TAIL;
    *to = LIST_HEAD;
    if (h->argc < 5 || (arg_end(&h->argv[3], from) && arg_end(&h->argv[4], to))) return true;
    reply_syntax_error(r);
    return false;
}

/* The blob of an element that has one. */
static struct blob *blob_of(const char *text, uint32_t size) { return size >= BLOB_SHARE_MIN ? packed_blob(text) : NULL; }

/* To another list first: what is refused there has not left. False: that is replied. */
static bool push_moved(struct shard *s, struct key *k, enum list_end end, struct arg *text, struct reply *r) {
    struct list x = open_list(s, k);
    struct list_load load = {.n = 1, .bytes = PACKED_FAR_SIZE + 1};
    if (!(text->flags & ARG_SHARED)) { /* else there is no more than that to be taken */
        load = (struct list_load){0};
        list_load_add(&load, text->size);
    }
    if (!may_push(s, k, &x, &load, r)) return false;
    key_before_change(s, k, push_event(end));
    if (list_push(&x, end, text)) list_keep(s, k, &x);
    else if (!list_store(s, k, &x, push_event(end))) return true;
    reply_refused(s, r);
    return false;
}

static void take_moved(struct shard *s, struct key *k, enum list_end end) {
    struct list x = open_list(s, k);
    key_before_change(s, k, pop_event(end));
    list_pop(&x, end, 1, NULL); /* at once: a blob that was handed over is no business of this shard's any more */
    list_store(s, k, &x, pop_event(end));
}

/* Within one list. An element can't be pushed from where it lies, unless that is a blob. */
static void rotate(struct shard *s, struct key *k, enum list_end from, enum list_end to, struct reply *r) {
    struct list x = open_list(s, k);
    struct list_item i;
    char scratch[INT64_TEXT_SIZE], few[NODE_INLINE_MAX], *copy = few;
    uint32_t size;
    list_peek(&x, from, &i);
    struct arg text = {.p = list_text(&i, scratch, &size)};
    text.size = size;
    if (blob_of(text.p, size)) text.flags = ARG_SHARED;
    else {
        if (size > sizeof few) copy = mi_malloc(size);
        if (!copy) {
            reply_no_memory(r);
            return;
        }
        memcpy(copy, text.p, size);
        text.p = copy;
    }
    if (push_moved(s, k, to, &text, r)) {
        reply_stored(r, text.p, size);
        take_moved(s, k, from);
    }
    if (copy != few) mi_free(copy);
}

/* From a list that is there. src->slot may be out of date. A long element is handed over with its blob, unless another shard is to have it while it is being sent. */
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
    struct arg text = {.p = list_text(&i, scratch, &size)};
    text.size = size;
    struct blob *b = blob_of(text.p, size);
    bool passes = b && source != target && blob_transfer(source->memory, target->memory, b, target->id);
    if (b && (source == target || passes)) text.flags = ARG_SHARED;
    if (!push_moved(target, dst, to, &text, r)) {
        if (passes && !blob_transfer(target->memory, source->memory, b, source->id)) abort();
        return;
    }
    reply_stored(r, text.p, size);
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

/* What is carried from one to the other: a copy, or of a long one a reference to its blob, which the target's shard copies in slices. */
struct carried {
    enum list_end from, to;
    uint32_t size;
    struct blob *lent; /* NULL: the bytes are here; or they are the reply's by now */
    struct blob *copy; /* the target's; NULL: not begun, or in its list */
    size_t copied;
    uint64_t reserved; /* bytes of the budget, for it */
    char bytes[];
};

#define SLICE_COPIED (256u << 10)

/* What is at the end of a list. NULL: no memory. */
static struct carried *carry(struct shard *s, const struct key *k, enum list_end from, enum list_end to) {
    struct list l = open_list(s, k);
    struct list_item i;
    char scratch[INT64_TEXT_SIZE];
    uint32_t size;
    list_peek(&l, from, &i);
    const char *text = list_text(&i, scratch, &size);
    struct blob *b = blob_of(text, size);
    struct carried *c = mi_malloc(sizeof *c + (b ? 0 : size));
    if (!c) return NULL;
    *c = (struct carried){.from = from, .to = to, .size = size, .lent = b};
    if (b) b->refs++;
    else memcpy(c->bytes, text, size);
    return c;
}

static void drop_carried(struct thread *t, void *own) {
    struct carried *c = own;
    if (c->lent) outbox_release_blob(t, c->lent);
    if (c->copy) blob_give_up(c->copy);
    if (c->reserved) budget_give(&t->server->budget, c->reserved);
    mi_free(c);
}

/* Room for a long one, which counts from here on, as the target's will. */
static bool make_room(struct shard *s, struct carried *c) {
    uint64_t bytes = s->leased == BUDGET_NONE ? 0 : blob_memory_for(c->size);
    if (bytes && !budget_reserve(s->budget, bytes)) return false;
    c->reserved = bytes;
    c->copy = blob_receive(c->size);
    return c->copy;
}

static enum hop_result put_carried(struct shard *s, struct key *k, struct carried *c, struct reply *r) {
    struct arg text = {.p = c->bytes, .size = c->size};
    if (!c->lent) {
        push_moved(s, k, c->to, &text, r);
        return HOP_DONE;
    }
    if (!c->copy && !make_room(s, c)) {
        reply_refused(s, r);
        return HOP_DONE;
    }
    size_t left = c->size - c->copied, n = left < SLICE_COPIED ? left : SLICE_COPIED;
    memcpy(c->copy->bytes + c->copied, c->lent->bytes + c->copied, n);
    c->copied += n;
    if (n < left) return HOP_AGAIN;
    if (c->reserved) budget_give(s->budget, c->reserved); /* it is asked for the list now */
    c->reserved = 0;
    text.p = c->copy->bytes;
    text.flags = ARG_BLOB;
    push_moved(s, k, c->to, &text, r);
    if (!(text.flags & ARG_BLOB)) c->copy = NULL;
    return HOP_DONE;
}

static void reply_carried(void *own, struct reply *r) {
    struct carried *c = own;
    if (!c->lent) reply_bulk(r, c->bytes, c->size);
    else if (reply_lent_blob(r, c->lent)) c->lent = NULL;
}

static void *carry_waited(struct shard *s, const struct hop *h) {
    enum list_end from, to;
    struct key k;
    read_ends(h, &from, &to, NULL);
    return find_list(s, h, 0, &k) ? carry(s, &k, from, to) : NULL;
}

static enum hop_result put_waited(struct shard *s, const struct hop *h, void *carried, struct reply *r) {
    struct key k;
    find_list(s, h, 1, &k);
    return is_list(&k, r) ? put_carried(s, &k, carried, r) : HOP_DONE;
}

static void remove_waited(struct shard *s, const struct hop *h) {
    enum list_end from, to;
    struct key k;
    read_ends(h, &from, &to, NULL);
    if (find_list(s, h, 0, &k)) take_moved(s, &k, from);
}

const struct moving list_moving = {
    .all = move_at_once, .carry = carry_waited, .put = put_waited, .remove = remove_waited, .reply = reply_carried, .drop = drop_carried};

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
    struct key k;
    key_write_nth(s, h, 1, &k);
    return put_carried(s, &k, steps_carrier(h)->own, r);
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
        reply_carried(x->own, r);
        return false;
    }
    bool is_long = k->step == 1 && ((const struct carried *)x->own)->lent;
    if (is_long) {
        steps_new_wave(t, k);
        steps_hop_in_slices(t, k, steps_shard_of(t, k, 1), push_to_target);
    } else if (k->step == 1) steps_wave_on(t, k, 1, push_to_target);
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

static void drop_chosen(struct thread *t, void *own) {
    (void)t;
    mi_free(own);
}

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
        x->drop_own = drop_chosen;
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
