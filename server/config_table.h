/* The directives' table, for those who read values into a snapshot (config.c, config_load.c). */
#ifndef SERVER_CONFIG_TABLE_H
#define SERVER_CONFIG_TABLE_H

#include "server/config.h"

enum directive_kind {
    DIRECTIVE_NUMBER,
    DIRECTIVE_OCTAL,
    DIRECTIVE_BYTES,
    DIRECTIVE_BOOL,
    DIRECTIVE_CHOICE,
    DIRECTIVE_TEXT,
    DIRECTIVE_BIND,
    DIRECTIVE_OUTPUT_LIMIT
};
enum directive_how { DIRECTIVE_FIXED, DIRECTIVE_MUTABLE };

struct directive {
    const char *name;
    enum directive_kind kind;
    size_t at, size; /* in struct config; size of a text with its NUL */
    int64_t low, high;
    const char *fall_back;    /* the default, as text */
    const char *const *names; /* of a choice */
    enum directive_how how;
    const char *doc;
};

extern const struct directive directives[];

const struct directive *directive_find(const char *name);
/* Reads text into the snapshot. NULL, or what is wrong (perhaps in why), with the snapshot unchanged. */
const char *directive_read(const struct directive *d, struct config *c, const char *text, char *why, size_t why_size);
/* Makes a snapshot the current one; it is config.c's from here on. */
void config_install(const struct config *c);

#endif
