/* The load tool's distributions, each beside the probabilities that it shall have. Seeds are fixed, so a test passes always or never. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tools/darter-bench/keys.h"

enum { DRAWS = 400000 };

static uint64_t seen[100000];

static void init(struct keys *k, char distribution, uint64_t minimum, uint64_t maximum, uint64_t deviation, double alpha) {
    keys_init(k,
        &(struct keys_options){
            .distribution = distribution, .minimum = minimum, .maximum = maximum, .deviation = deviation, .alpha = alpha, .slices = 1});
}

/* Draws, counts in seen[key - minimum], and sees that no key is outside. */
static void draw(struct keys *k, uint64_t minimum, uint64_t count, uint64_t seed) {
    struct random r;
    random_seed(&r, seed);
    memset(seen, 0, sizeof seen);
    for (int i = 0; i < DRAWS; i++) {
        uint64_t key = keys_next(k, &r) - minimum;
        if (key >= count) fail_msg("key %lu of %lu", (unsigned long)key, (unsigned long)count);
        if (key < sizeof seen / sizeof *seen) seen[key]++;
    }
}

/* A count is binomial: 5 standard deviations are never exceeded by chance. */
static void assert_count(uint64_t count, double probability, const char *what) {
    double expected = probability * DRAWS, allowed = 5 * sqrt(expected * (1 - probability)) + 1;
    if (fabs((double)count - expected) > allowed) fail_msg("%s: %lu instead of %.1f", what, (unsigned long)count, expected);
}

static void uniform_is_uniform(void **state) {
    (void)state;
    struct keys k;
    init(&k, 'U', 1000, 1009, 0, 0);
    draw(&k, 1000, 10, 1);
    for (int i = 0; i < 10; i++) assert_count(seen[i], 0.1, "uniform");
}

static void a_range_of_one_is_one_key(void **state) {
    (void)state;
    for (const char *d = "UNZS"; *d; d++) {
        struct keys k;
        init(&k, *d, 77, 77, 0, 0.99);
        draw(&k, 77, 1, 2);
    }
}

static void the_whole_range_of_64_bits_is_used(void **state) {
    (void)state;
    for (const char *d = "UN"; *d; d++) {
        struct keys k;
        struct random r;
        uint64_t highest = 0, lowest = UINT64_MAX;
        init(&k, *d, 0, UINT64_MAX, 0, 0);
        random_seed(&r, 3);
        for (int i = 0; i < 100000; i++) {
            uint64_t key = keys_next(&k, &r);
            if (key > highest) highest = key;
            if (key < lowest) lowest = key;
        }
        assert_true(lowest < UINT64_MAX / 10 && highest > UINT64_MAX / 10 * 9);
    }
    struct keys z;
    struct random r;
    init(&z, 'Z', 5, UINT64_MAX, 0, 0.5);
    random_seed(&r, 4);
    uint64_t above = 0;
    for (int i = 0; i < 1000; i++) {
        uint64_t key = keys_next(&z, &r);
        assert_true(key >= 5);
        above += key > UINT64_MAX / 2;
    }
    /* Of alpha 1/2 the upper half has 1 - sqrt(1/2) of the weight. */
    assert_true(above > 230 && above < 360);
}

/* Every probability of the first keys, and what all the others have together. */
static void zipf_is_exact_for_any_alpha(void **state) {
    (void)state;
    static const double alphas[] = {0, 0.3, 0.5, 0.9, 0.99, 0.999999, 1, 1.000001, 1.01, 1.5, 2, 3, 10};
    static const uint64_t counts[] = {1, 2, 3, 10, 1000, 100000};
    for (size_t a = 0; a < sizeof alphas / sizeof *alphas; a++)
        for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
            struct keys k;
            double all = 0, rest = 1;
            uint64_t seen_rest = DRAWS;
            char what[64];
            for (uint64_t i = counts[c]; i > 0; i--) all += pow((double)i, -alphas[a]);
            init(&k, 'Z', 100, 100 + counts[c] - 1, 0, alphas[a]);
            draw(&k, 100, counts[c], 5 + a);
            for (uint64_t i = 0; i < counts[c] && i < 30; i++) {
                double probability = pow((double)(i + 1), -alphas[a]) / all;
                snprintf(what, sizeof what, "alpha %g, key %lu of %lu", alphas[a], (unsigned long)i, (unsigned long)counts[c]);
                assert_count(seen[i], probability, what);
                rest -= probability;
                seen_rest -= seen[i];
            }
            snprintf(what, sizeof what, "alpha %g, the others of %lu", alphas[a], (unsigned long)counts[c]);
            assert_count(seen_rest, rest < 0 ? 0 : rest, what);
        }
}

static void normal_has_its_mean_and_deviation(void **state) {
    (void)state;
    static const uint64_t deviations[] = {0, 100, 1000};
    for (size_t d = 0; d < sizeof deviations / sizeof *deviations; d++) {
        struct keys k;
        double expected = deviations[d] ? (double)deviations[d] : 60000 / 6.0, sum = 0, squares = 0;
        init(&k, 'N', 0, 59999, deviations[d], 0);
        draw(&k, 0, 60000, 20 + d);
        for (int i = 0; i < 60000; i++) sum += (double)seen[i] * i;
        double mean = sum / DRAWS;
        for (int i = 0; i < 60000; i++) squares += (double)seen[i] * (i - mean) * (i - mean);
        double deviation = sqrt(squares / DRAWS);
        assert_true(fabs(mean - 29999.5) < expected * 5 / sqrt(DRAWS) + 1);
        /* Three deviations fit in half the range at least, so little is cut off. */
        assert_true(fabs(deviation - expected) < expected * 0.02);
    }
}

static void a_wide_normal_distribution_is_uniform(void **state) {
    (void)state;
    struct keys k;
    init(&k, 'N', 0, 9, UINT64_MAX, 0);
    draw(&k, 0, 10, 30);
    for (int i = 0; i < 10; i++) assert_count(seen[i], 0.1, "wide normal");
}

static void sequences_cover_the_range_once(void **state) {
    (void)state;
    static const uint64_t counts[] = {1, 2, 7, 100, 1001};
    for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (uint32_t slices = 1; slices <= 8 && slices <= counts[c]; slices++) {
            struct random r;
            uint64_t drawn = 0;
            random_seed(&r, 1);
            memset(seen, 0, sizeof seen);
            for (uint32_t slice = 0; slice < slices; slice++) {
                struct keys k;
                keys_init(&k,
                    &(struct keys_options){.distribution = 'S', .minimum = 10, .maximum = 9 + counts[c], .slice = slice, .slices = slices});
                uint64_t first = keys_next(&k, &r), key = first;
                do {
                    assert_true(key >= 10 && key < 10 + counts[c]);
                    seen[key - 10]++;
                    drawn++;
                    uint64_t next = keys_next(&k, &r);
                    assert_true(next == key + 1 || next == first);
                    key = next;
                } while (key != first);
            }
            assert_int_equal(drawn, counts[c]);
            for (uint64_t i = 0; i < counts[c]; i++) assert_int_equal(seen[i], 1);
        }
}

static void more_threads_than_keys_share_them(void **state) {
    (void)state;
    for (uint32_t slice = 0; slice < 5; slice++) {
        struct keys k;
        struct random r;
        keys_init(&k, &(struct keys_options){.distribution = 'S', .minimum = 3, .maximum = 4, .slice = slice, .slices = 5});
        random_seed(&r, 1);
        for (int i = 0; i < 5; i++) {
            uint64_t key = keys_next(&k, &r);
            assert_true(key == 3 || key == 4);
        }
    }
}

static void the_same_seed_gives_the_same_keys(void **state) {
    (void)state;
    for (const char *d = "UNZ"; *d; d++) {
        struct keys k;
        struct random a, b, c;
        unsigned differ = 0;
        init(&k, *d, 0, 1000000, 0, 0.8);
        random_seed(&a, 9);
        random_seed(&b, 9);
        random_seed(&c, 10);
        for (int i = 0; i < 100; i++) {
            uint64_t key = keys_next(&k, &a);
            assert_int_equal(key, keys_next(&k, &b));
            differ += key != keys_next(&k, &c);
        }
        assert_true(differ > 50);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(uniform_is_uniform),
        cmocka_unit_test(a_range_of_one_is_one_key),
        cmocka_unit_test(the_whole_range_of_64_bits_is_used),
        cmocka_unit_test(zipf_is_exact_for_any_alpha),
        cmocka_unit_test(normal_has_its_mean_and_deviation),
        cmocka_unit_test(a_wide_normal_distribution_is_uniform),
        cmocka_unit_test(sequences_cover_the_range_once),
        cmocka_unit_test(more_threads_than_keys_share_them),
        cmocka_unit_test(the_same_seed_gives_the_same_keys),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
