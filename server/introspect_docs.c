#include "server/introspect_docs.h"

#include <ctype.h>
#include <stdlib.h>

#include "server/command_facts.h"
#include "server/introspect.h"

/* ---- arguments ---- */

struct part {
    const char *p;
    size_t size; /* 0: none */
};
struct argument {
    struct part name, token, since, deprecated;
    const char *type;
    int key_spec; /* -1: none */
    bool optional, multiple, multiple_token;
    const char *inner; /* the words within; NULL: none */
};

static const char *read_part(const char *p, const char *end_at, struct part *out) {
    *out = (struct part){p, strcspn(p, end_at)};
    return p + out->size;
}

static const char *read_type(const char *p, struct argument *a) {
    static const char letters[] = "idputk";
    static const char *const types[] = {"integer", "double", "pattern", "unix-time", "pure-token", "key"};
    const char *letter = *p ? strchr(letters, *p) : NULL;
    if (!letter) abort();
    a->type = types[letter - letters];
    p++;
    if (isdigit((unsigned char)*p)) a->key_spec = *p++ - '0';
    return p;
}

static const char *read_token(const char *p, struct argument *a) {
    if (*p != '\'') return read_part(p, "@~?*+{}() ", &a->token);
    p = read_part(p + 1, "'", &a->token);
    return p + 1;
}

/* Behind the bracket that ends the words at p. */
static const char *skip_words(const char *p) {
    for (int depth = 1; depth; p++) {
        if (!*p) abort();
        if (*p == '\'') p = strchr(p + 1, '\'');
        else if (*p == '{' || *p == '(') depth++;
        else if (*p == '}' || *p == ')') depth--;
    }
    return p;
}

/* Reads one word; returns what is behind it, and behind the space there. */
static const char *read_argument(const char *p, struct argument *a) {
    *a = (struct argument){.type = "string", .key_spec = -1};
    p = read_part(p, "%=@~?*+{}() ", &a->name);
    if (isupper((unsigned char)*a->name.p)) {
        a->type = "pure-token";
        a->token = a->name;
    }
    for (;;) {
        char mark = *p;
        if (!mark || mark == ' ' || mark == '}' || mark == ')') return mark == ' ' ? p + 1 : p;
        p++;
        if (mark == '%') p = read_type(p, a);
        else if (mark == '=') p = read_token(p, a);
        else if (mark == '@') p = read_part(p, "~?*+{}() ", &a->since);
        else if (mark == '~') p = read_part(p, "?*+{}() ", &a->deprecated);
        else if (mark == '?') a->optional = true;
        else if (mark == '*') a->multiple = true;
        else if (mark == '+') a->multiple_token = true;
        else {
            a->type = mark == '{' ? "oneof" : "block";
            a->inner = p;
            p = skip_words(p);
        }
    }
}

static bool at_end(const char *p) { return !*p || *p == '}' || *p == ')'; }

static void reply_field(struct reply *r, const char *name, const struct part *value) {
    reply_bulk_text(r, name);
    reply_bulk(r, value->p, value->size);
}

static void reply_name(struct reply *r, const struct argument *a) {
    char lower[64];
    size_t n = a->name.size < sizeof lower ? a->name.size : sizeof lower;
    bool capitals = a->name.p == a->token.p;
    for (size_t i = 0; i < n; i++) lower[i] = (char)(capitals ? tolower((unsigned char)a->name.p[i]) : a->name.p[i]);
    reply_bulk_text(r, "name");
    reply_bulk(r, lower, n);
}

static void reply_arguments(struct reply *r, const char *text);

static void reply_argument(struct reply *r, const struct argument *a) {
    size_t flags = (size_t)a->optional + a->multiple + a->multiple_token;
    reply_map(r,
        2 + (size_t)(a->key_spec >= 0) + (a->token.p != NULL) + (a->since.size != 0) + (a->deprecated.size != 0) + (flags != 0) +
            (a->inner != NULL));
    reply_name(r, a);
    reply_bulk_text(r, "type");
    reply_bulk_text(r, a->type);
    if (a->key_spec >= 0) {
        reply_bulk_text(r, "key_spec_index");
        reply_int(r, a->key_spec);
    }
    if (a->token.p) reply_field(r, "token", &a->token);
    if (a->since.size) reply_field(r, "since", &a->since);
    if (a->deprecated.size) reply_field(r, "deprecated_since", &a->deprecated);
    if (flags) {
        reply_bulk_text(r, "flags");
        reply_set(r, flags);
        if (a->optional) reply_status(r, "optional");
        if (a->multiple) reply_status(r, "multiple");
        if (a->multiple_token) reply_status(r, "multiple_token");
    }
    if (!a->inner) return;
    reply_bulk_text(r, "arguments");
    reply_arguments(r, a->inner);
}

static void reply_arguments(struct reply *r, const char *text) {
    struct argument a;
    size_t n = 0;
    for (const char *p = text; !at_end(p); n++) p = read_argument(p, &a);
    reply_array(r, n);
    while (!at_end(text)) {
        text = read_argument(text, &a);
        reply_argument(r, &a);
    }
}

/* ---- a command ---- */

static void reply_history(struct reply *r, const char *text) {
    size_t n = 1;
    for (const char *p = text; (p = strchr(p, '\n')); p++) n++;
    reply_set(r, n);
    for (; n; n--) {
        struct part version, what;
        text = read_part(text, " ", &version);
        text = read_part(text + 1, "\n", &what);
        if (*text) text++;
        reply_array(r, 2);
        reply_bulk(r, version.p, version.size);
        reply_bulk(r, what.p, what.size);
    }
}

static void reply_text(struct reply *r, const char *name, const char *text) {
    if (!text) return;
    reply_bulk_text(r, name);
    reply_bulk_text(r, text);
}

static void reply_docs(struct reply *r, const struct command *row) {
    static const struct command_facts none;
    char name[COMMAND_FULL_NAME];
    command_full_name(row, name);
    const struct command_facts *facts = command_facts_find(name);
    if (!facts) facts = &none;
    size_t subs = introspect_subcommand_count(row);
    const char *flag = facts->deprecated_since ? "deprecated" : facts->doc_flag;
    reply_bulk_text(r, name);
    reply_map(r,
        (size_t)(row->summary != NULL) + (row->since != NULL) + 1 + (row->complexity != NULL) + (flag != NULL) +
            (facts->deprecated_since != NULL) + (facts->replaced_by != NULL) + (facts->history != NULL) + (facts->arguments != NULL) +
            (subs != 0));
    reply_text(r, "summary", row->summary);
    reply_text(r, "since", row->since);
    reply_text(r, "group", row->group);
    reply_text(r, "complexity", row->complexity);
    if (flag) {
        reply_bulk_text(r, "doc_flags");
        reply_set(r, 1);
        reply_status(r, flag);
    }
    reply_text(r, "deprecated_since", facts->deprecated_since);
    reply_text(r, "replaced_by", facts->replaced_by);
    if (facts->history) {
        reply_bulk_text(r, "history");
        reply_history(r, facts->history);
    }
    if (facts->arguments) {
        reply_bulk_text(r, "arguments");
        reply_arguments(r, facts->arguments);
    }
    if (!subs) return;
    reply_bulk_text(r, "subcommands");
    reply_map(r, subs);
    for (size_t i = 0; i < subs; i++) reply_docs(r, &row->subcommands[i]);
}

void docs_command(struct conn *c, struct arg *argv, uint32_t argc, struct reply *r) {
    (void)c;
    size_t n = argc == 2 ? command_count() : 0;
    for (uint32_t i = 2; i < argc; i++) n += introspect_row_named(&argv[i]) != NULL;
    reply_map(r, n);
    for (size_t i = 0; argc == 2 && i < n; i++) reply_docs(r, command_at(i));
    for (uint32_t i = 2; i < argc; i++) {
        const struct command *row = introspect_row_named(&argv[i]);
        if (row) reply_docs(r, row);
    }
}
