/* In this file: places; lines, the order within them; members. */
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

/* Its place is left as it is: that means something in one that stands for a place, from then on. */
static void set_up(struct intent *i, uint64_t hash, uint32_t db, enum intent_mode mode, bool whole) {
    i->hash = hash;
    i->db = db;
    i->mode = (uint8_t)mode;
    i->whole = whole;
    i->waits = i->linked = false;
}

void intent_on_key(struct intent *i, uint32_t db, uint64_t hash, bool write) {
    if (SCHEDULE_FAULT == SCHEDULE_FAULT_WRITES_SHARE) write = false;
    set_up(i, hash, db, write ? INTENT_WRITE : INTENT_READ, false);
}

void intent_on_database(struct intent *i, uint32_t db, enum intent_mode mode) { set_up(i, 0, db, mode, true); }

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

/* It stays in the list if it has to wait again meanwhile. */
static void make_ready(struct schedule *s, struct member *m) {
    if (m->ready) return;
    m->ready = true;
    m->next_ready = NULL;
    if (s->last_ready) s->last_ready->next_ready = m;
    else s->ready = m;
    s->last_ready = m;
}

/* ---- lines: the intents of one mode on a place; those that wait are its end, since what is in the way of one is in the way of all behind it ---- */

static bool comes_before(const struct member *a, const struct member *b) {
    return a->number != b->number ? a->number < b->number : a->turn < b->turn;
}

static bool goes_before(const struct intent *a, const struct intent *b) { return comes_before(a->member, b->member); }

static bool is_in_way(const struct intent_place *p, enum intent_mode of, uint8_t mode) {
    return conflicting[mode] >> of & 1 && p->lines[of].first;
}

static bool any_in_way(const struct intent_place *p, uint8_t mode) {
    for (unsigned of = 0; of < INTENT_MODES; of++)
        if (is_in_way(p, of, mode)) return true;
    return false;
}

static bool must_wait(const struct intent_place *p, const struct intent *i) {
    for (unsigned of = 0; of < INTENT_MODES; of++)
        if (is_in_way(p, of, i->mode) && goes_before(p->lines[of].first, i)) return true;
    return false;
}

static bool is_waited_for(const struct intent_place *p, const struct intent *i) {
    for (unsigned of = 0; of < INTENT_MODES; of++)
        if (is_in_way(p, of, i->mode) && goes_before(i, p->lines[of].last)) return true;
    return false;
}

/* The member's own in a line, or NULL. */
static struct intent *own_of(const struct intent_line *l, const struct member *m) {
    if (!l->first || comes_before(m, l->first->member)) return NULL;
    struct intent *i = l->last;
    while (comes_before(m, i->member)) i = i->previous;
    return i->member == m ? i : NULL;
}

static void join(struct intent_line *l, struct intent *i) {
    i->previous = l->first && goes_before(i, l->first) ? NULL : l->last;
    while (i->previous && goes_before(i, i->previous)) i->previous = i->previous->previous;
    i->next = i->previous ? i->previous->next : l->first;
    if (i->next) i->next->previous = i;
    else l->last = i;
    if (i->previous) i->previous->next = i;
    else l->first = i;
}

static void leave(struct intent_line *l, const struct intent *i) {
    if (l->first_waiting == i) l->first_waiting = i->next;
    if (i->next) i->next->previous = i->previous;
    else l->last = i->previous;
    if (i->previous) i->previous->next = i->next;
    else l->first = i->next;
}

/* Those that stand in the way of one that waits: only if none of its mode has waited here, whose coming marked the same. */
static void mark_in_way(const struct intent_place *p, const struct intent *of) {
    for (unsigned mode = 0; mode < INTENT_MODES; mode++) {
        if (!is_in_way(p, mode, of->mode)) continue;
        for (const struct intent *i = p->lines[mode].first; i && !i->waits && goes_before(i, of); i = i->next) mark_awaited(i);
    }
}

static void begin_waiting(struct intent_line *l, struct intent *i) {
    assert(!i->member->begun);
    i->waits = true;
    i->member->n_waits++;
    if (!l->first_waiting || goes_before(i, l->first_waiting)) l->first_waiting = i;
}

/* Those that stand, and have to wait for one that came before them. */
static void hold_back(struct intent_place *p, const struct intent *from) {
    for (unsigned mode = 0; mode < INTENT_MODES; mode++) {
        if (!is_in_way(p, mode, from->mode)) continue;
        struct intent_line *l = &p->lines[mode];
        struct intent *i = l->first_waiting ? l->first_waiting->previous : l->last;
        for (; i && goes_before(from, i); i = i->previous) begin_waiting(l, i);
    }
}

/* Those that waited for one that has left. */
static void let_go_on(struct schedule *s, struct intent_place *p, uint8_t left) {
    for (unsigned mode = 0; mode < INTENT_MODES; mode++) {
        if (!is_in_way(p, mode, left)) continue;
        struct intent *i;
        while ((i = p->lines[mode].first_waiting) && !must_wait(p, i)) {
            p->lines[mode].first_waiting = i->next;
            i->waits = false;
            if (is_waited_for(p, i)) mark_awaited(i);
            if (!--i->member->n_waits && i->member->told && !i->member->begun) make_ready(s, i->member);
        }
    }
}

static void begin_place(struct schedule *s, struct intent **link, struct intent *i) {
    memset(&i->place, 0, sizeof i->place);
    *link = i;
    s->n_places++;
}

/* Another stands for the place: one that leaves late. */
static void hand_over(struct schedule *s, struct intent **link) {
    struct intent_place *p = &(*link)->place;
    unsigned mode = 0;
    while (mode < INTENT_MODES && !p->lines[mode].last) mode++;
    if (mode == INTENT_MODES) {
        *link = p->chain;
        s->n_places--;
    } else {
        p->lines[mode].last->place = *p;
        *link = p->lines[mode].last;
    }
}

static void remove_from_place(struct schedule *s, struct intent *i) {
    struct intent **link = find_link(&s->buckets[bucket_of(s->n_buckets, i->hash, i->db, i->whole)], i->hash, i->db, i->whole);
    struct intent_line *l = &(*link)->place.lines[i->mode];
    bool first = l->first == i;
    leave(l, i);
    i->linked = false;
    if (i->whole && i->mode >= INTENT_READ) s->n_whole--;
    if (i->waits) i->member->n_waits--;
    i->waits = false;
    if (first) let_go_on(s, &(*link)->place, i->mode);
    if (*link == i) hand_over(s, link);
}

static bool wants_as_much(const struct intent *a, const struct intent *b) {
    return (conflicting[a->mode] & conflicting[b->mode]) == conflicting[b->mode];
}

/* Puts an intent into its place, unless the member has one there that wants as much. */
static void add_intent(struct schedule *s, struct intent *i) {
    struct intent **link = find_link(&s->buckets[bucket_of(s->n_buckets, i->hash, i->db, i->whole)], i->hash, i->db, i->whole), *own = NULL;
    i->linked = i->waits = false;
    for (unsigned mode = 0; *link && mode < INTENT_MODES && !own; mode++) own = own_of(&(*link)->place.lines[mode], i->member);
    if (own && wants_as_much(own, i)) return;
    if (own) {
        if (!wants_as_much(i, own)) i->mode = INTENT_WRITE; /* to read all, and to write some */
        remove_from_place(s, own);
        add_intent(s, i);
        return;
    }
    if (!*link) begin_place(s, link, i);
    struct intent_place *p = &(*link)->place;
    struct intent_line *l = &p->lines[i->mode];
    join(l, i);
    i->linked = true;
    if (i->whole && i->mode >= INTENT_READ) s->n_whole++;
    if (must_wait(p, i)) {
        if (!l->first_waiting) mark_in_way(p, i);
        begin_waiting(l, i);
    } else if (is_waited_for(p, i)) mark_awaited(i);
    hold_back(p, i);
}

/* ---- members ---- */

static void queue_member(struct schedule *s, struct member *m) {
    struct member *previous = s->first && comes_before(m, s->first) ? NULL : s->last;
    while (previous && comes_before(m, previous)) previous = previous->previous;
    m->previous = previous;
    m->next = previous ? previous->next : s->first;
    if (m->next) m->next->previous = m;
    else s->last = m;
    if (previous) previous->next = m;
    else s->first = m;
    s->n_members++;
    m->in = true;
}

static void take_in(struct schedule *s, struct member *m) {
    queue_member(s, m);
    for (uint32_t i = 0; i < m->n_intents; i++) {
        m->intents[i].member = m;
        if (SCHEDULE_FAULT == SCHEDULE_FAULT_INTENT_LOST && !m->begun && i && i + 1 == m->n_intents) continue;
        add_intent(s, &m->intents[i]);
    }
}

bool schedule_add(struct schedule *s, struct member *m) {
    if (s->n_places >= s->n_buckets && s->n_buckets < BUCKETS_MAX && !grow(s)) return false; /* no memory at all: as if it were late */
    if (!m->local && m->number < s->floor && SCHEDULE_FAULT != SCHEDULE_FAULT_NO_FLOOR) {
        s->stats.late++;
        return false;
    }
    if (m->local) m->number = s->last ? s->last->number : 0;
    m->turn = ++s->turns;
    take_in(s, m);
    if (m->local) s->stats.deferred++;
    else {
        s->stats.scheduled++;
        s->stats.immediate += !m->n_waits;
    }
    return true;
}

bool schedule_add_begun(struct schedule *s, struct member *m) {
    if (s->n_places >= s->n_buckets && s->n_buckets < BUCKETS_MAX && !grow(s)) return false;
    m->number = 0;
    m->turn = -++s->turns;
    m->told = m->begun = true;
    take_in(s, m);
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
        if (all && any_in_way(&all->place, write ? INTENT_WRITE_WITHIN : INTENT_READ_WITHIN)) return true;
    }
    const struct intent *head = find(s, hash, db, false);
    return head && any_in_way(&head->place, write ? INTENT_WRITE : INTENT_READ);
}

static bool has_begun(const struct intent *head) {
    for (unsigned mode = INTENT_READ; head && mode < INTENT_MODES; mode++)
        for (const struct intent *i = head->place.lines[mode].first; i && !i->waits; i = i->next)
            if (i->member->begun) return true;
    return false;
}

bool schedule_holds(const struct schedule *s, uint32_t db, uint64_t hash) {
    if (schedule_is_empty(s)) return false;
    return (s->n_whole && has_begun(find(s, 0, db, true))) || has_begun(find(s, hash, db, false));
}

void schedule_drop(struct schedule *s) { mi_free(s->buckets); }
