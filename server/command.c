/* The lookup table of commands, built once from the families' rows. */
#include "server/command.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>

#include "server/regions.h"
#include "shard/blob.h"

#define LOOKUP_SIZE 1024u  /* a power of two, well above twice the rows */
#define NAME_MAX_SIZE 128u /* rename-command may choose long ones */

static const struct command *const families[] = {commands_string, commands_generic, commands_expire, commands_connection, commands_server,
    commands_transaction, commands_hash, commands_hash_expiry, commands_set, commands_list, commands_bitmap, commands_hyperloglog,
    commands_zset, commands_geo, commands_sort, commands_dump, commands_migrate};
#define N_FAMILIES (sizeof families / sizeof *families)

static struct command *rows; /* all top-level rows, copied, with what is filled in at start */
static size_t n_rows;
static char **called;                /* each row's name, as rename-command left it; NULL: taken away */
static const struct command **shown; /* the rows that are not taken away */
static size_t n_shown;
static const struct command *by_number[COMMAND_ROWS_MAX];
static uint16_t lookup[LOOKUP_SIZE]; /* row + 1; 0: empty */
/* The first and the last 8 bytes of the name, lower case, and its size: they decide, for letters only and up to 16 of them. */
static struct name {
    uint64_t head, tail;
    uint32_t size;
    bool sure;
} names[LOOKUP_SIZE];

/* Lower-cases ASCII letters in 8 bytes. Two bytes that become the same letter are that letter, upper or lower case; others may be confused. */
static inline uint64_t fold(uint64_t v) { return v | 0x2020202020202020u; }

static inline uint64_t load(const char *p, size_t n) {
    uint64_t v = 0;
    memcpy(&v, p, n);
    return v;
}

static inline void read_name(const char *name, size_t size, uint64_t *head, uint64_t *tail) {
    if (size >= 8) {
        *head = fold(load(name, 8));
        *tail = fold(load(name + size - 8, 8));
    } else if (size >= 4) {
        *head = fold(load(name, 4));
        *tail = fold(load(name + size - 4, 4));
    } else {
        *head = fold(size ? (uint64_t)(unsigned char)name[0] | (uint64_t)(unsigned char)name[size / 2] << 8 |
                    (uint64_t)(unsigned char)name[size - 1] << 16
                          : 0);
        *tail = size;
    }
}

static inline uint32_t place_of(uint64_t head, uint64_t tail) {
    return (uint32_t)((head * 0x9e3779b97f4a7c15u ^ tail * 0xc2b2ae3d27d4eb4fu) >> 54) & (LOOKUP_SIZE - 1);
}

static bool same_name(const char *name, size_t size, const char *lower) {
    for (size_t i = 0; i < size; i++)
        if (!lower[i] || tolower((unsigned char)name[i]) != lower[i]) return false;
    return lower[size] == 0;
}

const struct command *command_find(const char *name, size_t size) {
    if (size > NAME_MAX_SIZE) return NULL;
    uint64_t head, tail;
    read_name(name, size, &head, &tail);
    for (uint32_t i = place_of(head, tail);; i = (i + 1) & (LOOKUP_SIZE - 1)) {
        if (!lookup[i]) return NULL;
        const struct name *n = &names[i];
        if (n->head != head || n->tail != tail || n->size != size) continue;
        const struct command *row = &rows[lookup[i] - 1];
        if (n->sure || same_name(name, size, called[row - rows])) return row;
    }
}

const struct command *command_find_sub(const struct command *parent, const char *name, size_t size) {
    for (const struct command *sub = parent->subcommands; sub && sub->name; sub++)
        if (same_name(name, size, sub->name)) return sub;
    return NULL;
}

const struct command *command_by_number(uint16_t number) { return by_number[number]; }
void command_full_name(const struct command *row, char out[COMMAND_FULL_NAME]) {
    snprintf(out, COMMAND_FULL_NAME, "%s%s%s", row->parent ? row->parent->name : "", row->parent ? "|" : "", row->name);
}

size_t command_count(void) { return n_shown; }
const struct command *command_at(size_t i) { return shown[i]; }

static void fill_in(struct command *row, uint16_t *number) {
    if (*number == COMMAND_ROWS_MAX) abort();
    row->number = (*number)++;
    by_number[row->number] = row;
    if (row->n_key_specs && row->keys[0].begin == KEY_BEGIN_INDEX && row->keys[0].find == KEY_FIND_RANGE) {
        row->key_first = row->keys[0].pos;
        row->key_last = row->keys[0].last < 0 ? row->keys[0].last : (int8_t)(row->keys[0].pos + row->keys[0].last);
        row->key_step = row->keys[0].step;
        /* Two specs, of one key and of those behind it (RENAME, SUNIONSTORE): one range. */
        if (row->n_key_specs == 2 && row->keys[1].find == KEY_FIND_RANGE && row->keys[1].pos == row->key_first + 1)
            row->key_last = row->keys[1].last < 0 ? row->keys[1].last : row->keys[1].pos;
    } else if (row->n_key_specs && row->keys[0].find == KEY_FIND_KEYNUM) {
        row->key_first = (int8_t)(row->keys[0].pos + row->keys[0].step);
        row->key_step = row->keys[0].limit;
    }
}

static uint32_t count_told(const struct command *row, const struct arg *argv, uint32_t argc) {
    const struct arg *a = &argv[row->keys[0].pos + row->keys[0].last];
    int64_t n;
    if (!parse_int64(a->p, a->size, &n) || n < 1 || n > (argc - row->key_first) / row->key_step) return 0;
    return (uint32_t)n;
}

bool command_keys(const struct command *row, const struct arg *argv, uint32_t argc, struct key_range *out) {
    uint32_t first = (uint32_t)row->key_first, step = (uint32_t)row->key_step;
    *out = (struct key_range){.first = (uint8_t)first, .step = (uint8_t)step};
    if (!first) return true;
    if (row->find_keys) {
        out->n = 1;
        row->find_keys(argv, argc, out);
        return true;
    }
    if (row->keys[0].find == KEY_FIND_KEYNUM) {
        out->n = count_told(row, argv, argc);
        return true;
    }
    if (row->key_last < 0 && (argc - first) % step) return false;
    uint32_t last = row->key_last < 0 ? argc - (uint32_t)-row->key_last : (uint32_t)row->key_last;
    out->n = (last - first) / step + 1;
    return true;
}

/* Puts every row into the lookup table under the name that it is called by. */
static void build_lookup(void) {
    memset(lookup, 0, sizeof lookup);
    n_shown = 0;
    for (size_t at = 0; at < n_rows; at++) {
        const char *name = called[at];
        if (!name) continue;
        shown[n_shown++] = &rows[at];
        uint64_t head, tail;
        size_t size = strlen(name);
        read_name(name, size, &head, &tail);
        uint32_t i = place_of(head, tail);
        for (; lookup[i]; i = (i + 1) & (LOOKUP_SIZE - 1)) {
            if (strcmp(called[lookup[i] - 1], name)) continue;
            fprintf(stderr, "command %s has two rows\n", name);
            abort();
        }
        lookup[i] = (uint16_t)(at + 1);
        names[i] = (struct name){head, tail, (uint32_t)size, size <= 16 && strspn(name, "abcdefghijklmnopqrstuvwxyz") == size};
    }
}

void commands_init(void) {
    uint16_t number = 1;
    for (size_t f = 0; f < N_FAMILIES; f++)
        for (const struct command *row = families[f]; row->name; row++) n_rows++;
    rows = calloc(n_rows, sizeof *rows);
    called = calloc(n_rows, sizeof *called);
    shown = calloc(n_rows, sizeof(const struct command *));
    if (!rows || !called || !shown) abort();
    size_t at = 0;
    for (size_t f = 0; f < N_FAMILIES; f++)
        for (const struct command *row = families[f]; row->name; row++) rows[at++] = *row;
    for (at = 0; at < n_rows; at++) {
        struct command *row = &rows[at];
        fill_in(row, &number);
        size_t n_subs = 0;
        while (row->subcommands && row->subcommands[n_subs].name) n_subs++;
        if (n_subs) {
            struct command *subs = calloc(n_subs + 1, sizeof *subs);
            if (!subs) abort();
            memcpy(subs, row->subcommands, n_subs * sizeof *subs);
            row->subcommands = subs;
            for (size_t i = 0; i < n_subs; i++) {
                fill_in(&subs[i], &number);
                subs[i].parent = row;
                if (!subs[i].group) subs[i].group = row->group;
            }
        }
        called[at] = strdup(row->name);
        if (!called[at]) abort();
    }
    build_lookup();
}

const char *command_rename(const char *old, const char *new) {
    const struct command *row = command_find(old, strlen(old)), *other = command_find(new, strlen(new));
    if (!row) return "No such command in rename-command";
    if (other && other != row) return "Target command name already exists";
    if (strlen(new) > NAME_MAX_SIZE) return "Target command name is too long";
    char *name = *new ? strdup(new) : NULL;
    if (*new && !name) return "out of memory";
    for (char *p = name; p && *p; p++) *p = (char)tolower((unsigned char)*p);
    free(called[row - rows]);
    called[row - rows] = name;
    build_lookup();
    return NULL;
}

bool arg_int64(const struct arg *a, int64_t *out, struct reply *r) {
    if (parse_int64(a->p, a->size, out)) return true;
    reply_not_integer(r);
    return false;
}

void reply_subcommand_error(struct reply *r, const struct arg *sub, const char *container) {
    reply_errorf(r, "ERR unknown subcommand or wrong number of arguments for '%.*s'. Try %s HELP.",
        (int)(sub->size < 128 ? sub->size : 128), sub->p, container);
}

bool arg_is(const struct arg *a, const char *word) { return same_name(a->p, a->size, word); }

void blob_give_up(struct blob *b) {
    size_t mapped = blob_mapped(b);
    if (mapped) regions_give_back(b, mapped);
    else blob_discard(b);
}

void args_discard_blobs(struct arg *argv, uint32_t argc) {
    for (uint32_t i = 0; i < argc; i++)
        if (argv[i].flags & ARG_BLOB) blob_give_up((struct blob *)(void *)(argv[i].p - offsetof(struct blob, bytes)));
}
