/* Regions of the shards' memory, mapped and given back by the main thread, which has nothing else to do: both take up to milliseconds, and
 * nobody's command should wait for that. A shard that is faster than the main thread maps for itself.
 *
 * Each thread has one word (thread->region), whose states and legal moves are:
 *
 *   NULL ----(its thread: a region will be needed)----> REGION_ASKED ----(main thread: mapped)----> a region ----(its thread: took it)----> NULL
 *                                                            `--------(main thread: refused)-------------------------------------------> NULL
 *
 * Regions to give back are a stack through their own memory, pushed by any thread, taken as a whole by the main thread.
 */
#ifndef SERVER_REGIONS_H
#define SERVER_REGIONS_H

struct server;
struct thread;

#define REGION_ASKED ((void *)1)

/* Main thread, before the others start. wake_fd: an eventfd that it waits for. */
void regions_start(int wake_fd);
/* Main thread, whenever it was woken. */
void regions_serve(struct server *s);

/* Once a turn: asks for a region or takes it, and hands over those that are too many. */
void regions_look(struct thread *t);
/* Any thread. region: from memory_take_spare. */
void regions_give_back(void *region);

#endif
