/* Sockets before and beside the proactor: opening listening ones, setting options, and naming both ends.
 *
 * Any thread; nothing here waits for the network, but for socket_look_up(). Every descriptor is close-on-exec. Listening sockets are blocking ones: the proactor sets
 * what its back end needs (proactor_listen).
 */
#ifndef IO_SOCKET_H
#define IO_SOCKET_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>

#define SOCKET_NUMBERS_SIZE 16 /* of an IPv4 address: "255.255.255.255" */
#define SOCKET_TEXT_SIZE 128   /* enough for every name below: "[v6%scope]:port", or a path of 107 bytes and ":0" */

/* What socket_listen_tcp() says of an address that may be missing ('-'), and is. No errno. */
#define SOCKET_ABSENT INT_MIN

/* Listens on an address as the configuration names it: IPv4 or IPv6 in numbers, "*" (every IPv4 address) or "::*" (every IPv6
 * address), any of them with a '-' before it: then it is no error if this machine has no such address or protocol. port 0: the system
 * chooses one. IPv6 sockets take no IPv4 connections, so "*" and "::*" stand side by side.
 * Returns the descriptor, SOCKET_ABSENT, or a negative errno: -EINVAL: no such notation; -EADDRINUSE, -EADDRNOTAVAIL, -EACCES as bind(2). */
int socket_listen_tcp(const char *address, uint16_t port, int backlog);

/* The same where listening sockets of this process stand in the way on purpose (127.0.0.1 in that of *, say): it succeeds if
 * socket_share_port() let each of them share its port. Afterwards the caller takes that back, from the new one too. */
int socket_listen_tcp_shared(const char *address, uint16_t port, int backlog);
void socket_share_port(int fd, bool share);

/* Is it one of the notations that socket_listen_tcp() takes (without a '-')? Else it may be a host's name. */
bool socket_is_address(const char *text);
/* Finds the first IPv4 address of a host, as the system's resolver does, which may ask name servers and take seconds. NULL, or what went wrong. */
const char *socket_look_up(const char *name, char out[SOCKET_NUMBERS_SIZE]);

/* Where to connect to: the addresses of a host, in the order in which the system's resolver gives them. */
#define SOCKET_ADDRESSES_MAX 4u
struct socket_addresses {
    uint32_t n;
    socklen_t sizes[SOCKET_ADDRESSES_MAX];
    struct sockaddr_storage at[SOCKET_ADDRESSES_MAX];
};
/* Finds them. waits false: of a host in numbers only, at once; true: of a name too, which may ask name servers and take seconds. False: it has none. */
bool socket_find(const char *host, uint16_t port, bool waits, struct socket_addresses *out);
/* A non-blocking socket for proactor_connect() to such an address. Returns the descriptor, or a negative errno. */
int socket_for(const struct sockaddr_storage *address);

/* Listens on a path. A socket file that is there already is replaced if nobody answers on it, else -EADDRINUSE (-EEXIST: it is no socket).
 * mode: its permission bits, e.g. 0700; 0: as the umask gives. The file stays when the socket is closed. Returns the descriptor, or a
 * negative errno: -ENAMETOOLONG, or as bind(2). */
int socket_listen_unix(const char *path, mode_t mode, int backlog);

/* Options of a connected socket: TCP_NODELAY, and keep-alive probes after keepalive_s seconds of silence (0: none), of which three in a
 * further keepalive_s may be lost. Unix sockets have neither: 0. Returns 0 or a negative errno. */
int socket_tune(int fd, bool nodelay, unsigned keepalive_s);

/* The other end and this end, as text: "1.2.3.4:5", "[::1]:5", or "path:0" of a Unix socket (of the listening side, since the other has
 * none). Returns the length, or a negative errno (and then the text is empty). */
int socket_peer_text(int fd, char text[SOCKET_TEXT_SIZE]);
int socket_local_text(int fd, char text[SOCKET_TEXT_SIZE]);

/* Did the connection come from this machine (127/8, ::1, a Unix socket)? False too if it cannot be told. */
bool socket_is_loopback(int fd);

#endif
