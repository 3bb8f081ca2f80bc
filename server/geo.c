/* Places in sorted sets: GEOADD, GEODIST, GEOHASH, GEOPOS, and the table of these and the searches (geo_search.c). A place's score is its number (geohash.h). */
#include "server/geo.h"

#include <mimalloc.h>
#include <stdio.h>

#include "server/many.h"
#include "server/number.h"
#include "server/strings.h"

/* ---- arguments and replies ---- */

bool geo_arg_point(const struct arg *a, struct geo_point *out, struct reply *r) {
    if (!arg_score(&a[0], &out->longitude, NULL, r) || !arg_score(&a[1], &out->latitude, NULL, r)) return false;
    if (geo_is_valid(*out)) return true;
    reply_errorf(r, "ERR invalid longitude,latitude pair %f,%f", out->longitude, out->latitude);
    return false;
}

bool arg_place(const struct arg *a, double *out, struct reply *r) {
    struct geo_point p;
    if (!geo_arg_point(a, &p, r)) return false;
    *out = (double)geo_encode(p);
    return true;
}

bool geo_arg_unit(const struct arg *a, double *out, struct reply *r) {
    static const struct {
        const char *name;
        double metres;
    } units[] = {{"m", 1}, {"km", 1000}, {"ft", 0.3048}, {"mi", 1609.34}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (arg_is(a, units[i].name)) {
            *out = units[i].metres;
            return true;
        }
    reply_error(r, "ERR unsupported unit provided. please use M, KM, FT, MI");
    return false;
}

void geo_reply_distance(struct reply *r, double distance) {
    char text[352]; /* any double has fewer digits */
    reply_bulk(r, text, (size_t)snprintf(text, sizeof text, "%.4f", distance));
}

/* A coordinate, with up to 17 digits behind the point. */
static void reply_coordinate(struct reply *r, double v) {
    char text[LONG_DOUBLE_TEXT_SIZE];
    size_t size = format_long_double(text, v);
    if (r->resp < 3) {
        reply_bulk(r, text, size);
        return;
    }
    reply_bytes(r, ",", 1);
    reply_bytes(r, text, size);
    reply_bytes(r, "\r\n", 2);
}

void geo_reply_point(struct reply *r, struct geo_point p) {
    reply_array(r, 2);
    reply_coordinate(r, p.longitude);
    reply_coordinate(r, p.latitude);
}

/* A score that no place has is that of none. */
static bool is_place(double score) { return score >= 0 && score < 18446744073709551616.0; }

bool geo_find_place(const struct zset *x, const struct arg *member, struct geo_point *out) {
    struct field_name name;
    struct zset_item m;
    zset_name(x, member->p, member->size, &name);
    if (!zset_find(x, &name, &m)) return false;
    *out = geo_decode(is_place(m.score) ? (uint64_t)m.score : 0);
    return true;
}

/* ---- GEOADD, GEODIST, GEOHASH, GEOPOS ---- */

/* Where the places begin, behind NX, XX and CH. 0: an error was replied. */
static uint32_t skip_options(const struct hop *h, struct reply *r) {
    uint32_t at = 2;
    bool nx = false, xx = false;
    for (; at < h->argc; at++) {
        if (arg_is(&h->argv[at], "nx")) nx = true;
        else if (arg_is(&h->argv[at], "xx")) xx = true;
        else if (!arg_is(&h->argv[at], "ch")) break;
    }
    if ((h->argc - at) % 3 == 0 && !(nx && xx)) return at;
    reply_syntax_error(r);
    return 0;
}

/* As ZADD, with numbers for places. */
static enum hop_result geoadd(struct shard *s, struct hop *h, struct reply *r) {
    uint32_t first = skip_options(h, r), n = first ? (h->argc - first) / 3 : 0;
    if (!first) return HOP_DONE;
    if (h->argc > MANY_FEW && many_is_long(h, &zset_adding_places)) return many_run(s, h, &zset_adding_places, r);
    struct arg *argv = mi_malloc((first + 2 * (size_t)n) * sizeof *argv);
    char *texts = mi_malloc((size_t)n * INT64_TEXT_SIZE + 1);
    bool good = argv && texts;
    if (!good) reply_no_memory(r);
    else memcpy(argv, h->argv, first * sizeof *argv);
    for (uint32_t i = 0; i < n && good; i++) {
        const struct arg *place = &h->argv[first + 3 * i];
        struct geo_point p;
        char *text = texts + (size_t)i * INT64_TEXT_SIZE;
        good = geo_arg_point(place, &p, r);
        if (!good) break;
        argv[first + 2 * i] = (struct arg){text, format_int64(text, (int64_t)geo_encode(p)), 0};
        argv[first + 2 * i + 1] = (struct arg){place[2].p, place[2].size, 0};
    }
    struct hop add = *h;
    add.argv = argv;
    add.argc = first + 2 * n;
    if (good) zadd_in_one_go(s, &add, r);
    mi_free(argv);
    mi_free(texts);
    return HOP_DONE;
}

static enum hop_result geodist(struct shard *s, struct hop *h, struct reply *r) {
    double unit = 1;
    struct geo_point a, b;
    struct zset x;
    if (h->argc > 5) {
        reply_syntax_error(r);
        return HOP_DONE;
    }
    if (h->argc > 4 && !geo_arg_unit(&h->argv[4], &unit, r)) return HOP_DONE;
    if (!zset_open_read(s, h, &x, r)) return HOP_DONE;
    if (geo_find_place(&x, &h->argv[2], &a) && geo_find_place(&x, &h->argv[3], &b)) geo_reply_distance(r, geo_distance(a, b) / unit);
    else reply_null(r);
    return HOP_DONE;
}

static void reply_text(const struct zset *x, const struct arg *member, struct reply *r) {
    struct geo_point p;
    char text[GEO_TEXT_SIZE];
    if (!geo_find_place(x, member, &p)) {
        reply_null(r);
        return;
    }
    geo_text(p, text);
    reply_bulk(r, text, sizeof text);
}

static void reply_place(const struct zset *x, const struct arg *member, struct reply *r) {
    struct geo_point p;
    if (geo_find_place(x, member, &p)) geo_reply_point(r, p);
    else reply_null_array(r);
}

typedef void reply_member_fn(const struct zset *x, const struct arg *member, struct reply *r);

/* A slice of very many. */
static bool reply_many(struct shard *s, struct hop *h, struct many *m, uint32_t to, reply_member_fn *one, struct reply *r) {
    struct key k;
    many_look(s, h, &k);
    struct zset x = zset_open(s, &k);
    for (; m->at < to; m->at++) one(&x, &h->argv[m->at], r);
    return true;
}

static bool reply_texts(struct shard *s, struct hop *h, struct many *m, uint32_t to, struct reply *r) {
    return reply_many(s, h, m, to, reply_text, r);
}
static bool reply_places(struct shard *s, struct hop *h, struct many *m, uint32_t to, struct reply *r) {
    return reply_many(s, h, m, to, reply_place, r);
}

static const struct many_way asking_texts = {256, 2, 1, zset_begin_asking, NULL, reply_texts, NULL},
                             asking_places = {128, 2, 1, zset_begin_asking, NULL, reply_places, NULL};

static enum hop_result reply_each(struct shard *s, struct hop *h, reply_member_fn *one, struct reply *r) {
    struct zset x;
    if (!zset_open_read(s, h, &x, r)) return HOP_DONE;
    reply_array(r, h->argc - 2);
    for (uint32_t i = 2; i < h->argc; i++) one(&x, &h->argv[i], r);
    return HOP_DONE;
}

static enum hop_result geohash(struct shard *s, struct hop *h, struct reply *r) {
    if (h->argc > MANY_FEW && many_is_long(h, &asking_texts)) return many_run(s, h, &asking_texts, r);
    return reply_each(s, h, reply_text, r);
}

static enum hop_result geopos(struct shard *s, struct hop *h, struct reply *r) {
    if (h->argc > MANY_FEW && many_is_long(h, &asking_places)) return many_run(s, h, &asking_places, r);
    return reply_each(s, h, reply_place, r);
}

/* ---- the table ---- */

const struct command commands_geo[] = {
    {.name = "geoadd",
        .group = "geo",
        .since = "3.2.0",
        .arity = -5,
        .flags = CMD_WRITE | CMD_DENYOOM,
        .acl = ACL_GEO,
        .summary = "Add one or more geospatial items in the geospatial index represented using a sorted set",
        .complexity = "O(log(N)) for each item added, where N is the number of elements in the sorted set.",
        .plan = PLAN_SINGLE,
        .on_shard = geoadd,
        .on_drop = many_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_UPDATE)},
        .n_key_specs = 1},
    {.name = "geodist",
        .group = "geo",
        .since = "3.2.0",
        .arity = -4,
        .flags = CMD_READONLY,
        .acl = ACL_GEO,
        .summary = "Returns the distance between two members of a geospatial index",
        .complexity = "O(log(N))",
        .plan = PLAN_SINGLE,
        .on_shard = geodist,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1},
    {.name = "geohash",
        .group = "geo",
        .since = "3.2.0",
        .arity = -2,
        .flags = CMD_READONLY,
        .acl = ACL_GEO,
        .summary = "Returns members of a geospatial index as standard geohash strings",
        .complexity = "O(log(N)) for each member requested, where N is the number of elements in the sorted set.",
        .plan = PLAN_SINGLE,
        .on_shard = geohash,
        .on_drop = many_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1},
    {.name = "geopos",
        .group = "geo",
        .since = "3.2.0",
        .arity = -2,
        .flags = CMD_READONLY,
        .acl = ACL_GEO,
        .summary = "Returns longitude and latitude of members of a geospatial index",
        .complexity = "O(N) where N is the number of members requested.",
        .plan = PLAN_SINGLE,
        .on_shard = geopos,
        .on_drop = many_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1},
    {.name = "georadius",
        .group = "geo",
        .since = "3.2.0",
        .arity = -6,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_MOVABLE_KEYS,
        .acl = ACL_GEO,
        .summary = "Query a sorted set representing a geospatial index to fetch members matching a given maximum distance from a "
                   "point",
        .complexity = "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited by "
                      "center and radius and M is the number of items inside the index.",
        .plan = PLAN_SPREAD,
        .find_keys = geo_find_keys,
        .on_shard = geo_search,
        .on_spread = geo_search_on_spread,
        .on_steps = geo_search_steps,
        .on_drop = geo_search_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS),
            {.flags = KEY_OW | KEY_UPDATE,
                .begin = KEY_BEGIN_KEYWORD,
                .find = KEY_FIND_RANGE,
                .pos = 6,
                .keyword = "STORE",
                .last = 0,
                .step = 1},
            {.flags = KEY_OW | KEY_UPDATE,
                .begin = KEY_BEGIN_KEYWORD,
                .find = KEY_FIND_RANGE,
                .pos = 6,
                .keyword = "STOREDIST",
                .last = 0,
                .step = 1}},
        .n_key_specs = 3},
    {.name = "georadius_ro",
        .group = "geo",
        .since = "3.2.10",
        .arity = -6,
        .flags = CMD_READONLY,
        .acl = ACL_GEO,
        .summary = "A read-only variant for GEORADIUS",
        .complexity = "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited by "
                      "center and radius and M is the number of items inside the index.",
        .plan = PLAN_SINGLE,
        .on_shard = geo_search,
        .on_drop = geo_search_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1},
    {.name = "georadiusbymember",
        .group = "geo",
        .since = "3.2.0",
        .arity = -5,
        .flags = CMD_WRITE | CMD_DENYOOM | CMD_MOVABLE_KEYS,
        .acl = ACL_GEO,
        .summary = "Query a sorted set representing a geospatial index to fetch members matching a given maximum distance from a "
                   "member",
        .complexity = "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited by "
                      "center and radius and M is the number of items inside the index.",
        .plan = PLAN_SPREAD,
        .find_keys = geo_find_keys,
        .on_shard = geo_search,
        .on_spread = geo_search_on_spread,
        .on_steps = geo_search_steps,
        .on_drop = geo_search_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS),
            {.flags = KEY_OW | KEY_UPDATE,
                .begin = KEY_BEGIN_KEYWORD,
                .find = KEY_FIND_RANGE,
                .pos = 5,
                .keyword = "STORE",
                .last = 0,
                .step = 1},
            {.flags = KEY_OW | KEY_UPDATE,
                .begin = KEY_BEGIN_KEYWORD,
                .find = KEY_FIND_RANGE,
                .pos = 5,
                .keyword = "STOREDIST",
                .last = 0,
                .step = 1}},
        .n_key_specs = 3},
    {.name = "georadiusbymember_ro",
        .group = "geo",
        .since = "3.2.10",
        .arity = -5,
        .flags = CMD_READONLY,
        .acl = ACL_GEO,
        .summary = "A read-only variant for GEORADIUSBYMEMBER",
        .complexity = "O(N+log(M)) where N is the number of elements inside the bounding box of the circular area delimited by "
                      "center and radius and M is the number of items inside the index.",
        .plan = PLAN_SINGLE,
        .on_shard = geo_search,
        .on_drop = geo_search_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1},
    {.name = "geosearch",
        .group = "geo",
        .since = "6.2.0",
        .arity = -7,
        .flags = CMD_READONLY,
        .acl = ACL_GEO,
        .summary = "Query a sorted set representing a geospatial index to fetch members inside an area of a box or a circle.",
        .complexity = "O(N+log(M)) where N is the number of elements in the grid-aligned bounding box area around the shape provided "
                      "as the filter and M is the number of items inside the shape",
        .plan = PLAN_SINGLE,
        .on_shard = geo_search,
        .on_drop = geo_search_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1},
    {.name = "geosearchstore",
        .group = "geo",
        .since = "6.2.0",
        .arity = -8,
        .flags = CMD_WRITE | CMD_DENYOOM,
        .acl = ACL_GEO,
        .summary = "Query a sorted set representing a geospatial index to fetch members inside an area of a box or a circle, and "
                   "store the result in another key.",
        .complexity = "O(N+log(M)) where N is the number of elements in the grid-aligned bounding box area around the shape provided "
                      "as the filter and M is the number of items inside the shape",
        .plan = PLAN_SPREAD,
        .on_shard = geo_search,
        .on_spread = geo_search_on_spread,
        .on_steps = geo_search_steps,
        .on_drop = geo_search_drop,
        .keys = {KEY_RANGE(1, 0, 1, KEY_OW | KEY_UPDATE), KEY_RANGE(2, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 2},
    {0}};
