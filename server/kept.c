#include "server/kept.h"

#include <mimalloc.h>
#include <string.h>

#define BLOCK_BYTES 65536u
#define FIRST_BYTES 1024u

struct kept_block {
    struct kept_block *next;
    char bytes[];
};

const char *kept_copy(struct kept *k, const char *text, uint32_t size) {
    size_t needs = (size_t)size + 1;
    if (!k->blocks || k->left < needs) {
        size_t usual = k->blocks ? BLOCK_BYTES : FIRST_BYTES, n = needs < usual / 4 ? usual : needs;
        struct kept_block *b = mi_malloc(sizeof *b + n);
        if (!b) return NULL;
        b->next = k->blocks;
        k->blocks = b;
        k->left = n;
    }
    char *to = k->blocks->bytes + (k->left -= needs);
    memcpy(to, text, size);
    to[size] = 0;
    return to;
}

bool kept_drop_some(struct kept *k) {
    struct kept_block *b = k->blocks;
    if (!b) return false;
    k->blocks = b->next;
    k->left = 0;
    mi_free(b);
    return true;
}

void kept_drop(struct kept *k) {
    while (kept_drop_some(k)) {}
    *k = (struct kept){0};
}
