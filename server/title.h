/* The title of the process: what ps, top and /proc/PID/cmdline show in the place of the arguments (set-proc-title, proc-title-template).
 *
 * The kernel shows the memory where the arguments were, and the environment behind them; so the title is written there, as long as there is room, and
 * the environment moves. The name of the program (comm: pidof, pgrep) stays.
 */
#ifndef SERVER_TITLE_H
#define SERVER_TITLE_H

#include <stdbool.h>

struct config;

/* Once, in main, when the arguments have been read; they are gone afterwards. argv[0] is the {title}. Nothing happens if memory is refused. */
void title_take_memory(int argc, char **argv);
/* Whether c's template has known variables only, and shows something even without the program's name. */
bool title_is_good(const struct config *c);
/* Shows what c says. Main thread at start, then the coordinator of a CONFIG SET. */
void title_show(const struct config *c);

#endif
