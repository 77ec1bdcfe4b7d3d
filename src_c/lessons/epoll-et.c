/* epoll-et.c -- epoll once more, edge-triggered (EPOLLET).
 *
 *     { epoll_wait -> for each that changed: { receive -> send } until EAGAIN }
 *
 * epoll tells of changes only, and not again that some bytes are left. So a
 * client is read from until recv() says EAGAIN, or written to until send()
 * does; stopping earlier means waiting for an event that never comes, which is
 * the classic fault of this kind. In return each client is watched once, for
 * both directions, and its interest never changes.
 *
 * The price is one recv() more per event, in vain, and a client that sends as
 * fast as we answer keeps us in the inner loop: models/epoll-et.c avoids both.
 * Try: strace -c build/lessons/epoll-et. Clients that pause (--think 5ms) show
 * the errors of recvfrom; others, how rarely epoll_wait is called at all.
 */
#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

struct client {
    int fd;
    size_t start, end; /* of what is unsent, in: */
    char buffer[16384];
};

static int epoll_fd;

static int start_listening(const char *port)
{
    struct sockaddr_in at = {.sin_family = AF_INET,
                             .sin_port = htons((unsigned short)atoi(port)),
                             .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (bind(fd, (struct sockaddr *)&at, length) || listen(fd, SOMAXCONN))
        err(1, "listen");
    getsockname(fd, (struct sockaddr *)&at, &length);
    dprintf(1,
            "{\"event\":\"ready\",\"model\":\"lesson\","
            "\"host\":\"127.0.0.1\",\"port\":%d}\n",
            ntohs(at.sin_port));
    return fd;
}

/* Whatever can be done now: reads when nothing is unsent, sends what is there.
 * Returns 0 when the client has ended or the connection is broken. */
static int advance(int fd, struct client *c)
{
    if (c->start == c->end) {
        ssize_t n = recv(fd, c->buffer, sizeof c->buffer, 0);
        if (n <= 0)
            return n < 0 && (errno == EAGAIN || errno == EINTR);
        c->start = 0;
        c->end = (size_t)n;
    }
    ssize_t n = send(fd, c->buffer + c->start, c->end - c->start, MSG_NOSIGNAL);
    if (n < 0)
        return errno == EAGAIN || errno == EINTR;
    c->start += (size_t)n;
    return 1;
}

static void serve_client(struct client *c)
{
    for (errno = 0; errno != EAGAIN;) /* of the last call that failed */
        if (!advance(c->fd, c)) {
            close(c->fd); /* epoll forgets a descriptor that is closed */
            free(c);      /* it has one event a call: no other points here */
            return;
        }
}

static void accept_client(int listen_fd)
{
    int fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK);
    struct client *c = fd < 0 ? NULL : calloc(1, sizeof *c);
    struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET,
                                .data.ptr = c};
    if (c)
        c->fd = fd;
    else if (fd < 0)
        usleep(1000); /* EMFILE: it is told of until another client leaves */
    if (fd >= 0 && (!c || epoll_ctl(epoll_fd, EPOLL_CTL_ADD, fd, &event) < 0)) {
        close(fd);
        free(c);
    }
}

/* The listening socket stays level-triggered: clients that wait in its backlog
 * for a descriptor (EMFILE) would not be told of again. */
int main(int argc, char **argv)
{
    int listen_fd = start_listening(argc > 1 ? argv[1] : "0");
    struct epoll_event events[256], listener = {.events = EPOLLIN};
    epoll_fd = epoll_create1(0);
    epoll_ctl(epoll_fd, EPOLL_CTL_ADD, listen_fd, &listener);
    for (;;) {
        int n = epoll_wait(epoll_fd, events, 256, -1); /* -1: EINTR */
        for (int i = 0; i < n; i++)
            if (events[i].data.ptr)
                serve_client(events[i].data.ptr);
            else /* not told with a pointer: the listening socket */
                accept_client(listen_fd);
    }
}
