/* CLIENT's subcommands that look at other connections: LIST, INFO, KILL, UNBLOCK, NO-EVICT, GETREDIR.
 *
 * Connections belong to their threads, so each thread does its part, as a piece on its shard; LIST, KILL and UNBLOCK go on in slices.
 */
#ifndef SERVER_CLIENTS_H
#define SERVER_CLIENTS_H

#include "server/command.h"

connection_fn client_info, client_no_evict, client_getredir;
hop_fn client_list_piece, client_kill_piece, client_unblock_piece;
hop_drop_fn client_search_drop; /* of LIST and KILL */
merge_fn client_kill_merge;

#endif
