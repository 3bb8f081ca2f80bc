/* LCS: the longest common subsequence of two strings. */
#ifndef SERVER_LCS_H
#define SERVER_LCS_H

#include "server/command.h"

spread_fn lcs; /* looks, and replies at once or leaves the work in h->state */
/* The same with the values (NULL: no such key). lent: they are copies by entry_lend(); if there is work left in h->state, it has their blobs. */
void lcs_begin(struct hop *h, struct entry *const entries[2], bool lent, struct reply *r);
hop_fn lcs_slice;
hop_drop_fn lcs_drop;

#endif
