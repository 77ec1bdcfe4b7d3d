/* prefork-pass.c -- the parent accepts and passes descriptors to its children.
 *
 *     parent: accept -> sendmsg the descriptor -> close -> accept
 *     child:  recvmsg -> read -> answer -> ... -> close -> recvmsg
 *
 * Good: one place decides who is let in and in which order, and could say who
 *       serves whom; the children need no listening socket, so they may run
 *       with fewer rights, or another program.
 * Bad:  four calls and a wake-up more for each connection, and the parent is
 *       one process: a new connection waits until the parent comes to it.
 * Look: the socket between them is the queue: all children receive from one
 *       end, each message goes to one of them (SOCK_SEQPACKET keeps messages
 *       whole), and a send buffer as small as possible holds back what nobody
 *       takes. A descriptor in a message lives on, even if its sender closes
 *       it. In the wild: Node's cluster module (the primary accepts, round
 *       robin); HAProxy and Envoy hand listening sockets to their successors
 *       this way; chapter 30 of "UNIX Network Programming".
 * Needs: SCM_RIGHTS (unix(7)); descriptors in flight count against
 *       RLIMIT_NOFILE of the sender's user (Linux 4.5).
 * Try:  strace -f -e trace=accept4,sendmsg,recvmsg: one of each per client.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "blocking/blocking.h"
#include "blocking/preforked.h"
#include "server/net.h"
#include "server/stop.h"

/* The two ends of the queue, and a client that waits for a place in it, or -1.
 * A child that is started meanwhile has that descriptor as well, and has to
 * close it: the client's connection would else end with the child. */
enum { TAKE, PUT, WAITING, QUEUE_FDS };

/* A message: who the client is, and beside the data its descriptor. */
union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(sizeof(int))];
};

static struct msghdr pass_message(struct iovec *data, union control *control)
{
    return (struct msghdr){.msg_iov = data,
                           .msg_iovlen = 1,
                           .msg_control = control->bytes,
                           .msg_controllen = sizeof control->bytes};
}

/* Returns false with errno: EAGAIN when the queue is full. */
static bool pass_put(int put_fd, struct arrival *arrival)
{
    union control control = {0};
    struct iovec data = {&arrival->peer, sizeof arrival->peer};
    struct msghdr out = pass_message(&data, &control);
    struct cmsghdr *rights = CMSG_FIRSTHDR(&out);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof arrival->fd);
    memcpy(CMSG_DATA(rights), &arrival->fd, sizeof arrival->fd);
    return sendmsg(put_fd, &out, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0;
}

/* Waits for the next one; during a stop takes what is there. Returns its
 * descriptor, or one of ACCEPT_…: see net_accept(). */
static int pass_take(struct server *server, int take_fd,
                     struct sockaddr_in6 *peer)
{
    union control control;
    struct iovec data = {peer, sizeof *peer};
    struct msghdr in = pass_message(&data, &control);
    int flags = MSG_CMSG_CLOEXEC | (stop_requested() ? MSG_DONTWAIT : 0), fd;
    ssize_t n = recvmsg(take_fd, &in, flags);
    if (n < 0)
        return errno == EINTR ? ACCEPT_NONE : ACCEPT_STOPPED;
    if (n == 0)
        return ACCEPT_STOPPED;
    struct cmsghdr *rights = CMSG_FIRSTHDR(&in);
    if (!rights) { /* our own table of descriptors is full */
        stats_refused(server->stats, REFUSED_DESCRIPTORS);
        return ACCEPT_NONE;
    }
    memcpy(&fd, CMSG_DATA(rights), sizeof fd);
    return fd;
}

static void prefork_pass_serve(struct server *server, unsigned worker,
                               void *shared)
{
    const int *queue = shared;
    close(server->listen_fd);
    close(queue[PUT]);
    if (queue[WAITING] >= 0)
        close(queue[WAITING]);
    for (int fd;;) {
        struct sockaddr_in6 peer;
        fd = pass_take(server, queue[TAKE], &peer);
        if (fd == ACCEPT_STOPPED)
            return;
        if (fd >= 0)
            blocking_serve_fd(server, worker, fd, &peer);
    }
}

static void pass_on(struct preforked *children, int *queue,
                    struct arrival *arrival)
{
    bool passed;
    queue[WAITING] = arrival->fd;
    while (!(passed = pass_put(queue[PUT], arrival)) && errno == EAGAIN &&
           !stop_requested())
        preforked_await(children, queue[PUT], POLLOUT);
    queue[WAITING] = -1;
    if (passed)
        close(arrival->fd);
    else /* ETOOMANYREFS: too many are in flight; EAGAIN: a stop */
        net_refuse(children->server, arrival->fd,
                   stop_requested() ? REFUSED_STOPPING : net_refusal(errno));
}

static void pass_accept_all(struct preforked *children, int *queue)
{
    struct server *server = children->server;
    while (!stop_requested()) {
        struct arrival arrival = {0};
        if (!preforked_await(children, server->listen_fd, POLLIN))
            continue;
        arrival.fd = net_accept(server, &arrival.peer, 0);
        if (arrival.fd >= 0)
            pass_on(children, queue, &arrival);
    }
}

/* Who was put into the queue when no child was left to take him out. */
static void pass_refuse_rest(struct server *server, int take_fd)
{
    struct sockaddr_in6 peer;
    for (int fd; (fd = pass_take(server, take_fd, &peer)) != ACCEPT_STOPPED;)
        if (fd >= 0)
            net_refuse(server, fd, REFUSED_STOPPING);
}

static int prefork_pass_run(struct server *server)
{
    int queue[QUEUE_FDS] = {[WAITING] = -1};
    int least = 0; /* the kernel makes it a few messages */
    if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, queue) < 0 ||
        setsockopt(queue[PUT], SOL_SOCKET, SO_SNDBUF, &least, sizeof least) ||
        fcntl(server->listen_fd, F_SETFL, O_NONBLOCK) < 0) {
        warn("socketpair");
        return -1;
    }
    struct preforked children = {
        .server = server, .serve = prefork_pass_serve, .shared = queue};
    bool started = preforked_start(&children);
    if (started)
        pass_accept_all(&children, queue);
    close(queue[PUT]);
    preforked_end(&children);
    pass_refuse_rest(server, queue[TAKE]);
    close(queue[TAKE]);
    return started ? 0 : -1;
}

const struct model_code prefork_pass_model = {.run = prefork_pass_run};
