/* iocp.c -- operations that Windows completes into one queue, and a few threads
 * that take from it.
 *
 *     acceptor: accept -> bind to the port -> begin to receive -> accept
 *     worker:   GetQueuedCompletionStatus -> what was received or sent?
 *               -> begin the next -> queue
 *
 * Good: any number of clients and any number of threads: a completion wakes one
 *       of them, the one that slept last. Windows lets as many run as the port
 *       was made for, and one more when one of them blocks elsewhere.
 * Bad:  every operation allocates in the kernel, and what it points at belongs
 *       to Windows until it completes.
 * Look: a client has one operation under way, so that one worker at a time has
 *       it: no lock. A posted receive locks the pages of its buffer, 4 KiB for
 *       each client here; servers that hold many idle ones post receives of
 *       zero bytes instead, and receive when these complete. A send without
 *       limit, to a client that does not read, would lock the rest.
 * Needs: Windows NT 3.5; no other model was made for many clients.
 * Try:  server.exe iocp --workers 1, 2, 8. Linux kin: models/uring.c, and for
 *       the queue that threads share models/epoll-pool.c.
 */
#include "winsock/operation.h"

struct worker {
    HANDLE port;
    unsigned number;
};

_Noreturn static DWORD WINAPI work(void *argument)
{
    const struct worker *worker = argument;
    for (;;) {
        DWORD n;
        ULONG_PTR key;
        OVERLAPPED *overlapped;
        bool done = GetQueuedCompletionStatus(worker->port, &n, &key,
                                              &overlapped, INFINITE);
        if (!overlapped) { /* nothing was taken from the queue */
            net_wait_failed("GetQueuedCompletionStatus");
            continue;
        }
        struct operation *operation = (struct operation *)key;
        operation->conn.worker = worker->number;
        enum want want =
            operation_ended(operation, done ? (int)n : SOCKET_ERROR);
        if (!operation_begin(operation, want))
            conn_close(&operation->conn);
    }
}

/* Once an operation has begun, the client is the workers'. */
static void serve(HANDLE port, SOCKET client)
{
    struct conn *conn = conn_open(client, sizeof(struct operation));
    if (!conn)
        return;
    struct operation *operation = (struct operation *)conn;
    bool bound = CreateIoCompletionPort((HANDLE)client, port,
                                        (ULONG_PTR)operation, 0) != NULL;
    if (!bound)
        stats_error(WSAGetLastError());
    if (!bound || !operation_begin(operation, WANT_READ))
        conn_close(conn);
}

static HANDLE start_workers(unsigned count)
{
    static struct worker workers[STATS_WORKERS];
    HANDLE port = CreateIoCompletionPort(INVALID_HANDLE_VALUE, NULL, 0, count);
    if (!port)
        net_die("CreateIoCompletionPort");
    for (unsigned i = 0; i < count; i++) {
        workers[i] = (struct worker){port, i};
        if (!CreateThread(NULL, 0, work, &workers[i], 0, NULL))
            net_die("CreateThread");
        stats_worker_started();
    }
    return port;
}

_Noreturn void iocp_run(const struct server *server)
{
    HANDLE port = start_workers(server->workers);
    for (;;) {
        SOCKET client = net_accept(server->listener);
        if (client != INVALID_SOCKET)
            serve(port, client);
    }
}
