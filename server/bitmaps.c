/* The bitmap commands: strings as rows of bits, bit 0 the highest of the first byte. In this file: arguments; SETBIT and GETBIT; ranges, BITCOUNT and BITPOS; BITFIELD; BITOP; the
 * rows.
 */
#include "server/bitmaps.h"

#include <mimalloc.h>
#include <stdlib.h>

#include "server/config.h"
#include "server/outbox.h"
#include "server/steps.h"
#include "server/strings.h"
#include "server/task_internal.h"
#include "shard/bits.h"
#include "shard/blob.h"

/* ---- arguments ---- */

static bool is_string(const struct key *k, struct reply *r) {
    if (!k->entry || entry_type(k->entry) == TYPE_STRING) return true;
    reply_wrong_type(r);
    return false;
}

/* A bit's number; field_bits: of a field of so many bits, where #2 is the third field. */
static bool arg_bit(const struct arg *a, unsigned field_bits, uint64_t *bit, struct reply *r) {
    bool counts_fields = field_bits && a->size && a->p[0] == '#';
    int64_t v;
    if (parse_int64(a->p + counts_fields, a->size - counts_fields, &v) &&
        !__builtin_mul_overflow(v, counts_fields ? (int64_t)field_bits : 1, &v) && v >= 0 && v / 8 < config_current()->proto_max_bulk_len) {
        *bit = (uint64_t)v;
        return true;
    }
    reply_error(r, "ERR bit offset is not an integer or out of range");
    return false;
}

/* ---- SETBIT, GETBIT ---- */

/* Makes a string that has this bit, and gives its bytes. NULL: memory is refused, which was replied. grew: it is longer than it was, or new. */
static char *writable_with_bit(struct shard *s, struct key *k, uint64_t bit, bool *grew, struct reply *r) {
    size_t size = k->entry ? entry_string_size(k->entry) : 0, needed = bit / 8 + 1;
    *grew = needed > size;
    char *p = key_make_writable(s, k, *grew ? needed : size, k->entry != NULL, KEY_SETBIT);
    if (!p) reply_refused(s, r);
    return p;
}

static enum hop_result setbit(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    uint64_t bit;
    bool grew;
    const struct arg *value = &h->argv[3];
    if (!arg_bit(&h->argv[2], 0, &bit, r)) return HOP_DONE;
    if (value->size != 1 || (value->p[0] != '0' && value->p[0] != '1')) {
        reply_error(r, "ERR bit is not an integer or out of range");
        return HOP_DONE;
    }
    key_write(s, h, &k);
    if (!is_string(&k, r)) return HOP_DONE;
    char *p = writable_with_bit(s, &k, bit, &grew, r);
    if (!p) return HOP_DONE;
    unsigned shift = 7 - bit % 8, one = value->p[0] == '1', old = (unsigned char)p[bit / 8] >> shift & 1u;
    p[bit / 8] = (char)(((unsigned char)p[bit / 8] & ~(1u << shift)) | one << shift);
    if (grew || old != one) key_after_change(s, &k, KEY_SETBIT);
    reply_int(r, old);
    return HOP_DONE;
}

static enum hop_result getbit(struct shard *s, struct hop *h, struct reply *r) {
    struct key k;
    uint64_t bit;
    char scratch[INT64_TEXT_SIZE];
    size_t size = 0;
    if (!arg_bit(&h->argv[2], 0, &bit, r)) return HOP_DONE;
    bool found = key_read(s, h, &k);
    if (!is_string(&k, r)) return HOP_DONE;
    const char *p = found ? key_string(&k, scratch, &size) : NULL;
    reply_int(r, bit / 8 < size ? (unsigned char)p[bit / 8] >> (7 - bit % 8) & 1 : 0);
    return HOP_DONE;
}

/* ---- BITCOUNT, BITPOS ---- */

/* Bits [first, end) of a value; none if end <= first. */
struct range {
    int64_t first, end;
};

/* Reads BYTE or BIT. */
static bool arg_unit(const struct arg *a, int64_t *unit, struct reply *r) {
    if (arg_is(a, "bit")) *unit = 1;
    else if (arg_is(a, "byte")) *unit = 8;
    else {
        reply_syntax_error(r);
        return false;
    }
    return true;
}

/* From start and end (both counted in units, negative ones from the end) of a value of this size. */
static struct range range_of(int64_t start, int64_t end, int64_t unit, size_t size) {
    int64_t all = (int64_t)size * 8 / unit;
    if (start < 0) start = start + all < 0 ? 0 : start + all;
    if (end < 0) end = end + all < 0 ? 0 : end + all;
    if (end >= all) end = all - 1;
    return start > end ? (struct range){0, 0} : (struct range){start * unit, (end + 1) * unit};
}

/* Whole bytes, less what lies beside the range in the first and the last of them. */
static int64_t count_range(const char *p, struct range x) {
    if (x.first >= x.end) return 0;
    int64_t from = x.first / 8, to = (x.end + 7) / 8;
    uint64_t beside = (uint64_t)(unsigned char)p[from] >> 1 >> (7 - x.first % 8) << 32; /* in the upper half what lies before */
    if (x.end % 8) beside |= (unsigned char)p[to - 1] & (0xffu >> x.end % 8);
    return (int64_t)bits_count(p + from, (size_t)(to - from)) - __builtin_popcountll(beside);
}

/* A large value is looked at in slices of so many bytes: about 50 us. Its key is locked meanwhile, so it does not change. */
#define LOOK_BYTES ((int64_t)1 << 20)

/* The range that is left for the slices from the nth on; and the part of it that is the nth's. */
static struct range left_after(struct range x, uint64_t n) {
    struct range left = {(x.first / 8 + (int64_t)n * LOOK_BYTES) * 8, x.end};
    return n ? left : x;
}
static struct range part_of(struct range left) {
    int64_t end = (left.first / 8 + LOOK_BYTES) * 8;
    return (struct range){left.first, left.end < end ? left.end : end};
}

/* The place of a sliced hop: the number of its next slice, and what it has counted. A value of 4 GiB has 2^12 slices and 2^35 bits. */
#define COUNTED_BITS 40u

/* Reads the arguments. False: it was replied. */
static bool bitcount_range(const struct hop *h, size_t size, struct range *x, struct reply *r) {
    int64_t start, end, unit = 8;
    *x = (struct range){0, (int64_t)size * 8};
    if (h->argc == 2) return true;
    if (h->argc != 4 && h->argc != 5) {
        reply_syntax_error(r);
        return false;
    }
    if (!arg_int64(&h->argv[2], &start, r) || !arg_int64(&h->argv[3], &end, r)) return false;
    if (start < 0 && end < 0 && start > end) {
        reply_int(r, 0);
        return false;
    }
    if (h->argc == 5 && !arg_unit(&h->argv[4], &unit, r)) return false;
    *x = range_of(start, end, unit, size);
    return true;
}

/* The value of a sliced hop's key: looked for once as every reader does, then without counting hits. NULL: none, or no string, and that was replied. */
static const char *look_at(struct shard *s, const struct hop *h, char *scratch, size_t *size, int64_t otherwise, struct reply *r) {
    struct key k;
    const struct arg *name = hop_key(h, 0);
    bool found = h->state ? key_look(s, s->dbs[h->db], h->hash, name->p, name->size, &k) : key_read(s, h, &k);
    if (!found) reply_int(r, otherwise);
    return found && is_string(&k, r) ? key_string(&k, scratch, size) : NULL;
}

static enum hop_result bitcount(struct shard *s, struct hop *h, struct reply *r) {
    char scratch[INT64_TEXT_SIZE];
    size_t size = 0;
    struct range x;
    const char *p = look_at(s, h, scratch, &size, 0, r);
    if (!p || !bitcount_range(h, size, &x, r)) return HOP_DONE;
    if (!h->state && (x.end - x.first) / 8 > LOOK_BYTES) return HOP_AGAIN;
    uint64_t place = h->state ? h->state - HOP_IN_SLICES : 0, slice = place >> COUNTED_BITS;
    struct range left = left_after(x, slice), part = part_of(left);
    int64_t counted = (int64_t)(place & (((uint64_t)1 << COUNTED_BITS) - 1)) + count_range(p, part);
    if (part.end < left.end) {
        h->state = ((slice + 1) << COUNTED_BITS | (uint64_t)counted) + HOP_IN_SLICES;
        return HOP_AGAIN;
    }
    reply_int(r, counted);
    return HOP_DONE;
}

/* The first such bit of the range, or its end. */
static int64_t find_in_range(const char *p, struct range x, bool one) {
    int64_t at = x.first;
    for (; at < x.end && at % 8; at++) /* up to a whole byte */
        if (((unsigned char)p[at / 8] >> (7 - at % 8) & 1) == one) return at;
    if (at >= x.end) return x.end;
    at += (int64_t)bits_first(p + at / 8, (size_t)((x.end + 7) / 8 - at / 8), one);
    return at < x.end ? at : x.end;
}

/* What BITPOS is asked. False: an error was replied. */
static bool bitpos_range(const struct hop *h, size_t size, struct range *x, struct reply *r) {
    int64_t start = 0, end = -1, unit = 8;
    if (h->argc > 6) {
        reply_syntax_error(r);
        return false;
    }
    if (h->argc > 3 && !arg_int64(&h->argv[3], &start, r)) return false;
    if (h->argc > 5 && !arg_unit(&h->argv[5], &unit, r)) return false;
    if (h->argc > 4 && !arg_int64(&h->argv[4], &end, r)) return false;
    *x = range_of(start, end, unit, size);
    return true;
}

static enum hop_result bitpos(struct shard *s, struct hop *h, struct reply *r) {
    char scratch[INT64_TEXT_SIZE];
    size_t size = 0;
    int64_t one;
    struct range x;
    if (!arg_int64(&h->argv[2], &one, r)) return HOP_DONE;
    if (one != 0 && one != 1) {
        reply_error(r, "ERR The bit argument must be 1 or 0.");
        return HOP_DONE;
    }
    const char *p = look_at(s, h, scratch, &size, one ? -1 : 0, r);
    if (!p || !bitpos_range(h, size, &x, r)) return HOP_DONE;
    uint64_t slice = h->state ? h->state - HOP_IN_SLICES : 0;
    struct range left = left_after(x, slice), part = part_of(left);
    int64_t at = find_in_range(p, part, one);
    if (at >= part.end && part.end < left.end) {
        if (h->state) h->state++; /* else the first slice is looked at once more, under the lock */
        return HOP_AGAIN;
    }
    /* Zeros go on behind the end, unless an end was named. */
    bool found = at < x.end || (x.first < x.end && !one && h->argc < 5);
    reply_int(r, found ? at : -1);
    return HOP_DONE;
}

/* ---- BITFIELD ---- */

enum overflow { OVERFLOW_WRAP, OVERFLOW_SAT, OVERFLOW_FAIL };
enum field_command { FIELD_GET, FIELD_SET, FIELD_INCRBY };

struct bitfield {
    enum field_command command;
    enum overflow overflow;
    bool is_signed;
    unsigned bits;
    uint64_t at; /* its first bit */
    int64_t operand;
};

static bool arg_field_type(const struct arg *a, struct bitfield *f, struct reply *r) {
    int64_t bits;
    bool is_signed = a->size && a->p[0] == 'i', is_unsigned = a->size && a->p[0] == 'u';
    if ((is_signed || is_unsigned) && parse_int64(a->p + 1, a->size - 1, &bits) && bits >= 1 && bits <= (is_signed ? 64 : 63)) {
        f->is_signed = is_signed;
        f->bits = (unsigned)bits;
        return true;
    }
    reply_error(r, "ERR Invalid bitfield type. Use something like i16 u8. Note that u64 is not supported but i64 is.");
    return false;
}

static bool arg_overflow(const struct arg *a, enum overflow *o, struct reply *r) {
    if (arg_is(a, "wrap")) *o = OVERFLOW_WRAP;
    else if (arg_is(a, "sat")) *o = OVERFLOW_SAT;
    else if (arg_is(a, "fail")) *o = OVERFLOW_FAIL;
    else {
        reply_error(r, "ERR Invalid OVERFLOW type specified");
        return false;
    }
    return true;
}

/* The next field command from argv[*at] on; OVERFLOW, which is none, changes f->overflow for all that follow. */
enum parsed { PARSED_FIELD, PARSED_END, PARSED_ERROR };
static enum parsed next_field(const struct hop *h, uint32_t *at, struct bitfield *f, struct reply *r) {
    while (*at < h->argc) {
        const struct arg *a = &h->argv[*at];
        uint32_t left = h->argc - *at - 1;
        if (arg_is(a, "overflow") && left >= 1) {
            if (!arg_overflow(a + 1, &f->overflow, r)) return PARSED_ERROR;
            *at += 2;
            continue;
        }
        if (arg_is(a, "get") && left >= 2) f->command = FIELD_GET;
        else if (arg_is(a, "set") && left >= 3) f->command = FIELD_SET;
        else if (arg_is(a, "incrby") && left >= 3) f->command = FIELD_INCRBY;
        else {
            reply_syntax_error(r);
            return PARSED_ERROR;
        }
        if (!arg_field_type(a + 1, f, r) || !arg_bit(a + 2, f->bits, &f->at, r)) return PARSED_ERROR;
        if (f->command != FIELD_GET && !arg_int64(a + 3, &f->operand, r)) return PARSED_ERROR;
        *at += f->command == FIELD_GET ? 3 : 4;
        return PARSED_FIELD;
    }
    return PARSED_END;
}

__extension__ typedef __int128 wide; /* of two of 64 bits the sum */

static int64_t extend_sign(uint64_t v, unsigned bits) { return (int64_t)(v << (64 - bits)) >> (64 - bits); }

static int64_t field_value(const struct bitfield *f, uint64_t v) { return f->is_signed ? extend_sign(v, f->bits) : (int64_t)v; }

/* What the field becomes for a sum that may not fit in it. False: nothing, as it fails. (A SET so far below the least value that the distance from the greatest has no 64 bits
 * is brought to the greatest in Redis, and so it is here.) */
static bool fit(const struct bitfield *f, wide sum, int64_t *v) {
    wide max = f->is_signed ? ((wide)1 << (f->bits - 1)) - 1 : ((wide)1 << f->bits) - 1, min = f->is_signed ? -max - 1 : 0;
    bool fits = sum >= min && sum <= max;
    if (f->command == FIELD_SET && max - sum > INT64_MAX) min = max;
    if (!fits && f->overflow == OVERFLOW_FAIL) return false;
    if (!fits && f->overflow == OVERFLOW_SAT) *v = (int64_t)(sum > max ? max : min);
    else *v = field_value(f, (uint64_t)sum & (UINT64_MAX >> (64 - f->bits)));
    return true;
}

/* Runs one command on the bytes. True: it changed them. */
static bool run_field(const struct bitfield *f, char *p, size_t size, struct reply *r) {
    int64_t old = field_value(f, bits_get(p, size, f->at, f->bits)), new;
    if (f->command == FIELD_GET) {
        reply_int(r, old);
        return false;
    }
    wide sum = f->command == FIELD_INCRBY ? (wide)old + f->operand : f->is_signed ? f->operand : (wide)(uint64_t)f->operand;
    if (!fit(f, sum, &new)) {
        reply_null(r);
        return false;
    }
    reply_int(r, f->command == FIELD_INCRBY ? new : old);
    bits_set(p, f->at, f->bits, (uint64_t) new);
    return new != old;
}

static void run_fields(const struct hop *h, size_t n, char *p, size_t size, bool *changed, struct reply *r) {
    struct bitfield f = {0};
    uint32_t at = 2;
    reply_array(r, n);
    while (next_field(h, &at, &f, r) == PARSED_FIELD) *changed |= run_field(&f, p, size, r);
}

static void bitfield_reads(struct shard *s, struct hop *h, size_t n, struct reply *r) {
    struct key k;
    char scratch[INT64_TEXT_SIZE];
    size_t size = 0;
    bool changed = false;
    char *p = key_read(s, h, &k) && entry_type(k.entry) == TYPE_STRING ? (char *)(uintptr_t)key_string(&k, scratch, &size) : NULL;
    if (is_string(&k, r)) run_fields(h, n, p, size, &changed, r);
}

/* All arguments are read before the first command is run: one that is wrong leaves the value as it was. */
static enum hop_result bitfield_any(struct shard *s, struct hop *h, struct reply *r, bool may_write) {
    struct key k;
    struct bitfield f = {0};
    uint32_t at = 2;
    uint64_t last_bit = 0;
    size_t n = 0;
    bool writes = false, changed;
    enum parsed parsed;
    for (; (parsed = next_field(h, &at, &f, r)) == PARSED_FIELD; n++) {
        if (f.command == FIELD_GET) continue;
        writes = true;
        if (f.at + f.bits - 1 > last_bit) last_bit = f.at + f.bits - 1;
    }
    if (parsed == PARSED_ERROR) return HOP_DONE;
    if (!writes) {
        bitfield_reads(s, h, n, r);
        return HOP_DONE;
    }
    if (!may_write) {
        reply_error(r, "ERR BITFIELD_RO only supports the GET subcommand");
        return HOP_DONE;
    }
    key_write(s, h, &k);
    if (!is_string(&k, r)) return HOP_DONE;
    char *p = writable_with_bit(s, &k, last_bit, &changed, r);
    if (!p) return HOP_DONE;
    run_fields(h, n, p, entry_string_size(k.entry), &changed, r);
    if (changed) key_after_change(s, &k, KEY_SETBIT);
    return HOP_DONE;
}

static enum hop_result bitfield(struct shard *s, struct hop *h, struct reply *r) { return bitfield_any(s, h, r, true); }
static enum hop_result bitfield_ro(struct shard *s, struct hop *h, struct reply *r) { return bitfield_any(s, h, r, false); }

/* ---- BITOP ---- */

/* A block of all values is combined before the next: it stays in the first cache. And what a slice may read and write: about 100 us. */
#define BLOCK_BYTES ((size_t)4096)
#define SLICE_BYTES ((size_t)1 << 20)

/* A value as it was. */
struct source {
    const unsigned char *p;
    size_t size;
    struct blob *lent; /* with a reference of ours */
    char small[ENTRY_EMBEDDED_MAX + 1];
};
_Static_assert(INT64_TEXT_SIZE <= ENTRY_EMBEDDED_MAX + 1, "integers are written there too");

/* A BITOP under way. Its shards write one source each, one after the other. */
struct bitop {
    enum bits_op op;
    bool inverts, begun, in_place;
    size_t size, at;     /* of the result; and how much of it is there */
    struct blob *result; /* of no shard yet; NULL: it is written where it will stay */
    uint32_t n;
    struct source sources[];
};

static bool arg_op(const struct arg *a, enum bits_op *op, bool *inverts) {
    *op = BITS_OR;
    *inverts = arg_is(a, "not");
    if (arg_is(a, "and")) *op = BITS_AND;
    else if (arg_is(a, "xor")) *op = BITS_XOR;
    else return *inverts || arg_is(a, "or");
    return true;
}

/* The first key is for the result. NULL: what is wrong was replied. */
static struct bitop *bitop_new(const struct arg *argv, uint32_t n_keys, struct reply *r) {
    enum bits_op op;
    bool inverts;
    if (!arg_op(&argv[1], &op, &inverts)) {
        reply_syntax_error(r);
        return NULL;
    }
    if (inverts && n_keys != 2) {
        reply_error(r, "ERR BITOP NOT must be called with a single source key.");
        return NULL;
    }
    struct bitop *o = mi_malloc(sizeof *o + (n_keys - 1) * sizeof *o->sources);
    if (!o) {
        reply_no_memory(r);
        return NULL;
    }
    *o = (struct bitop){.op = op, .inverts = inverts, .n = n_keys - 1};
    for (uint32_t i = 0; i < o->n; i++) {
        o->sources[i].size = 0;
        o->sources[i].lent = NULL;
    }
    return o;
}

/* lends: it is read when its shard is not held any more. */
static bool source_take(struct source *x, const struct key *k, bool lends, struct reply *r) {
    if (!k->entry) return true;
    if (!is_string(k, r)) return false;
    struct blob *b = entry_blob(k->entry);
    const char *p = entry_string(k->entry, x->small, &x->size);
    if (b && lends) {
        b->refs++;
        x->lent = b;
    } else if (!b && p != x->small) p = memcpy(x->small, p, x->size);
    x->p = (const unsigned char *)p;
    return true;
}

static void find_size(struct bitop *o) {
    for (uint32_t i = 0; i < o->n; i++)
        if (o->sources[i].size > o->size) o->size = o->sources[i].size;
}

static size_t available(const struct source *x, size_t from, size_t n) {
    return x->size <= from ? 0 : x->size - from < n ? x->size - from : n;
}

/* Bytes [from, from + n) of the result, a block. Behind its end a source is zeros. */
static void combine_block(const struct bitop *o, unsigned char *to, size_t from, size_t n) {
    const struct source *a = &o->sources[0], *b = o->n > 1 ? &o->sources[1] : NULL;
    uint32_t next = 1;
    size_t have = available(a, from, n);
    if (o->inverts) bits_invert(to, a->p + from, n);
    else if (b && have == n && available(b, from, n) == n) {
        bits_combine(o->op, to, a->p + from, b->p + from, n);
        next = 2;
    } else {
        if (have) memcpy(to, a->p + from, have);
        memset(to + have, 0, n - have);
    }
    for (; next < o->n; next++) {
        have = available(&o->sources[next], from, n);
        if (have) bits_combine(o->op, to, to, o->sources[next].p + from, have);
        if (o->op == BITS_AND) memset(to + have, 0, n - have);
    }
}

/* Goes on with the result up to so many bytes read and written. */
static void combine_some(struct bitop *o, unsigned char *to, size_t bytes) {
    for (size_t done = 0; o->at < o->size && done < bytes;) {
        size_t left = o->size - o->at, n = left < BLOCK_BYTES ? left : BLOCK_BYTES;
        combine_block(o, to + o->at, o->at, n);
        o->at += n;
        done += n * (o->n + 1);
    }
}

/* Puts what was combined under its name. */
static void place_result(struct shard *s, struct key *k, struct bitop *o, struct reply *r) {
    struct arg value = {o->result->bytes, (uint32_t)o->size, ARG_BLOB};
    if (key_set_arg(s, k, &value, EXPIRY_NONE, KEY_SET)) {
        reply_refused(s, r);
        return;
    }
    o->result = NULL;
    reply_int(r, (int64_t)o->size);
}

static void place_small(struct shard *s, struct key *k, struct bitop *o, struct reply *r) {
    unsigned char to[ENTRY_EMBEDDED_MAX];
    if (o->size) combine_some(o, to, SIZE_MAX);
    if (!o->size && k->entry) key_delete(s, k, KEY_DEL);
    if (o->size && key_set_bytes(s, k, (const char *)to, o->size, FORM_RAW, EXPIRY_NONE, KEY_SET)) reply_refused(s, r);
    else reply_int(r, (int64_t)o->size);
}

/* Where the result is written: over the old value, if nobody else refers to it and it has the right size (which spares the kernel fresh pages, a
 * third of all the time with large values). That is not seen half done, as there is an intent on the key. */
static bool begin_result(struct shard *s, struct key *k, struct bitop *o) {
    struct blob *b = k->entry ? entry_blob(k->entry) : NULL;
    o->begun = true;
    o->in_place = b && blob_fits(b, o->size) && !entry_expires(k->entry);
    if (o->in_place) return key_make_writable(s, k, o->size, false, KEY_SET);
    o->result = blob_receive(o->size);
    return o->result;
}

static void bitop_release(struct thread *t, void *own) {
    struct bitop *o = own;
    for (uint32_t i = 0; i < o->n; i++)
        if (o->sources[i].lent) outbox_release_blob(t, o->sources[i].lent);
    if (o->result) blob_give_up(o->result);
    mi_free(o);
}

/* On shards that are all held, or inside EXEC on one: from beginning to end. */
static void bitop(const struct spread *x, struct hop *h, struct reply *r) {
    struct shard *s;
    struct key k;
    struct bitop *o = bitop_new(h->argv, h->n_keys, r);
    bool good = o;
    for (uint32_t i = 0; good && i < o->n; i++) {
        spread_read(x, h, i + 1, NULL, &k);
        good = source_take(&o->sources[i], &k, false, r);
    }
    if (good) {
        find_size(o);
        spread_write(x, h, 0, &s, &k);
        if (o->size <= ENTRY_EMBEDDED_MAX) place_small(s, &k, o, r);
        else if (!(o->result = blob_receive(o->size))) reply_refused(s, r);
        else {
            combine_some(o, (unsigned char *)o->result->bytes, SIZE_MAX);
            place_result(s, &k, o, r);
        }
    }
    if (o && o->result) blob_give_up(o->result);
    mi_free(o);
}

/* Takes the values that lie on this shard. */
static enum hop_result take_sources(struct shard *s, struct hop *h, struct reply *r) {
    struct carrier *x = steps_carrier(h);
    struct bitop *o = x->own;
    struct key k;
    for (uint32_t i = 0; i < o->n; i++) {
        if (x->shards[i + 1] != s->id) continue;
        key_read_nth(s, h, i + 1, &k);
        if (!source_take(&o->sources[i], &k, true, r)) return HOP_DONE;
    }
    return HOP_DONE;
}

/* Goes on with what is begun, or begins it: all its values were taken. */
static enum hop_result combine_on(struct shard *s, struct hop *h, struct bitop *o, struct reply *r) {
    struct key k;
    key_write_nth(s, h, 0, &k);
    if (!o->begun) {
        find_size(o);
        if (o->size <= ENTRY_EMBEDDED_MAX) {
            place_small(s, &k, o, r);
            return HOP_DONE;
        }
        if (!begin_result(s, &k, o)) {
            reply_refused(s, r);
            return HOP_DONE;
        }
    }
    combine_some(o, (unsigned char *)(o->in_place ? entry_blob(k.entry) : o->result)->bytes, SLICE_BYTES);
    if (o->at < o->size) return HOP_AGAIN;
    if (o->in_place) {
        key_after_change(s, &k, KEY_SET);
        reply_int(r, (int64_t)o->size);
    } else place_result(s, &k, o, r);
    return HOP_DONE;
}

/* As a plain hop. Its state, once it goes on in slices: */
static struct bitop *bitop_of(const struct hop *h) { return h->state > HOP_IN_SLICES ? (struct bitop *)(uintptr_t)h->state : NULL; }

static void bitop_end(struct shard *s, struct hop *h, struct bitop *o) {
    if (!o) return;
    for (uint32_t i = 0; i < o->n; i++)
        if (o->sources[i].lent) blob_release(s->memory, o->sources[i].lent);
    if (o->result) blob_give_up(o->result);
    mi_free(o);
    h->state = 0;
}

static void bitop_drop(struct shard *s, struct hop *h, struct reply *r) {
    (void)r;
    bitop_end(s, h, bitop_of(h));
}

/* Takes the values, all of which lie here. False: an error was replied. */
static bool take_all(struct shard *s, const struct hop *h, struct bitop *o, struct reply *r) {
    for (uint32_t i = 0; i < o->n; i++) {
        const struct arg *name = hop_key(h, i + 1);
        struct key k;
        if (h->state) key_look(s, s->dbs[h->db], hop_hash(h, i + 1), name->p, name->size, &k);
        else key_read_nth(s, h, i + 1, &k);
        if (!source_take(&o->sources[i], &k, true, r)) return false;
    }
    return true;
}

static enum hop_result bitop_on_one(struct shard *s, struct hop *h, struct reply *r) {
    struct bitop *o = bitop_of(h);
    if (!o) {
        o = bitop_new(h->argv, h->n_keys, r);
        if (!o || !take_all(s, h, o, r)) {
            bitop_end(s, h, o);
            return HOP_DONE;
        }
        find_size(o);
        if (o->size * (o->n + 1) > SLICE_BYTES) {
            if (h->state) h->state = (uint64_t)(uintptr_t)o;
            else {
                bitop_end(s, h, o);
                return HOP_AGAIN;
            }
        }
    }
    enum hop_result result = combine_on(s, h, o, r);
    if (result == HOP_DONE) bitop_end(s, h, o);
    return result;
}

static enum hop_result combine_slice(struct shard *s, struct hop *h, struct reply *r) { return combine_on(s, h, steps_carrier(h)->own, r); }

/* Step 0 takes the values, 1 combines them in slices, on the shard of the result; 2 is for the reply. */
bool bitop_steps(struct thread *t, struct task *k, struct reply *r) {
    struct carrier *x = k->carrier;
    if (k->step == 0) {
        x->own = bitop_new(k->argv, k->n_keys, r);
        x->drop_own = bitop_release;
        if (!x->own) return false;
        if (!steps_find_shards(t, k)) {
            reply_no_memory(r);
            return false;
        }
        steps_wave_on_some(t, k, 1, k->n_keys, take_sources);
        return true;
    }
    if (steps_take_error(t, k, r)) return false;
    if (k->step == 1) {
        steps_new_wave(t, k);
        steps_hop_in_slices(t, k, x->shards[0], combine_slice);
        return true;
    }
    steps_take_reply(t, k, r);
    return false;
}

/* ---- the rows ---- */

const struct command commands_bitmap[] = {
    {.name = "bitcount",
        .group = "bitmap",
        .since = "2.6.0",
        .arity = -2,
        .flags = CMD_READONLY | CMD_SLICED,
        .acl = ACL_BITMAP,
        .summary = "Count set bits in a string",
        .complexity = "O(N)",
        .plan = PLAN_SINGLE,
        .on_shard = bitcount,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1},
    {.name = "bitfield",
        .group = "bitmap",
        .since = "3.2.0",
        .arity = -2,
        .flags = CMD_WRITE | CMD_DENYOOM,
        .acl = ACL_BITMAP,
        .summary = "Perform arbitrary bitfield integer operations on strings",
        .complexity = "O(1) for each subcommand specified",
        .plan = PLAN_SINGLE,
        .on_shard = bitfield,
        .keys = {KEY_RANGE_NOTED(
            1, 0, 1, KEY_RW | KEY_ACCESS | KEY_UPDATE | KEY_VARIABLE_FLAGS, "This command allows both access and modification of the key")},
        .n_key_specs = 1},
    {.name = "bitfield_ro",
        .group = "bitmap",
        .since = "6.0.0",
        .arity = -2,
        .flags = CMD_READONLY | CMD_FAST,
        .acl = ACL_BITMAP,
        .summary = "Perform arbitrary bitfield integer operations on strings. Read-only variant of BITFIELD",
        .complexity = "O(1) for each subcommand specified",
        .plan = PLAN_SINGLE,
        .on_shard = bitfield_ro,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1},
    {.name = "bitop",
        .group = "bitmap",
        .since = "2.6.0",
        .arity = -4,
        .flags = CMD_WRITE | CMD_DENYOOM,
        .acl = ACL_BITMAP,
        .summary = "Perform bitwise operations between strings",
        .complexity = "O(N)",
        .plan = PLAN_SPREAD,
        .on_spread = bitop,
        .on_shard = bitop_on_one,
        .on_drop = bitop_drop,
        .on_steps = bitop_steps,
        .keys = {KEY_RANGE(2, 0, 1, KEY_OW | KEY_UPDATE), KEY_RANGE(3, -1, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 2},
    {.name = "bitpos",
        .group = "bitmap",
        .since = "2.8.7",
        .arity = -3,
        .flags = CMD_READONLY | CMD_SLICED,
        .acl = ACL_BITMAP,
        .summary = "Find first bit set or clear in a string",
        .complexity = "O(N)",
        .plan = PLAN_SINGLE,
        .on_shard = bitpos,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1},
    {.name = "getbit",
        .group = "bitmap",
        .since = "2.2.0",
        .arity = 3,
        .flags = CMD_READONLY | CMD_FAST,
        .acl = ACL_BITMAP,
        .summary = "Returns the bit value at offset in the string value stored at key",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = getbit,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RO | KEY_ACCESS)},
        .n_key_specs = 1},
    {.name = "setbit",
        .group = "bitmap",
        .since = "2.2.0",
        .arity = 4,
        .flags = CMD_WRITE | CMD_DENYOOM,
        .acl = ACL_BITMAP,
        .summary = "Sets or clears the bit at offset in the string value stored at key",
        .complexity = "O(1)",
        .plan = PLAN_SINGLE,
        .on_shard = setbit,
        .keys = {KEY_RANGE(1, 0, 1, KEY_RW | KEY_ACCESS | KEY_UPDATE)},
        .n_key_specs = 1},
    {.name = NULL},
};
