/* blocking.c -- see blocking.h. */
#include "blocking.h"

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>

#include "blocking_redis.h"
#include "common/clock.h"
#include "server/net.h"
#include "server/stop.h"

/* Waits until the socket is ready, for `events` of poll(2), or the deadline has
 * passed: then false, with EAGAIN. (A stop that is overdue has shut the socket,
 * which makes it ready.) */
static bool in_time(const struct conn *conn, short events)
{
    struct pollfd client = {.fd = conn->fd, .events = events};
    uint64_t now = clock_now_ns(), end = conn_deadline_ns(conn);
    if (now < end) {
        struct timespec left = clock_timespec(end - now);
        int n = ppoll(&client, 1, &left, NULL);
        if (n != 0)
            return n > 0; /* or EINTR, and it is asked again */
    }
    errno = EAGAIN;
    return false;
}

/* SO_RCVTIMEO bounds each recv(), so for a head or a body, which has one
 * deadline however many bytes come one by one, the wait is ppoll's. EAGAIN may
 * come a tick (up to 10 ms) before the deadline. */
static ssize_t kernel_receive(struct conn *conn, char *buffer, size_t size)
{
    if (conn->phase != TIMEOUT_IDLE && conn_deadline_ns(conn) != UINT64_MAX &&
        !in_time(conn, POLLIN))
        return -1;
    ssize_t n = recv(conn->fd, buffer, size, 0);
    if (n < 0 && errno == EAGAIN && in_time(conn, POLLIN))
        errno = EINTR; /* try again */
    return n;
}

/* What tells a client that it was cut has a deadline also without SO_SNDTIMEO,
 * as when --timeout-header was given alone. */
static ssize_t kernel_send(struct conn *conn)
{
    struct span out = conn_unsent(conn);
    int flags = MSG_NOSIGNAL | (conn->timed_out ? MSG_DONTWAIT : 0);
    ssize_t n = send(conn->fd, out.bytes, out.length, flags);
    if (n < 0 && errno == EAGAIN && in_time(conn, POLLOUT))
        errno = EINTR;
    return n;
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
    .ask = blocking_redis_ask,
};

static enum want on_failure(struct conn *conn, enum want again)
{
    if (errno == EAGAIN)
        return conn_timed_out(conn);
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
        case WANT_ASK: want = calls->ask(conn); break;
        case WANT_CLOSE: break;
        }
    }
}

void blocking_limit_waits(const struct server *server, int fd)
{
    uint64_t us = (server->options.timeout_ns[TIMEOUT_IDLE] + 999) / 1000;
    if (us == 0)
        return;
    struct timeval limit = {.tv_sec = (time_t)(us / 1000000),
                            .tv_usec = (suseconds_t)(us % 1000000)};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
}

void blocking_serve_fd(struct server *server, unsigned index, int fd,
                       const struct sockaddr_in6 *peer)
{
    struct blocking_buffers buffers;
    struct worker worker = {server, index, {.spare = buffers.out}};
    struct conn *conn = conn_open(&worker, fd, peer, 0);
    if (!conn)
        return;
    blocking_limit_waits(server, fd);
    blocking_converse(conn, buffers.in, sizeof buffers.in, &blocking_kernel);
    conn_close(conn);
    conn_free(conn, 0);
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
