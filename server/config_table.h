/* The directives' table, for those who read values into a snapshot, show them and describe them (config*.c). */
#ifndef SERVER_CONFIG_TABLE_H
#define SERVER_CONFIG_TABLE_H

#include <stdio.h>

#include "server/config.h"

enum directive_kind {
    DIRECTIVE_NUMBER,
    DIRECTIVE_OCTAL,
    DIRECTIVE_BYTES,
    DIRECTIVE_BOOL,
    DIRECTIVE_CHOICE,
    DIRECTIVE_TEXT,
    DIRECTIVE_WORDS, /* several words, kept as a text with one blank between two */
    DIRECTIVE_BIND,
    DIRECTIVE_OUTPUT_LIMIT,
    DIRECTIVE_SAVE,
};

enum directive_flags {
    DIRECTIVE_MUTABLE = 1,   /* CONFIG SET may set it */
    DIRECTIVE_PROTECTED = 2, /* ... only where enable-protected-configs allows it */
    DIRECTIVE_HIDDEN = 4,    /* CONFIG GET shows it by its name only, not for patterns */
    DIRECTIVE_SECRET = 8,    /* its value is told to nobody but CONFIG GET */
    DIRECTIVE_PERCENT = 16,  /* bytes that may be a percentage */
    DIRECTIVE_YET = 32,      /* accepted, no effect yet: what it is about is not there */
    DIRECTIVE_NEEDLESS = 64, /* accepted, never an effect: what it is about does not exist here */
    DIRECTIVE_AT_ONCE = 128, /* at start, apply it when it is read: what follows in the file depends on it */
};
#define DIRECTIVE_IDLE (DIRECTIVE_YET | DIRECTIVE_NEEDLESS)

#define DIRECTIVE_WHY_MAX 512u   /* of what is wrong */
#define DIRECTIVE_SHOW_MAX 8192u /* of any value as text */
#define DIRECTIVE_WORDS_MAX 128

/* What is wrong with a value goes to why, DIRECTIVE_WHY_MAX bytes, and false is returned. */
typedef bool directive_check(struct config *c, char *why);
typedef bool directive_apply(const struct config *from, struct config *to, char *why);

struct directive {
    const char *name, *alias; /* alias NULL: none */
    enum directive_kind kind;
    uint32_t flags;  /* enum directive_flags */
    size_t at, size; /* in struct config; size of a text with its NUL */
    int64_t low, high;
    const char *fall_back;    /* the default, as text */
    const char *const *names; /* of a choice */
    directive_check *check;   /* after the value was read: refuses it, or puts it right; or NULL */
    directive_apply *apply;   /* what must happen besides the value (CONFIG SET); called the other way round to undo it; or NULL */
    const char *expects;      /* in the document: what a value looks like, where kind and range do not say it; or NULL */
    const char *doc;          /* one line */
};

/* Rows stand in groups, each after a row that has only a doc: the group's title. The last row has no doc. */
extern const struct directive directives[];

/* By its name or its alias, in any case; or NULL. */
const struct directive *directive_find(const char *name);
/* The next row after d that has a name (d NULL: the first one), or NULL. */
const struct directive *directive_next(const struct directive *d);

/* Says what is wrong, and is false. */
bool directive_wrong(char *why, const char *text);
/* Reads words into the snapshot. False: why says what is wrong, and the snapshot is to be thrown away. */
bool directive_read(const struct directive *d, struct config *c, char *const *words, int n, char *why);
/* The same from one text as in CONFIG SET: it is split at blanks where several words are meant. */
bool directive_read_text(const struct directive *d, struct config *c, const char *text, char *why);
/* Whether several words are meant. */
bool directive_takes_words(const struct directive *d);
/* The value as CONFIG GET shows it. */
void directive_show(const struct directive *d, const struct config *c, char out[DIRECTIVE_SHOW_MAX]);
/* A snapshot with all defaults, or NULL: no memory. A default that is refused is a fault of ours: aborts. */
struct config *config_defaults(void);
extern const char *const config_client_classes[CLIENT_CLASSES];

/* Checks (config_check.c). */
directive_check check_hz, check_dbfilename, check_appendfilename, check_appenddirname, check_hostname, check_title, check_events,
    check_percentiles, check_oom_mode, check_oom_values, check_backlog, check_replicaof, check_version, check_aclfile, check_sigint,
    check_sigterm;
/* Applies (config_apply.c). */
directive_apply apply_loglevel, apply_dir, apply_maxclients, apply_bind, apply_port, apply_maxmemory;

/* Makes a snapshot the current one; it is config.c's from here on. */
void config_install(const struct config *c);

/* config_docs.c: what --help and --dump-config-docs print. */
void config_print_help(void);
void config_print_docs(void);
/* What a value looks like: its range, its words ... */
void directive_print_values(const struct directive *d, FILE *f);

#endif
