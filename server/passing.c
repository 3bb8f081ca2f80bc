#include "server/passing.h"

#include <mimalloc.h>
#include <pthread.h>
#include <string.h>

/* Under way at most, before nothing more is read; and what bundles that are being filled may take, unless there are very many loaders. */
#define BYTES_MAX ((size_t)16 << 20)
/* Of a bundle: a few hundred keys, so that taking the lock costs nothing. */
#define BUNDLE_MAX ((size_t)64 << 10)
#define BUNDLE_MIN ((size_t)4 << 10)

struct bundle {
    struct bundle *next;
    size_t length, capacity;
    uint8_t bytes[];
};

struct list {
    struct bundle *first, **last;
};

struct passing {
    pthread_mutex_t lock;
    pthread_cond_t changed; /* something was put or dropped, or a loader has ended */
    uint32_t loaders, ended;
    size_t bundle, bytes; /* of a bundle; of all that are under way */
    bool failed;
    struct list *inboxes;
    struct bundle **open; /* [from * loaders + to]: is being filled; its loader's alone */
};

struct passing *passing_new(uint32_t loaders) {
    struct passing *p = mi_zalloc(sizeof *p);
    if (!p) return NULL;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
    p->loaders = loaders;
    p->bundle = BYTES_MAX / ((size_t)loaders * loaders);
    if (p->bundle > BUNDLE_MAX) p->bundle = BUNDLE_MAX;
    if (p->bundle < BUNDLE_MIN) p->bundle = BUNDLE_MIN;
    p->inboxes = mi_calloc(loaders, sizeof *p->inboxes);
    p->open = mi_calloc((size_t)loaders * loaders, sizeof *p->open);
    if (!p->inboxes || !p->open) {
        p->loaders = 0;
        passing_free(p);
        return NULL;
    }
    for (uint32_t i = 0; i < loaders; i++) p->inboxes[i].last = &p->inboxes[i].first;
    return p;
}

void passing_free(struct passing *p) {
    if (!p) return;
    for (uint32_t i = 0; i < p->loaders; i++)
        for (struct bundle *x = p->inboxes[i].first, *next; x; x = next) {
            next = x->next;
            mi_free(x);
        }
    for (size_t i = 0; i < (size_t)p->loaders * p->loaders; i++) mi_free(p->open[i]);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    mi_free(p->inboxes);
    mi_free(p->open);
    mi_free(p);
}

/* With the lock. */
static void send(struct passing *p, uint32_t to, struct bundle *x) {
    *p->inboxes[to].last = x;
    p->inboxes[to].last = &x->next;
    p->bytes += x->capacity;
    pthread_cond_broadcast(&p->changed);
}

static struct bundle *new_bundle(const struct passing *p, size_t needs) {
    size_t capacity = needs > p->bundle ? needs : p->bundle;
    struct bundle *x = mi_malloc(sizeof *x + capacity);
    if (x) *x = (struct bundle){.capacity = capacity};
    return x;
}

static void send_open(struct passing *p, uint32_t to, struct bundle **open) {
    pthread_mutex_lock(&p->lock);
    send(p, to, *open);
    pthread_mutex_unlock(&p->lock);
    *open = NULL;
}

bool passing_put(struct passing *p, uint32_t from, uint32_t to, const struct passed_key *k) {
    struct bundle **open = &p->open[from * p->loaders + to], *x = *open;
    size_t needs = sizeof *k + k->name_size + k->value_size;
    if (!x || x->capacity - x->length < needs) {
        if (x) send_open(p, to, open);
        x = *open = new_bundle(p, needs);
        if (!x) return false;
    }
    uint8_t *at = x->bytes + x->length;
    memcpy(at, k, sizeof *k);
    memcpy(at + sizeof *k, k->name, k->name_size);
    memcpy(at + sizeof *k + k->name_size, k->value, k->value_size);
    x->length += needs;
    if (x->length < p->bundle) return true;
    send_open(p, to, open); /* what is full, or holds one that is longer, would wait uncounted */
    return true;
}

/* With the lock. */
static struct bundle *take(struct passing *p, uint32_t to) {
    struct bundle *x = p->inboxes[to].first;
    p->inboxes[to] = (struct list){.last = &p->inboxes[to].first};
    return x;
}

struct bundle *passing_take(struct passing *p, uint32_t to) {
    pthread_mutex_lock(&p->lock);
    while (!p->failed && !p->inboxes[to].first && p->bytes > BYTES_MAX) pthread_cond_wait(&p->changed, &p->lock);
    struct bundle *x = take(p, to);
    pthread_mutex_unlock(&p->lock);
    return x;
}

void passing_end(struct passing *p, uint32_t from) {
    pthread_mutex_lock(&p->lock);
    for (uint32_t to = 0; to < p->loaders; to++) {
        struct bundle **open = &p->open[from * p->loaders + to];
        if (*open) send(p, to, *open);
        *open = NULL;
    }
    p->ended++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

struct bundle *passing_await(struct passing *p, uint32_t to) {
    pthread_mutex_lock(&p->lock);
    while (!p->failed && !p->inboxes[to].first && p->ended < p->loaders) pthread_cond_wait(&p->changed, &p->lock);
    struct bundle *x = take(p, to);
    pthread_mutex_unlock(&p->lock);
    return x;
}

void passing_fail(struct passing *p) {
    pthread_mutex_lock(&p->lock);
    p->failed = true;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

bool passing_failed(struct passing *p) {
    pthread_mutex_lock(&p->lock);
    bool failed = p->failed;
    pthread_mutex_unlock(&p->lock);
    return failed;
}

bool bundle_next(const struct bundle *x, size_t *at, struct passed_key *out) {
    if (*at == x->length) return false;
    const uint8_t *from = x->bytes + *at;
    memcpy(out, from, sizeof *out);
    out->name = (const char *)from + sizeof *out;
    out->value = from + sizeof *out + out->name_size;
    *at += sizeof *out + out->name_size + out->value_size;
    return true;
}

struct bundle *bundle_drop(struct passing *p, struct bundle *x) {
    struct bundle *next = x->next;
    pthread_mutex_lock(&p->lock);
    p->bytes -= x->capacity;
    if (p->bytes <= BYTES_MAX) pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
    mi_free(x);
    return next;
}
