#include "server/title.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/config.h"

#define TITLE_MAX (2 * CONFIG_TEXT_MAX)

static char *memory; /* what the kernel shows; NULL: not ours to write */
static size_t memory_size;
static char *program, *environment;

/* The end of strings that lie one behind the other, if this is the next of them. */
static char *behind(char *end, char *text) { return text == end ? end + strlen(text) + 1 : end; }

/* In one block, which stays whatever is unset later. */
static char **copy_environment(void) {
    size_t n = 0, bytes = 0;
    for (; environ[n]; n++) bytes += strlen(environ[n]) + 1;
    char **copy = calloc(n + 1, sizeof *copy);
    char *to = environment = malloc(bytes + 1);
    if (!copy || !to) return NULL;
    for (size_t i = 0; i < n; i++) {
        copy[i] = to;
        to = stpcpy(to, environ[i]) + 1;
    }
    return copy;
}

/* Whether the kernel shows what lies there (proc(5): arg_start, the 48th field of /proc/PID/stat): else it is no memory of ours to write. */
static bool is_shown(const char *p) {
    char line[2048];
    FILE *f = fopen("/proc/self/stat", "re");
    bool read = f && fgets(line, sizeof line, f);
    if (f) fclose(f);
    char *at = read ? strrchr(line, ')') : NULL; /* the second field, which may hold spaces */
    for (int field = 2; at && field < 48; field++) at = strchr(at + 1, ' ');
    return at && strtoull(at + 1, NULL, 10) == (unsigned long long)(uintptr_t)p;
}

void title_take_memory(int argc, char **argv) {
    if (argc < 1 || !is_shown(argv[0])) return;
    char *end = argv[0], **moved = copy_environment();
    program = strdup(argv[0]);
    if (!moved || !program) return;
    for (int i = 0; i < argc; i++) end = behind(end, argv[i]);
    for (char **e = environ; *e; e++) end = behind(end, *e);
    environ = moved;
    memory = argv[0];
    memory_size = (size_t)(end - argv[0]);
}

/* ---- the template ---- */

static void listen_address(const struct config *c, char *out, size_t size) {
    if (c->port) snprintf(out, size, "%s:%d", c->n_bind ? c->bind[0] : "*", (int)c->port);
    else snprintf(out, size, "unixsocket:%s", c->unixsocket);
}

/* The value of a variable. False: there is none of this name. */
static bool value_of(const struct config *c, const char *name, size_t n, const char *title, char *out, size_t size) {
    static const char *const names[] = {"title", "listen-addr", "server-mode", "port", "tls-port", "unixsocket", "config-file"};
    size_t i = 0;
    while (i < sizeof names / sizeof *names && (strlen(names[i]) != n || memcmp(names[i], name, n))) i++;
    *out = 0;
    switch (i) {
    case 0: snprintf(out, size, "%s", title); return true;
    case 1: listen_address(c, out, size); return true;
    case 2: return true; /* neither a cluster nor a sentinel */
    case 3: snprintf(out, size, "%d", (int)c->port); return true;
    case 4: snprintf(out, size, "%d", (int)c->tls_port); return true;
    case 5: snprintf(out, size, "%s", c->unixsocket); return true;
    case 6: snprintf(out, size, "%s", *c->config_file ? c->config_file : "-"); return true;
    }
    return false;
}

/* Without blanks at both ends. False: a variable is unknown, or not closed. */
static bool expand(const struct config *c, const char *title, char out[TITLE_MAX]) {
    size_t at = 0;
    *out = 0;
    for (const char *p = c->proc_title_template; *p && at < TITLE_MAX - 1;) {
        const char *end = *p == '{' ? strchr(p, '}') : p;
        if (!end) return false;
        if (*p == '{') {
            if (!value_of(c, p + 1, (size_t)(end - p - 1), title, out + at, TITLE_MAX - at)) return false;
            at += strlen(out + at);
        } else if (at || *p != ' ') out[at++] = *p;
        out[at] = 0;
        p = end + 1;
    }
    while (at && out[at - 1] == ' ') out[--at] = 0;
    return true;
}

bool title_is_good(const struct config *c) {
    char text[TITLE_MAX];
    return expand(c, "", text) && *text;
}

void title_show(const struct config *c) {
    char text[TITLE_MAX];
    if (!memory || !c->set_proc_title || !expand(c, program, text)) return;
    size_t n = strlen(text);
    memset(memory, 0, memory_size);
    memcpy(memory, text, n < memory_size ? n : memory_size - 1);
}
