#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "shard/hash.h"

#define KEYS (1u << 19)

static struct hash_secret secret_of(uint8_t first) {
    struct hash_secret s;
    hash_secret_init(&s, (const uint8_t[32]){first});
    return s;
}

static void the_secret_decides_the_hash(void **state) {
    (void)state;
    struct hash_secret a = secret_of(1), same = secret_of(1), b = secret_of(2);
    char key[400];
    memset(key, 'x', sizeof key);
    for (size_t size = 0; size <= sizeof key; size++) {
        assert_int_equal(hash_key(&a, key, size), hash_key(&same, key, size));
        assert_int_not_equal(hash_key(&a, key, size), hash_key(&b, key, size));
        if (size) assert_int_not_equal(hash_key(&a, key, size), hash_key(&a, key, size - 1));
    }
}

static void the_ranges_cover_the_hash(void **state) {
    (void)state;
    for (unsigned bit = 0; bit < 64; bit++) {
        uint64_t h = 1ull << bit;
        assert_int_equal((hash_slot(h) != 0) + (hash_directory(h, 36) != 0) + (hash_home(h) != 0) + (hash_fingerprint(h) != 0), 1);
    }
    uint64_t h = 0x123456789abcdef0ull;
    assert_int_equal(hash_directory(h, 0), 0);
    for (unsigned depth = 1; depth <= 36; depth++) assert_int_equal(hash_directory(h, depth), (h << 14) >> (64 - depth));
    assert_true(hash_slot(~0ull) == HASH_SLOTS - 1);
}

/* The key with this number, of the kind that people make. */
static size_t key_of(int kind, uint32_t i, char *key) {
    switch (kind) {
    case 0: return (size_t)sprintf(key, "key:%012u", i);
    case 1: return (size_t)sprintf(key, "%u", i);
    case 2: memcpy(key, &i, 4); return 4;
    case 3: return (size_t)sprintf(key, "user:%u:profile:settings", i);
    case 4: return (size_t)sprintf(key, "{app}:a-long-prefix-that-all-the-keys-share:0000000000000000000000000000000000000000:%u", i);
    default:
        memset(key, (int)(i & 7), 300);
        memcpy(key + 100, &i, 4);
        return 300;
    }
}

/* Keys in bins should differ from their mean as chance has it: chi-squared within 6 standard deviations of its own mean. */
static void check_bins(const uint32_t *bins, uint32_t n) {
    double mean = (double)KEYS / n, chi2 = 0;
    for (uint32_t i = 0; i < n; i++) chi2 += ((double)bins[i] - mean) * ((double)bins[i] - mean) / mean;
    double off = chi2 - (n - 1);
    if (off * off > 36 * 2 * (double)(n - 1)) fail_msg("chi-squared is %.0f with %u bins", chi2, n);
}

static void each_range_is_uniform_and_independent(void **state) {
    (void)state;
    struct hash_secret s = secret_of(3);
    uint32_t *bins = malloc(16384 * sizeof *bins);
    uint64_t *hashes = malloc(KEYS * sizeof *hashes);
    char key[400];
    for (int kind = 0; kind < 6; kind++) {
        for (uint32_t i = 0; i < KEYS; i++) hashes[i] = hash_key(&s, key, key_of(kind, i, key));
        for (int range = 0; range < 7; range++) {
            memset(bins, 0, 16384 * sizeof *bins);
            uint32_t n = 0;
            for (uint32_t i = 0; i < KEYS; i++) {
                uint64_t h = hashes[i];
                uint32_t bin = 0;
                switch (range) {
                case 0: n = 16384, bin = hash_slot(h); break;
                case 1: n = 4096, bin = (uint32_t)hash_directory(h, 12); break;
                case 2: n = 4096, bin = (uint32_t)hash_directory(h, 36) & 4095; break;
                case 3: n = 64, bin = hash_home(h); break;
                case 4: n = 256, bin = hash_fingerprint(h); break;
                case 5: n = 16384, bin = hash_home(h) << 8 | hash_fingerprint(h); break;
                case 6: n = 16384, bin = (hash_slot(h) >> 7) << 7 | (uint32_t)hash_directory(h, 7); break;
                }
                bins[bin]++;
            }
            check_bins(bins, n);
        }
    }
    free(bins);
    free(hashes);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_secret_decides_the_hash),
        cmocka_unit_test(the_ranges_cover_the_hash),
        cmocka_unit_test(each_range_is_uniform_and_independent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
