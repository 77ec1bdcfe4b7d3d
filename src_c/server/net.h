/* net.h -- sockets, and the three grades of error.
 *
 *   set-up fails             err(3): the call and the reason, exit 1
 *   a peer's fault, a limit  counted in stats; the server goes on
 *   our own bug              assert()
 */
#ifndef NET_H
#define NET_H

#include <netinet/in.h>

#include "model.h"

/* A wait that `call` was to make failed, for errno: a signal came, or there was
 * no memory for it just now, which is counted, and after a moment's pause the
 * caller may try again. For any other reason dies. */
void net_wait_failed(struct server *server, const char *call);

/* A listening TCP socket at options->host and port (0: the kernel chooses),
 * with TCP_NODELAY, and with SO_OOBINLINE, so that urgent bytes are bytes like
 * others: accepted sockets inherit both. `shared` lets more sockets listen
 * there (SO_REUSEPORT, Linux 3.9). Dies on failure. */
int net_listen(const struct options *options, bool shared);

/* The port that a socket is bound to, in host order. */
uint16_t net_port(int fd);

/* What net_accept() returns when there is no connection to give. */
enum {
    ACCEPT_NONE = -1,    /* nothing waits, or it left again, or was refused */
    ACCEPT_STOPPED = -2, /* the listening socket was shut: stop */
};

/* A connection that was accepted and is to be opened by somebody else. An IPv4
 * address fills half of `peer`: zero it before it crosses a pipe. */
struct arrival {
    int fd;
    struct sockaddr_in6 peer;
};

/* Takes one connection from the server's listening socket.
 *
 * flags: SOCK_NONBLOCK or 0. Returns a descriptor with *peer filled in, or one
 * of the above. At the limit of descriptors the connection is accepted with a
 * reserve, closed and counted: it would otherwise stay in the backlog and wake
 * us for ever. When the kernel has no memory for it just now, it stays there,
 * the error is counted, and we return after a moment's pause. */
int net_accept(struct server *server, struct sockaddr_in6 *peer, int flags);

/* Of a connection that was accepted otherwise, as io_uring does: whether it
 * stays. False: it took the reserve's place, and is refused and counted. */
bool net_accepted(struct server *server, int fd);

/* Closes a connection that a limit of ours does not let in, and counts it. */
void net_refuse(struct server *server, int fd, enum refusal reason);

/* What a refusal is counted under where a thread, a descriptor or memory was
 * wanted, and `error` is why there is none. */
enum refusal net_refusal(int error);

/* Raises the soft limit of descriptors to the hard one, or to STOP_FDS if that
 * is less; opens the reserve. */
void net_raise_limits(void);

#endif
