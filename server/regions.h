/* Regions of the shards' memory, mapped and given back by the main thread, which has nothing else to do: both take up to milliseconds, and
 * nobody's command should wait for that. A shard that is faster than the main thread maps for itself; but for slices of long commands, which can wait.
 *
 * Each thread has one word (thread->region), whose states and legal moves are:
 *
 *   NULL ----(its thread: a region will be needed)----> REGION_ASKED ----(main thread: mapped)----> a region ----(its thread: took it)----> NULL
 *                                                            `--------(main thread: refused)-------------------------------------------> NULL
 *
 * What is given back, regions and large blocks that were mapped on their own, is a stack through its own memory, pushed by any thread, taken as a whole
 * by the main thread.
 */
#ifndef SERVER_REGIONS_H
#define SERVER_REGIONS_H

#include <stdbool.h>
#include <stddef.h>

struct memory;
struct server;
struct thread;

#define REGION_ASKED ((void *)1)

/* Main thread, before the others start. wake_fd: an eventfd that it waits for. */
void regions_start(int wake_fd);
/* Main thread, whenever it was woken. */
void regions_serve(struct server *s);

/* Once a turn: asks for a region or takes it, and hands over those that are too many. */
void regions_look(struct thread *t);
/* Whether slices of long commands, one of which writes, wait (those that read beside it, too), as the shard's memory runs short and the main thread prepares a region, which it asks for. It wakes the thread. */
bool regions_wait(struct thread *t);
/* The slices that waited have gone otherwise, if there were any: a standstill runs them out. What was asked for comes all the same. */
void regions_wait_no_more(struct thread *t);
/* After sleep was announced: whether what the thread waits for has come. */
bool regions_arrived(struct thread *t);
/* Any thread. block: begins with a page, and is a mapping that memory_unmap may be asked for; size is rounded up to whole pages. */
void regions_give_back(void *block, size_t size);
/* Room for something large, for a while: 1 MiB and more are whole pages, mapped at once and given back to the main thread; less is the heap's. NULL: no memory.
 * Any thread; to be freed with its size, on any; NULL may be, too. Blocks of growing_resize() are such room. */
void *regions_room(size_t size);
void regions_free_room(void *room, size_t size);
/* Who holds the shard. Hands over one block that its memory has too many; legal if memory_wants_trim. */
void regions_give_back_spare(struct memory *m);

#endif
