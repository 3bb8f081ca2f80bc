/* In this file: places and their order; members. */
#include "shard/schedule.h"

#include <assert.h>
#include <mimalloc.h>
#include <string.h>

#define BUCKETS_FIRST 256u
#define BUCKETS_MAX 65536u

/* Which modes conflict with a mode, as bits. */
static const uint8_t conflicting[INTENT_MODES] = {
    [INTENT_READ_WITHIN] = 1u << INTENT_WRITE,
    [INTENT_WRITE_WITHIN] = 1u << INTENT_READ | 1u << INTENT_WRITE,
    [INTENT_READ] = 1u << INTENT_WRITE_WITHIN | 1u << INTENT_WRITE,
    [INTENT_WRITE] = 1u << INTENT_READ_WITHIN | 1u << INTENT_WRITE_WITHIN | 1u << INTENT_READ | 1u << INTENT_WRITE,
};

static bool any(const uint32_t counts[INTENT_MODES], uint8_t modes) {
    for (unsigned m = 0; m < INTENT_MODES; m++)
        if (modes >> m & 1 && counts[m]) return true;
    return false;
}

void intent_on_key(struct intent *i, uint32_t db, uint64_t hash, bool write) {
    if (SCHEDULE_FAULT == SCHEDULE_FAULT_WRITES_SHARE) write = false;
    *i = (struct intent){.hash = hash, .db = db, .mode = write ? INTENT_WRITE : INTENT_READ};
}

void intent_on_database(struct intent *i, uint32_t db, enum intent_mode mode) {
    *i = (struct intent){.db = db, .mode = (uint8_t)mode, .whole = true};
}

/* ---- places ---- */

static uint32_t bucket_of(uint32_t n_buckets, uint64_t hash, uint32_t db, bool whole) {
    uint64_t x = (hash ^ ((uint64_t)db << 1 | whole)) * 0x9e3779b97f4a7c15ull;
    return (uint32_t)(x >> 32) & (n_buckets - 1);
}

static struct intent **find_link(struct intent **bucket, uint64_t hash, uint32_t db, bool whole) {
    while (*bucket && ((*bucket)->hash != hash || (*bucket)->db != db || (*bucket)->whole != whole)) bucket = &(*bucket)->place.chain;
    return bucket;
}

static const struct intent *find(const struct schedule *s, uint64_t hash, uint32_t db, bool whole) {
    return s->n_buckets ? *find_link(&s->buckets[bucket_of(s->n_buckets, hash, db, whole)], hash, db, whole) : NULL;
}

/* More buckets; without memory for them the chains become longer. False: there are none at all. */
static bool grow(struct schedule *s) {
    uint32_t n = s->n_buckets ? 2 * s->n_buckets : BUCKETS_FIRST;
    struct intent **buckets = mi_calloc(n, sizeof *buckets);
    if (!buckets) return s->n_buckets;
    for (uint32_t b = 0; b < s->n_buckets; b++) {
        for (struct intent *i = s->buckets[b], *next; i; i = next) {
            struct intent **to = &buckets[bucket_of(n, i->hash, i->db, i->whole)];
            next = i->place.chain;
            i->place.chain = *to;
            *to = i;
        }
    }
    mi_free(s->buckets);
    s->buckets = buckets;
    s->n_buckets = n;
    return true;
}

static void mark_awaited(const struct intent *i) { atomic_store_explicit(&i->member->awaited, true, memory_order_relaxed); }

/* Those of a place, up to one that wants this, that are in its way. */
static void mark_before(const struct intent *from, const struct intent *to, uint8_t mode) {
    for (const struct intent *i = from; i != to; i = i->next)
        if (conflicting[mode] >> i->mode & 1) mark_awaited(i);
}

/* It stays in the list if it has to wait again meanwhile. */
static void make_ready(struct schedule *s, struct member *m) {
    if (m->ready) return;
    m->ready = true;
    m->next_ready = NULL;
    if (s->last_ready) s->last_ready->next_ready = m;
    else s->ready = m;
    s->last_ready = m;
}

static void stop_waiting(struct schedule *s, struct intent *i) {
    i->waits = false;
    if (!--i->member->n_waits && i->member->told && !i->member->begun) make_ready(s, i->member);
}

/* Who of a place waits, anew from its first: after one came into the middle, and on databases that someone wants as a whole. */
static void order_anew(struct schedule *s, struct intent *head) {
    uint32_t before[INTENT_MODES] = {0};
    memset(head->place.standing, 0, sizeof head->place.standing);
    memset(head->place.waiting, 0, sizeof head->place.waiting);
    head->place.first_waiting = NULL;
    for (struct intent *i = head; i; i = i->next) {
        bool waits = any(before, conflicting[i->mode]);
        before[i->mode]++;
        if (waits) {
            assert(!i->member->begun);
            head->place.waiting[i->mode]++;
            if (!head->place.first_waiting) head->place.first_waiting = i;
            if (!i->waits) i->member->n_waits++;
            i->waits = true;
        } else {
            head->place.standing[i->mode]++;
            if (i->waits) stop_waiting(s, i);
        }
    }
    uint8_t wanted = 0; /* modes that are in the way of one behind */
    for (struct intent *i = head->place.last; i; i = i->previous) {
        if (wanted >> i->mode & 1) mark_awaited(i);
        if (i->waits) wanted |= conflicting[i->mode];
    }
}

/* On a key those that wait are the end of the queue: the first of them is let go on while it may. */
static void let_go_on(struct schedule *s, struct intent *head) {
    struct intent *i, *first = head->place.first_waiting;
    while ((i = head->place.first_waiting) && !any(head->place.standing, conflicting[i->mode])) {
        head->place.waiting[i->mode]--;
        head->place.standing[i->mode]++;
        head->place.first_waiting = i->next;
        stop_waiting(s, i);
    }
    if (i) mark_before(first, i, i->mode);
}

static void append(struct intent *head, struct intent *i) {
    bool waits = any(head->place.standing, conflicting[i->mode]) || any(head->place.waiting, conflicting[i->mode]);
    i->previous = head->place.last;
    i->previous->next = i;
    head->place.last = i;
    i->waits = waits;
    if (!waits) {
        head->place.standing[i->mode]++;
        return;
    }
    i->member->n_waits++;
    if (!head->place.waiting[i->mode]) mark_before(head, i, i->mode); /* else that one's coming has marked them */
    head->place.waiting[i->mode]++;
    if (!head->place.first_waiting) head->place.first_waiting = i;
}

static void insert_before(struct schedule *s, struct intent **link, struct intent *after, struct intent *i) {
    struct intent *head = *link;
    i->next = after;
    i->previous = after->previous;
    after->previous = i;
    if (i->previous) i->previous->next = i;
    else {
        i->place = head->place;
        *link = head = i;
    }
    if (any(head->place.standing, conflicting[i->mode]) || any(head->place.waiting, conflicting[i->mode])) order_anew(s, head);
    else head->place.standing[i->mode]++;
}

static void begin_place(struct schedule *s, struct intent **link, struct intent *i) {
    i->place.chain = NULL;
    i->place.last = i;
    i->place.first_waiting = NULL;
    memset(i->place.standing, 0, sizeof i->place.standing);
    memset(i->place.waiting, 0, sizeof i->place.waiting);
    i->place.standing[i->mode] = 1;
    *link = i;
    s->n_places++;
}

static void remove_from_place(struct schedule *s, struct intent *i);

static bool wants_as_much(const struct intent *a, const struct intent *b) {
    return (conflicting[a->mode] & conflicting[b->mode]) == conflicting[b->mode];
}

/* Puts an intent into its place, unless the member has one there that wants as much. */
static void add_intent(struct schedule *s, struct intent *i) {
    struct intent **link = find_link(&s->buckets[bucket_of(s->n_buckets, i->hash, i->db, i->whole)], i->hash, i->db, i->whole);
    struct intent *head = *link, *before = head ? head->place.last : NULL, *after = NULL;
    i->linked = i->waits = false;
    i->next = i->previous = NULL;
    for (; before && before->member->number > i->member->number; before = before->previous) after = before;
    if (before && before->member == i->member) {
        if (wants_as_much(before, i)) return;
        remove_from_place(s, before);
        add_intent(s, i);
        return;
    }
    i->linked = true;
    if (i->whole && i->mode >= INTENT_READ) s->n_whole++;
    if (!head) begin_place(s, link, i);
    else if (after) insert_before(s, link, after, i);
    else append(head, i);
}

static void remove_from_place(struct schedule *s, struct intent *i) {
    struct intent **link = find_link(&s->buckets[bucket_of(s->n_buckets, i->hash, i->db, i->whole)], i->hash, i->db, i->whole);
    struct intent *head = *link;
    i->linked = false;
    if (i->whole && i->mode >= INTENT_READ) s->n_whole--;
    if (i->waits) {
        i->waits = false;
        i->member->n_waits--;
        head->place.waiting[i->mode]--;
        if (head->place.first_waiting == i) head->place.first_waiting = i->next;
    } else head->place.standing[i->mode]--;
    if (i->next) i->next->previous = i->previous;
    else head->place.last = i->previous;
    if (i->previous) i->previous->next = i->next;
    else if (i->next) {
        i->next->place = i->place;
        *link = head = i->next;
    } else {
        *link = i->place.chain;
        s->n_places--;
        return;
    }
    if (!i->whole) let_go_on(s, head);
    else if (s->n_whole || head->place.first_waiting) order_anew(s, head);
}

/* ---- members ---- */

static void queue_member(struct schedule *s, struct member *m) {
    struct member *previous = s->last;
    while (previous && previous->number > m->number) previous = previous->previous;
    m->previous = previous;
    m->next = previous ? previous->next : s->first;
    if (m->next) m->next->previous = m;
    else s->last = m;
    if (previous) previous->next = m;
    else s->first = m;
    s->n_members++;
    m->in = true;
}

/* The highest number that a local member must stand behind. */
static uint64_t number_of_local(const struct schedule *s, const struct member *m) {
    uint64_t number = 0;
    for (uint32_t i = 0; i < m->n_intents; i++) {
        const struct intent *x = &m->intents[i], *head = find(s, x->hash, x->db, x->whole);
        if (!head || !(any(head->place.standing, conflicting[x->mode]) || any(head->place.waiting, conflicting[x->mode]))) continue;
        if (head->place.last->member->number > number) number = head->place.last->member->number;
    }
    return number;
}

bool schedule_add(struct schedule *s, struct member *m) {
    if (s->n_places >= s->n_buckets && s->n_buckets < BUCKETS_MAX && !grow(s)) return false; /* no memory at all: as if it were late */
    if (!m->local && m->number < s->floor && SCHEDULE_FAULT != SCHEDULE_FAULT_NO_FLOOR) {
        s->stats.late++;
        return false;
    }
    if (m->local) m->number = number_of_local(s, m);
    queue_member(s, m);
    for (uint32_t i = 0; i < m->n_intents; i++) {
        m->intents[i].member = m;
        if (SCHEDULE_FAULT == SCHEDULE_FAULT_INTENT_LOST && i && i + 1 == m->n_intents) continue;
        add_intent(s, &m->intents[i]);
    }
    if (m->local) s->stats.deferred++;
    else {
        s->stats.scheduled++;
        s->stats.immediate += !m->n_waits;
    }
    return true;
}

/* As the first of its place. */
static void add_intent_first(struct schedule *s, struct intent *i) {
    struct intent **link = find_link(&s->buckets[bucket_of(s->n_buckets, i->hash, i->db, i->whole)], i->hash, i->db, i->whole);
    i->waits = false;
    i->linked = true;
    i->next = i->previous = NULL;
    if (i->whole && i->mode >= INTENT_READ) s->n_whole++;
    if (*link) insert_before(s, link, *link, i);
    else begin_place(s, link, i);
}

bool schedule_add_begun(struct schedule *s, struct member *m) {
    if (s->n_places >= s->n_buckets && s->n_buckets < BUCKETS_MAX && !grow(s)) return false;
    m->number = 0;
    m->told = m->begun = true;
    queue_member(s, m);
    for (uint32_t i = 0; i < m->n_intents; i++) {
        m->intents[i].member = m;
        add_intent_first(s, &m->intents[i]);
    }
    s->stats.deferred++;
    return true;
}

static void begin(struct schedule *s, struct member *m) {
    m->begun = true;
    s->stats.out_of_order += !m->local && s->first->number < m->number;
    if (m->number > s->floor) s->floor = m->number;
}

bool schedule_tell(struct schedule *s, struct member *m) {
    m->told = true;
    if (m->begun) return true;
    if (m->n_waits && SCHEDULE_FAULT != SCHEDULE_FAULT_WAITING_RUNS) return false;
    begin(s, m);
    return true;
}

struct member *schedule_next(struct schedule *s) {
    struct member *m;
    while ((m = s->ready)) {
        s->ready = m->next_ready;
        if (!s->ready) s->last_ready = NULL;
        m->ready = false;
        if (m->n_waits) continue; /* one came before it that begins at once */
        begin(s, m);
        return m;
    }
    return NULL;
}

void schedule_remove(struct schedule *s, struct member *m) {
    for (uint32_t i = 0; i < m->n_intents; i++)
        if (m->intents[i].linked) remove_from_place(s, &m->intents[i]);
    if (m->previous) m->previous->next = m->next;
    else s->first = m->next;
    if (m->next) m->next->previous = m->previous;
    else s->last = m->previous;
    s->n_members--;
    m->in = false;
}

bool schedule_conflicts(const struct schedule *s, uint32_t db, uint64_t hash, bool write) {
    if (s->n_whole) {
        const struct intent *all = find(s, 0, db, true);
        uint8_t modes = conflicting[write ? INTENT_WRITE_WITHIN : INTENT_READ_WITHIN];
        if (all && (any(all->place.standing, modes) || any(all->place.waiting, modes))) return true;
    }
    const struct intent *head = find(s, hash, db, false);
    uint8_t modes = conflicting[write ? INTENT_WRITE : INTENT_READ];
    return head && (any(head->place.standing, modes) || any(head->place.waiting, modes));
}

static bool has_begun(const struct intent *head, enum intent_mode from) {
    for (const struct intent *i = head; i; i = i->next)
        if (i->mode >= from && i->member->begun) return true;
    return false;
}

bool schedule_holds(const struct schedule *s, uint32_t db, uint64_t hash) {
    if (schedule_is_empty(s)) return false;
    return (s->n_whole && has_begun(find(s, 0, db, true), INTENT_READ)) || has_begun(find(s, hash, db, false), INTENT_READ);
}

void schedule_drop(struct schedule *s) { mi_free(s->buckets); }
