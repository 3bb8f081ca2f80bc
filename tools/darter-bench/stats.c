/* Merging, and errors by kind: see stats.h. */
#include "tools/darter-bench/stats.h"

#include <string.h>

void stats_clear(struct stats *s) { memset(s, 0, sizeof *s); }

static void add_kind(struct stats *s, const char word[ERROR_WORD_MAX], uint64_t count) {
    int i = 0;
    while (i < ERROR_KINDS - 1 && s->kinds[i].count && strcmp(s->kinds[i].word, word)) i++;
    if (!s->kinds[i].count) memcpy(s->kinds[i].word, i == ERROR_KINDS - 1 ? "others" : word, i == ERROR_KINDS - 1 ? 7 : ERROR_WORD_MAX);
    s->kinds[i].count += count;
}

void stats_add_error(struct stats *s, const char *text, size_t size) {
    char word[ERROR_WORD_MAX] = "";
    for (size_t i = 0; i < size && i < sizeof word - 1 && text[i] > ' ' && text[i] < 127; i++) word[i] = text[i];
    s->errors++;
    add_kind(s, word, 1);
}

void stats_merge(struct stats *to, const struct stats *from) {
    for (int i = 0; i < OPS; i++) histogram_merge(&to->latency[i], &from->latency[i]);
    to->errors += from->errors;
    to->hits += from->hits;
    to->misses += from->misses;
    to->bytes_out += from->bytes_out;
    to->bytes_in += from->bytes_in;
    if (from->pending_max > to->pending_max) to->pending_max = from->pending_max;
    for (int i = 0; i < ERROR_KINDS; i++)
        if (from->kinds[i].count) add_kind(to, from->kinds[i].word, from->kinds[i].count);
}
