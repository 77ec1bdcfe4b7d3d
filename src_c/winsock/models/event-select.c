/* event-select.c -- an event for each socket; threads that wait for 63 clients
 * each.
 *
 *     acceptor: accept -> a group with a free place, or a new one -> hand over
 *     group:    WSAWaitForMultipleEvents -> for each that is signalled: take
 *               over / send what is unsent, receive, send -> wait
 *
 * Good: no window and no set to fill: an event says which socket has news,
 *       and WSAEnumNetworkEvents says what it is.
 * Bad:  one wait takes 64 events (WSA_MAXIMUM_WAIT_EVENTS), so that every 63
 *       clients cost a thread: 50 000 of them need 794.
 * Look: the wait tells of the lowest signalled event only. The rest of the
 *       array is asked at once, without waiting: else busy clients at its
 *       beginning would starve the others. As with WSAAsyncSelect, FD_READ
 *       comes again only after recv(), FD_CLOSE once. Since Windows 8 the
 *       thread pool (SetThreadpoolWait) waits for many events in one thread.
 * Needs: Winsock 2.
 * Try:  server.exe event-select with 63, 64, 126, 127 clients: a thread more
 *       for each 63. Linux kin: models/poll-groups.c.
 */
#include "winsock/groups.h"

static void take_over(struct group *group)
{
    for (struct conn *conn; (conn = group_take(group));) {
        DWORD last = group->count - 1;
        if (WSAEventSelect(conn->socket, group->events[last],
                           FD_READ | FD_WRITE | FD_CLOSE) == 0)
            continue; /* and the socket does not block from now on */
        stats_error(WSAGetLastError());
        group_close(group, last);
    }
}

/* Returns whether the client stays. WSAEnumNetworkEvents resets the event. */
static bool serve_client(struct group *group, DWORD event)
{
    struct conn *conn = group->conns[event];
    WSANETWORKEVENTS news;
    if (WSAEnumNetworkEvents(conn->socket, group->events[event], &news)) {
        stats_error(WSAGetLastError());
        group_close(group, event);
        return false;
    }
    conn->ended |= (news.lNetworkEvents & FD_CLOSE) != 0;
    if (conn_advance(conn) != WANT_CLOSE)
        return true;
    group_close(group, event);
    return false;
}

_Noreturn static DWORD WINAPI work(void *argument)
{
    struct group *group = argument;
    for (DWORD event = 0;; event++) {
        event = group_ready(group, event);
        if (event == 0)
            take_over(group);
        else if (!serve_client(group, event))
            event--; /* the last one has its place now */
    }
}

_Noreturn void event_select_run(const struct server *server)
{
    groups_run(server, work, sizeof(struct conn));
}
