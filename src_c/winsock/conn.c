/* conn.c -- see conn.h. */
#include "winsock/conn.h"

#include <stdlib.h>

struct conn *conn_new(SOCKET socket, size_t size)
{
    struct conn *conn = calloc(1, size);
    if (conn)
        conn->socket = socket;
    else
        net_refuse(socket, REFUSED_MEMORY);
    return conn;
}

struct conn *conn_open(SOCKET socket, size_t size)
{
    struct conn *conn = conn_new(socket, size);
    if (conn)
        stats_opened();
    return conn;
}

void conn_refuse(struct conn *conn, enum refusal reason)
{
    net_refuse(conn->socket, reason);
    free(conn);
}

void conn_close(struct conn *conn)
{
    closesocket(conn->socket);
    stats_closed();
    free(conn);
}

enum want conn_received(struct conn *conn, int n)
{
    if (n == SOCKET_ERROR)
        stats_error(WSAGetLastError());
    if (n <= 0)
        return WANT_CLOSE;
    stats_received(conn->worker, (unsigned)n);
    conn->start = 0;
    conn->end = (unsigned)n;
    return WANT_WRITE;
}

enum want conn_sent(struct conn *conn, int n)
{
    if (n == SOCKET_ERROR) {
        stats_error(WSAGetLastError());
        return WANT_CLOSE;
    }
    stats_sent(conn->worker, (unsigned)n);
    conn->start += (unsigned)n;
    return conn->start < conn->end ? WANT_WRITE : WANT_READ;
}

static bool would_block(int n)
{
    return n == SOCKET_ERROR && WSAGetLastError() == WSAEWOULDBLOCK;
}

/* Sends until nothing is unsent. WANT_WRITE: the send buffer is full. */
static enum want conn_send(struct conn *conn)
{
    enum want want = WANT_WRITE;
    while (want == WANT_WRITE) {
        int n = send(conn->socket, conn->buffer + conn->start,
                     (int)(conn->end - conn->start), 0);
        if (would_block(n))
            break;
        want = conn_sent(conn, n);
    }
    return want;
}

enum want conn_advance(struct conn *conn)
{
    enum want want = WANT_READ;
    if (conn->start < conn->end)
        want = conn_send(conn);
    while (want == WANT_READ) {
        int n = recv(conn->socket, conn->buffer, CONN_BYTES, 0);
        if (would_block(n))
            break;
        want = conn_received(conn, n);
        if (want == WANT_WRITE)
            want = conn_send(conn);
        if (!conn->ended)
            break;
    }
    return want;
}
