/* blocking.c -- see blocking.h. */
#include "blocking.h"

#include <errno.h>
#include <sys/socket.h>

#include "redis/redis_blocking.h"
#include "server/net.h"
#include "server/stop.h"

static ssize_t kernel_receive(struct conn *conn, char *buffer, size_t size)
{
    return recv(conn->fd, buffer, size, 0);
}

static ssize_t kernel_send(struct conn *conn)
{
    struct span out = conn_unsent(conn);
    return send(conn->fd, out.bytes, out.length, MSG_NOSIGNAL);
}

static void kernel_sleep_until(struct conn *conn, uint64_t ns)
{
    (void)conn;
    stop_sleep_until(ns);
}

const struct blocking_calls blocking_kernel = {
    .receive = kernel_receive,
    .send = kernel_send,
    .sleep_until = kernel_sleep_until,
    .ask = links_ask,
};

static enum want on_failure(struct conn *conn, enum want again)
{
    return errno == EINTR ? again : conn_failed(conn, errno);
}

void blocking_converse(struct conn *conn, char *buffer, size_t size,
                       const struct blocking_calls *calls)
{
    enum want want = WANT_READ;
    while (want != WANT_CLOSE) {
        ssize_t n;
        switch (want) {
        case WANT_READ:
            n = calls->receive(conn, buffer, size);
            want = n < 0 ? on_failure(conn, WANT_READ)
                         : conn_received(conn, buffer, (size_t)n);
            break;
        case WANT_WRITE:
            n = calls->send(conn);
            want = n < 0 ? on_failure(conn, WANT_WRITE)
                         : conn_sent(conn, (size_t)n);
            break;
        case WANT_SLEEP:
            calls->sleep_until(conn, conn->wake_ns);
            want = conn_woken(conn);
            break;
        case WANT_ASK:
            want = calls->ask(conn);
            break;
        case WANT_CLOSE:
            break;
        }
    }
}

void blocking_serve(struct conn *conn, char *buffer, size_t size,
                    const struct blocking_calls *calls)
{
    blocking_converse(conn, buffer, size, calls);
    conn_close(conn);
    conn_free(conn, 0);
}

void blocking_serve_fd(struct server *server, unsigned index, int fd,
                       const struct sockaddr_in6 *peer)
{
    struct blocking_buffers buffers;
    struct worker worker = {server, index, buffers.room};
    struct conn *conn = conn_open(&worker, fd, peer, 0);
    if (conn)
        blocking_serve(conn, buffers.in, sizeof buffers.in, &blocking_kernel);
}

void blocking_serve_all(struct server *server, unsigned index)
{
    while (!stop_requested()) {
        struct sockaddr_in6 peer;
        int fd = net_accept(server, &peer, 0);
        if (fd >= 0)
            blocking_serve_fd(server, index, fd, &peer);
    }
}
