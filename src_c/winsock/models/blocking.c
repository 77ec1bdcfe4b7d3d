/* blocking.c -- two threads for every connection: one receives, one sends.
 *
 *     acceptor: accept -> CreateThread, twice -> accept
 *     receiver: recv -> into the ring -> recv
 *     sender:   wait for the ring -> send -> wait
 *
 * Good: each is code for one client; the receiver goes on while the sender
 *       waits for a client that takes its time, until the ring is full.
 * Bad:  two stacks and two threads for each client, and a switch between them
 *       for every message.
 * Look: CreateThread reserves 1 MiB of address space for a stack (the linker's
 *       /STACK). A 32-bit process has 2 GiB of it, so about 2000 threads, which
 *       are 1000 connections, fill it, however much memory there is. A
 *       64-bit process has 8 TiB, 128 since Windows 8.1, and meets the commit
 *       limit first: a stack's touched pages, its kernel stack, and its TEB.
 * Needs: Windows Vista (SRWLOCK, CONDITION_VARIABLE).
 * Try:  server.exe blocking, then count the threads in Task Manager's details;
 *       Linux kin: models/thread-pair.c.
 */
#include "winsock/conn.h"

/* The connection's buffer is a ring: byte i of the stream lies at i modulo its
 * length. What was received but not sent waits in it. */
struct pair {
    struct conn conn;
    SRWLOCK lock;
    CONDITION_VARIABLE filled, drained;
    uint64_t received, sent;
    bool ended;            /* the receiver has left */
    bool broken;           /* the sender has left */
    bool refused;          /* one of its threads could not be started */
    volatile LONG threads; /* that use the pair */
};

static unsigned pair_to_edge(uint64_t at, uint64_t bytes)
{
    unsigned edge = CONN_BYTES - (unsigned)(at % CONN_BYTES);
    return bytes < edge ? (unsigned)bytes : edge;
}

/* Whoever is last. */
static void pair_leave(struct pair *pair)
{
    if (InterlockedDecrement(&pair->threads) > 0)
        return;
    if (pair->refused)
        conn_refuse(&pair->conn, REFUSED_THREADS);
    else
        conn_close(&pair->conn);
}

/* Room for bytes in one piece; 0: nobody would send them. */
static unsigned pair_await_room(struct pair *pair)
{
    AcquireSRWLockExclusive(&pair->lock);
    while (pair->received - pair->sent == CONN_BYTES && !pair->broken)
        SleepConditionVariableSRW(&pair->drained, &pair->lock, INFINITE, 0);
    unsigned room = pair_to_edge(pair->received,
                                 CONN_BYTES - (pair->received - pair->sent));
    bool broken = pair->broken;
    ReleaseSRWLockExclusive(&pair->lock);
    return broken ? 0 : room;
}

/* Bytes that wait in one piece; 0: there will be no more. */
static unsigned pair_await_bytes(struct pair *pair)
{
    AcquireSRWLockExclusive(&pair->lock);
    while (pair->received == pair->sent && !pair->ended)
        SleepConditionVariableSRW(&pair->filled, &pair->lock, INFINITE, 0);
    unsigned bytes = pair_to_edge(pair->sent, pair->received - pair->sent);
    ReleaseSRWLockExclusive(&pair->lock);
    return bytes;
}

/* n <= 0: nothing more comes. */
static void pair_received(struct pair *pair, int n)
{
    AcquireSRWLockExclusive(&pair->lock);
    if (n > 0)
        pair->received += (unsigned)n;
    else
        pair->ended = true;
    ReleaseSRWLockExclusive(&pair->lock);
    WakeConditionVariable(&pair->filled);
}

/* n <= 0: nothing more can be sent, and the receiver, which may wait for the
 * client or for room, is woken to leave. */
static void pair_sent(struct pair *pair, int n)
{
    AcquireSRWLockExclusive(&pair->lock);
    if (n > 0)
        pair->sent += (unsigned)n;
    else
        pair->broken = true;
    ReleaseSRWLockExclusive(&pair->lock);
    WakeConditionVariable(&pair->drained);
    if (n <= 0)
        shutdown(pair->conn.socket, SD_BOTH);
}

static DWORD WINAPI receive_all(void *argument)
{
    struct pair *pair = argument;
    struct conn *conn = &pair->conn;
    int n = 1;
    stats_opened();
    for (unsigned room; n > 0 && (room = pair_await_room(pair)) > 0;) {
        n = recv(conn->socket, conn->buffer + pair->received % CONN_BYTES,
                 (int)room, 0);
        if (n > 0)
            stats_received(0, (unsigned)n);
        else if (n == SOCKET_ERROR && !pair->broken)
            stats_error(WSAGetLastError());
        pair_received(pair, n);
    }
    pair_leave(pair);
    return 0;
}

static DWORD WINAPI send_all(void *argument)
{
    struct pair *pair = argument;
    struct conn *conn = &pair->conn;
    int n = 1;
    for (unsigned bytes; n > 0 && (bytes = pair_await_bytes(pair)) > 0;) {
        n = send(conn->socket, conn->buffer + pair->sent % CONN_BYTES,
                 (int)bytes, 0);
        if (n > 0)
            stats_sent(0, (unsigned)n);
        else if (!pair->ended)
            stats_error(WSAGetLastError());
        pair_sent(pair, n);
    }
    pair_leave(pair);
    return 0;
}

static bool start_thread(LPTHREAD_START_ROUTINE work, struct pair *pair)
{
    HANDLE thread = CreateThread(NULL, 0, work, pair, 0, NULL);
    if (!thread)
        return false;
    CloseHandle(thread);
    stats_worker_started();
    return true;
}

/* A sender without a receiver is told that nothing more comes, and leaves. */
static void serve(SOCKET client)
{
    struct pair *pair = (struct pair *)conn_new(client, sizeof *pair);
    if (!pair)
        return;
    pair->threads = 2; /* all zeroes: SRWLOCK_INIT, CONDITION_VARIABLE_INIT */
    bool sends = start_thread(send_all, pair);
    if (sends && start_thread(receive_all, pair))
        return;
    pair->refused = true;
    pair_received(pair, 0);
    if (!sends)
        pair_leave(pair);
    pair_leave(pair);
}

_Noreturn void blocking_run(const struct server *server)
{
    for (;;) {
        SOCKET client = net_accept(server->listener);
        if (client != INVALID_SOCKET)
            serve(client);
    }
}
