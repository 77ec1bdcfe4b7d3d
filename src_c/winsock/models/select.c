/* select.c -- one thread, and sets of sockets that are filled for each call.
 *
 *     fill two sets -> select -> for each socket left in them: accept /
 *                                send what is unsent, receive, send -> fill
 *
 * Good: in every Winsock since 1.1, and almost the same in BSD sockets.
 * Bad:  the sets are filled, checked and searched in every round, however few
 *       sockets are active: a round costs what is connected.
 * Look: an fd_set of Windows is no bitmap but an array of SOCKETs and a count,
 *       so FD_SETSIZE counts sockets. It is 64 unless a program defines it
 *       before winsock2.h, as this one does; a socket too many is refused and
 *       counted, since FD_SET would leave it out without a word. FD_ISSET
 *       searches the array: asking it for each client costs the square of
 *       them, so the sets that come back are walked, with a table that finds
 *       the client of a socket. (The first argument of select is ignored.)
 * Needs: Winsock 1.1.
 * Try:  server.exe select --fd-setsize 64: the 64th client is refused.
 *       Linux kin: models/select.c.
 */
#include "winsock/models/select.h"

#define FD_SETSIZE SELECT_PLACES
#include "winsock/table.h"

enum { ACCEPTED_A_ROUND = 64 };

struct watch {
    SOCKET listener;
    unsigned places; /* that may be used in a set */
    unsigned count;  /* of sockets, the listener's included */
    struct table table;
    fd_set in, out;
};

/* A client is in one set only: nothing is received from it while something is
 * unsent. */
static void fill_sets(struct watch *watch)
{
    FD_ZERO(&watch->in);
    FD_ZERO(&watch->out);
    watch->in.fd_array[watch->in.fd_count++] = watch->listener;
    for (unsigned row = 0; row < TABLE_ROWS; row++)
        for (struct conn *c = watch->table.rows[row]; c; c = c->next) {
            fd_set *set = c->start < c->end ? &watch->out : &watch->in;
            set->fd_array[set->fd_count++] = c->socket;
        }
}

/* Returns whether more may wait. */
static bool accept_client(struct watch *watch)
{
    SOCKET client = net_accept(watch->listener);
    if (client == INVALID_SOCKET)
        return false;
    if (watch->count == watch->places) {
        net_refuse(client, REFUSED_FDSETSIZE);
        return true;
    }
    net_do_not_block(client);
    struct conn *conn = conn_open(client, sizeof *conn);
    if (conn) {
        table_add(&watch->table, conn);
        watch->count++;
    }
    return true;
}

/* Several in a round, which costs more the more are connected; not all, since
 * those who are connected wait meanwhile. */
static void accept_clients(struct watch *watch)
{
    for (int n = 0; n < ACCEPTED_A_ROUND && accept_client(watch); n++)
        continue;
}

static void serve_client(struct watch *watch, struct conn *conn)
{
    if (conn_advance(conn) != WANT_CLOSE)
        return;
    table_drop(&watch->table, conn);
    watch->count--;
    conn_close(conn);
}

static void serve_set(struct watch *watch, const fd_set *set)
{
    for (u_int i = 0; i < set->fd_count; i++)
        if (set->fd_array[i] == watch->listener)
            accept_clients(watch);
        else
            serve_client(watch, table_find(&watch->table, set->fd_array[i]));
}

_Noreturn void select_run(const struct server *server)
{
    static struct watch watch = {.count = 1};
    unsigned asked = server->options.fd_setsize;
    watch.listener = server->listener;
    watch.places = asked ? asked : SELECT_PLACES;
    net_do_not_block(server->listener);
    for (;;) {
        fill_sets(&watch);
        if (select(0, &watch.in, &watch.out, NULL, NULL) == SOCKET_ERROR) {
            net_wait_failed("select");
            continue;
        }
        serve_set(&watch, &watch.out);
        serve_set(&watch, &watch.in);
    }
}
