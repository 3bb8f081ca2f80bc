#include "server/config_words.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const char escaped[] = "nrtba", meant[] = "\n\r\t\b\a";

static int hex(char c) { return isdigit((unsigned char)c) ? c - '0' : tolower((unsigned char)c) - 'a' + 10; }

/* One escape in double quotes, after the backslash. */
static const char *unescape(const char *p, char *out) {
    if (p[0] == 'x' && isxdigit((unsigned char)p[1]) && isxdigit((unsigned char)p[2])) {
        *out = (char)(hex(p[1]) << 4 | hex(p[2]));
        return p + 3;
    }
    const char *e = strchr(escaped, *p);
    *out = e ? meant[e - escaped] : *p;
    return p + 1;
}

/* What stands in quotes, up to the end of them. NULL: it does not end, or something follows at once. */
static const char *quoted(const char *p, char quote, char **out) {
    while (*p && *p != quote) {
        if (*p == '\\' && quote == '"' && p[1]) p = unescape(p + 1, (*out)++);
        else if (*p == '\\' && p[1] == '\'' && quote == '\'') {
            *(*out)++ = '\'';
            p += 2;
        } else *(*out)++ = *p++;
    }
    return *p && (!p[1] || isspace((unsigned char)p[1])) ? p + 1 : NULL;
}

int words_split(const char *line, char *buffer, char **words, int max) {
    int n = 0;
    for (const char *p = line;;) {
        while (isspace((unsigned char)*p)) p++;
        if (!*p) return n;
        if (n == max) return WORDS_TOO_MANY;
        words[n++] = buffer;
        while (*p && !isspace((unsigned char)*p)) {
            if (*p == '"' || *p == '\'') {
                char quote = *p;
                p = quoted(p + 1, quote, &buffer);
                if (!p) return -1;
            } else *buffer++ = *p++;
        }
        *buffer++ = 0;
    }
}

void words_quote(const char *text, char *out) {
    *out++ = '"';
    for (const char *p = text; *p; p++) {
        const char *e = strchr(meant, *p);
        if (e) {
            *out++ = '\\';
            *out++ = escaped[e - meant];
        } else if (*p == '"' || *p == '\\') {
            *out++ = '\\';
            *out++ = *p;
        } else if (isprint((unsigned char)*p)) *out++ = *p;
        else out += sprintf(out, "\\x%02x", (unsigned char)*p);
    }
    *out++ = '"';
    *out = 0;
}
