#include "tests/sim/trace.h"

#include <inttypes.h>
#include <stdlib.h>

static const char *const op_names[] = {"", "MGET", "MSET", "MSETNX", "DEL", "EXISTS", "RENAME", "TRANSFER", "WATCH", "EXEC", "FLUSH",
    "SWAPDB", "BGSAVE", "BLPOP", "(expired)"};
static const char *const part_names[] = {"GET", "EXISTS", "SET", "INCR", "APPEND", "DEL", "POP"};

static void print_part(const struct part *p, FILE *to) {
    fprintf(to, " %s %c.k%u", part_names[p->kind], "ABLM"[p->db], p -> key);
    if (p->kind == PART_INCR) fprintf(to, " %+" PRId64, p->number);
    if ((p->kind == PART_SET && p->from < 0) || p->kind == PART_APPEND) fprintf(to, " %04u", p->token);
    if (p->ttl_ms) fprintf(to, " for %d ms", (int)p->ttl_ms);
    if (p->kind == PART_POP && p->needs > 1) fprintf(to, " of %u", p->needs);
    if (p->status == PART_NOT_RUN) fprintf(to, " (not run)");
    else if (p->status == PART_REFUSED) fprintf(to, " = no memory");
    else if (p->status == PART_ABSENT) fprintf(to, " = nil");
    else if (p->kind == PART_GET || p->kind == PART_POP) fprintf(to, " = %s", p->got.text);
    else if (p->kind != PART_SET) fprintf(to, " = %" PRId64, p->result);
    if (p->at) fprintf(to, " @%" PRIu64, p->at);
    fputc(';', to);
}

static void print_op(const struct op *op, FILE *to) {
    if (op->kind == OP_EXPIRED) fprintf(to, "            ");
    else fprintf(to, "client %u/%u ", op->client, op->conn);
    fprintf(to, "[%5" PRIu64 " ", op->invoked);
    if (op->returned) fprintf(to, "%5" PRIu64 "]", op->returned);
    else fprintf(to, "never]");
    fprintf(to, " at %" PRId64 " ms: %s%s", op->now_ms % 1000000, op_names[op->kind], op->whole ? " (whole database)" : "");
    for (uint32_t i = 0; i < op->n_parts; i++) {
        if (op->parts[i].wave && i && !op->parts[i - 1].wave) fprintf(to, " then");
        print_part(&op->parts[i], to);
    }
    fprintf(to, "%s\n", op->ran ? "" : " (never ran)");
}

static int by_moment(const void *a, const void *b) {
    const struct op *x = *(const struct op *const *)a, *y = *(const struct op *const *)b;
    return x->invoked != y->invoked ? (x->invoked < y->invoked ? -1 : 1) : x < y ? -1 : x > y;
}

void history_print(const struct plan *p, FILE *to) {
    const struct op *ops[OPS_MAX];
    uint32_t n = 0;
    const struct settings *s = &p->settings;
    for (uint32_t i = 0; i < p->n_ops; i++)
        if (p->ops[i].invoked) ops[n++] = &p->ops[i];
    qsort(ops, n, sizeof *ops, by_moment);
    fprintf(to, "%u shards%s%s%s%s; [asked answered], @: when it ran\n", s->shards, s->lend ? ", lending" : "", s->expire ? ", expiry" : "",
        s->refuse ? ", no memory now and then" : "", s->release_late ? ", late release" : "");
    for (uint32_t i = 0; i < n; i++) print_op(ops[i], to);
}
