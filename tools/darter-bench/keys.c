/* The distributions: see keys.h. */
#include "tools/darter-bench/keys.h"

#include <math.h>

/* How often a number outside the range is drawn again. A deviation so large that this does not do is uniform within the range. */
enum { NORMAL_TRIES = 64 };

/* ---- Zipf ----
 *
 * The hat is h(x) = x^-alpha over [1/2, count + 1/2]. H is its integral from 1 to x, H^-1 the inverse. A uniform u between H at both ends gives a
 * point x = H^-1(u) whose nearest rank is k. Rank k owns the stretch (k - 1/2, k + 1/2], which is at least h(k) large because h is convex. So accepting
 * k only if u >= H(k + 1/2) - h(k) leaves it exactly h(k). Close above k that always holds, which spares nearly all the tests. */

/* (e^y - 1) / y and log(1 + y) / y, both 1 at 0: so alpha = 1, where the integral turns into the logarithm, needs no case of its own. */
static double expm1_over(double y) { return fabs(y) > 1e-8 ? expm1(y) / y : 1 + y / 2; }
static double log1p_over(double y) { return fabs(y) > 1e-8 ? log1p(y) / y : 1 - y / 2; }

static double hat(const struct zipf *z, double x) { return exp(-z->alpha * log(x)); }

static double area(const struct zipf *z, double x) {
    double l = log(x);
    return l * expm1_over((1 - z->alpha) * l);
}

static double area_inverse(const struct zipf *z, double u) {
    double y = (1 - z->alpha) * u;
    if (y < -1) y = -1; /* rounding */
    return exp(u * log1p_over(y));
}

void zipf_init(struct zipf *z, double alpha, double count) {
    *z = (struct zipf){.alpha = alpha, .count = count};
    /* Rank 1 gets all of its stretch that counts, h(1) = 1, at once: u begins where nothing of it would be rejected. */
    z->area_first = area(z, 1.5) - 1;
    z->area_last = area(z, count + 0.5);
    z->always = 2 - area_inverse(z, area(z, 2.5) - hat(z, 2));
}

double zipf_draw(const struct zipf *z, struct random *r) {
    for (;;) {
        double u = z->area_last + random_unit(r) * (z->area_first - z->area_last);
        double x = area_inverse(z, u), k = floor(x + 0.5);
        if (k < 1) k = 1;
        if (k > z->count) k = z->count;
        if (k - x <= z->always || u >= area(z, k + 0.5) - hat(z, k)) return k;
    }
}

/* ---- all of them ---- */

void keys_init(struct keys *k, const struct keys_options *options) {
    uint64_t count = options->maximum - options->minimum + 1;
    *k = (struct keys){.distribution = options->distribution, .minimum = options->minimum, .count = count};
    double size = (double)(options->maximum - options->minimum) + 1;
    k->deviation = options->deviation ? (double)options->deviation : size / 6;
    if (k->distribution == 'Z') zipf_init(&k->zipf, options->alpha, size);
    /* The slices differ by one number at most; of 2^64 numbers the last slice takes what is left over. */
    uint64_t whole = count ? count : UINT64_MAX, part = whole / options->slices, rest = whole % options->slices;
    k->slice = options->minimum + part * options->slice + (options->slice < rest ? options->slice : rest);
    k->slice_count = part + (options->slice < rest);
    if (!count && options->slice == options->slices - 1) k->slice_count++;
    if (count && !k->slice_count) { /* more threads than numbers */
        k->slice = options->minimum + options->slice % count;
        k->slice_count = 1;
    }
}

/* Marsaglia's polar method; its second number is not kept, so that a draw depends on the random state only. */
static double normal_draw(struct random *r) {
    for (;;) {
        double x = 2 * random_unit(r) - 1, y = 2 * random_unit(r) - 1, s = x * x + y * y;
        if (s > 0 && s < 1) return x * sqrt(-2 * log(s) / s);
    }
}

static uint64_t normal_key(const struct keys *k, struct random *r) {
    double size = k->count ? (double)k->count : 0x1p64;
    for (int tries = 0; tries < NORMAL_TRIES; tries++) {
        double offset = floor(size / 2 + k->deviation * normal_draw(r));
        if (offset >= 0 && offset < size) {
            uint64_t n = offset < 0x1p64 ? (uint64_t)offset : UINT64_MAX;
            if (!k->count || n < k->count) return k->minimum + n; /* a double may round the range up */
        }
    }
    return k->minimum + random_below(r, k->count);
}

uint64_t keys_draw(struct keys *k, struct random *r) {
    switch (k->distribution) {
    case 'N': return normal_key(k, r);
    case 'Z': {
        double rank = zipf_draw(&k->zipf, r) - 1;
        uint64_t n = rank < 0x1p64 ? (uint64_t)rank : UINT64_MAX;
        return k->minimum + (k->count && n >= k->count ? k->count - 1 : n);
    }
    case 'S': {
        uint64_t key = k->slice + k->at++;
        if (k->at == k->slice_count) k->at = 0;
        return key;
    }
    default: return k->minimum + random_below(r, k->count);
    }
}
