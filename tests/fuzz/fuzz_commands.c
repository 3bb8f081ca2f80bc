/* Commands with strange arguments: a line is a command, blanks part its words, and every word becomes a bulk string. The grammar of the protocol is
 * kept, so that what is fuzzed is what commands do with their arguments. In a word, ^ stands for 32 times the byte before it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/fuzz/whole_server.h"

#define WORDS_MAX 64
#define WORD_MAX 65536

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    whole_server_start("epoll");
    return 0;
}

static char *out;
static size_t out_size, out_capacity;

static void put(const void *p, size_t n) {
    if (out_size + n > out_capacity && !(out = realloc(out, out_capacity = (out_size + n) * 2))) abort();
    memcpy(out + out_size, p, n);
    out_size += n;
}

/* Appends a word as a bulk string, ^ unfolded. */
static void put_word(const uint8_t *word, size_t size) {
    static char text[WORD_MAX];
    size_t n = 0;
    for (size_t i = 0; i < size && n < WORD_MAX - 64; i++) {
        if (word[i] != '^' || !n) text[n++] = (char)word[i];
        else
            for (int k = 0; k < 32; k++, n++) text[n] = text[n - 1];
    }
    char head[32];
    put(head, (size_t)snprintf(head, sizeof head, "$%zu\r\n", n));
    put(text, n);
    put("\r\n", 2);
}

static void put_command(const uint8_t *line, size_t size) {
    const uint8_t *words[WORDS_MAX];
    size_t sizes[WORDS_MAX], n = 0;
    for (const uint8_t *p = line, *end = line + size; p <= end && n < WORDS_MAX; n++) {
        const uint8_t *blank = memchr(p, ' ', (size_t)(end - p));
        words[n] = p;
        sizes[n] = (size_t)((blank ? blank : end) - p);
        p = (blank ? blank : end) + 1;
    }
    char head[32];
    put(head, (size_t)snprintf(head, sizeof head, "*%zu\r\n", n));
    for (size_t i = 0; i < n; i++) put_word(words[i], sizes[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size) {
    if (!whole_server_begin(bytes, size)) return 0;
    out_size = 0;
    for (const uint8_t *p = bytes, *end = bytes + size; p < end;) {
        const uint8_t *newline = memchr(p, '\n', (size_t)(end - p)), *line_end = newline ? newline : end;
        if (line_end > p) put_command(p, (size_t)(line_end - p));
        p = line_end + 1;
    }
    whole_server_exchange((const uint8_t *)out, out_size, 0);
    return 0;
}
