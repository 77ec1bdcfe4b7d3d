/* uring_accept.c -- see uring_accept.h. */
#include "uring_accept.h"

#ifdef HAVE_URING

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

void uring_accept_arm(struct uring_listener *listener)
{
    struct io_uring_sqe *entry = uring_entry(listener->ring);
    io_uring_prep_multishot_accept(entry, listener->server->listen_fd, NULL,
                                   NULL, SOCK_CLOEXEC);
    entry->user_data = listener->accept;
}

void uring_accept_cancel(struct uring_listener *listener)
{
    struct io_uring_sqe *entry = uring_entry(listener->ring);
    io_uring_prep_cancel64(entry, listener->accept, 0);
    entry->user_data = URING_NOBODY;
}

/* At a limit, an armed accept fails at once and for ever, even when nobody
 * connects: waits for a client, then lets net_accept() refuse. */
static void uring_accept_poll(struct uring_listener *listener)
{
    struct io_uring_sqe *entry = uring_entry(listener->ring);
    io_uring_prep_poll_add(entry, listener->server->listen_fd, POLLIN);
    entry->user_data = listener->ready;
}

struct sockaddr_in6 uring_peer(const struct server *server, int fd)
{
    struct sockaddr_in6 peer = {0};
    socklen_t length = sizeof peer;
    if (server->options.log_path)
        getpeername(fd, (struct sockaddr *)&peer, &length);
    return peer;
}

/* A multishot accept cannot return peers' addresses: its one place for an
 * address is written anew by each completion. */
int uring_accepted(struct uring_listener *listener,
                   const struct io_uring_cqe *cqe, struct sockaddr_in6 *peer)
{
    if (cqe->res < 0) {
        if (cqe->res != -ECANCELED)
            uring_accept_poll(listener);
        return ACCEPT_NONE;
    }
    if (!(cqe->flags & IORING_CQE_F_MORE))
        uring_accept_arm(listener);
    if (!net_accepted(listener->server, cqe->res))
        return ACCEPT_NONE;
    *peer = uring_peer(listener->server, cqe->res);
    return cqe->res;
}

int uring_listener_ready(struct uring_listener *listener,
                         struct sockaddr_in6 *peer)
{
    int listen_fd = listener->server->listen_fd;
    fcntl(listen_fd, F_SETFL, O_NONBLOCK);
    int fd = net_accept(listener->server, peer, 0);
    fcntl(listen_fd, F_SETFL, 0); /* or an armed accept would fail */
    if (fd != ACCEPT_STOPPED)
        uring_accept_arm(listener);
    return fd;
}

#endif
