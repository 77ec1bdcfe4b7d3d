/* overlapped.c -- operations that Windows completes, with an event for each;
 * threads that wait for 63 clients each.
 *
 *     acceptor: accept -> a group with a free place, or a new one -> hand over
 *     group:    WSAWaitForMultipleEvents -> for each that is signalled: take
 *               over / what was received or sent? -> begin the next -> wait
 *
 * Good: bytes are where they belong when the thread wakes: no call that only
 *       asks, and none that says WSAEWOULDBLOCK.
 * Bad:  one wait takes 64 events (WSA_MAXIMUM_WAIT_EVENTS), so that every 63
 *       clients cost a thread, as in event-select.
 * Look: a posted receive locks the pages of its buffer, idle client or not;
 *       the limit of locked pages, and with it WSAENOBUFS, is the API's bound
 *       on clients. Operations belong to the thread that began them: they are
 *       cancelled when it ends.
 * Needs: Winsock 2.
 * Try:  compare with event-select: the same threads, other calls. Linux kin:
 *       io_uring's completions (models/uring.c) in models/poll-groups.c.
 */
#include "winsock/groups.h"
#include "winsock/operation.h"

static void take_over(struct group *group)
{
    for (struct conn *conn; (conn = group_take(group));) {
        struct operation *operation = (struct operation *)conn;
        operation->overlapped.hEvent = group->events[group->count - 1];
        if (!operation_begin(operation, WANT_READ))
            group_close(group, group->count - 1);
    }
}

/* Returns whether the client stays. */
static bool serve_client(struct group *group, DWORD event)
{
    struct operation *operation = (struct operation *)group->conns[event];
    DWORD n, flags;
    WSAResetEvent(group->events[event]);
    bool done = WSAGetOverlappedResult(
        operation->conn.socket, &operation->overlapped, &n, FALSE, &flags);
    enum want want = operation_ended(operation, done ? (int)n : SOCKET_ERROR);
    if (operation_begin(operation, want))
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

_Noreturn void overlapped_run(const struct server *server)
{
    groups_run(server, work, sizeof(struct operation));
}
