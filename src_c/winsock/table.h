/* table.h -- finds a connection by its socket.
 *
 * select() and WSAAsyncSelect answer with a SOCKET, which is a handle: a
 * number, but not a small one that an array could be indexed with.
 */
#ifndef WINSOCK_TABLE_H
#define WINSOCK_TABLE_H

#include "winsock/conn.h"

enum { TABLE_ROWS = 1 << 14 };

struct table {
    struct conn *rows[TABLE_ROWS]; /* linked by conn->next */
};

/* Handles are multiples of four. */
static inline struct conn **table_row(struct table *table, SOCKET socket)
{
    return &table->rows[socket / 4 % TABLE_ROWS];
}

static inline void table_add(struct table *table, struct conn *conn)
{
    struct conn **row = table_row(table, conn->socket);
    conn->next = *row;
    *row = conn;
}

/* The connection of a socket, or NULL. */
static inline struct conn *table_find(struct table *table, SOCKET socket)
{
    struct conn *conn = *table_row(table, socket);
    while (conn && conn->socket != socket)
        conn = conn->next;
    return conn;
}

static inline void table_drop(struct table *table, const struct conn *conn)
{
    struct conn **at = table_row(table, conn->socket);
    while (*at != conn)
        at = &(*at)->next;
    *at = conn->next;
}

#endif
