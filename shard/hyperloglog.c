/* In this file: runs; registers; elements; changing a sparse value; estimating; merging. */
#include "shard/hyperloglog.h"

#include <math.h>
#include <string.h>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#define INDEX_BITS 14u
#define RANK_BITS (64 - INDEX_BITS) /* ranks go up to one more */
#define VALUES 64u                  /* of 6 bits; those above RANK_BITS + 1 only in what is no honest value */

enum { ENCODING = 4, KEPT = 8 };
enum { DENSE, SPARSE };

static const char magic[] = {'H', 'Y', 'L', 'L'};

bool hll_is_dense(const void *p) { return ((const unsigned char *)p)[ENCODING] == DENSE; }

bool hll_is(const void *p, size_t size) {
    if (size < HLL_HEADER || memcmp(p, magic, sizeof magic) != 0) return false;
    unsigned encoding = ((const unsigned char *)p)[ENCODING];
    return encoding == SPARSE || (encoding == DENSE && size == HLL_DENSE_SIZE);
}

void hll_outdate(void *p) { ((unsigned char *)p)[KEPT + 7] |= 0x80; }

bool hll_kept(const void *p, uint64_t *estimate) {
    memcpy(estimate, (const unsigned char *)p + KEPT, sizeof *estimate);
    return !(*estimate >> 63);
}

void hll_keep(void *p, uint64_t estimate) { memcpy((unsigned char *)p + KEPT, &estimate, sizeof estimate); }
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "the estimate and the registers are kept that way");

/* ---- runs ---- */

enum run_kind { RUN_ZEROS, RUN_MANY_ZEROS, RUN_VALUES, RUN_VALUES_TOO };
#define ZEROS_MAX 64u     /* of RUN_ZEROS */
#define RUN_VALUE_MAX 32u /* a higher one needs a dense value */
#define RUN_VALUES_LENGTH 4u

static inline unsigned run_kind(unsigned char b) { return b >> 6; }
static inline bool is_values(unsigned char b) { return b & 0x80; }
static inline unsigned run_value(unsigned char b) { return (b >> 2 & 31) + 1; }
static inline unsigned run_bytes(unsigned char b) { return run_kind(b) == RUN_MANY_ZEROS ? 2 : 1; }

/* How many registers the run at `at` covers. A second byte that is not there counts as 0. */
static inline unsigned run_length(const unsigned char *p, size_t at, size_t size) {
    unsigned char b = p[at];
    if (is_values(b)) return (b & 3u) + 1;
    if (run_kind(b) == RUN_ZEROS) return (b & 63u) + 1;
    return ((b & 63u) << 8 | (at + 1 < size ? p[at + 1] : 0u)) + 1;
}

static inline unsigned char *write_zeros(unsigned char *to, unsigned length) {
    if (length > ZEROS_MAX) {
        *to++ = (unsigned char)(RUN_MANY_ZEROS << 6 | (length - 1) >> 8);
        *to++ = (unsigned char)(length - 1);
    } else *to++ = (unsigned char)(length - 1);
    return to;
}

static inline unsigned char values_run(unsigned value, unsigned length) { return (unsigned char)(0x80 | (value - 1) << 2 | (length - 1)); }

void hll_each_run(const void *from, size_t size, void (*on)(void *arg, unsigned kind, unsigned length, unsigned value), void *arg) {
    const unsigned char *p = from;
    for (size_t at = HLL_HEADER; at < size; at += run_bytes(p[at]))
        on(arg, run_kind(p[at]), run_length(p, at, size), is_values(p[at]) ? run_value(p[at]) : 0);
}

void hll_init(struct hll *x) {
    memset(x->p, 0, HLL_HEADER);
    memcpy(x->p, magic, sizeof magic);
    x->p[ENCODING] = SPARSE;
    x->size = (size_t)(write_zeros(x->p + HLL_HEADER, HLL_REGISTERS) - x->p);
}

/* ---- registers of a dense value ---- */

/* The two bytes that hold a register, or one and one that is not there: the last register ends with the last byte. */
static inline unsigned dense_get(const unsigned char *p, uint32_t index) {
    size_t at = HLL_HEADER + index * 6 / 8;
    unsigned shift = index * 6 % 8, pair = p[at] | (shift > 2 ? (unsigned)p[at + 1] << 8 : 0);
    return pair >> shift & 63;
}

static inline void dense_set(unsigned char *p, uint32_t index, unsigned value) {
    size_t at = HLL_HEADER + index * 6 / 8;
    unsigned shift = index * 6 % 8;
    p[at] = (unsigned char)((p[at] & ~(63u << shift)) | value << shift);
    if (shift > 2) p[at + 1] = (unsigned char)((p[at + 1] & ~(63u >> (8 - shift))) | value >> (8 - shift));
}

void hll_dense_put(void *p, struct hll_element e) { dense_set(p, e.index, e.rank); }

/* Eight registers of six bytes, one a byte: halved three times. */
static inline uint64_t spread(const unsigned char *p) {
    uint64_t v = 0;
    memcpy(&v, p, 6);
    v = (v & 0xffffff) | (v & 0xffffff000000) << 8;
    v = (v & 0x00000fff00000fff) | (v & 0x00fff00000fff000) << 4;
    return (v & 0x003f003f003f003f) | (v & 0x0fc00fc00fc00fc0) << 2;
}

static inline void gather(unsigned char *to, uint64_t v) {
    v = (v & 0x003f003f003f003f) | (v >> 2 & 0x0fc00fc00fc00fc0);
    v = (v & 0x00000fff00000fff) | (v >> 4 & 0x00fff00000fff000);
    v = (v & 0xffffff) | (v >> 8 & 0xffffff000000);
    memcpy(to, &v, 6);
}

static void dense_spread(uint8_t registers[HLL_REGISTERS], const unsigned char *p) {
    p += HLL_HEADER;
    for (uint32_t i = 0; i < HLL_REGISTERS; i += 8, p += 6) {
        uint64_t v = spread(p);
        memcpy(registers + i, &v, sizeof v);
    }
}

static void dense_gather(unsigned char *p, const uint8_t registers[HLL_REGISTERS]) {
    p += HLL_HEADER;
    for (uint32_t i = 0; i < HLL_REGISTERS; i += 8, p += 6) {
        uint64_t v;
        memcpy(&v, registers + i, sizeof v);
        gather(p, v);
    }
}

void hll_registers(uint8_t registers[HLL_REGISTERS], const void *dense) { dense_spread(registers, dense); }

/* ---- elements ---- */

#define SEED 0xadc83b19u

static uint64_t murmur64a(const unsigned char *p, size_t size, uint64_t seed) {
    const uint64_t m = 0xc6a4a7935bd1e995u;
    uint64_t h = seed ^ size * m, k;
    for (; size >= 8; p += 8, size -= 8) {
        memcpy(&k, p, sizeof k);
        k *= m;
        k ^= k >> 47;
        h = (h ^ k * m) * m;
    }
    if (size) {
        k = 0;
        memcpy(&k, p, size);
        h = (h ^ k) * m;
    }
    h = (h ^ h >> 47) * m;
    return h ^ h >> 47;
}

struct hll_element hll_element(const void *p, size_t size) {
    uint64_t h = murmur64a(p, size, SEED);
    uint64_t rest = h >> INDEX_BITS | (uint64_t)1 << RANK_BITS; /* so that there is a 1 */
    return (struct hll_element){(uint32_t)(h & (HLL_REGISTERS - 1)), (uint8_t)(__builtin_ctzll(rest) + 1)};
}

/* Where a search is: at a run, whose first register this is. */
struct runs_at {
    size_t run;
    uint32_t first;
};

#if defined(__SSE2__)
#define BLOCK 16u
#define EVEN 0x5555u
#define ODD 0xaaaau

static inline __m128i mask_of_bits(uint32_t bits) {
    const __m128i bit = _mm_set1_epi64x((long long)0x8040201008040201);
    __m128i v = _mm_cvtsi32_si128((int)bits);
    v = _mm_shufflelo_epi16(_mm_unpacklo_epi8(v, v), _MM_SHUFFLE(1, 1, 0, 0));
    return _mm_cmpeq_epi8(_mm_and_si128(_mm_shuffle_epi32(v, _MM_SHUFFLE(1, 1, 0, 0)), bit), bit);
}

/* How many registers are covered by the bytes of a block. *second is 1 if its first byte is the second one of a run, and becomes that of the byte behind the block: a
 * run in two blocks counts in both in part. */
static inline uint32_t block_length(const unsigned char *p, uint32_t *second) {
    __m128i bytes = _mm_loadu_si128((const __m128i *)(const void *)p);
    __m128i long_ones = _mm_cmpeq_epi8(_mm_and_si128(bytes, _mm_set1_epi8((char)0xc0)), _mm_set1_epi8(RUN_MANY_ZEROS << 6));
    /* Of bytes in a row that look like a long run's first, every other one is one. What is added to a row's first bit carries through all of the row, so rows that
     * begin at an even place are told from the others (as escapes are found by Langdale and Lemire, "Parsing gigabytes of JSON per second", 2019). */
    uint32_t many = (uint32_t)_mm_movemask_epi8(long_ones) & ~*second, begins = many & ~(many << 1);
    uint32_t even = many & ~(many + (begins & EVEN)), firsts = (even & EVEN) | (many & ~even & ODD), seconds = firsts << 1 | *second;
    *second = seconds >> BLOCK;
    __m128i is_second = mask_of_bits(seconds), is_long = _mm_andnot_si128(is_second, long_ones);
    __m128i is_value = _mm_cmplt_epi8(bytes, _mm_setzero_si128()), six_bits = _mm_set1_epi8(63);
    __m128i bits = _mm_or_si128(is_second, _mm_xor_si128(six_bits, _mm_and_si128(is_value, _mm_set1_epi8(63 ^ 3))));
    __m128i low = _mm_add_epi8(_mm_andnot_si128(is_long, _mm_and_si128(bytes, bits)), _mm_andnot_si128(is_second, _mm_set1_epi8(1)));
    __m128i high = _mm_and_si128(is_long, _mm_and_si128(bytes, six_bits));
    __m128i sums = _mm_add_epi64(_mm_sad_epu8(low, _mm_setzero_si128()), _mm_slli_epi64(_mm_sad_epu8(high, _mm_setzero_si128()), 8));
    return (uint32_t)(_mm_cvtsi128_si32(sums) + _mm_cvtsi128_si32(_mm_unpackhi_epi64(sums, sums)));
}

/* Goes on to a run before that of a register, with two runs more between them; or stays. */
static inline struct runs_at skip_blocks(const unsigned char *p, size_t size, uint32_t index, struct runs_at from) {
    struct runs_at safe = from;
    uint32_t second = 0;
    for (size_t at = from.run; size - at >= BLOCK; at += BLOCK) {
        uint32_t was_second = second, length = block_length(p + at, &second);
        if (from.first + length > index) break;
        safe = (struct runs_at){at + was_second, from.first + (was_second ? p[at] : 0)};
        from.first += length;
    }
    return safe;
}
#else
static inline struct runs_at skip_blocks(const unsigned char *p, size_t size, uint32_t index, struct runs_at from) {
    (void)p, (void)size, (void)index;
    return from;
}
#endif

/* Looks for the run of a register, from a run on that begins with the register `first`. False: there is none. */
static bool find_run(const unsigned char *p, size_t size, uint32_t index, struct runs_at from, struct hll_place *at) {
    from = skip_blocks(p, size, index, from);
    size_t run = from.run, previous = run;
    uint32_t first = from.first, previous_first = first;
    at->before = run;
    at->before_first = first;
    while (run < size) {
        unsigned length = run_length(p, run, size);
        if (index < first + length) {
            at->run = run;
            at->previous = previous;
            at->first = first;
            at->span = length;
            return true;
        }
        at->before = previous;
        at->before_first = previous_first;
        previous = run;
        previous_first = first;
        first += length;
        run += run_bytes(p[run]);
    }
    return false;
}

enum hll_result hll_find(const void *from, size_t size, struct hll_element e, struct hll_place *at) {
    const unsigned char *p = from;
    if (hll_is_dense(p)) return dense_get(p, e.index) < e.rank ? HLL_CHANGED : HLL_SAME;
    if (e.rank > RUN_VALUE_MAX) return HLL_CHANGED; /* without a look: it becomes dense */
    if (size > HLL_SPARSE_SIZE_MAX || !find_run(p, size, e.index, (struct runs_at){HLL_HEADER, 0}, at)) return HLL_CORRUPT;
    return is_values(p[at->run]) && run_value(p[at->run]) >= e.rank ? HLL_SAME : HLL_CHANGED;
}

/* ---- changing a sparse value ---- */

bool hll_make_dense(struct hll *x) {
    uint8_t registers[HLL_REGISTERS] = {0};
    if (hll_is_dense(x->p)) return true;
    if (!hll_merge(registers, x->p, x->size)) return false;
    dense_gather(x->p, registers);
    x->p[ENCODING] = DENSE;
    x->size = HLL_DENSE_SIZE;
    return true;
}

static enum hll_result put_dense(struct hll *x, struct hll_element e) {
    if (!hll_make_dense(x)) return HLL_CORRUPT;
    if (dense_get(x->p, e.index) >= e.rank) return HLL_SAME;
    dense_set(x->p, e.index, e.rank);
    return HLL_CHANGED;
}

/* The run at `at`, split so that its register e.index has a run of its own. At most 5 bytes; returns how many. */
static size_t split(unsigned char to[5], const unsigned char *p, const struct hll_place *at, struct hll_element e) {
    unsigned before = e.index - at->first, after = at->first + at->span - 1 - e.index;
    unsigned char *n = to;
    if (is_values(p[at->run])) {
        unsigned value = run_value(p[at->run]);
        if (before) *n++ = values_run(value, before);
        *n++ = values_run(e.rank, 1);
        if (after) *n++ = values_run(value, after);
    } else {
        if (before) n = write_zeros(n, before);
        *n++ = values_run(e.rank, 1);
        if (after) n = write_zeros(n, after);
    }
    return (size_t)(n - to);
}

static void remove_byte(struct hll *x, size_t at) {
    x->size--;
    memmove(x->p + at, x->p + at + 1, x->size - at);
}

/* Neighbours of equal value become one run where they fit into one: among five runs (the same ones as in Redis, else bytes would differ). */
static void join(struct hll *x, size_t at) {
    for (unsigned left = 5; at < x->size && left; left--) {
        unsigned char a = x->p[at], b = at + 1 < x->size ? x->p[at + 1] : 0;
        if (!is_values(a)) {
            at += run_bytes(a);
            continue;
        }
        unsigned length = (a & 3u) + (b & 3u) + 2;
        if (is_values(b) && run_value(a) == run_value(b) && length <= RUN_VALUES_LENGTH) {
            x->p[at + 1] = values_run(run_value(a), length);
            remove_byte(x, at); /* and once more from here: it may join the next as well */
        } else at++;
    }
}

enum hll_result hll_put(struct hll *x, struct hll_element e, const struct hll_place *at, size_t sparse_max) {
    unsigned char new[5];
    if (hll_is_dense(x->p) || e.rank > RUN_VALUE_MAX) return put_dense(x, e);
    size_t size = split(new, x->p, at, e), old = run_bytes(x->p[at->run]), behind = at->run + old;
    if (size > old && x->size + size - old > sparse_max) return put_dense(x, e);
    if (behind < x->size) memmove(x->p + at->run + size, x->p + behind, x->size - behind);
    memcpy(x->p + at->run, new, size);
    x->size += size - old; /* if the run's second byte was not there, the last of the new ones is not either */
    join(x, at->previous);
    hll_outdate(x->p);
    return HLL_CHANGED;
}

/* ---- estimating ---- */

static double sigma(double x) {
    if (x == 1.) return INFINITY;
    double y = 1, z = x, before;
    do {
        x *= x;
        before = z;
        z += x * y;
        y += y;
    } while (before != z);
    return z;
}

static double tau(double x) {
    if (x == 0. || x == 1.) return 0.;
    double y = 1, z = 1 - x, before;
    do {
        x = sqrt(x);
        before = z;
        y *= .5;
        z -= pow(1 - x, 2) * y;
    } while (before != z);
    return z / 3;
}

/* counts: how many registers have each value. */
static uint64_t estimate(const uint32_t counts[VALUES]) {
    const double m = HLL_REGISTERS, alpha = 0.721347520444481703680; /* 1 / (2 ln 2) */
    double z = m * tau((m - (double)(int)counts[RANK_BITS + 1]) / m);
    for (unsigned v = RANK_BITS; v >= 1; v--) {
        z += (int)counts[v];
        z *= .5;
    }
    z += m * sigma((double)(int)counts[0] / m);
    return (uint64_t)llroundl((long double)(alpha * m * m / z));
}

/* Several counts at a time, as one that is written can't be read at once. */
#define LANES 8u

static void count_registers(uint32_t counts[VALUES], const uint8_t registers[HLL_REGISTERS]) {
    uint16_t lanes[LANES][VALUES] = {{0}};
    for (uint32_t i = 0; i < HLL_REGISTERS; i += LANES)
        for (uint32_t j = 0; j < LANES; j++) lanes[j][registers[i + j]]++;
    for (uint32_t v = 0; v < VALUES; v++) {
        counts[v] = 0;
        for (uint32_t j = 0; j < LANES; j++) counts[v] += lanes[j][v];
    }
}

uint64_t hll_estimate_registers(const uint8_t registers[HLL_REGISTERS]) {
    uint32_t counts[VALUES];
    count_registers(counts, registers);
    return estimate(counts);
}

/* False: they are not runs of exactly all registers. */
static bool count_runs(uint32_t counts[VALUES], const unsigned char *p, size_t size) {
    uint32_t covered = 0;
    memset(counts, 0, VALUES * sizeof *counts);
    for (size_t at = HLL_HEADER; at < size && covered <= HLL_REGISTERS; at += run_bytes(p[at])) {
        unsigned length = run_length(p, at, size);
        counts[is_values(p[at]) ? run_value(p[at]) : 0] += length;
        covered += length;
    }
    return covered == HLL_REGISTERS;
}

bool hll_estimate(const void *p, size_t size, uint64_t *out) {
    uint32_t counts[VALUES];
    if (hll_is_dense(p)) {
        uint8_t registers[HLL_REGISTERS];
        dense_spread(registers, p);
        count_registers(counts, registers);
    } else if (!count_runs(counts, p, size)) return false;
    *out = estimate(counts);
    return true;
}

/* ---- merging ---- */

typedef uint8_t vector __attribute__((vector_size(16)));

void hll_merge_registers(uint8_t to[HLL_REGISTERS], const uint8_t from[HLL_REGISTERS]) {
    for (uint32_t i = 0; i < HLL_REGISTERS; i += sizeof(vector)) {
        vector a, b;
        memcpy(&a, to + i, sizeof a);
        memcpy(&b, from + i, sizeof b);
        vector more = (vector)(a > b);
        a = (a & more) | (b & ~more);
        memcpy(to + i, &a, sizeof a);
    }
}

static bool merge_runs(uint8_t registers[HLL_REGISTERS], const unsigned char *p, size_t size) {
    uint32_t covered = 0;
    for (size_t at = HLL_HEADER; at < size && covered <= HLL_REGISTERS; at += run_bytes(p[at])) {
        unsigned length = run_length(p, at, size);
        if (is_values(p[at])) {
            unsigned value = run_value(p[at]);
            if (covered + length > HLL_REGISTERS) return false;
            for (unsigned i = 0; i < length; i++)
                if (registers[covered + i] < value) registers[covered + i] = (uint8_t)value;
        }
        covered += length;
    }
    return covered == HLL_REGISTERS;
}

bool hll_merge(uint8_t registers[HLL_REGISTERS], const void *p, size_t size) {
    if (!hll_is_dense(p)) return merge_runs(registers, p, size);
    uint8_t from[HLL_REGISTERS];
    dense_spread(from, p);
    hll_merge_registers(registers, from);
    return true;
}

/* From register to register, so the search for the next goes on near where the last was found. A change may join the run before its own with what is behind; so
 * the search must begin before that one (else it might find no run before what it looks for, where there is one), or at the very beginning. */
static void raise_sparse(struct hll *x, const uint8_t registers[HLL_REGISTERS], size_t sparse_max) {
    struct hll_place at = {0};
    struct runs_at begin = {HLL_HEADER, 0}, from = begin;
    for (uint32_t i = 0; i < HLL_REGISTERS; i++) {
        struct hll_element e = {i, registers[i]};
        if (!e.rank) continue;
        if (!hll_is_dense(x->p) && e.rank <= RUN_VALUE_MAX) {
            if (!find_run(x->p, x->size, i, from, &at)) return;
            from = at.previous == from.run ? begin : (struct runs_at){at.before, at.before_first};
            if (is_values(x->p[at.run]) && run_value(x->p[at.run]) >= e.rank) continue;
        }
        if (hll_put(x, e, &at, sparse_max) == HLL_CORRUPT) return;
    }
}

void hll_raise(struct hll *x, const uint8_t registers[HLL_REGISTERS], size_t sparse_max) {
    if (hll_is_dense(x->p)) {
        uint8_t own[HLL_REGISTERS];
        dense_spread(own, x->p);
        hll_merge_registers(own, registers);
        dense_gather(x->p, own);
    } else raise_sparse(x, registers, sparse_max);
    hll_outdate(x->p);
}
