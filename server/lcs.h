/* LCS: the longest common subsequence of two strings. */
#ifndef SERVER_LCS_H
#define SERVER_LCS_H

#include "server/command.h"

spread_fn lcs; /* looks, and replies at once or leaves the work in h->state */
hop_fn lcs_slice;
hop_drop_fn lcs_drop;

#endif
