#include "server/getkeys.h"

#include "server/conn.h"
#include "server/introspect.h"

/* Where a specification's keys are: first, last and step in argv. False: it finds none. */
struct range {
    int64_t first, last, step;
};

static bool begin_of(const struct key_spec *k, const struct arg *argv, int64_t argc, int64_t *at) {
    if (k->begin == KEY_BEGIN_INDEX) {
        *at = k->pos;
        return true;
    }
    if (k->begin != KEY_BEGIN_KEYWORD) return false;
    int64_t from = k->pos > 0 ? k->pos : argc + k->pos, step = k->pos > 0 ? 1 : -1;
    for (int64_t i = from; i > 0 && i < argc; i += step)
        if (arg_is(&argv[i], k->keyword)) {
            *at = i + 1;
            return true;
        }
    return false;
}

static bool range_of(const struct key_spec *k, const struct arg *argv, int64_t argc, struct range *out) {
    int64_t at;
    if (!begin_of(k, argv, argc, &at) || at >= argc) return false;
    *out = (struct range){at, at + k->last, k->step};
    if (k->find == KEY_FIND_RANGE) {
        if (k->last < 0) out->last = k->limit <= 1 ? argc + k->last : at + (argc - at) / k->limit + k->last;
    } else if (k->find == KEY_FIND_KEYNUM) {
        int64_t n;
        if (at + k->last >= argc || !parse_int64(argv[at + k->last].p, argv[at + k->last].size, &n) || n < 0 || n > argc) return false;
        out->first = at + k->step;
        out->step = k->limit;
        out->last = out->first + (n - 1) * out->step;
    } else return false;
    return out->last < argc && out->step > 0;
}

/* Whether there is nothing but GET and OVERFLOW among the commands of a BITFIELD. */
static bool only_reads(const struct arg *argv, int64_t argc) {
    for (int64_t i = 2; i < argc; i++) {
        if (arg_is(&argv[i], "get") && i + 2 < argc) i += 2;
        else if (arg_is(&argv[i], "overflow") && i + 1 < argc) i++;
        else return false;
    }
    return true;
}

/* What the command does with the key: of SET and BITFIELD, depends on the other arguments. */
static uint16_t flags_of(const struct command *row, const struct key_spec *spec, const struct arg *argv, int64_t argc) {
    if (!(spec->flags & KEY_VARIABLE_FLAGS)) return spec->flags;
    if (!strcmp(row->name, "bitfield")) return only_reads(argv, argc) ? KEY_RO | KEY_ACCESS : KEY_RW | KEY_ACCESS | KEY_UPDATE;
    if (strcmp(row->name, "set")) return spec->flags;
    for (int64_t i = 3; i < argc; i++)
        if (arg_is(&argv[i], "get")) return KEY_RW | KEY_ACCESS | KEY_UPDATE;
    return KEY_OW | KEY_UPDATE;
}

static void reply_key(struct reply *r, const struct arg *key, uint16_t flags, bool with_flags) {
    if (with_flags) reply_array(r, 2);
    reply_bulk(r, key->p, key->size);
    if (with_flags) introspect_key_flags(r, flags);
}

/* A range at a fixed place that has no key, as with PFMERGE of one, or a number of keys that can't be. Then all that are named are none. */
static bool is_empty(const struct key_spec *k, const struct arg *argv, int64_t argc) {
    struct range x;
    if (k->begin != KEY_BEGIN_INDEX) return false;
    return k->find == KEY_FIND_KEYNUM ? !range_of(k, argv, argc, &x) : k->find == KEY_FIND_RANGE && k->pos >= argc;
}

/* Of SORT and MIGRATE, whose key specs do not tell where all their keys are. */
static bool reply_found_keys(const struct command *row, const struct arg *argv, int64_t argc, struct reply *r, bool with_flags) {
    struct key_range x;
    const struct key_spec *last = &row->keys[row->n_key_specs - 1];
    if (!row->find_keys || (last->begin != KEY_BEGIN_UNKNOWN && !(last->flags & KEY_INCOMPLETE))) return false;
    command_keys(row, argv, (uint32_t)argc, &x);
    if (!x.first) {
        reply_error(r, "ERR Invalid arguments specified for command");
        return true;
    }
    reply_array(r, x.n);
    for (uint32_t i = 0; i < x.n; i++)
        reply_key(r, &argv[x.first + i * x.step], row->keys[i ? row->n_key_specs - 1 : 0].flags & ~KEY_INCOMPLETE, with_flags);
    return true;
}

static void keys_of(const struct command *row, const struct arg *argv, int64_t argc, struct reply *r, bool with_flags) {
    size_t n = 0;
    bool empty = false;
    if (reply_found_keys(row, argv, argc, r, with_flags)) return;
    for (uint8_t i = 0; i < row->n_key_specs; i++) empty |= is_empty(&row->keys[i], argv, argc);
    for (int round = 0; round < 2; round++) {
        if (empty || (round && !n)) {
            reply_error(r, "ERR Invalid arguments specified for command");
            return;
        }
        if (round) reply_array(r, n);
        for (uint8_t i = 0; i < row->n_key_specs; i++) {
            struct range x;
            if (row->keys[i].flags & KEY_NOT_KEY || !range_of(&row->keys[i], argv, argc, &x)) continue;
            for (int64_t at = x.first; at <= x.last; at += x.step) {
                if (round) reply_key(r, &argv[at], flags_of(row, &row->keys[i], argv, argc), with_flags);
                else n++;
            }
        }
    }
}

static void command(const struct arg *argv, uint32_t argc, struct reply *r, bool with_flags) {
    const struct command *row = command_find(argv[0].p, argv[0].size);
    if (row && argc > 1 && introspect_subcommand_count(row)) row = command_find_sub(row, argv[1].p, argv[1].size);
    if (!row) reply_error(r, "ERR Invalid command specified");
    else if (!row->n_key_specs) reply_error(r, "ERR The command has no key arguments");
    else if (row->arity > 0 ? argc != (uint32_t)row->arity : argc < (uint32_t)-row->arity)
        reply_error(r, "ERR Invalid number of arguments specified for command");
    else keys_of(row, argv, argc, r, with_flags);
}

void getkeys_command(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)c;
    command(argv + 2, argc - 2, r, false);
}

void getkeysandflags_command(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)c;
    command(argv + 2, argc - 2, r, true);
}
