/* groups.h -- threads that wait for 63 clients each.
 *
 * WSAWaitForMultipleEvents() takes 64 events at most
 * (WSA_MAXIMUM_WAIT_EVENTS). In each group the first says that the acceptor has
 * handed over clients, the others are a client's each. Only the group's thread
 * touches its clients: an overlapped operation ends with the thread that began
 * it. A group that falls empty keeps its thread and takes the next clients.
 */
#ifndef WINSOCK_GROUPS_H
#define WINSOCK_GROUPS_H

#include "winsock/conn.h"

enum { GROUP_CLIENTS = WSA_MAXIMUM_WAIT_EVENTS - 1 };

struct group {
    DWORD count; /* of events */
    WSAEVENT events[WSA_MAXIMUM_WAIT_EVENTS];
    struct conn *conns[WSA_MAXIMUM_WAIT_EVENTS]; /* [0]: none */
    volatile LONG clients; /* given to it and not yet closed */
    SRWLOCK lock;
    struct conn *given; /* under the lock: linked by conn->next */
    struct group *next;
};

/* Accepts for ever; hands clients over to the first group with a free place,
 * or to a new one, whose thread runs `work` with the struct group *. A client
 * is a zeroed struct of `size` bytes that begins with a struct conn. */
_Noreturn void groups_run(const struct server *server,
                          LPTHREAD_START_ROUTINE work, size_t size);

/* The first event that is signalled from number `from` on; if there is none,
 * waits for the first of all. (Waiting for all each time would tell of the
 * lowest one, and busy clients would hold up those behind them.) */
DWORD group_ready(struct group *group, DWORD from);

/* Takes over the next client that was given: it has the last event. NULL: there
 * is no more. */
struct conn *group_take(struct group *group);

/* Closes the client of an event. The last event moves to its place. */
void group_close(struct group *group, DWORD event);

#endif
