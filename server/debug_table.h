/* DEBUG HTSTATS and HTSTATS-KEY: what a table looks like inside. */
#ifndef SERVER_DEBUG_TABLE_H
#define SERVER_DEBUG_TABLE_H

#include "server/command.h"

hop_fn debug_htstats, debug_htstats_key;
merge_fn debug_htstats_merge;

#endif
