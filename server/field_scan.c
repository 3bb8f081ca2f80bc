#include "server/field_scan.h"

#include <stdio.h>

#include "server/glob.h"
#include "server/hashes.h"
#include "server/scan.h"

/* Buckets that a call walks for each item asked for, if they are empty. */
#define BUCKETS_PER_ITEM 10u
/* What a call may do, in fields met and buckets walked, whatever COUNT says: about 200 us. */
#define COST_MAX 2000u

bool scan_cursor(const struct arg *a, uint64_t *out, struct reply *r) {
    if (parse_cursor(a, out)) return true;
    reply_error(r, "ERR invalid cursor");
    return false;
}

void reply_empty_scan(struct reply *r) {
    reply_array(r, 2);
    reply_bulk(r, "0", 1);
    reply_array(r, 0);
}

bool scan_options(const struct hop *h, struct scan_options *o, struct reply *r) {
    *o = (struct scan_options){.count = 10, .live_from_ms = INT64_MIN};
    for (uint32_t i = 3; i < h->argc; i += 2) {
        const struct arg *word = &h->argv[i], *v = word + 1;
        bool has_value = i + 1 < h->argc;
        if (has_value && arg_is(word, "count")) {
            if (!arg_int64(v, &o->count, r)) return false;
            if (o->count >= 1) continue;
        } else if (has_value && arg_is(word, "match")) {
            bool all = v->size == 1 && *v->p == '*';
            o->pattern = all ? NULL : v->p;
            o->pattern_size = v->size;
            continue;
        }
        reply_syntax_error(r);
        return false;
    }
    return true;
}

bool scan_matches(const struct scan_options *o, const char *text, uint32_t size) {
    return !o->pattern || glob_match(o->pattern, o->pattern_size, text, size, false, NULL);
}

struct walk {
    const struct scan_options *o;
    struct reply *found;
    uint64_t n, met;
    bool values;
};

static void visit(void *arg, const struct field *x) {
    struct walk *w = arg;
    char scratch[INT64_TEXT_SIZE];
    uint32_t size;
    const char *text = packed_text(x->name, scratch, &size);
    w->met++;
    if (x->expires_at_ms < w->o->live_from_ms) return;
    if (!scan_matches(w->o, text, size)) return;
    reply_stored(w->found, text, size);
    if (w->values) reply_packed(w->found, x->value);
    w->n += 1u + w->values;
}

void field_scan(const struct fields *f, uint64_t cursor, const struct scan_options *o, bool values, struct reply *r) {
    struct reply found = {.resp = r->resp};
    struct walk w = {.o = o, .found = &found, .values = values};
    uint64_t count = (uint64_t)o->count, buckets = 0;
    do {
        cursor = fields_scan(f, cursor, visit, &w);
        buckets++;
    } while (cursor && w.met < count && w.met + buckets < COST_MAX && buckets / BUCKETS_PER_ITEM < count);
    reply_array(r, 2);
    char text[24];
    int size = snprintf(text, sizeof text, "%llu", (unsigned long long)cursor);
    reply_bulk(r, text, (size_t)size);
    reply_array(r, w.n);
    reply_join(f->memory, r, &found);
}
