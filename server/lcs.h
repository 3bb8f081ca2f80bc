/* LCS: the longest common subsequence of two strings. */
#ifndef SERVER_LCS_H
#define SERVER_LCS_H

#include "server/command.h"

spread_fn lcs;

#endif
