/* operation.h -- overlapped I/O: a receive or a send that Windows completes.
 *
 * A client has one operation under way at any time, the send of what is unsent
 * or else a receive, so that as many operations are outstanding as there are
 * clients, whatever these do. Meanwhile the struct and its buffer are Windows'.
 */
#ifndef WINSOCK_OPERATION_H
#define WINSOCK_OPERATION_H

#include "winsock/conn.h"

struct operation {
    struct conn conn;
    WSAOVERLAPPED overlapped; /* its hEvent is signalled at the end, if any */
};

/* Begins what the client wants next, WANT_READ or WANT_WRITE. It completes
 * later, even if it was done at once. False: it could not begin, which is
 * counted, or WANT_CLOSE is wanted; then the client is to be closed. */
bool operation_begin(struct operation *operation, enum want want);

/* What is wanted after an operation that moved n bytes, or SOCKET_ERROR with
 * WSAGetLastError(). */
enum want operation_ended(struct operation *operation, int n);

#endif
