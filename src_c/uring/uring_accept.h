/* uring_accept.h -- an accept that stays armed: one completion a connection.
 *
 *     multishot accept (Linux 5.19) -> uring_accepted() -> a socket
 *        |  at a limit: out of descriptors or memory
 *        v
 *     poll of the listening socket  -> uring_listener_ready() -> net_accept()
 *                                      refuses, and the accept is armed anew
 */
#ifndef URING_ACCEPT_H
#define URING_ACCEPT_H

#include "server/net.h"
#include "uring.h"

#ifdef HAVE_URING

struct uring_listener {
    struct io_uring *ring;
    struct server *server;  /* accepts from its listen_fd */
    uint64_t accept, ready; /* user_data of the two operations */
};

void uring_accept_arm(struct uring_listener *listener);
void uring_accept_cancel(struct uring_listener *listener);

/* A completion of either came: the socket, with its peer's address; or a
 * negative number, ACCEPT_STOPPED once there will be no more. */
int uring_accepted(struct uring_listener *listener,
                   const struct io_uring_cqe *cqe, struct sockaddr_in6 *peer);
int uring_listener_ready(struct uring_listener *listener,
                         struct sockaddr_in6 *peer);

/* Where a socket that was accepted by a ring is connected to; zeros without
 * --log, which alone wants to know and for which it is a system call. */
struct sockaddr_in6 uring_peer(const struct server *server, int fd);

#endif
#endif
