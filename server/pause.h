/* CLIENT PAUSE: for a time no command is begun that would write, or none at all.
 *
 * Each thread has a pause of its own, which begins and ends by a piece there (or when its time is over): from then on its connections wait where they
 * meet such a command, at dispatch. CLIENT PAUSE is answered once all threads do so and what was dispatched before is through (task.c, CMD_SETTLES), so after its
 * answer nothing changes on any shard. The shard meanwhile hides keys that are past their time, and deletes none.
 */
#ifndef SERVER_PAUSE_H
#define SERVER_PAUSE_H

#include "server/conn.h"
#include "shard/hop.h"

/* While there is a pause: must a command with these flags wait? Then the connection does, until the pause ends. */
bool pause_holds(struct thread *t, struct conn *c, uint32_t flags);
/* The thread holds its shard. */
void pause_end(struct thread *t);
/* The connection ends. */
void pause_forget(struct thread *t, struct conn *c);

hop_fn client_pause_piece, client_unpause_piece;

#endif
