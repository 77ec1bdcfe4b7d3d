/* conn.h -- one client: its socket, and the bytes that are to go back to it.
 *
 * Nothing is received while something is unsent. That is all there is to
 * backpressure: a client that does not read is not read from.
 */
#ifndef WINSOCK_CONN_H
#define WINSOCK_CONN_H

#include "winsock/net.h"

/* A page: a posted receive locks all those that its buffer touches. */
enum { CONN_BYTES = 4096 };

struct conn {
    SOCKET socket;
    unsigned worker;     /* whose statistics count it */
    unsigned start, end; /* of what is unsent, in buffer */
    bool ended;          /* by FD_CLOSE: what is left to receive is last */
    struct conn *next;   /* for its owner */
    char buffer[CONN_BYTES];
};

enum want { WANT_READ, WANT_WRITE, WANT_CLOSE };

/* The first member of a zeroed struct of `size` bytes, or NULL: then the client
 * was refused. conn_open() counts it as let in as well. */
struct conn *conn_new(SOCKET socket, size_t size);
struct conn *conn_open(SOCKET socket, size_t size);

/* Closes the socket and frees what conn_new() or conn_open() returned. */
void conn_refuse(struct conn *conn, enum refusal reason);
void conn_close(struct conn *conn);

/* How a receive or a send ended: bytes, 0 for the end of what the client sends,
 * or SOCKET_ERROR with WSAGetLastError(), which is counted. Returns what is
 * wanted next. */
enum want conn_received(struct conn *conn, int n);
enum want conn_sent(struct conn *conn, int n);

/* With a socket that does not block: sends what is unsent, receives once, and
 * sends that. If the client has ended, goes on until nothing is left. Whatever
 * it did not finish ended in WSAEWOULDBLOCK, so that Winsock tells again when
 * there is more to do. Returns what to wait for. */
enum want conn_advance(struct conn *conn);

#endif
