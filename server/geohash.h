/* Places on the earth as numbers of 52 bits: longitude and latitude, halved 26 times each, their bits in turn (Morton, "A Computer Oriented Geodetic Data Base", 1966;
 * geohash.org, Niemeyer 2008). Near places mostly have near numbers, so what lies within a distance is a few ranges of numbers, and then a look at each.
 * Pure functions. Degrees and metres; the earth is a sphere, as Redis has it.
 */
#ifndef SERVER_GEOHASH_H
#define SERVER_GEOHASH_H

#include <stdbool.h>
#include <stdint.h>

#define GEO_STEPS 26u /* halvings of each axis */
#define GEO_LONGITUDE_MAX 180.0
#define GEO_LATITUDE_MAX 85.05112878 /* of Web Mercator (EPSG:3857) */

struct geo_point {
    double longitude, latitude;
};

static inline bool geo_is_valid(struct geo_point p) {
    return p.longitude >= -GEO_LONGITUDE_MAX && p.longitude <= GEO_LONGITUDE_MAX && p.latitude >= -GEO_LATITUDE_MAX &&
        p.latitude <= GEO_LATITUDE_MAX;
}

/* The number of a valid place. */
uint64_t geo_encode(struct geo_point p);
/* The middle of what a number stands for. */
struct geo_point geo_decode(uint64_t bits);
/* The text of geohash.org, whose latitudes go to the poles: 11 characters of which the last is always 0. No NUL. */
#define GEO_TEXT_SIZE 11u
void geo_text(struct geo_point p, char out[GEO_TEXT_SIZE]);

/* Metres on the great circle (haversine). */
double geo_distance(struct geo_point a, struct geo_point b);

/* What is searched: around a point everything within a radius, or in a box with the point in its middle. Metres. */
struct geo_shape {
    struct geo_point centre;
    bool is_box;
    double radius, width, height;
};
/* Whether a point is in it; *distance from its centre then. */
bool geo_is_within(const struct geo_shape *x, struct geo_point p, double *distance);

/* Ranges of numbers [from, to) that have all in it, in Redis' order: the square of the centre, then those north, south, east, west, north-east, north-west, south-east
 * and south-west of it, but for those that can't have any. Returns how many. */
struct geo_range {
    uint64_t from, to;
};
#define GEO_RANGES 9u
unsigned geo_ranges(const struct geo_shape *x, struct geo_range out[GEO_RANGES]);

#endif
