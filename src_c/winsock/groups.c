/* groups.c -- see groups.h. */
#include "winsock/groups.h"

#include <stdlib.h>

/* Of the acceptor; only `clients` and what is given are others' as well. */
static struct group *groups;

static struct group *group_start(LPTHREAD_START_ROUTINE work)
{
    struct group *group = calloc(1, sizeof *group);
    WSAEVENT event = group ? WSACreateEvent() : WSA_INVALID_EVENT;
    if (event == WSA_INVALID_EVENT) {
        free(group);
        return NULL;
    }
    group->events[group->count++] = event;
    HANDLE thread = CreateThread(NULL, 0, work, group, 0, NULL);
    if (!thread) {
        WSACloseEvent(event);
        free(group);
        return NULL;
    }
    CloseHandle(thread);
    stats_worker_started();
    group->next = groups;
    groups = group;
    return group;
}

static struct group *group_find(LPTHREAD_START_ROUTINE work)
{
    struct group *group = groups;
    while (group && group->clients == GROUP_CLIENTS)
        group = group->next;
    return group ? group : group_start(work);
}

static void group_give(struct group *group, struct conn *conn)
{
    InterlockedIncrement(&group->clients);
    AcquireSRWLockExclusive(&group->lock);
    conn->next = group->given;
    group->given = conn;
    ReleaseSRWLockExclusive(&group->lock);
    WSASetEvent(group->events[0]);
}

_Noreturn void groups_run(const struct server *server,
                          LPTHREAD_START_ROUTINE work, size_t size)
{
    for (;;) {
        SOCKET client = net_accept(server->listener);
        if (client == INVALID_SOCKET)
            continue;
        struct group *group = group_find(work);
        struct conn *conn = group ? conn_open(client, size) : NULL;
        if (conn)
            group_give(group, conn);
        else if (!group)
            net_refuse(client, REFUSED_THREADS);
    }
}

/* --- in a group's thread ---------------------------------------------- */

static DWORD group_wait(struct group *group, DWORD from, DWORD timeout_ms)
{
    return WSAWaitForMultipleEvents(group->count - from, group->events + from,
                                    FALSE, timeout_ms, FALSE);
}

DWORD group_ready(struct group *group, DWORD from)
{
    DWORD first = WSA_WAIT_TIMEOUT;
    if (from < group->count)
        first = group_wait(group, from, 0);
    if (first == WSA_WAIT_TIMEOUT) {
        from = 0;
        first = group_wait(group, 0, WSA_INFINITE);
    }
    if (first == WSA_WAIT_FAILED) {
        net_wait_failed("WSAWaitForMultipleEvents");
        return 0; /* it does no harm to look whether somebody was given */
    }
    return from + first - WSA_WAIT_EVENT_0;
}

static struct conn *group_next_given(struct group *group)
{
    AcquireSRWLockExclusive(&group->lock);
    struct conn *conn = group->given;
    if (conn)
        group->given = conn->next;
    else
        WSAResetEvent(group->events[0]);
    ReleaseSRWLockExclusive(&group->lock);
    return conn;
}

struct conn *group_take(struct group *group)
{
    for (struct conn *conn; (conn = group_next_given(group));) {
        WSAEVENT event = WSACreateEvent();
        if (event != WSA_INVALID_EVENT) {
            group->conns[group->count] = conn;
            group->events[group->count++] = event;
            return conn;
        }
        stats_error(WSAGetLastError());
        conn_close(conn);
        InterlockedDecrement(&group->clients);
    }
    return NULL;
}

void group_close(struct group *group, DWORD event)
{
    conn_close(group->conns[event]);
    WSACloseEvent(group->events[event]);
    group->count--;
    group->conns[event] = group->conns[group->count];
    group->events[event] = group->events[group->count];
    InterlockedDecrement(&group->clients);
}
