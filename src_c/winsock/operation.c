/* operation.c -- see operation.h. */
#include "winsock/operation.h"

static int begin_receive(struct operation *operation)
{
    struct conn *conn = &operation->conn;
    WSABUF buffer = {.buf = conn->buffer, .len = CONN_BYTES};
    DWORD flags = 0;
    return WSARecv(conn->socket, &buffer, 1, NULL, &flags,
                   &operation->overlapped, NULL);
}

static int begin_send(struct operation *operation)
{
    struct conn *conn = &operation->conn;
    WSABUF buffer = {.buf = conn->buffer + conn->start,
                     .len = conn->end - conn->start};
    return WSASend(conn->socket, &buffer, 1, NULL, 0, &operation->overlapped,
                   NULL);
}

bool operation_begin(struct operation *operation, enum want want)
{
    if (want == WANT_CLOSE)
        return false;
    int failed =
        want == WANT_WRITE ? begin_send(operation) : begin_receive(operation);
    int error = failed ? WSAGetLastError() : 0;
    if (!failed || error == WSA_IO_PENDING)
        return true;
    stats_error(error);
    return false;
}

enum want operation_ended(struct operation *operation, int n)
{
    struct conn *conn = &operation->conn;
    return conn->start < conn->end ? conn_sent(conn, n)
                                   : conn_received(conn, n);
}
