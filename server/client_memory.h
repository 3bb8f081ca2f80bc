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
struct reply;
struct note;

#define CLIENT_SIZE_CLASSES 64

/* What shards hold for a client's commands that go on in slices, or wait: bytes of the replies that are being made, those that they refer to, and what else the commands
 * need. Whoever holds the shard adds to it, by what was counted for the one command; the client's thread reads it. */
struct aside {
    _Atomic uint64_t replies, refs, held;
};
struct aside_count {
    uint64_t replies, refs, held;
};

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
/* On t, which holds the shard: a command of c, which is under way, has this reply by now (or NULL), and holds so much besides. counted is the command's, all 0 at first. If that has
 * become a good deal more, and there is a limit, c's thread is told, and looks at its limits. Never fails. */
void client_memory_aside(struct thread *t, struct conn *c, struct aside_count *counted, const struct reply *r, uint64_t held);
/* The command's reply is the connection's, or dropped. On c's thread, or whoever has the command. */
void client_memory_forget_aside(struct conn *c, struct aside_count *counted);
/* MESSAGE_ASIDE. Frees it. */
void client_memory_aside_message(struct thread *t, struct note *n);
/* Whether that would do something: asked before the thread sleeps. */
bool client_memory_must_act(struct thread *t);

#endif
