/* Places as numbers; distances; the ranges of a search leave nothing out. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <math.h>

#include "server/geohash.h"

static double draw(double low, double high) { return low + (high - low) * ((double)random() / (double)RAND_MAX); }

static void known_places(void **state) {
    (void)state;
    const struct geo_point palermo = {13.361389, 38.115556}, catania = {15.087269, 37.502669};
    char text[GEO_TEXT_SIZE];
    assert_int_equal(geo_encode(palermo), 3479099956230698ull);
    assert_int_equal(geo_encode(catania), 3479447370796909ull);
    geo_text(geo_decode(geo_encode(palermo)), text);
    assert_memory_equal(text, "sqc8b49rny0", GEO_TEXT_SIZE);
    assert_true(fabs(geo_distance(geo_decode(3479099956230698ull), geo_decode(3479447370796909ull)) - 166274.1516) < .0001);
}

static void a_number_stands_for_a_place_within_a_metre(void **state) {
    (void)state;
    srandom(1);
    for (int i = 0; i < 100000; i++) {
        struct geo_point p = {draw(-GEO_LONGITUDE_MAX, GEO_LONGITUDE_MAX), draw(-GEO_LATITUDE_MAX, GEO_LATITUDE_MAX)};
        uint64_t bits = geo_encode(p);
        assert_true(bits < 1ull << 52);
        assert_true(geo_distance(p, geo_decode(bits)) < 1);
        assert_int_equal(geo_encode(geo_decode(bits)), bits);
    }
}

static void the_edges_are_places(void **state) {
    (void)state;
    for (int i = 0; i < 4; i++) {
        struct geo_point p = {i & 1 ? 180 : -180, i & 2 ? GEO_LATITUDE_MAX : -GEO_LATITUDE_MAX};
        assert_true(geo_is_valid(p));
        assert_true(geo_is_valid(geo_decode(geo_encode(p))));
    }
    assert_false(geo_is_valid((struct geo_point){180.0001, 0}));
    assert_false(geo_is_valid((struct geo_point){0, NAN}));
}

/* Not across the antimeridian, nor beyond 80 degrees: there Redis does not look everywhere either. */
static void ranges_leave_nothing_out(void **state) {
    (void)state;
    srandom(2);
    for (int i = 0; i < 3000; i++) {
        struct geo_shape x = {.centre = {draw(-120, 120), draw(-60, 60)}, .is_box = i % 2, .radius = pow(10, draw(0, 6.2))};
        x.width = x.radius * draw(.1, 2);
        x.height = x.radius * draw(.1, 2);
        struct geo_range ranges[GEO_RANGES];
        unsigned n = geo_ranges(&x, ranges);
        assert_in_range(n, 1, GEO_RANGES);
        for (unsigned a = 0; a < n; a++)
            for (unsigned b = 0; b < a; b++) assert_true(ranges[a].from >= ranges[b].to || ranges[a].to <= ranges[b].from);
        for (int j = 0; j < 50; j++) {
            double up = x.radius / 111000, metres;
            struct geo_point p = {
                x.centre.longitude + draw(-up, up) / cos(x.centre.latitude * M_PI / 180), x.centre.latitude + draw(-up, up)};
            if (!geo_is_valid(p) || !geo_is_within(&x, p, &metres)) continue;
            uint64_t bits = geo_encode(p);
            unsigned found = 0;
            for (unsigned a = 0; a < n; a++) found += bits >= ranges[a].from && bits < ranges[a].to;
            assert_int_equal(found, 1);
        }
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(known_places), cmocka_unit_test(a_number_stands_for_a_place_within_a_metre),
        cmocka_unit_test(the_edges_are_places), cmocka_unit_test(ranges_leave_nothing_out)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
