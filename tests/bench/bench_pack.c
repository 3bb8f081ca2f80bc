/* What packing text to 7 bits a character would save, and what it would cost: bytes an entry, ns and instructions an operation.
 *
 *   bench_pack                 bytes saved, and ns an operation for texts of 16, 64 and 100 bytes
 *   bench_pack OP SIZE N       one operation N times, to be counted: valgrind --tool=callgrind --toggle-collect=repeat bench_pack unpack 64 10000
 *                              (OP: as the first form names them; "nothing" is what the loop takes)
 *
 * Eight characters become seven bytes. Three ways to do that are compared: SWAR on words of 8, which runs everywhere; SSE, on two words at once (SSSE3's
 * multiply-add and shuffle do a word's four steps in two); and BMI2's pext and pdep, one instruction each. What a packed entry would need:
 *
 *   check      is a text 7-bit at all?               once a SET
 *   pack       writing a value or a key              once or twice a SET
 *   unpack     reading a value                       once a GET
 *   compare    a key, packed, with one that is asked for: packs it word by word, and compares (a packed word is unique)
 *   copy, same what the server does now: memcpy and memcmp of the same sizes
 */
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#define HIGH 0x8080808080808080ull
#define TEXT_MAX 256u
#define SPARE 16u /* words are read and written whole, up to this many bytes beyond */

static inline uint64_t load(const void *p) {
    uint64_t v;
    memcpy(&v, p, sizeof v);
    return v;
}
static inline void store(void *p, uint64_t v) { memcpy(p, &v, sizeof v); }

/* The first n < 8 bytes; the others are 0. */
static inline uint64_t load_some(const char *p, size_t n) { return n ? load(p) & (~0ull >> (64 - 8 * n)) : 0; }

static size_t packed_size(size_t n) { return n - n / 8; }

/* ---- SWAR ---- */

/* 8 characters to 56 bits, by pairs: 7 + 7 bits, 14 + 14, 28 + 28. */
static inline uint64_t squeeze(uint64_t x) {
    x = (x & 0x007f007f007f007full) | (x & 0x7f007f007f007f00ull) >> 1;
    x = (x & 0x00003fff00003fffull) | (x & 0x3fff00003fff0000ull) >> 2;
    return (x & 0x0fffffffull) | (x & 0x0fffffff00000000ull) >> 4;
}

static inline uint64_t stretch(uint64_t x) {
    x = (x & 0x0fffffffull) | (x & 0x00fffffff0000000ull) << 4;
    x = (x & 0x00003fff00003fffull) | (x & 0x0fffc0000fffc000ull) << 2;
    return (x & 0x007f007f007f007full) | (x & 0x3f803f803f803f80ull) << 1;
}

typedef uint64_t word_op(uint64_t x);

static inline __attribute__((always_inline)) void pack_words(char *to, const char *text, size_t n, word_op *op) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8, to += 7) store(to, op(load(text + i)));
    if (i < n) store(to, op(load_some(text + i, n - i)));
}

static inline __attribute__((always_inline)) void unpack_words(char *text, const char *packed, size_t n, word_op *op) {
    for (size_t i = 0; i < n; i += 8, packed += 7) store(text + i, op(load(packed)));
}

static inline __attribute__((always_inline)) bool compare_words(const char *packed, const char *text, size_t n, word_op *op) {
    uint64_t differ = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8, packed += 7) differ |= (op(load(text + i)) ^ load(packed)) << 8;
    if (i < n) differ |= (op(load_some(text + i, n - i)) ^ load_some(packed, n - i)) << 8;
    return !differ;
}

static bool check(const char *text, size_t n) {
    uint64_t high = 0;
    size_t i = 0;
    for (; i + 8 <= n; i += 8) high |= load(text + i);
    return !((high | load_some(text + i, n - i)) & HIGH);
}

static void pack_swar(char *to, const char *text, size_t n) { pack_words(to, text, n, squeeze); }
static void unpack_swar(char *text, const char *packed, size_t n) { unpack_words(text, packed, n, stretch); }
static bool compare_swar(const char *packed, const char *text, size_t n) { return compare_words(packed, text, n, squeeze); }

#if defined(__x86_64__)
/* ---- SSE: 16 characters at a time ---- */

#define SSE __attribute__((target("ssse3")))

/* Pairs by one multiply-add (by 1 and 2^7), pairs of pairs by another (1 and 2^14), the last by a shift; a shuffle closes the gap between the words. */
static inline SSE __m128i squeeze_two(__m128i x) {
    x = _mm_madd_epi16(_mm_maddubs_epi16(_mm_set1_epi16((short)0x8001), x), _mm_set1_epi32(0x40000001));
    __m128i low = _mm_set1_epi64x(0xffffffff);
    x = _mm_or_si128(_mm_and_si128(low, x), _mm_srli_epi64(_mm_andnot_si128(low, x), 4));
    return _mm_shuffle_epi8(x, _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 12, 13, 14, -1, -1));
}

static inline SSE __m128i blend(__m128i x, int64_t low, __m128i shifted, int64_t high) {
    return _mm_or_si128(_mm_and_si128(x, _mm_set1_epi64x(low)), _mm_and_si128(shifted, _mm_set1_epi64x(high)));
}

static inline SSE __m128i stretch_two(__m128i x) {
    x = _mm_shuffle_epi8(x, _mm_setr_epi8(0, 1, 2, 3, 4, 5, 6, -1, 7, 8, 9, 10, 11, 12, 13, -1));
    x = blend(x, 0x0fffffff, _mm_slli_epi64(x, 4), 0x0fffffff00000000);
    x = blend(x, 0x00003fff00003fff, _mm_slli_epi64(x, 2), 0x3fff00003fff0000);
    return blend(x, 0x007f007f007f007f, _mm_slli_epi64(x, 1), 0x7f007f007f007f00);
}

static SSE void pack_sse(char *to, const char *text, size_t n) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16, to += 14) _mm_storeu_si128((void *)to, squeeze_two(_mm_loadu_si128((const void *)(text + i))));
    if (i < n) pack_swar(to, text + i, n - i);
}

static SSE void unpack_sse(char *text, const char *packed, size_t n) {
    for (size_t i = 0; i < n; i += 16, packed += 14)
        _mm_storeu_si128((void *)(text + i), stretch_two(_mm_loadu_si128((const void *)packed)));
}

static SSE bool compare_sse(const char *packed, const char *text, size_t n) {
    size_t i = 0;
    for (; i + 16 <= n; i += 16, packed += 14) {
        __m128i same = _mm_cmpeq_epi8(squeeze_two(_mm_loadu_si128((const void *)(text + i))), _mm_loadu_si128((const void *)packed));
        if ((_mm_movemask_epi8(same) & 0x3fff) != 0x3fff) return false;
    }
    return i == n || compare_swar(packed, text + i, n - i);
}

/* ---- BMI2 ---- */

#define BMI __attribute__((target("bmi2")))
static inline BMI uint64_t squeeze_bmi(uint64_t x) { return _pext_u64(x, ~HIGH); }
static inline BMI uint64_t stretch_bmi(uint64_t x) { return _pdep_u64(x, ~HIGH); }

static BMI void pack_bmi(char *to, const char *text, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8, to += 7) store(to, squeeze_bmi(load(text + i)));
    if (i < n) store(to, squeeze_bmi(load_some(text + i, n - i)));
}

static BMI void unpack_bmi(char *text, const char *packed, size_t n) {
    for (size_t i = 0; i < n; i += 8, packed += 7) store(text + i, stretch_bmi(load(packed)));
}

static BMI bool compare_bmi(const char *packed, const char *text, size_t n) {
    size_t i = 0;
    for (; i + 8 <= n; i += 8, packed += 7) {
        if ((squeeze_bmi(load(text + i)) ^ load(packed)) << 8) return false;
    }
    return i == n || !((squeeze_bmi(load_some(text + i, n - i)) ^ load_some(packed, n - i)) << 8);
}
#endif

/* ---- what is run ---- */

struct texts {
    char text[TEXT_MAX + SPARE], packed[TEXT_MAX + SPARE], out[TEXT_MAX + SPARE];
    size_t size;
};

enum op { NOTHING, CHECK, PACK, UNPACK, COMPARE, PACK_SSE, UNPACK_SSE, COMPARE_SSE, PACK_BMI, UNPACK_BMI, COMPARE_BMI, COPY, SAME, OPS };
static const char *const op_names[OPS] = {"nothing", "check", "pack", "unpack", "compare", "pack-sse", "unpack-sse", "compare-sse",
    "pack-bmi", "unpack-bmi", "compare-bmi", "copy", "same"};

/* One operation; false if it went wrong. */
static inline __attribute__((always_inline)) bool run(enum op op, struct texts *t) {
    switch (op) {
    case CHECK: return check(t->text, t->size);
    case PACK: return pack_swar(t->out, t->text, t->size), true;
    case UNPACK: return unpack_swar(t->out, t->packed, t->size), true;
    case COMPARE: return compare_swar(t->packed, t->text, t->size);
#if defined(__x86_64__)
    case PACK_SSE: return pack_sse(t->out, t->text, t->size), true;
    case UNPACK_SSE: return unpack_sse(t->out, t->packed, t->size), true;
    case COMPARE_SSE: return compare_sse(t->packed, t->text, t->size);
    case PACK_BMI: return pack_bmi(t->out, t->text, t->size), true;
    case UNPACK_BMI: return unpack_bmi(t->out, t->packed, t->size), true;
    case COMPARE_BMI: return compare_bmi(t->packed, t->text, t->size);
#endif
    case COPY: return memcpy(t->out, t->text, t->size), true;
    case SAME: return !memcmp(t->out, t->text, t->size);
    default: return true;
    }
}

/* Not inlined, so that callgrind finds it. */
static __attribute__((noinline)) uint64_t repeat(enum op op, struct texts *t, uint64_t n) {
    uint64_t good = 0;
    for (uint64_t i = 0; i < n; i++) {
        good += run(op, t);
        __asm__ volatile("" ::"r"(t) : "memory");
    }
    return good;
}

static void prepare(struct texts *t, size_t size) {
    memset(t, 0, sizeof *t);
    for (size_t i = 0; i < size; i++) t->text[i] = (char)(1 + i * 89 % 127);
    pack_swar(t->packed, t->text, size);
    memcpy(t->out, t->text, size);
    t->size = size;
}

/* Every size, every way: what is packed is the same, unpacks to the text, and compares as it should. */
static bool works(void) {
    struct texts t;
    for (size_t size = 1; size <= TEXT_MAX; size++) {
        for (enum op op = PACK; op < COPY; op++) {
            prepare(&t, size);
            if (!run(op, &t)) return false;
            bool packs = op == PACK || op == PACK_SSE || op == PACK_BMI, unpacks = op == UNPACK || op == UNPACK_SSE || op == UNPACK_BMI;
            if (packs && memcmp(t.out, t.packed, packed_size(size))) return false;
            if (unpacks && memcmp(t.out, t.text, size)) return false;
            if (packs || unpacks) continue;
            t.text[size - 1] ^= 1;
            if (run(op, &t)) return false;
        }
        t.text[size / 2] = (char)0x80;
        if (check(t.text, size)) return false;
    }
    return true;
}

static uint64_t now_ns(void) {
    struct timespec ts;
    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static volatile uint64_t results; /* else what nobody reads is not worked out */

static double ns_each(enum op op, struct texts *t) {
    enum { N = 20000, ROUNDS = 30 };
    uint64_t best = UINT64_MAX;
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t start = now_ns();
        results += repeat(op, t, N);
        uint64_t took = now_ns() - start;
        if (took < best) best = took;
    }
    return (double)best / N;
}

/* An entry's block: 4 bytes of header, key, value, in classes of 8. */
static size_t block(size_t key, size_t value) { return (4 + key + value + 7) / 8 * 8; }

int main(int argc, char **argv) {
    static const size_t sizes[] = {16, 64, 100};
    struct texts t;
    if (!works()) return printf("packing is wrong\n"), 1;
    if (argc == 4) {
        enum op op = NOTHING;
        while (op < OPS && strcmp(op_names[op], argv[1])) op++;
        prepare(&t, strtoull(argv[2], NULL, 10));
        return op == OPS || t.size > TEXT_MAX || repeat(op, &t, strtoull(argv[3], NULL, 10)) == 0;
    }
    printf("entry of 16 B + value   now   value packed   both packed\n");
    for (int i = 0; i < 3; i++)
        printf(
            "%22zu %5zu %14zu %13zu\n", sizes[i], block(16, sizes[i]), block(16, packed_size(sizes[i])), block(14, packed_size(sizes[i])));
    printf("\nns an operation       16 B     64 B    100 B\n");
    for (enum op op = NOTHING; op < OPS; op++) {
        printf("%-16s", op_names[op]);
        for (int i = 0; i < 3; i++) {
            prepare(&t, sizes[i]);
            printf(" %8.2f", ns_each(op, &t));
        }
        printf("\n");
    }
    return 0;
}
