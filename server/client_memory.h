#ifndef DARTER_CLIENT_MEMORY_H
#define DARTER_CLIENT_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* maxmemory-clients: a bound on the bytes that all clients together hold; above it the largest is closed first.
 *
 * The sum is one atomic number for all threads. A client belongs to its thread, which keeps its clients in lists by size class (powers of two),
 * and publishes the highest class that has a client. Only a thread that has clients of the highest class of all closes one; another wakes that
 * thread instead, which looks at the sum in each of its turns. So a small client never goes because a large one is on another thread.
 *
 * Order: a class is published before its bytes join the sum, and bytes leave the sum before their class does. Whoever finds the sum too high,
 * then no class above its own, and then the sum still too high has therefore not missed a larger client (unless that came in between).
 */
struct thread;
struct conn;

#define CLIENT_SIZE_CLASSES 64

/* A thread's. All functions run on that thread. */
struct client_memory {
    uint64_t max;     /* bytes; 0: no limit, and nothing is counted */
    uint64_t classes; /* bit map of those that have clients */
    struct conn *lists[CLIENT_SIZE_CLASSES];
    _Atomic uint32_t largest; /* the highest class + 1, or 0; others read it */
};

/* Takes the limit that is in force now. O(connections of the thread) if it is another one. */
void client_memory_take_limit(struct thread *t);
/* Counts a connection anew, if there is a limit; then as client_memory_keep_limit(). */
void client_memory_count(struct thread *t, struct conn *c);
/* A connection ends: it counts for nothing from here on. */
void client_memory_forget(struct thread *t, struct conn *c);
/* Closes the largest clients while all together hold too much and they are this thread's, or wakes the thread whose they are. */
void client_memory_keep_limit(struct thread *t);
/* Whether that would do something: asked before the thread sleeps. */
bool client_memory_must_act(struct thread *t);

#endif
