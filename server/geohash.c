#include "server/geohash.h"

#include <math.h>
#include <string.h>

#define EARTH_RADIUS_M 6372797.560856
#define MERCATOR_MAX_M 20037726.37
#define RADIANS (M_PI / 180.0)

/* ---- numbers ---- */

/* Bit i of v becomes bit 2 i. */
static uint64_t spread(uint32_t v) {
    uint64_t x = v;
    x = (x | x << 16) & 0x0000ffff0000ffffull;
    x = (x | x << 8) & 0x00ff00ff00ff00ffull;
    x = (x | x << 4) & 0x0f0f0f0f0f0f0f0full;
    x = (x | x << 2) & 0x3333333333333333ull;
    return (x | x << 1) & 0x5555555555555555ull;
}

static uint32_t gather(uint64_t x) {
    x &= 0x5555555555555555ull;
    x = (x | x >> 1) & 0x3333333333333333ull;
    x = (x | x >> 2) & 0x0f0f0f0f0f0f0f0full;
    x = (x | x >> 4) & 0x00ff00ff00ff00ffull;
    x = (x | x >> 8) & 0x0000ffff0000ffffull;
    return (uint32_t)(x | x >> 16);
}

/* A square of the grid of 2^steps by 2^steps: its column from the west, its row from the south. */
struct cell {
    uint32_t column, row;
    unsigned steps;
};

static struct cell cell_of(struct geo_point p, unsigned steps, double latitude_max) {
    double cells = (double)(1ull << steps);
    double x = (p.longitude + GEO_LONGITUDE_MAX) / (2 * GEO_LONGITUDE_MAX) * cells,
           y = (p.latitude + latitude_max) / (2 * latitude_max) * cells;
    return (struct cell){(uint32_t)x, (uint32_t)y, steps};
}

static uint64_t cell_bits(struct cell c) { return spread(c.row) | spread(c.column) << 1; }

struct box {
    double west, east, south, north;
};

static struct box cell_box(struct cell c) {
    double cells = (double)(1ull << c.steps);
    return (struct box){-GEO_LONGITUDE_MAX + c.column / cells * (2 * GEO_LONGITUDE_MAX),
        -GEO_LONGITUDE_MAX + (c.column + 1) / cells * (2 * GEO_LONGITUDE_MAX), -GEO_LATITUDE_MAX + c.row / cells * (2 * GEO_LATITUDE_MAX),
        -GEO_LATITUDE_MAX + (c.row + 1) / cells * (2 * GEO_LATITUDE_MAX)};
}

uint64_t geo_encode(struct geo_point p) { return cell_bits(cell_of(p, GEO_STEPS, GEO_LATITUDE_MAX)); }

static double between(double low, double high, double most) {
    double middle = (low + high) / 2;
    return middle > most ? most : middle < -most ? -most : middle;
}

struct geo_point geo_decode(uint64_t bits) {
    struct box b = cell_box((struct cell){gather(bits >> 1), gather(bits), GEO_STEPS});
    return (struct geo_point){between(b.west, b.east, GEO_LONGITUDE_MAX), between(b.south, b.north, GEO_LATITUDE_MAX)};
}

void geo_text(struct geo_point p, char out[GEO_TEXT_SIZE]) {
    static const char digits[] = "0123456789bcdefghjkmnpqrstuvwxyz";
    uint64_t bits = cell_bits(cell_of(p, GEO_STEPS, 90.0));
    for (unsigned i = 0; i < GEO_TEXT_SIZE - 1; i++) out[i] = digits[bits >> (2 * GEO_STEPS - 5 * (i + 1)) & 31];
    out[GEO_TEXT_SIZE - 1] = '0'; /* two bits are left of 52, which Redis does not show */
}

/* ---- distances ---- */

static double latitude_distance(double a, double b) { return EARTH_RADIUS_M * fabs(b * RADIANS - a * RADIANS); }

double geo_distance(struct geo_point a, struct geo_point b) {
    double u, v = sin((b.longitude * RADIANS - a.longitude * RADIANS) / 2), south = a.latitude * RADIANS, north = b.latitude * RADIANS;
    if (v == 0) return latitude_distance(a.latitude, b.latitude);
    u = sin((north - south) / 2);
    return 2 * EARTH_RADIUS_M * asin(sqrt(u * u + cos(south) * cos(north) * v * v));
}

bool geo_is_within(const struct geo_shape *x, struct geo_point p, double *distance) {
    if (x->is_box) {
        struct geo_point beside = {x->centre.longitude, p.latitude};
        if (latitude_distance(p.latitude, x->centre.latitude) > x->height / 2) return false;
        if (geo_distance(p, beside) > x->width / 2) return false;
    }
    *distance = geo_distance(x->centre, p);
    return x->is_box || *distance <= x->radius;
}

/* ---- ranges ---- */

/* How fine a grid may be for the nine squares around a point to reach so far; towards the poles squares are narrower. */
static unsigned steps_for(double metres, double latitude) {
    int steps = 1;
    if (metres == 0) return GEO_STEPS;
    while (metres < MERCATOR_MAX_M) {
        metres *= 2;
        steps++;
    }
    steps -= 2;
    if (fabs(latitude) > 66) steps -= fabs(latitude) > 80 ? 2 : 1;
    return steps < 1 ? 1 : steps > (int)GEO_STEPS ? GEO_STEPS : (unsigned)steps;
}

/* The box around the shape. */
static struct box bounds(const struct geo_shape *x) {
    double height = x->is_box ? x->height / 2 : x->radius, width = x->is_box ? x->width / 2 : x->radius;
    double up = height / EARTH_RADIUS_M / RADIANS;
    double top = width / EARTH_RADIUS_M / cos((x->centre.latitude + up) * RADIANS) / RADIANS;
    double bottom = width / EARTH_RADIUS_M / cos((x->centre.latitude - up) * RADIANS) / RADIANS;
    double wide = x->centre.latitude < 0 ? bottom : top;
    return (struct box){x->centre.longitude - wide, x->centre.longitude + wide, x->centre.latitude - up, x->centre.latitude + up};
}

/* What lies at the very edge, as a longitude of 180, is one column further than there are; it stays there. */
static struct cell neighbour(struct cell c, int east, int north) {
    uint32_t mask = (1u << c.steps) - 1;
    if (east) c.column = (c.column + (uint32_t)east) & mask;
    if (north) c.row = (c.row + (uint32_t)north) & mask;
    return c;
}

/* Whether the squares around this one don't reach as far as the box does. */
static bool is_too_fine(struct cell c, const struct box *b) {
    return cell_box(neighbour(c, 0, 1)).north < b->north || cell_box(neighbour(c, 0, -1)).south > b->south ||
        cell_box(neighbour(c, 1, 0)).east < b->east || cell_box(neighbour(c, -1, 0)).west > b->west;
}

unsigned geo_ranges(const struct geo_shape *x, struct geo_range out[GEO_RANGES]) {
    static const struct {
        int8_t east, north;
    } around[GEO_RANGES] = {{0, 0}, {0, 1}, {0, -1}, {1, 0}, {-1, 0}, {1, 1}, {-1, 1}, {1, -1}, {-1, -1}};
    double reach = x->is_box ? sqrt(x->width / 2 * (x->width / 2) + x->height / 2 * (x->height / 2)) : x->radius;
    unsigned n = 0, steps = steps_for(reach, x->centre.latitude);
    struct box wanted = bounds(x);
    struct cell middle = cell_of(x->centre, steps, GEO_LATITUDE_MAX);
    if (steps > 1 && is_too_fine(middle, &wanted)) middle = cell_of(x->centre, --steps, GEO_LATITUDE_MAX);
    struct box own = cell_box(middle);
    for (unsigned i = 0; i < GEO_RANGES; i++) {
        /* A neighbour is not needed where the middle reaches beyond the box on that side. */
        bool needless = (around[i].north < 0 && own.south < wanted.south) || (around[i].north > 0 && own.north > wanted.north) ||
            (around[i].east < 0 && own.west < wanted.west) || (around[i].east > 0 && own.east > wanted.east);
        if (steps >= 2 && needless) continue;
        uint64_t bits = cell_bits(neighbour(middle, around[i].east, around[i].north));
        unsigned shift = 2 * (GEO_STEPS - steps);
        struct geo_range range = {bits << shift, (bits + 1) << shift};
        if (n && out[n - 1].from == range.from) continue; /* of two columns those in the east and in the west are the same */
        out[n++] = range;
    }
    return n;
}
