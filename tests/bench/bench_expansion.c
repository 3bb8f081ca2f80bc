/* What partial expansion (Larson, "Performance analysis of linear hashing with partial expansions", 1982) would save: bytes a key of the table over one
 * doubling, beside the table as it is, and how many slots each moves.
 *
 *   bench_expansion [KEYS]      (default: 2000000; simulates from there to the double, and more to get there)
 *
 * A model of the table: segments of 64 home buckets of 7 slots, 4 stash buckets, and the placement of table.c (the less full one of home and neighbour,
 * displacement, stash). With partial expansion, a full segment of 64 buckets becomes one of 96, and only a full one of 96 splits, into two of 64; so a
 * step adds a half or a third, not the whole. Of each two home buckets a third of the keys goes to a third bucket: the home is a function of the hash
 * and the size. A larger segment is a new block, since the old one has no room behind it. To show that the model is the table, the real one runs beside it.
 * A directory word a segment is counted as the table does. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "shard/memory.h"
#include "shard/table.h"

#define SLOTS 7u
#define HOMES_MAX 96u
#define STASH_SLOTS 28u
#define SAMPLES 200u
#define REGION (2u << 20)
#define REGIONS_MAX 4096u

static uint64_t random_state = 88172645463325252ull;

static uint64_t draw(void) {
    uint64_t z = random_state += 0x9e3779b97f4a7c15ull;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
    z = (z ^ z >> 27) * 0x94d049bb133111ebull;
    return z ^ z >> 31;
}

/* ---- the model ---- */

/* Segments of one size, in regions of 2 MiB, as in shard/memory.c; an empty region goes back. */
struct regions {
    unsigned used[REGIONS_MAX];
};

struct segment {
    unsigned homes, depth, stashed, region;
    uint8_t fill[HOMES_MAX];
    uint64_t slots[HOMES_MAX][SLOTS], stash[STASH_SLOTS]; /* hashes */
};

struct model {
    bool partial;
    struct segment **directory;
    unsigned depth;
    struct regions regions[2]; /* of segments of 64, of 96 */
    uint64_t count, bytes, held, moves,
        steps; /* held: in regions; moves: slots written again, in the same or another segment; steps: splits and expansions */
};

/* What decides between two buckets and the third is taken from bits that no directory here reaches. */
static unsigned home_of(uint64_t hash, unsigned homes) {
    unsigned home = hash_home(hash);
    if (homes == 64 || (hash >> 14 & 0xffff) * 3 >> 16) return home;
    return 64 + home / 2;
}

static uint64_t segment_bytes(unsigned homes) { return (homes + 4 + 1) * 64; }

static void put(struct segment *s, unsigned bucket, uint64_t hash) { s->slots[bucket][s->fill[bucket]++] = hash; }

/* Moves a slot from one bucket to the other if there is one whose home is such. */
static bool shift(struct segment *s, unsigned from, unsigned to, unsigned home) {
    if (s->fill[to] == SLOTS) return false;
    for (unsigned i = 0; i < SLOTS; i++) {
        if (home_of(s->slots[from][i], s->homes) != home) continue;
        put(s, to, s->slots[from][i]);
        s->slots[from][i] = s->slots[from][--s->fill[from]];
        return true;
    }
    return false;
}

static bool place(struct segment *s, uint64_t hash) {
    unsigned n = s->homes, home = home_of(hash, n), next = (home + 1) % n, after = (home + 2) % n, before = (home + n - 1) % n;
    unsigned to = s->fill[next] < s->fill[home] ? next : home;
    if (s->fill[to] == SLOTS) {
        if (shift(s, next, after, next)) to = next;
        else if (shift(s, home, before, before)) to = home;
        else {
            if (s->stashed == STASH_SLOTS) return false;
            s->stash[s->stashed++] = hash;
            return true;
        }
    }
    put(s, to, hash);
    return true;
}

static struct segment *segment_new(struct model *m, unsigned homes, unsigned depth) {
    struct segment *s = calloc(1, sizeof *s);
    s->homes = homes;
    s->depth = depth;
    m->bytes += segment_bytes(homes);
    unsigned *used = m->regions[homes == 96].used;
    while (used[s->region] == REGION / segment_bytes(homes)) s->region++; /* the first with room: a new one only if there is none */
    if (!used[s->region]++) m->held += REGION;
    return s;
}

static void segment_drop(struct model *m, struct segment *s) {
    m->bytes -= segment_bytes(s->homes);
    if (!--m->regions[s->homes == 96].used[s->region]) m->held -= REGION;
    free(s);
}

static unsigned index_of(uint64_t hash, unsigned depth) { return (unsigned)hash_directory(hash, depth); }

static void directory_double(struct model *m) {
    size_t size = (size_t)1 << m->depth++;
    m->directory = realloc(m->directory, 2 * size * sizeof *m->directory);
    for (size_t i = size; i--;) m->directory[2 * i] = m->directory[2 * i + 1] = m->directory[i];
}

/* Hands a segment's slots to one or two new ones. */
static void hand_over(struct model *m, struct segment *from, struct segment *side[2], unsigned bit) {
    for (unsigned b = 0; b <= from->homes; b++) {
        unsigned n = b < from->homes ? from->fill[b] : from->stashed;
        for (unsigned i = 0; i < n; i++) {
            uint64_t hash = b < from->homes ? from->slots[b][i] : from->stash[i];
            if (!place(side[hash >> bit & 1], hash)) abort(); /* half as many in as much room, or as many in half as much again */
        }
    }
    m->steps++;
}

static void make_room(struct model *m, uint64_t hash) {
    struct segment *s = m->directory[index_of(hash, m->depth)], *side[2];
    unsigned depth = s->depth;
    bool expands = m->partial && s->homes == 64;
    unsigned n = s->stashed;
    for (unsigned b = 0; b < s->homes; b++) n += s->fill[b];
    if (expands) {
        side[0] = side[1] = segment_new(m, 96, depth);
        m->moves += n; /* to another block, all of them; a third of them also to another bucket */
    } else {
        if (depth == m->depth) directory_double(m);
        for (int i = 0; i < 2; i++) side[i] = segment_new(m, 64, depth + 1);
        m->moves += s->homes == 64 ? n / 2 : n; /* of 64 buckets, a half stays where it lies; of 96, all are placed anew */
    }
    hand_over(m, s, side, 63 - HASH_SLOT_BITS - depth);
    unsigned first = index_of(hash, depth) << (m->depth - depth), words = 1u << (m->depth - depth);
    for (unsigned i = 0; i < words; i++) m->directory[first + i] = side[!expands && i >= words / 2];
    segment_drop(m, s);
}

static void insert(struct model *m, uint64_t hash) {
    while (!place(m->directory[index_of(hash, m->depth)], hash)) make_room(m, hash);
    m->count++;
}

static void model_init(struct model *m, bool partial) {
    *m = (struct model){.partial = partial};
    m->directory = malloc(sizeof *m->directory);
    *m->directory = segment_new(m, 64, 0);
}

static void model_drop(struct model *m) {
    for (size_t i = 0, words; i < (size_t)1 << m->depth; i += words) {
        words = (size_t)1 << (m->depth - m->directory[i]->depth);
        free(m->directory[i]);
    }
    free(m->directory);
}

static double model_bytes(const struct model *m, uint64_t segments) {
    return (double)(segments + (sizeof *m->directory << m->depth)) / (double)m->count;
}

/* ---- the real table, of entries that are nothing but their hash ---- */

static uint64_t hash_of(const void *arg, const struct entry *e) {
    uint64_t hash;
    memcpy(&hash, e->rest, sizeof hash);
    return hash;
}

static void insert_real(struct table *t, struct memory *m, uint64_t hash) {
    struct entry *e = memory_alloc(m, ENTRY_HEADER + sizeof hash);
    *e = (struct entry){.kind = TYPE_STRING | ENC_EMBEDDED << 3, .key_size = sizeof hash};
    memcpy(e->rest, &hash, sizeof hash);
    if (table_insert(t, hash, e)) abort();
    table_work(t, 20);
}

static double real_bytes(const struct table *t) {
    struct table_stats s;
    table_stats(t, &s);
    return (double)s.bytes / (double)s.entries;
}

/* ---- the run ---- */

enum { MODEL, PARTIAL, WAYS };
enum { FIGURES = 1 + 2 * WAYS };

static void figures(const struct table *real, const struct model model[WAYS], double out[FIGURES]) {
    *out++ = real_bytes(real);
    for (int w = 0; w < WAYS; w++) {
        *out++ = model_bytes(&model[w], model[w].bytes);
        *out++ = model_bytes(&model[w], model[w].held);
    }
}

int main(int argc, char **argv) {
    uint64_t from = argc > 1 ? strtoull(argv[1], NULL, 10) : 2000000;
    struct memory *memory = memory_new(false);
    struct table table;
    static struct model model[WAYS];
    table_init(&table, memory, hash_of, NULL);
    for (int w = 0; w < WAYS; w++) model_init(&model[w], w == PARTIAL);
    double least[FIGURES], most[FIGURES] = {0}, sum[FIGURES] = {0}, at = (double)from;
    uint64_t moves[WAYS] = {0}, steps[WAYS] = {0};
    for (int f = 0; f < FIGURES; f++) least[f] = 1e9;
    printf("bytes a key, and with what regions that are not empty hold:\n    keys    table    model (held)    partial (held)\n");
    unsigned samples = 0;
    for (uint64_t n = 1; n <= 2 * from; n++) {
        uint64_t hash = draw();
        insert_real(&table, memory, hash);
        for (int w = 0; w < WAYS; w++) insert(&model[w], hash);
        if ((double)n < at) continue;
        if (!samples) {
            for (int w = 0; w < WAYS; w++) moves[w] = model[w].moves, steps[w] = model[w].steps;
        }
        double now[FIGURES];
        figures(&table, model, now);
        for (int f = 0; f < FIGURES; f++) {
            sum[f] += now[f];
            if (now[f] < least[f]) least[f] = now[f];
            if (now[f] > most[f]) most[f] = now[f];
        }
        if (samples++ % (SAMPLES / 20) == 0)
            printf("%8llu %8.2f %8.2f %8.2f %8.2f %8.2f\n", (unsigned long long)n, now[0], now[1], now[2], now[3], now[4]);
        at *= 1.0034717485095028; /* 2^(1/SAMPLES): evenly over the logarithm of the number of keys */
    }
    static const char *const names[FIGURES] = {"the table", "its model", "its model, held", "partial", "partial, held"};
    printf("\n                     mean   least    most\n");
    for (int f = 0; f < FIGURES; f++) printf("%-18s %6.2f %7.2f %7.2f\n", names[f], sum[f] / samples, least[f], most[f]);
    for (int w = 0; w < WAYS; w++) {
        printf("%s: %.2f slots moved a new key, in %llu steps\n", w == PARTIAL ? "partial" : "its model",
            (double)(model[w].moves - moves[w]) / (double)from, (unsigned long long)(model[w].steps - steps[w]));
        model_drop(&model[w]);
    }
    memory_drop(memory);
    return 0;
}
